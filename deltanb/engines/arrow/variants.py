"""Variants stored in pieces ("shredded"), put together again.

What lives here: the way from a Parquet group with ``typed_value`` to the two binaries of a variant, by
VariantShredding.md and VariantEncoding.md of apache/parquet-format, and the encoding that it takes.
What it does not know: files, columns, and what a variant means.

A variant is made anew, as Spark makes it: its names are those it uses, in the order in which they are
met, and an integer takes the fewest bytes. So both engines give the same bytes for the same row (but for
objects with names on both sides of U+FFFF, whose fields Spark does not put in the specification's order).
A row without pieces in a file that has some is made anew, too; a file without is read as it is.

>>> stored = pa.array([{"metadata": b"\\x01\\0\\0", "value": None, "typed_value": 300}], pa.struct({
...     "metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.int64()}))
>>> values, metadata = put_together(stored)
>>> values, metadata
([b'\\x10,\\x01'], [b'\\x01\\x00\\x00'])
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as t

__all__ = ["MalformedVariant", "check_shredding", "filled", "put_together", "with_parts"]

NULL = b"\x00"
"""The variant null: what stands where a value is missing and must not be."""
NO_NAMES = b"\x01\x00\x00"
"""Metadata without names."""
MAX_SHORT = 63  # bytes of a text that fits beside its length in one byte
_OBJECT, _ARRAY = 2, 3  # basic types beside the primitive ones and short texts

# Primitive types by number: bytes of a value, its header included; None where a length follows.
_SIZES: dict[int, int | None] = {
    0: 1, 1: 1, 2: 1, 3: 2, 4: 3, 5: 5, 6: 9, 7: 9, 8: 6, 9: 10, 10: 18, 11: 5, 12: 9, 13: 9, 14: 5,
    15: None, 16: None, 17: 9, 18: 9, 19: 9, 20: 17,
}


class MalformedVariant(ValueError):
    """The bytes, or the pieces, are those of no variant."""


def put_together(array: pa.StructArray) -> tuple[list[bytes], list[bytes]]:
    """The values and the metadata of a shredded column; those of a variant null where a row has none.

    ``array`` has ``metadata`` and ``typed_value``, and perhaps ``value``.

    Raises:
        MalformedVariant: with the number of the row, counted from zero in the array.
    """
    whole = _bound(array)
    names = array.field("metadata").to_pylist()
    dictionaries: dict[bytes, list[bytes]] = {}
    made: dict[tuple[bytes, ...], bytes] = {}
    values, metadata = [], []
    for row, (is_valid, own) in enumerate(zip(array.is_valid().to_pylist(), names, strict=True)):
        if not is_valid:
            values.append(NULL)
            metadata.append(NO_NAMES)
            continue
        try:
            if own is None:
                raise MalformedVariant("it has no metadata")
            if own not in dictionaries:
                dictionaries[own] = _names(own)
            making = _Making(dictionaries[own])
            value = _rebuilt(whole, row, making)
        except (MalformedVariant, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise MalformedVariant(f"row {row}: {why}") from None
        values.append(NULL if value is None else value)
        used = tuple(making.keys)
        if used not in made:
            made[used] = _metadata(used)
        metadata.append(made[used])
    return values, metadata


def with_parts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with something in both binaries of a variant that is NULL: they are required ones in a file.

    >>> kind = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
    >>> rows = with_parts(pa.record_batch([pa.nulls(2, kind)], names=["v"]))
    >>> rows.column(0).to_pylist(), rows.column(0).field("value").to_pylist()
    ([None, None], [b'', b''])
    """
    return pa.RecordBatch.from_arrays([filled(column) for column in rows.columns], schema=rows.schema)


def filled(array: pa.Array) -> pa.Array:
    """One column of :func:`with_parts`."""
    if t.is_list(array.type):
        return _of_elements(array, array.values)
    if t.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        return _of_elements(array, pa.StructArray.from_arrays([array.keys, array.items], fields=fields))
    if not t.is_struct(array.type):
        return array
    parts = [array.field(place) for place in range(array.type.num_fields)]
    made = [filled(part) if field.nullable or not t.is_binary(field.type) or not part.null_count
            else part.fill_null(b"") for part, field in zip(parts, array.type, strict=True)]
    if all(one is other for one, other in zip(made, parts, strict=True)):
        return array
    # A mask without a null is one too many for the entries of a map: pyarrow 25 aborts the process.
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(made, fields=list(array.type), mask=mask)


