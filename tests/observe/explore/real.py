"""Writers that take their turns on a real table, in a chosen order.

An exploration keeps a table in memory and runs its writers one by one. Here they run side by side, each in a
thread; what they write to is a folder, a bucket or a catalog, and what they lock is locked in one manager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.locks.core.batch import Batches
from deltanb.locks.core.manager import LockManager
from deltanb.locks.core.modes import JOINED, NONE
from deltanb.locks.core.stack import Locker
from deltanb.locks.core.transaction import Transaction
from deltanb.locks.core.waits import exploring
from deltanb.log.snapshot import Snapshot
from deltanb.observe.explore.places import ExploredTable
from deltanb.observe.turns import Runner, Stop
from deltanb.table.table import DeltaTable
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.group import GroupCommitted, Ratify
from deltanb.transaction.steps import Committed, PutIfAbsent, Step

Ended = tuple[Any, ...]


class _Run:
    """What an explored table asks of its run."""

    program = SimpleNamespace(is_precise=True)
    is_plain = False
    turn = None

    def __init__(self) -> None:
        self.is_due, self.calls, self.commits = True, [], 0
        self.pause: Callable[[], None] = lambda: None

    def looks(self) -> None:
        pass

    def stop(self) -> None:
        """Wait for the next turn."""
        self.is_due = False
        self.pause()


_here: ContextVar[_Run | None] = ContextVar("_here", default=None)
"""The run of the writer whose thread this is."""


class _Transaction(Transaction):
    __slots__ = ()

    def operation(self) -> Any:
        run = _here.get()
        if run is not None and self._locker.call is None and not run.calls:
            run.is_due = True
        return super().operation()


class _Batches(Batches):
    manager: Manager

    def lock_each(self, locker: Locker, requests: Any, timeout: float, is_try: bool = False) -> Any:
        self.manager.stop(locker, requests)
        return super().lock_each(locker, requests, timeout, is_try)


class Manager(LockManager):
    """A lock manager in which a writer waits for its turn before it asks for what it does not have."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._table.quick = None
        self._batches = _Batches(self._table, self._waits, self._deadlines, self._refused)
        self._batches.manager = self

    def new_transaction(self, name: str | None = None) -> Transaction:
        return _Transaction(self, name) if exploring.get() is None else super().new_transaction(name)

    def lock(self, locker: Locker, index_id: int, key: bytes, requested: int, *args: Any) -> Any:
        self.stop(locker, [((index_id, key), requested)])
        return super().lock(locker, index_id, key, requested, *args)

    def stop(self, locker: Locker, requests: Any) -> None:
        run = _here.get()
        has = [(self.held(locker, name), mode) for name, mode in requests]
        if run is not None and any(held == NONE or JOINED[held][mode] != held for held, mode in has):
            run.stop()


class _Log(DeltaLog):
    def __init__(self, of: DeltaLog, run: _Run) -> None:
        super().__init__(of.store, of.commits, of._makes_committer, of.name)
        self.run = run

    def update(self) -> Snapshot:
        if self.run.is_due:
            self.run.stop()
        return super().update()


def run_order(table: DeltaTable, works: Mapping[str, Any], order: Sequence[str]) -> Ended:
    """How the writers end, and the rows then; ``order`` has each turn."""
    turns = iter(order)
    return _run(table, works, lambda able: next(turns))


def a_drawn_order(table: DeltaTable, works: Mapping[str, Any], lots: Random) -> Ended:
    """How an order ends whose turns are drawn."""
    return _run(table, works, lots.choice)


def every_order(make: Callable[[], DeltaTable], works: Mapping[str, Any]) -> Iterator[Ended]:
    """How every order ends that there is, each on a table of its own."""
    yield from _every(lambda choose: _run(make(), works, choose))


def _every(run: Callable[[Callable[[list[str]], str]], Ended]) -> Iterator[Ended]:
    prefix: list[int] = []
    while True:
        taken: list[tuple[int, int]] = []
        yield run(partial(_choose, prefix, taken))
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        prefix = [choice for choice, _ in taken]
        prefix[-1] += 1


def _choose(prefix: list[int], taken: list[tuple[int, int]], able: list[str]) -> str:
    choice = prefix[len(taken)] if len(taken) < len(prefix) else 0
    taken.append((choice, len(able)))
    return able[choice]


