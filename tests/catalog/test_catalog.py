"""A catalog, in the process and over HTTP: tables under it, and several of them in one transaction."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.store import CatalogStore
from deltanb.log.commits import STAGED_FOLDER, commit_name
from deltanb.log.compaction import write_compaction
from deltanb.options import options
from deltanb.store.local import LocalStore
from tests.catalog.conftest import url_of


def files_below(folder: Path | str) -> list[str]:
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


@pytest.fixture
def other(catalog: dn.Catalog) -> Iterator[dn.Catalog]:
    """The same catalog, of which nothing is known yet."""
    is_here = isinstance(catalog.store, CatalogStore)
    with dn.Catalog(url_of(catalog.store), catalog.warehouse.uri) if is_here else dn.connect(
            catalog.store.url) as other:
        yield other


def rows(table: dn.DeltaTable) -> list[dict]:
    return sorted(table.to_arrow().to_pylist(), key=str)


# -- one table ---------------------------------------------------------------------------------------


def test_a_table_of_a_catalog_is_managed_and_works_as_any_other(catalog: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1, 2]}, properties={"delta.appendOnly": "false"})
    assert table.name == "shop.orders" and table.version == 0
    assert "catalogManaged" in table.protocol.reader_features
    assert {"catalogManaged", "inCommitTimestamp"} <= set(table.protocol.writer_features)
    assert table.properties["delta.enableInCommitTimestamps"] == "true"
    assert table.append({"id": [3]}) == 1
    table.delete("id = 1")
    table.merge({"id": [3, 9]}, "t.id = s.id", target_alias="t", source_alias="s") \
        .when_not_matched_insert_all().execute()
    assert rows(catalog.table("shop.orders")) == [{"id": 2}, {"id": 3}, {"id": 9}]
    assert rows(table.as_of(0)) == [{"id": 1}, {"id": 2}]
    table.optimize()
    table.restore(1)
    table.vacuum()
    assert rows(table) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert [e.operation for e in table.history()][-2:] == ["WRITE", "CREATE TABLE AS SELECT"]
    stamps = [e.timestamp for e in table.history()]
    assert stamps == sorted(set(stamps), reverse=True)


def test_each_commit_is_staged_ratified_and_published_with_the_same_content(catalog: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    table.append({"id": [2]})
    log = Path(table.path)
    (staged,) = (log / STAGED_FOLDER).iterdir()
    assert staged.name.startswith(f"{1:020}.") and staged.name.endswith(".json")
    assert (log / commit_name(1)).read_bytes() == staged.read_bytes()
    assert published(catalog) == (1, 0), "the catalog hears of it with the next commit"
    row = catalog.store.tables.load("shop.orders")
    assert row.delta is not None and row.delta.last_ict == table.snapshot.timestamp
    table.append({"id": [3]})
    assert published(catalog) == (2, 1)
    table.log.checkpoint()
    assert published(catalog) == (2, 2), "or at once, where what others read is built on it"


def published(catalog: dn.Catalog) -> tuple[int, int]:
    """The latest version of ``shop.orders``, and the one up to which the catalog has it as published."""
    state = catalog.store.tables.load("shop.orders").delta
    assert state is not None
    return state.latest, state.published


def test_a_name_that_is_taken_is_refused_left_or_replaced(catalog: dn.Catalog, other: dn.Catalog) -> None:
    for number, mode in enumerate(("error", "ignore", "overwrite")):
        assert catalog.create_table(f"shop.new{number}", {"id": [1]}, mode=mode).version == 0
    table = catalog.create_table("shop.orders", {"id": [1]}, cluster_by="id", properties={"owner": "ann"})
    assert table.detail()["clusteringColumns"] == ["id"]
    with pytest.raises(errors.TableAlreadyExists, match=r"shop\.orders"):
        catalog.create_table("shop.orders", {"nr": [2]})
    assert rows(other.create_table("shop.orders", {"nr": [2]}, mode="ignore")) == [{"id": 1}]
    with pytest.raises(errors.InvalidArgument, match="a table that is replaced takes no location"):
        catalog.create_table("shop.orders", {"nr": [2]}, mode="overwrite", location=table.path + "2")
    with pytest.raises(errors.InvalidArgument, match="mode='append' is not one of error, ignore, .* replace"):
        catalog.create_table("shop.orders", {"nr": [2]}, mode="append")
    with pytest.raises(errors.TableNotFound, match="there is no table shop.none to be replaced"):
        catalog.create_table("shop.none", {"nr": [2]}, mode="replace")
    assert other.table("shop.orders").version == 0
    replaced = other.create_table(
        "shop.orders", {"nr": [2], "day": ["mon"]}, partition_by="day", mode="overwrite")
    assert (replaced.version, replaced.path, replaced.partition_columns) == (1, table.path, ("day",))
    assert rows(catalog.table("shop.orders")) == [{"nr": 2, "day": "mon"}]
    assert rows(table.as_of(0)) == [{"id": 1}]
    assert "catalogManaged" in replaced.protocol.features and "owner" not in replaced.properties
    assert replaced.append({"nr": [3], "day": ["tue"]}) == 2


def test_a_table_is_refused_by_path(catalog: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    for opened in (lambda: dn.open(table.path), lambda: dn.DeltaLog.for_table(table.path).snapshot,
                   lambda: dn.create(table.path, {"id": [1]}, mode="overwrite")):
        with pytest.raises(errors.UnsupportedProtocol, match=r"catalogManaged.*through the catalog"):
            opened()
    assert table.append({"id": [2]}) == 1


def test_a_clone_lies_in_a_folder_and_is_nobodys(catalog: dn.Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    clone = table.clone(tmp_path / "clone")
    assert "catalogManaged" not in clone.protocol.features
    assert rows(dn.open(tmp_path / "clone")) == [{"id": 1}]


def test_no_path_makes_a_table_managed(tmp_path: Path) -> None:
    managed = {"delta.feature.catalogManaged": "supported"}
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        dn.create(tmp_path / "a", {"id": [1]}, properties=managed)
    assert not files_below(tmp_path / "a")
    table = dn.create(tmp_path / "b", {"id": [1]})
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        table.add_feature("catalogManaged")
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        table.set_properties(managed)
    assert table.version == 0


def test_what_is_ratified_counts_whatever_the_folder_has(catalog: dn.Catalog, other: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    log = Path(table.path)
    table.append({"id": [2]})
    (log / commit_name(2)).write_bytes(b"past the catalog\n")
    (log / f"_delta_log/{9:020}.checkpoint.parquet").write_bytes(b"above the newest")
    assert table.version == 1 and rows(table) == [{"id": 1}, {"id": 2}]
    table.append({"id": [3]})  # ratified; its publication finds a file of that name
    assert rows(other.table("shop.orders")) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert published(catalog) == (2, 1)
    with pytest.raises(errors.InvalidArgument, match="not published"):
        table.log.checkpoint(2)
    (log / commit_name(2)).unlink()
    table.append({"id": [4]})  # publishes the one before as well
    table.append({"id": [5]})
    assert published(catalog) == (4, 3)


def test_a_ratified_commit_whose_file_is_gone_is_named(catalog: dn.Catalog, other: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    (Path(table.path) / commit_name(1)).write_bytes(b"in the way\n")
    table.append({"id": [2]})
    (staged,) = (Path(table.path) / STAGED_FOLDER).iterdir()
    staged.unlink()
    with pytest.raises(errors.InvalidTable, match="has ratified version 1") as caught:
        other.table("shop.orders").to_arrow()
    assert caught.value.version == 1


def test_register_takes_a_table_over_and_ends_its_life_by_path(catalog: dn.Catalog, tmp_path: Path) -> None:
    by_path = dn.create(tmp_path / "lake" / "old", {"id": [1]})
    by_path.append({"id": [2]})
    before = by_path.log.start_transaction()
    before.read_whole_table()
    table = catalog.register_table("shop.old", tmp_path / "lake" / "old")
    assert table.version == 2 and rows(table) == [{"id": 1}, {"id": 2}]
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        before.commit([], "WRITE")
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        by_path.append({"id": [3]})
    assert table.append({"id": [3]}) == 3
    with pytest.raises(errors.TableAlreadyExists):
        catalog.register_table("shop.again", tmp_path / "lake" / "old")
    with pytest.raises(errors.InvalidArgument, match="outside of the warehouse"):
        catalog.register_table("shop.else", dn.create(tmp_path / "else", {"id": [1]}).path)
    catalog.drop_table("shop.old")
    assert rows(catalog.register_table("shop.new", tmp_path / "lake" / "old"))[-1] == {"id": 3}


def test_a_refused_creation_leaves_nothing(
    catalog: dn.Catalog, behind: CatalogStore, tmp_path: Path
) -> None:
    catalog.create_table("shop.orders", {"id": [1]}, location=tmp_path / "lake" / "mine")
    before = files_below(tmp_path / "lake")
    for call, error in (
        (lambda: catalog.create_table("shop.orders", {"id": [1]}), errors.TableAlreadyExists),
        (lambda: catalog.create_table("attic.orders", {"id": [1]}), errors.NamespaceNotFound),
        (lambda: catalog.create_table("orders", {"id": [1]}), errors.InvalidArgument),
        (lambda: catalog.create_table("shop.b", {"id": [1]}, location=tmp_path / "b"),
         errors.InvalidArgument),
        (lambda: catalog.create_table("shop.b", {"id": [1]}, location=f"{tmp_path}/lake/../b"),
         errors.InvalidArgument),
        (lambda: catalog.create_table("shop.b", {"id": [1]}, location=tmp_path / "lake" / "mine"),
         errors.TableAlreadyExists),
        (lambda: catalog.create_table("shop.b", {"id": [1]}, partition_by="nothing"), errors.DeltaError),
        (lambda: catalog.create_table("shop.b", {"id": [1]}, format="hudi"), errors.InvalidArgument),
    ):
        with pytest.raises(error):
            call()
    assert files_below(tmp_path / "lake") == before
    assert not behind.garbage.due(10**15)


def test_a_name_taken_while_the_files_are_written_leaves_nothing(
    catalog: dn.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_must_be_free", lambda name: None)
    first = catalog.create_table("shop.orders", {"id": [1]})
    before = files_below(tmp_path / "lake")
    with pytest.raises(errors.TableAlreadyExists):
        catalog.create_table("shop.orders", {"id": [2]})
    assert files_below(tmp_path / "lake") == before and rows(first) == [{"id": 1}]


def test_renamed_and_dropped_tables(catalog: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    catalog.rename_table("shop.orders", "shop.bills")
    assert catalog.list_tables("shop") == ["shop.bills"]
    with pytest.raises(errors.TableNotFound, match="dropped or renamed"):
        table.append({"id": [2]})
    renamed = catalog.table("shop.bills")
    assert renamed.append({"id": [3]}) == 1
    files = files_below(renamed.path)
    catalog.drop_table("shop.bills")
    assert files_below(renamed.path) == files
    with pytest.raises(errors.TableNotFound):
        renamed.append({"id": [4]})
    with pytest.raises(errors.TableNotFound):
        catalog.table("shop.bills")
    again = catalog.create_table("shop.orders", {"id": [1]})
    catalog.drop_table("shop.orders", purge=True)
    assert not files_below(again.path)


def test_a_commit_that_lands_while_a_table_is_dropped_is_not_lost(
    catalog: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    drop, others = catalog.store.tables.drop, iter([2, 3])

    def raced(*args: object, **settings: object) -> object:
        with suppress(StopIteration), monkeypatch.context() as cut:
            cut.setattr(ManagedCommitter, "publish", lambda *_: None)  # another process, before it publishes
            table.append({"id": [next(others)]})
        return drop(*args, **settings)

    monkeypatch.setattr(catalog.store.tables, "drop", raced)
    catalog.drop_table("shop.orders")
    monkeypatch.undo()
    assert rows(catalog.register_table("shop.again", table.path)) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_folder_that_was_noted_as_garbage_is_none_once_it_is_a_table(
    catalog: dn.Catalog, behind: CatalogStore, tmp_path: Path
) -> None:
    garbage, place = behind.garbage, tmp_path / "lake" / "old"
    dn.create(place, {"id": [1]})
    garbage.record([str(place)], "left", 0)
    catalog.register_table("shop.old", place)
    assert not garbage.due(10**15)
    other = dn.create(tmp_path / "lake" / "other", {"id": [1]})
    garbage.record([other.path], "left", 0)
    assert garbage.claim([other.path], 1) == [other.path]
    with pytest.raises(errors.DataFileNotFound, match="are being deleted"):
        catalog.register_table("shop.other", other.path)


def test_what_the_catalog_never_heard_of_is_published_again(
    catalog: dn.Catalog, other: dn.Catalog
) -> None:
    """Another writer looks whether it is there, and reports it."""
    table = catalog.create_table("shop.orders", {"id": [1]})
    table.append({"id": [2]})
    assert published(catalog) == (1, 0)
    assert other.table("shop.orders").append({"id": [3]}) == 2
    assert published(catalog) == (2, 0), "it had looked at nothing yet"
    Path(table.path, commit_name(2)).unlink()  # as if it was killed before it published
    assert table.append({"id": [4]}) == 3 and table.append({"id": [5]}) == 4
    assert published(catalog) == (4, 3) and Path(table.path, commit_name(2)).exists()
    catalog.drop_table("shop.orders")
    assert len(rows(catalog.register_table("shop.again", table.path))) == 5


def test_what_is_reported_is_on_the_disk_before(
    catalog: dn.Catalog, other: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gave a commit its name in the folder: they may have been killed before they waited for it."""
    synced: list[str] = []
    monkeypatch.setattr(LocalStore, "sync_folder", lambda self, folder: synced.append(Path(folder).name))
    catalog.create_table("shop.orders", {"id": [1]}).append({"id": [2]})
    theirs = other.table("shop.orders")
    for version in (2, 3):
        synced.clear()
        assert theirs.append({"id": [version]}) == version
        assert ("_delta_log" in synced) == (version == 3)
    assert published(catalog) == (3, 2)

    def fails(_: LocalStore, folder: str) -> None:
        if Path(folder).name == "_delta_log":
            raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(LocalStore, "sync_folder", fails)
    assert theirs.append({"id": [4]}) == 4 and published(catalog) == (4, 2)
    monkeypatch.undo()
    assert theirs.append({"id": [5]}) == 5 and published(catalog) == (5, 4)


