"""The map of conflicts, shown: counts as shades and numbers, tables beside them, in every form."""

from __future__ import annotations

import json
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from deltanb.errors import MissingDependency
from deltanb.notebook.drawing.colors import color, variables
from deltanb.notebook.drawing.heat_map import MOST, strength
from deltanb.notebook.views.conflict_map import MAX_NAMES, panels_of
from deltanb.observe.conflict_map import ConflictMap
from deltanb.observe.meetings import SPOTS, Contender, Meeting, Meetings
from deltanb.observe.verify.report import BlindSpot
from deltanb.options import set_options
from tests.notebook.looks import assert_consistent, assert_golden_drawing, drawn_forms
from tests.notebook.samples import TIME
from tests.notebook.test_colors import TEXT_CONTRAST, contrast, mixed

WRITERS = ("etl-a", "etl-b", "nightly-compaction", "ann")


def met(at: int, winner: str, loser: str, outcome: str = "passed", **more: Any) -> Meeting:
    operations = {"nightly-compaction": "OPTIMIZE", "ann": "DELETE"}
    sides = (Contender(name, operations.get(name, "MERGE"), version, TIME + at * 3_600_000)
             for name, version in ((winner, at), (loser, None if outcome == "failed" else at + 1)))
    return Meeting(*sides, outcome, "" if outcome == "passed" else "append", (9 + at) % 24, **more)


def raced() -> ConflictMap:
    """A compaction that loses to two jobs, and a person who would have."""
    meetings = [met(at, WRITERS[at % 2], "nightly-compaction", "failed" if at % 3 == 0 else "passed",
                    wasted=1_200_000_000 if at % 3 == 0 and at else None) for at in range(12)]
    meetings += [met(at, "etl-b", "ann", "would fail") for at in range(2)]
    meetings += [met(at, "ann", "etl-a") for at in range(3)]
    spots = tuple(BlindSpot(kind, versions, "", SPOTS[kind])
                  for kind, versions in (("read-version", (3, 9, 12, 13, 14, 15)), ("journal", ())))
    return ConflictMap(Meetings("orders", tuple(meetings), 31, 14, 4, blind_spots=spots), (0, 30))


def crowd(writers: int) -> ConflictMap:
    meetings = [met(at, f"writer {at % writers}", f"writer {at * 7 % writers}", "failed" if at % 5 == 0 else
                    "passed", wasted=at) for at in range(5 * writers)]
    return ConflictMap(Meetings("orders", tuple(meetings), 9, 9, 9), (0, 8))


def test_a_map_of_some_writers(update_golden: bool) -> None:
    conflicts = raced()
    page = assert_consistent(conflicts)
    assert_golden_drawing(conflicts, "conflict_map", update_golden)
    plain = str(conflicts)
    assert plain.startswith("Conflicts orders  v0 to v30  31 commits  17 races  ✕ 4 lost  ? 2 would fail\n")
    assert "thrown away: at least 3.6 GB in 4 failed transactions" in plain
    for words in ("etl-a", "nightly-compaction", "✕ 2", "most races at 09 h", "read-version"):
        assert words in plain and words in page.text
    assert "v3, v9, v12, v13 and 2 more" in page.text


def test_a_history_in_which_nobody_met(update_golden: bool) -> None:
    conflicts = ConflictMap(Meetings("ducks", (), 3, 0, 0), (0, 2))
    page = assert_consistent(conflicts)
    assert_golden_drawing(conflicts, "conflict_map_empty", update_golden)
    assert "no two transactions are known to have run at the same time" in page.text
    assert not page.drawn


def test_many_writers_share_a_row_and_none_is_lost_from_the_sums() -> None:
    for writers in (MAX_NAMES, MAX_NAMES + 1, MAX_NAMES + 2, 300):
        conflicts = crowd(writers)
        assert_consistent(conflicts)
        drawn_forms(conflicts)
        heat = panels_of(conflicts)[0]
        assert len(heat.rows) <= MAX_NAMES + 1 and len(heat.columns) <= MAX_NAMES + 1
        assert any(name.endswith(" more") for name in heat.rows) == (writers > MAX_NAMES + 1)
        assert sum(cell.number for cell in heat.cells.values()) == conflicts.total.races
        assert sum(cell.failed for cell in heat.cells.values()) == conflicts.total.lost


def test_hostile_names_are_shown_and_do_nothing() -> None:
    name = "<script>alert(1)</script>\x1b[2J\u202e s3://key:secret@lake"
    conflicts = ConflictMap(Meetings(name, tuple(met(at, name, name, "failed") for at in range(3)), 3, 3, 3))
    assert_consistent(conflicts)
    _, spec, svg = drawn_forms(conflicts)
    for form in (json.dumps(spec), svg, str(conflicts), *conflicts._repr_mimebundle_().values()):
        assert "\x1b" not in form and "secret" not in form
    for form in (svg, conflicts._repr_mimebundle_()["text/html"]):
        assert "<script>" not in form
    ElementTree.fromstring(svg)


@pytest.mark.parametrize("dark", [False, True])
def test_words_on_the_strongest_shade_can_be_read(dark: bool) -> None:
    scheme = dict(one[2:].split(":") for one in variables(dark).split(";"))
    shade = mixed(color("append"), scheme["g"], MOST)
    for words in (scheme["t"], scheme["x"]):
        assert contrast(words, shade) >= TEXT_CONTRAST


def test_shades_rise_with_their_numbers_and_end_at_the_bound() -> None:
    shades = [strength(number, 100) for number in range(1, 101)]
    assert shades == sorted(shades) and shades[0] > 0 and shades[-1] == MOST


def test_no_colour_where_none_is_asked_for() -> None:
    with set_options(colors="plain"):
        drawn_forms(raced())


def test_a_chart_without_altair_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependency, match=r"deltanb\[notebook\]"):
        _ = raced().chart
    assert raced().svg.startswith("<svg") and raced().spec["vconcat"]


def test_an_equal_map_is_of_equal_meetings() -> None:
    assert raced() == raced()
    assert raced() != crowd(3)
