"""WRITE STREAM: the micro-batches of a Spark stream, each of them one commit to a table.

What lives here: :func:`write_stream`, and the commit of a batch in each output mode (:func:`add_batch`).
What it does not know: Spark's queries and checkpoints (``engines/spark/streaming``), how rows become files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.commands.begin import begin, refuse_append_only
from deltanb.commands.define import evolution
from deltanb.commands.merge.merge import SOURCE_ALIAS, TARGET_ALIAS, merge
from deltanb.commands.result import CommandResult
from deltanb.commands.rows.write import Batch, write_batch
from deltanb.engines.arrow import inputs
from deltanb.errors import InvalidArgument, MultipleSourceRowsMatched
from deltanb.log.file_options import FileOptions
from deltanb.schema.protocol import check_writable
from deltanb.schema.types import backticked
from deltanb.text.formatting import did_you_mean
from deltanb.transaction import active

if TYPE_CHECKING:
    from deltanb.engines.spark.streaming import TableStream
    from deltanb.transaction.delta_log import DeltaLog

MODES = ("append", "complete", "update")
TRIGGERS = ("availableNow", "processingTime", "once")
"""Spark's keywords; continuous processing has no batches, so there is nothing to commit."""


@active.command
def write_stream(
    log: DeltaLog,
    frame: Any,
    *,
    checkpoint: str | os.PathLike[str],
    mode: str = "append",
    keys: str | Sequence[str] | None = None,
    trigger: str | Mapping[str, Any] | None = None,
    query_name: str | None = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
) -> TableStream:
    """Start a stream into a table: each of its micro-batches becomes one commit, exactly once.

    A stream that is restarted with the same checkpoint continues where it stopped, for whatever reason. The
    table records the last batch of each query (as ``SetTransaction``: the query's id and the batch's), so
    that a batch that Spark repeats is skipped.

    On Spark Connect, a process of the server writes the batches. It needs deltanb, the table's folder, and
    for a bucket the credentials in its environment. Plain option values are sent there; functions (a clock,
    listeners of commits) are not.

    Args:
        frame: a streaming DataFrame of Spark.
        checkpoint: the folder in which Spark records the stream's progress, one per stream.
        mode: ``"append"`` adds the rows of each batch. ``"complete"`` replaces all rows of the table by those
        of
            each batch, as for aggregations. ``"update"`` takes the rows of each batch as the newest state of
            their ``keys``: they replace the rows with these keys, or are added. (Delta Spark has no such
            sink, and needs a MERGE in ``foreachBatch``; this is that MERGE.)
        keys: with ``mode="update"``, the columns that the stream groups by, which identify a row.
        trigger: ``"availableNow"``, an interval such as ``"10 seconds"``, or Spark's own keywords as a dict;
            by default batches follow each other immediately.
        query_name: the stream's name in Spark, and its lane in the table's timeline.
        merge_schema: add new columns to the table's schema.
        overwrite_schema: with ``mode="complete"``, give the table the schema of the stream.
        user_metadata: text to record in each commit.
        target_file_size, max_records_per_file, compression: of the data files, as in
            :func:`~deltanb.commands.rows.write.append`.

    Returns:
        The running query. ``awaitTermination()`` raises the error of a batch that could not be written.

    Raises:
        TableNotFound: there is no table.
        CheckpointMismatch: the checkpoint belongs to another table, or another stream writes under its id.
        SchemaMismatch: columns do not fit; the difference is named.
        AppendOnlyTable: rows would be removed, and the table has ``delta.appendOnly=true``.
        InvalidArgument: the frame is not a stream; options are unknown or contradict each other; Spark
        refuses
            the query; on Spark Connect, the server cannot reach the table, because it is a catalog's, in
            memory, or opened with credentials.

    >>> rows = session.readStream.format("rate").load()                       # doctest: +SKIP
    >>> stream = table.write_stream(rows, checkpoint="lake/rates.checkpoint")  # doctest: +SKIP
    """
    options = _Options(
        mode, _listed(keys), merge_schema, overwrite_schema, user_metadata, query_name,
        FileOptions(target_file_size, max_records_per_file, compression))
    _check_stream(frame)
    chosen = _trigger(trigger)
    _check_table(log, frame, options)
    _check_place(log, frame)
    from deltanb.engines.spark.stream_checkpoint import Checkpoint
    from deltanb.engines.spark.stream_sink import Sink, reads
    from deltanb.engines.spark.streaming import start

    sink = Sink(log, Checkpoint(checkpoint), partial(_add, log, options), reads(frame, log))
    return start(frame, sink, mode=mode, trigger=chosen, query_name=query_name)


