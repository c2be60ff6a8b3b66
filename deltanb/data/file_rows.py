"""The wanted rows of one data file, found with as little decoding as they take.

What lives here: deleted rows left out, the condition asked of its own columns, the other columns decoded only
where it holds; where in the file each row is.
What it does not know: which row groups may have wanted rows, how columns are found and converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.memory import pool
from deltanb.sql.coercion import arrow_scalar

if TYPE_CHECKING:
    from deltanb.log.checkpoint.parquet_file import SafeFile
    from deltanb.sql.predicates import Predicate

_Found = tuple[int, pa.Array | None, pa.RecordBatch]
"""Rows of a batch that are wanted: where the batch begins in the file, where they are in it (None: it is all
of them), and they themselves."""


class Columns(Protocol):
    """Columns of the file, as the table has them."""

    schema: pa.Schema

    @property
    def stored_names(self) -> list[str]:
        """What has to be read for them."""

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What was read as the table has it."""


class FileRows:
    """The wanted rows of a file.

    Args:
        columns: those that are decoded first, all that the condition looks at among them; and those that
            follow for row groups in which a row fulfils it, up to the last such row (None: there are none).
        naming: names the file in errors of its content.
        deleted, only: positions of rows that are left out, and of those that are wanted (None: all).
        condition: on the rows, of which those are wanted that fulfil it.
    """

    def __init__(
        self, parquet: SafeFile, columns: tuple[Columns, Columns | None],
        naming: Callable[[], AbstractContextManager[None]], deleted: BitMap64 | None,
        only: BitMap64 | None, condition: Predicate | None, batch_rows: int,
    ) -> None:
        self.first, self.rest = columns
        self._parquet, self._naming, self._batch_rows = parquet, naming, batch_rows
        self._deleted, self._only, self._condition = deleted, only, condition

    def of(self, groups: Sequence[tuple[int, int]]) -> Iterator[_Found]:
        """Those of (row group, position of its first row)."""
        for group, start in groups:
            late = None if self.rest is None else _Late(self.rest, self._decoded(group, self.rest), start)
            for batch in self._decoded(group, self.first):
                places = _kept(self._deleted, self._only, start, batch.num_rows)
                with self._naming():
                    rows = self.first.convert(_taken(batch, places))
                if self._condition is not None:
                    places, rows = _filtered(rows, places, self._condition)
                if late is not None and rows.num_rows:
                    with self._naming():
                        stored = late.rows(start, batch.num_rows)
                    yield from self._completed(start, places, rows, stored, late.columns)
                elif rows.num_rows:
                    yield start, places, rows
                start += batch.num_rows

    def _completed(
        self, start: int, places: pa.Array | None, rows: pa.RecordBatch, stored: pa.Table, rest: Columns
    ) -> Iterator[_Found]:
        """The rows with the columns that came late, in pieces where these came in pieces."""
        at = 0
        for batch in _taken(stored, places).to_batches():
            with self._naming():
                late = rest.convert(batch)
            known = rows.slice(at, batch.num_rows)
            whole = pa.RecordBatch.from_arrays(
                [*known.columns, *late.columns], schema=pa.schema([*known.schema, *late.schema]))
            if places is None:
                yield start + at, None, whole
            else:
                yield start, places.slice(at, batch.num_rows), whole
            at += batch.num_rows

    def _decoded(self, group: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        with self._naming():
            batches = self._parquet.iter_batches(
                self._batch_rows, row_groups=[group], columns=columns.stored_names)
        while True:
            with self._naming():
                batch = next(batches, None)
            if batch is None:
                break
            yield batch


class _Late:
    """Columns of a row group that nobody decodes before they are asked for."""

    def __init__(self, columns: Columns, batches: Iterator[pa.RecordBatch], start: int) -> None:
        self.columns, self._batches = columns, batches
        self._begin = self._end = start
        self._batch: pa.RecordBatch

    def rows(self, start: int, count: int) -> pa.Table:
        """So many rows from a position of the file on; it never goes back.

        Raises:
            ValueError: there are fewer.
        """
        stop, pieces = start + count, []
        while start < stop:
            while self._end <= start:
                batch = next(self._batches, None)
                if batch is None:
                    raise ValueError(f"columns end at row {self._end}, others after row {start}")
                self._batch, self._begin, self._end = batch, self._end, self._end + batch.num_rows
            pieces.append(self._batch.slice(start - self._begin, stop - start))
            start += pieces[-1].num_rows
        return pa.Table.from_batches(pieces)


def _taken(rows: Any, places: pa.Array | None) -> Any:
    return rows if places is None else pc.take(rows, places, memory_pool=pool())


def _filtered(
    rows: pa.RecordBatch, places: pa.Array | None, condition: Predicate
) -> tuple[pa.Array | None, pa.RecordBatch]:
    """Where in their batch the rows are that fulfil the condition, and these rows."""
    holds = condition.verdicts(rows)
    if holds.true_count == rows.num_rows:
        return places, rows
    places = pc.indices_nonzero(holds) if places is None else pc.filter(places, holds)
    return places, pc.filter(rows, holds, memory_pool=pool())


def _kept(
    deleted: BitMap64 | None, only: BitMap64 | None, start: int, count: int
) -> pa.Array | None:
    """Positions within the batch that are wanted and not deleted; None: all of them."""
    stop = start + count
    if only is not None and only.range_cardinality(start, stop) == count:
        only = None
    if deleted is not None and not deleted.range_cardinality(start, stop):
        deleted = None
    if deleted is None and only is None:
        return None
    kept = BitMap64()
    kept.add_range(start, stop)
    if only is not None:
        kept &= only
    if deleted is not None:
        kept -= deleted
    return _numbers(kept.shift(-start) if start else kept)


def positions_of(start: int, count: int, places: pa.Array | None) -> pa.Array:
    """The positions in the file of so many rows of a batch that are at ``places`` (None: all of it)."""
    if places is not None:
        return pc.add(places.view(pa.int64()), arrow_scalar(start, pa.int64()))  # an int would load pandas
    every = BitMap64()
    every.add_range(start, start + count)
    return _numbers(every).view(pa.int64())


def _numbers(rows: BitMap64) -> pa.Array:
    """Without a Python object each: a deletion vector may hold millions."""
    return pa.Array.from_buffers(pa.uint64(), len(rows), [None, pa.py_buffer(rows.to_array())])
