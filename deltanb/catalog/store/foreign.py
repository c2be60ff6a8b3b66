"""Changes that other programs make to a catalog's Iceberg tables in its database, recorded in its history.

What lives here: :class:`ForeignMoves`. PyIceberg's SqlCatalog and Java's JdbcCatalog create, move and drop
rows of ``iceberg_tables`` without recording it elsewhere. The row counts; the history is updated from it
before it is read or extended.
What it does not know: the content of a metadata file, except its time and its predecessors.

The row has the current location of a table. Its metadata file has the earlier ones: each of these moves
becomes a transaction of the history, at the time of its commit as far as the order of the history allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from deltanb.catalog.store.database import Database, hold_sequence
from deltanb.catalog.store.history import LAST, Event, newest_seq, newest_time, pointers_at, record_events
from deltanb.catalog.store.ownership import folder_of_file, others_at, record_place
from deltanb.catalog.store.rows import is_table, note_known
from deltanb.catalog.store.statements import Prepared
from deltanb.catalog.store.tables import iceberg_tables, is_unrecorded, known_iceberg_tables, sa
from deltanb.concurrency import parallel
from deltanb.errors import DeltaError
from deltanb.options import options, random_id

__all__ = ["ANOTHER", "ForeignMoves"]

ANOTHER = "another program"
"""Whom history names for what nobody did through this library."""

LOOKS = 3  # at a table that goes on being moved: what comes after the last one is for the next to take in
MAX_IN = 500  # ids in one statement: databases bound the parameters of one

Made = tuple[str, "int | None"]  # a metadata file, and the epoch ms at which it was made, if that is known


@dataclass(frozen=True)
class _Moved:
    """A row that differs from the history."""

    table_namespace: str
    table_name: str
    dn_table_id: str | None
    dn_recorded_location: str | None
    metadata_location: str


@dataclass(frozen=True)
class _Facts:
    """The facts from a moved table's metadata."""

    path: list[Made]
    """The files before it, the oldest first, and then itself."""
    location: Any = None
    """Whatever it gives as the table's folder."""


class ForeignMoves:
    """The changes by others to Iceberg tables of ``catalog`` in a database."""

    def __init__(self, database: Database, catalog: str) -> None:
        self._database, self._catalog = database, catalog
        self.read_metadata: Callable[[str], Mapping[str, Any]] | None = None
        """How a metadata file is read. Without it a table's moves are one, made when it is noticed."""

    def take_in(self, with_drops: bool = False) -> None:
        """Record new changes in the history.

        Without changes this is one statement, which reads an empty index.

        Args:
            with_drops: also dropped tables, which requires reading every table.

        Raises:
            StorageError: the database cannot be read or written.
        """
        for _ in range(LOOKS):
            moved, dropped = self._database.read(lambda connection: self._look(connection, with_drops))
            if not moved and not dropped:
                return
            facts = dict(zip(moved, parallel.each(self._facts, moved), strict=True))
            # If nobody answers, the next look says what became of it.
            self._database.write(
                partial(self._record, moved=facts, dropped=dropped), lambda connection: True)

    def newest_seq(self) -> int:
        """The number of the last transaction of the history, after new changes, also drops, were recorded.

        Without changes this is one statement.

        Raises:
            StorageError: the database cannot be read or written.
        """
        seq, is_moved, is_dropped = self._database.read(
            lambda connection: _NOW.run(connection, {"in_catalog": self._catalog}).one())
        if not is_moved and not is_dropped:
            return int(seq or 0)
        self.take_in(with_drops=True)
        return self._database.read(newest_seq)

    def _look(self, connection: sa.Connection, with_drops: bool) -> tuple[list[_Moved], list[str]]:
        mine = {"in_catalog": self._catalog}
        moved = [_Moved(*row) for row in _UNRECORDED.run(connection, mine)]
        dropped = list(_DROPPED.run(connection, mine).scalars()) if with_drops else []
        return moved, dropped

    def _facts(self, moved: _Moved) -> _Facts:
        """The facts from a table's metadata; without them if it cannot be read, since it moved all the
        same."""
        place = moved.metadata_location
        if self.read_metadata is None:
            return _Facts([(place, None)])
        try:
            metadata = self.read_metadata(place)
        except (DeltaError, OSError):
            return _Facts([(place, None)])
        log = [(each.get("metadata-file"), each.get("timestamp-ms")) for each in _log_of(metadata)]
        earlier = [(file, time) for file, time in log if isinstance(file, str) and isinstance(time, int)]
        time = metadata.get("last-updated-ms")
        return _Facts([*earlier, (place, time if isinstance(time, int) else None)], metadata.get("location"))

    def _record(
        self, connection: sa.Connection, moved: Mapping[_Moved, _Facts], dropped: Sequence[str]
    ) -> bool:
        """Within a transaction, record the changes of tables that have not moved since they were read."""
        mine: dict[str, list[Made]] = {}
        for row in sorted(moved, key=lambda row: row.dn_table_id or ""):  # as all transactions go
            table_id = row.dn_table_id or random_id()
            if connection.execute(_as_seen(self._catalog, row).values(
                    dn_table_id=table_id, dn_recorded_location=row.metadata_location)).rowcount:
                note_known(connection, self._catalog, table_id)
                record_place(connection, folder_of_file(row.metadata_location), table_id)
                _record_location(connection, moved[row].location, table_id)
                mine[table_id] = moved[row].path
        gone = [table_id for table_id in dropped
                if connection.execute(_FORGET, {"gone": table_id}).rowcount]
        if not mine and not gone:
            return True
        hold_sequence(connection)
        seq, last = newest_seq(connection), newest_time(connection)
        known: dict[str, str | None] = {}
        ids = [*mine, *gone]
        for at in range(0, len(ids), MAX_IN):
            known |= pointers_at(connection, seq, ids[at : at + MAX_IN])
        events = [event for table_id, path in mine.items()
                  for event in _events(table_id, known.get(table_id), path, last)]
        events.sort(key=lambda event: event.time)
        events += [Event(options.clock(), ANOTHER, "drop", {table_id: (known[table_id], None)})
                   for table_id in gone if known.get(table_id) is not None]
        record_events(connection, events)
        return True


