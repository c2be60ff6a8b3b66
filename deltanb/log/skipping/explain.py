"""Why a scan opens its files: each condition, what it was checked against, which files it spared.

What lives here: :func:`explain`, which repeats ``prune`` step by step and records what each step left;
:class:`ScanExplanation`, its result.
What it does not know: how it is drawn, how rows are read. It opens no data file.

The steps in order: partition values, conditions implied by generated columns, statistics. A condition that
spares no file is listed, too, with the reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.actions import decode_path
from deltanb.errors import InvalidArgument
from deltanb.log.skipping import partitions, prune
from deltanb.log.skipping.generated import implied_predicates
from deltanb.log.skipping.stats import NUM_RECORDS, Stat, has_bounds
from deltanb.sql import coercion as co
from deltanb.sql import expressions as ex
from deltanb.sql import failures, predicates
from deltanb.sql.expressions import Call, Column, Expression
from deltanb.text.display import Displayable
from deltanb.text.formatting import name_of

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.conditions import Where
    from deltanb.sql.predicates import Predicate

MAX_EXAMPLES = 3
"""Files named for each condition: enough to see a pattern, and read one by one."""
MAX_OPENED = 20  # opened files that are named
MAX_VALUES = 3  # columns whose bounds are told of a file
MAX_BOUND = 40  # characters of a value in a reason
ROW = prune.ROW

By = Literal["partition values", "generated columns", "statistics"]
STEPS: tuple[By, ...] = ("partition values", "generated columns", "statistics")


@dataclass(frozen=True)
class Step:
    """The files that one step left."""

    by: By
    files: int
    """Files left after it."""
    size: int
    """Their bytes."""


@dataclass(frozen=True)
class Condition:
    """One of the conditions joined by AND, and its effect."""

    sql: str
    by: By | None
    """What it was checked against; None if it could not skip files."""
    spared: int = 0
    """Files that it left out, of those that the conditions before it had left."""
    implies: str = ""
    """The condition over partition columns that generated columns make of it."""
    reason: str = ""
    """Why it left out no file, or not as many as it might have."""


@dataclass(frozen=True)
class SparedFile:
    """A file that is not opened, and why."""

    path: str
    size: int
    by: By
    condition: str
    because: str


@dataclass(frozen=True, repr=False)
class ScanExplanation(Displayable):
    """Which files a scan opens, and why it skips the others.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"pond": ["a", "b"], "age": [3, 9]}, partition_by="pond")
    >>> plan = explain(table.snapshot, "pond = 'b' AND age > 10")
    >>> plan.num_files, plan.opened, [step.files for step in plan.steps]
    (2, 0, [1, 1, 0])
    >>> [file.because for file in plan.spared_files]
    ["pond is 'a'", 'age is 9 in every row']
    """

    table: str
    version: int
    where: str | None
    num_files: int
    """Files of the version."""
    size_in_bytes: int
    """Their bytes."""
    steps: tuple[Step, ...]
    """What was left after each step; all of :data:`STEPS`, in this order."""
    conditions: tuple[Condition, ...] = ()
    spared_files: tuple[SparedFile, ...] = ()
    """Some of the files that are not opened: at most three for a condition."""
    opened_files: tuple[tuple[str, int], ...] = ()
    """The first files that are opened, each with its bytes."""
    staged_behind: int | None = None
    """Of a transaction, the version that it has read, where ``version`` has what it staged behind that."""

    @property
    def opened(self) -> int:
        """The number of files to open.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"pond": ["a", "b"], "age": [3, 9]}, partition_by="pond")
        >>> table.explain("pond = 'b'").opened
        1
        """
        return self.steps[-1].files

    @property
    def opened_bytes(self) -> int:
        """Their bytes.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> table.explain("id = 1").opened_bytes == table.snapshot.size_in_bytes
        True
        """
        return self.steps[-1].size

    @property
    def spared(self) -> int:
        """The number of files that are skipped.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).explain("id = 2").spared
        1
        """
        return self.num_files - self.opened

    @property
    def spared_bytes(self) -> int:
        """Their bytes.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> table.explain("id = 2").spared_bytes == table.snapshot.size_in_bytes
        True
        """
        return self.size_in_bytes - self.opened_bytes

    def spared_by(self, by: By) -> int:
        """The number of files that one step skipped.

        Raises:
            InvalidArgument: no step is called so.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"pond": ["a", "b"], "age": [3, 9]}, partition_by="pond")
        >>> plan = table.explain("pond = 'b' AND age > 10")
        >>> plan.spared_by("partition values"), plan.spared_by("statistics")
        (1, 1)
        """
        if by not in STEPS:
            raise InvalidArgument(f"spared_by takes one of {', '.join(STEPS)}, found {by!r:.80}")
        at = STEPS.index(by)
        before = self.steps[at - 1].files if at else self.num_files
        return before - self.steps[at].files


def explain(
    snapshot: Snapshot, where: Where | None = None, *, name: str | None = None,
    not_used: Sequence[Condition] = (),
) -> ScanExplanation:
    """Which files a scan with a condition opens, and why it skips the others.

    Args:
        snapshot: the version.
        where: a condition; parts that only Spark understands are marked as such.
        name: the table's name, by default the last part of its path.
        not_used: conditions of a query that were not tried, with reasons.

    Raises:
        InvalidPredicate: invalid SQL, or a column the table does not have.
        UnsupportedProtocol: a reader feature that this library does not have.
    """
    snapshot.check_readable()
    condition = predicates.parse_condition(where, snapshot.schema)
    parts = list(dict.fromkeys(part for predicate in condition.parts for part in predicate.conjuncts()))
    walk = _Walk(snapshot, parts)
    steps, judged, spared = walk.run()
    judged += [Condition(sql, None, reason="only Spark understands it") for sql in condition.left_out]
    opened = walk.files(walk.matches[:MAX_OPENED])
    return ScanExplanation(
        name or snapshot.metadata.name or name_of(snapshot.log.path), snapshot.version, condition.sql,
        snapshot.num_files, snapshot.size_in_bytes, tuple(steps), (*judged, *not_used), tuple(spared), opened,
        snapshot.log.staged_behind)


class _Walk:
    """The steps of :func:`prune.matching_rows`, one condition after the other."""

    def __init__(self, snapshot: Snapshot, parts: Sequence[Predicate]) -> None:
        self.snapshot = snapshot
        self.parts = parts
        schema = snapshot.schema
        self.partitions = [schema.field(name).name for name in snapshot.partition_columns]
        self.spared: list[SparedFile] = []
        self.matches: pa.Array = pa.array([], pa.int64())

    def run(self) -> tuple[list[Step], list[Condition], list[SparedFile]]:
        exact = [part for part in self.parts if prune.is_decided(part.expression, self.partitions)]
        rest = [part for part in self.parts if part not in exact]
        metadata, protocol = self.snapshot.metadata, self.snapshot.protocol
        implied = [(part, derived) for part in self.parts
                   for derived in implied_predicates(metadata, protocol, [part])]
        used = {path[0] for part in (*self.parts, *(derived for _, derived in implied))
                for path in part.column_paths}
        left = prune.partition_table(self.snapshot, [n for n in self.partitions if n in used])
        judged: dict[Predicate, Condition] = {}
        steps = []
        for part in exact:
            left = self._by_partitions(left, part, part, judged, "partition values")
        steps.append(self._step("partition values", left))
        for part, implied_part in implied:
            left = self._by_partitions(left, part, implied_part, judged, "generated columns")
        steps.append(self._step("generated columns", left))
        left = self._by_statistics(left, rest, judged)
        self.matches = left[ROW].combine_chunks()
        steps.append(self._step("statistics", left))
        return steps, [judged[part] for part in self.parts], self.spared

    def _step(self, by: By, left: pa.Table) -> Step:
        if left.num_rows == self.snapshot.candidates.num_files:
            return Step(by, self.snapshot.num_files, self.snapshot.size_in_bytes)
        sizes = self.snapshot.live_files(["size"], left[ROW].combine_chunks())["size"]
        return Step(by, len(sizes), pc.sum(sizes).as_py() or 0)

    def files(self, rows: pa.Array) -> tuple[tuple[str, int], ...]:
        """Paths and sizes of the files at some positions."""
        listed = self.snapshot.live_files(["path", "size"], rows).to_pylist()
        return tuple((decode_path(row["path"]), row["size"] or 0) for row in listed)

    def _count(self, rows: pa.Array) -> int:
        return self.snapshot.live_files(["size"], rows).num_rows if len(rows) else 0

    # -- partition values ------------------------------------------------------------------------

    def _by_partitions(
        self, left: pa.Table, part: Predicate, tested: Predicate, judged: dict[Predicate, Condition], by: By,
    ) -> pa.Table:
        condition = prune.may_match(tested.expression, self.partitions)
        is_left = pc.coalesce(prune.evaluate(left, condition), pa.scalar(True))
        dropped = left.filter(pc.invert(is_left))
        gone = self._count(dropped[ROW].combine_chunks())
        names = sorted({path[0] for path in tested.column_paths})
        self._name(dropped, by, tested.sql, lambda row: self._by_values(row, names))
        before = judged.get(part)
        implies = tested.sql if by == "generated columns" else ""
        judged[part] = Condition(
            part.sql, by, gone + (before.spared if before else 0), implies,
            "" if gone else MAY_HOLD)
        return left.filter(is_left)

    def _by_values(self, row: dict[str, Any], names: Sequence[str]) -> str:
        """The partition values of a file in words."""
        texts, phrases = dict(row["partition_values"] or ()), []
        for column in (self.snapshot.schema.field(name) for name in names):
            text = texts.get(column.physical_name, texts.get(column.name))
            value = partitions.parse_value(text, column.type)
            phrases.append(f"{column.name} is {'NULL' if value is None else _shown(value)}")
        return ", ".join(phrases) or "no row can meet it"

    def _name(self, dropped: pa.Table, by: By, sql: str, because: Any) -> None:
        """Record the first files that a condition skips."""
        first = dropped[ROW].combine_chunks()[: 2 * MAX_EXAMPLES]
        listed = self.snapshot.live_files(["path", "size", "partition_values"], first).to_pylist()
        self.spared += [SparedFile(decode_path(row["path"]), row["size"] or 0, by, sql, because(row))
                        for row in listed[:MAX_EXAMPLES]]

    # -- statistics ------------------------------------------------------------------------------

    def _by_statistics(
        self, left: pa.Table, parts: Sequence[Predicate], tested: dict[Predicate, Condition]
    ) -> pa.Table:
        if not parts:
            return left
        final = prune.matching_rows(self.snapshot, self.parts)
        is_left = None if final is None else pc.is_in(left[ROW], value_set=final)
        everything = [part.expression for part in self.parts]
        judged = prune.may_match_each([part.expression for part in parts], everything, self.partitions)
        for part, condition in zip(parts, judged, strict=True):
            stats = prune.stats_in(condition)
            idle = reason = _no_use(part.expression, condition, self.partitions)
            before = tested.get(part)
            if condition in (ex.TRUE, prune.UNKNOWN) or not left.num_rows:
                tested[part] = before or Condition(part.sql, None, reason=reason or NOTHING_LEFT)
                continue
            left, gone, unknown = self._judge(left, part, condition, stats, final)
            reason = reason or self._doubt(gone, unknown, left.num_rows, part)
            by: By | None = "statistics" if gone or not idle else None
            if before and before.spared and not gone:
                by = before.by
            tested[part] = Condition(part.sql, by, gone + (before.spared if before else 0),
                                   before.implies if before else "", reason)
        if is_left is None:
            return left
        return left.filter(pc.is_in(left[ROW], value_set=final))  # what no condition does alone

    def _judge(
        self, left: pa.Table, part: Predicate, condition: Expression, stats: list[Stat],
        final: pa.Array | None,
    ) -> tuple[pa.Table, int, int]:
        """The files a condition leaves, how many it skips, how many lack statistics for it."""
        table = prune.with_stats(self.snapshot, left, stats)
        verdict = prune.evaluate(table, condition)
        out = pc.equal(pc.coalesce(verdict, pa.scalar(True)), False)
        if final is None:
            return left, 0, pc.sum(pc.is_null(verdict)).as_py() or 0
        out = pc.and_(out, pc.invert(pc.is_in(left[ROW], value_set=final)))
        dropped = table.filter(out)
        gone = self._count(dropped[ROW].combine_chunks())
        examples = prune.with_stats(self.snapshot, dropped.slice(0, 2 * MAX_EXAMPLES), _all_of(part))
        facts = {row["path"]: row for row in self._facts(examples)}
        names = [name for name in self.partitions if (name,) in part.column_paths]

        def because(row: dict[str, Any]) -> str:
            if condition == ex.FALSE:
                return "no row can meet it"
            why = [*([self._by_values(row, names)] if names else []), *_by_bounds(facts[row["path"]], part)]
            return ", ".join(why) or "its statistics rule it out"

        self._name(dropped, "statistics", part.sql, because)
        is_left = pc.invert(out)
        unknown = pc.sum(pc.is_null(verdict.filter(is_left))).as_py() or 0
        return left.filter(is_left), gone, unknown

    def _facts(self, examples: pa.Table) -> Iterator[dict[str, Any]]:
        """The statistics of a few files, with their paths."""
        for at, name in enumerate(examples.column_names):  # an upper bound of a text need not be a text
            if co.is_text(examples.schema.field(at).type):
                examples = examples.set_column(at, name, examples[name].cast(pa.binary()))
        for row in examples.to_pylist():
            for file in self.snapshot.live_files(["path"], pa.array([row[ROW]], pa.int64())).to_pylist():
                yield {**row, **file}

    @staticmethod
    def _doubt(gone: int, unknown: int, left: int, part: Predicate) -> str:
        if unknown:
            return lacking(unknown, None if gone else left, ", ".join(sorted(part.columns)))
        return "" if gone else MAY_HOLD


NOTHING_LEFT = "no file was left for it"
MAY_HOLD = "every file that was left may hold such rows"
NO_BOUNDS_OF_RESULTS = "bounds are of columns, not of what functions make of them"
UNDECIDED = "bounds and counts of NULL do not decide it"


def lacking(unknown: int, left: int | None, columns: str) -> str:
    """How many files have no statistics of columns, of all those that are left (None: some were not)."""
    if unknown == left:
        return f"no file has statistics of {columns}"
    return f"{unknown} of the files left {'have' if unknown > 1 else 'has'} no statistics of {columns}"


def _all_of(part: Predicate) -> list[Stat]:
    paths = sorted(part.column_paths)[:MAX_VALUES]
    columns = {node.path: node for node in ex.walk(part.expression) if isinstance(node, Column)}
    needed = [NUM_RECORDS]
    for path in paths:
        if has_bounds(columns[path].type):
            needed += [Stat("min", path), Stat("max", path)]
        if not t.is_nested(columns[path].type):
            needed.append(Stat("null_count", path))
    return needed


def _by_bounds(row: dict[str, Any], part: Predicate) -> list[str]:
    """The statistics of a condition's columns in a file, in words."""
    phrases = []
    asks_null = any(isinstance(node, Call) and node.op == "is_null" for node in ex.walk(part.expression))
    for path in sorted(part.column_paths)[:MAX_VALUES]:
        name = ".".join(path)
        low, high, nulls = (row.get(Stat(kind, path).name) for kind in ("min", "max", "null_count"))
        if nulls is not None and nulls == row.get(NUM_RECORDS.name):
            phrases.append(f"{name} is NULL in every row")
        elif nulls == 0 and (asks_null or (low is None and high is None)):
            phrases.append(f"{name} is never NULL")
        elif low is not None and high is not None and _shown(low) == _shown(high):
            phrases.append(f"{name} is {_shown(low)} in every row")
        elif low is not None or high is not None:
            phrases.append(f"{name} is {_range(low, high)}")
    return phrases


