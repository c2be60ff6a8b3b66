"""The data source against the process: the same rows out, one commit in, nothing left where a job fails."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", "4.1", reason="filters of Python data sources come with PySpark 4.1")

from pyspark.errors import PySparkException
from pyspark.sql import datasource as F
from pyspark.sql import types as T

import deltanb as dn
from deltanb.engines.spark.session import settings
from deltanb.errors import (
    ConstraintViolation,
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    InvalidPredicate,
    SchemaMismatch,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedProtocol,
    VersionNotFound,
)
from deltanb.sources.spark.filters import condition_of
from deltanb.sources.spark.options import WriteOptions
from deltanb.sources.spark.source import translate_errors
from deltanb.sources.spark.write import writer
from tests.examples import crossed
from tests.helpers import tree

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
EVERY_TYPE = pa.table({
    "id": pa.array([1, 2, 3], pa.int64()),
    "part": pa.array(["a", "b", None]),
    "byte": pa.array([-1, None, 5], pa.int8()), "float": pa.array([1.5, None, float("nan")], pa.float32()),
    "flag": pa.array([True, None, False]),
    "dec": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(12, 2)),
    "bytes": pa.array([b"\x00\xff", None, b""]),
    "day": pa.array([dt.date(1582, 10, 4), None, dt.date(2024, 2, 29)]),
    "time": pa.array([dt.datetime(1950, 1, 2, 3, 4, 5, 6, UTC), None, dt.datetime(2024, 1, 2, tzinfo=UTC)],
                     pa.timestamp("us", "UTC")),
    "wall": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 6), None, dt.datetime(1, 1, 1)], pa.timestamp("us")),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "struct": pa.array([{"x": 1, "y": None}, None, {"x": None, "y": {"z": "q"}}],
                       pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
})
MAPPED = {"delta.columnMapping.mode": "name"}


def read(spark, path: Any, **options: Any) -> Any:
    frame = spark.read.format("deltanb").options(**options).load(str(path))
    assert frame.columns is not None  # on Connect nothing is asked of a table before
    return frame


def write(frame, path: Any, mode: str = "append", **options: Any) -> None:
    with translate_errors():
        frame.write.format("deltanb").mode(mode).options(**options).save(str(path))


def texts(rows: Any) -> list[str]:
    return sorted(map(str, rows.to_pylist() if isinstance(rows, pa.Table) else rows))


def rows_of(path: Any, where: str | None = None) -> list[str]:
    return texts(dn.open(path).to_arrow(where=where))


def ids(path: Any) -> list[int]:
    return sorted(dn.open(path).to_arrow(columns=["id"])["id"].to_pylist())


# --- reading --------------------------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, MAPPED, {"delta.enableDeletionVectors": True, **MAPPED}], ids=str)
def test_rows_are_those_of_the_process(spark, tmp_path, properties):
    table = dn.create(tmp_path / "t", EVERY_TYPE, partition_by="part", properties=properties)
    table.append(EVERY_TYPE)
    table.delete("id = 2 OR id = 1 AND part = 'b'")
    if properties:
        table.rename_column("dec", "amount")
    frame = read(spark, table.path)
    assert texts(frame.toArrow()) == texts(table.to_arrow())
    assert frame.schema == table.to_df(spark).schema


def test_variants_and_void_columns_come_as_spark_has_them(spark, tmp_path):
    table = dn.create(tmp_path / "t", "id long, v variant, deep struct<a: array<variant>>")
    table.append(spark.sql("""SELECT id, parse_json('{"a": ' || id || '}') v,
                              named_struct('a', array(parse_json('[1]'))) deep FROM range(5)"""))

    def shown(frame):
        return sorted(map(str, frame.selectExpr("id", "to_json(v)", "to_json(deep.a[0])").collect()))

    assert shown(read(spark, table.path)) == shown(table.to_df(spark))


@pytest.mark.classic("a frame is planned anew with each query")
def test_a_frame_stands_at_the_version_that_was_the_newest(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1]})
    frame = read(spark, table.path)
    table.append({"id": [2]})
    assert frame.count() == 1


def test_a_frame_stands_at_a_version(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    first = dt.datetime.fromtimestamp(table.as_of(0).snapshot.timestamp / 1000, UTC)
    assert read(spark, table.path).count() == 2
    assert read(spark, table.path, versionAsOf=0).count() == 1
    assert read(spark, table.path, TIMESTAMPASOF=first.isoformat()).count() == 1
    with pytest.raises(VersionNotFound), translate_errors():
        read(spark, table.path, versionAsOf=7)


def test_changes_are_those_of_the_process(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3], "p": ["a", "b", "b"]}, partition_by="p",
                      properties={"delta.enableChangeDataFeed": True})
    table.update({"id": "id + 10"}, where="id = 3")
    table.delete("p = 'a'")
    frame = read(spark, table.path, readChangeFeed="true", startingVersion=0)
    assert texts(frame.toArrow()) == texts(table.changes(0).to_arrow())
    part = read(spark, table.path, readChangeFeed="true", startingVersion=1, endingVersion=1)
    part = part.where("_change_type <> 'update_preimage'")
    assert part.select("id", "_commit_version").collect() == [(13, 1)]
    chosen = spark.read.format("deltanb").schema("P string, _change_type string").options(
        readChangeFeed="true", startingVersion=1, endingVersion=1).load(table.path)
    assert sorted(chosen.collect()) == [("b", "update_postimage"), ("b", "update_preimage")]


def test_a_schema_chooses_columns(spark, tmp_path):
    table = dn.create(tmp_path / "t", EVERY_TYPE, partition_by="part")
    chosen = spark.read.format("deltanb").schema("part string, ID long").load(table.path)
    assert sorted(map(str, chosen.collect())) == sorted(
        f"Row(part={row['part']!r}, ID={row['id']})" for row in EVERY_TYPE.to_pylist())
    with pytest.raises(InvalidArgument, match=r"no column 'idd'; did you mean id\?"), translate_errors():
        spark.read.format("deltanb").schema("idd long").load(table.path).count()
    with pytest.raises(SchemaMismatch, match="id: string, in the table bigint"), translate_errors():
        spark.read.format("deltanb").schema("id string").load(table.path).count()


def test_a_condition_leaves_files_out(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]}, partition_by="p")
    table.append({"id": [30, 40], "p": ["a", "b"]})
    for gone in (tmp_path / "t" / "p=b").iterdir():  # nobody may open them
        gone.unlink()
    assert read(spark, table.path, where="p = 'a' AND id > 5").collect() == [(30, "a")]
    chosen = spark.read.format("deltanb").schema("id long").option("where", "p = 'a'")
    assert sorted(chosen.load(table.path).collect()) == [(1,), (30,)]
    with pytest.raises(InvalidPredicate, match="nowhere"), translate_errors():
        read(spark, table.path, where="nowhere = 1")


def test_a_condition_on_the_change_feed(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    table.delete("id = 1")
    frame = read(spark, table.path, readChangeFeed="true", startingVersion=0,
                 where="_change_type = 'delete'")
    assert frame.select("id").collect() == [(1,)]


BY_JVM = pytest.mark.classic("only a session with a JVM tells the source of filters and columns")
TIME, WALL = EVERY_TYPE["time"][2].as_py(), EVERY_TYPE["wall"][0].as_py()
COMPARED: dict[str, dict[str, Any]] = {
    **{name: {"2": 2, "-1": -1, "5": 5} for name in ("id", "byte")},
    "dec": {"-0.01": Decimal("-0.01"), "1.5": Decimal("1.5"), "2": 2}, "float": {"1.5D": 1.5, "2": 2},
    "part": {"'a'": "a", "''": "", r"'\\\''": "\\'"}, "flag": {"true": True},
    "bytes": {"X'00FF'": b"\x00\xff"},
    "day": {"DATE '1582-10-04'": dt.date(1582, 10, 4), "DATE '2024-02-29'": dt.date(2024, 2, 29)},
    "time": {"TIMESTAMP '2024-01-02 00:00:00Z'": TIME}, "wall": {f"TIMESTAMP_NTZ '{WALL}'": WALL}}
"""Columns, and what their values are compared with: as Spark's SQL has it, and as its filters do."""
SHAPES = {"{c} = {v}": F.EqualTo, "{c} < {v}": F.LessThan, "{c} <= {v}": F.LessThanOrEqual,
          "{c} > {v}": F.GreaterThan, "{c} >= {v}": F.GreaterThanOrEqual, "{c} <=> {v}": F.EqualNullSafe,
          "{c} IN ({v}, {v})": lambda path, value: F.In(path, (value, value)),
          "{c} IS NULL": lambda path, _: F.IsNull(path), "{c} IS NOT NULL": lambda path, _: F.IsNotNull(path)}