# -- several tables ----------------------------------------------------------------------------------


@pytest.fixture
def shop(catalog: dn.Catalog) -> dn.Catalog:
    catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})
    catalog.create_table("shop.totals", {"orders": [2], "sum": [30]})
    return catalog


def test_tables_are_committed_together_and_later_statements_see_earlier_ones(shop: dn.Catalog) -> None:
    orders, totals = shop.table("shop.orders"), shop.table("shop.totals")
    with shop.transaction() as txn:
        mine = txn.table("shop.orders")
        mine.append({"id": [3], "price": [30]})
        mine.delete("id = 1")
        count = mine.to_arrow().num_rows
        txn.table("shop.totals").update({"orders": str(count), "sum": "sum + 20"})
        assert rows(orders)[0]["id"] == 1 and rows(totals) == [{"orders": 2, "sum": 30}]
    assert txn.status == "committed" and txn.committed is not None
    assert dict(txn.committed.versions) == {"shop.orders": 1, "shop.totals": 1}
    assert rows(orders) == [{"id": 2, "price": 20}, {"id": 3, "price": 30}]
    assert rows(totals) == [{"orders": 2, "sum": 50}]
    infos = [table.log.read_commit(1)[0] for table in (orders, totals)]
    assert {info.txn_id for info in infos} == {txn.txn_id}
    assert [info.operation for info in infos] == ["TRANSACTION", "UPDATE"]
    (newest, *_) = shop.history(1)
    assert newest.seq == txn.committed.seq and newest.txn_id == txn.txn_id
    assert len(newest.changes) == 2


