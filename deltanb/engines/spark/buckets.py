"""Tables in a bucket on Spark's executors: if Spark has no file system for it, tasks access it themselves.

What lives here: :func:`place_for`, how executors get to a store and its credentials; :func:`rows_of` and
:func:`written`, the queries whose tasks read and write files (:mod:`~deltanb.engines.spark.executors`).
What it does not know: Spark's own reader and writer, transactions.

Executors take credentials from their environment, or from the role of their machine. Executors on this
machine read ours from a file that only this user can read, so that no plan, log or event has them.
Credentials given as ``storage_options`` are not sent to other machines; rows then pass through this process.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.engines.arrow import read as in_process
from deltanb.engines.spark import executors
from deltanb.engines.spark.columns import passes_through_arrow
from deltanb.engines.spark.executors import Place
from deltanb.engines.spark.jobs import followed
from deltanb.engines.spark.session_request import is_on_this_machine
from deltanb.errors import DeltaError
from deltanb.store.storage_options import borrow, lend
from deltanb.store.vending import READ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from deltanb.actions import AddFile
    from deltanb.engines.arrow.prewritten import Target
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

__all__ = ["place_for", "rows_of", "written"]


@dataclass(frozen=True)
class Lent(Place):
    """A place for processes on this machine, with a file that has the credentials."""

    path: str = ""

    def opened(self) -> LogStore:
        """The store, in this process."""
        borrow(self.path)
        return self.store


def place_for(store: LogStore, session: SparkSession, operation: str = READ) -> Place | None:
    """A bucket for a session's executors; None if they cannot access it, or if it is not a bucket.

    ``operation`` says what a catalog that vends credentials is to allow them.
    """
    access: Any = getattr(store, "access", None)
    if access is None:
        return None
    if is_on_this_machine(session):
        return Lent(store, path=lend(access, operation))
    return None if access.has_secrets else Place(store)


def rows_of(
    session: SparkSession, snapshot: Snapshot, columns: Sequence[str], files: pa.Table, schema: StructType
) -> DataFrame | None:
    """The live rows of files as a frame whose tasks read them, a few files each.

    None if executors cannot: there are no files in a bucket, or Spark cannot take the rows from Arrow.
    """
    scan = in_process.plan(snapshot, columns)
    place = place_for(scan.store, session)
    if place is None or not files.num_rows or not passes_through_arrow(schema):
        return None
    parts = executors.parts(executors.files_as_dicts(files, scan))

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from executors.read_files(place, scan, parts[number])

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(read, schema)


def written(place: Place, target: Target, frame: DataFrame) -> list[AddFile]:
    """Write a frame's rows as files of the table, by its tasks, and describe them; commit nothing.

    After an error of any kind, here or in a task, none of the files is left.

    Raises:
        SchemaMismatch, ConstraintViolation: rows that do not fit.
        StorageError: a file cannot be written.
    """
    plan = executors.begun(Place(place.store), target)
    of_task = replace(plan, place=place)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answer = _answer(lambda: executors.write_files(of_task, batches))
        yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    try:
        with followed(frame.sparkSession, "Spark writes"):
            answers = frame.mapInArrow(write, "answer binary").collect()
        written_files = [pickle.loads(bytes(row.answer)) for row in answers]
        for one in written_files:
            if isinstance(one, DeltaError):
                raise one
        files = [file for some in written_files for file in some]
        executors.ended(plan, [file.path for file in files])
        return files
    except BaseException:
        executors.ended(plan)
        raise


def _answer(work: Callable[[], list[AddFile]]) -> bytes:
    """A task's result, or our error as an object: Spark would pass it on only as text."""
    try:
        return pickle.dumps(work())
    except DeltaError as error:
        return pickle.dumps(error)
