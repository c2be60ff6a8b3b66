"""What a timeline's drawings tell apart, in what order, and how they keep to their width."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from deltanb.notebook.drawing import html, layout
from deltanb.notebook.drawing.pens import Fixed, width_of
from deltanb.notebook.drawing.timeline_html import NARROW, WIDE, windows
from deltanb.notebook.drawing.timeline_lanes import CIRCLE, CROSS, Lanes
from deltanb.notebook.drawing.timeline_strip import WIDEST, Strip
from deltanb.observe.timeline import CommitTimeline, Track
from tests.notebook.looks import Page
from tests.notebook.test_colors import colors, contrast
from tests.notebook.test_timeline import history, race

HTML = "text/html"
SVG = "{http://www.w3.org/2000/svg}"


def groups(timeline: CommitTimeline) -> dict[str, ElementTree.Element]:
    """What is drawn of each transaction, by the first line of its tooltip."""
    by_title = {}
    for group in ElementTree.fromstring(timeline.svg).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and title.text and "lost on the way" not in title.text:
            by_title[title.text.split("\n")[0]] = group
    return by_title


def dashes(group: ElementTree.Element) -> set[str | None]:
    return {line.get("stroke-dasharray") for line in group.iter(f"{SVG}line") if line.get("class") != "h"}


# -- who failed, who went on -------------------------------------------------------------------


def test_a_failure_is_dashed_up_to_a_cross_and_a_race_lost_dotted_up_to_a_circle() -> None:
    drawn = groups(race())
    failed = drawn["DELETE by analyst, read v1: failed, nothing was written"]
    assert failed.get("class") == "k-failed" and dashes(failed) == {"6 4"}
    assert [path.get("d") for path in failed.iter(f"{SVG}path")] == [CROSS]
    went_on = drawn["v4: WRITE by etl-a, read v1"]
    assert went_on.get("class") == "k-append" and dashes(went_on) == {".1 5", None}
    (lost,) = (part for part in went_on.iter(f"{SVG}g") if part.get("class") == "k-lost")
    assert [circle.get("r") for circle in lost] == [str(CIRCLE)] * 2
    assert CROSS not in ElementTree.tostring(went_on, "unicode")
    untouched = drawn["v2: MERGE by etl-b, read v1"]
    assert dashes(untouched) == {None}


def test_reason_and_winner_stand_beside_what_failed() -> None:
    for form in (race().svg, race()._repr_mimebundle_()[HTML]):
        assert re.search(r'<tspan class="x"[^>]*>ConcurrentDeleteRead by compactor</tspan>', form)
    assert "1 transaction failed" in Page(race()._repr_mimebundle_()[HTML]).text
    assert "ConcurrentDeleteRead by compactor" in str(race())  # as far as the line goes


def test_tooltips_say_writer_operation_condition_and_winner() -> None:
    tracks = [*race().tracks, Track(5, 4, "DELETE", "ben", "delete", 0, 1, predicate="month = 6", lost=(4,)),
              Track(4, 3, "UPDATE", "cid", "rewrite", outcome="failed", lost=(4,), reason="CONCURRENT_APPEND",
                    predicate="day = 2")]
    drawn = ElementTree.fromstring(CommitTimeline(tracks, "t").svg)
    titles = [title.text for title in drawn.iter(f"{SVG}title")]
    assert ("UPDATE by cid, read v3: failed, nothing was written\nConcurrentAppend by etl-a at v4\n"
            "where day = 2\nlost v4 to WRITE by etl-a") in titles
    assert ("v5: DELETE by ben, read v4\nwhere month = 6\n+0 −1 files, +0 B −0 B\n"
            "lost v4 to WRITE by etl-a; went on") in titles


def test_what_failed_is_told_by_chart_too() -> None:
    data = race().spec["datasets"]
    (failed,) = (cross for cross in data["crosses"] if cross["failed"])
    for words in ("DELETE by analyst", "ConcurrentDeleteRead by compactor at v3",
                  "lost v2 to MERGE by etl-b"):
        assert words in failed["text"]


# -- colours and words -------------------------------------------------------------------------


def test_the_colours_are_those_of_the_cards() -> None:
    sheet = html.stylesheet("timeline.css")
    assert not re.search(r"#[0-9a-f]{3,8}\b", sheet)
    for kind in ("append", "rewrite", "delete", "optimize"):
        assert f".k-{kind}{{fill:var(--dnb-{kind});stroke:var(--dnb-{kind})}}" in sheet
    used = set(re.findall(r'class="k-\w+" fill="(#\w+)"', history(100).svg))
    palette = re.findall(r"--dnb-(?:append|rewrite|delete|optimize):light-dark\((#\w+)", html.stylesheet())
    assert len(palette) == 4
    assert set(palette) < used and len(used) <= len(palette) + 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["bg", "soft"])
def test_marks_of_what_was_lost_can_be_read(scheme: str, ground: str) -> None:
    sheet = html.stylesheet("timeline.css")
    for sign in ("lost", "failed"):
        (name,) = re.findall(rf"\.k-{sign}{{fill:none;stroke:var\(--dnb-(\w+)\)}}", sheet)
        assert contrast(colors(scheme)[name], colors(scheme)[ground]) >= 4.5


def test_no_word_of_dragging_where_nothing_can_be_dragged() -> None:
    for timeline in (race(), history(25), history(100)):
        assert "drag" not in timeline._repr_mimebundle_()[HTML] + timeline.svg
    assert "drag" not in str(race().spec) and "drag" in str(history(100).spec)
    assert "click on the strip" not in history(50)._repr_mimebundle_()[HTML]
    assert "click on the strip" in history(100)._repr_mimebundle_()[HTML]


def test_a_small_history_has_no_strip_and_no_buttons() -> None:
    for commits in (5, 28):
        page = Page(history(commits)._repr_mimebundle_()[HTML])
        assert "dnb-strip" not in {attrs.get("class") for _, attrs in page.tags}
        assert not {"form", "input"} & {tag for tag, _ in page.tags}


# -- places ------------------------------------------------------------------------------------


def test_lanes_stand_by_first_commit() -> None:
    tracks = [Track(2, 0, "WRITE", "ann", "append"), Track(3, 0, "WRITE", "zoe", "append"),
              *(Track(n, n - 1, "WRITE", "busy", "append") for n in range(4, 9)),
              Track(1, 0, "DELETE", "cid", "delete", outcome="failed", reason="CONCURRENT_APPEND"),
              Track(2, 0, "DELETE", "zoe", "delete", outcome="failed", reason="CONCURRENT_APPEND")]
    scene = CommitTimeline(tracks, "t").scene
    assert scene.order == ["cid", "ann", "zoe", "busy"]
    assert [lane.name for lane in scene.lanes.lanes] == scene.order
    last = windows(history(300).scene)[-1]
    lanes = Lanes(history(300).scene, last.tracks, last.low, last.high, 600)
    assert [band.name for band in lanes.bands] == history(300).scene.order


@pytest.mark.parametrize("width", [300, 620, 1300])
@pytest.mark.parametrize("commits", [3, 12, 30])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_words_lie_on_other_words_and_none_are_cut(width: int, commits: int, seed: int) -> None:
    scene = history(commits, seed, races=0.5).scene
    (window,) = windows(scene)
    lanes = Lanes(scene, window.tracks, window.low, window.high, width)
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for line, row in zip(lanes.lines, lanes.rows.rows, strict=True):
        if line.above is not None:
            taken.setdefault((row, line.above.tier), []).append((line.above.left, line.above.right))
        for words in (line.above, line.beside):
            if words is not None:
                assert words.left >= 0 and words.right <= width
                assert width_of(" ".join(text for text, _ in words.parts)) <= words.right - words.left + 0.1
    for row in taken.values():
        for one, other in itertools.pairwise(sorted(row)):
            assert one[1] <= other[0]


@pytest.mark.parametrize("width", [WIDE, 1000, 1440])
def test_a_hundred_commits_by_four_writers_stay_apart(width: int) -> None:
    """Signs on a row, at most 11 pixels wide, do not touch; and at most sixty versions are seen at once."""
    timeline = CommitTimeline([
        Track(n, max(0, n - 3), "WRITE", f"writer {n % 4}", "append", 1, lost=(n - 1,))
        for n in range(100)], "t")
    scene = timeline.scene
    several = windows(scene)
    assert [len(window.tracks) for window in several] == [50, 50]
    for window in several:
        assert window.high - window.low <= layout.WINDOW
        lanes = Lanes(scene, window.tracks, window.low, window.high, width - 120)
        assert lanes.height <= 4 * 60
        for at in range(lanes.rows.height):
            places = sorted(line.end * lanes.width
                            for line, row in zip(lanes.lines, lanes.rows.rows, strict=True) if row == at)
            assert all(other - one >= 11 for one, other in itertools.pairwise(places))
    page = Page(timeline._repr_mimebundle_()[HTML])
    buttons = [attrs for tag, attrs in page.tags if tag == "input"]
    assert [button["title"] for button in buttons] == ["v0 to v49", "v50 to v99"]
    assert ["checked" in button for button in buttons] == [False, True]


def test_every_window_has_its_places_on_the_axis() -> None:
    scene = history(300).scene
    for window in windows(scene):
        lanes = Lanes(scene, window.tracks, window.low, window.high, 600)
        places = [int(at) for at in re.findall(r">v(\d+)</text>", "".join(lanes.draw(Fixed(600))))]
        assert len(places) >= 4 and all(window.low < at < window.high for at in places)


def test_bars_are_thin_where_there_are_few() -> None:
    for commits in (31, 60, 400):
        strip = Strip(history(commits).scene, -0.5, commits - 0.5, NARROW)
        assert strip.bar * NARROW <= WIDEST == 10
        assert strip.bar < 1 / commits


def test_a_strip_of_nothing_has_no_bars_and_a_line() -> None:
    tracks = [Track(n, n - 1, "SET TBLPROPERTIES", "a", "schema") for n in range(1, 40)]
    strip = Strip(CommitTimeline(tracks, "t").scene, 0.5, 39.5, 500)
    assert strip.words == [] and list(strip.draw(Fixed(500)))