TEXTS = {"startswith({c}, {v})": F.StringStartsWith, "endswith({c}, {v})": F.StringEndsWith,
         "contains({c}, {v})": F.StringContains}


def test_a_filter_means_here_what_it_means_to_spark(spark, tmp_path):
    table = dn.create(tmp_path / "t", EVERY_TYPE)
    table.append(EVERY_TYPE.slice(1).set_column(0, "id", pa.array([5, None])))
    filters: dict[str, Any] = {}
    for name, values in COMPARED.items():
        for (text, value), (shape, kind) in itertools.product(
                values.items(), [*SHAPES.items(), *(TEXTS.items() if name == "part" else ())]):
            query, one = shape.format(c=name, v=text), kind((name,), value)
            filters |= {query: one, f"NOT ({query})": F.Not(one)}
    conditions = {query: condition_of([one], table.snapshot.schema) for query, one in filters.items()}
    left_out = {query.replace("NOT (", "").split()[0] for query, text in conditions.items() if text is None}
    assert left_out == {"float", "flag", "bytes"}  # whose order or statistics are not the same everywhere
    taken = [query for query, text in conditions.items() if text is not None]
    known = table.to_df(spark)
    truth = spark.createDataFrame(known.collect(), known.schema).selectExpr(
        "*", *(f"{query} AS `{number}`" for number, query in enumerate(taken))).collect()
    for number, query in enumerate(taken):
        ours = table.to_arrow(where=conditions[query]).to_pylist()
        spared = [row for row in truth if row[str(number)]]
        assert Counter((row["id"], row["dec"]) for row in ours) == Counter(
            (row["id"], row["dec"]) for row in spared), query


