"""Tables under locks: what statements lock, what they see, what is undone, and how they commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.table.table import DeltaTable
from tests.patience import PATIENCE

ROWS = {"day": [1, 1, 2, 3], "n": [1, 2, 3, 4]}


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return dn.create(tmp_path / "days", ROWS, partition_by="day")


def rows(table: Any) -> list[tuple[int, int]]:
    data = table.to_arrow(columns=["day", "n"])
    return sorted(zip(data["day"].to_pylist(), data["n"].to_pylist(), strict=True))


def data_files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.suffix in (".parquet", ".bin")}


def held(manager: LockManager) -> dict[str, str]:
    """What is locked, in words, by whomever; intentions on the partition of no partition are left out."""
    return {manager.label(state.index_id, state.key): " ".join(mode for _, mode in state.holders)
            for state in manager.locks()}


# -- what is locked ------------------------------------------------------------------------------------


READS = {
    "UPGRADABLE_READ": ("intention upgradable", "upgradable"),
    "REPEATABLE_READ": ("intention shared", "shared"),
    "READ_COMMITTED": None,
    "READ_UNCOMMITTED": None,
    "UNSAFE": None,
}


@pytest.mark.parametrize("mode", READS)
def test_a_read_locks_the_partitions_of_its_condition(
    manager: LockManager, table: DeltaTable, mode: str
) -> None:
    txn = manager.new_transaction()
    txn.lock_mode = mode  # type: ignore[assignment]
    days = txn.table(table)
    assert days.to_arrow(where="day = 1 AND n > 1").num_rows == 1
    modes = READS[mode]
    assert held(manager) == ({} if modes is None else {"days": modes[0], "days day=1": modes[1]})
    assert days.to_arrow(where="n = 3").num_rows == 1
    if modes is not None:
        assert held(manager)["days"].startswith(modes[1])
    txn.exit()
    assert manager.num_locks_held == 0


@pytest.mark.parametrize(("where", "parts"), [
    ("day = 2", {"days day=2"}),
    ("day IN (1, 3)", {"days day=1", "days day=3"}),
    ("day = 9", {"days day=9"}),  # one that is not there yet
    ("day > 1", {"days day=2", "days day=3"}),
    ("day > 9", set()),  # one that comes could not be named: the whole table
    ("n = 1", set()),
    (None, set()),
])
def test_the_partitions_of_a_condition(
    manager: LockManager, table: DeltaTable, where: str | None, parts: set[str]
) -> None:
    txn = manager.new_transaction()
    txn.table(table).to_arrow(where=where)
    assert held(manager) == ({"days": "intention upgradable", **dict.fromkeys(parts, "upgradable")}
                             if parts else {"days": "upgradable"})


@pytest.mark.parametrize(("work", "locks"), [
    (lambda t: t.delete("day = 1"), {"days": "intention exclusive", "days day=1": "exclusive"}),
    (lambda t: t.delete("n = 1"), {"days": "exclusive"}),
    (lambda t: t.update({"n": "n + 1"}, where="day = 2 AND n = 3"),
     {"days": "intention exclusive", "days day=2": "exclusive"}),
    (lambda t: t.update({"day": "7"}, where="day = 2"),
     {"days": "intention exclusive", "days day=2": "exclusive", "days day=7": "intention exclusive"}),
    (lambda t: t.append({"day": [1, 9], "n": [0, 0]}),
     {"days": "intention exclusive", "days day=1": "intention exclusive",
      "days day=9": "intention exclusive"}),
    (lambda t: t.overwrite({"day": [3], "n": [0]}, where="day = 3"),
     {"days": "intention exclusive", "days day=3": "exclusive"}),
    (lambda t: t.overwrite({"day": [3], "n": [0]}, partition_overwrite="dynamic"),
     {"days": "intention exclusive", "days day=3": "exclusive"}),
    (lambda t: t.overwrite({"day": [3], "n": [0]}), {"days": "exclusive"}),
    (lambda t: t.add_columns("more int"), {"days": "exclusive"}),
    (lambda t: (t.merge({"day": [1], "n": [1]}, "target.day = source.day AND target.n = source.n")
                .when_matched_delete().execute()),
     {"days": "intention exclusive", "days day=1": "exclusive"}),
])
def test_a_write_locks_what_it_reads_and_what_it_touches(
    manager: LockManager, table: DeltaTable, work: Callable[[Any], Any], locks: dict[str, str]
) -> None:
    txn = manager.new_transaction()
    work(txn.table(table))
    assert held(manager) == locks
    txn.commit()
    assert manager.num_locks_held == 0 and table.version == 1


def test_who_adds_to_a_partition_keeps_readers_out_and_not_those_who_add(
    manager: LockManager, table: DeltaTable
) -> None:
    one, two, three = (manager.new_transaction() for _ in range(3))
    one.table(table).append({"day": [1], "n": [10]})
    two.table(table).append({"day": [1], "n": [20]})
    files = data_files(Path(table.path))
    with pytest.raises(errors.LockTimeoutError, match="days day=1"):
        three.table(table).to_arrow(where="day = 1")
    with pytest.raises(errors.LockTimeoutError, match="days day=1"):
        three.table(table).delete("day = 1")
    assert three.table(table).to_arrow(where="day = 2").num_rows == 1
    two.commit()
    one.commit()
    assert data_files(Path(table.path)) == files
    assert rows(table)[2:4] == [(1, 10), (1, 20)] and table.version == 2


def test_an_append_that_waits_in_vain_leaves_no_file(manager: LockManager, table: DeltaTable) -> None:
    reader, writer = manager.new_transaction(), manager.new_transaction()
    reader.table(table).to_arrow(where="day = 1")
    files, before = data_files(Path(table.path)), held(manager)
    with pytest.raises(errors.LockTimeoutError):
        writer.table(table).append({"day": [2, 1], "n": [5, 5]})
    assert data_files(Path(table.path)) == files and held(manager) == before
    writer.table(table).append({"day": [2], "n": [5]})
    writer.commit()
    assert table.version == 1


def test_too_many_partitions_lock_the_table(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.locks.tables.log.MAX_PARTS", 2)
    txn = manager.new_transaction()
    txn.table(table).to_arrow(where="day > 0")
    assert held(manager) == {"days": "upgradable"}
    txn.exit()
    txn.table(table).append({"day": [1, 2, 3], "n": [0, 0, 0]})
    assert held(manager) == {"days": "exclusive"}


def test_values_of_a_partition_that_are_written_in_two_ways_are_one_lock(
    manager: LockManager, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"at": ["2026-01-01T00:00:00Z"], "n": [1]}, partition_by="at")
    table = dn.create(tmp_path / "u", "at timestamp, n int", partition_by="at")
    import datetime as dt

    table.append({"at": [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)], "n": [1]})
    txn = manager.new_transaction()
    assert txn.table(table).to_arrow(where="at = TIMESTAMP '2026-01-01 00:00:00'").num_rows == 1
    txn.table(table).delete("at < TIMESTAMP '2027-01-01 00:00:00'")
    assert len(held(manager)) == 2
    txn.commit()


# -- what is seen --------------------------------------------------------------------------------------


def test_statements_see_each_other_and_nobody_else_sees_them(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    days = txn.table(table)
    days.update({"n": "n * 10"}, where="day = 1")
    days.append({"day": [4], "n": [40]})
    assert rows(days) == [(1, 10), (1, 20), (2, 3), (3, 4), (4, 40)]
    assert rows(table) == [(1, 1), (1, 2), (2, 3), (3, 4)] and table.version == 0
    txn.commit()
    assert rows(table) == [(1, 10), (1, 20), (2, 3), (3, 4), (4, 40)] and table.version == 1
    assert table.history()[0].operation == "TRANSACTION"


def test_after_a_lock_the_newest_version_is_read(manager: LockManager, table: DeltaTable) -> None:
    one, two = manager.new_transaction(), manager.new_transaction()
    assert one.table(table).to_arrow(where="day = 1").num_rows == 2
    one.table(table).update({"n": "n + 1"}, where="day = 1")
    two.table(table).update({"n": "n + 100"}, where="day = 2")
    two.commit()
    one.table(table).update({"n": "n + 1"}, where="day = 2")  # of what two has made of it
    one.commit()
    assert rows(table) == [(1, 2), (1, 3), (2, 104), (3, 4)] and table.version == 2


def test_a_transaction_is_used_again_and_its_tables_with_it(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    days = txn.table(table)
    for version in (1, 2, 3):
        days.append({"day": [version], "n": [0]})
        txn.commit()
        assert table.version == version and days is txn.table(table.path)
    days.append({"day": [9], "n": [0]})
    txn.exit()
    assert table.version == 3 and rows(days) == rows(table)


def test_read_committed_sees_what_others_have_committed(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    txn.lock_mode = "READ_COMMITTED"  # type: ignore[assignment]
    days = txn.table(table)
    days.append({"day": [7], "n": [7]})
    assert days.to_arrow(where="day = 1").num_rows == 2
    table.append({"day": [1], "n": [9]})  # it has read there, and does not keep it so
    assert days.to_arrow(where="day = 1").num_rows == 3
    txn.commit()
    assert table.version == 2


def test_unsafe_writes_are_permanent_at_once(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    txn.lock_mode = "UNSAFE"  # type: ignore[assignment]
    txn.table(table).delete("day = 1")
    assert table.version == 1 and manager.num_locks_held == 0
    txn.exit()
    assert table.version == 1


# -- scopes --------------------------------------------------------------------------------------------


def test_a_scope_takes_back_rows_metadata_and_files(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    days = txn.table(table)
    days.update({"n": "n + 10"}, where="day = 1")
    files_before, locks = data_files(Path(table.path)), held(manager)
    txn.enter()
    days.append({"day": [8], "n": [8]})
    days.add_columns("more int")
    with txn.scope():
        days.delete("day = 2")
    assert data_files(Path(table.path)) > files_before
    txn.exit()
    assert data_files(Path(table.path)) == files_before and held(manager) == locks
    assert days.schema.names == ["day", "n"]
    with txn.scope():
        days.append({"day": [5], "n": [5]})
    txn.commit()
    assert rows(table) == [(1, 11), (1, 12), (2, 3), (3, 4), (5, 5)]


def test_all_is_undone_by_an_exit_and_nothing_is_left(manager: LockManager, table: DeltaTable) -> None:
    files = data_files(Path(table.path))
    with manager.new_transaction() as txn:
        days = txn.table(table)
        days.update({"n": "n + 1"})
        txn.enter()
        days.append({"day": [1], "n": [1]})
    txn.reset()
    assert data_files(Path(table.path)) == files and table.version == 0 and manager.num_locks_held == 0


# -- other writers -------------------------------------------------------------------------------------


def test_a_writer_without_locks_is_kept_apart_by_the_check(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    days = txn.table(table)
    days.update({"n": "n + 1"}, where="day = 1")
    table.delete("day = 2")  # elsewhere: the commit goes on behind it
    days.append({"day": [3], "n": [9]})
    txn.commit()
    assert rows(table) == [(1, 2), (1, 3), (3, 4), (3, 9)]
    days.update({"n": "n + 1"}, where="day = 1")
    table.delete("day = 1 AND n = 2")
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    assert rows(table) == [(1, 3), (3, 4), (3, 9)]


def test_a_conflict_is_met_by_the_next_statement_already(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    days = txn.table(table)
    days.update({"n": "n + 1"}, where="day = 1")
    table.delete("day = 1 AND n = 2")
    with pytest.raises(errors.ConcurrentAppendException):
        days.delete("day = 3")
    txn.rollback()
    days.delete("day = 3")
    txn.commit()
    assert rows(table) == [(1, 1), (2, 3)]


# -- durability, misuse --------------------------------------------------------------------------------


def test_a_commit_that_is_put_off_keeps_its_exclusive_locks(manager: LockManager, table: DeltaTable) -> None:
    txn, other = manager.new_transaction(), manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    txn.table(table).delete("day = 1")
    txn.commit()
    assert table.version == 0 and held(manager) == {"days": "intention exclusive", "days day=1": "exclusive"}
    with pytest.raises(errors.LockTimeoutError):
        other.table(table).to_arrow(where="day = 1")
    other.table(table).append({"day": [2], "n": [0]})
    other.commit()
    txn.flush()
    assert table.version == 2 and manager.num_locks_held == 0
    assert rows(table) == [(2, 0), (2, 3), (3, 4)]


def test_no_sync_syncs_nothing_and_sync_all(
    manager: LockManager, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle)))
    txn = manager.new_transaction()
    txn.durability_mode = "NO_SYNC"  # type: ignore[assignment]
    merge = txn.table(table).merge({"day": [1], "n": [0]}, "target.n = source.n")
    merge.when_not_matched_insert_all().execute()
    txn.commit()
    assert not synced
    txn.durability_mode = "SYNC"  # type: ignore[assignment]
    txn.table(table).append({"day": [1], "n": [0]})
    txn.commit()
    assert len(synced) >= 2 and table.version == 2
    # what was written before the mode was changed is synced with the commit
    txn.durability_mode = "NO_SYNC"  # type: ignore[assignment]
    synced.clear()
    txn.table(table).append({"day": [77], "n": [0]})
    assert not synced
    txn.durability_mode = "SYNC"  # type: ignore[assignment]
    txn.commit()
    assert len(synced) >= 5  # the file, its folder, the table's, and the commit with its own


def test_no_redo_is_refused_on_tables(manager: LockManager, table: DeltaTable) -> None:
    txn = manager.new_transaction()
    txn.durability_mode = "NO_REDO"  # type: ignore[assignment]
    files = data_files(Path(table.path))
    with pytest.raises(errors.IllegalStateError, match="NO_REDO logs nothing"):
        txn.table(table).append({"day": [1], "n": [1]})
    assert data_files(Path(table.path)) == files
    txn.durability_mode = "SYNC"  # type: ignore[assignment]
    txn.table(table).append({"day": [1], "n": [1]})
    with pytest.raises(errors.IllegalStateError, match="NO_REDO logs nothing"):
        txn.durability_mode = "NO_REDO"  # type: ignore[assignment]
    assert txn.durability_mode == "SYNC"
    txn.commit()
    assert table.version == 1


def test_tables_without_a_common_log_are_refused(
    manager: LockManager, table: DeltaTable, tmp_path: Path
) -> None:
    other = dn.create(tmp_path / "other", {"n": [1]})
    txn = manager.new_transaction()
    txn.table(table).append({"day": [1], "n": [1]})
    with pytest.raises(errors.InvalidArgument, match="no log in common"):
        txn.table(other)
    txn.commit()
    assert table.version == 1
    txn.table(other).append({"n": [2]})
    txn.commit()
    assert other.version == 1


@pytest.mark.parametrize("target", [None, 7, b"path"])
def test_what_is_no_table_is_refused(manager: LockManager, target: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="takes a table or its path"):
        manager.new_transaction().table(target)


def test_wrong_tables_are_refused_by_name(manager: LockManager, table: DeltaTable, tmp_path: Path) -> None:
    txn = manager.new_transaction()
    with pytest.raises(errors.TableNotFound):
        txn.table(tmp_path / "nowhere")
    with pytest.raises(errors.IllegalStateError, match="as of version 0"):
        txn.table(table.as_of(0))
    with pytest.raises(errors.InvalidArgument, match="part of another transaction"):
        txn.table(table.transaction())
    with pytest.raises(errors.IllegalStateError, match="commits by itself"):
        txn.table(table).vacuum()
    with pytest.raises(errors.IllegalStateError):
        dn.Transaction.BOGUS.table(table)
    txn.reset("enough")
    with pytest.raises(errors.InvalidTransactionError, match="enough"):
        txn.table(table)


def test_a_statement_that_outlives_its_transaction_is_refused(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    merge = txn.table(table).merge({"day": [1]}, "target.day = source.day").when_matched_delete()
    txn.table(table).append({"day": [1], "n": [1]})
    txn.commit()
    with pytest.raises(errors.IllegalStateError, match="was committed"):
        merge.execute()
    assert table.version == 1


# -- transactions that wait for each other never meet a conflict -----------------------------------------


def waiting(
    manager: LockManager, work: Callable[[], object], then: Callable[[], object]
) -> list[BaseException]:
    """Do some work in another thread, and the rest here as soon as that waits; what the work raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not manager.num_waiting and thread.is_alive():
        pass
    assert manager.num_waiting == 1
    then()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("work", [
    lambda table: table.to_arrow(),
    lambda table: table.append({"day": [9], "n": [9]}),
    lambda table: table.update({"n": "0"}, where="day = 1"),
    lambda table: table.set_properties({"x.b": "2"}),
    lambda table: table.append({"day": [9], "n": [9], "m": [1]}, merge_schema=True),
], ids=["read", "append", "update", "properties", "evolution"])
def test_who_waits_for_new_metadata_goes_on_with_it(table: DeltaTable, work: Callable[[Any], object]) -> None:
    manager = LockManager(lock_timeout=PATIENCE)
    one, other = manager.new_transaction(), manager.new_transaction()
    one.table(table).set_properties({"x.a": "1"})

    def late() -> None:
        work(other.table(table))
        other.commit()

    assert waiting(manager, late, one.commit) == []
    assert table.properties["x.a"] == "1" and manager.num_locks_held == 0


