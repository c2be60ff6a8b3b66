"""Commands that change rows: which files hold the rows, and what becomes of those files.

What lives here: what DELETE, UPDATE and MERGE share. :func:`find` looks for the rows of a condition,
:func:`rows_of` reads them or the others again, :func:`mark_deleted` takes rows out of their files by
deletion vectors; :class:`FileChanges` holds what a commit does to the files, with Delta's metrics, and
:class:`CommandResult` says what was done.
What it does not know: what the rows become (the commands do), Spark (``spark/rows.py`` does the same
work there).

A row is named by its file and its position in that file, counted from zero over deleted rows too, as
deletion vectors do (PROTOCOL.md, "Deletion Vectors").
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb import parallel
from deltanb.actions import AddCDCFile, AddFile, RemoveFile, decode_path, encode_path
from deltanb.data import deletion_vectors, inputs
from deltanb.data.data_file import ROW_POSITION, opened, plan, read_data_file
from deltanb.data.row_ids import columns_of, preserved
from deltanb.errors import UnsupportedPredicate
from deltanb.log.replay import files_table
from deltanb.schema import properties
from deltanb.sql import predicates

if TYPE_CHECKING:
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction



@dataclass(frozen=True)
class TouchedFile:
    """A data file with rows that a command changes.

    ``rows`` are their positions in the file, ``live`` is how many rows the file has that are not
    deleted yet; the rows are among those.
    """

    file: AddFile
    rows: BitMap64
    live: int

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the file are meant."""
        return len(self.rows) == self.live

    @property
    def others(self) -> int:
        """How many live rows are not meant."""
        return self.live - len(self.rows)


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

@dataclass(frozen=True)
class Condition:
    """Which rows a command means: SQL, and how much of it the process understands.

    ``sql`` is None for all rows. ``predicate`` is the whole condition where it runs in the process;
    else ``reason`` says why not, and ``parts`` are those of its conjuncts that do.
    """

    sql: str | None
    predicate: Predicate | None = None
    parts: tuple[Predicate, ...] = ()
    reason: UnsupportedPredicate | None = None

    @property
    def can_be_repeated(self) -> bool:
        """Whether it is known to name the same rows each time: Spark has functions that do not."""
        return self.sql is None or self.predicate is not None

    def is_decided_by_log(self, txn: OptimisticTransaction) -> bool:
        """Whether partition values alone say which rows are meant: all of a file, or none."""
        if self.sql is None:
            return True
        return self.predicate is not None and (
            self.predicate.is_partition_only(txn.snapshot.partition_columns))

    def scan(self, txn: OptimisticTransaction) -> FileScan:
        """The files that may hold such rows, remembered by the transaction as read."""
        if self.predicate is not None:
            return txn.filter_files(self.predicate.sql)
        return txn.filter_files(*(part.sql for part in self.parts))


def understand(txn: OptimisticTransaction, where: str | None) -> Condition:
    """The condition over the table's columns.

    Raises:
        InvalidPredicate: syntax, or a column the table does not have.
    """
    if where is None:
        return Condition(None)
    schema = txn.snapshot.schema
    try:
        predicate = predicates.parse(where, schema)
        predicate.to_expression(as_filter=True)
    except UnsupportedPredicate as reason:
        parts = predicates.parse_understood(where, schema)
        return Condition(where, parts=tuple(parts), reason=reason)
    return Condition(predicate.sql, predicate)


def find(
    txn: OptimisticTransaction, files: FileScan, condition: Condition, engine: str,
    seen: Callable[[], None] = lambda: None,
) -> list[TouchedFile]:
    """The files of a scan that hold rows of the condition, with these rows, by the engine given.

    ``seen`` is called after each file that is searched in the process.

    Raises:
        InvalidPredicate: SQL that Spark cannot evaluate.
    """
    if condition.is_decided_by_log(txn):
        whole = ((file, live_rows(txn, file)) for file in files)
        return [TouchedFile(file, rows, len(rows)) for file, rows in whole if rows]
    if engine == "arrow":
        assert condition.predicate is not None
        return find_touched(txn, files, condition.predicate, seen)
    from deltanb.spark.rows import find_rows

    assert condition.sql is not None
    touched = []
    for place, rows in sorted(find_rows(txn.snapshot, files.table, condition.sql).items()):
        file: AddFile = files[place]
        deleted = _deleted(txn, file)
        rows = rows if deleted is None else rows - deleted
        if rows:
            touched.append(TouchedFile(file, rows, live_count(txn, file)))
    return touched


