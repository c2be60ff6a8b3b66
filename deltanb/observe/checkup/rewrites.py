"""What DELETE, UPDATE and MERGE write again for each row that they change.

What lives here: the check, from what commits say of themselves; which change of the layout they came before.
What it does not know: how rows are changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.commits import Record, ordered_by
from deltanb.observe.checkup.files import ordered_plan
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState
from deltanb.schema.paths import quoted
from deltanb.text import formatting as units

VECTORS = "delta.enableDeletionVectors"
CHANGING = frozenset({"DELETE", "UPDATE", "MERGE"})
_SWITCHED_ON = re.compile(re.escape(VECTORS) + r'\W+true\b', re.IGNORECASE)
COMMIT_BYTES = 1 << 11
"""Bytes of a commit that sets a property, about."""


def check_rewrites(state: TableState) -> Iterator[Finding]:
    """Many rows copied for each one changed."""
    known = [one for one in _since_layout(state) if one.operation in CHANGING and one.rows_copied]
    changed = sum(one.rows_changed or 0 for one in known)
    copied = sum(one.rows_copied or 0 for one in known)
    if copied < kinds.LEAST_COPIED or copied < kinds.COPIED_PER_ROW * max(1, changed):
        return
    written = sum(one.added_bytes or 0 for one in known)
    case, columns, cost = _command(state)
    if case and not columns:
        return
    saved = copied if not case else max(0, copied - len(known) * _rows_of_a_file(state))
    yield kinds.REWRITES(
        f"{units.count(len(known), 'commit')} changed {units.count(changed, 'row')} and wrote "
        f"{units.number(copied)} others again, {units.size(written)} in all",
        {"commits": len(known), "rows_changed": changed, "rows_copied": copied,
         "rows_copied_per_row": round(copied / max(1, changed), 1), "bytes_rewritten": written},
        {"rows": saved, "bytes": written * saved // max(1, copied + changed)},
        reads=cost, writes=max(cost, COMMIT_BYTES), case=case, columns=columns)


def _since_layout(state: TableState) -> Iterator[Record]:
    """The commits, newest first, behind the last one that changed what a rewrite costs."""
    for record in state.records.records:
        if record.operation == "OPTIMIZE" and ordered_by(record):
            return
        if _SWITCHED_ON.search(json.dumps(record.parameters, default=str)):
            return
        yield record


def _command(state: TableState) -> tuple[str, tuple[str, ...], int]:
    """Which command mends it, the columns in it, and the bytes that it reads."""
    if not state.setting(VECTORS):
        return "", (), 0
    columns = state.condition_columns[:4]
    plan = ordered_plan(state, columns)
    if state.snapshot.partition_columns:
        return "ordered", plan.columns, plan.bytes
    return "clustered", tuple(map(quoted, columns)), plan.bytes


def _rows_of_a_file(state: TableState) -> int:
    """The rows of a file of the target size of a file, at most: a change of neighbours copies one."""
    files = state.files
    rows = files.rows[files.rows > 0]
    return int(rows.sum() * state.target[0] / max(1, files.total)) if len(rows) else 0
