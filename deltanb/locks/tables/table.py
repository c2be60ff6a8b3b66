"""Tables under locks, as a transaction holds them: their statements, and the one commit of all of them.

What lives here: :class:`LockedTable`, a table's methods under the locks of a transaction;
:class:`LockedTables`, all tables of a transaction; and what they have to commit or undo (:class:`Work`).
What it does not know: what is locked for a statement (``locks/tables/log``), how rows are stored by key
(``locks/tables/rows``), how a commit goes.

Tables by their paths have no common log, so one of them alone can be in a transaction; tables of one catalog
are committed as a group.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from deltanb.commands.result import CommandResult
from deltanb.errors import DeltaConcurrentModificationException, IllegalStateError, InvalidArgument
from deltanb.locks.core import keys
from deltanb.locks.core.commit import committing
from deltanb.locks.core.cursor import Key, Row, TableCursor
from deltanb.locks.core.modes import EXCLUSIVE, IX, NONE, DurabilityMode, LockMode
from deltanb.locks.tables.lockable import are_together, log_of, refuse_together
from deltanb.locks.tables.log import NO_REDO, LockedLog, index_of
from deltanb.locks.tables.rows import LockedRows, Undo
from deltanb.locks.tables.uncommitted import Doings, Uncommitted
from deltanb.options import options, set_options
from deltanb.store.local import sync_path
from deltanb.store.paths import place_of
from deltanb.table.contract import Call, Does
from deltanb.table.staged import StagedChanges, StagedTable
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.formatting import count
from deltanb.text.safe_text import shown
from deltanb.text.spellings import Number, answer_wrong_arguments
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.locks.core.manager import LockManager
    from deltanb.locks.core.transaction import Transaction
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.transaction import OptimisticTransaction

COMMITS = -(2**63)
"""The index id of the locks under which tables get the rows of cursors, each by its own id: one transaction
of the process at a time, so that none writes into a version that another one is about to replace."""


ROW, FLUSHED = "row", "flushed"
ROW_BYTES = 1 << 10
"""What a row that waits takes in memory, for a bound that need not be exact."""


@answer_wrong_arguments()
class LockedTable(StagedTable):
    """A table on which a transaction works under locks.

    It has the methods of a table; every statement locks what it reads and writes before it looks at it, and
    sees what those before it have done. Nobody else sees any of that before the transaction commits.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "coins": [0, 3]})
    >>> txn = dn.locks.LockManager().new_transaction()
    >>> ducks = txn.table(table)
    >>> _ = ducks.update({"coins": "coins + 1"}, where="name = 'Donald'")
    >>> with txn.scope():
    ...     _ = ducks.delete()
    ...     txn.rollback()
    >>> ducks.to_arrow().num_rows, txn.lock_check(-1, b"")
    (2, OWNED_EXCLUSIVE)
    >>> txn.commit(); table.version
    1
    """

    restart_hint = "the same transaction: it starts over"

    def __init__(self, tables: LockedTables, below: DeltaLog) -> None:
        self._tables, self._below = tables, below
        self._pinned = self._version = None

    @property
    def staged(self) -> LockedLog:  # type: ignore[override]
        """The statements of the transaction as it is now."""
        return self._tables.part(self._below).staged

    log = staged
    end = ""
    committed = None

    @property
    def version(self) -> int:
        """The version that statements build on: the newest one as of the last of them."""
        return Number(self.staged.base.version)

    def cursor(self, key: str | Sequence[str]) -> TableCursor:
        """A cursor over its rows: :meth:`Transaction.cursor`."""
        return self._tables.cursor(self._below, key)

    def _perform(self, call: Call) -> Any:
        """Do what is asked as one call of the transaction: a statement, or a read of rows."""
        does, txn = call.asked.does, self._tables.txn
        if not self._is_unsafe(does):
            self._admit(call.asked)
            if does is Does.READS_LOG:
                return call.on(self)
        with txn.operation(), self._tables.durability():
            if self._is_unsafe(does):
                return call.on(DeltaTable(self._below))
            # What cursors have stored becomes a statement, whose locks stay.
            reads_history = does is Does.READS_VERSIONS
            sees_uncommitted = does.is_read and txn.lock_mode.is_dirty and not reads_history
            self._tables.part(self._below).begins(flushes=not sees_uncommitted)
            staged, height = self.staged, len(txn._locker.entries)
            begun, staged.reads_history = staged.has_begun, reads_history
            keeps_locks = not does.is_read or txn.lock_mode.is_repeatable
            try:
                staged.lock_before(_mode_before(call, staged))
                if any(hasattr(each, "__next__") for each in (*call.args, *call.settings.values())):
                    return CommandResult.staged(call.on(self))  # rows that can be read but once
                return CommandResult.staged(staged.again(lambda: call.on(self)))
            except BaseException:
                keeps_locks = keeps_locks and not staged.has_nothing(begun)
                raise
            finally:
                if not keeps_locks:
                    txn.manager.give_back_tree(txn._locker, height)

    def _is_unsafe(self, does: Does) -> bool:
        """Whether it is done to the table itself, as others see it."""
        return not does.is_read and self._tables.txn.lock_mode is LockMode.UNSAFE

    def _writable(self, what: str) -> DeltaLog:
        return self._below if self._is_unsafe(Does.WRITES) else super()._writable(what)


def _mode_before(call: Call, log: LockedLog) -> int:
    """What a statement locks the table with in any case: that comes first, so that it begins with the version
    that its lock keeps."""
    does, settings = call.asked.does, call.settings
    replaces_all = does is Does.REPLACES and settings.get("where") is None and (
        settings.get("partition_overwrite") != "dynamic")
    if does is Does.DEFINES or replaces_all or (
            settings.get("merge_schema") or settings.get("overwrite_schema")):
        return EXCLUSIVE
    if does is Does.ADDS:
        return EXCLUSIVE if log.counts_rows else IX
    return NONE


class Done(NamedTuple):
    """Something that was done to a table: how it is taken back, and what it was."""

    take_back: Callable[[], None]
    table: str
    what: str
    """The operation of a statement, or :data:`ROW`; :data:`FLUSHED` where the rows became a statement."""
    key: Key | None = None
    """The key of a row."""


class Part(StagedChanges):
    """A table's part in what a transaction has done since it began, or began anew."""

    staged: LockedLog

    def __init__(self, work: Work, below: DeltaLog, staged: LockedLog) -> None:
        self.work, self.below = work, below
        super().__init__(staged)
        staged.owner = self
        self.rows: LockedRows | None = None
        self.flushed: Mapping[Key, Row | None] = {}
        """The rows that the commit has made a statement of."""
        self.is_flushing = False
        self.is_over = False
        """Whether the transaction goes on without it, so that nothing more can be done here."""
        self._uncommitted = Uncommitted(below)
        self._before_commit = 0, 0
        """What had begun before the commit (:attr:`LockedLog.has_begun`)."""
        self._has_not_landed = False
        """Whether a commit has failed, and surely is no version."""

    # -- what its log tells --------------------------------------------------------------------------

    def begins(self, flushes: bool = True) -> None:
        """A statement is about to begin, or a read: what cursors have stored becomes a statement before.

        Raises:
            IllegalStateError: the transaction has ended.
        """
        self.check_open("statement")
        if self.is_flushing:
            return
        if self.is_over:
            raise IllegalStateError(
                f"statement: what the transaction did to table {self.name} has ended, and this was begun "
                f"before; start over: txn.table(table)")
        if self.rows is None or not self.rows.writes or not flushes:
            return
        with self._flushing():
            rows, writes = self.rows, self.rows.flush()
        self.work.txn.changed(self.work, Done(lambda: rows.restore(writes), self.name, FLUSHED))

    def staged_one(self, before: int) -> None:
        """A statement was staged behind ``before`` others."""
        if not self.work.is_committing:
            what = self.staged.statements[before].operation.name
            self.work.txn.changed(self.work, Done(lambda: self.rollback_to(before), self.name, what))

    def stored(self, undo: Undo) -> None:
        """A cursor has stored a row."""
        rows, key, before = undo
        self.work.txn.changed(self.work, Done(lambda: rows.undo(key, before), self.name, ROW, key))

    def uncommitted(self) -> Snapshot:
        """The table with what all transactions of the manager have done to it so far."""
        self.work.txn.manager.refuse_to_show("reads what others have not committed")
        with _works_lock:
            works = sorted(_works.get(self.work.txn.manager, ()), key=lambda work: work.number)
        parts = [part for work in works if (part := work.parts.get(self.staged.index_id)) is not None]
        doings = [part.doings() for part in parts if not part.end]
        return self._uncommitted.snapshot(doings)

    def end_of_reads(self) -> None:
        """Delete what was written for reads of what nobody had committed."""
        self._uncommitted.end()

    def doings(self) -> Doings:
        """What the transaction has done to the table and not committed; any thread may ask."""
        if self.rows is None:
            return Doings(list(self.staged.statements))
        return Doings(list(self.staged.statements), self.rows.columns, dict(self.rows.writes))

    def rollback_to(self, count: int) -> None:
        """Take back statements; where a commit has begun they are its own affair, and it has done so, or
        nobody knows whether they are a part of the table."""
        if not self.end:
            self.staged.rollback_to(count)

    def cursor_rows(self, key: str | Sequence[str]) -> LockedRows:
        """The rows by a key; one key a table and transaction.

        Raises:
            InvalidArgument: no columns, or others than before.
        """
        self.check_open("cursor")
        names = (key,) if isinstance(key, str) else key
        if not isinstance(names, list | tuple) or not names:
            raise InvalidArgument(
                f'key takes names of columns, like key=["id"], found {type(key).__name__}: {shown(key)}')
        if self.rows is None:
            self.rows = LockedRows(self.staged, tuple(names), self.stored)
        elif tuple(map(str.lower, names)) != tuple(map(str.lower, self.rows.columns)):
            raise InvalidArgument(
                f"this transaction goes through table {self.rows.name} by {', '.join(self.rows.columns)}, "
                f"found {', '.join(names)}; locks by two keys would not know of each other")
        return self.rows

    # -- the commit ----------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """Whether anything was done to it."""
        return bool(self.staged.statements or (self.rows is not None and self.rows.writes))

    def flush(self) -> None:
        """Make a statement of what cursors stored, under the locks of the rows, for the commit."""
        self._before_commit = self.staged.has_begun
        if self.rows is None:
            return  # what was committed meanwhile is looked at where the next version is put
        self.staged.follow()
        with self._flushing():
            self.staged.locks_parts = False  # from here on nothing is read but the version it is at now
            self.rows.verify()
            self.flushed = self.rows.flush()

    @contextmanager
    def _flushing(self) -> Iterator[None]:
        self.is_flushing = True
        try:
            yield
        finally:
            self.is_flushing, self.staged.locks_parts = False, True

    def discard(self, txn: OptimisticTransaction) -> None:
        """Delete what the commit wrote; the statements can be committed again, so their files stay."""
        self._has_not_landed = True
        staged_paths = {file.path for statement in self.staged.statements for file in statement.written}
        txn.written = [file for file in txn.written if file.path not in staged_paths]
        txn.discard_written()

    def delete_written(self) -> None:
        """Nothing yet: as in :meth:`discard`."""
        self._has_not_landed = True

    def give_up(self) -> None:
        """Delete the files of all statements, unless they may be a part of the table."""
        if self._has_not_landed or not self.end:
            self.staged.rollback_to(0)

    def again(self) -> Part:
        """Itself before its commit, which has failed: with its statements, what it had read, and the rows to
        be stored."""
        self.staged.forget(self._before_commit)
        part = Part(self.work, self.below, self.staged)
        part.is_over = self.is_over
        if self.rows is not None:
            part.rows = self.rows
            part.rows.log = part.staged
            part.rows.restore(self.flushed)
        return part


