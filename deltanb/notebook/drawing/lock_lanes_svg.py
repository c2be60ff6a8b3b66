"""The timeline of locks as SVG: lanes of transactions, scopes as thin bars, modes as bands, waits dashed.

What lives here: how lanes are drawn, and their tooltips. Each mode has a colour, a strength of tint and a
word or a letter.
What it does not know: where bands begin and end (``lock_lanes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES, SHARED, UPGRADABLE, base_of, intention_of
from deltanb.locks.core.names import called
from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import NEUTRAL, color
from deltanb.notebook.drawing.lock_lanes import ENDS, WAITS, Band, Lane, Lanes, Line, Mark, ScopeBand
from deltanb.text import formatting as units

LEFT, WIDTH, RIGHT = 150, 700, 110  # pixels: names, the plot, words at its end
ROW, BAND, SCOPE = 19, 14, 15  # pixels: a lock's row, its band, a level of scopes
GAP = 10  # pixels between lanes
MAX_NAME = 20  # characters of a lock's name
CHARACTER = 6.0  # pixels of a small character
SIGN = 12  # pixels of a sign that stands in a band, with some air
TONES = {SHARED: "optimize", UPGRADABLE: "rewrite", EXCLUSIVE: "append"}
TINTS = {SHARED: 0.16, UPGRADABLE: 0.3, EXCLUSIVE: 0.42}
LETTERS = {SHARED: "S", UPGRADABLE: "U", EXCLUSIVE: "X"}
SIGNS = {"committed": "✓", "put off": "… put off", "rolled back": "↩", "undone": "↩ undone",
         "exited": "exited", "failed": "✕ failed", "reset": "↩ reset"}
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))

Place = Callable[[float], float]


def draw(lanes: Lanes, sentence: str) -> str:
    """The picture of a timeline; the sentence is its name."""
    span = lanes.last - lanes.first or 1.0

    def x(at: float) -> float:
        return LEFT + (at - lanes.first) / span * WIDTH

    parts = list(_legend(lanes))
    y = 46.0
    for at, lane in enumerate(lanes.lanes):
        if at:
            parts.append(line(f"M14 {y - GAP / 2:.1f}H{LEFT + WIDTH + RIGHT - 14}", stroke_opacity=0.6))
        parts += _lane(lane, x, y)
        y += _height(lane) + GAP
    parts += _axis(lanes, x, y)
    return picture(float(LEFT + WIDTH + RIGHT), y + 42, sentence, parts)


def _height(lane: Lane) -> float:
    return lane.depth * SCOPE + len(lane.lines) * ROW


def _lane(lane: Lane, x: Place, top: float) -> Iterator[str]:
    yield label(called(lane.transaction, MAX_NAME), 14, top + 10, font_weight=600)
    for level in range(1, lane.depth):
        yield _row_name(f"scope {level}", top + level * SCOPE)
    for scope in lane.scopes:
        yield from _scope(scope, x, top + scope.level * SCOPE, lane.ended)
    y = top + lane.depth * SCOPE
    for one in lane.lines:
        yield _row_name(one.title, y)
        yield from _bands(one, x, y)
        y += ROW


def _row_name(name: str, y: float) -> str:
    return label(units.fit(name, MAX_NAME), LEFT - 8, y + 11, muted=True, text_anchor="end", font_size=11)


def _scope(scope: ScopeBand, x: Place, y: float, ended: str) -> Iterator[str]:
    start, end = x(scope.start), x(scope.end)
    name = f"scope {scope.level}" if scope.level else "transaction"
    ends = ", ".join(mark.what for mark in scope.ends) or "open"
    yield element("rect", f"<title>{name}: {escape(ends)}</title>", x=start, y=y + 2,
                  width=max(2.0, end - start), height=9, rx=2, fill=NEUTRAL, fill_opacity=0.22)
    for mark in scope.ends[:-1]:
        yield label(SIGNS[mark.what][0], x(mark.at), y + 11, font_size=11, text_anchor="middle")
    if ended and not scope.level:
        look: dict[str, Any] = {"cls": "x", "font_weight": 600} if ENDS[ended].startswith("✕") else {}
        yield label(ENDS[ended], end + 4, y + 11, font_size=11, **look)
    elif scope.ends:
        yield label(SIGNS[scope.ends[-1].what], end + 4, y + 11, font_size=11)


def _bands(one: Line, x: Place, y: float) -> Iterator[str]:
    for band in one.bands:
        yield from _band(one, band, x(band.start), x(band.end), y)
    for mark in one.marks:
        yield from _mark(mark, x(mark.at), y)


def _band(one: Line, band: Band, start: float, end: float, y: float) -> Iterator[str]:
    width = max(2.0, end - start)
    is_wait = band.mode == WAITS
    tip = f"{one.title}: {'waits' if is_wait else MODE_NAMES[band.mode]}"
    room = width - (SIGN / 2 if any(mark.at == band.end for mark in one.marks) else 0)
    inside = _fitting(("waits", "w") if is_wait else words(band.mode), room)
    if not is_wait and one.is_waited_for_in(band):
        inside = ""
    yield element("rect", f"<title>{escape(units.clean(tip))}</title>", x=start, y=y,
                  width=width, height=BAND, rx=2, **_look(band.mode))
    if inside:
        yield label(inside, start + room / 2, y + 11, text_anchor="middle", font_size=10)


def _look(mode: int) -> dict[str, Any]:
    if mode == WAITS:
        return {"fill": color("lost"), "fill_opacity": 0.08, "stroke": color("lost"), "stroke_width": 1.5,
                "stroke_dasharray": "4 3"}
    base = base_of(mode) or intention_of(mode) // 4
    tint = TINTS[base] if base_of(mode) else 0.05
    return {"fill": color(TONES[base]), "fill_opacity": tint, "stroke": color(TONES[base]),
            "stroke_width": 1.2 if base_of(mode) else 0.7}


def words(mode: int) -> tuple[str, str]:
    """A mode as a word and as letters.

    >>> words(1), words(12), words(13)
    (('shared', 'S'), ('intention exclusive', 'IX'), ('shared and intention exclusive', 'S+IX'))
    """
    parts = [LETTERS[base_of(mode)]] if base_of(mode) else []
    if intention_of(mode):
        parts.append("I" + LETTERS[intention_of(mode) // 4])
    return MODE_NAMES[mode], "+".join(parts)


def _fitting(forms: tuple[str, str], width: float) -> str:
    return next((one for one in forms if len(one) * CHARACTER + 4 <= width), "")


def _mark(mark: Mark, x: float, y: float) -> Iterator[str]:
    middle = y + BAND / 2
    yield element("path", d=f"M{x - 4:.1f} {middle - 4:.1f}l8 8m0-8l-8 8", stroke=color("lost"),
                  stroke_width=2.2, fill="none")
    yield label(mark.what, x + 8, middle + 4, font_size=11)


def _legend(lanes: Lanes) -> Iterator[str]:
    modes = {band.mode for lane in lanes.lanes for one in lane.lines for band in one.bands}
    x = 14.0
    for mode in sorted(modes, key=lambda mode: (mode == WAITS, not base_of(mode), mode)):
        name, letters = ("waits", "") if mode == WAITS else words(mode)
        caption = f"{name} ({letters})" if letters else name
        yield element("rect", x=x, y=14, width=22, height=BAND, rx=2, **_look(mode))
        yield label(caption, x + 28, 25, muted=True, font_size=11)
        x += 28 + len(caption) * CHARACTER + 18


def _axis(lanes: Lanes, x: Place, y: float) -> Iterator[str]:
    yield line(f"M{LEFT} {y:.1f}h{WIDTH}")
    span = lanes.last - lanes.first
    if lanes.is_counted:
        size, caption = 1.0, "events in their order: the clock stands still"
    else:
        size, unit = next(((size, unit) for size, unit in UNITS if span / size >= 3), (1.0, "ns"))
        caption = f"{unit} since the manager was made"
    for at in layout.ticks(lanes.first / size, lanes.last / size, 8):
        yield line(f"M{x(at * size):.1f} {y:.1f}v4")
        yield label(units.number(at), x(at * size), y + 17, muted=True, text_anchor="middle", font_size=11)
    yield label(caption, LEFT + WIDTH / 2, y + 33, muted=True, text_anchor="middle", font_size=11)
