"""Reading by the data source: a version of a table, or its changes, divided among Spark's tasks.

What lives here: :func:`source`, the columns of what is read, and the readers that Spark sends to executors.
What it does not know: options as texts, how a file is read.

A reader is made on the driver and plans there; executors get files by name and what to ask of them, and
open the store themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from deltanb.commands.read.changes import plan_changes
from deltanb.engines.arrow.data_file import Scan, plan
from deltanb.engines.spark.columns import spark_schema
from deltanb.engines.spark.executors import Place, files_as_dicts, parts, read_files
from deltanb.errors import InvalidArgument, SchemaMismatch
from deltanb.schema.types import StructType
from deltanb.sources.spark.filters import condition_of
from deltanb.sources.spark.tasks import Task, changes_as_tasks, in_form, read_changes
from deltanb.table.table import DeltaTable
from deltanb.text.formatting import did_you_mean

if TYPE_CHECKING:
    from deltanb.sources.spark.options import ReadOptions

__all__ = ["DeltaReader", "Source", "source"]

MARK = "deltanb.filtered"
"""In the metadata of a column that ``DefaultSource.java`` asks for: filters of the query follow."""


class Source:
    """What is read: the options, and the version that stands for the newest, found once."""

    def __init__(self, options: ReadOptions, version: int) -> None:
        self.options, self.version = options, version

    @cached_property
    def table(self) -> DeltaTable:
        """The table at the version; opened where it is needed, since a stream has the frame's and no more."""
        return DeltaTable.for_path(self.options.path, self.version,
                                   storage_options=self.options.storage_options or None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the table, which another process opens anew where it needs one."""
        return Source, (self.options, self.version)

    def schema(self) -> T.StructType:
        """The columns."""
        return spark_schema(StructType(self.scan().columns))

    def scan(self, columns: list[str] | None = None) -> Scan:
        """What is asked of each file."""
        if self.options.changes:
            return self.changes(columns)[0]
        return plan(self.table.snapshot, columns, self.options.where)

    def changes(self, columns: list[str] | None) -> tuple[Scan, list[Any]]:
        """What is asked of each changed file, and these files."""
        return plan_changes(self.table.log, self.options.start, self.options.end, columns=columns,
                            where=self.options.where, newest=self.table.snapshot)

    def reader(self, schema: T.StructType) -> DeltaReader:
        """A reader of some columns.

        Raises:
            InvalidArgument, SchemaMismatch: columns that the table does not have, or has with other types.
        """
        known = {field.name.lower(): field for field in self.schema().fields}
        for asked in schema.fields:
            column = known.get(asked.name.lower())
            if column is None:
                hint, _ = did_you_mean(asked.name, [field.name for field in known.values()])
                raise InvalidArgument(f"{self.options.path} has no column {asked.name!r}; {hint}",
                                      column=asked.name)
            if column.dataType != asked.dataType:
                line = f"~ {asked.name}: {asked.dataType.simpleString()}, " \
                       f"in the table {column.dataType.simpleString()}"
                raise SchemaMismatch(
                    f"the schema that is asked for does not fit {self.options.path}\n  {line}\nLeave the "
                    "types to the table, and cast the columns of the frame", differences=[line])
        is_filtered = any(MARK in asked.metadata for asked in schema.fields)
        return _FilteredReader(self, schema) if is_filtered else DeltaReader(self, schema)

    def where(self, condition: str) -> Source:
        """What is read with one more condition, of the same table, which stays open."""
        own = self.options.where
        both = condition if own is None else f"({own}) AND {condition}"
        narrowed = Source(replace(self.options, where=both), self.version)
        narrowed.table = self.table
        return narrowed


def source(options: ReadOptions) -> Source:
    """What is read by some options, as of now.

    Raises:
        TableNotFound, VersionNotFound: there is no such table, or no such version.
    """
    table = DeltaTable.for_path(options.path, options.version, options.timestamp,
                                storage_options=options.storage_options or None)
    return Source(options, table.version)


class DeltaReader(DataSourceReader):
    """Reads rows: planned on the driver, read on executors."""

    # It takes no filters by itself: up to 4.3, Spark keeps what a reader is after its filters with the frame
    # that was loaded, and uses it for other queries on that frame, which then lack rows.

    def __init__(self, source: Source, schema: T.StructType) -> None:
        self.source, self.schema = source, schema

    def __reduce__(self) -> tuple[Any, ...]:
        """As executors get it; PySpark sends it, and then asks for its tasks."""
        options, (scan, _) = self.source.options, self._planned
        read = read_changes if options.changes else read_files
        return _TaskReader, (Place(scan.store, options.storage_options), scan, read,
                             to_arrow_schema(self.schema, timezone="UTC"))

    def partitions(self) -> list[InputPartition]:
        """What each task reads; on the driver."""
        scan, changed = self._planned
        if changed is not None:
            return [*changes_as_tasks(changed)] or [Task([])]
        where = self.source.options.where
        files = self.source.table.snapshot.files_for_scan(*(() if where is None else (where,)))
        return [*map(Task, parts(files_as_dicts(files, scan)))] or [Task([])]

    @cached_property
    def _planned(self) -> tuple[Scan, list[Any] | None]:
        """What is asked of each file, and the changed ones where it is the change feed; found once."""
        columns = self.schema.fieldNames()
        return self.source.changes(columns) if self.source.options.changes else (
            self.source.scan(columns), None)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task; only executors read."""
        raise NotImplementedError


class _FilteredReader(DeltaReader):
    """A reader for one query, which leaves out files and row groups by its filters.

    ``DefaultSource.java`` asks for one, and keeps what is planned by it away from other queries.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of filters; Spark evaluates all of them after the read, too."""
        if not self.source.options.changes:
            condition = condition_of(filters, self.source.table.snapshot.schema)
            if condition is not None:
                self.source = self.source.where(condition)
        return filters


class _TaskReader(DataSourceReader):
    """A reader on an executor: where the files are, and what is asked of each."""

    def __init__(self, place: Place, scan: Scan, read: Any, form: pa.Schema) -> None:
        self.place, self.scan, self.rows, self.form = place, scan, read, form

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task as Arrow batches in Spark's form, none of them empty."""
        assert isinstance(partition, Task)
        for batch in self.rows(self.place, self.scan, partition.files):
            # By name, since the change feed has columns of its own, also where they are not asked for.
            columns = {name.lower(): column for name, column in zip(
                batch.schema.names, batch.columns, strict=True)}
            yield in_form((columns[name.lower()] for name in self.form.names), self.form)
