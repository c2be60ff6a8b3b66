"""A fake of the open-source server of Unity Catalog, for tests of clients.

What lives here: the server, and two ways to ask it: as an httpx transport, and over loopback. It refuses what
the real server refuses, and no more: no file is read to check a commit, so that a client which relies on
being checked fails here as it would there.
What it does not know: what an endpoint does (``fake_delta``, ``fake_older``, ``fake_updates``), what befalls
requests (``fake_faults``). It is written from the specification and from recorded answers, and shares no code
with this project's own server.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx

from tests.catalog.unity import fake_delta, fake_older
from tests.catalog.unity.fake_delta import DELTA, DeltaApi
from tests.catalog.unity.fake_faults import (
    Answer,
    Asked,
    Does,
    Lost,
    Script,
    older_refusal,
    play,
    refusal,
)
from tests.catalog.unity.fake_older import OlderApi
from tests.catalog.unity.fake_updates import Refusal, Table, invalid

ROOT = "/api/2.1/unity-catalog"
ENDPOINTS = (*fake_delta.ROWS, *fake_older.ROWS)
OPERATIONS = frozenset(operation for _, _, operation, _ in ENDPOINTS)


class Unity(DeltaApi, OlderApi):
    """A server of one release, with a catalog whose managed tables lie in a folder or below a prefix.

    ``requests`` has each request that came, ``counts`` how many by operation: the ``operationId`` of the
    specification; of the older API with ``older.`` before it.
    """

    def __init__(self, root: Path, version: str, location: str = "file", catalog: str = "main") -> None:
        """As a release: "0.5", "0.6" or "0.7", or "0.4", which has the older API alone.

        ``root`` is where managed tables lie if ``location`` is "file"; else that is "s3://bucket/prefix".
        """
        super().__init__(root, version, location, catalog)
        self.requests: list[Asked] = []
        self.counts: Counter[str] = Counter()
        self._scripts: list[Script] = []
        self._lock = threading.RLock()

    # -- how it is asked ---------------------------------------------------------------------------------

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, as a function for ``httpx.MockTransport``."""
        try:
            answer = self.ask(request.method, request.url.raw_path.decode(), request.read(), request.headers)
        except Lost:
            raise httpx.RemoteProtocolError(
                "Server disconnected without sending a response.", request=request) from None
        body, headers = _encoded(answer)
        return httpx.Response(answer.status, content=body, headers=headers, request=request)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.handle)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve it on loopback; the URL without the API's root."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"unity": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def script(self, match: str | Callable[[Asked], bool], *does: Does, forever: bool = False) -> None:
        """Do something else with the next requests of an operation, or with those that ``match`` is true of:
        one step each, then again what the server does; or the last step ``forever``."""
        operation = str(match)
        assert callable(match) or operation in OPERATIONS, f"no operation: {operation}"
        matches = match if callable(match) else lambda asked: asked.operation == operation
        with self._lock:
            self._scripts.append(Script(matches, list(does), forever))

    def clear(self) -> None:
        """Forget the requests that came, and what scripts were to do yet."""
        with self._lock:
            self.requests.clear()
            self.counts.clear()
            self._scripts.clear()

    def table(self, full_name: str) -> Table:
        """What the server has of a table, by ``catalog.schema.table``: to look at."""
        with self._lock:
            return self._tables[full_name]

    def ask(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """Answer a request.

        Raises:
            Lost: a script lost it, or its answer.
        """
        asked, serve = self._asked(method, target, content, headers)
        with self._lock:
            self.requests.append(asked)
            self.counts[asked.operation] += 1
            steps = (script.next_of(asked) for script in self._scripts)
            does = next((step for step in steps if step is not None), None)
        return self._answered(asked, serve) if does is None else play(
            does, asked, lambda: self._answered(asked, serve))

    def _asked(self, method: str, target: str, content: bytes, headers: Mapping[str, str]) -> tuple[
            Asked, Callable[[Unity, Asked], Any] | Answer]:
        """A request, and what serves it: a function, or an answer in plain text where there is none."""
        url = urlsplit(target)
        path, query = url.path.removeprefix(ROOT), dict(parse_qsl(url.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in headers.items()}
        try:
            body = json.loads(content) if content else None
        except ValueError:
            body = content
        others = False
        for row_method, template, operation, serve in ENDPOINTS:
            match = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template), path)
            since = fake_delta.SINCE.get(operation, "0.5") if template.startswith(DELTA) else ""
            if match is None or not url.path.startswith(ROOT) or self.version < since:
                continue
            if row_method == method:
                names = {name: unquote(value) for name, value in match.groupdict().items()}
                return Asked(operation, method, path, query, body, headers, names), serve
            others = True
        answer = Answer(405, "405 Method Not Allowed") if others else Answer(
            404, "Status: 404\nDescription: Not Found\n")
        return Asked("", method, path, query, body, headers, {}), answer

    def _answered(self, asked: Asked, serve: Callable[[Unity, Asked], Any] | Answer) -> Answer:
        if isinstance(serve, Answer):
            return serve
        with self._lock:
            try:
                if self.token is not None and asked.headers.get("authorization") != f"Bearer {self.token}":
                    raise Refusal("NotAuthorizedException", "invalid access token")
                if isinstance(asked.body, bytes):
                    raise invalid("the body is not JSON")
                answer = serve(self, asked)
            except Refusal as error:
                if asked.operation.startswith("older."):
                    status = 400 if error.code.endswith("_ALREADY_EXISTS") else error.status
                    code = "NOT_FOUND" if status == 404 and self.version < "0.5" else error.code
                    return older_refusal(status, code, str(error))
                return refusal(error.status, error.kind, str(error))
                    # copied, because it is written out when others may change what it was made of
            return answer if isinstance(answer, Answer) else Answer(200, json.loads(json.dumps(answer)))


# -- HTTP ------------------------------------------------------------------------------------------------


def _encoded(answer: Answer) -> tuple[bytes, dict[str, str]]:
    if answer.body is None:
        return b"", dict(answer.headers)
    kind = "text/plain; charset=utf-8" if isinstance(answer.body, str) else "application/json"
    body = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
    return body.encode(), {"Content-Type": kind, **answer.headers}


class _Handler(BaseHTTPRequestHandler):
    """Answers over HTTP/1.1, a request after the other on a connection."""

    unity: Unity
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body go in one packet: a second one would wait for the first one's receipt

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.unity.ask(self.command, self.path, content, dict(self.headers))
        except Lost:
            self.close_connection = True
            return
        body, headers = _encoded(answer)
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = _serve

    def log_message(self, format: str, *args: Any) -> None:
        pass
