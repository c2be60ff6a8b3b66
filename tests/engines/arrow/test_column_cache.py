"""Columns that a search has decoded are not decoded again to write the rows beside those it found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.engines.arrow import column_cache as kept
from deltanb.engines.arrow.column_cache import Kept, Room
from deltanb.parquet.file import SafeFile
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.engines.arrow.copies import rows, table_of

CONDITIONS = ["id % 100 = 7", "name = 'name 3' OR id = 700", "inside.f IS NOT NULL AND id % 3 = 0",
              "part = 1 AND id % 7 = 1", "day > DATE'1970-06-01' AND id % 2 = 0", "small + id < 40",
              "id >= 0"]
TABLES: dict[str, dict[str, Any]] = {
    "plain": {}, "partitioned": {"partition_by": ["part"]},
    "mapped": {"properties": {"delta.columnMapping.mode": "name"}},
    "row ids": {"properties": {"delta.enableRowTracking": "true"}},
    "change feed": {"properties": {"delta.enableChangeDataFeed": "true"}},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true"}}}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many row groups of each column are decoded from here on."""
    found: Counter[str] = Counter()
    batches = SafeFile.iter_batches

    def noted(file: Any, *args: Any, **options: Any) -> Any:
        found.update(name for name in options["columns"] for _ in options["row_groups"])
        return batches(file, *args, **options)

    monkeypatch.setattr(SafeFile, "iter_batches", noted)
    return found


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("settings", TABLES.values(), ids=TABLES)
def test_rows_are_those_that_are_decoded_twice(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], where: str
) -> None:
    table = table_of(MemoryStore(), rows(0), rows(600), **settings)
    table.delete("id IN (1, 650, 651)")
    start = table.version
    seen = _after_delete(table, where)
    table.restore(start)
    monkeypatch.setattr(kept, "MOST_BYTES", 0)
    assert _after_delete(table, where) == seen
    assert seen[0] > 0


def _after_delete(table: DeltaTable, where: str) -> tuple[int, list[Any]]:
    found = table.delete(where).metrics["numDeletedRows"]
    return found, table.to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("settings", TABLES.values(), ids=TABLES)
def test_a_merge_writes_the_same_rows_where_it_keeps_the_keys(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    table = table_of(MemoryStore(), rows(0), rows(600), **settings)
    table.delete("id IN (1, 650, 651)")
    start = table.version
    seen = _after_merge(table)
    table.restore(start)
    monkeypatch.setattr(kept, "MOST_BYTES", 0)
    assert _after_merge(table) == seen


def _after_merge(table: DeltaTable) -> tuple[dict[str, int], list[Any]]:
    source = {"id": [0, 1, 7, 599, 650, 1100, 5000], "part": [0, 1, 1, 0, 1, 0, 1],
              "name": [f"new {n}" for n in range(7)]}
    merge = table.merge(source, "target.id = source.id").when_matched_delete("source.id = 7")
    found = merge.when_matched_update(set={"name": "source.name"}).when_not_matched_insert(
        values={"id": "source.id", "part": "source.part"}).execute().metrics
    return ({name: count for name, count in found.items() if name.startswith("numTargetRows")},
            table.to_arrow().sort_by("id").to_pylist())


def test_rows_may_be_written_over_those_of_a_condition(decoded: Counter[str]) -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2, 3], "x": ["a", "b", "c"]})
    table.overwrite({"id": [2], "x": ["new"]}, where="id = 2")
    assert decoded == {"id": 1, "x": 1}
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "x": "a"}, {"id": 2, "x": "new"}, {"id": 3, "x": "c"}]


def test_a_table_of_one_column_is_decoded_once(decoded: Counter[str]) -> None:
    table = dn.create(MemoryStore(), {"id": list(range(100))})
    table.delete("id % 2 = 0")
    assert decoded == {"id": 1}
    assert table.to_arrow()["id"].to_pylist() == list(range(1, 100, 2))


def test_columns_that_are_newer_than_a_file_stay_null(decoded: Counter[str]) -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2, 3]})
    table.add_columns("x string")
    table.delete("id = 2 AND x IS NULL")
    assert decoded == {"id": 1}
    assert table.to_arrow().to_pylist() == [{"id": 1, "x": None}, {"id": 3, "x": None}]


def test_nothing_is_kept_where_the_other_rows_stay_in_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any, size: int) -> bool:
        raise AssertionError("kept")

    monkeypatch.setattr(Room, "take", refused)
    table = dn.create(MemoryStore(), {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    table.update({"id": "7"}, "id = 3")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 7]


def test_what_found_no_room_is_decoded_again(monkeypatch: pytest.MonkeyPatch, decoded: Counter[str]) -> None:
    table = dn.create(MemoryStore(), pa.schema([("id", "int64"), ("x", "string")]))
    for start in (0, 1000):
        table.append({"id": list(range(start, start + 1000)), "x": ["x"] * 1000})
    monkeypatch.setattr(kept, "MOST_BYTES", 8 * 1000 + 500)
    table.delete("id % 2 = 0")
    assert decoded == {"id": 2 + 1, "x": 2}
    assert table.to_arrow()["id"].to_pylist() == list(range(1, 2000, 2))


def _batches(*counts: int) -> Any:
    start = 0
    for count in counts:
        yield start, pa.record_batch({"id": pa.array(range(count), pa.int64())})
        start += count


def test_room_comes_back_with_what_does_not_fit_is_given_back_or_not_wanted() -> None:
    room = Room(800)
    found = Kept(room)
    assert len(list(found.group(0, _batches(50, 60)))) == 2  # too many together
    assert room.take(800)
    room.leave(800)
    list(found.group(1, _batches(30, 20)))
    list(found.group(2, ((start + 50, batch) for start, batch in _batches(50))))
    assert not room.take(1)
    found.narrow(BitMap64([99]))
    assert room.take(400)
    assert found.given_back(1) is None
    assert [start for start, _ in found.given_back(2) or ()] == [50]
    assert room.take(400)
