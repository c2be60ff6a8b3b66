"""The history of a catalog: its transactions in the order of COMMIT, and what each moved.

What lives here: the sequence number, which rises in the order of COMMIT, so that a smaller number never
appears after a larger one was read; and the tables that a transaction moved, from where to where.
What it does not know: tables. ``before`` and ``after`` are a version, or the location of metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, overload

from deltanb.catalog.store.database import hold_sequence
from deltanb.catalog.store.statements import Prepared, for_each_count, ids_of
from deltanb.catalog.store.tables import sa, txn_changes, txns
from deltanb.options import options, random_id
from deltanb.text.display import Displayable

__all__ = ["CatalogHistory", "Entry", "Event", "entries", "newest_seq", "newest_time", "pointers_at",
           "record", "record_events", "seq_at", "seq_of"]

Change = tuple["str | None", "str | None"]


@dataclass(frozen=True)
class Entry:
    """One transaction of the catalog."""

    seq: int
    txn_id: str
    time: int
    """Epoch milliseconds at which it was written; never before that of an earlier one, whatever the clock
    says."""
    principal: str | None
    summary: str | None
    changes: Mapping[str, Change]
    """Table id -> (before, after): None before for a new table, None after for one that was dropped."""

    @property
    def operations(self) -> dict[str, str]:
        """The operation on each table, by the name it had then; empty if not recorded.

        >>> Entry(1, "t", 0, None, '{"shop.orders": "WRITE"}', {}).operations
        {'shop.orders': 'WRITE'}
        """
        try:
            operations = json.loads(self.summary or "")
        except ValueError:
            return {}
        return {name: str(what) for name, what in operations.items()} if isinstance(operations, dict) else {}


class CatalogHistory(Displayable, Sequence[Entry]):
    """Transactions of a catalog, newest first: an immutable sequence, shown as a table.

    ``names`` has the current names of existing tables by id; ``total`` is the number of all transactions,
    including those left out by a limit.

    >>> history = CatalogHistory([Entry(2, "b", 0, "ada", None, {}), Entry(1, "a", 0, "ada", None, {})])
    >>> history[0].seq, len(history[1:]), history == [history[0], history[1]]
    (2, 1, True)
    """

    def __init__(
        self, entries: Iterable[Entry] = (), names: Mapping[str, str] | None = None, catalog: str = "",
        total: int | None = None,
    ) -> None:
        self._entries = tuple(entries)
        self.names: Mapping[str, str] = MappingProxyType(dict(names or {}))
        self.catalog = catalog
        """The catalog's name."""
        self.total = len(self._entries) if total is None else total

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> CatalogHistory: ...
    def __getitem__(self, at: int | slice) -> Entry | CatalogHistory:
        if isinstance(at, slice):
            return CatalogHistory(self._entries[at], self.names, self.catalog, self.total)
        try:
            return self._entries[at]
        except IndexError:
            raise IndexError(f"the history of {self.catalog or 'the catalog'} has {len(self)} entries, the "
                             f"newest first: there is no [{at}]") from None

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._entries == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(entry.txn_id for entry in self._entries))


@dataclass(frozen=True)
class Event:
    """A change of tables that is not yet in the history."""

    time: int
    """Epoch milliseconds at which it is said to have happened."""
    principal: str | None
    summary: str | None
    changes: Mapping[str, Change]


def record(
    connection: sa.Connection, txn_id: str, principal: str | None, summary: str | None,
    changes: Mapping[str, Change], time: int | None = None,
) -> int:
    """Give a transaction its number and record what it moved; its last step before COMMIT.

    ``time`` is what its commits say (epoch ms), as far as that is possible: not before the transaction before
    it, and not later than now; by default it is now.

    From here on other commits wait, so that no number is visible before a smaller one; none of them fails
    because of it.
    """
    happened = options.clock() if time is None else time
    hold_sequence(connection)
    return _append(connection, txn_id, Event(happened, principal, summary, changes))


def record_events(connection: sa.Connection, events: Sequence[Event]) -> None:
    """Record several events as transactions; see :func:`record`.

    Their times are not before the last one in the history, nor later than now.
    """
    if events:
        hold_sequence(connection)
    for event in events:
        _append(connection, random_id(), event)


def _append(connection: sa.Connection, txn_id: str, event: Event) -> int:
    """Its number; a statement of its own holds the sequence before, so that this one sees the last of it."""
    seq = int(_TXN.run(connection, {
        "txn_id": txn_id, "at": min(event.time, options.clock()), "principal": event.principal,
        "summary": event.summary}).scalar_one())
    if event.changes:
        _CHANGE.run(connection, [{"seq": seq, "table_id": table_id, "before": before, "after": after}
                                 for table_id, (before, after) in event.changes.items()])
    return seq


