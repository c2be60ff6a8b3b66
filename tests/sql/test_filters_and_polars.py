"""Conditions as pyarrow's filters and polars' expressions: the rows that these libraries keep, or refused."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import DeltaError, InvalidArgument, InvalidPredicate, UnsupportedPredicate
from deltanb.table.contract import declared
from deltanb.testing import MemoryStore
from tests.helpers import NAN, table_of

DAY = dt.date(2024, 1, 1)
ROWS = pa.table({
    "id": [1, 2, 3, 4, 5, 6], "small": pa.array([1, 2, None, -3, 120, 0], pa.int8()),
    "x": [1.0, None, NAN, -0.5, 2.0, float("inf")], "p": ["a", "b", "a", None, "b", "a"],
    "s": ["Ann", "bob", None, "", "An%", "ünï"], "flag": [True, False, None, True, False, None],
    "day": [DAY, DAY + dt.timedelta(40), None, DAY, dt.date(2023, 12, 31), DAY],
    "at": pa.array([dt.datetime(2024, 1, n, 3) if n < 5 else None for n in range(1, 7)],
                   pa.timestamp("us", "UTC")),
    "m": [Decimal("1.50"), None, Decimal("2.25"), Decimal("-1.00"), Decimal("0.00"), Decimal("9.99")],
    "raw": [b"a", b"b", None, b"", b"a", b"c"], "st": [{"f": n} if n % 4 else None for n in range(1, 7)],
})


@pytest.fixture(scope="module")
def table() -> dn.DeltaTable:
    made = dn.create(MemoryStore(), ROWS.slice(0, 3), partition_by="p")
    made.append(ROWS.slice(3))
    return made


def ids_of(rows: Any) -> list[int]:
    return sorted(rows["id"].to_pylist() if hasattr(rows["id"], "to_pylist") else rows["id"].to_list())


# -- filters -------------------------------------------------------------------------------------------------

FILTERS: list[Any] = [
    [("id", "=", 2)], [("id", "==", 2)], [("id", "!=", 2)], [("id", ">", 1), ("id", "<=", 4)],
    [("p", "in", ["a"])], [("p", "not in", {"a"})], [["p", "=", "b"], ["id", "<", 5]],
    [[("id", "=", 1)], [("p", "=", "b"), ("id", ">", 3)]], [("x", ">", 0)], [("x", "!=", 1.0)],
    [("s", "in", ("Ann", ""))], [("day", ">=", DAY)], [("flag", "=", True)], [("id", "in", [1, None])],
    [("m", ">", Decimal("1.00"))], [("x", "in", [])],
    (("id", ">", 1), ("id", "<", 3)),
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_keep_the_rows_that_pyarrow_keeps(table: dn.DeltaTable, filters: Any) -> None:
    theirs = ROWS.filter(pq.filters_to_expression(
        filters if isinstance(filters[0], list) and isinstance(filters[0][0], tuple)
        else list(map(tuple, filters))))
    assert ids_of(table.to_arrow(where=filters)) == ids_of(theirs)


@pytest.mark.parametrize(("filters", "why"), [
    ([], "is empty"), ([[]], "is empty"), (("id", "=", 1), r"it is one filter; write \["),
    ([("id", "~", 1)], r"'~' is not an operator; the operators are =, "
                       r"=="), ([("id", "is", 1)], "not an operator"),
    ([("id", "=")], "is not a "
                    "filter"), ([1], "1 is not a filter"), ([("p", "in", "ab")],
                                                            "a list of values, found 'ab'"),
    ([("p", "=", None)], "write it in SQL: p IS NULL"), ([("p", "!=", None)], "p IS NOT NULL"),
    ([("nope", "=", 1)], "there is no column 'nope'"), ([("id", "=", "x")], "condition on this table|id"),
    ([(1, "=", 1)], "is not a filter"), ([("id", "in", 3)], "takes a list")])
def test_what_are_no_filters_is_refused_with_their_form(table: dn.DeltaTable, filters: Any, why: str) -> None:
    with pytest.raises(InvalidPredicate, match=why):
        table.to_arrow(where=filters)


# -- expressions of polars -----------------------------------------------------------------------------------


def _col() -> Any:
    return pytest.importorskip("polars").col


EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "comparisons": lambda pl: (pl.col("id") > 1) & (pl.col("id") <= 4) & (pl.col("id") != 3),
    "mirrored": lambda pl: pl.lit(3) < pl.col("id"),
    "or": lambda pl: (pl.col("id") == 1) | (pl.col("p") == "b"),
    "not": lambda pl: ~(pl.col("p") == "a"),
    "columns": lambda pl: pl.col("id") > pl.col("small"),
    "null": lambda pl: pl.col("p").is_null(),
    "not null": lambda pl: pl.col("p").is_not_null(),
    "equal with null": lambda pl: pl.col("p").eq_missing(pl.lit(None)),
    "unequal with null": lambda pl: pl.col("p").ne_missing("a"),
    "none": lambda pl: pl.col("p") == None,  # noqa: E711
    "in": lambda pl: pl.col("id").is_in([1, 2]),
    "not in": lambda pl: ~pl.col("p").is_in(["a", None]),
    "in none": lambda pl: ~pl.col("p").is_in([]),
    "in a series": lambda pl: pl.col("x").is_in(pl.Series([1.0, 2.0])),
    "in with null": lambda pl: pl.col("p").is_in(["a", None], nulls_equal=True),
    "not in with null": lambda pl: ~pl.col("p").is_in(["a"], nulls_equal=True),
    "days in": lambda pl: pl.col("day").is_in([DAY]),
    "between": lambda pl: pl.col("id").is_between(2, 4),
    "left": lambda pl: pl.col("id").is_between(2, 4, "left"),
    "right": lambda pl: pl.col("id").is_between(2, 4, "right"),
    "open": lambda pl: pl.col("id").is_between(2, 4, "none"),
    "floats": lambda pl: pl.col("x") > 0.5,
    "NaN": lambda pl: pl.col("x").is_nan(),
    "no NaN": lambda pl: pl.col("x").is_not_nan(),
    "arithmetic": lambda pl: pl.col("id") * 2 - 1 > 4,
    "mixed arithmetic": lambda pl: pl.col("x") + pl.col("id") > 3.5,
    "small numbers": lambda pl: pl.col("small") + 1 > 2,
    "negative": lambda pl: -pl.col("id") < -4,
    "absolute": lambda pl: pl.col("small").abs() == 3,
    "a flag": lambda pl: pl.col("flag"),
    "no flag": lambda pl: ~pl.col("flag"),
    "true": lambda pl: pl.lit(True) & (pl.col("id") > 2),
    "starts": lambda pl: pl.col("s").str.starts_with("An"),
    "ends": lambda pl: pl.col("s").str.ends_with("n"),
    "contains": lambda pl: pl.col("s").str.contains("n%", literal=True),
    "upper": lambda pl: pl.col("s").str.to_uppercase() == "ÜNÏ",
    "length": lambda pl: pl.col("s").str.len_chars() == 3,
    "year": lambda pl: pl.col("day").dt.year() == 2024,
    "month": lambda pl: pl.col("at").dt.month() == 1,
    "a day": lambda pl: pl.col("day") >= DAY,
    "date of a time": lambda pl: pl.col("at").dt.date() == dt.date(2024, 1, 2),
    "a time": lambda pl: pl.col("at") > dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc),
    "decimals": lambda pl: pl.col("m") >= Decimal("1.50"),
    "bytes": lambda pl: pl.col("raw") == b"a",
    "a field": lambda pl: pl.col("st").struct.field("f") > 2,
    "filled": lambda pl: pl.col("small").fill_null(7) == 7,
    "cases": lambda pl: pl.when(pl.col("small") > 1).then(pl.col("id") > 2).otherwise(pl.col("id") == 3),
    "all of": lambda pl: pl.all_horizontal(pl.col("id") > 1, pl.col("p") == "a"),
    "any of": lambda pl: pl.any_horizontal(pl.col("id") > 5, pl.col("flag")),
}


@pytest.mark.filterwarnings("ignore")  # polars warns of what gives no row, and of lists that are series
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_keeps_the_rows_that_polars_keeps(table: dn.DeltaTable, name: str) -> None:
    pl = pytest.importorskip("polars")
    expression = EXPRESSIONS[name](pl)
    for each in (expression, ~expression):
        assert ids_of(table.to_arrow(where=each)) == ids_of(pl.from_arrow(ROWS).filter(each)), each
    assert table.count(expression) == len(ids_of(pl.from_arrow(ROWS).filter(expression)))


NUMBERS = st.integers(-4, 130) | st.floats(-1, 4)
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
PARTS = st.tuples(st.sampled_from(["id", "x", "small"]), SIGNS, NUMBERS, st.booleans())


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_random_expressions_keep_the_rows_that_polars_keeps(
    table: dn.DeltaTable, parts: list[tuple[str, str, float, bool]], ands: list[bool]
) -> None:
    pl = pytest.importorskip("polars")
    whole: Any = None
    for (name, sign, value, negated), joins in zip(parts, ands, strict=False):
        part = eval(f"{'~' if negated else ''}(pl.col({name!r}) {sign} value)", {"pl": pl, "value": value})
        whole = part if whole is None else whole & part if joins else ~(whole | part)
    assert ids_of(table.to_arrow(where=whole)) == ids_of(pl.from_arrow(ROWS).filter(whole))


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an aggregation": (lambda pl: pl.col("id") > pl.col("id").mean(), "an aggregation"),
    "several columns": (lambda pl: pl.col("id", "small") > 1, "a selector of columns"),
    "a cast": (lambda pl: pl.col("id").cast(pl.String) == "1", "a cast"),
    "a regular expression": (lambda pl: pl.col("s").str.contains("A."), "literal=True"),
    "a division": (lambda pl: pl.col("id") / 2 > 1, "the operator TrueDivide"),
    "texts added": (lambda pl: pl.col("s") + "x" == "ax", "arithmetic on something that is not a number"),
    "a function of Python": (lambda pl: pl.col("id").map_elements(bool, return_dtype=pl.Boolean), "polars"),
    "another function": (lambda pl: pl.col("s").str.strip_chars() == "a", "the function StripChars"),
    "a window": (lambda pl: pl.col("id").sum().over("p") > 1, "has no counterpart"),
    "NaN of integers": (lambda pl: pl.col("id").is_nan(), "is_nan on something"),
    "NaN": (lambda pl: pl.col("x") == NAN, "NaN or an infinity"),
    "infinity": (lambda pl: pl.col("x") < pl.lit(float("inf")), "NaN or an infinity"),
    "an element": (lambda pl: pl.element() > 1, "has no counterpart"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(table: dn.DeltaTable, name: str) -> None:
    make, why = REFUSED[name]
    expression = make(pytest.importorskip("polars"))
    with pytest.raises(UnsupportedPredicate, match=why):
        table.to_arrow(where=expression)


def test_a_column_that_is_not_there_is_named(table: dn.DeltaTable) -> None:
    with pytest.raises(InvalidPredicate, match="there is no column 'idd' .* did you mean id"):
        table.to_arrow(where=_col()("idd") > 1)
    with pytest.raises(DeltaError):
        table.to_arrow(where=_col()("id") + 1)


# -- every way in --------------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[dn.DeltaTable, Any], Any]] = {
    "to_pandas": lambda table, where: len(table.to_pandas(where=where)), "count": dn.DeltaTable.count,
    "to_batches": lambda table, where: table.to_batches(where=where).read_all().num_rows,
    "to_polars": lambda table, where: table.to_polars(where=where).collect().height,
    "sample": lambda table, where: len(table.sample(9, where=where)),
    "describe": lambda table, where: table.describe(["id"], where=where).loc["count", "id"],
    "delete": lambda table, where: table.delete(where) and 6 - table.count(),
    "update": lambda table, where: table.update({"s": "'new'"}, where=where) and table.count("s = 'new'"),
    "overwrite": lambda table, where: table.overwrite(
        ROWS.slice(1, 1), where=where) and 7 - table.count(),
    "explain": lambda table, where: table.explain(where) and 2,
    "blame": lambda table, where: table.blame(where).to_arrow().num_rows,
    "a transaction": lambda table, where: _in_transaction(table, where),
}


def _in_transaction(table: dn.DeltaTable, where: Any) -> int:
    with table.transaction() as txn:
        txn.delete(where)
        return 6 - txn.count()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["filters", "polars"])
def test_every_method_takes_them_where_it_takes_sql(way: str, form: str) -> None:
    where = [("id", "in", [2, 5])] if form == "filters" else _col()("id").is_in([2, 5])
    assert WAYS[way](table_of(ROWS), where) == 2


CONDITIONED = [name for name in declared(dn.DeltaTable) if not name.startswith("_") and "where" in (
    inspect.signature(method).parameters if callable(method := getattr(dn.DeltaTable, name)) else ())]
"""The methods that take a condition."""


@pytest.mark.parametrize("name", CONDITIONED)
def test_filters_are_where_by_the_name_that_pandas_has_for_it(name: str) -> None:
    table = table_of(ROWS, properties={"delta.enableChangeDataFeed": True})
    method = getattr(table, name)
    arguments = {"data": ROWS, "assignments": {"s": "'a'"}, "column": "id"}
    needed = {one.name: arguments[one.name] for one in inspect.signature(method).parameters.values()
              if one.default is one.empty}
    with pytest.raises(InvalidArgument, match="where or filters, not both"):
        method(**needed, where="id = 1", filters=[("id", "=", 1)])
    with pytest.raises(InvalidPredicate, match="there is no column 'nope'"):
        method(**needed, filters=[("nope", "=", 1)])
    assert table.version == 0
    if name == "count":
        assert table.count(filters=[("id", "<", 3)]) == table.to_pyarrow_table(filters="id < 3").num_rows == 2
    with pytest.raises(InvalidArgument, match="not both"):
        table.to_arrow(["id"], "id = 1", filters=[("id", "=", 1)])


def test_iceberg_tables_take_filters_and_expressions(tmp_path: Any) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", tmp_path / "warehouse") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.t", {"id": [1, 2, 3], "v": ["a", "b", "c"]}, format="iceberg")
        for where in ([("id", ">", 1), ("v", "!=", "c")], (_col()("id") > 1) & (_col()("v") != "c"),
                      pa.compute.field("id") == 2, "id = 2", [("v", "in", ["b"])],
                      [[("id", "=", 2)], [("id", "=", 9)]]):
            assert (table.to_arrow(where=where).num_rows, table.count(where)) == (1, 1), where
        assert table.to_arrow(filters=[("id", ">", 2)])["id"].to_pylist() == [3]
        with pytest.raises(InvalidArgument, match="not both"):
            table.count("id = 1", filters=[("id", "=", 1)])
        table.delete([("id", "=", 2)])
        assert len(table) == 2
