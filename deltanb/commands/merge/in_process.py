"""MERGE in the process: a join of two sides by equal keys, and the resulting rows, with Arrow.

What lives here: :class:`ArrowMerge`, which holds the source, finds the target's rows that clauses change
(:meth:`ArrowMerge.find`) and then writes the new ones (:meth:`ArrowMerge.write`); the contract is
:class:`deltanb.engines.contract.MergeEngine`.
What it does not know: how rows are found (``search``); the transaction's commit, metrics, deletion vectors
(``merge``); Spark.

The source is held in memory. Of the target, only the positions of changed rows and some of the searched keys
are. When rows are written, a few batches of the target are in memory at a time, or the changed columns of row
groups: updated rows stay in their places, and other columns are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.actions import AddFile
from deltanb.commands.merge.clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    UPDATE,
    Names,
    Resolved,
)
from deltanb.commands.merge.keys import repeated
from deltanb.commands.merge.matching import SourceKeys, comparable
from deltanb.commands.merge.outcomes import Outcome
from deltanb.commands.merge.reach import Reach
from deltanb.commands.merge.search import Changed, Search
from deltanb.commands.merge.sides import evaluated, is_true, sided
from deltanb.concurrency.memory import give_back, pool
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.assignments import replaced
from deltanb.engines.arrow.data_file import BATCH_ROWS, ROW_POSITION, Scan, read_data_file
from deltanb.engines.arrow.enforce import Enforcer, nullable
from deltanb.engines.arrow.engine import PROCESS
from deltanb.engines.arrow.patched import Changing, Patcher
from deltanb.engines.arrow.read import SMALL_SCAN_BYTES
from deltanb.engines.arrow.row_ids import renewed
from deltanb.engines.arrow.touched import ahead, live_rows, plan_in
from deltanb.engines.contract import JoinedRows
from deltanb.log.arrays import array_of, numbers
from deltanb.schema.types import StructType, to_arrow
from deltanb.sql import predicates
from deltanb.sql.predicates import Predicate
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.commands.merge.on import On
    from deltanb.parquet.file import SafeFile
    from deltanb.transaction.transaction import OptimisticTransaction


class ArrowMerge:
    """One merge in the process; see :class:`deltanb.engines.contract.MergeEngine`.

    Args:
        on: the condition, which must have a key.
        clauses: the clauses in order.
        schema: the table's schema after the merge.

    Raises:
        UnsupportedPredicate: SQL that does not run in the process.
        InvalidPredicate: a value of a type that its column does not take.
        SchemaMismatch: a column of the source that does not fit the table's.
    """

    def __init__(
        self, txn: OptimisticTransaction, names: Names, on: On, clauses: Sequence[Resolved],
        schema: StructType,
    ) -> None:
        if on.reason is not None:
            raise on.reason
        self.txn, self.names, self.on, self.schema = txn, names, on, schema
        self.clauses = list(clauses)
        both = names.schema()
        self.conditions = [None if clause.condition is None else _runnable(clause.condition, both)
                           for clause in clauses]
        self.outcomes = [None if clause.action == DELETE else Outcome(names, clause, schema)
                         for clause in clauses]
        self.source = pa.table({})
        self.matched: Any = np.zeros(0, bool)
        self.inserted: Any = np.zeros(0, np.int16)

    @property
    def num_source_rows(self) -> int:
        """The number of rows of the source."""
        return int(self.source.num_rows)

    # -- finding -------------------------------------------------------------------------------------

    def take_source(self, source: pa.Table) -> None:
        """Hold the source's rows, in the Arrow types of ``names.source``."""
        self.source = source.combine_chunks()
        self.matched = np.zeros(source.num_rows, bool)
        rows = sided(self.names, source=self.source)
        able = np.ones(source.num_rows, bool)
        for part in self.on.source_only:
            able &= is_true(rows, part)
        self._able = None if able.all() else np.flatnonzero(able)
        self._key_values = [evaluated(rows, key.source) for key in self.on.keys]

    def key_values(self) -> list[pa.Array]:
        """For each key of the condition the values of the source's rows that can match."""
        if self._able is None:
            return self._key_values
        return [array.take(array_of(self._able)) for array in self._key_values]

    def repeated(self, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
        """A key that several rows of the source have."""
        return repeated(columns, self.source)

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self.txn.snapshot, self.on.keys, self.key_values(), self.on.target_only)

    def narrowed(self, files: FileScan) -> FileScan:
        """The files that may hold a key of the source."""
        return files.where(self._reach.of_files(files))

    def find(self, files: FileScan, seen: Callable[[], None] = lambda: None) -> JoinedRows:
        """Look the files' keys up among those of the source."""
        matches = JoinedRows()
        keys = SourceKeys([array for key, values in zip(self.on.keys, self._key_values, strict=True)
                           for array in comparable(key, values)], self._able)
        search = Search(self.txn, self.names, self.on, self.clauses, self.conditions, self.source, keys,
                        self._reach)
        for part in search.parts(files, seen):
            for rows in part.matched:
                self.matched[rows] = True
            matches.several |= part.several
            for one in part.changed:
                _count(matches, one.clauses)
                matches.changed.append(one)
        self._choose_inserts(search, matches)
        if files.table.num_rows and sum(files.table["size"].to_pylist()) > SMALL_SCAN_BYTES:
            give_back()  # what the threads of the search have left, before files are written
        return matches

    def _choose_inserts(self, search: Search, matches: JoinedRows) -> None:
        missing = np.flatnonzero(~self.matched)
        chosen = search.chosen(
            NOT_MATCHED, lambda: sided(self.names, source=self.source.take(array_of(missing))), len(missing))
        _count(matches, chosen[chosen >= 0])
        self.inserted = np.full(self.source.num_rows, -1, np.int16)
        self.inserted[missing] = chosen

    # -- rows ----------------------------------------------------------------------------------------

    def write(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None = None,
        without: Collection[str] = (),
    ) -> list[AddFile]:
        """Write new files; a few batches or row groups of the target are in memory at a time."""
        return PROCESS.write(self.txn, self._rows(changed, groups, inserts, without))

    def _rows(
        self, changed: Sequence[Changed], groups: Sequence[str], inserts: Sequence[int] | None,
        without: Collection[str],
    ) -> inputs.Source:
        schema = to_arrow(nullable(self.schema))
        names = [name for name in schema.names if name not in without]

        scan = plan_in(self.txn, row_ids=set(groups) != {INSERT})
        tracked = [scan.schema.field(field.name) for field in scan.tracked]
        written = pa.schema([*(schema.field(name) for name in names), *tracked])
        in_place = self._in_place() if UPDATE in groups else None
        patcher = Patcher(self.txn, [one.file for one in changed] if "copy" in groups else [], in_place)
        own = None if in_place is None else in_place.columns

        def batches() -> Iterator[Any]:
            if UPDATE in groups or "copy" in groups:
                yield from ahead(
                    lambda one: self._of_file(scan, one, groups, patcher, own), changed, scan.store)
            if INSERT in groups:
                for batch in self._inserts(inserts):
                    new = [pa.nulls(batch.num_rows, field.type) for field in tracked]
                    yield pa.RecordBatch.from_arrays(
                        [*batch.select(names).columns, *new], schema=written)

        return inputs.Source(written, batches, mixes=patcher.copies, plain=patcher.plain)

    def _of_file(
        self, scan: Scan, one: Changed, groups: Sequence[str], patcher: Patcher, own: frozenset[str] | None
    ) -> Generator[Any, None, None]:
        """The rows that replace a file; row groups without changed rows are copied. ``own`` are the columns
        that change in rows that stay in their places."""
        if "copy" not in groups:
            only = one.of(self._places(UPDATE))
            return self._decoded(scan, one, groups, only) if only else _nothing()
        return patcher.pieces(
            one.file, lambda: live_rows(self.txn, one.file), BitMap64(one.positions.astype(np.uint64)),
            lambda parquet, only: self._decoded(scan, one, groups, only, parquet),
            None if own is None else partial(self._renewed, one, own),
            one.of(self._places(DELETE)))

    def _places(self, action: str) -> list[int]:
        return [place for place, clause in enumerate(self.clauses) if clause.action == action]

    def _decoded(
        self, scan: Scan, one: Changed, groups: Sequence[str], only: BitMap64 | None,
        parquet: SafeFile | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        names = self.txn.snapshot.schema.names
        widen = Enforcer(pa.schema([scan.schema.field(name) for name in names]), self.schema)
        for batch in read_data_file(
                scan, one.file, positions=True, only=only, parquet=parquet):
            old, ids = batch.select(names), batch.select([field.name for field in scan.tracked])
            here, changes = one.among(numbers(batch.column(ROW_POSITION)))
            if "copy" in groups and len(here) < batch.num_rows:
                others, beside = (_without(part, here) for part in (old, ids))
                yield _beside(widen.apply(others), beside)
            if UPDATE not in groups:
                continue
            for outcome, places, before, both in self._updated(one, old, here, changes):
                row_ids = renewed(ids.take(array_of(places)), scan.tracked)
                yield _beside(outcome.apply(both, widen.apply(before)), row_ids)

    def _updated(
        self, one: Changed, rows: pa.RecordBatch, here: Any, changes: Any
    ) -> Iterator[tuple[Outcome, Any, pa.RecordBatch, pa.Table]]:
        """For each clause that updates rows: its outcome, the positions of the old rows, the old rows, and
        both sides. ``here`` and ``changes`` are from :meth:`Changed.among`."""
        for place in np.flatnonzero(np.bincount(one.clauses[changes])):
            outcome = self.outcomes[place]
            if outcome is None:
                continue
            chosen = one.clauses[changes] == place
            places, source_places = here[chosen], one.source_rows[changes[chosen]]
            before = pc.take(rows, array_of(places), memory_pool=pool())
            other = None if self.clauses[place].kind != MATCHED else self.source.take(array_of(source_places))
            yield outcome, places, before, sided(self.names, pa.Table.from_batches([before]), other)

    # -- rows that stay where they are ---------------------------------------------------------------

    def _in_place(self) -> Changing | None:
        """The columns that updates change; None if these may be all columns of the files, or depend on other
        rows."""
        outcomes = [outcome for clause, outcome in zip(self.clauses, self.outcomes, strict=True)
                    if outcome is not None and clause.action == UPDATE]
        snapshot = self.txn.snapshot
        if self.schema != snapshot.schema or any(outcome.generated for outcome in outcomes):
            return None
        changed = frozenset[str]().union(*(outcome.changed(self.on.keys) for outcome in outcomes))
        if not changed or len(changed) >= len(self.schema.names) - len(snapshot.partition_columns):
            return None
        return Changing(changed, frozenset[str]().union(*(outcome.inputs(changed) for outcome in outcomes)))

    def _renewed(
        self, one: Changed, columns: frozenset[str], rows: pa.RecordBatch, positions: pa.Array
    ) -> pa.RecordBatch:
        """Some columns of a file's rows with their updated values."""
        here, changes = one.among(numbers(positions))
        if not len(here):
            return rows
        fields = [field for field in self.schema.fields if field.name in rows.schema.names]
        widen = Enforcer(rows.schema, StructType(fields))
        new, order = [], []
        for outcome, places, before, both in self._updated(one, rows, here, changes):
            narrow = outcome.only(columns)
            new.append(narrow.apply(both, widen.apply(before).select(narrow.arrow.names)))
            order.append(places)
        return replaced(widen.apply(rows), pa.Table.from_batches(new), np.concatenate(order))

    def _inserts(self, places: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        for place in np.unique(self.inserted):
            outcome = self.outcomes[place] if place >= 0 else None
            if outcome is None or (places is not None and place not in places):
                continue
            rows = np.flatnonzero(self.inserted == place)
            for start in range(0, len(rows), BATCH_ROWS):
                taken = self.source.take(array_of(rows[start:start + BATCH_ROWS]))
                yield outcome.apply(sided(self.names, source=taken), None)


def _nothing() -> Generator[Any, None, None]:
    yield from ()


def _without(rows: pa.RecordBatch, places: Any) -> pa.RecordBatch:
    """The other rows."""
    if not len(places):
        return rows
    others: Any = np.ones(rows.num_rows, bool)
    others[places] = False
    mask = array_of(others)  # by columns: Arrow would make positions of the mask for a batch
    return pa.RecordBatch.from_arrays(
        [pc.array_filter(column, mask, memory_pool=pool()) for column in rows.columns], schema=rows.schema)


def _beside(rows: pa.RecordBatch, ids: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their ids and commit versions as last columns."""
    if not ids.num_columns:
        return rows
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *ids.columns], schema=pa.schema([*rows.schema, *ids.schema]))


def _runnable(sql: str, schema: StructType) -> Predicate:
    predicate = predicates.parse(sql, schema)
    predicate.to_expression()
    return predicate


def _count(matches: JoinedRows, clauses: Any) -> None:
    for place, rows in enumerate(np.bincount(clauses).tolist()):
        if rows:
            matches.counts[place] = matches.counts.get(place, 0) + rows