def find_touched(
    txn: OptimisticTransaction, files: FileScan, condition: Predicate,
    seen: Callable[[], None] = lambda: None,
) -> list[TouchedFile]:
    """The files that hold rows for which the condition is TRUE, with these rows.

    Only the condition's columns are read, of the row groups that may hold such rows. ``seen`` is called
    after each file.
    """
    scan = plan(txn.snapshot, [], condition)

    def search(file: AddFile) -> TouchedFile:
        rows = BitMap64()
        for batch in read_data_file(scan, _row(file), positions=True):
            rows |= bitmap(batch.column(ROW_POSITION))
        return TouchedFile(file, rows, live_count(txn, file) if rows else 0)

    touched = []
    for found in parallel.each(search, files, name="find"):
        seen()
        if found.rows:
            touched.append(found)
    return touched


def live_rows(txn: OptimisticTransaction, file: AddFile) -> BitMap64:
    """The positions of all rows of a file that are not deleted."""
    rows = BitMap64()
    rows.add_range(0, physical_count(txn, file))
    deleted = _deleted(txn, file)
    return rows if deleted is None else rows - deleted


def live_count(txn: OptimisticTransaction, file: AddFile) -> int:
    """How many rows of a file are not deleted."""
    vector = file.deletion_vector
    return physical_count(txn, file) - (vector.cardinality if vector is not None else 0)


def physical_count(txn: OptimisticTransaction, file: AddFile) -> int:
    """How many rows a file has, deleted ones too: from its statistics, else from its footer."""
    if file.num_records is not None:
        return file.num_records
    with opened(txn.log.store, decode_path(file.path), txn.table) as parquet:
        return int(parquet.metadata.num_rows)


def known_live_count(file: AddFile) -> int | None:
    """As :func:`live_count`, from the log alone; None where it does not say."""
    if file.num_records is None:
        return None
    return file.num_records - (file.deletion_vector.cardinality if file.deletion_vector else 0)


def bitmap(positions: pa.Array) -> BitMap64:
    """A column of positions (integers of 64 bits, no NULL) as a bitmap.

    >>> list(bitmap(pa.array([3, 5])))
    [3, 5]
    """
    flat = array("Q")
    buffer = positions.buffers()[1]
    if buffer is not None and len(positions):
        flat.frombytes(buffer[8 * positions.offset:8 * (positions.offset + len(positions))])
    return BitMap64(flat)


def _deleted(txn: OptimisticTransaction, file: AddFile) -> BitMap64 | None:
    if file.deletion_vector is None:
        return None
    return deletion_vectors.load(txn.log.store, file.deletion_vector, data_file=file.path)


def _row(file: AddFile) -> Mapping[str, Any]:
    vector = file.deletion_vector
    return {"path": file.path, "partition_values": file.partition_values, "deletion_vector": vector}


# --- reading rows again ---------------------------------------------------------------------------

def schema_with_row_ids(txn: OptimisticTransaction) -> pa.Schema:
    """Of rows that are read to be written again: the snapshot's columns, then those of row tracking."""
    return plan(txn.snapshot, row_ids=True).schema


