"""An index in memory whose rows are read and written under a transaction's locks.

What lives here: ``MemoryIndex`` and its cursor: which lock each lock mode takes for a read or a write, and
what of it is kept. Locks are tried out on it, and it is the model for other indexes.
What it does not know: who gets a lock, when a scope ends.

A row that a transaction has deleted stays as a *ghost* until the commit: who reads under locks waits for it,
who reads without skips it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.locks.core.cursor import RowCursor
from deltanb.locks.core.manager import LockManager
from deltanb.locks.core.modes import NONE, UPGRADABLE, DurabilityMode, LockMode, LockResult, label, named
from deltanb.locks.core.names import called
from deltanb.locks.core.transaction import Transaction
from deltanb.text.safe_text import shown

GHOST: Final = object()
ABSENT: Final = object()

Key = bytes | str


class MemoryIndex:
    """Rows by key, in the order of their keys; keys are bytes, or text that is encoded.

    Every operation takes the transaction first. ``None`` commits at once: it waits for the manager's
    timeout and reads what is committed. ``Transaction.BOGUS`` neither locks nor undoes. An index belongs to
    the manager that is passed, or to that of the first transaction that uses it.

    >>> from deltanb.locks import LockManager
    >>> index = MemoryIndex(1, {"a": 1, "b": 2})
    >>> with LockManager().new_transaction() as txn:
    ...     index.store(txn, "a", 7), index.insert(txn, "b", 7), index.delete(txn, "b"), index.load(txn, "b")
    (None, False, True, None)
    >>> index.load(None, "a"), index.count()
    (1, 2)
    """

    def __init__(self, index_id: int, rows: Mapping[Key, Any] | None = None,
                 manager: LockManager | None = None) -> None:
        self.id = named(index_id, b"")[0]
        self._manager = manager
        self._mutex = threading.Lock()
        self._rows: dict[bytes, Any] = {self._key(key): value for key, value in (rows or {}).items()}
        self._keys = sorted(self._rows)

    # -- rows ----------------------------------------------------------------------------------

    def load(self, txn: Transaction | None, key: Key) -> Any:
        """The value of a row, or None; the key stays locked as the lock mode says, even without a row."""
        key = self._key(key)
        with self._using(txn) as txn:
            return self._read(txn, key)[1]

    def store(self, txn: Transaction | None, key: Key, value: Any) -> None:
        """Write a row, whether there was one or not; None deletes it."""
        key = self._key(key)
        with self._using(txn, writes=True) as txn:
            self._write(txn, key, lambda old: True, GHOST if value is None else value)

    def insert(self, txn: Transaction | None, key: Key, value: Any) -> bool:
        """Write a row that is new; False, and nothing is written, where there is one."""
        key = self._key(key)
        with self._using(txn, writes=True) as txn:
            return self._write(txn, key, lambda old: old is None, value)

    def replace(self, txn: Transaction | None, key: Key, value: Any) -> bool:
        """Write a row over another; False, and nothing is written, where there is none."""
        key = self._key(key)
        with self._using(txn, writes=True) as txn:
            return self._write(txn, key, lambda old: old is not None, value)

    def delete(self, txn: Transaction | None, key: Key) -> bool:
        """Delete a row; whether there was one. The key stays locked in either case."""
        key = self._key(key)
        with self._using(txn, writes=True) as txn:
            existed = False

            def note(old: Any) -> bool:
                nonlocal existed
                existed = old is not None
                return True

            self._write(txn, key, note, GHOST)
            return existed

    def count(self) -> int:
        """How many rows there are, including uncommitted ones. Takes no locks."""
        with self._mutex:
            return sum(value is not GHOST for value in self._rows.values())

    def cursor(self, txn: Transaction | None) -> Cursor:
        """A cursor over the rows, before the first one."""
        return Cursor(self, txn)

    # -- as a participant of a transaction -----------------------------------------------------

    def undo(self, change: tuple[bytes, Any]) -> None:
        """Put back what a change replaced."""
        self._put(*change)

    def commit(self, changes: Sequence[tuple[bytes, Any]], durability: DurabilityMode) -> None:
        """Drop the ghosts; memory has nothing to write out, whatever the mode."""
        for key, _ in changes:
            if self._get(key) is GHOST:
                self._put(key, ABSENT)

    def describe(self, changes: Sequence[tuple[bytes, Any]]) -> list[str]:
        """Changes in words: which row, and what it was before.

        >>> MemoryIndex(1).describe([(b"k", "v"), (b"j", ABSENT)])
        ["1:k was 'v'", '1:j is new']
        """
        return [label((self.id, key)) + (" is new" if old is ABSENT or old is GHOST else f" was {shown(old)}")
                for key, old in changes]

    # -- reads and writes by lock mode ---------------------------------------------------------

    def _read(self, txn: Transaction, key: bytes) -> tuple[LockResult, Any]:
        """Lock a key as the mode says, read it, give back what is not kept; UNOWNED where nothing is."""
        mode = txn.lock_mode
        if mode.is_dirty:
            return LockResult.UNOWNED, self._value(key)
        lock = txn.lock_upgradable if mode is LockMode.UPGRADABLE_READ else txn.lock_shared
        result = lock(self.id, key)
        value = self._value(key)
        if result.is_acquired and not mode.is_repeatable:
            txn.give_back(self.id, key)
            result = LockResult.UNOWNED
        return result, value

    def _write(self, txn: Transaction, key: bytes, wants: Callable[[Any], bool], value: Any) -> bool:
        """Write where ``wants`` says so of the row that is there; else the lock is weakened or given back."""
        if txn.lock_mode is LockMode.UNSAFE:
            if not wants(self._value(key)):
                return False
            self._put(key, ABSENT if value is GHOST else value)
            return True
        before = txn.lock_check(self.id, key)
        result = txn.lock_exclusive(self.id, key)
        if wants(self._value(key)):
            txn.changed(self, (key, self._get(key)))
            self._put(key, value)
            return True
        if result.is_acquired:
            keeps = txn.lock_mode.is_repeatable or before is not LockResult.UNOWNED
            txn.give_back(self.id, key, UPGRADABLE if keeps else NONE)
        return False

    @contextmanager
    def _using(self, txn: Transaction | None, writes: bool = False) -> Iterator[Transaction]:
        """The transaction to work in; one of its own, committed at the end, in place of none."""
        if txn is not None:
            if txn is Transaction.BOGUS:
                yield txn
                return
            self._bind(txn)
            with txn.operation():
                yield txn
            return
        manager = self._manager
        if manager is None:  # no transaction has ever used it, so nobody can hold a lock
            yield Transaction.BOGUS
            return
        with manager.new_transaction() as own:
            if not writes:
                own.lock_mode = LockMode.READ_COMMITTED
            with own.operation():
                yield own
            own.commit()

    def _bind(self, txn: Transaction) -> None:
        if not isinstance(txn, Transaction):
            raise InvalidArgument(f"an operation takes a transaction or None, found {shown(txn)}")
        with self._mutex:
            self._manager = self._manager or txn.manager
        if self._manager is not txn.manager:
            raise IllegalStateError(
                f"{called(txn.id)} is of another lock manager than index {self.id}: their locks do not "
                "know of each other; use transactions of one manager for an index")

    # -- the rows themselves -------------------------------------------------------------------

    @staticmethod
    def _key(key: Key) -> bytes:
        return key.encode() if isinstance(key, str) else named(0, key)[1]

    def _get(self, key: bytes) -> Any:
        with self._mutex:
            return self._rows.get(key, ABSENT)

    def _value(self, key: bytes) -> Any:
        value = self._get(key)
        return None if value is ABSENT or value is GHOST else value

    def _put(self, key: bytes, value: Any) -> None:
        with self._mutex:
            if value is ABSENT:
                if self._rows.pop(key, ABSENT) is not ABSENT:
                    del self._keys[bisect_left(self._keys, key)]
                return
            if key not in self._rows:
                insort(self._keys, key)
            self._rows[key] = value

    def _after(self, key: bytes | None) -> tuple[bytes, Any] | None:
        """The next key and what is there, a ghost included."""
        with self._mutex:
            at = 0 if key is None else bisect_right(self._keys, key)
            return (self._keys[at], self._rows[self._keys[at]]) if at < len(self._keys) else None


class Cursor(RowCursor):
    """Goes through the rows of an index in the order of their keys, and locks the current row.

    Each move returns the result of that lock: ``ACQUIRED``, or ``OWNED_`` and the mode it was held in
    before, or ``UNOWNED`` where no lock is kept. Whoever drops a row unlocks it if the move acquired it:

    >>> from deltanb.locks import LockManager
    >>> index = MemoryIndex(1, {"a": 1, "b": 2, "c": 3})
    >>> txn = LockManager().new_transaction()
    >>> cursor = index.cursor(txn)
    >>> result = cursor.first()
    >>> while cursor.key() is not None:
    ...     if cursor.value() == 2 and result == "ACQUIRED":
    ...         txn.unlock()
    ...     result = cursor.next()
    >>> [txn.lock_check(1, key) for key in (b"a", b"b", b"c")]
    [OWNED_UPGRADABLE, UNOWNED, OWNED_UPGRADABLE]
    """

    def __init__(self, index: MemoryIndex, txn: Transaction | None) -> None:
        if txn is not None and txn is not Transaction.BOGUS:
            index._bind(txn)
        super().__init__(txn)
        self._index = index

    def find(self, key: Key) -> LockResult:
        """Go to a key, and lock it, whether there is a row or not."""
        key = self._index._key(key)
        with self._index._using(self._txn) as txn:
            result, value = self._index._read(txn, key)
        self._key, self._value = key, value
        return self._unless_ended(result)

    def store(self, value: Any) -> None:
        """Write the current row; None deletes it.

        Raises:
            IllegalStateError: there is no current row.
        """
        self._index.store(self._txn, self._placed("store"), value)
        self._value = value

    def _move(self, key: bytes | None) -> LockResult:
        while (next_row := self._index._after(key)) is not None:
            key, row = next_row
            with self._index._using(self._txn) as txn:
                if txn.lock_mode.is_dirty and row is GHOST:
                    continue
                result, value = self._index._read(txn, key)
                if value is not None:
                    self._key, self._value = key, value
                    return self._unless_ended(result)
                if result.is_acquired:  # it was deleted while this one waited
                    txn.give_back(self._index.id, key)
        self.reset()
        return LockResult.UNOWNED

    def _unless_ended(self, result: LockResult) -> LockResult:
        return LockResult.UNOWNED if self._txn is None else result
