"""Column mapping: names and ids of columns in data files (PROTOCOL.md, "Column Mapping").

What lives here: the mode of a table, the physical name and id of a field, physical forms of a
schema and of data, and the assignment of names and ids to new columns. A *logical* schema is what
users see; the *physical* one is what Parquet files, partition values and statistics are keyed by.
What it does not know: files and how to read them.

>>> from deltanb.schema.types import PrimitiveType, StructField, StructType
>>> schema = StructType([StructField("a b", PrimitiveType("long"))])
>>> mapped, last_id = assign(schema, new_name=lambda: "col-1")
>>> physical_schema(mapped, "name").names, last_id
(['col-1'], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from deltanb.actions import Metadata, Protocol
from deltanb.errors import InvalidTable
from deltanb.options import options, random_id
from deltanb.schema import properties, types
from deltanb.schema.paths import with_fields
from deltanb.schema.protocol import requested_features, supports
from deltanb.schema.types import TYPES, ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

__all__ = [
    "ID_KEY", "MAX_ID_KEY", "MODE_KEY", "NAME_KEY", "USAGE_TRACKING", "USED_KEY", "assign", "field_id",
    "has_unused_names", "hidden", "in_files", "mode_of", "physical_arrow", "physical_name", "physical_names",
    "physical_path", "physical_schema", "to_logical", "to_physical", "with_usage",
]

MODE_KEY = "delta.columnMapping.mode"
MAX_ID_KEY = "delta.columnMapping.maxColumnId"
USED_KEY = "delta.columnMapping.hasDroppedOrRenamed"
USAGE_TRACKING = "columnMappingUsageTracking"
ID_KEY = "delta.columnMapping.id"
NAME_KEY = "delta.columnMapping.physicalName"
PARQUET_ID = b"PARQUET:field_id"  # where Arrow keeps the field_id of a Parquet schema element
_IN_NO_SCHEMA = -1  # in place of an id

_Data = TypeVar("_Data", pa.Table, pa.RecordBatch)


def mode_of(metadata: Metadata, protocol: Protocol) -> str:
    """``none``, ``name`` or ``id``: the property counts only where the protocol has the feature.

    >>> mode_of(Metadata("t", "{}", configuration={MODE_KEY: "id"}), Protocol(1, 2))
    'none'
    """
    if not supports(protocol, "columnMapping"):
        return "none"
    return str(properties.get(metadata.configuration, MODE_KEY))


def physical_name(field: StructField, mode: str) -> str:
    """The field's name in data files, partition values and statistics.

    Raises:
        InvalidTable: the table maps columns, and the schema does not say where this one went.
    """
    return field.name if mode == "none" else str(_mapped(field, NAME_KEY, str))


def physical_path(schema: StructType, path: Sequence[str], mode: str) -> tuple[str, ...]:
    """The names in files along a path through structs.

    Raises:
        InvalidTable: as :func:`physical_name`.
        KeyError: there is no such column.
    """
    names, struct = [], schema
    for part in path:
        field = struct.field(part)
        names.append(physical_name(field, mode))
        if isinstance(field.type, StructType):
            struct = field.type
    return tuple(names)


def field_id(field: StructField) -> int | None:
    """The field's id in data files of a table that maps columns; None for a :func:`hidden` one.

    Raises:
        InvalidTable: the schema does not say which id it is.
    """
    number = int(_mapped(field, ID_KEY, int))
    return None if number == _IN_NO_SCHEMA else number


def has_unused_names(metadata: Metadata) -> bool:
    """Whether no column has ever lost its name, so that a new one may have its name in files, too.

    protocol_rfcs/column-mapping-usage-tracking.md; metadata that asks for the feature is that of a new table.
    """
    recorded = metadata.configuration.get(USED_KEY)
    return recorded == "false" or (
        recorded is None and USAGE_TRACKING in requested_features(metadata.configuration))


def with_usage(
    metadata: Metadata, protocol: Protocol, before: Metadata | None, known: Protocol | None
) -> Metadata:
    """The metadata of a commit, with what it says of names that columns had before.

    ``before`` and ``known`` are metadata and protocol of the version read; None where there is no table yet.
    What was recorded once stays. The same object where nothing is to be said.
    """
    if not supports(protocol, USAGE_TRACKING):
        return metadata
    if before is None or known is None:
        is_used = metadata.configuration.get(USED_KEY) == "true"
    elif supports(known, USAGE_TRACKING):
        is_used = before.configuration.get(USED_KEY) != "false" or _loses_names(before, metadata)
    else:
        is_used = mode_of(before, known) != "none"
    text = "true" if is_used else "false"
    if metadata.configuration.get(USED_KEY) == text:
        return metadata
    return metadata.replace(configuration={**metadata.configuration, USED_KEY: text})


def _loses_names(before: Metadata, after: Metadata) -> bool:
    """Whether a column that had a name by its id has another one, or is gone."""
    if before.schema_string == after.schema_string:
        return False
    now = _names_by_id(after.schema)
    return any(now.get(number) != name for number, name in _names_by_id(before.schema).items())


def _names_by_id(data_type: DataType) -> dict[int, str]:
    match data_type:
        case StructType():
            names = {field.metadata[ID_KEY]: field.name for field in data_type.fields
                     if ID_KEY in field.metadata}
            for field in data_type.fields:
                names |= _names_by_id(field.type)
            return names
        case ArrayType():
            return _names_by_id(data_type.element_type)
        case MapType():
            return _names_by_id(data_type.key_type) | _names_by_id(data_type.value_type)
    return {}


def hidden(name: str, data_type: DataType) -> StructField:
    """A column of data files that no schema has: known by its name in every mode, it never has an id.

    So it cannot be taken for a column that gets the next id of the table.
    """
    return StructField(name, data_type, metadata={NAME_KEY: name, ID_KEY: _IN_NO_SCHEMA})


def physical_names(schema: StructType, mode: str) -> dict[str, str]:
    """Top-level names, logical to physical."""
    return {field.name: physical_name(field, mode) for field in schema.fields}


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The schema with physical names at every level; types, nullability and metadata are kept."""
    if mode == "none":
        return schema

    def of_field(field: StructField) -> StructField:
        return field.replace(name=physical_name(field, mode), type=with_fields(field.type, of_field))

    return StructType(map(of_field, schema.fields))


