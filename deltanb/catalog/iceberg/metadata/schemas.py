"""Schemas of Iceberg tables: checked, compared, numbered (format/spec.md, "Schemas and Data Types").

What lives here: the check of a schema in a request, its columns by id, and fresh ids for a new table's.
What it does not know: tables, and Delta's schemas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from deltanb.catalog.iceberg.metadata.fields import (
    MAX_DEPTH,
    Json,
    array,
    choice,
    flag,
    named,
    plain,
    record,
    refuse,
    shaped,
    text,
    whole,
)

__all__ = ["Column", "check_for_version", "columns_of", "renumbered", "schema_field", "schema_key"]

_PRIMITIVE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp(?:tz)?(?:_ns)?|string|uuid|binary|unknown|variant"
    r"|fixed\[\s*\d{1,9}\s*\]|decimal\(\s*(?P<precision>\d{1,3})\s*,\s*(?P<scale>\d{1,3})\s*\)"
    r"|geometry(?:\([^)]*\))?|geography(?:\([^)]*\))?",
    re.IGNORECASE)
_FROM_V3 = re.compile(r"timestamp(?:tz)?_ns|variant|unknown|geometry|geography", re.IGNORECASE)
MAX_PRECISION = 38  # digits of a decimal
_INT = whole(32)


class Column(NamedTuple):
    """One field, list element, map key or map value of a schema, at any depth."""

    id: int
    name: str
    """The full name, dots between: ``a.b``, ``tags.element``, ``counts.key``."""
    type: Any
    """The name of a primitive type, or the object of a nested one."""
    required: bool
    default: Any
    """The initial default, or None."""
    in_structs: bool
    """Whether it lies in structs only, in no list and no map."""
    in_required: bool
    """Whether all structs it lies in are required."""

    @property
    def is_primitive(self) -> bool:
        """Whether values have no parts; a variant has."""
        return isinstance(self.type, str) and self.type.lower() != "variant"


def schema_field(value: Any, path: str) -> Json:
    """The check of a schema in a request; the ids of its columns stay as they are.

    Raises:
        BadRequest: a value is malformed, an id or name is there twice, or an identifier field cannot be one.
    """
    schema: Json = _SCHEMA(value, path)
    by_id: dict[int, Column] = {}
    names: set[str] = set()
    for column in columns_of(schema):
        if column.id in by_id:
            refuse(path, f"has the id {column.id} twice: {by_id[column.id].name} and {column.name}")
        if column.name in names:
            refuse(path, f"has two columns of the name {column.name}")
        by_id[column.id] = column
        names.add(column.name)
    for each in schema.get("identifier-field-ids", ()):
        _check_identifier(by_id.get(each), each, f"{path}.identifier-field-ids")
    return schema


def _check_identifier(column: Column | None, its_id: int, path: str) -> None:
    if column is None:
        refuse(path, f"names the column {its_id}, which does not exist")
    if not column.is_primitive or str(column.type).lower() in ("float", "double"):
        refuse(path, f"names {column.name}, whose type cannot identify a row")
    if not (column.required and column.in_structs and column.in_required):
        refuse(path, f"names {column.name}, which is optional or lies in what is optional or repeated")


@shaped({"anyOf": [{"type": "string"}, {"type": "object"}]})
def _type(value: Any, path: str, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        refuse(path, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        kind = choice("struct", "list", "map")(value.get("type"), f"{path}.type")

        def inner(item: Any, place: str) -> Any:
            return _type(item, place, depth + 1)

        return _NESTED[kind](inner)(value, path)
    match = _PRIMITIVE.fullmatch(text(value, path))
    if match is None:
        refuse(path, f"is not an Iceberg type: {value!r:.80}")
    if match["precision"] and not max(1, int(match["scale"])) <= int(match["precision"]) <= MAX_PRECISION:
        refuse(path, f"must have 1 to {MAX_PRECISION} digits, no fewer than those of its scale: {value}")
    return value


@shaped({})
def _default(value: Any, path: str) -> Any:
    return plain(value, path)


def _struct_fields(inner: Callable[[Any, str], Any]) -> Any:
    return array(record(
        {"id": whole(32, least=0), "name": text, "type": inner, "required": flag},
        {"doc": text, "initial-default": _default, "write-default": _default}))


_NESTED: dict[str, Callable[[Any], Any]] = {
    "struct": lambda inner: record({"type": text, "fields": _struct_fields(inner)}),
    "list": lambda inner: record(
        {"type": text, "element-id": whole(32, least=0), "element": inner, "element-required": flag}),
    "map": lambda inner: record(
        {"type": text, "key-id": whole(32, least=0), "key": inner, "value-id": whole(32, least=0),
         "value": inner, "value-required": flag}),
}
_SCHEMA = record(
    {"type": choice("struct"), "fields": _struct_fields(_type)},
    {"schema-id": _INT, "identifier-field-ids": array(_INT)})
named("Schema", shaped(_SCHEMA)(schema_field))


def columns_of(schema: Json) -> Iterator[Column]:
    """All columns of a schema, each before those inside it.

    >>> [(c.id, c.name) for c in columns_of({"type": "struct", "fields": [
    ...     {"id": 1, "name": "tags", "required": True, "type": {
    ...         "type": "list", "element-id": 2, "element": "string", "element-required": True}}]})]
    [(1, 'tags'), (2, 'tags.element')]
    """
    return _inside(schema, "", True, True)


def _inside(nested: Any, name: str, in_structs: bool, in_required: bool) -> Iterator[Column]:
    if not isinstance(nested, dict):
        return
    if nested["type"] == "struct":
        parts = [(f["id"], f["name"], f["type"], f["required"], f.get("initial-default"))
                 for f in nested["fields"]]
    else:
        in_structs = False
        ends = ("element",) if nested["type"] == "list" else ("key", "value")
        parts = [(nested[f"{end}-id"], end, nested[end], nested.get(f"{end}-required", True), None)
                 for end in ends]
    for its_id, end, kind, required, default in parts:
        full = f"{name}.{end}" if name else end
        yield Column(its_id, full, kind, required, default, in_structs, in_required)
        yield from _inside(kind, full, in_structs, in_required and required)


def check_for_version(schema: Json, version: int, path: str) -> None:
    """Refuse what tables of a format version cannot have: newer types, and initial defaults.

    Raises:
        BadRequest: a column asks for version 3.
    """
    if version >= 3:
        return
    for column in columns_of(schema):
        what = "an initial default" if column.default is not None else column.type
        if column.default is not None or (isinstance(what, str) and _FROM_V3.match(what)):
            refuse(path, f"is not valid for v{version}: {column.name}: {what} is not supported until v3")


def schema_key(schema: Json) -> str:
    """A text that schemas share which are equal but for their own ids: one id serves them all."""
    identifiers = sorted(set(schema.get("identifier-field-ids") or ()))
    return json.dumps([_comparable(schema), identifiers], sort_keys=True)


def _comparable(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return re.sub(r"\s+", "", kind).lower()
    if kind["type"] != "struct":
        return {name: _comparable(item) if name in ("element", "key", "value") else item
                for name, item in kind.items()}
    return [{**{name: item for name, item in field.items() if item is not None},
             "type": _comparable(field["type"])} for field in kind["fields"]]


def renumbered(schema: Json) -> tuple[Json, dict[int, int]]:
    """A new table's schema, numbered from 1 on, and old ids to new ones.

    The columns of a struct are numbered before what is inside them, as Iceberg does.
    """
    new_ids: dict[int, int] = {}

    def fresh(old: int) -> int:
        new_ids[old] = len(new_ids) + 1
        return new_ids[old]

    def walk(kind: Any) -> Any:
        if not isinstance(kind, dict):
            return kind
        if kind["type"] == "struct":
            ids = [fresh(field["id"]) for field in kind["fields"]]
            return {**kind, "fields": [{**field, "id": its_id, "type": walk(field["type"])}
                                       for field, its_id in zip(kind["fields"], ids, strict=True)]}
        ends = ("element",) if kind["type"] == "list" else ("key", "value")
        numbered = {**kind, **{f"{end}-id": fresh(kind[f"{end}-id"]) for end in ends}}
        return {**numbered, **{end: walk(kind[end]) for end in ends}}

    made: Json = {**walk(schema), "schema-id": 0}
    if made.get("identifier-field-ids"):
        made["identifier-field-ids"] = [new_ids[each] for each in made["identifier-field-ids"]]
    return made, new_ids
