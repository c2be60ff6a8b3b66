"""Tables under locks: what a statement reads and writes is locked before it is looked at.

What lives here: :class:`LockedLog`, a log on which statements are staged and lock; and which parts of a table
a scan, or a file, belongs to (:func:`parts_read`, :func:`part_of`).
What it does not know: who gets a lock (``core``, ``granules``), what a statement does, rows and their keys
(``cursor``), how the tables of a transaction are committed (``locks/tables/table``).

What is locked is what the conflict rules would look at: the partitions that the conditions over partition
columns leave, or the whole table where there are none, or too many. So two transactions of this process that
keep to locks never meet a conflict at their commits, but for what is not there yet: a condition as
``month > 7`` locks the partitions that there are, and a cursor the row of a key. Where another transaction
adds a partition that meets the condition, or a statement of it a row of that key, the next statement or the
commit says so, as it does of another process. Another process knows nothing of these locks: the check
at the commit keeps it apart, as it does every other writer.

================  ==================  ==============================================================
what is done      locks a part        and the table above it
================  ==================  ==============================================================
a read            as the lock mode    with the intention to do so below; one that locks nothing sees what
                                      the manager's other transactions have not committed, but no history
a scan of a       exclusive           with the intention to write below
statement that
changes rows
rows added        intention to write  with the intention to write below: who adds does not keep others
                                      from adding, but from reading what was there
metadata, and     the whole table,
what is told      exclusive
of the protocol;
rows changed or
added where there
are identity
columns
================  ==================  ==============================================================

After each lock the table is looked at again: the locks keep what was read as it is, so its newest version is
as good a base for the next statement as the one that was read first (:meth:`StagedLog.follow
<deltanb.transaction.staging.StagedLog.follow>`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from deltanb import actions as delta
from deltanb.actions import Action, AddFile, Metadata, RemoveFile
from deltanb.errors import DeltaConcurrentModificationException, IllegalStateError, InvalidArgument
from deltanb.locks.core import keys
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    IS,
    IX,
    PARENT_INTENTION,
    SHARED,
    UPGRADABLE,
    DurabilityMode,
    LockMode,
    base_of,
)
from deltanb.log.skipping import partitions
from deltanb.schema.columns import START
from deltanb.schema.types import StructType
from deltanb.sql import expressions as ex
from deltanb.text.safe_text import last_part
from deltanb.transaction.delta_log import identity_of
from deltanb.transaction.reads import FileScan, Reads, Scan, scan_for
from deltanb.transaction.staging import StagedCommits, StagedLog, StagedTransaction
from deltanb.transaction.steps import Committed

if TYPE_CHECKING:
    from deltanb.locks.core.manager import LockManager
    from deltanb.locks.core.transaction import Transaction
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.current import CurrentTransaction
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.steps import Step
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_PARTS = 256
"""Partitions that one scan locks one by one; where there are more the table is locked as a whole."""

MAX_WAITS = 8
"""How often a command begins anew because what it waited for has changed the table; more than it waits."""

MAX_PINNED = 64
"""Partitions that ``IN`` lists may name before the table is looked at instead."""

NO_REDO = (
    "durability mode NO_REDO logs nothing, and a table is its log: set txn.durability_mode to SYNC, NO_SYNC "
    "or NO_FLUSH before you change a table")

READ_MODES = {LockMode.UPGRADABLE_READ: UPGRADABLE, LockMode.REPEATABLE_READ: SHARED,
              LockMode.READ_COMMITTED: SHARED}
"""What a read locks a part with, by the transaction's lock mode; the others lock nothing."""

T = TypeVar("T")

Part = tuple[str | None, ...]
"""A partition by its values as texts, in the order of the table's partition columns; not that of a file, in
which one value can be written in several ways, but the one way in which this library writes it."""


# -- which parts of a table ------------------------------------------------------------------------


def part_of(values: Mapping[str, str | None] | None, snapshot: Snapshot) -> Part:
    """The partition of a file, from its partition values as the log has them."""
    texts = []
    for name in snapshot.partition_columns:
        field = snapshot.schema.field(name)
        text = (values or {}).get(field.physical_name, (values or {}).get(field.name))
        texts.append(partitions.format_value(partitions.parse_value(text, field.type), field.type))
    return tuple(texts)


def parts_of(files: pa.Table, snapshot: Snapshot) -> set[Part] | None:
    """The partitions of files; None where they are too many to be locked one by one."""
    values = files["partition_values"].combine_chunks() if files.num_rows else None
    parts: set[Part] = set()
    seen: set[Any] = set()
    for start in range(0, files.num_rows, 10_000):
        for each in values.slice(start, 10_000).to_pylist(maps_as_pydicts="lossy"):  # type: ignore[union-attr]
            raw = tuple(sorted((each or {}).items()))
            if raw in seen:
                continue
            seen.add(raw)
            parts.add(part_of(each, snapshot))
            if len(parts) > MAX_PARTS:
                return None
    return parts


