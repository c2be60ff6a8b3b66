"""The endpoints of namespaces.

What lives here: one function per endpoint, from the request to the reply.
What it does not know: how a namespace is stored, and HTTP.
"""

from __future__ import annotations

from typing import Any

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.rest.forms import SEPARATOR
from deltanb.catalog.rest.server.keyed import writing
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.pages import listed
from deltanb.catalog.rest.server.refusals import refused
from deltanb.catalog.store.namespaces import Namespaces
from deltanb.errors import NamespaceNotFound

__all__ = ["create_namespace", "drop_namespace", "list_namespaces", "load_namespace", "namespace_exists",
           "parents", "update_properties"]


def parents(request: Request) -> None:
    """The sender may see something in the namespace around those that are listed."""
    parent = _parent(request)
    if parent and not request.principal.sees(parent):
        request.allow("read", parent)


def _parent(request: Request) -> tuple[str, ...]:
    joined = request.query.get("parent")
    return tuple(joined.split(SEPARATOR)) if joined else ()


def list_namespaces(request: Request) -> Reply:
    """The namespaces directly inside of ``parent``, or at the top, that the sender may see."""
    namespaces = request.service.tables.store.namespaces

    def value(namespace: tuple[str, ...]) -> list[str] | None:
        return list(namespace) if request.principal.sees(namespace) else None

    return listed(
        request, "namespaces", lambda token, size: namespaces.children(_parent(request), token, size), value)


def create_namespace(request: Request) -> Reply:
    """Make a namespace."""
    body = request.body
    properties = body.get("properties", {})
    reply = Reply(value={"namespace": list(body["namespace"]), "properties": properties})
    _through(request, reply).create(body["namespace"], properties)
    return reply


def load_namespace(request: Request) -> Reply:
    """A namespace's properties."""
    properties = request.service.tables.store.namespaces.properties(request.namespace)
    return Reply(value={"namespace": list(request.namespace), "properties": properties})


def namespace_exists(request: Request) -> Reply:
    """Whether a namespace exists."""
    if not request.service.tables.store.namespaces.exists(request.namespace):
        name = ".".join(request.namespace)
        raise NamespaceNotFound(f"there is no namespace {name}", namespace=name)
    return Reply(204)


def drop_namespace(request: Request) -> Reply:
    """Drop a namespace that is empty."""
    reply = Reply(204)
    _through(request, reply).drop(request.namespace)
    return reply


def update_properties(request: Request) -> Reply:
    """Set and remove properties of a namespace."""
    body: Json = request.body
    updates, removals = body.get("updates", {}), sorted(set(body.get("removals", [])))
    both = sorted(set(updates) & set(removals))
    if both:
        return refused(422, "UnprocessableEntityException", f"{', '.join(both)}: both set and removed")

    def reply(removed: list[str]) -> Reply:
        missing = [name for name in removals if name not in removed]
        return Reply(value={"updated": sorted(updates), "removed": removed, "missing": missing})

    store = request.service.tables.store
    return reply(Namespaces(writing(request, reply), store.name).update(
        request.namespace, updates, removals))


def _through(request: Request, reply: Reply) -> Namespaces:
    """The namespaces, changed in one transaction with the answer to the request."""

    def always(_: Any) -> Reply:
        return reply

    return Namespaces(writing(request, always), request.service.tables.store.name)
