"""Schema evolution: the schema of a table after a write of data with other columns.

What lives here: the schema of data (:func:`schema_of`), the merging of two schemas
(:func:`merge`, the rules of Delta's ``mergeSchema``), and metadata with a new schema
(:func:`with_schema`: column-mapping ids for new columns, partition columns spelled as the schema does).
What it does not know: values, which are checked as they are written.

>>> from deltanb.schema.types import PrimitiveType
>>> table = StructType([StructField("id", PrimitiveType("long"), nullable=False)])
>>> data = StructType([StructField("ID", PrimitiveType("long")), StructField("new", PrimitiveType("date"))])
>>> str(merge(table, data))
'struct<id: long not null, new: date>'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltanb.actions import Metadata
from deltanb.engines.arrow import enforce, inputs
from deltanb.errors import InvalidArgument, SchemaMismatch, UnsupportedPredicate
from deltanb.schema import column_mapping, properties
from deltanb.schema.columns import GENERATION
from deltanb.schema.types import (
    INTEGERS,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    from_arrow,
)

TYPE_CHANGES = "delta.typeChanges"
_MAPPING_KEYS = (column_mapping.ID_KEY, column_mapping.NAME_KEY)


def schema_of(data: Any) -> StructType:
    """The Delta schema of data to write: a Spark DataFrame, or a ``Source``.

    Raises:
        InvalidSchema: a column whose Arrow type Delta does not have.
    """
    if inputs.is_spark(data):
        return StructType.from_json(data.schema.json())
    source = inputs.source(data)
    return from_arrow(source.schema) if source.columns is None else source.columns


# --- merging --------------------------------------------------------------------------------------

def merge(table: StructType, data: StructType, *, widen: bool = False) -> StructType:
    """The table's schema with what the data adds.

    New columns and new fields of structs (also inside arrays and maps) are appended, nullable. Existing
    ones keep name, nullability and metadata. Types stay, and values are checked against them; with
    ``widen``, a type that is too narrow for the data is widened if the protocol allows it (PROTOCOL.md, "Type
    Widening"), and the change recorded in the field.

    Raises:
        SchemaMismatch: the data names one column twice.
    """
    return _struct(table, data, "", widen)


def _struct(table: StructType, data: StructType, prefix: str, widen: bool) -> StructType:
    arriving: dict[str, StructField] = {}
    for field in data.fields:
        if arriving.setdefault(field.name.lower(), field) is not field:
            raise enforce.mismatch([
                f"+ {prefix}{field.name}: named twice in the data (names differ in case at most)"])
    merged = []
    for field in table.fields:
        update = arriving.pop(field.name.lower(), None)
        merged.append(field if update is None else _field(field, update, prefix, widen))
    for field in arriving.values():
        merged.append(StructField(field.name, fresh(field.type), True, _plain(field.metadata)))
    return StructType(merged)


def _field(field: StructField, update: StructField, prefix: str, widen: bool) -> StructField:
    changes: list[dict[str, str]] = []
    type_ = _type(field.type, update.type, f"{prefix}{field.name}.", widen, (), changes)
    if not changes:
        return field.replace(type=type_)
    recorded = [*field.metadata.get(TYPE_CHANGES, ()), *changes]
    return field.replace(type=type_, metadata={**field.metadata, TYPE_CHANGES: recorded})


def _type(
    current: DataType, update: DataType, prefix: str, widen: bool, inside: tuple[str, ...],
    changes: list[dict[str, str]],
) -> DataType:
    if isinstance(current, StructType) and isinstance(update, StructType):
        return _struct(current, update, prefix, widen)
    if isinstance(current, ArrayType) and isinstance(update, ArrayType):
        element = _type(current.element_type, update.element_type, prefix + "element.", widen,
                        (*inside, "element"), changes)
        return ArrayType(element, current.contains_null)
    if isinstance(current, MapType) and isinstance(update, MapType):
        key = _type(current.key_type, update.key_type, prefix + "key.", widen,
                    (*inside, "key"), changes)
        value = _type(current.value_type, update.value_type, prefix + "value.", widen,
                      (*inside, "value"), changes)
        return MapType(key, value, current.value_contains_null)
    if str(current) == "void":
        return fresh(update)
    if widen and isinstance(current, PrimitiveType) and isinstance(update, PrimitiveType):
        wider = widened(current, update)
        if wider is not None:
            change = {"fromType": str(current), "toType": str(wider)}
            if inside:
                change["fieldPath"] = ".".join(inside)
            changes.append(change)
            return wider
    return current


def widened(current: PrimitiveType, update: PrimitiveType) -> PrimitiveType | None:
    """The wider type that schema evolution gives a column for data of another type, or ``None``.

    Integers to larger ones, float to double, date to timestamp_ntz, decimals that lose no digit.

    >>> str(widened(PrimitiveType("short"), PrimitiveType("long")))
    'long'
    """
    pair = (current.name, update.name)
    if pair[0] in INTEGERS and pair[1] in INTEGERS:
        return update if INTEGERS[pair[0]] < INTEGERS[pair[1]] else None
    if pair in (("float", "double"), ("date", "timestamp_ntz")):
        return update
    if current.is_decimal and update.is_decimal and current != update:
        digits = current.precision - current.scale
        if update.scale >= current.scale and update.precision - update.scale >= digits:
            return update
    return None


def fresh(type_: DataType) -> DataType:
    """The type for a new column: everything nullable, without another table's column ids."""
    if isinstance(type_, StructType):
        return StructType(StructField(f.name, fresh(f.type), True, _plain(f.metadata))
                          for f in type_.fields)
    if isinstance(type_, ArrayType):
        return ArrayType(fresh(type_.element_type), True)
    if isinstance(type_, MapType):
        return MapType(fresh(type_.key_type), fresh(type_.value_type), True)
    return type_


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items()
            if key not in (*_MAPPING_KEYS, TYPE_CHANGES)}


