"""The search for the target rows that a merge's clauses change, in the process.

What lives here: :class:`Search`, which goes through the files: first the keys, then the other columns of rows
with a match, then the clause of each row.
What it does not know: how the new rows are made and written (``in_process``), the commit.

Only the key columns of row groups that may hold a key of the source are decoded; other columns of the
condition and the clauses only if keys have matched. Clauses for rows without a match need all rows; even
then, keys are not decoded in files that cannot match.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.actions import AddFile
from deltanb.commands.merge.clauses import MATCHED, NOT_MATCHED_BY_SOURCE, Names, Resolved
from deltanb.commands.merge.matching import SourceKeys, comparable
from deltanb.commands.merge.reach import Reach
from deltanb.commands.merge.sides import evaluated, is_true, sided
from deltanb.concurrency import parallel
from deltanb.concurrency.memory import pool
from deltanb.engines.arrow.data_file import BATCH_ROWS, ROW_POSITION, Scan, read_data_file
from deltanb.engines.arrow.read import SMALL_SCAN_BYTES
from deltanb.engines.arrow.touched import plan_in
from deltanb.log.arrays import array_of, numbers
from deltanb.sql import expressions as ex
from deltanb.store.base import is_remote

if TYPE_CHECKING:
    from deltanb.commands.merge.on import On
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

WINDOW_ROWS = 1 << 17
"""Rows of the target whose keys are looked up at a time, where the source has fewer: its keys are hashed once
for each window."""
MAX_WINDOW_ROWS = 4_000_000
"""The same for sources of any size: a window of two long columns takes some 100 MB."""


@dataclass
class Changed:
    """The rows of a file that clauses change: ascending positions in the file, with the clause's index and
    the source's row (-1 if there is none) of each.
    """

    file: AddFile
    positions: Any
    clauses: Any
    source_rows: Any

    def of(self, clauses: Sequence[int]) -> BitMap64:
        """The positions of the rows that some clauses change."""
        return BitMap64(self.positions[np.isin(self.clauses, clauses)].astype(np.uint64))

    def among(self, positions: Any) -> tuple[Any, Any]:
        """Which of some ascending positions change: their indices among these, and among ours."""
        ends: Any = np.searchsorted(self.positions, (positions[0], positions[-1] + 1))
        ours: Any = np.arange(ends[0], ends[1])
        places: Any = np.searchsorted(positions, self.positions[ours])
        is_match = positions[places] == self.positions[ours]
        return places[is_match], ours[is_match]


@dataclass
class Part:
    """The matches in some files: ``matched`` are rows of the source, perhaps repeated."""

    changed: list[Changed] = field(default_factory=list)
    matched: list[Any] = field(default_factory=list)
    several: bool = False


class Search:
    """The search for the rows that a merge changes.

    Args:
        conditions: the clauses' conditions, over :meth:`Names.schema`.
        source: the source's rows.
        keys: the keys of its rows that can match.
        reach: the reach of these keys.
    """

    def __init__(
        self, txn: OptimisticTransaction, names: Names, on: On, clauses: Sequence[Resolved],
        conditions: Sequence[Predicate | None], source: pa.Table, keys: SourceKeys, reach: Reach,
    ) -> None:
        self.names, self.on, self.clauses, self.conditions = names, on, clauses, conditions
        self.source, self.keys, self.reach = source, keys, reach
        self.by_source = any(clause.kind == NOT_MATCHED_BY_SOURCE for clause in clauses)
        self._txn = txn
        own = plan_in(txn, sorted(self._key_columns | (self._others if self.by_source else set())))
        self._scan = own if self.by_source else replace(
            own, groups=reach, judged=txn.snapshot.schema.fields)

    def parts(self, files: FileScan, seen: Callable[[], None]) -> Iterator[Part]:
        """The matches in the order of the files; last, files without possible matches.

        If clauses need every row, all files are included, else only those that may match.
        """
        small = sum(files.table["size"].to_pylist()) <= SMALL_SCAN_BYTES
        beyond = None
        if self.by_source:
            met = self.reach.of_files(files)
            files, beyond = files.where(met), files.where(~met)
        works = [(True, window) for window in self._windows(files)]
        works += [(False, window) for window in self._windows(beyond)] if beyond is not None else []
        yield from parallel.each(
            lambda work: self._search(*work, seen), works,
            1 if small else None, name="merge")

    # -- which columns -------------------------------------------------------------------------------

    @cached_property
    def _key_columns(self) -> set[str]:
        return {node.path[1] for key in self.on.keys for node in ex.walk(key.target)
                if isinstance(node, ex.Column) and node.path[0] == self.names.target_alias}

    @cached_property
    def _others(self) -> set[str]:
        """The target's columns that decide besides the keys."""
        decisive = [*self.on.rest, *(one for one in self.conditions if one is not None)]
        columns = {path[1] for part in decisive for path in part.column_paths
                 if path[0] == self.names.target_alias}
        columns |= {path[0] for part in self.on.target_only for path in part.column_paths}
        return columns - self._key_columns

    @cached_property
    def _late(self) -> Scan | None:
        """The scan of further columns for rows whose keys matched."""
        return plan_in(self._txn, sorted(self._others)) if self._others and not self.by_source else None

    @cached_property
    def _lonely(self) -> Scan:
        """The scan of files without a match."""
        conditions = [condition for clause, condition in zip(self.clauses, self.conditions, strict=True)
                      if clause.kind == NOT_MATCHED_BY_SOURCE and condition is not None]
        return plan_in(self._txn, sorted({path[1] for one in conditions for path in one.column_paths}))

    # -- files ---------------------------------------------------------------------------------------

    @property
    def _window_rows(self) -> int:
        return min(max(WINDOW_ROWS, len(self.keys)), MAX_WINDOW_ROWS)

    def _windows(self, files: FileScan) -> Iterator[list[AddFile]]:
        """The files in groups of about as many rows; one without a count is a group."""
        window: list[AddFile] = []
        rows, most = 0, self._window_rows
        for file in files:
            count = most if file.num_records is None else file.num_records
            if window and rows + count > most:
                yield window
                window, rows = [], 0
            window.append(file)
            rows += count
        if window:
            yield window

    def _search(self, can_match: bool, files: Sequence[AddFile], seen: Callable[[], None]) -> Part:
        part, changes = Part(), []
        for rows, counts in self._read(self._scan if can_match else self._lonely, files, seen):
            changes.append(self._judged(files, rows, counts, part, can_match))
        files_of, positions, clauses, source_rows = (
            np.concatenate(column) for column in zip(*changes, strict=True)) if changes else [np.zeros(0)] * 4
        borders: Any = np.searchsorted(files_of, np.arange(len(files) + 1))
        for place, file in enumerate(files):
            here = slice(borders[place], borders[place + 1])
            if here.stop > here.start:
                part.changed.append(Changed(file, positions[here], clauses[here], source_rows[here]))
        return part

    def _read(
        self, scan: Scan, files: Sequence[AddFile], seen: Callable[[], None]
    ) -> Iterator[tuple[pa.Table, Any]]:
        """The rows of the files in pieces of about a window, with their positions, and the number of rows of
        each file in each piece."""
        schema = pa.schema([*scan.schema, pa.field(ROW_POSITION, pa.int64())])
        waiting: list[pa.RecordBatch] = []
        counts: Any = np.zeros(len(files), np.int64)
        batch_rows = max(WINDOW_ROWS, BATCH_ROWS)  # in one piece they are not copied

        def read(one: tuple[int, AddFile]) -> Generator[tuple[int, pa.RecordBatch], None, None]:
            place, file = one
            for batch in read_data_file(scan, file, positions=True, batch_rows=batch_rows):
                yield place, batch
            seen()

        for place, batch in self._batches(read, files):
            waiting.append(batch)
            counts[place] += batch.num_rows
            if counts.sum() >= self._window_rows:
                yield pa.Table.from_batches(waiting, schema), counts
                waiting, counts = [], np.zeros(len(files), np.int64)
        if waiting:
            yield pa.Table.from_batches(waiting, schema), counts

    def _batches(
        self, read: Callable[[tuple[int, AddFile]], Generator[tuple[int, pa.RecordBatch], None, None]],
        files: Sequence[AddFile],
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batches of each file, in order; in a bucket, several files are read at a time."""
        if is_remote(self._scan.store):
            return parallel.streamed(read, enumerate(files), parallel.MAX_WAITING, "merge")
        return (batch for one in enumerate(files) for batch in read(one))

    # -- rows ----------------------------------------------------------------------------------------

    def _judged(
        self, files: Sequence[AddFile], rows: pa.Table, counts: Any, part: Part, can_match: bool
    ) -> tuple[Any, Any, Any, Any]:
        """The file's number, position, clause and source row of each changed row.

        ``here`` and ``source_rows`` are pairs of a row of the target and one of the source, as row numbers;
        they stay sorted by ``here`` throughout, as they are only filtered.
        """
        rows = rows.combine_chunks(pool())
        here, source_rows = self._pairs(rows) if can_match and len(self.keys) else [np.zeros(0, np.int64)] * 2
        if self.by_source:
            places: Any = np.repeat(np.arange(len(files)), counts)
        else:
            rows, places, here = self._narrowed(files, rows, counts, here)
        here, source_rows = self._filtered(rows, here, source_rows)
        # Before pairs are dropped: a source row that meets any target row is not inserted.
        part.matched.append(source_rows)
        # One pair per row is enough: several are refused later, unless matched rows are left alone or all
        # deleted.
        first = _begins(here)
        part.several |= not first.all()
        here, source_rows = here[first], source_rows[first]
        clauses = self.chosen(MATCHED, lambda: self._paired(rows, here, source_rows), len(here))
        if self.by_source:
            here, source_rows, clauses = self._with_lonely(rows, here, source_rows, clauses)
        keep = clauses >= 0
        here, source_rows, clauses = here[keep], source_rows[keep], clauses[keep]
        return places[here], numbers(rows.column(ROW_POSITION))[here], clauses, source_rows

    def _pairs(self, rows: pa.Table) -> tuple[Any, Any]:
        both = sided(self.names, target=rows)
        return self.keys.pairs(
            [array for key in self.on.keys for array in comparable(key, evaluated(both, key.target))])

    def _narrowed(
        self, files: Sequence[AddFile], rows: pa.Table, counts: Any, here: Any
    ) -> tuple[pa.Table, Any, Any]:
        """The rows with a match and further columns, the numbers of their files, and the pairs renumbered."""
        begins = _begins(here)
        firsts = here[begins]
        places: Any = np.searchsorted(np.cumsum(counts), firsts, "right")
        if len(firsts) < rows.num_rows:
            rows, here = pc.take(rows, array_of(firsts), memory_pool=pool()), np.cumsum(begins) - 1
        if self._late is None or not len(firsts):
            return rows, places, here
        positions = numbers(rows.column(ROW_POSITION))
        batches = [batch for place in places[_begins(places)] for batch in read_data_file(
            self._late, files[place], only=BitMap64(positions[places == place].astype(np.uint64)))]
        more = pa.Table.from_batches(batches, self._late.schema)
        for name in more.schema.names:
            rows = rows.append_column(more.schema.field(name), more.column(name))
        return rows.combine_chunks(pool()), places, here

    def _filtered(self, rows: pa.Table, here: Any, source_rows: Any) -> tuple[Any, Any]:
        """The pairs for which the whole condition is TRUE."""
        able: Any = np.ones(rows.num_rows, bool)
        for conjunct in self.on.target_only if len(here) else ():
            able &= is_true(rows, conjunct)
        keep = able[here]
        here, source_rows = here[keep], source_rows[keep]
        if self.on.rest and len(here):
            pairs = self._paired(rows, here, source_rows)
            keep = np.logical_and.reduce([is_true(pairs, conjunct) for conjunct in self.on.rest])
            here, source_rows = here[keep], source_rows[keep]
        return here, source_rows

    def _with_lonely(self, rows: pa.Table, here: Any, source_rows: Any, clauses: Any) -> tuple[Any, Any, Any]:
        """The pairs with the rows without a match added, in order."""
        alone: Any = np.ones(rows.num_rows, bool)
        alone[here] = False
        lonely = np.flatnonzero(alone)
        left = self.chosen(
            NOT_MATCHED_BY_SOURCE, lambda: sided(self.names, target=rows.take(array_of(lonely))), len(lonely))
        # Each row is there at most once: `here` and `lonely` share none.
        here, clauses = np.concatenate([here, lonely]), np.concatenate([clauses, left])
        source_rows = np.concatenate([source_rows, np.full(len(lonely), -1)])
        order = np.argsort(here, kind="stable")
        return here[order], source_rows[order], clauses[order]

    def _paired(self, rows: pa.Table, here: Any, source_rows: Any) -> pa.Table:
        return sided(self.names, rows.take(array_of(here)), self.source.take(array_of(source_rows)))

    def chosen(self, kind: str, rows: Callable[[], pa.Table], count: int) -> Any:
        """For each row, the index of the first clause of the kind whose condition is TRUE, or -1."""
        chosen: Any = np.full(count, -1, np.int16)
        places = [place for place, clause in enumerate(self.clauses) if clause.kind == kind]
        if not count or not places:
            return chosen
        table = rows() if any(self.conditions[place] is not None for place in places) else None
        for place in places:
            condition = self.conditions[place]
            open_ = chosen < 0
            if condition is not None:
                assert table is not None
                open_ &= is_true(table, condition)
            chosen[open_] = place
        return chosen


def _begins(values: Any) -> Any:
    """A mask of the sorted numbers that differ from the previous one."""
    begins: Any = np.ones(len(values), bool)
    begins[1:] = values[1:] != values[:-1]
    return begins
