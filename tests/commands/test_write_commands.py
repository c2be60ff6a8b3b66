"""WRITE: what is appended is there, what is overwritten is gone, what is refused left no trace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import AddCDCFile, AddFile, DomainMetadata, RemoveFile, SetTransaction
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    ConstraintViolation,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    SchemaMismatch,
    TableNotFound,
    UnsupportedPredicate,
)
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction.journal import journal_of
from tests.helpers import files_of, last_commit, refused, rows


@pytest.fixture
def table() -> DeltaTable:
    return create(MemoryStore(), {"id": [1, 2, 3], "p": ["a", "a", "b"]}, partition_by="p")


# --- append ---------------------------------------------------------------------------------------

def test_append(table: DeltaTable) -> None:
    assert table.append([{"id": 4, "p": "c"}], user_metadata="night run") == 1
    assert rows(table)[-1] == {"id": 4, "p": "c"}
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters, entry.user_metadata) == (
        "WRITE", {"mode": "Append", "partitionBy": "[]"}, "night run")
    (file,) = last_commit(table, AddFile)
    assert entry.operation_metrics == {
        "numFiles": "1", "numOutputRows": "1", "numOutputBytes": str(file.size)}
    assert entry.is_blind_append is True


def test_what_changes_nothing_commits_nothing(table: DeltaTable) -> None:
    nothing: dict[str, list[Any]] = {"id": [], "p": []}
    assert table.append(nothing).version is None
    assert table.overwrite(nothing, where="p = 'none'").version is None
    assert table.overwrite(nothing, partition_overwrite="dynamic").version is None
    assert table.append(nothing, merge_schema=True).version is None
    assert table.version == 0 and len(rows(table)) == 3
    assert [a.outcome for a in journal_of(table.log)] == ["committed"], "nothing else was begun"


def test_no_rows_may_still_change_the_table(table: DeltaTable) -> None:
    nothing = {"id": [], "p": []}
    assert table.append(nothing, txn=("app", 1)) == 1
    assert table.snapshot.set_transactions == {"app": 1}
    assert table.append({**nothing, "q": pa.array([], pa.int64())}, merge_schema=True) == 2
    assert table.schema.names == ["id", "p", "q"]
    assert table.overwrite({"id": [], "p": [], "q": []}) == 3 and rows(table) == []


def test_nothing_is_recorded_where_a_table_says_write_serializable() -> None:
    """As in Delta Spark: there an operation that changes data is recorded whatever it did."""
    log = TableBuilder(MemoryStore()).create(
        "id long", properties={"delta.isolationLevel": "WriteSerializable"}).log
    assert dn.DeltaTable(log).append({"id": []}) == 1


def test_there_must_be_a_table(tmp_path: Path) -> None:
    log = dn.DeltaLog.for_table(tmp_path / "none")
    from deltanb.commands.rows.write import append

    with pytest.raises(TableNotFound, match=r"deltanb\.create"):
        append(log, {"id": [1]})
    assert not (tmp_path / "none").exists()


def test_rows_that_do_not_fit_are_refused(table: DeltaTable) -> None:
    error = refused(table, SchemaMismatch, lambda: table.append({"id": ["x"], "more": [1]}))
    assert error.differences == [
        "~ id: string in the data, long in the table", "+ more: long, not in the table",
        "- p: partition column, missing from the data"]
    small = create(MemoryStore(), StructType([StructField("n", PrimitiveType("byte"))]))
    assert refused(small, SchemaMismatch, lambda: small.append({"n": [1, 500]})).value == 500


def test_rows_that_break_a_constraint_are_refused() -> None:
    table = create(MemoryStore(), {"id": [1]}, properties={"delta.constraints.pos": "id > 0"})
    error = refused(table, ConstraintViolation, lambda: table.append({"id": [2, 0]}))
    assert (error.constraint, error.row, error.row_number) == ("pos", {"id": 0}, 2)
    refused(table, ConstraintViolation, lambda: table.append({"id": [None]}))


def test_clustering_columns_are_described_beyond_the_first_32() -> None:
    table = create(MemoryStore(), {"a": [1], "b": [2]}, properties={
        "delta.feature.clustering": "supported", "delta.dataSkippingNumIndexedCols": 1})
    domain = DomainMetadata("delta.clustering", '{"clusteringColumns":[["b"]]}')
    table.start_transaction().commit([domain])
    table.append({"a": [3], "b": [4]})
    (file,) = last_commit(table, AddFile)
    assert json.loads(file.stats)["minValues"] == {"a": 3, "b": 4}


# --- schema ---------------------------------------------------------------------------------------

def test_merge_schema_adds_columns_and_nested_fields() -> None:
    table = create(MemoryStore(), pa.table({
        "id": [1], "s": [{"x": 1}], "l": [[{"a": 1}]]}))
    data = pa.table({"ID": [2], "s": [{"x": 2, "y": "new"}], "l": [[{"a": 2, "b": True}]],
                     "late": [5]})
    refused(table, SchemaMismatch, lambda: table.append(data))
    table.append(data, merge_schema=True)
    assert [str(f) for f in table.schema.fields] == [
        "id: long", "s: struct<x: long, y: string>", "l: array<struct<a: long, b: boolean>>",
        "late: long"]
    assert rows(table) == [
        {"id": 1, "s": {"x": 1, "y": None}, "l": [{"a": 1, "b": None}], "late": None},
        {"id": 2, "s": {"x": 2, "y": "new"}, "l": [{"a": 2, "b": True}], "late": 5}]
    assert table.history(1)[0].operation_parameters["canMergeSchema"] is True


def test_merge_schema_keeps_what_is_there() -> None:
    table = create(MemoryStore(), StructType([
        StructField("id", PrimitiveType("integer"), False, {"comment": "key"}),
        StructField("tags", ArrayType(PrimitiveType("string"), False))]))
    before = table.metadata
    table.append(pa.table({"tags": [["a"]], "id": [7]}), merge_schema=True)
    assert table.metadata == before and rows(table) == [{"id": 7, "tags": ["a"]}]
    assert refused(table, SchemaMismatch, lambda: table.append(
        pa.table({"id": [2**40], "tags": [["a"]]}), merge_schema=True)).column == "id"
    refused(table, ConstraintViolation, lambda: table.append(
        {"id": [None], "tags": [["a"]]}, merge_schema=True))


def test_new_columns_of_a_mapped_table_get_ids() -> None:
    table = create(MemoryStore(), {"a": [1]}, properties={"delta.columnMapping.mode": "name"})
    table.append({"a": [2], "b c": ["x"]}, merge_schema=True)
    field = table.schema.field("b c")
    assert field.metadata["delta.columnMapping.id"] == 2
    assert table.properties["delta.columnMapping.maxColumnId"] == "2"
    assert rows(table, "a") == [{"a": 1, "b c": None}, {"a": 2, "b c": "x"}]


def test_types_widen_where_the_table_allows_it() -> None:
    schema = StructType([
        StructField("n", PrimitiveType("short")), StructField("f", PrimitiveType("float")),
        StructField("l", ArrayType(PrimitiveType("integer"))), StructField("d", PrimitiveType("long"))])
    wide = pa.table({"n": pa.array([70_000], pa.int32()), "f": [1e300], "l": [[2**40]],
                     "d": pa.array([1], pa.int8())})
    fixed = create(MemoryStore(), schema)
    refused(fixed, SchemaMismatch, lambda: fixed.append(wide, merge_schema=True))
    table = create(MemoryStore(), schema, properties={"delta.enableTypeWidening": True})
    table.append(pa.table({"n": [1], "f": [0.5], "l": [[1]], "d": [1]}).cast(schema.to_arrow()))
    table.append(wide, merge_schema=True)
    assert [str(f.type) for f in table.schema.fields] == ["integer", "double", "array<long>", "long"]
    assert table.schema.field("n").metadata == {
        "delta.typeChanges": [{"fromType": "short", "toType": "integer"}]}
    assert table.schema.field("l").metadata["delta.typeChanges"] == [
        {"fromType": "integer", "toType": "long", "fieldPath": "element"}]
    assert rows(table, "n") == [{"n": 1, "f": 0.5, "l": [1], "d": 1},
                                {"n": 70_000, "f": 1e300, "l": [2**40], "d": 1}]


def test_a_type_that_a_constraint_reads_does_not_widen() -> None:
    schema = StructType([StructField("s", StructType([StructField("n", PrimitiveType("short"))]))])
    table = create(MemoryStore(), schema, properties={
        "delta.enableTypeWidening": True, "delta.constraints.c": "s.n > 0"})
    wide = pa.table({"s": [{"n": 1}]})
    assert "constraint c" in refused(
        table, SchemaMismatch, lambda: table.append(wide, merge_schema=True)).message
    extra = pa.table({"s": pa.array([{"n": 1, "new": 2}], pa.struct([("n", pa.int16()),
                                                                     ("new", pa.int64())]))})
    assert table.append(extra, merge_schema=True) == 1


def test_overwrite_schema() -> None:
    table = create(MemoryStore(), {"id": [1], "p": ["a"]}, "p")
    refused(table, SchemaMismatch, lambda: table.overwrite({"id": ["text"], "q": [1]}))
    table.overwrite({"id": ["text"], "q": [1]}, overwrite_schema=True, partition_by=["Q"])
    assert table.partition_columns == ("q",)
    assert rows(table) == [{"id": "text", "q": 1}]
    error = refused(table, InvalidArgument, lambda: table.overwrite(
        {"id": [1]}, overwrite_schema=True))
    assert "'q'" in error.message
    assert table.as_of(0).schema.names == ["id", "p"]


COLUMNS = ("id long, gone long, twice long GENERATED ALWAYS AS (gone * 2), "
           "n long GENERATED BY DEFAULT AS IDENTITY")


def test_a_new_schema_generates_nothing_that_the_old_one_did() -> None:
    table = create(MemoryStore(), COLUMNS, properties={"delta.enableRowTracking": True})
    table.append({"id": [1], "gone": [2]})
    table.overwrite({"id": [3], "twice": ["x"], "n": [None]}, overwrite_schema=True)
    table.append({"id": [4], "twice": ["y"], "n": [None]})
    assert rows(table) == [{"id": 3, "twice": "x", "n": None}, {"id": 4, "twice": "y", "n": None}]
    assert all(not field.metadata for field in table.schema)
    assert table.blame().to_arrow().sort_by("id")["_version"].to_pylist() == [2, 3]


@pytest.mark.parametrize(("properties", "way", "take_away"), [
    ({"delta.constraints.small": "gone < 9"}, r"constraint small .*drop_constraint\('small'\)",
     lambda table: table.drop_constraint("small")),
    ({"delta.dataSkippingStatsColumns": "gone"}, r"names gone: .*set_properties\(.*unset_properties",
     lambda table: table.unset_properties("delta.dataSkippingStatsColumns"))])
def test_what_reads_a_column_that_goes_is_taken_away_first(
    properties: dict[str, str], way: str, take_away: Callable[[DeltaTable], Any]
) -> None:
    table = create(MemoryStore(), {"id": [1], "gone": [2]}, properties=properties)
    error = refused(table, InvalidArgument, lambda: table.overwrite({"id": [3]}, overwrite_schema=True))
    assert re.search(way, error.message)
    take_away(table)
    table.overwrite({"id": [3]}, overwrite_schema=True)
    assert rows(table) == [{"id": 3}]


# --- overwrite ------------------------------------------------------------------------------------

def test_overwrite_everything(table: DeltaTable) -> None:
    removed_bytes = table.snapshot.size_in_bytes
    assert table.overwrite({"id": [9], "p": ["z"]}) == 1
    assert rows(table) == [{"id": 9, "p": "z"}]
    entry = table.history(1)[0]
    assert entry.operation_parameters["mode"] == "Overwrite"
    assert entry.operation_metrics["numRemovedFiles"] == "2"
    assert entry.operation_metrics["numRemovedBytes"] == str(removed_bytes)
    assert len(table.as_of(0).to_arrow()) == 3


def test_overwrite_where_on_partitions_reads_no_file(table: DeltaTable) -> None:
    table.overwrite({"id": [10], "p": ["a"]}, where="p = 'a'")
    assert rows(table, "id") == [{"id": 10, "p": "a"}, {"id": 3, "p": "b"}]
    (removed,) = last_commit(table, RemoveFile)
    assert removed.partition_values == {"p": "a"}
    entry = table.history(1)[0]
    assert entry.operation_parameters["predicate"] == "p = 'a'"
    assert {name: entry.operation_metrics[name] for name in ("numDeletedRows", "numCopiedRows")} == {
        "numDeletedRows": "2", "numCopiedRows": "0"}  # as the statistics say
    assert entry.is_blind_append is False


def test_rows_outside_where_are_refused_and_named(table: DeltaTable) -> None:
    error = refused(table, ConstraintViolation, lambda: table.overwrite(
        {"id": [10, 11], "p": ["a", "b"]}, where="p = 'a'"))
    assert (error.row, error.row_number) == ({"id": 11, "p": "b"}, 2)
    assert "p = 'a'" in error.message and "p : b" in error.message
    refused(table, ConstraintViolation, lambda: table.overwrite(
        {"id": [10], "p": [None]}, where="p = 'a'"))
    refused(table, ConstraintViolation, lambda: table.overwrite(
        {"id": [10], "p": ["a"]}, where="id < 3"))


def test_overwrite_where_on_data_rewrites_files_that_hold_such_rows() -> None:
    table = create(MemoryStore(), {"id": [1, 2], "v": ["a", "b"]})
    table.append({"id": [3, 4], "v": ["c", "d"]})
    table.append({"id": [5, None], "v": ["e", "f"]})
    untouched = set(table.snapshot.files["path"].to_pylist()[-1:])
    table.overwrite({"id": [2, 3, 3], "v": ["B", "C", "C2"]}, where="id IN (2, 3, 4)")
    assert rows(table, "id", "v") == [
        {"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "C"}, {"id": 3, "v": "C2"},
        {"id": 5, "v": "e"}, {"id": None, "v": "f"}]
    assert untouched <= set(table.snapshot.files["path"].to_pylist())
    metrics = table.history(1)[0].operation_metrics
    assert {name: metrics[name] for name in (
        "numRemovedFiles", "numOutputRows", "numDeletedRows", "numCopiedRows")} == {
        "numRemovedFiles": "2", "numOutputRows": "4", "numDeletedRows": "3", "numCopiedRows": "1"}


def test_overwrite_where_nothing_matches_only_adds(table: DeltaTable) -> None:
    table.overwrite({"id": [100], "p": ["a"]}, where="id >= 100")
    assert len(rows(table)) == 4 and last_commit(table, RemoveFile) == []


def test_null_is_kept_by_where() -> None:
    table = create(MemoryStore(), {"id": [1, None]})
    table.overwrite({"id": [5]}, where="id > 0")
    assert rows(table) == [{"id": 5}, {"id": None}]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_partial_overwrite_feeds_the_change_feed(tmp_path: Path, mode: str) -> None:
    table = create(tmp_path / "t", {"id": [1, 2, 3], "p": ["a", "a", "b"]}, "p", {
        "delta.enableChangeDataFeed": True, "delta.columnMapping.mode": mode})
    table.overwrite({"id": [2, 2], "p": ["a", "c"]}, where="id = 2")
    changes = last_commit(table, AddCDCFile)
    assert all(change.path.startswith("_change_data/") for change in changes)
    assert not any(change.data_change for change in changes)
    assert table.history(1)[0].operation_metrics["numAddedChangeFiles"] == str(len(changes)) == "2"
    assert rows(table, "id", "p") == [{"id": 1, "p": "a"}, {"id": 2, "p": "a"},
                                      {"id": 2, "p": "c"}, {"id": 3, "p": "b"}]
    if mode == "none":  # the peer does not read the feed of mapped tables
        feed = pa.table(deltalake.DeltaTable(tmp_path / "t").load_cdf(starting_version=1)).to_pylist()
        assert sorted((r["_change_type"], r["id"], r["p"]) for r in feed) == [
            ("delete", 2, "a"), ("insert", 2, "a"), ("insert", 2, "c")]


def test_dynamic_partition_overwrite(table: DeltaTable) -> None:
    table.overwrite({"id": [10, 11], "p": ["a", None]}, partition_overwrite="dynamic")
    assert rows(table, "id") == [{"id": 10, "p": "a"}, {"id": 11, "p": None}, {"id": 3, "p": "b"}]
    table.overwrite({"id": [12], "p": [None]}, partition_overwrite="dynamic")
    assert [row["id"] for row in rows(table, "id")] == [10, 12, 3]
    assert table.history(1)[0].operation_parameters["isDynamicPartitionOverwrite"] is True
    plain = create(MemoryStore(), {"id": [1]})
    plain.overwrite({"id": [2]}, partition_overwrite="dynamic")
    assert rows(plain) == [{"id": 2}]


def test_an_append_only_table_cannot_be_overwritten() -> None:
    table = create(MemoryStore(), {"id": [1]}, properties={"delta.appendOnly": True})
    refused(table, AppendOnlyTable, lambda: table.overwrite({"id": [2]}))
    assert table.append({"id": [2]}) == 1


@pytest.mark.parametrize(("options", "error"), [
    ({"where": "nowhere = 1"}, InvalidPredicate),
    ({"where": "id ="}, InvalidPredicate),
    ({"where": "rand() > id"}, UnsupportedPredicate),
    ({"partition_overwrite": "Dynamik"}, InvalidArgument),
    ({"where": "id = 1", "partition_overwrite": "dynamic"}, InvalidArgument),
    ({"where": "id = 1", "overwrite_schema": True}, InvalidArgument),
    ({"overwrite_schema": True, "partition_overwrite": "dynamic"}, InvalidArgument),
    ({"overwrite_schema": True, "merge_schema": True}, InvalidArgument),
    ({"partition_by": ["id"]}, InvalidArgument),
    ({"txn": ("app", "1")}, InvalidArgument),
    ({"txn": ("app", 1, 2)}, InvalidArgument),
    ({"target_file_size": 0}, InvalidArgument),
])
def test_options_that_make_no_sense_are_refused(
    table: DeltaTable, options: dict[str, Any], error: type[DeltaError]
) -> None:
    refused(table, error, lambda: table.overwrite({"id": [1], "p": ["a"]}, **options))


# --- idempotent writes and races ------------------------------------------------------------------

def test_a_write_done_before_is_skipped(table: DeltaTable) -> None:
    data = {"id": [4], "p": ["c"]}
    assert table.append(data, txn=("etl", 7)) == 1
    assert table.append(data, txn=("etl", 7)).version is None
    assert table.append(data, txn=("etl", 6)).version is None
    assert len(rows(table)) == 4 and table.version == 1
    assert table.append(data, txn=("other", 1)) == 2
    assert table.overwrite(data, txn=("etl", 8)) == 3
    assert table.snapshot.set_transactions == {"etl": 8, "other": 1}
    (action,) = last_commit(table, SetTransaction)
    assert (action.app_id, action.version) == ("etl", 8) and action.last_updated is not None


def scripted(*script: Any) -> tuple[ScriptedStore, DeltaTable]:
    store = ScriptedStore()
    table = create(store, {"id": [1]})
    store.script.extend(script)
    return store, table


def test_an_append_survives_another(tmp_path: Path) -> None:
    _, table = scripted(Lose([add("rival")]))
    assert table.append({"id": [2]}) == 2


def test_a_lost_overwrite_removes_its_files() -> None:
    store, table = scripted(Lose([add("rival")]))
    before = files_of(table)
    with pytest.raises(ConcurrentAppendException):
        table.overwrite({"id": [2]})
    assert files_of(table) == before
    assert table.version == 1 and store.calls["delete"] > 0


def test_a_commit_whose_answer_was_lost_is_ours() -> None:
    _, table = scripted(LoseResponse())
    assert table.append({"id": [2]}) == 1
    assert rows(table) == [{"id": 1}, {"id": 2}]


def test_statistics_are_in_the_log_for_every_file(table: DeltaTable) -> None:
    table.append({"id": [5, 6], "p": ["a", "b"]})
    for file in last_commit(table, AddFile):
        assert json.loads(file.stats)["numRecords"] == 1


@pytest.mark.parametrize("feed", ["false", "true"])
def test_a_partial_overwrite_hides_rows_in_their_files_as_a_delete_does(feed: str) -> None:
    table = create(MemoryStore(), {"id": [1, 2, 3], "v": ["a", "b", "c"]}, properties={
        "delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": feed})
    (before,) = table.snapshot.files["path"].to_pylist()
    table.overwrite({"id": [2, 2], "v": ["x", "y"]}, where="id = 2")
    assert table.to_arrow().sort_by([("id", "ascending"), ("v", "ascending")]).to_pydict() == {
        "id": [1, 2, 2, 3], "v": ["a", "x", "y", "c"]}
    assert before in table.snapshot.files["path"].to_pylist(), "only a vector was put on it"
    metrics = table.history(1)[0].operation_metrics
    assert metrics is not None
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"], metrics["numOutputRows"]) == ("1", "0", "2")
    assert metrics["numAddedChangeFiles"] == ("1" if feed == "true" else "0")
    if feed == "true":
        changes = table.changes(1, 1).select(["_change_type", "id", "v"]).to_pylist()
        assert sorted(tuple(row.values()) for row in changes) == [
            ("delete", 2, "b"), ("insert", 2, "x"), ("insert", 2, "y")]
