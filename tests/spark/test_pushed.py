"""Filters of Spark's as SQL: each means on rows what Spark means by it, or is handed back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", "4.1", reason="filters of Python data sources come with PySpark 4.1")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.schema.ddl import parse_schema
from deltanb.schema.types import StructField, StructType
from deltanb.spark.pushed import sql_of, taken
from deltanb.spark.source_options import ReadOptions, WriteOptions

UTC = dt.timezone.utc
ROWS = pa.table({
    "id": pa.array([1, 2, None], pa.int32()), "a b": pa.array(["50%_\\'x", "O'Hare", None]),
    "dec": pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(9, 2)),
    "day": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
    "time": pa.array([dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 2, 3, 4, 5, 6, UTC), None],
                     pa.timestamp("us", "UTC")),
    "wall": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None], pa.timestamp("us")),
    "x": pa.array([float("nan"), 1.5, None]), "flag": pa.array([True, False, None]),
    "bytes": pa.array([b"\x01", b"\x02", None]),
    "s": pa.array([{"y.z": 1}, {"y.z": 2}, None], pa.struct([("y.z", pa.int64())])),
})

CASES = [
    (EqualTo(("id",), 1), [0]), (Not(EqualTo(("id",), 1)), [1]), (EqualNullSafe(("id",), 2), [1]),
    (Not(EqualNullSafe(("id",), 2)), [0, 2]), (GreaterThan(("id",), 1), [1]),
    (GreaterThanOrEqual(("id",), 1), [0, 1]), (LessThan(("id",), 2), [0]),
    (LessThanOrEqual(("id",), 2), [0, 1]),
    (In(("id",), (2, 7)), [1]), (Not(In(("id",), (2, 7))), [0]), (IsNull(("id",)), [2]),
    (IsNotNull(("a b",)), [0, 1]), (EqualTo(("a b",), "O'Hare"), [1]),
    (StringStartsWith(("a b",), "50%_"), [0]),
    (StringEndsWith(("a b",), "\\'x"), [0]), (StringContains(("a b",), "'Ha"), [1]),
    (Not(StringContains(("a b",), "%")), [1]), (EqualTo(("dec",), Decimal("1.50")), [0]),
    (GreaterThan(("day",), dt.date(2024, 1, 1)), [1]),
    (EqualTo(("time",), dt.datetime(2024, 1, 2, 3, 4, 5, 6, UTC)), [1]),
    (LessThan(("wall",), dt.datetime(2024, 1, 2)), [0]),
    (GreaterThan(("x",), 1.5), [0]), (EqualTo(("x",), float("nan")), [0]), (EqualTo(("flag",), False), [1]),
    (EqualTo(("bytes",), b"\x02"), [1]), (EqualTo(("s", "y.z"), 2), [1]),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushed")
    return dn.create(folder / "t", ROWS, properties={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize(("given", "places"), CASES, ids=str)
def test_a_filter_means_the_same_here(table, given, places):
    where, kept = taken([given], table.schema)
    assert kept == [], "it could be run here"
    assert str(table.to_arrow(where=where).to_pylist()) == str(ROWS.take(pa.array(places)).to_pylist())


def test_what_is_not_understood_is_handed_back():
    schema = StructType([*parse_schema("id long, word string, v variant").fields])
    collated = StructField("word", schema.field("word").type,
                           metadata={"__COLLATIONS": {"word": "icu.UNICODE_CI"}})
    odd = [EqualTo(("nowhere",), 1), EqualTo(("v",), 1), EqualTo(("id", "inner"), 1),
           EqualTo(("id",), object())]
    where, kept = taken([*odd, EqualTo(("id",), 1)], schema)
    assert (where, kept) == ("(`id` = 1)", odd)
    assert sql_of(EqualTo(("word",), "x"), StructType([collated])) is None


# --- options --------------------------------------------------------------------------------------

@pytest.mark.parametrize(("options", "said"), [
    ({}, "needs the path of a table"),
    ({"path": "t", "startingVersion": "1"}, "'startingVersion' .* is for the change data feed"),
    ({"path": "t", "readChangeFeed": "yes"}, "'readChangeFeed' .* is true or false, found 'yes'"),
    ({"path": "t", "readChangeFeed": "true", "startingVersion": "1", "startingTimestamp": "2024"},
     "contradict"),
    ({"path": "t", "readChangeFeed": "true", "versionAsOf": "1"}, "contradict"),
    ({"path": "t", "versionAsOf": "-1"}, "whole number"),
    ({"path": "t", "maxFilesPerTrigger": "1"}, "is one of streams, not of reading"),
    ({"path": "t", "aws_region": "x"}, "no option 'aws_region' of reading"),
    ({"path": "s3://b/t", "aws_regoin": "x"}, "did you mean 'region'"),
])
def test_options_of_reading_are_checked(options, said):
    with pytest.raises(InvalidArgument, match=said):
        ReadOptions.of(options)


@pytest.mark.parametrize(("options", "overwrite", "said"), [
    ({"replaceWhere": "id > 1"}, False, r"'replaceWhere' .* is for \.mode\(\"overwrite\"\)"),
    ({"overwriteSchema": "true"}, False, "overwrite"),
    ({"partitionOverwriteMode": "sometimes"}, True, "one of static, dynamic, found 'sometimes'"),
    ({"partitionOverwriteMode": "dynamic"}, False, "overwrite"),
    ({"txnAppId": "x"}, False, "belong together"),
    ({"txnAppId": "x", "txnVersion": "one"}, False, "whole number"),
    ({"partitionBy": "[1]"}, False, "names of columns"), ({"partitionBy": "a,"}, False, "names of columns"),
    ({"targetFileSize": "0"}, False, "a number of bytes"), ({"saveMode": "error"}, True, "for .mode"),
    ({"saveMode": "maybe"}, False, "one of append"),
    ({"versionAsOf": "1"}, False, "one of reading, not of writing"),
    ({"mergeShema": "true"}, False, "did you mean mergeSchema"),
])
def test_options_of_writing_are_checked(options, overwrite, said):
    with pytest.raises(InvalidArgument, match=said):
        WriteOptions.of({"path": "t", **options}, overwrite)


def test_options_know_no_case_and_hide_what_reaches_a_bucket():
    found = ReadOptions.of({"PATH": "s3://b/t", "READchangeFEED": "TRUE", "startingversion": "2",
                            "aws_secret_access_key": "hush"})
    assert (found.start, found.changes, "hush" in repr(found)) == (2, True, False)
    assert WriteOptions.of({"path": "t", "partitionBy": '["a,b", "c"]'}, False).partition_by == ("a,b", "c")
