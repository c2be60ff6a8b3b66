"""The description of a server in OpenAPI 3.1, made of the table of endpoints and the checks of their bodies.

What lives here: the paths around the schemas.
What it does not know: any endpoint. The schemas say no more than what clients need to write a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltanb._version import __version__
from deltanb.catalog.iceberg.metadata.fields import Check, Json, described, uuid_text
from deltanb.catalog.rest.endpoint import Endpoint

__all__ = ["description"]


def description(endpoints: Iterable[Endpoint]) -> Json:
    """The description of endpoints."""
    paths: dict[str, Json] = {}
    schemas: dict[str, Json] = {}
    for each in endpoints:
        for root in each.roots:
            paths.setdefault(f"{root}{each.path}", {})[each.method.lower()] = _operation(each, root, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "deltanb catalog", "version": __version__,
                 "description": "The Iceberg REST catalog, with commits of many tables at once."},
        "paths": paths,
        "components": {
            "schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _operation(endpoint: Endpoint, root: str, schemas: dict[str, Json]) -> Json:
    names = [part[1:-1] for part in f"{root}{endpoint.path}".split("/") if part.startswith("{")]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    meanings = endpoint.api.parameters
    if meanings is not None:
        for each in parameters:
            each["description"] = meanings.get(each["name"], each["name"])
    operation: Json = {
        "operationId": endpoint.api.roots[root].format(endpoint.name), "summary": endpoint.summary,
        "parameters": [*parameters, *endpoint.query], "responses": _responses(endpoint, schemas)}
    if endpoint.is_keyed and meanings is not None:
        operation["parameters"].append(_KEY)
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(endpoint.body, schemas)}
    return operation


def _responses(endpoint: Endpoint, schemas: dict[str, Json]) -> Json:
    done: Json = {"description": "Done"}
    if endpoint.answer is not None:
        done["content"] = _json(endpoint.answer, schemas)
    responses = {str(endpoint.status): done}
    for status, text in endpoint.more.items():
        responses[str(status)] = {"description": text}
    for status, text in endpoint.api.statuses.items():
        responses[str(status)] = {"description": text}
        if endpoint.method != "HEAD":
            responses[str(status)]["content"] = _json(endpoint.api.error, schemas)
    return responses


def _json(check: Check, schemas: dict[str, Json]) -> Json:
    return {"application/json": {"schema": described(check, schemas)}}


_KEY = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": described(uuid_text, {}),
        "description": "the same key with the same request is answered and not done again"}
