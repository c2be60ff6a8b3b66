"""VACUUM: what a version within the retention needs stays, whatever it is; the rest goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddCDCFile, AddFile, RemoveFile, encode_path
from deltanb.commands.upkeep.vacuum import LAST_VACUUM, vacuum
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import (
    DataFileNotFound,
    IllegalStateError,
    InvalidArgument,
    StorageError,
    TableNotFound,
    UnsupportedProtocol,
    VersionNotFound,
)
from deltanb.options import options
from deltanb.store.local import LocalStore
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, Pass, ScriptedStore, TableBuilder, add
from deltanb.text import formatting as units
from tests.helpers import files_of, refused

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_700_000_000_000


class Clock:
    """Stands still until it is moved; a file gets the time at which it is written."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    options.clock = Clock()
    yield options.clock  # put back by the settings' own fixture


def live(table: DeltaTable) -> set[str]:
    return set(table.snapshot.files["path"].to_pylist())


def replaced(where: Any, **settings: Any) -> DeltaTable:
    """A table whose first rows were overwritten once."""
    table = create(where, {"id": [1, 2], "p": ["a", "b"]}, **settings)
    table.overwrite({"id": [3], "p": ["a"]})
    return table


# --- retention ------------------------------------------------------------------------------------

@pytest.mark.parametrize("lite", [False, True])
def test_removed_files_go_after_the_retention(clock: Clock, lite: bool) -> None:
    table = replaced(MemoryStore())
    before = files_of(table)
    clock.now += 7 * DAY - HOUR
    assert table.vacuum(lite=lite).num_files == 0 and files_of(table) == before
    clock.now += 2 * HOUR
    result = table.vacuum(lite=lite)
    assert (result.num_files, result.version, result.is_dry_run) == (1, 5, False)
    assert files_of(table) == live(table)
    assert table.to_arrow()["id"].to_pylist() == [3]
    assert table.vacuum(lite=lite).num_files == 0


def test_the_tables_own_retention_counts(clock: Clock) -> None:
    table = replaced(MemoryStore(), properties={
        "delta.deletedFileRetentionDuration": "interval 1 hour"})
    clock.now += HOUR // 2
    assert table.vacuum().num_files == 0
    clock.now += HOUR
    assert table.vacuum(100).num_files == 0
    assert table.vacuum(1).num_files == 1


def test_less_than_the_tables_retention_is_refused(clock: Clock) -> None:
    table = replaced(MemoryStore())
    error = refused(table, InvalidArgument, lambda: table.vacuum(1))
    assert "168" in error.message and "check=False" in error.message
    for wrong in (-1, "1", True, float("nan")):
        refused(table, InvalidArgument, lambda wrong=wrong: table.vacuum(wrong, check=False))
    assert table.vacuum(0, check=False).num_files == 1


def test_old_versions_say_what_became_of_them(clock: Clock) -> None:
    table = replaced(MemoryStore(), properties={"delta.checkpointInterval": 2})
    table.vacuum(0, check=False)
    with pytest.raises(DataFileNotFound, match=r"vacuumed.*newer version"):
        table.as_of(0).to_arrow()
    clock.now += 60 * DAY
    table.append({"id": [4], "p": ["a"]})
    table.log.checkpoint()
    table.log.clean_up()
    with pytest.raises(VersionNotFound) as caught:
        table.as_of(0)
    assert caught.value.earliest > 0


def test_a_version_that_was_current_within_the_retention_is_kept_whole(clock: Clock) -> None:
    """The file was added long ago; what counts is when it was removed."""
    table = create(MemoryStore(), {"id": [1]})
    clock.now += 100 * DAY
    table.overwrite({"id": [2]})
    clock.now += 6 * DAY
    assert table.vacuum().num_files == 0
    assert table.as_of(0).to_arrow()["id"].to_pylist() == [1]


def test_a_commit_that_took_long_counts_by_its_landing(clock: Clock) -> None:
    """Its removals bear the time at which it began."""
    table = create(MemoryStore(), {"id": [1]})
    txn = table.start_transaction()
    removed = [file.remove() for file in txn.filter_files()]
    clock.now += 10 * DAY
    txn.commit(removed, "DELETE")
    clock.now += DAY
    assert table.vacuum().num_files == 0
    clock.now += 7 * DAY
    assert table.vacuum().num_files == 1


