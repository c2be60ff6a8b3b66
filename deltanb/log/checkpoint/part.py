"""One file of a checkpoint: its small actions, and its file rows as Arrow.

Lives here: the two forms, JSON (the top level of a V2 checkpoint) and Parquet, and every check by which
a damaged file is told from a good one. Whatever goes wrong with the content is an InvalidTable that
names the file.

Does not know: which files make up a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
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
from deltanb.actions.base import camel
from deltanb.concurrency import parallel
from deltanb.errors import DeltaError, InvalidAction, InvalidTable
from deltanb.log.arrays import within
from deltanb.log.checkpoint.rows import (
    absent,
    by_pieces,
    child,
    chunked,
    column_of,
    concat,
    nothing_but_nulls,
    present,
)
from deltanb.log.checkpoint.stats import stats_as_json
from deltanb.log.replay import FILES_SCHEMA, files_table, tombstones_table
from deltanb.parquet.file import SafeFile, has_codes, open_parquet
from deltanb.parquet.splice import RowGroup, row_groups
from deltanb.text.damage import what_is_wrong

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

MAX_READERS = max(2, min(8, os.cpu_count() or 2))
"""Threads that decode row groups: as many as have a processor, and no herd on large machines."""

FALLBACK_BATCH = 65_536
"""Rows a batch where a column is too large to be read in one piece (2 GB of text a row group)."""

# The rows that become actions, and a leaf of each that is never null in such a row.
_SMALL: dict[str, tuple[type[Action], str]] = {
    "protocol": (Protocol, "protocol.minReaderVersion"),
    "metaData": (Metadata, "metaData.id"),
    "txn": (SetTransaction, "txn.appId"),
    "domainMetadata": (DomainMetadata, "domainMetadata.domain"),
    "checkpointMetadata": (CheckpointMetadata, "checkpointMetadata.version"),
    "sidecar": (Sidecar, "sidecar.path"),
}

# Leaves that are NULL in the same rows, as the protocol requires all of them: where the footer counts
# them differently, a count is damaged and all are read instead.
_TOGETHER = (
    ("protocol.minReaderVersion", "protocol.minWriterVersion"),
    ("metaData.id", "metaData.schemaString"),
    ("txn.appId", "txn.version"),
    ("domainMetadata.domain", "domainMetadata.configuration"),
    ("sidecar.path", "sidecar.sizeInBytes", "sidecar.modificationTime"),
    ("add.path", "add.size", "add.modificationTime"),
)


Job = Callable[[], pa.Table]
Convert = Callable[[pa.Table], pa.Table]


def as_read(table: pa.Table) -> pa.Table:
    """What was read, as it is."""
    return table


def run_all(jobs: Sequence[Job]) -> list[pa.Table]:
    """The results in order; several jobs run in threads, whatever file each of them reads."""
    return list(parallel.each(lambda job: job(), jobs, MAX_READERS, "checkpoint"))


class Part:
    """One file of a checkpoint."""

    def __init__(self, store: LogStore, name: str) -> None:
        self.root, self.name, self._store = store.root, name, store

    def refuse(self, error: Exception | str, line: int | None = None) -> NoReturn:
        """Raise the InvalidTable for this file."""
        if isinstance(error, FileNotFoundError):
            what = "is missing"
        else:
            place = "" if line is None else f" at line {line}"
            reason = error if isinstance(error, str) else what_is_wrong(error)
            what = f"cannot be read{place} ({reason})"
        raise InvalidTable(
            f"The checkpoint file {self.name} of {self.root} {what}. Restore it, or delete the "
            "checkpoint if the commits before it are still there.",
            path=self.root,
            file=self.name,
            line=line,
            is_checkpoint=True,
        ) from (error if isinstance(error, Exception) else None)

    @contextmanager
    def reading(self, line: int | None = None) -> Iterator[None]:
        """Whatever goes wrong with the content, or with the store, is this file's InvalidTable."""
        try:
            yield
        except Exception as error:
            if isinstance(error, DeltaError) and not isinstance(error, InvalidAction):
                raise
            self.refuse(error, line)

    def safely(self, job: Job) -> Job:
        """A job as :meth:`reading`."""
        def work() -> pa.Table:
            with self.reading():
                return job()
        return work

    def small_actions(self) -> list[Action]:
        """All but the file actions."""
        raise NotImplementedError

    def holds(self, column: str) -> bool:
        """Whether some row has a value in the column."""
        raise NotImplementedError

    def count(self, kind: str) -> int:
        """How many file actions of a kind (``add``, ``remove``) there are."""
        raise NotImplementedError

    def is_counted(self, kind: str) -> bool:
        """Whether :meth:`count` reads nothing."""
        return True

    def add_groups(self) -> list[tuple[int, int]]:
        """The row groups of added files alone, and how many each has; none where a footer does not say."""
        return []

    @property
    def parquet_schema(self) -> Any:
        """The columns as Parquet has them; None of a file that is none."""
        return None

    def row_group(self, group: int) -> RowGroup | None:
        """A row group as it stands in the footer; None where it cannot be moved."""
        return None

    def content_of(self, group: RowGroup) -> bytes:
        """The bytes of a row group as they are."""
        raise NotImplementedError

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None,
        convert: Convert = as_read,
    ) -> list[Job]:
        """What there is to read, in pieces that may be read at once and follow each other.

        ``convert`` is what each becomes; it may be called for parts of a piece, one after the other.
        """
        raise NotImplementedError

    def streamed(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None
    ) -> Iterator[pa.Table]:
        """The same one after the other, and where that can be some rows at a time."""
        for job in self.jobs(kind, columns, schema, rows):
            yield self.safely(job)()

    def read(
        self, kind: str, columns: Sequence[str], schema: pa.Schema
    ) -> pa.Table:
        """All of it, as one table."""
        jobs = [self.safely(job) for job in self.jobs(kind, columns, schema)]
        return concat(run_all(jobs), columns)


