"""Rows of a snapshot, in the process: Parquet through Arrow, no JVM.

What lives here: the two ways to read many files, as a stream of batches or as one table, and the
threads that decode several files at a time.
What it does not know: how one file is read (``data_file``), which files may match (``skipping``).

Batches come in the order of the files whatever thread decoded them, and a stream that nobody drains
holds a bounded number of batches: of each file that is open (one a thread) at most ``LANE_ITEMS`` wait.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from sys import maxsize
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import LANE_ITEMS
from deltanb.engines.arrow.data_file import (
    BATCH_ROWS,
    ROW_POSITION,
    Scan,
    Shared,
    plan,
    read_data_file,
)
from deltanb.store.base import is_remote, read_concurrency
from deltanb.store.object_files import BLOCK

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

__all__ = ["ROW_POSITION", "Scan", "head", "iter_batches", "plan", "read_data_file", "read_table", "stream"]

SMALL_SCAN_BYTES = 4 << 20  # below this, starting threads costs more than they save
SELECTIVE_PART = 2 << 20
"""Bytes of a bucket's file of which some are wanted, from which on another request looks for its own."""
_FILES_AT_A_TIME = 1024  # rows of the files table that are Python objects at once
NEEDED = ("path", "partition_values", "size", "deletion_vector")
_TRACKED = ("base_row_id", "default_row_commit_version")  # what row ids need of a file beside


def read_table(
    snapshot: Snapshot,
    files: pa.Table,
    columns: Sequence[str] | None = None,
    where: str | Predicate | None = None,
    *, row_ids: bool = False, limit: int | None = None,
) -> pa.Table:
    """The rows of ``files`` as one Arrow table with the snapshot's logical schema.

    ``files`` are rows of ``snapshot.files`` (what ``snapshot.files_for_scan`` returns, say);
    ``columns`` are top-level names in any case, in the order wanted (None: all); ``where`` is a
    predicate on any column, applied exactly. ``row_ids`` adds each row's id and commit version, where the
    table tracks rows. ``limit`` rows at most: no file is opened after them.

    Raises:
        DataFileNotFound, InvalidTable: a file that is gone or damaged; the message names it.
        UnsupportedProtocol: a feature, or a column that is asked for, is not supported.
        InvalidArgument, InvalidPredicate, UnsupportedPredicate: from ``columns`` and ``where``.

    >>> import pyarrow.parquet as pq
    >>> from deltanb.testing import TableBuilder, add
    >>> table = TableBuilder().create("id long, name string")
    >>> with table.store.open_output("part-0") as file:
    ...     pq.write_table(pa.table({"id": [1, 2, 3]}), file)
    >>> snapshot = table.commit(add("part-0")).log.update()
    >>> read_table(snapshot, snapshot.files, where="id > 1").to_pydict()
    {'id': [2, 3], 'name': [None, None]}
    """
    scan = plan(snapshot, columns, where, row_ids=row_ids)
    whole = maxsize if limit is None else LANE_ITEMS  # what is kept in any case need not wait
    return pa.Table.from_batches(list(stream(scan, files, limit, ahead=whole)), scan.schema)


def iter_batches(
    snapshot: Snapshot,
    files: pa.Table,
    columns: Sequence[str] | None = None,
    where: str | Predicate | None = None,
    *, row_ids: bool = False,
) -> Iterator[pa.RecordBatch]:
    """As :func:`read_table`, batch by batch, for tables larger than memory.

    Arguments are checked at the call; files are opened as the iterator advances. Batches have at
    most 65,536 rows; closing the iterator stops the work.
    """
    return stream(plan(snapshot, columns, where, row_ids=row_ids), files)


def head(
    snapshot: Snapshot, files: pa.Table, limit: int, columns: Sequence[str] | None = None
) -> pa.Table:
    """The first rows of ``files``, at most ``limit``; no more is decoded than these rows take.

    >>> import deltanb as dn
    >>> snapshot = dn.create("ducks", {"id": [1, 2, 3]}).snapshot
    >>> head(snapshot, snapshot.files, 2)["id"].to_pylist()
    [1, 2]
    """
    return read_table(snapshot, files, columns, limit=limit)


def stream(
    scan: Scan, files: pa.Table, limit: int | None = None, *, ahead: int = LANE_ITEMS
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a scan that is planned already, ``limit`` rows at most.

    ``ahead`` batches of each file that is open are decoded before they are asked for.
    """
    needed = (*NEEDED, *_TRACKED) if scan.tracked else NEEDED
    files = files.select([name for name in needed if name in files.schema.names])
    if limit is not None and scan.predicate is None:  # a few rows of the first files: nothing is read ahead
        rows = min(max(limit, 1), BATCH_ROWS)
        return _first(limit, (batch for row in _rows(files)
                              for batch in read_data_file(scan, row, batch_rows=rows)))
    batches = _all(scan, files, ahead)
    return batches if limit is None else _first(limit, batches)


def _all(scan: Scan, files: pa.Table, ahead: int) -> Generator[pa.RecordBatch, None, None]:
    readers = read_concurrency(scan.store) or parallel.threads(maxsize)
    size = pc.sum(files.column("size")).as_py() if "size" in files.schema.names else None
    is_small = size is not None and size <= SMALL_SCAN_BYTES and not is_remote(scan.store)
    if not files.num_rows or readers == 1 or is_small:
        return (batch for row in _rows(files) for batch in read_data_file(scan, row))
    most = -(-readers // files.num_rows)  # files that are fewer than threads are read by row groups
    return parallel.streamed(
        lambda one: read_data_file(scan, one[0], part=one[1], shared=one[2]), _parts(scan, files, most),
        min(readers, files.num_rows * most), "read", ahead)


def _parts(
    scan: Scan, files: pa.Table, most: int
) -> Iterator[tuple[Mapping[str, Any], tuple[int, int], Shared | None]]:
    """(file, part, what opens it for all of its parts): at most so many parts of each file.

    In a bucket a part is no smaller than what a request should bring.
    """
    is_far, least = is_remote(scan.store), BLOCK if scan.takes_all else SELECTIVE_PART
    for row in _rows(files):
        parts = min(most, max(1, (row.get("size") or maxsize) // least)) if is_far else most
        shared = Shared() if is_far and parts > 1 else None
        for part in range(parts):
            yield row, (part, parts), shared


def _first(
    limit: int, batches: Generator[pa.RecordBatch, None, None]
) -> Generator[pa.RecordBatch, None, None]:
    """The first rows of a stream, which is closed as soon as there are enough."""
    with closing(batches):
        while limit > 0 and (batch := next(batches, None)) is not None:
            yield batch.slice(0, limit)
            limit -= batch.num_rows


def _rows(files: pa.Table) -> Iterator[Mapping[str, Any]]:
    for batch in files.to_batches(_FILES_AT_A_TIME):
        yield from batch.to_pylist()
