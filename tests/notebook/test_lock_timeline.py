"""The timeline of locks as it is shown: lanes of transactions, bands of modes, waits and how they ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import DeadlockError, LockTimeoutError
from deltanb.locks import LockManager
from deltanb.locks.core.keys import partition_key
from deltanb.locks.core.modes import EXCLUSIVE, IX, SHARED
from deltanb.locks.core.record import OUTCOMES, VAIN, LockTimeline
from deltanb.notebook import bundle
from deltanb.notebook.drawing.lock_lanes import ALL_BANDS, ENDS, MAX_LANES, WAITS, Band, Lane, laned
from deltanb.notebook.drawing.lock_lanes_svg import LEFT
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Clockwork
from tests.notebook.looks import assert_consistent, assert_golden

S = 1_000_000_000


def story(clockwork: Clockwork) -> LockTimeline:
    """One converts a lock while another shares it; that one is refused for the deadlock it would close; a
    third waits in vain."""
    manager = clockwork.manager
    one, two, three = (manager.new_transaction() for _ in range(3))
    one.lock_upgradable(1, b"stock")
    clockwork.pass_time(1)
    two.lock_shared(1, b"stock")
    one.enter()
    one.lock_shared(2, b"prices")
    clockwork.pass_time(1)
    converts = clockwork.start(one, lambda: one.lock_exclusive(1, b"stock", -1))
    clockwork.pass_time(1)
    with pytest.raises(DeadlockError):
        clockwork.do(two, lambda: two.lock_exclusive(2, b"prices", -1))
    clockwork.do(two, two.exit)
    clockwork.finish(converts)
    with pytest.raises(LockTimeoutError):
        clockwork.do(three, lambda: three.lock_shared(1, b"stock", 2))
    for end in (one.commit, one.exit, one.commit):
        clockwork.do(one, end)
    return manager.timeline()


def lanes_of(timeline: LockTimeline) -> dict[int, Lane]:
    return {lane.transaction: lane for lane in timeline.scene.lanes}


def test_bands_of_a_story() -> None:
    with Clockwork(record=100) as clockwork:
        timeline = story(clockwork)
    one, two, three = lanes_of(timeline).values()
    assert [(line.title, line.bands) for line in one.lines] == [
        ("1:stock", [Band(0, 2 * S, 2), Band(2 * S, 3 * S, 2), Band(2 * S, 3 * S, WAITS),
                     Band(3 * S, 5 * S, 3)]),
        ("2:prices", [Band(1 * S, 5 * S, 1)])]
    assert [(scope.level, scope.start, scope.end, [mark.what for mark in scope.ends]) for scope in one.scopes
            ] == [(0, 0, 5 * S, ["committed"]), (1, 1 * S, 5 * S, ["committed"])]
    assert (one.waited, one.ended, one.vain) == (1 * S, "committed", ())
    assert (two.vain, two.ended) == ((("deadlock", "2:prices"),), "deadlock victim")
    assert [(line.title, line.bands, [mark.what for mark in line.marks]) for line in three.lines] == [
        ("1:stock", [Band(3 * S, 5 * S, WAITS)], ["timed out"])]
    scene = timeline.scene
    assert (scene.num_waits, scene.num_deadlocks, scene.num_in_vain, scene.is_counted) == (3, 1, 1, False)


def test_forms_of_a_story(update_golden: bool) -> None:
    with Clockwork(record=100) as clockwork:
        timeline = story(clockwork)
    page = assert_consistent(timeline)
    assert_golden(timeline, "locks_timeline", update_golden)
    words = re.findall(r"<text[^>]*>([^<]*)</text>", timeline.svg)
    for word in ("transaction 1", "1:stock", "shared", "upgradable", "exclusive", "waits", "deadlock",
                 "timed out", "scope 1", "✓ committed", "✕ deadlock victim", "s since the manager was made"):
        assert word in words, words
    assert "3 waits ✕ 1 deadlock, 1 wait in vain" in page.text
    assert re.search(r"^1  +u+w+x+ +2 +1\.0 s +✓ committed$", str(timeline), re.MULTILINE), timeline


def test_under_a_clock_that_stands_still_events_are_the_axis(update_golden: bool) -> None:
    with dn.teaching():
        manager = LockManager(record=100)
        manager.name_index(-1, "flights", ["month"])
        index = MemoryIndex(1, {"a": 1})
        with manager.new_transaction() as txn:
            index.store(txn, "a", 5)
            with pytest.raises(ValueError, match="no"), txn.scope():
                index.store(txn, "b", 6)
                raise ValueError("no")
            manager.lock_tree(txn._locker, -1, [(partition_key(["1"]), EXCLUSIVE)], 0)
            txn.commit()
        timeline = manager.timeline()
        assert_consistent(timeline)
        assert_golden(timeline, "locks_timeline_still", update_golden)
    assert timeline.scene.is_counted
    lane = lanes_of(timeline)[1]
    assert {line.title: [band.mode for band in line.bands] for line in lane.lines} == {
        "1:a": [EXCLUSIVE], "1:b": [EXCLUSIVE], "flights": [IX], "flights month=1": [EXCLUSIVE]}
    assert [mark.what for scope in lane.scopes for mark in scope.ends] == ["committed", "undone"]


def test_a_scope_is_named_at_the_left_where_no_sign_of_a_rollback_stands() -> None:
    manager = LockManager(record=100, clock=lambda: 0)
    txn = manager.new_transaction()
    txn.enter()
    txn.rollback()
    for at in range(16):  # so that the rollback stands where the scope begins
        txn.lock_shared(1, b"%d" % at)
    txn.commit()
    texts = {text: float(x) for x, text in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)</text>',
                                                      manager.timeline().svg)}
    assert texts["scope 1"] < LEFT < texts["↩"]


def test_nothing_happened() -> None:
    assert str(LockManager(record=1).timeline()) == "Lock timeline  nothing happened yet"
    assert_consistent(LockManager(record=1).timeline())


def test_a_manager_that_was_closed_holds_nothing_more() -> None:
    manager = LockManager(record=10)
    manager.close()
    assert_consistent(manager.timeline())
    with Clockwork(record=10) as clockwork:
        txn = clockwork.manager.new_transaction()
        txn.lock_shared(1, b"k")
        clockwork.pass_time(1)
        clockwork.manager.close()
        clockwork.pass_time(1)
        other = clockwork.manager.new_transaction()
        other.enter()
        ((one, _),) = [tuple(lanes_of(clockwork.manager.timeline()).values())]
    assert one.lines[0].bands == [Band(0, 1 * S, SHARED)]


def test_what_began_before_the_first_event_that_is_kept() -> None:
    with Clockwork(record=2) as clockwork:
        txn = clockwork.manager.new_transaction()
        for key in (b"a", b"b"):
            txn.lock_upgradable(1, key)
        clockwork.pass_time(1)
        clockwork.manager.new_transaction().lock_shared(1, b"c")
        clockwork.pass_time(1)
        txn.unlock()
        timeline = clockwork.manager.timeline()
    (lane,) = [lane for lane in timeline.scene.lanes if lane.transaction == 1]
    assert [(line.title, line.bands) for line in lane.lines] == [("1:b", [Band(1 * S, 2 * S, 2)])]
    assert "2 earlier events not kept" in str(timeline)


def test_locks_beyond_those_that_have_room_share_a_row() -> None:
    manager = LockManager(record=1000, clock=lambda: 0)
    txn = manager.new_transaction()
    txn.lock_many([(1, b"%d" % at) for at in range(10)], "shared")
    txn.lock_upgradable(2, b"k")
    (lane,) = manager.timeline().scene.lanes
    assert [line.title for line in lane.lines] == ["1:0", "1:1", "1:2", "1:3", "7 more locks"]
    assert [band.mode for band in lane.lines[-1].bands] == [1, 2]  # the strongest of those that are held


def test_of_very_many_the_newest_are_drawn() -> None:
    manager = LockManager(record=20_000, clock=iter(range(10**6)).__next__)
    for _ in range(100):
        txn = manager.new_transaction()
        for _ in range(20):
            txn.lock_shared(1, b"k")
            txn.unlock()
            txn.enter()
            txn.lock_shared(2, b"j")
            txn.exit()
        txn.lock_shared(1, b"k")
        txn.commit()
    timeline = manager.timeline()
    scene = timeline.scene
    assert scene.total == 100
    assert [lane.transaction for lane in scene.lanes] == [2 * at + 1 for at in range(88, 100)]
    assert len(scene.lanes) == MAX_LANES and scene.is_cut
    assert scene.first == min(lane.start for lane in scene.lanes) > 0, "the room is for those that are drawn"
    assert sum(len(line.bands) for lane in scene.lanes for line in lane.lines) <= ALL_BANDS
    assert "of what happened often, the newest is drawn" in str(timeline)
    assert_consistent(timeline)


@pytest.mark.parametrize("what", ["waits", "granted"])
def test_any_single_event_can_be_shown(what: str) -> None:
    rows: list[Any] = [(0, 1, what, (1, b"k"), 1, 0 if what == "waits" else 1, 0)]
    assert_consistent(LockTimeline(rows))
    assert laned(rows, 0).is_counted


def test_names_of_locks_do_no_harm() -> None:
    manager = LockManager(record=10, clock=lambda: 0)
    manager.new_transaction().lock_shared(1, b"<b>&\"")
    svg = bundle.drawing(manager.timeline(), "svg")
    assert "<b>" not in svg and "1:&lt;b&gt;" in svg
    assert_consistent(manager.timeline())


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no words")


def test_lanes_are_called_by_their_names_also_after_a_commit() -> None:
    manager = LockManager(record=20)
    ann, ben, cid = manager.new_transaction(), manager.new_transaction("ben"), manager.new_transaction("")
    ann.attach("ann")
    ben.attach(Unspeakable())
    for at, txn in enumerate((ann, ben, cid, ann)):
        txn.lock_exclusive(1, b"%d" % at)
        txn.commit()
    timeline = manager.timeline()
    assert [str(lane.transaction) for lane in timeline.scene.lanes] == ["ann #1", "ben #2", "3", "ann #4"]
    assert set(timeline.table()["name"].to_pylist()) == {"ann", "ben", None}
    assert "ann #4" in assert_consistent(timeline).text
    drawn = re.findall(r'font-weight="600">([^<]*)<', timeline.svg)
    assert drawn == ["ann #1", "ben #2", "transaction 3", "ann #4"]


ENDINGS: dict[str, Callable[[Clockwork, Any], Any]] = {
    "committed": lambda clockwork, txn: txn.commit(),
    "put off": lambda clockwork, txn: txn.commit(),
    "rolled back": lambda clockwork, txn: txn.exit(),
    "timed out": lambda clockwork, txn: clockwork.pass_time(9),
    "interrupted": lambda clockwork, txn: txn.interrupt(),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_lanes_say_what_became_of_transactions(how: str) -> None:
    """Of one that only tried, that it was rolled back; of one that waited in vain, that too."""
    with Clockwork(record=100) as clockwork:
        holder, txn = clockwork.manager.new_transaction("holder"), clockwork.manager.new_transaction("ann")
        holder.lock_exclusive(1, b"k")
        MemoryIndex(2, {}).store(txn, "a", 1)
        if how == "put off":
            txn.durability_mode = "NO_FLUSH"
        if how in VAIN.values():
            call = clockwork.start(txn, lambda: txn.try_lock_shared(1, b"k", 5))
        ENDINGS[how](clockwork, txn)
        if how in VAIN.values():
            clockwork.finish(call)
            txn.exit()
        timeline = clockwork.manager.timeline()
    lane = next(lane for lane in timeline.scene.lanes if lane.transaction == 2)
    assert timeline.outcomes[2] == lane.ended == how
    assert ENDS[how] in str(timeline) and ENDS[how] in timeline.svg


def test_every_outcome_has_words() -> None:
    assert set(ENDS) == {"", *OUTCOMES.values(), *VAIN.values()}


def test_a_lane_names_the_lock_by_which_it_ended() -> None:
    """Also where the same wait was in vain before, and where another one was refused as illegal since."""
    rows = [event for at, (what, key) in enumerate(
                [("timed out", b"a"), ("timed out", b"b"), ("timed out", b"a"), ("illegal", b"c")])
            for event in ((2 * at, 1, "waits", (1, key), 1, 0, 0), (2 * at + 1, 1, what, (1, key), 1, 0, 0))]
    timeline = LockTimeline([*rows, (9, 1, "exited", None, 0, 0, 0)])
    words = re.sub(r"<[^>]+>", "", timeline._repr_mimebundle_()["text/html"])
    assert "✕ timed out on 1:a; timed out on 1:b, illegal on 1:c" in words
