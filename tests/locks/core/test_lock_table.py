"""The tables of the core, the search for circles, and what a deadlock says of itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deltanb.errors import DeadlockError, LockTimeoutError
from deltanb.locks import LockManager, LockResult, Transaction
from deltanb.locks.core.deadlock import cycle_behind, cycle_of
from deltanb.locks.core.granules import Granule
from deltanb.locks.core.lock_table import FEW, REQUESTS, LockTable, Waiter
from deltanb.locks.core.modes import (
    COMPATIBLE,
    EXCLUSIVE,
    IS,
    MODE_NAMES,
    NONE,
    SHARED,
    UPGRADABLE,
    UpgradeRule,
)
from deltanb.locks.core.stack import Locker
from tests.locks.clockwork import Clockwork

MODES = (SHARED, UPGRADABLE, EXCLUSIVE)
KEYS = [b"a", b"b", b"c", b"d"]


def lock(txn: Transaction, mode: int, key: bytes, timeout: float | None = None) -> LockResult:
    result: LockResult = getattr(txn, f"lock_{MODE_NAMES[mode]}")(1, key, timeout)
    return result


def test_every_request_is_in_the_table() -> None:
    assert set(REQUESTS) == set(itertools.product(range(4), MODES))
    assert set(COMPATIBLE) == set(itertools.product(MODES, MODES))


@pytest.mark.parametrize(("held", "asked"), list(COMPATIBLE))
def test_modes_go_together_as_the_matrix_says(held: int, asked: int) -> None:
    manager = LockManager()
    one, other = manager.new_transaction(), manager.new_transaction()
    lock(one, held, b"k")
    if COMPATIBLE[held, asked]:
        assert lock(other, asked, b"k", 0) is LockResult.ACQUIRED
    else:
        with pytest.raises(LockTimeoutError):
            lock(other, asked, b"k", 0)


def test_a_lock_that_many_share_counts_each_once() -> None:
    manager = LockManager()
    readers = [manager.new_transaction() for _ in range(3 * FEW)]
    for reader in readers:
        assert lock(reader, SHARED, b"k") is LockResult.ACQUIRED
        assert lock(reader, SHARED, b"k") is LockResult.OWNED_SHARED
    assert len(manager.locks()[0].holders) == len(readers)
    writer = manager.new_transaction()
    for reader in readers:
        with pytest.raises(LockTimeoutError):
            lock(writer, EXCLUSIVE, b"k", 0)
        reader.unlock()
        assert reader.lock_check(1, b"k") is LockResult.UNOWNED
    assert lock(writer, EXCLUSIVE, b"k", 0) is LockResult.ACQUIRED


def circle(clockwork: Clockwork, size: int, timeout: float) -> list[Transaction]:
    """Transactions that hold one key each and, but for the last, wait for the next one's."""
    txns = [clockwork.manager.new_transaction() for _ in range(size)]
    for txn, key in zip(txns, KEYS, strict=False):
        clockwork.do(txn, lambda txn=txn, key=key: txn.lock_exclusive(1, key))
    for txn, key in zip(txns[:-1], KEYS[1:], strict=False):
        assert clockwork.start(txn, lambda txn=txn, key=key: txn.lock_shared(1, key, timeout)).is_waiting
    return txns


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("timeout", [0, 1, -1])
def test_the_request_that_closes_a_circle_is_refused(size: int, timeout: float) -> None:
    with Clockwork() as clockwork:
        txns = circle(clockwork, size, -1)
        last = txns[-1]
        with pytest.raises(DeadlockError) as caught:
            clockwork.do(last, lambda: last.lock_upgradable(1, KEYS[0], timeout))
        error = caught.value
        assert error.guilty and error.timeout == 0 and clockwork.now == 0
        assert error.cycle.transactions == (last.id, *(txn.id for txn in txns[:-1]))
        assert error.cycle.victim == last.id and error.cycle.order == tuple((1, key) for key in KEYS[:size])
        assert [str(item) for item in error.deadlock_set] == [f"1:{key.decode()}" for key in KEYS[:size]]
        assert "this transaction is part of it" in str(error) and "1:a, 1:b" in str(error)
        assert last.lock_check(1, KEYS[0]) is LockResult.UNOWNED and last.waiting is None
        assert last.try_lock_upgradable(1, KEYS[0], 0) is LockResult.TIMED_OUT_LOCK, "a try does not search"


def test_a_try_raises_a_deadlock_too() -> None:
    with Clockwork() as clockwork:
        last = circle(clockwork, 2, -1)[-1]
        with pytest.raises(DeadlockError):
            clockwork.do(last, lambda: last.try_lock_exclusive(1, KEYS[0], 1))


