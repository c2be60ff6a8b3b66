"""Pages of a data file: which there are, and a file in memory of some of them.

What lives here: :class:`Pages`, which finds the pages of a column by the page index of the file, or by
their headers, and puts some of them together as a small Parquet file of one row group, since Arrow can leave
out row groups and no pages.
What it does not know: which rows are wanted, what a bound means.

Headers are read where there is no page index: that costs nothing on this machine and a request each
elsewhere, so elsewhere no page is found by them. Nor is one where rows are not counted by page (lists and
maps in data pages of version 1), or a header is not what this module expects. Then the row group is read as a
whole. Of 2 M rows that Spark wrote, a few neighbours take a tenth of the processor's time with their index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from deltanb.parquet.file import chunk_place
from deltanb.parquet.format import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    FILE_METADATA,
    IS_ENCRYPTED,
    MAGIC,
    PAGE_HEADER,
    ending,
    read_metadata,
)
from deltanb.parquet.page_index import FIELDS, Bounds, place_of, read_bounds, read_locations
from deltanb.parquet.ranges import Range, joined, near
from deltanb.parquet.thrift import Values
from deltanb.text.damage import is_of_the_store, what_is_wrong
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from deltanb.parquet.file import SafeFile

__all__ = ["Chunk", "Page", "Pages"]

logger = get_logger(__name__)

HEADER_BYTES = 256
"""Bytes of a page that are read for its header; eight times as many for one that is longer."""
MAX_HEADER_BYTES = 1 << 16
MAX_PAGES = 4_096
"""Pages of a column of a row group; to find more takes longer than to decode them."""


class Page(NamedTuple):
    """A data page: its first row in the row group, where it lies in the file, its rows, its values (one a row
    but for lists; None: its header was not read yet), and what is known of them."""

    row: int
    begin: int
    end: int
    rows: int
    values: int | None
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages of a column of a row group."""

    dictionary: tuple[int, int] | None
    """Where it lies in the file."""
    pages: Sequence[Page]
    num_rows: int

    def end_of(self, place: int) -> int:
        """The row behind the last one of a page."""
        return self.pages[place + 1].row if place + 1 < len(self.pages) else self.num_rows

    def over(self, ranges: Sequence[Range]) -> list[int]:
        """The pages with rows of these ranges, which ascend."""
        places, at = [], 0
        for place, page in enumerate(self.pages):
            while at < len(ranges) and ranges[at][1] <= page.row:
                at += 1
            if at < len(ranges) and ranges[at][0] < self.end_of(place):
                places.append(place)
        return places


