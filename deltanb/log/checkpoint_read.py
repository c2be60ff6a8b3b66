"""Reading checkpoints: classic, multi-part and V2, as columns that are read when asked for.

Lives here: the way from checkpoint files to a :class:`CheckpointParts`. The few protocol, metadata,
transaction and domain rows become actions at once; the many file rows stay in Parquet and only the
columns asked for are read, as Arrow, in a stable row order.

Does not know: how to choose among checkpoints, later commits, what statistics mean. A file that
cannot be read is an InvalidTable that names it; whether an older checkpoint will do is the
caller's decision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltanb import actions
from deltanb.actions import (
    Action,
    AddFile,
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from deltanb.errors import InvalidAction, InvalidTable
from deltanb.log.checkpoint_files import sidecar_name
from deltanb.log.checkpoint_stats import stats_as_json
from deltanb.log.coercion import arrow_scalar
from deltanb.log.replay import (
    DELETION_VECTOR_TYPE,
    FILES_SCHEMA,
    TOMBSTONES_SCHEMA,
    files_table,
    tombstones_table,
)

if TYPE_CHECKING:
    from deltanb.log.store import LogStore

MAX_SLICES = 64
"""Up to this many runs of file rows are sliced without copying; beyond, filtering is faster."""

MAX_READERS = max(2, min(8, os.cpu_count() or 2))
"""Threads that decode row groups: as many as have a processor, and no herd on large machines."""

MAX_OPENERS = 8
"""Threads that open footers: waiting for a store is all they do."""

FALLBACK_BATCH = 65_536
"""Rows a batch where a column is too large to be read in one piece (2 GB of text a row group)."""

_WIRE_DV = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")

# The rows that become actions, and a leaf of each that is never null in such a row.
_SMALL: dict[str, tuple[type[Action], str]] = {
    "protocol": (Protocol, "protocol.minReaderVersion"),
    "metaData": (Metadata, "metaData.id"),
    "txn": (SetTransaction, "txn.appId"),
    "domainMetadata": (DomainMetadata, "domainMetadata.domain"),
    "checkpointMetadata": (CheckpointMetadata, "checkpointMetadata.version"),
    "sidecar": (Sidecar, "sidecar.path"),
}


def wire_name(column: str) -> str:
    """``modification_time`` -> ``modificationTime``."""
    head, *tail = column.split("_")
    return head + "".join(word.capitalize() for word in tail)


class CheckpointParts:
    """One checkpoint, opened: small actions at hand, file actions by column.

    ``protocol`` and ``metadata`` are None if the checkpoint lacks them (a broken writer's);
    ``txns`` is {app id: SetTransaction}, ``domains`` {name: DomainMetadata} without removed ones.
    """

    def __init__(
        self, names: Sequence[str], small: Iterable[Action], parts: Sequence[_Part]
    ) -> None:
        self.names = tuple(names)
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.txns: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.sidecars: list[Sidecar] = []
        self._parts = list(parts)
        for action in small:
            self._keep(action)

    def _keep(self, action: Action) -> None:
        match action:
            case Protocol():
                self.protocol = action
            case Metadata():
                self.metadata = action
            case SetTransaction():
                self.txns[action.app_id] = action
            case DomainMetadata() if not action.removed:
                self.domains[action.domain] = action
            case Sidecar():
                self.sidecars.append(action)

    @cached_property
    def num_adds(self) -> int:
        """How many files the checkpoint adds: from footers where they say it."""
        return sum(part.count("add") for part in self._parts)

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether some added file may have one; from footers, where they say it."""
        return any(
            part.count("add") > 0 if isinstance(part, _JsonPart) else part.holds("add.deletionVector")
            for part in self._parts
        )

    @property
    def has_stats_parsed(self) -> bool:
        """Whether statistics are there as typed columns."""
        return any(part.holds("add.stats_parsed") for part in self._parts)

    def read_adds(self, columns: Sequence[str], rows: pa.Array | None = None) -> pa.Table:
        """The add actions: a table with the named FILES_SCHEMA columns, in a stable row order.

        ``"stats_parsed"`` asks for the typed statistics as they are stored, and
        ``"stats_parsed.minValues.x"`` for one leaf of them (names are physical); the result then
        has one struct column ``stats_parsed``, or none if the checkpoint has no such columns.
        Where only typed statistics are stored, ``"stats"`` is rebuilt from them as JSON.
        ``rows``: ascending positions of the actions wanted; row groups without any are not read.

        Raises InvalidTable, naming the file, if a page cannot be read.
        """
        jobs = self._jobs(lambda part: columns, rows)
        return _concat(_run_all(jobs), columns)

    def read_stats(
        self, leaves: Sequence[str], rows: pa.Array | None, convert: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """What ``convert`` makes of the statistics, a row group at a time in several threads.

        It is given tables with ``stats_parsed`` (only the named leaves, ``stats_parsed.minValues.x``)
        from files that have it, else with ``stats``. ``rows`` as in :meth:`read_adds`.
        """
        def converted(job: _Job) -> _Job:
            return lambda: convert(job())

        jobs = self._jobs(
            lambda part: leaves if part.holds("add.stats_parsed") else ["stats"], rows)
        return pa.concat_tables(_run_all(list(map(converted, jobs))))

    def _jobs(
        self, columns: Callable[[_Part], Sequence[str]], rows: pa.Array | None
    ) -> list[_Job]:
        jobs, start = [], 0
        for part in self._parts:
            here = None
            if rows is not None:
                stop = start + part.count("add")
                here, start = within(rows, start, stop), stop
            jobs += part.jobs("add", columns(part), FILES_SCHEMA, here)
        return jobs

    def read_removes(self) -> pa.Table:
        """The tombstones, a table of TOMBSTONES_SCHEMA."""
        columns = TOMBSTONES_SCHEMA.names
        parts = [part.read("remove", columns, TOMBSTONES_SCHEMA) for part in self._parts]
        return _concat(parts, columns)


def open_checkpoint(store: LogStore, files: Sequence[Any]) -> CheckpointParts:
    """Open one checkpoint: the names (or FileStatus) of all its files, in part order.

    Raises InvalidTable, naming the file, if a part or a sidecar is missing or broken.
    """
    names = [str(getattr(file, "name", file)) for file in files]
    parts = _open_all(store, names)
    small = [action for part in parts for action in part.small_actions()]
    linked = [sidecar_name(action.path) for action in small if isinstance(action, Sidecar)]
    return CheckpointParts(names, small, parts + _open_all(store, linked))


def _open_all(store: LogStore, names: Sequence[str]) -> list[_Part]:
    def open_one(name: str) -> _Part:
        return _JsonPart(store, name) if name.endswith(".json") else _ParquetPart(store, name)

    if len(names) < 2:
        return [open_one(name) for name in names]
    with ThreadPoolExecutor(min(MAX_OPENERS, len(names))) as pool:
        return list(pool.map(open_one, names))


_Job = Callable[[], pa.Table]


def _run_all(jobs: Sequence[_Job]) -> list[pa.Table]:
    """The results in order; several jobs run in threads, whatever file each of them reads."""
    if len(jobs) < 2:
        return [job() for job in jobs]
    with ThreadPoolExecutor(min(MAX_READERS, len(jobs))) as pool:
        return list(pool.map(lambda job: job(), jobs))


class _Part:
    """One file of a checkpoint."""

    def __init__(self, store: LogStore, name: str) -> None:
        self.root, self.name, self._store = store.root, name, store

    def refuse(self, error: Exception | str, line: int | None = None) -> NoReturn:
        """Raise the InvalidTable for this file."""
        if isinstance(error, FileNotFoundError):
            what = "is missing"
        else:
            place = "" if line is None else f" at line {line}"
            what = f"cannot be read{place} ({(str(error) or 'no reason given').splitlines()[0]})"
        raise InvalidTable(
            f"The checkpoint file {self.name} of {self.root} {what}. Restore it, or delete the "
            "checkpoint if the commits before it are still there.",
            path=self.root,
            file=self.name,
            line=line,
        ) from (error if isinstance(error, Exception) else None)

    def small_actions(self) -> list[Action]:
        raise NotImplementedError

    def holds(self, column: str) -> bool:
        raise NotImplementedError

    def count(self, kind: str) -> int:
        raise NotImplementedError

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None
    ) -> list[_Job]:
        """What there is to read, in pieces that may be read at once and follow each other."""
        raise NotImplementedError

    def read(
        self, kind: str, columns: Sequence[str], schema: pa.Schema
    ) -> pa.Table:
        """All of it, as one table."""
        return _concat(_run_all(self.jobs(kind, columns, schema)), columns)


class _JsonPart(_Part):
    """The JSON top level of a V2 checkpoint."""

    def __init__(self, store: LogStore, name: str) -> None:
        super().__init__(store, name)
        try:
            lines = store.read(name).splitlines()
        except OSError as error:
            self.refuse(error)
        self._actions = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                self._actions.append(actions.from_json(line.decode()))
            except (InvalidAction, UnicodeDecodeError) as error:
                self.refuse(error, number)

    def small_actions(self) -> list[Action]:
        return [a for a in self._actions if not isinstance(a, AddFile | RemoveFile)]

    def holds(self, column: str) -> bool:
        return False

    def count(self, kind: str) -> int:
        return sum(action.key == kind for action in self._actions)

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None
    ) -> list[_Job]:
        actions = [action for action in self._actions if action.key == kind]
        table = files_table(actions) if kind == "add" else tombstones_table(actions)
        if rows is not None:
            table = table.take(rows)
        found = table.select([c for c in dict.fromkeys(columns) if c in schema.names])
        return [lambda: found]


