"""Who waits for whom: the cycle that a wait would close, and how it is described.

What lives here: which transactions stand in the way of one that waits, the search for a cycle among them,
and the cycle as a value that can be shown.
What it does not know: when to search, and who is refused (``manager``).

An edge leads from a transaction that waits to each one that has to do something before it can be granted:

* a reader waits for the owner: it is exclusive, or about to be;
* the owner that wants to be alone waits for all others that share;
* who wants to own waits for the owner; for those who share, if it wants to be exclusive; and for the first
  one ahead in the queue that wants to be exclusive, since that one waits for those who share, and this one
  may be among them.

For locks on wholes see :meth:`Granule.in_the_way <deltanb.locks.core.granules.Granule.in_the_way>`.

Somebody who only shares is not in the way of an upgradable lock, so an idle reader is never taken for a part
of a cycle; nor is a transaction in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltanb.locks.core.granules import JOIN, Granule
from deltanb.locks.core.lock_table import ALONE, READ, AnyLock, Waiter
from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES, NONE, TOGETHER, UPGRADABLE, Name, label
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    from deltanb.locks.core.stack import Locker


@dataclass(frozen=True)
class Wait:
    """One transaction of a cycle: what it waits for, and what it holds that the one before it wants.

    >>> wait = Wait(2, None, 1, b"k", "shared", "unlocked", ((1, b"j", "exclusive"),), 0, 5)
    >>> wait.transaction, wait.mode, wait.holds
    (2, 'shared', ((1, b'j', 'exclusive'),))
    """

    transaction: int
    """The id of the transaction."""
    attachment: Any
    index_id: int
    key: bytes
    mode: str
    """What it wants: "shared", "upgradable", "exclusive", or an intention; ``MODE_NAMES`` has all."""
    has: str
    """What it holds of the same lock meanwhile: a mode, or "unlocked"."""
    holds: tuple[tuple[int, bytes, str], ...]
    """What it holds of the locks that others of the cycle wait for: index id, key, mode."""
    waited_ms: int
    """How long it has waited."""
    age_ms: int
    """How long ago it began."""

    @property
    def lock(self) -> str:
        """The lock it waits for, as text.

        >>> Wait(2, None, 1, b"k", "shared", "unlocked", (), 0, 5).lock
        '1:k'
        """
        return label((self.index_id, self.key))


@dataclass(frozen=True)
class DeadlockItem:
    """A lock that somebody waits for in a deadlock, and the attachment of who owns it.

    >>> str(DeadlockItem(1, b"k", "nightly"))
    '1:k'
    """

    index_id: int
    key: bytes
    owner_attachment: Any = None

    def __str__(self) -> str:
        return label((self.index_id, self.key))


@dataclass(frozen=True, repr=False)
class Cycle(Displayable):
    """Transactions that wait for each other: each for the next one, the last for the first.

    ``victim`` is the id of the transaction whose call was refused; ``is_on_it`` tells whether it is one of
    them. Where ``thread`` is set there is one more in the cycle, that thread: the last transaction waits for
    ``idle``, which only that thread works on, and the thread was about to wait for ever.

    >>> from deltanb.errors import DeadlockError
    >>> from deltanb.locks import LockManager
    >>> manager = LockManager(park=lambda waiter, timeout: meet())  # what another thread does meanwhile
    >>> one, other = manager.new_transaction(), manager.new_transaction()
    >>> _ = one.lock_exclusive(1, b"a"), other.lock_exclusive(1, b"b")
    >>> def meet():
    ...     try:
    ...         other.lock_exclusive(1, b"a")
    ...     except DeadlockError as error:
    ...         cycles.append(error.cycle)
    ...     other.exit()
    ...     return True
    >>> cycles = []
    >>> one.lock_exclusive(1, b"b")
    ACQUIRED
    >>> [cycle] = cycles
    >>> [(wait.transaction, wait.lock) for wait in cycle.waits], cycle.victim
    ([(2, '1:a'), (1, '1:b')], 2)
    """

    waits: tuple[Wait, ...]
    victim: int
    is_on_it: bool = True
    idle: int | None = None
    thread: str | None = None

    @property
    def transactions(self) -> tuple[int, ...]:
        """The ids of the transactions.

        >>> first = Wait(1, None, 1, b"b", "exclusive", "unlocked", ((1, b"a", "exclusive"),), 0, 5)
        >>> second = Wait(2, None, 1, b"a", "exclusive", "unlocked", ((1, b"b", "exclusive"),), 0, 5)
        >>> Cycle((first, second), victim=2).transactions
        (1, 2)
        """
        ids = tuple(wait.transaction for wait in self.waits)
        return ids if self.idle is None else (*ids, self.idle)

    @property
    def order(self) -> tuple[Name, ...]:
        """An order of the locks in which nobody waits in a cycle: whoever needs several takes them so.

        >>> first = Wait(1, None, 1, b"b", "exclusive", "unlocked", ((1, b"a", "exclusive"),), 0, 5)
        >>> second = Wait(2, None, 1, b"a", "exclusive", "unlocked", ((1, b"b", "exclusive"),), 0, 5)
        >>> Cycle((first, second), victim=2).order
        ((1, b'a'), (1, b'b'))
        """
        return tuple(sorted({(wait.index_id, wait.key) for wait in self.waits}))

    @property
    def is_conversion(self) -> bool:
        """Whether they all want the same lock: they share it, and wait to write it.

        >>> waits = [Wait(txn, None, 1, b"k", "exclusive", "shared", (), 0, 5) for txn in (1, 2)]
        >>> Cycle(tuple(waits), victim=2).is_conversion
        True
        """
        return self.idle is None and len(self.order) == 1


def in_the_way(waiter: Waiter, ahead: dict[AnyLock, Waiter | None],
               is_short: bool = False,
               passed: dict[AnyLock, Waiter] | None = None) -> Iterable[Locker]:
    """The transactions that a waiting one waits for, as the rules above say.

    ``ahead`` remembers the first of each queue that wants to be exclusive, for one search. ``is_short`` may
    leave out those who are in the way of others that it gives. ``passed`` leaves out those who wait before
    somebody for whom a search has got them already, and remembers that: a queue is gone through once.
    """
    lock = waiter.lock
    if isinstance(lock, Granule):
        if passed is None:
            return lock.in_the_way(waiter, is_short)
        last = passed.get(lock)
        if last is not None and last.ticket >= waiter.ticket:
            return lock.keep_off(waiter)
        if waiter.step is JOIN:
            passed[lock] = waiter
        return lock.in_the_way(waiter)
    if waiter.step is ALONE:
        return lock.shared
    owner = lock.owner
    assert owner is not None
    if waiter.step is READ or not lock.shared:
        return (owner,)
    lockers = [owner]
    if waiter.requested == EXCLUSIVE:
        lockers += (other for other in lock.shared if other is not waiter.locker)
    if lock not in ahead:
        writers = (other for other in lock.owners or () if other.requested == EXCLUSIVE)
        ahead[lock] = next(writers, None)
    first = ahead[lock]
    if first is not None and first.ticket < waiter.ticket:
        lockers.append(first.locker)
    return lockers


def cycle_of(waiter: Waiter) -> list[Waiter]:
    """The shortest cycle through a transaction that waits, beginning with it; empty where there is none."""
    start, ahead = waiter.locker, dict[AnyLock, "Waiter | None"]()
    before: dict[Waiter, Waiter | None] = {waiter: None}
    passed: dict[AnyLock, Waiter] = {}
    queue = [waiter]
    for current in queue:
        for locker in in_the_way(current, ahead, False, passed):
            if locker is start:
                return path_to(current, before)
            further = locker.waiter
            if further is not None and further not in before:
                before[further] = current
                queue.append(further)
    return []


def cycle_behind(waiter: Waiter, done: set[Waiter] | None = None) -> tuple[list[Waiter], list[Waiter]]:
    """Any cycle that a transaction waits for: the way from it to there, and the cycle.

    Who is in ``done`` leads to none; those of whom this is found out are added.
    """
    ahead: dict[AnyLock, Waiter | None] = {}
    done = set() if done is None else done
    path = [waiter]
    places = {waiter: 0}
    edges = [iter(in_the_way(waiter, ahead, True))]
    while path:
        further = next(edges[-1], None)
        if further is None:
            done.add(path[-1])
            del places[path.pop()], edges[-1]
            continue
        reached = further.waiter
        if reached is None or reached in done:
            continue
        if reached in places:
            at = places[reached]
            return path[:at], path[at:]
        places[reached] = len(path)
        path.append(reached)
        edges.append(iter(in_the_way(reached, ahead, True)))
    return [], []


def ended_by(waiter: Waiter, thread: object) -> tuple[list[Waiter], Locker | None]:
    """The way to an idle transaction of a thread that a wait would depend on, if all on it wait for ever.

    Whoever works on that transaction in another thread could end the wait; that the last call came from
    ``thread`` is all there is to go by.
    """
    ahead: dict[AnyLock, Waiter | None] = {}
    before: dict[Waiter, Waiter | None] = {waiter: None}
    passed: dict[AnyLock, Waiter] = {}
    queue = [waiter]
    for current in queue:
        for locker in in_the_way(current, ahead, False, passed):
            further = locker.waiter
            if further is None:
                if locker.thread is thread:
                    return path_to(current, before), locker
            elif further.is_endless and further not in before:
                before[further] = current
                queue.append(further)
    return [], None


def path_to(last: Waiter, before: dict[Waiter, Waiter | None]) -> list[Waiter]:
    """The way by which a search came to somebody, from its start."""
    path = [last]
    while (previous := before[path[-1]]) is not None:
        path.append(previous)
    return path[::-1]


def described(
    cycle: list[Waiter], victim: Locker, now: int, idle: Locker | None = None, thread: str | None = None
) -> Cycle:
    """A cycle as a value; ``now`` is in nanoseconds."""
    locks = list(dict.fromkeys(waiter.lock for waiter in cycle))

    def wait(waiter: Waiter) -> Wait:
        held = [(lock, lock.held_by(waiter.locker)) for lock in locks if lock is not waiter.lock]
        return Wait(
            waiter.locker.id, waiter.locker.attachment, *waiter.lock.name, MODE_NAMES[waiter.requested],
            MODE_NAMES[waiter.lock.held_by(waiter.locker)],
            tuple((*lock.name, MODE_NAMES[mode]) for lock, mode in held if mode != NONE),
            (now - waiter.since) // 1_000_000, (now - waiter.locker.born) // 1_000_000)

    return Cycle(tuple(map(wait, cycle)), victim.id, any(w.locker is victim for w in cycle),
                 None if idle is None else idle.id, thread)


def items(waiters: Iterable[Waiter]) -> tuple[DeadlockItem, ...]:
    """The locks that are waited for, each once, with their owners' attachments."""
    locks = dict.fromkeys(waiter.lock for waiter in waiters)
    return tuple(DeadlockItem(*lock.name, attachment_of(lock, None, EXCLUSIVE)) for lock in locks)


def attachment_of(lock: AnyLock, asking: Locker | None, requested: int) -> Any:
    """The attachment of who owns a lock, or else of the first that has one and keeps others from a mode."""
    for locker, mode in lock.holders():
        if (locker is not asking and locker.attachment is not None
                and (mode in (UPGRADABLE, EXCLUSIVE) or not TOGETHER[mode][requested])):
            return locker.attachment
    return None
