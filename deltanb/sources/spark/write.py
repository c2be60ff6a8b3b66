"""Writing by the data source: planned on the driver, rows written by tasks, one commit of all of them.

What lives here: :func:`writer`, and the writer that Spark sends to its executors and asks to commit.
What it does not know: options as texts, how rows become files (``executors``), how a commit goes
(``commands/rows/two_phase_write``).

Each task removes its files if it fails, or if the write has ended before they are whole. Where one was
killed, and another attempt did its work again, the driver removes what the first one left; of a job that
fails it removes all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deltanb.commands.define.clustering import logical_columns
from deltanb.commands.rows.match import Match, match_of
from deltanb.commands.rows.two_phase_write import PlannedWrite, commit_planned, planned
from deltanb.commands.rows.write import WriteOptions as Options
from deltanb.engines.spark.executors import Place, WritePlan, begun, ended, write_files
from deltanb.errors import InvalidArgument, SchemaMismatch, TableAlreadyExists, TableNotFound
from deltanb.schema.paths import parse_path, quoted
from deltanb.schema.types import StructType
from deltanb.sql import syntax
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from deltanb.actions import AddFile
    from deltanb.engines.arrow.prewritten import Target
    from deltanb.sources.spark.options import WriteOptions

__all__ = ["DeltaWriter", "Wrote", "check_layout", "files_of", "in_words_of_spark", "without_alias",
           "writer"]

OVERWRITE = '.mode("overwrite")'
_WORDS = {
    "overwrite(..., overwrite_schema=True, partition_by=[...])":
        '.mode("overwrite").option("overwriteSchema", "true").option("partitionBy", "[...]")',
    "overwrite(..., overwrite_schema=True)": '.mode("overwrite").option("overwriteSchema", "true")',
    "overwrite_schema=True, partition_by=[]":
        '.option("overwriteSchema", "true").option("partitionBy", "[]")',
    "merge_schema=True": '.option("mergeSchema", "true")',
    "overwrite_schema=True": '.option("overwriteSchema", "true")',
    "pass partition_by=[...] with columns that are":
        'give .option("partitionBy", "a,b") with columns that are, or .option("partitionBy", "[]") for none',
    "partition_overwrite='dynamic'": '.option("partitionOverwriteMode", "dynamic")',
    "without partition_overwrite,": "without partitionOverwriteMode,",
    "data_change=False": '.option("dataChange", "false")',
    "replace_on": "replaceOn",
    "replace_using": "replaceUsing",
    "without where,": "without replaceWhere,",
    "where and .option": '.option("replaceWhere", …) and .option',
}
"""What an error says of arguments of this library, and what a writer of Spark's has for it; in this order."""


