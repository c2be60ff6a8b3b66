"""Writing rows as Parquet files: Arrow in, :class:`~deltanb.actions.AddFile` out.

What lives here: the splitting of rows by partition, the cutting into row groups and files, their names
and their removal when anything fails. Rows pass schema enforcement and constraints on the way; the
statistics are taken from what is written.
What it does not know: transactions and versions. Files exist before a commit names them; nobody sees
them until then.

Files lie in Hive folders (``month=1/part-00000-<uuid>-c000.zstd.parquet``), or under a random prefix
where columns are mapped or ``delta.randomizeFilePrefixes`` is on, as Delta Spark lays them out.
Partition columns are in the path and the log; in the file, after the others, where the table asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import AddFile, Metadata, Protocol, encode_path
from deltanb.concurrency import parallel
from deltanb.engines.arrow import file_writer, inputs
from deltanb.engines.arrow.constraints import Check
from deltanb.engines.arrow.file_writer import Encoded, Encoders, FileWriter
from deltanb.engines.arrow.generated import Filler, Marks
from deltanb.engines.arrow.layout import layout_of
from deltanb.engines.arrow.prewritten import PrewrittenFiles
from deltanb.engines.arrow.variants import with_parts
from deltanb.errors import InvalidArgument, InvalidTable
from deltanb.log.file_options import FileOptions
from deltanb.log.skipping import partitions
from deltanb.options import options
from deltanb.schema import column_mapping
from deltanb.schema.types import StructField, StructType
from deltanb.sql.coercion import python_value
from deltanb.store.base import LogStore, is_remote, read_concurrency
from deltanb.store.new_files import created

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Arrow bytes of a row group: a reader's unit of memory and of parallel work. Two of them are in memory, one
that is encoded and one that is gathered."""
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""Rows held back in all partitions together before the largest is written out early."""
MAX_OPEN_FILES = 64
"""Partitions with a file begun and not ended; beyond it the one idle longest is ended."""
RANDOM_PREFIX_LENGTH = 2
"""Characters of a random folder where ``delta.randomPrefixLength`` does not say, as in Delta."""

SPARK_FOLDER = "_deltanb_write_"
"""Begins the name of the folder that a write by Spark has to itself (``engines/spark/write.py``). The
underscore hides it from readers of the directory; one that is still there belongs to a write that runs, or to
a process that was killed."""
USUAL = FileOptions()
"""Of a write that says nothing of its files."""
MAX_NAME_BYTES = 255
"""What file systems allow a folder's name: longer partition values get a random folder."""


def write_files(
    store: LogStore,
    metadata: Metadata,
    protocol: Protocol,
    data: Any,
    *,
    file_options: FileOptions = USUAL,
    data_change: bool = True,
    checks: Sequence[Check] = (),
    clustering: Iterable[Sequence[str]] = (),
    begun: list[str] | None = None,
    folder: str = "",
    prefix: str = "part",
    marks: Marks | None = None,
    hidden: Sequence[StructField] = (),
) -> list[AddFile]:
    """Write the data as files of the table and describe them; commit nothing.

    Args:
        store: rooted at the table.
        metadata, protocol: the table's, as they will be when the files are committed.
        data: anything :func:`deltanb.engines.arrow.inputs.source` takes; files that are there already are
            taken as they are (:class:`~deltanb.engines.arrow.prewritten.PrewrittenFiles`).
        file_options: how large the files become, and their codec.
        data_change: False for rows that only move, as in a compaction.
        checks: conditions beside the table's own constraints.
        clustering: physical paths of clustering columns, described in the statistics in any case.
        folder, prefix: where in the table the files go and how their names begin.
        begun: has the name of each file from before it is begun, for whoever may be interrupted.
        marks: the last value given to each identity column; moved on by what is given here.
        hidden: columns of the data that go into the files beside the table's
            (:func:`~deltanb.schema.column_mapping.hidden`): nothing is demanded of them, and statistics leave
            them out.

    Returns:
        One action a file; none for data without rows.

    Raises:
        SchemaMismatch: the columns, or a value, do not fit; every difference is named.
        ConstraintViolation: a row breaks a constraint; both are named.
        InvalidArgument: data of a kind that cannot be read.
        StorageError: a file cannot be written.

    After an error of any kind the files begun are gone.

    >>> from deltanb.schema.types import from_arrow
    >>> from deltanb.store.local import LocalStore
    >>> rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    >>> table = Metadata("t", from_arrow(rows.schema).to_json(), partition_columns=("p",))
    >>> files = write_files(LocalStore("t"), table, Protocol(1, 2), rows)
    >>> [(file.partition_values, file.num_records) for file in files]
    [({'p': 'a'}, 1), ({'p': 'b'}, 1)]
    """
    if isinstance(data, PrewrittenFiles):
        return data.for_table(metadata, protocol, checks, data_change, store.root)
    incoming = inputs.source(data)
    if incoming.num_rows == 0 and not incoming.schema.names:  # [] and {} say nothing of columns
        return []
    writer = TableWriter(
        store, metadata, protocol, incoming.schema, file_options, checks, clustering, marks, hidden)
    writer.root, writer.prefix = folder, prefix
    writer.mixes, writer.plain = incoming.mixes, incoming.plain
    if begun is not None:
        writer.begun = begun
    try:
        for batch in incoming.batches():
            if isinstance(batch, Encoded):
                writer.take(batch)
            else:
                writer.write(batch)
        added = writer.finish(data_change)
        writer.encoders.end()
        return added  # within the block: an interrupt here would leave files that nobody knows
    except BaseException:
        writer.abort()
        writer.encoders.end()
        raise


