"""The older API of a fake server of Unity Catalog: a part of :mod:`.fake`.

What lives here: one function per endpoint for names, external tables and access to files, and the table of
them.
What it does not know: HTTP.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.catalog.unity.fake_columns import columns_of_infos, infos_of
from tests.catalog.unity.fake_faults import Answer, Asked
from tests.catalog.unity.fake_state import State, full_name, require_name
from tests.catalog.unity.fake_updates import Json, Refusal, Table, fields_of, invalid

PAGE = 100
"""Rows of a page at most."""

DROPPED = Answer(200, "200 OK")
"""A status alone, which the real server writes out as plain text."""


class OlderApi(State):
    """The endpoints beside ``/delta/v1``."""

    def _list_catalogs(self, asked: Asked) -> Any:
        return _page(asked, "catalogs", [each["info"] for _, each in sorted(self._catalogs.items())])

    def _post_catalog(self, asked: Asked) -> Any:
        body = fields_of(asked.body, {"name": str}, "comment", "properties", "storage_root")
        require_name(body["name"])
        if body["name"] in self._catalogs:
            raise Refusal("AlreadyExistsException", f"Catalog already exists: {body['name']}",
                          "CATALOG_ALREADY_EXISTS")
        return self._create_catalog(**body)

    def _get_catalog(self, asked: Asked) -> Any:
        self._schemas(asked.names["name"])
        return self._catalogs[asked.names["name"]]["info"]

    def _list_schemas(self, asked: Asked) -> Any:
        schemas = self._schemas(asked.query.get("catalog_name"))
        return _page(asked, "schemas", [each for _, each in sorted(schemas.items())])

    def _create_schema(self, asked: Asked) -> Any:
        body = fields_of(
            asked.body, {"name": str, "catalog_name": str}, "comment", "properties", "storage_root")
        schemas = self._schemas(body["catalog_name"])
        require_name(body["name"])
        if body["name"] in schemas:
            raise Refusal("AlreadyExistsException", f"Schema already exists: {body['name']}",
                          "SCHEMA_ALREADY_EXISTS")
        now = self._time()
        schemas[body["name"]] = {
            "comment": None, "properties": {}, **body, "schema_id": str(uuid.uuid4()), "created_at": now,
            "updated_at": now, "full_name": f"{body['catalog_name']}.{body['name']}"}
        return schemas[body["name"]]

    def _get_schema(self, asked: Asked) -> Any:
        return self._schema(*_parts(asked, 2))

    def _update_schema(self, asked: Asked) -> Any:
        (catalog, name), body = _parts(asked, 2), fields_of(
            asked.body, {}, "comment", "properties", "new_name")
        schema = self._schema(catalog, name)
        new = body.get("new_name")
        if new is not None:
            require_name(new)
            if new in self._schemas(catalog):
                raise Refusal("AlreadyExistsException", f"Schema already exists: {new}",
                              "SCHEMA_ALREADY_EXISTS")
            for table in self._of_schema(catalog, name):
                del self._tables[full_name(table)]
                self._tables[f"{catalog}.{new}.{table['name']}"] = {**table, "schema": new}
            del self._schemas(catalog)[name]
            self._schemas(catalog)[new] = schema
            schema |= {"name": new, "full_name": f"{catalog}.{new}"}
        if body.get("comment") is not None:
            schema["comment"] = body["comment"]
        if body.get("properties"):  # all of them are replaced, and an empty object leaves them
            schema["properties"] = body["properties"]
        schema["updated_at"] = self._time()
        return schema

    def _delete_schema(self, asked: Asked) -> Any:
        catalog, schema = _parts(asked, 2)
        tables = self._of_schema(catalog, schema)
        if tables and asked.query.get("force") != "true":
            raise Refusal("InvalidParameterValueException", "Cannot delete schema with tables",
                          "FAILED_PRECONDITION")
        for table in tables:
            self._drop(table)
        del self._schemas(catalog)[schema]
        return DROPPED

    def _list_tables(self, asked: Asked) -> Any:
        tables = self._of_schema(*(asked.query.get(name, "") for name in ("catalog_name", "schema_name")))
        return _page(asked, "tables", [_info(table) for table in tables])

    def _get_table(self, asked: Asked) -> Any:
        return _info(self._table(*_parts(asked, 3)))

    def _register_table(self, asked: Asked) -> Any:
        body = fields_of(
            asked.body, {"name": str, "catalog_name": str, "schema_name": str, "table_type": str,
                         "data_source_format": str, "columns": list, "storage_location": str},
            "comment", "properties")
        self._refuse_taken(body["catalog_name"], body["schema_name"], body["name"])
        columns, partitions = columns_of_infos(body["columns"])
        table = self._new_table(
            body["catalog_name"], body["schema_name"], body, type=body["table_type"],
            id=self._new_external(body["table_type"], body["storage_location"]),
            format=body["data_source_format"], location=body["storage_location"].rstrip("/"),
            columns=columns, partitions=partitions,
            properties=dict(body.get("properties") or {}))
        return _info(table)

    def _remove_table(self, asked: Asked) -> Any:
        self._drop(self._table(*_parts(asked, 3)))
        return DROPPED

    def _temporary_table_credentials(self, asked: Asked) -> Any:
        body = fields_of(asked.body, {"table_id": str, "operation": str})
        _require_operation(body, "READ", "READ_WRITE")
        places = {each["id"]: each["location"] for each in self._tables.values()} | {
            table_id: each["location"] for table_id, each in self._staging.items()}
        if body["table_id"] not in places:
            raise Refusal("NoSuchTableException", f"Neither table nor staging table found with id: {body}")
        return self._temporary(places[body["table_id"]])

    def _temporary_path_credentials(self, asked: Asked) -> Any:
        body = fields_of(asked.body, {"url": str, "operation": str})
        _require_operation(body, "PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE")
        return self._temporary(body["url"].rstrip("/"))

    def _temporary(self, location: str) -> Json:
        keys = None if location.startswith("file:") else dict(self.keys)
        return {"aws_temp_credentials": keys, "azure_user_delegation_sas": None, "gcp_oauth_token": None,
                "expiration_time": self.expires, "url": location}


ROWS: tuple[tuple[str, str, str, Callable[[Any, Asked], Any]], ...] = (
    ("GET", "/catalogs", "older.listCatalogs", OlderApi._list_catalogs),
    ("POST", "/catalogs", "older.createCatalog", OlderApi._post_catalog),
    ("GET", "/catalogs/{name}", "older.getCatalog", OlderApi._get_catalog),
    ("GET", "/schemas", "older.listSchemas", OlderApi._list_schemas),
    ("POST", "/schemas", "older.createSchema", OlderApi._create_schema),
    ("GET", "/schemas/{full_name}", "older.getSchema", OlderApi._get_schema),
    ("PATCH", "/schemas/{full_name}", "older.updateSchema", OlderApi._update_schema),
    ("DELETE", "/schemas/{full_name}", "older.deleteSchema", OlderApi._delete_schema),
    ("GET", "/tables", "older.listTables", OlderApi._list_tables),
    ("POST", "/tables", "older.createTable", OlderApi._register_table),
    ("GET", "/tables/{full_name}", "older.getTable", OlderApi._get_table),
    ("DELETE", "/tables/{full_name}", "older.deleteTable", OlderApi._remove_table),
    ("POST", "/temporary-table-credentials", "older.generateTemporaryTableCredentials",
     OlderApi._temporary_table_credentials),
    ("POST", "/temporary-path-credentials", "older.generateTemporaryPathCredentials",
     OlderApi._temporary_path_credentials),
)
"""Method, path, operation, and what serves it."""


def _parts(asked: Asked, count: int) -> list[str]:
    parts = asked.names["full_name"].split(".")
    if len(parts) != count:
        raise invalid(f"invalid name: {asked.names['full_name']}")
    return parts


def _require_operation(body: Json, *operations: str) -> None:
    if body["operation"] not in operations:
        raise invalid(f"unknown operation {body['operation']}")


def _page(asked: Asked, field: str, rows: list[Json]) -> Json:
    """A page of rows by name; a full one has a token, even where nothing follows."""
    try:
        most = int(asked.query.get("max_results", 0))
    except ValueError as error:
        raise invalid("max_results is no number") from error
    if most < 0:
        raise invalid("maxResults must be greater than or equal to 0")
    size, token = min(most or PAGE, PAGE), asked.query.get("page_token", "")
    page = [each for each in rows if each["name"] > token][:size]
    return {field: page, "next_page_token": page[-1]["name"] if len(page) == size else None}


def _info(table: Table) -> Json:
    """A table in the older API's form."""
    return {"name": table["name"], "catalog_name": table["catalog"], "schema_name": table["schema"],
            "table_type": table["type"], "data_source_format": table["format"],
            "columns": infos_of(table["columns"], table["partitions"]), "storage_location": table["location"],
            "comment": table["comment"], "properties": table["properties"], "owner": None,
            "created_at": table["created"], "created_by": None, "updated_at": table["updated"],
            "updated_by": None, "table_id": table["id"]}
