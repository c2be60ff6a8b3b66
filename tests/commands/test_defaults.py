"""Columns with a default: rows that come without the column get it, rows that bring NULL keep it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import ConstraintViolation, InvalidSchema, UnsupportedPredicate
from deltanb.options import options
from deltanb.schema.columns import default
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder


def defaulting(sql: str, type_: Any = "long", nullable: bool = True, store: Any = None) -> DeltaTable:
    kind = PrimitiveType(type_) if isinstance(type_, str) else type_
    schema = StructType([StructField("a", PrimitiveType("long")),
                         StructField("d", kind, nullable, metadata=default(sql))])
    return dn.create(MemoryStore() if store is None else store, schema)


@pytest.mark.parametrize("sql, type_, value", [
    ("7", "long", 7), ("7", "byte", 7), ("'x'", "string", "x"), ("1 + 1", "integer", 2),
    ("NULL", "string", None), ("null", ArrayType(PrimitiveType("long")), None), ("true", "boolean", True),
    ("DATE'2024-05-01'", "date", dt.date(2024, 5, 1)), ("'2024-05-01'", "date", dt.date(2024, 5, 1)),
    ("1.5", "decimal(5,2)", Decimal("1.50")), ("1.5", "double", 1.5),
    ("current_date()", "date", dt.date(1970, 1, 2)),
    ("CURRENT_TIMESTAMP", "timestamp", dt.datetime(1970, 1, 2, tzinfo=dt.timezone.utc)),
])
def test_a_column_that_the_data_lacks_gets_its_default(sql: str, type_: Any, value: Any) -> None:
    options.clock = lambda: 86_400_000
    table = defaulting(sql, type_)
    table.append({"a": [1, 2]})
    assert table.to_arrow()["d"].to_pylist() == [value, value]


def test_creating_the_table_asks_for_the_feature() -> None:
    assert defaulting("7").protocol.supports("allowColumnDefaults")


def test_a_null_that_the_data_brings_stays() -> None:
    table = defaulting("7")
    table.append({"a": [1, 2], "D": pa.array([None, 3], pa.int64())})
    assert table.to_arrow()["d"].to_pylist() == [None, 3]


def test_a_default_satisfies_not_null() -> None:
    table = defaulting("7", nullable=False)
    table.append({"a": [1]})
    with pytest.raises(ConstraintViolation, match="NOT NULL"):
        table.append({"a": [1], "d": pa.array([None], pa.int64())})
    assert table.to_arrow()["d"].to_pylist() == [7]


def test_a_default_may_partition() -> None:
    schema = StructType([StructField("a", PrimitiveType("long")),
                         StructField("d", PrimitiveType("string"), metadata=default("'x'"))])
    table = dn.create(MemoryStore(), schema, partition_by="d")
    table.append({"a": [1]})
    assert table.to_arrow(where="d = 'x'").num_rows == 1


def test_overwriting_gives_defaults_too() -> None:
    table = defaulting("7")
    table.overwrite({"a": [1]})
    table.overwrite({"a": [2]}, where="a = 2")
    assert table.to_arrow()["d"].to_pylist() == [7, 7]


def test_without_the_feature_the_metadata_means_nothing() -> None:
    schema = StructType([StructField("a", PrimitiveType("long")),
                         StructField("d", PrimitiveType("long"), metadata=default("7"))])
    table = dn.open(TableBuilder().create(schema.to_dict()).store)
    table.append({"a": [1]})
    assert table.to_arrow()["d"].to_pylist() == [None]


def test_a_default_that_only_spark_computes_is_left_to_it() -> None:
    table = defaulting("array(1, 2)", ArrayType(PrimitiveType("long")))
    with pytest.raises(UnsupportedPredicate, match=r"column 'd' \(array\(1, 2\)\).*Spark"):
        table.append({"a": [1]})
    assert table.append({"a": [1], "d": [[3]]}) == 1


@pytest.mark.parametrize("sql, pattern", [("a + 1", "no column 'a'"), ("'x'", "cannot be "
                                                                              "stored"), ("(", "SQL")])
def test_a_default_that_makes_no_sense_is_refused_at_the_start(sql: str, pattern: str) -> None:
    with pytest.raises(InvalidSchema, match=pattern):
        defaulting(sql)


@pytest.mark.spark
def test_spark_gives_the_same_defaults(tmp_path: Any, spark: Any) -> None:
    table = defaulting("array(1, 2)", ArrayType(PrimitiveType("long")), store=tmp_path / "t")
    table.append(spark.range(1).selectExpr("id AS a"))
    table.append(spark.sql("SELECT 1L AS a, CAST(NULL AS ARRAY<BIGINT>) AS d"))
    assert sorted(map(str, table.to_arrow()["d"].to_pylist())) == ["None", "[1, 2]"]