@BY_JVM
@pytest.mark.parametrize(("name", "properties"), crossed(2, [*COMPARED, "struct.x"], [
    {}, {"delta.enableDeletionVectors": True, **MAPPED}]))
def test_a_filter_keeps_the_rows_that_spark_keeps(spark, tmp_path, name, properties):
    table = dn.create(tmp_path / "t", EVERY_TYPE, partition_by="part", properties=properties)
    table.append(EVERY_TYPE.slice(1))
    table.delete("id = 2 AND dec IS NULL")
    frame, known = read(spark, table.path), table.to_df(spark)
    rows = spark.createDataFrame(known.collect(), known.schema)
    value = next(iter(COMPARED.get(name, {"1": 1})))
    for query in (f"{name} <= {value}", f"NOT ({name} <=> {value}) AND id > 0"):
        assert texts(frame.where(query).collect()) == texts(rows.where(query).collect()), query


@BY_JVM
@pytest.mark.parametrize("query", [
    "part LIKE 'a%'", "part LIKE '%_\\%%' OR endswith(part, 'b')"])
def test_a_filter_of_texts_keeps_the_rows_that_spark_keeps(spark, tmp_path, query):
    table = dn.create(tmp_path / "t", {"part": ["ab", "b", None, "a_%", "", "%"]})
    assert texts(read(spark, table.path).where(query).collect()) == texts(
        table.to_df(spark).where(query).collect())


