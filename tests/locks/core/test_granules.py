"""Locks on tables and partitions: which modes go together, how they grow, and what is given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from deltanb.errors import (
    DeadlockError,
    IllegalStateError,
    IllegalUpgradeError,
    InvalidArgument,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import LockManager, LockResult, Transaction
from deltanb.locks.core.granules import Granule
from deltanb.locks.core.keys import file_key, partition_key, row_key
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    IS,
    IU,
    IX,
    JOINED,
    MODE_NAMES,
    MODES,
    NONE,
    SHARED,
    TOGETHER,
    UPGRADABLE,
    base_of,
    intention_of,
    label,
)
from deltanb.locks.core.stack import Locker
from tests.locks.clockwork import Call, Clockwork
from tests.locks.tree_model import go_together
from tests.patience import PATIENCE

TABLE, ONE, TWO = b"", partition_key(["1"]), partition_key(["2"])
ACQUIRED, UPGRADED = LockResult.ACQUIRED, LockResult.UPGRADED


def tree(txn: Transaction, *wants: tuple[bytes, int], timeout: float = 0, **more: Any) -> list[LockResult]:
    return txn.manager.lock_tree(txn._locker, -1, wants, timeout, **more)


def held(txn: Transaction) -> dict[bytes, str]:
    """What a transaction holds of table -1, by key, in words."""
    return {state.key: dict(state.holders)[txn.id] for state in txn.manager.locks()
            if txn.id in dict(state.holders)}


def height(txn: Transaction) -> int:
    return len(txn._locker.entries)


@pytest.fixture
def clockwork() -> Iterator[Clockwork]:
    with Clockwork(upgrade_rule="UNCHECKED") as made:
        yield made


def several(clockwork: Clockwork, number: int) -> list[Transaction]:
    return [clockwork.manager.new_transaction() for _ in range(number)]


# -- modes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), list(product(MODES, MODES)))
def test_modes_go_together_where_no_conflict_on_a_leaf_would_go_unnoticed(one: int, other: int) -> None:
    assert TOGETHER[one][other] == TOGETHER[other][one] == go_together(one, other)
    manager = LockManager()
    mine, theirs = manager.new_transaction(), manager.new_transaction()
    assert tree(mine, (TABLE, one)) == [ACQUIRED]
    results = tree(theirs, (TABLE, other), is_try=True)
    assert results == [ACQUIRED if TOGETHER[one][other] else LockResult.TIMED_OUT_LOCK]


def test_the_modes_are_these() -> None:
    assert MODES == (SHARED, UPGRADABLE, EXCLUSIVE, IS, IU, SHARED + IU, IX, SHARED + IX, UPGRADABLE + IX)
    assert MODE_NAMES[UPGRADABLE + IX] == "upgradable and intention exclusive"
    assert len({MODE_NAMES[mode] for mode in MODES}) == len(MODES)


@pytest.mark.parametrize(("one", "other"), list(product((NONE, *MODES), MODES)))
def test_two_modes_together_are_the_weakest_that_is_as_strong(one: int, other: int) -> None:
    """Whatever goes with the sum goes with both parts, and nothing else goes with both of them."""
    joined = JOINED[one][other]
    assert joined in MODES and JOINED[joined][one] == JOINED[joined][other] == joined
    for third in MODES:
        assert TOGETHER[joined][third] == (TOGETHER[one][third] and TOGETHER[other][third])


# -- trees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "of_the_table"), [
    (SHARED, "intention shared"), (UPGRADABLE, "intention upgradable"), (EXCLUSIVE, "intention exclusive"),
    (IX, "intention exclusive"), (SHARED + IX, "intention exclusive"), (SHARED + IU, "intention upgradable")])
def test_what_a_place_lies_in_is_locked_first_with_an_intention(mode: int, of_the_table: str) -> None:
    txn = LockManager().new_transaction()
    assert tree(txn, (ONE, mode)) == [ACQUIRED]
    assert held(txn) == {TABLE: of_the_table, ONE: MODE_NAMES[mode]}
    assert [lock.name[1] for lock in txn._locker.entries] == [TABLE, ONE]


def test_places_are_locked_in_sorted_order_each_once() -> None:
    txn = LockManager().new_transaction()
    row, file = row_key(["1"], (7,)), file_key(["2"], "a.parquet")
    results = tree(txn, (row, EXCLUSIVE), (TWO, SHARED), (file, UPGRADABLE), (TWO, SHARED), (TABLE, SHARED))
    assert results == [ACQUIRED] * 5
    assert [lock.name[1] for lock in txn._locker.entries] == [TABLE, ONE, row, TWO, file]
    assert held(txn) == {
        TABLE: "shared and intention exclusive", ONE: "intention exclusive", row: "exclusive",
        TWO: "shared and intention upgradable", file: "upgradable"}
    assert tree(txn, (row, EXCLUSIVE), (TWO, SHARED)) == [
        LockResult.OWNED_EXCLUSIVE, LockResult.OWNED_SHARED]
    assert height(txn) == 5


def test_all_or_none_and_what_was_held_stays_exactly() -> None:
    manager = LockManager()
    txn, other = manager.new_transaction(), manager.new_transaction()
    tree(other, (TWO, EXCLUSIVE))
    tree(txn, (ONE, SHARED))
    before, entries = held(txn), list(txn._locker.entries)
    wants = (ONE, IX), (TWO, SHARED)
    with pytest.raises(IllegalUpgradeError, match="cannot become intention exclusive"):
        tree(txn, *wants)
    wants = (partition_key(["0"]), EXCLUSIVE), (TWO, SHARED)
    assert tree(txn, *wants, is_try=True) == [LockResult.TIMED_OUT_LOCK] * 2
    with pytest.raises(LockTimeoutError, match="a shared lock on -1 2 was not granted"):
        tree(txn, *wants)
    assert held(txn) == before and txn._locker.entries == entries and not txn._locker.upgrades
    assert manager.num_locks_held == 3


def test_readers_and_writers_of_parts_wait_for_who_has_the_whole() -> None:
    manager = LockManager()
    whole, part = manager.new_transaction("whole"), manager.new_transaction("part")
    manager.name_index(-1, "flights", ["month"])
    tree(whole, (TABLE, SHARED))
    assert tree(part, (ONE, SHARED)) == [ACQUIRED]
    with pytest.raises(LockTimeoutError) as caught:
        tree(part, (TWO, EXCLUSIVE))
    assert str(caught.value).startswith(
        "an intention exclusive lock on flights was not granted: never waited, held by whole #1 "
        "(shared); wait longer")
    assert held(part) == {TABLE: "intention shared", ONE: "shared"}


@pytest.mark.parametrize("wants", [[(b"x", SHARED)], [(TABLE, 5)], [(TABLE, 0)], [(TABLE, True)]])
def test_wrong_places_and_modes_are_refused(wants: list[tuple[bytes, int]]) -> None:
    txn = LockManager().new_transaction()
    with pytest.raises(InvalidArgument):
        tree(txn, *wants)
    with pytest.raises(InvalidArgument, match="below 0"):
        txn.manager.lock_tree(txn._locker, 1, [(TABLE, SHARED)], 0)
    assert txn.manager.num_locks_held == 0


# -- upgrades ------------------------------------------------------------------------------------

UPGRADES = [(SHARED, UPGRADABLE), (SHARED, EXCLUSIVE), (SHARED, IU), (SHARED, IX), (SHARED + IU, IX),
            (SHARED + IX, UPGRADABLE)]
FREE = [(one, other) for one, other in product(MODES, MODES)
        if base_of(one) != SHARED and JOINED[one][other] != one]


@pytest.mark.parametrize(("first", "then"), UPGRADES)
def test_who_shares_a_whole_upgrades_by_the_rule(first: int, then: int) -> None:
    for rule, besides, expected in (("STRICT", NONE, "ILLEGAL"), ("LENIENT", NONE, "UPGRADED"),
                                    ("LENIENT", IS, "UPGRADED"), ("LENIENT", SHARED, "ILLEGAL"),
                                    ("UNCHECKED", NONE, "UPGRADED")):
        after = JOINED[first][then] if expected == "UPGRADED" else first
        if not TOGETHER[besides][first] or not TOGETHER[besides][after]:
            continue
        manager = LockManager(rule)
        txn = manager.new_transaction()
        if besides != NONE:
            tree(manager.new_transaction(), (TABLE, besides))
        tree(txn, (TABLE, first))
        assert tree(txn, (TABLE, then), is_try=True) == [expected]


@pytest.mark.parametrize(("first", "then"), FREE)
def test_all_else_grows_under_every_rule_and_shrinks_again(first: int, then: int) -> None:
    txn = LockManager().new_transaction()
    tree(txn, (TABLE, first))
    at = height(txn)
    assert tree(txn, (TABLE, then)) == [UPGRADED]
    assert held(txn) == {TABLE: MODE_NAMES[JOINED[first][then]]}
    txn.manager.give_back_tree(txn._locker, at)
    assert held(txn) == {TABLE: MODE_NAMES[first]} and height(txn) == at


@pytest.mark.parametrize("mode", MODES)
def test_asking_again_answers_what_is_held(mode: int) -> None:
    txn = LockManager().new_transaction()
    tree(txn, (TABLE, mode))
    expected = ("UNOWNED", "OWNED_SHARED", "OWNED_UPGRADABLE", "OWNED_EXCLUSIVE")[
        base_of(mode) or intention_of(mode) // IS]
    assert tree(txn, (TABLE, mode)) == [expected] and txn.lock_check(-1, TABLE) == expected
    assert height(txn) == 1


# -- scopes, unlocking, commits that are put off -------------------------------------------------


def test_a_scope_goes_back_to_exactly_what_was_held() -> None:
    txn = LockManager().new_transaction()
    tree(txn, (ONE, SHARED))
    before = held(txn)
    txn.enter()
    tree(txn, (TWO, UPGRADABLE))
    txn.enter()
    tree(txn, (TWO, EXCLUSIVE))
    tree(txn, (TABLE, SHARED))
    assert held(txn)[TABLE] == "shared and intention exclusive"
    txn.exit()
    assert held(txn) == {TABLE: "intention upgradable", ONE: "shared", TWO: "upgradable"}
    txn.enter()
    tree(txn, (TWO, EXCLUSIVE))
    txn.commit()
    txn.exit()
    assert held(txn) == {TABLE: "intention exclusive", ONE: "shared", TWO: "exclusive"}
    txn.rollback()
    assert held(txn) == before
    txn.exit()
    assert held(txn) == before
    txn.exit()
    assert held(txn) == {} and txn.manager.num_locks_held == 0


def test_intentions_are_unlocked_and_whatever_is_exclusive_is_not() -> None:
    txn = LockManager().new_transaction()
    tree(txn, (ONE, UPGRADABLE))
    txn.unlock_to_shared()
    assert held(txn) == {TABLE: "intention upgradable", ONE: "shared"}
    txn.unlock()
    txn.unlock_to_shared()
    assert held(txn) == {TABLE: "intention shared"}
    tree(txn, (TABLE, IU))
    txn.unlock()
    assert held(txn) == {TABLE: "intention shared"}
    tree(txn, (TWO, IX))
    for unlock in (txn.unlock, txn.unlock_to_shared):
        with pytest.raises(IllegalStateError, match="a part of -1 2 may have been written"):
            unlock()
    assert held(txn) == {TABLE: "intention exclusive", TWO: "intention exclusive"}


def test_plain_calls_on_a_table_do_what_they_do_elsewhere() -> None:
    txn = LockManager().new_transaction()
    assert txn.lock_upgradable(-1, TABLE) is ACQUIRED
    assert txn.lock_exclusive(-1, TABLE) is UPGRADED
    assert txn.lock_shared(-1, TABLE) is LockResult.OWNED_EXCLUSIVE
    with pytest.raises(IllegalStateError, match="exclusive"):
        txn.unlock()
    assert txn.lock_many([(-1, ONE), (-1, TWO)], "shared") == {(-1, ONE): ACQUIRED, (-1, TWO): ACQUIRED}
    assert txn.last_locked_key == TWO and txn.was_acquired(-1, TWO)
    txn.unlock_combine()
    txn.unlock()
    assert held(txn) == {TABLE: "exclusive"}
    txn.reset()
    assert txn.lock_shared(-1, b"any key") is ACQUIRED
    assert txn.try_lock_upgradable(-1, b"any key") is LockResult.ILLEGAL
    txn.unlock()
    assert txn.manager.num_locks_held == 0


class Changed:
    """Somebody who takes part in a commit, so that it can be put off."""

    def undo(self, change: Any) -> None:
        """Nothing was done."""

    def commit(self, changes: Any, durability: Any) -> None:
        """Nothing is to be done."""


def test_a_commit_that_is_put_off_keeps_what_is_exclusive(clockwork: Clockwork) -> None:
    manager = clockwork.manager
    txn, other = several(clockwork, 2)
    tree(txn, (ONE, EXCLUSIVE), (TWO, SHARED), (TABLE, SHARED))
    txn.durability_mode = "NO_FLUSH"
    txn.changed(Changed(), None)
    number = txn.id
    assert tree(other, (TWO, EXCLUSIVE), is_try=True) == [LockResult.TIMED_OUT_LOCK]
    txn.commit()
    assert held(txn) == {}
    assert [(state.key, state.holders) for state in manager.locks()] == [
        (TABLE, ((number, "intention exclusive"),)), (ONE, ((number, "exclusive"),))]
    assert tree(other, (TWO, EXCLUSIVE)) == [ACQUIRED]
    assert tree(txn, (ONE, SHARED), is_try=True) == [LockResult.TIMED_OUT_LOCK]
    manager.flush()
    assert tree(txn, (ONE, SHARED)) == [ACQUIRED]


def test_a_closed_manager_keeps_what_is_exclusive_for_good() -> None:
    manager = LockManager()
    one, other = manager.new_transaction(), manager.new_transaction()
    tree(one, (ONE, EXCLUSIVE))
    tree(other, (TWO, SHARED))
    manager.close()
    assert {state.key: state.holders[0][1] for state in manager.locks()} == {
        TABLE: "intention exclusive", ONE: "exclusive"}
    with pytest.raises(LockInterruptedError, match="closed"):
        tree(one, (TWO, SHARED))
    for txn in (one, other):
        txn.exit()
    assert manager.num_locks_held == 2


# -- waiting -------------------------------------------------------------------------------------


def start(clockwork: Clockwork, txn: Transaction, *wants: tuple[bytes, int], timeout: float = -1) -> Call:
    return clockwork.start(txn, lambda: tree(txn, *wants, timeout=timeout))


def test_who_converts_passes_who_waits_and_all_others_keep_their_order(clockwork: Clockwork) -> None:
    one, two, writer, reader = several(clockwork, 4)
    for txn in (one, two):
        tree(txn, (TABLE, IS))
    whole = start(clockwork, writer, (TABLE, EXCLUSIVE))
    late = start(clockwork, reader, (TABLE, IS))
    assert whole.is_waiting and late.is_waiting, "nobody passes a writer that waits"
    assert tree(one, (TABLE, IX)) == [UPGRADED], "but for who holds something already"
    converts = start(clockwork, two, (TABLE, SHARED))
    assert [txn for txn, _ in clockwork.manager.locks()[0].waiters] == [writer.id, reader.id, two.id]
    one.reset()
    clockwork.finish(converts, within=0)
    assert whole.is_waiting and late.is_waiting
    two.reset()
    clockwork.finish(whole, within=0)
    writer.reset()
    clockwork.finish(late, within=0)
    assert held(reader) == {TABLE: "intention shared"}


def test_the_deadline_is_of_all_places_together(clockwork: Clockwork) -> None:
    txn, one, two = several(clockwork, 3)
    tree(one, (ONE, EXCLUSIVE))
    tree(two, (TWO, EXCLUSIVE))
    call = start(clockwork, txn, (ONE, SHARED), (TWO, SHARED), timeout=2)
    clockwork.pass_time(1.5)
    one.reset()
    clockwork.finish(call, within=0.5)
    assert isinstance(call.error, LockTimeoutError) and clockwork.now == 2
    assert held(txn) == {} and clockwork.manager.num_locks_held == 2


def test_an_interrupt_gives_back_what_was_taken(clockwork: Clockwork) -> None:
    txn, other = several(clockwork, 2)
    tree(other, (TWO, EXCLUSIVE))
    tree(txn, (ONE, IS))
    call = start(clockwork, txn, (ONE, EXCLUSIVE), (TWO, SHARED))
    assert call.is_waiting and held(txn) == {TABLE: "intention exclusive", ONE: "exclusive"}
    assert txn.interrupt()
    clockwork.finish(call, within=0)
    assert isinstance(call.error, LockInterruptedError)
    assert held(txn) == {TABLE: "intention shared", ONE: "intention shared"} and height(txn) == 2


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_ctrl_c_gives_back_what_was_taken(is_granted: bool) -> None:
    def park(waiter: Waiter, timeout: float | None) -> bool:
        if is_granted:
            other.reset()
        raise KeyboardInterrupt

    manager = LockManager(park=park)
    txn, other = manager.new_transaction(), manager.new_transaction()
    tree(other, (TWO, EXCLUSIVE))
    tree(txn, (ONE, IS))
    before = held(txn)
    with pytest.raises(KeyboardInterrupt):
        tree(txn, (ONE, EXCLUSIVE), (TWO, SHARED), timeout=5)
    assert held(txn) == before and height(txn) == 2 and txn.waiting is None
    other.reset()
    txn.reset()
    assert manager.num_locks_held == manager.num_waiting == 0


def test_two_that_convert_past_each_other_are_told_how_to_ask(clockwork: Clockwork) -> None:
    one, other = several(clockwork, 2)
    clockwork.manager.name_index(-1, "flights")
    for txn in (one, other):
        tree(txn, (TABLE, IX))
    waits = start(clockwork, one, (TABLE, SHARED))
    with pytest.raises(DeadlockError, match="ask at once for all") as caught:
        tree(other, (TABLE, SHARED), timeout=5)
    assert "waits for flights (shared and intention exclusive)" in str(caught.value)
    assert caught.value.cycle.is_conversion and str(caught.value.deadlock_set[0]) == "flights"
    other.reset()
    clockwork.finish(waits, within=0)


def test_a_circle_over_a_table_and_a_row(clockwork: Clockwork) -> None:
    reader, writer = several(clockwork, 2)
    tree(writer, (ONE, EXCLUSIVE))
    tree(reader, (TWO, SHARED))
    waits = start(clockwork, reader, (ONE, SHARED))
    with pytest.raises(DeadlockError) as caught:
        clockwork.do(writer, lambda: tree(writer, (TWO, EXCLUSIVE), timeout=-1))
    assert caught.value.guilty and caught.value.cycle.order == ((-1, ONE), (-1, TWO))
    writer.reset()
    clockwork.finish(waits, within=0)


def test_threads_that_read_a_table_never_see_a_transfer_halfway() -> None:
    manager = LockManager(lock_timeout=PATIENCE)
    amounts = {ONE: 100, TWO: 100}
    seen: list[int] = []

    def transfer(number: int) -> None:
        txn = manager.new_transaction()
        for turn in range(100):
            places = [(key, EXCLUSIVE) for key in (ONE, TWO)] if (turn + number) % 3 else [(TABLE, SHARED)]
            tree(txn, *places, timeout=PATIENCE)
            if len(places) == 2:
                amounts[ONE] -= number
                amounts[TWO] += number
            else:
                seen.append(sum(amounts.values()))
            txn.reset()

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert set(seen) == {200} and len(seen) > 100
    assert amounts[ONE] == 100 - sum(n * sum((t + n) % 3 > 0 for t in range(100)) for n in range(1, 5))
    assert manager.num_locks_held == manager.num_waiting == 0


# -- names ---------------------------------------------------------------------------------------


def test_a_name_is_said_in_place_of_the_number() -> None:
    manager = LockManager()
    txn = manager.new_transaction("loader")
    flights = manager.name_index(-7, "flights\x1b", ["month"])
    orders = manager.name_index(3, "orders")
    manager.lock_tree(txn._locker, -7, [(row_key(["1"], (17,)), EXCLUSIVE)], 0)
    txn.lock_exclusive(orders, b"k")
    assert [label((state.index_id, state.key)) for state in manager.locks()] == [
        r"flights\x1b", r"flights\x1b month=1", r"flights\x1b month=1 row 17", "orders:k"]
    assert r"flights\x1b month=1 row 17  exclusive: loader #1" in str(manager)
    assert r"flights\x1b month=1 row 17 exclusive, orders:k exclusive" in str(txn)
    assert manager.label(-7, b"") == r"flights\x1b" and manager.label(-8, ONE) == "-8 1"
    assert flights == -7 and txn.lock_check(flights, ONE) is LockResult.OWNED_EXCLUSIVE
    with pytest.raises(IllegalStateError, match="orders:k"):
        txn.unlock()
    for wrong in ("", None, 3):
        with pytest.raises(InvalidArgument, match="the name of an index is a string"):
            manager.name_index(-7, wrong)  # type: ignore[arg-type]


# -- faults that the tests notice ----------------------------------------------------------------


def barge(patch: pytest.MonkeyPatch) -> None:
    def enter(granule: Granule, waiter: Waiter) -> bool:
        if granule.fits(waiter.locker, waiter.requested):
            granule._hold(waiter.locker, waiter.requested)
            return True
        return original(granule, waiter)

    original = Granule.enter
    patch.setattr(Granule, "enter", enter)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Granule, "settle", lambda granule: [])


def forget_the_intention(patch: pytest.MonkeyPatch) -> None:
    def lasting(granule: Granule, locker: Locker) -> int:
        return EXCLUSIVE if granule.held_by(locker) == EXCLUSIVE else NONE

    patch.setattr(Granule, "lasting", lasting)


FAULTS: list[tuple[Callable[[Clockwork], None], Callable[[pytest.MonkeyPatch], None]]] = [
    (test_who_converts_passes_who_waits_and_all_others_keep_their_order, barge),
    (test_who_converts_passes_who_waits_and_all_others_keep_their_order, wake_nobody),
    (test_a_commit_that_is_put_off_keeps_what_is_exclusive, forget_the_intention),
]


@pytest.mark.parametrize(("check", "build_in"), FAULTS)
def test_a_fault_is_noticed(check: Callable[[Clockwork], None],
                            build_in: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch, Clockwork(upgrade_rule="UNCHECKED") as made:
        build_in(patch)
        with pytest.raises(AssertionError):
            check(made)


