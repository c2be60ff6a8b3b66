"""Clustering that has decayed: how many file ranges hold a value, now and behind the last OPTIMIZE.

What lives here: the check, and the depth of overlaps of a version's files.
What it does not know: how rows are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from deltanb.errors import DeltaError
from deltanb.log.arrays import numbers
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.files import ordered_plan
from deltanb.observe.checkup.live_files import LiveFiles, Path, average_depth
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState


def depth_of(files: LiveFiles, columns: Sequence[Path], chosen: Any = None) -> float:
    """The average over some columns of how many files hold a value, within partitions; ``chosen`` is a mask
    of the files that count, all by default. Files without bounds are left out."""
    depths = []
    for path in columns:
        ranks = files.ranks(path)
        known = ranks.is_known if chosen is None else ranks.is_known & chosen
        step = int(ranks.high.max(initial=0)) + 1
        offset = files.groups[known] * step
        depths.append(average_depth(ranks.low[known] + offset, ranks.high[known] + offset))
    return float(np.mean(depths)) if depths else 0.0


def expected_depth(num_files: int, before: float, files_before: int, num_columns: int) -> float:
    """The depth of files ordered as well as before, where there are more of them now: along a curve through k
    columns it grows with the files to the power of (k − 1) / k.

    >>> expected_depth(100, 1.0, 10, 1), expected_depth(400, 2.0, 100, 2)
    (1.0, 4.0)
    """
    growth = max(1.0, num_files / max(1, files_before))
    return max(1.0, before * growth ** ((num_columns - 1) / num_columns))


def check_clustering(state: TableState) -> Iterator[Finding]:
    """Ranges that overlap more than they did."""
    columns = state.clustered_by or state.z_ordered_by
    if not columns or len(state.files) < kinds.DEPTH:
        return
    files, (target, is_sized) = state.files, state.target
    version, then, files_then = _behind_optimize(state, columns)
    partitions = len(files.partitions)
    expected = expected_depth(len(files) // partitions, then, files_then // partitions, len(columns))
    now = depth_of(files, columns)
    limit = max(kinds.DEPTH, kinds.TIMES_DEPTH * expected)
    if now < limit:
        return
    case, reads = _command(state, columns, limit)
    names = tuple(map(".".join, columns))
    yield kinds.CLUSTERING(
        f"a value of {', '.join(names)} is in the ranges of {now:.1f} files on average, and of "
        f"{expected:.1f} "
        + (f"behind v{version}, which ordered them" if version >= 0 else "where they are ordered"),
        {"columns": list(names), "files": len(files), "depth_files": round(now, 2),
         "depth_then_files": round(expected, 2), "optimized_version": version, "bytes": files.total},
        {"files": int(now - expected), "bytes": int((now - expected) * files.total / len(files))},
        reads=reads, writes=reads, case=(f"{case}, sized" if case else "sized") if is_sized else case,
        columns=names, size=target)


def _behind_optimize(state: TableState, columns: Sequence[Path]) -> tuple[int, float, int]:
    """The version of the last OPTIMIZE that ordered rows, its depth and its number of files. Where none can
    be read, the depth of an ideal order of as many files as now."""
    ideal = expected_depth(len(state.files) // len(state.files.partitions), 1.0, 1, len(columns))
    last = state.records.last_optimize
    if last is None:
        return -1, ideal, len(state.files)
    try:
        files = LiveFiles.of(state.snapshot.log.snapshot_at(last.version), columns)
        return last.version, depth_of(files, columns), len(files)
    except (DeltaError, OSError, KeyError) as error:
        state.blind_spots.append(kinds.blind_spot("optimized-version", [last.version], str(error)))
        return last.version, ideal, len(state.files)


def _command(state: TableState, columns: list[Path], limit: float) -> tuple[str, int]:
    """The least OPTIMIZE that mends it, and the bytes that it reads."""
    files = state.files
    if not state.clustered_by:
        return "ordered", ordered_plan(state, columns).bytes
    unclustered = numbers(pc.is_null(files.provider))
    if unclustered.any() and depth_of(files, columns, ~unclustered) + 1 < limit:
        return "", int(files.sizes[unclustered].sum())
    return "full", files.total
