"""Columns of PySpark's keep the rows that Spark keeps, and what is not known in them is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import UnsupportedPredicate
from deltanb.sql.predicates import parse
from deltanb.sql.spark_conditions import read

ROWS = pa.table({
    "id": [1, 2, 3, None], "name": ["Donald", "it's", "a\\'b", None], "x": [0.5, float("nan"), None, 3.5],
    "day": [dt.date(2026, 1, 1), dt.date(2026, 3, 2), None, None], "flag": [True, False, None, True],
    "price": pa.array([Decimal("1.50"), None, Decimal("2"), Decimal("0")], pa.decimal128(9, 2)),
    "s": [{"in": 1}, {"in": 2}, None, {"in": None}],
})

WRITTEN = [
    (">(id, 1)", "(id > 1)"), ("and(>(id, 1), !(isNull(name)))", "((id > 1) AND (NOT (name IS NULL)))"),
    ("in(name, 'x', 'a, \\'b) or (')", "(name IN ('x', 'a, \\'b) or ('))"),
    ("=(day, 2026-01-01)", "(day = DATE '2026-01-01')"), ("=(x, NaN)", "(x = CAST('NaN' AS DOUBLE))"),
    ("=(id, 2147483648L)", "(id = 2147483648L)"), ("<(x, -1.0E-300)", "(x < -1.0E-300)"),
    ("like(name, 'D%')", "(name LIKE 'D%')"), ("=(CAST(id AS STRING), '1')", "(CAST(id AS STRING) = '1')"),
    ("=(my col, 1)", "(`my col` = 1)"), ("=(s.in, 1)", "(s.`in` = 1)"), ("=(`a.b`, 1)", "(`a.b` = 1)"),
    ("flag", "flag"), ("true", "TRUE"), (">(+(id, 1), negative(id))", "((id + 1) > (- id))"),
]


@pytest.mark.parametrize(("text", "sql"), WRITTEN, ids=[text for text, _ in WRITTEN])
def test_what_a_column_says_of_itself_is_written_as_sql(text: str, sql: str) -> None:
    assert read(text, ["id", "my col"]) == sql


@pytest.mark.parametrize("text", [
    "a > 1", "and(a > 1, =(b, 'x'))", "=(t, 2020-01-01 02:03:04.0)", "=(b, [B@5b529c7)", "=(a, PT24H)",
    "=(s['x'], 1)", "a AS x", "CASE WHEN >(a, 1) THEN true ELSE false END", "soundex(a)", "=(a, 1", "",
    "=(a)",
    "=(a, 1) ", "array_contains(a, 2020-01-01)", "CAST(a AS INTERVAL)", "=(NaN.x, 1)x"])
def test_what_has_no_counterpart_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedPredicate, match="has no counterpart here; write the condition as SQL"):
        read(text)


def test_a_column_that_is_called_as_a_literal_is_not_mistaken() -> None:
    with pytest.raises(UnsupportedPredicate):
        read("=(NaN, 1)", ["nan"])
    assert read("=(1, 1)", ["1"]) == "(1 = 1)"


def conditions() -> list[Any]:
    from pyspark.sql import functions as F

    c = F.col
    return [
        c("id") > 1, c("name") == "it's", c("name") == "a\\'b", (c("id") > 1) & ~c("name").isNull(),
        (c("id") == 1) | c("flag"), c("name").isin("it's", "Donald"), c("day") == dt.date(2026, 1, 1),
        c("s.in") == 1, c("x") == float("nan"), c("x") > 1, c("price") == Decimal("1.50"), c("price") < 1.75,
        c("id").between(2, 3), c("id").eqNullSafe(None), c("name").startswith("D"), c("name").contains("\\"),
        F.upper(c("name")) == "DONALD", c("id").cast("string") == "2", c("id") % 2 == 0, -c("id") < -1,
        c("id") != 2, F.lit(True), F.isnan("x"), F.year("day") == 2026, c("name").like("%'%")]


@pytest.mark.spark
def test_columns_keep_the_rows_that_spark_keeps(spark: Any, tmp_path: Any) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    frame = table.to_df(spark)
    for column in conditions():
        expected = sorted(map(str, frame.filter(column).toArrow()["id"].to_pylist()))
        assert sorted(map(str, table.to_arrow(where=column)["id"].to_pylist())) == expected, str(column)
        assert table.count(column) == len(expected), str(column)
    assert table.to_df(spark, where=conditions()[0]).count() == 2
    table.delete(conditions()[1])
    assert table.history(1)[0].operation_parameters["predicate"] == "[\"(name = 'it\\\\'s')\"]"


def test_a_column_of_connect_is_refused() -> None:
    column = pytest.importorskip("pyspark.sql.connect.functions").col("id") == "x"
    with pytest.raises(UnsupportedPredicate, match="Spark Connect"):
        parse(column, ROWS.schema)
