"""The fake of Unity Catalog's server answers as the real one was recorded to, and where our own does, too."""

from __future__ import annotations

import doctest
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the server is an extra: pip install 'deltanb[catalog]'")

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.catalog.store.store import CatalogStore
from tests.catalog.server.ask import Client
from tests.catalog.unity import fake_columns, fake_faults
from tests.catalog.unity.fake import OPERATIONS, ROOT, Unity
from tests.catalog.unity.fake_delta import DELTA
from tests.catalog.unity.fake_faults import (
    LOST_ANSWER,
    LOST_REQUEST,
    Answer,
    Does,
    Hold,
    after,
    refusal,
    too_many_requests,
    unavailable,
)
from tests.catalog.unity.fake_state import KEYS
from tests.catalog.unity.recorded import (
    BAD,
    CASES,
    COLUMNS,
    CONFLICT,
    ORDERS,
    OURS,
    RELEASES,
    REQUIREMENT,
    SET_OWNER,
    SPACE,
    Ask,
    Expected,
    Shop,
    add,
    created,
    published,
    register,
    updates,
)


@pytest.fixture
def fake(tmp_path: Path) -> Unity:
    return Unity(tmp_path / "lake", "0.7", catalog="default")


@pytest.fixture
def shop(fake: Unity) -> Shop:
    """Asks the fake of 0.7, which has ``shop.orders``."""
    return _shop(fake)


def _shop(fake: Unity) -> Shop:
    shop = Shop(httpx.Client(transport=fake.transport, base_url="http://unity"))
    assert shop.create().status_code == 200
    return shop


@pytest.fixture(params=(*RELEASES, OURS))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A server's name, and a client that asks it."""
    if request.param != OURS:
        unity = Unity(tmp_path / "lake", request.param, catalog="default")
        yield request.param, httpx.Client(transport=unity.transport, base_url="http://unity")
        return
    with CatalogStore(f"sqlite:///{tmp_path}/catalog.db", durability="none") as store:
        service = Service(IcebergTables(store, tmp_path / "lake"), settings=Settings(lax=True))
        with Client(application(service)) as client:
            yield request.param, client


def _answered(answer: Any) -> tuple[int, str | None]:
    """An answer's status, and the type or the code of a refusal."""
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return answer.status_code, None
    body = answer.json()
    return answer.status_code, body.get("error", {}).get("type") or body.get("error_code")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_recorded(server: tuple[str, Any], case: tuple[Ask, Expected, dict[str, Expected]]) -> None:
    name, client = server
    ask, expected, others = case
    shop = Shop(client)
    assert shop.create().status_code == 200
    expected = others.get(name, expected)
    status, kind = _answered(ask(shop))
    assert (status, kind if expected[1] else None) == expected, kind


def test_each_operation_has_a_case(tmp_path: Path) -> None:
    asked = set()
    for number, (ask, _, _) in enumerate(CASES.values()):
        unity = Unity(tmp_path / str(number), "0.7", catalog="default")
        ask(_shop(unity))
        asked |= unity.counts.keys()
    assert asked >= OPERATIONS


