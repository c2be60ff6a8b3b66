"""The ranges of files as bars on one axis, with the stretch that a condition names behind them.

What lives here: the bars as SVG and as Vega-Lite, from the same values.
What it does not know: where ranges come from, and in which words they are told (``views``).

An opened file is filled, one that is spared is an outline: so it is told without colours, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import ALARM, LINE, MUTED, NEUTRAL, color
from deltanb.notebook.drawing.pens import width_of
from deltanb.text import formatting as units

WIDTH, EDGE, ROW, THICK = 700.0, 14.0, 11.0, 8.0  # pixels: of the axis, around, of a bar's place, of a bar
WORDED = 18.0  # the place of a bar with words on it
HEAD, FOOT = 30.0, 26.0  # the line above; the values of the axis below
LEAST = 3.0  # pixels of a bar: one value is a range that can be seen
LETTERS = 34  # of a value at the axis
BAND = 0.05  # how strong a stretch of the condition is: bars on it stand out as they do beside it


@dataclass(frozen=True)
class Range:
    """A bar: where it is on the axis, what it is of, how many of its files are opened."""

    low: float
    high: float
    words: str
    files: int
    opened: int


@dataclass(frozen=True)
class Ranges:
    """All that is drawn: bars, the ends of the axis in words, stretches, bars for files without a range."""

    bars: tuple[Range, ...]
    least: str
    greatest: str
    spans: tuple[tuple[float, float], ...]
    where: str
    others: tuple[Range, ...]
    """Of files that are unknown, or have NULL alone: as long as the axis."""


def draw(ranges: Ranges, sentence: str) -> str:
    """The bars as SVG."""
    bottom = EDGE + HEAD + len(ranges.bars) * ROW + len(ranges.others) * WORDED
    parts = [*_band(ranges, bottom), line(f"M{EDGE:g} {bottom + 2:g}h{WIDTH:g}"), *_bars(ranges)]
    parts += [label(units.fit(ranges.least, LETTERS), EDGE, bottom + 17, muted=True, font_size=11),
              label(units.fit(ranges.greatest, LETTERS), EDGE + WIDTH, bottom + 17, muted=True, font_size=11,
                    text_anchor="end")]
    return picture(WIDTH + 2 * EDGE, bottom + FOOT, sentence, parts)


def _band(ranges: Ranges, bottom: float) -> Iterator[str]:
    top = EDGE + HEAD - 4
    words = units.fit(ranges.where, 90)
    if ranges.where:
        first = min((low for low, _ in ranges.spans), default=0.0)
        x = min(EDGE + first * WIDTH, max(EDGE, EDGE + WIDTH - width_of(words, 11)))
        tone = {"cls": "x", "fill": ALARM} if ranges.spans else {"cls": "m", "fill": MUTED}
        yield element("text", _escaped(words), x=x, y=EDGE + 12, font_size=11, **tone)
    for low, high in ranges.spans:
        x, wide = EDGE + low * WIDTH, (high - low) * WIDTH
        yield element("rect", cls="x l", x=x, y=top, width=max(1.5, wide), height=bottom - top, fill=ALARM,
                      fill_opacity=f"{BAND if wide > 1.5 else 0.8:.2f}", stroke=LINE)


def _bars(ranges: Ranges) -> Iterator[str]:
    y = EDGE + HEAD
    for bar in ranges.bars:
        wide = max(LEAST, (bar.high - bar.low) * WIDTH)
        x = min(EDGE + bar.low * WIDTH, EDGE + WIDTH - wide)
        yield _bar(bar, x, y, wide)
        y += ROW
    for bar in ranges.others:
        yield _bar(bar, EDGE, y, WIDTH, WORDED - 3, stroke_dasharray="4 3")
        yield label(bar.words, EDGE + 6, y + 11, muted=True, font_size=11)
        y += WORDED


def _bar(bar: Range, x: float, y: float, wide: float, height: float = THICK, **attributes: Any) -> str:
    share = bar.opened / bar.files if bar.files else 0
    title = element("title", _escaped(bar.words))
    look = {"rx": 2, "y": y, "height": height}
    outline = element("rect", title, x=x, width=wide, cls="l", stroke=LINE, fill=MUTED,
                      fill_opacity=0 if share else 0.1, **look, **attributes)
    if not share:
        return outline
    filled = element("rect", title, x=x, width=wide, fill=color("append"), stroke=color("append"),
                     fill_opacity=f"{0.25 + 0.75 * share if not attributes else 0.15:.2f}", **look)
    return outline + filled


def _escaped(words: str) -> str:
    from html import escape

    return escape(units.clean(words), quote=False)


def specification(ranges: Ranges, title: str) -> dict[str, Any]:
    """The bars as Vega-Lite; places are shares of the axis, whose ends are in its title."""
    values = [{"at": at, "low": bar.low, "high": max(bar.high, bar.low + LEAST / WIDTH), "files": bar.files,
               "opened": bar.opened, "words": units.clean(bar.words), "state": state(bar)}
              for at, bar in enumerate([*ranges.bars, *ranges.others])]
    ends = units.clean(f"{ranges.least} … {ranges.greatest}")
    axis = {"title": ends, "labels": False, "ticks": False, "grid": False}
    colors = {"domain": ["opened", "in part", "spared"],
              "range": [color("append"), color("optimize"), color("schema")]}
    spared = "datum.state == 'spared'"
    shown = {"name": "bars", "data": {"values": values},
             "mark": {"type": "bar", "height": THICK, "cornerRadius": 2, "clip": True},
             "encoding": {
                 "x": {"field": "low", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": axis},
                 "x2": {"field": "high"},
                 "y": {"field": "at", "type": "ordinal", "axis": None},
                 "color": {"field": "state", "type": "nominal", "scale": colors, "title": None},
                 "stroke": {"condition": {"test": spared, "value": NEUTRAL}, "value": None},
                 "fillOpacity": {"condition": {"test": spared, "value": 0.1}, "value": 0.9},
                 "opacity": {"condition": {"param": "chosen", "value": 1}, "value": 0.15},
                 "tooltip": [{"field": "words", "title": "file"}, {"field": "files"}, {"field": "opened"}]}}
    spans = [{"low": low, "high": max(high, low + 0.002)} for low, high in ranges.spans]
    band = {"data": {"values": spans},
            "mark": {"type": "rect", "color": color("lost"), "opacity": 0.2, "clip": True},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}}
    # Altair moves selections of layers to the top, and there they are of all layers unless a view is named.
    params = [{"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"},
              {"name": "chosen", "select": {"type": "point", "fields": ["state"]}, "bind": "legend"}]
    heading = {"text": title, "anchor": "start", "fontSize": 14, "subtitle": _notes(ranges)}
    return {"title": heading, "width": WIDTH, "height": {"step": ROW},
            "params": [{**param, "views": ["bars"]} for param in params],
            "layer": [band, shown] if spans else [shown], "config": {"view": {"stroke": None}}}


def _notes(ranges: Ranges) -> list[str]:
    """The condition; how many files a bar is of, where there are more files than bars; how to look closer."""
    notes = [units.clean(units.fit(ranges.where, 120))] if ranges.where else []
    files = sum(bar.files for bar in ranges.bars)
    if files > len(ranges.bars):
        notes.append(f"{units.count(files, 'file')} as {len(ranges.bars)} bars of neighbours")
    return [*notes, "scroll over the bars to zoom, drag to move"] if ranges.bars else notes


def state(bar: Range) -> str:
    """Whether its files are opened, all of them or some."""
    return "spared" if not bar.opened else "opened" if bar.opened == bar.files else "in part"


def track(bar: Range, spans: Sequence[tuple[float, float]], letters: int) -> str:
    """A bar in letters: filled where it is opened, pale where it is spared; the stretch's ends behind it.

    >>> track(Range(0.5, 1.0, "", 1, 1), [(0.25, 0.25)], 8), track(Range(0, 0, "", 1, 0), [], 4)
    ('··|·████', '░···')
    """
    row = ["·"] * letters
    for at in {edge for span in spans for edge in span}:
        row[min(letters - 1, int(at * letters))] = "|"
    first = min(letters - 1, int(bar.low * letters))
    last = max(first, min(letters, round(bar.high * letters)) - 1)
    letter = "█" if bar.opened == bar.files else "▓" if bar.opened else "░"
    row[first:last + 1] = [letter] * (last + 1 - first)
    return "".join(row)