def test_in_commit_timestamps_count_too(clock: Clock) -> None:
    store = MemoryStore()
    table = replaced(store, properties={"delta.enableInCommitTimestamps": True})
    for status in list(store.list_all("_delta_log")):  # copied by a tool that loses times
        store.set_modification_time(status.name, 1)
    for action_time in (START,):
        assert table.history(1)[0].timestamp > action_time
    clock.now += DAY
    assert table.vacuum().num_files == 0


# --- kinds of files -------------------------------------------------------------------------------

@pytest.mark.parametrize("lite", [False, True])
def test_deletion_vector_files(clock: Clock, lite: bool) -> None:
    table = create(MemoryStore(), {"id": [0, 1, 2, 3]}, properties={
        "delta.enableDeletionVectors": True})
    for rows in ([0], [0, 1]):
        txn = table.start_transaction()
        (file,) = txn.filter_files()
        (vector,) = deletion_vectors.write_file(table.log.store, [BitMap64(rows)])
        txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")
        clock.now += DAY
    assert len(files_of(table)) == 3
    assert table.vacuum(lite=lite).num_files == 0
    clock.now += 6 * DAY
    (gone,) = table.vacuum(lite=lite).files["path"].to_pylist()
    assert gone.startswith("deletion_vector_")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("lite", [False, True])
def test_change_data_files(clock: Clock, lite: bool) -> None:
    table = create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    clock.now += 7 * DAY
    table.overwrite({"id": [2]}, where="id = 2")
    (change, *_) = [a for a in table.log.read_commit(1) if isinstance(a, AddCDCFile)]
    clock.now += 6 * DAY
    assert table.vacuum(lite=lite).num_files == 0 and change.path in files_of(table)
    clock.now += 2 * DAY
    assert change.path in table.vacuum(lite=lite).files["path"].to_pylist()
    assert files_of(table) == live(table)


def test_files_of_no_commit_go_when_they_are_old(clock: Clock) -> None:
    table = create(MemoryStore(), {"id": [1]})
    table.log.store.put("abandoned.parquet", b"x")
    clock.now += 6 * DAY
    table.log.store.put("being-written.parquet", b"xyz")
    clock.now += 2 * DAY
    assert table.vacuum(lite=True).num_files == 0
    result = table.vacuum()
    assert result.files.to_pylist() == [
        {"path": "abandoned.parquet", "size": 1, "modification_time": pytest.approx(START, abs=99)}]
    assert "being-written.parquet" in files_of(table)


def test_hidden_names_are_not_the_tables(clock: Clock) -> None:
    table = replaced(MemoryStore(), properties={
        "delta.compatibility.symlinkFormatManifest.enabled": True})
    hidden = {"_symlink_format_manifest/manifest", "_SUCCESS", ".hidden/a.parquet", "p=a/_tmp",
            "_checkpoints/1", "p=a/.x.crc"}
    for name in hidden - {"_symlink_format_manifest/manifest"}:
        table.log.store.put(name, b"")
    table.log.store.put("_change_data/old.parquet", b"")
    clock.now += 8 * DAY
    assert "_change_data/old.parquet" in table.vacuum().files["path"].to_pylist()
    assert files_of(table) == hidden | live(table)


def test_a_partition_column_may_begin_with_an_underscore(clock: Clock) -> None:
    table = create(MemoryStore(), {"id": [1], "_p": ["a"]}, partition_by="_p")
    table.overwrite({"id": [2], "_p": ["a"]})
    clock.now += 8 * DAY
    assert table.vacuum().num_files == 1
    assert all(name.startswith("_p=a/") for name in files_of(table))


@pytest.mark.parametrize("lite", [False, True])
def test_names_that_are_encoded_in_the_log(clock: Clock, lite: bool) -> None:
    table = create(MemoryStore(), {"id": [1, 2], "p": ["a b%c", "ü/d"]}, partition_by="p")
    table.overwrite({"id": [3], "p": ["a b%c"]}, where="p = 'a b%c'")
    clock.now += 8 * DAY
    assert table.vacuum(lite=lite).num_files == 1
    assert {encode_path(name) for name in files_of(table)} == live(table)
    assert table.to_arrow().num_rows == 2


