"""The change data feed: the rows that each commit inserted, deleted and updated.

What lives here: the files with a commit's changes, the versions for which these are known, and the rows
themselves (PROTOCOL.md, "Reader Requirements for AddCDCFile").
What it does not know: how one file is read (``engines/arrow/data_file``), and who writes the feed.

If a commit has change data files, only these count. Otherwise its data files count: rows of added files are
inserted, rows of removed ones deleted; if only a deletion vector changed, the difference of the two vectors.
If the table tracks rows, a row that was removed and added with the same id was updated or, with the same
commit version, did not change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64

from deltanb.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    Metadata,
    Protocol,
    RemoveFile,
    decode_path,
)
from deltanb.commands.read.moved_rows import ALONE, CHANGED, Piece, classify_moved
from deltanb.commands.rows.change_files import CHANGE_TYPE
from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import Scan, plan_for, read_data_file
from deltanb.engines.arrow.row_ids import Fields, columns_of
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import (
    DataFileNotFound,
    IncompatibleSchemaChange,
    InvalidArgument,
    InvalidSchema,
    MissingChangeData,
    TableNotFound,
    VersionNotFound,
)
from deltanb.log import commit_times
from deltanb.log.reader import as_version
from deltanb.log.skipping import partitions
from deltanb.schema import column_mapping, properties
from deltanb.schema.types import STRING, ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltanb.schema.widening import is_widening
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.conditions import Where
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.delta_log import DeltaLog

Moment = int | str | dt.datetime

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
_NO_ROW_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def changes(
    log: DeltaLog,
    start: Moment | None = None,
    end: Moment | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    newest: Snapshot | None = None,
) -> pa.Table:
    """The changes of the versions from ``start`` to ``end``, both included, in the order of versions.

    Args:
        start, end: a version (an integer), or a time (ISO 8601 text or a datetime, UTC without a zone):
            the first version at or after it, and the last at or before it. By default, ``end`` is the newest
            version, and ``start`` the first one from which the feed is on and all commits are still in the
            log.
        columns: top-level names, in this order; all by default. Names, types and partitioning are those of
            the last version of the range.
        where: a condition in SQL on any column, including those of the feed.
        newest: the version to take as the newest, by default the table's.

    Returns:
        The columns, and ``_change_type`` (``insert``, ``delete``, ``update_preimage``,
        ``update_postimage``), ``_commit_version`` and ``_commit_timestamp`` (UTC).

    Raises:
        MissingChangeData: the feed was off at a version of the range (``.version``).
        VersionNotFound: a version outside of the log (``.earliest``, ``.latest``).
        IncompatibleSchemaChange: a requested column was dropped, renamed or retyped within the range
            (``.version``, ``.differences``).
        DataFileNotFound: the files of a change were vacuumed.
        InvalidArgument, InvalidPredicate: an invalid range, column or condition.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"n": [1]}, properties={"delta.enableChangeDataFeed": "true"})
    >>> _ = table.append({"n": [2]})
    >>> table.changes(1).select(["n", "_change_type", "_commit_version"]).to_pylist()
    [{'n': 2, '_change_type': 'insert', '_commit_version': 1}]
    >>> table.changes()["_commit_version"].to_pylist()
    [0, 1]
    """
    scan, files = plan_changes(log, start, end, columns=columns, where=where, newest=newest)
    return pa.Table.from_batches(list(_rows(scan, files)), scan.schema)


def plan_changes(
    log: DeltaLog, start: Moment | None = None, end: Moment | None = None, *,
    columns: Sequence[str] | None = None, where: Where | None = None, newest: Snapshot | None = None,
) -> tuple[Scan, list[ChangedFile]]:
    """The scan and the files that :func:`changes` reads, in the order of versions; see :func:`rows_of`.

    Arguments and errors are those of :func:`changes`. Both values can be pickled.
    """
    last = log.update() if newest is None else newest
    if last.version < 0:
        raise TableNotFound(f"there is no Delta table at {log.path}", path=log.path)
    first, final = _range(log, start, end, last)
    target = log.snapshot_at(final) if final != last.version else last
    schema = _feed_schema(target.schema)
    names = target.schema.names if columns is None else list(columns)
    read_names = [*names, *(name for name in FEED_COLUMNS if name not in names)]
    scan = plan_for(target, schema, read_names, where, FEED_COLUMNS)
    if first > final:
        return scan, []
    return scan, _pruned(list(_files(log, first, final, target, scan)), scan)


def feed_scan(shown: Snapshot) -> Scan:
    """The scan of changed files for all columns of a version and of the feed."""
    schema = _feed_schema(shown.schema)
    return plan_for(shown, schema, schema.names, None, FEED_COLUMNS)


def changed_in(
    log: DeltaLog, version: int, shown: Snapshot, scan: Scan, *, recorded: bool = True
) -> list[ChangedFile]:
    """The changed files of one version, for the columns of another one (:func:`feed_scan`).

    ``recorded=False`` is for a version in which the feed may have been off: only its data files are used.

    Raises:
        MissingChangeData, IncompatibleSchemaChange: as :func:`changes`.
    """
    return list(_files(log, version, version, shown, scan, recorded))


def as_inserted(log: DeltaLog, version: int, files: Iterable[Mapping[str, Any]]) -> list[ChangedFile]:
    """Files of a snapshot as if its commit had inserted all their rows."""
    at = commit_times.commit_times(log, version, version).get(version, 0)
    known = {COMMIT_VERSION: str(version), COMMIT_TIMESTAMP: _time(at), CHANGE_TYPE: "insert"}
    return [ChangedFile(version, file["path"], "insert", {**dict(file["partition_values"] or ()), **known},
                        file["deletion_vector"], None, file["base_row_id"],
                        file["default_row_commit_version"]) for file in files]


# --- the range ------------------------------------------------------------------------------------

def _range(log: DeltaLog, start: Moment | None, end: Moment | None, newest: Snapshot) -> tuple[int, int]:
    """The range of versions; the first is after the last only if times name an empty range."""
    for moment in (start, end):
        if isinstance(moment, bool) or not isinstance(moment, int | str | dt.datetime | None):
            raise InvalidArgument(
                "changes() takes versions, ISO 8601 strings or datetimes as start and end, found "
                f"{moment!r}")
        if isinstance(moment, int):
            as_version(moment, "changes")
    earliest, latest = _earliest(log), newest.version
    final = latest if end is None else end if isinstance(end, int) else _at_or_before(log, end, latest)
    if start is None:
        if not earliest <= final <= latest:
            raise _outside(log, final, earliest, latest)
        return _first_recorded(log, final, earliest), final
    first = start if isinstance(start, int) else _at_or_after(log, start, earliest)
    for version in (first, final):
        if not earliest <= version <= latest and not (first > final and version == first):
            raise _outside(log, version, earliest, latest)
    if first > latest:
        raise _outside(log, first, earliest, latest)
    if first > final and (isinstance(start, int) or isinstance(end, int | None)):
        raise InvalidArgument(
            f"the changes of {log.path} from version {first} to {final} are asked for: the end is before the "
            "start. Swap them")
    return first, final


def _first_recorded(log: DeltaLog, final: int, earliest: int) -> int:
    """The first version from which the feed was on without a gap up to ``final``.

    Raises:
        MissingChangeData: it was off at ``final``.
    """
    at = log.snapshot_at(final)
    _check_enabled(at.metadata, at.protocol, final, log)
    for version in range(final, earliest, -1):
        actions = log.read_commit(version)
        if any(isinstance(action, Metadata | Protocol) for action in actions):
            before = log.snapshot_at(version - 1)
            if not is_feed_on(before.metadata, before.protocol):
                return version
    return earliest


def _earliest(log: DeltaLog) -> int:
    """The first version whose commit exists and whose state can be read."""
    known = log.earliest_version()
    return min((version for version in log.commits.names() if version >= known), default=known)


def _at_or_after(log: DeltaLog, moment: str | dt.datetime, earliest: int) -> int:
    time = commit_times.to_milliseconds(moment)
    try:
        version = commit_times.version_as_of(log, moment)
    except VersionNotFound:
        begin = commit_times.commit_times(log, earliest, earliest)
        if begin and time < begin[earliest]:
            return earliest
        raise
    return version + (commit_times.commit_times(log, version, version).get(version, time) < time)


def _at_or_before(log: DeltaLog, moment: str | dt.datetime, latest: int) -> int:
    time = commit_times.to_milliseconds(moment)
    try:
        return min(commit_times.version_as_of(log, moment), latest)
    except VersionNotFound:
        finish = commit_times.commit_times(log, latest, latest)
        if finish and time >= finish[latest]:
            return latest
        raise


def _outside(log: DeltaLog, version: int, earliest: int, latest: int) -> VersionNotFound:
    return VersionNotFound(
        f"{log.path} has no changes of version {version}: the versions that can be read are "
        f"{earliest} to {latest}. Ask for some of these", version=version, earliest=earliest,
        latest=latest)


# --- the schema -----------------------------------------------------------------------------------

def _feed_schema(schema: StructType) -> StructType:
    """The table's columns and the feed's."""
    for name in FEED_COLUMNS:
        if schema.get(name) is not None:
            raise InvalidSchema(
                f"the table has a column {name!r}, which its change data feed has too; rename the "
                "column to read the feed", column=name)
    types = {CHANGE_TYPE: STRING, COMMIT_VERSION: PrimitiveType("long"),
             COMMIT_TIMESTAMP: PrimitiveType("timestamp")}
    fields = [column_mapping.hidden(name, type_) for name, type_ in types.items()]
    return StructType([*schema.fields, *fields])


def check_schema(
    version: int, metadata: Metadata, protocol: Protocol, target: Snapshot, scan: Scan
) -> None:
    """Check that rows of a version can be shown in the requested columns.

    Raises:
        IncompatibleSchemaChange: one of them has another name or type by then, or is gone.
    """
    fields = _by_stored_name(scan.fields, scan.mode)
    mode = column_mapping.mode_of(metadata, protocol)
    present = _by_stored_name(target.schema.fields, scan.mode)
    everything = {f.name for f in target.schema.fields} <= {f.name for f in scan.fields}
    lines = []
    for old in metadata.schema.fields:
        name = _stored_name(old, mode, scan.mode)
        field = fields.get(name)
        if field is not None:
            lines += _differences(old, field, mode, scan.mode, "")
        elif everything and name not in present:
            lines.append(f"- {old.name}: {old.type}, dropped since")
    before, after = metadata.partition_columns, target.partition_columns
    if not lines and [n.lower() for n in before] != [n.lower() for n in after] and mode == scan.mode == (
            "none"):
        lines.append(f"~ partitioned by {list(before)}, since then by {list(after)}")
    if lines:
        raise IncompatibleSchemaChange(
            f"the changes of {scan.table} up to version {target.version} cannot be shown in the columns "
            f"of that version, as those of version {version} differ:\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\nRead the versions before and after the change one after the other, or leave the "
            "column out by columns=[…]", version=version, differences=lines)


def _stored_name(field: StructField, mode: str, target_mode: str) -> str:
    """The name by which a column is matched between versions."""
    if target_mode == "none" or mode == "none":
        return field.name.lower()
    return column_mapping.physical_name(field, mode).lower()


def _by_stored_name(fields: Sequence[StructField], mode: str) -> dict[str, StructField]:
    return {column_mapping.physical_name(field, mode).lower(): field for field in fields}


def _differences(
    old: StructField, new: StructField, mode: str, target_mode: str, prefix: str
) -> list[str]:
    path = prefix + old.name
    if old.name.lower() != new.name.lower():
        return [f"~ {path}: renamed to {new.name!r} since"]
    return _type_differences(old.type, new.type, mode, target_mode, path)


def _type_differences(
    old: DataType, new: DataType, mode: str, target_mode: str, path: str
) -> list[str]:
    match old, new:
        case StructType(), StructType():
            fields = _by_stored_name(new.fields, target_mode)
            lines = []
            for field in old.fields:
                other = fields.get(_stored_name(field, mode, target_mode))
                lines += [f"- {path}.{field.name}: {field.type}, dropped since"] if other is None \
                    else _differences(field, other, mode, target_mode, path + ".")
            return lines
        case ArrayType(), ArrayType():
            return _type_differences(old.element_type, new.element_type, mode, target_mode,
                                     path + ".element")
        case MapType(), MapType():
            return (_type_differences(old.key_type, new.key_type, mode, target_mode, path + ".key")
                    + _type_differences(old.value_type, new.value_type, mode, target_mode,
                                        path + ".value"))
    if old == new or str(old) == "void" or is_widening(old, new):
        return []
    return [f"~ {path}: {old}, since then {new}"]


# --- the files ------------------------------------------------------------------------------------

@dataclass(frozen=True)
class ChangedFile:
    """A file with changes of a version; ``only`` restricts it to the rows at these positions.

    ``kind`` is the change type of the rows, None for a change data file, whose rows have it.
    """

    version: int
    path: str
    kind: str | None
    values: Mapping[str, str | None]
    vector: DeletionVector | None = None
    only: BitMap64 | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The file as a dict for readers."""
        return {"path": self.path, "partition_values": self.values, "deletion_vector": self.vector,
                "base_row_id": self.base_row_id,
                "default_row_commit_version": self.default_row_commit_version}


