"""Rows that move and do not change: files read, written again, and committed in place of the old ones.

What lives here: :class:`Rewriter`, which reads live rows and writes them with their row ids, and
:func:`commit_rewrite`, which commits new files for old ones and tries again behind commits that left
the old ones alone.
What it does not know: which files are worth it, and in which order rows should lie (``optimize``,
``zorder``).

Nothing but layout changes, so such a commit reads nothing: what stands against it is a winner that
removed one of its files. Two rewrites of one file therefore never both commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Action, AddFile, Metadata
from deltanb.data import column_mapping, inputs, statistics
from deltanb.data.data_file import ROW_POSITION, plan, read_data_file
from deltanb.data.read import iter_batches
from deltanb.data.write import write_files
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaConcurrentModificationException,
    TableNotFound,
)
from deltanb.log import properties
from deltanb.log.protocol import check_writable
from deltanb.log.replay import FILES_SCHEMA
from deltanb.log.schema import PrimitiveType, StructField, StructType

if TYPE_CHECKING:
    from deltanb.log.delta_log import DeltaLog
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

ONE_FILE = 1 << 62
"""A target size that no file reaches: everything goes into one."""
MAX_TRANSACTIONS = 100
"""Transactions begun for one command. Each loses to a winner that left all of its files alone, which
is rare: metadata or protocol changed. So many in a row are no accident."""

_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
_KEPT_KEYS = frozenset({column_mapping.NAME_KEY, column_mapping.ID_KEY, "delta.typeChanges",
                        "delta.columnMapping.nested.ids", "__COLLATIONS"})


def begin(log: DeltaLog, *, writes_rows: bool = False) -> OptimisticTransaction:
    """A transaction for a command that looks after a table and changes no row.

    ``writes_rows`` says that rows are written again: features with rules for data files then count.

    Raises:
        TableNotFound: there is no table.
        UnsupportedProtocol: the table has a feature that this library cannot read or write.
    """
    txn: OptimisticTransaction = log.start_transaction()
    if txn.read_version < 0:
        raise TableNotFound(
            f"there is no Delta table at {log.path}; create one with deltanb.create(path, data)",
            path=log.path)
    txn.snapshot.check_readable()
    check_writable(txn.protocol, txn.metadata, txn.table, writes_data=False)
    if writes_rows:
        check_writable(txn.protocol, plain_metadata(txn.metadata), txn.table)
    return txn


@dataclass
class Rewrite:
    """Files that go, and the files that take their rows in."""

    removed: list[AddFile]
    added: list[AddFile]


class Rewriter:
    """Reads live rows of a snapshot's files and writes them again as they are.

    On a table with ``delta.enableRowTracking`` every row keeps its id and its commit version: both are
    written beside it (PROTOCOL.md, "Row Tracking", materialized columns). ``keeps_row_ids`` says so.

    ``clustering`` are physical paths of columns whose statistics are wanted in any case.
    """

    def __init__(
        self, txn: OptimisticTransaction, clustering: Iterable[Sequence[str]] = ()
    ) -> None:
        self.txn, self.snapshot = txn, txn.snapshot
        self.clustering = [tuple(path) for path in clustering]
        self.tracked = row_id_columns(txn.snapshot)
        self.keeps_row_ids = bool(self.tracked)
        self.metadata = plain_metadata(txn.metadata, self.tracked)
        self.scan = plan(txn.snapshot)
        if self.tracked:
            fields = self.metadata.schema.fields[-2:]
            columns = (*self.scan.columns, *fields)
            self.scan = replace(self.scan, columns=columns, fields=columns)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows as they are read: the table's columns, then those of row tracking."""
        return self.scan.schema

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The live rows of rows of ``snapshot.files``, in their order."""
        if not self.tracked:
            yield from iter_batches(self.snapshot, files)
            return
        for row in files.to_pylist(maps_as_pydicts="lossy"):
            for batch in read_data_file(self.scan, row, positions=True):
                yield self._with_row_ids(batch, row)

    def _with_row_ids(self, batch: pa.RecordBatch, row: Mapping[str, Any]) -> pa.RecordBatch:
        """Where a file holds no id of a row, its place in the file gives it."""
        place = batch.num_columns - 3
        positions = batch.column(ROW_POSITION)
        fresh: Any = pa.nulls(batch.num_rows, pa.int64())
        if row.get("base_row_id") is not None:
            fresh = pc.add(positions, row["base_row_id"])
        ids = pc.coalesce(batch.column(place), fresh)
        version = pa.scalar(row.get("default_row_commit_version"), pa.int64())
        versions = pc.coalesce(batch.column(place + 1), version)
        arrays = [*batch.columns[:place], ids, versions]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def write(
        self, batches: Iterator[pa.RecordBatch], target_size: int = ONE_FILE
    ) -> list[AddFile]:
        """Write rows that :meth:`batches` gave; the files are the transaction's to discard."""
        added = write_files(
            self.txn.log.store, self.metadata, self.txn.protocol,
            inputs.Source(self.schema, lambda: batches), target_file_size=target_size,
            data_change=False, clustering=self.clustering)
        self.txn.written.extend(added)
        return added


