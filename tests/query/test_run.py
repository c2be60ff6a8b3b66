"""Queries on DuckDB: names are found, rows are those of their version, and other files stay shut."""

from __future__ import annotations

import builtins
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

import deltanb as dn
from deltanb import errors
from deltanb.engines.arrow import read
from deltanb.options import StepClock
from deltanb.query.duck import DUCKDB
from deltanb.query.result import QueryResult
from deltanb.query.run import run
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests import random_predicates


def flights(store: Any = None) -> DeltaTable:
    """Version 0: two rows in each of three months, a file a month; version 1: one more in month 1."""
    made = dn.create(store or MemoryStore("memory:///lake/flights"), {
        "month": [1, 1, 2, 2, 3, 3], "delay": [5, 60, 7, None, 90, 3],
        "carrier": ["AA", "UA", "AA", "DL", "UA", "AA"]}, partition_by="month")
    made.append({"month": [1], "delay": [500], "carrier": ["ZZ"]})
    return made


def ask(sql: str, **names: Any) -> QueryResult:
    return run(sql, {"flights": flights(), **names}, DUCKDB)


def rows(sql: str, **names: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ask(sql, **names).rows.to_pylist()]


def test_files_that_cannot_hold_the_rows_stay_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = read.read_data_file

    def counted(scan: Any, row: Any, **more: Any) -> Any:
        opened.append(row["path"])
        return real(scan, row, **more)

    monkeypatch.setattr(read, "read_data_file", counted)
    result = ask("SELECT carrier FROM flights WHERE month = 1 AND delay > 100")
    assert result.rows.to_pylist() == [{"carrier": "ZZ"}]
    assert (result.opened, result.num_files, result.reads) == (1, 4, ("whole",))
    assert len(opened) == 1
    (explained,) = result.scans
    assert [(one.sql, one.by, one.spared) for one in explained.conditions] == [
        ("month = 1", "partition values", 2), ("delay > 100", "statistics", 1)]
    assert {file.condition for file in explained.spared_files} == {"month = 1", "delay > 100"}


def test_a_table_is_read_at_the_version_or_time_asked_for() -> None:
    with dn.set_options(clock=StepClock(1_772_442_862_000, step=60_000)):
        table = flights()
    with pytest.raises(errors.VersionNotFound):
        ask("SELECT 1 FROM flights VERSION AS OF 9")
    assert rows("SELECT count(*) FROM flights VERSION AS OF 0") == [(6,)]
    assert rows("SELECT a.n - b.n FROM (SELECT count(*) n FROM flights) a, "
                "(SELECT count(*) n FROM flights VERSION AS OF 0) b") == [(1,)]
    with pytest.raises(errors.VersionNotFound, match="2001-01-01"):
        ask("SELECT 1 FROM flights TIMESTAMP AS OF '2001-01-01'")
    for commit in table.history():
        moment = dt.datetime.fromtimestamp(commit.timestamp / 1000, dt.timezone.utc).replace(tzinfo=None)
        result = run(f"SELECT 1 FROM t TIMESTAMP AS OF '{moment}'", {"t": table}, DUCKDB)
        assert result.scans[0].version == commit.version
    old = table.as_of(0)
    assert rows("SELECT count(*) FROM old", old=old) == [(6,)]


def test_a_path_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flights("lake/flights")
    for name in ("delta.`lake/flights`", "'lake/flights'", '"lake/flights"', "`lake/flights` VERSION AS OF 1",
                 f"delta.`{tmp_path}/lake/flights`"):
        assert rows(f"SELECT count(*) FROM {name}") == [(7,)]
    assert ask("SELECT 1 FROM 'lake/flights' LIMIT 0").scans[0].table == "lake/flights"
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert rows("SELECT b FROM 'other.csv'") == [(2,)]


def test_other_rows_in_variables_can_be_joined() -> None:
    names = {"carrier": ["AA", "ZZ"], "name": ["American", "Zulu"]}
    for held in (pd.DataFrame(names), pa.table(names), ask("SELECT 'ZZ' AS carrier, 'Zulu' AS name")):
        result = ask("SELECT n.name FROM flights f JOIN n USING (carrier) "
                    "WHERE f.month = 1 AND f.delay > 100", n=held)
        assert result.rows.to_pylist() == [{"name": "Zulu"}]
        assert (result.opened, len(result.scans)) == (1, 1)


def test_a_catalog_names_its_tables(tmp_path: Path) -> None:
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/c.db", tmp_path / "lake")
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1, 2]})
    assert rows("SELECT sum(id) FROM catalog.shop.orders", catalog=catalog) == [(3,)]
    shown = catalog.sql("SELECT count(*) FROM shop.orders a, catalog.shop.orders b")
    assert [scan.table for scan in shown.scans] == ["shop.orders", "catalog.shop.orders"]


def test_a_stream_is_read_as_often_as_the_query_names_it() -> None:
    assert rows("WITH a AS MATERIALIZED (FROM flights) SELECT count(*) FROM a, a b") == [(49,)]
    assert rows("WITH a AS NOT MATERIALIZED (FROM flights) SELECT count(*) FROM a, a b") == [(49,)]


def test_an_outer_join_keeps_what_has_no_partner() -> None:
    sql = ("SELECT a.delay FROM flights a LEFT JOIN flights b ON a.delay = b.delay AND b.month <> 3 "
           "WHERE b.delay IS NULL AND a.month = 3 ORDER BY 1")
    assert rows(sql) == [(3,), (90,)]


