"""The reference of the server's endpoints, made from the OpenAPI description that it publishes.

What lives here: the form of the page.
What it does not know: any endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.catalog.rest.endpoints import ENDPOINTS
from deltanb.catalog.rest.server.openapi import description
from docs.reference.names import page_part
from docs.reference.rst import code, page, table

INTRODUCTION = """
``deltanb serve`` and ``catalog.serve()`` answer clients of the Iceberg REST catalog, of Unity Catalog
(:doc:`what differs from its own server <unity-server>`), and :func:`deltanb.connect`. A running server
publishes what is below as OpenAPI 3.1 at
``/openapi.json``. A request carries its token as ``Authorization: Bearer …``.
"""
APIS = {
    "/v1": ("The Iceberg REST catalog", "Each endpoint but ``/v1/config`` is also below ``/v1/{prefix}``."),
    "/delta/v1": ("Tables for clients of Unity Catalog",
                  "Each endpoint is also below ``/api/2.1/unity-catalog/delta/v1``."),
    "/api/2.1/unity-catalog": ("Names for clients of Unity Catalog", ""),
    "/deltanb/v1": ("What ``dn.connect`` asks", "This part may change with any release."),
}
"""Where paths begin -> the API that is there, and a remark."""
TWICE = ("/v1/{prefix}/", "/api/2.1/unity-catalog/delta/")
"""Where paths begin that have all that another root has."""


def pages() -> dict[str, str]:
    """The one page."""
    published = description(ENDPOINTS)
    parts = [_api(root, title, remark, published["paths"]) for root, (title, remark) in APIS.items()]
    schemas = [_schema(name, schema) for name, schema in published["components"]["schemas"].items()]
    return {"rest.rst": page("REST endpoints", INTRODUCTION, *parts, page_part("Bodies", *schemas))}


def _api(root: str, title: str, remark: str, paths: Mapping[str, Any]) -> str:
    operations = [(path, method, operation) for path, methods in paths.items()
                  if path.startswith(f"{root}/") and not path.startswith(TWICE)
                  for method, operation in methods.items()]
    rows = [_row(*each) for each in operations]
    statuses = {status: answer["description"] for _, _, operation in operations
                for status, answer in sorted(operation["responses"].items()) if status >= "300"}
    meanings = [(code(status), text) for status, text in sorted(statuses.items())]
    endpoints = table(("endpoint", "what it does", "body", "answer"), rows, "35 35 15 15")
    return page_part(title, remark, endpoints, table(("status", "meaning"), meanings))


def _row(path: str, method: str, operation: Any) -> tuple[str, ...]:
    what = [operation["summary"].rstrip(".") + "."]
    for each in operation.get("parameters", ()):
        if each["in"] == "query":
            what.append(f"{code('?' + each['name'])}: {each.get('description', '')}.")
    status, answer = next(iter(operation["responses"].items()))
    return (code(f"{method.upper()} {path}"), " ".join(what), _body(operation.get("requestBody", {})),
            f"{code(status)} {_body(answer)}".strip())


def _body(message: Mapping[str, Any]) -> str:
    content = message.get("content", {}).get("application/json")
    return _kind(content["schema"]) if content else ""


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    fields = schema.get("properties", {})
    required = schema.get("required", ())
    rows = [(code(name), _kind(kind), "required" if name in required else "")
            for name, kind in fields.items()]
    body = table(("field", "kind", ""), rows, "30 55 15") if rows else _kind(schema) + "."
    return f".. _body-{name.lower()}:\n\n{name}\n{'~' * len(name)}\n\n{body}"


def _kind(schema: Mapping[str, Any] | bool) -> str:
    """What a value may be, in a few words."""
    if isinstance(schema, bool) or not schema:
        return "any JSON"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f":ref:`{name} <body-{name.lower()}>`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[several])))
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "const" in schema:
        return code(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(map(code, kind))
    if kind == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return str(kind or "any JSON")
