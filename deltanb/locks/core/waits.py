"""How a thread waits for a lock, what ends the wait, and how a wait in vain is explained.

What lives here: the signal of each wait, timeouts, when a deadlock is searched for, and the facts that are
taken down for an error while the lock still stands as it did.
What it does not know: who gets a lock (``core``), the cycles themselves (``deadlock``), how an error is
worded (``refusals``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from deltanb.concurrency.stacks import name_of_this, of_each
from deltanb.locks.core import deadlock
from deltanb.locks.core.deadlock import Cycle, DeadlockItem
from deltanb.locks.core.lock_table import AnyLock, LockTable, Waiter
from deltanb.locks.core.modes import MODE_NAMES, LockResult
from deltanb.locks.core.refusals import Refusal
from deltanb.locks.core.repair import mend
from deltanb.locks.core.stack import Keeper, Locker

if TYPE_CHECKING:
    from deltanb.locks.core.manager import LockManager

Park = Callable[[Waiter, "float | None"], bool]
"""How a thread waits: for ``waiter.signal``, so many seconds or for ever; whether it came."""

parking: ContextVar[Park | None] = ContextVar("parking", default=None)
"""How threads of this context wait, where a manager has no way of its own; None lets the system do it.

It gets the request and the seconds it may wait, or None. It returns True once ``waiter.result`` is there, or
False when the time is over; if it raises, the request is cancelled.
"""


class Exploring(Protocol):
    """What explores a writer: it stands between the writer and the managers that others use, too."""

    def manager_for(self, manager: LockManager) -> LockManager:
        """The manager whose transactions the writer gets; the same one where nobody else uses it."""

    def refuse(self, words: str) -> BaseException:
        """Ends a writer that asks for what cannot be explored; ``words`` say what it does."""


exploring: ContextVar[Exploring | None] = ContextVar("exploring", default=None)
"""What explores the writer that runs in this context, if one is explored."""

INTERRUPTED, TIMED_OUT = LockResult.INTERRUPTED, LockResult.TIMED_OUT_LOCK


def park(waiter: Waiter, timeout: float | None) -> bool:
    """Wait for the signal; the operating system wakes the thread, which never looks by itself."""
    other = parking.get()
    if other is not None:
        return other(waiter, timeout)
    signalled: bool = waiter.signal.acquire(timeout=-1 if timeout is None else timeout)
    return signalled


class _Here(threading.local):
    """A token of the running thread; an id would be that of another thread once this one has ended."""

    def __init__(self) -> None:
        self.token = object()


here = _Here()
of_each(here, lambda: {"token": object()})


class Waits:
    """The waits of a manager's transactions."""

    def __init__(self, mutex: threading.Lock, table: LockTable, clock: Callable[[], int],
                 at_once: bool, park: Park) -> None:
        self.mutex = mutex
        self._table = table
        self._clock = clock
        self._at_once = at_once
        """Whether a deadlock is searched for when a wait begins, or when it has ended in vain."""
        self._park = park
        self.is_closed = False
        """Whether who is interrupted is so because the manager was closed."""

    def begin(self, waiter: Waiter, timeout: float, is_try: bool) -> Refusal | Waiter:
        """Decide whether a request may wait; the mutex is held. Where not, it is cancelled."""
        waiter.since = self._clock()
        waiter.is_endless = timeout < 0
        refusal: Refusal | None = None
        if timeout != 0 or not is_try:
            refusal = self._deadlock(waiter, timeout)
        if refusal is None and timeout == 0:
            refusal = self._timed_out(waiter, 0)
        if refusal is not None:
            self._table.cancel(waiter, refusal.result)
            return refusal
        signal = threading.Lock()
        signal.acquire()
        waiter.signal = signal
        waiter.call, waiter.locker.call = waiter.locker.call, waiter.locker.thread
        return waiter

    def wait(self, waiter: Waiter, timeout: float) -> LockResult | Refusal:
        """Wait until somebody decides the request, or the time is over."""
        refusal: Refusal | None = None
        try:
            if not self._park(waiter, None if timeout < 0 else timeout):
                with self.mutex:
                    if waiter.result is None:
                        refusal = self._ended_in_vain(waiter, timeout)
                        self._table.cancel(waiter, refusal.result)
        except BaseException:
            with self.mutex:
                if waiter.result is None:
                    self._table.cancel(waiter, INTERRUPTED)
                elif waiter.result.is_held:
                    self._table.take_back(waiter)
            raise
        finally:
            waiter.locker.call = waiter.call
        if refusal is None and waiter.result is INTERRUPTED:
            refusal = Refusal(INTERRUPTED, timeout, is_closed=self.is_closed)
        assert waiter.result is not None
        return refusal or waiter.result

    def abandon(self, locker: Locker, before: object) -> None:
        """Leave no request behind after a Ctrl-C in a call, and no lock that is not on the stack."""
        with self.mutex:
            if locker.thread is not here.token:  # it came before this call began; another one may go on
                return
            if locker.waiter is not None:
                self._table.cancel(locker.waiter, INTERRUPTED)
            if locker.call is here.token:
                locker.call = before
            mend(self._table, locker)

    def _deadlock(self, waiter: Waiter, timeout: float) -> Refusal | None:
        """The deadlock that a wait would be part of, if it began now."""
        if self._at_once or timeout == 0:
            waiters = deadlock.cycle_of(waiter)
            if waiters:
                return self._refusal_of([], waiters, waiter, 0)
        if timeout == 0:
            return self._behind(waiter, 0)
        if timeout < 0:
            way, idle = deadlock.ended_by(waiter, here.token)
            if idle is not None:
                return self._refusal_of([], way, waiter, 0, idle)
        return None

    def _ended_in_vain(self, waiter: Waiter, timeout: float) -> Refusal:
        refusal = self._behind(waiter, timeout) if not self._at_once else None
        return refusal or self._timed_out(waiter, timeout)

    def _behind(self, waiter: Waiter, timeout: float) -> Refusal | None:
        waiters = deadlock.cycle_of(waiter)
        way: list[Waiter] = []
        if not waiters:
            way, waiters = deadlock.cycle_behind(waiter)
        return self._refusal_of(way, waiters, waiter, timeout) if waiters else None

    def _refusal_of(self, way: list[Waiter], waiters: list[Waiter], waiter: Waiter, timeout: float,
                    idle: Locker | None = None) -> Refusal:
        thread = None if idle is None else name_of_this() or threading.current_thread().name
        cycle = deadlock.described(waiters, waiter.locker, self._clock(), idle, thread)
        items = deadlock.items([*way, *waiters])
        return self._timed_out(waiter, timeout, LockResult.DEADLOCK, cycle, items)

    def _timed_out(self, waiter: Waiter, timeout: float, result: LockResult = TIMED_OUT,
                   cycle: Cycle | None = None, items: tuple[DeadlockItem, ...] = ()) -> Refusal:
        attachment = deadlock.attachment_of(waiter.lock, waiter.locker, waiter.requested)
        others = tuple(held for held in holders_of(waiter.lock) if held[0] != waiter.locker.id)
        return Refusal(result, timeout, attachment, cycle, items, others,
                       is_put_off=any(isinstance(locker, Keeper) for locker, _ in waiter.lock.holders()))


def holders_of(lock: AnyLock) -> tuple[tuple[int, str], ...]:
    """Who holds a lock, the owner first, and in which mode."""
    return tuple((locker.id, MODE_NAMES[mode]) for locker, mode in lock.holders())
