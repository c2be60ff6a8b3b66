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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Action, AddFile, Metadata
from deltanb.data import inputs
from deltanb.data.data_file import plan
from deltanb.data.read import iter_batches
from deltanb.data.row_ids import columns_of
from deltanb.data.write import write_files
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaConcurrentModificationException,
    TableNotFound,
)
from deltanb.log.replay import FILES_SCHEMA
from deltanb.schema import column_mapping
from deltanb.schema.protocol import check_writable
from deltanb.schema.types import StructType
from deltanb.transaction import active

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

ONE_FILE = 1 << 62
"""A target size that no file reaches: everything goes into one."""
MAX_TRANSACTIONS = 100
"""Transactions begun for one command. Each loses to a winner that left all of its files alone, which
is rare: metadata or protocol changed. So many in a row are no accident."""

_KEPT_KEYS = frozenset({column_mapping.NAME_KEY, column_mapping.ID_KEY, "delta.typeChanges",
                        "delta.columnMapping.nested.ids", "__COLLATIONS"})


def begin(log: DeltaLog, *, writes_rows: bool = False) -> OptimisticTransaction:
    """A transaction for a command that looks after a table and changes no row.

    ``writes_rows`` says that rows are written again: features with rules for data files then count.

    Raises:
        TableNotFound: there is no table.
        UnsupportedProtocol: the table has a feature that this library cannot read or write.
    """
    txn: OptimisticTransaction = active.begin(log)
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
    written beside it (PROTOCOL.md, "Row Tracking", materialized columns).

    ``clustering`` are physical paths of columns whose statistics are wanted in any case.
    """

    def __init__(
        self, txn: OptimisticTransaction, clustering: Iterable[Sequence[str]] = ()
    ) -> None:
        self.txn, self.snapshot = txn, txn.snapshot
        self.clustering = [tuple(path) for path in clustering]
        self.metadata = plain_metadata(txn.metadata)
        self.scan = plan(txn.snapshot, row_ids=True)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows as they are read: the table's columns, then those of row tracking."""
        return self.scan.schema

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The live rows of rows of ``snapshot.files``, in their order."""
        return iter_batches(self.snapshot, files, row_ids=True)

    def write(
        self, batches: Iterator[pa.RecordBatch], target_size: int = ONE_FILE
    ) -> list[AddFile]:
        """Write rows that :meth:`batches` gave; the files are the transaction's to discard."""
        added = write_files(
            self.txn.log.store, self.metadata, self.txn.protocol,
            inputs.Source(self.schema, lambda: batches), target_file_size=target_size,
            data_change=False, clustering=self.clustering, hidden=self.scan.tracked)
        self.txn.written.extend(added)
        return added


def plain_metadata(metadata: Metadata) -> Metadata:
    """The table's metadata without what acts on new rows, for rows that the table holds already.

    Constraints, defaults, generated and identity columns have done their work.
    """
    fields = [replace(f, metadata={k: v for k, v in f.metadata.items() if k in _KEPT_KEYS})
              for f in metadata.schema.fields]
    configuration = {key: text for key, text in metadata.configuration.items()
                     if not key.lower().startswith("delta.constraints.")}
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
                again: OptimisticTransaction = active.begin(txn.log)
                if not _still_stands(txn.snapshot, again.snapshot, rewrites):
                    raise
                again.written, txn.written = txn.written, []
                txn = again
        return txn, txn.commit(_actions(txn.snapshot, rewrites), operation)
    except CommitOutcomeUnknown:  # the files may belong to the table
        raise
    except BaseException as error:
        if txn.has_surely_not_landed:
            txn.discard_written()
        txn.note_outcome(error)
        raise


def _still_stands(before: Snapshot, now: Snapshot, rewrites: Sequence[Rewrite]) -> bool:
    """Whether every file to be removed is in the table as it was, and new files still fit in."""
    columns = [columns_of(snapshot.metadata, snapshot.protocol) for snapshot in (before, now)]
    if before.partition_columns != now.partition_columns or columns[0] != columns[1]:
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
