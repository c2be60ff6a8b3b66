"""DELETE: the rows of the condition are gone, all others are there, and nothing else was touched."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.actions import AddCDCFile, AddFile, RemoveFile
from deltanb.commands import choose_engine as engines
from deltanb.commands.result import CommandResult
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    InvalidPredicate,
    TableNotFound,
    UnsupportedPredicate,
)
from deltanb.options import StepClock, set_options
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from tests.commands.racing import side_by_side
from tests.helpers import files_of, ids, last_commit, refused, six_rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
NAN = float("nan")


# --- by the log alone -----------------------------------------------------------------------------

def test_without_a_condition_the_log_alone_says_it() -> None:
    store = ScriptedStore()
    table = six_rows(store)
    store.calls.clear()
    done = table.delete(user_metadata="night run")
    assert (done.version, done.engine, done.metrics["numDeletedRows"]) == (1, "log", 6)
    assert store.calls["open_input"] == 0 and ids(table) == []
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters, entry.user_metadata) == (
        "DELETE", {"predicate": '["true"]'}, "night run")
    assert table.delete().version is None and table.version == 1


def test_truncate_removes_all_files_without_looking_into_them() -> None:
    store = ScriptedStore()
    table = six_rows(store)
    store.calls.clear()
    done = table.truncate(user_metadata="night run")
    assert (done.operation, done.version, done.engine) == ("TRUNCATE", 1, "log")
    assert store.calls["open_input"] == 0 and ids(table) == [] and table.verify().is_sound
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters, entry.user_metadata) == ("TRUNCATE", {}, "night run")
    assert entry.operation_metrics["numRemovedFiles"] == str(done.metrics["numRemovedFiles"])
    assert table.truncate().version is None and table.version == 1


def test_truncate_is_refused_where_another_commit_added_rows() -> None:
    table = six_rows(MemoryStore())
    with pytest.raises(ConcurrentAppendException), table.transaction() as txn:
        txn.truncate()
        DeltaTable(table.log).append(table.to_arrow(limit=1))
    assert len(ids(table)) == 7


def test_whole_partitions_go_by_the_log() -> None:
    store = ScriptedStore()
    table = six_rows(store)
    store.calls.clear()
    done = table.delete("p = 'a' OR p IS NULL", engine="arrow")
    assert (done.engine, store.calls["open_input"], ids(table)) == ("log", 0, [2, 4, 6])
    assert [a.partition_values for a in last_commit(table, RemoveFile)] == [{"p": "a"}]
    assert last_commit(table, AddFile) == []


def test_rows_of_whole_files_are_counted_only_where_the_log_knows_them() -> None:
    builder = TableBuilder().create("id long, p string", partition_by=["p"])
    builder.commit(add("p=a/1", {"p": "a"}, stats='{"numRecords":3}'), add("p=b/2", {"p": "b"}))
    table = DeltaTable(builder.log)
    assert "numDeletedRows" not in table.delete("p = 'b'").metrics
    assert table.delete("p = 'a'").metrics["numDeletedRows"] == 3


# --- writing files again --------------------------------------------------------------------------

def test_only_files_with_such_rows_are_written_again() -> None:
    table = six_rows()
    (untouched,) = [f["path"] for f in table.snapshot.files.to_pylist() if "p=b" in f["path"]]
    with set_options(clock=StepClock()):
        done = table.delete("x = 3")
    assert (done.engine, ids(table)) == ("arrow", [1, 2, 4, 5, 6])
    (added,), (removed,) = last_commit(table, AddFile), last_commit(table, RemoveFile)
    assert untouched in table.snapshot.files["path"].to_pylist()
    entry = table.history(1)[0]
    assert entry.operation_parameters == {"predicate": '["x = 3"]'}
    assert entry.operation_metrics == {
        "numAddedFiles": "1", "numRemovedFiles": "1", "numAddedBytes": str(added.size),
        "numRemovedBytes": str(removed.size), "numDeletionVectorsAdded": "0",
        "numDeletionVectorsRemoved": "0", "numDeletionVectorsUpdated": "0",
        "numAddedChangeFiles": "0", "numCopiedRows": "2", "numDeletedRows": "1",
        **{name: entry.operation_metrics[name]
           for name in ("executionTimeMs", "scanTimeMs", "rewriteTimeMs")},
    }
    times = {name: int(entry.operation_metrics[name])
             for name in ("executionTimeMs", "scanTimeMs", "rewriteTimeMs")}
    assert times["executionTimeMs"] == times["scanTimeMs"] + times["rewriteTimeMs"] > 0


def test_files_that_statistics_rule_out_are_not_opened() -> None:
    store = ScriptedStore()
    table = create(store, {"id": [1, 2]})
    table.append({"id": [11, 12]})
    store.calls.clear()
    table.delete("id = 12")
    assert store.calls["open_input"] == 2  # the one file: searched, then written again
    assert ids(table) == [1, 2, 11]


def test_a_file_whose_rows_all_match_goes_without_being_written() -> None:
    table = six_rows()
    done = table.delete("id IN (2, 4, 6)")
    assert (done.metrics["numRemovedFiles"], done.metrics["numAddedFiles"]) == (1, 0)
    assert ids(table) == [1, 3, 5]


@pytest.mark.parametrize("properties", [{}, VECTORS])
@pytest.mark.parametrize("where, left", [
    ("x > 4", [1, 2, 3]),  # NaN is greater than every number; NULL is not
    ("NOT x > 4", [2, 4, 5, 6]),
    ("x <> 3", [2, 3]),
    ("x IS NULL OR id = 1", [3, 4, 5, 6]),
    ("isnan(x)", [1, 2, 3, 5, 6]),
    ("NULL", [1, 2, 3, 4, 5, 6]),
    ("x > NULL", [1, 2, 3, 4, 5, 6]),
    ("p = 'a' AND x > 2", [1, 2, 4, 6]),
    ("id = 1 OR p = 'b'", [3, 5]),
])
def test_only_true_deletes(where: str, left: list[int], properties: dict[str, str]) -> None:
    table = six_rows(properties=properties)
    table.delete(where, engine="arrow")
    assert ids(table) == left


def test_no_matching_row_is_no_commit() -> None:
    table = six_rows()
    before = files_of(table)
    done = table.delete("id = 99")
    assert (done.version, done.engine, done.metrics) == (None, "arrow", {})
    assert str(done) == "DELETE  nothing committed  in this process\nno row matched"
    assert (table.version, files_of(table)) == (0, before)


# --- deletion vectors -----------------------------------------------------------------------------

def test_a_vector_takes_rows_out_of_a_file(tmp_path: Path) -> None:
    table = six_rows(tmp_path / "t", VECTORS)
    done = table.delete("id IN (1, 2)")
    assert ids(table) == [3, 4, 5, 6]
    assert {name: value for name, value in done.metrics.items() if value
            and not name.endswith("Ms")} == {"numDeletionVectorsAdded": 2, "numDeletedRows": 2}
    added, removed = last_commit(table, AddFile), last_commit(table, RemoveFile)
    assert [a.path for a in added] == [r.path for r in removed]
    for file in added:
        stats = json.loads(file.stats)
        assert (stats["numRecords"], stats["tightBounds"]) == (3, False)
        assert stats["minValues"]["id"] in (1, 2)  # still a bound
        assert file.deletion_vector.cardinality == 1
    assert len({f.deletion_vector.path_or_inline_dv for f in added}) == 1  # one file a commit
    assert [name for name in files_of(table) if name.endswith(".bin")] != []
    peer = deltalake.QueryBuilder().register(
        "t", deltalake.DeltaTable(str(tmp_path / "t"))).execute("select id from t").read_all()
    assert sorted(peer["id"].to_pylist()) == [3, 4, 5, 6]


def test_a_vector_leaves_long_decimals_in_the_statistics_as_they_are() -> None:
    low, high = Decimal("-948754423485249.64817"), Decimal("999321522857200.50897")
    rows = pa.table({"id": [1, 2, 3], "d": pa.array([low, Decimal(5), high], pa.decimal128(30, 5))})
    table = create(MemoryStore(), rows, properties=VECTORS)
    (before,) = last_commit(table, AddFile)
    table.delete("id = 2")
    (added,) = last_commit(table, AddFile)
    assert added.stats == before.stats.replace('"tightBounds":true', '"tightBounds":false')
    assert (ids(table, f"d = {low}BD"), ids(table, f"d = {high}BD")) == ([1], [3])
    assert table.analyze().version is None  # nothing to repair
    rounded = added.replace(stats=added.stats.replace(str(low), "-948754423485249.6"))
    table.start_transaction().commit([rounded], "WRITE")
    assert ids(table, f"d = {low}BD") == [] and table.analyze().metrics == {"numFiles": 1}
    assert ids(table, f"d = {low}BD") == [1]


def test_a_vector_grows_until_the_file_goes() -> None:
    table = six_rows(properties=VECTORS)
    table.delete("id = 1")
    (first,) = last_commit(table, AddFile)
    done = table.delete("id <= 3 AND p = 'a'")
    assert {n: done.metrics[n] for n in (
        "numDeletionVectorsAdded", "numDeletionVectorsRemoved", "numDeletionVectorsUpdated",
        "numDeletedRows", "numRemovedFiles")} == {
        "numDeletionVectorsAdded": 1, "numDeletionVectorsRemoved": 1,
        "numDeletionVectorsUpdated": 1, "numDeletedRows": 1, "numRemovedFiles": 0}
    (grown,), (removed,) = last_commit(table, AddFile), last_commit(table, RemoveFile)
    assert grown.deletion_vector.cardinality == 2
    assert removed.deletion_vector == first.deletion_vector
    done = table.delete("id = 5")
    assert (done.metrics["numRemovedFiles"], done.metrics["numDeletionVectorsRemoved"]) == (1, 1)
    assert last_commit(table, AddFile) == [] and ids(table) == [2, 4, 6]
    assert table.delete().metrics["numDeletedRows"] == 3


def test_rows_of_a_partition_with_vectors_are_counted_live() -> None:
    table = six_rows(properties=VECTORS)
    table.delete("id = 1")
    assert table.delete("p = 'a'").metrics["numDeletedRows"] == 2


def test_a_file_without_statistics_gets_its_count_with_the_vector() -> None:
    features = ["deletionVectors"]
    builder = TableBuilder().create("id long", properties=VECTORS, protocol={
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
        "writerFeatures": features})
    with builder.store.open_output("part") as file:
        pq.write_table(pa.table({"id": [1, 2, 3]}), file)
    table = DeltaTable(builder.commit(add("part")).log)
    table.delete("id = 1")
    (added,) = last_commit(table, AddFile)
    assert json.loads(added.stats) == {"numRecords": 3, "tightBounds": False}
    assert ids(table) == [2, 3]


# --- the feed, row tracking -----------------------------------------------------------------------

@pytest.mark.parametrize("properties", [FEED, {**FEED, **VECTORS}])
def test_deleted_rows_are_in_the_feed(properties: dict[str, str]) -> None:
    table = six_rows(properties=properties)
    table.delete("id < 3")
    feed = []
    for file in last_commit(table, AddCDCFile):
        with table.log.store.open_input(file.path) as source:
            rows = pq.read_table(source).to_pylist()
        feed += [(row["id"], file.partition_values["p"], row["_change_type"]) for row in rows]
    assert sorted(feed) == [(1, "a", "delete"), (2, "b", "delete")]
    assert table.history(1)[0].operation_metrics["numAddedChangeFiles"] == "2"
    table.delete("p = 'a'")  # whole files say it themselves
    assert last_commit(table, AddCDCFile) == []


def test_rows_keep_their_ids() -> None:
    tracked = {"delta.enableRowTracking": "true"}
    for properties in (tracked, {**tracked, **VECTORS}):
        table = six_rows(properties=properties)
        before = {f["path"]: f["base_row_id"] for f in table.snapshot.files.to_pylist()}
        table.delete("id = 1")
        assert table.history(1)[0].tags == {"delta.rowTracking.preserved": "true"}
        for file in table.snapshot.files.to_pylist():
            assert file["base_row_id"] == before.get(file["path"], file["base_row_id"])
            assert file["path"] in before or file["base_row_id"] >= 6


# --- refusals -------------------------------------------------------------------------------------

def test_what_is_refused_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    table = six_rows(properties=VECTORS)
    error = refused(table, InvalidPredicate, lambda: table.delete("idd = 1"))
    assert "id" in error.suggestions
    refused(table, InvalidPredicate, lambda: table.delete("id ="))
    refused(table, UnsupportedPredicate, lambda: table.delete("soundex(p) = 'A'", engine="arrow"))
    refused(table, InvalidArgument, lambda: table.delete("id = 1", engine="duckdb"))
    refused(table, InvalidArgument, lambda: table.delete(engine="duckdb"))
    past = table.as_of(0)
    refused(table, IllegalStateError, lambda: past.delete())
    monkeypatch.setattr(engines, "find_spec", lambda name: None)  # no Spark here
    refused(table, UnsupportedPredicate, lambda: table.delete("soundex(p) = 'A'"))


def test_a_table_that_only_grows_keeps_its_rows() -> None:
    table = six_rows(properties={"delta.appendOnly": "true"})
    for where in (None, "p = 'a'", "id = 1"):
        error = refused(table, AppendOnlyTable, lambda where=where: table.delete(where))
        assert "delta.appendOnly=false" in str(error)


def test_there_must_be_a_table(tmp_path: Path) -> None:
    from deltanb.commands.rows.delete import delete

    with pytest.raises(TableNotFound):
        delete(DeltaLog.for_table(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


class FullStore(MemoryStore):
    """No space for files whose name has ``full`` in it."""

    full = "\0"

    def open_output(self, name: str) -> Any:
        if self.full in name:
            raise OSError(28, "no space left on device")
        return super().open_output(name)


@pytest.mark.parametrize("properties, full", [
    ({}, "p=b"), ({**VECTORS, **FEED}, "_change_data"), (FEED, "_change_data/p=b")])
def test_a_write_that_fails_halfway_leaves_no_file(properties: dict[str, str], full: str) -> None:
    store = FullStore()
    table = six_rows(store, properties)
    before = files_of(table)
    store.full = full
    with pytest.raises(OSError, match="no space left"):
        table.delete("id IN (1, 2)")
    assert (table.version, files_of(table)) == (0, before)
    store.full = "\0"
    assert table.delete("id IN (1, 2)").version == 1


# --- other writers --------------------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, VECTORS])
@pytest.mark.parametrize("where, rival, error", [
    ("p = 'a' AND id = 1", [add("p=b/new", {"p": "b"})], None),
    ("p = 'a'", [add("p=b/new", {"p": "b"})], None),
    ("p = 'a' AND id = 1", [add("p=a/new", {"p": "a"})], ConcurrentAppendException),
    ("p = 'a'", [add("p=a/new", {"p": "a"})], ConcurrentAppendException),
    ("id = 1", [add("p=b/new", {"p": "b"})], ConcurrentAppendException),
    (None, [add("p=b/new", {"p": "b"})], ConcurrentAppendException),
])
def test_against_an_append_that_won(
    where: str | None, rival: list[Any], error: type[DeltaError] | None, properties: dict[str, str]
) -> None:
    store = ScriptedStore()
    table = six_rows(store, properties)
    store.script.append(Lose(tuple(rival)))
    before = files_of(table)
    if error is None:
        assert table.delete(where).version == 2
        return
    with pytest.raises(error):
        table.delete(where)
    assert table.version == 1 and files_of(table) == before  # the rival's file is in the log alone


@pytest.mark.parametrize("where, taken, error", [
    ("p = 'a' AND id = 1", "b", None),
    ("p = 'a' AND id = 1", "a", ConcurrentDeleteReadException),
    ("id = 1", "b", None),  # the statistics of the other file rule such rows out: it was not read
    ("id >= 1", "b", ConcurrentDeleteReadException),
])
def test_against_a_removal_that_won(
    where: str, taken: str, error: type[DeltaError] | None
) -> None:
    store = ScriptedStore()
    table = create(store, {"id": [1, 2], "p": ["a", "a"]}, partition_by="p")
    table.append({"id": [7, 8], "p": ["b", "b"]})
    (path,) = [f["path"] for f in table.snapshot.files.to_pylist() if f"p={taken}" in f["path"]]
    store.script.append(Lose((remove(path, partitionValues={"p": taken}),)))
    if error is None:
        assert table.delete(where).version == 3
    else:
        refused_by = pytest.raises(error)
        with refused_by:
            table.delete(where)


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_two_deletes_in_different_partitions_both_commit(properties: dict[str, str]) -> None:
    store = ScriptedStore()
    table = six_rows(store, properties)
    done = side_by_side(store, lambda: table.delete("p = 'a' AND id = 1"),
                        lambda: table.delete("p = 'b' AND id = 2"))
    assert sorted(result.version for result in done) == [1, 2]
    assert ids(table) == [3, 4, 5, 6]


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_two_deletes_of_one_file_are_one(properties: dict[str, str]) -> None:
    store = ScriptedStore()
    table = six_rows(store, properties)
    before = ids(table)
    done = side_by_side(store, lambda: table.delete("p = 'a' AND id = 1"),
                        lambda: table.delete("p = 'a' AND id = 3"))
    won = [result for result in done if not isinstance(result, Exception)]
    assert [type(result) for result in done if isinstance(result, Exception)] in (
        [ConcurrentAppendException], [ConcurrentDeleteReadException])
    assert len(won) == 1 and table.version == 1 and len(ids(table)) == len(before) - 1
    in_log = {f["path"] for f in table.snapshot.files.to_pylist()}
    old = {f["path"] for f in table.as_of(0).snapshot.files.to_pylist()}
    assert {name for name in files_of(table) if name.endswith(".parquet")} == in_log | old
    assert sum(name.endswith(".bin") for name in files_of(table)) == (1 if properties else 0)


def test_a_delete_beside_an_append_elsewhere() -> None:
    store = ScriptedStore()
    table = six_rows(store)
    done = side_by_side(store, lambda: table.delete("p = 'a'"),
                        lambda: table.append({"id": [7], "p": ["c"], "x": [7.0]}))
    assert not any(isinstance(result, Exception) for result in done)
    assert ids(table) == [2, 4, 6, 7]


def test_a_delete_beside_a_blind_append_to_where_it_reads() -> None:
    """The append commits in any case; the delete only if it came first."""
    store = ScriptedStore()
    table = six_rows(store)
    done = side_by_side(store, lambda: table.delete("p = 'a'"),
                        lambda: table.append({"id": [7], "p": ["a"], "x": [7.0]}))
    assert isinstance(done[1], CommandResult)
    if isinstance(done[0], Exception):
        assert isinstance(done[0], ConcurrentAppendException) and ids(table) == [1, 2, 3, 4, 5, 6, 7]
    else:
        assert ids(table) == [2, 4, 6, 7]
