"""A disk that fails on request: file operations below a folder are counted, and one of them is struck.

What lives here: :class:`Disk`, which stands in for the calls that the library reads and writes files with,
and :class:`Strike`, which says at which of them what happens. What it does not know: tables and commands.

Counted are the calls of ``os`` that create, fill, name, remove, sync, look for and read files and folders,
and the files that Arrow writes through (``_SyncedFile``); Arrow reads data files by itself. Should a write
escape the count, the trials find a file that no counted operation made.
"""

from __future__ import annotations

import _thread
import errno
import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

from deltanb.store import local as stores

Moment = Literal["before", "half", "after"]
Fault = Literal["kill", "ENOSPC", "EROFS", "EIO", "interrupt", "down", "restart"]

CALLS = ("open", "write", "fsync", "close", "link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir",
         "read", "stat", "scandir")
"""What the library works with, of ``os``."""
GROWING = frozenset({"open", "write", "link", "mkdir"})
CHANGING = GROWING | {"rename", "replace", "unlink", "rmdir"}
READING = frozenset({"look", "read", "stat", "scandir"})
LASTING: dict[str, frozenset[str]] = {"ENOSPC": GROWING, "EROFS": CHANGING}
"""What a full disk, and one that can only be read, refuse from then on."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Strike:
    """What happens at the n-th operation (from 0): before it, after it, or when half of it is written.

    ``kill`` ends the process by SIGKILL. ``ENOSPC`` fails this operation and all that follow and would take
    room, ``EROFS`` all that would change anything; ``EIO`` and ``interrupt`` (Ctrl-C) come once.
    """

    place: int
    moment: Moment
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault} {self.moment} operation {self.place}"


@dataclass(frozen=True)
class Done:
    """An operation that was begun: what it does, and the path below the folder."""

    kind: str
    name: str

    @property
    def strikes(self) -> Iterator[tuple[Moment, Fault]]:
        """What can happen to it: only a write can be done by half, and what reads changes nothing."""
        if self.kind in READING:
            yield from (("before", "EIO"), ("before", "interrupt"))
            return
        moments: list[Moment] = ["before", "half", "after"] if self.kind == "write" else ["before", "after"]
        faults: list[Fault] = ["kill", "ENOSPC", "EROFS", "EIO", "interrupt"]
        yield from ((moment, fault) for moment in moments for fault in faults)

    @property
    def is_commit(self) -> bool:
        """Whether it makes a version be there."""
        folder, _, base = self.name.rpartition("/")
        stem, dot, _ = base.partition(".json")
        return self.kind == "link" and folder.endswith("_delta_log") and bool(dot) and stem.isdigit()


class Disk:
    """Counts the operations below ``root`` while :meth:`inserted`, and strikes one of them if it is to."""

    def __init__(self, root: str | os.PathLike[str], strike: Strike | None = None) -> None:
        self.root = os.path.realpath(root)
        self.strike = strike
        self.done: list[Done] = []
        """The operations begun so far, in order."""
        self.struck: Done | None = None
        """The one that was struck."""
        self.refused: frozenset[str] = frozenset()
        """Kinds of operations that fail from now on."""
        self._handles: dict[int, tuple[str, bool]] = {}
        self._real = {name: getattr(os, name) for name in CALLS}
        self._lock = threading.Lock()

    @contextmanager
    def inserted(self) -> Iterator[Disk]:
        """Stand in for ``os`` and the library's output files; threads work one after another meanwhile."""
        calls = {"cpu_count": lambda: 1, **{name: getattr(self, f"_{name}") for name in CALLS}}
        with patch.multiple(os, **calls), patch.object(stores, "_SyncedFile", self._output_file()):
            yield self

    # -- one operation ---------------------------------------------------------------------------

    def _operate(self, kind: str, path: str | None, work: Callable[[], Any],
                 half: Callable[[], Any] | None = None) -> Any:
        """Do the work, and what is to happen at it."""
        name = self._below(path)
        if name is None or path is None:
            return work()
        operation = Done(kind, name)
        with self._lock:
            is_struck = self.strike is not None and self.strike.place == len(self.done)
            self.done.append(operation)
        if not is_struck or self.strike is None:
            if kind in self.refused and self.strike is not None:
                raise self._error(path)
            return work()
        self.struck = operation
        result = None
        if self.strike.moment == "half" and half is not None:
            result = half()
        elif self.strike.moment == "after":
            with suppress(OSError):  # done in vain, as a file is opened in a folder that is not there yet
                result = work()
        fault = self.strike.fault
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "interrupt":
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            _thread.interrupt_main()  # Ctrl-C comes to the main thread; this one goes on
            return work() if self.strike.moment == "before" else result
        self.refused = LASTING.get(fault, frozenset())
        raise self._error(path)

    def _error(self, path: str) -> OSError:
        assert self.strike is not None
        code = getattr(errno, self.strike.fault)
        return OSError(code, os.strerror(code), path)

    def _below(self, path: str | None) -> str | None:
        if path is None:
            return None
        folder, base = os.path.split(os.path.abspath(path))
        if not (folder + os.sep).startswith(self.root + os.sep) and os.path.join(folder, base) != self.root:
            return None
        return os.path.relpath(os.path.join(folder, base), self.root)

    # -- the calls of os -------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, *args: Any, dir_fd: int | None = None) -> int:
        full = _full(path, dir_fd)
        writes = bool(flags & _WRITES)

        def work() -> int:
            handle: int = self._real["open"](path, flags, *args, dir_fd=dir_fd)
            opened.append(handle)
            if self._below(full) is not None and full is not None:
                self._handles[handle] = full, writes
            return handle

        opened: list[int] = []
        try:
            return int(self._operate("open" if writes else "look", full, work))
        except BaseException:
            for handle in opened:  # the caller never got it
                self._handles.pop(handle, None)
                self._real["close"](handle)
            raise

    def _write(self, handle: int, data: Any) -> int:
        view, write = memoryview(data), self._real["write"]
        path, _ = self._handles.get(handle, (None, False))
        return int(self._operate("write", path, lambda: write(handle, view),
                                 lambda: write(handle, view[:len(view) // 2])))

    def _read(self, handle: int, length: int) -> bytes:
        path, _ = self._handles.get(handle, (None, False))
        data: bytes = self._operate("read", path, lambda: self._real["read"](handle, length))
        return data

    def _fsync(self, handle: int) -> None:
        """Counted and struck, but not done: no test here cuts the power, and it takes a while."""
        path, _ = self._handles.get(handle, (None, False))
        self._operate("fsync", path, lambda: path or self._real["fsync"](handle))

    def _close(self, handle: int) -> None:
        path, writes = self._handles.pop(handle, (None, False))
        try:
            self._operate("close", path if writes else None, lambda: None)
        finally:  # an error of close() leaves no open file behind
            self._real["close"](handle)

    def _naming(self, kind: str, source: Any, target: Any, **more: Any) -> None:
        self._operate(kind, _full(target), lambda: self._real[kind](source, target, **more))

    def _link(self, source: Any, target: Any, **more: Any) -> None:
        self._naming("link", source, target, **more)

    def _rename(self, source: Any, target: Any, **more: Any) -> None:
        self._naming("rename", source, target, **more)

    def _replace(self, source: Any, target: Any, **more: Any) -> None:
        self._naming("replace", source, target, **more)

    def _single(self, kind: str, path: Any, *args: Any, dir_fd: int | None = None, **more: Any) -> Any:
        more = more if dir_fd is None else {**more, "dir_fd": dir_fd}
        return self._operate(kind, _full(path, dir_fd), lambda: self._real[kind](path, *args, **more))

    def _unlink(self, path: Any, **more: Any) -> None:
        self._single("unlink", path, **more)

    _remove = _unlink

    def _mkdir(self, path: Any, *args: Any, **more: Any) -> None:
        self._single("mkdir", path, *args, **more)

    def _rmdir(self, path: Any, **more: Any) -> None:
        self._single("rmdir", path, **more)

    def _stat(self, path: Any, **more: Any) -> Any:
        return self._single("stat", path, **more)

    def _scandir(self, path: Any = ".") -> Any:
        return self._single("scandir", path)

    # -- the files that Arrow writes through -----------------------------------------------------

    def _output_file(disk) -> type:
        """The library's class over a file that is counted: between it and the system."""

        class Counted(io.FileIO):
            def __init__(self, path: str, mode: str) -> None:
                self.path = path
                try:
                    disk._operate("open", path, lambda: io.FileIO.__init__(self, path, mode))
                except BaseException:
                    io.FileIO.close(self)  # the caller never got it
                    raise
                disk._handles[self.fileno()] = path, True

            def write(self, data: Any) -> int:
                view = memoryview(data)
                return int(disk._operate("write", self.path, lambda: io.FileIO.write(self, view),
                                         lambda: io.FileIO.write(self, view[:len(view) // 2])))

            def close(self) -> None:
                if self.closed:
                    return
                disk._handles.pop(self.fileno(), None)
                try:
                    disk._operate("close", self.path, lambda: None)
                finally:  # an error of close() leaves no open file behind
                    io.FileIO.close(self)

        return type("Watched", (stores._SyncedFile, Counted), {})


def _full(path: Any, dir_fd: int | None = None) -> str | None:
    """A path from the root; None for what is no path but an open file."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    path = os.fsdecode(path)
    if dir_fd is not None:
        return os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
    return os.path.abspath(path)
