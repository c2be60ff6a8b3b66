"""Reading by the log's own list of files: Spark lists nothing, prunes by values, and tells versions apart."""

from __future__ import annotations

import array
import datetime as dt
import itertools
import json
import math
import operator
import random
import tempfile
import weakref
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import deltanb as dn
from deltanb.actions import Metadata
from deltanb.engines.arrow import deletion_vectors, statistics
from deltanb.engines.arrow import read as in_process
from deltanb.engines.spark import listed, plans
from deltanb.engines.spark.explain import explain_frame
from deltanb.engines.spark.read import read_table
from deltanb.engines.spark.session import settings
from deltanb.errors import DataFileNotFound
from deltanb.schema.types import STRING, StructField, StructType, to_arrow
from tests.engines.spark.test_read import PARTITION_VALUES, one_file, table_of, with_files
from tests.examples import first
from tests.helpers import schema_of

pytestmark = [pytest.mark.spark, pytest.mark.classic("lists of files are handed to a JVM of this process")]
THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
NUMBERS = itertools.count()


@pytest.fixture
def jobs(spark):
    """Counts the jobs of a test; every listing of Spark's own is one, for it may list nothing by itself."""
    before, context = spark.conf.get(THRESHOLD), spark.sparkContext
    group = f"listed {next(NUMBERS)}"
    context.setJobGroup(group, "")
    spark.conf.set(THRESHOLD, "0")
    yield lambda: len(context.statusTracker().getJobIdsForGroup(group))
    spark.conf.set(THRESHOLD, before)
    for key in ("spark.jobGroup.id", "spark.job.description"):
        context.setLocalProperty(key, None)


@pytest.fixture
def parts(tmp_path):
    """60 files of 3 partitions, all in one folder: their names do not tell the partition."""
    files = [one_file(tmp_path, f"f{i}.parquet", pa.table({"id": [i]}), p=str(i % 3)) for i in range(60)]
    return with_files(tmp_path, schema_of(id="long", p="integer"), files, ["p"])


def test_a_session_in_this_process_is_given_lists(spark) -> None:
    assert listed.is_possible(spark)


def test_planning_runs_no_job_and_lists_no_folder(spark, tmp_path, parts, jobs) -> None:
    frame = dn.open(tmp_path).to_df(spark)
    frame.filter("id < 30 AND p = 1")._jdf.queryExecution().executedPlan()
    assert jobs() == 0
    spark.read.schema("id long").parquet(str(tmp_path / "f1.parquet"))
    assert jobs() == 1, "this is how a listing is counted"


def test_filters_on_partition_columns_leave_files_out(spark, tmp_path, parts, capsys) -> None:
    frame = dn.open(tmp_path).to_df(spark)
    frame.filter("p = 1").explain()
    assert "PartitionFilters: [isnotnull(p#" in capsys.readouterr().out
    for i in range(60):
        if i % 3 != 1:
            (tmp_path / f"f{i}.parquet").unlink()
    assert sorted(row.id for row in frame.filter("p = 1").collect()) == list(range(1, 60, 3))
    assert frame.filter("p > 7").count() == 0
    values = spark.createDataFrame([(1,)], "q int").hint("broadcast")  # known when the query runs
    assert frame.join(values, F.col("p") == F.col("q")).filter("q < 9").count() == 20
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        frame.count()


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partition_values_are_compared_as_their_type(spark, tmp_path, kind) -> None:
    values = [value for value in PARTITION_VALUES[kind] if value is not None]
    rows = pa.table({"id": range(len(values)), "p": values}, schema=to_arrow(schema_of(id="long", p=kind)))
    table_of(tmp_path, rows, partition_by=["p"])
    frame = dn.open(tmp_path).to_df(spark)
    for place, value in enumerate(rows.column("p").to_pylist()):
        constant = F.lit(value).cast(frame.schema["p"].dataType)
        assert [row.id for row in frame.filter(F.col("p") == constant).collect()] == [place]
        assert sorted(row.id for row in frame.filter(F.col("p") != constant).collect()) == [
            other for other in range(len(values)) if other != place]


