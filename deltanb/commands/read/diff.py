"""DIFF: the differences between two versions of a table, including rows.

What lives here: :func:`diff`: which rows have to be read, how they are read, and which of them were added,
removed or changed.
What it does not know: the differences in the log (``log/diff``), how a diff is drawn.

Only files that differ are read; if only a deletion vector changed, only the rows by which the two vectors
differ. A row that is in both versions, equal in every column, is no difference, whatever file it is in: so an
OPTIMIZE changes nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.commands.read.diff_rows import Sides, conformed, match
from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import plan, read_data_file
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.diff import FileDiff, RowDiff, TableDiff, compare, num_rows
from deltanb.log.snapshot import Snapshot
from deltanb.schema.column_names import column_names, spelled
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog

MAX_ROWS = 1_000_000
"""Rows read for one diff, both versions together: some seconds, and some hundred bytes of memory each."""
MAX_BYTES = 256 << 20
"""Bytes of the data files read for one diff: what stays in memory even where one row is large."""
SAMPLE_ROWS = 100
"""Rows read of files that are too many to read, where all of their rows are known to be new or gone."""


def diff(
    log: DeltaLog,
    start: int | str | dt.datetime | Snapshot | Any,
    end: int | str | dt.datetime | Snapshot | Any | None = None,
    *,
    keys: str | Sequence[str] | None = None,
    max_rows: int = MAX_ROWS,
    columns: str | Sequence[str] | None = None,
    newest: Snapshot | None = None,
) -> TableDiff:
    """The differences between ``start`` and ``end``: schema, properties, protocol, files and rows.

    Args:
        start, end: a version (an integer), a time (ISO 8601 text or a datetime, UTC without a zone), or a
            table pinned to one. ``end`` is by default the newest version, and may be before ``start``.
        keys: columns that identify a row: a removed row and an added one with the same key are one changed
            row. By default, row ids if the table tracks rows; else, and for rows that got a new id, a column
            that is unique in the rows read from both versions (the diff names it). With an empty list, rows
            are only added and removed.
        max_rows: the most rows to read, of both versions together (and files of 256 MiB). Beyond that,
            rows are counted by the log and not compared; the diff says so.
        columns: the columns to show, in this order; rows are compared in all columns. By default: keys,
            columns that differ, columns in the commits' conditions, then the others.

    Returns:
        The diff; showing it reads nothing. Rows are compared in the columns of ``end``; a column that
        ``start`` lacks is NULL there.

    Raises:
        VersionNotFound: there is no such version, or the log no longer has it.
        InvalidArgument: an unknown column; ``keys`` that several rows of a version share.
        TableNotFound: there is no table.

    Missing data files are no error: the diff then says which rows are unknown.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"id": [1, 2], "name": ["Donald", "Scrooge"]})
    >>> _ = table.update({"name": "'Daisy'"}, where="id = 1")
    >>> _ = table.append({"id": [3], "name": ["Huey"]})
    >>> rows = table.diff(0, 2, keys="id").rows
    >>> rows.num_added, rows.num_removed, rows.num_changed
    (1, 0, 1)
    >>> rows.before["name"].to_pylist(), rows.after["name"].to_pylist(), rows.added["id"].to_pylist()
    (['Donald'], ['Daisy'], [3])
    """
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 0:
        raise InvalidArgument(f"max_rows={max_rows!r} must be a whole number of rows, 0 or more")
    after = (newest or log.update()) if end is None else _snapshot(log, end)
    before = _snapshot(log, start)
    difference = compare(before, after)
    key_columns = None if keys is None else known_columns(keys, after, "keys")
    shown = None if columns is None else known_columns(columns, after)
    rows = rows_of(before, after, difference.files, key_columns, max_rows)
    return replace(difference, rows=rows, columns=shown)


def in_short(error: BaseException, root: str) -> str:
    """The first line of an error, without local folders, which a picture should not show.

    >>> in_short(DeltaError("v1 of /lake/ducks lacks file:/pond/a.parquet", path="file:/pond/a.parquet"),
    ...          "/lake/ducks")
    'v1 of ducks lacks a.parquet'
    """
    words = str(error).split("\n", 1)[0]
    for path in (root, *(getattr(error, name, None) for name in ("path", "file"))):
        if isinstance(path, str) and (path.startswith("/") or ":/" in path):
            words = words.replace(path, path.rstrip("/").rsplit("/", 1)[-1] or path)
    return words


def _snapshot(log: DeltaLog, moment: int | str | dt.datetime | Snapshot | Any) -> Snapshot:
    if isinstance(moment, Snapshot):
        return moment
    held = getattr(moment, "snapshot", None)
    if isinstance(held, Snapshot):
        return held
    if isinstance(moment, str | dt.datetime):
        return log.snapshot_as_of(moment)
    if isinstance(moment, bool) or not hasattr(moment, "__index__"):
        raise InvalidArgument(
            "diff takes versions, ISO 8601 strings, datetimes or tables pinned to a version, found "
            f"{moment!r:.80}")
    return log.snapshot_at(index(moment))  # type: ignore[arg-type]


def key_names(keys: str | Iterable[str], what: str = "keys") -> tuple[str, ...]:
    """The names in ``keys``, or in another argument, not yet checked against a version.

    Raises:
        InvalidArgument: neither a name nor a list of names.

    >>> key_names("id"), key_names(["day", "id"])
    (('id',), ('day', 'id'))
    """
    return column_names(keys, what, may_be_empty=True)


def known_columns(names: str | Sequence[str], at: Snapshot, what: str = "columns") -> tuple[str, ...]:
    """The names of columns as a version spells them.

    Raises:
        InvalidArgument: an unknown column; ``what`` is the name of the argument.
    """
    return tuple(spelled(key_names(names, what), at.schema.names, f"{what}: version {at.version}"))


# --- which rows are read --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reading:
    """A file of a version to read; ``only`` restricts it to the live rows at these positions."""

    row: Mapping[str, Any]
    only: BitMap64 | None = None


def rows_of(
    before: Snapshot, after: Snapshot, files: FileDiff, keys: Sequence[str] | None, max_rows: int
) -> RowDiff:
    """The added, removed and changed rows of the files; beyond ``max_rows``, the log's counts."""
    if files.is_empty:
        return _estimated(after, files)
    try:
        masked = _masked(before, after, files)
        reason = _beyond(files, masked, max_rows)
        if reason:
            return _counted(before, after, files, reason)
        tracked = [columns_of(snapshot.metadata, snapshot.protocol) for snapshot in (before, after)]
        # Ids mean the same rows as long as they are kept under the same name.
        by_id = keys is None and bool(tracked[0]) and tracked[0] == tracked[1]
        read = [_read(before, _listed(files.removed) + masked[0], by_id),
                _read(after, _listed(files.added) + masked[1], by_id)]
    except DeltaError as error:
        return _estimated(after, files, in_short(error, after.log.path))
    ids = [table[tracked[0][0].name] for table in read] if by_id else None
    if by_id:
        read = [table.select(range(table.num_columns - len(tracked[0]))) for table in read]
    old, not_compared = conformed(read[0], before.schema, after.schema)
    sides = Sides(old, read[1], after.schema, not_compared, ids)
    fixed = frozenset(after.partition_columns) | {name for name, _ in _absent(before, after)}
    return match(sides, None if keys is None else tuple(keys), fixed, (before.version, after.version))