# --- metadata -------------------------------------------------------------------------------------

def with_schema(
    metadata: Metadata, schema: StructType, partition_by: Sequence[str] | None = None
) -> Metadata:
    """The metadata with a new schema; new columns get ids where the table maps columns.

    ``partition_by`` replaces the partition columns; names are matched without regard to case.

    Raises:
        InvalidArgument: a partition column that the schema does not have.
    """
    columns = metadata.partition_columns if partition_by is None else tuple(partition_by)
    fields = [schema.get(name) for name in columns]
    absent = [name for name, field in zip(columns, fields, strict=True) if field is None]
    if absent:
        raise InvalidArgument(
            f"partition column {absent[0]!r} is not among the columns {', '.join(schema.names)}; "
            "pass partition_by=[...] with columns that are", column=absent[0])
    configuration = dict(metadata.configuration)
    if properties.get(configuration, column_mapping.MODE_KEY) != "none":
        last = properties.get(configuration, column_mapping.MAX_ID_KEY)
        schema, last = column_mapping.assign(
            schema, last, keep_names=column_mapping.has_unused_names(metadata))
        configuration[column_mapping.MAX_ID_KEY] = str(last)
    return metadata.replace(
        schema_string=schema.to_json(), configuration=configuration,
        partition_columns=tuple(field.name for field in fields if field is not None))


def check_retained_constraints(before: Metadata, after: Metadata) -> None:
    """Refuse changed types of columns that a CHECK constraint or a generated column depends on.

    Raises:
        SchemaMismatch: a constraint, or a generated column's expression, reads a column whose type changes.
    """
    _check_expressions(before, after)
    from deltanb.engines.arrow.constraints import Check, constraints_of
    from deltanb.sql import predicates

    old, new = before.schema, after.schema
    for constraint in constraints_of(old, before):
        if not isinstance(constraint, Check):
            continue
        for path in predicates.parse(constraint.expression, old).column_paths:
            was, is_ = _type_at(old, path), _type_at(new, path)
            if str(was) != str(is_):
                name = ".".join(path)
                raise SchemaMismatch(
                    f"column {name!r} cannot change from {was} to {is_ or 'nothing'}: the "
                    f"constraint {constraint.name} ({constraint.expression}) reads it. Drop the "
                    "constraint first",
                    differences=[f"~ {name}: {was}, read by constraint {constraint.name}"])


def _check_expressions(before: Metadata, after: Metadata) -> None:
    from deltanb.commands.define.alter import references
    from deltanb.sql import predicates

    old, new = before.schema, after.schema
    for field in old.fields:
        sql = field.metadata.get(GENERATION)
        if sql is None:
            continue
        try:
            paths = {(field.name,), *predicates.parse_value(str(sql), old, field.type).column_paths}
        except UnsupportedPredicate:  # only Spark computes it
            read = {path[:1] for path in references(str(sql))}
            paths = {(name,) for name in old.names if (name.lower(),) in read} | {(field.name,)}
        for path in sorted(paths):
            was, is_ = _type_at(old, path), _type_at(new, path)
            if str(was) != str(is_):
                name = ".".join(path)
                raise SchemaMismatch(
                    f"column {name!r} cannot change from {was} to {is_ or 'nothing'}: column "
                    f"{field.name!r} is generated as {sql}. Cast the data, or write it without the change",
                    differences=[f"~ {name}: {was}, read by generated column {field.name}"])


def _type_at(schema: StructType, path: Sequence[str]) -> DataType | None:
    type_: DataType | None = schema
    for name in path:
        field = type_.get(name) if isinstance(type_, StructType) else None
        type_ = None if field is None else field.type
    return type_