@pytest.mark.parametrize("work", [
    lambda table: table.append({"v": ["b"]}),
    lambda table: table.merge({"v": ["b"]}, "target.v = source.v").when_not_matched_insert_all().execute(),
], ids=["append", "merge"])
def test_no_two_rows_get_one_number(tmp_path: Path, work: Callable[[Any], object]) -> None:
    manager = LockManager(lock_timeout=PATIENCE)
    table = dn.create(tmp_path / "numbered", "id BIGINT GENERATED ALWAYS AS IDENTITY, v STRING")
    one, other = manager.new_transaction(), manager.new_transaction()
    one.table(table).append({"v": ["a"]})

    def late() -> None:
        work(other.table(table))
        other.commit()

    assert waiting(manager, late, one.commit) == []
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_statement_begun_in_an_ended_transaction_is_refused_in_the_next(
    manager: LockManager, table: DeltaTable
) -> None:
    txn = manager.new_transaction()
    for end in (txn.rollback, txn.commit):
        merge = txn.table(table).merge({"day": [1]}, "target.day = source.day").when_matched_delete()
        end()
        with pytest.raises(errors.IllegalStateError, match="has ended, and this was begun before"):
            merge.execute()
        assert manager.num_locks_held == 0
    assert table.version == 0


def test_two_that_overwrite_the_table_wait_and_are_no_deadlock(table: DeltaTable) -> None:
    manager = LockManager(lock_timeout=PATIENCE)
    one, other = manager.new_transaction(), manager.new_transaction()
    one.table(table).overwrite({"day": [1], "n": [1]})

    def late() -> None:
        rows_once = pa.table({"day": pa.array([2]), "n": pa.array([2])}).to_reader()
        other.table(table).overwrite(rows_once)
        other.commit()

    assert waiting(manager, late, one.commit) == []
    assert rows(table) == [(2, 2)]


def test_a_partition_that_comes_new_into_a_condition_is_a_conflict(
    manager: LockManager, table: DeltaTable
) -> None:
    """What is not there cannot be locked; it is not overlooked either."""
    txn, other = manager.new_transaction(), manager.new_transaction()
    assert txn.table(table).to_arrow(where="day > 2").num_rows == 1
    other.table(table).append({"day": [9], "n": [9]})
    other.commit()
    with pytest.raises(errors.ConcurrentAppendException, match="day=9"):
        txn.table(table).update({"n": "0"}, where="day > 2")
    assert data_files(Path(table.path)) == {
        action.path for version in (0, 1) for action in table.log.read_commit(version)
        if hasattr(action, "path")}
