"""Exploring: what it finds is what running all orders finds, and what is a bound says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError, InvalidArgument, InvariantViolated
from deltanb.testing import MemoryStore
from tests.examples import first
from tests.observe.explore.drawn import ROWS, Work, copy
from tests.observe.explore.real import ended, every_order, run_order


def table(**settings: Any) -> dn.DeltaTable:
    made = dn.create(MemoryStore(), {"id": [1, 2], "n": [10, 20]}, **settings)
    made.append({"id": [3], "n": [30]})
    return made


def add(lots: Random) -> Work:
    number = lots.randrange(4, 6)
    return lambda t: t.append({"id": [number], "n": [number]})


def change(lots: Random) -> Work:
    row, more = lots.randrange(1, 4), lots.randrange(1, 3)
    return lambda t: t.update({"n": f"n + {more}"}, f"id = {row}")


def drop(lots: Random) -> Work:
    row = lots.randrange(1, 5)
    return lambda t: t.delete(f"id = {row}")


def both(lots: Random) -> Work:
    parts = [add(lots), change(lots), drop(lots)]
    some = lots.sample(parts, 2)

    def work(t: Any) -> None:
        with t.transaction() as txn:
            for part in some:
                part(txn)

    return work


def again(lots: Random) -> Work:
    part = change(lots)
    return lambda t: dn.retry(lambda: part(t), attempts=2)


def by_hand(lots: Random) -> Work:
    row = lots.randrange(1, 4)

    def work(t: Any) -> None:
        txn = t.start_transaction()
        removed = [file.remove() for file in txn.filter_files(f"id = {row}")]
        txn.commit([*removed, *txn.write_files({"id": [row], "n": [0]})], "WRITE")

    return work


def optimize(lots: Random) -> Work:
    return lambda t: t.optimize()


FEATURES: list[dict[str, Any]] = [
    {}, {"partition_by": ["id"]}, {"cluster_by": ["id"]},
    *({"properties": {name: value}} for name, value in (
        ("delta.enableChangeDataFeed", "true"), ("delta.columnMapping.mode", "name"),
        ("delta.enableInCommitTimestamps", "true"), ("delta.checkpointInterval", "1"),
        ("delta.checkpointPolicy", "v2")))]
"""What a table has beside vectors and row ids."""
KINDS = [add, change, drop, copy, both, again, by_hand, optimize]


def program(seed: int) -> tuple[dict[str, Any], dict[str, Work]]:
    """Settings of a table, and writers of it, drawn by a seed."""
    lots = Random(seed)
    properties = {"delta.isolationLevel": lots.choice(["Serializable", "WriteSerializable"]),
                  "delta.enableDeletionVectors": lots.choice(["true", "false"]),
                  "delta.enableRowTracking": lots.choice(["true", "false"]),
                  "deltanb.rowLevelConcurrency": lots.choice(["off", "all"])}
    settings = dict(lots.choice(FEATURES))
    properties |= settings.pop("properties", {})
    num_writers = lots.choice([2, 2, 3])
    works: dict[str, Work] = {}
    for name in ("ann", "ben", "cid")[:num_writers]:
        kinds = KINDS if num_writers == 2 else [add, change, drop, optimize]
        parts = [lots.choice(kinds)(lots) for _ in range(lots.choice([1, 1, 2]) if num_writers == 2 else 1)]
        works[name] = one_after_the_other(parts)
    return {"properties": properties, **settings}, works


def one_after_the_other(parts: list[Work]) -> Work:
    def work(t: Any) -> None:
        for part in parts:
            part(t)

    return work


@pytest.mark.parametrize("seed", first(6, 300))
def test_it_finds_what_running_all_orders_finds(seed: int) -> None:
    settings, works = program(seed)
    explored = dn.explore(table(**settings), works)
    assert not explored.left_out
    counts = Counter(every_order(lambda: table(**settings), works))
    assert Counter({ended(one, list(works)): one.orders for one in explored.outcomes}) == counts
    for one in explored.outcomes:
        assert run_order(table(**settings), works, one.order) == ended(one, list(works))


PLACES: dict[str, Callable[..., dn.DeltaTable]] = {
    "folder": lambda path, **_: dn.create(path / "t", ROWS),
    "bucket": lambda path, uri, options: dn.create(f"{uri}/{path.name}/t", ROWS, storage_options=options),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_order_of_each_outcome_comes_out_as_explored(
    place: str, tmp_path: Any, s3_server: Any, bucket: str
) -> None:
    def made(number: int) -> dn.DeltaTable:
        return PLACES[place](tmp_path / str(number), uri=bucket, options=s3_server.options)

    works = {"ann": lambda t: t.append({"id": [4], "n": [4]}), "ben": lambda t: t.delete("id = 1"),
             "cid": lambda t: t.update({"n": "n + 1"}, "id = 2")}
    explored = dn.explore(made(0), works)
    assert len(explored.outcomes) > 3
    for number, one in enumerate(explored.outcomes, 1):
        assert run_order(made(number), works, one.order) == ended(one, list(works))


def test_a_table_of_checkpoints_that_others_go_on_with_is_the_one_that_was_found(tmp_path: Any) -> None:
    """Past versions are read, too; what others commit meanwhile is not there."""
    made = dn.create(tmp_path / "t", ROWS, properties={"delta.checkpointInterval": "2"})
    for number in range(5):
        made.append({"id": [10 + number], "n": [0]})
    dn.flush()
    counts: set[tuple[int, int]] = set()

    def go_on() -> None:
        for _ in range(4):
            dn.DeltaTable(dn.DeltaLog(made.log.store)).append({"id": [99], "n": [0]})
        dn.flush()

    others = ThreadPoolExecutor(1)
    others.submit(int).result()  # its thread has nobody's context

    def look(t: Any) -> None:
        if not counts:
            others.submit(go_on).result()
        counts.add((t.as_of(3).count(), t.history()[0].version))
        t.append({"id": [20], "n": [0]})

    explored = dn.explore(made, {"ann": look, "ben": lambda t: t.delete("id = 1")})
    assert counts == {(6, 5), (6, 6)} and made.version == 9
    assert {one.rows.num_rows for one in explored.outcomes if one.rows} == {8, 9}  # 9: the DELETE has lost


# -- what it says --------------------------------------------------------------------------------------


def withdraw(t: Any) -> None:
    balance = t.to_arrow()["n"][0].as_py()
    t.update({"n": str(balance - 60)}, "id = 1")


def account() -> dn.DeltaTable:
    return dn.create(MemoryStore(), {"id": [1], "n": [100]})


def test_an_invariant_breaks_in_a_shortest_order() -> None:
    explored = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "n >= 0")
    assert explored.holds is False and [one.holds for one in explored.outcomes].count(False) == 1
    broken, = explored.violations
    assert broken.order == ("ann",) * 3 + ("ben",) * 3 and broken.version == 2
    assert explored.replay(broken.number) == broken.turns
    with pytest.raises(InvariantViolated, match=r"n >= 0 breaks in 1 way .*replay\(0\)") as caught:
        explored.check()
    assert (caught.value.order, caught.value.number) == (broken.order, broken.number)
    assert dn.explore(account(), [withdraw], lambda t: t.count("n < 0") == 0).check().holds
    assert dn.explore(account(), [withdraw], "SELECT sum(n) >= 0 FROM t").check().holds


def test_an_invariant_that_does_not_hold_before_is_broken_by_nobody() -> None:
    broken, = dn.explore(account(), [withdraw], "n < 0").violations
    assert (broken.order, broken.version) == ((), 0)


def test_each_order_has_a_number() -> None:
    explored = dn.explore(account(), {"ann": withdraw, "ben": withdraw})
    orders = {tuple(turn.writer for turn in explored.replay(number)) for number in range(64)}
    assert len(orders) == explored.num_orders == 20
    for one in explored.outcomes:
        assert tuple(turn.writer for turn in explored.replay(one.number)) == one.order
    with pytest.raises(InvalidArgument, match="number of an order"):
        explored.replay(-1)


def test_writers_of_the_same_work_are_explored_once() -> None:
    def work(t: Any) -> None:
        t.update({"n": "n + 1"}, "id = 1")

    twins = dn.explore(account(), {"ann": work, "ben": work, "cid": work})
    others = dn.explore(account(), {"ann": work, "ben": lambda t: work(t), "cid": lambda t: work(t)})
    assert twins.num_orders == others.num_orders and twins.num_states < others.num_states
    assert ({ended(one, twins.writers): one.orders for one in twins.outcomes}
            == {ended(one, others.writers): one.orders for one in others.outcomes})
    for one in twins.outcomes:
        assert tuple(turn.writer for turn in twins.replay(one.number)) == one.order


def test_a_table_may_end_without_rows() -> None:
    exploration = dn.explore(account(), {"ann": lambda t: t.delete("id = 1")})
    assert [one.rows.num_rows for one in exploration.outcomes] == [0]


@pytest.mark.parametrize("depth", [None, 2])
def test_orders_are_drawn(depth: int | None) -> None:
    works = {"ann": withdraw, "ben": withdraw}
    every = dn.explore(account(), works, "n >= 0")
    drawn = dn.explore(account(), works, "n >= 0", orders=60, seed=1, depth=depth)
    assert drawn.is_sampled and drawn.num_orders == 60 and "60 orders were drawn (seed 1)" in drawn.left_out
    assert {ended(one, drawn.writers) for one in drawn.outcomes} <= {
        ended(one, every.writers) for one in every.outcomes}
    assert {one.version for one in drawn.violations} == {2}
    again = dn.explore(account(), works, "n >= 0", orders=60, seed=1, depth=depth)
    assert [(one.orders, one.order) for one in again.outcomes] == [
        (one.orders, one.order) for one in drawn.outcomes]
    for one in drawn.outcomes:
        assert tuple(turn.writer for turn in drawn.replay(one.number)) == one.order


def test_levels_are_compared() -> None:
    works = {"ann": lambda t: t.append({"id": [9], "n": [9]}), "ben": lambda t: t.delete("id = 1")}
    comparison = dn.explore(table(), works).compare()
    assert {level: len(one.outcomes) for level, one in comparison.explorations.items()} == {
        "Serializable": 2, "WriteSerializable": 1, "SnapshotIsolation": 1}
    assert list(dn.explore(table(), works).compare("WriteSerializable").explorations) == ["WriteSerializable"]
    assert "Grid" in str(comparison) and "WriteSerializable" in repr(dn.explore(
        table(), works, isolation="WriteSerializable"))


def test_remedies_are_tried() -> None:
    explored = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "n >= 40")
    tried = {remedy.change.split(":")[0].split(",")[0]: remedy for remedy in explored.remedies()}
    assert {name: remedy.holds for name, remedy in tried.items()} == {
        "isolation='WriteSerializable'": False, "isolation='SnapshotIsolation'": False,
        "each writer as one transaction": False, "each writer under a lock": False}
    locked = tried["each writer under a lock"]
    assert locked.why == "it breaks in the order ann ×4, ben ×4"
    assert locked.exploration.num_orders == 8  # who waits begins to at any turn

    def careful(t: Any) -> None:
        if t.to_arrow()["n"][0].as_py() >= 60:
            t.update({"n": "n - 60"}, "id = 1")

    explored = dn.explore(account(), {"ann": careful, "ben": careful}, "n >= 0")
    assert [remedy.holds for remedy in explored.remedies()] == [False, False, True, True]

    def by_itself(t: Any) -> None:
        with t.transaction() as txn:
            withdraw(txn)

    explored = dn.explore(account(), {"ann": by_itself, "ben": withdraw}, "n >= 40")
    assert "ann cannot work so" in [one.why[:18] for one in explored.remedies()]
    with pytest.raises(InvalidArgument, match="nothing to keep"):
        dn.explore(account(), [withdraw]).remedies()


def test_the_table_stays_as_it_is(tmp_path: Any) -> None:
    made = dn.create(tmp_path / "t", ROWS)
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
    dn.explore(made, {"ann": lambda t: t.optimize(), "ben": lambda t: t.delete("id > 1"),
                      "cid": lambda t: t.overwrite(ROWS)})
    assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()) == before
    assert made.history().to_pandas().shape[0] == 1 and made.count() == 3


def test_a_writer_that_looks_at_versions_is_known_by_them() -> None:
    seen = set()

    def look(t: Any) -> None:
        seen.add(t.append({"id": [8], "n": [8]}).version)
        if t.history()[0].version == 2:
            t.delete("id = 8")

    explored = dn.explore(account(), {"ann": look, "ben": lambda t: t.append({"id": [9], "n": [9]})})
    assert seen == {1, 2}
    assert {tuple(rows.to_pydict()["id"]) for one in explored.outcomes if (rows := one.rows)} == {
        (1, 8, 9), (1, 9)}


LOOKS: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": lambda t, result: result.version, "number": lambda t, result: int(result),
    "sum": lambda t, result: result + 0, "text": lambda t, result: f"{result}",
    "equal": lambda t, result: next(n for n in range(9) if result == n),
    "less": lambda t, result: next(n for n in range(9) if not n < result),
    "as_of": lambda t, result: t.as_of(result).version, "log": lambda t, result: t.log.history()[0].version,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_result_is_seen_however_it_is_looked_at(look: str) -> None:
    def work(t: Any) -> None:
        seen = int(LOOKS[look](t, t.append({"id": [8], "n": [8]})))
        t.append({"id": [100 + seen], "n": [0]})

    explored = dn.explore(account(), {"ann": work, "ben": lambda t: t.append({"id": [9], "n": [9]})})
    assert {row["id"] for one in explored.outcomes if one.rows for row in one.rows.to_pylist()} >= {101, 102}


def test_a_writer_may_look_at_versions_in_an_order_that_was_not_drawn() -> None:
    """A sample is played on beyond what breaks the invariant, as it was not drawn."""
    def looks_unless_all_are_done(t: Any) -> None:
        result = t.append({"id": [2], "n": [2]})
        if t.count("id = 3") and not t.count("id = 4"):
            int(result)

    works = {"ann": looks_unless_all_are_done, "ben": lambda t: t.append({"id": [3], "n": [-1]}),
             "cid": lambda t: t.append({"id": [4], "n": [4]})}
    broken = [dn.explore(account(), works, "n >= 0", orders=1, seed=seed).violations for seed in range(8)]
    assert all(len(one) == 1 for one in broken)


def test_a_writer_may_look_at_versions_in_the_part_of_another_of_the_same_work() -> None:
    manager = dn.locks.LockManager()

    def looks_if_first(t: Any) -> None:
        is_first = manager.new_transaction().try_lock_exclusive(1, b"never released", 0).is_held
        result = t.append({"id": [2], "n": [2]})
        if is_first:
            t.append({"id": [100 + int(result)], "n": [0]})

    explored = dn.explore(account(), {"ann": looks_if_first, "ben": looks_if_first})
    assert {frozenset(one.commits.items()) for one in explored.outcomes} == {
        frozenset({("ann", 2), ("ben", 1)}), frozenset({("ann", 1), ("ben", 2)})}


# -- bounds, and what is refused -----------------------------------------------------------------------


def test_a_limit_says_what_was_left_out() -> None:
    works = {"ann": withdraw, "ben": withdraw}
    cut = dn.explore(account(), works, max_states=5)
    assert "more than 5 states" in cut.left_out and cut.num_states == 5 and "more than 5" in str(cut)
    assert "the time was over" in dn.explore(account(), works, seconds=1e-9).left_out


def test_an_interrupt_shows_what_was_explored() -> None:
    runs = []

    def work(t: Any) -> None:
        runs.append(1)
        if len(runs) == 5:
            raise KeyboardInterrupt
        withdraw(t)

    explored = dn.explore(account(), {"ann": work, "ben": withdraw})
    assert "it was interrupted" in explored.left_out and explored.num_states > 1


def test_waiting_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(t: Any) -> None:
        dn.retry(lambda: t.update({"n": "n + 1"}), pause=3600)

    explored = dn.explore(account(), {"ann": work, "ben": lambda t: work(t)})
    assert [one.rows.to_pydict()["n"] for one in explored.outcomes if one.rows] == [[102]]


def test_a_clustered_table_is_optimized_in_the_same_way_at_every_run() -> None:
    """The id of the cube that its files belong to is another one each time."""
    explored = dn.explore(table(cluster_by=["id"]), {"ann": lambda t: t.optimize(), "ben": withdraw})
    assert explored.outcomes[0].rows is not None and explored.outcomes[0].rows.num_rows == 3


def test_a_writer_may_end_its_thread_by_an_exit() -> None:
    explored = dn.explore(account(), {"ann": lambda t: exit(3), "ben": withdraw})
    assert [(one.failed, one.committed) for one in explored.outcomes] == [({"ann": "SystemExit"}, ("ben",))]


def test_a_mistake_of_a_writer_is_shown_with_its_reason() -> None:
    explored = dn.explore(account(), {"ann": lambda t: 1 / 0, "ben": withdraw})
    assert "✕ ann raised ZeroDivisionError: division by zero" in str(explored)
    lost = dn.explore(account(), {"ann": withdraw, "ben": withdraw})
    assert any(one.failed for one in lost.outcomes) and "raised" not in str(lost)


def test_values_are_short_when_they_are_looked_at() -> None:
    explored = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "n >= 0")
    assert repr(explored.replay(0)[0]) == "<ann reads v0>"
    assert repr(explored.violations[0]).startswith("<Violation with v2, by the order ann")
    for one in (*explored.outcomes, *explored.remedies()):
        assert len(repr(one)) < 200 and str(one) in repr(one)


def test_bad_arguments() -> None:
    with account().transaction() as txn, pytest.raises(InvalidArgument, match="found TableTransaction"):
        dn.explore(txn, [withdraw])
    with pytest.raises(InvalidArgument, match="explore takes a table or a catalog"):
        dn.explore("path", [withdraw])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"explore takes a list or a dict .* dn\.explore\(table"):
        dn.explore(account(), [])
    with pytest.raises(InvalidArgument, match="isolation='serial' is not one of"):
        dn.explore(account(), [withdraw], isolation="serial")
    for name in ("orders", "depth", "seconds", "max_states"):
        with pytest.raises(InvalidArgument, match=f"{name}=0 is not a"):
            dn.explore(account(), [withdraw], **{name: 0})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="seed='a' is not a whole number"):
        dn.explore(account(), [withdraw], seed="a")  # type: ignore[arg-type]
    with pytest.raises(IllegalStateError):
        dn.explore(account().as_of(0), [withdraw])
    with pytest.raises(InvalidArgument, match="no invariant"):
        dn.explore(account(), [withdraw]).check()


def test_row_levels_are_explored_compared_and_raced() -> None:
    """By the argument, and without it by the option or the table's property."""
    writers = {"ann": lambda t: t.delete("id = 1"), "ben": lambda t: t.delete("id = 2")}
    rows = {"id": [1, 2, 3]}
    made = [dn.create(MemoryStore(), rows, properties={
                "delta.enableDeletionVectors": True, "deltanb.rowLevelConcurrency": level})
            for level in ("off", "all")]
    for table, own in zip(made, ("off", "all"), strict=True):
        for asked in (None, "off", "vectors"):
            explored = dn.explore(table, writers, row_level=asked)
            passes = (asked or own) != "off"
            assert explored.row_level == (asked or own)
            assert (len(explored.outcomes) == 1) is passes
            assert ("row level: " in str(explored)) is passes
    with dn.set_options(row_level="all"):
        assert dn.explore(made[0], writers).row_level == "all"
        assert dn.explore(made[0], writers, row_level="off").row_level == "off"
    compared = dn.explore(made[0], writers).compare(row_level=["off", "values", "all"]).explorations
    assert {name: len(one.outcomes) for name, one in compared.items()} == {"off": 3, "values": 3, "all": 1}
    both = ["Serializable", "WriteSerializable"]
    compared = dn.explore(made[0], writers).compare(both, "all").explorations
    assert list(compared) == ["Serializable, all", "WriteSerializable, all"]
    assert set(dn.race(made[0], writers, row_level="all").outcomes.values()) == {1, 2}
    for call in (dn.explore, dn.race):
        with pytest.raises(InvalidArgument, match="row_level='rows' is not one of off, statistics"):
            call(made[1], writers, row_level="rows")
