"""The endpoints of namespaces and tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from deltanb.catalog.rest.server.service import Service
from tests.catalog.iceberg_tables import BY_DAY, SCHEMA, add, point, set_properties, sort_by
from tests.catalog.server.ask import COMMIT, TABLES, Client, change, commit, error, loaded, made

Files = Callable[[], set[str]]


@pytest.fixture(params=["", "/default"])
def root(request: pytest.FixtureRequest) -> str:
    """Every path with the catalog's name in front, and without."""
    return f"/v1{request.param}"


def test_the_configuration_says_what_there_is(client: Client, service: Service) -> None:
    config = client.get("/v1/config").json()
    assert config["idempotency-key-lifetime"] == "PT30M"
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert len(config["endpoints"]) == 16
    for place in ("default", service.tables.warehouse.uri, f"{service.tables.warehouse.uri}/"):
        assert client.get("/v1/config", params={"warehouse": place}).status_code == 200
    assert error(client.get("/v1/config", params={"warehouse": "x"})) == (404, "NoSuchCatalogException")
    assert error(client.get("/v1/other/namespaces")) == (404, "NoSuchCatalogException")


def test_namespaces_are_made_and_changed_and_dropped(client: Client, root: str) -> None:
    made = client.post(f"{root}/namespaces", json={"namespace": ["a", "b"], "properties": {"owner": "ada"}})
    assert made.json() == {"namespace": ["a", "b"], "properties": {"owner": "ada"}}
    assert client.get(f"{root}/namespaces").json() == {
        "namespaces": [["a"], ["ns"]], "next-page-token": None}
    assert client.get(f"{root}/namespaces", params={"parent": "a"}).json()["namespaces"] == [["a", "b"]]
    inner = f"{root}/namespaces/a%1Fb"
    assert client.head(inner).status_code == 204
    assert client.get(inner).json() == {"namespace": ["a", "b"], "properties": {"owner": "ada"}}
    changed = client.post(f"{inner}/properties", json={"removals": ["owner", "x"], "updates": {"k": "v"}})
    assert changed.json() == {"updated": ["k"], "removed": ["owner"], "missing": ["x"]}
    assert client.get(inner).json()["properties"] == {"k": "v"}
    both = client.post(f"{inner}/properties", json={"removals": ["k"], "updates": {"k": "v"}})
    assert error(both) == (422, "UnprocessableEntityException")
    again = client.post(f"{root}/namespaces", json={"namespace": ["a", "b"]})
    assert error(again) == (409, "AlreadyExistsException")
    assert error(client.delete(f"{root}/namespaces/a")) == (409, "NamespaceNotEmptyException")
    assert client.delete(inner).status_code == 204
    assert client.head(inner).status_code == 404 and client.head(inner).content == b""
    for answer in (client.get(inner), client.delete(inner), client.get(f"{inner}/tables"),
                   client.get(f"{root}/namespaces", params={"parent": "zz"}),
                   client.post(f"{inner}/properties", json={})):
        assert error(answer) == (404, "NoSuchNamespaceException")