def add_batch(
    log: DeltaLog, rows: Any, batch: Batch, keys: Sequence[str] = (), **more: Any
) -> CommandResult:
    """Write a batch by its mode: :func:`~deltanb.commands.rows.write.write_batch`, or a MERGE by keys.

    Args:
        rows: as in :func:`~deltanb.commands.rows.write.append`.
        keys: with the mode ``update``, the columns that identify a row; NULL equals NULL.
        more: ``merge_schema``, ``overwrite_schema``, ``user_metadata``, and options of files.

    Raises:
        MultipleSourceRowsMatched: a key twice in a batch of the mode ``update``.
        Others: as for an append, an overwrite or a MERGE.

    >>> import deltanb as dn
    >>> table = dn.create("counts", {"name": ["Donald"], "seen": [1]})
    >>> batch = Batch("a query", 0, "update")
    >>> result = add_batch(table.log, {"name": ["Donald", "Daisy"], "seen": [2, 1]}, batch, ["name"])
    >>> table.to_arrow().sort_by("seen").to_pylist()
    [{'name': 'Daisy', 'seen': 1}, {'name': 'Donald', 'seen': 2}]
    """
    if batch.mode == "update":
        return _merge(log, rows, batch, keys, more)
    return write_batch(log, rows, batch, **more)


@dataclass(frozen=True)
class _Options:
    """The options of a stream."""

    mode: str
    keys: tuple[str, ...]
    merge_schema: bool
    overwrite_schema: bool
    user_metadata: str | None
    query_name: str | None
    file_options: FileOptions

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            hint, _ = did_you_mean(str(self.mode), MODES)
            raise InvalidArgument(f"mode={self.mode!r} is not an output mode of a stream; {hint}")
        if self.mode == "update" and not self.keys:
            raise InvalidArgument(
                "mode='update' needs keys=[…], the columns that the stream groups by: its rows replace those "
                "of the table with these values. Give them, or use mode='append' or 'complete'")
        if self.keys and self.mode != "update":
            raise InvalidArgument(f"keys needs mode='update'; mode={self.mode!r} looks for no rows")
        if self.overwrite_schema and self.mode != "complete":
            raise InvalidArgument("overwrite_schema needs mode='complete', which replaces all rows")
        if self.mode == "update" and self.file_options != FileOptions():
            raise InvalidArgument(
                "target_file_size, max_records_per_file and compression are for files of new rows; "
                "mode='update' writes files of the table again, as its properties say: delta.targetFileSize "
                "and delta.parquet.compression.codec")
        if self.overwrite_schema and self.merge_schema:
            raise InvalidArgument("merge_schema=True and overwrite_schema=True contradict each other; give "
                                  "one of them")

    @property
    def more(self) -> dict[str, Any]:
        """The options of a single write."""
        return {"merge_schema": self.merge_schema, "overwrite_schema": self.overwrite_schema,
                "user_metadata": self.user_metadata, **vars(self.file_options)}


def _add(
    log: DeltaLog, options: _Options, rows: Any, query_id: str, number: int, reads_table: bool
) -> int | None:
    batch = Batch(query_id, number, options.mode, reads_table, options.query_name)
    return add_batch(log, rows, batch, options.keys, **options.more).version


# --- before the stream begins ---------------------------------------------------------------------

def _listed(keys: Any) -> tuple[str, ...]:
    names = (keys,) if isinstance(keys, str) else () if keys is None else tuple(keys)
    if not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"keys={keys!r:.80} must be names of columns")
    return names


def _check_stream(frame: Any) -> None:
    if not inputs.is_spark(frame):
        raise InvalidArgument(
            f"write_stream takes a Spark DataFrame that is a stream, found {type(frame).__name__}; "
            "write other rows with append(rows)")
    if not getattr(frame, "isStreaming", False):
        raise InvalidArgument(
            "the frame is not a stream: it has an end; write it with append(frame), or read it with "
            "spark.readStream")


