"""Files put together by copying their row groups: the same rows, the same statistics, and nothing decoded."""

from __future__ import annotations

import datetime as dt
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.engines.arrow import copyable
from deltanb.errors import InvalidTable, StorageError
from deltanb.testing import MemoryStore
from tests.engines.arrow.copies import ENCODE, NESTED, OTHERS, SETTINGS, UTC, added, foreign, rows, table_of

pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_copy_has_the_rows_and_the_statistics_of_files_that_are_encoded_anew(
    monkeypatch: pytest.MonkeyPatch, decoded: list[int], settings: dict[str, Any],
) -> None:
    parts = [rows(0), rows(600, 1), rows(601, 900)]
    table = table_of(MemoryStore(), *parts, **settings)
    result = table.optimize()
    assert not decoded and result.metrics["numAddedFiles"] == 1 + ("partition_by" in settings)
    copy, seen = added(table), table.to_arrow()
    table.restore(len(parts))
    decoded.clear()
    monkeypatch.setattr(copyable, "LEAST_ROWS", ENCODE)
    table.optimize()
    assert sum(decoded) == 1501
    assert added(table) == copy and table.to_arrow().equals(seen)
    assert sorted(seen["id"].to_pylist()) == list(range(1501))


def test_a_copy_can_be_copied_again_and_its_offsets_are_right(decoded: list[int]) -> None:
    store = MemoryStore()
    table = table_of(store, rows(0), rows(600))
    table.optimize()
    table.append(rows(1200))
    table.optimize()
    assert not decoded
    (path,) = table.snapshot.files["path"].to_pylist()
    file = pq.ParquetFile(io.BytesIO(store.read(path)), page_checksum_verification=True)
    assert [file.metadata.row_group(n).num_rows for n in range(9)] == [250, 250, 100] * 3
    for number in range(9):
        start = number // 3 * 600 + number % 3 * 250
        assert file.read_row_group(number)["id"].to_pylist() == list(range(start, start + 100 + (
            150 if number % 3 < 2 else 0)))
    assert file.metadata.num_rows == table.count() == 1800
    assert table.snapshot.files["size"].to_pylist() == [len(store.read(path))]


def test_partition_values_are_those_of_files_encoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"text": ["a=b", None], "day": [dt.date(2020, 2, 29), None], "price": [Decimal("1.50"), None],
              "at": [dt.datetime(2020, 1, 1, 12, tzinfo=UTC), None], "x": [0.1, None], "is": [True, None]}
    part = pa.table({"id": [1, 2], **values})
    one, two = (table_of(MemoryStore(), part, part, partition_by=list(values)) for _ in range(2))
    one.optimize()
    monkeypatch.setattr(copyable, "LEAST_ROWS", ENCODE)
    two.optimize()
    assert added(one) == added(two) and len(added(one)) == 2
    assert one.to_arrow().equals(two.to_arrow())


@pytest.mark.parametrize("properties", [{}, {"delta.columnMapping.mode": "id"}], ids=["names", "ids"])
def test_every_reader_reads_a_copy(
    tmp_path: Path, decoded: list[int], properties: dict[str, str]
) -> None:
    table = table_of(tmp_path, rows(0), rows(600), rows(1200), properties=properties)
    before = pq.read_schema(str(tmp_path / table.snapshot.files["path"][0].as_py()))
    table.optimize()
    assert not decoded
    expected = pa.concat_tables([rows(0), rows(600), rows(1200)])
    assert table.to_arrow().to_pylist() == expected.to_pylist()
    name = str(tmp_path / table.snapshot.files["path"][0].as_py())
    assert pq.read_schema(name).equals(before, check_metadata=True)  # field ids
    values = [expected[place].to_pylist() for place in range(expected.num_columns) if place != NESTED]
    for seen in (pq.read_table(name), polars.read_parquet(name).to_arrow()):
        assert [seen[place].to_pylist() for place in range(expected.num_columns) if place != NESTED] == values
    theirs = duckdb.read_parquet(name)
    first = theirs.columns[0]
    assert [row[:2] + row[4:7] for row in theirs.fetchall()] == list(zip(
        *(expected[place].to_pylist() for place in (0, 1, 4, 5, 6)), strict=True))
    assert len(theirs.filter(f'"{first}" BETWEEN 700 AND 709').fetchall()) == 10
    if not properties:  # deltalake knows no column mapping
        seen = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
        assert seen.to_pydict() == expected.to_pydict()


