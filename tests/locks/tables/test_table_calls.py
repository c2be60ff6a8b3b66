"""Tables under locks where a call is interrupted, or comes from a second thread or another manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.options import options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, ScriptedStore
from tests.helpers import tree
from tests.locks.core.test_threads import Parking, Started


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"


@pytest.fixture
def parking() -> Iterator[Parking]:
    yield (parking := Parking())
    parking.manager.close()


ROWS = {"day": [1, 1, 2, 3], "n": [1, 2, 3, 4]}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return dn.create(tmp_path / "days", ROWS, partition_by="day")


def numbers(table: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["n"])["n"].to_pylist())


def held(manager: LockManager) -> set[str]:
    return {f"{manager.label(state.index_id, state.key)}: {' '.join(mode for _, mode in state.holders)}"
            for state in manager.locks()}


def files(table: DeltaTable) -> set[str]:
    return {name for name in tree(Path(table.path)) if "_delta_log" not in name}


def find(txn: Any, table: DeltaTable, number: int = 1) -> Any:
    cursor = txn.cursor(table, key=["n"])
    cursor.find(number)
    return cursor


def merge(txn: Any, table: DeltaTable, source: Any = None) -> Any:
    return txn.table(table).merge(
        source or {"day": [1], "n": [1]}, "target.day = source.day AND target.n = source.n AND target.day = 1"
    ).when_matched_delete()


CALLS: dict[str, Callable[[Any, DeltaTable], object]] = {
    "read": lambda txn, table: txn.table(table).to_arrow(where="day = 1"),
    "append": lambda txn, table: txn.table(table).append({"day": [2, 1], "n": [7, 8]}),
    "update": lambda txn, table: txn.table(table).update({"n": "n + 1"}, where="day = 1"),
    "delete": lambda txn, table: txn.table(table).delete(),
    "merge": lambda txn, table: merge(txn, table).execute(),
    "metadata": lambda txn, table: txn.table(table).add_columns("more int"),
    "find": find,
    "store": lambda txn, table: find(txn, table).store({"day": 2}),
}
"""Each wants a lock of the partition of day 1, or of the whole table."""


# -- Ctrl-C --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_in_a_wait_leaves_nothing_of_the_call(
    call: str, parking: Parking, table: DeltaTable
) -> None:
    manager = parking.manager
    other, txn = manager.new_transaction(), manager.new_transaction()
    txn.table(table).append({"day": [3], "n": [9]})
    other.table(table).delete("day = 1 AND n = 2")
    before, files_before = held(manager), files(table)
    parking.interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        CALLS[call](txn, table)
    assert (held(manager), files(table), manager.num_waiting) == (before, files_before, 0)
    assert "committed" not in " ".join(getattr(caught.value, "__notes__", ()))
    other.rollback()
    txn.commit()
    assert numbers(table) == [1, 2, 3, 4, 9] and table.version == 1
    assert manager.num_locks_held == 0


def interrupt(*_: object) -> bool:
    raise KeyboardInterrupt


def interrupt_after(inner: Any, name: str, data: bytes) -> bool:
    inner.put_if_absent(name, data)
    raise KeyboardInterrupt


WORK = pytest.mark.parametrize("work", [
    lambda txn, table: txn.table(table).update({"n": "n + 10"}, where="n = 1"),
    lambda txn, table: find(txn, table).delete() or find(txn, table, 11).store({"day": 1}),
], ids=["statement", "row"])


def scripted() -> tuple[ScriptedStore, DeltaTable]:
    store = ScriptedStore(MemoryStore())
    return store, dn.create(store, ROWS, partition_by="day")


def data(store: ScriptedStore) -> set[str]:
    return {status.name for status in store.list_all("") if not status.name.startswith("_delta_log/")}


@WORK
def test_ctrl_c_in_the_commit_before_it_is_there(work: Callable[..., object]) -> None:
    store, table = scripted()
    manager = LockManager()
    txn, data_before = manager.new_transaction(), data(store)
    work(txn, table)
    store.script.append(interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit()
    assert "committed" not in " ".join(getattr(caught.value, "__notes__", ()))
    assert numbers(table) == [1, 2, 3, 4] and table.version == 0 and data(store) == data_before
    assert manager.num_locks_held == 0
    with pytest.raises(errors.InvalidTransactionError):
        txn.table(table).append(ROWS)
    txn.exit()
    again = manager.new_transaction()
    work(again, table)
    again.commit()
    assert numbers(table) == [2, 3, 4, 11] and table.version == 1


@WORK
def test_ctrl_c_in_the_commit_once_it_is_there_says_so(work: Callable[..., object]) -> None:
    store, table = scripted()
    manager = LockManager()
    txn = manager.new_transaction()
    work(txn, table)
    store.script.append(interrupt_after)
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit()
    assert any("version 1 was committed despite the interruption" in note for note in caught.value.__notes__)
    assert numbers(table) == [2, 3, 4, 11] and table.version == 1 and manager.num_locks_held == 0
    named = {file["path"] for file in table.snapshot.files.to_pylist()}
    assert named <= data(store), "no file of the version is undone"


# -- threads, managers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_a_second_thread_in_the_same_transaction_is_refused(
    call: str, parking: Parking, table: DeltaTable
) -> None:
    manager = parking.manager
    other, txn = manager.new_transaction(), manager.new_transaction()
    other.table(table).delete("day = 2")
    waits = parking.waiting(lambda: txn.table(table).append({"day": [2], "n": [5]}))
    files_before, before = files(table), held(manager)
    with pytest.raises(errors.IllegalStateError, match="two calls at once"):
        CALLS[call](txn, table)
    assert files(table) == files_before and held(manager) == before
    other.commit()
    waits.result()
    txn.commit()
    assert numbers(table) == [1, 2, 4, 5] and manager.num_locks_held == 0


@pytest.mark.parametrize("call", CALLS)
def test_a_second_thread_during_a_call_is_refused(call: str, parking: Parking, table: DeltaTable) -> None:
    txn = parking.manager.new_transaction()
    mine = txn.table(table)
    with txn.operation():
        mine.append({"day": [2], "n": [5]})  # the thread that is in it may
        files_before = files(table)
        with pytest.raises(errors.IllegalStateError, match="two calls at once"):
            Started(lambda: CALLS[call](txn, table)).result()
        assert files(table) == files_before
    txn.commit()
    assert numbers(table) == [1, 2, 3, 4, 5]


def test_a_second_thread_that_executes_a_merge_is_refused(parking: Parking, table: DeltaTable) -> None:
    """It is described before, and is a call as it is executed."""
    txn = parking.manager.new_transaction()
    described = merge(txn, table)
    with txn.operation():
        files_before, before = files(table), held(parking.manager)
        with pytest.raises(errors.IllegalStateError, match="two calls at once"):
            Started(described.execute).result()
        assert files(table) == files_before and held(parking.manager) == before
    described.execute()
    txn.commit()
    assert numbers(table) == [2, 3, 4]


def test_a_merge_that_evolves_the_schema_locks_the_table_first(table: DeltaTable) -> None:
    manager = LockManager(lock_timeout=0)
    txn, other = manager.new_transaction(), manager.new_transaction()
    other.table(table).append({"day": [3], "n": [9]})
    evolving = merge(txn, table, {"day": [1], "n": [1], "more": ["x"]}).with_schema_evolution()
    files_before, before = files(table), held(manager)
    with pytest.raises(errors.LockTimeoutError, match="exclusive lock on days was not granted"):
        evolving.execute()
    assert files(table) == files_before and held(manager) == before
    other.commit()
    evolving.execute()
    txn.commit()
    assert numbers(table) == [2, 3, 4, 9]


@pytest.mark.parametrize(("described", "executed", "is_there"), [
    ("UPGRADABLE_READ", "UNSAFE", True), ("UNSAFE", "UPGRADABLE_READ", False)])
def test_a_merge_is_done_as_the_lock_mode_says_where_it_is_executed(
    described: str, executed: str, is_there: bool, table: DeltaTable
) -> None:
    txn = LockManager().new_transaction()
    txn.lock_mode = described  # type: ignore[assignment]
    deleting = merge(txn, table)
    txn.lock_mode = executed  # type: ignore[assignment]
    deleting.execute()
    assert (table.version == 1) == is_there
    txn.rollback()
    assert numbers(table) == ([2, 3, 4] if is_there else [1, 2, 3, 4])


def test_two_managers_are_two_sets_of_locks_and_the_check_at_the_commit_keeps_them_apart(
    table: DeltaTable
) -> None:
    managers = LockManager(lock_timeout=0), LockManager(lock_timeout=0)
    one, other = (manager.new_transaction() for manager in managers)
    for txn in (one, other):
        txn.table(table).update({"n": "n * 10"}, where="day = 1")
    assert held(managers[0]) == held(managers[1]) == {"days: intention exclusive", "days day=1: exclusive"}
    one.commit()
    with pytest.raises(errors.DeltaConcurrentModificationException):
        other.commit()
    assert numbers(table) == [3, 4, 10, 20] and [m.num_locks_held for m in managers] == [0, 0]
    assert files(table) == {action.path for version in (0, 1) for action in table.log.read_commit(version)
                            if hasattr(action, "path")}


def test_two_managers_and_rows_of_one_file(table: DeltaTable) -> None:
    managers = LockManager(lock_timeout=0), LockManager(lock_timeout=0)
    one, other, third = (manager.new_transaction() for manager in (*managers, managers[1]))
    for txn, number in ((one, 1), (other, 2)):
        find(txn, table, number).store({"day": 7})
    find(third, table, 1).store({"day": 8})
    one.commit()
    other.commit()
    with pytest.raises(errors.DeltaConcurrentModificationException):
        third.commit()
    assert table.to_arrow(where="day = 7")["n"].to_pylist() == [1, 2]
    assert [manager.num_locks_held for manager in managers] == [0, 0]