# --- a table --------------------------------------------------------------------------------------

class TableWriter:
    """Takes batches, keeps one buffer a partition, and knows every file it has begun."""

    def __init__(
        self, store: LogStore, metadata: Metadata, protocol: Protocol, incoming: pa.Schema,
        file_options: FileOptions, checks: Sequence[Check], clustering: Iterable[Sequence[str]],
        marks: Marks | None, hidden: Sequence[StructField] = (),
    ) -> None:
        absent = [name for name in metadata.partition_columns if name not in metadata.schema]
        if absent:
            raise InvalidTable(
                f"{store.root} is partitioned by {absent[0]!r}, which is not a column of its schema. Restore "
                "the log from a copy, or commit metadata with a schema that has it", path=store.root)
        self.store, self.metadata = store, metadata
        self.target = file_options.size(metadata.configuration)
        self.most_rows = file_options.max_records_per_file or None
        self.layout = layout = layout_of(
            metadata, protocol, incoming, checks, clustering, hidden, file_options.compression)
        self.partition_by, self.form = layout.partition_by, layout.form
        self.file_columns = layout.file_columns
        self.file_schema, self.collector = layout.file_schema, layout.collector
        self.checker = layout.checker
        self.filler = Filler(incoming.names, metadata, protocol, marks, layout.lacks)
        self.root, self.prefix, self.mixes = "", "part", False
        self.plain: Callable[[], Collection[str] | None] = lambda: None
        self.rows = 0
        self.number = 0
        self.begun: list[str] = []
        self.done: list[tuple[_Key, str, int, str]] = []
        self.buffers: dict[_Key, _Buffer] = {}
        self.encoders = Encoders()
        self.buffered = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Check the rows and put them into their partitions' buffers."""
        for start in range(0, batch.num_rows, inputs.BATCH_ROWS):
            rows = self.checked(batch.slice(start, inputs.BATCH_ROWS), self.rows)
            self.rows += rows.num_rows
            for key, part in self._split(rows):
                self._buffer(key, self.physical(part))

    def checked(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """The rows as the table takes them; the number of the first one, from 0, is for errors."""
        rows = self.layout.enforcer.apply(batch, first_row)
        rows = self._without_blank_partitions(self.filler.fill(rows))
        visible = self.layout.visible
        self.checker.check(rows.select(visible) if visible else rows, first_row)
        return rows

    def physical(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are in files, as they are called there."""
        selected = rows.select(self.file_columns.names)
        selected = with_parts(selected) if self.layout.is_nested else selected
        selected = self.layout.as_stored(selected) if self.layout.as_stored else selected
        return column_mapping.to_physical(selected, self.layout.stored, self.layout.mode)

    def take(self, group: Encoded) -> None:
        """Put a row group behind the rows of its partition. They are not checked: what is there stays."""
        key = self.key_of(group.file)
        if key in self.buffers and self.buffers[key].rows:
            self._flush(key)
        buffer = self.buffers[key] = self.buffers.pop(key) if key in self.buffers else _Buffer()
        self.rows += group.num_rows
        if buffer.file is None:
            buffer.file = self._open(key, self.file_schema.empty_table())
        self._written(key, buffer.file.take(group, self.target))

    def _without_blank_partitions(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """An empty string is NULL as a partition value (PROTOCOL.md, "Partition Value Serialization").
        So is the name of NULL's folder."""
        for column in self.partition_by:
            place = rows.schema.get_field_index(column.name)
            values = rows.column(place)
            if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
                # A value to compare with would load pandas.
                blank = pc.or_(pc.invert(pc.binary_length(values).cast(pa.bool_())),
                               pc.match_substring_regex(values, rf"\A{partitions.HIVE_NULL}\z"))
                if pc.any(blank).as_py():
                    null = pa.scalar(None, values.type)
                    rows = rows.set_column(place, rows.schema.field(place),
                                           pc.if_else(pc.fill_null(blank, True), null, values))
        return rows

    def _split(self, rows: pa.RecordBatch) -> Iterator[tuple[_Key, pa.RecordBatch]]:
        """(partition values in the log's form, its rows in their order), for each partition."""
        if not self.partition_by:
            yield (), rows
            return
        codes: Any = None
        for column in self.partition_by:
            encoded = pc.dictionary_encode(rows.column(column.name), null_encoding="encode")
            own = encoded.indices.cast(pa.int64())
            if codes is not None:  # encoded anew each time, so that the product never overflows
                own = pc.add(pc.multiply(codes, len(encoded.dictionary)), own)
                own = pc.dictionary_encode(own).indices.cast(pa.int64())
            codes = own
        order = pc.sort_indices(codes)
        runs = pc.run_end_encode(codes.take(order), run_end_type=pa.int64())
        start = 0
        for end in runs.run_ends.to_pylist():
            part = rows if len(runs.run_ends) == 1 else rows.take(order.slice(start, end - start))
            start = end
            yield tuple(_partition_value(part, column) for column in self.partition_by), part

    def _buffer(self, key: _Key, part: pa.RecordBatch) -> None:
        buffer = self.buffers.pop(key, None) or _Buffer()
        self.buffers[key] = buffer  # the last one touched stands last
        if self.most_rows is not None:
            part = self._fill(key, buffer, part, self.most_rows)
        self.buffered += buffer.add(part)
        if buffer.bytes >= min(ROW_GROUP_BYTES, self.target) or buffer.rows >= file_writer.ROW_GROUP_ROWS:
            self._flush(key)
        elif self.buffered > MAX_BUFFERED_BYTES:
            self._flush(max(self.buffers, key=lambda k: self.buffers[k].bytes))

    def _fill(self, key: _Key, buffer: _Buffer, part: pa.RecordBatch, most: int) -> pa.RecordBatch:
        """End as many files as the rows fill, and give those that are left."""
        while part.num_rows >= (room := most - buffer.rows_in_file - buffer.rows):
            self.buffered += buffer.add(part.slice(0, room))
            part = part.slice(room)
            self._flush(key)
            if buffer.file is not None:
                self._end(key)
        return part

    def _flush(self, key: _Key) -> None:
        """Write a buffer as a row group; end its file when the next group would overshoot."""
        buffer = self.buffers[key]
        self.buffered -= buffer.bytes
        rows = buffer.take(self.file_schema)
        if buffer.file is None:
            buffer.file = self._open(key, rows)
        buffer.rows_in_file += rows.num_rows
        self._written(key, buffer.file.write(rows, self.target))

    def _written(self, key: _Key, is_full: bool) -> None:
        """End the file of a partition, or another one where too many are open."""
        if is_full:
            self._end(key)
            return
        open_keys = [k for k, b in self.buffers.items() if b.file is not None]
        if len(open_keys) > MAX_OPEN_FILES:
            self._end(open_keys[0])

    def _open(self, key: _Key, first: pa.Table) -> FileWriter:
        name, file = self.begin(key)
        return FileWriter(name, file, self.store, first, self.layout.settings, self.collector(),
                          self.encoders, mixes=self.mixes, plain=self.plain())

    @property
    def holds_partitions(self) -> bool:
        """Whether partition columns are in the files, too."""
        return self.layout.holds_partitions

    def key_of(self, file: AddFile) -> _Key:
        """The partition of a file, its values as they would be written today."""
        values = [partitions.parse_value(file.partition_values.get(name), column.type)
                  for name, column in zip(self.layout.partition_names, self.partition_by, strict=True)]
        rows = [{column.name: value for column, value in zip(self.partition_by, values, strict=True)}]
        batch = pa.RecordBatch.from_pylist(rows, StructType(self.partition_by).to_arrow())
        return tuple(_partition_value(batch, column) for column in self.partition_by)

    def begin(self, key: _Key) -> tuple[str, pa.NativeFile]:
        """A new file and its name; it is removed again if anything fails."""
        number, folder = self.number, cache(partial(self._folder, key))
        self.number += 1

        def name_of(drawn: str) -> str:
            name = self.form.file_name(f"{self.prefix}-{number:05d}-{drawn}-c000")
            return "/".join(part for part in (self.root, folder(), name) if part)

        def create(name: str) -> pa.NativeFile:
            with file_writer.on_disk(self.store, name):
                return self.store.open_output(name)

        return created(self.store, name_of, create, self.begun)

    def _folder(self, key: _Key) -> str:
        if self.layout.is_hive:
            path = partitions.hive_path(self._values(key)) if key else ""
            if all(len(part.encode()) <= MAX_NAME_BYTES for part in path.split("/")):
                return path
        length = int(self.metadata.configuration.get("delta.randomPrefixLength", RANDOM_PREFIX_LENGTH))
        return options.new_id().replace("-", "")[:length]

    def _values(self, key: _Key) -> dict[str, str | None]:
        return dict(zip(self.layout.partition_names, key, strict=True))

    def _end(self, key: _Key) -> None:
        buffer = self.buffers[key]
        assert buffer.file is not None
        size = buffer.file.close()
        self.done.append((key, buffer.file.name, size, buffer.file.collector.to_json()))
        buffer.file, buffer.rows_in_file = None, 0

    def finish(self, data_change: bool) -> list[AddFile]:
        """Write what is buffered, end all files, and give their actions in the order of their names."""
        waits = is_remote(self.store)  # for each upload: they go at the same time
        for key in list(self.buffers):
            if self.buffers[key].rows:
                self._flush(key)
            if self.buffers[key].file is not None and not waits:
                self._end(key)
        left = [key for key, buffer in self.buffers.items() if buffer.file is not None]
        for _ in parallel.each(self._end, left, read_concurrency(self.store, 1), "upload"):
            pass
        order = {name: place for place, name in enumerate(self.begun)}
        now = options.clock()
        return [
            AddFile(path=encode_path(name), partition_values=self._values(key), size=size,
                    modification_time=now, data_change=data_change, stats=stats)
            for key, name, size, stats in sorted(self.done, key=lambda done: order[done[1]])
        ]

    def abort(self) -> None:
        """Remove every file begun; what cannot be removed is left for VACUUM."""
        try:
            for buffer in self.buffers.values():
                if buffer.file is not None:
                    buffer.file.drop()
        finally:
            delete_files(self.store, self.begun)


def _partition_value(part: pa.RecordBatch, column: StructField) -> str | None:
    try:
        return partitions.format_value(python_value(part.column(column.name)[0]), column.type)
    except (OverflowError, InvalidArgument) as error:  # the year 10000, bytes that are not text
        raise InvalidArgument(
            f"column {column.name!r} holds a value that no partition can have ({error}); partition by "
            "another column", column=column.name) from None


_Key = tuple[str | None, ...]
"""Partition values in the log's form, in the order of the partition columns."""


def delete_files(store: LogStore, names: Iterable[str]) -> None:
    """Remove files that no commit will name; one that cannot be removed is left for VACUUM."""
    for name in names:
        with suppress(OSError):
            store.delete(name)


# --- a partition and a file -----------------------------------------------------------------------

@dataclass
class _Buffer:
    """Rows of one partition that are not written yet, and its open file."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    file: FileWriter | None = None
    rows_in_file: int = 0

    def add(self, batch: pa.RecordBatch) -> int:
        """Hold the rows, and say how many bytes they are."""
        size = int(batch.nbytes)
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += size
        return size

    def take(self, schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(self.batches, schema)
        self.batches, self.rows, self.bytes = [], 0, 0
        return table
