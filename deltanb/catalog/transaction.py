"""A transaction over several tables of a catalog: the result of ``catalog.transaction()``.

What lives here: :class:`CatalogTransaction`: the tables as they were at one instant, the statements on them,
and their one commit.
What it does not know: what a statement does (``table/staged``), the algorithm (``transaction/group``), the
driver of its steps (``group``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from deltanb.catalog.delta.managed import ManagedCommitter, summary_of
from deltanb.catalog.group import GroupDrive
from deltanb.catalog.iceberg.commit import IcebergTable as Loaded
from deltanb.catalog.iceberg.member import IcebergMember
from deltanb.catalog.iceberg.table import StagedIcebergTable
from deltanb.catalog.progress import GroupAttempt, begun
from deltanb.catalog.store.names import TableName
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaConcurrentModificationException,
    IllegalStateError,
    add_note,
)
from deltanb.options import options, writer_name
from deltanb.table.staged import StagedChanges, StagedTable
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.safe_text import get_logger
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.drive import GivenUp, watcher
from deltanb.transaction.failed import leave_report
from deltanb.transaction.group import GroupCommitted, Member, group_steps, stand_steps
from deltanb.transaction.ids import deciding_id
from deltanb.transaction.staging import READ_ONLY, as_read_only_commit
from deltanb.transaction.writing import stopwatch

if TYPE_CHECKING:
    from deltanb.actions import Action
    from deltanb.catalog.catalog import Catalog
    from deltanb.catalog.progress import GroupCommit
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.conflicts import Conflict
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["CatalogTable", "CatalogTransaction"]

logger = get_logger("deltanb.catalog")


class CatalogTable(StagedTable):
    """A table within a transaction of its catalog: a table's methods, none of which commits by itself."""

    restart_hint = "catalog.transaction()"

    def __init__(self, log: DeltaLog, base: Snapshot, full_name: TableName) -> None:
        super().__init__(log, base)
        self.full_name = full_name
        """The name in the catalog, with its namespace."""


@dataclass
class _IcebergPart:
    """An Iceberg table's part in the commit."""

    table: StagedIcebergTable
    participant: IcebergMember

    @property
    def is_read_only(self) -> bool:
        return self.participant.change is None

    @property
    def does(self) -> str:
        return "UPDATE TABLE"

    @property
    def has_read(self) -> bool:
        return self.table.is_read

    def member(self, name: str) -> Member:
        return self.participant.member(name)

    def landed(self, version: int, follows: bool = True) -> None:
        """Do nothing: readers follow the catalog's pointer."""

    def failed(self) -> None:
        """Do nothing: its files are deleted with those of the table."""

    has_surely_not_landed = True


@dataclass
class _DeltaPart:
    """A Delta table's part in the commit: its transaction, actions and operation."""

    table: StagedChanges
    transaction: OptimisticTransaction
    actions: list[Action]
    operation: Operation

    @property
    def participant(self) -> ManagedCommitter:
        committer = self.transaction.committer
        assert isinstance(committer, ManagedCommitter)
        return committer

    @property
    def is_read_only(self) -> bool:
        return self.table.is_read_only

    @property
    def has_read(self) -> bool:
        return self.transaction.reads.depends_on_files

    @property
    def does(self) -> str:
        return self.operation.name

    @property
    def has_surely_not_landed(self) -> bool:
        return self.transaction.has_surely_not_landed

    def member(self, name: str) -> Member:
        """Its steps, for the algorithm."""
        txn, table_id = self.transaction, self.participant.table_id
        if not self.is_read_only:
            txn.joins_group = True
            return Member(name, table_id, txn.commit_steps(self.actions, self.operation), joins=True)
        return Member(name, table_id, stand_steps(
            as_read_only_commit(txn), max_attempts=options.max_commit_attempts, clock=stopwatch))

    def landed(self, version: int, follows: bool = True) -> None:
        """Run the hooks, unless they are switched off, and delete files that no version names."""
        try:
            if follows:
                self.transaction.run_post_commit_hooks()
        finally:
            committed = self.transaction.committed
            self.table.landed(self.transaction, version,
                              self.actions if committed is None else list(committed.actions))

    def failed(self) -> None:
        """Delete the files written for the commit itself."""
        self.table.discard(self.transaction)


