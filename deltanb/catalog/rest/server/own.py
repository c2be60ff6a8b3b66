"""The endpoints of this library's own, below ``/deltanb/v1``: a catalog's store, for ``dn.connect``.

What lives here: one function an endpoint: from the request to the reply. A table that is named by its id is
looked up first, for the namespace that decides who may ask.
What it does not know: ratification (``ratify``), how tables are stored, and HTTP.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from deltanb.catalog.delta.tables import GRACE
from deltanb.catalog.iceberg.metadata.fields import (
    Json,
    refuse,
)
from deltanb.catalog.overview import Overview
from deltanb.catalog.rest.forms import (
    entry_value,
    overview_value,
    row_value,
    tail_value,
)
from deltanb.catalog.rest.server.keyed import writing
from deltanb.catalog.rest.server.messages import Reply, Request, writers_of
from deltanb.catalog.rest.server.ratify import give_up
from deltanb.catalog.store.contents import table_around
from deltanb.catalog.store.history import Entry
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.namespaces import every_namespace
from deltanb.catalog.store.ownership import EVERYONE, NEW_TABLE, FolderNote, forget
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.catalog.unity.server.commits import managed_table
from deltanb.errors import Forbidden, TableNotFound
from deltanb.options import options

__all__ = ["config", "content", "drop", "forget_places", "free", "history", "instant", "is_registered",
           "load", "names", "overview", "page", "pointers", "published", "record_places", "register",
           "rename", "tails"]

MAX_NAMES = 1000  # tables of one question
MAX_ENTRIES = 1000  # transactions of one page of history

def config(request: Request) -> Reply:
    """What a client asks first: the catalog's name, and where its tables are."""
    tables = request.service.tables
    return Reply(value={"name": tables.store.name, "warehouse": tables.warehouse.uri})


# -- tables ------------------------------------------------------------------------------------------


def load(request: Request) -> Reply:
    """Tables of both formats as they were at one instant, without those that are not there."""
    found = request.service.tables.store.tables.find_many(request.body["tables"])
    return Reply(value={"tables": [row_value(row) for row in found.values()]})


def page(request: Request) -> Reply:
    """A page of the tables directly in a namespace."""
    body = request.body
    rows, token = request.service.tables.store.tables.page(
        body["namespace"], body.get("page-token"), body.get("page-size", MAX_NAMES), body.get("format"))
    return Reply(value={"tables": list(map(row_value, rows)), "next-page-token": token})


def register(request: Request) -> Reply:
    """Make a row for a Delta table that lies in the warehouse; its folder is no garbage any more.

    What counts is its log, which is read here.
    """
    body = request.body
    tables = request.service.tables
    location = tables.warehouse.table_location(body["location"], "location")
    standing = tables.store.tables.claims_on(location)
    noted = standing.noted
    if noted is not None and request.principal.name not in (None, noted.who):
        raise Forbidden(f"{location} was noted by {noted.who}, not by {request.principal.name}")
    if noted is None:  # else it was empty, and what lies there is the new table's
        request.allow("write", *standing.left_in)
    store = tables.warehouse.store_at(location)
    _require_vacant_around(request, location)
    found = managed_table(store, body["version"], body.get("table-id"))
    return _row(_through(request, _row).register_delta(
        body["table"], store.root, found.version, body.get("table-id"), _who(request, body),
        ict=found.timestamp, etag=f"{found.version}.{found.timestamp}",
        protocol=json.dumps(found.protocol.to_value()), metadata=json.dumps(found.metadata.to_value())))


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
    return Reply(value={"is-registered": is_there})


def rename(request: Request) -> Reply:
    """Give a table another name."""
    _through(request, lambda _: Reply(value={})).rename(request.body["source"], request.body["destination"])
    return Reply(value={})


def drop(request: Request) -> Reply:
    """Take a table out of the catalog; its files stay."""
    body = request.body
    row = _through(request, _row).drop(
        body["table"], _who(request, body), body.get("published", False),
        options.clock() if body.get("purge", False) else None, request.principal.name)
    return Reply(value={"row": None}) if row is None else Reply(value={"row": row_value(row)})


def _row(row: TableRow) -> Reply:
    return Reply(value={"row": row_value(row)})


def _through(request: Request, reply: Any) -> Registry:
    """The tables' rows, changed in one transaction with the answer to the request."""
    store = request.service.tables.store
    return store.tables.through(writing(request, reply))


