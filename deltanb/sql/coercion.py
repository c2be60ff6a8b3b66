"""Types and casts of the predicate language: what Spark does to the two sides of an operator.

What lives here: reading a text as a value of a type (literals, partition values), the common type
of two operands, and exact folding of literals to a column's type, so that ``part = 1`` on a
``short`` column stays a plain comparison that Parquet and file statistics can answer.
What it does not know: SQL syntax, columns' places, how an expression runs.

Values are Python's: int, float, ``Decimal``, str, bytes, bool, ``date``, and ``datetime`` (aware,
in UTC, for ``timestamp``; naive for ``timestamp_ntz``). The session's time zone is always UTC.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.schema.intervals import read_duration, read_months
from deltanb.schema.types import INTEGERS, MAX_PRECISION, TYPES, primitive_names, primitives

INTEGER_BOUNDS = {primitives()[name]: 2 ** (bits - 1) for name, bits in INTEGERS.items()}
INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
MAX_EXACT_PRECISION = 76  # decimal256: comparisons between two decimals stay exact
UTC = timezone.utc
TIMESTAMP, TIMESTAMP_NTZ = primitives()["timestamp"], primitives()["timestamp_ntz"]
EXACT = Context(prec=100, rounding=ROUND_HALF_UP)

_VARIANT = [("metadata", pa.binary()), ("value", pa.binary())]  # as ``schema.arrow_type`` has it
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.I)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?", re.S)
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?\s*(\S+)?)?)?)?)?"
)
_ZONE = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
TRUE_WORDS = {"t", "true", "y", "yes", "1"}
FALSE_WORDS = {"f", "false", "n", "no", "0"}


def is_number(data_type: pa.DataType) -> bool:
    """Integers, decimals and floats."""
    return bool(t.is_integer(data_type) or t.is_decimal(data_type) or t.is_floating(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Strings of any Arrow layout."""
    return bool(t.is_string(data_type) or t.is_large_string(data_type)
                or t.is_string_view(data_type))


def spark_name(data_type: pa.DataType) -> str:
    """The type's SQL name, for messages."""
    name = primitive_names().get(data_type)
    if name is not None:
        return TYPES[name].sql[0]
    if t.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if t.is_list(data_type):
        return f"array<{spark_name(data_type.value_type)}>"
    if t.is_map(data_type):
        return f"map<{spark_name(data_type.key_type)},{spark_name(data_type.item_type)}>"
    if t.is_struct(data_type):
        return f"struct<{','.join(f'{f.name}:{spark_name(f.type)}' for f in data_type)}>"
    return str(data_type)


# ---------------------------------------------------------------------------- text -> value


def read_text(text: str, data_type: pa.DataType) -> Any:
    """The value that Spark's cast reads in ``text``.

    >>> read_text(" 12 ", pa.int32()), read_text("2020-1-5", pa.date32())
    (12, datetime.date(2020, 1, 5))

    Raises:
        ValueError: the text is not a value of that type.
    """
    if is_text(data_type):
        return text
    if t.is_binary(data_type):
        return text.encode()
    stripped = text.strip()
    if t.is_integer(data_type):
        if not _INTEGER.fullmatch(stripped):
            raise ValueError(f"{text!r:.80} is not an integer")
        return in_range(int(Decimal(stripped)), data_type)  # int() reads no text of 4,301 digits
    if t.is_floating(data_type):
        if not _NUMBER.fullmatch(stripped):
            raise ValueError(f"{text!r:.80} is not a number")
        return to_float(float(stripped), data_type)
    if t.is_decimal(data_type):
        try:
            return to_decimal(Decimal(stripped), data_type)
        except InvalidOperation:
            raise ValueError(f"{text!r:.80} is not a number") from None
    if t.is_boolean(data_type):
        lowered = stripped.lower()
        if lowered not in TRUE_WORDS | FALSE_WORDS:
            raise ValueError(f"{text!r:.80} is not a boolean")
        return lowered in TRUE_WORDS
    if t.is_date(data_type):
        return _read_date(stripped)
    if t.is_timestamp(data_type):
        moment = _read_timestamp(stripped, data_type)
        return moment if data_type.unit != "ns" else _with_nanos(moment, stripped, data_type)
    if t.is_duration(data_type):
        return timedelta(microseconds=read_duration(stripped))
    if t.is_interval(data_type):
        return pa.MonthDayNano([read_months(stripped), 0, 0])
    raise ValueError(f"a text cannot be read as {spark_name(data_type)}")


def _read_date(text: str) -> date:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is not a date")
    return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))


def _with_nanos(moment: datetime, text: str, data_type: pa.DataType) -> str:
    """A time as text with nine digits behind the point, which Python's types do not have."""
    digits = (_TIMESTAMP.fullmatch(text) or [""] * 8)[7] or ""
    if digits[9:].strip("0"):
        raise ValueError(f"{text!r:.80} has a part of a nanosecond")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits[:9]:0<9}{'Z' if data_type.tz else ''}"


