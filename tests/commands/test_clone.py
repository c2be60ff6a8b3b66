"""CLONE: a table of its own, over files of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import DomainMetadata
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import (
    ConcurrentWriteException,
    DataFileNotFound,
    InvalidArgument,
    TableAlreadyExists,
)
from deltanb.store.local import LocalStore
from deltanb.table.entry import create
from deltanb.testing import Lose, ScriptedStore, add
from tests.helpers import rows


def parquet_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts]


def test_a_clone_has_the_rows_and_goes_its_own_way(tmp_path: Path) -> None:
    table = create(tmp_path / "a b", {"id": [1, 2], "p": ["x y", "ü%"]}, "p", {
        "delta.checkpointInterval": 3}, description="ducks")
    copy = table.clone(tmp_path / "c")
    assert rows(copy) == rows(table) and copy.version == 0
    assert parquet_in(tmp_path / "c") == []
    assert copy.metadata.id != table.metadata.id
    assert (copy.schema, copy.partition_columns, copy.metadata.description, dict(copy.properties)) == (
        table.schema, ("p",), "ducks", {"delta.checkpointInterval": "3"})
    copy.append({"id": [3], "p": ["x y"]})
    copy.overwrite({"id": [9], "p": ["ü%"]}, where="p = 'ü%'")
    assert [row["id"] for row in rows(copy)] == [1, 3, 9]
    assert [row["id"] for row in rows(table)] == [1, 2] and table.version == 0
    assert len(parquet_in(tmp_path / "a b")) == 2


def test_the_record(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    table.append({"id": [2]})
    copy = table.clone(tmp_path / "b")
    entry = copy.history(1)[0]
    assert (entry.operation, entry.operation_parameters) == (
        "CLONE", {"source": table.path, "sourceVersion": 1})
    assert entry.operation_metrics == {
        "sourceTableSize": str(table.snapshot.size_in_bytes), "sourceNumOfFiles": "2",
        "numRemovedFiles": "0", "numCopiedFiles": "0", "removedFilesSize": "0", "copiedFilesSize": "0"}


def test_an_old_version(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    table.overwrite({"id": [2]})
    assert rows(table.clone(tmp_path / "b", 0)) == [{"id": 1}]
    assert rows(table.as_of(0).clone(tmp_path / "c")) == [{"id": 1}]
    assert rows(table.clone(tmp_path / "b2").clone(tmp_path / "d")) == [{"id": 2}]


def test_deletion_vectors_go_along(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": True})
    for make in (lambda rows: deletion_vectors.write_file(table.log.store, [rows])[0],
                 deletion_vectors.inline):
        txn = table.start_transaction()
        (file,) = txn.filter_files()
        vector = make(BitMap64([0]))
        txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")
        copy = table.clone(tmp_path / f"copy{table.version}")
        assert rows(copy) == [{"id": 2}, {"id": 3}] and copy.protocol == table.protocol
        copy.purge()
        assert rows(copy) == [{"id": 2}, {"id": 3}] and rows(table) == rows(copy)


def test_row_ids_and_domains_go_along(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1, 2]}, properties={
        "delta.enableRowTracking": True, "delta.feature.clustering": "supported",
        "delta.enableInCommitTimestamps": True})
    table.start_transaction().commit([DomainMetadata("delta.clustering", '{"clusteringColumns":[["id"]]}')])
    copy = table.clone(tmp_path / "b")
    assert copy.detail()["clusteringColumns"] == ["id"]
    copy.append({"id": [3]})
    bases = sorted(copy.snapshot.files["base_row_id"].to_pylist())
    assert bases == [0, 2]
    mark = json.loads(copy.snapshot.domain_metadata["delta.rowTracking"].configuration)
    assert mark == {"rowIdHighWaterMark": 2}
    assert "delta.inCommitTimestampEnablementVersion" not in copy.properties


def test_column_mapping_goes_along(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1], "a b": [2]}, properties={
        "delta.columnMapping.mode": "name"})
    copy = table.clone(tmp_path / "b")
    copy.append({"id": [2], "a b": [3]})
    assert rows(copy) == [{"id": 1, "a b": 2}, {"id": 2, "a b": 3}]


def test_where_a_table_is_already(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    other = create(tmp_path / "b", {"x": ["old"], "y": [1]}, "y")
    before = other.metadata
    with pytest.raises(TableAlreadyExists, match="overwrite"):
        table.clone(tmp_path / "b")
    assert other.version == 0
    copy = table.clone(tmp_path / "b", mode="overwrite")
    assert rows(copy) == [{"id": 1}] and copy.version == 1 and copy.metadata.id == before.id
    assert copy.history(1)[0].operation_metrics["numRemovedFiles"] == "1"
    assert copy.as_of(0).to_arrow().to_pylist() == [{"x": "old", "y": 1}]


def test_what_makes_no_sense(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    with pytest.raises(InvalidArgument, match=r"restore\(version\)"):
        table.clone(tmp_path / "a", 0)
    with pytest.raises(InvalidArgument, match="deep"):
        table.clone(tmp_path / "b", mode="deep")
    assert not (tmp_path / "b").exists()


def test_a_version_that_is_taken_fails_it(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    other = create(tmp_path / "b", {"id": [2]})
    store = ScriptedStore(LocalStore(tmp_path / "b"), [Lose((add("rival"),))])
    with pytest.raises(ConcurrentWriteException):
        table.clone(store, mode="overwrite")
    assert other.version == 1 and other.snapshot.num_files == 2


def test_vacuum_leaves_the_sources_files_alone(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"id": [1]})
    copy = table.clone(tmp_path / "b")
    copy.overwrite({"id": [2]})
    for lite in (True, False):
        assert copy.vacuum(0, lite=lite, check=False).num_files == 0
    assert rows(table) == [{"id": 1}] and rows(copy.as_of(0)) == [{"id": 1}]
    table.overwrite({"id": [3]})
    table.vacuum(0, check=False)
    with pytest.raises(DataFileNotFound):
        copy.as_of(0).to_arrow()


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_a_clone(tmp_path: Path, spark: Any) -> None:
    table = create(tmp_path / "a b", {"id": [1, 2], "p": ["x y", "z"]}, "p")
    copy = dn.open(table.clone(tmp_path / "c").path)
    spark_rows = copy.to_df(spark).collect()
    assert sorted((row["id"], row["p"]) for row in spark_rows) == [(1, "x y"), (2, "z")]
