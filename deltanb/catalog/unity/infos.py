"""Schemas and tables in the JSON of Unity Catalog's older API.

What lives here: one function per kind of object. This API's names of fields have underscores.
What it does not know: requests, and which objects there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.unity.forms import last_change, properties_of
from deltanb.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltanb.sql.column_text import type_text

__all__ = ["columns_info", "schema_value", "table_value"]

COMMENT = "comment"
"""The property of a namespace that is a schema's comment here, as in Iceberg's catalogs."""

_NESTED: Mapping[type, str] = {ArrayType: "ARRAY", MapType: "MAP", StructType: "STRUCT"}
_SAME = ("boolean", "byte", "short", "long", "float", "double", "date", "timestamp", "timestamp_ntz",
         "string", "binary", "variant", "null")
_NAMES: Mapping[str, str] = {"integer": "INT", "void": "NULL", **{name: name.upper() for name in _SAME}}
_OTHER = "USER_DEFINED_TYPE"


def schema_value(catalog: str, name: str, properties: Mapping[str, str] | None = None) -> Json:
    """A schema; its properties where they are known.

    >>> schema_value("main", "shop", {"comment": "all sales", "owner": "ada"})["comment"]
    'all sales'
    """
    value: Json = {"name": name, "catalog_name": catalog, "full_name": f"{catalog}.{name}"}
    if properties is None:
        return value
    rest = {key: each for key, each in properties.items() if key != COMMENT}
    return {**value, "comment": properties.get(COMMENT), "properties": rest}


def table_value(catalog: str, row: TableRow, location: str) -> Json:
    """A Delta table with its columns."""
    assert row.delta is not None
    metadata = json.loads(row.delta.metadata or "{}")
    properties = properties_of(row.delta)
    return {
        "name": row.name.name, "catalog_name": catalog, "schema_name": ".".join(row.name.namespace),
        "table_type": "MANAGED", "data_source_format": "DELTA", "storage_location": location,
        "columns": columns_info(metadata), "comment": metadata.get("description"), "properties": properties,
        "created_at": metadata.get("createdTime") or 0,
        "updated_at": last_change(row.delta.etag, metadata)[1], "table_id": row.table_id}


def columns_info(metadata: Mapping[str, Any]) -> list[Json]:
    """A table's columns, of the metadata of its log."""
    partitions = metadata.get("partitionColumns") or []
    schema = StructType.from_json(metadata["schemaString"])
    return [_column(field, at, partitions) for at, field in enumerate(schema.fields)]


def _column(field: StructField, position: int, partitions: Sequence[str]) -> Json:
    value: Json = {
        "name": field.name, "type_text": type_text(field.type), "type_json": json.dumps(field.to_dict()),
        "type_name": type_name(field.type), "position": position, "nullable": field.nullable,
        "comment": field.metadata.get("comment"),
        "partition_index": partitions.index(field.name) if field.name in partitions else None}
    if isinstance(field.type, PrimitiveType) and field.type.is_decimal:
        value |= {"type_precision": field.type.precision, "type_scale": field.type.scale}
    return value


def type_name(data_type: DataType) -> str:
    """The kind of a type.

    >>> type_name(PrimitiveType("integer")), type_name(PrimitiveType("decimal(10,2)"))
    ('INT', 'DECIMAL')
    """
    if not isinstance(data_type, PrimitiveType):
        return _NESTED[type(data_type)]
    if data_type.is_decimal:
        return "DECIMAL"
    if data_type.name.startswith("interval "):
        return "INTERVAL"
    return _NAMES.get(data_type.name, _OTHER)