@pytest.mark.parametrize("bound", ["1kb", "64kb"])
@pytest.mark.parametrize("vectors", [False, True])
def test_files_are_divided_among_tasks_as_sparks_own_reader_does(spark, tmp_path, vectors, bound) -> None:
    """By their bytes and the cost of opening one; those with deleted rows are a list of their own."""
    table = dn.create(tmp_path, {"id": list(range(40)), "p": [n // 2 for n in range(40)]}, partition_by="p",
                      properties={"delta.enableDeletionVectors": "true"})
    if vectors:
        table.delete("id % 4 = 1")  # of every second file
    files = [str(path) for path in tmp_path.rglob("*.parquet")]
    with settings(spark, {"spark.sql.files.openCostInBytes": "1kb", "spark.sql.files.minPartitionNum": "1",
                          "spark.sql.files.maxPartitionBytes": bound}):
        theirs = spark.read.schema("id long").parquet(*files).rdd.getNumPartitions()
        ours = table.to_df(spark).rdd.getNumPartitions()
    assert theirs <= ours <= theirs * (1 + vectors)
    assert (theirs >= 20) == (bound == "1kb") and (theirs < 4) == (bound == "64kb")


def test_a_cached_version_does_not_answer_for_another_one(spark, tmp_path) -> None:
    table = dn.create(tmp_path, {"id": [1, 2]})
    old = table.to_df(spark).cache()
    try:
        assert old.count() == 2
        table.append({"id": [3]})
        new = table.to_df(spark)
        assert new.count() == 3
        assert not new.sameSemantics(old)
        assert dn.open(tmp_path).to_df(spark).sameSemantics(new), "the same files are the same relation"
        assert new.join(dn.open(tmp_path, version=0).to_df(spark), "id").count() == 2
    finally:
        old.unpersist()


@pytest.fixture
def made(monkeypatch):
    """How many files each list had that Spark was given."""
    lengths, file_list = [], listed.file_list

    def counted(session, root, version, files, *more):
        lengths.append(files.num_rows)
        return file_list(session, root, version, files, *more)

    monkeypatch.setattr(listed, "file_list", counted)
    return lengths


def test_a_version_is_listed_once_and_no_version_answers_for_another(spark, tmp_path, made) -> None:
    table = dn.create(tmp_path, {"id": [1, 2]})
    one, two = table.to_df(spark), dn.open(tmp_path).to_df(spark)
    assert made == [1]
    assert one.join(two, one.id == two.id).count() == 2, "frames of one list are told apart"
    assert table.to_df(spark, columns=[]).count() == 2
    made.clear()
    table.append({"id": [3]})
    assert sorted(row.id for row in table.to_df(spark).collect()) == [1, 2, 3]
    assert made == [2]
    table.delete("id < 3")
    assert [row.id for row in table.to_df(spark).collect()] == [3]
    assert sorted(row.id for row in dn.open(tmp_path, version=0).to_df(spark).collect()) == [1, 2]


def test_a_list_is_kept_for_the_values_that_are_in_it(spark, tmp_path, parts, made) -> None:
    table = dn.open(tmp_path)
    for _ in range(2):
        assert sorted(row.id for row in table.to_df(spark, ["id"]).collect()) == list(range(60))
        assert table.to_df(spark).filter("p = 1").count() == 20
        assert table.to_df(spark, where="p = 1").count() == 20
    assert made == [60, 60, 20, 20], "files that a condition chose are listed for it alone"


def test_a_file_that_went_since_it_was_listed_is_named(spark, tmp_path, parts) -> None:
    table = dn.open(tmp_path)
    assert table.to_df(spark).count() == 60
    (tmp_path / "f7.parquet").unlink()
    with pytest.raises(DataFileNotFound, match=r"f7\.parquet"):
        table.to_df(spark)


def test_each_file_has_its_own_values_whatever_its_path_is(spark, tmp_path, made) -> None:
    names = ("a b/one.parquet", "two.parquet", "ü/three.parquet", "four.parquet")
    files = [one_file(tmp_path, name, pa.table({"id": [i]}), p=str(i)) for i, name in enumerate(names)]
    snapshot = with_files(tmp_path, schema_of(id="long", p="integer"), files, ["p"])
    for _ in range(2):
        assert sorted(map(tuple, read_table(snapshot, None, spark).collect())) == [(i, i) for i in range(4)]
    assert made == [4]


def test_a_partition_value_that_was_changed_is_another_relation(spark, tmp_path) -> None:
    file = one_file(tmp_path, "f.parquet", pa.table({"id": [1]}), p="1")
    first = with_files(tmp_path / "a", schema_of(id="long", p="integer"), [
        file.replace(path=str(tmp_path / "f.parquet"))], ["p"])
    second = with_files(tmp_path / "b", schema_of(id="long", p="integer"), [
        file.replace(path=str(tmp_path / "f.parquet"), partition_values={"p": "2"})], ["p"])
    one, two = (read_table(snapshot, None, spark) for snapshot in (first, second))
    assert not one.sameSemantics(two)
    assert sorted(row.p for row in one.union(two).collect()) == [1, 2]


def test_what_the_session_ignores_is_not_ignored(spark, tmp_path) -> None:
    frame = dn.create(tmp_path, {"id": [1, 2]}).to_df(spark)
    (file,) = tmp_path.glob("*.parquet")
    file.unlink()
    ignoring = settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"})
    with ignoring, pytest.raises(Exception, match="FILE_NOT_EXIST"):
        frame.collect()


def test_a_size_that_the_log_has_wrong_costs_no_rows(spark, tmp_path) -> None:
    file = one_file(tmp_path, "f.parquet", pa.table({"id": range(100)})).replace(size=7)
    snapshot = with_files(tmp_path, schema_of(id="long"), [file])
    assert read_table(snapshot, None, spark).count() == 100


def test_without_the_class_files_are_read_by_name(spark, tmp_path, parts, monkeypatch) -> None:
    monkeypatch.setattr(listed, "_classes", weakref.WeakKeyDictionary())
    monkeypatch.setattr(listed, "source", lambda _: "package deltanb; class LoggedFiles extends Unknown {}")
    assert not listed.is_possible(spark)
    assert dn.open(tmp_path).to_df(spark).filter("p = 2").count() == 20


def test_files_and_where_they_are(spark, tmp_path, parts) -> None:
    frame = dn.open(tmp_path).to_df(spark)
    assert sorted(frame.inputFiles()) == sorted(
        f"file://{tmp_path}/f{i}.parquet" for i in range(60))


def test_plain_paths_and_others_are_listed_together(spark, tmp_path) -> None:
    files = [one_file(tmp_path, name, pa.table({"id": [i]})) for i, name in enumerate(
        ("f.parquet", "x/g-0.c000.zstd.parquet", "a b/h ü.parquet", "_hidden.parquet", "x/again.parquet"))]
    files[1] = files[1].replace(path=str(tmp_path / "x/g-0.c000.zstd.parquet"))
    files.append(files[4].replace(path="x/../x/again.parquet"))
    snapshot = with_files(tmp_path, schema_of(id="long"), files)
    ids = sorted(row.id for row in read_table(snapshot, None, spark).collect())
    assert ids == sorted(in_process.read_table(snapshot, snapshot.files).column("id").to_pylist())
    assert ids == [0, 1, 2, 3, 4, 4]


# --- statistics -----------------------------------------------------------------------------------------


def files_read(frame) -> int:
    """How many files Spark means to read for a frame."""
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    every = (leaves.apply(place) for place in range(leaves.size()))
    return sum(leaf.selectedPartitions().totalNumberOfFiles() for leaf in every
               if leaf.getClass().getSimpleName() == "FileSourceScanExec")


LONG = "x" * 31
UTC = dt.timezone.utc
TIMES = [(1850, 6, 1), (1969, 12, 31, 23, 59, 59, 999_999), (2020, 2, 29, 12, 0, 0, 1),
         (2020, 2, 29, 12, 0, 0, 999), (2020, 2, 29, 12, 0, 0, 1_000), (2020, 2, 29, 23, 30), (9999, 12, 31)]
DRAWN = {
    "n": [-(2**31), -3, 0, 1, 2, 7, 2**31 - 1],
    "S": [-(2**15), -1, 0, 5, 2**15 - 1],
    "d": [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.0, 1e300, math.inf, math.nan],
    "f": [-2.5, -0.0, 0.0, 0.1, 16777216.0, math.nan],
    "m": [Decimal(value) for value in ("-1.50", "0.00", "0.01", "9" * 17 + ".98", "9" * 17 + ".99")],
    "at": [dt.datetime(*day, tzinfo=UTC) for day in TIMES],
    "local": [dt.datetime(*day) for day in TIMES],
    "day of": [dt.date(1500, 1, 1), dt.date(1582, 10, 15), dt.date(1969, 12, 31), dt.date(2020, 2, 29)],
    "t": ["", "a", "B", "b", "ä", "\uffff", "😀", LONG, LONG + "y",
          LONG + "yz", LONG + "😀", LONG + "\uffff"],
}
SCHEMA = schema_of(id="long", n="integer", S="short", d="double", f="float", m="decimal(19,2)",
                   at="timestamp", local="timestamp_ntz", **{"day of": "date"}, t="string")


def drawn_files(folder, draw: random.Random) -> list:
    """24 files of few different values; some have no statistics, some columns no value."""
    files, metadata = [], Metadata("t", SCHEMA.to_json())
    for number in range(24):
        columns = {"id": [number * 4 + i for i in range(4)]}
        for name, values in DRAWN.items():
            one, two = draw.sample(values, 2)
            some = draw.choice([[None], [one], [two], [None, one, two]])
            columns[name] = [draw.choice(some) for _ in range(4)]
        rows = pa.table(columns, schema=to_arrow(SCHEMA))
        stats = statistics.from_table(rows, SCHEMA, metadata)
        stats = draw.choice([stats] * 5 + [None, "{", '{"numRecords":4}'])
        files.append(one_file(folder, f"f{number}.parquet", rows).replace(stats=stats))
    return files


def drawn_condition(draw: random.Random):
    """A condition on one column, or some of them joined by AND and OR."""
    name = draw.choice(list(DRAWN))
    kind = SCHEMA.field(name).type

    def constant():
        value = draw.choice([*DRAWN[name], None])
        return F.lit(value).cast("int" if str(kind) == "integer" else str(kind))

    one, how = F.col(name.upper() if name == "n" else f"`{name}`"), draw.randrange(9)
    if how < 6:
        compare = [operator.eq, operator.lt, operator.le, operator.gt, operator.ge, operator.ne][how]
        condition = compare(one, constant()) if draw.random() < 0.5 else compare(constant(), one)
    else:
        members = [constant() for _ in range(draw.choice([1, 3, 12]))]
        condition = [one.isNull(), one.isNotNull(), one.isin(members)][how - 6]
    match draw.randrange(7):
        case 0 | 1:
            return condition & drawn_condition(draw)
        case 2 | 3:
            return condition | drawn_condition(draw)
    return condition


@pytest.mark.parametrize("seed", first(1, of=3))
def test_statistics_leave_out_no_row(spark, tmp_path, seed) -> None:
    # Spark's own pushdown loses NaN by the bounds of Parquet's row groups: it would hide that we do.
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false",
                          "spark.sql.session.timeZone": "America/New_York"}):
        leave_out_no_row(spark, tmp_path, seed)


