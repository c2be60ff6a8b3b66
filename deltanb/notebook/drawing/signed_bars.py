"""Bars to the right of a line for what came and to the left of it for what went, as SVG and as Vega-Lite.

What lives here: panels of such bars, below each other.
What it does not know: what is counted, and in which words (``views``).

The side, the sign before the number and the words of the legend say what the colour says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import color
from deltanb.notebook.drawing.pens import width_of
from deltanb.text import formatting as units

KINDS = {"added": "append", "removed": "delete", "changed": "rewrite"}
"""What a bar is of: its colour."""
SIGNS = {"added": "+", "removed": "−", "changed": "~"}
WIDTH, ROW, THICK = 420.0, 20.0, 12.0  # pixels: of all bars, of a bar's place, of a bar
EDGE, TITLE, GAP = 14.0, 40.0, 8.0  # around all of it; the two lines above a panel; beside words
NUMBERS = 90.0  # at either side, for the number at a bar's end
LETTERS = 30  # of a name
LEAST = 2.0  # pixels of a bar: one row beside a million is seen


@dataclass(frozen=True)
class Bar:
    """A number of a kind, at the name of its place; ``words`` are the number in words, ``more`` what else is
    known of it."""

    name: str
    kind: str
    number: int
    words: str
    more: str = ""

    @property
    def signed(self) -> int:
        """The number, negative for what went."""
        return -self.number if self.kind == "removed" else self.number


@dataclass(frozen=True)
class Panel:
    """Bars below a title; ``note`` says what is not shown. Bars of one name, of what came and of what went,
    are in one row."""

    title: str
    note: str
    bars: tuple[Bar, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, from top to bottom."""
        return tuple(dict.fromkeys(bar.name for bar in self.bars))


# -- SVG --------------------------------------------------------------------------------------------------


def draw(panels: Sequence[Panel], sentence: str) -> str:
    """All panels in one picture."""
    names = [units.fit(units.clean(name), LETTERS) for panel in panels for name in panel.names]
    zero = EDGE + max(map(width_of, names), default=0.0) + GAP + NUMBERS
    parts: list[str] = []
    y = EDGE
    for panel in panels:
        parts += _panel(panel, y, zero)
        y += TITLE + len(panel.names) * ROW + GAP
    if not panels:
        parts.append(label(sentence, EDGE, y + 10))
        y += ROW
    wide = zero + WIDTH + NUMBERS + EDGE if panels else width_of(sentence) + 2 * EDGE
    return picture(wide, y + EDGE, sentence, parts)


def _panel(panel: Panel, y: float, left: float) -> Iterator[str]:
    yield label(panel.title, EDGE, y + 10, font_weight="bold")
    yield label(panel.note, EDGE, y + 26, muted=True, font_size=11)
    most = max((bar.number for bar in panel.bars), default=0) or 1
    share = max((bar.number for bar in panel.bars if bar.kind == "removed"), default=0) / most
    per_number = WIDTH / (most * (1 + share))
    zero, y = left + share * most * per_number, y + TITLE
    yield line(f"M{zero:g} {y - 4:g}v{len(panel.names) * ROW + 4:g}")
    places = {name: y + at * ROW for at, name in enumerate(panel.names)}
    for name, top in places.items():
        yield label(units.fit(units.clean(name), LETTERS), EDGE, top + 11)
    for bar in panel.bars:
        top, wide = places[bar.name], max(LEAST, bar.number * per_number) if bar.number else 0.0
        is_gone = bar.kind == "removed"
        yield element("rect", x=zero - wide if is_gone else zero, y=top, width=wide, height=THICK, rx=1,
                      fill=color(KINDS[bar.kind]))
        words = {"x": zero - wide - 5, "text_anchor": "end"} if is_gone else {"x": zero + wide + 5}
        yield label(SIGNS[bar.kind] + bar.words, y=top + 10, font_size=11, **words)


# -- Vega-Lite --------------------------------------------------------------------------------------------


def specification(panels: Sequence[Panel], title: str, subtitle: Sequence[str]) -> dict[str, Any]:
    """The panels as a chart: numbers are zoomed, and the legend chooses a kind."""
    return {
        "title": {"text": title, "subtitle": list(subtitle), "anchor": "start", "fontSize": 14},
        "datasets": {f"panel{at}": [_values(bar) for bar in panel.bars] for at, panel in enumerate(panels)},
        "vconcat": [_chart(panel, at) for at, panel in enumerate(panels)],
        "spacing": 24,
        "resolve": {"scale": {"color": "independent"}},
        "config": {"view": {"stroke": None}, "axis": {"grid": False, "titleFontWeight": "normal"},
                   "legend": {"orient": "right", "title": None}},
    }


def _values(bar: Bar) -> dict[str, Any]:
    return {"name": units.clean(bar.name), "kind": bar.kind, "n": bar.signed,
            "words": SIGNS[bar.kind] + units.clean(bar.words), "more": units.clean(bar.more)}


def _chart(panel: Panel, at: int) -> dict[str, Any]:
    kinds = [kind for kind in KINDS if any(bar.kind == kind for bar in panel.bars)]
    chosen, zoom = f"kind{at}", f"zoom{at}"
    tips = [{"field": "name", "title": "of"}, {"field": "words", "title": "number"}]
    if any(bar.more for bar in panel.bars):
        tips.append({"field": "more", "title": "in"})
    return {
        "data": {"name": f"panel{at}"},
        "title": {"text": panel.title, "subtitle": panel.note, "anchor": "start", "fontSize": 12},
        "width": WIDTH, "height": {"step": ROW},
        "params": [{"name": chosen, "select": {"type": "point", "fields": ["kind"]}, "bind": "legend"},
                   {"name": zoom, "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}],
        "mark": {"type": "bar", "height": THICK, "clip": True},
        "encoding": {
            "x": {"field": "n", "type": "quantitative", "title": None, "stack": None,
                  "axis": {"format": "~s", "tickCount": 5, "tickMinStep": 1}},
            "y": {"field": "name", "type": "nominal", "sort": [units.clean(name) for name in panel.names],
                  "title": None, "axis": {"labelLimit": 220, "ticks": False, "domain": False}},
            "color": {"field": "kind", "type": "nominal",
                      "scale": {"domain": kinds, "range": [color(KINDS[kind]) for kind in kinds]}},
            "opacity": {"condition": {"param": chosen, "value": 1}, "value": 0.15},
            "tooltip": tips,
        },
    }
