"""Writing checkpoints: classic ones, and V2 ones with sidecars where the table wants them.

Lives here: the way from a snapshot to checkpoint files and the ``_last_checkpoint`` hint, by
PROTOCOL.md, "Checkpoints" and "Checkpoint Schema": files, tombstones that have not expired,
transactions, domains, protocol and metadata, with statistics in the forms the table asks for.

Does not know: when a checkpoint is due, or how to clean up after one. Every file becomes visible
whole or not at all, sidecars before the file that links them, the hint last.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltanb.actions import Action, CheckpointMetadata, Metadata, SetTransaction, Sidecar
from deltanb.actions.metadata import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER
from deltanb.concurrency.memory import pool
from deltanb.concurrency.precedence import yield_to_commits
from deltanb.errors import InvalidArgument, InvalidTable
from deltanb.log import parquet_options
from deltanb.log.arrays import regrouped
from deltanb.log.arrow_rows import column, empty_table, scalar
from deltanb.log.checkpoint.hint import LastCheckpoint, write_last_checkpoint
from deltanb.log.checkpoint.interval import interval
from deltanb.log.checkpoint.names import (
    SIDECAR_FOLDER,
    classic_name,
    sidecar_name,
    sidecar_path,
    v2_name,
)
from deltanb.log.checkpoint.reuse import Reused, ReusedRowGroups, ReusedSidecars
from deltanb.log.checkpoint.rows import BATCH
from deltanb.log.checkpoint.stats import (
    partition_type,
    partition_values_as_struct,
    stats_as_struct,
    stats_type,
)
from deltanb.log.file_set import FileSet
from deltanb.log.parquet_options import DEFAULT_CODEC, ParquetOptions
from deltanb.log.replay import FILES_SCHEMA
from deltanb.options import options, random_id
from deltanb.parquet.splice import spliced
from deltanb.schema import properties
from deltanb.schema.protocol import check_writable, supports
from deltanb.store.guard import unguarded
from deltanb.store.local import LocalStore

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

ROWS_PER_GROUP = 65_536
"""File rows a row group: enough to read in parallel, few enough to hold in memory, once as rows and once
encoded, beside the list of a million files."""

MAX_SIDECAR_ROWS = 2 * ROWS_PER_GROUP
"""File rows a sidecar. Later checkpoints link a sidecar again as long as all its files stand: the smaller it
is the more often they do."""

WRITE_BUFFER = 1 << 20
"""Bytes that are written at a time: Python, in which they are taken, is asked for each."""

CLASSIC_EVERY = 10
"""Every so many V2 checkpoints one is written under the classic name too, so that clients without
V2 checkpoints find the protocol and fail with a clear message (PROTOCOL.md, "Handling Backward
compatibility while moving to UUID-named v2 Checkpoints")."""

SMALL_ROWS = 1_000
"""Up to so many actions are one row group, under the codec that is set up fastest: a checkpoint has
60 columns, and of a small table's, which is written every few commits, each costs more than its rows."""

SMALL_CODEC = "snappy"

_T = TypeVar("_T")
_TEXT = pa.string()
_TEXTS = pa.list_(pa.field("element", _TEXT))
_MAP = pa.map_(_TEXT, _TEXT)
_DELETION_VECTOR = pa.struct(
    {
        "storageType": _TEXT,
        "pathOrInlineDv": _TEXT,
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_SMALL: dict[str, pa.DataType] = {
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": _TEXTS,
            "writerFeatures": _TEXTS,
        }
    ),
    "metaData": pa.struct(
        {
            "id": _TEXT,
            "name": _TEXT,
            "description": _TEXT,
            "format": pa.struct({"provider": _TEXT, "options": _MAP}),
            "schemaString": _TEXT,
            "partitionColumns": _TEXTS,
            "configuration": _MAP,
            "createdTime": pa.int64(),
        }
    ),
    "txn": pa.struct({"appId": _TEXT, "version": pa.int64(), "lastUpdated": pa.int64()}),
    "domainMetadata": pa.struct({"domain": _TEXT, "configuration": _TEXT, "removed": pa.bool_()}),
}
_V2_ONLY: dict[str, pa.DataType] = {
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _MAP}),
    "sidecar": pa.struct(
        {
            "path": _TEXT,
            "sizeInBytes": pa.int64(),
            "modificationTime": pa.int64(),
            "tags": _MAP,
        }
    ),
}
# (column of the snapshot, field of the checkpoint). Tombstones carry no statistics and no tags.
_REMOVE_FIELDS = {
    "path": "path",
    "deletion_timestamp": "deletionTimestamp",
    "data_change": "dataChange",
    "extended_file_metadata": "extendedFileMetadata",
    "partition_values": "partitionValues",
    "size": "size",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
}
_ADD_FIELDS = {
    "path": "path",
    "partition_values": "partitionValues",
    "size": "size",
    "modification_time": "modificationTime",
    "data_change": "dataChange",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
}


