"""Locks between real threads: waiting, hand-over, interrupts, two calls at once, and many transfers."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deltanb.errors import (
    DeadlockError,
    IllegalStateError,
    LockFailure,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import LockManager, LockResult, Transaction
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.names import called
from deltanb.locks.core.waits import Waits, park
from deltanb.testing import MemoryIndex
from tests.patience import PATIENCE

A, B = b"a", b"b"


class Started:
    """A call on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.value = work()
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "it hangs"
        if self.error is not None:
            raise self.error
        return self.value


class Parking:
    """A manager that tells when a thread begins to wait."""

    def __init__(self, **settings: Any) -> None:
        self.parked = threading.Semaphore(0)
        self.interrupts: list[BaseException] = []
        self.manager = LockManager(park=self._park, **settings)

    def _park(self, waiter: Waiter, timeout: float | None) -> bool:
        self.parked.release()
        if self.interrupts:
            raise self.interrupts.pop()
        return park(waiter, timeout)

    def waiting(self, work: Callable[[], Any]) -> Started:
        started = Started(work)
        assert self.parked.acquire(timeout=PATIENCE)
        return started


@pytest.fixture
def parking() -> Iterator[Parking]:
    yield (parking := Parking())
    parking.manager.close()


def two(parking: Parking) -> tuple[Transaction, Transaction]:
    return parking.manager.new_transaction(), parking.manager.new_transaction()


def test_a_lock_is_handed_to_who_waits_before_he_runs(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, A)
    waits = parking.waiting(lambda: other.lock_exclusive(1, A, -1))
    assert other.waiting == ("exclusive", 1, A)
    one.commit()
    assert parking.manager.locks()[0].holders == ((other.id, "exclusive"),)
    assert waits.result() is LockResult.ACQUIRED and other.waiting is None
    other.reset()


def test_a_wait_ends_with_its_time(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, A)
    assert other.try_lock_shared(1, A, 0.001) is LockResult.TIMED_OUT_LOCK
    with pytest.raises(LockTimeoutError, match=r"waited 0.001 s"):
        other.lock_shared(1, A, 0.001)
    assert parking.manager.num_waiting == 0
    other.check()


def test_interrupt_ends_a_wait_and_nothing_else(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, A)
    assert not other.interrupt()
    waits = parking.waiting(lambda: other.lock_exclusive(1, A, -1))
    assert other.interrupt()
    with pytest.raises(LockInterruptedError, match="interrupted"):
        waits.result()
    assert other.lock_exclusive(1, B) is LockResult.ACQUIRED


def test_close_interrupts_all_who_wait(parking: Parking) -> None:
    one = parking.manager.new_transaction()
    one.lock_exclusive(1, A)
    others = [parking.manager.new_transaction() for _ in range(4)]
    modes = ("shared", "upgradable", "exclusive", "shared")
    waits = [parking.waiting(lambda o=o, w=w: getattr(o, f"try_lock_{w}")(1, A, -1))
             for o, w in zip(others, modes, strict=True)]
    parking.manager.close()
    assert [wait.result().name for wait in waits] == ["INTERRUPTED"] * 4


CALLS: list[Callable[[Transaction], Any]] = [
    lambda t: t.lock_shared(1, B), lambda t: t.commit(), lambda t: t.exit(), lambda t: t.enter(),
    lambda t: t.reset(), lambda t: t.reset("cause"), lambda t: t.rollback(), lambda t: t.unlock(),
    lambda t: t.unlock_combine(), lambda t: MemoryIndex(2).store(t, B, 1), lambda t: t.lock_many([(1, B)]),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_second_call_meanwhile_is_refused(parking: Parking, call: Callable[[Transaction], Any]) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, A)
    waits = parking.waiting(lambda: other.lock_exclusive(1, A, -1))
    with pytest.raises(IllegalStateError, match=f"two calls at once: {called(other.id)} waits"):
        call(other)
    one.commit()
    assert waits.result() is LockResult.ACQUIRED


def test_an_operation_keeps_other_threads_out(parking: Parking) -> None:
    txn = parking.manager.new_transaction()
    with txn.operation():
        txn.lock_shared(1, A)  # the thread that is in it may
        with pytest.raises(IllegalStateError, match="is in a call in another thread"):
            Started(lambda: txn.lock_shared(1, B)).result()
        with pytest.raises(IllegalStateError, match="is in another call of this thread"):
            txn.commit()
    Started(txn.commit).result()
    assert parking.manager.num_locks_held == 0


