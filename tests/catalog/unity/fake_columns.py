"""Columns in the two forms of Unity Catalog's APIs, for :mod:`.fake`.

What lives here: the Delta API's fields, whose nested types have hyphens in their names, and the older API's
columns, which carry each field as Delta's own JSON in ``type_json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_NAMES = {"elementType": "element-type", "containsNull": "contains-null", "keyType": "key-type",
          "valueType": "value-type", "valueContainsNull": "value-contains-null"}
_BACK = {name: delta for delta, name in _NAMES.items()}
_SQL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_KINDS = {"integer": "INT", "void": "NULL"}


def _renamed(kind: Any, names: dict[str, str]) -> Any:
    """A type whose parts have other names; what a field has beside its type stays as it is."""
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "struct":
        return {**kind, "fields": [
            {**each, "type": _renamed(each["type"], names)} for each in kind["fields"]]}
    return {names.get(name, name): _renamed(each, names) for name, each in kind.items()}


def infos_of(fields: Iterable[Json], partitions: list[str]) -> list[Json]:
    """The older API's columns of the Delta API's fields.

    >>> column, = infos_of([{"name": "id", "type": "long", "nullable": False, "metadata": {}}], ["id"])
    >>> column["type_text"], column["type_name"], column["partition_index"]
    ('bigint', 'LONG', 0)
    """
    return [_info(each, at, partitions) for at, each in enumerate(fields)]


def _info(field: Json, position: int, partitions: list[str]) -> Json:
    kind = field["type"]
    name = kind if isinstance(kind, str) else kind["type"]
    precision = name.startswith("decimal(") and [int(each) for each in name[8:-1].split(",")]
    return {
        "name": field["name"], "type_text": text_of(kind), "position": position,
        "nullable": field["nullable"],
        "type_name": "DECIMAL" if precision else _KINDS.get(name, name.upper()),
        "type_json": json.dumps({**field, "type": _renamed(kind, _BACK)}),
        "type_precision": precision[0] if precision else None,
        "type_scale": precision[1] if precision else None, "type_interval_type": None,
        "comment": field["metadata"].get("comment"),
        "partition_index": partitions.index(field["name"]) if field["name"] in partitions else None}


def text_of(kind: Any) -> str:
    """A type as SQL has it.

    >>> text_of({"type": "map", "key-type": "string", "value-type": "long", "value-contains-null": True})
    'map<string,bigint>'
    """
    if isinstance(kind, str):
        return _SQL.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{text_of(kind['element-type'])}>"
    if kind["type"] == "map":
        return f"map<{text_of(kind['key-type'])},{text_of(kind['value-type'])}>"
    return f"struct<{','.join(each['name'] + ':' + text_of(each['type']) for each in kind['fields'])}>"


def columns_of_infos(infos: Iterable[Json]) -> tuple[list[Json], list[str]]:
    """The Delta API's fields of the older API's columns, and the names of those that partition.

    >>> fields, _ = columns_of_infos([{"name": "id", "nullable": True, "type_json":
    ...     '{"name": "id", "type": "long", "nullable": true, "metadata": {}}'}])
    >>> fields[0]["type"]
    'long'
    """
    infos = list(infos)
    fields = [_field(json.loads(each["type_json"]), each) for each in infos]
    parts = sorted((each["partition_index"], each["name"]) for each in infos
                   if each.get("partition_index") is not None)
    return fields, [name for _, name in parts]


def _field(value: Any, info: Json) -> Json:
    """A field of ``type_json``, which other clients than Delta's fill with the type alone."""
    if not isinstance(value, dict) or "name" not in value:
        value = {"name": info["name"], "type": value, "nullable": info.get("nullable", True), "metadata": {}}
    return {**value, "type": _renamed(value["type"], _NAMES)}
