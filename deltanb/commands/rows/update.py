"""UPDATE: rows of a condition get new values.

What lives here: :func:`update`. Only files that hold such rows change. Where the table has
``delta.enableDeletionVectors`` the rows leave them by a deletion vector and are written, changed, into
new files; else the files are written again.
What it does not know: how rows are found and files written (``find_and_change``, the engines), how values are
computed (``engines/arrow/assignments.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import check_engine, choose_engine, named
from deltanb.commands.result import CommandResult, Stopwatch
from deltanb.commands.rows.change_files import wants_changes, write_changes
from deltanb.commands.rows.find_and_change import (
    FileChanges,
    find,
    mark_deleted,
    uses_vectors,
)
from deltanb.commands.rows.write import commit_or_discard
from deltanb.engines.arrow import assignments as assigning
from deltanb.engines.arrow.touched import (
    rows_of,
    written_rows,
)
from deltanb.engines.contract import TouchedFile
from deltanb.sql.predicates import Condition, parse_condition
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.engines.contract import Engine
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction


@active.command
def update(
    log: DeltaLog, assignments: Mapping[str, Any], where: str | None = None, *,
    engine: str = "auto", user_metadata: str | None = None,
) -> CommandResult:
    """Set new values in the rows for which a condition is TRUE; in all rows without one.

    A row for which the condition is NULL is not changed. Nothing is committed if no row matches.

    Args:
        assignments: new values by column; ``a.b`` names a field of a struct. A text is SQL: it sees the row
            as it was, and a text in it is quoted (``{"carrier": "'UA'"}``). Another Python value means
            itself (int, float, bool, None, date, datetime, Decimal, bytes). Values are stored by Spark's
            ANSI store assignment: what a column cannot hold is an error. Setting a partition column moves
            the rows.
        where: a condition in SQL.
        engine: ``"auto"`` takes Spark for what the process cannot evaluate and for data beyond notebook
            size; ``"arrow"`` and ``"spark"`` force one. Both give the same rows.
        user_metadata: text to record in the commit.

    Returns:
        The version, engine, and metrics (rows, files, bytes, milliseconds).

    Raises:
        TableNotFound: there is no table.
        InvalidPredicate: SQL that cannot be understood, or a column that is not there.
        UnsupportedPredicate: SQL that needs Spark, and ``engine`` or the installation says no.
        SchemaMismatch, ConstraintViolation: a new value does not fit; nothing was written.
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
        DeltaConcurrentModificationException: another commit changed what was read.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, None]})
    >>> update(table.log, {"nephews": "nephews + 1", "name": "upper(name)"}, "nephews > 1").version
    1
    >>> table.to_arrow().sort_by("name").to_pylist()
    [{'name': 'DONALD', 'nephews': 4}, {'name': 'Daisy', 'nephews': None}]
    >>> update(table.log, {"nephews": 0}, "nephews IS NULL").version
    2
    """
    check_engine(engine)
    watch = Stopwatch()
    txn = begin(log, "rows", removes="UPDATE")
    tree = assigning.resolve(txn.snapshot.schema, assignments)
    condition = parse_condition(where, txn.snapshot.schema)
    reason = assigning.check_runs_here(txn.snapshot.schema, tree)
    files = txn.filter_files(*condition.parts)
    worker = named(choose_engine(txn, engine, files, condition.reason or reason,
                                 [condition.sql, *assigning.texts(tree)]))
    from deltanb.text.progress import progress

    with progress("UPDATE: looking for rows", len(files)) as seen:
        touched = find(txn, files, condition, worker, seen)
    watch.lap("scanTimeMs")
    if not touched:
        return CommandResult("UPDATE", None, worker.name)
    metrics: dict[str, int] = {}

    def work() -> int:
        with progress("UPDATE: writing files"):
            changes = _changed(txn, condition, tree, touched, worker)
        watch.lap("rewriteTimeMs")
        metrics.update(changes.metrics(), **watch.metrics())
        metrics["numUpdatedRows"] = sum(len(file.rows) for file in touched)
        predicate = [] if condition.sql is None else [condition.sql]
        operation = Operation("UPDATE", {"predicate": predicate}, metrics=metrics,
                              tags=changes.tags(txn), user_metadata=user_metadata)
        return txn.commit(changes.actions, operation)

    return CommandResult("UPDATE", commit_or_discard(txn, work), worker.name, metrics)


def _changed(
    txn: OptimisticTransaction, condition: Condition, tree: assigning.Tree, touched: list[TouchedFile],
    engine: Engine,
) -> FileChanges:
    """Write the files; change data is read from the new files.

    So every value is computed once, and the feed has the same values as the table.
    """
    changes = FileChanges()
    feed = wants_changes(txn)
    if uses_vectors(txn):
        mark_deleted(txn, touched, changes, lambda: changes.written.extend(
            engine.changed(txn, touched, condition, tree, others=False)))
        new = changes.written
    else:
        changes.removed = [one.file.remove() for one in touched]
        changes.copied = sum(one.others for one in touched)
        apart = feed or not condition.can_be_repeated
        new = changes.written = engine.changed(txn, touched, condition, tree, others=not apart)
        if apart and changes.copied:
            changes.written = [*new, *engine.survivors(txn, touched, condition)]
    if feed:
        changes.changes = write_changes(txn, [
            ("update_preimage", rows_of(txn, touched, "touched")),
            ("update_postimage", written_rows(txn, new))])
    return changes