class _ParquetPart(_Part):
    """A Parquet file: a classic checkpoint, a part, a V2 top level or a sidecar."""

    def __init__(self, store: LogStore, name: str) -> None:
        super().__init__(store, name)
        # Pre-buffering turns the many small reads of pruned columns into few large ones. Old Spark
        # wrote timestamps as INT96, which Arrow takes for nanoseconds unless told.
        self._options: dict[str, Any] = {
            "pre_buffer": store.local_path(name) is None,
            "coerce_int96_timestamp_unit": "us",
        }
        try:
            self._file = pq.ParquetFile(store.open_input(name), **self._options)
        except (OSError, pa.ArrowException) as error:
            self.refuse(error)
        self._metadata = self._file.metadata
        schema = self._file.schema
        self._leaves = {schema.column(i).path: i for i in range(len(schema))}
        for kind in ("add", "remove"):
            if f"{kind}.path" not in self._leaves and kind in self._columns:
                self.refuse(f"its column {kind} has no path")

    @cached_property
    def _columns(self) -> frozenset[str]:
        """Every dotted prefix of every leaf."""
        found: set[str] = set()
        for leaf in self._leaves:
            words = leaf.split(".")
            found.update(".".join(words[: i + 1]) for i in range(len(words)))
        return frozenset(found)

    def holds(self, column: str) -> bool:
        """Whether some row has a value in the column."""
        return column in self._columns and not self._is_empty(column)

    def _values(self, leaf: str, group: int) -> int | None:
        """How many non-null values a leaf has in a row group; None if the footer does not say."""
        chunk = self._metadata.row_group(group).column(self._leaves[leaf])
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        return int(chunk.num_values - statistics.null_count)

    def _groups_with(self, leaf: str) -> list[int]:
        """The row groups that may hold a value of the leaf."""
        if leaf not in self._leaves:
            return []
        return [g for g in range(self._metadata.num_row_groups) if self._values(leaf, g) != 0]

    def _is_empty(self, column: str) -> bool:
        """Whether the footers show that the column has no value at all."""
        prefix = column + "."
        leaves = [leaf for leaf in self._leaves if leaf == column or leaf.startswith(prefix)]
        return not any(self._groups_with(leaf) for leaf in leaves)

    # -- small actions

    def small_actions(self) -> list[Action]:
        by_groups: dict[tuple[int, ...], list[str]] = {}
        for kind, (_, leaf) in _SMALL.items():
            groups = self._groups_with(leaf)
            if groups:
                by_groups.setdefault(tuple(groups), []).append(kind)
        return [
            action
            for groups, kinds in by_groups.items()
            for action in self._small_actions_in(groups, kinds)
        ]

    def _small_actions_in(self, groups: Sequence[int], kinds: list[str]) -> Iterator[Action]:
        table = self._read_groups(self._file, kinds, groups)
        for kind in kinds:
            for value in table.column(kind).drop_null().to_pylist(maps_as_pydicts="lossy"):
                cleaned = _without_nulls(value)
                if not cleaned:
                    continue
                try:
                    yield _SMALL[kind][0].from_value(cleaned)
                except InvalidAction as error:
                    self.refuse(f"a {kind} row is not valid: {error}")

    def _read_group(self, columns: list[str], group: int) -> pa.Table:
        """One row group, through a file of its own: many may be read at once, each by one thread."""
        try:
            with self._store.open_input(self.name) as source:
                file = pq.ParquetFile(source, metadata=self._metadata, **self._options)
                return self._read_groups(file, columns, [group], use_threads=False)
        except OSError as error:
            self.refuse(error)

    def _read_groups(
        self, file: pq.ParquetFile, columns: list[str], groups: Sequence[int],
        use_threads: bool = True,
    ) -> pa.Table:
        try:
            return file.read_row_groups(list(groups), columns=columns, use_threads=use_threads)
        except pa.ArrowNotImplementedError:
            batches = file.iter_batches(FALLBACK_BATCH, list(groups), columns)
            return pa.Table.from_batches(list(batches))
        except (OSError, pa.ArrowException) as error:
            self.refuse(error)

    # -- file actions

    def count(self, kind: str) -> int:
        leaf = f"{kind}.path"
        values = [self._values(leaf, group) for group in self._groups_with(leaf)]
        if None in values:
            return self.read(kind, ["path"], FILES_SCHEMA).num_rows
        return sum(value for value in values if value)

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None
    ) -> list[_Job]:
        groups = self._groups_with(f"{kind}.path")
        picked: dict[int, pa.Array] = {}
        if rows is not None:
            found = self._rows_by_group(f"{kind}.path", groups, rows)
            if found is None:  # the footer does not say which rows a group holds
                return [lambda: self.read(kind, columns, schema).take(rows)]
            groups, picked = list(found), found
        wanted = self._stored(kind, columns, schema)
        if not groups or not wanted:
            num_rows = sum(map(len, picked.values())) if rows is not None else self.count(kind)
            return [lambda: _nothing_but_nulls(kind, columns, schema, num_rows)]
        # A row is a file's if its struct is there: some leaf must be read, the path is never null.
        leaves = sorted({leaf for found in wanted.values() for leaf in found})

        def job(group: int) -> _Job:
            def read() -> pa.Table:
                table = self._read_group(leaves, group) if len(groups) > 1 else \
                    self._read_groups(self._file, leaves, [group])
                try:
                    return self._file_rows(table, kind, columns, schema, wanted, picked.get(group))
                except pa.ArrowException as error:  # of a type that is not the protocol's
                    self.refuse(error)
            return read

        return [job(group) for group in groups]

    def _rows_by_group(
        self, leaf: str, groups: Sequence[int], rows: pa.Array
    ) -> dict[int, pa.Array] | None:
        """The row groups that hold some of the rows, with their positions inside each."""
        found, start = {}, 0
        for group in groups:
            count = self._values(leaf, group)
            if count is None:
                return None
            inside = within(rows, start, start + count)
            if len(inside):
                found[group] = inside
            start += count
        return found

    def _file_rows(
        self, read: pa.Table, kind: str, columns: Sequence[str], schema: pa.Schema,
        wanted: dict[str, list[str]], picked: pa.Array | None,
    ) -> pa.Table:
        rows = [piece for chunk in read.column(kind).chunks for piece in _present(chunk)]
        if picked is not None:
            rows = [pa.chunked_array(rows).combine_chunks().take(picked)]
        num_rows = sum(map(len, rows))
        table: dict[str, pa.ChunkedArray | pa.Array] = {}
        for column in columns:
            if column in schema.names:
                kind_of = schema.field(column).type
                if column in wanted:
                    make = self._stats_of(wanted[column])
                    table[column] = _column(rows, column, kind_of, make)
                else:
                    table[column] = _absent(column, kind_of, num_rows, kind == "add")
            elif column.split(".")[0] in wanted and "stats_parsed" not in table:
                table["stats_parsed"] = _chunked([_child(row, "stats_parsed") for row in rows])
        return pa.table(table)

    def _stored(
        self, kind: str, columns: Sequence[str], schema: pa.Schema
    ) -> dict[str, list[str]]:
        """The columns asked for that have values here -> the Parquet columns to read for them."""
        found: dict[str, list[str]] = {}
        for column in columns:
            stored = f"{kind}.{wire_name(column) if column in schema.names else column}"
            if column == "stats" and not self.holds(stored):
                stored = f"{kind}.stats_parsed"
            # A tombstone's empty map is not its absent one; footers count both as no value.
            if self.holds(stored) or (kind == "remove" and stored in self._columns):
                found.setdefault(column.split(".")[0], []).append(stored)
        return found

    def _stats_of(self, stored: list[str]) -> Callable[[pa.StructArray], pa.Array] | None:
        """How to make the stats column when it is stored as typed columns only."""
        if stored[0].endswith(".stats_parsed"):
            return lambda row: stats_as_json(_child(row, "stats_parsed"))
        return None


