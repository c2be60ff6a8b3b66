"""Arrays of a data file made into arrays of the table's present schema.

What lives here: how a wanted field finds its column in a file (by name or by id), which stored
types may stand for which present ones (type widening, older encodings), and the rebuilding of
nested arrays.
What it does not know: files, rows, partitions, deletion vectors.

A conversion is compiled once for the schema of a file and then applied to each of its batches. A
type that cannot be converted without guessing is refused with file, column and both types named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.concurrency.memory import pool
from deltanb.engines.arrow import intervals
from deltanb.engines.arrow.variants import (
    NO_NAMES,
    NULL,
    MalformedVariant,
    check_shredding,
    put_together,
)
from deltanb.errors import InvalidTable, UnsupportedProtocol
from deltanb.schema.column_mapping import PARQUET_ID, field_id, physical_name
from deltanb.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
)

__all__ = ["Place", "as_stored", "check_type_changes", "compile_conversion", "find_field"]

Conversion = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Place:
    """Where a conversion happens, for errors: the data file and the column in it."""

    file: str
    column: str = ""

    def inside(self, name: str) -> Place:
        """The place of a part of this column."""
        return replace(self, column=f"{self.column}.{name}" if self.column else name)


def find_field(
    stored: Sequence[pa.Field], sought: StructField, mode: str, place: Place
) -> int | None:
    """The index of the field that holds ``sought``, or None where the file has none: it is NULL.

    By id in mode ``id`` where the field has one; else by physical name, the exact one or the only other in
    another case.

    Raises:
        InvalidTable: two fields differ from the name in case only; in mode ``id``: no field has
            an id.
    """
    if mode == "id":
        ids = [_id_of(field) for field in stored]
        if stored and all(number is None for number in ids):
            raise InvalidTable(
                f"the data file {place.file!r} has no field ids, by which its table finds columns: "
                "it was written without regard to column mapping; rewrite it from its source",
                file=place.file)
        number = field_id(sought)
        if number is not None:
            return ids.index(number) if number in ids else None
    name = physical_name(sought, mode)
    names = [field.name for field in stored]
    if name in names:
        return names.index(name)
    close = [index for index, other in enumerate(names) if other.lower() == name.lower()]
    if len(close) > 1:
        raise InvalidTable(
            f"column {name!r} could be any of {[names[index] for index in close]} in the data file "
            f"{place.file!r}: rewrite the file with names that differ by more than case",
            file=place.file, column=name)
    return close[0] if close else None


def compile_conversion(
    stored: pa.DataType, data_type: DataType, mode: str, place: Place
) -> Conversion | None:
    """How arrays of type ``stored`` become arrays of ``arrow_type(data_type)``; None: they are.

    Raises:
        InvalidTable: the stored type cannot stand for the wanted one.
        UnsupportedProtocol: a type, or a storage of it, that this library does not read.
    """
    if isinstance(stored, pa.BaseExtensionType):
        return _after(_storage, compile_conversion(stored.storage_type, data_type, mode, place))
    if t.is_dictionary(stored):
        flat = stored.value_type
        return _after(
            lambda a: a.cast(flat, memory_pool=pool()), compile_conversion(flat, data_type, mode, place))
    target = arrow_type(data_type, place.column)
    if t.is_null(stored) and not t.is_null(target):
        return lambda a: pa.nulls(len(a), target)
    match data_type:
        case StructType() if t.is_struct(stored):
            return _struct(stored, data_type, target, mode, place)
        case ArrayType() if _is_list(stored):
            return _list(stored, data_type, target, mode, place)
        case MapType() if t.is_map(stored):
            return _map(stored, data_type, target, mode, place)
        case PrimitiveType("variant") if t.is_struct(stored):
            return _variant(stored, target, place)
        case PrimitiveType():
            return None if stored.equals(target) else _primitive(stored, data_type, target, place)
    raise _mismatch(stored, data_type, place)


def as_stored(table: StructType, stored: StructType) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What makes rows of a table those of a file, where these are of other types
    (:func:`deltanb.schema.column_mapping.in_files`)."""
    schema = stored.to_arrow()
    steps = [compile_conversion(field.type, logical.type, "none", Place("", logical.name))
             for field, logical in zip(table.to_arrow(), stored.fields, strict=True)]

    def convert(rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_apply(step, column) for step, column in zip(steps, rows.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return convert


# ---------------------------------------------------------------------------- nested types


def _struct(
    stored: pa.StructType, struct: StructType, target: pa.StructType, mode: str, place: Place
) -> Conversion | None:
    fields = list(stored)
    sources = [find_field(fields, field, mode, place) for field in struct.fields]
    inner = [
        None if index is None
        else compile_conversion(fields[index].type, field.type, mode, place.inside(field.name))
        for index, field in zip(sources, struct.fields, strict=True)
    ]
    if stored.equals(target) and sources == list(range(len(fields))) and not any(inner):
        return None

    def convert(array: pa.StructArray) -> pa.Array:
        children = [
            pa.nulls(len(array), field.type) if index is None else _apply(part, array.field(index))
            for index, part, field in zip(sources, inner, target, strict=True)
        ]
        return _struct_of(array, children, target)

    return convert


def _struct_of(array: pa.Array, children: list[pa.Array], target: pa.StructType) -> pa.Array:
    if not children:  # from_arrays could not know the length
        empty = pa.array([{}] * len(array), target)
        return pc.if_else(array.is_valid(), empty, pa.nulls(len(array), target))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(
    stored: pa.DataType, array_type: ArrayType, target: pa.ListType, mode: str, place: Place
) -> Conversion | None:
    element = compile_conversion(stored.value_type, array_type.element_type, mode,
                                 place.inside("element"))
    if stored.equals(target) and element is None:
        return None
    plain = pa.list_(stored.value_field)

    def convert(array: pa.Array) -> pa.Array:
        source = array if t.is_list(array.type) else array.cast(plain)
        return pa.ListArray.from_buffers(
            target, len(source), source.buffers()[:2], source.null_count, source.offset,
            [_apply(element, source.values)])

    return convert


def _map(
    stored: pa.MapType, map_type: MapType, target: pa.MapType, mode: str, place: Place
) -> Conversion | None:
    key = compile_conversion(stored.key_type, map_type.key_type, mode, place.inside("key"))
    value = compile_conversion(stored.item_type, map_type.value_type, mode, place.inside("value"))
    if stored.equals(target) and key is None and value is None:
        return None

    def convert(array: pa.MapArray) -> pa.Array:
        entries = pa.StructArray.from_arrays(
            [_apply(key, array.keys), _apply(value, array.items)],
            fields=[target.key_field, target.item_field])
        return pa.MapArray.from_buffers(
            target, len(array), array.buffers()[:2], array.null_count, array.offset, [entries])

    return convert


def _variant(stored: pa.StructType, target: pa.StructType, place: Place) -> Conversion | None:
    names = [field.name for field in stored]
    if {"metadata", "typed_value"} <= set(names):
        return _shredded(stored, target, place)
    if not {"metadata", "value"} <= set(names):
        raise _mismatch(stored, PrimitiveType("variant"), place)
    if stored.equals(target):
        return None
    sources = [names.index(field.name) for field in target]
    nothing = {"value": NULL, "metadata": NO_NAMES}  # also below NULL: neither of them may be NULL

    def convert(array: pa.StructArray) -> pa.Array:
        if pc.any(pc.and_(array.is_valid(), array.field("metadata").is_null())).as_py():
            raise _no_variant(MalformedVariant("it has no metadata"), place)
        children = [array.field(i).cast(pa.binary()) for i in sources]
        filled = [child.fill_null(nothing[field.name])
                  for child, field in zip(children, target, strict=True)]
        return _struct_of(array, filled, target)

    return convert


def _shredded(stored: pa.StructType, target: pa.StructType, place: Place) -> Conversion:
    """A variant in pieces (PROTOCOL.md, "Variant Shredding")."""
    try:
        check_shredding(stored)
    except MalformedVariant as error:
        raise _no_variant(error, place) from None

    def convert(array: pa.StructArray) -> pa.Array:
        try:
            parts = dict(zip(("value", "metadata"), put_together(array), strict=True))
        except MalformedVariant as error:
            raise _no_variant(error, place) from None
        return _struct_of(array, [pa.array(parts[field.name], field.type) for field in target], target)

    return convert


def _no_variant(error: MalformedVariant, place: Place) -> InvalidTable:
    return InvalidTable(
        f"column {place.column!r} of the data file {place.file!r} is stored in pieces that do not form a "
        f"variant: {error}. Read the other columns with columns=[...].", file=place.file, column=place.column)


# ---------------------------------------------------------------------------- primitive types

# Digits that the integers of so many bits have, and so a decimal that holds them before its point.
# Today's rule asks for 10 even of a byte; tables of the feature's preview have fewer.
_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _primitive(
    stored: pa.DataType, primitive: PrimitiveType, target: pa.DataType, place: Place
) -> Conversion:
    """A cast that keeps every value, or fails; which ones exist is PROTOCOL.md's "Type Widening"
    and the encodings that writers of Parquet have used for the same type."""
    if t.is_interval(target) or t.is_interval(stored):
        convert = intervals.conversion(stored, target)
        if convert is not None:
            return convert
    elif t.is_duration(target) or t.is_duration(stored):
        if {stored.bit_width, target.bit_width} == {64} and (
                t.is_integer(stored) or t.is_duration(stored)):
            return lambda a: _checked(pc.cast, a, target, place)
    elif t.is_timestamp(target):
        if t.is_timestamp(stored) or (t.is_date(stored) and target.tz is None):
            return lambda a: _checked(_to_timestamp, a, target, place)
    elif _may_cast(stored, target):
        return lambda a: _checked(pc.cast, a, target, place)
    raise _mismatch(stored, primitive, place)


def _may_cast(stored: pa.DataType, target: pa.DataType) -> bool:
    if t.is_null(target):  # a void column that became a file's column by mistake holds only NULL
        return True
    if t.is_integer(target):  # plain INT32 may hold bytes and shorts; what does not fit fails
        return bool(t.is_integer(stored))
    if t.is_floating(target):
        if t.is_integer(stored):
            return bool(t.is_float64(target) and stored.bit_width <= 32)
        return bool(t.is_floating(stored) and stored.bit_width <= target.bit_width)
    if t.is_decimal(target):
        whole = target.precision - target.scale
        if t.is_integer(stored):
            return whole >= _WHOLE_DIGITS[stored.bit_width]
        return bool(t.is_decimal(stored) and stored.scale <= target.scale
                    and stored.precision - stored.scale <= whole)
    if t.is_string(target) or t.is_binary(target):
        return bool(t.is_large_string(stored) or t.is_large_binary(stored) or t.is_string(stored)
                    or t.is_binary(stored) or t.is_fixed_size_binary(stored)
                    or t.is_string_view(stored) or t.is_binary_view(stored))
    return bool(t.is_date(target) and t.is_date(stored))


def _to_timestamp(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    if t.is_timestamp(array.type) and array.type.unit == "ns" and target.unit != "ns":
        array = pc.floor_temporal(array, unit="microsecond")  # a cast would refuse the rest
    if t.is_timestamp(array.type) and array.type.tz not in (None, "UTC"):
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))  # the same instants
    # From here on a change of zone is a change of label: INT96 has none and means UTC.
    return array.cast(target)


def _checked(cast: Callable[[pa.Array, Any], pa.Array], array: pa.Array, target: pa.DataType,
             place: Place) -> pa.Array:
    try:
        return cast(array, target)
    except pa.ArrowInvalid as error:
        raise InvalidTable(
            f"column {place.column!r} of the data file {place.file!r} has a value that is not of type "
            f"{target}: {error}. Read the other columns with columns=[...].",
            file=place.file, column=place.column) from error


# ---------------------------------------------------------------------------- type changes


def check_type_changes(fields: Iterable[StructField], path: str = "") -> None:
    """Refuse columns with a recorded type change that is none of the supported ones.

    PROTOCOL.md, "Reader Requirements for Type Widening".

    Raises:
        UnsupportedProtocol: names the column and the change.
    """
    for field in fields:
        name = f"{path}.{field.name}" if path else field.name
        for change in field.metadata.get("delta.typeChanges") or ():
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not _is_supported_change(before, after):
                raise UnsupportedProtocol(
                    f"column {name!r} was changed from {before} to {after}, which this version of "
                    "deltanb cannot convert; read the other columns with columns=[...]",
                    features=("typeWidening",), column=name)
        for part in _structs_in(field.type):
            check_type_changes(part.fields, name)


def _is_supported_change(before: str, after: str) -> bool:
    if before == after or before == "void":
        return True
    if (before, after) == ("date", "timestamp_ntz"):
        return True
    try:
        stored, target = arrow_type(PrimitiveType(before)), arrow_type(PrimitiveType(after))
    except UnsupportedProtocol:
        return False
    if t.is_integer(stored) and t.is_integer(target):
        return bool(stored.bit_width <= target.bit_width)
    return (t.is_floating(target) or t.is_decimal(target)) and _may_cast(stored, target)


def _structs_in(data_type: DataType) -> list[StructType]:
    match data_type:
        case StructType():
            return [data_type]
        case ArrayType():
            return _structs_in(data_type.element_type)
        case MapType():
            return _structs_in(data_type.key_type) + _structs_in(data_type.value_type)
    return []


# ---------------------------------------------------------------------------- small helpers


def _apply(conversion: Conversion | None, array: pa.Array) -> pa.Array:
    return array if conversion is None else conversion(array)


def _after(first: Conversion, second: Conversion | None) -> Conversion:
    return lambda array: _apply(second, first(array))


def _storage(array: pa.Array) -> pa.Array:
    return array.storage


def _is_list(stored: pa.DataType) -> bool:
    return bool(t.is_list(stored) or t.is_large_list(stored) or t.is_fixed_size_list(stored))


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(PARQUET_ID)
    return int(text) if text is not None else None


def _mismatch(stored: pa.DataType, data_type: DataType, place: Place) -> InvalidTable:
    return InvalidTable(
        f"column {place.column!r} is {data_type} in the table and {stored} in the data file "
        f"{place.file!r}, which is not a widening of it; read the other columns with columns=[...], "
        "or rewrite the file", file=place.file, column=place.column)