def parts_read(snapshot: Snapshot, scan: Scan) -> set[Part] | None:
    """The partitions that a scan reads, and those that it would read if they were there, as far as its
    condition names them; None for the whole table.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> table = TableBuilder(MemoryStore()).create("id long, month integer", partition_by=["month"])
    >>> snapshot = table.log.update()
    >>> parts_read(snapshot, scan_for(snapshot, ["month = 7 AND id > 3"]))
    {('7',)}
    >>> parts_read(snapshot, scan_for(snapshot, ["id > 3"])) is None
    True
    """
    columns = snapshot.partition_columns
    if scan.partitions is not None:
        return {part_of(dict(values), snapshot) for values in scan.partitions}
    if not columns or not scan.partition:
        return None
    pinned = _pinned(scan.partition, snapshot.schema, columns)
    if pinned is not None:
        return pinned
    parts = parts_of(snapshot.files_for_scan(*scan.partition), snapshot)
    return parts or None  # where none is there, one that comes cannot be named


def _pinned(predicates: Sequence[Predicate], schema: StructType, columns: Sequence[str]) -> set[Part] | None:
    """The only partitions that can match, where each column is compared for equality with constants."""
    values: list[list[Any]] = []
    for name in columns:
        constants = next((each for p in predicates if (each := _constants(p.expression, name)) is not None),
                         None)
        if constants is None:
            return None
        values.append(constants)
    fields = [schema.field(name) for name in columns]
    made: set[Part] = set()
    for count, combination in enumerate(itertools.product(*values)):
        if count >= MAX_PINNED:
            return None
        try:
            made.add(tuple(partitions.format_value(value, field.type)
                           for value, field in zip(combination, fields, strict=True)))
        except InvalidArgument:
            return None
    names = [field.physical_name for field in fields]
    listed = sorted(made, key=str)
    hits = partitions.matches([dict(zip(names, part, strict=True)) for part in listed], predicates, schema,
                              list(columns))
    return {part for part, is_hit in zip(listed, hits, strict=True) if is_hit} or None


def _constants(node: ex.Expression, name: str) -> list[Any] | None:
    """The constants that a condition lets a column be, if it says so."""
    if not isinstance(node, ex.Call) or not node.args:
        return None
    first, *others = node.args
    if node.op == "eq" and isinstance(first, ex.Literal):
        first, others = others[0], [first]
    if not isinstance(first, ex.Column) or len(first.path) != 1 or first.path[0].lower() != name.lower():
        return None
    if node.op == "in":
        return list(node.extra.values)
    if node.op != "eq" or not all(isinstance(each, ex.Literal) for each in others):
        return None
    return [each.value for each in others if isinstance(each, ex.Literal) and each.value is not None]


def key_of(part: Part | None) -> bytes:
    """The key of a partition's lock; None is the table. A table without partition columns has no others."""
    return keys.partition_key(part) if part else keys.table_key()


# -- the ids of tables -----------------------------------------------------------------------------

_indexes: WeakKeyDictionary[LockManager, dict[str, int]] = WeakKeyDictionary()
_indexes_lock = threading.Lock()


def index_of(manager: LockManager, log: DeltaLog) -> int:
    """The index id of a table: -1, -2, … in the order in which a manager meets them, whatever handle,
    path or name they come by."""
    with _indexes_lock:
        known = _indexes.setdefault(manager, {})
        identity = identity_of(log.store)
        if identity not in known:
            known[identity] = -1 - len(known)
            snapshot = log.snapshot
            manager.name_index(known[identity], name_of(log, snapshot), snapshot.partition_columns)
        return known[identity]


def name_of(log: DeltaLog, snapshot: Snapshot) -> str:
    """What a table is called in messages: in its catalog, in its metadata, or by the end of its path."""
    return log.name or snapshot.metadata.name or last_part(log.path)


# -- a log whose statements lock -------------------------------------------------------------------


