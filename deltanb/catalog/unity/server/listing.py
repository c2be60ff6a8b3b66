"""The endpoints of Unity Catalog's older API that its clients begin with: names, and access to files.

What lives here: the rows of the table, and one function per endpoint. The catalog is the one that is served,
a schema is a namespace at the top, its tables are Delta tables. Full names are joined by dots and have three
parts, so that what lies in nested namespaces has no name here; the Delta API beside it names it.
What it does not know: what changes a table (``endpoints``), and HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    choice,
    described,
    flag,
    named,
    plain,
    record,
    text,
    texts,
)
from deltanb.catalog.rest.endpoint import Api, Endpoint, query
from deltanb.catalog.rest.forms import name_field, short
from deltanb.catalog.rest.server.messages import PAGE, Reply, Request, anyone
from deltanb.catalog.rest.server.pages import values_of
from deltanb.catalog.rest.server.refusals import EXTENSION_STATUSES
from deltanb.catalog.store.names import Page, TableName, parts_of
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.unity.forms import uri_of
from deltanb.catalog.unity.infos import COMMENT, schema_value, table_value
from deltanb.catalog.unity.server.endpoints import (
    delta_row,
    drop,
    location_of,
    require_catalog,
    required,
    staged_by,
)
from deltanb.catalog.unity.server.refusals import in_older_form, older_refusal
from deltanb.errors import InvalidArgument, NamespaceNotEmpty

__all__ = ["ENDPOINTS"]

T = TypeVar("T")


# -- the catalog and its schemas -----------------------------------------------------------------------


def list_catalogs(request: Request) -> Reply:
    """The catalog that is served."""
    return Reply(value={"catalogs": [{"name": _catalog(request)}], "next_page_token": None})


def get_catalog(request: Request) -> Reply:
    """The catalog that is served, by its name."""
    require_catalog(request, request.params["name"])
    return Reply(value={"name": _catalog(request)})


def list_schemas(request: Request) -> Reply:
    """The namespaces at the top that the sender may see; nested ones are not visible here."""
    require_catalog(request, request.query.get("catalog_name"))
    namespaces = request.service.tables.store.namespaces

    def value(namespace: tuple[str, ...]) -> Json | None:
        return schema_value(_catalog(request), namespace[0]) if request.principal.sees(namespace) else None

    return _listed(request, "schemas", lambda token, size: namespaces.children((), token, size), value)


def create_schema(request: Request) -> Reply:
    """Make a namespace at the top."""
    body = request.body
    require_catalog(request, body["catalog_name"])
    properties = dict(body.get("properties", {}))
    if "comment" in body:
        properties[COMMENT] = body["comment"]
    request.service.tables.store.namespaces.create((body["name"],), properties)
    return Reply(value=schema_value(_catalog(request), body["name"], properties))


def get_schema(request: Request) -> Reply:
    """A namespace at the top, by its full name, with its properties."""
    (name,) = space = _parts(request, 1)
    namespaces = request.service.tables.store.namespaces
    return Reply(value=schema_value(_catalog(request), name, namespaces.properties(space)))


def update_schema(request: Request) -> Reply:
    """Change a schema's comment, or replace its properties where there are any in the request."""
    (name,) = space = _parts(request, 1)
    body, namespaces = request.body, request.service.tables.store.namespaces
    if "new_name" in body:
        raise InvalidArgument("new_name: no schema is renamed here; make another one and rename its tables")
    comment = {COMMENT: body["comment"]} if "comment" in body else {}
    properties = body.get("properties") or {}
    if properties:
        namespaces.replace(space, {**properties, **comment}, retained=() if comment else (COMMENT,))
    else:
        namespaces.update(space, comment)
    return Reply(value=schema_value(_catalog(request), name, namespaces.properties(space)))


def delete_schema(request: Request) -> Reply:
    """Drop a namespace that is empty."""
    force = request.flag("force")
    try:
        request.service.tables.store.namespaces.drop(_parts(request, 1))
    except NamespaceNotEmpty as error:
        if not force:
            raise
        raise NamespaceNotEmpty(f"{error}: force drops no tables here", namespace=error.namespace) from None
    return Reply(value={})