def within(rows: pa.Array, start: int, stop: int) -> pa.Array:
    """The positions from ``start`` up to ``stop``, counted from ``start``."""
    first, last = (arrow_scalar(edge, pa.int64()) for edge in (start, stop))
    inside = pc.and_(pc.greater_equal(rows, first), pc.less(rows, last))
    return pc.subtract(rows.filter(inside), first)


def _present(chunk: pa.StructArray) -> list[pa.StructArray]:
    """The rows of a struct column that are not null, without copying where they lie together."""
    if chunk.null_count == 0:
        return [chunk] if len(chunk) else []
    if chunk.null_count == len(chunk):
        return []
    edges = _edges(chunk)
    if edges is None:
        return [chunk.drop_null()]
    return [chunk.slice(start, stop - start) for start, stop in edges if stop > start]


def _edges(chunk: pa.StructArray) -> list[tuple[int, int]] | None:
    """Runs of present rows as (start, stop), or None if there are too many."""
    valid = chunk.is_valid()
    changes = pc.indices_nonzero(pc.xor(valid.slice(0, len(valid) - 1), valid.slice(1)))
    if len(changes) > 2 * MAX_SLICES:
        return None
    bounds = [0, *(i + 1 for i in changes.to_pylist()), len(chunk)]
    first = 0 if valid[0].as_py() else 1
    return list(zip(bounds[first:-1:2], bounds[first + 1 :: 2], strict=True))