_LAST_TXN = sa.select(txns.c.seq, txns.c.ts).order_by(txns.c.seq.desc()).limit(1)
LAST = sa.select(sa.func.max(txns.c.seq))
_CHANGE = Prepared(txn_changes.insert())
# As text, which both databases read: the next number, and a time that is not before the last one.
_TXN = Prepared(sa.text(
    "INSERT INTO dn_txns (txn_id, seq, ts, principal, summary) "
    "SELECT CAST(:txn_id AS VARCHAR(64)), COALESCE(last.seq, 0) + 1, "
    "CASE WHEN last.ts > CAST(:at AS BIGINT) THEN last.ts ELSE CAST(:at AS BIGINT) END, "
    "CAST(:principal AS TEXT), CAST(:summary AS TEXT) FROM (SELECT 1 AS one) AS always "
    "LEFT JOIN (SELECT seq, ts FROM dn_txns ORDER BY seq DESC LIMIT 1) AS last ON one = 1 RETURNING seq"))


def seq_of(connection: sa.Connection, txn_id: str) -> int | None:
    """The number of a transaction, or None if it does not exist."""
    return connection.execute(sa.select(txns.c.seq).where(txns.c.txn_id == txn_id)).scalar()


def newest_seq(connection: sa.Connection) -> int:
    """The number of the last transaction, 0 if there is none."""
    return connection.execute(LAST).scalar() or 0


def newest_time(connection: sa.Connection) -> int:
    """The time of the last transaction (epoch ms), 0 if there is none."""
    last = connection.execute(_LAST_TXN).first()
    return 0 if last is None else int(last.ts)


def seq_at(connection: sa.Connection, time: int) -> int:
    """The number of the last transaction up to a time (epoch ms), 0 if there is none."""
    return connection.execute(sa.select(sa.func.max(txns.c.seq)).where(txns.c.ts <= time)).scalar() or 0


def pointers_at(connection: sa.Connection, seq: int, table_ids: Sequence[str]) -> dict[str, str | None]:
    """The tables' versions or locations after a transaction, as text.

    None means a dropped table; tables that did not exist yet are left out.
    """
    if not table_ids:
        return {}
    statement = _POINTER if len(table_ids) == 1 else _POINTERS(len(table_ids))
    rows = statement.run(connection, {**ids_of(table_ids), "up_to": seq})
    return {row.table_id: row.after for row in rows}


_POINTER = Prepared(sa.select(txn_changes.c.table_id, txn_changes.c.after).where(
    txn_changes.c.table_id == sa.bindparam("id_0"), txn_changes.c.seq <= sa.bindparam("up_to")
).order_by(txn_changes.c.seq.desc()).limit(sa.literal_column("1")))


@for_each_count
def _POINTERS(ids: list[sa.BindParameter[str]]) -> sa.Select[Any]:
    change = txn_changes.c
    last = sa.select(change.table_id, sa.func.max(change.seq).label("seq")).where(
        change.table_id.in_(ids), change.seq <= sa.bindparam("up_to")
    ).group_by(change.table_id).subquery()
    return sa.select(change.table_id, change.after).join_from(
        txn_changes, last, sa.and_(change.table_id == last.c.table_id, change.seq == last.c.seq))


def entries(connection: sa.Connection, after: int, size: int) -> list[Entry]:
    """Up to ``size`` transactions after a number, oldest first, read in one statement."""
    some = sa.select(txns).where(txns.c.seq > after).order_by(txns.c.seq).limit(size).subquery()
    query = sa.select(some, txn_changes.c.table_id, txn_changes.c.before, txn_changes.c.after).select_from(
        some.outerjoin(txn_changes, txn_changes.c.seq == some.c.seq)).order_by(
        some.c.seq, txn_changes.c.table_id)
    by_seq: dict[int, Entry] = {}
    changes: dict[int, dict[str, Change]] = {}
    for row in connection.execute(query):
        moved = changes.setdefault(row.seq, {})
        if row.seq not in by_seq:
            by_seq[row.seq] = Entry(
                row.seq, row.txn_id, row.ts, row.principal, row.summary, MappingProxyType(moved))
        if row.table_id is not None:
            moved[row.table_id] = (row.before, row.after)
    return list(by_seq.values())


def text_of(pointer: int | str | None) -> str | None:
    """A version or a location as text in the history."""
    return None if pointer is None else str(pointer)
