"""MERGE in the process: equality joins, and the rows they give, with Arrow.

What lives here: :class:`ArrowMerge`, which finds the target's rows that clauses change
(:meth:`ArrowMerge.find`) and then writes the new ones (:meth:`ArrowMerge.write`); the contract is
:class:`deltanb.engine.MergeEngine`.
What it does not know: the transaction's commit, metrics, deletion vectors (``merge``); Spark.

The source is held in memory. Of the target only the columns that decide are read to find rows,
:data:`WINDOW_ROWS` at a time; what stays are the places of the rows that change. When rows are
written, one batch of the target is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t
from pyroaring import BitMap64

from deltanb import parallel
from deltanb.actions import AddFile
from deltanb.commands.merge.clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Fields,
    Names,
    Resolved,
)
from deltanb.data import assignments as assigning
from deltanb.data import inputs
from deltanb.data.data_file import BATCH_ROWS, ROW_POSITION, Scan, plan, read_data_file
from deltanb.data.enforce import Enforcer, differences, mismatch, nullable, refuse_lacking
from deltanb.data.engine import PROCESS
from deltanb.data.read import SMALL_SCAN_BYTES
from deltanb.data.row_ids import renewed
from deltanb.engine import Found
from deltanb.schema.types import DataType, StructField, StructType, to_arrow
from deltanb.sql import expressions as ex
from deltanb.sql import predicates, values
from deltanb.sql.predicates import Predicate

if TYPE_CHECKING:
    from deltanb.commands.merge.on import Key, On
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

WINDOW_ROWS = 4_000_000
"""Rows of the target joined with the source at a time: the source is hashed once for each window, and a
window of two long columns takes some 100 MB."""
_NUMBER = "__row"  # of a row among those that are joined or evaluated


@dataclass
class Changed:
    """The rows of a file that clauses change: positions in the file, ascending, and for each the
    clause (its place among all) and the source's row (-1 where there is none)."""

    file: AddFile
    positions: Any
    clauses: Any
    source_rows: Any

    def of(self, clauses: Sequence[int]) -> BitMap64:
        """The positions of the rows that some clauses change."""
        return BitMap64(self.positions[np.isin(self.clauses, clauses)].astype(np.uint64))


