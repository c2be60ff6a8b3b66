"""The server as an ASGI application: HTTP on one side, requests and replies as values on the other.

What lives here: routes, bodies up to their limit, headers, and one line in the log a request. Work is done
in threads, with the settings of whoever made the application.
What it does not know: any endpoint.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from functools import cache, partial
from typing import Any

import msgspec

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.rest.endpoints import ENDPOINTS
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.openapi import description
from deltanb.catalog.rest.server.refusals import refusal, refused
from deltanb.catalog.rest.server.service import Service, not_found
from deltanb.catalog.rest.server.tables import etag_of, is_minimal
from deltanb.catalog.rest.server.tokens import Forbidden
from deltanb.errors import DeltaError, MissingDependency
from deltanb.options import options
from deltanb.text.safe_text import get_logger

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise MissingDependency(
        "serving a catalog needs Starlette, which is not installed: pip install 'deltanb[catalog]'",
        extra="catalog") from None

__all__ = ["application"]

BODY_SECONDS = 30  # for which a client may take to send its body
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?", re.IGNORECASE)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

_log = get_logger("deltanb.catalog.rest.server")


def application(service: Service) -> Starlette:
    """The ASGI application of a service; it closes the catalog's connections when it ends.

    Without tokens it answers only who calls it by a name of this machine: a page that a browser shows
    cannot reach it by a name of its own.
    """
    workers = ThreadPoolExecutor(service.settings.threads, thread_name_prefix="deltanb-server")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            workers.shutdown(wait=True)
            service.tables.store.close()

    door = _Door(service, workers, copy_context())
    return Starlette(
        routes=[*_routes(door), Route("/healthz", door.health), Route("/openapi.json", door.openapi)],
        lifespan=lifespan, exception_handlers={HTTPException: door.no_route, Exception: door.failed})


def _routes(door: _Door) -> list[Route]:
    """Those without a prefix first: a catalog may be called as a namespace. Then HEAD, which Starlette would
    answer by GET."""
    routes = [(root.count("{"), each.method != "HEAD", f"{root}{each.path}", each)
              for each in ENDPOINTS for root in each.roots]
    return [Route(path, partial(door.endpoint, each), methods=[each.method])
            for _, _, path, each in sorted(routes, key=lambda route: route[:2])]


class _Door:
    """Where HTTP comes in."""

    def __init__(self, service: Service, workers: ThreadPoolExecutor, context: Context) -> None:
        self._service, self._workers, self._context = service, workers, context

    async def endpoint(self, endpoint: Endpoint, http: HttpRequest) -> Response:
        """One request to an endpoint."""
        began = options.timer()
        principal: str | None = None
        try:
            if self._service.tokens is None:
                _require_loopback(http)
            sender = self._service.sender(http.headers.get("authorization"))
            principal = sender.name
            content = await self._content(endpoint, http)
        except DeltaError as error:
            reply = endpoint.api.refusal(error)
        except _Refused as refused_:
            reply = endpoint.api.in_form(refused_.reply)
        else:
            request = Request(
                self._service, sender, http.method, http.scope["path"], http.path_params,
                dict(http.query_params), dict(http.headers), content)
            response = await self._in_thread(self._answered, http, endpoint, request, options.timer())
            self._logged(endpoint.name, http, response, principal, began)
            return response
        response = self._response(http, reply)
        self._logged(endpoint.name, http, response, principal, began)
        return response

    def _answered(self, http: HttpRequest, endpoint: Endpoint, request: Request, came: int) -> Response:
        """The work on a request, that of writing its answer as JSON included; others may come before it."""
        return self._response(http, self._service.respond(endpoint, request, came))

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        context = self._context.copy()
        return await asyncio.get_running_loop().run_in_executor(
            self._workers, lambda: context.run(call, *args))

    async def _content(self, endpoint: Endpoint, http: HttpRequest) -> bytes:
        """The body, up to the limit."""
        most = self._service.settings.max_body
        length = http.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:19]) > most:
            raise _Refused(413, "RequestTooLargeException", f"the body is larger than {most} bytes")
        try:
            content = await asyncio.wait_for(_read(http, most), BODY_SECONDS)
        except asyncio.TimeoutError:
            raise _Refused(408, "RequestTimeoutException", "the body did not arrive in time") from None
        if endpoint.body is not None and not _is_json(http.headers.get("content-type")):
            raise _Refused(415, "UnsupportedMediaTypeException",
                           "the body must be JSON: send the header 'Content-Type: application/json'")
        return content

    def _response(self, http: HttpRequest, reply: Reply) -> Response:
        headers = {"X-Request-Id": _request_id(http), **reply.headers}
        if reply.parts is not None:
            return StreamingResponse(
                self._streamed(reply), reply.status, headers, media_type="application/json")
        value = reply.value
        if reply.table is not None:
            value = _shown(reply, http.query_params.get("snapshots"), headers)
        elif _has_a_minimal_form(http, reply) and is_minimal(http.headers.get("prefer")):
            return Response(status_code=204, headers={**headers, "Preference-Applied": "return=minimal"})
        if value is None or http.method == "HEAD":
            return Response(status_code=reply.status, headers=headers)
        body = msgspec.json.encode(value)
        return Response(body, reply.status, headers, media_type="application/json")

    async def _streamed(self, reply: Reply) -> AsyncIterator[bytes]:
        """Parts made in a thread, the next one when the one before is sent."""
        assert reply.parts is not None
        while (part := await self._in_thread(next, reply.parts, None)) is not None:
            yield part

    async def health(self, http: HttpRequest) -> Response:
        """Whether the server can do its work: its database answers."""
        if await self._in_thread(self._service.is_healthy):
            return Response(b'{"status":"ok"}', media_type="application/json")
        return self._response(http, refused(
            503, "ServiceUnavailableException", "the catalog's database does not answer"))

    async def openapi(self, http: HttpRequest) -> Response:
        """The description of all endpoints."""
        return Response(msgspec.json.encode(_description()), media_type="application/json")

    async def no_route(self, http: HttpRequest, error: Exception) -> Response:
        """No such path, or not by this method."""
        assert isinstance(error, HTTPException)
        began, path = options.timer(), http.scope["path"]
        reply = not_found(path) if error.status_code != 405 else refused(
            405, "MethodNotAllowedException", f"there is no {http.method} {path}")
        response = self._response(http, Reply(reply.status, reply.value, dict(error.headers or {})))
        self._logged(None, http, response, None, began)
        return response

    async def failed(self, http: HttpRequest, error: Exception) -> Response:
        """An error of the server's own."""
        _log.error("a request failed", exc_info=error)
        return self._response(http, refusal(error))

    def _logged(
        self, name: str | None, http: HttpRequest, response: Response, principal: str | None, began: int
    ) -> None:
        """One line of JSON."""
        if not _log.isEnabledFor(20):
            return
        _log.info(json.dumps({
            "event": "request", "endpoint": name, "method": http.method, "path": http.scope["path"],
            "status": response.status_code, "ms": round((options.timer() - began) / 1e6, 3),
            "principal": principal, "request-id": response.headers["x-request-id"],
            "client": http.client.host if http.client else None}))


