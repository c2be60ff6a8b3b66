"""The handle of a Delta table, at its newest version or a past one.

What lives here: :class:`DeltaTable`, which delegates; the vocabulary is delta-spark's in snake_case. Each
method is declared with what it does (``table/contract``), by which other kinds of table handle it.
What it does not know: how anything is done. No logic belongs here.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from deltanb.actions import Metadata, Protocol
from deltanb.errors import IllegalStateError, InvalidArgument, UnsupportedPredicate
from deltanb.schema.types import StructType
from deltanb.sql.conditions import Where, text_of
from deltanb.store.base import LogStore
from deltanb.table.contract import (
    Askable,
    Asked,
    Does,
    adds,
    commits_alone,
    copies,
    defines,
    describes,
    reads,
    reads_commits,
    reads_log,
    reads_versions,
    replaces,
    writes,
)
from deltanb.table.frame import Frame
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import Aliases, Elsewhere, Number, answer_wrong_arguments
from deltanb.transaction import active
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from random import Random

    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame

    from deltanb.commands.merge.merge import MergeBuilder
    from deltanb.commands.read.feed import ChangeFeed
    from deltanb.commands.result import CommandResult
    from deltanb.commands.upkeep.vacuum import VacuumResult
    from deltanb.engines.spark.streaming import TableStream
    from deltanb.log.diff import TableDiff
    from deltanb.log.history import Damaged, History, HistoryEntry
    from deltanb.log.skipping.explain import ScanExplanation
    from deltanb.log.snapshot import Snapshot
    from deltanb.log.verification import ChecksumVerification
    from deltanb.observe.availability import Versions
    from deltanb.observe.time_travel import TimeTravel
    from deltanb.observe.timeline import CommitTimeline
    from deltanb.sql.predicates import Predicate
    from deltanb.table.staged import TableTransaction
    from deltanb.transaction.transaction import OptimisticTransaction


MAX_DIFF_ROWS = 1_000_000
"""Rows that :meth:`DeltaTable.diff` reads at most: what a notebook compares in a few seconds."""


@answer_wrong_arguments(also=("__init__",))
class DeltaTable(Frame, Displayable, Askable, Aliases):
    """A Delta table.

    It follows the table: every read sees the newest version. :meth:`as_of` returns one pinned to a version,
    which is read-only.

    In an active transaction of this thread (``log.with_new_transaction``) it shows the transaction's version;
    reads are recorded (``changes`` and ``diff`` read everything), histories show the log, commands are
    refused.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> table.append({"name": ["Scrooge"], "nephews": [1]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> table.to_arrow(columns=["name"], where="nephews > 1").to_pylist()
    [{'name': 'Donald'}]
    >>> table.as_of(0).to_arrow().num_rows
    1

    Everything that accepts Arrow streams accepts the table itself.

    >>> import pyarrow as pa
    >>> pa.table(table).num_rows, table.count("nephews > 1")
    (2, 1)
    >>> dn.create("copied", table).to_arrow(limit=1).to_pylist()
    [{'name': 'Donald', 'nephews': 3}]
    """

    def __init__(self, log: DeltaLog, pinned: Snapshot | None = None) -> None:
        if isinstance(log, str | os.PathLike):
            raise InvalidArgument(
                f"DeltaTable is made of a log; open a table with deltanb.open({str(log)!r})")
        self.log = log
        """The table's :class:`~deltanb.transaction.delta_log.DeltaLog`."""
        self._pinned = pinned
        self._version = None if pinned is None else pinned.version

    def __reduce__(self) -> tuple[Any, ...]:
        """Its place and pinned version: joblib, dask and Spark open it again elsewhere."""
        return type(self), (self.log, self._pinned)

    @classmethod
    def for_path(
        cls, path: str | os.PathLike[str] | LogStore,
        version: int | None = None, timestamp: int | str | dt.datetime | None = None,
        *, storage_options: Mapping[str, Any] | None = None,
    ) -> DeltaTable:
        """The table at a path, URI or store; ``version`` or ``timestamp`` as in :meth:`as_of`.

        ``storage_options`` give access to a bucket, in deltalake's spelling: ``{"aws_region": …}``. What they
        leave out comes from the environment (``AWS_ACCESS_KEY_ID``, …) or the machine's role.

        Raises:
            TableNotFound: there is no table.
            VersionNotFound: there is no such version, or it is gone.
            StorageError: the bucket cannot be reached or read.

        >>> import deltanb as dn
        >>> _ = dn.create("opened", {"id": [1]})
        >>> dn.DeltaTable.for_path("opened", version=0).version
        0
        """
        log = DeltaLog.for_table(path, storage_options)
        if version is not None and timestamp is None:
            return cls(log)._at(version, None)  # it can be read where a newer version is damaged
        if not log.exists:
            from deltanb.commands.define.place import no_table

            raise no_table(log.store)
        if version is not None and timestamp is not None:
            raise InvalidArgument("give version or timestamp, not both")
        if version is None and timestamp is None:
            return cls(log)
        return cls(log)._at(version, timestamp)

    @staticmethod
    def is_delta_table(
        path: str | os.PathLike[str] | LogStore, storage_options: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether a Delta table exists at the path.

        >>> import deltanb as dn
        >>> dn.DeltaTable.is_delta_table("nowhere")
        False
        """
        return DeltaLog.for_table(path, storage_options).exists

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The table's absolute path or URI.

        >>> import deltanb as dn
        >>> dn.create("place", {"id": [1]}).path
        '/.../place'
        """
        return self.log.path

    def __fspath__(self) -> str:
        """The folder, so that the table can be passed as a path.

        Raises:
            TypeError: the table is not in a local folder.
        """
        folder = self.log.store.local_path("")
        if folder is None:
            raise TypeError(f"the table {self.path} is not in a folder, so it has no path; give table.path")
        return folder.rstrip(os.sep)

    @property
    def name(self) -> str:
        """The name in the catalog or in the metadata, else the last part of the path.

        >>> import deltanb as dn
        >>> table = dn.create("first_name", {"id": [1]})
        >>> table.name
        'first_name'
        >>> _ = table.set_name("ducks")
        >>> table.name
        'ducks'
        """
        return self.log.name or self.metadata.name or last_part(self.path)

    @property
    def snapshot(self) -> Snapshot:
        """The newest state of the table, or that of the version it is pinned to.

        >>> import deltanb as dn
        >>> table = dn.create("newest", {"id": [1, 2]})
        >>> _ = table.append({"id": [3]})
        >>> table.snapshot.version, table.snapshot.num_files, table.as_of(0).snapshot.num_files
        (1, 2, 1)
        """
        return active.snapshot_of(self.log, self._pinned)

    @property
    def version(self) -> int:
        """The version that is read.

        >>> import deltanb as dn
        >>> table = dn.create("two_versions", {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.version, table.as_of(0).version
        (1, 0)
        """
        return Number(self.snapshot.version)

    @property
    def metadata(self) -> Metadata:
        """Name, schema, partition columns and properties as one action.

        >>> import deltanb as dn
        >>> dn.create("about_ducks", {"id": [1]}, description="one duck a row").metadata.description
        'one duck a row'
        """
        return self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The versions and features a client must support.

        >>> import deltanb as dn
        >>> table = dn.create("features", {"id": [1]}, properties={"delta.enableDeletionVectors": True})
        >>> table.protocol.supports("deletionVectors"), table.protocol.supports("columnMapping")
        (True, False)
        """
        return self.snapshot.protocol

    @property
    def schema(self) -> StructType:
        """The columns.

        >>> import deltanb as dn
        >>> schema = dn.create("schema", "id bigint NOT NULL, at timestamp").schema
        >>> schema.names, str(schema.field("at").type), schema.field("id").nullable
        (['id', 'at'], 'timestamp', False)
        """
        return self.snapshot.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns the table is partitioned by.

        >>> import deltanb as dn
        >>> dn.create("by_day", {"id": [1], "day": [2]}, partition_by="day").partition_columns
        ('day',)
        """
        return self.snapshot.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties set on the table.

        >>> import deltanb as dn
        >>> table = dn.create("set_properties_of", {"id": [1]}, properties={"delta.appendOnly": True})
        >>> dict(table.properties)
        {'delta.appendOnly': 'true'}
        """
        return self.snapshot.properties

    @reads_log
    def detail(self) -> dict[str, Any]:
        """The row of Delta's DESCRIBE DETAIL as a dict.

        >>> import deltanb as dn
        >>> dn.create("detailed", {"id": [1], "day": [2]}, partition_by="day").detail()["partitionColumns"]
        ['day']
        """
        from deltanb.commands.read.detail import detail
        return detail(self.snapshot)

    @reads_log
    def verify_checksum(self) -> ChecksumVerification:
        """Check the version's ``.crc`` against the log: :func:`deltanb.log.verification.verify`.

        >>> import deltanb as dn
        >>> dn.create("checked", {"id": [1]}).verify_checksum().ok
        True
        """
        return self.snapshot.verify_checksum()

    # -- its versions ---------------------------------------------------------------------------------------

    @property
    def _committed(self) -> DeltaTable:
        """The table whose commits are shown: itself, but for what a transaction has staged."""
        return self

    @reads_log
    def as_of(self, moment: int | str | dt.datetime) -> DeltaTable:
        """The table at a version (an integer), or at a time (ISO 8601 text or a datetime).

        A time means the last version committed at or before it; without a zone it is UTC, and a day means its
        midnight, as in Delta's ``TIMESTAMP AS OF``.

        Raises:
            VersionNotFound: there is no such version, or it is gone.
            InvalidArgument: neither a version nor a time.

        >>> import deltanb as dn
        >>> table = dn.create("past", {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.as_of(0).count(), table.count()
        (1, 2)
        """
        if isinstance(moment, str | dt.datetime):
            return self._at(None, moment)
        if isinstance(moment, bool) or not hasattr(moment, "__index__"):  # NumPy's integers have it, too
            raise InvalidArgument(
                f"as_of takes a version, an ISO 8601 string or a datetime, found {moment!r}")
        return self._at(index(moment), None)

    def _at(self, version: int | None, timestamp: int | str | dt.datetime | None) -> DeltaTable:
        if version is not None:
            return DeltaTable(self.log, self.log.snapshot_at(version))
        assert timestamp is not None
        return DeltaTable(self.log, self.log.snapshot_as_of(timestamp))

    @reads_log
    def history(self, limit: int | None = None, damaged: Damaged = "refuse") -> History:
        """The commits, newest first: who did what when.

        A table pinned to a version shows no later ones. A damaged commit is an error; with ``damaged="skip"``
        it is left out, and named in the history's ``damaged``.

        >>> import deltanb as dn
        >>> table = dn.create("recorded", {"id": [1]})
        >>> _ = table.delete()
        >>> [(entry.version, entry.operation) for entry in table.history()]
        [(1, 'DELETE'), (0, 'CREATE TABLE AS SELECT')]
        """
        at = self._committed
        if at._version is None:
            return at.log.history(limit, damaged)
        return at.log.history(damaged=damaged).up_to(at._version, limit)

    @reads_log
    def commit(self, version: int) -> HistoryEntry:
        """One commit in full: its actions, its files with their statistics, its lines in the log; see
        :func:`deltanb.log.history.commit`.

        Raises:
            VersionNotFound: there is no such commit, or the log no longer has it.

        >>> import deltanb as dn
        >>> table = dn.create("pond", {"name": ["Donald", "Daisy"]})
        >>> [action.key for action in table.commit(0).actions]
        ['commitInfo', 'metaData', 'protocol', 'add']
        """
        from deltanb.log.history import commit
        at = self._committed
        return commit(at.log, version, at._version)

    @reads_log
    def verify(
        self, start: int | None = None, end: int | None = None, files: str = "sample"
    ) -> upper.Verification:
        """Whether the table is sound: what its log proves, what is possible, and what no log can tell.

        Arguments, result and errors are those of :func:`deltanb.verify`, which also takes a table that is too
        damaged to be opened. A table pinned to a version is verified up to it; in a transaction it is the
        table as others see it, since statements have row ids and times only once they are committed.

        >>> import deltanb as dn
        >>> dn.create("geese", {"name": ["Gus"]}).verify(files="all").findings
        ()
        """
        if self._version is not None:
            end = self._version if end is None else min(end, self._version)
        return upper.verify_log(self.log.seen_by_others, start, end, files)

    @reads_log
    def checkup(self, list_files: bool | None = None) -> upper.Checkup:
        """What maintenance the table needs, each finding with the command that fixes it:
        :func:`deltanb.observe.checkup.checkup`.

        Of a table pinned to a version it is that version, without the log and the store; in a transaction it
        is the table as others see it, as for :meth:`verify`: what is staged can still go.

        Args:
            list_files: whether to list the store for removed files and orphans; by default yes, in a bucket
                up to 100,000 files.

        >>> import deltanb as dn
        >>> dn.create("swans", {"name": ["Gladstone"]}).checkup().findings
        ()
        """
        return upper.checkup_log(self.log.seen_by_others, self._version, list_files)

    @reads_log
    def timeline(self, start: Any = None, end: Any = None) -> CommitTimeline:
        """Who committed what on which version, and who lost, as a chart with a text form:
        :class:`~deltanb.observe.timeline.CommitTimeline`.

        Args:
            start, end: versions, both included, or times for the versions of these times; all by default.

        Raises:
            VersionNotFound: the table has no such versions.
            InvalidArgument: neither a version nor a time.

        >>> import deltanb as dn
        >>> table = dn.create("lake", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
        >>> _ = table.delete("nephews = 0")
        >>> [(commit.version, commit.operation) for commit in table.timeline(start=1).commits]
        [(1, 'DELETE')]
        """
        from deltanb.observe.timeline import CommitTimeline
        at = self._committed
        return CommitTimeline.of(at.log, start, end, newest=at._version)

    @reads_log
    def versions(self) -> Versions:
        """Which versions can be read, and what the others lack:
        :func:`deltanb.observe.availability.versions`.

        >>> import deltanb as dn
        >>> dn.create("readable", {"id": [1]}).versions().last
        0
        """
        from deltanb.observe.availability import versions
        at = self._committed
        return versions(at.log, at._version)

    @reads_log
    def time_travel(
        self, version: int | str | dt.datetime | None = None, keys: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> TimeTravel:
        """A slider over the versions that can be read, two handles to compare, and the rows there:
        :class:`~deltanb.observe.time_travel.TimeTravel`, at the newest version or a given one.
        ``keys`` are columns that identify a row when two versions are compared, ``columns`` those to show.

        >>> import deltanb as dn
        >>> table = dn.create("travelled", {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.time_travel(0).frame.version
        0
        """
        from deltanb.observe.time_travel import TimeTravel
        return TimeTravel(self._committed, version, keys, columns)

    @reads_versions
    def diff(
        self, start: int | str | dt.datetime | DeltaTable,
        end: int | str | dt.datetime | DeltaTable | None = None,
        keys: str | Sequence[str] | None = None, max_rows: int = MAX_DIFF_ROWS,
        columns: str | Sequence[str] | None = None,
    ) -> TableDiff:
        """How two versions differ: schema, properties, protocol, files and rows.

        Args:
            start, end: versions, times or tables pinned to one; ``end`` is by default the newest.
            keys: columns that identify a row, to tell changed rows from removed and added ones.
            max_rows: the most rows to read, of both versions together.
            columns: the columns to show, in this order; rows are compared in all columns.
        Details and errors: :func:`deltanb.commands.read.diff.diff`.

        >>> import deltanb as dn
        >>> table = dn.create("compared", {"id": [1], "name": ["Huey"]})
        >>> _ = table.update({"name": "'Louie'"})
        >>> diff = table.diff(0, 1, keys="id")
        >>> diff.rows.num_changed
        1
        """
        from deltanb.commands.read.diff import diff

        at = active.read_elsewhere(self.log, self._pinned)
        return diff(self.log, start, end, keys=keys, max_rows=max_rows, columns=columns, newest=at)

    @reads_versions
    def blame(
        self, where: Where | None = None, columns: str | Sequence[str] | None = None,
        keys: str | Sequence[str] | None = None,
    ) -> upper.Blame:
        """For each row the commit that last wrote it, and for columns the commit that last changed the value.

        Row commit versions tell it in one read where the table tracks rows; elsewhere rows are followed back
        through the files that they lay in, by the change data feed where it was on, else by comparing
        versions. ``.method`` names the way, ``.doubts`` what is uncertain. OPTIMIZE and RESTORE write no row:
        rows keep the commit that wrote them first. Without row ids and feed, a row that a MERGE updated to
        the values it had counts as unchanged where its file was rewritten, and as written where it was
        deleted in place (deletion vectors). Where a column was dropped or renamed and another one added by
        its name, no value of it is older than the commit that added it.

        In a transaction it is of the table as others see it: what is staged has no commit yet.

        Args:
            where: a condition as in :meth:`to_arrow`; fewer rows cost less.
            columns: columns whose last change is wanted; what ``_version`` is for rows, ``_NAME_version`` is
                for the column NAME.
            keys: columns that identify a row, to tell what it was before where there are no row ids; by
                default one that is unique among the rows of a commit.

        Returns:
            A :class:`~deltanb.observe.blame.blame.Blame`; ``.to_arrow()`` has the rows and their commits.

        Raises:
            InvalidArgument: a column that does not exist, ``keys`` that several rows share, or a column of
                the table that is called as an added one.
            InvalidPredicate, UnsupportedPredicate: ``where`` cannot be parsed, or cannot be evaluated here.
            DataFileNotFound, InvalidTable: a data file of the version is gone or damaged.

        >>> import deltanb as dn
        >>> table = dn.create("flock", {"id": [1, 2], "nephews": [3, 0]})
        >>> _ = table.update({"nephews": "4"}, where="id = 1")
        >>> blame = table.blame(columns="nephews")
        >>> blame.to_arrow().select(["id", "_version", "_operation", "_nephews_version"]).to_pylist()[0]
        {'id': 1, '_version': 1, '_operation': 'UPDATE', '_nephews_version': 1}
        >>> blame.method, [(commit.version, commit.num_rows) for commit in blame.commits]
        ('versions', [(1, 1), (0, 1)])
        """
        if self._pinned is None:
            active.read_elsewhere(self.log, None)
        return upper.blame_of(self.log.seen_by_others, self.version, where, columns, keys)

    @reads_versions
    def changes(
        self, start: int | str | dt.datetime | None = None, end: int | str | dt.datetime | None = None,
        columns: Sequence[str] | None = None, where: Where | None = None,
    ) -> ChangeFeed:
        """The change data feed of some versions, as an Arrow table that shows updated rows as before → after;
        see :func:`deltanb.commands.read.changes.changes`.

        By default, it starts at the first version from which the feed was recorded without a gap and whose
        commits are still in the log.

        >>> import deltanb as dn
        >>> table = dn.create("fed", {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
        >>> _ = table.append({"id": [2]})
        >>> table.changes(1).to_arrow().select(["id", "_change_type"]).to_pylist()
        [{'id': 2, '_change_type': 'insert'}]
        """
        from deltanb.commands.read.changes import changes
        from deltanb.commands.read.feed import ChangeFeed

        at = active.read_elsewhere(self.log, self._pinned) or self.snapshot
        rows = changes(self.log, start, end, columns=columns, where=where, newest=at)
        return ChangeFeed(rows, at.metadata.name or self.log.path, at.partition_columns,
                          self.log.staged_behind)

    @reads_versions
    def changes_df(
        self, start: int | str | dt.datetime | None = None, end: int | str | dt.datetime | None = None,
        columns: Sequence[str] | None = None, where: Where | None = None, spark: Any = None,
    ) -> Any:
        """:meth:`changes` as a Spark DataFrame; the rows are read in this process first.

        >>> import deltanb as dn
        >>> table.changes_df(1).show()  # doctest: +SKIP
        """
        from deltanb.engines.spark.session import require_pyspark
        from deltanb.engines.spark.session import spark as start_session

        require_pyspark()
        from deltanb.engines.spark.columns import arrow_frame

        session = start_session() if spark is None else spark
        return arrow_frame(session, self.changes(start, end, columns, where).to_arrow())

    # -- rows out -------------------------------------------------------------------------------------------

    @reads
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, through which other libraries read the table: ``pa.table(table)``,
        ``pl.DataFrame(table)``, ``duckdb.sql("FROM table")``."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    @reads
    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows as an Arrow table, read in the process.

        Args:
            columns: top-level names, in this order; all by default.
            where: a condition in SQL, as an expression of pyarrow or polars, as a PySpark Column, or as
                pyarrow's filters, ``[("nephews", ">", 0)]``; files that cannot hold such rows are not opened.
            limit: the largest number of rows; which ones is not defined.

        Raises:
            InvalidPredicate, UnsupportedPredicate: ``where`` cannot be parsed, or cannot be evaluated here.

        >>> import deltanb as dn, pyarrow.compute as pc
        >>> table = dn.create("filtered", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
        >>> table.to_arrow(["name"], where=pc.field("nephews") > 0).to_pylist()
        [{'name': 'Donald'}]
        >>> table.to_arrow(["name"], where=[("nephews", "in", [0, 1])]).to_pylist()
        [{'name': 'Daisy'}]
        """
        from deltanb.engines.arrow.read import read_table

        limit = _row_limit(limit)
        snapshot, files, predicate = self._files(where)
        return self._run_here(lambda: read_table(snapshot, files(), columns, predicate, limit=limit))

    @reads
    def to_batches(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as a stream of batches, for tables larger than memory; arguments as in :meth:`to_arrow`.

        Data files are opened as the stream advances, and a bounded number of batches is held in memory. The
        stream stays at its initial version. Closing it stops the work.

        >>> import deltanb as dn
        >>> table = dn.create("streamed", {"nephews": [3, 0]})
        >>> with table.to_batches(where="nephews > 0") as batches:
        ...     sum(batch.num_rows for batch in batches)
        1
        """
        limit = _row_limit(limit)
        snapshot, files, predicate = self._files(where)
        return self._stream(snapshot, files, columns, predicate, limit)

    @reads
    def to_polars(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> pl.LazyFrame:
        """The version as a polars LazyFrame. Nothing is read before it is collected, and then only the
        columns it needs, from files that may hold rows for ``where`` and the frame's own filters.

        Args:
            columns, where: as in :meth:`to_arrow`.

        Raises:
            MissingDependency: polars is not installed.

        >>> import deltanb as dn
        >>> dn.create("unread", {"id": [1, 2]}).to_polars(where="id > 1").collect().to_dicts()
        [{'id': 2}]
        """
        from deltanb.engines.arrow.frames import to_polars

        snapshot, _, predicate = self._files(where)
        return self._run_here(lambda: to_polars(snapshot, columns, predicate))

    @reads
    def to_duckdb(
        self, columns: Sequence[str] | None = None, where: Where | None = None, connection: Any = None
    ) -> Any:
        """The version as a DuckDB relation, which reads it when rows are asked for.

        Files are skipped by ``where``; without ``where`` and ``columns`` also by DuckDB's own filters, if
        :meth:`to_dataset` is possible.

        Args:
            columns, where: as in :meth:`to_arrow`.
            connection: a DuckDB connection, by default DuckDB's default one.

        Raises:
            MissingDependency: DuckDB is not installed.

        >>> import deltanb as dn
        >>> dn.create("queried", {"id": [1, 2]}).to_duckdb().aggregate("sum(id)").fetchall()
        [(3,)]
        """
        from deltanb.engines.arrow.frames import Rows, to_duckdb

        snapshot, files, predicate = self._files(where)
        begin = partial(self._stream, snapshot, files, columns, predicate)
        begin().close()  # report wrong arguments now
        return to_duckdb(snapshot, files, Rows(begin), columns is None and where is None, connection)

    @reads
    def to_dataset(self, where: Where | None = None) -> ds.Dataset:
        """The version as a pyarrow dataset, which reads rows only when it is scanned, and then only from
        files that may hold rows of its filter.

        Args:
            where: as in :meth:`to_arrow`; the dataset then has only these rows.

        Raises:
            UnsupportedProtocol: Arrow would read the table wrongly because of deletion vectors, column
            mapping,
                changed types or variants; see ``.features``.

        >>> import deltanb as dn, pyarrow.compute as pc
        >>> table = dn.create("lazy", {"p": ["a", "b"], "id": [1, 2]}, partition_by="p")
        >>> table.to_dataset().to_table(filter=pc.field("p") == "b")["id"].to_pylist()
        [2]
        """
        from deltanb.engines.arrow.dataset import dataset

        snapshot, files, predicate = self._files(where)
        rows = self._run_here(lambda: dataset(snapshot, files()))
        if predicate is None:
            return rows
        return rows.filter(self._run_here(lambda: predicate.to_expression(as_filter=True)))

    @reads
    def to_df(
        self, spark: Any = None, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Any:
        """The rows as a Spark DataFrame, read by Spark.

        Args:
            spark: the session; by default the active one, or a new local one.
            columns: as in :meth:`to_arrow`.
            where: as in :meth:`to_arrow`, or SQL that only Spark understands.

        >>> import deltanb as dn
        >>> table.to_df(where="id > 1").show()  # doctest: +SKIP
        """
        from deltanb.engines.spark.session import require_pyspark

        require_pyspark()
        from deltanb.engines.spark.read import read_table
        from deltanb.sql.predicates import parse_condition

        condition = parse_condition(where, self.snapshot.schema)
        at = active.read_elsewhere(self.log, self._pinned, condition) or self.snapshot
        return read_table(at, None, spark, columns=columns, where=condition)

    @reads
    def count(self, where: Where | None = None) -> int:
        """The number of rows, from the files' statistics if these have it.

        Args:
            where: count the rows for which this condition is TRUE; as in :meth:`to_arrow`.

        Details and errors: :func:`deltanb.commands.read.count.count`.

        >>> import deltanb as dn
        >>> dn.create("counted", {"id": [1, 2]}).count("id > 1")
        1
        """
        from deltanb.commands.read.count import count, count_version

        if where is None and not self._is_in_transaction():
            at = self.snapshot
            return self._run_here(lambda: count_version(at))
        snapshot, files, predicate = self._files(where)
        return self._run_here(lambda: count(snapshot, files(), predicate))

    @reads_log
    def explain(self, where: Where | DataFrame | None = None) -> ScanExplanation:
        """Which files a read opens, and why it skips the others: by partition values, conditions implied by
        generated columns, or statistics.

        No data file is opened.

        Args:
            where: a condition as in :meth:`to_arrow`, or SQL that only Spark understands; or a query of Spark
                over :meth:`to_df`, of which the filters in its plan are explained, and no job is run.

        Raises:
            InvalidPredicate: invalid SQL, or a column that the table does not have.
            InvalidArgument: a query that reads no files of this table, or is of Spark Connect.

        >>> table.explain(table.to_df().where("age > 10").groupBy("pond").count())  # doctest: +SKIP

        >>> import deltanb as dn
        >>> table = dn.create("lakes", {"pond": ["a", "b"], "age": [3, 9]}, partition_by="pond")
        >>> scan = table.explain("pond = 'b' AND age > 10")
        >>> [file.because for file in scan.spared_files]
        ["pond is 'a'", 'age is 9 in every row']
        """
        from deltanb.log.skipping.explain import explain
        if hasattr(where, "sparkSession"):
            from deltanb.engines.spark.explain import explain_frame
            return explain_frame(self.snapshot, where)
        return explain(self.snapshot, where)

    @reads_log
    def layout(self, column: str, where: Where | None = None) -> upper.FileLayout:
        """The ranges of a column's values in the files as bars, and which of them a condition opens:
        :class:`~deltanb.observe.file_layout.FileLayout`.

        No data file is opened. In a transaction it is the table with what is staged, as :meth:`explain` sees
        it.

        Args:
            column: a column with bounds, dotted for a field of a struct, or a partition column.
            where: a condition as in :meth:`explain`, on any columns.

        Raises:
            InvalidSchema: there is no such column.
            InvalidArgument: there are no bounds of its type.
            InvalidPredicate: invalid SQL, or a column that the table does not have.

        >>> import deltanb as dn
        >>> table = dn.create("rivers", {"km": [3, 9]})
        >>> _ = table.append({"km": [5, 20]})
        >>> layout = table.layout("km", where="km > 10")
        >>> layout.num_files, layout.opened, layout.depth
        (2, 1, 1.5)
        """
        return upper.layout_of(self.snapshot, column, where)

    # -- rows in --------------------------------------------------------------------------------------------

    @adds
    def append(
        self, data: Any, *, merge_schema: bool = False, txn: tuple[str, int] | None = None,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None, data_change: bool = True,
    ) -> CommandResult:
        """Add rows; the result has the version, or None if nothing had to be committed.

        Args:
            data: another table; Arrow, pandas or polars (including LazyFrames), a DuckDB relation, a stream
                of batches, anything with ``__arrow_c_stream__``; a dict of columns, a list of dicts, or a
                Spark DataFrame.
            merge_schema: add columns that the data has and the table does not.
            txn: (application id, version): skip the write if the table has that version already.
            user_metadata: text to record in the commit.
            target_file_size, max_records_per_file, compression: the size of a data file in bytes, the most
                rows it may have, and its codec (``"zstd"``).
            data_change: False declares that no rows are new, so that streams leave the commit out.
        Details and errors: :func:`deltanb.commands.rows.write.append`.

        >>> import deltanb as dn
        >>> table = dn.create("grown", {"id": [1]})
        >>> table.append({"id": [2], "name": ["Huey"]}, merge_schema=True)
        <CommandResult WRITE, ✓ committed v1, in this process>
        """
        from deltanb.commands.rows.write import append
        return append(
            self.log, data, merge_schema=merge_schema, txn=txn,
            user_metadata=user_metadata, target_file_size=target_file_size,
            max_records_per_file=max_records_per_file, compression=compression, data_change=data_change)

    @replaces
    def overwrite(
        self, data: Any, *, where: Where | None = None,
        replace_using: str | Sequence[str] | None = None, replace_on: str | None = None,
        target_alias: str = "target", source_alias: str = "source", partition_overwrite: str = "static",
        overwrite_schema: bool = False, partition_by: str | Sequence[str] | None = None,
        cluster_by: str | Sequence[str] = (), merge_schema: bool = False, txn: tuple[str, int] | None = None,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None, data_change: bool = True,
    ) -> CommandResult:
        """Replace all rows, those that satisfy a condition, those that match, or those of some partitions.

        Args:
            where: replace only the rows for which this SQL is true; the data must satisfy it.
            replace_using: replace only the rows that have the values of a row of the data in these columns.
            replace_on: the same by a condition (SQL) over both.
            target_alias, source_alias: the names of table and data in it.
            partition_overwrite: ``"dynamic"`` replaces only the partitions that the data has rows for.
            overwrite_schema: give the table the schema of the data; it is clustered no longer.
            partition_by: with ``overwrite_schema``, the new partition columns; by default they stay.
            cluster_by: with ``overwrite_schema``, the new clustering columns, in place of partition columns.
            data, merge_schema, txn and the rest: as in :meth:`append`.
        Details and errors: :func:`deltanb.commands.rows.write.overwrite`.

        >>> import deltanb as dn
        >>> table = dn.create("replaced", {"month": [1, 2]})
        >>> _ = table.overwrite({"month": [2, 2]}, where="month = 2")
        >>> table.count()
        3
        """
        from deltanb.commands.rows.write import overwrite
        return overwrite(
            self.log, data, where=self._condition(where), replace_using=replace_using,
            replace_on=replace_on, target_alias=target_alias, source_alias=source_alias,
            partition_overwrite=partition_overwrite, overwrite_schema=overwrite_schema,
            partition_by=partition_by, cluster_by=cluster_by, merge_schema=merge_schema, txn=txn,
            user_metadata=user_metadata, target_file_size=target_file_size,
            max_records_per_file=max_records_per_file, compression=compression, data_change=data_change)

    @writes
    def delete(
        self, where: Where | None = None, *, engine: str = "auto", user_metadata: str | None = None,
    ) -> CommandResult:
        """Delete the rows for which a condition is TRUE; all rows without one.

        Args:
            where: a condition as in :meth:`to_arrow`.
            engine: ``"arrow"`` (in the process), ``"spark"``, or ``"auto"``.
            user_metadata: text to record in the commit.
        Details and errors: :func:`deltanb.commands.rows.delete.delete`.

        >>> import deltanb as dn
        >>> dn.create("shrunk", {"id": [1, 2]}).delete("id = 1").metrics["numDeletedRows"]
        1
        """
        from deltanb.commands.rows.delete import delete
        return delete(self.log, self._condition(where), engine=engine,
                      user_metadata=user_metadata)

    @writes
    def truncate(self, *, user_metadata: str | None = None) -> CommandResult:
        """Remove all rows by the log alone, without counting them.

        Details and errors: :func:`deltanb.commands.rows.delete.truncate`.

        >>> import deltanb as dn
        >>> table = dn.create("emptied", {"id": [1, 2]})
        >>> table.truncate().operation, table.count()
        ('TRUNCATE', 0)
        """
        from deltanb.commands.rows.delete import truncate
        return truncate(self.log, user_metadata=user_metadata)

    @writes
    def update(
        self, assignments: Mapping[str, Any], where: Where | None = None, *, engine: str = "auto",
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Set new values in the rows for which a condition is TRUE; in all rows without one.

        Args:
            assignments: new values by column, as SQL or Python values; ``a.b`` is a field of a struct.
            where, engine, user_metadata: as in :meth:`delete`.
        Details and errors: :func:`deltanb.commands.rows.update.update`.

        >>> import deltanb as dn
        >>> table = dn.create("changed", {"id": [1, 2], "name": ["huey", "Louie"]})
        >>> table.update({"name": "upper(name)"}, where="id = 1").version
        1
        """
        from deltanb.commands.rows.update import update
        return update(self.log, assignments, self._condition(where), engine=engine,
                      user_metadata=user_metadata)

    @describes
    def merge(
        self, source: Any, on: str | Sequence[str], *, target_alias: str = "target",
        source_alias: str = "source", merge_schema: bool = False,
    ) -> MergeBuilder:
        """Begin a merge: add clauses to the result, then call ``.execute()``.

        Args:
            source: rows as in :meth:`append`, or another table.
            on: a column that both sides have, several, or SQL that is TRUE for a row of the table and a row
                of the source that match. NULL in a key matches nothing.
            target_alias, source_alias: the names of table and source in SQL.
            merge_schema: add columns that clauses assign and the table lacks.
        Details and errors: :func:`deltanb.commands.merge.merge.merge`.

        >>> import deltanb as dn
        >>> table = dn.create("cousins", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
        >>> merge = table.merge({"name": ["Donald"], "nephews": [4]}, on="name")
        >>> merge.when_matched_update(set={"nephews": "target.nephews + source.nephews"}).execute()
        <CommandResult MERGE, ✓ committed v1, in this process>
        """
        from deltanb.commands.merge.merge import merge
        return merge(self.log, source, on, target_alias=target_alias,
                     source_alias=source_alias, merge_schema=merge_schema)

    @writes
    def upsert(
        self, source: Any, on: str | Sequence[str], *, merge_schema: bool = False, engine: str = "auto",
        user_metadata: str | None = None, txn: tuple[str, int] | None = None,
    ) -> CommandResult:
        """Update the rows whose keys the source has, and insert its other rows: a :meth:`merge` by ``on``
        that updates and inserts all columns, executed at once.

        Args:
            source: rows as in :meth:`append`, or another table; each key once. NULL in a key matches nothing.
            on: the column that tells rows apart, or several.
            merge_schema: add columns that the source has and the table lacks.
            engine, user_metadata: as in :meth:`delete`.
            txn: as in :meth:`append`.
        Details and errors: :func:`deltanb.commands.merge.merge.upsert`.

        >>> import deltanb as dn
        >>> table = dn.create("uncles", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
        >>> table.upsert({"name": ["Donald", "Gladstone"], "nephews": [4, 0]}, on="name").version
        1
        >>> table.to_arrow().sort_by("name").to_pydict()
        {'name': ['Daisy', 'Donald', 'Gladstone'], 'nephews': [0, 4, 0]}
        """
        from deltanb.commands.merge.merge import upsert
        return upsert(self.log, source, on, merge_schema=merge_schema, engine=engine,
                      user_metadata=user_metadata, txn=txn)

    # -- transactions ---------------------------------------------------------------------------------------

    @commits_alone
    def transaction(self) -> TableTransaction:
        """Several statements as one commit, in a ``with`` block; each sees the effects of those before it:
        :class:`~deltanb.table.staged.TableTransaction`.

        >>> import deltanb as dn
        >>> table = dn.create("together", {"id": [1, 2]})
        >>> with table.transaction() as txn:
        ...     _ = txn.delete("id = 1")
        ...     _ = txn.append({"id": [3]})
        >>> table.version
        1
        """
        from deltanb.table.staged import TableTransaction
        return TableTransaction(self.log)

    @commits_alone
    def start_transaction(self) -> OptimisticTransaction:
        """A transaction on the newest version, for reading and committing by hand.

        >>> import deltanb as dn
        >>> table = dn.create("by_hand", {"id": [1]})
        >>> txn = table.start_transaction()
        >>> txn.commit(txn.write_files({"id": [2]}), "WRITE")
        1
        """
        return self.log.start_transaction()

    # -- streams --------------------------------------------------------------------------------------------

    @commits_alone
    def write_stream(
        self, frame: Any, *, checkpoint: str | os.PathLike[str], mode: str = "append",
        keys: str | Sequence[str] | None = None, trigger: str | Mapping[str, Any] | None = None,
        query_name: str | None = None, merge_schema: bool = False, overwrite_schema: bool = False,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None,
    ) -> TableStream:
        """Start a Spark stream into the table: a commit for each micro-batch, exactly once.

        Args:
            frame: a streaming DataFrame of Spark.
            checkpoint: the stream's own folder, in which Spark records its progress.
            mode: ``"append"``; ``"complete"``, which replaces all rows with each batch; or ``"update"``,
                which replaces the rows that have the ``keys`` of a batch and adds the others.
            keys: with ``"update"``, the columns that the stream groups by.
            trigger: ``"availableNow"``, an interval (``"10 seconds"``), or Spark's keywords as a dict.
            query_name: the stream's name in Spark, and its lane in the table's timeline.
            merge_schema: add new columns to the table.
            overwrite_schema: with ``"complete"``, give the table the stream's schema.
            user_metadata: text to record in each commit.
            target_file_size, max_records_per_file, compression: of the data files, as in
                :meth:`~deltanb.table.table.DeltaTable.append`.

        Details and errors: :func:`deltanb.commands.rows.stream.write_stream`.

        >>> import deltanb as dn
        >>> table.write_stream(frame, checkpoint="checkpoint", trigger="availableNow")  # doctest: +SKIP
        """
        from deltanb.commands.rows.stream import write_stream
        return write_stream(
            self.log, frame, checkpoint=checkpoint, mode=mode, keys=keys,
            trigger=trigger, query_name=query_name, merge_schema=merge_schema,
            overwrite_schema=overwrite_schema, user_metadata=user_metadata,
            target_file_size=target_file_size, max_records_per_file=max_records_per_file,
            compression=compression)

    @reads_commits
    def read_stream(
        self, spark: Any = None, *, starting_version: int | str | None = None,
        starting_timestamp: str | None = None, max_files_per_trigger: int | None = None,
        max_bytes_per_trigger: int | str | None = None, ignore_deletes: bool = False,
        skip_change_commits: bool = False, change_feed: bool = False, ignore_changes: bool = False,
        fail_on_data_loss: bool = True, exclude_regex: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """The table as a Spark stream: all rows of its newest version first, then new ones.

        ``spark.readStream.format("deltanb")`` with the options of these names is the same.

        Args:
            spark: the session; by default the active one, or a new local one.
            starting_version: begin with the changes of this version; ``"latest"``: with those from now on.
            starting_timestamp: the same by time (ISO 8601).
            max_files_per_trigger: files in a micro-batch, by default 1,000.
            max_bytes_per_trigger: bytes of files in a micro-batch (``1 << 30``, or ``"1g"`` as in Spark), at
                least one file.
            ignore_deletes: pass over commits that only remove whole files.
            skip_change_commits: leave out commits that delete or rewrite rows, with the rows they add.
            change_feed: stream changes, with the columns of :meth:`changes`.
            ignore_changes: read all rows of the files that such commits add, also those that were only
                written again.
            fail_on_data_loss: False continues where the log has been cleaned up before it was read.
            exclude_regex: leave out files in whose paths it matches.
            storage_options: access to a bucket for Spark's processes; they travel with the stream. What they
                leave out comes from the environment there. A table that was opened with credentials needs
                them again, since tables do not pass them on.

        Raises:
            InvalidArgument: options that contradict each other, or a table opened with credentials without
                ``storage_options``. Other errors surface in the query that reads the stream: a
                :class:`~deltanb.engines.spark.streaming.TableStream` raises them unchanged; for Spark's own
                queries, :func:`deltanb.sources.spark.source.translate_errors` extracts them.

        >>> import deltanb as dn
        >>> table.read_stream(starting_version="latest").writeStream.start()  # doctest: +SKIP
        """
        from deltanb.engines.spark.session import require_pyspark

        require_pyspark()
        return upper.read_stream(
            self.log, spark, {
                "startingVersion": starting_version, "startingTimestamp": starting_timestamp,
                "maxFilesPerTrigger": max_files_per_trigger, "maxBytesPerTrigger": max_bytes_per_trigger,
                "ignoreDeletes": ignore_deletes or None, "skipChangeCommits": skip_change_commits or None,
                "readChangeFeed": change_feed or None, "ignoreChanges": ignore_changes or None,
                "failOnDataLoss": None if fail_on_data_loss else False, "excludeRegex": exclude_regex,
            }, storage_options)

    # -- upkeep ---------------------------------------------------------------------------------------------

    @commits_alone
    def optimize(
        self, where: Where | None = None, *, zorder_by: str | Sequence[str] | None = None,
        target_size: int | None = None, full: bool = False, engine: str = "auto",
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Combine small files, or order rows so that more files can be skipped.

        Args:
            where: SQL on partition columns, to select partitions.
            zorder_by: columns to order by; a clustered table is ordered by its clustering columns.
            target_size: the size of a file in bytes.
            full: cluster files again that were clustered before.
            engine: ``"arrow"`` (in the process), ``"spark"``, or ``"auto"``.
            user_metadata: text to record in the commit.
        Details and errors: :func:`deltanb.commands.upkeep.optimize.optimize`.

        >>> import deltanb as dn
        >>> table = dn.create("compacted", {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.optimize().metrics["numRemovedFiles"]
        2
        """
        from deltanb.commands.upkeep.optimize import optimize
        return optimize(
            self.log, where=self._condition(where), zorder_by=zorder_by,
            target_size=target_size, full=full, engine=engine, user_metadata=user_metadata)

    @commits_alone
    def purge(
        self, *, where: Where | None = None, engine: str = "auto", user_metadata: str | None = None,
    ) -> CommandResult:
        """Rewrite files with deletion vectors without the deleted rows; arguments are those of
        :meth:`optimize`, details and errors those of :func:`deltanb.commands.upkeep.optimize.purge`.

        >>> import deltanb as dn
        >>> table = dn.create("purged", {"id": [1, 2]}, properties={"delta.enableDeletionVectors": True})
        >>> _ = table.delete("id = 1")
        >>> table.purge().version
        2
        """
        from deltanb.commands.upkeep.optimize import purge
        return purge(self.log, where=self._condition(where), engine=engine,
                     user_metadata=user_metadata)

    @commits_alone
    def vacuum(
        self, retention_hours: float | None = None, *, lite: bool = False, dry_run: bool = False,
        check: bool = True,
    ) -> VacuumResult:
        """Delete files that no version within the retention needs.

        Args:
            retention_hours: how long to retain removed files; by default the table's property.
            lite: take removed files from the log instead of listing the folder.
            dry_run: only report what would be deleted.
            check: refuse a retention shorter than the table's.
        Details and errors: :func:`deltanb.commands.upkeep.vacuum.vacuum`.

        >>> import deltanb as dn
        >>> table = dn.create("tidy", {"id": [1]})
        >>> _ = table.delete()
        >>> len(table.vacuum(0, check=False, dry_run=True).files)
        1
        """
        from deltanb.commands.upkeep.vacuum import vacuum
        return vacuum(
            self.log, retention_hours, lite=lite, dry_run=dry_run, check=check)

    @writes
    def analyze(self, columns: Sequence[str] | None = None) -> CommandResult:
        """Recompute the files' statistics; see :func:`deltanb.commands.upkeep.analyze.analyze`.

        >>> import deltanb as dn
        >>> dn.create("analyzed", {"id": [1]}).analyze(["id"]).operation
        'COMPUTE STATS'
        """
        from deltanb.commands.upkeep.analyze import analyze
        return analyze(self.log, columns)

    @commits_alone
    def sync_identity(self, column: str) -> CommandResult:
        """Advance an identity column's high-water mark; see
        :func:`deltanb.commands.define.identity.sync_identity`.

        >>> import deltanb as dn
        >>> table = dn.create("numbered", "id bigint GENERATED BY DEFAULT AS IDENTITY, name string")
        >>> _ = table.append({"id": [7], "name": ["Huey"]})
        >>> table.sync_identity("id").version
        2
        """
        from deltanb.commands.define.identity import sync_identity
        return sync_identity(self.log, column)

    @commits_alone
    def restore(
        self, moment: int | str | dt.datetime, *, ignore_missing_files: bool = False,
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Restore the table to a version or time.

        Args:
            moment: a version, an ISO 8601 string or a datetime.
            ignore_missing_files: leave out files that are gone, with their rows.
            user_metadata: text to record in the commit.
        Details and errors: :func:`deltanb.commands.upkeep.restore.restore`.

        >>> import deltanb as dn
        >>> table = dn.create("restored", {"id": [1]})
        >>> _ = table.delete()
        >>> _ = table.restore(0)
        >>> table.version, table.count()
        (2, 1)
        """
        from deltanb.commands.upkeep.restore import restore
        return restore(
            self.log, moment, ignore_missing_files=ignore_missing_files,
            user_metadata=user_metadata)

    # -- other tables of it ---------------------------------------------------------------------------------

    @copies
    def clone(
        self, path: str | os.PathLike[str] | LogStore, version: int | None = None, *,
        mode: str = "error", user_metadata: str | None = None, allow_files: bool = False,
    ) -> DeltaTable:
        """A new table over this one's files; nothing is copied.

        Args:
            path: where the clone goes.
            version: the version to clone, by default the newest.
            mode: if a table exists there: ``"error"`` or ``"overwrite"``.
            user_metadata: text to record in the commit.
            allow_files: as in :func:`deltanb.create`.
        Details and errors: :func:`deltanb.commands.define.clone.clone`.

        >>> import deltanb as dn
        >>> dn.create("original", {"id": [1]}).clone("cloned").count()
        1
        """
        from deltanb.commands.define.clone import clone

        source = self if version is None else self.as_of(version)
        return DeltaTable(clone(
            source.snapshot, path, mode=mode, user_metadata=user_metadata, allow_files=allow_files))

    @copies
    @classmethod
    def convert(
        cls, path: str | os.PathLike[str] | LogStore,
        partition_by: str | Mapping[str, Any] | StructType | pa.Schema | None = None, *,
        properties: Mapping[str, Any] | None = None, name: str | None = None,
        description: str | None = None, collect_stats: bool = True,
    ) -> DeltaTable:
        """Turn a folder of Parquet files into a Delta table; arguments, details and errors are those of
        :func:`deltanb.convert`.

        >>> import deltanb as dn
        >>> import os, pyarrow as pa, pyarrow.parquet as pq
        >>> os.mkdir("converted"); pq.write_table(pa.table({"id": [1, 2]}), "converted/a.parquet")
        >>> dn.DeltaTable.convert("converted").count()
        2
        """
        from deltanb.commands.define.convert import convert
        return cls(convert(path, partition_by, properties=properties, name=name,
                           description=description, collect_stats=collect_stats))

    @copies
    def generate(self, mode: str = "symlink_format_manifest") -> None:
        """Write manifests for other engines; see :func:`deltanb.commands.upkeep.generate.generate`.

        >>> import deltanb as dn
        >>> import os
        >>> dn.create("listed", {"id": [1]}).generate()
        >>> os.listdir("listed/_symlink_format_manifest")
        ['manifest']
        """
        from deltanb.commands.upkeep.generate import generate
        generate(self.snapshot, mode)

    # -- the table itself -----------------------------------------------------------------------------------

    @defines
    def add_columns(self, columns: Any) -> CommandResult:
        """Add columns; see :func:`deltanb.commands.define.alter_columns.add_columns`.

        >>> import deltanb as dn
        >>> table = dn.create("wider", {"id": [1]})
        >>> _ = table.add_columns("name string, born date")
        >>> table.schema
        <StructType id: long, name: string, born: date>
        """
        from deltanb.commands.define.alter_columns import add_columns
        return add_columns(self.log, columns)

    @defines
    def rename_column(self, name: str | Sequence[str], new_name: str) -> CommandResult:
        """Rename a column; see :func:`deltanb.commands.define.alter_columns.rename_column`.

        >>> import deltanb as dn
        >>> table = dn.create("renamed", {"nam": ["Huey"]}, properties={"delta.columnMapping.mode": "name"})
        >>> _ = table.rename_column("nam", "name")
        >>> table.schema.names
        ['name']
        """
        from deltanb.commands.define.alter_columns import rename_column
        return rename_column(self.log, name, new_name)

    @defines
    def drop_columns(self, names: str | Sequence[str], if_exists: bool = False) -> CommandResult:
        """Drop columns; see :func:`deltanb.commands.define.alter_columns.drop_columns`.

        >>> import deltanb as dn
        >>> by_name = {"delta.columnMapping.mode": "name"}
        >>> table = dn.create("narrower", {"id": [1], "x": [2]}, properties=by_name)
        >>> _ = table.drop_columns("x")
        >>> table.schema.names
        ['id']
        """
        from deltanb.commands.define.alter_columns import drop_columns
        return drop_columns(self.log, names, if_exists)

    @defines
    def replace_columns(self, columns: Any) -> CommandResult:
        """Replace all columns; see :func:`deltanb.commands.define.replace_columns.replace_columns`.

        >>> import deltanb as dn
        >>> table = dn.create("redefined", {"id": [1]}, properties={"delta.columnMapping.mode": "name"})
        >>> _ = table.replace_columns("id bigint, name string")
        >>> table.schema.names
        ['id', 'name']
        """
        from deltanb.commands.define.replace_columns import replace_columns
        return replace_columns(self.log, columns)

    @defines
    def change_column(
        self, name: str | Sequence[str], *, type: Any = None, comment: str | None = None,
        nullable: bool | None = None, position: str | None = None, default: str | None = None,
        drop_default: bool = False,
    ) -> CommandResult:
        """Change a column or a nested field; details and errors:
        :func:`deltanb.commands.define.alter_columns.change_column`.

        >>> import deltanb as dn
        >>> table = dn.create("commented", {"id": [1]})
        >>> table.change_column("id", comment="the key").version
        1
        """
        from deltanb.commands.define.alter_columns import change_column
        return change_column(
            self.log, name, type=type, comment=comment, nullable=nullable,
            position=position, default=default, drop_default=drop_default)

    @defines
    def change_columns(
        self, changes: Mapping[str | Sequence[str], Mapping[str, Any]]
    ) -> CommandResult:
        """Change several columns in one commit; details and errors:
        :func:`deltanb.commands.define.alter_columns.change_columns`.

        >>> import deltanb as dn
        >>> table = dn.create("renewed", {"id": [1], "n": [5]})
        >>> _ = table.change_columns({"id": {"comment": "the key"}, "n": {"position": "first"}})
        >>> table.columns, table.schema.field("id").metadata
        (['n', 'id'], {'comment': 'the key'})
        """
        from deltanb.commands.define.alter_columns import change_columns
        return change_columns(self.log, changes)

    @defines
    def set_properties(self, values: Mapping[str, Any]) -> CommandResult:
        """Set table properties; see :func:`deltanb.commands.define.alter_properties.set_properties`.

        >>> import deltanb as dn
        >>> table = dn.create("set", {"id": [1]})
        >>> _ = table.set_properties({"delta.appendOnly": True})
        >>> table.properties["delta.appendOnly"]
        'true'
        """
        from deltanb.commands.define.alter_properties import set_properties
        return set_properties(self.log, values)

    @defines
    def unset_properties(self, names: str | Sequence[str], if_exists: bool = False) -> CommandResult:
        """Remove properties; see :func:`deltanb.commands.define.alter_properties.unset_properties`.

        >>> import deltanb as dn
        >>> table = dn.create("unset", {"id": [1]}, properties={"delta.appendOnly": True})
        >>> _ = table.unset_properties("delta.appendOnly")
        >>> dict(table.properties)
        {}
        """
        from deltanb.commands.define.alter_properties import unset_properties
        return unset_properties(self.log, names, if_exists)

    @defines
    def set_description(self, description: str | None) -> CommandResult:
        """Set the description; see :func:`deltanb.commands.define.alter_properties.set_description`.

        >>> import deltanb as dn
        >>> table = dn.create("described", {"id": [1]})
        >>> _ = table.set_description("All ducks of the family")
        >>> table.metadata.description
        'All ducks of the family'
        """
        from deltanb.commands.define.alter_properties import set_description
        return set_description(self.log, description)

    @defines
    def set_name(self, name: str | None) -> CommandResult:
        """Set the name; see :func:`deltanb.commands.define.alter_properties.set_name`.

        >>> import deltanb as dn
        >>> table = dn.create("named", {"id": [1]})
        >>> _ = table.set_name("ducks")
        >>> table.name
        'ducks'
        """
        from deltanb.commands.define.alter_properties import set_name
        return set_name(self.log, name)

    @defines
    def add_constraint(self, name: str, expression: str, engine: str | None = None) -> CommandResult:
        """Add a CHECK constraint; see :func:`deltanb.commands.define.alter_constraints.add_constraint`.

        >>> import deltanb as dn
        >>> table = dn.create("constrained", {"id": [1]})
        >>> table.add_constraint("positive", "id > 0").version
        1
        """
        from deltanb.commands.define.alter_constraints import add_constraint
        return add_constraint(self.log, name, expression, engine)

    @defines
    def drop_constraint(self, name: str, if_exists: bool = False) -> CommandResult:
        """Drop a CHECK constraint; see :func:`deltanb.commands.define.alter_constraints.drop_constraint`.

        >>> import deltanb as dn
        >>> table = dn.create("freed", {"id": [1]}, properties={"delta.constraints.positive": "id > 0"})
        >>> table.drop_constraint("positive").version
        1
        """
        from deltanb.commands.define.alter_constraints import drop_constraint
        return drop_constraint(self.log, name, if_exists)

    @commits_alone
    def add_feature(self, names: str | Sequence[str]) -> CommandResult:
        """Add table features; see :func:`deltanb.commands.define.alter_features.add_feature`.

        >>> import deltanb as dn
        >>> table = dn.create("featured", {"id": [1]})
        >>> _ = table.add_feature("deletionVectors")
        >>> table.protocol.supports("deletionVectors")
        True
        """
        from deltanb.commands.define.alter_features import add_feature
        return add_feature(self.log, names)

    @commits_alone
    def drop_feature(self, name: str, truncate_history: bool = False) -> CommandResult:
        """Drop a table feature; see :func:`deltanb.commands.define.drop_feature.drop_feature`.

        >>> import deltanb as dn
        >>> table = dn.create("plain", {"id": [1]}, properties={"delta.enableDeletionVectors": True})
        >>> _ = table.drop_feature("deletionVectors")
        >>> table.protocol.supports("deletionVectors")
        False
        """
        from deltanb.commands.define.drop_feature import drop_feature
        return drop_feature(self.log, name, truncate_history)

    @commits_alone
    def upgrade_protocol(self, reader_version: int, writer_version: int) -> CommandResult:
        """Raise the protocol; see :func:`deltanb.commands.define.alter_features.upgrade_protocol`.

        >>> import deltanb as dn
        >>> table = dn.create("upgraded", {"id": [1]})
        >>> _ = table.upgrade_protocol(3, 7)
        >>> table.protocol.min_writer_version
        7
        """
        from deltanb.commands.define.alter_features import upgrade_protocol
        return upgrade_protocol(self.log, reader_version, writer_version)

    @defines
    def cluster_by(self, columns: str | Sequence[str] | None) -> CommandResult:
        """Set the clustering columns; see :func:`deltanb.commands.define.alter_clustering.cluster_by`.

        >>> import deltanb as dn
        >>> table = dn.create("clustered", {"id": [1]})
        >>> _ = table.cluster_by("id")
        >>> table.detail()["clusteringColumns"]
        ['id']
        """
        from deltanb.commands.define.alter_clustering import cluster_by
        return cluster_by(self.log, columns)

    # -- as a frame (table/frame) ---------------------------------------------------------------------------

    def _column_names(self) -> list[str]:
        return list(self.schema.names)

    def _arrow_schema(self) -> pa.Schema:
        return self.schema.to_arrow()

    def _sample(
        self, n: int, random: Random, columns: Sequence[str] | None, where: Where | None
    ) -> pa.Table:
        if where is not None:
            return super()._sample(n, random, columns, where)
        from deltanb.commands.read.sample import sample

        return sample(*self._scan(), n, random, columns)

    # -- how ------------------------------------------------------------------------------------------------

    @property
    def _reads_at(self) -> Literal["newest", "past", "transaction"]:
        return "newest" if self._pinned is None else "past"

    def _admit(self, asked: Asked) -> None:
        if self._version is None:
            return
        if asked.does is Does.READS_COMMITS:
            raise self._stands_still(asked.name, "and a stream goes on; stream from the table itself")
        if not (asked.does.is_read or asked.does is Does.COPIES):
            self._writable(asked.name)

    def _writable(self, what: str) -> DeltaLog:
        if self._version is None:
            return self.log
        raise self._stands_still(what, "which can be read only; write to the table itself")

    def _stands_still(self, what: str, why: str) -> IllegalStateError:
        by, at = ("catalog.table", self.name) if self.log.commits.is_managed else ("deltanb.open", self.path)
        return IllegalStateError(
            f"{what}: this is the table {self.name} as of version {self._version}, {why}: {by}({at!r})")

    def _condition(self, where: Where | None) -> str | None:
        """A condition in any form as SQL."""
        return None if where is None else text_of(where, lambda: self.snapshot.schema)

    @reads
    def _scan(self, where: str | Predicate | None = None) -> tuple[Snapshot, pa.Table]:
        """The version to read and its matching files, for callers that decode them themselves."""
        return active.scan(self.log, self._pinned, *(() if where is None else (where,)))

    def _files(self, where: Where | None) -> tuple[Snapshot, Callable[[], pa.Table], Predicate | None]:
        """The version to read, a function that lists its matching files, and the condition over its columns.

        Files are listed on demand, since DuckDB opens three streams to read one. In an active transaction
        they are listed at once, because it records what was read, and by whom.
        """
        at = self.snapshot
        predicate = self._predicate(where, at)
        predicates = () if predicate is None else (predicate,)
        if not self._is_in_transaction():
            return at, lambda: at.files_for_scan(*predicates), predicate
        snapshot, files = self._run_here(lambda: active.scan(self.log, None, *predicates))
        return snapshot, lambda: files, self._predicate(predicate, snapshot)

    def _predicate(self, where: Where | None, at: Snapshot) -> Predicate | None:
        if where is None:
            return None
        from deltanb.sql.predicates import parse

        return self._run_here(lambda: parse(where, at.schema))

    def _is_in_transaction(self) -> bool:
        return self._pinned is None and active.reading(self.log) is not None

    def _stream(
        self, snapshot: Snapshot, files: Callable[[], pa.Table], columns: Sequence[str] | None,
        predicate: Predicate | None, limit: int | None = None,
    ) -> pa.RecordBatchReader:
        import pyarrow as pa

        from deltanb.engines.arrow.data_file import plan
        from deltanb.engines.arrow.read import stream

        scan = self._run_here(lambda: plan(snapshot, columns, predicate))
        batches = lazily(lambda: stream(scan, files(), limit))
        return pa.RecordBatchReader.from_batches(scan.schema, batches)

    @staticmethod
    def _run_here(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except UnsupportedPredicate as reason:
            raise reason.or_else("read with to_df(where=…), which lets Spark run it") from None


for _name in ("compact", "z_order"):  # deltalake's table.optimize has methods
    setattr(DeltaTable.optimize, _name, Elsewhere(f"optimize.{_name}"))


def _row_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not hasattr(limit, "__index__") or index(limit) < 0:
        raise InvalidArgument(f"a number of rows is 0 or more, found {limit!r}")
    return index(limit)


def lazily(
    begin: Callable[[], Generator[pa.RecordBatch, None, None]]
) -> Generator[pa.RecordBatch, None, None]:
    """A stream that begins with its first batch, under the options of the caller: DuckDB takes batches in
    threads of its own."""
    settings = copy_context()

    def batches() -> Generator[pa.RecordBatch, None, None]:
        stream = settings.run(begin)
        try:
            while (batch := settings.run(next, stream, None)) is not None:
                yield batch
        finally:
            stream.close()

    return batches()
