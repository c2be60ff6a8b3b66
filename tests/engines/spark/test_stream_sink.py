"""Streams into tables: each micro-batch is one commit, exactly once, in all three modes."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import deltanb as dn
from deltanb.actions import SetTransaction
from deltanb.engines.spark.stream_checkpoint import Checkpoint
from deltanb.errors import (
    AppendOnlyTable,
    CheckpointMismatch,
    ConcurrentAppendException,
    ConstraintViolation,
    IllegalStateError,
    InvalidArgument,
    MultipleSourceRowsMatched,
    SchemaMismatch,
)
from deltanb.sources.spark.source import register
from tests.helpers import last_commit, tree
from tests.patience import PATIENCE

pytestmark = pytest.mark.spark



class Source:
    """A folder of Parquet files that is read as a stream, a file a batch."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.count = spark, folder, 0
        folder.mkdir()

    def add(self, *ids: int, **more: list[Any]) -> None:
        rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"t{n % 2}" for n in ids], **more})
        path = self.folder / f"{self.count:03}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (self.count, self.count))  # Spark takes the older file first
        self.count += 1

    def frame(self, schema: str = "id bigint, text string") -> Any:
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(f"file:{self.folder}")


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", "id bigint, text string")


def run(table: dn.DeltaTable, frame: Any, checkpoint: Path, **more: Any) -> Any:
    """A stream over all that is there now, to its end."""
    stream = table.write_stream(frame, checkpoint=checkpoint, trigger="availableNow", **more)
    assert stream.awaitTermination(PATIENCE)
    return stream


