"""What a commit does to the files of a table, and whether a sound writer can have done it.

What lives here: :func:`apply_files`, which holds each add and remove against the files of the table and lets
them come and go; statistics, partition values, row ids and vectors as far as the log has them.
What it does not know: what is in the files (``storage``), the commit's other actions (``metadata``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from deltanb.actions import DomainMetadata, Metadata, Protocol
from deltanb.actions.data_files import STORAGE_TYPES, num_records_of
from deltanb.errors import DeltaError
from deltanb.log.replay import canonical_path, file_key
from deltanb.log.skipping import partitions
from deltanb.observe.verify import kinds
from deltanb.observe.verify.report import POSSIBLE, Finding
from deltanb.observe.verify.state import Commit, Live, LogState
from deltanb.schema.column_mapping import mode_of, physical_name
from deltanb.schema.columns import Identity
from deltanb.schema.protocol import is_active
from deltanb.schema.types import StructField
from deltanb.text import formatting as units
from deltanb.transaction.rebase import ROW_TRACKING_DOMAIN, parse_high_water_mark

MAX_TEXT = 60  # characters of a value in an evidence
CHANGING = frozenset({"DELETE", "TRUNCATE", "UPDATE", "MERGE", "WRITE", "OPTIMIZE", "STREAMING UPDATE"})
"""Operations that never bring a row back."""
LAYOUT = frozenset({"OPTIMIZE", "REORG", "ANALYZE", "COMPUTE STATS", "ROW TRACKING BACKFILL"})


class Columns:
    """What files have to satisfy: the columns of a table by the names that its files have."""

    def __init__(self, metadata: Metadata, protocol: Protocol) -> None:
        mode = mode_of(metadata, protocol)
        fields = {physical_name(f, mode): f for f in metadata.schema.fields}
        by = {physical_name(metadata.schema.field(name), mode) for name in metadata.partition_columns}
        self.partition_by: Mapping[str, StructField] = {name: fields[name] for name in fields if name in by}
        self.required = [name for name, f in fields.items() if not f.nullable and name not in by]
        marks = ((name, Identity.of(f)) for name, f in fields.items())
        self.identities = {name: mark for name, mark in marks if mark is not None and not mark.explicit}
        self.tracks_rows = is_active(protocol, metadata, "rowTracking")
        self.is_append_only = is_active(protocol, metadata, "appendOnly")


@lru_cache(maxsize=64)
def columns_of(metadata: Metadata | None, protocol: Protocol | None) -> Columns | None:
    """The columns of a table; None where its definition cannot be read."""
    try:
        return None if metadata is None or protocol is None else Columns(metadata, protocol)
    except (DeltaError, KeyError):
        return None


def apply_files(state: LogState, commit: Commit) -> Iterator[Finding]:
    """Let the files of a commit come and go, and say what cannot be; the definition is the commit's own."""
    columns = columns_of(*state.definition(commit))
    removed: dict[str, Live | None] = {}
    replaced: dict[str, Live] = {}
    for file, key in zip(commit.removes, commit.removed_keys, strict=True):
        if key in removed:
            yield kinds.ACTION_TWICE(f"version {commit.version} removes {file.path} twice", commit.version,
                                     file.path)
            continue
        before = removed[key] = state.live.get(key)
        if before is None:
            yield _not_live(state, commit, file, key)
        else:
            replaced[before.path] = before
        state.remove(key, commit.version)
    yield from _append_only(columns_of(state.metadata, state.protocol), columns, commit)
    added: set[str] = set()
    check = _FileCheck(state, commit, columns)
    for file, key in zip(commit.adds, commit.added_keys, strict=True):
        if key in added:
            yield kinds.ADDED_TWICE(f"version {commit.version} adds {file.path} twice", commit.version,
                                    file.path)
            continue
        added.add(key)
        if key in removed:
            yield kinds.ADDED_AND_REMOVED(
                f"version {commit.version} adds and removes {file.path}", commit.version, file.path)
        else:
            yield from _new_file(state, commit, file, key)
        yield from check(file, replaced.get(canonical_path(file.path)))
        state.add(file, key, commit.version)
    yield from _rearranged(commit, added, state, removed)


def _not_live(state: LogState, commit: Commit, file: Any, key: str) -> Finding:
    gone = state.removed.get(key)
    other = state.paths.get(canonical_path(file.path))
    if gone is not None and gone >= 0:
        return kinds.REMOVED_TWICE(
            f"version {commit.version} removes {file.path}, which version {gone} had removed",
            (gone, commit.version), file.path)
    if other is not None:
        return kinds.REMOVED_UNKNOWN(
            f"version {commit.version} removes {file.path} with another deletion vector than it has: the "
            "file stays part of the table", commit.version, file.path)
    certainty = POSSIBLE if gone is not None else ""
    return kinds.REMOVED_UNKNOWN(
        f"version {commit.version} removes {file.path}, which is not part of the table", commit.version,
        file.path, certainty)


