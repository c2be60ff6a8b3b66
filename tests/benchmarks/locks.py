"""What locks cost beside a bare ``threading.Lock``: the ratio table.

    python tests/benchmarks/locks.py [--quick] [--only TEXT]

Each line is measured in the same run as acquire and release of a bare lock (a hand-over: as that of a
``threading.Condition``; a commit of a table: as an append without locks), the best of several rounds. The
table shows the time, the ratio and the goal.
``--quick`` shows that everything runs; its ratios say little.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable

import deltanb as dn
from deltanb.locks import LockManager
from deltanb.locks.core.deadlock import cycle_of
from deltanb.locks.core.keys import row_key
from deltanb.locks.core.lock_table import LockTable, Waiter
from deltanb.locks.core.modes import EXCLUSIVE, UpgradeRule
from deltanb.locks.core.stack import Locker
from deltanb.testing import MemoryIndex

KEY = b"0123456789abcdef"
MANY = [(1, b"%016d" % at) for at in range(64)]
WAITING = 1000


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


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    number, rounds, turns, locks = (200, 2, 50, 5_000) if args.quick else (20_000, 9, 3_000, 1_000_000)
    unit = best(bare(), number, rounds)
    print(f"{'bare lock, acquire + release':36} {unit * 1e9:10.0f} ns")
    for name, (make, goal) in SINGLE.items():
        if args.only in name:
            work, count = make()
            seconds = best(work, max(1, number // count), rounds) / count
            line = f"{name:36} {seconds * 1e9:10.0f} ns  {seconds / unit:6.1f} ×"
            print(line + (f"  goal {goal:.1f} ×" if goal else ""))
    if args.only in "hand-over":
        base = min(condition(turns) for _ in range(rounds)) / turns / 2
        seconds = min(hand_over(turns) for _ in range(rounds)) / turns / 2
        print(f"{'hand-over between threads':36} {seconds * 1e9:10.0f} ns  {seconds / base:6.1f} ×  goal 3.0 "
              "× of a condition")
    if args.only in "deadlock search":
        seconds = best(search(), 5 if args.quick else 200, rounds)
        print(f"{f'deadlock search, {WAITING} waiting':36} {seconds * 1e6:10.0f} µs  {'':8}  goal 1000 µs")
    for durability in ("sync", "none"):
        if args.only in (name := f"scoped commit of a table, {durability}"):
            seconds, base = scoped_and_optimistic(10 if args.quick else 300, durability)
            print(f"{name:36} {seconds * 1e6:10.0f} µs  {seconds / base:6.2f} ×  goal 1.1 × of an append")
    if args.only in "memory":
        for name, index_id in (("memory of a held lock", 1), ("memory of a held lock of a table", -1)):
            print(f"{name:36} {bytes_a_lock(locks, index_id):10.0f} B   {'':8}  goal 400 B")


if __name__ == "__main__":
    main()
