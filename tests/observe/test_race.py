"""Writers race on purpose: real commands, real threads, and the same end at every run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import (
    ConcurrentAppendException,
    DeadlockError,
    IllegalStateError,
    InvalidArgument,
    LockTimeoutError,
    TableAlreadyExists,
)
from deltanb.locks import LockManager
from deltanb.locks.core.waits import parking
from deltanb.notebook.bundle import HTML
from deltanb.notebook.drawing.timeline_lanes import Lanes
from deltanb.observe import turns
from deltanb.observe.race import Race, _judged
from deltanb.observe.turns import LockWait, Runner
from deltanb.options import Options, options, set_options
from deltanb.store.local import LocalStore
from deltanb.table.table import DeltaTable
from deltanb.testing import LoseResponse, MemoryIndex, MemoryStore, ScriptedStore
from deltanb.text import formatting as units
from deltanb.text.formatting import MAX_COLUMNS
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.drive import watching
from tests.patience import PATIENCE

Writer = Callable[[DeltaTable], Any]


def ducks(store: Any = None, **settings: Any) -> DeltaTable:
    place = MemoryStore("memory:///ducks") if store is None else store
    return dn.create(place, {"name": ["Donald", "Daisy"], "month": [1, 2]}, partition_by=["month"],
                     **settings)


def append(month: int, name: str = "Scrooge") -> Writer:
    return lambda table: table.append({"name": [name], "month": [month]})


def delete(where: str) -> Writer:
    return lambda table: table.delete(where)


def names(table: DeltaTable) -> list[str | None]:
    return [entry.user_name for entry in reversed(table.history())][1:]


# -- orders ----------------------------------------------------------------------------------------


def test_all_have_read_before_the_first_one_commits() -> None:
    table = ducks()
    result = dn.race(table, {"ann": append(1), "ben": delete("month = 1"), "cid": append(2)})
    assert list(result.outcomes) == ["ann", "ben", "cid"]
    assert (result.outcomes["ann"], result.outcomes["cid"]) == (1, 2)
    error = result.outcomes["ben"]
    assert isinstance(error, ConcurrentAppendException)
    assert (error.conflict.read_version, error.version) == (0, 1)
    assert names(table) == ["ann", "cid"]
    assert [entry.read_version for entry in table.history()][:2] == [0, 0]


def test_one_after_the_other() -> None:
    table = ducks()
    result = dn.race(table, {"ann": append(1), "ben": delete("month = 1")}, order="serial")
    assert result.outcomes == {"ann": 1, "ben": 2}
    assert [entry.read_version for entry in table.history()][:2] == [1, 0]


@pytest.mark.parametrize(("order", "ann", "ben"), [
    (["ben", "ann", "ben"], 2, 1),
    ([1, 0, 1], 2, 1),
    (["ann", "ben", "ann"], 1, "append"),
    (["ben", "ben", "ann"], 2, 1),
    ([], 1, 2),
    (["ann"], 1, 2),
    (["ben"] * 9 + ["ann"] * 9, 2, 1),
])
def test_a_chosen_order(order: list[Any], ann: int, ben: int | str) -> None:
    result = dn.race(ducks(), {"ann": append(1), "ben": delete("month = 1")}, order)
    assert result.outcomes["ann"] == ann
    if ben == "append":
        assert result.outcomes["ben"].conflict.rule == "append"
    else:
        assert result.outcomes["ben"] == ben


def test_a_turn_ends_before_each_step_of_io() -> None:
    """Between ben's lost put and his reading of the winner, ann commits once more."""
    table = ducks()

    def twice(table: DeltaTable) -> None:
        append(1)(table)
        append(2)(table)

    writers = {"ann": twice, "ben": append(1)}
    # ben: to his put; ann: to her first put; ann: commits v1, to her second put; ben: loses v1, to his
    # reading of it; ann: commits v2; ben: meets both, commits v3.
    result = dn.race(table, writers, ["ben", "ann", "ann", "ben", "ann"])
    assert result.outcomes == {"ann": 2, "ben": 3}
    assert names(table) == ["ann", "ann", "ben"]
    (ben,) = [track for track in result.commits if track.writer == "ben"]
    assert ben.lost == (1,)


