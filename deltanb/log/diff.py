"""How two versions of a table differ, according to the log alone.

What lives here: the values of a diff, and the comparison of two snapshots: fields of the schema,
properties, protocol, files, and the commits between.
What it does not know: rows of data files (``commands/diff`` reads them), how a diff is drawn.

Fields are matched by their names in data files (a rename under column mapping keeps them), else by their
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import DeltaError, InvalidArgument, TableNotFound
from deltanb.log import history
from deltanb.log.replay import canonical_paths, key_array
from deltanb.schema.protocol import features_of
from deltanb.schema.types import ArrayType, DataType, MapType, StructField, StructType
from deltanb.text.display import Charted
from deltanb.text.safe_text import last_part

if TYPE_CHECKING:
    from deltanb.log.history import HistoryEntry
    from deltanb.log.snapshot import Snapshot

__all__ = [
    "DIFF_FILES", "Change", "FileDiff", "RowDiff", "TableDiff", "compare", "paired_fields",
    "schema_changes",
]

MAX_COMMITS = 50
"""Commits between two versions that are read and listed, the newest of them; each is a file to open."""

DIFF_FILES = (
    "path", "partition_values", "size", "deletion_vector", "base_row_id", "default_row_commit_version")
"""Columns of FILES_SCHEMA that a diff keeps of the files that differ, beside ``num_rows``."""

_MAPPING_KEYS = frozenset({
    "delta.columnMapping.id", "delta.columnMapping.physicalName", "delta.columnMapping.nested.ids",
    "parquet.field.id", "parquet.field.nested.ids"})
_SILENT_KEYS = _MAPPING_KEYS | {"delta.typeChanges", "delta.identity.highWaterMark", "comment"}
"""Metadata of a field that follows from what else is told, or that every insert moves on."""
_SILENT_DOMAINS = frozenset({"delta.rowTracking"})  # a mark that every commit moves on


@dataclass(frozen=True)
class Change:
    """One thing that differs between two versions.

    ``kind``: ``added``, ``removed``, ``renamed``, ``type``, ``nullability``, ``comment``, ``order`` or
    ``changed``. ``before`` and ``after`` are None if there was, or is, nothing.
    """

    name: str
    kind: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class FileDiff:
    """Files of two versions; tables have the columns of ``DIFF_FILES`` and ``num_rows`` (live rows).

    ``remasked_before`` and ``remasked_after`` are the same data files, row by row, whose deletion vector
    differs: rows were deleted or restored in place.
    """

    added: pa.Table
    removed: pa.Table
    remasked_before: pa.Table
    remasked_after: pa.Table
    num_same: int

    @property
    def is_empty(self) -> bool:
        """Whether both versions have the same files."""
        return not (self.added.num_rows or self.removed.num_rows or self.remasked_after.num_rows)

    @property
    def row_change(self) -> int | None:
        """How many more rows there are after; None if a file does not have its count."""
        signs = ((1, self.added), (1, self.remasked_after), (-1, self.removed), (-1, self.remasked_before))
        counts = [(sign, num_rows(table)) for sign, table in signs]
        return None if any(n is None for _, n in counts) else sum(sign * (n or 0) for sign, n in counts)


@dataclass(frozen=True)
class RowDiff:
    """Rows that differ; rows that are equal in every column are no difference.

    ``added`` and ``removed`` are rows; ``before`` and ``after`` the changed ones, row by row. All have the
    columns of the version after. ``matched_by`` says how rows were matched (``keys``, ``row ids``,
    ``inferred`` or ``nothing``), ``key`` by which columns: with row ids, those that matched rows which got a
    new id when they were rewritten.

    If ``is_exact`` is False, the files were not read, for the reason in ``note``: the tables are samples or
    empty, and ``num_added`` and ``num_removed`` are upper bounds from the log; None if it has none.
    """

    num_added: int | None
    num_removed: int | None
    num_changed: int
    added: pa.Table
    removed: pa.Table
    before: pa.Table
    after: pa.Table
    matched_by: str = "nothing"
    key: tuple[str, ...] = ()
    is_exact: bool = True
    note: str = ""
    not_compared: tuple[str, ...] = ()
    """Columns whose two types have no values in common."""


@dataclass(frozen=True, repr=False)
class TableDiff(Charted):
    """The differences between version ``start`` of a table and version ``end``.

    ``start_time`` and ``end_time`` are in epoch milliseconds. ``commits`` are those in between, newest first,
    ``num_commits`` is their number. ``rows`` is None if only the log was compared. A backward diff (``start``
    after ``end``) has the changes that would lead back. ``chart``, ``svg`` and ``spec`` draw rows, changed
    columns and partitions as bars.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.append({"id": [2], "name": ["Huey"]}, merge_schema=True)
    >>> diff = table.as_of(1).snapshot - table.as_of(0).snapshot
    >>> diff.num_commits, [change.name for change in diff.schema], diff.rows
    (1, ['name'], None)
    """

    table: str
    start: int
    end: int
    start_time: int
    end_time: int
    schema: tuple[Change, ...]
    properties: tuple[Change, ...]
    protocol: tuple[Change, ...]
    files: FileDiff
    commits: tuple[HistoryEntry, ...]
    num_commits: int
    rows: RowDiff | None = None
    columns: tuple[str, ...] | None = None
    """The columns that are shown of rows; None leaves it to what differs."""
    staged_behind: int | None = None
    """Of a transaction, the version that it has read: what is behind that is staged."""


def compare(before: Snapshot, after: Snapshot) -> TableDiff:
    """The differences between two snapshots of a table, according to the log.

    Raises:
        InvalidArgument: snapshots of two tables.
        TableNotFound: a snapshot of a table that does not exist yet.

    >>> from deltanb.testing import TableBuilder, add
    >>> table = TableBuilder().create("id long").commit(add("a", size=3)).commit(add("b", size=4))
    >>> diff = compare(table.log.snapshot_at(1), table.log.update())
    >>> diff.files.added["path"].to_pylist(), diff.files.num_same, diff.schema
    (['b'], 1, ())
    """
    for snapshot in (before, after):
        if snapshot.version < 0:
            raise TableNotFound(
                f"there is no Delta table at {snapshot.log.path} to compare", path=snapshot.log.path)
    log = after.log
    if before.log is not log and before.log.path != log.path:
        raise InvalidArgument(
            f"these are versions of two tables, {before.log.path} and {log.path}; a diff takes two "
            "versions of one")
    older, newer = sorted((before.version, after.version))
    try:
        commits = history.between(log, older + 1, newer, MAX_COMMITS)
    except DeltaError:  # a commit after both is damaged: what lies between can be compared all the same
        commits = []
    return TableDiff(
        table=after.metadata.name or last_part(log.path),
        start=before.version, end=after.version,
        start_time=before.timestamp, end_time=after.timestamp,
        schema=(*_schema_changes(before, after), *_partitioning(before, after)),
        properties=tuple(_property_changes(before, after)),
        protocol=tuple(_protocol_changes(before, after)),
        files=_file_changes(before, after),
        commits=tuple(commits), num_commits=newer - older, staged_behind=after.log.staged_behind,
    )


# -- schema --------------------------------------------------------------------------------------


def paired_fields(
    before: StructType, after: StructType
) -> list[tuple[StructField | None, StructField | None]]:
    """The matching fields of two schemas, in the order of the second."""
    left = {field.physical_name.lower(): field for field in before}
    names = {field.physical_name.lower() for field in after}
    pairs: list[tuple[StructField | None, StructField | None]] = []
    for field in after:
        match = left.pop(field.physical_name.lower(), None)
        if match is None:
            match = next((old for key, old in left.items()
                          if key not in names and old.name.lower() == field.name.lower()), None)
            if match is not None:
                del left[match.physical_name.lower()]
        pairs.append((match, field))
    return pairs + [(field, None) for field in left.values()]


def schema_changes(before: StructType, after: StructType, path: str = "") -> list[Change]:
    """The fields that were added, removed, renamed or changed, nested ones by their path.

    >>> from deltanb.schema.types import STRING, PrimitiveType
    >>> one, two = StructField("n", PrimitiveType("integer")), StructField("n", PrimitiveType("long"))
    >>> schema_changes(StructType([one]), StructType([two, StructField("note", STRING)]))
    [Change(name='n', kind='type', before='integer', after='long'), \
Change(name='note', kind='added', before=None, after='string')]
    """
    changes, pairs = [], paired_fields(before, after)
    for old, new in pairs:
        if old is None and new is not None:
            changes.append(Change(path + new.name, "added", None, _typed(new)))
        elif new is None and old is not None:
            changes.append(Change(path + old.name, "removed", _typed(old), None))
        elif old is not None and new is not None:
            changes += _field_changes(old, new, path)
    common = [(old, new) for old, new in pairs if old is not None and new is not None]
    places = [before.fields.index(old) for old, _ in common]
    if places != sorted(places):
        named = (", ".join(path + field.name for field in schema) for schema in (before, after))
        changes.append(Change("order of the columns", "order", *named))
    return changes


def _schema_changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Like :func:`schema_changes`; for a schema that cannot be read, whether its text differs."""
    try:
        return schema_changes(before.schema, after.schema)
    except DeltaError:
        texts = [snapshot.metadata.schema_string for snapshot in (before, after)]
        return [] if texts[0] == texts[1] else [_changed("schemaString", *texts)]