# -- tables --------------------------------------------------------------------------------------------


def list_tables(request: Request) -> Reply:
    """The Delta tables of a schema."""
    tables, space = request.service.tables.store.tables, _space(request)

    def value(row: TableRow) -> Json:
        return table_value(_catalog(request), row, location_of(row))

    return _listed(request, "tables", lambda token, size: tables.page(space, token, size, "delta"), value)


def get_table(request: Request) -> Reply:
    """A Delta table by its full name."""
    row = delta_row(request, _table(request))
    return Reply(value=table_value(_catalog(request), row, location_of(row)))


def create_external_table(request: Request) -> Reply:
    """Refuse to register a table at a location of its own."""
    raise InvalidArgument(
        "table_type: tables here are managed ones, made by way of a staging table; none is registered at a "
        "location of its own")


def remove_table(request: Request) -> Reply:
    """Take a table out of the catalog; a day later its files are swept."""
    drop(request, _table(request))
    return Reply(value={})


def temporary_table_credentials(request: Request) -> Reply:
    """That the sender may read or write the files of a table, by its id, which takes no credentials."""
    (name,) = request.names_by_id([request.body["table_id"]])
    return _credentials(location_of(delta_row(request, name)))


def temporary_path_credentials(request: Request) -> Reply:
    """The same of a place in the folder of a table, or of a staging table of the sender's."""
    return _credentials(uri_of(_place(request)))


def _credentials(location: str) -> Reply:
    return Reply(value={"url": location, "expiration_time": None})


# -- who may ask what ----------------------------------------------------------------------------------


def _schema_makers(request: Request) -> None:
    request.allow("write", (request.body["name"],))


def _external_makers(request: Request) -> None:
    require_catalog(request, request.body["catalog_name"])
    request.allow("write", parts_of(request.body["schema_name"]))


def _schema_readers(request: Request) -> None:
    request.allow("read", _parts(request, 1))


def _schema_writers(request: Request) -> None:
    request.allow("write", _parts(request, 1))


def _space_readers(request: Request) -> None:
    request.allow("read", _space(request))


def _table_readers(request: Request) -> None:
    request.allow("read", _table(request).namespace)


def _table_writers(request: Request) -> None:
    request.allow("write", _table(request).namespace)


def _table_users(request: Request) -> None:
    """Who may read, or with another operation write, the table of an id."""
    _allow_by_id(request, request.body["table_id"], request.body["operation"] == "READ")


def _path_users(request: Request) -> None:
    """Who may read or write the table around a place; a staging table is its maker's."""
    owner = request.service.tables.store.tables.owner_of(_place(request))
    if isinstance(owner, str):
        _allow_by_id(request, owner, request.body["operation"] == "PATH_READ")
    elif owner is None or owner != staged_by(request, owner.table_id):
        raise InvalidArgument(
            "url: there is no table at it; tables are made by way of a staging table, which has its folder")


def _allow_by_id(request: Request, table_id: str, reads: bool) -> None:
    (name,) = request.names_by_id([table_id])
    request.allow("read" if reads else "write", name.namespace)


# -- what is asked of a request ------------------------------------------------------------------------


def _catalog(request: Request) -> str:
    return request.service.tables.store.name


def _place(request: Request) -> str:
    return request.service.tables.warehouse.table_location(request.body["url"], "url")


def _space(request: Request) -> tuple[str, ...]:
    """The namespace that the query names."""
    require_catalog(request, request.query.get("catalog_name"))
    parts = parts_of(request.query.get("schema_name", ""))
    _require_size(parts, 1)
    return parts


def _table(request: Request) -> TableName:
    space, name = _parts(request, 2)
    return TableName.of(((space,), name))


