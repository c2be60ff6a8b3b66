"""Row groups are left out by the footer's statistics, and never one that holds a wanted row."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.actions import AddFile
from deltanb.engines.arrow import read, row_groups
from deltanb.parquet.file import open_parquet
from deltanb.schema.column_mapping import ID_KEY, MODE_KEY, NAME_KEY, PARQUET_ID
from deltanb.schema.types import StructType
from deltanb.sql import predicates
from deltanb.testing import MemoryStore, TableBuilder


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch):
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def matching(schema: dict[str, Any], table: pa.Table, where: str, *, partition: dict | None = None,
             mode: str = "none", **options: Any) -> list[int]:
    """The row groups of two rows each that are read; the rows themselves must not change by it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=2, **options)
    data = sink.getvalue().to_pybytes()
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5} if mode != "none" else \
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"],
         "writerFeatures": ["timestampNtz"]}
    builder = TableBuilder(MemoryStore()).create(
        schema, partition_by=list(partition or {}), properties={MODE_KEY: mode}, protocol=protocol)
    builder.put("f", data).commit(AddFile("f", partition or {}, len(data), 1))

    snapshot = builder.log.update()
    whole = read.read_table(snapshot, snapshot.files)
    filtered = read.read_table(snapshot, snapshot.files, where=where)
    exact = predicates.filter_table(whole, predicates.parse(where, snapshot.schema))
    assert repr(filtered.to_pylist()) == repr(exact.to_pylist())  # as texts: NaN equals NaN

    scan = read.plan(snapshot, where=where)
    parquet = open_parquet(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
    constants = {name: whole[name][0] for name in partition or {}}
    return list(row_groups.matching(
        parquet, list(parquet.schema_arrow), scan.fields, scan.condition, mode=scan.mode,
        constants=constants))


def of(kind: str, stored: pa.Array, where: str, **options: Any) -> list[int]:
    schema = {"type": "struct", "fields": [field("x", kind)]}
    return matching(schema, pa.table({"x": stored}), where, **options)


UTC = dt.timezone.utc
NOONS = [dt.datetime(2020, 1, day, 12) for day in range(1, 7)]

CASES = [
    ("long", pa.array([1, 2, 3, 4, 5, 6]), "x > 4", [2]),
    ("long", pa.array([1, 2, 3, 4, 5, 6], pa.int8()), "x = 3000000000", []),
    ("long", pa.array([1, 2, 3, 4, 5, 6], pa.int32()), "x BETWEEN 2 AND 3", [0, 1]),
    ("double", pa.array([1, 2, 3, 4, 5, 6], pa.int32()), "x < 1.5", [0]),
    ("double", pa.array([1, 2, 3, 4, 5, math.nan]), "x < 1.5", [0]),
    ("double", pa.array([1.0, math.nan, 3, 4, 5, 6]), "x > 4.5", [0, 1, 2]),  # NaN is the greatest
    ("string", pa.array(list("abcdef")), "x >= 'e'", [2]),
    ("string", pa.array([b"a", b"b", b"c", b"d", b"e", b"f"]), "x LIKE 'c%'", [1]),
    ("decimal(12,4)", pa.array([Decimal(f"{n}.25") for n in range(6)], pa.decimal128(5, 2)),
     "x = 2.25", [1]),
    ("date", pa.array([noon.date() for noon in NOONS]), "x = '2020-01-05'", [2]),
    ("timestamp_ntz", pa.array([noon.date() for noon in NOONS]), "x = '2020-01-05 00:00:00'", [2]),
    ("timestamp", pa.array(NOONS, pa.timestamp("ms", "UTC")), "x < '2020-01-02T00:00:00Z'", [0]),
    ("timestamp_ntz", pa.array(NOONS, pa.timestamp("us")), "x > '2020-01-06 00:00:00'", [2]),
    ("boolean", pa.array([True, True, False, True, False, False]), "x", [0, 1]),
    ("long", pa.array([1, None, None, None, 5, 6]), "x IS NULL", [0, 1]),
    ("long", pa.array([1, None, None, None, 5, 6]), "x IS NOT NULL", [0, 2]),
    ("long", pa.array([1, 2, 3, 4, 5, 6]), "x % 2 = 0", [0, 1, 2]),
    ("long", pa.array([1, 2, 3, 4, 5, 6]), "x IN (2, 6) AND x > 0", [0, 2]),
    ("long", pa.array([1, 2, 3, 4, 5, 6]), "x = 1 OR x = 6", [0, 2]),
]


@pytest.mark.parametrize(("kind", "stored", "where", "groups"), CASES,
                         ids=[f"{k}: {w}" for k, _, w, _ in CASES])
def test_groups_that_are_read(kind, stored, where, groups):
    assert of(kind, stored, where) == groups


def test_int96_has_no_bounds():
    assert of("timestamp", pa.array(NOONS), "x < '2020-01-02T00:00:00Z'",
              use_deprecated_int96_timestamps=True) == [0, 1, 2]


def test_a_file_without_statistics():
    assert of("long", pa.array([1, 2, 3, 4]), "x > 3", write_statistics=False) == [0, 1]


def test_a_column_that_the_file_lacks_is_null():
    schema = {"type": "struct", "fields": [field("y", "long"), field("x", "long")]}
    table = pa.table({"y": [1, 2, 3, 4]})
    assert matching(schema, table, "x = 1") == []
    assert matching(schema, table, "x IS NULL AND y > 2") == [1]


def test_nested_columns_beside_arrays_and_maps():
    inner = {"type": "struct", "fields": [field("b", "long"), field("c", "string")]}
    schema = {"type": "struct", "fields": [
        field("l", {"type": "array", "elementType": "long", "containsNull": True}),
        field("m", {"type": "map", "keyType": "string", "valueType": "long",
                    "valueContainsNull": True}),
        field("a", inner)]}
    table = pa.table({
        "l": pa.array([[1], None, [2, 3], []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 9)]] * 4, pa.map_(pa.string(), pa.int64())),
        "a": [{"b": 1, "c": "x"}, {"b": 2, "c": "y"}, {"b": 3, "c": "z"}, None]})
    assert matching(schema, table, "a.b > 2") == [1]
    assert matching(schema, table, "a.c = 'x'") == [0]
    assert matching(schema, table, "a.b IS NULL") == [1]
    assert matching(schema, table, "l IS NULL") == [0, 1]  # its leaf counts elements, not rows


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(mode):
    # Of two columns that swapped names, the right one is asked.
    schema = {"type": "struct", "fields": [
        field("a", "long", **{ID_KEY: 1, NAME_KEY: "b"}),
        field("b", "long", **{ID_KEY: 2, NAME_KEY: "a"})]}
    stored = pa.schema([pa.field("a", pa.int64(), metadata={PARQUET_ID: b"2"}),
                        pa.field("b", pa.int64(), metadata={PARQUET_ID: b"1"})])
    table = pa.table({"a": [10, 10, 10, 10], "b": [1, 2, 3, 4]}, schema=stored)
    assert matching(schema, table, "a > 2", mode=mode) == [1]
    assert matching(schema, table, "b > 2", mode=mode) == [0, 1]


def test_partition_values_take_part():
    schema = {"type": "struct", "fields": [field("p", "integer"), field("x", "long")]}
    table = pa.table({"x": [1, 2, 3, 4]})
    assert matching(schema, table, "p = 7 AND x > 2", partition={"p": "7"}) == [1]
    assert matching(schema, table, "p = 8 OR x > 2", partition={"p": "7"}) == [1]
    assert matching(schema, table, "p = 7 OR x > 2", partition={"p": "7"}) == [0, 1]


def test_small_files_are_read_without_asking(monkeypatch):
    monkeypatch.setattr(row_groups, "MIN_ROWS", 5)
    assert of("long", pa.array([1, 2, 3, 4]), "x > 3") == [0, 1]


def test_conditions_without_statistics_keep_everything():
    schema = StructType.from_json('{"type":"struct","fields":[{"name":"x","type":"long",'
                                  '"nullable":true,"metadata":{}}]}')
    condition = row_groups.Condition(predicates.parse("1 = 1", schema), frozenset())
    assert condition.stats == []
