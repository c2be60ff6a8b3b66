"""An S3 server to try and test with, on loopback: moto behind a lock. It counts, waits and fails on request.

What lives here: :class:`S3Server`, which serves from a thread, so that its process can have it misbehave.
What it does not know: stores, or what is kept in the buckets.

moto looks for an object and then stores one, so that two writers could both be the first; behind a lock that
cannot be. What the server is to do wrong it does around moto: before the request reaches it, so that
nothing is stored, or after, so that something is and the answer is another.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from deltanb.errors import MissingDependency

__all__ = ["ACCESS", "Request", "S3Server", "rounds"]

Environ = dict[str, Any]
Fault = Callable[["Request"], "str | None"]

ACCESS = {"aws_access_key_id": "tester", "aws_secret_access_key": "kept-to-itself", "aws_region": "us-east-1"}


@dataclass
class Request:
    """One request: what was asked for, when, and the status that it was answered with (0: no answer).

    >>> print(Request("PUT", "lake/flights/1.json", headers={"if-none-match": "*"}, status=412))
    PUT  flights/1.json, if there is none: 412
    """

    method: str
    key: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    number: int = 0
    began: float = 0.0
    ended: float = 0.0
    status: int = 0

    @property
    def is_create(self) -> bool:
        """Whether it stores an object only if there is none."""
        return self.method == "PUT" and self.headers.get("if-none-match") == "*"

    def __str__(self) -> str:
        asked = parse_qs(self.query)
        is_listing = "list-type" in asked
        word = "LIST" if is_listing else self.method
        name = asked.get("prefix", [""])[0] if is_listing else self.key.partition("/")[2]
        condition = ", if there is none" if self.is_create else ""
        return f"{word:4} {name}{condition}: {self.status or 'no answer'}"


class S3Server:
    """moto's S3 on a port of its own, which only this machine can reach. What it stores ends
    with the process.

    ``requests`` has all that it was asked, and ``latency`` seconds pass before each answer. ``fault`` is
    asked about every request and says what goes wrong: None (nothing), "503", "429", "403", "500" (an error
    in place of the work), "expired" (one, too: the token is too old), "lost" (the work is done, and the
    connection is closed without an answer), "late 500" (the work is done, and the answer is 500), "cut"
    (half of the body is sent), "deaf" (a condition is not heard).

    Raises:
        MissingDependency: moto is not installed, or not what its server needs.

    >>> import deltanb as dn
    >>> with S3Server() as server:
    ...     place = server.make_bucket("lake")
    ...     table = dn.create(f"{place}/ducks", {"name": ["Donald"]}, storage_options=server.options)
    ...     with server.counted() as requests:
    ...         rows = dn.open(table.path, storage_options=server.options).count()
    ...     _ = table.append({"name": ["Daisy"]})
    >>> rows, any(request.method == "PUT" for request in requests), table.path
    (1, False, 's3://lake/ducks')
    """

    def __init__(self) -> None:
        try:
            from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
            from werkzeug.serving import WSGIRequestHandler, make_server
        except ImportError as error:
            raise MissingDependency(
                f"S3Server is moto's, and {error.name} is not installed: pip install 'deltanb[lab]'",
                extra="lab") from None

        class Handler(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"

            def log(self, *_: Any) -> None:
                """Nothing is written anywhere."""

        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._seen = threading.Lock()
        self.requests: list[Request] = []
        self.latency = 0.0
        self.fault: Fault = lambda request: None
        self._server = make_server(
            "127.0.0.1", 0, self._serve, threaded=True, request_handler=Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What tables in it are opened with, as deltalake spells it."""
        return {"aws_endpoint_url": self.endpoint, "aws_allow_http": "true", **ACCESS}

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def make_bucket(self, name: str) -> str:
        """An empty bucket, as a URI."""
        import urllib.request

        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")):
            return f"s3://{name}"

    def store(self, bucket: str, key: str, data: bytes) -> None:
        """Put an object there without a request: a long log would take its time."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, key, data)

    # -- what was asked -------------------------------------------------------------------------

    @contextmanager
    def counted(self, latency: float = 0.0) -> Iterator[list[Request]]:
        """The requests of the block, each answered after ``latency`` seconds."""
        seen: list[Request] = []
        before, self.requests = self.requests, seen
        self.latency = latency
        try:
            yield seen
        finally:
            self.requests, self.latency = before, 0.0

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """A block in which requests go wrong as ``fault`` says."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = lambda request: None

    # -- serving --------------------------------------------------------------------------------

    def _serve(self, environ: Environ, start: Any) -> Iterable[bytes]:
        # Some clients send parts of which each says its own length, and do not say that of the whole.
        is_chunked = environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
        body = environ["wsgi.input"].read(-1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0))
        if is_chunked:
            environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = io.BytesIO(body)
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items()
                   if name.startswith("HTTP_")}
        with self._seen:
            request = Request(environ["REQUEST_METHOD"], path.lstrip("/"), environ.get("QUERY_STRING", ""),
                              headers, len(self.requests), time.monotonic())
            self.requests.append(request)
        try:
            return self._answered(request, environ, start)
        finally:
            request.ended = time.monotonic()

    def _answered(self, request: Request, environ: Environ, start: Any) -> Iterable[bytes]:
        if self.latency:
            time.sleep(self.latency)
        fault = self.fault(request)
        if fault == "deaf":
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if fault and (fault.isdigit() or fault == "expired"):
            return _refusal(request, int(fault) if fault.isdigit() else 400, start, fault)
        answer: list[Any] = []
        with self._lock:
            parts = self._application(environ, lambda *response: answer.extend(response[:2]))
            body = b"".join(parts)
        if fault == "late 500":
            return _refusal(request, 500, start)
        if fault == "lost":
            environ["werkzeug.socket"].shutdown(2)
            raise ConnectionResetError("the answer is lost")
        request.status = int(answer[0].split()[0])
        start(*answer)
        return [body[:len(body) // 2]] if fault == "cut" else [body]


def _refusal(request: Request, status: int, start: Any, fault: str = "") -> list[bytes]:
    request.status = status
    codes = {403: "AccessDenied", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}
    code = "ExpiredToken" if fault == "expired" else codes.get(status, "Failed")
    body = f"<Error><Code>{code}</Code><Message>{code} on request</Message></Error>".encode()
    start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def rounds(requests: Iterable[Request]) -> int:
    """The round trips that somebody waited for: the longest chain of requests of which each began after the
    one before it had been answered.

    >>> rounds([Request("GET", "a", began=0, ended=1), Request("GET", "b", began=0.5, ended=1.5)])
    1
    >>> rounds([Request("GET", "a", began=0, ended=1), Request("GET", "b", began=1.2, ended=2)])
    2
    """
    depths: list[tuple[float, int]] = []
    for request in sorted(requests, key=lambda one: one.began):
        depth = 1 + max((depth for ended, depth in depths if ended <= request.began), default=0)
        depths.append((request.ended, depth))
    return max((depth for _, depth in depths), default=0)
