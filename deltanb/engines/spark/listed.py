"""Lists of files for Spark's planner, from the log, so that Spark lists nothing itself.

What lives here: a relation over files with known names, sizes and values, made of Spark's own classes and one
small class of ours, ``LoggedFiles.java``, which is compiled in its JVM once per process (``compiled``). It
uses more than PySpark's API; if it cannot (a Connect session has no JVM, another Spark may have other
classes), only time is lost.
What it does not know: tables, logs, which files to read.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.sql import types as T

from deltanb.engines.spark.columns import arrow_frame
from deltanb.engines.spark.compiled import compiled, source
from deltanb.engines.spark.session_request import is_remote
from deltanb.errors import warn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE_FIELDS = {"path": T.StringType(), "size": T.LongType(), "modified": T.LongType()}
"""Of a list of files, the columns that are not values."""

_classes: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def is_possible(session: SparkSession) -> bool:
    """Whether this session can take a list of files."""
    return _index_class(session) is not None


def table_of(
    paths: Sequence[str], sizes: Sequence[int], modified: Sequence[int], values: Sequence[Any],
) -> pa.Table:
    """A list of local files for :func:`file_list`: sizes in bytes, times in ms since 1970.

    The values are Arrow's.
    """
    columns = [pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), pa.array(modified, pa.int64())]
    return pa.table([*columns, *values], names=[*_FILE_FIELDS, *(f"value{i}" for i in range(len(values)))])


STATISTICS = "statistics"
"""In the metadata of a column: its name in the statistics of files."""


class FileList(NamedTuple):
    """A list in the session's JVM, which frames can share."""

    index: Any
    values: Any
    """Names and types of the files' values, Spark's own."""


def file_list(
    session: SparkSession, root: str, version: int, files: pa.Table, values: T.StructType,
    described: T.StructType, stats: pa.ChunkedArray | None = None,
) -> FileList:
    """A list of Parquet files for Spark, if :func:`is_possible`. No file is touched.

    Args:
        root: the folder shown for them in plans, in Spark's spelling.
        version: of which they are the files, for who asks (``explain``).
        files: the list, from :func:`table_of`.
        values: the columns that are constant within a file; filters on them skip files.
        described: the columns whose statistics skip files, too: numbers, dates, times, and texts that Spark
            compares byte by byte. :data:`STATISTICS` in their metadata is their name in the statistics.
        stats: the statistics of the files as JSON from the log. They stay on the disk of the driver until a
            filter asks for a column, so that their number costs its JVM no memory.
    """
    types = [*_FILE_FIELDS.values(), *(f.dataType for f in values.fields)]
    known = T.StructType([T.StructField(name, kind)
                          for name, kind in zip(files.column_names, types, strict=True)])
    # A local relation: its rows are in the driver as the planner's own.
    rows = arrow_frame(session, files, known)._jdf.queryExecution().executedPlan().executeCollect()
    by_file, by_row = (session._jsparkSession.parseDataType(some.json()) for some in (values, described))
    with _on_disk(stats) as texts:
        index = _new(session._jvm, _index_class(session), root, version, by_file, by_row, rows, texts)
    return FileList(index, by_file)


@contextmanager
def _on_disk(stats: pa.ChunkedArray | None) -> Iterator[str | None]:
    """The name of a file with statistics: the length of each (-1: none), then all texts; None without any.

    The JVM opens it within the block and keeps it open, so its name can go at the end.
    """
    if stats is None or stats.null_count == len(stats):
        yield None
        return
    try:
        path = _written(stats)
    except OSError as error:
        warn(f"Spark reads files that it could skip: their statistics do not fit into the temporary folder "
             f"({error}); set TMPDIR to a folder with room", UserWarning)
        yield None
        return
    try:
        yield path
    finally:
        with suppress(PermissionError):  # Windows keeps the name of what is open
            os.unlink(path)


def _written(stats: pa.ChunkedArray) -> str:
    texts = stats.cast(pa.large_string())
    lengths = pc.fill_null(pc.binary_length(texts), -1).cast(pa.int32())
    handle, path = tempfile.mkstemp(prefix="deltanb-statistics-")
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in lengths.chunks:
                file.write(chunk.to_numpy().astype("<i4").tobytes())
            for chunk in pc.drop_null(texts).chunks:
                if len(chunk):
                    _, offsets, data = chunk.buffers()
                    places = memoryview(offsets).cast("q")
                    file.write(memoryview(data)[places[chunk.offset]:places[chunk.offset + len(chunk)]])
    except BaseException:
        os.unlink(path)
        raise
    return path


def frame(
    session: SparkSession, files: FileList, schema: T.StructType, options: Mapping[str, str]
) -> DataFrame:
    """The rows of listed files with each file's values. No file is touched and no job is run.

    Args:
        schema: the columns to read from the files.
        options: options of Spark's Parquet reader.
    """
    from pyspark.sql import DataFrame

    jvm, spark = session._jvm, session._jsparkSession
    parameters = jvm.java.util.HashMap()
    for key, value in options.items():
        parameters.put(key, value)
    sources = jvm.org.apache.spark.sql.execution.datasources
    relation = sources.HadoopFsRelation(
        files.index, files.values, spark.parseDataType(schema.json()), jvm.scala.Option.empty(),
        sources.parquet.ParquetFileFormat(), jvm.PythonUtils.toScalaMap(parameters), spark)
    return DataFrame(spark.baseRelationToDataFrame(relation), session)


def _index_class(session: SparkSession) -> Any:
    """The compiled class, or None if it cannot be compiled."""
    if is_remote(session):
        return None
    gateway = session.sparkContext._gateway
    if gateway not in _classes:
        try:
            _classes[gateway] = compiled(
                session, source("LoggedFiles"), "LoggedFiles").getDeclaredConstructors()[0]
        except (Py4JError, TypeError):  # TypeError: a class that is not there is a package to Py4J
            _classes[gateway] = None
    return _classes[gateway]


def _new(jvm: Any, constructor: Any, *arguments: Any) -> Any:
    array_list = jvm.java.util.ArrayList()
    for argument in arguments:
        array_list.add(argument)
    return constructor.newInstance(array_list.toArray())
