"""Commands that change rows: which files hold the rows, and what becomes of those files.

What lives here: what DELETE, UPDATE, MERGE and partial overwrites share. :func:`find` looks for
the rows of a condition, :func:`mark_deleted` takes rows out of their files by deletion vectors;
:class:`FileChanges` holds what a commit does to the files, with Delta's metrics.
What it does not know: what the rows become (the commands do), how an engine finds and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddCDCFile, AddFile, DeletionVector, RemoveFile
from deltanb.concurrency import parallel
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow.row_ids import preserved
from deltanb.engines.arrow.touched import deleted_rows, live_rows, physical_count
from deltanb.engines.contract import TouchedFile
from deltanb.options import options
from deltanb.schema import properties
from deltanb.sql.predicates import Condition
from deltanb.store.base import is_remote

if TYPE_CHECKING:
    from deltanb.engines.contract import Engine
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction



@dataclass
class FileChanges:
    """What a command does to the table's files; the lists become the commit's actions.

    ``vectors`` are the files that only got a new deletion vector: (add, remove) pairs. ``written`` are
    new data files, ``removed`` files that go wholly, ``changes`` those of the change data feed.
    ``copied`` counts rows that were only written again.
    """

    written: list[AddFile] = field(default_factory=list)
    removed: list[RemoveFile] = field(default_factory=list)
    vectors: list[tuple[AddFile, RemoveFile]] = field(default_factory=list)
    changes: list[AddCDCFile] = field(default_factory=list)
    copied: int = 0

    @property
    def actions(self) -> list[Any]:
        """All of it, removals first."""
        marked = [action for add, remove in self.vectors for action in (remove, add)]
        return [*self.removed, *marked, *self.written, *self.changes]

    def metrics(self) -> dict[str, int]:
        """Counts under Delta's names: of files, bytes, vectors and copied rows.

        A vector that replaces one counts as added, removed and updated. Files that only got a vector
        are neither added nor removed.
        """
        replaced = sum(1 for _, remove in self.vectors if remove.deletion_vector is not None)
        gone = sum(1 for remove in self.removed if remove.deletion_vector is not None)
        return {
            "numAddedFiles": len(self.written),
            "numRemovedFiles": len(self.removed),
            "numAddedBytes": sum(file.size for file in self.written),
            "numRemovedBytes": sum(file.size or 0 for file in self.removed),
            "numDeletionVectorsAdded": len(self.vectors),
            "numDeletionVectorsRemoved": replaced + gone,
            "numDeletionVectorsUpdated": replaced,
            "numAddedChangeFiles": len(self.changes),
            "numCopiedRows": self.copied,
        }

    def tags(self, txn: OptimisticTransaction) -> dict[str, str]:
        """Of the commit: whether rows kept their ids."""
        return preserved(txn.metadata, txn.protocol, copies=bool(self.written))


# --- the table ------------------------------------------------------------------------------------

def uses_vectors(txn: OptimisticTransaction) -> bool:
    """Whether rows are taken out of files by deletion vectors, rather than by writing files again."""
    return bool(properties.get(txn.metadata.configuration, "delta.enableDeletionVectors")) and (
        txn.protocol.supports("deletionVectors"))


# --- finding rows ---------------------------------------------------------------------------------

def find(
    txn: OptimisticTransaction, files: FileScan, condition: Condition, engine: Engine,
    seen: Callable[[], None] = lambda: None,
) -> list[TouchedFile]:
    """The files of a scan that hold rows of the condition, with these rows.

    Where partition values decide nothing is read; else the engine looks, and calls ``seen`` after each file.

    Raises:
        InvalidPredicate: SQL that Spark cannot evaluate.
    """
    if condition.is_partition_only(txn.snapshot.partition_columns):
        whole = ((file, live_rows(txn, file)) for file in files)
        return [TouchedFile(file, rows, len(rows)) for file, rows in whole if rows]
    return engine.find(txn, files, condition, seen)


# --- rows that go ---------------------------------------------------------------------------------

def remove_rows(
    txn: OptimisticTransaction, condition: Condition, touched: Sequence[TouchedFile], engine: Engine
) -> FileChanges:
    """The touched rows leave their files: by deletion vectors, or the others are written again."""
    changes = FileChanges()
    if uses_vectors(txn):
        mark_deleted(txn, touched, changes)
        return changes
    changes.removed = [one.file.remove() for one in touched]
    changes.copied = sum(one.others for one in touched)
    if changes.copied:
        changes.written = engine.survivors(txn, touched, condition)
    return changes


# --- deletion vectors -----------------------------------------------------------------------------

def mark_deleted(
    txn: OptimisticTransaction, touched: Sequence[TouchedFile], changes: FileChanges,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Take the touched rows out of their files, and put what that needs into ``changes``.

    A file without other rows is removed. Every other one gets a vector of its deleted rows, old and
    new; all of them are written into one file, which goes when the transaction is discarded. ``meanwhile``
    is what else the command writes: where files go into a bucket, nobody waits for the vectors first.
    """
    partial = [one for one in touched if not one.is_whole]
    changes.removed += [one.file.remove() for one in touched if one.is_whole]
    if not partial:
        meanwhile()
        return
    unions = []
    for one in partial:
        deleted = deleted_rows(txn, one.file)
        unions.append(one.rows if deleted is None else one.rows | deleted)
    number = options.new_id()  # drawn here: two threads would draw in any order

    def write() -> list[DeletionVector]:
        return deletion_vectors.write_file(
            txn.log.store, unions, new_id=lambda: number,
            begun=txn.written)

    vectors = parallel.beside(write, meanwhile, is_remote(txn.log.store), "vectors")
    for one, vector in zip(partial, vectors, strict=True):
        marked = one.file.with_deletion_vector(vector, physical_count(txn, one.file))
        changes.vectors.append((marked.replace(data_change=True), one.file.remove()))
