"""What an interrupt has left half done in the core is brought to an end, under the mutex.

What lives here: :func:`mend`, which makes the table of locks true again from what is held and who is queued,
and :func:`withdraw`, which ends a request that was broken off.
What it does not know: what was being done. Whoever changes the table says what it was about to come to.

A Ctrl-C can come between any two steps of a change, also while others are granted what it has set free. Then
a lock could be held that is on nobody's stack, a request could be in a queue that nobody waits for, or out of
its queue and never granted. Each change therefore ends, in its ``except BaseException``, with a call of
:func:`mend`; what is given back is given back whole then, what was asked for is not held, and the interrupt
goes on its way. What always holds afterwards:

* the transaction of the change holds the locks on its stack and no other;
* whoever waits is in the queue of one lock, and could not be granted it;
* a lock that nobody holds is gone.

Only the transaction of the change is brought into order. Others may take free locks at the same moment,
without the mutex (``manager``), and a lock of theirs may be in the table and not yet on their stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltanb.locks.core.modes import NONE, LockResult

if TYPE_CHECKING:
    from deltanb.locks.core.lock_table import AnyLock, LockTable, Waiter
    from deltanb.locks.core.stack import Locker


def mend(table: LockTable, locker: Locker | None = None, height: int | None = None,
         targets: Sequence[tuple[AnyLock, int]] = ()) -> None:
    """Make the table true again; the mutex is held.

    Args:
        table: the locks.
        locker: whose change was interrupted; None where its own locks are in order.
        height: how high its stack is to be at most.
        targets: what it is to hold of locks; of one that comes several times, the last one counts.
    """
    if locker is not None:
        locker.cut(len(locker.entries) if height is None else height)
        for lock, mode in targets:
            lock.force(locker, mode)
        on_stack = set(map(id, locker.entries))
        for lock in list(table.locks.values()):
            if id(lock) not in on_stack and lock.held_by(locker) != NONE:
                lock.force(locker, NONE)
    for waiter in list(table.waiting):
        is_queued = waiter in waiter.lock.waiters()
        if waiter.result is None and not is_queued and waiter.lock.resume(waiter):
            table.granted(waiter, is_noted=len(waiter.locker.entries) > waiter.height)
    for lock in list(table.locks.values()):
        for waiter in lock.settle():
            table.granted(waiter)
        if lock.owner is None and not lock.shared:
            table.locks.pop(lock.name, None)


def withdraw(table: LockTable, waiter: Waiter, result: LockResult) -> None:
    """End a request of the transaction that was interrupted, or that waits: it holds what it held before."""
    waiter.lock.withdraw(waiter)
    table.end(waiter, result)
    mend(table, waiter.locker, waiter.height, [(waiter.lock, waiter.held)])
