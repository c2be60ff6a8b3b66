"""What is recorded of locks: every change of what is held, every wait, every end of a scope."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import (
    DeadlockError,
    IllegalStateError,
    IllegalUpgradeError,
    InvalidArgument,
    InvalidTransactionError,
    LockFailure,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import LockManager, Transaction
from deltanb.locks.core.keys import partition_key
from deltanb.locks.core.lock_table import LockTable
from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES, SHARED
from deltanb.locks.core.record import WHATS, LockEvent
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Clockwork


def described(manager: LockManager) -> list[str]:
    return [" ".join(filter(None, (str(int(e.transaction)), e.what, e.lock, e.mode or "",
                                   "" if e.level is None else f"level {e.level}")))
            for e in manager.timeline().events]


def test_a_life_in_events() -> None:
    manager = LockManager(record=100)
    index = MemoryIndex(1, {"a": 1})
    txn = manager.new_transaction()
    txn.lock_shared(1, b"s")
    txn.unlock()
    index.store(txn, "a", 2)
    with txn.scope():
        txn.lock_upgradable(1, b"u")
        txn.lock_exclusive(1, b"u")
        txn.lock_exclusive(1, b"u")
    txn.commit()
    assert described(manager) == [
        "1 granted 1:s shared", "1 released 1:s shared", "1 granted 1:a exclusive", "1 entered level 1",
        "1 granted 1:u upgradable", "1 granted 1:u exclusive", "1 committed level 1", "1 exited level 1",
        "1 released 1:u exclusive", "1 released 1:a exclusive", "1 committed level 0"]
    assert {event.what for event in manager.timeline().events} <= set(WHATS)


def test_what_is_undone_is_told_and_what_is_empty_is_not() -> None:
    manager = LockManager(record=100)
    index = MemoryIndex(1, {})
    txn = manager.new_transaction()
    txn.commit()
    txn.rollback()
    txn.exit()
    txn.reset()
    assert described(manager) == []
    index.store(txn, "a", 2)
    txn.rollback()
    index.store(txn, "a", 2)
    txn.close()
    txn.enter()
    txn.exit()
    txn.enter()
    txn.reset()
    ids = [event.transaction for event in manager.timeline().events if event.what != "granted"]
    assert [line.split(" ", 1)[1] for line in described(manager) if "1:a" not in line] == [
        "rolled back level 0", "undone level 0", "entered level 1", "exited level 1", "entered level 1",
        "reset level 0"]
    assert len(set(ids)) == 3  # a new id after each end


def test_a_commit_that_fails_and_one_that_is_put_off() -> None:
    class Fails:
        def undo(self, change: Any) -> None:
            pass

        def commit(self, changes: Any, durability: Any) -> None:
            raise OSError("full")

    manager = LockManager(record=100)
    txn = manager.new_transaction()
    txn.lock_exclusive(1, b"k")
    txn.changed(Fails(), None)
    with pytest.raises(OSError, match="full"):
        txn.commit()
    with pytest.raises(InvalidTransactionError):
        txn.commit()
    other = manager.new_transaction()
    MemoryIndex(1, {}).store(other, "j", 1)
    other.durability_mode = "NO_FLUSH"
    number = int(other.id)
    other.commit()
    manager.flush()
    assert described(manager) == [
        "1 granted 1:k exclusive", "1 released 1:k exclusive", "1 failed level 0",
        f"{number} granted 1:j exclusive", f"{number} put off level 0", f"{number} released 1:j exclusive"]


def test_waits_and_how_they_end() -> None:
    with Clockwork(record=100) as clockwork:
        manager = clockwork.manager
        one, two, three = (manager.new_transaction() for _ in range(3))
        one.lock_exclusive(1, b"a")
        two.lock_exclusive(1, b"b")
        granted = clockwork.start(three, lambda: three.lock_shared(1, b"b", -1))
        waits = clockwork.start(one, lambda: one.lock_shared(1, b"b", -1))
        with pytest.raises(DeadlockError):
            clockwork.do(two, lambda: two.lock_shared(1, b"a"))
        one.interrupt()
        clockwork.finish(waits)
        with pytest.raises(LockInterruptedError):
            waits.result()
        clockwork.pass_time(1)
        with pytest.raises(LockTimeoutError):
            clockwork.do(one, lambda: one.lock_upgradable(1, b"b", 0.5))
        clockwork.do(two, two.commit)
        clockwork.finish(granted)
        with pytest.raises(IllegalUpgradeError):
            clockwork.do(three, lambda: three.lock_exclusive(1, b"b"))
        waited = [(e.transaction, e.what, e.mode, e.held, e.at_ns // 10**6)
                  for e in manager.timeline().events]
        assert waited[2:] == [
            (3, "waits", "shared", "unlocked", 0), (1, "waits", "shared", "unlocked", 0),
            (2, "waits", "shared", "unlocked", 0), (2, "deadlock", "shared", "unlocked", 0),
            (1, "interrupted", "shared", "unlocked", 0), (1, "waits", "upgradable", "unlocked", 1000),
            (1, "timed out", "upgradable", "unlocked", 1500),
            (2, "released", "exclusive", "unlocked", 1500), (3, "granted", "shared", "shared", 1500),
            (2, "committed", None, None, 1500), (3, "illegal", "exclusive", "shared", 1500)]
        manager.close()
        assert manager.timeline().events[-1].what == "closed"


def test_a_wait_to_be_alone_holds_the_lock_meanwhile() -> None:
    with Clockwork(record=100) as clockwork:
        one, two = clockwork.manager.new_transaction(), clockwork.manager.new_transaction()
        one.lock_shared(1, b"k")
        two.lock_upgradable(1, b"k")
        clockwork.start(two, lambda: two.lock_exclusive(1, b"k", 1))
        clockwork.pass_time(2)
        assert [(e.what, e.mode, e.held) for e in clockwork.manager.timeline().events][2:] == [
            ("waits", "exclusive", "upgradable"), ("timed out", "exclusive", "upgradable")]


def state_of(manager: LockManager) -> dict[tuple[int, str], str]:
    return {(txn, manager.label(lock.index_id, lock.key)): mode
            for lock in manager.locks() for txn, mode in lock.holders}


def replayed(manager: LockManager) -> dict[tuple[int, str], str]:
    """What is held, by the events alone."""
    held: dict[tuple[int, str], str] = {}
    for event in manager.timeline().events:
        if event.lock:
            assert event.held is not None
            held[event.transaction, event.lock] = event.held
    return {key: mode for key, mode in held.items() if mode != MODE_NAMES[0]}


def any_step(txn: Transaction, rng: random.Random) -> None:
    name = (rng.randrange(2), b"%d" % rng.randrange(3))
    mode = rng.choice(("shared", "upgradable", "exclusive"))
    steps: list[Any] = [
        lambda: getattr(txn, f"try_lock_{mode}")(*name, 0), lambda: getattr(txn, f"lock_{mode}")(*name, 0),
        lambda: txn.lock_many([(0, b"0"), (0, b"1"), (1, b"2")], mode, 0),
        lambda: txn.manager.lock_tree(txn._locker, -1, [(partition_key([str(rng.randrange(2))]),
                                                         MODE_NAMES.index(mode))], 0),
        txn.unlock, txn.unlock_to_shared, txn.unlock_combine, txn.enter, txn.exit, txn.commit, txn.rollback,
        txn.reset]
    with suppress(LockFailure, IllegalStateError):
        rng.choices(steps, [4, 4, 2, 4, 3, 1, 1, 2, 2, 1, 1, 1])[0]()


@pytest.mark.parametrize("rule", ["STRICT", "LENIENT", "UNCHECKED"])
@pytest.mark.parametrize("seed", range(5))
def test_events_alone_tell_what_is_held(rule: str, seed: int) -> None:
    rng = random.Random(seed)
    manager = LockManager(rule, record=10_000)
    txns = [manager.new_transaction() for _ in range(3)]
    for _ in range(300):
        any_step(rng.choice(txns), rng)
        assert replayed(manager) == state_of(manager)
    assert manager.timeline().dropped == 0


def test_only_the_newest_are_kept() -> None:
    manager = LockManager(record=10)
    txn = manager.new_transaction()
    for at in range(30):
        txn.lock_shared(1, b"%d" % at)
    timeline = manager.timeline()
    assert (len(timeline), timeline.dropped) == (10, 20)
    assert [event.number for event in timeline.events] == list(range(20, 30))
    assert [event.number for event in timeline.newest(2)] == [29, 28]


def test_memory_is_bounded() -> None:
    manager = LockManager(record=1000)
    txn = manager.new_transaction()

    def work() -> None:
        for at in range(2000):
            txn.lock_exclusive(1, b"%d" % at)
        txn.commit()

    work()
    tracemalloc.start()
    work()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(3):
        work()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000  # a thousand rows are replaced by as many


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    manager = LockManager()
    assert type(manager._table) is LockTable
    assert type(manager.new_transaction()) is Transaction
    for ask in (manager.timeline, manager.table):
        with pytest.raises(IllegalStateError, match=r"nothing is recorded: LockManager\(record=10_000\)"):
            ask()


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "10"])
def test_a_size_that_is_none(size: Any) -> None:
    with pytest.raises(InvalidArgument, match="record takes the number of events to keep, 1 or more"):
        LockManager(record=size)


def test_times_are_those_of_the_clock_since_the_manager_began() -> None:
    with dn.teaching():
        manager = LockManager(record=10)
        manager.new_transaction().lock_shared(1, b"k")
        assert [event.at_ns for event in manager.timeline().events] == [0]
    now = 5_000
    manager = LockManager(record=10, clock=lambda: now)
    now = 7_000
    manager.new_transaction().lock_shared(1, b"k")
    assert [event.at_ns for event in manager.timeline().events] == [2_000]


def test_events_as_a_table() -> None:
    manager = LockManager(record=10, clock=lambda: 0)
    manager.name_index(-1, "flights", ["month"])
    txn = manager.new_transaction()
    with txn.scope():
        manager.lock_tree(txn._locker, -1, [(partition_key(["1"]), EXCLUSIVE)], 0)
    table = manager.table()
    assert isinstance(table, pa.Table)
    assert table.select(["number", "transaction", "what", "index", "lock", "mode", "held", "level"]
                        ).to_pylist() == [
        {"number": 0, "transaction": 1, "what": "entered", "index": None, "lock": None, "mode": None,
         "held": None, "level": 1},
        {"number": 1, "transaction": 1, "what": "granted", "index": -1, "lock": "flights",
         "mode": "intention exclusive", "held": "intention exclusive", "level": None},
        {"number": 2, "transaction": 1, "what": "granted", "index": -1, "lock": "flights month=1",
         "mode": "exclusive", "held": "exclusive", "level": None},
        {"number": 3, "transaction": 1, "what": "committed", "index": None, "lock": None, "mode": None,
         "held": None, "level": 1},
        {"number": 4, "transaction": 1, "what": "exited", "index": None, "lock": None, "mode": None,
         "held": None, "level": 1}]
    assert table["at"].type == pa.duration("ns")
    assert table["key"][2].as_py() == partition_key(["1"])
    assert LockManager(record=1).table().schema == table.schema


def test_an_event_is_a_value() -> None:
    assert LockEvent(0, 0, 1, "granted", 1, b"k", "shared", "shared") == LockEvent(
        0, 0, 1, "granted", 1, b"k", MODE_NAMES[SHARED], MODE_NAMES[SHARED])
