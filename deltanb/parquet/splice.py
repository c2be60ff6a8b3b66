"""Row groups of one Parquet file carried over into another one, byte by byte.

Lives here: where the bytes of a row group lie, and :class:`Assembly`, the footer of a file that is put
together of row groups of others. Nothing is decoded: of their metadata only offsets and ordinals change.
Does not know: what is in the columns, or whether two files have the same ones. The caller says so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from deltanb.parquet.format import COLUMN_METADATA, FILE_METADATA, MAGIC, ROW_GROUP, ending, read_metadata
from deltanb.parquet.thrift import LIST, Values, unread

_GROUP_FIELDS = frozenset({*ROW_GROUP.names, unread(4, LIST)})
"""What the metadata of a row group that moves may have: beside what is known, by what its rows are sorted."""
_CHUNK_FIELDS = frozenset({"file_offset", "meta_data"})
_METADATA_FIELDS = frozenset({
    *COLUMN_METADATA.names, *(unread(number, LIST) for number in (2, 3, 8, 13))})
"""Of a column: all but the places of indexes and filters, which would stay behind."""
_SIZES = "total_byte_size", "total_compressed_size"


@dataclass(frozen=True)
class RowGroup:
    """One row group: its metadata as they are in its footer, and where its bytes lie."""

    metadata: Values
    start: int
    length: int

    @classmethod
    def of(cls, metadata: Values) -> RowGroup | None:
        """None where it cannot be moved: it has parts elsewhere in the file (indexes, filters), or columns
        that do not follow each other."""
        chunks = metadata.get("columns", ())
        if not chunks or not _GROUP_FIELDS.issuperset(metadata) or not all(map(_is_movable, chunks)):
            return None
        extents = [_extent(chunk) for chunk in chunks]
        if any(one[0] + one[1] != other[0] for one, other in pairwise(extents)):
            return None
        return cls(metadata, extents[0][0], sum(length for _, length in extents))

    @property
    def num_rows(self) -> int:
        """Of each column that is flat."""
        return int(self.metadata["num_rows"])

    def cut(self, leaves: range) -> RowGroup:
        """With some neighbouring columns alone, as they lie in its file."""
        chunks = self.metadata["columns"][leaves.start:leaves.stop]
        known = [chunk["meta_data"] for chunk in chunks]
        start, size = _extent(chunks[0])[0], sum(one["total_compressed_size"] for one in known)
        new = {"columns": chunks, "total_byte_size": sum(one["total_uncompressed_size"] for one in known),
               "total_compressed_size": size, "file_offset": start}
        metadata = self.metadata | {name: value for name, value in new.items() if name in self.metadata}
        return RowGroup(metadata, start, size)


def row_groups(footer: bytes) -> list[RowGroup | None]:
    """The row groups of a footer; None for one that cannot be moved.

    Raises:
        ValueError: it is no footer.
    """
    return [RowGroup.of(group) for group in read_metadata(footer).get("row_groups", ())]


def have_same_columns(footer: bytes, other: bytes) -> bool:
    """Whether two footers differ in their row groups alone: same columns, by the same writer.

    Raises:
        ValueError: one is no footer.
    """
    return _without_rows(footer) == _without_rows(other)


def _without_rows(footer: bytes) -> Values:
    return read_metadata(footer) | {"num_rows": 0, "row_groups": []}


def footer_of(data: pa.Buffer) -> bytes:
    """The footer of a file, from its end or all of it."""
    (length,) = struct.unpack("<I", data.slice(data.size - 8, 4).to_pybytes())
    footer: bytes = data.slice(data.size - 8 - length, length).to_pybytes()
    return footer


class Assembly:
    """The footer of a file to which row groups are added.

    Args:
        footer: of a file with the same columns.
        size: how long the file is by now.
        keeps: whether the row groups in the footer are the first ones of the file.
    """

    def __init__(self, footer: bytes, size: int = len(MAGIC), *, keeps: bool = False) -> None:
        self._file, self.size = read_metadata(footer), size
        self._groups: list[Values] = [*self._file["row_groups"]] if keeps else []
        self._rows = self._file["num_rows"] if keeps else 0

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, parts: Iterable[RowGroup]) -> None:
        """A row group with the columns of the parts, whose bytes follow each other."""
        groups = []
        for part in parts:
            groups.append(_moved(part, self.size - part.start, len(self._groups)))
            self.size += part.length
        whole = {name: sum(group[name] for group in groups) for name in _SIZES if name in groups[0]}
        whole["columns"] = [chunk for group in groups for chunk in group["columns"]]
        self._groups.append(groups[0] | whole)
        self._rows += groups[0]["num_rows"]

    def end(self) -> bytes:
        """The end of the file, behind the last row group."""
        return ending(FILE_METADATA.write(self._file | {"num_rows": self._rows, "row_groups": self._groups}))


def spliced(end: bytes, size: int, copied: Iterable[tuple[RowGroup, bytes]]) -> Iterator[bytes]:
    """The new end of a Parquet file that has, behind its row groups, copies of others with the same columns.

    Args:
        end: the old end, with the whole footer.
        size: how long the file is with it.
        copied: row groups, and their bytes. Each is asked for once those before it were taken.
    """
    footer = footer_of(pa.py_buffer(end))
    rest = len(footer) + 8
    yield end[:-rest]
    whole = Assembly(footer, size - rest, keeps=True)
    for group, content in copied:
        whole.add([group])
        yield content
    yield whole.end()


def _is_movable(chunk: Values) -> bool:
    known = chunk.get("meta_data", ())
    return ("data_page_offset" in known and "total_compressed_size" in known
            and _CHUNK_FIELDS.issuperset(chunk) and _METADATA_FIELDS.issuperset(known))


def _extent(chunk: Values) -> tuple[int, int]:
    """Where the bytes of a column begin, and how many there are."""
    known = chunk["meta_data"]
    data = known["data_page_offset"]
    return min(known.get("dictionary_page_offset") or data, data), known["total_compressed_size"]


def _moved(group: RowGroup, by: int, ordinal: int) -> Values:
    """The metadata of a row group whose bytes lie so many bytes further on, in a file that has ``ordinal``
    before it."""
    chunks = [_shifted(chunk, by, ("file_offset",)) | {"meta_data": _shifted(
        chunk["meta_data"], by, ("data_page_offset", "dictionary_page_offset"))}
        for chunk in group.metadata["columns"]]
    whole = _shifted(group.metadata, by, ("file_offset",)) | {"columns": chunks}
    return whole | {"ordinal": ordinal} if "ordinal" in whole else whole


def _shifted(values: Values, by: int, names: Sequence[str]) -> Values:
    """With offsets so many bytes further on; 0 says that there is none."""
    return values | {name: values[name] + by for name in names if values.get(name)}
