"""The lanes of a timeline drawn: a band for each writer, and in it a line for each transaction.

What lives here: rows and their heights in a given width, and their marks: a filled sign is a commit, a small
dot the version it read, a dotted line up to a hollow circle a lost race, a dashed line up to a bold ✕ a
failed transaction, a pale band a wait before the read. A thin line runs from a failed attempt to the next one
at the same work. Rows are for transactions of one writer that overlap, whatever is written about them.
What it does not know: the words (``timeline_scene``), where they are put (``labels``), what is around the
lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from typing import Any

from deltanb.notebook.drawing import labels, layout
from deltanb.notebook.drawing.chart import element, label
from deltanb.notebook.drawing.colors import LINE
from deltanb.notebook.drawing.labels import Box, Piece, Sign
from deltanb.notebook.drawing.pens import Pen
from deltanb.notebook.drawing.timeline_scene import MAX_LABELLED, Scene
from deltanb.observe.tracks import Track
from deltanb.text import formatting as units

ROW = 20  # pixels: a line alone, in their middle
BELOW = 13  # pixels below a line that has words above it
ABOVE = 9  # pixels from a line up to the foot of its words
TIER = 15  # pixels of a line of words
BAND = 6  # pixels that a band has beside its rows
BESIDE = 12  # pixels from the middle of a sign to the words at its side
TIE = 4  # pixels that what failed is tied right of its signs: another transaction landed at the same place
TICK = 46  # pixels that a version takes on the axis
AXIS = 24  # pixels of the axis below the lanes
MANY_ROWS = 3  # times as many rows as lanes: words for more are left to the tooltips
SIGNS = {
    "rewrite": "M-4-4h8v8h-8z", "delete": "M-5-3.5h10l-5 8.5z", "optimize": "M-5 3.5h10l-5-8.5z",
    "schema": "M0-5l5 5l-5 5l-5-5z",
}  # fmt: skip
CIRCLE = 4.5  # pixels: the radius of an append, and of a race lost
WAIT = 7  # pixels: how high the band of a wait is
CROSS = "M-5-5L5 5M-5 5L5-5"
REACH = 8  # pixels that a sign takes on either side of its place
COSTS = {"lead": 10, "doing": 40, "attempt": 8, "condition": 16, "counts": 8, "failure": 30, "remark": 25}
"""What leaving words out costs, so that the least important ones are left out first."""
CUT = {"doing": 6, "condition": 9, "failure": 12, "remark": 8}
"""How many letters are left at least of words that are cut."""


@dataclass(frozen=True)
class Line:
    """A transaction with its words: above its line, and beside its end."""

    track: Track
    start: float
    end: float
    above: Box | None = None
    beside: Box | None = None


@dataclass(frozen=True)
class Band:
    """The lane of a writer, in pixels from the top."""

    name: str
    top: float
    height: float


@dataclass(frozen=True)
class Tie:
    """An upright line at a place, in pixels from the left, between two rows."""

    at: float
    rows: tuple[int, int]
    look: str


class Lanes:
    """Transactions of a scene, over the places from ``low`` to ``high``, for a width in pixels."""

    def __init__(
        self, scene: Scene, tracks: Sequence[Track], low: float, high: float, width: float,
        max_tiers: int = labels.MAX_TIERS,
    ) -> None:
        self.scene, self.low, self.high, self.width = scene, low, high, width
        self.rows = scene.pack(tracks)
        lines = [Line(track, self.share(track.start), self.share(track.version)) for track in tracks]
        self._row_of = {id(track): row for track, row in zip(tracks, self.rows.rows, strict=True)}
        self._again = [(one, other) for one, other in scene.again
                       if id(one) in self._row_of and id(other) in self._row_of]
        most = max(MAX_LABELLED, MANY_ROWS * len(self.rows.lanes))
        self.is_labelled = scene.is_small and self.rows.height <= most
        self.has_words = sum(bool(self._notes(track)) for track in tracks) <= MAX_LABELLED
        self.ties = [*self._ties(), *self._links()]
        self.lines = self._with_words(lines, max_tiers)
        tiers = [max(self._tiers(line) for line in its) for its in self._by_row(self.lines)]
        self.bands, self.places = self._heights(tiers)
        self.height = sum(band.height for band in self.bands)

    def share(self, at: float) -> float:
        """A place as a share of the width, from 0 to 1; earlier places are at 0."""
        return 0.5 if self.high == self.low else max(0.0, (at - self.low) / (self.high - self.low))

    # -- places ----------------------------------------------------------------------------------

    def _heights(self, tiers: Sequence[int]) -> tuple[list[Band], list[float]]:
        """The bands, and where the line of each row is, in pixels from the top."""
        above = [TIER * n + ABOVE + BAND / 2 if n else ROW / 2 for n in tiers]
        heights = [up + (BELOW if n else ROW / 2) for up, n in zip(above, tiers, strict=True)]
        tops = [0.0, *accumulate(heights)]
        bands, places = [], []
        for at, lane in enumerate(self.rows.lanes):
            top, end = tops[lane.first], tops[lane.first + lane.height]
            bands.append(Band(lane.name, top + at * BAND, end - top + BAND))
            places += [tops[row] + (at + 0.5) * BAND + above[row]
                       for row in range(lane.first, lane.first + lane.height)]
        return bands, places

    def _tiers(self, line: Line) -> int:
        """How many tiers of words a line has above it, or room for."""
        return int(self.is_labelled) if line.above is None else line.above.tier + 1

    def _by_row(self, lines: Sequence[Line]) -> list[list[Line]]:
        """The lines of each row, by their ends."""
        rows: list[list[Line]] = [[] for _ in range(self.rows.height)]
        for line in sorted(lines, key=lambda line: line.end):
            rows[self._row_of[id(line.track)]].append(line)
        return rows

    def _ties(self) -> Iterator[Tie]:
        """A line between the rows of transactions that are one."""
        for tied in self.scene.ties:
            rows = [self._row_of[id(track)] for track in tied if id(track) in self._row_of]
            if len(rows) > 1:
                at, is_whole = self.share(tied[0].version) * self.width, tied[0].is_committed
                yield Tie(at + (0 if is_whole else TIE), (min(rows), max(rows)),
                          "lost" if is_whole else "failed")

    def _links(self) -> Iterator[Tie]:
        """A line from the end of each attempt to the row of the next one at the same work."""
        for one, other in self._again:
            row, to = self._row_of[id(one)], self._row_of[id(other)]
            if row != to:
                yield Tie(self.share(one.version) * self.width, (min(row, to), max(row, to)), "again")

    # -- words -----------------------------------------------------------------------------------

    def _with_words(self, lines: Sequence[Line], max_tiers: int) -> list[Line]:
        placed = {id(line.track): line for row, its in enumerate(self._by_row(lines))
                  for line in self._row(its, row, max_tiers)}
        return [placed[id(line.track)] for line in lines]

    def _row(self, lines: Sequence[Line], row: int, max_tiers: int) -> list[Line]:
        """The lines of a row with words: notes beside their signs where there is room, else with the others
        above."""
        fences = [tie.at for tie in self.ties if tie.rows[0] < row <= tie.rows[1]]
        starts = [self.share(self.scene.begin(line.track)) * self.width for line in lines]
        taken = [(start - REACH, line.end * self.width + REACH)
                 for start, line in zip(starts, lines, strict=True)]
        taken += [(tie.at - labels.LEADER, tie.at + labels.LEADER) for tie in self.ties
                  if tie.rows[0] <= row <= tie.rows[1]]
        taken += [(self.share(one.version) * self.width, self.share(other.start) * self.width)
                  for one, other in self._again if self._row_of[id(other)] == row]
        signs, beside, seen = [], [], frozenset[str]()
        for line, start in zip(lines, starts, strict=True):
            track, at = line.track, line.end * self.width
            notes = self._notes(track) if self.has_words or not track.is_committed else []
            box = labels.place_beside(Sign(at, notes, BESIDE), self.width, taken, seen)
            seen = frozenset(piece.says[0] for piece in notes if piece.says) if box else frozenset()
            pieces = [*(self._pieces(track) if self.is_labelled else []), *(notes if box is None else [])]
            beside.append(box)
            right = labels.CLEAR if track.is_committed else labels.CLEAR + TIE
            signs.append(Sign(at, pieces, right, start))
        above = labels.place(signs, self.width, fences, max_tiers)
        return [replace(line, above=up, beside=by) for line, up, by in zip(lines, above, beside, strict=True)]

    def _pieces(self, track: Track) -> list[Piece]:
        """What could be written above a transaction."""
        scene = self.scene
        doing, condition, attempt = scene.doing(track), scene.condition(track), scene.attempt(track)
        does = f"does {doing} {'where' if condition else ''}"
        work = "" if track.run is None else f"work {track.run.work}"
        counts = scene.counts(track) if track.is_committed else ""
        return [
            _piece("lead", scene.lead(track)),
            _piece("doing", doing, says=(does,)),
            _piece("attempt", attempt, "m", says=(work,), short=attempt.removeprefix("attempt ")),
            _piece("condition", condition, says=(f"where {doing} {condition}", does)),
            _piece("counts", counts, "m"),
        ]

    def _notes(self, track: Track) -> list[Piece]:
        """What is to be written beside the sign of a transaction."""
        mark = self.scene.mark(track)
        notes = []
        if not track.is_committed:
            failure = self.scene.failure_beside(track)
            _, by, winner = failure.partition(" by ")
            notes.append(_piece("failure", failure, "x", less=f"lost to {winner}" if by else ""))
        if mark is not None:
            words = f"{mark.sign} {mark.words}"
            notes.append(_piece("remark", words, "m" if mark.is_open else "", says=(words,),
                                short="" if mark.is_open else mark.sign))
        return notes

    # -- marks -----------------------------------------------------------------------------------

    def draw(self, pen: Pen) -> Iterator[str]:
        """Guides, ties, the lines of the transactions, and the axis below."""
        ticks = layout.ticks(self.low, self.high, max(2, int(self.width // TICK)))
        for at in ticks:
            x = pen.x(self.share(at))
            yield element("line", x1=x, x2=x, y1=0, y2=self.height + 4, cls="l", stroke=LINE)
        yield from self._tied(pen)
        yield from self._linked(pen)
        for row, lines in enumerate(self._by_row(self.lines)):
            # The latest first: where one begins at the sign of another, the sign is on top and has the mouse.
            drawn = [self._track(pen, line) for line in reversed(lines)]
            drawn += [_drawn(line.above, line.end, pen, -ABOVE) + _drawn(line.beside, line.end, pen, 4)
                      for line in lines]
            yield element("g", "".join(drawn), transform=f"translate(0 {self.places[row]:g})",
                          cls="r" if self._band_of(row) % 2 else "r s")
        for at in ticks:
            yield label(self.scene.tick(at), pen.x(self.share(at)), self.height + 18, muted=True,
                        text_anchor="middle")

    def _band_of(self, row: int) -> int:
        return next(at for at, lane in enumerate(self.rows.lanes) if row < lane.first + lane.height)

    def _tied(self, pen: Pen) -> Iterator[str]:
        for tie in self.ties:
            top, end = (self.places[row] for row in tie.rows)
            if tie.look != "again":
                x = pen.x(tie.at / self.width)
                yield element("g", element("line", x1=x, x2=x, y1=top, y2=end,
                                           stroke_dasharray="6 4" if tie.look == "failed" else None),
                              **pen.look(tie.look))

    def _linked(self, pen: Pen) -> Iterator[str]:
        """Lines from the end of each attempt to the beginning of the next one at the same work: along the row
        of the next one, and up or down to it at the end of the first."""
        drawn = []
        for one, other in self._again:
            y, to = (self.places[self._row_of[id(track)]] for track in (one, other))
            x, end = pen.x(self.share(one.version)), pen.x(self.share(other.start))
            if y != to:
                drawn.append(element("line", x1=x, x2=x, y1=y, y2=to))
            drawn.append(element("line", x1=x, x2=end, y1=to, y2=to))
        if drawn:
            yield element("g", "".join(drawn), **pen.look("again"))

    def _track(self, pen: Pen, line: Line) -> str:
        track, end = line.track, pen.x(line.end)
        title = element("title", escape("\n".join(map(units.clean, self.scene.describe(track))), quote=False))
        parts = [title, element("line", **pen.tone("h"), x1=pen.x(line.start), x2=end),
                 *self._path(pen, line)]
        drawn = element("g", "".join(parts), **pen.look(track.kind if track.is_committed else "failed"))
        mark = self.scene.mark(track)
        if mark is None or mark.sign != "✕":
            return drawn
        ring = element("circle", cx=end, r=9)
        return drawn + element("g", ring, **{**pen.look("failed"), "cls": "k-failed o"})

    def _path(self, pen: Pen, line: Line) -> Iterator[str]:
        """The line from the version read to its end, through the races it lost."""
        track = line.track
        waited = self.share(self.scene.begin(track))
        if waited < line.start:
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


def _piece(kind: str, words: str, tone: str = "", **how: Any) -> Piece:
    least = CUT.get(kind, 0)
    is_note = kind in ("failure", "remark")
    return Piece(units.clean(words), tone, COSTS[kind], least if len(words) > least + 1 else 0,
                 is_head=kind == "doing", is_detail=kind != "doing" and not is_note, **how)


def _drawn(words: Box | None, at: float, pen: Pen, y: float) -> str:
    if words is None:
        return ""
    parts = [escape(text, quote=False) if not tone else
             element("tspan", escape(text, quote=False), **pen.tone(tone),
                     font_weight=600 if tone == "x" else None)
             for text, tone in words.parts]
    up = TIER * words.tier
    leader = element("g", element("line", x1=pen.x(at), x2=pen.x(at), y1=y - up + 3, y2=y + 3),
                     **pen.look("leader")) if up else ""
    return leader + element("text", " ".join(parts), x=pen.x(at), y=y - up, **pen.tone(""), dx=words.aside,
                            text_anchor=None if words.aside > 0 else "end")