def _child(row: pa.StructArray, name: str) -> pa.Array:
    return row.field(row.type.get_field_index(name))


def _column(
    rows: list[pa.StructArray],
    column: str,
    wanted: pa.DataType,
    make: Callable[[pa.StructArray], pa.Array] | None,
) -> pa.ChunkedArray:
    if make is not None:
        return _chunked([make(row) for row in rows], wanted)
    chunks = [_child(row, wire_name(column)) for row in rows]
    if column == "deletion_vector":
        chunks = [_deletion_vector(chunk) for chunk in chunks]
    chunks = [chunk if chunk.type == wanted else chunk.cast(wanted) for chunk in chunks]
    return _chunked(chunks, wanted)


def _deletion_vector(chunk: pa.StructArray) -> pa.StructArray:
    """The descriptor with this library's names and types."""
    children = []
    for name, field in zip(_WIRE_DV, DELETION_VECTOR_TYPE, strict=True):
        index = chunk.type.get_field_index(name)
        stored = pa.nulls(len(chunk), field.type) if index < 0 else chunk.field(index)
        children.append(stored.cast(field.type))
    fields = list(DELETION_VECTOR_TYPE)
    return pa.StructArray.from_arrays(children, fields=fields, mask=chunk.is_null())


def _absent(column: str, wanted: pa.DataType, num_rows: int, is_add: bool) -> pa.Array:
    """A column the checkpoint has no value of; an add without partitions has an empty map."""
    if column == "partition_values" and is_add:
        return pa.MapArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), num_rows + 1),
            pa.array([], pa.string()),
            pa.array([], pa.string()),
        )
    if column == "data_change":
        return pa.repeat(pa.scalar(False), num_rows)
    return pa.nulls(num_rows, wanted)


def _nothing_but_nulls(
    kind: str, columns: Sequence[str], schema: pa.Schema, num_rows: int
) -> pa.Table:
    """The columns of rows of which a file has none, or no value; the footer knows how many."""
    known = [column for column in columns if column in schema.names] or ["stats"]
    return pa.table({
        column: _absent(column, schema.field(column).type, num_rows, kind == "add")
        for column in known
    })


def _chunked(chunks: list[pa.Array], wanted: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array(chunks, wanted if wanted is not None or chunks else pa.null())


def _concat(tables: list[pa.Table], columns: Sequence[str]) -> pa.Table:
    """One table; typed statistics of parts written under different schemas are united."""
    alone = len(tables) == 1
    table = tables[0] if alone else pa.concat_tables(tables, promote_options="permissive")
    order = dict.fromkeys(column.split(".")[0] for column in columns)
    return table.select([name for name in order if name in table.column_names])


def _without_nulls(value: Any) -> Any:
    """A row of structs without its null fields; maps keep their null values."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


