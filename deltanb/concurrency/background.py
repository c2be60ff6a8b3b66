"""Work that nobody waits for: one thread does it, one thing after the other, and ends when nothing is left.

Lives here: :class:`Line`, the line in which such work waits, :func:`soon`, which puts work into that of the
process, and :func:`flush` and :func:`settle`, which wait until all or some of it is done.
What it does not know: what is done. It is work that may be left out, since whoever asked has gone on.

The thread is no daemon: the interpreter waits for it at its end. What waits by then is done for
:data:`AT_EXIT_SECONDS` more, and left out after that. A forked process begins with an empty line.
Commits go first: the work waits for them where it calls
:func:`deltanb.concurrency.precedence.yield_to_commits`.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from deltanb.concurrency.precedence import behind
from deltanb.errors import InvalidArgument
from deltanb.text.progress import unseen
from deltanb.text.safe_text import get_logger
from deltanb.text.spellings import answer_wrong_arguments

__all__ = ["flush"]

logger = get_logger(__name__)

AT_EXIT_SECONDS = 10.0
"""How long work that waits at the interpreter's end is still begun: a process that hangs is killed."""

FORK_SECONDS = 5.0
"""How long a fork waits for imports of other threads: one that forks in the middle of its own import may hold
them up itself."""
POLL = 0.001
"""Seconds between two looks."""
_pause = time.sleep
_IMPORTS = "<frozen importlib._bootstrap>"

Work = Callable[[], object]


def _is_ending() -> bool:
    return not threading.main_thread().is_alive()


class Line:
    """Work by key: what is put in under a key takes the place of what waits under it.

    >>> line, done = Line(), []
    >>> line.put("a", "the work", lambda: done.append(1))
    >>> line.flush(), done
    (True, [1])
    """

    def __init__(
        self, is_ending: Callable[[], bool] = _is_ending, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_ending, self._clock = is_ending, clock
        self.clear()

    def clear(self) -> None:
        """Begin anew, with nothing in line and no thread: the others of a forked process are not there."""
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, tuple[str, Work, int]] = {}
        self._doing: Hashable = None
        self._thread: threading.Thread | None = None
        self._until: float | None = None

    def put(self, key: Hashable, name: str, work: Work, rank: int = 0) -> None:
        """Have work done soon, under the settings of now; ``name`` is what a log entry calls it.

        What waits under the key with a higher rank stays, and stands for this work, too.
        Where there can be no thread, or the interpreter ends and waits for none, it is done here and now.
        """
        context = copy_context()

        def within() -> None:
            context.run(_unseen, work)

        with self._changed:
            is_taken = self._has_thread()
            if is_taken and (key not in self._waiting or self._waiting[key][2] <= rank):
                self._waiting[key] = name, within, rank
        if not is_taken:
            _do(name, within)

    def _has_thread(self) -> bool:
        """Whether there is a thread that will see what is put in; starts it."""
        if self._thread is None and not self._is_ending():
            from deltanb.concurrency import parallel

            assert parallel  # pools register their end when they are loaded, too late once the process ends
            thread = threading.Thread(target=self._run, name="deltanb-background", daemon=False)
            with suppress(RuntimeError):  # as many threads as there may be
                thread.start()
                self._thread = thread
        return self._thread is not None

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits or is being done; False if that takes more than ``timeout`` seconds."""
        with self._changed:
            if self._thread is threading.current_thread():
                return True  # it is asked from within the work itself
            seconds = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            return self._changed.wait_for(lambda: self._thread is None, seconds)

    def settle(self, concerns: Callable[[Any], bool]) -> None:
        """Wait until no work under a key that ``concerns`` is true of waits or is being done."""
        with self._changed:
            if self._thread is not threading.current_thread():
                self._changed.wait_for(
                    lambda: self._thread is None or not any(map(concerns, (self._doing, *self._waiting))))

    def _run(self) -> None:
        while (task := self._next()) is not None:
            with behind():
                _do(*task)

    def _next(self) -> tuple[str, Work] | None:
        with self._changed:
            if self._waiting and self._is_too_late():
                for name, *_ in self._waiting.values():
                    logger.warning("%s was skipped, because the process is ending", name)
                self._waiting.clear()
            self._doing = next(iter(self._waiting), None)
            self._changed.notify_all()
            if self._waiting:
                name, work, _ = self._waiting.pop(self._doing)
                return name, work
            self._thread = None
            return None

    def _is_too_late(self) -> bool:
        if not self._is_ending():
            return False
        if self._until is None:
            self._until = self._clock() + AT_EXIT_SECONDS
        return self._clock() > self._until


def _unseen(work: Work) -> None:
    with unseen():
        work()


def _do(name: str, work: Work) -> None:
    try:
        work()
    except BaseException:  # nobody is there to be told, and the rest of the line is others'
        logger.exception("%s failed", name)


_line = Line()


def soon(key: Hashable, name: str, work: Work, rank: int = 0) -> None:
    """Have work done in the background of this process; as :meth:`Line.put`."""
    _line.put(key, name, work, rank)


def settle(concerns: Callable[[Any], bool]) -> None:
    """Wait until what waits under some keys is done; as :meth:`Line.settle`."""
    _line.settle(concerns)


@answer_wrong_arguments()
def flush(timeout: float | dt.timedelta | None = None) -> bool:
    """Wait until what this process does in the background is done: the checkpoints of its commits.

    A commit returns before the checkpoint that is due behind it is written. Whoever copies the folder of a
    table, or deletes it, waits for that here. The interpreter waits at its end by itself;
    ``set_options(checkpoints="inline")`` has commits wait.

    Args:
        timeout: seconds to wait at most, or a ``timedelta``, from 0; None waits as long as it takes.

    Returns:
        Whether all of it is done.

    Raises:
        InvalidArgument: a timeout that is no number of seconds.

    >>> import deltanb as dn
    >>> table = dn.create("spots", {"id": [1]}, properties={"delta.checkpointInterval": 1})
    >>> _ = table.append({"id": [2]})
    >>> dn.flush()
    True
    """
    if isinstance(timeout, dt.timedelta):
        timeout = timeout.total_seconds()
    if timeout is not None and (
            not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout >= 0):
        raise InvalidArgument(
            f"flush takes a timeout in seconds or a timedelta, from 0, or None; found {timeout!r:.80}")
    return _line.flush(timeout)


def _is_importing(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _let_imports_end() -> None:
    """Wait until no thread of this library imports a module: in a forked process nobody would end that, and
    whoever needs the module there would wait for ever."""
    until = time.monotonic() + FORK_SECONDS
    others = [thread for thread in threading.enumerate()
              if thread.name.startswith("deltanb") and thread is not threading.current_thread()]
    while any(map(_is_importing, others)) and time.monotonic() < until:
        _pause(POLL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_imports_end, after_in_child=_line.clear)