def _run(table: DeltaTable, works: Mapping[str, Any], choose: Callable[[list[str]], str]) -> Ended:
    runners: dict[str, Runner] = {}
    runs = {name: _Run() for name in works}
    for name, work in works.items():
        log = _Log(table.log, runs[name])
        _here.set(runs[name])
        runner = Runner(name, partial(work, ExploredTable(log)), partial(_judge, log, runs[name]))
        runs[name].pause = runner._give_the_turn_on
        runners[name] = runner
    _here.set(None)
    _take_turns(runners, choose)
    ended = tuple((runs[name].commits, _kind(_error(runners[name]))) for name in works)
    return ended, rows_of(table.to_arrow())


def _take_turns(runners: Mapping[str, Runner], choose: Callable[[list[str]], str]) -> None:
    try:
        for runner in runners.values():
            runner.advance()
        while able := _able(runners):
            chosen = runners[choose(able)]
            if chosen.is_blocked:
                chosen.time_out()
            chosen.advance()
    finally:
        for runner in runners.values():
            runner.stop()


def _able(runners: Mapping[str, Runner]) -> list[str]:
    """Those that can go on: who waits for a lock only if nobody else can, who has a limit before others."""
    left = {name: runner for name, runner in runners.items() if not runner.done}
    going = [name for name, runner in left.items() if not runner.is_blocked]
    limited = [name for name, runner in left.items() if (waiter := runner._waiter) and not waiter.is_endless]
    return going or limited or list(left)


def _error(runner: Runner) -> BaseException | None:
    return runner.outcome if isinstance(runner.outcome, BaseException) else None


def run_transactions(catalog: dn.Catalog, names: Sequence[str], works: Mapping[str, Any],
                     order: Sequence[str]) -> Ended:
    """How writers of a catalog end, which have a transaction each, and the rows of the tables then."""
    turns = iter(order)
    return _transact(catalog, names, works, lambda able: next(turns))


def every_order_of_transactions(
    make: Callable[[], dn.Catalog], names: Sequence[str], works: Mapping[str, Any]
) -> Iterator[Ended]:
    """How every order of their turns ends, each on a catalog of its own."""
    yield from _every(lambda choose: _transact(make(), names, works, choose))


def _transact(
    catalog: dn.Catalog, names: Sequence[str], works: Mapping[str, Any], choose: Callable[[list[str]], str]
) -> Ended:
    runners: dict[str, Runner] = {}
    commits, runs = dict.fromkeys(works, 0), {name: _Run() for name in works}

    def judge(name: str, txn: Any, step: Step) -> Stop | None:
        if getattr(txn, "catalog", None) is not catalog:
            return None
        commits[name] += isinstance(step, GroupCommitted)
        return Stop(txn.txn_id, waits=isinstance(step, Ratify))

    def work(name: str) -> None:
        runners[name]._give_the_turn_on()
        with catalog.transaction() as txn:
            works[name](txn)

    for name in works:
        _here.set(runs[name])
        runners[name] = Runner(name, partial(work, name), partial(judge, name))
        runs[name].pause = runners[name]._give_the_turn_on
    _here.set(None)
    _take_turns(runners, choose)
    rows = tuple(rows_of(catalog.table(name).to_arrow()) for name in names)
    return tuple((commits[name], _kind(_error(runners[name]))) for name in works), rows


def _judge(log: _Log, run: _Run, txn: Any, step: Step) -> Stop | None:
    if getattr(txn, "log", None) is not log:
        return None
    run.commits += isinstance(step, Committed)
    if isinstance(step, PutIfAbsent):
        run.is_due = False
    return Stop(txn.txn_id, waits=isinstance(step, PutIfAbsent))


def ended(outcome: Any, names: Sequence[str]) -> Ended:
    """The same of an explored outcome."""
    rows = outcome.rows
    rows = tuple(map(rows_of, rows.values())) if isinstance(rows, dict) else rows_of(rows)
    return tuple((outcome.commits[name], _kind(outcome.errors.get(name))) for name in names), rows


def _kind(error: BaseException | None) -> Any:
    if error is None:
        return None
    rule = getattr(getattr(error, "conflict", None), "rule", None)
    return error.kind if isinstance(error, DeltaError) else type(error).__name__, rule


def rows_of(rows: Any) -> tuple[str, ...]:
    return tuple(sorted(map(str, rows.to_pylist())))