def _absent(before: Snapshot, after: Snapshot) -> list[tuple[str, Any]]:
    """Columns that only the later version has, which cannot match rows of the earlier one."""
    from deltanb.log.diff import paired_fields

    return [(new.name, new.type) for old, new in paired_fields(before.schema, after.schema)
            if old is None and new is not None]


def _listed(files: pa.Table) -> list[_Reading]:
    return [_Reading(row) for row in files.to_pylist(maps_as_pydicts="lossy")]


def _masked(
    before: Snapshot, after: Snapshot, files: FileDiff
) -> tuple[list[_Reading], list[_Reading]]:
    """The rows that only one version shows, of files whose deletion vectors differ."""
    gone, come = [], []
    vectors = VectorFiles()
    old, new = (table.to_pylist(maps_as_pydicts="lossy")
                for table in (files.remasked_before, files.remasked_after))
    for one, two in zip(old, new, strict=True):
        hidden = [vectors.load(snapshot.log.store, row["deletion_vector"], data_file=row["path"])
                  for snapshot, row in ((before, one), (after, two))]
        if hidden[1] - hidden[0]:
            gone.append(_Reading(one, hidden[1] - hidden[0]))
        if hidden[0] - hidden[1]:
            come.append(_Reading(two, hidden[0] - hidden[1]))
    return gone, come


