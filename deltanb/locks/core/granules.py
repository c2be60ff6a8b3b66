"""A lock on a whole of which parts can be locked on their own: a table, a partition.

What lives here: one such lock with its holders and its queue: who is granted, when, and who stands in whose
way.
What it does not know: which wholes a part lies in (``keys``), who asks for all of them (``batch``), threads,
clocks and stacks of locks.

A transaction holds the whole itself (shared, upgradable, exclusive), or has an *intention*: it holds parts,
or is about to, shared, upgradable or exclusive, or it adds parts. Both together are one mode (``modes``), and
two transactions hold the whole together exactly if no lock on a part could meet one that the other's lock on
the whole stands for. Two intentions always go together: if they mean the same part, they meet there.

How it works
------------
There is one queue. A request of somebody who holds something of the lock already is a *conversion*: it is
granted as soon as its new mode goes with those of all other holders, whoever waits; where it has to wait, it
stands before those who hold nothing. These are granted strictly in their order, so a wish for the whole is
not starved by a stream of intentions. Who is granted is decided by whoever changes the lock: after every
change, :meth:`Granule.settle` grants all that can be. What always holds between two calls:

* the modes of any two holders go together;
* whoever waits to convert is kept from it by another holder;
* whoever else waits is kept from it by a holder, or by somebody who waits before him; the first in the queue
  by a holder;
* where nobody holds the lock, nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from deltanb.locks.core.modes import (
    EXCLUSIVE,
    IS,
    IX,
    JOINED,
    NONE,
    SHARED,
    TOGETHER,
    UPGRADABLE,
    LockResult,
    Name,
    base_of,
    intention_of,
)

if TYPE_CHECKING:
    from deltanb.locks.core.lock_table import Waiter
    from deltanb.locks.core.stack import Locker

CONVERT, JOIN = "convert", "join"
"""The steps of a request: its transaction holds something of the lock already, or nothing."""


class Granule:
    """One lock on a whole: who holds it, who waits."""

    __slots__ = ("first", "mode", "name", "others", "queue")

    owner = None
    is_exclusive = False
    """Both are of a lock that has no parts; whoever releases one asks for them before all else."""

    def __init__(self, name: Name, locker: Locker, mode: int) -> None:
        self.name = name
        self.first: Locker | None = locker
        self.mode = mode
        """What ``first`` holds; most locks have one holder, who needs no dict."""
        self.others: dict[Locker, int] | None = None
        self.queue: list[Waiter] | None = None
        """Those who wait to convert, then the others."""

    @property
    def shared(self) -> bool:
        """Whether anybody holds it."""
        return self.first is not None

    def held_by(self, locker: Locker) -> int:
        """What a transaction holds of it."""
        if self.first is locker:
            return self.mode
        return self.others.get(locker, NONE) if self.others else NONE

    def holders(self) -> Iterable[tuple[Locker, int]]:
        """Everybody who holds it, and how; who holds it upgradable or exclusively is the first."""
        holders = list(self._holders())
        holders.sort(key=lambda holder: base_of(holder[1]) < UPGRADABLE)
        return holders

    def _holders(self) -> Iterable[tuple[Locker, int]]:
        if self.first is not None:
            yield self.first, self.mode
        if self.others:
            yield from self.others.items()

    def waiters(self) -> Iterable[Waiter]:
        """Everybody who waits, in the order in which they would be granted."""
        return self.queue or ()

    def fits(self, locker: Locker, requested: int) -> bool:
        """Whether a mode goes with those of all other holders."""
        together = TOGETHER[requested]
        if self.first is not locker and not together[self.mode]:
            return False
        return not self.others or all(
            together[mode] or other is locker for other, mode in self.others.items())

    def is_only_sharer(self, locker: Locker) -> bool:
        """Whether nobody else holds the whole itself; a lenient upgrade asks."""
        return all(other is locker or base_of(mode) == NONE for other, mode in self._holders())

    def enter(self, waiter: Waiter) -> bool:
        """Grant a request; False where it has to wait."""
        if (waiter.step is CONVERT or not self.queue) and self.fits(waiter.locker, waiter.requested):
            self._hold(waiter.locker, waiter.requested)
            return True
        if self.queue is None:
            self.queue = []
        at = len(self.queue)
        if waiter.step is CONVERT:
            at = next((at for at, other in enumerate(self.queue) if other.step is JOIN), at)
        self.queue.insert(at, waiter)
        return False

    def leave(self, waiter: Waiter) -> list[Waiter]:
        """Take a waiting request back: it holds what it held before. Returns who is granted by that."""
        assert self.queue is not None
        self.queue.remove(waiter)
        return self.settle()

    def lower(self, locker: Locker, to: int) -> list[Waiter]:
        """Make what a transaction holds weaker, or nothing. Returns who is granted by that."""
        if to == NONE or self.held_by(locker) != NONE:
            self._hold(locker, to)
        return self.settle() if self.queue else []

    def settle(self) -> list[Waiter]:
        """Grant all that can be granted: whoever can convert, then the others up to one who cannot."""
        granted: list[Waiter] = []
        is_blocked = False
        for waiter in self.queue or ():
            if is_blocked and waiter.step is JOIN:
                break
            if self.fits(waiter.locker, waiter.requested):
                self._hold(waiter.locker, waiter.requested)
                granted.append(waiter)
            else:
                is_blocked = True
        if granted and self.queue:
            self.queue = [waiter for waiter in self.queue if waiter not in granted] or None
        return granted

    def in_the_way(self, waiter: Waiter, is_short: bool = False) -> Iterable[Locker]:
        """The transactions that one that waits waits for.

        They are the holders whose modes do not go with what it wants, and unless it converts all who wait
        before it. Of these ``is_short`` gives only so many that each other is in the way of one of them.
        """
        lockers = self.keep_off(waiter)
        if waiter.step is JOIN:
            queue = self.queue or []
            at = queue.index(waiter)
            if is_short:
                before = [*takewhile(lambda other: other.step is CONVERT, queue), *queue[max(0, at - 1):at]]
            else:
                before = queue[:at]
            lockers += (other.locker for other in before)
        return lockers

    def keep_off(self, waiter: Waiter) -> list[Locker]:
        """The holders whose modes do not go with what somebody wants."""
        together = TOGETHER[waiter.requested]
        return [other for other, mode in self._holders()
                if not together[mode] and other is not waiter.locker]

    # -- what is kept, and for how long --------------------------------------------------------

    def result_of(self, waiter: Waiter) -> LockResult:
        """The result of a request that was granted."""
        return LockResult.UPGRADED if waiter.step is CONVERT else LockResult.ACQUIRED

    def lasting(self, locker: Locker) -> int:
        """What of a transaction's mode stays until what was changed is permanent or undone."""
        mode = self.held_by(locker)
        if base_of(mode) == EXCLUSIVE:
            return EXCLUSIVE
        return IX if intention_of(mode) == IX else NONE

    def as_shared(self, locker: Locker, floor: int) -> int:
        """What is left of a transaction's mode when it only shares, but no less than ``floor``."""
        mode = self.held_by(locker)
        return JOINED[floor][min(base_of(mode), SHARED) | min(intention_of(mode), IS)]

    def hand_over(self, locker: Locker, other: Locker, mode: int) -> list[Waiter]:
        """Another transaction holds, of what this one holds, a part. Returns who is granted by that."""
        self._hold(locker, NONE)
        self._hold(other, mode)
        return self.settle()

    def close(self, keeper: Locker) -> bool:
        """What must last is the keeper's for good, all else is dropped; whether anything is left."""
        self.queue = None
        lasting = NONE
        for locker, _ in self._holders():
            lasting = JOINED[lasting][self.lasting(locker)]
        self.first, self.mode = (keeper, lasting) if lasting else (None, NONE)
        self.others = None  # last, so that an interrupt before it has lost nothing
        return bool(lasting)

    # -- after an interrupt (``repair``) -------------------------------------------------------

    def force(self, locker: Locker, mode: int) -> None:
        """Have a transaction hold exactly this, whatever step towards it was the last."""
        if self.others and self.first is not None:
            self.others.pop(self.first, None)
        self._hold(locker, mode)

    def withdraw(self, waiter: Waiter) -> None:
        """Take a request out of the queue, if it is there."""
        if self.queue and waiter in self.queue:
            self.queue.remove(waiter)

    def resume(self, waiter: Waiter) -> bool:
        """Go on with a request that has left the queue: it was granted."""
        self.force(waiter.locker, waiter.requested)
        return True

    # -- how it is done ------------------------------------------------------------------------

    def _hold(self, locker: Locker, mode: int) -> None:
        if self.first is locker or self.first is None:
            if mode == NONE and self.others:
                self.first, self.mode = next(iter(self.others.items()))
                del self.others[self.first]
            elif self.first is locker or mode != NONE:
                self.first, self.mode = (locker, mode) if mode != NONE else (None, NONE)
        elif mode != NONE:
            if self.others is None:
                self.others = {}
            self.others[locker] = mode
        elif self.others:
            self.others.pop(locker, None)
