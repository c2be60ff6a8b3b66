"""Who ran at the same time as a commit: those it did not see, and those that did not see it.

What lives here: :func:`raced_at`.
What it does not know: how meetings are judged (``observe/meetings``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltanb.log.history import History, between
from deltanb.log.lines import whole_number
from deltanb.observe.meetings import SPOTS, Meeting, meet

if TYPE_CHECKING:
    from deltanb.log.history import HistoryEntry
    from deltanb.log.reader import LogReader

MAX_NEAR = 100
"""Commits before and behind one that are looked at: who is farther away has read what is older than most
transactions are, and each is a check of the rules."""
_ABOUT_ONE = ("read-version", "reads", "windows", "unreadable", "impossible-window")


def raced_at(log: LogReader, entry: HistoryEntry) -> tuple[tuple[Meeting, ...], list[str]]:
    """The meetings of a commit with others, and what of them is not known, in words.

    Raises:
        DeltaError, OSError: the commits beside it cannot be read.
    """
    version = entry.version
    read = whole_number(entry.read_version)
    first = version - MAX_NEAR if read is None else max(read + 1, version - MAX_NEAR)
    history = History(between(log, max(0, first), version + MAX_NEAR), log)
    known = meet(history)
    meetings = tuple(one for one in known if version in (one.winner.version, one.loser.version))
    notes = [f"v{version}: {SPOTS[spot.kind]}" for spot in known.blind_spots
             if spot.kind in _ABOUT_ONE and version in spot.versions and version]
    return meetings, notes