class ArrowMerge:
    """One merge in the process; see :class:`deltanb.engine.MergeEngine`.

    Args:
        on: the condition, which must have a key.
        clauses: in the order in which they were given.
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
        self.outcomes = [None if clause.action == DELETE else _Outcome(names, clause, schema)
                         for clause in clauses]
        self.source = pa.table({})
        self.matched: Any = np.zeros(0, bool)
        self.inserted: Any = np.zeros(0, np.int16)

    @property
    def num_source_rows(self) -> int:
        """How many rows the source has."""
        return int(self.source.num_rows)

    # -- finding -------------------------------------------------------------------------------------

    def take_source(self, source: pa.Table) -> None:
        """Hold the source's rows, in the Arrow types of ``names.source``."""
        self.source = source.combine_chunks()
        self.matched = np.zeros(source.num_rows, bool)
        rows = _sided(source=self.source, names=self.names)
        able = np.ones(source.num_rows, bool)
        for part in self.on.source_only:
            able &= _is_true(rows, part)
        self.source_keys = [array for key in self.on.keys
                            for array in _joined(key, _evaluated(rows, key.source))]
        self.able = None if able.all() else pa.array(np.flatnonzero(able))

    def key_values(self) -> list[pa.Array]:
        """For each key of the condition the values of the source's rows that can match."""
        rows = _sided(source=self.source, names=self.names)
        found = [_evaluated(rows, key.source) for key in self.on.keys]
        return found if self.able is None else [array.take(self.able) for array in found]

    def find(
        self, files: FileScan, where: Sequence[Predicate], seen: Callable[[], None] = lambda: None
    ) -> Found:
        """Join the files' rows with the source, :data:`WINDOW_ROWS` at a time."""
        found = Found()
        needed = self._needed()
        scan = plan(self.txn.snapshot, needed, self._filter(where))
        for window in _windows(files):
            small = sum(file.size for file in window) <= SMALL_SCAN_BYTES
            tables = list(parallel.each(
                lambda file: _keyed(scan, file, seen), window, 1 if small else None, name="merge"))
            self._join(window, tables, found)
        self._choose_inserts(found)
        return found

    def _needed(self) -> list[str]:
        """The columns of the target that decide."""
        alias = self.names.target_alias
        paths = [node.path for key in self.on.keys for node in ex.walk(key.target)
                 if isinstance(node, ex.Column)]
        paths += [path for part in self.on.target_only for path in
                  ((alias, *path) for path in part.column_paths)]
        for part in [*self.on.rest, *(c for c in self.conditions if c is not None)]:
            paths += part.column_paths
        return sorted({path[1] for path in paths if path[0] == alias})

    def _filter(self, where: Sequence[Predicate]) -> Predicate | None:
        if not where or any(clause.kind == NOT_MATCHED_BY_SOURCE for clause in self.clauses):
            return None
        if len(where) == 1:
            return where[0]
        return Predicate(" AND ".join(f"({part.sql})" for part in where),
                         ex.boolean("and", *(part.expression for part in where)))

    def _join(self, files: Sequence[AddFile], tables: Sequence[pa.Table], found: Found) -> None:
        """Find what becomes of the rows of some files, the tables of which are given in the same order.

        ``here`` and ``there`` are pairs of a row of the target and one of the source, as row numbers; they
        stay sorted by ``here`` throughout, as they are only filtered.
        """
        rows = pa.concat_tables(tables).combine_chunks()
        ends = np.cumsum([table.num_rows for table in tables])
        sided = _sided(target=rows, names=self.names)
        keys = [array for key in self.on.keys for array in _joined(key, _evaluated(sided, key.target))]
        able = np.ones(rows.num_rows, bool)
        for part in self.on.target_only:
            able &= _is_true(rows, part)
        here, there = _pairs(keys, self.source_keys, self.able)
        keep = able[here]
        here, there = here[keep], there[keep]
        if self.on.rest and len(here):
            pairs = self._paired(rows, here, there)
            keep = np.logical_and.reduce([_is_true(pairs, part) for part in self.on.rest])
            here, there = here[keep], there[keep]
        # Before pairs are dropped: a source row that meets any target row is not inserted.
        self.matched[there] = True
        # As pairs are sorted by target row, a row's first pair is where the number changes. One pair per
        # row is enough: several are refused later, unless matched rows are left alone or all deleted.
        first: Any = np.ones(len(here), bool)
        first[1:] = here[1:] != here[:-1]
        found.several |= not first.all()
        alone = np.ones(rows.num_rows, bool)
        alone[here] = False
        here, there = here[first], there[first]
        chosen = self._chosen(MATCHED, lambda: self._paired(rows, here, there), len(here))
        lonely = np.flatnonzero(alone)
        left = self._chosen(
            NOT_MATCHED_BY_SOURCE, lambda: _sided(target=rows.take(pa.array(lonely)), names=self.names),
            len(lonely))
        # From here on each target row is there at most once: `here` and `lonely` share none.
        number = np.concatenate([here, lonely])
        clauses = np.concatenate([chosen, left])
        source_rows = np.concatenate([there, np.full(len(lonely), -1)])
        keep = clauses >= 0
        number, clauses, source_rows = number[keep], clauses[keep], source_rows[keep]
        order = np.argsort(number, kind="stable")
        number, clauses, source_rows = number[order], clauses[order], source_rows[order]
        positions = rows.column(ROW_POSITION).to_numpy()[number]
        _count(found, clauses)
        # Row numbers run through the files in order, so each file's rows are one slice of the sorted ones.
        start = 0
        borders: Any = np.searchsorted(number, ends)
        for file, end in zip(files, list(borders), strict=True):
            if end > start:
                here_ = slice(start, end)
                found.changed.append(Changed(file, positions[here_], clauses[here_], source_rows[here_]))
            start = end

    def _paired(self, rows: pa.Table, here: Any, there: Any) -> pa.Table:
        return _sided(rows.take(pa.array(here)), self.source.take(pa.array(there)), self.names)

    def _chosen(self, kind: str, rows: Callable[[], pa.Table], count: int) -> Any:
        """For each row the place of the first clause of the kind whose condition is TRUE, or -1."""
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
                open_ &= _is_true(table, condition)
            chosen[open_] = place
        return chosen

    def _choose_inserts(self, found: Found) -> None:
        missing = np.flatnonzero(~self.matched)
        chosen = self._chosen(
            NOT_MATCHED, lambda: _sided(source=self.source.take(pa.array(missing)), names=self.names),
            len(missing))
        _count(found, chosen[chosen >= 0])
        self.inserted = np.full(self.source.num_rows, -1, np.int16)
        self.inserted[missing] = chosen

    # -- rows ----------------------------------------------------------------------------------------

    def write(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None = None,
        without: Collection[str] = (),
    ) -> list[AddFile]:
        """One batch of the target is in memory at a time."""
        return PROCESS.write(self.txn, self._rows(changed, groups, inserts, without))

    def _rows(
        self, changed: Sequence[Changed], groups: Sequence[str], inserts: Sequence[int] | None,
        without: Collection[str],
    ) -> inputs.Source:
        schema = to_arrow(nullable(self.schema))
        kept = [name for name in schema.names if name not in without]

        scan = plan(self.txn.snapshot, row_ids=set(groups) != {INSERT})
        tracked = [scan.schema.field(field.name) for field in scan.tracked]
        written = pa.schema([*(schema.field(name) for name in kept), *tracked])

        def batches() -> Iterator[pa.RecordBatch]:
            if UPDATE in groups or "copy" in groups:
                for one in changed:
                    yield from self._of_file(scan, one, groups)
            if INSERT in groups:
                for batch in self._inserts(inserts):
                    new = [pa.nulls(batch.num_rows, field.type) for field in tracked]
                    yield pa.RecordBatch.from_arrays(
                        [*batch.select(kept).columns, *new], schema=written)

        return inputs.Source(written, batches)

    def _of_file(
        self, scan: Scan, one: Changed, groups: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        names = self.txn.snapshot.schema.names
        widen = Enforcer(pa.schema([scan.schema.field(name) for name in names]), self.schema)
        only = None
        if "copy" not in groups:
            only = one.of([i for i, clause in enumerate(self.clauses) if clause.action == UPDATE])
            if not only:
                return
        for batch in read_data_file(scan, one.file, positions=True, only=only):
            positions = batch.column(ROW_POSITION).to_numpy()
            old, ids = batch.select(names), batch.select([field.name for field in scan.tracked])
            places = np.minimum(np.searchsorted(one.positions, positions), len(one.positions) - 1)
            hit = one.positions[places] == positions
            if "copy" in groups and not hit.all():
                others = pa.array(~hit)
                yield _beside(widen.apply(old.filter(others)), ids.filter(others))
            for place in np.unique(one.clauses[places[hit]]) if UPDATE in groups else ():
                outcome = self.outcomes[place]
                if outcome is None:
                    continue
                mine = np.flatnonzero(hit & (one.clauses[places] == place))
                before = old.take(pa.array(mine))
                there = one.source_rows[places[mine]]
                other = None if self.clauses[place].kind != MATCHED else self.source.take(pa.array(there))
                sided = _sided(pa.Table.from_batches([before]), other, self.names)
                kept = renewed(ids.take(pa.array(mine)), scan.tracked)
                yield _beside(outcome.apply(sided, widen.apply(before)), kept)

    def _inserts(self, places: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        for place in np.unique(self.inserted):
            outcome = self.outcomes[place] if place >= 0 else None
            if outcome is None or (places is not None and place not in places):
                continue
            numbers = np.flatnonzero(self.inserted == place)
            for start in range(0, len(numbers), BATCH_ROWS):
                taken = self.source.take(pa.array(numbers[start:start + BATCH_ROWS]))
                yield outcome.apply(_sided(source=taken, names=self.names), None)


def _beside(rows: pa.RecordBatch, ids: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their ids and commit versions as last columns."""
    if not ids.num_columns:
        return rows
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *ids.columns], schema=pa.schema([*rows.schema, *ids.schema]))


class _Outcome:
    """The rows that a clause makes: its values where it has one, else the old ones, else NULL."""

    def __init__(self, names: Names, clause: Resolved, schema: StructType) -> None:
        self.schema = schema
        self.arrow = to_arrow(nullable(schema))
        both = names.schema()
        self.leaves = _leaves(both, schema, clause.tree, "", clause.evolves)
        self.generated = [
            (name, predicates.parse_value(sql, schema, schema.field(name).type))
            for name, sql in clause.generated.items()]

    def apply(self, rows: pa.Table, old: pa.RecordBatch | None) -> pa.RecordBatch:
        """The new rows, for rows of both sides and the target's rows in the new schema."""
        arrays = []
        for place, target in enumerate(self.arrow):
            before = pa.nulls(rows.num_rows, target.type) if old is None else old.column(place)
            leaf = self.leaves.get(target.name)
            arrays.append(before if leaf is None else _new(leaf, rows, before, target.name))
        made = pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        for name, value in self.generated:
            place = made.schema.get_field_index(name)
            computed = value.evaluate(pa.Table.from_batches([made]), name)
            made = made.set_column(place, made.schema.field(place), computed)
        return made


class _Taken:
    """A column of the source or target that is stored as it is: any type, nested ones too."""

    def __init__(self, path: tuple[str, ...], found: pa.DataType, field: StructField) -> None:
        self.path = path
        holder, wanted = pa.schema([pa.field(field.name, found)]), StructType([field])
        lines = differences(holder, wanted)
        if lines:
            raise mismatch(lines, "Change the type, or give a value with a CAST.")
        self.enforcer = Enforcer(holder, wanted)

    def evaluate(self, rows: pa.Table) -> pa.Array:
        """The column's values in the wanted type."""
        array = _inner(rows, self.path)
        batch = pa.RecordBatch.from_arrays([array], names=[self.enforcer.table.names[0]])
        return self.enforcer.apply(batch).column(0)


@dataclass(frozen=True)
class _Parts:
    """The new fields of a struct, by name; with ``source`` it stays NULL where that struct is, too."""

    fields: dict[str, Any]
    source: tuple[str, ...] | None


def _leaves(
    both: StructType, fields: StructType, tree: assigning.Tree, prefix: str, evolves: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, assigned in tree.items():
        wanted = fields.field(name)
        if isinstance(assigned, dict):
            assert isinstance(wanted.type, StructType)
            source = plain_column(both, assigned.source) if isinstance(assigned, Fields) else None
            inner = _leaves(both, wanted.type, assigned, f"{prefix}{name}.", evolves)
            found[wanted.name] = _Parts(inner, source)
            continue
        path = plain_column(both, assigned)
        if path is None:
            found[wanted.name] = predicates.parse_value(assigned, both, wanted.type)
            continue
        type_ = type_at(both, path)
        if not evolves:
            refuse_lacking(type_, wanted.type, prefix + wanted.name)
        arrow = to_arrow(nullable(StructType([StructField("x", type_)]))).field(0).type
        relaxed = nullable(StructType([StructField(prefix + wanted.name, wanted.type)])).fields[0]
        found[wanted.name] = _Taken(path, arrow, relaxed)
    return found


def plain_column(both: StructType, sql: str) -> tuple[str, ...] | None:
    """The path of the column that the SQL is, over :meth:`Names.schema`; None for anything else."""
    from deltanb.sql.syntax import identifiers, syntax

    parts = identifiers(syntax(sql))
    if parts is None:
        return None
    path, current = [], both
    for part in parts:
        field = current.get(part.name) if isinstance(current, StructType) else None
        if field is None:
            return None
        path.append(field.name)
        current = field.type  # type: ignore[assignment]
    return tuple(path)


def type_at(schema: StructType, path: Sequence[str]) -> DataType:
    """The type of a column or field."""
    current: Any = schema
    for name in path:
        current = current.field(name).type
    found: DataType = current
    return found


def _new(leaf: Any, rows: pa.Table, before: pa.Array, path: str) -> pa.Array:
    if isinstance(leaf, _Taken):
        return leaf.evaluate(rows)
    if not isinstance(leaf, _Parts):
        made = leaf.evaluate(rows, path)
        return made if made.type.equals(before.type) else made.cast(before.type)
    children = []
    for place, inner in enumerate(before.type):
        child = pc.struct_field(before, [place])
        if inner.name in leaf.fields:
            child = _new(leaf.fields[inner.name], rows, child, f"{path}.{inner.name}")
        children.append(child)
    nothing = None if leaf.source is None else pc.and_(
        before.is_null(), _inner(rows, leaf.source).is_null())
    return pa.StructArray.from_arrays(children, fields=list(before.type), mask=nothing)


# --- rows of two sides ------------------------------------------------------------------------------

def _sided(
    target: pa.Table | None = None, source: pa.Table | None = None, names: Names | None = None
) -> pa.Table:
    """One struct column for each side, under its alias, as :meth:`Names.schema` describes it."""
    assert names is not None
    count = next(side.num_rows for side in (target, source) if side is not None)
    columns = {_NUMBER: pa.array(np.arange(count))}
    for alias, side in ((names.target_alias, target), (names.source_alias, source)):
        if side is None:
            continue
        side = side.combine_chunks()
        columns[alias] = pa.StructArray.from_arrays(
            [_one(column) for column in side.columns], names=side.schema.names) \
            if side.num_columns else pa.array([{}] * count, pa.struct([]))
    return pa.table(columns)


def _one(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return column


def _inner(rows: pa.Table, path: Sequence[str]) -> pa.Array:
    array = _one(rows.column(path[0]))
    for name in path[1:]:
        array = pc.struct_field(array, [name])
    return array


def _runnable(sql: str, schema: StructType) -> Predicate:
    found = predicates.parse(sql, schema)
    found.to_expression()
    return found


def _is_true(rows: pa.Table, condition: Predicate) -> Any:
    """For each row whether the condition is TRUE, as a numpy mask."""
    found = values.project(rows, {"x": condition.to_expression(rows.schema)})
    return _one(pc.fill_null(found.column("x"), False)).to_numpy(zero_copy_only=False)


def _evaluated(rows: pa.Table, expression: ex.Expression) -> pa.Array:
    if isinstance(expression, ex.Column):
        return _inner(rows, expression.path)
    return _one(values.project(rows, {"x": ex.compile_expression(expression)}).column("x"))


def _joined(key: Key, array: pa.Array) -> list[pa.Array]:
    """What a key is joined by: of a null-safe one whether it is NULL, and some value in its place."""
    array = _normal(array)
    if not key.null_safe:
        return [array]
    kind = array.type
    empty: Any = b"" if t.is_binary(kind) else "" if t.is_string(kind) else False if t.is_boolean(kind) else 0
    return [array.is_null(), array.fill_null(pa.scalar(empty, kind)) if array.null_count else array]


def _normal(array: pa.Array) -> pa.Array:
    """Keys of which two are equal in Spark's SQL exactly if they are the same bytes."""
    if t.is_floating(array.type):
        array = array.cast(pa.float64())
        array = pc.if_else(pc.is_nan(array), float("nan"), pc.add(array, 0.0))
        return pa.Array.from_buffers(pa.int64(), len(array), array.buffers(), offset=array.offset)
    if t.is_decimal256(array.type):
        return array.cast(pa.string())
    return array


def _pairs(
    here: Sequence[pa.Array], there: Sequence[pa.Array], able: pa.Array | None
) -> tuple[Any, Any]:
    """(row of the one side, row of the other) of all pairs with equal keys, none NULL; by the first."""
    names = [f"k{i}" for i in range(len(here))]
    left = pa.table([*here, pa.array(np.arange(len(here[0])))], names=[*names, "here"])
    right = pa.table([*there, pa.array(np.arange(len(there[0])))], names=[*names, "there"])
    if able is not None:
        right = right.take(able)
    if not left.num_rows or not right.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if right.num_rows > left.num_rows:  # the second one is hashed
        joined = right.join(left, names, join_type="inner")
    else:
        joined = left.join(right, names, join_type="inner")
    one, other = joined.column("here").to_numpy(), joined.column("there").to_numpy()
    order = np.lexsort((other, one))
    return one[order], other[order]


def _count(found: Found, clauses: Any) -> None:
    for place, rows in zip(*np.unique(clauses, return_counts=True), strict=True):
        found.counts[int(place)] = found.counts.get(int(place), 0) + int(rows)


# --- files ------------------------------------------------------------------------------------------

def _windows(files: FileScan) -> Iterator[list[AddFile]]:
    """The files in groups of about :data:`WINDOW_ROWS` rows; one without a count is a group."""
    window: list[AddFile] = []
    rows = 0
    for file in files:
        count = WINDOW_ROWS if file.num_records is None else file.num_records
        if window and rows + count > WINDOW_ROWS:
            yield window
            window, rows = [], 0
        window.append(file)
        rows += count
    if window:
        yield window


def _keyed(scan: Scan, file: AddFile, seen: Callable[[], None]) -> pa.Table:
    batches = list(read_data_file(scan, file, positions=True))
    seen()
    schema = scan.schema.append(pa.field(ROW_POSITION, pa.int64()))
    return pa.Table.from_batches(batches, schema)
