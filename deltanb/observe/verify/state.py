"""A table from version to version, as a verification goes through its log: what holds before each commit.

What lives here: :class:`Commit`, one commit taken apart, and :class:`LogState`, the table's files and its
definition. Both keep what is wrong as it is: nothing is refused here, so that the rest can be looked at.
What it does not know: what is wrong (``files``, ``metadata``, ``derived``), what is in data files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from deltanb import actions
from deltanb.actions import (
    Action,
    AddCDCFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from deltanb.actions.data_files import num_records_of
from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.errors import DeltaError
from deltanb.log.lines import Line, decode_actions
from deltanb.log.replay import canonical_path, file_key
from deltanb.transaction.operations import TRANSACTION

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

RESTORING = frozenset({"RESTORE", "CLONE", "SHALLOW CLONE", "REPLACE TABLE", "CREATE OR REPLACE TABLE"})
"""Operations that bring back what an earlier version had."""
_VACUUM = ("VACUUM START", "VACUUM END")


class Live(msgspec.Struct, gc=False):
    """A file of the table: the version that added it, its size in bytes, its rows (None where the log does
    not say), how many of them its vector deletes, and its first row id."""

    path: str
    version: int
    size: int
    rows: int | None
    deleted: int
    base_row_id: int | None


@dataclass
class Commit:
    """One commit taken apart. ``adds`` and ``removes`` are records of the log's lines."""

    version: int
    name: str
    modified: int
    """When its file was written, in ms since 1970; 0 where nobody knows."""
    adds: list[Any] = field(default_factory=list)
    removes: list[Any] = field(default_factory=list)
    small: list[Action] = field(default_factory=list)
    """All actions but those of data files."""

    @classmethod
    def of(cls, version: int, name: str, modified: int, data: bytes) -> Commit:
        """From the bytes of its file.

        Raises:
            Exception: a line that is no action; :func:`deltanb.log.lines.explain` says which.
        """
        commit = cls(version, name, modified)
        lines = decode_actions(data)
        for number, line in enumerate(lines):
            if line.add is not None:
                commit.adds.append(line.add)
            elif line.remove is not None:
                commit.removes.append(line.remove)
            else:
                commit.small.append(_small(line, data, number))
        if not lines:
            raise ValueError("no actions")
        return commit

    def every(self, kind: type[Any]) -> list[Any]:
        """Its actions of one kind."""
        return [action for action in self.small if isinstance(action, kind)]

    def first(self, kind: type[Any]) -> Any:
        """Its action of a kind of which there is one at most; None where there is none."""
        return next((action for action in self.small if isinstance(action, kind)), None)

    @cached_property
    def added_keys(self) -> list[str]:
        """Of each file in :attr:`adds`, what it reconciles by."""
        return list(map(file_key, self.adds))

    @cached_property
    def removed_keys(self) -> list[str]:
        """Of each file in :attr:`removes`, what it reconciles by."""
        return list(map(file_key, self.removes))

    @cached_property
    def info(self) -> CommitInfo:
        """Its commitInfo; an empty one where it has none."""
        return self.first(CommitInfo) or CommitInfo()

    @cached_property
    def operation(self) -> str:
        """What it says that it is."""
        operation = self.info.operation
        return operation if isinstance(operation, str) else TRANSACTION

    @property
    def restores(self) -> bool:
        """Whether it may bring back what an earlier version had."""
        return self.operation in RESTORING


def _small(line: Line, data: bytes, number: int) -> Action:
    for key in ("commitInfo", "txn", "domainMetadata", "metaData", "protocol"):
        raw = getattr(line, key)
        if raw:
            return actions.from_json(b'{"%s":%s}' % (key.encode(), bytes(raw)))
    texts = [text for text in data.split(b"\n") if text.strip()]
    return actions.from_json(texts[number])