def _parts(request: Request, size: int) -> tuple[str, ...]:
    """What follows the catalog's name in the full name that the path has.

    Raises:
        NoSuchCatalog: another catalog's name, or none.
        InvalidArgument: not so many parts, or a part that no name may have.
    """
    full, catalog = request.params["full_name"], _catalog(request)
    if not full.startswith(f"{catalog}."):
        require_catalog(request, full.partition(".")[0])
    parts = parts_of(full[len(catalog) + 1:])
    _require_size(parts, size)
    return parts


def _require_size(parts: tuple[str, ...], size: int) -> None:
    if len(parts) != size:
        form = ".".join(("catalog", "schema", "table")[:size + 1])
        raise InvalidArgument(
            f"the name has {len(parts)} parts behind the catalog's, and {form} has {size}: nested namespaces "
            "are not visible here; ask the Delta API, which has the path of a schema joined by dots")


def _listed(
    request: Request, field: str, page: Callable[[str | None, int], Page[T]], value: Callable[[T], Any]
) -> Reply:
    """A page of a list; how many rows it has at most, the server says where a client asks for none or 0."""
    size = request.count("max_results", least=0) or PAGE
    rows = page(request.query.get("page_token") or None, min(size, PAGE))
    return Reply(value={field: values_of(rows, value), "next_page_token": rows.next_token})


_ERROR = named("OlderError", record({"error_code": text, "message": text, "details": array(plain)}))

OLDER = Api(roots={"/api/2.1/unity-catalog": "unity_names_{}"}, refusal=older_refusal,
            statuses=EXTENSION_STATUSES, error=_ERROR, in_form=in_older_form)
"""Where Unity Catalog's own server has it."""


def _endpoint(method: str, path: str, call: Callable[[Request], Reply], needs: Callable[[Request], None],
              body: Check | None = None, query: tuple[Json, ...] = ()) -> Endpoint:
    return Endpoint(
        OLDER, method, path, call, needs, str(call.__doc__), body=body, answer=plain, query=query)


_PAGES = (query("page_token", {"type": "string"}, "next_page_token of the page before"),
          query("max_results", {"type": "integer", "minimum": 0, "maximum": 999_999_999},
                "rows of a page; 0 leaves that to the server"))

ENDPOINTS = (
    _endpoint("GET", "/catalogs", list_catalogs, anyone),
    _endpoint("GET", "/catalogs/{name}", get_catalog, anyone),
    _endpoint("GET", "/schemas", list_schemas, anyone, query=(required("catalog_name", text), *_PAGES)),
    _endpoint("POST", "/schemas", create_schema, _schema_makers, named("NewSchema", record(
        {"name": name_field, "catalog_name": text}, {"comment": text, "properties": texts}))),
    _endpoint("GET", "/schemas/{full_name}", get_schema, _schema_readers),
    _endpoint("PATCH", "/schemas/{full_name}", update_schema, _schema_writers, named("SchemaChange", record(
        {}, {"comment": text, "properties": texts, "new_name": text}))),
    _endpoint("DELETE", "/schemas/{full_name}", delete_schema, _schema_writers,
              query=(query("force", described(flag, {}), "drops no tables: the schema has to be empty"),)),
    _endpoint("GET", "/tables", list_tables, _space_readers,
              query=(required("catalog_name", text), required("schema_name", text), *_PAGES)),
    _endpoint("POST", "/tables", create_external_table, _external_makers, named("ExternalTable", record(
        {"name": name_field, "catalog_name": text, "schema_name": text, "table_type": choice("EXTERNAL"),
         "data_source_format": choice("DELTA"), "storage_location": text, "columns": array(plain)},
        {"comment": text, "properties": texts}))),
    _endpoint("GET", "/tables/{full_name}", get_table, _table_readers),
    _endpoint("DELETE", "/tables/{full_name}", remove_table, _table_writers),
    _endpoint("POST", "/temporary-table-credentials", temporary_table_credentials, _table_users,
              named("TableAccess", record({"table_id": short, "operation": choice("READ", "READ_WRITE")}))),
    _endpoint("POST", "/temporary-path-credentials", temporary_path_credentials, _path_users,
              named("PathAccess", record({"url": text, "operation": choice(
                  "PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE")}))),
)
