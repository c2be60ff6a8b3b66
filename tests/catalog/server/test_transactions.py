"""Commits of many tables over HTTP: the document's bodies, its use cases, its curl line, and its refusals."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.limits import Limits
from deltanb.catalog.rest.server import serve
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.catalog.store.store import CatalogStore
from deltanb.errors import CommitOutcomeUnknown, StorageError
from tests.catalog.iceberg_tables import (
    OTHER_UUID,
    SCHEMA,
    SET_ORDER,
    SET_SPEC,
    UUID,
    add,
    add_schema,
    add_spec,
    column,
    point,
    set_properties,
    struct,
)
from tests.catalog.server.ask import COMMIT, TABLES, Client, change, commit, error, loaded, made, same_uuid

Files = Callable[[], set[str]]
Json = dict[str, Any]

EVENTS, COUNTS = ({"namespace": ["analytics"], "name": name} for name in ("events", "event_counts"))


def with_uuid(client: Any, name: Json, uuid: str, version: int = 2) -> None:
    """Make a table that has this UUID, one schema, and a snapshot, 123456789, on main."""
    staged = client.post(f"/v1/namespaces/{name['namespace'][0]}/tables", json={
        "name": name["name"], "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "set-location", "location": staged["location"]}, add_schema(SCHEMA),
        {"action": "set-current-schema", "schema-id": -1}, add_spec({"fields": []}), SET_SPEC,
        {"action": "add-sort-order", "sort-order": {"fields": []}}, SET_ORDER,
        add(123456789, number=1, time=1705398500000), point(123456789)]
    done = client.post(COMMIT, json={"table-changes": [
        {"identifier": name, "requirements": [{"type": "assert-create"}], "updates": updates}]})
    assert done.status_code == 200, done.text


def append(snapshot: int, parent: int, operation: str, **summary: str) -> list[Json]:
    """The document's two updates."""
    return [
        {"action": "add-snapshot", "snapshot": {
            "snapshot-id": snapshot, "parent-snapshot-id": parent, "timestamp-ms": 1705398600000,
            "summary": {"operation": operation, **summary},
            "manifest-list": f"s3://bucket/metadata/snap-{snapshot}.avro", "schema-id": 0}},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}]


def document(schema_id: int = 0) -> Json:
    """The document's first request."""
    return {"table-changes": [
        {"identifier": EVENTS,
         "requirements": [{"type": "assert-table-uuid", "uuid": UUID},
                          {"type": "assert-current-schema-id", "current-schema-id": schema_id}],
         "updates": append(123456790, 123456789, "append",
                           **{"added-data-files": "5", "added-records": "10000"})},
        {"identifier": COUNTS, "requirements": [{"type": "assert-table-uuid", "uuid": OTHER_UUID}],
         "updates": append(987654322, 123456789, "overwrite",
                           **{"added-data-files": "1", "added-records": "100"})}]}


@pytest.fixture
def analytics(client: Client) -> Client:
    """The document's two tables, one of each format version."""
    client.post("/v1/namespaces", json={"namespace": ["analytics"]})
    with_uuid(client, EVENTS, UUID, 2)
    with_uuid(client, COUNTS, OTHER_UUID, 1)
    return client


def current(client: Any, name: Json) -> Json:
    return client.get(f"/v1/namespaces/{name['namespace'][0]}/tables/{name['name']}").json()


def test_the_documents_request_gets_the_documents_answer(analytics: Client) -> None:
    answer = analytics.post(COMMIT, json=document())
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"commit-id", "results"} and body["commit-id"].startswith("txn-")
    for name, result, snapshot in zip(
            (EVENTS, COUNTS), body["results"], (123456790, 987654322), strict=True):
        table = current(analytics, name)
        assert result == {"identifier": name, "metadata-location": table["metadata-location"]}
        assert table["metadata"]["current-snapshot-id"] == snapshot
        assert table["metadata"]["refs"]["main"]["snapshot-id"] == snapshot


def test_the_documents_refusal(analytics: Client, files: Files) -> None:
    analytics.post(COMMIT, json={"table-changes": [{"identifier": EVENTS, "requirements": [], "updates": [
        add_schema(struct(*SCHEMA["fields"], column(4, "more"))),
        {"action": "set-current-schema", "schema-id": -1}]}]})
    before = files(), current(analytics, EVENTS), current(analytics, COUNTS)
    answer = analytics.post(COMMIT, json=document())
    assert answer.json() == {"error": {
        "message": "Transaction failed: requirement not met for table analytics.events: Requirement failed: "
                   "current schema changed: expected id 0 != 1",
        "type": "CommitFailedException", "code": 409,
        "failed-requirements": [{
            "identifier": EVENTS,
            "requirement": {"type": "assert-current-schema-id", "current-schema-id": 0},
            "actual": {"current-schema-id": 1}}]}}
    assert (files(), current(analytics, EVENTS), current(analytics, COUNTS)) == before