_works: WeakKeyDictionary[LockManager, WeakSet[Work]] = WeakKeyDictionary()
_works_lock = threading.Lock()
_numbers = itertools.count()


class Work:
    """What a transaction has done to tables since it began, or began anew: what is committed, or undone."""

    commits_last = True
    """Its commit can fail and cannot be undone, so it follows that of what is in memory."""

    def __init__(self, txn: Transaction) -> None:
        self.txn = txn
        self.number = next(_numbers)
        self.parts: dict[int, Part] = {}
        self.is_committing = False
        with _works_lock:
            _works.setdefault(txn.manager, WeakSet()).add(self)
        self.has_unsynced = False
        """Whether files were written while the durability mode asked for no sync."""

    @property
    def has_landed(self) -> bool:
        """Whether it is committed, whatever came of the call that did so."""
        return any(part.committed is not None for part in self.parts.values())

    def part(self, index_id: int, below: DeltaLog) -> Part:
        """A table's part in it.

        Raises:
            InvalidArgument: the table cannot be committed together with those that are there.
        """
        if index_id not in self.parts:
            for other in self.parts.values():
                if not are_together(other.below, below):
                    refuse_together(other.below, below)
            self.parts[index_id] = Part(self, below, LockedLog(below, self.txn, index_id))
        return self.parts[index_id]

    def undo(self, change: Done) -> None:
        """Take a change back."""
        change.take_back()

    def describe(self, changes: Sequence[Done]) -> list[str]:
        """What some changes did, for people: statements by table, and how many rows cursors stored."""
        done: dict[str, list[str]] = {}
        rows: dict[str, set[Key | None]] = {}
        for change in changes:
            if change.what == ROW:
                rows.setdefault(change.table, set()).add(change.key)
            elif change.what == FLUSHED:
                rows.pop(change.table, None)
            else:
                done.setdefault(change.table, []).append(change.what)
        for table, stored in rows.items():
            done.setdefault(table, []).append(f"{count(len(stored), 'row')} by key")
        return [f"{table}: {', '.join(words)}" for table, words in done.items()]

    def size(self, changes: Sequence[Done]) -> int:
        """Bytes of the data files that statements wrote, and about as many as the rows of cursors take."""
        files = [file.size for part in self.parts.values() for statement in part.staged.statements
                 for file in statement.written]
        return sum(files) + ROW_BYTES * sum(change.what == ROW for change in changes)

    def seal(self) -> None:
        """The transaction is about to commit: what it has unlocked does not belong to it."""
        for part in self.parts.values():
            if part.rows is not None:
                part.rows.seal()

    def commit(self, changes: Sequence[Any], durability: DurabilityMode) -> None:
        """Commit all tables as one group, or the only one into its log."""
        if durability is DurabilityMode.NO_REDO:
            raise IllegalStateError(NO_REDO)
        self.is_committing = True
        with ExitStack() as stack:
            if durability is DurabilityMode.NO_SYNC:
                stack.enter_context(set_options(durability="none"))
            elif self.has_unsynced:
                for part in self.parts.values():
                    _sync(part.staged)
            stack.enter_context(self._one_at_a_time())
            stack.callback(committing.reset, committing.set(self.txn.manager))
            try:
                self._commit_all()
            except BaseException:
                for part in self.parts.values():
                    part.give_up()
                raise

    def _commit_all(self) -> None:
        for attempt in itertools.count():
            for part in self.parts.values():
                part.flush()
            try:
                return self._commit()
            except DeltaConcurrentModificationException as error:
                conflict = error
            if attempt >= options.max_commit_attempts or not self._begins_again():
                raise conflict

    def _begins_again(self) -> bool:
        """Whether there is another version to commit behind, where the conflict was with what cursors did.

        The rules compare files, and somebody's files may be in the way of rows that nobody else has touched.
        So the rows are written into the new version, once they and all that statements did agree with it.

        Raises:
            DeltaConcurrentModificationException: they do not.
        """
        if all(part.rows is None for part in self.parts.values()):
            return False
        self.parts = {index_id: part.again() for index_id, part in self.parts.items()}
        moved = [part.staged.follow() for part in self.parts.values()]
        return any(moved)

    def _commit(self) -> None:
        changed = [part for part in self.parts.values() if part.staged.statements]
        read = [part for part in self.parts.values() if part.staged.begun and part not in changed]
        if not changed:
            return
        if len(changed) == 1 and not read:
            changed[0].commit_staged()
            return
        upper.CatalogTransaction.of(
            changed[0].below.catalog, {str(part.below.name): part for part in (*changed, *read)}).commit()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        names = [(COMMITS, keys.encode((index_id,))) for index_id, part in self.parts.items()
                 if part.rows is not None and part.rows.writes]
        if not names:
            yield
            return
        self.txn.manager.name_index(COMMITS, "commit of rows")
        with self.txn.manager.new_transaction() as turn:
            turn.lock_many(names, timeout=-1)
            yield


