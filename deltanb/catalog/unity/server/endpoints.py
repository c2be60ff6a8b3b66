"""The endpoints of Unity Catalog's Delta API: tables that are managed, by catalog, schema and name.

What lives here: the rows of the table, and one function per endpoint, from the request to the reply. The
catalog is the one that is served; a schema is a namespace, its parts joined by dots.
What it does not know: what an update does (``updates``), and HTTP.

A staging table is a folder noted as garbage, with its id and its owner: it becomes a table or is swept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from deltanb.catalog.delta.tables import GRACE, managed_table, register
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    choice,
    described,
    named,
    plain,
    record,
    refuse,
    shaped,
    text,
    texts,
    uuid_text,
)
from deltanb.catalog.limits import unlimited
from deltanb.catalog.rest.endpoint import Api, Endpoint
from deltanb.catalog.rest.forms import name_field
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply, Request, anyone
from deltanb.catalog.rest.server.refusals import EXTENSION_STATUSES, REFUSAL
from deltanb.catalog.store.names import TableName, parts_of
from deltanb.catalog.store.ownership import EVERYONE, STAGED, FolderNote, key_of
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import Tail
from deltanb.catalog.store.tables import delta_tables, garbage, sa
from deltanb.catalog.unity.contract import (
    PROPERTIES,
    PROTOCOL,
    SUGGESTED,
    require_domains,
    require_features,
    require_properties,
)
from deltanb.catalog.unity.forms import (
    COUNT,
    columns_of,
    domains_of,
    is_derived,
    loaded_value,
    protocol_of,
    uniform_of,
    uri_of,
)
from deltanb.catalog.unity.server.claims import believed
from deltanb.catalog.unity.server.commits import Content, configuration_of, disagreement
from deltanb.catalog.unity.server.refusals import NotDelta, unity_refusal
from deltanb.catalog.unity.server.updates import Update, update_of, updated
from deltanb.errors import (
    InvalidArgument,
    MaxCommitRetriesExceeded,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from deltanb.options import options
from deltanb.schema.protocol import CATALOG_TABLE_ID
from deltanb.text.safe_text import get_logger, shown
from deltanb.transaction.ids import new_table_id

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

__all__ = ["ENDPOINTS", "delta_row", "drop", "location_of", "require_catalog", "required", "staged_by"]

_log = get_logger("deltanb.catalog.rest.server")

VERSION = "1.0"
_NO_SUGGESTIONS: Json = {
    "suggested-protocol": {"reader-features": [], "writer-features": []}, "suggested-properties": {}}
READ_AGAIN = 5  # times that a table is read which others commit to meanwhile


def get_config(request: Request) -> Reply:
    """Which endpoints there are, in the newest version that both sides know."""
    require_catalog(request, request.query.get("catalog"))
    versions = request.query.get("protocol-versions", "")
    if not re.fullmatch(r"\d+\.\d+(,\d+\.\d+)*", versions):
        raise InvalidArgument(f"protocol-versions is a list such as 1.0,2.3, found {shown(versions)}")
    if not any(each.startswith("1.") for each in versions.split(",")):
        raise InvalidArgument(f"protocol-versions: this server knows {VERSION}")
    return Reply(value={"protocol-version": VERSION, "endpoints": [
        f"{each.method} /v1{each.path}" for each in ENDPOINTS if each.call is not get_config]})


# -- the life of a table -----------------------------------------------------------------------------


def staging_table(request: Request) -> Reply:
    """Give an id and a folder to a table that is to be made."""
    space = _schema(request)
    name = TableName.of((space, request.body["name"]))
    tables = request.service.tables
    if not tables.store.namespaces.exists(space):
        raise NamespaceNotFound(f"there is no schema {'.'.join(space)}", namespace=".".join(space))
    _require_free(request, name)
    table_id = new_table_id()
    location = tables.warehouse.new_location(name, table_id)
    tables.store.tables.note_folder(location, staged_by(request, table_id), options.clock() + GRACE)
    return Reply(value={
        "table-id": table_id, "table-type": "MANAGED", "location": location,
        "storage-credentials": [_credential(location, "READ_WRITE")], "required-protocol": PROTOCOL,
        "required-properties": {**PROPERTIES, CATALOG_TABLE_ID: table_id},
        **(SUGGESTED if request.service.settings.lax else _NO_SUGGESTIONS)})


def _require_free(request: Request, name: TableName) -> None:
    if request.service.tables.store.tables.find_many([name]):
        raise TableAlreadyExists(f"there is a table {name} already", path=str(name))


def staged_by(request: Request, table_id: str | None) -> FolderNote:
    """Why the folder of a staging table of the sender's is noted as garbage."""
    return FolderNote(STAGED, table_id, request.principal.name or EVERYONE)