class JsonPart(Part):
    """The JSON top level of a V2 checkpoint."""

    def __init__(self, store: LogStore, name: str) -> None:
        super().__init__(store, name)
        with self.reading():
            lines = store.read(name).splitlines()
        self._actions = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                with self.reading(number):
                    self._actions.append(actions.from_json(line))
        if not any(isinstance(action, CheckpointMetadata) for action in self._actions):
            self.refuse("it has no checkpointMetadata")  # one that was cut off: power went, or a copy ended

    def small_actions(self) -> list[Action]:
        return [a for a in self._actions if not isinstance(a, AddFile | RemoveFile)]

    def holds(self, column: str) -> bool:
        return False

    def count(self, kind: str) -> int:
        return sum(action.key == kind for action in self._actions)

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None,
        convert: Convert = as_read,
    ) -> list[Job]:
        actions = [action for action in self._actions if action.key == kind]
        table = files_table(actions) if kind == "add" else tombstones_table(actions)
        if rows is not None:
            table = table.take(rows)
        names = [c for c in dict.fromkeys(columns) if c in schema.names]
        selected = table.select(names).cast(pa.schema([schema.field(name) for name in names]))
        return [lambda: convert(selected)]


class ParquetPart(Part):
    """A Parquet file: a classic checkpoint, a part, a V2 top level or a sidecar."""

    def __init__(self, store: LogStore, name: str) -> None:
        super().__init__(store, name)
        # Pre-buffering turns the many small reads of pruned columns into few large ones. Old Spark
        # wrote timestamps as INT96, which Arrow takes for nanoseconds unless told.
        with self.reading():
            self._options: dict[str, Any] = {
                "pre_buffer": store.local_path(name) is None,
                "coerce_int96_timestamp_unit": "us",
                "page_checksum_verification": True,
            }
            self._file = open_parquet(store.open_input(name), **self._options)
            schema = self._file.schema
            self._leaves = {schema.column(i).path: i for i in range(len(schema))}
            footer = self._file.footer
            footer.check(self._file)
        self._groups = footer.groups
        self._doubtful = self._contradictions()
        for kind in ("add", "remove"):
            if f"{kind}.path" not in self._leaves and kind in self._columns:
                self.refuse(f"its column {kind} has no path")

    @cached_property
    def _columns(self) -> frozenset[str]:
        """Every dotted prefix of every leaf."""
        leaves: set[str] = set()
        for leaf in self._leaves:
            words = leaf.split(".")
            leaves.update(".".join(words[: i + 1]) for i in range(len(words)))
        return frozenset(leaves)

    def holds(self, column: str) -> bool:
        """Whether some row has a value in the column."""
        return column in self._columns and not self._is_empty(column)

    def _contradictions(self) -> frozenset[str]:
        """The leaves whose counts of NULL cannot all be right."""
        broken: set[str] = set()
        for leaves in _TOGETHER:
            present = [leaf for leaf in leaves if leaf in self._leaves]
            at = [self._leaves[leaf] for leaf in present]
            if any(len({chunks[i].null_count for i in at}) > 1 for _, chunks in self._groups):
                broken.update(present)
        return frozenset(broken)

    def _values(self, leaf: str, group: int) -> int | None:
        """How many non-null values a leaf has in a row group; None if the footer does not say."""
        chunk = self._groups[group][1][self._leaves[leaf]]
        if chunk.null_count is None or leaf in self._doubtful:
            return None
        return chunk.num_values - chunk.null_count

    def _groups_with(self, leaf: str) -> list[int]:
        """The row groups that may hold a value of the leaf."""
        if leaf not in self._leaves:
            return []
        return [g for g in range(len(self._groups)) if self._values(leaf, g) != 0]

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
        with self.reading():
            table = self._read_groups(self._file, kinds, groups)
            rows = {kind: table.column(kind).drop_null().to_pylist(maps_as_pydicts="lossy")
                    for kind in kinds}
        for kind, values in rows.items():
            for value in filter(None, map(_without_nulls, values)):
                try:
                    action = _SMALL[kind][0].from_value(value)
                    if action.extra:
                        action.to_json()  # what JSON lacks could not be written again
                    yield action
                except (InvalidAction, TypeError, ValueError) as error:
                    self.refuse(f"a {kind} row is not valid: {error}")

    @contextmanager
    def _opened(self, coded: list[str], alone: bool) -> Iterator[SafeFile]:
        """The file to read a row group from: one of its own where many are read at once, or some columns are
        to stay the dictionaries that they are stored as."""
        if alone and not coded:
            yield self._file
            return
        with self._apart(coded) as file:
            yield file

    @contextmanager
    def _apart(self, coded: Sequence[str] = ()) -> Iterator[SafeFile]:
        """The file, opened once more: nobody else reads it by this one."""
        with self._store.open_input(self.name) as source:
            yield SafeFile(source, metadata=self._file.metadata, read_dictionary=list(coded), **self._options)

    def _coded(self, leaves_of: dict[str, list[str]], schema: pa.Schema) -> list[str]:
        """The leaves of maps of which the schema wants dictionaries, and Arrow can read them as such."""
        kinds = {column: schema.field(column).type for column in leaves_of if column in schema.names}
        coded = [column for column, kind in kinds.items()
                 if pa.types.is_map(kind) and pa.types.is_dictionary(kind.key_type)]
        return [leaf for column in coded for leaf, place in self._leaves.items()
                if leaf.startswith(leaves_of[column][0] + ".") and has_codes(self._file.metadata, place)]

    def _read_groups(
        self, file: pq.ParquetFile, columns: list[str], groups: Sequence[int],
        use_threads: bool = True,
    ) -> pa.Table:
        try:
            return file.read_row_groups(list(groups), columns=columns, use_threads=use_threads)
        except pa.ArrowNotImplementedError:
            batches = file.iter_batches(FALLBACK_BATCH, list(groups), columns=columns)
            return pa.Table.from_batches(list(batches))

    # -- file actions

    def is_counted(self, kind: str) -> bool:
        return self._is_counted(f"{kind}.path")

    def _is_counted(self, leaf: str) -> bool:
        return all(self._values(leaf, group) is not None for group in self._groups_with(leaf))

    def add_groups(self) -> list[tuple[int, int]]:
        others = ["remove.path", *(leaf for _, leaf in _SMALL.values())]
        if not self.is_counted("add") or not all(map(self._is_counted, others)):
            return []
        mixed = {group for leaf in others for group in self._groups_with(leaf)}
        return [] if mixed & set(self._groups_with("add.path")) else [
            (group, self._values("add.path", group) or 0) for group in self._groups_with("add.path")]

    @property
    def parquet_schema(self) -> Any:
        return self._file.schema

    @cached_property
    def _movable(self) -> list[RowGroup | None]:
        """The row groups as they stand in the footer; found once, as a footer is long."""
        return row_groups(self._file.footer_bytes)

    def row_group(self, group: int) -> RowGroup | None:
        with self.reading():
            return self._movable[group]

    def content_of(self, group: RowGroup) -> bytes:
        with self.reading():
            # Of the file that was opened: another one may have its name by now.
            content: bytes = self._file.read_at(group.length, group.start)
            if len(content) != group.length:
                raise ValueError("it ends within a row group")
            return content

    def count(self, kind: str) -> int:
        leaf = f"{kind}.path"
        values = [self._values(leaf, group) for group in self._groups_with(leaf)]
        if None in values:
            return self.read(kind, ["path"], FILES_SCHEMA).num_rows
        return sum(value for value in values if value)

    def jobs(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None,
        convert: Convert = as_read,
    ) -> list[Job]:
        groups = self._groups_with(f"{kind}.path")
        picked: dict[int, pa.Array] = {}
        if rows is not None:
            by_group = self._rows_by_group(f"{kind}.path", groups, rows)
            if by_group is None:  # the footer does not say which rows a group holds
                return [lambda: convert(self.read(kind, columns, schema).take(rows))]
            groups, picked = list(by_group), by_group
        stored = self._stored(kind, columns, schema)
        if not groups or not stored:
            num_rows = sum(map(len, picked.values())) if rows is not None else self.count(kind)
            return [lambda: convert(nothing_but_nulls(kind, columns, schema, num_rows))]
        # A row is a file's if its struct is there: some leaf must be read, the path is never null.
        leaves = sorted({leaf for some in stored.values() for leaf in some})
        coded = self._coded(stored, schema)

        # Typed statistics are small, and each piece of them would cost the calls for all their columns.
        whole = convert is as_read or any(".stats_parsed" in leaf for leaf in leaves)

        def of(rows: list[pa.StructArray]) -> pa.Table:
            return self._file_rows(rows, kind, columns, schema, stored)

        def job(group: int) -> Job:
            def read() -> pa.Table:
                with self._opened(coded, alone=len(groups) == 1) as file:
                    if whole and group not in picked:
                        table = self._read_groups(file, leaves, [group], use_threads=len(groups) == 1)
                        rows = [row for chunk in table.column(kind).chunks for row in present(chunk)]
                        return convert(of(rows))
                    pieces = by_pieces(file, kind, leaves, group, picked.get(group))
                    return pa.concat_tables([convert(of(rows)) for rows in pieces]).combine_chunks()
            return read

        return [job(group) for group in groups]

    def streamed(
        self, kind: str, columns: Sequence[str], schema: pa.Schema, rows: pa.Array | None = None
    ) -> Iterator[pa.Table]:
        leaf = f"{kind}.path"
        groups, picked = self._groups_with(leaf), None
        if rows is not None:
            picked = self._rows_by_group(leaf, groups, rows)
        stored = self._stored(kind, columns, schema)
        if not groups or not stored or (rows is not None and picked is None):
            yield from super().streamed(kind, columns, schema, rows)
            return
        leaves = sorted({leaf for some in stored.values() for leaf in some})
        with self.reading(), self._apart() as file:
            for group in groups if picked is None else picked:
                for piece in by_pieces(file, kind, leaves, group, None if picked is None else picked[group]):
                    yield self._file_rows(piece, kind, columns, schema, stored)

    def _rows_by_group(
        self, leaf: str, groups: Sequence[int], rows: pa.Array
    ) -> dict[int, pa.Array] | None:
        """The row groups that hold some of the rows, with their positions inside each."""
        by_group, start = {}, 0
        for group in groups:
            count = self._values(leaf, group)
            if count is None:
                return None
            inside = within(rows, start, start + count)
            if len(inside):
                by_group[group] = inside
            start += count
        return by_group

    def _file_rows(
        self, rows: list[pa.StructArray], kind: str, columns: Sequence[str], schema: pa.Schema,
        stored: dict[str, list[str]],
    ) -> pa.Table:
        num_rows = sum(map(len, rows))
        table: dict[str, pa.ChunkedArray | pa.Array] = {}
        for column in columns:
            if column in schema.names:
                kind_of = schema.field(column).type
                if column in stored:
                    make = self._stats_of(stored[column])
                    table[column] = column_of(rows, column, kind_of, make)
                else:
                    table[column] = absent(column, kind_of, num_rows, kind == "add")
            elif column.split(".")[0] in stored and "stats_parsed" not in table:
                table["stats_parsed"] = chunked([child(row, "stats_parsed") for row in rows])
        if "path" in table and table["path"].null_count:
            self.refuse(f"{'an' if kind == 'add' else 'a'} {kind} row has no path")
        return pa.table(table)

    def _stored(
        self, kind: str, columns: Sequence[str], schema: pa.Schema
    ) -> dict[str, list[str]]:
        """The columns asked for that have values here -> the Parquet columns to read for them."""
        by_name: dict[str, list[str]] = {}
        for column in columns:
            stored = f"{kind}.{camel(column) if column in schema.names else column}"
            if column == "stats" and not self.holds(stored):
                stored = f"{kind}.stats_parsed"
            # A tombstone's empty map is not its absent one; footers count both as no value.
            if self.holds(stored) or (kind == "remove" and stored in self._columns):
                by_name.setdefault(column.split(".")[0], []).append(stored)
        return by_name

    def _stats_of(self, stored: list[str]) -> Callable[[pa.StructArray], pa.Array] | None:
        """How to make the stats column when it is stored as typed columns only."""
        if stored[0].endswith(".stats_parsed"):
            return lambda row: stats_as_json(child(row, "stats_parsed"))
        return None


def _without_nulls(value: Any) -> Any:
    """A row of structs without its null fields; maps keep their null values."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