def _files(
    log: DeltaLog, first: int, final: int, target: Snapshot, scan: Scan, recorded: bool = True
) -> Iterator[ChangedFile]:
    """The files to read, in the order of versions; also checks the range."""
    begin = log.snapshot_at(first)
    metadata, protocol = begin.metadata, begin.protocol
    times = commit_times.commit_times(log, first, final)
    for version in range(first, final + 1):
        actions = log.read_commit(version)
        changed = [a for a in actions if isinstance(a, Metadata)]
        if version == first and changed:
            _check_replaced(log, actions, version, target, scan)
        metadata = changed[-1] if changed else metadata
        protocol = next((a for a in actions if isinstance(a, Protocol)), protocol)
        if recorded:
            _check_enabled(metadata, protocol, version, log)
        if changed or version == first:
            check_schema(version, metadata, protocol, target, scan)
        known = {COMMIT_VERSION: str(version), COMMIT_TIMESTAMP: _time(times[version])}
        files = list(_files_of(actions, version, log, metadata))
        tracked = columns_of(metadata, protocol)
        if tracked and (not changed or tracked == _columns_before(log, version)):
            files = _by_row_id(files, replace(scan, columns=tracked, fields=tracked, predicate=None,
                                            tracked=tracked, version=version))
        for file in files:
            kind = {} if file.kind is None else {CHANGE_TYPE: file.kind}
            yield replace(file, values={**file.values, **known, **kind})


