"""Row groups move into other files as they are."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.parquet.splice import footer_of, row_groups, spliced


def parquet(first: int, count: int, **more: Any) -> tuple[pa.Table, bytes]:
    sink = io.BytesIO()
    numbers = range(first, first + count)
    rows = pa.table({
        "number": list(numbers),
        "nested": [{"texts": [str(n)] * (n % 3), "maybe": None if n % 5 else n} for n in numbers],
        "map": pa.array([[("k", str(n % 7))] for n in numbers], pa.map_(pa.string(), pa.string()))})
    pq.write_table(rows, sink, row_group_size=10, write_page_checksum=True, **more)
    return rows, sink.getvalue()


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("own", [5, 45, 200])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_row_groups_move_into_another_file(codec: str, own: int, times: int) -> None:
    rows, data = parquet(0, 95)
    target, behind = parquet(1_000_000, own, compression=codec, use_dictionary=False)
    groups = row_groups(footer_of(pa.py_buffer(data)))
    assert len(groups) == 10 and all(groups)
    taken = [group for group in groups[::2] if group] * times
    copied = [(group, data[group.start:group.start + group.length]) for group in taken]
    end = len(behind) // 2  # or wherever, before the footer
    end = min(end, len(behind) - 8 - len(footer_of(pa.py_buffer(behind))))
    result = behind[:end] + b"".join(spliced(behind[end:], len(behind), copied))
    file = pq.ParquetFile(io.BytesIO(result), page_checksum_verification=True)
    expected = pa.concat_tables([target, *(rows.slice(at, 10) for at in range(0, 95, 20))]
                                if times == 1 else [
        target, *[rows.slice(at, 10) for at in range(0, 95, 20)] * times])
    assert file.read().equals(expected) and file.metadata.num_rows == len(expected)
    lowest = [file.metadata.row_group(at).column(0).statistics.min for at in range(file.num_row_groups)]
    assert lowest[-len(taken):] == [0, 20, 40, 60, 80] * times or not taken


def test_row_groups_with_parts_elsewhere_do_not_move() -> None:
    _, data = parquet(0, 25, write_page_index=True)
    assert row_groups(footer_of(pa.py_buffer(data))) == [None] * 3


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_half_a_footer_is_none(cut: int) -> None:
    _, data = parquet(0, 25)
    with pytest.raises(ValueError, match="footer"):
        row_groups(footer_of(pa.py_buffer(data))[:cut])