def test_a_file_that_is_added_and_removed_again_vanishes(shop: dn.Catalog) -> None:
    table = shop.table("shop.orders")

    def data_files() -> set[str]:
        return {name for name in files_below(table.path) if name.endswith(".parquet") and "_log" not in name}

    before = data_files()
    with shop.transaction() as txn:
        mine = txn.table("shop.orders")
        mine.append({"id": [7], "price": [70]})
        (first,) = data_files() - before
        mine.update({"price": "71"}, where="id = 7")
        (second,) = data_files() - before - {first}
        mine.delete("id = 7")
        mine.append({"id": [8], "price": [80]})
    (last,) = data_files() - before
    assert last not in (first, second)
    actions = table.log.read_commit(1)
    assert [(type(a).__name__, a.path) for a in actions if hasattr(a, "path")] == [("AddFile", last)]
    assert actions[0].operation == "TRANSACTION"
    assert [row["id"] for row in rows(table)] == [1, 2, 8]


def test_a_conflict_of_one_abandons_all_and_leaves_no_file(shop: dn.Catalog, tmp_path: Path) -> None:
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"sum": "sum + 30"})
    shop.table("shop.totals").update({"sum": "0"})
    before = files_below(tmp_path / "lake")
    with pytest.raises(errors.ConcurrentAppendException) as caught:
        txn.commit()
    assert txn.status == "failed" and txn.conflict is caught.value.conflict
    assert caught.value.conflict.table == "shop.totals"
    assert shop.table("shop.orders").version == 0
    gone = set(before) - set(files_below(tmp_path / "lake"))
    assert {Path(name).suffix for name in gone} == {".parquet"} and len(gone) == 2
    assert not [name for name in files_below(tmp_path / "lake") if name not in before]