class LockedTransaction(StagedTransaction):
    """A statement on a table under locks, or the reads between statements."""

    log: LockedLog
    mode: int | None = EXCLUSIVE
    """What a scan locks its parts with; None is nothing."""

    def filter_files(self, *predicates: str | Predicate) -> FileScan:
        """As of any transaction, on the newest version there is once the parts that are read are locked."""
        self._must_be_open()
        self._lock(lambda: parts_read(self.snapshot, scan_for(self.snapshot, predicates)))
        return super().filter_files(*predicates)

    def filter_files_in_partitions_of(self, files: Iterable[AddFile]) -> FileScan:
        """As of any transaction, once these partitions are locked."""
        self._must_be_open()
        files = list(files)
        self._lock(lambda: {part_of(file.partition_values, self.snapshot) for file in files})
        return super().filter_files_in_partitions_of(files)

    def read_whole_table(self) -> None:
        """As of any transaction, once the table is locked."""
        self._must_be_open()
        self._lock(lambda: None)
        super().read_whole_table()

    def _lock(self, parts_of_read: Callable[[], set[Part] | None]) -> None:
        """Lock parts and go to the newest version, until that one has no more of them."""
        locked: set[bytes] = set()
        while True:
            parts = None if self.log.counts_rows and self.mode == EXCLUSIVE else parts_of_read()
            new = {key_of(part) for part in parts} if parts else {keys.table_key()}
            if new <= locked:
                return
            if self.mode is not None:
                self.log.lock(new - locked, self.mode)
            locked |= new
            self.log.follow()
            self.snapshot = self.log.snapshot

    def update_metadata(self, metadata: Metadata, *, ignore_default_properties: bool = False) -> None:
        """As of any transaction, once the table is locked and has no newer metadata."""
        self._must_be_open()
        self._lock(lambda: None)
        super().update_metadata(metadata, ignore_default_properties=ignore_default_properties)

    def write_files(self, data: Any, write_options: Any = None, **settings: Any) -> list[AddFile]:
        """As of any transaction; where the table counts its rows, nobody else does so meanwhile."""
        if self.log.counts_rows and self.mode is not None:
            self._must_be_open()
            self._lock(lambda: None)
        return super().write_files(data, write_options, **settings)

    def prepare(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None,
        *, checked: bool = True,
    ) -> CurrentTransaction:
        """As of any transaction, once all that the actions touch is locked.

        Files that are written add rows; those that go were found by a scan, which has locked them.
        """
        actions = list(actions)
        modes: dict[bytes, int] = {}
        for action in actions:
            if isinstance(action, RemoveFile):
                modes[self._key_of(action)] = EXCLUSIVE
            elif isinstance(action, AddFile):
                modes.setdefault(self._key_of(action), IX)
        changes_table = self._new_metadata is not None or self._new_protocol is not None or any(
            isinstance(action, Metadata | delta.Protocol) for action in actions)
        if changes_table or len(modes) > MAX_PARTS:
            modes = {keys.table_key(): EXCLUSIVE}
        self.log.lock_all(modes)
        return super().prepare(actions, operation, checked=checked)

    def _key_of(self, action: AddFile | RemoveFile) -> bytes:
        return key_of(part_of(action.partition_values, self.snapshot))

    def _steps(self, current: CurrentTransaction, check: bool) -> Generator[Step, Any, Committed]:
        """One step: behind the statements of a transaction nobody else is first."""
        self._must_be_open()
        done = Committed(current.read_version + 1, 1, current.lines, current.isolation,
                         current.is_blind_append, current)
        self._note(None, done)
        yield done
        return done

    def run_post_commit_hooks(self) -> None:
        """Stage the statement, and have the transaction undo it if need be."""
        assert self._current is not None and isinstance(self.log.commits, StagedCommits)
        before = len(self.log.statements)
        try:
            self.log.commits.stage(self._current.read_version + 1, self._current.body)
            super().run_post_commit_hooks()
            self.log.owner.staged_one(before)
        except BaseException:  # a Ctrl-C between the two
            self.log.rollback_to(before)
            raise


class UncommittedReader(LockedTransaction):
    """A read of what nobody has committed yet, by a lock mode that locks nothing and remembers nothing."""

    mode = None

    def _lock(self, parts_of_read: Callable[[], set[Part] | None]) -> None:
        """Nothing: what is there now is read."""


class Owner(Protocol):
    """The owner of a log, which is called when statements begin and are staged."""

    def begins(self, flushes: bool = True) -> None:
        """A statement is about to begin, or a read; raises where the transaction has ended. One that sees
        what is uncommitted needs nothing flushed for it."""

    def staged_one(self, before: int) -> None:
        """A statement was staged behind ``before`` others."""

    def uncommitted(self) -> Snapshot:
        """The table with what all transactions of the manager have done to it so far."""


