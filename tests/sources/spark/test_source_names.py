"""Names of Spark's own catalog for the data source: refused with the way out, which works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.sources.spark.source import translate_errors

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
