"""ALTER TABLE … COLUMNS: what changes, what stays, what is refused."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import (
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    MetadataChangedException,
    TableNotFound,
    UnsupportedProtocol,
)
from deltanb.schema.ddl import parse_type
from deltanb.schema.types import PrimitiveType, StructField
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.helpers import last_operation, refuses, table_of

NAMED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": True}


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return table.to_arrow().to_pylist()


# --- add ------------------------------------------------------------------------------------------

def test_added_columns_are_null_in_rows_that_were_there(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "s": pa.array([{"x": 1}])})
    assert table.add_columns(
        "gate string COMMENT 'at departure' FIRST, s.y double, after_id int AFTER id") == 1
    assert table.schema.names == ["gate", "id", "after_id", "s"]
    table.append(pa.table({"gate": ["A"], "id": [2], "after_id": pa.array([5], pa.int32()),
                           "s": pa.array([{"x": 2, "y": 0.5}])}))
    expected = [{"gate": None, "id": 1, "after_id": None, "s": {"x": 1, "y": None}},
                {"gate": "A", "id": 2, "after_id": 5, "s": {"x": 2, "y": 0.5}}]
    assert sorted(rows(table), key=lambda row: row["id"]) == expected
    assert table.schema.field("gate").metadata == {"comment": "at departure"}
    operation, parameters = table.history()[1].operation, table.history()[1].operation_parameters
    assert operation == "ADD COLUMNS" and json.loads(parameters["columns"]) == [
        {"column": {"name": "gate", "type": "string", "nullable": True,
                    "metadata": {"comment": "at departure"}}, "position": "FIRST"},
        {"column": {"name": "s.y", "type": "double", "nullable": True, "metadata": {}}},
        {"column": {"name": "after_id", "type": "integer", "nullable": True, "metadata": {}},
         "position": "AFTER id"}]
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    assert pa.table(builder.execute("select id, gate, after_id from t order by id")).to_pylist() == [
        {"id": 1, "gate": None, "after_id": None}, {"id": 2, "gate": "A", "after_id": 5}]


@pytest.mark.parametrize("columns", [
    "x array<int>", ["x array<int>"], {"x": "array<int>"}, {"x": parse_type("array<int>")},
    {"x": pa.list_(pa.int32())}, StructField("x", parse_type("array<int>")),
    [pa.field("x", pa.list_(pa.int32()))],
])
def test_columns_are_given_in_many_forms(columns: Any) -> None:
    table = table_of({"id": [1]})
    table.add_columns(columns)
    assert table.schema.field("x") == StructField("x", parse_type("array<int>"))
    assert rows(table) == [{"id": 1, "x": None}]


def test_fields_are_added_inside_arrays_and_maps() -> None:
    table = table_of(pa.table({
        "a": pa.array([[{"x": 1}, None]]), "m": pa.array([[("k", {"x": 1})]], pa.map_(
            pa.string(), pa.struct([("x", pa.int64())])))}))
    table.add_columns({"a.element.y": "string", "m.value.y": "date"})
    assert rows(table) == [{"a": [{"x": 1, "y": None}, None], "m": [("k", {"x": 1, "y": None})]}]


def test_added_columns_are_mapped_with_names_of_their_own() -> None:
    table = table_of({"id": [1]}, properties=NAMED)
    table.add_columns("s struct<x: int, y: array<struct<z: int>>>")
    field = table.schema.field("s")
    ids = [field.metadata["delta.columnMapping.id"],
           *(f.metadata["delta.columnMapping.id"] for f in field.type.fields)]  # type: ignore[union-attr]
    assert ids == [2, 3, 4] and table.properties["delta.columnMapping.maxColumnId"] == "5"
    # The record shows the column as it was asked for.
    assert json.loads(last_operation(table)[1]["columns"])[0]["column"]["metadata"] == {}
    table.append(pa.table({"id": [2], "s": pa.array(
        [{"x": 1, "y": [{"z": 3}]}], pa.struct([("x", pa.int32()), ("y", pa.list_(
            pa.struct([("z", pa.int32())])))]))}))
    assert rows(table)[-1] == {"id": 2, "s": {"x": 1, "y": [{"z": 3}]}}


def test_a_type_that_needs_a_feature_raises_the_protocol() -> None:
    table = table_of({"id": [1]})
    table.add_columns("t timestamp_ntz, v variant")
    assert {"timestampNtz", "variantType"} <= set(table.protocol.reader_features or ())


@pytest.mark.parametrize(("columns", "error", "match"), [
    ("ID int", InvalidSchema, "column id already exists"),
    ("s.X int", InvalidSchema, r"column s\.x already exists"),
    ("x int, X int", InvalidSchema, "already exists"),
    ("id.x int", InvalidSchema, "id is not a struct, it is long"),
    ("l.x int", InvalidSchema, r"reached through \.element"),
    ("nothing.x int", InvalidSchema, "no column nothing"),
    ("x int NOT NULL", InvalidSchema, "cannot add x NOT NULL"),
    ("x struct<y: int NOT NULL>", InvalidSchema, r"cannot add x\.y NOT NULL"),
    ("x int DEFAULT 1", InvalidArgument, "default, generated or identity"),
    ("x int GENERATED ALWAYS AS (id)", InvalidArgument, "default, generated or identity"),
    ("x int AFTER nothing", InvalidSchema, "no such column beside it"),
    ("`a b` int", InvalidSchema, "columnMapping.mode=name"),
    ("x decimal(50,1)", InvalidSchema, "precision"), ("x", InvalidSchema, "not valid DDL"),
    ([], InvalidArgument, "no column"), (5, InvalidArgument, "takes SQL text"),
    ({"x": 5}, InvalidArgument, "a type is SQL text"),
    (StructField("x", PrimitiveType("raster(OGC:CRS84)")), UnsupportedProtocol, "raster"),
    ({"x": 'string, y int'}, InvalidArgument, "one type"),
])
def test_columns_that_cannot_be_added(columns: Any, error: type[DeltaError], match: str) -> None:
    table = table_of(pa.table({"id": [1], "s": pa.array([{"x": 1}]), "l": pa.array([[{"x": 1}]])}))
    refuses(table, error, match, "add_columns", columns)


# --- rename and drop ------------------------------------------------------------------------------

def test_a_table_without_mapping_refuses_by_name_and_says_the_way_out() -> None:
    table = table_of({"id": [1], "x": [2]})
    for call, args in (("rename_column", ("x", "y")), ("drop_columns", (["x"],))):
        error = refuses(table, InvalidArgument, "cannot (rename|drop) column x", call, *args)
        assert 'set_properties({"delta.columnMapping.mode": "name"})' in error.message


@pytest.mark.parametrize("begun_with", [True, False])
def test_renamed_columns_read_old_and_new_rows(tmp_path: Path, begun_with: bool) -> None:
    data = pa.table({"id": [1, 2], "s": pa.array([{"x": 1}, {"x": 2}]), "p": ["a", "b"]})
    table = dn.create(tmp_path / "t", data, ["p"], properties=NAMED if begun_with else {})
    if not begun_with:
        table.set_properties(NAMED)
    first = table.version
    assert table.rename_column("ID", "number") == first + 1
    assert last_operation(table) == ("RENAME COLUMN", {"oldColumnPath": "id", "newColumnPath": "number"})
    table.rename_column("s.x", "y z")
    assert last_operation(table)[1] == {"oldColumnPath": "s.x", "newColumnPath": "s.y z"}
    table.rename_column("p", "part")
    assert table.partition_columns == ("part",)
    table.append(pa.table({"number": [3], "s": pa.array([{"y z": 3}]), "part": ["a"]}))
    assert sorted(rows(table), key=lambda row: row["number"]) == [
        {"number": n, "s": {"y z": n}, "part": p} for n, p in ((1, "a"), (2, "b"), (3, "a"))]
    assert [r["number"] for r in table.to_arrow(where="part = 'b'").to_pylist()] == [2]
    assert table.snapshot.files_for_scan("part = 'b'").num_rows == 1
    assert table.snapshot.files_for_scan("number > 2").num_rows == 1
    # Older versions are read under the names they had.
    assert sorted(table.as_of(first).to_arrow(columns=["id", "p"]).to_pylist(), key=str) == [
        {"id": 1, "p": "a"}, {"id": 2, "p": "b"}]
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    assert pa.table(builder.execute("select number, part from t order by number")).to_pylist() == [
        {"number": 1, "part": "a"}, {"number": 2, "part": "b"}, {"number": 3, "part": "a"}]


def test_dropped_columns_are_gone_and_their_names_free() -> None:
    table = table_of(pa.table({"id": [1], "x": ["old"], "s": pa.array([{"a": 1, "b": 2}])}))
    table.set_properties(NAMED)
    table.drop_columns(["x", "S.A"])
    assert last_operation(table) == ("DROP COLUMNS", {"columns": '["x","s.a"]'})
    assert rows(table) == [{"id": 1, "s": {"b": 2}}]
    table.add_columns("x string, s.a bigint")  # not the old ones: their values stay away
    assert rows(table) == [{"id": 1, "s": {"b": 2, "a": None}, "x": None}]
    assert rows(table.as_of(1)) == [{"id": 1, "x": "old", "s": {"a": 1, "b": 2}}]
    assert table.drop_columns("nothing", if_exists=True).version is None
    assert table.drop_columns(["nothing", "x"], if_exists=True) == 4


def test_columns_that_something_reads_stay() -> None:
    table = table_of(pa.table({"p": [1], "a": [1], "s": pa.array([{"x": 1, "y": 2}]), "c": [1], "d": [1]}),
                     ["p"], properties=NAMED)
    table.add_constraint("positive", "s.X > 0 AND a > 0")
    for name in ("a", "s.x", "s"):
        for call, args in (("rename_column", (name, "new")), ("drop_columns", ([name],))):
            error = refuses(table, InvalidArgument, r"the constraint positive \(s\.X > 0 AND a > 0\)",
                            call, *args)
            assert error.column == name
    refuses(table, InvalidArgument, "it is a partition column", "drop_columns", ["p"])
    table.rename_column("s.y", "z")  # beside it
    assert rows(table)[0]["s"] == {"x": 1, "z": 2}


def test_columns_that_a_generated_column_reads_stay() -> None:
    table = table_of("id long, t timestamp, d date GENERATED ALWAYS AS (CAST(t AS date))", properties=NAMED)
    refuses(table, InvalidArgument, r"the generated column d \(CAST\(t AS date\)\)",
            "rename_column", "t", "u")
    refuses(table, InvalidArgument, "the generated column d", "drop_columns", "t")
    table.drop_columns("d")
    table.drop_columns("t")
    assert table.schema.names == ["id"]


@pytest.mark.parametrize(("call", "args", "error", "match"), [
    ("rename_column", ("x", "ID"), InvalidSchema, "column id already exists"),
    ("rename_column", ("nothing", "y"), InvalidSchema, "no column nothing"),
    ("rename_column", ("idd", "y"), InvalidSchema, "did you mean id"),
    ("rename_column", ("l.element", "y"), InvalidSchema, "part of a type"),
    ("rename_column", ("x", ""), InvalidArgument, "needs a new name"),
    ("drop_columns", (["x", "x"],), InvalidSchema, "no column x"),
    ("drop_columns", (["s.a"],), InvalidSchema, "the last field of s"),
    ("drop_columns", (["id", "x", "l", "s"],), InvalidSchema, "the last column of the table"),
    ("drop_columns", (["l.element"],), InvalidSchema, "a part of the type"),
    ("drop_columns", ([],), InvalidArgument, "no column is named"),
])
def test_renames_and_drops_that_cannot_be(
    call: str, args: Any, error: type[DeltaError], match: str
) -> None:
    table = table_of(pa.table({"id": [1], "x": [1], "l": [[1]], "s": pa.array([{"a": 1}])}), properties=NAMED)
    refuses(table, error, match, call, *args)


def test_a_rename_may_change_case_only() -> None:
    table = table_of({"id": [1]}, properties=NAMED)
    table.rename_column("id", "ID")
    assert rows(table) == [{"ID": 1}]


def test_columns_named_for_statistics_follow() -> None:
    table = table_of(pa.table({"a b": [1], "s": pa.array([{"x": 1}]), "c": [1]}), properties={
        **NAMED, "delta.dataSkippingStatsColumns": "`a b`,s.x,c"})
    table.rename_column("s", "t")
    table.drop_columns("c")
    assert table.properties["delta.dataSkippingStatsColumns"] == "`a b`,t.x"


# --- change ---------------------------------------------------------------------------------------

def test_comments_order_and_not_null() -> None:
    table = table_of("id bigint NOT NULL, a string, s struct<x: int NOT NULL, y: int>")
    table.change_column("id", comment="the key")
    assert last_operation(table) == ("CHANGE COLUMN", {
        "column": '{"name":"id","type":"long","nullable":false,"metadata":{"comment":"the key"}}'})
    table.change_column("A", position="first")
    assert last_operation(table)[1]["position"] == "FIRST"
    table.change_column("s.x", position="after Y", nullable=True, comment="x")
    assert str(table.schema) == (
        "struct<a: string, id: long not null, s: struct<y: integer, x: integer>>")
    before = table.schema
    assert table.change_column("id", nullable=False) == 4, "NOT NULL already"
    table.change_column("id", nullable=True)
    assert table.change_column("id", nullable=True, comment="the key") == 6, "nullable already, and so called"
    assert table.schema.names == before.names and table.schema.field("id").nullable
    table.append(pa.table({"a": ["x"], "id": pa.array([None], pa.int64())}))
    assert rows(table) == [{"a": "x", "id": None, "s": None}]


@pytest.mark.parametrize(("name", "changes", "error", "match"), [
    ("id", {}, InvalidArgument, "nothing to change"),
    ("a", {"nullable": False}, InvalidArgument, r'add_constraint\("a_not_null", "a IS NOT NULL"\)'),
    ("a", {"position": "last"}, InvalidSchema, "neither 'first' nor"),
    ("a", {"position": "after nothing"}, InvalidSchema, "no such column beside it"),
    ("l.element", {"comment": "x"}, InvalidArgument, "a part of a type"),
    ("l.element", {"position": "first"}, InvalidArgument, "a part of a type"),
    ("l.element", {"type": "bigint"}, InvalidArgument, "type widening is off"),
    ("n", {"type": "bigint"}, InvalidArgument, "delta.enableTypeWidening"),
    ("n", {"type": "string"}, InvalidSchema, "that is not a widening"),
    ("l", {"type": "array<bigint>"}, InvalidSchema, "change its parts"),
    ("a", {"type": "varchar(3)"}, InvalidArgument, "length of a cannot be changed"),
    ("a", {"default": "'x'"}, InvalidArgument, 'add_feature\\("allowColumnDefaults"\\)'),
    ("nothing", {"comment": "x"}, InvalidSchema, "no column nothing"),
])
def test_changes_that_cannot_be(
    name: str, changes: dict[str, Any], error: type[DeltaError], match: str
) -> None:
    table = table_of("id bigint NOT NULL, a string, l array<int>, n int")
    refuses(table, error, match, "change_column", name, **changes)


WIDENED = [
    (pa.int8(), "smallint", 5), (pa.int16(), "int", 5), (pa.int32(), "bigint", 5),
    (pa.int32(), "double", 5.0), (pa.int32(), "decimal(12,2)", Decimal("5.00")),
    (pa.int64(), "decimal(20,0)", Decimal("5")), (pa.float32(), "double", 5.0),
    (pa.date32(), "timestamp_ntz", dt.datetime(1970, 1, 6)),
    (pa.decimal128(5, 2), "decimal(10,4)", Decimal("5.0000")),
]


@pytest.mark.parametrize(("stored", "wider", "value"), WIDENED, ids=str)
@pytest.mark.parametrize("partitioned", [False, True])
def test_widened_columns_read_narrower_files(
    stored: pa.DataType, wider: str, value: Any, partitioned: bool
) -> None:
    narrow = dt.date(1970, 1, 6) if pa.types.is_date(stored) else (
        Decimal(5) if pa.types.is_decimal(stored) else 5)
    five = pa.array([narrow], stored)
    table = table_of(pa.table({"id": [1], "x": five}), ["x"] if partitioned else [], properties=WIDENING)
    before = str(table.schema.field("x").type)
    table.change_column("x", type=wider)
    after = str(table.schema.field("x").type)
    assert table.schema.field("x").metadata == {
        "delta.typeChanges": [{"fromType": before, "toType": after}]}
    assert rows(table) == [{"id": 1, "x": value}]
    table.append(pa.table({"id": [2], "x": pa.array([value], table.schema.to_arrow().field("x").type)}))
    assert sorted(rows(table), key=str) == [{"id": 1, "x": value}, {"id": 2, "x": value}]
    literal = f"TIMESTAMP_NTZ '{value}'" if wider == "timestamp_ntz" else str(value)
    assert table.to_arrow(where=f"x = {literal}").num_rows == 2
    assert table.to_arrow(where=f"x < {literal}").num_rows == 0
    column = json.loads(table.history()[1].operation_parameters["column"])
    assert column["name"] == "x" and column["metadata"] == {}


def test_elements_keys_and_values_are_widened() -> None:
    table = table_of(pa.table({
        "l": pa.array([[1, None]], pa.list_(pa.int32())),
        "m": pa.array([[(1, 2.0)]], pa.map_(pa.int32(), pa.float32()))}), properties=WIDENING)
    table.change_column("l.element", type="bigint")
    table.change_column("m.key", type="bigint")
    table.change_column("m.value", type="double")
    assert str(table.schema) == "struct<l: array<long>, m: map<long,double>>"
    assert [c["fieldPath"] for c in table.schema.field("m").metadata["delta.typeChanges"]] == ["key", "value"]
    assert rows(table) == [{"l": [1, None], "m": [(1, 2.0)]}]


def test_types_that_something_reads_stay() -> None:
    table = table_of(pa.table({"x": pa.array([1], pa.int32())}), properties=WIDENING)
    table.add_constraint("c", "x > 0")
    refuses(table, InvalidArgument, "the constraint c", "change_column", "x", type="bigint")


def test_a_void_column_takes_a_type_without_widening() -> None:
    table = table_of("id int, v void")
    table.change_column("v", type="string")
    assert str(table.schema.field("v").type) == "string"


def test_defaults_where_the_feature_is() -> None:
    table = table_of("id int, x int, g int GENERATED ALWAYS AS (id + 1)")
    table.add_feature("allowColumnDefaults")
    refuses(table, InvalidArgument, "not one SQL expression", "change_column", "x", default="1, y int")
    refuses(table, DeltaError, "only one of", "change_column", "g", default="1")
    refuses(table, DeltaError, "nothing", "change_column", "x", default="nothing + 1")
    table.change_column("x", default="40 + 2")
    assert table.schema.field("x").metadata == {"CURRENT_DEFAULT": "40 + 2"}
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    assert rows(table) == [{"id": 1, "x": 42, "g": 2}]
    table.change_column("x", drop_default=True)
    assert table.schema.field("x").metadata == {}


def test_generated_columns_keep_their_type() -> None:
    table = table_of("id int, g int GENERATED ALWAYS AS (id + 1)", properties=WIDENING)
    refuses(table, InvalidArgument, "keeps the type integer", "change_column", "g", type="bigint")
    refuses(table, InvalidArgument, "the generated column g", "change_column", "id", type="bigint")


# --- change data feed -----------------------------------------------------------------------------

@pytest.mark.parametrize("new", [["number", "s"], ["s"]])
def test_columns_are_not_renamed_or_dropped_together_with_rows_of_a_feed(new: list[str]) -> None:
    data = pa.table({"id": [1], "s": pa.array([{"x": 1}])})
    table = table_of(data, properties={**NAMED, "delta.enableChangeDataFeed": True})
    fields = {f.name: f for f in table.schema}
    changed = type(table.schema)(
        [fields["id"].replace(name="number")] * ("number" in new) + [fields["s"]])
    txn = table.start_transaction()
    txn.update_metadata(txn.metadata.replace(schema_string=changed.to_json()))
    file = next(iter(table.start_transaction().filter_files()))
    with pytest.raises(DeltaError, match="column id is renamed or dropped in a commit with data files"):
        txn.commit([file.replace(path="other")], dn.Operation("WRITE", {"mode": "Append"}))
    assert table.version == 0
    table.rename_column("s.x", "y")  # by themselves they are
    table.drop_columns("id")
    assert rows(table) == [{"s": {"y": 1}}]


# --- beside other writers -------------------------------------------------------------------------

def test_an_append_that_began_before_a_new_column_fails() -> None:
    table = table_of({"id": [1]})
    txn = table.start_transaction()
    added = txn.write_files({"id": [2]})
    table.add_columns("x int")
    with pytest.raises(MetadataChangedException) as caught:
        txn.commit(added, dn.Operation("WRITE", {"mode": "Append"}))
    assert caught.value.version == 1
    txn.discard_written()


def test_a_new_column_goes_beside_appends_and_deletes() -> None:
    table = table_of({"id": [1, 2]})
    from deltanb.commands.define.alter import commit_metadata

    txn = table.start_transaction()
    table.append({"id": [3]})
    schema = table.schema
    wider = type(schema)([*schema.fields, StructField("x", PrimitiveType("long"))])
    version = commit_metadata(txn, txn.metadata.replace(schema_string=wider.to_json()),
                              dn.Operation("ADD COLUMNS", {"columns": []}))
    assert version == 2
    assert sorted(rows(table), key=lambda row: row["id"]) == [{"id": n, "x": None} for n in (1, 2, 3)]


def test_several_columns_are_changed_in_one_commit() -> None:
    table = dn.create(MemoryStore(), "id bigint NOT NULL, s struct<x: int, y: string>, n int")
    done = table.change_columns({"N": {"position": "first", "comment": "count"}, "s.y": {"position": "first"},
                                 ("id",): {"nullable": True}})
    assert (done.operation, done.version) == ("CHANGE COLUMNS", 1)
    assert table.schema.names == ["n", "id", "s"] and table.schema.field("id").nullable
    assert str(table.schema.field("s").type) == "struct<y: string, x: integer>"
    assert [{key: one[key] for key in ("name", "position") if key in one} for one in
            json.loads(table.history(1)[0].operation_parameters["columns"])] == [
        {"name": "n", "position": "FIRST"}, {"name": "s.y", "position": "FIRST"}, {"name": "id"}]


@pytest.mark.parametrize("changes, match", [
    ({}, "at least, .* write it like change_columns"), ({"id": "bigint"}, "each a dict of change_column's"),
    ({"id": {"coment": "x"}}, "'coment' is no change of column 'id'; did you mean comment"),
    ({"id": {}}, "nothing to change of 'id'; give type, comment,"),
    ({"s": {"comment": "a"}, "s.x": {"comment": "b"}}, "s.x is changed together with s; change a column"),
    ({"id": {"comment": "a"}, "nosuch": {"comment": "b"}}, "nosuch"),
])
def test_several_columns_change_together_or_not_at_all(changes: Any, match: str) -> None:
    table = dn.create(MemoryStore(), "id bigint, s struct<x: int>")
    with pytest.raises(DeltaError, match=match):
        table.change_columns(changes)
    assert table.version == 0 and table.schema.field("id").metadata == {}


def test_two_changes_of_the_metadata_cannot_both_commit() -> None:
    table = table_of({"id": [1]})
    from deltanb.commands.define.alter import commit_metadata

    txn = table.start_transaction()
    table.change_column("id", comment="first")
    with pytest.raises(MetadataChangedException, match="Metadata|metadata"):
        commit_metadata(txn, txn.metadata.replace(description="second"), dn.Operation("SET TBLPROPERTIES"))
    assert table.version == 1 and table.metadata.description is None


def test_there_must_be_a_table_at_its_newest_version() -> None:
    from deltanb.commands.define.alter_columns import add_columns
    from deltanb.transaction.delta_log import DeltaLog

    with pytest.raises(TableNotFound, match="create it"):
        add_columns(DeltaLog.for_table(MemoryStore()), "x int")
    table = table_of({"id": [1]})
    table.append({"id": [2]})
    with pytest.raises(DeltaError, match="as of version 0"):
        table.as_of(0).add_columns("x int")


def test_only_the_log_is_touched() -> None:
    table = table_of(pa.table({"id": pa.array([1], pa.int32()), "x": [1]}), properties={**NAMED, **WIDENING})
    store = table.log.store
    parquet = {name for name in store.files if name.endswith(".parquet")}  # type: ignore[attr-defined]
    for name in parquet:
        store.delete(name)
    table.add_columns("y int")
    table.rename_column("x", "z")
    table.change_column("id", type="bigint")
    table.drop_columns("z")
    assert table.version == 4
