"""The catalog beside others in one database: PyIceberg's, and tables as Java's made them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")

from pyiceberg import exceptions as theirs
from pyiceberg.catalog.sql import SqlCatalog

from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import IcebergSwap, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.errors import NamespaceAlreadyExists, NamespaceNotEmpty, NamespaceNotFound, TableAlreadyExists

ROWS = pa.table({"n": [1, 2]})


@pytest.fixture(params=["theirs first", "ours first"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[CatalogStore, SqlCatalog]]:
    """Both catalogs in one database, made in either order."""
    url = f"sqlite:///{tmp_path}/catalog.db"

    def peer() -> SqlCatalog:
        return SqlCatalog("default", uri=url, warehouse=f"file://{tmp_path}/lake")

    first = peer() if request.param == "theirs first" else None
    if first is not None:
        first.create_namespace("before", {"owner": "them"})
        first.create_table("before.t", ROWS.schema)
    with CatalogStore(url) as store:
        yield store, first or peer()


def copied(location: str) -> str:
    """Another metadata file of the same content."""
    path = Path(location.removeprefix("file://"))
    new = path.with_name("ours-" + path.name)
    new.write_bytes(path.read_bytes())
    return f"file://{new}"


def test_each_reads_and_moves_what_the_other_made(both: tuple[CatalogStore, SqlCatalog]) -> None:
    store, peer = both
    peer.create_namespace("ns")
    table = peer.create_table("ns.t", ROWS.schema)
    (listed,) = store.tables.page("ns").items
    row = store.tables.load("ns.t")
    assert (listed.table_id, row.metadata_location) == (None, table.metadata_location)
    assert row.table_id is not None and row == store.tables.load("ns.t")
    ours = copied(table.metadata_location)
    swap = IcebergSwap(row.table_id, row.name, table.metadata_location, ours)
    assert isinstance(store.ratify("1", None, [swap]), Ratified)
    table.refresh()
    assert table.metadata_location == ours
    table.append(ROWS)
    late = IcebergSwap(row.table_id, row.name, ours, copied(ours))
    assert store.ratify("2", None, [late]) == Refused({row.table_id: table.metadata_location})
    moved = store.tables.load("ns.t")
    assert (moved.pointer, moved.previous_metadata_location) == (table.metadata_location, ours)
    peer.drop_table("ns.t")
    store.tables.register_iceberg("ns.ours", copied(table.metadata_location))
    assert peer.load_table("ns.ours").scan().to_arrow().num_rows == 2


def test_a_swap_of_ours_refuses_their_commit(both: tuple[CatalogStore, SqlCatalog]) -> None:
    store, peer = both
    peer.create_namespace("ns")
    table = peer.create_table("ns.t", ROWS.schema)
    row = store.tables.load("ns.t")
    real = peer._write_metadata

    def and_ours(*args: Any, **more: Any) -> None:  # between their check and their swap
        real(*args, **more)
        swap = IcebergSwap(str(row.table_id), row.name, str(row.pointer), copied(str(row.pointer)))
        assert isinstance(store.ratify("ours", None, [swap]), Ratified)

    peer._write_metadata = and_ours  # type: ignore[method-assign]
    change = peer.load_table("ns.t").transaction().set_properties(a="b")
    with pytest.raises(theirs.CommitFailedException, match="updated by another"):
        change.commit_transaction()
    del peer._write_metadata  # type: ignore[attr-defined]
    table.refresh().append(ROWS)
    assert peer.load_table("ns.t").scan().to_arrow().num_rows == 2


def test_a_delta_table_is_invisible_to_them_and_its_name_taken(
    both: tuple[CatalogStore, SqlCatalog],
) -> None:
    store, peer = both
    store.namespaces.create("ns", {"owner": "us"})
    store.tables.register_delta("ns.d", "lake/d", 0)
    assert peer.list_tables("ns") == [] and not peer.table_exists("ns.d")
    with pytest.raises(theirs.TableAlreadyExistsError):
        peer.create_table("ns.d", ROWS.schema)
    with pytest.raises(theirs.NoSuchTableError):
        peer.drop_table("ns.d")
    peer.create_table("ns.t", ROWS.schema)
    with pytest.raises(theirs.TableAlreadyExistsError):
        peer.rename_table("ns.t", "ns.d")
    with pytest.raises(TableAlreadyExists):
        store.tables.rename("ns.d", "ns.t")
    assert [row.name.name for row in store.tables.page("ns").items] == ["d", "t"]


def test_a_table_that_they_rename_or_drop_is_refused(both: tuple[CatalogStore, SqlCatalog]) -> None:
    store, peer = both
    peer.create_namespace("ns")
    for name in ("r", "d"):
        peer.create_table(f"ns.{name}", ROWS.schema)
    rows = store.tables.load_many(["ns.r", "ns.d"])
    swaps = [IcebergSwap(str(row.table_id), row.name, str(row.pointer), "x") for row in rows.values()]
    peer.rename_table("ns.r", "ns.s")
    peer.drop_table("ns.d")
    peer.create_table("ns.d", ROWS.schema)
    assert store.ratify("1", None, swaps) == Refused({swap.table_id: None for swap in swaps})
    assert store.tables.load("ns.s").table_id == rows[TableName(("ns",), "r")].table_id
    assert store.tables.load("ns.d").table_id != rows[TableName(("ns",), "d")].table_id


def test_namespaces_are_the_same_to_both(both: tuple[CatalogStore, SqlCatalog]) -> None:
    store, peer = both
    store.namespaces.create("ours.in", {"owner": "us"})
    peer.create_namespace("theirs", {"owner": "them"})
    peer.create_namespace("plain")
    tops = {parts[0] for parts in store.namespaces.children().items}
    assert tops == {parts[0] for parts in peer.list_namespaces()} >= {"ours", "theirs", "plain"}
    assert store.namespaces.children("ours").items == (("ours", "in"),)
    assert store.namespaces.properties("theirs") == {"owner": "them"}
    assert peer.load_namespace_properties("ours.in")["owner"] == "us"
    for name in ("theirs", "plain"):
        with pytest.raises(NamespaceAlreadyExists):
            store.namespaces.create(name)
    with pytest.raises(theirs.NamespaceAlreadyExistsError):
        peer.create_namespace("ours.in")
    store.namespaces.update("theirs", {"a": "b"}, ["owner"])
    assert peer.load_namespace_properties("theirs")["a"] == "b"
    peer.create_table("plain.t", ROWS.schema)
    with pytest.raises(NamespaceNotEmpty):
        store.namespaces.drop("plain")
    peer.drop_table("plain.t")
    store.namespaces.drop("plain")
    assert not peer.namespace_exists("plain")
    peer.drop_namespace("ours.in")
    with pytest.raises(NamespaceNotFound):
        store.tables.register_delta("ours.in.t", "lake/t", 0)


def test_tables_of_javas_first_schema_get_what_they_lack(url: str) -> None:
    with CatalogStore(url) as store:
        first = store.database
        first.write(lambda connection: [connection.exec_driver_sql(text) for text in (
            "DROP TABLE iceberg_tables",
            "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) "
            "NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), "
            "previous_metadata_location VARCHAR(1000), "
            "PRIMARY KEY (catalog_name, table_namespace, table_name))",
            "INSERT INTO iceberg_tables VALUES ('default', 'ns', 't', 't/1', 't/0')",
        )])
    for _ in range(2):
        with CatalogStore(url) as store:
            row = store.tables.load("ns.t")
            assert (row.pointer, row.previous_metadata_location, row.format) == ("t/1", "t/0", "iceberg")
            table_id = row.table_id
    with CatalogStore(url) as store:
        assert store.tables.load("ns.t").table_id == table_id
        with pytest.raises(TableAlreadyExists):  # ids are unique there, too
            store.tables.register_iceberg("ns.u", "u/0", table_id=table_id)


def test_views_are_no_tables_and_their_names_are_taken(store: CatalogStore) -> None:
    view = ("INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type) "
            "VALUES ('default', 'ns', 'v', 'VIEW')")
    store.database.write(lambda connection: connection.execute(sa.text(view)) and None)
    assert store.tables.page("ns").items == ()
    with pytest.raises(TableAlreadyExists, match="by a table or a view"):
        store.tables.register_delta("ns.v", "lake/v", 0)
    with pytest.raises(NamespaceNotEmpty):
        store.namespaces.drop("ns")
