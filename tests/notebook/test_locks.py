"""What is shown of locks: the manager, a transaction and its scopes, the circle of a deadlock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.errors import DeadlockError
from deltanb.locks import Cycle, LockManager, Transaction, Wait
from deltanb.locks.core import commit
from deltanb.locks.core.keys import partition_key
from deltanb.locks.core.modes import EXCLUSIVE
from deltanb.notebook import bundle
from deltanb.notebook.drawing import lock_net
from deltanb.notebook.views import lock_graph
from deltanb.testing import MemoryIndex, MemoryStore
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
        other = clockwork.manager.new_transaction("reader")
        other.lock_shared(7, b"\xff")
        txns[2].try_lock_shared(7, b"\xff")
        page = assert_consistent(clockwork.manager)
        assert_golden(clockwork.manager, "locks_manager", update_golden)
        assert "4 locks held" in page.text and "2 transactions waiting" in page.text
        assert "shared: reader #4, transaction 3" in page.text


def test_manager_that_is_closed_and_has_nothing() -> None:
    manager = LockManager(lock_timeout=None, detect="timeout", upgrade_rule="LENIENT")
    manager.close()
    assert str(manager).split("\n") == [
        "Lock manager  closed",
        "0 locks held  0 transactions waiting",
        "upgrades LENIENT  waits for ever  looks for deadlocks as a wait runs out of time",
    ]
    assert_consistent(manager)


def test_transaction(update_golden: bool) -> None:
    with dn.teaching():
        manager = LockManager()
        index = MemoryIndex(1, {"a": 1, "b": 2})
        txn = manager.new_transaction("nightly")
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
    assert str(txn).startswith("Transaction nightly #2  ✕ disabled\n0 locks  0 changes  SYNC")


class Files:
    """A participant that describes several changes in one line, as tables do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self, changes: Sequence[int]) -> list[str]:
        return [f"{self.name} +{sum(changes)} files"]

    def undo(self, change: int) -> None:
        pass

    def commit(self, changes: Sequence[int], durability: Any) -> None:
        pass


class Mute:
    """A participant that has no words."""

    undo = commit = Files.undo


class Broken(Files):
    def describe(self, changes: Sequence[int]) -> list[str]:
        raise ValueError("no words")


def test_changes_of_a_transaction_are_described_by_who_made_them() -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    flights, index = Files("flights"), MemoryIndex(1, {"a": 1}, manager)
    for participant, change in ((flights, 1), (flights, 2), (Mute(), 1), (Broken("x"), 1)):
        txn.changed(participant, change)
    index.store(txn, "a", 3)
    assert txn.scopes()[0].changes[0] == (flights, 1)
    txn.enter()
    index.delete(txn, "a")
    index.insert(txn, "b", 1)
    text = str(txn)
    for line in ("changes  2 before, 1 of a Broken whose describe raises ValueError, 1:a was 1\n",
                 "  1  UPGRADABLE_READ  waits 1 s at most  savepoint after 5 changes",
                 "1:a was 3, 1:b is new"):
        assert line in text, text
    page = assert_consistent(txn)
    assert "savepoint after 5 changes" in page.text
    txn.reset()
    for _ in range(100):
        txn.changed(flights, 1)
    assert str(txn).endswith("changes  flights +100 files")
    txn.reset()


def test_tables_say_in_each_scope_what_was_done_there() -> None:
    table = dn.create(MemoryStore("memory:///ducks"), {"id": [1, 2], "month": [1, 2]}, partition_by=["month"])
    manager = LockManager()
    txn = manager.new_transaction()
    ducks = txn.table(table)
    ducks.append({"id": [3], "month": [1]})
    txn.enter()
    ducks.delete("month = 2")
    cursor = txn.cursor(table, key=["id"])
    for _ in range(2):
        cursor.find((1,))
        cursor.store({"id": 1, "month": 1})
    changes = [commit.described(scope.changes) for scope in txn.scopes()]
    assert changes == [["ducks: WRITE"], ["ducks: DELETE, 1 row by key"]]
    assert "     changes  ducks: DELETE, 1 row by key" in str(txn)
    assert "ducks month=2 exclusive" in assert_consistent(manager.graph()).text
    ducks.to_arrow()  # makes a statement of the row
    assert "1 row by key" not in str(txn)
    txn.exit()
    assert [commit.described(scope.changes) for scope in txn.scopes()] == [["ducks: WRITE"]]
    txn.exit()


