"""Statistics: exact or absent, the same from rows and from footers, the same as Delta Spark's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltanb import actions
from deltanb.actions import AddFile, Metadata, Protocol, decode_path
from deltanb.engines.arrow import statistics
from deltanb.engines.arrow.bounds import truncate_max
from deltanb.schema import column_mapping
from deltanb.schema.types import PrimitiveType, from_arrow

TABLES_OF_SPARK = [
    "kernel_rs/stats-writing-all-types/delta", "kernel_rs/timestamp-truncation-stats",
    "golden/parquet-all-types", "golden/decimal-various-scale-precision",
    "golden/data-skipping-change-stats-collected-across-versions",
    "delta_rs_data/table_with_edge_timestamps",
]


def metadata_for(table: pa.Table, **configuration: str) -> Metadata:
    return Metadata("t", from_arrow(table.schema).to_json(), configuration=configuration)


def stats(table: pa.Table, **configuration: str) -> dict[str, Any]:
    metadata = metadata_for(table, **configuration)
    text = statistics.from_table(table, metadata.schema, metadata)
    return json.loads(text, parse_float=Decimal)


def adds_with_metadata(root: Path) -> Iterator[tuple[AddFile, Metadata]]:
    metadata = None
    for commit in sorted((root / "_delta_log").glob("*.json")):
        lines = [actions.from_json(line) for line in commit.read_text("utf-8").splitlines()]
        metadata = next((a for a in lines if isinstance(a, Metadata)), metadata)
        assert metadata is not None
        for action in lines:
            if isinstance(action, AddFile) and (root / decode_path(action.path)).exists():
                yield action, metadata


def canonical(tree: Any) -> Any:
    """Numbers by value (1.5 is 1.50), objects without empty members."""
    if isinstance(tree, dict):
        made = {key: canonical(value) for key, value in tree.items()}
        return {key: value for key, value in made.items() if value != {}}
    return tree


@pytest.mark.parametrize("name", TABLES_OF_SPARK)
def test_the_statistics_are_those_of_delta_spark(shared: Path, name: str) -> None:
    root = shared / "tables" / name
    compared = 0
    for add, metadata in adds_with_metadata(root):
        if add.stats is None:
            continue
        path = root / decode_path(add.path)

        def read(columns: list[str] | None, path: Path = path) -> pa.Table:
            return pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read(columns=columns)

        ours = statistics.from_footer(
            pq.read_metadata(path), metadata.schema, metadata, read=read)
        assert ours == statistics.from_table(read(None), metadata.schema, metadata)
        theirs = json.loads(add.stats, parse_float=Decimal)
        described = json.loads(ours, parse_float=Decimal)
        assert canonical(described) == canonical(theirs)
        compared += 1
    assert compared


EVERYTHING = pa.table({
    "byte": pa.array([3, None, -3], pa.int8()),
    "long": pa.array([2**62, 1, None]),
    "float": pa.array([0.1, 2.5, None], pa.float32()),
    "double": pa.array([-0.0, 0.0, None]),
    "nan": pa.array([1.0, float("nan"), 2.0]),
    "inf": pa.array([1.0, float("inf"), None]),
    "dec": pa.array([Decimal("1.50"), Decimal("-22.25"), None], pa.decimal128(38, 2)),
    "text": pa.array(["é", None, "z" * 5000]),
    "flag": pa.array([True, None, False]),
    "bytes": pa.array([b"a", None, None]),
    "day": pa.array([date(1969, 12, 31), date(2024, 2, 29), None]),
    "time": pa.array([-1, 1_700_000_000_123_999, None], pa.timestamp("us", "UTC")),
    "wall": pa.array([-62135596800000001, 5, None], pa.timestamp("us")),
    "nested": pa.array([{"x": 1, "deep": {"y": "a"}}, None, {"x": None, "deep": None}],
                       pa.struct([("x", pa.int32()), ("deep", pa.struct([("y", pa.string())]))])),
    "list": pa.array([[1], None, []], pa.list_(pa.int32())),
    "map": pa.array([[("k", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "empty": pa.nulls(3, pa.int32()),
})


def test_every_type() -> None:
    described = stats(EVERYTHING)
    assert described["numRecords"] == 3
    assert described["minValues"] == {
        "byte": -3, "long": 1, "float": Decimal("0.1"), "double": 0, "nan": 1, "inf": 1,
        "dec": Decimal("-22.25"), "text": "z" * 32, "day": "1969-12-31",
        "time": "1969-12-31T23:59:59.999Z", "nested": {"x": 1, "deep": {"y": "a"}},
    }
    assert described["maxValues"] == {
        "byte": 3, "long": 2**62, "float": Decimal("2.5"), "double": 0,
        "dec": Decimal("1.50"), "text": "é", "day": "2024-02-29",
        "time": "2023-11-14T22:13:20.123Z", "wall": "1970-01-01T00:00:00.000",
        "nested": {"x": 1, "deep": {"y": "a"}},
    }
    assert described["nullCount"] == {
        "byte": 1, "long": 1, "float": 1, "double": 1, "nan": 0, "inf": 1, "dec": 1, "text": 1,
        "flag": 1, "bytes": 2, "day": 1, "time": 1, "wall": 1,
        "nested": {"x": 2, "deep": {"y": 2}}, "list": 1, "map": 1, "empty": 3,
    }


def test_a_footer_says_the_same_as_the_rows(tmp_path: Path) -> None:
    metadata = metadata_for(EVERYTHING, **{"delta.dataSkippingNumIndexedCols": "-1"})
    path = tmp_path / "f.parquet"
    pq.write_table(EVERYTHING, path, row_group_size=2, store_schema=False)
    asked: list[list[str]] = []

    def read(columns: list[str]) -> pa.Table:
        asked.append(columns)
        return pq.read_table(path, columns=columns)

    from_rows = statistics.from_table(EVERYTHING, metadata.schema, metadata)
    footer = pq.read_metadata(path)
    assert statistics.from_footer(footer, metadata.schema, metadata, read=read) == from_rows
    assert len(asked) == 1 and "long" not in asked[0] and "dec" not in asked[0]


def test_a_footer_alone_leaves_out_what_it_cannot_know(tmp_path: Path) -> None:
    metadata = metadata_for(EVERYTHING)
    path = tmp_path / "f.parquet"
    pq.write_table(EVERYTHING, path, store_schema=False)
    described = json.loads(
        statistics.from_footer(pq.read_metadata(path), metadata.schema, metadata))
    assert "text" not in described["maxValues"] and "text" not in described["nullCount"]
    assert "nan" not in described["minValues"] and "list" not in described["nullCount"]
    assert described["minValues"]["long"] == 1 and described["nullCount"]["nested"]["x"] == 2


def test_the_maximum_is_left_out_where_a_nan_may_be_largest() -> None:
    described = stats(pa.table({"f": [1.0, float("nan"), 5.0], "all": [float("nan")] * 3}))
    assert described["minValues"] == {"f": 1} and "maxValues" not in described


def test_columns_the_file_does_not_have_are_null(tmp_path: Path) -> None:
    metadata = metadata_for(pa.table({"a": [1], "b": [1], "s": [{"x": 1, "y": 2}]}))
    part = pa.table({"a": [5, 6], "s": [{"x": 1}, {"x": 2}]})
    path = tmp_path / "f.parquet"
    pq.write_table(part, path)
    expected = {"a": 0, "b": 2, "s": {"x": 0, "y": 2}}
    for text in (statistics.from_table(part, metadata.schema, metadata),
                 statistics.from_footer(pq.read_metadata(path), metadata.schema, metadata)):
        assert json.loads(text)["nullCount"] == expected


def test_the_first_32_leaves_are_described() -> None:
    table = pa.table({"s": [{f"f{i}": i for i in range(10)}], "l": [[1]],
                      **{f"c{i}": [i] for i in range(40)}})
    described = stats(table)["nullCount"]
    assert len(described["s"]) == 10 and list(described)[-1] == "c20" and len(described) == 23
    assert list(stats(table, **{"delta.dataSkippingNumIndexedCols": "3"})["nullCount"]["s"]) == [
        "f0", "f1", "f2"]
    assert len(stats(table, **{"delta.dataSkippingNumIndexedCols": "-1"})["nullCount"]) == 42
    assert stats(table, **{"delta.dataSkippingNumIndexedCols": "0"}) == {"numRecords": 1}


def test_named_columns_are_described_instead() -> None:
    table = pa.table({"a": [1], "B": [{"x": 1, "y": 2}], "c.d": [3], "e": [4]})
    described = stats(table, **{"delta.dataSkippingStatsColumns": "b.Y, `c.d`",
                            "delta.dataSkippingNumIndexedCols": "0"})
    assert described["minValues"] == {"B": {"y": 2}, "c.d": 3}


def test_clustering_columns_are_described_wherever_they_stand() -> None:
    table = pa.table({"a": [1], "b": [2]})
    metadata = metadata_for(table, **{"delta.dataSkippingNumIndexedCols": "1"})
    text = statistics.from_table(table, metadata.schema, metadata, clustering=[["b"]])
    assert json.loads(text)["minValues"] == {"a": 1, "b": 2}


def test_partition_columns_are_not_described_and_do_not_count() -> None:
    table = pa.table({"p": [1], "a": [1], "b": [1]})
    metadata = metadata_for(table, **{"delta.dataSkippingNumIndexedCols": "1"})
    metadata = metadata.replace(partition_columns=("P",))
    text = statistics.from_table(table, metadata.schema, metadata)
    assert json.loads(text)["nullCount"] == {"a": 0}


def test_mapped_columns_are_described_by_physical_names() -> None:
    table = pa.table({"a b": [1], "s": [{"x": 1}]})
    names = iter(["col-1", "col-2", "col-3"])
    schema, _ = column_mapping.assign(from_arrow(table.schema), new_name=lambda: next(names))
    metadata = Metadata("t", schema.to_json(), configuration={"delta.columnMapping.mode": "name"})
    file = column_mapping.to_physical(table, schema, "name")
    text = statistics.from_table(file, schema, metadata, protocol=Protocol(2, 5))
    assert json.loads(text)["minValues"] == {"col-1": 1, "col-2": {"col-3": 1}}


def test_tight_bounds_are_said_where_deletion_vectors_may_come() -> None:
    table = pa.table({"a": [1]})
    metadata = metadata_for(table)
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    text = statistics.from_table(table, metadata.schema, metadata, protocol=protocol)
    assert json.loads(text)["tightBounds"] is True
    assert "tightBounds" not in stats(table)


@pytest.mark.parametrize("prefix", ["a" * 31, "a" * 32, "a" * 31 + "😀", "é" * 32, "\x7f" * 32])
@pytest.mark.parametrize("tail", ["", "b", "é", "\x7f", "\U0010ffff", "\U0010ffff" * 3 + "z", "😀" * 9])
def test_a_cut_maximum_is_never_below_the_string(prefix: str, tail: str) -> None:
    text = prefix + tail
    cut = truncate_max(text)
    assert cut is not None and cut.encode() >= text.encode()
    assert len(cut) <= 40


def test_a_maximum_that_cannot_be_cut_is_left_out() -> None:
    text = "a" * 32 + "\U0010ffff" * 40
    assert truncate_max(text) is None
    assert "maxValues" not in stats(pa.table({"t": [text]}))


def test_pieces_add_up() -> None:
    metadata = metadata_for(EVERYTHING)
    collector = statistics.collector_for(metadata.schema, metadata)
    for start in range(3):
        collector.update(EVERYTHING.slice(start, 1))
    assert collector.to_json() == statistics.from_table(EVERYTHING, metadata.schema, metadata)


def test_times_are_cut_downwards_on_both_sides_of_the_epoch() -> None:
    times = [datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc),
             datetime(2020, 1, 1, 0, 0, 0, 999999, tzinfo=timezone.utc)]
    described = stats(pa.table({"t": pa.array(times, pa.timestamp("us", "UTC"))}))
    assert described["minValues"]["t"] == "1960-01-01T00:00:00.000Z"
    assert described["maxValues"]["t"] == "2020-01-01T00:00:00.999Z"


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("values", [
    [1.5, -2.25, 7.0], [0.1], [0.0, 1.0], [-1.0, -0.0], [1.0, math.nan, 2.0], [math.nan], [1.0, math.inf],
    [-math.inf, math.inf], [1.0, None], [5e-324, 1e-40, -3e38], [1e300, -1e-300]])
def test_bounds_of_floats_are_arrows_in_whatever_pieces_they_come(
    values: list[float | None], kind: pa.DataType
) -> None:
    rows = pa.table({"f": pa.chunked_array([pa.array(values, kind), pa.array([], kind),
                                            pa.array([3.0, *values, 4.0], kind)[1:]])})
    expected = pc.min_max(pc.filter(rows["f"], pc.invert(pc.is_nan(rows["f"])))).as_py()
    state = statistics.State()
    leaf = statistics.Leaf(("f",), PrimitiveType("float" if kind == pa.float32() else "double"), True)
    statistics._measure(rows["f"], leaf, state)
    assert repr((state.low, state.high)) == repr((expected["min"], expected["max"]))
    assert state.nan is any(value != value for value in values if value is not None)
