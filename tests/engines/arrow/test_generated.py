"""Generated columns: computed where the data lacks them, verified where it does not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow.generated import Filler, plan
from deltanb.errors import (
    ConstraintViolation,
    InvalidSchema,
    SchemaMismatch,
    UnsupportedPredicate,
    UnsupportedProtocol,
)
from deltanb.schema.columns import generated_as, identity
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder

LONG, DATE, TIMESTAMP, TEXT = (PrimitiveType(n) for n in ("long", "date", "timestamp", "string"))
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone.utc)


def schema_of() -> StructType:
    return StructType([
        StructField("ts", TIMESTAMP),
        StructField("day", DATE, metadata=generated_as("CAST(ts AS DATE)")),
        StructField("year", PrimitiveType("integer"), nullable=False,
                    metadata=generated_as("YEAR(ts)")),
    ])


@pytest.fixture
def table() -> DeltaTable:
    return dn.create(MemoryStore(), schema_of(), partition_by="day")


def names_of(table: DeltaTable) -> list[str]:
    return sorted(s.name for s in table.log.store.list_all("") if s.name.endswith(".parquet"))


def test_a_column_that_the_data_lacks_is_computed(table: DeltaTable) -> None:
    table.append({"ts": [NOON]})
    assert table.to_arrow().to_pylist() == [{"ts": NOON, "day": NOON.date(), "year": 2024}]
    assert table.snapshot.files["partition_values"].to_pylist() == [[("day", "2024-05-01")]]


def test_creating_the_table_asks_for_the_feature(table: DeltaTable) -> None:
    assert table.protocol.supports("generatedColumns")


def test_a_value_that_the_data_brings_is_verified(table: DeltaTable) -> None:
    rows = {"ts": [NOON, NOON], "day": [NOON.date(), NOON.date()], "YEAR": [2024, 2024]}
    table.append(rows)
    before = (table.version, names_of(table))
    with pytest.raises(ConstraintViolation) as caught:
        table.append({**rows, "day": [NOON.date(), dt.date(2024, 5, 2)]})
    error = caught.value
    assert (error.constraint, error.row_number, error.row["day"]) == ("day", 2, dt.date(2024, 5, 2))
    assert "generated column day AS (CAST(ts AS DATE))" in str(error)
    assert (table.version, names_of(table)) == before


def test_null_equals_null() -> None:
    schema = StructType([StructField("a", LONG), StructField("b", LONG, metadata=generated_as("a + 1"))])
    table = dn.create(MemoryStore(), schema)
    table.append({"a": pa.array([None, 1], pa.int64()), "b": pa.array([None, 2], pa.int64())})
    table.append({"a": pa.array([None], pa.int64())})
    assert table.to_arrow()["b"].null_count == 2
    for value in (None, 0):
        with pytest.raises(ConstraintViolation):
            table.append({"a": [1], "b": pa.array([value], pa.int64())})


def test_a_generated_value_must_satisfy_the_constraints(table: DeltaTable) -> None:
    with pytest.raises(ConstraintViolation, match="NOT NULL"):
        table.append({"ts": pa.array([None], pa.timestamp("us", "UTC"))})


def test_a_generated_value_that_does_not_fit_is_named() -> None:
    schema = StructType([StructField("a", LONG),
                         StructField("b", PrimitiveType("byte"), metadata=generated_as("a * 2"))])
    builder = TableBuilder().create(  # of another writer: Delta Spark wants one type, too
        schema.to_dict(), protocol={"minReaderVersion": 1, "minWriterVersion": 4})
    table = dn.open(builder.store)
    with pytest.raises(SchemaMismatch, match="column 'b'"):
        table.append({"a": [100]})
    assert [name for name in names_of(table) if not name.startswith("_delta_log")] == []


def test_updated_and_copied_rows_keep_to_the_expression(table: DeltaTable) -> None:
    table.append({"ts": [NOON, NOON.replace(day=2)]})
    table.update({"ts": "TIMESTAMP'2025-06-01 00:00:00Z'"}, where="ts > '2024-05-02'", engine="arrow")
    assert sorted((r["day"], r["year"]) for r in table.to_arrow().to_pylist()) == [
        (dt.date(2024, 5, 1), 2024), (dt.date(2025, 6, 1), 2025)]
    table.delete("year = 2025", engine="arrow")
    assert table.to_arrow()["year"].to_pylist() == [2024]


def test_an_expression_that_only_spark_computes_is_left_to_it() -> None:
    schema = StructType([StructField("ts", TIMESTAMP),
                         StructField("m", TEXT, metadata=generated_as("date_format(ts, 'yyyy-MM')"))])
    table = dn.create(MemoryStore(), schema)
    for rows in ({"ts": [NOON]}, {"ts": [NOON], "m": ["2024-05"]}):
        with pytest.raises(UnsupportedPredicate, match="Spark"):
            table.append(rows)
    assert names_of(table) == []


def test_without_the_feature_the_metadata_means_nothing() -> None:
    metadata = Metadata("t", schema_of().to_json())
    assert plan(["ts"], metadata, Protocol(1, 2)).supplied == frozenset()
    assert plan(["TS"], metadata, Protocol(1, 4)).supplied == {"day", "year"}
    assert plan(["ts"], metadata, Protocol(1, 7, None, ("generatedColumns",))).supplied == {"day", "year"}


@pytest.mark.parametrize("sql, type_", [("CAST(n + 1 AS BIGINT)", "long"), ("hash(n)", "integer")])
def test_a_column_that_an_expression_reads_keeps_its_type(sql: str, type_: str) -> None:
    schema = StructType([
        StructField("n", PrimitiveType("short")), StructField("m", PrimitiveType("short")),
        StructField("g", PrimitiveType(type_), metadata=generated_as(sql))])
    table = dn.create(MemoryStore(), schema, properties={"delta.enableTypeWidening": "true"})
    wide = pa.array([1], pa.int32())
    with pytest.raises(SchemaMismatch, match="'n' cannot change.*'g' is generated"):
        table.append({"n": wide}, merge_schema=True)
    if type_ == "long":
        table.append({"m": wide}, merge_schema=True)
        assert str(table.schema.field("m").type) == "integer"


def test_a_table_of_another_writer_is_written_right() -> None:
    builder = TableBuilder().create(
        schema_of().to_dict(), protocol={"minReaderVersion": 1, "minWriterVersion": 4})
    table = dn.open(builder.store)
    table.append({"ts": [NOON]})
    assert table.to_arrow()["year"].to_pylist() == [2024]


@pytest.mark.parametrize("field, pattern", [
    (StructField("g", LONG, metadata=generated_as("nowhere + 1")), "generation expression of column 'g'"),
    (StructField("g", LONG, metadata=generated_as("g + 1")), "generated too"),
    (StructField("g", LONG, metadata=generated_as("h + 1")), "generated too"),
    (StructField("g", DATE, metadata=generated_as("a + 1")), "which is bigint"),
    (StructField("g", LONG, metadata=generated_as("a +")), "not valid SQL"),
    (StructField("g", LONG, metadata={**generated_as("a"), **identity()}), "only one of"),
])
def test_an_expression_that_makes_no_sense_is_refused_at_the_start(field: StructField, pattern: str) -> None:
    schema = StructType([StructField("a", LONG), StructField("h", LONG, metadata=generated_as("a")), field])
    store = MemoryStore()
    with pytest.raises(InvalidSchema, match=pattern) as caught:
        dn.create(store, schema)
    assert caught.value.column == "g"
    assert not DeltaTable.is_delta_table(store)


def test_a_generated_column_inside_another_is_refused_by_name() -> None:
    inner = StructType([StructField("y", LONG, metadata=generated_as("1"))])
    schema = StructType([StructField("x", LONG), StructField("s", inner)])
    builder = TableBuilder().create(
        schema.to_dict(), protocol={"minReaderVersion": 1, "minWriterVersion": 4})
    with pytest.raises(UnsupportedProtocol, match=r"'s\.y'.*generatedColumns") as caught:
        dn.open(builder.store).append({"x": [1]})
    assert caught.value.features == ("generatedColumns",)


def test_batches_come_out_in_their_order() -> None:
    schema = StructType([StructField("a", LONG), StructField("b", LONG, metadata=generated_as("a * 2"))])
    filler = Filler(["a"], Metadata("t", schema.to_json()), Protocol(1, 4), {})
    rows = pa.record_batch({"a": list(range(1000)), "b": pa.nulls(1000, pa.int64())})
    assert filler.fill(rows)["b"].to_pylist() == [2 * n for n in range(1000)]


# --- Spark ----------------------------------------------------------------------------------------

@pytest.mark.spark
def test_spark_computes_and_verifies_the_same(tmp_path: Any, spark: Any) -> None:
    fields = [*schema_of().fields, StructField("m", TEXT, metadata=generated_as(
        "date_format(ts, 'yyyy-MM')"))]
    table = dn.create(tmp_path / "t", StructType(fields), partition_by=["day", "m"])
    frame = spark.sql("SELECT TIMESTAMP'2024-05-01 12:00:00Z' AS ts")
    table.append(frame)
    row = {"ts": NOON, "day": NOON.date(), "year": 2024, "m": "2024-05"}
    assert table.to_arrow().to_pylist() == [row]
    table.append(frame.selectExpr("ts", "DATE'2024-05-01' AS day", "2024 AS year", "'2024-05' AS m"))
    with pytest.raises(ConstraintViolation, match="generated column day"):
        table.append(frame.selectExpr("ts", "DATE'2024-05-02' AS day"))
    assert table.to_arrow().to_pylist() == [row, row]
    table.delete("month(ts) = 6 AND date_format(ts, 'yyyy') = '2023'")