def _staging_places(request: Request, table_id: str) -> list[str]:
    query = sa.select(garbage.c.path).where(
        garbage.c.reason == staged_by(request, table_id).reason, sa.not_(garbage.c.swept))
    return request.service.tables.store.database.read(
        lambda connection: list(connection.execute(query).scalars()))


def _is_made(request: Request, table_id: str, place: str) -> bool:
    """Whether there is a table that a staging table of this id and place has become."""
    query = sa.select(delta_tables.c.table_id).where(
        delta_tables.c.table_id == table_id, delta_tables.c.location == place)
    return request.service.tables.store.database.read(
        lambda connection: connection.execute(query).first() is not None)


def create_table(request: Request) -> Reply:
    """Make a table of a staging table whose first version is written."""
    body = request.body
    name = TableName.of((_schema(request), body["name"]))
    if body["table-type"] != "MANAGED" or "uniform" in body:
        raise InvalidArgument("table-type: tables here are MANAGED, and not converted to Iceberg")
    store = request.service.tables.store
    _require_free(request, name)
    place = _staging_place(request, body)
    table_id, files = body["properties"][CATALOG_TABLE_ID], _files(request, place)
    if files is None:
        require_features(body["protocol"])
        require_properties(body["properties"])
        require_domains(body["protocol"], body.get("domain-metadata", ()))
        _register_by_word(store.tables, name, place, body, request.principal.name)
        return _done(request, name)
    snapshot = managed_table(files, 0, table_id)
    protocol, metadata = snapshot.protocol.to_value(), snapshot.metadata.to_value()
    require_features(protocol)
    require_properties(snapshot.metadata.configuration)
    domains = {name: configuration_of(each.configuration)
               for name, each in snapshot.domain_metadata.items()}
    disagreement(_as_updates(body), Content({}, protocol, metadata, domains, {}))
    register(store.tables, name, snapshot, table_id, request.principal.name)
    return _done(request, name)


def _register_by_word(
    tables: Registry, name: TableName, place: str, body: Json, principal: str | None
) -> None:
    """Make a table of what a request says of it; nothing is read."""
    table_id, time = body["properties"][CATALOG_TABLE_ID], body["last-commit-timestamp-ms"]
    empty = {"id": table_id, "format": {"provider": "parquet", "options": {}}, "createdTime": time}
    updates = _as_updates(body)
    if "comment" in body:
        updates["set-table-comment"] = {"comment": body["comment"]}
    state = believed(updates, DeltaState(place, 0, 0, metadata=json.dumps(empty)), 0, time)
    tables.register_delta(name, place, 0, table_id, principal, ict=time, etag=state.etag,
                          protocol=state.protocol, metadata=state.metadata)


def _staging_place(request: Request, body: Json) -> str:
    """The folder of the sender's staging table that a request means, as a store of it is rooted.

    Raises:
        TableNotFound: there is none.
        InvalidArgument: it is a table by now, of another name, or has another id.
    """
    warehouse = request.service.tables.warehouse
    location = warehouse.table_location(body["location"], "location")
    table_id = body["properties"].get(CATALOG_TABLE_ID)
    if table_id is None:
        raise InvalidArgument(f"properties: {CATALOG_TABLE_ID} is missing; it is the staging table's id")
    place = warehouse.store_at(location).root
    if key_of(location) not in _staging_places(request, table_id):
        if _is_made(request, table_id, place):
            raise InvalidArgument(
                f"location: the staging table {shown(table_id)} is a table already; look for it by its id")
        owner = request.service.tables.store.tables.owner_of(location)
        if isinstance(owner, FolderNote) and owner == staged_by(request, owner.table_id):
            raise InvalidArgument(
                f"properties: {CATALOG_TABLE_ID} is {shown(table_id)}, and the staging table at the location "
                f"is {owner.table_id}")
        raise TableNotFound(
            f"location: there is no staging table {shown(table_id)} of yours at it", path=location)
    return place


