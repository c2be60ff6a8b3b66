"""What all steppers have in common: a trace of frames that only grows, looked at forwards and backwards.

What lives here: :class:`Stepped`, the frames, the one that is shown, and the lines that moving prints.
What it does not know: what a step does, and what a frame says (``stepper``, ``group_stepper``).

Going back shows an older frame and undoes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deltanb.text import formatting as units
from deltanb.text.safe_text import safe


class StepLine(str):
    """A line that was already printed; as the last expression of a cell it is not shown a second time."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        """Show nothing, as the line was printed."""


class Stepped:
    """A commit that is advanced step by step; each frame has a ``line``, a ``number`` and a ``state``."""

    def __init__(self, first: Any) -> None:
        self._frames = [first]
        self._at = 0
        self.error: BaseException | None = None
        """Why the commit failed."""
        self.panel: Any = None
        """Its buttons, once a notebook has shown it."""
        self._listeners: list[Callable[[], None]] = []

    # -- what there is to see --------------------------------------------------------------------

    @property
    def frames(self) -> tuple[Any, ...]:
        """All frames so far: the one before the first step, then one per step or rival."""
        return tuple(self._frames)

    @property
    def position(self) -> int:
        """The index in :attr:`frames` of the one that is shown."""
        return self._at

    @property
    def frame(self) -> Any:
        """The frame that is shown; an older one also says how the commit ended, if it has."""
        shown, newest = self._frames[self._at], self._frames[-1]
        is_newest = shown is newest
        ended = newest.state != "running"
        return replace(
            shown, total=newest.number if ended or not is_newest else None,
            ending=newest.line.split(" ", 1)[1] if ended and not is_newest else "")

    @property
    def is_done(self) -> bool:
        """Whether the commit has ended, one way or the other."""
        return bool(self._frames[-1].state != "running")

    @property
    def conflict(self) -> Any:
        """The conflict that made the commit fail; None if it has not failed or failed for another reason."""
        return getattr(self.error, "conflict", None)

    # -- the commit goes on ----------------------------------------------------------------------

    def advance(self) -> str:
        """As :meth:`step`, but the line is returned and not printed."""
        raise NotImplementedError

    def in_short(self) -> str:
        """How the commit ended."""
        raise NotImplementedError

    def step(self) -> StepLine:
        """Go on by one step, and print what happened as one line.

        At the end of the commit nothing more happens, and the line says so. A keyboard interrupt ends the
        commit and is raised, once it is known whether what was interrupted has landed.

        A notebook shows the line once. A prompt of Python shows a value again, and one of IPython an empty
        ``Out``, unless it has a name: ``_ = stepper.step()``.
        """
        return printed(self.advance())

    def run(self) -> StepLine:
        """Run the remaining steps; each one prints its line."""
        line = self.step()
        while not self.is_done:
            line = self.step()
        return line

    # -- the trace -------------------------------------------------------------------------------

    def back(self) -> StepLine:
        """Look at the frame before; nothing is undone."""
        return printed(self.move(self._at - 1))

    def first(self) -> StepLine:
        """Look at the first frame."""
        return printed(self.move(0))

    def last(self) -> StepLine:
        """Look at the newest frame."""
        return printed(self.move(len(self._frames) - 1))

    def next(self) -> StepLine:
        """Look at the frame after; at the newest one this is :meth:`step`."""
        if self._at == len(self._frames) - 1:
            return self.step()
        return printed(self.move(self._at + 1))

    def move(self, position: int) -> str:
        """Show the frame at an index, or the nearest there is, and return its line."""
        self._at = min(max(0, position), len(self._frames) - 1)
        self._tell()
        frame = self.frame
        line = str(frame.line)
        if not frame.ending:
            return line
        note = f" (looking back: {self.in_short()})"
        return units.fit(line, units.MAX_COLUMNS - len(note)) + note

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this function, without arguments, whenever another frame is shown."""
        self._listeners.append(listener)

    # -- inside ----------------------------------------------------------------------------------

    def _show(self, frame: Any) -> None:
        self._frames.append(frame)
        self._at = len(self._frames) - 1
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def printed(line: str) -> StepLine:
    """Print a line, and give it back as one that was printed."""
    line = safe(line)
    print(line)  # noqa: T201  what a step did is a cell's output
    return StepLine(line)
