"""Folders of the local file system as stores.

What lives here: files that appear whole and once, what reaches the disk when, and errors of the
system as errors of this library.
What it does not know: what the files mean. No name of a log file, no action, no Parquet.

>>> import tempfile
>>> store = LocalStore(tempfile.mkdtemp())
>>> store.put_if_absent("_delta_log/00000000000000000000.json", b"{}")
True
>>> store.put_if_absent("_delta_log/00000000000000000000.json", b"{}")
False
>>> [status.name for status in store.list_from("_delta_log/")]
['_delta_log/00000000000000000000.json']
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from deltanb.concurrency.memory import pool
from deltanb.errors import InvalidArgument, StorageError
from deltanb.options import options
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.drafts import Draft, Turn, drop_checksum, held_time, stamp, sync_path
from deltanb.store.naming import CLAIMED, NO_HARD_LINKS, WORDS, Way, hard_link
from deltanb.store.read_only import check_writable, refusing
from deltanb.text.safe_text import get_logger, redacted

if TYPE_CHECKING:
    import pyarrow as pa

logger = get_logger("deltanb.transaction")

__all__ = ["LocalStore", "is_temporary", "local_path_of", "sync_path", "turn_in", "unsynced"]

READ_CHUNK = 1 << 16
"""Bytes asked for at first: nearly every commit is smaller, so one call reads it. Above 128 KiB the
allocator would map and unmap fresh memory for every file, which costs more than the read."""

WRITE_BUFFER = 1 << 15
"""Bytes held back of a file that Arrow writes: a Parquet file of one row comes in a dozen pieces, each column
of a larger one in two or three. What is longer than this goes to the system as it is."""

# Names too long for the file system, and links in a circle: nothing is there.
_NO_SUCH_NAME = {errno.ENAMETOOLONG, errno.ELOOP}
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VECTOR = rf"\.deletion_vector_{_UUID}\.bin(?:\.{_UUID})?\.tmp"
# Ours; deletion vectors and files of the log as other writers name them before they are renamed.
_TEMPORARY = re.compile(
    rf"(?:.*/)?\.[^/]+\.[0-9a-f]{{16}}\.tmp|(?:.*/)?{_VECTOR}|_delta_log/(?:.*/)?\.[^/]+\.{_UUID}\.tmp")


def is_temporary(name: str) -> bool:
    """Whether a name is that of a file that a writer, of whatever library, had not given its own name yet.

    >>> is_temporary("_delta_log/.00000000000000000000.json.0123456789abcdef.tmp"), is_temporary("a.tmp")
    (True, False)
    """
    return name.endswith(".tmp") and _TEMPORARY.fullmatch(name) is not None


def is_temporary_vector(name: str) -> bool:
    """Whether it is a deletion vector that another writer had not given its own name yet.

    >>> is_temporary_vector("ab/.deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin.tmp")
    True
    """
    return re.fullmatch(_VECTOR, name.rpartition("/")[2]) is not None


def can_name_a_file(name: str) -> bool:
    """Whether the file system can have a file of this name: no NUL, no unpaired surrogate."""
    if name.isascii():
        return "\0" not in name
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def local_path_of(text: str) -> str:
    """The absolute path behind a path or ``file:`` URI.

    >>> local_path_of("file:///lake/a%20b"), local_path_of("file:/lake")
    ('/lake/a b', '/lake')
    """
    if text[:5].lower() == "file:":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise InvalidArgument(f"{text} names a file on another machine ({parts.netloc})")
        text = unquote(parts.path)
    return os.path.abspath(os.path.expanduser(text))


class LocalStore:
    """A folder of the local file system.

    ``durability`` is "sync" (a commit has reached the disk when it returns: fsync of the file and
    of its folder) or "none"; by default the option of that name decides at every write.
    """

    has_folders = True
    is_final = True
    creates_only = True

    def __init__(
        self,
        root: str | os.PathLike[str],
        durability: Literal["sync", "none"] | None = None,
    ) -> None:
        if durability not in (None, "sync", "none"):
            raise InvalidArgument(f"durability={durability!r} is not 'sync' or 'none'")
        self.root = local_path_of(os.fspath(root))
        self.is_partial_write_visible = False
        self.has_nameless_files = hasattr(os, "O_TMPFILE")
        self.naming: Way | None = None
        """How files get their names without hard links (:mod:`deltanb.store.naming`); None: not that it has
        come up."""
        self._durability = durability

    def __repr__(self) -> str:
        without = "" if self.naming is None else f", without hard links: {self.naming}"
        return f"LocalStore({redacted(self.root)!r}{without})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalStore):
            return NotImplemented
        return (type(self), self.root, self._durability) == (type(other), other.root, other._durability)

    def __hash__(self) -> int:
        return hash((type(self), self.root, self._durability))

    # -- listing --------------------------------------------------------------------------------

    def list_names(self, name: str) -> list[str]:
        """Names only; the kind of an entry is asked for only where a folder could hide."""
        folder, _, first = name.rpartition("/")
        prefix = folder + "/" if folder else ""
        try:
            with os.scandir(self._path(folder)) as entries:
                return sorted(prefix + e.name for e in entries if e.name >= first and e.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StorageError.of(error, "listed", self._path(folder)) from error

    def list_from(self, name: str) -> list[FileStatus]:
        """Names and statuses; a file deleted between the two is left out."""
        statuses = (self.status(one) for one in self.list_names(name))
        return [status for status in statuses if status is not None]

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        """Depth first, folders in name order; one that cannot be listed is an error, and not empty."""
        for folder, folders, names in os.walk(self._path(prefix), onerror=raise_unlistable):
            folders.sort()
            relative = os.path.relpath(folder, self.root)
            start = "" if relative == "." else relative.replace(os.sep, "/") + "/"
            for name in sorted(names):
                status = self.status(start + name)
                if status is not None:
                    yield status

    def status(self, name: str) -> FileStatus | None:
        """From one stat call; the tag holds inode and nanoseconds."""
        try:
            stat_result = os.stat(self._path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in _NO_SUCH_NAME:
                return None
            raise StorageError.of(error, "read", self._path(name)) from error
        if stat.S_ISDIR(stat_result.st_mode):
            return None
        tag = f"{stat_result.st_ino}-{stat_result.st_mtime_ns}"
        return FileStatus(name, stat_result.st_size, stat_result.st_mtime_ns // 1_000_000, tag)

    # -- whole files ----------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """With bare system calls: half the time of ``open()`` on a log's thousands of files."""
        try:
            handle = os.open(self._path(name), os.O_RDONLY)
            try:
                data = os.read(handle, READ_CHUNK)
                if len(data) < READ_CHUNK:
                    return data
                parts = [data]
                while data := os.read(handle, os.fstat(handle).st_size + READ_CHUNK):
                    parts.append(data)
                return b"".join(parts)
            finally:
                os.close(handle)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError.of(error, "read", self._path(name)) from error

    def put_if_absent(
        self, name: str, data: bytes, *, make_folders: bool = True, turn: Turn | None = None
    ) -> bool:
        """A file without a name, which is then given this one: it appears whole, and once.

        In a ``turn`` the folder has to be there, and is synced at the turn's end.
        """
        path = self._path(name)
        if refusing.get() is not None:  # asked here: a small append is counted by its calls
            check_writable(path)
        if turn is not None:
            return turn.put(path, data)
        with Draft(self, path, data, make_folders) as draft:
            if not draft.link(path):
                return False
        if self.syncs:
            sync_path(os.path.dirname(path))
        return True

    def link_if_absent(self, source: str, name: str) -> bool | None:
        """Give a file that is on the disk a second name, if that is free; None where it cannot have two.

        The name is on the disk when its folder is synced (:meth:`sync_folder`).

        Raises:
            StorageError: nothing was changed.
        """
        path = self._path(name)
        check_writable(path)
        try:
            hard_link(self._path(source), path)
            drop_checksum(path)  # of a file that somebody has removed alone
        except FileExistsError:
            return False
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in NO_HARD_LINKS:
                return None
            raise StorageError.of(error, "written", path) from error
        return True

    def put(self, name: str, data: bytes | Iterator[bytes]) -> None:
        """A temporary file renamed over the name; of ``data`` in pieces it has each as it comes."""
        path = self._path(name)
        check_writable(path)
        with Draft(self, path, data, is_nameless=False) as draft:
            try:
                draft.replace(path)
                self.sync_folder(os.path.dirname(path))
            except OSError as error:
                raise StorageError.of(error, "written", path) from error

    def delete(self, name: str) -> None:
        """Unlink, with Hadoop's checksum of the file."""
        path = self._path(name)
        check_writable(path)
        drop_checksum(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError.of(error, "removed", path) from error

    # -- files for Arrow ------------------------------------------------------------------------

    def open_input(self, name: str) -> pa.NativeFile:
        """An operating system file."""
        import pyarrow as pa

        path = self._path(name)
        try:
            return pa.OSFile(os.fsencode(path), "rb", memory_pool=pool())  # a name need not be text
        except FileNotFoundError:
            raise
        except OSError as error:  # a folder comes without an errno
            if error.errno in (*_NO_SUCH_NAME, errno.ENOTDIR) or os.path.isdir(path):
                raise FileNotFoundError(errno.ENOENT, "there is no such file", path) from error
            raise StorageError.of(error, "read", path) from error

    def open_output(self, name: str) -> pa.NativeFile:
        """A new file that is synced when closed, so that a commit never outlives its data."""
        path = self._path(name)
        if refusing.get() is not None:
            check_writable(path)
        try:
            try:
                return self._output(path)
            except FileNotFoundError:
                self._make_folder_of(path)
                return self._output(path)
        except FileExistsError:
            raise
        except OSError as error:
            raise StorageError.of(error, "written", path) from error

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """Names outside the table are served from the root of the file system."""
        from deltanb.store.open import elsewhere

        return elsewhere(self, path)

    def local_path(self, name: str) -> str:
        """Always there."""
        return self._path(name)

    # -- helpers --------------------------------------------------------------------------------

    @property
    def syncs(self) -> bool:
        """Whether what is written here has to reach the disk."""
        return (self._durability or options.durability) == "sync"

    def _output(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        if not self.syncs and held_time() is None:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            file: pa.NativeFile = pa.OSFile(os.fsencode(path), "wb")
        else:
            file = pa.PythonFile(_SyncedFile(path, self), mode="w")
        return pa.BufferedOutputStream(file, WRITE_BUFFER)

    def _path(self, name: str) -> str:
        if not can_name_a_file(name):
            raise FileNotFoundError(errno.ENOENT, "no file can have this name", name)
        return f"{self.root}/{name}" if self.root != "/" else f"/{name}"

    def is_named_by(self, way: Way, path: str) -> None:
        """Note, and say once, how a file has been given its name for want of hard links."""
        if self.naming != way:
            self.naming = way
            self.is_partial_write_visible |= way == CLAIMED
            log = logger.warning if way == CLAIMED else logger.info
            log("%s is in a file system without hard links: %s", path, WORDS[way])

    def make_folder(self, folder: str) -> None:
        """Make a folder with its parents; their entries are synced as the file's will be."""
        check_writable(os.path.normpath(folder))
        missing = []
        parent = folder
        while not os.path.isdir(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        os.makedirs(folder, exist_ok=True)
        for made in missing:
            self.sync_folder(os.path.dirname(made))

    def _make_folder_of(self, path: str) -> None:
        """Make the folder of a new file; that a file is in its place does not say that the name is taken."""
        folder = os.path.dirname(path)
        try:
            self.make_folder(folder)
        except FileExistsError as error:
            raise StorageError.of(error, "written", path) from error

    def sync_folder(self, folder: str) -> None:
        """Have a folder's names on the disk, where the store syncs."""
        if self.syncs:
            sync_path(folder)


class _SyncedFile(io.FileIO):
    """A file whose ``close()`` returns once content and name are on the disk, where the store syncs."""

    def __init__(self, path: str, store: LocalStore) -> None:
        super().__init__(path, "xb")
        self._path = path
        self._store = store

    def write(self, data: Any) -> int:
        """The whole of it: Arrow does not look at the number returned."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done

    def close(self) -> None:
        """Give it its time, sync, then close."""
        if self.closed:
            return
        try:
            stamp(self._path)
            if self._store.syncs:
                os.fsync(self.fileno())
        finally:
            super().close()
        self._store.sync_folder(os.path.dirname(self._path))


def raise_unlistable(error: OSError) -> None:
    """For ``os.walk(onerror=…)``, which else takes a folder that it cannot list for an empty one.

    A folder that is gone by now holds nothing.

    Raises:
        StorageError: any other error.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise StorageError.of(error, "listed", str(error.filename)) from error


def unsynced(store: LogStore) -> LogStore:
    """The same folder, written without fsync; other kinds of store as they are.

    For what can be made again from the log, as checksums and the checkpoint hint: a commit must survive a
    power cut, these need not, and readers ignore them where they are torn.

    >>> unsynced(LocalStore("/lake/t"))
    LocalStore('/lake/t')
    """
    return _unsynced(store.root) if type(store) is LocalStore else store


@lru_cache(maxsize=64)
def _unsynced(root: str) -> LocalStore:
    return LocalStore(root, durability="none")


def turn_in(store: LogStore) -> Turn | None:
    """A turn among the writers of this host, where the store has turns. One that somebody made of ours has
    none: its own ``put_if_absent`` is asked for every put."""
    return Turn(store) if type(store) is LocalStore else None
