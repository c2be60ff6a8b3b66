"""Faults that lock managers are known to have: a check for each that holds, and fails once it is built in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltanb.errors import DeadlockError, DeltaError, IllegalStateError, LockTimeoutError
from deltanb.locks.core import deadlock
from deltanb.locks.core.lock_table import ALONE, Lock, Waiter
from deltanb.locks.core.manager import LockManager
from deltanb.locks.core.modes import EXCLUSIVE, NONE, SHARED, UPGRADABLE, LockResult
from deltanb.locks.core.stack import Locker
from deltanb.locks.core.transaction import Transaction
from tests.locks.clockwork import Clockwork

Patch = pytest.MonkeyPatch
A, B = b"a", b"b"


def three(clockwork: Clockwork) -> list[Transaction]:
    return [clockwork.manager.new_transaction() for _ in range(3)]


# -- checks ------------------------------------------------------------------------------------


def a_reader_is_no_deadlock_for_who_upgraded_in_place() -> None:
    with Clockwork(upgrade_rule="LENIENT") as clockwork:
        one, other, _ = three(clockwork)
        one.lock_shared(1, A)
        assert one.lock_upgradable(1, A) is LockResult.OWNED_UPGRADABLE
        other.lock_shared(1, A)
        try:
            assert one.try_lock_exclusive(1, A, 0) is LockResult.TIMED_OUT_LOCK
            clockwork.do(one, lambda: one.lock_exclusive(1, A, 0.1))
        except LockTimeoutError as error:
            assert type(error) is LockTimeoutError
        assert dict(clockwork.manager.locks()[0].holders) == {1: "upgradable", 2: "shared"}


def who_upgrades_behind_another_gets_the_lock_and_gives_it_back() -> None:
    with Clockwork(upgrade_rule="UNCHECKED") as clockwork:
        one, other, _ = three(clockwork)
        one.lock_upgradable(1, A)
        other.lock_shared(1, A)
        call = clockwork.start(other, lambda: other.lock_exclusive(1, A, 5))
        one.unlock()
        clockwork.finish(call, within=0)
        assert call.result() is LockResult.UPGRADED
        other.reset()
        assert clockwork.manager.num_locks_held == 0


def readers_behind_a_writer_that_gave_up_go_on() -> None:
    with Clockwork() as clockwork:
        one, writer, reader = three(clockwork)
        one.lock_shared(1, A)
        gives_up = clockwork.start(writer, lambda: writer.try_lock_exclusive(1, A, 1))
        waits = clockwork.start(reader, lambda: reader.lock_shared(1, A, -1))
        clockwork.finish(gives_up, within=1)
        assert gives_up.result() is LockResult.TIMED_OUT_LOCK
        assert reader.waiting is None, "nobody writes any more"
        clockwork.finish(waits, within=0)
        for txn in (one, reader):
            txn.reset()
        assert clockwork.manager.num_locks_held == 0


def a_refused_writer_leaves_nothing_behind() -> None:
    with Clockwork() as clockwork:
        one, other, _ = three(clockwork)
        one.lock_shared(1, A)
        other.lock_shared(1, B)
        waits = clockwork.start(other, lambda: other.lock_exclusive(1, A, -1))
        with pytest.raises(DeadlockError):
            clockwork.do(one, lambda: one.lock_exclusive(1, B))
        assert one.lock_check(1, B) is LockResult.UNOWNED
        one.reset()
        clockwork.finish(waits, within=0)
        other.reset()
        assert clockwork.manager.num_locks_held == 0


def nobody_waits_for_himself() -> None:
    with Clockwork(upgrade_rule="UNCHECKED") as clockwork:
        one, other, _ = three(clockwork)
        one.lock_upgradable(1, A)
        other.lock_shared(1, A)
        with pytest.raises(LockTimeoutError) as caught:
            other.lock_exclusive(1, A, 0)
        assert type(caught.value) is LockTimeoutError


def an_idle_reader_is_not_in_the_way_of_an_upgradable_lock() -> None:
    with Clockwork() as clockwork:
        owner, reader, asks = three(clockwork)
        owner.lock_upgradable(1, A)
        reader.lock_shared(1, A)
        asks.lock_exclusive(1, B)
        waits = clockwork.start(reader, lambda: reader.lock_shared(1, B, -1))
        asking = clockwork.start(asks, lambda: asks.lock_upgradable(1, A, 5))
        assert asking.is_waiting, asking.error
        owner.reset()
        clockwork.finish(asking, within=0)
        asks.reset()
        clockwork.finish(waits, within=0)


def who_queues_behind_a_writer_that_waits_for_it_is_refused() -> None:
    with Clockwork(upgrade_rule="UNCHECKED") as clockwork:
        owner, writer, reader = three(clockwork)
        owner.lock_upgradable(1, A)
        reader.lock_shared(1, A)
        waits = clockwork.start(writer, lambda: writer.lock_exclusive(1, A, -1))
        with pytest.raises(DeadlockError) as caught:
            clockwork.do(reader, lambda: reader.lock_exclusive(1, A, 5))
        assert clockwork.now == 0 and set(caught.value.cycle.transactions) == {2, 3}
        reader.reset()
        owner.reset()
        clockwork.finish(waits, within=0)


def the_first_lock_of_a_scope_is_upgraded_immediately() -> None:
    with Clockwork() as clockwork:
        txn = three(clockwork)[0]
        txn.enter()
        txn.lock_upgradable(1, A)
        assert txn.lock_exclusive(1, A) is LockResult.UPGRADED
        txn.lock_upgradable(1, B)
        txn.unlock_combine()
        with pytest.raises(IllegalStateError, match="exclusive"):
            txn.unlock()


def a_group_is_unlocked_whole_or_not_at_all() -> None:
    with Clockwork() as clockwork:
        txn = three(clockwork)[0]
        txn.lock_exclusive(1, A)
        txn.lock_upgradable(1, B)
        txn.unlock_combine()
        for unlock in (txn.unlock, txn.unlock_to_shared):
            with pytest.raises(IllegalStateError, match="exclusive"):
                unlock()
            assert txn.lock_check(1, B) is LockResult.OWNED_UPGRADABLE


def a_rollback_keeps_the_timeout_of_the_scope() -> None:
    with Clockwork() as clockwork:
        txn = three(clockwork)[0]
        txn.enter()
        txn.lock_timeout, txn.lock_mode = 7, "REPEATABLE_READ"
        txn.rollback()
        assert (txn.lock_timeout, txn.lock_mode, txn.nesting_level) == (7, "REPEATABLE_READ", 1)


def the_deadline_is_of_the_call_and_not_of_each_stage() -> None:
    with Clockwork() as clockwork:
        owner, reader, writer = three(clockwork)
        owner.lock_upgradable(1, A)
        reader.lock_shared(1, A)
        call = clockwork.start(writer, lambda: writer.try_lock_exclusive(1, A, 1))
        clockwork.pass_time(0.75)
        owner.unlock()
        assert call.is_waiting
        clockwork.finish(call, within=0.25)
        assert call.result() is LockResult.TIMED_OUT_LOCK
        assert dict(clockwork.manager.locks()[0].holders) == {2: "shared"}


# -- the faults, built in ------------------------------------------------------------------------


def keep_sharing(patch: Patch) -> None:
    def enter(lock: Lock, waiter: Waiter) -> bool:
        done = original(lock, waiter)
        if waiter.held == SHARED and lock.owner is waiter.locker:
            lock._share(waiter.locker)
        return done

    original = Lock.enter
    patch.setattr(Lock, "enter", enter)


def wake_nobody(patch: Patch) -> None:
    def leave(lock: Lock, waiter: Waiter) -> list[Waiter]:
        if waiter.step is not ALONE:
            return original(lock, waiter)
        lock.readers.remove(waiter)
        if waiter.held != UPGRADABLE:
            lock.owner = None
        return []

    original = Lock.leave
    patch.setattr(Lock, "leave", leave)


def keep_the_slot(patch: Patch) -> None:
    def leave(lock: Lock, waiter: Waiter) -> list[Waiter]:
        if waiter.step is not ALONE:
            return original(lock, waiter)
        lock.readers.remove(waiter)
        return lock.settle()

    original = Lock.leave
    patch.setattr(Lock, "leave", leave)


def count_oneself(patch: Patch) -> None:
    def in_the_way(waiter: Waiter, ahead: Any, *more: Any) -> Any:
        return [*original(waiter, ahead), *(other for other in waiter.lock.shared if other is waiter.locker)]

    original = deadlock.in_the_way
    patch.setattr(deadlock, "in_the_way", in_the_way)


def count_readers(patch: Patch) -> None:
    original = deadlock.in_the_way
    patch.setattr(deadlock, "in_the_way", lambda waiter, ahead, *more: [
        *original(waiter, ahead), *(other for other in waiter.lock.shared if other is not waiter.locker)])


def note_the_upgrade_of_an_only_lock(patch: Patch) -> None:
    def upgraded(locker: Locker, lock: Lock, held: int) -> None:
        if len(locker.entries) > 1:
            return original(locker, lock, held)
        locker.upgrades = {**locker.upgrades, len(locker.entries): UPGRADABLE}
        locker.is_plain = False
        return locker.entries.append(lock)

    original = Locker.upgraded
    patch.setattr(Locker, "upgraded", upgraded)


def unlock_one_by_one(patch: Patch) -> None:
    def unlock(manager: LockManager, locker: Locker, to: int = NONE) -> None:
        bottom = locker._bottom(len(locker.entries) - 1)
        for at in range(len(locker.entries) - 1, bottom - 1, -1):
            lock = locker.entries[at]
            if lock.held_by(locker) == EXCLUSIVE:
                raise IllegalStateError("an exclusive lock")
            if to == NONE:
                locker.cut(at)
            manager._table.lower(locker, lock, to)

    patch.setattr(LockManager, "unlock", unlock)


def roll_back_by_exit_and_enter(patch: Patch) -> None:
    def rollback(txn: Transaction) -> None:
        mode = txn.lock_mode
        txn.exit()
        txn.enter()
        txn.lock_mode = mode

    patch.setattr(Transaction, "rollback", rollback)


def give_each_stage_its_time(patch: Patch) -> None:
    def park(clockwork: Clockwork, waiter: Waiter, timeout: float | None) -> bool:
        parked[waiter] = clockwork, timeout
        return first(clockwork, waiter, timeout)

    def wait_to_read(lock: Lock, waiter: Waiter) -> None:
        then(lock, waiter)
        if waiter in parked:
            clockwork, timeout = parked[waiter]
            clockwork._deadlines[waiter] = clockwork.now + timeout

    parked: dict[Waiter, Any] = {}
    first, then = Clockwork._park, Lock._wait_to_read
    patch.setattr(Clockwork, "_park", park)
    patch.setattr(Lock, "_wait_to_read", wait_to_read)


def forget_the_queue(patch: Patch) -> None:
    def in_the_way(waiter: Waiter, ahead: Any, *more: Any) -> Any:
        waiting = [other.locker for other in waiter.lock.owners or ()]
        return [other for other in original(waiter, ahead) if other not in waiting]

    original = deadlock.in_the_way
    patch.setattr(deadlock, "in_the_way", in_the_way)


Check = Callable[[], None]
FAULTS: list[tuple[Check, Callable[[Patch], None]]] = [
    (a_reader_is_no_deadlock_for_who_upgraded_in_place, keep_sharing),
    (who_upgrades_behind_another_gets_the_lock_and_gives_it_back, keep_sharing),
    (readers_behind_a_writer_that_gave_up_go_on, wake_nobody),
    (a_refused_writer_leaves_nothing_behind, keep_the_slot),
    (nobody_waits_for_himself, count_oneself),
    (an_idle_reader_is_not_in_the_way_of_an_upgradable_lock, count_readers),
    (who_queues_behind_a_writer_that_waits_for_it_is_refused, forget_the_queue),
    (the_first_lock_of_a_scope_is_upgraded_immediately, note_the_upgrade_of_an_only_lock),
    (a_group_is_unlocked_whole_or_not_at_all, unlock_one_by_one),
    (a_rollback_keeps_the_timeout_of_the_scope, roll_back_by_exit_and_enter),
    (the_deadline_is_of_the_call_and_not_of_each_stage, give_each_stage_its_time),
]
NAMES = [check.__name__ for check, _ in FAULTS]


@pytest.mark.parametrize("check", [check for check, _ in FAULTS], ids=NAMES)
def test_holds(check: Check) -> None:
    check()


@pytest.mark.parametrize(("check", "build_in"), FAULTS, ids=NAMES)
def test_is_noticed(check: Check, build_in: Callable[[Patch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        build_in(patch)
        with pytest.raises((AssertionError, DeltaError, pytest.fail.Exception)):
            check()