def test_a_table_from_its_making_to_its_end(client: Client, root: str, files: Files) -> None:
    tables = f"{root}/namespaces/ns/tables"
    answer = client.post(tables, json={
        "name": "t", "schema": SCHEMA, "partition-spec": BY_DAY, "write-order": sort_by(1),
        "properties": {"owner": "ada", "format-version": "3"}})
    table = answer.json()
    assert table["metadata"]["format-version"] == 3 and table["config"] == {}
    assert table["metadata"]["properties"] == {"owner": "ada"}
    assert client.get(f"{tables}/t").json() == table
    assert client.head(f"{tables}/t").status_code == 204
    assert client.get(tables).json()["identifiers"] == [{"namespace": ["ns"], "name": "t"}]
    moved = client.post(f"{tables}/t", json={
        "identifier": {"namespace": ["ns"], "name": "t"},
        "requirements": [{"type": "assert-table-uuid", "uuid": table["metadata"]["table-uuid"]}],
        "updates": [set_properties(a="b")]}).json()
    assert moved["metadata"]["properties"] == {"owner": "ada", "a": "b"}
    assert moved == client.get(f"{tables}/t").json() != table
    rename = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert client.post(f"{root}/tables/rename", json=rename).status_code == 204
    assert error(client.post(f"{root}/tables/rename", json=rename)) == (404, "NoSuchTableException")
    assert client.head(f"{tables}/t").status_code == 404
    report = client.post(f"{tables}/u/metrics", json={"report-type": "scan-report", "metrics": {}})
    assert report.status_code == 204
    assert client.delete(f"{tables}/u").status_code == 204 and files()
    place = moved["metadata-location"]
    again = client.post(f"{root}/namespaces/ns/register", json={"name": "v", "metadata-location": place})
    assert again.json() == moved
    taken = client.post(f"{root}/namespaces/ns/register", json={"name": "v", "metadata-location": place})
    assert error(taken) == (409, "AlreadyExistsException")
    over = {"name": "v", "metadata-location": table["metadata-location"], "overwrite": True}
    assert client.post(f"{root}/namespaces/ns/register", json=over).json() == table
    assert client.delete(f"{tables}/v", params={"purgeRequested": "true"}).status_code == 204
    assert files() == set()
    for answer in (client.get(f"{tables}/v"), client.delete(f"{tables}/v"),
                   client.post(f"{tables}/v", json={"requirements": [], "updates": []}),
                   client.post(f"{tables}/v/metrics", json={"report-type": "scan-report"})):
        assert error(answer) == (404, "NoSuchTableException")
        assert answer.json()["error"]["message"] == "Table does not exist: ns.v"


def test_a_staged_table_comes_to_be_with_its_first_commit(client: Client, files: Files) -> None:
    (staged,) = made(client, "t", **{"stage-create": True})
    assert "metadata-location" not in staged and files() == set()
    assert error(client.get(f"{TABLES}/t")) == (404, "NoSuchTableException")
    updates = [
        {"action": "assign-uuid", "uuid": staged["metadata"]["table-uuid"]},
        {"action": "set-location", "location": staged["metadata"]["location"]},
        {"action": "add-schema", "schema": SCHEMA}, {"action": "set-current-schema", "schema-id": -1}]
    request = {"requirements": [{"type": "assert-create"}], "updates": updates}
    done = client.post(f"{TABLES}/t", json=request)
    assert done.status_code == 200 and done.json() == client.get(f"{TABLES}/t").json()
    again = client.post(f"{TABLES}/t", json=request)
    assert error(again) == (409, "CommitFailedException")
    assert "table already exists" in again.json()["error"]["message"]


def test_delta_tables_are_not_shown_and_their_names_are_taken(client: Client, service: Service) -> None:
    service.tables.store.tables.register_delta("ns.d", "lake/d", 0)
    made(client, "t")
    assert client.get(TABLES).json()["identifiers"] == [{"namespace": ["ns"], "name": "t"}]
    assert error(client.get(f"{TABLES}/d")) == (404, "NoSuchTableException")
    taken = client.post(TABLES, json={"name": "d", "schema": SCHEMA})
    assert error(taken) == (409, "AlreadyExistsException")


