"""The engine in the process: rows found and written with Arrow.

What lives here: :data:`PROCESS`, which keeps the contract of :class:`deltanb.engines.contract.Engine`.
What it does not know: Spark, which keeps the same one; commits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64

from deltanb.actions import AddFile
from deltanb.concurrency import parallel
from deltanb.engines.arrow import inputs, zorder
from deltanb.engines.arrow.assignments import Assigner
from deltanb.engines.arrow.data_file import ROW_POSITION, read_data_file
from deltanb.engines.arrow.patched import NOTHING, Changing, Patcher
from deltanb.engines.arrow.read import stream
from deltanb.engines.arrow.rewriter import Rewriter
from deltanb.engines.arrow.row_ids import columns_of, renewed, tracked_in
from deltanb.engines.arrow.touched import (
    ahead,
    bitmap,
    live_count,
    live_rows,
    marked_rows,
    mask_of,
    plan_in,
    schema_with_row_ids,
)
from deltanb.engines.contract import TouchedFile
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.engines.contract import Assignments, Curve
    from deltanb.parquet.file import SafeFile
    from deltanb.sql.predicates import Condition
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

ORDERED_SLACK = 2
"""A stretch of a curve has the target's size by a sample. A file may be so many times as large before
it is cut, so that a stretch is one file."""


class ProcessEngine:
    """Arrow; see :class:`deltanb.engines.contract.Engine`."""

    name = "arrow"

    def find(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, seen: Callable[[], None],
    ) -> list[TouchedFile]:
        """Only the condition's columns are read, of the row groups that may hold such rows."""
        assert condition.predicate is not None
        scan = plan_in(txn, [], condition.predicate)

        def search(file: AddFile) -> TouchedFile:
            rows = BitMap64()
            for batch in read_data_file(scan, file, positions=True):
                rows |= bitmap(batch.column(ROW_POSITION))
            live = live_count(txn, file) if rows else 0
            return TouchedFile(file, rows, live)

        touched = []
        for touched_file in parallel.each(search, files, read_concurrency(txn.log.store), name="find"):
            seen()
            if touched_file.rows:
                touched.append(touched_file)
        return touched

    def first(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, label: str
    ) -> dict[str, Any] | None:
        """The first of them, in the order of the files."""
        for batch in stream(plan_in(txn, None, condition.predicate), files.table):
            if batch.num_rows:
                row: dict[str, Any] = batch.slice(0, 1).to_pylist()[0]
                return row
        return None

    def survivors(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition
    ) -> list[AddFile]:
        """They are read by their positions: the condition is not evaluated again. Row groups that hold no
        touched row are copied."""
        scan = plan_in(txn, row_ids=True)
        rewritten = [one for one in touched if one.others]
        patcher = Patcher(txn, [one.file for one in rewritten])

        def read(one: TouchedFile) -> Generator[Any, None, None]:
            def others() -> BitMap64:
                return live_rows(txn, one.file) - one.rows

            def decode(parquet: SafeFile | None, only: BitMap64 | None) -> Iterator[pa.RecordBatch]:
                return read_data_file(
                    scan, one.file, only=others() if only is None else only, parquet=parquet)

            return patcher.pieces(one.file, others, NOTHING, decode)

        return self._write_again(txn, patcher, rewritten, read)

    def changed(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition,
        assignments: Assignments, *, others: bool,
    ) -> list[AddFile]:
        """In the order of the rows in their files."""
        assigner = Assigner(txn.snapshot.schema, assignments)
        scan, tracked = plan_in(txn, row_ids=True), columns_of(txn.metadata, txn.protocol)
        patcher = Patcher(
            txn, [one.file for one in touched], Changing(assigner.changed, assigner.inputs))

        def read(one: TouchedFile) -> Generator[Any, None, None]:
            def rows_to_move() -> BitMap64:
                return live_rows(txn, one.file) if others else one.rows

            def decode(parquet: SafeFile | None, only: BitMap64 | None) -> Iterator[pa.RecordBatch]:
                only = one.rows if only is None and not others else only
                for batch, mask in marked_rows(scan, one, only, parquet):
                    yield renewed(assigner.apply_where(batch, mask), tracked, mask)

            def renew(rows: pa.RecordBatch, positions: pa.Array) -> pa.RecordBatch:
                return assigner.apply_where(rows, mask_of(positions, one.rows))

            return patcher.pieces(one.file, rows_to_move, one.rows, decode, renew)

        return self._write_again(txn, patcher, touched, read)

    def moved(
        self, txn: OptimisticTransaction, files: pa.Table, curve: Curve | None, target_size: int,
        clustering: Iterable[Sequence[str]],
    ) -> list[AddFile]:
        """What can be copied is not decoded. Else one batch is in memory at a time; along a curve all rows,
        or they wait on disk."""
        rewriter = Rewriter(txn, clustering)
        if curve is None:
            return rewriter.copied(files) or rewriter.write(rewriter.batches(files))
        stretches = zorder.in_order(rewriter.batches(files), curve)
        return [file for rows in stretches for file in rewriter.write(rows, target_size * ORDERED_SLACK)]

    def write(self, txn: OptimisticTransaction, rows: Any) -> list[AddFile]:
        """Rows as ``data.inputs.Source``."""
        return txn.write_files(rows, hidden=tracked_in(rows.schema.names, txn.metadata, txn.protocol))

    def _write_again(
        self, txn: OptimisticTransaction, patcher: Patcher, touched: Sequence[TouchedFile],
        read: Callable[[TouchedFile], Generator[Any, None, None]],
    ) -> list[AddFile]:
        return self.write(txn, inputs.Source(
            schema_with_row_ids(txn), lambda: ahead(read, touched, txn.log.store),
            mixes=patcher.copies, plain=patcher.plain))


PROCESS = ProcessEngine()
