"""Iceberg tables and updates to test with, small."""

from __future__ import annotations

from typing import Any

from deltanb.catalog.iceberg.metadata.document import apply, new_metadata

UUID = "550e8400-e29b-41d4-a716-446655440000"
OTHER_UUID = "660e8400-e29b-41d4-a716-446655440001"
NOW = 1_705_398_600_000
MINUTE = 60_000
Json = dict[str, Any]
SET_SCHEMA = {"action": "set-current-schema", "schema-id": -1}
SET_SPEC = {"action": "set-default-spec", "spec-id": -1}
SET_ORDER = {"action": "set-default-sort-order", "sort-order-id": -1}


def column(its_id: int, name: str, kind: Any = "long", required: bool = False, **more: Any) -> Json:
    return {"id": its_id, "name": name, "type": kind, "required": required, **more}


def struct(*columns: Json, **more: Any) -> Json:
    return {"type": "struct", "fields": list(columns), **more}


SCHEMA = struct(column(1, "id", "long", True), column(2, "day", "date"), column(3, "name", "string"))
BY_DAY = {"fields": [{"source-id": 2, "transform": "identity", "name": "day"}]}
BY_BUCKET = {"fields": [{"source-id": 1, "transform": "bucket[16]", "name": "id_bucket"}]}


def sort_by(source: int, direction: str = "asc") -> Json:
    return {"fields": [{"source-id": source, "transform": "identity", "direction": direction,
                        "null-order": "nulls-first"}]}


def table(version: int = 2, **properties: str) -> Json:
    return new_metadata(SCHEMA, "s3://lake/t", None, None, properties, version, UUID, NOW)


def snapshot(its_id: int, parent: int | None = None, number: int | None = None, time: int = NOW,
             **more: Any) -> Json:
    made = {"snapshot-id": its_id, "timestamp-ms": time, "manifest-list": f"s3://lake/t/metadata/{its_id}.avro",
            "summary": {"operation": "append"}, **more}
    if parent is not None:
        made["parent-snapshot-id"] = parent
    if number is not None:
        made["sequence-number"] = number
    return made


def add(its_id: int, parent: int | None = None, number: int | None = None, **more: Any) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot(its_id, parent, number, **more)}


def point(its_id: int, name: str = "main", kind: str = "branch", **more: Any) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": its_id, **more}


def with_snapshots(count: int, version: int = 2) -> Json:
    """A table on whose main branch there are so many snapshots, 1 and up."""
    made = table(version)
    for its_id in range(1, count + 1):
        made = apply([add(its_id, its_id - 1 or None, its_id), point(its_id)], made, NOW + its_id)
    return made


def log_of(metadata: Json) -> list[int]:
    return [entry["snapshot-id"] for entry in metadata["snapshot-log"]]


def add_schema(schema: Json) -> Json:
    return {"action": "add-schema", "schema": schema}


def add_spec(spec: Json) -> Json:
    return {"action": "add-spec", "spec": spec}


def set_properties(**updates: str) -> Json:
    return {"action": "set-properties", "updates": updates}
