"""An index under locks: what each lock mode locks, keeps and sees; cursors; undo; ghosts."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.errors import IllegalStateError, IllegalUpgradeError, InvalidArgument, LockTimeoutError
from deltanb.locks import LockManager, LockMode, LockResult, Transaction
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Clockwork

BOGUS = Transaction.BOGUS


def made(**settings: Any) -> tuple[MemoryIndex, Transaction, Transaction]:
    manager = LockManager(lock_timeout=0, **settings)
    return (MemoryIndex(1, {"a": 1, "b": 2, "c": 3}, manager), manager.new_transaction(),
            manager.new_transaction())


def checked(txn: Transaction, *keys: bytes) -> list[str]:
    return [txn.lock_check(1, key).name.removeprefix("OWNED_") for key in keys]


READS = {
    # mode: after a read, after the read of no row, sees what is not committed
    "UPGRADABLE_READ": ("UPGRADABLE", "UPGRADABLE", False),
    "REPEATABLE_READ": ("SHARED", "SHARED", False),
    "READ_COMMITTED": ("UNOWNED", "UNOWNED", False),
    "READ_UNCOMMITTED": ("UNOWNED", "UNOWNED", True),
    "UNSAFE": ("UNOWNED", "UNOWNED", True),
}


@pytest.mark.parametrize("mode", list(LockMode))
def test_reads(mode: LockMode) -> None:
    index, txn, other = made()
    txn.lock_mode = mode
    row, absent, is_dirty = READS[mode]
    assert index.load(txn, "a") == 1 and index.load(txn, "zz") is None
    assert checked(txn, b"a", b"zz") == [row, absent]
    assert index.cursor(txn).find("b").name == ("ACQUIRED" if mode.is_repeatable else "UNOWNED")
    index.store(other, "c", 9)
    if is_dirty:
        assert index.load(txn, "c") == 9
    else:
        with pytest.raises(LockTimeoutError):
            index.load(txn, "c")


@pytest.mark.parametrize("mode", list(LockMode))
def test_writes(mode: LockMode) -> None:
    index, txn, other = made()
    txn.lock_mode = mode
    index.store(txn, "a", 7)
    assert index.load(BOGUS, "a") == 7
    assert checked(txn, b"a") == ["UNOWNED" if mode is LockMode.UNSAFE else "EXCLUSIVE"]
    txn.exit()
    assert index.load(other, "a") == (7 if mode is LockMode.UNSAFE else 1)


NOTHING_CHANGED = {"UPGRADABLE_READ": "UPGRADABLE", "REPEATABLE_READ": "UPGRADABLE",
                   "READ_COMMITTED": "UNOWNED", "READ_UNCOMMITTED": "UNOWNED", "UNSAFE": "UNOWNED"}


@pytest.mark.parametrize("mode", list(LockMode))
def test_what_changes_nothing_keeps_what_its_mode_keeps(mode: LockMode) -> None:
    index, txn, _ = made()
    txn.lock_mode = mode
    assert not index.insert(txn, "a", 7) and not index.replace(txn, "zz", 7)
    assert checked(txn, b"a", b"zz") == [NOTHING_CHANGED[mode]] * 2
    if mode is LockMode.UNSAFE:
        return
    txn.lock_upgradable(1, b"b")
    assert not index.insert(txn, "b", 7)
    assert checked(txn, b"b") == ["UPGRADABLE"], "as before"
    txn.lock_exclusive(1, b"c")
    assert not index.insert(txn, "c", 7)
    assert checked(txn, b"c") == ["EXCLUSIVE"], "as before"
    txn.lock_upgradable(1, b"d")
    txn.lock_shared(1, b"e")
    assert not index.replace(txn, "d", 7)
    assert checked(txn, b"d") == ["UPGRADABLE"] and txn.last_locked_key == b"e"
    txn.reset()
    assert txn.manager.num_locks_held == 0


def test_a_shared_lock_is_not_upgraded_under_strict() -> None:
    index, txn, _ = made()
    txn.lock_mode = "REPEATABLE_READ"
    index.load(txn, "a")
    with pytest.raises(IllegalUpgradeError):
        index.store(txn, "a", 7)
    assert index.load(txn, "a") == 1


def test_undo_goes_back_through_every_kind_of_change() -> None:
    index, txn, _ = made()
    index.store(txn, "a", 5)
    txn.enter()
    assert index.delete(txn, "a") and index.insert(txn, "a", 6) and index.replace(txn, "a", 7)
    index.store(txn, "b", None)
    assert index.insert(txn, "n", 1) and not index.delete(txn, "none")
    assert (index.load(txn, "a"), index.load(txn, "b"), index.count()) == (7, None, 3)
    txn.exit()
    assert [index.load(txn, key) for key in "abcn"] == [5, 2, 3, None] and index.count() == 3
    txn.exit()
    assert [index.load(None, key) for key in "abcn"] == [1, 2, 3, None]


def test_without_a_transaction_each_call_commits() -> None:
    index, txn, _ = made()
    assert index.insert(None, "n", 1) and index.delete(None, "a") and not index.insert(None, "b", 1)
    assert (index.load(None, "n"), index.load(None, "a"), index.count()) == (1, None, 3)
    assert txn.manager.num_locks_held == 0
    index.load(txn, "n")
    with pytest.raises(LockTimeoutError):
        index.store(None, "n", 2)
    assert index.load(None, "n") == 1
    index.store(txn, "n", 2)
    with pytest.raises(LockTimeoutError):
        index.load(None, "n")


def test_an_index_that_no_transaction_knows_yet_needs_no_manager() -> None:
    index = MemoryIndex(1, {"a": 1})
    index.store(None, "b", 2)
    assert index.delete(None, "a") and [index.load(None, key) for key in "ab"] == [None, 2]
    assert index.cursor(None).first() is LockResult.UNOWNED


@pytest.mark.parametrize("key", [None, 1, 1.5])
def test_keys_are_bytes_or_text(key: Any) -> None:
    with pytest.raises(InvalidArgument, match="a key is bytes"):
        MemoryIndex(1).load(None, key)
    with pytest.raises(InvalidArgument, match="an index id is an integer"):
        MemoryIndex("1")  # type: ignore[arg-type]


# -- cursors -----------------------------------------------------------------------------------


def walk(index: MemoryIndex, txn: Transaction | None) -> list[tuple[bytes | None, Any, str]]:
    cursor, rows = index.cursor(txn), []
    result = cursor.first()
    while cursor.key() is not None:
        rows.append((cursor.key(), cursor.value(), result.name))
        result = cursor.next()
    assert result is LockResult.UNOWNED and cursor.value() is None
    return rows


def test_a_cursor_goes_through_the_rows_in_order() -> None:
    index, txn, other = made()
    txn.lock_exclusive(1, b"b")
    assert walk(index, txn) == [(b"a", 1, "ACQUIRED"), (b"b", 2, "OWNED_EXCLUSIVE"), (b"c", 3, "ACQUIRED")]
    assert checked(txn, b"a", b"b", b"c") == ["UPGRADABLE", "EXCLUSIVE", "UPGRADABLE"]
    txn.reset()
    assert [result for *_, result in walk(index, None)] == ["UNOWNED"] * 3
    other.lock_mode = "READ_COMMITTED"
    other.lock_shared(1, b"c")
    assert [result for *_, result in walk(index, other)] == ["UNOWNED", "UNOWNED", "OWNED_SHARED"]
    assert checked(other, b"a", b"b", b"c") == ["UNOWNED", "UNOWNED", "SHARED"]
    assert [result for *_, result in walk(index, BOGUS)] == ["UNOWNED"] * 3


def test_a_cursor_waits_at_a_row_that_is_being_deleted_and_skips_it_then() -> None:
    with Clockwork() as clockwork:
        manager = clockwork.manager
        index = MemoryIndex(1, {"a": 1, "b": 2, "c": 3}, manager)
        deletes, reads = manager.new_transaction(), manager.new_transaction()
        index.delete(deletes, "b")
        cursor = index.cursor(reads)
        clockwork.do(reads, cursor.first)
        call = clockwork.start(reads, lambda: cursor.next())
        assert reads.waiting == ("upgradable", 1, b"b")
        deletes.commit()
        clockwork.finish(call, within=0)
        assert call.result() is LockResult.ACQUIRED and cursor.key() == b"c"
        assert checked(reads, b"a", b"b", b"c") == ["UPGRADABLE", "UNOWNED", "UPGRADABLE"]


def test_a_delete_that_is_undone_is_there_for_who_waited() -> None:
    with Clockwork() as clockwork:
        manager = clockwork.manager
        index = MemoryIndex(1, {"a": 1}, manager)
        deletes, reads = manager.new_transaction(), manager.new_transaction()
        index.delete(deletes, "a")
        call = clockwork.start(reads, lambda: walk(index, reads))
        deletes.exit()
        clockwork.finish(call, within=0)
        assert call.result() == [(b"a", 1, "ACQUIRED")]


def test_a_cursor_skips_what_its_own_transaction_deleted() -> None:
    index, txn, other = made()
    index.delete(txn, "b")
    assert [key for key, *_ in walk(index, txn)] == [b"a", b"c"]
    assert checked(txn, b"b") == ["EXCLUSIVE"]
    other.lock_mode = "READ_UNCOMMITTED"
    assert [key for key, *_ in walk(index, other)] == [b"a", b"c"]


def test_a_cursor_writes_where_it_stands() -> None:
    index, txn, _ = made()
    cursor = index.cursor(txn)
    for refused in (cursor.next, lambda: cursor.store(1), lambda: cursor.commit(1)):
        with pytest.raises(IllegalStateError, match="is not on a row"):
            refused()
    assert cursor.find("n") is LockResult.ACQUIRED and (cursor.key(), cursor.value()) == (b"n", None)
    cursor.store(4)
    assert cursor.value() == 4
    cursor.commit(None)
    assert index.load(None, "n") is None and txn.manager.num_locks_held == 0
    assert cursor.next() is LockResult.UNOWNED and cursor.key() is None
    alone = index.cursor(None)
    alone.find("a")
    alone.commit(8)
    assert index.load(None, "a") == 8
    alone.reset()
    assert alone.key() is None


def test_ghosts_go_with_the_commit() -> None:
    index, txn, _ = made()
    index.delete(txn, "a")
    index.insert(txn, "n", 1)
    index.delete(txn, "n")
    assert len(index._keys) == 4
    txn.commit()
    assert index._keys == [b"b", b"c"] == sorted(index._rows)
