"""All endpoints of the server, in one table.

What lives here: method, path, function, body and answers of each; the server's routes, the endpoints that
``/v1/config`` lists and the OpenAPI description are made of this table.
What it does not know: how a request comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltanb.catalog.rest.server import namespaces, tables
from deltanb.catalog.rest.server.messages import Reply, Request

__all__ = ["ENDPOINTS", "Endpoint", "names_of_endpoints"]

PREFIX = "/{prefix}"
"""Before every path but that of the configuration; may be left out."""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint below ``/v1`` and, but for the configuration, below ``/v1/{prefix}``."""

    method: str
    path: str
    call: Callable[[Request], Reply]
    summary: str
    status: int = 200
    body: str | None = None
    """The name of the schema of the body it takes."""
    answer: str | None = None
    """The name of the schema of what it answers with."""
    query: tuple[str, ...] = ()
    has_prefix: bool = True
    is_keyed: bool = True
    """Whether it takes an idempotency key, if it changes anything."""

    @property
    def name(self) -> str:
        """Its name in descriptions: that of the function."""
        return self.call.__name__

    @property
    def changes(self) -> bool:
        """Whether it takes an idempotency key."""
        return self.is_keyed and self.method in ("POST", "DELETE") and self.name != "report_metrics"


def config(request: Request) -> Reply:
    """What clients ask first: settings, and which endpoints there are."""
    request.service.require_warehouse(request.query.get("warehouse"))
    return Reply(value={
        "defaults": {}, "overrides": {}, "endpoints": names_of_endpoints(),
        "idempotency-key-lifetime": f"PT{request.service.settings.key_lifetime // 60_000}M"})


_PAGES = ("pageToken", "pageSize")
_SPACE, _TABLES = "/namespaces/{namespace}", "/namespaces/{namespace}/tables"
_TABLE = f"{_TABLES}/{{table}}"

ENDPOINTS = (
    Endpoint("GET", "/config", config, "Settings and endpoints", answer="Config",
             query=("warehouse",), has_prefix=False),
    Endpoint("GET", "/namespaces", namespaces.list_namespaces, "List namespaces", answer="Namespaces",
             query=("parent", *_PAGES)),
    Endpoint("POST", "/namespaces", namespaces.create_namespace, "Create a namespace",
             body="CreateNamespace", answer="Namespace"),
    Endpoint("GET", _SPACE, namespaces.load_namespace, "Load a namespace", answer="Namespace"),
    Endpoint("HEAD", _SPACE, namespaces.namespace_exists, "Whether a namespace is there", 204),
    Endpoint("DELETE", _SPACE, namespaces.drop_namespace, "Drop an empty namespace", 204),
    Endpoint("POST", f"{_SPACE}/properties", namespaces.update_properties, "Change a namespace's properties",
             body="UpdateProperties", answer="UpdatedProperties"),
    Endpoint("GET", _TABLES, tables.list_tables, "List tables", answer="Tables", query=_PAGES),
    Endpoint("POST", _TABLES, tables.create_table, "Create a table", body="CreateTable", answer="Table"),
    Endpoint("POST", f"{_SPACE}/register", tables.register_table, "Register a table by its metadata file",
             body="RegisterTable", answer="Table"),
    Endpoint("GET", _TABLE, tables.load_table, "Load a table", answer="Table", query=("snapshots",)),
    Endpoint("HEAD", _TABLE, tables.table_exists, "Whether a table is there", 204),
    Endpoint("POST", _TABLE, tables.commit_table, "Commit to a table", body="CommitTable", answer="Table"),
    Endpoint("DELETE", _TABLE, tables.drop_table, "Drop a table", 204, query=("purgeRequested",)),
    Endpoint("POST", f"{_TABLE}/metrics", tables.report_metrics, "Report metrics", 204, body="Report"),
    Endpoint("POST", "/tables/rename", tables.rename_table, "Rename a table", 204, body="RenameTable"),
    Endpoint("POST", "/transactions/commit", tables.commit_tables, "Commit to many tables, all or none",
             body="CommitTransaction", answer="Committed"),
)


def names_of_endpoints() -> list[str]:
    """The endpoints as ``/v1/config`` lists them."""
    return [f"{each.method} /v1{PREFIX}{each.path}" for each in ENDPOINTS if each.has_prefix]
