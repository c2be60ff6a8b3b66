"""Delta tables in the shape of Unity Catalog's Delta API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.store import CatalogStore
from deltanb.errors import StorageError
from deltanb.log.commits import STAGED_FOLDER, commit_name
from tests.catalog.iceberg_tables import SCHEMA
from tests.catalog.server.ask import Client, error
from tests.catalog.server.unity import ORDERS, ROOT, TABLES, Json, Table, json_of, published, staging


@pytest.fixture
def catalog(orders: Table) -> dn.Catalog:
    """The catalog that is served, with the table ``ns.orders``."""
    return orders.catalog


def test_what_there_is_is_said_to_who_knows_the_version(client: Client) -> None:
    for root in (ROOT, f"/api/2.1/unity-catalog{ROOT}"):
        config = json_of(client.get(f"{root}/config?catalog=default&protocol-versions=1.3,2.0"))
        assert config["protocol-version"] == "1.0" and len(config["endpoints"]) == 10
        assert "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}" in config["endpoints"]
    invalid = (400, "InvalidParameterValueException")
    for query, expected in (("catalog=default&protocol-versions=2.0", invalid), ("catalog=default", invalid),
                            ("protocol-versions=1.0", (404, "NoSuchCatalogException"))):
        assert error(client.get(f"{ROOT}/config?{query}")) == expected


def test_a_table_is_loaded_with_what_is_not_published_newest_first(client: Client, orders: Table) -> None:
    loaded = json_of(client.get(ORDERS))
    metadata = loaded["metadata"]
    assert metadata["table-uuid"] == orders.id and metadata["table-type"] == "MANAGED"
    assert metadata["location"] == f"file://{orders.folder}"
    assert metadata["columns"]["fields"] == [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    assert metadata["properties"]["delta.feature.catalogManaged"] == "supported"
    assert metadata["properties"]["delta.minReaderVersion"] == "3"
    assert (metadata["last-commit-version"], loaded["latest-table-version"], loaded["commits"]) == (0, 0, [])
    adds = [orders.stage(1)]
    json_of(client.post(ORDERS, json=orders.ask(adds[0])))
    adds.append(orders.stage(2))
    after = json_of(client.post(ORDERS, json=orders.ask(adds[1])))
    assert after["commits"] == [add["commit"] for add in reversed(adds)]
    assert after["latest-table-version"] == 2 and after == json_of(client.get(ORDERS))
    assert after["metadata"] == metadata  # no commit changed it
    assert after["allowed-maintenance-operations"] == [
        "DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"]
    table = orders.catalog.table("ns.orders")
    assert table.version == 2 and table.append({"id": [2]}) == 3


def test_nested_types_are_written_with_hyphens(client: Client, catalog: dn.Catalog) -> None:
    catalog.create_table("ns.nested", "a array<struct<b: map<string, decimal(10,2)>>>")
    (field,) = json_of(client.get(f"{TABLES}/nested"))["metadata"]["columns"]["fields"]
    inner = field["type"]["element-type"]["fields"][0]["type"]
    assert field["type"]["contains-null"] is True
    assert (inner["key-type"], inner["value-type"], inner["value-contains-null"]) == (
        "string", "decimal(10,2)", True)


def test_a_replayed_commit_changes_nothing(client: Client, orders: Table) -> None:
    add = orders.stage(1)
    body = orders.ask(add)
    first = json_of(client.post(ORDERS, json=body))
    seq = orders.catalog.store.instant()
    assert json_of(client.post(ORDERS, json=body)) == first
    orders.publish(1, add["commit"]["file-name"])
    json_of(client.post(ORDERS, json=orders.ask(published(1))))
    assert json_of(client.post(ORDERS, json=body))["latest-table-version"] == 1
    assert orders.catalog.store.instant() == seq
    other = orders.stage(1)
    assert error(client.post(ORDERS, json=orders.ask(other))) == (409, "CommitVersionConflictException")


def test_of_a_version_that_is_gone_nothing_is_claimed(client: Client, orders: Table) -> None:
    add = orders.stage(1)
    json_of(client.post(ORDERS, json=orders.ask(add)))
    orders.publish(1, add["commit"]["file-name"])
    json_of(client.post(ORDERS, json=orders.ask(published(1))))
    (orders.folder / commit_name(1)).unlink()
    answer = client.post(ORDERS, json=orders.ask(add))
    assert error(answer) == (500, "CommitStateUnknownException")


def test_versions_follow_each_other(client: Client, orders: Table) -> None:
    for version in (2, 7):
        answer = client.post(ORDERS, json=orders.ask(orders.stage(version)))
        assert error(answer) == (400, "InvalidParameterValueException")
    one, two = orders.stage(1), orders.stage(1)
    json_of(client.post(ORDERS, json=orders.ask(one)))
    assert error(client.post(ORDERS, json=orders.ask(two))) == (409, "CommitVersionConflictException")
    assert json_of(client.get(ORDERS))["commits"] == [one["commit"]]


def test_requirements(client: Client, orders: Table) -> None:
    etag = json_of(client.get(ORDERS))["metadata"]["etag"]
    conflict = (409, "UpdateRequirementConflictException")
    add = orders.stage(1)
    assert error(client.post(ORDERS, json=orders.ask(add, uuid=str(uuid.uuid4())))) == conflict
    assert error(client.post(ORDERS, json=orders.ask(add, etag="other"))) == conflict
    json_of(client.post(ORDERS, json=orders.ask(add, etag=etag)))
    comment = {"action": "set-table-comment", "comment": "all of them"}
    after = json_of(client.post(ORDERS, json=orders.ask(comment, etag=etag)))
    assert after["metadata"]["etag"] != etag
    assert error(client.post(ORDERS, json=orders.ask(comment, etag=etag))) == conflict


def test_no_more_than_ten_commits_stay_unpublished(client: Client, orders: Table) -> None:
    names = []
    for version in range(1, 11):
        add = orders.stage(version)
        names.append(add["commit"]["file-name"])
        json_of(client.post(ORDERS, json=orders.ask(add)))
    eleventh = orders.stage(11)
    refused = client.post(ORDERS, json=orders.ask(eleventh))
    assert error(refused) == (429, "ResourceExhaustedException")
    invalid = (400, "InvalidParameterValueException")
    assert error(client.post(ORDERS, json=orders.ask(published(2)))) == invalid
    for version, name in enumerate(names[:4], 1):
        orders.publish(version, name)
    after = json_of(client.post(ORDERS, json=orders.ask(published(4), eleventh)))
    assert [each["version"] for each in after["commits"]] == [11, 10, 9, 8, 7, 6, 5]
    json_of(client.post(ORDERS, json=orders.ask(published(3))))  # what is said already
    assert error(client.post(ORDERS, json=orders.ask(published(12)))) == invalid


def test_what_is_published_is_heard_of_after_or_with_the_first_commit(client: Client, orders: Table) -> None:
    invalid = (400, "InvalidParameterValueException")
    assert error(client.post(ORDERS, json=orders.ask(published(0)))) == invalid
    json_of(client.post(ORDERS, json=orders.ask(orders.stage(1), published(0))))
    json_of(client.post(ORDERS, json=orders.ask(published(0))))


def test_a_report_comes_with_its_commit_or_not_at_all(
    client: Client, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, other = orders.stage(1), orders.stage(2), orders.stage(1)
    json_of(client.post(ORDERS, json=orders.ask(first)))
    orders.publish(1, first["commit"]["file-name"])
    before = json_of(client.get(ORDERS))
    assert error(client.post(ORDERS, json=orders.ask(other, published(1))))[0] == 409
    assert json_of(client.get(ORDERS)) == before

    def fails(*_: Any) -> None:
        raise StorageError("the database is gone")

    set_published = CatalogStore.set_published
    monkeypatch.setattr(CatalogStore, "set_published", fails)
    answer = client.post(ORDERS, json=orders.ask(second, published(1)))
    assert error(answer) == (500, "CommitStateUnknownException")  # it is ratified
    assert error(client.post(ORDERS, json=orders.ask(published(1)))) == (503, "InternalServerErrorException")
    monkeypatch.setattr(CatalogStore, "set_published", set_published)
    after = json_of(client.post(ORDERS, json=orders.ask(second, published(1))))
    assert [each["version"] for each in after["commits"]] == [2, 1]
    assert [each["version"] for each in json_of(client.post(
        ORDERS, json=orders.ask(published(1))))["commits"]] == [2]


def test_what_a_commit_says_is_what_counts(client: Client, orders: Table) -> None:
    columns = {"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "tags", "nullable": True, "metadata": {}, "type": {
            "type": "array", "element-type": "string", "contains-null": True}}]}
    schema = {"type": "struct", "fields": [columns["fields"][0], {**columns["fields"][1], "type": {
        "type": "array", "elementType": "string", "containsNull": True}}]}
    configuration = {"delta.enableInCommitTimestamps": "true", "io.unitycatalog.tableId": orders.id,
                     "owner": "ada"}
    action = orders.metadata(schemaString=json.dumps(schema), configuration=configuration)
    domain = {"domainMetadata": {"domain": "delta.clustering", "removed": False, "configuration": json.dumps(
        {"clusteringColumns": [["id"]]})}}
    gone = {"domainMetadata": {"domain": "old", "removed": True, "configuration": ""}}
    protocol = json.loads(orders.catalog.store.tables.load("ns.orders").delta.protocol)
    wider = {**protocol, "writerFeatures": [*protocol["writerFeatures"], "clustering", "domainMetadata"]}
    add = orders.stage(1, {"protocol": wider}, action, domain, gone)
    agreeing = [
        {"action": "set-columns", "columns": columns},
        {"action": "set-properties", "updates": {"owner": "ada"}},
        {"action": "remove-properties", "removals": ["color"]},
        {"action": "set-partition-columns", "partition-columns": []},
        {"action": "set-protocol", "protocol": {
            "min-reader-version": 3, "min-writer-version": 7, "reader-features": wider["readerFeatures"],
            "writer-features": wider["writerFeatures"]}},
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
        {"action": "remove-domain-metadata", "domains": ["old"]}]
    other = [
        {"action": "set-columns", "columns": {"type": "struct", "fields": columns["fields"][:1]}},
        {"action": "set-properties", "updates": {"owner": "bob"}},
        {"action": "remove-properties", "removals": ["owner"]},
        {"action": "set-partition-columns", "partition-columns": ["id"]},
        {"action": "set-protocol", "protocol": {"min-reader-version": 3, "min-writer-version": 7}},
        {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 7}}},
        {"action": "remove-domain-metadata", "domains": ["delta.clustering"]}]
    for update in other:
        answer = client.post(ORDERS, json=orders.ask(add, update))
        assert error(answer) == (400, "InvalidParameterValueException")
        assert update["action"] in answer.json()["error"]["message"]
    assert orders.catalog.table("ns.orders").version == 0
    metadata = json_of(client.post(ORDERS, json=orders.ask(add, *agreeing)))["metadata"]
    assert metadata["columns"] == columns and metadata["properties"]["owner"] == "ada"
    assert metadata["properties"]["delta.feature.clustering"] == "supported"
    assert metadata["last-commit-version"] == 1
    assert metadata["last-commit-timestamp-ms"] == add["commit"]["timestamp"]
    assert orders.catalog.table("ns.orders").snapshot.schema.names == ["id", "tags"]


def test_what_has_a_place_in_the_log_comes_with_a_commit(client: Client, orders: Table) -> None:
    columns = json_of(client.get(ORDERS))["metadata"]["columns"]
    for update in (
        {"action": "set-columns", "columns": columns},
        {"action": "set-properties", "updates": {"delta.appendOnly": "true"}},
        {"action": "remove-properties", "removals": ["delta.enableInCommitTimestamps"]},
        {"action": "set-partition-columns", "partition-columns": []},
        {"action": "set-protocol", "protocol": {"min-reader-version": 3, "min-writer-version": 7}},
        {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 7}}},
        {"action": "remove-domain-metadata", "domains": ["d"]},
        {"action": "update-metadata-snapshot-version", "last-commit-version": 1,
         "last-commit-timestamp-ms": 1},
    ):
        assert error(client.post(ORDERS, json=orders.ask(update))) == (400, "InvalidParameterValueException")
    properties = json_of(client.post(ORDERS, json=orders.ask(
        {"action": "set-properties", "updates": {"team": "sales", "x": "1"}})))["metadata"]["properties"]
    assert (properties["team"], properties["x"]) == ("sales", "1")
    properties = json_of(client.post(ORDERS, json=orders.ask(
        {"action": "remove-properties", "removals": ["x"]})))["metadata"]["properties"]
    assert properties["team"] == "sales" and "x" not in properties


def test_staged_files_are_looked_at(client: Client, orders: Table) -> None:
    def refused(add: Json) -> str:
        answer = client.post(ORDERS, json=orders.ask(add))
        assert error(answer)[0] == 400 and orders.catalog.store.tables.load("ns.orders").delta.latest == 0
        return str(answer.json()["error"]["message"])

    add = orders.stage(1)
    commit = add["commit"]
    for change, message in ((("file-size", 1), "file-size"), (("timestamp", 1), "timestamp"),
                         (("file-name", f"{1:020}.{uuid.uuid4()}.json"), "no staged file"),
                         (("file-name", "../../x.json"), "file-name")):
        assert message in refused({**add, "commit": {**commit, change[0]: change[1]}})
    staged = orders.folder / STAGED_FOLDER / commit["file-name"]
    staged.write_text("x" * commit["file-size"])
    assert "cannot be read" in refused(add)
    assert "uniform" in refused({**orders.stage(1), "uniform": {"iceberg": {}}})
    lost = orders.metadata(configuration={})
    assert "delta.enableInCommitTimestamps" in refused(orders.stage(1, lost))
    bare = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [],
                         "writerFeatures": []}}
    assert "catalogManaged" in refused(orders.stage(1, bare))


MALFORMED: list[tuple[Callable[[Table], Any], str]] = [
    (lambda t: [], "the body"),
    (lambda t: {}, "requirements"),
    (lambda t: {**t.ask(published(0)), "more": 1}, "more"),
    (lambda t: t.ask(), "updates"),
    (lambda t: {**t.ask(published(0)), "requirements": [{"type": "assert-create"}]}, "requirements[0].type"),
    (lambda t: t.ask(published(0), uuid="x"), "requirements[0].uuid"),
    (lambda t: t.ask({"action": "dance"}), "updates[0].action"),
    (lambda t: t.ask("dance"), "updates[0].action"),
    (lambda t: t.ask({"action": ["x"]}), "updates[0].action"),
    (lambda t: t.ask({"action": "add-commit"}), "updates[0].commit"),
    (lambda t: t.ask({"action": "add-commit", "commit": {"version": 0}}), "updates[0].commit.version"),
    (lambda t: t.ask({"action": "set-columns", "columns": {"type": "array"}}),
     "updates[0].columns.element-type"),
    (lambda t: t.ask({"action": "set-columns", "columns": "long"}), "updates[0].columns.type"),
    (lambda t: t.ask({"action": "set-domain-metadata", "updates": {"mine": {}}}), "updates[0].updates.mine"),
    (lambda t: t.ask({"action": "set-properties", "updates": {"delta.feature.x": "supported"}}), "updates"),
    (lambda t: t.ask({"action": "set-properties", "updates": {"a": "1"}},
                     {"action": "remove-properties", "removals": ["a"]}), "updates"),
    (lambda t: t.ask({"action": "set-properties", "updates": {"a": 1}}), "updates[0].updates.a"),
]


INVALID: list[tuple[Callable[[Table], Any], str]] = [
    (lambda t: {**t.ask(published(0)), "requirements": []}, "requirements"),
    (lambda t: {**t.ask(published(0)), "requirements": [{"type": "assert-etag", "etag": "x"}]},
     "requirements"),
    (lambda t: t.ask(published(0), published(0)), "updates[1].action"),
]
"""Of well-formed parts, and no request all the same."""


@pytest.mark.parametrize(("body", "field", "kind"), [
    *((*each, "BadRequestException") for each in MALFORMED),
    *((*each, "InvalidParameterValueException") for each in INVALID)])
def test_a_malformed_request_names_the_field_and_changes_nothing(
    client: Client, orders: Table, body: Callable[[Table], Any], field: str, kind: str
) -> None:
    before = orders.catalog.store.tables.load("ns.orders")
    answer = client.post(ORDERS, json=body(orders))
    assert error(answer) == (400, kind)
    assert answer.json()["error"]["message"].startswith(field)
    assert orders.catalog.store.tables.load("ns.orders") == before


# -- the life of a table -----------------------------------------------------------------------------


def written(staged: Json, **changes: Any) -> Json:
    """Write version 0 of a staging table as asked for; the request that makes it a table."""
    columns = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": staged["required-protocol"]["reader-features"],
                "writerFeatures": staged["required-protocol"]["writer-features"]}
    metadata = {"id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(columns), "partitionColumns": [], "createdTime": 5,
                "configuration": staged["required-properties"]}
    info = {"inCommitTimestamp": 5, "txnId": "t", "operation": "CREATE TABLE", "timestamp": 5}
    lines = [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}]
    file = Path(staged["location"].removeprefix("file://")) / commit_name(0)
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"name": "new", "location": staged["location"], "table-type": "MANAGED", "columns": columns,
            "protocol": staged["required-protocol"], "properties": staged["required-properties"],
            "last-commit-timestamp-ms": 5, **changes}


def test_a_table_of_a_warehouse_behind_a_link_is_where_it_was_staged(
    client: Client, catalog: dn.Catalog, tmp_path: Path
) -> None:
    (tmp_path / "lake").rename(tmp_path / "there")
    (tmp_path / "lake").symlink_to(tmp_path / "there")
    staged = staging(client)
    assert json_of(client.post(TABLES, json=written(staged)))["metadata"]["location"] == staged["location"]
    assert catalog.table("ns.new").append({"id": [1]}) == 1
    catalog.drop_table("ns.new", purge=True)
    assert not Path(staged["location"].removeprefix("file://"), commit_name(0)).exists()
    assert not catalog.store.garbage.due(10**15)


def test_a_staging_table_becomes_a_table(client: Client, catalog: dn.Catalog) -> None:
    staged = staging(client)
    place = staged["location"].removeprefix("file://")
    assert [path for path, _ in catalog.store.garbage.due(10**15)] == [place]
    own = json_of(client.get(f"{ROOT}/staging-tables/{staged['table-id']}/credentials"))
    assert own["storage-credentials"][0]["prefix"] == staged["location"]
    body = written(staged)
    created = json_of(client.post(TABLES, json=body))
    assert created["metadata"]["table-uuid"] == staged["table-id"] and created["latest-table-version"] == 0
    assert not catalog.store.garbage.due(10**15)
    assert catalog.table("ns.new").append({"id": [1]}) == 1
    assert error(client.post(TABLES, json=body)) == (409, "AlreadyExistsException")
    other = (400, "InvalidParameterValueException")  # the staging table is a table, and not this one
    assert error(client.post(TABLES, json={**body, "name": "other"})) == other
    catalog.rename_table("ns.new", "ns.old")
    assert error(client.post(TABLES, json=body)) == other
    assert catalog.list_tables("ns") == ["ns.old", "ns.orders"]
    catalog.rename_table("ns.old", "ns.new")
    assert error(client.post(TABLES.replace("tables", "staging-tables"), json={"name": "new"})) == (
        409, "AlreadyExistsException")


def test_what_a_staging_table_requires_is_required(client: Client, catalog: dn.Catalog) -> None:
    asked = staging(client)
    left_out = [("required-protocol", kind, each) for kind in ("reader-features", "writer-features")
                for each in asked["required-protocol"][kind]]
    left_out += [("required-properties", name, None) for name in asked["required-properties"]]
    for at, (part, name, each) in enumerate(left_out):
        staged = staging(client, f"new{at}")
        if each is None:
            del staged[part][name]
        else:
            staged[part][name].remove(each)
        answer = client.post(TABLES, json=written(staged, name=f"new{at}"))
        assert error(answer) == (400, "InvalidParameterValueException"), (name, each)
        assert (each or name) in answer.json()["error"]["message"]
    assert catalog.list_tables("ns") == ["ns.orders"]
    json_of(client.post(TABLES, json=written(asked)))
    new = catalog.table("ns.new")
    assert new.append({"id": [1, 2]}) == 1 and new.delete("id = 2") == 2  # a table that we write ourselves


def test_a_table_that_is_not_as_it_has_to_be_is_none(client: Client, catalog: dn.Catalog) -> None:
    staged = staging(client)
    body = written(staged)
    for changes in (
        {"table-type": "EXTERNAL"}, {"location": "file:///etc"},
        {"properties": {}}, {"properties": {**body["properties"], "io.unitycatalog.tableId": "x"}},
        {"properties": {**body["properties"], "a": "b"}}, {"partition-columns": ["id"]},
        {"columns": {"type": "struct", "fields": []}}, {"uniform": {"iceberg": {}}},
        {"protocol": {"min-reader-version": 1, "min-writer-version": 2}},
    ):
        assert error(client.post(TABLES, json={**body, **changes}))[0] == 400
    elsewhere = {**body, "location": staged["location"] + "x"}
    assert error(client.post(TABLES, json=elsewhere)) == (404, "NoSuchTableException")
    assert error(client.post(TABLES, json={**body, "name": "orders"})) == (409, "AlreadyExistsException")
    nowhere = TABLES.replace("/ns/", "/attic/")
    assert error(client.post(nowhere, json=body)) == (404, "NoSuchSchemaException")
    assert catalog.list_tables("ns") == ["ns.orders"]
    json_of(client.post(TABLES, json=body))


@pytest.mark.parametrize("name", ["a.b", "../x", "a/b", "..", "", "x" * 256, "a\0"])
def test_a_name_that_none_may_have_is_refused_by_its_field(
    client: Client, orders: Table, name: str
) -> None:
    body = written(staging(client))
    for path, value, field in ((TABLES.replace("tables", "staging-tables"), {"name": name}, "name"),
                               (TABLES, {**body, "name": name}, "name"),
                               (f"{ORDERS}/rename", {"new-name": name}, "new-name")):
        answer = client.post(path, json=value)
        assert error(answer) == (400, "BadRequestException")
        assert answer.json()["error"]["message"].startswith(field)
    assert orders.catalog.list_tables("ns") == ["ns.orders"]


def test_tables_are_renamed_and_dropped(client: Client, orders: Table) -> None:
    assert client.head(ORDERS).status_code == 204
    assert client.post(f"{ORDERS}/rename", json={"new-name": "bills"}).status_code == 204
    assert client.head(ORDERS).status_code == 404
    assert error(client.get(ORDERS)) == (404, "NoSuchTableException")
    assert client.delete(f"{TABLES}/bills").status_code == 204
    assert error(client.delete(f"{TABLES}/bills")) == (404, "NoSuchTableException")
    ((place, reason),) = orders.catalog.store.garbage.due(10**15)
    assert place == str(orders.folder) and orders.folder.exists()
    assert reason == f"a table that was purged {orders.id} of everyone"


def test_what_is_no_managed_delta_table_is_said_to_be_none(client: Client, service: Service) -> None:
    service.tables.create("ns.e", SCHEMA)
    for answer in (client.get(f"{TABLES}/e"), client.delete(f"{TABLES}/e")):
        assert error(answer) == (400, "UnsupportedTableFormatException")
    assert client.head(f"{TABLES}/e").status_code == 400
    assert error(client.get(f"{TABLES}/e".replace("default", "main"))) == (404, "NoSuchCatalogException")
    for bad in ("..%2e", "a.b"):
        assert error(client.get(f"{TABLES}/{bad}"))[0] in (400, 404)


def test_metrics_and_credentials(client: Client, orders: Table) -> None:
    credentials = json_of(client.get(f"{ORDERS}/credentials?operation=READ"))["storage-credentials"]
    assert credentials == [{
        "prefix": f"file://{orders.folder}", "operation": "READ", "config": {}, "expiration-time-ms": None}]
    assert error(client.get(f"{ORDERS}/credentials")) == (400, "BadRequestException")
    report = {"table-id": orders.id, "report": {"commit-report": {"num-files-added": 1}}}
    assert client.post(f"{ORDERS}/metrics", json=report).status_code == 204
    other = {**report, "table-id": str(uuid.uuid4())}
    assert error(client.post(f"{ORDERS}/metrics", json=other)) == (400, "InvalidParameterValueException")


# -- who may do what ---------------------------------------------------------------------------------


@pytest.fixture
def guarded(service: Service, orders: Table) -> Iterator[Client]:
    service.tokens = Tokens.of({"tokens": [
        {"name": "root", "token": "r", "permissions": {"*": "write"}},
        {"name": "reader", "token": "e", "permissions": {"ns": "read"}},
        {"name": "nobody", "token": "n", "permissions": {"attic": "write"}}]})
    with Client(application(service)) as client:
        yield client


def test_a_token_does_what_it_may(guarded: Client, orders: Table, store: CatalogStore) -> None:
    def ask(token: str, method: str, path: str, **more: Any) -> Any:
        return guarded.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)

    assert error(guarded.get(ORDERS)) == (401, "NotAuthorizedException")
    json_of(ask("e", "GET", ORDERS))
    assert ask("e", "GET", f"{ORDERS}/credentials?operation=READ").status_code == 200
    denied = (403, "PermissionDeniedException")
    body = orders.ask(orders.stage(1))
    for token in "en":
        for method, path, value in (
            ("POST", ORDERS, body), ("DELETE", ORDERS, None), ("POST", f"{ORDERS}/rename", {"new-name": "x"}),
            ("POST", TABLES.replace("tables", "staging-tables"), {"name": "x"}),
            ("GET", f"{ORDERS}/credentials?operation=READ_WRITE", None),
        ):
            assert error(ask(token, method, path, **({} if value is None else {"json": value}))) == denied
    assert error(ask("n", "GET", ORDERS)) == denied
    json_of(ask("r", "POST", ORDERS, json=body))
    (entry,) = store.history(after=store.instant() - 1)
    assert entry.principal == "root"
    staged = json_of(ask("r", "POST", TABLES.replace("tables", "staging-tables"), json={"name": "x"}))
    mine = f"{ROOT}/staging-tables/{staged['table-id']}/credentials"
    assert ask("r", "GET", mine).status_code == 200
    assert error(ask("e", "GET", mine)) == (404, "NoSuchTableException")
