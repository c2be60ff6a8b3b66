"""Arrow's arrays and numpy's: one made of the other without pandas, and rows by their positions.

What lives here: :func:`numbers` and :func:`array_of`, which convert between the two; rows at positions, in
chunks, and positions as a mask. pyarrow's own ``to_numpy`` and ``pa.array`` load pandas at their first call:
a process's first DELETE would take 218 ms of the processor instead of 52.
What it does not know: what the values are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def numbers(array: pa.Array | pa.ChunkedArray) -> Any:
    """Numbers or booleans without NULLs as a numpy array; without a copy if possible.

    >>> numbers(pa.array([1, 2, 3])[1:]).tolist(), numbers(pa.array([True, False])).tolist()
    ([2, 3], [True, False])
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    if t.is_boolean(array.type):
        return numbers(array.cast(pa.uint8())).view(np.bool_)
    kind = np.dtype(_FLOATS.get(str(array.type), str(array.type)))
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.zeros(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def array_of(values: Any) -> pa.Array:
    """A one-dimensional numpy array of numbers or booleans as an Arrow array.

    >>> import numpy as np
    >>> array_of(np.array([1, 2])).to_pylist(), array_of(np.array([True, False])).to_pylist()
    ([1, 2], [True, False])
    """
    values = np.ascontiguousarray(values)
    if values.dtype == np.bool_:
        return array_of(values.view(np.uint8)).cast(pa.bool_())
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def within(rows: pa.Array, start: int, stop: int) -> pa.Array:
    """The ascending positions from ``start`` up to ``stop``, relative to ``start``."""
    if not len(rows):
        return rows
    values = numbers(rows)
    first, last = values.searchsorted((start, stop))
    return array_of(values[first:last] - start)


def taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Chunk by chunk: taking from all at once would first make one array of them."""
    if column.num_chunks == 1:
        return pa.chunked_array([column.chunk(0).take(rows)])
    chunks, start = [], 0
    for chunk in column.chunks:
        chunks.append(chunk.take(within(rows, start, start + len(chunk))))
        start += len(chunk)
    return pa.chunked_array(chunks, column.type)


def picked(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """As :func:`taken`; nothing is copied where the positions follow each other."""
    if not len(rows):
        return column.slice(0, 0)
    first, last = rows[0].as_py(), rows[-1].as_py()
    return column.slice(first, len(rows)) if last - first + 1 == len(rows) else taken(column, rows)


def regrouped(tables: Iterable[pa.Table], at_once: int) -> Iterator[pa.Table]:
    """The same rows in batches of a fixed size, the last one smaller; only one batch is held at a time.

    >>> [table.num_rows for table in regrouped([pa.table({"n": [1, 2]})] * 4, 3)]
    [3, 3, 2]
    """
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        while count + table.num_rows >= at_once:
            held.append(table.slice(0, at_once - count))
            table = table.slice(at_once - count)
            whole, held, count = pa.concat_tables(held), [], 0
            yield whole
            del whole
        if table.num_rows:
            held.append(table)
            count += table.num_rows
    if held:
        yield pa.concat_tables(held)


def mask_of(rows: Any, length: int) -> pa.ChunkedArray:
    """TRUE at numpy's positions, FALSE everywhere else.

    >>> mask_of(np.array([0, 2]), 3).to_pylist()
    [True, False, True]
    """
    bits: Any = np.zeros(-(-length // 8), np.uint8)
    np.bitwise_or.at(bits, rows >> 3, (1 << (rows & 7)).astype(np.uint8))
    return pa.chunked_array([pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)])])
