"""Ranges of bytes of a file, or of rows: (first, one behind the last).

What lives here: which of them are taken together.
What it does not know: what they are ranges of, and who reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["Range", "bridged", "joined", "near"]

Range = tuple[int, int]

HOLE_BYTES, HOLE_SHARE = 8192, 16
"""A hole between ranges is read with them up to so many bytes (so does Arrow), and where all such holes
together are at most this part of what is wanted."""

ROUND_TRIP_BYTES, MOST_BYTES = 1 << 20, 16 << 20
"""Bytes that a store elsewhere brings in the time that a request waits for its answer; what one answer has at
most, where there is a choice."""


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ascending ranges, those as one that follow each other."""
    merged: list[Range] = []
    for start, stop in ranges:
        if merged and merged[-1][1] == start:
            merged[-1] = merged[-1][0], stop
        else:
            merged.append((start, stop))
    return merged


def bridged(ranges: Iterable[Range]) -> list[Range]:
    """Ranges of bytes in their order, those as one that have no hole between them, or a small one.

    >>> bridged([(0, 200_000), (210_000, 400_000), (500_000, 500_100)])
    [(0, 400000), (500000, 500100)]
    """
    ordered = sorted(ranges)
    left = sum(stop - start for start, stop in ordered) // HOLE_SHARE
    holes = sorted((start - stop, at) for at, ((_, stop), (start, _)) in enumerate(pairwise(ordered)))
    for hole, at in holes:
        if hole > HOLE_BYTES and hole > left:
            break
        left -= hole
        ordered[at] = ordered[at][0], ordered[at + 1][0]
    return joined(ordered)


def near(ranges: Iterable[Range]) -> list[Range]:
    """Ranges of bytes of a store elsewhere in their order, those as one between which less lies than another
    request would cost.

    >>> near([(0, 200_000), (900_000, 900_100), (5_000_000, 5_000_100)])
    [(0, 900100), (5000000, 5000100)]
    """
    together: list[Range] = []
    for start, stop in sorted(ranges):
        begin, end = together[-1] if together else (0, -ROUND_TRIP_BYTES)
        if start - end < ROUND_TRIP_BYTES and stop - begin <= MOST_BYTES:
            together[-1] = begin, max(end, stop)
        else:
            together.append((start, stop))
    return together
