"""A server of a catalog, asked in the process: on either database, its files in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.store.store import CatalogStore
from deltanb.options import set_options
from tests.catalog.server.ask import Client
from tests.catalog.server.unity import Table
from tests.helpers import tree


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    """No test here is about the disk."""
    with set_options(durability="none"):
        yield


@pytest.fixture
def service(store: CatalogStore, tmp_path: Path) -> Service:
    """The catalog's, without tokens; the namespace ``ns`` is there."""
    return Service(IcebergTables(store, tmp_path / "lake"))


@pytest.fixture
def served(service: Service) -> dn.Catalog:
    """The catalog that is served, by its database."""
    return dn.Catalog.over(service.tables.store, service.tables.warehouse, service.tables)


@pytest.fixture
def orders(served: dn.Catalog) -> Table:
    """The table ``ns.orders``, as a client that writes its log by itself sees it."""
    served.create_table("ns.orders", {"id": [1]})
    return Table(served)


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """Asks the server."""
    with Client(application(service)) as client:
        yield client


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], set[str]]:
    """The names of all files in the warehouse."""
    return lambda: tree(tmp_path / "lake")
