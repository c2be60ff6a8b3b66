"""Reading checkpoints: classic, multi-part and V2, as columns that are read when asked for.

Lives here: the way from checkpoint files to a :class:`CheckpointParts`. The few protocol, metadata,
transaction and domain rows become actions at once; the many file rows stay in Parquet and only the
columns asked for are read, as Arrow, in a stable row order.

Does not know: what a single file looks like, how to choose among checkpoints, later commits, what
statistics mean. A file that cannot be read is an InvalidTable that names it; whether an older
checkpoint will do is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from deltanb.actions import Action, DomainMetadata, Metadata, Protocol, SetTransaction, Sidecar
from deltanb.concurrency import parallel
from deltanb.log.arrays import within
from deltanb.log.checkpoint.names import sidecar_name
from deltanb.log.checkpoint.part import Convert, Job, JsonPart, ParquetPart, Part, as_read, run_all
from deltanb.log.checkpoint.rows import concat
from deltanb.log.replay import CODED_SCHEMA, FILES_SCHEMA, TOMBSTONES_SCHEMA
from deltanb.text.progress import progress

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

MAX_OPENERS = 8
"""Threads that open footers: waiting for a store is all they do."""


class Piece(NamedTuple):
    """A row group of a checkpoint: its file, its number there, and the positions of its files among all."""

    part: Part
    group: int
    start: int
    stop: int


class CheckpointParts:
    """One checkpoint, opened: small actions at hand, file actions by column.

    ``protocol`` and ``metadata`` are None if the checkpoint lacks them (a broken writer's);
    ``txns`` is {app id: SetTransaction}, ``domains`` {name: DomainMetadata} without removed ones.
    """

    def __init__(
        self, names: Sequence[str], small: Iterable[Action], parts: Sequence[Part]
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
    def is_counted(self) -> bool:
        """Whether the footers say how many files there are."""
        return all(part.is_counted("add") for part in self._parts)

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether some added file may have one; from footers, where they say it."""
        return any(
            part.count("add") > 0 if isinstance(part, JsonPart) else part.holds("add.deletionVector")
            for part in self._parts
        )

    @property
    def has_stats_parsed(self) -> bool:
        """Whether statistics are there as typed columns."""
        return any(part.holds("add.stats_parsed") for part in self._parts)

    def pieces(self) -> Iterator[Piece]:
        """The row groups with files, in the order of :meth:`read_adds`; none of a file whose footer does not
        say how many each has."""
        start = 0
        for part in self._parts:
            begun = start
            for group, count in part.add_groups():
                yield Piece(part, group, start, start + count)
                start += count
            start = begun + part.count("add")

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
        return self._whole(concat(self._run(jobs), columns), rows)

    def stream_adds(self, columns: Sequence[str], rows: pa.Array | None = None) -> Iterator[pa.Table]:
        """What :meth:`read_adds` gives, some rows at a time: nothing is read before it is asked for."""
        count = 0
        for part, here in self._shares(rows):
            for table in part.streamed("add", columns, FILES_SCHEMA, here):
                count += table.num_rows
                self._check(count, rows, is_all=False)
                yield table
        self._check(count, rows)

    def read_partition_values(self) -> pa.ChunkedArray:
        """Partition values of the rows of :meth:`read_adds`; each row group has its own dictionary."""
        columns = ["partition_values"]
        tables = self._run(self._jobs(lambda part: columns, None, schema=CODED_SCHEMA))
        return self._whole(concat(tables, columns), None).column(0)

    def read_stats(
        self, leaves: Sequence[str], rows: pa.Array | None, convert: Convert
    ) -> pa.Table:
        """What ``convert`` makes of the statistics, some rows at a time, row groups in several threads.

        It is given tables with ``stats_parsed`` (only the named leaves, ``stats_parsed.minValues.x``)
        from files that have it, else with ``stats``. ``rows`` as in :meth:`read_adds`.
        """
        jobs = self._jobs(
            lambda part: leaves if part.holds("add.stats_parsed") else ["stats"], rows, convert)
        return self._whole(pa.concat_tables(self._run(jobs)), rows)

    def _run(self, jobs: list[Job]) -> list[pa.Table]:
        """The tables that the jobs give, in their order."""
        with progress("checkpoint: row groups read", len(jobs)) as seen:
            return run_all([partial(_counted, job, seen) for job in jobs])

    def _whole(self, table: pa.Table, rows: pa.Array | None) -> pa.Table:
        """What was read, if it has as many rows as the footers say."""
        self._check(table.num_rows, rows)
        return table

    def _check(self, count: int, rows: pa.Array | None, is_all: bool = True) -> None:
        expected = self.num_adds if rows is None else len(rows)
        if count > expected or (is_all and count < expected):
            self._parts[0].refuse(f"it says that it has {expected} files and has {count}")

    def _shares(self, rows: pa.Array | None) -> Iterator[tuple[Part, pa.Array | None]]:
        """The files of the checkpoint, and the positions of the wanted actions in each; None for all."""
        start = 0
        for part in self._parts:
            here = None
            if rows is not None:
                stop = start + part.count("add")
                here, start = within(rows, start, stop), stop
            yield part, here

    def _jobs(
        self, columns: Callable[[Part], Sequence[str]], rows: pa.Array | None,
        convert: Convert = as_read, schema: pa.Schema = FILES_SCHEMA,
    ) -> list[Job]:
        jobs = []
        for part, here in self._shares(rows):
            some = part.jobs("add", columns(part), schema, here, convert)
            jobs += [part.safely(job) for job in some]
        return jobs

    def read_removes(self) -> pa.Table:
        """The tombstones, a table of TOMBSTONES_SCHEMA."""
        columns = TOMBSTONES_SCHEMA.names
        parts = [part.read("remove", columns, TOMBSTONES_SCHEMA) for part in self._parts]
        return concat(parts, columns)


def _counted(job: Job, seen: Callable[[], None]) -> pa.Table:
    table = job()
    seen()
    return table


def open_checkpoint(store: LogStore, files: Sequence[Any]) -> CheckpointParts:
    """Open one checkpoint: the names (or FileStatus) of all its files, in part order.

    Raises InvalidTable, naming the file, if a part or a sidecar is missing or broken.
    """
    names = [str(getattr(file, "name", file)) for file in files]
    parts = _open_all(store, names)
    small = [action for part in parts for action in part.small_actions()]
    linked = [sidecar_name(action.path) for action in small if isinstance(action, Sidecar)]
    return CheckpointParts(names, small, parts + _open_all(store, linked))


def sidecars_of(store: LogStore, names: Sequence[str]) -> list[Sidecar]:
    """The sidecars that a checkpoint links; they themselves are not opened.

    Raises InvalidTable, naming the file, if one of its files is missing or broken.
    """
    return [action for part in _open_all(store, names) for action in part.small_actions()
            if isinstance(action, Sidecar)]


def _open_all(store: LogStore, names: Sequence[str]) -> list[Part]:
    def open_one(name: str) -> Part:
        return JsonPart(store, name) if name.endswith(".json") else ParquetPart(store, name)

    return list(parallel.each(open_one, names, MAX_OPENERS, "checkpoint"))
