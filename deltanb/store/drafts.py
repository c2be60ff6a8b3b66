"""Content that is on the disk and has no name yet, and a writer's turn to give it one.

What lives here: :class:`Draft`, a file that no reader can see until it is given its name, whole and once; and
:class:`Turn`, in which the writers of one host come one after another.
What it does not know: what the content means, and what a writer does when the name is taken.

A turn is an advisory lock on the folder, which the kernel takes back from a process that dies. It only gives
an order, so that a writer need not find out again and again that others were quicker. Nobody relies on it:
writers on other hosts, of other libraries and those that have waited too long meet at the name, which is
given once.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from deltanb.errors import StorageError
from deltanb.options import options
from deltanb.store.naming import NO_HARD_LINKS, hard_link, take
from deltanb.text.safe_text import get_logger

try:
    import fcntl
except ImportError:  # Windows: every writer for itself
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from deltanb.store.local import LocalStore

__all__ = ["Draft", "Turn", "drop_checksum", "sync_path", "write_whole"]

logger = get_logger("deltanb.transaction")

PATIENCE = 2.0
"""Seconds to wait for a turn. Who holds it longer is stopped, by a debugger or Ctrl-Z, and stands in nobody's
way then."""
POLL = 0.0002
"""Seconds between two looks, about the time that a turn takes."""

UNSEEN = 900_000
"""Nanoseconds that make no other millisecond of a time, and do not when it is rounded as a float either."""

# What link() answers where it is certain that it did nothing; an I/O error leaves that open.
_REFUSED = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EROFS, errno.EACCES, errno.ENOENT,
            errno.ENOTDIR}
# What open() answers where files without a name are not to be had.
_NO_NAMELESS = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL}


class Draft:
    """Bytes in a folder under no name, or a hidden one where the system cannot do without; synced if the
    store is.

    A process that is killed leaves nothing of the first kind, and a hidden file of the second, which logs
    ignore.

    Content in pieces is written as they come, and can only :meth:`replace` what has a name.

    Raises:
        StorageError: it cannot be written; nothing is left of it.
    """

    def __init__(self, store: LocalStore, path: str, data: bytes | Iterator[bytes], make_folders: bool = True,
                 is_nameless: bool = True) -> None:
        self._store, self._syncs = store, store.syncs
        self._whole = None if isinstance(data, Iterator) else data
        self._pieces: Iterator[bytes] = data if isinstance(data, Iterator) else iter((data,))
        self._is_nameless = is_nameless and store.has_nameless_files
        self._handle: int | None = None
        self._hidden: str | None = None
        try:
            try:
                self._begin(path)
            except FileNotFoundError:
                if not make_folders:
                    raise
                store.make_folder(os.path.dirname(path))
                self._begin(path)
            self._fill()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise StorageError.of(error, "written", path) from error
            raise

    def _begin(self, path: str) -> None:
        folder = os.path.dirname(path)
        if self._is_nameless:
            try:
                self._handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o644)
                return
            except OSError as error:
                if error.errno not in _NO_NAMELESS:
                    raise
                self._store.has_nameless_files = False
        self._hidden = hidden_name(path)  # before it is there: an interrupt may come between
        self._handle = os.open(self._hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def _fill(self) -> None:
        handle = self._handle
        assert handle is not None
        for piece in self._pieces:
            write_all(handle, piece)
        stamp(handle)
        if self._syncs:
            os.fsync(handle)
        if self._hidden is not None:  # some file systems write only now, and say only now that they cannot
            self._handle = None
            os.close(handle)

    def renew(self) -> None:
        """Give it the time of now: it is older than a file that took the name which it was written for."""
        file = self._hidden if self._handle is None else self._handle
        assert file is not None
        with suppress(OSError):  # a file system that sets no times
            if held_time() is None:
                os.utime(file)
            else:
                stamp(file)

    def link(self, path: str) -> bool:
        """Give it a name, if that is free. The folder is not synced.

        Raises:
            StorageError: nothing was changed. Any other OSError leaves open whether it has the name.
        """
        handle = self._handle
        try:
            if self._hidden is not None:
                hard_link(self._hidden, path)
            elif handle is not None:  # some handle, which an absolute path ignores, makes Python call linkat
                hard_link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
            drop_checksum(path)  # of a file that somebody has removed alone
            return True
        except FileExistsError:
            # A network file system may repeat a link whose answer was lost, and then meet itself.
            return self._names > 0
        except OSError as error:
            if self._hidden is None and error.errno == errno.ENOENT and not os.path.exists("/proc/self/fd"):
                return self._named(path)
            if error.errno in _REFUSED and self._names == 0:
                raise StorageError.of(error, "written", path) from error
            if error.errno not in NO_HARD_LINKS:
                raise
            if self._names > 0:
                return True
        if self._hidden is None:
            return self._named(path)
        try:
            is_ours, way = take(self._hidden, path)
        except OSError as error:
            if error.errno in _REFUSED - {errno.ENOENT}:  # that may be a rename made twice
                raise StorageError.of(error, "written", path) from error
            raise
        self._store.is_named_by(way, path)
        if is_ours:
            self._hidden = None
            drop_checksum(path)
        return is_ours

    def _named(self, path: str) -> bool:
        """The same with a hidden name, where a file without one cannot be given any."""
        self._store.has_nameless_files = False
        with Draft(self._store, path, self._data, make_folders=False) as named:
            return named.link(path)

    @property
    def _data(self) -> bytes:
        """What is written once more where a name cannot be given."""
        assert self._whole is not None, "content in pieces is not linked"
        return self._whole

    def replace(self, path: str) -> None:
        """Give one with a hidden name this one instead, whatever was there."""
        assert self._hidden is not None
        drop_checksum(path)  # before: a file without one is whole, and one with that of another is not
        os.replace(self._hidden, path)
        self._hidden = None

    @property
    def _names(self) -> int:
        """How many names it has been given."""
        if self._hidden is not None:
            return os.stat(self._hidden).st_nlink - 1
        assert self._handle is not None
        return os.fstat(self._handle).st_nlink

    def close(self) -> None:
        """Let go of it; its name, if it was given one, stays."""
        handle, self._handle = self._handle, None
        hidden, self._hidden = self._hidden, None
        try:
            if handle is not None:
                with suppress(OSError):  # its content was written, and synced if it was to be
                    os.close(handle)
        finally:
            if hidden is not None:
                with suppress(OSError):  # one that stays is ignored, and VACUUM removes it
                    os.unlink(hidden)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Turn:
    """A writer's turn in a folder: it begins with the first :meth:`put` whose name is free, and lasts until
    the block ends.

    The content is on the disk before anybody is made to wait, and the folder is synced after the next one's
    turn has begun. A name that is taken meanwhile ends the waiting, too: whoever took it is read, and the
    next name asked for, while others have their turns. Read in one's own, all others would wait for that.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._folder: str | None = None
        self._lock: int | None = None
        self._until = 0.0
        self._has_begun = False
        self._draft: Draft | None = None
        self._body = b""
        self._has_put = False

    def put(self, path: str, body: bytes) -> bool:
        """Make the content the file at a path, unless there is one. The folder has to be there.

        Raises:
            StorageError: nothing was written. Any other OSError leaves open whether it was.
        """
        if self._draft is None or body != self._body:
            self._drop()
            self._draft, self._body = Draft(self._store, path, body, make_folders=False), body
        else:
            self._draft.renew()  # versions are looked up by the times of their files
        if not (self._has_begun or self._begins(path)):
            return False
        self._has_put |= self._draft.link(path)
        return self._has_put

    def _begins(self, path: str) -> bool:
        """Wait until it is this one's turn, or everybody else's has lasted too long; False where the name is
        taken by then."""
        self._folder = os.path.dirname(path)
        if fcntl is not None:
            with suppress(OSError):  # a file system without such locks has no turns
                if self._lock is None:
                    self._lock, self._until = os.open(self._folder, os.O_RDONLY), time.monotonic() + PATIENCE
                while not os.path.lexists(path):
                    if _locked(self._lock) or time.monotonic() > self._until:
                        break
                    time.sleep(POLL * (0.5 + random.random()))
                else:
                    return False
        self._has_begun = True
        return True

    def _drop(self) -> None:
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.close()

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        lock, self._lock = self._lock, None
        try:
            if lock is not None:
                with suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)  # a process forked meanwhile has the handle, too
                with suppress(OSError):
                    os.close(lock)
        finally:
            self._drop()
        if self._has_put and self._folder is not None and self._store.syncs:
            try:
                sync_path(self._folder)
            except OSError as failed:  # it is there; whether a power cut would spare it nobody knows
                logger.warning("%s was not synced after a commit: %s", self._folder, failed)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def held_time() -> int | None:
    """The time of a clock that is held still, as lessons hold it; None of one that runs."""
    time: int | None = getattr(options.clock, "last", None)
    return time


