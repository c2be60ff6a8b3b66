"""What Arrow's Parquet writer is told of each column of a data file.

What lives here: :func:`with_dictionary`, which tells by a sample of the first rows what gets a
dictionary, and :func:`with_bounds`, of what the footer has minima and maxima.
What it does not know: files, the statistics in the log, the settings of a table.

A dictionary spares bytes where values come again. Where nearly all are different it is as large as the column
itself, and Arrow's writer gives it up when it has grown too large: its hashing, nearly half of the time it
takes to write such a column, and the pages written until then are lost.
With dictionaries for all columns an append of 4 M rows takes 1.5 times the processor's time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as t

MIN_ROWS = 4096
"""Of fewer rows all columns get one, which then costs next to nothing."""
BLOCKS, BLOCK_ROWS = 16, 1024
"""The sample: so many stretches of so many rows. Values may come again in the next row, or far away."""
LEAST_SHARE = 4
"""Of fewer rows it is one in so many: all of them would take as long as they take to be encoded."""
_GOLDEN = (math.sqrt(5) - 1) / 2
MAX_BYTES = 1 << 20
"""Bytes of a dictionary at which Arrow's writer gives it up."""
MAX_RATIO = 2 / 3
"""Different values for each row, beyond which values of 8 bytes are no longer than dictionary and indices."""


def with_dictionary(table: pa.Table, plain: Collection[str] | None = None) -> bool | list[str]:
    """Parquet's paths of the columns that get a dictionary, or True for all: pyarrow's ``use_dictionary``.

    ``plain`` are columns that get none, where it is known; else a sample tells.

    >>> ids = pa.array(range(5000))
    >>> with_dictionary(pa.table({"id": ids, "day": pa.array([n // 100 for n in range(5000)])}))
    ['day']
    """
    if table.num_rows < MIN_ROWS:
        return True
    without = {name for name, column in zip(table.schema.names, table.columns, strict=True)
               if _is_sampled(column.type) and (_mostly_differ(column) if plain is None else name in plain)}
    if not without:
        return True
    return [path for field in table.schema if field.name not in without
            for path, _ in _leaves(field.type, field.name)]


def is_single(table: pa.Table) -> bool:
    """Whether there is only one row, without lists: no value comes again, and dictionaries are in vain.

    >>> is_single(pa.table({"id": [1]})), is_single(pa.table({"id": [[1, 1]]}))
    (True, False)
    """
    return table.num_rows == 1 and not any(column.type.num_fields for column in table.columns)


def with_bounds(schema: pa.Schema) -> bool | list[str]:
    """The columns whose bounds go into the footer, all but floats: pyarrow's ``write_statistics``.

    Arrow leaves NaN out of them, and Spark, which orders NaN above all numbers, would skip row groups
    that hold some.
    """
    if not any(_holds_float(field.type) for field in schema):
        return True
    return [path for field in schema for path, kind in _leaves(field.type, field.name)
            if not t.is_floating(kind)]


def _holds_float(kind: pa.DataType) -> bool:
    if t.is_floating(kind):
        return True
    return any(_holds_float(kind.field(i).type) for i in range(kind.num_fields))


def _leaves(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    """Parquet's paths of the leaves of a column, and their types."""
    if t.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, f"{path}.{field.name}")
    elif t.is_map(kind):
        yield from _leaves(kind.key_type, f"{path}.key_value.key")
        yield from _leaves(kind.item_type, f"{path}.key_value.value")
    elif t.is_list(kind):
        yield from _leaves(kind.value_type, f"{path}.list.element")
    else:
        yield path, kind


# --- dictionaries ---------------------------------------------------------------------------------

def _is_sampled(kind: pa.DataType) -> bool:
    """Booleans never have a dictionary, and what is nested keeps it."""
    return bool((t.is_primitive(kind) and not t.is_boolean(kind)) or t.is_decimal(kind)
                or t.is_string(kind) or t.is_binary(kind))


def _mostly_differ(column: pa.ChunkedArray) -> bool:
    """Whether a sample has more different values than that of a column with a dictionary worth its while.

    Of ``most`` different values, each as frequent as the others, n rows have most * (1 - exp(-n / most)).
    """
    rows = len(column)
    length = min(BLOCK_ROWS, rows // LEAST_SHARE // BLOCKS)
    stretches = [column.slice(start, length) for start in _starts(rows, length)]
    sample: Any = pa.chunked_array([chunk for one in stretches for chunk in one.chunks], column.type)
    known = len(sample) - sample.null_count
    if not known:
        return False
    width = sample.nbytes / len(sample)
    most = min(MAX_RATIO * (rows * known / len(sample)), MAX_BYTES / width)
    expected = -most * math.expm1(-known / most)
    return len(sample.unique()) - bool(sample.null_count) > expected


def _starts(rows: int, length: int) -> Iterator[int]:
    """Where stretches begin: without a pattern, which might be that of the values."""
    for number in range(BLOCKS):
        yield int(number * number * _GOLDEN % 1 * (rows - length))