def test_a_table_has_a_tag_for_each_state_and_form(client: Client) -> None:
    made(client, "t")
    first = client.get(f"{TABLES}/t")
    tag = first.headers["etag"]
    same = client.get(f"{TABLES}/t", headers={"If-None-Match": f'"x", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    refs = client.get(f"{TABLES}/t", params={"snapshots": "refs"}, headers={"If-None-Match": tag})
    assert refs.status_code == 200 and refs.headers["etag"] != tag
    done = client.post(f"{TABLES}/t", json={"requirements": [], "updates": [set_properties(a="b")]})
    again = client.get(f"{TABLES}/t", headers={"If-None-Match": tag})
    assert again.status_code == 200 and again.headers["etag"] == done.headers["etag"] != tag
    missing = client.get(f"{TABLES}/x", headers={"If-None-Match": "*"})
    assert error(missing) == (404, "NoSuchTableException")


def test_snapshots_that_no_branch_or_tag_names_are_left_out_when_asked(client: Client) -> None:
    made(client, "t")
    commit(client, change("t", add(1, number=1), point(1), add(2, 1, 2), point(2), add(3, 1, 3),
                          point(1, "old", "tag")))
    assert {each["snapshot-id"] for each in loaded(client, "t")["snapshots"]} == {1, 2, 3}
    few = client.get(f"{TABLES}/t", params={"snapshots": "refs"}).json()["metadata"]
    assert {each["snapshot-id"] for each in few["snapshots"]} == {1, 2}
    wrong = client.get(f"{TABLES}/t", params={"snapshots": "some"})
    assert error(wrong) == (400, "BadRequestException")


def test_lists_come_in_pages_or_as_a_whole(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.catalog.rest.server.pages.PAGE", 3)
    names = [f"t{at}" for at in range(8)]
    for name in names:
        service.tables.store.tables.register_iceberg(f"ns.{name}", f"x/{name}/0")
        client.post("/v1/namespaces", json={"namespace": ["parent", name]})
    whole = client.get(TABLES).json()
    assert [each["name"] for each in whole["identifiers"]] == names and whole["next-page-token"] is None
    parts, token = [], ""
    while token is not None:
        page = client.get(TABLES, params={"pageToken": token, "pageSize": 3}).json()
        parts.append([each["name"] for each in page["identifiers"]])
        token = page["next-page-token"]
    assert [len(part) for part in parts] == [3, 3, 2] and [*chain(*parts)] == names
    first = client.get(TABLES, params={"pageSize": 5}).json()
    assert len(first["identifiers"]) == 5 and first["next-page-token"]
    spaces = client.get("/v1/namespaces", params={"parent": "parent"}).json()["namespaces"]
    assert spaces == [["parent", name] for name in names]
    for wrong in ({"pageSize": "0"}, {"pageSize": "x"}, {"pageToken": "%%"}, {"pageSize": "-1"}):
        assert error(client.get(TABLES, params=wrong)) == (400, "BadRequestException")


@pytest.mark.parametrize(("path", "body", "field"), [
    ("/v1/namespaces", {}, "namespace"),
    ("/v1/namespaces", {"namespace": "a"}, "namespace"),
    ("/v1/namespaces", {"namespace": []}, "namespace"),
    ("/v1/namespaces", {"namespace": ["a.b"]}, "namespace"),
    ("/v1/namespaces", {"namespace": ["../x"]}, "namespace"),
    ("/v1/namespaces", {"namespace": ["a"], "properties": {"a": 1}}, "properties.a"),
    ("/v1/namespaces", {"namespace": ["a"], "more": 1}, "more"),
    ("/v1/namespaces/ns/properties", {"removals": "x"}, "removals"),
    (TABLES, {"name": "t"}, "schema"),
    (TABLES, {"name": 1, "schema": SCHEMA}, "name"),
    *((TABLES, {"name": name, "schema": SCHEMA}, "name") for name in ("a.b", "../x", "a/b", "..", "")),
    (TABLES, {"name": "t", "schema": 1}, "schema"),
    (TABLES, {"name": "t", "schema": {"type": "struct"}}, "schema.fields"),
    (TABLES, {"name": "t", "schema": SCHEMA, "location": "file:///etc/x"}, "location"),
    (TABLES, {"name": "t", "schema": SCHEMA, "stage-create": "yes"}, "stage-create"),
    (TABLES, {"name": "t", "schema": SCHEMA, "properties": {"format-version": "4"}}, "format-version"),
    ("/v1/namespaces/ns/register", {"name": "t"}, "metadata-location"),
    ("/v1/namespaces/ns/register", {"name": "t", "metadata-location": "file:///etc/passwd"},
     "metadata-location"),
    ("/v1/tables/rename", {"source": {"namespace": ["ns"], "name": "t"}}, "destination"),
    ("/v1/tables/rename", {"source": {"namespace": ["ns"]}, "destination": {}}, "source"),
    ("/v1/tables/rename", {"source": {"namespace": ["ns"], "name": "t"},
                           "destination": {"namespace": ["ns"], "name": "../x"}}, "destination.name"),
    ("/v1/namespaces/ns/register", {"name": "../x", "metadata-location": "file:///x"}, "name"),
    (COMMIT, {"table-changes": [change("../t")]}, "table-changes[0].identifier.name"),
    (f"{TABLES}/t", {"updates": []}, "requirements"),
    (f"{TABLES}/t", {"requirements": [], "updates": {}}, "updates"),
    (f"{TABLES}/t", {"requirements": [], "updates": [{"action": "x"}]}, "updates[0].action"),
    (f"{TABLES}/t", {"requirements": [{"type": "x"}], "updates": []}, "requirements[0].type"),
    (f"{TABLES}/t", {"identifier": {"namespace": ["ns"], "name": "u"}, "requirements": [], "updates": []},
     "identifier"),
    (f"{TABLES}/t/metrics", {}, "report-type"),
    (COMMIT, {"table-changes": [1]}, "table-changes[0]"),
    (COMMIT, {"table-changes": []}, "table-changes"),
    (f"{TABLES}/t", {"requirements": [], "updates": [
        {"action": "set-location", "location": "file:///etc/x"}]}, "updates"),
])
def test_a_malformed_request_is_told_which_field(
    client: Client, service: Service, files: Files, path: str, body: Any, field: str
) -> None:
    if path.startswith(f"{TABLES}/t"):
        made(client, "t")
    before = files(), client.get("/v1/namespaces").json(), client.get(TABLES).json()
    answer = client.post(path, json=body)
    assert error(answer) == (400, "BadRequestException")
    assert answer.json()["error"]["field"] == field
    assert (files(), client.get("/v1/namespaces").json(), client.get(TABLES).json()) == before
    assert service.tables.store.garbage.due(2**62) == []


@pytest.mark.parametrize(("content", "kind", "status"), [
    (b"", "application/json", 400), (b"{", "application/json", 400), (b"[]", "application/json", 400),
    (b"\xff", "application/json", 400), (b"[" * 100_000, "application/json", 400),
    (b'{"namespace": ["\\ud800"]}', "application/json", 400), (b"NaN", "application/json", 400),
    (b'{"namespace": ["x"]}', "text/plain", 415), (b'{"namespace": ["x"]}', "", 415),
    (b'{"namespace": ["x"]}', "application/json; charset=utf-8", 200),
])
def test_a_body_that_is_no_json_is_refused(
    client: Client, content: bytes, kind: str, status: int
) -> None:
    answer = client.post("/v1/namespaces", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    if status != 200:
        assert error(answer)[0] == status
        assert client.get("/v1/namespaces").json()["namespaces"] == [["ns"]]


@pytest.mark.parametrize("path", [
    "/v1/namespaces/a.b", "/v1/namespaces/..%2F..", "/v1/namespaces/ns/tables/..%2Fx",
    "/v1/namespaces/ns/tables/a.b", "/v1/namespaces/%1F", "/v1/namespaces/ns/tables/%00",
    f"/v1/namespaces/{'x' * 300}", "/v1/namespaces/ns/tables/%FF%FE"])
def test_a_name_that_none_may_have_is_refused(client: Client, path: str) -> None:
    assert error(client.get(path))[0] in (400, 404)


def test_an_unknown_path_or_method_is_told_so(client: Client) -> None:
    assert error(client.get("/v1/views")) == (404, "NotFoundException")
    assert error(client.put("/v1/namespaces")) == (405, "MethodNotAllowedException")
