"""What locks on wholes and their parts must do, said as simply as it can be.

What lives here: which modes go together, found by locking the leaves of a small tree one by one; and one lock
on a whole as its holders and a list of requests in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from deltanb.locks.core.modes import (
    COMPATIBLE,
    IS,
    JOINED,
    NONE,
    SHARED,
    LockResult,
    UpgradeRule,
    base_of,
    intention_of,
)
from tests.locks.model import ModelLock, Request, Txn

LEAVES = range(3)


def ways(mode: int) -> Iterator[dict[int, int]]:
    """What a transaction in a mode may hold of the leaves themselves: its intention, of any one of them."""
    intention = intention_of(mode) // IS
    if intention == NONE:
        yield {}
    else:
        yield from ({leaf: intention} for leaf in LEAVES)


@cache
def go_together(one: int, other: int) -> bool:
    """Whether all that flat locks on the leaves would keep apart meets on a leaf anyway."""
    for mine, theirs in product(ways(one), ways(other)):
        for leaf in LEAVES:
            flat = (max(base_of(one), mine.get(leaf, NONE)), max(base_of(other), theirs.get(leaf, NONE)))
            meet = (mine.get(leaf, NONE), theirs.get(leaf, NONE))
            if not COMPATIBLE.get(flat, True) and COMPATIBLE.get(meet, True):
                return False
    return True


class ModelGranule(ModelLock):
    """One lock on a whole."""

    def ask(self, txn: Txn, target: int, rule: UpgradeRule) -> LockResult | Request:
        """What comes of a request; a Request where it waits."""
        had = self.held.get(txn, NONE)
        target = JOINED[had][target]
        if target == had:
            return LockResult(f"OWNED_{('', 'SHARED', 'UPGRADABLE', 'EXCLUSIVE')[base_of(had) or had // IS]}")
        others = [mode for other, mode in self.held.items() if other != txn]
        if base_of(had) == SHARED and (rule == "STRICT" or (rule == "LENIENT" and any(map(base_of, others)))):
            return LockResult.ILLEGAL
        request = Request(txn, had, target)
        self.queue.append(request)
        self.settle()
        return request if request in self.queue else result_of(request)

    def _next(self) -> Request | None:
        converting = [request for request in self.queue if request.had != NONE]
        for request in converting or self.queue[:1]:
            others = [mode for txn, mode in self.held.items() if txn != request.txn]
            if all(go_together(request.mode, mode) for mode in others):
                return request
        return None

    def check(self) -> None:
        """Nobody holds what somebody else's mode forbids."""
        for (one, mode), (other, its) in product(self.held.items(), repeat=2):
            assert one == other or go_together(mode, its)


def result_of(request: Request) -> LockResult:
    """What a request that was granted is told."""
    return LockResult.ACQUIRED if request.had == NONE else LockResult.UPGRADED