def _trigger(trigger: Any) -> dict[str, Any] | None:
    """Spark's keywords for a user's trigger."""
    if trigger is None:
        return None
    if isinstance(trigger, str):
        return {trigger: True} if trigger in ("availableNow", "once") else {"processingTime": trigger}
    if not isinstance(trigger, Mapping) or len(trigger) != 1 or next(iter(trigger)) not in TRIGGERS:
        raise InvalidArgument(
            f"trigger={trigger!r:.80} is not a trigger of a table's streams; give 'availableNow', an "
            "interval such as '10 seconds', or one of Spark's keywords with its value: {'processingTime': "
            "'10 seconds'}")
    return dict(trigger)


def _check_table(log: DeltaLog, frame: Any, options: _Options) -> None:
    """Refuse at once what would fail in every batch."""
    txn = begin(log, None)
    if options.mode == "complete":
        refuse_append_only(txn, "mode='complete'")
    for key in options.keys:
        for columns, where in ((txn.snapshot.schema.names, "the table"), (frame.columns, "the stream")):
            if key.lower() not in (name.lower() for name in columns):
                raise InvalidArgument(
                    f"keys: {where} has no column {key!r}; {did_you_mean(key, columns)[0]}", column=key)
    if options.merge_schema or options.overwrite_schema or options.mode == "update":
        evolution.schema_of(frame)
        return
    check_writable(txn.protocol, txn.metadata, txn.table)
    from deltanb.engines.spark.write import check_columns

    check_columns(frame, txn.metadata, txn.protocol)


def _check_place(log: DeltaLog, frame: Any) -> None:
    """Refuse a table that a Connect server cannot reach, since its processes write the batches."""
    from deltanb.engines.spark.session_request import is_remote as is_connect

    if not is_connect(frame.sparkSession):
        return
    from deltanb.engines.spark.reachable import check_reachable

    check_reachable(log, "on Spark Connect batches are written by a process of the server", {
        "committer": "Stream from a session of this machine: deltanb.spark()",
        "memory": "Write to a table in a folder or a bucket",
        "credentials": "Give them to the server's environment and open the table without; or write by "
                       'frame.writeStream.format("deltanb").options(**storage_options), which sends them'})


# --- update -----------------------------------------------------------------------------------------

def _merge(
    log: DeltaLog, rows: Any, batch: Batch, keys: Sequence[str], more: Mapping[str, Any]
) -> CommandResult:
    """Merge rows by their keys; they are cached, since they are read twice."""
    if not inputs.is_spark(rows):
        return _upsert(log, rows, batch, keys, more)
    rows.persist()
    try:
        _refuse_twice(rows, batch, keys)
        return _upsert(log, rows, batch, keys, more)
    finally:
        rows.unpersist()


def _upsert(
    log: DeltaLog, rows: Any, batch: Batch, keys: Sequence[str], more: Mapping[str, Any]
) -> CommandResult:
    names = [backticked(key) for key in keys]
    on = " AND ".join(f"{TARGET_ALIAS}.{name} <=> {SOURCE_ALIAS}.{name}" for name in names)
    builder = merge(log, rows, on).when_matched_update_all().when_not_matched_insert_all()
    builder = replace(builder, recorded=batch.named)
    if more.get("merge_schema"):
        builder = builder.with_schema_evolution()
    return builder.execute(user_metadata=more.get("user_metadata"), txn=(batch.query_id, batch.number))


def _refuse_twice(rows: Any, batch: Batch, keys: Sequence[str]) -> None:
    """Refuse a repeated key, which has no newest state; the merge would notice only keys in the table."""
    names = [backticked(key) for key in keys]
    repeated = rows.groupBy(*names).count().where("count > 1").limit(1).collect()
    if repeated:
        key_text = ", ".join(f"{key}={repeated[0][place]!r}" for place, key in enumerate(keys))
        raise MultipleSourceRowsMatched(
            f"batch {batch.number} has {repeated[0]['count']} rows with {key_text}, so what the row becomes "
            "is ambiguous. Group the stream by its keys, or name all columns that tell rows apart; "
            "nothing was written")
