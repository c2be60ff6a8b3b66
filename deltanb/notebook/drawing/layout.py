"""Positions in a picture of commits: rows that do not overlap, lanes, bins.

What lives here: pure functions from numbers to places. The chart and the SVG draw the same places.
What it does not know: colours, markup, logs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MAX_BINS = 400  # bars of a strip: fewer than two pixels each say nothing, and 10,000 are 7 MB of JSON
MAX_BARS = 1_000  # of all kinds, up and down: some 15 kB of a picture that has 60
MAX_IN_LANES = 200  # transactions in lanes: what a reader can follow, and some 60 kB of JSON
MAX_LANES = 12  # writers with a lane of their own; what remains shares one
SPARKS = "▁▂▃▄▅▆▇█"
WINDOW = 60  # versions in view at first: their dots still stand apart


def pack(intervals: Sequence[tuple[float, float]], after: Mapping[int, int] | None = None) -> list[int]:
    """A row for each interval, so that no two in a row overlap, in as few rows as possible.

    An interval may begin where another one ends: successive transactions form a chain. Two that end at the
    same place never share a row, because their signs are drawn there. An interval follows the one that
    ``after`` names, by their indices, on its row if that is free.

    >>> pack([(0, 2), (1, 3), (2, 4), (4, 4)])
    [0, 1, 0, 1]
    >>> pack([(0, 2), (1, 3), (3, 4)]), pack([(0, 2), (1, 3), (3, 4)], after={2: 1})
    ([0, 1, 0], [0, 1, 1])
    """
    rows = [0] * len(intervals)
    ends: list[float] = []
    for at in sorted(range(len(intervals)), key=lambda i: intervals[i]):
        start, end = intervals[at]
        free = [row for row, last in enumerate(ends) if last <= start and last < end]
        before = rows[after[at]] if after and at in after else None
        row = before if before in free else next(iter(free), len(ends))
        if row == len(ends):
            ends.append(end)
        ends[row] = end
        rows[at] = row
    return rows


@dataclass(frozen=True)
class Span:
    """What is placed in lanes: its owner, its start and its end."""

    owner: str
    start: float
    end: float


@dataclass(frozen=True)
class Lane:
    """The rows of one owner, ``first`` and the ``height - 1`` below it."""

    name: str
    first: int
    height: int

    @property
    def middle(self) -> float:
        """The middle of the lane in rows from the top, where its name is written."""
        return self.first + (self.height - 1) / 2


@dataclass(frozen=True)
class Lanes:
    """A row for each span, in their order, and the lanes from top to bottom."""

    rows: tuple[int, ...]
    lanes: tuple[Lane, ...]

    @property
    def height(self) -> int:
        """The number of rows."""
        return sum(lane.height for lane in self.lanes)


def lanes(
    spans: Sequence[Span], most: int = MAX_LANES, owners: Sequence[str] = (),
    after: Mapping[int, int] | None = None,
) -> Lanes:
    """The spans in lanes by owner: first ``owners`` in their order, then the others by the end of their first
    span; beyond ``most``, those with the fewest spans share the last lane. ``after`` is as in :func:`pack`.

    >>> placed = lanes([Span("b", 0, 2), Span("a", 1, 3), Span("a", 2, 4)])
    >>> placed.rows, [lane.name for lane in placed.lanes]
    ((0, 1, 2), ['b', 'a'])
    >>> [lane.name for lane in lanes([Span("b", 0, 1), Span("a", 1, 3)], owners=["c", "a"]).lanes]
    ['a', 'b']
    >>> [lane.name for lane in lanes([Span("abcaca"[n], n, n + 1) for n in range(6)], most=2).lanes]
    ['a', '2 others']
    """
    counts = Counter(span.owner for span in spans)
    place = {name: at for at, name in enumerate(owners)}
    first_end: dict[str, float] = {}
    for span in spans:
        first_end[span.owner] = min(span.end, first_end.get(span.owner, span.end))
    order = sorted(counts, key=lambda name: (place.get(name, len(place)), first_end[name], name))
    if len(order) > most:
        own = set(sorted(order, key=lambda name: -counts[name])[: most - 1])
        order = [name for name in order if name in own] + [name for name in order if name not in own]
    lane_of = {name: min(at, most - 1) for at, name in enumerate(order)}
    names = order[:most]
    if len(order) > most:
        names[-1] = f"{len(order) - most + 1} others"
    rows = [0] * len(spans)
    placed, first = [], 0
    for lane, name in enumerate(names):
        members = [at for at, span in enumerate(spans) if lane_of[span.owner] == lane]
        place_of = {at: place for place, at in enumerate(members)}
        inner = pack([(spans[at].start, spans[at].end) for at in members],
                     {place_of[at]: place_of[one] for at, one in (after or {}).items()
                      if at in place_of and one in place_of})
        for at, row in zip(members, inner, strict=True):
            rows[at] = first + row
        placed.append(Lane(name, first, max(inner) + 1))
        first += placed[-1].height
    return Lanes(tuple(rows), tuple(placed))


@dataclass(frozen=True)
class Count:
    """What is counted at one place of a strip: upwards, downwards, and of which kind."""

    at: int
    kind: str
    up: int
    down: int


@dataclass(frozen=True)
class Bar:
    """A bar of a strip: over places ``first`` to ``last``, from ``low`` to ``high``; 0 to 0 is a dot."""

    first: int
    last: int
    kind: str
    low: int
    high: int


def bin_width(first: int, last: int, most: int = MAX_BINS) -> int:
    """How many places each bar covers, so that there are at most ``most`` bars.

    >>> bin_width(0, 399), bin_width(0, 400), bin_width(0, 9_999)
    (1, 2, 25)
    """
    return -(-(last - first + 1) // most)


def bars(counts: Iterable[Count], first: int, width: int, kinds: Sequence[str]) -> list[Bar]:
    """Sums by bin and kind, stacked away from zero in the order of ``kinds``; a bin without counts is a dot.

    >>> bars([Count(0, "a", 2, 0), Count(1, "b", 1, 3)], first=0, width=2, kinds=("a", "b"))
    [Bar(first=0, last=1, kind='a', low=0, high=2), Bar(first=0, last=1, kind='b', low=2, high=3), \
Bar(first=0, last=1, kind='b', low=-3, high=0)]
    """
    sums: dict[int, dict[str, list[int]]] = {}
    for count in counts:
        totals = sums.setdefault((count.at - first) // width, {}).setdefault(count.kind, [0, 0])
        totals[0] += count.up
        totals[1] += count.down
    stacked = []
    for at in sorted(sums):
        start, end = first + at * width, first + (at + 1) * width - 1
        high = low = 0
        for kind in sorted(sums[at], key=kinds.index):
            up, down = sums[at][kind]
            if up:
                stacked.append(Bar(start, end, kind, high, high + up))
                high += up
            if down:
                stacked.append(Bar(start, end, kind, low - down, low))
                low -= down
        if not high and not low:
            stacked.append(Bar(start, end, next(iter(sums[at])), 0, 0))
    return stacked


def bins(places: Iterable[int], first: int, width: int) -> list[tuple[int, int, int]]:
    """(first place, last place, how many) of each bin that any of the places falls into.

    >>> bins([3, 3, 5], first=0, width=4)
    [(0, 3, 2), (4, 7, 1)]
    """
    counts = Counter((place - first) // width for place in places)
    return [(first + at * width, first + (at + 1) * width - 1, counts[at]) for at in sorted(counts)]


def sparkline(counts: Sequence[int]) -> str:
    """Counts as a line of bars on a logarithmic scale; zero is a dot.

    >>> sparkline([0, 1, 3, 9, 27])
    '·▂▄▆█'
    """
    top = math.log1p(max(counts, default=0))
    return "".join(
        SPARKS[math.ceil(math.log1p(n) / top * len(SPARKS)) - 1] if n else "·" for n in counts)


def ticks(first: float, last: float, most: int) -> list[int]:
    """Round whole numbers within a range, at most about ``most`` of them.

    >>> ticks(0, 299, 10), ticks(-30, 6, 3), ticks(2, 4, 10)
    ([0, 50, 100, 150, 200, 250], [-20, 0], [2, 3, 4])
    """
    step, factors, at = 1, (2, 5, 10), 0
    while (last - first) / step > most:
        step = factors[at % 3] * 10 ** (at // 3)
        at += 1
    start = -int(-first // step)
    return list(range(start * step, int(last // 1) + 1, step))
