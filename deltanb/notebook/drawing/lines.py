"""A line chart of measurements: one line a way of doing it, one point a step along it.

What lives here: :class:`Lines`, its Vega-Lite chart, the same picture as SVG, the same numbers as text.
Each line has a colour, a shape, a dash and its name beside it, so that none has to be told by colour.
What it does not know: what was measured.

>>> rows = [{"policy": "at once", "writers": n, "retries": n / 2, "speed": 9 - n} for n in (1, 2)]
>>> Lines(rows, line="policy", step="writers", x="retries", y="speed")
speed against retries, by writers
writers  ● at once
1        8.0 at 0.5
2        7.0 at 1.0
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.formatting import clean
from deltanb.notebook.drawing.chart import chart_bundle, color, element, label, line, picture
from deltanb.notebook.drawing.text import clamp, columns

WIDTH, HEIGHT = 560, 320  # pixels of the plot: as wide as a cell of JupyterLab beside its file browser
LEFT, TOP, RIGHT, BELOW = 66, 62, 70, 54  # pixels around it: titles, numbers, the half of a name
TICKS = 6  # about so many numbers along an axis
MAX_POINTS = 400  # a line: more points than pixels between them
LOOKS = (  # colour, shape, dash and sign: four lines are what a person can follow
    ("append", "circle", (1, 0), "●"),
    ("rewrite", "square", (7, 3), "■"),
    ("delete", "triangle-up", (2, 3), "▲"),
    ("optimize", "diamond", (9, 3, 2, 3), "◆"),
)
SHAPES = {  # from the middle of the point, in pixels
    "circle": "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "square": "m-4.5 -4.5h9v9h-9z",
    "triangle-up": "m0 -6l5.5 10h-11z",
    "diamond": "m0 -6l5 6l-5 6l-5 -6z",
}
NAME_SHIFT = 8  # pixels by which a name reaches beyond its point
ENDS = {"falls": ("right", "end", NAME_SHIFT), "rises": ("left", "start", -NAME_SHIFT)}
SIDES = {"above": -10, "below": 19}  # from the middle of a point to the foot of its number, in pixels
NAME_BELOW = 20  # from the middle of a line's last point to the foot of its name, in pixels
ROOM = (13, 14)  # pixels across and up that a number at a point needs for itself
NAME_ROOM = (50, 16)  # and a name, to either side of its middle and up


@dataclass(frozen=True)
class Point:
    """One measurement: on which line, at which step, and its two numbers."""

    line: str
    step: str
    x: float
    y: float


class Lines:
    """Two measures against each other: one line a name, its points in the order of the rows.

    Args:
        rows: one mapping a point.
        line, step: the keys of a line's name and of what goes on along it, written at each point.
        x, y: the keys of the two numbers, from 0 on. Keys are the titles of axes and columns too.

    Raises:
        InvalidArgument: no rows, a key that a row lacks, a value that is no such number, too many lines
            or points.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], *, line: str, step: str, x: str, y: str
    ) -> None:
        self.line, self.step, self.x, self.y = map(clean, (line, step, x, y))
        self.points = tuple(_point(row, line, step, x, y) for row in rows)
        self.names = tuple(dict.fromkeys(point.line for point in self.points))
        if not self.points:
            raise InvalidArgument("a line chart needs at least one row")
        if len(self.names) > len(LOOKS):
            raise InvalidArgument(
                f"{len(self.names)} lines; a chart holds {len(LOOKS)}, so leave out some of {line}")
        most = max(len(self.of(name)) for name in self.names)
        if most > MAX_POINTS:
            raise InvalidArgument(f"{most} points; a line holds {MAX_POINTS}, so leave out some of {step}")

    @property
    def sentence(self) -> str:
        """What the picture shows, without its numbers."""
        return f"{self.y} against {self.x}, by {self.step}"

    def of(self, name: str) -> list[Point]:
        """The points of one line, in order."""
        return [point for point in self.points if point.line == name]

    def __repr__(self) -> str:
        at = {(point.line, point.step): f"{point.y:.1f} at {point.x:.1f}" for point in self.points}
        head = [self.step, *(f"{look[3]} {name}" for name, look in self._looks())]
        rows = [[step, *(at.get((name, step), "–") for name in self.names)]
                for step in dict.fromkeys(point.step for point in self.points)]
        return clamp([self.sentence, *columns([head, *rows])])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return chart_bundle(self.spec, self.svg, repr(self), include, exclude)

    def _looks(self) -> list[tuple[str, tuple[Any, ...]]]:
        return list(zip(self.names, LOOKS, strict=False))

    def _ticks(self, of: str) -> list[float]:
        values = [getattr(point, of) for point in self.points]
        return ticks(min(values), max(values))

    def _place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels from the left and the top of the plot."""
        across, up = self._ticks("x"), self._ticks("y")
        return (WIDTH * (x - across[0]) / (across[-1] - across[0]),
                HEIGHT * (up[-1] - y) / (up[-1] - up[0]))

    def _falls(self, name: str) -> bool:
        """Whether a line goes down at its end; its name stands to the left of its last point then."""
        *_, before, last = self.of(name)[:1] + self.of(name)
        return last.y < before.y

    def _sides(self) -> list[str]:
        """Where the number of each point stands: above, below, or nowhere for want of room."""
        dots = [self._place(point.x, point.y) for point in self.points]
        ends = [max(at for at, point in enumerate(self.points) if point.line == name) for name in self.names]
        taken = [(*dot, *ROOM) for dot in dots]
        for at in ends:
            away = NAME_ROOM[0] - NAME_SHIFT
            left = dots[at][0] + (-away if self._falls(self.points[at].line) else away)
            taken.append((left, dots[at][1] + NAME_BELOW - 5, *NAME_ROOM))
        sides, said = ["none"] * len(dots), set()
        for at in [*ends, *(at for at in range(len(dots)) if at not in ends)]:
            x, y = dots[at]
            here = (round(x), round(y), self.points[at].step)
            for side, down in SIDES.items() if here not in said else ():
                middle = y + down - 4
                if all(abs(x - left) >= across or abs(middle - top) >= up for left, top, across, up in taken):
                    sides[at] = side
                    said.add(here)
                    taken.append((x, middle, *ROOM))
                    break
        return sides

    @property
    def _hint(self) -> str:
        return f"numbers at the points: {self.step}"

    # -- Vega-Lite ---------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """The chart in Vega-Lite; its data are in it.

        Words inside a plot do not follow the host's theme, so they are grey; the legend does.
        """
        looks = self._looks()
        legend = {"title": self.line, "symbolSize": 90, "symbolStrokeWidth": 0, "labelFontSize": 12}
        shades = _scaled("line", self.names, [color(look[0]) for _, look in looks], legend)
        shapes = _scaled("line", self.names, [look[1] for _, look in looks], legend)
        dashes = _scaled("line", self.names, [list(look[2]) for _, look in looks], None)
        tips = [{"field": field, "title": title} for field, title in
                (("line", self.line), ("step", self.step), ("x", self.x), ("y", self.y))]
        return {
            "description": self.sentence,
            "title": {"text": self.sentence, "subtitle": self._hint, "anchor": "start"},
            "width": WIDTH, "height": HEIGHT,
            "data": {"values": self._values()},
            "encoding": {"x": _axis("x", self.x, self._ticks("x")),
                         "y": _axis("y", self.y, self._ticks("y"))},
            "layer": [
                {"mark": {"type": "line", "strokeWidth": 2},
                 "encoding": {"color": shades, "strokeDash": dashes, "order": {"field": "at"}}},
                {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                 "encoding": {"color": shades, "shape": shapes, "tooltip": tips}},
                *(_words("step", f"datum.side == '{side}'", dy=down, fontSize=12)
                  for side, down in SIDES.items()),
                *(_words("line", f"datum.end == '{end}'", align=align, dx=shift, dy=NAME_BELOW,
                         fontSize=13, fontWeight="bold") for end, (align, _, shift) in ENDS.items()),
            ],
            "config": {"view": {"stroke": None}, "axis": {"gridOpacity": 0.35}},
        }

    def _values(self) -> list[dict[str, Any]]:
        ends = {self.of(name)[-1]: "falls" if self._falls(name) else "rises" for name in self.names}
        return [
            {"line": point.line, "step": point.step, "x": round(point.x, 3), "y": round(point.y, 3),
             "at": at, "side": side, "end": ends.get(point, "none")}
            for at, (point, side) in enumerate(zip(self.points, self._sides(), strict=True))
        ]

    # -- SVG ---------------------------------------------------------------------------------------

    def svg(self) -> str:
        """The same picture for pages and hosts that draw no Vega-Lite."""
        parts = [label(self.sentence, LEFT, 24, font_size=14, font_weight="bold"),
                 label(self._hint, LEFT, 42, muted=True), *self._frame()]
        sides = dict(zip(self.points, self._sides(), strict=True))
        for name, look in self._looks():
            dots = [self._dot(point.x, point.y) for point in self.of(name)]
            parts += _drawn(dots, look)
            for (x, y), point in zip(dots, self.of(name), strict=True):
                if (down := SIDES.get(sides[point])) is not None:
                    parts.append(label(point.step, x, y + down, text_anchor="middle", font_size=11))
            _, anchor, shift = ENDS["falls" if self._falls(name) else "rises"]
            x, y = dots[-1][0] + shift, dots[-1][1] + NAME_BELOW
            parts.append(label(name, x, y, text_anchor=anchor, font_size=13, font_weight="bold"))
        return picture(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BELOW, self.sentence, parts)

    def _dot(self, x: float, y: float) -> tuple[float, float]:
        across, down = self._place(x, y)
        return round(LEFT + across, 1), round(TOP + down, 1)

    def _frame(self) -> list[str]:
        across, up = self._ticks("x"), self._ticks("y")
        (left, bottom), (right, top) = self._dot(across[0], up[0]), self._dot(across[-1], up[-1])
        parts = []
        for value in across:
            x, _ = self._dot(value, up[0])
            parts += [line(f"M{x} {bottom}V{top}"),
                      label(f"{value:g}", x, bottom + 17, muted=True, text_anchor="middle")]
        for value in up:
            _, y = self._dot(across[0], value)
            parts += [line(f"M{left} {y}H{right}"),
                      label(f"{value:g}", left - 8, y + 4, muted=True, text_anchor="end")]
        middle = TOP + HEIGHT // 2
        return [*parts, label(self.x, LEFT + WIDTH // 2, bottom + 38, text_anchor="middle"),
                label(self.y, 20, middle, text_anchor="middle", transform=f"rotate(-90 20 {middle})")]


def ticks(least: float, most: float) -> list[float]:
    """Round numbers around all values, about six of them; from 0 unless that left half the space empty.

    >>> ticks(0, 2.9)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    >>> ticks(13, 22)
    [12.0, 14.0, 16.0, 18.0, 20.0, 22.0]
    """
    start = least if 2 * least > most else 0.0
    rough = (most - start or most or 1.0) / TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(start / step + 1e-9), math.ceil(most / step - 1e-9)
    return [float(f"{step * at:.12g}") for at in range(first, max(last, first + 1) + 1)]


def _point(row: Mapping[str, Any], line: str, step: str, x: str, y: str) -> Point:
    missing = [key for key in (line, step, x, y) if key not in row]
    if missing:
        raise InvalidArgument(f"a row has no {missing[0]!r}; it has {', '.join(map(repr, row))}")
    for key in (x, y):
        value = row[key]
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InvalidArgument(f"{key}={value!r} of {row[line]} must be a finite number from 0 on")
    return Point(clean(row[line]), clean(row[step]), float(row[x]), float(row[y]))


def _scaled(
    field: str, domain: Sequence[str], values: Sequence[Any], legend: dict[str, Any] | None
) -> dict[str, Any]:
    scale = {"domain": list(domain), "range": list(values)}
    return {"field": field, "type": "nominal", "legend": legend, "scale": scale}


def _axis(field: str, title: str, values: Sequence[float]) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "axis": {"values": list(values)},
            "scale": {"domain": [values[0], values[-1]], "nice": False}}


def _words(field: str, where: str, **mark: Any) -> dict[str, Any]:
    return {"transform": [{"filter": where}], "encoding": {"text": {"field": field}},
            "mark": {"type": "text", "style": "guide-label", "filled": False, "strokeWidth": 0,
                     "baseline": "alphabetic", **mark}}


def _drawn(dots: Sequence[tuple[float, float]], look: tuple[Any, ...]) -> list[str]:
    shade, (_, shape, dash, _) = color(look[0]), look
    path = "M" + "L".join(f"{x} {y}" for x, y in dots)
    dashed = None if dash == (1, 0) else " ".join(map(str, dash))
    return [element("path", d=path, fill="none", stroke=shade, stroke_width=2, stroke_dasharray=dashed),
            *(element("path", d=f"M{x} {y}{SHAPES[shape]}", fill=shade) for x, y in dots)]
