"""Lanes of any history: one row where transactions follow each other, and words that nothing runs through."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.notebook.drawing import labels
from deltanb.notebook.drawing.labels import Box, Piece, Sign
from deltanb.notebook.drawing.timeline_html import BROAD, NARROW, WIDE, windows
from deltanb.notebook.drawing.timeline_lanes import ABOVE, TIER, Lanes, Line
from deltanb.observe.catalog_timeline import CatalogTimeline, CatalogTrack
from deltanb.observe.timeline import CommitTimeline, Mark, Track
from deltanb.transaction.runs import WorkRun
from tests.examples import few

NAMES = 120  # pixels that the names of writers take of a cell
WIDTHS = [cell - NAMES for cell in (NARROW, WIDE, BROAD)]
OPERATIONS = (("WRITE", "append"), ("STREAMING UPDATE", "append"), ("DELETE", "delete"), ("MERGE", "rewrite"),
              ("UPDATE", "rewrite"), ("OPTIMIZE", "optimize"), ("SET TBLPROPERTIES", "schema"))
CONDITIONS = ("", "month = 1", "month = 1 AND day = 1 AND carrier = 'UA'", "t.id = s.id AND t.day > '2026'")
REMARKS = ("✓ read", "… not yet", "✕ doubled rows with v3", "delete / read")
LETTER, FOOT = 10, 3  # pixels of words above their foot and below it


# -- histories ---------------------------------------------------------------------------------


@st.composite
def tracks(draw: st.DrawFn, most: int = 14) -> list[Track]:
    """Commits of up to four writers, each having read any earlier version, and failed transactions."""
    made = []
    for version in range(draw(st.integers(2, most))):
        for is_committed in (True, *([False] if draw(st.integers(0, 3)) == 0 else [])):
            operation, kind = draw(st.sampled_from(OPERATIONS))
            read = draw(st.integers(max(0, version - 4), max(0, version - 1)))
            made.append(Track(
                version, read if version else None, operation, draw(st.sampled_from("abcd")), kind,
                draw(st.integers(0, 12)), draw(st.integers(0, 3)),
                outcome="committed" if is_committed else "failed", lost=() if is_committed else (version,),
                reason=None if is_committed else "CONCURRENT_APPEND", txn_id=f"{version}{is_committed}",
                predicate=draw(st.sampled_from(CONDITIONS)),
                run=draw(st.sampled_from([None, None, WorkRun(1, version + 1), WorkRun(2, version + 1)]))))
    return made


@st.composite
def timelines(draw: st.DrawFn) -> CommitTimeline:
    """Timelines of such histories, with remarks on some transactions."""
    made = draw(tracks())
    marks: dict[int | str | None, Mark] = {}
    for track in made:
        if draw(st.integers(0, 2)) == 0:
            mark = Mark.of(draw(st.sampled_from(REMARKS)))
            since = draw(st.sampled_from([None, None, max(0, track.start - 2)]))
            marks[track.version if track.is_committed else track.txn_id] = Mark(mark.words, mark.sign, since)
    return CommitTimeline(made, "ducks", marks)


@st.composite
def catalogs(draw: st.DrawFn) -> CatalogTimeline:
    """Timelines of catalogs whose transactions move one to three tables, or fail to."""
    made = []
    for seq in range(1, draw(st.integers(3, 11))):
        for is_committed in (True, *([False] if draw(st.booleans()) else [])):
            operation, kind = draw(st.sampled_from(OPERATIONS))
            read = draw(st.integers(max(1, seq - 3), max(1, seq - 1)))
            moved = draw(st.sets(st.sampled_from(["shop.orders", "shop.totals", "shop.rates"]), min_size=1))
            for number, name in enumerate(sorted(moved)):
                made.append(CatalogTrack(
                    seq, read, operation, name, kind, 1, 1, txn_id=f"{seq}{is_committed}",
                    outcome="committed" if is_committed else "failed", lost=(),
                    reason=None if is_committed or number else "CONCURRENT_APPEND",
                    pointer=f"v{seq}" if is_committed else "", who=draw(st.sampled_from(["ada", "ben"]))))
    return CatalogTimeline(made, "default")


def lanes_of(timeline: CommitTimeline, width: float) -> Lanes:
    (window,) = windows(timeline.scene)
    return Lanes(timeline.scene, window.tracks, window.low, window.high, width)


# -- what is drawn, in pixels ------------------------------------------------------------------


@dataclass(frozen=True)
class Rectangle:
    what: str
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Rectangle) -> bool:
        return (max(self.left, other.left) < min(self.right, other.right)
                and max(self.top, other.top) < min(self.bottom, other.bottom))


def placed(lanes: Lanes, stretch: float = 1.0) -> Iterator[tuple[Line, int, Box, bool]]:
    for line, row in zip(lanes.lines, lanes.rows.rows, strict=True):
        for box, is_above in ((line.above, True), (line.beside, False)):
            if box is not None:
                yield line, row, box, is_above


def words(lanes: Lanes, stretch: float) -> list[Rectangle]:
    """The words of all transactions where the drawing is ``stretch`` times as wide as it was made for."""
    made = []
    for line, row, box, is_above in placed(lanes):
        at = line.end * lanes.width * stretch
        size = box.right - box.left
        left = at + box.aside if box.aside > 0 else at + box.aside - size
        foot = lanes.places[row] + (-ABOVE - TIER * box.tier if is_above else 4)
        text = " ".join(text for text, _ in box.parts)
        made.append(Rectangle(text, left, left + size, foot - LETTER, foot + FOOT))
    return made


def uprights(lanes: Lanes, stretch: float) -> list[Rectangle]:
    """Ties, the ways of thin lines between rows, and the leaders of words on higher tiers."""
    made = [Rectangle(tie.look, at := tie.at * stretch, at + 0.01, *(lanes.places[row] for row in tie.rows))
            for tie in lanes.ties]
    for line, row, box, is_above in placed(lanes):
        if is_above and box.tier:
            at, y = line.end * lanes.width * stretch, lanes.places[row]
            made.append(Rectangle("leader", at, at + 0.01, y - ABOVE - TIER * box.tier + FOOT, y))
    return made


def levels(lanes: Lanes, stretch: float) -> list[Rectangle]:
    """The lines of transactions."""
    made = []
    for line, row in zip(lanes.lines, lanes.rows.rows, strict=True):
        start = lanes.share(lanes.scene.begin(line.track)) * lanes.width * stretch
        end = line.end * lanes.width * stretch
        made.append(Rectangle("line", start, end, lanes.places[row] - 1, lanes.places[row] + 1))
    return made


def assert_clear(lanes: Lanes, stretch: float) -> None:
    """No words lie on other words, nothing runs through them, and they are within the drawing."""
    boxes = words(lanes, stretch)
    for box in boxes:
        assert box.left >= -0.01 and box.right <= lanes.width * stretch + 0.01, box
    for one, other in itertools.combinations(boxes, 2):
        assert not one.meets(other), (one, other)
    for one, line in itertools.product(boxes, [*uprights(lanes, stretch), *levels(lanes, stretch)]):
        assert not one.meets(line), (one, line)


# -- rows --------------------------------------------------------------------------------------


def overlap(members: Sequence[Track]) -> int:
    """How many transactions are under way at once, at most; a sign has its place to itself."""
    return max(sum(one.start < at <= one.version or one.version == at for one in members)
               for at in {track.version for track in members})


@given(tracks())
def test_a_lane_has_as_many_rows_as_transactions_overlap(made: list[Track]) -> None:
    scene = CommitTimeline(made, "ducks").scene
    heights = {lane.name: lane.height for lane in scene.lanes.lanes}
    assert heights == {name: overlap([track for track in made if track.writer == name])
                       for name in {track.writer for track in made}}


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=25))
def test_transactions_that_follow_each_other_share_a_row(writers: list[str]) -> None:
    """Whatever their words: each writer reads its own last version or a later one."""
    last: dict[str, int] = {}
    made = []
    for version, writer in enumerate(writers):
        read = max(last.get(writer, 0), version - 1 - version % 3) if version else None
        made.append(Track(version, read, "STREAMING UPDATE", writer, "append", 1, predicate=CONDITIONS[2]))
        last[writer] = version
    timeline = CommitTimeline(made, "ducks")
    assert [lane.height for lane in timeline.scene.lanes.lanes] == [1] * len(last)


@few
@given(timelines())
def test_rows_do_not_depend_on_widths_and_words(timeline: CommitTimeline) -> None:
    assert {lanes_of(timeline, width).rows for width in WIDTHS[:2]} == {timeline.scene.lanes}


def test_an_attempt_follows_the_one_before_it_on_its_row() -> None:
    made = [Track(2, 0, "WRITE", "ada", "append"),
            Track(3, 1, "UPDATE", "ada", "rewrite", outcome="failed", run=WorkRun(1, 1)),
            Track(4, 3, "UPDATE", "ada", "rewrite", run=WorkRun(1, 2))]
    rows = CommitTimeline(made, "t").scene.lanes.rows
    assert rows[2] == rows[1] != rows[0]


# -- words -------------------------------------------------------------------------------------


@few
@given(timelines(), st.sampled_from(WIDTHS), st.floats(1, 2))
def test_nothing_runs_through_words(timeline: CommitTimeline, width: float, stretch: float) -> None:
    assert_clear(lanes_of(timeline, width), stretch)


@few
@given(catalogs(), st.sampled_from(WIDTHS), st.floats(1, 2))
def test_no_tie_runs_through_words(timeline: CatalogTimeline, width: float, stretch: float) -> None:
    assert_clear(lanes_of(timeline, width), stretch)


@few
@given(timelines(), st.sampled_from(WIDTHS))
def test_what_is_not_repeated_is_what_the_sign_before_says(timeline: CommitTimeline, width: float) -> None:
    """Read along a row, words without an operation continue the one before: as was done, and where."""
    lanes = lanes_of(timeline, width)
    for row in range(lanes.rows.height):
        its = sorted((line for line, at in zip(lanes.lines, lanes.rows.rows, strict=True) if at == row),
                     key=lambda line: line.end)
        doing = condition = ""
        for line in its:
            texts = [text for text, _ in line.above.parts] if line.above else []
            notes = {piece.words for piece in lanes._notes(line.track)}
            what = line.track.operation
            named = [text for text in texts if what.startswith(text.rstrip("…").rstrip()) and text]
            details = [text for text in texts if text not in (*named, *notes) and text[0] not in "✓✕…C"]
            if named or not details:
                doing = what if named else doing
                condition = line.track.predicate if named else condition
            else:
                assert doing == what, "an operation that differs is named"
                assert bool(condition) == bool(line.track.predicate)
                condition = line.track.predicate


@given(st.text("abcdefgh =", min_size=1, max_size=80), st.integers(40, 900))
def test_words_are_cut_only_where_there_is_no_room(condition: str, width: int) -> None:
    condition = " ".join(condition.split()) or "a"
    sign = Sign(width, [Piece("UPDATE", cost=40, least=6, is_head=True), Piece(condition, cost=16, least=9)])
    (box,) = labels.place([sign], width)
    whole = labels.width_of("UPDATE") + labels.width_of(f" {condition}")
    if whole + labels.CLEAR <= width:
        assert box is not None and box.parts == [("UPDATE", ""), (condition, "")]
    elif box is not None and len(box.parts) > 1 and len(condition) > 10:
        cut = box.parts[1][0]
        assert cut.endswith("…") and condition.startswith(cut[:-1])
        one_more = labels.letter_width(condition[len(cut) - 1]) + labels.CLEAR + 3 * labels.LETTERS["wide"]
        assert box.right - box.left + one_more >= width - labels.CLEAR, "as much as there is room for"


def test_what_is_said_once_is_said_again_where_it_changes() -> None:
    made = [Track(0, None, "CREATE TABLE", "a", "schema"),
            *(Track(at, at - 1, what, "a", "append", 1, predicate=where) for at, (what, where) in enumerate([
                ("WRITE", ""), ("WRITE", ""), ("DELETE", "n = 1"), ("DELETE", "n = 2"), ("DELETE", "n = 2"),
                ("DELETE", ""), ("WRITE", "")], start=1))]
    lanes = lanes_of(CommitTimeline(made, "ducks"), 1_000)
    assert [" ".join(text for text, _ in line.above.parts) for line in lanes.lines if line.above] == [
        "CREATE TABLE", "WRITE +1", "+1", "DELETE n = 1 +1", "n = 2 +1", "+1", "DELETE +1", "WRITE +1"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_remark_that_is_repeated_keeps_its_sign(width: int) -> None:
    made = [Track(at, at - 1 if at else None, "WRITE", "a", "append", 1) for at in range(5)]
    marks = {at: "✓ read" if at < 3 else "… not yet" for at in range(5)}
    lanes = lanes_of(CommitTimeline(made, "ducks").marked(marks), width)
    boxes = [line.beside or line.above for line in lanes.lines]
    assert [box.parts[-1][0] for box in boxes if box] == ["✓ read", "✓", "✓", "… not yet", "+1"]


def test_what_has_not_happened_yet_has_no_cross() -> None:
    made = [Track(at, at - 1 if at else None, "WRITE", "a", "append", 1) for at in range(3)]
    timeline = CommitTimeline(made, "ducks").marked({1: "✓ read", 2: "… not yet"}, "what was read")
    for form in (str(timeline), timeline.svg, timeline._repr_mimebundle_()["text/html"]):
        assert "… not yet" in form and "✕" not in form and "k-failed o" not in form
    assert [mark["ring"] for mark in timeline.spec["datasets"]["marks"]] == [False, False]
