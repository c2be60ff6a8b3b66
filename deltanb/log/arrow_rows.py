"""Python rows to Arrow tables, by column, straight into Arrow's buffers.

What lives here: :func:`table_of`, which turns rows with attributes into a table of a given schema,
:func:`column` for the values of one column, and :func:`scalar` for one value.
What it does not know: what the rows mean.

Buffers are filled here rather than by ``pa.array``: that imports pandas at its first call, a third of
a second where it is installed, and it is slower for text.

>>> from types import SimpleNamespace as Row
>>> table_of([Row(a="é", b=1), Row(a=None, b=2)], pa.schema({"a": pa.string(), "b": pa.int64()}))
pyarrow.Table
a: string
b: int64
----
a: [["é",null]]
b: [[1,2]]
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import accumulate
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["column", "empty_table", "scalar", "table_of"]

MAX_TEXT = 2**31 - 1
"""Bytes of text in one chunk: Arrow's string offsets have 32 bits."""


def table_of(rows: Collection[Any], schema: pa.Schema) -> pa.Table:
    """One row for each object, one column for each attribute that the schema names.

    Types: string, bool, integers, map of string to string, struct of those. A missing value is None.
    Values of maps that are not text become JSON.
    """
    if not rows:
        return empty_table(schema)
    columns = [column(list(map(attrgetter(f.name), rows)), f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows; ``schema.empty_table()`` would import pandas."""
    return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of one of the types above, and lists of them; a struct's may be dicts."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    if pa.types.is_string(kind):
        return _strings(values)
    if pa.types.is_map(kind):
        return _maps(values)
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if pa.types.is_list(kind):
        return _lists(values, kind)
    if pa.types.is_boolean(kind):
        return _booleans(values)
    return _numbers(values, kind)


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """One value of such a type; ``pa.scalar`` would import pandas."""
    return column([value], kind)[0]


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """The validity bitmap, and the number of None values."""
    missing = values.count(None)
    if not missing:
        return None, 0
    present = np.fromiter((value is not None for value in values), bool, len(values))
    return _bits(present), missing


def _bits(flags: np.ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").tobytes())


def _strings(values: list[str | None]) -> pa.Array:
    validity, missing = _validity(values)
    texts: list[str] = [value or "" for value in values] if missing else values  # type: ignore[assignment]
    joined = "".join(texts)
    data = joined.encode()
    if len(data) > MAX_TEXT:
        return _in_halves(values)
    is_ascii = len(data) == len(joined)
    lengths = map(len, texts if is_ascii else map(str.encode, texts))
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int32, len(values) + 1)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(values), buffers, missing)


def _numbers(values: list[Any], kind: pa.DataType) -> pa.Array:
    validity, missing = _validity(values)
    numbers = [0 if value is None else value for value in values] if missing else values
    data = np.array(numbers, dtype=_numpy_type(kind))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)], missing)


def _numpy_type(kind: pa.DataType) -> str:
    """A number's type as NumPy spells it; ``kind.to_pandas_dtype()`` needs pandas in pyarrow 25."""
    is_unsigned = pa.types.is_unsigned_integer(kind)
    return f"{'f' if pa.types.is_floating(kind) else 'u' if is_unsigned else 'i'}{kind.bit_width // 8}"


def _booleans(values: list[bool | None]) -> pa.Array:
    validity, missing = _validity(values)
    data = _bits(np.fromiter(map(bool, values), bool, len(values)))
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity, data], missing)


def _maps(values: list[dict[str, Any] | None]) -> pa.Array:
    kind = pa.map_(pa.string(), pa.string())
    validity, missing = _validity(values)
    keys: list[str] = []
    items: list[Any] = []
    for value in values:
        if value:
            keys.extend(value)
            items.extend(value.values())
    if not all(item is None or isinstance(item, str) for item in items):
        items = [i if i is None or isinstance(i, str) else json.dumps(i) for i in items]
    offsets = np.fromiter(
        accumulate((len(value) if value else 0 for value in values), initial=0),
        np.int32, len(values) + 1,
    )
    entries = pa.StructArray.from_arrays(
        [_column_or_empty(keys), _column_or_empty(items)], fields=[kind.key_field, kind.item_field]
    )
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(values), buffers, missing, children=[entries])


def _column_or_empty(values: list[Any]) -> pa.Array:
    return column(values, pa.string()) if values else pa.nulls(0, pa.string())


def _lists(values: list[Any], kind: pa.ListType) -> pa.Array:
    validity, missing = _validity(values)
    items = [item for value in values if value for item in value]
    lengths = (len(value) if value else 0 for value in values)
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int32, len(values) + 1)
    child = column(items, kind.value_type) if items else pa.nulls(0, kind.value_type)
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(values), buffers, missing, children=[child])


def _structs(values: list[Any], kind: pa.StructType) -> pa.Array:
    validity, missing = _validity(values)
    is_dict = any(isinstance(value, dict) for value in values)
    children = []
    for child in kind:
        get = methodcaller("get", child.name) if is_dict else attrgetter(child.name)
        children.append(column([None if v is None else get(v) for v in values], child.type))
    return pa.Array.from_buffers(kind, len(values), [validity], missing, children=children)


def _in_halves(values: list[str | None]) -> pa.ChunkedArray:
    middle = len(values) // 2
    halves = [_strings(values[:middle]), _strings(values[middle:])]
    return pa.chunked_array(
        [c for half in halves for c in (half.chunks if isinstance(half, pa.ChunkedArray) else [half])]
    )
