"""Locks that are taken without the mutex, while something else happens at just that moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deltanb.errors import IllegalStateError, InvalidArgument, LockInterruptedError
from deltanb.locks import LockManager, LockResult, Transaction
from deltanb.locks.core.lock_table import MANY
from tests.patience import PATIENCE

A, B = b"a", b"b"
Moment = Callable[["Locks", Any, Any], Any]


class Locks(dict[Any, Any]):
    """The locks of a table, where something happens when one is put in."""

    moment: Moment | None = None
    lost: tuple[Any, Any] | None = None

    def setdefault(self, name: Any, lock: Any = None) -> Any:
        moment, self.moment = self.moment, None
        return super().setdefault(name, lock) if moment is None else moment(self, name, lock)

    def put(self, name: Any, lock: Any) -> Any:
        return super().setdefault(name, lock)

    def clear(self) -> None:
        if self.lost is not None:
            super().setdefault(*self.lost)
        super().clear()


def staged(moment: Callable[[LockManager], Moment]) -> tuple[LockManager, Transaction]:
    manager = LockManager()
    manager._table.locks = Locks()
    manager._table.locks.moment = moment(manager)
    return manager, manager.new_transaction()


def closed_before(manager: LockManager) -> Moment:
    def moment(locks: Locks, name: Any, lock: Any) -> Any:
        manager.close()
        return locks.put(name, lock)
    return moment


def closed_after(manager: LockManager) -> Moment:
    def moment(locks: Locks, name: Any, lock: Any) -> Any:
        answer = locks.put(name, lock)
        manager.close()
        return answer
    return moment


def lost(manager: LockManager) -> Moment:
    def moment(locks: Locks, name: Any, lock: Any) -> Any:
        locks.lost = (name, lock)
        manager._table._narrow()
        locks.lost = None
        return lock
    return moment


def overtaken(manager: LockManager) -> Moment:
    def moment(locks: Locks, name: Any, lock: Any) -> Any:
        manager.new_transaction().lock_exclusive(*name)
        return locks.put(name, lock)
    return moment


def interrupted_after(manager: LockManager) -> Moment:
    def moment(locks: Locks, name: Any, lock: Any) -> Any:
        locks.put(name, lock)
        raise KeyboardInterrupt
    return moment


def a_closed_manager_has_no_lock_that_came_behind_its_back() -> None:
    manager, txn = staged(closed_before)
    with pytest.raises(LockInterruptedError, match="closed"):
        txn.lock_exclusive(1, A)
    assert manager.num_locks_held == 0 and txn.last_locked_key is None


@pytest.mark.parametrize(("mode", "left"), [("shared", 0), ("exclusive", 1)])
def test_what_a_closing_manager_has_seen_is_dropped_or_kept_for_good(mode: str, left: int) -> None:
    manager, txn = staged(closed_after)
    with pytest.raises(LockInterruptedError, match="closed"):
        getattr(txn, f"lock_{mode}")(1, A)
    assert txn.last_locked_key is None
    txn.reset()
    assert manager.num_locks_held == left


def a_lock_that_was_lost_when_memory_was_freed_is_taken_again() -> None:
    manager, txn = staged(lost)
    assert txn.lock_exclusive(1, A) is LockResult.ACQUIRED
    assert [state.holders for state in manager.locks()] == [((txn.id, "exclusive"),)]
    assert len(txn._locker.entries) == 1 and manager._table.quick is not None
    txn.commit()
    assert manager.num_locks_held == 0


def test_who_comes_second_finds_the_lock_held() -> None:
    manager, txn = staged(overtaken)
    assert txn.try_lock_shared(1, A, 0) is LockResult.TIMED_OUT_LOCK
    assert txn.last_locked_key is None and manager.num_locks_held == 1


def a_ctrl_c_leaves_no_lock_behind() -> None:
    for take in (lambda txn: txn.lock_shared(1, A), lambda txn: txn.lock_many([(1, B), (1, A)])):
        manager, txn = staged(interrupted_after)
        with pytest.raises(KeyboardInterrupt):
            take(txn)
        assert manager.num_locks_held == 0 and txn.last_locked_key is None
        assert txn.lock_exclusive(1, A) is LockResult.ACQUIRED


def trust_the_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockManager, "_is_still_held", lambda manager, locker, lock: True)


def leave_it_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockManager, "_take_out", lambda manager, locker, lock: None)


CHECKS = [(a_closed_manager_has_no_lock_that_came_behind_its_back, trust_the_table),
          (a_lock_that_was_lost_when_memory_was_freed_is_taken_again, trust_the_table),
          (a_ctrl_c_leaves_no_lock_behind, leave_it_there)]


@pytest.mark.parametrize(("check", "build_in"), CHECKS)
def test_holds_and_the_fault_is_noticed(check: Callable[[], None],
                                        build_in: Callable[[pytest.MonkeyPatch], None]) -> None:
    check()
    with pytest.MonkeyPatch.context() as patch:
        build_in(patch)
        with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)):
            check()


@pytest.mark.parametrize(("index_id", "key"), [(True, A), (1.0, A), (1, "a"), (1, [1]), (2**63, A)])
def test_what_only_equals_a_lock_that_is_held_is_refused(index_id: Any, key: Any) -> None:
    txn = LockManager().new_transaction()
    txn.lock_exclusive(1, A)
    with pytest.raises(InvalidArgument):
        txn.lock_exclusive(index_id, key)
    for wrong in ([(index_id, key)], [(1, A), (index_id, key)]):
        with pytest.raises(InvalidArgument):
            txn.lock_many(wrong)
    assert txn.lock_exclusive(1, bytearray(A)) is LockResult.OWNED_EXCLUSIVE  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [[(1,)], [(1, A, A)], ["ab"], [(1, A), "ab"], [None]])
def test_lock_many_takes_pairs_and_takes_none_of_others(wrong: list[Any]) -> None:
    txn = LockManager().new_transaction()
    with pytest.raises(InvalidArgument, match="pairs of an index id and a key"):
        txn.lock_many(wrong)
    assert txn.manager.num_locks_held == 0 and txn.lock_many([]) == {}


def test_lock_many_takes_the_rest_where_some_are_held() -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    txn.lock_shared(1, B)
    assert txn.lock_many([(1, B), (1, A), (1, A)], "shared") == {
        (1, A): LockResult.ACQUIRED, (1, B): LockResult.OWNED_SHARED}
    assert manager.num_locks_held == 2 == len(txn._locker.entries)


def test_a_disabled_transaction_is_told_nothing_at_a_glance() -> None:
    txn = LockManager().new_transaction()
    txn.lock_exclusive(1, A)
    with txn.operation(), pytest.raises(IllegalStateError, match="another call"):
        txn.commit()
    assert txn.lock_exclusive(1, A) is LockResult.OWNED_EXCLUSIVE


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_no_lock_is_held_twice_and_none_is_lost(restless: None) -> None:
    manager = LockManager(lock_timeout=PATIENCE)
    keys = [b"%d" % at for at in range(3)]
    inside = dict.fromkeys(keys, 0)
    wrong: list[bytes] = []
    ended: list[int] = []
    start = threading.Barrier(6)

    def work(number: int) -> None:
        txn = manager.new_transaction()
        start.wait(PATIENCE)
        for turn in range(2000):
            key = keys[(turn * 7 + number) % 3]
            if turn % 50 == number:
                txn.lock_many([(2, b"%d-%d" % (number, at)) for at in range(MANY + 1)])
            txn.lock_upgradable(1, key)
            inside[key] += 1
            if inside[key] != 1:
                wrong.append(key)
            inside[key] -= 1
            txn.unlock() if turn % 3 and turn % 50 != number else txn.commit()
        ended.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not wrong and sorted(ended) == list(range(6))
    assert manager.num_locks_held == manager.num_waiting == 0
