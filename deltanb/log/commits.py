"""Where a log gets its commits: which exist, what each contains, when each was written.

What lives here: the protocol :class:`Commits`, the names of commit files, and :class:`FolderCommits`, whose
commits are exactly the files ``_delta_log/<version>.json``. Everything that opens or lists commits goes
through ``log.commits``, so that a log can have commits that are not files yet.
What it does not know: the content of a commit (``lines``), which other files replace commits (``segment``),
and how commits are made (``transaction/committer``).

>>> from deltanb.testing import MemoryStore, TableBuilder
>>> commits = FolderCommits(TableBuilder(MemoryStore()).create("id long").store)
>>> commits.newest(), commits.names(), commits.status(1)
(0, {0: '_delta_log/00000000000000000000.json'}, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from deltanb.store.base import FileStatus, LogStore

__all__ = ["LOG_FOLDER", "STAGED_FOLDER", "Commits", "FolderCommits", "PublishedCommits", "commit_name",
           "commits_among"]

LOG_FOLDER = "_delta_log"
STAGED_FOLDER = f"{LOG_FOLDER}/_staged_commits"
"""Where commits lie that a catalog may ratify; none of them counts by being there."""
_LOG_START = LOG_FOLDER + "/"
_NAME = _LOG_START + "%020d.json"  # zero-padded: PROTOCOL.md, "Delta Log Entries"
_LENGTH = len(_NAME % 0)


class Commits(Protocol):
    """The commits of one table, by version.

    Versions have no gaps above the oldest commit that is left (PROTOCOL.md, "Delta Log Entries"), and a
    commit never changes. Where a commit is read from is up to the implementation: if two places have it, all
    methods use the same one, and none knows a version above the newest.

    A failure to list or read is a :class:`~deltanb.errors.StorageError`, never an absent commit.
    """

    is_managed: bool
    """Whether a catalog says which commits there are: what lies in the folder above the newest is nothing."""

    def newest(self) -> int:
        """The newest version; -1 if there is none."""

    def published(self, version: int) -> int:
        """The newest version up to a given one that is a file of the folder, as all before it are.

        Checkpoints and compactions end there (PROTOCOL.md, "Catalog-managed tables"), because readers of the
        folder must find the commits they replace.
        """

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """The versions that have a commit, each with its name for messages.

        ``listed`` are the names of the log folder, all or from a version on, if the caller has listed them
        already.
        """

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """The commits from a version on with their statuses, in the order of versions."""

    def status(self, version: int) -> FileStatus | None:
        """One commit's status, or None if there is no such commit."""

    def identity(self, version: int) -> object:
        """A value that changes exactly when the commit is replaced; None without a commit.

        A snapshot's log is unchanged as long as the identity of its commit is.
        """

    def read(self, version: int) -> bytes:
        """The lines of one commit; FileNotFoundError if there is none."""

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """The lines of several commits, by version and name as from :meth:`names`, in order; None for one
        that is gone.

        Over a network, several are read at a time.
        """

    def through(self, store: LogStore) -> Commits:
        """The same commits, read from a store that is another view of theirs."""

    def maintenance_refused(self, operation: str) -> str | None:
        """Why an operation of :mod:`~deltanb.log.maintenance` is not ours to do; None where it is."""


class FolderCommits:
    """Commits that are the files of ``_delta_log``."""

    is_managed = False

    def __init__(self, store: LogStore) -> None:
        self.store = store

    def through(self, store: LogStore) -> Commits:
        """Those of the store."""
        return type(self)(store)

    def maintenance_refused(self, operation: str) -> str | None:
        """None: a folder is whose who may write to it."""
        return None

    def newest(self) -> int:
        """The newest version in a listing."""
        return max(self.names(), default=-1)

    def published(self, version: int) -> int:
        """The version itself, since every commit is a file."""
        return version

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """The versions that have a file."""
        return commits_among(self.store.list_names(_LOG_START) if listed is None else listed)

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """The commits with their statuses, from one listing."""
        statuses = {status.name: status for status in self.store.list_from(commit_name(first))}
        return [(version, statuses[name]) for version, name in commits_among(statuses).items()]

    def status(self, version: int) -> FileStatus | None:
        """The status of the commit's file."""
        return self.store.status(_NAME % version)

    def identity(self, version: int) -> object:
        """The file's status, which changes when the file is replaced."""
        return self.status(version)

    def read(self, version: int) -> bytes:
        """The file's content."""
        return self.store.read(_NAME % version)

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """The files one after the other: a local disk is not faster with parallel reads."""
        many = getattr(self.store, "read_many", None)
        if many is not None:
            yield from many(names.values())
            return
        read = self.store.read
        for name in names.values():
            try:
                yield read(name)
            except FileNotFoundError:
                yield None


class PublishedCommits(FolderCommits):
    """Those of a table that a catalog manages, or is about to, as far as they are files.

    The newest may be missing: a commit is published right after it is ratified. So nothing is committed
    behind these.
    """

    is_managed = True


def commits_among(names: Iterable[str]) -> dict[int, str]:
    """Version -> name; written out because ten thousand names are nothing unusual."""
    return {
        int(name[11:31]): name
        for name in names
        if len(name) == _LENGTH and name[31:] == ".json" and name[:11] == _LOG_START
        and name[11:31].isdigit() and name.isascii()
    }


def commit_name(version: int) -> str:
    """The file of a commit.

    >>> commit_name(7)
    '_delta_log/00000000000000000007.json'
    """
    return _NAME % version
