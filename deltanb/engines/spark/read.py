"""The rows of a snapshot as a Spark DataFrame, over Spark's own Parquet reader.

What lives here: reading rows or positions of rows, with conditions.
What it does not know: how files become frames (``plans.py``), which of them to read
(``log/skipping/prune.py``), transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from deltanb.engines.arrow import read as in_process
from deltanb.engines.spark.columns import column
from deltanb.engines.spark.plans import PATH, ROW, Reader
from deltanb.engines.spark.refusals import refusals
from deltanb.engines.spark.session import spark as start_session
from deltanb.errors import UnsupportedPredicate
from deltanb.sql.predicates import parse_condition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Condition


def read_table(
    snapshot: Snapshot,
    files: pa.Table | None = None,
    spark: SparkSession | None = None,
    columns: Sequence[str] | None = None,
    where: str | Condition | None = None,
    *, row_ids: bool = False,
) -> DataFrame:
    """The rows of ``files`` as a DataFrame with the snapshot's logical schema.

    Arguments are as for :func:`deltanb.engines.arrow.read.read_table`, but without ``files``, all that may
    hold rows for ``where`` are read, and ``where`` may also be SQL that only Spark understands. Without
    ``spark``, the running session is used, or a local one is started. The frame holds the paths, so it stays
    at this version.

    Raises:
        DataFileNotFound: a file that is gone.
        UnsupportedProtocol: a feature or a requested column is not supported.
        InvalidArgument, InvalidPredicate: from ``columns`` and ``where``.
        MissingDependency: PySpark or Java is missing.

    >>> read_table(table.log.snapshot, where="id > 1").count()                  # doctest: +SKIP
    2
    """
    condition = parse_condition(where, snapshot.schema)
    names = [f.name for f in in_process.plan(snapshot, columns, row_ids=row_ids).columns]
    # Which columns Spark needs for what it alone understands is not known.
    scan = in_process.plan(snapshot, columns if condition.reason is None else None, condition.predicate,
                           row_ids=row_ids)
    if files is None and condition.sql is not None:
        files = snapshot.files_for_scan(*condition.parts)
    session = spark if spark is not None else start_session()
    frame = Reader(snapshot, scan, session).frame(files)
    if condition.sql is not None:
        frame = filtered(frame, condition.sql)
    return frame.select(*(column(name) for name in names))


def read_positions(
    snapshot: Snapshot, files: pa.Table, where: str, spark: SparkSession | None = None
) -> tuple[DataFrame | None, dict[int | str, int], list[int]]:
    """The (path, position in the file) of each row that satisfies a condition, including deleted rows.

    Returns:
        A frame of the columns :data:`PATH` (the file, by a name for this frame) and :data:`ROW`; the place in
        ``files`` of each such name; and the places of files that Spark cannot read, which are not in the
        frame.

    Raises:
        InvalidPredicate: Spark cannot evaluate ``where``.
        DataFileNotFound: a file that is gone.
    """
    try:
        scan = in_process.plan(snapshot, [], where)
    except UnsupportedPredicate:
        scan = in_process.plan(snapshot)
    session = spark if spark is not None else start_session()
    reader = Reader(snapshot, scan, session)
    groups = reader.groups(files)
    group = [*groups.listed, *groups.plain, *groups.hive, *groups.joined, *groups.vectors]
    places = {reader.name_of(file): file.place for file in group}
    if not group:
        return None, places, groups.process
    with reader.planning():
        frame = reader.positioned(group, files)
    return filtered(frame, where).select(PATH, ROW), places, groups.process


def read_rows(
    snapshot: Snapshot, files: pa.Table, spark: SparkSession | None = None, *, row_ids: bool = False
) -> tuple[DataFrame, dict[int | str, int]]:
    """The live rows of the files with their places, :data:`PATH` and :data:`ROW`.

    ``row_ids`` adds each row's id and commit version, if the table tracks rows.

    Returns:
        The frame, and the place in ``files`` of each file's name in it.

    Raises:
        DataFileNotFound: a file that is gone.
    """
    session = spark if spark is not None else start_session()
    reader = Reader(snapshot, in_process.plan(snapshot, row_ids=row_ids), session)
    groups = reader.groups(files)
    whole = [*groups.listed, *groups.plain, *groups.hive, *groups.joined]
    places = {reader.name_of(file): file.place for file in (*whole, *groups.vectors)}
    frames = []
    with reader.planning():
        if whole:
            frames.append(reader.positioned(whole, files))
        if groups.vectors:
            frames.append(reader.without_deleted(groups.vectors, files, (PATH, ROW)))
    if groups.process or not frames:
        frames.append(reader.positioned_in_process(groups.process, files))
        places.update({reader.name_of_unread(place): place for place in groups.process})
    return reduce(lambda one, other: one.union(other), frames), places


def filtered(frame: DataFrame, where: str) -> DataFrame:
    """The rows for which a condition is TRUE.

    Raises:
        InvalidPredicate: Spark cannot evaluate it.
    """
    with refusals(f"evaluate {where!r}", where):
        return frame.filter(where)
