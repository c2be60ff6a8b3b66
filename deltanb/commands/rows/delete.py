"""DELETE and TRUNCATE: rows of a condition leave the table, or all of them.

What lives here: :func:`delete` and :func:`truncate`. Rows that partition values alone decide go with their
files, by the log alone. Of other files only those that hold such rows change: they get a deletion vector
where the table has ``delta.enableDeletionVectors``, else their other rows are written again.
What it does not know: how rows are found and files written (``find_and_change``, the engines).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import check_engine, choose_engine, named
from deltanb.commands.result import CommandResult, Stopwatch
from deltanb.commands.rows.change_files import wants_changes, write_changes
from deltanb.commands.rows.find_and_change import (
    FileChanges,
    find,
    remove_rows,
)
from deltanb.commands.rows.write import commit_or_discard
from deltanb.engines.arrow.touched import known_live_count, rows_of
from deltanb.engines.contract import TouchedFile
from deltanb.sql.predicates import Condition, parse_condition
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.engines.contract import Engine
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction


@active.command
def delete(
    log: DeltaLog, where: str | None = None, *, engine: str = "auto",
    user_metadata: str | None = None,
) -> CommandResult:
    """Delete the rows for which a condition is TRUE; all rows without one.

    A row for which the condition is NULL stays. Nothing is committed if no row matches.

    Args:
        where: a condition in SQL. In the process the subset of ``to_arrow(where=...)`` runs; Spark
            understands all of its own SQL.
        engine: ``"auto"`` takes Spark for what the process cannot evaluate and for data beyond notebook
            size; ``"arrow"`` and ``"spark"`` force one. Both delete the same rows.
        user_metadata: text to record in the commit.

    Returns:
        The version, engine, and metrics (rows, files, bytes, milliseconds).

    Raises:
        TableNotFound: there is no table.
        InvalidPredicate: ``where`` cannot be understood.
        UnsupportedPredicate: ``where`` needs Spark, and ``engine`` or the installation says no.
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
        DeltaConcurrentModificationException: another commit changed what was read.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, None]})
    >>> delete(table.log, "nephews > 1").metrics["numDeletedRows"]
    1
    >>> table.to_arrow().to_pylist()
    [{'name': 'Daisy', 'nephews': None}]
    """
    check_engine(engine)
    watch = Stopwatch()
    txn = begin(log, "rows", removes="DELETE")
    condition = parse_condition(where, txn.snapshot.schema)
    files = txn.filter_files(*condition.parts)
    if condition.is_partition_only(txn.snapshot.partition_columns):
        return _whole_files(txn, condition, files, watch, user_metadata)
    worker = named(choose_engine(txn, engine, files, condition.reason, [condition.sql]))
    from deltanb.text.progress import progress

    with progress("DELETE: looking for rows", len(files)) as seen:
        touched = find(txn, files, condition, worker, seen)
    watch.lap("scanTimeMs")
    if not touched:
        return CommandResult("DELETE", None, worker.name)

    def work() -> int:
        with progress("DELETE: writing files"):
            changes = _changed(txn, condition, touched, worker)
        watch.lap("rewriteTimeMs")
        metrics.update(changes.metrics(), **watch.metrics())
        metrics["numDeletedRows"] = sum(len(file.rows) for file in touched)
        return txn.commit(changes.actions, _operation(condition, metrics, changes.tags(txn),
                                                      user_metadata))

    metrics: dict[str, int] = {}
    return CommandResult("DELETE", commit_or_discard(txn, work), worker.name, metrics)


@active.command
def truncate(log: DeltaLog, *, user_metadata: str | None = None) -> CommandResult:
    """Remove all files of the table, by the log alone; its columns and properties stay.

    Unlike :func:`delete` it does not count the rows. Nothing is committed if there are no files.

    Args:
        user_metadata: text to record in the commit.

    Returns:
        The version, and the number of files that were removed.

    Raises:
        TableNotFound: there is no table.
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
        DeltaConcurrentModificationException: another commit changed the table meanwhile.

    >>> import deltanb as dn
    >>> table = dn.create("emptied", {"name": ["Donald", "Daisy"]})
    >>> truncate(table.log).metrics["numRemovedFiles"], table.count()
    (1, 0)
    """
    watch = Stopwatch()
    txn = begin(log, "rows", removes="TRUNCATE")
    removed = [file.remove() for file in txn.filter_files()]
    if not removed:
        return CommandResult("TRUNCATE", None, "log")
    metrics = {"numRemovedFiles": len(removed), **watch.metrics()}
    operation = Operation("TRUNCATE", metrics=metrics, tags=FileChanges(removed=removed).tags(txn),
                          user_metadata=user_metadata)
    return CommandResult("TRUNCATE", txn.commit(removed, operation), "log", metrics)


def _whole_files(
    txn: OptimisticTransaction, condition: Condition, files: FileScan, watch: Stopwatch,
    user_metadata: str | None,
) -> CommandResult:
    """Remove whole files: nothing is read, and rows are counted if the log has their numbers."""
    removed, rows = [], 0
    counted = True
    for file in files:
        removed.append(file.remove())
        known = known_live_count(file)
        counted, rows = counted and known is not None, rows + (known or 0)
    watch.lap("scanTimeMs")
    if not removed:
        return CommandResult("DELETE", None, "log")
    changes = FileChanges(removed=removed)
    metrics = {**changes.metrics(), "numDeletedRows": rows, **watch.metrics(), "rewriteTimeMs": 0}
    if not counted:
        del metrics["numDeletedRows"], metrics["numCopiedRows"]
    operation = _operation(condition, metrics, changes.tags(txn), user_metadata)
    return CommandResult("DELETE", txn.commit(changes.actions, operation), "log", metrics)


def _changed(
    txn: OptimisticTransaction, condition: Condition, touched: list[TouchedFile], engine: Engine
) -> FileChanges:
    changes = remove_rows(txn, condition, touched, engine)
    if wants_changes(txn) and not all(file.is_whole for file in touched):
        changes.changes = write_changes(txn, [("delete", rows_of(txn, touched, "touched"))])
    return changes


def _operation(
    condition: Condition, metrics: dict[str, int], tags: dict[str, str], user_metadata: str | None
) -> Operation:
    return Operation("DELETE", {"predicate": [condition.sql or "true"]}, metrics=metrics, tags=tags,
                     user_metadata=user_metadata)