def row_id_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns of data files that keep row ids and commit versions; empty where rows have none.

    Tables that find columns by field id are left out: nothing says which id these columns have.
    """
    configuration = snapshot.metadata.configuration
    names = [configuration.get(key) for key in (_ROW_ID, _ROW_VERSION)]
    if not (tracks_rows(snapshot) and all(names)):
        return ()
    if column_mapping.mode_of(snapshot.metadata, snapshot.protocol) == "id":
        return ()
    return tuple(str(name) for name in names)


def tracks_rows(snapshot: Snapshot) -> bool:
    """Whether every row of the table has an id that a rewrite should keep."""
    return snapshot.protocol.supports("rowTracking") and bool(
        properties.get(snapshot.metadata.configuration, "delta.enableRowTracking"))


def plain_metadata(metadata: Metadata, more: Sequence[str] = ()) -> Metadata:
    """The table's metadata without what acts on new rows, for rows that the table holds already.

    Constraints, defaults, generated and identity columns have done their work. ``more`` are columns of
    64-bit integers that only data files have; they get no statistics.
    """
    fields = [replace(f, metadata={k: v for k, v in f.metadata.items() if k in _KEPT_KEYS})
              for f in metadata.schema.fields]
    configuration = {key: text for key, text in metadata.configuration.items()
                     if not key.lower().startswith("delta.constraints.")}
    if more:
        if properties.get(configuration, "delta.dataSkippingStatsColumns") is None:
            described = len(statistics.indexed_leaves(metadata.schema, metadata))
            configuration["delta.dataSkippingNumIndexedCols"] = str(described)
        number = properties.get(configuration, column_mapping.MAX_ID_KEY)
        fields += [StructField(name, PrimitiveType("long"), metadata={
            column_mapping.NAME_KEY: name, column_mapping.ID_KEY: number + place})
            for place, name in enumerate(more, 1)]
    return metadata.replace(
        schema_string=StructType(fields).to_json(), configuration=configuration)


# --- the commit -----------------------------------------------------------------------------------

def commit_rewrite(
    txn: OptimisticTransaction, rewrites: Sequence[Rewrite], operation: Operation
) -> tuple[OptimisticTransaction, int]:
    """Commit new files for old ones; returns the transaction that did it, and its version.

    After a conflict that is not about its files, the same change is committed by a new transaction.

    Raises:
        DeltaConcurrentModificationException: a winner removed or changed one of the files, or the
            partitioning. The new files are gone then.
    """
    try:
        for _ in range(MAX_TRANSACTIONS - 1):
            try:
                return txn, txn.commit(_actions(txn.snapshot, rewrites), operation)
            except DeltaConcurrentModificationException:
                again: OptimisticTransaction = txn.log.start_transaction()
                if not _still_stands(txn.snapshot, again.snapshot, rewrites):
                    raise
                again.written, txn.written = txn.written, []
                txn = again
        return txn, txn.commit(_actions(txn.snapshot, rewrites), operation)
    except CommitOutcomeUnknown:  # the files may belong to the table
        raise
    except BaseException:
        if txn.has_surely_not_landed:
            txn.discard_written()
        raise


def _still_stands(before: Snapshot, now: Snapshot, rewrites: Sequence[Rewrite]) -> bool:
    """Whether every file to be removed is in the table as it was, and new files still fit in."""
    if before.partition_columns != now.partition_columns or tracks_rows(before) != tracks_rows(now):
        return False
    wanted = {file.file_key for rewrite in rewrites for file in rewrite.removed}
    return len(_present(now, wanted)) == len(wanted)


def _present(
    snapshot: Snapshot, wanted: set[tuple[str, str | None]]
) -> dict[tuple[str, str | None], AddFile]:
    paths = snapshot.select_files(["path"])["path"]
    hits = pc.is_in(paths, value_set=pa.array([path for path, _ in wanted], pa.string()))
    places = pc.indices_nonzero(hits).cast(pa.int64())
    rows = snapshot.select_files(FILES_SCHEMA.names, places)
    found = (AddFile.from_row(row) for row in rows.to_pylist(maps_as_pydicts="lossy"))
    return {file.file_key: file for file in found if file.file_key in wanted}


def _actions(snapshot: Snapshot, rewrites: Sequence[Rewrite]) -> list[Action]:
    removed = {file.file_key for rewrite in rewrites for file in rewrite.removed}
    present = _present(snapshot, removed)
    actions: list[Action] = [file.remove(data_change=False) for file in present.values()]
    return actions + [file for rewrite in rewrites for file in rewrite.added]
