"""Space-filling curves: one number per row, by which rows that are alike in several columns lie close.

What lives here: the rank of a value among ranges of equal weight, the two curves that make one number
of several ranks, and :func:`in_order`, which brings rows of any amount into the order of a curve.
What it does not know: tables, files, commits.

Z-order interleaves the bits of the ranks. The Hilbert curve visits neighbours only, so that a stretch
of it covers a smaller box; it costs a little more. (J. Skilling, "Programming the Hilbert curve", 2004.)

>>> interleave([pa.array([0, 1, 0, 1]), pa.array([0, 0, 1, 1])], bits=1).to_pylist()
[0, 2, 1, 3]
>>> hilbert([pa.array([0, 0, 1, 1]), pa.array([0, 1, 1, 0])], bits=1).to_pylist()
[0, 1, 2, 3]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.engines import contract as engine

MAX_BITS = 10
"""Bits of a column's rank: 1,024 ranges, more than files that a query could tell apart."""
KEY_BITS = 62  # ranks of all columns together; they fit into a signed integer of 64 bits
SAMPLE_ROWS = 100_000
"""Rows drawn to find the ranges: about 100 in each."""
MEMORY_BYTES = 512 * 1024 * 1024
"""Rows held in memory, as Arrow bytes; beyond it they wait in files of the system's temporary folder.
Also the most that is sorted at once."""

Paths = Sequence[tuple[str, ...]]


def interleave(ranks: Sequence[pa.Array], bits: int) -> pa.Array:
    """The Z-order number: bits of the ranks in turn, the highest first, as 64-bit integers."""
    key = pc.multiply(ranks[0].cast(pa.int64()), 0)
    for bit in range(bits - 1, -1, -1):
        for rank in ranks:
            key = pc.bit_wise_or(pc.shift_left(key, 1), pc.bit_wise_and(pc.shift_right(rank, bit), 1))
    return key


def hilbert(ranks: Sequence[pa.Array], bits: int) -> pa.Array:
    """The number of a cell on the Hilbert curve through ``2**bits`` cells in each dimension."""
    x = [rank.cast(pa.int64()) for rank in ranks]
    for bit in range(bits - 1, 0, -1):
        low = (1 << bit) - 1
        for i in range(len(x)):
            is_set = pc.equal(pc.bit_wise_and(pc.shift_right(x[i], bit), 1), 1)
            swapped = pc.bit_wise_and(pc.bit_wise_xor(x[0], x[i]), low)
            first = pc.bit_wise_xor(x[0], pc.if_else(is_set, low, swapped))
            if i:
                x[i] = pc.bit_wise_xor(x[i], pc.if_else(is_set, 0, swapped))
                x[0] = first
            else:  # exchanged with itself, the coordinate stays
                x[0] = pc.if_else(is_set, first, x[0])
    for i in range(1, len(x)):
        x[i] = pc.bit_wise_xor(x[i], x[i - 1])
    turn = pc.multiply(x[0], 0)
    for bit in range(bits - 1, 0, -1):
        is_set = pc.equal(pc.bit_wise_and(pc.shift_right(x[-1], bit), 1), 1)
        turn = pc.if_else(is_set, pc.bit_wise_xor(turn, (1 << bit) - 1), turn)
    return interleave([pc.bit_wise_xor(one, turn) for one in x], bits)


CURVES = {"zorder": interleave, "hilbert": hilbert}


