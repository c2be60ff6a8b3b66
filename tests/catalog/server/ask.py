"""A client that asks a server in the process, and what tests ask it for again and again."""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette

from tests.catalog.iceberg_tables import SCHEMA

Json = dict[str, Any]
TABLES = "/v1/namespaces/ns/tables"
COMMIT = "/v1/transactions/commit"


class Client:
    """Asks an application; an error of the server's own is an answer here too."""

    def __init__(self, app: Starlette, **settings: Any) -> None:
        self._context = start_blocking_portal()
        self._portal = self._context.__enter__()
        self._stack = AsyncExitStack()
        self._portal.call(self._stack.enter_async_context, app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost", **settings)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._portal.call(self._client.aclose)
        self._portal.call(self._stack.aclose)
        self._context.__exit__(None, None, None)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._portal.call(partial(self._client.request, method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def head(self, path: str, **more: Any) -> httpx.Response:
        return self.request("HEAD", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PUT", path, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.request("DELETE", path, **more)


def made(client: Any, *names: str, **more: Any) -> list[Json]:
    """Make tables in ``ns``; what the server says of each."""
    answers = [client.post(TABLES, json={"name": name, "schema": SCHEMA, **more}) for name in names]
    assert [answer.status_code for answer in answers] == [200] * len(names), answers[0].text
    return [answer.json() for answer in answers]


def loaded(client: Any, name: str) -> Json:
    """A table's metadata."""
    answer = client.get(f"{TABLES}/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()["metadata"]  # type: ignore[no-any-return]


def change(name: str, *updates: Json, needs: list[Json] | None = None) -> Json:
    return {"identifier": {"namespace": ["ns"], "name": name}, "requirements": needs or [],
            "updates": list(updates)}


def commit(client: Any, *changes: Json, headers: dict[str, str] | None = None) -> Any:
    return client.post(COMMIT, json={"table-changes": list(changes)}, headers=headers or {})


def error(answer: Any) -> tuple[int, str]:
    """A refusal's status and type; its body has the specification's shape."""
    body = answer.json()["error"]
    assert body["code"] == answer.status_code and body["message"], body
    return answer.status_code, body["type"]


def same_uuid(table: Json) -> Json:
    return {"type": "assert-table-uuid", "uuid": table["metadata"]["table-uuid"]}


def new_key() -> dict[str, str]:
    """The header of a request that has a key of its own."""
    return {"Idempotency-Key": str(uuid.uuid4())}