def test_a_pipeline_writes_facts_and_their_summary(client: Client) -> None:
    client.post("/v1/namespaces", json={"namespace": ["warehouse"]})
    names = [{"namespace": ["warehouse"], "name": name} for name in ("sales_facts", "daily_sales_summary")]
    changes = []
    for name, uuid, snapshot in zip(names, (UUID, OTHER_UUID), (123, 456), strict=True):
        with_uuid(client, name, uuid)
        changes.append({"identifier": name, "updates": append(snapshot, 123456789, "append"),
                        "requirements": [{"type": "assert-table-uuid", "uuid": uuid}]})
    assert client.post(COMMIT, json={"table-changes": changes}).status_code == 200
    assert [current(client, name)["metadata"]["current-snapshot-id"] for name in names] == [123, 456]


def test_a_migration_changes_schemas_of_related_tables(client: Client) -> None:
    client.post("/v1/namespaces", json={"namespace": ["app"]})
    names = [{"namespace": ["app"], "name": name} for name in ("users", "user_profiles")]
    for name, uuid in zip(names, (UUID, OTHER_UUID), strict=True):
        with_uuid(client, name, uuid)
    wider = struct(*SCHEMA["fields"], column(4, "email", "string"))
    request = {"table-changes": [{
        "identifier": name, "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 0}],
        "updates": [add_schema(wider), {"action": "set-current-schema", "schema-id": 1}]} for name in names]}
    assert client.post(COMMIT, json=request).status_code == 200
    assert [current(client, name)["metadata"]["current-schema-id"] for name in names] == [1, 1]
    failed = client.post(COMMIT, json=request).json()["error"]["failed-requirements"]
    assert [each["identifier"] for each in failed] == names
    assert [each["actual"] for each in failed] == [{"current-schema-id": 1}] * 2


def test_properties_of_many_tables_change_at_once(client: Client) -> None:
    client.post("/v1/namespaces", json={"namespace": ["team_a"]})
    names = [{"namespace": ["team_a"], "name": name} for name in ("table1", "table2")]
    for name, uuid in zip(names, (UUID, OTHER_UUID), strict=True):
        with_uuid(client, name, uuid)
    update = {"action": "set-properties", "updates": {"owner": "new-team"}}
    changes = [{"identifier": name, "requirements": [], "updates": [update]} for name in names]
    assert client.post(COMMIT, json={"table-changes": changes}).status_code == 200
    assert [current(client, name)["metadata"]["properties"] for name in names] == [{"owner": "new-team"}] * 2


CURL = """curl -X POST http://localhost:8181/v1/transactions/commit \
  -H "Content-Type: application/json" \
  -d '{
    "table-changes": [
      {
        "identifier": {"namespace": ["analytics"], "name": "events"},
        "requirements": [
          {"type": "assert-table-uuid", "uuid": "550e8400-e29b-41d4-a716-446655440000"}
        ],
        "updates": [
          {"action": "set-properties", "updates": {"last-modified-by": "etl-pipeline"}}
        ]
      },
      {
        "identifier": {"namespace": ["analytics"], "name": "aggregates"},
        "requirements": [
          {"type": "assert-table-uuid", "uuid": "660e8400-e29b-41d4-a716-446655440001"}
        ],
        "updates": [
          {"action": "set-properties", "updates": {"last-modified-by": "etl-pipeline"}}
        ]
      }
    ]
  }'"""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on PATH")
def test_the_documents_curl_line(tmp_path: Path) -> None:
    import httpx

    with serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as server, \
            httpx.Client(base_url=server.url) as client:
        client.post("/v1/namespaces", json={"namespace": ["analytics"]})
        names = [{"namespace": ["analytics"], "name": name} for name in ("events", "aggregates")]
        for name, uuid in zip(names, (UUID, OTHER_UUID), strict=True):
            with_uuid(client, name, uuid)
        line = shlex.split(CURL.replace("http://localhost:8181", server.url))
        done = subprocess.run([*line, "-sS"], capture_output=True, text=True, check=True)
        assert [each["identifier"] for each in json.loads(done.stdout)["results"]] == names
        for name in names:
            assert current(client, name)["metadata"]["properties"] == {"last-modified-by": "etl-pipeline"}