def _as_updates(body: Json) -> dict[str, Json]:
    """What a request says of a new table, as updates of it; of the properties, those that its log has."""
    updates: dict[str, Json] = {
        "set-columns": {"columns": body["columns"]}, "set-protocol": {"protocol": body["protocol"]},
        "set-partition-columns": {"partition-columns": body.get("partition-columns", [])},
        "set-properties": {"updates": {
            name: each for name, each in body["properties"].items() if not is_derived(name)}}}
    if "domain-metadata" in body:
        updates["set-domain-metadata"] = {"updates": body["domain-metadata"]}
    return updates


def load_table(request: Request) -> Reply:
    """A table, with its commits that are not published."""
    return _answer(request, _table(request))


def update_table(request: Request) -> Reply:
    """Propose a commit, say what is published, change what the catalog keeps."""
    name = _table(request)
    update: Update = request.body
    row, tail = _loaded(request, name)
    assert row.delta is not None
    files = _files(request, row.delta.location)
    updated(request.service.tables.store, files, row, tail, update, request.principal.name)
    return _done(request, name)


def delete_table(request: Request) -> Reply:
    """Take a table out of the catalog; a day later its files are swept."""
    drop(request, _table(request))
    return Reply(204)


def drop(request: Request, name: TableName) -> None:
    """Take a Delta table out of the catalog, its files a day later."""
    delta_row(request, name)
    request.service.tables.store.tables.drop(
        name, request.principal.name, purged_from=options.clock() + GRACE,
        purged_by=request.principal.name)


def table_exists(request: Request) -> Reply:
    """Whether there is a table."""
    delta_row(request, _table(request))
    return Reply(204)


def rename_table(request: Request) -> Reply:
    """Give a table another name in its schema."""
    name = _table(request)
    new = TableName.of((name.namespace, request.body["new-name"]))
    delta_row(request, name)
    request.service.tables.store.tables.rename(name, new)
    return Reply(204)


def table_credentials(request: Request) -> Reply:
    """That the sender may read or write a table's files, which takes no credentials."""
    location = location_of(delta_row(request, _table(request)))
    return Reply(value={"storage-credentials": [_credential(location, request.query["operation"])]})


def staging_credentials(request: Request) -> Reply:
    """The same of a staging table, by its id."""
    table_id = uuid_text(request.params["table_id"], "table_id")
    places = _staging_places(request, table_id)
    if not places:
        raise TableNotFound(f"there is no staging table {table_id} of yours", path=table_id)
    return Reply(value={
        "storage-credentials": [_credential(uri_of(place), "READ_WRITE") for place in places]})


def report_metrics(request: Request) -> Reply:
    """Take a client's report on a commit: it is logged."""
    name, body = _table(request), request.body
    row = delta_row(request, name)
    if body["table-id"] != row.table_id:
        raise InvalidArgument(f"table-id: {name} has the id {row.table_id}")
    _log.debug("metrics of %s: %s", name, shown(body.get("report")))
    return Reply(204)


# -- who may ask what --------------------------------------------------------------------------------


def _readers(request: Request) -> None:
    request.allow("read", _table(request).namespace)


def _writers(request: Request) -> None:
    request.allow("write", _table(request).namespace)


def _makers(request: Request) -> None:
    request.allow("write", _schema(request))


def _users(request: Request) -> None:
    """Who may read, or with another operation write."""
    name, operation = _table(request), request.query.get("operation")
    if operation not in ("READ", "READ_WRITE"):
        refuse("operation", f"is READ or READ_WRITE, found {shown(operation)}")
    request.allow("read" if operation == "READ" else "write", name.namespace)


# -- what is asked of a request ----------------------------------------------------------------------


def require_catalog(request: Request, catalog: str | None) -> None:
    """Refuse another catalog than the one that is served.

    Raises:
        NoSuchCatalog: it is another one.
    """
    own = request.service.tables.store.name
    if catalog != own:
        raise NoSuchCatalog(f"there is no catalog {shown(catalog)} here, but {own}")


def _schema(request: Request) -> tuple[str, ...]:
    require_catalog(request, request.params["catalog"])
    return parts_of(request.params["schema"])


def _table(request: Request) -> TableName:
    return TableName.of((_schema(request), request.params["table"]))


def delta_row(request: Request, name: TableName) -> TableRow:
    """A Delta table's row.

    Raises:
        TableNotFound: there is no such table.
        NotDelta: it is an Iceberg table.
    """
    row = request.service.tables.store.tables.load(name)
    if row.delta is None:
        raise NotDelta(f"{name} is an Iceberg table; ask the Iceberg REST catalog for it")
    return row


