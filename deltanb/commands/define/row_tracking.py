"""Row tracking on a table with rows: ids for existing files (PROTOCOL.md, "Row Tracking").

What lives here: the backfill, commit by commit, its reverse, and the names of the hidden columns.
What it does not know: properties and features, which callers set.

Each batch is one transaction that commits files again, with ids and without a change of data; concurrent
appends can go on, since they assign ids themselves once the feature is in the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import AddFile, Metadata
from deltanb.commands.begin import begin
from deltanb.commands.define.alter import refuse_unwritable
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument, RowIdAssignmentWithoutStats
from deltanb.schema.protocol import supports, upgraded
from deltanb.transaction.operations import BACKFILL, UNBACKFILL, Operation
from deltanb.transaction.reads import FileScan
from deltanb.transaction.rebase import row_ids_suspended

if TYPE_CHECKING:
    from deltanb.actions import Protocol
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_FILES_PER_COMMIT = 100_000
"""Files of one batch: a commit of some 50 MB; conflicts cost no more than that."""

_COLUMNS = ["base_row_id", "default_row_commit_version"]


def backfill(
    log: DeltaLog, before: Callable[[OptimisticTransaction], Metadata] | None = None
) -> OptimisticTransaction:
    """Give ids to all rows. The returned transaction reads a version in which every file has them; a staged
    statement gets them with the commit of all statements.

    Args:
        before: the metadata that will follow, checked before anything is committed.

    Raises:
        RowIdAssignmentWithoutStats: a file has no ``numRecords``; nothing was committed.
        InvalidArgument: row ids are suspended.
    """
    txn = begin(log)
    _require_counts(txn)
    if row_ids_suspended(txn.metadata):
        raise InvalidArgument(
            f"table {txn.table}: rows get no ids while delta.rowTrackingSuspended is true; "
            'set_properties({"delta.rowTrackingSuspended": False}) first, by itself',
            property="delta.rowTrackingSuspended")
    if before is not None:
        metadata = before(txn)
        refuse_unwritable(txn, metadata, upgraded(txn.protocol, metadata))
    if not supports(txn.protocol, "rowTracking"):
        raised = upgraded(txn.protocol, txn.metadata.replace(
            configuration={"delta.feature.rowTracking": "supported"}))
        commit_protocol(txn, raised)
        txn = begin(log)
    batch = 0
    while _lacks_ids(txn):
        files = _files(txn, pc.is_null, at_most=MAX_FILES_PER_COMMIT if txn.gives_row_ids else None)
        txn.commit(files, Operation(BACKFILL, {"batchId": str(batch)}))
        batch += 1
        txn = begin(log)
        if not txn.gives_row_ids:
            break
    return txn


def unbackfill(log: DeltaLog) -> OptimisticTransaction:
    """Remove the ids of all files; the returned transaction reads a version without any."""
    txn = begin(log)
    batch = 0
    while has_ids(txn.snapshot):
        bare = _files(txn, pc.is_valid, keep_ids=False, at_most=MAX_FILES_PER_COMMIT)
        txn.commit(bare, Operation(UNBACKFILL, {"batchId": str(batch)}))
        batch += 1
        txn = begin(log)
    return txn


def has_ids(snapshot: Snapshot) -> bool:
    """Whether any file of a version carries row ids or commit versions."""
    ids = snapshot.select_files(_COLUMNS)
    return any(ids[name].null_count < ids.num_rows for name in _COLUMNS)


def _lacks_ids(txn: OptimisticTransaction) -> bool:
    """Whether files lack ids, without a scan: concurrent appends have ids and are no conflict."""
    ids = txn.snapshot.select_files(_COLUMNS)
    return any(ids[name].null_count for name in _COLUMNS)


def commit_protocol(txn: OptimisticTransaction, protocol: Protocol) -> CommandResult:
    """Commit a raised protocol alone (UPGRADE PROTOCOL)."""
    refuse_unwritable(txn, txn.metadata, protocol)
    txn.update_protocol(protocol)
    shown = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": _listed(protocol.reader_features),
        "writerFeatures": _listed(protocol.writer_features),
    }
    operation = Operation("UPGRADE PROTOCOL", {
        "newProtocol": {key: value for key, value in shown.items() if value is not None}})
    return CommandResult.of(operation, txn.commit([], operation))


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _require_counts(txn: OptimisticTransaction) -> None:
    for row in txn.snapshot.select_files(["path", "stats", "base_row_id"]).to_pylist():
        file = AddFile(path=row["path"], stats=row["stats"])
        if row["base_row_id"] is None and file.num_records is None:
            raise RowIdAssignmentWithoutStats(
                f"table {txn.table}: file {file.path} has no numRecords in its statistics, so its rows "
                "cannot be given ids. Rewrite its rows, with statistics; nothing was changed",
                path=file.path)


def _files(
    txn: OptimisticTransaction, test: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    keep_ids: bool = True, *, at_most: int | None,
) -> list[AddFile]:
    """The next batch of files to commit again: those whose id or version passes the test."""
    table = txn.filter_files().table
    mask = pc.or_(test(table[_COLUMNS[0]]), test(table[_COLUMNS[1]]))
    batch = table.filter(mask).slice(0, at_most)
    constant = {"data_change": pa.repeat(False, batch.num_rows)}
    if not keep_ids:
        constant |= {name: pa.nulls(batch.num_rows, pa.int64()) for name in _COLUMNS}
    for name, values in constant.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, values)
    return list(FileScan(batch))
