"""The timeline of locks: who waited, who held what, and how it ended.

What lives here: the view of a ``LockTimeline``, a row for each of the newest transactions, and its picture.
What it does not know: positions of bands (``drawing/lock_lanes``), their looks (``drawing/lock_lanes_svg``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltanb.locks.core.names import fitted
from deltanb.locks.core.record import VAIN
from deltanb.notebook.drawing import html, lock_lanes, lock_lanes_svg
from deltanb.notebook.drawing.lock_lanes import ENDS, Lane, Lanes
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

LETTERS = "w waits  s shared  u upgradable  x exclusive  i intention"
NO_LANES = Lanes((), 0, 0, 0, False)
MAX_WHO = 16  # characters of a transaction's name and number
MAX_VAIN = 2  # waits in vain that are named in a row


@dataclass(frozen=True)
class LanesView(View):
    """A view with lanes; ``sentence`` says them in words."""

    lanes: Lanes = NO_LANES
    sentence: str = ""


def view(timeline: Any) -> LanesView:
    """The view of a :class:`~deltanb.locks.core.record.LockTimeline`."""
    if not timeline.rows:
        return LanesView("Lock timeline", "", ("nothing happened yet",))
    lanes = timeline.scene
    counts = f"{units.count(len(timeline), 'event')}  {units.count(lanes.total, 'transaction')}"
    lines: list[Inline] = [_counted(lanes)]
    if timeline.dropped:
        lines.append(muted(f"{units.count(timeline.dropped, 'earlier event')} not kept"))
    if lanes.is_cut:
        lines.append(muted("of what happened often, the newest is drawn; timeline.table() has all"))
    return LanesView("Lock timeline", "", (counts,), tuple(lines), (_lanes(lanes), _newest(timeline)),
                     lanes=lanes, sentence=f"Lock timeline: {counts.replace('  ', ', ')}")


def _counted(lanes: Lanes) -> Inline:
    bad = [units.count(lanes.num_deadlocks, "deadlock")] if lanes.num_deadlocks else []
    bad += [units.count(lanes.num_in_vain, "wait") + " in vain"] if lanes.num_in_vain else []
    waits = units.count(lanes.num_waits, "wait") if lanes.num_waits else "nobody waited"
    return [waits, "  ", warn("✕ " + ", ".join(bad))] if bad else [waits]


def _lanes(lanes: Lanes) -> Section:
    rows = tuple((_who(lane), code(lane.strip(lanes.first, lanes.last)),
                  units.number(lane.num_locks), _waited(lane, lanes), _ended(lane))
                 for lane in reversed(lanes.lanes))
    columns = ("transaction", "in the course of time", "locks", "waited", "ended")
    table = Table(columns, rows, lanes.total, "transaction", limit=len(rows))
    return Section("Lanes", LETTERS, table, text_rows=True)


def _who(lane: Lane) -> str:
    return fitted(lane.transaction, MAX_WHO)


def _waited(lane: Lane, lanes: Lanes) -> str:
    if not lane.waited:
        return ""
    if lanes.is_counted:
        return units.count(int(lane.waited), "event")
    return units.duration(int(lane.waited // 1_000_000))


def _ended(lane: Lane) -> Inline:
    """What became of it, and for what it waited in vain."""
    end = ENDS[lane.ended]
    shown: Inline = ok(end) if lane.ended == "committed" else warn(end) if end.startswith("✕") else end
    decisive = [wait for wait in lane.vain if VAIN.get(wait[0]) == lane.ended][-1:]
    if decisive:
        shown = warn(f"{end} on {decisive[0][1]}")
    others = [f"{what} on {lock}" for what, lock in lane.vain if (what, lock) not in decisive]
    more = len(others) - MAX_VAIN
    waits = ", ".join([*others[:MAX_VAIN], *([f"{more} more"] if more > 0 else [])])
    return [shown, f"; {waits}"] if waits else shown


def _newest(timeline: Any) -> Section:
    rows = []
    for event in timeline.newest(max(1, options.max_rows)):
        what = f"{event.what} {event.mode}" if event.mode else event.what
        where = event.lock or (f"scope {event.level}" if event.level else "")
        rows.append((units.number(event.number), f"{event.at_ns / 1e6:.3f} ms", str(event.transaction), what,
                     where))
    table = Table(("event", "at", "transaction", "what", "where"), tuple(rows), len(timeline.rows), "event")
    return Section("Events", "the newest first; timeline.table() has all", table, is_detail=True)


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, the picture, the sections."""
    assert isinstance(view, LanesView)
    drawn = lock_lanes_svg.draw(view.lanes, view.sentence) if view.lanes.lanes else ""
    return html.pictured(view, drawn, as_text)


def _svg(timeline: Any) -> str:
    seen = view(timeline)
    return lock_lanes_svg.draw(seen.lanes, seen.sentence)


def _scene(timeline: Any) -> Lanes:
    return lock_lanes.laned(timeline.rows, timeline.now_ns) if timeline.rows else NO_LANES


DRAWINGS = {"svg": _svg, "scene": _scene}
