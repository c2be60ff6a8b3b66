"""Maps of pairs and bars of hours, as SVG: shades that stand behind numbers.

What lives here: how a map of names by names and a row of bars are drawn, alone or below each other.
What it does not know: what is counted, and in which words (``views``).

The shade of a cell repeats the number in it. Its strength is bounded, so that words on it can be read on a
light and on a dark ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import ALARM, WORDS, color
from deltanb.notebook.drawing.html import Markup, tag
from deltanb.notebook.drawing.pens import width_of
from deltanb.text import formatting as units

CELL, ROW, BAR, HIGH = 52.0, 30.0, 23.0, 90.0  # pixels: a cell's width and height; a bar's width, most height
EDGE, TITLE = 14.0, 44.0  # around all of it; the two lines above
LEAST, MOST = 0.04, 0.3
"""How strong a shade is. Beyond MOST the alarm's colour has less than 4.5:1 on it."""
SHADES = 8
SLANT = 40  # degrees that names of columns are turned by
LETTERS = 18  # of a name at most


@dataclass(frozen=True)
class Cell:
    """A number; of it, how many failed, and how many would have."""

    number: int
    failed: int = 0
    would: int = 0

    @property
    def signs(self) -> str:
        """The second and the third number, each behind its sign.

        >>> Cell(5, 2, 1).signs, Cell(5).signs
        ('✕2 ?1', '')
        """
        return " ".join(sign + short_number(n) for sign, n in (("✕", self.failed), ("?", self.would)) if n)

    @property
    def sign(self) -> str:
        """Both of them behind one sign, where there is little room.

        >>> Cell(5, 2, 1).sign, Cell(5, 0, 1).sign, Cell(5).sign
        ('✕3', '?1', '')
        """
        wrong = self.failed + self.would
        return ("✕" if self.failed else "?") + short_number(wrong) if wrong else ""