_Part = _DeltaPart | _IcebergPart


@answer_wrong_arguments()
class CatalogTransaction(Displayable):
    """Changes to several tables of a catalog, committed together or not at all.

    All tables are read as they were when the transaction began; a statement sees the effects of those before
    it; nobody else sees them before the end of the block, which commits all of them in one step. An exception
    that leaves the block discards them. Reads count, also of tables that are not written: another commit that
    changes what was read is a conflict.

    Where two or more Delta tables are written and all of them have the table feature
    ``multiTableTransaction-dev`` (``add_feature``; off by default), the commit of each names all of them and
    their versions in an action ``transactionGroup``, as proposed in delta-io/delta#7438: whoever finds one of
    the commits knows the others. Since that names every table of the transaction, and every one has to have
    the feature, no commit has the action where a written Delta table lacks it, and a line of the log says so.
    Iceberg tables and tables that are only read are in no group. All are committed together in any case. The
    feature is an experiment: Delta Spark, Delta Kernel and delta-rs refuse to write a table with it.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> orders = catalog.create_table("shop.orders", "id long, price double")
    >>> totals = catalog.create_table("shop.totals", {"orders": [0]})
    >>> with catalog.transaction() as txn:
    ...     _ = txn.table("shop.orders").append({"id": [1], "price": [9.5]})
    ...     _ = txn.table("shop.totals").update({"orders": "orders + 1"})
    >>> orders.version, totals.to_arrow().to_pylist()
    (1, [{'orders': 1}])
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.txn_id: str = deciding_id(catalog.store.place_of_ids)
        """Written into the commit of every table."""
        self.read_seq: int = catalog.store.instant()
        """The catalog's transaction after which its tables are read."""
        self.status: Literal["open", "committing", "committed", "failed", "unknown", "abandoned"] = "open"
        self.committed: GroupCommitted | None = None
        """The commit, once it landed: its place in the catalog's order, and the version of each table."""
        self.error: BaseException | None = None
        """Why it failed, if it did."""
        self.drive: GroupDrive | None = None
        """Who takes the steps of the commit, once it has begun."""
        self._tables: dict[TableName, StagedChanges | StagedIcebergTable] = {}
        self._parts: dict[str, _Part] = {}

    @classmethod
    def of(cls, catalog: Catalog, tables: Mapping[str, StagedChanges]) -> CatalogTransaction:
        """The commit of tables, by name, on which statements were staged elsewhere.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///staged_elsewhere.db", warehouse="staged_elsewhere")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> CatalogTransaction.of(catalog, {}).tables
        {}
        """
        made = cls(catalog)
        made._tables = {TableName.of(name): table for name, table in tables.items()}
        return made

    # -- tables ------------------------------------------------------------------------------------

    def table(self, name: Any) -> Any:
        """A table as it was when the transaction began, with the changes made to it since.

        Returns:
            A Delta table with a table's methods, or an :class:`~deltanb.catalog.iceberg.table.IcebergTable`.

        Raises:
            TableNotFound: the table does not exist, or did not exist then.
            IllegalStateError: the transaction has ended.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_table.db", warehouse="txn_table")
        >>> catalog.create_namespace("shop")
        >>> orders = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> with catalog.transaction() as txn:
        ...     _ = txn.table("shop.orders").append({"id": [3]})
        ...     txn.table("shop.orders").count(), orders.count()
        (3, 2)
        """
        self._must_be_open("table")
        name = TableName.of(name)
        if name not in self._tables:
            loaded = self.catalog.table_at(name, self.read_seq)
            if isinstance(loaded, Loaded):
                self._tables[name] = StagedIcebergTable(self.catalog.iceberg, loaded, self._must_be_open)
            else:
                self._tables[name] = CatalogTable(*loaded, name)
        return self._tables[name]

    @property
    def tables(self) -> Mapping[str, StagedChanges | StagedIcebergTable]:
        """The tables used so far, by name.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_tables.db", warehouse="txn_tables")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> with catalog.transaction() as txn:
        ...     _ = txn.table("shop.orders").count()
        ...     list(txn.tables)
        ['shop.orders']
        """
        return {str(name): table for name, table in self._tables.items()}

    @property
    def group(self) -> GroupCommit | None:
        """The progress of its commit, tables by phases; None before the commit has begun.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_group.db", warehouse="txn_group")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> txn.group is None, txn.commit().seq, txn.group.state
        (True, 2, 'committed')
        """
        return None if self.drive is None else self.drive.progress

    @property
    def conflict(self) -> Conflict | None:
        """Why the commit failed, if another one was the reason.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_conflict.db", warehouse="txn_conflict")
        >>> catalog.create_namespace("shop")
        >>> orders = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").delete("id = 1")
        >>> _ = orders.delete("id = 1")
        >>> try:
        ...     txn.commit()
        ... except dn.errors.DeltaConcurrentModificationException:
        ...     print(txn.conflict.table, txn.conflict.rule)
        shop.orders append
        """
        error = self.error
        return error.conflict if isinstance(error, DeltaConcurrentModificationException) else None

    # -- the block ---------------------------------------------------------------------------------

    def __enter__(self) -> CatalogTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is not None:
            self.give_up()
        elif self.status == "open":
            self.commit()

    def commit(self) -> GroupCommitted | None:
        """Commit the changes of all tables in one step; the end of the block calls it.

        Returns:
            The commit, or None if no statement changed anything.

        Raises:
            DeltaConcurrentModificationException: another commit conflicts with what was read or changed here;
                see ``.conflict``. Nothing of any table was committed, and the files are deleted.
            CommitOutcomeUnknown: the catalog does not know the outcome; the files are retained.
            TableNotFound: a table was dropped or renamed meanwhile.
            IllegalStateError: it has ended already.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_commit.db", warehouse="txn_commit")
        >>> catalog.create_namespace("shop")
        >>> orders = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> txn.commit().seq, orders.version
        (2, 1)
        """
        drive = self.begin()
        if drive is None:
            return None
        try:
            drive.run(watcher(self))
        except BaseException as error:
            self.ended(error)
            raise
        return self.ended()

    def begin(self) -> GroupDrive | None:
        """The commit at its first step, for callers that take the steps one by one and call :meth:`ended`
        after the last; None if there is nothing to commit.

        Raises:
            IllegalStateError: it has ended already.
            InvalidArgument: it has more tables, or updates of one, than the catalog's limits allow.
            DeltaError: a table refuses the commit before anything is staged.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_begin.db", warehouse="txn_begin")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> txn.begin() is None  # no statement was made
        True
        """
        self._must_be_open("commit")
        self._end("has ended without a statement that changed anything", "abandoned")
        if all(table.is_read_only for table in self._tables.values()):
            return None
        self._end("is being committed", "committing")
        try:
            for name, table in self.tables.items():
                self._take_part(name, table)
            if self.catalog.limits is not None:  # else the server says
                updates = [len(part.table.updates) for part in self._parts.values()
                           if isinstance(part, _IcebergPart)]
                self.catalog.limits.require(len(self._parts), max(updates, default=0))
            self._note_reads_elsewhere()
            members = [part.member(name) for name, part in self._parts.items()]
        except BaseException as error:
            self.ended(error)
            raise
        summary = {name: READ_ONLY if part.is_read_only else part.does for name, part in self._parts.items()}
        pointed = [name for name, part in self._parts.items() if isinstance(part, _IcebergPart)]
        self.drive = GroupDrive(
            group_steps(members, self.txn_id, self.catalog.name),
            {name: part.participant for name, part in self._parts.items()},
            self.catalog.store, summary_of(summary), begun(self.txn_id, summary, pointed),
            self.catalog.limits)
        return self.drive

    @cached_property
    def _moment(self) -> int:
        """When it is committed, in epoch milliseconds: the same in the log of each of its tables."""
        return options.clock()

    def _take_part(self, name: str, table: StagedChanges | StagedIcebergTable) -> None:
        """A table that was asked for and neither read nor written takes none."""
        if isinstance(table, StagedIcebergTable):
            if table.takes_part:
                self._parts[name] = _IcebergPart(table, table.part())
            return
        txn, actions, operation = table.staged.together()
        txn.txn_id = self.txn_id
        txn.clock = lambda: self._moment
        if table.is_read_only and not (txn.reads.depends_on_files or txn.reads.app_ids):
            return
        self._parts[name] = _DeltaPart(table, txn, actions, operation)
        actions.extend(table.feed(txn))

    def stepper(self) -> upper.GroupStepper:
        """Step through the real commit by hand, instead of :meth:`commit`.

        Raises:
            IllegalStateError: it has ended, or nothing was done.

        Returns:
            A :class:`~deltanb.observe.stepper.GroupStepper`.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_stepper.db", warehouse="txn_stepper")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> txn.stepper().advance()
        '1 prepare shop.orders: 1 action, read v0'
        """
        return upper.GroupStepper(self)

    def transaction_of(self, name: str) -> OptimisticTransaction | None:
        """A Delta table's own transaction within the commit, once that has begun; None for other tables.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_of.db", warehouse="txn_of")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> _ = txn.commit()
        >>> txn.transaction_of("shop.orders").status
        'committed'
        """
        part = self._parts.get(name)
        return part.transaction if isinstance(part, _DeltaPart) else None

    def _note_reads_elsewhere(self) -> None:
        """Note that what is added to one table may depend on reads of another.

        Otherwise two transactions that each read a table and append to the other's would both be committed
        (write skew), since a table may be read across blind appends.
        """
        readers = {name for name, part in self._parts.items() if part.has_read}
        for name, part in self._parts.items():
            if isinstance(part, _DeltaPart):
                part.transaction._reads.elsewhere = bool(readers - {name})

    def ended(self, error: BaseException | None = None) -> GroupCommitted | None:
        """Finish after the last step: run hooks, or delete files. A committed transaction stays committed,
        whatever fails here.

        Returns:
            The commit, if it landed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_ended.db", warehouse="txn_ended")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> txn.begin() is None, txn.ended() is None
        (True, True)
        """
        if self.drive is not None:
            self.catalog.attempts.append(
                GroupAttempt.of(self.drive.progress, self.read_seq, writer_name()))
        done = self.drive.committed if self.drive is not None else None
        if done is not None:
            self._landed(done)
            return done
        self.error = error
        is_unknown = isinstance(error, CommitOutcomeUnknown) or any(
            not part.has_surely_not_landed for part in self._parts.values())
        if is_unknown:
            self._end("may have been committed; ask for the outcome of its txnId", "unknown")
            leave_report(self)
            return None
        if isinstance(error, GivenUp):
            self._end("was given up", "abandoned")
        else:
            self._end("has failed", "failed")
        for part in self._parts.values():
            part.failed()
        for table in self._tables.values():
            table.delete_written()
        if self.drive is not None:  # else there was no commit that could fail
            leave_report(self)
        return None

    def _landed(self, done: GroupCommitted) -> None:
        self.committed = done
        self._end(f"was committed as transaction {done.seq} of the catalog", "committed")
        interrupt: BaseException | None = None
        for name, part in self._parts.items():
            if name not in done.versions:
                continue
            try:
                part.landed(done.versions[name], follows=interrupt is None)
            except Exception as error:
                logger.warning("Version %d of %s is committed; what follows it failed: %s",
                               done.versions[name], name, error)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            add_note(interrupt, "the transaction was committed despite the interruption "
                                f"(txnId {self.txn_id})")
            raise interrupt

    def give_up(self) -> None:
        """Discard the statements and delete the files they wrote; does nothing after the end.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///txn_give_up.db", warehouse="txn_give_up")
        >>> catalog.create_namespace("shop")
        >>> orders = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> txn = catalog.transaction()
        >>> _ = txn.table("shop.orders").append({"id": [3]})
        >>> txn.give_up()
        >>> orders.version
        0
        """
        if self.status == "open":
            self._end("was given up", "abandoned")
            for table in self._tables.values():
                table.delete_written()

    def _end(self, how: str, status: Any) -> None:
        self.status = status
        for table in self._tables.values():
            if isinstance(table, StagedChanges):
                table.end = how

    def _must_be_open(self, what: str) -> None:
        if self.status != "open":
            raise IllegalStateError(
                f"{what}: the transaction {self.txn_id} of the catalog is {self.status}; begin another one "
                "with catalog.transaction()")