def _typed(field: StructField) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _field_changes(old: StructField, new: StructField, path: str) -> list[Change]:
    name, changes = path + new.name, []
    if old.name != new.name:
        changes.append(Change(path + old.name, "renamed", old.name, new.name))
    changes += _type_changes(old.type, new.type, name)
    if old.nullable != new.nullable:
        words = ["nullable" if field.nullable else "not null" for field in (old, new)]
        changes.append(Change(name, "nullability", *words))
    comments = [field.metadata.get("comment") for field in (old, new)]
    if comments[0] != comments[1]:
        changes.append(Change(name, "comment", *(None if c is None else str(c) for c in comments)))
    for key in sorted({*old.metadata, *new.metadata} - _SILENT_KEYS):
        values = [field.metadata.get(key) for field in (old, new)]
        if values[0] != values[1]:
            changes.append(_changed(f"{name} {key}", *values))
    return changes


def _type_changes(old: DataType, new: DataType, name: str) -> list[Change]:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return schema_changes(old, new, name + ".")
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _type_changes(old.element_type, new.element_type, name + ".element")
    if isinstance(old, MapType) and isinstance(new, MapType):
        return (_type_changes(old.key_type, new.key_type, name + ".key")
                + _type_changes(old.value_type, new.value_type, name + ".value"))
    return [] if old == new else [Change(name, "type", str(old), str(new))]