@BY_JVM
def test_a_filter_of_padded_and_widened_columns_keeps_the_rows_that_spark_keeps(spark, tmp_path):
    table = dn.create(tmp_path / "t", "c char(5), v varchar(5), i int",
                      properties={"delta.enableTypeWidening": True})
    table.append({"c": ["ab", "abc  ", "x", None], "v": ["ab", "ab ", "x", None], "i": [1, 2, 3, None]})
    table.change_column("i", type="bigint")
    table.append({"c": ["q"], "v": ["q"], "i": [2**40]})
    frame, rows = read(spark, table.path), table.to_df(spark)
    for query in ("c = 'ab'", "c LIKE 'ab%'", "v >= 'ab '", "i IN (1, 1099511627776)", "NOT (i <=> 2)"):
        assert texts(frame.where(query).collect()) == texts(rows.where(query).collect()), query


LONG = "1234567890123456789012345678.91"
"""A decimal of which PySpark would hand on the first 28 digits."""


@BY_JVM
@pytest.mark.parametrize(("query", "java8"), crossed(2, [
    f"d = {LONG}BD", f"d IN ({LONG}BD, 0BD)", f"NOT (d <=> {LONG}BD)", f"d > {LONG[:-1]}BD",
    f"d <= {'9' * 38}BD", "wall < TIMESTAMP_NTZ '10000-01-01'",
    "wall IN (TIMESTAMP_NTZ '-0001-01-01', TIMESTAMP_NTZ '2024-01-02')",
    "time >= TIMESTAMP '+294247-01-10 00:00:00'", "day <> DATE '10000-01-01'", "day > DATE '-0044-03-15'",
    f"id = 1 AND d = {LONG}BD AND day < DATE '99999-01-01'"], ["false", "true"]))
def test_a_filter_by_what_python_cannot_have_is_left_to_spark(spark, tmp_path, query, java8):
    day = dt.date(2024, 1, 2)
    columns = "id long, d decimal(38, 2), wall timestamp_ntz, time timestamp, day date"
    table = dn.create(tmp_path / "t", columns)
    moment = dt.datetime(2024, 1, 2)
    for number, value in enumerate([Decimal(LONG), Decimal("0.00")]):
        table.append({"id": [number + 1], "d": [value], "wall": [moment], "day": [day],
                      "time": [moment.replace(tzinfo=dt.timezone.utc)]})
    with settings(spark, {"spark.sql.datetime.java8API.enabled": java8}):
        assert sorted(texts(read(spark, table.path).where(query).collect())) == sorted(
            texts(table.to_df(spark).where(query).collect()))


@BY_JVM
@pytest.mark.parametrize("condition", [None, "id < 50"])
@pytest.mark.parametrize("by", ["load", "a name"])
def test_a_filter_leaves_files_out(spark, tmp_path, by, condition):
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]}, partition_by="p")
    table.append({"id": [30, 40], "p": ["a", "b"]})
    for gone in (tmp_path / "t" / "p=b").iterdir():  # nobody may open them
        gone.unlink()
    options = {} if condition is None else {"where": condition}
    if by == "a name":
        dn.spark.register(spark)
        options = {}
    frame = read(spark, table.path, **options) if by == "load" else spark.table(f"deltanb.`{table.path}`")
    assert frame.where("p = 'a' AND id > 5").collect() == [(30, "a")]
    assert frame.where("p = 'a'").agg({"id": "max"}).collect() == [(30,)]
    with pytest.raises(PySparkException):
        frame.where("p = 'b'").collect()


@BY_JVM
def test_a_query_reads_the_columns_that_it_needs(spark, tmp_path):
    table = dn.create(tmp_path / "t", EVERY_TYPE, properties=MAPPED)
    frame = read(spark, table.path)
    plan = frame.where("byte < 0").select("part")._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"BatchScan deltanb\[part#\d+, byte#\d+\]", plan), plan
    assert frame.where("byte < 0").select("part").collect() == [("a",)]
    assert frame.select("struct.x").where("x = 1").collect() == [(1,)]
    assert frame.count() == 3


@pytest.mark.connect
def test_without_a_jvm_a_log_line_says_that_filters_skip_nothing(spark, tmp_path, caplog):
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    with caplog.at_level("INFO", "deltanb.spark"):
        dn.spark.register(spark)
    assert "no JVM in reach" in caplog.text
    assert read(spark, table.path).where("id = 1").collect() == [(1,)]


