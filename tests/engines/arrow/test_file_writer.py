"""A file that several threads encode is the one that Arrow writes in one, and goes as well where it fails."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow import file_writer
from deltanb.engines.arrow.file_writer import Encoders
from deltanb.engines.arrow.write import write_files
from deltanb.errors import StorageError
from deltanb.log import parquet_options
from deltanb.log.file_options import FileOptions
from deltanb.parquet.encodings import with_bounds, with_dictionary
from deltanb.schema.types import from_arrow
from deltanb.testing import MemoryStore

ROWS = 20_000
BIG = 1 << 40
Settings = dict[str, Any]


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four processors, and files of any size divided."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(file_writer, "PARALLEL_BYTES", 0)


@pytest.fixture
def encoders() -> Iterator[Encoders]:
    """Ended with the test."""
    made = Encoders()
    yield made
    made.end()


def rows(count: int = ROWS) -> pa.Table:
    """Columns of many kinds: unique, coming again, absent, nested."""
    numbers = range(count)
    return pa.table({
        "id": pa.array(numbers, pa.int64()), "x": [n * 0.5 for n in numbers],
        "name": [f"name {n % 77}" for n in numbers], "even": [n % 2 == 0 for n in numbers],
        "inside": pa.array([{"a": n, "l": [n, None, 3.5]} if n % 5 else None for n in numbers]),
        "nothing": pa.nulls(count, pa.int32())})


def settings(table: pa.Table, properties: dict[str, str]) -> Settings:
    return {"store_schema": False, **parquet_options.of(properties).for_arrow,
            "use_dictionary": with_dictionary(table), "write_statistics": with_bounds(table.schema)}


@pytest.mark.parametrize("properties", [{}, {"delta.parquet.format.version": "2.12.0"},
                                        {"delta.parquet.compression.codec": "none"}])
@pytest.mark.parametrize("group", [1 << 20, 7_000])
def test_columns_put_together_are_the_file_that_arrow_writes(
    monkeypatch: pytest.MonkeyPatch, encoders: Encoders, properties: dict[str, str], group: int,
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", group)
    table, layout = rows(), settings(rows(), properties)
    one, several = io.BytesIO(), io.BytesIO()
    whole = file_writer._Whole(one, table.schema, layout)
    divided = file_writer._Divided(several, table, layout, encoders, None)
    for start in (0, 5, ROWS - 1):
        whole.write(table.slice(start), BIG)
        divided.write(table.slice(start), BIG)
    assert divided.close().equals(whole.close())
    assert several.getvalue() == one.getvalue()
    assert len(divided._parts) > 1


@pytest.mark.parametrize("target", [1, 50_000, 100_000, BIG])
def test_files_end_where_they_would_in_one_thread(
    monkeypatch: pytest.MonkeyPatch, target: int,
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 4_000)
    data = rows()

    def written() -> list[tuple[int, str | None]]:
        batches = pa.Table.from_batches(data.to_batches(1_000)).to_reader()
        metadata = Metadata("t", from_arrow(data.schema).to_json())
        files = write_files(
            MemoryStore(), metadata, Protocol(1, 2), batches, file_options=FileOptions(target))
        return [(file.size, file.stats) for file in files]

    several = written()
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert several == written()
    assert (len(several) > 1) is (target < BIG)


class FullFile(io.RawIOBase):
    """A file that may not grow beyond some bytes."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def write(self, data: Any) -> int:
        """Fail as a full disk does."""
        if self.sink.tell() > 1000:
            raise OSError(28, "No space left on device")
        return int(self.sink.write(data))

    def tell(self) -> int:
        """How large it is."""
        return int(self.sink.tell())

    def close(self) -> None:
        """What was written is there."""
        self.sink.close()


class FullStore(MemoryStore):
    """One whose disk is full soon."""

    def open_output(self, name: str) -> Any:
        """See :class:`FullFile`."""
        sink = super().open_output(name)
        return FullFile(sink) if name.endswith(".parquet") else sink


def test_where_the_disk_is_full_nothing_stays_and_no_thread_works_on() -> None:
    store, threads = FullStore(), threading.active_count()
    table = dn.create(store, rows().schema)
    with pytest.raises(StorageError, match="No space left"):
        table.append(rows())
    assert not [name for name in store.files if name.endswith(".parquet")]
    assert threading.active_count() == threads


def test_one_row_group_is_in_flight_whatever_number_of_files_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 1_000)
    waiting: list[int] = []
    divided: set[Any] = set()
    submit = Encoders.submit

    def counted(self: Encoders, content: Any, works: Any) -> Any:
        divided.add(content)
        future = submit(self, content, works)
        waiting.append(sum(len(one._waiting) for one in divided if one is not content))
        return future

    monkeypatch.setattr(Encoders, "submit", counted)
    parts = [n % 3 for n in range(ROWS)]
    table = dn.create(MemoryStore(), rows().append_column("part", pa.array(parts)), partition_by=["part"])
    assert len(divided) == 3 and set(waiting) == {0}
    assert table.to_arrow().num_rows == ROWS
