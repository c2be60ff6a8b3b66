"""Rows of a table under locks, by key: what the cursors of a transaction read and store.

What lives here: :class:`LockedRows`, the rows of one table in one transaction, and how what was stored
becomes one statement.
What it does not know: how rows are read in order (``engines/arrow/keyed_rows``), who gets a lock, the commit.

A row that is stored waits here until its transaction commits, or until a statement of it looks at the table.
So transactions that hold the locks of different rows do not meet although the rows lie in one file: each
writes its rows, when it commits, into the newest version there is. What was read is checked against that
version by its values. It has changed only where another process has changed it, which is a conflict.
"""

from __future__ import annotations

import time
from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from deltanb.commands.merge.by_key import apply_changes, partition_for
from deltanb.engines.arrow.keyed_rows import KeyedRows
from deltanb.errors import InvalidArgument, SchemaMismatch
from deltanb.locks.core import keys
from deltanb.locks.core.cursor import Key, Row
from deltanb.locks.core.modes import EXCLUSIVE, IX, PARENT_INTENTION, LockMode, LockResult
from deltanb.locks.tables.log import READ_MODES, LockedLog, LockedTransaction, Part, name_of, part_of
from deltanb.schema.columns import GENERATION
from deltanb.schema.types import arrow_type
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown
from deltanb.transaction.current import SERIALIZABLE
from deltanb.transaction.staging import as_read_only_commit, check_commits

ABSENT: Any = object()
"""In place of a row that was not stored."""

Undo = tuple["LockedRows", Key, Any]
"""A row that was stored, and what was stored there before."""


class Seen(NamedTuple):
    """A committed row as it was read, and the version that it was read from."""

    row: Row | None
    version: int


