"""A Ctrl-C at any line under the manager's mutex: no lock and no request is left of which nobody knows.

Each scenario is set up anew for every line that its call runs there, and interrupted before that line. Lines
that only take or give back the mutex are left out, and ``try:``: nothing looks for signals there.
A usual run has a part of the twelve thousand interrupts, ``--thorough`` has all.
"""

from __future__ import annotations

import itertools
import linecache
import pkgutil
import random
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import deltanb.locks.core.manager as module
from deltanb import locks
from deltanb.errors import LockFailure
from deltanb.locks import LockManager, LockResult, Transaction
from deltanb.locks.core import repair
from deltanb.locks.core.granules import CONVERT
from deltanb.locks.core.keys import partition_key, table_key
from deltanb.locks.core.lock_table import ALONE, FEW, Lock, Waiter
from deltanb.locks.core.modes import EXCLUSIVE, IS, IX, NONE, SHARED, TOGETHER, UPGRADABLE

CORE = str(Path(module.__file__).parent)
A, B, C, D = (1, b"a"), (1, b"b"), (1, b"c"), (1, b"d")
TABLE = -5
WHOLE = (TABLE, table_key())
ONE, TWO, THREE = (partition_key([value]) for value in "123")


class Log:
    """A participant that takes every change."""

    def undo(self, change: Any) -> None:
        """There is nothing to undo."""

    def commit(self, changes: Any, durability: Any) -> None:
        """There is nothing to make permanent."""


class World:
    """A manager, a transaction whose call is interrupted, and others that wait without threads."""

    def __init__(self, **settings: Any) -> None:
        self.parked: Callable[[], bool] = lambda: False
        self.manager = LockManager("UNCHECKED", **settings, park=lambda waiter, timeout: self.parked())
        self.me = self.manager.new_transaction()
        self.others: list[Transaction] = []
        self.signals: dict[Waiter, threading.Lock] = {}

    def other(self) -> Transaction:
        self.others.append(self.manager.new_transaction())
        return self.others[-1]

    def waits(self, name: tuple[int, bytes], mode: int, txn: Transaction | None = None) -> Transaction:
        txn = txn or self.other()
        waiter = self.manager._table.ask(txn._locker, name, mode)
        assert isinstance(waiter, Waiter)
        signal = waiter.signal = self.signals[waiter] = threading.Lock()
        signal.acquire()
        return txn

    @property
    def held(self) -> dict[Any, int]:
        """What the transaction holds, and how, and what it knows of."""
        locker = self.me._locker
        holds = {name: lock.held_by(locker) for name, lock in self.manager._table.locks.items()}
        return {"holds": {tuple(name): mode for name, mode in holds.items() if mode != NONE},
                "stack": [tuple(lock.name) for lock in locker.entries], "upgrades": dict(locker.upgrades),
                "joined": set(locker.joined)}

    def check(self) -> None:
        """The invariants of the core, of a moment in which nobody is in a call."""
        assert not self.manager._mutex.locked()
        table = self.manager._table
        lockers = [txn._locker for txn in (self.me, *self.others)]
        lockers += [pending.keeper for pending in self.manager.pending._commits]
        for name, lock in table.locks.items():
            holders = dict(lock.holders())
            assert holders, f"nobody holds {name}"
            assert len(holders) == len(list(lock.holders())), f"{name} has a holder twice"
            for one, other in itertools.permutations(holders, 2):
                assert TOGETHER[holders[one]][holders[other]], f"{holders} of {name} do not go together"
            if not self.manager.is_closed:
                assert set(holders) <= set(lockers)
            queued = list(lock.waiters())
            assert len(set(queued)) == len(queued)
            for waiter in queued:
                assert waiter in table.waiting and waiter.locker.waiter is waiter and waiter.result is None
            if isinstance(lock, Lock):
                assert lock.owner is not None or not lock.owners, "nobody owns it, and somebody waits to"
                first = lock.readers[0] if lock.readers else None
                assert first is None or lock.is_exclusive or (
                    first.step is ALONE and first.locker is lock.owner and lock.shared)
            else:
                assert not lock.queue or not lock.fits(queued[0].locker, queued[0].requested)
                assert all(not lock.fits(w.locker, w.requested) for w in queued if w.step is CONVERT)
        if not self.manager.is_closed:
            for locker in lockers:
                waiter = locker.waiter  # who waits to be alone owns the lock, and has not got it yet
                half = None if waiter is None or waiter.held else waiter.lock
                assert {id(lock) for lock in locker.entries} == {
                    id(lock) for lock in table.locks.values()
                    if lock.held_by(locker) != NONE and lock is not half}
        for locker in lockers:
            if locker.is_plain:
                assert not locker.upgrades and not locker.joined
                assert all(isinstance(lock, Lock) for lock in locker.entries)
            assert all(at < len(locker.entries) for at in (*locker.upgrades, *locker.joined))
            assert locker.floor <= len(locker.entries)
            assert (locker.waiter is None) or locker.waiter in table.waiting
        assert all(waiter in waiter.lock.waiters() for waiter in table.waiting)
        for waiter, signal in self.signals.items():
            assert signal.locked() == (waiter.result is None), "who waits is told once it is decided"
        assert self.me._locker.waiter is None and self.me._locker.call is None

    def empty(self) -> None:
        """Give all back; then anybody can lock everything."""
        for txn in self.others:
            txn.interrupt()
        self.manager.flush()
        for txn in (self.me, *self.others):
            txn.reset()
        table = self.manager._table
        assert not table.waiting and self.manager.num_pending == 0
        if not self.manager.is_closed:
            assert not table.locks
            last = self.manager.new_transaction()
            for name in (A, B, C, D):
                assert last.try_lock_exclusive(*name, 0) is LockResult.ACQUIRED
            self.manager.lock_tree(last._locker, TABLE, [(WHOLE[1], EXCLUSIVE)], 0)
            last.commit()


