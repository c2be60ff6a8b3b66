"""The optimistic transaction: reads a snapshot, remembers what it read, commits its actions.

What lives here: :class:`OptimisticTransaction`, the handle people hold: registries, guards, status, the
thread's active transaction. What it does not know: how a commit goes (``commit.py``), what conflicts
(``rules.py``), what a commit must fulfil (``prepare.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deltanb.actions import Action, AddFile, Metadata, Protocol
from deltanb.display import Displayable
from deltanb.errors import (
    DeltaConcurrentModificationException,
    DeltaError,
    IllegalStateError,
    InvalidTransaction,
)
from deltanb.log.column_values import SCHEMA_UPDATE, with_marks
from deltanb.options import options
from deltanb.transaction import commit as algorithm
from deltanb.transaction import hooks as post_commit
from deltanb.transaction.committer import LogCommitter
from deltanb.transaction.conflicts import Conflict
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.journal import journal_of
from deltanb.transaction.metadata_check import verify_new_metadata
from deltanb.transaction.operations import Operation, as_operation
from deltanb.transaction.prepare import TWO_METADATA, describe, prepare
from deltanb.transaction.reads import FileScan, ReadRegistry, Scan, find_files, partition_key
from deltanb.transaction.rebase import (
    MISSING_HIGH_WATER_MARK,
    ROW_TRACKING_DOMAIN,
    in_commit_timestamps,
    parse_high_water_mark,
)
from deltanb.transaction.steps import Committed, Lost, PutIfAbsent, Step

if TYPE_CHECKING:
    from deltanb.log.delta_log import DeltaLog
    from deltanb.log.predicates import Predicate
    from deltanb.log.snapshot import Snapshot
    from deltanb.notebook.stepper import CommitStepper

Status = Literal["open", "committing", "committed", "failed", "abandoned"]


class OptimisticTransaction(Displayable):
    """Changes to a table at one version, committed at once or not at all.

    Reading through the transaction records what was read; :meth:`commit` then fails only if a commit
    that landed meanwhile contradicts those reads, by the rules in ``deltanb.transaction.rules``.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> from deltanb.log.delta_log import DeltaLog
    >>> log = DeltaLog.for_table(TableBuilder(MemoryStore()).create("id long").store)
    >>> txn = log.start_transaction()
    >>> add = AddFile(path="a", partition_values={}, size=1, modification_time=1)
    >>> txn.commit([add], Operation("WRITE", {"mode": "Append"}))
    1
    >>> txn.status
    'committed'
    """

    _thread: ClassVar[threading.local] = threading.local()

    def __init__(self, log: DeltaLog, snapshot: Snapshot | None = None) -> None:
        self.log = log
        self.snapshot: Snapshot = log.update() if snapshot is None else snapshot
        """The version this transaction reads."""
        self.txn_id: str = options.new_id()
        """Written into the commit; by it the transaction knows its own commit again."""
        self.start_time: int = options.clock()
        """When it began, epoch milliseconds."""
        self.status: Status = "open"
        self.conflict: Conflict | None = None
        """Why the commit failed, if a winner was the reason."""
        self.error: BaseException | None = None
        """Why the commit failed, whatever the reason."""
        self.committed: Committed | None = None
        """The commit, once it landed."""
        self.attempts: list[Lost] = []
        """The races lost on the way, in order."""
        self.step: Step | None = None
        """The step of the commit it stands at."""
        self.may_have_landed = False
        """Whether a put went unanswered, so that nobody knows whether its version is this commit."""
        self.has_written = False
        """Whether :meth:`write_files` was called; the metadata is fixed from then on."""
        self.written: list[AddFile] = []
        """Every file :meth:`write_files` wrote."""
        self.identity_marks: dict[str, int] = {}
        """The last value :meth:`write_files` gave to each identity column; the commit records it."""
        self._reads = ReadRegistry()
        self._new_metadata: Metadata | None = None
        self._new_protocol: Protocol | None = None
        self._hooks: list[post_commit.PostCommitHook] = []
        self._current: CurrentTransaction | None = None

    # -- the version read ------------------------------------------------------------------------

    @property
    def read_version(self) -> int:
        """The version read; -1 where there was no table."""
        return self.snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The new metadata if this transaction sets it, else that of the version read."""
        return self._new_metadata if self._new_metadata is not None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The new protocol if this transaction sets it, else that of the version read."""
        if self._new_protocol is not None:
            return self._new_protocol
        return self.snapshot.protocol if self.read_version >= 0 else Protocol(1, 2)

    @property
    def table(self) -> str:
        """The table's name for messages: the last part of its path."""
        if self.read_version >= 0 and self.snapshot.metadata.name:
            return self.snapshot.metadata.name
        return self.log.path.rstrip("/").rsplit("/", 1)[-1] or self.log.path

    # -- reading ---------------------------------------------------------------------------------

    def filter_files(self, *predicates: str | Predicate) -> FileScan:
        """The files that may hold rows for which all predicates (SQL) are true; no predicate is all.

        The scan is remembered by its conjuncts over partition columns, and by what others imply for
        generated ones; the files by their paths. A scan that finds nothing is remembered too.

        Raises:
            InvalidPredicate: syntax, or a column the table does not have.
        """
        self._must_be_open()
        if self.read_version < 0:  # no table, so no columns to name and no files
            self._reads.scans.append(Scan(tuple(str(p) for p in predicates)))
            return self._remember(self.snapshot.files)
        scan, table = find_files(self.snapshot, predicates)
        self._reads.scans.append(scan)
        return self._remember(table)

    def filter_files_in_partitions_of(self, files: Iterable[AddFile]) -> FileScan:
        """The files in the partitions of the given ones, as a dynamic partition overwrite needs.

        The partitions are remembered as a predicate; the files are not, as nobody looked into them.
        """
        self._must_be_open()
        wanted = frozenset(partition_key(f.partition_values) for f in files)
        table = self.snapshot.files
        keys = [partition_key(dict(v) if v is not None else None)
                for v in table["partition_values"].to_pylist()]
        rows = [i for i, key in enumerate(keys) if key in wanted]
        self._reads.scans.append(Scan(partitions=wanted))
        import pyarrow as pa

        return FileScan(table.take(pa.array(rows, pa.int64())))

    def _remember(self, table: Any) -> FileScan:
        if table.num_rows:
            self._reads.files.append(table.select(["path", "partition_values"]))
        return FileScan(table)

    def read_whole_table(self) -> None:
        """Mark everything as read: any file added or removed by a winner is a conflict."""
        self._must_be_open()
        self._reads.scans.append(Scan())
        self._reads.whole_table = True

    def txn_version(self, app_id: str) -> int:
        """The last version an application wrote, -1 if none; a winner that writes it is a conflict."""
        self._must_be_open()
        self._reads.app_ids.add(app_id)
        return self.snapshot.set_transactions.get(app_id, -1)

    @property
    def reads(self) -> Any:
        """What was read so far, frozen (:class:`~deltanb.transaction.reads.Reads`)."""
        return self._reads.freeze()

    # -- changing --------------------------------------------------------------------------------

    def update_metadata(self, metadata: Metadata) -> None:
        """Set the table's metadata with this commit.

        Raises:
            InvalidTransaction: data was written already, or the metadata was set before.
            InvalidSchema, InvalidArgument: not metadata a table may have.
        """
        self._must_be_open()
        if self.has_written:
            raise InvalidTransaction(
                "Cannot update the metadata in a transaction that has already written data.")
        if self._new_metadata is not None:
            raise InvalidTransaction(TWO_METADATA)
        verify_new_metadata(metadata, self.table)
        self._new_metadata = metadata
        from deltanb.log.protocol import upgraded

        needed = upgraded(self.protocol, metadata)
        if needed is not self.protocol:
            self._new_protocol = needed

    def update_metadata_for_new_table(self, metadata: Metadata) -> None:
        """As :meth:`update_metadata`, for a table that does not exist yet.

        Raises:
            IllegalStateError: the table exists.
        """
        if self.read_version >= 0:
            raise IllegalStateError(
                f"table {self.table} exists at version {self.read_version}; use update_metadata")
        self.update_metadata(metadata)

    def update_protocol(self, protocol: Protocol) -> None:
        """Set the table's protocol with this commit; what the metadata needs is added to it."""
        self._must_be_open()
        self._new_protocol = protocol

    def write_files(self, data: Any, **settings: Any) -> list[AddFile]:
        """Write rows as data files in their final place and describe them.

        Args:
            data: Arrow, pandas or Python rows, written in the process; or a Spark DataFrame, written
                by Spark.
            settings: ``target_file_size`` in bytes, ``data_change``.

        The files are not part of the table before :meth:`commit`. If writing fails they are removed.

        Raises:
            SchemaMismatch, ConstraintViolation: the rows do not fit the table.
        """
        self._must_be_open()
        self.has_written = True
        engine = "spark" if type(data).__module__.partition(".")[0] == "pyspark" else "data"
        write = import_module(f"deltanb.{engine}.write").write_files
        added = write(self.log.store, self.metadata, self.protocol, data,
                      marks=self.identity_marks, **settings)
        self.written.extend(added)
        return list(added)

    def register_post_commit_hook(self, hook: post_commit.PostCommitHook) -> None:
        """Run a hook after the commit; its failure does not undo the commit."""
        self._hooks.append(hook)

    # -- committing ------------------------------------------------------------------------------

    def commit(self, actions: Iterable[Action] = (), operation: Operation | str | None = None) -> int:
        """Commit the actions and return the version.

        Raises:
            DeltaConcurrentModificationException: a winner contradicts what was read or removed; see
                ``.conflict``. Nothing was written.
            InvalidTransaction: the actions are none that may be committed.
            MaxCommitRetriesExceeded, CommitOutcomeUnknown: see there.
        """
        return self._run(self.commit_steps(actions, operation))

    def commit_large(
        self, actions: Iterable[Action], operation: Operation | str | None = None
    ) -> int:
        """Commit in one attempt, without conflict checks, and write a checkpoint.

        For operations that replace the table's state as a whole (RESTORE, CLONE, CONVERT).

        Raises:
            ConcurrentWriteException: the version is taken.
        """
        version = self._run(self._begin(actions, operation, check=False))
        self.log.checkpoint(version)
        return version

    def commit_steps(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> Generator[Step, Any, Committed]:
        """The steps of the commit, one by one, for a driver that answers them.

        The transaction is prepared (and refused, if need be) at the call. See
        :mod:`deltanb.transaction.steps` for the steps and their replies, and
        :func:`deltanb.transaction.commit.drain` for a driver. When the generator is closed before its
        end the transaction is abandoned. Post-commit hooks are the driver's:
        :meth:`run_post_commit_hooks`.
        """
        return self._begin(actions, operation, check=True)

    def stepper(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> CommitStepper:
        """The commit, to be seen and driven by hand: :class:`~deltanb.notebook.stepper.CommitStepper`.

        Raises:
            InvalidTransaction: as :meth:`commit`.
        """
        from deltanb.notebook.stepper import CommitStepper

        return CommitStepper(self, actions, operation)

    def _begin(
        self, actions: Iterable[Action], operation: Operation | str | None, check: bool
    ) -> Generator[Step, Any, Committed]:
        self._current = self.prepare(actions, operation)
        return self._steps(self._current, check)

    def prepare(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None
    ) -> CurrentTransaction:
        """The transaction as its commit would begin with it; nothing is written, and it stays open.

        Raises:
            InvalidTransaction: as :meth:`commit`.
        """
        from deltanb import __version__

        if self.status == "committed":
            raise InvalidTransaction("Transaction already committed.")
        self._must_be_open()
        chosen, new_metadata = as_operation(operation), self._new_metadata
        if self.identity_marks:
            new_metadata = with_marks(self.metadata, self.identity_marks)
            if self._new_metadata is None:
                chosen = chosen.replace(tags={**chosen.tags, **SCHEMA_UPDATE})
        snapshot, exists = self.snapshot, self.read_version >= 0
        mark, previous = MISSING_HIGH_WATER_MARK, None
        if exists:
            mark = parse_high_water_mark(snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN))
            if in_commit_timestamps(snapshot.metadata) or in_commit_timestamps(self.metadata):
                previous = snapshot.timestamp
        return prepare(
            table=self.table, txn_id=self.txn_id, read_version=self.read_version,
            read_metadata=snapshot.metadata if exists else None,
            read_protocol=snapshot.protocol if exists else None,
            read_row_id_mark=mark, previous_timestamp=previous,
            new_metadata=new_metadata, new_protocol=self._new_protocol,
            actions=actions, reads=self._reads.freeze(), operation=chosen, now=options.clock(),
            commit_info=describe(chosen, f"deltanb/{__version__}", options.user_name,
                                 options.user_metadata, options.metrics),
        )

    def _steps(
        self, current: CurrentTransaction, check: bool
    ) -> Generator[Step, Any, Committed]:
        """The algorithm's steps, with this transaction's status kept beside them."""
        self._must_be_open()
        self.status = "committing"
        steps = algorithm.commit_steps(
            current, max_attempts=options.max_commit_attempts, clock=options.clock,
            check_conflicts=check, backoff=options.backoff,
        )
        reply: Any = None
        try:
            while True:
                step = steps.send(reply)
                self._note(step)
                reply = yield step
                if isinstance(step, PutIfAbsent):
                    self.may_have_landed = reply is not False
        except StopIteration as stop:
            done: Committed = stop.value
            return done
        except GeneratorExit:
            if self.status == "committing":
                self.status = "abandoned"
            raise
        except BaseException as error:
            self.status, self.error = "failed", error
            if isinstance(error, DeltaConcurrentModificationException):
                self.conflict = error.conflict
            raise
        finally:
            journal_of(self.log).record(self)

    def _note(self, step: Step) -> None:
        self.step = step
        algorithm.log_step(step, f"{self.log.path}/_delta_log")
        match step:
            case Lost():
                self.may_have_landed = False  # the version is someone else's
                self.attempts.append(step)
            case Committed():
                self.status, self.committed = "committed", step

    def _run(self, steps: Generator[Step, Any, Committed]) -> int:
        watch = algorithm.watching.get()
        listen = None if watch is None else partial(watch, self)
        committed = algorithm.drain(steps, self.committer, listen, self._commit_lock())
        self.run_post_commit_hooks()
        return committed.version

    @property
    def committer(self) -> algorithm.Committer:
        """Where this transaction's commit goes."""
        return LogCommitter(self.log)

    def _commit_lock(self) -> AbstractContextManager[Any]:
        """The table's lock in this process, where a reader could see a commit half written."""
        wanted = options.commit_lock
        if wanted is None:
            wanted = self.log.store.is_partial_write_visible
        return self.log.commit_lock if wanted else nullcontext()

    def run_post_commit_hooks(self) -> None:
        """Bring the log's snapshot up to the commit and run the hooks; the commit stands whatever fails.

        Raises:
            InvalidTransaction: nothing was committed.
        """
        if self.committed is None:
            raise InvalidTransaction("Can't call post commit hooks before committing")
        if OptimisticTransaction.get_active() is self:
            OptimisticTransaction.clear_active()
        committed = self.committed
        snapshot = self.log.advance(committed.version, committed.actions, self.written)
        every = [*post_commit.builtin_hooks(committed, snapshot), *self._hooks]
        post_commit.run_hooks(every, committed, snapshot)

    @property
    def has_surely_not_landed(self) -> bool:
        """Whether the files it wrote are no part of the table, whatever happens."""
        return self.status not in ("committed", "committing") and not self.may_have_landed

    def discard_written(self) -> None:
        """Delete the files this transaction wrote; for a command that is refused in the end.

        Raises:
            IllegalStateError: the transaction committed, or may have; its files may belong to the table.
        """
        if not self.has_surely_not_landed:
            state = "may have landed" if self.may_have_landed else f"is {self.status}"
            raise IllegalStateError(f"the transaction {state}; its files stay")
        from deltanb.actions import decode_path

        for add in self.written:
            store, name = self.log.store.resolve(decode_path(add.path))
            store.delete(name)
        self.written.clear()

    @property
    def prepared(self) -> CurrentTransaction | None:
        """The transaction as it was prepared for its commit; None before."""
        return self._current

    def _must_be_open(self) -> None:
        if self.status != "open":
            raise IllegalStateError(f"the transaction on table {self.table} {self._ended()}; start a new one")

    def _ended(self) -> str:
        """Why nothing more can be done with it, as the end of a sentence."""
        if self.status == "committing":
            return "is being committed"
        if self.committed is not None:
            return f"has committed v{self.committed.version}"
        if self.status == "failed":
            words = str(self.error).rstrip(".") if isinstance(self.error, DeltaError) else ""
            return f"has failed: {words}" if words else "has failed"
        return f"is {self.status}"

    # -- the thread's active transaction ---------------------------------------------------------

    @classmethod
    def get_active(cls) -> OptimisticTransaction | None:
        """The transaction that is active in this thread."""
        return getattr(cls._thread, "active", None)

    @classmethod
    def set_active(cls, txn: OptimisticTransaction) -> None:
        """Make a transaction this thread's active one.

        Raises:
            IllegalStateError: there is one already.
        """
        if cls.get_active() is not None:
            raise IllegalStateError("Cannot set a new txn as active when one is already active")
        cls._thread.active = txn

    @classmethod
    def clear_active(cls) -> None:
        """Leave this thread without an active transaction."""
        cls._thread.active = None

    @classmethod
    @contextmanager
    def with_active(cls, txn: OptimisticTransaction) -> Iterator[OptimisticTransaction]:
        """Make a transaction active for a block."""
        cls.set_active(txn)
        try:
            yield txn
        finally:
            cls.clear_active()

