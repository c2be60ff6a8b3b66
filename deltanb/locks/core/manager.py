"""The lock manager: threads around the core, one at a time.

What lives here: one mutex around the core, what a transaction asks of it, which of its calls may begin, and
commits that are put off.
What it does not know: who gets a lock (``core``), how a thread waits (``waits``), scopes and undo
(``transaction``).

All state of the core, and of every transaction as far as locks go, is changed under the mutex, but for what
is decided at a glance (below); nothing foreign runs under it, no ``repr`` and no callback. A thread that
waits has a signal of its own, set once, by whoever decides its request, so nobody looks twice and no wake-up
is lost. Under the mutex a Ctrl-C leaves a change finished or undone (``repair``). ``Locker.call`` is written
without it: only the thread that set it clears it, and who reads either value is right to act on it.

What :meth:`LockManager.lock` decides at a glance, without the mutex:

* the transaction owns the lock. Only its own calls change that, and it is in one of them; or the end of the
  manager, which comes after this call then. ``is_exclusive`` of such a lock is its own affair, too.
* nobody holds it. A new lock, complete, comes into the table of all locks by one step that all threads see
  the same way (``core.LockTable``): whoever finds it there finds it held. Only the end of the manager, and
  the freeing of memory, may overlook a lock that comes at the same moment; both leave another token behind,
  and a call that finds that looks again under the mutex.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.locks.core.batch import Batches, tree_of
from deltanb.locks.core.buffer import Buffer, Pending
from deltanb.locks.core.commit import Changes, CommitCallback
from deltanb.locks.core.graph import LockGraph, taken
from deltanb.locks.core.lock_table import Lock, LockTable, Waiter
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    MAX_ID,
    NONE,
    SHARED,
    IndexId,
    LockResult,
    Name,
    UpgradeRule,
    label,
    named,
    word,
)
from deltanb.locks.core.names import TransactionId, called
from deltanb.locks.core.refusals import Refusal, Timeout, seconds
from deltanb.locks.core.repair import mend
from deltanb.locks.core.stack import Call, Keeper, Locker
from deltanb.locks.core.states import LockState, states_of
from deltanb.locks.core.waits import Park, Waits, exploring, here, holders_of, park
from deltanb.options import options
from deltanb.text.display import Displayable
from deltanb.text.safe_text import escaped, shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.locks.core.record import LockTimeline, Recorder
    from deltanb.locks.core.transaction import Transaction

ACQUIRED, ILLEGAL, INTERRUPTED = LockResult.ACQUIRED, LockResult.ILLEGAL, LockResult.INTERRUPTED
OWNED_UPGRADABLE, OWNED_EXCLUSIVE = LockResult.OWNED_UPGRADABLE, LockResult.OWNED_EXCLUSIVE
DETECTION = ("enqueue", "timeout")


@answer_wrong_arguments(also=("__init__",), only=("locks", "name_index", "label"))
class LockManager(Displayable):
    """Shared, upgradable and exclusive locks on keys of indexes, held by transactions.

    >>> manager = LockManager()
    >>> one, other = manager.new_transaction(), manager.new_transaction()
    >>> one.lock_upgradable(1, b"k"), other.lock_shared(1, b"k")
    (ACQUIRED, ACQUIRED)
    >>> one.try_lock_exclusive(1, b"k", 0)
    TIMED_OUT_LOCK
    >>> other.unlock(); one.lock_exclusive(1, b"k")
    UPGRADED
    >>> one.commit(); manager.num_locks_held
    0

    Args:
        upgrade_rule: whether shared locks may become stronger: "STRICT", "LENIENT" or "UNCHECKED".
        lock_timeout: how long new transactions wait for a lock, seconds or a ``timedelta``; 0 not at all,
            negative or None for ever.
        detect: "enqueue" searches for a deadlock when a wait begins, and refuses the request that would close
            the cycle; "timeout" searches when a wait has ended in vain.
        clock: the time in nanoseconds, for ages and for the deadline of ``lock_many``.
        park: how a thread waits; a scheduler of its own can pass the turn on there.
        record: how many events are kept for :meth:`timeline`, the newest ones; None records nothing, and
            costs nothing.

    Raises:
        InvalidArgument: a setting that does not exist.
    """

    def __init__(
        self,
        upgrade_rule: str = "STRICT",
        lock_timeout: Timeout = 1.0,
        detect: str = "enqueue",
        *,
        clock: Callable[[], int] | None = None,
        park: Park = park,
        record: int | None = None,
    ) -> None:
        if detect not in DETECTION:
            raise InvalidArgument(f"detect takes one of {', '.join(DETECTION)}, found {shown(detect)}")
        self.upgrade_rule = word(UpgradeRule, upgrade_rule, "upgrade_rule")
        self.lock_timeout = lock_timeout
        self.detect = detect
        self._clock = clock or (lambda: options.timer())
        self._deadlines = clock or time.monotonic_ns
        self._mutex = threading.Lock()
        self._recorder: Recorder | None = None
        self._table = LockTable(self.upgrade_rule)
        if record is not None:
            from deltanb.locks.core.record import RecordedTable, Recorder

            self._recorder = Recorder(record, self._clock)
            self._table = RecordedTable(self.upgrade_rule, self._recorder)
        self._waits = Waits(self._mutex, self._table, self._clock, detect == "enqueue", park)
        self._batches = Batches(self._table, self._waits, self._deadlines, self._refused)
        self._ids = 0
        self._put_off = Buffer(self._mutex, lambda keeper: self.release(keeper, 0), self._deadlines)
        self._is_closed = False
        self._is_foreign = False
        self._explored_by = exploring.get()
        """What explores the writer that made it, which nobody else shares it with then."""
        _managers.add(self)

    # -- what people ask -----------------------------------------------------------------------

    @property
    def lock_timeout(self) -> float:
        """Seconds that transactions to come wait for a lock; set as the argument, it reads -1 for ever.

        >>> manager = LockManager(lock_timeout=2)
        >>> manager.lock_timeout = None  # for ever
        >>> manager.lock_timeout, manager.new_transaction().lock_timeout
        (-1, -1)
        """
        return self._lock_timeout

    @lock_timeout.setter
    def lock_timeout(self, timeout: Timeout) -> None:
        self._lock_timeout = seconds(timeout, "lock_timeout")

    def new_transaction(self, name: str | None = None) -> Transaction:
        """A transaction; it holds nothing yet. Messages and pictures call it ``name``; by default by the text
        attached to it, else by the function that makes it, else by the thread, if it is not the main one.

        >>> manager = LockManager()
        >>> with manager.new_transaction("nightly") as txn:
        ...     txn.name, txn.lock_exclusive(1, b"k")
        ('nightly', ACQUIRED)
        >>> manager.num_locks_held
        0
        """
        if (explorer := exploring.get()) is not None:
            manager = explorer.manager_for(self)
            if manager is not self:
                return manager.new_transaction(name)
        if self._recorder is not None:
            from deltanb.locks.core.record import RecordedTransaction

            return RecordedTransaction(self, name)
        from deltanb.locks.core.transaction import Transaction

        return Transaction(self, name)

    @property
    def num_locks_held(self) -> int:
        """How many locks are held, by anybody in any mode.

        >>> manager = LockManager()
        >>> txn = manager.new_transaction()
        >>> _ = txn.lock_shared(1, b"a"), txn.lock_exclusive(1, b"b")
        >>> manager.num_locks_held
        2
        """
        self.refuse_to_show("asks a lock manager for num_locks_held")
        return len(self._table.locks)

    @property
    def num_waiting(self) -> int:
        """How many transactions wait for a lock.

        >>> manager = LockManager(park=lambda waiter, timeout: print(manager.num_waiting) or False)  # no wait
        >>> one, other = manager.new_transaction(), manager.new_transaction()
        >>> one.lock_exclusive(1, b"k"), other.try_lock_shared(1, b"k")
        1
        (ACQUIRED, TIMED_OUT_LOCK)
        """
        self.refuse_to_show("asks a lock manager for num_waiting")
        return len(self._table.waiting)

    @property
    def num_pending(self) -> int:
        """How many commits wait to be flushed.

        >>> import deltanb as dn
        >>> manager, index = LockManager(), dn.testing.MemoryIndex(1)
        >>> txn = manager.new_transaction()
        >>> txn.durability_mode = "NO_FLUSH"
        >>> index.store(txn, "k", "v"); txn.commit()
        >>> manager.num_pending
        1
        """
        self.refuse_to_show("asks a lock manager for num_pending")
        return len(self._put_off)

    @property
    def is_closed(self) -> bool:
        """Whether no lock is granted any more.

        >>> manager = LockManager()
        >>> manager.close()
        >>> manager.is_closed, manager.new_transaction().try_lock_shared(1, b"k")
        (True, INTERRUPTED)
        """
        return self._is_closed

    def locks(self, limit: int | None = None) -> tuple[LockState, ...]:
        """Locks as they stand now: those that somebody waits for first, the longest wait before the others.

        >>> manager = LockManager()
        >>> manager.new_transaction().lock_shared(1, b"k")
        ACQUIRED
        >>> manager.locks()
        (LockState(index_id=1, key=b'k', holders=((1, 'shared'),), waiters=()),)
        """
        self.refuse_to_show("asks a lock manager for locks()")
        with self._mutex:
            return states_of(self._table, limit)

    def graph(self) -> LockGraph:
        """Who holds what, who waits for whom and since when, as it stands now: a value to be shown.

        >>> manager = LockManager()
        >>> manager.new_transaction().lock_exclusive(1, b"k")
        ACQUIRED
        >>> manager.graph().holds
        (Held(transaction=1, index_id=1, key=b'k', mode='exclusive'),)
        """
        self.refuse_to_show("asks a lock manager for graph()")
        with self._mutex:
            return taken(self._table, self._clock())

    def timeline(self) -> LockTimeline:
        """What happened to locks, as far as it was recorded: a value to be shown.

        >>> manager = LockManager(record=100)
        >>> manager.new_transaction().lock_shared(1, b"k")
        ACQUIRED
        >>> [(event.transaction, event.what, event.mode) for event in manager.timeline().events]
        [(1, 'granted', 'shared')]

        Raises:
            IllegalStateError: nothing is recorded.
        """
        self.refuse_to_show("asks a lock manager for timeline()")
        from deltanb.locks.core.record import timeline_of

        with self._mutex:
            return timeline_of(self._recorder)

    def table(self) -> Any:
        """The recorded events as an Arrow table.

        Raises:
            IllegalStateError: nothing is recorded.

        >>> manager = LockManager(record=100)
        >>> _ = manager.new_transaction().lock_shared(1, b"k")
        >>> manager.table().select(["what", "mode"]).to_pylist()
        [{'what': 'granted', 'mode': 'shared'}]
        """
        return self.timeline().table()

    def flush(self) -> None:
        """Publish all commits that were put off, in their order, and release their locks.

        Raises:
            Exception: what a commit failed with that has no callback to be told; the others are published.

        >>> import deltanb as dn
        >>> manager, index = LockManager(), dn.testing.MemoryIndex(1)
        >>> txn = manager.new_transaction()
        >>> txn.durability_mode = "NO_FLUSH"
        >>> index.store(txn, "k", "v"); txn.commit()
        >>> manager.num_locks_held  # kept until the commit is published
        1
        >>> manager.flush()
        >>> manager.num_locks_held
        0
        """
        self.refuse_to_show("flushes a lock manager")
        self._put_off.flush()

    def close(self) -> None:
        """Publish what was put off, interrupt all who wait, and grant no lock any more.

        Exclusive locks stay taken for good, since what was written under them may be half done; the others
        are dropped. Transactions can still exit or reset, which undoes what they changed.

        >>> manager = LockManager()
        >>> txn = manager.new_transaction()
        >>> _ = txn.lock_shared(1, b"k")
        >>> manager.close()
        >>> txn.lock_exclusive(1, b"j")
        Traceback (most recent call last):
            ...
        deltanb.errors.LockInterruptedError: ...
        """
        self.refuse_to_show("closes a lock manager")
        try:
            self.flush()
        finally:
            with self._mutex:
                if not self._is_closed:
                    self._is_closed = self._waits.is_closed = True
                    keeper = self.new_locker()
                    try:
                        self._table.close(keeper)
                    except BaseException:  # nobody comes to finish it
                        self._table.close(keeper)
                        raise

    # -- locks ---------------------------------------------------------------------------------

    def lock(self, locker: Locker, index_id: int, key: bytes, requested: int, timeout: float,
             is_try: bool = False) -> LockResult:
        """Ask for a lock, and wait for it as long as the timeout says.

        Returns:
            What came of it; ``is_try`` also returns ``ILLEGAL``, ``INTERRUPTED`` and ``TIMED_OUT_LOCK``.

        Raises:
            LockFailure: as the class of it says; a deadlock is raised even by a try, unless timeout is 0.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> manager.lock(locker, 1, b"k", EXCLUSIVE, timeout=0), manager.num_locks_held
        (ACQUIRED, 1)
        """
        if type(key) is not bytes or type(index_id) is not int or not 0 <= index_id <= MAX_ID:
            index_id, key = named(index_id, key)
            return self._lock(locker, index_id, key, requested, timeout, is_try)
        table = self._table
        quick = table.quick
        if quick is not None and locker.call is None:
            name = (index_id, key)
            lock = table.locks.get(name)
            if lock is None:
                lock = Lock()  # as Lock.new, whose call would be 14 % of a lock in a commit of many
                lock.name = name
                if requested == SHARED:
                    lock.owner, lock.shared, lock.is_exclusive = None, (locker,), False
                else:
                    lock.owner, lock.shared, lock.is_exclusive = locker, (), requested == EXCLUSIVE
                lock.owners = lock.readers = None
                locker.thread = here.token
                try:
                    if table.locks.setdefault(name, lock) is lock:
                        locker.entries.append(lock)
                        if table.quick is quick or self._is_still_held(locker, lock):
                            return ACQUIRED
                except BaseException:  # a Ctrl-C between the two steps, or after them
                    self._take_out(locker, lock)
                    raise
            elif lock.owner is locker and (lock.is_exclusive or requested != EXCLUSIVE):  # 4.3 times as fast
                locker.known = locker.entries[-1]
                return OWNED_EXCLUSIVE if lock.is_exclusive else OWNED_UPGRADABLE
        return self._lock(locker, index_id, key, requested, timeout, is_try)

    def _is_still_held(self, locker: Locker, lock: Lock) -> bool:
        """Whether a lock that came when it may have been overlooked is there after all; else it goes."""
        with self._mutex:
            if self._table.quick is not None and self._table.locks.get(lock.name) is lock:
                return True
        self._take_out(locker, lock)
        return False

    def _take_out(self, locker: Locker, lock: Lock) -> None:
        with self._mutex:
            if locker.last is lock:
                del locker.entries[-1]
            if self._table.locks.get(lock.name) is lock:
                self._table.lower(locker, lock, NONE)

    def _lock(self, locker: Locker, index_id: int, key: bytes, requested: int, timeout: float,
              is_try: bool) -> LockResult:
        """As :meth:`lock`, for all that is not decided at a glance."""
        before = locker.call
        try:
            with self._mutex:
                if (closed := self._refused(locker)) is not None:
                    return closed.answer(index_id, key, requested, is_try)
                locker.thread = here.token
                result = self._table.ask(locker, (index_id, key), requested)
                if result.__class__ is LockResult and result is not ILLEGAL:
                    return locker.note(result)
                if result is ILLEGAL:
                    lock = self._table.locks[index_id, key]
                    ended: Refusal | Waiter = Refusal(ILLEGAL, holders=holders_of(lock))
                else:
                    assert isinstance(result, Waiter)
                    ended = self._waits.begin(result, timeout, is_try)
            if isinstance(ended, Waiter):
                answer = self._waits.wait(ended, timeout)
                if isinstance(answer, LockResult):
                    return locker.note(answer)
                ended = answer
        except BaseException:
            self._waits.abandon(locker, before)
            raise
        return ended.answer(index_id, key, requested, is_try)

    def lock_many(self, locker: Locker, names: Iterable[Any], requested: int,
                  timeout: float) -> dict[Name, LockResult]:
        """Lock several, in sorted order, with one deadline for all; where one fails, all are given back.

        The caller keeps other threads out of the transaction meanwhile.

        Raises:
            LockFailure: of the first that was not granted.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> with manager.call(locker):
        ...     manager.lock_many(locker, [(1, b"b"), (1, b"a")], SHARED, timeout=0)
        {(1, b'a'): ACQUIRED, (1, b'b'): ACQUIRED}
        """
        return self._batches.lock_all(locker, list(names), requested, timeout)

    def lock_tree(self, locker: Locker, index_id: int, wants: Sequence[tuple[bytes, int]], timeout: float,
                  is_try: bool = False) -> list[LockResult]:
        """Lock places of a table, each in a mode, after what they lie in, with the intentions for that.

        The keys are of ``keys``, the modes of ``modes``: also intentions, and such with a base, as
        ``SHARED + IX``. All is asked for in sorted order, with one deadline, and all of it is granted or
        none: where one fails or is interrupted, the transaction holds what it held before, exactly. What was
        taken can be given back by :meth:`give_back_tree`.

        >>> from deltanb.locks.core.keys import partition_key
        >>> from deltanb.locks.core.modes import EXCLUSIVE
        >>> manager = LockManager()
        >>> txn = manager.new_transaction()
        >>> _ = manager.name_index(-1, "flights", ["month"])
        >>> manager.lock_tree(txn._locker, -1, [(partition_key(["1"]), EXCLUSIVE)], timeout=0)
        [ACQUIRED]
        >>> [(manager.label(state.index_id, state.key), state.holders[0][1]) for state in manager.locks()]
        [('flights', 'intention exclusive'), ('flights month=1', 'exclusive')]

        Returns:
            What came of each of ``wants``. A try that was refused says so at each of them.

        Raises:
            LockFailure: of the first that was not granted, as the class says.
            InvalidArgument: an index id that is not below 0, a key that is not of ``keys``, or no mode.
        """
        with self.call(locker, is_nestable=True):
            requests = tree_of(self._table.ids.get(index_id, index_id), wants)
            results = self._batches.lock_each(locker, requests, timeout, is_try)
        return [results[index_id, key] if isinstance(results, dict) else results for key, _ in wants]

    def give_back_tree(self, locker: Locker, height: int) -> None:
        """Give back all that was locked since the stack of a transaction, ``len(locker.entries)``, was so
        high, even exclusively: what was locked was only read, or not changed after all.

        >>> from deltanb.locks.core.keys import partition_key
        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock_tree(locker, -1, [(partition_key(["1"]), EXCLUSIVE)], timeout=0)
        >>> manager.give_back_tree(locker, 0)
        >>> manager.num_locks_held
        0
        """
        with self._mutex:
            self.check_in(locker)
            assert height >= locker.floor, "what a scope around this one has locked cannot be released here"
            self._table.give_back(locker, height)

    def name_index(self, index_id: int, name: str, columns: Sequence[str] = ()) -> IndexId:
        """Remember what an index is called: messages and views show that, not the number.

        Locks of ids below 0 that are taken from now on are called so. For other ids use what is returned in
        place of the number.

        Args:
            index_id: the id.
            name: as a table is called.
            columns: names of the partition columns, to show keys of partitions by.

        Raises:
            InvalidArgument: the name is not text, or empty.

        >>> manager = LockManager()
        >>> _ = manager.name_index(-1, "flights", columns=["month"])
        >>> manager.label(-1, b"")
        'flights'
        """
        index_id, _ = named(index_id, b"")
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"the name of an index is a string, found {type(name).__name__}: "
                                  f"{shown(name)}")
        index = IndexId.named(index_id, escaped(name), columns)
        if index_id < 0:
            with self._mutex:
                self._table.ids[int(index_id)] = index
        return index

    def label(self, index_id: int, key: bytes) -> str:
        """A lock in words: what the index is called, and the key as text where it is text.

        >>> manager = LockManager()
        >>> manager.label(1, b"k"), manager.label(1, b"\\xff")
        ('1:k', '1:0xff')
        """
        return label((self._table.ids.get(index_id, index_id), key))

    def unlock(self, locker: Locker, to: int = NONE) -> None:
        """Release the last lock or group of the current scope, or make it shared: all of it or nothing.

        Raises:
            IllegalStateError: there is none, or something in it must stay.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", SHARED, timeout=0)
        >>> manager.unlock(locker)
        >>> manager.num_locks_held
        0
        """
        with self._mutex:
            table, entries = self._table, locker.entries
            if (to == NONE and locker.is_plain and locker.call is None and table.quick is not None
                    and len(entries) > locker.floor and not entries[-1].is_exclusive):
                try:
                    table.drop(locker, entries.pop())  # what follows refuses nothing; saves 8 % of a lock
                except BaseException:
                    mend(table, locker)
                    raise
                return
            self.check_in(locker)
            bottom = locker.to_unlock("unlock" if to == NONE else "unlock_to_shared")
            if to != NONE:
                table.weaken(locker, [(lock, lock.as_shared(locker, back))
                                      for lock, back in locker.locks_above(bottom)], len(entries))
            else:
                table.give_back(locker, bottom)

    def combine(self, locker: Locker) -> None:
        """Put the last lock or group into one group with what is below it.

        Raises:
            IllegalStateError: one was acquired, the other upgraded.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> [manager.lock(locker, 1, key, SHARED, timeout=0) for key in (b"a", b"b")]
        [ACQUIRED, ACQUIRED]
        >>> manager.combine(locker)
        >>> manager.unlock(locker)  # of both
        >>> manager.num_locks_held
        0
        """
        with self._mutex:
            self.check_in(locker)
            locker.combine()

    def give_back(self, locker: Locker, name: Name, to: int) -> None:
        """Weaken the lock that the last call has granted, whatever its mode: an index found nothing to do.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", EXCLUSIVE, timeout=0)
        >>> manager.give_back(locker, (1, b"k"), SHARED)
        >>> manager.held(locker, (1, b"k")) == SHARED
        True
        """
        with self._mutex:
            lock, top = locker.entries[-1], len(locker.entries) - 1
            assert lock.name == name, "only the last lock can be released"
            self._table.weaken(locker, [(lock, to)], top if to == NONE or top in locker.upgrades else top + 1)

    def release(self, locker: Locker, height: int) -> None:
        """Give back all locks from a height of the stack on, the last one first.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> [manager.lock(locker, 1, key, SHARED, timeout=0) for key in (b"a", b"b")]
        [ACQUIRED, ACQUIRED]
        >>> manager.release(locker, 1)
        >>> [state.key for state in manager.locks()]
        [b'a']
        """
        with self._mutex:
            self._table.give_back(locker, height)

    def held(self, locker: Locker, name: Name) -> int:
        """The mode in which a transaction holds a lock.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", EXCLUSIVE, timeout=0)
        >>> manager.held(locker, (1, b"k")) == EXCLUSIVE, manager.held(locker, (1, b"j")) == NONE
        (True, True)
        """
        with self._mutex:
            lock = self._table.locks.get(name)
            return NONE if lock is None else lock.held_by(locker)

    def check(self, locker: Locker, name: Name) -> LockResult:
        """What a transaction holds of a lock.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", EXCLUSIVE, timeout=0)
        >>> manager.check(locker, (1, b"k"))
        OWNED_EXCLUSIVE
        """
        with self._mutex:
            return self._table.check(locker, name)

    def groups(self, locker: Locker, floors: list[int]) -> list[tuple[tuple[tuple[Name, int], ...], ...]]:
        """The locks of each scope with the modes they are held in, those of a group together.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", SHARED, timeout=0)
        >>> manager.groups(locker, [0])
        [((((1, b'k'), 1),),)]
        """
        with self._mutex:
            by_floor: list[list[tuple[tuple[Name, int], ...]]] = [[] for _ in floors]
            at = 0
            for group in locker.groups():
                level = bisect_right(floors, at) - 1
                by_floor[level].append(tuple((lock.name, lock.held_by(locker)) for lock in group))
                at += len(group)
            return [tuple(groups) for groups in by_floor]

    def interrupt(self, locker: Locker) -> bool:
        """End the wait of a transaction; False where it does not wait.

        >>> manager = LockManager()
        >>> manager.interrupt(manager.new_locker())  # it waits for nothing
        False
        """
        with self._mutex:
            waiter = locker.waiter
            if waiter is not None:
                self._table.cancel(waiter, INTERRUPTED)
        return waiter is not None

    # -- calls of a transaction ----------------------------------------------------------------

    def new_locker(self, kind: type[Locker] = Locker, name: str = "") -> Locker:
        """A holder of locks with a fresh id; the mutex is held.

        >>> manager = LockManager()
        >>> manager.new_locker(name="nightly").id, manager.new_locker().id
        (1, 2)
        """
        self._ids += 1
        return kind(self._ids, self._clock(), name)

    def end(self, locker: Locker) -> None:
        """Release all that a transaction holds; it begins anew, with a fresh id.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> _ = manager.lock(locker, 1, b"k", SHARED, timeout=0)
        >>> manager.end(locker)
        >>> locker.id, manager.num_locks_held
        (2, 0)
        """
        now = self._clock()
        with self._mutex:
            self._table.release(locker)
            self._ids += 1
            locker.id, locker.born = TransactionId.named(self._ids, locker.id.name), now

    def check_in(self, locker: Locker) -> None:
        """Let a call of a transaction begin; the mutex is held.

        Raises:
            IllegalStateError: another thread is in a call of it, or the process was forked.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> with manager.call(locker):
        ...     manager.check_in(locker)  # of the same thread
        """
        if locker.call is not None or self._is_foreign:
            self._refused(locker)

    def _refused(self, locker: Locker) -> Refusal | None:
        if self._is_foreign:
            self.check_open()
        self._refuse_second_call(locker)
        return Refusal(INTERRUPTED, is_closed=True) if self._is_closed else None

    def _refuse_second_call(self, locker: Locker) -> None:
        if locker.call is None or (locker.call == here.token and locker.waiter is None):
            return
        doing = "waits for a lock" if locker.waiter is not None else "is in a call"
        raise IllegalStateError(
            f"two calls at once: {called(locker.id)} {doing} in another thread; a transaction serves one "
            "thread at a time, and only interrupt() and waiting are for others")

    def check_open(self) -> None:
        """Refuse to make anything permanent where locks no longer keep others away.

        Raises:
            IllegalStateError: the manager is closed, or of another process.

        >>> manager = LockManager()
        >>> manager.close()
        >>> manager.check_open()
        Traceback (most recent call last):
            ...
        deltanb.errors.IllegalStateError: the lock manager is closed and its locks are gone; make another one
        """
        if self._is_foreign:
            raise IllegalStateError(
                "this lock manager was made in the process that this one was forked from; locks taken in one "
                "process are not seen in the other: make a LockManager here")
        if self._is_closed:
            raise IllegalStateError("the lock manager is closed and its locks are gone; make another one")

    def call(self, locker: Locker, is_nestable: bool = False) -> Call:
        """Keep other threads out of a transaction for a block; in it, the same thread may ask for locks.

        Raises:
            IllegalStateError: another thread is in a call, or this one is, where calls do not nest.

        >>> manager = LockManager()
        >>> locker = manager.new_locker()
        >>> with manager.call(locker), manager.call(locker):
        ...     pass
        Traceback (most recent call last):
            ...
        deltanb.errors.IllegalStateError: ... is in another call of this thread; end that first
        """
        with self._mutex:
            before = locker.call
            if before is not None:
                self._refuse_second_call(locker)
                if not is_nestable:
                    raise IllegalStateError(
                        f"{called(locker.id)} is in another call of this thread; end that first")
            locker.call = here.token
        return Call(locker, before)

    def refuse_explored(self, does: str, instead: str) -> None:
        """Refuse something to a writer that is explored, unless it is alone with this manager; the message
        has what it does, and what it can do instead.

        >>> LockManager().refuse_explored("asks for all locks", "ask for one")  # no writer is explored here
        """
        explorer = exploring.get()
        if explorer is not None and self._explored_by is not explorer:
            raise explorer.refuse(f"{does}; {instead}")

    def refuse_to_show(self, does: str) -> None:
        """Refuse to a writer that is explored what depends on all who use the manager at that moment.

        >>> LockManager().refuse_to_show("asks for all locks")  # no writer is explored here
        """
        self.refuse_explored(
            f"{does}, which depends on what others do at that moment",
            "leave that out, or use a manager that the writer makes itself")

    # -- commits that are put off --------------------------------------------------------------

    @property
    def pending(self) -> Buffer:
        """The commits that wait to be flushed.

        >>> len(LockManager().pending)
        0
        """
        return self._put_off

    def put_off(self, txn: Transaction, locker: Locker, changes: Changes) -> None:
        """Have a commit wait: its exclusive locks go to a keeper, all others are released.

        >>> manager = LockManager()
        >>> txn = manager.new_transaction()
        >>> manager.put_off(txn, manager.new_locker(), [])
        >>> manager.num_pending
        1
        """
        attachment = locker.attachment
        callback = attachment if isinstance(attachment, CommitCallback) else None
        with self._mutex:
            keeper = self.new_locker(Keeper)
            keeper.id, keeper.attachment, keeper.thread = locker.id, attachment, here.token
            pending = Pending(txn, locker.id, keeper, changes, callback, self._deadlines())
            try:
                self._put_off.put(pending)
                self._table.keep(locker, keeper)
            except BaseException:
                if self._put_off.has(changes):
                    self._table.keep(locker, keeper)
                raise
        self.end(locker)
        pending.announce()


_managers: WeakSet[LockManager] = WeakSet()


def _after_fork() -> None:
    """In a forked process nobody else is there to release anything, and the mutex may be taken for ever."""
    for manager in list(_managers):
        manager._mutex = manager._waits.mutex = threading.Lock()
        manager._is_foreign = True
        manager._table.quick = None
        manager._put_off.clear(manager._mutex)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
