"""A disk whose power can be cut: what is done to it is recorded, and every state it may come up in is built.

What lives here: :class:`Recorder`, which stands in for the calls that the library writes files with and keeps
a journal of them; :class:`Journal`, and the states in which a power cut may leave what it tells of.
What it does not know: tables and commands.

A disk is taken to be as careless as POSIX lets it be. What a file holds is there for certain only after a
sync of the file, a name only after a sync of the folder that it is in; what was not synced comes through or
not, each for itself and in any order. A file whose content was not synced comes up whole, empty, ended early
or full of zeros. A folder that lost its name is lost with all that is in it.
"""

from __future__ import annotations

import io
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from deltanb.store import local as stores

Fate = Literal["whole", "empty", "half", "zeros"]
FATES: tuple[Fate, ...] = ("whole", "empty", "half", "zeros")
CALLS = ("open", "write", "fsync", "close", "link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir")
"""What the library changes a disk with, of ``os``."""
_TMPFILE = getattr(os, "O_TMPFILE", 0)
_ROOT = 0
Tree = dict[str, bytes | None]
"""What is there: paths below the root to what files hold, or None for a folder."""


@dataclass(frozen=True)
class Write:
    """Bytes were added to a file."""

    inode: int
    data: bytes


@dataclass(frozen=True)
class Name:
    """Names of one folder came, went or were given to others, all at once."""

    folder: int
    changes: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Sync:
    """What a file holds, or which names a folder has, reached the disk."""

    inode: int


Event = Write | Name | Sync


@dataclass
class Journal:
    """What was done to a disk, in order; what was there before it all is on the disk."""

    folders: set[int] = field(default_factory=lambda: {_ROOT})
    events: list[Event] = field(default_factory=list)
    is_counted_from: int = 0
    """The events before this one made what was there before."""
    times: dict[int, int] = field(default_factory=dict)
    """When those files were last changed, in nanoseconds."""

    def syncs(self) -> list[int]:
        """The places of all syncs."""
        return [place for place, event in enumerate(self.events)
                if isinstance(event, Sync) and place >= self.is_counted_from]

    def open_at(self, place: int) -> tuple[list[int], list[int]]:
        """What is uncertain after the events before a place: places of names, and inodes of files."""
        names: list[int] = []
        files: list[int] = []
        for number in range(self.is_counted_from, place):
            event = self.events[number]
            if isinstance(event, Name):
                names.append(number)
            elif isinstance(event, Write):
                files += [event.inode] if event.inode not in files else []
            elif event.inode in self.folders:
                names = [one for one in names if self._folder_of(one) != event.inode]
            else:
                files = [one for one in files if one != event.inode]
        return names, files

    def _folder_of(self, place: int) -> int:
        event = self.events[place]
        assert isinstance(event, Name)
        return event.folder

    def tree(self, place: int, lost: frozenset[int] = frozenset(),
             fates: Mapping[int, Fate] | None = None) -> Tree:
        """What there is after the events before a place, without the names lost at some of them."""
        content: dict[int, bytearray] = {}
        names: dict[int, dict[str, int]] = {}
        for number, event in enumerate(self.events[:place]):
            if isinstance(event, Write):
                content.setdefault(event.inode, bytearray()).extend(event.data)
            elif isinstance(event, Name) and number not in lost:
                folder = names.setdefault(event.folder, {})
                for name, inode in event.changes:
                    folder.pop(name, None)
                    if inode is not None:
                        folder[name] = inode
        fates = fates or {}
        return dict(self._below(_ROOT, "", names, lambda inode: left_of(
            bytes(content.get(inode, b"")), fates.get(inode, "whole"))))

    def _below(self, folder: int, path: str, names: dict[int, dict[str, int]],
               held: Callable[[int], bytes]) -> Iterator[tuple[str, bytes | None]]:
        for name, inode in names.get(folder, {}).items():
            if inode in self.folders:
                yield path + name, None
                yield from self._below(inode, f"{path}{name}/", names, held)
            else:
                yield path + name, held(inode)

    def in_order(self, place: int) -> Iterator[Tree]:
        """States after the events before a place on a file system that gives the names of a folder in the
        order in which they were asked for, as those with a journal do: the first of them are there."""
        names, files = self.open_at(place)
        for number in range(len(names) + 1):
            yield self.tree(place, frozenset(names[number:]), dict.fromkeys(files, "empty"))

    def states(self, place: int, chance: random.Random, more: int) -> Iterator[Tree]:
        """States that a cut after the events before a place may leave: all of the uncertain lost, all kept,
        each alone lost, each alone kept, and ``more`` by chance."""
        names, files = self.open_at(place)
        yield self.tree(place, frozenset(names), dict.fromkeys(files, "empty"))
        yield self.tree(place)
        for fate in FATES[1:]:
            yield self.tree(place, frozenset(), dict.fromkeys(files, fate))
        for one in names:
            yield self.tree(place, frozenset({one}))
            yield self.tree(place, frozenset(names) - {one}, dict.fromkeys(files, "empty"))
        for _ in range(more if names or files else 0):
            lost = frozenset(one for one in names if chance.random() < 0.5)
            yield self.tree(place, lost, {one: chance.choice(FATES) for one in files})


