"""New values of UPDATE and MERGE: Python values mean themselves, texts are SQL, and slips are told apart."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, InvalidPredicate
from deltanb.sql.literals import literal, text_literal
from deltanb.testing import MemoryStore
from tests.helpers import refused

COLUMNS = ("id long, i int, carrier string, d double, f float, m decimal(10,2), b boolean, x binary, "
           "day date, ts timestamp, ntz timestamp_ntz, st struct<a: long, s: string>")
UTC, EAST = timezone.utc, timezone(timedelta(hours=2))
MOMENT = datetime(2026, 3, 2, 9, 30, 0, 123456)

VALUES: list[tuple[str, Any, Any]] = [
    ("i", 1, 1), ("i", -(2**31), -(2**31)), ("id", 2**63 - 1, 2**63 - 1), ("id", -(2**63), -(2**63)),
    ("i", 2.0, 2), ("d", 0.30000000000000004, 0.30000000000000004), ("d", 5e-324, 5e-324),
    ("d", -1.7976931348623157e308, -1.7976931348623157e308), ("d", float("-inf"), float("-inf")),
    ("d", 7, 7.0), ("f", 1.5, 1.5), ("b", True, True), ("b", False, False),
    ("carrier", None, None), ("st", None, None), ("carrier", 7, "7"),
    ("m", Decimal("-9.50"), Decimal("-9.50")), ("m", Decimal("1E+2"), Decimal("100.00")),
    ("m", Decimal("1.5000"), Decimal("1.50")),
    ("x", b"\x00'a\\", b"\x00'a\\"), ("x", bytearray(b""), b""),
    ("day", date(2026, 3, 2), date(2026, 3, 2)), ("day", date(1, 1, 1), date(1, 1, 1)),
    ("day", datetime(2026, 3, 2), date(2026, 3, 2)),
    ("ts", MOMENT, MOMENT.replace(tzinfo=UTC)), ("ts", date(2026, 3, 2), datetime(2026, 3, 2, tzinfo=UTC)),
    ("ts", MOMENT.replace(tzinfo=EAST), MOMENT.replace(tzinfo=UTC) - timedelta(hours=2)),
    ("ntz", MOMENT, MOMENT), ("ntz", MOMENT.replace(tzinfo=EAST), MOMENT - timedelta(hours=2)),
    ("st.a", 7, {"a": 7, "s": None}),
    ("i", np.int64(3), 3), ("d", np.float32(0.5), 0.5), ("b", np.bool_(True), True),
    ("day", np.datetime64("2026-03-02", "D"), date(2026, 3, 2)),
    ("ts", pd.Timestamp("2026-03-02", tz="UTC"), datetime(2026, 3, 2, tzinfo=UTC)), ("ts", pd.NaT, None),
]


def flights() -> dn.DeltaTable:
    """One row, in which all is NULL but its id."""
    table = dn.create(MemoryStore(), COLUMNS)
    table.append({"id": [1]})
    return table


def values_of(table: dn.DeltaTable, name: str) -> list[Any]:
    return table.to_arrow(columns=[name.partition(".")[0]]).to_pydict()[name.partition(".")[0]]


@pytest.mark.parametrize(("name", "value", "stored"), VALUES)
def test_a_python_value_means_itself(name: str, value: Any, stored: Any) -> None:
    table = flights()
    assert table.update({name: value}).engine == "arrow"
    assert values_of(table, name) == [stored]


def test_not_a_number_is_one() -> None:
    table = flights()
    table.update({"d": float("nan")})
    assert math.isnan(values_of(table, "d")[0])


@pytest.mark.parametrize(("name", "value", "stored"), [v for v in VALUES if v[0] not in ("id", "st.a")])
def test_in_a_merge_too(name: str, value: Any, stored: Any) -> None:
    table = flights()
    (table.merge({"id": [1, 2]}, "t.id = s.id", target_alias="t", source_alias="s")
     .when_matched_update(set={f"t.{name}": value})
     .when_not_matched_insert(values={"id": "s.id", name: value}).execute())
    assert values_of(table, name) == [stored, stored]


def test_in_a_merge_rows_without_a_match_get_them_as_well() -> None:
    table = flights()
    (table.merge({"id": [2]}, "t.id = s.id", target_alias="t", source_alias="s")
     .when_not_matched_by_source_update(set={"i": 9}).execute())
    assert values_of(table, "i") == [9]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_stores_the_same(spark: Any) -> None:
    for name, value, stored in VALUES:
        table = flights()
        table.update({name: value}, engine="spark")
        assert values_of(table, name) == [stored], (name, value)


@pytest.mark.parametrize(("name", "value", "why"), [
    ("i", 1.5, "keeps no fraction"), ("id", Decimal("0.1"), "keeps no fraction"),
    ("m", Decimal("1.555"), "keeps 2 digits"), ("m", Decimal("NaN"), "no such value"),
    ("m", Decimal("1." + "0" * 40 + "1"), "keeps 2 digits"),
    ("day", MOMENT, "no time of day"), ("id", 10**38, "38 digits"), ("i", 2**31, "out of the range of int"),
    ("i", [1], "int, float, bool, None"), ("i", {"a": 1}, "int, float, bool, None"),
    ("i", pd.NA, "int, float, bool, None"),
    ("ts", np.datetime64(1, "ns"), "nanoseconds"),
    ("ts", pd.Timestamp(1), "keeps microseconds"), ("ts", datetime(1, 1, 1, tzinfo=EAST), "years 1 to 9999"),
])
def test_a_value_that_cannot_be_kept_whole_is_refused(name: str, value: Any, why: str) -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({name: value}))
    assert why in str(error)


def test_a_name_is_a_text() -> None:
    table = flights()
    error = refused(table, InvalidArgument, lambda: table.update({1: 2}))  # type: ignore[dict-item]
    assert "a column to assign to is a name, found int: 1" in str(error)


# -- texts that are no SQL -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text", "message"), [
    ("carrier", "UA", "there is no column 'UA'; for the text UA write \"'UA'\""),
    ("carrier", "New York", "cannot be read as such; for the text New York write \"'New York'\""),
    ("carrier", "O'Hare", "cannot be read as such; for the text O'Hare write \"'O\\\\'Hare'\""),
    ("carrier", "N/A", "there is no column 'N'; for the text N/A write \"'N/A'\""),
    ("carrier", "", "cannot be read as such; for a text without a letter write \"''\""),
    ("carrier", "carier", "there is no column 'carier' (did you mean carrier?); for the text carier write"),
    ("st.s", "UA", "there is no column 'UA'; for the text UA write \"'UA'\""),
    ("day", "2026-03-02", "for the text 2026-03-02 write \"'2026-03-02'\""),
])
def test_a_text_without_quotes_is_told_how_to_write_it(name: str, text: str, message: str) -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({name: text}))
    assert f"the value {text!r} of column" in str(error) and "is SQL, and " in str(error)
    assert message in str(error)


@pytest.mark.parametrize("clause", ["set", "values"])
def test_a_merge_tells_it_too(clause: str) -> None:
    table = flights()
    merge = table.merge({"id": [1]}, "t.id = s.id", target_alias="t", source_alias="s")
    if clause == "set":
        merge = merge.when_matched_update(set={"carrier": "UA"})
    else:
        merge = merge.when_not_matched_insert(values={"id": "s.id", "carrier": "UA"})
    error = refused(table, InvalidPredicate, merge.execute)
    assert "is SQL, and there is no column 'UA'; for the text UA write \"'UA'\"" in str(error)


@pytest.mark.parametrize(("name", "text"), [
    ("carrier", "upper(carier)"), ("carrier", "carier || 'x'"), ("i", "idd + 1"), ("i", "UA"),
])
def test_sql_with_a_slip_is_told_the_slip(name: str, text: str) -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({name: text}), "no column")
    assert "for the text" not in str(error)


@pytest.mark.parametrize(("text", "message"), [
    ("abc", "is an expression in SQL, and there is no column 'abc'; write a number as 7, a text as \"'UA'\""),
    ("abc def", "is an expression in SQL, and 'abc def' is not valid SQL: unexpected 'def' "
                "after 'abc'; write a"),
    ("idd", "is an expression in SQL, and there is no column 'idd' (did you mean id?)"),
    ("1 +", "is an expression in SQL, and '1 +' is not valid SQL: an operand is missing"),
    ("", "is an expression in SQL, and '' is empty; write a number"),
    ("carrier || 'x'", ": \"carrier || 'x'\" is string, which a column of type int does not take"),
])
def test_a_value_that_a_number_column_does_not_take_is_told_with_the_column(text: str, message: str) -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({"i": text}))
    assert f"the value of column 'i'{'' if message.startswith(':') else ' '}{message}" in str(error)
    assert "predicate" not in str(error) and "condition" not in str(error)


@pytest.mark.parametrize(("name", "value"), [
    ("id", True), ("d", "false"), ("m", True), ("b", 1), ("b", "0.5"), ("day", True), ("ts", 5), ("day", 7),
])
def test_truth_values_numbers_and_times_are_not_stored_as_each_other(name: str, value: Any) -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({name: value}))
    assert f"'{name}'" in str(error) and "does not take; add a CAST" in str(error)


def test_a_number_for_a_text_is_no_text_without_quotes() -> None:
    table = flights()
    error = refused(table, InvalidPredicate, lambda: table.update({"carrier": 1.5}), "no cast from double")
    assert "for the text" not in str(error)


def test_what_the_message_says_to_write_is_right() -> None:
    table = flights()
    for text in ("UA", "O'Hare", 'say "x"', "a\\b", "100%", "naïve 表"):
        table.update({"carrier": text_literal(text)})
        assert values_of(table, "carrier") == [text]


def test_literals_have_a_type_of_their_own() -> None:
    assert literal(1.0) == "1.0E0" and literal(MOMENT) == "TIMESTAMP_NTZ '2026-03-02 09:30:00.123456'"
    assert literal(MOMENT.replace(tzinfo=UTC)) == "TIMESTAMP '2026-03-02 09:30:00.123456Z'"
