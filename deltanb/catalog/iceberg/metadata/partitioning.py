"""Partition specs and sort orders of Iceberg tables (format/spec.md, "Partitioning" and "Sorting").

What lives here: their checks in a request and against a schema, when two are the same, and their fields'
ids. Both are lists of transforms of columns.
What it does not know: tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Json,
    array,
    choice,
    named,
    record,
    refuse,
    shaped,
    text,
    whole,
)
from deltanb.catalog.iceberg.metadata.schemas import Column, columns_of

__all__ = ["FIRST_FIELD_ID", "check_order", "check_spec", "highest_field_id", "order_field", "order_key",
           "spec_field", "spec_key", "with_field_ids"]

FIRST_FIELD_ID = 1000
"""The id of the first partition field; the ids of columns are below."""

_TRANSFORM = re.compile(
    r"identity|void|year|month|day|hour|(?:bucket|truncate)\[0*[1-9]\d{0,8}\]", re.IGNORECASE)
_TIMES = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_SOURCES = {
    "bucket": ("int", "long", "decimal", "date", "time", *_TIMES, "string", "uuid", "fixed", "binary"),
    "truncate": ("int", "long", "decimal", "string", "binary"),
    "year": ("date", *_TIMES),
    "month": ("date", *_TIMES),
    "day": ("date", *_TIMES),
    "hour": _TIMES,
}
"""Transforms that take values of some types only."""

_INT = whole(32)


@shaped(text)
def _transform(value: Any, path: str) -> str:
    if not _TRANSFORM.fullmatch(text(value, path)):
        refuse(path, f"is not a transform that can be written: {value!r:.80}; there are identity, void, "
                     "year, month, day, hour, bucket[N] and truncate[N]")
    return str(value)


spec_field = named("PartitionSpec", record(
    {"fields": array(record({"source-id": _INT, "transform": _transform, "name": text},
                            {"field-id": whole(32, least=0)}))},
    {"spec-id": _INT}))
"""The check of a partition spec in a request."""

_ORDER = record(
    {"fields": array(record({"source-id": _INT, "transform": _transform,
                             "direction": choice("asc", "desc"),
                             "null-order": choice("nulls-first", "nulls-last")}))},
    {"order-id": _INT})


@shaped(_ORDER)
def order_field(value: Any, path: str) -> Json:
    """The check of a sort order in a request: the id 0 is the one of the order without fields.

    Raises:
        BadRequest: a value is malformed.
    """
    order: Json = _ORDER(value, path)
    if "order-id" in order and (order["order-id"] == 0) != (not order["fields"]):
        refuse(f"{path}.order-id", "is 0 for the order without fields and for no other")
    return order


named("SortOrder", order_field)


def check_spec(spec: Json, schema: Json, path: str) -> None:
    """Refuse a spec whose fields a schema cannot give: source columns, their types, names.

    A void field needs no source: it is what is left of a column that was dropped from a v1 table.

    Raises:
        BadRequest: naming the field of the spec.
    """
    columns = {column.id: column for column in columns_of(schema)}
    ids = {column.name: column.id for column in columns.values()}
    names: set[str] = set()
    for at, field in enumerate(spec["fields"]):
        place, name = f"{path}.fields[{at}]", field["name"]
        if not name or name in names:
            refuse(f"{place}.name", "is empty" if not name else f"is there twice: {name}")
        names.add(name)
        if field["source-id"] in columns and ids.get(name, field["source-id"]) != field["source-id"]:
            refuse(f"{place}.name", f"is the name of another column than its source: {name}")
        if field["transform"].lower() != "void":
            column = _source(columns, field, place)
            if not column.in_structs:
                refuse(f"{place}.source-id", f"is {column.name}, which lies in a list or map")


def check_order(order: Json, schema: Json, path: str) -> None:
    """Refuse a sort order whose fields a schema cannot give.

    Raises:
        BadRequest: naming the field of the order.
    """
    columns = {column.id: column for column in columns_of(schema)}
    for at, field in enumerate(order["fields"]):
        _source(columns, field, f"{path}.fields[{at}]")


def _source(columns: dict[int, Column], field: Json, path: str) -> Column:
    column = columns.get(field["source-id"])
    if column is None:
        refuse(f"{path}.source-id", f"is {field['source-id']}, and the schema has no such column")
    if not column.is_primitive:
        refuse(f"{path}.source-id", f"is {column.name}, whose values have parts")
    transform, kind = (re.split(r"[\[(]", each)[0].lower() for each in (field["transform"], column.type))
    takes_it = kind in _SOURCES.get(transform, (kind,))
    if not takes_it or (transform == "identity" and kind in ("geometry", "geography")):
        refuse(f"{path}.transform", f"is {field['transform']}, which takes no {column.type} ({column.name})")
    return column


def spec_key(spec: Json) -> tuple[Any, ...]:
    """What specs share that partition alike: the same sources, transforms and names, in the same order."""
    return tuple((field["source-id"], field["transform"].lower(), field["name"]) for field in spec["fields"])


def order_key(order: Json) -> tuple[Any, ...]:
    """What orders share that sort alike, whatever their ids."""
    return tuple((field["source-id"], field["transform"].lower(), field["direction"], field["null-order"])
                 for field in order["fields"])


def highest_field_id(specs: Iterable[Json]) -> int:
    """The highest id of a partition field; 999 where there is none."""
    ids = (field["field-id"] for spec in specs for field in spec["fields"])
    return max(ids, default=FIRST_FIELD_ID - 1)


def with_field_ids(spec: Json, known: Iterable[Json], last: int, version: int, path: str) -> Json:
    """The spec with an id for every field that came without.

    From v2 on, a field that partitions as one of a known spec does has its id, and others one above
    ``last``, the highest that was ever given. In v1 the fields are numbered from 1000 on.

    Raises:
        BadRequest: an id is there twice, or a v1 spec has other ids than those.
    """
    explicit_ids = [field["field-id"] for field in spec["fields"] if "field-id" in field]
    if version == 1:
        ids = [field.get("field-id", FIRST_FIELD_ID + at) for at, field in enumerate(spec["fields"])]
        if ids != [FIRST_FIELD_ID + at for at in range(len(ids))]:
            refuse(path, "does not use sequential IDs that are required in v1")
    else:
        free = {(field["source-id"], field["transform"].lower()): field["field-id"]
                for each in known for field in each["fields"] if field["field-id"] not in explicit_ids}
        last, ids = max([last, *explicit_ids]), []
        for field in spec["fields"]:
            its_id = field.get("field-id")
            if its_id is None:
                its_id = free.pop((field["source-id"], field["transform"].lower()), None)
            if its_id is None:
                last = its_id = last + 1
            ids.append(its_id)
    if len(set(ids)) < len(ids):
        refuse(path, f"has an id of a field twice: {', '.join(map(str, ids))}")
    return {**spec, "fields": [{**field, "field-id": its_id}
                               for field, its_id in zip(spec["fields"], ids, strict=True)]}
