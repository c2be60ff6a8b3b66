"""Streams by ``format("deltanb")``: out of tables in micro-batches, and into them."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

from pyspark.sql.types import StructType

import deltanb as dn
from deltanb.engines.spark.stream_checkpoint import Checkpoint
from deltanb.errors import (
    CheckpointMismatch,
    DataFileNotFound,
    InvalidArgument,
    SchemaMismatch,
    StreamSourceChanged,
    VersionNotFound,
)
from deltanb.sources.spark.source import translate_errors
from deltanb.sources.spark.stream import stream_reader, stream_schema, stream_writer
from tests.helpers import tree
from tests.notebook.looks import assert_consistent
from tests.patience import PATIENCE

pytestmark = pytest.mark.spark



@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", {"id": [0]})


def read(spark: Any, table: dn.DeltaTable, **options: Any) -> Any:
    reader = spark.readStream.format("deltanb")
    for name, value in options.items():
        reader = reader.option(name, str(value).lower())
    return reader.load(table.path)


def batches(frame: Any, checkpoint: Path, columns: tuple[str, ...] = ("id",)) -> list[list[Any]]:
    """The rows of each batch of a stream over all that is there now."""
    folder = tempfile.mkdtemp(dir=checkpoint.parent)

    def seen(batch: Any, number: int) -> None:  # on Connect in another process
        rows = [tuple(row) for row in batch.select(*columns).collect()]
        with open(f"{folder}/{number:03}", "w") as file:
            file.write(repr(sorted(row[0] if len(columns) == 1 else row for row in rows)))

    writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", f"file:{checkpoint}")
    with translate_errors():
        assert writer.trigger(availableNow=True).start().awaitTermination(PATIENCE)
    return [ast.literal_eval(path.read_text()) for path in sorted(Path(folder).iterdir())]


def write(frame: Any, table: dn.DeltaTable, checkpoint: Path, mode: str = "append", **options: Any) -> None:
    writer = frame.writeStream.format("deltanb").outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint)).options(**options)
    with translate_errors():
        assert writer.start(table.path).awaitTermination(PATIENCE)


def ids(table: dn.DeltaTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def data_files(table: dn.DeltaTable) -> int:
    """How many files beside the log there are, of whatever kind."""
    return sum(not name.startswith("_delta_log") for name in tree(Path(table.path)))


# -- out of a table ----------------------------------------------------------------------------------


def test_a_snapshot_first_then_changes_in_batches(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    for n in (1, 2):
        table.append({"id": [n]})
    frame = read(spark, table, maxFilesPerTrigger=2)
    assert frame.isStreaming
    assert batches(frame, tmp_path / "c") == [[0, 1], [2]]
    table.append({"id": [3]})
    table.optimize()
    assert batches(frame, tmp_path / "c") == [[3]]
    assert batches(read(spark, table, startingVersion=2), tmp_path / "c2") == [[2, 3]]
    assert batches(read(spark, table, maxBytesPerTrigger=1, startingVersion=1), tmp_path / "c3") == [
        [1], [2], [3]]


def test_read_stream_is_the_same(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    table.append({"id": [1]})
    frame = table.read_stream(spark, starting_version=0, max_files_per_trigger=1)
    assert batches(frame, tmp_path / "c") == [[0], [1]]
    latest = table.read_stream(spark, starting_version="latest")
    assert batches(latest, tmp_path / "c2") == [[]], "Spark runs a first batch in any case"
    with pytest.raises(InvalidArgument, match="contradict"):
        table.read_stream(spark, starting_version=0, starting_timestamp="2020-01-01")


def test_deletes_stop_a_stream_unless_it_is_told_to_go_on(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    assert batches(read(spark, table), tmp_path / "c") == [[0]]
    table.delete("id = 0")
    table.append({"id": [1]})
    with pytest.raises(StreamSourceChanged, match="ignoreDeletes"):
        batches(read(spark, table), tmp_path / "c")
    assert batches(read(spark, table, ignoreDeletes=True), tmp_path / "c") == [[1]]
    table.update({"id": "2"}, "id = 1")
    table.append({"id": [3]})
    with pytest.raises(StreamSourceChanged, match="rewrites"):
        batches(read(spark, table, ignoreDeletes=True), tmp_path / "c")
    assert batches(read(spark, table, skipChangeCommits=True), tmp_path / "c") == [[3]]


def test_the_change_feed_as_a_stream(spark: Any, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [0, 1]}, properties={"delta.enableChangeDataFeed": True})
    frame = read(spark, table, readChangeFeed=True)
    columns = ("_commit_version", "_change_type", "id")
    assert batches(frame, tmp_path / "c", columns) == [[(0, "insert", 0), (0, "insert", 1)]]
    table.update({"id": "5"}, "id = 1")
    table.delete("id = 0")
    assert batches(frame, tmp_path / "c", columns) == [
        [(1, "update_postimage", 5), (1, "update_preimage", 1), (2, "delete", 0)]]


def test_new_columns_stop_a_stream_and_a_new_frame_goes_on(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    frame = read(spark, table)
    assert batches(frame, tmp_path / "c") == [[0]]
    table.append({"id": [1], "more": [7]}, merge_schema=True)
    with pytest.raises(StreamSourceChanged, match="Make it again"):
        batches(frame, tmp_path / "c")
    assert batches(read(spark, table), tmp_path / "c", ("id", "more")) == [[(1, 7)]]


def test_columns_in_another_order_keep_their_values(tmp_path: Path) -> None:
    options = {"path": dn.create(tmp_path / "t", {"id": [1], "other": [2]}).path, "startingVersion": "0"}
    reader = stream_reader(options, StructType(list(reversed(stream_schema(options).fields))))
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    make, arguments = reader.__reduce__()  # as an executor gets it
    rows = [row for task in tasks for batch in make(*arguments).read(task) for row in batch.to_pylist()]
    assert rows == [{"other": 2, "id": 1}]


def test_the_end_of_a_table_is_told_where_the_start_of_a_stream_is_gone(table: dn.DeltaTable) -> None:
    table.append({"id": [1]})
    table.log.checkpoint()
    Path(table.path, "_delta_log", f"{0:020}.json").unlink()
    options = {"path": table.path, "startingVersion": "0"}
    end = stream_reader(options, stream_schema(options)).reportLatestOffset()
    assert end is not None and end["version"] == 2


def test_a_start_that_is_gone_is_told(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    frame = read(spark, table)
    batches(frame, tmp_path / "c")
    for n in range(1, 4):
        table.append({"id": [n]})
    table.log.checkpoint()
    for version in range(2):
        Path(table.path, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFound, match="cleaned up"):
        batches(frame, tmp_path / "c")
    table.overwrite({"id": [9]})
    gone = read(spark, table, startingVersion=3, skipChangeCommits=True)
    table.vacuum(0, check=False)
    with pytest.raises(DataFileNotFound, match="VACUUM"):
        batches(gone, tmp_path / "c2")


@pytest.mark.parametrize(("options", "pattern"), [
    ({"maxFilesPerTriger": 1}, "knows no option 'maxfilespertriger'"),
    ({"maxFilesPerTrigger": 0}, "at least 1"),
    ({"startingVersion": "first"}, "whole number"),
    ({"startingVersion": 1, "startingTimestamp": "2020-01-01"}, "contradict"),
    ({"maxFilesPerTrigger": 1, "versionAsOf": 0}, "(?i)versionAsOf"),
], ids=str)
def test_options_that_are_wrong_are_named(
    spark: Any, table: dn.DeltaTable, tmp_path: Path, options: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(InvalidArgument, match=pattern), translate_errors():
        batches(read(spark, table, **options), tmp_path / "c")


def test_a_batch_reader_takes_no_options_of_streams(spark: Any, table: dn.DeltaTable) -> None:
    for name, value in (("maxFilesPerTrigger", "1"), ("startingVersion", "0")):
        with pytest.raises(InvalidArgument, match=f"(?i){name}"), translate_errors():
            spark.read.format("deltanb").option(name, value).load(table.path).collect()


def test_a_stream_tells_how_far_it_is_behind(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    table.append({"id": [1]})
    into = dn.create(tmp_path / "into", "id bigint")
    stream = into.write_stream(table.read_stream(spark), checkpoint=tmp_path / "c", trigger="availableNow",
                               query_name="ducks")
    assert stream.awaitTermination(PATIENCE)
    state = stream.state
    assert (state.status, state.num_batches, state.rows_in, state.rows_out) == ("stopped", 1, 2, 2)
    assert [batch.version for batch in state.batches] == [1] and state.batches[0].duration is not None
    table.append({"id": [2]})
    [before], [now] = state.sources, stream.state.sources
    assert (before.read_version, before.behind, before.lag) == (1, 0, 0)
    assert (now.name, now.newest, now.behind) == ("table", 2, 1) and now.lag is not None
    assert repr(stream) == "<TableStream ducks, stopped, into into>"
    assert "table  v1 of v2  1 version behind" in str(stream)
    assert_consistent(stream)
    assert into.timeline().commits[-1].writer == "stream ducks"


# -- into a table ------------------------------------------------------------------------------------


def test_each_batch_is_one_commit_under_the_id_of_the_query(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    target = dn.create(tmp_path / "target", "id bigint")
    table.append({"id": [1]})
    frame = read(spark, table, maxFilesPerTrigger=1)
    write(frame, target, tmp_path / "c", userMetadata="by stream")
    assert ids(target) == [0, 1] and target.version == 2
    query = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    newest = target.commit(2)
    digest = Checkpoint(tmp_path / "c").offsets(1)
    assert newest.operation_parameters == {
        "outputMode": "Append", "queryId": query, "epochId": "1", "offsetsDigest": digest} and digest
    assert newest.user_metadata == "by stream"
    assert target.snapshot.set_transactions == {query: 1}
    for path in (tmp_path / "c" / "commits").glob("*1*"):  # as a kill before Spark's note leaves it
        path.unlink()
    files = data_files(target)
    write(frame, target, tmp_path / "c", userMetadata="by stream")
    assert ids(target) == [0, 1] and target.version == 2 and data_files(target) == files
    table.append({"id": [2]})
    write(frame, target, tmp_path / "c")
    assert ids(target) == [0, 1, 2]


def test_a_query_with_a_name_has_its_lane(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    into = dn.create(tmp_path / "into", "id bigint")
    writer = read(spark, table).writeStream.format("deltanb").queryName("ducks").trigger(availableNow=True)
    with translate_errors():
        query = writer.option("checkpointLocation", str(tmp_path / "c")).start(into.path)
        assert query.awaitTermination(PATIENCE)
    assert ids(into) == [0]
    assert [track.writer for track in into.timeline().commits][1:] == ["stream ducks"]


def test_complete_replaces_all_rows(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    target = dn.create(tmp_path / "target", {"id": [7], "count": [7]})
    table.append({"id": [0]})
    frame = read(spark, table, maxFilesPerTrigger=1).groupBy("id").count()
    write(frame, target, tmp_path / "c", "complete")
    assert target.to_arrow().to_pylist() == [{"id": 0, "count": 2}] and target.version == 2


def test_what_cannot_be_written_is_refused_by_name(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    frame, target = read(spark, table), dn.create(tmp_path / "target", "id string, need int not null")
    with pytest.raises(SchemaMismatch, match="need"):
        write(frame, target, tmp_path / "c")
    with pytest.raises(InvalidArgument, match="did you mean mergeSchema"):
        write(frame, target, tmp_path / "c3", mergeShema="true")
    assert target.version == 0 and data_files(target) == 0


def test_a_stream_makes_its_table_with_its_first_batch(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    table.append({"id": [1, 2]})
    path, frame = tmp_path / "made", read(spark, table, maxFilesPerTrigger=1).selectExpr("id", "id % 2 p")
    stream = frame.writeStream.format("deltanb").trigger(availableNow=True).option("partitionBy", "p")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).option("delta.appendOnly", "true")
    assert stream.start(str(path)).awaitTermination(PATIENCE)
    made = dn.open(path)
    assert (ids(made), made.partition_columns, made.version) == ([0, 1, 2], ("p",), 1)
    assert made.properties["delta.appendOnly"] == "true"
    assert [entry.operation for entry in made.history()] == ["STREAMING UPDATE"] * 2
    table.append({"id": [3]})
    assert stream.start(str(path)).awaitTermination(PATIENCE)
    assert ids(dn.open(path)) == [0, 1, 2, 3]


def test_a_checkpoint_of_another_table_leaves_nothing(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    one, other = (dn.create(tmp_path / name, "id bigint") for name in ("one", "other"))
    frame = read(spark, table)
    write(frame, one, tmp_path / "c")
    table.append({"id": [1]})
    with pytest.raises(CheckpointMismatch, match="belongs to another table"):
        write(frame, other, tmp_path / "c")
    assert other.version == 0 and data_files(other) == 0


def test_two_writers_of_one_id_are_told(spark: Any, table: dn.DeltaTable, tmp_path: Path) -> None:
    target, frame = dn.create(tmp_path / "target", "id bigint"), read(spark, table, maxFilesPerTrigger=1)
    write(frame, target, tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    for n in (1, 2):
        table.append({"id": [n]})
    write(frame, target, tmp_path / "c")
    files = data_files(target)
    with pytest.raises(CheckpointMismatch, match="knows batches up to 1"):
        write(frame, target, tmp_path / "copy")
    assert ids(target) == [0, 1, 2] and data_files(target) == files


def test_an_id_of_ones_own_does_not_begin_anew(table: dn.DeltaTable) -> None:
    options = {"path": table.path, "txnAppId": "mine"}

    def write_batch(number: int) -> None:
        writer = stream_writer(options, stream_schema({"path": table.path}), False)
        rows = pa.record_batch({"id": pa.array([number + 1], pa.int64())})
        writer.commit([pickle.loads(pickle.dumps(writer)).write(iter([rows]))], number)

    for number in (0, 1, 1):
        write_batch(number)
    files = data_files(table)
    with pytest.raises(CheckpointMismatch, match="batches of txnAppId 'mine' up to 1"):
        write_batch(0)
    assert ids(table) == [0, 1, 2] and data_files(table) == files


def test_others_may_write_and_change_columns_while_a_stream_runs(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    target = dn.create(tmp_path / "target", "id bigint")
    writer = read(spark, table).writeStream.format("deltanb")
    stream = writer.option("checkpointLocation", str(tmp_path / "c")).start(target.path)
    try:
        stream.processAllAvailable()
        target.append({"id": [100]})
        target.add_columns({"more": "int"})
        table.append({"id": [1]})
        stream.processAllAvailable()
    finally:
        stream.stop()
    assert ids(target) == [0, 1, 100]
