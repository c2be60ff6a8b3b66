"""The lanes of a timeline drawn: a band for each writer, and in it a line for each transaction.

What lives here: the positions of lines and words in a given width, so that none overlap, and their marks: a
filled sign is a commit, a small dot the version it read, a dotted line up to a hollow circle a lost race, a
dashed line up to a bold ✕ a failed transaction, a pale band a wait before the read. A thin line runs from a
failed attempt to the next one at the same work.
What it does not know: the words (``timeline_scene``), what is around the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.chart import element, label
from deltanb.notebook.drawing.colors import LINE
from deltanb.notebook.drawing.pens import Pen, width_of
from deltanb.notebook.drawing.timeline_scene import MAX_LABELLED, Scene
from deltanb.observe.tracks import Track
from deltanb.text import formatting as units

ROW, LABELLED_ROW = 20, 40  # pixels: a line alone, and one with words above it
BAND = 6  # pixels that a band has beside its rows
ABOVE = 9  # pixels from a line up to the foot of its words
BESIDE = 12  # pixels from the middle of a sign to the words at its side
CLEAR = 5  # pixels between the line of a version and the words above a transaction
TIE = 4  # pixels that what failed is tied right of its signs: another transaction landed at the same place
APART = 14  # pixels between words and the sign before them on a row
TICK = 46  # pixels that a version takes on the axis
AXIS = 24  # pixels of the axis below the lanes
MANY_ROWS = 3  # times as many rows as lanes: words that would need more are left to the tooltips
SIGNS = {
    "rewrite": "M-4-4h8v8h-8z", "delete": "M-5-3.5h10l-5 8.5z", "optimize": "M-5 3.5h10l-5-8.5z",
    "schema": "M0-5l5 5l-5 5l-5-5z",
}  # fmt: skip
CIRCLE = 4.5  # pixels: the radius of an append, and of a race lost
WAIT = 7  # pixels: how high the band of a wait is
CROSS = "M-5-5L5 5M-5 5L5-5"
Parts = list[tuple[str, str]]
"""Words with their tones: "" as they are, "m" muted, "x" bad news."""


@dataclass(frozen=True)
class Words:
    """Words at a place, and their extent in pixels."""

    parts: Parts
    at: float
    anchor: str
    left: float
    right: float
    aside: float = 0
    """Pixels from the place to the words."""


@dataclass(frozen=True)
class Line:
    """A transaction with its words: above its line, and beside its end."""

    track: Track
    start: float
    end: float
    above: Words | None
    beside: Words | None


@dataclass(frozen=True)
class Band:
    """The lane of a writer, in pixels from the top."""

    name: str
    top: float
    height: float


class Lanes:
    """Transactions of a scene, over the places from ``low`` to ``high``, for a width in pixels."""

    def __init__(self, scene: Scene, tracks: Sequence[Track], low: float, high: float, width: float) -> None:
        self.scene, self.low, self.high, self.width = scene, low, high, width
        self.has_words = sum(bool(self._notes(track)) for track in tracks) <= MAX_LABELLED
        self.is_labelled = scene.is_small
        self.lines, self.rows = self._packed(tracks)
        if self.is_labelled and self.rows.height > max(MAX_LABELLED, MANY_ROWS * len(self.rows.lanes)):
            self.is_labelled = False
            self.lines, self.rows = self._packed(tracks)
        self.row = LABELLED_ROW if self.is_labelled else ROW
        self.bands = [
            Band(lane.name, lane.first * self.row + at * BAND, lane.height * self.row + BAND)
            for at, lane in enumerate(self.rows.lanes)]
        self.height = sum(band.height for band in self.bands)

    def share(self, at: float) -> float:
        """A place as a share of the width, from 0 to 1; earlier places are at 0."""
        return 0.5 if self.high == self.low else max(0.0, (at - self.low) / (self.high - self.low))

    # -- places ----------------------------------------------------------------------------------

    def _packed(self, tracks: Sequence[Track]) -> tuple[list[Line], layout.Lanes]:
        lines = [self._line(track) for track in tracks]
        return lines, layout.lanes([self._span(line) for line in lines], owners=self.scene.order)

    def _line(self, track: Track) -> Line:
        end = self.share(track.version)
        notes = self._notes(track) if self.has_words or not track.is_committed else []
        beside = self._beside(notes, self.share(track.start), end)
        if not self.is_labelled:
            return Line(track, self.share(track.start), end, None, beside)
        attempt, condition = (self.scene.attempt(track), "m"), (self.scene.condition(track), "")
        counts = (self.scene.counts(track) if track.is_committed else "", "m")
        parts = [(self.scene.doing(track), ""), attempt, condition, counts]
        above = self._above([*parts, *(notes if beside is None else [])], [counts, attempt, condition], end)
        return Line(track, self.share(track.start), end, above, beside)

    def _notes(self, track: Track) -> Parts:
        mark = self.scene.mark(track)
        notes = [] if track.is_committed else [(self.scene.failure(track), "x")]
        return [*notes, (f"{mark.sign} {mark.words}", "")] if mark is not None else notes

    def _beside(self, notes: Parts, start: float, end: float) -> Words | None:
        """Right of its sign; if there is no room and no words above, left of its beginning."""
        if not notes:
            return None
        x, width = end * self.width + BESIDE, _width(notes)
        if x + width <= self.width:
            return Words(notes, end, "start", x, x + width, BESIDE)
        x = start * self.width - BESIDE
        if self.is_labelled or x < width:
            return None
        return Words(notes, start, "end", x - width, x, -BESIDE)

    def _above(self, parts: Parts, spare: Parts, end: float) -> Words:
        """Left of its sign if there is room, else right of it, else from the edge; ``spare`` are the parts
        that are dropped, in this order, if there is no room at all."""
        parts = [part for part in parts if part[0]]
        while len(parts) > 1 and _width(parts) > self.width:
            left = [part for part in spare if part in parts]
            parts.remove(left[0] if left else parts[1 if len(parts) > 2 else 0])
        x, width = end * self.width, _width(parts)
        if x >= width + CLEAR:
            return Words(parts, end, "end", x - width - CLEAR, x, -CLEAR)
        if x + width + CLEAR <= self.width:
            return Words(parts, end, "start", x, x + width + CLEAR, CLEAR)
        return Words(parts, 0, "start", 0, width)

    def _span(self, line: Line) -> layout.Span:
        start, end = line.start * self.width, line.end * self.width
        waited = self._waited(line)
        start = start if waited is None else waited * self.width
        for words in (line.above, line.beside):
            if words is not None:
                start, end = min(start, words.left - APART), max(end, words.right)
        return layout.Span(line.track.writer, start, end)

    def _waited(self, line: Line) -> float | None:
        """Where a transaction began to wait before it read; None if it waited briefly or not at all."""
        mark = self.scene.mark(line.track)
        if mark is None or mark.since is None or self.share(mark.since) >= line.start:
            return None
        return self.share(mark.since)

    # -- marks -----------------------------------------------------------------------------------

    def draw(self, pen: Pen) -> Iterator[str]:
        """Guides, ties, the lines of the transactions, and the axis below."""
        ticks = layout.ticks(self.low, self.high, max(2, int(self.width // TICK)))
        for at in ticks:
            x = pen.x(self.share(at))
            yield element("line", x1=x, x2=x, y1=0, y2=self.height + 4, cls="l", stroke=LINE)
        yield from self._ties(pen)
        yield from self._again(pen)
        for row in sorted(set(self.rows.rows)):
            lines = [self._track(pen, line) for line, its in zip(self.lines, self.rows.rows, strict=True)
                     if its == row]
            yield element("g", "".join(lines), transform=f"translate(0 {self._y(row):g})")
        for at in ticks:
            yield label(self.scene.tick(at), pen.x(self.share(at)), self.height + 18, muted=True,
                        text_anchor="middle")

    def _y(self, row: int) -> float:
        band = next(at for at, lane in enumerate(self.rows.lanes) if row < lane.first + lane.height)
        down = 0.68 if self.is_labelled else 0.5  # the words are above the line
        return (row + down) * self.row + (band + 0.5) * BAND

    def _ties(self, pen: Pen) -> Iterator[str]:
        places = {id(line.track): (line.end, self._y(row))
                  for line, row in zip(self.lines, self.rows.rows, strict=True)}
        for tied in self.scene.ties:
            at = [places[id(track)] for track in tied if id(track) in places]
            if len(at) > 1:
                rows = [y for _, y in at]
                is_whole = tied[0].is_committed
                x = pen.x(at[0][0] + (0 if is_whole else TIE / self.width))
                yield element("g", element("line", x1=x, x2=x, y1=min(rows), y2=max(rows),
                                           stroke_dasharray=None if is_whole else "6 4"),
                              **pen.look("lost" if is_whole else "failed"))

    def _again(self, pen: Pen) -> Iterator[str]:
        """Lines from the end of each attempt to the beginning of the next one at the same work."""
        places = {id(line.track): (line, self._y(row))
                  for line, row in zip(self.lines, self.rows.rows, strict=True)}
        links = [(places[id(one)], places[id(other)]) for one, other in self.scene.again
                 if id(one) in places and id(other) in places]
        drawn = [element("line", x1=pen.x(one.end), x2=pen.x(other.start), y1=y, y2=to)
                 for (one, y), (other, to) in links]
        if drawn:
            yield element("g", "".join(drawn), **pen.look("again"))

    def _track(self, pen: Pen, line: Line) -> str:
        track, end = line.track, pen.x(line.end)
        title = element("title", escape("\n".join(map(units.clean, self.scene.describe(track))), quote=False))
        parts = [title, element("line", **pen.tone("h"), x1=pen.x(line.start), x2=end),
                 *self._path(pen, line)]
        drawn = element("g", "".join(parts), **pen.look(track.kind if track.is_committed else "failed"))
        words = [_drawn(line.above, pen, -ABOVE), _drawn(line.beside, pen, 4)]
        mark = self.scene.mark(track)
        ring = element("circle", cx=end, r=9) if mark is not None and mark.sign == "✕" else ""
        return drawn + (element("g", ring, **{**pen.look("failed"), "cls": "k-failed o"}) if ring else "") \
            + "".join(words)

    def _path(self, pen: Pen, line: Line) -> Iterator[str]:
        """The line from the version read to its end, through the races it lost."""
        track = line.track
        waited = self._waited(line)
        if waited is not None:
            yield element("line", x1=pen.x(waited), x2=pen.x(line.start), stroke_width=WAIT, opacity=0.3)
        on_the_way = [at for at in self.scene.crosses(track) if track.is_committed or at != track.version]
        lost = [self.share(at) for at in on_the_way if at >= self.low]
        turn = lost[-1] if lost else line.start
        end, begin = pen.x(line.end), pen.x(line.start)
        if track.start < track.version and track.start >= self.low:
            yield element("circle", cx=begin, r=1.5)
        if not track.is_committed:
            yield element("line", x1=begin, x2=end, stroke_dasharray="6 4")
        elif turn > line.start:
            yield element("line", x1=begin, x2=pen.x(turn), stroke_dasharray=".1 5", stroke_linecap="round")
        if track.is_committed and turn < line.end:
            yield element("line", x1=pen.x(turn), x2=end)
        if lost:
            yield element("g", "".join(sign(pen, "lost", at) for at in lost), **pen.look("lost"))
        yield sign(pen, track.kind if track.is_committed else "failed", line.end)


def sign(pen: Pen, kind: str, at: float, y: float = 0) -> str:
    """The sign of a kind; ``lost`` is a race lost on the way, ``failed`` a transaction that failed."""
    down: float | None = y or None
    if kind == "append":
        return element("circle", cx=pen.x(at), r=CIRCLE, cy=down)
    if kind == "lost":
        return element("circle", cx=pen.x(at), r=CIRCLE, cy=down, **pen.tone("g"))
    if kind == "failed":
        return pen.sign(at, y, CROSS, stroke_width=3.5)
    if kind == "again":
        return pen.sign(at, y, "M-7 0H7")
    return pen.sign(at, y, SIGNS[kind])


def _width(parts: Parts) -> float:
    return width_of(" ".join(words for words, _ in parts if words))


def _drawn(words: Words | None, pen: Pen, y: float) -> str:
    if words is None:
        return ""
    parts = [escape(units.clean(text), quote=False) if not tone else
             element("tspan", escape(units.clean(text), quote=False), **pen.tone(tone),
                     font_weight=600 if tone == "x" else None)
             for text, tone in words.parts]
    return element("text", " ".join(parts), x=pen.x(words.at), y=y, **pen.tone(""),
                   dx=words.aside or None, text_anchor="end" if words.anchor == "end" else None)
