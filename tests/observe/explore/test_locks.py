"""Exploring writers under locks: what it finds is what running all orders finds, with real managers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError
from deltanb.testing import MemoryStore
from tests.examples import first
from tests.observe.explore.drawn import ROWS, Work, copy
from tests.observe.explore.real import Manager, a_drawn_order, ended, every_order, run_order

Draw = Callable[[Random, Manager], Work]


def table(**settings: Any) -> dn.DeltaTable:
    return dn.create(MemoryStore(), ROWS, **settings)


def change(lots: Random) -> Work:
    row = lots.randrange(1, 4)
    return lots.choice([
        lambda t: t.update({"n": "n + 1"}, f"id = {row}"), lambda t: t.delete(f"id = {row}"),
        lambda t: t.append({"id": [row + 3], "n": [row]})])


def under_keys(lots: Random, manager: Manager) -> Work:
    """Names that writers agree on, in whatever order, around what they do to the table."""
    names = lots.sample([b"a", b"b"], lots.choice([1, 2, 2, 2]))
    modes = [lots.choice(["shared", "upgradable", "exclusive", "exclusive"]) for _ in names]
    part, is_released = change(lots), lots.random() < .3

    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            for name, mode in zip(names, modes, strict=True):
                getattr(txn, f"lock_{mode}")(1, name)
            if is_released and modes[-1] != "exclusive":
                txn.unlock()
            part(t)

    return work


def in_one_transaction(lots: Random, manager: Manager) -> Work:
    """Statements of the table, which lock what they read and write."""
    parts = [lots.choice([change, copy])(lots) for _ in range(lots.choice([1, 2]))]
    mode = lots.choice(["UPGRADABLE_READ", "REPEATABLE_READ", "READ_COMMITTED"])

    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            txn.lock_mode = mode
            locked = txn.table(t)
            for part in parts:
                part(locked)
            txn.commit()

    return work


def in_scopes(lots: Random, manager: Manager) -> Work:
    """A scope that is undone or kept, and something after it."""
    inner, outer, is_undone = change(lots), change(lots), lots.random() < .5

    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            locked = txn.table(t)
            with txn.scope():
                inner(locked)
                if is_undone:
                    txn.rollback()
            outer(locked)
            txn.commit()

    return work


def without_a_wait(lots: Random, manager: Manager) -> Work:
    name, part, other = lots.choice([b"a", b"b"]), change(lots), change(lots)

    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            is_free = txn.try_lock_exclusive(1, name, 0).is_held
            (part if is_free else other)(t)

    return work


def several(lots: Random, manager: Manager) -> Work:
    names, part = [(1, name) for name in lots.sample([b"a", b"b", b"c"], 2)], change(lots)

    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            txn.lock_many(names, lots_mode)
            part(t)

    lots_mode = lots.choice(["shared", "exclusive"])
    return work


def again(lots: Random, manager: Manager) -> Work:
    part, after = change(lots), lots.choice([0, 1])
    return lambda t: dn.retry(lambda: part(t), attempts=2, keep_locks=True, after=after, manager=manager)


def no_locks(lots: Random, manager: Manager) -> Work:
    return lots.choice([change, copy])(lots)


THEMES: list[list[Draw]] = [
    [under_keys, under_keys, without_a_wait, several], [in_one_transaction, in_scopes, again, no_locks],
    [under_keys, in_one_transaction, without_a_wait, no_locks]]
MANY = 150
"""Orders up to which all of them are run; of more, so many are drawn as :data:`DRAWN` says."""
DRAWN = 20


def program(seed: int) -> tuple[dict[str, Any], dict[str, Work]]:
    """Settings of a table, and writers of it that lock with one manager, drawn by a seed."""
    lots = Random(seed)
    manager = Manager(lots.choice(["STRICT", "LENIENT", "UNCHECKED"]), lots.choice([1.0, None]),
                      lots.choice(["enqueue", "enqueue", "timeout"]))
    settings: dict[str, Any] = {"properties": {
        "delta.enableDeletionVectors": lots.choice(["true", "false"])}}
    if lots.random() < .5:
        settings["partition_by"] = ["id"]
    num_writers = lots.choice([2, 2, 3])
    kinds = lots.choice(THEMES)
    return settings, {name: lots.choice(kinds)(lots, manager) for name in ("ann", "ben", "cid")[:num_writers]}


@pytest.mark.parametrize("seed", first(8, 300))
def test_it_finds_what_running_all_orders_finds(seed: int) -> None:
    settings, works = program(seed)
    explored = dn.explore(table(**settings), works)
    assert not explored.left_out
    ends = Counter({ended(one, list(works)): one.orders for one in explored.outcomes})
    if explored.num_orders <= MANY:
        assert Counter(every_order(lambda: table(**settings), works)) == ends
    else:
        lots = Random(seed)
        assert {a_drawn_order(table(**settings), works, lots) for _ in range(DRAWN)} <= set(ends)
    for one in explored.outcomes:
        assert run_order(table(**settings), works, one.order) == ended(one, list(works))


# -- what is said of locks -----------------------------------------------------------------------------


def withdraw(t: Any) -> None:
    balance = t.to_arrow(where="id = 1")["n"][0].as_py()
    if balance >= 6:
        t.update({"n": "n - 6"}, "id = 1")


def by_names(manager: dn.locks.LockManager, *names: bytes, does: Work = withdraw) -> Work:
    def work(t: Any) -> None:
        with manager.new_transaction() as txn:
            for name in names:
                txn.lock_exclusive(1, name)
            does(t)

    return work


def test_a_lock_keeps_what_the_table_alone_does_not() -> None:
    manager = dn.locks.LockManager()
    works = {"ann": withdraw, "ben": withdraw}
    alone = dn.explore(table(), works, "id <> 1 OR n >= 0")
    assert not alone.holds
    *_, last = alone.remedies()
    assert last.holds and last.change.startswith("each writer under a lock")
    work = by_names(manager, b"account")
    locked = dn.explore(table(), {"ann": work, "ben": work}, "id <> 1 OR n >= 0").check()
    assert {one.rows.to_pydict()["n"][0] for one in locked.outcomes if one.rows} == {4}
    orders = [[str(turn) for turn in locked.replay(number) if turn.lock] for number in range(64)]
    assert next(order for order in orders if len(order) == 3) == [
        "ben locks 1:account (exclusive)",
        "ann waits for 1:account (exclusive), held by ben", "ann locks 1:account (exclusive)"]


def test_a_deadlock_is_an_outcome() -> None:
    manager = dn.locks.LockManager()
    explored = dn.explore(
        table(), {"ann": by_names(manager, b"a", b"b"), "ben": by_names(manager, b"b", b"a")})
    failed = {name: one for one in explored.outcomes for name in one.failed}
    assert set(failed) == {"ann", "ben"}
    assert {one.failed[name] for name, one in failed.items()} == {"DEADLOCK_ERROR"}
    error, turns = failed["ben"].errors["ben"], [str(turn) for turn in failed["ben"].turns]
    assert isinstance(error, dn.errors.DeadlockError) and error.guilty and "ann #1" in str(error)
    assert turns[2:4] == ["ann waits for 1:b (exclusive), held by ben",
                          "ben is refused 1:a (exclusive), held by ann: DEADLOCK_ERROR"]
    moment = explored.play(failed["ben"].number).move(4)
    assert moment.turn is not None and moment.turn.sign == "✕" and "1:a (exclusive)" in str(moment)
    assert "is refused" in explored.play(failed["ben"].number).last().turns[3].did


@pytest.mark.parametrize("lock_timeout", [1, None])
def test_who_waits_for_a_lock_that_nobody_releases_gives_up(lock_timeout: float | None) -> None:
    """So does a race: no time passes, and a wait without a limit ends where nobody could end it."""
    manager, left = Manager(lock_timeout=lock_timeout), []

    def leave(t: Any) -> None:
        left.append(manager.new_transaction())
        left[-1].lock_exclusive(1, b"k")

    works = {"ann": leave, "ben": by_names(manager, b"k")}
    explored = dn.explore(table(), works)
    assert [(one.failed, one.orders) for one in explored.outcomes] == [
        ({}, 4), ({"ben": "LOCK_TIMEOUT_ERROR"}, 1)]
    for one in explored.outcomes:
        assert run_order(table(), works, one.order) == ended(one, list(works))
        left[-1].exit()


def test_a_cycle_that_is_searched_for_at_the_end_of_a_wait_is_found_by_each_of_those_in_it() -> None:
    manager = Manager(detect="timeout")
    works = {"ann": by_names(manager, b"a", b"b"), "ben": by_names(manager, b"b", b"a")}
    explored = dn.explore(table(), works)
    assert {str(one.failed) for one in explored.outcomes} == {
        "{}", "{'ann': 'DEADLOCK_ERROR'}", "{'ben': 'DEADLOCK_ERROR'}"}
    for one in explored.outcomes:
        assert run_order(table(), works, one.order) == ended(one, list(works))


def test_requests_of_different_locks_do_not_multiply_runs() -> None:
    manager = dn.locks.LockManager()

    def nothing(t: Any) -> None:
        pass

    def explored(*names: bytes) -> Any:
        works = [by_names(manager, *(name + str(number).encode() for number in range(4)), does=nothing)
                 for name in names]
        return dn.explore(table(), works)

    apart, together = explored(b"a", b"b", b"c"), explored(b"a", b"a", b"a")
    assert apart.num_orders == 34650 and apart.num_states == 5 ** 3 and apart.num_runs < 3 * 10
    assert together.num_states < apart.num_states < together.num_orders


def test_a_manager_that_a_writer_makes_is_its_own() -> None:
    def work(t: Any) -> None:
        manager = dn.locks.LockManager()
        with manager.new_transaction() as txn, manager.new_transaction() as other:
            txn.lock_exclusive(1, b"k")
            assert not other.try_lock_shared(1, b"k").is_held and manager.num_locks_held == 1
            t.append({"id": [9], "n": [9]})

    explored = dn.explore(table(), {"ann": work, "ben": work})
    assert explored.num_orders == 6 and not any(turn.lock for turn in explored.replay(0))


def test_the_manager_of_the_writers_stays_as_it_is() -> None:
    manager = dn.locks.LockManager(record=10)
    with manager.new_transaction() as txn:
        txn.lock_exclusive(1, b"a")
        explored = dn.explore(table(), {"ann": by_names(manager, b"a"), "ben": by_names(manager, b"a")})
        assert not any(one.failed for one in explored.outcomes) and manager.num_locks_held == 1
    assert [event.what for event in manager.timeline().events] == ["granted", "released", "exited"]


@pytest.mark.parametrize("kind", ["rows by key", "retry"])
def test_other_ways_to_lock(kind: str) -> None:
    manager = Manager()

    def by_key(t: Any) -> None:
        with manager.new_transaction() as txn:
            cursor = txn.cursor(t, "id")
            cursor.first()
            cursor.store({**cursor.value(), "n": cursor.value()["n"] + 1})
            txn.commit()

    def again(t: Any) -> None:
        dn.retry(lambda: t.update({"n": "n + 1"}, "id = 1"), keep_locks=True, after=0)

    work = {"rows by key": by_key, "retry": again}[kind]
    explored = dn.explore(table(), {"ann": work, "ben": work})
    assert {one.rows.to_pydict()["n"][0] for one in explored.outcomes if one.rows} == {12}
    assert all(len(one.committed) == 2 for one in explored.outcomes)


def test_an_order_of_each_outcome_comes_out_as_explored_on_a_folder(tmp_path: Any) -> None:
    manager = Manager()

    def move(source: int, target: int) -> Work:
        def work(t: Any) -> None:
            with manager.new_transaction() as txn:
                locked = txn.table(t)
                locked.update({"n": "n - 5"}, f"id = {source}")
                locked.update({"n": "n + 5"}, f"id = {target}")
                txn.commit()

        return work

    def made(number: int) -> dn.DeltaTable:
        return dn.create(tmp_path / str(number), ROWS, partition_by=["id"])

    works = {"ann": move(1, 2), "ben": move(2, 1)}
    explored = dn.explore(made(0), works, "SELECT sum(n) = 60 FROM t").check()
    assert {kind for one in explored.outcomes for kind in one.failed.values()} == {"DEADLOCK_ERROR"}
    for number, one in enumerate(explored.outcomes, 1):
        assert run_order(made(number), works, one.order) == ended(one, list(works))


SHARED, INDEX, ELSEWHERE = dn.locks.LockManager(), dn.testing.MemoryIndex(1), dn.create(MemoryStore(), ROWS)
OUTSIDE, LATER = SHARED.new_transaction(), list[Any]()


def under(does: Callable[[Any, Any], Any], **settings: str) -> Work:
    def work(t: Any) -> None:
        with SHARED.new_transaction() as txn:
            for name, value in settings.items():
                setattr(txn, name, value)
            does(txn, t)
            txn.commit()

    return work


def of_an_earlier_run(t: Any) -> None:
    LATER.append(SHARED.new_transaction())
    LATER[0].lock_shared(1, b"k")


def of_an_earlier_manager(t: Any) -> None:
    LATER.append(dn.locks.LockManager())
    LATER[0].new_transaction()


REFUSED: dict[str, tuple[Work, str]] = {
    "a commit that is put off": (
        under(lambda txn, t: txn.table(t).delete(), durability_mode="NO_FLUSH"),
        "puts a commit off .* take SYNC"),
    "what nobody has committed": (
        under(lambda txn, t: txn.table(t).count(), lock_mode="READ_UNCOMMITTED"),
        "reads what others have not committed"),
    "what is no table": (
        under(lambda txn, t: INDEX.store(txn, "k", "v")), "changes a MemoryIndex under locks"),
    "another table": (
        under(lambda txn, t: txn.table(ELSEWHERE).count()), "not the table that it is called with"),
    "a transaction from outside": (lambda t: OUTSIDE.table(t).count(), "begun outside of it; begin it in"),
    "one of an earlier run": (of_an_earlier_run, "transaction under locks of an earlier run"),
    "a manager of an earlier run": (of_an_earlier_manager, "make it before dn.explore"),
    "all locks": (lambda t: SHARED.locks(), r"asks a lock manager for locks\(\), which depends on what"),
    "a picture": (lambda t: SHARED.graph(), r"for graph\(\)"),
    "how many": (lambda t: SHARED.num_locks_held, "for num_locks_held"),
    "who waits": (under(lambda txn, t: txn.manager.num_waiting), "for num_waiting"),
    "its end": (lambda t: SHARED.close(), "closes a lock manager"),
}
"""What cannot be explored under locks: a writer, and the words for it."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_explored_under_locks_is_refused_by_name(case: str) -> None:
    work, words = REFUSED[case]
    LATER.clear()
    with pytest.raises(IllegalStateError, match=f"writer 'ann' .*{words}"):
        dn.explore(table(), {"ann": work, "ben": withdraw})
    assert SHARED.num_locks_held == 0 and not SHARED.is_closed