def _record_location(connection: sa.Connection, location: Any, table_id: str) -> None:
    """Record the folder that a table's metadata names, wherever it is, unless another table has it."""
    if isinstance(location, str) and location and location.isprintable() and next(
            others_at(connection, location, [table_id]), None) is None:
        record_place(connection, location, table_id)


def _log_of(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The log of a table's metadata files, written by another program."""
    log = metadata.get("metadata-log")
    return [each for each in log if isinstance(each, dict)] if isinstance(log, list) else []


def _events(table_id: str, known: str | None, path: list[Made], last: int) -> Iterable[Event]:
    """A table's moves since the file in the history.

    If the metadata does not name that file, because it is not the table's or was removed from its log, moves
    after the end of the history are separate, and those before are one.
    """
    files = [file for file, _ in path]
    if known == files[-1]:  # recorded, and not noted in the row: by an earlier version of this library
        return
    if known in files:
        path = path[files.index(known) + 1 :]
    else:
        path = [(file, time) for file, time in path[:-1] if time is not None and time > last] + path[-1:]
    now, earliest = options.clock(), 0
    for (before, _), (after, time) in pairwise([(known, None), *path]):
        earliest = max(earliest, now if time is None else time)  # a table's moves stay in their order
        yield Event(earliest, ANOTHER, "register" if before is None else "commit",
                    {table_id: (before, after)})


def _as_seen(catalog: str, row: _Moved) -> sa.Update:
    return iceberg_tables.update().where(
        _row.catalog_name == catalog, *(
            _row[name].is_not_distinct_from(value) for name, value in vars(row).items()))


# Made once: SQLAlchemy takes longer to make a statement than the database to run it.

_row = iceberg_tables.c
UNRECORDED = sa.select(*(_row[name] for name in _Moved.__dataclass_fields__)).where(
    _row.catalog_name == sa.bindparam("in_catalog"), is_unrecorded, _row.metadata_location.is_not(None),
    is_table("iceberg"))
_id = known_iceberg_tables.c.table_id
_IS_GONE = ~sa.exists().where(_row.dn_table_id == _id)
_GONE = sa.select(_id).where(known_iceberg_tables.c.catalog_name == sa.bindparam("in_catalog"), _IS_GONE)
_UNRECORDED, _DROPPED = Prepared(UNRECORDED), Prepared(_GONE.order_by(_id))
_NOW = Prepared(sa.select(LAST.scalar_subquery(), sa.exists(UNRECORDED), sa.exists(_GONE)))
_FORGET = known_iceberg_tables.delete().where(_id == sa.bindparam("gone"), _IS_GONE)