def _who(request: Request, body: Json) -> str | None:
    """Whom history names: the token's owner; without tokens, who the client says it is."""
    name: str | None = request.principal.name or body.get("principal")
    return name


# -- commits that are not published ------------------------------------------------------------------


def tails(request: Request) -> Reply:
    """Delta tables with their commits that are not published."""
    found = request.service.tables.store.tails(request.body["table-ids"])
    return Reply(value={"tails": {table_id: tail_value(tail) for table_id, tail in found.items()}})


def content(request: Request) -> Reply:
    """The content of an inline commit."""
    body = request.body
    data = request.service.tables.store.content(body["table-id"], body["version"])
    return Reply(value={"content": base64.b64encode(data).decode()})


def published(request: Request) -> Reply:
    """All versions up to one are in the table's folder."""
    body = request.body
    request.service.tables.store.set_published(body["table-id"], body["version"])
    return Reply(value={})


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
    names = request.service.tables.store.names_of(table_ids)
    for table_id in table_ids:
        if table_id not in names:
            raise TableNotFound(f"the catalog has no table {table_id}", path=table_id)
        request.allow(what, TableName.of(names[table_id]).namespace)


# -- history -----------------------------------------------------------------------------------------


def instant(request: Request) -> Reply:
    """The number of the last transaction, of all or up to a time."""
    time = request.body.get("time")
    return Reply(value={"seq": request.service.tables.store.instant(time)})


def pointers(request: Request) -> Reply:
    """Where tables stood after a transaction."""
    body = request.body
    found = request.service.tables.store.pointers_at(body["seq"], body["table-ids"])
    return Reply(value={"pointers": found})


def history(request: Request) -> Reply:
    """Transactions in their order; what the sender may not read is left out of each."""
    body = request.body
    store = request.service.tables.store
    entries = store.history(body["after"], min(body["size"], MAX_ENTRIES))
    if not request.principal.sees_all:
        names = _seen_names(request, (table_id for entry in entries for table_id in entry.changes))
        entries = [_seen(entry, names) for entry in entries]
    return Reply(value={"entries": list(map(entry_value, entries))})


def names(request: Request) -> Reply:
    """The names that tables have now, by id, of those that the sender may read."""
    return Reply(value={"names": _seen_names(request, request.body["table-ids"])})


def _seen_names(request: Request, table_ids: Iterable[str]) -> dict[str, str]:
    found = request.service.tables.store.names_of(table_ids)
    return {table_id: name for table_id, name in found.items()
            if request.principal.may("read", TableName.of(name).namespace)}


def overview(request: Request) -> Reply:
    """What the catalog has at a glance: what the sender may see of it."""
    most = request.body["most"]
    store = request.service.tables.store
    found = store.overview(most)
    if not request.principal.sees_all:
        tables = [row for row in store.every_table() if request.principal.may("read", row.name.namespace)]
        spaces = [space for space in _namespaces(store) if request.principal.sees(tuple(space.split(".")))]
        names = _seen_names(request, found.names)
        found = Overview(
            tuple(spaces[:most]), len(spaces), tuple(tables[:most]), len(tables),
            tuple(_seen(entry, names) for entry in found.last), found.num_transactions, names)
    return Reply(value=overview_value(found))


def _namespaces(store: CatalogStore) -> list[str]:
    every = every_namespace(store.name).subquery().c[0]
    return store.database.read(lambda connection: list(
        connection.execute(sa.select(every).distinct().order_by(every)).scalars()))


def _seen(entry: Entry, seen: Mapping[str, str]) -> Entry:
    """What may be told of a transaction to someone who sees some tables: its place in any case."""
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
    return Reply(value={})


def forget_places(request: Request) -> Reply:
    """Take out folders, which the sender has noted, of new tables that are registered, or deleted."""
    places, who = _places(request), request.principal.name or EVERYONE
    request.service.tables.store.database.write(
        lambda connection: forget(connection, places, who), lambda connection: 0)
    return Reply(value={})


def free(request: Request) -> Reply:
    """Refuse a folder that is another table's than the one with an id, and a name that is taken."""
    body, tables = request.body, request.service.tables
    location = tables.warehouse.table_location(body["location"], "location")
    tables.store.tables.require_free(location, body.get("table-id"), body.get("table"))
    return Reply(value={})


def _places(request: Request) -> list[str]:
    """Folders in the warehouse."""
    return [request.service.tables.warehouse.table_location(place, f"locations[{at}]")
            for at, place in enumerate(request.body["locations"])]
