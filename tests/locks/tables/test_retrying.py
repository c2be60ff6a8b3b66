"""``dn.retry``: work done again after a conflict, optimistically at first, then under locks."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.locks.core import keys
from deltanb.locks.tables import retrying
from deltanb.locks.tables.log import index_of
from deltanb.options import options
from tests.helpers import tree
from tests.locks.core.test_threads import Started
from tests.patience import PATIENCE

FEW = 5


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "t", {"n": [0]})


def number(table: dn.DeltaTable) -> int:
    (value,) = table.to_arrow()["n"].to_pylist()
    return int(value)


def increased(table: dn.DeltaTable) -> None:
    table.update({"n": "n + 1"})


class Loses:
    """Work that reads, lets a rival commit as often as it is told to, and then commits what it has read."""

    def __init__(self, table: dn.DeltaTable, times: int, rival: Callable[[], object] | None = None) -> None:
        self.table, self.left, self.calls = table, times, 0
        self.rival = rival or (lambda: increased(table))

    def __call__(self) -> int:
        self.calls += 1
        with self.table.transaction() as txn:
            value = number(txn)
            if self.left:
                self.left -= 1
                self.rival()
            txn.update({"n": str(value + 100)})
        assert txn.committed is not None
        return txn.committed


# -- attempts and pauses ---------------------------------------------------------------------------


def test_work_is_done_anew_until_it_is_committed(table: dn.DeltaTable) -> None:
    pauses: list[float] = []
    work = Loses(table, 3)
    assert dn.retry(work, pause=6, sleep=pauses.append, jitter=lambda: 0.5) == table.version == 4
    assert work.calls == 4 and number(table) == 103
    assert pauses == [3, 1.5, 1], "shorter from one to the next: who has waited longest is the first"


def test_the_conflict_of_the_last_attempt_is_raised_with_a_note(table: dn.DeltaTable) -> None:
    pauses: list[float] = []
    times = iter([100.0, 107.5])
    work = Loses(table, 9)
    files = tree(Path(table.path))
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        dn.retry(work, 3, sleep=pauses.append, clock=lambda: next(times))
    assert caught.value.__notes__[-1] == "retry: gave up after 3 attempts over 7.5 s"
    assert caught.value.conflict is not None
    assert work.calls == 3 and len(pauses) == 2 and number(table) == 3
    data = {name for name in tree(Path(table.path)) - files if "_delta_log" not in name}
    assert len(data) == 3, "of the rivals alone"


def test_one_attempt_is_none_too_many(table: dn.DeltaTable) -> None:
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        dn.retry(Loses(table, 1), 1, sleep=lambda seconds: pytest.fail("it paused"), clock=lambda: 0)
    assert caught.value.__notes__[-1] == "retry: gave up after 1 attempt over 0 ms"
    assert dn.retry(Loses(table, 0), 1) == 2


def test_no_pause_asks_for_none(table: dn.DeltaTable) -> None:
    assert dn.retry(Loses(table, 2), pause=0, sleep=lambda seconds: pytest.fail("it paused")) == 3


def test_each_attempt_that_failed_is_logged(
    table: dn.DeltaTable, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "deltanb.locks"):
        dn.retry(Loses(table, 2), 7, pause=0)
    messages = [record.getMessage() for record in caplog.records if record.name == "deltanb.locks"]
    assert [text[:14] for text in messages] == ["Attempt 1 of 7", "Attempt 2 of 7"]


@pytest.mark.parametrize("error", [errors.InvalidArgument("no"), errors.LockTimeoutError("late"),
                                   KeyboardInterrupt(), ValueError("mine")])
@pytest.mark.parametrize("keep_locks", [False, True])
def test_other_errors_are_raised_at_once(error: BaseException, keep_locks: bool) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        dn.retry(work, keep_locks=keep_locks)
    assert caught.value is error and calls == [1] and not getattr(error, "__notes__", [])


@pytest.mark.parametrize(("settings", "message"), [
    ({"work": None}, "takes a function"),
    ({"work": 7}, "takes a function"),
    ({"attempts": 0}, "attempts=0 is not a whole number, 1 or more"),
    ({"attempts": 2.0}, "attempts=2.0"),
    ({"attempts": True}, "attempts=True"),
    ({"after": -1}, "after=-1 is not a whole number, 0 or more"),
    ({"after": None}, "after=None"),
    ({"pause": -0.1}, "pause=-0.1"),
    ({"pause": float("nan")}, "pause=nan"),
    ({"pause": "1"}, "pause='1'"),
    ({"pause": True}, "pause=True"),
    ({"manager": object()}, "a lock manager"),
])
def test_wrong_arguments_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    calls: list[int] = []
    with pytest.raises(errors.InvalidArgument, match=message):
        dn.retry(**{"work": lambda: calls.append(1), **settings})
    assert not calls


# -- what the work is ------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_locks", [False, True])
def test_a_transaction_of_a_catalog(tmp_path: Path, keep_locks: bool) -> None:
    pytest.importorskip("sqlalchemy")
    manager = LockManager()
    with dn.Catalog(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        one, two = (catalog.create_table(f"ns.{name}", {"n": [0]}) for name in "ab")
        rivals = [one, two, one]

        def work() -> None:
            with catalog.transaction() as txn:
                total = sum(number(txn.table(f"ns.{name}")) for name in "ab")
                if rivals:
                    increased(rivals.pop())
                txn.table("ns.a").update({"n": str(total)})
                txn.table("ns.b").update({"n": "n + 10"})

        dn.retry(work, pause=0, keep_locks=keep_locks, after=1, manager=manager)
        assert (number(one), number(two), rivals) == (3, 11, [])
    assert manager.num_locks_held == 0


@pytest.mark.parametrize("keep_locks", [False, True])
def test_a_transaction_under_locks(table: dn.DeltaTable, keep_locks: bool) -> None:
    mine, rivals = LockManager(), [1, 2]

    def work() -> None:
        with mine.new_transaction() as txn:
            value = number(txn.table(table))
            if rivals:
                rivals.pop()
                increased(table)
            txn.table(table).update({"n": str(value + 100)})
            txn.commit()

    dn.retry(work, pause=0, keep_locks=keep_locks)
    assert number(table) == 102 and mine.num_locks_held == 0


def test_transactions_that_wait_for_each_other(table: dn.DeltaTable) -> None:
    """The one that is refused begins again, and finds what the other one has done."""
    manager, met = LockManager(lock_timeout=PATIENCE), threading.Barrier(2, timeout=PATIENCE)
    calls = {1: 0, 2: 0}

    def work(me: int) -> None:
        calls[me] += 1
        with manager.new_transaction() as txn:
            txn.lock_exclusive(me, b"k")
            if calls[me] == 1:
                met.wait()
            txn.lock_exclusive(3 - me, b"k")
            increased(txn.table(table))
            txn.commit()

    started = [Started(lambda me=me: dn.retry(lambda: work(me), pause=0)) for me in (1, 2)]
    for one in started:
        one.result()
    assert sorted(calls.values()) == [1, 2] and number(table) == 2 and manager.num_locks_held == 0


# -- keep_locks ------------------------------------------------------------------------------------


def until(is_so: Callable[[], bool], thread: threading.Thread) -> None:
    while not is_so():
        assert thread.is_alive()


class Shorts:
    """Short transactions on threads of their own, of which each commits, or waits for whoever is alone."""

    def __init__(self, table: dn.DeltaTable, manager: LockManager) -> None:
        self.table, self.manager = table, manager
        self.started: list[Started] = []
        self.waited = 0

    def __call__(self) -> None:
        one = Started(lambda: dn.retry(lambda: increased(self.table), keep_locks=True, pause=0,
                                       manager=self.manager))
        self.started.append(one)
        while one.thread.is_alive() and not self.manager.num_waiting:
            pass
        self.waited += one.thread.is_alive()


def test_who_loses_for_ever_against_short_ones_wins_under_locks(table: dn.DeltaTable) -> None:
    manager = LockManager()
    shorts = Shorts(table, manager)
    work = Loses(table, 100, shorts)
    assert dn.retry(work, keep_locks=True, after=3, manager=manager, pause=0) == 4
    assert work.calls == 4 and shorts.waited == 1
    for one in shorts.started:
        one.result()
    assert number(table) == 104, "three before it, its own, and the one that has waited"
    assert manager.num_locks_held == manager.num_waiting == 0


def test_without_locks_it_loses_for_ever(table: dn.DeltaTable) -> None:
    """The control."""
    manager = LockManager()
    work = Loses(table, 100, Shorts(table, manager))
    with pytest.raises(errors.DeltaConcurrentModificationException):
        dn.retry(work, 8, pause=0)
    assert work.calls == 8 and number(table) == 8


def test_who_is_alone_is_so_on_every_table_it_has_met(tmp_path: Path, table: dn.DeltaTable) -> None:
    other = dn.create(tmp_path / "other", {"n": [0]})
    manager = LockManager()
    held: list[list[str]] = []
    loses = Loses(table, 2)

    def work() -> None:
        held.append(sorted(" ".join(mode for _, mode in state.holders) for state in manager.locks()))
        increased(other)
        loses()

    dn.retry(work, keep_locks=True, after=1, manager=manager, pause=0)
    assert held == [[], ["exclusive", "exclusive"], ["exclusive", "exclusive"]]
    assert number(other) == 3 and manager.num_locks_held == 0


def test_who_is_not_alone_keeps_nobody_from_committing(table: dn.DeltaTable) -> None:
    manager = LockManager()
    held: list[str] = []

    def watched() -> int:
        version = table.append({"n": [1]})
        held.extend(mode for state in manager.locks() for _, mode in state.holders)
        return version

    assert dn.retry(watched, keep_locks=True, manager=manager) == 1
    assert held == ["intention exclusive"] and manager.num_locks_held == 0


def test_two_who_are_alone_and_meet_each_others_tables(tmp_path: Path, table: dn.DeltaTable) -> None:
    """Each holds its own table and commits to the other one's: one is refused, and begins again with both."""
    tables = [table, dn.create(tmp_path / "other", {"n": [0]})]
    manager, met = LockManager(), threading.Barrier(2, timeout=PATIENCE)
    calls = [0, 0]

    def work(me: int) -> None:
        calls[me] += 1
        if calls[me] == 1:
            Loses(tables[me], 1)()
        if calls[me] == 2:
            met.wait()
        increased(tables[1 - me])

    started = [Started(lambda me=me: dn.retry(lambda: work(me), keep_locks=True, after=1, pause=0,
                                              manager=manager)) for me in (0, 1)]
    for one in started:
        one.result()
    assert sorted(calls) == [2, 3] and [number(each) for each in tables] == [2, 2]
    assert manager.num_locks_held == manager.num_waiting == 0
    for each in tables:
        named = {action.path for version in range(each.version + 1)
                 for action in each.log.read_commit(version) if hasattr(action, "path")}
        assert {name for name in tree(Path(each.path)) if name.endswith(".parquet")} == named


