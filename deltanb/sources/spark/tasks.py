"""Tasks of the data source: what one of them reads, and how its rows become what Spark takes.

What lives here: :class:`Task`, the division of changed files among tasks, their rows in Spark's form; shared
by what reads versions and changes, and by streams.
What it does not know: options, tables; how files that are no changes are divided and read (``executors``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from deltanb.commands.read.changes import ChangedFile, rows_of
from deltanb.engines.arrow.data_file import Scan
from deltanb.engines.spark.executors import Place

__all__ = ["Task", "changes_as_tasks", "in_form", "read_changes"]

CHANGED_FILES = 16
"""Files of the change data feed that one task reads."""


class Task(InputPartition):
    """What one task reads: a part of the files."""

    def __init__(self, files: list[Any]) -> None:
        super().__init__(None)
        self.files = files


def changes_as_tasks(files: list[ChangedFile]) -> list[Task]:
    """Changed files, divided among tasks in their order."""
    return [Task(files[at:at + CHANGED_FILES]) for at in range(0, len(files), CHANGED_FILES)]


def read_changes(place: Place, scan: Scan, files: list[ChangedFile]) -> Iterator[pa.RecordBatch]:
    """The rows of changed files, batch by batch, none of them empty."""
    scan = replace(scan, store=place.opened())
    return (batch for file in files for batch in rows_of(scan, file) if batch.num_rows)


def in_form(columns: Iterable[pa.Array], form: pa.Schema) -> pa.RecordBatch:
    """Columns as a batch of the types that Spark wants."""
    return pa.RecordBatch.from_arrays(
        [column if column.type == field.type else column.cast(field.type)
         for column, field in zip(columns, form, strict=True)], schema=form)