def test_absolute_paths(tmp_path: Path) -> None:
    """Those inside the table's folder are its files; those outside belong to another table."""
    source = create(tmp_path / "a b", {"id": [1]})
    (name,) = files_of(source)
    outside = tmp_path / "elsewhere.parquet"
    outside.write_bytes((tmp_path / "a b" / name).read_bytes())
    inside = f"file://{encode_path(str(tmp_path / 'a b' / name))}"
    txn = source.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.remove(), file.replace(path=inside), file.replace(path=str(outside))])
    assert source.vacuum(0, check=False).num_files == 0
    assert source.to_arrow()["id"].to_pylist() == [1, 1]
    source.overwrite({"id": [2]})
    assert source.vacuum(0, check=False, lite=True).files["path"].to_pylist() == [name]
    assert outside.exists()


def test_empty_folders_go(tmp_path: Path) -> None:
    table = replaced(tmp_path, partition_by="p")
    os.makedirs(tmp_path / "p=c" / "q=d")
    os.makedirs(tmp_path / "_mine")
    result = table.vacuum(0, check=False)
    assert result.num_folders == 3
    assert sorted(os.listdir(tmp_path)) == ["_delta_log", "_mine", "p=a"]


# --- what it leaves behind ------------------------------------------------------------------------

def test_the_log_says_what_was_done(clock: Clock) -> None:
    table = replaced(MemoryStore())
    size = sum(s.size for s in table.log.store.list_all("") if s.name not in live(table)
               and s.name.endswith(".parquet"))
    table.vacuum(0, check=False)
    end, start = table.history(2)
    assert (start.operation, start.operation_parameters, start.operation_metrics) == (
        "VACUUM START",
        {"retentionCheckEnabled": False, "defaultRetentionMillis": 7 * DAY,
         "specifiedRetentionMillis": 0},
        {"numFilesToDelete": "1", "sizeOfDataToDelete": str(size)})
    assert (end.operation, end.operation_parameters, end.operation_metrics) == (
        "VACUUM END", {"status": "COMPLETED"},
        {"numDeletedFiles": "1", "numVacuumedDirectories": "1"})
    table.vacuum()
    assert "specifiedRetentionMillis" not in table.history(1)[-1].operation_parameters
    note = json.loads(table.log.store.read(LAST_VACUUM))
    assert note == {"latestCommitVersionOutsideOfRetentionWindow": 1}


def test_a_dry_run_only_tells(clock: Clock) -> None:
    table = replaced(MemoryStore())
    before = files_of(table)
    result = table.vacuum(0, dry_run=True, check=False)
    assert (result.version, result.is_dry_run, result.num_files) == (None, True, 1)
    assert set(result.files["path"].to_pylist()) == before - live(table)
    assert table.version == 1 and files_of(table) == before
    assert "1 file would be deleted" in str(result) and "nothing was deleted" in str(result)
    html = result._repr_mimebundle_()["text/html"]
    assert units.shortened(result.files["path"][0].as_py()) in html


def test_a_failure_is_recorded() -> None:
    class Stubborn(MemoryStore):
        def delete(self, name: str) -> None:
            raise PermissionError(name)

    table = replaced(Stubborn())
    with pytest.raises(StorageError, match="cannot be removed.*PermissionError in Stubborn"):
        table.vacuum(0, check=False)
    assert table.history(1)[0].operation_parameters == {"status": "FAILED"}
    assert len(files_of(table)) == 2


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        vacuum(dn.DeltaLog.for_table(tmp_path))


