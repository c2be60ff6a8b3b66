"""Our client of Unity Catalog in front of a server: a fake one of a release, or this library's own.

What lives here: :data:`SERVERS`, each with what its tables' files and its answers are looked at by.
What it does not know: what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import deltanb as dn
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.unity.client.access import Access
from deltanb.catalog.unity.client.auth import auth_of
from deltanb.catalog.unity.client.catalog import UnityCatalog
from deltanb.catalog.unity.client.connection import UnityConnection
from deltanb.catalog.unity.client.store import UnityStore
from tests.catalog.unity.fake import Unity

MAINTENANCE = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
RELEASES = ("0.5", "0.6", "0.7")


class Direct(UnityConnection):
    """A connection whose requests are calls of a fake server; waits are counted and not waited."""

    def __init__(self, unity: Unity, **who: Any) -> None:
        self.waited: list[float] = []
        super().__init__("http://unity", auth_of("http://unity", **who), wait=self.waited.append)
        self.unity = unity

    def client(self) -> httpx.Client:
        return httpx.Client(transport=self.unity.transport)


def catalog_of(unity: Unity, *, allow_maintenance: bool = True, allow_local_files: bool = True,
               storage_options: Any = None, **who: Any) -> UnityCatalog:
    """The catalog of a fake server, as one process of many has it."""
    store = UnityStore(Direct(unity, **who), unity_catalog(unity), allow_maintenance)
    return UnityCatalog(store, Access(store, storage_options, allow_local_files))


def unity_catalog(unity: Unity) -> str:
    return next(iter(unity._catalogs))


@dataclass
class Server:
    """A server with the schema ``shop``."""

    connect: Callable[[], dn.Catalog]
    """A further process's catalog of it."""
    ask: Callable[[str], dict[str, Any]]
    """What it answers to GET of a path below its root."""
    unity: Unity | None = None
    catalog: dn.Catalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = self.connect()
        self.catalog.create_namespace("shop")

    def loaded(self, name: str) -> dict[str, Any]:
        """A table of the schema, as its Delta API has it."""
        return self.ask(f"/delta/v1/catalogs/{self.catalog.name}/schemas/shop/tables/{name}")


@contextmanager
def of_release(release: str, path: Path) -> Iterator[Server]:
    unity = Unity(path / "unity", release)
    unity.maintenance = MAINTENANCE

    def ask(route: str) -> dict[str, Any]:
        answer = unity.ask("GET", f"/api/2.1/unity-catalog{route}", b"", {})
        return json.loads(json.dumps(answer.body))  # type: ignore[no-any-return]

    server = Server(partial(catalog_of, unity), ask, unity)
    with server.catalog:
        yield server


@contextmanager
def of_ours(lax: bool, path: Path) -> Iterator[Server]:
    from deltanb.catalog.rest.server.service import Settings
    from deltanb.catalog.rest.server.serving import serve

    with serve(f"sqlite:///{path}/ours.db", path / "ours", settings=Settings(lax=lax)) as server:
        address = server.url.replace("http://", "uc://") + "/default"
        with httpx.Client(base_url=f"{server.url}/api/2.1/unity-catalog") as client:
            made = Server(partial(dn.connect, address, allow_local_files=True),
                          lambda route: client.get(route.lstrip("/")).json())
            with made.catalog:
                yield made


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    **{f"Unity {release}": partial(of_release, release) for release in RELEASES},
    "ours": partial(of_ours, False), "ours, lax": partial(of_ours, True)}


@contextmanager
def publishing_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A block in which what is ratified stays unpublished."""
    with monkeypatch.context() as patched:
        patched.setattr(ManagedCommitter, "publish", lambda *_: None)
        yield