def in_files(schema: StructType, names: Collection[str] = TYPES) -> StructType:
    """The schema as data files have it: an interval is a number there; the same one where nothing differs.

    ``names``: of the types that are replaced.
    """
    fields = [f.replace(type=_in_files(f.type, names)) for f in schema.fields]
    return schema if all(a.type is b.type for a, b in zip(fields, schema.fields, strict=True)) else (
        StructType(fields))


def _in_files(data_type: DataType, names: Collection[str]) -> DataType:
    match data_type:
        case PrimitiveType(name) if name in names and TYPES[name].in_files:
            return PrimitiveType(TYPES[name].in_files)
        case StructType():
            return in_files(data_type, names)
        case ArrayType(element, null):
            made = _in_files(element, names)
            return data_type if made is element else ArrayType(made, null)
        case MapType(key, value, null):
            both = _in_files(key, names), _in_files(value, names)
            return data_type if both[0] is key and both[1] is value else MapType(*both, null)
    return data_type


def physical_arrow(schema: StructType, mode: str) -> pa.Schema:
    """The Arrow schema that a data file is written with: physical names, and field ids when mapped.

    >>> mapped, _ = assign(StructType([StructField("x", types.STRING)]), new_name=lambda: "col-1")
    >>> physical_arrow(mapped, "id").field("col-1").metadata
    {b'PARQUET:field_id': b'1'}
    """
    if mode == "none":
        return schema.to_arrow()
    return pa.schema([_arrow_field(field, mode, field.name) for field in schema.fields])