FLOATS = {"NaN": math.nan, "infinite": math.inf, "below all": -math.inf, "signed zero": -0.0, "tiny": 5e-324,
          "none": None, "long": 0.1 + 0.2, "large": 3.4028234663852886e38}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("special_value", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("alone", [True, False])
def test_bounds_of_floats_are_those_of_files_encoded_anew(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, special_value: float | None, alone: bool,
) -> None:
    special = pa.table({"x": pa.array([special_value] if alone else [special_value, 1 / 3], kind)})
    other = pa.table({"x": pa.array([-1 / 3, 0.1, None], kind)})
    one, two = (table_of(MemoryStore(), special, other) for _ in range(2))
    one.optimize()
    monkeypatch.setattr(copyable, "LEAST_ROWS", ENCODE)
    two.optimize()
    assert added(one) == added(two)


# --- what is not copied ---------------------------------------------------------------------------

@pytest.mark.parametrize("options", [*OTHERS.values(), {}], ids=[*OTHERS, "as ours"])
def test_files_of_another_form_are_encoded_anew(
    decoded: list[int], options: dict[str, Any]
) -> None:
    store = MemoryStore()
    table = table_of(store, rows(0).select(["id", "x", "name"]))
    foreign(table, 600, **options)
    table.optimize()
    assert bool(decoded) is bool(options)
    assert table.to_arrow()["id"].to_pylist() == list(range(1200))
    assert len([name for name in store.files if name.endswith(".parquet")]) == 3


def test_small_row_groups_grow(monkeypatch: pytest.MonkeyPatch, decoded: list[int]) -> None:
    monkeypatch.setattr(copyable, "LEAST_ROWS", 201)
    table = table_of(MemoryStore(), rows(0), rows(600))  # 250, 250 and 100 rows: 200 on average
    table.optimize()
    assert sum(decoded) == 1200


@pytest.mark.parametrize("change", [
    lambda table: table.delete("id = 3"), lambda table: table.add_columns("more int"),
    lambda table: table.set_properties({"delta.parquet.compression.codec": "snappy"}),
    lambda table: table.set_properties({"delta.parquet.format.version": "2.12.0"})],
    ids=["deleted rows", "another column", "another codec", "other pages"])
def test_what_a_new_file_would_not_be_is_encoded_anew(decoded: list[int], change: Any) -> None:
    table = table_of(MemoryStore(), rows(0), rows(600), properties={"delta.enableDeletionVectors": "true"})
    change(table)
    count = table.count()
    decoded.clear()
    table.optimize()
    assert sum(decoded) >= count == table.count() and table.snapshot.num_files == 1


def test_rows_keep_their_ids(decoded: list[int]) -> None:
    table = table_of(MemoryStore(), rows(0), rows(600), properties={"delta.enableRowTracking": "true"})
    table.optimize()
    assert sum(decoded) == 1200


def test_a_damaged_page_is_not_copied() -> None:
    store = MemoryStore()
    table = table_of(store, rows(0), rows(600))
    path = table.snapshot.files["path"][1].as_py()
    content = bytearray(store.read(path))
    content[len(content) // 3] ^= 1
    store.files[path] = bytes(content), store.files[path][1]
    before = set(store.files)
    with pytest.raises(InvalidTable, match=path):
        table.optimize()
    assert set(store.files) == before


class FullFile(io.RawIOBase):
    """A file that may not grow beyond some bytes."""

    def __init__(self, sink: Any) -> None:
        self.sink, self.size = sink, 0

    def write(self, data: Any) -> int:
        """Fail as a full disk does."""
        self.size += len(data)
        if self.size > 20_000:
            raise OSError(28, "No space left on device")
        return int(self.sink.write(data))

    def close(self) -> None:
        """What was written is there."""
        self.sink.close()


class FullStore(MemoryStore):
    """One whose disk is full at some time."""

    is_full = False

    def open_output(self, name: str) -> Any:
        """See :class:`FullFile`."""
        sink = super().open_output(name)
        return FullFile(sink) if self.is_full else sink


def test_where_the_disk_is_full_nothing_stays(decoded: list[int]) -> None:
    store = FullStore()
    table = table_of(store, rows(0), rows(600))
    before = set(store.files)
    store.is_full = True
    with pytest.raises(StorageError, match="No space left"):
        table.optimize()
    assert set(store.files) == before and not decoded