class Pages:
    """The pages of one file, of which columns at these places among all leaves are read (None: any).

    >>> import pyarrow.parquet as pq
    >>> from deltanb.parquet.file import open_parquet
    >>> sink = pa.BufferOutputStream()
    >>> pq.write_table(pa.table({"id": range(100)}), sink, max_rows_per_page=10, write_batch_size=10)
    >>> pages = Pages(open_parquet(pa.BufferReader(sink.getvalue())))
    >>> ranges = pages.covering(0, [0], [(37, 42)])
    >>> ranges, pq.read_table(pa.BufferReader(pages.file_of(0, [0], ranges)))["id"].to_pylist()[::9]
    ([(30, 50)], [30, 39, 48])
    """

    def __init__(self, file: SafeFile, leaves: Collection[int] | None = None) -> None:
        self._file = file
        self.leaves = range(len(file.schema)) if leaves is None else leaves
        self._known: dict[tuple[int, int, bool], Chunk | None] = {}

    def chunk(self, group: int, leaf: int, *, with_bounds: bool = False) -> Chunk | None:
        """The pages of a column, by its place among all leaves, in a row group; None where nobody can say.

        ``with_bounds``: with what is known of their values, too.
        """
        for key in ((group, leaf, True), (group, leaf, False)):
            if key in self._known and key[2] >= with_bounds:
                return self._known[key]
        chunk = self._indexed(group, leaf, with_bounds)
        if chunk is None:
            with_bounds, chunk = True, self._headed(group, leaf)
        self._known[group, leaf, with_bounds] = chunk
        return chunk

    def has_index(self, group: int) -> bool:
        """Whether the file has an index of the pages of all these columns in a row group."""
        entries = self._entries(group)
        return all(place_of(entries[leaf], "offset") for leaf in self.leaves)

    def expect(self, group: int, judged: Collection[int] = ()) -> None:
        """Say that the pages of a row group are looked for, and the bounds of some columns; elsewhere than on
        this machine an index is asked for as a whole."""
        if self._file.is_at_hand:
            return
        entries = self._entries(group)
        places = [*(place_of(entries[leaf], "column") for leaf in judged),
                  *(place_of(entries[leaf], "offset") for leaf in {*judged, *self.leaves}
                    if (group, leaf, False) not in self._known and (group, leaf, True) not in self._known)]
        self._file.expect_at(near(place for place in places if place is not None))

    def covering(self, group: int, leaves: Iterable[int], ranges: Sequence[Range]) -> list[Range] | None:
        """The rows of all pages with rows of these ranges, where pages of all the columns begin and end.

        None where the pages of one of them are not known.
        """
        chunks = [self.chunk(group, leaf) for leaf in leaves]
        covered, before = list(ranges), None
        while covered != before:
            before = covered
            for chunk in chunks:
                if chunk is None:
                    return None
                covered = joined(
                    (chunk.pages[place].row, chunk.end_of(place)) for place in chunk.over(covered))
        return covered

    def file_of(self, group: int, leaves: Collection[int], ranges: Sequence[Range]) -> pa.Buffer:
        """A Parquet file with these columns of these rows, which are those of whole pages.

        The file has the others' names and types, too, and no content for them.

        Raises:
            ValueError: they lie in another file, or are encrypted.
        """
        footer = read_metadata(self._file.footer_bytes)
        metadata, rows = footer["row_groups"][group], sum(stop - start for start, stop in ranges)
        columns, content, at = list(metadata["columns"]), [MAGIC], len(MAGIC)
        chosen = {leaf: self._places(group, leaf, ranges) for leaf in leaves}
        self._file.expect_at(near(place for _, _, places in chosen.values() for place in places))
        for leaf, (dictionary, pages, places) in chosen.items():
            if not IS_ENCRYPTED.isdisjoint(columns[leaf]):
                raise ValueError("a column is encrypted")
            pieces = [(place[0], self._read(place)) for place in places]
            size = sum(len(piece) for _, piece in pieces)
            values = self._num_values(leaf, pages, pieces[bool(dictionary):])
            new = {"num_values": values, "total_compressed_size": size,
                   "data_page_offset": at, "dictionary_page_offset": at}
            known = columns[leaf]["meta_data"]
            columns[leaf] = {name: value for name, value in columns[leaf].items() if name not in FIELDS} | {
                "meta_data": known | {name: value for name, value in new.items() if name in known}}
            content += (piece for _, piece in pieces)
            at += size
        footer = footer | {
            "num_rows": rows, "row_groups": [metadata | {"num_rows": rows, "columns": columns}]}
        return pa.py_buffer(b"".join((*content, ending(FILE_METADATA.write(footer)))))

    def _places(
        self, group: int, leaf: int, ranges: Sequence[Range]
    ) -> tuple[Range | None, list[Page], list[Range]]:
        """Of a column the dictionary, the pages with these rows, and where all that lies."""
        chunk = self.chunk(group, leaf)
        assert chunk is not None
        pages = [chunk.pages[place] for place in chunk.over(ranges)]
        places = joined((page.begin, page.end) for page in pages)
        return chunk.dictionary, pages, [chunk.dictionary, *places] if chunk.dictionary else places

    def _num_values(self, leaf: int, pages: Iterable[Page], pieces: Iterable[tuple[int, bytes]]) -> int:
        """Values of pages, which lie in these pieces of the file.

        Raises:
            ValueError, KeyError, IndexError: a page is not what the index says.
        """
        total, start, content, rest = 0, 0, b"", iter(pieces)
        for page in pages:
            if page.values is not None:
                total += page.values
                continue
            while page.begin >= start + len(content):
                start, content = next(rest)
            header, position = PAGE_HEADER.read(content, page.begin - start)
            values, rows = _counts(header, self._is_flat(leaf))
            if start + position + header["compressed_page_size"] != page.end or rows not in (None, page.rows):
                raise ValueError("its page index does not fit its pages")
            total += values
        return total

    def _read(self, place: tuple[int, int]) -> bytes:
        return self._file.read_at(place[1] - place[0], place[0])

    def _entries(self, group: int) -> list[Values]:
        entries: list[Values] = read_metadata(self._file.footer_bytes)["row_groups"][group]["columns"]
        return entries

    def _is_flat(self, leaf: int) -> bool:
        is_flat: bool = self._file.schema.column(leaf).max_repetition_level == 0
        return is_flat

    def _indexed(self, group: int, leaf: int, with_bounds: bool) -> Chunk | None:
        """By the page index; None where it cannot be followed, or headers say more."""
        entry = self._entries(group)[leaf]
        place, of_bounds = place_of(entry, "offset"), place_of(entry, "column") if with_bounds else None
        is_less = with_bounds and of_bounds is None and self._file.is_at_hand
        metadata = self._file.metadata.row_group(group)
        column = metadata.column(leaf)
        if place is None or is_less or column.file_path or not IS_ENCRYPTED.isdisjoint(entry):
            return None
        begin, end = chunk_place(column)
        try:
            pages = read_locations(self._read(place), column.data_page_offset, end, metadata.num_rows)
            if len(pages) > MAX_PAGES:
                return None
            rows = [stop - page.row for page, stop in zip(
                pages, (*(page.row for page in pages[1:]), metadata.num_rows), strict=True)]
            bounds = [Bounds()] * len(pages)
            if of_bounds is not None:
                bounds = read_bounds(self._read(of_bounds), rows)
        except Exception as error:  # as damaged headers
            if is_of_the_store(error):
                raise
            logger.info("The page index of column %d in row group %d is ignored: %s", leaf, group,
                        what_is_wrong(error))
            return None
        dictionary = (begin, pages[0].begin) if begin < pages[0].begin else None
        return Chunk(dictionary, [
            Page(*page, count, None, known) for page, count, known in zip(pages, rows, bounds, strict=True)],
            metadata.num_rows)

    def _headed(self, group: int, leaf: int) -> Chunk | None:
        """By the headers of the pages."""
        metadata = self._file.metadata.row_group(group)
        column = metadata.column(leaf)
        if not self._file.is_at_hand or column.file_path:
            return None
        try:
            return self._read_headers(*chunk_place(column), metadata.num_rows, self._is_flat(leaf))
        except Exception as error:  # damaged headers fail in many ways, too deeply nested ones among them
            if is_of_the_store(error):
                raise
            return None

    def _read_headers(self, begin: int, end: int, num_rows: int, is_flat: bool) -> Chunk | None:
        dictionary, pages, row = None, list[Page](), 0
        while begin < end and len(pages) < MAX_PAGES:
            header, stop = self._header(begin)
            if header["type"] == DICTIONARY_PAGE and not pages and dictionary is None:
                dictionary = begin, stop
            else:
                values, rows = _counts(header, is_flat)
                if rows is None:
                    return None
                pages.append(Page(row, begin, stop, rows, values, _bounds(header)))
                row += rows
            begin = stop
        is_whole = begin == end and row == num_rows
        return Chunk(dictionary, pages, row) if is_whole and pages else None

    def _header(self, begin: int) -> tuple[Values, int]:
        """The header of a page, and where the page ends."""
        size = HEADER_BYTES
        while True:
            data = self._file.read_at(size, begin)
            try:
                header, length = PAGE_HEADER.read(data)
            except (IndexError, ValueError):
                if len(data) < size or size > MAX_HEADER_BYTES:
                    raise
                size *= 8
                continue
            if header["compressed_page_size"] < 0:
                raise ValueError("a page has less than no bytes")
            return header, begin + length + header["compressed_page_size"]


_HEADERS = {DATA_PAGE: "data_page_header", DATA_PAGE_V2: "data_page_header_v2"}


def _counts(header: Values, is_flat: bool) -> tuple[int, int | None]:
    """Values of a data page, and its rows; None where they are not counted.

    Raises:
        ValueError: it has none.
        KeyError: it is of another kind of page, or lacks something.
    """
    inner = header[_HEADERS[header["type"]]]
    values = inner["num_values"]
    rows = inner["num_rows"] if header["type"] == DATA_PAGE_V2 else values if is_flat else None
    if values <= 0 or (rows is not None and rows <= 0):
        raise ValueError("it has no rows")
    return values, rows


def _bounds(header: Values) -> Bounds:
    known = header[_HEADERS[header["type"]]].get("statistics", {})
    return Bounds(known.get("null_count"), known.get("min_value"), known.get("max_value"))