def bounds_of(sample: pa.Array, ranges: int) -> pa.Array:
    """Values that cut a sample into ranges of equal weight, ascending; NULL and NaN count for nothing.

    >>> bounds_of(pa.array([4, None, 1, 3, 2]), 2).to_pylist()
    [3]
    """
    values = sample.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    values = values.take(pc.sort_indices(values))
    if not len(values):
        return values
    return values.take(pa.array([i * len(values) // ranges for i in range(1, ranges)], pa.int64()))


def ranks(values: pa.Array, bounds: pa.Array) -> pa.Array:
    """How many of the bounds are at most the value; 0 for NULL, all of them for NaN.

    >>> ranks(pa.array([2, None, 3, 9]), pa.array([3, 5])).to_pylist()
    [0, 0, 1, 2]
    """
    total = pa.repeat(pa.scalar(0, pa.int64()), len(values))
    count = len(bounds)
    step = 1 << count.bit_length()
    while step := step >> 1:  # a binary search, all rows at once
        place = pc.add(total, step)
        bound = bounds.take(pc.min_element_wise(pc.subtract(place, 1), count - 1))
        fits = pc.and_(pc.less_equal(place, count), pc.less_equal(bound, values))
        total = pc.if_else(pc.fill_null(fits, False), place, total)
    if pa.types.is_floating(values.type):
        total = pc.if_else(pc.fill_null(pc.is_nan(values), False), count, total)
    return total


def column_at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """A column by its path into structs, in a form that can be compared."""
    column = batch.column(path[0])
    if len(path) > 1:
        column = pc.struct_field(column, list(path[1:]))
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


@dataclass(frozen=True)
class Curve:
    """A curve through the values of some columns, fitted to a sample of their rows.

    ``paths`` are the columns, ``cells`` the bounds of each one's ranges, ``stretches`` those of the
    curve's numbers that cut the rows into parts of equal size, a file each.
    """

    name: str
    paths: Paths
    bits: int
    cells: tuple[pa.Array, ...]
    stretches: pa.Array

    @classmethod
    def fit(cls, name: str, paths: Paths, sample: pa.RecordBatch, parts: int) -> Curve:
        """A curve whose stretches hold about the same number of rows of the sample."""
        bits = max(1, min(MAX_BITS, KEY_BITS // len(paths)))
        columns = [column_at(sample, path) for path in paths]
        cells = tuple(bounds_of(column, 1 << bits) for column in columns)
        curve = cls(name, tuple(paths), bits, cells, pa.array([], pa.int64()))
        stretches = bounds_of(curve.keys(sample), parts)
        return cls(name, tuple(paths), bits, cells, pc.unique(stretches))

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The curve's number of each row."""
        ranked = [ranks(column_at(batch, path), bounds)
                 for path, bounds in zip(self.paths, self.cells, strict=True)]
        return ranked[0] if len(ranked) == 1 else CURVES[self.name](ranked, self.bits)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Rows in the order of the curve; of a single column, in the order of its values."""
        batch = rows.combine_chunks().to_batches()[0]
        keys = column_at(batch, self.paths[0]) if len(self.paths) == 1 else self.keys(batch)
        return rows.take(pc.sort_indices(keys))


def sample_of(batches: Iterable[pa.RecordBatch], num_rows: int) -> pa.RecordBatch | None:
    """About ``SAMPLE_ROWS`` rows, evenly drawn; None where there is no row."""
    step, skip, drawn = max(1, num_rows // SAMPLE_ROWS), 0, []
    for batch in batches:
        places = pa.array(range(skip, batch.num_rows, step), pa.int64())
        skip = (skip - batch.num_rows) % step
        if len(places):
            drawn.append(batch.take(places))
    if not drawn:
        return None
    return pa.Table.from_batches(drawn).combine_chunks().to_batches()[0]


def in_order(
    batches: Iterable[pa.RecordBatch], curve: engine.Curve, memory: int = MEMORY_BYTES
) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows in the order of the curve, stretch by stretch: each is one iterator of batches.

    All rows are taken in before the first comes out. Those beyond ``memory`` (Arrow bytes) wait on disk;
    a stretch larger than that is sorted in pieces. A stretch must be used up before the next.
    """
    with tempfile.TemporaryDirectory(prefix="deltanb-order-") as folder:
        parts = _Parts(len(curve.stretches) + 1, folder)
        for batch in batches:
            parts.add(batch, ranks(curve.keys(batch), curve.stretches))
            if parts.bytes > memory:
                parts.spill()
        for number in range(parts.count):
            pieces = _pieces(parts.take(number), memory)
            first = next(pieces, None)
            if first is not None:
                yield _sorted(curve, first, pieces)


def _sorted(
    curve: engine.Curve, first: pa.Table, rest: Iterator[pa.Table]
) -> Iterator[pa.RecordBatch]:
    yield from curve.sorted(first).to_batches()
    for piece in rest:
        yield from curve.sorted(piece).to_batches()


def _pieces(batches: Iterable[pa.RecordBatch], memory: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > memory:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


class _Parts:
    """Rows by the stretch of the curve they belong to, in memory and on disk."""

    def __init__(self, count: int, folder: str) -> None:
        self.count, self.folder = count, folder
        self.held: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        self.bytes = self.spills = 0

    def add(self, batch: pa.RecordBatch, numbers: pa.Array) -> None:
        if self.count == 1:
            self._hold(0, batch)
            return
        order = pc.sort_indices(numbers)
        runs = pc.run_end_encode(numbers.take(order), run_end_type=pa.int64())
        start = 0
        for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            self._hold(number, batch.take(order.slice(start, end - start)))
            start = end

    def _hold(self, number: int, batch: pa.RecordBatch) -> None:
        self.held[number].append(batch)
        self.bytes += batch.nbytes

    def spill(self) -> None:
        """Everything held goes to disk, one file per stretch."""
        for number, batches in enumerate(self.held):
            if batches:
                path = self._path(number, self.spills)
                with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(
                        sink, batches[0].schema) as writer:
                    for batch in batches:
                        writer.write_batch(batch)
        self.held = [[] for _ in range(self.count)]
        self.bytes = 0
        self.spills += 1

    def take(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch, once."""
        for spill in range(self.spills):
            path = self._path(number, spill)
            if os.path.exists(path):
                with pa.OSFile(path, "rb") as source, pa.ipc.open_stream(source) as reader:
                    yield from reader
                os.unlink(path)
        held, self.held[number] = self.held[number], []
        yield from held

    def _path(self, number: int, spill: int) -> str:
        return f"{self.folder}/{number}-{spill}.arrow"
