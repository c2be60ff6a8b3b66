"""Progress of long work: one line that appears after a second and is gone when the work ends.

What lives here: :func:`progress`, and the two places the line can be in: a terminal's error stream, and
a notebook's cell (a widget, closed at the end, so that nothing of it stays in the stored output).
What it does not know: what is worked on.

Nothing is shown where nobody watches: pipes, continuous integration, notebooks that pytest or another
program runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

PATIENCE = 1.0
"""Seconds before anything is shown: shorter work is over before one has read it."""
MIN_INTERVAL = 0.2  # seconds between two drawings; more often only flickers


class Surface(Protocol):
    """Where one line can be drawn again and again."""

    def show(self, text: str) -> None:
        """Draw the line in place of the last one."""

    def clear(self) -> None:
        """Leave no trace of it."""


@contextmanager
def progress(
    what: str, total: int | None = None, surface: Surface | None = None, patience: float = PATIENCE
) -> Iterator[Callable[[], None]]:
    """Show ``what`` while the block runs; the function it gives counts one of ``total`` as done.

    Args:
        surface: where to draw; found out unless given.
        patience: seconds before the first drawing.

    >>> with progress("looking for rows", total=2) as done:
    ...     done()
    """
    line = _Line(what, total, surface if surface is not None else _surface())
    timer = threading.Timer(patience, line.begin)
    timer.daemon = True
    if line.surface is not None:
        timer.start()
    try:
        yield line.step
    finally:
        timer.cancel()
        line.end()


class _Line:
    """The line: its count, and whether it is drawn yet. A timer and the work may call at a time."""

    def __init__(self, what: str, total: int | None, surface: Surface | None) -> None:
        self.what, self.total, self.surface = what, total, surface
        self.done = 0
        self._state = "waiting"
        self._drawn_at = 0.0
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        """What is drawn."""
        return self.what if self.total is None else f"{self.what}: {self.done:,} of {self.total:,}"

    def begin(self) -> None:
        """Patience is over."""
        with self._lock:
            if self._state == "waiting":
                self._state = "shown"
                self._draw()

    def step(self) -> None:
        """One more is done."""
        from time import monotonic

        with self._lock:
            self.done += 1
            if self._state == "shown" and monotonic() - self._drawn_at >= MIN_INTERVAL:
                self._drawn_at = monotonic()
                self._draw()

    def end(self) -> None:
        """The work is over."""
        with self._lock:
            if self._state == "shown" and self.surface is not None:
                with suppress(Exception):
                    self.surface.clear()
            self._state = "ended"

    def _draw(self) -> None:
        if self.surface is not None:
            with suppress(Exception):  # a closed terminal must not end the work
                self.surface.show(self.text)


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
            from IPython.display import display
            from ipywidgets import Label

            self._widget = Label(text)
            display(self._widget)
        self._widget.value = text

    def clear(self) -> None:
        """Close it: the page and the stored output forget it."""
        if self._widget is not None:
            self._widget.close()
            self._widget = None


def _surface() -> Surface | None:
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