@pytest.mark.parametrize("module", [fake_columns, fake_faults])
def test_examples(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert tried and not failed


# -- what answers look like --------------------------------------------------------------------------------


def test_where_the_fake_stages(shop: Shop, tmp_path: Path) -> None:
    staged = shop.stage("new")
    assert staged["location"] == f"{(tmp_path / 'lake').as_uri()}/__unitystorage/tables/{staged['table-id']}"
    assert not (tmp_path / "lake").exists()  # no folder is made


def test_a_staging_answer(server: tuple[str, Any]) -> None:
    staged = Shop(server[1]).stage("new")
    location = staged["location"]
    assert staged == {
        "table-id": staged["table-id"], "table-type": "MANAGED", "location": location,
        "storage-credentials": [{"prefix": location, "operation": "READ_WRITE", "config": {},
                                 "expiration-time-ms": None}],
        "required-protocol": {
            "min-reader-version": 3, "min-writer-version": 7,
            "reader-features": ["catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"],
            "writer-features": ["catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors",
                                "inCommitTimestamp"]},
        "suggested-protocol": {"reader-features": ["columnMapping"],
                               "writer-features": ["columnMapping", "domainMetadata", "rowTracking"]},
        "required-properties": {
            "delta.enableInCommitTimestamps": "true", "delta.enableDeletionVectors": "true",
            "delta.checkpoint.writeStatsAsJson": "true", "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpointPolicy": "v2", "io.unitycatalog.tableId": staged["table-id"]},
        "suggested-properties": {
            "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": None,
            "delta.enableRowTracking": "true", "delta.randomizeFilePrefixes": "true",
            "delta.parquet.compression.codec": "zstd",
            "delta.rowTracking.materializedRowIdColumnName": None,
            "delta.rowTracking.materializedRowCommitVersionColumnName": None}}


def test_a_loaded_table(shop: Shop) -> None:
    before = shop.load()
    assert before["commits"] == [] and before["latest-table-version"] == 0
    metadata = before["metadata"]
    assert metadata["columns"] == COLUMNS and metadata["partition-columns"] == []
    assert metadata["last-commit-version"] == 0 and metadata["last-commit-timestamp-ms"] == 5
    assert metadata["etag"] == f"etag-{metadata['updated-time']}"
    properties = metadata["properties"]
    assert properties["delta.feature.catalogManaged"] == "supported"
    assert properties["delta.minReaderVersion"] == "3"
    assert "storage-credentials" not in json.dumps(before)
    for version in (1, 2):
        shop.update(add(version))
    after = shop.load()
    assert [each["version"] for each in after["commits"]] == [2, 1]  # newest first
    assert after["commits"][0] == add(2)["commit"] and after["latest-table-version"] == 2
    assert after["metadata"] == metadata  # a commit of rows alone does not move the tag
    comment = {"action": "set-table-comment", "comment": "all"}
    with_metadata = shop.update(add(3), comment).json()["metadata"]
    assert with_metadata["etag"] != metadata["etag"] and with_metadata["last-commit-version"] == 3
    assert shop.ask("GET", "/tables/default.shop.orders").json()["comment"] == "all"
    shop.update(published(2))
    assert [each["version"] for each in shop.load()["commits"]] == [3]
    shop.update(published(3))
    assert (shop.load()["commits"], shop.load()["latest-table-version"]) == ([], 3)


def test_what_a_domain_says_is_a_property(shop: Shop) -> None:
    domain = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 7}}}
    assert _answered(shop.update(domain)) == BAD
    staged = shop.stage("new")["required-protocol"]
    protocol = {**staged, "writer-features": [*staged["writer-features"], "rowTracking", "domainMetadata"]}
    tag = shop.update({"action": "set-protocol", "protocol": protocol}).json()["metadata"]["etag"]
    metadata = shop.update(domain).json()["metadata"]
    assert metadata["properties"]["delta.rowTracking.rowIdHighWaterMark"] == "7" and metadata["etag"] == tag
    shop.update({"action": "remove-domain-metadata", "domains": ["delta.rowTracking"]})
    assert "delta.rowTracking.rowIdHighWaterMark" not in shop.load()["metadata"]["properties"]
    lacking = {**staged, "writer-features": [*staged["writer-features"][1:]]}
    assert _answered(shop.update({"action": "set-protocol", "protocol": lacking})) == BAD


def test_nothing_of_a_request_that_is_refused_is_done(shop: Shop) -> None:
    before = shop.load()
    assert _answered(shop.update(SET_OWNER, add(1), published(4), requirements=shop.assuming(
        {"type": "assert-etag", "etag": "other"}))) == (409, REQUIREMENT)
    assert shop.load() == before


