"""Row groups of one Parquet file carried over into another one, byte by byte.

Lives here: where the bytes of a row group lie, and a file that ends in row groups of others. Nothing is
decoded: of a footer only the offsets, the numbers of row groups and the number of rows are written anew.
Does not know: what is in the columns, or whether two files have the same ones. The caller says so.

parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltanb.log.checkpoint.parquet_file import thrift_field, thrift_integer, thrift_skip, thrift_structs
from deltanb.memory import pool

MAGIC = b"PAR1"
_INTEGERS = (4, 5, 6)
_STRUCT, _LIST = 12, 9

# Fields by number (parquet.thrift).
_FILE_ROWS, _FILE_GROUPS = 3, 4
_GROUP_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_CHUNK_KNOWN = frozenset({_CHUNK_OFFSET, _CHUNK_METADATA})
_COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_METADATA_KNOWN = frozenset({1, 2, 3, 4, 5, 6, _COMPRESSED, 8, _DATA_PAGE, _DICTIONARY_PAGE, 12, 13, 16})
"""What a column's metadata may have: all but the places of indexes and filters, which would stay behind."""


@dataclass(frozen=True)
class RowGroup:
    """One row group: its metadata as it stands in its footer, its rows, and where its bytes lie."""

    metadata: bytes
    num_rows: int
    start: int
    length: int


def row_groups(footer: bytes) -> list[RowGroup | None]:
    """The row groups of a footer; None for one that cannot be moved.

    Such has parts elsewhere in the file (indexes, filters), or columns that do not follow each other.

    Raises:
        ValueError: it is no footer.
    """
    try:
        return [_movable(data) for data in _groups_of(footer)]
    except IndexError:
        raise ValueError("its footer ends early") from None


def _groups_of(footer: bytes) -> list[bytes]:
    for number, kind, position, end in _fields(footer, 0):
        if number == _FILE_GROUPS and kind == _LIST:
            return _structs(footer[position:end])
    return []


def footer_of(data: pa.Buffer) -> bytes:
    """The footer of a whole file."""
    (length,) = struct.unpack("<I", data.slice(data.size - 8, 4).to_pybytes())
    found: bytes = data.slice(data.size - 8 - length, length).to_pybytes()
    return found


def spliced(data: pa.Buffer, copied: Sequence[tuple[RowGroup, bytes]]) -> pa.Buffer:
    """A Parquet file, and behind its row groups copies of others with the same columns.

    Args:
        data: the whole file.
        copied: row groups, and their bytes.

    Other threads run while the bytes are put together: this may be a hundred megabytes, and nobody waits.
    """
    footer = footer_of(data)
    at = data.size - 8 - len(footer)
    own = _groups_of(footer)
    pieces: list[Any] = [data.slice(0, at)]
    added = []
    for number, (group, content) in enumerate(copied, len(own)):
        added.append(moved(group.metadata, at - group.start, number))
        pieces.append(content)
        at += len(content)
    ending = footer_with(footer, [*own, *added], sum(group.num_rows for group, _ in copied))
    pieces.append(ending + struct.pack("<I", len(ending)) + MAGIC)
    result = pa.allocate_buffer(at + len(pieces[-1]), memory_pool=pool())
    with pa.FixedSizeBufferWriter(result) as sink:
        for piece in pieces:
            sink.write(piece)
    return result


# -- reading -----------------------------------------------------------------------------------


