"""Constraints: the row and the rule are named, NULL does not pass a CHECK."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from deltanb.actions import Metadata
from deltanb.engines.arrow.constraints import Check, Checker, NotNull, Within, constraints_of
from deltanb.errors import (
    ConstraintViolation,
    InvalidPredicate,
    InvalidTable,
    UnsupportedPredicate,
)
from deltanb.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType, to_arrow

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
FIELDS = StructType([StructField("x", LONG), StructField("name", STRING)])


def checker(schema: StructType = FIELDS, *extra: Check, **constraints: str) -> Checker:
    configuration = {f"delta.constraints.{name}": sql for name, sql in constraints.items()}
    return Checker(schema, Metadata("t", schema.to_json(), configuration=configuration), extra)


def rows(*values: tuple[object, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"x": x, "name": name} for x, name in values], schema=to_arrow(FIELDS))


def test_rows_that_satisfy_everything_pass() -> None:
    checker(positive="x > 0", named="name IS NOT NULL").check(rows((1, "a"), (2, "b")))
    checker().check(rows((None, None)))


def test_a_violation_names_constraint_expression_values_and_row() -> None:
    with pytest.raises(ConstraintViolation) as caught:
        checker(positive="x > 0").check(rows((1, "a"), (-5, "b"), (-6, "c")), first_row=100)
    error = caught.value
    assert (error.constraint, error.expression, error.row_number) == ("positive", "x > 0", 102)
    assert error.row == {"x": -5, "name": "b"}
    assert error.message == (
        "CHECK constraint positive (x > 0) is not TRUE for row 102:\n - x : -5\nnothing was written"
    )


def test_null_violates_a_check() -> None:
    with pytest.raises(ConstraintViolation) as caught:
        checker(positive="x > 0").check(rows((1, "a"), (None, "b")))
    assert caught.value.row_number == 2
    checker(positive="x > 0 OR x IS NULL").check(rows((None, "b")))


def test_the_last_row_counts_too() -> None:
    with pytest.raises(ConstraintViolation, match="row 3"):
        checker(positive="x > 0").check(rows((1, "a"), (2, "b"), (0, "c")))


def test_the_legacy_form_of_invariants() -> None:
    rule = json.dumps({"expression": {"expression": "x > 3"}})
    schema = StructType([StructField("x", LONG, metadata={"delta.invariants": rule}),
                         StructField("name", STRING)])
    with pytest.raises(ConstraintViolation, match="x > 3"):
        checker(schema).check(rows((4, ""), (3, "")))
    broken = StructType([StructField("x", LONG, metadata={"delta.invariants": "{}"})])
    with pytest.raises(InvalidTable, match="invariant"):
        checker(broken)


def test_not_null_at_every_level() -> None:
    schema = StructType([
        StructField("a", StructType([StructField("b", LONG, nullable=False)])),
        StructField("l", ArrayType(LONG, contains_null=False)),
        StructField("m", MapType(STRING, LONG, value_contains_null=False)),
    ])
    assert constraints_of(schema, Metadata("t", schema.to_json())) == [
        NotNull(("a", "b")), NotNull(("l", "element")), NotNull(("m", "value"))]
    loose = pa.schema({"a": pa.struct([("b", pa.int64())]), "l": pa.list_(pa.int64()),
                       "m": pa.map_(pa.string(), pa.int64())})
    good = {"a": {"b": 1}, "l": [1], "m": [("k", 1)]}
    bare = {"a": {"b": 1}, "l": None, "m": None}
    for column, bad in [("a.b", {**good, "a": {"b": None}}), ("a.b", {**good, "a": None}),
                        ("l.element", {**good, "l": [1, None]}),
                        ("m.value", {**good, "m": [("k", 1), ("n", None)]})]:
        batch = pa.RecordBatch.from_pylist([bad, good, bare, bad], schema=loose)
        checker(schema).check(batch.slice(1, 2))
        with pytest.raises(ConstraintViolation) as caught:
            checker(schema).check(batch.slice(1))
        assert (caught.value.column, caught.value.row_number) == (column, 3)
        assert caught.value.constraint == "NOT NULL"


def test_lengths_of_varchar() -> None:
    key = "__CHAR_VARCHAR_TYPE_STRING"
    schema = StructType([StructField("x", LONG),
                         StructField("name", STRING, metadata={key: "varchar(3)"})])
    checker(schema).check(rows((1, "äöü"), (1, None)))
    with pytest.raises(ConstraintViolation, match=r"varchar\(3\) name"):
        checker(schema).check(rows((1, "abcd")))


def test_rows_outside_a_partial_overwrite() -> None:
    with pytest.raises(ConstraintViolation) as caught:
        checker(FIELDS, Within("where", "x = 1")).check(rows((1, "a"), (2, "b")))
    assert caught.value.message.startswith("the data does not belong to where='x = 1'")
    assert caught.value.row == {"x": 2, "name": "b"}


def test_constraints_that_cannot_be_checked_refuse_the_write() -> None:
    with pytest.raises(InvalidPredicate, match="nowhere"):
        checker(lost="nowhere > 1")
    with pytest.raises(UnsupportedPredicate, match="CHECK constraint odd"):
        checker(odd="aggregate(array(x), 0, (a, b) -> a + b) > 0")


def test_a_column_may_be_named_like_the_row_counter() -> None:
    schema = StructType([StructField("row number", LONG), StructField("x", LONG)])
    batch = pa.record_batch({"row number": [5, 5], "x": [1, 0]})
    with pytest.raises(ConstraintViolation, match="row 2"):
        checker(schema, Check("c", "x > 0")).check(batch)


def test_long_rows_and_values_are_shortened_in_the_message_only() -> None:
    schema = StructType([StructField(f"c{i}", STRING, nullable=i > 0) for i in range(12)])
    row = {f"c{i}": "v" * 500 for i in range(12)} | {"c0": None}
    with pytest.raises(ConstraintViolation) as caught:
        checker(schema).check(pa.RecordBatch.from_pylist([row], schema=pa.schema(
            [(name, pa.string()) for name in row])))
    assert caught.value.row == row and len(caught.value.message) < 1000
    assert "4 more columns" in caught.value.message