def test_locks_are_released_whatever_the_work_ends_with(table: dn.DeltaTable) -> None:
    manager = LockManager()

    def work() -> None:
        increased(table)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dn.retry(work, keep_locks=True, manager=manager)
    assert manager.num_locks_held == 0 and number(table) == 1


def test_transactions_of_the_same_manager_are_kept_apart_from_it(table: dn.DeltaTable) -> None:
    manager = LockManager(lock_timeout=0)
    txn = manager.new_transaction()
    loses = Loses(table, 1)

    def work() -> None:
        if loses.calls:
            with pytest.raises(errors.LockTimeoutError):
                txn.table(table).to_arrow()
        loses()

    dn.retry(work, keep_locks=True, after=1, manager=manager, pause=0)
    assert number(txn.table(table)) == 101
    index_id = index_of(manager, table.log)
    assert txn.lock_check(index_id, keys.table_key()) == "OWNED_UPGRADABLE"


def test_all_calls_share_a_manager_and_a_forked_process_has_its_own(table: dn.DeltaTable) -> None:
    dn.retry(lambda: increased(table), keep_locks=True)
    shared = retrying._manager()
    dn.retry(lambda: increased(table), keep_locks=True)
    assert retrying._manager() is shared and shared.num_locks_held == 0
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            dn.retry(Loses(table, 4), keep_locks=True, after=1, pause=0)
            code = 0 if retrying._manager() is not shared else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert number(table) == 106 and retrying._manager() is shared


