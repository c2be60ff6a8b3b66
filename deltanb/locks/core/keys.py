"""Keys of locks: tuples as bytes that sort as the tuples do, and the places of a table as such keys.

What lives here: the encoding of values, both ways, and the keys of a table, its partitions, files and rows,
with the ancestors of each.
What it does not know: locks (``core``), tables, how a partition value is written in a log.

A value is one byte that says its type, then content that sorts as the values do and that says itself where it
ends. So no value's bytes begin those of another, and the bytes of a tuple begin those of another exactly
where the tuple does. Among types: None, booleans, numbers, text, bytes, dates, timestamps, tuples.

===============  ======================================================================================
integer          its length in bytes, then its bytes; of a negative one all of that turned over
float            the bits of IEEE 754, those of negative ones turned over; -0.0 is 0.0, NaN the greatest
Decimal          the place of its first digit, then its digits in pairs; 1.0 is 1.00
text, bytes      UTF-8 or the bytes, 0 and 1 written as two bytes, then a 0
date             the number of its day
timestamp        microseconds since 1970; one with a time zone as its moment, which is read back in UTC
tuple            its values, then a 0
===============  ======================================================================================

The three kinds of numbers do not mix: a column has one of them, and so do its keys.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import shown

END, NULL, FALSE, TRUE = 0, 2, 3, 4
INTEGER, FLOAT, DECIMAL = 16, 17, 18
TEXT, BINARY, DATE, TIMESTAMP, MOMENT, TUPLE = 32, 40, 48, 56, 57, 64

PARTITION: Final = re.compile(rb"\x40(?:\x02|\x20[^\x00]*\x00)*\x00")
"""The key of a partition, at the beginning of any key in it: a tuple of texts and Nones."""
UNREADABLE: Final = (IndexError, ValueError, ArithmeticError, struct.error)
"""What reading other bytes as values comes to."""

MAX_DEPTH = 50  # tuples within tuples; a key of a table has two
SHORT = 126  # bytes of an integer whose length fits the byte before it; of longer ones eight bytes more

TURNED: Final = bytes(range(255, -1, -1))
"""Every byte turned over, for ``translate``: what was less is greater."""
EPOCH = datetime(1970, 1, 1)
UTC_EPOCH = EPOCH.replace(tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
SIGN = 1 << 63


def encode(values: tuple[Any, ...]) -> bytes:
    """A tuple as bytes, which sort as tuples of the same types do.

    >>> encode((1, "a")) < encode((1, "b")) < encode((2, "")) < encode((2, "", None))
    True
    >>> decode(encode((-3, "a", None, (b"x", 2.5))))
    (-3, 'a', None, (b'x', 2.5))

    Raises:
        InvalidArgument: not a tuple, or a value in it of another type.
    """
    if type(values) is not tuple:
        raise InvalidArgument(f"a key is made of a tuple, found {type(values).__name__}: {shown(values)}")
    out = bytearray()
    _put_all(out, values, 0)
    return bytes(out)


def decode(key: bytes) -> tuple[Any, ...]:
    """The tuple that :func:`encode` has made these bytes of.

    Raises:
        InvalidArgument: it has not made them.
    """
    values = values_of(key)
    if values is None:
        raise InvalidArgument(f"not a key that encode() makes: {shown(key)}")
    return values


def values_of(key: bytes) -> tuple[Any, ...] | None:
    """As :func:`decode`, but None where the bytes were made by something else."""
    values: list[Any] = []
    at = 0
    try:
        while at < len(key):
            value, at = _take(key, at, 0)
            values.append(value)
        decoded = tuple(values)
        return decoded if encode(decoded) == key else None
    except UNREADABLE:
        return None


# -- the places of a table -----------------------------------------------------------------------


def table_key() -> bytes:
    """The key of a whole table: it begins every other."""
    return b""


def partition_key(values: Sequence[str | None]) -> bytes:
    """The key of a partition, from its values as they stand in the log, in the order of the columns.

    >>> values_of(partition_key(["2024", None]))
    (('2024', None),)

    Raises:
        InvalidArgument: a value that is not text and not None.
    """
    for value in values:
        if value is not None and type(value) is not str:
            raise InvalidArgument("partition values are strings or None, as in the log; found "
                                  f"{type(value).__name__}: {shown(value)}")
    return encode((tuple(values),))


def file_key(partition: Sequence[str | None], path: str) -> bytes:
    """The key of a data file: it lies in a partition."""
    return partition_key(partition) + encode((path,))


def row_key(partition: Sequence[str | None], key_values: tuple[Any, ...]) -> bytes:
    """The key of a row: it lies in a partition, or where that is empty directly in the table.

    >>> parents(row_key((), (7, "a"))) == [table_key()]
    True
    """
    if type(key_values) is not tuple:
        raise InvalidArgument(
            f"the key of a row is a tuple, found {type(key_values).__name__}: {shown(key_values)}")
    return partition_key(partition) + encode((key_values,))


LEVELS: Final = ("table", "partition", "file", "row")


def level(key: bytes) -> str:
    """What a key is the key of: "table", "partition", "file" or "row".

    >>> level(b""), level(partition_key(["1"])), level(file_key(["1"], "a.parquet")), level(row_key((), (1,)))
    ('table', 'partition', 'file', 'row')

    Raises:
        InvalidArgument: it is none of these.
    """
    values = values_of(key)
    kinds = None if values is None else tuple(map(type, values))
    if kinds is None or kinds not in _LEVELS:
        raise _no_place(key)
    return _LEVELS[kinds]


def _no_place(key: bytes) -> InvalidArgument:
    return InvalidArgument(
        f"not the key of a table, partition, file or row: {shown(key)}; make it with deltanb.locks.core.keys")


_LEVELS: Final[dict[tuple[type, ...], str]] = {
    (): "table", (tuple,): "partition", (tuple, str): "file", (tuple, tuple): "row"}


def parents(key: bytes) -> list[bytes]:
    """The ancestors of a key, the table's first; none for the table itself.

    Raises:
        InvalidArgument: not a key of a table.
    """
    if not key:
        return []
    partition = PARTITION.match(key)
    if partition is not None:
        at = partition.end()
        if at == len(key):
            return [b""]
        try:
            last, end = _take(key, at, 0)
        except UNREADABLE:
            last, end = None, at
        if end == len(key) and type(last) in (str, tuple):
            return [b"", partition[0]] if partition[0] != _NO_PARTITION else [b""]
    raise _no_place(key)


def in_words(key: bytes, columns: Sequence[str] = ()) -> str | None:
    """A key of a table as people read it, empty for the table itself; None for other bytes.

    >>> in_words(partition_key(["1", None]), ["month", "day"]), in_words(partition_key(["1"]))
    ('month=1 day=null', '1')
    >>> in_words(row_key((), (17, "a"))), in_words(file_key(["1"], "a.parquet"), ["month"])
    ("row 17 'a'", 'month=1 file a.parquet')
    """
    values = values_of(key)
    if values is None or tuple(map(type, values)) not in _LEVELS:
        return None
    parts: list[str] = []
    if values:
        texts = ["null" if value is None else _plain(value) for value in values[0]]
        names = columns if len(columns) == len(texts) else ()
        parts += [f"{name}={text}" for name, text in zip(names, texts, strict=True)] if names else texts
    for last in values[1:]:
        parts += ["file " + _plain(last)] if type(last) is str else ["row", *map(shown, last)]
    return " ".join(parts)


def _plain(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and text and len(text) <= 80 else shown(value)


# -- values to bytes -----------------------------------------------------------------------------


def _put_all(out: bytearray, values: tuple[Any, ...], depth: int) -> None:
    for value in values:
        put = _PUT.get(type(value))
        if put is not None:
            put(out, value)
        elif value is None:
            out.append(NULL)
        elif type(value) is tuple:
            if depth == MAX_DEPTH:
                raise InvalidArgument(f"a key has tuples within tuples, but no more than {MAX_DEPTH}")
            out.append(TUPLE)
            _put_all(out, value, depth + 1)
            out.append(END)
        else:
            raise InvalidArgument(
                "a key is made of None, booleans, integers, floats, Decimals, text, bytes, dates, timestamps "
                f"and tuples; found {type(value).__module__}.{type(value).__qualname__}: {shown(value)}")


def _put_bool(out: bytearray, value: bool) -> None:
    out.append(TRUE if value else FALSE)


def _put_int(out: bytearray, value: int) -> None:
    out.append(INTEGER)
    out += _int_bytes(value)


def _int_bytes(value: int) -> bytes:
    """The length, then the bytes; the length has a bit of 128, which is turned over in a negative one."""
    size = abs(value)
    content = size.to_bytes((size.bit_length() + 7) // 8, "big")
    length = len(content)
    head = bytes([128 + length]) if length <= SHORT else b"\xff" + length.to_bytes(8, "big")
    return (head + content).translate(TURNED) if value < 0 else head + content


def _put_float(out: bytearray, value: float) -> None:
    bits = int.from_bytes(struct.pack(">d", math.nan if value != value else value + 0.0), "big")
    if value != value:
        bits = 0x7FF8_0000_0000_0000  # one NaN for all
    out.append(FLOAT)
    out += (bits ^ (2 * SIGN - 1) if bits & SIGN else bits | SIGN).to_bytes(8, "big")


def _put_decimal(out: bytearray, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidArgument(f"a Decimal in a key is a finite number, found {value}")
    out.append(DECIMAL)
    text = "".join(map(str, digits)).lstrip("0")
    place = exponent + len(text)
    text = text.rstrip("0")
    if not text:
        out.append(128)
        return
    pairs = bytes(int(text[at:at + 2].ljust(2, "0")) + 1 for at in range(0, len(text), 2))
    content = b"\x81" + _int_bytes(place) + pairs + b"\x00"
    out += content.translate(TURNED) if sign else content


def _put_text(out: bytearray, value: str) -> None:
    out.append(TEXT)
    out += _marked(value.encode("utf-8", "surrogatepass"))


def _put_binary(out: bytearray, value: bytes) -> None:
    out.append(BINARY)
    out += _marked(value)


def _marked(content: bytes) -> bytes:
    """Bytes with an end that none of them can be taken for."""
    if b"\x01" in content or b"\x00" in content:
        content = content.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")
    return content + b"\x00"


def _put_date(out: bytearray, value: date) -> None:
    out.append(DATE)
    out += value.toordinal().to_bytes(4, "big")


def _put_datetime(out: bytearray, value: datetime) -> None:
    if value.utcoffset() is None:
        out.append(TIMESTAMP)
        since = value.replace(tzinfo=None) - EPOCH
    else:
        out.append(MOMENT)
        since = value - UTC_EPOCH
        try:
            UTC_EPOCH + since
        except OverflowError:
            raise InvalidArgument(f"a moment in a key lies in the years 1 to 9999 of UTC, found {value}") \
                from None
    out += (since // MICROSECOND + SIGN).to_bytes(8, "big")


_PUT: Final[dict[type, Callable[[bytearray, Any], None]]] = {
    bool: _put_bool, int: _put_int, float: _put_float, Decimal: _put_decimal, str: _put_text,
    bytes: _put_binary, date: _put_date, datetime: _put_datetime}


# -- bytes to values -----------------------------------------------------------------------------


def _take(key: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends.

    Raises:
        ValueError: there is none; also IndexError, ArithmeticError and struct.error, as reading goes.
    """
    kind = key[at]
    at += 1
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind == INTEGER:
        return _take_int(key, at)
    if kind == DECIMAL:
        return _take_decimal(key, at)
    if kind in (TEXT, BINARY):
        end = key.index(b"\x00", at)
        content = key[at:end].replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")
        return content.decode("utf-8", "surrogatepass") if kind == TEXT else content, end + 1
    if kind == DATE:
        return date.fromordinal(int.from_bytes(key[at:at + 4], "big")), at + 4
    if kind == FLOAT:
        bits = int.from_bytes(key[at:at + 8], "big")
        bits = bits ^ SIGN if bits & SIGN else bits ^ (2 * SIGN - 1)
        return struct.unpack(">d", bits.to_bytes(8, "big"))[0], at + 8
    if kind in (TIMESTAMP, MOMENT):
        since = (int.from_bytes(key[at:at + 8], "big") - SIGN) * MICROSECOND
        return (EPOCH if kind == TIMESTAMP else UTC_EPOCH) + since, at + 8
    if kind == TUPLE and depth < MAX_DEPTH:
        values: list[Any] = []
        while key[at] != END:
            value, at = _take(key, at, depth + 1)
            values.append(value)
        return tuple(values), at + 1
    raise ValueError(f"no value begins with {kind}")


_CONSTANTS: Final = {NULL: None, FALSE: False, TRUE: True}


def _take_int(key: bytes, at: int) -> tuple[int, int]:
    head = key[at]
    is_negative = head < 128
    length = 255 - head - 128 if is_negative else head - 128
    at += 1
    if length > SHORT:
        size = key[at:at + 8]
        length = int.from_bytes(size.translate(TURNED) if is_negative else size, "big")
        at += 8
    content = key[at:at + length]
    value = int.from_bytes(content.translate(TURNED) if is_negative else content, "big")
    return -value if is_negative else value, at + length


def _take_decimal(key: bytes, at: int) -> tuple[Decimal, int]:
    head = key[at]
    if head == 128:
        return Decimal(0), at + 1
    sign = int(head < 128)
    end = at + 1
    if sign:  # the place of a negative one is turned over as a whole
        key = key[:at] + key[at:].translate(TURNED)
    place, end = _take_int(key, end)
    stop = key.index(b"\x00", end)
    digits = "".join(f"{pair - 1:02}" for pair in key[end:stop]).rstrip("0")
    return Decimal((sign, tuple(map(int, digits)), place - len(digits))), stop + 1

_NO_PARTITION: Final = partition_key(())
