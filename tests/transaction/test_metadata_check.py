"""What no table may have: types that Delta lacks, values that no row decides, conditions of nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import Metadata
from deltanb.errors import InvalidArgument, InvalidSchema
from deltanb.options import set_options
from deltanb.schema.columns import default, generated_as, identity
from deltanb.schema.ddl import parse_schema
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.testing import MemoryStore, TableBuilder
from deltanb.transaction.delta_log import DeltaLog

COLUMNS = ("n int, s string, ts timestamp, a array<int>, st struct<x:int>, d decimal(10,1), "
           "m map<string,int>, h int, g ")


def proposed(columns: str, properties: dict[str, str] | None = None, **metadata: dict[str, Any]) -> Metadata:
    """Metadata of a new table; keywords are the metadata of columns."""
    fields = [f.replace(metadata=metadata[f.name]) if f.name in metadata else f
              for f in parse_schema(columns).fields]
    return Metadata("x", StructType(fields).to_json(), configuration=properties or {})


def refuse(metadata: Metadata, kind: type[Exception], match: str) -> None:
    """By the transaction when it is told, and by the commit when it is an action."""
    for commit in (False, True):
        log = DeltaLog.for_table(MemoryStore())
        txn = log.start_transaction()
        with pytest.raises(kind, match=match):
            txn.commit([metadata], "CREATE TABLE") if commit else txn.update_metadata(metadata)
        assert log.update().version == -1


ALLOWED = [
    ("int", "n + 1"), ("string", "upper(s)"), ("date", "CAST(ts AS DATE)"), ("int", "year(ts)"),
    ("string", "date_format(ts, 'yyyy-MM')"), ("int", "cast(s as int)"), ("int", "a[0]"), ("int", "ST.X"),
    ("int", "size(a)"), ("string", "concat(s, 'x')"), ("int", "1"), ("date", "to_date(s)"),
    ("decimal(11,1)", "d + 1"), ("double", "n / 2"), ("boolean", "s LIKE 'a%'"), ("int", "hash(n)"),
    ("struct<x:int>", "st"), ("int", "CASE WHEN n > 1 THEN 2 ELSE 3 END"),
    ("timestamp", "date_trunc('DAY', ts)"),
    ("string", "s || 'x'"), ("int", "map_values(m)[0]"), ("string", "substring(s, 1, 2)"),
]
REFUSED = [
    ("int", "nowhere + 1", "nowhere"), ("int", "hash(nowhere)", "nowhere.*columns are n, s"),
    ("int", "size(sx)", "did you mean s?"), ("int", "n +", "not valid SQL"), ("int", "", "is empty"),
    ("int", "sum(n)", "an aggregate"), ("bigint", "count(*)", "an aggregate|a star"),
    ("boolean", "some(n > 1)", "some"), ("int", "max(size(a))", "an aggregate"),
    ("int", "row_number() OVER (ORDER BY n)", "a window function"), ("int", "(SELECT 1)", "a query"),
    ("boolean", "n IN (SELECT 1)", "a query"), ("int", "explode(a)", "explode"),
    ("double", "rand()", r"rand\(\)"), ("string", "uuid()", "uuid"), ("double", "n * rand(3)", "rand"),
    ("date", "current_date()", "time or user"), ("timestamp", "CURRENT_TIMESTAMP", "time or user"),
    ("timestamp", "now()", "now"), ("string", "current_user()", "user"), ("string", "my_udf(s)", "my_udf"),
    ("string", "`my udf`(s)", "my udf"), ("string", "input_file_name()", "input_file_name"),
    ("bigint", "monotonically_increasing_id()", "monotonically"),
    ("int", "h + 1", "generated too"), ("int", "g + 1", "generated too"),
    ("int", "abs(size(array(H)))", "generated too"), ("bigint", "n + 1", "which is int"),
    ("bigint", "year(ts)", "which is int"), ("string", "n", "which is int"),
    ("bigint", "hash(n)", "which is int"), ("date", "date_format(ts, 'yyyy')", "which is string"),
    ("int", "CAST(array_max(a) AS STRING)", "which is string"), ("tinyint", "n", "which is int"),
    ("decimal(12,1)", "d + 1", r"which is decimal\(11,1\)"), ("int", "NULL", "which is void"),
]


@pytest.mark.parametrize(("kind", "sql"), ALLOWED)
def test_a_generated_column(kind: str, sql: str) -> None:
    txn = DeltaLog.for_table(MemoryStore()).start_transaction()
    txn.update_metadata(proposed(COLUMNS + kind, h=generated_as("n"), g=generated_as(sql)))
    assert txn.commit([], "CREATE TABLE") == 0


@pytest.mark.parametrize(("kind", "sql", "match"), REFUSED)
def test_no_generated_column(kind: str, sql: str, match: str) -> None:
    metadata = proposed(COLUMNS + kind, h=generated_as("n"), g=generated_as(sql))
    refuse(metadata, InvalidSchema, f"'g'.*({match})")


@pytest.mark.parametrize("expression", [3, None, ["n"], {"sql": "n"}])
def test_an_expression_is_text(expression: Any) -> None:
    refuse(proposed("n int, g int", g={"delta.generationExpression": expression}), InvalidSchema,
           "not SQL text")


def test_other_columns_whose_values_the_table_gives() -> None:
    for columns, metadata, match in (
        ("i int", {"i": identity()}, "make it long"),
        ("i bigint", {"i": identity(step=0)}, "step not 0|step 0"),
        ("i bigint", {"i": {**identity(), "delta.identity.start": "1"}}, "integers"),
        ("i bigint", {"i": {**identity(), **generated_as("1")}}, "only one of"),
        ("n int, x int", {"x": default("n")}, "no column 'n'"),
        ("x int", {"x": default("'a'")}, r"the default of column 'x' \('a'\) is invalid"),
        ("x int", {"x": default("sum(1)")}, "aggregate"), ("x int", {"x": default("(SELECT 1)")}, "a query"),
        ("x int", {"x": {"CURRENT_DEFAULT": 5}}, "not SQL text"),
        ("x int", {"x": default("1 +")}, "not valid SQL"),
    ):
        refuse(proposed(columns + ", z int", **metadata), InvalidSchema, match)
    log = DeltaLog.for_table(MemoryStore())
    txn = log.start_transaction()
    txn.update_metadata(proposed("i bigint, t timestamp, s string, z int", i=identity(), z=default("NULL"),
                                 t=default("current_timestamp()"), s=default("upper('a')")))


NESTED = ["st struct<x:int>", "st array<struct<x:int>>", "st map<int,struct<x:int>>",
          "st struct<y:struct<x:int>>"]


def nested(column: str, metadata: dict[str, Any], **more: Any) -> Metadata:
    schema = parse_schema(column + ", n int").to_dict()

    def mark(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("name") == "x":
                value["metadata"] = metadata
            for inner in value.values():
                mark(inner)
        elif isinstance(value, list):
            for inner in value:
                mark(inner)

    mark(schema)
    return Metadata("x", json.dumps(schema), **more)


@pytest.mark.parametrize("column", NESTED)
@pytest.mark.parametrize("metadata", [
    generated_as("n"), generated_as("no such SQL ("), default("1"), identity()])
def test_only_whole_columns_have_values_of_the_table(column: str, metadata: dict[str, Any]) -> None:
    """Delta Spark gives the metadata of nested fields no force: it would be a promise that nobody keeps."""
    refuse(nested(column, metadata), InvalidSchema, r"column 'st\..*x' has .*only whole columns")


def test_nested_values_of_other_writers_do_not_block_another_change() -> None:
    was = nested("st struct<x:int>", generated_as("n"))
    log = TableBuilder(MemoryStore()).create(
        was.schema.to_dict(), protocol={"minReaderVersion": 1, "minWriterVersion": 2}).log
    txn = log.start_transaction()
    txn.update_metadata(txn.metadata.replace(schema_string=StructType(
        [*was.schema.fields, StructField("more", PrimitiveType("long"))]).to_json()))
    txn = log.start_transaction()
    with pytest.raises(InvalidSchema, match="only whole columns"):
        txn.update_metadata(txn.metadata.replace(
            schema_string=nested("st struct<x:int>", generated_as("n + 1")).schema_string))


# -- types ---------------------------------------------------------------------------------------------


def typed(kind: Any) -> Metadata:
    schema = {"type": "struct", "fields": [
        {"name": "n", "type": "long", "nullable": True, "metadata": {}},
        {"name": "x", "type": kind, "nullable": True, "metadata": {}}]}
    return Metadata("x", StructType.from_json(json.dumps(schema)).to_json())


@pytest.mark.parametrize(("kind", "path"), [
    ("frob", "x"), ("LONG", "x"), ("int", "x"), ("decimal(39,2)", "x"), ("decimal(3,5)", "x"),
    ("decimal(0,0)", "x"), ("decimalish", "x"), ("decimal(5,-1)", "x"), ("interval month to day", "x"),
    ("timestamp_picos", "x"), ({"type": "array", "elementType": "frob", "containsNull": True}, r"x\.element"),
    ({"type": "map", "keyType": "string", "valueType": "interval week", "valueContainsNull": True},
     r"x\.value"),
    ({"type": "map", "keyType": "frob", "valueType": "long", "valueContainsNull": True}, r"x\.key"),
    ({"type": "struct", "fields": [{"name": "y", "type": "frob", "nullable": True, "metadata": {}}]},
     r"x\.y"),
])
def test_types_that_delta_does_not_have(kind: Any, path: str) -> None:
    refuse(typed(kind), InvalidSchema, f"column {path} has the type")
    with set_options(schema_type_check=False):
        DeltaLog.for_table(MemoryStore()).start_transaction().update_metadata(typed(kind))


@pytest.mark.parametrize("kind", [
    "string", "decimal(38,38)", "decimal(1,0)", "decimal", "void", "variant", "timestamp_ntz", "varchar(10)",
    "string collate unicode"])
def test_types_that_it_has(kind: str) -> None:
    DeltaLog.for_table(MemoryStore()).start_transaction().update_metadata(typed(kind))


def test_the_view_says_what_cannot_be_read() -> None:
    kind = {"type": "array", "elementType": "frob", "containsNull": True}
    log = TableBuilder(MemoryStore()).create({"type": "struct", "fields": [
        {"name": "x", "type": kind, "nullable": True, "metadata": {}}]}).log
    text = str(dn.DeltaTable(log))
    assert "not supported: type frob of x.element" in text and "can read and write" not in text


# -- properties ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "match"), [
    ("nowhere > 1", "nowhere"), ("n >", "not valid SQL"), ("sum(n) > 1", "aggregate"),
    ("n IN (SELECT 1)", "a query"), ("n + 1", "is int, not a condition"),
    ("row_number() OVER (ORDER BY n) > 1", "window"), ("explode(a) > 1", "explode"),
    ("rand() < 1", r"rand\(\)"), ("uuid() <> s", r"uuid\(\)"),
])
def test_constraints_hold_a_row_against_something(sql: str, match: str) -> None:
    metadata = proposed(COLUMNS + "int", {"delta.constraints.c": sql})
    refuse(metadata, InvalidArgument, f"constraint c .*({match})")


def test_constraints_may_call_what_spark_knows() -> None:
    sql = "ts <= current_timestamp() AND exists(a, x -> x > n) AND my_check(s)"
    txn = DeltaLog.for_table(MemoryStore()).start_transaction()
    txn.update_metadata(proposed(COLUMNS + "int", {"delta.constraints.c": sql}))


def test_statistics_are_of_columns_that_are_there() -> None:
    metadata = proposed("a struct<b:int>, c int", {"delta.dataSkippingStatsColumns": "a.b,nope"})
    refuse(metadata, InvalidArgument, "dataSkippingStatsColumns names nope")


def test_what_a_table_has_already_is_not_held_against_another_change() -> None:
    """Tables of other writers: their odd types, expressions and constraints do not block a new property."""
    schema = StructType([
        StructField("n", PrimitiveType("integer")), StructField("x", PrimitiveType("frob")),
        StructField("g", PrimitiveType("long"), metadata=generated_as("n + 1"))])
    log = TableBuilder(MemoryStore()).create(
        schema.to_dict(), properties={"delta.constraints.old": "gone > 1"},
        protocol={"minReaderVersion": 1, "minWriterVersion": 4}).log
    txn = log.start_transaction()
    txn.update_metadata(txn.metadata.replace(configuration={**txn.metadata.configuration, "mine": "1"}))
    assert txn.commit([], "SET TBLPROPERTIES") == 1
    txn = log.start_transaction()
    with pytest.raises(InvalidArgument, match="constraint new "):
        txn.update_metadata(txn.metadata.replace(
            configuration={**txn.metadata.configuration, "delta.constraints.new": "gone > 1"}))
    with pytest.raises(InvalidSchema, match="column x has the type frob"):
        txn.update_metadata(txn.metadata.replace(schema_string=StructType(
            [*schema.fields, StructField("more", PrimitiveType("long"))]).to_json()))