def _fields(data: bytes, position: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a structure: (number, type, where the value begins, and ends)."""
    number = 0
    while head := data[position]:
        position += 1
        number, position = thrift_field(data, position, head, number)
        end = thrift_skip(data, position, head & 15)
        yield number, head & 15, position, end
        position = end


def _structs(data: bytes) -> list[bytes]:
    """The structures of a list, each for itself."""
    count, position = thrift_structs(data, 0)
    found = []
    for _ in range(count):
        end = thrift_skip(data, position, _STRUCT)
        found.append(data[position:end])
        position = end
    return found


def _movable(group: bytes) -> RowGroup | None:
    start = end = None
    num_rows = 0
    for number, kind, position, stop in _fields(group, 0):
        if number == _GROUP_ROWS:
            num_rows, _ = thrift_integer(group, position)
        if number != _GROUP_CHUNKS or kind != _LIST:
            continue
        for chunk in _structs(group[position:stop]):
            found = _extent(chunk)
            if found is None or (end is not None and found[0] != end):
                return None
            start, end = found[0] if start is None else start, sum(found)
    if start is None or end is None:
        return None
    return RowGroup(group, num_rows, start, end - start)


def _extent(chunk: bytes) -> tuple[int, int] | None:
    """Where the bytes of a column lie: (start, length)."""
    found = None
    for number, kind, position, _ in _fields(chunk, 0):
        if number not in _CHUNK_KNOWN:
            return None
        if number == _CHUNK_METADATA and kind == _STRUCT:
            values = {}
            for field, what, at, _ in _fields(chunk, position):
                if field not in _METADATA_KNOWN:
                    return None
                if what in _INTEGERS:
                    values[field] = thrift_integer(chunk, at)[0]
            first = values.get(_DICTIONARY_PAGE) or values[_DATA_PAGE]
            found = min(first, values[_DATA_PAGE]), values[_COMPRESSED]
    return found


def _chunks_of(group: bytes) -> list[bytes]:
    return [chunk for number, _, position, end in _fields(group, 0) if number == _GROUP_CHUNKS
            for chunk in _structs(group[position:end])]


def _integers_of(data: bytes) -> dict[int, int]:
    """The numbers in a structure, by their fields."""
    return {number: thrift_integer(data, position)[0] for number, kind, position, _ in _fields(data, 0)
            if kind in _INTEGERS}


# -- writing -----------------------------------------------------------------------------------


def _rewritten(data: bytes, change: Callable[[int, int, bytes], bytes | None]) -> bytes:
    """A structure with some values changed: ``change`` is given number, type and value, None keeps it.

    The first bytes of the fields stay, since no field comes or goes.
    """
    pieces, done = [], 0
    for number, kind, position, end in _fields(data, 0):
        new = change(number, kind, data[position:end])
        if new is not None:
            pieces += [data[done:position], new]
            done = end
    return b"".join((*pieces, data[done:]))


def footer_with(footer: bytes, groups: Sequence[bytes], more_rows: int) -> bytes:
    """A footer with the metadata of these row groups in place of its own, and so many rows more."""

    def change(number: int, kind: int, value: bytes) -> bytes | None:
        if number == _FILE_ROWS:
            return _integer(thrift_integer(value, 0)[0] + more_rows)
        return _list(groups) if number == _FILE_GROUPS else None

    return _rewritten(footer, change)


def side_by_side(groups: Sequence[bytes]) -> bytes:
    """The metadata of one row group with the columns of several, which have the same rows."""
    chunks = [chunk for group in groups for chunk in _chunks_of(group)]
    sizes = {number: sum(_integers_of(group)[number] for group in groups)
             for number in (_GROUP_BYTES, _GROUP_COMPRESSED)}

    def change(number: int, kind: int, value: bytes) -> bytes | None:
        return _list(chunks) if number == _GROUP_CHUNKS else \
            _integer(sizes[number]) if number in sizes else None

    return _rewritten(groups[0], change)


def moved(group: bytes, by: int, ordinal: int) -> bytes:
    """The metadata of a row group whose bytes lie so many bytes further on, in a file that has ``ordinal``
    before it."""

    def in_metadata(number: int, kind: int, value: bytes) -> bytes | None:
        return _shifted(value, by) if number in (_DATA_PAGE, _DICTIONARY_PAGE) else None

    def in_chunk(number: int, kind: int, value: bytes) -> bytes | None:
        if number == _CHUNK_METADATA:
            return _rewritten(value, in_metadata)
        return _shifted(value, by) if number == _CHUNK_OFFSET else None

    def in_group(number: int, kind: int, value: bytes) -> bytes | None:
        if number == _GROUP_CHUNKS:
            return _list([_rewritten(chunk, in_chunk) for chunk in _structs(value)])
        if number == _GROUP_ORDINAL:
            return _integer(ordinal)
        return _shifted(value, by) if number == _GROUP_OFFSET else None

    return _rewritten(group, in_group)


def _shifted(value: bytes, by: int) -> bytes | None:
    """An offset; 0 says that there is none."""
    offset = thrift_integer(value, 0)[0]
    return _integer(offset + by) if offset else None


def _integer(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _list(structs: Sequence[bytes]) -> bytes:
    count = len(structs)
    head = bytes((count << 4 | _STRUCT,)) if count < 15 else bytes((0xF0 | _STRUCT,)) + _varint(count)
    return head + b"".join(structs)
