"""Which of a table's files a Spark query opens, and why it skips the others.

What lives here: the scans in a query's plan, and what each of its filters left out of our lists of files.
What it does not know: how a filter is checked (``LoggedFiles.java``, which is asked here as Spark asks it).

No job is run and no data file is opened; the query is planned, as ``DataFrame.explain`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.engines.spark.connectors import connector_for
from deltanb.engines.spark.plans import OURS, read_as, root_of
from deltanb.engines.spark.session_request import is_remote
from deltanb.errors import InvalidArgument
from deltanb.log.skipping.explain import (
    MAX_OPENED,
    MAY_HOLD,
    NO_BOUNDS_OF_RESULTS,
    STEPS,
    UNDECIDED,
    By,
    Condition,
    ScanExplanation,
    Step,
    lacking,
)
from deltanb.schema.column_mapping import mode_of, physical_name
from deltanb.text.formatting import name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltanb.log.snapshot import Snapshot

_REASONS = {
    "later": "its values are known when the query runs",
    "kind": UNDECIDED,
    "constant": "it compares with nothing constant that has a place between bounds",
    "function": NO_BOUNDS_OF_RESULTS,
    "bounds": "Spark is given no bounds of {}",
    "statistics": "Spark is given no statistics of the files",
    "after": "Spark evaluates it behind the scan",
}
"""Why a filter is not checked, by the name that ``LoggedFiles.java`` has for it; {} is the column."""
_PASS_ROWS_ON = frozenset(
    {"ProjectExec", "UnionExec", "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"})
"""Operators of a plan behind which a condition is still one on the rows of a scan."""


def explain_frame(snapshot: Snapshot, frame: DataFrame, name: str | None = None) -> ScanExplanation:
    """Which files of a table a query of Spark opens. A file that two scans open counts once.

    Args:
        snapshot: a version of the table; the explanation is of that which the frame reads.
        name: the table's name, by default the last part of its path.

    Raises:
        InvalidArgument: the frame reads no files of the table, or its session is not in this process.
    """
    shown = name or snapshot.metadata.name or name_of(snapshot.log.path)
    session = frame.sparkSession
    if is_remote(session):
        raise InvalidArgument(
            f"explain cannot look into a plan of Spark Connect, whose session is in another process; pass "
            f"the condition: table.explain('…') (table {shown})")
    root = root_of(snapshot.log.store, connector_for(snapshot.log.store, session))
    scans = [scan for scan in _scans(frame) if scan.index.root() == root]
    if not scans:
        raise InvalidArgument(
            f"the frame reads no files of table {shown} by its list of files: it is of another table, is "
            "cached, is empty by its conditions, or its files are read in this process; pass a condition "
            "instead: table.explain('…')")
    return _explanation(scans, _spelled(snapshot), shown)


@dataclass
class _Scan:
    """A scan of listed files in a plan."""

    index: Any
    """The ``LoggedFiles``."""
    by_values: Any
    by_rows: Any
    """Filters, Spark's own."""
    behind: list[str]
    """Conditions that the scan has not."""


@dataclass
class _Opened:
    """Of one list of files, what is left for any scan, and what each filter left out."""

    index: Any
    by_values: Any
    by_rows: Any
    filters: dict[str, _Judged] = field(default_factory=dict)


class _Judged(NamedTuple):
    """A filter on one list of files, or on more."""

    by: By | None
    spared: int
    unknown: int
    left: int
    reason: str

    def with_other(self, other: _Judged) -> _Judged:
        """The filter on the files of both."""
        return _Judged(self.by or other.by, self.spared + other.spared, self.unknown + other.unknown,
                       self.left + other.left, self.reason or other.reason)

    def condition(self, sql: str) -> Condition:
        why = "" if self.spared else MAY_HOLD
        if self.unknown:
            why = lacking(self.unknown, None if self.spared else self.left, "its columns")
        return Condition(sql, self.by, self.spared, reason=why if self.by else self.reason)


