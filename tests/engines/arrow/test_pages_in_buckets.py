"""A page index in a bucket: of a row group the pages with wanted rows are asked for, counted in bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.parquet.ranges import ROUND_TRIP_BYTES

pytest.importorskip("obstore")

ROWS, GROUP = 400_000, 200_000


def rows() -> pa.Table:
    draw = np.random.default_rng(7)
    return pa.table({"id": np.arange(ROWS), "mixed": draw.permutation(ROWS),
                     **{name: draw.random(ROWS) for name in "abc"},
                     "tags": pa.ListArray.from_arrays(np.arange(0, 2 * ROWS + 1, 2), draw.random(2 * ROWS))})


def made(uri: str, options: dict[str, str], index: bool) -> str:
    """A table of one file with two row groups, which has a page index or none."""
    store = dn.DeltaLog.for_table(uri, storage_options=options).store
    with store.open_output("one.parquet") as file:
        pq.write_table(rows(), file, row_group_size=GROUP, max_rows_per_page=10_000, use_dictionary=False,
                       write_page_index=index)
    dn.convert(uri, storage_options=options)
    return uri


def bytes_and_requests(
    s3_server: Any, uri: str, columns: list[str] | None, where: str
) -> tuple[pa.Table, int, int]:
    """What is read, and the bytes and requests that it takes beside those of the log."""
    table = dn.open(uri, storage_options=s3_server.options)
    with s3_server.counted() as requests:
        answer = table.to_arrow(columns, where).sort_by("id")
    asked = [one for one in requests if one.key.endswith(".parquet") and "_delta_log" not in one.key]
    return answer, sum(map(size_of, asked)), len(asked)


def size_of(request: Any) -> int:
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers["range"])
    assert asked is not None
    return int(asked[2]) - int(asked[1] or 0) + 1 if asked[1] else int(asked[2])


@pytest.mark.parametrize(("columns", "where", "share"), [
    (None, "id BETWEEN 150000 AND 150020", 0.1), (None, "id IN (5, 250000)", 0.1),
    (None, "mixed = 123", 0.5), (["id", "a", "tags"], "id = 399999", 0.15), (None, "id < 0", 1.0),
    (None, "id >= 20", 1.0)])
def test_bytes_of_a_few_rows(bucket: str, s3_server: Any, columns: Any, where: str, share: float) -> None:
    tables = [made(f"{bucket}/{index}", s3_server.options, index) for index in (True, False)]
    (indexed, by_index, num_indexed), (plain, by_chunk, num_plain) = (
        bytes_and_requests(s3_server, uri, columns, where) for uri in tables)
    assert indexed.equals(plain)
    assert by_index <= share * by_chunk + (1 << 16), (by_index, by_chunk)
    waited = ROUND_TRIP_BYTES * (num_indexed - num_plain)
    assert by_index + waited <= by_chunk, (num_indexed, num_plain)
