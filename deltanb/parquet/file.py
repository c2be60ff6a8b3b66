"""Opening a Parquet file that may be damaged, without giving the interpreter up.

What lives here: :func:`open_parquet`, whose file has no views of Arrow's, and :class:`Footer`, which says how
many values each column has in each row group. pyarrow's objects for row groups end the process where a footer
contradicts itself (a C++ exception that nothing catches). So they are not asked, or only after
:meth:`Footer.is_sound`.
What it does not know: what is in the columns, which file it is, what a damaged one means for its table.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from deltanb.concurrency.memory import pool
from deltanb.parquet.format import IS_ENCRYPTED, MAGIC, MAX_FOOTERS, ending, read_metadata
from deltanb.parquet.ranges import bridged
from deltanb.parquet.thrift import Values

__all__ = ["ARROW_SCHEMA", "Chunk", "Footer", "chunk_place", "has_codes", "open_parquet", "raw_footer",
           "read_footer"]

FIRST_READ = 1 << 16
"""Bytes read from the end: nearly every footer is smaller, and a store is asked once."""

_TAIL = 8  # length of the footer, and the magic number

# Bytes of a value of a physical type (parquet.thrift, Type) as statistics hold it.
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}


class Chunk(NamedTuple):
    """One column of one row group: its number of values, of which ``null_count`` are NULL (None: the footer
    does not say), and its metadata."""

    num_values: int
    null_count: int | None
    metadata: Values

    @classmethod
    def of(cls, chunk: Values) -> Chunk:
        """As a footer has it.

        Raises:
            ValueError: it is encrypted.
        """
        if not IS_ENCRYPTED.isdisjoint(chunk):
            raise ValueError("a column is encrypted")
        metadata = chunk.get("meta_data", {})
        return cls(metadata.get("num_values", -1), metadata.get("statistics", {}).get("null_count"), metadata)

    def fits(self, physical_type: int, width: int | None, levels: tuple[int, int]) -> bool:
        """Whether its statistics are of a column of this type, with values of so many bytes and histograms of
        so many repetition and definition levels."""
        bounds = self.metadata.get("statistics", {})
        sizes = self.metadata.get("size_statistics", {})
        histograms = [sizes.get(f"{name}_level_histogram") for name in ("repetition", "definition")]
        return (self.metadata.get("type", -1) == physical_type
                and (width is None or all(len(bounds[name]) == width for name in _BOUNDS if name in bounds))
                and ("unencoded_byte_array_data_bytes" not in sizes or physical_type == 6)
                and all(not one or len(one) == count for one, count in zip(histograms, levels, strict=True)))


_BOUNDS = "max", "min", "max_value", "min_value"


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
            known.append((kind, column.length if kind == 7 else _WIDTHS.get(kind),
                          (column.max_repetition_level + 1, column.max_definition_level + 1)))
        return all(chunk.fits(*right) for _, chunks in self.groups
                   for chunk, right in zip(chunks, known, strict=True))


_PHYSICAL = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5,
             "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}


_CODES = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "RLE_DICTIONARY"})
"""The encodings of pages that Arrow can read as dictionaries: not DELTA_BYTE_ARRAY and
DELTA_LENGTH_BYTE_ARRAY, in which a column may be as small."""


def has_codes(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Whether Arrow can read a column of texts, by its place among all leaves, as dictionaries."""
    return all(_CODES.issuperset(metadata.row_group(number).column(leaf).encodings)
               for number in range(metadata.num_row_groups))


_KNOWN = ("footer", "footer_bytes", "is_sound")  # what was found out of a footer


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
        coded = SafeFile(self._handle, metadata=self.metadata, **options)
        coded._handle, coded._raw, coded._options = self._handle, self._raw, options
        coded.__dict__.update({name: self.__dict__[name] for name in _KNOWN if name in self.__dict__})
        return coded

    def again(self) -> SafeFile | None:
        """The same file for another thread, its footer known; None where it has to be opened once more."""
        again = getattr(self._handle, "again", None)
        if again is None:
            return None
        handle = again()
        other = SafeFile(handle, metadata=self.metadata, **self._options)
        other._handle, other._raw, other._options = handle, self._raw, self._options
        return other

    def expect(self, groups: Iterable[int], leaves: Collection[int] | None = None) -> None:
        """Say that these columns (None: all) of these row groups are read next, in this order.

        A bucket is asked for what lies side by side, at once.
        """
        expect = getattr(self._handle, "expect", None)
        if expect is None or not self.is_sound:
            return
        for number in groups:
            group = self.metadata.row_group(number)
            places = range(group.num_columns) if leaves is None else leaves
            expect(bridged(chunk_place(group.column(place)) for place in places))

    def expect_at(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Say that these bytes are read next."""
        expect = getattr(self._handle, "expect", None)
        if expect is not None:
            expect(ranges)

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

    @cached_property
    def footer_bytes(self) -> bytes:
        """The footer as it stands in the file, without its length and the magic number; where Arrow's schema
        is not looked at, without this, too."""
        return self._raw or raw_footer(self._handle)

    def read_at(self, length: int, start: int) -> bytes:
        """Bytes of the file as they are."""
        content: bytes = self._handle.read_at(length, start)
        return content

    def batches_of(self, rows: int, group: int, leaves: list[int]) -> Iterator[pa.RecordBatch]:
        """Batches of a row group, of the columns at these places among all leaves and of no other.

        By its name ``a.b`` Arrow takes a column of this name and the field ``b`` of a column ``a``.
        """
        batches: Iterator[pa.RecordBatch] = self.reader.iter_batches(
            rows, row_groups=[group], column_indices=leaves, use_threads=True)
        return batches

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
    schema = file.schema_arrow if ARROW_SCHEMA in (file.metadata.metadata or ()) else ()
    if any(_has_views(field.type) for field in schema):
        raw = _of_parquet_alone(raw or raw_footer(source))
        file = SafeFile(source, **{**options, "metadata": _metadata_of(raw)})
    file._handle, file._raw, file._options = source, raw, options
    return file


def _metadata_of(footer: bytes) -> pq.FileMetaData:
    return pq.ParquetFile(pa.BufferReader(ending(footer))).metadata


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
    first = min(size, getattr(source, "at_hand", FIRST_READ))
    tail: bytes = source.read_at(first, size - first)
    if len(tail) < _TAIL or tail[-4:] != MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    (length,) = struct.unpack("<I", tail[-_TAIL:-4])
    if length > size - _TAIL:
        raise ValueError(f"its footer would have {length} bytes, more than the file has")
    if length + _TAIL > len(tail):
        tail = source.read_at(length + _TAIL, size - length - _TAIL)
    return tail[-_TAIL - length:-_TAIL]


@lru_cache(MAX_FOOTERS)
def read_footer(data: bytes) -> Footer:
    """The row groups in the bytes of a footer.

    Raises:
        ValueError: they are not a footer.
    """
    return Footer(tuple(
        (group.get("num_rows", 0), tuple(map(Chunk.of, group.get("columns", ()))))
        for group in read_metadata(data).get("row_groups", ())))
