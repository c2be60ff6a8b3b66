"""Progress of long work: one line that appears after two seconds and is gone when the work ends.

What lives here: :func:`progress`, and the two places the line can be in: a terminal's error stream, and
a notebook's cell (a widget, closed at the end, so that nothing of it stays in the stored output).
What it does not know: what is worked on.

Nothing is shown where nobody watches: pipes, continuous integration, notebooks that pytest or another
program runs. Work within work that is shown (a job of Spark's within a command) has no line of its own: it
is said behind the outer one's.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any, Protocol

from deltanb.text.formatting import duration

PATIENCE = 2.0
"""Seconds before anything is shown: shorter work is over before one has read it."""
MIN_INTERVAL = 0.2  # seconds between two drawings; more often only flickers
TICK = 1.0  # seconds after which the time is drawn anew while nothing else is told


class Surface(Protocol):
    """Where one line can be drawn again and again."""

    def show(self, text: str) -> None:
        """Draw the line in place of the last one."""

    def clear(self) -> None:
        """Leave no trace of it."""


@contextmanager
def progress(
    what: str, total: int | None = None, surface: Surface | None = None, patience: float = PATIENCE
) -> Iterator[Line]:
    """Show ``what``, and how long it has taken, while the block runs.

    What it gives is called for each one of ``total`` that is done.

    Args:
        surface: where to draw; found out unless given.
        patience: seconds before the first drawing.

    >>> with progress("looking for rows", total=2) as done:
    ...     done()
    """
    outer = _current.get() if surface is None else None
    if outer is not None and outer.is_over:
        outer = None
    watched = None if outer is not None else surface if surface is not None else surface_here()
    line = Line(what, total, watched, patience, outer=outer)
    token = _current.set(line)
    if watched is not None:
        with suppress(RuntimeError):  # no more threads, or none at all: it is drawn when one more is done
            threading.Thread(target=line.watch, name="deltanb progress", daemon=True).start()
    try:
        yield line
    finally:
        with suppress(ValueError):  # a block that is left in another context: in another cell
            _current.reset(token)
        line.end()


@contextmanager
def unseen() -> Iterator[None]:
    """Show nothing of the work in the block: nobody waits for it.

    >>> with unseen(), progress("looking for rows") as line:
    ...     line.is_watched
    False
    """
    line = Line("work that nobody waits for")
    token = _current.set(line)
    try:
        yield
    finally:
        _current.reset(token)
        line.end()


class Line:
    """The line: what is counted, and whether it is drawn yet. The watching thread and the work may call at a
    time.
    """

    def __init__(
        self, what: str, total: int | None = None, surface: Surface | None = None, patience: float = PATIENCE,
        clock: Callable[[], float] = monotonic, outer: Line | None = None,
    ) -> None:
        self.what, self.total, self.surface, self.patience = what, total, surface, patience
        self.done = 0
        self.unit = self.part = ""
        self.ask: Callable[[], None] | None = None
        """Called before each drawing of the watching thread, to learn how far the work is; it may fail."""
        self.is_over = False
        self._clock, self._outer = clock, outer
        self._inner: Line | None = None
        self._begun = clock()
        self._drawn_at: float | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if outer is not None:
            outer._inner = self

    @property
    def is_watched(self) -> bool:
        """Whether it is drawn anywhere, be it behind an outer one."""
        return self.surface is not None if self._outer is None else self._outer.is_watched

    @property
    def text(self) -> str:
        """What is drawn."""
        parts = [self.description]
        if self._inner is not None:
            parts.append(self._inner.description)
        seconds = int(self._clock() - self._begun)
        if seconds:
            parts.append(f"{seconds} s" if seconds < 60 else duration(seconds * 1000))
        return ", ".join(parts)

    @property
    def description(self) -> str:
        """The task and its progress."""
        if self.total is None:
            return self.what
        part = f"{self.part}, " if self.part else ""
        return f"{self.what}: {part}{self.done:,} of {self.total:,} {self.unit}".rstrip()

    def __call__(self) -> None:
        """One more is done."""
        with self._lock:
            self.done += 1
        self.tell()

    def at(self, done: int, total: int, unit: str = "", part: str = "") -> None:
        """So many of so many are done by now, of the work or of a part of it."""
        with self._lock:
            self.done, self.total, self.unit, self.part = done, total, unit, part
        self.tell()

    def tell(self, least: float = MIN_INTERVAL) -> None:
        """Draw the line, if it is time: its patience is over, and the last drawing ``least`` seconds ago."""
        if self._outer is not None:
            self._outer.tell(least)
            return
        with self._lock:
            now = self._clock()
            early = now - self._begun < self.patience
            recent = self._drawn_at is not None and now - self._drawn_at < least
            if self.surface is None or self.is_over or early or recent:
                return
            self._drawn_at = now
            with suppress(Exception):  # a closed terminal must not end the work
                self.surface.show(self.text)

    def watch(self) -> None:
        """Draw the line when its patience is over, and its time every second, until the work ends."""
        wait = self.patience
        while not self._ended.wait(wait):
            self._learn()
            self.tell()
            wait = TICK

    def _learn(self) -> None:
        """Ask how far the work is, and the work within it."""
        line: Line | None = self
        while line is not None:
            ask = line.ask
            if ask is not None:
                with suppress(Exception):  # whoever is asked may be gone by now
                    ask()
            line = line._inner

    def end(self) -> None:
        """The work is over."""
        self._ended.set()
        if self._outer is not None and self._outer._inner is self:
            self._outer._inner = None
        with self._lock:
            self.is_over = True
            if self._drawn_at is not None and self.surface is not None:
                with suppress(Exception):
                    self.surface.clear()


_current: ContextVar[Line | None] = ContextVar("deltanb.text.progress", default=None)
"""The line of the work that goes on in this context."""


class Terminal:
    """The last line of a terminal."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._width = 0

    def show(self, text: str) -> None:
        """Draw over the line."""
        self.stream.write("\r" + text.ljust(self._width))
        self.stream.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Blank it, and go back to its start."""
        self.stream.write("\r" + " " * self._width + "\r")
        self.stream.flush()
        self._width = 0


class Cell:
    """A widget below a notebook's cell."""

    def __init__(self) -> None:
        self._widget: Any = None

    def show(self, text: str) -> None:
        """Make the widget, or change its text."""
        if self._widget is None:
            from IPython.display import publish_display_data
            from ipywidgets import Label

            self._widget = Label(text)
            # A saved notebook keeps the output of a closed widget, of which the text form is then seen.
            publish_display_data({**self._widget._repr_mimebundle_(), "text/plain": ""})
        self._widget.value = text

    def clear(self) -> None:
        """Close it: the page and the stored output forget it."""
        if self._widget is not None:
            self._widget.close()
            self._widget = None


def surface_here() -> Surface | None:
    """Where a person watches, if one does."""
    if os.environ.get("CI") or "PYTEST_CURRENT_TEST" in os.environ:  # nbval's kernels inherit it
        return None
    if "ipykernel" in sys.modules and "IPython" in sys.modules:
        watched = any(name in os.environ for name in ("JPY_SESSION_NAME", "VSCODE_PID"))
        return Cell() if watched and _has_widgets() else None
    return Terminal(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None


def _has_widgets() -> bool:
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None
