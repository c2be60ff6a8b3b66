"""Transactions and locks drawn as SVG: boxes, and arrows between them.

What lives here: how a box and an arrow look. Whatever a colour says, a word, a dash or a sign says as well.
What it does not know: their positions (``lock_net``), their words (``views``).
"""

from __future__ import annotations

from collections.abc import Iterator

from deltanb.notebook.drawing.chart import element, label, picture
from deltanb.notebook.drawing.colors import GROUND, NEUTRAL, color
from deltanb.notebook.drawing.lock_net import LETTER, SMALL, Arrow, Box, Net, laid_out
from deltanb.text import formatting as units

LEGEND = 26  # pixels below the boxes
MAX_WORDS = 20  # characters beside an arrow; only of a whole with parts a mode has more
LEAST = 380  # pixels of width that the words below the boxes take
APART = 7  # pixels that two arrows between the same boxes keep off the middle
WORDS = 10  # pixels that the words of a level arrow keep off it
DASHES = {"waits": "6 4", "holds": None, "ahead": "2 3"}
MEANINGS = (("waits", "waits for"), ("holds", "is held by"), ("ahead", "first goes to"))

Point = tuple[float, float]


def draw(net: Net, sentence: str, more: str = "") -> str:
    """The picture of a net; ``sentence`` is its accessible name, ``more`` says what it leaves out."""
    net = laid_out(net)
    bottom = net.height
    if any(_is_back(net, arrow) for arrow in net.arrows):
        bottom += 34
    parts = [*(part for arrow in net.arrows for part in _arrow(net, arrow, bottom)),
             *(part for box in net.boxes for part in _box(box)), *_legend(net, bottom, more)]
    return picture(float(max(net.width, LEAST)), bottom + LEGEND * (2 if more else 1), sentence, parts)


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
    most = int((box.width - 12) / LETTER)
    y = box.y + 4 - (8 if box.note else 0)
    yield label(units.fit(box.title, most), box.x, y, text_anchor="middle",
                font_weight=None if is_lock else 600)
    if box.note:
        note = units.fit(box.note, int((box.width - 6) / SMALL))
        yield label(note, box.x, y + 16, muted=True, text_anchor="middle", font_size=11)


# -- arrows ------------------------------------------------------------------------------------


def _is_back(net: Net, arrow: Arrow) -> bool:
    """Whether an arrow leads left across other columns and therefore goes round below them."""
    start, end = net.box(arrow.start), net.box(arrow.end)
    return not net.is_ring and start.x - end.x > (start.width + end.width) / 2 + 100


def _arrow(net: Net, arrow: Arrow, bottom: float) -> Iterator[str]:
    start, end = net.box(arrow.start), net.box(arrow.end)
    path, tip, heading, middle = _course(net, arrow, start, end, bottom)
    tone = color("lost") if arrow.is_hot else NEUTRAL
    width = 2.2 if arrow.is_hot else 1.4
    yield element("path", d=path, fill="none", stroke=tone, stroke_width=width,
                  stroke_dasharray=DASHES[arrow.kind])
    yield element("path", d=_head(tip, heading), fill=tone)
    if arrow.words:
        words = units.fit(arrow.words, MAX_WORDS)
        wide = len(words) * SMALL + 2
        x, y = middle
        yield element("rect", x=x - wide / 2, y=y - 6, width=wide, height=12, cls="g", fill=GROUND)
        yield label(words, x, y + 4, muted=True, text_anchor="middle", font_size=11)


def _course(net: Net, arrow: Arrow, start: Box, end: Box, bottom: float) -> tuple[str, Point, Point, Point]:
    """The path of an arrow, its tip, the tip's direction, and the place of its words."""
    if _is_back(net, arrow):
        y = bottom - 8
        a, b = (start.x, start.y + start.height / 2), (end.x, end.y + end.height / 2)
        path = (f"M{a[0]:.1f} {a[1]:.1f}C{a[0]:.1f} {y:.1f} {a[0]:.1f} {y:.1f} {a[0] - 60:.1f} {y:.1f}"
                f"H{b[0] + 60:.1f}C{b[0]:.1f} {y:.1f} {b[0]:.1f} {y:.1f} {b[0]:.1f} {b[1] + 6:.1f}")
        return path, b, (0, -1), ((a[0] + b[0]) / 2, y)
    if abs(start.x - end.x) < 1:
        way = 1 if end.y > start.y else -1
        a, b = (start.x, start.y + way * start.height / 2), (end.x, end.y - way * end.height / 2)
        return (f"M{a[0]:.1f} {a[1]:.1f}V{b[1] - way * 6:.1f}", b, (0, way), (a[0], (a[1] + b[1]) / 2))
    way = 1 if end.x > start.x else -1
    both = any((other.start, other.end) == (arrow.end, arrow.start) for other in net.arrows)
    shift = APART * way if both else 0
    a = (start.x + way * start.width / 2, start.y + shift)
    b = (end.x - way * end.width / 2, end.y + shift)
    half = (a[0] + b[0]) / 2
    path = f"M{a[0]:.1f} {a[1]:.1f}"
    if abs(a[1] - b[1]) < 1:
        beside = WORDS if shift > 0 else -WORDS
        return path + f"H{b[0] - way * 6:.1f}", b, (way, 0), (half, a[1] + beside)
    path += f"C{half:.1f} {a[1]:.1f} {half:.1f} {b[1]:.1f} {b[0] - way * 6:.1f} {b[1]:.1f}"
    if sum(other.start == arrow.start for other in net.arrows) == 1:  # nothing else begins here
        along = min(len(arrow.words), MAX_WORDS) * SMALL / 2 + 4
        return path, b, (way, 0), (a[0] + way * along, a[1] - WORDS)
    # At 0.4 of the curve words are apart from those of arrows with the same beginning, and the same end.
    return path, b, (way, 0), (a[0] + 0.424 * (b[0] - a[0]), a[1] + 0.352 * (b[1] - a[1]))


def _head(tip: Point, heading: Point) -> str:
    (x, y), (dx, dy) = tip, heading
    back, side = (x - 9 * dx, y - 9 * dy), (4.5 * dy, 4.5 * dx)
    return (f"M{x:.1f} {y:.1f}L{back[0] + side[0]:.1f} {back[1] + side[1]:.1f}"
            f"L{back[0] - side[0]:.1f} {back[1] - side[1]:.1f}z")


def _legend(net: Net, bottom: float, more: str) -> Iterator[str]:
    if more:
        yield label(more, 20, bottom + 12 + LEGEND, muted=True, font_size=11)
    kinds = {arrow.kind for arrow in net.arrows}
    x = 20.0
    for kind, words in MEANINGS:
        if kind in kinds:
            yield element("path", d=f"M{x:.1f} {bottom + 8:.1f}h26", stroke=NEUTRAL, stroke_width=1.4,
                          stroke_dasharray=DASHES[kind], fill="none")
            yield element("path", d=_head((x + 34, bottom + 8), (1, 0)), fill=NEUTRAL)
            yield label(words, x + 42, bottom + 12, muted=True, font_size=11)
            x += 42 + len(words) * 6 + 22
    if any(box.is_hot for box in net.boxes):
        yield element("path", d=f"M{x:.1f} {bottom + 8:.1f}h26", stroke=color("lost"), stroke_width=2.2,
                      fill="none")
        yield label("the circle", x + 34, bottom + 12, muted=True, font_size=11)