def stamp(file: str | int) -> None:
    """Where the clock is held still, give a file (open, or its path) that time: listings show no other.

    What no listing shows of it is random. Another run gives a file of this name and size the same time, and
    the system may give it the same inode: without it nobody could tell that it is another one.
    """
    if (held := held_time()) is not None:
        time_ns = held * 1_000_000 + int.from_bytes(os.urandom(4), "big") % UNSEEN
        os.utime(file, ns=(time_ns, time_ns))


def drop_checksum(path: str) -> None:
    """Remove the checksum that Hadoop keeps beside a file, and holds against whatever has the file's name."""
    folder, _, base = path.rpartition("/")
    with suppress(OSError):  # nearly always there is none
        os.unlink(f"{folder}/.{base}.crc")


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file as a whole, over one that is there; where that fails nothing is changed."""
    hidden = hidden_name(os.path.abspath(path))
    try:
        with open(hidden, "xb") as file:
            file.write(data)
        os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def hidden_name(path: str) -> str:
    """A name beside a path that logs ignore."""
    # Random bytes, not options.new_id(): the name never reaches the log, and several processes
    # that draw their ids from one seed must not meet here.
    folder, _, base = path.rpartition("/")
    return f"{folder}/.{base}.{os.urandom(8).hex()}.tmp"


def write_all(handle: int, data: bytes) -> None:
    """Write all of it, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_path(path: str) -> None:
    """Wait until a file, or the entries of a folder, have reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system syncs folders
            raise
    finally:
        os.close(handle)
