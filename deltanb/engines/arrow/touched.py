"""Rows of data files by their positions: counted, and read again.

What lives here: how many rows of a file live, and which; :func:`rows_of` and :func:`marked_rows`, the rows
that a command means or those beside them; :func:`table_of_rows`, by which Spark reads the same rows.
What it does not know: which rows are meant (``find`` of the engines), what becomes of them (the commands).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.actions import AddFile, decode_path
from deltanb.concurrency import parallel
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow.data_file import Known, Scan, opened, plan, read_data_file
from deltanb.engines.arrow.vector_files import vectors_of
from deltanb.log.replay import files_table
from deltanb.store.base import LogStore, is_remote

if TYPE_CHECKING:
    from deltanb.engines.contract import TouchedFile
    from deltanb.parquet.file import SafeFile
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.transaction import OptimisticTransaction

_Batch = TypeVar("_Batch")


class _OfFile(Protocol):
    @property
    def file(self) -> AddFile:
        """Whose rows these are."""


_File = TypeVar("_File", bound=_OfFile)

AHEAD_BYTES, AHEAD_ROWS = 4 << 20, 1 << 16
"""Compressed bytes and rows up to which files are read by the thread that wants their rows."""


def live_rows(txn: OptimisticTransaction, file: AddFile) -> BitMap64:
    """The positions of all rows of a file that are not deleted."""
    rows = BitMap64()
    rows.add_range(0, physical_count(txn, file))
    deleted = deleted_rows(txn, file)
    return rows if deleted is None else rows - deleted


def live_count(txn: OptimisticTransaction, file: AddFile) -> int:
    """How many rows of a file are not deleted."""
    vector = file.deletion_vector
    return physical_count(txn, file) - (vector.cardinality if vector is not None else 0)


def physical_count(txn: OptimisticTransaction, file: AddFile) -> int:
    """How many rows a file has, deleted ones too: from its statistics, else from its footer."""
    if file.num_records is not None:
        return file.num_records
    known = Known(file.size, len(txn.snapshot.schema.fields))
    with opened(txn.log.store, decode_path(file.path), txn.table, known=known) as parquet:
        return int(parquet.metadata.num_rows)


def known_live_count(file: AddFile) -> int | None:
    """As :func:`live_count`, from the log alone; None where it does not say."""
    if file.num_records is None:
        return None
    return file.num_records - (file.deletion_vector.cardinality if file.deletion_vector else 0)


def bitmap(positions: pa.Array) -> BitMap64:
    """A column of positions (distinct integers of 64 bits, no NULL) as a bitmap.

    >>> list(bitmap(pa.array([3, 5])))
    [3, 5]
    """
    if len(positions):
        bounds = pc.min_max(positions).as_py()
        if bounds["max"] - bounds["min"] == len(positions) - 1:  # one run, added at once and not row by row
            return BitMap64(range(bounds["min"], bounds["max"] + 1))
    flat = array("Q")
    buffer = positions.buffers()[1]
    if buffer is not None and len(positions):
        flat.frombytes(buffer[8 * positions.offset:8 * (positions.offset + len(positions))])
    return BitMap64(flat)


def deleted_rows(txn: OptimisticTransaction, file: AddFile) -> BitMap64 | None:
    """The positions of the rows of a file that a deletion vector hides; None without one."""
    if file.deletion_vector is None:
        return None
    return vectors_of(txn).load(txn.log.store, file.deletion_vector, data_file=file.path)


def plan_in(
    txn: OptimisticTransaction, columns: Sequence[str] | None = None, where: str | Predicate | None = None,
    *, row_ids: bool = False,
) -> Scan:
    """As :func:`~deltanb.engines.arrow.data_file.plan` of its snapshot; deletion vectors are read once for
    all that the transaction does."""
    return plan(txn.snapshot, columns, where, row_ids=row_ids, vectors=vectors_of(txn))


# --- reading rows again ---------------------------------------------------------------------------

def schema_with_row_ids(txn: OptimisticTransaction) -> pa.Schema:
    """Of rows that are read to be written again: the snapshot's columns, then those of row tracking."""
    return plan_in(txn, row_ids=True).schema


def rows_of(
    txn: OptimisticTransaction, touched: Iterable[TouchedFile], which: str,
    columns: Sequence[str] | None = None, *, row_ids: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows of the touched files, in the snapshot's logical schema.

    ``which``: ``"touched"`` for the rows that are meant, ``"others"`` for the live rows beside them.
    ``row_ids`` adds each row's id and commit version, where the table tracks rows.
    """
    scan = plan_in(txn, columns, row_ids=row_ids)

    def read(file: TouchedFile) -> Generator[pa.RecordBatch, None, None]:
        positions = file.rows if which == "touched" else live_rows(txn, file.file) - file.rows
        return read_data_file(scan, file.file, only=positions)

    return ahead(
        read, [file for file in touched if which == "touched" or file.others], txn.log.store)


def ahead(
    read: Callable[[_File], Generator[_Batch, None, None]], touched: Iterable[_File], store: LogStore
) -> Iterator[_Batch]:
    """What is read of each file, in their order; where it is much, by other threads than the writer's."""
    files = list(touched)
    if is_remote(store):
        return parallel.streamed(read, files, parallel.MAX_WAITING, "read")
    readers = parallel.threads(max(len(files), 2))
    rows = sum(file.file.num_records or 0 for file in files)
    size = sum(file.file.size for file in files)
    if readers > 1 and (size > AHEAD_BYTES or rows > AHEAD_ROWS):
        return parallel.streamed(read, files, min(readers, len(files)), "read")
    return (batch for file in files for batch in read(file))


def written_rows(
    txn: OptimisticTransaction, files: Iterable[AddFile], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of files that the transaction wrote, in its logical schema; all columns, or some."""
    schema = txn.metadata.schema
    fields = schema.fields if columns is None else tuple(schema.field(name) for name in columns)
    scan = replace(plan_in(txn), columns=fields, fields=fields)
    if is_remote(txn.log.store):
        yield from parallel.streamed(
            lambda file: read_data_file(scan, file), files, parallel.MAX_WAITING, "read")
        return
    for file in files:
        yield from read_data_file(scan, file)


def marked_rows(
    scan: Scan, file: TouchedFile, only: BitMap64 | None = None, parquet: SafeFile | None = None
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """The live rows of a touched file in their order, each batch with a mask of those that are meant.

    Arguments are those of :func:`~deltanb.engines.arrow.data_file.read_data_file`.
    """
    for batch in read_data_file(scan, file.file, positions=True, only=only, parquet=parquet):
        place = batch.num_columns - 1
        yield batch.select(range(place)), mask_of(batch.column(place), file.rows)


def mask_of(positions: pa.Array, rows: BitMap64) -> pa.Array:
    """Of ascending positions, at least one, those that are among the rows: an array of booleans."""
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
    return files_table([file.file for file in touched])


def table_of_rows(
    txn: OptimisticTransaction, touched: Iterable[TouchedFile], which: str
) -> pa.Table:
    """As :func:`table_of`, as if of each file only the rows of ``which`` (as in :func:`rows_of`) lived.

    So Spark reads rows that a condition has named without evaluating it again, which might name others
    (``current_timestamp()``, ``rand()``).
    """
    files = []
    for file in touched:
        gone = BitMap64()
        gone.add_range(0, physical_count(txn, file.file))
        gone -= file.rows if which == "touched" else live_rows(txn, file.file) - file.rows
        files.append(file.file.replace(deletion_vector=deletion_vectors.inline(gone) if gone else None))
    return files_table(files)
