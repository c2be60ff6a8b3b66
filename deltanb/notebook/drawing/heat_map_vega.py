"""Maps of pairs and bars of hours as Vega-Lite.

What lives here: the specification of the chart, as a value; it is a valid Altair chart.
What it does not know: what is counted, and in which words (``views``).

Words have the colour of the host's theme; a cell's shade lets them be read in a light and in a dark one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltanb.notebook.drawing.colors import color
from deltanb.notebook.drawing.heat_map import LEAST, MOST, Bars, Cell, Heat, Panel
from deltanb.notebook.drawing.timeline_vega import WHOLE, WORDS

CELL, ROW, BAR, HIGH = 60, 34, 23, 110  # pixels


def draw(panels: Sequence[Panel], title: str) -> dict[str, Any]:
    """The chart: the panels below each other."""
    return {
        "title": {"text": title, "anchor": "start", "fontSize": 14},
        "datasets": {f"panel{at}": _data(panel) for at, panel in enumerate(panels)},
        "vconcat": [_panel(panel, f"panel{at}") for at, panel in enumerate(panels)],
        "spacing": 24,
        "resolve": {"scale": {"opacity": "independent"}},
        "config": {"view": {"stroke": None}, "axis": {"grid": False, "titleFontWeight": "normal"}},
    }


def _values(cell: Cell) -> dict[str, Any]:
    return {"races": cell.number, "lost": cell.failed, "would": cell.would, "signs": cell.signs}


def _data(panel: Panel) -> list[dict[str, Any]]:
    if isinstance(panel, Heat):
        return [{"loser": row, "winner": column, **_values(cell)}
                for (row, column), cell in panel.cells.items()]
    cells = {name: panel.cells.get(name, Cell(0)) for name in panel.names}
    return [{"hour": name, **_values(cell), "signs": cell.sign} for name, cell in cells.items()]


def _panel(panel: Panel, data: str) -> dict[str, Any]:
    made = _heat(panel, f"chosen_{data}") if isinstance(panel, Heat) else _bars(panel)
    title = {"text": panel.title, "subtitle": panel.note, "anchor": "start", "fontSize": 12}
    return {"data": {"name": data}, "title": title, **made}


def _tips(*names: str) -> list[dict[str, Any]]:
    numbers = [{"field": "races", "title": "races"}, {"field": "lost", "title": "failed"},
               {"field": "would", "title": "would fail"}]
    return [*({"field": name, "title": title} for name, title in zip(
        names, ("landed first", "came later") if len(names) > 1 else names, strict=True)), *numbers]


def _heat(heat: Heat, chosen: str) -> dict[str, Any]:
    axis = {"labelLimit": 140, "domain": False, "ticks": False}
    above = {**axis, "labelAngle": -40, "labelAlign": "left", "orient": "top"}
    encoding = {
        "x": {"field": "winner", "type": "nominal", "sort": list(heat.columns), "title": "landed first",
              "scale": {"domain": list(heat.columns)}, "axis": above},
        "y": {"field": "loser", "type": "nominal", "sort": list(heat.rows), "title": "came later",
              "scale": {"domain": list(heat.rows)}, "axis": axis},
        "tooltip": _tips("winner", "loser"),
    }
    shade = {"field": "races", "type": "quantitative", "legend": None,
             "scale": {"type": "sqrt", "domain": [0, heat.most], "range": [LEAST, MOST]}}
    return {
        "width": {"step": CELL}, "height": {"step": ROW}, "encoding": encoding,
        "layer": [
            {"mark": {"type": "rect", "color": color("append"), "cornerRadius": 3},
             "params": [{"name": chosen, "select": {"type": "point", "fields": ["loser", "winner"]}}],
             "encoding": {"opacity": shade, "stroke": {
                 "condition": {"param": chosen, "empty": False, "value": color("lost")}, "value": None},
                 "strokeWidth": {"value": 2}}},
            {"transform": [{"filter": "datum.signs == ''"}], "mark": WORDS,
             "encoding": {"text": {"field": "races", "format": ".3~s"}}},
            {"transform": [{"filter": "datum.signs != ''"}], "mark": {**WORDS, "dy": -7},
             "encoding": {"text": {"field": "races", "format": ".3~s"}}},
            {"transform": [{"filter": "datum.signs != ''"}],
             "mark": {**WORDS, "dy": 7, "fontWeight": "bold"}, "encoding": {"text": {"field": "signs"}}},
        ],
    }


def _bars(bars: Bars) -> dict[str, Any]:
    x = {"field": "hour", "type": "nominal", "sort": list(bars.names), "title": None,
         "scale": {"domain": list(bars.names)}, "axis": {"labelAngle": 0, "ticks": False}}
    y = {"type": "quantitative", "title": "races", "axis": {**WHOLE, "tickCount": 3}}
    wrong = {"calculate": "datum.lost + datum.would", "as": "wrong"}
    return {
        "width": {"step": BAR}, "height": HIGH, "encoding": {"x": x, "tooltip": _tips("hour")},
        "layer": [
            {"transform": [wrong], "mark": {"type": "bar", "color": color("append")},
             "encoding": {"y": {**y, "field": "wrong"}, "y2": {"field": "races"}}},
            {"transform": [wrong, {"filter": "datum.wrong > 0"}],
             "mark": {"type": "bar", "color": color("lost")}, "encoding": {"y": {**y, "field": "wrong"}}},
            {"transform": [{"filter": "datum.signs != ''"}], "mark": {**WORDS, "dy": -7},
             "encoding": {"y": {**y, "field": "races"}, "text": {"field": "signs"}}},
        ],
    }
