"""Row groups of one Parquet file carried over into another one, byte by byte.

Lives here: where the bytes of a row group lie, and a file that ends in row groups of others. Nothing is
decoded: of a footer only the offsets, the numbers of row groups and the number of rows are written anew.
Does not know: what is in the columns, or whether two files have the same ones. The caller says so.

parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from deltanb.concurrency.precedence import yield_to_commits
from deltanb.parquet.file import thrift_field, thrift_integer, thrift_skip, thrift_structs

MAGIC = b"PAR1"
_INTEGERS = (4, 5, 6)
_STRUCT, _LIST = 12, 9

# Fields by number (parquet.thrift).
_FILE_ROWS, _FILE_GROUPS = 3, 4
_GROUP_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_GROUP_KNOWN = frozenset({_GROUP_BYTES, 4, _GROUP_COMPRESSED})
"""What else a row group's metadata may have: sizes, and by what its rows are sorted."""
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 6, 7, 9, 11
_METADATA_KNOWN = frozenset({1, 2, 3, 4, 5, _UNCOMPRESSED, _COMPRESSED, 8, _DATA_PAGE, _DICTIONARY_PAGE,
                             12, 13, 16})
"""What a column's metadata may have: all but the places of indexes and filters, which would stay behind."""


@dataclass(frozen=True)
class RowGroup:
    """One row group: its metadata as it stands in its footer, its rows, and where its bytes lie.

    ``places`` are what has to change where it moves, in the order of the metadata: (begin, end, offset), with
    None in the place of an offset for the number of the row group.
    """

    metadata: bytes
    num_rows: int
    start: int
    length: int
    places: tuple[tuple[int, int, int | None], ...]


@dataclass
class _Found:
    """What a walk over a footer has met; one walk, since footers have hundreds of columns."""

    groups: list[RowGroup | None] = field(default_factory=list)
    list_at: tuple[int, int, int] | None = None
    """Where the list of row groups begins, where its first one does, and where it ends."""
    rows_at: tuple[int, int, int] | None = None
    """Where the number of rows begins and ends, and the number."""


def row_groups(footer: bytes) -> list[RowGroup | None]:
    """The row groups of a footer; None for one that cannot be moved.

    Such has parts elsewhere in the file (indexes, filters), or columns that do not follow each other.

    Raises:
        ValueError: it is no footer.
    """
    try:
        return _walked(footer).groups
    except IndexError:
        raise ValueError("its footer ends early") from None


def footer_of(data: pa.Buffer) -> bytes:
    """The footer of a file, from its end or all of it."""
    (length,) = struct.unpack("<I", data.slice(data.size - 8, 4).to_pybytes())
    found: bytes = data.slice(data.size - 8 - length, length).to_pybytes()
    return found


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
    at, rows = size - rest, 0
    own = _walked(footer)
    added = []
    for number, (group, content) in enumerate(copied, len(own.groups)):
        added.append(moved(group, at - group.start, number))
        at += len(content)
        rows += group.num_rows
        yield content
    ending = _footer(footer, own, added, rows, keeps=True)
    yield ending + struct.pack("<I", len(ending)) + MAGIC


# -- reading -----------------------------------------------------------------------------------


def _walked(footer: bytes) -> _Found:
    found, position, number = _Found(), 0, 0
    while head := footer[position]:
        number, begin = thrift_field(footer, position + 1, head, number)
        kind = head & 15
        if number == _FILE_GROUPS and kind == _LIST:
            count, first = thrift_structs(footer, begin)
            position = first
            for _ in range(count):
                group, position = _group(footer, position)
                found.groups.append(group)
            found.list_at = begin, first, position
        elif number == _FILE_ROWS and kind in _INTEGERS:
            rows, position = thrift_integer(footer, begin)
            found.rows_at = begin, position, rows
        else:
            position = thrift_skip(footer, begin, kind)
    return found


