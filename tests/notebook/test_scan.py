"""The picture of a scan: which files are opened, and why the others are not."""

from __future__ import annotations

import pytest

from deltanb.log.skipping.explain import explain
from deltanb.notebook import bundle
from deltanb.notebook.drawing import scan as drawing
from tests.log.test_explain import flights
from tests.log.test_generated_pruning import days, snapshot_of
from tests.notebook.looks import Page, assert_consistent, assert_golden


def test_partitions_and_statistics(update_golden: bool) -> None:
    plan = explain(flights(), "month < 3 AND delay >= 30 AND speed > 5")
    assert_consistent(plan)
    assert_golden(plan, "scan", update_golden)
    assert "opens 1 of 6 files" in repr(plan)


def test_generated_columns(update_golden: bool) -> None:
    snapshot = snapshot_of({"g": ("date", "CAST(ntz AS DATE)")},
                           days("2014-05-01", "2014-05-02", "2014-05-03"))
    plan = explain(snapshot, "ntz >= '2014-05-02 23:00:00' AND soundexx(s) = 'a'", name="days")
    assert_consistent(plan)
    assert_golden(plan, "scan_generated", update_golden)


def test_nothing_spared(update_golden: bool) -> None:
    assert_golden(explain(flights()), "scan_whole", update_golden)


def test_steps_are_bars_as_long_as_what_they_left() -> None:
    page = Page(bundle.mimebundle(explain(flights(), "month < 3 AND delay >= 30"))["text/html"])
    bars = [(attrs["class"], attrs["style"]) for tag, attrs in page.tags if tag == "i"]
    assert bars == [
        ("dnb-left", "width:100%"), ("dnb-left", "width:66.7%"), ("dnb-spared", "width:33.3%"),
        ("dnb-left", "width:16.7%"), ("dnb-spared", "width:50%")]


@pytest.mark.parametrize("where", [None, "soundexx(carrier) = 'A'"])
def test_a_scan_that_spares_nothing_draws_no_bars(where: str | None) -> None:
    page = Page(bundle.mimebundle(explain(flights(), where))["text/html"])
    assert "dnb-bars" not in [attrs.get("class") for _, attrs in page.tags]
    assert "none skipped" in page.text


def test_one_of_very_many_is_a_bar_that_can_be_seen() -> None:
    assert drawing._percent(1, 10**6) == str(drawing.LEAST)
