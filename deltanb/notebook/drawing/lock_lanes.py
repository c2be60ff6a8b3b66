"""What a timeline of locks shows, and where: a lane for each transaction, with its scopes and locks as bands.

What lives here: how events become bands, which transactions and locks fit, and a lane as a line of text.
What it does not know: SVG (``lock_lanes_svg``), the words around it (``views``), where events come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltanb.locks.core.modes import NONE, Name, base_of, intention_of, label
from deltanb.locks.core.record import VAIN, Row, outcome_of

MAX_LANES = 12  # transactions with a lane: the newest ones
MAX_ROWS = 5  # rows of locks in a lane; locks beyond them share the last one
ALL_ROWS = 30  # rows in all: a picture higher than a screen is no picture
AFTER = 0.1  # of the time from the first to the last event that is shown after the last one, at most
ALL_BANDS, ALL_SCOPES = 110, 36  # bands in a picture, some 40 kB; of each row the newest ones
STRIP = 28  # characters of a lane as text
WAITS = -1  # the mode of a band in which a transaction waits

Event = tuple[float, Row]
"""A place on the axis, and what happened there."""

IN_VAIN = (*VAIN, "illegal")
ENDS = {"committed": "✓ committed", "put off": "… put off", "rolled back": "↩ rolled back",
        "failed": "✕ failed", "": "open", **{outcome: f"✕ {outcome}" for outcome in VAIN.values()}}
"""What became of transactions, with signs."""
LETTERS = " sux"


@dataclass(frozen=True)
class Band:
    """A span of time: a mode in which a lock is held, or :data:`WAITS`."""

    start: float
    end: float
    mode: int


@dataclass(frozen=True)
class Mark:
    """How and where a wait or a scope ended."""

    at: float
    what: str


@dataclass(eq=False)
class Line:
    """A lock in a lane."""

    names: list[Name]
    bands: list[Band] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    more: str = " more"

    @property
    def title(self) -> str:
        """The lock's name, or the number of locks that share the line."""
        return label(self.names[0]) if len(self.names) == 1 else f"{len(self.names)}{self.more} locks"

    def is_waited_for_in(self, held: Band) -> bool:
        """Whether a held band lies under a wait."""
        return any(band.mode == WAITS and band.start < held.end and held.start < band.end
                   for band in self.bands)


@dataclass(frozen=True)
class ScopeBand:
    """A scope of a transaction: ``level`` scopes lie around it."""

    start: float
    end: float
    level: int
    ends: tuple[Mark, ...] = ()


@dataclass
class Lane:
    """A transaction."""

    transaction: int
    start: float
    end: float
    scopes: list[ScopeBand] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    num_locks: int = 0
    waited: float = 0
    """For how long it waited in all, in units of the axis."""
    ended: str = ""
    """What became of it; empty while it is open."""
    vain: tuple[tuple[str, str], ...] = ()
    """What it waited for in vain: how a wait ended, and for which lock."""

    @property
    def depth(self) -> int:
        """How many levels of scopes it has."""
        return 1 + max((scope.level for scope in self.scopes), default=0)

    def strip(self, first: float, last: float) -> str:
        """Its locks as letters: ``w`` for a wait, ``s``, ``u``, ``x`` for the strongest mode held, ``i`` for
        intentions only, ``·`` for none."""
        width = (last - first) / STRIP or 1.0
        cells = ["·" if self._overlaps(first + at * width, first + (at + 1) * width) else " "
                 for at in range(STRIP)]
        strength = [0] * STRIP
        for band in (band for line in self.lines for band in line.bands):
            begin = min(STRIP - 1, int((band.start - first) / width))
            end = max(begin + 1, min(STRIP, round((band.end - first) / width)))
            for at in range(begin, end):
                letter, strong = _letter(band.mode)
                if strong > strength[at]:
                    cells[at], strength[at] = letter, strong
        return "".join(cells).rstrip()

    def _overlaps(self, start: float, end: float) -> bool:
        return self.start < end and self.end > start


