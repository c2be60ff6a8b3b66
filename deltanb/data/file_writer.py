"""One Parquet file being written, with its statistics; much is encoded by several threads.

What lives here: :class:`FileWriter`, and :class:`Encoders`, the threads that the files of one write share.
What it does not know: tables and partitions, which rows go into a file, the settings of a table.

Arrow encodes a file in one thread. Where there are more, a row group is divided by its columns: each thread
writes some of them as a file in memory, and the bytes of these are put together as one row group. The file is
the one that Arrow would have written. One row group is in flight while the rows of the next one are gathered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltanb import parallel
from deltanb.data import statistics
from deltanb.data.encodings import with_bounds, with_dictionary
from deltanb.errors import StorageError
from deltanb.log.checkpoint import splice
from deltanb.log.checkpoint.parquet_file import open_parquet
from deltanb.log.parquet_options import ParquetOptions
from deltanb.memory import pool
from deltanb.store.base import LogStore

ROW_GROUP_ROWS = 1 << 18
"""Rows of a row group, for narrow tables: threads have much to do at once, readers little to skip, and what
is in memory, one that is encoded and one that is gathered, is little."""
FOOTER_ROWS = 10_000
"""Rows of a first row group from which on the Parquet footer is asked for statistics: below, asking it costs
more than to find them out."""
PARALLEL_BYTES = 4 << 20
"""Arrow bytes of a first row group from which on threads encode: below, they cost more than they spare."""
MOST_GROWTH = 3
"""A row group and half of the next one are, encoded, surely no more than so many times its Arrow bytes."""


class Encoders:
    """The threads that encode: begun when they are wanted, and ended by whoever made this."""

    def __init__(self) -> None:
        self.count = parallel.threads(parallel.MAX_THREADS)
        self._pool: Executor | None = None
        self._last: _Divided | None = None

    def are_worth(self, rows: pa.Table) -> bool:
        """Whether a file that begins with these rows is encoded by several threads."""
        return self.count > 1 and rows.num_columns > 1 and rows.nbytes >= PARALLEL_BYTES

    def submit(self, content: _Divided, works: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
        """Begin works for a file, once what is in flight for another one is done."""
        if self._last is not None and self._last is not content:
            self._last.settle()
        self._last = content
        if self._pool is None:
            self._pool = parallel.workers(self.count, "encode")
        return [self._pool.submit(work) for work in works]

    def end(self) -> None:
        """No work follows; what has not begun is not done."""
        self._last = None
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


@contextmanager
def on_disk(store: LogStore, name: str) -> Iterator[None]:
    """Errors of writing a file, with its name."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError.of(error, "written", f"{store.root.rstrip('/')}/{name}") from error


def _settings(schema: pa.Schema, form: ParquetOptions) -> dict[str, Any]:
    # Without the Arrow schema in the footer every reader derives the types from Parquet alone.
    return {"store_schema": False, **form.for_arrow, "write_statistics": with_bounds(schema)}


def empty_footer(schema: pa.Schema, form: ParquetOptions) -> bytes:
    """The footer of a file with these columns and no rows."""
    return splice.footer_of(_encoded(schema.empty_table(), _settings(schema, form)))


class FileWriter:
    """One Parquet file being written, with its statistics; by its first rows its columns are judged."""

    def __init__(
        self, name: str, store: LogStore, first: pa.Table, form: ParquetOptions,
        collector: statistics.Collector, encoders: Encoders,
    ) -> None:
        self.name, self.store, self.collector = name, store, collector
        settings = {**_settings(first.schema, form), "use_dictionary": with_dictionary(first)}
        with on_disk(self.store, self.name):
            self.sink = store.open_output(name)
            try:
                self._content: _Whole | _Divided = (
                    _Divided(self.sink, first, settings, encoders) if encoders.are_worth(first)
                    else _Whole(self.sink, first.schema, settings))
            except BaseException:
                with suppress(Exception):
                    self.sink.close()
                raise

    def write(self, rows: pa.Table, target: int) -> bool:
        """Write rows as a row group; whether another one as large would make the file larger than ``target``
        by more than half of it."""
        with on_disk(self.store, self.name):
            is_full = self._content.write(rows, target)
        if not self.collector.rows and rows.num_rows >= FOOTER_ROWS:
            self.collector.leave(rows)
        self.collector.update(rows)
        return is_full

    def close(self) -> int:
        """End the file and return its size in bytes."""
        with on_disk(self.store, self.name):
            footer = self._content.close()
            size = int(self.sink.tell())
            self.sink.close()
        if self.collector.left:
            self.collector.settle(footer, self._read)
        return size

    def _read(self, columns: list[str]) -> pa.Table:
        with self.store.open_input(self.name) as file:
            return open_parquet(file).read(columns)

    def drop(self) -> None:
        """Let go of the file without regard to its content."""
        for end in (self._content.drop, self.sink.close):
            with suppress(Exception):
                end()


