"""UPDATE: rows of a condition get new values.

What lives here: :func:`update`. Only files that hold such rows change. Where the table has
``delta.enableDeletionVectors`` the rows leave them by a deletion vector and are written, changed, into
new files; else the files are written again.
What it does not know: how rows are found and files written (``rows``, ``spark/rows.py``), how values are
computed (``assignments``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.commands.begin import begin
from deltanb.commands.engine import check_engine, choose_engine
from deltanb.commands.result import CommandResult, Stopwatch
from deltanb.commands.rows import assignments as assigning
from deltanb.commands.rows.change_files import wants_changes, write_changes
from deltanb.commands.rows.find_and_change import (
    Condition,
    FileChanges,
    TouchedFile,
    find,
    mark_deleted,
    marked_rows,
    rows_of,
    schema_with_row_ids,
    table_of,
    table_of_rows,
    understand,
    uses_vectors,
    write_rows,
    written_rows,
)
from deltanb.commands.rows.write import commit_or_discard
from deltanb.data import inputs
from deltanb.data.row_ids import columns_of, renewed
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction


@active.command
def update(
    log: DeltaLog, assignments: Mapping[str, str], where: str | None = None, *,
    engine: str = "auto", user_metadata: str | None = None,
) -> CommandResult:
    """Give the rows for which a condition is TRUE new values; all rows without one.

    A row for which the condition is NULL stays as it is. Nothing is committed where no row matches.

    Args:
        assignments: new values as SQL, by column; ``a.b`` names a field of a struct. They see the row as
            it was, and are stored by Spark's ANSI store assignment: what a column cannot hold is an
            error. Setting a partition column moves the rows.
        where: a condition in SQL.
        engine: ``"auto"`` takes Spark for what the process cannot evaluate and for data beyond notebook
            size; ``"arrow"`` and ``"spark"`` force one. Both give the same rows.
        user_metadata: a text kept in the commit.

    Returns:
        What was done: version, engine, and metrics (rows, files, bytes, milliseconds).

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
    """
    check_engine(engine)
    watch = Stopwatch()
    txn = begin(log, "rows", removes="UPDATE")
    tree = assigning.resolve(txn.snapshot.schema, assignments)
    condition = understand(txn, where)
    reason = assigning.check_runs_here(txn.snapshot.schema, tree)
    files = condition.scan(txn)
    engine = choose_engine(txn, engine, files, condition.reason or reason,
                           [condition.sql, *assigning.texts(tree)])
    from deltanb.progress import progress

    with progress("UPDATE: looking for rows", len(files)) as seen:
        touched = find(txn, files, condition, engine, seen)
    watch.lap("scanTimeMs")
    if not touched:
        return CommandResult("UPDATE", None, engine)
    metrics: dict[str, int] = {}

    def work() -> int:
        with progress("UPDATE: writing files"):
            changes = _Update(txn, condition, tree, touched, engine).run()
        watch.lap("rewriteTimeMs")
        metrics.update(changes.metrics(), **watch.metrics())
        metrics["numUpdatedRows"] = sum(len(found.rows) for found in touched)
        predicate = [] if condition.sql is None else [condition.sql]
        operation = Operation("UPDATE", {"predicate": predicate}, metrics=metrics,
                              tags=changes.tags(txn), user_metadata=user_metadata)
        return txn.commit(changes.actions, operation)

    return CommandResult("UPDATE", commit_or_discard(txn, work), engine, metrics)


class _Update:
    """The writing part: the touched files' rows, changed or not, in new files."""

    def __init__(
        self, txn: OptimisticTransaction, condition: Condition, tree: assigning.Tree,
        touched: list[TouchedFile], engine: str,
    ) -> None:
        self.txn, self.condition, self.tree = txn, condition, tree
        self.touched, self.engine = touched, engine

    def run(self) -> FileChanges:
        """Write the files; those of the change data feed are read from the new ones.

        So a value is computed once, and the feed says what the table holds.
        """
        changes, txn = FileChanges(), self.txn
        feed = wants_changes(txn)
        if uses_vectors(txn):
            mark_deleted(txn, self.touched, changes)
            new = changes.written = write_rows(txn, self._rows(self.touched, others=False))
        else:
            changes.removed = [found.file.remove() for found in self.touched]
            changes.copied = sum(found.others for found in self.touched)
            apart = feed or not self.condition.can_be_repeated
            new = changes.written = write_rows(txn, self._rows(self.touched, others=not apart))
            if apart and changes.copied:
                changes.written = [*new, *write_rows(txn, self._survivors())]
        if feed:
            changes.changes = write_changes(txn, [
                ("update_preimage", rows_of(txn, self.touched, "touched")),
                ("update_postimage", written_rows(txn, new))])
        return changes

    def _rows(self, touched: list[TouchedFile], *, others: bool) -> Any:
        """The changed rows, and with ``others`` the rows beside them, in their order."""
        schema = self.txn.snapshot.schema
        if self.engine == "spark":
            from deltanb.spark.rows import updated_rows

            files, where = table_of(touched), self.condition.sql
            if not self.condition.can_be_repeated:
                files, where = table_of_rows(self.txn, touched, "touched"), None
            return updated_rows(self.txn.snapshot, files, where, self.tree,
                                assigning.generated(schema, self.tree), others=others)
        assigner = assigning.Assigner(schema, self.tree)
        tracked = columns_of(self.txn.metadata, self.txn.protocol)

        def batches() -> Iterator[pa.RecordBatch]:
            if others:
                for batch, mask in marked_rows(self.txn, touched):
                    yield renewed(assigner.apply_where(batch, mask), tracked, mask)
                return
            for batch in rows_of(self.txn, touched, "touched", row_ids=True):
                for changed in assigner.apply(pa.Table.from_batches([batch])).to_batches():
                    yield renewed(changed, tracked)

        return inputs.Source(schema_with_row_ids(self.txn), batches)

    def _survivors(self) -> Any:
        kept = [found for found in self.touched if found.others]
        if self.engine == "spark":
            from deltanb.spark.rows import all_rows, without_rows

            if not self.condition.can_be_repeated:
                return all_rows(self.txn.snapshot, table_of_rows(self.txn, kept, "others"))
            assert self.condition.sql is not None  # else there are no others
            return without_rows(self.txn.snapshot, table_of(kept), self.condition.sql)
        return inputs.Source(
            schema_with_row_ids(self.txn), lambda: rows_of(self.txn, kept, "others", row_ids=True))
