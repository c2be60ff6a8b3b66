"""Bounds of a column as text: what a statistic may say of its smallest and largest value.

What lives here: the JSON token of a value (:func:`bound`), and the cutting of long strings
(:func:`truncate_max`), as Delta Spark does both.
What it does not know: columns, files, where a value comes from.

A value that has no exact text has none: infinities, and years that ISO 8601 cannot say.
"""

from __future__ import annotations

import math
import struct
from datetime import date, timedelta
from typing import Any

from deltanb.actions.base import as_json

STRING_PREFIX = 32
"""Characters kept of a string bound, as Delta does: enough to skip by, small enough for the log."""

US_PER_DAY = 86_400_000_000
"""Microseconds of a day."""

FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"timestamp", "timestamp_ntz"})

_ASCII_MAX = "\x7f"
_UNICODE_MAX = "\U0010ffff"
_EPOCH = date(1970, 1, 1)
_FLOAT_MAX = 3.4028235e38  # the largest 32-bit number


def bound(value: Any, kind: str, is_max: bool) -> str | None:
    """The JSON token of a bound, or ``None`` where it cannot be said exactly.

    Args:
        value: days for dates, microseconds for timestamps, else the value itself.
        kind: name of the column's type.

    >>> bound(1_700_000_000_123_999, "timestamp", is_max=True)
    '"2023-11-14T22:13:20.123Z"'
    """
    if value is None:
        return None
    if kind in FLOATS:
        return _float_text(value, kind)
    if kind == "date":
        day = _day(value)
        return day and f'"{day}"'
    if kind in TIMES:
        return _time_text(value, "Z" if kind == "timestamp" else "")
    if kind == "string":
        text = truncate_max(value) if is_max else value[:STRING_PREFIX]
        return None if text is None else as_json(text)
    return str(value)  # integers, and decimals with their scale


def _float_text(value: float, kind: str) -> str | None:
    if not math.isfinite(value):
        return None
    value = value + 0.0  # Parquet signs its zeros, data may not: one spelling for both
    if kind == "double":
        return repr(value)
    for digits in range(6, 10):  # the shortest text that reads back as the same 32-bit number
        text = float(f"{value:.{digits}g}")
        if abs(text) <= _FLOAT_MAX and struct.pack("f", text) == struct.pack("f", value):
            return repr(text)
    return repr(value)


def _day(days: int) -> str | None:
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _time_text(microseconds: int, zone: str) -> str | None:
    """ISO 8601 cut to milliseconds, downwards, as the protocol says; readers add one to a maximum."""
    day, rest = divmod(microseconds, US_PER_DAY)
    day_text = _day(day)
    if day_text is None:
        return None
    seconds, fraction = divmod(rest // 1000, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f'"{day_text}T{hour:02}:{minute:02}:{second:02}.{fraction:03}{zone}"'


def truncate_max(text: str, prefix: int = STRING_PREFIX) -> str | None:
    """A string of about ``prefix`` characters that is not below ``text``, or ``None``.

    A cut string gets a character that sorts above whatever was cut off: ``\\x7f`` where that was
    smaller ASCII, else the largest code point. Where the cut itself falls on such characters the
    prefix grows, up to twice its length. Lengths count UTF-16 units, as Delta's do.

    >>> truncate_max("a" * 40) == "a" * 32 + "\\x7f"
    True
    """
    units = [2 if ord(char) > 0xFFFF else 1 for char in text]
    if sum(units) <= prefix:
        return text
    taken = length = 0
    while length < prefix:
        length += units[taken]
        taken += 1
    while length <= 2 * prefix:
        if taken >= len(text):
            return text
        if text[taken] == _UNICODE_MAX:
            length += units[taken]
            taken += 1
        elif text[taken] < _ASCII_MAX:
            return text[:taken] + _ASCII_MAX
        else:
            return text[:taken] + _UNICODE_MAX
    return None
