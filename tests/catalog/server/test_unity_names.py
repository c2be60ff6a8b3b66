"""Unity Catalog's older API, with which its clients begin: names, tables by name, access to files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.messages import anyone
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.tables import sa
from deltanb.catalog.unity.infos import type_name
from deltanb.catalog.unity.server import endpoints, listing
from deltanb.schema.types import TYPES, PrimitiveType
from tests.catalog.iceberg_tables import SCHEMA
from tests.catalog.server.ask import Client, error
from tests.catalog.server.unity import PAGE, Json, json_of

ROOT = "/api/2.1/unity-catalog"
DELTA = f"{ROOT}/delta/v1"
COLUMNS = ("id bigint NOT NULL COMMENT 'its number', price decimal(10,2), tags map<string, array<int>>, "
           "day date")


@pytest.fixture
def catalog(service: Service, served: dn.Catalog) -> dn.Catalog:
    """The catalog that is served: two Delta tables and one of Iceberg in ``ns``, one in ``ns.eu``."""
    served.create_table("ns.orders", COLUMNS, partition_by="day")
    served.create_table("ns.visits", {"id": [1]})
    service.tables.create("ns.events", SCHEMA)
    served.create_namespace("ns.eu")
    served.create_table("ns.eu.orders", {"id": [1]})
    return served


def refused(answer: Any) -> tuple[int, str]:
    """A refusal's status and code; its body has this API's shape."""
    body = answer.json()
    assert body.keys() == {"error_code", "message", "details"} and body["message"], body
    assert [each["reason"] for each in body["details"]] == [body["error_code"]]
    return answer.status_code, body["error_code"]


def names(client: Client, what: str, key: str = "name", **params: Any) -> list[str]:
    """The names in a list, which is read a row a page."""
    out, token = [], None
    while True:
        page = json_of(client.get(f"{ROOT}/{what}", params={
            **params, "max_results": 1, **({"page_token": token} if token else {})}))
        assert len(page[what]) <= 1
        out += [each[key] for each in page[what]]
        token = page["next_page_token"]
        if token is None:
            assert json_of(client.get(f"{ROOT}/{what}", params={**params, "max_results": 0}))[what] == \
                json_of(client.get(f"{ROOT}/{what}", params=params))[what]
            return out


def test_the_page_of_the_server_has_each_path() -> None:
    table = PAGE.read_text("utf-8").partition("\n## ")[0]
    paths = [path for line in table.splitlines() if line.startswith("|")
             for path in re.findall(r"(/[\w/{}.-]+)`", line.split("|")[1])]
    assert sorted(paths) == sorted({row.path for row in listing.ENDPOINTS} | {"/delta/v1"})


def test_a_catalog_has_the_namespaces_at_the_top_as_schemas(client: Client, catalog: dn.Catalog) -> None:
    catalog.create_namespace("attic")
    assert names(client, "catalogs") == [catalog.name]
    assert json_of(client.get(f"{ROOT}/catalogs/{catalog.name}")) == {"name": catalog.name}
    assert names(client, "schemas", "full_name", catalog_name=catalog.name) == ["default.attic", "default.ns"]
    for path in ("catalogs/main", "schemas?catalog_name=main", "schemas", "schemas/main.ns", "schemas/ns",
                 "tables?catalog_name=main&schema_name=ns", "tables/main.ns.orders"):
        assert refused(client.get(f"{ROOT}/{path}")) == (404, "CATALOG_NOT_FOUND"), path


def test_a_schema_is_made_with_its_comment_and_properties(client: Client, catalog: dn.Catalog) -> None:
    new = {"name": "shop", "catalog_name": catalog.name, "comment": "sales", "properties": {"owner": "ada"}}
    made = json_of(client.post(f"{ROOT}/schemas", json=new))
    assert made == {**new, "full_name": "default.shop"} == json_of(client.get(f"{ROOT}/schemas/default.shop"))
    assert catalog.store.namespaces.properties("shop") == {"comment": "sales", "owner": "ada"}
    assert refused(client.post(f"{ROOT}/schemas", json=new)) == (400, "SCHEMA_ALREADY_EXISTS")
    assert refused(client.post(f"{ROOT}/schemas", json={**new, "name": "a.b"})) == (400, "INVALID_ARGUMENT")
    assert refused(client.post(f"{ROOT}/schemas", json={**new, "catalog_name": "x"})) == (
        404, "CATALOG_NOT_FOUND")
    assert refused(client.get(f"{ROOT}/schemas/default.attic")) == (404, "SCHEMA_NOT_FOUND")


def test_a_schema_is_changed(client: Client, catalog: dn.Catalog) -> None:
    path, namespaces = f"{ROOT}/schemas/default.ns", catalog.store.namespaces

    def changed(**body: Any) -> dict[str, str]:
        answer = json_of(client.request("PATCH", path, json=body))
        assert answer == json_of(client.get(path))
        after = namespaces.properties("ns")
        comment = {"comment": answer["comment"]} if answer["comment"] else {}
        assert after == {**answer["properties"], **comment}
        return after

    assert changed(comment="sales", properties={"owner": "ada", "team": "x"}) == {
        "comment": "sales", "owner": "ada", "team": "x"}
    assert changed(properties={"owner": "bob"}) == {"comment": "sales", "owner": "bob"}  # all are replaced
    assert changed(properties={}) == changed() == {"comment": "sales", "owner": "bob"}
    assert changed(comment="all") == {"comment": "all", "owner": "bob"}
    for body in ({"new_name": "shop"}, {"comment": "x", "properties": {"exists": "no"}}, {"owner": "ada"}):
        assert refused(client.request("PATCH", path, json=body)) == (400, "INVALID_ARGUMENT")
    renaming = client.request("PATCH", path, json={"new_name": "shop"}).json()["message"]
    assert renaming.startswith("new_name: ")
    assert namespaces.properties("ns") == {"comment": "all", "owner": "bob"}
    nowhere = client.request("PATCH", f"{ROOT}/schemas/default.attic", json={"properties": {"a": "1"}})
    assert refused(nowhere) == (404, "SCHEMA_NOT_FOUND")


def test_only_an_empty_schema_is_dropped(client: Client, catalog: dn.Catalog) -> None:
    json_of(client.post(f"{ROOT}/schemas", json={"name": "shop", "catalog_name": "default"}))
    for force in ("", "?force=false", "?force=true"):
        answer = client.delete(f"{ROOT}/schemas/default.ns{force}")
        assert refused(answer) == (400, "FAILED_PRECONDITION")
        assert ("force drops no tables here" in answer.json()["message"]) == (force == "?force=true")
    assert refused(client.delete(f"{ROOT}/schemas/default.shop?force=maybe"))[0] == 400
    json_of(client.delete(f"{ROOT}/schemas/default.shop?force=true"))
    assert refused(client.delete(f"{ROOT}/schemas/default.shop")) == (404, "SCHEMA_NOT_FOUND")
    assert catalog.list_namespaces() == ["ns"]


def test_a_table_is_dropped_by_its_full_name(client: Client, catalog: dn.Catalog) -> None:
    path = f"{ROOT}/tables/default.ns"
    folder = Path(catalog.table("ns.orders").path)
    json_of(client.delete(f"{path}.orders"))
    assert catalog.list_tables("ns") == ["ns.events", "ns.visits"] and folder.exists()
    assert [place for place, _ in catalog.store.garbage.due(10**15)] == [str(folder)]
    assert refused(client.delete(f"{path}.orders")) == (404, "TABLE_NOT_FOUND")
    assert refused(client.delete(f"{path}.events")) == (400, "INVALID_ARGUMENT")  # one of Iceberg
    assert refused(client.delete(path)) == (400, "INVALID_ARGUMENT")


def test_the_delta_tables_of_a_schema_are_listed(client: Client, catalog: dn.Catalog) -> None:
    space = {"catalog_name": catalog.name, "schema_name": "ns"}
    assert names(client, "tables", **space) == ["orders", "visits"]
    for more in ({"max_results": "some"}, {"max_results": -1}, {"page_token": "?"}):
        answer = client.get(f"{ROOT}/tables", params={**space, **more})
        assert refused(answer) == (400, "INVALID_ARGUMENT"), more
    assert refused(client.get(f"{ROOT}/tables", params={**space, "schema_name": "attic"}))[0] == 404
    assert refused(client.get(f"{ROOT}/tables", params={"catalog_name": "default"}))[0] == 400


def test_a_longer_list_asks_the_database_as_often_and_reads_no_file(
    client: Client, catalog: dn.Catalog, tmp_path: Path
) -> None:
    statements: list[str] = []
    sa.event.listen(catalog.store.database.engine, "before_cursor_execute",
                    lambda *execution: statements.append(execution[2]))

    def listed(path: str) -> list[str]:
        statements.clear()
        return [each["name"] for each in json_of(client.get(f"{ROOT}/{path}"))["tables"]]

    tables = "tables?catalog_name=default&schema_name=ns"
    assert listed(tables) == ["orders", "visits"]
    before = len(statements)
    for name in ("a", "b", "c"):
        catalog.create_table(f"ns.{name}", {"id": [1]})
    shutil.rmtree(tmp_path / "lake")
    assert listed(tables) == ["a", "b", "c", "orders", "visits"]
    assert len(statements) == before > 0


def test_what_lies_in_nested_namespaces_is_said_not_to_be_visible(
    client: Client, catalog: dn.Catalog
) -> None:
    for path in ("tables?catalog_name=default&schema_name=ns.eu", "tables/default.ns.eu.orders",
                 "schemas/default.ns.eu"):
        answer = client.get(f"{ROOT}/{path}")
        assert refused(answer) == (400, "INVALID_ARGUMENT")
        assert "nested namespaces are not visible here" in answer.json()["message"]
    json_of(client.get(f"{DELTA}/catalogs/default/schemas/ns.eu/tables/orders"))  # the way out that it names


def test_a_table_is_had_by_its_full_name(client: Client, catalog: dn.Catalog) -> None:
    table = json_of(client.get(f"{ROOT}/tables/default.ns.orders"))
    loaded = json_of(client.get(f"{DELTA}/catalogs/default/schemas/ns/tables/orders"))["metadata"]
    assert (table["name"], table["schema_name"], table["catalog_name"]) == ("orders", "ns", "default")
    assert (table["table_type"], table["data_source_format"]) == ("MANAGED", "DELTA")
    assert (table["table_id"], table["storage_location"]) == (loaded["table-uuid"], loaded["location"])
    assert table["properties"] == loaded["properties"]
    assert table["properties"]["delta.feature.catalogManaged"] == "supported"
    assert table["created_at"] == loaded["created-time"]
    kinds = [(each["name"], each["type_text"], each["type_name"]) for each in table["columns"]]
    assert kinds == [("id", "bigint", "LONG"), ("price", "decimal(10,2)", "DECIMAL"),
                     ("tags", "map<string, array<int>>", "MAP"), ("day", "date", "DATE")]
    assert [each["position"] for each in table["columns"]] == [0, 1, 2, 3]
    assert [each["partition_index"] for each in table["columns"]] == [None, None, None, 0]
    id_, price = table["columns"][:2]
    assert (id_["nullable"], id_["comment"]) == (False, "its number")
    assert (price["type_precision"], price["type_scale"]) == (10, 2)
    fields = catalog.table("ns.orders").snapshot.schema.fields
    assert [json.loads(each["type_json"]) for each in table["columns"]] == [each.to_dict() for each in fields]
    assert refused(client.get(f"{ROOT}/tables/default.ns.none")) == (404, "TABLE_NOT_FOUND")
    assert refused(client.get(f"{ROOT}/tables/default.ns.events")) == (400, "INVALID_ARGUMENT")
    assert refused(client.get(f"{ROOT}/tables/default.ns")) == (400, "INVALID_ARGUMENT")


def test_each_type_has_a_name_that_clients_know_but_those_of_nanoseconds() -> None:
    other = {name for name in TYPES if type_name(PrimitiveType(name)) == "USER_DEFINED_TYPE"}
    assert other == {"timestamp_nanos", "timestamp_nanos_ntz"}


def test_files_are_had_by_the_tables_id_or_a_place_in_its_folder(client: Client, catalog: dn.Catalog) -> None:
    table = json_of(client.get(f"{ROOT}/tables/default.ns.orders"))
    by_id = json_of(client.post(f"{ROOT}/temporary-table-credentials", json={
        "table_id": table["table_id"], "operation": "READ_WRITE"}))
    assert by_id == {"url": table["storage_location"], "expiration_time": None}
    for url in (table["storage_location"], f"{table['storage_location']}/_delta_log/_staged_commits"):
        at = json_of(client.post(f"{ROOT}/temporary-path-credentials", json={
            "url": url, "operation": "PATH_READ"}))
        assert at == {"url": url, "expiration_time": None}
    unknown = {"table_id": "x", "operation": "READ"}
    assert refused(client.post(f"{ROOT}/temporary-table-credentials", json=unknown)) == (
        404, "TABLE_NOT_FOUND")
    for url in ("file:///etc", f"{catalog.warehouse.uri}/ns", f"{catalog.warehouse.uri}/ns/new"):
        answer = client.post(f"{ROOT}/temporary-path-credentials", json={
            "url": url, "operation": "PATH_CREATE_TABLE"})
        assert refused(answer) == (400, "INVALID_ARGUMENT")


# -- who may ask what ------------------------------------------------------------------------------------

TOKENS = {"root": "write", "reader": "read", "nobody": "none"}
NO, READ, WRITE = "nobody", "reader", "root"


@pytest.fixture
def guarded(service: Service, catalog: dn.Catalog) -> Iterator[Client]:
    """Each of the tokens has its permission in ``ns``, and may write elsewhere."""
    service.tokens = Tokens.of({"tokens": [
        {"name": name, "token": name, "permissions": {"attic": "write", "ns": level}}
        for name, level in TOKENS.items()]})
    with Client(application(service)) as client:
        yield client


def asked(catalog: dn.Catalog) -> dict[str, list[tuple[str, Json, Json, bool]]]:
    """Of each function: requests of what is in ``ns``, as parts of the path, the query, the body, and whether
    it takes the permission to write."""
    table = catalog.table("ns.orders")
    table_id, url = table.properties["io.unitycatalog.tableId"], f"file://{table.path}"
    space = {"catalog": "default", "schema": "ns"}
    path = {**space, "table": "orders"}
    update = {"requirements": [{"type": "assert-table-uuid", "uuid": table_id}], "updates": [
        {"action": "set-table-comment", "comment": "x"}]}
    new = {"name": "n", "location": url, "table-type": "MANAGED", "protocol": {
        "min-reader-version": 3, "min-writer-version": 7}, "properties": {}, "last-commit-timestamp-ms": 1,
        "columns": {"type": "struct", "fields": []}}
    return {
        "create_schema": [({}, {}, {"name": "ns", "catalog_name": "default"}, True)],
        "get_schema": [({"full_name": "default.ns"}, {}, {}, False)],
        "update_schema": [({"full_name": "default.ns"}, {}, {"comment": "x"}, True)],
        "delete_schema": [({"full_name": "default.ns"}, {}, {}, True)],
        "create_external_table": [({}, {}, {
            "name": "n", "catalog_name": "default", "schema_name": "ns", "table_type": "EXTERNAL",
            "data_source_format": "DELTA", "storage_location": "s3://b/t", "columns": []}, True)],
        "remove_table": [({"full_name": "default.ns.orders"}, {}, {}, True)],
        "list_tables": [({}, {"catalog_name": "default", "schema_name": "ns"}, {}, False)],
        "get_table": [({"full_name": "default.ns.orders"}, {}, {}, False)],
        "temporary_table_credentials": [
            ({}, {}, {"table_id": table_id, "operation": operation}, writes)
            for operation, writes in (("READ", False), ("READ_WRITE", True))],
        "temporary_path_credentials": [
            ({}, {}, {"url": url, "operation": operation}, writes) for operation, writes in (
                ("PATH_READ", False), ("PATH_READ_WRITE", True), ("PATH_CREATE_TABLE", True))],
        "staging_table": [(space, {}, {"name": "n"}, True)],
        "create_table": [(space, {}, new, True)],
        "table_exists": [(path, {}, {}, False)], "load_table": [(path, {}, {}, False)],
        "update_table": [(path, {}, update, True)],
        "rename_table": [(path, {}, {"new-name": "orders"}, True)],
        "table_credentials": [(path, {"operation": operation}, {}, writes)
                              for operation, writes in (("READ", False), ("READ_WRITE", True))],
        "report_metrics": [(path, {}, {"table-id": table_id}, False)],
        "delete_table": [(path, {}, {}, True)],
    }


ROWS = {each.name: each for each in (*listing.ENDPOINTS, *endpoints.ENDPOINTS) if each.needs is not anyone}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_endpoint_is_for_those_who_may(guarded: Client, catalog: dn.Catalog, row: Endpoint) -> None:
    for path, params, body, writes in asked(catalog)[row.name]:
        for name in (NO, READ, WRITE):
            answer = guarded.request(
                row.method, row.paths[-1].format(**path), params=params, headers={
                    "Authorization": f"Bearer {name}"}, **({"json": body} if row.body else {}))
            may = name == WRITE or (name == READ and not writes)
            assert (answer.status_code == 403) == (not may), (row.name, body, name, answer.text)
            if not may and row.method != "HEAD":
                assert (refused(answer)[1] if row.api is listing.OLDER else error(answer)[1]) in (
                    "PERMISSION_DENIED", "PermissionDeniedException")


def test_lists_show_what_one_may_see(guarded: Client, catalog: dn.Catalog) -> None:
    catalog.create_namespace("attic")

    def seen(token: str) -> list[str]:
        answer = guarded.get(f"{ROOT}/schemas?catalog_name=default", headers={
            "Authorization": f"Bearer {token}"})
        return [each["name"] for each in json_of(answer)["schemas"]]

    assert (seen(NO), seen(READ)) == (["attic"], ["attic", "ns"])


def test_a_staging_table_is_its_makers(guarded: Client, catalog: dn.Catalog) -> None:
    def as_(token: str) -> Json:
        return {"Authorization": f"Bearer {token}"}

    catalog.create_namespace("attic")
    staged = json_of(guarded.post(f"{DELTA}/catalogs/default/schemas/attic/staging-tables", headers=as_(READ),
                                  json={"name": "new"}))
    for token, status in ((READ, 200), (WRITE, 400)):
        for url in (staged["location"], f"{staged['location']}/_delta_log"):
            answer = guarded.post(f"{ROOT}/temporary-path-credentials", headers=as_(token), json={
                "url": url, "operation": "PATH_READ_WRITE"})
            assert answer.status_code == status


def test_what_the_door_refuses_has_this_apis_form(guarded: Client, service: Service) -> None:
    assert refused(guarded.get(f"{ROOT}/catalogs")) == (401, "UNAUTHENTICATED")
    service.tokens, service.settings = None, Settings(max_body=100)
    text = {"content": "{}", "headers": {"Content-Type": "text/plain"}}
    assert refused(guarded.post(f"{ROOT}/schemas", **text)) == (415, "INVALID_ARGUMENT")
    large = {"name": "x" * 100, "catalog_name": "default"}
    assert refused(guarded.post(f"{ROOT}/schemas", json=large)) == (413, "INVALID_ARGUMENT")
    assert refused(guarded.post(f"{ROOT}/schemas", json={"name": "x"})) == (400, "INVALID_ARGUMENT")