def test_a_table_at_a_place_of_its_own(shop: Shop) -> None:
    register()(shop)
    loaded = shop.ask("GET", f"{SPACE}/tables/far").json()
    assert loaded.keys() == {"metadata", "allowed-maintenance-operations"}
    metadata = loaded["metadata"]
    assert (metadata["table-type"], metadata["location"]) == ("EXTERNAL", "s3://far/away")
    assert metadata["partition-columns"] == ["id"] and "last-commit-version" not in metadata
    assert metadata["columns"]["fields"] == [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    shop.id = metadata["table-uuid"]
    noted = shop.ask("POST", f"{SPACE}/tables/far", requirements=shop.assuming(), updates=[{
        "action": "update-metadata-snapshot-version", "last-commit-version": 4,
        "last-commit-timestamp-ms": 9}])
    assert noted.json()["metadata"]["last-commit-version"] == 4


def test_columns_in_the_older_form(shop: Shop) -> None:
    id_, tags = shop.ask("GET", "/tables/default.shop.orders").json()["columns"]
    assert (id_["type_text"], id_["type_name"], id_["comment"]) == ("bigint", "LONG", "its number")
    assert (tags["type_text"], tags["type_name"], tags["position"]) == ("array<string>", "ARRAY", 1)
    assert json.loads(tags["type_json"])["type"] == {
        "type": "array", "elementType": "string", "containsNull": True}


def test_a_full_page_has_a_token_even_where_nothing_follows(shop: Shop) -> None:
    created(name="a")(shop)
    path, names, token = "/tables?catalog_name=default&schema_name=shop&max_results=1", [], ""
    while token is not None:
        page = shop.ask("GET", f"{path}&page_token={token}").json()
        names += [[each["name"] for each in page["tables"]]]
        token = page["next_page_token"]
    assert names == [["a"], ["orders"], []]


def test_a_schema_is_changed_and_forgotten_with_its_tables(shop: Shop) -> None:
    shop.ask("PATCH", "/schemas/default.shop", comment="sales", properties={"a": "1"})
    for properties, after_ in (({}, {"a": "1"}), ({"b": "2"}, {"b": "2"})):
        changed = shop.ask("PATCH", "/schemas/default.shop", properties=properties).json()
        assert (changed["properties"], changed["comment"]) == (after_, "sales")
    assert shop.ask("PATCH", "/schemas/default.shop", new_name="sales").json()["full_name"] == "default.sales"
    assert shop.ask("GET", "/tables/default.sales.orders").json()["schema_name"] == "sales"
    assert shop.ask("DELETE", "/schemas/default.sales?force=true").status_code == 200
    assert _answered(shop.ask("GET", "/tables/default.sales.orders")) == (404, "SCHEMA_NOT_FOUND")


def test_a_managed_tables_folder_goes_with_it(fake: Unity, shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "__unitystorage" / "tables" / shop.id
    folder.mkdir(parents=True)
    far = tmp_path / "far"
    far.mkdir()
    register(far.as_uri())(shop)
    for name in ("orders", "far"):
        assert shop.ask("DELETE", f"{SPACE}/tables/{name}").status_code == 204
    assert not folder.exists() and far.exists()


def test_a_forgotten_version_is_known_by_its_bytes(fake: Unity, shop: Shop) -> None:
    updates(add(1), add(2), published(2))(shop)
    ours, theirs = (add(1, number)["commit"]["file-name"] for number in (1, 2))
    files = {f"{1:020}.json": b"a", ours: b"a", theirs: b"b"}
    fake.read = lambda location: files[location.rpartition("/")[2]]
    before = shop.load()
    assert shop.update(add(1)).json() == before
    assert _answered(shop.update(add(1, 2))) == (409, CONFLICT)


@pytest.mark.parametrize("version", ["0.4", *RELEASES])
def test_releases(version: str, tmp_path: Path) -> None:
    fake = Unity(tmp_path, version, catalog="default")
    fake.maintenance = ("METADATA_CLEANUP",)
    client = httpx.Client(transport=fake.transport, base_url="http://unity")
    config = client.get(f"{ROOT}{DELTA}/config?catalog=default&protocol-versions=1.0")
    assert client.get(f"{ROOT}/catalogs").json()["catalogs"][0]["name"] == "default"
    missing = client.get(f"{ROOT}/catalogs/none").json()["error_code"]
    assert missing == ("NOT_FOUND" if version == "0.4" else "CATALOG_NOT_FOUND")
    if version == "0.4":
        assert config.status_code == 404 and config.headers["content-type"].startswith("text/plain")
        return
    assert config.json()["protocol-version"] == "1.0"
    assert "GET /v1/temporary-path-credentials" in config.json()["endpoints"]  # which it does not serve
    loaded = _shop(fake).load()
    operations = ["METADATA_CLEANUP"] if version == "0.7" else None
    assert loaded.get("allowed-maintenance-operations") == operations
    fake.maintenance = None
    assert "allowed-maintenance-operations" not in Shop(client).load()


def test_keys_are_vended_for_buckets(tmp_path: Path) -> None:
    fake = Unity(tmp_path, "0.6", "s3://bucket/lake", "default")
    shop = _shop(fake)
    location = f"s3://bucket/lake/__unitystorage/tables/{shop.id}"
    config = {"s3.access-key-id": "vended-key", "s3.secret-access-key": "vended-secret",
              "s3.session-token": "vended-token"}
    read = f"{ORDERS}/credentials?operation=READ"
    vended = {"prefix": location, "operation": "READ", "config": config, "expiration-time-ms": None}
    assert shop.ask("GET", read).json() == {"storage-credentials": [vended]}
    fake.expires, fake.keys = 1_800_000_000_000, {"access_key_id": "other", "secret_access_key": "s"}
    assert shop.ask("GET", read).json() == {"storage-credentials": [{
        **vended, "expiration-time-ms": 1_800_000_000_000, "config": {
            "s3.access-key-id": "other", "s3.secret-access-key": "s"}}]}
    older = shop.ask("POST", "/temporary-table-credentials", table_id=shop.id, operation="READ").json()
    assert (older["url"], older["expiration_time"]) == (location, 1_800_000_000_000)
    assert older["aws_temp_credentials"] == dict(fake.keys) != KEYS
    fake.script("getTableCredentials", refusal(403, "PermissionDeniedException", "no"), forever=True)
    for _ in range(2):
        assert _answered(shop.ask("GET", read)) == (403, "PermissionDeniedException")


def test_a_token_is_asked_for(fake: Unity) -> None:
    fake.token = "secret"
    client = httpx.Client(transport=fake.transport, base_url="http://unity")
    assert _answered(client.get(f"{ROOT}{ORDERS}")) == (401, "NotAuthorizedException")
    assert _answered(client.get(f"{ROOT}/catalogs")) == (401, "UNAUTHENTICATED")
    assert client.get(f"{ROOT}/catalogs", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_requests_are_recorded(fake: Unity, shop: Shop) -> None:
    fake.clear()
    shop.update(add(1), published(0))
    shop.ask("GET", f"{ORDERS}/credentials?operation=READ")
    first, second = fake.requests
    assert (first.method, first.path, first.operation) == ("POST", ORDERS, "updateTable")
    assert first.actions["add-commit"] == add(1) and first.names["table"] == "orders"
    assert second.query == {"operation": "READ"} and second.body is None
    assert fake.counts == {"updateTable": 1, "getTableCredentials": 1}


# -- faults ------------------------------------------------------------------------------------------------

LOST = "lost"
UNKNOWN = (500, "CommitStateUnknownException")
FAULTS: dict[str, tuple[Does, Expected | str, bool]] = {
    "lost request": (LOST_REQUEST, LOST, False),
    "lost answer": (LOST_ANSWER, LOST, True),
    "a refusal": ((409, CONFLICT), (409, CONFLICT), False),
    "too many requests": (too_many_requests(3), (429, "TooManyRequestsException"), False),
    "unavailable": (unavailable(), (503, None), False),
    "unknown, and not done": (UNKNOWN, UNKNOWN, False),
    "unknown, and done": (after(UNKNOWN), UNKNOWN, True),
    "a redirect": (Answer(303, None, {"Location": "/login"}), (303, None), False),
    "a function": (lambda asked, serve: serve(), (200, None), True),
}
"""Of a step of a script: what the client gets, and whether it was done."""


@pytest.fixture(params=["in the process", "on loopback"])
def asked(request: pytest.FixtureRequest, fake: Unity, shop: Shop) -> Iterator[Shop]:
    """Asks the fake in either way."""
    if request.param == "in the process":
        yield shop
        return
    with fake.serving() as url, httpx.Client(base_url=url, trust_env=False) as client:
        shop.client = client
        yield shop


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_a_script_does(fake: Unity, asked: Shop, fault: tuple[Does, Expected | str, bool]) -> None:
    does, expected, is_done = fault
    fake.script("updateTable", does)
    if expected == LOST:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            asked.update(add(1))
    else:
        assert _answered(asked.update(add(1))) == expected
    assert asked.load()["latest-table-version"] == int(is_done)
    assert asked.update(add(1)).status_code == 200  # once, and no more
    assert asked.ask("HEAD", ORDERS).status_code == 204


def test_steps_come_one_by_one_where_they_match(fake: Unity, shop: Shop) -> None:
    fake.script(lambda each: each.operation == "updateTable" and "add-commit" in each.actions,
                too_many_requests(2), unavailable(1))
    assert shop.update(SET_OWNER).status_code == 200
    first, second, third = (shop.update(add(1)) for _ in range(3))
    assert [each.status_code for each in (first, second, third)] == [429, 503, 200]
    assert (first.headers["Retry-After"], second.headers["Retry-After"]) == ("2", "1")
    with pytest.raises(AssertionError, match="no operation"):
        fake.script("update", LOST_ANSWER)
    fake.script("loadTable", LOST_ANSWER)
    fake.clear()
    shop.load()


@pytest.mark.parametrize("served", [False, True], ids=["before", "after"])
def test_a_request_is_held_until_it_is_released(fake: Unity, asked: Shop, served: bool) -> None:
    hold, answers = Hold(served), []
    fake.script("updateTable", hold)
    thread = threading.Thread(target=lambda: answers.append(asked.update(add(1)).status_code))
    thread.start()
    hold.reached()
    assert fake.table("default.shop.orders")["rows"] == ([add(1)["commit"]] if served else [])
    hold.release()
    thread.join()
    assert answers == [200]
