"""What the next version does to some rows of a version: which of them it changes and removes.

What lives here: the comparison of a preview's rows with the next version, through the few files they come
from.
What it does not know: how versions are chosen, how rows are drawn.

Only files that matter to these rows are read: their own, if the next version removes or masks them, and those
it adds in the same partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from deltanb.log.diff import FileDiff, RowDiff
    from deltanb.log.snapshot import Snapshot

MAX_FILES = 20_000  # of a version; the lists of two are compared
MAX_ROWS = 200_000
"""Rows read to tell what becomes of a preview: what takes some tenths of a second."""
CHANGES, GOES = "changes", "goes"


@dataclass(frozen=True)
class NextStep:
    """What version ``version`` does to the rows of a preview.

    ``fates`` has ``"changes"``, ``"goes"`` or an empty text for each row; it is empty if that is not known,
    for the reason in ``note``. ``columns`` are those that change.
    """

    version: int
    operation: str = ""
    parameters: Any = None
    fates: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    note: str = ""

    @property
    def num_marked(self) -> int:
        """How many of the rows change or go."""
        return sum(map(bool, self.fates))


def next_step(
    before: Snapshot, after: Snapshot, rows: pa.Table, paths: Sequence[str],
    keys: Sequence[str] | None = None,
) -> NextStep:
    """What ``after`` does to rows of ``before`` from the files ``paths``."""
    info = after.last_commit_info or {}
    step = NextStep(after.version, str(info.get("operation") or ""), info.get("operationParameters"))
    if max(before.num_files, after.num_files) > MAX_FILES:
        return replace(step, note="too many files to compare")
    try:
        return _looked_up(step, before, after, rows, paths, keys)
    except DeltaError:  # files are gone, types have nothing in common: the rows are shown all the same
        return replace(step, note="what becomes of them cannot be read")


def _looked_up(
    step: NextStep, before: Snapshot, after: Snapshot, rows: pa.Table, paths: Sequence[str],
    keys: Sequence[str] | None,
) -> NextStep:
    from deltanb.commands.read.diff import rows_of
    from deltanb.commands.read.diff_rows import conformed
    from deltanb.log.diff import compare

    files = _of_paths(compare(before, after).files, paths, before.partition_columns)
    if not (files.removed.num_rows or files.remasked_before.num_rows):
        return replace(step, fates=("",) * rows.num_rows)
    known = None if keys is None else [name for name in keys if name in after.schema.names]
    diff = rows_of(before, after, files, known, MAX_ROWS)
    if not diff.is_exact:
        return replace(step, note="too many rows to compare")
    shown, _ = conformed(rows, before.schema, after.schema)
    return _fates(step, shown, diff)


def _of_paths(files: FileDiff, paths: Sequence[str], partitions: Sequence[str]) -> FileDiff:
    """The differing files that may hold the rows of some paths, before and after."""
    import pyarrow as pa
    import pyarrow.compute as pc

    path_array = pa.array(paths, pa.string())
    removed = files.removed.filter(pc.is_in(files.removed["path"], path_array))
    at = pc.is_in(files.remasked_before["path"], path_array)
    masked, added = files.remasked_before.filter(at), files.added
    if partitions:
        old = {place for table in (removed, masked) for place in _partitions(table)}
        added = added.filter(pa.array([place in old for place in _partitions(added)], pa.bool_()))
    return replace(files, added=added, removed=removed, remasked_before=masked,
                   remasked_after=files.remasked_after.filter(at))


def _partitions(files: pa.Table) -> list[tuple[Any, ...]]:
    """The partition of each file, as a comparable tuple."""
    return [tuple(sorted((name, value or "") for name, value in values or ()))
            for values in files["partition_values"].to_pylist()]


def _fates(step: NextStep, rows: pa.Table, diff: RowDiff) -> NextStep:
    changed, gone = _indices_in(rows, diff.before), _indices_in(rows, diff.removed)
    # If rows were not matched and others were added, a row that is gone counts as changed.
    gone_is = CHANGES if diff.matched_by == "nothing" and diff.num_added else GOES
    fates = tuple(CHANGES if one >= 0 else gone_is if two >= 0 else ""
                  for one, two in zip(changed, gone, strict=True))
    at = changed[changed >= 0]
    old, new = diff.before.take(at).to_pydict(), diff.after.take(at).to_pydict()
    columns = tuple(name for name in rows.column_names if old[name] != new[name])
    return replace(step, fates=fates, columns=columns)


def _indices_in(rows: pa.Table, among: pa.Table) -> np.ndarray:
    """The index of each row among others, −1 if it is not among them."""
    import numpy as np

    from deltanb.commands.read.diff_rows import codes_of, combined

    size = rows.num_rows + among.num_rows
    numbers = combined([codes_of([rows[name], among[name]]) for name in rows.column_names], size)
    mine, others = numbers[: rows.num_rows], numbers[rows.num_rows :]
    places = {int(number): at for at, number in enumerate(others)}
    return np.array([places.get(int(number), -1) for number in mine], np.int64)
