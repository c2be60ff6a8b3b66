"""The endpoints of this library's own, below ``/deltanb/v1``: a catalog's store, for ``dn.connect``.

What lives here: the function of each endpoint that does more than call a method of the store. Permissions are
of namespaces, so a table that is given by its id is looked up first.
What it does not know: ratification (``ratify``), how tables are stored, and HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from deltanb.catalog.delta.tables import GRACE, managed_table
from deltanb.catalog.delta.tables import register as register_snapshot
from deltanb.catalog.iceberg.metadata.fields import Json, refuse
from deltanb.catalog.overview import Overview
from deltanb.catalog.rest.server.keyed import writing
from deltanb.catalog.rest.server.messages import Reply, Request, writers_of
from deltanb.catalog.rest.server.ratify import give_up
from deltanb.catalog.store.contents import table_around
from deltanb.catalog.store.history import Entry
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.namespaces import every_namespace
from deltanb.catalog.store.ownership import EVERYONE, NEW_TABLE, FolderNote, forget
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.errors import Forbidden
from deltanb.options import options

__all__ = ["config", "drop", "forget_places", "free", "history", "is_registered", "names", "overview",
           "passed_on", "readers_by_id", "record_places", "register", "writers_by_id", "writers_somewhere"]

MAX_ENTRIES = 1000  # transactions of one page of history


def passed_on(name: str) -> Callable[[Request], Reply]:
    """The function of an endpoint that is a method of the store, and no more: its parameters are the body's
    fields, its result the answer."""

    def call(request: Request) -> Reply:
        endpoint, store = request.endpoint, request.service.tables.store
        assert endpoint is not None and endpoint.carries is not None
        method = endpoint.carries.__name__
        holder = store if hasattr(store, method) else _registry(request)
        return request.answered(getattr(holder, method)(**endpoint.arguments(request.body)))

    call.__name__ = name.replace("-", "_")
    return call


def config(request: Request) -> Reply:
    """The catalog's name and warehouse, which clients ask for first."""
    tables = request.service.tables
    return request.answered({"name": tables.store.name, "warehouse": tables.warehouse.uri})


# -- tables ------------------------------------------------------------------------------------------


def register(request: Request) -> Reply:
    """Make a row for a Delta table that lies in the warehouse; its folder is no garbage any more.

    What counts is its log, which is read here.
    """
    body = request.body
    tables = request.service.tables
    location = tables.warehouse.table_location(body["location"], "location")
    claims = tables.store.tables.claims_on(location)
    noted = claims.noted
    if noted is not None and request.principal.name not in (None, noted.who):
        raise Forbidden(f"{location} was noted by {noted.who}, not by {request.principal.name}")
    if noted is None:  # else it was empty, and what lies there is the new table's
        request.allow("write", *claims.left_in)
    _require_vacant_around(request, location)
    snapshot = managed_table(tables.warehouse.store_at(location), body["version"], body.get("table-id"))
    return request.answered(register_snapshot(
        _registry(request), body["table"], snapshot, body.get("table-id"), _who(request, body)))


def _require_vacant_around(request: Request, location: str) -> None:
    """Refuse a place in the folder of a table, though no catalog has that."""
    warehouse = request.service.tables.warehouse
    around = table_around(warehouse.store, warehouse.name_of(location, "location"))
    if around is not None:
        refuse("location", f"lies in the folder of another table, {around or warehouse.uri}")


def is_registered(request: Request) -> Reply:
    """Whether there is a table with an id; the registrations that are named can make it no more."""
    body = request.body
    give_up(request, [f"{request.principal.name or ''}/{key}" for key in body.get("keys", [])])
    is_there = request.service.tables.store.tables.is_registered(body["table-id"])
    return request.answered(is_there)


def drop(request: Request) -> Reply:
    """Take a table out of the catalog; its files stay."""
    body = request.body
    return request.answered(_registry(request).drop(
        body["table"], _who(request, body), body.get("published", False),
        options.clock() if body.get("purge", False) else None, request.principal.name))


def _registry(request: Request) -> Registry:
    """The tables' rows, changed in one transaction with the answer to the request."""
    return request.service.tables.store.tables.through(writing(request, request.answered))


def _who(request: Request, body: Json) -> str | None:
    """The principal for the history: the token's owner; without tokens, whom the client names."""
    name: str | None = request.principal.name or body.get("principal")
    return name


# -- tables by their ids -------------------------------------------------------------------------------


def readers_by_id(request: Request) -> None:
    """The sender may read the tables of which the body has the ids."""
    _require_by_id(request, "read")