def _new_file(state: LogState, commit: Commit, file: Any, key: str) -> Iterator[Finding]:
    """An add that takes no file's place by its key."""
    live = state.live.get(key)
    if live is not None:
        if file.data_change is not False and commit.operation not in LAYOUT:
            yield kinds.ADDED_WHILE_LIVE(
                f"version {commit.version} adds {file.path}, which version {live.version} added",
                (live.version, commit.version), file.path)
        return
    other = state.paths.get(canonical_path(file.path))
    if other is not None:
        yield kinds.TWO_VECTORS(
            f"version {commit.version} adds {file.path} with another deletion vector and does not remove the "
            f"file as version {state.live[other].version} added it",
            (state.live[other].version, commit.version), file.path)
    gone = state.removed.get(key)
    if gone is not None and gone != commit.version and not commit.restores:
        at = (commit.version,) if gone < 0 else (gone, commit.version)
        yield kinds.BROUGHT_BACK(
            f"version {commit.version} ({commit.operation}) adds {file.path}, which "
            f"{'an earlier version' if gone < 0 else f'version {gone}'} removed", at, file.path)


def _append_only(before: Columns | None, columns: Columns | None, commit: Commit) -> Iterator[Finding]:
    if commit.restores or not (before and before.is_append_only and columns and columns.is_append_only):
        return
    changed = [file.path for file in commit.removes if file.data_change is not False]
    if changed:
        yield kinds.APPEND_ONLY(
            f"version {commit.version} ({commit.operation}) removes {units.count(len(changed), 'file')} of a "
            "table with delta.appendOnly", commit.version, changed)


def _rearranged(
    commit: Commit, added: set[str], state: LogState, removed: Mapping[str, Live | None]
) -> Iterator[Finding]:
    """A commit that only rearranges files has as many rows after it as before."""
    files = [*commit.adds, *commit.removes]
    if not commit.adds or not commit.removes or any(file.data_change is not False for file in files):
        return
    after = _live_rows(state.live.get(key) for key in added)
    before = _live_rows(removed.values())
    if after is not None and before is not None and after != before:
        yield kinds.ROWS_REARRANGED(
            f"version {commit.version} ({commit.operation}) says that it changes no data, and puts files "
            f"with {units.count(after, 'row')} in place of {units.count(before, 'row')}",
            commit.version, [file.path for file in commit.adds])


def _live_rows(files: Iterable[Live | None]) -> int | None:
    """The rows of files that no vector deletes; None where the log does not say."""
    total = 0
    for file in files:
        if file is None or file.rows is None:
            return None
        total += file.rows - file.deleted
    return total


