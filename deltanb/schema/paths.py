"""Fields of a schema by path: found, changed, added, moved, taken out.

What lives here: paths as text, both ways, and surgery on a :class:`~deltanb.schema.types.StructType`,
which gives a new one. A path goes through structs by field name and through arrays and maps by
``element``, ``key`` and ``value`` (PROTOCOL.md, "Field Path"); names are compared without case, the exact
one first.
What it does not know: which changes a table allows, and what follows from them.

>>> schema = StructType([StructField("a", ArrayType(StructType([StructField("b", PrimitiveType("long"))])))])
>>> find(schema, ("A", "element", "B"))
('a', 'element', 'b')
>>> str(inserted(schema, ("a", "element"), StructField("c", PrimitiveType("date")), Position()))
'struct<a: array<struct<c: date, b: long>>>'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from deltanb.errors import InvalidSchema
from deltanb.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    backticked,
)
from deltanb.text.formatting import MAX_NAMES, did_you_mean
from deltanb.text.safe_text import shown

__all__ = [
    "Position", "children", "field_at", "find", "inserted", "moved", "parse_path", "quoted", "recorded_name",
    "removed", "replaced", "type_at", "walk", "with_fields",
]

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Position:
    """Where a column goes among its siblings: first (``after`` is None), or after one of them."""

    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {quoted((self.after,))}"


def find(schema: StructType, path: Sequence[str], table: str = "the table") -> tuple[str, ...]:
    """The path as the schema spells it.

    Raises:
        InvalidSchema: there is no such column, with the closest names.
    """
    current: DataType = schema
    spelled: list[str] = []
    for name in path:
        inside = children(current)
        actual = next((n for n, _ in inside if n == name), None) or next(
            (n for n, _ in inside if n.lower() == name.lower()), None)
        if actual is None:
            raise _absent(path, spelled, [n for n, _ in inside], table)
        spelled.append(actual)
        current = dict(inside)[actual]
    if not spelled:
        raise InvalidSchema(f"table {table}: a column has a name; the path is empty")
    return tuple(spelled)


def with_fields(data_type: DataType, change: Callable[[StructField], StructField]) -> DataType:
    """The type with other fields in place of those of its outermost structs, also within arrays and maps.

    >>> commented = StructType([StructField("a", PrimitiveType("long"), metadata={"comment": "one"})])
    >>> plain = with_fields(ArrayType(commented), lambda field: field.replace(metadata={}))
    >>> str(plain), plain.element_type.fields[0].metadata
    ('array<struct<a: long>>', {})
    """
    match data_type:
        case StructType():
            return StructType(map(change, data_type.fields))
        case ArrayType():
            return ArrayType(with_fields(data_type.element_type, change), data_type.contains_null)
        case MapType():
            return MapType(with_fields(data_type.key_type, change),
                           with_fields(data_type.value_type, change), data_type.value_contains_null)
    return data_type


def type_at(schema: StructType, path: Sequence[str]) -> DataType:
    """The type at an exact path; the schema itself at the empty one."""
    current: DataType = schema
    for name in path:
        current = dict(children(current))[name]
    return current


def field_at(schema: StructType, path: Sequence[str]) -> StructField:
    """The struct field at an exact path; an element, key or value as a field of that name."""
    parent = type_at(schema, path[:-1])
    match parent:
        case StructType():
            return next(f for f in parent.fields if f.name == path[-1])
        case ArrayType():
            return StructField("element", parent.element_type, parent.contains_null)
        case MapType() if path[-1] == "key":
            return StructField("key", parent.key_type, False)
        case MapType():
            return StructField("value", parent.value_type, parent.value_contains_null)
    raise KeyError(path[-1])


def children(data_type: DataType) -> list[tuple[str, DataType]]:
    """The parts of a type: name and type."""
    match data_type:
        case StructType():
            return [(f.name, f.type) for f in data_type.fields]
        case ArrayType():
            return [("element", data_type.element_type)]
        case MapType():
            return [("key", data_type.key_type), ("value", data_type.value_type)]
    return []


def walk(
    data_type: DataType, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every struct field at every level, with its path."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield (*prefix, field.name), field
            yield from walk(field.type, (*prefix, field.name))
        return
    for name, inner in children(data_type):
        yield from walk(inner, (*prefix, name))


def replaced(schema: StructType, path: Sequence[str], field: StructField) -> StructType:
    """The schema with another field at an exact path: its name, type, nullability and metadata.

    Of an element, key or value only the type counts.
    """
    def change(parent: DataType) -> DataType:
        match parent:
            case StructType():
                return StructType(field if f.name == path[-1] else f for f in parent.fields)
            case ArrayType():
                return ArrayType(field.type, parent.contains_null)
            case MapType() if path[-1] == "key":
                return MapType(field.type, parent.value_type, parent.value_contains_null)
            case MapType():
                return MapType(parent.key_type, field.type, parent.value_contains_null)
        return parent

    return _changed(schema, path[:-1], change)


def inserted(
    schema: StructType, parent: Sequence[str], field: StructField, position: Position | None = None
) -> StructType:
    """The schema with a new field in the struct at an exact path, at the end unless told otherwise.

    Raises:
        InvalidSchema: no struct there, or no column to come after.
    """
    def change(struct: DataType) -> DataType:
        if not isinstance(struct, StructType):
            hint = _way_into(struct)
            raise InvalidSchema(
                f"cannot add {quoted([*parent, field.name])}: {quoted(parent)} is not a struct, it is "
                f"{struct}{hint}", column=quoted([*parent, field.name]))
        return StructType(_placed(list(struct.fields), field, position))

    return _changed(schema, parent, change)


def removed(schema: StructType, path: Sequence[str]) -> StructType:
    """The schema without the field at an exact path.

    Raises:
        InvalidSchema: an element, key or value, or the last field of its struct.
    """
    def change(struct: DataType) -> DataType:
        if not isinstance(struct, StructType):
            raise InvalidSchema(
                f"cannot drop {quoted(path)}: it is a part of the type {struct}. Drop "
                f"{quoted(path[:-1])}, or the fields inside it", column=quoted(path))
        if len(struct) == 1:
            what = f"field of {quoted(path[:-1])}" if len(path) > 1 else "column of the table"
            raise InvalidSchema(
                f"cannot drop {quoted(path)}: it is the last {what}; add another one first",
                column=quoted(path))
        return StructType(f for f in struct.fields if f.name != path[-1])

    return _changed(schema, path[:-1], change)


def moved(schema: StructType, path: Sequence[str], position: Position) -> StructType:
    """The schema with the field at an exact path in another place of its struct.

    Raises:
        InvalidSchema: an element, key or value, or no column to come after.
    """
    def change(struct: DataType) -> DataType:
        if not isinstance(struct, StructType):
            raise InvalidSchema(
                f"cannot move {quoted(path)}: it is a part of the type {struct}, which has no order",
                column=quoted(path))
        field = next(f for f in struct.fields if f.name == path[-1])
        if position.after is not None and position.after.lower() == field.name.lower():
            return struct
        return StructType(_placed([f for f in struct.fields if f is not field], field, position))

    return _changed(schema, path[:-1], change)


# --- as text --------------------------------------------------------------------------------------

def parse_path(text: str | Sequence[str]) -> tuple[str, ...]:
    """The names of a column path: ``a.b``, with backticks around names that hold dots or blanks.

    A sequence is taken as the names themselves.

    >>> parse_path("a.`b.c`.d")
    ('a', 'b.c', 'd')

    Raises:
        InvalidSchema: no path.
    """
    if not isinstance(text, str):
        if not isinstance(text, Sequence) or not all(isinstance(name, str) for name in text):
            raise InvalidSchema(f"{shown(text)} is not a path of a column: it takes text, or a list of names")
        return tuple(text)
    if _PLAIN.fullmatch(text):
        return (text,)
    parts: list[str] = []
    rest = text
    while True:
        match = re.match(r"`((?:[^`]|``)+)`|([^`.]+)", rest)
        if match is None:
            break
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        rest = rest[match.end():]
        if not rest:
            return tuple(parts)
        if not rest.startswith("."):
            break
        rest = rest[1:]
    raise InvalidSchema(
        f"{text!r} is not a column; write a.b for a field of a struct, and backticks around a name with "
        "dots", column=text)


def quoted(path: Sequence[str]) -> str:
    """A path as SQL writes it: names in backticks where they need them.

    >>> quoted(["a", "b.c"])
    'a.`b.c`'
    """
    return ".".join(name if _PLAIN.fullmatch(name) else backticked(name) for name in path)


def recorded_name(path: Sequence[str]) -> str:
    """A path as ``operationParameters`` name it: as Spark, with backticks around names with dots only.

    >>> recorded_name(["a b", "c.d"])
    'a b.`c.d`'
    """
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def _placed(
    fields: list[StructField], field: StructField, position: Position | None
) -> list[StructField]:
    if position is None:
        return [*fields, field]
    if position.after is None:
        return [field, *fields]
    names = [f.name for f in fields]
    anchor = position.after if position.after in names else next(
        (n for n in names if n.lower() == str(position.after).lower()), None)
    if anchor is None:
        raise InvalidSchema(
            f"cannot place {quoted([field.name])} after {position.after!r}: there is no such column "
            f"beside it ({', '.join(names[:MAX_NAMES])})", column=field.name)
    place = names.index(anchor) + 1
    return [*fields[:place], field, *fields[place:]]


def _changed(
    schema: StructType, path: Sequence[str], change: Callable[[DataType], DataType]
) -> StructType:
    changed = _rebuilt(schema, tuple(path), change)
    assert isinstance(changed, StructType)
    return changed


def _rebuilt(
    data_type: DataType, path: tuple[str, ...], change: Callable[[DataType], DataType]
) -> DataType:
    if not path:
        return change(data_type)
    name, rest = path[0], path[1:]
    match data_type:
        case StructType():
            return StructType(
                f.replace(type=_rebuilt(f.type, rest, change)) if f.name == name else f
                for f in data_type.fields)
        case ArrayType():
            return ArrayType(_rebuilt(data_type.element_type, rest, change), data_type.contains_null)
        case MapType():
            key, value = data_type.key_type, data_type.value_type
            if name == "key":
                key = _rebuilt(key, rest, change)
            else:
                value = _rebuilt(value, rest, change)
            return MapType(key, value, data_type.value_contains_null)
    return data_type


def _way_into(data_type: DataType) -> str:
    names = [name for name, inner in children(data_type) if not isinstance(inner, PrimitiveType)]
    return f"; its fields are reached through .{' or .'.join(names)}" if names else ""


def _absent(
    path: Sequence[str], before: Sequence[str], names: Sequence[str], table: str
) -> InvalidSchema:
    missing = path[len(before)]
    inside = f" in {quoted(before)}" if before else ""
    hint, _ = did_you_mean(missing, names, "fields" if before else "columns",
                           shown=lambda name: quoted([*before, name]))
    return InvalidSchema(
        f"table {table}: there is no column {quoted(path)}: no {missing!r}{inside}; {hint}",
        column=quoted(path))
