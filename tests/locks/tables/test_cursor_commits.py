"""What cursors have read and stored, against others who commit meanwhile: under the locks, and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.locks.tables import table as locked_table
from deltanb.locks.tables.log import LockedLog
from deltanb.options import options
from deltanb.table.table import DeltaTable

ROWS = {"id": [3, 1, 5, 2, 4], "shop": list("aabba"), "coins": [30, 10, 50, 20, 40]}


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0)


@pytest.fixture(params=["one file", "partitions", "catalog"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DeltaTable]:
    """Accounts 1 to 5, of two shops."""
    if request.param != "catalog":
        yield dn.create(tmp_path / "accounts", ROWS, partition_by=["shop"][:request.param == "partitions"])
        return
    with dn.Catalog(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("bank")
        yield catalog.create_table("bank.accounts", pa.table(ROWS), partition_by=["shop"])


def coins(table: Any) -> dict[int, int]:
    data = table.to_arrow(columns=["id", "coins"])
    return dict(sorted(zip(data["id"].to_pylist(), data["coins"].to_pylist(), strict=True)))


def unnamed_files(table: DeltaTable) -> set[str]:
    """The data files that no version names."""
    named = {Path(action.path).name for version in range(table.version + 1)
             for action in table.log.read_commit(version) if hasattr(action, "path")}
    place = Path(table.path.removeprefix("file://"))
    return {path.name for path in place.rglob("*.parquet") if "_delta_log" not in path.parts} - named


def row(number: int, shop: str) -> dict[str, list[Any]]:
    return {"id": [number], "shop": [shop], "coins": [number]}


# -- another process -----------------------------------------------------------------------------------


def by_deltalake(table: DeltaTable) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(table.path).update(updates={"coins": "coins + 5"}, predicate="id = 1")


def by_deltanb(table: DeltaTable) -> None:
    dn.open(table.path).update({"coins": "coins + 5"}, where="id = 1")


REAL_FOLLOW = LockedLog.follow


def as_it_looks(monkeypatch: pytest.MonkeyPatch, moment: int, rival: Callable[[], None]) -> None:
    """Let another writer in as a transaction looks for a newer version for that time, from 0 on."""
    looks = itertools.count()

    def follow(log: LockedLog) -> bool:
        if next(looks) == moment:
            rival()
        return REAL_FOLLOW(log)

    monkeypatch.setattr(LockedLog, "follow", follow)


@pytest.mark.parametrize("rival", [by_deltanb, by_deltalake])
@pytest.mark.parametrize("shop", [[], ["shop"]], ids=["one file", "partitions"])
def test_no_change_of_another_process_is_lost(
    rival: Callable[[DeltaTable], None], shop: list[str], manager: LockManager, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes, as the table is looked at for the first, second, … time: who adds to what a cursor
    has read adds to what is there, or meets a conflict."""
    results = []
    for moment in itertools.count():
        table = dn.create(tmp_path / f"accounts{moment}", ROWS, partition_by=shop)
        as_it_looks(monkeypatch, moment, lambda table=table: rival(table))
        txn = manager.new_transaction()
        cursor = txn.cursor(table, "id")
        cursor.find(1)
        cursor.store({"coins": cursor.value()["coins"] + 1})
        try:
            txn.commit()
        except errors.DeltaConcurrentModificationException:
            results.append("conflict")
            assert coins(table)[1] == 15
        else:
            results.append("committed")
            assert coins(table)[1] == (16 if table.version == 2 else 11)
        assert manager.num_locks_held == 0 and not unnamed_files(table)
        if table.version == 1 and results[-1] == "committed":
            break  # it was looked at less often
    assert results[0] == results[-1] == "committed" and "conflict" in results


# -- scopes that are rolled back -----------------------------------------------------------------------


def find(txn: Any, table: DeltaTable, number: int = 1) -> Any:
    cursor = txn.cursor(table, "id")
    cursor.find(number)
    return cursor


WORK: dict[str, Callable[[Any, DeltaTable], object]] = {
    "read": lambda txn, table: txn.table(table).to_arrow(),
    "count": lambda txn, table: txn.table(table).count(),
    "read part": lambda txn, table: txn.table(table).to_arrow(where="shop = 'a'"),
    "append": lambda txn, table: txn.table(table).append(row(7, "a")),
    "update": lambda txn, table: txn.table(table).update({"coins": "0"}, where="shop = 'a'"),
    "delete": lambda txn, table: txn.table(table).delete("id = 1"),
    "overwrite": lambda txn, table: txn.table(table).overwrite(row(7, "a")),
    "metadata": lambda txn, table: txn.table(table).set_properties({"a.b": "c"}),
    "find": find,
    "find what is not there": lambda txn, table: find(txn, table, 8),
    "store": lambda txn, table: find(txn, table).store({"coins": 0}),
    "store and read": lambda txn, table: find(txn, table).store({"coins": 0}) or txn.table(table).count(),
}


