"""Opening a Parquet file that may be damaged, without giving the interpreter up.

What lives here: :func:`open_parquet`, whose file has no views of Arrow's, and :func:`read_footer`, a reader
of as much of a footer as says how many values each column has in each row group. pyarrow's objects for row
groups end the process where a footer contradicts itself (a C++ exception that nothing catches). So they are
not asked, or only after :meth:`Footer.is_sound`.
What it does not know: what is in the columns, which file it is, what a damaged one means for its table.

parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, Statistics, in Thrift's compact
protocol, of which a field is a byte (how far its number is from the last one, and its type) and a value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from deltanb.concurrency.memory import pool
from deltanb.concurrency.precedence import yield_to_commits

__all__ = ["ARROW_SCHEMA", "Chunk", "Footer", "open_parquet", "raw_footer", "read_footer"]

FIRST_READ = 1 << 16
"""Bytes read from the end: nearly every footer is smaller, and a store is asked once."""

MAX_DEPTH = 64
"""Structures inside structures: a footer has 6; beyond, it is a bomb."""

MAX_FOOTERS = 8
"""Footers whose row groups are kept: a table that is opened again has the same checkpoint."""

_MAGIC = b"PAR1"
_TAIL = 8  # length of the footer, and the magic number

# Thrift's compact protocol: types of values.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12

_STRUCTS, _TEXTS = (_STRUCT,), (_BINARY,)  # kinds of the elements of lists

# Bytes of a value of a physical type (parquet.thrift, Type) as statistics hold it.
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}


class Chunk:
    """One column of one row group: its number of values, of which ``null_count`` are NULL (None: the
    footer does not say). ``physical_type`` and ``bounds`` (lengths of minima and maxima) are the file's, and
    ``sizes``, of its size statistics: whether they count bytes of texts, and the lengths of their histograms
    of repetition and definition levels."""

    __slots__ = ("bounds", "null_count", "num_values", "physical_type", "sizes")

    def __init__(self, physical_type: int = -1, num_values: int = -1) -> None:
        self.physical_type = physical_type
        self.num_values = num_values
        self.null_count: int | None = None
        self.bounds: list[int] = []
        self.sizes = (0, 0, 0)


@dataclass(frozen=True)
class Footer:
    """The row groups of a file: (rows, columns) each."""

    groups: tuple[tuple[int, tuple[Chunk, ...]], ...]

    def check(self, file: pq.ParquetFile) -> None:
        """That pyarrow sees the same, and that it does not contradict itself.

        Raises:
            ValueError: it does.
        """
        metadata, schema = file.metadata, file.schema
        if len(self.groups) != metadata.num_row_groups:
            raise ValueError("the number of row groups is ambiguous")
        flat = [i for i in range(len(schema)) if schema.column(i).max_repetition_level == 0]
        for number, (num_rows, chunks) in enumerate(self.groups):
            if len(chunks) != len(schema):
                raise ValueError(
                    f"row group {number} has {len(chunks)} columns where the schema has {len(schema)}")
            for index in flat:
                chunk = chunks[index]
                if chunk.num_values != num_rows or not 0 <= (chunk.null_count or 0) <= num_rows:
                    raise ValueError(f"row group {number} contradicts itself in the number of its rows")

    def is_sound(self, file: pq.ParquetFile) -> bool:
        """Whether pyarrow can be asked for the statistics of all columns."""
        try:
            self.check(file)
        except ValueError:
            return False
        known = []
        for i in range(len(file.schema)):
            column = file.schema.column(i)
            kind = _PHYSICAL.get(column.physical_type, -1)
            sizes = kind == 6, column.max_repetition_level + 1, column.max_definition_level + 1
            known.append((kind, column.length if kind == 7 else _WIDTHS.get(kind), sizes))
        return all(
            chunk.physical_type == kind and (width is None or all(b == width for b in chunk.bounds))
            and all(not size or size == right for size, right in zip(chunk.sizes, sizes, strict=True))
            for _, chunks in self.groups for chunk, (kind, width, sizes) in zip(chunks, known, strict=True))


_PHYSICAL = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5,
             "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}


_CODES = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "RLE_DICTIONARY"})
"""The encodings of pages that Arrow can read as dictionaries: not DELTA_BYTE_ARRAY and
DELTA_LENGTH_BYTE_ARRAY, in which a column may be as small."""


def has_codes(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Whether Arrow can read a column of texts, by its place among all leaves, as dictionaries."""
    return all(_CODES.issuperset(metadata.row_group(number).column(leaf).encodings)
               for number in range(metadata.num_row_groups))