def test_of_many_scopes_those_around_give_way() -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    for level in range(5):
        txn.lock_shared(1, b"%d" % level)
        txn.enter()
    txn.lock_many([(2, b"a rather long key, number %d" % at) for at in range(10, 30)], "shared")
    lines = str(txn).split("\n")
    assert lines[3] == "0  UPGRADABLE_READ  1 lock"
    assert lines[-2] == "          5  UPGRADABLE_READ  waits 1 s at most  savepoint after 0 changes"
    assert lines[-1] == "             locks    19 before, 2:a rather long key, number 29 shared"
    for _ in range(20):
        txn.enter()
    assert "… 18 scopes around" in str(txn)
    assert_consistent(txn)


def test_bogus() -> None:
    assert_consistent(Transaction.BOGUS)
    assert str(Transaction.BOGUS).startswith("Transaction BOGUS")


def test_waiting_is_said() -> None:
    with Clockwork() as clockwork:
        txns, _ = deadlock(clockwork)
        assert str(txns[0]).startswith("Transaction mover #1  waits for 1:k1 (shared)")


def test_cycle(update_golden: bool) -> None:
    with Clockwork() as clockwork:
        _, error = deadlock(clockwork)
    assert_consistent(error.cycle)
    assert_golden(error.cycle, "locks_deadlock", update_golden)
    text = str(error.cycle)
    for words in ("1:k0", "1:k1", "1:k2", "exclusive", "upgradable", "500 ms", "250 ms", "3.5 s", "mover #1",
                 "one order everywhere: 1:k0, 1:k1, 1:k2"):
        assert words in text, text


def test_other_circles() -> None:
    behind = Cycle((Wait(1, None, 1, b"k", "exclusive", "shared", (), 0, 0),
                    Wait(2, Unshowable(), 1, b"k", "exclusive", "upgradable", (), 0, 0)), 9, False)
    text = str(behind)
    assert "transaction 9 is not one of them" in text
    assert "take upgradable locks on what will be written" in text
    page = assert_consistent(behind)
    assert "a Unshowable whose repr raises RuntimeError" in page.text
    assert "1:k upgradable" in page.text
    thread = Cycle((Wait(2, None, 1, b"k", "shared", "unlocked", (), 0, 0),), 2, True, 1, "MainThread")
    assert "only thread MainThread works on transaction 1" in str(thread)
    assert "end transaction 1 first" in str(thread)