def leave_out_no_row(spark, tmp_path, seed) -> None:
    draw = random.Random(seed)
    snapshot = with_files(tmp_path, SCHEMA, drawn_files(tmp_path, draw))
    plain = spark.read.parquet(*(str(tmp_path / f"f{i}.parquet") for i in range(24)))
    fewer = 0
    for _ in range(60):
        condition = drawn_condition(draw)
        frame = read_table(snapshot, None, spark).filter(condition).select("id")
        expected = sorted(row.id for row in plain.filter(condition).select("id").collect())
        assert sorted(row.id for row in frame.collect()) == expected, str(condition)
        if "LocalTableScan" not in str(frame._jdf.queryExecution().executedPlan()):  # not empty beforehand
            assert explain_frame(snapshot, frame).opened == files_read(frame), str(condition)
        fewer += bool(expected) and files_read(frame) < 24
    assert fewer > 10


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_a_filter_reads_the_files_that_may_have_its_rows(spark, tmp_path, mode) -> None:
    table = dn.create(tmp_path, {"id": [0], "Name": ["n0"]}, properties={"delta.columnMapping.mode": mode})
    for i in range(1, 6):
        table.append({"id": [i], "Name": [f"n{i}"]})
    frame = table.to_df(spark)
    for condition, expected in (
            ("id = 3", 1), ("3 < ID", 2), ("id IN (0, 5, 9)", 2), ("id IS NULL", 0), ("id IS NOT NULL", 6),
            ("name >= 'n4'", 2), ("id = 3 AND Name = 'n4'", 0), ("id = 3 OR id = 4", 2),
            ("id = 3 OR name = 'n5'", 2), ("id = 3 OR id + 1 = 3", 6),
            ("(id < 1 AND name > 'n') OR id = 3", 2), ("id + 1 = 3", 6), ("id <=> 3", 6),
            ("_metadata.file_size > 0 AND id < 1", 1)):
        assert files_read(frame.filter(condition)) == expected, condition
    renamed = frame.select(F.col("id").alias("Name"), F.col("Name").alias("id"))
    assert files_read(renamed.filter("id = 'n2'")) == 1