def _check_replaced(
    log: DeltaLog, actions: Sequence[Action], version: int, target: Snapshot, scan: Scan
) -> None:
    """Check the schema before the first commit, which may remove rows with it."""
    if version == 0 or not any(isinstance(a, RemoveFile) and a.data_change for a in actions):
        return
    try:
        before = log.snapshot_at(version - 1)
    except VersionNotFound:
        return  # nobody can tell any more; a file of another type is refused when it is read
    check_schema(version - 1, before.metadata, before.protocol, target, scan)


def _check_enabled(metadata: Metadata, protocol: Protocol, version: int, log: DeltaLog) -> None:
    if not is_feed_on(metadata, protocol):
        raise MissingChangeData(
            f"{log.path} recorded no changes at version {version}: its change data feed was off "
            "(delta.enableChangeDataFeed). Ask for a range in which it was on, or switch it on: what is "
            'committed after set_properties({"delta.enableChangeDataFeed": "true"}) will be recorded',
            version=version)


def is_feed_on(metadata: Metadata, protocol: Protocol) -> bool:
    """Whether a version with this metadata and protocol records its changes."""
    on = properties.get(metadata.configuration, "delta.enableChangeDataFeed")
    return bool(on) and protocol.supports("changeDataFeed")


def _files_of(
    actions: Sequence[Action], version: int, log: DeltaLog, metadata: Metadata
) -> Iterator[ChangedFile]:
    change_files = [a for a in actions if isinstance(a, AddCDCFile)]
    if change_files:
        for file in change_files:
            yield ChangedFile(version, file.path, None, file.partition_values)
        return
    info = next((a for a in actions if isinstance(a, CommitInfo)), None)
    if info is not None and _changes_nothing(info):
        return
    added = {decode_path(a.path): a for a in actions if isinstance(a, AddFile) and a.data_change}
    removed = {decode_path(a.path): a for a in actions if isinstance(a, RemoveFile) and a.data_change}
    vectors = VectorFiles()
    for path, remove in removed.items():
        values = _values_of(remove, log, version, metadata)
        ids = (remove.base_row_id, remove.default_row_commit_version)
        if path not in added:
            yield ChangedFile(version, remove.path, "delete", values, remove.deletion_vector, None, *ids)
            continue
        before, after = (vectors.load(log.store, file.deletion_vector, data_file=file.path)
                         for file in (remove, added[path]))
        for kind, only in (("delete", after - before), ("insert", before - after)):
            if only:
                yield ChangedFile(version, remove.path, kind, values, None, only, *ids)
    for path, add in added.items():
        if path not in removed:
            yield ChangedFile(version, add.path, "insert", add.partition_values, add.deletion_vector, None,
                        add.base_row_id, add.default_row_commit_version)


