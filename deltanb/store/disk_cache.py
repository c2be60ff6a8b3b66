"""Objects of buckets on the local disk: those that never change, by what identifies them.

What lives here: :class:`DiskCache`, a folder that processes of one user share, and :func:`disk_cache`, the
one that the options name. An entry is a file with the content, its length and a digest, which are checked
whenever it is read; it appears by renaming, so nobody waits for anybody. Nothing that goes wrong here fails a
read.
What it does not know: what is in an object, and whether somebody may read it (``log/listed_files``).
"""

from __future__ import annotations

import io
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import BinaryIO

from deltanb.concurrency import parallel
from deltanb.options import log_cache_place, random_id
from deltanb.store.recent import ObjectKey
from deltanb.text.safe_text import get_logger

__all__ = ["BLOCK", "DiskCache", "Entry", "disk_cache"]

logger = get_logger("deltanb.store")

FOLDER = "deltanb-log-cache"
"""What is in it is ours to remove, whatever else the folder has that was named for it."""
BLOCK = 8 << 20
"""Bytes of an object that are fetched, and whose digest is made, at a time."""
AT_ONCE = 4
"""Blocks on their way at a time: they are in memory meanwhile."""
SHARE = 4
"""No entry takes more than one in so many of the cache's bytes, so that a checkpoint does not replace it."""
ROOM = 8
"""Where there is too much, one in so many of the cache's bytes is freed, so that it is not measured often."""
PAGE = 4096
"""Bytes that a file takes on the disk at least, and by which it grows."""
_ENDING = struct.Struct("<16sQ8s")  # digest, length, and what it is
_MARK = b"deltanb1"
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)


