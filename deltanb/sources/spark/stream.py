"""Streams by the data source: a table read in micro-batches, and micro-batches written to one.

What lives here: :func:`stream_schema`, :class:`DeltaStreamReader` and :class:`DeltaStreamWriter`, made of the
options of ``spark.readStream.format("deltanb")`` and ``df.writeStream.format("deltanb")``.
What it does not know: which files a stream reads (``commands/read/stream``), how tasks read and write them
(``executors``), how a batch is committed (``commands/rows/two_phase_write``).

Spark asks the reader in one Python process for offsets and files, and sends another copy of it to executors.
Of the writer it makes a fresh copy for each commit; so a batch is checked against the table's own record of
the query, whose id is read from the checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from deltanb.commands.read.stream import MAX_FILES, Offset, Position, StreamOptions, TableStreamSource
from deltanb.commands.rows.two_phase_write import PlannedWrite, commit_batch, discard, planned
from deltanb.commands.rows.write import Batch
from deltanb.commands.rows.write import WriteOptions as Options
from deltanb.engines.arrow.data_file import Scan
from deltanb.engines.spark.columns import spark_schema
from deltanb.engines.spark.executors import Place, WritePlan, ended, new_name, parts, read_files
from deltanb.engines.spark.permits import grant, open_permits
from deltanb.engines.spark.reachable import check_reachable
from deltanb.engines.spark.session import spark as start_session
from deltanb.engines.spark.stream_checkpoint import Checkpoint
from deltanb.engines.spark.stream_sink import check_batch, check_id
from deltanb.errors import (
    DataFileNotFound,
    InvalidArgument,
    StreamSourceChanged,
    TableNotFound,
)
from deltanb.log.commits import PublishedCommits
from deltanb.log.snapshot import Snapshot
from deltanb.schema.types import StructType
from deltanb.sources.spark.option_table import READ, STREAM_READ, STREAM_WRITE, by_lower_name
from deltanb.sources.spark.options import SparkOptions
from deltanb.sources.spark.tasks import Task, changes_as_tasks, in_form, read_changes
from deltanb.sources.spark.tracked_columns import TrackedColumns
from deltanb.sources.spark.write import Wrote, check_layout, files_of, in_words_of_spark
from deltanb.store.uris import is_served
from deltanb.text import upper
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import types as T

__all__ = ["DeltaStreamReader", "DeltaStreamWriter", "is_stream", "read_stream", "stream_reader",
           "stream_schema", "stream_writer"]


# --- reading --------------------------------------------------------------------------------------

def is_stream(options: Mapping[str, str]) -> bool:
    """Whether options are those of a stream, which nothing else has; others may be a stream's, too.

    The change feed without a start is one: a stream of it begins with the table as it is.
    """
    texts = {name.lower(): value.lower() for name, value in options.items()}
    read, stream = by_lower_name([READ]), by_lower_name([STREAM_READ])
    changes = any(value == "true" for spelling, value in texts.items()
                  if stream.get(spelling) == "readChangeFeed")
    starts = texts.keys() & {"startingversion", "startingtimestamp"}
    of_a_version = texts.keys() & (read.keys() - stream.keys())
    return bool(texts.keys() & (stream.keys() - read.keys()) or texts.get("startingversion") == "latest"
                or (bool(starts) != changes and not of_a_version))


def read_stream(
    log: DeltaLog, session: Any, options: Mapping[str, Any], storage_options: Mapping[str, Any] | None = None
) -> Any:
    """A table as a stream; options by their names in Spark, those that are None are not given.

    Raises:
        InvalidArgument: options that contradict each other, or a table that executors cannot find.
    """
    if storage_options and getattr(log.store, "access", None) is None:
        raise InvalidArgument(
            f"storage_options say how to get to a bucket, and {log.path} is in none; leave them out",
            path=log.path)
    ways = {"memory": "Stream from a table in a folder or a bucket"}
    if log.commits.is_managed:  # those cannot ask its catalog which commits there are
        options = {**options, "publishedCommits": True}
    if not storage_options:  # else these are sent
        ways["credentials"] = ("Give them as read_stream(storage_options=...), or to the environment of "
                               "those processes, and open the table without")
    check_reachable(log, "a stream is read by processes of Spark", ways)
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value)
             for name, value in {**options, **(storage_options or {})}.items() if value is not None}
    _Read({**texts, "path": log.path})
    session = start_session() if session is None else session
    upper.register_format(session)
    return session.readStream.format("deltanb").options(**texts).load(log.path)


def stream_schema(options: Mapping[str, str]) -> T.StructType:
    """The columns of a stream."""
    return _Read(options).schema


def stream_reader(options: Mapping[str, str], schema: T.StructType) -> DeltaStreamReader:
    """The reader of a stream with some columns."""
    return DeltaStreamReader(_Read(options), schema)


class _Read:
    """What a stream reads: its options, and the table as it is now."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = SparkOptions(options, STREAM_READ)
        max_files, max_bytes = taken.number("maxFilesPerTrigger"), taken.size("maxBytesPerTrigger")
        start = taken.text("startingVersion")
        latest = start is not None and start.strip().lower() == "latest"
        self.options = StreamOptions(
            start="latest" if latest else taken.number("startingVersion"),
            timestamp=taken.text("startingTimestamp"),
            max_files=MAX_FILES if max_files is None and max_bytes is None else max_files,
            max_bytes=max_bytes,
            ignore_deletes=taken.flag("ignoreDeletes"),
            skip_change_commits=taken.flag("skipChangeCommits"),
            changes=taken.flag("readChangeFeed"),
            ignore_changes=taken.flag("ignoreChanges"),
            fail_on_data_loss=taken.flag("failOnDataLoss", True),
            exclude=taken.text("excludeRegex"))
        self.place = Place.at(taken.path, taken.storage_options)
        store = self.place.store
        self.log = DeltaLog(store, PublishedCommits(store)) if taken.flag("publishedCommits") \
            else DeltaLog.for_table(store)
        self.shown: Snapshot = self.log.update()
        if self.shown.version < 0:
            raise TableNotFound(
                f"there is no Delta table at {self.log.path} to stream from; create it first",
                path=self.log.path)
        self.tracked = self._tracked(taken, self.shown)
        if self.tracked is not None:
            known = self.tracked.version
            self.shown = self.log.snapshot_at(self._first_shown() if known is None else known)
        self.shown.check_readable()

    def _first_shown(self) -> int:
        """The version whose columns the stream begins with: where it starts, if it is there already."""
        start = TableStreamSource(self.log, self.options, self.shown).initial()
        return min(start.position.version, self.shown.version)

    def _tracked(self, taken: SparkOptions, newest: Snapshot) -> TrackedColumns | None:
        """What remembers the columns of the stream, where that is asked for."""
        location, source = taken.text("schemaTrackingLocation"), taken.text("streamingSourceTrackingId")
        if location is None:
            return None
        if not self.options.fail_on_data_loss:
            raise InvalidArgument(
                "schemaTrackingLocation remembers at which commit columns change, and failOnDataLoss=false "
                "goes on where commits are lost; give one of them")
        options = taken.storage_options if is_served(location) else None
        return TrackedColumns(location, newest.metadata.id, source, options)

    @cached_property
    def source(self) -> TableStreamSource:
        """The table as a stream reads it."""
        note_columns = None if self.tracked is None else self.tracked.note
        return TableStreamSource(self.log, self.options, self.shown, note_columns)

    @property
    def schema(self) -> T.StructType:
        """Its columns."""
        return spark_schema(StructType(self.source.scan.columns))


class DeltaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table in micro-batches: asked on the driver, rows read on executors."""

    def __init__(self, read: _Read, schema: T.StructType) -> None:
        schema_ = read.schema
        lines = [f"- {field.name}: {field.dataType.simpleString()}" for field in schema.fields
                 if field.name not in schema_.names or schema_[field.name].dataType != field.dataType]
        lines += [f"+ {field.name}: {field.dataType.simpleString()}" for field in schema_.fields
                  if field.name not in schema.names]
        if lines:
            raise StreamSourceChanged(
                f"the frame of the stream was made with other columns than {read.log.path} has now:\n"
                + "\n".join(f"  {line}" for line in lines)
                + "\nMake it again (spark.readStream…load), without columns of your own, and start the "
                  "stream "
                "again with the same checkpoint", differences=lines, path=read.log.path)
        self._read, self._form = read, to_arrow_schema(schema, timezone="UTC")
        self._is_bounded = False

    def __reduce__(self) -> tuple[Any, ...]:
        """As executors get it: where the files are, and what is asked of each."""
        read = self._read
        rows = read_changes if read.options.changes else read_files
        return _TaskReader, (read.place, read.source.scan, rows, self._form)

    def initialOffset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins."""
        if self._read.tracked is not None and self._read.tracked.version is None:
            self._read.tracked.note(self._read.shown.version)
        return self._read.source.initial().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Of the options; where both limits are given, both count."""
        options = self._read.options
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and no more."""
        self._read.source.stop_at_newest()
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        at = Offset.of(start)
        limited = self._is_bounded or not isinstance(limit, ReadAllAvailable)
        return self._read.source.latest(at, limited=limited).to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the table, which Spark shows beside how far the stream is."""
        end = Position(self._read.log.update().version + 1, True, 0)
        return Offset(self._read.shown.metadata.id, end, end).to_dict()  # where it began may be gone by now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What each task of a batch reads."""
        files = self._read.source.files(Offset.of(start), Offset.of(end))
        if not self._read.options.changes:
            return [*map(Task, parts(files))]
        return [*changes_as_tasks(files)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task; only executors read."""
        raise NotImplementedError


class _TaskReader(DataSourceStreamReader):
    """A reader on an executor."""

    def __init__(self, place: Place, scan: Scan, read: Any, form: pa.Schema) -> None:
        self.place, self.scan, self.rows, self.form = place, scan, read, form

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task as Arrow batches in Spark's form."""
        assert isinstance(partition, Task)
        try:
            for batch in self.rows(self.place, self.scan, partition.files):
                yield in_form([batch.column(name) for name in self.form.names], self.form)  # in any order
        except DataFileNotFound as error:
            raise DataFileNotFound(
                f"the stream is to read a file of {self.scan.table} that is gone: {error}. VACUUM removes "
                "what newer versions no longer need after the retention time, and the stream was away for "
                "longer. Start it with a new checkpoint, from the table as it is now") from error


# --- writing --------------------------------------------------------------------------------------

def stream_writer(options: Mapping[str, str], schema: T.StructType, overwrite: bool) -> DeltaStreamWriter:
    """The writer of a stream with some columns; ``overwrite`` is the output mode ``complete``.

    Raises:
        InvalidArgument: the id of the query cannot be known.
        SchemaMismatch, …: what cannot be written is refused before any task begins.
    """
    taken = SparkOptions(options, STREAM_WRITE)
    app_id, location = taken.text("txnAppId"), taken.text("checkpointLocation")
    checkpoint = None if location is None else Checkpoint(location)
    if app_id is None and (checkpoint is None or checkpoint.folder is None):
        raise InvalidArgument(
            'a stream into format("deltanb") counts its batches under the id of its query, which is in the '
            'checkpoint: give it as .option("checkpointLocation", …), in a folder of this machine, or '
            'another id that no other stream uses as .option("txnAppId", …)')
    place = Place.at(taken.path, taken.storage_options)
    log = DeltaLog.for_table(place.store)
    log.update()
    partition_by, cluster_by = taken.names("partitionBy"), taken.names("clusterBy") or ()
    overwrites_schema = taken.flag("overwriteSchema")
    if overwrites_schema and not overwrite:
        raise InvalidArgument(
            'option "overwriteSchema" of format("deltanb") is for .outputMode("complete"), which replaces '
            'all rows; leave it out, or add columns by .option("mergeSchema", "true")')
    mode = "complete" if overwrite else "append"
    with in_words_of_spark('.outputMode("complete")'):
        if not overwrites_schema:
            check_layout(log, partition_by, cluster_by)
        write_options = Options(
            "Overwrite" if overwrite else "Append", taken.flag("mergeSchema"), overwrites_schema,
            partition_by=(partition_by or ()) if overwrites_schema else None,
            user_metadata=taken.text("userMetadata"), file_options=taken.file_options(),
            cluster_by=cluster_by if overwrites_schema else ())
        made = planned(log, StructType.from_json(schema.json()), write_options, partition_by or (),
                       taken.properties, cluster_by)
    assert made.target is not None
    of_stream = hashlib.sha256(f"{app_id}\n{location}".encode()).hexdigest()[:8]
    plan = WritePlan(place, made.target, new_name(f"part-{of_stream}"))
    return DeltaStreamWriter(made, plan, mode, app_id, checkpoint, taken.text("queryName"))


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches: files by tasks, a commit for each batch on the driver.

    Spark makes one writer of a batch and sends it to executors, and another one, which is to commit or abort
    the batch. That one knows the name of the write from what the tasks told; where none of them told
    anything, from the permits of this stream.
    """

    def __init__(
        self, made: PlannedWrite, plan: WritePlan, mode: str, app_id: str | None,
        checkpoint: Checkpoint | None, name: str | None = None,
    ) -> None:
        self.planned, self.plan, self.mode = made, plan, mode
        self.app_id, self.checkpoint, self.name = app_id, checkpoint, name
        self._is_sent = False

    def __getstate__(self) -> dict[str, Any]:
        """As executors get it: their write begins."""
        if not self._is_sent:
            grant(self.plan.place.opened(), self.plan.name)
            self._is_sent = True
        return {**vars(self)}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task as files; on an executor."""
        return Wrote.of(self.plan, iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Commit what the tasks of a batch wrote, once; on the driver."""
        files = files_of(self._writes(messages)[0], messages)
        log = DeltaLog.for_table(self.plan.place.opened())
        queries = [message.query for message in messages if message is not None and message.query]
        try:
            batch = self._batch(log, batchId, queries[0] if queries else None)
        except BaseException:
            discard(log, files)
            raise
        # The table may have changed since: the files are checked against what they were written for.
        target = next(message.target for message in messages if message is not None and message.target)
        commit_batch(log, replace(self.planned, target=target), batch, files)

    def _batch(self, log: DeltaLog, number: int, query: str | None) -> Batch:
        """A batch as it is counted, where it is this stream's turn; of a query without tasks nobody knows."""
        if self.app_id is None:
            assert self.checkpoint is not None
            query_id, also = check_batch(log, self.checkpoint, number), None
        else:
            check_id(log, self.app_id, query, number)
            query_id, also = self.app_id, query
        offsets, reads, newest = None, False, log.snapshot  # as the check has seen it
        if self.checkpoint is not None:
            offsets = self.checkpoint.offsets(number)
            reads = newest.version >= 0 and self.checkpoint.reads(number, newest.metadata.id)
        return Batch(query_id, number, self.mode, reads, self.name, offsets, also=also)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove what the tasks of a batch wrote; on the driver."""
        if None in messages:
            # Spark plans each batch anew. Should it not, batches before have the name, too: their files stay.
            log = DeltaLog.for_table(self.plan.place.opened())
            newest = log.update()
            paths = newest.select_files(["path"])["path"].to_pylist() if newest.version >= 0 else []
            for write in self._writes(messages):
                ended(write, paths)

    def _writes(self, messages: Sequence[Any]) -> list[WritePlan]:
        """The write whose tasks have told these; or those of this stream that have begun and not ended."""
        writes = {message.write for message in messages if message is not None}
        beginning = self.plan.name.rpartition("-")[0]
        return [replace(self.plan, name=name)
                for name in writes or open_permits(self.plan.place.opened(), beginning)]
