"""Cursors over tables: rows in the order of a key, locked where the cursor stands, stored with the commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.schema import columns as given_by_table
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0)


@pytest.fixture(params=[None, "shop"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    """Accounts 1 to 5, of two shops, in one file or in one for each shop."""
    return dn.create(tmp_path / "accounts",
                     {"id": [3, 1, 5, 2, 4], "shop": list("aabba"), "coins": [30, 10, 50, 20, 40]},
                     partition_by=request.param or ())


def coins(table: Any) -> dict[int, int]:
    data = table.to_arrow(columns=["id", "coins"])
    return dict(sorted(zip(data["id"].to_pylist(), data["coins"].to_pylist(), strict=True)))


def rows_locked(manager: LockManager) -> dict[str, str]:
    """The rows that are locked, in words, by whomever."""
    return {manager.label(s.index_id, s.key).partition("row ")[2]: " ".join(mode for _, mode in s.holders)
            for s in manager.locks() if "row " in manager.label(s.index_id, s.key)}


def test_rows_come_in_the_order_of_the_key_and_are_locked_one_by_one(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    assert cursor.key() is None and cursor.value() is None
    seen = []
    result = cursor.first()
    while cursor.key() is not None:
        seen.append((result, cursor.key(), cursor.value()["coins"]))
        assert rows_locked(manager) == {str(n): "upgradable" for n in range(1, len(seen) + 1)}
        result = cursor.next()
    assert seen == [("ACQUIRED", (n,), 10 * n) for n in range(1, 6)]
    assert result == "UNOWNED"
    assert cursor.first() == "OWNED_UPGRADABLE"
    txn.exit()
    assert manager.num_locks_held == 0


def test_the_loop_of_the_document_unlocks_what_it_discards(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    txn.lock_upgradable(1, b"other")
    c = txn.cursor(table, key=["id"])
    result = c.first()
    while c.key() is not None:
        if c.value()["coins"] % 20 == 0 and result == "ACQUIRED":
            # Unlock record which doesn't belong in the transaction.
            txn.unlock()
            result = c.next()
            continue
        result = c.next()
    assert rows_locked(manager) == {"1": "upgradable", "3": "upgradable", "5": "upgradable"}
    # what was unlocked can be changed by others, and what was kept cannot
    other = manager.new_transaction()
    mine = other.cursor(table, key=["id"])
    mine.find(2)
    mine.store({"coins": 0})
    with pytest.raises(errors.LockTimeoutError, match="accounts row 3"):
        mine.find(3)
    other.commit()
    c.find(1)
    c.store({"coins": 11})
    txn.commit()
    assert coins(table) == {1: 11, 2: 0, 3: 30, 4: 40, 5: 50}


@pytest.mark.parametrize(("mode", "result", "locks"), [
    ("UPGRADABLE_READ", "ACQUIRED", {"2": "upgradable"}),
    ("REPEATABLE_READ", "ACQUIRED", {"2": "shared"}),
    ("READ_COMMITTED", "UNOWNED", {}),
    ("READ_UNCOMMITTED", "UNOWNED", {}),
    ("UNSAFE", "UNOWNED", {}),
])
def test_a_move_locks_as_the_mode_says(
    manager: LockManager, table: DeltaTable, mode: str, result: str, locks: dict[str, str]
) -> None:
    txn = manager.new_transaction()
    txn.lock_mode = mode  # type: ignore[assignment]
    cursor = txn.cursor(table, key=["id"])
    assert cursor.find(2) == result and cursor.value()["coins"] == 20
    assert rows_locked(manager) == locks
    if mode == "REPEATABLE_READ":
        with pytest.raises(errors.IllegalUpgradeError):
            cursor.store({"coins": 0})


def test_different_rows_of_one_file_are_changed_side_by_side(manager: LockManager, table: DeltaTable) -> None:
    """What the conflict rules alone would refuse: both replace the same file."""
    txns = [manager.new_transaction() for _ in range(5)]
    for n, txn in enumerate(txns, 1):
        cursor = txn.cursor(table, key=["id"])
        cursor.find(n)
        cursor.store({"coins": cursor.value()["coins"] + n})
    assert coins(table) == {n: 10 * n for n in range(1, 6)}
    for txn in reversed(txns):
        txn.commit()
    assert coins(table) == {n: 11 * n for n in range(1, 6)} and table.version == 5
    assert manager.num_locks_held == 0


def test_rows_are_stored_inserted_and_deleted(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    assert cursor.find(9) == "ACQUIRED" and cursor.value() is None
    cursor.store({"shop": "c", "coins": 90})
    assert cursor.value() == {"id": 9, "shop": "c", "coins": 90}
    cursor.find(1)
    cursor.delete()
    assert cursor.value() is None
    cursor.find(2)
    cursor.store({"shop": "z"})  # the other columns stay
    keys, result = [], cursor.first()
    while cursor.key() is not None:
        keys.append((cursor.key()[0], result))
        result = cursor.next()
    assert keys == [(2, "OWNED_EXCLUSIVE"), (3, "ACQUIRED"), (4, "ACQUIRED"), (5, "ACQUIRED"),
                    (9, "OWNED_EXCLUSIVE")]
    assert coins(table) == {n: 10 * n for n in range(1, 6)}
    txn.commit()
    assert coins(table) == {2: 20, 3: 30, 4: 40, 5: 50, 9: 90}
    assert table.to_arrow(where="id = 2")["shop"].to_pylist() == ["z"]
    assert table.version == 1 and table.history()[0].operation == "MERGE"


def test_scopes_take_rows_back(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": 11})
    txn.enter()
    cursor.store({"coins": 12})
    cursor.find(2)
    cursor.delete()
    cursor.find(7)
    cursor.store({"coins": 70})
    txn.exit()
    assert rows_locked(manager) == {"1": "exclusive"}
    cursor.find(1)
    assert cursor.value()["coins"] == 11
    with txn.scope():
        cursor.find(3)
        cursor.store({"coins": 33})
    txn.commit()
    assert coins(table) == {1: 11, 2: 20, 3: 33, 4: 40, 5: 50}


def test_commit_of_a_cursor_commits_the_current_scope(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    txn.enter()
    cursor.find(1)
    cursor.commit({"coins": 11})
    assert table.version == 0 and rows_locked(manager) == {"1": "exclusive"}
    txn.exit()
    txn.commit()
    assert coins(table)[1] == 11
    cursor.find(2)
    cursor.commit({"coins": 22})
    assert coins(table)[2] == 22 and manager.num_locks_held == 0


def test_a_row_deleted_while_one_waited_is_skipped(table: DeltaTable) -> None:
    import threading

    manager = LockManager(lock_timeout=-1)
    deleting, reading = manager.new_transaction(), manager.new_transaction()
    cursor = deleting.cursor(table, key=["id"])
    cursor.find(1)
    cursor.delete()
    steps: list[Any] = []

    def read() -> None:
        mine = reading.cursor(table, key=["id"])
        steps.append((mine.first(), mine.key(), rows_locked(manager)))

    thread = threading.Thread(target=read)
    thread.start()
    while reading.waiting is None:
        assert thread.is_alive()
    assert reading.waiting.mode == "upgradable"
    deleting.commit()
    thread.join()
    assert steps == [("ACQUIRED", (2,), {"2": "upgradable"})]


def test_statements_see_what_a_cursor_has_stored_and_the_reverse(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    accounts, cursor = txn.table(table), txn.cursor(table, key="id")
    cursor.find(1)
    cursor.store({"coins": 11})
    accounts.update({"coins": "coins * 100"}, where="id <= 2")
    cursor.find(1)
    assert cursor.value()["coins"] == 1100
    cursor.store({"coins": 7})
    assert coins(accounts) == {1: 7, 2: 2000, 3: 30, 4: 40, 5: 50}
    txn.enter()
    cursor.find(2)
    cursor.store({"coins": 8})
    assert coins(accounts)[2] == 8
    txn.exit()
    assert coins(accounts) == {1: 7, 2: 2000, 3: 30, 4: 40, 5: 50}
    txn.commit()
    assert coins(table) == {1: 7, 2: 2000, 3: 30, 4: 40, 5: 50} and table.version == 1


def test_a_read_that_another_process_has_changed_is_a_conflict(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.find(2)
    cursor.store({"coins": 21})
    table.update({"coins": "coins + 1"}, where="id = 4")  # without locks, in the same file
    cursor.find(3)
    txn.commit()
    assert coins(table) == {1: 10, 2: 21, 3: 30, 4: 41, 5: 50}
    cursor.find(1)
    cursor.find(2)
    cursor.store({"coins": 22})
    table.update({"coins": "0"}, where="id = 1")
    files = {p.name for p in Path(table.path).rglob("*.parquet")}
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        txn.commit()
    assert caught.value.conflict is not None and manager.num_locks_held == 0
    assert coins(table)[2] == 21 and {p.name for p in Path(table.path).rglob("*.parquet")} == files


def test_a_row_that_another_process_has_added_is_a_conflict(manager: LockManager, table: DeltaTable) -> None:
    table.set_properties({"delta.isolationLevel": "WriteSerializable"})
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(9)
    cursor.store({"coins": 9})
    table.append({"id": [9], "shop": ["x"], "coins": [1]})
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    assert table.to_arrow(where="id = 9").num_rows == 1


def test_another_process_that_keeps_committing_elsewhere_costs_nothing_but_time(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the version that rows are written into and the commit another writer replaces the file."""
    from deltanb.locks.tables import table as locked_table

    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": 11})
    real, rivals = locked_table.Part.flush, iter((4, 5))

    def flush(self: Any) -> None:
        real(self)
        for n in rivals:
            table.update({"coins": "coins + 1"}, where=f"id = {n}")
            return

    monkeypatch.setattr(locked_table.Part, "flush", flush)
    txn.commit()
    assert coins(table) == {1: 11, 2: 20, 3: 30, 4: 41, 5: 51} and table.version == 3
    actions = [action for version in range(4) for action in table.log.read_commit(version)]
    named = {action.path for action in actions if hasattr(action, "path")}
    on_disk = {str(p.relative_to(table.path)) for p in Path(table.path).rglob("*.parquet")}
    assert on_disk == named


