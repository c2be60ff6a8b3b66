"""Names of Spark's own catalog for the data source: refused with the way out, which works."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from pyspark.errors import PySparkException

import deltanb as dn
from deltanb.engines.spark.reachable import HIDDEN
from deltanb.errors import InvalidArgument, TableNotFound
from deltanb.sources.spark.names import add_views
from deltanb.sources.spark.source import translate_errors
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog

pytestmark = pytest.mark.spark

WAY_OUT = "CREATE TEMPORARY VIEW name USING deltanb"
REFUSED: dict[str, Callable[[Any, str], Any]] = {
    "saveAsTable": lambda s, path: s.range(3).write.format("deltanb").saveAsTable("dead"),
    "saveAsTable, append": lambda s, path: (
        s.range(3).write.format("deltanb").mode("append").saveAsTable("dead")),
    "writeTo": lambda s, path: s.range(3).writeTo("dead").using("deltanb").create(),
    "AS SELECT": lambda s, path: s.sql("CREATE TABLE dead USING deltanb AS SELECT 1 AS id"),
    "AS SELECT, path": lambda s, path: s.sql(
        f"CREATE TABLE dead USING deltanb OPTIONS (path '{path}') AS SELECT 1 AS id"),
    "LOCATION": lambda s, path: s.sql(f"CREATE TABLE dead USING deltanb LOCATION '{path}'"),
    "OPTIONS": lambda s, path: s.sql(f"CREATE TABLE dead USING deltanb OPTIONS (path '{path}')"),
    "createTable": lambda s, path: s.catalog.createTable("dead", path=path, source="deltanb"),
}


@pytest.fixture
def names(spark: Any) -> Iterator[Callable[[], list[str]]]:
    """The names of the session's catalog; those that a test leaves are dropped."""
    def listed() -> list[str]:
        return [one.name for one in spark.catalog.listTables() if one.name in ("dead", "alive")]

    yield listed
    spark.sql("DROP TABLE IF EXISTS dead")
    spark.sql("DROP VIEW IF EXISTS alive")