def _partitioning(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    words = [", ".join(snapshot.partition_columns) or None for snapshot in (before, after)]
    return () if words[0] == words[1] else (_changed("partitioned by", *words),)


# -- properties and protocol ---------------------------------------------------------------------


def _changed(name: str, before: Any, after: Any) -> Change:
    kind = "added" if before is None else "removed" if after is None else "changed"
    return Change(name, kind, *(
        None if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in (before, after)))


def _property_changes(before: Snapshot, after: Snapshot) -> Iterable[Change]:
    """Name and description, the configuration, and domains of metadata."""
    old, new = before.metadata, after.metadata
    for name in ("name", "description"):
        if getattr(old, name) != getattr(new, name):
            yield _changed(f"table {name}", getattr(old, name), getattr(new, name))
    yield from _of_maps(before.properties, after.properties)
    domains = [{f"domain {name}": domain.configuration
                for name, domain in snapshot.domain_metadata.items() if name not in _SILENT_DOMAINS}
               for snapshot in (before, after)]
    yield from _of_maps(*domains)


def _of_maps(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Change]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield _changed(key, before.get(key), after.get(key))


def _protocol_changes(before: Snapshot, after: Snapshot) -> Iterable[Change]:
    old, new = before.protocol, after.protocol
    for word, name in (("reader", "min_reader_version"), ("writer", "min_writer_version")):
        if getattr(old, name) != getattr(new, name):
            yield _changed(f"{word} version", getattr(old, name), getattr(new, name))
    known = [features_of(protocol) for protocol in (old, new)]
    for name in known[1]:
        if name not in known[0]:
            yield Change(name, "added", None, "feature")
    for name in known[0]:
        if name not in known[1]:
            yield Change(name, "removed", "feature", None)


# -- files ---------------------------------------------------------------------------------------


def num_rows(files: pa.Table) -> int | None:
    """The live rows of files; None if one has no count."""
    column = files["num_rows"]
    return None if column.null_count else pc.sum(column).as_py() or 0


def _file_changes(before: Snapshot, after: Snapshot) -> FileDiff:
    paths = [s.select_files(["path", "deletion_vector"]) for s in (before, after)]
    keys = [key_array(table["path"], table["deletion_vector"]) for table in paths]
    gone = _positions(keys[0], keys[1])
    come = _positions(keys[1], keys[0])
    old, new = _described(before, gone), _described(after, come)
    names = [canonical_paths(table["path"]) for table in (old, new)]
    masks = [pc.is_in(names[0], value_set=names[1].combine_chunks()),
             pc.is_in(names[1], value_set=names[0].combine_chunks())]
    by_path = [table.filter(mask).take(pc.sort_indices(name.filter(mask)))
               for table, name, mask in zip((old, new), names, masks, strict=True)]
    return FileDiff(
        added=new.filter(pc.invert(masks[1])), removed=old.filter(pc.invert(masks[0])),
        remasked_before=by_path[0], remasked_after=by_path[1], num_same=len(keys[0]) - len(gone))


def _positions(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.Array:
    """The positions of keys that the others lack."""
    fresh = pc.invert(pc.is_in(keys, value_set=pa.chunked_array(others.chunks, pa.string()).combine_chunks()))
    return pa.array(np.flatnonzero(fresh.to_numpy()), pa.int64())


def _described(snapshot: Snapshot, rows: pa.Array) -> pa.Table:
    files = snapshot.select_files([*DIFF_FILES, "stats"], rows)
    stated = pa.array([_num_records(text) for text in files["stats"].to_pylist()], pa.int64())
    deleted = pc.fill_null(pc.struct_field(files["deletion_vector"], "cardinality"), 0)
    return files.drop_columns("stats").append_column("num_rows", pc.subtract(stated, deleted))


class _Stats(msgspec.Struct, gc=False):
    numRecords: int | None = None


_stats = msgspec.json.Decoder(_Stats).decode


def _num_records(text: str | None) -> int | None:
    try:
        return None if text is None else _stats(text).numRecords
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
