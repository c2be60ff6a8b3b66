"""Findings of the files: too many small ones, far too large ones, one large partition, vectors that are due.

What lives here: these checks, on arrays; what OPTIMIZE would make of the files, by its own packing.
What it does not know: how OPTIMIZE rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from deltanb.commands.define.clustering import PROVIDER
from deltanb.commands.upkeep.optimize import packed
from deltanb.log.arrays import numbers
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.live_files import Path, shown_partition
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState
from deltanb.schema.paths import quoted
from deltanb.text import formatting as units

WHOLE = 100
"""Percent."""
MAY_STAY = 80
"""Percent of what a full clustering saves: an OPTIMIZE of the unclustered files alone is enough for it."""


@dataclass(frozen=True)
class Plan:
    """What an OPTIMIZE would do: which of the command's cases, the files it rewrites and those it writes."""

    case: str
    columns: tuple[str, ...]
    rewritten: int
    written: int
    bytes: int

    @property
    def saved(self) -> int:
        """Files fewer than before."""
        return self.rewritten - self.written


def check_sizes(state: TableState) -> Iterator[Finding]:
    """Many small files."""
    files, (target, is_sized) = state.files, state.target
    plan = small_plan(state)
    if plan.saved < kinds.LEAST_FILES or plan.saved * WHOLE < kinds.LEAST_SHARE * len(files):
        return
    yield kinds.SMALL_FILES(
        f"OPTIMIZE makes {units.count(plan.written, 'file')} of {units.number(plan.rewritten)}, which have "
        f"{units.size(plan.bytes // plan.rewritten)} on average, with a target of {units.size(target)}",
        {"files": len(files), "files_to_rewrite": plan.rewritten, "files_after": plan.written,
         "bytes": plan.bytes, "target_bytes": target},
        {"files": plan.saved, "requests": plan.saved}, reads=plan.bytes, writes=plan.bytes,
        case=_sized(plan.case, is_sized), columns=plan.columns, size=target)


def _sized(case: str, is_sized: bool) -> str:
    return (f"{case}, sized" if case else "sized") if is_sized else case


def small_plan(state: TableState) -> Plan:
    """The OPTIMIZE that keeps the order of rows and saves the most files for what it rewrites."""
    if state.clustered_by:
        unclustered, all_ours = (_curve(state, which) for which in _clusterable(state))
        enough = unclustered.saved * WHOLE >= all_ours.saved * MAY_STAY
        return unclustered if enough else all_ours
    if state.z_ordered_by:
        return ordered_plan(state, state.z_ordered_by)
    return _bins(state)


def _clusterable(state: TableState) -> Iterator[tuple[str, Any]]:
    """What OPTIMIZE clusters of a clustered table, and what it does with ``full=True``."""
    unclustered = numbers(pc.is_null(state.files.provider))
    ours = numbers(pc.fill_null(pc.equal(state.files.provider, PROVIDER), False))
    yield "", unclustered
    yield "full", unclustered | ours


def _curve(state: TableState, which: tuple[str, Any], columns: tuple[str, ...] = ()) -> Plan:
    case, mask = which
    files, target = state.files, state.target[0]
    bytes_by_group = files.by_group(files.sizes * mask)
    parts = np.maximum(1, -(-bytes_by_group // target)) * (files.by_group(mask) > 0)
    return Plan(case, columns, int(mask.sum()), int(parts.sum()), int(bytes_by_group.sum()))


def ordered_plan(state: TableState, columns: list[Path]) -> Plan:
    """An OPTIMIZE that orders all rows along a curve."""
    return _curve(state, ("ordered", np.ones(len(state.files), np.bool_)), tuple(map(".".join, columns)))


def _bins(state: TableState) -> Plan:
    """A compaction, packed as OPTIMIZE does."""
    files, target = state.files, state.target[0]
    places: Any = np.flatnonzero(files.sizes < target)
    order = places[np.lexsort((files.sizes[places], files.groups[places]))]
    edges: Any = np.flatnonzero(np.diff(files.groups[order])) + 1
    sizes = files.sizes.tolist()
    bins = [one for group in np.split(order, edges) for one in packed(group.tolist(), sizes, target)
            if len(one) > 1]
    rewritten = [place for one in bins for place in one]
    return Plan("", (), len(rewritten), len(bins), sum(sizes[place] for place in rewritten))


def check_skew(state: TableState) -> Iterator[Finding]:
    """Files, and partitions, that are far larger than the others."""
    yield from _large_files(state)
    yield from _large_partition(state)


def _large_files(state: TableState) -> Iterator[Finding]:
    files, (target, is_sized) = state.files, state.target
    large = files.sizes >= kinds.TIMES_TARGET * target
    columns = state.worth_ordering_by
    if not large.any() or not columns:
        return
    full = list(_clusterable(state))[1]
    plan = _curve(state, full) if state.clustered_by else ordered_plan(state, columns)
    largest = int(files.sizes.max())
    yield kinds.FILE_SKEW(
        f"up to {units.size(largest)} in {units.number(int(large.sum()))} of "
        f"{units.count(len(files), 'file')}, whose target size is {units.size(target)}",
        {"files_above": int(large.sum()), "files_to_rewrite": plan.rewritten, "largest_bytes": largest,
         "target_bytes": target, "bytes": int(files.sizes[large].sum())},
        {"bytes": largest - target}, reads=plan.bytes, writes=plan.bytes,
        case=_sized(plan.case, is_sized), columns=plan.columns, size=target)


def _large_partition(state: TableState) -> Iterator[Finding]:
    files, target = state.files, state.target[0]
    if len(files.partitions) < 2:
        return
    sizes = files.by_group(files.sizes)
    largest, median = int(sizes.max()), int(np.median(sizes))
    if largest < kinds.TIMES_MEDIAN * max(1, median) or largest < kinds.TIMES_TARGET * target:
        return
    which = shown_partition(state.snapshot, files.partitions[int(sizes.argmax())])
    names = [(state.snapshot.schema.field(name).name,) for name in state.snapshot.partition_columns]
    columns = list(dict.fromkeys([*names, *state.worth_ordering_by]))[:4]
    yield kinds.PARTITION_SKEW(
        f"the partition {which} has {units.size(largest)} of {units.size(files.total)}, and the median "
        f"{units.size(median)}",
        {"partitions": len(files.partitions), "largest_partition": which, "largest_bytes": largest,
         "median_bytes": median, "target_bytes": target},
        {"bytes": largest - target}, reads=2 * files.total, writes=2 * files.total,
        columns=tuple(map(quoted, columns)), size=target)


def check_vectors(state: TableState) -> Iterator[Finding]:
    """Deletion vectors that are due for a purge."""
    files = state.files
    has_rows = files.rows > 0
    due = files.has_vector & has_rows & (files.deleted * WHOLE >= kinds.DUE_PERCENT * files.rows)
    if not due.any():
        return
    marked = files.has_vector
    share = np.where(has_rows, files.deleted / np.maximum(files.rows, 1), 0) * marked
    gone = int((files.sizes * share).sum())
    read = int(files.sizes[marked].sum())
    yield kinds.VECTORS(
        f"deleted in {units.count(int(due.sum()), 'file')}: {units.number(int(files.deleted[due].sum()))} of "
        f"{units.count(int(files.rows[due].sum()), 'row')}",
        {"files": len(files), "files_due": int(due.sum()), "files_to_rewrite": int(marked.sum()),
         "rows_deleted": int(files.deleted[marked].sum()), "bytes": int(files.sizes[due].sum())},
        {"bytes": gone, "requests": int(marked.sum())}, reads=read, writes=read - gone)
