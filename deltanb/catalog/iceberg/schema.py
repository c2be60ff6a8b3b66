"""The Iceberg schema of Delta or Arrow columns (format/spec.md, "Primitive Types").

What lives here: :func:`schema_of` and :func:`identity_spec`.
What it does not know: the checks and ids of Iceberg's schemas (``iceberg/metadata/schemas``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.errors import InvalidSchema
from deltanb.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType

__all__ = ["identity_spec", "schema_of"]

_PRIMITIVES = {
    "boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float",
    "double": "double", "string": "string", "binary": "binary", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
"""Delta's names and Iceberg's; bytes and shorts become the narrowest integer that Iceberg has."""


def schema_of(schema: StructType) -> Json:
    """Columns as an Iceberg schema.

    Raises:
        InvalidSchema: a type that Iceberg does not have.

    >>> from deltanb.schema.ddl import parse_schema
    >>> schema_of(parse_schema("id bigint NOT NULL"))["fields"]
    [{'id': 1, 'name': 'id', 'type': 'long', 'required': True}]
    """
    return _type(schema, "", count(1))  # type: ignore[return-value]


def _type(kind: DataType, path: str, ids: Iterator[int]) -> Json | str:
    match kind:
        case StructType():
            fields = []
            for field in kind.fields:
                name = f"{path}.{field.name}" if path else field.name
                made: Json = {"id": next(ids), "name": field.name, "type": _type(field.type, name, ids),
                              "required": not field.nullable}
                if isinstance(field.metadata.get("comment"), str):
                    made["doc"] = field.metadata["comment"]
                fields.append(made)
            return {"type": "struct", "fields": fields}
        case ArrayType():
            return {"type": "list", "element-id": next(ids),
                    "element": _type(kind.element_type, f"{path}.element", ids),
                    "element-required": not kind.contains_null}
        case MapType():
            return {"type": "map", "key-id": next(ids), "key": _type(kind.key_type, f"{path}.key", ids),
                    "value-id": next(ids), "value": _type(kind.value_type, f"{path}.value", ids),
                    "value-required": not kind.value_contains_null}
        case PrimitiveType() if kind.is_decimal:
            return f"decimal({kind.precision}, {kind.scale})"
        case PrimitiveType() if kind.name in _PRIMITIVES:
            return _PRIMITIVES[kind.name]
    raise InvalidSchema(f"the column {path} has the type {kind}, which Iceberg lacks; use another one")


def identity_spec(schema: Json, columns: Sequence[str]) -> Json | None:
    """An identity partition spec on columns; None without columns.

    Raises:
        InvalidSchema: an unknown column.
    """
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    for column in columns:
        if column not in ids:
            raise InvalidSchema(f"partition_by names {column!r}, which is not a column: {', '.join(ids)}")
    return {"fields": [{"source-id": ids[name], "name": name, "transform": "identity"} for name in columns]
            } if columns else None
