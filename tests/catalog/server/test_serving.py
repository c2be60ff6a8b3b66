"""Servers that run: in a thread of this process, and as a process of their own that is stopped or killed."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import deltanb as dn
from deltanb.app import cli
from deltanb.catalog.rest.server import serve
from deltanb.catalog.store.store import CatalogStore
from deltanb.errors import InvalidArgument, StorageError
from tests.catalog.iceberg_tables import set_properties
from tests.catalog.script import Held, Running
from tests.catalog.server.ask import COMMIT, TABLES, change, commit, made, new_key
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


def test_a_server_begins_and_stops_in_this_process(tmp_path: Path) -> None:
    server = serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake")
    assert repr(server) == f"catalog server at {server.url}"
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(StorageError, match=f"port {port}"):
        serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake", port=port)
    server.stop()
    server.stop()
    assert not server.is_running and repr(server).endswith("(stopped)")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz")


def test_a_catalog_serves_itself_and_stays_usable(url: str, tmp_path: Path) -> None:
    with dn.Catalog(url, warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        with catalog.serve() as server, dn.connect(server.url) as theirs:
            theirs.create_table("ns.t", {"id": [1]})
            assert catalog.list_tables("ns") == ["ns.t"]
            with pytest.raises(InvalidArgument, match="already served"):
                theirs.serve()
            with pytest.raises(InvalidArgument, match="loopback only"):
                catalog.serve(host="0.0.0.0")
        catalog.table("ns.t").append({"id": [2]})
        assert catalog.table("ns.t").to_arrow().num_rows == 2


def test_a_stop_waits_for_the_request_under_way(url: str, tmp_path: Path) -> None:
    store = CatalogStore(url, durability="none")
    store.namespaces.create("ns")
    with serve(store, warehouse=tmp_path / "lake") as server:
        client = httpx.Client(base_url=server.url, timeout=PATIENCE)
        made(client, "t")
        held = Held(store, "UPDATE iceberg_tables")
        running = Running(lambda: commit(client, change("t", set_properties(a="b"))))
        held.wait()
        stopping = Running(server.stop)
        held.let_on()
        assert running.result().status_code == 200
        stopping.result()
    with CatalogStore(url) as again:
        assert again.tables.load("ns.t").previous_metadata_location is not None


def test_each_request_is_a_line_of_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "deltanb"), \
            serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as server:
        own = httpx.get(f"{server.url}/v1/namespaces/no%0Ape?token=hunter2",
                        headers={"X-Request-Id": "abc-1", "Authorization": "Bearer hunter2"})
        other = httpx.get(f"{server.url}/nothing", headers={"X-Request-Id": "a b"})
    messages = [record.getMessage() for record in caplog.records]
    lines = [json.loads(message) for message in messages if "request" in message]
    assert [(line["endpoint"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("load_namespace", "GET", "/v1/namespaces/no\npe", 400), (None, "GET", "/nothing", 404)]
    assert own.headers["x-request-id"] == lines[0]["request-id"] == "abc-1"
    assert other.headers["x-request-id"] == lines[1]["request-id"] != "a b"
    assert all(line["ms"] > 0 and line["client"] == "127.0.0.1" for line in lines)
    assert "hunter2" not in caplog.text


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``deltanb serve`` as a process, and the URL that it prints."""
    command = [sys.executable, "-m", "deltanb.app.cli", "serve", "--port", "0", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        overdue = threading.Timer(PATIENCE, run.kill)
        overdue.start()
        try:
            assert run.stdout is not None
            line = run.stdout.readline()
            overdue.cancel()
            match = re.search(r"http://\S+", line)
            assert match, (line, run.stderr.read() if run.stderr else "")
            yield run, match[0]
        finally:
            overdue.cancel()
            run.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"tokens": [{"name": "a", "token": "s", "permissions": {"*": "write"}}]}))
    tokens.chmod(0o600)
    options = ["--catalog", f"sqlite:///{tmp_path}/c.db", "--warehouse", str(tmp_path / "lake")]
    with process(*options, "--token-file", str(tokens), "--max-tables", "1") as (run, url):
        assert httpx.get(f"{url}/v1/config").status_code == 401
        two = httpx.post(f"{url}{COMMIT}", json={"table-changes": [change("a"), change("b")]},
                         headers={"Authorization": "Bearer s"})
        assert two.json()["error"]["message"] == "table-changes has 2 tables, and a commit may have 1"
        run.send_signal(number)
        _, log = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [(line["status"], line["principal"]) for line in lines] == [(401, None), (400, "a")]


