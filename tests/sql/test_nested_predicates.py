"""Arrays, maps and structs in conditions: the answers were verified with Spark 4.2 in ANSI mode."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import from_arrow
from deltanb.sql import failures, predicates
from deltanb.sql.expressions import compile_expression
from deltanb.sql.resolver import Resolver
from deltanb.sql.syntax import syntax
from deltanb.sql.values import project
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from tests.helpers import ids

TYPES = pa.schema([
    ("id", pa.int32()), ("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32())),
    ("d", pa.list_(pa.float64())), ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ("aa", pa.list_(pa.list_(pa.int32()))), ("sa", pa.list_(pa.struct([("k", pa.string())])))])
SCHEMA = from_arrow(TYPES)
ROWS = pa.Table.from_pylist([
    {"id": 1, "a": [1, 2, None], "m": [("a", 1), ("b", None)], "d": [math.nan, -0.0],
     "st": {"x": 1, "y": "q"}, "aa": [[1], None], "sa": [{"k": "v"}]},
    {"id": 2},
    {"id": 3, "a": [], "m": [], "d": [], "st": {"x": None, "y": "q"}, "aa": [], "sa": []},
], schema=TYPES).cast(SCHEMA.to_arrow())
FAILS = object()

VALUES: list[tuple[str, Any]] = [
    ("a[0]", FAILS), ("a[-1]", FAILS), ("a[3]", FAILS), ("a[NULL]", [None] * 3),
    ("get(a, 0)", [1, None, None]), ("get(a, -1)", [None] * 3), ("get(a, 9)", [None] * 3),
    ("element_at(a, 1)", FAILS), ("element_at(a, 0)", FAILS), ("try_element_at(a, 0)", FAILS),
    ("try_element_at(a, -3)", [1, None, None]), ("try_element_at(a, 4)", [None] * 3),
    ("array(10, 20)[id - 1]", FAILS), ("element_at(array(1, 2, 3), -id)", [3, 2, 1]),
    ("CASE WHEN size(a) > 1 THEN a[1] END", [2, None, None]), ("coalesce(1, a[9])", [1, 1, 1]),
    ("m['a']", [1, None, None]), ("m['zz']", [None] * 3), ("m[NULL]", [None] * 3), ("m.a", [1, None, None]),
    ("m[1]", [None] * 3), ("element_at(m, 'a')", [1, None, None]), ("try_element_at(m, 'zz')", [None] * 3),
    ("size(a)", [3, None, 0]), ("size(m)", [2, None, 0]), ("cardinality(a)", [3, None, 0]),
    ("cardinality(m)", [2, None, 0]), ("array_size(a)", [3, None, 0]), ("size(NULL)", [None] * 3),
    ("array_contains(a, 1)", [True, None, False]), ("array_contains(a, 5)", [None, None, False]),
    ("array_contains(a, 1L)", [True, None, False]), ("array_contains(a, 1.0)", [True, None, False]),
    ("array_contains(d, CAST('nan' AS DOUBLE))", [True, None, False]),
    ("array_contains(d, 0.0D)", [True, None, False]), ("array_contains(array(), 1)", [False] * 3),
    ("array_contains(aa, array(1))", [True, None, False]), ("array_contains(array('a'), 'a')", [True] * 3),
    ("array(1, id)", [[1, 1], [1, 2], [1, 3]]), ("array(NULL, 1)", [[None, 1]] * 3),
    ("array(1, 2L, id)", [[1, 2, 1], [1, 2, 2], [1, 2, 3]]), ("array()", [[]] * 3),
    ("map('a', id)['a']", [1, 2, 3]), ("map('a', 1, 'b', 2)", [[("a", 1), ("b", 2)]] * 3),
    ("map('a', 1, 'a', 2)['a']", FAILS), ("map(st.y, 1)['q']", FAILS),
    ("map_keys(m)", [["a", "b"], None, []]), ("map_values(m)", [[1, None], None, []]),
    ("map_contains_key(m, 'a')", [True, None, False]),
    ("a = array(1, 2, NULL)", [True, None, False]), ("a <=> array(1, 2, NULL)", [True, False, False]),
    ("a < array(1, 2)", [False, None, True]), ("a < array(1, 3)", [True, None, True]),
    ("array() = a", [False, None, True]), ("a = array(1L)", [False, None, False]),
    ("d = array(CAST('nan' AS DOUBLE), 0.0D)", [True, None, False]), ("st = st", [True, None, True]),
    ("a IN (array(1, 2), array(1, 2, NULL))", [True, None, False]), ("a IS NULL", [False, True, False]),
    ("a BETWEEN array(1) AND array(2)", [True, None, False]), ("m IS NOT NULL", [True, False, True]),
    ("coalesce(a, array(7))", [[1, 2, None], [7], []]), ("nullif(a, array(1, 2, NULL))", [None, None, []]),
    ("if(id = 1, a, NULL)", [[1, 2, None], None, None]), ("get(aa, 0)", [[1], None, None]),
    ("get(get(aa, 0), 0)", [1, None, None]), ("get(aa, 1)[0]", [None] * 3), ("aa[1][0]", FAILS),
    ("get(sa, 0).k", ["v", None, None]), ("sa.k", [["v"], None, []]), ("sa.K[0]", FAILS),
    ("st['x']", [1, None, None]),
]


@pytest.mark.parametrize(("sql", "expected"), VALUES)
def test_values_are_those_of_spark(sql: str, expected: Any) -> None:
    expression = Resolver(sql, SCHEMA).whole(syntax(sql), is_condition=False)
    failing = failures.failure(expression)
    fails = failing is not None and any(values(ROWS, failing))
    assert fails == (expected is FAILS)
    if not fails:
        assert values(ROWS, expression) == expected
        sliced = pa.concat_tables([ROWS, ROWS]).combine_chunks().slice(2, 4)
        assert values(sliced, expression) == [expected[2], *expected]


def values(rows: pa.Table, expression: Any) -> list[Any]:
    return project(rows, {"x": compile_expression(expression)})["x"].to_pylist()


@pytest.mark.parametrize(("where", "expected"), [
    ("size(a) > 0 AND a[0] = 1", [1]), ("a[0] = 1 AND size(a) > 0", FAILS),
    ("size(a) = 0 OR a IS NULL OR a[2] IS NULL", [1, 2, 3]), ("NOT (size(a) > 0 AND a[0] = 1)", [3]),
    ("NOT (size(a) <= 0 OR a[0] <> 1)", [1]), ("id = 1 AND a[2] IS NULL", [1]), ("id < 3 AND a[0] = 1", [1]),
    ("id = 3 AND a[0] = 1", FAILS), ("CASE WHEN id = 1 THEN a[0] = 1 ELSE id = 2 END", [1, 2]),
    ("CASE WHEN a[0] = 1 THEN TRUE ELSE FALSE END", FAILS), ("coalesce(id, a[9]) = 1", [1]),
    ("NULL = a[9]", []), ("a[9] = NULL", []), ("a[9] IS NULL", FAILS), ("array(1, 2)[id - 1] = 2", FAILS),
])
def test_a_condition_raises_where_spark_raises(tmp_path: Path, where: str, expected: Any) -> None:
    table = create(tmp_path, ROWS)
    for ask in (lambda: ids(table, where), lambda: ids_deleted(table, where)):
        if expected is FAILS:
            with pytest.raises(InvalidPredicate, match="array index is out of bounds, or a map key"):
                ask()
        else:
            assert ask() == expected
    assert table.version == (0 if expected in (FAILS, []) else 1)


def ids_deleted(table: DeltaTable, where: str) -> list[int]:
    before = ids(table)
    table.delete(where, engine="arrow")
    return sorted(set(before) - set(ids(table)))


@pytest.mark.parametrize("sql", [
    "a['0'] = 1", "a[1.0] = 1", "element_at(a, 1L) = 1", "element_at(m, 1) = 1", "array_contains(a, NULL)",
    "array_contains(a, '1')", "map_contains_key(m, NULL)", "m = map('a', 1)", "m <=> m", "m IN (m)",
    "size('abc') = 1", "size(st) = 1", "map('a') = 1", "id[0] = 1", "st.zz = 1", "sa.zz = array('a')",
    "map_keys(a) = a", "a = 1", "st = a", "a + 1 = 2", "get(m, 0) = 1",
])
def test_what_spark_refuses_is_refused(sql: str) -> None:
    with pytest.raises((InvalidPredicate, UnsupportedPredicate)) as caught:
        predicates.parse(sql, SCHEMA).to_expression()
    assert sql in caught.value.message


@pytest.mark.parametrize("sql", ["array_max(a) = 1", "a[1:2] = a", "transform(a, x -> x) = a",
                                 "st = struct(1, 'q')", "array_position(a, 1) = 1", "size(map()) = 0"])
def test_what_is_unknown_names_the_engine_that_knows_it(sql: str) -> None:
    with pytest.raises(UnsupportedPredicate, match="Spark"):
        predicates.parse(sql, SCHEMA).to_expression()


def test_files_are_skipped_beside_what_may_fail(tmp_path: Path) -> None:
    table = create(tmp_path, ROWS.slice(0, 1))
    table.append(ROWS.slice(2))
    where = "id = 1 AND a[0] = 1"
    assert table.snapshot.files_for_scan(where).num_rows == 1
    assert ids(table, where) == [1]
    assert table.snapshot.files_for_scan("array(1)[5] = 1").num_rows == 2  # a constant: no file decides it


def test_values_that_cannot_fail_are_stored(tmp_path: Path) -> None:
    table = create(tmp_path, ROWS)
    table.update({"a": "array(id, size(m))", "id": "coalesce(m['a'], 7)"}, where="id <> 2", engine="arrow")
    assert sorted(table.to_arrow(columns=["id", "a"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "a": [1, 2]}, {"id": 2, "a": None}, {"id": 7, "a": [3, 0]}]
    with pytest.raises(UnsupportedPredicate, match="index"):
        table.update({"id": "a[0]"}, engine="arrow")
    assert table.version == 1


def test_a_check_looks_into_arrays(tmp_path: Path) -> None:
    table = create(tmp_path, ROWS)
    table.add_constraint("first", "a IS NULL OR size(a) = 0 OR a[0] = 1")
    with pytest.raises(Exception, match="first"):
        table.append(pa.Table.from_pylist([{"id": 4, "a": [2]}], schema=TYPES))
    table.append(pa.Table.from_pylist([{"id": 4, "a": [1]}], schema=TYPES))
    assert ids(table) == [1, 2, 3, 4]


def test_a_column_of_a_struct_in_an_array_keeps_its_logical_name(tmp_path: Path) -> None:
    table = create(tmp_path, ROWS, properties={"delta.columnMapping.mode": "name"})
    assert ids(table, "size(sa) > 0 AND sa[0].k = 'v'") == [1]
    assert ids(table, "m['a'] = 1 AND st['y'] = 'q'") == [1]
