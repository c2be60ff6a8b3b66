"""Streams that meet: in one table, under one id, in the table that they read; and with another trigger."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

from pyspark.sql import types as T

import deltanb as dn
from deltanb.errors import (
    CheckpointMismatch,
    ConcurrentAppendException,
    IllegalStateError,
    MetadataChangedException,
)
from deltanb.sources.spark.source import translate_errors
from deltanb.sources.spark.stream import DeltaStreamWriter, stream_writer
from deltanb.sources.spark.write import Wrote
from tests.helpers import files_of, ids, parquet_files, rows
from tests.patience import PATIENCE

pytestmark = pytest.mark.spark

WAYS = ("write_stream", "format")


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", "id bigint")


def begin(way: str, frame: Any, table: dn.DeltaTable, checkpoint: Path, trigger: dict[str, Any]) -> Any:
    """A stream into a table, by either way."""
    if way == "write_stream":
        return table.write_stream(frame, checkpoint=checkpoint, trigger=trigger)
    writer = frame.writeStream.format("deltanb").option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger).start(table.path)


def run(way: str, frame: Any, table: dn.DeltaTable, checkpoint: Path, **trigger: Any) -> None:
    with translate_errors():
        stream = begin(way, frame, table, checkpoint, trigger or {"availableNow": True})
        assert stream.awaitTermination(PATIENCE)


@pytest.mark.parametrize("ways", [("write_stream", "write_stream"), ("write_stream", "format")], ids="+".join)
def test_two_streams_into_one_table_at_once_lose_and_double_nothing(
    ways: tuple[str, str], spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    streams = []
    for number, way in enumerate(ways):
        source = dn.create(tmp_path / f"source-{number}", "id bigint")
        for n in range(4):
            source.append({"id": [10 * number + n]})
        frame = source.read_stream(spark, max_files_per_trigger=1)
        streams.append(begin(way, frame, table, tmp_path / f"c{number}", {"availableNow": True}))
    for stream in streams:
        assert stream.awaitTermination(PATIENCE)
    assert ids(table) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert table.snapshot.set_transactions == {stream.id: 3 for stream in streams}
    assert [commit.operation for commit in table.history()] == ["STREAMING UPDATE"] * 8 + ["CREATE TABLE"]


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_goes_on_with_another_trigger(
    way: str, spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    source = dn.create(tmp_path / "source", {"id": [0]})
    frame = source.read_stream(spark, max_files_per_trigger=1)
    stream = begin(way, frame, table, tmp_path / "c", {"processingTime": "100 milliseconds"})
    try:
        stream.processAllAvailable()
    finally:
        stream.stop()
    for n, trigger in enumerate(("availableNow", "once", "availableNow"), 1):
        source.append({"id": [n]})
        run(way, frame, table, tmp_path / "c", **{trigger: True})
    assert ids(table) == [0, 1, 2, 3]
    assert table.snapshot.set_transactions == {stream.id: 3}


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_into_the_table_it_follows_ends_where_the_table_ended(
    way: str, spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    table.append({"id": [1]})
    for count in (2, 3):
        run(way, table.read_stream(spark), table, tmp_path / "c")
        assert ids(table) == [1] * count, "what it wrote comes with the next run"


def test_a_batch_that_reads_its_table_by_the_format_reads_all_of_it(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    table.append({"id": [1]})
    path, met = table.path, str(tmp_path / "met")

    def let_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # in a process of Spark's
        for batch in batches:
            with suppress(FileExistsError), open(met, "x"):
                dn.open(path).append({"id": [9]})
            yield batch

    known = spark.read.format("deltanb").load(path).selectExpr("id AS known")
    source = dn.create(tmp_path / "source", {"id": [1]}).read_stream(spark)
    rows = source.join(known, source["id"] == known["known"], "left_semi").mapInArrow(let_in, "id bigint")
    with pytest.raises(ConcurrentAppendException):
        run("write_stream", rows, table, tmp_path / "c")
    assert ids(table) == [1, 9], "the rival's row alone has come"
    run("write_stream", rows, table, tmp_path / "c")
    assert ids(table) == [1, 1, 9]


# -- who a batch belongs to ----------------------------------------------------------------------------


def planned(checkpoint: Path, number: int, when: int) -> None:
    """What Spark notes of a batch before it runs."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    (checkpoint / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":{when}}}\n{{"logOffset":0}}')


def write_batch(table: dn.DeltaTable, number: int, query: str | None = None, **options: Any) -> None:
    """A batch with one row, as Spark asks for it; ``query`` is what its task knows."""
    message = written(batch_writer(table, **options), number)
    batch_writer(table, **options).commit([replace(message, query=query)], number)


