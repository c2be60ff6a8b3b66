"""Every order of the steps of small transactions on a table and two partitions, without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations_with_replacement

import pytest

from deltanb.locks.core.batch import tree_of
from deltanb.locks.core.granules import CONVERT, JOIN, Granule
from deltanb.locks.core.keys import partition_key
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.modes import EXCLUSIVE, IX, SHARED, UPGRADABLE, UpgradeRule
from deltanb.locks.core.stack import Locker
from tests.locks.core.test_interleavings import Script, World, drawn, explore
from tests.locks.tree_model import ModelGranule

TABLE, ONE, TWO = b"", partition_key(["1"]), partition_key(["2"])


class TreeWorld(World):
    """Locks on a table and its partitions."""

    keys = (-1, TABLE), (-1, ONE), (-1, TWO)
    model_of = ModelGranule


def script(*calls: Iterable[tuple[bytes, int]]) -> Script:
    """Calls, each of several places; other transactions may come between any two locks."""
    return tuple(request for call in calls for request in tree_of(-1, list(call)))


READS = script([(TABLE, SHARED)])
REWRITES = script([(TABLE, EXCLUSIVE)])
READS_ONE_WRITES_TWO = script([(ONE, SHARED)], [(TWO, EXCLUSIVE)])
READS_TWO_WRITES_ONE = script([(TWO, UPGRADABLE)], [(ONE, EXCLUSIVE)])
READS_ALL_WRITES_ONE = script([(TABLE, SHARED), (ONE, EXCLUSIVE)])
MEANS_TO_WRITE = script([(TABLE, UPGRADABLE)], [(TWO, IX)])
WRITES_THEN_READS_ALL = script([(TWO, EXCLUSIVE)], [(TABLE, SHARED)])
READS_THEN_WRITES = script([(ONE, SHARED)], [(ONE, EXCLUSIVE)])
ADDS = script([(TABLE, IX)], [(TABLE, UPGRADABLE)])
ALL = (READS, REWRITES, READS_ONE_WRITES_TWO, READS_TWO_WRITES_ONE, READS_ALL_WRITES_ONE, MEANS_TO_WRITE,
       WRITES_THEN_READS_ALL, READS_THEN_WRITES, ADDS)


@pytest.mark.parametrize("rule", list(UpgradeRule))
def test_two_transactions(rule: str) -> None:
    assert sum(explore(scripts, rule, TreeWorld) for scripts in combinations_with_replacement(ALL, 2)) > 1_000


@pytest.mark.parametrize("first", range(4))
def test_three_transactions_of_chosen_scripts(first: int) -> None:
    chosen = READS_ONE_WRITES_TWO, WRITES_THEN_READS_ALL, MEANS_TO_WRITE, READS_THEN_WRITES, ADDS
    states = sum(explore((chosen[first], *others), "UNCHECKED", TreeWorld)
                 for others in combinations_with_replacement(chosen[first + 1:], 2))
    assert states > 500


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(UpgradeRule))
def test_three_transactions(rule: str, is_thorough: bool) -> None:
    """A part of all triples of scripts, another for each rule; ``--thorough`` has all."""
    for scripts in drawn(combinations_with_replacement(ALL, 3), 1 if is_thorough else 5, rule):
        explore(scripts, rule, TreeWorld)


# -- faults that it notices ----------------------------------------------------------------------


def let_readers_pass(patch: pytest.MonkeyPatch) -> None:
    def enter(granule: Granule, waiter: Waiter) -> bool:
        if waiter.step is JOIN and granule.fits(waiter.locker, waiter.requested):
            granule._hold(waiter.locker, waiter.requested)
            return True
        return original(granule, waiter)

    original = Granule.enter
    patch.setattr(Granule, "enter", enter)


def let_nobody_convert_before_others(patch: pytest.MonkeyPatch) -> None:
    def enter(granule: Granule, waiter: Waiter) -> bool:
        if granule.queue:
            granule.queue.append(waiter)
            return False
        return original(granule, waiter)

    original = Granule.enter
    patch.setattr(Granule, "enter", enter)


def forget_the_queue(patch: pytest.MonkeyPatch) -> None:
    def in_the_way(granule: Granule, waiter: Waiter, is_short: bool = False) -> list[Locker]:
        step, waiter.step = waiter.step, CONVERT
        blockers = list(original(granule, waiter, is_short))
        waiter.step = step
        return blockers

    original = Granule.in_the_way
    patch.setattr(Granule, "in_the_way", in_the_way)


def count_oneself(patch: pytest.MonkeyPatch) -> None:
    original = Granule.in_the_way
    patch.setattr(Granule, "in_the_way", lambda granule, waiter, is_short=False: [
        *original(granule, waiter, is_short), *(one for one, _ in granule.holders() if one is waiter.locker)])


def wake_only_on_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Granule, "leave", lambda granule, waiter: granule.queue.remove(waiter) or [])


@pytest.mark.parametrize("build_in", [let_readers_pass, let_nobody_convert_before_others, forget_the_queue,
                                      count_oneself, wake_only_on_release])
def test_a_fault_is_noticed(build_in: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        build_in(patch)
        with pytest.raises(AssertionError):
            explore((WRITES_THEN_READS_ALL, READS_THEN_WRITES, REWRITES), "UNCHECKED", TreeWorld)
            explore((script([(ONE, SHARED)], [(TABLE, SHARED)]), script([(ONE, EXCLUSIVE)]),
                     script([(ONE, SHARED)])), "UNCHECKED", TreeWorld)
