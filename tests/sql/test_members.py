"""Sets of constants: which rows are in them, what becomes one, and conditions run without Acero."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.schema.types import from_arrow
from deltanb.sql import direct, predicates
from deltanb.sql import expressions as ex
from deltanb.sql.members import MANY, Members
from deltanb.sql.values import project
from tests.examples import many

NAN = math.nan
ROWS = pa.table({
    "i": pa.array([1, 2, None, 300, -1, 0], pa.int32()), "d": pa.array([0.0, -0.0, NAN, None, 1.5, math.inf]),
    "f": pa.array([0.0, -0.0, NAN, None, 0.1, 1.5], pa.float32()),
    "s": pa.array(["a", "", None, "é", "b", "a"]), "b": pa.array([True, False, None, True, False, None]),
    "a": pa.array([[1], None, [], [2, 3], [1], [None]], pa.list_(pa.int64())),
})
SCHEMA = from_arrow(ROWS.schema)


def verdicts(sql: str) -> list[bool | None]:
    """TRUE, FALSE or None for each row, by Acero."""
    expression = predicates.parse(sql, SCHEMA).to_expression()
    return project(ROWS, {"x": expression})["x"].to_pylist()


@pytest.mark.parametrize(("sql", "expected"), [
    ("i IN (1, 300)", [True, False, None, True, False, False]),
    ("i IN (1, NULL)", [True, None, None, None, None, None]),
    ("i NOT IN (1, NULL)", [False, None, None, None, None, None]),
    ("i NOT IN (1, 2)", [False, False, None, True, True, True]),
    ("i IN (NULL, NULL)", [None] * 6),
    ("i IN (1, 2.5)", [True, False, None, False, False, False]),
    ("d IN (0.0, 1.5)", [True, True, False, None, True, False]),
    ("d IN (1.5, cast('NaN' as double))", [False, False, True, None, True, False]),
    ("d NOT IN (1.5, cast('NaN' as double))", [True, True, False, None, False, True]),
    ("f IN (cast('NaN' as float), cast('0' as float))", [True, True, True, None, False, False]),
    ("s IN ('a', 'é')", [True, False, None, True, False, True]),
    ("b IN (true, NULL)", [True, None, None, True, None, None]),
    ("i = 1 OR i = 300", [True, False, None, True, False, False]),
    ("i = 1 OR i = NULL OR i IN (2, 3)", [True, True, None, None, None, None]),
    ("a IN (array(1L), array(2L, 3L))", [True, None, False, True, True, False]),
])
def test_members_by_the_logic_of_three_values(sql: str, expected: list[bool | None]) -> None:
    assert verdicts(sql) == expected
    rows = predicates.filter_table(ROWS, predicates.parse(sql, SCHEMA))
    assert rows.num_rows == expected.count(True)


def sets(sql: str) -> list[tuple[tuple[Any, ...], bool]]:
    """The sets that a condition asks for, with whether NULL is in them."""
    return [(node.extra.values, node.extra.has_null)
            for node in ex.walk(predicates.parse(sql, SCHEMA).expression)
            if isinstance(node, ex.Call) and node.op == "in"]


def test_equalities_of_one_column_are_one_set() -> None:
    assert sets("i = 1 OR s = 'a' OR 2 = i OR i IN (2, 3) OR i = NULL") == [((1, 2, 3), True)]
    assert sets("i + 1 = 1 OR s = 'b' OR i + 1 = 2 OR s = 'a'") == [((1, 2), False), (("b", "a"), False)]
    assert sets("i = 1") == [] and sets("i = 1 AND i = 2") == [] and sets("i = 1 OR s = 'a'") == []


def test_many_inequalities_are_one_set_and_few_stay_apart() -> None:
    few, many = (" AND ".join(f"i <> {n}" for n in range(count)) for count in (MANY, MANY + 1))
    assert sets(few) == [] and sets(many) == [(tuple(range(MANY + 1)), False)]
    assert len(predicates.parse(few, SCHEMA).conjuncts()) == MANY
    assert verdicts(many) == [False, False, None, True, True, False]


def test_terms_keep_their_order_where_one_may_fail() -> None:
    assert sets("i = 1 OR a[0] = 1 OR i = 2") == []


def test_thousands_of_terms_are_a_handful_of_nodes() -> None:
    sql = " OR ".join(f"(i = {n})" for n in range(2**14))
    expression = predicates.parse(sql, SCHEMA).expression
    assert sum(1 for _ in ex.walk(expression)) == 2


def test_bounds_of_floats_with_nan() -> None:
    some = Members.of([1.0, 5.0], pa.float64())
    low, high = pa.array([NAN, 0.0, 2.0, 6.0, None]), pa.array([NAN, NAN, 4.0, NAN, 1.0])
    assert some.any_between(low, high).to_pylist() == [False, True, False, False, None]


LEAVES = ["i = 1", "i <> 2", "i < 300", "i >= 0", "s LIKE 'a%'", "s = ''", "b", "i IS NULL",
          "s IN ('a', NULL)", "i IN (1, 2)", "d IN (0.0, 1.5)", "f IN (0.0, cast('NaN' as float))",
          "(i > 1) IS TRUE", "NULL", "TRUE", "i = NULL", "s > 'a'", "b = false", "i BETWEEN 0 AND 2"]
CONDITIONS = st.recursive(st.sampled_from(LEAVES), lambda inner: st.one_of(
    st.builds("({} AND {})".format, inner, inner), st.builds("({} OR {})".format, inner, inner),
    st.builds("(NOT {})".format, inner)), max_leaves=5)


@given(CONDITIONS)
@many
def test_run_directly_a_condition_gives_what_it_gives_in_acero(sql: str) -> None:
    predicate = predicates.parse(sql, SCHEMA)
    assert direct.handles(predicate.expression)
    answers = direct.verdicts(predicate.expression, lambda node: ROWS[node.path[0]], ROWS.num_rows)
    assert answers.to_pylist() == verdicts(sql)
