"""Work that ``dn.retry`` does again: which run a commit belongs to, and how the timeline ties the runs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.notebook.drawing import html
from deltanb.notebook.drawing.pens import Fixed
from deltanb.notebook.drawing.timeline_lanes import Lanes
from deltanb.observe.timeline import CommitTimeline, Track
from deltanb.testing import MemoryStore
from deltanb.transaction.journal import journal_of
from deltanb.transaction.runs import WorkRun, running
from tests.notebook.looks import assert_consistent

HTML = "text/html"
SVG = "{http://www.w3.org/2000/svg}"


def by(who: str, work: Callable[[], object]) -> None:
    """Somebody else's work, which belongs to no run of ours."""
    def go() -> None:
        with dn.set_options(user_name=who):
            work()
    Context().run(go)


class Loses:
    """Work that reads, and before it commits lets a rival be first, as often as it is told to."""

    def __init__(self, begin: Callable[[], Any], do: Callable[[Any], object], rival: Callable[[], object],
                 times: int) -> None:
        self.begin, self.do, self.rival, self.left = begin, do, rival, times

    def __call__(self) -> None:
        with self.begin() as txn:
            self.do(txn)
            if self.left:
                self.left -= 1
                by("zoe", self.rival)


@pytest.fixture
def table() -> dn.DeltaTable:
    dn.set_options(user_name="ada")
    return dn.create(MemoryStore("memory:///lake/coins"), {"n": [0]})


def lost(table: dn.DeltaTable, times: int, attempts: int = 10) -> None:
    def do(txn: Any) -> None:
        txn.update({"n": "n + 100"})

    dn.retry(Loses(table.transaction, do, lambda: table.update({"n": "n + 1"}), times), attempts, pause=0)


def runs(table: dn.DeltaTable) -> list[tuple[str, int | None]]:
    return [(attempt.outcome, attempt.run and attempt.run.number) for attempt in journal_of(table.log)]


# -- what the session remembers --------------------------------------------------------------------


def test_the_journal_knows_the_run_of_each_attempt(table: dn.DeltaTable) -> None:
    lost(table, 2)
    assert runs(table) == [("committed", None), ("committed", None), ("failed", 1), ("committed", None),
                           ("failed", 2), ("committed", 3)]
    assert len({attempt.run.work for attempt in journal_of(table.log) if attempt.run}) == 1
    table.append({"n": [1]})
    assert runs(table)[-1] == ("committed", None), "what comes after it is not part of it"
    assert running.get() is None


def test_two_works_are_two(table: dn.DeltaTable) -> None:
    lost(table, 1)
    lost(table, 1)
    works = [attempt.run.work for attempt in journal_of(table.log) if attempt.run]
    assert works == [works[0]] * 2 + [works[2]] * 2 and works[0] != works[2]


def test_a_work_within_a_work_is_its_own(table: dn.DeltaTable) -> None:
    def outer() -> None:
        lost(table, 1)
        table.append({"n": [1]})

    dn.retry(outer, pause=0)
    inner, again, after = (attempt.run for attempt in list(journal_of(table.log))[2:5])
    assert inner and again and after and inner.work == again.work != after.work and after.number == 1


def test_what_failed_for_good_has_its_runs_too(table: dn.DeltaTable) -> None:
    with pytest.raises(DeltaConcurrentModificationException):
        lost(table, 9, attempts=2)
    assert [run for run in runs(table) if run[1]] == [("failed", 1), ("failed", 2)]
    description = "\n".join(table.timeline().scene.describe(table.timeline().failed[0]))
    assert "attempt 1 of 2 of the same work" in description and "committed as" not in description


# -- words -----------------------------------------------------------------------------------------


def test_text_and_tooltips_count_the_attempts(table: dn.DeltaTable) -> None:
    lost(table, 2)
    timeline = table.timeline()
    lines = [line.split("  ")[0:2] for line in str(timeline).split("\n") if "attempt " in line]
    assert lines == [["* v3 ← v2", "UPDATE, attempt 3 of 3"], ["✕ v2 ← v1", "UPDATE, attempt 2 of 3"],
                     ["✕ v1 ← v0", "UPDATE, attempt 1 of 3"]]
    titles = {title.text for title in ElementTree.fromstring(timeline.svg).iter(f"{SVG}title") if title.text}
    counted_lines = [line for title in titles for line in title.split("\n") if "of the same work" in line]
    assert sorted(counted_lines) == ["attempt 1 of 3 of the same work, committed as v3",
                                     "attempt 2 of 3 of the same work, committed as v3",
                                     "attempt 3 of 3 of the same work"]
    page = assert_consistent(timeline)
    assert "the same work again" in page.text
    assert "attempt 1 of 3" in page.text and "zoe2 of 3" in page.text, "a word is not repeated along a lane"


