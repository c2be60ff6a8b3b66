"""What locks must do, said as simply as it can be: lists that are gone through again and again.

What lives here: one lock as its holders and a list of requests in the order in which they came; and the
transactions that can never go on, found by letting all others end.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from deltanb.locks.core.modes import COMPATIBLE, EXCLUSIVE, NONE, SHARED, UPGRADABLE, LockResult, UpgradeRule

Txn = Any


@dataclass
class Request:
    """A request that waits; ``owns`` once it is the owner and waits to be alone."""

    txn: Txn
    had: int
    mode: int
    owns: bool = False


@dataclass
class ModelLock:
    """One lock."""

    held: dict[Txn, int] = field(default_factory=dict)
    queue: list[Request] = field(default_factory=list)

    def ask(self, txn: Txn, mode: int, rule: UpgradeRule) -> LockResult | Request:
        """What comes of a request; a Request where it waits."""
        had = self.held.get(txn, NONE)
        if had >= mode:
            return LockResult(f"OWNED_{('', 'SHARED', 'UPGRADABLE', 'EXCLUSIVE')[had]}")
        alone = len(self.held) == 1
        if had == SHARED and (rule == "STRICT" or (rule == "LENIENT" and not alone)):
            return LockResult.ILLEGAL
        request = Request(txn, had, mode, owns=had == UPGRADABLE)
        self.queue.append(request)
        self.settle()
        return request if request in self.queue else result_of(request)

    def settle(self) -> list[Request]:
        """Grant what can be granted, over and over, until nothing can."""
        granted: list[Request] = []
        while (request := self._next()) is not None:
            self.queue.remove(request)
            self.held[request.txn] = request.mode
            granted.append(request)
        return granted

    def _next(self) -> Request | None:
        modes = list(self.held.values())
        somebody_wants_to_be_alone = any(r.owns for r in self.queue)
        if EXCLUSIVE not in modes and not somebody_wants_to_be_alone:
            for request in self.queue:
                if request.mode == SHARED:
                    return request
        if EXCLUSIVE not in modes and UPGRADABLE not in modes:
            for request in self.queue:
                if request.mode != SHARED:
                    if request.mode == UPGRADABLE:
                        return request
                    request.owns = True
                    self.held[request.txn] = UPGRADABLE
                    break
        for request in self.queue:
            if request.owns and set(self.held) == {request.txn} and EXCLUSIVE not in modes:
                return request
        return None

    def cancel(self, request: Request) -> list[Request]:
        """A request that is taken back."""
        self.queue.remove(request)
        return self.weaken(request.txn, request.had)

    def weaken(self, txn: Txn, to: int) -> list[Request]:
        """A transaction holds less, or nothing."""
        self.held.pop(txn, None)
        if to != NONE:
            self.held[txn] = to
        return self.settle()

    def check(self) -> None:
        """Nobody holds what somebody else's mode forbids."""
        pairs = list(self.held.items())
        for at, (_, one) in enumerate(pairs):
            for _, other in pairs[at + 1:]:
                assert COMPATIBLE[one, other]


def result_of(request: Request) -> LockResult:
    """What a request that was granted is told."""
    if request.had == NONE:
        return LockResult.ACQUIRED
    return LockResult.OWNED_UPGRADABLE if request.mode == UPGRADABLE else LockResult.UPGRADED


def stuck(locks: dict[Any, ModelLock]) -> set[Txn]:
    """The transactions that still wait when all others have ended, however often that is repeated."""
    locks = deepcopy(locks)
    while True:
        waiting = {request.txn for lock in locks.values() for request in lock.queue}
        free = {txn for lock in locks.values() for txn in lock.held} - waiting
        if not free:
            return waiting
        for lock in locks.values():
            for txn in free & set(lock.held):
                lock.weaken(txn, NONE)
