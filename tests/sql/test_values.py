"""Values that are stored: typed by the column, never wrapped around, never silently NULL."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltanb.errors import InvalidPredicate, SchemaMismatch, UnsupportedPredicate
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.sql.predicates import parse_condition, parse_value

P = PrimitiveType
SCHEMA = StructType([
    StructField("i", P("integer")), StructField("s", P("string")), StructField("f", P("double")),
    StructField("d", P("decimal(5,2)")), StructField("ts", P("timestamp")),
    StructField("st", StructType([StructField("a", P("integer"))])),
    StructField("many", ArrayType(P("integer"))),
])
NOON = datetime(2024, 5, 6, 12, tzinfo=timezone.utc)
ROWS = pa.table({
    "i": [2**31 - 1, 5], "s": ["a", None], "f": [1.5, float("nan")], "d": [Decimal("1.25"), None],
    "ts": [NOON, None], "st": [{"a": 1}, None], "many": [[1], None],
}, schema=SCHEMA.to_arrow())


def stored(sql: str, target: str) -> list[Any]:
    return list(parse_value(sql, SCHEMA, P(target)).evaluate(ROWS, "c").to_pylist())


@pytest.mark.parametrize("sql, target, expected", [
    ("i + 1L", "long", [2**31, 6]),
    ("'5'", "integer", [5, 5]),
    ("NULL", "date", [None, None]),
    ("1.5", "integer", [1, 1]),
    ("d * 1.1", "decimal(5,2)", [Decimal("1.38"), None]),  # 1.375, rounded half up
    ("i / 2", "double", [1073741823.5, 2.5]),
    ("CASE WHEN i > 7 THEN 'big' END", "string", ["big", None]),
    ("upper(s)", "string", ["A", None]),
    ("i", "string", ["2147483647", "5"]),
    ("st.a + 1", "integer", [2, None]),
    ("ts", "date", [date(2024, 5, 6), None]),
    ("'2024-01-01'", "timestamp", [datetime(2024, 1, 1, tzinfo=timezone.utc)] * 2),
    ("i > 7", "boolean", [True, False]),
])
def test_values_take_the_type_of_their_column(sql: str, target: str, expected: list[Any]) -> None:
    assert stored(sql, target) == expected


def test_a_whole_column_of_any_type_can_be_copied() -> None:
    value = parse_value("many", SCHEMA, ArrayType(P("integer")))
    assert value.evaluate(ROWS, "c").to_pylist() == [[1], None]


@pytest.mark.parametrize("sql, target", [
    ("i + 1", "integer"), ("i * 2", "long"), ("-(i) - 9", "integer"), ("i + 1L", "integer"),
    ("f", "integer"), ("d * 1000", "decimal(5,2)"),
])
def test_a_value_that_does_not_fit_is_an_error(sql: str, target: str) -> None:
    with pytest.raises(SchemaMismatch, match="'c'"):
        stored(sql, target)


@pytest.mark.parametrize("sql, target", [
    ("s", "integer"), ("i > 3", "integer"), ("st", "integer"), ("i", "boolean"), ("'x'", "integer"),
    ("300", "byte"), ("nope", "integer"), ("i +", "integer"), ("f", "date"),
])
def test_what_a_column_does_not_take_is_refused_before_any_row(sql: str, target: str) -> None:
    with pytest.raises(InvalidPredicate):
        parse_value(sql, SCHEMA, P(target))


def test_an_unknown_column_brings_the_closest_names() -> None:
    with pytest.raises(InvalidPredicate, match="did you mean ts") as caught:
        parse_value("tss", SCHEMA, P("timestamp"))
    assert caught.value.suggestions[0] == "ts"


@pytest.mark.parametrize("sql, target", [
    ("1 / i", "double"), ("i % i", "integer"), ("i DIV 0", "long"), ("CAST(s AS INT)", "integer"),
    ("CAST(i AS TINYINT)", "byte"), ("f", "string"), ("f", "decimal(5,2)"), ("soundex(s)", "string"),
])
def test_what_may_fail_for_a_row_is_left_to_spark(sql: str, target: str) -> None:
    with pytest.raises(UnsupportedPredicate):
        parse_value(sql, SCHEMA, P(target))


def test_the_understood_part_of_a_condition() -> None:
    condition = parse_condition("i > 3 AND (soundex(s) = 'x' AND f = 1)", SCHEMA)
    assert [part.sql for part in condition.parts] == ["i > 3", "f = 1"]
    assert condition.left_out == ("soundex(s) = 'x'",) and condition.predicate is None
    assert parse_condition("i > 3 OR soundex(s) = 'x'", SCHEMA).parts == ()
    with pytest.raises(InvalidPredicate):
        parse_condition("soundex(s) = 'x' AND nope = 1", SCHEMA)