@dataclass(frozen=True)
class Heat:
    """Numbers by names of rows and columns; pairs that are not there are empty."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    """By row and column."""

    @property
    def most(self) -> int:
        """The largest number."""
        return max((cell.number for cell in self.cells.values()), default=1)


@dataclass(frozen=True)
class Bars:
    """Numbers by names in a row."""

    title: str
    note: str
    names: tuple[str, ...]
    cells: dict[str, Cell]

    @property
    def most(self) -> int:
        """The largest number."""
        return max((cell.number for cell in self.cells.values()), default=1)


Panel = Heat | Bars


@dataclass(frozen=True)
class Drawing:
    """A panel as it was drawn."""

    width: float
    height: float
    parts: tuple[str, ...]


def draw(panels: Sequence[Panel], sentence: str) -> str:
    """All panels in one picture, below each other."""
    drawn = [_draw(panel) for panel in panels]
    parts, y = [], 0.0
    for one in drawn:
        parts.append(element("g", "".join(one.parts), transform=f"translate(0 {y:g})"))
        y += one.height
    return picture(max(one.width for one in drawn), y, sentence, parts)


def draw_each(panels: Sequence[Panel], sentences: Sequence[str]) -> str:
    """Each panel as a picture of its own: side by side where there is room."""
    drawn = [(_draw(panel), sentence) for panel, sentence in zip(panels, sentences, strict=True)]
    pictures = [tag("div", Markup(picture(one.width, one.height, sentence, one.parts)), style="flex:none")
                for one, sentence in drawn]
    return tag("div", pictures, style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:8px")


def strength(number: int, most: int) -> float:
    """How strong the shade behind a number is, one of :data:`SHADES`; small numbers differ more.

    >>> strength(5, 5) == MOST, strength(1, 5) > strength(1, 500) > 0
    (True, True)
    """
    step = math.ceil(SHADES * math.sqrt(number / most))
    return round(LEAST + (MOST - LEAST) * step / SHADES, 3)


def short_number(n: int) -> str:
    """A number that fits into a cell, cut off to thousands or millions.

    >>> short_number(999), short_number(12_345), short_number(2_500_000)
    ('999', '12k', '2M')
    """
    if n < 1000:
        return str(n)
    return f"{n // 1000}k" if n < 1_000_000 else f"{n // 1_000_000}M"


def _draw(panel: Panel) -> Drawing:
    return _heat(panel) if isinstance(panel, Heat) else _bars(panel)


def _head(panel: Panel) -> Iterator[str]:
    yield label(panel.title, EDGE, EDGE + 9, font_weight=600)
    yield label(panel.note, EDGE, EDGE + 25, muted=True, font_size=11)


def _heat(heat: Heat) -> Drawing:
    rows = [units.fit(name, LETTERS) for name in heat.rows]
    columns = [units.fit(name, LETTERS) for name in heat.columns]
    left = EDGE + max(map(width_of, rows)) + 8
    top = EDGE + TITLE + max(map(width_of, columns)) * 0.66 + 6
    slanted = [(left + (at + .5) * CELL, top - 6, name) for at, name in enumerate(columns)]
    parts = [*_head(heat), *(label(name, x, y, transform=f"rotate(-{SLANT} {x:.1f} {y:.1f})")
                             for x, y, name in slanted)]
    parts += [label(name, left - 8, top + at * ROW + 19, text_anchor="end") for at, name in enumerate(rows)]
    places = {(row, column): (left + across * CELL, top + down * ROW)
              for down, row in enumerate(heat.rows) for across, column in enumerate(heat.columns)}
    parts += _cells([(*places[names], cell) for names, cell in heat.cells.items()], heat.most)
    empty = "".join(_box(x, y) for names, (x, y) in places.items() if names not in heat.cells)
    parts.append(line(empty, stroke_opacity=.6) if empty else "")
    width = max(left + len(columns) * CELL, _width_of_head(heat),
                *(x + width_of(name) * 0.78 for x, _, name in slanted)) + EDGE
    return Drawing(width, top + len(rows) * ROW + EDGE, tuple(parts))


def _cells(cells: Sequence[tuple[float, float, Cell]], most: int) -> Iterator[str]:
    """Shades, numbers and signs; what many of them share is said once, as pages are bounded."""
    shades: dict[float, list[str]] = {}
    numbers, signs = [], []
    for x, y, cell in cells:
        shades.setdefault(strength(cell.number, most), []).append(_box(x, y))
        middle = x + CELL / 2
        numbers.append(element("text", short_number(cell.number), x=middle, y=y + (13 if cell.signs else 19)))
        if cell.signs:
            signs.append(element("text", cell.signs, cls="x", x=middle, y=y + 25))
    for strong, boxes in sorted(shades.items()):
        yield element("path", d="".join(boxes), fill=color("append"), fill_opacity=f"{strong:.2f}")
    yield element("g", "".join(numbers), fill=WORDS, text_anchor="middle", font_size=11)
    if signs:
        yield element("g", "".join(signs), fill=ALARM, text_anchor="middle", font_size=11, font_weight=600)


def _box(x: float, y: float) -> str:
    return f"M{x + 1:.1f} {y + 1:g}h{CELL - 2:g}v{ROW - 2:g}h{2 - CELL:g}z"


def _width_of_head(panel: Panel) -> float:
    return EDGE + max(width_of(panel.title), width_of(panel.note, 11))


def _bars(bars: Bars) -> Drawing:
    left, top = EDGE + 8, EDGE + TITLE + 14
    bottom = top + HIGH
    parts = [*_head(bars), line(f"M{left:.1f} {bottom:.1f}h{len(bars.names) * BAR:.1f}")]
    for at, name in enumerate(bars.names):
        x = left + at * BAR
        cell = bars.cells.get(name, Cell(0))
        number, wrong = cell.number, cell.failed + cell.would
        tall, red = HIGH * number / bars.most, HIGH * wrong / bars.most
        if number > wrong:
            gap = 1 if wrong else 0  # beside each other: neither stands out from the other
            parts.append(element("rect", x=x + 1.5, y=bottom - tall, width=BAR - 3, height=tall - red - gap,
                                 fill=color("append")))
        if wrong:
            parts.append(element("rect", x=x + 1.5, y=bottom - red, width=BAR - 3, height=red,
                                 fill=color("lost")))
        if number == bars.most or wrong:
            words = cell.sign or short_number(number)
            tone = {"cls": "x", "fill": ALARM} if wrong else {"cls": "m"}
            parts.append(element("text", words, x=x + BAR / 2, y=bottom - tall - 4, text_anchor="middle",
                                 font_size=10, **tone))
        if at % 3 == 0:
            parts.append(label(name, x + BAR / 2, bottom + 15, muted=True, text_anchor="middle",
                               font_size=11))
    width = max(left + len(bars.names) * BAR, _width_of_head(bars)) + EDGE
    return Drawing(width, bottom + 15 + EDGE, tuple(parts))