def test_only_the_table_that_lost_stages_again(shop: dn.Catalog, tmp_path: Path) -> None:
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"sum": "sum + 30"})
    shop.table("shop.orders").append({"id": [4], "price": [40]})
    done = txn.commit()
    assert done is not None and dict(done.versions) == {"shop.orders": 2, "shop.totals": 1}
    assert [r["id"] for r in rows(shop.table("shop.orders"))] == [1, 2, 3, 4]
    for name in ("shop.orders", "shop.totals"):
        folder = Path(shop.table(name).path) / STAGED_FOLDER
        assert len(list(folder.iterdir())) == shop.table(name).version


def test_a_table_that_was_only_read_counts(shop: dn.Catalog) -> None:
    txn = shop.transaction()
    total = txn.table("shop.totals").to_arrow()["sum"][0].as_py()
    txn.table("shop.orders").append({"id": [3], "price": [total]})
    shop.table("shop.totals").update({"sum": "99"})
    with pytest.raises(errors.ConcurrentAppendException) as caught:
        txn.commit()
    assert caught.value.conflict.table == "shop.totals"
    assert shop.table("shop.orders").version == 0


def test_a_table_that_was_only_asked_for_does_not(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        txn.table("shop.totals")
        txn.table("shop.orders").append({"id": [3], "price": [1]})
        shop.table("shop.totals").update({"sum": "99"})
    assert shop.table("shop.orders").version == 1


def test_all_tables_are_read_at_one_instant(shop: dn.Catalog) -> None:
    txn = shop.transaction()
    assert txn.table("shop.orders").to_arrow().num_rows == 2
    with shop.transaction() as other:
        other.table("shop.orders").delete("id = 1")
        other.table("shop.totals").update({"orders": "1", "sum": "20"})
    assert rows(txn.table("shop.totals")) == [{"orders": 2, "sum": 30}]
    txn.give_up()
    made_later = shop.transaction()
    shop.create_table("shop.later", {"id": [1]})
    with pytest.raises(errors.TableNotFound, match="made later"):
        made_later.table("shop.later")


def test_an_exception_gives_all_of_it_up(shop: dn.Catalog, tmp_path: Path) -> None:
    before = files_below(tmp_path / "lake")
    with pytest.raises(RuntimeError, match="mind"), shop.transaction() as txn:
        txn.table("shop.orders").append({"id": [3], "price": [30]})
        raise RuntimeError("changed my mind")
    assert txn.status == "abandoned" and files_below(tmp_path / "lake") == before
    for call in (lambda: txn.table("shop.orders"), txn.commit,
                 lambda: txn.tables["shop.orders"].append({"id": [1], "price": [1]})):
        with pytest.raises(errors.IllegalStateError):
            call()


def test_nothing_to_commit_is_no_commit(shop: dn.Catalog) -> None:
    before = shop.store.instant()
    with shop.transaction() as txn:
        txn.table("shop.orders").delete("id = 77")
        txn.table("shop.totals").to_arrow()
    assert txn.committed is None and shop.store.instant() == before


def test_commands_that_commit_by_themselves_are_refused_by_name(shop: dn.Catalog) -> None:
    for call in (lambda t: t.vacuum(), lambda t: t.optimize(), lambda t: t.restore(0), lambda t: t.clone("x"),
                 lambda t: t.convert("x"), lambda t: t.purge(), lambda t: t.start_transaction(),
                 lambda t: t.drop_feature("catalogManaged"), lambda t: t.transaction(),
                 lambda t: t.generate()):
        with shop.transaction() as txn, pytest.raises(errors.IllegalStateError, match=r"shop\.orders"):
            call(txn.table("shop.orders"))


def test_a_table_dropped_or_renamed_meanwhile_ends_the_transaction(shop: dn.Catalog) -> None:
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"sum": "sum + 30"})
    shop.rename_table("shop.totals", "shop.sums")
    with pytest.raises(errors.TableNotFound, match=r"shop\.totals.*dropped or renamed"):
        txn.commit()
    assert shop.table("shop.orders").version == 0 and txn.status == "failed"