def test_work_that_was_done_once_is_told_as_any_other(table: dn.DeltaTable) -> None:
    lost(table, 0)
    shown = table.timeline()
    assert journal_of(table.log)[-1].run is not None
    for form in (str(shown), shown.svg, shown._repr_mimebundle_()[HTML], str(shown.spec)):
        assert "attempt " not in form and "again" not in form.replace(html.stylesheet("timeline.css"), "") \
            .replace(".dnb-svg .k-again", "")


# -- lines -----------------------------------------------------------------------------------------


def ties(timeline: CommitTimeline) -> list[dict[str, str]]:
    """The thin lines of the SVG."""
    return [dict(line.attrib) for group in ElementTree.fromstring(timeline.svg).iter(f"{SVG}g")
            if group.get("class") == "k-again" for line in group.iter(f"{SVG}line")]


def test_a_thin_line_leads_from_each_attempt_to_the_next(table: dn.DeltaTable) -> None:
    lost(table, 2)
    timeline = table.timeline()
    one, two, three = (track for track in timeline.tracks if track.run)
    assert [(a.outcome, b.version) for a, b in timeline.scene.again] == [("failed", 2), ("failed", 3)]
    lanes = Lanes(timeline.scene, timeline.tracks, 0, 3, 300)
    (group,) = lanes._linked(Fixed(300))
    drawn = ElementTree.fromstring(group)
    assert drawn.get("stroke-width") == "1" and drawn.get("class") == "k-again"
    assert [(line.get("x1"), line.get("x2")) for line in drawn] == [
        (str(one.version * 100), str(two.start * 100)), (str(two.version * 100), str(three.start * 100))]
    assert len(ties(timeline)) == 2
    assert [(at["v"], at["to"]) for at in timeline.spec["datasets"]["again"]] == [(1, 1), (2, 2)]


def test_runs_are_tied_in_their_own_lane_alone() -> None:
    tracks = [Track(1, 0, "WRITE", "zoe", "append"),
              Track(1, 0, "UPDATE", "ada", "rewrite", outcome="failed", run=WorkRun(1, 1)),
              Track(1, 0, "UPDATE", "ben", "rewrite", outcome="failed", run=WorkRun(2, 1)),
              Track(2, 1, "UPDATE", "ben", "rewrite", run=WorkRun(2, 2)),
              Track(3, 1, "UPDATE", "ada", "rewrite", run=WorkRun(1, 2)),
              Track(4, 3, "MERGE", "ada", "rewrite", run=WorkRun(1, 2))]
    scene = CommitTimeline(tracks, "t").scene
    pairs = {(one.writer, other.writer, other.version) for one, other in scene.again}
    assert pairs == {("ada", "ada", 3), ("ben", "ben", 2)}, "one attempt may hold several commits"
    assert scene.attempt(tracks[5]) == "attempt 2 of 2" and scene.attempt(tracks[0]) == ""


def test_the_line_is_as_legible_as_muted_words() -> None:
    sheet = html.stylesheet("timeline.css")
    assert ".k-again{stroke:var(--dnb-muted);stroke-width:1px}" in sheet
    assert sheet.index(".k-again{") > sheet.index('[class^="k-"]{stroke-width')


# -- catalogs --------------------------------------------------------------------------------------


def test_transactions_of_a_catalog_are_tied_too(tmp_path: Path) -> None:
    dn.set_options(user_name="ada")
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("shop")
    for name in ("orders", "totals"):
        catalog.create_table(f"shop.{name}", {"n": [1]})

    def do(txn: Any) -> None:
        txn.table("shop.orders").update({"n": "n + 10"})
        txn.table("shop.totals").append({"n": [3]})

    rival = lambda: catalog.table("shop.orders").update({"n": "n + 1"})  # noqa: E731
    dn.retry(Loses(catalog.transaction, do, rival, 1), pause=0)
    timeline = catalog.timeline()
    assert {(track.writer, track.outcome, track.run.number) for track in timeline.tracks if track.run} == {
        ("shop.orders", "failed", 1), ("shop.totals", "failed", 1),
        ("shop.orders", "committed", 2), ("shop.totals", "committed", 2)}
    assert sorted(one.writer for one, _ in timeline.scene.again) == ["shop.orders", "shop.totals"]
    first, second = (line for line in str(timeline).split("\n") if "attempt" in line and line[0] in "*✕")
    assert first[0] == "*" and first.endswith("attempt 2 of 2")
    assert second[0] == "✕" and second.endswith("attempt 1 of 2")
    assert "attempt 1 of 2 of the same work, committed as transaction 4" in timeline.svg
    assert len(ties(timeline)) == 2
    assert_consistent(timeline)