def elsewhere(work: object) -> None:
    """Do some work as another process would: without locks."""
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_transactions_of_the_same_manager_do_not_wait_for_their_keeper(tmp_path: Path) -> None:
    """Before so many conflicts as ``after`` says, and after them."""
    manager, rivals = LockManager(lock_timeout=0), iter(range(3))
    table = dn.create(tmp_path / "ducks", {"coins": [1]})

    def work() -> None:
        with manager.new_transaction() as txn:
            txn.table(table).update({"coins": "coins + 1"})
            if next(rivals, None) is not None:
                elsewhere(lambda: table.update({"coins": "coins + 10"}))
            txn.commit()

    dn.retry(work, keep_locks=True, after=1, manager=manager, pause=0)
    assert table.to_arrow()["coins"].to_pylist() == [32] and manager.num_locks_held == 0


def test_threads_that_come_first_together_share_one_manager() -> None:
    managers: list[LockManager] = []
    threads = [threading.Thread(target=lambda: managers.append(retrying._manager())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(manager) for manager in managers}) == 1


def test_a_thread_with_the_context_of_the_work_leaves_no_lock_behind(table: dn.DeltaTable) -> None:
    manager = LockManager()
    contexts: list[Context] = []
    dn.retry(lambda: contexts.append(copy_context()), keep_locks=True, manager=manager)
    late = threading.Thread(target=contexts[0].run, args=(increased, table))
    late.start()
    late.join(PATIENCE)
    assert number(table) == 1 and manager.num_locks_held == 0
