"""Queries on DuckDB: tables are streams of Arrow's that are begun when DuckDB asks for them.

What lives here: :data:`DUCKDB`, the engine.
What it does not know: which files may be left out (``pushed``), what names stand for (``names``).

Each query has a database of its own, in memory and in UTC, that is closed when its rows are there. Files are
read in this process, and rows that conditions on one table leave out never reach DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.engines.arrow import read
from deltanb.errors import DeltaError, InvalidQuery, MissingDependency
from deltanb.query.result import Read
from deltanb.query.run import Answer, Engine, Source
from deltanb.table.table import lazily

if TYPE_CHECKING:
    from deltanb.engines.arrow.data_file import Scan

SETTINGS = ("SET TimeZone = 'UTC'", "SET python_enable_replacements = false")
"""Times mean what they mean in Delta; names that are not registered are not sought among our variables."""

SPENT = "already released"
"""What DuckDB before 2.0 says where it reads a stream a second time, as of a WITH that is named twice. The
rows are then given as a table."""

_NO_COLUMN = re.compile(r'Referenced column "(.+?)" not found')
_TEXT = re.compile(r"'[^']*'")


class _Stream:
    """The rows of a table, from the beginning for whoever asks: DuckDB may read a table several times."""

    def __init__(self, source: Source) -> None:
        assert source.snapshot is not None
        self._files = source.files
        self._scan: Scan = read.plan(source.snapshot, source.columns, source.where)
        self.failure: BaseException | None = None
        self.begun = self.drained = 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._scan.schema, lazily(self._batches))
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        self.begun += 1
        try:
            yield from read.stream(self._scan, self._files)
        except Exception as error:
            self.failure = error
            raise
        self.drained += 1

    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(list(self._batches()), self._scan.schema)

    @property
    def read(self) -> Read:
        """How much DuckDB asked for."""
        if not self.begun:
            return "none"
        return "part" if self.begun > self.drained else "whole"


def run(sql: str, sources: list[Source], values: Mapping[str, Any]) -> Answer:
    """The rows of a query.

    Raises:
        MissingDependency: there is no duckdb.
        InvalidQuery: DuckDB refuses the query; its reason is in the message.
        DeltaError: a table cannot be read.
    """
    duckdb = _duckdb()
    streams = {source.name: _Stream(source) for source in sources if source.rows is None}
    connection = duckdb.connect(":memory:")
    try:
        for setting in SETTINGS:
            connection.execute(setting)
        try:
            rows = _bound(connection, sql, sources, streams, values).to_arrow_table()
        except duckdb.InvalidInputException as error:
            if SPENT not in str(error):
                raise
            whole = {name: stream.table() for name, stream in streams.items()}
            rows = _bound(connection, sql, sources, whole, values).to_arrow_table()
    except duckdb.Error as error:
        for stream in streams.values():
            if isinstance(stream.failure, DeltaError):
                raise stream.failure from None
        if isinstance(error, duckdb.BinderException):
            error = _with_all_columns(connection, sql, sources, values) or error
        reason = _reason(error, sources) + _perhaps_text(error, sql)
        raise InvalidQuery(f"DuckDB refuses the query: {reason}", query=sql) from None
    finally:
        connection.close()
    return Answer(rows, {name: stream.read for name, stream in streams.items()})


def _bound(
    connection: Any, sql: str, sources: list[Source], streams: Mapping[str, Any], values: Mapping[str, Any],
) -> Any:
    """The query with its names and types found; nothing is read yet."""
    for source in sources:
        connection.register(source.name, streams.get(source.name, source.rows))
    return connection.sql(sql, params=dict(values)) if values else connection.sql(sql)


def _with_all_columns(
    connection: Any, sql: str, sources: list[Source], values: Mapping[str, Any]
) -> Exception | None:
    """What DuckDB says where it sees every column: it names the ones that are closest."""
    streams = {source.name: _Stream(replace(source, columns=None))
               for source in sources if source.rows is None}
    try:
        _bound(connection, sql, sources, streams, values)
    except _duckdb().Error as error:
        return error
    return None


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingDependency(
            "%%sql needs DuckDB: pip install duckdb; %%sql --spark asks Spark instead",
            extra="duckdb") from None
    return duckdb


def _reason(error: Exception, sources: list[Source]) -> str:
    """What DuckDB says, without the picture of the query, in which tables have names of our own."""
    lines = str(error).strip().split("\n")
    text = " ".join(line.strip() for line in lines if line.strip() and not line.startswith(("LINE ", " ")))
    for source in sources:
        text = text.replace(source.name, "a table of the query")
    return text


def _perhaps_text(error: Exception, sql: str) -> str:
    """How to write a text, where the query has in double quotes what is no column."""
    missing = _NO_COLUMN.search(str(error))
    if missing is None:
        return ""
    quoted = f'"{missing[1]}"'
    if not re.search(rf'(?<![\w".]){re.escape(quoted)}(?!["(.])', _TEXT.sub("", sql), re.IGNORECASE):
        return ""
    text = missing[1].replace('""', '"').replace("'", "''")
    return f". Double quotes enclose the name of a column; strings are in single quotes: '{text}'"


DUCKDB = Engine("DuckDB", "duckdb", run, reads_files=True)
