"""Who may do what: tokens, permissions by namespace, and servers without tokens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.rest import server
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.serving import service_of
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.errors import InvalidArgument
from tests.catalog.iceberg_tables import SCHEMA, set_properties
from tests.catalog.server.ask import Client, error

ENTRIES = [
    {"name": "root", "token": "r", "permissions": {"*": "write"}},
    {"name": "reader", "token": "e", "permissions": {"*": "read", "ns.secret": "none"}},
    {"name": "team", "sha256": hashlib.sha256(b"t").hexdigest(), "permissions": {"ns.team": "write"}},
    {"name": "gone", "token": "g", "permissions": {"*": "write"}, "expires": "2001-01-01T00:00:00Z"},
]
SPACES = ("ns", "ns.secret", "ns.team")


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A server with the tokens above, a table ``t`` in each namespace."""
    service.tokens = Tokens.of({"tokens": ENTRIES})
    for space in SPACES:
        if space != "ns":
            service.tables.store.namespaces.create(space)
        service.tables.create(f"{space}.t", SCHEMA)
    with Client(application(service)) as client:
        yield client


def as_(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def space(name: str) -> str:
    return f"/v1/namespaces/{name.replace('.', '%1F')}"


def change(name: str, *updates: Any) -> dict[str, Any]:
    return {"identifier": {"namespace": name.split("."), "name": "t"},
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
            "updates": list(updates)}


def test_without_a_known_token_nothing_is_told(client: Client) -> None:
    for headers in ({}, as_("x"), as_(""), {"Authorization": "Basic cjpy"}, {"Authorization": "r"}):
        answer = client.get("/v1/config", headers=headers)
        assert error(answer) == (401, "NotAuthorizedException")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert error(client.get(f"{space('ns')}/tables/t", headers=headers))[0] == 401
    expired = client.get("/v1/config", headers=as_("g"))
    assert error(expired) == (419, "AuthenticationTimeoutException")
    assert client.get("/v1/config", headers=as_("r")).status_code == 200
    assert client.get("/v1/config", headers={"Authorization": "bearer  r "}).status_code == 200
    assert client.get("/healthz").status_code == client.get("/openapi.json").status_code == 200


@pytest.mark.parametrize(("token", "reads", "writes"), [
    ("r", SPACES, SPACES), ("e", ("ns", "ns.team"), ()), ("t", ("ns.team",), ("ns.team",))])
def test_each_may_do_what_the_file_says(
    client: Client, token: str, reads: tuple[str, ...], writes: tuple[str, ...]
) -> None:
    for name in SPACES:
        table, headers = f"{space(name)}/tables/t", as_(token)
        statuses = {
            client.get(path, headers=headers).status_code
            for path in (space(name), f"{space(name)}/tables", table)}
        assert statuses == {200 if name in reads else 403}, name
        assert client.head(table, headers=headers).status_code == (204 if name in reads else 403)
        body = {"requirements": [], "updates": [set_properties(a=token)]}
        rename = {"source": {"namespace": name.split("."), "name": "x"},
                  "destination": {"namespace": name.split("."), "name": "y"}}
        asked = [
            (client.post(table, json=body, headers=headers), 200),
            (client.post(f"{space(name)}/properties", json={"updates": {"a": "b"}}, headers=headers), 200),
            (client.post(
                f"{space(name)}/tables", json={"name": "t", "schema": SCHEMA}, headers=headers), 409),
            (client.post(f"{space(name)}/register", headers=headers, json={
                "name": "t", "metadata-location": "/x"}), 400),
            (client.post("/v1/tables/rename", json=rename, headers=headers), 404),
            (client.delete(f"{space(name)}/tables/x", headers=headers), 404),
            (client.post(
                "/v1/namespaces", json={"namespace": [*name.split("."), "in"]}, headers=headers), 200),
            (client.delete(space(f"{name}.in"), headers=headers), 204),
            (client.post("/v1/transactions/commit", headers=headers, json={
                "table-changes": [change(name, set_properties(b=token))]}), 200)]
        may = name in writes
        assert [answer.status_code for answer, _ in asked] == [
            status if may else 403 for _, status in asked], name


def test_a_commit_needs_all_its_tables_and_reading_those_it_only_requires_of(client: Client) -> None:
    def commit(token: str, *changes: Any) -> Any:
        return client.post(
            "/v1/transactions/commit", json={"table-changes": list(changes)}, headers=as_(token))

    mixed = commit("t", change("ns.team", set_properties(a="b")), change("ns", set_properties(a="b")))
    assert error(mixed) == (403, "ForbiddenException")
    assert error(commit("t", change("ns.team", set_properties(a="b")), change("ns")))[0] == 403
    assert commit("e", change("ns.team"), change("ns")).status_code == 200
    properties = client.get(f"{space('ns.team')}/tables/t", headers=as_("r")).json()["metadata"]["properties"]
    assert properties == {}


def test_a_table_is_not_registered_by_another_name(client: Client) -> None:
    def place(name: str) -> str:
        response = client.get(f"{space(name)}/tables/t", headers=as_("r"))
        return str(response.json()["metadata-location"])

    def register(token: str, name: str, at: str) -> Any:
        return client.post(f"{space('ns.team')}/register", headers=as_(token), json={
            "name": name, "metadata-location": at})

    old, body = place("ns.secret"), {"requirements": [], "updates": [set_properties(a="b")]}
    client.post(f"{space('ns.secret')}/tables/t", json=body, headers=as_("r"))
    for at in (old, place("ns.secret"), place("ns"), place("ns.team")):
        for token in "tr":
            assert error(register(token, "stolen", at)) == (400, "BadRequestException")


def test_lists_show_what_one_may_see(client: Client) -> None:
    def seen(token: str, **params: str) -> Any:
        return client.get("/v1/namespaces", params=params, headers=as_(token)).json().get("namespaces")

    assert seen("r") == seen("e") == seen("t") == [["ns"]]
    assert seen("r", parent="ns") == [["ns", "secret"], ["ns", "team"]]
    assert seen("e", parent="ns") == seen("t", parent="ns") == [["ns", "team"]]
    assert error(client.get("/v1/namespaces", params={"parent": "hr"}, headers=as_("t")))[0] == 403


def test_history_says_who_it_was(client: Client, service: Service) -> None:
    body = {"requirements": [], "updates": [set_properties(a="b")]}
    client.post(f"{space('ns.team')}/tables/t", json=body, headers=as_("t"))
    assert service.tables.store.history()[-1].principal == "team"


@pytest.mark.parametrize(("content", "pattern"), [
    ("", "cannot be read"), ("[]", "must be an object"), ('{"tokens": []}', "empty"),
    ('{"tokens": [{"name": "a"}]}', "permissions is missing"),
    ('{"tokens": [{"name": "a", "permissions": {}}]}', "token or sha256"),
    ('{"tokens": [{"name": "a b", "token": "x", "permissions": {}}]}', "name"),
    ('{"tokens": [{"name": "a", "token": " ", "permissions": {}}]}', "token"),
    ('{"tokens": [{"name": "a", "sha256": "x", "permissions": {}}]}', "sha256"),
    ('{"tokens": [{"name": "a", "token": "x", "permissions": {"ns": "admin"}}]}', "permissions.ns"),
    ('{"tokens": [{"name": "a", "token": "x", "permissions": {"a..b": "read"}}]}', "empty part"),
    ('{"tokens": [{"name": "a", "token": "x", "permissions": {}, "expires": "soon"}]}', "expires"),
    ('{"tokens": [{"name": "a", "token": "x", "permissions": {}, "expires": "2030-01-01"}]}', "time zone"),
    ('{"tokens": [{"name": "a", "token": "x", "permissions": {}},'
     ' {"name": "b", "token": "x", "permissions": {}}]}', "another entry"),
])
def test_a_malformed_file_of_tokens_is_refused_and_no_token_is_told(
    tmp_path: Path, content: str, pattern: str
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(content)
    with pytest.raises(InvalidArgument, match=pattern) as caught:
        Tokens.read(file)
    assert str(file) in str(caught.value)


def test_tokens_are_in_no_repr_and_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [{"name": "ada", "token": "hunter2", "permissions": {}}]}))
    file.chmod(0o644)
    tokens = Tokens.read(file)
    assert "can be read by everyone" in caplog.text and "hunter2" not in caplog.text
    caplog.clear()
    file.chmod(0o640)
    tokens = Tokens.read(file)
    assert caplog.text == ""
    assert repr(tokens) == "Tokens of ada" and "hunter2" not in repr(vars(tokens))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "example.org", "::", ""])
def test_without_tokens_a_server_stays_on_loopback(tmp_path: Path, host: str) -> None:
    with pytest.raises(InvalidArgument, match="loopback only"):
        service_of(f"sqlite:///{tmp_path}/c.db", tmp_path / "lake", host)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("host", "status"), [
    ("localhost:8181", 200), ("127.0.0.1:9", 200), ("[::1]:1", 200), ("LOCALHOST", 200),
    ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403)])
def test_without_tokens_it_answers_to_names_of_this_machine_only(
    service: Service, host: str, status: int
) -> None:
    with Client(application(service)) as client:
        assert client.get("/v1/config", headers={"Host": host}).status_code == status


def test_a_server_reaches_what_a_request_names_with_the_access_of_its_warehouse() -> None:
    """Not with the machine's own, by which a place's text alone would be opened."""
    for file in Path(server.__file__).parent.rglob("*.py"):
        assert not re.search(r"\b(store_for|opened)\(", file.read_text("utf-8")), file.name