def drawn_words(obj: Any) -> list[str]:
    """The words of its picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", bundle.drawing(obj, "svg"))


def test_the_circle_is_drawn_as_a_ring() -> None:
    with Clockwork() as clockwork:
        _, error = deadlock(clockwork)
    words = drawn_words(error.cycle)
    for word in ("1:k0", "1:k1", "1:k2", "transaction 3", "✕ refused: upgradable", "wants shared, 500 ms",
                 "exclusive", "waits for", "is held by", "the circle"):
        assert word in words, words
    net = lock_net.laid_out(lock_graph.circle_of(error.cycle))
    assert net.is_ring and all(arrow.is_hot for arrow in net.arrows)
    assert [box.key[1] for box in net.boxes if box.is_victim] == [3]
    following = {arrow.start: arrow.end for arrow in net.arrows}
    key = ("txn", 3)
    seen = [key]
    while (key := following[key]) not in seen:
        seen.append(key)
    assert [k[1] for k in seen] == [3, (1, b"k0"), 1, (1, b"k1"), 2, (1, b"k2")]


def test_graph(update_golden: bool) -> None:
    with Clockwork(detect="timeout") as clockwork:
        txns = [clockwork.manager.new_transaction() for _ in range(4)]
        txns[0].attach(Unshowable())
        for at in range(2):
            txns[at].lock_exclusive(1, b"k%d" % at)
        txns[3].lock_shared(7, b"\xff")
        for at in range(3):
            clockwork.start(txns[at], lambda at=at: txns[at].lock_shared(1, b"k%d" % ((at + 1) % 2), -1))
            clockwork.pass_time(0.25)
        graph = clockwork.manager.graph()
    page = assert_consistent(graph)
    assert_golden(graph, "locks_graph", update_golden)
    for line in ("✕ deadlock", "1 → 1:k1 → 2 → 1:k0 → 1", "750 ms", "a Unshowable whose repr"):
        assert line in page.text, page.text
    assert graph.svg == bundle.drawing(graph, "svg")
    hot = [(a.start[1], a.end[1]) for a in lock_graph.net_of(graph).arrows if a.is_hot]
    assert sorted(hot, key=str) == sorted([(1, (1, b"k1")), ((1, b"k1"), 2), (2, (1, b"k0")),
                                           ((1, b"k0"), 1)], key=str)


def test_graph_of_one_lock_that_all_convert() -> None:
    """Everybody holds it and waits for it: half of them stand on either side."""
    circle = Cycle(tuple(Wait(at, None, 1, b"k", "exclusive", "shared", (), 0, 0) for at in (1, 2)), 1)
    net = lock_net.laid_out(lock_graph.circle_of(circle))
    lock = net.box(("lock", (1, b"k")))
    assert (net.box(("txn", 1)).x - lock.x) * (net.box(("txn", 2)).x - lock.x) < 0
    assert len(net.arrows) == 4


def test_graph_without_a_picture_says_so() -> None:
    manager = LockManager()
    for _ in range(31):
        manager.new_transaction().lock_shared(1, b"k")
    text = str(manager.graph())
    assert text.split("\n") == ["Lock graph  nobody waits", "1 lock held  0 transactions waiting",
                                "too many for a picture, and nobody waits"]
    assert_consistent(manager.graph())


def test_graph_counts_what_it_leaves_out() -> None:
    with Clockwork(detect="timeout") as clockwork:
        owner = clockwork.manager.new_transaction()
        owner.lock_many([(2, b"%d" % at) for at in range(100)])
        txns = [clockwork.manager.new_transaction() for _ in range(32)]
        for at in range(2):
            txns[at].lock_exclusive(1, b"k%d" % at)
        for at, txn in enumerate(txns):
            name = (1, b"k%d" % (1 - at)) if at < 2 else (2, b"0")
            clockwork.start(txn, lambda txn=txn, name=name: txn.lock_shared(*name, -1))
        graph = clockwork.manager.graph()
        assert "too many for a picture: the circle alone is drawn" in str(graph)
        assert "not drawn: 100 more locks held, 30 more transactions waiting" in drawn_words(graph)
        assert_consistent(graph)


@pytest.mark.parametrize("boxes", [4, 6, 8, 18, 30])
def test_no_boxes_of_a_ring_overlap(boxes: int) -> None:
    keys = [(kind, at) for at in range(boxes // 2) for kind in ("txn", "lock")]
    net = lock_net.in_ring(lock_net.Net(tuple(lock_net.Box(key, "x", "y") for key in keys), ()), keys)
    assert_apart(net)


def assert_apart(net: lock_net.Net) -> None:
    for at, box in enumerate(net.boxes):
        assert box.width / 2 <= box.x <= net.width - box.width / 2
        assert box.height / 2 <= box.y <= net.height - box.height / 2
        for other in net.boxes[:at]:
            assert (abs(box.x - other.x) >= (box.width + other.width) / 2
                    or abs(box.y - other.y) >= (box.height + other.height) / 2), (box, other)


def test_in_columns_whoever_is_waited_for_stands_to_the_right() -> None:
    with Clockwork() as clockwork:
        txns = [clockwork.manager.new_transaction() for _ in range(6)]
        for at in range(3):
            txns[at].lock_exclusive(1, b"k%d" % at)
        txns[3].lock_shared(1, b"s")
        txns[4].lock_shared(1, b"s")
        for txn, key in ((txns[0], b"k1"), (txns[1], b"k2"), (txns[5], b"s")):
            clockwork.start(txn, lambda txn=txn, key=key: txn.lock_exclusive(1, key, -1))
        graph = clockwork.manager.graph()
    net = lock_net.laid_out(lock_graph.net_of(graph))
    assert_apart(net)
    left = [a for a in net.arrows if net.box(a.start).x > net.box(a.end).x]
    assert [(a.start[1], a.end[1], a.words) for a in left] == [
        ((1, b"k0"), 1, "exclusive"),  # nobody waits for it, so it takes no column
        ((1, b"s"), 6, "upgradable")]  # owned already by who waits to be alone with it
    assert "is held by" in drawn_words(graph)


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
    lines = ["the traceback", "Explained by: deltanb help deadlock-error"]
    assert error._render_traceback_() == lines
    assert error._render_traceback_() == lines  # IPython asks twice
    (shown,) = published
    assert "Deadlock" in shown["text/html"] and "<svg" in shown["text/html"]
    assert shown["text/plain"] == (
        "Deadlock: transaction 3 waits for 1:k0 upgradable, mover #1 waits for 1:k1 shared, "
        "transaction 2 waits for 1:k2 shared")


def test_what_is_attached_is_behind_the_name_of_its_transaction() -> None:
    with Clockwork() as clockwork:
        ann, other = clockwork.manager.new_transaction("ann"), clockwork.manager.new_transaction("")
        ann.attach("planner")
        other.attach(("job", 7))
        ann.lock_exclusive(1, b"a")
        other.lock_exclusive(1, b"b")
        clockwork.start(ann, lambda: ann.lock_shared(1, b"b", -1))
        with pytest.raises(DeadlockError) as caught:
            other.lock_shared(1, b"a")
        view = lock_graph.cycle(caught.value.cycle)
    assert lock_graph.sentence(view) == (
        "Deadlock: transaction 2 ('job', 7) waits for 1:a shared, ann #1 'planner' waits for 1:b shared")
    assert [row[0] for row in view.sections[1].table.rows] == ["2 ('job', 7)", "ann #1 'planner'"]


def test_long_names_of_a_function_are_told_apart_by_their_numbers() -> None:
    with Clockwork() as clockwork:
        for _ in range(2):
            clockwork.manager.new_transaction("load_flights_of_a_month").lock_shared(1, b"k")
        graph = clockwork.manager.graph()
    names = [box.title for box in lock_graph.net_of(graph).boxes if box.key[0] == "txn"]
    assert names == ["load_flights_of_… #1", "load_flights_of_… #2"]


def test_a_timeout_has_no_picture() -> None:
    error = errors.LockTimeoutError("late", timeout=1)
    assert getattr(error, "cycle", None) is None


def test_a_lock_that_became_stronger_is_listed_once_where_it_was_asked_for_last() -> None:
    txn = LockManager().new_transaction()
    txn.lock_upgradable(1, b"a")
    txn.lock_exclusive(1, b"b")
    txn.lock_exclusive(1, b"a")
    assert "locks    1:b exclusive, 1:a exclusive\n" in str(txn) + "\n"
    txn.enter()
    txn.lock_exclusive(1, b"c")
    assert str(txn).count("1:a exclusive") == 1
    txn.reset()


def test_intentions_that_nobody_waits_behind_are_not_drawn_where_somebody_waits() -> None:
    with Clockwork() as clockwork:
        manager = clockwork.manager
        manager.name_index(-1, "flights", ["month"])
        january, february = ([(partition_key([month]), EXCLUSIVE)] for month in "12")
        one, two = manager.new_transaction(), manager.new_transaction()
        manager.lock_tree(one._locker, -1, january, 0)
        manager.lock_tree(two._locker, -1, february, 0)
        boxes = [box.title for box in lock_graph.graph(manager.graph()).net.boxes]
        assert "flights" in boxes
        clockwork.start(one, lambda: manager.lock_tree(one._locker, -1, february, -1))
        view = lock_graph.graph(manager.graph())
        assert {box.title for box in view.net.boxes if box.key[0] == "lock"} == {
            "flights month=1", "flights month=2"}
        assert view.more == "not drawn: 1 more lock held"
        assert "flights intention exclusive" in str(manager.graph())
        clockwork.do(two, two.exit)
