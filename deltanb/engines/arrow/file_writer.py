"""One Parquet file being written, with its statistics; much is encoded by several threads.

What lives here: :class:`FileWriter`, and :class:`Encoders`, the threads that the files of one write share.
What it does not know: tables and partitions, which rows go into a file, the settings of a table.

Arrow encodes a file in one thread. Where there are more, a row group is divided by its columns: each thread
writes some of them as a file in memory, and the bytes of these are put together as one row group. The file is
the one that Arrow would have written. One row group is in flight while the rows of the next one are gathered.
Row groups that are encoded already (:class:`Encoded`) stand between those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltanb.actions import AddFile
from deltanb.concurrency import parallel
from deltanb.concurrency.memory import pool
from deltanb.engines.arrow import statistics
from deltanb.errors import StorageError
from deltanb.log.parquet_options import ParquetOptions
from deltanb.parquet.encodings import is_single, with_bounds, with_dictionary
from deltanb.parquet.file import open_parquet
from deltanb.parquet.format import MAGIC
from deltanb.parquet.splice import Assembly, RowGroup, footer_of, row_groups
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


Part = tuple[RowGroup, Any]
"""Neighbouring columns of a row group: what a footer says of them, and their bytes."""


@dataclass(frozen=True)
class Encoded:
    """A row group that goes into a new file as it is.

    ``file`` is the one that its rows are from, and so of their partition; ``parts`` are its columns, in their
    order, one or several neighbours together with their bytes; ``states`` are the statistics of its rows.
    """

    file: AddFile
    num_rows: int
    parts: tuple[Part, ...]
    states: Mapping[tuple[str, ...], statistics.State]


class Encoders:
    """The threads that encode: begun when they are wanted, and ended by whoever made this."""

    def __init__(self) -> None:
        self._pool: Executor | None = None
        self._last: _Divided | None = None

    @cached_property
    def count(self) -> int:
        """How many there are; the system is asked where it matters, not for every small file."""
        return parallel.threads(parallel.MAX_THREADS)

    def are_worth(self, rows: pa.Table) -> bool:
        """Whether a file that begins with these rows is encoded by several threads."""
        return rows.num_columns > 1 and rows.nbytes >= PARALLEL_BYTES and self.count > 1

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
    except (StorageError, FileExistsError):
        raise
    except OSError as error:
        raise StorageError.of(error, "written", f"{store.root.rstrip('/')}/{name}") from error


def settings_of(schema: pa.Schema, form: ParquetOptions) -> dict[str, Any]:
    """What Arrow's Parquet writer is told of every file with these columns."""
    # Without the Arrow schema in the footer every reader derives the types from Parquet alone.
    return {"store_schema": False, **form.for_arrow, "write_statistics": with_bounds(schema)}


def empty_footer(schema: pa.Schema, form: ParquetOptions) -> bytes:
    """The footer of a file with these columns and no rows."""
    return footer_of(_encoded(schema.empty_table(), settings_of(schema, form)))