def write_checkpoint(
    store: LogStore, snapshot: Snapshot, before_each: Callable[[], object] = lambda: None
) -> LastCheckpoint:
    """Write the checkpoint of a snapshot and the hint to it; returns what the hint says.

    Classic by default; a V2 checkpoint with sidecars if ``delta.checkpointPolicy`` is ``v2``.
    ``before_each`` is called before each file is written; nothing more is where it raises.
    Raises UnsupportedProtocol if the table has writer features that this library does not know.
    """
    metadata = snapshot.metadata
    check_writable(snapshot.protocol, metadata, store.root, writes_data=False)
    yield_to_commits()
    state = _State(snapshot, options.clock(), before_each)
    policy = properties.get(metadata.configuration, "delta.checkpointPolicy")
    if policy == "v2" and supports(snapshot.protocol, "v2Checkpoint"):
        hint = _write_v2(store, state)
    else:
        hint = _write_classic(store, state)
    before_each()
    write_last_checkpoint(store, hint)
    return hint


class _State:
    """What one checkpoint holds."""

    def __init__(self, snapshot: Snapshot, now: int, before_each: Callable[[], object]) -> None:
        self.before_each = before_each
        self.version = snapshot.version
        self.metadata = snapshot.metadata
        self.actions: list[Action] = [
            snapshot.protocol,
            self.metadata,
            *_live_transactions(snapshot, now),
            *snapshot.domain_metadata.values(),
        ]
        yield_to_commits()
        self.removes = _live_tombstones(snapshot, now)
        yield_to_commits()
        self._forms = _Forms(self.metadata)
        self._snapshot = snapshot
        self._files: Iterator[pa.Table] = iter(())
        self.num_adds = 0

    def written(self, reusable: Reused[Any] | None, write: Callable[[], _T]) -> _T:
        """What ``write`` makes of the pieces that are kept and of all files that are in none of them.

        Files are read while it writes. It is called once more, for all that there is, where the checkpoint
        that they are read from turns out to be damaged: nothing that it left before may count then.
        """
        def begin(files: FileSet) -> _T:
            if reusable is not None:
                reusable.forget()
            yield_to_commits()
            takes = (lambda _: False) if reusable is None else reusable.takes
            count, self._files = files.read_apart(FILES_SCHEMA.names, takes)
            yield_to_commits()
            self.num_adds = count + (0 if reusable is None else reusable.num_adds)
            self.num_rows = count + self.removes.num_rows
            self.is_small = self.num_adds + self.removes.num_rows + len(self.actions) <= SMALL_ROWS
            self.options = _options(self.metadata, SMALL_CODEC if self.is_small else DEFAULT_CODEC)
            return write()

        return self._snapshot.files_by(begin)

    def file_rows(self, at_once: int) -> Iterator[pa.Table]:
        """Tombstones, then files, as ``remove`` and ``add`` columns, so many rows at a time.

        To be asked for once in each :meth:`written`.
        """
        for low in range(0, self.removes.num_rows, at_once):
            yield pa.table({"remove": _structs(_fields_of(self.removes.slice(low, at_once), _REMOVE_FIELDS))})
        step = min(BATCH, at_once)
        some = (rows.slice(low, step) for rows in self._files for low in range(0, rows.num_rows, step))
        yield from regrouped((pa.table({"add": self._forms.adds(rows)}) for rows in some), at_once)

    def file_schema(self) -> pa.Schema:
        """The types of the file columns, with no rows at hand."""
        remove = _structs(_fields_of(self.removes.slice(0, 0), _REMOVE_FIELDS)).type
        return pa.schema({"remove": remove, "add": self._forms.adds(empty_table(FILES_SCHEMA)).type})


def _live_transactions(snapshot: Snapshot, now: int) -> list[SetTransaction]:
    """Those within ``delta.setTransactionRetentionDuration``; an unknown age counts as young."""
    retention = properties.get(snapshot.properties, "delta.setTransactionRetentionDuration")
    if retention is None:
        return list(snapshot.txns.values())
    return [
        txn
        for txn in snapshot.txns.values()
        if txn.last_updated is None or txn.last_updated > now - retention
    ]


