"""READ_UNCOMMITTED on tables: what all transactions of the manager have done, and nobody has committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.options import options
from deltanb.table.table import DeltaTable

ROWS = {"id": [1, 2, 3, 4], "shop": list("aabb"), "n": [1, 2, 3, 4]}


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0, clock=lambda: 0)


@pytest.fixture(params=[[], ["shop"]], ids=["one file", "partitions"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    return dn.create(tmp_path / "t", ROWS, partition_by=request.param)


def row(txn: Any, table: DeltaTable, key: int, **values: Any) -> None:
    cursor = txn.cursor(table, "id")
    cursor.find(key)
    cursor.store(values or None)


WORK: dict[str, tuple[Callable[[Any, DeltaTable], object], dict[int, int]]] = {
    "append": (lambda txn, t: txn.table(t).append({"id": [9], "shop": ["a"], "n": [9]}),
               {1: 1, 2: 2, 3: 3, 4: 4, 9: 9}),
    "update": (lambda txn, t: txn.table(t).update({"n": "n * 10"}, where="shop = 'a'"),
               {1: 10, 2: 20, 3: 3, 4: 4}),
    "delete": (lambda txn, t: txn.table(t).delete("shop = 'a' AND id = 2"), {1: 1, 3: 3, 4: 4}),
    "row": (lambda txn, t: row(txn, t, 1, n=11), {1: 11, 2: 2, 3: 3, 4: 4}),
    "new row": (lambda txn, t: row(txn, t, 9, shop="b", n=9), {1: 1, 2: 2, 3: 3, 4: 4, 9: 9}),
    "deleted row": (lambda txn, t: row(txn, t, 1), {2: 2, 3: 3, 4: 4}),
    "row and statement": (lambda txn, t: (row(txn, t, 1, n=11), txn.table(t).append(
        {"id": [9], "shop": ["a"], "n": [9]}), row(txn, t, 2, n=12)), {1: 11, 2: 12, 3: 3, 4: 4, 9: 9}),
}


def by_arrow(txn: Any, table: DeltaTable) -> dict[int, int]:
    data = txn.table(table).to_arrow()
    return dict(sorted(zip(data["id"].to_pylist(), data["n"].to_pylist(), strict=True)))


def by_batches(txn: Any, table: DeltaTable) -> dict[int, int]:
    data = txn.table(table).to_batches().read_all()
    return dict(sorted(zip(data["id"].to_pylist(), data["n"].to_pylist(), strict=True)))


def by_cursor(txn: Any, table: DeltaTable) -> dict[int, int]:
    cursor, numbers = txn.cursor(table, "id"), {}
    assert cursor.first() == "UNOWNED"
    while cursor.key() is not None:
        numbers[cursor.key()[0]] = cursor.value()["n"]
        cursor.next()
    return numbers


READS = [by_arrow, by_batches, by_cursor]


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("mode", ["READ_UNCOMMITTED", "UNSAFE"])
def test_what_others_have_not_committed_is_seen(
    work: str, mode: str, manager: LockManager, table: DeltaTable, tmp_path: Path
) -> None:
    do, expected = WORK[work]
    other, txn = manager.new_transaction(), manager.new_transaction()
    txn.lock_mode = mode  # type: ignore[assignment]
    before = by_arrow(txn, table)
    do(other, table)
    locks = manager.locks()
    for read in READS:
        assert read(txn, table) == expected
        assert read(txn, table) == expected
    assert txn.table(table).count() == len(expected)
    assert manager.locks() == locks, "it waits for nobody, and locks nothing"
    txn.lock_mode = "READ_COMMITTED"
    with pytest.raises(errors.LockTimeoutError):
        by_arrow(txn, table)
    txn.lock_mode = mode  # type: ignore[assignment]
    other.rollback()
    for read in READS:
        assert read(txn, table) == before
    txn.commit()
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == len(table.snapshot.files) and table.version == 0


@pytest.mark.parametrize("work", WORK)
def test_what_was_put_off_and_what_it_has_done_itself_is_seen(
    work: str, manager: LockManager, tmp_path: Path
) -> None:
    do, expected = WORK[work]
    table = dn.create(tmp_path / "t", ROWS, partition_by="shop")
    other, txn = manager.new_transaction(), manager.new_transaction()
    other.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    do(other, table)
    other.commit()
    txn.lock_mode = "READ_UNCOMMITTED"  # type: ignore[assignment]
    row(txn, table, 4, n=44)
    for read in READS[::-1]:
        assert read(txn, table) == expected | {4: 44}
    other.flush()
    for read in READS:
        assert read(txn, table) == expected | {4: 44}
    txn.commit()
    assert by_arrow(manager.new_transaction(), table) == expected | {4: 44}
    named = {Path(action.path).name for version in range(table.version + 1)
             for action in table.log.read_commit(version) if hasattr(action, "path")}
    assert {path.name for path in Path(table.path).rglob("*.parquet")} == named


def test_another_manager_and_another_table_are_not_seen(table: DeltaTable, tmp_path: Path) -> None:
    managers = LockManager(), LockManager()
    elsewhere = dn.create(tmp_path / "u", ROWS)
    for manager, where in zip(managers, (elsewhere, table), strict=True):
        manager.new_transaction().table(where).delete()
    txn = managers[0].new_transaction()
    txn.lock_mode = "READ_UNCOMMITTED"  # type: ignore[assignment]
    assert by_arrow(txn, table) == {1: 1, 2: 2, 3: 3, 4: 4}


def test_history_is_of_versions(manager: LockManager, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties={"delta.enableChangeDataFeed": "true"})
    manager.new_transaction().table(table).append({"id": [9], "shop": ["a"], "n": [9]})
    txn = manager.new_transaction()
    txn.lock_mode = "READ_UNCOMMITTED"  # type: ignore[assignment]
    assert len(txn.table(table).changes(0).to_arrow()) == 4
