"""What nobody has committed yet: a table with all that transactions of a lock manager have done to it.

What lives here: :class:`Uncommitted`, which makes a version of it that READ_UNCOMMITTED reads.
What it does not know: locks, and who may read it.

It is a log of its own, on which all statements are staged, and the rows of cursors as statements behind them.
The locks of those who made them keep them apart. The files of the latter go with :meth:`Uncommitted.end`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.commands.merge.by_key import apply_changes
from deltanb.transaction.staging import StagedLog, Statement

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog


class Doings(NamedTuple):
    """What one transaction has done to the table: its statements, and the rows by a key that are none yet."""

    statements: Sequence[Statement]
    key: Sequence[str] = ()
    rows: Mapping[Any, Any] = {}


class Uncommitted:
    """A table as it would be if all transactions had committed; made anew where something has changed."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._of: object = None
        self._views: list[tuple[StagedLog, int]] = []
        """Each with how many of its statements are transactions'."""

    def snapshot(self, doings: Sequence[Doings]) -> Snapshot:
        """The newest version with what transactions have done to it."""
        newest = self._log.update()
        # What was done is held on to: an id is that of nothing else meanwhile.
        of = newest, [(list(map(id, each.statements)), each) for each in doings]
        if self._of != of:
            self._views.append(self._made(newest, doings))
            self._of = of
        return self._views[-1][0].snapshot

    def _made(self, newest: Snapshot, doings: Sequence[Doings]) -> tuple[StagedLog, int]:
        view = StagedLog(self._log, newest)
        for each in doings:
            for statement in each.statements:
                view.statements.append(replace(statement, version=newest.version + len(view.statements) + 1))
        view._stage_again()
        num_theirs = len(view.statements)
        for each in doings:
            if each.rows:
                apply_changes(view, each.key, each.rows)
        return view, num_theirs

    def end(self) -> None:
        """Delete the files that were written for it."""
        views, self._views, self._of = self._views, [], None
        for view, num_theirs in views:
            view.rollback_to(num_theirs)