def test_how_much_was_read_is_told() -> None:
    assert ask("SELECT * FROM flights LIMIT 1").reads == ("part",)
    assert ask("DESCRIBE flights").reads == ("none",)
    assert ask("DESCRIBE flights").opened == 0
    assert ask("SELECT count(*) FROM flights").reads == ("whole",)


def test_only_the_columns_of_the_query_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = read.plan

    def noted(snapshot: Any, columns: Any = None, *args: Any) -> Any:
        asked.append(columns)
        return real(snapshot, columns, *args)

    monkeypatch.setattr(read, "plan", noted)
    ask("SELECT max(delay) FROM flights WHERE carrier = 'AA'")
    ask("SELECT count(*) FROM flights")
    ask("SELECT * FROM flights")
    assert asked == [("delay", "carrier"), ("month",), None]


def test_parameters_are_values_of_variables() -> None:
    result = ask("SELECT delay FROM flights WHERE month = $m AND carrier = $c", m=2, c="AA")
    assert (result.rows.to_pylist(), result.opened) == ([{"delay": 7}], 1)
    with pytest.raises(errors.InvalidQuery, match="no variable mnth.*did you mean month"):
        ask("SELECT 1 FROM flights WHERE month = $mnth", month=2)
    with pytest.raises(errors.InvalidQuery, match=r"write \$name"):
        ask("SELECT 1 FROM flights WHERE month = ?")


@pytest.mark.parametrize("sql, error, message", [
    ("SELECT * FROM flihgts", errors.TableNotFound, "did you mean flights?"),
    ("SELECT * FROM a.b", errors.TableNotFound, "no variable a.b holds a table"),
    ("SELECT * FROM delta.`no/where`", errors.TableNotFound, "no/where"),
    ("SELECT * FROM number", errors.InvalidQuery, "number is an int, which has no rows"),
    ("SELECT * FROM frame VERSION AS OF 1", errors.InvalidQuery, "frame is not a Delta table"),
    ("SELECT dely FROM flights", errors.InvalidQuery, 'Binder Error.*delay'),
    ("SELECT no_such(delay) FROM flights", errors.InvalidQuery, "DuckDB refuses the query"),
    ("SELECT CAST(carrier AS INT) FROM flights", errors.InvalidQuery, "Could not convert"),
])
def test_what_cannot_be_asked_is_refused_with_a_way_out(sql: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        ask(sql, number=3, frame=pa.table({"a": [1]}))
    assert "__deltanb" not in str(refused.value)


@pytest.mark.parametrize("where", [
    'carrier = "UA"', "carrier <> 'AA' AND carrier = \"UA\"", 'upper("UA") = carrier'])
def test_a_text_in_double_quotes_is_told_from_a_column(where: str) -> None:
    with pytest.raises(errors.InvalidQuery, match="strings are in single quotes: 'UA'$"):
        ask(f"SELECT * FROM flights WHERE {where}")


@pytest.mark.parametrize("where", ["UA = 1", "UA = '\"UA\"'", 'flights."UA" = 1'])
def test_a_name_that_is_no_column_is_not_taken_for_a_text(where: str) -> None:
    with pytest.raises(errors.InvalidQuery, match="UA") as refused:
        ask(f"SELECT * FROM flights WHERE {where}")
    assert "single quotes" not in str(refused.value)


def test_our_own_variables_are_no_tables() -> None:
    with pytest.raises(errors.TableNotFound):
        ask("SELECT * FROM streams")


def test_a_file_that_is_gone_is_our_error(tmp_path: Path) -> None:
    table = flights(tmp_path / "t")
    for file in (tmp_path / "t").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(errors.DataFileNotFound):
        run("SELECT sum(delay) FROM t", {"t": table}, DUCKDB)


def test_an_active_transaction_reads_at_its_version_and_remembers() -> None:
    table = flights()
    txn = table.start_transaction()
    table.append({"month": [1], "delay": [1], "carrier": ["XX"]})
    dn.OptimisticTransaction.set_active(txn)
    try:
        result = run("SELECT count(*) FROM t WHERE month = 1", {"t": table}, DUCKDB)
    finally:
        dn.OptimisticTransaction.clear_active()
    assert result.rows.to_pylist() == [{"count_star()": 3}]
    assert result.scans[0].version == txn.read_version
    assert txn._reads.files[0].num_rows == 2


def test_without_duckdb_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "duckdb")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(errors.MissingDependency, match="pip install duckdb"):
        ask("SELECT 1 FROM flights")


def test_a_result_can_be_used() -> None:
    result = ask("SELECT carrier, delay FROM flights WHERE month = 2 ORDER BY delay")
    assert (len(result), result.columns) == (2, ["carrier", "delay"])
    assert result.to_pandas()["carrier"].tolist() == ["AA", "DL"]
    assert pa.table(result) == result.to_arrow()


@pytest.fixture(scope="module")
def varied() -> DeltaTable:
    """Rows of every type in files of four."""
    table = dn.create(MemoryStore(), random_predicates.ROWS.slice(0, 0))
    for start in range(0, random_predicates.ROWS.num_rows, 4):
        table.append(random_predicates.ROWS.slice(start, 4))
    return table


@pytest.mark.slow
@given(condition=random_predicates.conditions())
def test_rows_are_those_that_duckdb_finds_in_the_whole_table(
    varied: DeltaTable, condition: random_predicates.Sql
) -> None:
    if condition.duck is None:
        return
    sql = f"SELECT count(*) FROM varied WHERE {condition.duck}"
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("varied", random_predicates.ROWS)
    try:
        expected = connection.sql(sql).fetchall()
    except duckdb.Error:
        return
    finally:
        connection.close()
    assert [tuple(row.values()) for row in run(sql, {"varied": varied}, DUCKDB).rows.to_pylist()] == expected
