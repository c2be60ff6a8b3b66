"""ALTER TABLE … REPLACE COLUMNS: what a list of columns makes of a table, and what it is refused for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import DeltaError, IllegalStateError, InvalidArgument, InvalidSchema
from deltanb.locks.core.manager import LockManager
from deltanb.table.table import DeltaTable
from tests.helpers import last_operation, refuses, table_of

NAMED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": True}


def test_order_comments_and_new_columns(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", pa.table({"id": [1], "Name": ["x"], "s": pa.array([{"a": 1, "b": 2}])}))
    assert table.replace_columns(
        "s struct<b bigint, c double, a bigint>, name string COMMENT 'full', ID bigint, new array<int>") == 1
    assert str(table.schema) == (
        "struct<s: struct<b: long, c: double, a: long>, Name: string, id: long, new: array<integer>>")
    assert table.schema.field("name").metadata == {"comment": "full"}
    rows = [{"s": {"b": 2, "c": None, "a": 1}, "Name": "x", "id": 1, "new": None}]
    assert table.to_arrow().to_pylist() == rows
    assert deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist() == rows
    operation, parameters = last_operation(table)
    assert operation == "REPLACE COLUMNS"
    assert [column["name"] for column in json.loads(parameters["columns"])] == ["s", "name", "ID", "new"]
    table.replace_columns({"id": "bigint", "name": "string", "s": table.schema.field("s").type,
                           "new": "array<int>"})
    assert table.schema.names == ["id", "Name", "s", "new"]
    assert table.schema.field("name").metadata == {"comment": "full"}, "a comment stays where none is given"
    struct = pa.struct({"a": pa.int64(), "b": pa.int64(), "c": pa.float64()})
    table.replace_columns(pa.schema([
        ("name", pa.string()), ("id", pa.int64()), ("new", pa.list_(pa.int32())), ("s", struct)]))
    assert table.schema.names == ["Name", "id", "new", "s"]


def test_not_null_can_be_loosened_alone() -> None:
    table = table_of("id bigint NOT NULL, a string, s struct<x: int NOT NULL>")
    table.replace_columns("id bigint NOT NULL, a string, s struct<x: int>")
    assert str(table.schema) == "struct<id: long not null, a: string, s: struct<x: integer>>"
    refuses(table, InvalidSchema, "a may be NULL", "replace_columns", "id bigint, a string NOT NULL, "
                                                                      "s struct<x: int>")
    table.replace_columns("id bigint, a string, s struct<x: int>")
    assert table.schema.field("id").nullable


def test_columns_go_where_the_table_maps_them() -> None:
    table = table_of(pa.table({"id": [1], "x": ["old"], "l": [[{"a": 1, "b": 2}]]}), properties={
        **NAMED, "delta.dataSkippingStatsColumns": "id,x"})
    ids = {field.name: field.metadata["delta.columnMapping.id"] for field in table.schema.fields}
    table.replace_columns("l array<struct<b: bigint>>, id bigint")
    assert table.to_arrow().to_pylist() == [{"l": [{"b": 2}], "id": 1}]
    assert {f.name: f.metadata["delta.columnMapping.id"] for f in table.schema.fields} == {
        name: ids[name] for name in ("l", "id")}
    assert table.properties["delta.dataSkippingStatsColumns"] == "id"
    table.replace_columns("id bigint, l array<struct<b: bigint>>, x string")
    assert table.to_arrow()["x"].to_pylist() == [None], "not the old one"
    table.append({"id": [2], "l": [[{"b": 3}]], "x": ["new"]})
    assert sorted(table.to_arrow(columns=["x"])["x"].to_pylist(), key=str) == [None, "new"]


def test_types_widen_at_every_depth_and_keep_what_else_is_said() -> None:
    table = table_of(pa.table({
        "n": pa.array([1], pa.int16()), "l": pa.array([[1]], pa.list_(pa.int32())),
        "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "s": pa.array([{"x": 1.5}], pa.struct({"x": pa.float32()}))}), properties=WIDENING)
    table.replace_columns(
        "s struct<x: double>, n int COMMENT 'count', l array<bigint>, m map<string, bigint>")
    assert str(table.schema) == (
        "struct<s: struct<x: double>, n: integer, l: array<long>, m: map<string,long>>")
    metadata = table.schema.field("n").metadata
    assert metadata["comment"] == "count" and metadata["delta.typeChanges"] == [
        {"fromType": "short", "toType": "integer"}]
    assert table.schema.field("l").metadata["delta.typeChanges"][0]["fieldPath"] == "element"
    assert table.to_arrow().to_pylist() == [{"s": {"x": 1.5}, "n": 1, "l": [1], "m": [("a", 1)]}]


def test_partition_columns_move_and_stay_partition_columns() -> None:
    table = table_of({"p": ["a"], "id": [1]}, ["p"], properties=NAMED)
    table.replace_columns("id bigint, P string")
    assert list(table.snapshot.partition_columns) == ["p"]
    refuses(table, InvalidArgument, "it is a partition column", "replace_columns", "id bigint")


def test_defaults_and_generated_values_stay() -> None:
    table = table_of("id bigint, t timestamp, d date GENERATED ALWAYS AS (CAST(t AS date)), v varchar(5)",
                     properties=NAMED)
    table.replace_columns("d date, v string, t timestamp, id bigint")
    assert table.schema.field("d").metadata["delta.generationExpression"] == "CAST(t AS date)"
    assert table.schema.field("v").metadata["__CHAR_VARCHAR_TYPE_STRING"] == "varchar(5)"
    for column, other in (("v", "v varchar(9)"), ("id", "id bigint DEFAULT 5"),
                          ("d", "d date GENERATED ALWAYS AS (CAST(now() AS date))")):
        listed = {"d": "d date", "v": "v string", "t": "t timestamp", "id": "id bigint", column: other}
        refuses(table, InvalidArgument, f"keeps the values and the length of {column}", "replace_columns",
                ", ".join(listed.values()))
    refuses(table, InvalidArgument, "the generated column d",
            "replace_columns", "d date, v string, id bigint")


@pytest.mark.parametrize(("properties", "columns", "error", "match"), [
    ({}, "id bigint", InvalidArgument, "cannot drop column.*Switch column mapping on first"),
    ({}, "id bigint, x bigint, s struct<a: bigint>", InvalidArgument, r"s\.b.*Switch column mapping on"),
    (NAMED, "id bigint, y bigint, s struct<a: bigint, b: bigint>", InvalidSchema,
     "x would go and y would come.*rename_column"),
    (NAMED, "id bigint, x bigint, s struct<a: bigint, c: bigint>", InvalidSchema,
     r"s\.b would go and s\.c would come"),
    ({}, "id int, x bigint, s struct<a: bigint, b: bigint>", InvalidSchema, "not a widening"),
    ({}, "id decimal(30,0), x bigint, s struct<a: bigint, b: bigint>", InvalidArgument,
     "type widening is off"),
    ({}, "id bigint, x bigint, s string", InvalidSchema, "cannot become string as a whole"),
    ({}, "id struct<a: bigint>, x bigint, s struct<a: bigint, b: bigint>", InvalidSchema, "not a widening"),
    ({}, "id bigint, x bigint, s struct<a: bigint, b: bigint>, n int NOT NULL", InvalidSchema,
     "cannot add n NOT NULL"),
    ({}, "id bigint, x bigint, s struct<a: bigint, b: bigint>, n int DEFAULT 5", InvalidArgument,
     "cannot add n with a default"),
    ({}, "id bigint, ID bigint, x bigint, s struct<a: bigint, b: bigint>", DeltaError, "(?i)id"),
    ({}, "id bigint, x bigint, s.a bigint", InvalidSchema, "has a nested name or a position"),
    ({}, "id bigint FIRST, x bigint", InvalidSchema, "has a nested name or a position"),
    ({}, "", InvalidSchema, "a name is expected"), ({}, {}, InvalidArgument, "no column is named"),
    ({}, 5, InvalidArgument, "^replace_columns takes"),
])
def test_lists_that_no_table_can_become(
    properties: dict[str, Any], columns: Any, error: type[DeltaError], match: str
) -> None:
    table = table_of(pa.table({"id": [1], "x": [1], "s": pa.array([{"a": 1, "b": 2}])}),
                     properties=properties)
    refuses(table, error, match, "replace_columns", columns)


def test_what_something_reads_neither_goes_nor_changes() -> None:
    table = table_of(pa.table({"a": pa.array([1], pa.int32()), "c": [1]}), properties={**NAMED, **WIDENING})
    table.add_constraint("positive", "a > 0")
    for columns in ("c bigint", "a bigint, c bigint"):
        refuses(table, InvalidArgument, r"the constraint positive \(a > 0\)", "replace_columns", columns)
    table.replace_columns("c bigint, a int")
    clustered = table_of({"a": [1], "c": [1]}, properties=NAMED)
    clustered.cluster_by(["a"])
    refuses(clustered, InvalidArgument, "it is a clustering column", "replace_columns", "c bigint")


def test_a_table_with_an_identity_column_is_changed_one_by_one() -> None:
    table = table_of("id bigint GENERATED ALWAYS AS IDENTITY, x bigint")
    refuses(table, InvalidArgument, "column id is an identity", "replace_columns", "x bigint, id bigint")


def alone(path: Path, work: Callable[[DeltaTable], Any]) -> DeltaTable:
    table = dn.create(path / "t", {"id": [1], "name": ["x"]})
    work(table)
    return table


def staged(path: Path, work: Callable[[DeltaTable], Any]) -> DeltaTable:
    table = dn.create(path / "t", {"id": [1], "name": ["x"]})
    with table.transaction() as txn:
        work(txn)  # type: ignore[arg-type]
    return table


def locked(path: Path, work: Callable[[DeltaTable], Any]) -> DeltaTable:
    table = dn.create(path / "t", {"id": [1], "name": ["x"]})
    txn = LockManager().new_transaction()
    work(txn.table(table))  # type: ignore[arg-type]
    txn.commit()
    return table


def in_catalog(path: Path, work: Callable[[DeltaTable], Any]) -> DeltaTable:
    catalog = dn.Catalog(f"sqlite:///{path}/catalog.db", warehouse=path / "lake")
    catalog.create_namespace("shop")
    table: DeltaTable = catalog.create_table("shop.t", {"id": [1], "name": ["x"]})
    work(table)
    return table


@pytest.mark.parametrize("kind", [alone, staged, locked, in_catalog])
def test_every_kind_of_table_that_defines_has_it(
    kind: Callable[[Path, Callable[[DeltaTable], Any]], DeltaTable], tmp_path: Path
) -> None:
    table = kind(tmp_path, lambda t: t.replace_columns("name string, id bigint, n int"))
    assert table.to_arrow().to_pylist() == [{"name": "x", "id": 1, "n": None}]
    assert table.version == 1


def test_a_past_version_is_not_changed(tmp_path: Path) -> None:
    table = alone(tmp_path, lambda t: t.append({"id": [2], "name": ["y"]}))
    with pytest.raises(IllegalStateError, match="replace_columns"):
        table.as_of(0).replace_columns("name string, id bigint")
