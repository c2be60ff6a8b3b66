"""Streams into and out of a table: the methods that people call.

What lives here: :class:`StreamedTable`, the part of a table that streams, which delegates.
What it does not know: how a stream is run (``commands/rows/stream``, ``engines/spark/streaming``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.table.reading import ReadableTable
from deltanb.text.display import above

if TYPE_CHECKING:
    from deltanb.engines.spark.streaming import TableStream
    from deltanb.transaction.delta_log import DeltaLog


class StreamedTable(ReadableTable):
    """A table as the end, and as the beginning, of Spark's streams."""

    def write_stream(
        self, frame: Any, *, checkpoint: str | os.PathLike[str], mode: str = "append",
        keys: str | Sequence[str] | None = None, trigger: str | Mapping[str, Any] | None = None,
        query_name: str | None = None, merge_schema: bool = False, overwrite_schema: bool = False,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None,
    ) -> TableStream:
        """Start a stream of Spark's into the table: a commit for each micro-batch, exactly once.

        Args:
            frame: a Spark DataFrame that is a stream.
            checkpoint: the stream's own folder, in which Spark keeps how far it is.
            mode: ``"append"``; ``"complete"``, which replaces all rows with each batch; or ``"update"``,
                which replaces the rows that have the ``keys`` of a batch, and adds the others.
            keys: with ``"update"``, the columns that the stream groups by.
            trigger: ``"availableNow"``, an interval (``"10 seconds"``), or Spark's keywords as a dict.
            query_name: the name under which Spark lists the stream, and its lane in the table's timeline.
            merge_schema: let new columns into the table.
            overwrite_schema: with ``"complete"``, give the table the stream's schema.
            user_metadata: a text kept in each commit.
            target_file_size, max_records_per_file, compression: of the data files, as in
                :meth:`~deltanb.table.table.DeltaTable.append`.

        Details and errors: :func:`deltanb.commands.rows.stream.write_stream`.
        """
        from deltanb.commands.rows.stream import write_stream
        return write_stream(
            self._writable("write_stream"), frame, checkpoint=checkpoint, mode=mode, keys=keys,
            trigger=trigger, query_name=query_name, merge_schema=merge_schema,
            overwrite_schema=overwrite_schema, user_metadata=user_metadata,
            target_file_size=target_file_size, max_records_per_file=max_records_per_file,
            compression=compression)

    def read_stream(
        self, spark: Any = None, *, starting_version: int | str | None = None,
        starting_timestamp: str | None = None, max_files_per_trigger: int | None = None,
        max_bytes_per_trigger: int | str | None = None, ignore_deletes: bool = False,
        skip_change_commits: bool = False, change_feed: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """The table as a stream of Spark's: all rows of its newest version first, then those that come.

        ``spark.readStream.format("deltanb")`` with the options of these names is the same.

        Args:
            spark: the session; the active one, or a new local one, unless given.
            starting_version: begin with what this version brought; ``"latest"``: with what comes from now on.
            starting_timestamp: the same by time (ISO 8601).
            max_files_per_trigger: files in a micro-batch; 1,000 unless given.
            max_bytes_per_trigger: bytes of files in a micro-batch (``1 << 30``, or ``"1g"`` as Spark writes
                it); one file comes in any case.
            ignore_deletes: go on behind commits that only remove whole files.
            skip_change_commits: leave out commits that delete or rewrite rows, with the rows they add.
            change_feed: stream changes, with the columns of :meth:`changes`.
            storage_options: how Spark's processes get to a bucket; they travel with the stream. What they
                leave out comes from the environment there. A table that was opened with credentials needs
                them once more, since no table gives them away.

        Raises:
            InvalidArgument: options that contradict each other, or a table opened with credentials without
                ``storage_options``. What else stops a stream is told by the query
                that reads it: a :class:`~deltanb.engines.spark.streaming.TableStream` raises it as it is, of
                Spark's own queries :func:`deltanb.sources.spark.source.translate_errors` makes it of their
                exception.
        """
        return above("read_stream")(
            self.log, spark, {
                "startingVersion": starting_version, "startingTimestamp": starting_timestamp,
                "maxFilesPerTrigger": max_files_per_trigger, "maxBytesPerTrigger": max_bytes_per_trigger,
                "ignoreDeletes": ignore_deletes or None, "skipChangeCommits": skip_change_commits or None,
                "readChangeFeed": change_feed or None}, storage_options)

    def _writable(self, what: str) -> DeltaLog:
        """The log, where the table can be written to."""
        raise NotImplementedError
