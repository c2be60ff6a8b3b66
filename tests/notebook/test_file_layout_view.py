"""How values lie in files, shown: bars as text, as a page and as a chart, what a condition opens, bounds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import deltanb as dn
from deltanb.notebook.drawing.file_ranges import Range, state, track
from deltanb.notebook.views.file_layout import ranges_of
from deltanb.observe.file_layout import MAX_BARS, FileLayout
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.notebook.looks import assert_consistent, assert_golden_drawing, drawn_forms

STATS = '{{"numRecords":9,"minValues":{{"n":{0}}},"maxValues":{{"n":{1}}},"nullCount":{{"n":0}}}}'


def layout(where: str | None = "n BETWEEN 20 AND 25", files: int = 8) -> FileLayout:
    """Files that overlap a little, one without statistics and one with NULL alone."""
    builder = TableBuilder(MemoryStore("memory:///lake/orders")).create("n long, note string")
    ranges = [add(f"part-{at:05}.parquet", size=4100 + at, stats=STATS.format(at * 8, at * 8 + 11))
              for at in range(files)]
    nulls = add("part-null.parquet", size=90, stats='{"numRecords":4,"nullCount":{"n":4}}')
    builder.commit(*ranges, add("part-bare.parquet", size=70), nulls)
    return dn.open(builder.store).layout("n", where)


def test_a_layout_with_a_condition(update_golden: bool) -> None:
    made = layout()
    assert_golden_drawing(made, "file_layout", update_golden)
    page = assert_consistent(made)
    plain = str(made)
    assert plain.startswith("Layout orders  n long  v1  10 files  ")
    assert "✓ opens 3 of 10 files" in plain and "1 file without bounds of it, 1 file with NULL alone" in plain
    assert "░" in plain and "█" in plain and "|" in plain
    assert "part-00003.parquet" in page.text and "opened" in page.text


def test_a_layout_without_a_condition(update_golden: bool) -> None:
    made = layout(None)
    assert_golden_drawing(made, "file_layout_whole", update_golden)
    assert "opens" not in str(made) and "░░" not in str(made)


def test_an_empty_one() -> None:
    made = dn.open(TableBuilder(MemoryStore()).create("n long").store).layout("n")
    drawn_forms(made)
    assert "0 files" in str(made)


def test_many_files_are_drawn_as_bars_of_neighbours_and_it_says_so() -> None:
    made = layout("n > 4000", files=1_000)
    drawn_forms(made)
    assert f"1 000 files by least value, as {MAX_BARS} bars of neighbours" in str(made).replace("\u00a0", " ")
    assert len(ranges_of(made).bars) == MAX_BARS
    with set_options(max_rows=3):
        assert "showing 3 of 1" in assert_consistent(made).text


def test_a_chart_has_a_mark_for_each_bar_and_its_stretch() -> None:
    pytest.importorskip("altair", reason="the chart is Altair's")
    spec = layout().chart.to_dict()
    band, bars = spec["layer"]
    values = {name: one["values"] if "values" in one else spec["datasets"][one["name"]]
              for name, one in (("band", band["data"]), ("bars", bars["data"]))}
    assert len(values["bars"]) == 9 and len(values["band"]) == 1
    states = [one["state"] for one in values["bars"]]
    assert states == ["spared"] * 2 + ["opened"] * 2 + ["spared"] * 4 + ["in part"]
    assert len(layout(None).chart.to_dict()["layer"]) == 1


def test_a_picture_says_what_is_opened_without_its_colours() -> None:
    """An outline is each bar's, and what is opened is filled, too."""
    drawn = layout().svg
    rects = re.findall(r"<rect[^>]*class=\"l\"", drawn)
    filled = re.findall(r"<rect(?![^>]*class)[^>]*fill-opacity=\"(?:1\.00|0\.15)", drawn)
    assert len(rects) == 9 and len(filled) == 2 + 1, "two files, and one of the two without a range"


@pytest.mark.parametrize(("opened", "expected"), [(0, "spared"), (2, "in part"), (3, "opened")])
def test_a_bar_is_opened_spared_or_both(opened: int, expected: str) -> None:
    assert state(Range(0, 1, "", 3, opened)) == expected


@pytest.mark.parametrize("low", [0.0, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("high", [0.0, 0.5, 1.0])
def test_a_track_is_as_wide_as_it_is_to_be(low: float, high: float) -> None:
    drawn = track(Range(min(low, high), max(low, high), "", 1, 1), [(low, high)], 20)
    assert len(drawn) == 20 and "█" in drawn


def test_names_of_foreign_tables_do_no_harm() -> None:
    builder = TableBuilder(MemoryStore("memory:///lake/orders")).create("n long, note string")
    builder.commit(add("<script>x\u202e.parquet", size=9, stats=json.dumps(
        {"numRecords": 1, "minValues": {"note": "<b>\u001b[2J"}, "maxValues": {"note": "</svg>"},
         "nullCount": {"note": 0}})))
    made: Any = dn.open(builder.store).layout("note", "note > '<b>'")
    text, spec, svg = drawn_forms(made)
    for form in (text, svg, json.dumps(spec, ensure_ascii=False)):
        assert "\u001b" not in form and "\u202e" not in form
    assert "<b>" not in svg and "<script" not in svg
