"""Where a log learns its commits: which there are, what is in each, when each was written.

What lives here: the protocol :class:`Commits`, the names of commit files, and :class:`FolderCommits`, whose
commits are the files ``_delta_log/<version>.json`` and nothing else. Whatever opens, lists or looks at a
commit asks ``log.commits``, so that a log can have commits that are not files yet.
What it does not know: what is in a commit (``lines``), which other files of the log stand for commits
(``segment``), and how commits come to be (``transaction/committer``).

>>> from deltanb.testing import MemoryStore, TableBuilder
>>> commits = FolderCommits(TableBuilder(MemoryStore()).create("id long").store)
>>> commits.newest(), commits.names(), commits.status(1)
(0, {0: '_delta_log/00000000000000000000.json'}, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from deltanb.store.base import FileStatus, LogStore

__all__ = ["LOG_FOLDER", "STAGED_FOLDER", "Commits", "FolderCommits", "commit_name", "commits_among"]

LOG_FOLDER = "_delta_log"
STAGED_FOLDER = f"{LOG_FOLDER}/_staged_commits"
"""Where commits lie that a catalog may ratify; none of them counts by being there."""
_LOG_START = LOG_FOLDER + "/"
_NAME = _LOG_START + "%020d.json"  # zero-padded: PROTOCOL.md, "Delta Log Entries"
_LENGTH = len(_NAME % 0)


class Commits(Protocol):
    """The commits of one table, by version.

    Versions have no gaps above the oldest commit that is left (PROTOCOL.md, "Delta Log Entries"), and a
    commit never changes once it is there. What a commit is read from is its own affair: where one is known
    from two places, all methods speak of the same of them, and none knows any version above the newest.

    What cannot be listed, looked at or read is a :class:`~deltanb.errors.StorageError`, and never taken for
    what is not there.
    """

    is_managed: bool
    """Whether a catalog says which commits there are: what lies in the folder above the newest is nothing."""

    def newest(self) -> int:
        """The newest version there is now; -1 without any."""

    def published(self, version: int) -> int:
        """The newest version up to a given one that is a file of the folder, as all before it are.

        Checkpoints and compactions end there (PROTOCOL.md, "Catalog-managed tables"): whoever reads the
        folder alone must find the commits that they stand for.
        """

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """The versions that have a commit, each with the name that messages give it.

        ``listed`` are the names of the log folder, all or from a version on, where the caller has listed
        them: they are not listed again.
        """

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """The commits from a version on with their statuses, in the order of versions."""

    def status(self, version: int) -> FileStatus | None:
        """One commit's status, or None where there is no such commit."""

    def identity(self, version: int) -> object:
        """What differs wherever the commit does, and stays as it is as long as that does; None without one.

        The log behind a snapshot is the one that was read as long as the identity of its commit is.
        """

    def read(self, version: int) -> bytes:
        """The lines of one commit; FileNotFoundError where there is none."""

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """The lines of several, by version and name as :meth:`names` gives them, in their order; None for
        one that is not there any more.

        Where reading waits for a network, several are read at a time.
        """


class FolderCommits:
    """Commits as files of ``_delta_log``: what is there counts, and nothing else does."""

    is_managed = False

    def __init__(self, store: LogStore) -> None:
        self.store = store

    def newest(self) -> int:
        """As the listing tells it."""
        return max(self.names(), default=-1)

    def published(self, version: int) -> int:
        """The version itself: every commit is a file."""
        return version

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """Those of the files."""
        return commits_among(self.store.list_names(_LOG_START) if listed is None else listed)

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """From one listing."""
        statuses = {status.name: status for status in self.store.list_from(commit_name(first))}
        return [(version, statuses[name]) for version, name in commits_among(statuses).items()]

    def status(self, version: int) -> FileStatus | None:
        """The file's."""
        return self.store.status(_NAME % version)

    def identity(self, version: int) -> object:
        """The file's status: a file that was replaced has another one."""
        return self.status(version)

    def read(self, version: int) -> bytes:
        """The file's content."""
        return self.store.read(_NAME % version)

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """One file after the other: a folder's disk is not faster for being asked more at a time."""
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
