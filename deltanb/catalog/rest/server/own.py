"""The endpoints of this library's own, below ``/deltanb/v1``: a catalog's store, for ``dn.connect``.

What lives here: one function an endpoint: from the request to the reply. A table that is named by its id is
looked up first, for the namespace that decides who may ask.
What it does not know: ratification (``ratify``), how tables are stored, and HTTP.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from deltanb.catalog.delta.tables import GRACE
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    choice,
    flag,
    record,
    refuse,
    text,
    uuid_text,
    whole,
)
from deltanb.catalog.overview import Overview
from deltanb.catalog.rest.client.forms import (
    VERSION,
    entry_value,
    overview_value,
    row_value,
    short,
    table_name,
    tail_value,
)
from deltanb.catalog.rest.server.keyed import writing
from deltanb.catalog.rest.server.messages import Reply, Request, namespace_field
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
from deltanb.text.safe_text import shown

__all__ = ["config", "content", "drop", "forget_places", "free", "history", "instant", "is_registered",
           "load", "names", "overview", "page", "pointers", "published", "record_places", "register",
           "rename", "tails"]

MAX_NAMES = 1000  # tables of one question
MAX_ENTRIES = 1000  # transactions of one page of history
_ID = re.compile(r"[A-Za-z0-9_.\-]{1,36}")


def _its_id(value: Any, path: str) -> str:
    """The id of a table that is being made: none by which a folder is staged for a name (``staged_id``)."""
    if not _ID.fullmatch(text(value, path)):
        refuse(path, f"is no id of a table, 1 to 36 letters, digits, dots and dashes: {shown(value)}")
    return str(value)


_IDS = record({"table-ids": array(text)})
_VERSION = record({"table-id": text, "version": VERSION})
_INSTANT = record({}, {"time": whole(64)})
_POINTERS = record({"seq": VERSION, "table-ids": array(text)})
_OVERVIEW = record({"most": whole(16, least=1)})
_HISTORY = record({"after": VERSION, "size": whole(32, least=1)})
_LOAD = record({"tables": array(table_name)})
_PAGE = record({"namespace": namespace_field},
               {"page-token": text, "page-size": whole(32, least=1), "format": choice("delta", "iceberg")})
_REGISTER = record(
    {"table": table_name, "location": text, "version": VERSION},
    {"table-id": _its_id, "principal": short, "ict": whole(64), "etag": short, "protocol": text,
     "metadata": text})
_REGISTERED = record({"table-id": short}, {"keys": array(uuid_text)})
_RENAME = record({"source": table_name, "destination": table_name})
_DROP = record({"table": table_name}, {"principal": short, "published": flag, "purge": flag})
_RECORD = record({"locations": array(text), "table-id": _its_id})
_FORGET = record({"locations": array(text)}, {"table-id": short})
_FREE = record({"location": text}, {"table-id": short, "table": table_name})


def config(request: Request) -> Reply:
    """What a client asks first: the catalog's name, and where its tables are."""
    tables = request.service.tables
    return Reply(value={"name": tables.store.name, "warehouse": tables.warehouse.uri})


# -- tables ------------------------------------------------------------------------------------------


def load(request: Request) -> Reply:
    """Tables of both formats as they were at one instant, without those that are not there."""
    names: list[TableName] = request.body(_LOAD)["tables"]
    _few(names, "tables")
    for name in names:
        request.allow("read", name.namespace)
    found = request.service.tables.store.tables.find_many(names)
    return Reply(value={"tables": [row_value(row) for row in found.values()]})


def page(request: Request) -> Reply:
    """A page of the tables directly in a namespace."""
    body = request.body(_PAGE)
    request.allow("read", body["namespace"])
    rows, token = request.service.tables.store.tables.page(
        body["namespace"], body.get("page-token"), body.get("page-size", MAX_NAMES), body.get("format"))
    return Reply(value={"tables": list(map(row_value, rows)), "next-page-token": token})


def register(request: Request) -> Reply:
    """Make a row for a Delta table that lies in the warehouse; its folder is no garbage any more.

    What counts is its log, which is read here.
    """
    body = request.body(_REGISTER)
    request.allow("write", body["table"].namespace)
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
    body = request.body(_REGISTERED)
    keys = body.get("keys", [])
    _few(keys, "keys")
    give_up(request, [f"{request.principal.name or ''}/{key}" for key in keys])
    is_there = request.service.tables.store.tables.is_registered(body["table-id"])
    return Reply(value={"is-registered": is_there})


def rename(request: Request) -> Reply:
    """Give a table another name."""
    body = request.body(_RENAME)
    source, destination = body["source"], body["destination"]
    request.allow("write", source.namespace, destination.namespace)
    _through(request, lambda _: Reply(value={})).rename(source, destination)
    return Reply(value={})


def drop(request: Request) -> Reply:
    """Take a table out of the catalog; its files stay."""
    body = request.body(_DROP)
    request.allow("write", body["table"].namespace)
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
    ids = request.body(_IDS)["table-ids"]
    _few(ids, "table-ids")
    _allowed(request, "read", ids)
    found = request.service.tables.store.tails(ids)
    return Reply(value={"tails": {table_id: tail_value(tail) for table_id, tail in found.items()}})


