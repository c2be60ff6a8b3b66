"""Arrays, maps and structs, row by row: what Arrow has no function of Spark's meaning for.

What lives here: functions for ``kernels.call``. Lists and maps are read through their offsets, so that
arrays that are slices of others give their own rows.
What it does not know: SQL, and what is an error in it: an element that is not there is NULL here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t


def size(nested: pa.Array) -> pa.Array:
    """How many elements or entries there are; NULL of NULL."""
    return pa.array(_lengths(nested), pa.int32(), mask=_nulls(nested))


def item(array: pa.Array, index: pa.Array) -> pa.Array:
    """The element at an index that counts from 0; NULL where there is none."""
    return _taken(array, index, _numbers(index))


def element(array: pa.Array, index: pa.Array) -> pa.Array:
    """The element at an index that counts from 1, or from the end where it is negative."""
    numbers = _numbers(index)
    places = np.where(numbers > 0, numbers - 1, np.where(numbers < 0, _lengths(array) + numbers, -1))
    return _taken(array, index, places)


def entry(mapping: pa.Array, key: pa.Array) -> pa.Array:
    """The value of a key; NULL where the map lacks it."""
    hits = np.flatnonzero(_hits(mapping.keys, mapping, key))
    places: Any = np.zeros(len(mapping), np.int64)
    has_key: Any = np.zeros(len(mapping), bool)
    rows = np.searchsorted(_offsets(mapping), hits, side="right") - 1
    places[rows], has_key[rows] = hits, True
    return mapping.items.take(pa.array(places, mask=~has_key | _nulls(mapping) | _nulls(key)))


def contains(array: pa.Array, value: pa.Array) -> pa.Array:
    """Whether an element equals the value; NULL where none does and one is NULL."""
    hit = _any(_hits(array.values, array, value), array)
    unknown = _any(_all_nulls(array.values), array)
    return pa.array(hit, pa.bool_(), mask=_nulls(array) | _nulls(value) | (~hit & unknown))


def keys(mapping: pa.Array) -> pa.Array:
    """The keys of each map."""
    return _list(mapping, mapping.keys, pa.list_(pa.field("element", mapping.type.key_type, True)))


def values(mapping: pa.Array) -> pa.Array:
    """The values of each map, in the order of its keys."""
    return _list(mapping, mapping.items, pa.list_(pa.field("element", mapping.type.item_type, True)))


def fields(array: pa.Array, index: pa.Array) -> pa.Array:
    """Of structs in arrays the field with that number, as arrays."""
    number = int(_numbers(index)[0]) if len(index) else 0
    inner = pc.struct_field(array.values, [number])
    return _list(array, inner, pa.list_(pa.field("element", inner.type, True)))


def array_of(*items: pa.Array) -> pa.Array:
    """One array a row, of the items of that row, which are of one type."""
    rows, count = len(items[0]), len(items)
    order = np.arange(rows * count).reshape(count, rows).T.ravel()
    offsets = pa.array(np.arange(rows + 1) * count, pa.int32())
    flat = pa.concat_arrays(list(items)).take(pa.array(order))
    return pa.ListArray.from_arrays(offsets, flat, type=pa.list_(pa.field("element", flat.type, True)))


def map_of(*entries: pa.Array) -> pa.Array:
    """One map a row, of keys and values by turns; NULL where :func:`is_no_map`."""
    count, rows = len(entries) // 2, len(entries[0])
    result_type = map_type(entries[0].type, entries[1].type)
    bad = np.asarray(is_no_map(*entries).to_numpy(zero_copy_only=False), bool)
    order = np.arange(rows * count).reshape(count, rows).T[~bad].ravel()
    flat_keys, flat_values = (pa.concat_arrays(list(entries[i::2])).take(pa.array(order)) for i in (0, 1))
    ends = np.concatenate([[0], np.cumsum(np.where(bad, 0, count))])
    offsets = pa.array(ends, pa.int32(), mask=np.append(bad, False))
    return pa.MapArray.from_arrays(offsets, flat_keys, flat_values).cast(result_type)


def is_no_map(*entries: pa.Array) -> pa.Array:
    """Whether a key is NULL or there twice."""
    columns = [_keys_of(key) for key in entries[::2]]
    flags = [any(key[0] == 0 for key in row) or len(set(row)) < len(row)
             for row in zip(*columns, strict=True)]
    return pa.array(flags, pa.bool_())


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """The type of a map as a column of a table has it."""
    return pa.map_(key, pa.field("value", value, True))


def order(left: pa.Array, right: pa.Array) -> pa.Array:
    """-1, 0 or 1 as the left is less, equal or greater; within, NULL equals NULL and is less than all."""
    signs = [(one > other) - (one < other)
             for one, other in zip(_keys_of(left), _keys_of(right), strict=True)]
    return pa.array(signs, pa.int8(), mask=_nulls(left) | _nulls(right))


# ---------------------------------------------------------------------------- helpers


def _nulls(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def _all_nulls(array: pa.Array) -> Any:
    return np.ones(len(array), bool) if t.is_null(array.type) else _nulls(array)


def _numbers(index: pa.Array) -> Any:
    """NULL as 0: whoever takes by it leaves NULL out."""
    return index.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _offsets(nested: pa.Array) -> Any:
    return nested.offsets.to_numpy(zero_copy_only=False)


def _lengths(nested: pa.Array) -> Any:
    return np.diff(_offsets(nested))


def _taken(array: pa.Array, index: pa.Array, places: Any) -> pa.Array:
    outside = (places < 0) | (places >= _lengths(array)) | _nulls(array) | _nulls(index)
    return array.values.take(pa.array(np.where(outside, 0, _offsets(array)[:-1] + places), mask=outside))


def _hits(inner: pa.Array, nested: pa.Array, sought: pa.Array) -> Any:
    """For each element, also those outside of the slice, whether it equals what its row wants."""
    offsets = _offsets(nested)
    start, stop = int(offsets[0]), int(offsets[-1])
    rows: Any = np.repeat(np.arange(len(nested)), np.diff(offsets))
    hits: Any = np.zeros(len(inner), bool)
    one, other = inner.slice(start, stop - start), sought.take(pa.array(rows, pa.int64()))
    if t.is_nested(one.type):
        same = pc.equal(order(one, other), pa.scalar(0, pa.int8()))
    else:
        same = pc.equal(one, other)
        if t.is_floating(one.type):
            same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    hits[start:stop] = same.fill_null(False).to_numpy(zero_copy_only=False)
    return hits


def _any(flags: Any, nested: pa.Array) -> Any:
    """For each row whether one of its elements has the flag."""
    counts = np.concatenate([[0], np.cumsum(flags)])
    offsets = _offsets(nested)
    return counts[offsets[1:]] > counts[offsets[:-1]]


def _list(nested: pa.Array, inner: pa.Array, list_type: pa.DataType) -> pa.Array:
    offsets = pa.array(_offsets(nested).copy(), pa.int32())  # Arrow takes no mask beside a slice
    return pa.ListArray.from_arrays(offsets, inner, type=list_type, mask=nested.is_null())


def _keys_of(array: pa.Array) -> list[Any]:
    """Values as Python orders them the way Spark orders the array's."""
    return [_key(value, array.type) for value in array.to_pylist()]


def _key(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return (0,)
    if t.is_struct(data_type):
        return (1, *(_key(value[f.name], f.type) for f in data_type))
    if t.is_list(data_type):
        return (1, tuple(_key(one, data_type.value_type) for one in value))
    if t.is_floating(data_type):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return (1, value)
