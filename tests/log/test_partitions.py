"""Partition values: their texts, their folders, their typed columns, and matching a few files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import AddFile
from deltanb.errors import InvalidArgument, InvalidTable
from deltanb.log.replay import CODED_SCHEMA
from deltanb.log.skipping import partitions
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql import predicates

UTC = dt.timezone.utc


def kind(name: str) -> PrimitiveType:
    return PrimitiveType(name)


def schema_of(**types: str) -> StructType:
    return StructType([StructField(name, kind(type_)) for name, type_ in types.items()])


@pytest.mark.parametrize(("text", "type_", "value"), [
    ("-7", "byte", -7),
    ("7", "short", 7),
    ("2147483647", "integer", 2**31 - 1),
    ("-9223372036854775808", "long", -(2**63)),
    ("0.1", "float", 0.10000000149011612),
    ("1.0E10", "double", 1e10),
    ("Infinity", "double", float("inf")),
    ("1.50", "decimal(10,2)", Decimal("1.50")),
    ("true", "boolean", True),
    ("FALSE", "boolean", False),
    ("a b=c%", "string", "a b=c%"),
    ("\u0001\u0002", "binary", b"\x01\x02"),
    ("2020-02-29", "date", dt.date(2020, 2, 29)),
    ("1970-01-01 00:00:00", "timestamp", dt.datetime(1970, 1, 1, tzinfo=UTC)),
    ("1970-01-01 00:00:00.123456", "timestamp", dt.datetime(1970, 1, 1, 0, 0, 0, 123456, UTC)),
    ("1970-01-01T00:00:00.123456Z", "timestamp", dt.datetime(1970, 1, 1, 0, 0, 0, 123456, UTC)),
    ("1970-01-01T02:00:00+02:00", "timestamp", dt.datetime(1970, 1, 1, tzinfo=UTC)),
    ("2021-01-01 10:00:00.5", "timestamp_ntz", dt.datetime(2021, 1, 1, 10, 0, 0, 500000)),
    ("", "string", None),
    ("", "integer", None),
    (None, "date", None),
])
def test_every_type_is_read(text: str | None, type_: str, value: Any) -> None:
    assert partitions.parse_value(text, kind(type_)) == value


@pytest.mark.parametrize(("text", "type_"), [
    ("1.5", "integer"), ("128", "byte"), ("x", "double"), ("1e400x", "double"),
    ("yes", "boolean"), ("2020-02-30", "date"), ("2020-01-01 25:00:00", "timestamp"),
    ("12345.6", "decimal(5,2)"), ("2020-01-01 00:00:00 Nowhere/X", "timestamp"),
])
def test_what_is_no_value_is_refused(text: str, type_: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        partitions.parse_value(text, kind(type_))


@pytest.mark.parametrize(("value", "type_", "text"), [
    (5, "integer", "5"),
    (True, "boolean", "true"),
    (1.0, "double", "1.0"),
    (0.001, "double", "0.001"),
    (5e-324, "double", "4.9E-324"),
    (2e-7, "double", "2.0E-7"),
    (1.4e-45, "float", "1.4E-45"),
    (123456792.0, "float", "1.2345679E8"),
    (float("nan"), "float", "NaN"),
    (float("-inf"), "float", "-Infinity"),
    (1e39, "float", "Infinity"),
    ("__HIVE_DEFAULT_PARTITION__", "string", None),
    ("__hive_default_partition__", "string", "__hive_default_partition__"),
    (b"__HIVE_DEFAULT_PARTITION__", "binary", None),
    (b"", "binary", None),
    (0.0001, "double", "1.0E-4"),
    (9999999.0, "double", "9999999.0"),
    (1e7, "double", "1.0E7"),
    (-0.0, "double", "-0.0"),
    (float("nan"), "double", "NaN"),
    (float("-inf"), "float", "-Infinity"),
    (0.1, "float", "0.1"),
    (3.4028234663852886e38, "float", "3.4028235E38"),
    (Decimal("1.5"), "decimal(10,2)", "1.50"),
    (Decimal("1E+3"), "decimal(10,0)", "1000"),
    (dt.date(33, 1, 2), "date", "0033-01-02"),
    (dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), "timestamp",
     "2020-01-01T00:00:00.000000Z"),
    (dt.datetime(2020, 1, 1, 0, 0, 0, 5), "timestamp_ntz", "2020-01-01 00:00:00.000005"),
    (dt.datetime(2020, 1, 1), "timestamp_ntz", "2020-01-01 00:00:00"),
    (b"\x01a", "binary", "\u0001a"),
    ("", "string", None),
    (None, "integer", None),
])
def test_every_type_is_written(value: Any, type_: str, text: str | None) -> None:
    assert partitions.format_value(value, kind(type_)) == text


@pytest.mark.parametrize(("value", "type_"), [
    ("x", "integer"), (300, "byte"), (1.5, "integer"), (5, "string"), (5, "date"),
    (b"\xff", "binary"), ([1], "array"), (Decimal("1000"), "decimal(3,1)"), (1, "boolean"),
])
def test_a_value_of_another_type_is_refused_by_name(value: Any, type_: str) -> None:
    data_type: Any = kind(type_)
    if type_ == "array":
        from deltanb.schema.types import ArrayType
        data_type = ArrayType(kind("integer"))
    with pytest.raises(InvalidArgument) as caught:
        partitions.format_value(value, data_type)
    assert repr(value) in caught.value.message


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3),
    "string": st.text(min_size=1),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "boolean": st.booleans(),
}


@pytest.mark.parametrize("type_", VALUES)
@given(data=st.data())
def test_what_is_written_reads_back(type_: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[type_])
    text = partitions.format_value(value, kind(type_))
    assert partitions.parse_value(text, kind(type_)) == value


# ---------------------------------------------------------------------------- folders


def test_folders_are_escaped_as_spark_does() -> None:
    special = "\"#%'*/:=?\\{[]^\x7f\n}~ ä"
    assert partitions.hive_path({"p": special}) == (
        "p=%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E%7F%0A}~ ä")
    assert partitions.hive_path([("a/b", "1"), ("c", None), ("d", "")]) == (
        "a%2Fb=1/c=__HIVE_DEFAULT_PARTITION__/d=__HIVE_DEFAULT_PARTITION__")
    assert partitions.hive_path({}) == ""


@given(st.dictionaries(st.text(min_size=1).filter(lambda s: "." not in s),
                       st.none() | st.text(min_size=1), max_size=3))
def test_folders_read_back(values: dict[str, str | None]) -> None:
    path = partitions.hive_path(values)
    assert partitions.parse_hive_path(f"{path}/part-0.parquet") == values


# ---------------------------------------------------------------------------- typed columns


def files(*maps: dict[str, str | None] | None) -> pa.Table:
    column = pa.array([None if m is None else list(m.items()) for m in maps],
                      pa.map_(pa.string(), pa.string()))
    return pa.table({"partition_values": column})


def test_typed_columns_follow_the_schema() -> None:
    schema = schema_of(D="date", n="integer", s="string")
    table = files({"D": "2020-01-01", "n": "1", "s": "x"}, {"n": "", "D": None, "s": ""},
                  {"s": "y", "n": "-3", "D": "2020-01-02"})
    typed = partitions.typed_partition_values(table, schema, ["d", "n", "s"])
    assert typed.schema == pa.schema({"D": pa.date32(), "n": pa.int32(), "s": pa.string()})
    assert typed.to_pylist() == [
        {"D": dt.date(2020, 1, 1), "n": 1, "s": "x"}, {"D": None, "n": None, "s": None},
        {"D": dt.date(2020, 1, 2), "n": -3, "s": "y"}]


def test_missing_keys_and_maps_are_null() -> None:
    table = files({"n": "1"}, {}, None, {"other": "2"}, {"n": "4", "other": "3"})
    typed = partitions.typed_partition_values(table, schema_of(n="long"), ["n"])
    assert typed["n"].to_pylist() == [1, None, None, None, 4]


def test_sliced_and_chunked_columns_keep_their_rows() -> None:
    table = files(*({"a": str(i), "b": str(-i)} for i in range(10)))
    table = pa.concat_tables([table.slice(3, 4), table.slice(0, 1), table.slice(10)])
    typed = partitions.typed_partition_values(table, schema_of(a="long", b="long"), ["b", "a"])
    assert typed["b"].to_pylist() == [-3, -4, -5, -6, 0]
    assert typed["a"].to_pylist() == [3, 4, 5, 6, 0]


def test_physical_names_come_from_the_schema_or_the_caller() -> None:
    field = StructField("n", kind("integer"),
                        metadata={"delta.columnMapping.physicalName": "col-1"})
    table = files({"col-1": "1"}, {"col-1": None})
    typed = partitions.typed_partition_values(table, StructType([field]), ["n"])
    assert typed["n"].to_pylist() == [1, None]
    typed = partitions.typed_partition_values(table, schema_of(n="integer"), ["n"],
                                              {"n": "col-1"})
    assert typed["n"].to_pylist() == [1, None]


@pytest.mark.parametrize("coded", [False, True])
def test_distinct_partitions_are_those_of_the_rows(coded: bool) -> None:
    maps = [{"n": "1", "s": "x"}, {"s": "x", "n": "2"}, {"n": "", "s": "y"}, {"n": "1", "s": ""}, {"n": "1"},
            {}, None, {"n": "2", "s": "x"}]
    schema = schema_of(n="long", s="string")
    table = files(*maps)
    plain = table["partition_values"].chunk(0)
    for piece in (plain, plain.slice(0, 4), plain.slice(2, 3), plain.slice(0, 0)):
        values = piece.cast(CODED_SCHEMA.field("partition_values").type) if coded else piece
        for names in (["n"], ["s"], ["n", "s"], ["s", "n"]):
            kinds, codes = partitions.distinct_partitions(values, schema, names)
            expected = partitions.typed_partition_values(
                pa.table({"partition_values": piece}), schema, names)
            assert kinds.take(codes).to_pylist() == expected.to_pylist()
            assert kinds.schema == expected.schema


def test_texts_that_no_row_has_any_more_are_not_read() -> None:
    piece = files({"n": "1"}, {"n": "ten"})["partition_values"].chunk(0).cast(
        CODED_SCHEMA.field("partition_values").type)
    kinds, codes = partitions.distinct_partitions(piece.slice(0, 1), schema_of(n="long"), ["n"])
    assert kinds.take(codes).to_pylist() == [{"n": 1}]
    with pytest.raises(InvalidTable, match="'ten'"):
        partitions.distinct_partitions(piece, schema_of(n="long"), ["n"])


def test_many_distinct_values_are_cast_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MAX_PARSED_DISTINCT", 2)
    table = files({"n": "1", "d": "2020-01-01"}, {"n": "", "d": "2020-1-2"},
                  {"n": "3", "d": ""}, {"n": "4", "d": "x"})
    typed = partitions.typed_partition_values(table.slice(0, 3), schema_of(n="short", d="date"),
                                              ["n", "d"])
    assert typed["n"].to_pylist() == [1, None, 3]
    assert typed["d"].to_pylist() == [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]
    with pytest.raises(InvalidTable):
        partitions.typed_partition_values(table, schema_of(d="date"), ["d"])


def test_a_text_that_is_no_value_names_column_and_text() -> None:
    with pytest.raises(InvalidTable) as caught:
        partitions.typed_partition_values(files({"n": "ten"}), schema_of(n="integer"), ["n"])
    assert caught.value.column == "n"
    assert "'ten'" in caught.value.message


def test_no_partition_columns_give_no_columns() -> None:
    typed = partitions.typed_partition_values(files({}, {}), schema_of(n="integer"), [])
    assert typed.num_columns == 0


# ---------------------------------------------------------------------------- a few files

SCHEMA = schema_of(part="integer", s="string", d="double", day="date", ts="timestamp",
                   dec="decimal(5,2)", data="integer")
COLUMNS = ["part", "s", "d", "day", "ts", "dec"]


def matched(sql: str, *maps: dict[str, str | None]) -> list[bool]:
    parsed = predicates.parse(sql, SCHEMA).conjuncts()
    return partitions.matches(maps, parsed, SCHEMA, COLUMNS)


def test_null_matches_no_comparison() -> None:
    maps: list[dict[str, str | None]] = [{"part": "1"}, {"part": "2"}, {"part": None}, {}]
    assert matched("part = 1", *maps) == [True, False, False, False]
    assert matched("part <> 1", *maps) == [False, True, False, False]
    assert matched("NOT (part = 1)", *maps) == [False, True, False, False]
    assert matched("part <=> NULL", *maps) == [False, False, True, True]
    assert matched("part IS NULL OR part = 2", *maps) == [False, True, True, True]
    assert matched("part NOT IN (1, NULL)", *maps) == [False] * 4
    assert matched("part > 1 AND part < 3", *maps) == [False, True, False, False]


def test_values_are_compared_as_their_type() -> None:
    assert matched("part < 5", {"part": "10"}) == [False]
    assert matched("s = 1", {"s": "1"}, {"s": "01"}, {"s": "x"}) == [True, True, False]
    assert matched("d = 'NaN'", {"d": "NaN"}, {"d": "1"}) == [True, False]
    assert matched("ts = '2020-01-01'", {"ts": "2020-01-01 00:00:00"},
                   {"ts": "2020-01-01T00:00:00.000000Z"}) == [True, True]
    assert matched("dec = 1.5", {"dec": "1.50"}) == [True]
    assert matched("year(day) = 2020", {"day": "2020-05-05"}, {"day": ""}) == [True, False]
    assert matched("s LIKE 'a%' AND part = 1", {"s": "ab", "part": "1"},
                   {"s": "ab", "part": "2"}) == [True, False]


def test_actions_and_no_predicates() -> None:
    add = AddFile("f", {"part": "1"}, 1, 1)
    assert partitions.matches([add], [], SCHEMA, COLUMNS) == [True]
    parsed = [predicates.parse("part = 2", SCHEMA)]
    assert partitions.matches([add], parsed, SCHEMA, COLUMNS) == [False]
    assert partitions.matches([], parsed, SCHEMA, COLUMNS) == []


def test_a_data_column_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="data"):
        matched("data = 1", {"part": "1"})


def test_physical_names_are_used_for_a_few_files_too() -> None:
    field = StructField("n", kind("integer"),
                        metadata={"delta.columnMapping.physicalName": "col-1"})
    schema = StructType([field])
    parsed = [predicates.parse("n = 1", schema)]
    assert partitions.matches([{"col-1": "1"}, {"col-1": "2"}], parsed, schema, ["n"]) == [
        True, False]


ATOMS = st.sampled_from([
    "part = 1", "part <> 1", "part < 2", "part >= '1'", "part IN (1, 3)", "part IN (2, NULL)",
    "part IS NULL", "part <=> 2", "s = 'a'", "s > 'a'", "s = 1", "s LIKE 'a%'", "TRUE", "NULL",
    "d > 1", "d = 'NaN'", "(part = 1) IS NOT TRUE", "part BETWEEN 1 AND 2", "part = data0",
]).map(lambda atom: atom.replace("data0", "part"))
CONDITIONS = st.recursive(ATOMS, lambda inner: st.one_of(
    st.builds("({} AND {})".format, inner, inner), st.builds("({} OR {})".format, inner, inner),
    st.builds("(NOT {})".format, inner)), max_leaves=5)
TEXTS = st.fixed_dictionaries({}, optional={
    "part": st.sampled_from([None, "", "1", "2", "3"]),
    "s": st.sampled_from([None, "", "a", "ab", "1", "x"]),
    "d": st.sampled_from([None, "NaN", "0.5", "2.0"]),
})


@given(CONDITIONS, st.lists(TEXTS, max_size=6))
def test_a_few_files_match_as_their_typed_columns_do(
    sql: str, maps: list[dict[str, str | None]]
) -> None:
    typed = partitions.typed_partition_values(files(*maps), SCHEMA, ["part", "s", "d"])
    table = typed.append_column("row", pa.array(range(len(maps)), pa.int64()))
    matching = predicates.filter_table(table, predicates.parse(sql, SCHEMA))["row"].to_pylist()
    expected = [i in matching for i in range(len(maps))]
    assert partitions.matches(maps, [predicates.parse(sql, SCHEMA)], SCHEMA, COLUMNS) == expected