@pytest.mark.parametrize("way", REFUSED)
def test_a_name_is_refused_with_the_way_out_and_none_is_left(
    way: str, tmp_path: Any, spark: Any, names: Callable[[], list[str]]
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(InvalidArgument, match=WAY_OUT), translate_errors():
        REFUSED[way](spark, table.path)
    assert names() == [] and table.version == 0


def test_a_name_that_spark_made_without_asking_says_how_it_goes(
    spark: Any, names: Callable[[], list[str]]
) -> None:
    """Of a table with columns Spark asks the source nothing."""
    spark.sql("CREATE TABLE dead (id bigint) USING deltanb")
    for use in ("SELECT * FROM dead", "INSERT INTO dead VALUES (1)"):
        with pytest.raises(InvalidArgument, match="DROP TABLE removes it"), translate_errors():
            spark.sql(use).collect()
    spark.sql("DROP TABLE dead")
    assert names() == []


def test_a_view_names_a_path(tmp_path: Any, spark: Any, names: Callable[[], list[str]]) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    spark.sql(f"CREATE TEMPORARY VIEW alive USING deltanb OPTIONS (path '{table.path}')")
    spark.sql("INSERT INTO alive VALUES (2)")
    assert table.to_arrow()["id"].to_pylist() == [1, 2]
    for expected in ([1], [1, 2]):  # a view stands at its version, as a frame does
        assert sorted(row.id for row in spark.sql("SELECT * FROM alive").collect()) == expected
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW alive USING deltanb OPTIONS (path '{table.path}')")


# --- names that follow their tables -----------------------------------------------------------------

def values(spark: Any, query: str) -> list[Any]:
    with translate_errors():
        return sorted(row[0] for row in spark.sql(query).collect())


@pytest.mark.classic("Spark Connect has no JVM in reach")
def test_a_path_is_a_table_of_spark_s_sql(tmp_path: Any, spark: Any) -> None:
    table = dn.create(tmp_path / "a `b` c", {"id": [1], "p": ["a"]}, "p")
    dn.spark.register(spark)
    name = "deltanb.`" + table.path.replace("`", "``") + "`"
    spark.sql(f"INSERT INTO {name} VALUES (2, 'b')")
    spark.sql("SELECT 3L id, 'c' p").writeTo(name).append()
    assert values(spark, f"SELECT id FROM {name} WHERE p > 'a'") == [2, 3]
    assert values(spark, f"SELECT id FROM {name} VERSION AS OF 1") == [1, 2]
    first = dt.datetime.fromtimestamp((table.as_of(0).snapshot.timestamp + 1) / 1000, dt.timezone.utc)
    assert values(spark, f"SELECT id FROM {name} TIMESTAMP AS OF '{first.isoformat()}'") == [1]
    spark.sql(f"INSERT OVERWRITE {name} SELECT 7L, 'z'")
    assert values(spark, f"SELECT id FROM {name}") == [7] == [row.id for row in spark.table(name).collect()]
    for statement in (f"DROP TABLE {name}", f"ALTER TABLE {name} ADD COLUMN x int"):
        with pytest.raises(PySparkException, match=r"deltanb\.spark\.sql\(session"):
            spark.sql(statement)
    with pytest.raises(TableNotFound), translate_errors():
        spark.sql("SELECT * FROM deltanb.`/nowhere/at/all`")
    for place in (f"deltanb.lake.`{table.path.replace('`', '``')}`", f"deltanb.`/`.{name.partition('.')[2]}"):
        for statement in (f"SELECT * FROM {place}", f"INSERT INTO {place} VALUES (8, 'y')"):
            with pytest.raises(PySparkException, match=r"by one path in backquotes"):
                spark.sql(statement)
    assert table.version == 3


@pytest.mark.classic("Spark Connect has no JVM in reach")
def test_a_registered_name_reads_the_newest_version_with_each_query(tmp_path: Any, spark: Any) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    dn.spark.register(spark, {"alive": table, "first": table.as_of(0), "by_path": table.path})
    frame = spark.table("alive")
    for n in (2, 3):
        table.append({"id": [n]})
        assert values(spark, "SELECT id FROM alive") == list(range(1, n + 1)) == values(
            spark, "SELECT id FROM by_path")
        assert values(spark, "SELECT id FROM first") == [1]
        assert values(spark, "SELECT a.id FROM alive a JOIN alive b USING (id)") == list(range(1, n + 1))
    assert frame.count() == 1  # a frame, unlike a name, stays at its version
    table.append({"id": [4], "w": ["new"]}, merge_schema=True)
    assert spark.table("alive").columns == ["id"]
    dn.spark.register(spark, {"alive": table})
    assert spark.table("alive").columns == ["id", "w"]
    for name in ("alive", "first", "by_path"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(("name", "table", "message"), [
    ("a.b", "t", "not the name of a "
                 "view"), ("", "t", "not the name of a view"), ("t", 7, "t=7 is not a table"),
    ("t", {}, "is in this process alone")])
def test_what_cannot_be_named_is_refused(name: str, table: Any, message: str, tmp_path: Any) -> None:
    if table == "t":
        table = dn.create(tmp_path / "t", {"id": [1]})
    elif table == {}:
        table = dn.create(MemoryStore(), {"id": [1]})
    with pytest.raises(InvalidArgument, match=message):
        add_views(None, {name: table})  # type: ignore[arg-type]  # no session is asked


def of_a_catalog(folder: Path) -> Iterator[Any]:
    with dn.Catalog(f"sqlite:///{folder}/catalog.db", warehouse=folder / "lake") as catalog:
        catalog.create_namespace("ducks")
        yield catalog.create_table("ducks.nephews", {"id": [1]})


def of_a_transaction(folder: Path) -> Iterator[Any]:
    with dn.create(folder / "t", {"id": [1]}).transaction() as txn:
        txn.append({"id": [2]})
        yield txn


def of_memory(folder: Path) -> Iterator[Any]:
    yield dn.create(MemoryStore(), {"id": [1]})


def with_credentials(folder: Path) -> Iterator[Any]:
    keys = {"aws_access_key_id": "mine", "aws_secret_access_key": "hush", "aws_region": "us-east-1"}
    yield dn.DeltaTable(DeltaLog.for_table("s3://bucket/t", keys))  # nothing is asked of the bucket


HIDDEN_TABLES = {"committer": [of_a_catalog, of_a_transaction], "memory": [of_memory],
                 "credentials": [with_credentials]}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_table_that_its_path_does_not_give_is_not_named(kind: str, tmp_path: Path) -> None:
    for number, hidden in enumerate(HIDDEN_TABLES[kind]):
        (tmp_path / str(number)).mkdir()
        with contextmanager(hidden)(tmp_path / str(number)) as table:
            with pytest.raises(InvalidArgument, match=re.escape(HIDDEN[kind][0])) as caught:
                add_views(None, {"t": table})  # type: ignore[arg-type]  # no session is asked
            assert "hush" not in str(caught.value)


def test_sql_runs_in_the_session_over_the_caller_s_tables(tmp_path: Any, spark: Any) -> None:
    flights = dn.create(tmp_path / "t", {"id": [1, 2, 3]})
    assert dn.spark.sql(spark, "DELETE FROM flights WHERE id > :most", most=2).metrics["numDeletedRows"] == 1
    rows = dn.spark.sql(spark, "SELECT id, spark_partition_id() >= 0 AS by_spark FROM flights ORDER BY id")
    assert rows.to_arrow().to_pylist() == [{"id": 1, "by_spark": True}, {"id": 2, "by_spark": True}]
    assert flights.version == 1