@pytest.mark.parametrize(("kind", "bounds", "expected"), [
    ("double", '1.5 "NaN"', {"x = 1": 0, "x < 1.5": 0, "x <= 1.5": 1, "x > 9": 1, "x >= 2 AND x < 9": 1}),
    ("double", "1.5 2", {"x > 2": 1, "x > 2 AND x < 9": 0, "x IN (3D, 0D)": 0, "x IN (3D, double('NaN'))": 1,
                         "x > 2 AND (x < 9 OR x = 7)": 1, "x = 3 OR x = 1": 0, "x > 2 OR x < 1": 1,
                         "x >= 3 AND x <= double('NaN')": 1, "x < double('NaN')": 1}),
    ("double", '"-Infinity" 0.0', {"x = -5": 1, "x = 1": 0, "x = -0D": 1}),
    ("double", "-0.0 0", {"x < 0": 0, "x = 0": 1, "x = -0D": 1, "x < -0D": 0}),
    ("float", "0.1 0.1", {"x = 0.1f": 1, "x < 0.1f": 0, "x = 0.2f": 0}),
    ("decimal(19,2)", "99999999999999999.98 99999999999999999.98", {
        "x = 99999999999999999.98": 1, "x = 99999999999999999.99": 0, "x < 99999999999999999.98": 0}),
    ("decimal(19,2)", "0.125 0.126", {"x = 7": 1, "x = 0": 1}),
    ("timestamp", '"2020-01-01T00:00:00.000Z" "2020-01-01T00:00:00.000Z"', {
        "x = timestamp'2020-01-01 00:00:00.000999Z'": 1, "x = timestamp'2020-01-01 00:00:00.001Z'": 0,
        "x < timestamp'2020-01-01 00:00:00Z'": 0, "x >= timestamp'2020-01-01 00:00:00'": 0,
        "x >= date'2020-01-01'": 0, "x >= timestamp'2019-12-31 19:00:00'": 1}),
    ("timestamp", '"2020-01-01T00:00:00.000-05:00" "2020-01-01T00:00:00.000-05:00"', {
        "x = timestamp'2020-01-01 05:00:00Z'": 1, "x = timestamp'2020-01-01 00:00:00Z'": 0}),
    ("timestamp", '"2020-01-01T00:00:00.000" "2020-01-01T00:00:00.000"', {"x > timestamp'2030-01-01'": 1}),
    ("timestamp_ntz", '"2020-01-01T00:00:00.000" "2020-01-01T00:00:00.000"', {
        "x = timestamp_ntz'2020-01-01 00:00:00.000999'": 1, "x > timestamp_ntz'2020-01-01 00:00:00.001'": 0,
        "x < timestamp_ntz'2020-01-01'": 0}),
    ("timestamp", '"1850-01-01T00:00:00.000Z" "1850-01-01T00:00:00.000Z"', {"x > timestamp'2030-01-01'": 1}),
])
def test_bounds_mean_what_they_mean_to_the_process(spark, tmp_path, kind, bounds, expected) -> None:
    low, high = bounds.split()
    file = one_file(tmp_path, "f.parquet", pa.table({"x": [None]}, schema=to_arrow(schema_of(x=kind))))
    file = file.replace(stats=f'{{"numRecords":9,"minValues":{{"x":{low}}},"maxValues":{{"x":{high}}}}}')
    frame = read_table(with_files(tmp_path, schema_of(x=kind), [file]), None, spark)
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        files = {condition: files_read(frame.filter(condition)) for condition in expected}
    assert files == expected


