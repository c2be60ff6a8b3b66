"""Statistics that conditions of the history would have used, and that files do not have.

What lives here: the check, and which columns a table's properties have statistics written for.
What it does not know: how statistics are computed (ANALYZE), how files are skipped by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deltanb.engines.arrow.statistics import indexed_leaves
from deltanb.errors import DeltaError
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.files import WHOLE
from deltanb.observe.checkup.live_files import Path
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState
from deltanb.schema.column_mapping import mode_of, physical_path
from deltanb.schema.paths import quoted
from deltanb.text import formatting as units
from deltanb.transaction.writing import clustering_columns

FOOTER_BYTES = 1 << 16
"""Bytes of a footer that ANALYZE reads of each file, about: it has the bounds of each row group."""
LINE_BYTES = 1 << 10
"""Bytes of the line that names a file and its statistics in the log, about."""


def check_statistics(state: TableState) -> Iterator[Finding]:
    """Files without statistics of the columns of conditions."""
    files = state.files
    missing = {path: files.has_no_statistics(path) for path in state.condition_columns}
    missing = {path: mask for path, mask in missing.items()
               if mask.any() and mask.sum() * WHOLE >= kinds.LEAST_SHARE * len(files)}
    if not missing:
        return
    without = np.logical_or.reduce(list(missing.values()))
    size, lacking = int(files.sizes[without].sum()), int(without.sum())
    names = tuple(map(".".join, missing))
    commits = max(state.conditions.commits[path] for path in missing)
    indexed = _indexed(state)
    unindexed = [path for path in missing if not _is_indexed(state, path, indexed)]
    yield kinds.STATISTICS(
        f"no statistics of {', '.join(names)} in {units.number(lacking)} of "
        f"{units.count(len(files), 'file')}; "
        f"{units.count(commits, 'commit')} had conditions on them",
        {"columns": list(names), "files": len(files), "files_without": lacking, "commits": commits,
         "bytes": size},
        {"files": lacking, "bytes": size}, reads=int(np.minimum(files.sizes, FOOTER_BYTES).sum()),
        writes=lacking * LINE_BYTES, case="unindexed" if unindexed else "", columns=names,
        names=_names(state, unindexed, indexed))


def _indexed(state: TableState) -> set[Path] | None:
    """The physical paths of the columns that writers of the table write statistics of; None where a property
    is none, which has its own remark."""
    snapshot = state.snapshot
    try:
        return {leaf.path for leaf in indexed_leaves(
            snapshot.schema, snapshot.metadata, clustering_columns(snapshot), snapshot.protocol)}
    except DeltaError:
        return None


def _is_indexed(state: TableState, path: Path, indexed: set[Path] | None) -> bool:
    """Whether a column is among those that are :func:`_indexed`; so is each where these are not known."""
    snapshot = state.snapshot
    try:
        mode = mode_of(snapshot.metadata, snapshot.protocol)
        return indexed is None or physical_path(snapshot.schema, path, mode) in indexed
    except DeltaError:
        return True


def _names(state: TableState, more: list[Path], indexed: set[Path] | None) -> str:
    """``delta.dataSkippingStatsColumns`` with further columns, and those that have statistics already."""
    if not more:
        return ""
    known = [path for path in state.files.columns_with_bounds()
             if path in more or _is_indexed(state, path, indexed)]
    return ",".join(map(quoted, known))
