"""The description of the endpoints beside those of Iceberg's REST catalog, in OpenAPI 3.1.

What lives here: the schemas of their bodies, the paths around them, and the description of the whole server.
What it does not know: how a request is checked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.rest.server.endpoints import Endpoint
from deltanb.catalog.rest.server.extension_endpoints import MORE_ENDPOINTS, OWN, UNITY
from deltanb.catalog.rest.server.openapi import description

__all__ = ["whole_description"]

REFUSALS = {400: "The request is malformed, or cannot be done", 401: "No token, or an unknown one",
            403: "Not allowed", 404: "Nothing of that name", 408: "The body is late",
            409: "In conflict with what is there", 413: "The body is too large", 415: "The body is no JSON",
            419: "The token has expired", 429: "Too many commits are unpublished",
            500: "Nobody knows whether a commit landed", 503: "Nothing happened; try again"}


@lru_cache(maxsize=1)
def whole_description() -> Json:
    """The description of all endpoints of a server."""
    found = description()
    paths = dict(found["paths"])
    for each in MORE_ENDPOINTS:
        paths[each.path] = {**paths.get(each.path, {}), each.method.lower(): _operation(each)}
    components = {**found["components"], "schemas": {**found["components"]["schemas"], **_SCHEMAS}}
    return {**found, "paths": paths, "components": components}


def _operation(endpoint: Endpoint) -> Json:
    root = next(root for root in (OWN, *UNITY) if endpoint.path.startswith(root))
    short = endpoint.path.removeprefix(root)
    names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    content = {"application/json": {"schema": {"type": "object"}}}
    refusals = {str(status): {"description": text} | ({} if endpoint.method == "HEAD" else {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}})
        for status, text in REFUSALS.items()}
    found: Json = {
        "operationId": f"{_PREFIXES[root]}_{endpoint.name}", "summary": endpoint.summary,
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
        + _QUERIES.get(short, []),
        "responses": {"200": {"description": "Done", "content": content},
                      "204": {"description": "Done"}, **refusals}}
    if endpoint.body is not None:
        body = _OF_UNITY.get(short) if root in UNITY else f"own{short}"
        found["requestBody"] = {"required": True, "content": {"application/json": {
            "schema": {"$ref": f"#/components/schemas/{_name(str(body))}"}}}}
    return found


def _name(path: str) -> str:
    return path.replace("/", "-")


def _object(required: Json, optional: Json | None = None) -> Json:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required),
            "additionalProperties": False}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _required(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": True, "schema": schema}


_PREFIXES = {OWN: "own", UNITY[0]: "delta", UNITY[1]: "unity"}
_TEXT, _FLAG, _ANY = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_UUID = {"type": "string", "format": "uuid"}
_TABLE = _object({"namespace": _array(_TEXT), "name": _TEXT})
_IDS = _object({"table-ids": _array(_TEXT)})
_VERSION = _object({"table-id": _TEXT, "version": _COUNT})
_PLACES = _object({"locations": _array(_TEXT)})
_WHO = {"principal": _TEXT}
_DELTA = _object({"table": _TABLE, "table-id": _TEXT, "version": _COUNT}, {
    "file-name": _TEXT, "file-size": _COUNT, "mtime": _COUNT, "ict": _COUNT, "inline": _TEXT, "etag": _TEXT,
    "protocol": _TEXT, "metadata": _TEXT})
_ICEBERG = _object({"table": _TABLE, "requirements": _array(_ref("Requirement")),
                    "updates": _array(_ref("Update"))}, {"table-id": _TEXT})
_ASSERTION = _object({"table": _TABLE, "table-id": _TEXT, "pointer": {"type": ["integer", "string"]}})

_OWN: dict[str, Json] = {
    "/tables/load": _object({"tables": _array(_TABLE)}),
    "/tables/page": _object({"namespace": _array(_TEXT)}, {
        "page-token": _TEXT, "page-size": _COUNT, "format": {"enum": ["delta", "iceberg"]}}),
    "/tables/register": _object({"table": _TABLE, "location": _TEXT, "version": _COUNT}, {
        **_WHO, "table-id": _TEXT, "ict": _COUNT, "etag": _TEXT, "protocol": _TEXT, "metadata": _TEXT}),
    "/tables/is-registered": _object({"table-id": _TEXT}, {"keys": _array(_UUID)}),
    "/tables/rename": _object({"source": _TABLE, "destination": _TABLE}),
    "/tables/drop": _object({"table": _TABLE}, {**_WHO, "published": _FLAG, "purge": _FLAG}),
    "/tails": _IDS, "/names": _IDS, "/content": _VERSION, "/published": _VERSION,
    "/ratify": _object({"txn-id": _TEXT, "attempt": _UUID, "proposals": _array({"oneOf": [
        _object({"delta": _DELTA}), _object({"iceberg": _ICEBERG})]})},
        {**_WHO, "summary": _TEXT, "assertions": _array(_ASSERTION)}),
    "/outcome": _object({"txn-id": _TEXT}, {"attempts": _array(_UUID)}),
    "/instant": _object({}, {"time": _COUNT}),
    "/pointers": _object({"seq": _COUNT, "table-ids": _array(_TEXT)}),
    "/history": _object({"after": _COUNT, "size": _COUNT}),
    "/overview": _object({"most": _COUNT}),
    "/places/record": _object({"locations": _array(_TEXT), "table-id": _TEXT}), "/places/forget": _PLACES,
    "/places/free": _object({"location": _TEXT}, {"table-id": _TEXT, "table": _TABLE})}

_COLUMNS = _object({"type": {"const": "struct"}, "fields": _array(_object(
    {"name": _TEXT, "type": {"type": ["string", "object"]}, "nullable": _FLAG, "metadata": _ANY}))})
_PROTOCOL = _object({"min-reader-version": _COUNT, "min-writer-version": _COUNT}, {
    "reader-features": _array(_TEXT), "writer-features": _array(_TEXT)})
_DOMAINS = _object({}, {"delta.clustering": _object({"clusteringColumns": _array(_array(_TEXT))}),
                        "delta.rowTracking": _object({"rowIdHighWaterMark": _COUNT})})
_UNIFORM = _object({"iceberg": _ANY})
_COMMIT = _object({"version": _COUNT, "timestamp": _COUNT, "file-name": _TEXT, "file-size": _COUNT,
                   "file-modification-timestamp": _COUNT})


def _action(name: str, required: Json, optional: Json | None = None) -> Json:
    return _object({"action": {"const": name}, **required}, optional)


_SPACE = "/catalogs/{catalog}/schemas/{schema}"
_OF_UNITY = {f"{_SPACE}/staging-tables": "StagingTable", f"{_SPACE}/tables": "NewTable",
             f"{_SPACE}/tables/{{table}}": "UpdateTable", f"{_SPACE}/tables/{{table}}/rename": "NewName",
             f"{_SPACE}/tables/{{table}}/metrics": "CommitMetrics"}
_QUERIES: dict[str, list[Any]] = {
    "/config": [_required("catalog", _TEXT), _required("protocol-versions", _TEXT)],
    f"{_SPACE}/tables/{{table}}/credentials": [_required("operation", {"enum": ["READ", "READ_WRITE"]})]}
_SCHEMAS: dict[str, Json] = {
    "Refusal": {"type": "object", "required": ["error"], "properties": {"error": {
        "type": "object", "required": ["message", "type", "code"]}}},
    **{f"own{_name(path)}": schema for path, schema in _OWN.items()},
    "StagingTable": _object({"name": _TEXT}), "NewName": _object({"new-name": _TEXT}),
    "CommitMetrics": _object({"table-id": _UUID}, {"report": _ANY}),
    "NewTable": _object(
        {"name": _TEXT, "location": _TEXT, "table-type": {"enum": ["MANAGED"]}, "columns": _COLUMNS,
         "protocol": _PROTOCOL, "properties": _TEXTS, "last-commit-timestamp-ms": _COUNT},
        {"comment": _TEXT, "partition-columns": _array(_TEXT), "domain-metadata": _DOMAINS}),
    "UpdateTable": _object({
        "requirements": _array({"oneOf": [
            _object({"type": {"const": "assert-table-uuid"}, "uuid": _UUID}),
            _object({"type": {"const": "assert-etag"}, "etag": _TEXT})]}),
        "updates": _array({"oneOf": [
            _action("add-commit", {"commit": _COMMIT}, {"uniform": _UNIFORM}),
            _action("set-latest-backfilled-version", {"latest-published-version": _COUNT}),
            _action("set-properties", {"updates": _TEXTS}),
            _action("remove-properties", {"removals": _array(_TEXT)}),
            _action("set-columns", {"columns": _COLUMNS}),
            _action("set-table-comment", {"comment": _TEXT}),
            _action("set-protocol", {"protocol": _PROTOCOL}),
            _action("set-domain-metadata", {"updates": _DOMAINS}),
            _action("remove-domain-metadata", {"domains": _array(_TEXT)}),
            _action("set-partition-columns", {"partition-columns": _array(_TEXT)}),
            _action("update-metadata-snapshot-version", {
                "last-commit-version": _COUNT, "last-commit-timestamp-ms": _COUNT})]})}),
}
