"""Transactions of several tables race on purpose, and the timeline of a catalog shows all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.observe.catalog_timeline import CatalogTimeline, CatalogTrack
from deltanb.observe.race import CatalogRace
from deltanb.options import set_options
from tests.notebook.looks import assert_golden_drawing, counted_ids, drawn_forms
from tests.notebook.samples import TIME


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[dn.Catalog]:
    set_options(clock=lambda: TIME, new_id=counted_ids(), user_name="ada")
    with dn.Catalog(f"sqlite:///{tmp_path}/shop.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})
        catalog.create_table("shop.totals", {"orders": [2], "sum": [30]})
        catalog.create_table("shop.rates", {"rate": [1]})
        yield catalog


def order(txn: Any) -> None:
    """Adds an order and keeps the total."""
    txn.table("shop.orders").append({"id": [9], "price": [30]})
    txn.table("shop.totals").update({"sum": "sum + 30"})


def note(txn: Any) -> None:
    """Adds an order alone, which nobody minds."""
    txn.table("shop.orders").append({"id": [8], "price": [0]})


def audit(txn: Any) -> None:
    """Reads both tables and writes a third."""
    sums = [txn.table(f"shop.{name}").to_arrow()[column].to_pylist()
            for name, column in (("orders", "price"), ("totals", "sum"))]
    txn.table("shop.rates").overwrite({"rate": [sum(sums[0]) - sum(sums[1])]})


def agrees(shop: dn.Catalog) -> bool:
    both = shop.snapshot(["shop.orders", "shop.totals"])
    return sum(both["shop.orders"].to_arrow()["price"].to_pylist()) == \
        both["shop.totals"].to_arrow()["sum"][0].as_py()


# -- races -----------------------------------------------------------------------------------------------


def test_all_have_read_before_the_first_one_commits(shop: dn.Catalog) -> None:
    result = dn.race(shop, {"ann": order, "ben": order, "cid": note})
    assert isinstance(result, CatalogRace) and list(result.outcomes) == ["ann", "ben", "cid"]
    assert (result.outcomes["ann"], result.outcomes["cid"]) == (4, 5)
    error = result.outcomes["ben"]
    assert isinstance(error, errors.ConcurrentAppendException) and error.conflict.table == "shop.totals"
    assert shop.table("shop.orders").version == 2 and agrees(shop)
    assert [entry.principal for entry in shop.history(2)] == ["cid", "ann"]
    assert {(track.who, track.writer, track.version, track.reason) for track in result.failed} == {
        ("ben", "shop.orders", 4, None), ("ben", "shop.totals", 4, "CONCURRENT_APPEND")}


def test_one_after_the_other(shop: dn.Catalog) -> None:
    result = dn.race(shop, {"ann": order, "ben": order}, order="serial")
    assert result.outcomes == {"ann": 4, "ben": 5} and agrees(shop)


@pytest.mark.parametrize(("turns", "outcomes"), [
    (["ben", "ann", "ben"], ["append", 4]), ([0, 1, 0], [4, "append"]), ([0, 0, 1], [4, 5]), ([], [4, 5]),
    ([1, 1, 0], [5, 4]),
])
def test_the_order_is_the_one_that_was_asked_for(
    shop: dn.Catalog, turns: list[Any], outcomes: list[Any]
) -> None:
    result = dn.race(shop, {"ann": order, "ben": order}, turns)
    outcome_names = ["append" if isinstance(outcome, errors.ConcurrentAppendException) else outcome
                     for outcome in result.outcomes.values()]
    assert outcome_names == outcomes and agrees(shop)


def test_who_read_only_what_another_changed_is_refused(shop: dn.Catalog) -> None:
    result = dn.race(shop, {"ann": order, "audit": audit})
    assert isinstance(result.outcomes["audit"], errors.DeltaConcurrentModificationException)
    assert dn.race(shop, {"audit": audit}).outcomes == {"audit": 5}
    assert shop.table("shop.rates").to_arrow()["rate"].to_pylist() == [0]


def test_writers_that_do_nothing_or_fail_are_seen(shop: dn.Catalog) -> None:
    def fails(txn: Any) -> None:
        note(txn)
        raise ValueError("changed my mind")

    before = shop.store.instant()
    result = dn.race(shop, {"idle": lambda txn: txn.table("shop.rates").to_arrow(), "fails": fails})
    assert result.outcomes["idle"] is None and isinstance(result.outcomes["fails"], ValueError)
    assert shop.store.instant() == before
    assert str(result) == ("Timeline default  no transactions\n"
                            "idle committed nothing\n✕ fails raised ValueError: changed my mind")


@pytest.mark.parametrize(("writers", "says"), [
    ({}, "one at least"), ({"ann": 5}, "a callable that takes a transaction of the catalog, found int"),
    ({3: order}, "a writer's name is a string"),
])
def test_mistakes_are_named_before_anything_runs(shop: dn.Catalog, writers: Any, says: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=says):
        dn.race(shop, writers)
    assert shop.store.instant() == 3


def test_a_transaction_of_a_catalog_within_the_race_of_a_table_is_not_stopped(
    shop: dn.Catalog, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "alone", {"id": [1]})

    def both(table: dn.DeltaTable) -> None:
        with shop.transaction() as txn:
            order(txn)
        table.append({"id": [2]})

    assert dn.race(table, {"ann": both, "ben": both}).outcomes["ann"] == 1


# -- the timeline ------------------------------------------------------------------------------------------


def timeline_of(shop: dn.Catalog) -> CatalogTimeline:
    """Transactions of one table and of several, one that lost a race and one that failed."""
    dn.race(shop, {"ann": order, "ben": note, "cid": order})
    timeline: CatalogTimeline = shop.timeline()
    return timeline


@pytest.mark.parametrize("name", ["timeline_catalog", "timeline_catalog_race"])
def test_golden(name: str, shop: dn.Catalog, update_golden: bool) -> None:
    whole = timeline_of(shop)
    shown = whole if name == "timeline_catalog" else dn.race(shop, {"ann": order, "ben": order})
    assert_golden_drawing(shown, name, update_golden)


def test_tables_of_one_transaction_are_tied(shop: dn.Catalog) -> None:
    timeline = timeline_of(shop)
    _, spec, svg = drawn_forms(timeline)
    ties = spec["datasets"]["ties"]
    assert sorted((tie["v"], tie["lost"]) for tie in ties) == [(4, False), (4, True)]
    assert all(tie["y"] < tie["to"] for tie in ties)
    upright = r'<line x1="[\d.]+" x2="[\d.]+" y1="[\d.]+" y2="[\d.]+"( stroke-dasharray="6 4")?/>'
    ties = re.findall(upright, svg)
    assert sorted(ties) == ["", ' stroke-dasharray="6 4"']  # the second one failed
    assert not shop.timeline(1, 2).scene.ties


def test_lanes_are_tables_in_the_order_in_which_they_came(shop: dn.Catalog) -> None:
    lanes = timeline_of(shop).scene.lanes.lanes
    assert [lane.name for lane in lanes] == ["shop.orders", "shop.totals", "shop.rates"]


def test_what_a_track_says(shop: dn.Catalog) -> None:
    commits = timeline_of(shop).commits
    tracks = [track for track in commits if track.version == 4]
    assert [(t.writer, t.pointer, t.operation, t.kind, t.who, t.read_version)
            for t in tracks if isinstance(t, CatalogTrack)] == [
        ("shop.orders", "v1", "WRITE", "append", "ann", 3),
        ("shop.totals", "v1", "UPDATE", "rewrite", "ann", 3)]
    (lost,) = [track for track in commits if track.version == 5]
    assert lost.lost == (4,) and lost.read_version == 3


def test_another_session_sees_what_was_committed_and_no_attempts(shop: dn.Catalog) -> None:
    timeline_of(shop)
    with dn.Catalog(shop.store.database.place, shop.warehouse.uri) as other:
        timeline = other.timeline()
        assert len(timeline.commits) == 6 and not timeline.failed
        assert {track.read_version for track in timeline.commits if track.version == 4} == {2}


def test_bounds_are_numbers_or_times(shop: dn.Catalog) -> None:
    timeline_of(shop)
    assert [track.version for track in shop.timeline(4).commits] == [4, 4, 5]
    assert [track.version for track in shop.timeline(2, 3).commits] == [2, 3]
    assert len(shop.timeline(end=TIME).commits) == 6 and not shop.timeline(end=0).tracks
    for wrong in (True, "yesterday"):
        with pytest.raises(errors.InvalidArgument):
            shop.timeline(wrong)


def test_a_dropped_table_keeps_its_lane_and_a_renamed_one_has_its_new_name(shop: dn.Catalog) -> None:
    dn.race(shop, {"audit": audit})
    shop.drop_table("shop.rates")
    shop.rename_table("shop.orders", "shop.bills")
    text = str(shop.timeline())
    assert "shop.rates DROP TABLE" in text and "shop.bills v0" in text and "shop.orders" not in text


def test_an_iceberg_table_has_a_lane(shop: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    shop.create_table("shop.events", {"id": [1]}, format="iceberg")
    with shop.transaction() as txn:
        order(txn)
        txn.table("shop.events").append({"id": [2]})
    timeline = shop.timeline()
    newest = shop.store.instant()
    (track,) = [t for t in timeline.commits if (t.writer, t.version) == ("shop.events", newest)]
    assert (track.operation, track.kind, track.added) == ("APPEND", "append", 1)
    drawn_forms(timeline)


def test_a_catalog_without_transactions_says_so(tmp_path: Path) -> None:
    with dn.Catalog(f"sqlite:///{tmp_path}/empty.db", warehouse=tmp_path / "lake") as catalog:
        assert str(catalog.timeline()) == "Timeline default  no transactions"


def test_many_transactions_keep_to_the_bounds_of_all_pictures() -> None:
    """Of three thousand transactions on forty tables, made by hand."""
    tracks = [CatalogTrack(at, at - 1, "MERGE", f"shop.table{(at + n) % 40}", "rewrite", 3, 1, 9, 3,
                           txn_id=str(at), pointer="v7", who="ada")
              for at in range(1, 3_001) for n in range(1 + at % 3)]
    drawn_forms(CatalogTimeline(tracks, "default"))


def test_who_waits_for_a_lock_gives_the_turn_on(shop: dn.Catalog) -> None:
    """Ben waits until ann has committed; he has read before, so what he does is a thing that nobody minds."""
    manager = LockManager()

    def under_lock(txn: Any) -> None:
        with manager.new_transaction() as locks:
            locks.lock_exclusive(1, b"orders")
            note(txn)
            txn.commit()

    race = dn.race(shop, {"ann": under_lock, "ben": under_lock})
    first, second = race.outcomes.values()
    assert second == first + 1
    (wait,) = race.waits
    assert (wait.writer, wait.lock, wait.start, wait.end, wait.is_granted) == (
        "ben", "1:orders", first - 1, first, True)
    assert {at: mark.words for at, mark in race.marks.items()} == {second: "waited for 1:orders (exclusive)"}
    assert "‖ waited for 1:orders (exclusive)" in race.svg
