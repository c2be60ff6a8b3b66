"""The description of the server in OpenAPI 3.1, made of the table of endpoints.

What lives here: the schemas of bodies and answers, and the paths around them.
What it does not know: how a request is checked. The schemas say no more than what clients need to write one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from deltanb._version import __version__
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.rest.server.endpoints import ENDPOINTS, PREFIX, Endpoint

__all__ = ["description"]

REFUSALS = {400: "The request is malformed", 401: "No token, or an unknown one", 403: "Not allowed",
            404: "Nothing of that name", 406: "Of a kind that is not supported", 408: "The body is late",
            409: "In conflict with what is there", 413: "The body is too large", 415: "The body is no JSON",
            419: "The token has expired", 422: "Set and removed at once",
            500: "Nobody knows whether a commit landed", 503: "Nothing happened; try again"}


@lru_cache(maxsize=1)
def description() -> Json:
    """The whole description."""
    paths: dict[str, Json] = {}
    for each in ENDPOINTS:
        for prefix in ("", PREFIX) if each.has_prefix else ("",):
            paths.setdefault(f"/v1{prefix}{each.path}", {})[each.method.lower()] = _operation(each, prefix)
    return {
        "openapi": "3.1.0",
        "info": {"title": "deltanb catalog", "version": __version__,
                 "description": "The Iceberg REST catalog, with commits of many tables at once."},
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _operation(endpoint: Endpoint, prefix: str) -> Json:
    names = [part[1:-1] for part in f"{prefix}{endpoint.path}".split("/") if part.startswith("{")]
    found: Json = {
        "operationId": endpoint.name + ("_with_prefix" if prefix else ""),
        "summary": endpoint.summary,
        "parameters": [_in_path(name) for name in names] + [_QUERY[name] for name in endpoint.query],
        "responses": _responses(endpoint),
    }
    if endpoint.changes:
        found["parameters"].append(_KEY)
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": _json(endpoint.body)}
    return found


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"},
            "description": "the parts of the namespace, joined by 0x1F" if name == "namespace" else name}


def _responses(endpoint: Endpoint) -> Json:
    done: Json = {"description": "Done"}
    if endpoint.answer is not None:
        done["content"] = _json(endpoint.answer)
    found = {str(endpoint.status): done}
    if endpoint.name == "commit_tables":
        found["204"] = {"description": "Done, and the client asked for no body"}
    if endpoint.name == "load_table":
        found["304"] = {"description": "As the client knows it"}
    for status, text in REFUSALS.items():
        found[str(status)] = {"description": text}
        if endpoint.method != "HEAD":
            found[str(status)]["content"] = _json("Error")
    return found


def _json(schema: str) -> Json:
    return {"application/json": {"schema": _ref(schema)}}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Json, optional: Json | None = None, closed: bool = True) -> Json:
    found: Json = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def _array(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def _query(name: str, schema: Json, text: str) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


_TEXT, _FLAG, _ANY = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_INT = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
_LONG = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_UUID = {"type": "string", "format": "uuid"}
_TOKEN = {"type": ["string", "null"]}
_NAMESPACE = _array(_TEXT, minItems=1)

_QUERY = {
    "warehouse": _query("warehouse", _TEXT, "the warehouse that the client means"),
    "parent": _query("parent", _TEXT, "the namespace around those to list, its parts joined by 0x1F"),
    "pageToken": _query("pageToken", _TEXT, "next-page-token of the page before; empty for the first page"),
    "pageSize": _query(
        "pageSize", {"type": "integer", "minimum": 1, "maximum": 999_999_999}, "rows of a page"),
    "snapshots": _query("snapshots", {"enum": ["all", "refs"]}, "all, or those that branches and tags name"),
    "purgeRequested": _query("purgeRequested", _FLAG, "whether the table's files are deleted too"),
}
_KEY = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": _UUID,
        "description": "the same key with the same request is answered and not done again"}


def _action(name: str, required: Json | None = None, optional: Json | None = None) -> Json:
    return _object({"action": {"const": name}, **(required or {})}, optional)


def _requirement(name: str, required: Json | None = None, optional: Json | None = None) -> Json:
    return _object({"type": {"const": name}, **(required or {})}, optional)


_STATISTICS = {"snapshot-id": _LONG, "statistics-path": _TEXT, "file-size-in-bytes": _COUNT}
_FIELD = _object({"id": _INT, "name": _TEXT, "type": {"anyOf": [_TEXT, _ANY]}, "required": _FLAG},
                 {"doc": _TEXT, "initial-default": {}, "write-default": {}})
_SCHEMAS: dict[str, Json] = {
    "Error": _object({"error": _object({"message": _TEXT, "type": _TEXT, "code": _INT}, {
        "field": _TEXT, "failed-requirements": _array(_ANY)})}),
    "Config": _object({"defaults": _TEXTS, "overrides": _TEXTS, "endpoints": _array(_TEXT),
                       "idempotency-key-lifetime": _TEXT}),
    "Identifier": _object({"namespace": _NAMESPACE, "name": _TEXT}),
    "Namespaces": _object({"namespaces": _array(_NAMESPACE), "next-page-token": _TOKEN}),
    "Namespace": _object({"namespace": _NAMESPACE, "properties": _TEXTS}),
    "CreateNamespace": _object({"namespace": _NAMESPACE}, {"properties": _TEXTS}),
    "UpdateProperties": _object({}, {"removals": _array(_TEXT), "updates": _TEXTS}),
    "UpdatedProperties": _object(
        {"updated": _array(_TEXT), "removed": _array(_TEXT), "missing": _array(_TEXT)}),
    "Tables": _object({"identifiers": _array(_ref("Identifier")),
                       "next-page-token": _TOKEN}),
    "Table": _object({"metadata": _ANY, "config": _TEXTS}, {"metadata-location": _TEXT}),
    "Schema": _object({"type": {"const": "struct"}, "fields": _array(_FIELD)},
                      {"schema-id": _INT, "identifier-field-ids": _array(_INT)}),
    "PartitionSpec": _object({"fields": _array(_object(
        {"source-id": _INT, "transform": _TEXT, "name": _TEXT}, {"field-id": _INT}))}, {"spec-id": _INT}),
    "SortOrder": _object({"fields": _array(_object(
        {"source-id": _INT, "transform": _TEXT, "direction": {"enum": ["asc", "desc"]},
         "null-order": {"enum": ["nulls-first", "nulls-last"]}}))}, {"order-id": _INT}),
    "Snapshot": _object(
        {"snapshot-id": _COUNT, "timestamp-ms": _LONG, "manifest-list": _TEXT,
         "summary": {"type": "object", "properties": {"operation": _TEXT}, "required": ["operation"],
                     "additionalProperties": _TEXT}},
        {"parent-snapshot-id": _LONG, "sequence-number": _COUNT, "schema-id": _INT, "first-row-id": _COUNT,
         "added-rows": _COUNT, "key-id": _TEXT}),
    "CreateTable": _object({"name": _TEXT, "schema": _ref("Schema")}, {
        "location": _TEXT, "partition-spec": _ref("PartitionSpec"), "write-order": _ref("SortOrder"),
        "stage-create": _FLAG, "properties": _TEXTS}),
    "RegisterTable": _object({"name": _TEXT, "metadata-location": _TEXT}, {"overwrite": _FLAG}),
    "RenameTable": _object({"source": _ref("Identifier"), "destination": _ref("Identifier")}),
    "Report": _object({"report-type": _TEXT}, closed=False),
    "CommitTable": _object(
        {"requirements": _array(_ref("Requirement")), "updates": _array(_ref("Update"))},
        {"identifier": _ref("Identifier")}),
    "CommitTransaction": _object({"table-changes": _array(_object({
        "identifier": _ref("Identifier"), "requirements": _array(_ref("Requirement")),
        "updates": _array(_ref("Update"))}), minItems=1)}),
    "Committed": _object({"commit-id": _TEXT, "results": _array(_object(
        {"identifier": _ref("Identifier"), "metadata-location": _TEXT}))}),
    "Requirement": {"oneOf": [
        _requirement("assert-create"),
        _requirement("assert-table-uuid", {"uuid": _TEXT}),
        _requirement("assert-ref-snapshot-id", {"ref": _TEXT}, {
            "snapshot-id": {"type": ["integer", "null"], "minimum": -(2**63), "maximum": 2**63 - 1}}),
        *(_requirement(f"assert-{name}", {name: _INT}) for name in (
            "last-assigned-field-id", "current-schema-id", "last-assigned-partition-id", "default-spec-id",
            "default-sort-order-id"))]},
    "Update": {"oneOf": [
        _action("assign-uuid", {"uuid": _UUID}),
        _action("upgrade-format-version", {"format-version": _INT}),
        _action("add-schema", {"schema": _ref("Schema")}, {"last-column-id": _INT}),
        _action("set-current-schema", {"schema-id": _INT}),
        _action("add-spec", {"spec": _ref("PartitionSpec")}),
        _action("add-partition-spec", {"spec": _ref("PartitionSpec")}),
        _action("set-default-spec", {"spec-id": _INT}),
        _action("add-sort-order", {"sort-order": _ref("SortOrder")}),
        _action("set-default-sort-order", {"sort-order-id": _INT}),
        _action("add-snapshot", {"snapshot": _ref("Snapshot")}),
        _action("set-snapshot-ref",
                {"ref-name": _TEXT, "type": {"enum": ["branch", "tag"]}, "snapshot-id": _LONG},
                {"min-snapshots-to-keep": _INT, "max-snapshot-age-ms": _LONG, "max-ref-age-ms": _LONG}),
        _action("remove-snapshots", {"snapshot-ids": _array(_LONG)}),
        _action("remove-snapshot-ref", {"ref-name": _TEXT}),
        _action("set-location", {"location": _TEXT}),
        _action("set-properties", {"updates": _TEXTS}),
        _action("remove-properties", {"removals": _array(_TEXT)}),
        _action("set-statistics", {"statistics": _object({
            **_STATISTICS, "file-footer-size-in-bytes": _COUNT, "blob-metadata": _array(_ANY)},
            {"key-metadata": _TEXT})}, {"snapshot-id": _LONG}),
        _action("remove-statistics", {"snapshot-id": _LONG}),
        _action("set-partition-statistics", {"partition-statistics": _object(_STATISTICS)}),
        _action("remove-partition-statistics", {"snapshot-id": _LONG}),
        _action("remove-partition-specs", {"spec-ids": _array(_INT)}),
        _action("remove-schemas", {"schema-ids": _array(_INT)}),
        _action("add-encryption-key", {"encryption-key": _object(
            {"key-id": _TEXT, "encrypted-key-metadata": _TEXT},
            {"encrypted-by-id": _TEXT, "properties": _TEXTS})}),
        _action("remove-encryption-key", {"key-id": _TEXT})]},
}
