"""A query as text: its tables are found wherever they stand, and nothing else in it is changed."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.errors import InvalidQuery
from deltanb.query.statement import Statement

BOTH = ("duckdb", "spark")


def renamed(sql: str, dialect: str = "duckdb") -> str:
    statement = Statement(sql, dialect)
    return statement.with_names({one: f"n{at}" for at, one in enumerate(
        sorted(statement.references, key=lambda one: one.start))})


def tables(sql: str, dialect: str = "duckdb") -> list[tuple[str, Any]]:
    return [(one.text, one.moment) for one in sorted(
        Statement(sql, dialect).references, key=lambda one: one.start)]


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize("sql, expected", [
    ("SELECT * FROM t", [("t", None)]),
    ("SELECT * FROM t VERSION AS OF 3 AS x", [("t", 3)]),
    ("select * from t version as of '12'", [("t", 12)]),
    ("SELECT * FROM t FOR VERSION AS OF 3", [("t", 3)]),
    ("SELECT * FROM t TIMESTAMP AS OF '2026-03-01' x", [("t", "2026-03-01")]),
    ("SELECT * FROM t TIMESTAMP  AS\n OF TIMESTAMP '2026-03-01 10:00:00'", [("t", "2026-03-01 10:00:00")]),
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF DATE '2026-03-01'", [("t", "2026-03-01")]),
    ("SELECT * FROM delta.`lake/a b` VERSION AS OF 0", [("delta.lake/a b", 0)]),
    ("SELECT * FROM `lake/a`", [("lake/a", None)]),
    ("SELECT * FROM 'lake/a' x", [("lake/a", None)]),
    ("SELECT * FROM a JOIN b USING (id), c.d.e", [("a", None), ("b", None), ("c.d.e", None)]),
    ("SELECT * FROM t VERSION AS OF 1 a JOIN t VERSION AS OF 2 b ON a.id = b.id", [("t", 1), ("t", 2)]),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM t) AND 1 IN (SELECT x FROM u)", [("t", None), ("u", None)]),
    ("SELECT a FROM t UNION ALL SELECT b FROM u;", [("t", None), ("u", None)]),
    ("WITH w AS (SELECT * FROM t) SELECT * FROM w JOIN W x ON true", [("t", None)]),
    ("WITH t AS (SELECT * FROM t VERSION AS OF 3) SELECT * FROM t", [("t", 3)]),
    ("WITH a AS (SELECT 1 x), b AS (SELECT * FROM a) SELECT * FROM b, c", [("c", None)]),
    ("WITH a AS (SELECT * FROM b), b AS (SELECT 1 x) SELECT * FROM a, b", [("b", None)]),
    ("WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x FROM r) SELECT * FROM r", []),
    ("SELECT * FROM (WITH w AS (SELECT 1 x) SELECT * FROM w) y, w", [("w", None)]),
    ("SELECT 'FROM t VERSION AS OF 3' FROM u -- FROM v", [("u", None)]),
    ("SELECT * FROM range(3) r, t", [("t", None)]),
    ("SELECT 1", []),
])
def test_tables_are_found_where_they_stand(sql: str, expected: list[Any], dialect: str) -> None:
    assert tables(sql, dialect) == expected


@pytest.mark.parametrize("sql, expected", [
    ("SELECT t.a  FROM t VERSION AS OF 3 WHERE t.a='x'", 'SELECT t.a  FROM "n0" AS "t" WHERE t.a=\'x\''),
    ("FROM t x SELECT x.a /* t */", 'FROM "n0" x SELECT x.a /* t */'),
    ("SELECT `a b`, \"c\" FROM delta.`x/y`", 'SELECT "a b", "c" FROM "n0" AS "x/y"'),
    ("SUMMARIZE t", 'SUMMARIZE "n0"'),
    ("SELECT a FROM t UNION SELECT a FROM t VERSION AS OF 1",
     'SELECT a FROM "n0" AS "t" UNION SELECT a FROM "n1" AS "t"'),
])
def test_names_of_tables_alone_are_changed(sql: str, expected: str) -> None:
    assert renamed(sql) == expected


def test_sparks_names_stay_in_backticks() -> None:
    assert renamed("SELECT `a b` FROM delta.`x/y` WHERE s = \"q\"", "spark") == \
        "SELECT `a b` FROM `n0` AS `x/y` WHERE s = \"q\""


def test_a_column_may_be_called_timestamp() -> None:
    assert tables("SELECT timestamp AS of FROM t") == [("t", None)]


@pytest.mark.parametrize("sql, message", [
    ("", "there is no query"),
    ("SELECT 1; SELECT 2", "these are 2 statements"),
    ("SELEC a FROM t", "not valid SQL"),
    ("SELECT a FROM", "not valid SQL"),
    ("SELECT 'a", "not valid SQL"),
    ("INSERT INTO t VALUES (1)", "INSERT is not a query.*table.append"),
    ("DELETE FROM t", "DELETE is not a query"),
    ("CREATE TABLE x AS SELECT * FROM t", "CREATE is not a query"),
    ("EXPLAIN SELECT 1", r"table\.explain"),
    ("SELECT * FROM t x VERSION AS OF 3", "directly after the name of a table"),
    ("SELECT * FROM (SELECT 1) VERSION AS OF 3", "VERSION AS OF 3|not valid"),
    ("SELECT * FROM t TIMESTAMP AS OF now()", "takes a number|not valid SQL"),
])
def test_what_is_no_query_is_refused(sql: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        Statement(sql, "duckdb")


@pytest.mark.parametrize("sql, expected", [
    ("SELECT a, max(B) FROM t x WHERE \"C d\" > 1", {"a", "b", "c d", "t", "x"}),
    ("SELECT count(*) FROM t", {"t"}),
    ("SELECT * FROM t", None), ("SELECT t.* FROM t", None), ("SELECT t FROM t", None),
    ("SELECT a FROM t NATURAL JOIN u", None), ("DESCRIBE t", None), ("SUMMARIZE t", None),
    ("SELECT columns('a.*') FROM t", None), ("PIVOT t ON a USING sum(b)", None),
])
def test_columns_that_a_query_may_ask_for(sql: str, expected: set[str] | None) -> None:
    assert Statement(sql, "duckdb").names_used() == expected
