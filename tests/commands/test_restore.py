"""RESTORE: the state of an older version, as a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddFile, DomainMetadata, RemoveFile
from deltanb.commands.upkeep.restore import restore
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentWriteException,
    DataFileNotFound,
    IllegalStateError,
    InvalidArgument,
    TableNotFound,
    VersionNotFound,
)
from deltanb.options import options
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, add
from tests.helpers import files_of, ids, refused


def grown(where: Any, **settings: Any) -> DeltaTable:
    """Versions 0 to 2 with one, two, and again two rows, of which one is new."""
    table = create(where, {"id": [1]}, **settings)
    table.append({"id": [2]})
    txn = table.start_transaction()
    first = next(f for f in txn.filter_files() if f.path == table.as_of(0).snapshot.files["path"][0].as_py())
    txn.commit([first.remove(), *txn.write_files({"id": [3]})], "WRITE")
    return table


def test_the_rows_of_a_version_come_back() -> None:
    table = grown(MemoryStore())
    before = files_of(table)
    sizes = {v: table.as_of(v).snapshot.size_in_bytes for v in range(3)}
    result = table.restore(1)
    assert (result.operation, result.version, result.engine) == ("RESTORE", 3, "log")
    assert ids(table) == [1, 2] and files_of(table) == before
    actions = table.log.read_commit(3)
    assert all(a.data_change for a in actions if isinstance(a, AddFile | RemoveFile))
    entry = table.history(1)[0]
    assert entry.operation_parameters == {"version": 1, "timestamp": None}
    assert list(entry.operation_metrics) == [
        "tableSizeAfterRestore", "numOfFilesAfterRestore", "numRemovedFiles", "numRestoredFiles",
        "removedFilesSize", "restoredFilesSize"]
    assert result.metrics["tableSizeAfterRestore"] == sizes[1] == table.snapshot.size_in_bytes
    assert (result.metrics["numRemovedFiles"], result.metrics["numRestoredFiles"]) == (1, 1)
    assert result.metrics["numOfFilesAfterRestore"] == 2
    assert ids(table.as_of(2)) == [2, 3]
    assert table.log.store.status("_delta_log/_last_checkpoint") is not None
    table.restore(2)
    assert ids(table) == [2, 3]


def test_by_time() -> None:
    now = [1_700_000_000_000]
    options.clock = lambda: now[0]
    table = create(MemoryStore(), {"id": [1]})
    now[0] += 3_600_000
    table.append({"id": [2]})
    table.restore("2023-11-14T22:30:00Z")
    assert ids(table) == [1]
    assert table.history(1)[0].operation_parameters == {
        "version": None, "timestamp": "2023-11-14T22:30:00Z"}


def test_schema_partitioning_and_properties_come_back() -> None:
    table = create(MemoryStore(), {"id": [1], "p": ["a"]}, "p", {"delta.checkpointInterval": 5})
    table.overwrite({"id": [1.5], "q": [True]}, overwrite_schema=True, partition_by=["q"])
    txn = table.start_transaction()
    txn.update_metadata(txn.metadata.replace(configuration={"mine": "yes"}, description="new"))
    txn.commit([], "SET TBLPROPERTIES")
    first = table.as_of(0).metadata
    table.restore(0)
    assert table.metadata == first
    assert table.to_arrow().to_pylist() == [{"id": 1, "p": "a"}]


def test_the_protocol_stays_up() -> None:
    table = create(MemoryStore(), {"id": [1]})
    txn = table.start_transaction()
    txn.update_metadata(txn.metadata.replace(configuration={"delta.enableDeletionVectors": "true"}))
    txn.commit([], "SET TBLPROPERTIES")
    protocol = table.protocol
    assert protocol.supports("deletionVectors")
    table.restore(0)
    assert table.protocol == protocol and dict(table.properties) == {}


def test_column_ids_are_never_given_twice() -> None:
    table = create(MemoryStore(), {"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    table.append({"id": [2], "x": [1]}, merge_schema=True)
    table.restore(0)
    table.append({"id": [3], "y": ["new"]}, merge_schema=True)
    assert table.schema.field("y").metadata["delta.columnMapping.id"] == 3
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "y": None}, {"id": 3, "y": "new"}]


def test_in_commit_timestamps_stay_on() -> None:
    table = create(MemoryStore(), {"id": [1]})
    txn = table.start_transaction()
    txn.update_metadata(txn.metadata.replace(configuration={"delta.enableInCommitTimestamps": "true"}))
    txn.commit([], "SET TBLPROPERTIES")
    stamps = dict(table.properties)
    table.append({"id": [2]})
    table.restore(0)
    assert dict(table.properties) == stamps and "inCommitTimestamp" in (
        table.log.store.read(f"_delta_log/{3:020}.json").decode())


def test_what_is_so_already_commits_nothing() -> None:
    table = grown(MemoryStore())
    result = table.restore(2)
    assert (result.version, table.version) == (None, 2)
    assert result.metrics["numRemovedFiles"] == result.metrics["numRestoredFiles"] == 0
    assert "nothing committed" in str(result)
    table.restore(1)
    assert table.restore(1).version is None and table.version == 3


def test_deleted_rows_come_back() -> None:
    table = create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    vector = deletion_vectors.inline(BitMap64([0]))
    txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")
    assert ids(table) == [2]
    table.restore(0)
    assert ids(table) == [1, 2]
    table.restore(1)
    assert ids(table) == [2]


def test_rows_have_their_old_ids() -> None:
    table = grown(MemoryStore(), properties={"delta.enableRowTracking": True})
    expected = {f["path"]: (f["base_row_id"], f["default_row_commit_version"])
              for f in table.as_of(1).snapshot.files.to_pylist()}
    mark = table.snapshot.domain_metadata["delta.rowTracking"]
    table.restore(1)
    assert expected == {f["path"]: (f["base_row_id"], f["default_row_commit_version"])
                      for f in table.snapshot.files.to_pylist()}
    assert table.snapshot.domain_metadata["delta.rowTracking"] == mark


def test_domains_come_back() -> None:
    table = create(MemoryStore(), {"id": [1]}, properties={"delta.feature.domainMetadata": "supported"})
    table.start_transaction().commit([DomainMetadata("a", "1"), DomainMetadata("b", "1")])
    table.start_transaction().commit(
        [DomainMetadata("a", "2"), DomainMetadata("b", "1", removed=True), DomainMetadata("c", "1")])
    table.restore(1)
    assert {n: d.configuration for n, d in table.snapshot.domain_metadata.items()} == {"a": "1", "b": "1"}


def test_files_that_are_gone_are_counted_and_named_for_programs() -> None:
    table = grown(MemoryStore())
    (gone,) = set(table.as_of(1).snapshot.files["path"].to_pylist()) - set(
        table.snapshot.files["path"].to_pylist())
    table.vacuum(0, check=False)
    error = refused(table, DataFileNotFound, lambda: table.restore(1))
    assert "1 of its 2 data files is gone" in error.message and gone not in error.message
    assert "ignore_missing_files=True" in error.message and "table.versions()" in error.message
    assert error.files == (gone,)
    result = table.restore(1, ignore_missing_files=True)
    assert ids(table) == [2]
    assert result.metrics["numOfFilesAfterRestore"] == table.snapshot.num_files == 1
    assert result.metrics["tableSizeAfterRestore"] == table.snapshot.size_in_bytes


def test_files_are_told_by_their_number_alone() -> None:
    table = create(MemoryStore(), {"id": list(range(7)), "n": [0] * 7}, partition_by="id")
    table.delete("id < 6")
    table.vacuum(0, check=False)
    error = refused(table, DataFileNotFound, lambda: table.restore(0))
    assert "6 of its 7 data files are gone" in error.message and ".parquet" not in error.message
    table.delete()
    table.vacuum(0, check=False)
    assert "all of its 7 data files are gone" in refused(
        table, DataFileNotFound, lambda: table.restore(0)).message


def test_vectors_that_are_gone_are_named() -> None:
    table = create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    (vector,) = deletion_vectors.write_file(table.log.store, [BitMap64([0])])
    txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")
    table.restore(0)
    table.log.store.delete(deletion_vectors.relative_path(vector.path_or_inline_dv))
    (name,) = refused(table, DataFileNotFound, lambda: table.restore(1)).files
    assert "deletion_vector_" in name


def test_what_cannot_be_restored(tmp_path: Path) -> None:
    table = grown(MemoryStore())
    refused(table, VersionNotFound, lambda: table.restore(9))
    refused(table, VersionNotFound, lambda: table.restore("1999-01-01"))
    for wrong in (True, 1.5, None):
        refused(table, InvalidArgument, lambda wrong=wrong: table.restore(wrong))
    with pytest.raises(IllegalStateError):
        table.as_of(1).restore(0)
    with pytest.raises(TableNotFound):
        restore(dn.DeltaLog.for_table(tmp_path), 0)
    locked = create(MemoryStore(), {"id": [1]}, properties={"delta.appendOnly": True})
    locked.append({"id": [2]})
    refused(locked, AppendOnlyTable, lambda: locked.restore(0))


def test_a_version_that_is_taken_fails_it() -> None:
    store = ScriptedStore()
    table = grown(store)
    store.script.append(Lose((add("rival"),)))
    with pytest.raises(ConcurrentWriteException):
        table.restore(0)
    assert table.version == 3 and table.snapshot.num_files == 3


def test_a_peer_reads_it_and_goes_on(tmp_path: Path) -> None:
    table = grown(tmp_path)
    table.restore(1)
    peer = deltalake.DeltaTable(tmp_path)
    assert sorted(peer.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    peer.restore(2)
    assert ids(table) == [2, 3] and table.version == 4
    assert json.loads(table.log.store.read(f"_delta_log/{4:020}.json").splitlines()[-1]) is not None