def test_snapshots_of_several_tables_are_never_torn(shop: dn.Catalog) -> None:
    then = shop.snapshot(["shop.orders", "shop.totals"])
    start = shop.history(1)[0].time
    while options.clock() <= start:  # until the next millisecond: a server's clock is its own
        pass
    with shop.transaction() as txn:
        txn.table("shop.orders").append({"id": [3], "price": [30]})
        txn.table("shop.totals").update({"sum": "60"})
    end = shop.history(1)[0].time
    assert then.versions == {"shop.orders": 0, "shop.totals": 0}
    assert shop.snapshot(["shop.orders", "shop.totals"]).versions == {"shop.orders": 1, "shop.totals": 1}
    past = shop.as_of(end - 1)
    assert rows(past["shop.totals"]) == [{"orders": 2, "sum": 30}] and past.versions == {"shop.totals": 0}
    assert rows(shop.as_of(end)["shop.totals"]) == [{"orders": 2, "sum": 60}]
    with pytest.raises(errors.TableNotFound):
        shop.as_of(1)["shop.orders"]
    with pytest.raises(errors.IllegalStateError):
        past["shop.totals"].append({"orders": [1], "sum": [1]})


def test_a_clock_that_is_set_back_changes_no_order(shop: dn.Catalog) -> None:
    table = shop.table("shop.orders")
    first = shop.history(1)[0].time
    with dn.set_options(clock=lambda: first - 10**6):
        table.append({"id": [3], "price": [1]})
        table.append({"id": [4], "price": [1]})
    times = [entry.time for entry in shop.history()]
    assert times == sorted(times, reverse=True)
    stamps = [entry.timestamp for entry in table.history()]
    assert stamps == sorted(set(stamps), reverse=True)


