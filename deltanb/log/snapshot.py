"""One version of a table, according to its log.

What lives here: :class:`Snapshot`, immutable, and the small actions it rests on. File lists are
Arrow tables, read by column on demand.
What it does not know: the rows of data files, transactions, how versions follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from deltanb.actions import CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from deltanb.actions.metadata import TABLE_FEATURES_READER
from deltanb.errors import DeltaError, InvalidTable, TableNotFound, TableReplaced, UnsupportedProtocol
from deltanb.log.checkpoint.interval import interval, may_be_due
from deltanb.log.commits import commit_name
from deltanb.log.file_set import FileSet
from deltanb.log.replay import FILES_SCHEMA, MAX_RECENT, CheckpointParts, Delta
from deltanb.log.tally import Tally, sized
from deltanb.text import formatting as units
from deltanb.text.damage import reading
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.diff import TableDiff
    from deltanb.log.reader import LogReader
    from deltanb.log.row_count import RowCount
    from deltanb.log.skipping.stats import Stat
    from deltanb.log.verification import ChecksumVerification, Recorded
    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

__all__ = ["Snapshot", "State"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class State:
    """The result of replay at one version; :meth:`after` returns a later one, this one is immutable."""

    version: int
    files: FileSet
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    commit_info: bytes | CommitInfo | None = None
    checkpoint_version: int | None = None
    checkpoint: tuple[str, ...] = ()
    """The files of the checkpoint this state rests on."""
    recorded: Recorded | None = None
    """What the checksum of the version that was opened says."""
    recent: tuple[int, ...] = ()
    """How many files each of the last commits adds and removes, as far as they were read one by one."""
    tally: Tally | None = None
    """What is counted of the files, carried on from the version before, or its checksum where nobody has
    counted them. For what is written down of a commit; who asks for the table's files counts them."""

    @property
    def info(self) -> dict[str, Any]:
        """The commitInfo of the last commit; empty if it is unknown or not an object.

        Raises:
            InvalidTable: a damaged commitInfo.
        """
        if isinstance(self.commit_info, CommitInfo):
            return self.commit_info.to_value()
        with reading("the commitInfo in", commit_name(self.version)):
            info = json.loads(self.commit_info) if self.commit_info else None
        return info if isinstance(info, dict) else {}

    @classmethod
    def of_checkpoint(cls, version: int, parts: CheckpointParts, keeps: bool = True) -> State:
        """The state in a checkpoint; ``keeps`` as in :class:`FileSet`."""
        domains = {name: domain for name, domain in parts.domains.items() if not domain.removed}
        return cls(version, FileSet(parts, keeps), parts.protocol, parts.metadata, parts.txns, domains,
                   checkpoint_version=version, checkpoint=tuple(getattr(parts, "names", ())))

    def after(self, delta: Delta, version: int, all_new: bool = False) -> State:
        """The state at ``version``; ``delta`` sums up the commits in between.

        ``all_new``: as in :meth:`FileSet.extended`.
        """
        domains = self.domains
        if delta.domains:
            both = {**domains, **delta.domains}
            domains = {name: domain for name, domain in both.items() if not domain.removed}
        tally = (self.tally or self.files.known_tally) if all_new else None
        if tally is not None:
            tally = tally.plus(sized(delta.adds.values()))
        recent = tuple(delta.recent)
        if len(recent) == version - self.version:
            recent = (*self.recent, *recent)[-MAX_RECENT:]
        return State(
            version,
            self.files.extended(delta, all_new),
            delta.protocol or self.protocol,
            delta.metadata or self.metadata,
            {**self.txns, **delta.txns} if delta.txns else self.txns,
            domains,
            delta.commit_info,
            self.checkpoint_version,
            self.checkpoint,
            self.recorded,
            recent,
            tally,
        )


EMPTY = State(-1, FileSet(), tally=Tally.empty())


