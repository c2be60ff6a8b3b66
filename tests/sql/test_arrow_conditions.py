"""Expressions of pyarrow's keep the rows that Arrow keeps; what is not known in them is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.sql.conditions import text_of
from deltanb.sql.predicates import filter_table
from tests.examples import few, many
from tests.helpers import NAN, table_of

UTC = dt.timezone.utc
INF = float("inf")
MOMENTS = [dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 3, 2, 9, 30, 0, 1, tzinfo=UTC), None]

ROWS = pa.table({
    "id": pa.array(range(12), pa.int64()),
    "small": pa.array([0, 1, -1, None, 7, 2, 3, 1, 0, None, 5, 50], pa.int8()),
    "x": pa.array([0.5, NAN, None, INF, -INF, 1.0, 2.0, NAN, None, 3.5, -7.0, 1e300]),
    "y": pa.array([NAN, NAN, NAN, None, 1.0, 1.0, -2.0, 3.0, None, 3.5, 0.25, 2.0]),
    "f": pa.array([0.5, 0.25, None, NAN, 4.0, 1.0, 2.0, 0.1, None, -1.0, -0.5, 9.0], pa.float32()),
    "name": pa.array(["Donald", "it's", None, "", "a%", "Daisy", "Don\\", "don", "ü", None, "b", "c"]),
    "null": pa.array([True, False, None] * 4),
    "day": pa.array([dt.date(2026, 1, 1), dt.date(2026, 12, 31), None] * 4),
    "at": pa.array(MOMENTS * 4, pa.timestamp("us", tz="UTC")),
    "price": pa.array([Decimal("1.50"), Decimal("-2.00"), None] * 4, pa.decimal128(9, 2)),
    "col": pa.array(range(12), pa.int32()),
    "s": pa.array([{"in": n % 3 or None} for n in range(12)], pa.struct({"in": pa.int64()})),
})

WRITTEN = [
    (pc.field("id") > 1, "id > 1"),
    (pc.field("col") == -1, "col = -1"),
    (pc.field("null"), "`null`"),
    (~(pc.field("null") | (pc.field("id") < 2)), "NOT (`null` OR id < 2)"),
    ((pc.field("id") > 1) & (pc.field("id") < 5) & pc.field("null"), "id > 1 AND id < 5 AND `null`"),
    (pc.field("s", "in") == 1, "s.`in` = 1"),
    (pc.field("name") == "it's", "name = 'it\\'s'"),
    (pc.field("day") >= dt.date(2026, 3, 2), "day >= DATE '2026-03-02'"),
    (pc.field("at") < MOMENTS[1], "at < TIMESTAMP '2026-03-02 09:30:00.000001Z'"),
    (pc.field("f").isin([0.1]), "f IS NOT NULL AND f IN (0.10000000149011612E0)"),
    (pc.field("price") == Decimal("1.50"), "price = 1.50BD"),
    (pc.field("id").isin([1, 1, 2]), "id IS NOT NULL AND id IN (1, 2)"),
    (pc.field("small").isin([1, None]), "small IS NULL OR small IN (1)"),
    (pc.field("small").isin([]), "FALSE"),
    (pc.field("name").is_null(), "name IS NULL"),
    (pc.match_like(pc.field("name"), "D%"), "name LIKE 'D%'"),
]


@pytest.mark.parametrize(("expression", "sql"), WRITTEN, ids=[sql for _, sql in WRITTEN])
def test_an_expression_is_written_as_sql_that_keeps_the_same_rows(expression: Any, sql: str) -> None:
    words = text_of(expression, lambda: ROWS.schema)
    assert words == sql
    assert by_sql(words) == by_arrow(expression)


def by_sql(sql: str) -> list[int]:
    return filter_table(ROWS, sql)["id"].to_pylist()


def by_arrow(expression: Any) -> list[int]:
    return ROWS.filter(expression)["id"].to_pylist()


# -- any expression ----------------------------------------------------------------------------------

FLOATS = st.sampled_from([0.5, 1.0, NAN, INF, -INF, -7.0])
NUMBERS = {"id": st.integers(-2, 12), "small": st.integers(-2, 8), "x": FLOATS, "y": FLOATS,
           "price": st.sampled_from([Decimal("1.50"), Decimal("0"), Decimal("-2.0")]),
           "f": st.sampled_from([0.5, 0.1, 1.0, NAN]), "col": st.integers(0, 11)}
OTHERS = {"name": st.sampled_from(["Donald", "", "it's", "Don\\", "ü"]),
          "day": st.sampled_from([dt.date(2026, 1, 1), dt.date(1999, 1, 1)]),
          "at": st.sampled_from(MOMENTS[:2])}
SIGNS = st.sampled_from([pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal])


@st.composite
def comparisons(draw: Any) -> Any:
    """A column beside a value, another column, or a sum."""
    columns = {**NUMBERS, **OTHERS}
    name = draw(st.sampled_from(sorted(columns)))
    sides = [pc.field(name), draw(columns[name].map(pc.scalar))]
    if name in ("x", "y"):
        sum_of_both = pc.field("x") + pc.field("y")
        sides[1] = draw(st.sampled_from([sides[1], pc.field("x"), pc.field("y"), sum_of_both]))
    elif name in ("id", "col"):
        sides[1] = draw(st.sampled_from([sides[1], pc.field("small") * 2 - 1, pc.field("s", "in")]))
    return draw(SIGNS)(*draw(st.permutations(sides)))


@st.composite
def about_one(draw: Any) -> Any:
    """A condition on one column."""
    columns = {**NUMBERS, **OTHERS}
    name = draw(st.sampled_from(sorted(columns)))
    column = pc.field(name)
    if name == "name" and draw(st.booleans()):
        called = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring]))
        return called(column, draw(st.sampled_from(["D", "", "n", "'s", "\\"])))
    values = draw(st.lists(st.none() | columns[name], max_size=3))
    kind = ROWS.schema.field(name).type
    value_set = pa.array(values, kind)
    return draw(st.sampled_from([
        column.is_null(), column.is_valid(), column.is_null(nan_is_null=True), column.isin(value_set),
        pc.is_in(column, value_set=value_set, skip_nulls=True)]))


CONDITIONS = st.recursive(
    comparisons() | about_one() | st.just(pc.field("null")),
    lambda below: st.one_of(
        st.tuples(below, below).map(lambda two: two[0] & two[1]),
        st.tuples(below, below).map(lambda two: two[0] | two[1]), below.map(lambda one: ~one)),
    max_leaves=5)


@many
@given(CONDITIONS)
def test_any_expression_keeps_the_rows_that_arrow_keeps(expression: Any) -> None:
    assert by_sql(text_of(expression, lambda: ROWS.schema)) == by_arrow(expression)


@pytest.fixture(scope="module")
def files() -> dn.DeltaTable:
    """The rows in six files, whose statistics leave some out."""
    table = table_of(ROWS.slice(0, 2))
    for start in range(2, 12, 2):
        table.append(ROWS.slice(start, 2))
    return table


@few
@given(CONDITIONS)
def test_a_table_of_many_files_gives_the_same_rows(files: dn.DeltaTable, expression: Any) -> None:
    assert sorted(files.to_arrow(["id"], expression)["id"].to_pylist()) == by_arrow(expression)
    assert files.count(expression) == len(by_arrow(expression))


def test_files_are_left_out_by_an_expression(files: dn.DeltaTable) -> None:
    assert files.snapshot.files_for_scan(pc.field("id") > 9).num_rows == 1
    assert files.snapshot.files_for_scan(pc.field("x") > 1e299).num_rows < 6


# -- what is refused ---------------------------------------------------------------------------------

REFUSED = [
    (pc.field("id") / 2 == 1, "the function divide"),
    (pc.field(0) == 1, "name its columns"),
    (pc.match_substring(pc.field("name"), "D", ignore_case=True), "ignore_case"),
    (pc.match_like(pc.field("name"), "a\\%"), "escape"),
    (pc.match_substring_regex(pc.field("name"), "D.*"), "match_substring_regex"),
    (pc.field("x").cast(pa.int32(), safe=False) == 1, "a cast from double to int32"),
    (pc.if_else(pc.field("null"), True, False), "the function if_else"),
    (pc.and_(pc.field("null"), pc.field("null")), "the function and_? "),
    (pc.field("id").isin([1.5]), "isin of int64"),
    (pc.field("price") + pc.field("price") > 1, "add"),
    (pc.field("s") == pa.scalar({"in": 1}), "struct"),
]


@pytest.mark.parametrize(("expression", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_what_has_no_counterpart_is_refused_by_name(expression: Any, named: str) -> None:
    with pytest.raises(UnsupportedPredicate, match=named):
        text_of(expression, lambda: ROWS.schema)


@pytest.mark.parametrize(("expression", "pattern"), [
    (pc.field("idd") > 1, "idd.*id"),
    (pc.field("ID") > 1, "'ID'"),
    (pc.field("id") > "a", "not a condition on this table"),
    (pc.field("at") > dt.datetime(2026, 1, 1), "timezone"),
    (pc.field("id"), "int64"),
    (pc.field("id") + 1, "int64"),
])
def test_what_arrow_would_not_take_is_refused(expression: Any, pattern: str) -> None:
    with pytest.raises(InvalidPredicate, match=pattern):
        text_of(expression, lambda: ROWS.schema)


@pytest.mark.parametrize("where", [3, b"id > 1", {"id": 1}])
def test_what_is_no_condition_is_refused(where: Any) -> None:
    with pytest.raises(InvalidPredicate, match="a predicate is SQL text"):
        table_of({"id": [1]}).to_arrow(where=where)


def test_commands_take_an_expression_and_record_it_as_sql() -> None:
    table = table_of({"id": [1, 2, 3, 4], "n": ["a", "b", "c", "d"]})
    table.delete(pc.field("id") == 1)
    assert table.history(1)[0].operation_parameters["predicate"] == '["id = 1"]'
    table.update({"n": "'z'"}, where=pc.field("n").isin(["b"]))
    table.overwrite({"id": [9], "n": ["d"]}, where=pc.field("n") == "d")
    assert sorted(map(tuple, (row.values() for row in table.to_arrow().to_pylist()))) == [
        (2, "z"), (3, "c"), (9, "d")]
    with table.transaction() as txn:
        txn.delete(pc.field("id") == 9)
        assert txn.count(pc.field("id") > 2) == 1
    assert table.count() == 2


def test_optimize_purge_and_the_change_feed_take_an_expression() -> None:
    table = table_of({"p": ["a", "b"], "id": [1, 2]}, partition_by="p",
                     properties={"delta.enableChangeDataFeed": "true"})
    table.append({"p": ["a", "b"], "id": [3, 4]})
    assert table.optimize(pc.field("p") == "a").metrics["numRemovedFiles"] == 2
    table.purge(where=pc.field("p") == "a")
    feed = table.changes(1, where=(pc.field("_change_type") == "insert") & (pc.field("id") > 3))
    assert feed["id"].to_pylist() == [4]


def test_a_transaction_records_what_an_expression_reads() -> None:
    table = table_of({"id": [1, 2]})
    txn = table.start_transaction()
    assert txn.filter_files(pc.field("id") > 5).table.num_rows == 0
    assert [scan.text for scan in txn.reads.scans] == ["id > 5"]