class LockedRows:
    """The rows of a table by a key, as a transaction reads and stores them.

    ``noted`` is called with each row that is stored and what undoes it.
    """

    def __init__(self, log: LockedLog, key: tuple[str, ...], noted: Callable[[Undo], None]) -> None:
        self.log, self._noted = log, noted
        self.txn = log.txn
        self._rows = KeyedRows(log.snapshot, key)
        self.columns = self._rows.key
        """The columns of the key, as the schema spells them."""
        self.writes: dict[Key, Row | None] = {}
        """What was stored and is no statement yet; None is a row that was deleted."""
        self._stored: list[tuple[bytes, Key]] = []
        """The keys in ``writes``, in order."""
        self.reads: dict[Key, Seen] = {}
        """What was read and must still be so at the commit."""

    # -- what a cursor asks ------------------------------------------------------------------------

    def key(self, values: Any) -> Key:
        """A key as people give it, checked and made a tuple."""
        if isinstance(values, Mapping):
            strange = [name for name in values if name not in self.columns]
            if strange or len(values) != len(self.columns):
                raise InvalidArgument(
                    f"the key of table {self.name} is {', '.join(self.columns)}; found {shown(dict(values))}")
            values = tuple(values[name] for name in self.columns)
        elif not isinstance(values, tuple | list):
            values = (values,)
        return self._rows.normal(values)

    def after(self, key: Key | None) -> Key | None:
        """The next key, of a row of the table or of one that was stored."""
        next_key = self._as_read().after(key)
        at = 0 if key is None else bisect_right(self._stored, (keys.encode(key), key))
        if at < len(self._stored) and (next_key is None or self._stored[at][0] < keys.encode(next_key)):
            return self._stored[at][1]
        return next_key

    def read(self, key: Key) -> tuple[LockResult, Row | None]:
        """Lock a row as the lock mode says and read it."""
        mode = READ_MODES.get(self.txn.lock_mode)
        if mode is None:
            return LockResult.UNOWNED, self._row(key)
        height = len(self.txn._locker.entries)
        result = self._lock(key, mode)
        if not self.txn.lock_mode.is_repeatable:
            try:
                return (LockResult.UNOWNED if result.is_acquired else result), self._row(key)
            finally:
                self.txn.manager.give_back_tree(self.txn._locker, height)
        row = self._row(key)
        self._remember(key, result)
        return result, row

    def give_back(self, key: Key) -> None:
        """Release the lock that the last read has acquired."""
        self.txn.give_back(self.log.index_id, keys.row_key((), key))
        self.reads.pop(key, None)

    def store(self, key: Key, row: Mapping[str, Any] | None) -> Row | None:
        """Lock a row exclusively and change it; what it is now. None deletes it."""
        self._newest()
        new = self._made(key, row)  # refused before anything is locked
        if self.txn.lock_mode is LockMode.UNSAFE:
            apply_changes(self.log.below, self.columns, {key: new})
            return self._shown(new)
        self.log.check_durability()
        result = self._lock(key, EXCLUSIVE)
        self._newest()
        self._remember(key, result)
        new = self._made(key, row)
        if new is not None and self.log.snapshot.partition_columns:
            part = partition_for(self.log.snapshot, self.columns, key, new)
            self.log.lock([keys.partition_key(part)], IX)
        self._noted((self, key, self.writes.get(key, ABSENT)))
        self._put(key, new)
        return self._shown(new)

    # -- what the transaction asks -----------------------------------------------------------------

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        return name_of(self.log.below, self.log.snapshot)

    def undo(self, key: Key, before: Any) -> None:
        """Take back what was stored last under a key."""
        self._put(key, before)

    def seal(self) -> None:
        """Forget what was read of rows that were unlocked since: they do not belong to the transaction."""
        check = self.txn.manager.check
        self.reads = {
            key: row for key, row in self.reads.items()
            if key in self.writes
            or check(self.txn._locker, (self.log.index_id, keys.row_key((), key))).is_held}

    def flush(self) -> dict[Key, Row | None]:
        """Make a statement of what was stored, on the newest version; returns it.

        Raises:
            DeltaConcurrentModificationException: another process has changed a row that was read.
        """
        writes, self.writes, self._stored = self.writes, {}, []
        try:
            if writes:
                rows = self._newest()
                apply_changes(self.log, self.columns, writes, rows=rows, partitions=self._parts(rows, writes))
        except BaseException:
            self.restore(writes)
            raise
        return writes

    def restore(self, writes: Mapping[Key, Row | None]) -> None:
        """Have rows as they were before :meth:`flush`."""
        for key, row in writes.items():
            self._put(key, row)

    def verify(self) -> None:
        """Check what was read against the newest version, and have the commit check it against later ones.

        Raises:
            DeltaConcurrentModificationException: a row that was read is another one now.
        """
        if not self.reads:
            return
        rows = self._newest().at(self.log.base)
        for key, seen in self.reads.items():
            if seen.version != self.log.base.version and not _same(self._one(rows, key), seen.row):
                self._refuse(key, seen.version)
        reader = LockedTransaction(self.log, self.log.snapshot)
        reader.mode = None
        self.log.begun.append(reader)
        for key in self.reads:
            reader.filter_files(rows.condition(key))

    # -- how it is done ----------------------------------------------------------------------------

    def _newest(self) -> KeyedRows:
        """The rows of the newest version and of the statements behind it."""
        self.log.follow()
        self._rows = self._rows.at(self.log.snapshot)
        return self._rows

    def _as_read(self) -> KeyedRows:
        """As :meth:`_newest`; with what others have not committed, where the lock mode sees that."""
        rows = self._newest()
        return rows.at(self.log.owner.uncommitted()) if self.txn.lock_mode.is_dirty else rows

    def _row(self, key: Key) -> Row | None:
        """The row as the transaction sees it."""
        if key in self.writes:
            return self._shown(self.writes[key])
        return self._one(self._as_read(), key)

    def _shown(self, row: Row | None) -> Row | None:
        """A row that was stored, with null where the table is to give the value when it is written."""
        return None if row is None else {**dict.fromkeys(self.log.snapshot.schema.names), **row}

    def _one(self, rows: KeyedRows, key: Key) -> Row | None:
        matches = rows.get(key)
        if len(matches) > 1:
            raise InvalidArgument(
                f"table {self.name} has {len(matches)} rows with {self._named(key)}, and a cursor needs a "
                "key that only one row has; name more columns, or change the rows by table.update()")
        return matches[0] if matches else None

    def _remember(self, key: Key, result: LockResult) -> None:
        """Note the committed row under a lock that stays, of the version that was looked at last: another
        process may have changed it since. What the transaction has made of it is its own."""
        if result is LockResult.ACQUIRED:  # what it has read before, it has unlocked since
            self.reads.pop(key, None)
        if key not in self.reads and key not in self.writes:
            self.reads[key] = Seen(self._one(self._rows.at(self.log.base), key), self.log.base.version)

    def _lock(self, key: Key, mode: int) -> LockResult:
        """Lock a row, after the partition that it is in, if it is in one, with the intention. What came of
        the row's own lock, which is the last one of the scope where it was acquired."""
        name, locker, manager = keys.row_key((), key), self.txn._locker, self.txn.manager
        left = _Time(self.txn.lock_timeout)
        height = len(locker.entries)
        try:
            self._announce(key, mode, left)
            result = manager.lock_tree(locker, self.log.index_id, [(name, mode)], left())[0]
            self._announce(key, mode, left)  # it may have moved to another partition meanwhile
        except BaseException:
            manager.give_back_tree(locker, height)
            raise
        return result

    def _announce(self, key: Key, mode: int, left: _Time) -> None:
        snapshot = self.log.snapshot
        part = self._newest().partition_of(key) if snapshot.partition_columns else None
        if part is not None:
            names = [snapshot.schema.field(name).physical_name for name in snapshot.partition_columns]
            normal = part_of(dict(zip(names, part, strict=True)), snapshot)
            wants = [(keys.partition_key(normal), PARENT_INTENTION[mode])]
            manager = self.txn.manager
            manager.lock_tree(self.txn._locker, self.log.index_id, wants, left())

    def _put(self, key: Key, row: Any) -> None:
        at = (keys.encode(key), key)
        if row is ABSENT:
            if self.writes.pop(key, ABSENT) is not ABSENT:
                self._stored.remove(at)
            return
        if key not in self.writes:
            insort(self._stored, at)
        self.writes[key] = row

    def _made(self, key: Key, values: Mapping[str, Any] | None) -> Row | None:
        """The row to be stored: what is given, on what is there."""
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise InvalidArgument(
                f"a cursor stores a row as a dict of its columns, found {type(values).__name__}: "
                f"{shown(values)}")
        schema = self.log.snapshot.schema
        row = self._before(key)
        names = {name.lower(): name for name in schema.names}
        for name, value in {**dict(zip(self.columns, key, strict=True)), **values}.items():
            if str(name).lower() not in names:
                hint, _ = did_you_mean(str(name), schema.names, "columns")
                raise SchemaMismatch(f"table {self.name} has no column {shown(name)}; {hint}")
            field = schema.field(names[str(name).lower()])
            row[field.name] = self._value(field.name, arrow_type(field.type, field.name), value)
        if self.key({name: row[name] for name in self.columns}) != key:
            raise InvalidArgument(
                f"the cursor is on {self._named(key)} of table {self.name}, and the row has another key: "
                f"{shown({name: row[name] for name in self.columns})}; delete this row, find() the other key "
                "and store it there")
        return row

    def _value(self, column: str, column_type: pa.DataType, value: Any) -> Any:
        try:
            return pa.array([value], column_type)[0].as_py(maps_as_pydicts="lossy")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError,
                TypeError, ValueError) as error:
            raise SchemaMismatch(
                f"column {column} of table {self.name} is {column_type}, and {shown(value)} is not: {error}"
            ) from None

    def _before(self, key: Key) -> Row:
        """What a row that is stored builds on: without what the table computes, which it computes anew."""
        row = self.writes.get(key) if key in self.writes else self._one(self._rows, key)
        computed = {field.name for field in self.log.snapshot.schema if GENERATION in field.metadata}
        return {name: value for name, value in (row or {}).items() if name not in computed}

    def _parts(self, rows: KeyedRows, writes: Mapping[Key, Row | None]) -> set[Part] | None:
        """The partitions that rows are in and will be in."""
        if not self.log.snapshot.partition_columns:
            return None
        parts = {rows.partition_of(key) for key in writes}
        new = {partition_for(self.log.snapshot, self.columns, key, row)
               for key, row in writes.items() if row is not None}
        return {part for part in parts if part is not None} | new

    def _named(self, key: Key) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in zip(self.columns, key, strict=True))

    def _refuse(self, key: Key, version: int) -> None:
        """Raise the conflict with the commit that has changed a row since a version."""
        below, newest = self.log.below, self.log.base.version
        txn = below.start_transaction(below.snapshot_at(version))
        txn.filter_files(self._rows.condition(key))
        # A row that was added blindly is a conflict at every level: here it stands where there was none.
        check_commits(below, as_read_only_commit(txn).replace(isolation=SERIALIZABLE), newest)


class _Time:
    """How long a call that takes several locks may still wait."""

    def __init__(self, timeout: float) -> None:
        self.timeout, self.end = timeout, time.monotonic() + timeout

    def __call__(self) -> float:
        return self.timeout if self.timeout <= 0 else max(0.0, self.end - time.monotonic())


def _same(one: Row | None, other: Row | None) -> bool:
    return one == other or repr(one) == repr(other)  # NaN is not equal to itself
