"""What locks cost beside a bare ``threading.Lock``: the ratio table.

    python -m tests.benchmarks locks [--quick] [--rounds N] [--only TEXT]

Each line takes turns with acquire and release of a bare lock (a hand-over: with that of a
``threading.Condition``; a commit of a table: with an append without locks), and the best of all rounds
counts. A search for deadlocks and memory have bounds.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import deltanb as dn
from deltanb.locks import LockManager
from deltanb.locks.core.deadlock import cycle_of
from deltanb.locks.core.keys import row_key
from deltanb.locks.core.lock_table import LockTable, Waiter
from deltanb.locks.core.modes import EXCLUSIVE, UpgradeRule
from deltanb.locks.core.stack import Locker
from deltanb.testing import MemoryIndex
from tests.benchmarks.figures import Figure, attempt, within

KEY = b"0123456789abcdef"
MANY = [(1, b"%016d" % at) for at in range(64)]
WAITING = 1000
SUITE = "locks"
MAX_HAND_OVER, MAX_COMMIT, MAX_SEARCH, MAX_BYTES = 3.0, 1.1, 1000, 400


def best(work: Callable[[], object], number: int, rounds: int) -> float:
    """Seconds of one call, at best."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            work()
        times.append(time.perf_counter() - start)
    return min(times) / number


# -- what is measured: the work, and of how many locks it is -------------------------------------


def bare() -> Callable[[], object]:
    lock = threading.Lock()

    def work() -> None:
        lock.acquire()
        lock.release()

    return work


def pair() -> tuple[Callable[[], object], int]:
    txn = LockManager().new_transaction()

    def work() -> None:
        txn.lock_upgradable(1, KEY)
        txn.unlock()

    return work, 1


def again() -> tuple[Callable[[], object], int]:
    txn = LockManager().new_transaction()
    txn.lock_exclusive(1, KEY)
    return lambda: txn.lock_exclusive(1, KEY), 1


def many_and_commit() -> tuple[Callable[[], object], int]:
    txn = LockManager().new_transaction()

    def work() -> None:
        for index_id, key in MANY:
            txn.lock_exclusive(index_id, key)
        txn.commit()

    return work, len(MANY)


def lock_many() -> tuple[Callable[[], object], int]:
    txn = LockManager().new_transaction()

    def work() -> None:
        txn.lock_many(MANY)
        txn.commit()

    return work, len(MANY)


def lock_tree() -> tuple[Callable[[], object], int]:
    manager = LockManager()
    txn = manager.new_transaction()
    rows = [(row_key(["1"], (at,)), EXCLUSIVE) for at in range(len(MANY))]

    def work() -> None:
        manager.lock_tree(txn._locker, -1, rows, 1)
        txn.commit()

    return work, len(MANY)


def store_and_commit() -> tuple[Callable[[], object], int]:
    txn, index = LockManager().new_transaction(), MemoryIndex(1, {"k": 1})

    def work() -> None:
        index.store(txn, "k", 2)
        txn.commit()

    return work, 1


SINGLE = {
    "lock + unlock": (pair, 10.0),
    "asking again": (again, 2.5),
    "64 locks + commit, a lock": (many_and_commit, 6.0),
    "lock_many of 64, a lock": (lock_many, 4.0),
    "lock_tree of 64 rows, a lock": (lock_tree, None),
    "store + commit in a memory index": (store_and_commit, None),
}


# -- hand-over -----------------------------------------------------------------------------------


def hand_over(turns: int) -> float:
    """Two transactions on two threads that take a lock from each other, seconds a turn."""
    manager = LockManager(lock_timeout=-1)

    def work() -> None:
        txn = manager.new_transaction()
        for _ in range(turns):  # once both are there, each commit hands over: who asks again has to wait
            txn.lock_exclusive(1, KEY)
            txn.commit()

    return timed(work)


def condition(turns: int) -> float:
    """The same with a condition and a flag that says whose turn it is."""
    ready = threading.Condition()
    turn = [0]

    def work(own: int) -> None:
        for _ in range(turns):
            with ready:
                ready.wait_for(lambda: turn[0] == own)
                turn[0] = 1 - own
                ready.notify()

    owns = iter((0, 1))
    return timed(lambda: work(next(owns)))


