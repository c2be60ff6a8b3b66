"""Stacks of their own: functions that run side by side, one at a time, and what they run on.

What lives here: :class:`Stack`, a function that goes on where it stopped, :class:`Gate`, at which it stops,
and :func:`has_threads`. A stack is a thread or, on a machine that starts none, a call that Pyodide suspends
(``pyodide.ffi.run_sync``, by JavaScript Promise Integration). All of those are in one thread: what code keeps
per thread is put aside while another one runs, if :func:`of_each` knows of it.
What it does not know: what the functions do, and who has the next turn.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol

from deltanb.errors import NoThreads

__all__ = ["Gate", "Stack", "apart", "gate", "has_threads", "is_refusal", "name_of_this", "of_each"]

REFUSAL = "can't start new thread"
"""What CPython says where there can be no more threads, or none at all."""

_has_started: list[bool] = []
_locals: list[tuple[threading.local, Callable[[], dict[str, Any]]]] = []
_name: ContextVar[str] = ContextVar("deltanb.concurrency.stacks.name", default="")


def is_refusal(error: RuntimeError) -> bool:
    """Whether it says that there can be no thread.

    >>> is_refusal(RuntimeError("can't start new thread")), is_refusal(RuntimeError("no"))
    (True, False)
    """
    return REFUSAL in str(error)


def has_threads() -> bool:
    """Whether this machine starts threads; one is started to see, until one was.

    >>> has_threads()
    True
    """
    if not _has_started:
        trial = threading.Thread(target=_nothing, name="deltanb-trial", daemon=True)
        try:
            trial.start()
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            return False
        trial.join()
        _has_started.append(True)
    return True


def _nothing() -> None:
    pass


def require(caller: str) -> None:
    """See that functions can run side by side here.

    Raises:
        NoThreads: they cannot.

    >>> require("dn.race")
    """
    if not has_threads() and not _can_suspend():
        raise NoThreads(
            f"{caller} runs functions side by side, and this Python starts no threads. "
            + ("Nor can a call be suspended: the browser has no JavaScript Promise Integration, or the code "
               "was not run by runPythonAsync. Use a browser that has it (Chrome and Edge from version 137)"
               if "pyodide" in sys.modules else "Use one that does")
            + ", or have one wait for the other by hand: begin a transaction by table.transaction(), commit "
              "something else meanwhile, and leave its block")


def _can_suspend() -> bool:
    try:
        from pyodide.ffi import can_run_sync  # type: ignore[import-not-found]
    except ImportError:
        return False
    return bool(can_run_sync())


# -- gates -------------------------------------------------------------------------------------------------


class Gate(Protocol):
    """Where a stack stops until somebody lets it through; who comes later passes as often as was let."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait to be let through; False where the time was over before."""

    def release(self) -> None:
        """Let one through."""


def gate() -> Gate:
    """A gate for the stacks of this machine.

    >>> one = gate()
    >>> one.release(), one.acquire()
    (None, True)
    """
    return threading.Semaphore(0) if has_threads() else _Suspending()


class _Suspending:
    """A gate at which Pyodide suspends the call that waits, while the event loop runs who lets it through."""

    def __init__(self) -> None:
        self._free = 0
        self._waiting: Any = None

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """As :meth:`Gate.acquire`; the time is not looked at, for nobody else runs meanwhile."""
        if not self._free:
            require("deltanb")
            from asyncio import get_event_loop

            from pyodide.ffi import run_sync  # type: ignore[import-not-found]

            self._waiting = get_event_loop().create_future()
            with apart():
                run_sync(self._waiting)
        else:
            self._free -= 1
        return True

    def release(self) -> None:
        """As :meth:`Gate.release`."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            self._free += 1
        else:
            waiting.set_result(None)


# -- stacks ------------------------------------------------------------------------------------------------


class Stack:
    """A function without arguments on a stack of its own, in a copy of the context of who made this.

    Raises:
        NoThreads: nothing runs side by side here.

    >>> done, back = [], gate()
    >>> def work():
    ...     done.append(1)
    ...     back.release()
    >>> stack = Stack(work, "work")
    >>> stack.start(), back.acquire(), stack.join(), done
    (None, True, None, [1])
    """

    def __init__(self, work: Callable[[], object], name: str, caller: str = "this") -> None:
        require(caller)
        self.is_begun = False
        self._work, self._name = work, name
        self._context = copy_context()
        self._ended = gate()
        self._thread: threading.Thread | None = None
        if has_threads():
            self._thread = threading.Thread(
                target=self._context.run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Begin it; without threads it begins when this one stops at a gate."""
        if self._thread is not None:
            self._thread.start()
        else:
            from asyncio import get_event_loop

            get_event_loop().call_soon(self._run, context=self._context)
        self.is_begun = True

    def join(self) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join()
        else:
            self._ended.acquire()
            self._ended.release()

    def _run(self) -> None:
        _name.set(self._name)
        try:
            self._work()
        finally:
            self._ended.release()


def name_of_this() -> str:
    """The name of the stack that runs: of its thread, unless that is the main one, or "".

    >>> name_of_this()
    ''
    """
    thread = threading.current_thread()
    return _name.get() if thread is threading.main_thread() else thread.name


def of_each(local: threading.local, fresh: Callable[[], dict[str, Any]] = dict) -> None:
    """Have each stack its own of what is kept per thread; ``fresh`` is what a new one has."""
    _locals.append((local, fresh))


@contextmanager
def apart() -> Iterator[None]:
    """What is kept per thread is put aside for a block, in which another function runs.

    >>> with apart():
    ...     pass
    """
    aside = [dict(vars(local)) for local, _ in _locals]
    for local, fresh in _locals:
        _become(local, fresh())
    try:
        yield
    finally:
        for (local, _), state in zip(_locals, aside, strict=True):
            _become(local, state)


def _become(local: threading.local, state: dict[str, Any]) -> None:
    vars(local).clear()
    vars(local).update(state)