def test_files_with_deleted_rows_are_listed_once_and_left_out_by_a_filter(
    spark, tmp_path, made, monkeypatch
) -> None:
    table = dn.create(tmp_path, {"id": [0, 1], "p": [0, 0]}, partition_by=["p"],
                      properties={"delta.enableDeletionVectors": "true"})
    for i in range(1, 6):
        table.append({"id": [2 * i, 2 * i + 1], "p": [i % 2, i % 2]})
    table.delete("id IN (0, 5, 7)")
    loaded, load = [], deletion_vectors.load
    monkeypatch.setattr(
        deletion_vectors, "load", lambda *args, **more: loaded.append(1) or load(*args, **more))
    frame = table.to_df(spark)
    assert made == [3, 3]
    assert len(loaded) == 3
    for condition, files, ids in (
            ("id = 4", 1, [4]), ("id = 5", 1, []), ("id = 6 OR id = 9", 2, [6, 9]), ("id > 90", 0, []),
            ("p = 1 AND id < 7", 2, [2, 3, 6]), ("id >= 0", 6, [1, 2, 3, 4, 6, 8, 9, 10, 11])):
        chosen = frame.filter(condition)
        assert (files_read(chosen), sorted(row.id for row in chosen.collect())) == (files, ids), condition
    again = table.to_df(spark)
    assert sorted(row.id for row in again.collect()) == [1, 2, 3, 4, 6, 8, 9, 10, 11]
    assert frame.join(again, frame.id == again.id).count() == 9
    assert (made, len(loaded)) == ([3, 3], 3), "nothing is looked up a second time"
    table.delete("id = 9")
    assert sorted(row.id for row in table.to_df(spark).collect()) == [1, 2, 3, 4, 6, 8, 10, 11]
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3, 4, 6, 8, 9, 10, 11]


