"""The data source beside Delta Spark: each reads what the other wrote, and goes on in the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", "4.1", reason="data sources that write Arrow come with PySpark 4.1")

import deltanb as dn
from tests.peers.delta_spark import DeltaSpark, table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "id long, part string, at timestamp, day date, money decimal(12, 2), tags array<string>"
FEED = {"delta.enableChangeDataFeed": "true"}


def rows(spark: Any, first: int, after: int) -> Any:
    """Rows of all kinds, some of them NULL, in partitions some of whose names have to be escaped."""
    return spark.range(first, after).selectExpr(
        "id", "CASE id % 3 WHEN 0 THEN 'a/b c' WHEN 1 THEN 'ü%' END part",
        "timestamp_micros(id * 86400000001 - 1) at", "date_add(DATE'1960-02-29', CAST(id AS INT)) day",
        "CAST(IF(id % 5 = 0, NULL, id / 100) AS DECIMAL(12, 2)) money",
        "IF(id % 4 = 0, NULL, array('x', NULL, CAST(id AS STRING))) tags")


def in_order(unordered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(unordered, key=lambda row: row["id"])


def read(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("deltanb").options(**options).load(str(path)).toArrow()


def save(frame: Any, path: Path, mode: str, **options: Any) -> None:
    frame.write.format("deltanb").mode(mode).options(**options).save(str(path))


def test_delta_spark_reads_what_was_saved_and_the_other_way_round(
    spark: Any, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    dn.create(path, COLUMNS, partition_by="part")
    save(rows(spark, 0, 40), path, "append")
    assert in_order(delta_spark.rows(path)) == in_order(rows(spark, 0, 40).toArrow().to_pylist())
    save(rows(spark, 100, 110).where("part = 'a/b c'"), path, "overwrite", replaceWhere="part = 'a/b c'")
    assert in_order(delta_spark.rows(path)) == in_order(read(spark, path).to_pylist())
    [newest, *_] = delta_spark.history(path)
    assert (newest["operation"], newest["operationParameters"]["predicate"]) == ("WRITE", "part = 'a/b c'")
    delta_spark.sql(f"DELETE FROM {table(path)} WHERE id % 7 = 0")
    delta_spark.sql(f"UPDATE {table(path)} SET money = -1 WHERE part IS NULL")
    ours = in_order(read(spark, path).to_pylist())
    assert ours == in_order(delta_spark.rows(path)) and any(row["money"] == -1 for row in ours)
    save(rows(spark, 200, 203), path, "append", userMetadata="after theirs")
    assert delta_spark.history(path)[0]["userMetadata"] == "after theirs"
    assert in_order(delta_spark.rows(path)) == in_order(read(spark, path).to_pylist())


def test_versions_and_changes_are_those_that_delta_spark_reads(
    spark: Any, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    dn.create(path, COLUMNS, properties=FEED)
    save(rows(spark, 0, 20), path, "append")
    delta_spark.sql(f"UPDATE {table(path)} SET tags = NULL WHERE id < 3")
    save(rows(spark, 50, 52), path, "overwrite")
    for version in range(4):
        theirs = delta_spark.sql(f"SELECT * FROM {table(path)} VERSION AS OF {version}")
        assert in_order(theirs) == in_order(read(spark, path, versionAsOf=version).to_pylist())
    columns = "id, money, tags, _change_type, _commit_version"
    theirs = delta_spark.sql(f"SELECT {columns} FROM table_changes_by_path('{path}', 1, 3)")
    ours = read(spark, path, readChangeFeed="true", startingVersion=1, endingVersion=3).to_pylist()
    names = columns.split(", ")
    assert sorted(map(repr, theirs)) == sorted(repr({name: row[name] for name in names}) for row in ours)
    assert {row["_change_type"] for row in ours} == {
        "insert", "delete", "update_preimage", "update_postimage"}
