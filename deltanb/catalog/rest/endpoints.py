"""All endpoints of the server, in one table: routes, permissions, OpenAPI and the client derive from it.

What lives here: method, path, function, permission, body and answer of each endpoint of the Iceberg REST
catalog and of this library's own API, which ``dn.connect`` uses; other APIs plug their rows in.
What it does not know: how a request comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    array,
    choice,
    deferred,
    described,
    flag,
    mapping,
    maybe,
    named,
    plain,
    record,
    shaped,
    text,
    texts,
    to_json,
    uuid_text,
    whole,
)
from deltanb.catalog.iceberg.metadata.partitioning import order_field, spec_field
from deltanb.catalog.iceberg.metadata.requirements import requirement_field
from deltanb.catalog.iceberg.metadata.schemas import schema_field
from deltanb.catalog.iceberg.metadata.updates import update_field
from deltanb.catalog.rest import forms
from deltanb.catalog.rest.endpoint import Api, Endpoint, query
from deltanb.catalog.rest.forms import (
    NAME,
    VERSION,
    name_field,
    namespace_field,
    nothing,
    only,
    short,
    table_field,
)
from deltanb.catalog.rest.server import namespaces, own, tables
from deltanb.catalog.rest.server.messages import (
    Reply,
    Request,
    anyone,
    readers,
    readers_of,
    writers,
    writers_of,
)
from deltanb.catalog.rest.server.own import readers_by_id, writers_by_id, writers_somewhere
from deltanb.catalog.rest.server.ratify import outcome, ratifiers, ratify
from deltanb.catalog.rest.server.refusals import EXTENSION_STATUSES, REFUSAL, STATUSES, refusal
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.unity.server.endpoints import ENDPOINTS as UNITY
from deltanb.catalog.unity.server.listing import ENDPOINTS as UNITY_NAMES

__all__ = ["ENDPOINTS", "ICEBERG", "OWN"]


# -- the Iceberg REST catalog ------------------------------------------------------------------------


def config(request: Request) -> Reply:
    """What clients ask first: settings, and which endpoints there are."""
    request.service.require_warehouse(request.query.get("warehouse"))
    return Reply(value={
        "defaults": {}, "overrides": {},
        "endpoints": [f"{each.method} {each.paths[-1]}" for each in ICEBERG if each.call is not config],
        "idempotency-key-lifetime": f"PT{request.service.settings.key_lifetime // 60_000}M"})


_ERROR = named("Error", record({"error": record(
    {"message": text, "type": text, "code": whole(32)},
    {"field": text, "failed-requirements": array(plain)})}))
_API = Api(
    roots={"/v1": "{}", "/v1/{prefix}": "{}_with_prefix"}, refusal=refusal, statuses=STATUSES, error=_ERROR,
    parameters={"namespace": "the parts of the namespace, joined by 0x1F"})

_TEXT = {"type": "string"}
_PAGES = (
    query("pageToken", _TEXT, "next-page-token of the page before; empty for the first page"),
    query("pageSize", {"type": "integer", "minimum": 1, "maximum": 999_999_999}, "rows of a page"))
_SPACE, _TABLES = "/namespaces/{namespace}", "/namespaces/{namespace}/tables"
_TABLE = f"{_TABLES}/{{table}}"

_NAMESPACE = named("Namespace", record({"namespace": forms.PARTS, "properties": texts}))
_LOADED = named("Table", record({"metadata": plain, "config": texts}, {"metadata-location": text}))
_CHANGE = {"requirements": deferred(list, array(requirement_field)),
           "updates": deferred(list, array(update_field))}
_iceberg = partial(Endpoint, _API)

ICEBERG = (
    _iceberg("GET", "/config", config, anyone, "Settings and endpoints", prefixed=False,
             answer=named("Config", record({"defaults": texts, "overrides": texts, "endpoints": array(text),
                                            "idempotency-key-lifetime": text})),
             query=(query("warehouse", _TEXT, "the warehouse that the client means"),)),
    _iceberg("GET", "/namespaces", namespaces.list_namespaces, namespaces.parents, "List namespaces",
             answer=named("Namespaces", record({
                 "namespaces": array(forms.PARTS), "next-page-token": maybe(text)})),
             query=(query("parent", _TEXT, "the namespace around those to list, its parts joined by 0x1F"),
                    *_PAGES)),
    _iceberg("POST", "/namespaces", namespaces.create_namespace, writers_of("namespace"),
             "Create a namespace", answer=_NAMESPACE, is_keyed=True,
             body=named("CreateNamespace", record({"namespace": namespace_field}, {"properties": texts}))),
    _iceberg("GET", _SPACE, namespaces.load_namespace, readers, "Load a namespace", answer=_NAMESPACE),
    _iceberg("HEAD", _SPACE, namespaces.namespace_exists, readers, "Whether a namespace exists", 204),
    _iceberg("DELETE", _SPACE, namespaces.drop_namespace, writers, "Drop an empty namespace", 204,
             is_keyed=True),
    _iceberg("POST", f"{_SPACE}/properties", namespaces.update_properties, writers,
             "Change a namespace's properties", is_keyed=True,
             body=named("UpdateProperties", record({}, {"removals": array(text), "updates": texts})),
             answer=named("UpdatedProperties", record({
                 "updated": array(text), "removed": array(text), "missing": array(text)}))),
    _iceberg("GET", _TABLES, tables.list_tables, readers, "List tables", query=_PAGES,
             answer=named("Tables", record({
                 "identifiers": array(table_field), "next-page-token": maybe(text)}))),
    _iceberg("POST", _TABLES, tables.create_table, writers, "Create a table", answer=_LOADED, is_keyed=True,
             body=named("CreateTable", record({"name": name_field, "schema": deferred(dict, schema_field)}, {
                 "location": text, "partition-spec": deferred(dict, spec_field),
                 "write-order": deferred(dict, order_field), "stage-create": flag, "properties": texts}))),
    _iceberg("POST", f"{_SPACE}/register", tables.register_table, writers,
             "Register a table by its metadata file", answer=_LOADED, is_keyed=True,
             body=named("RegisterTable", record(
                 {"name": name_field, "metadata-location": text}, {"overwrite": flag}))),
    _iceberg("GET", _TABLE, tables.load_table, readers, "Load a table", answer=_LOADED,
             more={304: "As the client knows it"},
             query=(query("snapshots", described(choice("all", "refs"), {}),
                          "all, or those that branches and tags name"),)),
    _iceberg("HEAD", _TABLE, tables.table_exists, readers, "Whether a table exists", 204),
    _iceberg("POST", _TABLE, tables.commit_table, writers, "Commit to a table", answer=_LOADED, is_keyed=True,
             body=named("CommitTable", record(_CHANGE, {"identifier": table_field}))),
    _iceberg("DELETE", _TABLE, tables.drop_table, writers, "Drop a table", 204, is_keyed=True,
             query=(query("purgeRequested", described(flag, {}),
                          "whether the table's files are deleted too"),)),
    _iceberg("POST", f"{_TABLE}/metrics", tables.report_metrics, readers, "Report metrics", 204,
             body=named("Report", shaped({
                 "type": "object", "properties": {"report-type": _TEXT}, "required": ["report-type"],
             })(lambda value, path: plain(value, path)))),
    _iceberg("POST", "/tables/rename", tables.rename_table, writers_of("source", "destination"),
             "Rename a table", 204, is_keyed=True,
             body=named("RenameTable", record({"source": table_field, "destination": table_field}))),
    _iceberg("POST", "/transactions/commit", tables.commit_tables, tables.committers,
             "Commit to many tables, all or none", is_keyed=True,
             more={204: "Done, and the client asked for no body"},
             body=named("CommitTransaction", record({
                 "table-changes": array(record({"identifier": table_field, **_CHANGE}), minItems=1)})),
             answer=named("Committed", record({"commit-id": text, "results": array(record(
                 {"identifier": table_field, "metadata-location": text}))}))),
)


# -- this library's own ------------------------------------------------------------------------------

_OWN_API = Api(roots={"": "own_{}"}, refusal=refusal, statuses=EXTENSION_STATUSES, error=REFUSAL)
_ROOT = "/deltanb/v1"


_DONE = {204: "Done"}


def _own(
    path: str, carries: Callable[..., Any], needs: Callable[[Request], None], summary: str,
    body: Check | dict[str, Check], answer: Check, call: Callable[[Request], Reply] | None = None,
    is_keyed: bool = False, **parameters: str,
) -> Endpoint:
    """What carries a method of the store; unless there is a function for it, it is no more than that."""
    check = body if callable(body) else record(body)
    return Endpoint(
        _OWN_API, "POST", f"{_ROOT}{path}", call or own.passed_on(path.rpartition("/")[2]), needs, summary,
        body=named(f"own{path.replace('/', '-')}", check), answer=_object(answer), is_keyed=is_keyed,
        more=_DONE, carries=carries, parameters=parameters)


def _object(answer: Check) -> Check:
    """Of answers that no other client reads, OpenAPI says nothing more."""
    return shaped(plain, write=partial(to_json, answer))(partial(answer))


_DONE = {204: "Done"}
_TIME = shaped(VERSION)(whole(64))
_VERSION_OF = {"table-id": text, "version": VERSION}

OWN = (
    Endpoint(_OWN_API, "GET", f"{_ROOT}/config", own.config, anyone, "The catalog's name and warehouse",
             answer=_object(record({"name": text, "warehouse": text})), more=_DONE),
    _own("/tables/load", Registry.find_many, readers_of("tables"), "Tables by name, at one instant",
         {"tables": forms.NAMES}, forms.ROWS, tables="names"),
    _own("/tables/page", Registry.page, readers_of("namespace"), "A page of a namespace's tables",
         record({"namespace": forms.NAMESPACE}, {
             "page-token": forms.PAGE_TOKEN, "page-size": forms.PAGE_SIZE,
             "format": choice("delta", "iceberg")}),
         forms.PAGE, page_token="token", page_size="size"),
    _own("/tables/register", Registry.register_delta, writers_of("table"), "Register a Delta table",
         record({"table": NAME, "location": text, "version": VERSION}, {
             "table-id": forms.table_id_field, "principal": short, "ict": _TIME, "etag": short,
             "protocol": text, "metadata": text}),
         only("row", forms.ROW), own.register, is_keyed=True, table="name"),
    _own("/tables/is-registered", Registry.is_registered, anyone, "Whether a registration has landed",
         record({"table-id": short}, {"keys": forms.few(array(uuid_text))}),
         only("is-registered", flag), own.is_registered),
    _own("/tables/rename", Registry.rename, writers_of("source", "destination"), "Rename a table",
         {"source": NAME, "destination": NAME}, nothing, is_keyed=True, source="old", destination="new"),
    _own("/tables/drop", Registry.drop, writers_of("table"), "Drop a table",
         record({"table": NAME}, {"principal": short, "published": flag, "purge": forms.PURGE}),
         only("row", maybe(forms.ROW)), own.drop, is_keyed=True, table="name", purge="purged_from"),
    _own("/tails", CatalogStore.tails, readers_by_id,
         "Delta tables with their commits that are not published",
         {"table-ids": forms.IDS}, only("tails", mapping(forms.TAIL))),
    _own("/content", CatalogStore.content, readers_by_id, "The content of an inline commit",
         _VERSION_OF, only("content", forms.CONTENT)),
    _own("/published", CatalogStore.set_published, writers_by_id,
         "Say up to which version a table is published", _VERSION_OF, nothing),
    _own("/ratify", CatalogStore.ratify, ratifiers, "Move many tables, all or none",
         forms.ratification_of, record({"seq": maybe(VERSION), "metadata-locations": array(text)}), ratify),
    _own("/outcome", CatalogStore.outcome, anyone, "Whether a transaction has landed",
         record({"txn-id": short}, {"attempts": array(uuid_text)}), only("seq", maybe(VERSION)), outcome),
    _own("/instant", CatalogStore.instant, anyone, "The number of the last transaction",
         record({}, {"time": _TIME}), only("seq", VERSION)),
    _own("/pointers", CatalogStore.pointers_at, readers_by_id, "Where tables stood after a transaction",
         {"seq": VERSION, "table-ids": forms.IDS}, only("pointers", mapping(maybe(text)))),
    _own("/history", CatalogStore.history, anyone, "Transactions in their order",
         {"after": VERSION, "size": shaped(VERSION)(whole(32, least=1))},
         only("entries", array(forms.ENTRY)), own.history),
    _own("/names", CatalogStore.names_of, anyone, "The names of tables by their ids",
         {"table-ids": forms.IDS}, only("names", texts), own.names),
    _own("/overview", CatalogStore.overview, anyone, "The catalog at a glance",
         {"most": shaped(VERSION)(whole(16, least=1))}, forms.OVERVIEW, own.overview),
    _own("/places/record", Registry.note_folder, writers_somewhere,
         "Note folders of tables that are being made",
         {"locations": forms.LOCATIONS, "table-id": forms.table_id_field}, nothing, own.record_places,
         locations="location"),
    _own("/places/free", Registry.require_free, writers_somewhere,
         "Refuse a folder that is another table's",
         record({"location": text}, {"table-id": short, "table": NAME}), nothing, own.free, table="name"),
    _own("/places/forget", Registry.forget_folder, writers_somewhere, "Take such folders out again",
         shaped(record({"locations": forms.LOCATIONS}))(
             record({"locations": forms.LOCATIONS}, {"table-id": short})),
         nothing, own.forget_places, locations="location"),
)

ENDPOINTS = (*UNITY, *UNITY_NAMES, *OWN, *ICEBERG)
