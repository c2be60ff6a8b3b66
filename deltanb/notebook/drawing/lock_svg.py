"""Transactions and locks drawn as SVG: boxes, and arrows between them.

What lives here: how a box and an arrow look. Whatever a colour says, a word, a dash or a sign says as well.
What it does not know: their positions (``lock_net``), their words (``views``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltanb.notebook.drawing.chart import element, label, picture
from deltanb.notebook.drawing.colors import GROUND, NEUTRAL, color
from deltanb.notebook.drawing.labels import BOLD, cut
from deltanb.notebook.drawing.lock_net import HIGH, INSIDE, Arrow, Box, Net, laid_out
from deltanb.notebook.drawing.pens import width_of
from deltanb.text import formatting as units

LEGEND = 26  # pixels below the boxes
MAX_WORDS = 20  # characters beside an arrow; only of a whole with parts a mode has more
LEAST = 380  # pixels of width that the words below the boxes take
AROUND = 34  # pixels below the boxes for an arrow that goes round them
LANE = 7  # pixels from one such arrow to the next
CLEAR = 11  # pixels that an arrow keeps off boxes that it passes
BEND = 10  # pixels of a rounded corner
APART = 7  # pixels that two arrows between the same boxes keep off the middle
WORDS = 10  # pixels that the words of a level arrow keep off it
DASHES = {"waits": "6 4", "holds": None, "ahead": "2 3"}
MEANINGS = (("waits", "waits for"), ("holds", "is held by"), ("ahead", "first goes to"))

Point = tuple[float, float]


def draw(net: Net, sentence: str, more: str = "") -> str:
    """The picture of a net; ``sentence`` is its accessible name, ``more`` says what it leaves out."""
    net = laid_out(net)
    round_ones = [arrow for arrow in net.arrows if _is_back(net, arrow)]
    bottom = net.height + (AROUND + LANE * (len(round_ones) - 1) if round_ones else 0)
    below = {id(arrow): bottom - 8 - LANE * at for at, arrow in enumerate(round_ones)}
    drawn = [(arrow, _course(net, arrow, below.get(id(arrow), 0))) for arrow in net.arrows]
    lines = [part for arrow, course in drawn for part in _line(arrow, course)]
    words = [part for arrow, course in drawn for part in _words(arrow, course)]
    legend, end = _legend(net, bottom, more)
    # Words are on top: no line of another arrow runs through them.
    parts = [*lines, *(part for box in net.boxes for part in _box(box)), *words, *legend]
    return picture(float(max(net.width, LEAST, end)), bottom + LEGEND * (2 if more else 1), sentence, parts)


def _box(box: Box) -> Iterator[str]:
    is_lock = box.key[0] == "lock"
    look = {"stroke": color("lost"), "stroke_width": 2} if box.is_hot else {"stroke": NEUTRAL}
    if box.key[0] == "thread":
        look["stroke_dasharray"] = "6 4"
    left, top = box.x - box.width / 2, box.y - box.height / 2
    yield element("rect", x=left, y=top, width=box.width, height=box.height, cls="g", fill=GROUND,
                  rx=box.height / 2 if is_lock else 5, **look)
    if box.is_victim:
        yield element("rect", x=left - 4, y=top - 4, width=box.width + 8, height=box.height + 8, rx=8,
                      fill="none", stroke=color("lost"), stroke_width=1.5)
    y = box.y + 4 - (8 if box.note else 0)
    title = cut(box.title, (box.width - INSIDE) / (1 if is_lock else BOLD))
    yield label(title, box.x, y, text_anchor="middle", font_weight=None if is_lock else 600)
    if box.note:
        yield label(cut(box.note, box.width - INSIDE), box.x, y + 16, muted=True, text_anchor="middle")


# -- arrows ------------------------------------------------------------------------------------


def _is_back(net: Net, arrow: Arrow) -> bool:
    """Whether an arrow leads left across other columns and therefore goes round below them."""
    start, end = net.box(arrow.start), net.box(arrow.end)
    return not net.is_ring and start.x - end.x > (start.width + end.width) / 2 + 100


@dataclass(frozen=True)
class _Course:
    """The path of an arrow, its tip and the tip's direction, and the middle of its words."""

    path: str
    tip: Point
    heading: Point
    words: Point