@cache
def _description() -> Json:
    return description(ENDPOINTS)


class _Refused(Exception):
    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.reply = refused(status, name, message)


async def _read(http: HttpRequest, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for part in http.stream():
            size += len(part)
            if size > most:
                raise _Refused(413, "RequestTooLargeException", f"the body is larger than {most} bytes")
            parts.append(part)
    except ClientDisconnect:
        raise _Refused(400, "BadRequestException", "the body was cut off") from None
    return b"".join(parts)


def _has_a_minimal_form(http: HttpRequest, reply: Reply) -> bool:
    return reply.status == 200 and http.scope["path"].endswith("/transactions/commit")


def _is_json(content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _require_loopback(http: HttpRequest) -> None:
    host = http.headers.get("host", "")
    if not _LOOPBACK.fullmatch(host):
        raise Forbidden(f"this server has no tokens and answers to localhost only, not to {host!r:.80}")


def _request_id(http: HttpRequest) -> str:
    request_id = http.headers.get("x-request-id", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else options.new_id()


def _shown(reply: Reply, snapshots: str | None, headers: dict[str, str]) -> Any:
    """A table as the specification's LoadTableResult; its tag goes into the headers."""
    assert reply.table is not None
    location, metadata = reply.table.metadata_location, reply.table.metadata
    mode = "refs" if snapshots == "refs" else "all"
    if mode == "refs":
        named = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
        metadata = {**metadata, "snapshots": [
            each for each in metadata.get("snapshots") or () if each["snapshot-id"] in named]}
    if location is None:
        return {"metadata": metadata, "config": {}}
    headers["ETag"] = etag_of(location, mode)
    return {"metadata-location": location, "metadata": metadata, "config": {}}


