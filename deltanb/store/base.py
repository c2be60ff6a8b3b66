"""Where a table's files are: what a log asks of a store.

What lives here: the protocol of names, listings, reads and writes, above all put-if-absent, on which every
commit rests. Names are relative to the table's root and use ``/``.
What it does not know: what the files mean. No name of a log file, no action, no Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from deltanb.concurrency.parallel import MAX_WAITING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileStatus", "LogStore", "delete_many", "is_remote", "open_input", "read_concurrency",
           "read_range"]

DELETED_AT_ONCE = 1000


@dataclass(frozen=True)
class FileStatus:
    """One file: its name in the store, size in bytes, modification time in epoch milliseconds.

    ``tag`` differs whenever a name was given new content, as far as the store can tell.
    """

    name: str
    size: int
    modification_time: int
    tag: str = ""


@runtime_checkable
class LogStore(Protocol):
    """What a log asks of a file system; rooted at the table.

    What cannot be listed, looked at or read is a :class:`~deltanb.errors.StorageError`, and never taken for
    what is not there.

    A store may have more, which is used where it is there: ``is_remote``, True where each request waits for a
    network (:func:`is_remote`); ``read_many(names)``, an iterator of contents with None for what is absent;
    ``delete_many(names)``; ``read_range(name, start, stop)`` (:func:`read_range`); ``identity``, a text that
    is the same for all stores of one place; and ``creates_only``, True where ``open_output`` raises
    FileExistsError for a name that is taken. In a store without it new files have random names, whatever
    ``options.new_id`` gives.
    """

    root: str
    """As the person gave it: an absolute path, or a URI."""
    is_partial_write_visible: bool
    """Whether a reader may see a file that is still being written."""
    has_folders: bool
    """Whether a name needs a folder that is there; ``put_if_absent`` takes ``make_folders`` then."""
    is_final: bool
    """Whether nothing of a put happens after it has returned or was interrupted: its False then means a
    file that is another's. Where requests are repeated below the store it may be our own."""

    def list_from(self, name: str) -> list[FileStatus]:
        """The files in the folder of ``name`` whose names are ``name`` or later, sorted by name."""

    def list_names(self, name: str) -> list[str]:
        """As :meth:`list_from`, names only: cheaper where a status costs a call."""

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        """Every file below a folder ("" is the whole table)."""

    def status(self, name: str) -> FileStatus | None:
        """One file, or None."""

    def read(self, name: str) -> bytes:
        """The whole content; FileNotFoundError where there is none."""

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        """Create the file with its whole content, or return False because it exists.

        With ``make_folders=False`` a missing folder is an error: what was there was removed.

        A :class:`~deltanb.errors.StorageError` says that nothing was created. Any other OSError leaves
        that open.
        """

    def put(self, name: str, data: bytes) -> None:
        """Create or replace the file; readers see the old or the new content, nothing between.

        Raises:
            StorageError: it cannot be written.
        """

    def delete(self, name: str) -> None:
        """Remove the file; an absent one is fine.

        Raises:
            StorageError: it is there and cannot be removed.
        """

    def open_input(self, name: str) -> pa.NativeFile:
        """A random access file for Arrow's readers; FileNotFoundError where there is none."""

    def open_output(self, name: str) -> pa.NativeFile:
        """A new file for Arrow's writers; folders are made, content counts from ``close()`` on."""

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """(store, name) of a *decoded* path: relative, absolute, or a URI. See ``store/paths.py``."""

    def local_path(self, name: str) -> str | None:
        """The path on this machine's file system, or None for other kinds of store."""


def is_remote(store: LogStore) -> bool:
    """Whether each request waits for a network: a store says so by an attribute ``is_remote``.

    Then several files are read at a time, and one listing is asked rather than several statuses.
    """
    return bool(getattr(store, "is_remote", False))


def read_concurrency(store: LogStore, usual: int | None = None) -> int | None:
    """How many of a store's files are read at a time: ``usual`` where no network is waited for.

    None is for as many as there are processors, as :func:`deltanb.concurrency.parallel.each` takes it.
    """
    return MAX_WAITING if is_remote(store) else usual


def open_input(store: LogStore, name: str, ahead: int | None) -> pa.NativeFile:
    """As ``store.open_input(name)``; a store with ``open_ahead`` asks first for so many bytes of the end,
    where somebody knows how many."""
    opener = getattr(store, "open_ahead", None)
    file: pa.NativeFile = store.open_input(name) if opener is None or ahead is None else opener(name, ahead)
    return file


def read_range(store: LogStore, name: str, start: int, stop: int) -> bytes:
    """The bytes of a file from a place to another one, fewer where it ends before: by one request where the
    store has ``read_range``.

    Raises:
        FileNotFoundError: there is none.
        StorageError: it cannot be read.
    """
    reader = getattr(store, "read_range", None)
    if reader is not None:
        return bytes(reader(name, start, stop))
    with store.open_input(name) as file:
        return bytes(file.read_at(stop - start, start)) if start < file.size() else b""


def delete_many(store: LogStore, names: Sequence[str]) -> Iterator[str]:
    """Remove files and give the name of each that is gone; a store with ``delete_many`` takes many at once.

    Raises:
        StorageError: one of them is there and cannot be removed.
    """
    many = getattr(store, "delete_many", None)
    for at in range(0, len(names), DELETED_AT_ONCE):
        some = names[at:at + DELETED_AT_ONCE]
        if many is not None:
            many(some)
        for name in some:
            if many is None:
                store.delete(name)
            yield name