def to_physical(data: _Data, schema: StructType, mode: str) -> _Data:
    """Data with the columns of ``schema``, in its order, as it goes into a file; nothing is copied.

    ``data`` has the Arrow types of ``schema.to_arrow()``.
    """
    return data if mode == "none" else _relabel(data, physical_arrow(schema, mode))


def to_logical(data: _Data, schema: StructType, mode: str) -> _Data:
    """The reverse of :func:`to_physical`."""
    return data if mode == "none" else _relabel(data, schema.to_arrow())


def assign(
    schema: StructType,
    last_id: int = 0,
    *,
    keep_names: bool = False,
    new_name: Callable[[], str] | None = None,
) -> tuple[StructType, int]:
    """Give every field that has none an id and a physical name, at every level.

    ``last_id`` is the table's ``delta.columnMapping.maxColumnId``; the second value returned is the
    new one. ``keep_names`` makes a column's present name its physical one, for tables that have
    files already, and those where :func:`has_unused_names`. ``new_name`` makes other physical names
    (default: ``col-<uuid>``, by ``options.new_id`` where no column was mapped before: files may still have
    columns that were dropped).
    """
    used: set[str] = set()

    def make() -> str:
        if new_name is not None:
            return new_name()
        drawn = options.new_id()
        if last_id > 0 or drawn in used:
            drawn = random_id()
        used.add(drawn)
        return f"col-{drawn}"

    counter = [max(last_id, _highest_id(schema))]

    def of_field(field: StructField) -> StructField:
        metadata = dict(field.metadata)
        if ID_KEY not in metadata:
            counter[0] += 1
            metadata[ID_KEY] = counter[0]
        if NAME_KEY not in metadata:
            metadata[NAME_KEY] = field.name if keep_names else make()
        return field.replace(metadata=metadata, type=with_fields(field.type, of_field))

    return StructType(map(of_field, schema.fields)), counter[0]


def _mapped(field: StructField, key: str, kind: type) -> Any:
    value = field.metadata.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidTable(
            f"column {field.name!r} has no {key} in the schema although the table maps its "
            "columns: its data cannot be found. Read an older version, or set the schema again.",
            column=field.name,
        )
    return value


def _highest_id(data_type: DataType) -> int:
    match data_type:
        case StructType():
            own = [f.metadata.get(ID_KEY, 0) for f in data_type.fields]
            return max([0, *own, *(_highest_id(f.type) for f in data_type.fields)])
        case ArrayType():
            return _highest_id(data_type.element_type)
        case MapType():
            return max(_highest_id(data_type.key_type), _highest_id(data_type.value_type))
    return 0


def _arrow_field(field: StructField, mode: str, path: str) -> pa.Field:
    metadata: Mapping[bytes, bytes] | None = None
    number = None if mode == "none" else field_id(field)
    if number is not None:
        metadata = {PARQUET_ID: str(number).encode()}
    return pa.field(physical_name(field, mode), _arrow_type(field.type, mode, path), field.nullable,
                    metadata)


def _arrow_type(data_type: DataType, mode: str, path: str) -> pa.DataType:
    match data_type:
        case StructType():
            return pa.struct([_arrow_field(f, mode, f"{path}.{f.name}") for f in data_type.fields])
        case ArrayType():
            element = _arrow_type(data_type.element_type, mode, f"{path}.element")
            return pa.list_(pa.field("element", element, data_type.contains_null))
        case MapType():
            value = _arrow_type(data_type.value_type, mode, f"{path}.value")
            return pa.map_(_arrow_type(data_type.key_type, mode, f"{path}.key"),
                           pa.field("value", value, data_type.value_contains_null))
    return types.arrow_type(data_type, path)


def _relabel(data: _Data, schema: pa.Schema) -> _Data:
    """The same buffers under other field names."""
    columns = [column if column.type.equals(field.type) else _view(column, field.type)
               for column, field in zip(data.columns, schema, strict=True)]
    return type(data).from_arrays(columns, schema=schema)


def _view(column: pa.Array | pa.ChunkedArray, data_type: pa.DataType) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(data_type) for chunk in column.chunks], data_type)
    return column.view(data_type)
