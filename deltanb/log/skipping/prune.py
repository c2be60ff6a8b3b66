"""Which files may hold a row that satisfies a predicate.

What lives here: :func:`prune`, and the rewriting of a predicate over rows into one over files, which is
TRUE or NULL wherever a row *could* make the original TRUE. A file is dropped only when it is FALSE.
What it does not know: how statistics are stored (``stats``), how rows are read.

Partition columns are exact: a file has one value. Of a data column only bounds, the number of NULLs
and the number of rows are known, each of them perhaps missing. Statistics of a file with a deletion
vector still bound its rows (PROTOCOL.md, "Per-file Statistics"), and a null count is used only where
it is 0 or the number of rows, which holds for such files too. NaN is greater than any maximum, as
writers differ in whether they count it: a maximum of a floating point column says something only
where another conjunct excludes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.log.skipping import partitions
from deltanb.log.skipping.generated import implied
from deltanb.log.skipping.stats import NUM_RECORDS, Stat, has_bounds, leaves_of, parse_stats, typed_stats
from deltanb.schema.types import arrow_type
from deltanb.sql import direct, failures
from deltanb.sql import expressions as ex
from deltanb.sql.coercion import arrow_scalar, is_number
from deltanb.sql.expressions import Call, Column, Expression, boolean
from deltanb.sql.expressions import Literal as Constant

if TYPE_CHECKING:
    from deltanb.log.file_set import FileSet
    from deltanb.log.layer import Leaf
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

__all__ = [
    "evaluate", "matching_rows", "may_match", "parse_stats", "prune", "read_stats", "stats_in",
    "typed_stats",
]

MAX_LISTED = 64  # members of an IN compared one by one; in a longer list bounds are searched
UNKNOWN = Constant(None, pa.bool_())
ROW = "\0row"
_STAT = "\0stat"  # the first name in the path of a column that stands for a statistic

_OF_ONE = frozenset({"not", "prefix", "suffix", "contains", "regex", "upper", "lower", "length",
                     "trim", "ltrim", "rtrim", "substring", "year", "quarter",
                     "month", "day", "hour", "minute", "second", "date_trunc"})
# Operations whose result is NULL only where an operand is, ...
_NO_NEW_NULLS = _OF_ONE | frozenset(ex.NEGATED) | {"and", "or"}
# ... and those whose result is NULL wherever an operand is.
_NULLS_STAY = _OF_ONE | frozenset(ex.NEGATED) | {"cast", "neg", "abs", "add", "sub", "mul", "div", "mod",
                                                 "concat"}
_Paths = frozenset[tuple[str, ...]]
_Range = tuple[Expression | None, Expression | None]


def prune(
    snapshot: Snapshot, predicates: Sequence[Predicate], columns: Sequence[str] | None = None
) -> pa.Table:
    """The files that may hold rows for which all predicates are TRUE; never fewer.

    ``columns`` are the columns of FILES_SCHEMA to return, by default all.

    Raises:
        InvalidTable: a partition value is not of its column's type.
    """
    from deltanb.log.replay import FILES_SCHEMA

    rows = matching_rows(snapshot, predicates)
    names = FILES_SCHEMA.names if columns is None else list(columns)
    if rows is None:
        return snapshot.select_files(names)
    return snapshot.live_files(names, rows)


def matching_rows(snapshot: Snapshot, predicates: Sequence[Predicate]) -> pa.Array | None:
    """Positions in ``snapshot.candidates`` of the files that may match, ascending; None for all.

    Partition values decide first, then bounds, then null counts if bounds do not decide: each step reads only
    what it needs, for the files that are left.
    """
    names = [snapshot.schema.field(name).name for name in snapshot.partition_columns]
    conditions = [part for p in predicates for part in ex.conjuncts(p.expression)]
    if not conditions:
        return None
    conditions += implied(snapshot.metadata, snapshot.protocol, conditions)
    whole = boolean("and", *conditions)
    exact = [c for c in conditions if is_decided(c, names)]
    everything = snapshot.candidates.num_files
    left = partition_table(
        snapshot, [name for name in names if (name,) in _paths(whole)],
        may_match(boolean("and", *exact), names) if exact else ex.TRUE)
    sure: list[pa.Array] = []
    if len(exact) < len(conditions):
        for counts in (False, True):
            condition = may_match(whole, names, counts=counts)
            if condition not in (ex.TRUE, UNKNOWN):
                decided, left = _judged(snapshot, left, condition)
                sure += decided.chunks
    chunks = [*sure, *left[ROW].chunks]
    rows = pa.concat_arrays(chunks) if chunks else pa.nulls(0, pa.int64())  # to combine none loads pandas
    if len(rows) == everything:
        return None
    return rows.take(pc.sort_indices(rows)) if sure else rows


# ---------------------------------------------------------------------------- running


def partition_table(snapshot: Snapshot, used: list[str], condition: Expression = ex.TRUE) -> pa.Table:
    """Row positions and the needed partition columns of the files that satisfy a condition on these columns.

    The condition is evaluated once per partition, not per file.
    """
    if not used:
        left = pa.table({ROW: _positions(0, snapshot.candidates.num_files)})
        return left if condition == ex.TRUE else left.filter(evaluate(left, condition))
    tables, start = [], 0
    for piece in snapshot.candidates.partition_values():
        kinds, codes = partitions.distinct_partitions(piece, snapshot.schema, used)
        rows = _positions(start, len(piece))
        start += len(piece)
        if condition != ex.TRUE:
            met = evaluate(kinds, condition).combine_chunks().take(codes)
            rows, codes = rows.filter(met), codes.filter(met)
        tables.append(kinds.take(codes).append_column(ROW, rows))
    if not tables:
        fields = [snapshot.schema.field(name) for name in used]
        schema = pa.schema([(field.name, arrow_type(field.type, field.name)) for field in fields])
        return schema.append(pa.field(ROW, pa.int64())).empty_table()
    return pa.concat_tables(tables)


def _positions(start: int, count: int) -> pa.Array:
    numbers: np.ndarray[Any, Any] = np.arange(start, start + count, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(numbers)])  # array() loads pandas


def _judged(
    snapshot: Snapshot, left: pa.Table, condition: Expression
) -> tuple[pa.ChunkedArray, pa.Table]:
    """The positions that satisfy the condition, and the rows where that is unknown.

    Conjuncts go one by one: the statistics of a later one are read for what the earlier ones left.
    """
    unknown = pa.chunked_array([pa.repeat(arrow_scalar(False, pa.bool_()), left.num_rows)])
    if left.num_rows and not snapshot.candidates.has_typed_stats:  # each text is read but once
        left = with_stats(snapshot, left, stats_in(condition))
    for part in ex.conjuncts(condition):
        if not left.num_rows:
            break
        verdict = evaluate(with_stats(snapshot, left, stats_in(part)), part)
        is_left = pc.coalesce(verdict, arrow_scalar(True, pa.bool_()))
        unknown = pc.or_(unknown, pc.is_null(verdict)).filter(is_left)
        left = left.filter(is_left)
    return left.filter(pc.invert(unknown))[ROW], left.filter(unknown)


def with_stats(snapshot: Snapshot, left: pa.Table, needed: list[Stat]) -> pa.Table:
    """The rows with their statistics as further columns."""
    needed = [stat for stat in needed if stat.name not in left.column_names]
    if not needed:
        return left
    whole = left.num_rows == snapshot.candidates.num_files
    rows = None if whole else left[ROW].combine_chunks()
    stats = snapshot.stats_for(needed, rows)
    for name in stats.column_names:
        left = left.append_column(name, stats[name])
    return left


def read_stats(
    files: FileSet,
    schema: StructType,
    needed: Sequence[Stat],
    rows: pa.Array | None = None,
) -> pa.Table:
    """Typed statistics of the files, or of those at ascending positions among them."""
    needed = list(dict.fromkeys(needed))
    leaves = leaves_of(needed, schema)
    stats = dict(zip(leaves, needed, strict=True))

    def typed(table: pa.Table, leaves: Sequence[Leaf]) -> pa.Table:
        some = [stats[leaf] for leaf in leaves]
        if "stats_parsed" in table.column_names:
            return typed_stats(table["stats_parsed"], schema, needed=some)
        return parse_stats(table["stats"], schema, needed=some)

    tables = files.stats(leaves, rows, typed)
    if not tables:
        return parse_stats(pa.chunked_array([], pa.string()), schema, needed=needed)
    return pa.concat_tables(tables).rename_columns([stat.name for stat in needed])


def evaluate(table: pa.Table, condition: Expression) -> pa.ChunkedArray:
    """TRUE, FALSE or NULL for each row of statistics, columns named by ``Stat.name``."""
    if direct.handles(condition):
        verdict = direct.verdicts(condition, lambda node: table[_column_name(node)], table.num_rows)
        return verdict if isinstance(verdict, pa.ChunkedArray) else pa.chunked_array([verdict])
    return _projected(*_with_sets_met(table, condition))


def _with_sets_met(table: pa.Table, node: Expression) -> tuple[pa.Table, Expression]:
    """The table with a column for each set, whether bounds overlap it; Acero has no such function."""
    if not isinstance(node, Call):
        return table, node
    args = []
    for arg in node.args:
        table, arg = _with_sets_met(table, arg)
        args.append(arg)
    if node.op != "meets":
        return table, Call(node.op, tuple(args), node.type, node.extra)
    name = f"\0met{table.num_columns}"
    is_met = node.extra.any_between(*(_projected(table, bound) for bound in args))
    return table.append_column(name, is_met), Column((name,), node.type)


def _projected(table: pa.Table, expression: Expression) -> pa.ChunkedArray:
    """The value of an expression for each row, by Acero."""
    from deltanb.sql.values import project

    compiled = ex.compile_expression(expression, lambda node: pc.field(_column_name(node)))
    return project(table, {"value": compiled})["value"]


def _column_name(node: Column) -> str:
    return _stat(node).name if node.path[0] == _STAT else node.path[0]


def _paths(node: Expression) -> set[tuple[str, ...]]:
    return {below.path for below in ex.walk(node) if isinstance(below, Column)}


def _stat(node: Column) -> Stat:
    kind: Any = node.path[1]
    return Stat(kind, node.path[2:])


def stats_in(condition: Expression) -> list[Stat]:
    """The statistics that a condition over files uses."""
    stats = {_stat(node): None for node in ex.walk(condition)
             if isinstance(node, Column) and node.path[0] == _STAT}
    return list(stats)


# ---------------------------------------------------------------------------- rewriting


def may_match(
    condition: Expression, partition_columns: Sequence[str], *, counts: bool = True
) -> Expression:
    """The condition over files: FALSE only where no row of the file makes ``condition`` TRUE.

    Its columns are partition columns and statistics. Without ``counts`` null counts are left out.
    """
    return _Rewriter(frozenset(partition_columns), counts).may(condition, frozenset())


def may_match_each(
    conditions: Sequence[Expression], everything: Sequence[Expression], partition_columns: Sequence[str]
) -> list[Expression]:
    """Like :func:`may_match`, for each of the conditions separately; rows have to satisfy all of them."""
    rewriter = _Rewriter(frozenset(partition_columns), counts=True)
    no_nan = frozenset[tuple[str, ...]]().union(*map(_excludes_nan, everything))
    return [rewriter.may(condition, no_nan) for condition in conditions]


class _Rewriter:
    """Conditions over rows turned into conditions over the statistics of a file.

    The invariant of :meth:`may`, :meth:`_may_not` and :meth:`_may_be_null`: the result is FALSE for a file
    only if no row in it makes the node TRUE, FALSE or NULL, respectively. NULL, as of a statistic that is
    absent, says nothing, and the file is kept. It holds for AND because a row that makes it TRUE makes
    every part TRUE, and for OR because such a row makes one part TRUE: the parts can be rewritten each
    for itself. NOT is pushed to the leaves first, since the negation of "may be TRUE" is not "may be FALSE".

    ``no_nan``: the paths of columns whose NaN rows another conjunct excludes. Spark orders NaN above all
    numbers while bounds leave it out, so only for these columns is the maximum an upper bound.
    """

    def __init__(self, partition_columns: frozenset[str], counts: bool) -> None:
        self._partitions = partition_columns
        self._counts = counts
        self._exact: dict[int, tuple[Expression, bool]] = {}
        self._has_values: dict[Column, list[Expression]] = {}

    def may(self, node: Expression, no_nan: _Paths) -> Expression:
        """Whether a row may make the node TRUE."""
        if self._is_exact(node):
            return _runnable(boolean("is_true", node))
        if isinstance(node, Column):
            return self._compare("eq", node, ex.TRUE, no_nan)
        assert isinstance(node, Call)
        op, args = node.op, node.args
        no_nan = no_nan.union(*map(_excludes_nan, args if op == "and" else [node]))
        if op == "and":
            return _all_of(self.may(arg, no_nan) for arg in args)
        if op == "or":
            return _any_of(self.may(arg, no_nan) for arg in args)
        if op == "not":
            return self._may_not(args[0], no_nan)
        if op == "is_true":
            return self.may(args[0], no_nan)
        if op in ex.NEGATED:
            return self._compare(op, args[0], args[1], no_nan)
        if op == "in":
            return self._member(node, no_nan)
        if op == "null_safe_eq":
            both = _all_of(map(self._may_be_null, args))
            return _any_of([self._compare("eq", args[0], args[1], no_nan), both])
        if op == "is_null":
            return self._may_be_null(args[0])
        if op == "prefix":
            return self._prefix(node, no_nan)
        if op in ("suffix", "contains", "regex"):
            return _all_of([UNKNOWN, *self._not_all_null(args)])
        return UNKNOWN

    def _may_not(self, node: Expression, no_nan: _Paths) -> Expression:
        """Whether a row may make the node FALSE."""
        if isinstance(node, Column):
            return self._compare("eq", node, ex.FALSE, no_nan)
        assert isinstance(node, Call)
        op, args = node.op, node.args
        if op in ("and", "or", "not") or op in ex.NEGATED:
            return self.may(ex.negate(node), no_nan)
        if op == "is_null":
            return _all_of([UNKNOWN, *self._not_all_null(args)])
        if op == "is_true":
            return _any_of([self.may(ex.negate(args[0]), no_nan), self._may_be_null(args[0])])
        if op == "in":
            return self._no_member(node, no_nan)
        if op == "null_safe_eq":
            return _any_of([self._compare("ne", args[0], args[1], no_nan),
                            *map(self._may_be_null, args)])
        if op == "prefix":  # whatever lies between two texts with a prefix has it too
            ends = self._range(args[0], no_nan)
            outside = (UNKNOWN if end is None else
                       ex.negate(boolean("prefix", end, extra=node.extra)) for end in ends)
            return _all_of([_any_of(outside), *self._not_all_null(args)])
        if op in ("suffix", "contains", "regex"):
            return _all_of([UNKNOWN, *self._not_all_null(args[:1])])
        return UNKNOWN

    def _compare(
        self, op: str, left: Expression, right: Expression, no_nan: _Paths
    ) -> Expression:
        if any(isinstance(side, Constant) and side.value is None for side in (left, right)):
            return ex.FALSE
        if op in ("gt", "ge"):
            return self._compare(ex.MIRRORED[op], right, left, no_nan)
        low, high = self._range(left, no_nan)
        other_low, other_high = self._range(right, no_nan)
        if op in ("lt", "le"):
            ordered = _ordered(op, low, other_high)
        elif op == "eq":
            ordered = _all_of([_ordered("le", low, other_high), _ordered("le", other_low, high)])
        else:
            ordered = _any_of([_ordered("lt", low, other_high), _ordered("lt", other_low, high)])
        return _all_of([ordered, *self._not_all_null([left, right])])

    def _member(self, node: Call, no_nan: _Paths) -> Expression:
        operand, members = node.args[0], node.extra
        if len(members.values) <= MAX_LISTED:
            listed = (Constant(value, operand.type) for value in members.values)
            return _any_of(self._compare("eq", operand, item, no_nan) for item in listed)
        low, high = self._range(operand, no_nan)
        if members.has_nan or low is None or high is None:
            return _all_of([UNKNOWN, *self._not_all_null([operand])])
        return _all_of([boolean("meets", low, high, extra=members), *self._not_all_null([operand])])

    def _no_member(self, node: Call, no_nan: _Paths) -> Expression:
        """Whether a row may be none of the constants: not where all rows have one value, and it is."""
        operand, members = node.args[0], node.extra
        if members.has_null:
            return ex.FALSE
        low, high = self._range(operand, no_nan)
        verdict: Expression = UNKNOWN
        if low is not None and high is not None:
            alone = _runnable(boolean("not", Call("in", (low,), pa.bool_(), members)))
            verdict = _any_of([_ordered("lt", low, high), alone])
        return _all_of([verdict, *self._not_all_null([operand])])

    def _prefix(self, node: Call, no_nan: _Paths) -> Expression:
        start = Constant(node.extra, pa.string())
        low, high = self._range(node.args[0], no_nan)
        below = UNKNOWN if low is None else _any_of(
            [boolean("le", low, start), boolean("prefix", low, extra=node.extra)])
        return _all_of([below, _ordered("le", start, high), *self._not_all_null(node.args)])

    # ------------------------------------------------------------------ what operands may be

    def _range(self, node: Expression, no_nan: _Paths) -> _Range:
        """Expressions below and above all values of the node in a file; None: not known."""
        if self._is_exact(node):
            known = None if _runnable(node) is UNKNOWN else node
            return known, known
        if isinstance(node, Column):
            if not has_bounds(node.type):
                return None, None
            low, high = (Column((_STAT, kind, *node.path), node.type) for kind in ("min", "max"))
            nan = t.is_floating(node.type) and node.path not in no_nan
            return low, None if nan else high
        if isinstance(node, Call) and _is_monotone(node):
            low_end, high_end = self._range(node.args[0], no_nan)
            return _applied(node, low_end), _applied(node, high_end)
        return None, None

    def _may_be_null(self, node: Expression) -> Expression:
        if self._is_exact(node):
            return _runnable(boolean("is_null", node))
        if isinstance(node, Column):
            if t.is_nested(node.type) or not self._counts:
                return UNKNOWN
            return boolean("gt", _count(node), Constant(0, pa.int64()))
        if isinstance(node, Call) and node.op in _NO_NEW_NULLS:
            return _any_of(map(self._may_be_null, node.args))
        return UNKNOWN

    def _not_all_null(self, nodes: Iterable[Expression]) -> list[Expression]:
        """That every column among the operands has a value in some row."""
        nodes = [node for node in nodes if not isinstance(node, Constant)]
        if len(nodes) == 1 and isinstance(nodes[0], Column):  # asked by each of thousands of terms
            if nodes[0] not in self._has_values:
                self._has_values[nodes[0]] = self._count_values(nodes)
            return self._has_values[nodes[0]]
        return self._count_values(nodes)

    def _count_values(self, nodes: Sequence[Expression]) -> list[Expression]:
        known = [ex.negate(boolean("is_null", node)) for node in nodes
                 if _paths(node) and self._is_exact(node) and _runnable(node) is not UNKNOWN]
        if not self._counts:
            return known
        columns = {below.path: below for node in nodes if _nulls_stay(node)
                   for below in ex.walk(node) if isinstance(below, Column)}
        records = Column((_STAT, NUM_RECORDS.kind), pa.int64())
        return known + [boolean("lt", _count(column), records) for column in columns.values()
                        if not self._is_exact(column) and not t.is_nested(column.type)]

    def _is_exact(self, node: Expression) -> bool:
        """As :func:`is_decided`, which is asked of a node and of all nodes below it."""
        if not isinstance(node, Call):
            return not isinstance(node, Column) or node.path[0] in self._partitions
        known = self._exact.get(id(node))
        if known is None:
            is_exact = node.op not in failures.FAILING and all(map(self._is_exact, node.args))
            known = self._exact[id(node)] = node, is_exact
        return known[1]


def is_decided(node: Expression, partition_columns: Collection[str]) -> bool:
    """Whether partition values alone decide the node; expressions that may fail are left to the rows."""
    return all(path[0] in partition_columns for path in _paths(node)) and not failures.can_fail(node)


def _count(column: Column) -> Column:
    return Column((_STAT, "null_count", *column.path), pa.int64())


def _ordered(op: str, low: Expression | None, high: Expression | None) -> Expression:
    return UNKNOWN if low is None or high is None else boolean(op, low, high)


def _applied(call: Call, end: Expression | None) -> Expression | None:
    if end is None:
        return None
    applied = Call(call.op, (end,), call.type, call.extra)
    return None if _runnable(applied) is UNKNOWN else applied


def _runnable(node: Expression) -> Expression:
    """The node, or UNKNOWN if Arrow cannot run it."""
    return node if not isinstance(node, Call) or _runs(node) else UNKNOWN


@lru_cache(maxsize=256)
def _runs(node: Call) -> bool:
    try:
        ex.compile_expression(node)
    except (ex.Unsupported, pa.ArrowException):
        return False
    return True


def _nulls_stay(node: Expression) -> bool:
    return all(not isinstance(below, Call) or below.op in _NULLS_STAY for below in ex.walk(node))


def _is_monotone(node: Call) -> bool:
    """Whether a greater operand never gives a smaller result."""
    if node.op == "cast":
        source, target = node.args[0].type, node.type
        return (is_number(source) and is_number(target)) or \
            bool(t.is_temporal(source) and t.is_temporal(target))
    return node.op in ("year", "date_trunc")


def _excludes_nan(node: Expression) -> _Paths:
    """Columns that are not NaN where the conjunct is TRUE: ``x < 5``, ``x = 5``, ``x IN (…)``."""
    if isinstance(node, Call) and node.op == "and":
        return frozenset().union(*map(_excludes_nan, node.args))
    if not isinstance(node, Call) or node.op not in ("eq", "lt", "le", "in"):
        return frozenset()
    if node.op == "in" and node.extra.has_nan:
        return frozenset()
    operand, *others = node.args
    while isinstance(operand, Call) and operand.op == "cast":
        operand = operand.args[0]
    plain = all(isinstance(o, Constant) and not (isinstance(o.value, float) and math.isnan(o.value))
                for o in others)
    return frozenset([operand.path] if isinstance(operand, Column) and plain else [])


def _all_of(nodes: Iterable[Expression]) -> Expression:
    parts = [node for node in nodes if node != ex.TRUE]
    if ex.FALSE in parts:
        return ex.FALSE
    known = [node for node in parts if node != UNKNOWN]
    terms = known if len(known) == len(parts) else [*known, UNKNOWN]
    return ex.TRUE if not terms else terms[0] if len(terms) == 1 else boolean("and", *terms)


def _any_of(nodes: Iterable[Expression]) -> Expression:
    parts = [node for node in nodes if node != ex.FALSE]
    for decisive in (ex.TRUE, UNKNOWN):
        if decisive in parts:
            return decisive
    return ex.FALSE if not parts else parts[0] if len(parts) == 1 else boolean("or", *parts)