class DiskCache:
    """The entries in a folder, up to ``limit`` bytes; those that were used longest ago go first.

    The folder is measured at the first write, and again for each eighth of its bytes that this process
    writes: so much more may be there for a while, of each process.

    >>> cache = DiskCache("cache", 1 << 20)
    >>> key = ObjectKey("s3|lake|ducks", "0.json", tag="a", size=2)
    >>> cache.keep(key, b"{}")
    True
    >>> cache.content(key), cache.content(key._replace(tag="b"))
    (b'{}', None)
    """

    def __init__(self, folder: str, limit: int) -> None:
        self.folder, self.limit = os.path.join(os.path.abspath(folder), FOLDER), limit
        self._size: int | None = None  # when it was measured last, and what was written here since
        self._written = 0
        self._counting, self._measuring = threading.Lock(), threading.Lock()
        self._is_ours = False
        self._logged: set[object] = set()

    # -- reading --------------------------------------------------------------------------------

    def content(self, key: ObjectKey) -> bytes | None:
        """An object's content; None where it is not here, or is damaged."""
        with suppress(_Damaged):
            entry = self._opened(key)
            if entry is not None:
                with entry:
                    content = entry.readall()
                if _digest(key, iter([content])) == entry.digest:
                    self._use(key)
                    return content
                self._drop(key)
        return None

    def open(self, key: ObjectKey, is_checked: bool = False) -> Entry | None:
        """An object as a file; None as above. One that was checked before is not read for it once more."""
        with suppress(_Damaged):
            entry = self._opened(key)
            if entry is None or is_checked:
                return entry
            if _digest(key, iter(lambda: entry.read(BLOCK), b"")) == entry.digest:
                entry.seek(0)
                self._use(key)
                return entry
            entry.close()
            self._drop(key)
        return None

    def _opened(self, key: ObjectKey) -> Entry | None:
        """The entry as it is: one without a whole ending is dropped."""
        if not self._may_use():
            return None
        try:
            return Entry(self._path(key), key.size)
        except FileNotFoundError:
            return None
        except _Damaged:
            self._drop(key)
        except OSError as error:
            self._log("cannot be read", error)
        return None

    def _use(self, key: ObjectKey) -> None:
        with suppress(OSError):  # not ours to write, or gone: it is here all the same
            os.utime(self._path(key))

    def _drop(self, key: ObjectKey) -> None:
        logger.info("%s has a damaged copy of %s, which is fetched again", self.folder, key.name)
        with suppress(OSError):
            os.unlink(self._path(key))

    # -- writing --------------------------------------------------------------------------------

    def takes(self, key: ObjectKey) -> bool:
        """Whether an object is small enough; where it is not, a log line says so, once."""
        if _on_disk(key.size) * SHARE <= self.limit:
            return True
        if key not in self._logged:
            self._logged.add(key)
            logger.warning(
                "%s (%d bytes) is not in the cache of logs: that is more than 1/%d of log_cache_size=%d",
                key.name, key.size, SHARE, self.limit)
        return False

    def keep(self, key: ObjectKey, data: bytes) -> bool:
        """Have the content of an object from now on; whether that went well."""
        return len(data) == key.size and self.fetch(key, lambda start, stop: data[start:stop])

    def fetch(self, key: ObjectKey, block: Callable[[int, int], bytes | None]) -> bool:
        """The same of an object that is fetched for it, some blocks at a time; whether that went well.

        ``block`` gives the bytes from a place to another one, or None where the object is another by now.
        What it raises is raised.
        """
        if not self.takes(key) or not self._may_use(make=True):
            return False
        hidden = f"{self._path(key)}.{random_id()}.tmp"
        try:
            with open(self._created(hidden), "wb") as file:
                file.write(_ENDING.pack(_digest(key, _copied(key, block, file)), key.size, _MARK))
            os.replace(hidden, self._path(key))
        except BaseException as error:
            with suppress(OSError):
                os.unlink(hidden)
            if isinstance(error, _NotFetched):
                if error.__cause__ is not None:
                    raise error.__cause__ from None
                return False
            if not isinstance(error, OSError):
                raise
            if not isinstance(error, FileNotFoundError):  # which another process has made room with
                self._log("cannot be written", error)
            return False
        self._count(_on_disk(key.size))
        return True

    def _created(self, path: str) -> int:
        try:
            return os.open(path, _NEW, 0o600)
        except FileNotFoundError:  # somebody has removed the folder
            self._is_ours = False
            self._may_use(make=True)
            return os.open(path, _NEW, 0o600)

    # -- the folder -----------------------------------------------------------------------------

    def _path(self, key: ObjectKey) -> str:
        return os.path.join(self.folder, blake2b(repr(tuple(key)).encode(), digest_size=20).hexdigest())

    def _may_use(self, make: bool = False) -> bool:
        """Whether there is a folder that only this user can write to: others could give us other logs."""
        if self._is_ours:
            return True
        try:
            if make:
                os.makedirs(self.folder, 0o700, exist_ok=True)
            status = os.lstat(self.folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._log("cannot be used", error)
            return False
        if not stat.S_ISDIR(status.st_mode):
            self._log("cannot be used", "it is no folder")
        elif hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            self._log("cannot be used", "others can write to it; it has to be yours alone (chmod 700)")
        else:
            self._is_ours = True
        return self._is_ours

    def _count(self, size: int) -> None:
        with self._counting:
            self._written += size
            known = self._size
            is_due = known is None or self._written * ROOM > self.limit or known + self._written > self.limit
        if is_due and self._measuring.acquire(blocking=False):
            try:
                self._make_room()
            except OSError as error:
                self._log("cannot be listed", error)
            finally:
                self._measuring.release()

    def _make_room(self) -> None:
        """Measure the folder; where it has too much, remove what was used longest ago, other processes' too.

        What one of them removes, or is writing, meanwhile is fetched again.
        """
        entries, size = [], 0
        with os.scandir(self.folder) as files:
            for file in files:
                with suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    entries.append((status.st_mtime_ns, file.path, _on_disk(status.st_size)))
                    size += entries[-1][2]
        if size > self.limit:
            for _, path, length in sorted(entries):
                if size <= self.limit - self.limit // ROOM:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(path)
                size -= length
        with self._counting:
            self._size, self._written = size, 0

    def _log(self, what: str, reason: object) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.warning("The cache of logs in %s %s, so logs are read from their buckets: %s",
                           self.folder, what, reason)


class Entry(io.FileIO):
    """An entry as a file of the object's size.

    Raises:
        FileNotFoundError: it is not there.
    """

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, "rb")
        self._size = size
        try:
            ending = b""
            if os.fstat(self.fileno()).st_size == size + _ENDING.size:
                super().seek(size)
                ending = super().read(_ENDING.size)
            if len(ending) != _ENDING.size:
                raise _Damaged
            self.digest, length, mark = _ENDING.unpack(ending)
            if length != size or mark != _MARK:
                raise _Damaged
            super().seek(0)
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()

    def size(self) -> int:
        """In bytes."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As any file."""
        return super().seek(offset + self._size, io.SEEK_SET) if whence == io.SEEK_END \
            else super().seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        """As any file: the bytes that are left at most."""
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left)) or b""

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: object) -> int:
        """As any file."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        content = self.read(len(view))
        view[:len(content)] = content
        return len(content)


class _Damaged(Exception):
    """An entry is not what was written."""


class _NotFetched(Exception):
    """A block is not to be had: for the error that is its cause, or since the object is another."""


def _copied(
    key: ObjectKey, block: Callable[[int, int], bytes | None], file: BinaryIO
) -> Iterator[bytes]:
    """The blocks of an object, once each is in the file."""
    def fetched(start: int) -> bytes:
        stop = min(start + BLOCK, key.size)
        try:
            data = block(start, stop)
        except Exception as error:
            raise _NotFetched from error
        if data is None or len(data) != stop - start:
            raise _NotFetched
        return data

    starts = range(0, key.size, BLOCK)
    for first in range(0, len(starts), AT_ONCE):
        for data in parallel.each(fetched, starts[first:first + AT_ONCE], AT_ONCE, "bucket"):
            file.write(data)
            yield data


def _digest(key: ObjectKey, blocks: Iterator[bytes]) -> bytes:
    """Of the content and of what it is the content of: an entry under another's name is damaged."""
    digest = blake2b(repr(tuple(key)).encode(), digest_size=16)
    for data in blocks:
        digest.update(data)
    return digest.digest()


def _on_disk(size: int) -> int:
    return -(-(size + _ENDING.size) // PAGE) * PAGE


def disk_cache() -> DiskCache | None:
    """The cache that the options name; None where they name none.

    >>> from deltanb.options import set_options
    >>> with set_options(log_cache="cache", log_cache_size=1 << 20):
    ...     disk_cache().limit
    1048576
    """
    place = log_cache_place()
    return None if place is None else _cache(*place)


@lru_cache(maxsize=8)
def _cache(folder: str, limit: int) -> DiskCache:
    return DiskCache(folder, limit)
