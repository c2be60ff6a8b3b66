"""Mermaid's charts of a page, which GitHub draws, as pictures: Mermaid itself would come from a network.

What lives here: ``xychart-beta`` with lines, the one kind that pages have.
What it does not know: how a picture is drawn (``notebooks``).
"""

from __future__ import annotations

import json
import re
from typing import Any

from docs.site.notebooks import drawn

CHART = re.compile(r"^```mermaid\nxychart-beta\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COLOURS = ("#3f7ae0", "#c46200")  # as our charts: they are told apart in both schemes, and without colour


def with_charts(markdown: str) -> str:
    """A page in which each chart is a picture."""
    return CHART.sub(lambda match: f"```{{raw}} html\n{drawn(*read(match[1]))}\n```", markdown)


def read(chart: str) -> tuple[dict[str, Any], str]:
    """A chart as Vega-Lite, and in words.

    >>> spec, words = read('title "Two"\\nx-axis "n" ["1", "4"]\\ny-axis "rate"\\nline [2, 3.5]\\n')
    >>> spec["data"]["values"]
    [{'x': '1', 'y': 2, 'line': 0}, {'x': '4', 'y': 3.5, 'line': 0}]
    >>> words
    'Two. rate by n 1, 4: 2, 3.5'
    """
    title, across, up = (_text(chart, name) for name in ("title", "x-axis", "y-axis"))
    places = json.loads(re.search(r'x-axis "[^"]*" (\[.*\])', chart)[1])  # type: ignore[index]
    lines = [json.loads(values) for values in re.findall(r"^\s*line (\[.*\])", chart, re.MULTILINE)]
    values = [{"x": place, "y": value, "line": number} for number, line in enumerate(lines)
              for place, value in zip(places, line, strict=True)]
    axis = {"grid": False, "labelAngle": 0}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.20.1.json", "title": title, "width": 480,
        "height": 220, "background": "transparent", "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "x", "type": "ordinal", "sort": places, "title": across, "axis": axis},
            "y": {"field": "y", "type": "quantitative", "title": up},
            "color": {"field": "line", "type": "nominal", "legend": None, "scale": {"range": list(COLOURS)}},
            "strokeDash": {"field": "line", "type": "nominal", "legend": None}}}
    rows = "; ".join(", ".join(map(str, line)) for line in lines)
    return spec, f"{title}. {up} by {across} {', '.join(places)}: {rows}"


def _text(chart: str, name: str) -> str:
    match = re.search(rf'{name} "([^"]*)"', chart)
    assert match is not None, f"the chart has no {name}"
    return match[1]
