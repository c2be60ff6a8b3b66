"""Ids by which commits and tables are known again: no seed gives the same one twice where it matters.

What lives here: :func:`deciding_id`, and what this process remembers of the places that it has made.
What it does not know: what a place is. Names of new files have a rule of their own (``store/new_files.py``).

``options.new_id`` may draw from a seed, so that a lesson shows the same at every run. Then a second run, a
second process and a fork draw the same ids. So a place takes such an id only while nobody else can have drawn
it there: the place was made by this process, and nothing else of it has the id there. Everywhere else the id
is random; it is drawn from ``options.new_id`` all the same, so that what is drawn after it stays.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from deltanb.options import options, random_id

__all__ = ["claimed", "deciding_id", "drawn_id", "note_made"]

MAX_PLACES = 64
"""Places whose ids are remembered; a lesson has a few. Ids for one that was forgotten are random."""


@dataclass
class _Place:
    """A place that a process makes or has made, and the ids from ``options.new_id`` that are in use there."""

    process: int
    is_made: bool = False
    used: set[str] = field(default_factory=set)


_places: OrderedDict[str, _Place] = OrderedDict()
_lock = threading.Lock()


def deciding_id(place: str | None, *, is_new: bool = False) -> str:
    """An id that nothing else at a place has.

    Args:
        place: the table or catalog, by a text that is the same for all who open it here; None is one of
            which nobody knows who made it.
        is_new: it is not there yet; who makes it says so by :func:`note_made`.

    >>> from deltanb.options import set_options
    >>> with set_options(new_id=lambda: "always the same"):
    ...     first, second = deciding_id("a new lake", is_new=True), deciding_id("a new lake", is_new=True)
    ...     first, first == second, deciding_id("a lake of others") == first
    ('always the same', False, False)
    """
    drawn = drawn_id(place, is_new=is_new)
    return drawn if options.new_id is random_id else claimed(place, drawn)


def drawn_id(place: str | None, *, is_new: bool = False) -> str:
    """As :func:`deciding_id`, for what may never come to be: before the id decides it is :func:`claimed`."""
    drawn = options.new_id()
    if options.new_id is random_id:
        return drawn
    with _lock:
        ours = None if place is None else _ours(place)
        if is_new and place is not None and (ours is None or ours.is_made):
            ours = _begin(place)
        return random_id() if ours is None else drawn


def claimed(place: str | None, drawn: str) -> str:
    """An id that was drawn for a place, or a random one where something else of this process has it."""
    with _lock:
        ours = None if place is None else _ours(place)
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
        ours = _ours(place)
        if ours is None or ours.is_made:  # another one was there before
            ours = _begin(place)
        ours.is_made = True


def _ours(place: str) -> _Place | None:
    ours = _places.get(place)
    return ours if ours is not None and ours.process == os.getpid() else None  # a fork is another process


def _begin(place: str) -> _Place:
    ours = _places[place] = _Place(os.getpid())
    _places.move_to_end(place)
    while len(_places) > MAX_PLACES:
        _places.popitem(last=False)
    return ours
