"""The transaction: the whole contract of locks and nested scopes, in one file to be read from top to bottom.

What lives here: :class:`Transaction`; scopes, with what each changed and how it is undone.
What it does not know: who gets a lock (``core``), how a thread waits (``manager``), which of its locks may be
unlocked (``stack``), what a change is (``commit``), where a commit that is put off waits (``buffer``), the
transaction that is none (``bogus``).

Scopes nest: each has a lock mode, a timeout, the locks it took and the changes it made. The outermost one is
there from the start and again after its end: a transaction is never used up. There is no log that other
machines follow, so ``id`` names a transaction in messages and pictures and ``flush()`` publishes the commits
that ``NO_FLUSH`` has put off; nothing else stands in for replication.

One thread at a time uses a transaction, any thread; locks belong to the transaction. A second call while one
is in progress raises; only ``interrupt()`` and ``waiting`` are meant for other threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from deltanb.errors import IllegalStateError, InvalidArgument, InvalidTransactionError, add_note
from deltanb.locks.core.commit import Changes, CommitCallback, Participant, publish, undo
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    MODE_NAMES,
    NONE,
    SHARED,
    UPGRADABLE,
    DurabilityMode,
    LockMode,
    LockResult,
    Name,
    named,
    word,
)
from deltanb.locks.core.names import called, chosen_name, short
from deltanb.locks.core.refusals import Timeout, attached_text, seconds
from deltanb.locks.core.scopes import Scope, ScopeState, Waiting
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.locks.core.manager import LockManager

NO_CAUSE: Final = object()  # ``reset()`` is not ``reset(None)``
NO_READS: Final[Mapping[int, int]] = MappingProxyType({})


@answer_wrong_arguments(only=("lock_many", "table", "cursor", "attach", "reset"))  # one lock takes 0.8 µs
class Transaction(Displayable):
    """Locks and changes that end together, in scopes that nest.

    Made by :meth:`LockManager.new_transaction() <deltanb.locks.core.manager.LockManager.new_transaction>`.
    Index ids are integers of 64 bits, keys are bytes (other bytes-like objects are copied), timeouts are
    seconds or a ``timedelta``: None is the transaction's own, 0 does not wait, negative waits forever.

    >>> from deltanb.locks import LockManager
    >>> txn = LockManager().new_transaction()
    >>> txn.lock_upgradable(1, b"k"), txn.lock_exclusive(1, b"k"), txn.lock_check(1, b"k")
    (ACQUIRED, UPGRADED, OWNED_EXCLUSIVE)
    >>> with txn.scope():
    ...     _ = txn.lock_shared(1, b"j")
    ...     txn.nesting_level
    1
    >>> txn.commit(); txn.lock_check(1, b"k")
    UNOWNED

    Every lock call raises ``LockTimeoutError`` where the lock is not free in time, ``DeadlockError`` (which
    is one, too) where transactions wait for each other, ``LockInterruptedError`` after an ``interrupt()`` or
    once the manager is closed, ``IllegalUpgradeError`` where the upgrade rule forbids it,
    ``InvalidTransactionError`` once the transaction is disabled, and ``IllegalStateError`` while another
    thread is in a call of it.
    """

    BOGUS: ClassVar[Transaction]
    """No transaction at all: reads see everything, writes are permanent at once, nothing is locked."""

    __slots__ = ("__weakref__", "_cause", "_changes", "_durability", "_height", "_is_named", "_lock_mode",
                 "_lock_timeout", "_locker", "_manager", "_reads", "_scopes", "_tables")

    def __init__(self, manager: LockManager, name: str | None = None) -> None:
        self._manager = manager
        self._is_named, chosen = name is not None, chosen_name(name)
        with manager._mutex:
            self._locker = manager.new_locker(name=chosen)
        self._lock_mode = LockMode.UPGRADABLE_READ
        self._lock_timeout = manager.lock_timeout
        self._durability = DurabilityMode.SYNC
        self._changes: Changes = []
        self._height = 0
        self._reads: Mapping[int, int] = NO_READS
        self._scopes: list[Scope] = []
        self._cause: Any = NO_CAUSE
        self._tables: Any = None

    # -- state ---------------------------------------------------------------------------------

    @property
    def manager(self) -> LockManager:
        """The lock manager that made it.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> manager.new_transaction().manager is manager
        True
        """
        return self._manager

    @property
    def id(self) -> int:
        """A positive number of its own; a new one after its outermost end. 0 is ``BOGUS``. As text it has the
        transaction's name, too.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction("nightly")
        >>> txn.id, str(txn.id)
        (1, 'nightly #1')
        """
        return self._locker.id

    @property
    def name(self) -> str:
        """What messages and pictures call it; empty if it has no name. :meth:`LockManager.new_transaction()
        <deltanb.locks.core.manager.LockManager.new_transaction>` says where it comes from.

        >>> from deltanb.locks import LockManager
        >>> LockManager().new_transaction("nightly").name
        'nightly'
        """
        return self._locker.id.name

    @property
    def lock_mode(self) -> LockMode:
        """How the current scope reads. A nested one begins with ``UPGRADABLE_READ``; its end restores it.

        >>> from deltanb.locks import LockManager, LockMode
        >>> txn = LockManager().new_transaction()
        >>> txn.lock_mode = "REPEATABLE_READ"
        >>> with txn.scope():
        ...     txn.lock_mode
        UPGRADABLE_READ
        >>> txn.lock_mode
        REPEATABLE_READ
        """
        return self._lock_mode

    @lock_mode.setter
    def lock_mode(self, mode: LockMode | str) -> None:
        self._lock_mode = word(LockMode, mode, "lock_mode")

    @property
    def lock_timeout(self) -> float:
        """Seconds that a call of the current scope waits for a lock; for ever reads -1. Scopes inherit it.
        It can be set to a ``timedelta``, too, and to None, which is for ever.

        >>> from datetime import timedelta
        >>> from deltanb.locks import LockManager
        >>> txn = LockManager(lock_timeout=2.5).new_transaction()
        >>> before, txn.lock_timeout = txn.lock_timeout, timedelta(minutes=1)
        >>> before, txn.lock_timeout
        (2.5, 60.0)
        >>> txn.lock_timeout = None
        >>> txn.lock_timeout
        -1
        """
        return self._lock_timeout

    @lock_timeout.setter
    def lock_timeout(self, timeout: Timeout) -> None:
        self._lock_timeout = seconds(timeout, "lock_timeout")

    @property
    def durability_mode(self) -> DurabilityMode:
        """What the outermost commit does before it releases locks. It applies to the whole transaction.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.durability_mode
        SYNC
        >>> txn.durability_mode = "NO_FLUSH"  # commit() returns before anything is published
        >>> txn.durability_mode
        NO_FLUSH
        """
        return self._durability

    @durability_mode.setter
    def durability_mode(self, mode: DurabilityMode | str) -> None:
        chosen = word(DurabilityMode, mode, "durability_mode")
        if self._tables is not None:
            self._tables.check_durability(chosen)
        self._durability = chosen

    @property
    def is_bogus(self) -> bool:
        """Whether this is ``Transaction.BOGUS``.

        >>> from deltanb.locks import LockManager
        >>> LockManager().new_transaction().is_bogus, Transaction.BOGUS.is_bogus
        (False, True)
        """
        return False

    @property
    def is_nested(self) -> bool:
        """Whether the current scope lies in another one.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> with txn.scope():
        ...     txn.is_nested
        True
        >>> txn.is_nested
        False
        """
        return bool(self._scopes)

    @property
    def nesting_level(self) -> int:
        """How many scopes lie around the current one.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> with txn.scope(), txn.scope():
        ...     txn.nesting_level
        2
        """
        return len(self._scopes)

    @property
    def is_valid(self) -> bool:
        """Whether it can be used: it was not reset with a cause, and its commit has not failed.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.reset("the connection is gone")
        >>> txn.is_valid
        False
        """
        return self._cause is NO_CAUSE

    @property
    def waiting(self) -> Waiting | None:
        """The lock it waits for, or None. Any thread may ask.

        >>> from deltanb.locks import LockManager
        >>> def park(waiter, timeout):  # instead of a wait
        ...     print(other.waiting)
        ...     one.exit()
        ...     return True
        >>> manager = LockManager(park=park)
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_exclusive(1, b"k"), other.lock_shared(1, b"k")
        Waiting(mode='shared', index_id=1, key=b'k')
        (ACQUIRED, ACQUIRED)
        >>> other.waiting is None
        True
        """
        waiter = self._locker.waiter  # one reference, read once: what it leads to does not change
        return None if waiter is None else Waiting(MODE_NAMES[waiter.requested], *waiter.lock.name)

    @property
    def attachment(self) -> Any:
        """What was attached last, or None.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.attach({"job": 7})
        >>> txn.attachment
        {'job': 7}
        """
        return self._locker.attachment

    def attach(self, value: Any) -> None:
        """Attach any object that identifies the transaction: messages of those that wait for it show it. A
        text names it, unless it was made with a name.

        A :class:`~deltanb.locks.core.commit.CommitCallback` is also called for commits that are put off. It
        stays attached after commits and resets. Its ``str`` and ``repr`` are called in other threads.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.attach("nightly load")
        >>> _ = one.lock_exclusive(1, b"k")
        >>> other.lock_shared(1, b"k", timeout=0)
        Traceback (most recent call last):
            ...
        deltanb.errors.LockTimeoutError: ...
        """
        if isinstance(value, type) and issubclass(value, CommitCallback):
            raise InvalidArgument(f"attach takes a callback, found a class; write attach({value.__name__}())")
        self._locker.attachment = value
        if not self._is_named:
            self._locker.id.name = short(value) if isinstance(value, str) else self._locker.name

    def check(self) -> None:
        """Raise the error that other calls would raise.

        Raises:
            InvalidTransactionError: it is disabled (``.cause``).

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.check()
        >>> txn.reset("the connection is gone")
        >>> txn.check()
        Traceback (most recent call last):
            ...
        deltanb.errors.InvalidTransactionError: ... is disabled: the connection is gone; ...
        """
        if self._cause is not NO_CAUSE:
            self._raise_invalid()

    # -- scopes --------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a nested scope, in the mode ``UPGRADABLE_READ`` and with the timeout of this one.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.enter()
        >>> _ = txn.lock_exclusive(1, b"k")
        >>> txn.exit()
        >>> txn.lock_check(1, b"k")
        UNOWNED
        """
        with self._call():
            self.check()
            locker = self._locker
            self._scopes.append(
                Scope(locker.floor, self._height, self._lock_mode, self._lock_timeout, self._reads))
            self._mark()
            self._lock_mode = LockMode.UPGRADABLE_READ

    def commit(self) -> None:
        """Make the changes of the current scope permanent, as far as its parent is concerned; it stays open.

        A nested scope hands its changes and all of its locks to its parent. The outermost one makes the
        changes permanent, as ``durability_mode`` says, and releases all locks, shared ones too.

        Raises:
            Exception: the reason why the outermost commit failed. Everything is undone then, and the
                transaction is disabled.

        >>> import deltanb as dn
        >>> index = dn.testing.MemoryIndex(1)
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> index.store(txn, "k", "v")
        >>> txn.commit()
        >>> txn.exit()  # undoes nothing any more
        >>> index.load(None, "k")
        'v'
        """
        waiting, is_outermost = self._manager.pending, not self._scopes
        if waiting and is_outermost and self._changes and self._durability.is_durable:
            waiting.flush_quietly()  # what was put off before it is in the log before it
        with self._call():
            self.check()
            if self._scopes:
                self._mark()
            else:
                self._commit_outermost()
        if waiting and is_outermost:
            waiting.was_put_in()

    def commit_all(self) -> None:
        """Commit and exit every scope, the outermost included.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.enter(); txn.enter()
        >>> txn.commit_all()
        >>> txn.nesting_level
        0
        """
        while self._scopes:
            self.commit()
            self.exit()
        self.commit()

    def exit(self) -> None:
        """End the current scope: undo what it has not committed, release its locks.

        Locks that it only made exclusive are upgradable again. Lock mode and timeout become those of the
        scope around it. The outermost scope stays, with its mode and timeout, and starts again.

        >>> import deltanb as dn
        >>> index = dn.testing.MemoryIndex(1, {"k": "v"})
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> index.store(txn, "k", "w")
        >>> txn.exit()
        >>> index.load(None, "k")
        'v'
        """
        with self._call():
            failed = self._undo_scope()
            if self._scopes:
                self._leave_scope()
        self._raise_failed(failed)

    close = exit

    def rollback(self) -> None:
        """Undo what the current scope has not committed and release its locks; it stays open as it is.

        >>> import deltanb as dn
        >>> index = dn.testing.MemoryIndex(1, {"k": "v"})
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> txn.enter()
        >>> index.store(txn, "k", "w")
        >>> txn.rollback()
        >>> index.load(txn, "k"), txn.nesting_level
        ('v', 1)
        """
        with self._call():
            self.check()
            failed = self._undo_scope()
        self._raise_failed(failed)

    def reset(self, cause: Any = NO_CAUSE) -> None:
        """Exit all scopes, undoing all that is not committed.

        With a cause the transaction is disabled for good, and nothing is raised; a second cause is ignored.
        With ``None`` a failure is not raised but disables the transaction.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.enter(); txn.enter()
        >>> _ = txn.lock_exclusive(1, b"k")
        >>> txn.reset()
        >>> txn.nesting_level, txn.lock_check(1, b"k"), txn.is_valid
        (0, UNOWNED, True)
        """
        with self._call():
            failed = self._undo_scope()
            while self._scopes:
                self._leave_scope()
                failed = self._undo_scope() or failed
            if cause is not NO_CAUSE and self.is_valid:
                self._disable(failed if cause is None else cause)
        if cause is NO_CAUSE:
            self._raise_failed(failed)

    @contextmanager
    def scope(self) -> Iterator[Transaction]:
        """A nested scope for a block: committed if the block succeeds, undone if it raises.

        Raises:
            IllegalStateError: the block left a scope open, or ended this one; all it did is undone.

        >>> import deltanb as dn
        >>> index = dn.testing.MemoryIndex(1)
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> index.store(txn, "a", 1)
        >>> try:
        ...     with txn.scope():
        ...         index.store(txn, "b", 2)
        ...         raise ValueError("half way")
        ... except ValueError:
        ...     txn.commit()
        >>> index.load(None, "a"), index.load(None, "b")
        (1, None)
        """
        self.enter()
        level = len(self._scopes)
        try:
            yield self
            if len(self._scopes) != level:
                raise IllegalStateError(
                    f"the block began at nesting level {level} and ended at {len(self._scopes)}; end each "
                    "scope where it was entered")
            self.commit()
        finally:
            while len(self._scopes) >= level:
                self.exit()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.exit()

    def scopes(self) -> tuple[ScopeState, ...]:
        """The scopes as they stand, the outermost first.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> _ = txn.lock_shared(1, b"a")
        >>> txn.enter()
        >>> _ = txn.lock_exclusive(1, b"b")
        >>> [len(state.groups) for state in txn.scopes()]
        [1, 1]
        """
        starts = [*(s.floor for s in self._scopes), self._locker.floor], [*(s.height for s in self._scopes),
                                                                         self._height]
        modes = [*(s.lock_mode for s in self._scopes), self._lock_mode]
        timeouts = [*(s.lock_timeout for s in self._scopes), self._lock_timeout]
        groups = self._manager.groups(self._locker, starts[0])
        ends = [*starts[1][1:], len(self._changes)]
        changes = [tuple(self._changes[start:end]) for start, end in zip(starts[1], ends, strict=True)]
        return tuple(map(ScopeState, modes, timeouts, map(len, changes), groups, changes))

    # -- locks ---------------------------------------------------------------------------------

    def lock_shared(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """Keep others from writing: ``ACQUIRED``, or what is owned already.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_shared(1, b"k"), other.lock_shared(1, b"k"), one.lock_shared(1, b"k")
        (ACQUIRED, ACQUIRED, OWNED_SHARED)
        """
        if self._cause is not NO_CAUSE:
            self._raise_invalid()
        timeout = self._lock_timeout if timeout is None else seconds(timeout, "timeout")
        return self._manager.lock(self._locker, index_id, key, SHARED, timeout)

    def lock_upgradable(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """Keep others from writing and from preparing to write: ``ACQUIRED``, or what is owned already.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_upgradable(1, b"k"), other.lock_shared(1, b"k")
        (ACQUIRED, ACQUIRED)
        >>> other.exit(); one.lock_exclusive(1, b"k")
        UPGRADED
        """
        if self._cause is not NO_CAUSE:
            self._raise_invalid()
        timeout = self._lock_timeout if timeout is None else seconds(timeout, "timeout")
        return self._manager.lock(self._locker, index_id, key, UPGRADABLE, timeout)

    def lock_exclusive(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """Be alone: ``ACQUIRED``, ``UPGRADED`` from a lock it had, or ``OWNED_EXCLUSIVE``.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_exclusive(1, b"k"), one.lock_exclusive(1, b"k")
        (ACQUIRED, OWNED_EXCLUSIVE)
        >>> other.lock_shared(1, b"k", timeout=0)
        Traceback (most recent call last):
            ...
        deltanb.errors.LockTimeoutError: ...
        """
        if self._cause is not NO_CAUSE:
            self._raise_invalid()
        timeout = self._lock_timeout if timeout is None else seconds(timeout, "timeout")
        return self._manager.lock(self._locker, index_id, key, EXCLUSIVE, timeout)

    def try_lock_shared(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """As :meth:`lock_shared`, but ``INTERRUPTED`` and ``TIMED_OUT_LOCK`` are returned.

        A deadlock is raised, unless ``timeout`` is 0.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_exclusive(1, b"k"), other.try_lock_shared(1, b"k", timeout=0)
        (ACQUIRED, TIMED_OUT_LOCK)
        """
        return self._try_lock(index_id, key, SHARED, timeout)

    def try_lock_upgradable(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """As :meth:`lock_upgradable`, but like :meth:`try_lock_shared`; ``ILLEGAL`` is returned, too.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager(upgrade_rule="STRICT").new_transaction()
        >>> txn.lock_shared(1, b"k"), txn.try_lock_upgradable(1, b"k")
        (ACQUIRED, ILLEGAL)
        """
        return self._try_lock(index_id, key, UPGRADABLE, timeout)

    def try_lock_exclusive(self, index_id: int, key: bytes, timeout: Timeout = None) -> LockResult:
        """As :meth:`lock_exclusive`, but like :meth:`try_lock_shared`; ``ILLEGAL`` is returned, too.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_shared(1, b"k"), other.try_lock_exclusive(1, b"k", timeout=0)
        (ACQUIRED, TIMED_OUT_LOCK)
        """
        return self._try_lock(index_id, key, EXCLUSIVE, timeout)

    def lock_many(self, names: Iterable[Name], mode: str = "exclusive",
                  timeout: Timeout = None) -> dict[Name, LockResult]:
        """Lock several keys, in sorted order so that two such calls never deadlock: all or none.

        >>> from deltanb.locks import LockManager
        >>> LockManager().new_transaction().lock_many([(1, b"b"), (1, b"a")])
        {(1, b'a'): ACQUIRED, (1, b'b'): ACQUIRED}

        Args:
            names: pairs of an index id and a key.
            mode: "shared", "upgradable" or "exclusive".
            timeout: for all of them together.

        Raises:
            LockFailure: of the first one that was not granted; the transaction holds what it held before.
        """
        modes = MODE_NAMES[SHARED:EXCLUSIVE + 1]
        requested = SHARED + modes.index(mode) if mode in modes else NONE
        if not requested:
            raise InvalidArgument(
                f"lock_many takes a mode of {', '.join(modes)}, found {shown(mode)}")
        limit = self._lock_timeout if timeout is None else seconds(timeout, "timeout")
        with self.operation():
            return self._manager.lock_many(self._locker, names, requested, limit)

    def lock_check(self, index_id: int, key: bytes) -> LockResult:
        """What it holds of a lock, in any scope: ``UNOWNED``, or ``OWNED_`` and the mode.

        For a table or partition this is what is held of the whole, or else what is held of its parts.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.lock_check(1, b"k"), txn.lock_upgradable(1, b"k"), txn.lock_check(1, b"k")
        (UNOWNED, ACQUIRED, OWNED_UPGRADABLE)
        """
        self.check()
        return self._manager.check(self._locker, named(index_id, key))

    def unlock(self) -> None:
        """Release the last lock or group of the current scope.

        Raises:
            IllegalStateError: there is none; or it is exclusive, an upgrade that was not immediate, or of
                the scope around this one. Nothing is released then, of a group either.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> _ = txn.lock_shared(1, b"a"), txn.lock_shared(1, b"b")
        >>> txn.unlock()
        >>> txn.lock_check(1, b"a"), txn.lock_check(1, b"b")
        (OWNED_SHARED, UNOWNED)
        """
        if self._cause is not NO_CAUSE:
            self._raise_invalid()
        self._manager.unlock(self._locker)

    def unlock_to_shared(self) -> None:
        """Make the last lock or group of the current scope shared; it stays a group.

        Raises:
            IllegalStateError: as :meth:`unlock`.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> _ = txn.lock_upgradable(1, b"k")
        >>> txn.unlock_to_shared()
        >>> txn.lock_check(1, b"k")
        OWNED_SHARED
        """
        self.check()
        self._manager.unlock(self._locker, SHARED)

    def unlock_combine(self) -> None:
        """Put the last lock or group into one group with the lock before it, if there is one.

        Raises:
            IllegalStateError: one of the two was acquired, the other is an upgrade.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> _ = txn.lock_shared(1, b"a"), txn.lock_shared(1, b"b")
        >>> txn.unlock_combine()
        >>> txn.unlock()  # of both
        >>> txn.lock_check(1, b"a"), txn.lock_check(1, b"b")
        (UNOWNED, UNOWNED)
        """
        self.check()
        self._manager.combine(self._locker)

    @property
    def last_locked_index(self) -> int:
        """The index id of the last lock of the current scope, 0 where it has none.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.last_locked_index, txn.lock_shared(7, b"k"), txn.last_locked_index
        (0, ACQUIRED, 7)
        """
        last = self._locker.last
        return 0 if last is None else last.name[0]

    @property
    def last_locked_key(self) -> bytes | None:
        """The key of the last lock of the current scope, None where it has none.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.last_locked_key, txn.lock_shared(7, b"k"), txn.last_locked_key
        (None, ACQUIRED, b'k')
        """
        last = self._locker.last
        return None if last is None else last.name[1]

    def was_acquired(self, index_id: int, key: bytes) -> bool:
        """Whether this is the last lock of the current scope and was just acquired: the last lock call did
        not find it owned already.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> txn.lock_shared(1, b"k"), txn.was_acquired(1, b"k")
        (ACQUIRED, True)
        >>> txn.lock_shared(1, b"k"), txn.was_acquired(1, b"k")
        (OWNED_SHARED, False)
        """
        name, last = named(index_id, key), self._locker.last
        return last is not None and last.name == name and last is not self._locker.known

    def interrupt(self) -> bool:
        """End the wait of this transaction, from another thread; False where it does not wait.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(park=lambda waiter, timeout: other.interrupt())  # instead of a wait
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.interrupt(), one.lock_exclusive(1, b"k"), other.try_lock_shared(1, b"k")
        (False, ACQUIRED, INTERRUPTED)
        """
        return self._manager.interrupt(self._locker)

    def flush(self) -> None:
        """Publish the commits of this transaction that ``NO_FLUSH`` has put off, and release their locks.

        They are also published automatically: once many of them wait in the manager, or have written much, or
        wait long; before a durable commit; and when the process ends. The bounds are
        ``MAX_COMMITS``, ``MAX_BYTES`` and ``MAX_SECONDS`` of :mod:`deltanb.locks.core.buffer`.

        Raises:
            Exception: the failure of one of them, if no callback was attached; it is undone then.

        >>> import deltanb as dn
        >>> index = dn.testing.MemoryIndex(1)
        >>> manager = dn.locks.LockManager()
        >>> txn = manager.new_transaction()
        >>> txn.durability_mode = "NO_FLUSH"
        >>> index.store(txn, "k", "v"); txn.commit()
        >>> manager.num_pending
        1
        >>> txn.flush()
        >>> manager.num_pending
        0
        """
        self.check()
        self._manager.pending.flush(self)

    # -- tables --------------------------------------------------------------------------------

    def table(self, table: Any) -> Any:
        """A table on which this transaction works under locks, until its outermost end and after it.

        Its statements lock what they read as ``lock_mode`` says, and what they write exclusively: partitions
        where a condition names them, the whole table else. They are undone with their scope. The outermost
        commit checks them against the commits of other processes, by the conflict rules of each table, and
        makes them permanent together.

        >>> import deltanb as dn
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> txn.table(dn.create("coins", {"owner": ["Scrooge"]})).append({"owner": ["Donald"]})
        <CommandResult WRITE, staged, to be committed with its transaction, in this process>
        >>> txn.commit()

        Args:
            table: a :class:`~deltanb.table.table.DeltaTable`, or its path.

        Raises:
            InvalidArgument: no table, or one that is not of the same catalog as those it has.
        """
        self.check()
        if self._tables is None:
            self._tables = upper.LockedTables(self)
        return self._tables.table(table)

    def cursor(self, table: Any, key: Any) -> Any:
        """A cursor over the rows of a table, in the order of a key, which locks the rows it stands on.

        Args:
            table: a :class:`~deltanb.table.table.DeltaTable`, or its path.
            key: names of columns that no two rows have the same values in.

        Returns:
            A :class:`~deltanb.locks.core.cursor.TableCursor`.

        Raises:
            InvalidArgument: as :meth:`table`; or a column that is not there or has no order.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [2, 1], "name": ["Dewey", "Huey"]})
        >>> txn = dn.locks.LockManager().new_transaction()
        >>> cursor = txn.cursor(table, "id")
        >>> cursor.first(), cursor.key(), cursor.value()
        (ACQUIRED, (1,), {'id': 1, 'name': 'Huey'})
        """
        self.table(table)
        return self._tables.cursor(table, key)

    # -- for indexes ---------------------------------------------------------------------------

    def operation(self) -> AbstractContextManager[None]:
        """A block for a call of an index on this transaction: other threads are kept out until it ends.

        Raises:
            InvalidTransactionError: the transaction is disabled.
            IllegalStateError: another thread is in a call of it.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> with txn.operation():
        ...     txn.lock_exclusive(1, b"k")
        ACQUIRED
        """
        self.check()
        return self._manager.call(self._locker, is_nestable=True)

    def changed(self, participant: Participant, change: Any) -> None:
        """Note a change, made under an exclusive lock, that ``participant`` undoes or commits.

        >>> from deltanb.locks import LockManager
        >>> class Counter:
        ...     count = 0
        ...     def add(self, txn):
        ...         txn.lock_exclusive(1, b"count")
        ...         self.count += 1
        ...         txn.changed(self, 1)
        ...     def undo(self, change):
        ...         self.count -= change
        ...     def commit(self, changes, durability):
        ...         pass
        >>> counter, txn = Counter(), LockManager().new_transaction()
        >>> counter.add(txn); counter.add(txn)
        >>> txn.rollback()
        >>> counter.count
        0
        """
        self._changes.append((participant, change))

    def give_back(self, index_id: int, key: bytes, keep: int = NONE) -> None:
        """Weaken the lock that the last lock call has granted to a mode of ``modes``, even an exclusive one:
        the operation that took it has changed nothing.

        >>> from deltanb.locks import LockManager
        >>> txn = LockManager().new_transaction()
        >>> _ = txn.lock_exclusive(1, b"k")
        >>> txn.give_back(1, b"k")
        >>> txn.lock_check(1, b"k")
        UNOWNED
        """
        self._manager.give_back(self._locker, (index_id, key), keep)

    # -- how it is done ------------------------------------------------------------------------

    def _try_lock(self, index_id: int, key: bytes, requested: int, timeout: Timeout) -> LockResult:
        self.check()
        timeout = self._lock_timeout if timeout is None else seconds(timeout, "timeout")
        return self._manager.lock(self._locker, index_id, key, requested, timeout, True)

    def _call(self) -> AbstractContextManager[None]:
        return self._manager.call(self._locker)

    def _commit_outermost(self) -> None:
        is_put_off = self._durability is DurabilityMode.NO_FLUSH and bool(self._changes)
        try:
            if self._changes:
                self._manager.check_open()
            if self._tables is not None:
                self._tables.seal()
            if is_put_off:
                self._manager.put_off(self, self._locker, self._changes)
            else:
                publish(self._changes, self._durability)
        except BaseException as error:
            if self._manager.pending.has(self._changes):
                self._changes = []  # an interrupt: it is the buffer's all the same
                self._end_outermost()
                add_note(error, "the commit was put off despite the interruption (NO_FLUSH)")
                raise
            self._height = 0
            self._undo_scope()
            self._disable(error)
            raise
        self._changes = []
        if is_put_off:
            self._begin_anew()
        else:
            self._end_outermost()

    def _undo_scope(self) -> BaseException | None:
        """Undo the changes of the current scope, then release its locks."""
        failed = undo(self._changes, self._height)
        if self._scopes:
            if self._tables is not None:  # what is not locked any more, nobody keeps as it was read
                self._tables.forget_reads(self._reads)
            self._manager.release(self._locker, self._locker.floor)
        else:
            self._end_outermost()
        return failed

    def _mark(self) -> None:
        """Mark where the scope begins: what is locked, changed and read from here on is undone with it."""
        self._locker.floor, self._height = len(self._locker.entries), len(self._changes)
        self._reads = NO_READS if self._tables is None else self._tables.mark_reads()

    def _end_outermost(self) -> None:
        self._begin_anew()
        self._manager.end(self._locker)

    def _begin_anew(self) -> None:
        self._height, self._reads = 0, NO_READS
        if self._tables is not None:
            self._tables.ended()

    def _leave_scope(self) -> None:
        (self._locker.floor, self._height, self._lock_mode, self._lock_timeout,
         self._reads) = self._scopes.pop()

    def _disable(self, cause: Any) -> None:
        if cause is not None and self._cause is NO_CAUSE:
            self._cause = cause

    def _raise_failed(self, failed: BaseException | None) -> None:
        """Raise the errors of changes that could not be undone: nobody may build on them."""
        if failed is not None:
            self._disable(failed)
            raise failed

    def _raise_invalid(self) -> None:
        cause = self._cause
        error = InvalidTransactionError(
            f"{called(self.id)} is disabled: {attached_text(cause)}; it can still exit and reset, for "
            "other work take a new one: manager.new_transaction()", cause=cause)
        raise error from (cause if isinstance(cause, BaseException) else None)