def test_searched_for_when_a_wait_has_ended_it_is_found_then() -> None:
    with Clockwork(detect="timeout") as clockwork:
        last = circle(clockwork, 3, 100)[-1]
        call = clockwork.start(last, lambda: last.lock_exclusive(1, KEYS[0], 5))
        assert call.is_waiting
        clockwork.finish(call)
        assert isinstance(call.error, DeadlockError) and call.error.timeout == 5 and clockwork.now == 5
        assert "waited 5 s" in str(call.error)
        assert {wait.waited_ms for wait in call.error.cycle.waits} == {5000}


def test_a_bystander_is_not_guilty() -> None:
    with Clockwork(detect="timeout") as clockwork:
        txns = circle(clockwork, 3, 100)
        clockwork.start(txns[2], lambda: txns[2].lock_shared(1, KEYS[0], 100))
        bystander = clockwork.manager.new_transaction()
        for timeout in (1, 0):
            with pytest.raises(DeadlockError, match="this transaction only waits for it") as caught:
                clockwork.do(bystander, lambda timeout=timeout: bystander.lock_shared(1, KEYS[1], timeout))
            assert not caught.value.guilty and not caught.value.cycle.is_on_it
            assert bystander.id not in caught.value.cycle.transactions
            assert caught.value.timeout == timeout


def test_two_readers_that_both_upgrade_are_told_how_to_read() -> None:
    with Clockwork(upgrade_rule="UNCHECKED") as clockwork:
        one, other = (clockwork.manager.new_transaction() for _ in range(2))
        for txn in (one, other):
            clockwork.do(txn, lambda txn=txn: txn.lock_shared(1, b"k"))
        clockwork.start(one, lambda: one.lock_exclusive(1, b"k", -1))
        with pytest.raises(DeadlockError, match="take upgradable locks on what will be written") as caught:
            clockwork.do(other, lambda: other.lock_exclusive(1, b"k"))
        assert caught.value.cycle.is_conversion
        assert other.lock_check(1, b"k") is LockResult.OWNED_SHARED


class Counting(LockTable):
    """A chain of waiting transactions."""

    def chain(self, length: int) -> list[Waiter]:
        lockers = [Locker(at, 0) for at in range(length)]
        for at, locker in enumerate(lockers):
            assert self.ask(locker, (1, b"%d" % at), EXCLUSIVE) is LockResult.ACQUIRED
        return [self.ask(locker, (1, b"%d" % (at + 1)), EXCLUSIVE)  # type: ignore[misc]
                for at, locker in enumerate(lockers[:-1])]


def test_the_search_goes_through_a_thousand_without_recursion() -> None:
    table = Counting(UpgradeRule.STRICT)
    waiters = table.chain(3000)
    assert cycle_of(waiters[0]) == [] and cycle_behind(waiters[0]) == ([], [])
    last = table.locks[1, b"2999"].owner
    assert last is not None
    closing: Any = table.ask(last, (1, b"7"), SHARED)
    assert len(cycle_of(closing)) == 2993
    way, visited = cycle_behind(waiters[0])
    assert way == waiters[:7] and len(visited) == 2993


def test_a_queue_of_a_thousand_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_the_way(granule: Granule, waiter: Waiter, is_short: bool = False) -> list[Locker]:
        edges_here = list(original(granule, waiter, is_short))
        edges.append(len(edges_here))
        return edges_here

    original, edges = Granule.in_the_way, list[int]()
    monkeypatch.setattr(Granule, "in_the_way", in_the_way)
    table = LockTable(UpgradeRule.STRICT)
    lockers = [Locker(at, 0) for at in range(1001)]
    table.ask(lockers[0], (-1, b""), EXCLUSIVE)
    waiters: Any = [table.ask(locker, (-1, b""), IS) for locker in lockers[1:]]
    assert cycle_of(waiters[-1]) == [] and sum(edges) == 1000
    edges.clear()
    assert cycle_behind(waiters[-1]) == ([], []) and sum(edges) == 1999
    last = waiters[-1]
    table.locks[-2, b""] = Granule((-2, b""), last.locker, EXCLUSIVE)
    closing: Any = table.ask(lockers[0], (-2, b""), SHARED)
    assert [waiter.locker for waiter in cycle_of(closing)] == [lockers[0], last.locker]


def test_the_shortest_circle_is_named() -> None:
    table = LockTable(UpgradeRule.STRICT)
    a, b, c = (Locker(at, 0) for at in range(3))
    for locker, key in ((a, b"a"), (b, b"b"), (c, b"c")):
        table.ask(locker, (1, key), EXCLUSIVE)
    for locker in (b, c):
        table.ask(locker, (1, b"s"), SHARED)
    table.ask(b, (1, b"c"), EXCLUSIVE)
    table.ask(c, (1, b"a"), EXCLUSIVE)
    closing: Any = table.ask(a, (1, b"s"), EXCLUSIVE)
    assert [waiter.locker for waiter in cycle_of(closing)] == [a, c]


def test_none_is_no_mode_to_ask_for() -> None:
    assert NONE not in {mode for _, mode in REQUESTS}
