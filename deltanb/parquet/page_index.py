"""The page index of a Parquet file: where the pages of a column lie, and what is known of their values.

What lives here: where a column's two indexes are, how they are read, and what they must fulfil to be
followed.
What it does not know: which rows are wanted, how pages are read, what a bound means.

Spark and deltalake write one for each column, and no bounds into the headers of pages. Of what it says the
rows of lists in data pages of version 1 are said nowhere else; all the rest is compared with the headers of
those pages that are read (``pages``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from deltanb.parquet.format import COLUMN_INDEX, OFFSET_INDEX
from deltanb.parquet.ranges import Range
from deltanb.parquet.thrift import Values

__all__ = ["FIELDS", "Bounds", "Location", "place_of", "read_bounds", "read_locations"]


FIELDS = frozenset({
    "offset_index_offset", "offset_index_length", "column_index_offset", "column_index_length"})
"""Of a column's entry in the footer, those that say where its index lies."""


class Location(NamedTuple):
    """A data page: its first row in the row group, and where it lies in the file."""

    row: int
    begin: int
    end: int


class Bounds(NamedTuple):
    """What is known of the values of a page: NULLs (None: not known), and bounds of the others."""

    nulls: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


def place_of(chunk: Values, kind: str) -> Range | None:
    """Where the ``"offset"`` or the ``"column"`` index of a column lies in the file, by its entry in the
    footer; None where there is none.

    >>> place_of({"offset_index_offset": 100, "offset_index_length": 20}, "offset")
    (100, 120)
    """
    begin, length = chunk.get(f"{kind}_index_offset", 0), chunk.get(f"{kind}_index_length", 0)
    return (begin, begin + length) if begin > 0 and length > 0 else None


def read_locations(index: bytes, begin: int, end: int, num_rows: int) -> list[Location]:
    """The pages of a column of so many rows, by its offset index; ``begin`` and ``end`` are where they lie.

    Raises:
        ValueError, IndexError, KeyError: it is none, or its pages do not follow each other from begin to end.
    """
    known = OFFSET_INDEX.read(index)[0]["page_locations"]
    rows = [page["first_row_index"] for page in known]
    pages = [Location(row, page["offset"], page["offset"] + page["compressed_page_size"])
             for row, page in zip(rows, known, strict=True)]
    edges = [begin, *(edge for page in pages for edge in (page.begin, page.end)), end]
    if not pages or any(one != other for one, other in zip(edges[::2], edges[1::2], strict=True)):
        raise ValueError("its page index names other places than those of its pages")
    if rows[0] or any(row >= following for row, following in pairwise((*rows, num_rows))):
        raise ValueError("its page index names other rows than the row group has")
    return pages


def read_bounds(index: bytes, rows: Sequence[int]) -> list[Bounds]:
    """What a column index says of pages of so many rows.

    Raises:
        ValueError, IndexError, KeyError: it is none of so many pages.
    """
    known = COLUMN_INDEX.read(index)[0]
    counts = known.get("null_counts", [None] * len(rows))
    return [Bounds(count) if is_null else Bounds(nulls, lower, upper)
            for is_null, lower, upper, nulls, count in zip(
                known["null_pages"], known["min_values"], known["max_values"], counts, rows, strict=True)]