class LockedTables:
    """The tables of a transaction: each is one table, however often the transaction begins anew."""

    def __init__(self, txn: Transaction) -> None:
        self.txn = txn
        self.work: Work | None = None
        self._handles: dict[int, LockedTable] = {}
        self._index_ids: WeakKeyDictionary[DeltaLog, int] = WeakKeyDictionary()

    def table(self, target: Any) -> LockedTable:
        """A table under the locks of the transaction.

        Args:
            target: a table, or its path or URI.

        Raises:
            InvalidArgument: no table, one that stands at a version, or one that cannot be committed together
                with those the transaction has.
        """
        self.txn.manager.refuse_explored("uses a transaction under locks that was begun outside of it",
                                         "begin it in the writer: with manager.new_transaction() as txn")
        below = target._below if isinstance(target, LockedTable) else log_of(target)
        index_id = self._index_of(below)
        if index_id not in self._handles:
            self._handles[index_id] = LockedTable(self, below)
        self.part(below)
        return self._handles[index_id]

    def cursor(self, target: Any, key: str | Sequence[str]) -> TableCursor:
        """A cursor over the rows of a table."""
        below = target._below if isinstance(target, LockedTable) else log_of(target)
        with self.txn.operation():
            self.part(below).cursor_rows(key)
        return TableCursor(self.txn, lambda: self.part(below).cursor_rows(key))

    def part(self, below: DeltaLog) -> Part:
        """A table's part in what the transaction does now."""
        self.txn.check()
        if self.work is None:
            self.work = Work(self.txn)
        return self.work.part(self._index_of(below), below)

    def _index_of(self, below: DeltaLog) -> int:
        """The index id of a table; found out once for each log."""
        index_id = self._index_ids.get(below)
        if index_id is None:
            index_id = self._index_ids[below] = index_of(self.txn.manager, below)
        return index_id

    @contextmanager
    def durability(self) -> Iterator[None]:
        """What files are written with, as the durability mode says; what is not synced now is noted."""
        if self.txn.durability_mode is DurabilityMode.SYNC:
            yield
            return
        if self.work is not None:
            self.work.has_unsynced = True
        with set_options(durability="none"):
            yield

    def check_durability(self, mode: DurabilityMode) -> None:
        """Refuse a durability mode in which what was done to tables could not be committed.

        Raises:
            IllegalStateError: NO_REDO, and something was done.
        """
        if mode is DurabilityMode.NO_REDO and self.work is not None and any(
                part.is_changed for part in self.work.parts.values()):
            raise IllegalStateError(NO_REDO.replace("before you change a table", "or roll back first"))

    def mark_reads(self) -> Mapping[int, int]:
        """How much was read of each table so far, for :meth:`forget_reads`."""
        parts = self.work.parts if self.work is not None else {}
        return {index_id: part.staged.mark_reads() for index_id, part in parts.items()}

    def forget_reads(self, since: Mapping[int, int]) -> None:
        """Forget what was read since then: the scope that did so was rolled back, and its locks with it."""
        for index_id, part in (self.work.parts if self.work is not None else {}).items():
            part.staged.forget_reads(since.get(index_id, 0))

    def seal(self) -> None:
        """The transaction is about to commit."""
        if self.work is not None:
            self.work.seal()

    def ended(self) -> None:
        """The transaction has ended, and begins anew; a commit that was put off goes on with its work."""
        for part in self.work.parts.values() if self.work is not None else ():
            part.is_over = True
            part.end_of_reads()
        self.work = None


def _sync(log: LockedLog) -> None:
    """Wait until the files of statements have reached the disk, and their names in the folders."""
    paths: set[str] = set()
    for statement in log.statements:
        for file in statement.written:
            store, name = place_of(log.store, file.path).opened()
            path, root = store.local_path(name), (store.local_path("") or "").rstrip(os.sep)
            while path is not None and root and path not in paths and path.startswith(root):
                paths.add(path)
                path = os.path.dirname(path)
    for path in paths:
        sync_path(path)
