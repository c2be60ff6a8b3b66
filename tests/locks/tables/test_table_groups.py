"""Tables of a catalog under the locks of one transaction: they are committed together or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.locks import CommitCallback, LockManager
from deltanb.testing import MemoryIndex


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("bank")
        for name in ("one", "two", "three"):
            catalog.create_table(f"bank.{name}", {"id": [1, 2, 3], "coins": [100, 100, 100]})
        yield catalog


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0)


def coins(table: Any) -> list[int]:
    return table.to_arrow().sort_by("id")["coins"].to_pylist()


def files(catalog: dn.Catalog) -> set[str]:
    root = Path(str(catalog.warehouse.store.root))
    return {str(p) for p in root.rglob("*.parquet") if "_delta_log" not in p.parts}


def test_all_tables_are_one_transaction_of_the_catalog(catalog: dn.Catalog, manager: LockManager) -> None:
    one, two, three = (catalog.table(f"bank.{name}") for name in ("one", "two", "three"))
    txn, before = manager.new_transaction(), len(catalog.history())
    cursor = txn.cursor(one, key="id")
    cursor.find(1)
    cursor.store({"coins": cursor.value()["coins"] - 10})
    txn.table(two).update({"coins": "coins + 10"}, where="id = 1")
    assert txn.table(three).to_arrow(where="id = 1").num_rows == 1
    assert (coins(one), coins(two)) == ([100, 100, 100], [100, 100, 100])
    txn.commit()
    assert (coins(one), coins(two)) == ([90, 100, 100], [110, 100, 100])
    assert len(catalog.history()) == before + 1 and manager.num_locks_held == 0
    ids = {table.log.read_commit(1)[0].txn_id for table in (one, two)}
    assert len(ids) == 1 and three.version == 0


def test_a_conflict_of_one_table_undoes_all(catalog: dn.Catalog, manager: LockManager) -> None:
    one, two = catalog.table("bank.one"), catalog.table("bank.two")
    index, txn = MemoryIndex(7, {"k": "v"}), manager.new_transaction()
    txn.table(one).update({"coins": "coins - 10"}, where="id = 1")
    txn.table(two).update({"coins": "coins + 10"}, where="id = 1")
    index.store(txn, "k", "w")  # joins after the tables, and must not be permanent before they are
    two.update({"coins": "0"}, where="id = 2")
    written = files(catalog)
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        txn.commit()
    assert caught.value.conflict.table == "bank.two"
    assert (one.version, two.version) == (0, 1) and index.load(None, "k") == "v"
    assert len(files(catalog)) == len(written) - 2 and manager.num_locks_held == 0


def test_a_table_that_was_only_read_counts(catalog: dn.Catalog, manager: LockManager) -> None:
    """Two transactions that each read a table and write the other's: one of them is without locks."""
    one, two = catalog.table("bank.one"), catalog.table("bank.two")
    for read in (lambda t: t.table(one).to_arrow(where="id = 1"), lambda t: t.cursor(one, key="id").find(1)):
        txn = manager.new_transaction()
        read(txn)
        txn.table(two).append({"id": [9], "coins": [9]})
        one.update({"coins": "coins - 1"}, where="id = 1")
        with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
            txn.commit()
        assert caught.value.conflict.table == "bank.one"
        assert two.version == 0


def test_two_transactions_that_read_what_the_other_writes_wait(
    catalog: dn.Catalog, manager: LockManager
) -> None:
    one, two = catalog.table("bank.one"), catalog.table("bank.two")
    first, second = manager.new_transaction(), manager.new_transaction()
    first.table(one).to_arrow()
    second.table(two).to_arrow()
    with pytest.raises(errors.LockTimeoutError, match=r"bank\.two"):
        first.table(two).append({"id": [9], "coins": [9]})
    first.exit()
    second.table(one).append({"id": [9], "coins": [9]})
    second.commit()
    assert (one.version, two.version) == (1, 0)


def test_two_catalogs_are_refused(catalog: dn.Catalog, manager: LockManager, tmp_path: Path) -> None:
    with dn.Catalog(f"sqlite:///{tmp_path}/other.db", warehouse=tmp_path / "sea") as other:
        other.create_namespace("bank")
        elsewhere = other.create_table("bank.one", {"id": [1], "coins": [1]})
        txn = manager.new_transaction()
        txn.table(catalog.table("bank.one")).delete("id = 1")
        with pytest.raises(errors.InvalidArgument, match="no log in common"):
            txn.table(elsewhere)
        txn.commit()
        assert catalog.table("bank.one").version == 1


def test_one_catalog_that_is_opened_twice_is_one(
    catalog: dn.Catalog, manager: LockManager, tmp_path: Path
) -> None:
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as again:
        txn = manager.new_transaction()
        txn.table(catalog.table("bank.one")).delete("id = 1")
        txn.table(again.table("bank.two")).delete("id = 2")
        txn.commit()
    assert coins(catalog.table("bank.one")) == coins(catalog.table("bank.two")) == [100, 100]


class Notified(CommitCallback):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pending(self, txn: Any, txn_id: int) -> None:
        self.calls.append(("pending", txn_id))

    def finished(self, txn: Any, txn_id: int, error: BaseException | None) -> None:
        self.calls.append(("finished", txn_id, error and type(error).__name__))


