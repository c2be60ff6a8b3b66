"""Ids by which commits and tables are known again: no seed gives the same one twice where it matters.

What lives here: :func:`new_table_id`, :func:`deciding_id`, and what this process remembers of the places that
it has made. What it does not know: what a place is. Names of new files have a rule of their own
(``store/new_files.py``).

``options.new_id`` may draw from a seed, so that a lesson shows the same at every run. Then a second run, a
second process and a fork draw the same ids. So the id of a table is random, but for its beginning, whoever
makes it: by it everybody knows a table from another one that took its place. A commit takes an id of the seed
only while nobody else can have drawn it there: this process made the place, which is a table by its id, and
nothing else of it has the id. Everywhere else the id is random; it is drawn from ``options.new_id`` all the
same, so that what is drawn after it stays.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from deltanb.options import options, random_id

__all__ = ["claimed", "deciding_id", "drawn_id", "new_table_id", "note_made"]

MAX_PLACES = 64
"""Places whose ids are remembered; a lesson has a few. Ids for one that was forgotten are random."""
SHOWN = 8
"""Letters of an id by which tables without a name are shown; those of a catalog are locked in their order."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass
class _Place:
    """A place that a process has made, and the ids from ``options.new_id`` that are in use there."""

    process: int
    used: set[str] = field(default_factory=set)


_places: OrderedDict[str, _Place] = OrderedDict()
_lock = threading.Lock()


def new_table_id() -> str:
    """The id of a table to be, which no other table has: not one at the same path before it, either.

    It begins as it was drawn: so tables of a lesson stay in their order, and in what is shown of their ids.

    >>> from deltanb.options import SeededIds, set_options
    >>> with set_options(new_id=SeededIds(1)):
    ...     one = new_table_id()
    >>> with set_options(new_id=SeededIds(1)):
    ...     other = new_table_id()
    >>> one == other, one[:8] == other[:8] == "cd613e30"
    (False, True)
    """
    drawn = options.new_id()
    if options.new_id is random_id:
        return drawn
    return drawn[:SHOWN] + random_id()[SHOWN:] if _UUID.fullmatch(drawn) else random_id()


def deciding_id(place: str | None) -> str:
    """An id that nothing else at a place has.

    Args:
        place: the table or catalog, as a text that names nothing else, past or future, at that place; None
            if its origin is unknown.

    >>> from deltanb.options import set_options
    >>> note_made("our lake")
    >>> with set_options(new_id=lambda: "always the same"):
    ...     first, second = deciding_id("our lake"), deciding_id("our lake")
    ...     first, first == second, deciding_id("a lake of others") == first
    ('always the same', False, False)
    """
    drawn = drawn_id(place)
    return drawn if options.new_id is random_id else claimed(place, drawn)


def drawn_id(place: str | None) -> str:
    """As :func:`deciding_id`, for what may never come to be: before the id decides it is :func:`claimed`."""
    drawn = options.new_id()
    if options.new_id is random_id:
        return drawn
    with _lock:
        return random_id() if _ours(place) is None else drawn


def claimed(place: str | None, drawn: str) -> str:
    """An id that was drawn for a place, or a random one where something else of this process has it."""
    with _lock:
        ours = _ours(place)
        if ours is None:
            return drawn
        if drawn in ours.used:
            return random_id()
        ours.used.add(drawn)
        return drawn


def note_made(place: str | None) -> None:
    """Note that this process has made a place, so that ids for it may be drawn from a seed."""
    if place is None:
        return
    with _lock:
        _places[place] = _Place(os.getpid())
        _places.move_to_end(place)
        while len(_places) > MAX_PLACES:
            _places.popitem(last=False)


def _ours(place: str | None) -> _Place | None:
    ours = None if place is None else _places.get(place)
    return ours if ours is not None and ours.process == os.getpid() else None  # a fork is another process
