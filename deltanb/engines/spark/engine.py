"""The engine on Spark: rows found and written by queries.

What lives here: :data:`SPARK`, which keeps the contract of :class:`deltanb.engines.contract.Engine`.
What it does not know: the queries (``rows``, ``rewrite``), commits.

Spark has nondeterministic functions. If a condition may not select the same rows again, the selected rows are
read by their positions, as if deletion vectors hid the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.engines.arrow.assignments import generated
from deltanb.engines.arrow.rewriter import Rewriter
from deltanb.engines.arrow.row_ids import tracked_in
from deltanb.engines.arrow.touched import deleted_rows, live_count, table_of, table_of_rows
from deltanb.engines.contract import TouchedFile
from deltanb.engines.spark.jobs import followed
from deltanb.engines.spark.read import read_table
from deltanb.engines.spark.refusals import refusals
from deltanb.engines.spark.rewrite import write_together
from deltanb.engines.spark.rows import all_rows, find_rows, rules, updated_rows, without_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.actions import AddFile
    from deltanb.engines.contract import Assignments, Curve
    from deltanb.sql.predicates import Condition
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction


class SparkEngine:
    """Spark; see :class:`deltanb.engines.contract.Engine`."""

    name = "spark"

    def find(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, seen: Callable[[], None],
    ) -> list[TouchedFile]:
        """Find rows with one query over all files."""
        assert condition.sql is not None
        touched = []
        for place, rows in sorted(find_rows(txn.snapshot, files.table, condition.sql).items()):
            file: AddFile = files[place]
            deleted = deleted_rows(txn, file)
            rows = rows if deleted is None else rows - deleted
            if rows:
                touched.append(TouchedFile(file, rows, live_count(txn, file)))
        return touched

    def first(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, label: str
    ) -> dict[str, Any] | None:
        """Any of the rows."""
        frame = read_table(txn.snapshot, files.table, None)
        with refusals(f"evaluate {label!r}", label, ". Correct the condition, nothing was changed"), \
                followed(frame.sparkSession, "Spark reads"):
            rows = frame.where(condition.sql).limit(1).collect()
        return rows[0].asDict(recursive=True) if rows else None

    def survivors(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition
    ) -> list[AddFile]:
        """The rows of the opposite condition, if the condition is deterministic."""
        partial = [file for file in touched if file.others]
        if not condition.can_be_repeated:
            return self.write(txn, all_rows(txn.snapshot, table_of_rows(txn, partial, "others")))
        assert condition.sql is not None  # else there are no others
        return self.write(txn, without_rows(txn.snapshot, table_of(partial), condition.sql))

    def changed(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition,
        assignments: Assignments, *, others: bool,
    ) -> list[AddFile]:
        """``others`` requires a deterministic condition."""
        files, where = table_of(touched), condition.sql
        if not condition.can_be_repeated:
            files, where = table_of_rows(txn, touched, "touched"), None
        later = generated(txn.snapshot.schema, assignments)
        return self.write(
            txn, updated_rows(txn.snapshot, files, where, assignments, later, others=others))

    def moved(
        self, txn: OptimisticTransaction, files: pa.Table, curve: Curve | None, target_size: int,
        clustering: Iterable[Sequence[str]],
    ) -> list[AddFile]:
        """Write a file for each stretch of the curve, whatever its size."""
        return write_together(Rewriter(txn, clustering), files, curve)

    def write(self, txn: OptimisticTransaction, rows: Any) -> list[AddFile]:
        """Write a DataFrame of rows, under the rules by which they were found."""
        with rules(), refusals("compute the rows to be written", None, "; nothing was changed"):
            return txn.write_files(rows, hidden=tracked_in(rows.columns, txn.metadata, txn.protocol))


SPARK = SparkEngine()
