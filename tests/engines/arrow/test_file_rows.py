"""How much of a file a scan decodes: counted in batches and columns, not in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.concurrency import parallel
from deltanb.engines.arrow import data_file, read, row_groups, touched
from deltanb.errors import InvalidTable
from deltanb.parquet.file import SafeFile
from deltanb.schema import ddl
from deltanb.sql import predicates
from deltanb.testing import MemoryStore, TableBuilder
from tests.helpers import ids

GROUP, GROUPS, BATCH = 40, 5, 10
SCHEMA = ddl.parse_schema("key bigint, name string, tags array<bigint>, more double")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(column, row group) for each batch of it that is decoded."""
    groups: list[tuple[str, int]] = []
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, size: int, row_groups: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        for batch in real(self, size, row_groups=row_groups, columns=columns):
            groups.extend((column, row_groups[0]) for column in columns)
            yield batch

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    return groups


def table() -> pa.Table:
    """Keys that no statistics tell apart: every row group has both ends of them."""
    rows = GROUP * GROUPS
    keys = [-1 if n % GROUP == 0 else 1000 if n % GROUP == 1 else n for n in range(rows)]
    return pa.table({"key": keys, "name": [f"name {n}" for n in range(rows)],
                     "tags": [[n, n + 1] for n in range(rows)]})


def one_file(**options: Any) -> TableBuilder:
    sink = pa.BufferOutputStream()
    pq.write_table(table(), sink, row_group_size=GROUP)
    data = sink.getvalue().to_pybytes()
    builder = TableBuilder(MemoryStore()).create(json.loads(SCHEMA.to_json()))
    return builder.put("f", data).commit(AddFile("f", {}, len(data), 1, **options))


def scanned(builder: TableBuilder, where: str, columns: list[str] | None = None, **options: Any
            ) -> list[dict[str, Any]]:
    snapshot = builder.log.update()
    scan = read.plan(snapshot, columns, where)
    (row,) = snapshot.files.to_pylist()
    return [one for batch in data_file.read_data_file(scan, row, batch_rows=BATCH, **options)
            for one in batch.to_pylist()]


def count(decoded: list[tuple[str, int]], column: str) -> int:
    return sum(name == column for name, _ in decoded)


def test_other_columns_are_decoded_where_a_row_matches_and_no_further(decoded: Any) -> None:
    rows = scanned(one_file(), "key = 53")  # in the second batch of the second row group
    assert rows == [{"key": 53, "name": "name 53", "tags": [53, 54], "more": None}]
    assert count(decoded, "key") == GROUPS * GROUP // BATCH
    assert [entry for entry in decoded if entry[0] == "name"] == [("name", 1)] * 2
    assert count(decoded, "tags") == 2


def test_nothing_else_is_decoded_where_no_row_matches(decoded: Any) -> None:
    assert scanned(one_file(), "key = 40") == []
    assert {name for name, _ in decoded} == {"key"}


def test_only_the_columns_asked_for_are_decoded(decoded: Any) -> None:
    assert scanned(one_file(), "key = 41 OR key = 42", ["name"]) == [{"name": "name 42"}]
    assert {name for name, _ in decoded} == {"key", "name"}


@pytest.mark.parametrize("where", [
    "key > 100", "key < 0", "key % 7 = 3", "key IS NULL", "key + length(name) > 150", "name LIKE '%9'",
    "more IS NULL AND key % 2 = 0", "more > 1", "key = key", "size(tags) = 2 AND key = 77"])
@pytest.mark.parametrize("columns", [None, ["tags"], ["more", "key"], ["name", "key"]])
def test_the_rows_are_those_of_a_filter_afterwards(where: str, columns: list[str] | None) -> None:
    builder = one_file()
    snapshot = builder.log.update()
    whole = read.read_table(snapshot, snapshot.files)
    matching = predicates.filter_table(whole, predicates.parse(where, snapshot.schema))
    assert scanned(builder, where, columns) == matching.select(columns or whole.schema.names).to_pylist()


def test_positions_are_those_in_the_file_whatever_was_left_out() -> None:
    rows = scanned(one_file(), "key % 50 = 3", positions=True)
    assert [(row["key"], row[read.ROW_POSITION]) for row in rows] == [(n, n) for n in (3, 53, 103, 153)]