def left_of(data: bytes, fate: Fate) -> bytes:
    """What is left of what a file held."""
    return {"whole": data, "empty": b"", "half": data[:len(data) // 2], "zeros": bytes(len(data))}[fate]


def build(tree: Tree, folder: Path, times: Mapping[str, int]) -> None:
    """Make what is in a tree be there, in a new folder; files that were there before keep their times."""
    folder.mkdir()
    for name, data in tree.items():
        path = folder / name
        if data is None:
            path.mkdir()
            continue
        path.write_bytes(data)
        if name in times:
            os.utime(path, ns=(times[name], times[name]))


class Recorder:
    """Keeps a journal of what is done below ``root`` while :meth:`inserted`; does it, too, but for syncs.

    ``without`` is the number, from 0, of a sync that is left out of the journal, as if it were not done.
    """

    def __init__(self, root: Path, without: int | None = None) -> None:
        self.root = os.path.realpath(root)
        self.without = without
        self.journal = Journal()
        self.synced: list[str] = []
        """Paths of what was synced, in order; of a file without a name, the folder's and ``/?``."""
        self._inodes: dict[str, int] = {"": _ROOT}
        self._handles: dict[int, int] = {}
        self._nameless: dict[int, str] = {}
        self._next = _ROOT
        self._real = {name: getattr(os, name) for name in CALLS}
        self._lock = threading.RLock()
        self._load()

    def _load(self) -> None:
        for place, folders, files in os.walk(self.root):
            folders.sort()
            for name in [*folders, *sorted(files)]:
                path = os.path.join(place, name)
                inode = self._new(self._below(path), name in folders)
                if name in files:
                    self.journal.events.append(Write(inode, Path(path).read_bytes()))
                    self.journal.times[inode] = os.stat(path).st_mtime_ns
        self.journal.is_counted_from = len(self.journal.events)

    @property
    def times(self) -> dict[str, int]:
        """Paths of the files that were there before, and when they were last changed."""
        old = self.journal.times
        return {path: old[inode] for path, inode in self._inodes.items() if inode in old}

    @contextmanager
    def inserted(self) -> Iterator[Recorder]:
        """Stand in for ``os`` and the library's output files; threads work one after another meanwhile."""
        calls = {"cpu_count": lambda: 1, **{name: getattr(self, f"_{name}") for name in CALLS}}
        with patch.multiple(os, **calls), patch.object(stores, "_SyncedFile", self._output_file()):
            yield self

    def check(self) -> None:
        """Raise AssertionError where what is there is not what the journal says: a call was not recorded."""
        on_disk: Tree = {}
        for place, folders, files in os.walk(self.root):
            on_disk |= {self._below(os.path.join(place, name)) or "": None for name in folders}
            on_disk |= {self._below(os.path.join(place, name)) or "": Path(place, name).read_bytes()
                      for name in files}
        expected = self.journal.tree(len(self.journal.events))
        wrong = {name for name in on_disk.keys() | expected.keys()
                 if on_disk.get(name, 0) != expected.get(name, 0)}
        assert not wrong, f"not as recorded: {sorted(wrong)}"

    # -- what is recorded ------------------------------------------------------------------------

    def _below(self, path: Any) -> str | None:
        """A path below the root; None for one elsewhere and for what is no path."""
        if not isinstance(path, str | os.PathLike):
            return None
        folder, base = os.path.split(os.path.abspath(path))
        full = os.path.join(os.path.realpath(folder), base)
        if full == self.root:
            return ""
        return os.path.relpath(full, self.root) if full.startswith(self.root + os.sep) else None

    def _new(self, path: str | None, is_folder: bool = False) -> int:
        """A new file or folder, with a name if it has one."""
        self._next += 1
        if is_folder:
            self.journal.folders.add(self._next)
        if path is not None:
            self._name({path: self._next})
        return self._next

    def _name(self, changes: dict[str, int | None]) -> None:
        """Names change; those in one folder do so at once."""
        by_folder: dict[int, list[tuple[str, int | None]]] = {}
        for path, inode in changes.items():
            folder, _, name = path.rpartition("/")
            by_folder.setdefault(self._inodes[folder], []).append((name, inode))
            self._inodes.pop(path, None)
            if inode is not None:
                self._inodes[path] = inode
        self.journal.events += [Name(folder, tuple(names)) for folder, names in by_folder.items()]

    def _made(self, handle: int, path: Any, flags: int) -> None:
        below = self._below(path)
        if below is None:
            return
        if _TMPFILE and flags & _TMPFILE == _TMPFILE:
            inode = self._new(None)
            self._nameless[inode] = f"{below}/?"
        elif flags & os.O_CREAT and below not in self._inodes:
            inode = self._new(below)
        else:
            assert not flags & os.O_TRUNC, "a file is written anew in place, which the journal cannot tell"
            inode = self._inodes.get(below, -1)  # one that came by another way: check() finds it
        self._handles[handle] = inode

    # -- the calls of os -------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, *args: Any, **more: Any) -> int:
        with self._lock:
            handle: int = self._real["open"](path, flags, *args, **more)
            if more.get("dir_fd") is None:
                self._made(handle, path, flags)
        return handle

    def _write(self, handle: int, data: Any) -> int:
        with self._lock:
            done = int(self._real["write"](handle, data))
            if handle in self._handles:
                self.journal.events.append(Write(self._handles[handle], bytes(memoryview(data)[:done])))
        return done

    def _fsync(self, handle: int) -> None:
        """Recorded, but not done: it takes a while, and this machine keeps its power."""
        inode = self._handles.get(handle)
        if inode is None:
            return self._real["fsync"](handle)  # type: ignore[no-any-return]
        with self._lock:
            if self.without != len(self.synced):
                self.journal.events.append(Sync(inode))
            names = (path for path, known in self._inodes.items() if known == inode)
            self.synced.append(next(names, None) or self._nameless.get(inode, ""))

    def _close(self, handle: int) -> None:
        with self._lock:
            self._handles.pop(handle, None)
            self._real["close"](handle)

    def _link(self, source: Any, target: Any, **more: Any) -> None:
        with self._lock:
            self._real["link"](source, target, **more)
            below, above = self._below(target), self._below(source)
            if below is not None:
                handle = more.get("src_dir_fd")
                inode = self._handles[handle] if handle is not None else self._inodes[above or ""]
                self._name({below: inode})

    def _moved(self, kind: str, source: Any, target: Any, **more: Any) -> None:
        with self._lock:
            self._real[kind](source, target, **more)
            below, above = self._below(target), self._below(source)
            if below is not None and above is not None:
                self._name({above: None, below: self._inodes[above]})

    def _rename(self, source: Any, target: Any, **more: Any) -> None:
        self._moved("rename", source, target, **more)

    def _replace(self, source: Any, target: Any, **more: Any) -> None:
        self._moved("replace", source, target, **more)

    def _gone(self, kind: str, path: Any, dir_fd: int | None = None, **more: Any) -> None:
        with self._lock:
            at = path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
            below = self._below(at)
            self._real[kind](path, dir_fd=dir_fd, **more)
            if below is not None:
                self._name({below: None})

    def _unlink(self, path: Any, **more: Any) -> None:
        self._gone("unlink", path, **more)

    _remove = _unlink

    def _rmdir(self, path: Any, **more: Any) -> None:
        self._gone("rmdir", path, **more)

    def _mkdir(self, path: Any, *args: Any, **more: Any) -> None:
        with self._lock:
            self._real["mkdir"](path, *args, **more)
            below = self._below(path)
            if below is not None:
                self._new(below, is_folder=True)

    # -- the files that Arrow writes through -----------------------------------------------------

    def _output_file(disk) -> type:
        """The library's class over a file that is recorded: between it and the system."""

        class Recorded(io.FileIO):
            def __init__(self, path: str, mode: str) -> None:
                with disk._lock:
                    io.FileIO.__init__(self, path, mode)
                    disk._made(self.fileno(), path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

            def write(self, data: Any) -> int:
                with disk._lock:
                    done = io.FileIO.write(self, data)
                    inode = disk._handles.get(self.fileno())
                    if inode is not None:
                        disk.journal.events.append(Write(inode, bytes(memoryview(data)[:done])))
                return done

            def close(self) -> None:
                if not self.closed:
                    disk._handles.pop(self.fileno(), None)
                    io.FileIO.close(self)

        return type("Watched", (stores._SyncedFile, Recorded), {})
