"""Databases to test the catalog on: SQLite in a file, and a PostgreSQL server of this session's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.store.ratification import DeltaCommit, IcebergSwap
from deltanb.catalog.store.registry import TableRow
from deltanb.catalog.store.store import CatalogStore
from tests.catalog.postgresql import NoServer, running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL server on loopback that begins empty and ends with the session."""
    pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")
    with ExitStack() as stack:
        try:
            url = stack.enter_context(running())
        except NoServer as error:
            pytest.skip(f"no PostgreSQL: {error}")
        yield url


@pytest.fixture(scope="session")
def new_schema(postgresql: str) -> Callable[[], str]:
    """Makes the URL of a database without tables in PostgreSQL, again and again."""
    def schema() -> str:
        import psycopg

        name = f"t{next(_numbers)}"
        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
        return f"{postgresql}?options=-csearch_path%3D{name}"

    return schema


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes the URL of a database without tables, again and again."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{next(_numbers)}.db"
    return request.getfixturevalue("new_schema")


@pytest.fixture
def behind(new_url: Callable[[], str]) -> Iterator[CatalogStore]:
    """The database of :func:`catalog`, whoever asks it there."""
    with CatalogStore(new_url(), durability="none") as store:
        yield store


def url_of(store: CatalogStore) -> str:
    """The URL of a store's database."""
    return store.database.engine.url.render_as_string(False)


@pytest.fixture(params=["in the process", "over HTTP"])
def catalog(request: pytest.FixtureRequest, behind: CatalogStore, tmp_path: Path) -> Iterator[dn.Catalog]:
    """A catalog with the namespace ``shop``, by its database or behind a server."""
    if request.param == "in the process":
        catalog = dn.Catalog(url_of(behind), warehouse=tmp_path / "lake")
    else:
        pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")
        from deltanb.catalog.rest.server import serve

        server = serve(behind, tmp_path / "lake")
        request.addfinalizer(server.stop)
        catalog = dn.connect(server.url)
    with catalog:
        catalog.create_namespace("shop")
        yield catalog


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """The URL of a database without tables."""
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[CatalogStore]:
    """A catalog with the namespace ``ns``."""
    with CatalogStore(url, durability="none") as store:
        store.namespaces.create("ns")
        yield store


class Tables:
    """Tables of a catalog by a letter, and the next step of each."""

    def __init__(self, store: CatalogStore) -> None:
        self.store = store

    def delta(self, letter: str, version: int = 0) -> TableRow:
        """Register a Delta table whose id is its letter."""
        return self.store.tables.register_delta(f"ns.{letter}", f"lake/{letter}", version, table_id=letter)

    def iceberg(self, letter: str) -> TableRow:
        """Register an Iceberg table whose id is its letter."""
        return self.store.tables.register_iceberg(f"ns.{letter}", f"{letter}/0", table_id=letter)

    def pointers(self, letters: str) -> dict[str, int | str | None]:
        """Where tables are, at one instant."""
        rows = self.store.tables.load_many(f"ns.{letter}" for letter in letters)
        return {row.name.name: row.pointer for row in rows.values()}

    def step(self, letter: str, before: int | str | None, mark: str = "") -> DeltaCommit | IcebergSwap:
        """The proposal that moves a table on from where it is."""
        name = self.store.tables.load(f"ns.{letter}").name
        return step(letter, name, before, mark)


def step(letter: str, name: Any, before: int | str | None, mark: str = "") -> DeltaCommit | IcebergSwap:
    """The proposal that moves a table on from where it is."""
    if isinstance(before, int):
        return DeltaCommit(letter, name, before + 1, file_name=f"{before + 1}.{mark}.json", ict=before + 1)
    assert before is not None
    return IcebergSwap(letter, name, before, f"{letter}/{int(before.split('/')[1]) + 1}{mark and '/' + mark}")


@pytest.fixture
def tables(store: CatalogStore) -> Tables:
    """Tables of the catalog by a letter."""
    return Tables(store)
