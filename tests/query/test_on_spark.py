"""Queries on Spark: the same names, versions and files as on DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deltanb import errors
from deltanb.notebook import magic
from deltanb.query.on_spark import SPARK
from deltanb.query.run import run
from tests.query.test_run import flights

pytestmark = pytest.mark.spark
interactive = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell(spark: Any, tmp_path: Path) -> Any:
    """A shell with a table, a data frame and the magics."""
    names = pd.DataFrame({"carrier": ["AA", "ZZ"], "name": ["American", "Zulu"]})
    made = interactive.InteractiveShell(user_ns={
        "flights": flights(tmp_path / "flights"), "names": names, "m": 1, "folder": tmp_path})
    magic.load(made)
    return made


def ask(shell: Any, sql: str) -> Any:
    ran = shell.run_cell(f"%%sql --spark\n{sql}", store_history=False)
    ran.raise_error()
    return ran.result


def test_files_that_cannot_hold_the_rows_stay_shut(shell: Any) -> None:
    result = ask(shell, "SELECT n.name FROM flights f JOIN names n USING (carrier) "
                       "WHERE f.month = :m AND f.delay > 100")
    assert result.rows.to_pylist() == [{"name": "Zulu"}]
    assert (result.engine, result.opened, result.num_files) == ("Spark", 1, 4)


def test_a_table_is_read_at_the_version_asked_for(shell: Any) -> None:
    path = shell.user_ns["folder"] / "flights"
    for name, count in (("flights", 7), ("flights VERSION AS OF 0", 6),
                        (f"delta.`{path}` VERSION AS OF 0", 6), (f"`{path}`", 7)):
        assert ask(shell, f"SELECT count(*) AS n FROM {name}").rows.to_pylist() == [{"n": count}]


def test_times_are_asked_of_files_where_the_session_is_in_utc(shell: Any, spark: Any) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert SPARK.is_utc() is (zone in ("UTC", "Etc/UTC", "GMT", "Z"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        assert SPARK.is_utc() is False
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_what_spark_refuses_is_told_and_leaves_no_view(shell: Any, spark: Any) -> None:
    with pytest.raises(errors.InvalidQuery, match="Spark cannot run the query.*dely"):
        run("SELECT dely FROM flights", shell.user_ns, SPARK)
    assert [one.name for one in spark.catalog.listTables() if one.name.startswith("__deltanb")] == []


def test_what_only_spark_understands_leaves_out_files_by_the_rest(shell: Any) -> None:
    table = shell.user_ns["flights"]
    where = "month = 1 AND soundex(carrier) = soundex('zz')"
    assert table.explain(where).opened == 2
    frame = table.to_df(where=where)
    assert [row.carrier for row in frame.collect()] == ["ZZ"]
    assert len(frame.inputFiles()) == 2


def test_statements_ask_spark_for_the_rows_they_write(shell: Any, tmp_path: Path) -> None:
    shell.user_ns["most"] = 2
    ask(shell, f"CREATE TABLE few LOCATION '{tmp_path}/few' AS SELECT month, named_struct('a', carrier) AS s "
               "FROM flights WHERE month < :most; INSERT INTO few SELECT $most, named_struct('a', \"x\"); "
               "INSERT INTO few VALUES (9, named_struct('a', reverse('ab')));"
               "MERGE INTO few USING (SELECT 9 AS month, 'gone' AS why) s ON few.month = s.month "
               "WHEN MATCHED THEN DELETE")
    few = shell.user_ns["few"]
    assert sorted((row["month"], row["s"]["a"]) for row in few.to_arrow().to_pylist()) == [
        (1, "AA"), (1, "UA"), (1, "ZZ"), (2, "x")]
    plan = ask(shell, "EXPLAIN SELECT * FROM flights WHERE month = :m")
    assert (plan.opened, plan.num_files) == (2, 4)
