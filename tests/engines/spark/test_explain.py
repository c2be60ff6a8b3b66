"""Which files a query of Spark opens: as many as its plan, in the table's names, with a reason each."""

from __future__ import annotations

import tempfile

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import deltanb as dn
from deltanb.engines.spark.explain import _REASONS, explain_frame
from deltanb.errors import InvalidArgument
from tests.engines.spark.test_listed import files_read
from tests.examples import crossed
from tests.table_kinds import HANDLES

pytestmark = pytest.mark.spark
classic = pytest.mark.classic("a plan of another process cannot be looked into")

FEATURES = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "names": {"delta.columnMapping.mode": "name"},
    "ids": {"delta.columnMapping.mode": "id"},
    "row ids": {"delta.enableRowTracking": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
}


@pytest.fixture
def ducks(feature, tmp_path):
    """16 files of two ponds and ages that rise; with vectors, two of them have a deleted row."""
    table = dn.create(tmp_path / "ducks", {"pond": ["a", "b"], "age": [0, 1], "note": ["x", None]},
                      partition_by="pond", properties=FEATURES[feature])
    for i in range(1, 8):
        ages = [10 * i, 10 * i + 1, 10 * i + 2]
        table.append({"pond": ["a", "b", "b"], "age": ages, "note": ["x", "y", "z"]})
    table.delete("age IN (12, 52)")
    return table


QUERIES = {
    "nothing": lambda df: df,
    "a column": lambda df: df.where("age > 35"),
    "a partition": lambda df: df.where("pond = 'b'"),
    "both": lambda df: df.where("pond = 'b' AND age BETWEEN 20 AND 45").select("note"),
    "none left": lambda df: df.where("age > 1000"),
    "no value": lambda df: df.where("note IS NULL"),
    "groups": lambda df: df.where("age >= 50").groupBy("pond").count(),
    "a union": lambda df: df.where("age < 15").select("age").union(df.where("age > 65").select("age")),
    "a subquery": lambda df: df.where(F.col("age") > df.where("age < 15").agg(F.max("age")).scalar()),
}


@classic
@pytest.mark.parametrize(("feature", "query"), crossed(4, list(FEATURES), list(QUERIES)))
def test_the_files_are_those_that_the_plan_reads(spark, ducks, query) -> None:
    frame = QUERIES[query](ducks.to_df(spark))
    shown = ducks.explain(frame)
    assert (shown.table, shown.version, shown.num_files) == ("ducks", ducks.version, ducks.snapshot.num_files)
    assert shown.opened == len({file for file, _ in shown.opened_files})
    if query not in ("a subquery", "a union"):
        assert shown.opened == files_read(frame)
        assert (shown.opened < shown.num_files) == (query != "nothing")
        assert sum(one.spared for one in shown.conditions) == shown.spared
    assert not any("__deltanb" in text or "col-" in text
                   for one in shown.conditions for text in (one.sql, one.reason))
    assert all(one.reason or one.spared for one in shown.conditions)


@classic
@pytest.mark.parametrize("feature", ["plain", "vectors"])
def test_a_file_that_two_scans_open_counts_once(spark, ducks) -> None:
    df = ducks.to_df(spark)
    union = QUERIES["a union"](df)
    shown = ducks.explain(union)
    assert shown.opened == files_read(union) == ducks.explain(df.where("age < 15 OR age > 65")).opened
    assert ducks.explain(df.union(df)).opened == shown.num_files


@classic
@pytest.mark.parametrize("feature", ["vectors"])
def test_a_past_version_is_explained_as_the_frame_reads_it(spark, ducks) -> None:
    past = dn.open(ducks.path, version=3)
    shown = ducks.explain(past.to_df(spark).where("age > 25"))
    assert (shown.version, shown.num_files) == (3, past.snapshot.num_files)


REASONS = {
    "later": lambda df: df.join(df.sparkSession.createDataFrame([("a",)], "q string").hint("broadcast"),
                                F.col("pond") == F.col("q")).where("q < 'b'"),
    "kind": lambda df: df.where("note LIKE 'x%y'"),
    "constant": lambda df: df.where("age > length(note)"),
    "function": lambda df: df.where("age * 2 > 5"),
    "bounds": lambda df: df.where("born.year > 5 AND born IS NOT NULL"),
    "after": lambda df: df.where("pond = 'b' OR age = 1"),
    "statistics": lambda df: df.where("age = 1"),
}


@classic
@pytest.mark.parametrize("reason", _REASONS)
def test_a_filter_that_skips_nothing_says_why(spark, tmp_path, reason, monkeypatch) -> None:
    table = dn.create(tmp_path / "t", {"pond": ["a", "b"], "age": [1, 2], "note": ["x", "y"],
                                       "born": [{"year": 1}, {"year": 2}]}, partition_by="pond")
    if reason == "statistics":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.warns(UserWarning, match="set TMPDIR"):
            df = table.to_df(spark)
    else:
        df = table.to_df(spark)
    frame = REASONS[reason](df)
    pattern = _REASONS[reason].partition("{}")[0]
    assert [one for one in table.explain(frame).conditions if one.reason.startswith(pattern)], \
        f"{table.explain(frame)}\n{frame._jdf.queryExecution()}"


@classic
@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_reason_has_the_tables_name_of_its_column(spark, tmp_path, mode) -> None:
    table = dn.create(tmp_path / "t", {"age": [1], "note": [b"x"]},
                      properties={"delta.columnMapping.mode": mode})
    shown = table.explain(table.to_df(spark).where("note IS NULL AND age > 5"))
    assert "Spark is given no bounds of note" in {one.reason for one in shown.conditions}
    assert {one.sql for one in shown.conditions} >= {"(note IS NULL)", "(age > 5L)"}


@classic
def test_files_without_statistics_are_counted(spark, tmp_path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [5]})
    table.set_properties({"delta.dataSkippingNumIndexedCols": "0"})
    table.append({"id": [9]})
    last = table.explain(table.to_df(spark).where("id = 1")).conditions[-1]
    assert (last.spared, last.reason) == (1, "1 of the files left has no statistics of its columns")


@classic
def test_a_frame_of_another_table_is_refused(spark, tmp_path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(InvalidArgument, match="reads no files of table t"):
        table.explain(dn.create(tmp_path / "u", {"id": [1]}).to_df(spark))


@pytest.mark.connect
def test_a_plan_of_connect_cannot_be_looked_into(spark, tmp_path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(InvalidArgument, match="Spark Connect"):
        explain_frame(table.snapshot, table.to_df(spark))


@classic
@pytest.mark.parametrize("kind", HANDLES, ids=lambda kind: kind.__name__)
def test_a_query_of_each_kind_of_table_is_explained(spark, tmp_path, kind) -> None:
    with kind(tmp_path, {"id": [1, 2], "age": [3, 9]}) as home:
        if not hasattr(home.table, "explain"):
            pytest.skip("it is no Delta table: its rows are read by PyIceberg")
        frame = home.table.to_df(spark).where("age > 100")
        if home.table.log.store.local_path("") is None:
            with pytest.raises(InvalidArgument, match="its files are read in this process; pass a condition"):
                home.table.explain(frame)
            return
        shown = home.table.explain(frame)
        assert (shown.num_files, shown.opened, files_read(frame)) == (1, 0, 0)
        assert [one.sql for one in shown.conditions if one.spared] == ["(age > 100L)"]
