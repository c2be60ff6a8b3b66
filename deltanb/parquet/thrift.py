"""Thrift's compact protocol, by tables: structures are read into dictionaries, and written from them.

What lives here: :class:`Structure`, a table of the fields that somebody looks at. All others are kept as the
bytes that they are, so that what was read is written again with nothing lost.
What it does not know: which structures there are (``format``).

pyarrow reads footers, too, and is asked for all that it can answer; it neither gives the fields of one to be
changed, nor page headers, nor survives a footer that contradicts itself.

In this protocol a field is a byte (how far its number is from the last one, and its type) and a value.
"""

from __future__ import annotations

import re
from typing import Any

from deltanb.concurrency.precedence import yield_to_commits

__all__ = ["BINARY", "BOOLEAN", "I16", "I32", "I64", "LIST", "STRUCT", "Structure", "Values", "unread"]

MAX_DEPTH = 64
"""Structures inside structures: a footer has 6; beyond, it is a bomb."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Types of values."""
BOOLEAN = TRUE
"""Of a list; elsewhere a boolean is part of its field."""

Values = dict[Any, Any]
"""The fields of a structure: integers, bytes, structures and lists by their names; one that is in no table as
bytes, by :func:`unread`."""


class Structure:
    """The fields of a structure by their names: number, and type (:data:`I16`, :data:`I32`, :data:`I64`,
    :data:`BINARY`, a structure, or one of these or :data:`BOOLEAN` in a list).

    >>> point = Structure(x=(1, I32), y=(2, I64))
    >>> point.write({"x": 1, "y": -300})
    b'\\x15\\x02\\x16\\xd7\\x04\\x00'
    >>> Structure(y=(2, I64)).read(_)
    ({21: b'\\x02', 'y': -300}, 6)
    """

    def __init__(self, **fields: tuple[int, Any]) -> None:
        self._write = {name: (number, *_kinds(kind)) for name, (number, kind) in fields.items()}
        self.names = frozenset(fields)
        self._read = {number << 4 | kind: (name, inner)
                      for name, (number, kind, inner) in self._write.items()}

    def read(self, data: bytes, position: int = 0) -> tuple[Values, int]:
        """The structure at a position, and where it ends. A field of another type than the table's counts as
        one that is in no table.

        Raises:
            IndexError: the bytes end before it does.
            ValueError: it is none.
        """
        values: Values = {}
        number, fields = 0, self._read
        while head := data[position]:
            position += 1
            kind = head & 15
            if head > 15:
                number += head >> 4
            else:
                number, position = _integer(data, position)
            name: Any = number << 4 | kind
            value: Any
            field = fields.get(name)
            if field is None:
                begin = position
                if kind > FALSE:  # a boolean is part of its field
                    position = _skip(data, position, kind)
                value = data[begin:position]
            elif kind <= I64:
                byte = data[position]  # as _integer, without its calls
                value, shift, position = byte & 0x7F, 7, position + 1
                while byte > 0x7F and shift <= 63:
                    byte = data[position]
                    value |= (byte & 0x7F) << shift
                    shift += 7
                    position += 1
                if byte > 0x7F:
                    raise ValueError("it holds a number that is too long")
                value = (value >> 1) ^ -(value & 1)
            elif kind == STRUCT:
                value, position = field[1].read(data, position)
            elif kind == BINARY:
                length, begin = _length(data, position)
                position = begin + length
                value = data[begin:position]
            else:
                value, position = _list(data, position, field[1])
            if field is not None:
                name = field[0]
            if name in values:
                raise ValueError(f"it has the field {number} twice")
            values[name] = value
        return values, position + 1

    def write(self, values: Values) -> bytes:
        """The bytes of a structure."""
        pieces: list[bytes] = []
        last, fields = 0, self._write
        for name, value in values.items():
            if name in fields:
                number, kind, inner = fields[name]
                value = _bytes_of(kind, inner, value)
            else:
                number, kind = name >> 4, name & 15
            delta = number - last
            pieces.append(_BYTES[delta << 4 | kind] if 0 < delta < 16 else _BYTES[kind] + integer(number))
            pieces.append(value)
            last = number
        return b"".join((*pieces, b"\0"))


_BYTES = [bytes((byte,)) for byte in range(256)]


def unread(number: int, kind: int) -> int:
    """The key of a field that is in no table."""
    return number << 4 | kind