class LockedLog(StagedLog):
    """A table's log at a version, and the statements of a transaction that are staged behind it, each under
    the locks of what it reads and writes."""

    owner: Owner
    """The owner of this log."""

    def __init__(self, log: DeltaLog, txn: Transaction, index_id: int) -> None:
        super().__init__(log)
        self.txn, self.index_id = txn, index_id
        self.reads_history = False
        """Whether a read is one of versions, which uncommitted work is none of."""
        self.locks_parts = True
        """Whether statements lock parts; False while rows are written whose keys are locked, into the version
        that they were checked against."""

    def start_transaction(
        self, snapshot: Snapshot | None = None, *, clock: Callable[[], int] | None = None,
    ) -> OptimisticTransaction:
        """The next statement; it sees the newest version that agrees with what was done so far.

        Raises:
            IllegalStateError: the transaction has ended; or it logs nothing, so that nothing of a table can
                be made permanent.
        """
        self.owner.begins()
        if self.locks_parts:  # else it is of a commit, which knows its own
            self.check_durability()
        self.follow()
        self.begun.append(LockedTransaction(self, snapshot, clock))
        return self.begun[-1]

    def follow(self) -> bool:
        """As of any staged log, unless rows are being written: what comes then is the commit's affair."""
        return self.locks_parts and super().follow()

    @property
    def counts_rows(self) -> bool:
        """Whether rows are given numbers, the last of which is kept in the metadata."""
        return START in (self.snapshot.metadata.schema_string or "")

    def lock_before(self, mode: int) -> None:
        """Lock the table before a statement begins, which then sees what the lock keeps as it is."""
        if mode:
            self.lock([keys.table_key()], mode)
            self.follow()

    def mark_reads(self) -> int:
        """Where a scope begins, for :meth:`forget_reads`; what is read from here on is noted apart."""
        self._reader = None
        return len(self.begun)

    @property
    def has_begun(self) -> tuple[int, int]:
        """How many reads and statements have begun, and how many statements are staged."""
        return len(self.begun), len(self.statements)

    def has_nothing(self, since: tuple[int, int]) -> bool:
        """Whether what has begun since then has read nothing, and none of it is staged."""
        begun, statements = since
        return len(self.statements) == statements and all(txn.reads == Reads() for txn in self.begun[begun:])

    def again(self, work: Callable[[], T]) -> T:
        """Do some work; and where it had read and written nothing when it was told, under its first locks,
        that the table is another one by now, do it on that one."""
        for _ in range(MAX_WAITS):
            since = self.has_begun
            try:
                return work()
            except DeltaConcurrentModificationException:
                new = self.begun[since[0]:]
                if not new or not self.has_nothing(since) or any(txn.has_written for txn in new):
                    raise
            del self.begun[since[0]:]
            self._reader = None
            self.follow()
        return work()

    def forget(self, since: tuple[int, int]) -> None:
        """Take back the statements that were staged since then, and all that was read since."""
        begun, statements = since
        self.rollback_to(statements)
        self.forget_reads(begun)

    def forget_reads(self, begun: int) -> None:
        """Forget what was read since so many reads and statements had begun: its locks are gone."""
        del self.begun[begun:]
        self._reader = None

    def check_durability(self) -> None:
        """Refuse to change a table where nothing is to be logged.

        Raises:
            IllegalStateError: the durability mode is NO_REDO.
        """
        if self.txn.durability_mode is DurabilityMode.NO_REDO:
            raise IllegalStateError(NO_REDO)

    @property
    def reader(self) -> OptimisticTransaction:
        """Who remembers what is read between statements, as the lock mode says: what is not repeatable is
        not remembered, since nothing keeps it as it was."""
        sees_uncommitted = self.txn.lock_mode.is_dirty and not self.reads_history
        self.owner.begins(flushes=not sees_uncommitted)
        if sees_uncommitted:
            return UncommittedReader(self, self.owner.uncommitted())
        now, lock_mode = self.snapshot, self.txn.lock_mode
        mode = READ_MODES.get(lock_mode)
        reader = self._reader
        if not isinstance(reader, LockedTransaction) or reader.snapshot is not now or reader.mode != mode:
            reader = LockedTransaction(self, now)
            reader.mode = mode
            if lock_mode.is_repeatable:
                self.begun.append(reader)
            self._reader = reader
        return reader

    def lock(self, requested: Iterable[bytes], mode: int) -> None:
        """Lock keys, and what is above them with the intention.

        Raises:
            LockFailure: what is not granted; nothing of it is held then.
        """
        self.lock_all(dict.fromkeys(requested, mode))

    def lock_all(self, modes: Mapping[bytes, int]) -> None:
        """As :meth:`lock`, each key in a mode of its own."""
        if not self.locks_parts or not modes:
            return
        txn = self.txn
        txn.check()
        whole = base_of(txn.manager.held(txn._locker, (self.index_id, keys.table_key())))
        wants = sorted((key, mode) for key, mode in modes.items() if PARENT_INTENTION[mode] // IS > whole)
        if wants:  # who holds the whole table so holds each of its parts
            txn.manager.lock_tree(txn._locker, self.index_id, wants, txn.lock_timeout)
