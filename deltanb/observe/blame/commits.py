"""Commits as a blame reads them: what each did to files, and whether it wrote rows or only moved them.

What lives here: :class:`Commits`, which reads each commit once, and :class:`Commit`.
What it does not know: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action, AddCDCFile, AddFile, CommitInfo, RemoveFile, decode_path
from deltanb.errors import DeltaError
from deltanb.log.commits import commit_name
from deltanb.log.lines import parse_commit
from deltanb.log.replay import canonical_path
from deltanb.observe.tracks import conditions_of
from deltanb.store.base import is_remote
from deltanb.text import formatting as units
from deltanb.transaction.operations import BACKFILL, MATCHED, PRESERVED, REPLACE_TABLE

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

AHEAD = 64  # commits of a bucket that are read at a time: a walk mostly needs some hundred, or few
REPLACES_ALL = REPLACE_TABLE | {"TRUNCATE", "CLONE", "CONVERT"}
"""Operations of which every row that a version has behind them was written by them."""


def key_of(path: str) -> str:
    """How a file is called here, however its path is spelled in the log."""
    return canonical_path(decode_path(path))


def reason_of(error: Exception) -> str:
    """The first line of an error, clean."""
    return units.clean(str(error).split("\n", 1)[0])


@dataclass(frozen=True)
class Commit:
    """One commit: what it says of itself, and its actions."""

    version: int
    actions: tuple[Action, ...]

    @cached_property
    def info(self) -> CommitInfo:
        """What it says of itself; empty where it says nothing."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def operation(self) -> str:
        """The operation, empty if the commit names none."""
        return self.info.operation if isinstance(self.info.operation, str) else ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The operation's parameters."""
        known = self.info.operation_parameters
        return known if isinstance(known, Mapping) else {}

    @cached_property
    def added(self) -> dict[str, AddFile]:
        """The files that are added, by key."""
        return {key_of(a.path): a for a in self.actions if isinstance(a, AddFile)}

    @cached_property
    def removed(self) -> dict[str, RemoveFile]:
        """The files that are removed, by key; those that are added with another deletion vector, too."""
        return {key_of(a.path): a for a in self.actions if isinstance(a, RemoveFile)}

    @cached_property
    def change_files(self) -> tuple[AddCDCFile, ...]:
        """The files of the change feed."""
        return tuple(a for a in self.actions if isinstance(a, AddCDCFile))

    @property
    def is_layout(self) -> bool:
        """Whether it moves rows and writes none."""
        files = [*self.added.values(), *self.removed.values()]
        return bool(files) and all(file.data_change is False for file in files)

    @property
    def replaces_all(self) -> bool:
        """Whether all rows behind it are its own."""
        is_overwrite = self.operation == "WRITE" and str(self.parameters.get("mode")).lower() == "overwrite"
        return self.operation in REPLACES_ALL or (is_overwrite and not conditions_of(self.parameters))

    @property
    def condition(self) -> str | None:
        """SQL for the rows that it wrote or deleted, of those that were there: all others are copies.
        ``TRUE`` for all; None where the operation does not say, or compares them with its source."""
        if any(self.parameters.get(matched) for matched in MATCHED):
            return None
        if self.operation in ("UPDATE", "DELETE") or (self.operation == "WRITE" and self.removed):
            return " AND ".join(f"({part})" for part in conditions_of(self.parameters)) or "TRUE"
        return None

    @property
    def keeps_ids(self) -> bool:
        """Whether row ids and commit versions tell who wrote a row, as far as this commit goes."""
        if self.operation == BACKFILL or self.is_layout:
            return False
        tags = self.info.tags if isinstance(self.info.tags, Mapping) else {}
        return not self.removed or self.replaces_all or str(tags.get(PRESERVED)).lower() == "true"


class Commits:
    """The commits of a log, each read once."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self._known: dict[int, Commit | None] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self.unreadable: dict[int, str] = {}
        """Commits that are gone or damaged, and why."""

    def at(self, version: int) -> Commit | None:
        """A commit; None if it is gone or damaged."""
        if version not in self._known:
            self._know(version, lambda: self.log.read_commit(version))
        return self._known[version]

    def read_before(self, version: int) -> None:
        """Read a commit and some before it at a time, where each would wait for a network."""
        if version in self._known or not is_remote(self.log.store):
            return
        numbers = [number for number in range(version, max(-1, version - AHEAD), -1)
                   if number not in self._known]
        names = {number: commit_name(number) for number in numbers}
        for (number, name), data in zip(names.items(), self.log.commits.read_many(names), strict=True):
            if data is not None:
                self._know(number, partial(parse_commit, data, name, self.log.path))

    def _know(self, version: int, read: Callable[[], Iterable[Action]]) -> None:
        try:
            self._known[version] = Commit(version, tuple(read()))
        except (DeltaError, OSError) as error:
            self._known[version] = None
            self.unreadable[version] = reason_of(error)

    def snapshot(self, version: int) -> Snapshot:
        """The table at a version.

        Raises:
            DeltaError: it cannot be read any more.
        """
        if version not in self._snapshots:
            self._snapshots[version] = self.log.snapshot_at(version)
        return self._snapshots[version]
