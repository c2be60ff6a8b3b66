"""OPTIMIZE: the same rows, in other files; each file is rewritten once, whoever else is at work."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddFile, DomainMetadata, RemoveFile
from deltanb.commands.upkeep.optimize import optimize
from deltanb.engines.arrow import deletion_vectors, zorder
from deltanb.errors import (
    ConcurrentDeleteDeleteException,
    DeltaConcurrentModificationException,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    TableNotFound,
    UnsupportedProtocol,
)
from deltanb.options import set_options
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Fail, LoseResponse, MemoryStore, ScriptedStore, TableBuilder
from tests.helpers import files_of, ids, refused

METRICS = ("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes", "minFileSize",
           "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize", "numDeletionVectorsRemoved")


def paths(table: DeltaTable) -> list[str]:
    return sorted(table.snapshot.files["path"].to_pylist())


def commit_of(table: DeltaTable, kind: type) -> list[Any]:
    return [a for a in table.log.read_commit(table.version) if isinstance(a, kind)]


def many(where: Any, count: int = 4, **settings: Any) -> DeltaTable:
    """A table with the rows 0 … 2·count-1, two in each file; ``p`` is the file's number modulo 2."""
    table = create(where, {"id": [0, 1], "p": [0, 0]}, **settings)
    for n in range(1, count):
        table.append({"id": [2 * n, 2 * n + 1], "p": [n % 2] * 2})
    return table


def delete_rows(table: DeltaTable, path: str, rows: Iterable[int]) -> None:
    """Commit a deletion vector for one file."""
    txn = table.start_transaction()
    (file,) = (f for f in txn.filter_files() if f.path == path)
    vector = deletion_vectors.inline(BitMap64(rows))
    txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")


# --- compaction -----------------------------------------------------------------------------------

