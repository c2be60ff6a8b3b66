"""How long a test waits before it says that something hangs: no test passes or fails by the clock.

On an idle machine nothing takes a hundredth of it, so a machine that does much else does not matter.
"""

from __future__ import annotations

import threading

PATIENCE = 600
"""Seconds."""


class WatchedLock:
    """A lock that lets a test know how many have come for it."""

    def __init__(self, awaited: int) -> None:
        self._lock, self._arrivals = threading.Lock(), threading.Semaphore(0)
        self._awaited = awaited

    def __enter__(self) -> None:
        self.come()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def come(self) -> None:
        """One has come."""
        self._arrivals.release()

    def all_came(self) -> None:
        """Wait for all, once."""
        awaited, self._awaited = self._awaited, 0
        for _ in range(awaited):
            assert self._arrivals.acquire(timeout=PATIENCE)