def batch_writer(table: dn.DeltaTable, *others: str, **options: Any) -> DeltaStreamWriter:
    """As Spark makes it: one for the tasks of a batch, and another one to commit or abort it."""
    schema = T.StructType([T.StructField(name, T.LongType()) for name in ("id", *others)])
    return stream_writer({"path": table.path, **options}, schema, False)


def written(writer: DeltaStreamWriter, number: int, *others: str) -> Wrote:
    """What a task tells that has written a row, in another process."""
    rows = pa.record_batch({name: pa.array([number], pa.int64()) for name in ("id", *others)})
    message = pickle.loads(pickle.dumps(writer)).write(iter([rows]))
    assert isinstance(message, Wrote)
    return message


def test_two_live_copies_of_a_checkpoint_are_told_apart(table: dn.DeltaTable, tmp_path: Path) -> None:
    planned(tmp_path / "c", 0, when=1)
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    planned(tmp_path / "copy", 0, when=2)  # each has planned its own batch 0, at its own time
    write_batch(table, 0, checkpointLocation=str(tmp_path / "c"))
    before = files_of(table)
    with pytest.raises(CheckpointMismatch, match="with other rows"):
        write_batch(table, 0, checkpointLocation=str(tmp_path / "copy"))
    assert files_of(table) == before and ids(table) == [0]
    write_batch(table, 0, checkpointLocation=str(tmp_path / "c"))
    assert files_of(table) == before, "the batch that runs again is there, and leaves nothing"
    planned(tmp_path / "c", 1, when=3)
    write_batch(table, 1, checkpointLocation=str(tmp_path / "c"))
    assert ids(table) == [0, 1]


def test_an_id_of_ones_own_is_that_of_one_query(table: dn.DeltaTable) -> None:
    write_batch(table, 0, "one", txnAppId="mine")
    before = files_of(table)
    with pytest.raises(CheckpointMismatch, match="another stream has the id"):
        write_batch(table, 0, "other", txnAppId="mine")
    write_batch(table, 0, "one", txnAppId="mine")
    assert files_of(table) == before and ids(table) == [0]
    with pytest.raises(CheckpointMismatch, match="lacks those before"):
        write_batch(table, 5, "other", txnAppId="mine")
    write_batch(table, 1, "one", txnAppId="mine")
    assert ids(table) == [0, 1] and table.snapshot.set_transactions == {"mine": 1, "one": 1}


def test_files_are_held_against_the_table_that_they_were_written_for(table: dn.DeltaTable) -> None:
    before = files_of(table)
    message = written(batch_writer(table, txnAppId="mine"), 100)
    table.add_constraint("small", "id < 10")
    with pytest.raises(MetadataChangedException, match="have changed since the stream began"):
        batch_writer(table, txnAppId="mine").commit([message], 0)
    assert ids(table) == [] and files_of(table) == before


def test_a_new_column_has_the_name_by_which_the_tasks_wrote_it(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "mapped", "id bigint", properties={"delta.columnMapping.mode": "name"})
    options = {"txnAppId": "mine", "mergeSchema": "true"}
    message = written(batch_writer(table, "more", **options), 5, "more")
    batch_writer(table, "more", **options).commit([message], 0)
    assert rows(table) == [{"id": 5, "more": 5}]


def test_what_an_attempt_left_that_was_killed_goes_with_the_commit(
    table: dn.DeltaTable, tmp_path: Path
) -> None:
    planned(tmp_path / "c", 0, when=1)
    before, options = files_of(table), {"checkpointLocation": str(tmp_path / "c")}
    writer = batch_writer(table, **options)
    written(writer, 1)  # and is killed before it could say so
    again = written(writer, 1)
    assert len(parquet_files(Path(table.path))) == 2
    batch_writer(table, **options).commit([replace(again, is_only=False)], 0)
    assert files_of(table) - before == {file.path for file in again.files} and ids(table) == [1]


@pytest.mark.parametrize("is_told", [True, False], ids=["one task has told", "none has"])
def test_a_batch_that_is_given_up_leaves_nothing_of_tasks_that_still_run(
    table: dn.DeltaTable, tmp_path: Path, is_told: bool
) -> None:
    options = {"checkpointLocation": str(tmp_path / "c")}
    other = batch_writer(table, checkpointLocation=str(tmp_path / "other"))
    theirs = written(other, 7)
    before = files_of(table)
    writer = batch_writer(table, **options)
    message = written(writer, 1)
    batch_writer(table, **options).abort([message if is_told else None, None], 0)
    assert files_of(table) == before, "those of another stream stay"
    with pytest.raises(IllegalStateError, match="has ended"):
        written(writer, 1)
    assert files_of(table) == before
    planned(tmp_path / "other", 0, when=1)
    batch_writer(table, checkpointLocation=str(tmp_path / "other")).commit([theirs], 0)
    assert ids(table) == [7]