def thrift_fields(data: bytes, position: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a structure: (number, type, where the value begins, and ends)."""
    number = 0
    while head := data[position]:
        number, begin = thrift_field(data, position + 1, head, number)
        position = thrift_skip(data, begin, head & 15)
        yield number, head & 15, begin, position


class _Walk:
    """What is found out about one row group."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.places: list[tuple[int, int, int | None]] = []
        self.extents: list[tuple[int, int]] = []
        self.num_rows = self.uncompressed = 0
        self.is_movable = True

    def offset(self, data: bytes, position: int) -> tuple[int, int]:
        """An offset, noted unless it is 0, which says that there is none."""
        value, end = thrift_integer(data, position)
        if value:
            self.places.append((position - self.begin, end - self.begin, value))
        return value, end

    def row_group(self, data: bytes, end: int) -> RowGroup | None:
        """The row group, where its columns follow each other."""
        follow = all(one[0] + one[1] == other[0] for one, other in pairwise(self.extents))
        if not (self.is_movable and self.extents and follow):
            return None
        start, (last, length) = self.extents[0][0], self.extents[-1]
        return RowGroup(data[self.begin:end], self.num_rows, start, last + length - start, tuple(self.places))


def _group(data: bytes, position: int) -> tuple[RowGroup | None, int]:
    walk, number = _Walk(position), 0
    while head := data[position]:
        number, position = thrift_field(data, position + 1, head, number)
        kind = head & 15
        if number == _GROUP_CHUNKS and kind == _LIST:
            count, position = thrift_structs(data, position)
            for _ in range(count):
                yield_to_commits()
                position = _chunk(data, position, walk)
        elif number == _GROUP_ROWS:
            walk.num_rows, position = thrift_integer(data, position)
        elif number == _GROUP_OFFSET:
            _, position = walk.offset(data, position)
        elif number == _GROUP_ORDINAL:
            _, end = thrift_integer(data, position)
            walk.places.append((position - walk.begin, end - walk.begin, None))
            position = end
        else:
            walk.is_movable &= number in _GROUP_KNOWN
            position = thrift_skip(data, position, kind)
    return walk.row_group(data, position + 1), position + 1


def _chunk(data: bytes, position: int, walk: _Walk) -> int:
    number = 0
    while head := data[position]:
        number, position = thrift_field(data, position + 1, head, number)
        kind = head & 15
        if number == _CHUNK_OFFSET:
            _, position = walk.offset(data, position)
        elif number == _CHUNK_METADATA and kind == _STRUCT:
            position = _metadata(data, position, walk)
        else:
            walk.is_movable = False
            position = thrift_skip(data, position, kind)
    return position + 1


def _metadata(data: bytes, position: int, walk: _Walk) -> int:
    """Of a column: where its bytes lie."""
    values, number = dict.fromkeys((_COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE), 0), 0
    while head := data[position]:
        number, position = thrift_field(data, position + 1, head, number)
        kind = head & 15
        if number in (_DATA_PAGE, _DICTIONARY_PAGE):
            values[number], position = walk.offset(data, position)
        elif number == _COMPRESSED:
            values[number], position = thrift_integer(data, position)
        elif number == _UNCOMPRESSED:
            walk.uncompressed, position = thrift_integer(data, position)
        else:
            walk.is_movable &= number in _METADATA_KNOWN
            position = thrift_skip(data, position, kind)
    first = min(values[_DICTIONARY_PAGE] or values[_DATA_PAGE], values[_DATA_PAGE])
    walk.extents.append((first, values[_COMPRESSED]))
    return position + 1


# -- writing -----------------------------------------------------------------------------------


def footer_with(footer: bytes, groups: Sequence[bytes], more_rows: int) -> bytes:
    """A footer with the metadata of these row groups in place of its own, and so many rows more."""
    return _footer(footer, _walked(footer), groups, more_rows, keeps=False)


def without_rows(footer: bytes) -> bytes:
    """A footer without its row groups: the same for files with the same columns, by the same writer.

    Raises:
        ValueError: it is no footer.
    """
    try:
        found = _walked(footer)
    except IndexError:
        raise ValueError("its footer ends early") from None
    if found.list_at is None or found.rows_at is None:
        raise ValueError("its footer lacks row groups")
    return _footer(footer, found, (), -found.rows_at[2], keeps=False)


def _footer(footer: bytes, own: _Found, added: Sequence[bytes], more_rows: int, *, keeps: bool) -> bytes:
    """A footer with more row groups, behind its own or in place of these, and more rows."""
    assert own.list_at is not None and own.rows_at is not None
    begin, first, end = own.list_at
    kept, count = (footer[first:end], len(own.groups)) if keeps else (b"", 0)
    groups = _list_head(count + len(added)) + kept + b"".join(added)
    at, behind, rows = own.rows_at
    return replaced(footer, sorted([(begin, end, groups), (at, behind, thrift_of(rows + more_rows))]))


def side_by_side(groups: Sequence[bytes]) -> bytes:
    """The metadata of one row group with the columns of several, which have the same rows."""
    count, chunks, sizes = 0, [], Counter[int]()
    for group in groups:
        for number, _, position, end in thrift_fields(group):
            if number == _GROUP_CHUNKS:
                more, first = thrift_structs(group, position)
                count += more
                chunks.append(group[first:end])
            elif number in (_GROUP_BYTES, _GROUP_COMPRESSED):
                sizes[number] += thrift_integer(group, position)[0]
    new = {_GROUP_CHUNKS: _list_head(count) + b"".join(chunks),
           **{number: thrift_of(size) for number, size in sizes.items()}}
    return replaced(groups[0], [(position, end, new[number])
                                 for number, _, position, end in thrift_fields(groups[0]) if number in new])


def cut(group: RowGroup, leaves: range) -> RowGroup:
    """A row group with some neighbouring columns of one, as they lie in its file."""
    chunks = []
    for number, _, position, _ in thrift_fields(group.metadata):
        if number == _GROUP_CHUNKS:
            count, begin = thrift_structs(group.metadata, position)
            for _ in range(count):
                walk = _Walk(begin)
                end = _chunk(group.metadata, begin, walk)
                chunks.append((group.metadata[begin:end], walk))
                begin = end
    kept = [chunks[leaf] for leaf in leaves]
    new = {_GROUP_CHUNKS: _list_head(len(kept)) + b"".join(content for content, _ in kept),
           _GROUP_BYTES: thrift_of(sum(walk.uncompressed for _, walk in kept)),
           _GROUP_COMPRESSED: thrift_of(sum(walk.extents[0][1] for _, walk in kept)),
           _GROUP_OFFSET: thrift_of(kept[0][1].extents[0][0])}
    changes = [(position, end, new[number])
               for number, _, position, end in thrift_fields(group.metadata) if number in new]
    found, _ = _group(replaced(group.metadata, changes), 0)
    assert found is not None  # a part of what was movable
    return found


def moved(group: RowGroup, by: int, ordinal: int) -> bytes:
    """The metadata of a row group whose bytes lie so many bytes further on, in a file that has ``ordinal``
    before it."""
    return replaced(group.metadata, [
        (begin, end, thrift_of(ordinal if offset is None else offset + by))
        for begin, end, offset in group.places])


def replaced(data: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Bytes with others in some places, in ascending order.

    The first bytes of Thrift's fields stay, since no field comes or goes.
    """
    pieces, done = [], 0
    for begin, end, new in changes:
        pieces += [data[done:begin], new]
        done = end
    return b"".join((*pieces, data[done:]))


def thrift_of(value: int) -> bytes:
    """An integer as a field's value."""
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _list_head(count: int) -> bytes:
    return bytes((count << 4 | _STRUCT,)) if count < 15 else bytes((0xF0 | _STRUCT,)) + _varint(count)
