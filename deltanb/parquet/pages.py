"""Pages of a data file: which there are, and a file in memory of some of them.

What lives here: :class:`Pages`, which finds the pages of a column by their headers, and puts some of them
together as a small Parquet file of one row group, since Arrow can leave out row groups and no pages.
What it does not know: which rows are wanted, what a bound means.

Only headers are read to find pages, which costs nothing on this machine and a request each elsewhere: so
elsewhere no page is found. Nor is one where rows are not counted by page (lists and maps in data pages of
version 1), or a header is not what this module expects. Then the row group is read as a whole.

parquet.thrift: PageHeader, FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from deltanb.parquet.file import (
    chunk_place,
    thrift_field,
    thrift_integer,
    thrift_skip,
    thrift_structs,
)
from deltanb.parquet.splice import MAGIC, replaced, thrift_fields, thrift_of
from deltanb.text.damage import is_of_the_store

if TYPE_CHECKING:
    from deltanb.parquet.file import SafeFile

__all__ = ["Chunk", "Page", "Pages", "Range", "Stated", "joined"]

HEADER_BYTES = 256
"""Bytes of a page that are read for its header; eight times as many for one that is longer."""
MAX_HEADER_BYTES = 1 << 16
MAX_PAGES = 4_096
"""Pages of a column of a row group; to find more takes longer than to decode them."""

Range = tuple[int, int]
"""Rows of a row group: from, to."""

_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # PageType
_TYPE, _SIZE, _HEADER, _DICTIONARY_HEADER, _HEADER_2 = 1, 3, 5, 7, 8  # PageHeader
_VALUES = 1  # DataPageHeader and DataPageHeaderV2
_STATISTICS, _ROWS_2, _STATISTICS_2 = 5, 3, 8
_NULLS, _MAX, _MIN = 3, 5, 6  # Statistics

_Structure = dict[int, Any]


class Page(NamedTuple):
    """A data page: its first row in the row group, where it lies in the file, and what its header says."""

    row: int
    begin: int
    end: int
    header: Stated


class Stated(NamedTuple):
    """What the header of a data page says: rows, values (one a row but for lists), NULLs and bounds."""

    rows: int
    values: int
    nulls: int | None
    lower: bytes | None
    upper: bytes | None


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
        found, at = [], 0
        for place, page in enumerate(self.pages):
            while at < len(ranges) and ranges[at][1] <= page.row:
                at += 1
            if at < len(ranges) and ranges[at][0] < self.end_of(place):
                found.append(place)
        return found


class Pages:
    """The pages of one file.

    >>> import pyarrow.parquet as pq
    >>> from deltanb.parquet.file import open_parquet
    >>> sink = pa.BufferOutputStream()
    >>> pq.write_table(pa.table({"id": range(100)}), sink, max_rows_per_page=10, write_batch_size=10)
    >>> pages = Pages(open_parquet(pa.BufferReader(sink.getvalue())))
    >>> ranges = pages.covering(0, [0], [(37, 42)])
    >>> ranges, pq.read_table(pa.BufferReader(pages.file_of(0, [0], ranges)))["id"].to_pylist()[::9]
    ([(30, 50)], [30, 39, 48])
    """

    def __init__(self, file: SafeFile) -> None:
        self._file = file
        self._known: dict[tuple[int, int], Chunk | None] = {}

    def chunk(self, group: int, leaf: int) -> Chunk | None:
        """The pages of a column, by its place among all leaves, in a row group; None where nobody can say."""
        key = group, leaf
        if key not in self._known:
            self._known[key] = None
            try:
                self._known[key] = self._found(group, leaf)
            except Exception as error:  # damaged headers fail in many ways, too deeply nested ones among them
                if is_of_the_store(error):
                    raise
        return self._known[key]

    def covering(self, group: int, leaves: Iterable[int], ranges: Sequence[Range]) -> list[Range] | None:
        """The rows of all pages with rows of these ranges, where pages of all the columns begin and end.

        None where the pages of one of them are not known.
        """
        chunks = [self.chunk(group, leaf) for leaf in leaves]
        found, before = list(ranges), None
        while found != before:
            before = found
            for chunk in chunks:
                if chunk is None:
                    return None
                found = joined((chunk.pages[place].row, chunk.end_of(place)) for place in chunk.over(found))
        return found

    def file_of(self, group: int, leaves: Collection[int], ranges: Sequence[Range]) -> pa.Buffer:
        """A Parquet file with these columns of these rows, which are those of whole pages.

        The file has the others' names and types, too, and no content for them.

        Raises:
            ValueError: they lie in another file, or are encrypted.
        """
        rows = sum(stop - start for start, stop in ranges)
        content, at, moved = [MAGIC], len(MAGIC), dict[int, _Structure]()
        for leaf in leaves:
            chunk = self.chunk(group, leaf)
            assert chunk is not None
            pieces = [self._read(chunk.dictionary)] if chunk.dictionary else []
            found = [chunk.pages[place] for place in chunk.over(ranges)]
            pieces += map(self._read, joined((page.begin, page.end) for page in found))
            size, values = sum(map(len, pieces)), sum(page.header.values for page in found)
            moved[leaf] = {_NUM_VALUES: values, _COMPRESSED: size, _DATA_PAGE: at, _DICTIONARY_PAGE: at}
            content += pieces
            at += size
        footer = _footer(*self._outline, group, moved, rows)
        return pa.py_buffer(b"".join((*content, footer, struct.pack("<I", len(footer)), MAGIC)))

    @cached_property
    def _outline(self) -> tuple[bytes, list[Range]]:
        """The footer, and where in it the row groups are."""
        footer = self._file.footer_bytes
        found: list[Range] = []
        for number, kind, begin, _ in thrift_fields(footer):
            if number == _FILE_GROUPS and kind == _LIST:
                found = _places(footer, begin)
        return footer, found

    def _read(self, place: tuple[int, int]) -> bytes:
        return self._file.read_at(place[1] - place[0], place[0])

    def _found(self, group: int, leaf: int) -> Chunk | None:
        metadata = self._file.metadata.row_group(group)
        column = metadata.column(leaf)
        if not self._file.is_at_hand or column.file_path:
            return None
        is_flat = self._file.schema.column(leaf).max_repetition_level == 0
        begin, end = chunk_place(column)
        dictionary, pages, row = None, list[Page](), 0
        while begin < end and len(pages) < MAX_PAGES:
            header, stop = self._header(begin)
            if header[_TYPE] == _DICTIONARY and not pages and dictionary is None:
                dictionary = begin, stop
            else:
                pages.append(Page(row, begin, stop, _stated(header, is_flat)))
                row += pages[-1].header.rows
            begin = stop
        is_whole = begin == end and row == metadata.num_rows
        return Chunk(dictionary, pages, row) if is_whole and pages else None

    def _header(self, begin: int) -> tuple[_Structure, int]:
        """The header of a page, and where the page ends."""
        size = HEADER_BYTES
        while True:
            data = self._file.read_at(size, begin)
            try:
                header, length = _structure(data, 0)
            except (IndexError, ValueError):
                if len(data) < size or size > MAX_HEADER_BYTES:
                    raise
                size *= 8
                continue
            if header[_SIZE] < 0:
                raise ValueError("a page has less than no bytes")
            return header, begin + length + header[_SIZE]


def _stated(header: _Structure, is_flat: bool) -> Stated:
    """What the header of a data page says.

    Raises:
        ValueError: it is of another kind of page, or does not count its rows.
        KeyError: it lacks something.
    """
    if header[_TYPE] == _DATA and is_flat:
        inner = header[_HEADER]
        rows, statistics = inner[_VALUES], inner.get(_STATISTICS, {})
    elif header[_TYPE] == _DATA_2:
        inner = header[_HEADER_2]
        rows, statistics = inner[_ROWS_2], inner.get(_STATISTICS_2, {})
    else:
        raise ValueError("its rows are not counted")
    found = Stated(rows, inner[_VALUES], statistics.get(_NULLS), statistics.get(_MIN), statistics.get(_MAX))
    is_number = all(isinstance(one, int | None) for one in found[:3])
    if not (is_number and all(isinstance(one, bytes | None) for one in found[3:]) and rows > 0):
        raise ValueError("it says something else than a header does")
    return found


def _structure(data: bytes, position: int) -> tuple[_Structure, int]:
    """The integers, bytes and structures of a structure by their numbers, and where it ends."""
    found: _Structure = {}
    number = 0
    while head := data[position]:
        number, begin = thrift_field(data, position + 1, head, number)
        kind = head & 15
        if kind in _INTEGERS:
            found[number], position = thrift_integer(data, begin)
        elif kind == _STRUCT:
            found[number], position = _structure(data, begin)
        else:
            position = thrift_skip(data, begin, kind)
            if kind == _BINARY:
                found[number] = _text(data, begin, position)
    return found, position + 1


def _text(data: bytes, begin: int, end: int) -> bytes:
    """The bytes of a value of bytes, behind its length."""
    if end > len(data):
        raise IndexError
    while data[begin] & 0x80:
        begin += 1
    return data[begin + 1:end]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ascending ranges, those as one that follow each other."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found


# --- the footer of the small file -----------------------------------------------------------------

_INTEGERS, _BINARY, _LIST, _STRUCT = (4, 5, 6), 8, 9, 12
_FILE_ROWS, _FILE_GROUPS = 3, 4
_GROUP_CHUNKS, _GROUP_ROWS = 1, 3
_CHUNK_METADATA, _CHUNK_SECRETS = 3, (8, 9)
_NUM_VALUES, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11  # ColumnMetaData
_ONE = bytes((1 << 4 | _STRUCT,))
"""The head of a list of one structure."""


def _footer(
    footer: bytes, groups: Sequence[Range], group: int, moved: dict[int, _Structure], rows: int
) -> bytes:
    """A footer with one of its row groups alone, of so many rows, some of whose columns lie elsewhere."""
    begin, end = groups[group]
    changes = []
    for number, _, start, stop in thrift_fields(footer):
        if number == _FILE_ROWS:
            changes.append((start, stop, thrift_of(rows)))
        elif number == _FILE_GROUPS:
            changes.append((start, stop, _ONE + _group(footer[begin:end], moved, rows)))
    return replaced(footer, changes)


def _group(group: bytes, moved: dict[int, _Structure], rows: int) -> bytes:
    changes = []
    for number, kind, start, stop in thrift_fields(group):
        if number == _GROUP_ROWS:
            changes.append((start, stop, thrift_of(rows)))
        elif number == _GROUP_CHUNKS and kind == _LIST:
            for leaf, place in enumerate(_places(group, start)):
                if leaf in moved:
                    changes += _of_chunk(group, place[0], moved[leaf])
    return replaced(group, changes)


def _of_chunk(group: bytes, position: int, moved: _Structure) -> Iterator[tuple[int, int, bytes]]:
    for number, kind, begin, _ in thrift_fields(group, position):
        if number in _CHUNK_SECRETS:
            raise ValueError("a column is encrypted")
        if number == _CHUNK_METADATA and kind == _STRUCT:
            for inner, _, start, stop in thrift_fields(group, begin):
                if inner in moved:
                    yield start, stop, thrift_of(moved[inner])


def _places(data: bytes, position: int) -> list[Range]:
    """Where the structures of a list begin and end."""
    count, position = thrift_structs(data, position)
    found = []
    for _ in range(count):
        end = thrift_skip(data, position, _STRUCT)
        found.append((position, end))
        position = end
    return found
