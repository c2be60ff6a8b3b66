"""Pyodide's limits, switched on in a process of its own: ``python -m tests.limits [--suspends] WHAT …``.

No thread can be started, there are no hard links and no files without a name, no fcntl, no processes, one
processor. With ``--suspends`` calls can be suspended, as by JavaScript Promise Integration: ``pyodide.ffi``
is there, its ``run_sync`` switches greenlets, and the event loop runs each callback on one of its own. So the
library's code for Pyodide is what runs; the machine below it is an imitation. Where the library names no
type, NumPy gives it the 32 bits that it has there (:func:`narrow_integers`).

``WHAT`` is ``pytest`` or ``notebooks``.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
REFUSED = "can't start new thread"


def switch_on() -> None:
    """Take away what Pyodide does not have, but for threads."""
    import multiprocessing.process

    del os.link
    real_open = os.open

    def opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return real_open(path, flags, *args, **more)

    os.open = opened
    os.cpu_count = lambda: 1
    sys.modules["fcntl"] = None  # type: ignore[assignment]
    subprocess.Popen.__init__ = _no_process  # type: ignore[method-assign]
    multiprocessing.process.BaseProcess.start = _no_process  # type: ignore[method-assign]
    os.fork = _no_process
    narrow_integers()
    from deltanb.store import naming

    naming.is_alone = True  # as on sys.platform "emscripten"


NARROW = ("arange", "argsort", "array", "asarray", "bincount", "cumsum", "flatnonzero", "insert", "repeat",
          "searchsorted", "unique")
"""Functions of NumPy whose integers, where no type is named, have the size of the machine's."""
_FROM_VALUES = {"array", "asarray", "cumsum", "insert", "repeat"}
"""Those of them whose integers have the type of what is given, if that has one."""


def narrow_integers() -> None:
    """Give the library the 32-bit integers that NumPy has by default where a pointer has 32 bits."""
    import numpy as np

    for name in NARROW:
        setattr(np, name, _narrow(np, name, getattr(np, name)))


def _narrow(np: Any, name: str, function: Any) -> Any:
    def call(*args: Any, **settings: Any) -> Any:
        result = function(*args, **settings)
        asked = str(sys._getframe(1).f_globals.get("__name__", ""))
        if not asked.startswith("deltanb.") or settings.get("dtype") is not None:
            return result
        if name in ("array", "asarray") and len(args) > 1:
            return result
        if name in _FROM_VALUES | {"arange"} and any(
                getattr(one, "dtype", None) in (np.int64, np.uint64) for one in args):
            return result
        if name in ("array", "asarray") and not isinstance(args[0], list | tuple | range):
            return result
        if isinstance(result, tuple):  # of unique: the values have the type of those given
            return (result[0], *map(narrow, result[1:]))
        return result if name == "unique" else narrow(result)

    def narrow(result: Any) -> Any:
        whole = np.iinfo(np.int32)
        if getattr(result, "dtype", None) != np.int64:
            return result
        if name == "cumsum":
            return result.astype(np.int32)  # and what does not fit is lost
        fits = result.size == 0 or (whole.min <= result.min() and result.max() <= whole.max)
        return result.astype(np.int32) if fits else result

    return call


def refuse_threads() -> None:
    """Take away threads, too."""
    threading.Thread.start = _no_thread  # type: ignore[method-assign]


def _no_thread(*_: Any) -> NoReturn:
    _skip_a_test_that("starts threads itself")
    raise RuntimeError(REFUSED)


def _no_process(*_: Any, **__: Any) -> NoReturn:
    _skip_a_test_that("starts processes itself")
    raise OSError(138, "emscripten does not support processes.")


def _skip_a_test_that(does: str) -> None:
    """Skip the test that runs, unless the library is who asked: the last in the way but for Python's own."""
    frame = sys._getframe(2)
    while frame is not None and (
            frame.f_code.co_filename == __file__ or not frame.f_code.co_filename.startswith(str(ROOT))):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None and Path(frame.f_code.co_filename).is_relative_to(ROOT / "tests"):
        import pytest

        pytest.skip(does)


# -- calls that can be suspended --------------------------------------------------------------------------


class Loop(asyncio.SelectorEventLoop):
    """An event loop of which each callback can be suspended: it runs in a greenlet of its own."""

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> Any:
        from greenlet import greenlet

        own = contextvars.copy_context() if context is None else context

        def begin() -> None:
            call = greenlet(callback)
            call.gr_context = own
            call.switch(*args)

        return super().call_soon(begin)


