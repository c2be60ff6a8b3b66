"""A stream into a table: each micro-batch is committed to the table exactly once.

What lives here: :class:`Sink`, the function that Spark calls with each batch, and :func:`check_checkpoint`,
which checks a checkpoint against the table before the stream begins.
What it does not know: how a batch is written and committed; it gets a function for that.

Exactly once: Spark plans a batch (``offsets``), runs it, and records that it is done (``commits``). If it
dies in between, it runs the same batch again with the same id. The commit with a batch's rows records the
query and batch in the table's log, so a repeated batch is skipped. At most one batch is between "planned" and
"done", and only that one may be in the table already when a stream restarts. If the table has later batches,
someone else writes under the query's id; if it has fewer, the checkpoint does not belong to this table. Both
are refused, since continuing would lose rows.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from contextvars import Context, copy_context
from dataclasses import fields
from threading import get_ident
from typing import TYPE_CHECKING, Any, TextIO

from deltanb.engines.spark.connectors import connector_for
from deltanb.engines.spark.paths import spark_path
from deltanb.engines.spark.stream_checkpoint import NONE, Checkpoint
from deltanb.errors import CheckpointMismatch
from deltanb.log import history
from deltanb.options import LISTENERS, Options, options, set_options
from deltanb.transaction.operations import OFFSETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltanb.transaction.delta_log import DeltaLog

Write = Callable[["DataFrame", str, int, bool], "int | None"]
"""Writes a batch of a query (by its id and its number) that has, or has not, read the table; the version, or
None where the table has the batch already."""


MAX_COMMITS, SLICE = 1000, 50
"""How many commits are looked through for that of a batch that is run again, and how many at a time. Others
may have written meanwhile; two streams that run under one id meet in the newest few."""


class Sink:
    """The function that Spark calls with each batch of a stream, one after the other."""

    def __init__(self, log: DeltaLog, checkpoint: Checkpoint, write: Write, reads_table: bool) -> None:
        self.log, self.checkpoint, self.write = log, checkpoint, write
        self.reads_table = reads_table
        self.query_id: str | None = None
        self.replayed = NONE
        """The batch that may be in the table already."""
        self.failure: BaseException | None = None
        """Why the stream has stopped, if a batch was the reason."""
        self._context: Context | None = copy_context()
        self._settings: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickled on Spark Connect, for a process of the server, with the options that are plain values."""
        return {**vars(self), "_context": None, "failure": None, "_settings": _plain_options()}

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write a batch."""
        try:
            if self._context is None:
                with set_options(**self._settings):
                    self._write(frame, number)
            else:  # the thread is Spark's, and options are those of whoever began the stream
                self._context.run(self._write, frame, number)
        except BaseException as error:
            self.failure = error
            raise

    def _write(self, frame: DataFrame, number: int) -> None:
        session = frame.sparkSession
        query = self._query(session)
        reads_table = self.reads_table or self.checkpoint.reads(
            number, self.log.snapshot.metadata.id, None if self.checkpoint.folder else session)
        version = self.write(frame, query, number, reads_table)
        if version is None and number != self.replayed:
            raise CheckpointMismatch(
                f"table {self.log.path} has batch {number} of query {query} already, and this stream has not "
                f"written it: another stream writes under the same id, from a copy of the checkpoint "
                f"{self.checkpoint.location}. The batch was not written. Give each stream a checkpoint of "
                "its own", query_id=query, batch=number, path=self.checkpoint.location)
        self.replayed = NONE

    def _query(self, session: SparkSession) -> str:
        if self.query_id is None:
            # Batches come to where Spark's driver is, and so is a local folder.
            self.query_id = self.checkpoint.query_id(None if self.checkpoint.folder else session)
        if self.query_id is None:
            raise _no_query(self.checkpoint)
        return self.query_id


def _plain_options() -> dict[str, Any]:
    """The options that were set and are plain values; functions cannot be sent."""
    usual, now = Options(), {field.name: getattr(options, field.name) for field in fields(Options)}
    return {name: value for name, value in now.items()
            if value != getattr(usual, name) and not callable(value) and name not in LISTENERS}


def check_checkpoint(sink: Sink, session: SparkSession) -> None:
    """Refuse a checkpoint that does not match the table; record the batch that may have to be skipped.

    Raises:
        CheckpointMismatch: the table lacks batches that the checkpoint has as done, or has others.
    """
    checkpoint = sink.checkpoint
    query = checkpoint.query_id(session)
    if query is None:
        return
    begun, done = checkpoint.last_begun(session), checkpoint.last_done(session)
    committed = sink.log.update().set_transactions.get(query, NONE)
    if committed < done:
        raise _lacks(sink.log, checkpoint, query, done, committed)
    if committed > begun:
        raise _has_others(sink.log, checkpoint, query, begun, committed)
    sink.replayed = begun if begun > done else NONE


def check_batch(log: DeltaLog, checkpoint: Checkpoint, number: int) -> str:
    """The id of the query whose batch is to be written, if the table matches its checkpoint.

    For writers that do not know earlier batches: a batch in the table is the same one, run again, if Spark's
    offsets file has the digest it was written with.

    Raises:
        CheckpointMismatch: the table lacks earlier batches, has later ones, or has another one of this
        number.
    """
    query = checkpoint.query_id(None)
    if query is None:
        raise _no_query(checkpoint)
    committed = log.update().set_transactions.get(query, NONE)
    if committed < number - 1:
        raise _lacks(log, checkpoint, query, number - 1, committed)
    if committed > number:
        raise _has_others(log, checkpoint, query, number, committed)
    noted = _noted(log, query, number) if committed == number else None
    if noted is not None and checkpoint.offsets(number) not in (None, noted):
        raise CheckpointMismatch(
            f"table {log.path} has batch {number} of query {query} already, with other rows: another stream "
            f"writes under the same id, from a copy of the checkpoint {checkpoint.location}. The batch was "
            "not written. Give each stream a checkpoint of its own, and this one a new one",
            query_id=query, batch=number, path=checkpoint.location)
    return query


def check_id(log: DeltaLog, app_id: str, query: str | None, number: int) -> None:
    """Refuse a batch under a user's own id if that id belongs to another query.

    Each batch is also recorded under the id of its query; ``query`` is None if unknown.

    Raises:
        CheckpointMismatch: the table has the batch, or later ones, of another query; or lacks those before.
    """
    known = log.update().set_transactions
    done, own = known.get(app_id, NONE), known.get(query or app_id, NONE)
    if done > number or (done == number and own != number):
        raise CheckpointMismatch(
            f"table {log.path} has batches of txnAppId {app_id!r} up to {done}, and this stream would write "
            f"batch {number} under it: it has a new checkpoint, or another stream has the id. Nothing was "
            "written. Give the stream its former checkpoint, or another txnAppId",
            query_id=app_id, batch=done)
    if query is not None and max(done, own) < number - 1:
        raise CheckpointMismatch(
            f"this stream is to write batch {number} to table {log.path} under txnAppId {app_id!r}, and the "
            f"table lacks those before: its checkpoint belongs to another table, or the table forgot the id "
            "(delta.setTransactionRetentionDuration), or was recreated. Nothing was written. Give the stream "
            "a new checkpoint, or write to the table it belongs to", query_id=app_id, batch=done)


def _noted(log: DeltaLog, query: str, number: int) -> str | None:
    """The digest in a batch's commit; None if it has none, or is not among the newest commits."""
    newest = log.snapshot.version
    for last in range(newest, max(-1, newest - MAX_COMMITS), -SLICE):
        for entry in history.between(log, last - SLICE + 1, last):
            parameters = entry.operation_parameters
            is_known = isinstance(parameters, Mapping) and parameters.get("queryId") == query
            if is_known and parameters.get("epochId") == str(number):
                return parameters.get(OFFSETS)
    return None


