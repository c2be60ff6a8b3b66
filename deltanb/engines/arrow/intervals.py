"""Intervals between Arrow and data files, which hold them as numbers.

What lives here: months as an int32 and as Arrow's ``month_day_nano_interval`` (:func:`conversion`), and
intervals of others made one of the table's two types (:func:`checked`).
What it does not know: the names of the types, and their text (:mod:`deltanb.schema.intervals`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

__all__ = ["checked", "conversion", "to_microseconds"]

_PARTS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_US_PER_DAY = 86_400_000_000
_MAX_DAYS = 2**63 // _US_PER_DAY - 1  # and the rest of a microsecond count has its place, too


def _parts(array: pa.Array) -> Any:
    """The parts of intervals as numpy has them, 0 where there is none."""
    content = array.buffers()[1]
    parts = np.frombuffer(content, _PARTS, len(array), array.offset * _PARTS.itemsize) if content else (
        np.zeros(len(array), _PARTS))
    if not array.null_count:
        return parts
    return np.where(np.asarray(array.is_valid().cast(pa.uint8())).astype(bool), parts, np.zeros(1, _PARTS))


def _with_nulls_of(array: pa.Array, content: Any, kind: pa.DataType) -> pa.Array:
    validity = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(content.tobytes())])


def conversion(stored: pa.DataType, target: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """How months of a file become intervals, or intervals a file's months; None where they do not.

    >>> there = conversion(pa.int32(), pa.month_day_nano_interval())(pa.array([18, None], pa.int32()))
    >>> there.to_pylist()
    [MonthDayNano(months=18, days=0, nanoseconds=0), None]
    >>> conversion(there.type, pa.int32())(there).to_pylist()
    [18, None]
    """
    if stored == pa.int32() and t.is_interval(target):
        return _of_months
    return _to_months if t.is_interval(stored) and target == pa.int32() else None


def _of_months(array: pa.Array) -> pa.Array:
    content: Any = np.zeros(len(array), _PARTS)
    content["months"] = np.asarray(array.fill_null(0) if array.null_count else array)
    return _with_nulls_of(array, content, pa.month_day_nano_interval())


def _to_months(array: pa.Array) -> pa.Array:
    return _with_nulls_of(array, np.ascontiguousarray(_parts(array)["months"]), pa.int32())


def to_microseconds(array: pa.Array) -> pa.Array:
    """Intervals whose nanoseconds are cut off at the microsecond before.

    >>> to_microseconds(pa.array([pa.MonthDayNano([0, 1, 1999])]))[0].as_py()
    MonthDayNano(months=0, days=1, nanoseconds=1000)
    """
    parts = _parts(array).copy()
    parts["nanoseconds"] -= parts["nanoseconds"] % 1000
    return _with_nulls_of(array, parts, array.type)


def checked(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Arrow's intervals as durations in microseconds, or as months alone.

    Raises:
        pa.ArrowInvalid: one has a part that the target has no place for.

    >>> day = pa.array([pa.MonthDayNano([0, 1, 2000])])
    >>> checked(day, pa.duration("us"))[0].as_py()
    datetime.timedelta(days=1, microseconds=2)
    """
    parts = _parts(array)
    if t.is_interval(target):
        if parts["days"].any() or parts["nanoseconds"].any():
            raise pa.ArrowInvalid("days or a time of day beside its months")
        return array
    if parts["months"].any():
        raise pa.ArrowInvalid("months, which have no fixed length")
    if (parts["nanoseconds"] % 1000).any():
        raise pa.ArrowInvalid("a part of a microsecond would be lost")
    if (np.abs(parts["days"].astype(np.int64)) > _MAX_DAYS).any():
        raise pa.ArrowInvalid("more microseconds than 64 bits hold")
    micros = parts["days"].astype(np.int64) * _US_PER_DAY
    rest = parts["nanoseconds"] // 1000
    total = micros + rest
    if ((micros ^ total) & (rest ^ total) < 0).any():
        raise pa.ArrowInvalid("more microseconds than 64 bits hold")
    return _with_nulls_of(array, total, target)
