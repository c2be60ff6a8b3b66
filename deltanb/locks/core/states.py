"""Locks as they stand at one moment, as values.

What lives here: one lock with who holds it and who waits for it, and the order in which several are shown.
What it does not know: how that is drawn, who waits for whom (``graph``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice

from deltanb.locks.core.lock_table import AnyLock, LockTable
from deltanb.locks.core.modes import MODE_NAMES
from deltanb.locks.core.waits import holders_of


@dataclass(frozen=True)
class LockState:
    """One lock as it stood: who holds it and who waits for it, each with a mode.

    >>> from deltanb.locks import LockManager
    >>> manager = LockManager()
    >>> _ = manager.new_transaction().lock_shared(1, b"k")
    >>> [state] = manager.locks()
    >>> state.key, state.holders, state.waiters
    (b'k', ((1, 'shared'),), ())
    """

    index_id: int
    key: bytes
    holders: tuple[tuple[int, str], ...]
    """Transaction ids and modes, who holds it upgradable or exclusively first."""
    waiters: tuple[tuple[int, str], ...]
    """Transaction ids and modes, in the order in which they began to wait."""


def states_of(table: LockTable, limit: int | None) -> tuple[LockState, ...]:
    """Locks as they stand: those that somebody waits for first; the caller keeps everybody else out."""
    awaited = dict.fromkeys(waiter.lock for waiter in table.waiting)
    others = (lock for lock in list(table.locks.values()) if lock not in awaited)
    return tuple(map(_state, islice(chain(awaited, others), limit)))


def _state(lock: AnyLock) -> LockState:
    return LockState(
        *lock.name, holders_of(lock),
        tuple((w.locker.id, MODE_NAMES[w.requested]) for w in sorted(lock.waiters(), key=lambda w: w.ticket)))
