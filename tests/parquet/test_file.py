"""Footers are read as they are, and not trusted."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.log.checkpoint.names import classic_name
from deltanb.parquet.file import Footer, open_parquet, read_footer
from deltanb.testing import MemoryStore


def checkpoint() -> bytes:
    """A file with many columns."""
    store = MemoryStore()
    dn.create(store, {"id": [0]}).log.checkpoint()
    return store.read(classic_name(0))


def footer_of(data: bytes) -> bytes:
    (length,) = struct.unpack("<I", data[-8:-4])
    return data[-8 - length:-8]


def test_a_footer_is_read_as_pyarrow_reads_it() -> None:
    file = open_parquet(pa.BufferReader(checkpoint()))
    file.footer.check(file)
    assert file.footer.is_sound(file)
    for number, (num_rows, chunks) in enumerate(file.footer.groups):
        group = file.metadata.row_group(number)
        assert num_rows == group.num_rows
        for index, chunk in enumerate(chunks):
            column = group.column(index)
            assert (chunk.num_values, chunk.null_count) == (
                column.num_values, column.statistics and column.statistics.null_count)


def test_a_footer_that_ends_anywhere_is_refused_or_shorter_and_never_read_beyond() -> None:
    whole = footer_of(checkpoint())
    for end in range(0, len(whole), 7):
        try:
            read_footer(whole[:end])
        except ValueError:
            continue
    with pytest.raises(ValueError, match="ends early"):
        read_footer(b"")
    with pytest.raises(ValueError, match="nested too deeply"):
        read_footer(b"\x1c" * 1000)


def test_a_footer_that_is_read_again_is_walked_once() -> None:
    whole = footer_of(checkpoint())
    assert read_footer(whole) is read_footer(bytes(bytearray(whole)))


def test_a_footer_without_a_column_of_a_row_group_is_unsound() -> None:
    file = open_parquet(pa.BufferReader(checkpoint()))
    (num_rows, chunks), *others = file.footer.groups
    footer = Footer(((num_rows, chunks[:-1]), *others))
    assert not footer.is_sound(file)
    with pytest.raises(ValueError, match="columns where the schema has"):
        footer.check(file)


def test_a_footer_whose_histograms_do_not_fit_its_columns_is_unsound() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, None], "text": ["a", "b"], "list": [[1], []]}), sink)
    file = open_parquet(pa.BufferReader(sink.getvalue()))
    assert file.is_sound
    ((num_rows, chunks),) = file.footer.groups
    texts, repetitions, definitions = (
        "unencoded_byte_array_data_bytes", "repetition_level_histogram", "definition_level_histogram")
    for leaf, sizes in [(0, {definitions: [1]}), (0, {texts: 1}), (1, {repetitions: [1, 1]}),
                        (2, {definitions: [1] * 3})]:
        chunk = chunks[leaf]
        old = chunk.metadata["size_statistics"]
        odd = chunk._replace(metadata=chunk.metadata | {"size_statistics": old | sizes})
        assert not Footer(((num_rows, (*chunks[:leaf], odd, *chunks[leaf + 1:])),)).is_sound(file)
