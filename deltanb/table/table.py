"""The handle people hold: a Delta table, at its newest version or at one of its past.

What lives here: :class:`DeltaTable`, which delegates; the vocabulary is delta-spark's in snake_case.
What it does not know: how anything is done. No logic belongs here.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from deltanb.actions import Metadata, Protocol
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.schema.types import StructType
from deltanb.sql.conditions import Where
from deltanb.store.base import LogStore
from deltanb.table.streaming import StreamedTable
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import Aliases
from deltanb.transaction import active
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.commands.merge.merge import MergeBuilder
    from deltanb.commands.result import CommandResult
    from deltanb.commands.upkeep.vacuum import VacuumResult
    from deltanb.log.diff import TableDiff
    from deltanb.log.history import History, HistoryEntry
    from deltanb.log.snapshot import Snapshot
    from deltanb.log.verification import ChecksumVerification
    from deltanb.observe.availability import Versions
    from deltanb.observe.time_travel import TimeTravel
    from deltanb.observe.timeline import CommitTimeline
    from deltanb.table.staged import TableTransaction
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_DIFF_ROWS = 1_000_000
"""Rows that :meth:`DeltaTable.diff` reads at most: what a notebook compares in a few seconds."""


class DeltaTable(StreamedTable, Aliases):
    """A Delta table.

    It follows the table: every read sees the newest version. :meth:`as_of` gives one that stands
    still, which can be read only.

    In an active transaction of this thread (``log.with_new_transaction``) it shows that one's version; rows
    read are recorded (``changes``, ``diff``: as all), histories show the log, commands refuse.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> table.append({"name": ["Scrooge"], "nephews": [1]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> table.to_arrow(columns=["name"], where="nephews > 1").to_pylist()
    [{'name': 'Donald'}]
    >>> table.as_of(0).to_arrow().num_rows
    1
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
        """Where it is and the version it stands at: joblib, dask and Spark open it anew elsewhere."""
        return type(self), (self.log, self._pinned)

    @classmethod
    def for_path(
        cls, path: str | os.PathLike[str] | LogStore,
        version: int | None = None, timestamp: int | str | dt.datetime | None = None,
        *, storage_options: Mapping[str, Any] | None = None,
    ) -> DeltaTable:
        """The table at a path, URI or store; ``version`` or ``timestamp`` as in :meth:`as_of`.

        ``storage_options`` say how to get to a bucket, as deltalake spells them: ``{"aws_region": …}``. What
        they leave out comes from the environment (``AWS_ACCESS_KEY_ID``, …) or the machine's own role.

        Raises:
            TableNotFound: there is none.
            VersionNotFound: there is no such version, or it is gone.
            StorageError: the bucket cannot be reached or read.
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
        """Whether there is a Delta table."""
        return DeltaLog.for_table(path, storage_options).exists

    # -- what it is ------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Where the table is: an absolute path or a URI."""
        return self.log.path

    def __fspath__(self) -> str:
        """The folder, so that the table can be given wherever a path can.

        Raises:
            TypeError: it is not in a folder of this machine.
        """
        folder = self.log.store.local_path("")
        if folder is None:
            raise TypeError(f"the table {self.path} is not in a folder, so it has no path; give table.path")
        return folder.rstrip(os.sep)

    @property
    def name(self) -> str:
        """The name in the catalog or in the metadata, else the last part of the path."""
        return self.log.name or self.metadata.name or last_part(self.path)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self.snapshot.version

    @property
    def metadata(self) -> Metadata:
        """Name, schema, partition columns and properties as one action."""
        return self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The versions and features a client must support."""
        return self.snapshot.protocol

    @property
    def schema(self) -> StructType:
        """The columns."""
        return self.snapshot.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns the table is partitioned by."""
        return self.snapshot.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties that are set."""
        return self.snapshot.properties

    def as_of(self, moment: int | str | dt.datetime) -> DeltaTable:
        """The table at a version (an integer), or at a time (ISO 8601 text or a datetime).

        The last version committed at or before the time is meant; without a zone it is UTC, and a day alone
        is its midnight, as in Delta's ``TIMESTAMP AS OF``.

        Raises:
            VersionNotFound: there is no such version, or it is gone.
            InvalidArgument: neither a version nor a time.
        """
        if isinstance(moment, str | dt.datetime):
            return self._at(None, moment)
        if isinstance(moment, bool) or not hasattr(moment, "__index__"):  # NumPy's integers have it, too
            raise InvalidArgument(
                f"as_of takes a version, an ISO 8601 text or a datetime, found {moment!r}")
        return self._at(index(moment), None)

    def _at(self, version: int | None, timestamp: int | str | dt.datetime | None) -> DeltaTable:
        if version is not None:
            return DeltaTable(self.log, self.log.snapshot_at(version))
        assert timestamp is not None
        return DeltaTable(self.log, self.log.snapshot_as_of(timestamp))

    def history(self, limit: int | None = None) -> History:
        """The commits, newest first: who did what when.

        A table that stands at a version knows no later ones.
        """
        if self._version is None:
            return self.log.history(limit)
        return self.log.history().up_to(self._version, limit)

    def commit(self, version: int) -> HistoryEntry:
        """One commit with all that is in it: its actions, its files with their statistics, its lines in the
        log; :func:`deltanb.log.history.commit` says more.

        Raises:
            VersionNotFound: there is no such commit, or the log no longer has it.

        >>> import deltanb as dn
        >>> table = dn.create("pond", {"name": ["Donald", "Daisy"]})
        >>> [action.key for action in table.commit(0).actions]
        ['commitInfo', 'metaData', 'protocol', 'add']
        """
        from deltanb.log.history import commit
        return commit(self.log, version, self._version)

    def timeline(self, start: Any = None, end: Any = None) -> CommitTimeline:
        """Who committed what upon which version, and who lost, as a chart with a text beside it:
        :class:`~deltanb.observe.timeline.CommitTimeline`.

        Args:
            start, end: versions, both included, or times for the versions of these times; all unless given.

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
        return CommitTimeline.of(self.log, start, end, newest=self._version)

    def verify_checksum(self) -> ChecksumVerification:
        """The ``.crc`` of the version held against the log: :func:`deltanb.log.verification.verify`."""
        return self.snapshot.verify_checksum()

    def detail(self) -> dict[str, Any]:
        """What the table is, under the names of Delta's DESCRIBE DETAIL."""
        from deltanb.commands.read.detail import detail
        return detail(self.snapshot)

    def versions(self) -> Versions:
        """Which versions can still be read, and what the others lack:
        :func:`deltanb.observe.availability.versions`."""
        from deltanb.observe.availability import versions
        return versions(self.log, self._version)

    def time_travel(
        self, version: int | str | dt.datetime | None = None, keys: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> TimeTravel:
        """A slider over the versions that can be read, two handles to compare, and the rows there:
        :class:`~deltanb.observe.time_travel.TimeTravel`, at the newest version or a given one.
        ``keys`` are columns that tell which row is which where two versions are compared, ``columns`` those
        to show."""
        from deltanb.observe.time_travel import TimeTravel
        return TimeTravel(self, version, keys, columns)

    def diff(
        self, start: int | str | dt.datetime | DeltaTable,
        end: int | str | dt.datetime | DeltaTable | None = None,
        keys: str | Sequence[str] | None = None, max_rows: int = MAX_DIFF_ROWS,
        columns: str | Sequence[str] | None = None,
    ) -> TableDiff:
        """How two versions differ: schema, properties, protocol, files and rows.

        Args:
            start, end: versions, times or tables that stand at one; ``end`` is the newest unless given.
            keys: columns that identify a row, to tell changed rows from removed and added ones.
            max_rows: rows that are read at most, of both versions together.
            columns: those to show of each row, in this order; rows are compared in all.
        Details and errors: :func:`deltanb.commands.read.diff.diff`.
        """
        from deltanb.commands.read.diff import diff

        at = active.read_elsewhere(self.log, self._pinned)
        return diff(self.log, start, end, keys=keys, max_rows=max_rows, columns=columns, newest=at)

    # -- rows in ---------------------------------------------------------------------------------

    def append(
        self, data: Any, *, merge_schema: bool = False, txn: tuple[str, int] | None = None,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None,
    ) -> CommandResult:
        """Add rows; the result has the version, or None where nothing had to be committed.

        Args:
            data: another table; Arrow, pandas, polars (a LazyFrame, too), a relation of DuckDB, a stream of
                batches, anything with ``__arrow_c_stream__``; a dict of columns, a list of dicts, or a Spark
                DataFrame.
            merge_schema: add columns that the data has and the table does not.
            txn: (application id, version): skip the write if the table has that version already.
            user_metadata: a text kept in the commit.
            target_file_size, max_records_per_file, compression: bytes at which a data file ends, rows that it
                has at most, and its codec (``"zstd"``).
        Details and errors: :func:`deltanb.commands.rows.write.append`.
        """
        from deltanb.commands.rows.write import append
        return append(
            self._writable("append"), data, merge_schema=merge_schema, txn=txn,
            user_metadata=user_metadata, target_file_size=target_file_size,
            max_records_per_file=max_records_per_file, compression=compression)

    def overwrite(
        self, data: Any, *, where: Where | None = None, partition_overwrite: str = "static",
        overwrite_schema: bool = False, partition_by: Sequence[str] | None = None,
        merge_schema: bool = False, txn: tuple[str, int] | None = None,
        user_metadata: str | None = None, target_file_size: int | None = None,
        max_records_per_file: int | None = None, compression: str | None = None,
    ) -> CommandResult:
        """Replace all rows, those of a condition, or those of some partitions.

        Args:
            where: replace only the rows for which this SQL is true; the data must satisfy it.
            partition_overwrite: ``"dynamic"`` replaces just the partitions that the data has rows for.
            overwrite_schema: give the table the schema of the data.
            partition_by: with ``overwrite_schema``, the new partition columns.
            data, merge_schema, txn and what follows them: as in :meth:`append`.
        Details and errors: :func:`deltanb.commands.rows.write.overwrite`.
        """
        from deltanb.commands.rows.write import overwrite
        return overwrite(
            self._writable("overwrite"), data, where=self._condition(where),
            partition_overwrite=partition_overwrite, overwrite_schema=overwrite_schema,
            partition_by=partition_by, merge_schema=merge_schema, txn=txn, user_metadata=user_metadata,
            target_file_size=target_file_size, max_records_per_file=max_records_per_file,
            compression=compression)

    # -- upkeep ----------------------------------------------------------------------------------

    def optimize(
        self, where: Where | None = None, *, zorder_by: str | Sequence[str] | None = None,
        target_size: int | None = None, full: bool = False, engine: str = "auto",
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Combine small files, or order rows so that more files can be skipped.

        Args:
            where: SQL on partition columns: which partitions to work on.
            zorder_by: columns to order by; a clustered table is ordered by its clustering columns.
            target_size: bytes of a file.
            full: order files again that have been clustered before.
            engine: ``"arrow"`` (in the process), ``"spark"``, or ``"auto"``.
            user_metadata: a text kept in the commit.
        Details and errors: :func:`deltanb.commands.upkeep.optimize.optimize`.
        """
        from deltanb.commands.upkeep.optimize import optimize
        return optimize(
            self._writable("optimize"), where=self._condition(where), zorder_by=zorder_by,
            target_size=target_size, full=full, engine=engine, user_metadata=user_metadata)

    def purge(
        self, *, where: Where | None = None, engine: str = "auto", user_metadata: str | None = None,
    ) -> CommandResult:
        """Rewrite files that have deletion vectors, without the deleted rows; arguments are those of
        :meth:`optimize`, details and errors those of :func:`deltanb.commands.upkeep.optimize.purge`."""
        from deltanb.commands.upkeep.optimize import purge
        return purge(self._writable("purge"), where=self._condition(where), engine=engine,
                     user_metadata=user_metadata)

    def vacuum(
        self, retention_hours: float | None = None, *, lite: bool = False, dry_run: bool = False,
        check: bool = True,
    ) -> VacuumResult:
        """Delete files that no version within the retention needs.

        Args:
            retention_hours: how long files of the past are kept; the table's property unless given.
            lite: take removed files from the log instead of listing the folder.
            dry_run: only say what would be deleted.
            check: refuse a retention shorter than the table's.
        Details and errors: :func:`deltanb.commands.upkeep.vacuum.vacuum`.
        """
        from deltanb.commands.upkeep.vacuum import vacuum
        return vacuum(
            self._writable("vacuum"), retention_hours, lite=lite, dry_run=dry_run, check=check)

    def restore(
        self, moment: int | str | dt.datetime, *, ignore_missing_files: bool = False,
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Make the table what it was at a version or time.

        Args:
            moment: a version, an ISO 8601 text or a datetime.
            ignore_missing_files: leave out files that are gone, and their rows with them.
            user_metadata: a text kept in the commit.
        Details and errors: :func:`deltanb.commands.upkeep.restore.restore`.
        """
        from deltanb.commands.upkeep.restore import restore
        return restore(
            self._writable("restore"), moment, ignore_missing_files=ignore_missing_files,
            user_metadata=user_metadata)

    def clone(
        self, path: str | os.PathLike[str] | LogStore, version: int | None = None, *,
        mode: str = "error", user_metadata: str | None = None, allow_files: bool = False,
    ) -> DeltaTable:
        """A new table over this one's files; nothing is copied.

        Args:
            path: where the clone goes.
            version: the version to clone; the newest unless given.
            mode: where a table is already: ``"error"`` or ``"overwrite"``.
            user_metadata: a text kept in the commit.
            allow_files: as of :func:`deltanb.create`.
        Details and errors: :func:`deltanb.commands.define.clone.clone`.
        """
        from deltanb.commands.define.clone import clone

        source = self if version is None else self.as_of(version)
        return DeltaTable(clone(
            source.snapshot, path, mode=mode, user_metadata=user_metadata, allow_files=allow_files))

    @classmethod
    def convert(
        cls, path: str | os.PathLike[str] | LogStore,
        partition_by: str | Mapping[str, Any] | StructType | pa.Schema | None = None, *,
        properties: Mapping[str, Any] | None = None, name: str | None = None,
        description: str | None = None, collect_stats: bool = True,
    ) -> DeltaTable:
        """Make a Delta table of a folder of Parquet files; arguments, details and errors are those of
        :func:`deltanb.convert`."""
        from deltanb.commands.define.convert import convert
        return cls(convert(path, partition_by, properties=properties, name=name,
                           description=description, collect_stats=collect_stats))

    def generate(self, mode: str = "symlink_format_manifest") -> None:
        """Write manifests for other engines; as :func:`deltanb.commands.upkeep.generate.generate`."""
        from deltanb.commands.upkeep.generate import generate
        generate(self.snapshot, mode)

    def analyze(self, columns: Sequence[str] | None = None) -> CommandResult:
        """Take the files' statistics anew; as :func:`deltanb.commands.upkeep.analyze.analyze`."""
        from deltanb.commands.upkeep.analyze import analyze
        return analyze(self._writable("analyze"), columns)

    def delete(
        self, where: Where | None = None, *, engine: str = "auto", user_metadata: str | None = None,
    ) -> CommandResult:
        """Delete the rows for which a condition is TRUE; all rows without one.

        Args:
            where: a condition in SQL, or as :meth:`to_arrow` takes it.
            engine: ``"arrow"`` (in the process), ``"spark"``, or ``"auto"``.
            user_metadata: a text kept in the commit.
        Details and errors: :func:`deltanb.commands.rows.delete.delete`.
        """
        from deltanb.commands.rows.delete import delete
        return delete(self._writable("delete"), self._condition(where), engine=engine,
                      user_metadata=user_metadata)

    def update(
        self, assignments: Mapping[str, Any], where: Where | None = None, *, engine: str = "auto",
        user_metadata: str | None = None,
    ) -> CommandResult:
        """Give the rows for which a condition is TRUE new values; all rows without one.

        Args:
            assignments: new values by column, as SQL or Python values; ``a.b`` is a field of a struct.
            where, engine, user_metadata: as in :meth:`delete`.
        Details and errors: :func:`deltanb.commands.rows.update.update`.
        """
        from deltanb.commands.rows.update import update
        return update(self._writable("update"), assignments, self._condition(where), engine=engine,
                      user_metadata=user_metadata)

    def merge(
        self, source: Any, on: str, *, target_alias: str = "target", source_alias: str = "source",
    ) -> MergeBuilder:
        """Begin a merge: add clauses to the result, then call ``.execute()``.

        Args:
            source: rows as in :meth:`append`, or another table.
            on: SQL that is TRUE for a row of the table and a row of the source that match.
            target_alias, source_alias: the names of the two in SQL.
        Details and errors: :func:`deltanb.commands.merge.merge.merge`.
        """
        from deltanb.commands.merge.merge import merge
        return merge(self._writable("merge"), source, on, target_alias=target_alias,
                     source_alias=source_alias)

    def sync_identity(self, column: str) -> CommandResult:
        """Move an identity column's mark on: :func:`deltanb.commands.define.identity.sync_identity`."""
        from deltanb.commands.define.identity import sync_identity
        return sync_identity(self._writable("sync_identity"), column)

    def transaction(self) -> TableTransaction:
        """Several statements as one commit, in a ``with`` block; later ones see what earlier ones did:
        :class:`~deltanb.table.staged.TableTransaction`."""
        from deltanb.table.staged import TableTransaction
        return TableTransaction(self._writable("transaction"))

    def start_transaction(self) -> OptimisticTransaction:
        """A transaction on the newest version, for reading and committing by hand."""
        return self._writable("start_transaction").start_transaction()

    # -- the table itself ------------------------------------------------------------------------

    def add_columns(self, columns: Any) -> CommandResult:
        """Add columns; as :func:`deltanb.commands.define.alter_columns.add_columns`."""
        from deltanb.commands.define.alter_columns import add_columns
        return add_columns(self._writable("add_columns"), columns)

    def rename_column(self, name: str | Sequence[str], new_name: str) -> CommandResult:
        """Rename a column; as :func:`deltanb.commands.define.alter_columns.rename_column`."""
        from deltanb.commands.define.alter_columns import rename_column
        return rename_column(self._writable("rename_column"), name, new_name)

    def drop_columns(self, names: str | Sequence[str], if_exists: bool = False) -> CommandResult:
        """Drop columns; as :func:`deltanb.commands.define.alter_columns.drop_columns`."""
        from deltanb.commands.define.alter_columns import drop_columns
        return drop_columns(self._writable("drop_columns"), names, if_exists)

    def replace_columns(self, columns: Any) -> CommandResult:
        """Say all columns anew; as :func:`deltanb.commands.define.replace_columns.replace_columns`."""
        from deltanb.commands.define.replace_columns import replace_columns
        return replace_columns(self._writable("replace_columns"), columns)

    def change_column(
        self, name: str | Sequence[str], *, type: Any = None, comment: str | None = None,
        nullable: bool | None = None, position: str | None = None, default: str | None = None,
        drop_default: bool = False,
    ) -> CommandResult:
        """Change a column or a nested field; details and errors:
        :func:`deltanb.commands.define.alter_columns.change_column`."""
        from deltanb.commands.define.alter_columns import change_column
        return change_column(
            self._writable("change_column"), name, type=type, comment=comment, nullable=nullable,
            position=position, default=default, drop_default=drop_default)

    def set_properties(self, values: Mapping[str, Any]) -> CommandResult:
        """Set table properties; as :func:`deltanb.commands.define.alter_properties.set_properties`."""
        from deltanb.commands.define.alter_properties import set_properties
        return set_properties(self._writable("set_properties"), values)

    def unset_properties(self, names: str | Sequence[str], if_exists: bool = False) -> CommandResult:
        """Take properties away; as :func:`deltanb.commands.define.alter_properties.unset_properties`."""
        from deltanb.commands.define.alter_properties import unset_properties
        return unset_properties(self._writable("unset_properties"), names, if_exists)

    def set_description(self, description: str | None) -> CommandResult:
        """Say what the table is; as :func:`deltanb.commands.define.alter_properties.set_description`."""
        from deltanb.commands.define.alter_properties import set_description
        return set_description(self._writable("set_description"), description)

    def set_name(self, name: str | None) -> CommandResult:
        """Name the table; as :func:`deltanb.commands.define.alter_properties.set_name`."""
        from deltanb.commands.define.alter_properties import set_name
        return set_name(self._writable("set_name"), name)

    def add_constraint(self, name: str, expression: str, engine: str | None = None) -> CommandResult:
        """Add a CHECK; as :func:`deltanb.commands.define.alter_constraints.add_constraint`."""
        from deltanb.commands.define.alter_constraints import add_constraint
        return add_constraint(self._writable("add_constraint"), name, expression, engine)

    def drop_constraint(self, name: str, if_exists: bool = False) -> CommandResult:
        """Drop a CHECK; as :func:`deltanb.commands.define.alter_constraints.drop_constraint`."""
        from deltanb.commands.define.alter_constraints import drop_constraint
        return drop_constraint(self._writable("drop_constraint"), name, if_exists)

    def add_feature(self, names: str | Sequence[str]) -> CommandResult:
        """Add table features; as :func:`deltanb.commands.define.alter_features.add_feature`."""
        from deltanb.commands.define.alter_features import add_feature
        return add_feature(self._writable("add_feature"), names)

    def drop_feature(self, name: str, truncate_history: bool = False) -> CommandResult:
        """Drop a table feature; as :func:`deltanb.commands.define.drop_feature.drop_feature`."""
        from deltanb.commands.define.drop_feature import drop_feature
        return drop_feature(self._writable("drop_feature"), name, truncate_history)

    def upgrade_protocol(self, reader_version: int, writer_version: int) -> CommandResult:
        """Raise the protocol; as :func:`deltanb.commands.define.alter_features.upgrade_protocol`."""
        from deltanb.commands.define.alter_features import upgrade_protocol
        return upgrade_protocol(self._writable("upgrade_protocol"), reader_version, writer_version)

    def cluster_by(self, columns: str | Sequence[str] | None) -> CommandResult:
        """Set the clustering columns; as :func:`deltanb.commands.define.alter_clustering.cluster_by`."""
        from deltanb.commands.define.alter_clustering import cluster_by
        return cluster_by(self._writable("cluster_by"), columns)

    def _writable(self, what: str) -> DeltaLog:
        if self._version is None:
            return self.log
        by, at = ("catalog.table", self.name) if self.log.commits.is_managed else ("deltanb.open", self.path)
        raise IllegalStateError(f"{what}: this is the table {self.name} as of version {self._version}, "
                                f"which can be read only; write to the table itself: {by}({at!r})")