_KNOWN = ("footer", "is_sound")  # what was found out of a footer


def chunk_place(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column of a row group begins in the file, with its dictionary, and where it ends."""
    begin: int = chunk.data_page_offset
    if chunk.has_dictionary_page:
        begin = min(begin, chunk.dictionary_page_offset)
    return begin, begin + chunk.total_compressed_size


class SafeFile(pq.ParquetFile):
    """A file whose footer can be asked without harm."""

    _handle: Any
    _raw: bytes | None
    _options: dict[str, Any]

    @property
    def reader(self) -> Any:
        """Arrow's reader, whose columns are in the library's memory pool."""
        return self._reader

    @reader.setter
    def reader(self, plain: Any) -> None:
        # pq.ParquetFile makes one in the default pool, and takes no other.
        self._reader = type(plain)(memory_pool=pool())

    @cached_property
    def footer(self) -> Footer:
        """As this module reads it.

        Raises:
            ValueError: it is none.
        """
        return read_footer(self.footer_bytes)

    @cached_property
    def is_sound(self) -> bool:
        """Whether pyarrow can be asked for what the footer says of row groups and their columns.

        Raises:
            ValueError: there is no footer that this module can read.
        """
        return self.footer.is_sound(self)

    def with_codes(self, leaves: list[int], **options: Any) -> SafeFile:
        """The same file, whose columns at these places among all of its leaves are read as dictionaries."""
        options["read_dictionary"] = leaves
        found = SafeFile(self._handle, metadata=self.metadata, **options)
        found._handle, found._raw, found._options = self._handle, self._raw, options
        found.__dict__.update({name: self.__dict__[name] for name in _KNOWN if name in self.__dict__})
        return found

    def like(self, content: pa.Buffer) -> SafeFile:
        """A file in memory, whose columns are decoded as those of this one.

        Raises:
            Exception: of many kinds; it is not a Parquet file.
        """
        return open_parquet(pa.BufferReader(content), **{**self._options, "pre_buffer": False})

    @property
    def is_at_hand(self) -> bool:
        """Whether a few bytes of it are read in no time, and need not be asked for together."""
        return isinstance(self._handle, pa.OSFile | pa.MemoryMappedFile | pa.BufferReader)

    @property
    def footer_bytes(self) -> bytes:
        """The footer as it stands in the file, without its length and the magic number; where Arrow's schema
        is not looked at, without this, too."""
        return self._raw or raw_footer(self._handle)

    def read_at(self, length: int, start: int) -> bytes:
        """Bytes of the file as they are."""
        found: bytes = self._handle.read_at(length, start)
        return found

    def batches_of(self, rows: int, group: int, leaves: list[int]) -> Iterator[pa.RecordBatch]:
        """Batches of a row group, of the columns at these places among all leaves and of no other.

        By its name ``a.b`` Arrow takes a column of this name and the field ``b`` of a column ``a``.
        """
        found: Iterator[pa.RecordBatch] = self.reader.iter_batches(
            rows, row_groups=[group], column_indices=leaves, use_threads=True)
        return found

    def check_sound(self) -> None:
        """Before pyarrow is asked for statistics.

        Raises:
            ValueError: as they contradict themselves, it would end the process.
        """
        if not self.is_sound:
            raise ValueError("the statistics in its footer contradict its schema")


def open_parquet(source: Any, **options: Any) -> SafeFile:
    """A Parquet file by a random access file; ``options`` are those of ``pyarrow.parquet.ParquetFile``.

    Raises:
        Exception: of many kinds; it is not a Parquet file.
    """
    raw, known = None, dict(options)
    if not isinstance(source, pa.OSFile | pa.BufferReader):  # its end is asked for once, not twice
        raw = raw_footer(source)
        known["metadata"] = _metadata_of(raw)
    file = SafeFile(source, **known)
    said = file.schema_arrow if ARROW_SCHEMA in (file.metadata.metadata or ()) else ()
    if any(_has_views(field.type) for field in said):
        raw = _of_parquet_alone(raw or raw_footer(source))
        file = SafeFile(source, **{**options, "metadata": _metadata_of(raw)})
    file._handle, file._raw, file._options = source, raw, options
    return file


def _metadata_of(footer: bytes) -> pq.FileMetaData:
    return pq.ParquetFile(pa.BufferReader(footer + struct.pack("<I4s", len(footer), _MAGIC))).metadata


ARROW_SCHEMA = b"ARROW:schema"
"""The key under which Arrow's writers note the types that columns had; what is in them Parquet's own say."""


def _has_views(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a view of texts, bytes or lists, or has one inside: most of Arrow's functions
    take none."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_views(kind.storage_type)
    if t.is_dictionary(kind):
        return _has_views(kind.value_type)
    return (t.is_string_view(kind) or t.is_binary_view(kind) or t.is_list_view(kind)
            or t.is_large_list_view(kind)
            or any(_has_views(kind.field(place).type) for place in range(kind.num_fields)))


def _of_parquet_alone(footer: bytes) -> bytes:
    """A footer in which Arrow finds no schema of its own, and takes the columns for what Parquet says.

    What a footer notes under keys stands behind all its columns.
    """
    begin, _, end = footer.rpartition(ARROW_SCHEMA)
    return begin + b"-" * len(ARROW_SCHEMA) + end


def raw_footer(source: Any) -> bytes:
    """The footer of a file, without its length and the magic number.

    Raises:
        ValueError: it has none.
    """
    size = source.size()
    tail: bytes = source.read_at(min(size, FIRST_READ), max(0, size - FIRST_READ))
    if len(tail) < _TAIL or tail[-4:] != _MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    (length,) = struct.unpack("<I", tail[-_TAIL:-4])
    if length > size - _TAIL:
        raise ValueError(f"its footer would have {length} bytes, more than the file has")
    if length + _TAIL > len(tail):
        tail = source.read_at(length + _TAIL, size - length - _TAIL)
    return tail[-_TAIL - length:-_TAIL]


# Fields that are integers, as many as there are, even none: of it, match() always finds something.
_INTEGERS: Any = re.compile(b"(?:[%b][\x80-\xff]*[\x00-\x7f])*" % re.escape(
    bytes(delta << 4 | kind for delta in range(1, 16) for kind in (4, 5, 6))))


# -- Thrift ------------------------------------------------------------------------------------
# One function for each structure that holds something wanted; what is not wanted is skipped. Written
# for speed: a checkpoint has hundreds of column chunks, and its opening waits for them.


@lru_cache(MAX_FOOTERS)
def read_footer(data: bytes) -> Footer:
    """The row groups in the bytes of a footer.

    Raises:
        ValueError: they are not a footer.
    """
    groups: list[tuple[int, tuple[Chunk, ...]]] = []
    try:
        position = field = 0
        while head := data[position]:
            position += 1
            field, position = _field(data, position, head, field)
            kind = head & 15
            if field == 4 and kind == _LIST:
                count, position = _list_of_structs(data, position)
                groups = []
                for _ in range(count):
                    group, position = _row_group(data, position)
                    groups.append(group)
            else:
                position = _skip(data, position, kind)
    except IndexError:
        raise ValueError("its footer ends early") from None
    return Footer(tuple(groups))


def _row_group(data: bytes, position: int) -> tuple[tuple[int, tuple[Chunk, ...]], int]:
    chunks: list[Chunk] = []
    num_rows = field = 0
    while head := data[position]:
        position += 1
        field, position = _field(data, position, head, field)
        kind = head & 15
        if field == 1 and kind == _LIST:
            count, position = _list_of_structs(data, position)
            chunks = []
            for _ in range(count):
                yield_to_commits()
                chunk, position = _column_chunk(data, position)
                chunks.append(chunk)
        elif field == 3:
            num_rows, position = _integer(data, position)
        else:
            position = _skip(data, position, kind)
    return (num_rows, tuple(chunks)), position + 1


def _column_chunk(data: bytes, position: int) -> tuple[Chunk, int]:
    chunk, field = Chunk(), 0
    while head := data[position]:
        position += 1
        field, position = _field(data, position, head, field)
        kind = head & 15
        if field == 3 and kind == _STRUCT:
            position = _column_metadata(data, position, chunk)
        elif field == 8:
            raise ValueError("a column is encrypted")
        elif 4 <= kind <= 6:
            while data[position] & 0x80:
                position += 1
            position += 1
        else:
            position = _skip(data, position, kind)
    return chunk, position + 1


def _column_metadata(data: bytes, position: int, chunk: Chunk) -> int:
    field = 0
    while head := data[position]:
        position += 1
        delta = head >> 4
        if delta:
            field += delta
        else:
            field, position = _integer(data, position)
        kind = head & 15
        if kind == 5 or kind == 6:
            if field == 5:
                chunk.num_values, position = _integer(data, position)
            elif field == 1:
                chunk.physical_type, position = _integer(data, position)
            else:
                while data[position] & 0x80:
                    position += 1
                position += 1
        elif field == 12 and kind == _STRUCT:
            position = _statistics(data, position, chunk)
        elif field == 16 and kind == _STRUCT:
            position = _size_statistics(data, position, chunk)
        else:
            position = _skip(data, position, kind)
    return position + 1


def _size_statistics(data: bytes, position: int, chunk: Chunk) -> int:
    found, field = list(chunk.sizes), 0
    while head := data[position]:
        field, position = _field(data, position + 1, head, field)
        kind = head & 15
        if field == 1:
            found[0] = 1
        elif kind == _LIST and field in (2, 3):
            found[field - 1] = data[position] >> 4
            if found[field - 1] == 15:
                found[field - 1], _ = _length(data, position + 1)
        position = _skip(data, position, kind)
    chunk.sizes = found[0], found[1], found[2]
    return position + 1


def _statistics(data: bytes, position: int, chunk: Chunk) -> int:
    field = 0
    chunk.null_count, chunk.bounds = None, []
    while head := data[position]:
        position += 1
        delta = head >> 4
        if delta:
            field += delta
        else:
            field, position = _integer(data, position)
        kind = head & 15
        if field == 3:
            chunk.null_count, position = _integer(data, position)
        elif kind == _BINARY:
            length = data[position]
            if length < 0x80:
                position += 1
            else:
                length, position = _length(data, position)
            chunk.bounds.append(length)
            position += length
        elif kind in (_TRUE, _FALSE):
            continue
        else:
            position = _skip(data, position, kind)
    return position + 1


def _field(data: bytes, position: int, head: int, last: int) -> tuple[int, int]:
    """The number of a field, from its first byte and the number before it."""
    delta = head >> 4
    if delta:
        return last + delta, position
    return _integer(data, position)


def _length(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise ValueError("its footer holds a number that is too long")
    if value > len(data):
        raise ValueError("its footer names a length beyond its end")
    return value, position


def _integer(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("its footer holds a number that is too long")


def _list_of_structs(data: bytes, position: int) -> tuple[int, int]:
    head = data[position]
    count, position = head >> 4, position + 1
    if count == 15:
        count, position = _length(data, position)
    if head & 15 != _STRUCT:
        raise ValueError("its footer has a list of something else")
    return count, position


def _skip(data: bytes, position: int, kind: int, depth: int = 0) -> int:
    """The position behind a value."""
    if 4 <= kind <= 6:
        while data[position] & 0x80:
            position += 1
        return position + 1
    if kind == _BINARY:
        length, position = _length(data, position)
        return position + length
    if kind in (_TRUE, _FALSE):
        return position
    if depth > MAX_DEPTH:
        raise ValueError("its footer is nested too deeply")
    if kind == _STRUCT:
        while head := data[position]:
            position += 1
            if not head >> 4:
                _, position = _integer(data, position)
            position = _skip(data, position, head & 15, depth + 1)
        return position + 1
    if kind in (_LIST, _SET):
        head = data[position]
        count, position = head >> 4, position + 1
        if count == 15:
            count, position = _length(data, position)
        return _skip_many(data, position, (head & 15,), count, depth)
    if kind == _MAP:
        count, position = _length(data, position)
        if not count:
            return position
        head = data[position]
        return _skip_many(data, position + 1, (head >> 4, head & 15), count, depth)
    if kind == _BYTE:
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    raise ValueError(f"its footer holds a value of the type {kind}, which does not exist")


def _skip_many(data: bytes, position: int, kinds: tuple[int, ...], count: int, depth: int) -> int:
    if kinds == _STRUCTS:
        for _ in range(count):  # as _skip, for structures of a few integers
            position = _INTEGERS.match(data, position).end()
            while head := data[position]:
                position += 1
                if head < 16:
                    _, position = _integer(data, position)
                position = _skip(data, position, head & 15, depth + 1)
                position = _INTEGERS.match(data, position).end()
            position += 1
        return position
    if len(kinds) == 1 and 4 <= kinds[0] <= 6:
        for _ in range(count):
            while data[position] & 0x80:
                position += 1
            position += 1
        return position
    if kinds == _TEXTS:
        for _ in range(count):
            length = data[position]
            if length < 0x80:
                position += 1 + length
            else:
                length, position = _length(data, position)
                position += length
        return position
    for _ in range(count):
        for kind in kinds:
            # In a list, a boolean is a byte; elsewhere it is part of its field.
            position = position + 1 if kind in (_TRUE, _FALSE) else _skip(data, position, kind, depth + 1)
    return position


thrift_field, thrift_integer, thrift_structs, thrift_skip = _field, _integer, _list_of_structs, _skip
"""A field's number, an integer, the head of a list of structures, and what lies behind a value: for those who
read more."""
