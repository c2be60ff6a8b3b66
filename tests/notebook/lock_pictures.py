"""Pictures of locks to look at and to measure: of every kind that there is, plain ones and crowded ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deltanb.errors import DeadlockError, LockTimeoutError
from deltanb.locks import Cycle, LockManager, Wait
from deltanb.locks.core.keys import partition_key
from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES
from deltanb.locks.core.names import TransactionId
from deltanb.locks.core.record import LockTimeline
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Clockwork
from tests.notebook import test_lock_timeline, test_locks

LONG = "load_flights_of_a_month"


def usual() -> Any:
    with Clockwork(record=100) as clockwork:
        return test_lock_timeline.story(clockwork)


def _named(manager: LockManager) -> LockManager:
    manager.name_index(-1, "flights", ["month", "carrier"])
    manager.name_index(-2, "airports_and_their_cities", ["city"])
    return manager


def endings() -> Any:
    """Long names, every way to end, and many locks of long names that are held for moments."""
    with Clockwork(record=1000) as clockwork:
        manager = _named(clockwork.manager)
        holder = manager.new_transaction("nightly_load_of_all_flights")
        flight = [(partition_key(["12", "UA"]), EXCLUSIVE)]
        clockwork.do(holder, lambda: manager.lock_tree(holder._locker, -1, flight, 0))
        for how in test_lock_timeline.ENDINGS:
            txn = manager.new_transaction(f"{LONG}_{how}")
            MemoryIndex(2, {}).store(txn, how, 1)
            clockwork.pass_time(0.7)
            call = None
            if how == "put off":
                txn.durability_mode = "NO_FLUSH"
            if how in ("timed out", "interrupted"):
                call = clockwork.start(txn, lambda txn=txn: manager.lock_tree(txn._locker, -1, flight, 5))
            test_lock_timeline.ENDINGS[how](clockwork, txn)
            if call is not None:
                clockwork.finish(call)
                txn.exit()
            clockwork.pass_time(0.3)
        return manager.timeline()


def upgrades() -> Any:
    """Each converts its lock in turn; the last band of a row is narrow, and waits end at its end."""
    with Clockwork(record=1000) as clockwork:
        txns = [clockwork.manager.new_transaction(name) for name in ("ann", "ben", LONG)]
        for txn in txns:
            for key in (b"first", b"second"):
                with suppress(LockTimeoutError):
                    clockwork.do(txn, lambda txn=txn, key=key: txn.try_lock_shared(1, key, 0))
            clockwork.pass_time(1)
        calls = [clockwork.start(txn, lambda txn=txn: txn.try_lock_upgradable(1, b"first", 9))
                 for txn in txns]
        clockwork.pass_time(10)
        for txn, call in zip(txns, calls, strict=True):
            clockwork.finish(call)
            with suppress(DeadlockError, LockTimeoutError):
                txn.exit()
            clockwork.pass_time(0.02)
        return clockwork.manager.timeline()


def scopes() -> Any:
    """Scopes within scopes, some undone, and one that is undone at once."""
    with Clockwork(record=1000) as clockwork:
        txn = clockwork.manager.new_transaction("deep")
        for level in range(5):
            txn.enter()
            txn.lock_exclusive(1, b"%d" % level)
            clockwork.pass_time(1 + level % 2)
            txn.lock_shared(2, b"of level %d" % level)
        for _ in range(3):
            txn.rollback()
            clockwork.pass_time(0.1)
            txn.exit()
        txn.commit()
        txn.reset("the disk is full")
        return clockwork.manager.timeline()


def many() -> Any:
    """More transactions than have a lane, with more locks than have a row."""
    clock = iter(range(10**9))
    manager = LockManager(record=20_000, clock=lambda: next(clock) * 1_000_000)
    for at in range(40):
        txn = manager.new_transaction(f"{LONG}_{at}")
        for key in range(8):
            txn.lock_upgradable(1, b"key %d of many" % key)
            txn.unlock()
            txn.lock_exclusive(2, b"k%d" % key)
        txn.commit()
    return manager.timeline()


def retries() -> Any:
    """One that waits in vain again and again, soon after it has begun, with a scope around each."""
    begun, rows = 10**10, []
    for at in range(24):
        start = begun + at * 10**8 * (1 + at % 3)
        wait: list[Any] = [(1, "entered", None, 0, 0, 1), (2, "waits", (1, b"k"), 1, 0, 1),
                           (9, ("timed out", "interrupted", "deadlock")[at % 3], (1, b"k"), 1, 0, 1),
                           (9, "granted", (1, b"j%d" % (at % 2)), 3, 3, 1),
                           (10, ("undone", "failed", "exited")[at % 3], None, 0, 0, 1)]
        rows += [(start + after * 10**7, TransactionId.named(1, LONG), *rest) for after, *rest in wait]
    return LockTimeline(sorted(rows, key=lambda row: row[0]))


def modes() -> Any:
    """All the modes there are, each for a moment: their legend takes several lines."""
    numbers = [MODE_NAMES.index(name) for name in dict.fromkeys(MODE_NAMES)][1:]
    rows = [(at * 10**9, TransactionId.named(1 + at % 3, LONG), "granted", (1, b"k%d" % (at % 3)), mode, mode,
             0) for at, mode in enumerate(numbers)]
    return LockTimeline(rows)


def still() -> Any:
    """A clock that stands still, so that events are counted."""
    manager = _named(LockManager(record=1000, clock=lambda: 0))
    for name in ("ann", "ben"):
        with manager.new_transaction(name) as txn:
            txn.lock_shared(1, b"k")
            txn.enter()
            manager.lock_tree(txn._locker, -1, [(partition_key(["1", "AA"]), EXCLUSIVE)], 0)
            txn.exit()
            txn.commit()
    return manager.timeline()


def deadlock() -> Any:
    with Clockwork() as clockwork:
        return test_locks.deadlock(clockwork)[1].cycle


def ring() -> Any:
    """A circle of eight with long names and modes of several parts."""
    waits = [Wait(at, f"{LONG}_{at}", 1, b"a long key, number %d" % at, "shared and intention exclusive",
                  "upgradable", ((1, b"a long key, number %d" % ((at + 1) % 8), "exclusive"),),
                  at * 250, at * 250) for at in range(8)]
    return Cycle(tuple(waits), 3)


def converts() -> Any:
    """One lock that both hold and both wait for."""
    return Cycle(tuple(Wait(at, None, 1, b"k", "exclusive", "shared", (), 0, 0) for at in (1, 2)), 1)


def graph() -> Any:
    """Two in a circle, a third behind them, and a lock that nobody waits for."""
    with Clockwork(detect="timeout") as clockwork:
        names = ("mover", LONG, "", "reader of airports")
        txns = [clockwork.manager.new_transaction(name) for name in names]
        for at in range(2):
            txns[at].lock_exclusive(1, b"k%d" % at)
        txns[3].lock_shared(7, b"\xff")
        for at in range(3):
            clockwork.start(txns[at], lambda at=at: txns[at].lock_shared(1, b"k%d" % ((at + 1) % 2), -1))
            clockwork.pass_time(0.25)
        return clockwork.manager.graph()


def queue() -> Any:
    """Many wait for one lock, in several modes, and its holders wait for others."""
    with Clockwork(detect="timeout") as clockwork:
        manager = _named(clockwork.manager)
        txns = [manager.new_transaction(f"{LONG}_{at}" if at % 2 else "") for at in range(7)]
        flight = [(partition_key(["12", "UA"]), EXCLUSIVE)]
        txns[6].lock_exclusive(1, b"the last one")
        for at in (0, 1):
            txns[at].lock_shared(1, b"s")
        clockwork.do(txns[2], lambda: manager.lock_tree(txns[2]._locker, -1, flight, 0))
        for at, mode in ((3, "lock_exclusive"), (4, "lock_upgradable"), (5, "lock_exclusive")):
            clockwork.start(txns[at], lambda at=at, mode=mode: getattr(txns[at], mode)(1, b"s", -1))
            clockwork.pass_time(1.5)
        clockwork.start(txns[0], lambda: manager.lock_tree(txns[0]._locker, -1, flight, -1))
        clockwork.start(txns[1], lambda: txns[1].lock_shared(1, b"the last one", -1))
        return manager.graph()


def crowd() -> Any:
    """Too many for a picture: the circle alone, and what is left out."""
    with Clockwork(detect="timeout") as clockwork:
        owner = clockwork.manager.new_transaction("owner")
        owner.lock_many([(2, b"%d" % at) for at in range(100)])
        txns = [clockwork.manager.new_transaction(f"{LONG}_{at}") for at in range(32)]
        for at in range(2):
            txns[at].lock_exclusive(1, b"k%d" % at)
        for at, txn in enumerate(txns):
            name = (1, b"k%d" % (1 - at)) if at < 2 else (2, b"0")
            clockwork.start(txn, lambda txn=txn, name=name: txn.lock_shared(*name, -1))
        return clockwork.manager.graph()


def manager() -> Any:
    with Clockwork() as clockwork:
        test_locks.deadlock(clockwork)
        clockwork.manager.new_transaction(LONG).lock_shared(7, b"\xff")
        return clockwork.manager


def transaction() -> Any:
    txn = _named(LockManager()).new_transaction(f"{LONG}_of_a_year")
    index = MemoryIndex(1, {"a": 1, "b": 2})
    for key in ("a", "b", "a rather long key of this index"):
        index.store(txn, key, 3)
        txn.enter()
        txn.lock_many([(2, b"key %d" % at) for at in range(6)])
    return txn


PICTURES: dict[str, Callable[[], Any]] = {
    "timeline": usual, "timeline of endings": endings, "timeline of upgrades": upgrades,
    "timeline of scopes": scopes, "timeline of many": many,
    "timeline of retries": retries, "timeline of modes": modes,
    "timeline of a clock that stands still": still,
    "deadlock": deadlock, "deadlock of eight": ring, "deadlock on one lock": converts,
    "graph": graph, "graph of a queue": queue, "graph of a crowd": crowd,
    "manager": manager, "transaction": transaction,
}
"""What makes each of them, by its name."""
