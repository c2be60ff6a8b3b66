"""Rewritten files, committed in place of the old ones.

What lives here: :func:`commit_rewrite`, which commits new files for old ones and retries after commits that
left the old ones alone.
What it does not know: which files to rewrite, and how their rows are written (``engines/arrow/rewriter.py``).

Only the layout changes, so such a commit reads nothing and conflicts only with a winner that removed one of
its files. Two rewrites of the same file therefore never both commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Action, AddFile
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaConcurrentModificationException,
)
from deltanb.log.replay import FILES_SCHEMA
from deltanb.transaction import active

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_TRANSACTIONS = 100
"""Transactions begun for one command. Each loses to a winner that left all of its files alone, which
is rare: metadata or protocol changed. So many in a row are no accident."""



@dataclass
class Rewrite:
    """Files to remove, and the files that replace them."""

    removed: list[AddFile]
    added: list[AddFile]


def commit_rewrite(
    txn: OptimisticTransaction, rewrites: Sequence[Rewrite], operation: Operation
) -> tuple[OptimisticTransaction, int]:
    """Commit new files for old ones; returns the transaction and its version.

    After a conflict that does not concern its files, the same change is committed by a new transaction.

    Raises:
        DeltaConcurrentModificationException: a winner removed or changed one of the files, or changed the
            partitioning. The new files are deleted.
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
    """Whether every file to remove is unchanged in the table, and the new files still fit."""
    columns = [columns_of(snapshot.metadata, snapshot.protocol) for snapshot in (before, now)]
    if before.partition_columns != now.partition_columns or columns[0] != columns[1]:
        return False
    keys = {file.file_key for rewrite in rewrites for file in rewrite.removed}
    return len(_present(now, keys)) == len(keys)


def _present(
    snapshot: Snapshot, keys: set[tuple[str, str | None]]
) -> dict[tuple[str, str | None], AddFile]:
    paths = snapshot.select_files(["path"])["path"]
    hits = pc.is_in(paths, value_set=pa.array([path for path, _ in keys], pa.string()))
    places = pc.indices_nonzero(hits).cast(pa.int64())
    rows = snapshot.select_files(FILES_SCHEMA.names, places)
    files = (AddFile.from_row(row) for row in rows.to_pylist(maps_as_pydicts="lossy"))
    return {file.file_key: file for file in files if file.file_key in keys}


def _actions(snapshot: Snapshot, rewrites: Sequence[Rewrite]) -> list[Action]:
    removed = {file.file_key for rewrite in rewrites for file in rewrite.removed}
    present = _present(snapshot, removed)
    actions: list[Action] = [file.remove(data_change=False) for file in present.values()]
    return actions + [file for rewrite in rewrites for file in rewrite.added]
