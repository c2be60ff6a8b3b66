"""Files put together as they are: their row groups copied, byte by byte, into one new file.

What lives here: :func:`copied`, which says whether files can be copied, checks every page on the way, and
puts the statistics of the new file together from the footers of the old ones and from the log.
What it does not know: which files belong together, deleted rows, the commit.

Nothing is decoded or encoded. So a file is copied only where it is what would be written today: its footer is
that of a new file but for the row groups, its codec and its pages are those that the table asks for, and
every page has a checksum, which is right. Of anything else the rows are read and written by whoever called.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from deltanb.actions import AddFile, decode_path
from deltanb.data.data_file import naming, opened
from deltanb.data.file_writer import empty_footer, on_disk
from deltanb.log.checkpoint import splice
from deltanb.log.checkpoint.parquet_file import SafeFile, thrift_field, thrift_integer, thrift_skip

if TYPE_CHECKING:
    from deltanb.data.write import TableWriter
    from deltanb.store.base import LogStore

LEAST_ROWS, LEAST_BYTES = 1 << 16, 4 << 20
"""Row groups have so many rows or bytes on average, or they are encoded anew: that smaller ones grow is what
files are put together for."""
MOST_BYTES = 64 << 20
"""Of a row group: it is in memory while it is copied."""
MOST_GROUPS = 1 << 15
"""Row groups of a file, which are numbered in 16 bits."""

_CODECS = {"none": "UNCOMPRESSED", "snappy": "SNAPPY", "gzip": "GZIP", "zstd": "ZSTD"}
"""As footers spell them. What is called LZ4 there may be of two formats."""
_DICTIONARY_PAGE, _DATA_PAGES = 2, {1: 0, 2: 3}  # parquet.thrift, PageType; by version of the data pages
_PAGE_TYPE, _PAGE_SIZE, _PAGE_CHECKSUM = 1, 3, 4  # PageHeader


@dataclass(frozen=True)
class _Original:
    """A file to be copied: where its row groups lie, and of each of them its columns."""

    path: str
    metadata: pq.FileMetaData
    groups: Sequence[splice.RowGroup]

    def chunks(self, number: int) -> Iterator[tuple[int, int]]:
        """Where the columns of a row group begin in it, and end."""
        group, at = self.metadata.row_group(number), self.groups[number].start
        for place in range(group.num_columns):
            chunk = group.column(place)
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page:
                begin = min(begin, chunk.dictionary_page_offset)
            yield begin - at, begin - at + chunk.total_compressed_size


def copied(writer: TableWriter, files: Sequence[AddFile], table: str, version: int) -> AddFile | None:
    """One file with all rows of the files, in their order; None where they have to be read and written.

    Args:
        writer: of the table. What it has begun is gone where this raises, or returns None.
        files: of one partition, none with a deletion vector.
        table, version: name in errors what needs a file.

    Raises:
        DataFileNotFound, InvalidTable: a file is gone, or is none of Parquet's.
        StorageError: the new file cannot be written.
    """
    try:
        found = _copied(writer, files, table, version)
    except BaseException:
        writer.abort()
        raise
    if found is None:
        writer.abort()
    return found


def _copied(writer: TableWriter, files: Sequence[AddFile], table: str, version: int) -> AddFile | None:
    if writer.form.codec not in _CODECS or not _are_large(files) or writer.holds_partitions:
        return None
    template, collector = empty_footer(writer.file_schema, writer.form), writer.collector()
    originals = []
    for file in files:
        path = decode_path(file.path)
        with opened(writer.store, path, table, version) as parquet:
            groups = _movable(parquet, template, _CODECS[writer.form.codec])
            if groups is None or not collector.take_over(parquet.metadata, _logged(file)):
                return None
            originals.append(_Original(path, parquet.metadata, groups))
    groups = [group for original in originals for group in original.groups]
    count, size = len(groups), sum(group.length for group in groups)
    if not 0 < count < MOST_GROUPS or not _is_much(collector.rows, size, count):
        return None
    key = writer.key_of(files[0])
    name = writer.begin(key)
    written = _written(writer, name, originals, template, (table, version))
    if written is None:
        return None
    writer.done.append((key, name, written, collector.to_json()))
    (added,) = writer.finish(data_change=False)
    return added


def _are_large(files: Sequence[AddFile]) -> bool:
    """Whether row groups may be large; a guess that spares opening files whose row groups cannot be."""
    rows = sum(file.num_records or 0 for file in files)
    return _is_much(rows, sum(file.size for file in files), len(files))


def _is_much(rows: int, size: int, count: int) -> bool:
    return rows > 0 and (rows >= LEAST_ROWS * count or size >= LEAST_BYTES * count)


def _logged(file: AddFile) -> Mapping[str, Any]:
    """What the log says of the columns, where it says so of these very rows."""
    try:
        found = json.loads(file.stats or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("tightBounds", True) is True else {}


# --- what can be copied ---------------------------------------------------------------------------

def _movable(parquet: SafeFile, template: bytes, codec: str) -> list[splice.RowGroup] | None:
    """The row groups of a file that is as a new one would be; None: it is not, or nobody can say so."""
    try:
        footer = parquet.footer_bytes
        if splice.without_rows(footer) != splice.without_rows(template) or not parquet.is_sound:
            return None
        found = splice.row_groups(footer)
    except ValueError:
        return None
    groups = [group for group in found if group is not None and group.length <= MOST_BYTES]
    if len(groups) < len(found) or sum(group.num_rows for group in groups) != parquet.metadata.num_rows:
        return None
    chunks = [parquet.metadata.row_group(number).column(place)
              for number in range(len(groups)) for place in range(parquet.metadata.num_columns)]
    return groups if all(_is_as_ours(chunk, codec) for chunk in chunks) else None


def _is_as_ours(chunk: pq.ColumnChunkMetaData, codec: str) -> bool:
    """Its codec, and that a float has no bounds (:func:`~deltanb.data.encodings.with_bounds`)."""
    has_bounds = chunk.physical_type in ("FLOAT", "DOUBLE") and chunk.is_stats_set
    return chunk.compression == codec and not has_bounds


def _pages_are_right(content: bytes, position: int, stop: int, kind: int) -> bool:
    """Whether these are a column's pages, data in one kind of them, each with a checksum that is right."""
    view = memoryview(content)
    try:
        while position < stop:
            header, begin = _page_header(content, position)
            position = begin + header[_PAGE_SIZE]
            if (header[_PAGE_TYPE] not in (kind, _DICTIONARY_PAGE) or not begin <= position <= stop
                    or zlib.crc32(view[begin:position]) != header[_PAGE_CHECKSUM] & 0xFFFFFFFF):
                return False
    except (IndexError, KeyError, ValueError):
        return False
    return stop <= len(content)