def test_exactly_one_runs_at_a_time() -> None:
    running: list[str] = []
    most = 0

    def busy(name: str) -> Writer:
        def work(table: DeltaTable) -> None:
            nonlocal most
            for _ in range(3):
                running.append(name)
                most = max(most, len(set(running)))
                for _ in range(1000):
                    most = max(most, len(set(running)))
                running.clear()
                append(1)(table)
        return work

    table = ducks()
    dn.race(table, {name: busy(name) for name in "abc"}, [0, 0, 1, 1, 2, 2] * 2)
    assert most == 1
    assert sorted(names(table)) == list("aaabbbccc") != names(table)


# -- writers ---------------------------------------------------------------------------------------


def test_names_are_those_of_functions_or_of_places() -> None:
    def etl(table: DeltaTable) -> None:
        append(1)(table)

    table = ducks()
    result = dn.race(table, [etl, append(2), etl])
    assert list(result.outcomes) == ["etl", "writer 2", "etl 3"]
    assert names(table) == ["etl", "writer 2", "etl 3"]


def settings_now() -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(Options)}


def test_what_a_writer_is_called_and_sets_is_its_own() -> None:
    table = ducks()

    def loud(table: DeltaTable) -> None:
        with set_options(user_metadata="loud"):
            append(1)(table)
        set_options(max_rows=3)

    with set_options(user_name="me"):
        before = settings_now()
        dn.race(table, {"loud": loud, "quiet": append(2)}, ["loud", "quiet", "loud", "quiet"])
        assert settings_now() == before
    assert [(e.user_name, e.user_metadata) for e in table.history()][:2] == [
        ("quiet", None), ("loud", "loud")]


def test_an_exception_of_a_writer_is_its_outcome() -> None:
    error = ValueError("no ducks")

    def wrong(table: DeltaTable) -> None:
        raise error

    def leaves(table: DeltaTable) -> None:
        append(1)(table)
        raise SystemExit(3)

    result = dn.race(ducks(), {"wrong": wrong, "leaves": leaves, "ann": append(1)})
    assert result.outcomes["wrong"] is error
    assert isinstance(result.outcomes["leaves"], SystemExit)
    assert result.outcomes["ann"] == 2


def test_writers_that_never_commit_and_transactions_by_hand() -> None:
    def by_hand(table: DeltaTable) -> None:
        txn = table.start_transaction()
        assert dn.OptimisticTransaction.get_active() is None
        dn.OptimisticTransaction.set_active(txn)
        txn.filter_files("month = 1")
        txn.commit([AddFile("month=1/hand", {"month": "1"}, 1, 1)], "WRITE")

    result = dn.race(ducks(), {"none": lambda t: t.version, "hand": by_hand, "ann": append(2)})
    assert result.outcomes == {"none": None, "hand": 1, "ann": 2}
    assert dn.OptimisticTransaction.get_active() is None


def test_commits_to_other_tables_are_not_stopped() -> None:
    other = ducks(MemoryStore("memory:///other"))

    def elsewhere(table: DeltaTable) -> None:
        append(1)(other)
        append(1)(table)

    result = dn.race(ducks(), {"a": elsewhere, "b": append(1)}, ["b", "a"])
    assert result.outcomes == {"a": 1, "b": 2}
    assert other.version == 1