def _letter(mode: int) -> tuple[str, int]:
    if mode == WAITS:
        return "w", 5
    return (LETTERS[base_of(mode)], 1 + base_of(mode)) if base_of(mode) else ("i", 1)


@dataclass(frozen=True)
class Lanes:
    """The lanes of a timeline, from ``first`` to ``last``: nanoseconds, or event numbers if it stood."""

    lanes: tuple[Lane, ...]
    total: int
    """How many transactions there are in all."""
    first: float
    last: float
    is_counted: bool
    """Whether places are events in their order, since all happened at one time."""
    num_waits: int = 0
    num_deadlocks: int = 0
    num_in_vain: int = 0
    """Waits that timed out or were interrupted."""
    is_cut: bool = False
    """Whether not all that happened to these transactions is drawn."""


def laned(rows: Sequence[Row], now: int) -> Lanes:
    """The lanes of the newest transactions in the events."""
    times = {row[0] for row in rows}
    is_counted = len(times) < 2
    places: Sequence[float] = range(1, len(rows) + 1) if is_counted else [float(row[0]) for row in rows]
    first = 0.0 if is_counted else float(min(times))
    late = max(times)
    last = float(len(rows) + 1) if is_counted else min(max(now, late), late + AFTER * (late - first))
    newest = dict.fromkeys(row[1] for row in reversed(rows) if row[2] != "closed")
    chosen = set(list(newest)[:MAX_LANES])
    most = max(1, min(MAX_ROWS, ALL_ROWS // max(1, len(chosen))))
    closed = next((place for place, row in zip(places, rows, strict=True) if row[2] == "closed"), last)
    own: dict[int, list[Event]] = {transaction: [] for transaction in sorted(chosen)}
    for place, row in zip(places, rows, strict=True):
        if row[1] in own and row[2] != "closed":
            own[row[1]].append((place, row))
    lanes = [_lane(transaction, events, first, closed, most) for transaction, events in own.items()]
    if not is_counted:  # what came before the newest transactions has no lane
        first = max(first, min((lane.start for lane in lanes if lane.start < last), default=first))
    whats = [row[2] for row in rows]
    is_cut = sum(_cut(lane, lanes) for lane in lanes) > 0
    return Lanes(tuple(lanes), len(newest), first, last, is_counted, whats.count("waits"),
                 whats.count("deadlock"), whats.count("timed out") + whats.count("interrupted"), is_cut)


def _cut(lane: Lane, lanes: Sequence[Lane]) -> bool:
    """Keep the newest bands; returns whether some were dropped."""
    most = max(2, ALL_BANDS // sum(max(1, len(one.lines)) for one in lanes))
    total = sum(len(line.bands) + len(line.marks) for line in lane.lines) + len(lane.scopes)
    for line in lane.lines:
        line.bands = sorted(line.bands, key=lambda band: band.end)[-most:]
        line.marks = sorted(line.marks, key=lambda mark: mark.at)[-most:]
    few = max(1, ALL_SCOPES // len(lanes))
    lane.scopes = [scope for scope in lane.scopes if scope.level < few][-few:]
    return total > sum(len(line.bands) + len(line.marks) for line in lane.lines) + len(lane.scopes)


def _lane(transaction: int, own: Sequence[Event], first: float, last: float, most: int) -> Lane:
    """The lane of a transaction, with ``most`` rows of locks at most."""
    ended = outcome_of(row for _, row in own)
    still = {row[3]: row[5] for _, row in own if row[3] is not None}
    is_open = not ended or any(still.values())
    lane = Lane(transaction, own[0][0], last if is_open else own[-1][0], ended=ended)
    if own[0][1][2] in ("released", "lowered"):  # what came before is not kept
        lane.start = first
    lane.num_locks = len(still)
    lane.waited, lane.vain = _waits(own, last)
    lane.lines = _lines(own, lane, list(still), most)
    lane.scopes = _scopes(own, lane)
    return lane


def _waits(own: Iterable[Event], last: float) -> tuple[float, tuple[tuple[str, str], ...]]:
    """How long a transaction waited, and for what in vain; it waits for one lock at a time."""
    total = 0.0
    since: float | None = None
    vain: dict[tuple[str, str], None] = {}
    for place, (_, _, what, name, *_) in own:
        if since is not None and name is not None:
            total, since = total + place - since, None
        if what == "waits":
            since = place
        elif what in IN_VAIN and name is not None:
            vain.pop((what, label(name)), None)  # the last one is at the end, also where it is the same again
            vain[what, label(name)] = None
    return total + (0 if since is None else last - since), tuple(vain)


def _lines(own: Iterable[Event], lane: Lane, names: list[Any], most: int) -> list[Line]:
    """The rows of locks; where not all fit, those waited for come first and the rest share one row."""
    waited = {row[3] for _, row in own if row[2] == "waits"}
    shown = names
    if len(names) > most:
        few = set(sorted(names, key=lambda name: name not in waited)[:most - 1])
        shown = [name for name in names if name in few]
    events: dict[Any, list[Event]] = {name: [] for name in shown}
    others: list[Event] = []
    for event in own:
        if event[1][3] is not None:
            events.get(event[1][3], others).append(event)
    lines = [_line([name], events[name], lane) for name in shown]
    if others:
        lines.append(_line([name for name in names if name not in events], others, lane))
        lines[-1].more = " more" if shown else ""
    return lines


def _line(names: list[Name], events: Iterable[Event], lane: Lane) -> Line:
    """The bands of one lock; for several locks, the strongest mode held at each moment. Waits lie on top."""
    line, held, since = Line(names), Counter[int](), lane.start
    known: dict[Name, int] = {}
    waiting: float | None = None
    for place, (_, _, what, name, mode, after, _) in events:
        assert name is not None
        if name not in known:
            known[name] = mode if what in ("released", "lowered") else NONE
            held[known[name]] += 1
        _extend(line, held, since, place, waiting is not None)
        if waiting is not None:
            line.bands.append(Band(waiting, place, WAITS))
        waiting = place if what == "waits" else None
        if what in IN_VAIN:
            line.marks.append(Mark(place, what))
        held[known[name]] -= 1
        held[after] += 1
        since, known[name] = place, after
    _extend(line, held, since, lane.end, waiting is not None)
    if waiting is not None:
        line.bands.append(Band(waiting, lane.end, WAITS))
    return line


def _extend(line: Line, held: Counter[int], start: float, end: float, is_under_a_wait: bool) -> None:
    """Extend the last band if it has the same mode, or begin another."""
    modes = [mode for mode, count in held.items() if count and mode != NONE]
    if not modes or end <= start:
        return
    mode = max(modes, key=lambda mode: (base_of(mode), intention_of(mode)))
    last = line.bands[-1] if line.bands else None
    if last is not None and (last.mode, last.end) == (mode, start) and not is_under_a_wait:
        line.bands[-1] = Band(last.start, end, mode)
    else:
        line.bands.append(Band(start, end, mode))


def _scopes(own: Iterable[Event], lane: Lane) -> list[ScopeBand]:
    """The scopes, the outermost first; one whose beginning was dropped begins with the lane."""
    bands: list[ScopeBand] = []
    starts: dict[int, float] = {0: lane.start}
    marks: dict[int, list[Mark]] = {0: []}
    for place, (_, _, what, name, _, _, level) in own:
        if name is not None:
            continue
        if what == "entered":
            starts[level], marks[level] = place, []
            continue
        starts.setdefault(level, lane.start)
        if what != "exited" or not marks.get(level):
            marks.setdefault(level, []).append(Mark(place, what))
        if what in ("exited", "undone") and level:
            bands.append(ScopeBand(starts.pop(level), place, level, tuple(marks.pop(level, ()))))
        if what in ("reset", "failed"):
            bands += [ScopeBand(starts.pop(inner), place, inner, ()) for inner in sorted(starts) if inner]
    bands += [ScopeBand(start, lane.end, level, tuple(marks.get(level, ()))) for level, start in
              starts.items()]
    return sorted(bands, key=lambda scope: (scope.level, scope.start))