def test_who_wants_no_body_gets_none(client: Client) -> None:
    made(client, "t")
    answer = commit(client, change("t", set_properties(a="b")), headers={"Prefer": "return=minimal"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["preference-applied"] == "return=minimal"
    assert loaded(client, "t")["properties"] == {"a": "b"}


def test_a_table_named_twice_is_refused(client: Client) -> None:
    made(client, "t", "u")
    answer = commit(client, change("t", set_properties(a="b")), change("u"), change("t"))
    assert error(answer) == (400, "BadRequestException")
    assert answer.json()["error"]["field"] == "table-changes[2].identifier"
    assert loaded(client, "t")["properties"] == {}


def test_all_missing_tables_are_told(client: Client) -> None:
    made(client, "t")
    answer = commit(client, change("x"), change("t", set_properties(a="b")), change("y"))
    assert error(answer) == (404, "NoSuchTableException")
    assert answer.json()["error"]["message"] == "Table does not exist: ns.x, ns.y"


def test_limits_come_before_any_look_up(client: Client, service: Service) -> None:
    reads = []
    service.tables.store.tables.find_many = reads.append  # type: ignore[assignment]
    for changes in ([change(f"t{at}") for at in range(101)],
                    [change("t", *[set_properties(a="b")] * 1001)]):
        answer = commit(client, *changes)
        assert error(answer) == (400, "BadRequestException") and not reads
    assert answer.json()["error"]["field"] == "table-changes[0].updates"


@pytest.fixture
def small(store: CatalogStore, tmp_path: Path) -> Iterator[Client]:
    """A server whose limits are low."""
    tables = IcebergTables(store, tmp_path / "lake", Limits(tables=1, updates=2, seconds=0))
    with Client(application(Service(tables, settings=Settings(max_body=5000)))) as client:
        yield client


def test_limits_can_be_set(small: Client, files: Files) -> None:
    made(small, "t")
    before = files()
    assert error(commit(small, change("t"), change("u")))[0] == 400
    assert error(commit(small, change("t", *[set_properties(a="b")] * 3)))[0] == 400
    late = commit(small, change("t", set_properties(a="b")))
    assert error(late) == (503, "ServiceUnavailableException") and late.headers["retry-after"] == "1"
    large = commit(small, change("t", set_properties(a="b" * 5000)))
    assert error(large) == (413, "RequestTooLargeException")
    pieces = small.post(COMMIT, content=iter_of(b" " * 4000, b" " * 4000),
                        headers={"Content-Type": "application/json"})
    assert error(pieces) == (413, "RequestTooLargeException")
    assert files() == before


def test_a_body_that_does_not_come_in_time_is_not_waited_for(
    small: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.catalog.rest.server.app.BODY_SECONDS", 0.01)

    async def stuck() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    late = small.post(COMMIT, content=stuck(), headers={"Content-Type": "application/json"})
    assert error(late) == (408, "RequestTimeoutException")


async def iter_of(*parts: bytes) -> Any:
    """A body in pieces, whose length nobody tells beforehand."""
    for part in parts:
        yield part


@pytest.mark.parametrize(("failure", "status", "kind"), [
    (CommitOutcomeUnknown("no answer"), 500, "CommitStateUnknownException"),
    (StorageError("the disk is full"), 503, "ServiceUnavailableException"),
    (RuntimeError("a bug"), 500, "InternalServerError"),
])
@pytest.mark.parametrize("many", [False, True])
def test_only_what_is_not_known_is_500(
    client: Client, service: Service, failure: Exception, status: int, kind: str, many: bool
) -> None:
    made(client, "t")

    def fails(*_: Any) -> None:
        raise failure

    service.tables.store.ratify = fails  # type: ignore[assignment, method-assign]
    one = {"requirements": [], "updates": [set_properties(a="b")]}
    answer = (commit(client, change("t", set_properties(a="b"))) if many
              else client.post(f"{TABLES}/t", json=one))
    assert error(answer) == (status, kind)


def test_a_database_that_is_gone_is_503(client: Client, service: Service) -> None:
    (table,) = made(client, "t")

    def gone(*_: Any) -> None:
        raise StorageError("the catalog cannot be read")

    service.tables.store.database.read = gone  # type: ignore[assignment, method-assign]
    for answer in (client.get(TABLES), client.get(f"{TABLES}/t"), client.get("/healthz"),
                   commit(client, change("t", needs=[same_uuid(table)]))):
        assert error(answer) == (503, "ServiceUnavailableException")