def _line(arrow: Arrow, course: _Course) -> Iterator[str]:
    tone = color("lost") if arrow.is_hot else NEUTRAL
    yield element("path", d=course.path, fill="none", stroke=tone, stroke_width=2.2 if arrow.is_hot else 1.4,
                  stroke_dasharray=DASHES[arrow.kind])
    yield element("path", d=_head(course.tip, course.heading), fill=tone)


def _words(arrow: Arrow, course: _Course) -> Iterator[str]:
    if arrow.words:
        words = units.fit(arrow.words, MAX_WORDS)
        wide, (x, y) = width_of(words), course.words
        yield element("rect", x=x - wide / 2, y=y - 7, width=wide, height=14, cls="g", fill=GROUND)
        yield label(words, x, y + 4, muted=True, text_anchor="middle")


def _course(net: Net, arrow: Arrow, below: float) -> _Course:
    """The way of an arrow; one that goes round the boxes does so at the height ``below``."""
    start, end = net.box(arrow.start), net.box(arrow.end)
    if below:
        return _round(net, start, end, below)
    if abs(start.x - end.x) < 1:
        way = 1 if end.y > start.y else -1
        a, b = (start.x, start.y + way * start.height / 2), (end.x, end.y - way * end.height / 2)
        return _Course(f"M{a[0]:.1f} {a[1]:.1f}V{b[1] - way * 6:.1f}", b, (0, way), (a[0], (a[1] + b[1]) / 2))
    way = 1 if end.x > start.x else -1
    both = any((other.start, other.end) == (arrow.end, arrow.start) for other in net.arrows)
    shift = APART * way if both else 0
    a = (start.x + way * start.width / 2, start.y + shift)
    b = (end.x - way * end.width / 2, end.y + shift)
    half = (a[0] + b[0]) / 2
    passed = [box for box in net.boxes if box.key not in (arrow.start, arrow.end)
              and min(a[0], b[0]) < box.x < max(a[0], b[0]) and _meets(box, a, b)]
    if passed and not net.is_ring:
        return _past(net, passed, a, b, way)
    path = f"M{a[0]:.1f} {a[1]:.1f}"
    if abs(a[1] - b[1]) < 1:
        beside = WORDS if shift > 0 else -WORDS
        return _Course(path + f"H{b[0] - way * 6:.1f}", b, (way, 0), (half, a[1] + beside))
    path += f"C{half:.1f} {a[1]:.1f} {half:.1f} {b[1]:.1f} {b[0] - way * 6:.1f} {b[1]:.1f}"
    if sum(other.start == arrow.start for other in net.arrows) == 1:  # nothing else begins here
        along = width_of(units.fit(arrow.words, MAX_WORDS)) / 2 + 4
        return _Course(path, b, (way, 0), (a[0] + way * along, a[1] - WORDS))
    # At 0.4 of the curve words are apart from those of arrows with the same beginning, and the same end.
    return _Course(path, b, (way, 0), (a[0] + 0.424 * (b[0] - a[0]), a[1] + 0.352 * (b[1] - a[1])))


def _meets(box: Box, a: Point, b: Point) -> bool:
    """Whether the curve between two points comes near a box."""
    for at in range(1, 40):
        t = at / 40
        x = a[0] + (b[0] - a[0]) * (1.5 * t * (1 - t) + t ** 3)
        y = a[1] + (b[1] - a[1]) * (3 * t * t - 2 * t ** 3)
        if abs(x - box.x) < box.width / 2 + 4 and abs(y - box.y) < box.height / 2 + 4:
            return True
    return False