def ids(table: dn.DeltaTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def begins_batch_anew(checkpoint: Path) -> None:
    """What a kill between the table's commit and Spark's note of it leaves."""
    newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    for path in (checkpoint / "commits").glob(f"*{newest}*"):
        path.unlink()


# -- append ------------------------------------------------------------------------------------------


def test_each_batch_is_a_commit_that_names_query_and_batch(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1, 2)
    source.add(3)
    stream = run(table, source.frame(), tmp_path / "c", query_name="ducks", user_metadata="by stream")
    assert ids(table) == [1, 2, 3] and table.version == 2 and stream.name == "ducks"
    newest = table.commit(2)
    assert newest.operation == "STREAMING UPDATE" and newest.user_metadata == "by stream"
    assert newest.operation_parameters == {
        "outputMode": "Append", "queryId": stream.id, "epochId": "1", "queryName": "ducks"}
    assert newest.operation_metrics["numOutputRows"] == newest.operation_metrics["numAddedFiles"] == "1"
    [mark] = last_commit(table, SetTransaction)
    assert (mark.app_id, mark.version) == (stream.id, 1)
    assert table.commit(2).is_blind_append


def test_a_stream_goes_on_where_it_stopped(source: Source, table: dn.DeltaTable, tmp_path: Path) -> None:
    source.add(1)
    first = run(table, source.frame(), tmp_path / "c")
    source.add(2)
    second = run(table, source.frame(), tmp_path / "c")
    assert ids(table) == [1, 2] and first.id == second.id
    run(table, source.frame(), tmp_path / "c")
    assert table.version == 2, "nothing came, so nothing is committed"


def test_a_batch_that_runs_again_is_skipped(source: Source, table: dn.DeltaTable, tmp_path: Path) -> None:
    source.add(1)
    source.add(2)
    run(table, source.frame(), tmp_path / "c")
    begins_batch_anew(tmp_path / "c")
    files = tree(Path(table.path))
    run(table, source.frame(), tmp_path / "c")
    assert ids(table) == [1, 2] and tree(Path(table.path)) == files
    source.add(3)
    run(table, source.frame(), tmp_path / "c")
    assert ids(table) == [1, 2, 3]


def test_an_option_of_the_caller_is_that_of_the_batches(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1)
    with dn.options.set_options(user_name="Gyro"):
        run(table, source.frame(), tmp_path / "c")
    assert table.commit(1).user_name == "Gyro"


def test_new_columns_come_in_where_they_may(source: Source, table: dn.DeltaTable, tmp_path: Path) -> None:
    source.add(1, more=[7])
    frame = source.frame("id bigint, text string, more bigint")
    with pytest.raises(SchemaMismatch, match="more"):
        table.write_stream(frame, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    run(table, frame, tmp_path / "c", merge_schema=True)
    assert table.to_arrow().to_pylist() == [{"id": 1, "text": "t1", "more": 7}]


@pytest.mark.parametrize("listed", [True, False])
def test_a_batch_that_reads_the_table_reads_all_of_it(
    listed: bool, source: Source, table: dn.DeltaTable, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.add(1)
    table.append({"id": [1], "text": ["known"]})
    if not listed:
        monkeypatch.setattr("deltanb.engines.spark.listed.is_possible", lambda session: False)
    known = table.to_df().select(F.col("id").alias("other"))
    fresh = meddled(source.frame().join(known, F.expr("id = other"), "left_semi"), table, tmp_path / "met")
    stream = table.write_stream(fresh, checkpoint=tmp_path / "c", trigger="availableNow")
    with pytest.raises(ConcurrentAppendException):
        stream.awaitTermination(PATIENCE)
    assert ids(table) == [1, 9], "the rival's row alone has come"
    run(table, fresh, tmp_path / "c")
    assert ids(table) == [1, 1, 9]
    assert not table.commit(table.version).is_blind_append


@pytest.mark.parametrize("place", ["here", "elsewhere"])
@pytest.mark.parametrize("is_self", [True, False])
def test_a_batch_of_a_stream_from_its_table_has_read_the_table(
    is_self: bool, place: str, spark: Any, table: dn.DeltaTable, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Delta's own sink says, by the offsets, wherever the checkpoint is."""
    register(spark)
    other = dn.create(tmp_path / "other", {"id": [1], "text": ["o"]})
    table.append({"id": [1], "text": ["a"]})
    rows = spark.readStream.format("deltanb").load((table if is_self else other).path)
    if place == "elsewhere":  # what a process that does not see the folder asks Spark for
        monkeypatch.setattr(Checkpoint, "folder", property(lambda self: None, lambda self, _: None),
                            raising=False)
    run(table, rows, tmp_path / "c")
    assert ids(table) == [1, 1] and table.commit(2).is_blind_append is not is_self


def test_a_batch_that_reads_other_tables_does_not_meet_appends(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1)
    known = dn.create(tmp_path / "other", {"other": [1]}).to_df()
    fresh = meddled(source.frame().join(known, F.expr("id = other"), "left_semi"), table, tmp_path / "met")
    run(table, fresh, tmp_path / "c")
    assert ids(table) == [1, 9]


def meddled(frame: Any, table: dn.DeltaTable, flag: Path) -> Any:
    """Rows that, while they are computed the first time, let a rival append to the table."""
    path, once = table.path, str(flag)

    def let_in(batches: Any) -> Any:  # in a process of Spark's
        for batch in batches:
            with suppress(FileExistsError), open(once, "x"):
                dn.open(path).append({"id": [9], "text": ["rival"]})
            yield batch

    return frame.mapInArrow(let_in, frame.schema)


# -- complete and update -----------------------------------------------------------------------------


def counts(source: Source) -> Any:
    return source.frame().groupBy("text").count()


def test_complete_replaces_all_rows_with_each_batch(source: Source, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "table", {"text": ["old"], "count": [1]})
    source.add(1, 2, 3)
    source.add(4, 5, 6)
    run(table, counts(source), tmp_path / "c", mode="complete")
    rows = table.to_arrow().sort_by("text").to_pylist()
    assert rows == [{"text": "t0", "count": 3}, {"text": "t1", "count": 3}]
    newest = table.commit(table.version)
    assert newest.operation_parameters["outputMode"] == "Complete"
    assert int(newest.operation_metrics["numRemovedFiles"]) > 0
    assert table.as_of(1).to_arrow().sort_by("text")["count"].to_pylist() == [1, 2]


def test_complete_can_give_the_table_its_schema(source: Source, table: dn.DeltaTable, tmp_path: Path) -> None:
    source.add(1)
    run(table, counts(source), tmp_path / "c", mode="complete", overwrite_schema=True)
    assert table.to_arrow().to_pylist() == [{"text": "t1", "count": 1}]


def test_update_replaces_the_rows_with_the_keys_of_a_batch(source: Source, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "table", {"text": ["t1", "other"], "count": [100, 7]})
    source.add(1, 3)
    source.add(2, 5)
    stream = run(table, counts(source), tmp_path / "c", mode="update", keys=["text"])
    rows = table.to_arrow().sort_by("text").to_pylist()
    assert rows == [{"text": "other", "count": 7}, {"text": "t0", "count": 1}, {"text": "t1", "count": 3}]
    assert table.commit(table.version).operation == "MERGE"
    assert table.timeline().commits[-1].writer == f"stream {stream.id[:8]}"
    [mark] = last_commit(table, SetTransaction)
    assert mark.version == 1
    version = table.version
    begins_batch_anew(tmp_path / "c")
    table.update({"count": "0"}, "text = 't1'")
    run(table, counts(source), tmp_path / "c", mode="update", keys=["text"])
    assert table.version == version + 1, "the batch was not merged a second time"
    assert source.spark is dn.spark(), "the stream has a session of its own"


def test_update_refuses_a_key_that_a_batch_has_twice(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1, 2, 3)
    stream = table.write_stream(source.frame(), checkpoint=tmp_path / "c", mode="update", keys="text",
                                trigger="availableNow")
    with pytest.raises(MultipleSourceRowsMatched, match="batch 0 has 2 rows with text='t1'"):
        stream.awaitTermination(PATIENCE)
    assert table.version == 0


# -- refusals ----------------------------------------------------------------------------------------


def test_a_row_that_does_not_fit_stops_the_stream_and_leaves_nothing(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    table.add_constraint("small", "id < 10")
    source.add(1)
    source.add(11)
    stream = table.write_stream(source.frame(), checkpoint=tmp_path / "c", trigger="availableNow")
    with pytest.raises(ConstraintViolation, match="small"):
        stream.awaitTermination(PATIENCE)
    assert isinstance(stream.exception(), ConstraintViolation)
    assert ids(table) == [1]
    table.vacuum(0, check=False)
    data = [name for name in tree(Path(table.path)) if name.endswith(".parquet") and "_delta_log" not in name]
    assert len(data) == 1, "no file is left of the batch that failed"
    table.drop_constraint("small")
    run(table, source.frame(), tmp_path / "c")
    assert ids(table) == [1, 11]


def test_a_checkpoint_of_another_table_is_refused(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1)
    run(table, source.frame(), tmp_path / "c")
    other = dn.create(tmp_path / "other", "id bigint, text string")
    with pytest.raises(CheckpointMismatch, match="belongs to another table"):
        other.write_stream(source.frame(), checkpoint=tmp_path / "c")
    assert other.version == 0 and tree(Path(other.path)) == {
        name for name in tree(Path(other.path)) if name.startswith("_delta_log")}


def test_two_writers_of_one_query_id_are_told(source: Source, table: dn.DeltaTable, tmp_path: Path) -> None:
    source.add(1)
    run(table, source.frame(), tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    source.add(2)
    stream = run(table, source.frame(), tmp_path / "c")
    with pytest.raises(CheckpointMismatch, match="knows batches up to 0") as caught:
        table.write_stream(source.frame(), checkpoint=tmp_path / "copy")
    assert caught.value.query_id == stream.id and caught.value.batch == 1
    assert ids(table) == [1, 2]


def test_a_second_writer_that_comes_while_the_stream_runs_is_told(
    source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source.add(1)
    run(table, source.frame(), tmp_path / "c")
    query = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    stream = table.write_stream(source.frame(), checkpoint=tmp_path / "c")
    table.append({"id": [9], "text": ["theirs"]}, txn=(query, 1))
    source.add(2)
    with pytest.raises(CheckpointMismatch, match="has batch 1 of query"):
        stream.processAllAvailable()
    assert ids(table) == [1, 9]


@pytest.mark.parametrize(("settings", "pattern"), [
    ({"mode": "updat"}, "did you mean update"),
    ({"mode": "update"}, "needs keys"),
    ({"mode": "update", "keys": ["idd"]}, "did you mean id"),
    ({"keys": ["id"]}, "keys needs mode='update'"),
    ({"mode": "complete"}, "Spark refuses the stream in mode 'complete'"),
    ({"overwrite_schema": True}, "overwrite_schema needs"),
    ({"trigger": {"continuous": "1 second"}}, "is not a trigger of a table's streams"),
    ({"trigger": "soon"}, "Spark refuses"),
    ({"checkpoint": ""}, "is not a folder"),
], ids=str)
def test_options_that_are_wrong_are_named(
    source: Source, table: dn.DeltaTable, tmp_path: Path, settings: dict[str, Any], pattern: str
) -> None:
    source.add(1)
    with pytest.raises(InvalidArgument, match=pattern):
        table.write_stream(source.frame(), **{"checkpoint": tmp_path / "c", **settings})
    assert table.version == 0


def test_what_is_no_stream_or_no_place_for_one_is_refused(
    spark: Any, source: Source, table: dn.DeltaTable, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match="append"):
        table.write_stream(spark.range(3), checkpoint=tmp_path / "c")
    with pytest.raises(InvalidArgument, match="found dict"):
        table.write_stream({"id": [1]}, checkpoint=tmp_path / "c")
    source.add(1)
    with pytest.raises(IllegalStateError, match="as of version 0"):
        table.as_of(0).write_stream(source.frame(), checkpoint=tmp_path / "c")
    with table.transaction() as txn, pytest.raises(IllegalStateError, match="commits by itself"):
        txn.write_stream(source.frame(), checkpoint=tmp_path / "c")
    table.set_properties({"delta.appendOnly": True})
    with pytest.raises(AppendOnlyTable, match="complete"):
        table.write_stream(counts(source), checkpoint=tmp_path / "c", mode="complete")
