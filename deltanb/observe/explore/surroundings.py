"""What a writer that is explored has around it: no time that passes, and nothing that it could do beside.

What lives here: :func:`surroundings`, in which a run goes on: sleeping takes no time there, numbers are drawn
from a seed, and threads and processes are refused.
What it does not know: tables, locks, turns.

Python has one ``time.sleep`` and one ``random`` for all threads. While a run goes on both are replaced; what
other threads sleep takes its time as before. That a process is started Python tells by an audit event, though
not of all that multiprocessing starts; of threads it does so in later versions alone. So their ``start`` is
replaced, too.
"""

from __future__ import annotations

import random
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final

running: ContextVar[Callable[[str], BaseException] | None] = ContextVar("running", default=None)
"""In the thread of a run: refuses what its writer does."""

A_THREAD: Final = "starts a thread"
A_PROCESS: Final = "starts a process"
STARTED: Final[dict[Any, str]] = {threading.Thread: A_THREAD, BaseProcess: A_PROCESS}
"""What a writer may not start, by its class."""
REFUSED: Final = {
    "_thread.start_new_thread": A_THREAD, "_thread.start_joinable_thread": A_THREAD,
    "subprocess.Popen": A_PROCESS, "os.fork": A_PROCESS, "os.forkpty": A_PROCESS,
    "os.posix_spawn": A_PROCESS, "os.spawn": A_PROCESS, "os.system": A_PROCESS,
    "os.exec": "becomes another program"}
"""What a writer may not do, by the name of Python's audit event."""
WHY: Final = "could take turns of its own at any time; do its work in the writer, one after the other"

GRACE: Final = 0.2
"""Seconds that a thread has to take an exception, if it runs at all."""
_STDLIB: Final = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen"})
_PACKAGES: Final = ("site-packages", "dist-packages")
_OURS: Final = __name__.partition(".")[0]

_lock = threading.Lock()
_depth = 0
_before: dict[Any, Any] = {}
"""What is replaced, by its name or by the class whose ``start`` it is."""
_hooked = False


@contextmanager
def surroundings(seed: int) -> Iterator[None]:
    """For a block, in which a run goes on in a thread of its own: numbers that are the same at every run, and
    no sleep."""
    state = random.getstate()
    # NumPy loads it when it is first used, which may be what the writer does.
    numbers: Any = import_module("numpy.random") if "numpy" in sys.modules else None
    drawn = None if numbers is None else numbers.get_state()
    _enter()
    try:
        random.seed(seed)
        if numbers is not None:
            numbers.seed(abs(seed) % 2**32)
        yield
    finally:
        _leave()
        random.setstate(state)
        if numbers is not None:
            numbers.set_state(drawn)


def end(thread: threading.Thread, kind: type[BaseException]) -> None:
    """Raise an exception in a thread at its next instruction; nothing, where it waits for what never comes.

    CPython keeps such an exception, and up to 3.11 a profiler or a debugger would from then on never get on
    in any thread. Another thread that takes one ends that.
    """
    _raise_in(thread, kind)
    thread.join(GRACE)
    if thread.is_alive():
        _raise_in(thread, None)
        begun = threading.Event()
        other = threading.Thread(target=_loop, args=(begun, kind), daemon=True)
        other.start()
        begun.wait()
        _raise_in(other, kind)
        other.join()


def _raise_in(thread: threading.Thread, kind: type[BaseException] | None) -> None:
    import ctypes

    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), None if kind is None else ctypes.py_object(kind))


def _loop(begun: threading.Event, kind: type[BaseException]) -> None:
    with suppress(kind):
        begun.set()
        while True:
            pass


def _enter() -> None:
    global _depth, _hooked
    with _lock:
        if not _hooked:
            sys.addaudithook(_audit)
            _hooked = True
        _depth += 1
        if _depth > 1:
            return
        _before["time"], time.sleep = time.sleep, _sleep
        for kind in STARTED:
            _before[kind], kind.start = kind.start, _start
        if (tasks := sys.modules.get("asyncio.tasks")) is not None:
            _before["tasks"] = tasks.sleep
            tasks.sleep = sys.modules["asyncio"].sleep = _sleep_as_a_task  # type: ignore[attr-defined]


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        if _depth:
            return
        time.sleep = _before["time"]
        for kind in STARTED:
            kind.start = _before[kind]
        if (sleep := _before.pop("tasks", None)) is not None:
            sys.modules["asyncio.tasks"].sleep = sys.modules["asyncio"].sleep = sleep  # type: ignore[attr-defined]


def _sleep(seconds: Any, /) -> None:
    _before["time"](min(seconds, 0) if running.get() is not None else seconds)


async def _sleep_as_a_task(delay: Any, result: Any = None) -> Any:
    sleep = _before.get("tasks") or sys.modules["asyncio.tasks"].sleep  # type: ignore[attr-defined]
    return await sleep(min(delay, 0) if running.get() is not None else delay, result)


def _start(one: Any) -> None:
    kind = next(kind for kind in STARTED if isinstance(one, kind))
    _refuse(STARTED[kind])
    _before[kind](one)


def _audit(event: str, args: Any) -> None:
    """Called by Python for whatever it audits, in all threads: so it looks at the name first."""
    if event in REFUSED:
        _refuse(REFUSED[event])


def _refuse(does: str) -> None:
    if (refuse := running.get()) is not None and _is_of_the_writer():
        raise refuse(f"{does}, which {WHY}")


def _is_of_the_writer() -> bool:
    """Whether code of the writer does what is done now, and not this library: it may read in threads."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if str(name).partition(".")[0] == _OURS:
            return False
        if not file.startswith(_STDLIB) and not any(part in file for part in _PACKAGES):
            return True
        frame = frame.f_back
    return False
