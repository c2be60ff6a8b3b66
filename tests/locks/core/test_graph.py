"""The graph of locks: who holds, who waits for whom, since when; and of very many the part that counts."""

from __future__ import annotations

import pytest

from deltanb.errors import DeadlockError
from deltanb.locks import LockManager
from deltanb.locks.core.graph import MAX_NODES, MAX_WAITS, cycle_among
from tests.locks.clockwork import Clockwork


def test_nothing_is_held() -> None:
    graph = LockManager().graph()
    assert (graph.part, graph.members, graph.locks, graph.waits) == ("all", (), (), ())


def test_who_holds_who_waits_and_since_when() -> None:
    with Clockwork() as clockwork:
        one, two, three = (clockwork.manager.new_transaction() for _ in range(3))
        one.attach("planner")
        one.lock_shared(1, b"k")
        two.lock_upgradable(1, b"k")
        clockwork.pass_time(1)
        clockwork.start(three, lambda: three.lock_exclusive(1, b"k", -1))
        clockwork.pass_time(0.25)
        graph = clockwork.manager.graph()
    assert [(m.id, m.attachment, m.age_ms) for m in graph.members] == [
        (3, None, 1250), (2, None, 1250), (1, "planner", 1250)]
    assert [(h.transaction, h.lock, h.mode) for h in graph.holds] == [
        (2, "1:k", "upgradable"), (1, "1:k", "shared")]
    (wait,) = graph.waits
    assert (wait.transaction, wait.lock, wait.mode, wait.waited_ms, wait.blockers) == (
        3, "1:k", "exclusive", 250, (2, 1))
    assert (graph.part, graph.cycle, graph.num_locks, graph.num_waiting) == ("all", (), 1, 1)


def circle(clockwork: Clockwork, length: int, first: int = 0) -> None:
    txns = [clockwork.manager.new_transaction() for _ in range(length)]
    for at, txn in enumerate(txns):
        txn.lock_exclusive(1, b"c%d" % (first + at))
    for at, txn in enumerate(txns):
        key = b"c%d" % (first + (at + 1) % length)
        clockwork.start(txn, lambda txn=txn, key=key: txn.lock_exclusive(1, key, -1))


def test_a_circle_begins_with_who_has_waited_longest() -> None:
    with Clockwork(detect="timeout") as clockwork:
        circle(clockwork, 3)
        behind = clockwork.manager.new_transaction()
        clockwork.start(behind, lambda: behind.lock_shared(1, b"c1", -1))
        graph = clockwork.manager.graph()
        assert graph.cycle == (1, 2, 3)
        assert graph.transactions == (1, 2, 3, 4)
        waits = list(clockwork.manager._table.waiting)
        assert [w.locker.id for w in cycle_among(reversed(waits))] == [1, 2, 3]


def test_many_idle_locks_leave_those_that_are_waited_for() -> None:
    with Clockwork() as clockwork:
        one, two = clockwork.manager.new_transaction(), clockwork.manager.new_transaction()
        one.lock_many([(1, b"%d" % at) for at in range(100)])
        clockwork.start(two, lambda: two.lock_shared(1, b"7", -1))
        graph = clockwork.manager.graph()
    assert (graph.part, graph.locks, graph.num_locks) == ("waited for", ((1, b"7"),), 100)
    assert [(hold.transaction, hold.lock) for hold in graph.holds] == [(1, "1:7")]


def test_thirty_nodes_are_drawn_and_one_more_is_not() -> None:
    manager = LockManager()
    for at in range(MAX_NODES // 2):
        manager.new_transaction().lock_shared(1, b"%d" % at)
    assert (manager.graph().part, len(manager.graph().members)) == ("all", 15)
    manager.new_transaction().lock_shared(1, b"0")
    graph = manager.graph()
    assert (graph.part, graph.locks) == ("waited for", ())


@pytest.mark.parametrize("length", [2, 40])
def test_of_too_many_the_circle_is_left(length: int) -> None:
    with Clockwork(detect="timeout") as clockwork:
        owner = clockwork.manager.new_transaction()
        owner.lock_exclusive(2, b"hot")
        for _ in range(MAX_NODES):
            txn = clockwork.manager.new_transaction()
            clockwork.start(txn, lambda txn=txn: txn.lock_shared(2, b"hot", -1))
        circle(clockwork, length)
        graph = clockwork.manager.graph()
    assert graph.part == "cycle"
    assert len(graph.cycle) == length
    assert graph.transactions == graph.cycle[:MAX_NODES // 2]
    assert len(graph.members) + len(graph.locks) <= MAX_NODES
    assert set(graph.transactions) <= {wait.transaction for wait in graph.waits}
    assert graph.num_waiting == MAX_NODES + length


def test_its_size_is_bounded() -> None:
    """A lock with a thousand holders, and more waits than are listed."""
    manager = LockManager()
    for _ in range(1000):
        manager.new_transaction().lock_shared(1, b"k")
    with manager._mutex:
        for _ in range(MAX_WAITS + 1):
            waiter = manager._table.ask(manager.new_locker(), (1, b"k"), 3)
    graph = manager.graph()
    assert len(graph.waits) == MAX_WAITS and graph.num_waiting == MAX_WAITS + 1
    assert max(len(wait.blockers) for wait in graph.waits) == MAX_NODES
    assert graph.members == graph.holds == ()
    assert waiter.locker.id not in {wait.transaction for wait in graph.waits}


def test_an_enqueued_deadlock_is_no_part_of_it() -> None:
    with Clockwork() as clockwork:
        with pytest.raises(DeadlockError):
            _deadlock(clockwork)
        assert clockwork.manager.graph().cycle == ()


def _deadlock(clockwork: Clockwork) -> None:
    one, two = clockwork.manager.new_transaction(), clockwork.manager.new_transaction()
    one.lock_exclusive(1, b"a")
    two.lock_exclusive(1, b"b")
    clockwork.start(one, lambda: one.lock_exclusive(1, b"b", -1))
    clockwork.do(two, lambda: two.lock_exclusive(1, b"a"))