@answer_wrong_arguments(only=("files_for_scan",))
class Snapshot(Displayable):
    """A table at one version. Immutable; opening one reads no file list.

    >>> from deltanb.testing import MemoryStore, TableBuilder, add
    >>> from deltanb.log.reader import LogReader
    >>> table = TableBuilder(MemoryStore()).create("id long").commit(add("a", size=3))
    >>> snapshot = LogReader(table.store).snapshot
    >>> snapshot.version, snapshot.num_files, snapshot.size_in_bytes, snapshot.schema.names
    (1, 1, 3, ['id'])
    """

    def __init__(
        self, log: LogReader, state: State, commit_identity: object = None
    ) -> None:
        self.log = log
        self.commit_identity = commit_identity
        """The :meth:`~deltanb.log.commits.Commits.identity` of its commit when it was read; None if that is
        not known."""
        self._state = state
        self._rows: RowCount | None = None
        self._damaged: frozenset[str] = frozenset()
        if state.version >= 0:
            self._check()

    def _check(self) -> None:
        """One protocol and one metaData a version (PROTOCOL.md, "Action Reconciliation")."""
        root, version = self.log.path, self.version
        needed = {"protocol": self._state.protocol, "metaData": self._state.metadata}
        for name, action in needed.items():
            if action is None:
                raise InvalidTable(
                    f"the log of {root} has no {name} action up to version {version}; the state "
                    "of the table cannot be known. Restore its first commits from a backup",
                    path=root, file=commit_name(0), missing=name,
                )
        if not 1 <= self.protocol.min_reader_version <= TABLE_FEATURES_READER:
            self._refuse_version()
        if not self.log.commits.is_managed:
            from deltanb.schema.protocol import check_by_path

            check_by_path(self.protocol, root)

    def _refuse_version(self) -> None:
        """Refuse an undefined reader version at once; features are checked when data is read."""
        from deltanb.schema.protocol import check_readable

        try:
            check_readable(self.protocol, self.log.path)
        except UnsupportedProtocol as error:
            if not error.features:
                raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Its place and version: unpickling reads it from the log again."""
        return _again, (self.log, self.version, self.version >= 0 and self.metadata.id)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version; -1 if there is no table yet.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> TableBuilder(MemoryStore()).create("id long").log.snapshot.version
        0
        """
        return self._state.version

    @property
    def version_name(self) -> str:
        """What the version is called where it is shown: ``v3``, or ``v3 + staged`` for what a transaction
        that read version 3 sees of its own statements, which no version has yet.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with table.transaction() as txn:
        ...     _ = txn.append({"id": [2]})
        ...     txn.snapshot.version_name, table.snapshot.version_name
        ('v0 + staged', 'v0')
        """
        return units.version_name(self.version, self.log.staged_behind)

    @property
    def is_staged(self) -> bool:
        """Whether its last change is a statement of an open transaction, and no commit.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with table.transaction() as txn:
        ...     _ = txn.append({"id": [2]})
        ...     txn.snapshot.is_staged, table.snapshot.is_staged
        (True, False)
        """
        behind = self.log.staged_behind
        return behind is not None and self.version > behind

    @cached_property
    def timestamp(self) -> int:
        """When the version was committed, in epoch milliseconds, as the table's history has it.

        The in-commit timestamp on tables that have them now, else the modification time of the commit, or a
        later one where a commit before it has a newer file.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> in_commit = {"delta.enableInCommitTimestamps": True}
        >>> with dn.set_options(clock=lambda: 1_700_000_000_000):
        ...     table = dn.create(MemoryStore(), {"id": [1]}, properties=in_commit)
        >>> table.snapshot.timestamp
        1700000000000
        """

        from deltanb.log import commit_times

        return commit_times.time_of_snapshot(self)

    @property
    def metadata(self) -> Metadata:
        """Name, schema and properties.

        Raises:
            TableNotFound: the snapshot of a table that does not exist.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> builder = TableBuilder(MemoryStore()).create("id long, part string", partition_by=["part"])
        >>> metadata = builder.log.snapshot.metadata
        >>> metadata.schema.names, metadata.partition_columns
        (['id', 'part'], ('part',))
        """
        return self._present("metaData", self._state.metadata)

    @property
    def protocol(self) -> Protocol:
        """Versions and features a client must support.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> protocol = TableBuilder(MemoryStore()).create("id long").log.snapshot.protocol
        >>> protocol.min_reader_version, protocol.min_writer_version
        (1, 2)
        """
        return self._present("protocol", self._state.protocol)

    def _present(self, name: str, action: Any) -> Any:
        if action is None:
            path = self.log.path
            raise TableNotFound(
                f"there is no Delta table at {path}, so it has no {name}; create it with "
                "deltanb.create(path, data)", path=path)
        return action

    @cached_property
    def schema(self) -> StructType:
        """The logical schema.

        Raises:
            InvalidTable: the schema cannot be read, or lacks a partition column.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> schema = TableBuilder(MemoryStore()).create("id long, tags array<string>").log.snapshot.schema
        >>> {field.name: str(field.type) for field in schema}
        {'id': 'long', 'tags': 'array<string>'}
        """
        schema = self.metadata.schema
        absent = [name for name in self.partition_columns if name not in schema]
        if absent:
            raise InvalidTable(
                f"{self.log.path} is partitioned by {absent[0]!r}, which is not a column of its schema. "
                "Restore the metaData of an earlier version", path=self.log.path)
        return schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> builder = TableBuilder(MemoryStore()).create("id long, part string", partition_by=["part"])
        >>> builder.log.snapshot.partition_columns
        ('part',)
        """
        return self.metadata.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, ``metaData.configuration``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dict(dn.create(MemoryStore(), {"id": [1]}, properties={"owner": "Daisy"}).snapshot.properties)
        {'owner': 'Daisy'}
        """
        return self.metadata.configuration

    @property
    def txns(self) -> Mapping[str, SetTransaction]:
        """The latest ``txn`` action of every application.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]}, txn=("nightly", 7))
        >>> table.snapshot.txns["nightly"].version
        7
        """
        return MappingProxyType(dict(self._state.txns))

    @property
    def set_transactions(self) -> dict[str, int]:
        """The latest ``txn`` version of every application.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]}, txn=("nightly", 7))
        >>> table.append({"id": [2]}, txn=("nightly", 7)).version is None  # it was written before
        True
        >>> table.snapshot.set_transactions
        {'nightly': 7}
        """
        return {app: txn.version for app, txn in self._state.txns.items()}

    @property
    def last_commit_info(self) -> dict[str, Any]:
        """The commitInfo of the newest commit; empty if a checkpoint was read instead.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> info = dn.create(MemoryStore(), {"id": [1]}).snapshot.last_commit_info
        >>> info["operation"], info["operationMetrics"]["numOutputRows"]
        ('CREATE TABLE AS SELECT', '1')
        """
        return self._state.info

    @property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The metadata domains that are not removed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> snapshot = dn.create(MemoryStore(), {"id": [1]}, cluster_by="id").snapshot
        >>> snapshot.domain_metadata["delta.clustering"].configuration
        '{"clusteringColumns":[["id"]]}'
        """
        return dict(self._state.domains)

    @property
    def checkpoint_version(self) -> int | None:
        """The version of the checkpoint this state was read from, None if from version 0.

        >>> from deltanb.log.reader import LogReader
        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long")
        >>> _ = LogReader(builder.store).checkpoint()
        >>> _ = builder.commit(add("a"))
        >>> snapshot = LogReader(builder.store).snapshot
        >>> snapshot.version, snapshot.checkpoint_version
        (1, 0)
        """
        return self._state.checkpoint_version

    def __sub__(self, before: Snapshot) -> TableDiff:
        """The differences from another version of the table, according to the log: schema, properties,
        protocol, files and their rows."""
        if not isinstance(before, Snapshot):
            return NotImplemented
        from deltanb.log import diff

        return diff.compare(before, self)

    # -- files ----------------------------------------------------------------------------------

    @property
    def num_files(self) -> int:
        """The number of logical files in the table.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add, remove
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).commit(remove("a"))
        >>> builder.log.snapshot.num_files
        1
        """
        return self._compared(self._read(lambda files: files.num_files))

    @property
    def about_num_files(self) -> int:
        """About the number of files; may include files that the newest commits removed, since no column of a
        checkpoint is read.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).log.snapshot.about_num_files
        2
        """
        if self._state.tally is not None:
            return self._state.tally.num_files
        known, _ = self._state.files.known
        return self._read(lambda files: files.candidates().num_files) if known is None else known

    @property
    def checkpoint_interval(self) -> int:
        """The number of versions between checkpoints: ``delta.checkpointInterval``, or a number that depends
        on the table's size if that is not set (:mod:`deltanb.log.checkpoint.interval`).

        >>> import deltanb as dn
        >>> table = dn.create("often", {"id": [1]})
        >>> table.snapshot.checkpoint_interval
        50
        >>> _ = table.set_properties({"delta.checkpointInterval": 10})
        >>> table.snapshot.checkpoint_interval
        10
        """
        return interval(self.metadata.configuration, self.about_num_files, self.version)

    def needs_checkpoint(self, version: int) -> bool:
        """Whether a version, this one or one shortly before, should have a checkpoint.

        The files are counted only if the size of the table matters, and then without reading a column of an
        older checkpoint: files that the newest commits removed are counted, too.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> often = {"delta.checkpointInterval": 10}
        >>> snapshot = dn.create(MemoryStore(), {"id": [1]}, properties=often).snapshot
        >>> snapshot.needs_checkpoint(9), snapshot.needs_checkpoint(10)
        (False, True)
        """
        return may_be_due(self.metadata.configuration, version) and version % self.checkpoint_interval == 0

    @property
    def size_in_bytes(self) -> int:
        """The sum of the files' sizes in bytes.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a", size=3), add("b", size=4))
        >>> builder.log.snapshot.size_in_bytes
        7
        """
        return self._compared(self._read(lambda files: files.size_in_bytes))

    @property
    def row_count(self) -> RowCount:
        """The number of rows of the version, according to its log; no data file is opened.

        The statistics of all files are read once. ``table.count()`` opens files without a count, and this
        property has its result from then on.

        >>> import deltanb as dn
        >>> dn.create("ducks", {"name": ["Donald", "Daisy"]}).snapshot.row_count
        RowCount(known=2, silent=0)
        """
        if self._rows is None:
            from deltanb.log.row_count import counted

            self._rows = counted(self)
        return self._rows

    @property
    def tally(self) -> Tally:
        """The tally of the files that a commit of this process records: carried on from the version before or
        its checksum if that is certainly right, else counted.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> tally = TableBuilder(MemoryStore()).create("id long").commit(add("a", size=3)).log.snapshot.tally
        >>> tally.num_files, tally.size_in_bytes
        (1, 3)
        """
        carried = self._state.tally
        return self._compared(self._read(lambda files: files.tally)) if carried is None else carried

    @property
    def files(self) -> pa.Table:
        """All files with every column of FILES_SCHEMA; :meth:`select_files` is cheaper.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> files = TableBuilder(MemoryStore()).create("id long").commit(add("a", size=3)).log.snapshot.files
        >>> files.select(["path", "size"]).to_pylist()
        [{'path': 'a', 'size': 3}]
        """
        files = self._read(lambda files: files.read(FILES_SCHEMA.names))
        _ = self.num_files, self.size_in_bytes  # which cost nothing any more
        return files

    def files_by(self, read: Callable[[FileSet], _T]) -> _T:
        """The result of reading the files; repeated if the checkpoint turns out to be damaged.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> snapshot = TableBuilder(MemoryStore()).create("id long").commit(add("a", size=3)).log.snapshot
        >>> snapshot.files_by(lambda files: (files.num_files, files.size_in_bytes))
        (1, 3)
        """
        table = self._read(read)
        _ = self.num_files  # costs nothing by now, and is compared with the checksum
        return table

    def _read(self, read: Callable[[FileSet], _T]) -> _T:
        """The result of reading the files; from an older checkpoint or the commits if the checkpoint is
        damaged.

        A checkpoint with intact footers can be opened, and a damaged page is detected when it is read.
        Nothing that depends on the order of the files may continue after this, since positions change.
        """
        try:
            return read(self._state.files)
        except InvalidTable as error:
            if "is_checkpoint" not in error.data:
                raise
            self._damaged |= frozenset(self._state.checkpoint)
            try:
                self._state = self.log.state_without(self.version, self._damaged)
            except DeltaError:
                raise error from None
            return self._read(read)

    def _compared(self, result: _T) -> _T:
        """A result, after comparing counts it made with the checksum."""
        if self._state.recorded is not None:
            self._state.recorded.note(self._state.files)
        return result

    def select_files(self, columns: Sequence[str], rows: pa.Array | None = None) -> pa.Table:
        """Files with only the named columns of FILES_SCHEMA, in the order of :attr:`files`.

        ``rows``: ascending positions of files, None for all; others are not read.

        Raises:
            KeyError: a name that is not in FILES_SCHEMA.

        >>> import pyarrow as pa
        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> snapshot = TableBuilder(MemoryStore()).create("id long").commit(add("a"), add("b")).log.snapshot
        >>> snapshot.select_files(["path"]).to_pylist()
        [{'path': 'a'}, {'path': 'b'}]
        >>> snapshot.select_files(["path"], pa.array([1])).to_pylist()
        [{'path': 'b'}]
        """
        if rows is None:
            return self._read(lambda files: files.read(list(columns)))
        return self._state.files.take(list(columns), rows)

    @property
    def candidates(self) -> FileSet:
        """The files and perhaps some that the newest commits removed: searches begin with these.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).log.snapshot.candidates.num_files
        2
        """
        return self._state.files.candidates()

    def live_files(self, columns: Sequence[str], rows: pa.Array) -> pa.Table:
        """The named columns of the files among :attr:`candidates` at ascending positions.

        >>> import pyarrow as pa
        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> snapshot = TableBuilder(MemoryStore()).create("id long").commit(add("a"), add("b")).log.snapshot
        >>> snapshot.live_files(["path"], pa.array([0])).to_pylist()
        [{'path': 'a'}]
        """
        return self._state.files.live_files(list(columns), rows)

    def stats_for(self, needed: Sequence[Stat], rows: pa.Array | None = None) -> pa.Table:
        """Typed statistics of the candidates, columns named by :attr:`Stat.name`.

        ``rows``: ascending positions of files, None for all. Statistics of all files are cached for the next
        call and the next version.

        >>> import deltanb as dn
        >>> from deltanb.log.skipping.stats import Stat
        >>> from deltanb.testing import MemoryStore
        >>> snapshot = dn.create(MemoryStore(), {"id": [3, 5]}).snapshot
        >>> stats = snapshot.stats_for([Stat("min", ("id",)), Stat("max", ("id",))])
        >>> [column.to_pylist() for column in stats.columns]
        [[3], [5]]
        """
        from deltanb.log.skipping import prune as skipping

        return skipping.read_stats(self.candidates, self.schema, needed, rows)

    @property
    def tombstones(self) -> pa.Table:
        """Removed files that the log still names, expired or not, by TOMBSTONES_SCHEMA.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add, remove
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).commit(remove("a"))
        >>> snapshot = builder.log.snapshot
        >>> snapshot.tombstones["path"].to_pylist(), snapshot.files["path"].to_pylist()
        (['a'], ['b'])
        """
        return self._read(lambda files: files.tombstones())

    def files_for_scan(
        self, *predicates: str | Predicate, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The files that may hold rows for which all predicates are true; FILES_SCHEMA.

        Files are skipped by their partition values and statistics, never wrongly. With ``columns``, only
        those columns of FILES_SCHEMA are read; statistics are most of a long file list.

        Raises:
            InvalidPredicate: syntax, or a column the table does not have.
            UnsupportedProtocol: a reader feature that this library does not have.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> _ = table.append({"id": [10, 20]})
        >>> table.snapshot.num_files, table.snapshot.files_for_scan("id > 5").num_rows
        (2, 1)
        """
        self.check_readable()
        if not predicates:
            return self.files if columns is None else self.select_files(columns)
        from deltanb.log.skipping import prune as skipping
        from deltanb.sql import predicates as language

        parsed = [language.parse(predicate, self.schema) for predicate in predicates]
        return self._read(lambda files: skipping.prune(self, parsed, columns))

    def verify_checksum(self) -> ChecksumVerification:
        """Compare the version's ``.crc`` file with the log:
        :func:`deltanb.log.verification.verify`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> checked = dn.create(MemoryStore(), {"id": [1]}).snapshot.verify_checksum()
        >>> checked.ok, checked.differences
        (True, ())
        """
        from deltanb.log.verification import verify

        return verify(self)

    def check_readable(self) -> None:
        """Refuse tables that this library cannot read; called before data is read.

        Raises:
            UnsupportedProtocol: naming the features.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).snapshot.check_readable()
        """
        from deltanb.schema.protocol import check_readable

        check_readable(self.protocol, self.log.path)


def _again(log: LogReader, version: int, table_id: str) -> Snapshot:
    """A snapshot that was pickled, read in this process.

    Raises:
        VersionNotFound: the version is gone.
        TableReplaced: another table is at the path by now.
    """
    if version < 0:
        return Snapshot(log, EMPTY)
    snapshot = log.snapshot_at(version)
    refuse_another(snapshot, "pickled", version, table_id)
    return snapshot


def refuse_another(current: Snapshot, did: str, version: int, table_id: str) -> None:
    """Refuse a table that has replaced the one with this id.

    Raises:
        TableReplaced: it is another table.
    """
    path = current.log.path
    if current.metadata.id != table_id:
        raise TableReplaced(
            f"version {version} of {path} was {did}, and another table is there by now (its id was "
            f"{table_id}, and is {current.metadata.id}); open it again: deltanb.open(path)",
            path=path, table_id=current.metadata.id)