def content(request: Request) -> Reply:
    """The content of an inline commit."""
    body = request.body(_VERSION)
    _allowed(request, "read", [body["table-id"]])
    data = request.service.tables.store.content(body["table-id"], body["version"])
    return Reply(value={"content": base64.b64encode(data).decode()})


def published(request: Request) -> Reply:
    """All versions up to one are in the table's folder."""
    body = request.body(_VERSION)
    _allowed(request, "write", [body["table-id"]])
    request.service.tables.store.set_published(body["table-id"], body["version"])
    return Reply(value={})


def _allowed(request: Request, what: str, table_ids: list[str]) -> Mapping[str, TableName]:
    """The names of tables in whose namespaces the sender may do something.

    Raises:
        TableNotFound: this catalog has no table of an id.
        Forbidden: the sender may not.
    """
    found = request.service.tables.store.names_of(table_ids)
    names = {table_id: TableName.of(name) for table_id, name in found.items()}
    for table_id in table_ids:
        if table_id not in names:
            raise TableNotFound(f"the catalog has no table {table_id}", path=table_id)
        request.allow(what, names[table_id].namespace)
    return names


def _few(asked: list[Any], field: str) -> None:
    if len(asked) > MAX_NAMES:
        refuse(field, f"are {len(asked)}, and a question may have {MAX_NAMES}")


# -- history -----------------------------------------------------------------------------------------


def instant(request: Request) -> Reply:
    """The number of the last transaction, of all or up to a time."""
    time = request.body(_INSTANT).get("time")
    return Reply(value={"seq": request.service.tables.store.instant(time)})


def pointers(request: Request) -> Reply:
    """Where tables stood after a transaction."""
    body = request.body(_POINTERS)
    _few(body["table-ids"], "table-ids")
    _allowed(request, "read", body["table-ids"])
    found = request.service.tables.store.pointers_at(body["seq"], body["table-ids"])
    return Reply(value={"pointers": found})


def history(request: Request) -> Reply:
    """Transactions in their order; what the sender may not read is left out of each."""
    body = request.body(_HISTORY)
    store = request.service.tables.store
    entries = store.history(body["after"], min(body["size"], MAX_ENTRIES))
    if not request.principal.sees_all:
        names = _seen_names(request, (table_id for entry in entries for table_id in entry.changes))
        entries = [_seen(entry, names) for entry in entries]
    return Reply(value={"entries": list(map(entry_value, entries))})


def names(request: Request) -> Reply:
    """The names that tables have now, by id, of those that the sender may read."""
    ids = request.body(_IDS)["table-ids"]
    _few(ids, "table-ids")
    return Reply(value={"names": _seen_names(request, ids)})


def _seen_names(request: Request, table_ids: Iterable[str]) -> dict[str, str]:
    found = request.service.tables.store.names_of(table_ids)
    return {table_id: name for table_id, name in found.items()
            if request.principal.may("read", TableName.of(name).namespace)}


def overview(request: Request) -> Reply:
    """What the catalog has at a glance: what the sender may see of it."""
    most = request.body(_OVERVIEW)["most"]
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


def record_places(request: Request) -> Reply:
    """Note folders in which tables are about to be made: what is left of one that is not is swept.

    Nothing may lie in them, or it would be swept, too.
    """
    body, places = _places(request, _RECORD)
    tables = request.service.tables
    what = FolderNote(NEW_TABLE, body["table-id"], request.principal.name or EVERYONE)
    for at, place in enumerate(places):
        tables.warehouse.vacant_location(place, f"locations[{at}]")
        tables.store.tables.note_folder(place, what, options.clock() + GRACE)
    return Reply(value={})


def forget_places(request: Request) -> Reply:
    """Take out folders, which the sender has noted, of new tables that are registered, or deleted."""
    _, places = _places(request, _FORGET)
    who = request.principal.name or EVERYONE
    request.service.tables.store.database.write(
        lambda connection: forget(connection, places, who), lambda connection: 0)
    return Reply(value={})


def free(request: Request) -> Reply:
    """Refuse a folder that is another table's than the one with an id, and a name one may not give."""
    _require_writer(request)
    body = request.body(_FREE)
    if "table" in body:
        request.allow("write", body["table"].namespace)
    tables = request.service.tables
    location = tables.warehouse.table_location(body["location"], "location")
    tables.store.tables.require_free(location, body.get("table-id"), body.get("table"))
    return Reply(value={})


def _require_writer(request: Request) -> None:
    if not request.principal.may_write_somewhere:
        raise Forbidden(f"{request.principal.name} may not write in any namespace")


def _places(request: Request, shape: Check) -> tuple[Json, list[str]]:
    """Folders in the warehouse, from someone who may write somewhere."""
    _require_writer(request)
    body = request.body(shape)
    places: list[str] = body["locations"]
    _few(places, "locations")
    return body, [request.service.tables.warehouse.table_location(place, f"locations[{at}]")
                  for at, place in enumerate(places)]
