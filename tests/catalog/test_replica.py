"""A catalog in a database that takes no writes, as a replica of PostgreSQL: it is read, no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")

import deltanb as dn
from deltanb.catalog.store.store import CatalogStore
from deltanb.errors import StorageError

READ_ONLY = "%20-cdefault_transaction_read_only%3Don"
"""Behind the options of a URL: what a replica says of each session."""


@pytest.fixture
def url(new_schema: Callable[[], str]) -> str:
    return new_schema()


@pytest.fixture
def primary(url: str, tmp_path: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog(url, warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.ducks", {"id": [1, 2]})
        catalog.create_table("shop.ponds", {"id": [1]})
        yield catalog


@pytest.fixture(params=["in the process", "over HTTP"])
def replica(request, primary: dn.Catalog, url: str, tmp_path: Path) -> Iterator[dn.Catalog]:
    """What the primary has, for a session that may only read."""
    url += READ_ONLY
    if request.param == "in the process":
        with dn.Catalog(url, warehouse=tmp_path / "lake") as catalog:
            yield catalog
        return
    pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")
    from deltanb.catalog.rest.server import serve

    with CatalogStore(url) as store:
        server = serve(store, tmp_path / "lake")
        try:
            with dn.connect(server.url) as catalog:
                yield catalog
        finally:
            server.stop()


def files_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def test_readers_see_what_the_primary_commits(primary, replica) -> None:
    ducks = replica.table("shop.ducks")
    assert [str(name) for name in replica.list_tables("shop")] == ["shop.ducks", "shop.ponds"]
    primary.table("shop.ducks").append({"id": [3]})
    assert (ducks.count(), ducks.version, len(ducks.history())) == (3, 1, 2)
    assert ducks.as_of(0).count() == 2


def both(catalog: dn.Catalog) -> None:
    with catalog.transaction() as txn:
        txn.table("shop.ducks").append({"id": [9]})
        txn.table("shop.ponds").delete("id = 1")


WRITES: dict[str, Callable[[dn.Catalog], object]] = {
    "append": lambda catalog: catalog.table("shop.ducks").append({"id": [9]}),
    "delete": lambda catalog: catalog.table("shop.ducks").delete("id = 1"),
    "overwrite": lambda catalog: catalog.table("shop.ducks").overwrite({"id": [9]}),
    "properties": lambda catalog: catalog.table("shop.ducks").set_properties({"a": "b"}),
    "two tables": both,
    "create": lambda catalog: catalog.create_table("shop.lakes", {"id": [1]}),
    "drop": lambda catalog: catalog.drop_table("shop.ducks"),
    "purge": lambda catalog: catalog.drop_table("shop.ducks", purge=True),
    "rename": lambda catalog: catalog.rename_table("shop.ducks", "shop.geese"),
    "namespace": lambda catalog: catalog.create_namespace("lake"),
}


@pytest.mark.parametrize("work", WRITES)
def test_writers_are_sent_to_the_primary_and_leave_no_file(primary, replica, tmp_path, work) -> None:
    before, tables = files_below(tmp_path), {str(name) for name in primary.list_tables("shop")}
    with pytest.raises(StorageError, match="connect to the primary database"):
        WRITES[work](replica)
    assert files_below(tmp_path) == before
    assert {str(name) for name in primary.list_tables("shop")} == tables
    assert primary.table("shop.ducks").count() == 2


def test_a_replica_that_has_no_catalog_yet_is_not_made_one(new_schema, tmp_path) -> None:
    with pytest.raises(StorageError, match="connect to the primary database"):
        dn.Catalog(new_schema() + READ_ONLY, warehouse=tmp_path)