def test_deleted_rows_stay_away_and_rows_keep_their_ids() -> None:
    rows = GROUP * GROUPS
    table = dn.create(MemoryStore(), {"key": list(range(rows)), "name": [f"n{n}" for n in range(rows)]},
                      properties={"delta.enableDeletionVectors": True, "delta.enableRowTracking": True})
    table.delete("key % 3 = 0")
    assert ids(table, "key < 10", "key") == [1, 2, 4, 5, 7, 8]
    scan = read.plan(table.snapshot, ["name"], "key % 5 = 1", row_ids=True)
    (row,) = table.snapshot.files.to_pylist()
    rows_read = [one for batch in data_file.read_data_file(scan, row) for one in batch.to_pylist()]
    assert [one["name"] for one in rows_read] == [f"n{n}" for n in range(rows) if n % 3 and n % 5 == 1]
    assert [list(one.values())[1] for one in rows_read] == [n for n in range(rows) if n % 3 and n % 5 == 1]


def test_batches_of_the_other_columns_may_be_cut_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow cuts a batch short where texts fill two gigabytes."""
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, size: int, row_groups: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        return real(self, 7 if "name" in columns else size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    builder = one_file()
    for where, expected in [("key % 4 = 2", range(2, GROUP * GROUPS, 4)), ("key >= -1", None)]:
        rows = scanned(builder, where, positions=True)
        places = list(range(GROUP * GROUPS) if expected is None else expected)
        assert [row["name"] for row in rows] == [f"name {n}" for n in places]
        assert [row[read.ROW_POSITION] for row in rows] == places


def test_columns_of_different_lengths_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, size: int, row_groups: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        batches = real(self, size, row_groups=row_groups, columns=columns)
        return iter(list(batches)[:1]) if "name" in columns else batches

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    with pytest.raises(InvalidTable, match="'f'"):
        scanned(one_file(), "key = 53")


def test_a_limit_ends_the_decoding(decoded: Any) -> None:
    snapshot = one_file().log.update()
    assert read.read_table(snapshot, snapshot.files, ["name"], limit=3).num_rows == 3
    assert set(decoded) == {("name", 0)}


@pytest.mark.parametrize("readers", [2, 3, 8])
def test_the_row_groups_of_one_file_are_read_by_several_threads(
    readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        threads.add(threading.current_thread().name)
        return real(self, *args, **options)

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    monkeypatch.setattr(read, "SMALL_SCAN_BYTES", 0)
    monkeypatch.setattr(parallel, "threads", lambda *_: readers)
    snapshot = one_file().log.update()
    names = read.read_table(snapshot, snapshot.files, ["name"])
    assert names["name"].to_pylist() == table()["name"].to_pylist()
    assert threads and all(name.startswith("deltanb-read") for name in threads)
    parts = [data_file.read_data_file(read.plan(snapshot), snapshot.files.to_pylist()[0], part=(n, readers))
             for n in range(readers)]
    assert sum(batch.num_rows for part in parts for batch in part) == GROUP * GROUPS


@pytest.mark.parametrize("command", ["update", "delete"])
def test_who_writes_rows_again_has_them_read_by_another_thread(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        threads.append(threading.current_thread().name)
        return real(self, *args, **options)

    table = dn.create(MemoryStore(), {"key": list(range(100)), "name": [f"n{n}" for n in range(100)]})
    table.append({"key": list(range(100, 200)), "name": ["more"] * 100})
    monkeypatch.setattr(touched, "AHEAD_BYTES", 0)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    if command == "update":
        table.update({"name": "upper(name)"}, "key % 2 = 0")
        assert [row["name"] for row in table.to_arrow().sort_by("key").to_pylist()] == [
            name.upper() if n % 2 == 0 else name
            for n, name in enumerate([*(f"n{n}" for n in range(100)), *["more"] * 100])]
    else:
        table.delete("key % 2 = 0")
        assert ids(table, column="key") == list(range(1, 200, 2))
    assert sum(name.startswith("deltanb-read") for name in threads) >= 2
