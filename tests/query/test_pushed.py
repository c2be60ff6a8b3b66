"""Conditions that files are checked against: only those that mean the same to all, and hold before a join."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from deltanb.query.pushed import Pushed, pushed
from deltanb.query.statement import Statement
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType

KINDS = {"i": "integer", "l": "long", "d": "double", "f": "float", "dec": "decimal(6,2)", "s": "string",
         "b": "boolean", "day": "date", "ts": "timestamp", "tn": "timestamp_ntz"}
SCHEMA = StructType([*(StructField(name, PrimitiveType(kind)) for name, kind in KINDS.items()),
                     StructField("tags", ArrayType(PrimitiveType("string")))])


def pushed_of(
    sql: str, values: dict[str, Any] | None = None, dialect: str = "duckdb", **settings: Any
) -> list[Pushed]:
    """What is said of each table of a query, which all have the same columns."""
    statement = Statement(sql, dialect)
    by_reference = pushed(statement, dict.fromkeys(statement.references, SCHEMA), values or {}, **settings)
    return [by_reference.get(one, Pushed()) for one in sorted(statement.references,
                                                              key=lambda one: one.start)]


def of(condition: str, **settings: Any) -> str | None:
    (part,) = pushed_of(f"SELECT 1 FROM t WHERE {condition}", **settings)
    return None if part.where is None else part.where.sql


@pytest.mark.parametrize("condition, ours", [
    ("i = 3", "`i` = 3"), ("3 < I", "`i` > 3"), ("t.l >= -4", "`l` >= -4"), ("i <> 5.5", "`i` <> 5.5"),
    ("d < 0.1", "`d` < 0.1E0"), ("d > 1e3", "`d` > 1e3"), ("dec = 12.50", "`dec` = 12.50BD"),
    ("s = 'it''s'", "`s` = 'it\\'s'"), ("s IN ('a', 'b')", "`s` IN ('a', 'b')"),
    ("s LIKE 'a%'", "`s` LIKE 'a%'"),
    ("b = true", "`b` = TRUE"), ("i BETWEEN 1 AND 3", "`i` BETWEEN 1 AND 3"),
    ("i IS NULL", "`i` IS NULL"), ("i IS NOT NULL", "(NOT `i` IS NULL)"),
    ("NOT (i = 1 OR s = 'x')", "(NOT (`i` = 1 OR `s` = 'x'))"),
    ("day = '2026-03-01'", "`day` = DATE '2026-03-01'"),
    ("day > DATE '2026-03-01'", "`day` > DATE '2026-03-01'"),
    ("ts < '2026-03-01 10:00'", "`ts` < TIMESTAMP '2026-03-01 10:00:00.000000Z'"),
    ("ts < TIMESTAMP '2026-03-01 10:00:00.5'", "`ts` < TIMESTAMP '2026-03-01 10:00:00.500000Z'"),
    ("tn < '2026-03-01'", "`tn` < TIMESTAMP_NTZ '2026-03-01 00:00:00.000000'"),
])
def test_forms_that_all_engines_mean_the_same_by(condition: str, ours: str) -> None:
    text = of(condition)
    assert text is not None
    assert text.replace(".000000", "") == ours.replace(".000000", "")


@pytest.mark.parametrize("condition", [
    "upper(s) = 'A'", "i + 1 = 3", "i = l", "f = 0.1", "s = 5", "i = '5'", "i = 1e3",
    "d = 0.12345678901234567", "dec = 12.505", "dec = 123456", "s LIKE 'a\\%'", "s ILIKE 'a%'", "s LIKE i",
    "day = '1.3.2026'",
    "ts = '2026-03-01T10:00:00+02:00'", "ts = 'now'", "day = TIMESTAMP '2026-03-01 10:00:00'", "tags = ['a']",
    "i = NULL", "i IN (SELECT 1)", "i = (SELECT 1)", "b", "i IS DISTINCT FROM 3", "i = 3 OR upper(s) = 'A'",
    "i = ?", "s ~ 'a'",
])
def test_what_is_not_certain_is_left_to_the_engine_and_told(condition: str) -> None:
    (part,) = pushed_of(f"SELECT 1 FROM t WHERE {condition}")
    assert part.where is None
    ((text, reason),) = part.not_used
    assert text and len(reason) > 20


def test_times_are_asked_for_where_the_session_is_in_utc_alone() -> None:
    assert of("ts < '2026-03-01'", is_utc=False) is None
    assert of("tn < '2026-03-01'", is_utc=False) is not None


def test_parameters_are_asked_for_by_their_values() -> None:
    values = {"m": 3, "s": "x", "d": dt.date(2026, 3, 1), "o": object()}
    assert of("i = $m AND s = $s AND day = $d", values=values) == \
        "`i` = 3 AND `s` = 'x' AND `day` = DATE '2026-03-01'"
    assert of("i = :m", values=values, dialect="spark") == "`i` = 3"
    assert of("i = $o", values=values) is None


def test_each_part_is_taken_for_itself() -> None:
    (part,) = pushed_of("SELECT 1 FROM t x WHERE x.i = 3 AND (upper(s) = 'A') AND (s = 'a' AND l > 2)")
    assert [ours.sql for ours, _ in part.conditions] == ["`i` = 3", "`s` = 'a'", "`l` > 2"]
    assert [text for _, text in part.conditions] == ["x.i = 3", "s = 'a'", "l > 2"]
    assert [text for text, _ in part.not_used] == ["UPPER(s) = 'A'"]


@pytest.mark.parametrize("sql, first, second", [
    ("FROM t a JOIN t b ON a.i = b.i WHERE a.i = 1 AND b.i = 2", "`i` = 1", "`i` = 2"),
    ("FROM t a, t b WHERE a.i = 1 AND b.i = 2", "`i` = 1", "`i` = 2"),
    ("FROM t a LEFT JOIN t b ON a.i = b.i WHERE a.i = 1 AND b.i IS NULL", "`i` = 1", None),
    ("FROM t a RIGHT JOIN t b ON a.i = b.i WHERE a.i = 1 AND b.i = 2", None, "`i` = 2"),
    ("FROM t a FULL JOIN t b ON a.i = b.i WHERE a.i = 1 AND b.i = 2", None, None),
    ("FROM t a SEMI JOIN t b ON a.i = b.i WHERE a.i = 1", "`i` = 1", None),
    ("FROM t a ANTI JOIN t b ON a.i = b.i WHERE a.i = 1", "`i` = 1", None),
    ("FROM t a POSITIONAL JOIN t b WHERE a.i = 1 AND b.i = 2", None, None),
    ("FROM t a ASOF JOIN t b ON a.i >= b.i WHERE a.i = 1 AND b.i = 2", None, None),
    ("FROM t a JOIN t b ON a.i = b.i WHERE i = 1", None, None),
    ("FROM t a, (FROM t b WHERE b.i = 2) c WHERE a.i = 1 AND c.i = 3", "`i` = 1", "`i` = 2"),
    ("FROM t a WHERE a.i = 1 AND EXISTS (SELECT 1 FROM t b WHERE b.i = a.i AND b.l = 2)",
     "`i` = 1", "`l` = 2"),
    ("FROM t a TABLESAMPLE 10% , t b WHERE a.i = 1 AND b.i = 2", None, "`i` = 2"),
])
def test_a_table_is_pruned_where_its_rows_can_go_before_the_join(
    sql: str, first: str | None, second: str | None
) -> None:
    assert [one.where and one.where.sql for one in pushed_of(f"SELECT 1 {sql}")] == [first, second]


def test_an_alias_of_the_select_list_is_no_column() -> None:
    (part,) = pushed_of("SELECT i * 2 AS l FROM t WHERE l > 5")
    assert part.where is None
    assert [text for text, _ in part.not_used] == ["l > 5"]


def test_conditions_of_a_group_are_not_those_of_rows() -> None:
    (part,) = pushed_of("SELECT i FROM t GROUP BY i HAVING i > 3")
    assert part == Pushed()