@dataclass
class LogState:
    """What a table is before a commit, and after :meth:`apply` behind it."""

    version: int = -1
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    live: dict[str, Live] = field(default_factory=dict)
    """By :func:`~deltanb.log.replay.file_key`: path and deletion vector."""
    removed: dict[str, int] = field(default_factory=dict)
    """The version that removed each file that is no part of the table any more; -1 where nobody knows."""
    paths: dict[str, str] = field(default_factory=dict)
    """The key of each live file by its path alone."""
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    time: int | None = None
    """The in-commit timestamp of the last commit."""
    modified: int = 0
    num_bytes: int = 0
    num_vectors: int = 0
    """Live files of which a vector deletes rows."""
    previous: dict[Metadata, int] = field(default_factory=dict)
    """Metadata that the table had, and the last version that had it."""
    vectors: set[str] = field(default_factory=set)
    """Names of vectors' files that some commit names."""
    named: dict[str, int] = field(default_factory=dict)
    """Paths of change files, and the last version that names each; paths of data files are in the others."""
    vacuumed: int = -1
    """The version of the last VACUUM: it takes the change files of earlier ones."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> LogState:
        """The state at a version, where the commits before it are gone or were not asked for."""
        state = cls(snapshot.version, snapshot.metadata, snapshot.protocol)
        files = snapshot.select_files(
            ["path", "size", "stats", "deletion_vector", "base_row_id"])
        for row in _records(files):
            state.add(row, file_key(row), snapshot.version)
        for row in _records(snapshot.tombstones.select(["path", "deletion_vector"])):
            state.removed[file_key(row)] = -1
        state.txns = dict(snapshot.set_transactions)
        state.domains = {name: domain.configuration for name, domain in snapshot.domain_metadata.items()}
        return state

    def add(self, file: Any, key: str, version: int) -> None:
        """Let a file be part of the table."""
        vector = file.deletion_vector
        size = file.size or 0
        self._discount(self.live.get(key))
        path = key
        if vector is not None:
            path = canonical_path(file.path)
            self._name_vector(vector)
        deleted = vector.cardinality if vector else 0
        self.live[key] = Live(path, version, size, num_records_of(file.stats), deleted, file.base_row_id)
        self.paths[path] = key
        self.removed.pop(key, None)
        self.num_bytes += size
        self.num_vectors += bool(deleted)

    def _discount(self, file: Live | None) -> None:
        if file is not None:
            self.num_bytes -= file.size
            self.num_vectors -= bool(file.deleted)

    def _name_vector(self, vector: Any) -> None:
        with suppress(DeltaError, ValueError):  # one that cannot be understood has its own finding
            named = vector_path(vector.storage_type, vector.path_or_inline_dv)
            if named is not None:
                self.vectors.add(canonical_path(named[0]) if named[1] else named[0])

    def remove(self, key: str, version: int) -> Live | None:
        """Let a file be no part of the table any more; what it was."""
        file = self.live.pop(key, None)
        self._discount(file)
        if file is not None and self.paths.get(file.path) == key:
            del self.paths[file.path]
        self.removed[key] = version
        return file

    def apply(self, commit: Commit) -> None:
        """Go on behind a commit whose files were applied already."""
        for action in commit.small:
            match action:
                case Metadata():
                    if self.metadata is not None:
                        self.previous[self.metadata] = commit.version - 1
                    self.metadata = action
                case Protocol():
                    self.protocol = action
                case SetTransaction():
                    self.txns[action.app_id] = action.version
                case DomainMetadata(removed=True):
                    self.domains.pop(action.domain, None)
                case DomainMetadata():
                    self.domains[action.domain] = action.configuration
                case AddCDCFile():
                    self.named[canonical_path(action.path)] = commit.version
        if commit.operation in _VACUUM:
            self.vacuumed = commit.version
        time = commit.info.in_commit_timestamp
        self.time = time if isinstance(time, int) else self.time
        self.modified = commit.modified or self.modified
        self.version = commit.version

    def definition(self, commit: Commit) -> tuple[Metadata | None, Protocol | None]:
        """Metadata and protocol behind a commit, before it is applied."""
        return commit.first(Metadata) or self.metadata, commit.first(Protocol) or self.protocol

    def supports(self, feature: str) -> bool:
        """Whether the protocol has a feature."""
        return self.protocol is not None and self.protocol.supports(feature)


class _Row(msgspec.Struct, gc=False):
    path: str
    deletion_vector: Any = None
    size: int | None = None
    stats: str | None = None
    base_row_id: int | None = None


class _Vector(msgspec.Struct, gc=False):
    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int = 0
    cardinality: int = 0


def _records(table: Any) -> Iterator[_Row]:
    names = table.column_names
    for batch in table.to_batches():
        columns = [batch.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            row = _Row(**dict(zip(names, values, strict=True)))
            if row.deletion_vector is not None:
                known = row.deletion_vector
                row.deletion_vector = _Vector(**{name: known.get(name) for name in _Vector.__struct_fields__})
            yield row