def _page_header(data: bytes, position: int) -> tuple[dict[int, int], int]:
    """The integers of a page's header by their numbers, and where it ends."""
    found: dict[int, int] = {}
    number = 0
    while head := data[position]:
        number, position = thrift_field(data, position + 1, head, number)
        if head & 15 == 5:
            found[number], position = thrift_integer(data, position)
        else:
            position = thrift_skip(data, position, head & 15)
    return found, position + 1


# --- the copy -------------------------------------------------------------------------------------

class _Sink:
    """The new file, as it grows."""

    def __init__(self, store: LogStore, name: str) -> None:
        self._store, self._name = store, name
        with on_disk(store, name):
            self._file = store.open_output(name)
        self.metadata: list[bytes] = []
        self.at = self.rows = 0

    def write(self, content: bytes) -> None:
        with on_disk(self._store, self._name):
            self._file.write(content)
        self.at += len(content)

    def take(self, group: splice.RowGroup, content: bytes) -> None:
        """Write a row group."""
        self.metadata.append(splice.moved(group, self.at - group.start, len(self.metadata)))
        self.rows += group.num_rows
        self.write(content)

    def close(self, template: bytes) -> int:
        """Write the footer and return the size of the file."""
        footer = splice.footer_with(splice.without_rows(template), self.metadata, self.rows)
        self.write(footer + struct.pack("<I", len(footer)) + splice.MAGIC)
        with on_disk(self._store, self._name):
            self._file.close()
        return self.at

    def drop(self) -> None:
        with suppress(Exception):
            self._file.close()


def _written(
    writer: TableWriter, name: str, originals: Sequence[_Original], template: bytes, whose: tuple[str, int]
) -> int | None:
    """Write the new file and return its size; None where a page is not right."""
    sink, size = _Sink(writer.store, name), None
    try:
        sink.write(splice.MAGIC)
        if all(_takes(sink, original, writer, whose) for original in originals):
            size = sink.close(template)
        return size
    finally:
        if size is None:
            sink.drop()


def _takes(sink: _Sink, original: _Original, writer: TableWriter, whose: tuple[str, int]) -> bool:
    """Copy a file's row groups, one after the other; False where a page is not right."""
    kind = _DATA_PAGES[writer.form.page_version]
    with opened(writer.store, original.path, *whose) as parquet:
        for number, group in enumerate(original.groups):
            with naming(original.path):
                content = parquet.read_at(group.length, group.start)
            if not all(_pages_are_right(content, *place, kind) for place in original.chunks(number)):
                return False
            sink.take(group, content)
    return True