def _explanation(scans: Sequence[_Scan], spelled: Callable[[str], str], name: str) -> ScanExplanation:
    lists: dict[Any, _Opened] = {}
    for scan in scans:
        _add(scan, lists, spelled)
    judged: dict[str, _Judged] = {}
    for one in lists.values():
        for sql, filtered in one.filters.items():
            judged[sql] = judged[sql].with_other(filtered) if sql in judged else filtered
    first = [(str(path), int(size)) for one in lists.values()
             for path, size in one.index.firstOf(one.by_rows, MAX_OPENED)]
    whole = _sum((one.index, one.index.all()) for one in lists.values())
    values = _sum((one.index, one.by_values) for one in lists.values())
    rows = _sum((one.index, one.by_rows) for one in lists.values())
    steps = [Step(by, *left) for by, left in zip(STEPS, (values, values, rows), strict=True)]
    return ScanExplanation(
        name, max(scan.index.version() for scan in scans), " AND ".join(judged) or None, *whole, tuple(steps),
        tuple(filtered.condition(sql) for sql, filtered in judged.items()), (), tuple(first[:MAX_OPENED]))


def _sum(places: Iterable[tuple[Any, Any]]) -> tuple[int, int]:
    """The number of files at places of lists, and their bytes."""
    sums = [(some.cardinality(), index.bytesOf(some)) for index, some in places]
    return sum(files for files, _ in sums), sum(size for _, size in sums)


def _add(scan: _Scan, lists: dict[Any, _Opened], spelled: Callable[[str], str]) -> None:
    """What a scan leaves of its list, beside what others leave of it."""
    left = scan.index.all()
    judged = list(_judged(scan.index.explainValues(scan.by_values, left), left, spelled))
    by_values = left.clone()
    judged += _judged(scan.index.explainRows(scan.by_rows, left), left, spelled)
    judged += [(sql, _Judged(None, 0, 0, 0, _REASONS["after"])) for sql in scan.behind]
    key = scan.index.hashCode(), scan.index.version()
    one = lists.setdefault(key, _Opened(scan.index, by_values, left))
    getattr(one.by_values, "or")(by_values)
    getattr(one.by_rows, "or")(left)
    for sql, filtered in judged:
        known = one.filters.setdefault(spelled(sql), filtered)
        if known.spared < filtered.spared:
            one.filters[spelled(sql)] = filtered


def _judged(answer: Any, left: Any, spelled: Callable[[str], str]) -> Iterator[tuple[str, _Judged]]:
    for sql, by, spared, unknown, reason, about in answer:
        yield sql, _Judged("partition values" if by == "values" else by, spared, unknown, left.cardinality(),
                           "" if reason is None else _REASONS[reason].format(spelled(about)))


def _spelled(snapshot: Snapshot) -> Callable[[str], str]:
    """A filter of a plan with the table's names for its columns."""
    mode = mode_of(snapshot.metadata, snapshot.protocol)
    names: dict[str, str] = {}
    for f in snapshot.schema.fields if mode != "none" else ():
        names |= {physical_name(f, mode): f.name, read_as(f, mode): f.name}
    if not names:
        return str
    longest_first = sorted(names, key=len, reverse=True)
    stored = re.compile("|".join(rf"`?\b{re.escape(one)}\b`?" for one in longest_first))
    return lambda sql: stored.sub(lambda match: names[match[0].strip("`")], sql)


# -- plans ------------------------------------------------------------------------------------------------


def _scans(frame: DataFrame) -> Iterator[_Scan]:
    """The scans of listed files in the plan that Spark makes for a query."""
    yield from _within(frame._jdf.queryExecution().executedPlan(), [])


def _within(plan: Any, behind: list[str]) -> Iterator[_Scan]:
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _within(plan.inputPlan(), behind)
        return
    for subquery in _items(plan.subqueries()):
        yield from _within(subquery, [])
    index = plan.relation().location() if kind == "FileSourceScanExec" else None
    if index is not None and index.getClass().getSimpleName() == "LoggedFiles":
        by_values, by_rows = plan.partitionFilters(), plan.dataFilters()
        has = {one.sql() for filters in (by_values, by_rows) for one in _items(filters)}
        yield _Scan(index, by_values, by_rows, [sql for sql in behind if sql not in has and OURS not in sql])
    if kind == "FilterExec":
        behind = [*behind, *_conjuncts(plan.condition())]
    elif kind not in _PASS_ROWS_ON:
        behind = []
    for child in _items(plan.children()):
        yield from _within(child, behind)


def _conjuncts(condition: Any) -> list[str]:
    if condition.getClass().getSimpleName() == "And":
        return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]
    return [condition.sql()]


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