def test_threads_of_a_writer_commit_as_they_like() -> None:
    def with_threads(table: DeltaTable) -> None:
        threads = [threading.Thread(target=append(1), args=(table,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        append(2)(table)

    table = ducks()
    result = dn.race(table, {"many": with_threads, "ann": append(2)})
    assert sorted(result.outcomes.values()) == [3, 4]
    assert table.version == 4


def test_a_race_within_a_race() -> None:
    table = ducks()

    def inner(table: DeltaTable) -> None:
        assert dn.race(table, {"x": append(1), "y": append(2)}).outcomes == {"x": 1, "y": 2}
        append(1)(table)

    result = dn.race(table, {"outer": inner, "ann": append(1)})
    assert result.outcomes == {"outer": 3, "ann": 4}
    assert names(table) == ["x", "y", "outer", "ann"]


def test_creating_is_no_race_of_an_existing_table() -> None:
    table = ducks()
    result = dn.race(table, {"new": lambda t: dn.create(t.log.store, {"x": [1]}), "ann": append(1)})
    assert isinstance(result.outcomes["new"], TableAlreadyExists)


# -- writers that wait for locks -------------------------------------------------------------------


def under(manager: LockManager, *names: bytes, month: int = 1, timeout: float | None = None) -> Writer:
    """A writer that appends while it holds locks, taken one after the other."""
    def work(table: DeltaTable) -> None:
        with manager.new_transaction() as txn:
            for name in names:
                txn.lock_exclusive(1, name, timeout)
            append(month)(table)
    return work


def test_the_turn_is_given_on_by_who_waits_for_a_lock() -> None:
    """Ann stops before her put with the lock held; ben waits for it, and reads only once she is done."""
    for _ in range(5):
        manager, table = LockManager(), ducks()
        race = dn.race(table, {"ann": under(manager, b"k"), "ben": under(manager, b"k"), "cid": append(2)})
        assert race.outcomes == {"ann": 1, "ben": 2, "cid": 3}
        assert race.waits == (LockWait("ben", "1:k", "exclusive", 0, 1, True),)
        assert [entry.read_version for entry in table.history()][:3] == [0, 1, 0]
        assert manager.num_locks_held == 0


def test_waits_are_seen_in_every_form() -> None:
    manager = LockManager()
    race = dn.race(ducks(), {"ann": under(manager, b"k"), "ben": under(manager, b"k")})
    (line,) = [line for line in str(race).split("\n") if line.startswith("* v2")]
    assert "‖ waited for 1:k (exclusive)" in line
    assert "‖ waited for 1:k (exclusive)" in race.svg
    assert "‖ waited for 1:k (exclusive)" in [mark["text"] for mark in race.spec["datasets"]["marks"]]
    assert units.width(line) <= MAX_COLUMNS


def test_a_wait_is_a_band_up_to_the_version_that_was_read() -> None:
    manager = LockManager()
    race = dn.race(ducks(), {"ann": under(manager, b"k"), "ben": under(manager, b"k")})
    assert race.marks[2].since == 0
    lanes = Lanes(race.scene, race.scene.shown, *race.scene.window, 600)
    ann, ben = sorted(lanes.lines, key=lambda line: line.track.version)
    begun = [lanes.share(race.scene.begin(line.track)) for line in (ann, ben)]
    assert begun == [ann.start, lanes.share(0)] and ben.start == lanes.share(1)
    assert race.svg.count('opacity="0.3"') == 1
    assert "a pale band is a wait for a lock" in race.svg
    short = dn.race(ducks(), {"ann": under(manager, b"k"), "ben": under(manager, b"k")}, "serial")
    assert short.svg.count('opacity="0.3"') == 0 and "pale band" not in short.svg


def test_turns_of_who_waits_are_passed_over() -> None:
    manager = LockManager()
    writers = {"ann": under(manager, b"k"), "ben": under(manager, b"k")}
    race = dn.race(ducks(), writers, ["ann", "ben", "ben", "ben", "ann", "ben"])
    assert race.outcomes == {"ann": 1, "ben": 2}


def test_a_deadlock_in_a_race_is_found_as_ever() -> None:
    for _ in range(3):
        manager = LockManager()

        def both(first: bytes, then: bytes, manager: LockManager = manager) -> Writer:
            def work(table: DeltaTable) -> None:
                with manager.new_transaction() as txn:
                    txn.lock_exclusive(1, first)
                    append(1)(table)
                    txn.lock_exclusive(1, then)
                    append(1)(table)
            return work

        race = dn.race(ducks(), {"ann": both(b"a", b"b"), "ben": both(b"b", b"a")}, [0, 1, 0, 1, 0, 1])
        assert race.outcomes["ann"] == 3
        assert isinstance(race.outcomes["ben"], DeadlockError)
        assert manager.num_locks_held == 0
        assert race.waits == (LockWait("ann", "1:b", "exclusive", 1, 2, True),)


def test_where_all_wait_the_first_one_is_timed_out() -> None:
    """Nobody looks for deadlocks as a wait begins: who waits first gives way, and the other goes on."""
    for timeout in (1.0, -1):
        manager = LockManager(detect="timeout")

        def one(table: DeltaTable, manager: LockManager = manager, timeout: float = timeout) -> None:
            with manager.new_transaction() as txn:
                txn.lock_exclusive(1, b"a")
                append(1)(table)
                txn.lock_exclusive(1, b"b", timeout)

        def other(table: DeltaTable, manager: LockManager = manager, timeout: float = timeout) -> None:
            with manager.new_transaction() as txn:
                txn.lock_exclusive(1, b"b")
                append(1)(table)
                txn.lock_exclusive(1, b"a", timeout)

        race = dn.race(ducks(), {"one": one, "other": other}, [0, 1, 0, 1])
        assert isinstance(race.outcomes["one"], DeadlockError)
        assert race.outcomes["other"] == 2
        assert [(w.writer, w.is_granted) for w in race.waits] == [("one", False), ("other", True)]


def test_a_lock_that_nobody_in_the_race_can_release_times_out_at_once() -> None:
    manager = LockManager(lock_timeout=None)
    outsider = manager.new_transaction()
    outsider.lock_shared(1, b"k")
    race = dn.race(ducks(), {"ann": under(manager, b"k", timeout=3600), "ben": append(1)})
    assert type(race.outcomes["ann"]) is LockTimeoutError
    assert race.outcomes["ben"] == 1
    assert race.waits == (LockWait("ann", "1:k", "exclusive", 0, 1, False),)
    assert "ann failed (LockTimeoutError: an exclusive lock on 1:k" in race.title


def test_who_fails_lets_go_and_who_is_not_tried_again_waits_no_more() -> None:
    manager = LockManager()

    def fails(table: DeltaTable) -> None:
        with manager.new_transaction() as txn:
            txn.lock_exclusive(1, b"k")
            append(1)(table)
            raise ValueError("no more")

    def tries(table: DeltaTable) -> None:
        with manager.new_transaction() as txn:
            assert txn.try_lock_shared(1, b"k", 0) == "TIMED_OUT_LOCK"
            assert txn.try_lock_shared(1, b"k") == "ACQUIRED"

    race = dn.race(ducks(), {"fails": fails, "tries": tries})
    assert race.outcomes == {"fails": race.outcomes["fails"], "tries": None}
    assert isinstance(race.outcomes["fails"], ValueError)
    assert race.title.endswith("tries waited for 1:k (shared)")


def test_rows_in_memory_and_a_table_change_under_the_same_locks() -> None:
    """Each adds one to a counter in memory and appends it: no number comes twice, in whatever order."""
    for order in (None, "serial", [1, 0, 2, 2, 1, 0], [2, 2, 2, 0, 1]):
        manager = LockManager()
        index = MemoryIndex(1, {"n": 0}, manager)
        table = ducks()

        def count(table: DeltaTable, index: MemoryIndex = index, manager: LockManager = manager) -> None:
            with manager.new_transaction() as txn:
                number = index.load(txn, "n") + 1
                index.store(txn, "n", number)
                append(number)(table)
                txn.commit()

        race = dn.race(table, {"ann": count, "ben": count, "cid": count}, order)
        assert sorted(race.outcomes.values()) == [1, 2, 3]
        assert index.load(None, "n") == 3
        added = [e.operation_metrics for e in table.history()][:3]
        assert len(added) == 3
        assert sorted(row["month"] for row in table.to_arrow().to_pylist()) == [1, 1, 2, 2, 3]


def test_an_interrupted_race_leaves_no_lock_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, table = LockManager(), ducks()
    runners = [runner_of("ann", under(manager, b"k"), table), runner_of("ben", under(manager, b"k"), table)]

    class Interrupted(threading.Semaphore):
        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            super().acquire(*args, **kwargs)
            raise KeyboardInterrupt

    monkeypatch.setattr(turns, "GRACE", 10)
    runners[0].advance()
    runners[1].advance()
    assert runners[1].is_blocked and manager.num_waiting == 1
    runners[0]._back = Interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        turns.run(runners, [])
    runners[0]._go.release()
    for runner in runners:
        runner._stack._thread.join(PATIENCE)
    assert (manager.num_locks_held, manager.num_waiting, race_threads()) == (0, 0, [])
    assert parking.get() is None


# -- nothing hangs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", [True, False, None])
def test_stores_that_need_the_lock_do_not_stand_in_the_way(lock: bool | None) -> None:
    store = MemoryStore("memory:///ducks")
    store.is_partial_write_visible = True
    with set_options(commit_lock=lock):
        result = dn.race(ducks(store), {"ann": append(1), "ben": append(2), "cid": append(1)},
                         [0, 1, 2, 2, 1, 0])
    assert result.outcomes == {"cid": 1, "ann": 2, "ben": 3}


def test_a_lost_answer_is_found_again() -> None:
    table = ducks(ScriptedStore(MemoryStore("memory:///ducks")))
    table.log.store.script.extend([LoseResponse()])  # type: ignore[attr-defined]
    result = dn.race(table, {"ann": append(1), "ben": append(1)})
    assert result.outcomes == {"ann": 1, "ben": 2}
    assert names(table) == ["ann", "ben"]


def runner_of(name: str, work: Writer, table: DeltaTable) -> Runner:
    return Runner(name, partial(work, table), partial(_judged, table.log))


def race_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("race: ")]


def test_an_interrupt_ends_the_race_and_nothing_more_is_written(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer's turn is interrupted; the first, who waits before her put, writes nothing."""
    table = ducks()
    seen: list[BaseException] = []

    def waits(table: DeltaTable) -> None:
        try:
            append(1)(table)
        except BaseException as error:
            seen.append(error)
            append(2)(table)  # stubborn
            raise

    class Interrupted(threading.Semaphore):
        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            super().acquire(*args, **kwargs)
            raise KeyboardInterrupt

    monkeypatch.setattr(turns, "GRACE", 0)
    runners = [runner_of("ann", waits, table), runner_of("ben", append(1), table)]
    runners[1]._back = Interrupted(0)
    before = settings_now()
    with pytest.raises(KeyboardInterrupt):
        turns.run(runners, [0, 1])
    assert [type(error) for error in seen] == [turns._Stopped]
    assert settings_now() == before
    runners[1]._is_stopped = True
    runners[1]._go.release()
    for runner in runners:
        runner._stack._thread.join(PATIENCE)
    assert table.version == 0
    assert [a.outcome for a in dn.transaction.journal.journal_of(table.log)].count("abandoned") >= 2
    assert race_threads() == []


def test_settings_of_a_writer_that_ran_when_the_race_was_interrupted_are_gone() -> None:
    """The interrupt comes while it holds a setting, which it gives back before it can be stopped."""
    table = ducks()
    is_interrupted = threading.Event()

    def busy(table: DeltaTable) -> None:
        with set_options(user_name="busy bee"):
            is_interrupted.wait(PATIENCE)
        append(1)(table)

    class InterruptedOnce(threading.Semaphore):
        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            if not is_interrupted.is_set():
                is_interrupted.set()
                raise KeyboardInterrupt
            return super().acquire(*args, **kwargs)

    runner = runner_of("ann", busy, table)
    runner._back = InterruptedOnce(0)
    before = settings_now()
    with pytest.raises(KeyboardInterrupt):
        turns.run([runner], [0])
    assert isinstance(runner.outcome, turns._Stopped)
    assert settings_now() == before
    assert table.version == 0
    runner._stack._thread.join(PATIENCE)
    assert race_threads() == []


def test_no_thread_stays_behind_and_nobody_watches() -> None:
    dn.race(ducks(), {"ann": append(1), "ben": append(1)})
    assert race_threads() == []
    assert watching.get() is None


# -- refused ---------------------------------------------------------------------------------------


def test_a_race_needs_a_table() -> None:
    with pytest.raises(InvalidArgument, match=r"run on a table or a catalog, found str; .*dn\.open\(path\)"):
        dn.race("ducks", {"ann": append(1)})  # type: ignore[arg-type]


def test_writers_that_failed_are_seen_where_nothing_was_committed() -> None:
    race = dn.race(ducks(), {"ann": lambda table: table.no_such_thing()})
    assert str(race) == ("Timeline ducks  no commits\n✕ ann raised AttributeError: "
                          "'DeltaTable' object has no attribute 'no_such_thing'")
    assert "<span class=\"dnb-warn\">✕ ann raised AttributeError" in race._repr_mimebundle_()[HTML]


def fails(words: str, first: Writer | None = None) -> Writer:
    def work(table: DeltaTable) -> None:
        if first is not None:
            first(table)
        raise ValueError(words)
    return work


def test_a_writers_error_is_shown_as_an_error_and_not_as_an_outcome() -> None:
    """Beside a commit, a lost race and no commit: in the text, the picture, the drawing and the chart."""
    race = dn.race(ducks(), {"ann": append(1), "ben": delete("month = 1"), "cid": lambda table: None,
                             "dan": fails("changed <my> mind"), "eve": fails("too late", append(2))})
    assert race.title == "ann committed v1, ben failed (ConcurrentAppend), cid committed nothing"
    assert race.errors == ("dan raised ValueError: changed <my> mind", "eve raised ValueError: too late")
    lines = str(race).splitlines()
    assert lines[2:5] == [race.title, "✕ dan raised ValueError: changed <my> mind",
                          "✕ eve raised ValueError: too late"]
    picture = race._repr_mimebundle_()[HTML].rpartition("dnb-rich")[2]
    assert '<p><b class="dnb-warn">✕ dan raised ValueError: changed &lt;my&gt; mind</b></p>' in picture
    assert picture.count('<b class="dnb-warn">✕ eve raised ValueError: too late</b>') == 1
    drawn = [line for line in race.svg.split("<text ")[1:] if "✕ dan raised ValueError" in line]
    assert len(drawn) == 1 and 'class="x"' in drawn[0]
    assert "✕ dan raised ValueError: changed <my> mind" in race.spec["title"]["subtitle"]
    assert isinstance(race.outcomes["dan"], ValueError) and isinstance(race.outcomes["eve"], ValueError)


def test_the_rows_make_room_for_the_errors() -> None:
    writers: dict[str, Writer] = {f"w{n}": append(1) for n in range(12)}
    race = dn.race(ducks(), {**writers, "dan": fails("no"), "eve": fails("no")})
    assert len(str(race).splitlines()) <= 12 and "… 4 earlier" not in str(race).splitlines()[-2]


def test_a_mistake_says_what_it_was_as_far_as_the_line_goes(tmp_path: Path) -> None:
    table = ducks(LocalStore(tmp_path / "ducks"))
    race = dn.race(table, {"ann": delete("no_such = 1"), "ben": append(1)})
    [message] = race.errors
    assert message.startswith("ann raised InvalidPredicate: no column 'no_such'")
    assert race.title == "ben committed v1"
    [message] = dn.race(table, [fails(f"{tmp_path}/ducks is {object()!r}\nand more")]).errors
    assert str(tmp_path) not in message and " at 0x" not in message and "more" not in message
    [long] = dn.race(table, {"ann": fails("x" * 200)}).errors
    assert units.width(f"✕ {long}") <= MAX_COLUMNS and long.endswith("xx…")
    many = dn.race(table, {f"writer {n}": fails("no") for n in range(9)}).errors
    assert many[2] == "writer 2 raised ValueError: no"
    assert many[3].startswith("6 more writers raised errors: writer 3, writer 4,") and len(many) == 4


def test_lanes_stand_in_the_order_of_the_writers() -> None:
    def twice(table: DeltaTable) -> None:
        append(1)(table)
        append(1)(table)

    race = dn.race(ducks(), {"zoe": append(1), "none": lambda table: None, "ann": append(2), "ben": twice})
    assert [lane.name for lane in race.scene.lanes.lanes] == ["zoe", "ann", "ben"]
    assert race.svg.index(">zoe<") < race.svg.index(">ann<") < race.svg.index(">ben<")
    assert [lane.name for lane in race.marked({1: "first"}).scene.lanes.lanes] == ["zoe", "ann", "ben"]


async def coroutine(table: Any) -> None:
    append(1)(table)


def generator(table: Any) -> Any:
    yield append(1)(table)


@pytest.mark.parametrize(("writers", "order", "says"), [
    ([], None, "one at least"),
    ({}, None, "one at least"),
    (append(1), None, "a list or a dict of writers"),
    ("ab", None, "writer 'writer 1' is a callable"),
    ({"ann": 5}, None, "writer 'ann' is a callable that takes the table, found int"),
    ({"ann": lambda: None}, None, "is called with the table, and that does not fit: too many positional"),
    ({"ann": lambda a, b: None}, None, "that does not fit: missing a required argument: 'b'"),
    ([coroutine], None, "writer 'coroutine' only makes a coroutine when called"),
    ([generator], None, "writer 'generator' only makes a generator when called"),
    ({3: append(1)}, None, "a writer's name is a string, found 3"),
    ({"ann": append(1)}, ["ben"], "'ben' is not one of the writers; they are ann"),
    ({"ann": append(1)}, [1], "1 is not one of the writers"),
    ({"ann": append(1)}, [-1], "-1 is not one of the writers"),
    ({"ann": append(1)}, [True], "True is not one of the writers"),
    ({"ann": append(1)}, "ann", "order='ann' is None, 'serial', or a list"),
    ({"ann": append(1)}, 5, "order=5"),
])
def test_mistakes_are_named_before_anything_runs(writers: Any, order: Any, says: str) -> None:
    table = ducks()
    with pytest.raises(InvalidArgument, match=says):
        dn.race(table, writers, order)
    assert table.version == 0


def test_a_past_version_is_no_place_for_a_race() -> None:
    table = ducks()
    append(1)(table)
    with pytest.raises(IllegalStateError, match="as of version 0"):
        dn.race(table.as_of(0), {"ann": append(1)})


# -- teaching --------------------------------------------------------------------------------------


def lesson() -> list[str]:
    """What a person sees of a race, its conflict, what would have been, and the history."""
    DeltaLog.clear_cache()
    with dn.teaching(seed=1):
        table = ducks()
        result = dn.race(table, {"ann": append(1), "ben": delete("month = 1"), "cid": append(2)},
                         ["ben", "ann", "cid", "ann"])
        assert isinstance(result, Race)
        conflict = result.outcomes["ben"].conflict
        history = table.history()
        shown = [result, conflict, history.replay(), history, table]
        log = [table.log.store.read(f"_delta_log/{v:020}.json").decode() for v in range(3)]
        own = f"{table.metadata.id}|{table.commit(0).txn_id}"  # of the table, and of the commit that made it
        return [str(one) for one in shown] + [re.sub(own, "", text) for text in log]


def test_a_lesson_is_the_same_at_every_run() -> None:
    first, second = lesson(), lesson()
    assert first == second
    race, conflict, replay, *_ = first
    assert race.startswith("Timeline ducks  v1 to v2  2 commits  2 writers\n1 race lost on the way, 1 trans")
    assert "ann committed v1, ben failed (ConcurrentAppend), cid committed v2" in race
    assert conflict.startswith("✕ ConcurrentAppend: your DELETE on ducks read files where month = 1")
    assert "WriteSerializable: 1 that failed would have passed" in replay


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [
    append(1), lambda t: t.update({"name": "'Gus'"}, where="name = 'Donald'"),
    lambda t: t.overwrite({"name": ["Gus"], "month": [1]}),
    lambda t: t.merge({"name": ["Gus"], "month": [9]}, "t.name = s.name", target_alias="t",
                      source_alias="s").when_not_matched_insert_all().execute(),
], ids=["append", "update", "overwrite", "merge"])
def test_a_writer_that_is_stopped_leaves_no_files(work: Writer) -> None:
    table = ducks()
    names = sorted(status.name for status in table.log.store.list_all(""))
    runner = runner_of("ann", work, table)
    runner.advance()
    assert sorted(status.name for status in table.log.store.list_all("")) != names
    runner.stop()
    assert isinstance(runner.outcome, turns._Stopped)
    assert sorted(status.name for status in table.log.store.list_all("")) == names


def test_files_of_a_stopped_writer_stay_where_its_commit_may_have_landed() -> None:
    """Its put landed, the answer was lost, and it waits before looking what is there."""
    table = ducks(ScriptedStore(MemoryStore("memory:///ducks")))
    table.log.store.script.append(LoseResponse())  # type: ignore[attr-defined]
    runner = runner_of("ann", append(1), table)
    runner.advance()
    runner.advance()
    runner.stop()
    assert isinstance(runner.outcome, turns._Stopped)
    assert table.to_arrow().num_rows == 3
    assert table.version == 1