def _columns_before(log: DeltaLog, version: int) -> Fields:
    """The columns of row ids of the version before: under other names, ids say nothing of these rows."""
    try:
        before = log.snapshot_at(version - 1)
    except VersionNotFound:
        return ()
    return columns_of(before.metadata, before.protocol)


def _by_row_id(files: list[ChangedFile], scan: Scan) -> list[ChangedFile]:
    """Files of removed and added rows, with moved rows left out and updated ones marked."""
    sides = [[file for file in files if file.kind == kind] for kind in ("delete", "insert")]
    if not all(sides):
        return files
    try:
        classified = classify_moved(scan, *([Piece(file.row, file.only) for file in side] for side in sides))
    except DataFileNotFound:  # it is missed once more when its rows are read, with what can be done
        return files
    if classified is None:
        return files
    parts: list[ChangedFile] = []
    for side, fates, change in zip(sides, classified, ("update_preimage", "update_postimage"), strict=True):
        for file, fate in zip(side, fates, strict=True):
            parts += [replace(file, kind=kind, only=rows) for kind, rows in (
                (file.kind, fate[ALONE]), (change, fate[CHANGED])) if rows]
    return parts


def _changes_nothing(info: CommitInfo) -> bool:
    """Whether a MERGE only rewrote files without changing a row."""
    metrics = info.operation_metrics
    return info.operation == "MERGE" and isinstance(metrics, Mapping) and all(
        str(metrics.get(name)) == "0" for name in _NO_ROW_CHANGED)