def rows_of(
    txn: OptimisticTransaction, touched: Iterable[TouchedFile], which: str,
    columns: Sequence[str] | None = None, *, row_ids: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows of the touched files, in the snapshot's logical schema.

    ``which``: ``"touched"`` for the rows that are meant, ``"others"`` for the live rows beside them.
    ``row_ids`` adds each row's id and commit version, where the table tracks rows.
    """
    scan = plan(txn.snapshot, columns, row_ids=row_ids)
    for found in touched:
        if which == "touched":
            wanted = found.rows
        elif found.others:
            wanted = live_rows(txn, found.file) - found.rows
        else:
            continue
        yield from read_data_file(scan, found.file, only=wanted)


def written_rows(txn: OptimisticTransaction, files: Iterable[AddFile]) -> Iterator[pa.RecordBatch]:
    """The rows of files that the transaction wrote, in its logical schema."""
    fields = txn.metadata.schema.fields
    scan = replace(plan(txn.snapshot), columns=fields, fields=fields)
    for file in files:
        yield from read_data_file(scan, file)


def marked_rows(
    txn: OptimisticTransaction, touched: Iterable[TouchedFile]
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """All live rows of the touched files in their order, each batch with a mask of those meant.

    They come with their ids and commit versions, where the table tracks rows.
    """
    scan = plan(txn.snapshot, row_ids=True)
    for found in touched:
        for batch in read_data_file(scan, found.file, positions=True):
            place = batch.num_columns - 1
            positions = batch.column(place)
            yield batch.select(range(place)), _mask(positions, found.rows)


def _mask(positions: pa.Array, rows: BitMap64) -> pa.Array:
    first, last = positions[0].as_py(), positions[-1].as_py()
    hits = rows.range_cardinality(first, last + 1)
    if hits in (0, len(positions)) and (not hits or last - first + 1 == len(positions)):
        return pa.repeat(pa.scalar(bool(hits)), len(positions))
    window = BitMap64()
    window.add_range(first, last + 1)
    values = pa.py_buffer((rows & window).to_array())
    known = pa.Array.from_buffers(pa.uint64(), hits, [None, values]).cast(pa.int64())
    return pc.is_in(positions, value_set=known)


def table_of(touched: Iterable[TouchedFile]) -> pa.Table:
    """The files of touched files, as a snapshot lists them: what readers of many files take."""
    return files_table([found.file for found in touched])


def table_of_rows(
    txn: OptimisticTransaction, touched: Iterable[TouchedFile], which: str
) -> pa.Table:
    """As :func:`table_of`, as if of each file only the rows of ``which`` (as in :func:`rows_of`) lived.

    So Spark reads rows that a condition has named without evaluating it again, which might name others
    (``current_timestamp()``, ``rand()``).
    """
    files = []
    for found in touched:
        gone = BitMap64()
        gone.add_range(0, physical_count(txn, found.file))
        gone -= found.rows if which == "touched" else live_rows(txn, found.file) - found.rows
        files.append(found.file.replace(deletion_vector=deletion_vectors.inline(gone) if gone else None))
    return files_table(files)


def write_rows(txn: OptimisticTransaction, data: Any) -> list[AddFile]:
    """Write rows (Arrow in the process, or a frame of ``deltanb.spark.rows``) as files of the table.

    Rows that come with their ids and commit versions keep these.
    """
    from deltanb.commands.rows.write import clustering_of

    is_frame = inputs.is_spark(data)
    names = data.columns if is_frame else data.schema.names
    hidden = [field for field in columns_of(txn.metadata, txn.protocol) if field.name in names]
    if not is_frame:
        return txn.write_files(data, clustering=clustering_of(txn), hidden=hidden)
    from deltanb.spark.refusals import refusals
    from deltanb.spark.rows import rules

    with rules(), refusals("compute the rows to be written", None, "; nothing was changed"):
        return txn.write_files(data, clustering=clustering_of(txn), hidden=hidden)


# --- deletion vectors -----------------------------------------------------------------------------

def mark_deleted(
    txn: OptimisticTransaction, touched: Sequence[TouchedFile], changes: FileChanges
) -> None:
    """Take the touched rows out of their files, and put what that needs into ``changes``.

    A file without other rows is removed. Every other one gets a vector of its deleted rows, old and
    new; all of them are written into one file, which goes when the transaction is discarded.
    """
    kept = [found for found in touched if not found.is_whole]
    changes.removed += [found.file.remove() for found in touched if found.is_whole]
    if not kept:
        return
    unions = []
    for found in kept:
        deleted = _deleted(txn, found.file)
        unions.append(found.rows if deleted is None else found.rows | deleted)
    vectors = deletion_vectors.write_file(
        txn.log.store, unions,
        begins=lambda name, size: txn.written.append(AddFile(encode_path(name), {}, size, 0)))
    for found, vector in zip(kept, vectors, strict=True):
        marked = found.file.with_deletion_vector(vector, physical_count(txn, found.file))
        changes.vectors.append((marked.replace(data_change=True), found.file.remove()))
