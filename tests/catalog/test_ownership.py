"""Folders are taken one after the other, and those of tables that nobody took them for count as well."""

from __future__ import annotations

import threading

import pytest

from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ownership import NEW_TABLE, PURGED, FolderNote
from deltanb.catalog.store.rows import insert_iceberg
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import iceberg_tables, places
from deltanb.errors import TableAlreadyExists

PAIRS = [("/lake/{}", "/lake/{}"), ("/lake/{}", "/lake/{}/b/c"), ("/lake/{}/b", "/lake/{}"),
         ("s3://bucket/{}", "s3a://bucket/{}/b")]
TURNS = 5


@pytest.fixture(autouse=True)
def namespace(store: CatalogStore) -> None:
    if not store.namespaces.exists("ns"):
        store.namespaces.create("ns")


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_of_two_at_once_one_has_the_folder(store: CatalogStore, one: str, two: str) -> None:
    """Neither sees the other's row before that one has committed."""
    both, ends = threading.Barrier(2), []

    def register(name: str, place: str) -> None:
        both.wait()
        try:
            store.tables.register_delta(name, place, 0)
        except TableAlreadyExists:
            ends.append("refused")
        else:
            ends.append("had")

    for turn in range(TURNS):
        threads = [threading.Thread(target=register, args=(f"ns.t{turn}{at}", place.format(turn)))
                   for at, place in enumerate((one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(ends) == ["had"] * TURNS + ["refused"] * TURNS


def test_beside_each_other_is_no_place_in_each_other(store: CatalogStore) -> None:
    for at, name in enumerate(("a", "ab", "a.b", "A", "a_", "%", "x%y", "aé")):
        store.tables.register_delta(f"ns.t{at}", f"/lake/{name}", 0)


@pytest.mark.parametrize("place", ["/lake/old", "/lake/old/in", "/lake"])
def test_tables_of_an_earlier_version_have_their_folders(store: CatalogStore, place: str) -> None:
    store.tables.register_delta("ns.old", "/lake/old", 0)
    store.database.write(lambda connection: connection.execute(places.delete()).rowcount)
    with pytest.raises(TableAlreadyExists):
        store.tables.register_delta("ns.new", place, 0)


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("place", ["/lake/theirs", "/lake/theirs/in", "/lake"])
def test_tables_that_others_made_have_their_folders(store: CatalogStore, place: str, has_id: bool) -> None:
    """In another catalog of the database, into whose history nobody has taken them yet."""
    def make(connection: object) -> None:
        insert_iceberg(connection, store.name, TableName.of("ns.t"), "x",  # type: ignore[arg-type]
                       "file:///lake/theirs/metadata/0.metadata.json")
        if not has_id:
            connection.execute(  # type: ignore[attr-defined]
                iceberg_tables.update().values(dn_table_id=None, catalog_name="another"))

    store.database.write(make)
    with pytest.raises(TableAlreadyExists):
        store.tables.register_delta("ns.new", place, 0)


def test_tables_without_ids_are_looked_at_once(
    store: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look follows links on the disk: a catalog beside this one may have thousands of tables."""
    def make(connection: object) -> None:
        for at in range(9):
            insert_iceberg(connection, store.name, TableName.of(f"ns.t{at}"), f"{at}",  # type: ignore[arg-type]
                           f"file:///lake/{at}/metadata/0.metadata.json")
        connection.execute(  # type: ignore[attr-defined]
            iceberg_tables.update().values(dn_table_id=None, catalog_name="another"))

    store.database.write(make)
    assert store.tables.claims_on("/lake/5/in", []).other == "/lake/5"
    looked: list[str] = []
    monkeypatch.setattr("deltanb.catalog.store.ownership.key_of", lambda place: looked.append(place) or place)
    assert store.tables.claims_on("/lake/5/in", []).other == "/lake/5"
    assert set(looked) == {"/lake/5/in"}


def test_a_folder_is_had_again_after_a_drop(store: CatalogStore) -> None:
    store.tables.register_delta("ns.a", "/lake/t", 0, "1")
    with pytest.raises(TableAlreadyExists):
        store.tables.note_folder("/lake/t/in", FolderNote(NEW_TABLE, "2"), 0)
    store.tables.drop("ns.a", purged_from=7)
    assert store.garbage.due(7) == [("/lake/t", FolderNote(PURGED, "1").reason)]
    with pytest.raises(TableAlreadyExists):  # its files are being deleted
        store.tables.register_delta("ns.b", "/lake/t", 0, "2")
    store.tables.register_delta("ns.b", "/lake/t", 0, "1")
    assert store.garbage.due(7) == []


def test_a_note_is_its_tables(store: CatalogStore) -> None:
    store.tables.note_folder("/lake/t", FolderNote(NEW_TABLE, "1"), 0)
    store.tables.note_folder("file:///lake/t/", FolderNote(NEW_TABLE, "1"), 5)
    for place in ("/lake/t", "/lake/t/in", "/lake"):
        with pytest.raises(TableAlreadyExists):
            store.tables.register_delta("ns.b", place, 0, "2")
        with pytest.raises(TableAlreadyExists):
            store.tables.note_folder(place, FolderNote(NEW_TABLE, "2"), 0)
    store.tables.register_delta("ns.a", "/lake/t", 0, "1")