def writers_by_id(request: Request) -> None:
    """The sender may write the table of which the body has the id."""
    _require_by_id(request, "write")


def _require_by_id(request: Request, what: str) -> None:
    """Refuse a sender who may not do something in the namespaces of the tables.

    Raises:
        TableNotFound: this catalog has no table of an id.
        Forbidden: the sender may not.
    """
    body = request.body
    table_ids = body["table-ids"] if "table-ids" in body else [body["table-id"]]
    for name in request.names_by_id(table_ids):
        request.allow(what, name.namespace)


# -- history -----------------------------------------------------------------------------------------


def history(request: Request) -> Reply:
    """Transactions in their order; what the sender may not read is left out of each."""
    body = request.body
    store = request.service.tables.store
    entries = store.history(body["after"], min(body["size"], MAX_ENTRIES))
    if not request.principal.sees_all:
        names = _seen_names(request, (table_id for entry in entries for table_id in entry.changes))
        entries = [_seen(entry, names) for entry in entries]
    return request.answered(entries)


def names(request: Request) -> Reply:
    """The names that tables have now, by id, of those that the sender may read."""
    return request.answered(_seen_names(request, request.body["table-ids"]))


def _seen_names(request: Request, table_ids: Iterable[str]) -> dict[str, str]:
    names = request.service.tables.store.names_of(table_ids)
    return {table_id: name for table_id, name in names.items()
            if request.principal.may("read", TableName.of(name).namespace)}


def overview(request: Request) -> Reply:
    """The part of the catalog at a glance that the sender may see."""
    most = request.body["most"]
    store = request.service.tables.store
    overview_ = store.overview(most)
    if not request.principal.sees_all:
        tables = [row for row in store.every_table() if request.principal.may("read", row.name.namespace)]
        spaces = [space for space in _namespaces(store) if request.principal.sees(tuple(space.split(".")))]
        names = _seen_names(request, overview_.names)
        overview_ = Overview(
            tuple(spaces[:most]), len(spaces), tuple(tables[:most]), len(tables),
            tuple(_seen(entry, names) for entry in overview_.last), overview_.num_transactions, names)
    return request.answered(overview_)


def _namespaces(store: CatalogStore) -> list[str]:
    every = every_namespace(store.name).subquery().c[0]
    return store.database.read(lambda connection: list(
        connection.execute(sa.select(every).distinct().order_by(every)).scalars()))


def _seen(entry: Entry, seen: Mapping[str, str]) -> Entry:
    """A transaction as someone sees it who may read some of its tables."""
    if entry.changes and seen.keys() >= entry.changes.keys():
        return entry
    changes = {table_id: change for table_id, change in entry.changes.items() if table_id in seen}
    return replace(entry, principal=None, summary=None, changes=changes)


# -- folders of tables that are being made -----------------------------------------------------------


def writers_somewhere(request: Request) -> None:
    """The sender may write in some namespace, and in that of the table that is named."""
    if not request.principal.may_write_somewhere:
        raise Forbidden(f"{request.principal.name} may not write in any namespace")
    writers_of("table")(request)


def record_places(request: Request) -> Reply:
    """Note folders in which tables are about to be made: what is left of one that is not is swept.

    Nothing may lie in them, or it would be swept, too.
    """
    tables = request.service.tables
    what = FolderNote(NEW_TABLE, request.body["table-id"], request.principal.name or EVERYONE)
    for at, place in enumerate(_places(request)):
        tables.warehouse.vacant_location(place, f"locations[{at}]")
        tables.store.tables.note_folder(place, what, options.clock() + GRACE)
    return request.answered(None)


def forget_places(request: Request) -> Reply:
    """Take out folders, which the sender has noted, of new tables that are registered, or deleted."""
    places, who = _places(request), request.principal.name or EVERYONE
    request.service.tables.store.database.write(
        lambda connection: forget(connection, places, who), lambda connection: 0)
    return request.answered(None)


def free(request: Request) -> Reply:
    """Refuse a folder that is another table's than the one with an id, and a name that is taken."""
    body, tables = request.body, request.service.tables
    location = tables.warehouse.table_location(body["location"], "location")
    tables.store.tables.require_free(location, body.get("table-id"), body.get("table"))
    return request.answered(None)


def _places(request: Request) -> list[str]:
    """Folders in the warehouse."""
    return [request.service.tables.warehouse.table_location(place, f"locations[{at}]")
            for at, place in enumerate(request.body["locations"])]