def _live_tombstones(snapshot: Snapshot, now: int) -> pa.Table:
    """Those within ``delta.deletedFileRetentionDuration``; without a time they count as old."""
    removes = snapshot.tombstones
    retention = properties.get(snapshot.properties, "delta.deletedFileRetentionDuration")
    oldest = scalar(now - retention, pa.int64())
    return removes.filter(pc.greater(removes.column("deletion_timestamp"), oldest))


def _options(metadata: Metadata, default: str) -> ParquetOptions:
    """As the table asks; one that asks for what cannot be written still gets its checkpoints."""
    try:
        return parquet_options.of(metadata.configuration, default)
    except InvalidArgument:
        return ParquetOptions(default)


# -- the two kinds -----------------------------------------------------------------------------


def _write_classic(store: LogStore, state: _State) -> LastCheckpoint:
    types = {**_SMALL, **_types(state.file_schema())}
    row_groups = ReusedRowGroups(pa.schema(list(types.items())), ROWS_PER_GROUP // 2)

    def write() -> int:
        small, rows = _small_table(state.actions), state.file_rows(ROWS_PER_GROUP)
        pieces: Iterator[pa.Table] = chain([small], rows)
        if state.is_small:
            pieces = iter([pa.concat_tables(pieces, promote_options="default")])
        return _put(store, classic_name(state.version), _encoded(types, pieces, state, row_groups), state)

    size = state.written(row_groups, write)
    return LastCheckpoint(
        version=state.version,
        size=len(state.actions) + state.removes.num_rows + state.num_adds,
        size_in_bytes=size,
        num_of_add_files=state.num_adds,
    )


def _write_v2(store: LogStore, state: _State, reuses: bool = True) -> LastCheckpoint:
    reusable = ReusedSidecars(store, state.file_schema(), MAX_SIDECAR_ROWS // 2) if reuses else None
    written = state.written(reusable, lambda: _write_sidecars(store, state))
    sidecars = [*([] if reusable is None else reusable.places), *written]
    in_sidecars = sum(sidecar.size_in_bytes for sidecar in sidecars)
    tags = {
        "sidecarNumActions": str(state.removes.num_rows + state.num_adds),
        "sidecarSizeInBytes": str(in_sidecars),
        "numOfAddFiles": str(state.num_adds),
    }
    # Last: a reader takes a file without it for one that was cut off.
    top = [*sidecars, *state.actions, CheckpointMetadata(state.version, tags)]
    text = "".join(action.to_json() + "\n" for action in top).encode()
    state.before_each()
    name = v2_name(state.version, random_id())
    store.put(name, text)
    if reusable is not None and not reusable.are_there():
        store.delete(name)
        return _write_v2(store, state, reuses=False)
    apart = interval(state.metadata.configuration, state.num_adds, state.version)
    if state.version // apart % CLASSIC_EVERY == 0:
        types = {**_SMALL, **_V2_ONLY, **_types(state.file_schema())}
        name = classic_name(state.version)
        _put(store, name, _encoded(types, iter([_small_table(top)]), state), state)
    return LastCheckpoint(
        version=state.version,
        size=len(top) + state.removes.num_rows + state.num_adds,
        size_in_bytes=len(text) + in_sidecars,
        num_of_add_files=state.num_adds,
    )


def _write_sidecars(store: LogStore, state: _State) -> list[Sidecar]:
    """Sidecars of tombstones, which pass, and others of files, which later checkpoints may link again; or one
    of both where it is too small for that."""
    rows, removes = state.file_rows(MAX_SIDECAR_ROWS), state.removes.num_rows
    pieces = sum(-(-count // MAX_SIDECAR_ROWS) for count in (removes, state.num_rows - removes))
    in_each = 2 if state.num_rows < MAX_SIDECAR_ROWS // 2 else 1
    written: list[Sidecar] = []
    try:
        for _ in range(0, pieces, in_each):
            written.append(_write_sidecar(store, state, islice(rows, in_each)))
        next(rows, None)  # at their end they are counted
    except InvalidTable:  # of what is read: all of them are written anew
        for sidecar in written:
            store.delete(sidecar_name(sidecar.path))
        raise
    return written


def _write_sidecar(store: LogStore, state: _State, pieces: Iterator[pa.Table]) -> Sidecar:
    name = f"{SIDECAR_FOLDER}{random_id()}.parquet"
    size = _put(store, name, _encoded(_types(state.file_schema()), pieces, state), state)
    return Sidecar(sidecar_path(name), size, options.clock())


# -- Parquet -----------------------------------------------------------------------------------


def _encoded(
    types: dict[str, pa.DataType],
    pieces: Iterator[pa.Table],
    state: _State,
    row_groups: ReusedRowGroups | None = None,
) -> Iterator[bytes]:
    """A file, as it is made: the pieces as row groups, columns they lack as nulls, behind them those kept."""
    made = _Made()
    sink = pa.BufferedOutputStream(pa.PythonFile(made, mode="w"), WRITE_BUFFER, pool())
    schema = pa.schema(list(types.items()))
    with pq.ParquetWriter(
        sink, schema, store_schema=False, use_dictionary=_repetitive(schema), memory_pool=pool(),
        **state.options.for_arrow
    ) as writer:
        for piece in pieces:
            yield_to_commits()
            columns = [piece.column(field.name) if field.name in piece.column_names
                       else _nulls(piece.num_rows, field.type) for field in schema]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=ROWS_PER_GROUP)
            del piece, columns  # before the next one is read
            yield from made.taken()
    sink.flush()
    end = b"".join(made.taken())
    tail: Iterable[bytes] = (end,)
    if row_groups and row_groups.places:
        tail = spliced(end, made.tell(), row_groups.contents())
    for content in tail:
        yield_to_commits()
        yield content


def _nulls(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    """So many, of which few are in memory: a struct's have offsets for each of its texts."""
    few = pa.nulls(min(count, BATCH), kind)
    whole, rest = divmod(count, BATCH)
    return pa.chunked_array([few] * whole + [few.slice(0, rest)] * (rest > 0), kind)


class _Made(io.RawIOBase):
    """What Arrow has written, until it is taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def taken(self) -> list[bytes]:
        taken, self._pieces = self._pieces, []
        return taken


def _put(store: LogStore, name: str, pieces: Iterator[bytes], state: _State) -> int:
    """Write a file; returns its size in bytes. A folder takes piece after piece, and has no such file before
    the last one."""
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in pieces:
            size += len(piece)
            yield piece
        yield_to_commits()
        state.before_each()

    state.before_each()
    content: Any = counted()
    store.put(name, content if isinstance(unguarded(store), LocalStore) else b"".join(content))
    return size


def _repetitive(schema: pa.Schema) -> list[str]:
    """Columns worth a dictionary: paths and statistics differ in every row."""
    return [
        f"{field.name}.{child.name}.key_value.{part}"
        for field in schema
        for child in field.type
        if pa.types.is_map(child.type)
        for part in ("key", "value")
    ]


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _small_table(rows: Sequence[Action]) -> pa.Table:
    """Actions other than files, one row each."""
    table = {}
    for key, kind in {**_SMALL, **_V2_ONLY}.items():
        values = [_storable(action.to_value()) if action.key == key else None for action in rows]
        table[key] = column(values, kind)
    return pa.table(table)


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """The action's value; versions that list features must have a list in the checkpoint, be it empty."""
    stored = dict(value)
    if stored.get("minReaderVersion", 0) >= TABLE_FEATURES_READER:
        stored.setdefault("readerFeatures", [])
    if stored.get("minWriterVersion", 0) >= TABLE_FEATURES_WRITER:
        stored.setdefault("writerFeatures", [])
    return stored


# -- file actions ------------------------------------------------------------------------------


def _fields_of(rows: pa.Table, fields: dict[str, str]) -> dict[str, pa.Array]:
    """The columns under their names in a checkpoint."""
    by_name = {}
    for name, field in fields.items():
        values = _whole(rows.column(name))
        if name == "data_change":
            # A checkpoint is a state: nothing in it is a change.
            values = pa.repeat(scalar(False, pa.bool_()), len(rows))
        elif name == "deletion_vector":
            values = _renamed(values, _DELETION_VECTOR)
        by_name[field] = values
    return by_name


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array: Arrow would copy one that is such already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _renamed(values: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    children = [values.field(i) for i in range(values.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())


def _structs(fields: dict[str, pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


class _Forms:
    """The forms in which a table wants its statistics and partition values stored."""

    def __init__(self, metadata: Metadata) -> None:
        configuration = metadata.configuration
        self._json = properties.get(configuration, "delta.checkpoint.writeStatsAsJson")
        typed = properties.get(configuration, "delta.checkpoint.writeStatsAsStruct")
        self._stats = stats_type(metadata) if typed else None
        self._partitions = partition_type(metadata) if typed else None

    def adds(self, rows: pa.Table) -> pa.StructArray:
        fields = _fields_of(rows, _ADD_FIELDS)
        if not self._json:
            del fields["stats"]
        if self._partitions is not None:
            values = rows.column("partition_values")
            fields["partitionValues_parsed"] = partition_values_as_struct(values, self._partitions)
        if self._stats is not None:
            fields["stats_parsed"] = stats_as_struct(rows.column("stats"), self._stats)
        return _structs(fields)