def _of_elements(array: pa.Array, elements: pa.Array) -> pa.Array:
    """The lists or maps with their elements so; ``elements`` are those of the whole of a sliced array."""
    made = filled(elements)
    return array if made is elements else pa.Array.from_buffers(
        array.type, len(array), array.buffers()[:2], offset=array.offset, children=[made])


def check_shredding(stored: pa.StructType) -> None:
    """Whether a column of this type can be put together.

    Raises:
        MalformedVariant: a part is missing, or of a type that no variant has.
    """
    names = [field.name for field in stored]
    if "metadata" in names and not _is_binary(stored.field("metadata").type):
        raise MalformedVariant("its metadata is not binary")
    _check(stored)


def _check(stored: pa.DataType) -> None:
    names = [field.name for field in stored] if t.is_struct(stored) else []
    if len(set(names)) < len(names) or not {"value", "typed_value"}.intersection(names):
        raise MalformedVariant("a piece has neither value nor typed_value")
    if "value" in names and not _is_binary(stored.field("value").type):
        raise MalformedVariant("a value is not binary")
    if "typed_value" in names:
        typed = _plain(stored.field("typed_value").type)
        if t.is_struct(typed):
            for field in typed:
                _check(field.type)
        elif _is_list(typed):
            _check(typed.value_type)
        else:
            _encoder(typed)


# --- pieces ---------------------------------------------------------------------------------------

@dataclass
class _Piece:
    """One group of a batch as Python values; of ``scalar``, ``fields`` and ``items`` at most one is there.

    ``value`` holds encoded variants, ``scalar`` encoded values of the typed column. ``is_typed`` says
    where an object or array is; ``items`` are (piece of the elements, bounds of each row in it).
    """

    value: list[bytes | None] | None = None
    scalar: list[bytes | None] | None = None
    is_typed: list[bool] | None = None
    fields: Sequence[tuple[bytes, _Piece, list[bool]]] | None = None
    items: tuple[_Piece, list[int]] | None = None


@dataclass
class _Making:
    """The variant that is being made.

    ``names`` are those of the stored one, by number; ``keys`` those that are used by now, with their new
    numbers. ``left`` is how many more values may be copied of an encoded one: each has a byte of its own.
    """

    names: list[bytes]
    keys: dict[bytes, int] = field(default_factory=dict)
    left: int = 0


def _bound(array: pa.StructArray) -> _Piece:
    names = [field.name for field in array.type]
    piece = _Piece()
    if "value" in names:
        piece.value = array.field("value").to_pylist()
    if "typed_value" not in names:
        return piece
    typed = array.field("typed_value")
    if isinstance(typed.type, pa.BaseExtensionType):
        typed = typed.storage
    if t.is_struct(typed.type):
        piece.is_typed = typed.is_valid().to_pylist()
        children = [typed.field(place) for place in range(typed.type.num_fields)]
        piece.fields = [(one.name.encode(), _bound(child), child.is_valid().to_pylist())
                        for one, child in zip(typed.type, children, strict=True)]
    elif _is_list(typed.type):
        piece.is_typed = typed.is_valid().to_pylist()
        piece.items = _bound(typed.values), typed.offsets.to_pylist()
    else:
        encode = _encoder(typed.type)
        piece.scalar = [None if value is None else encode(value)
                        for value in _countable(typed).to_pylist()]
    return piece


def _rebuilt(piece: _Piece, row: int, making: _Making) -> bytes | None:
    """The encoded value of a row, None where it is missing."""
    rest = None if piece.value is None else piece.value[row]
    if piece.scalar is not None and (scalar := piece.scalar[row]) is not None:
        return scalar
    if piece.is_typed is not None and piece.is_typed[row]:
        if piece.items is not None:
            elements, bounds = piece.items
            elements_of = (_rebuilt(elements, place, making) for place in range(bounds[row], bounds[row + 1]))
            return _array([NULL if element is None else element for element in elements_of])
        return _object(_entries(piece, row, rest, making))
    if rest is None:
        return None
    making.left = len(rest)
    return _copied(rest, 0, making)


def _entries(
    piece: _Piece, row: int, rest: bytes | None, making: _Making
) -> Iterator[tuple[bytes, int, bytes]]:
    """(name, its number, value) of each field: of those in pieces, then of those beside them."""
    assert piece.fields is not None
    keys = making.keys
    for name, part, is_present in piece.fields:
        if not is_present[row]:
            raise MalformedVariant(f"the piece {name.decode()!r} of an object is NULL")
        number = keys.get(name)
        mark = len(keys)
        if number is None:
            number = keys[name] = mark  # before those inside of it
        value = _rebuilt(part, row, making)
        if value is not None:
            yield name, number, value
        elif number == mark:
            del keys[name]
    if rest is not None:
        if rest[:1] == b"" or rest[0] & 3 != _OBJECT:
            raise MalformedVariant("an object has a value beside its pieces that is not an object")
        shredded = {name for name, _, _ in piece.fields}
        making.left = len(rest)
        for name, number, value in _fields(rest, 0, making):
            if name in shredded:
                raise MalformedVariant(f"the field {name.decode()!r} is there twice")
            yield name, number, value