def _no_query(checkpoint: Checkpoint) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"there is no query in the checkpoint {checkpoint.location}: it was removed while the stream ran, or "
        "lies where this process cannot see it", path=checkpoint.location)


def _lacks(
    log: DeltaLog, checkpoint: Checkpoint, query: str, done: int, committed: int
) -> CheckpointMismatch:
    has = "none of its batches" if committed == NONE else f"its batches up to {committed}"
    return CheckpointMismatch(
        f"the checkpoint {checkpoint.location} says that query {query} has finished batch {done}, but table "
        f"{log.path} has {has}: the checkpoint belongs to another table, or the table forgot the query "
        "(delta.setTransactionRetentionDuration), or was recreated. Nothing was written. Give the stream a "
        "new checkpoint, or write to the table it belongs to", query_id=query, batch=committed,
        path=checkpoint.location)


def _has_others(
    log: DeltaLog, checkpoint: Checkpoint, query: str, begun: int, committed: int
) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"table {log.path} has batch {committed} of query {query}, and the checkpoint {checkpoint.location} "
        f"knows batches up to {begun}: another stream writes under the same id, from a copy of the "
        "checkpoint, or the checkpoint was put back to an earlier state. Nothing was written. Give the "
        "stream a new checkpoint",
        query_id=query, batch=committed, path=checkpoint.location)


def reads(frame: DataFrame, log: DeltaLog) -> bool:
    """Whether a stream also reads rows of its own table, for example by a join.

    A batch no longer has this, and a stream shows its files only in its plan. With ``format("deltanb")``, the
    plan does not name the table, which may be this one. A stream from its own table is recognized by the
    batch's offsets.
    """
    plan = _plan(frame)
    if re.search(r"^\(\d+\) BatchScan deltanb$", plan, re.MULTILINE):
        return True
    folder = log.store.local_path("")
    if folder is None:
        connector = connector_for(log.store, frame.sparkSession)
        if connector is None:
            return False
        folder = connector.root
    return re.search(rf"Location: [^\[\n]*\[{_spelled(folder)}[/,\]]", plan) is not None


def _spelled(folder: str) -> str:
    """The pattern of a folder in a plan: of a bucket with any credentials, each of which has a scheme.

    >>> re.match(_spelled("s3a-0b1c2d3e://lake/t/"), "s3a-4f5a6b7c://lake/t/part-0") is not None
    True
    """
    place = re.escape(spark_path(folder.rstrip("/" + os.sep)))
    return re.sub(r"^s3a\\-\w+", r"s3a-\\w+", place)


def _plan(frame: DataFrame) -> str:
    """PySpark's formatted plan, in which the first path of a scan is not cut."""
    printed = _Printed(sys.stdout)
    with redirect_stdout(printed):
        frame.explain("formatted")
    return printed.getvalue()


class _Printed(io.StringIO):
    """Captures what this thread prints; output of other threads passes through."""

    def __init__(self, others: TextIO) -> None:
        super().__init__()
        self._others, self._thread = others, get_ident()

    def write(self, text: str) -> int:
        return super().write(text) if get_ident() == self._thread else self._others.write(text)