class _FileCheck:
    """One added file, checked against the table's definition."""

    def __init__(self, state: LogState, commit: Commit, columns: Columns | None) -> None:
        self.state, self.commit, self.columns = state, commit, columns
        self.values: dict[tuple[str, str], bool] = {}
        domain = next((d for d in commit.every(DomainMetadata) if d.domain == ROW_TRACKING_DOMAIN), None)
        before = state.domains.get(ROW_TRACKING_DOMAIN)
        self.mark_before = mark_of(before)
        self.mark = parse_high_water_mark(domain) if domain is not None else self.mark_before

    def __call__(self, file: Any, before: Live | None) -> Iterator[Finding]:
        version = self.commit.version
        if file.size is None or file.size < 0:
            yield kinds.SIZE_INVALID(f"version {version} says that {file.path} has {file.size} bytes",
                                     version, file.path)
        yield from self._vector(file, before)
        stats = file.stats
        if self.columns is not None:
            yield from self._partitions(file, self.columns)
            yield from self._row_ids(file, before, self.columns)
        if stats:
            yield from self._statistics(file, stats)

    def _vector(self, file: Any, before: Live | None) -> Iterator[Finding]:
        version, vector = self.commit.version, file.deletion_vector
        deleted = 0 if vector is None else vector.cardinality
        if before is not None and deleted < before.deleted and not self.commit.restores:
            yield kinds.VECTOR_LOST(
                f"version {version} ({self.commit.operation}) deletes {units.count(deleted, 'row')} of "
                f"{file.path}, of which version {before.version} had deleted {before.deleted}",
                (before.version, version), file.path, "" if self.commit.operation in CHANGING else POSSIBLE)
        if vector is None:
            return
        if vector.storage_type not in STORAGE_TYPES or vector.cardinality < 0 or vector.size_in_bytes < 0:
            yield kinds.VECTOR_INVALID(
                f"version {version} gives {file.path} a vector of storage type {vector.storage_type!r}, "
                f"{vector.size_in_bytes} bytes and {vector.cardinality} rows", version, file.path)
        rows = num_records_of(file.stats)
        if rows is not None and vector.cardinality > rows:
            yield kinds.VECTOR_BEYOND(
                f"version {version} deletes {vector.cardinality} rows of {file.path}, which has "
                f"{units.count(rows, 'row')}", version, file.path)
        if not self.state.supports("deletionVectors") and not _supports(self.commit, "deletionVectors"):
            yield kinds.FEATURE_UNNAMED(
                f"version {version} gives {file.path} a deletion vector, and the protocol does not name "
                "deletionVectors", version, file.path)

    def _partitions(self, file: Any, columns: Columns) -> Iterator[Finding]:
        version, values = self.commit.version, file.partition_values or {}
        if values.keys() != columns.partition_by.keys():
            yield kinds.PARTITION_COLUMNS(
                f"version {version} gives {file.path} values of {sorted(values) or 'no column'}, and the "
                f"table is partitioned by {sorted(columns.partition_by) or 'none'}", version, file.path)
            return
        for name, text in values.items():
            column = columns.partition_by[name]
            if text is None or text == "":
                if not column.nullable:
                    yield kinds.NULLS(f"version {version} adds {file.path} with a NULL in the partition "
                                      f"column {column.name}", version, file.path)
            elif not self._is_value(column, text):
                yield kinds.PARTITION_VALUE(
                    f"version {version} adds {file.path} with {column.name} = {text[:MAX_TEXT]!r}, which is "
                    f"not of type {column.type}", version, file.path)

    def _is_value(self, column: StructField, text: str) -> bool:
        key = (column.name, text)
        if key not in self.values:
            try:
                partitions.parse_value(text, column.type)
                self.values[key] = True
            except (DeltaError, ValueError):
                self.values[key] = False
        return self.values[key]

    def _row_ids(self, file: Any, before: Live | None, columns: Columns) -> Iterator[Finding]:
        version, base = self.commit.version, file.base_row_id
        if base is None:
            if columns.tracks_rows:
                yield kinds.ROW_ID_MISSING(f"version {version} adds {file.path} without a row id", version,
                                           file.path)
            return
        if not self.state.supports("rowTracking") and not _supports(self.commit, "rowTracking"):
            yield kinds.FEATURE_UNNAMED(f"version {version} gives {file.path} row ids, and the protocol does "
                                        "not name rowTracking", version, file.path)
            return
        since = file.default_row_commit_version
        if since is None or not 0 <= since <= version:
            yield kinds.COMMIT_VERSION(
                f"version {version} adds {file.path} with the default row commit version {since}", version,
                file.path)
        rows = num_records_of(file.stats)
        is_new = before is None and not self.commit.restores \
            and canonical_path(file.path) not in self.state.removed and file_key(file) not in self.state.live
        if is_new and since == version and base <= self.mark_before:
            yield kinds.ROW_IDS_OVERLAP(
                f"version {version} gives the new file {file.path} row ids from {base}, and ids up to "
                f"{self.mark_before} were given before", version, file.path)
        if rows is not None and base + rows - 1 > self.mark:
            yield kinds.ROW_ID_BEYOND(
                f"version {version} gives {file.path} row ids up to {base + rows - 1}, and the high-water "
                f"mark is {self.mark}", version, file.path)

    def _statistics(self, file: Any, text: str) -> Iterator[Finding]:
        version = self.commit.version
        try:
            stats = _decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            yield kinds.STATS_INVALID(f"version {version} adds {file.path} with statistics that are not "
                                      f"valid JSON: {text[:MAX_TEXT]!r}", version, file.path)
            return
        rows, nulls = stats.numRecords, stats.nullCount or {}
        is_exact = stats.tightBounds is not False
        many = {} if rows is None else {name: n for name, n in nulls.items() if type(n) is int and n > rows}
        if rows is not None and (rows < 0 or many):
            yield kinds.STATS_COUNT(
                f"version {version} adds {file.path} with {units.count(rows, 'row')} and NULLs {many}",
                version, file.path)
        least, greatest = stats.minValues or {}, stats.maxValues or {}
        for name, low in least.items():
            high = greatest.get(name)
            if type(low) in (int, float) and type(high) in (int, float) and low > high:
                yield kinds.STATS_RANGE(
                    f"version {version} adds {file.path} with {name} from {low} to {high}", version,
                    file.path)
        if self.columns is None:
            return
        for name in self.columns.required:
            if type(nulls.get(name)) is int and nulls[name] > 0:
                yield kinds.NULLS(
                    f"version {version} adds {file.path} with {units.count(nulls[name], 'NULL')} in {name}",
                    version, file.path, "" if is_exact and file.deletion_vector is None else POSSIBLE)
        for name, mark in self.columns.identities.items():
            extreme = greatest.get(name) if mark.step > 0 else least.get(name)
            if type(extreme) is int and (mark.mark is None or mark.furthest(extreme, mark.mark) != mark.mark):
                yield kinds.IDENTITY_BEYOND(
                    f"version {version} adds {file.path} with {name} up to {extreme}, and the mark is "
                    f"{mark.mark}", version, file.path)


def _supports(commit: Commit, feature: str) -> bool:
    protocol = commit.first(Protocol)
    return protocol is not None and protocol.supports(feature)


def mark_of(configuration: str | None) -> int:
    """The high-water mark of row ids in a domain's configuration; -1 without one."""
    if configuration is None:
        return -1
    return parse_high_water_mark(DomainMetadata(ROW_TRACKING_DOMAIN, configuration))


class _Statistics(msgspec.Struct, gc=False):
    numRecords: int | None = None
    minValues: dict[str, Any] | None = None
    maxValues: dict[str, Any] | None = None
    nullCount: dict[str, Any] | None = None
    tightBounds: bool | None = None


_decode = msgspec.json.Decoder(_Statistics).decode