def test_commits_that_are_put_off_are_told_and_land_in_order(
    catalog: dn.Catalog, manager: LockManager
) -> None:
    one, two = catalog.table("bank.one"), catalog.table("bank.two")
    txn, notified = manager.new_transaction(), Notified()
    txn.attach(notified)
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    ids = []
    for n in (1, 2):
        ids.append(txn.id)
        cursor = txn.cursor(one, key="id")
        cursor.find(n)
        cursor.store({"coins": 0})
        other = txn.cursor(two, key="id")
        other.find(n)
        other.store({"coins": 200})
        txn.commit()
    assert notified.calls == [("pending", n) for n in ids] and one.version == 0
    rows = {manager.label(state.index_id, state.key) for state in manager.locks()}
    assert {"bank.one row 1", "bank.one row 2", "bank.two row 1", "bank.two row 2"} <= rows
    manager.flush()
    assert notified.calls[2:] == [("finished", n, None) for n in ids]
    assert (coins(one), coins(two)) == ([0, 0, 100], [200, 200, 100]) and manager.num_locks_held == 0
    assert one.version == two.version == 2


def test_a_commit_that_was_put_off_and_fails_is_undone(catalog: dn.Catalog, manager: LockManager) -> None:
    one, two = catalog.table("bank.one"), catalog.table("bank.two")
    txn, notified, before = manager.new_transaction(), Notified(), files(catalog)
    txn.attach(notified)
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    txn.table(one).update({"coins": "0"}, where="id = 1")
    txn.table(two).update({"coins": "200"}, where="id = 1")
    txn_id = txn.id
    txn.commit()
    one.delete("id = 3")
    after = files(catalog) - before
    txn.flush()
    assert notified.calls[-1][:2] == ("finished", txn_id) and notified.calls[-1][2].startswith("Concurrent")
    assert (coins(one), coins(two)) == ([100, 100], [100, 100, 100]) and manager.num_locks_held == 0
    assert len(files(catalog) - before) == len(after) - 2
    assert txn.is_valid  # it was free for other work already


def test_an_iceberg_table_is_refused(catalog: dn.Catalog, manager: LockManager) -> None:
    pytest.importorskip("pyiceberg", reason="Iceberg tables are read by PyIceberg")
    table = catalog.create_table("bank.ice", {"id": [1]}, format="iceberg")
    txn = manager.new_transaction()
    for refused in (lambda: txn.table(table), lambda: txn.cursor(table, "id")):
        with pytest.raises(errors.InvalidArgument, match=r"bank\.ice is an Iceberg .* catalog\.transaction"):
            refused()
    with catalog.transaction() as both:
        both.table("bank.ice").append({"id": [2]})
        both.table("bank.one").delete("id = 1")
    assert coins(catalog.table("bank.one")) == [100, 100]


def test_the_folder_of_an_iceberg_table_is_no_files_to_convert(
    catalog: dn.Catalog, manager: LockManager, tmp_path: Path
) -> None:
    """Whose removed files would be rows of the new table; its metadata is not to be moved away for that."""
    pytest.importorskip("pyiceberg", reason="Iceberg tables are read by PyIceberg")
    table = catalog.create_table("bank.ice", {"id": [1]}, format="iceberg")
    folder = table.location.removeprefix("file://")
    before = set(Path(folder).rglob("*"))
    for opened in (manager.new_transaction().table, dn.open):
        with pytest.raises(errors.TableNotFound, match=r"catalog\.table\(name\) .* opens the Iceberg table"):
            opened(folder)
    with pytest.raises(errors.InvalidArgument, match=r"catalog\.table\(name\) .* opens the Iceberg table"):
        dn.create(folder, {"id": [1]})
    with pytest.raises(errors.InvalidArgument, match=r"holds an Iceberg table.*table\(name\)\.to_arrow"):
        dn.convert(folder)
    assert set(Path(folder).rglob("*")) == before
    assert dn.create(tmp_path / "copy", catalog.table("bank.ice").to_arrow()).count() == 1


@pytest.mark.parametrize("is_first_there", [False, True])
def test_tables_by_path_are_together_once_they_are_registered_as_is_said(
    is_first_there: bool, catalog: dn.Catalog, manager: LockManager, tmp_path: Path
) -> None:
    lake = Path(catalog.table("bank.one").path.removeprefix("file://")).parents[1]
    names = ["first", "second"]
    tables: list[Any] = [dn.create(lake / name, {"id": [1], "coins": [1]}) for name in names]
    if is_first_there:
        tables[0] = catalog.register_table("bank.first", tables[0].path)
    txn = manager.new_transaction()
    txn.table(tables[0])
    what = "the second in that catalog" if is_first_there else "both in one catalog"
    with pytest.raises(errors.InvalidArgument, match=f"a transaction for each; or register {what}, whose"):
        txn.table(tables[1])
    txn.exit()
    for name in names[is_first_there:]:
        catalog.register_table(f"bank.{name}", lake / name)
    for name in names:
        txn.table(catalog.table(f"bank.{name}")).append({"id": [2], "coins": [2]})
    txn.commit()
    assert [coins(catalog.table(f"bank.{name}")) for name in names] == [[1, 2], [1, 2]]
