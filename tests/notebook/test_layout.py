"""Places in a picture of commits: nothing overlaps, nothing is lost, as few rows as can be."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.layout import Bar, Count, Span

PLACE = st.integers(0, 40)
INTERVALS = st.lists(st.tuples(PLACE, st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=40)
OWNERS = st.lists(st.tuples(st.sampled_from("abcdefgh"), PLACE, st.integers(0, 9)), min_size=1, max_size=50)
KINDS = ("a", "b", "c")


def meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two intervals have an inner point in common, or end in the same place."""
    return one[1] == other[1] or max(one[0], other[0]) < min(one[1], other[1])


@given(INTERVALS)
def test_no_two_intervals_of_a_row_overlap(intervals: list[tuple[float, float]]) -> None:
    rows = layout.pack(intervals)
    for i, one in enumerate(intervals):
        for j, other in enumerate(intervals[:i]):
            assert rows[i] != rows[j] or not meet(one, other), (one, other)


@given(st.lists(st.integers(0, 60), unique=True), st.data())
def test_as_few_rows_as_there_are_intervals_at_one_place(ends: list[int], data: st.DataObject) -> None:
    """With ends of their own, as commits have them, the deepest place decides."""
    intervals = [(end - data.draw(st.integers(1, 9)), end) for end in ends]
    deepest = max((sum(s <= at < e for s, e in intervals) for at in range(-9, 61)), default=0)
    assert max(layout.pack(intervals), default=-1) + 1 == deepest


def test_one_after_the_other_is_a_chain() -> None:
    assert layout.pack([(n, n + 1) for n in range(50)]) == [0] * 50


@given(OWNERS, st.integers(1, 8))
def test_lanes_share_no_row_and_keep_everything(intervals: list[tuple[str, int, int]], most: int) -> None:
    spans = [Span(name, at, at + size) for name, at, size in intervals]
    placed = layout.lanes(spans, most)
    owners: dict[int, set[str]] = {}
    for span, row in zip(spans, placed.rows, strict=True):
        owners.setdefault(row, set()).add(span.owner)
    assert set(owners) == set(range(placed.height))
    firsts = [lane.first for lane in placed.lanes]
    assert firsts == [sum(lane.height for lane in placed.lanes[:at]) for at in range(len(firsts))]
    assert len(placed.lanes) == min(most, len({span.owner for span in spans}))
    for lane in placed.lanes[:-1]:
        for row in range(lane.first, lane.first + lane.height):
            assert owners[row] == {lane.name}


def test_who_ended_first_comes_first_and_those_with_fewest_share_a_lane() -> None:
    spans = [Span(name, at + n, at + n + 1) for n, name in enumerate("abcd")
             for at in range("dbca".index(name) + 1)]
    assert [lane.name for lane in layout.lanes(spans).lanes] == ["a", "b", "c", "d"]
    assert [lane.name for lane in layout.lanes(spans, 3).lanes] == ["a", "c", "2 others"]
    assert [lane.name for lane in layout.lanes(spans, owners="db").lanes] == ["d", "b", "a", "c"]
    assert layout.lanes([]).lanes == ()


@given(st.integers(0, 10**7), st.integers(0, 10**6))
def test_never_more_than_400_bars_wide(first: int, more: int) -> None:
    width = layout.bin_width(first, first + more)
    assert more // width + 1 <= layout.MAX_BINS
    assert width == 1 or more // (width - 1) + 1 > layout.MAX_BINS


@given(st.lists(st.builds(Count, PLACE, st.sampled_from(KINDS), PLACE, PLACE)), st.integers(1, 9))
def test_bars_add_up(counts: list[Count], width: int) -> None:
    bars = layout.bars(counts, 0, width, KINDS)
    assert sum(bar.high - bar.low for bar in bars) == sum(count.up + count.down for count in counts)
    assert {bar.first // width for bar in bars} == {count.at // width for count in counts}
    for kind in KINDS:
        up = sum(bar.high - bar.low for bar in bars if bar.kind == kind and bar.low >= 0)
        assert up == sum(count.up for count in counts if count.kind == kind)
    for i, one in enumerate(bars):
        for other in bars[:i]:
            if one.first == other.first:
                assert max(one.low, other.low) >= min(one.high, other.high)


def test_what_counts_nothing_is_a_dot() -> None:
    assert layout.bars([Count(3, "b", 0, 0)], 0, 1, KINDS) == [Bar(3, 3, "b", 0, 0)]


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(2, 20))
def test_ticks_are_round_inside_and_few(first: int, more: int, most: int) -> None:
    ticks = layout.ticks(first, first + more, most)
    assert len(ticks) <= most + 1
    assert all(first <= at <= first + more for at in ticks)
    steps = {after - before for before, after in itertools.pairwise(ticks)}
    assert len(steps) <= 1
    assert all(str(step).strip("0") in ("1", "2", "5") for step in steps)