def python_value(scalar: pa.Scalar) -> Any:
    """As ``scalar.as_py()``; a time in nanoseconds is the text that :func:`read_text` reads.

    >>> python_value(pa.scalar(1, pa.timestamp("ns", "UTC")))
    '1970-01-01T00:00:00.000000001Z'
    """
    if t.is_timestamp(scalar.type) and scalar.type.unit == "ns" and scalar.is_valid:
        return read_text(str(scalar.cast(pa.string())), scalar.type)
    return scalar.as_py()


def _read_timestamp(text: str, data_type: pa.DataType) -> datetime:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is not a timestamp")
    year, month, day, hour, minute, second = (int(part or i) for part, i in
                                              zip(match.groups()[:6], (1, 1, 1, 0, 0, 0),
                                                  strict=True))
    micros = int((match[7] or "")[:6].ljust(6, "0"))
    local = datetime(year, month, day, hour, minute, second, micros)
    if data_type.tz is None:  # Spark drops a zone that an unzoned timestamp's text carries
        return local
    zone = read_zone(match[8]) if match[8] else UTC
    return local.replace(tzinfo=zone).astimezone(UTC)


def read_zone(text: str) -> Any:
    """A time zone from its name or its offset; ValueError where there is none.

    >>> read_zone("+01:00"), read_zone("UTC")
    (datetime.timezone(datetime.timedelta(seconds=3600)), datetime.timezone.utc)
    """
    if text in ("Z", "UTC", "GMT"):
        return UTC
    match = _ZONE.fullmatch(text)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0),
                           seconds=int(match[4] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, OSError):
        raise ValueError(f"{text!r:.80} is not a time zone") from None


# ---------------------------------------------------------------------------- value -> value


def in_range(value: int, data_type: pa.DataType) -> int:
    """``value``, if the integer type holds it; else ValueError."""
    bound = INTEGER_BOUNDS[data_type]
    if not -bound <= value < bound:
        raise ValueError(f"{_brief(value)} is out of the range of {spark_name(data_type)}")
    return value


def _brief(value: int | Decimal) -> str:
    """The number, if it is no longer than numbers of columns are: Python prints no int of 4,301 digits."""
    number = Decimal(value)
    size = number.adjusted() + 1
    if not number or -MAX_EXACT_PRECISION < size <= MAX_EXACT_PRECISION:
        return str(value)
    return f"a number of {size:,} digits" if size > 0 else f"{number.normalize(Context(prec=6))}"


def to_float(value: Any, data_type: pa.DataType) -> float:
    """``value`` as the nearest float of the type."""
    number = float(value)
    if data_type == pa.float32() and math.isfinite(number):
        try:
            return float(struct.unpack("f", struct.pack("f", number))[0])
        except OverflowError:
            return math.copysign(math.inf, number)
    return number


