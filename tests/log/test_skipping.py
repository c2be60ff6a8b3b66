"""File skipping: what is read of statistics, what is dropped, and that nothing is dropped wrongly."""

from __future__ import annotations

import datetime as dt
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltanb
from deltanb.errors import InvalidTable
from deltanb.log.checkpoint import rows as checkpoint_rows
from deltanb.log.checkpoint import write as checkpoint_write
from deltanb.log.skipping import prune as skipping
from deltanb.log.skipping.stats import NUM_RECORDS, Stat, leaves_of, parse_stats, typed_stats
from deltanb.log.snapshot import Snapshot
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql import predicates
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from tests.examples import many

UTC = dt.timezone.utc
NAN = float("nan")
LAST = "\U0010ffff"
TYPES = {"i": "integer", "l": "long", "d": "double", "f": "float", "dec": "decimal(20,4)",
         "s": "string", "b": "boolean", "day": "date", "ts": "timestamp", "tn": "timestamp_ntz"}
NESTED = StructType([StructField("x", PrimitiveType("integer")),
                     StructField("y.z", PrimitiveType("string"))])
SCHEMA = StructType([*(StructField(n, PrimitiveType(k)) for n, k in TYPES.items()),
                     StructField("n", NESTED)])


def stats_of(
    rows: Sequence[Mapping[str, Any]], *, nan: str = "last", wide: bool = False
) -> dict[str, Any]:
    """Statistics of rows as Delta writes them; ``nan`` is what a writer does with NaN."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name in TYPES:
        values = [row[name] for row in rows if row.get(name) is not None]
        nulls[name] = len(rows) - len(values)
        ordered = sorted(values, key=lambda v: (v != v, 0 if v != v else v))
        if nan == "left out":
            ordered = [v for v in ordered if v == v]
        if ordered and name != "b":
            least[name] = as_json(ordered[0], least=True)
            greatest[name] = as_json(ordered[-1], least=False)
    xs = [row["n"]["x"] for row in rows if row.get("n") and row["n"]["x"] is not None]
    nulls["n"] = {"x": len(rows) - len(xs)}
    if xs:
        least["n"], greatest["n"] = {"x": min(xs)}, {"x": max(xs)}
    stats: dict[str, Any] = {"numRecords": len(rows), "minValues": least, "maxValues": greatest,
                             "nullCount": nulls}
    if wide:
        stats["tightBounds"] = False
    return stats


def as_json(value: Any, *, least: bool) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return Number(str(value))
    if isinstance(value, str):
        cut = value[:32]
        return cut if least or len(value) <= 32 else cut + LAST
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text + "Z" if value.tzinfo else text
    return value.isoformat() if isinstance(value, dt.date) else value


class Number(float):
    """A decimal that json writes digit by digit."""

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def to_json(stats: Mapping[str, Any]) -> str:
    def written(value: Any) -> str:
        if isinstance(value, Number):
            return value.text
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
        return json.dumps(value, ensure_ascii=False)

    return written(stats)


def table_of(*files: Mapping[str, Any], partition_by: Sequence[str] = (),
             schema: StructType = SCHEMA) -> Snapshot:
    """A table whose files are ``{"stats": …, "partition_values": …}``, named by number."""
    builder = TableBuilder(MemoryStore()).create(schema.to_dict(), partition_by=partition_by)
    lines = []
    for i, file in enumerate(files):
        more = {} if file.get("stats") is None else {"stats": file["stats"] if isinstance(
            file["stats"], str) else to_json(file["stats"])}
        lines.append(add(str(i), file.get("partition_values"), **more, **file.get("more", {})))
    if lines:
        builder.commit(*lines)
    return builder.log.update()


def opened_files(snapshot: Snapshot, *sql: str) -> list[int]:
    return [int(path) for path in snapshot.files_for_scan(*sql)["path"].to_pylist()]


def bounds(**ranges: tuple[Any, Any]) -> dict[str, Any]:
    """A file of ten rows, no NULL in the columns named."""
    return {"stats": {
        "numRecords": 10, "minValues": {k: v[0] for k, v in ranges.items()},
        "maxValues": {k: v[1] for k, v in ranges.items()}, "nullCount": dict.fromkeys(ranges, 0)}}


# ---------------------------------------------------------------------------- what is dropped

NUMBERS = [bounds(i=(0, 9)), bounds(i=(10, 19)), bounds(i=(20, 29)), {"stats": None},
           {"stats": {"numRecords": 10, "nullCount": {"i": 10}}}]


@pytest.mark.parametrize(("sql", "files"), [
    ("i = 10", [1, 3]), ("i = 9.5", [3]), ("i < 10", [0, 3]), ("i <= 10", [0, 1, 3]),
    ("i > 19", [2, 3]), ("i >= 19", [1, 2, 3]), ("10 > i", [0, 3]), ("i <> 5", [0, 1, 2, 3]),
    ("NOT i > 9", [0, 3]), ("i IN (5, 25)", [0, 2, 3]), ("i IN (9.5, NULL)", [3]),
    ("i NOT IN (5, NULL)", []), ("i BETWEEN 9 AND 10", [0, 1, 3]),
    ("i NOT BETWEEN 0 AND 19", [2, 3]), ("i = 5 OR i = 15", [0, 1, 3]),
    ("i > 5 AND i < 3", [0, 3]), ("i <=> 15", [1, 3]), ("i <=> NULL", [3, 4]),
    ("NOT i <=> 15", [0, 1, 2, 3, 4]), ("i IS NULL", [3, 4]), ("i IS NOT NULL", [0, 1, 2, 3]),
    ("(i > 15) IS TRUE", [1, 2, 3]), ("(i > 15) IS NOT TRUE", [0, 1, 3, 4]),
    ("(i > 15) IS NULL", [3, 4]), ("i = NULL", []), ("i > l", [0, 1, 2, 3]),
    ("abs(i) = 5", [0, 1, 2, 3]), ("coalesce(i, 0) = 5", [0, 1, 2, 3, 4]),
    ("cast(i as double) > 19.5", [2, 3]), ("FALSE", []), ("1 = 1", [0, 1, 2, 3, 4]),
    ("i = 10 AND hash_like = 1", None),
    (f"i IN ({', '.join(map(str, range(12, 100)))})", [1, 2, 3]),
    (f"i NOT IN ({', '.join(map(str, range(12, 100)))})", [0, 1, 2, 3]),
])
def test_files_outside_the_bounds_are_dropped(sql: str, files: list[int] | None) -> None:
    snapshot = table_of(*NUMBERS)
    if files is None:
        with pytest.raises(ValueError, match="hash_like"):
            opened_files(snapshot, sql)
    else:
        assert opened_files(snapshot, sql) == files


def test_predicates_are_joined_by_and_and_none_keeps_all() -> None:
    snapshot = table_of(*NUMBERS)
    assert opened_files(snapshot, "i > 5", "i < 15") == [0, 1, 3]
    assert opened_files(snapshot) == [0, 1, 2, 3, 4]
    assert opened_files(table_of(), "i = 1") == []


def test_not_equal_drops_a_file_of_one_value() -> None:
    assert opened_files(table_of(bounds(i=(5, 5)), bounds(i=(5, 6))), "i <> 5") == [1]
    assert opened_files(table_of(bounds(i=(5, 5)), bounds(i=(5, 6))), "i NOT IN (5, 7)") == [1]


@pytest.mark.parametrize(("sql", "files"), [
    ("s = 'apple'", [0]), ("s > 'b'", [1, 2]), ("s LIKE 'app%'", [0]), ("startswith(s, 'c')", [1]),
    ("s LIKE 'b%'", [1]), ("NOT s LIKE 'x%'", [0, 1]), ("s LIKE '%z'", [0, 1, 2]),
    ("s = 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxyz'", [2]), ("upper(s) = 'A'", [0, 1, 2]),
    ("s IN ('a', 'd')", [1]), ("s = ''", []), ("s > 'y'", []),
])
def test_texts(sql: str, files: list[int]) -> None:
    snapshot = table_of(bounds(s=("aa", "az")), bounds(s=("b", "d")),
                        bounds(s=("x" * 32, "x" * 32)))
    assert opened_files(snapshot, sql) == files


@pytest.mark.parametrize("cut", ["p" * 32, "p" * 32 + LAST, "p" * 32 + "\uffff"])
def test_a_cut_maximum_bounds_what_it_was_cut_from(cut: str) -> None:
    snapshot = table_of(bounds(s=("p" * 32, cut)))
    for value in ("p" * 40, "p" * 32 + "\U0001f600", "p" * 32 + LAST * 9):
        assert opened_files(snapshot, f"s = '{value}'") == [0]
        assert opened_files(snapshot, f"s >= '{value}'") == [0]
    assert opened_files(snapshot, f"s = '{'p' * 31}q'") == []


def test_maximum_of_a_timestamp_is_truncated_to_milliseconds() -> None:
    at = "2020-01-01T00:00:00.123"
    snapshot = table_of(bounds(ts=(f"{at}Z", f"{at}Z"), tn=(at, at)))
    for column in ("ts", "tn"):
        assert opened_files(snapshot, f"{column} = '2020-01-01 00:00:00.123999'") == [0]
        assert opened_files(snapshot, f"{column} > '2020-01-01 00:00:00.123998'") == [0]
        assert opened_files(snapshot, f"{column} >= '2020-01-01 00:00:00.124'") == []
        assert opened_files(snapshot, f"{column} < '2020-01-01 00:00:00.123'") == []


def test_timestamps_in_every_written_form() -> None:
    snapshot = table_of(
        bounds(ts=("2020-01-01T00:00:00.000-08:00", "2020-01-01T00:00:00.000-08:00")),
        bounds(ts=("2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.000001Z")),
        bounds(ts=("2020-01-01 00:00:00", "2020-01-01 00:00:00")),  # whose zone nobody knows
    )
    assert opened_files(snapshot, "ts >= '2020-01-01 08:00:00'") == [0, 2]
    assert opened_files(snapshot, "date(ts) < '2020-01-01'") == [2]
    assert opened_files(snapshot, "year(ts) = 2021") == [2]
    assert opened_files(snapshot, "date_trunc('hour', ts) = '2020-01-01 08:00:00'") == [0, 2]
    assert opened_files(snapshot, "ts IN (timestamp'2020-01-01 00:00:00.0005')") == [1, 2]


def test_nan_hides_above_every_maximum() -> None:
    snapshot = table_of(bounds(d=(1.0, 2.0), f=(1.0, 2.0)),
                        bounds(d=("NaN", "NaN"), f=(1.0, "Infinity")))
    assert opened_files(snapshot, "d > 5") == opened_files(snapshot, "d = 'NaN'") == [0, 1]
    assert opened_files(snapshot, "d > 5 AND d < 10") == [1]
    assert opened_files(snapshot, "d BETWEEN 5 AND 10") == opened_files(snapshot, "d = 5") == [1]
    assert opened_files(snapshot, "d IN (5, 6)") == [1]
    assert opened_files(snapshot, "d < 1") == [1]
    assert opened_files(snapshot, "f = 100") == [1]


def test_decimals_are_compared_digit_by_digit() -> None:
    low, high = Number("1234567890123456.7891"), Number("1234567890123456.7893")
    snapshot = table_of(bounds(dec=(low, high)))
    assert opened_files(snapshot, "dec = 1234567890123456.7893") == [0]
    assert opened_files(snapshot, "dec > 1234567890123456.7893") == []
    assert opened_files(snapshot, "dec < 1234567890123456.7891") == []


def test_dates_booleans_and_nested_fields() -> None:
    nested = {"stats": {"numRecords": 2, "minValues": {"n": {"x": 1}, "day": "2020-01-01"},
                        "maxValues": {"n": {"x": 3}, "day": "2020-01-31"},
                        "nullCount": {"n": {"x": 0, "y.z": 2}, "day": 0, "b": 2}}}
    snapshot = table_of(nested, {})
    assert opened_files(snapshot, "n.x = 2") == [0, 1]
    assert opened_files(snapshot, "N.X > 3") == [1]
    assert opened_files(snapshot, "n.`y.z` = 'a'") == [1]
    assert opened_files(snapshot, "n.`y.z` IS NOT NULL") == [1]
    assert opened_files(snapshot, "n IS NULL") == [0, 1]
    assert opened_files(snapshot, "day = '2020-02-01'") == [1]
    assert opened_files(snapshot, "day > timestamp'2020-01-30 12:00:00'") == [0, 1]
    assert opened_files(snapshot, "month(day) = 5") == [0, 1]
    assert opened_files(snapshot, "b") == opened_files(snapshot, "NOT b") == [1]


def test_bounds_of_a_file_with_deletion_vector_hold_but_its_null_count_may_not() -> None:
    vector = {"deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "offset": 1,
                                 "sizeInBytes": 1, "cardinality": 5}}
    file = {"stats": {"numRecords": 10, "minValues": {"i": 1}, "maxValues": {"i": 9},
                      "nullCount": {"i": 5}, "tightBounds": False}, "more": vector}
    all_null = {"stats": {"numRecords": 10, "nullCount": {"i": 10}, "tightBounds": False}}
    no_null = {"stats": {"numRecords": 10, "nullCount": {"i": 0}, "tightBounds": False}}
    snapshot = table_of(file, all_null, no_null)
    assert opened_files(snapshot, "i > 9") == [2]
    assert opened_files(snapshot, "i IS NULL") == [0, 1]
    assert opened_files(snapshot, "i IS NOT NULL") == [0, 2]


@pytest.mark.parametrize("text", [
    "", "{}", "null", "[]", "{", "{\"minValues\":5}", "{\"minValues\":{\"i\":\"x\"}}",
    "{\"minValues\":{\"i\":1.5},\"maxValues\":{\"i\":true}}", "{\"maxValues\":{\"i\":99999999999}}",
    "{\"numRecords\":-1,\"nullCount\":{\"i\":-1}}", "{\n\"numRecords\":\n3}", "{} {}",
])
def test_damaged_statistics_keep_the_file_and_spare_the_others(text: str) -> None:
    snapshot = table_of(bounds(i=(1, 2)), {"stats": text}, bounds(i=(5, 6)))
    assert opened_files(snapshot, "i = 5") == [1, 2]
    assert opened_files(snapshot, "i IS NOT NULL") == [0, 1, 2]


@pytest.mark.parametrize("texts", [
    ['{"numRecords":1', '}{"numRecords":2}'],  # one that is cut off, and one that goes on with it
    ['{"numRecords":1}{"numRecords":2}', ""],
    ['{"numRecords":1}{"numRecords":2}', " "],
    ['{"numRecords":1}{"numRecords":2}', None],
    ['{"numRecords":1}{"numRecords":2}', "5"],
])
def test_texts_side_by_side_are_never_taken_for_each_others(texts: list[str | None]) -> None:
    whole = ['{"numRecords":7}', *texts, '{"numRecords":8}']
    for column in (pa.chunked_array([whole]), pa.chunked_array([["", *whole]]).slice(1)):
        counts = parse_stats(column, SCHEMA, needed=[NUM_RECORDS])["num_records"].to_pylist()
        assert counts == [7, None, None, 8]


def test_statistics_over_several_lines_count() -> None:
    pretty = json.dumps({"minValues": {"i": 7}, "maxValues": {"i": 8}}, indent=1)
    assert opened_files(table_of({"stats": pretty}, bounds(i=(1, 2))), "i < 3") == [1]


# ---------------------------------------------------------------------------- partitions


def test_partition_values_are_exact() -> None:
    schema = StructType([StructField("p", PrimitiveType("integer")),
                         StructField("i", PrimitiveType("integer"))])
    files = [{**bounds(i=(i * 10, i * 10 + 9)), "partition_values": {"p": p}}
             for i, p in enumerate(["1", "2", None, "", "1"])]
    snapshot = table_of(*files, partition_by=["p"], schema=schema)
    assert opened_files(snapshot, "p = 1") == [0, 4]
    assert opened_files(snapshot, "p <> 1") == [1]
    assert opened_files(snapshot, "p IS NULL") == [2, 3]
    assert opened_files(snapshot, "p % 2 = 0") == [1]
    assert opened_files(snapshot, "P = '1' AND i > 20") == [4]
    assert opened_files(snapshot, "p = 1 OR i = 15") == [0, 1, 4]
    assert opened_files(snapshot, "i > p + 8") == [1, 4]
    assert opened_files(snapshot, "i > p + 8 AND p = 1") == [4]
    assert opened_files(snapshot, "i = p") == [0]
    assert opened_files(snapshot, "p = 7 OR i = 1000") == []


def test_a_partition_value_that_is_none_is_reported() -> None:
    schema = StructType([StructField("p", PrimitiveType("integer"))])
    snapshot = table_of({"partition_values": {"p": "x"}}, partition_by=["p"], schema=schema)
    with pytest.raises(InvalidTable, match="'x'"):
        opened_files(snapshot, "p = 1")


def test_column_mapping_uses_physical_names() -> None:
    def mapped(name: str, type_: Any, physical: str) -> StructField:
        return StructField(name, type_, metadata={"delta.columnMapping.physicalName": physical})

    inner = StructType([mapped("x", PrimitiveType("integer"), "col-3")])
    schema = StructType([mapped("p", PrimitiveType("integer"), "col-1"), mapped("n", inner, "col-2")])
    stats = {"numRecords": 1, "minValues": {"col-2": {"col-3": 5}},
             "maxValues": {"col-2": {"col-3": 6}}}
    snapshot = table_of({"stats": stats, "partition_values": {"col-1": "1"}},
                        {"stats": stats, "partition_values": {"col-1": "2"}},
                        partition_by=["p"], schema=schema)
    assert opened_files(snapshot, "p = 1 AND n.x = 5") == [0]
    assert opened_files(snapshot, "n.x = 7") == []


# ---------------------------------------------------------------------------- reading statistics


def test_json_and_typed_statistics_read_alike() -> None:
    rows = [{"i": 1, "d": 2.5, "dec": Decimal("3.5000"), "s": "a" * 40, "day": dt.date(2020, 1, 1),
             "ts": dt.datetime(2020, 1, 1, 0, 0, 0, 1500, UTC), "n": {"x": 4}}, {}]
    texts = pa.chunked_array([[to_json(stats_of(rows)), None]], pa.string())
    columns = ["i", "d", "dec", "s", "day", "ts", "n.x"]
    parsed = parse_stats(texts, SCHEMA, columns)
    assert parsed["num_records"].to_pylist() == [2, None]
    assert parsed[Stat("max", ("ts",)).name].to_pylist()[0] == dt.datetime(
        2020, 1, 1, 0, 0, 0, 1999, UTC)
    kinds = {"minValues": SCHEMA.to_arrow(), "maxValues": SCHEMA.to_arrow()}
    typed = {name: pa.struct([f for f in schema if f.name in ["i", "d", "dec", "s", "day", "ts", "n"]])
             for name, schema in kinds.items()}
    value = {
        "numRecords": 2,
        "minValues": {"i": 1, "d": 2.5, "dec": Decimal("3.5"), "s": "a" * 32,
                      "day": dt.date(2020, 1, 1), "n": {"x": 4},
                      "ts": dt.datetime(2020, 1, 1, 0, 0, 0, 1000, UTC)},
        "nullCount": {**dict.fromkeys(["i", "d", "dec", "s", "day", "ts"], 1), "n": {"x": 1}},
    }
    value["maxValues"] = {**value["minValues"], "s": "a" * 32 + LAST}  # type: ignore[dict-item]
    counts = pa.struct([*((name, pa.int64()) for name in ["i", "d", "dec", "s", "day", "ts"]),
                        ("n", pa.struct([("x", pa.int64())]))])
    struct = pa.struct([("numRecords", pa.int64()), *typed.items(), ("nullCount", counts)])
    column = pa.chunked_array([pa.array([value, None], struct)])
    assert typed_stats(column, SCHEMA, columns).equals(parsed)


def test_leaves_that_a_checkpoint_lacks_are_null() -> None:
    column = pa.chunked_array([pa.array([{"numRecords": 1}], pa.struct([("numRecords", pa.int64())]))])
    stats = [NUM_RECORDS, Stat("min", ("i",)), Stat("null_count", ("n", "x"))]
    columns = typed_stats(column, SCHEMA, needed=stats)
    assert [columns[stat.name].to_pylist() for stat in stats] == [[1], [None], [None]]
    assert [leaf.path for leaf in leaves_of(stats, SCHEMA)] == [
        ("numRecords",), ("minValues", "i"), ("nullCount", "n", "x")]


@pytest.mark.parametrize("batch", [1, 2, 8192])
@pytest.mark.parametrize("as_struct", ["true", "false"])
def test_statistics_of_some_rows_are_those_of_all(
    as_struct: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_rows, "BATCH", batch)
    monkeypatch.setattr(checkpoint_write, "SMALL_ROWS", 0)
    monkeypatch.setattr(checkpoint_write, "ROWS_PER_GROUP", 3)
    builder = TableBuilder(MemoryStore()).create("i long, j long", properties={
        "delta.checkpoint.writeStatsAsStruct": as_struct,
        "delta.checkpoint.writeStatsAsJson": "true" if as_struct == "false" else "false"})
    lines = [add(str(n), stats=to_json({"numRecords": n, "minValues": {"i": 10 * n}}))
             for n in range(8)]
    builder.commit(*lines)
    builder.log.checkpoint()
    builder.commit(add("3", stats=to_json({"numRecords": 30})), remove("5"), add("8"))
    DeltaLog.clear_cache()
    stats = [Stat("min", ("i",)), NUM_RECORDS, Stat("min", ("j",))]
    store = MemoryStore()
    store.files.update(builder.store.files)  # type: ignore[attr-defined]

    def values_of(*rows: int) -> list[tuple[Any, ...]]:
        snapshot = DeltaLog(store).snapshot
        table = snapshot.stats_for(stats, pa.array(rows, pa.int64()) if rows else None)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    everything = [(10 * n, n, None) for n in range(8)] + [(None, 30, None), (None, None, None)]
    assert values_of() == everything
    assert values_of(1, 2, 7, 8) == [everything[n] for n in (1, 2, 7, 8)]
    assert values_of(6) == [everything[6]]
    snapshot = DeltaLog(store).snapshot
    paths = snapshot.live_files(["path"], pa.array([2, 3, 5, 8, 9], pa.int64()))["path"].to_pylist()
    assert paths == ["2", "3", "8"]  # the checkpoint's 3 and 5 are hidden by the commit
    again = snapshot.files["path"].to_pylist()
    assert again == ["0", "1", "2", "4", "6", "7", "3", "8"]
    paths = snapshot.live_files(["path"], pa.array([2, 3, 5, 8, 9], pa.int64()))["path"].to_pylist()
    assert paths == ["2", "3", "8"]  # positions stay, though the files are known by now


@pytest.mark.parametrize("rows", [1, 5000])
def test_files_with_deletion_vectors_are_told_apart_by_them(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.log import file_set

    monkeypatch.setattr(file_set, "MANY", rows)
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    low, high = (to_json(bounds(i=(n, n))["stats"]) for n in (1, 9))
    builder = TableBuilder(MemoryStore()).create("i long", protocol={
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"]})
    builder.commit(*(add(name, stats=low) for name in "abc"), add("d", stats=high))
    builder.log.checkpoint()
    marked = add("a", stats=low)
    marked["add"]["deletionVector"] = vector
    builder.commit(marked, remove("a"), remove("b"))
    store = MemoryStore()
    store.files.update(builder.store.files)  # type: ignore[attr-defined]
    files = DeltaLog(store).snapshot.files_for_scan("i = 1", columns=["path", "deletion_vector"])
    assert [(row["path"], row["deletion_vector"] is None) for row in files.to_pylist()] == [
        ("c", True), ("a", False)]


def test_only_the_columns_asked_for_are_read() -> None:
    snapshot = table_of(*NUMBERS)
    files = skipping.prune(snapshot, [predicates.parse("i = 5", SCHEMA)], ["path", "size"])
    assert files.to_pydict() == {"path": ["0", "3"], "size": [1, 1]}


# ---------------------------------------------------------------------------- from checkpoints


@pytest.mark.parametrize("batch", [2, 8192])
@pytest.mark.parametrize("properties", [
    {},
    {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    {"delta.checkpointPolicy": "v2"},
], ids=["texts", "typed", "v2"])
def test_files_of_a_checkpoint_are_skipped_and_read_alone(
    properties: dict[str, str], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_rows, "BATCH", batch)
    monkeypatch.setattr(checkpoint_write, "SMALL_ROWS", 0)
    monkeypatch.setattr(checkpoint_write, "ROWS_PER_GROUP", 3)
    schema = StructType([StructField("p", PrimitiveType("integer")),
                         StructField("i", PrimitiveType("long"))])
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"],
                "writerFeatures": ["v2Checkpoint"]}
    builder = TableBuilder(MemoryStore()).create(
        schema.to_dict(), partition_by=["p"], properties=properties,
        protocol=protocol if "delta.checkpointPolicy" in properties else None)
    builder.commit(*(add(str(n), {"p": str(n % 2)}, stats=to_json(bounds(i=(n, n))["stats"]))
                     for n in range(10)))
    builder.log.checkpoint()
    builder.commit(remove("4"), remove("7"), add("10", {"p": "0"}))
    reopened = MemoryStore()
    reopened.files.update(builder.store.files)  # type: ignore[attr-defined]
    snapshot = DeltaLog.for_table(reopened).snapshot
    assert snapshot.checkpoint_version == 1
    for sql, expected in {
        "p = 0": [0, 2, 6, 8, 10], "i = 5": [5, 10], "i >= 3 AND i < 9 AND p = 1": [3, 5],
        "i IS NULL": [10], "p = 7": [], "i > 2 OR p = 1": [1, 3, 5, 6, 8, 9, 10], "i = 4": [10],
    }.items():
        files = DeltaLog.for_table(reopened).snapshot.files_for_scan(sql)
        assert [int(path) for path in files["path"].to_pylist()] == expected, sql
        rows = [int(path) for path in snapshot.files["path"].to_pylist()]
        positions = pa.array([rows.index(path) for path in expected], pa.int64())
        assert files.equals(snapshot.files.take(positions)), sql
    assert opened_files(snapshot, "i = 5") == [5, 10]  # now that statistics are cached


def test_a_cold_scan_does_not_load_pandas() -> None:
    """A third of a second, where pandas is installed, at the first scan of a process."""
    code = (
        "import sys\n"
        "from deltanb.testing import MemoryStore, TableBuilder, add\n"
        "builder = TableBuilder(MemoryStore()).create('p integer, i long, s string, d date',"
        " partition_by=['p'])\n"
        "stats = '{\"numRecords\":1,\"minValues\":{\"i\":1,\"s\":\"a\",\"d\":\"2020-01-01\"},'"
        " '\"maxValues\":{\"i\":1,\"s\":\"a\",\"d\":\"2020-01-01\"},\"nullCount\":{\"i\":0}}'\n"
        "builder.commit(add('a', {'p': '1'}, stats=stats), add('b', {'p': '1'}))\n"
        "files = builder.log.update().files_for_scan(\"p = 1 AND i > 1 AND s LIKE 'a%' AND "
        "d = '2020-01-01'\")\n"
        "print(files['path'].to_pylist(), 'pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['b'] False", done.stderr


# ---------------------------------------------------------------------------- never wrongly

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "l": st.sampled_from([-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "d": st.sampled_from([NAN, -math.inf, -1.5, -0.0, 0.0, 1.5, 2.5, math.inf]),
    "f": st.sampled_from([NAN, -0.5, 0.10000000149011612, 1.5]),
    "dec": st.decimals(-2, 2, places=4),
    "s": st.sampled_from(["", "a", "ab", "abc", "b", "é", "q" * 33, "q" * 32 + "\U0001f600",
                          "q" * 40 + "z", "q" * 32 + LAST + "x"]),
    "b": st.booleans(),
    "day": st.dates(dt.date(2019, 12, 30), dt.date(2020, 1, 3)),
    "ts": st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
                           dt.datetime(2020, 1, 1, 0, 0, 0, 123456, UTC),
                           dt.datetime(2020, 1, 1, 0, 0, 0, 123999, UTC),
                           dt.datetime(2020, 1, 2, tzinfo=UTC)]),
    "tn": st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 1),
                           dt.datetime(2020, 1, 1, 0, 0, 0, 5)]),
    "n": st.fixed_dictionaries({"x": st.none() | st.integers(-2, 2), "y.z": st.none()}),
}
LITERALS = {
    "i": ["-2", "0", "1.5", "'3'"], "l": ["0", "9007199254740993", "1e18"],
    "d": ["-1.5", "0", "2", "cast('NaN' as double)"], "f": ["0.1", "1.5", "cast('NaN' as float)"],
    "dec": ["0.5", "-1", "1.00005"], "day": ["'2020-01-01'", "timestamp'2020-01-01 12:00:00'"],
    "s": ["''", "'ab'", "'qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqz'", "'qqr'"],
    "b": ["true", "false"], "ts": ["'2020-01-01 00:00:00.1235'", "date'2020-01-02'"],
    "tn": ["'1969-12-31 23:59:59.000001'"], "n.x": ["0", "1"], "p": ["1", "'2'"],
}
COMPARISONS = [f"{column} {op} {literal}" for column, literals in LITERALS.items()
               for literal in literals for op in ("=", "<", "<=", ">", ">=", "<>", "<=>")]
OTHERS = [
    *(f"{column} IS NULL" for column in LITERALS), "d <=> f", "i < l", "i = p", "d > f", "b",
    "s LIKE 'a%'", "s LIKE '%b'", "s LIKE 'q%z'", "startswith(s, 'qqq')", "s IN ('a', 'zz')",
    "i IN (1, NULL)", "d IN (1.5, 2.5)", "i BETWEEN -1 AND 1", "d BETWEEN 0 AND 2",
    "cast(d as int) = 1", "cast(i as double) >= 1", "cast(l as int) = 0", "date(ts) = '2020-01-01'",
    "year(day) = 2019", "date_trunc('day', ts) < '2020-01-02'", "i + 1 > 2", "i / i = 1",
    "coalesce(i, 5) = 5", "CASE WHEN i > 0 THEN s ELSE 'a' END = 'a'", "nullif(i, 1) IS NULL",
    "(d > 1) IS NOT TRUE", "(i = 1) <=> (l = 1)", "upper(s) = 'A'", "length(s) = 1", "isnan(d)",
    "ts = tn", "day < ts", "abs(i) = 2", "n IS NULL", "cast(s as int) IS NULL", "NULL", "TRUE",
]
CONDITIONS = st.recursive(st.sampled_from(COMPARISONS + OTHERS), lambda inner: st.one_of(
    st.builds("({} AND {})".format, inner, inner), st.builds("({} OR {})".format, inner, inner),
    st.builds("(NOT {})".format, inner)), max_leaves=4)
ROW = st.fixed_dictionaries({}, optional={n: st.none() | v for n, v in VALUES.items()})
FILE = st.fixed_dictionaries({
    "rows": st.lists(ROW, min_size=1, max_size=4),
    "p": st.sampled_from([None, "", "1", "2"]),
    "nan": st.sampled_from(["last", "left out"]),
    "deleted": st.integers(0, 2),
    "absent": st.sets(st.sampled_from(["minValues", "maxValues", "nullCount", "numRecords", "all"]),
                      max_size=2),
})
PARTITIONED = StructType([*SCHEMA.fields, StructField("p", PrimitiveType("integer"))])


def written(file: Mapping[str, Any]) -> dict[str, Any]:
    """The file as the log has it: statistics of all rows, though the first are deleted."""
    stats = stats_of(file["rows"], nan=file["nan"], wide=bool(file["deleted"]))
    for name in file["absent"]:
        stats.pop(name, None)
    return {"partition_values": {"p": file["p"]},
            "stats": None if "all" in file["absent"] else stats}


def holds_match(file: Mapping[str, Any], predicate: predicates.Predicate) -> bool:
    """Whether the file has a live row that the predicate wants, by trying them all."""
    live = file["rows"][file["deleted"]:]
    full = [{**dict.fromkeys(PARTITIONED.names), **row, "p": int(file["p"]) if file["p"] else None}
            for row in live]
    table = pa.Table.from_pylist(full, schema=PARTITIONED.to_arrow())
    return bool(predicates.filter_table(table, predicate).num_rows)


@settings(many, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FILE, min_size=1, max_size=4), CONDITIONS)
def test_no_file_with_a_matching_row_is_dropped(files: list[dict[str, Any]], sql: str) -> None:
    snapshot = table_of(*map(written, files), partition_by=["p"], schema=PARTITIONED)
    predicate = predicates.parse(sql, PARTITIONED)
    left = set(opened_files(snapshot, sql))
    assert {i for i, file in enumerate(files) if holds_match(file, predicate)} <= left


MEMBERS = {**{column: literals for column, literals in LITERALS.items() if "." not in column},
           "i": ["-2", "0", "1", "2", "NULL"], "l": ["0", "1", "9007199254740993", "NULL"],
           "d": ["-1.5", "0.0", "1.5", "2.5", "NULL"], "s": ["''", "'ab'", "'b'", "'é'", "NULL"],
           "day": ["'2020-01-01'", "'2019-12-31'", "'2020-01-03'"], "dec": ["0.5", "-1", "1.25", "NULL"]}
SETS = st.sampled_from(sorted(MEMBERS)).flatmap(lambda column: st.builds(
    "{} {} ({})".format, st.just(column), st.sampled_from(["IN", "NOT IN"]),
    st.lists(st.sampled_from(MEMBERS[column]), min_size=2, max_size=5).map(", ".join)))


@settings(many, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(files=st.lists(FILE, min_size=1, max_size=4), sql=st.one_of(SETS, st.builds(
    "({} AND {})".format, SETS, CONDITIONS), st.builds("({} OR {})".format, SETS, CONDITIONS)))
def test_no_file_with_a_matching_row_is_dropped_by_a_set_that_bounds_are_searched_in(
    monkeypatch: pytest.MonkeyPatch, files: list[dict[str, Any]], sql: str
) -> None:
    monkeypatch.setattr(skipping, "MAX_LISTED", 0)
    test_no_file_with_a_matching_row_is_dropped.hypothesis.inner_test(files, sql)


@pytest.mark.parametrize(("kind", "texts"), [
    ("integer", [str(10 * n) for n in range(200)]), ("decimal(10,2)", [f"{10 * n}.50" for n in range(200)]),
    ("string", [f"k{10 * n:04}" for n in range(200)]), ("double", [f"{10 * n}.5" for n in range(200)]),
    ("date", [f"{2000 + n // 12}-{n % 12 + 1:02}-01" for n in range(200)]),
    ("timestamp", [f"{2000 + n // 12}-{n % 12 + 1:02}-01 00:00:00" for n in range(200)]),
])
def test_a_file_between_two_members_of_a_long_list_is_dropped(kind: str, texts: list[str]) -> None:
    schema = StructType([StructField("x", PrimitiveType(kind))])
    quote = "'" if kind in ("string", "date", "timestamp") else ""

    def stated(text: str) -> Any:
        return text.replace(" ", "T") + "Z" * (kind == "timestamp") if quote else Number(text)

    places = [(0, 0), (100, 100), (199, 199), (4, 4), (150, 151), (1, 9)]
    ends = [(texts[low], texts[high]) for low, high in places]
    snapshot = table_of(*(bounds(x=(stated(low), stated(high))) for low, high in ends), schema=schema)
    listed = ", ".join(f"{quote}{text}{quote}" for n, text in enumerate(texts) if n not in (4, 150, 151))
    assert opened_files(snapshot, f"x IN ({listed})") == [0, 1, 2, 5]
    # NaN may be in any file of doubles, and times in statistics are cut to milliseconds.
    is_sure = kind not in ("double", "timestamp")
    assert opened_files(snapshot, f"x NOT IN ({listed})") == ([3, 4, 5] if is_sure else [0, 1, 2, 3, 4, 5])


def calls_for(count: int, term: str, join: str, whole: str) -> int:
    """Calls of functions to look for files by a condition of so many terms."""
    snapshot = deltanb.create(MemoryStore(), {"id": [1, 5], "v": ["a", "b"]}).snapshot
    sql = whole.format(join.join(term.format(i=i) for i in range(count)))
    calls = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        files = snapshot.files_for_scan(sql)
    finally:
        sys.setprofile(None)
    assert files.num_rows == 1
    return calls


@pytest.mark.parametrize(("term", "join", "whole"), [
    ("(id = {i} AND v = 'a')", " OR ", "{}"), ("id + {i}", ", ", "id IN ({})"),
    ("(id <> {i} OR v <> 'c')", " AND ", "{}")])
def test_twice_as_many_terms_take_twice_the_work(term: str, join: str, whole: str) -> None:
    calls_for(8, term, join, whole)  # what is loaded and made once
    few, many = (calls_for(count, term, join, whole) for count in (256, 512))
    assert many < 2.01 * few  # with a factor of log n it is 2.05
