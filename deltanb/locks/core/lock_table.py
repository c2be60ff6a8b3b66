"""The core of locking: who gets a lock, and when. Every decision about a lock is made here.

What lives here: the table of what a request goes through, one lock with its holders and its two queues, and
all locks of a manager; those with an index id below 0 are locks on wholes with parts (``granules``). It is a
state machine: each call changes the state and returns at once; a request that has to wait comes back as a
:class:`Waiter`, and a later call grants or cancels that.
What it does not know: threads, clocks, timeouts (``manager``), who waits in a cycle (``deadlock``), scopes
and groups (``stack``). Its caller lets one call in at a time.

How it works
------------
A lock is *held* by any number of sharing transactions and by at most one **owner**, who holds it upgradable
or, when it is alone, exclusively. A request goes through up to two steps, and may have to wait at each:

* ``READ``: join those who share. Waits while the lock is exclusive, or while somebody waits before it in the
  queue of readers: a waiting writer is not overtaken.
* ``OWN``: become the owner. Waits in the queue of owners while there is one.
* ``ALONE``: as the owner, wait for the others to leave. This one waits in the queue of readers, so that those
  who come later do not pass it; those who came before it, while the lock was exclusive, go first.

Who is granted is decided by whoever changes the lock (direct hand-over): after every change,
:meth:`Lock.settle` grants all that can be granted, in order. So nothing can be free while somebody waits for
it, and nobody is woken in vain. What always holds between two calls:

* if there is no owner, nobody waits to own;
* at the head of the queue of readers is the owner waiting to be alone, or the lock is exclusive, or the
  queue is empty;
* a transaction waits for one lock at most, and never counts as a sharer of a lock that it owns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from deltanb.locks.core.granules import CONVERT, JOIN, Granule
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    JOINED,
    NONE,
    OWNED,
    SHARED,
    UPGRADABLE,
    IndexId,
    LockResult,
    Name,
    UpgradeRule,
    base_of,
)
from deltanb.locks.core.repair import mend, withdraw
from deltanb.locks.core.stack import NO_POSITIONS, NO_UPGRADES

if TYPE_CHECKING:
    from deltanb.locks.core.stack import Locker

READ, OWN, ALONE = "read", "own", "alone"

REQUESTS: Final[dict[tuple[int, int], Any]] = {
    # holds,     wants:        the result at once, or the steps and the result when they are done
    (NONE, SHARED): ((READ,), LockResult.ACQUIRED),
    (NONE, UPGRADABLE): ((OWN,), LockResult.ACQUIRED),
    (NONE, EXCLUSIVE): ((OWN, ALONE), LockResult.ACQUIRED),
    (SHARED, SHARED): LockResult.OWNED_SHARED,
    (SHARED, UPGRADABLE): ((OWN,), LockResult.OWNED_UPGRADABLE),  # if the upgrade rule allows it
    (SHARED, EXCLUSIVE): ((OWN, ALONE), LockResult.UPGRADED),  # if the upgrade rule allows it
    (UPGRADABLE, SHARED): LockResult.OWNED_UPGRADABLE,
    (UPGRADABLE, UPGRADABLE): LockResult.OWNED_UPGRADABLE,
    (UPGRADABLE, EXCLUSIVE): ((ALONE,), LockResult.UPGRADED),
    (EXCLUSIVE, SHARED): LockResult.OWNED_EXCLUSIVE,
    (EXCLUSIVE, UPGRADABLE): LockResult.OWNED_EXCLUSIVE,
    (EXCLUSIVE, EXCLUSIVE): LockResult.OWNED_EXCLUSIVE,
}
"""Every request that there is."""

ANSWERS: Final[tuple[tuple[Any, ...], ...]] = tuple(
    tuple(REQUESTS.get((held, requested)) for requested in range(4)) for held in range(4))
"""The same by position, since every call looks here."""

ACQUIRED = LockResult.ACQUIRED
MANY = 200
"""Locks that leave the table so wide that it is made small again when they are gone."""
FEW = 8
"""Sharers kept in a tuple; more are in a dict, which takes four times the memory and finds one at once."""


class Waiter:
    """A request that waits: at which step, and once it ended, with what result.

    Whoever waits sets ``signal``, anything with ``release()``; it is released when ``result`` is there.
    """

    __slots__ = (
        "call",
        "height",
        "held",
        "is_endless",
        "lock",
        "locker",
        "requested",
        "result",
        "signal",
        "since",
        "step",
        "ticket",
    )

    def __init__(self, locker: Locker, lock: AnyLock, held: int, requested: int, step: str,
                 ticket: int) -> None:
        self.locker = locker
        self.lock = lock
        self.held = held
        self.requested = requested
        self.step = step
        self.ticket = ticket
        """Who began to wait earlier has a lower one."""
        self.height = len(locker.entries)
        self.result: LockResult | None = None
        self.signal: Any = None
        self.call: object = None
        """Who was in a call of the transaction before; for the one that waits."""
        self.since: int = 0
        self.is_endless = False


class Lock:
    """One lock: who holds it, who waits."""

    __slots__ = ("is_exclusive", "name", "owner", "owners", "readers", "shared")

    name: Name
    owner: Locker | None
    is_exclusive: bool
    shared: tuple[Locker, ...] | dict[Locker, None]
    owners: deque[Waiter] | None
    """Those who wait to own it."""
    readers: deque[Waiter] | None
    """Those who wait to share it, and an owner who waits to be alone."""

    @classmethod
    def new(cls, name: Name, locker: Locker, mode: int) -> Lock:
        """A lock that one transaction holds. There is no ``__init__``: it would cost as much as all else."""
        lock = cls()
        lock.name = name
        lock.owner = None if mode == SHARED else locker
        lock.is_exclusive = mode == EXCLUSIVE
        lock.shared = (locker,) if mode == SHARED else ()
        lock.owners = lock.readers = None
        return lock

    def held_by(self, locker: Locker) -> int:
        """What a transaction holds of it."""
        if self.owner is locker:
            return EXCLUSIVE if self.is_exclusive else UPGRADABLE
        return SHARED if locker in self.shared else NONE

    def holders(self) -> Iterable[tuple[Locker, int]]:
        """Everybody who holds it, the owner first, and how."""
        if self.owner is not None:
            yield self.owner, EXCLUSIVE if self.is_exclusive else UPGRADABLE
        for locker in self.shared:
            yield locker, SHARED

    def waiters(self) -> Iterable[Waiter]:
        """Everybody who waits, those who wait to own it first."""
        yield from self.owners or ()
        yield from self.readers or ()

    def is_only_sharer(self, locker: Locker) -> bool:
        """Whether nobody but this one holds it; a lenient upgrade asks."""
        return self.owner is None and len(self.shared) == 1

    def enter(self, waiter: Waiter) -> bool:
        """Take the step a request is at, and those after it; False where it has to wait for one."""
        if waiter.step is READ:
            if self.is_exclusive or self.readers:
                self._wait_to_read(waiter)
                return False
            self._share(waiter.locker)
            return True
        if waiter.step is OWN:
            if self.owner is not None:
                if self.owners is None:
                    self.owners = deque()
                self.owners.append(waiter)
                return False
            self.owner = waiter.locker
            if waiter.held == SHARED:
                self._unshare(waiter.locker)
            if waiter.requested == UPGRADABLE:
                return True
            waiter.step = ALONE
        if self.shared:
            self._wait_to_read(waiter)
            return False
        self.is_exclusive = True
        return True

    def leave(self, waiter: Waiter) -> list[Waiter]:
        """Take a waiting request back: it holds what it held before. Returns who is granted by that."""
        if waiter.step is OWN:
            assert self.owners is not None
            self.owners.remove(waiter)
            return []
        assert self.readers is not None
        self.readers.remove(waiter)
        if waiter.step is READ:
            return []
        return self.lower(waiter.locker, waiter.held)

    def lower(self, locker: Locker, to: int) -> list[Waiter]:
        """Make what a transaction holds weaker, or nothing. Returns who is granted by that."""
        if self.owner is locker:
            if to < EXCLUSIVE:
                self.is_exclusive = False
            if to < UPGRADABLE:
                self.owner = None
                if to == SHARED:
                    self._share(locker)
        elif to == NONE:
            self._unshare(locker)
        if self.readers is None and self.owners is None:
            return []
        return self.settle()

    def settle(self) -> list[Waiter]:
        """Grant all that can be granted: first those who wait to read, up to a writer, then a new owner."""
        granted: list[Waiter] = []
        readers = self.readers
        while readers and not self.is_exclusive and readers[0].step is READ:
            waiter = readers.popleft()
            self._share(waiter.locker)
            granted.append(waiter)
        if self.owner is None:
            if self.owners:
                waiter = self.owners.popleft()
                if self.enter(waiter):
                    granted.append(waiter)
        elif readers and not self.is_exclusive and not self.shared:
            waiter = readers.popleft()
            self.is_exclusive = True
            granted.append(waiter)
        return granted

    def result_of(self, waiter: Waiter) -> LockResult:
        """The result of a request that was granted."""
        result: LockResult = REQUESTS[waiter.held, waiter.requested][1]
        return result

    def lasting(self, locker: Locker) -> int:
        """What of a transaction's mode stays until what was changed is permanent or undone."""
        return EXCLUSIVE if self.is_exclusive and self.owner is locker else NONE

    def as_shared(self, locker: Locker, floor: int) -> int:
        """What is left of a transaction's mode when it only shares."""
        return SHARED

    def hand_over(self, locker: Locker, other: Locker, mode: int) -> list[Waiter]:
        """Another owner; nobody who waits is any nearer to the lock."""
        assert self.owner is locker and mode == EXCLUSIVE
        self.owner = other
        return []

    def close(self, keeper: Locker) -> bool:
        """An exclusive lock is the keeper's for good, all else is dropped; whether anything is left."""
        self.readers = self.owners = None
        self.owner, self.shared = keeper if self.is_exclusive else None, ()
        return self.is_exclusive

    # -- after an interrupt (``repair``) -------------------------------------------------------

    def force(self, locker: Locker, mode: int) -> None:
        """Have a transaction hold exactly this, whatever step towards it was the last."""
        if self.owner is locker:
            self.owner, self.is_exclusive = None, False
        self._unshare(locker)
        if mode == SHARED:
            self._share(locker)
        elif mode != NONE:
            self.owner, self.is_exclusive = locker, mode == EXCLUSIVE

    def withdraw(self, waiter: Waiter) -> None:
        """Take a request out of its queue, if it is in one."""
        for queue in (self.owners, self.readers):
            if queue and waiter in queue:
                queue.remove(waiter)

    def resume(self, waiter: Waiter) -> bool:
        """Go on with a request that has left a queue for its next step; False where it waits again."""
        if waiter.step is READ:
            self.force(waiter.locker, SHARED)
            return True
        self.force(waiter.locker, UPGRADABLE)
        if waiter.requested == UPGRADABLE:
            return True
        waiter.step = ALONE
        return self.enter(waiter)

    def _wait_to_read(self, waiter: Waiter) -> None:
        if self.readers is None:
            self.readers = deque()
        self.readers.append(waiter)

    def _share(self, locker: Locker) -> None:
        shared = self.shared
        if isinstance(shared, dict):
            shared[locker] = None
        elif len(shared) < FEW:
            self.shared = (*shared, locker)
        else:
            self.shared = {**dict.fromkeys(shared), locker: None}

    def _unshare(self, locker: Locker) -> None:
        shared = self.shared
        if isinstance(shared, dict):
            shared.pop(locker, None)
        elif len(shared) == 1 and shared[0] is locker:
            self.shared = ()
        elif shared:
            self.shared = tuple(other for other in shared if other is not locker)


