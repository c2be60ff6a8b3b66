"""GENERATE, ANALYZE and DETAIL; and all commands of upkeep on handles that cannot write."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from deltanb.actions import AddFile, DomainMetadata
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import (
    ConcurrentDeleteReadException,
    DataFileNotFound,
    IllegalStateError,
    InvalidArgument,
    UnsupportedProtocol,
)
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, remove
from tests.helpers import refused


def stats_of(table: DeltaTable) -> list[dict[str, Any]]:
    return [json.loads(text) for text in table.snapshot.files["stats"].to_pylist()]


def without_stats(table: DeltaTable) -> DeltaTable:
    txn = table.start_transaction()
    txn.commit([f.replace(stats=json.dumps({"numRecords": f.num_records}), data_change=False)
                for f in txn.filter_files()])
    return table


# --- generate -------------------------------------------------------------------------------------

def manifests(root: Path) -> dict[str, list[str]]:
    folder = root / "_symlink_format_manifest"
    return {path.relative_to(folder).as_posix(): path.read_text().splitlines()
            for path in folder.rglob("manifest")}


def test_a_manifest_a_partition(tmp_path: Path) -> None:
    table = create(tmp_path, {"id": [1, 2], "p": ["a b", "c"]}, "p")
    table.append({"id": [3], "p": ["c"]})
    table.generate("symlink_format_manifest")
    by_partition = manifests(tmp_path)
    assert set(by_partition) == {"p=a b/manifest", "p=c/manifest"}
    listed = [pq.read_table(path, partitioning=None)["id"].to_pylist() for path
              in by_partition["p=c/manifest"]]
    assert sorted(listed) == [[2], [3]]
    table.overwrite({"id": [4], "p": ["c"]})
    table.generate()
    assert set(manifests(tmp_path)) == {"p=c/manifest"}
    assert len(manifests(tmp_path)["p=c/manifest"]) == 1


def test_a_manifest_of_a_table_without_partitions(tmp_path: Path) -> None:
    table = create(tmp_path, {"id": [1]})
    table.generate()
    assert len(manifests(tmp_path)["manifest"]) == 1
    table.as_of(0).generate()
    assert len(manifests(tmp_path)["manifest"]) == 1


def test_what_cannot_be_generated() -> None:
    table = create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
    refused(table, InvalidArgument, lambda: table.generate("iceberg"))
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.remove(), file.with_deletion_vector(deletion_vectors.inline(BitMap64([0])))])
    refused(table, UnsupportedProtocol, table.generate)
    table.purge()
    table.generate()


# --- analyze --------------------------------------------------------------------------------------

def test_statistics_are_taken_anew() -> None:
    table = create(MemoryStore(), {"id": [1, 2], "s": [{"x": "a"}, None], "p": [1, 2]}, "p")
    table.append({"id": [3], "s": [{"x": "é"}], "p": [1]})
    expected, paths = stats_of(table), table.snapshot.files["path"]
    assert table.analyze().version is None
    without_stats(table)
    result = table.analyze()
    assert (result.operation, result.version, result.metrics) == ("COMPUTE STATS", 3, {"numFiles": 3})
    by_path = dict(zip(table.snapshot.files["path"].to_pylist(), stats_of(table), strict=True))
    assert [by_path[path] for path in paths.to_pylist()] == expected
    assert not any(a.data_change for a in table.log.read_commit(3) if isinstance(a, AddFile))
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters) == ("COMPUTE STATS", {"predicate": "[]"})
    assert entry.isolation_level == "SnapshotIsolation"


@pytest.mark.parametrize("mode", ["none", "name"])
def test_further_columns(mode: str) -> None:
    table = create(MemoryStore(), {"a": [1], "b": [2], "s": [{"x": 3, "y": 4}]}, properties={
        "delta.dataSkippingNumIndexedCols": 1, "delta.columnMapping.mode": mode})
    table.analyze(["B", "s.X"])
    assert table.snapshot.files_for_scan("b = 9").num_rows == 0
    assert table.snapshot.files_for_scan("s.x = 9").num_rows == 0
    assert table.snapshot.files_for_scan("s.y = 9").num_rows == 1
    refused(table, InvalidArgument, lambda: table.analyze(["nowhere"]))


def test_clustering_columns_are_described() -> None:
    table = create(MemoryStore(), {"a": [1], "b": [2]}, properties={
        "delta.dataSkippingNumIndexedCols": 1, "delta.feature.clustering": "supported"})
    table.start_transaction().commit([DomainMetadata("delta.clustering", '{"clusteringColumns":[["b"]]}')])
    table.analyze()
    assert stats_of(table)[0]["minValues"] == {"a": 1, "b": 2}


def test_hidden_rows_make_bounds_wide() -> None:
    table = create(MemoryStore(), {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": True})
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    vector = deletion_vectors.inline(BitMap64([2]))
    txn.commit([file.remove(), file.replace(deletion_vector=vector, stats='{"numRecords":3}')])
    table.analyze()
    assert stats_of(table) == [{"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3},
                                "nullCount": {"id": 0}, "tightBounds": False}]
    assert table.to_arrow()["id"].to_pylist() == [1, 2] and table.snapshot.num_files == 1


def test_a_file_removed_meanwhile_does_not_come_back() -> None:
    store = ScriptedStore()
    table = without_stats(create(store, {"id": [1]}))
    store.script.append(Lose((remove(table.snapshot.files["path"][0].as_py()),)))
    with pytest.raises(ConcurrentDeleteReadException):
        table.analyze()
    assert table.snapshot.num_files == 0


def test_a_file_that_is_gone() -> None:
    table = create(MemoryStore(), {"id": [1]})
    (path,) = table.snapshot.files["path"].to_pylist()
    table.log.store.delete(path)
    assert path in refused(table, DataFileNotFound, table.analyze).message


# --- detail ---------------------------------------------------------------------------------------

def test_detail() -> None:
    table = create(MemoryStore(), {"id": [1], "p": ["a"]}, "p", {"delta.enableDeletionVectors": True},
                   name="ducks", description="three nephews")
    table.append({"id": [2], "p": ["b"]})
    detail = table.detail()
    assert list(detail) == [
        "format", "id", "name", "description", "location", "createdAt", "lastModified",
        "partitionColumns", "clusteringColumns", "numFiles", "sizeInBytes", "properties",
        "minReaderVersion", "minWriterVersion", "tableFeatures"]
    for time in ("createdAt", "lastModified"):
        assert isinstance(detail.pop(time), datetime)
    size = detail.pop("sizeInBytes")
    assert size == sum(table.snapshot.files["size"].to_pylist())
    assert detail == {
        "format": "delta", "id": table.metadata.id, "name": "ducks", "description": "three nephews",
        "location": table.path, "partitionColumns": ["p"], "clusteringColumns": [], "numFiles": 2,
        "properties": {"delta.enableDeletionVectors": "true"}, "minReaderVersion": 3,
        "minWriterVersion": 7, "tableFeatures": ["appendOnly", "deletionVectors", "invariants"]}
    assert table.as_of(0).detail()["numFiles"] == 1
    assert pa.Table.from_pylist([table.detail()]).num_rows == 1


# --- tables that stand still ----------------------------------------------------------------------

@pytest.mark.parametrize("work", [
    lambda t: t.optimize(), lambda t: t.purge(), lambda t: t.vacuum(), lambda t: t.restore(0),
    lambda t: t.analyze(),
], ids=["optimize", "purge", "vacuum", "restore", "analyze"])
def test_an_old_version_is_not_changed(work: Callable[[DeltaTable], Any]) -> None:
    table = create(MemoryStore(), {"id": [1]})
    refused(table, IllegalStateError, lambda: work(table.as_of(0)))
