"""Progress of a notebook's cells: how far Spark is with the jobs of the user's own code.

What lives here: :func:`watch_cells`, for sessions started here. Work of this library has its own lines
(:mod:`deltanb.engines.spark.jobs`), and jobs in another job group are left to whoever named it.
What it does not know: what is run.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deltanb.engines.spark.jobs import CELL, GROUP, running_tasks, tell_tasks
from deltanb.text.progress import PATIENCE, TICK, Line, Surface, surface_here

_numbers = itertools.count(1)


def watch_cells(session: Any) -> None:
    """From the next cell on, show a progress line while a job of the cell's code runs for seconds.

    Does nothing outside of notebooks or if progress is switched off. It ends with the session.
    """
    surface = surface_here() if "IPython" in sys.modules else None
    if surface is None:
        return
    from IPython import get_ipython

    if (shell := get_ipython()) is not None:
        Cells(session, shell.events, surface)


class Cells:
    """The jobs of a session, by the cell that started them."""

    def __init__(self, session: Any, events: Any, surface: Surface) -> None:
        self._session: Any = weakref.ref(session)
        self._events, self._surface, self._group = events, surface, ""
        self._ended = threading.Event()
        events.register("pre_run_cell", self.begin)
        events.register("post_run_cell", self.end)

    def begin(self, _: Any = None) -> None:
        """A cell begins: its jobs get a group, unless they have a named one."""
        try:
            context = self._session().sparkContext
            if context.getLocalProperty(GROUP) is not None:
                return
            group = f"{CELL}{next(_numbers)}"
            context.setLocalProperty(GROUP, group)
            look = self.looking(context.statusTracker(), group)
        except Exception:  # the session is gone, or stopped
            self._events.unregister("pre_run_cell", self.begin)
            self._events.unregister("post_run_cell", self.end)
            return
        self._group, self._ended = group, threading.Event()
        threading.Thread(
            target=self._watch, name="deltanb cell", daemon=True, args=(self._ended, look)).start()

    def end(self, _: Any = None) -> None:
        """The cell has ended: remove the line, and the group if it is still ours."""
        self._ended.set()
        self._surface.clear()
        with suppress(Exception):  # a session that was stopped in the cell
            context = self._session().sparkContext
            if context.getLocalProperty(GROUP) == self._group:
                context.setLocalProperty(GROUP, None)

    def looking(self, tracker: Any, group: str) -> Callable[[], None]:
        """A function to call every second: it draws the progress of the running job, if there is one."""
        line = Line("Spark")

        def look() -> None:
            tasks = running_tasks(tracker, group)
            if tasks is None:
                self._surface.clear()
                return
            tell_tasks(line, tasks)
            self._surface.show(line.description)

        return look

    def _watch(self, ended: threading.Event, look: Callable[[], None]) -> None:
        wait = PATIENCE
        while not ended.wait(wait):
            with suppress(Exception):  # who is asked, or where it is drawn, may be gone by now
                look()
            wait = TICK
        with suppress(Exception):
            self._surface.clear()  # once more: it may have been drawn while the cell ended