@dataclass
class Wrote(WriterCommitMessage):
    """What a task tells the driver: of which write it is, the files it wrote, and of a stream the query's id.

    The first one tells ``target``, what the files are written for.
    ``is_only`` is False where another attempt of the task may have written files, too.
    """

    write: str = ""
    files: tuple[AddFile, ...] = ()
    is_only: bool = True
    query: str | None = None
    target: Target | None = None

    @classmethod
    def of(cls, plan: WritePlan, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        """What the task tells that runs here, having written its rows."""
        files = write_files(plan, iterator)
        task = TaskContext.get()
        if task is None:
            return cls(plan.name, tuple(files), target=plan.target)
        ask = task.getLocalProperty  # settings of the session among them
        return cls(plan.name, tuple(files), not (task.attemptNumber() or ask("spark.speculation") == "true"),
                   ask("sql.streaming.queryId"), None if task.partitionId() else plan.target)


class DeltaWriter(DataSourceArrowWriter):
    """A write: the driver's plan, the work of a task, and the commit. Without plans nothing is to be done."""

    def __init__(self, planned_write: PlannedWrite | None, plan: WritePlan | None) -> None:
        self.planned, self.plan = planned_write, plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task as files; on an executor."""
        if self.plan is None:
            return Wrote()
        return Wrote.of(self.plan, iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        """Commit what the tasks wrote, as one transaction; on the driver."""
        if self.planned is None or self.plan is None:
            return
        log = DeltaLog.for_table(self.plan.place.opened())
        commit_planned(log, self.planned, files_of(self.plan, messages))

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove what the tasks wrote; on the driver.

        Where all tasks have ended well, the commit has failed and has removed the files itself, unless nobody
        knows whether it landed: then they may belong to the table.
        """
        if self.plan is not None and None in messages:
            ended(self.plan)


def files_of(plan: WritePlan, messages: Sequence[Any]) -> list[AddFile]:
    """The files of a write whose tasks have all ended well; it is ended.

    What attempts have left that nobody waited for is removed.
    """
    wrote = [message for message in messages if message is not None]
    files = [file for each in wrote for file in each.files]
    ended(plan, [file.path for file in files], look=not all(each.is_only for each in wrote))
    return files


def writer(options: WriteOptions, schema: T.StructType, overwrite: bool) -> DeltaWriter:
    """Begin a write of rows with some columns.

    Raises:
        TableAlreadyExists: there is a table, and ``saveMode`` says that there must be none.
        SchemaMismatch, InvalidArgument, …: what cannot be written is refused before any task begins.
    """
    place = Place.at(options.path, options.storage_options)
    log = DeltaLog.for_table(place.store)
    exists = log.update().version >= 0
    if exists and options.save_mode == "ignore":
        return DeltaWriter(None, None)
    if exists and options.save_mode.startswith("error"):
        raise TableAlreadyExists(
            f"there is a table at {log.path} already; write with saveMode append, or ignore", path=log.path)
    if not options.overwrite_schema:
        check_layout(log, options.partition_by, options.cluster_by)
    with in_words_of_spark():
        return _planned(place, log, options, schema, overwrite)


def _planned(
    place: Place, log: DeltaLog, options: WriteOptions, schema: T.StructType, overwrite: bool
) -> DeltaWriter:
    columns, exists = StructType.from_json(schema.json()), log.snapshot.version >= 0
    where = options.where
    if where is not None and options.target_alias is not None and exists:
        where = without_alias(where, options.target_alias, log.snapshot.schema)
    match = match_of(options.replace_on, options.replace_using, options.target_alias or "target")
    if match is not None and match.on is not None:
        names = [*columns.names, *(log.snapshot.schema.names if exists else ())]
        match = _with_source_alias(match, match.on, names)
    write_options = Options(
        "Overwrite" if overwrite else "Append", options.merge_schema, options.overwrite_schema, where,
        options.partition_overwrite, (options.partition_by or ()) if options.overwrite_schema else None,
        options.txn, options.user_metadata, options.file_options, match=match,
        data_change=options.data_change,
        cluster_by=options.cluster_by if options.overwrite_schema else ())
    made = planned(
        log, columns, write_options, options.partition_by or (), options.properties, options.cluster_by)
    return DeltaWriter(made, None if made.target is None else begun(place, made.target))


def _with_source_alias(match: Match, on: str, columns: Sequence[str]) -> Match:
    """The condition with the name that it calls the frame: Spark does not pass on the frame's alias.

    Raises:
        InvalidArgument: several names could be it.
    """
    known = {match.target_alias.lower(), *map(str.lower, columns)}
    others = {column.parts[0].name.lower(): column.parts[0].name for column in syntax.columns(on)
              if len(column.parts) > 1 and column.parts[0].name.lower() not in known}
    if len(others) > 1:
        raise InvalidArgument(
            f'option "replaceOn" of format("deltanb"), {on!r}, calls tables {" and ".join(others.values())}; '
            'say which one is the table: .option("targetAlias", …)')
    return replace(match, source_alias=next(iter(others.values()), match.source_alias))


def without_alias(sql: str, alias: str, schema: StructType) -> str:
    """A condition on a table without the alias of the table before its columns.

    >>> from deltanb.schema.ddl import parse_schema
    >>> without_alias("t.id = 1 AND p > 't.id'", "T", parse_schema("id int, p string"))
    "id = 1 AND p > 't.id'"
    >>> without_alias("`t.x`.id = 1", "t.x", parse_schema("id int"))
    'id = 1'
    """
    if schema.get(alias) is not None:
        return sql
    names = [column.parts[0].meta for column in syntax.columns(sql)
             if len(column.parts) > 1 and column.parts[0].name.lower() == alias.lower()
             and syntax.place_of(column) is not None]
    for name in sorted(names, key=itemgetter("start"), reverse=True):
        sql = sql[:name["start"]] + sql[sql.index(".", name["end"] + 1) + 1:]
    return sql


def check_layout(log: DeltaLog, partition_by: Sequence[str] | None, cluster_by: Sequence[str]) -> None:
    """Refuse columns by which a table that exists is not partitioned or clustered.

    Raises:
        InvalidArgument: naming both.
    """
    if log.snapshot.version < 0:
        return
    if partition_by is not None:
        _check_partitions(log, partition_by)
    if cluster_by:
        _check_clustering(log, cluster_by)


def _check_clustering(log: DeltaLog, expected: Sequence[str]) -> None:
    columns = logical_columns(log.snapshot)
    if [_folded(parse_path(name)) for name in expected] != [_folded(path) for path in columns]:
        raise InvalidArgument(
            f"{log.path} is clustered by {', '.join(map(quoted, columns)) or 'nothing'}, not by "
            f"{', '.join(expected)}; leave it out, or change the table by table.cluster_by([…])",
            path=log.path)


def _folded(path: Sequence[str]) -> list[str]:
    return [name.lower() for name in path]


def _check_partitions(log: DeltaLog, expected: Sequence[str]) -> None:
    columns = log.snapshot.partition_columns
    if _folded(expected) != _folded(columns):
        raise InvalidArgument(
            f"{log.path} is partitioned by {', '.join(columns) or 'nothing'}, not by {', '.join(expected)}; "
            'leave it out, or change the table by .mode("overwrite").option("overwriteSchema", "true")'
            f'.option("partitionBy", {json.dumps(list(expected))!r})', path=log.path)


@contextmanager
def in_words_of_spark(overwriting: str = OVERWRITE) -> Iterator[None]:
    """A block whose errors say what can be done as options of Spark's writers.

    Args:
        overwriting: how a writer is asked to replace all rows.
    """
    try:
        yield
    except (SchemaMismatch, InvalidArgument, TableNotFound) as error:
        text = error.message
        for ours, theirs in _WORDS.items():
            text = text.replace(ours, theirs)
        text = text.replace(OVERWRITE, overwriting)
        raise type(error)(text, **error.data) from None