@BY_JVM
def test_another_session_of_the_jvm_has_the_format_too(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    other = spark.newSession()
    dn.spark.register(other)
    dn.spark.register(other)
    assert other.read.format("deltanb").load(table.path).where("id = 1").collect() == [(1,)]
    assert read(spark, table.path).where("id = 2").collect() == [(2,)]


@BY_JVM
def test_a_filtered_frame_stands_at_its_version(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    frame = read(spark, table.path)
    table.append({"id": [1, 3]})
    assert frame.where("id = 1").count() == 1 and frame.where("id = 3").count() == 0


@BY_JVM
def test_a_frame_with_a_schema_stands_at_the_version_of_its_first_query(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]})
    frame = spark.read.format("deltanb").schema("id long").load(table.path)
    assert frame.where("id = 1").count() == 1
    table.append({"id": [1, 3], "p": ["a", "b"]})
    assert frame.where("id = 1").count() == 1 and frame.count() == 2


@BY_JVM
def test_a_filter_of_changes_is_left_to_spark(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    table.delete("id = 1")
    frame = read(spark, table.path, readChangeFeed="true", startingVersion=0)
    assert frame.where("id = 1").select("_change_type").distinct().count() == 2
    assert frame.where("_commit_version = 1").select("id").collect() == [(1,)]


@pytest.mark.parametrize("pushing", ["false", "true"])
def test_queries_on_one_frame_do_not_see_filters_of_each_other(spark, tmp_path, pushing):
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3]})
    with settings(spark, {"spark.sql.python.filterPushdown.enabled": pushing}):
        frame = read(spark, table.path)
        assert frame.where("id = 1").collect() == [(1,)]
        assert frame.count() == 3
        assert sorted(frame.where("id = 1").union(frame.where("id = 2")).collect()) == [(1,), (2,)]
        assert sorted(frame.where("id > 1").collect()) == [(2,), (3,)]


def test_a_table_without_rows_has_its_columns(spark, tmp_path):
    table = dn.create(tmp_path / "t", "id long, name string")
    assert read(spark, table.path).toArrow().schema.names == ["id", "name"]
    assert read(spark, table.path).count() == 0


# --- writing --------------------------------------------------------------------------------------

def frame_of(spark, count: int, more: str = "") -> Any:
    return spark.sql(f"SELECT id, string(id % 2) p {more} FROM range(0, {count}, 1, 2)")


def test_a_table_is_created_and_appended_to_as_one_commit_each(spark, tmp_path):
    path = tmp_path / "t"
    frame = dn.create(tmp_path / "source", EVERY_TYPE).to_df(spark).repartition(2)
    write(frame, path, partitionBy="part", userMetadata="one")
    write(frame, path, txnAppId="app", txnVersion=3)
    write(frame, path, txnAppId="app", txnVersion=3)  # is there already
    table = dn.open(path)
    assert table.partition_columns == ("part",)
    assert [(e.operation, e.user_metadata) for e in table.history()] == [
        ("WRITE", None), ("CREATE TABLE AS SELECT", "one")]
    assert texts(table.to_arrow()) == texts(pa.concat_tables([EVERY_TYPE] * 2))
    assert table.snapshot.num_files > 2
    assert all(stats is not None for stats in table.snapshot.files["stats"].to_pylist())