def timed(work: Callable[[], None]) -> float:
    threads = [threading.Thread(target=work) for _ in range(2)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


# -- search and memory ---------------------------------------------------------------------------


def search() -> Callable[[], object]:
    """A chain of waiting transactions, and the one that asks last: it is behind all of them."""
    table = LockTable(UpgradeRule.STRICT)
    lockers = [Locker(at, 0) for at in range(WAITING + 1)]
    for at, locker in enumerate(lockers):
        table.ask(locker, (1, b"%d" % at), EXCLUSIVE)
    waiter = None
    for at, locker in enumerate(lockers[:-1]):
        waiter = table.ask(locker, (1, b"%d" % (at + 1)), EXCLUSIVE)
    first = lockers[0].waiter
    assert isinstance(waiter, Waiter) and first is not None
    return lambda: cycle_of(first)


def bytes_a_lock(locks: int, index_id: int = 1) -> float:
    """Memory of held locks, the stack included, the keys not."""
    manager = LockManager()
    txn = manager.new_transaction()
    keys = [b"%08d" % at for at in range(locks)]
    tracemalloc.start()
    for key in keys:
        txn.lock_exclusive(index_id, key)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    txn.reset()
    return used / locks


# -- tables --------------------------------------------------------------------------------------


def scoped_and_optimistic(times: int, durability: str) -> tuple[float, float]:
    """Appends of a row in a scope of a transaction, with its commit, and those that lock nothing: seconds of
    one, the median. They take turns, each on a table of its own."""
    with tempfile.TemporaryDirectory() as folder, dn.set_options(durability=durability):
        mine, other = (dn.create(f"{folder}/{name}", {"n": [0]}) for name in ("mine", "other"))
        txn = LockManager().new_transaction()
        table = txn.table(mine)

        def scoped() -> None:
            with txn.scope():
                table.append({"n": [1]})
            txn.commit()

        def optimistic() -> None:
            other.append({"n": [1]})

        turns = [(best(scoped, 1, 1), best(optimistic, 1, 1)) for _ in range(times)]
        return statistics.median(a for a, _ in turns), statistics.median(b for _, b in turns)


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    number, turns, held, appends = (200, 50, 5_000, 10) if quick else (20_000, 3_000, 1_000_000, 100 * rounds)
    rounds = 2 if quick else 3 * rounds
    works: dict[str, Callable[[str], Iterator[Figure]]] = {
        name: partial(single, make=make, goal=goal, number=number, rounds=rounds)
        for name, (make, goal) in SINGLE.items()}
    works["hand-over between threads"] = partial(handed_over, turns=turns, rounds=rounds)
    works[f"deadlock search, {WAITING} waiting"] = partial(
        searched, number=5 if quick else 200, rounds=rounds)
    for durability in ("sync", "none"):
        works[f"scoped commit of a table, {durability}"] = partial(
            scoped, appends=appends, durability=durability)
    for what, index_id in (("memory of a held lock", 1), ("memory of a held lock of a table", -1)):
        works[what] = partial(memory, locks=held, index_id=index_id)
    for work, measure in works.items():
        if only in work:
            yield from attempt(SUITE, work, partial(measure, work))


def at_most(work: str, against: str, ours: float, theirs: float, goal: float | None) -> Figure:
    """How many times as long, of seconds."""
    return Figure(SUITE, work, against, ours / theirs, goal, at_most=True,
                  note=f"{ours * 1e9:,.0f} / {theirs * 1e9:,.0f} ns")


def single(
    work: str, make: Callable[[], tuple[Callable[[], object], int]], goal: float | None, number: int,
    rounds: int,
) -> Iterator[Figure]:
    """What one transaction does, a lock of it."""
    (act, count), other = make(), bare()
    taken = [(best(act, max(1, number // count), 1) / count, best(other, number, 1)) for _ in range(rounds)]
    yield at_most(work, "a bare lock", min(a for a, _ in taken), min(b for _, b in taken), goal)


def handed_over(work: str, turns: int, rounds: int) -> Iterator[Figure]:
    """A lock that goes from one thread to another."""
    taken = [(hand_over(turns) / turns / 2, condition(turns) / turns / 2) for _ in range(rounds)]
    yield at_most(work, "a condition", min(a for a, _ in taken), min(b for _, b in taken), MAX_HAND_OVER)


def searched(work: str, number: int, rounds: int) -> Iterator[Figure]:
    """A search through all that wait."""
    yield within(SUITE, work, best(search(), number, rounds) * 1e6, MAX_SEARCH, "µs")


def scoped(work: str, appends: int, durability: str) -> Iterator[Figure]:
    """A commit under locks."""
    yield at_most(work, "an append", *scoped_and_optimistic(appends, durability), MAX_COMMIT)


def memory(work: str, locks: int, index_id: int) -> Iterator[Figure]:
    """What a lock takes while it is held."""
    yield within(SUITE, work, bytes_a_lock(locks, index_id), MAX_BYTES, "bytes")