def test_a_log_clean_up_removes_what_was_staged_for_the_versions_that_go(
    catalog: dn.Catalog, other: dn.Catalog
) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]}, properties={
        "delta.logRetentionDuration": "interval 1 days", "delta.checkpointInterval": 3})
    for number in range(4):
        table.append({"id": [number]})
    log = Path(table.path)
    now = table.snapshot.timestamp
    for version in range(5):
        os.utime(log / commit_name(version), (version, version))
    with dn.set_options(clock=lambda: now + 5 * 86_400_000):
        table.log.clean_up()
    assert [file.name[:20] for file in sorted((log / STAGED_FOLDER).iterdir())] == [f"{4:020}"]
    assert not (log / commit_name(2)).exists() and (log / commit_name(4)).exists()
    assert other.table("shop.orders").to_arrow().num_rows == 5


def test_logs_by_path_and_by_catalog_share_nothing(catalog: dn.Catalog, tmp_path: Path) -> None:
    dn.create(tmp_path / "lake" / "old", {"id": [1]})
    by_path = dn.DeltaLog.for_table(tmp_path / "lake" / "old")
    table = catalog.register_table("shop.old", tmp_path / "lake" / "old")
    assert dn.DeltaLog.for_table(tmp_path / "lake" / "old") is by_path is not table.log
    assert catalog.table("shop.old").log is table.log
    table.append({"id": [2]})
    assert by_path.snapshot.version == 0  # what it holds; it sees nothing newer
    with pytest.raises(errors.UnsupportedProtocol):
        by_path.update()


