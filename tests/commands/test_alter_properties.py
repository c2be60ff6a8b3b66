"""SET and UNSET TBLPROPERTIES: what may be set, and what follows from it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import AddFile, CommitInfo
from deltanb.errors import (
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    MetadataChangedException,
    RowIdAssignmentWithoutStats,
    UnsupportedProtocol,
)
from deltanb.options import set_options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.helpers import last_operation, refuses, table_of

MODE = "delta.columnMapping.mode"


def test_properties_are_set_and_unset(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    assert table.set_properties({"delta.AppendOnly": True, "mine": 5}) == 1
    assert table.properties == {"delta.appendOnly": "true", "mine": "5"}
    assert last_operation(table) == (
        "SET TBLPROPERTIES", {"properties": '{"delta.appendOnly":"true","mine":"5"}'})
    assert table.unset_properties(["DELTA.appendOnly", "mine"]) == 2
    assert table.properties == {}
    assert last_operation(table) == ("UNSET TBLPROPERTIES", {
        "properties": '["delta.appendOnly","mine"]', "ifExists": False})
    assert table.unset_properties("mine", if_exists=True) == 3
    assert deltalake.DeltaTable(tmp_path / "t").metadata().configuration == {}


def test_name_and_description() -> None:
    table = table_of({"id": [1]})
    table.set_description("all ducks")
    assert table.metadata.description == "all ducks" and table.properties == {}
    assert last_operation(table) == ("SET TBLPROPERTIES", {"properties": '{"comment":"all ducks"}'})
    table.set_name("ducks")
    assert table.name == "ducks" and table.metadata.description == "all ducks"
    table.set_description(None)
    assert table.metadata.description is None
    table.set_name(None)
    assert table.metadata.name is None
    refuses(table, InvalidArgument, "a table's name is text", "set_name", 5)


@pytest.mark.parametrize(("values", "error", "match"), [
    ({}, InvalidArgument, "a dict with one property at least"),
    ({"delta.appendOnly": "maybe"}, InvalidArgument, "expected true or false"),
    ({"delta.appendOnly": None}, InvalidArgument, "text, a number or a bool"),
    ({"delta.constraints.c": "id > 0"}, InvalidArgument, "add_constraint"),
    ({"delta.feature.clustering": "supported"}, InvalidArgument, "cluster_by"),
    ({"delta.feature.nothing": "supported"}, UnsupportedProtocol, "no table feature nothing"),
    ({"delta.feature.v2Checkpoint": "on"}, InvalidArgument, "can only be 'supported'"),
    ({"delta.columnMapping.maxColumnId": 9}, InvalidArgument, "maintained by the table"),
    ({"location": "x"}, InvalidArgument, "where its files are"),
    ({MODE: "id"}, InvalidArgument, "cannot go from none to id"),
    ({"delta.enableIcebergCompatV2": True, MODE: "name"}, UnsupportedProtocol, "icebergCompatV2"),
    ({"delta.feature.catalogManaged": "supported"}, UnsupportedProtocol, "catalogManaged"),
    ({"delta.enableRowTracking": True, "delta.rowTrackingSuspended": True}, InvalidArgument, "contradict"),
])
def test_properties_that_cannot_be_set(
    values: dict[str, Any], error: type[DeltaError], match: str
) -> None:
    refuses(table_of({"id": [1]}), error, match, "set_properties", values)


@pytest.mark.parametrize(("name", "hint"), [
    ("delta.apendOnly", "; did you mean delta.appendOnly?"),
    ("delta.deletionVectors", "; did you mean delta.enableDeletionVectors?"),
    ("DELTA.AppendOnlyy", "; did you mean delta.appendOnly?"),
    ("delta.zzz", ""),
])
def test_an_unknown_property_is_a_warning_where_it_was_set(name: str, hint: str) -> None:
    table = table_of({"id": [1]})
    with pytest.warns(errors.UnknownPropertyWarning) as caught:
        table.set_properties({name: "true"})
    (warning,) = caught
    assert str(warning.message) == f"table property {name} is unknown and changes nothing{hint}"
    assert warning.filename == __file__
    assert table.properties == {name: "true"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.append({"id": [2]})  # what the table says already is said once
        table.set_properties({"mine": "1"})


def test_an_unknown_property_is_a_warning_at_creation_and_as_a_default() -> None:
    with pytest.warns(errors.UnknownPropertyWarning, match="delta.apendOnly"):
        dn.create(MemoryStore(), {"id": [1]}, properties={"delta.apendOnly": True})
    with pytest.warns(errors.UnknownPropertyWarning, match="delta.apendOnly"), \
            dn.set_options(default_table_properties={"delta.apendOnly": True}):
        pass


@pytest.mark.parametrize("name", [
    "delta.autoOptimize.optimizeWrite", "delta.tuneFileSizesForRewrites", "DELTA.APPENDONLY", "mine",
    "delta.universalFormat.enabledFormats",
])
def test_what_others_act_on_is_no_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dn.create(MemoryStore(), {"id": [1]}, properties={name: "false"})


@pytest.mark.parametrize(("names", "match"), [
    ([], "no property is named"), ("mine", "mine is not set"),
    ("delta.feature.deletionVectors", r'drop_feature\("deletionVectors"\)'),
    (MODE, "cannot go from name to none"),
    ("delta.columnMapping.maxColumnId", "maintained by the table"),
    ("delta.constraints.c", "drop_constraint"),
])
def test_properties_that_cannot_be_unset(names: Any, match: str) -> None:
    table = table_of({"id": [1]}, properties={MODE: "name"})
    table.add_constraint("c", "id > 0")
    refuses(table, InvalidArgument, match, "unset_properties", names)


def test_the_protocol_follows_the_properties() -> None:
    table = table_of({"id": [1]})
    table.set_properties({"delta.enableChangeDataFeed": True})
    assert table.protocol.supports("changeDataFeed") and not table.protocol.supports("deletionVectors")
    table.set_properties({"delta.enableDeletionVectors": True,
                          "delta.feature.vacuumProtocolCheck": "supported"})
    assert table.protocol.reader_features == ("deletionVectors", "vacuumProtocolCheck")
    assert "delta.feature.vacuumProtocolCheck" not in table.properties
    table.set_properties({"delta.minReaderVersion": 3, "delta.minWriterVersion": 7})
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (3, 7)
    assert "delta.minReaderVersion" not in table.properties


def test_the_feeds_own_columns_cannot_be_there() -> None:
    refuses(table_of({"_change_type": ["x"]}), InvalidSchema, "_change_type",
            "set_properties", {"delta.enableChangeDataFeed": True})


# --- column mapping -------------------------------------------------------------------------------

def test_column_mapping_begins_with_the_names_in_the_files(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "s": pa.array([{"x": 1}, {"x": 2}]), "p": ["a", "b"]})
    table = dn.create(tmp_path / "t", data, ["p"])
    table.set_properties({MODE: "name"})
    assert table.properties == {MODE: "name", "delta.columnMapping.maxColumnId": "4"}
    physical = [f.metadata["delta.columnMapping.physicalName"] for f in table.schema]
    assert physical == ["id", "s", "p"]
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (2, 7)
    assert table.protocol.writer_features == ("appendOnly", "invariants", "columnMapping")
    table.append(data)
    assert table.to_arrow(where="p = 'a'").num_rows == 2
    assert sorted(table.to_arrow(columns=["s"]).to_pylist(), key=str) == [
        {"s": {"x": n}} for n in (1, 1, 2, 2)]
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    assert pa.table(builder.execute("select count(*) as n from t")).to_pylist() == [{"n": 4}]
    with pytest.raises(InvalidArgument, match="cannot go from name to id"):
        table.set_properties({MODE: "id"})


def test_an_append_adopts_the_mapping_that_began_meanwhile() -> None:
    table = table_of({"id": [1]})
    txn = table.start_transaction()
    added = txn.write_files({"id": [2]})
    table.set_properties({MODE: "name"})
    assert txn.commit(added, dn.Operation("WRITE", {"mode": "Append"})) == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_an_append_does_not_adopt_other_properties() -> None:
    table = table_of({"id": [1]})
    txn = table.start_transaction()
    added = txn.write_files({"id": [2]})
    table.set_properties({"mine": "x"})
    with pytest.raises(MetadataChangedException):
        txn.commit(added, dn.Operation("WRITE", {"mode": "Append"}))
    txn.discard_written()


def test_a_schema_with_a_foreign_mapping_cannot_begin_one() -> None:
    field = {"name": "id", "type": "long", "nullable": True,
             "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}}
    builder = TableBuilder(MemoryStore()).create("id long")
    metadata = builder.log.update().metadata
    txn = builder.log.start_transaction()
    txn.commit([metadata.replace(schema_string=json.dumps({"type": "struct", "fields": [field]}))])
    refuses(DeltaTable(builder.log), InvalidArgument, "another table", "set_properties", {MODE: "name"})


# --- row tracking ---------------------------------------------------------------------------------

def ids(table: DeltaTable) -> list[tuple[int, int]]:
    files = table.snapshot.select_files(["base_row_id", "default_row_commit_version"]).to_pylist()
    return sorted((f["base_row_id"], f["default_row_commit_version"]) for f in files)


def test_row_tracking_is_filled_in_before_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltanb.commands.define import row_tracking

    monkeypatch.setattr(row_tracking, "MAX_FILES_PER_COMMIT", 2)
    table = table_of({"id": [1, 2]})
    for n in range(2):
        table.append({"id": [n]})
    assert table.set_properties({"delta.enableRowTracking": True}) == 6
    operations = [(e.operation, e.operation_parameters.get("batchId")) for e in table.history()[:4]]
    assert operations == [("SET TBLPROPERTIES", None), ("ROW TRACKING BACKFILL", "1"),
                     ("ROW TRACKING BACKFILL", "0"), ("UPGRADE PROTOCOL", None)]
    bases = [base for base, _ in ids(table)]
    assert len(set(bases)) == 3 and min(bases) == 0 and max(bases) <= 3
    assert {version for _, version in ids(table)} == {4, 5}
    mark = json.loads(table.snapshot.domain_metadata["delta.rowTracking"].configuration)
    assert mark == {"rowIdHighWaterMark": 3}
    for key in ("RowId", "RowCommitVersion"):
        assert f"delta.rowTracking.materialized{key}ColumnName" in table.properties
    info = next(a for a in table.log.read_commit(6) if isinstance(a, CommitInfo))
    assert info.tags == {"rowTrackingEnablementOnly": "true"}
    backfilled = [a for v in (4, 5) for a in table.log.read_commit(v) if isinstance(a, AddFile)]
    assert len(backfilled) == 3 and not any(a.data_change for a in backfilled)
    table.append({"id": [9]})
    assert ids(table)[-1] == (4, 7) and table.to_arrow().num_rows == 5
    assert table.set_properties({"delta.enableRowTracking": True, "x": 1}) == 8  # nothing to fill in


def test_row_tracking_on_an_empty_table_needs_no_backfill() -> None:
    table = table_of("id long")
    table.set_properties({"delta.enableRowTracking": True})
    assert [e.operation for e in table.history()][:2] == ["SET TBLPROPERTIES", "UPGRADE PROTOCOL"]


def test_files_without_a_count_refuse_before_anything_is_committed() -> None:
    builder = TableBuilder(MemoryStore()).create("id long").commit(
        add("a"), add("b", stats='{"numRecords":1}'))
    table = DeltaTable(builder.log)
    error = refuses(table, RowIdAssignmentWithoutStats, "numRecords", "set_properties",
                    {"delta.enableRowTracking": True})
    assert error.path == "a"


def test_a_bad_property_refuses_before_the_backfill() -> None:
    table = table_of({"id": [1]})
    refuses(table, InvalidArgument, "cannot go from none to id", "set_properties",
            {"delta.enableRowTracking": True, MODE: "id"})


def test_an_append_beside_the_backfill_has_ids_of_its_own() -> None:
    table = table_of({"id": [1, 2]})
    txn = table.start_transaction()
    added = txn.write_files({"id": [3]})
    table.set_properties({"delta.enableRowTracking": True})
    txn.commit(added, dn.Operation("WRITE", {"mode": "Append"}))
    assert [base for base, _ in ids(table)] == [0, 2] and ids(table)[1][1] == table.version


def test_a_row_deleted_beside_the_backfill_stays_deleted() -> None:
    from deltanb.commands.define.row_tracking import BACKFILL, Operation

    table = table_of({"id": [1], "p": [1]}, ["p"])
    table.append({"id": [2], "p": [2]})
    table.add_feature("rowTracking")
    txn = table.start_transaction()
    files = [file.replace(data_change=False) for file in txn.filter_files()]
    table.overwrite({"id": [3], "p": [2]}, where="p = 2")
    txn.commit(files, Operation(BACKFILL, {"batchId": 0}))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3]
    assert len({base for base, _ in ids(table)}) == 2


def test_suspended_row_tracking_gives_no_ids() -> None:
    table = table_of({"id": [1]}, properties={"delta.enableRowTracking": True})
    table.set_properties({"delta.enableRowTracking": False, "delta.rowTrackingSuspended": True})
    table.append({"id": [2]})
    base_ids = table.snapshot.select_files(["base_row_id"])["base_row_id"].to_pylist()
    assert sorted(base_ids, key=str) == [0, None]
    refuses(table, InvalidArgument, "rowTrackingSuspended", "set_properties",
            {"delta.enableRowTracking": True, "delta.rowTrackingSuspended": False})
    table.set_properties({"delta.rowTrackingSuspended": False})
    table.set_properties({"delta.enableRowTracking": True})
    assert sorted(base for base, _ in ids(table)) == [0, 1]


# --- in-commit timestamps -------------------------------------------------------------------------

def test_in_commit_timestamps_begin_after_the_commit_before() -> None:
    now = [1_700_000_000_000]
    set_options(clock=lambda: now[0])
    table = table_of({"id": [1]})
    table.append({"id": [2]})
    now[0] -= 60_000  # the clock of this writer is behind
    version = table.set_properties({"delta.enableInCommitTimestamps": True})
    info = table.log.read_commit(version)[0]
    assert isinstance(info, CommitInfo) and info.in_commit_timestamp == 1_700_000_000_001
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert table.properties["delta.inCommitTimestampEnablementTimestamp"] == "1700000000001"
    table.append({"id": [3]})
    later = table.log.read_commit(3)[0]
    assert isinstance(later, CommitInfo) and later.in_commit_timestamp == 1_700_000_000_002
    assert table.as_of("2023-11-14T22:13:20.001Z").version == 2
