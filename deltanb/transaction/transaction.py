"""The optimistic transaction: reads a snapshot, remembers what it read, commits its actions.

How it goes. A transaction *reads* one version of the table; each scan is remembered. It *writes* data files
to their final place, where no version names them yet. ``commit()`` has three parts:

* It *prepares*: the actions are checked in themselves, completed and fixed (``prepare.py``).
* It *commits*: the algorithm (``commit.py``) says step by step what to do next, and a drive (``drive.py``)
  does it by way of the committer. A winner that contradicts the reads ends it (``conflict_rules.py``), and
  nothing was written. The algorithm alone knows whether it has landed; the transaction listens to its steps.
* What *follows*: the log's snapshot moves up to the commit, and hooks run (``hooks.py``). What fails there is
  logged, and the commit stands.

What lives here: :class:`OptimisticTransaction`, the handle people hold: registries, guards, status, the
thread's active transaction. What it does not know: what conflicts, and what a commit must fulfil.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action, AddFile, Metadata, Protocol
from deltanb.concurrency.precedence import ahead
from deltanb.errors import (
    DeltaConcurrentModificationException,
    DeltaError,
    IllegalStateError,
    InvalidTransaction,
    require,
)
from deltanb.log.commit_times import timestamp_of
from deltanb.options import options, writer_name
from deltanb.schema.columns import SCHEMA_UPDATE, with_marks
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.safe_text import last_part, redacted
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction import active, rebase
from deltanb.transaction import commit as algorithm
from deltanb.transaction import hooks as post_commit
from deltanb.transaction.commit_stats import CommitStats, Laps, stats_of, tell_listeners
from deltanb.transaction.committer import Committer
from deltanb.transaction.conflicts import Conflict
from deltanb.transaction.current import SERIALIZABLE, SNAPSHOT_ISOLATION, CurrentTransaction
from deltanb.transaction.drive import GivenUp, drain, watcher
from deltanb.transaction.failed import leave_report
from deltanb.transaction.journal import journal_of
from deltanb.transaction.metadata_check import verify_new_metadata
from deltanb.transaction.new_table import completed
from deltanb.transaction.operations import Operation, as_operation
from deltanb.transaction.prepare import TWO_METADATA, describe, prepare
from deltanb.transaction.reads import FileScan, ReadRegistry, Scan, find_files, partition_key, partition_of
from deltanb.transaction.row_levels import NOTHING_SEEN
from deltanb.transaction.steps import Checked, Committed, LookCloser, Lost, PutIfAbsent, Step
from deltanb.transaction.writing import TransactionalWrite, delete_files, stopwatch

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.hook_failures import HookFailure


@answer_wrong_arguments(only=(
    "filter_files", "txn_version", "update_metadata", "commit", "commit_if_needed", "commit_large",
    "commit_steps", "stepper", "register_post_commit_hook"))
class OptimisticTransaction(TransactionalWrite, Displayable):
    """Changes to a table at one version, committed at once or not at all.

    Reading through the transaction records what was read; :meth:`commit` then fails only if a commit
    that landed meanwhile contradicts those reads, by the rules in ``deltanb.transaction.conflict_rules``.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> from deltanb.transaction.delta_log import DeltaLog
    >>> log = DeltaLog.for_table(TableBuilder(MemoryStore()).create("id long").store)
    >>> txn = log.start_transaction()
    >>> add = AddFile(path="a", partition_values={}, size=1, modification_time=1)
    >>> txn.commit([add], Operation("WRITE", {"mode": "Append"}))
    1
    >>> txn.status
    'committed'
    """

    _SETTINGS = ("_new_metadata", "_new_protocol", "_hooks")

    def __init__(
        self, log: DeltaLog, snapshot: Snapshot | None = None, clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(log, snapshot, clock)
        self.start_time: int = self.clock()
        """When it began, epoch milliseconds."""
        self.conflict: Conflict | None = None
        """Why the commit failed, if a winner was the reason."""
        self.error: BaseException | None = None
        """The exception that ended the commit; None if it was given up on purpose."""
        self.committed: Committed | None = None
        """The commit, once it landed."""
        self.attempts: list[Lost] = []
        """The races lost on the way, in order."""
        self.step: Step | None = None
        """The current step of the commit."""
        self.joins_group = False
        """Whether its driver commits several tables together, and answers the step ``Join``."""
        self._reads = ReadRegistry()
        self._new_metadata: Metadata | None = None
        self._new_protocol: Protocol | None = None
        self._hooks: tuple[post_commit.PostCommitHook, ...] = ()
        self._current: CurrentTransaction | None = None
        self._laps = Laps(options.timer())
        self._stats: CommitStats | None = None
        self._winners: dict[int, Sequence[Action]] = {}  # by version: those it was checked against
        self._superseded: frozenset[str] = frozenset()
        self._commit: algorithm.Run | None = None  # what the algorithm knows of its outcome
        self._put_at = 0

    # -- the version read ------------------------------------------------------------------------

    @property
    def read_version(self) -> int:
        """The version read; -1 where there was no table.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> from deltanb.transaction.delta_log import DeltaLog
        >>> log = TableBuilder(MemoryStore()).create().log
        >>> log.start_transaction().read_version
        0
        >>> DeltaLog.for_table(MemoryStore()).start_transaction().read_version
        -1
        """
        return self.snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The new metadata if this transaction sets it, else that of the version read.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.update_metadata(txn.metadata.replace(description="ducks"))
        >>> txn.metadata.description, txn.snapshot.metadata.description
        ('ducks', None)
        """
        return self._new_metadata if self._new_metadata is not None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The new protocol if this transaction sets it, else that of the version read.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.update_metadata(txn.metadata.replace(configuration={"delta.enableDeletionVectors": "true"}))
        >>> txn.protocol.supports("deletionVectors"), txn.snapshot.protocol.supports("deletionVectors")
        (True, False)
        """
        before = self.snapshot.protocol if self.read_version >= 0 else Protocol(1, 2)
        return before if self._new_protocol is None else self._new_protocol

    @property
    def table(self) -> str:
        """The table's name for messages: of its catalog or its metadata, or the last part of its path.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> TableBuilder(MemoryStore("memory:///lake/ducks")).create().log.start_transaction().table
        'ducks'
        """
        of_metadata = self.snapshot.metadata.name if self.read_version >= 0 else None
        return self.log.name or of_metadata or last_part(self.log.path) or redacted(self.log.path)

    # -- reading ---------------------------------------------------------------------------------

    def filter_files(self, *predicates: str | Predicate) -> FileScan:
        """The files that may hold rows for which all predicates (SQL) are true; no predicate is all.

        The scan is remembered by its conjuncts over partition columns, and by what others imply for
        generated ones; the files by their paths. A scan that finds nothing is remembered too.

        Raises:
            InvalidPredicate: syntax, or a column the table does not have.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2], "pond": ["a", "b"]}, partition_by="pond")
        >>> txn = table.log.start_transaction()
        >>> [file.partition_values for file in txn.filter_files("pond = 'a'", "id < 5")]
        [{'pond': 'a'}]
        >>> txn.reads.scans[0].text
        "pond = 'a' AND id < 5"
        """
        self._must_be_open()
        if self.read_version < 0:  # no table, so no columns to name and no files
            for predicate in predicates:
                require(predicate, str, "filter_files", "SQL texts")
            self._reads.scans.append(Scan(tuple(str(p) for p in predicates)))
            return self._remember(self.snapshot.files)
        scan, table = find_files(self.snapshot, predicates)
        self._reads.scans.append(scan)
        return self._remember(table)

    def filter_files_in_partitions_of(self, files: Iterable[AddFile]) -> FileScan:
        """The files in the partitions of the given ones, as a dynamic partition overwrite needs.

        The partitions are remembered as a predicate; the files are not, as nobody looked into them.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2], "pond": ["a", "b"]}, partition_by="pond")
        >>> txn = table.log.start_transaction()
        >>> new = txn.write_files({"id": [3], "pond": ["b"]})
        >>> [file.partition_values for file in txn.filter_files_in_partitions_of(new)]
        [{'pond': 'b'}]
        """
        self._must_be_open()
        partitions = frozenset(map(partition_of, files if isinstance(files, Iterable) else [files]))
        table = self.snapshot.files
        keys = [partition_key(dict(v) if v is not None else None)
                for v in table["partition_values"].to_pylist()]
        rows = [i for i, key in enumerate(keys) if key in partitions]
        self._reads.scans.append(Scan(partitions=partitions))
        import pyarrow as pa

        return FileScan(table.take(pa.array(rows, pa.int64())))

    def _remember(self, table: Any) -> FileScan:
        if table.num_rows:
            self._reads.files.append(table.select(["path", "partition_values"]))
        return FileScan(table)

    def read_whole_table(self) -> None:
        """Mark everything as read: any file added or removed by a winner is a conflict.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create()
        >>> txn = builder.log.start_transaction()
        >>> txn.read_whole_table()
        >>> _ = builder.commit(add("theirs"))
        >>> try:
        ...     txn.commit([AddFile(path="ours", partition_values={}, size=1, modification_time=1)], "WRITE")
        ... except DeltaConcurrentModificationException as error:
        ...     print(error.kind)
        CONCURRENT_APPEND
        """
        self._must_be_open()
        self._reads.scans.append(Scan())
        self._reads.whole_table = True

    def txn_version(self, app_id: str) -> int:
        """The last version an application wrote, -1 if none; a winner that writes it is a conflict.

        Raises:
            InvalidArgument: no application id.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]}, txn=("nightly", 7))
        >>> txn = table.log.start_transaction()
        >>> txn.txn_version("nightly"), txn.txn_version("another")
        (7, -1)
        """
        self._must_be_open()
        require(app_id, str, "txn_version", "an application id (a string)")
        self._reads.app_ids.add(app_id)
        return self.snapshot.set_transactions.get(app_id, -1)

    @property
    def reads(self) -> Any:
        """What was read so far, frozen (:class:`~deltanb.transaction.reads.Reads`).

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> txn = TableBuilder(MemoryStore()).create().commit(add("a")).log.start_transaction()
        >>> [file] = txn.filter_files("id = 1")
        >>> [scan.text for scan in txn.reads.scans], txn.reads.paths(10), txn.reads.whole_table
        (['id = 1'], ('a',), False)
        """
        return self._reads.freeze()

    # -- changing --------------------------------------------------------------------------------

    def update_metadata(
        self, metadata: Metadata, *, ignore_default_properties: bool = False
    ) -> None:
        """Set the table's metadata with this commit.

        Where there is no table yet it is completed as by :meth:`update_metadata_for_new_table`, unless
        ``ignore_default_properties`` says that it is to stay as it is, as that of a clone.

        Raises:
            InvalidTransaction: data was written already, or the metadata was set before.
            InvalidSchema, InvalidArgument: not metadata a table may have.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore()).create().log
        >>> txn = log.start_transaction()
        >>> txn.update_metadata(txn.metadata.replace(name="ducks"))
        >>> txn.commit((), "SET TBLPROPERTIES"), log.snapshot.metadata.name
        (1, 'ducks')
        """
        self._set_metadata(metadata, is_new=self.read_version < 0 and not ignore_default_properties)

    def _set_metadata(self, metadata: Metadata, is_new: bool) -> None:
        self._must_be_open()
        require(metadata, Metadata, "update_metadata", "a Metadata action")
        if self.has_written:
            raise InvalidTransaction(
                "Cannot update the metadata in a transaction that has already written data.")
        if self._new_metadata is not None:
            raise InvalidTransaction(TWO_METADATA)
        if is_new:
            metadata = completed(metadata)
        before = None if is_new or self.read_version < 0 else self.snapshot.metadata
        verify_new_metadata(metadata, self.table, before)
        self._new_metadata = metadata
        from deltanb.schema.protocol import upgraded

        needed = upgraded(self.protocol, metadata)
        if needed is not self.protocol:
            self._new_protocol = needed

    def update_metadata_for_new_table(self, metadata: Metadata, *, replaces: bool = False) -> None:
        """As :meth:`update_metadata`, for a table that does not exist yet, or takes one's place.

        It gets the session's ``default_table_properties`` where it sets none itself, ids for its columns
        where they are mapped, and names for the hidden columns of row tracking.

        Args:
            replaces: whether a table may be there, whose definition ends with this commit.

        Raises:
            IllegalStateError: the table exists.

        >>> from deltanb.schema.ddl import parse_schema
        >>> from deltanb.testing import MemoryStore
        >>> from deltanb.transaction.delta_log import DeltaLog
        >>> log = DeltaLog.for_table(MemoryStore())
        >>> txn = log.start_transaction()
        >>> schema = parse_schema("id long").to_json()
        >>> txn.update_metadata_for_new_table(Metadata(id="ducks", schema_string=schema))
        >>> txn.commit((), "CREATE TABLE"), log.snapshot.schema.names
        (0, ['id'])
        """
        if self.read_version >= 0 and not replaces:
            raise IllegalStateError(
                f"table {self.table} exists at version {self.read_version}; use update_metadata")
        self._set_metadata(metadata, is_new=True)

    def update_protocol(self, protocol: Protocol) -> None:
        """Set the table's protocol with this commit; what the metadata needs is added to it.

        Raises:
            InvalidArgument: no protocol.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore()).create().log
        >>> txn = log.start_transaction()
        >>> txn.update_protocol(Protocol(1, 4))
        >>> txn.commit((), "UPGRADE PROTOCOL"), log.snapshot.protocol.min_writer_version
        (1, 4)
        """
        self._must_be_open()
        require(protocol, Protocol, "update_protocol", "a Protocol action")
        self._new_protocol = protocol

    def register_post_commit_hook(self, hook: post_commit.PostCommitHook) -> None:
        """Run a hook (``name``, ``run``, ``handle_error``) after the commit; its failure undoes nothing.

        Raises:
            InvalidArgument: no hook.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> from deltanb.transaction.hooks import FunctionHook
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> versions = []
        >>> txn.register_post_commit_hook(
        ...     FunctionHook("note", lambda committed, snapshot: versions.append(committed.version)))
        >>> txn.commit(), versions
        (1, [1])
        """
        self._must_be_open()
        self._hooks = (*self._hooks, post_commit.as_hook(hook))

    # -- committing ------------------------------------------------------------------------------

    def commit(self, actions: Iterable[Action] = (), operation: Operation | str | None = None) -> int:
        """Commit the actions and return the version.

        Raises:
            DeltaConcurrentModificationException: a winner contradicts what was read or removed; see
                ``.conflict``. Nothing was written.
            InvalidTransaction: the actions are none that may be committed.
            StorageError: the store cannot be written or read. Nothing was written.
            TableNotFound, TableReplaced: the table was removed meanwhile. Nothing was written.
            MaxCommitRetriesExceeded, CommitOutcomeUnknown: see there.

        An interrupt (Ctrl-C) ends the commit once it is known what became of it: its notes say that the
        version is committed, if it is, or that this is unknown; :attr:`status` says it, too.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> one, other = table.log.start_transaction(), table.log.start_transaction()
        >>> one.commit([file.remove() for file in one.filter_files("id = 1")], "DELETE")
        1
        >>> try:
        ...     other.commit([file.remove() for file in other.filter_files("id = 2")], "DELETE")
        ... except DeltaConcurrentModificationException as error:
        ...     print(error.kind, other.status, other.conflict.version)
        CONCURRENT_DELETE_READ failed 1
        """
        return self._run(self.commit_steps(actions, operation))

    def commit_if_needed(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> int | None:
        """As :meth:`commit`, unless nothing would change: no action, metadata or protocol is there.

        Then nothing is committed, it stays open and None is returned; but where the table is
        ``WriteSerializable`` an operation that changes data is committed, as in Delta Spark.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.commit_if_needed((), "DELETE") is None, txn.status
        (True, 'open')
        """
        self._laps.prepared = options.timer()
        self._claim_id()
        current = self.prepare(actions, operation)
        if not current.actions and current.isolation in (SERIALIZABLE, SNAPSHOT_ISOLATION):
            return None
        self._current = current
        return self._run(self._steps(current, check=True))

    def commit_large(self, actions: Iterable[Action], operation: Operation | str | None = None) -> int:
        """Commit in one attempt, without conflict checks, and write a checkpoint.

        For operations that replace the table's state as a whole (RESTORE, CLONE, CONVERT).

        Raises:
            ConcurrentWriteException: the version is taken.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = TableBuilder(MemoryStore()).create().commit(add("a")).log
        >>> txn = log.start_transaction()
        >>> txn.commit_large([file.remove() for file in txn.filter_files()], "RESTORE")
        2
        """
        steps = self._begin(actions, operation, check=False)
        self._hooks = (post_commit.LargeCommitHook(), *self._hooks)
        return self._run(steps)

    def commit_steps(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> Generator[Step, Any, Committed]:
        """The steps of the commit, one by one, for a driver that answers them.

        The transaction is prepared (and refused, if need be) at the call. See
        :mod:`deltanb.transaction.steps` for the steps and their replies, and
        :func:`deltanb.transaction.drive.drain` for a driver. When the generator is closed before its
        end the transaction is abandoned. Post-commit hooks are the driver's: :meth:`run_post_commit_hooks`.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> steps = txn.commit_steps((), "Manual Update")
        >>> type(next(steps)).__name__, type(next(steps)).__name__
        ('Prepared', 'PutIfAbsent')
        >>> steps.close()  # nothing was put
        >>> txn.status
        'abandoned'
        """
        return self._begin(actions, operation, check=True)

    def stepper(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> upper.CommitStepper:
        """The commit, to be seen and driven by hand: :class:`~deltanb.observe.stepper.CommitStepper`.

        Raises:
            InvalidTransaction: as :meth:`commit`.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> stepper = txn.stepper((), "Manual Update")
        >>> _ = stepper.run()
        1 prepare: 0 actions, SnapshotIsolation
        2 put: v1 if it is absent
        3 committed v1 after 1 attempt
        """
        return upper.CommitStepper(self, actions, operation)

    def _begin(
        self, actions: Iterable[Action], operation: Operation | str | None, check: bool
    ) -> Generator[Step, Any, Committed]:
        self._laps.prepared = options.timer()
        self._claim_id()
        self._current = self.prepare(actions, operation, checked=check)
        return self._steps(self._current, check)

    def prepare(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None,
        *, checked: bool = True,
    ) -> CurrentTransaction:
        """The transaction as its commit would begin with it; nothing is written, and it stays open.

        ``checked=False`` is for a commit without conflict checks (:meth:`commit_large`).

        Raises:
            InvalidTransaction: as :meth:`commit`.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> current = txn.prepare((), "Manual Update")
        >>> current.isolation, current.is_blind_append, txn.status
        ('SnapshotIsolation', True, 'open')
        """
        from deltanb._version import __version__

        if self.status == "committed":
            raise InvalidTransaction("Transaction already committed.")
        self._must_be_open()
        chosen, new_metadata = as_operation(operation), self._new_metadata
        if self.identity_marks:
            new_metadata = with_marks(self.metadata, self.identity_marks)
            if self._new_metadata is None:
                chosen = chosen.replace(tags={**chosen.tags, **SCHEMA_UPDATE})
        snapshot, exists = self.snapshot, self.read_version >= 0
        mark, previous = rebase.MISSING_HIGH_WATER_MARK, None
        if exists:
            mark = rebase.parse_high_water_mark(snapshot.domain_metadata.get(rebase.ROW_TRACKING_DOMAIN))
            if rebase.in_commit_timestamps(self.metadata) or (
                    self._new_metadata is not None and rebase.in_commit_timestamps(snapshot.metadata)):
                previous = timestamp_of(snapshot)
        return prepare(
            table=self.table, txn_id=self.txn_id, read_version=self.read_version,
            read_metadata=snapshot.metadata if exists else None,
            read_protocol=snapshot.protocol if exists else None,
            read_row_id_mark=mark, previous_timestamp=previous,
            new_metadata=new_metadata, new_protocol=self._new_protocol,
            actions=actions, reads=self._reads.freeze(), operation=chosen, now=self.clock(),
            commit_info=describe(chosen, f"deltanb/{__version__}", writer_name(),
                                 options.user_metadata, options.metrics),
            checked=checked, records_commit_info=options.commit_info, is_managed=self.log.commits.is_managed,
            gives_row_ids=self.gives_row_ids,
        )

    def _run(self, steps: Generator[Step, Any, Committed]) -> int:
        try:
            with ahead():
                committed = drain(steps, self.committer, watcher(self), self._commit_lock())
                self.run_post_commit_hooks()
            return committed.version
        except BaseException as error:
            if self.status == "committing":  # its steps were ended between two instructions
                self._ended_with(error)
            self.note_outcome(error)
            leave_report(self)
            raise

    def _steps(
        self, current: CurrentTransaction, check: bool
    ) -> Generator[Step, Any, Committed]:
        """The algorithm's steps; the transaction listens to them and keeps what people ask."""
        self._must_be_open()
        self.status, is_done = "committing", False
        try:
            done = yield from algorithm.commit_steps(
                current, max_attempts=options.max_commit_attempts, clock=stopwatch, check_conflicts=check,
                backoff=options.backoff, is_final=self.committer.is_final, joins=self.joins_group,
                listen=self._note)
            is_done = True
            return done
        except BaseException as error:
            self._ended_with(error)
            raise
        finally:
            self._laps.ended = options.timer()
            journal_of(self.log).record(self)
            if not is_done:  # else with the hooks
                self._report()

    def _note(self, run: algorithm.Run | None, step: Step) -> None:
        """Keep what a step reports; the algorithm calls this before it yields the step."""
        if isinstance(self.step, PutIfAbsent):
            self._laps.writing += options.timer() - self._put_at
        elif isinstance(self.step, LookCloser):
            self._take_begun(self.step)
        self._commit, self.step = run, step
        match step:
            case Lost():
                self.attempts.append(step)
            case Checked():
                self._winners[step.version] = step.winner.actions
                if step.winner.seen is not NOTHING_SEEN:
                    self._superseded |= step.winner.seen.superseded
            case PutIfAbsent():
                self._laps.commit_size, self._put_at = len(step.body), options.timer()
            case Committed():
                self.status, self.committed, self._current = "committed", step, step.transaction
        algorithm.log_step(step, f"{self.log.path}/_delta_log")

    def _take_begun(self, look: LookCloser) -> None:
        """The files that a closer look has begun to write are the transaction's."""
        self.written.extend(file for file in look.begun if file not in self.written)

    def _ended_with(self, error: BaseException) -> None:
        """Keep the outcome when the steps end with an exception."""
        if isinstance(self.step, LookCloser):  # the interrupt came before its answer was noted
            self._take_begun(self.step)
        run = self._commit
        if run is not None and run.landed is not None:
            if self.committed is None:  # an interrupt came before its step was noted
                self._note(run, run.landed)
            return
        self.error = None if isinstance(error, GeneratorExit | GivenUp) else error
        self.status = "unknown" if self.may_have_landed else (
            "failed" if isinstance(error, DeltaError) else "abandoned")
        if isinstance(error, DeltaConcurrentModificationException):
            conflict = error.conflict
            self.conflict = error.conflict = None if conflict is None else conflict.dated(self.log)

    @property
    def may_have_landed(self) -> bool:
        """Whether its version may be this commit, although no answer says so.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> steps = txn.commit_steps()
        >>> _ = next(steps), next(steps)
        >>> txn.may_have_landed  # a put was asked for, and not answered
        True
        """
        return self._commit is not None and self._commit.may_have_landed

    def note_outcome(self, error: BaseException) -> None:
        """Add a note to an error: that the commit landed before it, or may have. Twice is harmless.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> _ = txn.commit()
        >>> error = KeyboardInterrupt()
        >>> txn.note_outcome(error)
        >>> print(error.__notes__[0])
        table ...: version 1 was committed despite the interruption ...
        """
        if self._commit is not None:
            self._commit.note_outcome(error)

    def _report(self, snapshot: Snapshot | None = None) -> None:
        """Tell journal and listeners how the commit ended; ``snapshot`` is the table after it."""
        self._stats = stats_of(self, self._laps, snapshot)
        if self._stats is not None:
            journal_of(self.log).complete(self._stats)
            tell_listeners(options.commit_listeners, self._stats)

    def run_post_commit_hooks(self) -> None:
        """Bring the log's snapshot up to the commit and run the hooks; the commit stands whatever fails.

        Where the table cannot be read after the commit a warning is logged, and no hook runs.

        Raises:
            InvalidTransaction: nothing was committed.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> from deltanb.transaction.drive import drain
        >>> log = TableBuilder(MemoryStore()).create().log
        >>> txn = log.start_transaction()
        >>> committed = drain(txn.commit_steps(), txn.committer)
        >>> log.snapshot.version
        0
        >>> txn.run_post_commit_hooks()
        >>> log.snapshot.version
        1
        """
        if self.committed is None:
            raise InvalidTransaction("Can't call post commit hooks before committing")
        if OptimisticTransaction.get_active() is self:
            OptimisticTransaction.clear_active()
        committed, begun = self.committed, options.timer()
        post_commit.publish(self.committer, committed.version)
        if self._superseded:
            delete_files(self.log.store, [file for file in self.written if file.path in self._superseded])
        try:
            winners, self._winners = self._winners, {}
            snapshot = self.log.advance(committed.version, committed.actions, self.written, winners)
            every = [*post_commit.builtin_hooks(committed, snapshot), *self._hooks]
        except Exception as error:
            self._report()
            post_commit.cannot_run(self.log, committed, error)
            return
        self._laps.following = options.timer() - begun
        self._report(snapshot)
        post_commit.run_hooks(every, committed, snapshot)

    @cached_property
    def committer(self) -> Committer:
        """Where this transaction's commit goes.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> type(TableBuilder(MemoryStore()).create().log.start_transaction().committer).__name__
        'FolderCommitter'
        """
        return self.log.committer(self.snapshot)

    def _commit_lock(self) -> AbstractContextManager[Any]:
        """The table's lock in this process, where a reader could see a commit half written."""
        visible = self.log.store.is_partial_write_visible
        is_locked = visible if options.commit_lock is None else options.commit_lock
        return self.log.commit_lock if is_locked else nullcontext()

    # -- what became of it -----------------------------------------------------------------------

    @property
    def prepared(self) -> CurrentTransaction | None:
        """As prepared for its commit and, once that landed, as committed: rebased on all winners.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.prepared is None, txn.commit((), "Manual Update"), txn.prepared.operation.name
        (True, 1, 'Manual Update')
        """
        return self._current

    @property
    def stats(self) -> CommitStats | None:
        """The commit in numbers, once it was tried and has come to an end.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.stats is None, txn.commit(), txn.stats.outcome, txn.stats.attempts
        (True, 1, 'committed', 1)
        """
        if self._stats is None and self._laps.ended is not None:
            self._stats = stats_of(self, self._laps)
        return self._stats

    @property
    def hook_failures(self) -> tuple[HookFailure, ...]:
        """The hooks that failed after its commit; :func:`deltanb.flush` waits for those still at work.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
        >>> txn.commit(), txn.hook_failures
        (1, ())
        """
        return journal_of(self.log).hook_failures(self.txn_id)

    def _must_be_open(self) -> None:
        if self.status != "open":
            raise IllegalStateError(f"the transaction on table {self.table} {self._ended()}; start a new one")

    def _ended(self) -> str:
        """Why nothing more can be done with it, as the end of a sentence."""
        if self.status == "committing":
            return "is being committed"
        if self.committed is not None:
            return f"has committed v{self.committed.version}"
        if self.status == "unknown":
            return f"may have committed; look whether its version carries txnId {self.txn_id}"
        if self.status == "failed":
            words = self.error.message.rstrip(".") if isinstance(self.error, DeltaError) else ""
            return f"has failed: {words}" if words else "has failed"
        return f"is {self.status}"

    # -- the thread's active transaction ---------------------------------------------------------

    @classmethod
    def get_active(cls) -> OptimisticTransaction | None:
        """The transaction that is active in this thread.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore()).create().log
        >>> log.with_new_transaction(lambda txn: OptimisticTransaction.get_active() is txn)
        True
        >>> OptimisticTransaction.get_active() is None
        True
        """
        return active.get()

    @classmethod
    def set_active(cls, txn: OptimisticTransaction) -> None:
        """Make a transaction this thread's active one.

        Raises:
            IllegalStateError: there is one already, or this one has come to its end.
            InvalidArgument: no transaction.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.log.start_transaction()
        >>> OptimisticTransaction.set_active(txn)
        >>> table.snapshot is txn.snapshot
        True
        >>> OptimisticTransaction.clear_active()
        """
        require(txn, OptimisticTransaction, "set_active", "an OptimisticTransaction")
        txn._must_be_open()
        active.set_(txn)

    @classmethod
    def clear_active(cls) -> None:
        """Leave this thread without an active transaction.

        >>> OptimisticTransaction.clear_active()
        >>> OptimisticTransaction.get_active() is None
        True
        """
        active.clear()

    @classmethod
    @contextmanager
    def with_active(cls, txn: OptimisticTransaction) -> Iterator[OptimisticTransaction]:
        """Make a transaction active for a block.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with OptimisticTransaction.with_active(table.log.start_transaction()) as txn:
        ...     table.snapshot is txn.snapshot
        True
        >>> OptimisticTransaction.get_active() is None
        True
        """
        cls.set_active(txn)
        try:
            yield txn
        finally:
            if cls.get_active() is txn:
                cls.clear_active()