def test_rows_are_replaced_by_condition_by_partition_and_whole(spark, tmp_path):
    path = tmp_path / "t"
    write(frame_of(spark, 6), path, partitionBy='["p"]')
    write(frame_of(spark, 4).where("id = 2"), path, "overwrite", replaceWhere="p = '0'")
    assert ids(path) == [1, 2, 3, 5]
    write(frame_of(spark, 10).where("id = 9"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert ids(path) == [2, 9]
    write(frame_of(spark, 20).where("id IN (12, 13)"), path, "overwrite", replaceWhere="id > 8 AND id < 100")
    assert ids(path) == [2, 12, 13]
    before = tree(path)
    with pytest.raises(ConstraintViolation, match="does not belong to where"):
        write(frame_of(spark, 4).coalesce(1), path, "overwrite", replaceWhere="p = '0'")
    assert tree(path) == before
    write(frame_of(spark, 2, ", 1 more"), path, "overwrite", overwriteSchema="TRUE")
    assert dn.open(path).schema.names == ["id", "p", "more"]
    assert ids(path) == [0, 1]


def test_columns_are_added_where_that_is_asked_for(spark, tmp_path):
    path = dn.create(tmp_path / "t", {"id": [1]}, properties=MAPPED).path
    with pytest.raises(SchemaMismatch, match=r'\.option\("mergeSchema", "true"\) adds new columns'):
        write(frame_of(spark, 2), path)
    write(frame_of(spark, 2), path, mergeSchema="true")
    assert rows_of(path) == texts([{"id": 0, "p": "0"}, {"id": 1, "p": None}, {"id": 1, "p": "1"}])
    assert dn.open(path).version == 1


def test_constraints_defaults_and_generated_columns_count(spark, tmp_path):
    path = tmp_path / "t"
    table = dn.create(path, """id long, p string, double_id long GENERATED ALWAYS AS (id * 2),
                               word string DEFAULT 'quack'""")
    table.add_constraint("small", "id < 5")
    write(frame_of(spark, 2), path)
    assert sorted(table.to_arrow().to_pylist(), key=str) == [
        {"id": n, "p": str(n), "double_id": 2 * n, "word": "quack"} for n in (0, 1)]
    before = tree(path)
    with pytest.raises(ConstraintViolation, match=r"CHECK constraint small \(id < 5\)"):
        write(frame_of(spark, 8).coalesce(1), path)  # of two tasks the other one may still write
    assert tree(path) == before


def test_a_feed_has_what_was_replaced(spark, tmp_path):
    table = dn.create(tmp_path / "t", {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    write(spark.range(3, 4), table.path, "overwrite", replaceWhere="id > 1")
    assert texts(table.changes(1).to_arrow().select(["id", "_change_type"])) == texts([
        {"id": 2, "_change_type": "delete"}, {"id": 3, "_change_type": "insert"}])


def test_identity_columns_are_refused_with_what_to_do(spark, tmp_path):
    table = dn.create(tmp_path / "t", "n long GENERATED ALWAYS AS IDENTITY, id long")
    before = tree(tmp_path / "t")
    with pytest.raises(UnsupportedProtocol, match=r"'n' .* is an identity column.*table\.append\(df\)"):
        write(spark.range(3), table.path)
    assert tree(tmp_path / "t") == before


def test_save_modes_that_spark_does_not_have_are_options(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(1), path, saveMode="error")
    with pytest.raises(TableAlreadyExists):
        write(spark.range(1), path, saveMode="error")
    write(spark.range(1), path, saveMode="ignore")
    assert dn.open(path).version == 0


def test_options_come_from_spark_as_people_write_them(spark, tmp_path):
    path = tmp_path / "t"
    write(frame_of(spark, 6), path, clusterBy="id", **{"delta.enableDeletionVectors": "true"})
    table = dn.open(path)
    assert table.detail()["clusteringColumns"] == ["id"]
    assert table.properties["delta.enableDeletionVectors"] == "true"
    new = spark.sql("SELECT id, 'new' p FROM range(4, 7, 1, 2)")
    write(new.alias("s"), path, "overwrite", replaceOn="t.id = s.id", targetAlias="t")
    write(new.where("id = 4"), path, "overwrite", replaceUsing="id")
    assert ids(path) == [0, 1, 2, 3, 4, 5, 6] and dn.open(path).count("p = 'new'") == 3
    write(table.to_df(spark).coalesce(1), path, "overwrite", dataChange="false")
    assert ids(path) == [0, 1, 2, 3, 4, 5, 6] and dn.open(path).snapshot.num_files == 1
    assert not any(one.data_change for one in table.log.read_commit(3) if hasattr(one, "data_change"))


@pytest.mark.classic("on Connect Spark plans when it writes, with the same errors as texts")
def test_what_spark_s_writers_do_not_pass_on_they_refuse_themselves(spark, tmp_path):
    """Should Spark pass it on one day, this fails, and the options that take its place can go."""
    new = frame_of(spark, 2).write.format("deltanb")
    for mode in ("error", "errorifexists", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            new.mode(mode).save(str(tmp_path / "t"))
    for by in ("partitionBy", "clusterBy"):
        writer = getattr(frame_of(spark, 2).write.format("deltanb").mode("append"), by)("p")
        with pytest.raises(PySparkException, match="do not match the existing table's"):
            writer.save(str(tmp_path / "t"))


def test_a_job_that_fails_leaves_nothing(spark, tmp_path):
    """One task: of two the other one may still be about to remove its file."""
    path = tmp_path / "t"
    dn.create(path, {"id": [1], "x": [1.0]})
    before = tree(path)
    rows = spark.range(0, 100_000, 1, 1).selectExpr("id", "IF(id = 99999, raise_error('a bad row'), 1.0D) x")
    with pytest.raises(PySparkException, match="a bad row"):
        write(rows, path)
    assert tree(path) == before
    with pytest.raises(PySparkException, match="a bad row"):
        write(rows, tmp_path / "new")
    assert tree(tmp_path / "new") == set()


def test_the_files_of_tasks_that_ended_well_go_where_another_failed(tmp_path):
    path = dn.create(tmp_path / "t", {"id": [1]}).path
    before = tree(tmp_path / "t")


    def begun():
        options = WriteOptions.of({"path": path}, overwrite=False)
        return writer(options, T.StructType().add("id", "long"), False)

    first, row = begun(), pa.record_batch({"id": [2]})
    message = first.write(iter([row]))
    assert len({name for name in tree(tmp_path / "t") - before if name.endswith(".parquet")}) == 1
    first.abort([message, None])
    assert tree(tmp_path / "t") == before
    with pytest.raises(IllegalStateError, match="has ended, and a task of it was still at work"):
        first.write(iter([row]))
    assert tree(tmp_path / "t") == before

    second = begun()
    message = second.write(iter([row]))
    second.abort([message])  # the commit was tried, and nobody may know whether it landed
    assert {file.path for file in message.files} <= tree(tmp_path / "t")


@pytest.mark.parametrize(("options", "pattern"), [
    ({"versionAsOf": "x"}, "'versionAsOf' .* is a whole number"),
    ({"versionAsOf": 1, "timestampAsOf": "2024-01-01"}, "contradict"),
    ({"mergeSchema": "true"}, "one of writing and of writing a stream, not of reading"),
    ({"versionOf": 1}, "no option 'versionof' of reading; did you mean versionAsOf"),
])
def test_options_that_make_no_sense_are_refused_by_name(spark, tmp_path, options, pattern):
    path = dn.create(tmp_path / "t", {"id": [1]}).path
    with pytest.raises(InvalidArgument, match=pattern), translate_errors():
        read(spark, path, **options)


def test_errors_name_their_kind_and_say_it_once(spark, tmp_path):
    with pytest.raises(PySparkException) as caught:
        read(spark, tmp_path / "nowhere")
    assert str(caught.value).count("deltanb.errors.TableNotFound: ") == 1
    with pytest.raises(TableNotFound), translate_errors():
        read(spark, tmp_path / "nowhere")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"), translate_errors():
        spark.table("nowhere").count()


def test_a_table_in_a_bucket_is_read_and_written_by_options_that_travel(spark, bucket, s3_server):
    options = s3_server.options
    path = f"{bucket}/t"
    write(frame_of(spark, 6), path, partitionBy="p", **options)
    frame = read(spark, path, **options).where("p = '1'")
    assert sorted(row.id for row in frame.collect()) == [1, 3, 5]
    with pytest.raises(InvalidArgument, match="aws_regoin"), translate_errors():
        read(spark, path, aws_regoin="x")
    with pytest.raises(DeltaError) as caught, translate_errors():
        read(spark, f"{bucket}/nowhere", **options)
    assert options["aws_secret_access_key"] not in str(caught.value)