def test_a_keyboard_interrupt_leaves_no_request_behind(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, A)
    parking.interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        other.lock_exclusive(1, A)
    assert parking.manager.num_waiting == 0
    one.commit()
    assert parking.manager.num_locks_held == 0
    assert other.lock_exclusive(1, A) is LockResult.ACQUIRED


def test_a_keyboard_interrupt_just_before_the_wait_leaves_no_request_behind(
    parking: Parking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    one, other = two(parking)
    one.lock_exclusive(1, A)
    monkeypatch.setattr(Waits, "wait", stop)
    calls = (lambda: other.lock_exclusive(1, A), lambda: other.lock_many([(0, B), (1, A)]))
    for call in calls:
        with pytest.raises(KeyboardInterrupt):
            call()
        assert parking.manager.num_waiting == 0 and parking.manager.num_locks_held == 1
        assert other.lock_exclusive(1, B) is LockResult.ACQUIRED
        other.commit()
    with other.operation(), pytest.raises(KeyboardInterrupt):
        calls[0]()
    other.commit()


def test_a_lock_granted_as_the_interrupt_came_is_given_back() -> None:
    manager = LockManager(park=lambda waiter, timeout: grant_and_stop())
    one, other = manager.new_transaction(), manager.new_transaction()

    def grant_and_stop() -> bool:
        one.unlock()
        assert other.waiting is None
        raise KeyboardInterrupt

    one.lock_upgradable(1, A)
    other.lock_shared(1, B)
    with pytest.raises(KeyboardInterrupt):
        other.lock_exclusive(1, A)
    assert [state.key for state in manager.locks()] == [B] and other.last_locked_key == B


def test_a_lock_granted_as_the_time_was_over_is_kept() -> None:
    def late(waiter: Waiter, timeout: float | None) -> bool:
        one.commit()
        return False

    manager = LockManager(park=late)
    one, other = manager.new_transaction(), manager.new_transaction()
    one.lock_exclusive(1, A)
    assert other.lock_shared(1, A) is LockResult.ACQUIRED


def test_lock_many_has_one_deadline() -> None:
    now = 0.0
    waited: list[float | None] = []

    def wait(waiter: Waiter, timeout: float | None) -> bool:
        nonlocal now
        waited.append(timeout)
        now += 0.75
        holders[waiter.lock.name[1]].commit()
        return True

    manager = LockManager(park=wait, clock=lambda: int(now * 1e9))
    holders = {key: manager.new_transaction() for key in (A, B)}
    for key, holder in holders.items():
        holder.lock_exclusive(1, key)
    txn = manager.new_transaction()
    assert len(txn.lock_many([(1, B), (1, A)], timeout=1)) == 2
    assert waited == [1, 0.25]


def test_lock_many_that_is_refused_leaves_the_other_call_alone(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, B)
    other.lock_shared(1, b"before")
    waits = parking.waiting(lambda: other.lock_many([(1, A), (1, B)], timeout=-1))
    with pytest.raises(IllegalStateError, match="two calls at once"):
        other.lock_many([(1, A), (1, b"c")])
    assert other.lock_check(1, A) is LockResult.OWNED_EXCLUSIVE
    one.commit()
    assert len(waits.result()) == 2 and other.last_locked_key == B
    assert parking.manager.num_locks_held == 3


def test_lock_many_that_is_interrupted_gives_all_back(parking: Parking) -> None:
    one, other = two(parking)
    one.lock_exclusive(1, B)
    other.lock_upgradable(1, A)
    waits = parking.waiting(lambda: other.lock_many([(1, B), (1, A), (0, A)], timeout=-1))
    assert other.interrupt()
    with pytest.raises(LockInterruptedError, match="1:b"):
        waits.result()
    assert [state.holders[0][1] for state in parking.manager.locks()] == ["exclusive", "upgradable"]
    assert other.last_locked_key == A


def test_a_wait_that_only_the_waiting_thread_could_end_is_refused(parking: Parking) -> None:
    one, other = two(parking)
    one.attach("mine")
    one.lock_exclusive(1, A)
    with pytest.raises(DeadlockError, match="only thread MainThread works on mine #1") as caught:
        other.lock_shared(1, A, -1)
    assert caught.value.cycle.transactions == (other.id, one.id) and caught.value.guilty
    assert caught.value.owner_attachment == "mine"
    assert other.try_lock_shared(1, A, 0.001) is LockResult.TIMED_OUT_LOCK, "it ends by itself"
    third = parking.manager.new_transaction()
    waits = parking.waiting(lambda: [third.lock_exclusive(1, B), third.lock_exclusive(1, A, -1)])
    with pytest.raises(DeadlockError, match="only thread MainThread"):
        other.lock_shared(1, B, -1)
    one.commit()
    assert waits.result()[-1] is LockResult.ACQUIRED


def test_a_wait_that_another_thread_can_end_is_not_refused(parking: Parking) -> None:
    one, other = two(parking)
    Started(lambda: one.lock_exclusive(1, A)).result()
    waits = parking.waiting(lambda: other.lock_shared(1, A, -1))
    one.commit()
    assert waits.result() is LockResult.ACQUIRED


def test_a_transaction_goes_from_thread_to_thread(parking: Parking) -> None:
    txn = parking.manager.new_transaction()
    for at in range(3):
        Started(lambda at=at: txn.lock_exclusive(1, b"%d" % at)).result()
    txn.commit()
    assert parking.manager.num_locks_held == 0


@pytest.mark.parametrize(("rule", "detect"), [
    ("STRICT", "enqueue"), ("LENIENT", "enqueue"), ("UNCHECKED", "enqueue"), ("STRICT", "timeout")])
def test_transfers_keep_the_total(rule: str, detect: str) -> None:
    accounts, threads, transfers = 6, 8, 60
    manager = LockManager(rule, lock_timeout=PATIENCE if detect == "enqueue" else 0.005, detect=detect)
    index = MemoryIndex(1, {b"%d" % at: 100 for at in range(accounts)})
    failures: list[LockFailure] = []
    begin = threading.Barrier(threads)

    def work(seed: int) -> int:
        chance, done = random.Random(seed), 0
        begin.wait()
        while done < transfers:
            txn = manager.new_transaction()
            txn.lock_mode = chance.choice(["UPGRADABLE_READ", "UPGRADABLE_READ", "REPEATABLE_READ"])
            if rule == "STRICT":
                txn.lock_mode = "UPGRADABLE_READ"
            payer, payee = (b"%d" % at for at in chance.sample(range(accounts), 2))
            try:
                transfer(txn, index, payer, payee, chance.randint(1, 50), chance.random() < 0.2)
                done += 1
            except LockFailure as error:
                failures.append(error)
            finally:
                txn.reset()
        return done

    started = [Started(lambda seed=seed: work(seed)) for seed in range(threads)]
    assert [one.result() for one in started] == [transfers] * threads
    with manager.new_transaction() as txn:
        assert sum(index.load(txn, b"%d" % at) for at in range(accounts)) == accounts * 100
    assert manager.num_locks_held == manager.num_waiting == 0
    if detect == "enqueue":
        assert not [error for error in failures if type(error) is LockTimeoutError], "nobody waits in vain"


def transfer(txn: Transaction, index: MemoryIndex, payer: bytes, payee: bytes, amount: int,
             thinks_twice: bool) -> None:
    """Move money; in a nested scope that is rolled back first, where somebody thinks twice."""
    if thinks_twice:
        txn.enter()
        index.store(txn, payer, -10**6)
        txn.exit()
    left, gained = index.load(txn, payer) - amount, index.load(txn, payee) + amount
    with txn.scope():
        index.store(txn, payer, left)
        index.store(txn, payee, gained)
    txn.commit()


def test_nothing_is_left_in_memory() -> None:
    manager = LockManager()
    txns = [manager.new_transaction() for _ in range(10)]

    def use() -> None:
        for at, txn in enumerate(txns):
            for key in range(200):
                txn.lock_shared(1, b"%d" % key)
                txn.try_lock_exclusive(2, b"%d" % (key * 10 + at), 0)
        for txn in txns:
            txn.reset()

    use()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            use()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
    assert manager.num_locks_held == 0


def test_a_held_lock_takes_less_than_400_bytes() -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    keys = [b"%08d" % at for at in range(50_000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for key in keys[:25_000]:
            txn.lock_exclusive(1, key)
        for key in keys[25_000:]:
            txn.lock_shared(1, key)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / len(keys) < 400
    txn.reset()
