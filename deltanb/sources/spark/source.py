"""The data source ``deltanb``: Delta tables by ``spark.read.format("deltanb")`` and ``df.write``.

What lives here: :class:`DeltaDataSource`, which Spark asks for readers and writers, and :func:`register`.
``DefaultSource.java`` stands before it where a session has a JVM, and tells readers of filters and columns.
What it does not know: how rows are read and written (``sources/spark/read``, ``sources/spark/write``).

Spark makes and asks the source in Python processes of its own beside the driver, and pickles readers and
writers for its executors, which have deltanb installed, too. Errors of this library reach the caller as the
text of one of Spark's; :func:`translate_errors` turns them back.

``table.to_df()`` and ``table.append(df)`` are faster: there Spark's own Parquet reader and writer work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from deltanb.engines.spark.compiled import is_on_driver
from deltanb.engines.spark.refusals import error_in
from deltanb.engines.spark.session import spark as start_session
from deltanb.engines.spark.session_request import is_remote
from deltanb.errors import MissingDependency
from deltanb.sources.spark.options import ReadOptions, WriteOptions
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltanb.sources.spark.read import Source
    from deltanb.sources.spark.write import DeltaWriter

__all__ = ["NAME", "DeltaDataSource", "register", "translate_errors"]

NAME = "deltanb"
CLASS = "DefaultSource"
"""The class by whose name Spark finds a source ``deltanb`` before it looks for one in Python."""

TAKEN = "DATA_SOURCE_ALREADY_EXISTS"
"""What Spark says of a name for which it finds a class."""

logger = get_logger("deltanb.spark")


class DeltaDataSource(DataSource):
    """Delta tables for Spark, under the name ``deltanb``.

    A frame stays at the version that was the newest when it was made. Only columns that a query needs are
    read, and its filters leave out files and row groups; ``.option("where", …)`` and ``.schema("id long")``
    do so, too, and are the only ways in a session of Spark Connect, which tells a source of neither. Where
    there is no table, a write or a stream creates it.

    Options are those of Delta Spark's readers, writers and streams, and a few more: ``option_table`` lists
    them, and what of Spark's API does not reach a source in Python, such as ``.mode("ignore")`` and
    ``.partitionBy()``, with the option that takes its place.

    Names of Spark's own catalog cannot be tables of this format: Spark does not tell the path of a named
    table when it is read. :func:`register` gives names that follow their tables. ``CREATE TEMPORARY VIEW name
    USING deltanb OPTIONS (path '…')`` names one at the version of that moment, as any frame.

    Other options say how to get to a bucket, as deltalake spells them (``aws_region``). They travel to the
    executors; what they leave out comes from the environment there.

    >>> import deltanb as dn
    >>> spark = dn.spark()                                                            # doctest: +SKIP
    >>> frame = spark.read.format("deltanb").option("versionAsOf", 3).load("lake/flights")   # doctest: +SKIP
    >>> frame.write.format("deltanb").mode("append").save("lake/copy")                # doctest: +SKIP
    """

    _read: Source | None = None

    def __init__(self, options: dict[str, str]) -> None:
        if find_spec("pyspark.sql.streaming.datasource") is None:  # as before 4.2
            raise MissingDependency(
                "format('deltanb') needs PySpark 4.2 or later: pip install -U pyspark; table.to_df() and "
                "table.append(frame) work with 4.0 and 4.1, too", extra="spark")
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """By which Spark finds it."""
        return NAME

    def schema(self) -> StructType:
        """The columns of what is read, at the version that the frame will stand at."""
        from deltanb.sources.spark.stream import is_stream, stream_schema

        if is_stream(self.options):
            return stream_schema(self.options)
        return self._source().schema()

    def reader(self, schema: StructType) -> Any:
        """The rows, with these columns."""
        return self._source().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DeltaWriter:
        """The write of rows with these columns."""
        from deltanb.sources.spark.write import writer

        return writer(WriteOptions.of(self.options, overwrite), schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:
        """The stream of rows, with these columns."""
        from deltanb.sources.spark.stream import stream_reader

        return stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """The write of a stream of rows with these columns."""
        from deltanb.sources.spark.stream import stream_writer

        return stream_writer(self.options, schema, overwrite)

    def _source(self) -> Source:
        if self._read is None:
            from deltanb.sources.spark.read import source

            self._read = source(ReadOptions.of(self.options))
        return self._read


def register(spark: SparkSession | None = None, tables: Mapping[str, Any] | None = None) -> None:
    """Let a session read and write ``format("deltanb")``, and name tables in its SQL.

    After it, ``deltanb.`lake/flights``` is a table in SQL, ``spark.table`` and ``writeTo``, with ``VERSION AS
    OF`` and ``TIMESTAMP AS OF``; ``SELECT``, ``INSERT INTO`` and ``INSERT OVERWRITE`` work. For that the
    session gets the setting ``spark.sql.catalog.deltanb``; a session of Spark Connect does without.

    Args:
        spark: the session; the running one, or a new local one, unless given. Those of :func:`deltanb.spark`
            have ``format("deltanb")`` already.
        tables: names for tables, or for their paths: each becomes a temporary view of the session. A view
            reads the newest version with each query, one version in all of the query, and keeps its columns
            until it is registered again. A table that stands at a version is read there.

    Raises:
        InvalidArgument: a table that is in this process alone, or was opened with credentials.
        IllegalStateError: ``tables`` in a session of Spark Connect, whose views stand at a version.

    >>> import deltanb as dn
    >>> dn.spark.register(session, {"flights": "lake/flights"})                        # doctest: +SKIP
    >>> session.sql("SELECT count(*) FROM flights").show()                             # doctest: +SKIP
    """
    session = start_session() if spark is None else spark
    register_format(session)
    from deltanb.sources.spark.names import add_catalog, add_views

    add_catalog(session)
    add_views(session, tables or {})


def register_format(session: SparkSession) -> None:
    """Let a session read and write ``format("deltanb")``; where it has a JVM, by filters and columns."""
    try:
        session.dataSource.register(DeltaDataSource)
    except PySparkException as error:
        if error.getCondition() != TAKEN or is_remote(session):
            raise
        _register_beside_class(session)
    if not is_on_driver(session, CLASS):
        logger.info('format("deltanb") reads all columns, and files that a query\'s filters could leave out: '
                    "the session has no JVM in reach, or one of another Spark")


def _register_beside_class(session: SparkSession) -> None:
    """Register the source where the JVM has our class from a session before.

    Spark refuses a name for which it finds a class; its registry of the session, which ours asks, does not.
    """
    from pyspark.sql.udf import _wrap_function  # as DataSourceRegistration.register does it

    jvm: Any = session.sparkContext._jvm
    source = jvm.org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource(
        _wrap_function(session.sparkContext, DeltaDataSource))
    session._jsparkSession.sessionState().dataSourceManager().registerDataSource(NAME, source)


# --- errors ---------------------------------------------------------------------------------------

@contextmanager
def translate_errors() -> Iterator[None]:
    """An error of this library, raised in a process of Spark's, is one of its own class again here.

    It has the message; the attributes beside it stayed there.

    >>> from pyspark.errors import PySparkException
    >>> with translate_errors():
    ...     raise PySparkException("Traceback ...\\ndeltanb.errors.TableNotFound: no table at lake/x\\n")
    Traceback (most recent call last):
        ...
    deltanb.errors.TableNotFound: no table at lake/x
    """
    try:
        yield
    except PySparkException as error:
        ours = error_in(error)
        if ours is None:
            raise
        raise ours from None