def run_suspending(main: Callable[[], Any]) -> Any:
    """Run a function whose calls can be suspended, to its end."""
    from greenlet import getcurrent

    loop = Loop()
    asyncio.set_event_loop(loop)
    hub = getcurrent()

    def run_sync(awaited: Any) -> Any:
        here = getcurrent()
        assert here is not hub, "only a callback can be suspended"
        awaited.add_done_callback(lambda _: asyncio.SelectorEventLoop.call_soon(loop, here.switch))
        hub.switch()
        return awaited.result()

    ffi = types.ModuleType("pyodide.ffi")
    ffi.run_sync = run_sync  # type: ignore[attr-defined]
    ffi.can_run_sync = lambda: getcurrent() is not hub  # type: ignore[attr-defined]
    package = types.ModuleType("pyodide")
    package.ffi = ffi  # type: ignore[attr-defined]
    sys.modules.update({"pyodide": package, "pyodide.ffi": ffi})
    ended: list[Any] = []

    def whole() -> None:
        try:
            ended.append(main())
        finally:
            loop.stop()

    loop.call_soon(whole)
    loop.run_forever()
    return ended[0]


# -- notebooks ---------------------------------------------------------------------------------------------


def run_notebook(path: Path) -> list[str]:
    """Run a tutorial, and return in what it differs from what is stored: errors, and texts people read."""
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    shell.displayhook.write_output_prompt = lambda: None
    shell.kernel = None  # pandas asks for it, to tell a notebook from a terminal
    notebook = nbformat.read(path, as_version=4)
    differs = []
    for number, cell in enumerate((one for one in notebook.cells if one.cell_type == "code"), 1):
        with capture_output() as shown:
            result = shell.run_cell(cell.source, store_history=True)
        may_fail = "raises-exception" in cell.metadata.get("tags", ())
        error = result.error_before_exec or result.error_in_exec
        if (error is not None) != may_fail:
            differs.append(f"{path.name} [{number}]: {type(error).__name__}: {error}")
        if (texts := _texts(shown)) != (stored := _stored(cell)) and not may_fail:
            differs.append(f"{path.name} [{number}] shows\n{texts}\nfor\n{stored}")
    return differs


def _texts(shown: Any) -> str:
    from deltanb.notebook.bundle import BUTTONS  # a line that stored outputs, made with widgets, do not have

    parts = [shown.stdout, *(output.data.get("text/plain", "").removesuffix(f"\n{BUTTONS}")
                             for output in shown.outputs if not output.update)]
    return _clean("".join(parts))


def _stored(cell: Any) -> str:
    streams = [output.text for output in cell.outputs if output.get("name") == "stdout"]
    rest = [output.data.get("text/plain", "") for output in cell.outputs if "data" in output]
    return _clean("".join([*streams, *rest]))


def _clean(text: str) -> str:
    """Without what ``notebooks/sanitize.cfg`` leaves out of comparisons."""
    from configparser import ConfigParser

    rules = ConfigParser(interpolation=None)
    rules.read(ROOT / "notebooks" / "sanitize.cfg")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return "".join(text.split())


def run_notebooks(names: list[str]) -> int:
    """Run tutorials, each in a process's first moment: one a call."""
    [name] = names
    refuse_threads()
    differs = run_notebook(ROOT / "notebooks" / name)
    print("\n".join(differs))
    return 1 if differs else 0


def run_pytest(arguments: list[str]) -> int:
    """Run tests; plugins may have started a thread of their own by then."""
    import pytest

    class Refusing:
        def pytest_sessionstart(self) -> None:
            refuse_threads()

    return int(pytest.main(arguments, plugins=[Refusing()]))


def main(arguments: list[str]) -> int:
    """Switch the limits on, and run what is asked for."""
    suspends = arguments[:1] == ["--suspends"]
    what, *rest = arguments[suspends:]
    work = {"notebooks": run_notebooks, "pytest": run_pytest}[what]
    switch_on()
    return int(run_suspending(lambda: work(rest)) if suspends else work(rest))


def under_limits(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """This module, in a process of its own and a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CI": "true"}
    return subprocess.run([sys.executable, "-m", "tests.limits", *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
