"""The page index: where pages lie and what is in them, as their headers say it; what is not followed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.parquet.file import SafeFile, open_parquet
from deltanb.parquet.format import OFFSET_INDEX, read_metadata
from deltanb.parquet.page_index import place_of, read_locations
from deltanb.parquet.pages import Chunk, Pages

ROWS = pa.table({
    "id": range(1000), "text": [None if n % 3 else f"t{n}" for n in range(1000)],
    "gap": pa.array([n if 300 <= n < 400 else None for n in range(1000)], pa.int32()),
    "none": pa.nulls(1000, pa.int64()), "tags": [[n] * (n % 4) for n in range(1000)]})
FLAT = range(4)


def file_of(table: pa.Table = ROWS, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, max_rows_per_page=50, write_batch_size=50, row_group_size=600, **options)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def opened(content: bytes) -> SafeFile:
    return open_parquet(pa.BufferReader(content))


def known(chunk: Chunk | None) -> Any:
    assert chunk is not None
    return chunk.num_rows, [(page.row, page.rows, page.bounds) for page in chunk.pages]


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("leaf", FLAT)
def test_an_index_says_what_headers_say(options: dict[str, Any], group: int, leaf: int) -> None:
    indexed = Pages(opened(file_of(write_page_index=True, **options)))
    headed = Pages(opened(file_of(**options)))
    assert indexed.has_index(group) and not headed.has_index(group)
    assert known(indexed.chunk(group, leaf, with_bounds=True)) == known(
        headed.chunk(group, leaf, with_bounds=True))


def test_lists_are_taken_apart_by_an_index() -> None:
    content = file_of(write_page_index=True)
    file = opened(content)
    pages = Pages(file)
    assert pages.covering(0, [4], [(70, 80), (499, 501)]) == [(50, 100), (450, 550)]
    small = pq.read_table(pa.BufferReader(pages.file_of(0, [4], [(50, 100), (450, 550)])), columns=["tags"])
    assert small["tags"].to_pylist() == [[n] * (n % 4) for n in (*range(50, 100), *range(450, 550))]


def test_no_header_is_read_where_there_is_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(file_of(write_page_index=True))
    reads: list[tuple[int, int]] = []
    read_at = SafeFile.read_at
    monkeypatch.setattr(SafeFile, "read_at", lambda self, length, start: (
        reads.append((start, start + length)), read_at(self, length, start))[1])
    entry = read_metadata(file.footer_bytes)["row_groups"][0]["columns"][0]
    pages = Pages(file)
    pages.chunk(0, 0)
    assert reads == [place_of(entry, "offset")]
    pages.chunk(0, 0, with_bounds=True)
    assert reads[1:] == [place_of(entry, "offset"), place_of(entry, "column")]
    pages.chunk(0, 0)
    assert len(reads) == 3


# -- damage -------------------------------------------------------------------------------------------


def test_an_index_is_followed_only_through_all_pages_of_its_column() -> None:
    index = OFFSET_INDEX.write({"page_locations": [
        {"offset": 10, "compressed_page_size": 5, "first_row_index": 0},
        {"offset": 15, "compressed_page_size": 7, "first_row_index": 20}]})
    assert [tuple(page) for page in read_locations(index, 10, 22, 30)] == [(0, 10, 15), (20, 15, 22)]
    for begin, end, num_rows in ((9, 22, 30), (10, 23, 30), (10, 22, 20)):
        with pytest.raises(ValueError, match="its page index names other"):
            read_locations(index, begin, end, num_rows)
    with pytest.raises(ValueError, match="other places"):
        read_locations(OFFSET_INDEX.write({"page_locations": []}), 10, 10, 0)


def test_a_damaged_index_is_not_followed_into_wrong_rows() -> None:
    content = file_of(ROWS.select(["id"]), write_page_index=True)
    entry = read_metadata(opened(content).footer_bytes)["row_groups"][0]["columns"][0]
    begin, end = place_of(entry, "offset") or (0, 0)
    outcomes = {"read": 0, "refused": 0, "ignored": 0}
    for place in range(begin, end):
        for bit in range(8):
            broken = bytearray(content)
            broken[place] ^= 1 << bit
            pages = Pages(opened(bytes(broken)))
            chunk = pages.chunk(0, 0)
            rows = pages.covering(0, [0], [(120, 130)])
            if chunk is None or rows is None or chunk.pages[0].values is not None:  # by the headers instead
                outcomes["ignored"] += 1
                continue
            try:
                small = pq.read_table(pa.BufferReader(pages.file_of(0, [0], rows)))
            except (ValueError, KeyError, IndexError):
                outcomes["refused"] += 1
                continue
            outcomes["read"] += 1
            ((start, stop),) = rows
            assert small["id"].to_pylist() == list(range(start, stop))
    assert all(outcomes.values()), outcomes


def test_what_cannot_be_followed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    content = bytearray(file_of(write_page_index=True))
    entry = read_metadata(opened(bytes(content)).footer_bytes)["row_groups"][0]["columns"][0]
    begin, end = place_of(entry, "offset") or (0, 0)
    content[begin:end] = bytes(end - begin)
    with caplog.at_level("INFO", "deltanb"):
        chunk = Pages(opened(bytes(content))).chunk(0, 0)
    assert chunk is not None and len(chunk.pages) == 12  # by their headers
    assert "page index of column 0 in row group 0 is ignored" in caplog.text