class FileWriter:
    """One Parquet file being written, with its statistics; by its first rows its columns are judged."""

    def __init__(
        self, name: str, sink: pa.NativeFile, store: LogStore, first: pa.Table, settings: Mapping[str, Any],
        collector: statistics.Collector, encoders: Encoders, *, mixes: bool = False,
        plain: Collection[str] | None = None,
    ) -> None:
        """``sink`` is the new file, ``settings`` are those of :func:`settings_of`. ``mixes``: row groups that
        are encoded already may be among those that it is given; ``plain`` as in
        :func:`~deltanb.parquet.encodings.with_dictionary`."""
        self.name, self.sink, self.store, self.collector = name, sink, store, collector
        settings = {**settings, "use_dictionary": with_dictionary(first, plain)}
        if not mixes and is_single(first):
            settings["use_dictionary"] = False
        self._is_judged = False
        with on_disk(self.store, self.name):
            try:
                self._content: _Whole | _Divided = (
                    _Divided(self.sink, first, settings, encoders, plain)
                    if mixes or encoders.are_worth(first) else _Whole(self.sink, first.schema, settings))
            except BaseException:
                with suppress(Exception):
                    self.sink.close()
                raise

    def write(self, rows: pa.Table, target: int) -> bool:
        """Write rows as a row group; whether another one as large would make the file larger than ``target``
        by more than half of it."""
        with on_disk(self.store, self.name):
            is_full = self._content.write(rows, target)
        if not self._is_judged and rows.num_rows >= FOOTER_ROWS:
            self.collector.leave(rows)
        self._is_judged = True
        self.collector.update(rows)
        return is_full

    def take(self, group: Encoded, target: int) -> bool:
        """As :meth:`write`, for a row group that is encoded already."""
        assert isinstance(self._content, _Divided)
        self.collector.add(group.num_rows, group.states)
        with on_disk(self.store, self.name):
            return self._content.take(group, target)

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
        self, sink: Any, first: pa.Table, settings: Mapping[str, Any], encoders: Encoders,
        plain: Collection[str] | None,
    ) -> None:
        self._sink, self._settings, self._encoders = sink, dict(settings), encoders
        self._plain = plain
        self._parts = self._divided(first)
        self._whole = Assembly(footer_of(_encoded(first.schema.empty_table(), settings)))
        self._waiting: list[list[Future[pa.Buffer]]] = []
        sink.write(MAGIC)

    def _divided(self, rows: pa.Table) -> list[range]:
        self._rows_are_known = rows.num_rows > 0
        return _divided([column.nbytes for column in rows.columns], self._encoders.count * 2)

    def write(self, rows: pa.Table, target: int) -> bool:
        """See :meth:`FileWriter.write`; the encoded rows are waited for where they may decide."""
        before = self.settle()
        if not self._rows_are_known:
            self._settings["use_dictionary"] = with_dictionary(rows, self._plain)
            self._parts = self._divided(rows)
        for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
            piece = rows.slice(start, ROW_GROUP_ROWS)
            works = [_Work(piece.select(part), self._settings) for part in self._parts]
            self._waiting.append(self._encoders.submit(self, works))
        if before + MOST_GROWTH * rows.nbytes < target:
            return False
        after = self.settle()
        return after + (after - before) // 2 >= target

    def settle(self) -> int:
        """Write what is in flight, and return the size of the file."""
        waiting, self._waiting = self._waiting, []
        for futures in waiting:
            self._append(part_of(future.result()) for future in futures)
        return self._whole.size

    def take(self, group: Encoded, target: int) -> bool:
        """See :meth:`FileWriter.take`."""
        before = self.settle()
        self._append(group.parts)
        return self._whole.size + (self._whole.size - before) // 2 >= target

    def _append(self, parts: Iterable[Part]) -> None:
        groups = []
        for part, content in parts:
            self._sink.write(content)
            groups.append(part)
        self._whole.add(groups)

    def close(self) -> pq.FileMetaData:
        """Write the footer, and return it."""
        self.settle()
        ending = self._whole.end()
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


def encoded(
    rows: pa.Table, form: ParquetOptions, plain: Collection[str] | None = None
) -> tuple[Part, pq.FileMetaData]:
    """Some columns of a row group, as they would be in a file with these columns alone, and its footer.

    ``plain`` as in :func:`~deltanb.parquet.encodings.with_dictionary`.
    """
    settings = {**settings_of(rows.schema, form), "use_dictionary": with_dictionary(rows, plain)}
    footers: list[pq.FileMetaData] = []
    return part_of(_encoded(rows, settings, footers)), footers[0]


def _encoded(
    rows: pa.Table, settings: Mapping[str, Any], footers: list[pq.FileMetaData] | None = None
) -> pa.Buffer:
    """The rows as a Parquet file with at most one row group."""
    sink = pa.BufferOutputStream(pool())
    with _writer(sink, rows.schema, settings, footers) as writer:
        if rows.num_rows:
            writer.write_table(rows, row_group_size=rows.num_rows)
    return sink.getvalue()


def part_of(data: pa.Buffer) -> Part:
    """The only row group of a file."""
    (group,) = row_groups(footer_of(data))
    assert group is not None  # Arrow's own
    return group, memoryview(data)[group.start:group.start + group.length]


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