# --- by one thread --------------------------------------------------------------------------------

class _Whole:
    """A file as Arrow writes it."""

    def __init__(self, sink: Any, schema: pa.Schema, settings: Mapping[str, Any]) -> None:
        self._sink, self._footers = sink, list[pq.FileMetaData]()
        self._writer = _writer(sink, schema, settings, self._footers)
        self.drop = self._writer.close

    def write(self, rows: pa.Table, target: int) -> bool:
        """See :meth:`FileWriter.write`."""
        before = int(self._sink.tell())
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        after = int(self._sink.tell())
        return after + (after - before) // 2 >= target

    def close(self) -> pq.FileMetaData:
        """Write the footer, and return it."""
        self._writer.close()
        return self._footers[0]


def _writer(
    sink: Any, schema: pa.Schema, settings: Mapping[str, Any], footers: list[pq.FileMetaData] | None = None,
) -> pq.ParquetWriter:
    return pq.ParquetWriter(sink, schema, **settings, memory_pool=pool(), metadata_collector=footers)


# --- by several -----------------------------------------------------------------------------------

class _Divided:
    """A file whose row groups are put together from columns that threads encode."""

    def __init__(
        self, sink: Any, first: pa.Table, settings: Mapping[str, Any], encoders: Encoders
    ) -> None:
        self._sink, self._settings, self._encoders = sink, settings, encoders
        self._parts = _divided([column.nbytes for column in first.columns], encoders.count * 2)
        self._template = splice.footer_of(_encoded(first.schema.empty_table(), settings))
        self._groups: list[bytes] = []
        self._rows = 0
        self._waiting: list[tuple[int, list[Future[pa.Buffer]]]] = []
        sink.write(splice.MAGIC)
        self._size = len(splice.MAGIC)

    def write(self, rows: pa.Table, target: int) -> bool:
        """See :meth:`FileWriter.write`; the encoded rows are waited for where they may decide."""
        before = self.settle()
        for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
            piece = rows.slice(start, ROW_GROUP_ROWS)
            works = [_Work(piece.select(part), self._settings) for part in self._parts]
            self._waiting.append((piece.num_rows, self._encoders.submit(self, works)))
        if before + MOST_GROWTH * rows.nbytes < target:
            return False
        after = self.settle()
        return after + (after - before) // 2 >= target

    def settle(self) -> int:
        """Write what is in flight, and return the size of the file."""
        waiting, self._waiting = self._waiting, []
        for rows, futures in waiting:
            groups = []
            for future in futures:
                data = future.result()
                (group,) = splice.row_groups(splice.footer_of(data))
                assert group is not None  # Arrow's own
                groups.append(splice.moved(group, self._size - group.start, len(self._groups)))
                self._sink.write(memoryview(data)[group.start:group.start + group.length])
                self._size += group.length
            self._groups.append(splice.side_by_side(groups))
            self._rows += rows
        return self._size

    def close(self) -> pq.FileMetaData:
        """Write the footer, and return it."""
        self.settle()
        footer = splice.footer_with(self._template, self._groups, self._rows)
        ending = footer + struct.pack("<I", len(footer)) + splice.MAGIC
        self._sink.write(ending)
        return pq.ParquetFile(pa.BufferReader(ending)).metadata

    def drop(self) -> None:
        """Forget what is in flight."""
        self._waiting = []


class _Work:
    """Some columns of a row group to be encoded; they are let go of as soon as that is done."""

    def __init__(self, rows: pa.Table, settings: Mapping[str, Any]) -> None:
        self._rows, self._settings = rows, settings

    def __call__(self) -> pa.Buffer:
        rows = self.__dict__.pop("_rows")
        return _encoded(rows, self._settings)


def _encoded(rows: pa.Table, settings: Mapping[str, Any]) -> pa.Buffer:
    """The rows as a Parquet file."""
    sink = pa.BufferOutputStream(pool())
    with _writer(sink, rows.schema, settings) as writer:
        if rows.num_rows:
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return sink.getvalue()


def _divided(sizes: Sequence[int], most: int) -> list[range]:
    """Neighbours together, so that there are at most so many parts, of about one size.

    >>> _divided([5, 1, 1, 1, 8], 3)
    [range(0, 1), range(1, 4), range(4, 5)]
    """
    share = max(1, sum(sizes) / most)
    parts: list[range] = []
    start = held = 0
    for place, size in enumerate(sizes):
        if place > start and held + size / 2 > share and len(parts) < most - 1:
            parts.append(range(start, place))
            start, held = place, 0
        held += size
    return [*parts, range(start, len(sizes))]