def test_the_write_protocol_is_checked_always() -> None:
    """PROTOCOL.md, "VACUUM Protocol Check": whether the table lists that feature or not."""
    features = ["vacuumProtocolCheck", "fromTheFuture"]
    for listed in (features, features[1:]):
        builder = TableBuilder().create(protocol={
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": [n for n in listed if n == features[0]], "writerFeatures": listed})
        builder.put("old.parquet", b"")
        table = DeltaTable(builder.log)
        error = refused(table, UnsupportedProtocol, lambda table=table: table.vacuum(0, check=False))
        assert error.features == ("fromTheFuture",)
    known = replaced(MemoryStore(), properties={"delta.feature.vacuumProtocolCheck": "supported"})
    assert known.vacuum(0, check=False).num_files == 1


# --- lite -----------------------------------------------------------------------------------------

def test_lite_goes_on_where_the_last_vacuum_ended(clock: Clock) -> None:
    inner = MemoryStore()
    store = ScriptedStore(inner)
    table = replaced(store)
    clock.now += 8 * DAY
    assert table.vacuum(lite=True).num_files == 1
    table.overwrite({"id": [4], "p": ["a"]})
    clock.now += 8 * DAY
    for version in (0, 1):
        inner.delete(f"_delta_log/{version:020}.json")
    store.calls.clear()
    assert table.vacuum(lite=True).num_files == 1
    assert store.calls["list_all"] == 0


def test_lite_needs_the_log(clock: Clock) -> None:
    table = replaced(MemoryStore())
    table.log.checkpoint()
    table.overwrite({"id": [5], "p": ["a"]})
    clock.now += 8 * DAY
    table.log.store.delete(f"_delta_log/{0:020}.json")
    error = refused(table, IllegalStateError, lambda: table.vacuum(lite=True))
    assert "without lite=True" in error.message
    assert table.vacuum().num_files == 2


# --- other writers --------------------------------------------------------------------------------

def test_a_restore_meanwhile_keeps_its_files(clock: Clock) -> None:
    """It lands between the look at the log and VACUUM START."""
    inner = MemoryStore()
    store = ScriptedStore(inner)
    table = replaced(store)
    clock.now += 8 * DAY

    def restore(_: Any, name: str, data: bytes) -> bool:
        other = DeltaTable(dn.DeltaLog(inner))
        txn = other.start_transaction()
        back = [AddFile.from_row(row) for row in other.as_of(0).snapshot.files.to_pylist()]
        txn.commit(back, "RESTORE")
        return inner.put_if_absent(name, data)

    store.script.append(restore)
    result = table.vacuum()
    assert result.num_files == 0 and table.to_arrow().num_rows == 3


def test_properties_set_meanwhile_do_not_fail_it(clock: Clock) -> None:
    inner = MemoryStore()
    store = ScriptedStore(inner)
    table = replaced(store)
    clock.now += 8 * DAY

    def describe(_: Any, name: str, data: bytes) -> bool:
        txn = DeltaTable(dn.DeltaLog(inner)).start_transaction()
        txn.update_metadata(txn.metadata.replace(description=name))
        txn.commit([], "SET TBLPROPERTIES")
        return inner.put_if_absent(name, data)

    store.script.extend([describe, Pass(), describe])
    assert table.vacuum().num_files == 1
    assert [entry.operation for entry in table.history(4)] == [
        "VACUUM END", "SET TBLPROPERTIES", "VACUUM START", "SET TBLPROPERTIES"]


def test_a_file_that_came_back_is_kept(clock: Clock) -> None:
    table = create(MemoryStore(), {"id": [1]})
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.remove()])
    table.start_transaction().commit([file])
    clock.now += 30 * DAY
    assert table.vacuum().num_files == 0 and table.vacuum(lite=True).num_files == 0
    assert table.to_arrow().num_rows == 1


def test_a_peers_table(tmp_path: Path) -> None:
    for n in range(3):
        deltalake.write_deltalake(tmp_path, pa.table({"id": [n]}), mode="overwrite")
    table = dn.open(tmp_path)
    assert table.vacuum(0, check=False, lite=True).num_files == 2
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [2]
    assert [h["operation"] for h in deltalake.DeltaTable(tmp_path).history(2)] == [
        "VACUUM END", "VACUUM START"]


def test_a_broken_removal_is_no_reason_to_stop(clock: Clock) -> None:
    """A tombstone without a time, as old writers leave it, counts as old."""
    builder = TableBuilder().create().commit(add("a")).put("a", b"")
    builder.commit(RemoveFile("a", data_change=True))
    clock.now += 8 * DAY
    assert DeltaTable(builder.log).vacuum().num_files == 1


# --- tables in the folder -------------------------------------------------------------------------

@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("inner", ["inner", "deep/er", "p=a"])
def test_what_a_table_in_the_folder_has_is_not_this_ones(
    inner: str, is_local: bool, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path) if is_local else MemoryStore()
    table = create(store, {"id": [1], "p": ["a"]}, partition_by="p")
    theirs = [f"{inner}/_delta_log/00000000000000000000.json", f"{inner}/a.parquet", f"{inner}/q=1/b.parquet"]
    for name in [*theirs, "stray"]:
        store.put(name, b"x")
    mine = table.snapshot.files["path"][0].as_py()
    table.overwrite({"id": [2], "p": ["b"]})
    result = table.vacuum(0, check=False)
    assert result.files["path"].to_pylist() == sorted([mine, "stray"])
    assert {*theirs} <= {status.name for status in store.list_all("")}
