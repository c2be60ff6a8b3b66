"""Few wanted rows of a row group: columns that come late have them, and none others."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from deltanb.actions import AddFile
from deltanb.engines.arrow import data_file, read, row_groups
from deltanb.parquet.file import SafeFile
from deltanb.schema import ddl
from deltanb.testing import MemoryStore, TableBuilder

PAGE, GROUP, ROWS, BATCH = 100, 2_000, 5_000, 300
SCHEMA = ddl.parse_schema(
    "key bigint, name string, place string, tags array<bigint>, inside struct<a: bigint, b: string>, "
    "more double")
FLAT = ["key", "name", "place", "inside", "more"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The row groups that are decoded, and which columns of them."""
    ranges_read: list[Any] = []
    groups = SafeFile.iter_batches

    def iter_batches(self: SafeFile, size: int, row_groups: Any, columns: Any) -> Any:
        ranges_read.append((row_groups[0], columns))
        return groups(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    return ranges_read


def table(keys: list[int | None]) -> pa.Table:
    numbers = range(len(keys))
    return pa.table({
        "key": pa.array(keys, pa.int64()), "name": [f"name {n}" if n % 7 else None for n in numbers],
        "place": [f"place {n % 5}" for n in numbers], "tags": [[n] * (n % 4) for n in numbers],
        "inside": [{"a": n, "b": str(n)} if n % 3 else None for n in numbers]})


def keys(*numbers: int) -> list[int | None]:
    """1 at these positions, else 0 or NULL, and 2 in each page: no bounds tell."""
    return [1 if n in numbers else 2 if n % PAGE == 0 else None if n % 11 == 0 else 0 for n in range(ROWS)]


def builder_of(rows: pa.Table, **options: Any) -> TableBuilder:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=GROUP, max_rows_per_page=PAGE, write_batch_size=PAGE,
                   write_page_checksum=True, **options)
    data = sink.getvalue().to_pybytes()
    builder = TableBuilder(MemoryStore()).create(json.loads(SCHEMA.to_json()))
    return builder.put("f", data).commit(AddFile("f", {}, len(data), 1))


def scanned(builder: TableBuilder, columns: list[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    snapshot = builder.log.update()
    scan = read.plan(snapshot, columns, "key = 1")
    (row,) = snapshot.files.to_pylist()
    return [one for batch in data_file.read_data_file(
        scan, row, positions=True, batch_rows=BATCH, **options) for one in batch.to_pylist()]


def expected(rows: pa.Table, columns: list[str], numbers: Any) -> list[dict[str, Any]]:
    dicts = rows.append_column("more", pa.nulls(len(rows), pa.float64())).select(columns).to_pylist()
    return [{**dicts[n], data_file.ROW_POSITION: n} for n in numbers]


PLACES = {
    "one": [1234], "first and last": [0, GROUP - 1, GROUP, ROWS - 1], "ends of pages": [99, 101, 299, 301],
    "ends of batches": [299, 302, 600, 899, 2299, 2302], "a whole page": list(range(501, 600)),
    "two pages": list(range(550, 650)), "over a batch": list(range(280, 320)),
    "far apart": [5, 405, 805, 1205, 1605],
    "a whole batch": list(range(300, 600)), "few, then many": [3, *range(1000, 1900)]}


@pytest.mark.parametrize("numbers", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_rows_and_their_positions_are_those_that_match(numbers: list[int], version: str) -> None:
    rows = table(keys(*numbers))
    builder = builder_of(rows, data_page_version=version)
    here = [n for n in numbers if rows["key"][n].as_py() == 1]
    for columns in (SCHEMA.names, ["name"], ["tags", "key"], ["inside", "more"]):
        assert scanned(builder, columns) == expected(rows, columns, here)
    only = BitMap64([n for n in here if n % 2])
    assert scanned(builder, ["name"], only=only) == expected(rows, ["name"], only)


def test_rows_at_random_places_are_those_that_match() -> None:
    dice = random.Random(7)
    for _ in range(60):
        numbers = sorted({dice.randrange(ROWS) for _ in range(dice.randrange(1, 14))})
        rows = table(keys(*numbers))
        assert scanned(builder_of(rows), FLAT) == expected(rows, FLAT, numbers)


def test_who_wants_a_few_rows_has_them_before_the_row_group_ends(ranges: list[Any]) -> None:
    snapshot = builder_of(table(keys(50))).log.update()
    (row,) = snapshot.files.to_pylist()
    batches = data_file.read_data_file(read.plan(snapshot, ["name"], "key = 1"), row, batch_rows=PAGE - 1)
    assert next(batches).to_pylist() == [{"name": "name 50"}]
    assert ranges == [(0, ["key"]), (0, ["name"])]
