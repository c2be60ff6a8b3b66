"""ADD FEATURE, DROP FEATURE, protocol upgrades and CLUSTER BY."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddFile, DeletionVector, DomainMetadata, RemoveFile
from deltanb.commands.define.drop_feature import droppable
from deltanb.engines.arrow.deletion_vectors import inline
from deltanb.errors import (
    ConcurrentTransactionException,
    DeltaError,
    FeatureDropConflict,
    IllegalStateError,
    InvalidArgument,
    InvalidSchema,
    ProtocolChangedException,
    UnsupportedProtocol,
    VersionNotFound,
)
from deltanb.options import set_options
from deltanb.schema.features import FEATURES
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, add
from tests.helpers import last_operation, refuses, table_of

DAY = 86_400_000
START = 1_700_000_000_000


def operations(table: DeltaTable, count: int) -> list[str]:
    return [entry.operation for entry in table.history(count)]


# --- add and upgrade ------------------------------------------------------------------------------

def test_a_feature_is_added_with_those_it_requires(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    assert table.add_feature("VacuumProtocolCheck") == 1
    operation, parameters = last_operation(table)
    assert operation == "UPGRADE PROTOCOL" and json.loads(parameters["newProtocol"]) == {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["vacuumProtocolCheck"],
        "writerFeatures": ["appendOnly", "invariants", "vacuumProtocolCheck"]}
    table.add_feature(["rowTracking", "delta.feature.deletionVectors"])
    assert {"rowTracking", "domainMetadata", "deletionVectors"} <= set(
        table.protocol.writer_features or ())
    assert table.add_feature("rowTracking").version is None and table.version == 2
    table.append({"id": [2]})
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize(("names", "error", "match"), [
    ("vacuumProtocolChek", UnsupportedProtocol, "did you mean vacuumProtocolCheck"),
    ("nothing", UnsupportedProtocol, "no table feature nothing"),
    ("catalogManaged", UnsupportedProtocol, "catalogManaged"),
    ("adaptiveMetadata", UnsupportedProtocol, "adaptiveMetadata"),
    ("redirectWriterOnly-preview", UnsupportedProtocol, "redirectWriterOnly-preview"),
    ("clustering", InvalidArgument, "cluster_by"), ([], InvalidArgument, "no feature is named"),
])
def test_features_that_cannot_be_added(names: Any, error: type[DeltaError], match: str) -> None:
    refuses(table_of({"id": [1]}), error, match, "add_feature", names)


def test_the_protocol_is_upgraded_by_version() -> None:
    table = table_of({"id": [1]})
    assert table.upgrade_protocol(1, 4) == 1
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 4)
    assert table.upgrade_protocol(1, 4).version is None
    table.upgrade_protocol(3, 7)
    assert table.protocol.reader_features == ()
    assert set(table.protocol.writer_features or ()) == {
        "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
    assert operations(table, 2) == ["UPGRADE PROTOCOL"] * 2
    refuses(table, InvalidArgument, "cannot be lowered", "upgrade_protocol", 1, 4)


@pytest.mark.parametrize(("reader", "writer"), [(0, 2), (4, 7), (1, 8), (3, 6), ("1", 2), (True, 2)])
def test_versions_that_do_not_exist(reader: Any, writer: Any) -> None:
    refuses(table_of({"id": [1]}), InvalidArgument, "version", "upgrade_protocol", reader, writer)


def test_two_upgrades_cannot_both_commit() -> None:
    store = MemoryStore()
    rival = dn.create(store, {"id": [1]}).protocol.replace(min_writer_version=4)
    table = dn.open(ScriptedStore(store, [Lose((rival,))]))
    with pytest.raises(ProtocolChangedException):
        table.add_feature("deletionVectors")


# --- drop: what only writers know -----------------------------------------------------------------

def test_a_dropped_constraint_feature_leaves_a_plain_table() -> None:
    table = table_of({"id": [1]})
    table.add_constraint("c", "id > 0")
    refuses(table, InvalidArgument, r"the constraint c\. Drop it first", "drop_feature", "checkConstraints")
    table.drop_constraint("c")
    assert table.drop_feature("checkConstraints") == 3
    assert last_operation(table) == (
        "DROP FEATURE", {"featureName": "checkConstraints", "truncateHistory": False})
    assert table.protocol.to_value() == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_row_tracking_goes_with_its_ids_properties_and_mark() -> None:
    table = table_of({"id": [1, 2]}, properties={"delta.enableRowTracking": True, "mine": "x"})
    table.append({"id": [3]})
    refuses(table, InvalidArgument, "required by rowTracking", "drop_feature", "domainMetadata")
    table.drop_feature("rowTracking")
    assert operations(table, 3) == ["DROP FEATURE", "ROW TRACKING UNBACKFILL", "SET TBLPROPERTIES"]
    assert table.properties == {"mine": "x"} and table.snapshot.domain_metadata == {}
    files = table.snapshot.select_files(["base_row_id", "default_row_commit_version"]).to_pylist()
    assert files == [{"base_row_id": None, "default_row_commit_version": None}] * 2
    assert table.to_arrow().num_rows == 3
    table.drop_feature("domainMetadata")
    assert table.protocol.writer_features is None
    table.append({"id": [4]})


def test_domains_go_with_their_feature() -> None:
    table = table_of("id long")
    table.add_feature("domainMetadata")
    table.start_transaction().commit([DomainMetadata("mine", "{}")])
    table.drop_feature("domainMetadata")
    assert operations(table, 2) == ["DROP FEATURE", "DOMAIN METADATA CLEANUP"]
    assert table.snapshot.domain_metadata == {}


def test_in_commit_timestamps_end() -> None:
    table = table_of({"id": [1]})
    table.set_properties({"delta.enableInCommitTimestamps": True})
    table.append({"id": [2]})
    table.drop_feature("inCommitTimestamp")
    assert operations(table, 2) == ["DROP FEATURE", "UNSET TBLPROPERTIES"] and table.properties == {}
    assert [e.version for e in table.history()] == [4, 3, 2, 1, 0]
    table.append({"id": [3]})


# --- drop: what readers know ----------------------------------------------------------------------

def vectored() -> DeltaTable:
    """A table with one file of three rows, one of them deleted by a vector."""
    table = table_of({"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": True})
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.remove(), file.with_deletion_vector(inline(BitMap64([0])))],
               dn.Operation("DELETE", {"predicate": []}))
    return table


def test_a_dropped_reader_feature_is_fenced_off_by_checkpoints() -> None:
    table = vectored()
    refuses(table, InvalidArgument, r"1 file has a deletion vector.*purge\(\)",
            "drop_feature", "deletionVectors")
    table.overwrite(table.to_arrow())
    version = int(table.drop_feature("deletionVectors"))
    assert operations(table, 6) == [
        "DROP FEATURE", "Empty Commit", "Empty Commit", "Empty Commit", "UNSET TBLPROPERTIES", "WRITE"]
    assert table.properties == {"delta.requireCheckpointProtectionBeforeVersion": str(version)}
    assert table.protocol.min_reader_version == 1 and "checkpointProtection" in (
        table.protocol.writer_features or ())
    names = table.log.store.list_names("_delta_log/")
    for checkpoint in range(version - 3, version + 1):
        assert f"_delta_log/{checkpoint:020d}.checkpoint.parquet" in names
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3]
    assert table.as_of(1).to_arrow().num_rows == 2  # we know the feature: history stays readable
    table.append({"id": [4]})
    dn.DeltaLog.clear_cache()
    assert DeltaTable.for_path(table.log.store).to_arrow().num_rows == 3


def test_vector_files_are_spared_by_clients_that_do_not_know_them() -> None:
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 36, 1, 4)  # the protocol's example
    file = add("a", stats='{"numRecords":2}')
    table = table_of("id long", properties={"delta.enableDeletionVectors": True})
    table.start_transaction().commit([AddFile.from_value(file["add"])])
    txn = table.start_transaction()
    (live,) = txn.filter_files()
    txn.commit([live.remove(), live.with_deletion_vector(vector)])
    txn = table.start_transaction()
    (live,) = txn.filter_files()
    txn.commit([live.remove()])
    table.drop_feature("deletionVectors")
    version = next(e.version for e in table.history() if e.operation == "Deletion Vector Tombstones")
    (tombstone,) = [a for a in table.log.read_commit(version) if isinstance(a, RemoveFile)]
    assert tombstone.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert not tombstone.data_change


def test_features_without_traces_go_the_same_way(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]}, properties={"delta.checkpointPolicy": "v2"})
    table.add_feature("vacuumProtocolCheck")
    table.drop_feature("vacuumProtocolCheck")
    table.drop_feature("v2Checkpoint")
    assert table.properties["delta.checkpointPolicy"] == "classic"
    assert table.protocol.min_reader_version == 1
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    assert pa.table(builder.execute("select id from t")).to_pylist() == [{"id": 1}]


def test_what_only_rewriting_removes_is_refused_by_name() -> None:
    mapped = table_of({"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    refuses(mapped, InvalidArgument, "mapped names.*deltanb.create", "drop_feature", "columnMapping")
    unused = table_of({"id": [1]}, properties={"delta.enableTypeWidening": True})
    unused.drop_feature("typeWidening")
    assert unused.protocol.min_reader_version == 1


def test_type_widening_goes_when_no_file_is_narrower() -> None:
    table = table_of(pa.table({"id": pa.array([1], pa.int32()), "l": pa.array([[1]], pa.list_(pa.int32()))}),
                     properties={"delta.enableTypeWidening": True})
    table.change_column("id", type="bigint")
    table.change_column("l.element", type="bigint")
    refuses(table, InvalidArgument, r"the type of id, l was widened.*table\.overwrite", "drop_feature",
            "typeWidening")
    table.overwrite(table.to_arrow())
    table.drop_feature("typeWidening")
    assert operations(table, 6) == [
        "DROP FEATURE", *["Empty Commit"] * 3, "DROP FEATURE", "UNSET TBLPROPERTIES"]
    assert [field.metadata for field in table.schema] == [{}, {}]
    assert table.protocol.min_reader_version == 1
    assert table.to_arrow().to_pylist() == [{"id": 1, "l": [1]}]
    assert table.as_of(0).to_arrow()["id"].type == pa.int32()


@pytest.mark.parametrize(("args", "match"), [
    (("changeDataFeed",), "does not have the table feature changeDataFeed"),
    (("appendOnly",), "cannot be dropped; those that can are"),
    (("delta.appendOnly",), "is a property"), (("checkConstraints", True), "without truncate_history"),
])
def test_features_that_cannot_be_dropped(args: Any, match: str) -> None:
    table = table_of({"id": [1]})
    table.add_feature("checkConstraints")
    refuses(table, InvalidArgument, match, "drop_feature", *args)


def test_every_droppable_feature_is_one() -> None:
    assert set(droppable()) <= set(FEATURES)


@pytest.fixture
def clock() -> Iterator[list[int]]:
    now = [START]
    set_options(clock=lambda: now[0])
    yield now


def test_history_is_cut_off_in_two_steps(clock: list[int]) -> None:
    table = vectored()
    clock[0] += 1_000
    table.overwrite(table.to_arrow())
    clock[0] += 1_000
    with pytest.raises(IllegalStateError, match=r"again after 24 hours"):
        table.drop_feature("deletionVectors", truncate_history=True)
    assert table.properties == {} and table.protocol.supports("deletionVectors")
    clock[0] += DAY // 2
    with pytest.raises(IllegalStateError, match="still in its log"):
        table.drop_feature("deletionVectors", truncate_history=True)
    clock[0] += DAY
    version = table.drop_feature("deletionVectors", truncate_history=True)
    assert last_operation(table) == (
        "DROP FEATURE", {"featureName": "deletionVectors", "truncateHistory": True})
    assert table.protocol.to_value() == {"minReaderVersion": 1, "minWriterVersion": 2}
    with pytest.raises(VersionNotFound):
        table.as_of(1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3] and table.version == version


def test_the_protection_goes_when_what_it_protects_is_gone(clock: list[int]) -> None:
    table = table_of({"id": [1]}, properties={"delta.enableDeletionVectors": True})
    table.drop_feature("deletionVectors")
    refuses(table, InvalidArgument, "truncate_history=True", "drop_feature", "checkpointProtection")
    with pytest.raises(IllegalStateError, match="24 hours"):
        table.drop_feature("checkpointProtection", True)
    clock[0] += 2 * DAY
    table.append({"id": [2]})
    clock[0] += 2 * DAY
    table.drop_feature("checkpointProtection", True)
    assert table.properties == {} and table.protocol.writer_features is None
    assert table.to_arrow().num_rows == 2


def test_a_winner_that_uses_the_feature_again_ends_the_drop() -> None:
    store = MemoryStore()
    dn.create(store, {"id": [1]}, properties={"delta.feature.domainMetadata": "supported"})
    table = dn.open(ScriptedStore(store, [Lose((DomainMetadata("mine", "{}"),))]))
    with pytest.raises(FeatureDropConflict, match="domainMetadata cannot be dropped"):
        table.drop_feature("domainMetadata")
    assert table.protocol.supports("domainMetadata")


# --- cluster by -----------------------------------------------------------------------------------

def clustered_by(table: DeltaTable) -> Any:
    return json.loads(table.snapshot.domain_metadata["delta.clustering"].configuration)["clusteringColumns"]


def test_clustering_columns_are_kept_under_physical_names() -> None:
    table = table_of(pa.table({"a b": [1], "s": pa.array([{"x": 1}]), "c": ["x"]}),
                     properties={"delta.columnMapping.mode": "name"})
    physical = [f.metadata["delta.columnMapping.physicalName"] for f in table.schema]
    assert table.cluster_by(["a b", "S.x"]) == 1
    assert last_operation(table) == (
        "CLUSTER BY", {"oldClusteringColumns": "", "newClusteringColumns": "`a b`,s.x"})
    assert clustered_by(table)[0] == [physical[0]] and clustered_by(table)[1][0] == physical[1]
    assert {"clustering", "domainMetadata"} <= set(table.protocol.writer_features or ())
    table.rename_column("a b", "a")
    with pytest.raises(InvalidArgument, match="it is a clustering column"):
        table.drop_columns("a")
    with pytest.raises(InvalidArgument, match="it is a clustering column"):
        table.drop_columns("s")
    table.cluster_by("c")
    assert last_operation(table)[1] == {"oldClusteringColumns": "a,s.x", "newClusteringColumns": "c"}
    table.drop_columns("a")
    table.cluster_by(None)
    assert clustered_by(table) == [] and last_operation(table)[1]["newClusteringColumns"] == ""
    with pytest.raises(InvalidArgument, match="cannot be dropped"):
        table.drop_feature("clustering")


def test_no_clustering_where_there_is_none() -> None:
    table = table_of({"id": [1]})
    assert table.cluster_by(None).version is None and table.version == 0


@pytest.mark.parametrize(("columns", "error", "match"), [
    (["nothing"], InvalidSchema, "no column nothing"), (["a", "A"], InvalidArgument, "named twice"),
    (["l"], InvalidArgument, "no minimum and maximum"),
    (["flag"], InvalidArgument, "no minimum and maximum"),
    (["l.element"], InvalidArgument, "a part of an array"),
    (["a", "b", "c", "d", "flag"], InvalidArgument, "at most 4"),
    (["d"], InvalidArgument, "no statistics are kept"),
])
def test_columns_that_cannot_be_clustered_by(
    columns: Any, error: type[DeltaError], match: str
) -> None:
    table = table_of({"a": [1], "b": [1], "c": [1], "flag": [True], "l": [[1]], "d": [1]},
                     properties={"delta.dataSkippingNumIndexedCols": 4})
    refuses(table, error, match, "cluster_by", columns)


def test_a_partitioned_table_is_not_clustered() -> None:
    table = table_of({"a": [1], "p": [1]}, ["p"])
    refuses(table, InvalidArgument, "partitioned by p", "cluster_by", "a")


def test_two_clusterings_cannot_both_commit() -> None:
    store = MemoryStore()
    dn.create(store, {"a": [1], "b": [1]}).cluster_by("a")
    rival = DomainMetadata("delta.clustering", '{"clusteringColumns":[["b"]]}')
    table = dn.open(ScriptedStore(store, [Lose((rival,))]))
    with pytest.raises(ConcurrentTransactionException, match=r"delta\.clustering"):
        table.cluster_by(None)
