"""A cursor over a table under locks: it goes from row to row in the order of a key, and locks each.

What lives here: :class:`TableCursor`, and what it asks of the rows (:class:`Rows`).
What it does not know: where rows are read from, what becomes of those that are stored
(``locks/tables/rows``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from deltanb.errors import IllegalStateError
from deltanb.locks.core.modes import LockResult

Row = dict[str, Any]
Key = tuple[Any, ...]


class Rows(Protocol):
    """The rows of a table in a transaction, by key: those committed last, and what it has stored itself."""

    def key(self, value: Any) -> Key:
        """A key as people give it, checked and made a tuple."""

    def after(self, key: Key | None) -> Key | None:
        """The next key; the first one after None. A key whose row this transaction has deleted counts."""

    def read(self, key: Key) -> tuple[LockResult, Row | None]:
        """Lock a row as the lock mode says and read it, None where there is none; what came of the lock,
        ``UNOWNED`` where none is kept."""

    def give_back(self, key: Key) -> None:
        """Release the lock that the last read has acquired: there was no row."""

    def store(self, key: Key, row: Mapping[str, Any] | None) -> Row | None:
        """Lock a row exclusively and change it; what it is now. None deletes it."""


class RowCursor:
    """What every cursor has: the current row, and the moves from there."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn
        self._key: Any = None
        self._value: Any = None

    def key(self) -> Any:
        """The current key, None before the first move and after the last row."""
        return self._key

    def value(self) -> Any:
        """The value that was read there, None without a row."""
        return self._value

    def first(self) -> LockResult:
        """Go to the first row."""
        self.reset()
        return self._move(None)

    def next(self) -> LockResult:
        """Go to the next row.

        Raises:
            IllegalStateError: there is no current row.
        """
        return self._move(self._placed("next"))

    @abstractmethod
    def store(self, value: Any) -> None:
        """Write the current row; None deletes it."""

    def commit(self, value: Any) -> None:
        """Write the current row, then commit the current scope."""
        self.store(value)
        if self._txn is not None:
            self._txn.commit()

    def reset(self) -> None:
        """Leave the current row; locks stay."""
        self._key = self._value = None

    def _placed(self, verb: str) -> Any:
        if self._key is None:
            raise IllegalStateError(f"{verb}: the cursor is not on a row; move it with first() or find(key)")
        return self._key

    @abstractmethod
    def _move(self, key: Any) -> LockResult:
        """Go to the first row behind a key, or of all."""


class TableCursor(RowCursor):
    """Goes through the rows of a table in the order of a key, and locks the current row.

    Each move returns the result of that lock: ``ACQUIRED``, or ``OWNED_`` and the mode it was held in
    before, or ``UNOWNED`` where no lock is kept. Rows that are stored belong to the transaction like what its
    statements do: they are undone with their scope, and become a part of the table when it commits.

    A key without a row is locked, too, when it is looked for. Between the keys nothing is locked: the next
    move sees a row that another transaction has added there.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Daisy", "Donald", "Scrooge"], "coins": [3, 0, 900]})
    >>> txn = dn.locks.LockManager().new_transaction()
    >>> cursor = txn.cursor(table, key=["name"])
    >>> result = cursor.first()
    >>> while cursor.key() is not None:
    ...     if cursor.value()["coins"] == 0 and result == "ACQUIRED":
    ...         txn.unlock()
    ...     else:
    ...         cursor.store({"coins": cursor.value()["coins"] - 1})
    ...     result = cursor.next()
    >>> txn.commit()
    >>> table.to_arrow().sort_by("name").to_pydict()
    {'name': ['Daisy', 'Donald', 'Scrooge'], 'coins': [2, 0, 899]}
    """

    def __init__(self, txn: Any, rows: Any) -> None:
        super().__init__(txn)
        self._rows = rows
        """Gives the :class:`Rows` of the transaction as it is now: it can have ended and begun anew."""

    def key(self) -> Key | None:
        """The current key, a value for each column; None before the first move and after the last row."""
        key: Key | None = self._key
        return key

    def value(self) -> Row | None:
        """The row that was read there, by column; None if there is none."""
        return None if self._value is None else dict(self._value)

    def find(self, key: Any) -> LockResult:
        """Go to a key, and lock it, whether there is a row or not.

        Args:
            key: a value for each column of the key, in a tuple, a list or by name; a key of one column may be
                given as its value alone.

        Raises:
            InvalidArgument: no key of this table.
        """
        with self._txn.operation():
            rows: Rows = self._rows()
            normal = rows.key(key)
            result, self._value = rows.read(normal)
            self._key = normal
        return result

    def store(self, value: Mapping[str, Any] | None) -> None:
        """Write the current row: columns that are left out keep their values, or are null in a new row. None
        deletes the row.

        Raises:
            IllegalStateError: there is no current row.
            SchemaMismatch: a column that the table does not have, or a value that does not fit it.
            InvalidArgument: another key than the current one.
            LockFailure: the row cannot be locked exclusively.
        """
        key = self._placed("store")
        with self._txn.operation():
            self._value = self._rows().store(key, value)

    def delete(self) -> None:
        """Delete the current row, if there is one.

        Raises:
            IllegalStateError: there is no current row.
        """
        self._placed("delete")
        self.store(None)

    def _move(self, key: Key | None) -> LockResult:
        with self._txn.operation():
            rows: Rows = self._rows()
            while (key := rows.after(key)) is not None:
                result, row = rows.read(key)
                if row is not None:
                    self._key, self._value = key, row
                    return result
                if result is LockResult.ACQUIRED:  # it was deleted while this one waited
                    rows.give_back(key)
        self.reset()
        return LockResult.UNOWNED
