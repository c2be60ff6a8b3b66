"""The timeline of locks as SVG: lanes of transactions, scopes as thin bars, modes as bands, waits dashed.

What lives here: how lanes are drawn, which words have room, and tooltips, which have all of them. Each mode
has a colour, a strength of tint and a word or a letter.
What it does not know: where bands begin and end (``lock_lanes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES, SHARED, UPGRADABLE, base_of, intention_of
from deltanb.locks.core.names import called
from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import ALARM, NEUTRAL, color
from deltanb.notebook.drawing.labels import BOLD, cut
from deltanb.notebook.drawing.lock_lanes import ENDS, WAITS, Band, Lane, Lanes, Line, Mark, ScopeBand
from deltanb.notebook.drawing.pens import width_of
from deltanb.text import formatting as units

LEFT, WIDTH, RIGHT = 172, 644, 136  # pixels: names, the plot, words at its end; together as wide as a cell
ROW, BAND, SCOPE = 20, 15, 16  # pixels: a lock's row, its band, a level of scopes
GAP = 10  # pixels between lanes
MAX_NAME = 20  # characters of a transaction's name
EDGE, BESIDE = 14, 8  # pixels: from the picture's edge to words, and from names to the plot
SIGN, AIR = 5, 3  # pixels: half a sign that marks an end, and what words keep off other things
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

    parts, legend = _legend(lanes)
    y = 46.0 + legend
    for at, lane in enumerate(lanes.lanes):
        if at:
            parts.append(line(f"M{EDGE} {y - GAP / 2:.1f}H{LEFT + WIDTH + RIGHT - EDGE}", stroke_opacity=0.6))
        parts += _lane(lane, x, y)
        y += _height(lane) + GAP
    parts += _axis(lanes, x, y)
    return picture(float(LEFT + WIDTH + RIGHT), y + 42, sentence, parts)


def _height(lane: Lane) -> float:
    return lane.depth * SCOPE + len(lane.lines) * ROW


def _lane(lane: Lane, x: Place, top: float) -> Iterator[str]:
    yield label(_name(lane.transaction), EDGE, top + 11, font_weight=600)
    for level in range(1, lane.depth):
        yield _row_name(f"scope {level}", top + level * SCOPE)
    for level in range(lane.depth):
        scopes = [scope for scope in lane.scopes if scope.level == level]
        yield from _scopes(scopes, x, top + level * SCOPE, "" if level else lane.ended)
    y = top + lane.depth * SCOPE
    for one in lane.lines:
        yield _row_name(one.title, y)
        yield from _line_of(one, x, y)
        y += ROW


def _name(transaction: int) -> str:
    """What a transaction is called, in the room that there is: its number is not cut."""
    names = (called(transaction, most) for most in range(MAX_NAME, 0, -1))
    room = (LEFT - EDGE - BESIDE) / BOLD
    return next((name for name in names if width_of(name) <= room), str(int(transaction)))


def _row_name(name: str, y: float) -> str:
    return label(cut(name, LEFT - EDGE - BESIDE), LEFT - BESIDE, y + 12, muted=True, text_anchor="end")


class _Row:
    """What of a row is taken: words are only where nothing else is."""

    def __init__(self, taken: Iterable[tuple[float, float]]) -> None:
        self._taken = list(taken)

    def put(self, words: str, starts: Iterable[float], last: float, scale: float = 1.0) -> float | None:
        """The first of the places at which words are free, which are then taken; none beyond ``last``."""
        wide = width_of(words) * scale
        for start in starts:
            if start >= LEFT and start + wide <= last and not any(
                    start - AIR < end and begin < start + wide + AIR for begin, end in self._taken):
                self._taken.append((start, start + wide))
                return start
        return None

    def free(self, start: float, end: float) -> tuple[float, float]:
        """The longest stretch between two places in which nothing is."""
        inside = sorted(one for one in self._taken if start < one[1] and one[0] < end)
        gaps, at = [], start
        for begin, until in inside:
            gaps.append((at, begin))
            at = max(at, until)
        return max([*gaps, (at, end)], key=lambda gap: gap[1] - gap[0])


def _scopes(scopes: Sequence[ScopeBand], x: Place, y: float, ended: str) -> Iterator[str]:
    row, middles = _Row((x(scope.start), x(scope.end)) for scope in scopes), _Row(())
    for scope in scopes:
        start, end = x(scope.start), x(scope.end)
        name = f"scope {scope.level}" if scope.level else "transaction"
        ends = ", ".join(mark.what for mark in scope.ends) or "open"
        yield element("rect", f"<title>{name}: {escape(ends)}</title>", x=start, y=y + 2,
                      width=max(2.0, end - start), height=9, rx=2, fill=NEUTRAL, fill_opacity=0.22)
        for mark in scope.ends[:-1]:
            sign = SIGNS[mark.what][0]
            if middles.put(sign, [x(mark.at) - width_of(sign) / 2], LEFT + WIDTH) is not None:
                yield label(sign, x(mark.at), y + 11, text_anchor="middle")
        if ended or scope.ends:
            words = ENDS[ended] if ended else SIGNS[scope.ends[-1].what]
            is_bad = ended != "" and words.startswith("✕")
            yield from _end(row, words, end, y, is_bad)


def _end(row: _Row, words: str, end: float, y: float, is_bad: bool) -> Iterator[str]:
    """How a scope ended: in words, else by the sign alone."""
    look: dict[str, Any] = {"cls": "x", "font_weight": 600} if is_bad else {}
    for form in (words, *([] if words[0].isalpha() else [words[0]])):
        at = row.put(form, [end + AIR + 1], LEFT + WIDTH + RIGHT - AIR, BOLD if is_bad else 1)
        if at is not None:
            yield label(form, at, y + 11, **look)
            return


def _line_of(one: Line, x: Place, y: float) -> Iterator[str]:
    for band in one.bands:
        is_wait = band.mode == WAITS
        tip = f"{one.title}: {'waits' if is_wait else MODE_NAMES[band.mode]}"
        yield element("rect", f"<title>{escape(units.clean(tip))}</title>", x=x(band.start), y=y,
                      width=_wide(band, x), height=BAND, rx=2, **_look(band.mode))
    edges = {at for band in one.bands for at in (x(band.start), x(band.start) + _wide(band, x))}
    row = _Row([*((x(mark.at) - SIGN, x(mark.at) + SIGN) for mark in one.marks), *((at, at) for at in edges)])
    for mark in reversed(one.marks):
        yield from _mark(mark, x(mark.at), y, row)
    for band in one.bands:
        is_wait = band.mode == WAITS
        if is_wait or not one.is_waited_for_in(band):
            yield from _band_words(("waits", "w") if is_wait else words(band.mode), band, x, y, row)


def _wide(band: Band, x: Place) -> float:
    return max(2.0, x(band.end) - x(band.start))


def _band_words(forms: Sequence[str], band: Band, x: Place, y: float, row: _Row) -> Iterator[str]:
    """The mode in the longest stretch of its band that is free, in full or as letters."""
    start, end = row.free(x(band.start), x(band.end))
    for form in forms:
        at = row.put(form, [(start + end - width_of(form)) / 2], x(band.end))
        if at is not None:
            yield label(form, (start + end) / 2, y + 12, text_anchor="middle")
            return


def _look(mode: int) -> dict[str, Any]:
    if mode == WAITS:
        return {"cls": "w", "fill": ALARM, "fill_opacity": 0.08, "stroke": ALARM, "stroke_width": 1.5,
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


def _mark(mark: Mark, x: float, y: float, row: _Row) -> Iterator[str]:
    """The sign of how a wait ended, and its words where there is room beside it."""
    middle = y + BAND / 2
    cross = f"M{x - 4:.1f} {middle - 4:.1f}l8 8m0-8l-8 8"
    yield element("path", f"<title>{escape(mark.what)}</title>", d=cross, cls="k-failed", stroke=ALARM,
                  stroke_width=2.2, fill="none")
    places = (x + SIGN + AIR, x - SIGN - AIR - width_of(mark.what))
    at = row.put(mark.what, places, LEFT + WIDTH + RIGHT - AIR)
    if at is not None:
        yield label(mark.what, at, y + 12)


def _legend(lanes: Lanes) -> tuple[list[str], float]:
    """The modes that there are, on as many lines as they take; and the height of these lines."""
    modes = {band.mode for lane in lanes.lanes for one in lane.lines for band in one.bands}
    parts: list[str] = []
    x, y = float(EDGE), 0.0
    for mode in sorted(modes, key=lambda mode: (mode == WAITS, not base_of(mode), mode)):
        name, letters = ("waits", "") if mode == WAITS else words(mode)
        caption = f"{name} ({letters})" if letters else name
        wide = 28 + width_of(caption)
        if x + wide > LEFT + WIDTH + RIGHT - EDGE:
            x, y = float(EDGE), y + ROW
        parts.append(element("rect", x=x, y=y + 14, width=22, height=BAND, rx=2, **_look(mode)))
        parts.append(label(caption, x + 28, y + 26, muted=True))
        x += wide + 10
    return parts, y


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
        yield label(units.number(at), x(at * size), y + 17, muted=True, text_anchor="middle")
    yield label(caption, LEFT + WIDTH / 2, y + 33, muted=True, text_anchor="middle")
