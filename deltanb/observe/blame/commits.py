"""Commits as a blame reads them: what each did to files, and whether it wrote rows or only moved them.

What lives here: :class:`Commits`, which reads each commit once, and :class:`Commit`.
What it does not know: rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action, AddCDCFile, AddFile, CommitInfo, RemoveFile, decode_path
from deltanb.errors import DeltaError
from deltanb.log.history import HistoryEntry, whole_number
from deltanb.log.replay import canonical_path
from deltanb.observe.tracks import predicate_of
from deltanb.text import formatting as units
from deltanb.transaction.operations import BACKFILL, PRESERVED, REPLACE_TABLE

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

REPLACES_ALL = REPLACE_TABLE | {"TRUNCATE", "CLONE", "CONVERT"}
"""Operations of which every row that a version has behind them was written by them."""


def key_of(path: str) -> str:
    """How a file is called here, however its path is spelled in the log."""
    return canonical_path(decode_path(path))


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
    def restored(self) -> int | None:
        """The version whose files are the table's again, of a RESTORE that names it."""
        return whole_number(self.parameters.get("version")) if self.operation == "RESTORE" else None

    @property
    def replaces_all(self) -> bool:
        """Whether all rows behind it are its own."""
        is_overwrite = self.operation == "WRITE" and str(self.parameters.get("mode")).lower() == "overwrite"
        return self.operation in REPLACES_ALL or (is_overwrite and not predicate_of(self.parameters))

    @property
    def condition(self) -> str | None:
        """SQL for the rows that it wrote or deleted, of those that were there: all others are copies.
        ``TRUE`` for all; None where the operation does not say."""
        if self.operation in ("UPDATE", "DELETE") or (self.operation == "WRITE" and self.removed):
            text = _whole_predicate(self.parameters)
            return "TRUE" if text == "" else text
        return None

    @property
    def keeps_ids(self) -> bool:
        """Whether row ids and commit versions tell who wrote a row, as far as this commit goes."""
        if self.operation == BACKFILL or self.is_layout:
            return False
        tags = self.info.tags if isinstance(self.info.tags, Mapping) else {}
        return not self.removed or self.replaces_all or str(tags.get(PRESERVED)).lower() == "true"


def _whole_predicate(parameters: Mapping[str, Any]) -> str | None:
    """The condition as SQL, uncut; empty for none."""
    from deltanb.observe.recorded import _SPARK_ID

    value = units.parsed(parameters.get("predicate"))
    texts = value if isinstance(value, list) else [value]
    parts = [_SPARK_ID.sub("", str(text)) for text in texts if text not in (None, "", True)]
    return " AND ".join(f"({part})" for part in parts)


class Commits:
    """The commits of a log, each read once."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self._known: dict[int, Commit | None] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._entries: dict[int, HistoryEntry] = {}
        self.unreadable: dict[int, str] = {}
        """Commits that are gone or damaged, and why."""

    def at(self, version: int) -> Commit | None:
        """A commit; None if it is gone or damaged."""
        if version not in self._known:
            try:
                self._known[version] = Commit(version, tuple(self.log.read_commit(version)))
            except (DeltaError, OSError) as error:
                self._known[version] = None
                self.unreadable[version] = units.clean(str(error).split("\n", 1)[0])
        return self._known[version]

    def snapshot(self, version: int) -> Snapshot:
        """The table at a version.

        Raises:
            DeltaError: it cannot be read any more.
        """
        if version not in self._snapshots:
            self._snapshots[version] = self.log.snapshot_at(version)
        return self._snapshots[version]
