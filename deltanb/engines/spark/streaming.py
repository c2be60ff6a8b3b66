"""Spark streams into tables: started, watched, and stopped with errors of this library.

What lives here: :func:`start`, and :class:`TableStream`, a Spark query with the table it writes to.
What it does not know: how batches get into the table (``stream_sink``, and the command it calls).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from deltanb.engines.spark.refusals import error_in, reason
from deltanb.engines.spark.stream_sink import Sink, check_checkpoint
from deltanb.errors import DeltaError, InvalidArgument, add_note
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

MAX_STARTS = 4
"""Spark Connect waits ten seconds for the process in which batches are written, and has no setting for it; on
a busy machine Python alone takes longer. What was loaded once is there sooner the next time."""
_TOO_LATE = "Python worker failed to connect back"


def start(
    frame: DataFrame, sink: Sink, *, mode: str, trigger: Mapping[str, Any] | None, query_name: str | None
) -> TableStream:
    """Start a query that passes its batches to a sink.

    Raises:
        CheckpointMismatch: the checkpoint does not match the table.
        InvalidArgument: Spark refuses the query: a mode that does not suit its plan, or a name in use.
    """
    check_checkpoint(sink, frame.sparkSession)
    try:
        writer = frame.writeStream.outputMode("append" if mode == "append" else mode)
        writer = writer.option("checkpointLocation", sink.checkpoint.location).foreachBatch(sink)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        if query_name is not None:
            writer = writer.queryName(query_name)
        query = _begun(writer)
    except (AnalysisException, IllegalArgumentException, ValueError, TypeError) as error:
        if isinstance(error, DeltaError):
            raise
        raise InvalidArgument(
            f"Spark refuses the stream in mode {mode!r}: {reason(error)}; nothing was written") from None
    return TableStream(query, sink)


def _begun(writer: DataStreamWriter) -> StreamingQuery:
    """The started query; retried if a Connect server's Python was too slow, since nothing has begun."""
    for _ in range(MAX_STARTS - 1):
        try:
            return writer.start()
        except PySparkException as error:
            if _TOO_LATE not in str(error):
                raise
    return writer.start()


@answer_wrong_arguments()
class TableStream(Displayable):
    """A stream into a table, running or ended: Spark's ``StreamingQuery`` and a little more.

    It has everything Spark's query has (``id``, ``status``, ``lastProgress``, ``stop()``, …). If a batch has
    failed, ``awaitTermination`` and ``processAllAvailable`` raise its error of this library. A notebook shows
    its :attr:`state`.
    """

    def __init__(self, query: StreamingQuery, sink: Sink) -> None:
        self.query = query
        """Spark's own."""
        self._sink = sink

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.query, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self.query) if name[0] != "_")})

    @property
    def state(self) -> upper.StreamState:
        """The stream's status, its newest batches, and how far it is behind its sources.

        It is an immutable :class:`~deltanb.observe.stream_state.StreamState`.
        """
        query, error = self.query, self.exception()
        return upper.StreamState.of(
            self._sink.log, query.id, name=query.name, is_active=query.isActive, status=query.status,
            progress=query.recentProgress, error=error)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the stream ends, or for ``timeout`` seconds; then returns whether it has ended.

        Raises:
            DeltaError: a batch could not be written.
            StreamingQueryException: the stream failed elsewhere.
            KeyboardInterrupt: Ctrl-C; its note names the table's version by then.
        """
        return self._translate(lambda: self.query.awaitTermination(timeout))

    def processAllAvailable(self) -> None:
        """Wait until all rows available now are in the table; for tests.

        Raises:
            As :meth:`awaitTermination`.
        """
        self._translate(self.query.processAllAvailable)

    def exception(self) -> DeltaError | StreamingQueryException | None:
        """The error of a failed stream: of a batch, or Spark's; None if it has not failed."""
        error = self.query.exception()
        return None if error is None else self._failure(error)

    def _translate(self, wait: Any) -> Any:
        try:
            return wait()
        except PySparkException as error:
            failure = self._failure(error)
            if failure is error:
                raise
            raise failure from None
        except KeyboardInterrupt as error:
            log = self._sink.log
            with suppress(Exception):
                add_note(error, f"the wait was interrupted, not the stream, which .stop() ends; the table at "
                                f"{log.path} is at version {log.update().version}")
            raise

    def _failure(self, error: Any) -> Any:
        """The error of this library behind Spark's, of a batch or a source; None if there is none."""
        return self._sink.failure if isinstance(self._sink.failure, DeltaError) else error_in(error) or error
