"""Literals: a Python value as SQL that means it, whatever engine reads it.

What lives here: :func:`literal`, from values to SQL by the type of the column that they are for, and
:func:`text_literal`, how a text is written in SQL.
What it does not know: how SQL is read (``resolver``), and whether a column takes the value (``values``).
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from deltanb.errors import InvalidArgument, shown
from deltanb.options import options
from deltanb.schema.types import INTEGERS, DataType, PrimitiveType

__all__ = ["CUT_OFF", "NANOSECONDS_LOST", "TAKEN", "literal", "text_literal"]

TAKEN = "int, float, bool, None, date, datetime, Decimal or bytes"
"""The Python values that have a literal, in words; a text is SQL already."""
NANOSECONDS_LOST = "its nanoseconds would be lost: a table keeps microseconds"
CUT_OFF = 'let them be cut off with deltanb.set_options(nanoseconds="truncate")'
"""Why a time is refused, here and in data, and the way out that both have."""
_TYPES = f"a value is {TAKEN}, or a string, which is SQL"


def literal(value: Any, target: DataType | None = None) -> str:
    """The SQL of a value for a column of the type ``target``.

    A time without a zone is UTC's for a column of type timestamp, and one with a zone is told in UTC. Scalars
    of NumPy count as what they hold. What the column would cut off in silence is refused, as of data that is
    appended.

    Raises:
        InvalidArgument: there is no literal of such a value, or the column would keep a part of it alone.

    >>> literal(1), literal(-0.5), literal(None), literal(True), literal(Decimal("9.50")), literal(b"ab")
    ('1', '-0.5E0', 'NULL', 'TRUE', '9.50BD', "X'6162'")
    >>> literal(dt.date(2026, 3, 2)), literal(dt.datetime(2026, 3, 2, 9, 30), PrimitiveType("timestamp"))
    ("DATE '2026-03-02'", "TIMESTAMP '2026-03-02 09:30:00.000000Z'")
    """
    value = _plain(value)
    if isinstance(target, PrimitiveType):
        _check_whole(value, target)
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(int(value)) if abs(value) < 10**38 else _refuse(value, "it has more than 38 digits")
        case float():
            return _float(float(value))
        case Decimal():
            return f"{value:f}BD" if value.is_finite() else _refuse(value, "a DECIMAL has no such value")
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case dt.datetime():
            return _time(value, target)
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return _refuse(value, _TYPES)


def text_literal(text: str) -> str:
    r"""A text as SQL.

    >>> print(text_literal("UA"), text_literal("O'Hare"), text_literal("a\\b"))
    'UA' 'O\'Hare' 'a\\b'
    """
    inside = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inside}'"


def _plain(value: Any) -> Any:
    """What a scalar of NumPy or pandas holds; a time that is none (NaT) is NULL."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        plain = value.item()
        if hasattr(value, "dtype") and value.dtype.kind in "mM" and isinstance(plain, int):
            micros = value.astype("datetime64[us]") if value.dtype.kind == "M" else _refuse(value, _TYPES)
            _check_nanoseconds(value, bool(micros != value))
            return micros.item()
        return plain
    if isinstance(value, dt.datetime):
        return None if value != value else value
    return value


def _check_whole(value: Any, target: PrimitiveType) -> None:
    if isinstance(value, dt.datetime) and target.name == "date" and value.time() != dt.time():
        _refuse(value, "a column of type date keeps no time of day; give value.date()")
    if not isinstance(value, float | Decimal) or not math.isfinite(value):
        return
    if target.name in INTEGERS and value != int(value):
        _refuse(value, f"a column of type {target.name} keeps no fraction; give round(value)")
    if target.is_decimal and isinstance(value, Decimal) and (
            Fraction(value) * 10**target.scale).denominator != 1:
        _refuse(value, f"a column of type {target.name} keeps {target.scale} digits of a fraction; round it")


def _check_nanoseconds(value: Any, has_some: bool) -> None:
    if has_some and options.nanoseconds == "refuse":
        _refuse(value, f"{NANOSECONDS_LOST}; round it, or {CUT_OFF}")


def _float(value: float) -> str:
    if math.isfinite(value):
        text = repr(value)
        return text if "e" in text else f"{text}E0"
    return "CAST('NaN' AS DOUBLE)" if math.isnan(value) else (
        f"{'-' if value < 0 else ''}CAST('Infinity' AS DOUBLE)")


def _time(value: dt.datetime, target: DataType | None) -> str:
    _check_nanoseconds(value, bool(getattr(value, "nanosecond", 0)))
    has_zone = value.utcoffset() is not None
    try:
        utc = value.astimezone(dt.timezone.utc) if has_zone else value
    except OverflowError:
        return _refuse(value, "in UTC it is outside of the years 1 to 9999")
    text = utc.replace(tzinfo=None).isoformat(" ", "microseconds")
    name = target.name if isinstance(target, PrimitiveType) else ""
    if name == "timestamp" or (has_zone and name != "timestamp_ntz"):
        return f"TIMESTAMP '{text}Z'"
    return f"TIMESTAMP_NTZ '{text}'"


def _refuse(value: Any, why: str) -> Any:
    raise InvalidArgument(f"{type(value).__name__} {shown(value)} cannot be stored: {why}")
