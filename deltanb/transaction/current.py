"""The transaction as the commit algorithm and the conflict rules see it.

What lives here: one frozen value with everything that decides a commit; a rebase returns a new one.
What it does not know: the log, stores, how it came about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action, AddFile, CommitInfo, Metadata, Protocol, RemoveFile, TransactionGroup
from deltanb.actions.data_files import vectors_of
from deltanb.actions.markers import GROUP_TAG
from deltanb.errors import InvalidTransaction
from deltanb.schema.types import StructType
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import Reads
from deltanb.transaction.row_levels import level_of

if TYPE_CHECKING:
    from deltanb.actions import DeletionVector
    from deltanb.transaction.steps import Winner

SERIALIZABLE = "Serializable"
WRITE_SERIALIZABLE = "WriteSerializable"
SNAPSHOT_ISOLATION = "SnapshotIsolation"


@dataclass(frozen=True)
class CurrentTransaction:
    """A prepared transaction. ``actions`` are final but for what a rebase changes."""

    txn_id: str
    table: str
    read_version: int
    read_metadata: Metadata
    read_protocol: Protocol
    metadata: Metadata
    protocol: Protocol
    actions: tuple[Action, ...]
    reads: Reads
    operation: Operation
    isolation: str
    is_blind_append: bool
    commit_info: CommitInfo
    row_id_high_water_mark: int = -1
    records_commit_info: bool = True
    group: TransactionGroup | None = None
    """The transaction of several tables that its commit names."""
    appended: tuple[AddFile, ...] = ()
    """Files of blind appends that it has passed as if they came later (WriteSerializable)."""
    _lines: bytes | None = field(default=None, repr=False, compare=False)

    @cached_property
    def metadata_changed(self) -> bool:
        """Whether this transaction itself writes metadata."""
        return any(isinstance(a, Metadata) for a in self.actions)

    @cached_property
    def row_level(self) -> str:
        """How closely files that meet are looked at: a level of :mod:`deltanb.transaction.row_levels`.

        Most commits meet nobody, so it is asked for no sooner than that.
        """
        return level_of(self.read_metadata)

    @cached_property
    def vectors(self) -> dict[str, DeletionVector]:
        """The vectors with which it puts files back that it removes, by path."""
        return vectors_of(self.actions)

    @cached_property
    def paths(self) -> frozenset[str]:
        """Paths of the files that its actions add or remove."""
        return frozenset(a.path for a in self.actions if isinstance(a, AddFile | RemoveFile))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns of the version that was read."""
        return self.read_metadata.partition_columns

    @property
    def schema(self) -> StructType:
        """Schema of the version that was read."""
        return self.read_metadata.schema

    def replace(self, **changes: Any) -> CurrentTransaction:
        """A copy with some parts changed."""
        if "actions" in changes:
            changes["actions"] = tuple(changes["actions"])
            changes["_lines"] = None
        return replace(self, **changes)

    def with_actions(self, actions: Iterable[Action]) -> CurrentTransaction:
        """A copy with other actions; itself if they are the same ones."""
        new = tuple(actions)
        if len(new) == len(self.actions) and all(
                a is b for a, b in zip(new, self.actions, strict=True)):
            return self
        return self.replace(actions=new)

    def in_group(self, group: TransactionGroup | None) -> CurrentTransaction:
        """A copy whose commit names a group of tables that are committed together; itself for None."""
        if group is None:
            return self
        tags = self.commit_info.tags if isinstance(self.commit_info.tags, dict) else {}
        info = self.commit_info.replace(tags={**tags, GROUP_TAG: group.transaction_id})
        return self.replace(group=group, commit_info=info)

    @property
    def has_commit_info(self) -> bool:
        """Whether the commit says where it came from.

        Options may leave that out, but not where commits carry their own time (PROTOCOL.md, "In-Commit
        Timestamps"), nor where the commit would be an empty file.
        """
        return (self.records_commit_info or self.commit_info.in_commit_timestamp is not None
                or not self.actions)

    @property
    def lines(self) -> tuple[Action, ...]:
        """The actions as they are written, commitInfo first (PROTOCOL.md, "Delta Log Entries")."""
        lines = self.actions if self.group is None else (self.group, *self.actions)
        return (self.commit_info, *lines) if self.has_commit_info else lines

    def body(self) -> bytes:
        """The commit file: one JSON line an action.

        Raises:
            InvalidTransaction: a text among the actions that UTF-8 cannot say.
        """
        try:
            if self._lines is None:
                lines = "".join(a.to_json() + "\n" for a in self.actions).encode()
                object.__setattr__(self, "_lines", lines)
            assert self._lines is not None
            head = self.commit_info.to_json().encode() + b"\n" if self.has_commit_info else b""
            if self.group is not None:
                head += self.group.to_json().encode() + b"\n"
            return head + self._lines
        except UnicodeEncodeError as error:
            near = error.object[max(error.start - 40, 0):error.end + 10]
            raise InvalidTransaction(
                f"table {self.table}: an action contains an unpaired surrogate, which cannot be written to "
                f"the log: {near!r}; write the whole character", table=self.table) from None

    def is_mine(self, winner: Winner) -> bool:
        """Whether a commit that was found is this one, from a put whose answer was lost.

        It carries our ``txnId``. Without a commitInfo it is the same actions: data files have names that
        nobody else gives, and of two changes of the metadata that are equal one is enough.
        """
        if self.has_commit_info:
            return bool(winner.commit_info.txn_id == self.txn_id)
        return winner.actions == self.actions