@pytest.mark.parametrize(("more", "message"), [
    (["--no-auth", "--host", "0.0.0.0"], "loopback only"),
    (["--token-file", "no/such/file"], "no/such/file"),
    (["--no-auth", "--catalog", "mysql://x"], "sqlite:///FILE"),
    (["--no-auth", "--warehouse", "hdfs://lake/x"], "no store serves"),
])
def test_what_cannot_be_served_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    options = ["serve", "--catalog", f"sqlite:///{tmp_path}/c.db", "--warehouse", str(tmp_path / "lake")]
    assert cli.main([*options, "--port", "0", *more]) == 2
    output = capsys.readouterr()
    assert message in output.err and len(output.err.splitlines()) == 1 and output.out == ""


def test_whether_there_are_tokens_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--no-auth", "--token-file", "x"], ["--no-auth", "--port", "70000"],
                 ["--no-auth", "--max-tables", "0"]):
        with pytest.raises(SystemExit):
            cli.main(["serve", "--catalog", "sqlite:///c.db", "--warehouse", "lake", *more])
        assert "usage:" in capsys.readouterr().err


ROUNDS = 3  # kills; each under load


@pytest.mark.slow
def test_killed_under_load_it_is_whole_when_it_comes_back(url: str, tmp_path: Path) -> None:
    """Two tables move together by writers that ask again, with their keys, until they are answered."""
    with CatalogStore(url, durability="none") as store:
        store.namespaces.create("ns")
    options = ["--catalog", url, "--warehouse", str(tmp_path / "lake"), "--no-auth"]
    acknowledged: list[tuple[str, str]] = []
    unanswered: list[Callable[[httpx.Client], None]] = []
    for round_ in range(ROUNDS):
        with process(*options) as (run, at):
            with httpx.Client(base_url=at, timeout=PATIENCE) as client:
                if round_ == 0:
                    made(client, "a", "b")
                for ask in unanswered:
                    ask(client)
                unanswered.clear()
                whole(client, acknowledged)
            enough = threading.Event()
            writers = [threading.Thread(target=write, args=(
                at, f"w{round_}.{number}", acknowledged, unanswered, enough)) for number in range(3)]
            for writer in writers:
                writer.start()
            assert enough.wait(PATIENCE)
            run.kill()
            run.wait()
            for writer in writers:
                writer.join(PATIENCE)
    with process(*options) as (run, at), httpx.Client(base_url=at, timeout=PATIENCE) as client:
        for ask in unanswered:
            ask(client)
        whole(client, acknowledged)


def write(at: str, name: str, acknowledged: Any, unanswered: Any, enough: threading.Event) -> None:
    """Set a property of both tables again and again, until the server is gone."""
    with httpx.Client(base_url=at, timeout=PATIENCE) as client:
        for number in range(10_000):
            updates = set_properties(**{name: str(number)})
            key, value = new_key(), (name, str(number))

            def ask(client: httpx.Client, updates: Any = updates, key: Any = key, value: Any = value) -> None:
                answer = commit(client, change("a", updates), change("b", updates), headers=key)
                assert answer.status_code in (200, 409), answer.text
                if answer.status_code == 200:
                    acknowledged.append(value)
                    if len(acknowledged) % 12 == 0:
                        enough.set()

            try:
                ask(client)
            except httpx.TransportError:
                unanswered.append(ask)
                return


def whole(client: httpx.Client, acknowledged: list[tuple[str, str]]) -> None:
    """Both tables say the same, and all that was acknowledged; the newest value of each name counts."""
    properties = [client.get(f"{TABLES}/{name}").json()["metadata"]["properties"] for name in "ab"]
    assert properties[0] == properties[1]
    newest: dict[str, int] = {}
    for name, value in acknowledged:
        newest[name] = max(newest.get(name, -1), int(value))
    assert {name: int(properties[0].get(name, -1)) for name in newest} == newest
