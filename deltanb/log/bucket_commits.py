"""The commits of a table in a bucket: like those of a folder, with a single round trip per question.

What lives here: :class:`BucketCommits`. One listing shows whether the commit that was read is still the same
and which commits are new; the identity of a commit comes with the response that returned it.
What it does not know: how a bucket is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.concurrency.parallel import begin, each
from deltanb.log.commits import LOG_FOLDER, FolderCommits, commit_name, commits_among

if TYPE_CHECKING:
    from deltanb.log.listed_files import ListedFiles
    from deltanb.store.base import LogStore

__all__ = ["Begun", "BucketCommits"]

_BEHIND_NUMBERS = f"{LOG_FOLDER}/:"
"""Behind the names that begin with a version: a listing ends there, before the sidecars."""
WINDOW = 250
"""Versions that are listed first in search of a checkpoint: with a commit, a checksum and two more files of
each, a page of a listing has them all."""


class BucketCommits(FolderCommits):
    """Commits as objects ``_delta_log/<version>.json``.

    A commit is identified by its tag alone, since a listing and a request report its time differently.
    """

    def __init__(self, store: LogStore) -> None:
        super().__init__(store)
        self._store: Any = store

    def identity(self, version: int) -> str | None:
        """The object's tag now."""
        status = self.status(version)
        return None if status is None else status.tag

    def seen(self, version: int) -> str | None:
        """The tag of a commit that was just read, listed or written."""
        tag: str | None = self._store.tag_of(commit_name(version))
        return self.identity(version) if tag is None else tag

    def known_time(self, version: int) -> int | None:
        """When a commit was written that was just read or listed, in epoch milliseconds; None where the
        bucket has not said it."""
        time: int | None = self._store.time_of(commit_name(version))
        return time

    def since(self, version: int) -> tuple[str | None, Mapping[int, str]]:
        """(the identity of a version, the commits after it) as of now, from one listing."""
        name = commit_name(version)
        listed = {s.name: s.tag for s in self._store.list_from(name, until=_BEHIND_NUMBERS)}
        after = {v: commit for v, commit in commits_among(listed).items() if v > version}
        return listed.get(name), {v: after[v] for v in sorted(after)}


    def names_before(self, version: int) -> Iterator[list[str]]:
        """Names of the log up to a version: first the newest, then more each time, until all are listed.

        A past version is read from the checkpoint before it, which is nearer than the first commit; nothing
        after the version is listed.
        """
        names: list[str] = []
        end, width = version + 1, WINDOW
        while end > 0:
            begin = max(0, end - width)
            listed = self._store.list_from(f"{LOG_FOLDER}/{begin:020}.", until=f"{LOG_FOLDER}/{end:020}")
            names = [*(status.name for status in listed), *names]
            yield names
            end, width = begin, width * 3


class Begun:
    """A store some of whose files are being read already, so that reading them waits less.

    The view is created as soon as the names are known, while something else is read, and used when the
    contents are needed. It begins with those that are asked for at a time: more would be held in memory.
    """

    def __init__(self, store: ListedFiles, names: Sequence[str]) -> None:
        self._store: Any = store
        at_once = store.at_once(names)
        names = names[:at_once]
        self._names = frozenset(names)
        self._contents = begin(lambda: dict(zip(names, each(self._asked, names, at_once, "ahead"),
                                             strict=True)), "ahead")

    def _asked(self, name: str) -> bytes | OSError:
        try:
            data: bytes = self._store.read(name)
            return data
        except OSError as error:  # it belongs to whoever reads this file
            return error

    def read(self, name: str) -> bytes:
        """The content, as the store itself reads it."""
        if name not in self._names:
            return bytes(self._store.read(name))
        content = self._contents()[name]
        if isinstance(content, OSError):
            raise content
        return content

    def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of several, in their order; None for one that is not there."""
        names = list(names)
        begun = next((place for place, name in enumerate(names) if name not in self._names), len(names))
        for name in names[:begun]:
            try:
                yield self.read(name)
            except FileNotFoundError:
                yield None
        yield from self._store.read_many(names[begun:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
