"""Who holds what and who waits for whom, all at one moment: a value that can be shown.

What lives here: the graph of a manager's locks, and how it is taken: the whole of it where it is small, else
what somebody waits for, else the cycle alone. Its size is bounded, however many locks there are.
What it does not know: how it is drawn, who gets a lock (``core``), when deadlocks are looked for (``waits``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from deltanb.locks.core.deadlock import cycle_behind, in_the_way
from deltanb.locks.core.modes import MODE_NAMES, Name, label
from deltanb.text.display import Displayable, views

if TYPE_CHECKING:
    from deltanb.locks.core.lock_table import AnyLock, LockTable, Waiter
    from deltanb.locks.core.stack import Locker

MAX_NODES: Final = 30  # transactions and locks of a picture: of more, nobody sees who waits for whom
MAX_WAITS: Final = 100  # waits that are listed; there may be thousands
WHOLE, AWAITED, CYCLE = "all", "waited for", "cycle"


@dataclass(frozen=True)
class Member:
    """A transaction of the graph."""

    id: int
    attachment: Any
    age_ms: int
    """How long ago it began."""


@dataclass(frozen=True)
class Held:
    """A lock that a transaction holds."""

    transaction: int
    index_id: int
    key: bytes
    mode: str

    @property
    def lock(self) -> str:
        """The lock, as text."""
        return label((self.index_id, self.key))


@dataclass(frozen=True)
class Wait:
    """A lock that a transaction waits for."""

    transaction: int
    index_id: int
    key: bytes
    mode: str
    waited_ms: int
    """How long it has waited."""
    blockers: tuple[int, ...]
    """The transactions that it waits for, the owner of the lock first; thirty of them at most."""
    attachment: Any = None

    @property
    def lock(self) -> str:
        """The lock, as text."""
        return label((self.index_id, self.key))


@dataclass(frozen=True, repr=False)
class LockGraph(Displayable):
    """The locks of a manager at one moment: who holds them, who waits for whom, and since when.

    Of more than thirty transactions and locks it has those locks alone that somebody waits for, with who
    holds them and who waits; if they are too many, too, the cycle of a deadlock alone, if there is one.
    ``part`` says which of these it is: "all", "waited for" or "cycle". ``waits`` has the hundred longest
    waits in any case.

    >>> from deltanb.locks import LockManager
    >>> manager = LockManager()
    >>> _ = manager.new_transaction("nightly").lock_exclusive(1, b"k")
    >>> graph = manager.graph()
    >>> graph.part, graph.num_locks, graph.locks, graph.cycle
    ('all', 1, ((1, b'k'),), ())
    """

    members: tuple[Member, ...]
    """The transactions of the picture."""
    locks: tuple[Name, ...]
    """The locks of the picture: index id and key."""
    holds: tuple[Held, ...]
    """Who holds which of these locks."""
    waits: tuple[Wait, ...]
    """Who waits, those who began first before the others."""
    cycle: tuple[int, ...]
    """Transactions that wait in a cycle, each for the next one, the last for the first; or none."""
    part: str
    num_locks: int
    """How many locks are held in all."""
    num_waiting: int
    """How many transactions wait in all."""

    @property
    def transactions(self) -> tuple[int, ...]:
        """The ids of the transactions of the picture.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> for _ in range(2):
        ...     _ = manager.new_transaction().lock_shared(1, b"k")
        >>> manager.graph().transactions
        (1, 2)
        """
        return tuple(member.id for member in self.members)

    @property
    def svg(self) -> str:
        """The graph as SVG: transactions and locks, holds and waits as arrows.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager()
        >>> _ = manager.new_transaction().lock_exclusive(1, b"k")
        >>> manager.graph().svg[:4]
        '<svg'
        """
        drawn: str = views().drawing(self, "svg")
        return drawn


def taken(table: LockTable, now: int) -> LockGraph:
    """The graph as it stands; the caller keeps everybody else out meanwhile. ``now`` is in nanoseconds."""
    waiting = list(table.waiting)
    cycle = cycle_among(waiting)
    locks, lockers, part = _chosen(table, waiting, cycle)
    ahead: dict[AnyLock, Waiter | None] = {}
    listed = dict.fromkeys([*cycle[:MAX_NODES], *islice(waiting, MAX_WAITS)])
    return LockGraph(
        tuple(Member(one.id, one.attachment, (now - one.born) // 1_000_000) for one in lockers),
        tuple(lock.name for lock in locks),
        tuple(Held(locker.id, *lock.name, MODE_NAMES[mode])
              for lock in locks for locker, mode in lock.holders() if locker in lockers),
        tuple(_wait_of(waiter, ahead, now) for waiter in sorted(listed, key=lambda w: w.ticket)),
        tuple(waiter.locker.id for waiter in cycle), part, len(table.locks), len(waiting))


def cycle_among(waiting: Iterable[Waiter]) -> list[Waiter]:
    """A cycle of those who wait, beginning with who has waited longest; empty where there is none."""
    done: set[Waiter] = set()
    for waiter in waiting:
        if waiter not in done:
            cycle = cycle_behind(waiter, done)[1]
            if cycle:
                first = min(range(len(cycle)), key=lambda at: cycle[at].ticket)
                return cycle[first:] + cycle[:first]
    return []


def _chosen(table: LockTable, waiting: list[Waiter],
            cycle: list[Waiter]) -> tuple[list[AnyLock], dict[Locker, None], str]:
    """The locks and the transactions of the picture, and which part of all that is."""
    parts: list[tuple[str, Iterable[AnyLock], int]] = [
        (WHOLE, table.locks.values(), len(table.locks)),
        (AWAITED, dict.fromkeys(waiter.lock for waiter in waiting), len(waiting)),
    ]
    for part, some, least in parts:
        chosen = _small(some, waiting) if least <= MAX_NODES else None
        if chosen is not None:
            return *chosen, part
    cycle = cycle[:MAX_NODES // 2]
    return (list(dict.fromkeys(waiter.lock for waiter in cycle)),
            dict.fromkeys(waiter.locker for waiter in cycle), CYCLE)


def _small(locks: Iterable[AnyLock],
           waiting: list[Waiter]) -> tuple[list[AnyLock], dict[Locker, None]] | None:
    """Locks with all who hold them or wait; None where that is more than a picture takes."""
    chosen = list(locks)
    lockers = dict.fromkeys(waiter.locker for waiter in waiting)
    for lock in chosen:
        for locker, _ in lock.holders():
            lockers[locker] = None
            if len(lockers) + len(chosen) > MAX_NODES:
                return None
    return (chosen, lockers) if len(lockers) + len(chosen) <= MAX_NODES else None


def _wait_of(waiter: Waiter, ahead: dict[AnyLock, Waiter | None], now: int) -> Wait:
    locker = waiter.locker
    blockers = (other.id for other in in_the_way(waiter, ahead) if other is not locker)
    return Wait(locker.id, *waiter.lock.name, MODE_NAMES[waiter.requested],
                  (now - waiter.since) // 1_000_000, tuple(islice(blockers, MAX_NODES)), locker.attachment)