def test_small_files_become_one() -> None:
    table = many(MemoryStore())
    old = table.snapshot.files
    result = table.optimize()
    assert (result.operation, result.version, result.engine) == ("OPTIMIZE", 4, "arrow")
    assert ids(table) == list(range(8)) and table.snapshot.num_files == 1
    (added,) = commit_of(table, AddFile)
    removed = commit_of(table, RemoveFile)
    assert {r.path for r in removed} == set(old["path"].to_pylist())
    assert not added.data_change and not any(r.data_change for r in removed)
    assert json.loads(added.stats)["numRecords"] == 8
    entry = table.history(1)[0]
    assert entry.operation_parameters == {
        "predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False}
    assert tuple(entry.operation_metrics) == METRICS
    assert entry.operation_metrics["numRemovedFiles"] == "4"
    assert entry.operation_metrics["p50FileSize"] == str(added.size)
    assert entry.isolation_level == "SnapshotIsolation" and entry.is_blind_append is False
    assert len(table.as_of(0).to_arrow()) == 2


def test_a_table_in_order_is_left_alone() -> None:
    table = many(MemoryStore())
    table.optimize()
    result = table.optimize()
    assert (result.version, result.engine, table.version) == (None, "log", 4)
    assert str(result) == "OPTIMIZE  nothing committed  log only\nnothing to do"
    empty = create(MemoryStore(), pa.schema([("id", pa.int64())]))
    assert empty.optimize().version is None


def test_partitions_stay_apart_and_where_chooses_them() -> None:
    table = many(MemoryStore(), partition_by="p")
    table.optimize(where="p = 1")
    assert table.snapshot.num_files == 3 and ids(table) == list(range(8))
    assert table.history(1)[0].operation_parameters["predicate"] == '["p = 1"]'
    table.optimize()
    assert table.snapshot.num_files == 2
    assert sorted(table.to_arrow(where="p = 0")["id"].to_pylist()) == [0, 1, 4, 5]


def test_files_are_packed_up_to_the_target() -> None:
    table = many(MemoryStore(), 9)
    size = max(table.snapshot.files["size"].to_pylist())
    result = table.optimize(target_size=4 * size)
    assert result.metrics["numAddedFiles"] == 2 and result.metrics["numRemovedFiles"] == 8
    assert table.snapshot.num_files == 3 and ids(table) == list(range(18))
    big = create(MemoryStore(), {"id": [1]})
    big.append({"id": [2]})
    assert big.optimize(target_size=10).version is None
    with set_options(target_file_size=10):
        assert big.optimize().version is None


def test_the_tables_own_target_size_counts() -> None:
    table = many(MemoryStore(), properties={"delta.targetFileSize": "10b"})
    assert table.optimize().version is None


def test_deleted_rows_go_with_the_rewrite() -> None:
    table = many(MemoryStore(), properties={"delta.enableDeletionVectors": True})
    first = table.snapshot.files["path"][0].as_py()
    delete_rows(table, first, [0])
    gone = ids(table)
    size = table.snapshot.files["size"][0].as_py()
    assert table.optimize(target_size=size // 2).version is None  # none is small
    result = table.optimize()
    assert result.metrics["numRemovedFiles"] == 4 and result.metrics["numDeletionVectorsRemoved"] == 1
    assert ids(table) == gone and table.snapshot.files["deletion_vector"].null_count == 1


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_a_file_alone_keeps_its_deletion_vector_until_it_is_purged(partition_by: str | None) -> None:
    table = create(MemoryStore(), {"id": list(range(100)), "p": [n // 50 for n in range(100)]},
                   partition_by=partition_by or (), properties={"delta.enableDeletionVectors": True})
    table.delete("id % 2 = 0")
    left = ids(table)
    assert table.optimize().version is None
    assert table.purge().metrics["numDeletionVectorsRemoved"] == (2 if partition_by else 1)
    assert ids(table) == left and not any(table.snapshot.files["deletion_vector"].to_pylist())


def test_purge_rewrites_files_with_deletion_vectors_alone() -> None:
    table = many(MemoryStore(), partition_by="p", properties={"delta.enableDeletionVectors": True})
    before = paths(table)
    for path in before[:2]:
        delete_rows(table, path, [1])
    delete_rows(table, before[3], [0, 1])
    left = ids(table)
    assert table.purge(where="p = 1").metrics["numRemovedFiles"] == 1
    result = table.purge()
    assert (result.operation, result.metrics["numRemovedFiles"]) == ("REORG", 2)
    assert table.history(1)[0].operation_parameters == {"predicate": "[]", "applyPurge": True}
    assert ids(table) == left and before[2] in paths(table)
    assert table.purge().version is None


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_every_kind_of_column_survives(tmp_path: Path, mode: str) -> None:
    rows = pa.table({"id": [1, 2], "s": [{"x": 1.5}, None], "l": [["a", None], []],
                     "part": ["ä b%/", None], "m": pa.array([[("k", 1)], None], pa.map_(
                         pa.string(), pa.int64()))})
    table = create(tmp_path, rows, partition_by="part", properties={
        "delta.columnMapping.mode": mode, "delta.constraints.c": "id > 0"})
    table.append(rows)
    table.optimize()
    assert table.snapshot.num_files == 2
    stored = table.to_arrow().sort_by("id").to_pylist()
    assert stored == [row for row in rows.to_pylist() for _ in range(2)]
    if mode == "none":
        theirs = deltalake.DeltaTable(tmp_path)
        assert len(theirs.file_uris()) == 2
        assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == [1, 1, 2, 2]


def test_rows_keep_their_ids_and_commit_versions(tmp_path: Path) -> None:
    table = many(tmp_path, 3, properties={"delta.enableRowTracking": True})
    table.optimize()
    table.append({"id": [6], "p": [0]})
    table.optimize()  # ids from columns and ids from places, in one file
    (path,) = paths(table)
    stored = pq.read_table(tmp_path / path).sort_by("id")
    id_column, version_column = stored.schema.names[-2:]
    assert stored[id_column].to_pylist() == [0, 1, 2, 3, 4, 5, 12]
    assert stored[version_column].to_pylist() == [0, 0, 1, 1, 2, 2, 4]
    assert table.to_arrow().schema.names == ["id", "p"]
    (added,) = commit_of(table, AddFile)
    assert set(json.loads(added.stats)["minValues"]) == {"id", "p"}
    assert added.base_row_id == 13 and added.default_row_commit_version == 5
    assert table.history(1)[0].tags == {"delta.rowTracking.preserved": "true"}


def test_generated_values_stay_as_they_are() -> None:
    """Rules for new rows do not stand in the way of rows that only move."""
    table = many(MemoryStore(), 2)
    metadata = table.metadata
    schema = json.loads(metadata.schema_string or "")
    schema["fields"][1]["metadata"]["delta.generationExpression"] = "id + 100"
    txn = table.start_transaction()
    txn.commit([metadata.replace(schema_string=json.dumps(schema))])
    assert table.optimize().metrics["numAddedFiles"] == 1
    assert table.to_arrow()["p"].to_pylist() == [0, 0, 1, 1]


def test_rules_for_data_files_do() -> None:
    """Features whose files this library cannot write are refused by name, before anything is written."""
    builder = TableBuilder(MemoryStore()).create(protocol={
        "minReaderVersion": 2, "minWriterVersion": 7,
        "writerFeatures": ["columnMapping", "icebergCompatV1"]},
        properties={"delta.enableIcebergCompatV1": "true"})
    table = DeltaTable(builder.log)
    error = refused(table, UnsupportedProtocol, table.optimize)
    assert error.features == ("icebergCompatV1",)


# --- order ----------------------------------------------------------------------------------------

def grid(n: int = 64) -> pa.Table:
    """Points in an order that has nothing to do with either coordinate."""
    cells = [(i * 37 % (n * n)) for i in range(n * n)]
    return pa.table({"id": list(range(n * n)), "x": [c % n for c in cells],
                     "y": [f"{c // n:04}" for c in cells]})


def skipped(table: DeltaTable, *conditions: str) -> float:
    return 1 - table.snapshot.files_for_scan(*conditions).num_rows / table.snapshot.num_files


def test_z_order_lets_files_be_skipped_by_every_column() -> None:
    table = create(MemoryStore(), grid())
    result = table.optimize(zorder_by=["x", "Y"], target_size=table.snapshot.size_in_bytes // 16)
    assert 12 <= result.metrics["numAddedFiles"] <= 18
    assert skipped(table, "x = 5") >= 0.6 and skipped(table, "y = '0007'") >= 0.6
    assert table.to_arrow().sort_by("id") == grid()
    assert table.history(1)[0].operation_parameters["zOrderBy"] == '["x","Y"]'


def test_z_order_by_one_column_sorts() -> None:
    table = create(MemoryStore(), {"id": [3, None, 1, 2], "p": ["a"] * 4}, partition_by="p")
    table.append({"id": [5, 4, 9], "p": ["a", "a", "b"]})
    table.optimize(zorder_by="id")
    sorted_ids = table.to_arrow(where="p = 'a'")["id"].to_pylist()
    assert sorted_ids == [1, 2, 3, 4, 5, None] and table.snapshot.num_files == 2


def test_rows_beyond_memory_wait_on_disk() -> None:
    rows = grid(32)
    batches = rows.to_batches(100)
    sample = rows.to_batches()[0]
    curve = zorder.Curve.fit("zorder", [("x",), ("y",)], sample, 5)
    runs = [[list(part) for part in zorder.in_order(iter(batches), curve, memory)]
            for memory in (1 << 30, 2000)]
    for parts in runs:
        assert len(parts) == 5
        assert pa.Table.from_batches([b for part in parts for b in part]).sort_by("id") == rows
    sizes = [[sum(b.num_rows for b in part) for part in parts] for parts in runs]
    assert sizes[0] == sizes[1]
    keys = [key for part in runs[0] for b in part for key in curve.keys(b).to_pylist()]
    assert keys == sorted(keys)


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 3), (3, 2), (4, 1)])
def test_the_hilbert_curve_goes_from_cell_to_neighbour(dimensions: int, bits: int) -> None:
    side = 1 << bits
    cells = [[n // side**d % side for d in range(dimensions)] for n in range(side**dimensions)]
    ranks = [pa.array([cell[d] for cell in cells]) for d in range(dimensions)]
    keys = zorder.hilbert(ranks, bits).to_pylist()
    assert sorted(keys) == list(range(len(cells)))
    way = [cell for _, cell in sorted(zip(keys, cells, strict=True))]
    steps = [sum(abs(a - b) for a, b in zip(one, other, strict=True))
             for one, other in itertools.pairwise(way)]
    assert set(steps) == {1}


def test_ranks_of_nulls_nans_and_other_types() -> None:
    values = pa.array([float("nan"), None, 2.0, -1.0, 1.0])
    assert zorder.ranks(values, pa.array([0.0, 1.0])).to_pylist() == [2, 0, 2, 0, 2]
    nothing = zorder.bounds_of(pa.array([None, float("nan")], pa.float64()), 4)
    assert len(nothing) == 0 and zorder.ranks(values, nothing).to_pylist() == [0] * 5
    table = create(MemoryStore(), {"id": [1, 2, 3], "ok": [True, None, False], "void": ["", "b", None]})
    table.optimize(zorder_by=["ok", "void", "id"])
    assert ids(table) == [1, 2, 3]


# --- clustering -----------------------------------------------------------------------------------

def clustered(data: Any, columns: str, **properties: Any) -> DeltaTable:
    table = create(MemoryStore(), data, properties={
        "delta.feature.clustering": "supported", **properties})
    fields = {f.name: f.metadata.get("delta.columnMapping.physicalName", f.name)
              for f in table.schema.fields}
    named = [[fields[name]] for name in columns.split()]
    domain = DomainMetadata("delta.clustering", json.dumps({"clusteringColumns": named}))
    table.start_transaction().commit([domain])
    return table


def test_clustering_is_incremental() -> None:
    table = clustered(grid(), "x y")
    size = table.snapshot.size_in_bytes // 16
    result = table.optimize(target_size=size)
    assert skipped(table, "x = 5") >= 0.6 and skipped(table, "y = '0007'") >= 0.6
    added = commit_of(table, AddFile)
    assert {f.clustering_provider for f in added} == {"liquid"}
    assert json.loads(added[0].tags["ZCUBE_ZORDER_BY"]) == ["x", "y"]
    assert len({f.tags["ZCUBE_ID"] for f in added}) == 1
    parameters = table.history(1)[0].operation_parameters
    assert (parameters["clusterBy"], parameters["isFull"]) == ('["x","y"]', False)
    assert table.optimize().version is None
    table.append(grid(8))
    again = table.optimize(target_size=size)
    assert again.metrics["numRemovedFiles"] == 1
    assert {f.path for f in added} <= set(paths(table))
    full = table.optimize(full=True, target_size=size)
    num_clustered = result.metrics["numAddedFiles"] + again.metrics["numAddedFiles"]
    assert full.metrics["numRemovedFiles"] == num_clustered
    assert table.to_arrow().num_rows == 64 * 64 + 64


def test_files_of_other_implementations_are_their_own() -> None:
    table = clustered(grid(8), "x")
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.replace(clustering_provider="other", data_change=False)])
    assert table.optimize().version is None and table.optimize(full=True).version is None


def test_clustering_columns_of_a_mapped_table_are_described() -> None:
    table = clustered(grid(8), "y", **{
        "delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": 1})
    table.optimize()
    (file,) = commit_of(table, AddFile)
    physical = table.schema.field("y").metadata["delta.columnMapping.physicalName"]
    assert json.loads(file.stats)["maxValues"][physical] == "0007"
    assert table.detail()["clusteringColumns"] == ["y"]


# --- what is refused ------------------------------------------------------------------------------

@pytest.mark.parametrize(("settings", "error", "message"), [
    ({"where": "id = 1"}, InvalidArgument, "partition"),
    ({"where": "nowhere = 1"}, InvalidPredicate, "nowhere"),
    ({"zorder_by": ["nowhere"]}, InvalidArgument, "nowhere"),
    ({"zorder_by": ["p"]}, InvalidArgument, "partition column"),
    ({"full": True}, InvalidArgument, "clustering columns"),
    ({"target_size": 0}, InvalidArgument, "at least 1"),
    ({"engine": "duck"}, InvalidArgument, "duck"),
])
def test_settings_that_make_no_sense(
    settings: dict[str, Any], error: type[DeltaError], message: str
) -> None:
    table = many(MemoryStore(), partition_by="p")
    assert message in refused(table, error, lambda: table.optimize(**settings)).message


def test_a_clustered_table_has_its_own_order() -> None:
    table = clustered(grid(8), "x")
    assert "x" in refused(table, InvalidArgument, lambda: table.optimize(zorder_by="id")).message
    refused(table, InvalidArgument, lambda: table.optimize(where="id = 1"))
    nested = create(MemoryStore(), pa.table({"s": [{"a": 1, "l": [1]}]}))
    assert nested.optimize(zorder_by="s.A").version == 1
    refused(nested, InvalidArgument, lambda: nested.optimize(zorder_by="s.l"))


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        optimize(dn.DeltaLog.for_table(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_file_that_cannot_be_read_stops_it_without_a_trace() -> None:
    table = many(MemoryStore(), partition_by="p")
    table.log.store.put(paths(table)[-1], b"no parquet")
    refused(table, DeltaError, table.optimize)


# --- other writers --------------------------------------------------------------------------------

def lose_to(rival: Callable[[], Any]) -> Callable[..., bool]:
    """A put that comes second: the rival commits in between."""
    def step(store: Any, name: str, data: bytes) -> bool:
        rival()
        return bool(store.put_if_absent(name, data))
    return step


def beside(rival: Callable[[DeltaTable], Any], **settings: Any) -> tuple[ScriptedStore, DeltaTable]:
    """A table whose next commit finds that the rival, another handle, was first."""
    inner = MemoryStore()
    store = ScriptedStore(inner)
    table = many(store, **settings)
    other = DeltaTable(dn.DeltaLog(inner))
    store.script.append(lose_to(lambda: rival(other)))
    return store, table


def test_an_append_meanwhile_is_no_matter() -> None:
    _, table = beside(lambda other: other.append({"id": [100], "p": [0]}))
    assert table.optimize().version == 5
    assert ids(table) == [*range(8), 100] and table.snapshot.num_files == 2


def test_two_rewrites_of_the_same_files_never_both_commit() -> None:
    _, table = beside(lambda other: other.optimize())
    before = files_of(table)
    with pytest.raises(ConcurrentDeleteDeleteException) as caught:
        table.optimize()
    assert caught.value.version == 4
    assert ids(table) == list(range(8)) and table.snapshot.num_files == 1
    assert len(files_of(table)) == len(before) + 1  # the winner's


def test_rewrites_of_different_partitions_both_commit() -> None:
    _, table = beside(lambda other: other.optimize(where="p = 0"), partition_by="p")
    assert table.optimize(where="p = 1").version == 5
    assert ids(table) == list(range(8)) and table.snapshot.num_files == 2


def test_a_delete_elsewhere_is_no_matter() -> None:
    def delete(other: DeltaTable) -> None:
        txn = other.start_transaction()
        gone = [file.remove() for file in txn.filter_files("p = 0")]
        txn.commit(gone, "DELETE")

    _, table = beside(delete, partition_by="p")
    assert table.optimize(where="p = 1").version == 5
    assert ids(table) == [2, 3, 6, 7]


@pytest.mark.parametrize("with_vector", [False, True])
def test_deleted_rows_do_not_come_back(with_vector: bool) -> None:
    def delete(other: DeltaTable) -> None:
        path = other.snapshot.files["path"][0].as_py()
        if with_vector:
            delete_rows(other, path, [0, 1])
        else:
            txn = other.start_transaction()
            txn.commit([f.remove() for f in txn.filter_files() if f.path == path], "DELETE")

    _, table = beside(delete, properties={"delta.enableDeletionVectors": True})
    before = files_of(table)
    with pytest.raises(DeltaConcurrentModificationException):
        table.optimize()
    assert len(ids(table)) == 6 and files_of(table) == before


def test_a_changed_table_is_optimized_all_the_same() -> None:
    """A conflict that is not about the files does not fail the command."""
    def comment(other: DeltaTable) -> None:
        txn = other.start_transaction()
        txn.update_metadata(txn.metadata.replace(description="night run"))
        txn.commit([], "SET TBLPROPERTIES")

    _, table = beside(comment)
    assert table.optimize().version == 5
    assert table.metadata.description == "night run"
    assert ids(table) == list(range(8)) and table.snapshot.num_files == 1
    assert len(files_of(table)) == 5


def test_a_repartitioned_table_is_not() -> None:
    def replace(other: DeltaTable) -> None:
        other.overwrite({"id": [1], "q": [1]}, overwrite_schema=True, partition_by=["q"])

    _, table = beside(replace)
    with pytest.raises(DeltaConcurrentModificationException):
        table.optimize()
    assert len(files_of(table)) == 5


def test_a_store_that_fails_leaves_no_file() -> None:
    store = ScriptedStore()
    table = many(store)
    store.script.append(Fail())
    before = files_of(table)
    assert table.optimize().version == 4  # nothing was written by the put that failed: it goes again
    assert len(files_of(table)) == len(before) + 1
    store.script.append(LoseResponse())
    table.append({"id": [100], "p": [0]})
    assert table.optimize().version == 6


def test_many_at_once_keep_every_row_once(tmp_path: Path) -> None:
    table = many(tmp_path)
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(job: Callable[[DeltaTable], Any]) -> None:
        own = DeltaTable(dn.DeltaLog(table.log.store))
        start.wait()
        for _ in range(5):
            try:
                job(own)
            except DeltaConcurrentModificationException as error:
                errors.append(error)

    def append(own: DeltaTable) -> None:
        own.append({"id": [1000], "p": [0]})

    jobs: list[Callable[[DeltaTable], Any]] = [
        append, append, lambda own: own.optimize(), lambda own: own.optimize(zorder_by="id")]
    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(table) == [*range(8), *[1000] * 10]
    names = {type(error).__name__ for error in errors}
    assert names <= {"ConcurrentDeleteDeleteException", "ConcurrentDeleteReadException"}
    committed = {a.path for v in range(table.version + 1) for a in table.log.read_commit(v)
                 if isinstance(a, AddFile)}
    assert set(files_of(table)) == committed  # losers left nothing behind


def test_a_lost_race_with_a_peer(tmp_path: Path) -> None:
    """delta-rs appends between our reading and our commit."""
    table = many(tmp_path)
    store = ScriptedStore(table.log.store)
    ours = DeltaTable(dn.DeltaLog(store))
    rows = pa.table({"id": [50], "p": [1]})
    store.script.append(lose_to(
        lambda: deltalake.write_deltalake(tmp_path, rows, mode="append")))
    assert ours.optimize().version == 5
    theirs = deltalake.DeltaTable(tmp_path)
    assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == [*range(8), 50]
    assert theirs.optimize.compact()["numFilesAdded"] == 1


# --- Spark ----------------------------------------------------------------------------------------

@pytest.mark.spark
@pytest.mark.slow
def test_spark_does_the_same(tmp_path: Path, spark: Any) -> None:
    table = many(tmp_path / "a", partition_by="p", properties={
        "delta.enableDeletionVectors": True, "delta.columnMapping.mode": "name"})
    delete_rows(table, paths(table)[0], [0])
    left = ids(table)
    result = table.optimize(engine="spark")
    assert (result.engine, result.metrics["numAddedFiles"]) == ("spark", 2)
    assert ids(table) == left
    (added, _) = commit_of(table, AddFile)
    assert not added.data_change and added.deletion_vector is None
    points = create(tmp_path / "b", grid())
    points.optimize(engine="spark", zorder_by=["x", "y"],
                    target_size=points.snapshot.size_in_bytes // 16)
    assert 12 <= points.snapshot.num_files <= 18
    assert skipped(points, "x = 5") >= 0.6 and skipped(points, "y = '0007'") >= 0.6
    assert points.to_arrow().sort_by("id") == grid()
