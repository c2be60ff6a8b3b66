"""The commits of a Delta table that a catalog manages: those in its folder, and those ratified since.

What lives here: :class:`CatalogCommits`, an implementation of :class:`~deltanb.log.commits.Commits`. The
catalog decides which versions exist. For a version that it still holds, its commit counts, whatever file has
that version's name; above its latest version, no file counts (PROTOCOL.md, "Catalog-managed tables").
What it does not know: how commits are made (``managed``), their content.

Invariant: a version that the catalog has named never changes, and moves only from the catalog into the
folder. So one answer of the catalog is valid for all versions up to its latest, and the catalog is asked
again only for a later version, or if a staged file is gone because its version was published meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from deltanb.errors import InvalidTable, VersionNotFound
from deltanb.log.commits import LOG_FOLDER, STAGED_FOLDER, FolderCommits, commit_name
from deltanb.store.base import FileStatus, LogStore

if TYPE_CHECKING:
    from deltanb.catalog.store.store import Commit, Tail

__all__ = ["CatalogCommits", "Tails", "staged_name"]

class Tails(Protocol):
    """The interface of a catalog: a :class:`~deltanb.catalog.store.store.CatalogStore` or a server."""

    def tails(self, table_ids: Iterable[str]) -> dict[str, Tail]:
        """Tables with their commits that are not published."""

    def content(self, table_id: str, version: int) -> bytes:
        """The content of a commit that the catalog keeps itself."""

    def set_published(self, table_id: str, version: int) -> None:
        """Record that all versions up to one are in the folder."""


def staged_name(file_name: str) -> str:
    """The path of a staged commit.

    >>> staged_name("00000000000000000007.4a1f.json")
    '_delta_log/_staged_commits/00000000000000000007.4a1f.json'
    """
    return f"{STAGED_FOLDER}/{file_name}"


class _Answer:
    """The latest that a catalog has said of a table, and what it has said just now, which nobody has taken in
    yet; the same for all views of its commits."""

    tail: Tail | None = None
    unused: Tail | None = None
    reported: int = -1
    """Up to which version commits are in the folder as far as the catalog has heard."""
    is_unsynced: bool = False
    """Whether commits have names in the folder that a power cut may take."""


class CatalogCommits:
    """The commits of the table with an id, whose folder is ``store``.

    Raises (each method):
        TableNotFound: the catalog no longer has the table.
        StorageError: the catalog, or the folder, cannot be read.
    """

    is_managed = True

    def __init__(self, store: LogStore, catalog: Tails, table_id: str) -> None:
        self.folder, self.catalog, self.table_id = FolderCommits(store), catalog, table_id
        self._answer = _Answer()

    @property
    def _known(self) -> Tail | None:
        return self._answer.tail

    def through(self, store: LogStore) -> CatalogCommits:
        """Those of the catalog, and the folder's from a store that is another view of it. Both know what
        either has heard from the catalog."""
        other = copy(self)
        other.folder = FolderCommits(store)
        return other

    def look(self) -> Tail:
        """The table's latest version and the commits that are not published, as they are now."""
        return self.take(self.catalog.tails([self.table_id])[self.table_id])

    def take(self, tail: Tail) -> Tail:
        """Remember the catalog's answer, unless a later one is known; returns the latest one, with what is in
        the folder and was not reported yet."""
        known = self._known
        self._answer.reported = max(self._answer.reported, tail.published)
        if known is None or tail.latest >= known.latest:
            self._answer.tail = known = tail if known is None else _published(tail, known.published)
        return known

    def is_published(self, version: int) -> bool:
        """Whether a version is known to be in the folder, without asking the catalog."""
        return self._known is not None and version <= self._known.published

    def unpublished(self, version: int) -> tuple[Commit, ...] | None:
        """The commits up to a version that are not known to be in the folder, without asking the catalog.

        None where it has to be asked."""
        known = self._known
        if known is None or known.latest < version:
            return None
        return tuple(commit for commit in known.commits if commit.version <= version)

    def note_published(self, version: int) -> None:
        """Note that all versions up to a ratified one are in the folder; the catalog hears of it later."""
        if self._known is not None:
            self._answer.tail = _published(self._known, version)

    def unreported(self) -> int | None:
        """Up to which version commits are in the folder, where the catalog has not heard of it."""
        known = self._known
        return None if known is None or known.published <= self._answer.reported else known.published

    def report(self) -> None:
        """Let the catalog know at once what is in the folder.

        Raises:
            TableNotFound: it was dropped.
            StorageError: the catalog cannot be written.
        """
        version = self.unreported()
        if version is not None:
            self.sync()
            self.catalog.set_published(self.table_id, version)
            self._answer.reported = version

    def note_unsynced(self) -> None:
        """Note that a commit has a name in the folder that nobody has waited for the disk with."""
        self._answer.is_unsynced = True

    def sync(self) -> None:
        """Have the names of all commits in the folder on the disk. From the report on the catalog relies on
        them; before it they are given once more. Next to the syncs of the next commit this costs next to
        nothing.

        Raises:
            StorageError: they are not known to be there; nothing may be reported.
        """
        if self._answer.is_unsynced:
            self._answer.is_unsynced = False  # before: a name that is given meanwhile is another matter
            store: Any = self.folder.store
            try:
                if hasattr(store, "sync_folder"):  # else every name that can be seen is there for good
                    store.sync_folder(store.local_path(LOG_FOLDER))
            except BaseException:
                self._answer.is_unsynced = True
                raise

    def _reaching(self, version: int) -> Tail:
        """The known answer if it covers a version, else the catalog's current one."""
        known = self._known
        return known if known is not None and version <= known.latest else self.look()

    def maintenance_refused(self, operation: str) -> str | None:
        """None: this library's catalogs leave all of it to their clients."""
        return None

    def newest(self) -> int:
        """The latest version that is ratified."""
        return self.look().latest

    def published(self, version: int) -> int:
        """The version that the catalog has as published. What is built on that, such as a checkpoint, is for
        others: so it hears first of what it has not heard."""
        self.report()
        known = self._known
        if known is None or version > known.published:
            known = self.look()
        return min(version, known.published)

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """The files of the folder up to the published version, then the catalog's own."""
        tail = self.look()
        names = {v: name for v, name in self.folder.names(listed).items() if v <= tail.published}
        return names | {commit.version: _name_of(commit) for commit in tail.commits}

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """Like :meth:`names`, with the status of each."""
        tail = self.look()
        files = [(v, status) for v, status in self.folder.listed(first) if v <= tail.published]
        return files + [(c.version, _status_of(c)) for c in tail.commits if c.version >= first]

    def status(self, version: int) -> FileStatus | None:
        """The status of one commit; its name changes when it is published."""
        tail = self._reaching(version)
        if version > tail.latest:
            return None
        commit = _commit_at(tail, version)
        return self.folder.status(version) if commit is None else _status_of(commit)

    def identity(self, version: int) -> object:
        """The table's id and the version, since a ratified version never changes."""
        return (self.table_id, version) if 0 <= version <= self._reaching(version).latest else None

    def read(self, version: int) -> bytes:
        """The lines of one commit.

        Raises:
            FileNotFoundError: the version is not ratified, or was cleaned up.
            InvalidTable: the version is ratified, but its staged file is gone.
        """
        tail = self._reaching(version)
        if version > tail.latest:
            raise FileNotFoundError(commit_name(version))
        commit = _commit_at(tail, version)
        if commit is None:
            return self.folder.read(version)
        body = self._content(commit)
        if body is not None:
            return body
        if _commit_at(self.look(), version) is None:  # it was published, and cleaned up here
            return self.folder.read(version)
        name, root = _name_of(commit), self.folder.store.root
        raise InvalidTable(
            f"{root}: the catalog has ratified version {version}, and its file {name} is gone. Restore it "
            "from a backup; no later version can be read without it", path=root, file=name, version=version)

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """The contents of commits in the folder, then of the catalog's own."""
        files = {v: name for v, name in names.items() if name == commit_name(v) and self._is_in_folder(v)}
        yield from self.folder.read_many(files)
        for version in names:
            if version not in files:
                try:
                    yield self.read(version)
                except FileNotFoundError:
                    yield None

    def _is_in_folder(self, version: int) -> bool:
        return version <= self._reaching(version).published

    def _content(self, commit: Commit) -> bytes | None:
        """The content from the catalog or the staged file; None if neither has it."""
        try:
            if commit.file_name is None:
                return self.catalog.content(self.table_id, commit.version)
            return self.folder.store.read(staged_name(commit.file_name))
        except (FileNotFoundError, VersionNotFound):
            return None


def _published(tail: Tail, version: int) -> Tail:
    """The tail of a table of which all versions up to one are in the folder."""
    if version <= tail.published:
        return tail
    return replace(tail, latest=max(tail.latest, version), published=version,
                   commits=tuple(commit for commit in tail.commits if commit.version > version))


def _commit_at(tail: Tail, version: int) -> Commit | None:
    """The catalog's own commit of a version; they follow the published one without a gap."""
    at = version - tail.published - 1
    return tail.commits[at] if 0 <= at < len(tail.commits) else None


def _name_of(commit: Commit) -> str:
    return commit_name(commit.version) if commit.file_name is None else staged_name(commit.file_name)


def _status_of(commit: Commit) -> FileStatus:
    time = commit.mtime if commit.mtime is not None else commit.ict
    return FileStatus(_name_of(commit), commit.file_size or 0, time or 0)
