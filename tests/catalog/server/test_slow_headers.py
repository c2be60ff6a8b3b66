"""Headers that do not come in time: the connection is not held for them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltanb.catalog.rest.server import serve
from deltanb.catalog.rest.server.serving import Server
from tests.patience import PATIENCE

WHOLE = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("deltanb.catalog.rest.server.slow_headers.HEADER_SECONDS", 0.02)
    running = serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake")
    yield running
    running.stop()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=PATIENCE)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("begun", [b"G", b"GET /healthz HTTP/1.1\r\n", WHOLE[:-2]])
def test_a_request_whose_headers_stay_out_is_answered_and_ended(server: Server, begun: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(begun)
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in head
    assert json.loads(body)["error"] == {
        "message": "the headers did not arrive in time", "type": "RequestTimeoutException", "code": 408}


def test_a_connection_on_which_nothing_is_sent_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.catalog.rest.server.serving.KEEP_ALIVE_SECONDS", 0.02)
    running = serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake")
    with connected(running) as connection:
        assert rest(connection) == b""
    running.stop()


def test_a_second_request_on_a_connection_has_its_own_time(server: Server) -> None:
    with connected(server) as connection:
        connection.sendall(WHOLE)
        first = connection.recv(1 << 16)
        while b'"ok"' not in first:
            first += connection.recv(1 << 16)
        connection.sendall(WHOLE[:7])
        assert first.startswith(b"HTTP/1.1 200 ") and rest(connection).startswith(b"HTTP/1.1 408 ")
