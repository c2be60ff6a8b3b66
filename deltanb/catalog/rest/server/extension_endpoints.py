"""The endpoints beside those of Iceberg's REST catalog, in one table.

What lives here: method, whole path and function of each: those of this library's own, for ``dn.connect``, and
those of Unity Catalog's Delta API.
What it does not know: how a request comes in.
"""

from __future__ import annotations

from collections.abc import Callable

from deltanb.catalog.rest.server import own
from deltanb.catalog.rest.server.endpoints import Endpoint
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.ratify import outcome, ratify
from deltanb.catalog.unity.server import endpoints as unity

__all__ = ["MORE_ENDPOINTS"]

OWN = "/deltanb/v1"

KEYED = (own.register, own.rename, own.drop)
"""Those whose answer is kept for an idempotency key; asking the others twice does no more than once."""


def _own(path: str, call: Callable[[Request], Reply], summary: str) -> Endpoint:
    return Endpoint("POST", f"{OWN}{path}", call, summary, body="Object", is_keyed=call in KEYED)


UNITY = ("/delta/v1", "/api/2.1/unity-catalog/delta/v1")
"""Where Unity Catalog's Delta API is: below the server's root, and where its own server has it."""


def _unity() -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(method, f"{root}{path}", call, str(call.__doc__),
                 body="Object" if method == "POST" else None, is_keyed=False)
        for root in UNITY for method, path, call in unity.ENDPOINTS)


MORE_ENDPOINTS = (
    *_unity(),
    Endpoint("GET", f"{OWN}/config", own.config, "The catalog's name and warehouse"),
    _own("/tables/load", own.load, "Tables by name, at one instant"),
    _own("/tables/page", own.page, "A page of a namespace's tables"),
    _own("/tables/register", own.register, "Register a Delta table"),
    _own("/tables/is-registered", own.is_registered, "Whether a registration has landed"),
    _own("/tables/rename", own.rename, "Rename a table"),
    _own("/tables/drop", own.drop, "Drop a table"),
    _own("/tails", own.tails, "Delta tables with their commits that are not published"),
    _own("/content", own.content, "The content of an inline commit"),
    _own("/published", own.published, "Say up to which version a table is published"),
    _own("/ratify", ratify, "Move many tables, all or none"),
    _own("/outcome", outcome, "Whether a transaction has landed"),
    _own("/instant", own.instant, "The number of the last transaction"),
    _own("/pointers", own.pointers, "Where tables stood after a transaction"),
    _own("/history", own.history, "Transactions in their order"),
    _own("/names", own.names, "The names of tables by their ids"),
    _own("/overview", own.overview, "The catalog at a glance"),
    _own("/places/record", own.record_places, "Note folders of tables that are being made"),
    _own("/places/free", own.free, "Refuse a folder that is another table's"),
    _own("/places/forget", own.forget_places, "Take such folders out again"),
)