def test_what_fails_after_the_commit_is_logged_and_the_commit_stands(
    shop: dn.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    shop.table("shop.orders").set_properties({"delta.checkpointInterval": 2})
    log = Path(shop.table("shop.orders").path) / "_delta_log"
    (log / f"{2:020}.checkpoint.parquet").mkdir()  # nothing can be written there
    (Path(shop.table("shop.totals").path) / commit_name(1)).write_bytes(b"in the way\n")
    with shop.transaction() as txn:
        txn.table("shop.orders").append({"id": [3], "price": [30]})
        txn.table("shop.totals").update({"orders": "3"})
    assert txn.status == "committed" and txn.committed is not None
    assert dict(txn.committed.versions) == {"shop.orders": 2, "shop.totals": 1}
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert "Checkpoint for commit 2" in logged and "not published yet" in logged
    assert rows(shop.table("shop.totals")) == [{"orders": 3, "sum": 30}]
    assert len(rows(shop.table("shop.orders"))) == 3


def test_appends_that_depend_on_another_table_are_not_blind(shop: dn.Catalog) -> None:
    """Each reads one table and appends to the other: in no order could the second have read what it did."""
    one, two = shop.transaction(), shop.transaction()
    count = one.table("shop.orders").to_arrow().num_rows
    one.table("shop.totals").append({"orders": [count], "sum": [0]})
    total = two.table("shop.totals").to_arrow().num_rows
    two.table("shop.orders").append({"id": [9], "price": [total]})
    one.commit()
    with pytest.raises(errors.ConcurrentAppendException) as caught:
        two.commit()
    assert caught.value.conflict.table == "shop.totals" and shop.table("shop.orders").version == 0
    (info,) = [a for a in shop.table("shop.totals").log.read_commit(1) if hasattr(a, "is_blind_append")]
    assert info.is_blind_append is False


def test_a_table_that_was_read_is_checked_as_its_isolation_level_says(shop: dn.Catalog) -> None:
    """WriteSerializable lets blind appends pass, as on one table; Serializable, the default, none."""
    for level in ("Serializable", "WriteSerializable"):
        shop.table("shop.orders").set_properties({"delta.isolationLevel": level})
        txn = shop.transaction()
        count = txn.table("shop.orders").to_arrow().num_rows
        txn.table("shop.totals").append({"orders": [count], "sum": [0]})
        shop.table("shop.orders").append({"id": [9], "price": [1]})
        if level == "Serializable":
            with pytest.raises(errors.ConcurrentAppendException, match=r"shop\.orders"):
                txn.commit()
        else:
            assert txn.commit() is not None
    assert shop.table("shop.totals").version == 1


def test_what_was_read_elsewhere_does_not_make_appends_meet(shop: dn.Catalog) -> None:
    """Two append to one table, one of them after a look at the other table: neither saw the other's rows."""
    txn = shop.transaction()
    count = txn.table("shop.totals").to_arrow().num_rows
    txn.table("shop.orders").append({"id": [9], "price": [count]})
    shop.table("shop.orders").append({"id": [8], "price": [1]})
    assert txn.commit() is not None and shop.table("shop.orders").version == 2


def test_no_command_takes_what_the_catalog_needs_of_a_table(catalog: dn.Catalog, tmp_path: Path) -> None:
    """Its timestamps, and the id that clients of Unity Catalog ask for, whatever becomes of the rest."""
    dn.create(tmp_path / "lake" / "old", {"id": [1]})
    table = catalog.register_table("shop.old", tmp_path / "lake" / "old")
    mine = table.properties["io.unitycatalog.tableId"]
    assert mine == catalog.store.tables.load("shop.old").table_id
    table.append({"id": [2]})
    table.restore(0)
    assert rows(table) == [{"id": 1}] and table.properties["io.unitycatalog.tableId"] == mine
    assert table.properties["delta.enableInCommitTimestamps"] == "true"
    for call in (lambda: table.set_properties({"delta.enableInCommitTimestamps": "false"}),
                 lambda: table.unset_properties("delta.enableInCommitTimestamps"),
                 lambda: table.set_properties({"io.unitycatalog.tableId": "another"}),
                 lambda: table.drop_feature("catalogManaged")):
        with pytest.raises(errors.DeltaError, match="catalog"):
            call()
    table.overwrite({"other": [1]}, overwrite_schema=True)
    assert table.properties["io.unitycatalog.tableId"] == mine
    assert "io.unitycatalog.tableId" not in table.clone(tmp_path / "clone").properties


def test_what_is_of_another_type_is_refused_by_the_arguments_name(shop: dn.Catalog, tmp_path: Path) -> None:
    for value in (7, b"x", object(), ("s",)):
        refuse_another_type(shop, tmp_path, value)


def refuse_another_type(shop: dn.Catalog, tmp_path: Path, value: object) -> None:
    before = files_below(tmp_path / "lake"), shop.list_tables("shop"), shop.list_namespaces()
    for kind in ("delta", "iceberg"):
        for argument in ("properties", "location"):
            with pytest.raises(errors.InvalidArgument, match=f"^{argument}="):
                shop.create_table("shop.new", {"id": [1]}, format=kind, **{argument: value})
    for call in (lambda: shop.create_namespace("attic", value),
                 lambda: shop.update_namespace_properties("shop", value),
                 lambda: shop.register_table("shop.new", value), lambda: shop.page("shop", value),
                 lambda: shop.page("shop", None, str(value)), lambda: shop.table(value),
                 lambda: shop.rename_table("shop.orders", value), lambda: shop.snapshot([value])):
        with pytest.raises(errors.InvalidArgument):
            call()
    assert (files_below(tmp_path / "lake"), shop.list_tables("shop"), shop.list_namespaces()) == before


def test_what_is_no_list_of_names_is_refused(shop: dn.Catalog) -> None:
    """Least of all is text taken for the list of its letters."""
    for value in (7, "owner", None):
        for call in (lambda v: shop.update_namespace_properties("shop", None, v), shop.snapshot,
                     lambda v: shop.as_of(options.clock(), v)):
            with pytest.raises(errors.InvalidArgument, match="is not a list of names"):
                call(value)
    for value in (7, None, object()):
        for call in (shop.create_namespace, shop.drop_namespace, shop.list_tables,
                     shop.namespace_properties):
            with pytest.raises(errors.InvalidArgument, match="is not a namespace's name"):
                call(value)


def test_checkpoints_and_compactions_end_at_the_newest_published_version(
    catalog: dn.Catalog, other: dn.Catalog
) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties={"delta.checkpointInterval": 3})
    log = Path(table.path)
    for number in (1, 2):
        table.append({"id": [number]})
    (log / commit_name(3)).write_bytes(b"in the way\n")
    table.append({"id": [3]})  # it would have a checkpoint; its publication finds a file of that name
    assert not list((log / "_delta_log").glob("*.checkpoint*"))
    with pytest.raises(errors.InvalidArgument, match="version 3 cannot be compacted.*not published"):
        write_compaction(table.log, 1, 3)
    write_compaction(table.log, 1, 2)
    assert table.log.checkpoint().version == 2
    (log / commit_name(3)).unlink()
    table.append({"id": [4]})  # publishes the one before as well
    assert write_compaction(table.log, 3, 4) and table.log.checkpoint().version == 4
    assert rows(other.table("shop.orders")) == [{"id": number} for number in range(5)]


