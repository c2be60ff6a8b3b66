"""Several locks in one call: in sorted order, with one deadline, all or none.

What lives here: how such a call goes through its locks, and gives back what it took where one fails; and what
it asks for when it locks places of a table.
What it does not know: who gets a lock (``core``), how a thread waits (``waits``), which calls may begin
(``manager``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltanb.errors import InvalidArgument
from deltanb.locks.core import LockTable, Waiter
from deltanb.locks.keys import parents
from deltanb.locks.modes import ANNOUNCED, JOINED, MODES, NONE, LockResult, Name, named
from deltanb.locks.refusals import Refusal
from deltanb.locks.stack import Locker
from deltanb.locks.waits import Waits, here, holders_of
from deltanb.safe_text import shown

ILLEGAL = LockResult.ILLEGAL
Requests = Sequence[tuple[Name, int]]
"""Locks, each once and in sorted order, with the mode that is wanted of each."""


def tree_of(index_id: int, wants: Sequence[tuple[bytes, int]]) -> list[tuple[Name, int]]:
    """What is asked for to lock places of a table: they, and with intentions all that they lie in.

    Raises:
        InvalidArgument: an index id that is not below 0, a key that is not of ``keys``, or no mode.
    """
    if named(index_id, b"")[0] >= 0:
        raise InvalidArgument(f"only what has an index id below 0 has parts to be locked, found {index_id}")
    modes: dict[bytes, int] = {}
    for key, mode in wants:
        if type(mode) is not int or mode not in MODES:
            raise InvalidArgument(f"not a mode of a lock: {shown(mode)}; deltanb.locks.modes.MODES has all")
        for ancestor in parents(key):
            modes[ancestor] = JOINED[modes.get(ancestor, NONE)][ANNOUNCED[mode]]
        modes[key] = JOINED[modes.get(key, NONE)][mode]
    return [((index_id, key), modes[key]) for key in sorted(modes)]


class Batches:
    """The calls of a manager that lock several."""

    def __init__(self, table: LockTable, waits: Waits, clock: Callable[[], int],
                 refused: Callable[[Locker], Refusal | None]) -> None:
        self._table = table
        self._waits = waits
        self._clock = clock
        self._refused = refused
        """Why no lock is granted now, under the mutex; it raises where another thread is in a call."""

    def lock_each(self, locker: Locker, requests: Requests, timeout: float,
                  is_try: bool = False) -> dict[Name, LockResult] | LockResult:
        """Lock one after the other; where one fails, all are given back.

        Returns:
            What came of each; for a try that failed, why.

        Raises:
            LockFailure: of the first that was not granted.
        """
        end = None if timeout <= 0 else self._clock() + int(timeout * 1e9)
        results: dict[Name, LockResult] = {}
        before: list[tuple[Name, int]] = []
        height = len(locker.entries)
        try:
            while len(results) < len(requests):
                left = timeout if end is None else max(0.0, (end - self._clock()) / 1e9)
                found = self._lock_on(locker, requests, left, is_try, results, before)
                if found is None:
                    break
                name, wanted = requests[len(results)]
                ended = self._waits.wait(found, left) if isinstance(found, Waiter) else found
                if isinstance(ended, Refusal):
                    answer = ended.answer(*name, wanted, is_try)
                    self._give_back(locker, height, before)
                    return answer
                results[name] = ended
        except BaseException:
            self._waits.abandon(locker, locker.call)
            self._give_back(locker, height, before)
            raise
        return results

    def _lock_on(self, locker: Locker, requests: Requests, timeout: float, is_try: bool,
                 results: dict[Name, LockResult],
                 before: list[tuple[Name, int]]) -> Refusal | Waiter | None:
        """Lock one after the other until one has to wait, or is refused."""
        table = self._table
        with self._waits.mutex:
            refusal = self._refused(locker)
            locker.thread = here.token
            for name, wanted in requests[len(results):]:
                if refusal is not None:
                    return refusal
                lock = table.locks.get(name)
                before.append((name, NONE if lock is None else lock.held_by(locker)))
                result = table.ask(locker, name, wanted)
                if result is ILLEGAL:
                    return Refusal(ILLEGAL, holders=holders_of(table.locks[name]))
                if isinstance(result, Waiter):
                    return self._waits.begin(result, timeout, is_try)
                results[name] = result
        return None

    def _give_back(self, locker: Locker, height: int, before: list[tuple[Name, int]]) -> None:
        with self._waits.mutex:
            locker.cut(height)
            for name, held in reversed(before):
                if (lock := self._table.locks.get(name)) is not None:
                    self._table.lower(locker, lock, held)