# --- values that are encoded ----------------------------------------------------------------------

def _copied(value: bytes, at: int, making: _Making) -> bytes:
    """The value that begins at a place, with its names numbered anew."""
    header = _byte(value, at)
    making.left -= 1
    if making.left < 0:
        raise MalformedVariant("its parts overlap")
    basic = header & 3
    if basic == _OBJECT:
        return _object(_fields(value, at, making))
    if basic == _ARRAY:
        _, offsets, start = _layout(value, at)
        return _array([_copied(value, start + offset, making) for offset in offsets[:-1]])
    size: int | None = 1 + (header >> 2)
    if basic == 0:
        if header >> 2 not in _SIZES:
            raise MalformedVariant(f"there is no primitive type {header >> 2}")
        size = _SIZES[header >> 2]
        if size is None:
            size = 5 + _number(value, at + 1, 4)
    assert size is not None
    if at + size > len(value):
        raise MalformedVariant("it ends too early")
    return value[at:at + size]


def _fields(value: bytes, at: int, making: _Making) -> Iterator[tuple[bytes, int, bytes]]:
    """(name, its new number, value) of the fields of an encoded object."""
    numbers, offsets, start = _layout(value, at)
    for number, offset in zip(numbers, offsets, strict=False):
        if number >= len(making.names):
            raise MalformedVariant(f"a field has the name number {number} of {len(making.names)}")
        name = making.names[number]
        own = making.keys.setdefault(name, len(making.keys))
        yield name, own, _copied(value, start + offset, making)


def _layout(value: bytes, at: int) -> tuple[list[int], list[int], int]:
    """(numbers of names, offsets and the end, where the values begin) of an object or array."""
    header = _byte(value, at) >> 2
    is_object = value[at] & 3 == _OBJECT
    is_large = header >> 4 & 1 if is_object else header >> 2 & 1
    width, number_width = 1 + (header & 3), 1 + (header >> 2 & 3)
    count = _number(value, at + 1, 4 if is_large else 1)
    at += 5 if is_large else 2
    if (count + 1) * width > len(value) - at:
        raise MalformedVariant("it ends too early")
    numbers = []
    if is_object:
        numbers = [_number(value, at + place * number_width, number_width) for place in range(count)]
        at += count * number_width
    offsets = [_number(value, at + place * width, width) for place in range(count + 1)]
    return numbers, offsets, at + (count + 1) * width


def _names(metadata: bytes) -> list[bytes]:
    """The names in the metadata of a variant, by number."""
    header = _byte(metadata, 0)
    if header & 15 != 1:
        raise MalformedVariant(f"its metadata has version {header & 15}")
    width = 1 + (header >> 6)
    count = _number(metadata, 1, width)
    if (count + 2) * width > len(metadata) - 1:
        raise MalformedVariant("its metadata ends too early")
    offsets = [_number(metadata, 1 + (1 + place) * width, width) for place in range(count + 1)]
    start = 1 + (count + 2) * width
    if sorted(offsets) != offsets or start + offsets[-1] > len(metadata):
        raise MalformedVariant("the names in its metadata overlap")
    names = [metadata[start + low:start + high] for low, high in pairwise(offsets)]
    try:
        b"\n".join(names).decode()
    except UnicodeDecodeError as error:
        raise MalformedVariant(f"a name in its metadata is not text: {error}") from None
    return names


def _byte(data: bytes, at: int) -> int:
    return _number(data, at, 1)


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise MalformedVariant("it ends too early")
    return int.from_bytes(data[at:at + width], "little")


# --- encoding -------------------------------------------------------------------------------------

def _object(entries: Iterable[tuple[bytes, int, bytes]]) -> bytes:
    fields, at, parts, highest = [], 0, [], 0
    for name, number, value in entries:
        fields.append((name, number, at))
        parts.append(value)
        at += len(value)
        highest = max(highest, number)
    fields.sort()
    for one, other in pairwise(fields):
        if one[0] == other[0]:
            raise MalformedVariant(f"the field {one[0].decode()!r} is there twice")
    numbers = [number for _, number, _ in fields]
    offsets = [offset for _, _, offset in fields]
    count, number_width, width = len(fields), _width(highest), _width(at)
    header = (number_width - 1) << 4 | (width - 1) << 2 | _OBJECT
    start = bytes([header, count]) if count <= 255 else (
        bytes([header | 1 << 6]) + count.to_bytes(4, "little"))
    return b"".join([start, _packed(numbers, number_width), _packed(offsets, width),
                     at.to_bytes(width, "little"), *parts])


