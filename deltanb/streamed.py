"""Streams into and out of a table: the methods that people call.

What lives here: :class:`StreamedTable`, the part of a table that streams, which delegates.
What it does not know: how a stream is run (``commands/rows/stream``, ``spark/streaming``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.reading import ReadableTable

if TYPE_CHECKING:
    from deltanb.spark.streaming import TableStream
    from deltanb.transaction.delta_log import DeltaLog


class StreamedTable(ReadableTable):
    """A table as the end, and as the beginning, of Spark's streams."""

    def write_stream(
        self, frame: Any, *, checkpoint: str | os.PathLike[str], mode: str = "append",
        keys: str | Sequence[str] | None = None, trigger: str | Mapping[str, Any] | None = None,
        query_name: str | None = None, merge_schema: bool = False, overwrite_schema: bool = False,
        user_metadata: str | None = None, target_file_size: int | None = None,
    ) -> TableStream:
        """Start a stream of Spark's into the table: a commit for each micro-batch, exactly once.

        Args:
            frame: a Spark DataFrame that is a stream.
            checkpoint: the stream's own folder, in which Spark keeps how far it is.
            mode: ``"append"``; ``"complete"``, which replaces all rows with each batch; or ``"update"``,
                which replaces the rows that have the ``keys`` of a batch, and adds the others.
            keys: with ``"update"``, the columns that the stream groups by.
            trigger: ``"availableNow"``, an interval (``"10 seconds"``), or Spark's keywords as a dict.
            query_name: the name under which Spark lists the stream.
            merge_schema: let new columns into the table.
            overwrite_schema: with ``"complete"``, give the table the stream's schema.
            user_metadata: a text kept in each commit.
            target_file_size: bytes at which a data file ends.

        Details and errors: :func:`deltanb.commands.rows.stream.write_stream`.
        """
        from deltanb.commands.rows.stream import write_stream
        return write_stream(
            self._writable("write_stream"), frame, checkpoint=checkpoint, mode=mode, keys=keys,
            trigger=trigger, query_name=query_name, merge_schema=merge_schema,
            overwrite_schema=overwrite_schema, user_metadata=user_metadata,
            target_file_size=target_file_size)

    def _writable(self, what: str) -> DeltaLog:
        """The log, where the table can be written to."""
        raise NotImplementedError
