"""What of a data file may stand in a new one as it is: row groups, and single columns of them.

What lives here: :class:`Original`, a file whose row groups are those that would be written today, and the
check of every page that is copied.
What it does not know: why something is copied, statistics, the file that it goes into.

A file is such an original where its footer is that of a new file but for the row groups, and its codec and
its pages are those that the table asks for. So the file of another writer is none, nor is one with page
indexes, filters or encryption, or with columns that have changed since. Every page that is copied must have
a checksum, and it must be right.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from deltanb.actions import AddFile
from deltanb.parquet.file import SafeFile, chunk_place
from deltanb.parquet.format import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PAGE_HEADER
from deltanb.parquet.splice import RowGroup, have_same_columns, row_groups

if TYPE_CHECKING:
    from deltanb.log.parquet_options import ParquetOptions

LEAST_ROWS, LEAST_BYTES = 1 << 16, 4 << 20
"""Row groups have so many rows or bytes on average, or they are encoded anew: that smaller ones grow is what
files are put together for."""
MOST_BYTES = 64 << 20
"""Of a row group: it is in memory while it is copied."""

_CODECS = {"none": "UNCOMPRESSED", "snappy": "SNAPPY", "gzip": "GZIP", "zstd": "ZSTD"}
"""As footers spell them. What is called LZ4 there may be of two formats."""
_DATA_PAGES = {1: DATA_PAGE, 2: DATA_PAGE_V2}  # by their version


def is_much(rows: int, size: int, count: int = 1) -> bool:
    """Whether so many row groups with so many rows and bytes are worth being kept as they are."""
    return rows > 0 and (rows >= LEAST_ROWS * count or size >= LEAST_BYTES * count)


def can_be_copied(form: ParquetOptions) -> bool:
    """Whether files of this form can be told from others."""
    return form.codec in _CODECS


def logged(file: AddFile) -> Mapping[str, Any]:
    """What the log says of the columns, where it says so of these very rows."""
    try:
        parsed = json.loads(file.stats or "{}")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("tightBounds", True) is True else {}


@dataclass(frozen=True)
class Original:
    """A file to be copied: where its row groups lie, and of each of them its columns."""

    path: str
    metadata: pq.FileMetaData
    groups: Sequence[RowGroup]
    page_version: int

    @classmethod
    def of(cls, path: str, parquet: SafeFile, template: bytes, form: ParquetOptions) -> Original | None:
        """The file, where it is as a new one would be; None: it is not, or nobody can say so.

        ``template`` is the footer of a new file without rows, ``form`` that of the table's files.
        """
        groups = _movable(parquet, template, _CODECS[form.codec])
        return None if groups is None else cls(path, parquet.metadata, groups, form.page_version)

    @property
    def plain(self) -> frozenset[str]:
        """The columns, other than nested ones, that have no dictionary in any row group."""
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        return frozenset(
            self.metadata.schema.column(place).path for place in range(self.metadata.num_columns)
            if not any(group.column(place).has_dictionary_page for group in groups))

    def chunks(self, number: int) -> list[tuple[int, int]]:
        """Where the columns of a row group begin in the file, and end."""
        group = self.metadata.row_group(number)
        return [chunk_place(group.column(place)) for place in range(group.num_columns)]

    def content(self, parquet: SafeFile, number: int, leaves: range | None = None) -> bytes | None:
        """The bytes of a row group, or of neighbouring columns of it; None where a page is not right."""
        places = self.chunks(number)
        places = places if leaves is None else [places[leaf] for leaf in leaves]
        start = places[0][0]
        content = parquet.read_at(places[-1][1] - start, start)
        kind = _DATA_PAGES[self.page_version]
        right = all(_pages_are_right(content, begin - start, stop - start, kind) for begin, stop in places)
        return content if right else None


def _movable(parquet: SafeFile, template: bytes, codec: str) -> list[RowGroup] | None:
    """The row groups of a file that is as a new one would be; None: it is not, or nobody can say so."""
    try:
        footer = parquet.footer_bytes
        if not (have_same_columns(footer, template) and parquet.is_sound):
            return None
        parsed = row_groups(footer)
    except ValueError:
        return None
    groups = [group for group in parsed if group is not None and group.length <= MOST_BYTES]
    if len(groups) < len(parsed) or sum(group.num_rows for group in groups) != parquet.metadata.num_rows:
        return None
    chunks = [parquet.metadata.row_group(number).column(place)
              for number in range(len(groups)) for place in range(parquet.metadata.num_columns)]
    return groups if all(_is_as_ours(chunk, codec) for chunk in chunks) else None


def _is_as_ours(chunk: pq.ColumnChunkMetaData, codec: str) -> bool:
    """Its codec, and that a float has no bounds (:func:`~deltanb.parquet.encodings.with_bounds`)."""
    has_bounds = chunk.physical_type in ("FLOAT", "DOUBLE") and chunk.is_stats_set
    return chunk.compression == codec and not has_bounds


def _pages_are_right(content: bytes, position: int, stop: int, kind: int) -> bool:
    """Whether these are a column's pages, data in one kind of them, each with a checksum that is right."""
    view = memoryview(content)
    try:
        while position < stop:
            header, begin = PAGE_HEADER.read(content, position)
            position = begin + header["compressed_page_size"]
            if (header["type"] not in (kind, DICTIONARY_PAGE) or not begin <= position <= stop
                    or zlib.crc32(view[begin:position]) != header["crc"] & 0xFFFFFFFF):
                return False
    except (IndexError, KeyError, ValueError):
        return False
    return stop <= len(content)
