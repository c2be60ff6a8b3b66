"""Type widening: which changes of a column's type keep all values, and their record in the schema.

What lives here: PROTOCOL.md, "Type Widening": the supported changes, and ``delta.typeChanges``.
What it does not know: files and how their narrower values are read.

>>> is_widening(PrimitiveType("short"), PrimitiveType("long"))
True
>>> is_widening(PrimitiveType("long"), PrimitiveType("double"))
False
"""

from __future__ import annotations

from collections.abc import Sequence

from deltanb.schema.paths import field_at, replaced, type_at
from deltanb.schema.types import INTEGERS, DataType, PrimitiveType, StructType

TYPE_CHANGES = "delta.typeChanges"
FEATURES = ("typeWidening", "typeWidening-preview")
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits before the point that a decimal must have to take an integer type."""


def is_widening(before: DataType, after: DataType) -> bool:
    """Whether the protocol supports changing a column from one type to the other."""
    if not isinstance(before, PrimitiveType) or not isinstance(after, PrimitiveType):
        return False
    old, new = before.name, after.name
    if old in INTEGERS and new in INTEGERS:
        return INTEGERS[old] < INTEGERS[new]
    if (old, new) in (("float", "double"), ("date", "timestamp_ntz")):
        return True
    if new == "double":
        return old in INTEGERS and old != "long"
    if not after.is_decimal:
        return False
    whole = after.precision - after.scale
    if before.is_decimal:
        return before != after and after.scale >= before.scale and (
            whole >= before.precision - before.scale)
    return old in INTEGERS and whole >= _DIGITS[old]


def fits_iceberg(before: PrimitiveType, after: PrimitiveType) -> bool:
    """Whether Iceberg has the change too, as its compatibility features ask."""
    if before.is_decimal and after.is_decimal:
        return before.scale == after.scale
    return (before.name, after.name) in (
        ("byte", "short"), ("byte", "integer"), ("short", "integer"), ("byte", "long"),
        ("short", "long"), ("integer", "long"), ("float", "double"))


def recorded(
    schema: StructType, path: Sequence[str], before: DataType, after: DataType
) -> StructType:
    """The schema with a change of the type at an exact path noted in the nearest struct field."""
    holder = len(path)
    while not isinstance(type_at(schema, path[:holder - 1]), StructType):
        holder -= 1
    owner, inside = tuple(path[:holder]), path[holder:]
    field = field_at(schema, owner)
    change = {"fromType": str(before), "toType": str(after)}
    if inside:
        change["fieldPath"] = ".".join(inside)
    changes = [*field.metadata.get(TYPE_CHANGES, ()), change]
    return replaced(schema, owner, field.replace(metadata={**field.metadata, TYPE_CHANGES: changes}))


def has_changes(schema: StructType) -> list[str]:
    """The columns whose type was widened, as dotted paths."""
    from deltanb.schema.paths import walk

    return [".".join(path) for path, field in walk(schema) if field.metadata.get(TYPE_CHANGES)]
