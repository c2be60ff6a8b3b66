"""The table of types: every name of a type leads to the type, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from deltanb.errors import InvalidPredicate, InvalidSchema, UnsupportedPredicate, UnsupportedProtocol
from deltanb.schema import ddl
from deltanb.schema.intervals import SPELLINGS
from deltanb.schema.types import (
    INTEGERS,
    SQL_NAMES,
    TYPES,
    PrimitiveType,
    StructField,
    StructType,
    TypeNames,
    arrow_type,
    from_arrow_type,
    parse_type,
    unknown_types,
)
from deltanb.sql import predicates
from deltanb.sql.coercion import INTEGER_BOUNDS, INTEGER_DIGITS, spark_name

every_type = pytest.mark.parametrize("one", TYPES.values(), ids=list(TYPES))
SAME = {"null": "void",  # as some writers call it: read, never written
        # Times of others become microseconds, which every engine has, where no table says otherwise.
        "timestamp_nanos": "timestamp", "timestamp_nanos_ntz": "timestamp_ntz"}


@every_type
def test_json_and_arrow_lead_to_the_type_and_back(one: TypeNames) -> None:
    parsed = parse_type(one.delta)
    assert parsed == PrimitiveType(one.delta) and parsed.to_dict() == one.delta
    assert list(unknown_types(StructType([StructField("x", parsed)]))) == []
    assert from_arrow_type(arrow_type(parsed)) == PrimitiveType(SAME.get(one.delta, one.delta))


@every_type
def test_names_of_sql_lead_to_the_type_and_the_first_is_in_messages(one: TypeNames) -> None:
    names = one.sql
    for name in names:
        assert SQL_NAMES[name] == one.delta
        assert ddl.parse_type(name) == ddl.parse_type(name.upper()) == PrimitiveType(one.delta)
    sql_name = spark_name(arrow_type(PrimitiveType(one.delta)))
    assert ddl.parse_type(sql_name) == PrimitiveType("void" if one.delta == "null" else one.delta)
    assert not names or sql_name == names[0]


@every_type
def test_a_cast_gives_the_type_by_every_name_or_is_left_to_spark(one: TypeNames) -> None:
    for name in one.sql:
        expected = arrow_type(PrimitiveType(one.delta))
        if one.parsed:
            assert predicates.parse_value(f"CAST(NULL AS {name})", StructType(), expected).target == expected
            resolved = predicates.parse(f"CAST(x AS {name}) IS NULL", schema_of(one.delta)).expression
            assert resolved.args[0].type == expected
        else:
            with pytest.raises((InvalidPredicate, UnsupportedPredicate)):
                predicates.parse(f"CAST(x AS {name.upper()}) IS NULL", schema_of("string"))
    for kind in one.parsed.split():
        assert hasattr(exp.DataType.Type, kind)


@every_type
def test_spark_has_the_class_and_calls_it_by_the_first_name(one: TypeNames) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    from deltanb.engines.spark.columns import spark_type

    if not one.spark:
        with pytest.raises(UnsupportedProtocol, match=f"'x' has type {one.delta}, which Spark does not have"):
            spark_type(PrimitiveType(one.delta), path="x")
        return
    kind = spark_type(PrimitiveType(one.delta))
    assert type(kind) is getattr(types, one.spark)
    assert kind.simpleString() == (one.sql or ["void"])[0]


def test_integers_are_told_by_their_bits() -> None:
    for name, bits in INTEGERS.items():
        arrow = arrow_type(PrimitiveType(name))
        assert arrow.bit_width == bits
        assert INTEGER_BOUNDS[arrow] == 2 ** (bits - 1) and len(str(2 ** (bits - 1))) <= INTEGER_DIGITS[arrow]
    assert list(INTEGERS.values()) == sorted(INTEGERS.values())


def test_a_name_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="a type \\(tinyint, byte, .*void, decimal"):
        ddl.parse_type("null")
    assert arrow_type(PrimitiveType("varchar(3)")) == pa.string()


@pytest.mark.parametrize(("spelled", "name"), SPELLINGS.items())
def test_every_spelling_of_an_interval_is_read_and_one_is_written(spelled: str, name: str) -> None:
    assert parse_type(spelled) == ddl.parse_type(spelled) == ddl.parse_type(spelled.upper()) == (
        PrimitiveType(name))
    text = StructType([StructField("x", PrimitiveType(name))]).to_json().replace(name, spelled)
    assert StructType.from_json(text).to_json() == text.replace(spelled, name)


@pytest.mark.parametrize("spelled", [
    "interval", "interval month to second", "interval second to day", "interval month to year",
    "INTERVAL Year To Month", "interval day to day", "interval  day", "interval week"])
def test_other_spellings_are_no_types(spelled: str) -> None:
    schema = StructType([StructField("x", parse_type(spelled))])
    assert [path for path, _ in unknown_types(schema)] == ["x"]
    with pytest.raises(UnsupportedProtocol, match="column 'x' has type"):
        arrow_type(schema.fields[0].type, "x")
    if spelled == spelled.lower() and "  " not in spelled:
        with pytest.raises(InvalidSchema):
            ddl.parse_type(spelled)


def schema_of(name: str) -> StructType:
    return StructType([StructField("x", PrimitiveType(name))])