def _files(request: Request, place: str) -> LogStore | None:
    """A table's folder; None from a lax server, which reads none of its files and believes what is claimed
    of them."""
    service = request.service
    return None if service.settings.lax else service.tables.warehouse.store_at(place)


def _loaded(request: Request, name: TableName) -> tuple[TableRow, Tail]:
    """A table and its commits as they were at one instant."""
    store = request.service.tables.store
    row = delta_row(request, name)
    for _ in range(READ_AGAIN):
        tail = store.tails([str(row.table_id)])[str(row.table_id)]
        before, row = row, delta_row(request, name)
        assert row.delta is not None
        if before == row and (row.delta.latest, row.delta.published) == (tail.latest, tail.published):
            return row, tail
    raise MaxCommitRetriesExceeded(f"{name} keeps changing; try again")


def _answer(request: Request, name: TableName) -> Reply:
    row, tail = _loaded(request, name)
    if any(commit.file_name is None for commit in tail.commits):
        raise NotDelta(f"{name} has commits that the catalog keeps itself; publish them first")
    return Reply(value=loaded_value(row, tail, location_of(row)))


def _done(request: Request, name: TableName) -> Reply:
    """A table after what was done, which is to be known however long that took."""
    with unlimited():
        return _answer(request, name)


def location_of(row: TableRow) -> str:
    """A Delta table's folder, as a URI."""
    assert row.delta is not None
    return uri_of(row.delta.location)


def _credential(location: str, operation: str) -> Json:
    """Access without a secret, which does not expire."""
    return {"prefix": location, "operation": operation, "config": {}, "expiration-time-ms": None}


UNITY = Api(
    roots={"/delta/v1": "delta_{}", "/api/2.1/unity-catalog/delta/v1": "unity_{}"},
    refusal=unity_refusal, statuses=EXTENSION_STATUSES, error=REFUSAL)
"""Below the server's root, and where Unity Catalog's own server has it."""


def _endpoint(method: str, path: str, call: Callable[[Request], Reply], needs: Callable[[Request], None],
              body: Check | None = None, query: tuple[Json, ...] = ()) -> Endpoint:
    return Endpoint(UNITY, method, path, call, needs, str(call.__doc__), body=body, answer=plain, query=query,
                    more={204: "Done"})


def required(name: str, check: Check) -> Json:
    """A query parameter that has to be given, as OpenAPI has it."""
    return {"name": name, "in": "query", "required": True, "schema": described(check, {})}


_SCHEMA = "/catalogs/{catalog}/schemas/{schema}"
_TABLES = f"{_SCHEMA}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_CREATE = {
    "name": name_field, "location": text,
    "table-type": shaped({"enum": ["MANAGED"]})(choice("MANAGED", "EXTERNAL")), "columns": columns_of,
    "protocol": protocol_of, "properties": texts, "last-commit-timestamp-ms": COUNT}
_CREATE_MORE = {"comment": text, "partition-columns": array(text), "domain-metadata": domains_of}

ENDPOINTS = (
    _endpoint("GET", "/config", get_config, anyone,
              query=(required("catalog", text), required("protocol-versions", text))),
    _endpoint("POST", f"{_SCHEMA}/staging-tables", staging_table, _makers,
              named("StagingTable", record({"name": name_field}))),
    _endpoint("POST", _TABLES, create_table, _makers, named("NewTable", shaped(record(_CREATE, _CREATE_MORE))(
        record(_CREATE, {**_CREATE_MORE, "uniform": uniform_of})))),
    _endpoint("HEAD", _TABLE, table_exists, _readers),
    _endpoint("GET", _TABLE, load_table, _readers),
    _endpoint("POST", _TABLE, update_table, _writers, named("UpdateTable", update_of)),
    _endpoint("DELETE", _TABLE, delete_table, _writers),
    _endpoint("POST", f"{_TABLE}/rename", rename_table, _writers,
              named("NewName", record({"new-name": name_field}))),
    _endpoint("GET", f"{_TABLE}/credentials", table_credentials, _users,
              query=(required("operation", choice("READ", "READ_WRITE")),)),
    _endpoint("POST", f"{_TABLE}/metrics", report_metrics, _readers,
              named("CommitMetrics", record({"table-id": uuid_text}, {"report": plain}))),
    _endpoint("GET", "/staging-tables/{table_id}/credentials", staging_credentials, anyone),
)
"""The rows of the table; HEAD before GET, which would answer it."""
