"""What is shown of locks: the manager, a transaction and its scopes, the circle of a deadlock."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.errors import DeadlockError
from deltanb.locks import Cycle, LockManager, Transaction, Wait
from deltanb.notebook import bundle
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Clockwork
from tests.notebook.looks import assert_consistent, assert_golden


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def deadlock(clockwork: Clockwork) -> tuple[list[Transaction], DeadlockError]:
    """Three transactions, each holding what the one before it wants."""
    txns = [clockwork.manager.new_transaction() for _ in range(3)]
    txns[0].attach("mover")
    for at, txn in enumerate(txns):
        clockwork.do(txn, lambda txn=txn, at=at: txn.lock_exclusive(1, b"k%d" % at))
        clockwork.pass_time(1)
    for at, txn in enumerate(txns[:2]):
        clockwork.start(txn, lambda txn=txn, at=at: txn.lock_shared(1, b"k%d" % (at + 1), -1))
        clockwork.pass_time(0.25)
    with pytest.raises(DeadlockError) as caught:
        clockwork.do(txns[2], lambda: txns[2].lock_upgradable(1, b"k0"))
    return txns, caught.value


def test_manager(update_golden: bool) -> None:
    with Clockwork() as clockwork:
        txns, _ = deadlock(clockwork)
        other = clockwork.manager.new_transaction()
        other.lock_shared(7, b"\xff")
        txns[2].try_lock_shared(7, b"\xff")
        page = assert_consistent(clockwork.manager)
        assert_golden(clockwork.manager, "locks_manager", update_golden)
        assert "4 locks held" in page.text and "2 transactions waiting" in page.text
        assert "4 3 shared" in page.text


def test_manager_that_is_closed_and_has_nothing() -> None:
    manager = LockManager(lock_timeout=None, detect="timeout", upgrade_rule="LENIENT")
    manager.close()
    assert repr(manager).split("\n") == [
        "Lock manager  closed",
        "0 locks held  0 transactions waiting",
        "upgrades LENIENT  waits for ever  looks for deadlocks as a wait runs out of time",
    ]
    assert_consistent(manager)


def test_transaction(update_golden: bool) -> None:
    with dn.teaching():
        manager = LockManager()
        index = MemoryIndex(1, {"a": 1, "b": 2})
        txn = manager.new_transaction()
        txn.attach(Unshowable())
        index.store(txn, "a", 3)
        txn.enter()
        txn.lock_mode, txn.lock_timeout = "READ_COMMITTED", 0
        for key in (b"x", b"y", b"z"):
            txn.lock_upgradable(2, key)
        txn.unlock_combine()
        txn.lock_exclusive(2, b"x")
        assert_consistent(txn)
        assert_golden(txn, "locks_transaction", update_golden)
        txn.reset("the disk is full")
    assert repr(txn).startswith("Transaction 2  ✕ disabled\n0 locks  0 changes  SYNC")


def test_bogus() -> None:
    assert_consistent(Transaction.BOGUS)
    assert repr(Transaction.BOGUS).startswith("Transaction BOGUS")


def test_waiting_is_said() -> None:
    with Clockwork() as clockwork:
        txns, _ = deadlock(clockwork)
        assert repr(txns[0]).startswith("Transaction 1  waits for 1:k1 (shared)")


def test_cycle(update_golden: bool) -> None:
    with Clockwork() as clockwork:
        _, error = deadlock(clockwork)
    assert_consistent(error.cycle)
    assert_golden(error.cycle, "locks_deadlock", update_golden)
    text = repr(error.cycle)
    for said in ("1:k0", "1:k1", "1:k2", "exclusive", "upgradable", "500 ms", "250 ms", "3.5 s", "'mover'",
                 "one order everywhere: 1:k0, 1:k1, 1:k2"):
        assert said in text, text


def test_other_circles() -> None:
    behind = Cycle((Wait(1, None, 1, b"k", "exclusive", "shared", (), 0, 0),
                    Wait(2, Unshowable(), 1, b"k", "exclusive", "upgradable", (), 0, 0)), 9, False)
    text = repr(behind)
    assert "transaction 9 is none of them" in text
    assert "take upgradable locks on what will be written" in text
    page = assert_consistent(behind)
    assert "a Unshowable whose repr raises RuntimeError" in page.text
    assert "1:k upgradable" in page.text
    thread = Cycle((Wait(2, None, 1, b"k", "shared", "unlocked", (), 0, 0),), 2, True, 1, "MainThread")
    assert "only thread MainThread works on transaction 1" in repr(thread)
    assert "end transaction 1 first" in repr(thread)


def test_a_failing_cell_shows_the_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    with Clockwork() as clockwork:
        _, error = deadlock(clockwork)
    published: list[dict[str, Any]] = []

    class Shell:
        kernel = object()
        execution_count = 3

        class display_pub:
            publish = staticmethod(lambda data: published.append(data))

        class InteractiveTB:
            structured_traceback = staticmethod(lambda *args, **kwargs: ["the traceback"])

    monkeypatch.setattr(bundle, "_shell", Shell)
    assert error._render_traceback_() == ["the traceback"]
    assert error._render_traceback_() == ["the traceback"]  # IPython asks twice
    (shown,) = published
    assert "Deadlock" in shown["text/html"]
    assert shown["text/plain"] == (
        "Deadlock: transaction 3 waits for 1:k0 upgradable, transaction 1 'mover' waits for 1:k1 shared, "
        "transaction 2 waits for 1:k2 shared")


def test_a_timeout_has_no_picture() -> None:
    error = errors.LockTimeoutError("late", timeout=1)
    assert getattr(error, "cycle", None) is None
