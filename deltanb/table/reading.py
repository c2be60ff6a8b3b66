"""Reading a table: its rows as Arrow, pandas, polars, DuckDB and Spark take them.

What lives here: :class:`ReadableTable`, the reading half of a table, which delegates.
What it does not know: how rows are found and decoded (``engines/arrow/read``), what commands do to a table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument, UnsupportedPredicate
from deltanb.sql.conditions import Where, text_of
from deltanb.text.display import Displayable
from deltanb.transaction import active

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    from deltanb.commands.read.feed import ChangeFeed
    from deltanb.log.skipping.explain import ScanExplanation
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

HEAD_ROWS = 5


class ReadableTable(Displayable):
    """The rows of a table: everything that takes Arrow's streams takes the table itself.

    >>> import deltanb as dn, pyarrow as pa
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
    >>> pa.table(table).num_rows, table.count("nephews > 0")
    (2, 1)
    >>> dn.create("pond", table).to_arrow(limit=1).to_pylist()
    [{'name': 'Donald', 'nephews': 3}]
    """

    log: DeltaLog
    """The table's :class:`~deltanb.transaction.delta_log.DeltaLog`."""
    _pinned: Snapshot | None

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table: the newest, or that of the version this table stands at."""
        return active.snapshot_of(self.log, self._pinned)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's, which is how other libraries read the table: ``pa.table(table)``,
        ``pl.DataFrame(table)``, ``duckdb.sql("FROM table")``."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows as an Arrow table, read in the process.

        Args:
            columns: top-level names, in the order wanted; all unless given.
            where: a condition in SQL, as an expression of pyarrow, or as a Column of PySpark; files that
                cannot hold such rows are not opened.
            limit: rows at most; reading stops there. Which ones is not defined.

        Raises:
            InvalidPredicate, UnsupportedPredicate: ``where`` cannot be understood, or not run here.

        >>> import deltanb as dn, pyarrow.compute as pc
        >>> table = dn.create("filtered", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
        >>> table.to_arrow(["name"], where=pc.field("nephews") > 0).to_pylist()
        [{'name': 'Donald'}]
        """
        from deltanb.engines.arrow.read import read_table

        where, limit = self._condition(where), _row_limit(limit)
        snapshot, files = self._files(where)
        return self._run_here(lambda: read_table(snapshot, files(), columns, where, limit=limit))

    def to_batches(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as a stream of batches, for tables larger than memory; arguments as in :meth:`to_arrow`.

        Data files are opened as the stream advances, and a bounded number of batches waits in memory. The
        stream stays at the version at which it was begun. Closing it stops the work.

        >>> import deltanb as dn
        >>> table = dn.create("streamed", {"nephews": [3, 0]})
        >>> with table.to_batches(where="nephews > 0") as batches:
        ...     sum(batch.num_rows for batch in batches)
        1
        """
        where, limit = self._condition(where), _row_limit(limit)
        return self._stream(*self._files(where), columns, where, limit)

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None, *, types_mapper: Callable[[Any], Any] | None = None,
        dtype_backend: str | None = None,
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Args:
            columns, where, limit: as in :meth:`to_arrow`.
            types_mapper: from a type of Arrow's to one of pandas', or None for the usual one.
            dtype_backend: ``"pyarrow"`` or ``"numpy_nullable"``, as pandas' own readers take it: integers
                stay integers where a value is missing.

        Raises:
            InvalidArgument: another backend, or one beside ``types_mapper``.
            MissingDependency: pandas is not installed.
        """
        from deltanb.engines.arrow.frames import to_pandas, types_for

        mapper = types_for(types_mapper, dtype_backend)
        return to_pandas(self.to_arrow(columns, where, limit), mapper)

    def head(self, n: int = HEAD_ROWS, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Some rows to look at, as a pandas DataFrame; no more is read than they take.

        Args:
            n: how many.
            columns: as in :meth:`to_arrow`.

        >>> import deltanb as dn
        >>> dn.create("seen", {"name": ["Donald", "Daisy"]}).head(1)
             name
        0  Donald
        """
        return self.to_pandas(columns, limit=n)

    def count(self, where: Where | None = None) -> int:
        """How many rows there are: by the statistics of the files, where these say it.

        Args:
            where: count the rows for which this condition is TRUE; as in :meth:`to_arrow`.

        Details and errors: :func:`deltanb.commands.read.count.count`.
        """
        from deltanb.commands.read.count import count, count_version

        where = self._condition(where)
        if where is None and not self._is_in_transaction():
            at = self.snapshot
            return self._run_here(lambda: count_version(at))
        snapshot, files = self._files(where)
        return self._run_here(lambda: count(snapshot, files(), where))

    def explain(self, where: Where | None = None) -> ScanExplanation:
        """Which files hold what a read of some rows needs, and why the others are not opened: by their
        partition values, by what generated columns imply, by their statistics.

        No data file is opened for it.

        Args:
            where: a condition as in :meth:`to_arrow`, or SQL that only Spark understands.

        Raises:
            InvalidPredicate: no SQL, or a column that the table does not have.

        >>> import deltanb as dn
        >>> table = dn.create("lakes", {"pond": ["a", "b"], "age": [3, 9]}, partition_by="pond")
        >>> told = table.explain("pond = 'b' AND age > 10")
        >>> [file.because for file in told.spared_files]
        ["pond is 'a'", 'age is 9 in every row']
        """
        from deltanb.log.skipping.explain import explain
        return explain(self.snapshot, self._condition(where))

    def to_dataset(self, where: Where | None = None) -> ds.Dataset:
        """The version as a dataset of pyarrow's, which reads no rows before it is scanned, and then only
        of files that may hold rows of its filter.

        Args:
            where: as in :meth:`to_arrow`; the dataset then has these rows alone.

        Raises:
            UnsupportedProtocol: Arrow would read it wrongly, because of deletion vectors, column mapping,
                changed types or variants; ``.features`` names which.

        >>> import deltanb as dn, pyarrow.compute as pc
        >>> table = dn.create("lazy", {"p": ["a", "b"], "id": [1, 2]}, partition_by="p")
        >>> table.to_dataset().to_table(filter=pc.field("p") == "b")["id"].to_pylist()
        [2]
        """
        from deltanb.engines.arrow.dataset import dataset
        from deltanb.sql.predicates import parse

        where = self._condition(where)
        snapshot, files = self._files(where)
        found = self._run_here(lambda: dataset(snapshot, files()))
        if where is None:
            return found
        condition = self._run_here(lambda: parse(where, snapshot.schema).to_expression(as_filter=True))
        return found.filter(condition)

    def to_polars(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> pl.LazyFrame:
        """The version as a lazy frame of polars. Nothing is read before it is collected, and then only the
        columns that it needs, of the files that may hold rows of ``where`` and of its own filters.

        Args:
            columns, where: as in :meth:`to_arrow`.

        Raises:
            MissingDependency: polars is not installed.
        """
        from deltanb.engines.arrow.frames import to_polars

        where = self._condition(where)
        snapshot, _ = self._files(where)
        return self._run_here(lambda: to_polars(snapshot, columns, where))

    def to_duckdb(
        self, columns: Sequence[str] | None = None, where: Where | None = None, connection: Any = None
    ) -> Any:
        """The version as a relation of DuckDB, which reads it when it is asked for rows.

        Files are left out by ``where``; without it and ``columns`` by DuckDB's own filters as well, where
        :meth:`to_dataset` is possible.

        Args:
            columns, where: as in :meth:`to_arrow`.
            connection: DuckDB's; its default one unless given.

        Raises:
            MissingDependency: DuckDB is not installed.
        """
        from deltanb.engines.arrow.frames import Rows, to_duckdb

        where = self._condition(where)
        snapshot, files = self._files(where)
        begin = partial(self._stream, snapshot, files, columns, where)
        begin().close()  # what is wrong with the arguments is said now
        return to_duckdb(snapshot, files, Rows(begin), columns is None and where is None, connection)

    def to_df(
        self, spark: Any = None, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Any:
        """The rows as a Spark DataFrame, read by Spark.

        Args:
            spark: the session; the active one, or a new local one, unless given.
            columns: as in :meth:`to_arrow`.
            where: as in :meth:`to_arrow`, or SQL that only Spark understands.
        """
        from deltanb.engines.spark.read import read_table

        where = self._condition(where)
        at = active.read_elsewhere(self.log, self._pinned, where) or self.snapshot
        return read_table(at, None, spark, columns=columns, where=where)

    def changes(
        self, start: int | str | dt.datetime | None = None, end: int | str | dt.datetime | None = None,
        columns: Sequence[str] | None = None, where: Where | None = None,
    ) -> ChangeFeed:
        """The change data feed of some versions, as :func:`deltanb.commands.read.changes.changes` has it: an
        Arrow table that shows updated rows as before → after.

        Without ``start`` it begins where the feed does: at the first version from which on it was recorded
        without a gap, and whose commits are still in the log.
        """
        from deltanb.commands.read.changes import changes
        from deltanb.commands.read.feed import ChangeFeed

        at = active.read_elsewhere(self.log, self._pinned) or self.snapshot
        found = changes(self.log, start, end, columns=columns, where=where, newest=at)
        return ChangeFeed(found, at.metadata.name or self.log.path, at.partition_columns)

    def changes_df(
        self, start: int | str | dt.datetime | None = None, end: int | str | dt.datetime | None = None,
        columns: Sequence[str] | None = None, where: Where | None = None, spark: Any = None,
    ) -> Any:
        """As :meth:`changes`, as a Spark DataFrame; the rows are read in this process first."""
        from deltanb.engines.spark.columns import arrow_frame
        from deltanb.engines.spark.session import spark as start_session

        session = start_session() if spark is None else spark
        return arrow_frame(session, self.changes(start, end, columns, where).to_arrow())

    # -- how ---------------------------------------------------------------------------------------

    def _condition(self, where: Where | None) -> str | None:
        """A condition as SQL, whatever it was given as."""
        return None if where is None else text_of(where, lambda: self.snapshot.schema)

    def _files(self, where: str | None) -> tuple[Snapshot, Callable[[], pa.Table]]:
        """The version to read, and its files that may hold rows.

        Files are listed when they are asked for: DuckDB begins three streams to read one. In an active
        transaction they are now, because it remembers what was read, and by whom.
        """
        if self._is_in_transaction():
            snapshot, files = self._run_here(lambda: active.scan(self.log, None, where))
            return snapshot, lambda: files
        at = self.snapshot
        return at, lambda: at.files_for_scan(*(() if where is None else (where,)))

    def _is_in_transaction(self) -> bool:
        return self._pinned is None and active.reading(self.log) is not None

    def _stream(
        self, snapshot: Snapshot, files: Callable[[], pa.Table], columns: Sequence[str] | None,
        where: str | None, limit: int | None = None,
    ) -> pa.RecordBatchReader:
        import pyarrow as pa

        from deltanb.engines.arrow.data_file import plan
        from deltanb.engines.arrow.read import stream

        scan = self._run_here(lambda: plan(snapshot, columns, where))
        batches = lazily(lambda: stream(scan, files(), limit))
        return pa.RecordBatchReader.from_batches(scan.schema, batches)

    @staticmethod
    def _run_here(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except UnsupportedPredicate as reason:
            raise reason.or_else("read with to_df(where=…), which lets Spark run it") from None


def _row_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not hasattr(limit, "__index__") or index(limit) < 0:
        raise InvalidArgument(f"a number of rows is 0 or more, found {limit!r}")
    return index(limit)


def lazily(
    begin: Callable[[], Generator[pa.RecordBatch, None, None]]
) -> Generator[pa.RecordBatch, None, None]:
    """A stream that begins when its first batch is asked for, under the settings of who asked for the stream:
    DuckDB takes batches in threads of its own."""
    settings = copy_context()

    def batches() -> Generator[pa.RecordBatch, None, None]:
        stream = settings.run(begin)
        try:
            while (batch := settings.run(next, stream, None)) is not None:
                yield batch
        finally:
            stream.close()

    return batches()