def to_decimal(value: Decimal, data_type: pa.DataType) -> Decimal:
    """``value`` rounded half up to the type's scale; ValueError if it does not fit."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a decimal")
    whole = data_type.precision - data_type.scale  # digits before the point
    if not value or value.adjusted() < whole:
        rounded = EXACT.quantize(value, Decimal(1).scaleb(-data_type.scale))
        if not rounded or rounded.adjusted() < whole:  # no arithmetic: it would round to 28 digits
            return rounded
    raise ValueError(f"{_brief(value)} is out of the range of {spark_name(data_type)}")


def convert(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """A value of one type as Spark casts it to another; ``None`` stays ``None``.

    Raises:
        ValueError: there is no such value, e.g. ``cast('abc' as int)``.
        TypeError: there is no such cast.
    """
    if value is None or source == target:
        return value
    if is_text(source):
        return read_text(value, target)
    if is_number(source) and is_number(target):
        return _convert_number(value, target)
    if t.is_date(source) and t.is_timestamp(target):
        return datetime(value.year, value.month, value.day, tzinfo=UTC if target.tz else None)
    if t.is_timestamp(source) and t.is_date(target):
        return value.date()
    if t.is_timestamp(source) and t.is_timestamp(target):
        return value.replace(tzinfo=UTC if target.tz else None)
    if t.is_boolean(source) and is_number(target):
        return _convert_number(int(value), target)
    if is_number(source) and t.is_boolean(target):
        return value != 0
    if is_text(target):
        if t.is_integer(source):
            return str(value)
        if t.is_boolean(source):
            return str(value).lower()
        if t.is_date(source):
            return value.isoformat()
        if t.is_decimal(source):
            return format(value, "f")
    if t.is_binary(target) and is_text(source):
        return value.encode()
    raise TypeError(f"no cast from {spark_name(source)} to {spark_name(target)}")


def _convert_number(value: Any, target: pa.DataType) -> Any:
    if t.is_floating(target):
        return to_float(value, target)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is out of the range of {spark_name(target)}")
    if t.is_decimal(target):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return to_decimal(exact, target)
    return in_range(int(value), target)


# ---------------------------------------------------------------------------- value -> Arrow


def arrow_array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """As ``pa.array``, which imports pandas (a third of a second) when it is first called.

    >>> arrow_array([1, None], pa.int32()).to_pylist()
    [1, None]
    """
    texts = [b"" if value is None else _as_bytes(value) for value in values]
    offsets = array("i", accumulate(map(len, texts), initial=0))
    buffers = [validity(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(texts))]
    if t.is_binary(data_type):
        return pa.Array.from_buffers(data_type, len(texts), buffers)
    try:
        return pa.Array.from_buffers(pa.string(), len(texts), buffers).cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(values, data_type)


def validity(values: Sequence[Any]) -> pa.Buffer:
    """The bitmap of the values that are not None."""
    mask = pa.py_buffer(bytes(value is not None for value in values))
    bits = pa.Array.from_buffers(pa.uint8(), len(values), [None, mask]).cast(pa.bool_())
    return bits.buffers()[1]


def arrow_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """As ``pa.scalar``, but see :func:`arrow_array`."""
    return arrow_array([value], data_type)[0]


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, date):  # a datetime too
        return value.isoformat().encode()
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()


# ---------------------------------------------------------------------------- types of two


def as_decimal(data_type: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    if t.is_decimal(data_type):
        return data_type
    return pa.decimal128(INTEGER_DIGITS[data_type], 0)


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The number type in which Spark compares or adds two numbers."""
    if t.is_floating(left) or t.is_floating(right):
        narrow = {pa.float32(), pa.int8(), pa.int16()}
        return pa.float32() if left in narrow and right in narrow else pa.float64()
    if t.is_integer(left) and t.is_integer(right):
        return left if INTEGER_BOUNDS[left] >= INTEGER_BOUNDS[right] else right
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    precision = min(whole + scale, MAX_EXACT_PRECISION)
    make = pa.decimal128 if precision <= MAX_PRECISION else pa.decimal256
    return make(precision, scale)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two operands meet, ``None`` if they never do (Spark's ANSI rules)."""
    if left == right or t.is_null(right):
        return left
    if t.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return common_number(left, right)
    for text, other in ((left, right), (right, left)):
        if is_text(text):
            if t.is_integer(other):
                return pa.int64()
            return pa.float64() if is_number(other) else other
    if t.is_list(left) and t.is_list(right):
        element = common_type(left.value_type, right.value_type)
        return None if element is None else pa.list_(pa.field("element", element, True))
    if same_shape(left, right):
        return left
    if t.is_temporal(left) and t.is_temporal(right):
        if t.is_timestamp(left) and t.is_timestamp(right):
            return TIMESTAMP
        return left if t.is_timestamp(left) else right
    return None


def same_shape(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether two types have the same values, whatever their fields are called and may be NULL."""
    if t.is_list(left) and t.is_list(right):
        return same_shape(left.value_type, right.value_type)
    if t.is_struct(left) and t.is_struct(right):
        return left.num_fields == right.num_fields and all(
            same_shape(one.type, other.type) for one, other in zip(left, right, strict=True))
    return bool(left == right)


def is_ordered(data_type: pa.DataType) -> bool:
    """Whether values of the type are compared: not maps and variants, nor what holds them, nor intervals,
    by which no file may be left out (protocol_rfcs/interval-types.md)."""
    if t.is_list(data_type):
        return is_ordered(data_type.value_type)
    if t.is_struct(data_type):
        is_variant = [(f.name, f.type) for f in data_type] == _VARIANT
        return not is_variant and all(is_ordered(f.type) for f in data_type)
    return not (t.is_map(data_type) or t.is_duration(data_type) or t.is_interval(data_type))


def exact_literal(value: Any, source: pa.DataType, target: pa.DataType) -> tuple[bool, Any]:
    """``(True, v)`` if comparing a ``target`` column with ``v`` equals comparing it with ``value``.

    >>> exact_literal(Decimal("1.0"), pa.decimal128(2, 1), pa.int32())
    (True, 1)
    >>> exact_literal(Decimal("1.5"), pa.decimal128(2, 1), pa.int32())
    (False, None)
    """
    if value is None:
        return True, None
    try:
        if is_number(source) and is_number(target):
            if t.is_floating(source) and not t.is_floating(target):
                return False, None  # Spark compares in double: the column must be widened
            if target == pa.float64():
                return True, float(value)
            converted = _convert_number(value, target)
            same = converted == value if target != pa.float32() else \
                math.isnan(converted) or Decimal(converted) == Decimal(value)
            return same, converted if same else None
        if t.is_timestamp(target) and (t.is_date(source) or t.is_timestamp(source)):
            if target.tz is None and t.is_timestamp(source) and source.tz:
                return False, None
            return True, convert(value, source, target)
    except (ValueError, OverflowError):
        pass
    return False, None