AnyLock = Lock | Granule


class LockTable:
    """All locks that somebody holds, by name; and what each transaction has on its stack.

    A lock is in it only while it is held; where nobody holds it, nobody waits for it, either.

    One change comes from outside, and without the mutex of all others: a lock that nobody holds is put into
    ``locks`` (``manager``), complete, by ``setdefault``. That is one step for every thread, with a global
    interpreter lock or without, as the keys are tuples of an integer and bytes, whose comparison runs no code
    of Python. So here, too, locks are put in by ``setdefault``, and whoever goes through all of them makes a
    list of them first, which is one step as well. Locks of wholes come and go under the mutex only.
    """

    __slots__ = ("ids", "is_wide", "locks", "quick", "rule", "tickets", "waiting")

    def __init__(self, rule: UpgradeRule) -> None:
        self.rule = rule
        self.locks: dict[Name, Any] = {}
        self.ids: dict[int, IndexId] = {}
        """The ids below 0 that have names: their locks are called so."""
        self.waiting: dict[Waiter, None] = {}
        """Those who wait, the first one first."""
        self.tickets = 0
        self.is_wide = False
        """Whether there were so many locks that their memory is worth freeing."""
        self.quick: object | None = object() if self.__class__ is LockTable else None
        """A token, and another one whenever what was put in from outside may have been lost; None where
        nothing may be put in so: where all locks are recorded, and once the manager is closed.
        Who puts a lock in compares the token before with the one after."""

    def ask(self, locker: Locker, name: Name, requested: int) -> LockResult | Waiter:
        """What a request comes to, or the request as one that waits."""
        if name[0] < 0:
            return self._ask_for_whole(locker, name, requested)
        lock = self.locks.get(name)
        if lock is None:  # nobody holds it: granted in any mode
            new = Lock.new(name, locker, requested)
            lock = self.locks.setdefault(name, new)
            if lock is new:
                locker.entries.append(lock)
                return ACQUIRED
        if lock.owner is locker:
            held = EXCLUSIVE if lock.is_exclusive else UPGRADABLE
        else:
            held = SHARED if lock.shared and locker in lock.shared else NONE
        answer = ANSWERS[held][requested]
        if answer.__class__ is LockResult:
            return answer
        if held == SHARED and not self._may_upgrade(lock, locker):
            return LockResult.ILLEGAL
        return self._take(Waiter(locker, lock, held, requested, answer[0][0], self.tickets))

    def _ask_for_whole(self, locker: Locker, name: Name, requested: int) -> LockResult | Waiter:
        granule: Granule | None = self.locks.get(name)
        if granule is None:
            name = self.ids.get(name[0], name[0]), name[1]
            granule = self.locks[name] = Granule(name, locker, JOINED[NONE][requested])
            locker.acquired(granule)
            return ACQUIRED
        held = granule.held_by(locker)
        requested = JOINED[held][requested]
        if requested == held:
            return OWNED[held]
        if base_of(held) == SHARED and not self._may_upgrade(granule, locker):
            return LockResult.ILLEGAL
        step = JOIN if held == NONE else CONVERT
        return self._take(Waiter(locker, granule, held, requested, step, self.tickets))

    def _may_upgrade(self, lock: AnyLock, locker: Locker) -> bool:
        if self.rule is UpgradeRule.LENIENT:
            return lock.is_only_sharer(locker)
        return self.rule is UpgradeRule.UNCHECKED

    def _take(self, waiter: Waiter) -> LockResult | Waiter:
        """Grant a request, or let it wait."""
        try:
            if waiter.lock.enter(waiter):
                return self.granted(waiter)
            self.tickets += 1
            waiter.locker.waiter = waiter
            self.waiting[waiter] = None
        except BaseException:
            withdraw(self, waiter, LockResult.INTERRUPTED)
            raise
        return waiter

    def granted(self, waiter: Waiter, is_noted: bool = False) -> LockResult:
        """Note on the stack what was granted, unless it is there, and tell who waits for it."""
        result = waiter.lock.result_of(waiter)
        if not is_noted:
            if result is LockResult.ACQUIRED:
                waiter.locker.acquired(waiter.lock)
            elif result is LockResult.UPGRADED:
                waiter.locker.upgraded(waiter.lock, waiter.held)
        self.end(waiter, result)
        return result

    def end(self, waiter: Waiter, result: LockResult) -> None:
        """Tell who waits what came of it."""
        try:
            waiter.result = result
            if waiter.locker.waiter is waiter:
                waiter.locker.waiter = None
                self.waiting.pop(waiter, None)
                if waiter.signal is not None:
                    waiter.signal.release()
        except BaseException:
            waiter.result = result
            if waiter.locker.waiter is waiter:
                waiter.locker.waiter = None
            self.waiting.pop(waiter, None)
            with suppress(RuntimeError):  # it was released
                if waiter.signal is not None:
                    waiter.signal.release()
            raise

    def cancel(self, waiter: Waiter, result: LockResult) -> None:
        """End a wait without the lock."""
        try:
            granted = waiter.lock.leave(waiter)
            self.end(waiter, result)
            for other in granted:
                self.granted(other)
        except BaseException:
            if waiter.result is None:
                withdraw(self, waiter, result)
            else:  # its thread may run already, and lock something else
                mend(self)
            raise

    def take_back(self, waiter: Waiter) -> None:
        """Undo a request that was granted, as its transaction's last: it holds what it held before."""
        self.weaken(waiter.locker, [(waiter.lock, waiter.held)], waiter.height)

    def give_back(self, locker: Locker, height: int) -> None:
        """Give back what a transaction has locked since its stack was so high, the last lock first."""
        self.weaken(locker, locker.locks_above(height), height)

    def weaken(self, locker: Locker, targets: Sequence[tuple[AnyLock, int]], height: int) -> None:
        """Make what a transaction holds of some locks weaker, or nothing, and its stack at most so high: all
        of it, also where an interrupt comes in between."""
        try:
            locker.cut(height)
            for lock, to in targets:
                self.lower(locker, lock, to)
        except BaseException:
            mend(self, locker, height, targets)
            raise

    def lower(self, locker: Locker, lock: AnyLock, to: int) -> None:
        """Make what a transaction holds weaker, or nothing; its stack is the caller's affair."""
        try:
            for waiter in lock.lower(locker, to):
                self.granted(waiter)
            if to == NONE and lock.owner is None and not lock.shared:
                self.locks.pop(lock.name, None)
        except BaseException:
            mend(self, locker, targets=[(lock, to)])
            raise

    def drop(self, locker: Locker, lock: Any) -> None:
        """Release a lock; quickly where nobody else knows of it."""
        if lock.owner is locker and lock.owners is None and lock.readers is None and not lock.shared:
            lock.owner = None
            del self.locks[lock.name]
        else:
            self.lower(locker, lock, NONE)

    def release(self, locker: Locker) -> None:
        """Release all that a transaction holds, the last lock first."""
        locks, entries = self.locks, locker.entries
        self.is_wide = self.is_wide or len(locks) > MANY
        is_quick = self.__class__ is LockTable  # else ``drop`` does more; its call is 11 % of a commit
        try:
            for lock in reversed(entries):
                if (is_quick and lock.owner is locker and not lock.shared
                        and lock.owners is None and lock.readers is None):
                    lock.owner = None
                    del locks[lock.name]
                elif lock.owner is locker or lock.shared:  # the lock of an upgrade comes twice
                    self.drop(locker, lock)
            entries.clear()
            if locker.upgrades or locker.joined:
                locker.upgrades, locker.joined = NO_UPGRADES, NO_POSITIONS
            locker.is_plain = True
            locker.floor = 0
        except BaseException:
            mend(self, locker, 0, [(lock, NONE) for lock in entries])
            locker.floor = 0
            raise
        if self.is_wide and not locks:
            self._narrow()

    def _narrow(self) -> None:
        """Free the memory of very many locks. What is put in meanwhile may be lost: the token tells."""
        quick, self.quick = self.quick, None
        try:
            if not self.locks:
                self.locks.clear()
                self.is_wide = False
        finally:
            self.quick = None if quick is None else object()

    def keep(self, locker: Locker, keeper: Locker) -> None:
        """Hand what must last of a transaction's locks over to a keeper, and release the rest."""
        modes = {lock: lock.lasting(locker) for lock, _ in locker.locks_above(0)}
        try:
            for lock, mode in modes.items():
                if mode == NONE:
                    self.lower(locker, lock, NONE)
                    continue
                granted = lock.hand_over(locker, keeper, mode)
                keeper.acquired(lock)
                for waiter in granted:
                    self.granted(waiter)
            locker.cut(0)
        except BaseException:
            keeper.cut(0)
            for lock, mode in modes.items():
                lock.force(locker, NONE)
                if mode != NONE:
                    lock.force(keeper, mode)
                    keeper.acquired(lock)
            mend(self, locker, 0)
            raise

    def close(self, keeper: Locker) -> None:
        """Interrupt all who wait; what must last goes to a keeper for good, what else is held is dropped."""
        self.quick = None
        for waiter in list(self.waiting):
            self.end(waiter, LockResult.INTERRUPTED)
        for name, lock in list(self.locks.items()):
            if not lock.close(keeper):
                self.locks.pop(name, None)

    def check(self, locker: Locker, name: Name) -> LockResult:
        """What a transaction holds."""
        lock = self.locks.get(name)
        return LockResult.UNOWNED if lock is None else OWNED[lock.held_by(locker)]