def _beyond(
    files: FileDiff, masked: tuple[list[_Reading], list[_Reading]], max_rows: int
) -> str:
    """Why there are too many rows to read; empty if there are not."""
    rows = sum(pc.sum(table["num_rows"]).as_py() or 0 for table in (files.added, files.removed))
    rows += sum(len(one.only or ()) for side in masked for one in side)
    if rows > max_rows:
        return f"{rows} rows to read, max_rows={max_rows}"
    tables = (files.added, files.removed, files.remasked_after)
    size = sum(pc.sum(table["size"]).as_py() or 0 for table in tables)
    if size > MAX_BYTES:
        return f"{size >> 20} MiB to read, the limit is {MAX_BYTES >> 20} MiB"
    return ""


# --- what is said without comparing ---------------------------------------------------------------


def _counted(before: Snapshot, after: Snapshot, files: FileDiff, reason: str) -> RowDiff:
    """The log's row counts: exact if files were only added or only removed, else upper bounds."""
    from deltanb.engines.arrow.read import head

    estimate = _estimated(after, files, reason)
    if files.remasked_after.num_rows or (files.added.num_rows and files.removed.num_rows):
        return estimate
    only, snapshot = (files.added, after) if files.added.num_rows else (files.removed, before)
    if num_rows(only) is None:
        return estimate
    sample, _ = conformed(head(snapshot, only, SAMPLE_ROWS), snapshot.schema, after.schema)
    note = f"counted by the log, a sample shown: {reason}"
    if snapshot is after:
        return replace(estimate, added=sample, is_exact=True, note=note)
    return replace(estimate, removed=sample, is_exact=True, note=note)


def _estimated(after: Snapshot, files: FileDiff, reason: str = "") -> RowDiff:
    """The log's row counts; exact if there is no reason against reading."""
    try:
        empty = after.schema.to_arrow().empty_table()
    except DeltaError:
        empty = pa.table({})
    counts = [num_rows(files.added), num_rows(files.removed)]
    shown = [num_rows(table) for table in (files.remasked_before, files.remasked_after)]
    more = None if None in shown else (shown[1] or 0) - (shown[0] or 0)
    come, gone = (None if n is None or more is None else n + max(0, sign * more)
                  for n, sign in zip(counts, (1, -1), strict=True))
    return RowDiff(come, gone, 0, empty, empty, empty, empty, is_exact=not reason, note=reason)


# --- reading --------------------------------------------------------------------------------------


def _read(snapshot: Snapshot, files: list[_Reading], by_id: bool) -> pa.Table:
    """Rows in the order of the files; ``by_id`` with their ids and commit versions as last columns."""
    scan = plan(snapshot, row_ids=by_id)

    def read(file: _Reading) -> list[pa.RecordBatch]:
        return list(read_data_file(scan, file.row, only=file.only))

    read_files = parallel.each(read, files, read_concurrency(scan.store), name="diff")
    return pa.Table.from_batches([batch for batches in read_files for batch in batches], scan.schema)