Call = Callable[[], object]


def under_the_mutex(
    world: World, call: Call, strike: int | None = None
) -> tuple[int, list[dict[str, Any]], str]:
    """Run a call, interrupted before its line of that number.

    Returns:
        How many lines it has run; what the transaction held whenever the mutex was free; where it was
        interrupted.
    """
    lines, states, mutex = 0, [], world.manager._mutex

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(CORE):
            return None if frame.f_code.co_filename.startswith(sys.prefix) else trace
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        is_at_a_glance = frame.f_code is LockManager.lock.__code__
        is_no_step = "mutex:" in text or text == "try:"
        if event == "line" and strike is None and not mutex.locked() and not is_at_a_glance:
            states.append(world.held)
        if event == "line" and (mutex.locked() or is_at_a_glance) and not is_no_step:
            lines += 1
            if lines - 1 == strike:
                file = Path(frame.f_code.co_filename).name
                raise KeyboardInterrupt(f"{file}:{frame.f_lineno}: {text}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt as interrupt:
        return lines, states, str(interrupt)
    except LockFailure:
        pass
    finally:
        sys.settrace(before)
    return lines, [*states, world.held], ""


def owners(world: World, name: tuple[int, bytes]) -> None:
    """Others wait for what a transaction owns."""
    for mode in (EXCLUSIVE, UPGRADABLE, EXCLUSIVE):
        world.waits(name, mode)


def readers(world: World, name: tuple[int, bytes]) -> None:
    """Others wait for what a transaction has alone."""
    for mode in (SHARED, EXCLUSIVE, SHARED):
        world.waits(name, mode)


def behind_a_writer(world: World, name: tuple[int, bytes]) -> None:
    """Others wait for what a transaction shares with many: an owner to be alone, and those behind it."""
    for _ in range(FEW + 1):
        world.other().lock_shared(*name)
    for mode in (EXCLUSIVE, SHARED, UPGRADABLE):
        world.waits(name, mode)


def free(world: World) -> Call:
    return lambda: world.me.lock_upgradable(1, memoryview(b"a"))


def recorded(mode: str) -> Callable[[World], Call]:
    return lambda world: lambda: getattr(world.me, f"lock_{mode}")(*A)


def upgrade_of_the_last(world: World) -> Call:
    world.me.lock_upgradable(*A)
    return lambda: world.me.lock_exclusive(*A)


def upgrade_of_one_below(world: World) -> Call:
    world.me.lock_shared(*A)
    world.me.lock_shared(*B)
    return lambda: world.me.lock_exclusive(*A)


def refused(world: World) -> Call:
    world.me.lock_shared(*A)
    world.other().lock_upgradable(*A)
    return lambda: world.me.lock_exclusive(*A, 0)


def timed_out_before_others(world: World) -> Call:
    """Who waits behind it goes on when it gives up."""
    world.other().lock_shared(*A)

    def parked() -> bool:
        world.waits(A, SHARED)
        world.waits(A, UPGRADABLE)
        return False

    world.parked = parked
    return lambda: world.me.lock_exclusive(*A, 1)


def granted(mode: str) -> Callable[[World], Call]:
    def scenario(world: World) -> Call:
        holder = world.other()
        holder.lock_exclusive(*A)
        world.me.lock_shared(*B)

        def parked() -> bool:
            holder.commit()
            return True

        world.parked = parked
        return lambda: getattr(world.me, f"lock_{mode}")(*A)
    return scenario


def many_free(world: World) -> Call:
    world.me.lock_shared(*D)
    return lambda: world.me.lock_many([A, B, C], "shared")


def many_of_which_one_is_held(world: World) -> Call:
    world.me.lock_upgradable(*B)
    world.me.lock_shared(*D)
    world.other().lock_exclusive(*C)
    return lambda: world.me.lock_many([A, B, C, D], "exclusive", 0)


def unlock(world: World) -> Call:
    world.me.lock_upgradable(*B)
    world.me.lock_upgradable(*A)
    owners(world, A)
    owners(world, B)
    return world.me.unlock


def unlock_what_is_shared(world: World) -> Call:
    world.me.lock_shared(*A)
    behind_a_writer(world, A)
    return world.me.unlock


def unlock_the_last_share(world: World) -> Call:
    world.me.lock_shared(*A)
    for mode in (EXCLUSIVE, SHARED, UPGRADABLE):
        world.waits(A, mode)
    return world.me.unlock


def unlock_plain(world: World) -> Call:
    world.me.lock_upgradable(*A)
    return world.me.unlock


def unlock_a_group(world: World) -> Call:
    world.me.lock_upgradable(*B)
    world.me.lock_upgradable(*A)
    world.me.unlock_combine()
    owners(world, A)
    owners(world, B)
    return world.me.unlock


def unlock_a_group_to_shared(world: World) -> Call:
    world.me.lock_upgradable(*B)
    world.me.lock_upgradable(*A)
    world.me.unlock_combine()
    owners(world, A)
    owners(world, B)
    return world.me.unlock_to_shared


def combine(world: World) -> Call:
    for name in (A, B):
        world.me.lock_shared(*name)
    return world.me.unlock_combine


def give_back(world: World) -> Call:
    world.me.lock_shared(*B)
    world.me.lock_exclusive(*A)
    readers(world, A)
    return lambda: world.me.give_back(*A)


def give_back_an_upgrade(world: World) -> Call:
    world.me.lock_upgradable(*A)
    world.me.lock_shared(*B)
    world.me.lock_exclusive(*A)
    readers(world, A)
    return lambda: world.me.give_back(*A, UPGRADABLE)


def scoped(end: str) -> Callable[[World], Call]:
    def scenario(world: World) -> Call:
        world.me.lock_upgradable(*A)
        world.me.lock_shared(*C)
        world.me.enter()
        world.me.lock_upgradable(*B)
        world.me.lock_exclusive(*A)
        world.me.lock_shared(*D)
        readers(world, A)
        world.waits(B, EXCLUSIVE)
        return getattr(world.me, end)  # type: ignore[no-any-return]
    return scenario


def outermost(end: str) -> Callable[[World], Call]:
    def scenario(world: World) -> Call:
        for name in (C, B, A):
            world.me.lock_upgradable(*name)
        world.me.lock_exclusive(*B)
        owners(world, A)
        world.waits(B, EXCLUSIVE)
        return getattr(world.me, end)  # type: ignore[no-any-return]
    return scenario


def put_off(world: World) -> Call:
    world.me.durability_mode = "NO_FLUSH"
    world.me.lock_shared(*C)
    world.me.lock_exclusive(*B)
    world.me.lock_upgradable(*A)
    world.me.changed(Log(), "b")
    world.manager.lock_tree(world.me._locker, TABLE, [(ONE, EXCLUSIVE)], 0)
    owners(world, A)
    world.waits(B, SHARED)
    world.waits(WHOLE, SHARED)
    return world.me.commit


def flush(world: World) -> Call:
    put_off(world)()
    return world.manager.flush


def close(world: World) -> Call:
    outermost("commit")(world)
    tree(world, [(ONE, EXCLUSIVE)], world.other())
    tree(world, [(TWO, EXCLUSIVE)], world.me)
    world.waits(WHOLE, SHARED)
    return world.manager.close


def interrupt(world: World) -> Call:
    world.other().lock_shared(*A)
    waits = world.waits(A, EXCLUSIVE)
    for mode in (SHARED, UPGRADABLE, SHARED):
        world.waits(A, mode)
    return waits.interrupt


def tree(world: World, wants: list[tuple[bytes, int]], txn: Transaction, timeout: float = 0) -> object:
    return world.manager.lock_tree(txn._locker, TABLE, wants, timeout)


def tree_free(world: World) -> Call:
    return lambda: tree(world, [(ONE, EXCLUSIVE), (TWO, SHARED)], world.me)


def tree_converted(world: World) -> Call:
    tree(world, [(ONE, SHARED)], world.me)
    tree(world, [(TWO, SHARED)], world.other())
    return lambda: tree(world, [(WHOLE[1], SHARED), (ONE, EXCLUSIVE)], world.me)


def tree_refused(world: World) -> Call:
    tree(world, [(ONE, SHARED)], world.me)
    tree(world, [(TWO, EXCLUSIVE)], world.other())
    return lambda: tree(world, [(ONE, EXCLUSIVE), (TWO, SHARED)], world.me)


def tree_ended(end: str) -> Callable[[World], Call]:
    def scenario(world: World) -> Call:
        tree(world, [(ONE, SHARED)], world.me)
        world.me.enter()
        tree(world, [(ONE, EXCLUSIVE), (TWO, SHARED)], world.me)
        other = world.other()
        tree(world, [(THREE, SHARED)], other)
        for mode in (SHARED, SHARED + IX, IS):
            world.waits(WHOLE, mode)
        return getattr(world.me, end)  # type: ignore[no-any-return]
    return scenario


SCENARIOS: dict[str, Callable[[World], Call]] = {
    "a free lock": free, "a free lock at a glance": recorded("shared"), "an upgrade": upgrade_of_the_last,
    "an upgrade of one below": upgrade_of_one_below, "a refusal": refused,
    "a wait in vain before others": timed_out_before_others,
    **{f"a wait for {mode}": granted(mode) for mode in ("shared", "upgradable", "exclusive")},
    "many that are free": many_free, "many of which one is held": many_of_which_one_is_held,
    "unlock": unlock, "unlock at a glance": unlock_plain,
    "unlock one of many shares": unlock_what_is_shared, "unlock the last share": unlock_the_last_share,
    "unlock a group": unlock_a_group, "unlock a group to shared": unlock_a_group_to_shared,
    "combine": combine, "give back": give_back,
    "give back an upgrade": give_back_an_upgrade,
    **{f"{end} a scope": scoped(end) for end in ("exit", "rollback", "reset", "commit")},
    **{f"{end} all": outermost(end) for end in ("exit", "rollback", "reset", "commit")},
    "put off": put_off, "flush": flush, "close": close, "interrupt": interrupt, "places": tree_free,
    "places held before": tree_converted, "places refused": tree_refused,
    **{f"places, {end}": tree_ended(end) for end in ("exit", "reset", "commit")},
}


def strike(name: str, record: int | None, parts: int = 1) -> None:
    """Interrupt a scenario at one of so many parts of its lines, and look at what it leaves behind."""
    world = World(record=record)
    lines, states, _ = under_the_mutex(world, SCENARIOS[name](world))
    world.check()
    world.empty()
    assert lines
    for at in random.Random(name).sample(range(lines), -(-lines // parts)):
        world = World(record=record)
        call = SCENARIOS[name](world)
        before = world.held
        place = under_the_mutex(world, call, at)[-1]
        assert place, "the same lines run again"
        try:
            world.check()
            assert world.held in (before, *states)
            world.empty()
        except Exception as error:
            raise AssertionError(f"interrupted at {place}") from error


@pytest.mark.parametrize("record", [None, 100])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_ctrl_c_at_any_line_leaves_all_of_a_step_or_nothing(
    name: str, record: int | None, is_thorough: bool
) -> None:
    strike(name, record, 1 if is_thorough else 6)


MENDED = [
    ("lock_table", "unlock a group"), ("lock_table", "put off"), ("lock_table", "exit all"),
    ("batch", "many that are free"), ("manager", "unlock at a glance"), ("waits", "a free lock")]
"""Modules that mend, each with a scenario in which it does."""


def test_every_module_that_mends_has_a_scenario_of_it() -> None:
    names = [one.name for one in pkgutil.walk_packages(locks.__path__, "deltanb.locks.")]
    importers = {name for name in names if getattr(import_module(name), "mend", None) is repair.mend}
    assert importers - {repair.__name__} == {f"deltanb.locks.core.{module}" for module, _ in MENDED}


@pytest.mark.parametrize(("module", "name"), MENDED)
def test_where_nothing_is_mended_it_is_noticed(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"deltanb.locks.core.{module}.mend", lambda *_, **named: None)
    with pytest.raises(AssertionError, match="interrupted at"):
        strike(name, None)