def _past(net: Net, passed: Sequence[Box], a: Point, b: Point, way: int) -> _Course:
    """The way above or below the boxes between two points: between two rows, whichever is nearest."""
    first = min(box.x - box.width / 2 for box in passed) - CLEAR
    last = max(box.x + box.width / 2 for box in passed) + CLEAR
    between = [box for box in net.boxes if first < box.x < last]
    heights = [box.y + side * (HIGH / 2 + CLEAR) for box in between for side in (-1, 1)]
    free = [y for y in heights if all(abs(y - box.y) > box.height / 2 + 4 for box in between)]
    y = min(free, key=lambda y: abs(y - a[1]) + abs(y - b[1]))
    begin, end = (first, last) if way > 0 else (last, first)
    one, two = (a[0] + begin) / 2, (end + b[0]) / 2
    path = (f"M{a[0]:.1f} {a[1]:.1f}C{one:.1f} {a[1]:.1f} {one:.1f} {y:.1f} {begin:.1f} {y:.1f}H{end:.1f}"
            f"C{two:.1f} {y:.1f} {two:.1f} {b[1]:.1f} {b[0] - way * 6:.1f} {b[1]:.1f}")
    return _Course(path, b, (way, 0), ((begin + end) / 2, y))


def _round(net: Net, start: Box, end: Box, y: float) -> _Course:
    """The way below all boxes: from the lower side of a box, or from beside it where others are below."""
    if _is_above(net, start):
        down = start.x + start.width / 2 + BEND + 4
        path = f"M{down - BEND - 4:.1f} {start.y:.1f}h4q{BEND} 0 {BEND} {BEND}"
    else:
        down = start.x
        path = f"M{down:.1f} {start.y + start.height / 2:.1f}"
    path += f"V{y - BEND:.1f}q0 {BEND} {-BEND} {BEND}"
    if _is_above(net, end):
        edge = end.x - end.width / 2
        up = edge - BEND - 8
        path += f"H{up + BEND:.1f}q{-BEND} 0 {-BEND} {-BEND}"
        path += f"V{end.y + BEND:.1f}q0 {-BEND} {BEND} {-BEND}H{edge - 6:.1f}"
        return _Course(path, (edge, end.y), (1, 0), ((down + up) / 2, y))
    tip = (end.x, end.y + end.height / 2)
    path += f"H{end.x + BEND:.1f}q{-BEND} 0 {-BEND} {-BEND}V{tip[1] + 6:.1f}"
    return _Course(path, tip, (0, -1), ((down + end.x) / 2, y))


def _is_above(net: Net, box: Box) -> bool:
    """Whether other boxes are below it."""
    return any(other.y > box.y and abs(other.x - box.x) < (other.width + box.width) / 2
               for other in net.boxes)


def _head(tip: Point, heading: Point) -> str:
    (x, y), (dx, dy) = tip, heading
    back, side = (x - 9 * dx, y - 9 * dy), (4.5 * dy, 4.5 * dx)
    return (f"M{x:.1f} {y:.1f}L{back[0] + side[0]:.1f} {back[1] + side[1]:.1f}"
            f"L{back[0] - side[0]:.1f} {back[1] - side[1]:.1f}z")


def _legend(net: Net, bottom: float, more: str) -> tuple[list[str], float]:
    """What the lines mean, and where these words end."""
    parts, x = [], 20.0
    end = x + width_of(more)
    if more:
        parts.append(label(more, x, bottom + 12 + LEGEND, muted=True))
    kinds = {arrow.kind for arrow in net.arrows}
    for kind, words in MEANINGS:
        if kind in kinds:
            parts.append(element("path", d=f"M{x:.1f} {bottom + 8:.1f}h26", stroke=NEUTRAL, stroke_width=1.4,
                                 stroke_dasharray=DASHES[kind], fill="none"))
            parts.append(element("path", d=_head((x + 34, bottom + 8), (1, 0)), fill=NEUTRAL))
            parts.append(label(words, x + 42, bottom + 12, muted=True))
            x += 42 + width_of(words) + 16
    if any(box.is_hot for box in net.boxes):
        parts.append(element("path", d=f"M{x:.1f} {bottom + 8:.1f}h26", stroke=color("lost"),
                             stroke_width=2.2, fill="none"))
        parts.append(label("the circle", x + 34, bottom + 12, muted=True))
        x += 34 + width_of("the circle") + 16
    return parts, max(x, end + 16)