def after_flush(monkeypatch: pytest.MonkeyPatch, rival: Callable[[], object]) -> None:
    """Let another writer in once, between the version that rows are written into and the commit."""
    from deltanb.locks.tables import table as locked_table

    real, rivals = locked_table.Part.flush, [rival]

    def flush(self: Any) -> None:
        real(self)
        if rivals:
            rivals.pop()()

    monkeypatch.setattr(locked_table.Part, "flush", flush)


def test_rows_that_are_written_again_do_not_forget_what_statements_read(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = manager.new_transaction()
    seen = txn.table(table).to_arrow(where="id = 4")["coins"][0].as_py()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": seen})
    after_flush(monkeypatch, lambda: table.update({"coins": "0"}, where="id = 4"))
    with pytest.raises(errors.DeltaConcurrentModificationException):
        txn.commit()
    assert coins(table)[1] == 10 and table.version == 1
    assert {p.name for p in Path(table.path).rglob("*.parquet")} == {
        Path(action.path).name for version in (0, 1) for action in table.log.read_commit(version)
        if hasattr(action, "path")}


def test_another_process_that_commits_as_rows_are_written_costs_nothing_but_time(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the version that the rows were checked against and the statement that they become."""
    from deltanb.locks.tables import rows as locked_rows

    real, rivals = locked_rows.apply_changes, [4, 5]

    def apply_changes(*args: Any, **settings: Any) -> Any:
        if rivals:
            table.update({"coins": "coins + 1"}, where=f"id = {rivals.pop()}")
        return real(*args, **settings)

    monkeypatch.setattr(locked_rows, "apply_changes", apply_changes)
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": 11})
    txn.commit()
    assert coins(table) == {1: 11, 2: 20, 3: 30, 4: 41, 5: 51} and table.version == 3


def test_another_process_that_commits_as_reads_are_held_against_the_newest_version(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.locks.tables.log import LockedTransaction

    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(2)
    cursor.find(1)
    cursor.store({"coins": 11})
    real, rivals = LockedTransaction.filter_files, [3, 4, 5]

    def filter_files(*args: Any) -> Any:
        if rivals:
            table.update({"coins": "coins + 1"}, where=f"id = {rivals.pop()}")
        return real(*args)

    monkeypatch.setattr(LockedTransaction, "filter_files", filter_files)
    txn.commit()
    assert coins(table) == {1: 11, 2: 20, 3: 31, 4: 41, 5: 51} and table.version == 4


# -- keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [
    [-5, 0, 7, 2**40],
    ["", "Zebra", "a", "aa", "ä", "\U0001f600"],
    [Decimal("-1.50"), Decimal("0.00"), Decimal("3.25")],
    [dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    [b"", b"\x00", b"\xff"],
    [-1.5, 0.0, 2.5, float("inf")],
])
def test_keys_of_every_kind(manager: LockManager, tmp_path: Path, values: list[Any]) -> None:
    table = dn.create(tmp_path / "t", {"k": list(reversed(values)), "n": list(range(len(values)))})
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["k"])
    seen = []
    cursor.first()
    while cursor.key() is not None:
        seen.append(cursor.key()[0])
        cursor.store({"n": 100})
        cursor.next()
    assert seen == values
    txn.commit()
    assert table.to_arrow()["n"].to_pylist() == [100] * len(values)


def test_keys_of_several_columns(manager: LockManager, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"a": [2, 1, 1, None], "b": ["x", "y", "x", "x"], "n": [4, 3, 2, 1]})
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["a", "b"])
    seen = []
    cursor.first()
    while cursor.key() is not None:
        seen.append((cursor.key(), cursor.value()["n"]))
        cursor.next()
    assert seen == [((None, "x"), 1), ((1, "x"), 2), ((1, "y"), 3), ((2, "x"), 4)]
    for key in ((1, "y"), [1, "y"], {"b": "y", "a": 1}):
        cursor.find(key)
        assert cursor.value()["n"] == 3
    cursor.find((None, "x"))
    cursor.store({"n": 11})
    txn.commit()
    assert table.to_arrow(where="a IS NULL")["n"].to_pylist() == [11]


def test_wrong_use_of_a_cursor_is_refused_by_name(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    for key in (["ids"], [], None, 7, ["id", "id"]):
        with pytest.raises(errors.InvalidArgument):
            txn.cursor(table, key=key)
    cursor = txn.cursor(table, key=["id"])
    for verb in (cursor.next, cursor.delete, lambda: cursor.store({"coins": 1})):
        with pytest.raises(errors.IllegalStateError, match="is not on a row"):
            verb()
    with pytest.raises(errors.InvalidArgument, match="by id"):
        txn.cursor(table, key=["shop"])
    for wrong in ("x", (1, 2), {"ids": 1}, ()):
        with pytest.raises(errors.InvalidArgument):
            cursor.find(wrong)
    cursor.find(1)
    before = manager.num_locks_held
    with pytest.raises(errors.SchemaMismatch, match="did you mean"):
        cursor.store({"coin": 1})
    with pytest.raises(errors.SchemaMismatch, match="coins"):
        cursor.store({"coins": "many"})
    with pytest.raises(errors.InvalidArgument, match="another key"):
        cursor.store({"id": 2})
    with pytest.raises(errors.InvalidArgument, match="as a dict"):
        cursor.store(7)  # type: ignore[arg-type]
    assert manager.num_locks_held == before and cursor.value()["coins"] == 10
    txn.commit()
    assert table.version == 0


def test_a_key_that_is_not_unique_is_refused(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["shop"])
    with pytest.raises(errors.InvalidArgument, match=r"3 rows with shop='a'"):
        cursor.first()
    txn.exit()
    assert manager.num_locks_held == 0


@pytest.mark.parametrize("partition", [None, "tens"])
def test_what_the_table_gives_is_given_with_the_commit(
    manager: LockManager, tmp_path: Path, partition: str | None
) -> None:
    table = dn.create(tmp_path / "t", StructType([
        StructField("id", LONG), StructField("v", TEXT, metadata=given_by_table.default("'none'")),
        StructField("n", LONG), StructField("tens", LONG, metadata=given_by_table.generated_as("n DIV 10"))]),
        partition_by=partition or (), properties={"delta.feature.allowColumnDefaults": "supported"})
    table.append({"id": [1, 2], "v": ["a", "b"], "n": [15, 25]})
    txn = manager.new_transaction()
    cursor = txn.cursor(table, key="id")
    cursor.find(1)
    cursor.store({"n": 31})
    cursor.find(9)
    cursor.store({"n": 99})
    assert cursor.value() == {"id": 9, "v": None, "n": 99, "tens": None}
    cursor.store({"n": 98})
    if partition:
        assert {"t tens=1", "t tens=3", "t tens=9"} <= {
            manager.label(state.index_id, state.key) for state in manager.locks()}
    txn.commit()
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "v": "a", "n": 31, "tens": 3}, {"id": 2, "v": "b", "n": 25, "tens": 2},
        {"id": 9, "v": "none", "n": 98, "tens": 9}]


@pytest.mark.parametrize("properties", [
    {"delta.enableDeletionVectors": True}, {"delta.enableRowTracking": True},
    {"delta.enableChangeDataFeed": True}, {"delta.columnMapping.mode": "name"},
    {"delta.enableInCommitTimestamps": True}])
def test_tables_with_features(manager: LockManager, tmp_path: Path, properties: dict[str, Any]) -> None:
    table = dn.create(tmp_path / "t", {"day": [1, 1, 2], "id": [1, 2, 3], "n": [1, 2, 3]}, partition_by="day",
                      properties=properties)
    one, two = manager.new_transaction(), manager.new_transaction()
    for txn, key in ((one, 1), (two, 2)):
        cursor = txn.cursor(table, key="id")
        cursor.find(key)
        cursor.store({"n": 10 * key})
    days = one.table(table)
    with pytest.raises(errors.LockTimeoutError, match="t day=1"):  # its row becomes part of a statement there
        days.append({"day": [3], "id": [4], "n": [4]})
    two.commit()
    days.append({"day": [3], "id": [4], "n": [4]})
    one.commit()
    data = table.to_arrow(columns=["id", "n"])
    assert dict(zip(*(data[name].to_pylist() for name in ("id", "n")), strict=True)) == {
        1: 10, 2: 20, 3: 3, 4: 4}
    if "delta.enableChangeDataFeed" in properties:
        assert sorted(table.changes(2, 2)["_change_type"].to_pylist()) == [
            "insert", "update_postimage", "update_preimage"]


# -- locks that were let go, and others' commits ---------------------------------------------------------


@pytest.mark.parametrize("mode", ["READ_COMMITTED", "READ_UNCOMMITTED"])
def test_a_read_that_keeps_no_locks_keeps_those_of_rows_that_were_stored(
    manager: LockManager, table: DeltaTable, mode: str
) -> None:
    txn, other = manager.new_transaction(), manager.new_transaction()
    txn.lock_mode = mode
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": 11})
    assert coins(txn.table(table))[1] == 11
    with pytest.raises(errors.LockTimeoutError):
        other.table(table).update({"coins": "0"}, where="id = 1")
    txn.commit()
    assert coins(table)[1] == 11


@pytest.mark.parametrize("let_go", ["unlock", "scope"])
def test_a_row_that_is_read_again_counts_as_it_was_then(
    manager: LockManager, table: DeltaTable, let_go: str
) -> None:
    txn, other = manager.new_transaction(), manager.new_transaction()
    txn.enter()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(2)
    if let_go == "unlock":
        txn.unlock()
    else:
        txn.rollback()
    theirs = other.cursor(table, key=["id"])
    theirs.find(2)
    theirs.store({"coins": 7})
    other.commit()
    cursor.find(2)
    cursor.store({"coins": cursor.value()["coins"] + 1})
    txn.commit_all()
    assert coins(table)[2] == 8


@pytest.mark.parametrize("at", [0, 1])
def test_no_row_is_overwritten_that_another_process_changes_while_rows_are_held_against_the_table(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    from deltanb.locks.tables import log as tables

    real, rivals = tables.LockedTransaction.filter_files, iter((0, 1, 2))

    def filter_files(self: Any, *predicates: Any) -> Any:
        if next(rivals, None) == at:
            table.update({"coins": "coins + 100"}, where="id = 2")
        return real(self, *predicates)

    txn = manager.new_transaction()
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.find(2)
    cursor.store({"coins": cursor.value()["coins"] + 1})
    monkeypatch.setattr(tables.LockedTransaction, "filter_files", filter_files)
    with pytest.raises(errors.DeltaConcurrentModificationException):
        txn.commit()
    assert coins(table)[2] == 120


def test_rows_that_were_put_off_need_no_mode_of_what_the_transaction_does_now(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    cursor.store({"coins": 11})
    txn.commit()
    txn.durability_mode = "NO_REDO"
    manager.flush()
    assert coins(table)[1] == 11


def test_a_row_that_cannot_be_read_keeps_no_lock_where_reads_keep_none(
    manager: LockManager, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "twice", {"id": [1, 1], "coins": [1, 2]})
    txn = manager.new_transaction()
    txn.lock_mode = "READ_COMMITTED"
    with pytest.raises(errors.InvalidArgument, match="2 rows"):
        txn.cursor(table, key=["id"]).find(1)
    assert manager.num_locks_held == 0


def test_a_move_that_finds_no_row_gives_back_only_what_it_has_taken(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row was shared before; another process deletes it as the cursor comes to it in a nested scope."""
    from deltanb.locks.tables import rows as locked_rows

    manager, rivals = LockManager("LENIENT", lock_timeout=0), ["id = 1"]
    txn, other = manager.new_transaction(), manager.new_transaction()
    txn.lock_mode = "REPEATABLE_READ"
    cursor = txn.cursor(table, key=["id"])
    cursor.find(1)
    real = locked_rows.LockedRows.read

    def read(self: Any, key: Any) -> Any:
        if rivals:
            table.delete(rivals.pop())
        return real(self, key)

    monkeypatch.setattr(locked_rows.LockedRows, "read", read)
    txn.enter()
    cursor.first()
    assert cursor.key() == (2,)
    txn.exit()
    theirs = other.cursor(table, key=["id"])
    theirs.find(1)
    with pytest.raises(errors.LockTimeoutError):
        theirs.store({"coins": 0})
    txn.exit()
    other.exit()
    assert manager.num_locks_held == 0