def test_very_many_deleted_rows_are_not_kept(spark, tmp_path, made, monkeypatch) -> None:
    monkeypatch.setattr(plans, "MAX_DELETED", 10)
    table = dn.create(tmp_path, {"id": [0, 1]}, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 0")
    assert [table.to_df(spark).count() for _ in range(2)] == [1, 1]
    assert made == [1, 1]


def test_what_spark_says_of_a_file_is_no_column_of_its_name(spark, tmp_path) -> None:
    names = ("file_size", "row_index", "file_block_start", "file_block_length")
    table = dn.create(tmp_path, {name: [-5] for name in names})
    table.append({name: [-7] for name in names})
    frame = table.to_df(spark)
    for name in names:
        assert frame.filter(f"_metadata.{name} >= 0").count() == 2
        assert frame.filter(f"{name} = -7").count() == 1


@pytest.mark.parametrize("mark", ["__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS"])
def test_texts_that_are_compared_otherwise_leave_no_file_out(spark, tmp_path, mark) -> None:
    plain, marked = schema_of(t="string"), StructType([StructField("t", STRING, True, {mark: "char(3)"})])
    files = []
    for name in "ab":
        rows = pa.table({"t": [name]})
        stats = statistics.from_table(rows, plain, Metadata("t", plain.to_json()))
        files.append(one_file(tmp_path, f"{name}.parquet", rows).replace(stats=stats))
    for folder, schema, expected in (("plain", plain, 1), ("marked", marked, 2)):
        some = [file.replace(path=str(tmp_path / file.path)) for file in files]
        frame = read_table(with_files(tmp_path / folder, schema, some), None, spark)
        assert files_read(frame.filter("t = 'a'")) == expected


def test_files_are_skipped_whatever_the_size_of_their_statistics(spark, tmp_path) -> None:
    padding, files = "x" * (1 << 24), []
    for i in range(4):
        file = one_file(tmp_path, f"f{i}.parquet", pa.table({"id": [i]}))
        stats = {"numRecords": 1, "minValues": {"id": i}, "maxValues": {"id": i}, "padding": padding}
        files.append(file.replace(stats=None if i == 1 else json.dumps(stats)))  # one without, between others
    frame = read_table(with_files(tmp_path, schema_of(id="long"), files), None, spark)
    assert [files_read(frame.filter(f"id = {i}")) for i in range(4)] == [2, 1, 2, 2]
    assert frame.filter("id = 3").count() == 1


def test_statistics_are_left_on_the_disk_without_a_name(spark, tmp_path, monkeypatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    frame = table.to_df(spark)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert files_read(frame.filter("id = 2")) == 1


def test_without_room_for_statistics_all_files_are_read_and_it_is_said(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    with pytest.warns(UserWarning, match="set TMPDIR"):
        frame = table.to_df(spark)
    assert files_read(frame.filter("id = 2")) == 2
    assert frame.filter("id = 2").count() == 1


@pytest.mark.parametrize("cut", [0, 1])
def test_statistics_in_pieces_are_written_in_order(cut) -> None:
    texts = ["left out", "one", None, "", "zwölf", None][cut:]
    stats = pa.chunked_array([pa.array(texts[:3]).slice(1 - cut), pa.array(texts[3:])])
    with listed._on_disk(stats) as path:
        content = Path(path).read_bytes()
    lengths, text = array.array("i", content[:20]), content[20:]
    assert lengths.tolist() == [3, -1, 0, 6, -1]
    assert text.decode() == "onezwölf"