@pytest.mark.parametrize("work", WORK)
def test_what_a_scope_did_that_was_rolled_back_does_not_count(
    work: str, manager: LockManager, table: DeltaTable
) -> None:
    """Its locks are gone, so others commit; and the transaction keeps to its own."""
    txn, other = manager.new_transaction(), manager.new_transaction()
    txn.table(table)
    cursor = txn.cursor(table, "id")
    txn.enter()
    WORK[work](txn, table)
    with txn.scope():
        WORK[work](txn, table)
    cursor.find(1)
    txn.exit()
    find(other, table, 1).store({"coins": 11})
    other.table(table).append(row(6, "a"))
    other.commit()
    txn.table(table).append(row(9, "b"))
    find(txn, table, 2).store({"coins": 22})
    cursor.store({"coins": 12})  # where it stands still
    txn.commit()
    assert coins(table) == {1: 12, 2: 22, 3: 30, 4: 40, 5: 50, 6: 6, 9: 9}
    assert manager.num_locks_held == 0 and not unnamed_files(table)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_a_scope_has_read_counts_where_it_was_committed(
    end: str, manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    accounts = txn.table(table)
    txn.enter()
    accounts.count()
    getattr(txn, end)()
    txn.exit()
    accounts.append(row(9, "b"))
    table.append(row(6, "a"))  # without locks
    if end == "rollback":
        return txn.commit()
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    assert manager.num_locks_held == 0 and not unnamed_files(table)


def test_what_was_read_before_a_scope_counts_though_the_scope_reads_on(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    accounts = txn.table(table)
    accounts.to_arrow(where="shop = 'a'")
    txn.enter()
    accounts.to_arrow(where="shop = 'a'")
    txn.exit()
    accounts.append(row(9, "b"))
    table.append(row(6, "a"))
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()


# -- between the version that rows are written into and the commit -------------------------------------


def after_flush(monkeypatch: pytest.MonkeyPatch, *rivals: Callable[[], object]) -> None:
    """Let others in, one at a time, each before another attempt to commit."""
    real, waiting = locked_table.Part.flush, list(rivals)

    def flush(self: Any) -> None:
        real(self)
        if waiting:
            waiting.pop(0)()

    monkeypatch.setattr(locked_table.Part, "flush", flush)


ORDERS: dict[str, Callable[[Any, DeltaTable], object]] = {
    "rows, append": lambda txn, table: (find(txn, table).store({"coins": 11}),
                                        txn.table(table).append(row(6, "a"))),
    "append, rows": lambda txn, table: (txn.table(table).append(row(6, "a")),
                                        find(txn, table).store({"coins": 11})),
    "rows, append, rows": lambda txn, table: (
        find(txn, table, 3).store({"coins": 30}), txn.table(table).append(row(6, "a")),
        find(txn, table).store({"coins": 11})),
    "read, append": lambda txn, table: (find(txn, table, 2), txn.table(table).append(row(6, "a")),
                                        find(txn, table).store({"coins": 11})),
}


@pytest.mark.parametrize("order", ORDERS)
def test_who_appends_under_locks_is_no_conflict_for_rows_and_statements(
    order: str, manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = manager.new_transaction(), manager.new_transaction()
    txn = manager.new_transaction()
    ORDERS[order](txn, table)
    rivals = []
    for number, other in enumerate(others, 8):
        try:
            other.table(table).append(row(number, "b"))
        except errors.LockTimeoutError:  # a statement of rows has locked the whole table
            other.rollback()
            continue
        rivals.append(other.commit)
    assert rivals or (order.startswith("rows") and not table.snapshot.partition_columns)
    after_flush(monkeypatch, *rivals)
    txn.commit()
    added = {number: number for number in range(8, 8 + len(rivals))}
    assert coins(table) == {1: 11, 2: 20, 3: 30, 4: 40, 5: 50, 6: 6} | added
    assert manager.num_locks_held == 0 and not unnamed_files(table)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("innocent", [0, 1])
def test_a_row_changed_without_locks_is_a_conflict_and_leaves_no_file(
    order: str, innocent: int, manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = manager.new_transaction()
    ORDERS[order](txn, table)
    first = [lambda: table.update({"coins": "coins + 1"}, where="id = 4")] * innocent
    after_flush(monkeypatch, *first, lambda: table.update({"coins": "0"}, where="id = 1"))
    with pytest.raises(errors.DeltaConcurrentModificationException):
        txn.commit()
    assert set(coins(table)) == {1, 2, 3, 4, 5} and manager.num_locks_held == 0
    assert not unnamed_files(table)
    with pytest.raises(errors.InvalidTransactionError):
        txn.commit()


def test_what_no_other_version_can_mend_is_tried_once(
    manager: LockManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both change the metadata, so that the rows cannot be written into another version."""
    table = dn.create(tmp_path / "accounts", ROWS)
    txn = manager.new_transaction()
    txn.table(table).set_properties({"a.b": "1"})
    find(txn, table).store({"coins": 11})
    tried: list[object] = []
    after_flush(monkeypatch, lambda: table.set_properties({"a.b": "2"}), *[lambda: tried.append(1)] * 5)
    with pytest.raises(errors.MetadataChangedException):
        txn.commit()
    assert not tried and coins(table)[1] == 10 and not unnamed_files(table)
