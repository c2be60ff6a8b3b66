"""The states that turns lead through as a graph, and an order's way in it.

What lives here: positions and marks. A state is a circle; where all writers have ended there are two, one in
the other, beside the number of the outcome; where the invariant does not hold there is a cross. Turns lead to
the right. The turns that an order has taken are a thick line with a ring at its end; those to come are dots.
Their classes, ``dnb-way-…``, are what the script of a page moves (``lesson.js``).
What it does not know: what a state is, what else is shown of it (``views/exploration``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from deltanb.notebook.drawing.chart import element, label, picture
from deltanb.notebook.drawing.colors import ALARM, GROUND, MUTED, WORDS, color
from deltanb.notebook.drawing.html import Markup
from deltanb.notebook.drawing.pens import width_of

RADIUS, RING = 4.5, 9.5
EDGE, TOP = 26.0, 36.0  # pixels beside all of it, and above: the words about a ring
WORDS_AT = 17.0
BEND = 0.5  # of a row: what a turn that leads past a layer takes there
ROW, LAYER = (12.0, 22.0), (26.0, 64.0)  # pixels between rows and between layers, at least and at most
HIGH, WIDE = 340.0, 860.0  # pixels that rows and layers share while these are not too close
CROSS = "l1-1 1.6 1.6 1.6-1.6 1 1-1.6 1.6 1.6 1.6-1 1-1.6-1.6-1.6 1.6-1-1 1.6-1.6z"
SWEEPS = 6  # times that the rows of each layer are put in order
MAX_NUMBERS = 3  # outcomes that are named beside an end; writers that do the same have many
LEGEND = 22.0

Point = tuple[float, float]
Edge = tuple[int, int]
"""The places of a state and of one that a turn leads to from there."""


@dataclass(frozen=True)
class Layout:
    """Where the states are, and how much room they take in all; ``bends`` has the points where a turn that
    leads past other layers keeps off the states there."""

    places: tuple[Point, ...]
    width: float
    height: float
    bends: Mapping[Edge, tuple[Point, ...]] = field(default_factory=dict)

    def course(self, path: Sequence[int]) -> str:
        """The line through states that follow each other."""
        points = [self.places[at] for at in path[:1]]
        for edge in pairwise(path):
            points += [*self.bends.get(edge, ()), self.places[edge[1]]]
        return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else "M0 0"


def draw(states: Sequence[Any], path: Sequence[int], at: int, sentence: str) -> tuple[Markup, float]:
    """The picture and its width.

    ``path`` has the places of an order's states, of which ``at`` turns have been taken. ``sentence`` is the
    picture in words; the caller shows it, too.
    """
    layout = laid_out(states)
    legend, width, height = _legend(states, layout)
    return Markup(picture(width, height, sentence, [
        *_edges(states, layout), *_line(layout, path, at), *_way(layout, path, at), *_states(states, layout),
        *_ring(layout, path, at), *legend])), width


# -- positions -------------------------------------------------------------------------------------


def laid_out(states: Sequence[Any]) -> Layout:
    """The states in layers from left to right, each to the right of all that lead to it; within a layer near
    those that they are connected with."""
    edges = _turns(states)
    depth = _depths(len(states), edges)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for at, layer in enumerate(depth):
        layers[layer].append(at)
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    passed: dict[Edge, list[int]] = {}
    many = len(states)
    for at, to in edges:
        between = range(many, many + depth[to] - depth[at] - 1)  # a place in each layer that it leads past
        many += len(between)
        passed[at, to] = list(between)
        for layer, bend in enumerate(between, depth[at] + 1):
            layers[layer].append(bend)
        for one, other in pairwise([at, *between, to]):
            after[one].append(other)
            before[other].append(one)
    rows = _rows(layers, before, after, [1.0 if at < len(states) else BEND for at in range(many)])
    least = min(rows)
    row = _between(ROW, HIGH / max(max(rows) - least, 1))
    step = _between(LAYER, WIDE / max(len(layers) - 1, 1))
    spots = {at: (round(EDGE + layer * step, 1), round(TOP + (rows[at] - least) * row, 1))
             for layer, some in enumerate(layers) for at in some}
    places = tuple(spots[at] for at in range(len(states)))
    right = max(x + RING + width_of(_numbers(state)) + 3
                for (x, _), state in zip(places, states, strict=True))
    return Layout(places, max(right, EDGE * 2) + EDGE / 2, TOP + (max(rows) - least) * row + EDGE,
                  {edge: tuple(spots[bend] for bend in bends) for edge, bends in passed.items() if bends})


def _turns(states: Sequence[Any]) -> list[Edge]:
    return sorted({(at, to) for at, state in enumerate(states) for _, to in state.after})


def _depths(many: int, edges: Sequence[Edge]) -> list[int]:
    """The most turns that lead to each state."""
    after: dict[int, list[int]] = defaultdict(list)
    left = [0] * many
    for at, to in edges:
        after[at].append(to)
        left[to] += 1
    depth = [0] * many
    ready = [at for at, number in enumerate(left) if not number]
    for at in ready:
        for to in after[at]:
            depth[to] = max(depth[to], depth[at] + 1)
            left[to] -= 1
            if not left[to]:
                ready.append(to)
    return depth


def _rows(
    layers: Sequence[list[int]], before: Mapping[int, list[int]], after: Mapping[int, list[int]],
    sizes: Sequence[float],
) -> list[float]:
    """A row for each, in each layer near those that it is connected with."""
    rows = [0.0] * len(sizes)
    for layer in layers:
        for place, at in enumerate(layer):
            rows[at] = place - len(layer) / 2
    for sweep in range(SWEEPS):
        is_back = sweep % 2 == 1
        for layer in reversed(layers) if is_back else layers:
            near = {at: _mean([rows[other] for other in (after if is_back else before).get(at, ())], rows[at])
                    for at in layer}
            layer.sort(key=near.__getitem__)
            for at, row in zip(layer, _apart([near[at] for at in layer], [sizes[at] for at in layer]),
                               strict=True):
                rows[at] = row
    return rows


def _apart(wishes: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Places in rising order that keep off each other by their sizes, as near to what is wished as can be.

    >>> _apart([0.0, 0.0], [1.0, 1.0]), _apart([0.0, 3.0], [1.0, 1.0])
    ([-0.5, 0.5], [0.0, 3.0])
    """
    offsets = list(accumulate(((a + b) / 2 for a, b in pairwise(sizes)), initial=0.0))
    blocks: list[tuple[float, int]] = []  # where its first one would be without offsets; how many are in it
    for wish, offset in zip(wishes, offsets, strict=False):
        blocks.append((wish - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, few), (second, many) = blocks[-2:]
            blocks[-2:] = [((first * few + second * many) / (few + many), few + many)]
    starts = [start for start, many in blocks for _ in range(many)]
    return [start + offset for start, offset in zip(starts, offsets, strict=False)]


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _between(limits: tuple[float, float], size: float) -> float:
    return min(limits[1], max(limits[0], size))


# -- marks -----------------------------------------------------------------------------------------


def _edges(states: Sequence[Any], layout: Layout) -> Iterator[str]:
    """All turns, as one path: a page is bounded."""
    points = "".join(map(layout.course, _turns(states)))
    if points:
        yield element("path", d=points, fill="none", cls="k-lost", stroke=MUTED, stroke_width=.7,
                      stroke_opacity=.7)


def _way(layout: Layout, path: Sequence[int], at: int, name: str | None = "dnb-way") -> Iterator[str]:
    """The way of an order: what was taken, and what is to come; ``name`` is what their classes begin with."""
    look = {"fill": "none", "stroke": color("append"), "stroke_linejoin": "round"}
    yield element("path", cls=name and f"{name}-ahead", d=layout.course(path[at:]), stroke_width=3,
                  stroke_dasharray="1 6", stroke_linecap="round", **look)
    yield element("path", cls=name and f"{name}-behind", d=layout.course(path[:at + 1]), stroke_width=5,
                  **look)


def _states(states: Sequence[Any], layout: Layout) -> Iterator[str]:
    circles = {False: "", True: ""}
    crosses = inner = ""
    for (x, y), state in zip(layout.places, states, strict=True):
        circles[state.breaks] += element("circle", cx=x, cy=y, r=RADIUS + 1.5 * state.is_end)
        if state.breaks:
            crosses += f"M{x - 2.6:.1f} {y - 1.6:.1f}{CROSS}"
        elif state.is_end:
            inner += element("circle", cx=x, cy=y, r=RADIUS - 1.5)
    yield _group(circles[False], cls="g k-lost", fill=GROUND, stroke=MUTED, stroke_width=1.5)
    yield _group(inner, cls="m", fill=MUTED)
    yield _group(circles[True], cls="w", fill=ALARM, stroke=ALARM, stroke_width=1.5)
    yield _group(element("path", d=crosses) if crosses else "", cls="g", fill=GROUND)
    words = "".join(label(_numbers(state), x + RING + 3, y + 4)
                    for (x, y), state in zip(layout.places, states, strict=True) if state.outcomes)
    yield _group(words, cls="r")


def _group(content: str, **look: Any) -> str:
    return element("g", content, **look) if content else ""


def _numbers(state: Any) -> str:
    """The numbers of the outcomes that a state is an end of."""
    some = [str(at + 1) for at in state.outcomes[:MAX_NUMBERS]]
    return ", ".join(some) + ("…" if len(state.outcomes) > MAX_NUMBERS else "")


def _line(layout: Layout, path: Sequence[int], at: int) -> Iterator[str]:
    """The line from the turn, above all states, to the ring; it leads behind states on its way."""
    if at < len(path):
        x, y = layout.places[path[at]]
        yield element("path", cls="k-lost dnb-way-line", d=f"M{x:g} {TOP - RING:g}V{y - RING:g}", fill="none",
                      stroke=MUTED, stroke_dasharray="2 2")


def _ring(layout: Layout, path: Sequence[int], at: int) -> Iterator[str]:
    """The ring, and the turn above all states, where it covers none."""
    if at < len(path):
        x, y = layout.places[path[at]]
        yield element("circle", cls="dnb-way-ring", cx=x, cy=y, r=RING, fill="none", stroke=color("append"),
                      stroke_width=2.5)
        yield element("text", f"turn {at}" if at else "start", cls="dnb-way-here", fill=WORDS, x=x,
                      y=WORDS_AT, text_anchor="middle", font_weight=600)


# -- what the marks mean ---------------------------------------------------------------------------


def _meanings(states: Sequence[Any]) -> Iterator[tuple[str, str]]:
    yield "open", "writers have turns left"
    if any(state.is_end for state in states):
        yield "end", "all have ended; the number of the outcome"
    if any(state.breaks for state in states):
        yield "breaks", "the invariant does not hold"
    yield "way", "the turns of the order"


def _legend(states: Sequence[Any], layout: Layout) -> tuple[list[str], float, float]:
    """The marks with their meanings below the graph, on as many lines as they take; and where both end."""
    parts: list[str] = []
    width = max(layout.width, WIDE / 2)
    x, y = EDGE, layout.height + LEGEND / 2
    for mark, words in _meanings(states):
        begin = x + (24 if mark == "way" else 12)
        end = begin + width_of(words)
        if x > EDGE and end > width:
            begin, end, x, y = begin - x + EDGE, end - x + EDGE, EDGE, y + LEGEND
        width = max(width, end + EDGE / 2)
        parts += [*_sample(mark, x, y), label(words, begin, y + 4, muted=True)]
        x = end + 24
    return parts, width, y + LEGEND


def _sample(mark: str, x: float, y: float) -> Iterator[str]:
    if mark == "way":
        yield from _way(Layout(((x - 6, y), (x + 6, y), (x + 17, y)), 0, 0), (0, 1, 2), 1, name=None)
    else:
        yield from _states([_Sample(breaks=mark == "breaks", is_end=mark != "open")],
                           Layout(((x, y),), 0, 0))


@dataclass(frozen=True)
class _Sample:
    """A state whose mark is explained."""

    breaks: bool
    is_end: bool
    outcomes: tuple[int, ...] = ()
