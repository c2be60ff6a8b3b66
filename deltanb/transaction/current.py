"""The transaction as the commit algorithm and the conflict rules see it.

What lives here: one frozen value with everything that decides a commit; a rebase returns a new one.
What it does not know: the log, stores, how it came about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from deltanb.actions import Action, CommitInfo, Metadata, Protocol
from deltanb.log import protocol as features
from deltanb.log.schema import StructType
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import Reads

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
    _lines: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def metadata_changed(self) -> bool:
        """Whether this transaction itself writes metadata."""
        return any(isinstance(a, Metadata) for a in self.actions)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns of the version that was read."""
        return self.read_metadata.partition_columns

    @property
    def schema(self) -> StructType:
        """Schema of the version that was read."""
        return self.read_metadata.schema

    def having(self, **changes: Any) -> CurrentTransaction:
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
        return self.having(actions=new)

    def body(self) -> bytes:
        """The commit file: one JSON line an action, commitInfo first (PROTOCOL.md, "Delta Log Entries")."""
        if self._lines is None:
            lines = "".join(a.to_json() + "\n" for a in self.actions).encode()
            object.__setattr__(self, "_lines", lines)
        assert self._lines is not None
        return self.commit_info.to_json().encode() + b"\n" + self._lines


def lost_features(old: Protocol, new: Protocol, metadata: Metadata) -> tuple[str, ...]:
    """The features that ``new`` takes away from a table with ``old`` and ``metadata``.

    A feature that a legacy version merely implied, and that the metadata never switched on, is not
    lost when a protocol that lists its features leaves it out: no file and no row depends on it.
    """
    implied = set(features.implied_features(old))
    return tuple(
        name for name in features.dropped_features(old, new)
        if name not in implied or features.is_active(old, metadata, name)
    )