def test_names_that_lead_elsewhere_are_refused(shop: dn.Catalog, tmp_path: Path) -> None:
    for name in ("shop/..", "shop...", "shop.\\..", ("shop", "a.b"), ("shop", "../b"), (("shop", ".."), "b"),
                 "shop.\u202eb", "shop.b\0", "shop." + "b" * 256):
        refuse_name(shop, tmp_path, name)


def refuse_name(shop: dn.Catalog, tmp_path: Path, name: object) -> None:
    before = files_below(tmp_path / "lake"), shop.list_tables("shop")
    for call in (lambda: shop.create_table(name, {"id": [1]}),
                 lambda: shop.create_table(name, {"id": [1]}, format="iceberg"),
                 lambda: shop.rename_table("shop.orders", name), lambda: shop.table(name),
                 lambda: shop.register_table(name, tmp_path / "lake" / "old"),
                 lambda: shop.drop_table(name), lambda: shop.transaction().table(name)):
        with pytest.raises(errors.InvalidArgument):
            call()
    assert (files_below(tmp_path / "lake"), shop.list_tables("shop")) == before


def test_a_link_does_not_lead_out_of_the_warehouse(catalog: dn.Catalog, tmp_path: Path) -> None:
    outside = dn.create(tmp_path / "outside" / "t", {"id": [1]})
    (tmp_path / "lake").mkdir(exist_ok=True)
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "outside")
    for call in (lambda: catalog.create_table("shop.a", {"id": [1]}, location=f"{tmp_path}/lake/link/new"),
                 lambda: catalog.register_table("shop.a", f"{tmp_path}/lake/link/t")):
        with pytest.raises(errors.InvalidArgument, match="goes through a link"):
            call()
    assert outside.version == 0 and sorted(os.listdir(tmp_path / "outside")) == ["t"]
