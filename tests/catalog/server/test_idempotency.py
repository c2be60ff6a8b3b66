"""Requests with an idempotency key: done once, answered alike however often they come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deltanb.catalog.rest.server.service import Service
from deltanb.errors import CommitOutcomeUnknown, StorageError
from deltanb.options import options, set_options
from tests.catalog.iceberg_tables import SCHEMA, set_properties
from tests.catalog.script import Held, Running
from tests.catalog.server.ask import TABLES, Client, change, commit, error, loaded, made, new_key, same_uuid

Files = Callable[[], set[str]]
Json = dict[str, Any]

RENAME = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
CHANGES: dict[str, tuple[str, str, Json | None]] = {
    "create a namespace": ("POST", "/v1/namespaces", {"namespace": ["new"], "properties": {"a": "b"}}),
    "drop a namespace": ("DELETE", "/v1/namespaces/old", None),
    "change properties": (
        "POST", "/v1/namespaces/old/properties", {"removals": ["x"], "updates": {"y": "z"}}),
    "create a table": ("POST", TABLES, {"name": "n", "schema": SCHEMA}),
    "stage a table": ("POST", TABLES, {"name": "n", "schema": SCHEMA, "stage-create": True}),
    "commit": ("POST", f"{TABLES}/t", {"requirements": [], "updates": [set_properties(a="b")]}),
    "commit many": ("POST", "/v1/transactions/commit", {"table-changes": [
        change("t", set_properties(a="b")), change("v", set_properties(a="b"))]}),
    "commit nothing": ("POST", f"{TABLES}/t", {"requirements": [], "updates": []}),
    "rename": ("POST", "/v1/tables/rename", RENAME),
    "drop": ("DELETE", f"{TABLES}/t", None),
    "purge": ("DELETE", f"{TABLES}/t?purgeRequested=true", None),
}


def prepared(client: Client) -> None:
    made(client, "t", "v")
    client.post("/v1/namespaces", json={"namespace": ["old"], "properties": {"x": "1"}})


def state(client: Client, service: Service) -> Any:
    """All that requests can change."""
    spaces = client.get("/v1/namespaces").json()["namespaces"]
    tables = client.get(TABLES).json()["identifiers"]
    return ([client.get(f"/v1/namespaces/{name}").json() for (name,) in spaces],
            [client.get(f"{TABLES}/{each['name']}").json() for each in tables],
            service.tables.store.history())


@pytest.mark.parametrize("what", CHANGES)
def test_the_same_request_again_is_answered_and_not_done(
    client: Client, service: Service, files: Files, what: str
) -> None:
    prepared(client)
    method, path, body = CHANGES[what]
    headers = new_key()
    first = client.request(method, path, json=body, headers=headers)
    assert first.status_code in (200, 204), first.text
    after = state(client, service), files()
    again = client.request(method, path, json=body, headers=headers)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers.get("etag") == first.headers.get("etag")
    assert (state(client, service), files()) == after
    if body is not None:
        other = client.request(method, path, json={**body, "more": 1}, headers=headers)
        assert error(other) == (400, "BadRequestException") and "came with another" in other.text
    assert error(client.post("/v1/namespaces", json={"namespace": ["z"]}, headers=headers))[0] == 400
    assert (state(client, service), files()) == after


def test_registering_again_is_answered_and_not_done(client: Client, service: Service) -> None:
    (table,) = made(client, "t")
    headers, body = new_key(), {"name": "r", "metadata-location": table["metadata-location"]}
    service.tables.drop("ns.t")
    answers = [client.post("/v1/namespaces/ns/register", json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert [entry.summary for entry in service.tables.store.history()] == ["create", "drop", "register"]


def test_what_was_refused_for_good_stays_refused(client: Client) -> None:
    headers = new_key()
    body = {"requirements": [], "updates": [set_properties(a="b")]}
    first = client.post(f"{TABLES}/t", json=body, headers=headers)
    assert error(first) == (404, "NoSuchTableException")
    made(client, "t")
    assert client.post(f"{TABLES}/t", json=body, headers=headers).content == first.content
    assert client.post(f"{TABLES}/t", json=body, headers=new_key()).status_code == 200
    stale = change("t", set_properties(a="c"), needs=[
        {"type": "assert-current-schema-id", "current-schema-id": 5}])
    headers = new_key()
    refused = commit(client, stale, headers=headers)
    assert error(refused) == (409, "CommitFailedException")
    assert commit(client, stale, headers=headers).content == refused.content
    both, headers = {"removals": ["k"], "updates": {"k": "v"}}, new_key()
    for _ in range(2):
        answer = client.post("/v1/namespaces/ns/properties", json=both, headers=headers)
        assert error(answer) == (422, "UnprocessableEntityException")


@pytest.mark.parametrize("failure", [StorageError("full"), CommitOutcomeUnknown("open"), RuntimeError("bug")])
def test_what_failed_by_the_servers_fault_is_done_when_it_comes_again(
    client: Client, service: Service, failure: Exception
) -> None:
    made(client, "t")
    ratify = service.tables.store.ratify

    def fails(*_: Any) -> None:
        raise failure

    headers = new_key()
    service.tables.store.ratify = fails  # type: ignore[assignment, method-assign]
    assert commit(client, change("t", set_properties(a="b")), headers=headers).status_code >= 500
    service.tables.store.ratify = ratify  # type: ignore[method-assign]
    assert commit(client, change("t", set_properties(a="b")), headers=headers).status_code == 200


@pytest.mark.parametrize("what", CHANGES)
def test_an_answer_that_is_lost_after_commit_is_given_to_who_asks_again(
    client: Client, service: Service, files: Files, what: str
) -> None:
    """The database did it all, and the process fails before it has answered."""
    prepared(client)
    method, path, body = CHANGES[what]
    headers = new_key()
    write = service.tables.store.database.write
    failed: list[bool] = []

    def breaks(work: Any, *more: Any, **settings: Any) -> Any:
        result = write(work, *more, **settings)
        answers = service.tables.store.database.read(lambda connection: connection.exec_driver_sql(
            "SELECT count(*) FROM dn_idempotency").scalar())
        if answers and not failed:
            failed.append(True)
            raise RuntimeError("the process ends here")
        return result

    service.tables.store.database.write = breaks  # type: ignore[method-assign]
    lost = client.request(method, path, json=body, headers=headers)
    assert failed and error(lost) == (500, "InternalServerError")
    after = state(client, service)
    again = client.request(method, path, json=body, headers=headers)
    assert again.status_code in (200, 204), again.text
    assert state(client, service) == after


def test_a_key_is_a_uuid_of_any_version(client: Client) -> None:
    body = {"namespace": ["new"]}
    for wrong in ("x", "", "1" * 36, "01890a5d-ac96-774b-bcce-b302099a80571", "{" + "a" * 34 + "}"):
        answer = client.post("/v1/namespaces", json=body, headers={"Idempotency-Key": wrong})
        assert error(answer) == (400, "BadRequestException"), wrong
    for key in ("01890A5D-AC96-774B-BCCE-B302099A8057", "01890a5d-ac96-774b-bcce-b302099a8057"):
        answer = client.post("/v1/namespaces", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 200
    assert client.get("/v1/namespaces", headers={"Idempotency-Key": "x"}).status_code == 200


def test_a_key_is_new_again_when_its_time_is_over(client: Client, service: Service) -> None:
    headers, body = new_key(), {"namespace": ["new"]}
    assert client.post("/v1/namespaces", json=body, headers=headers).status_code == 200
    now = options.clock()
    with set_options(clock=lambda: now + service.settings.key_lifetime + 1000):
        from deltanb.catalog.rest.server.app import application

        with Client(application(service)) as later:
            again = later.post("/v1/namespaces", json=body, headers=headers)
            assert error(again) == (409, "AlreadyExistsException")


def test_equal_requests_at_once_are_done_once(client: Client, service: Service, files: Files) -> None:
    (table,) = made(client, "t")
    request = change("t", set_properties(a="b"), needs=[same_uuid(table)])
    headers = new_key()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: commit(client, request, headers=headers), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(service.tables.store.history()) == 2 and len(files()) == 2


def test_an_equal_request_waits_for_the_one_before_it(
    client: Client, service: Service, files: Files
) -> None:
    """The second comes while the first has kept its answer and not yet committed."""
    (table,) = made(client, "t")
    stands = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    request = change("t", set_properties(a="b"), needs=[same_uuid(table), stands])
    headers = new_key()
    held = Held(service.tables.store, "UPDATE iceberg_tables")
    first = Running(lambda: commit(client, request, headers=headers))
    held.wait()
    second = Running(lambda: commit(client, request, headers=headers))
    held.let_on()
    one, other = first.result(), second.result()
    assert (one.status_code, one.content) == (200, other.content)
    assert loaded(client, "t")["properties"] == {"a": "b"} and len(files()) == 2


def test_keys_belong_to_who_sends_them(service: Service) -> None:
    from deltanb.catalog.rest.server.app import application
    from deltanb.catalog.rest.server.tokens import Tokens

    service.tokens = Tokens.of({"tokens": [
        {"name": name, "token": name, "permissions": {"*": "write"}} for name in ("ada", "bob")]})
    key = new_key()
    with Client(application(service)) as client:
        for name in ("ada", "bob"):
            headers = {**key, "Authorization": f"Bearer {name}"}
            for _ in range(2):
                body = {"namespace": [f"of_{name}"]}
                assert client.post("/v1/namespaces", json=body, headers=headers).status_code == 200