def _range(low: Any, high: Any) -> str:
    if high is None:
        return f"{_shown(low)} at least"
    return f"{_shown(high)} at most" if low is None else f"{_shown(low)} to {_shown(high)}"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "ignore")
        text = f"'{text}'" if text.encode() == value else f"'{text}…'"
    elif isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
    else:
        text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_BOUND else text[: MAX_BOUND - 1] + "…"


# -- why a condition spares nothing -----------------------------------------------------------------


def _no_use(node: Expression, rewritten: Expression, names: Iterable[str]) -> str:
    """Why a condition cannot skip files; empty if it can."""
    if failures.can_fail(node):
        return "it may be an error for some rows, which files cannot say"
    if _by_bounds_or_counts(node, rewritten):
        return ""
    known = set(names)
    columns = [below for below in ex.walk(node) if isinstance(below, Column) and below.path[0] not in known]
    for column in columns:
        if not has_bounds(column.type):
            return f"no bounds are kept of {'.'.join(column.path)}, {co.spark_name(column.type)}"
    for column in columns:
        if t.is_floating(column.type) and _wants_more(node):
            name = ".".join(column.path)
            return f"{name} may be NaN, above any bound: add {name} < …"
    if _has_function(node):
        return NO_BOUNDS_OF_RESULTS
    return UNDECIDED


def _by_bounds_or_counts(node: Expression, rewritten: Expression) -> bool:
    """Whether statistics can decide a condition."""
    while isinstance(node, Call) and node.op == "not":
        node = node.args[0]
    if isinstance(node, Call) and node.op == "is_null" and isinstance(node.args[0], Column):
        return not t.is_nested(node.args[0].type)
    if rewritten in (prune.UNKNOWN, ex.TRUE):
        return False
    kinds = {stat.kind for stat in prune.stats_in(rewritten)}
    return not kinds or bool(kinds & {"min", "max"})


def _wants_more(node: Expression) -> bool:
    return any(isinstance(below, Call) and below.op in ("gt", "ge", "ne", "null_safe_eq")
               for below in ex.walk(node))


def _has_function(node: Expression) -> bool:
    plain = {"and", "or", "not", "is_null", "is_true", "in", "null_safe_eq", "cast", *ex.NEGATED}
    return any(isinstance(below, Call) and below.op not in plain for below in ex.walk(node))
