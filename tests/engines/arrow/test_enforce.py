"""Rows take the table's form by name and by value, or are refused with the place named."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from deltanb.engines.arrow.enforce import Enforcer, differences
from deltanb.errors import SchemaMismatch
from deltanb.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType, parse_type


def table_of(**types: str | StructField) -> StructType:
    return StructType(
        type_ if isinstance(type_, StructField) else StructField(name, PrimitiveType(type_))
        for name, type_ in types.items()
    )


def enforce(array: pa.Array, target: object, first_row: int = 0) -> list[object]:
    type_ = PrimitiveType(target) if isinstance(target, str) else target
    table = StructType([StructField("c", type_)])  # type: ignore[arg-type]
    batch = pa.record_batch({"c": array})
    return Enforcer(batch.schema, table).apply(batch, first_row).column(0).to_pylist()


NOON = datetime(2024, 5, 6, 12, 30, 15, 123456)


@pytest.mark.parametrize(
    ("array", "target", "rows"),
    [
        (pa.array([1, None], pa.int32()), "long", [1, None]),
        (pa.array([127, -128]), "byte", [127, -128]),
        (pa.array([3], pa.uint64()), "long", [3]),
        (pa.array([3]), "double", [3.0]),
        (pa.array([3.0]), "integer", [3]),
        (pa.array([0.5]), "float", [0.5]),
        (pa.array([12]), "decimal(4,2)", [Decimal("12.00")]),
        (pa.array([Decimal("1.50")]), "decimal(10,1)", [Decimal("1.5")]),
        (pa.array([Decimal("7.00")]), "integer", [7]),
        (pa.array([Decimal("7.25")]), "double", [7.25]),
        (pa.array(["x"]).dictionary_encode(), "string", ["x"]),
        (pa.array(["x"], pa.large_string()), "string", ["x"]),
        (pa.array(["x", None], pa.string_view()), "string", ["x", None]),
        (pa.array([5]), "string", ["5"]),
        (pa.array([True]), "string", ["true"]),
        (pa.array([b"ab"], pa.binary(2)), "binary", [b"ab"]),
        (pa.nulls(2), "date", [None, None]),
        (pa.array([date(2024, 5, 6)]), "timestamp_ntz", [datetime(2024, 5, 6)]),
        (pa.array([date(2024, 5, 6)]), "timestamp", [datetime(2024, 5, 6, tzinfo=timezone.utc)]),
        (pa.array([datetime(2024, 5, 6), None]), "date", [date(2024, 5, 6), None]),
        (pa.array([NOON], pa.timestamp("ns")), "timestamp_ntz", [NOON]),
        (pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), "timestamp_ntz", [NOON]),
        (pa.array([NOON], pa.timestamp("us")), "timestamp", [NOON.replace(tzinfo=timezone.utc)]),
    ],
)
def test_values_are_assigned_as_ansi_sql_does(
    array: pa.Array, target: str, rows: list[object]
) -> None:
    assert enforce(array, target) == rows


@pytest.mark.parametrize(
    ("values", "target", "bad", "row"),
    [
        (pa.array([1, 2, 300, 4]), "byte", 300, 3),
        (pa.array([1, 2**31]), "integer", 2**31, 2),
        (pa.array([2**63], pa.uint64()), "long", 2**63, 1),
        (pa.array([1.0, 1.5]), "integer", 1.5, 2),
        (pa.array([float("nan")]), "long", None, 1),
        (pa.array([1e300]), "float", 1e300, 1),
        (pa.array([2**53 + 1]), "double", 2**53 + 1, 1),
        (pa.array([1, 1000]), "decimal(4,2)", 1000, 2),
        (pa.array([Decimal("1.25")]), "decimal(10,1)", Decimal("1.25"), 1),
        (pa.array([Decimal("123.45")]), "decimal(4,2)", Decimal("123.45"), 1),
        (pa.array([datetime(2024, 5, 6), NOON]), "date", NOON, 2),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    values: pa.Array, target: str, bad: object, row: int
) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        enforce(values, target, first_row=10)
    error = caught.value
    assert (error.column, error.row) == ("c", 10 + row)
    assert bad is None or error.value == bad
    assert f"row {10 + row}" in error.message and target in error.message


def test_nanoseconds_are_not_dropped_silently() -> None:
    with pytest.raises(SchemaMismatch, match="row 2"):
        enforce(pa.array([1000, 1001], pa.timestamp("ns")), "timestamp_ntz")


def test_nested_values_by_name_at_every_level() -> None:
    target = parse_type({
        "type": "array", "containsNull": True, "elementType": {
            "type": "struct", "fields": [
                {"name": "a", "type": "long", "nullable": True, "metadata": {}},
                {"name": "new", "type": "string", "nullable": True, "metadata": {}},
                {"name": "b", "type": {"type": "map", "keyType": "string", "valueType": "long",
                                       "valueContainsNull": True},
                 "nullable": True, "metadata": {}}]}})
    inner = pa.struct([("B", pa.map_(pa.string(), pa.int32())), ("A", pa.int8())])
    array = pa.array(
        [[{"B": [("skipped", 0)], "A": 0}], [{"B": [("k", 1)], "A": 2}, None], None, [],
         [{"B": None, "A": None}]], pa.large_list(inner),
    ).slice(1)
    assert enforce(array, target) == [
        [{"a": 2, "new": None, "b": [("k", 1)]}, None], None, [],
        [{"a": None, "new": None, "b": None}],
    ]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64(), 2), pa.list_view(pa.int64())])
def test_other_kinds_of_lists(kind: pa.DataType) -> None:
    array = pa.array([[1, 2], None, [3, 4]], kind)
    assert enforce(array, ArrayType(PrimitiveType("integer"))) == [[1, 2], None, [3, 4]]


def test_a_value_inside_an_array_is_named_without_a_row() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        enforce(pa.array([[1], [2, 999]]), ArrayType(PrimitiveType("byte")))
    assert (caught.value.column, caught.value.row, caught.value.value) == ("c.element", None, 999)
    with pytest.raises(SchemaMismatch, match=r"c\.value"):
        enforce(pa.array([[("k", 999)]], pa.map_(pa.string(), pa.int64())),
                MapType(PrimitiveType("string"), PrimitiveType("byte")))


def test_null_structs_stay_null() -> None:
    array = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    target = StructType([StructField("x", PrimitiveType("long"))])
    assert enforce(array, target) == [{"x": 1}, None]


def test_columns_by_name_without_case_in_the_tables_order() -> None:
    table = table_of(id="long", name="string", late="date")
    batch = pa.record_batch({"NAME": ["a"], "Id": [1]})
    made = Enforcer(batch.schema, table).apply(batch)
    assert made.schema.names == ["id", "name", "late"]
    assert made.to_pylist() == [{"id": 1, "name": "a", "late": None}]


def test_differences_are_one_line_each() -> None:
    table = StructType([
        StructField("id", PrimitiveType("long"), nullable=False),
        StructField("n", PrimitiveType("integer")),
        StructField("s", StructType([StructField("x", PrimitiveType("date"))])),
        StructField("p", PrimitiveType("string")),
    ])
    data = pa.schema({"n": pa.string(), "s": pa.struct([("x", pa.int64()), ("y", pa.bool_())]),
                      "more": pa.list_(pa.int64())})
    expected = [
        "- id: long NOT NULL, missing from the data",
        "~ n: string in the data, integer in the table",
        "~ s.x: long in the data, date in the table",
        "+ s.y: boolean, not in the table",
        "+ more: array<long>, not in the table",
        "- p: partition column, missing from the data",
    ]
    assert differences(data, table, ["p"]) == expected
    with pytest.raises(SchemaMismatch) as caught:
        Enforcer(data, table, ["p"])
    assert caught.value.differences == expected
    assert all(line in caught.value.message for line in expected)
    assert "merge_schema=True" in caught.value.message


NEW = "merge_schema=True adds new columns; overwrite(..., overwrite_schema=True) replaces the table's schema."


@pytest.mark.parametrize(("names", "lines", "hint"), [
    (["id", "carier"], ["+ carier: string, not in the table; did you mean carrier?"],
     "give the columns of the data the names that the table has."),
    (["id", "carier", "gate"], ["+ carier: string, not in the table; did you mean carrier?",
                                "+ gate: string, not in the table"],
     f"give the columns of the data the names that the table has; {NEW}"),
    (["id", "carrier", "carrier2"], ["+ carrier2: string, not in the table"],  # the table's is there
     NEW),
    (["id", "delay_minutes"], ["+ delay_minutes: string, not in the table"],  # like it, and no slip
     NEW),
])
def test_a_misspelt_column_is_told_the_tables(names: list[str], lines: list[str], hint: str) -> None:
    table = table_of(id="string", carrier="string", delay="string")
    data = pa.schema([(name, pa.string()) for name in names])
    with pytest.raises(SchemaMismatch) as caught:
        Enforcer(data, table)
    assert caught.value.differences == lines
    assert caught.value.message.endswith(f"\nWhat you can do: {hint}")


def test_a_misspelt_partition_column_or_field_is_told_too() -> None:
    table = StructType([StructField("carrier", PrimitiveType("string")),
                        StructField("at", StructType([StructField("city", PrimitiveType("string"))]))])
    data = pa.schema({"carier": pa.string(), "at": pa.struct([("citty", pa.string())])})
    with pytest.raises(SchemaMismatch, match="What you can do: give the columns") as caught:
        Enforcer(data, table, ["carrier"])
    assert caught.value.differences == [
        "+ at.citty: string, not in the table; did you mean at.city?",
        "+ carier: string, not in the table; did you mean carrier?",
        "- carrier: partition column, missing from the data"]
    assert "merge_schema" not in caught.value.message


def test_names_that_differ_in_case_only_are_refused() -> None:
    data = pa.schema({"a": pa.int64(), "A": pa.int64()})
    assert differences(data, table_of(a="long")) == [
        "+ A: named twice in the data (names differ in case at most)"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), "integer"), (pa.string(), "date"), (pa.string(), "binary"),
        (pa.bool_(), "integer"), (pa.int64(), "boolean"), (pa.int64(), "timestamp"),
        (pa.int64(), "date"), (pa.binary(), "string"), (pa.float64(), "string"),
        (pa.timestamp("us"), "string"), (pa.time64("us"), "timestamp"),
        (pa.list_(pa.int64()), "long"), (pa.duration("us"), "long"),
    ],
)
def test_types_that_are_not_assignable(source: pa.DataType, target: str) -> None:
    (line,) = differences(pa.schema({"c": source}), table_of(c=target))
    assert line.startswith("~ c: ") and line.endswith(f"{target} in the table")
