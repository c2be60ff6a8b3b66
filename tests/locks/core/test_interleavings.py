"""Every order of the steps of small transactions, without threads: nothing but the core runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from deltanb.locks.core.deadlock import cycle_behind, cycle_of, in_the_way
from deltanb.locks.core.lock_table import LockTable, Waiter
from deltanb.locks.core.modes import EXCLUSIVE, NONE, SHARED, TOGETHER, UPGRADABLE, LockResult, UpgradeRule
from deltanb.locks.core.stack import Locker
from tests.locks.model import ModelLock, Request, stuck

MODES = (SHARED, UPGRADABLE, EXCLUSIVE)
KEYS = (1, b"a"), (1, b"b")
Script = tuple[tuple[Any, int], ...]
ALL = tuple(((one, first), (other, second)) for one, other in (KEYS, KEYS[::-1])
            for first, second in product(MODES, MODES))
"""Two keys in either order, in any modes."""
UPGRADES = tuple(((KEYS[0], first), (key, second)) for key in KEYS for first, second in product(MODES, MODES))


class World:
    """The core, and the model beside it; transactions are numbers."""

    keys: tuple[Any, ...] = KEYS
    model_of: type[ModelLock] = ModelLock

    def __init__(self, scripts: tuple[Script, ...], rule: str) -> None:
        self.scripts = scripts
        self.table = LockTable(UpgradeRule(rule))
        self.lockers = [Locker(at, 0) for at in range(len(scripts))]
        self.at = [0] * len(scripts)
        self.model = {key: self.model_of() for key in self.keys}
        self.requests: dict[int, Request] = {}

    def moves(self) -> Iterator[tuple[str, int]]:
        """What can happen next: a step of one that runs, or the end of a wait without the lock."""
        for at, locker in enumerate(self.lockers):
            if locker.waiter is not None:
                yield "give up", at
            elif self.at[at] <= len(self.scripts[at]):
                yield "step", at

    def move(self, what: str, at: int) -> None:
        locker, script = self.lockers[at], self.scripts[at]
        if what == "give up":
            assert locker.waiter is not None
            key = locker.waiter.lock.name
            self.table.cancel(locker.waiter, LockResult.TIMED_OUT_LOCK)
            self.granted(self.model[key].cancel(self.requests.pop(at)))
            self.at[at] = len(script)  # all it does now is end
        elif self.at[at] == len(script):
            self.table.give_back(locker, 0)
            for lock in self.model.values():
                self.granted(lock.weaken(at, NONE))
            self.at[at] += 1
        else:
            key, mode = script[self.at[at]]
            answer = self.table.ask(locker, key, mode)
            expected = self.model[key].ask(at, mode, self.table.rule)
            if isinstance(expected, Request):
                assert isinstance(answer, Waiter)
                self.requests[at] = expected
            else:
                assert answer is expected
            self.at[at] += 1

    def granted(self, requests: list[Request]) -> None:
        for request in requests:
            del self.requests[request.txn]

    def check(self) -> None:
        """The core is what the model is, and keeps its promises."""
        for key, model in self.model.items():
            lock = self.table.locks.get(key)
            holders = {} if lock is None else {locker.id: mode for locker, mode in lock.holders()}
            assert holders == model.held
            model.check()
            for one in holders:
                for other in holders:
                    assert one == other or TOGETHER[holders[one]][holders[other]]
            waiting = [] if lock is None else [w.locker.id for w in lock.waiters()]
            assert set(waiting) == {r.txn for r in model.queue} and len(waiting) == len(set(waiting))
            assert lock is None or lock.settle() == []
            assert lock is None or holders
        for locker in self.lockers:
            own = [name for name, lock in self.table.locks.items() if lock.held_by(locker)]
            if locker.waiter is None:
                assert set(own) == {lock.name for lock in locker.entries}
        self.check_circles()

    def check_circles(self) -> None:
        """No circle is missed, none is invented, and each leads from one to the next."""
        hopeless = stuck(self.model)
        waiting = set()
        for waiter in self.table.waiting:
            circle = cycle_of(waiter)
            for one, following in zip(circle, [*circle[1:], *circle[:1]], strict=True):
                assert following.locker in in_the_way(one, {})
            if circle:
                assert circle[0] is waiter and len(set(circle)) == len(circle)
                waiting.add(waiter.locker.id)
            way, behind = cycle_behind(waiter)
            assert bool(behind) == (waiter.locker.id in hopeless)
            assert bool(circle) <= bool(behind) and not set(way) & set(behind)
        assert waiting <= hopeless and bool(waiting) == bool(hopeless)

    def signature(self) -> Any:
        """Two histories that lead to the same are gone on with once."""
        locks = tuple((name, tuple((locker.id, mode) for locker, mode in lock.holders()),
                       tuple((w.locker.id, w.step) for w in lock.waiters()))
                      for name, lock in sorted(self.table.locks.items()))
        return tuple(self.at), locks, tuple(tuple(lock.name for lock in one.entries) for one in self.lockers)


def explore(scripts: tuple[Script, ...], rule: str, world_of: type[World] = World) -> int:
    """Check every state that some order of steps leads to; how many there are."""
    seen: set[Any] = set()
    histories: list[tuple[tuple[str, int], ...]] = [()]
    ended = 0
    while histories:
        history = histories.pop()
        world = world_of(scripts, rule)
        for move in history:
            world.move(*move)
        if (state := world.signature()) in seen:
            continue
        seen.add(state)
        world.check()
        moves = list(world.moves())
        if not moves:
            assert world.table.locks == {} and not world.table.waiting
            ended += 1
        histories += [(*history, move) for move in moves]
    assert ended
    return len(seen)


def drawn(scripts: Iterable[tuple[Script, ...]], parts: int, seed: str) -> list[tuple[Script, ...]]:
    """One of so many parts, chosen by a seed."""
    every = list(scripts)
    return random.Random(seed).sample(every, -(-len(every) // parts))


@pytest.mark.parametrize("rule", list(UpgradeRule))
def test_two_transactions(rule: str) -> None:
    for scripts in combinations_with_replacement((*ALL, *UPGRADES[:9]), 2):
        explore(scripts, rule)


def test_three_transactions_of_chosen_scripts() -> None:
    a, b = KEYS
    chosen = (((a, SHARED), (b, EXCLUSIVE)), ((b, UPGRADABLE), (a, EXCLUSIVE)), ((b, SHARED), (a, SHARED)),
              ((a, SHARED), (a, EXCLUSIVE)))
    states = 0
    for scripts in combinations_with_replacement(chosen, 3):
        states += explore(scripts, "UNCHECKED") + explore(scripts, "STRICT")
    assert states > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(UpgradeRule))
def test_three_transactions(rule: str, is_thorough: bool) -> None:
    """A part of the thousands of triples of scripts, another for each rule; ``--thorough`` has all."""
    every = combinations_with_replacement((*ALL, *UPGRADES[:9]), 3)
    for scripts in drawn(every, 1 if is_thorough else 18, rule):
        explore(scripts, rule)
