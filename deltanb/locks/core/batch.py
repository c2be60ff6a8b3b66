"""Several locks in one call: in sorted order, with one deadline, all or none.

What lives here: how such a call goes through its locks, and gives back what it took where one fails; and what
it asks for when it locks places of a table.
What it does not know: who gets a lock (``core``), how a thread waits (``waits``), which calls may begin
(``manager``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.locks.core.keys import parents
from deltanb.locks.core.lock_table import Lock, LockTable, Waiter
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    JOINED,
    MAX_ID,
    MODES,
    NONE,
    PARENT_INTENTION,
    SHARED,
    LockResult,
    Name,
    named,
)
from deltanb.locks.core.refusals import Refusal
from deltanb.locks.core.repair import mend
from deltanb.locks.core.stack import Locker
from deltanb.locks.core.waits import Waits, here, holders_of
from deltanb.text.safe_text import shown

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
            raise InvalidArgument(f"not a mode of a lock: {shown(mode)}; "
                                  "deltanb.locks.core.modes.MODES has all")
        for ancestor in parents(key):
            modes[ancestor] = JOINED[modes.get(ancestor, NONE)][PARENT_INTENTION[mode]]
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

    def lock_all(self, locker: Locker, names: list[Any], requested: int,
                 timeout: float) -> dict[Name, LockResult]:
        """Lock several in one mode; where one fails, all are given back.

        Raises:
            LockFailure: of the first that was not granted.
            InvalidArgument: something that is no name of a lock.
        """
        taken = self._take_free(locker, names, requested)
        if taken is not None:
            return taken
        requests = [(name, requested) for name in sorted(set(map(_named, names)))]
        results = self.lock_each(locker, requests, timeout)
        assert isinstance(results, dict)
        return results

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
                answer = self._lock_on(locker, requests, left, is_try, results, before)
                if answer is None:
                    break
                name, requested = requests[len(results)]
                ended = self._waits.wait(answer, left) if isinstance(answer, Waiter) else answer
                if isinstance(ended, Refusal):
                    result = ended.answer(*name, requested, is_try)
                    self._give_back(locker, height, before)
                    return result
                results[name] = locker.note(ended)
        except BaseException:
            self._waits.abandon(locker, locker.call)
            self._give_back(locker, height, before)
            raise
        return results

    def _take_free(self, locker: Locker, names: list[Any], requested: int) -> dict[Name, LockResult] | None:
        """Lock several that nobody holds, quickly; None, and nothing is locked, where somebody holds one of
        them, or where one of them is to be looked at more closely.
        """
        try:
            results: dict[Name, LockResult] = dict.fromkeys(sorted(names), LockResult.ACQUIRED)
        except TypeError:
            return None
        if set(map(type, names)) != {tuple}:  # nothing foreign runs under the mutex
            return None
        table, is_exclusive = self._table, requested == EXCLUSIVE
        owner: Locker | None = None if requested == SHARED else locker
        sharers: tuple[Locker, ...] = (locker,) if requested == SHARED else ()
        with self._waits.mutex:
            if table.quick is None or self._refused(locker) is not None:
                return None
            locker.thread = here.token
            put, entries, height = table.locks.setdefault, locker.entries, len(locker.entries)
            try:
                try:
                    for name in results:
                        index_id, key = name
                        if type(key) is not bytes or type(index_id) is not int or not 0 <= index_id <= MAX_ID:
                            break
                        lock: Any = Lock()  # what Lock.new does; here each call counts
                        lock.name = name
                        lock.owner = owner
                        lock.is_exclusive = is_exclusive
                        lock.shared = sharers
                        lock.owners = lock.readers = None
                        if put(name, lock) is not lock:
                            break
                        entries.append(lock)
                    else:
                        return results
                except ValueError:  # not a pair
                    pass
                table.give_back(locker, height)
            except BaseException:  # a Ctrl-C: a lock may be there and not yet on the stack
                mend(table, locker, height)
                raise
        return None

    def _lock_on(self, locker: Locker, requests: Requests, timeout: float, is_try: bool,
                 results: dict[Name, LockResult],
                 before: list[tuple[Name, int]]) -> Refusal | Waiter | None:
        """Lock one after the other until one has to wait, or is refused."""
        table = self._table
        with self._waits.mutex:
            refusal = self._refused(locker)
            locker.thread = here.token
            for name, requested in requests[len(results):]:
                if refusal is not None:
                    return refusal
                lock = table.locks.get(name)
                before.append((name, NONE if lock is None else lock.held_by(locker)))
                result = table.ask(locker, name, requested)
                if result is ILLEGAL:
                    return Refusal(ILLEGAL, holders=holders_of(table.locks[name]))
                if isinstance(result, Waiter):
                    return self._waits.begin(result, timeout, is_try)
                results[name] = locker.note(result)
        return None

    def _give_back(self, locker: Locker, height: int, before: list[tuple[Name, int]]) -> None:
        with self._waits.mutex:
            self._table.weaken(locker, [(lock, held) for name, held in reversed(before)
                                        if (lock := self._table.locks.get(name)) is not None], height)


def _named(name: Any) -> Name:
    if type(name) is tuple and len(name) == 2 and type(name[0]) is int and type(name[1]) is bytes:
        return name if -(2**63) <= name[0] < 2**63 else named(*name)
    if not isinstance(name, tuple | list) or len(name) != 2:
        raise InvalidArgument(f"lock_many takes pairs of an index id and a key, found {shown(name)}")
    return named(*name)