def _kinds(kind: Any) -> tuple[int, Any]:
    """The type of a field, and what it holds: a structure, or the type and structure of a list's elements."""
    if isinstance(kind, list):
        return LIST, _kinds(kind[0])
    return (STRUCT, kind) if isinstance(kind, Structure) else (kind, None)


# -- reading -----------------------------------------------------------------------------------


def _list(data: bytes, position: int, element: tuple[int, Any]) -> tuple[list[Any], int]:
    kind, inner = element
    values = []
    head = data[position]
    count, position = head >> 4, position + 1
    if count == 15:
        count, position = _length(data, position)
    if count and head & 15 != kind and (kind != BOOLEAN or head & 15 != FALSE):
        raise ValueError("it has a list of something else")
    for _ in range(count):
        value: Any
        if kind == STRUCT:
            yield_to_commits()
            value, position = inner.read(data, position)
        elif kind == BINARY:
            length, begin = _length(data, position)
            position = begin + length
            value = data[begin:position]
        elif kind == BOOLEAN:
            value, position = data[position] == TRUE, position + 1
        else:
            value, position = _integer(data, position)
        values.append(value)
    return values, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("it holds a number that is too long")


def _length(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    if value < 0x80:
        return value, position + 1
    return _varint(data, position)


def _integer(data: bytes, position: int) -> tuple[int, int]:
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position


# Fields that are integers, as many as there are, even none: of it, match() always finds something.
_INTEGERS: Any = re.compile(b"(?:[%b][\x80-\xff]*[\x00-\x7f])*" % re.escape(
    bytes(delta << 4 | kind for delta in range(1, 16) for kind in (I16, I32, I64))))


def _skip(data: bytes, position: int, kind: int, depth: int = 0) -> int:
    """The position behind a value."""
    if I16 <= kind <= I64:
        while data[position] & 0x80:
            position += 1
        return position + 1
    if kind == BINARY:
        length, position = _length(data, position)
        return position + length
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if kind in (LIST, SET):
        head = data[position]
        count, position = head >> 4, position + 1
        if count == 15:
            count, position = _length(data, position)
        return _skip_many(data, position, (head & 15,), count, depth)
    if kind == STRUCT:
        position = _INTEGERS.match(data, position).end()
        while head := data[position]:
            position += 1
            if head < 16:
                _, position = _integer(data, position)
            position = _INTEGERS.match(data, _skip(data, position, head & 15, depth + 1)).end()
        return position + 1
    if kind == MAP:
        count, position = _length(data, position)
        if not count:
            return position
        head = data[position]
        return _skip_many(data, position + 1, (head >> 4, head & 15), count, depth)
    if kind in (TRUE, FALSE):
        return position
    if kind == BYTE:
        return position + 1
    if kind == DOUBLE:
        return position + 8
    raise ValueError(f"it holds a value of the type {kind}, which does not exist")


def _skip_many(data: bytes, position: int, kinds: tuple[int, ...], count: int, depth: int) -> int:
    if count > len(data):
        raise ValueError("it names a length beyond its end")
    kind = kinds[0]
    if len(kinds) == 1 and I16 <= kind <= I64:
        for _ in range(count):
            while data[position] & 0x80:
                position += 1
            position += 1
        return position
    if kinds == (BINARY,):
        for _ in range(count):
            length = data[position]
            if length < 0x80:
                position += 1 + length
            else:
                length, position = _length(data, position)
                position += length
        return position
    for _ in range(count):
        for kind in kinds:
            # In a list, a boolean is a byte; elsewhere it is part of its field.
            position = position + 1 if kind in (TRUE, FALSE) else _skip(data, position, kind, depth + 1)
    return position


# -- writing -----------------------------------------------------------------------------------


def _bytes_of(kind: int, inner: Any, value: Any) -> bytes:
    if kind == STRUCT:
        return bytes(inner.write(value))
    if kind == BINARY:
        return unsigned(len(value)) + bytes(value)
    if kind == BOOLEAN:
        return _BYTES[TRUE if value else FALSE]
    if kind != LIST:
        return integer(value)
    head = bytes((len(value) << 4 | inner[0],)) if len(value) < 15 else (
        bytes((0xF0 | inner[0],)) + unsigned(len(value)))
    return head + b"".join([_bytes_of(inner[0], inner[1], one) for one in value])


def integer(value: int) -> bytes:
    """An integer as a field's value."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def unsigned(value: int) -> bytes:
    """A length."""
    if value < 0x80:
        return _BYTES[value]
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