def _values_of(
    remove: RemoveFile, log: DeltaLog, version: int, metadata: Metadata
) -> Mapping[str, str | None]:
    """The partition values of a removed file; looked up in the previous version if the removal lacks them."""
    if remove.partition_values is not None or not metadata.partition_columns:
        return remove.partition_values or {}
    files = log.snapshot_at(version - 1).select_files(["path", "partition_values"]).to_pylist()
    path = decode_path(remove.path)
    return next((dict(f["partition_values"]) for f in files if decode_path(f["path"]) == path), {})


def _time(milliseconds: int) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=milliseconds)
    text = partitions.format_value(moment, PrimitiveType("timestamp"))
    assert text is not None
    return text


def _pruned(files: list[ChangedFile], scan: Scan) -> list[ChangedFile]:
    """The files that the condition does not exclude without opening them."""
    if scan.predicate is None or not files:
        return files
    from deltanb.log.skipping import prune as skipping
    from deltanb.sql import expressions as ex

    condition = _exact(scan.predicate, scan.partition_columns - {CHANGE_TYPE})
    if condition is None:
        return files
    names = sorted({node.path[0] for node in ex.walk(condition) if isinstance(node, ex.Column)})
    values = pa.array([list(file.values.items()) for file in files], pa.map_(pa.string(), pa.string()))
    physical = {field.name: column_mapping.physical_name(field, scan.mode) for field in scan.fields}
    table = partitions.typed_partition_values(
        pa.table({"partition_values": values}), StructType(scan.fields), names, physical)
    verdict = skipping.evaluate(table, skipping.may_match(condition, names)).to_pylist()
    return [file for file, keep in zip(files, verdict, strict=True) if keep is not False]


def _exact(predicate: Predicate, names: frozenset[str]) -> Any:
    """The conjuncts that partition values and the commit alone decide; None if there are none."""
    from deltanb.sql import expressions as ex

    parts = [part for part in ex.conjuncts(predicate.expression)
             if (paths := [n.path for n in ex.walk(part) if isinstance(n, ex.Column)])
             and all(path[0] in names for path in paths)]
    return ex.boolean("and", *parts) if parts else None


# --- the rows -------------------------------------------------------------------------------------

def _rows(scan: Scan, files: Sequence[ChangedFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, in order; several files are decoded at a time."""
    def read(file: ChangedFile) -> list[pa.RecordBatch]:
        return list(rows_of(scan, file))

    for batches in parallel.each(read, files, read_concurrency(scan.store), name="changes"):
        yield from batches


def rows_of(scan: Scan, file: ChangedFile) -> Iterator[pa.RecordBatch]:
    """The changed rows of one file.

    Raises:
        DataFileNotFound: it was vacuumed.
    """
    values = scan.partition_columns - {CHANGE_TYPE} if file.kind is None else scan.partition_columns
    one = replace(scan, partition_columns=values, version=file.version)
    try:
        yield from read_data_file(one, file.row, only=file.only)
    except DataFileNotFound as error:
        path = decode_path(file.path)
        raise DataFileNotFound(
            f"the changes of version {file.version} of {scan.table} are in {path!r}, which is gone: "
            "VACUUM removes such files after the retention time. Ask for a later start, or restore "
            "the file from a copy", path=path, version=file.version) from error
