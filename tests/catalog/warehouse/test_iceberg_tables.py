"""Iceberg tables of a catalog: made, registered, loaded, renamed, dropped, and where their files are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.iceberg.commit import Change, Committed, IcebergTable
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.rows import TableRow, insert_iceberg
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.upkeep import sweep
from deltanb.errors import (
    BadRequest,
    DeltaError,
    InvalidArgument,
    InvalidTable,
    NamespaceNotFound,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedProtocol,
)
from deltanb.options import options
from deltanb.testing import Fail, MemoryStore, ScriptedStore
from tests.catalog.iceberg_tables import BY_DAY, SCHEMA, set_properties, sort_by

Files = Callable[[], set[str]]


def path_of(location: str | None) -> Path:
    """The file of a location."""
    return Path(str(location).removeprefix("file://"))


def made(lake: IcebergTables, name: str = "ns.t", **more: Any) -> IcebergTable:
    table = lake.create(name, SCHEMA, **more)
    assert isinstance(table, IcebergTable)
    return table


def test_a_new_table_is_a_row_and_a_file(lake: IcebergTables, store: CatalogStore, files: Files) -> None:
    table = made(lake, partition_spec=BY_DAY, sort_order=sort_by(1), properties={"owner": "ada"})
    assert lake.load("ns.t") == table
    location = table.metadata["location"]
    assert location == f"{lake.warehouse.uri}/ns/t-{table.metadata['table-uuid'][:8]}"
    (file,) = files()
    assert table.metadata_location == f"{lake.warehouse.uri}/{file}"
    assert file.startswith(location.removeprefix(f"{lake.warehouse.uri}/") + "/metadata/00000-")
    assert json.loads(path_of(table.metadata_location).read_bytes()) == table.metadata
    assert store.garbage.due(2**62) == []
    assert table.metadata["properties"] == {"owner": "ada"}
    assert (table.metadata["default-spec-id"], table.metadata["default-sort-order-id"]) == (0, 1)


def test_files_are_numbered_by_the_commits_before(lake: IcebergTables, files: Files) -> None:
    made(lake)
    for at in range(3):
        lake.commit([Change(lake.row("ns.t").name, [], [set_properties(a=str(at))])])
    assert sorted(name.rpartition("/")[2][:6] for name in files()) == ["00000-", "00001-", "00002-", "00003-"]
    table = lake.load("ns.t")
    assert [entry["metadata-file"].rpartition("/")[2][:5] for entry in table.metadata["metadata-log"]] == [
        "00000", "00001", "00002"]
    assert lake.row("ns.t").previous_metadata_location == table.metadata["metadata-log"][-1]["metadata-file"]


def test_a_staged_table_is_nowhere_until_it_is_committed(lake: IcebergTables, files: Files) -> None:
    staged = made(lake, staged=True)
    assert (staged.table_id, staged.metadata_location, files()) == (None, None, set())
    with pytest.raises(TableNotFound):
        lake.load("ns.t")
    updates = [
        {"action": "assign-uuid", "uuid": staged.metadata["table-uuid"]},
        {"action": "set-location", "location": staged.metadata["location"]},
        {"action": "add-schema", "schema": SCHEMA}, {"action": "set-current-schema", "schema-id": -1}]
    done = lake.commit([Change(staged.name, [{"type": "assert-create"}], updates)])
    assert isinstance(done, Committed)
    assert lake.load("ns.t") == done.tables[0]
    assert done.tables[0].metadata["table-uuid"] == staged.metadata["table-uuid"]


@pytest.mark.parametrize("place", [
    "/elsewhere/t", "file:///elsewhere/t", "s3://bucket/t", "{lake}/../t", "{lake}/a/../../t", "{lake}",
    "{lake}//a", "{lake}/./a", "ns/t", "", "{lake}/a\n", "{lake}/" + "a" * 900])
def test_a_location_that_no_table_may_have_is_refused(lake: IcebergTables, files: Files, place: str) -> None:
    with pytest.raises(BadRequest) as caught:
        made(lake, location=place.format(lake=lake.warehouse.uri))
    assert caught.value.field == "location"
    assert files() == set() and not lake.store.tables.page("ns").items
    table = made(lake)
    before = files()
    move = {"action": "set-location", "location": place.format(lake=lake.warehouse.uri)}
    with pytest.raises(BadRequest, match="updates"):
        lake.commit([Change(table.name, [], [move])])
    assert (files(), lake.load("ns.t")) == (before, table)


@pytest.mark.parametrize("form", ["{path}/own", "file:{path}/own", "file://{path}/own/"])
def test_a_location_inside_is_kept_as_it_was_given(lake: IcebergTables, form: str) -> None:
    place = form.format(path=lake.warehouse.store.root)
    table = made(lake, location=place)
    assert table.metadata["location"] == place.rstrip("/")
    assert str(table.metadata_location).startswith(place.rstrip("/") + "/metadata/")
    lake.files.forget(str(table.metadata_location))
    assert lake.load("ns.t") == table


def test_a_table_that_cannot_be_made_leaves_nothing(lake: IcebergTables, files: Files) -> None:
    table = made(lake)
    lake.store.tables.register_delta("ns.d", "lake/d", 0)
    before = files()
    for name, error in (
        ("ns.t", TableAlreadyExists), ("ns.d", TableAlreadyExists), ("no.t", NamespaceNotFound),
        ("ns..t", InvalidArgument), ("t", InvalidArgument),
    ):
        for staged in (False, True):
            with pytest.raises(error):
                made(lake, name, staged=staged)
    for wrong in ({"properties": {"format-version": "x"}}, {"properties": {"format-version": "9"}},
                  {"partition_spec": {"fields": [{"source-id": 99, "transform": "identity", "name": "x"}]}}):
        with pytest.raises(BadRequest):
            made(lake, "ns.u", **wrong)
    assert files() == before
    assert lake.load("ns.t") == table
    assert lake.store.garbage.due(2**62) == []


def test_a_name_taken_while_the_file_is_written_leaves_no_file(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = lake.files.write

    def and_a_rival(file: Any) -> None:
        write(file)
        lake.store.tables.register_delta("ns.t", "lake/d", 0)

    monkeypatch.setattr(lake.files, "write", and_a_rival)
    with pytest.raises(TableAlreadyExists):
        made(lake)
    assert files() == set() and lake.store.garbage.due(2**62) == []


def test_a_full_disk_leaves_no_table(store: CatalogStore) -> None:
    disk = ScriptedStore(MemoryStore(), [Fail(OSError(28, "No space left on device"))])
    lake = IcebergTables(store, disk)
    with pytest.raises(StorageError, match="No space left"):
        made(lake)
    assert list(disk.list_all("")) == [] and store.tables.page("ns").items == ()
    assert made(lake) == lake.load("ns.t")


def test_a_registered_table_is_the_one_whose_file_it_is(lake: IcebergTables, files: Files) -> None:
    table = made(lake)
    lake.commit([Change(table.name, [], [set_properties(a="b")])])
    newest = lake.load("ns.t")
    lake.drop("ns.t")
    before = files()
    lake.register("ns.again", str(newest.metadata_location))
    assert lake.load("ns.again").metadata == newest.metadata
    with pytest.raises(TableAlreadyExists):
        lake.register("ns.again", str(table.metadata_location))
    lake.register("ns.again", str(table.metadata_location), overwrite=True)
    assert lake.load("ns.again").metadata == table.metadata
    with pytest.raises(BadRequest, match="the folder of another table"):
        lake.register("ns.new", str(table.metadata_location), overwrite=True)
    assert files() == before


@pytest.mark.parametrize(("content", "error"), [
    (b"", InvalidTable), (b"[]", InvalidTable), (b'{"format-version": 2}', InvalidTable),
    (b"{" * 20_000, InvalidTable), (b"\xff\xfe", InvalidTable), (b"\x1f\x8b\x08\x00broken", InvalidTable),
    (b'{"format-version": 9, "location": "x"}', UnsupportedProtocol),
    (b'{"format-version": 2, "location": "file:///elsewhere", "last-updated-ms": 0, "last-column-id": 0, '
     b'"schemas": [], "current-schema-id": 0, "partition-specs": [], "default-spec-id": 0, '
     b'"last-partition-id": 0, "sort-orders": [], "default-sort-order-id": 0}', BadRequest)])
def test_what_is_no_metadata_is_not_registered(
    lake: IcebergTables, tmp_path: Path, content: bytes, error: type[DeltaError]
) -> None:
    file = tmp_path / "lake" / "x.metadata.json"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(error):
        lake.register("ns.t", f"file://{file}")
    with pytest.raises(InvalidTable, match="there is no metadata file"):
        lake.register("ns.t", f"file://{file}.gone")
    with pytest.raises(BadRequest):
        lake.register("ns.t", "file:///etc/passwd")
    assert lake.store.tables.page("ns").items == ()


def test_packed_metadata_is_read(lake: IcebergTables) -> None:
    table = made(lake)
    packed = path_of(table.metadata_location).with_name("00007-x.gz.metadata.json")
    packed.write_bytes(gzip.compress(path_of(table.metadata_location).read_bytes()))
    lake.drop("ns.t")
    lake.register("ns.p", f"file://{packed}")
    assert lake.load("ns.p").metadata == table.metadata


def test_a_table_whose_file_is_gone_says_which(lake: IcebergTables) -> None:
    table = made(lake)
    path_of(table.metadata_location).unlink()
    lake.files.forget(str(table.metadata_location))
    with pytest.raises(InvalidTable) as caught:
        lake.load("ns.t")
    assert caught.value.file == table.metadata_location


def test_a_file_that_goes_because_the_table_moved_on_is_not_missed(
    lake: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake)
    load, rivals = lake.store.tables.load_many, [1]

    def and_a_rival(names: Any) -> dict[Any, TableRow]:
        rows = load(names)
        if rivals.pop() if rivals else 0:
            lake.commit([Change(table.name, [], [set_properties(a="b")])])
            path_of(table.metadata_location).unlink()
            lake.files.forget(str(table.metadata_location))
        return rows

    monkeypatch.setattr(lake.store.tables, "load_many", and_a_rival)
    assert lake.load("ns.t").metadata["properties"] == {"a": "b"}


def test_a_renamed_table_keeps_its_files_and_its_old_name_is_free(lake: IcebergTables) -> None:
    table = made(lake)
    lake.rename("ns.t", "ns.u")
    assert lake.load("ns.u").metadata == table.metadata
    with pytest.raises(TableNotFound):
        lake.load("ns.t")
    again = made(lake)
    assert again.metadata["location"] != table.metadata["location"]


def test_delta_tables_are_no_iceberg_tables(lake: IcebergTables) -> None:
    lake.store.tables.register_delta("ns.d", "lake/d", 0)
    for call in (lambda: lake.load("ns.d"), lambda: lake.drop("ns.d"), lambda: lake.rename("ns.d", "ns.e"),
                 lambda: lake.commit([Change(lake.store.tables.load("ns.d").name, [], [])])):
        with pytest.raises(TableNotFound):
            call()
    with pytest.raises(TableAlreadyExists):
        lake.register("ns.d", str(made(lake).metadata_location), overwrite=True)


def test_dropping_leaves_the_files_and_purging_does_not(lake: IcebergTables, files: Files) -> None:
    dropped, purged = made(lake, "ns.kept"), made(lake, "ns.purged")
    (path_of(purged.metadata["location"]) / "data").mkdir()
    (path_of(purged.metadata["location"]) / "data" / "a.parquet").write_bytes(b"1")
    lake.drop("ns.kept")
    lake.drop("ns.purged", purge=True)
    assert files() == {str(dropped.metadata_location).removeprefix(f"{lake.warehouse.uri}/")}
    assert lake.store.tables.page("ns").items == ()


def test_a_purge_that_is_cut_off_is_gone_on_with_by_a_sweep(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(lake).metadata["location"]

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("deltanb.catalog.iceberg.tables.delete_folder", cut_off)
        with pytest.raises(KeyboardInterrupt):
            lake.drop("ns.t", purge=True)
    assert files() and not lake.store.tables.page("ns").items
    with pytest.raises(BadRequest, match="folder of another table"):
        made(lake, location=place)
    sweep(lake.store)
    assert not files() and not lake.store.garbage.due(options.clock())
    made(lake, location=place)


@pytest.mark.parametrize("other", ["{own}", "{own}/inside", "{above}"])
def test_what_shares_its_folder_with_another_table_is_not_purged(
    lake: IcebergTables, files: Files, other: str
) -> None:
    """Another program asks nobody where its tables may lie."""
    own = f"{lake.warehouse.uri}/shared/own"
    made(lake, location=own)
    folder = other.format(own=own, above=f"{lake.warehouse.uri}/shared")
    lake.store.database.write(lambda connection: insert_iceberg(
        connection, lake.store.name, TableName.of("ns.o"), "theirs", f"{folder}/metadata/0.metadata.json"))
    made(lake, "ns.beside", location=f"{lake.warehouse.uri}/shared-and-more")
    before = files()
    with pytest.raises(InvalidArgument, match="lie in each other"):
        lake.drop("ns.t", purge=True)
    assert files() == before
    lake.drop("ns.beside", purge=True)
    lake.drop("ns.t")


def test_what_is_remembered_of_files_has_a_bound(lake: IcebergTables) -> None:
    lake.files._max_cached = 5000
    tables = [made(lake, f"ns.t{at}") for at in range(20)]
    assert 0 < lake.files._size <= 5000 and len(lake.files._cached) < 20
    assert [lake.load(table.name) for table in tables] == tables
    assert lake.files._size == sum(size for size, _ in lake.files._cached.values())
