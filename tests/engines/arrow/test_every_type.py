"""Values of every type through the whole house: written, read, changed, in partitions, nested, by others."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import DeltaError, SchemaMismatch, UnsupportedProtocol
from deltanb.schema.column_mapping import in_files
from deltanb.schema.types import TYPES, PrimitiveType, StructField, StructType, arrow_type
from deltanb.testing import MemoryStore

UTC = dt.timezone.utc
MONTHS = pa.MonthDayNano
DAY = dt.datetime(2024, 2, 29, 1, 2, 3, 4)
VALUES: dict[str, tuple[Any, Any]] = {
    "byte": (1, -2), "short": (1, -2), "integer": (1, -2), "long": (1, -2), "float": (0.5, -1.0),
    "double": (0.5, -1.0), "string": ("a", "b"), "binary": (b"a", b"b"), "boolean": (True, False),
    "date": (DAY.date(), dt.date(1969, 1, 1)),
    "timestamp": (DAY.replace(tzinfo=UTC), dt.datetime(1969, 1, 1, tzinfo=UTC)),
    "timestamp_ntz": (DAY, dt.datetime(1969, 1, 1)),
    "timestamp_nanos": (1_700_000_000_123_456_789, -1),
    "timestamp_nanos_ntz": (1_700_000_000_123_456_789, -1),
    "interval day to second": (dt.timedelta(days=1, microseconds=5), dt.timedelta(microseconds=-1)),
    "interval year to month": (MONTHS([18, 0, 0]), MONTHS([-1, 0, 0])),
    "variant": ({"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"},
                {"metadata": b"\x01\x00\x00", "value": b"\x00"}),
    "void": (None, None), "null": (None, None),
}
"""Two values of each type, as pyarrow takes them."""
WRITTEN = [name for name in TYPES if name not in ("void", "null")]
INTERVALS = [name for name in TYPES if name.startswith("interval")]
NANOS = ["timestamp_nanos", "timestamp_nanos_ntz"]


def test_no_type_is_left_out() -> None:
    assert VALUES.keys() == TYPES.keys()


def array(name: str, *values: Any) -> pa.Array:
    return pa.array(values, arrow_type(PrimitiveType(name)))


def three(name: str) -> pa.Table:
    """One value, the other, NULL."""
    one, other = VALUES[name]
    return pa.table({"id": [1, 2, 3], "x": array(name, one, other, None)})


def table_of(name: str, path: Any = None, kind: str = "{}", **settings: Any) -> dn.DeltaTable:
    columns = f"id long, x {kind.format(TYPES[name].sql[0])}"
    return dn.create(MemoryStore() if path is None else path, columns, **settings)


def column(table: dn.DeltaTable, name: str = "x") -> pa.Array:
    return table.to_arrow().sort_by("id").column(name).combine_chunks()


@pytest.mark.parametrize("name", WRITTEN)
def test_values_come_back_from_files_through_every_change(name: str, tmp_path: Path) -> None:
    rows = three(name)
    table = table_of(name, tmp_path / "t", properties={"delta.enableChangeDataFeed": True})
    table.append(rows)
    assert column(table).equals(rows["x"].combine_chunks()) and table.schema.field("x").type.name == name
    table.update({"id": "id + 10"}, where="id = 1")
    table.delete("id = 2")
    values = column(table)
    assert values.equals(array(name, None, VALUES[name][0]))
    assert table.to_arrow(where="x IS NULL")["id"].to_pylist() == [3]
    assert table.to_arrow(where="x IS NOT NULL")["id"].to_pylist() == [11]
    table.optimize()
    table.log.checkpoint()
    again = dn.open(tmp_path / "t")
    assert column(again).equals(values)
    changes = again.changes(2).to_arrow()
    assert changes["x"].type == rows["x"].type and changes.num_rows == 3
    assert column(again.clone(tmp_path / "copy")).equals(values)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("name", WRITTEN)
def test_values_come_back_from_within_others(name: str, mode: str) -> None:
    one, other = VALUES[name]
    kind = arrow_type(PrimitiveType(name))
    rows = pa.table({
        "id": [1, 2], "l": pa.array([[one, None], None], pa.list_(kind)),
        "s": pa.array([{"a": other}, None], pa.struct([("a", kind)])),
        "m": pa.array([[("k", one)], [("k", None)]], pa.map_(pa.string(), kind))})
    sql = TYPES[name].sql[0]
    table = dn.create(MemoryStore(), f"id long, l array<{sql}>, s struct<a: {sql}>, m map<string, {sql}>",
                      properties={"delta.columnMapping.mode": mode})
    table.append(rows)
    data = table.to_arrow()
    for place in ("l", "s", "m"):
        assert data[place].equals(rows[place].cast(data[place].type))


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "variant"])
@pytest.mark.parametrize("typed", [False, True])
def test_values_come_back_from_partitions(name: str, typed: bool, tmp_path: Path) -> None:
    rows = three(name)
    table = table_of(name, tmp_path / "t", partition_by=["x"],
                     properties={"delta.checkpoint.writeStatsAsStruct": typed})
    table.append(rows)
    assert column(table).equals(rows["x"].combine_chunks())
    table.log.checkpoint()
    again = dn.open(tmp_path / "t")
    assert column(again).equals(rows["x"].combine_chunks())
    assert again.to_arrow(where="x IS NULL")["id"].to_pylist() == [3]
    again.update({"id": "id + 10"}, where="x IS NOT NULL")
    assert sorted(again.to_arrow()["id"].to_pylist()) == [3, 11, 12]


@pytest.mark.parametrize("name", WRITTEN)
def test_statistics_have_the_bounds_that_the_type_says(name: str) -> None:
    table = table_of(name)
    table.append(three(name))
    (file,) = table.start_transaction().filter_files()
    statistics = json.loads(file.stats)
    has_bounds = "x" in statistics["minValues"]
    assert has_bounds == (TYPES[name].bounds and name != "boolean")  # whose bounds Delta does not write
    assert statistics["nullCount"]["x"] == 1 or name == "variant"


# --- intervals --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", INTERVALS)
def test_files_hold_plain_numbers(name: str, tmp_path: Path) -> None:
    table_of(name, tmp_path / "t").append(three(name))
    (file,) = (tmp_path / "t").glob("*.parquet")
    stored = pq.ParquetFile(file).schema.column(1)
    assert (stored.physical_type, stored.logical_type.type) == (
        {"integer": "INT32", "long": "INT64"}[TYPES[name].in_files], "NONE")
    schema = StructType([StructField("x", PrimitiveType(name))])
    assert str(in_files(schema)) == f"struct<x: {TYPES[name].in_files}>"


@pytest.mark.parametrize(("name", "text"), [
    ("interval day to second", "INTERVAL '1 00:00:00.000005' DAY TO SECOND"),
    ("interval year to month", "INTERVAL '1-6' YEAR TO MONTH")])
def test_partitions_are_named_by_literals(name: str, text: str) -> None:
    table = table_of(name, partition_by=["x"])
    table.append(three(name).slice(0, 1))
    (file,) = table.start_transaction().filter_files()
    assert file.partition_values == {"x": text}


@pytest.mark.parametrize("name", INTERVALS)
def test_no_file_is_left_out_by_an_interval(name: str) -> None:
    table = table_of(name, partition_by=["x"])
    table.append(three(name))
    with pytest.raises(DeltaError, match="cannot be compared"):
        table.to_arrow(where="x > x")
    with pytest.raises(DeltaError, match="statistics keep no minimum"):
        table_of(name).cluster_by(["x"])


@pytest.mark.parametrize(("values", "name"), [
    (pa.array([MONTHS([1, 2, 0])]), "interval year to month"),
    (pa.array([None, MONTHS([0, 0, 5])]), "interval year to month"),
    (pa.array([MONTHS([1, 0, 0])]), "interval day to second"),
    (pa.array([MONTHS([0, 0, 1])]), "interval day to second"),
    (pa.array([MONTHS([0, 2**31 - 1, 0])]), "interval day to second"),
    (pa.array([2**62], pa.duration("s")), "interval day to second"),
    (pa.array([1], pa.duration("ns")), "interval day to second"),
    (pa.array([1]), "interval day to second"), (pa.array([1]), "interval year to month"),
    (pa.array([dt.timedelta(1)]), "interval year to month"), (pa.array([dt.timedelta(1)]), "long"),
])
def test_what_does_not_fit_is_refused(values: pa.Array, name: str) -> None:
    table = table_of(name)
    with pytest.raises(SchemaMismatch, match="x"):
        table.append(pa.table({"x": values}))
    assert table.version == 0


def test_intervals_of_others_fit_where_they_mean_the_same() -> None:
    table = table_of("interval day to second")
    intervals = [pa.array([2], pa.duration("s")), pa.array([7000], pa.duration("ns")),
             pa.array([MONTHS([0, -1, 3000]), None])]
    for values in intervals:
        table.append(pa.table({"x": values}))
    assert set(table.to_arrow()["x"].to_pylist()) == {
        dt.timedelta(seconds=2), dt.timedelta(microseconds=7), dt.timedelta(days=-1, microseconds=3), None}


@pytest.mark.parametrize("name", INTERVALS)
def test_a_table_of_arrow_rows_has_the_interval(name: str) -> None:
    made = dn.create(MemoryStore(), three(name))
    assert str(made.schema.field("x").type) == name


@pytest.mark.parametrize("name", INTERVALS)
def test_a_broken_partition_value_is_named(name: str) -> None:
    table = table_of(name, partition_by=["x"])
    table.start_transaction().commit(
        [AddFile("f.parquet", {"x": "INTERVAL '1' WEEK"}, 1, 1, True, stats='{"numRecords":1}')], "WRITE")
    with pytest.raises(DeltaError, match="INTERVAL '1' WEEK"):
        table.to_arrow(where="x IS NULL")


def test_polars_pandas_and_duckdb_have_intervals() -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    columns = ", ".join(f"x{place} {name}" for place, name in enumerate(INTERVALS))
    table = dn.create(MemoryStore(), columns)
    values = [VALUES[name][0] for name in INTERVALS]
    table.append(pa.table({f"x{place}": array(name, value) for place, (name, value) in enumerate(
        zip(INTERVALS, values, strict=True))}))
    frame = table.to_polars().collect()
    assert frame.schema == {"x0": polars.Duration("us"), "x1": polars.Int32}
    assert frame.row(0) == (values[0], 18)
    assert table.to_polars().select("x1").collect().to_series().to_list() == [18]
    assert table.to_pandas()["x0"][0] == values[0] and table.to_pandas()["x1"][0].months == 18
    rows_fetched = table.to_duckdb().project("CAST(x0 AS VARCHAR), CAST(x1 AS VARCHAR)").fetchall()
    assert rows_fetched[0] == ("24:00:00.000005", "1 year 6 months")
    with pytest.raises(UnsupportedProtocol, match="interval"):
        table.to_dataset()


# --- times in nanoseconds ---------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "text"), [
    ("timestamp_nanos", "2023-11-14T22:13:20.123456789Z"),
    ("timestamp_nanos_ntz", "2023-11-14 22:13:20.123456789")])
def test_nanoseconds_are_in_files_and_in_partitions(name: str, text: str, tmp_path: Path) -> None:
    table = table_of(name, tmp_path / "t")
    table.append(three(name))
    assert {"timestampNanos", "timestampNtz"} <= set(table.protocol.reader_features or ())
    (file,) = (tmp_path / "t").glob("*.parquet")
    kind = pq.read_schema(file).field("x").type
    assert kind.unit == "ns" and (kind.tz is not None) == (name == "timestamp_nanos")
    parted = table_of(name, partition_by=["x"])
    parted.append(three(name).slice(0, 1))
    (named,) = parted.start_transaction().filter_files()
    assert named.partition_values == {"x": text}


@pytest.mark.parametrize("name", NANOS)
def test_conditions_on_nanoseconds_are_exact(name: str) -> None:
    table = table_of(name)
    zone = "Z" if name == "timestamp_nanos" else ""
    table.append(pa.table({"id": [1, 2, 3], "x": array(name, 999, 1000, 1_001_001)}))
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    for condition, ids in ((f"x > {kind}'1970-01-01 00:00:00.000001{zone}'", [3]),
                           (f"x < {kind}'1970-01-01 00:00:00.000001{zone}'", [1]),
                           (f"x = '1970-01-01 00:00:00.000001{zone}'", [2])):
        assert sorted(table.to_arrow(where=condition)["id"].to_pylist()) == ids, condition


# --- geometries -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["geometry", "geography", "geometry(EPSG:4326)", "geometry(SRID:0)",
                                  "geography(OGC:CRS84, spherical)"])
@pytest.mark.parametrize("nested", [False, True])
def test_geometries_are_read_as_well_known_binary(kind: str, nested: bool, tmp_path: Path) -> None:
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    values = [[point, None], None] if nested else [point, None]
    rows = pa.table({"id": [1, 2], "g": pa.array(values, pa.list_(pa.binary()) if nested else pa.binary())})
    dn.create(tmp_path / "t", rows)
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    text = commit.read_text().replace('\\"binary\\"', f'\\"{kind}\\"').replace(
        '"minReaderVersion":1,"minWriterVersion":2', '"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["geospatial"],"writerFeatures":["geospatial"]')
    commit.write_text(text.replace('\\"minValues\\":{', '\\"minValues\\":{\\"g\\":\\"POINT(1 2)\\",'))
    for checksum in (tmp_path / "t" / "_delta_log").glob("*.crc"):
        checksum.unlink()
    table = dn.open(tmp_path / "t")
    assert kind in str(table.schema)
    assert table.to_arrow().sort_by("id")["g"].to_pylist() == values
    assert table.to_arrow(where="g IS NULL")["id"].to_pylist() == [2]
    table.log.checkpoint()
    assert dn.open(tmp_path / "t").to_arrow().num_rows == 2
    with pytest.raises(UnsupportedProtocol, match="geospatial .*well-known binary"):
        table.append(rows)
    table.set_properties({"delta.appendOnly": True})
    assert table.version == 1
