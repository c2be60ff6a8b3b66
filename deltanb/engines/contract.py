"""What a command asks of an engine: two engines, one contract.

What lives here: :class:`Engine`, which the process (``engines/arrow/engine.py``) and Spark
(``engines/spark/engine.py``) implement with the same results, :class:`MergeEngine`, which is one merge on
either of them, and the values that go in and out. ``commands/choose_engine.py`` chooses the engine, once
for a command.
What it does not know: how rows are read, changed and written; commits.

A row is named by its file and its position in that file, counted from zero over deleted rows too, as
deletion vectors do (PROTOCOL.md, "Deletion Vectors"). What an engine writes are files of the transaction: in
their final place, in no version yet, and gone when it is discarded. Rows that are written again keep their
ids where the table tracks rows; those that change get the version of the commit to come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyroaring import BitMap64

from deltanb.actions import AddFile

if TYPE_CHECKING:
    from deltanb.sql.predicates import Condition
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

Assignments = dict[str, Any]
"""SQL by column name as the schema spells it; for fields inside a struct the same again."""


class Engine(Protocol):
    """Finds rows, and writes rows in their place."""

    @property
    def name(self) -> str:
        """``arrow`` (in the process) or ``spark``: what people say, and what results show."""

    def find(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, seen: Callable[[], None],
    ) -> list[TouchedFile]:
        """The files that hold live rows for which the condition is TRUE, with these rows.

        Args:
            condition: with SQL, and in the process with a predicate.
            seen: may be called after each file that is searched.

        Raises:
            InvalidPredicate: SQL that cannot be evaluated.
        """

    def first(
        self, txn: OptimisticTransaction, files: FileScan, condition: Condition, label: str
    ) -> dict[str, Any] | None:
        """A live row for which the condition is TRUE, by column; ``label`` is what errors call it."""

    def survivors(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition
    ) -> list[AddFile]:
        """Write the live rows beside the touched ones, as they are."""

    def changed(
        self, txn: OptimisticTransaction, touched: Sequence[TouchedFile], condition: Condition,
        assignments: Assignments, *, others: bool,
    ) -> list[AddFile]:
        """Write the touched rows with new values; with ``others`` the live rows beside them, too.

        Values see the row as it was, and generated columns that nobody assigns see the new values.

        Raises:
            SchemaMismatch, ConstraintViolation: a value that its column, or the table, does not take.
        """

    def moved(
        self, txn: OptimisticTransaction, files: pa.Table, curve: Curve | None, target_size: int,
        clustering: Iterable[Sequence[str]],
    ) -> list[AddFile]:
        """Write the live rows of rows of ``snapshot.files`` again, without a change of data.

        Args:
            curve: the order of the rows, and where a file ends; None: as they come, into one file.
            target_size: bytes at which a file of a curve is cut.
            clustering: physical paths of columns whose statistics are wanted in any case.
        """

    def write(self, txn: OptimisticTransaction, rows: Any) -> list[AddFile]:
        """Write new rows, in the form the engine holds them: ``data.inputs.Source``, or a DataFrame.

        Their last columns may be their ids and commit versions.
        """


class MergeEngine(Protocol):
    """One merge on an engine: its source at hand, and what became of the join."""

    @property
    def num_source_rows(self) -> int:
        """How many rows the source has."""

    def key_values(self) -> list[Any]:
        """For each key of the condition its values in the source, or their bounds; None if not known."""

    def repeated(self, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
        """Values without NULL that several rows of the source have in these columns, and how many rows; None
        if there are none."""

    def find(self, files: FileScan, seen: Callable[[], None] = lambda: None) -> JoinedRows:
        """Join the files' rows with the source; ``seen`` may be called after each file that is read."""

    def write(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None = None,
        without: Collection[str] = (),
    ) -> list[AddFile]:
        """Write rows in the table's new schema; rows of the table with their ids, where it tracks rows.

        Args:
            changed: of :meth:`find`.
            groups: ``update``, ``insert``, and ``copy`` for the rows of the files that no clause changes.
            inserts: the clauses whose rows are inserted, by their places among all; all unless given.
            without: columns to leave out.
        """


class Curve(Protocol):
    """An order of rows, by one number for each."""

    @property
    def stretches(self) -> pa.Array:
        """The numbers at which a new file begins."""

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The number of each row."""

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Rows by their numbers."""


# --- what goes in and out ---------------------------------------------------------------------------

@dataclass(frozen=True)
class TouchedFile:
    """A data file with rows that a command changes.

    ``rows`` are their positions in the file, ``live`` is how many rows the file has that are not
    deleted yet; the rows are among those.
    """

    file: AddFile
    rows: BitMap64
    live: int

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the file are meant."""
        return len(self.rows) == self.live

    @property
    def others(self) -> int:
        """How many live rows are not meant."""
        return self.live - len(self.rows)


class FileRows(Protocol):
    """A file of a merge's target and the rows of it that change."""

    file: AddFile

    def of(self, clauses: Sequence[int]) -> BitMap64:
        """The positions of the rows that some clauses change."""


@dataclass
class JoinedRows:
    """What the join of a merge gave: the files that change, and how many rows each clause takes.

    ``several`` is whether a row of the target met more than one of the source. ``counts`` are rows by
    the clause's place among all; those of inserts only where ``inserts_are_counted``.
    """

    changed: list[FileRows] = field(default_factory=list)
    several: bool = False
    counts: dict[int, int] = field(default_factory=dict)
    inserts_are_counted: bool = True