def _packed(numbers: Iterable[int], width: int) -> bytes:
    if width == 1:
        return bytes(numbers)
    return b"".join([number.to_bytes(width, "little") for number in numbers])


def _array(elements: list[bytes]) -> bytes:
    offsets = [0]
    for element in elements:
        offsets.append(offsets[-1] + len(element))
    count, width = len(elements), _width(offsets[-1])
    header = (width - 1) << 2 | _ARRAY
    start = bytes([header, count]) if count <= 255 else (
        bytes([header | 1 << 4]) + count.to_bytes(4, "little"))
    return b"".join([start, _packed(offsets, width), *elements])


def _metadata(names: Sequence[bytes]) -> bytes:
    offsets = [0]
    for name in names:
        offsets.append(offsets[-1] + len(name))
    width = _width(max(offsets[-1], len(names)))
    return b"".join([bytes([1 | (width - 1) << 6]), _packed([len(names), *offsets], width), *names])


def _width(number: int) -> int:
    return 1 if number < 256 else (number.bit_length() + 7) // 8


def _encoder(stored: pa.DataType) -> Callable[[Any], bytes]:
    """How values of :func:`_countable` arrays of a type are encoded.

    Raises:
        MalformedVariant: no variant has the type.
    """
    if t.is_boolean(stored):
        return lambda value: b"\x04" if value else b"\x08"
    if t.is_signed_integer(stored):
        return _integer
    if t.is_float32(stored):
        return lambda value: b"\x38" + struct.pack("<f", value if value == value else float("nan"))
    if t.is_float64(stored):
        return lambda value: b"\x1c" + struct.pack("<d", value if value == value else float("nan"))
    if t.is_decimal(stored) and stored.precision <= 38 and stored.scale >= 0:
        return lambda value: _decimal(value, stored.scale)
    if t.is_date32(stored):
        return lambda value: b"\x2c" + value.to_bytes(4, "little", signed=True)
    if t.is_timestamp(stored) and stored.unit in ("us", "ns"):
        number = {"us": 12, "ns": 18}[stored.unit] + (stored.tz is None)
        return lambda value: bytes([number << 2]) + value.to_bytes(8, "little", signed=True)
    if t.is_time64(stored) and stored.unit == "us":
        return lambda value: b"\x44" + value.to_bytes(8, "little", signed=True)
    if t.is_string(stored) or t.is_large_string(stored):
        return lambda value: _text(value.encode())
    if _is_binary(stored):
        return lambda value: b"\x3c" + len(value).to_bytes(4, "little") + value
    if t.is_fixed_size_binary(stored) and stored.byte_width == 16:
        return lambda value: b"\x50" + value
    raise MalformedVariant(f"no variant has values of the type {stored}")


def _integer(value: int) -> bytes:
    for header, width in ((b"\x0c", 1), (b"\x10", 2), (b"\x14", 4), (b"\x18", 8)):
        if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            return header + value.to_bytes(width, "little", signed=True)
    raise MalformedVariant(f"{value} has more than 64 bits")


def _decimal(value: Decimal, scale: int) -> bytes:
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    precision = len(str(abs(unscaled)))
    for header, width, most in ((b"\x20", 4, 9), (b"\x24", 8, 18), (b"\x28", 16, 38)):
        if precision <= most and scale <= most:
            return header + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)
    raise MalformedVariant(f"{value} has more than 38 digits")


def _text(value: bytes) -> bytes:
    if len(value) <= MAX_SHORT:
        return bytes([len(value) << 2 | 1]) + value
    return b"\x40" + len(value).to_bytes(4, "little") + value


# --- types ----------------------------------------------------------------------------------------

def _countable(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers that a variant has of them."""
    if t.is_date32(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if t.is_timestamp(array.type) or t.is_time64(array.type) else array


def _plain(stored: pa.DataType) -> pa.DataType:
    return stored.storage_type if isinstance(stored, pa.BaseExtensionType) else stored


def _is_binary(stored: pa.DataType) -> bool:
    return bool(t.is_binary(stored) or t.is_large_binary(stored))


def _is_list(stored: pa.DataType) -> bool:
    return bool(t.is_list(stored) or t.is_large_list(stored))
