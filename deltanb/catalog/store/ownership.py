"""The owners of folders: the only place that decides whether a table may take a folder, or files may be
deleted.

What lives here: the folders of tables, registered or about to be, in one spelling each (links resolved), and
the rule that no two tables' folders are equal or nested. It is checked in the transaction that takes the
folder; these transactions are serialized.
What it does not know: the contents of a folder (``warehouse.contents``), and permissions.

A table owns its folder from its registration until it is dropped; an Iceberg table also its previous ones,
since its files stay there. The files that a dropped table leaves belong to its namespace: a table made from
them, or an Iceberg table created beside them, may have their folder. A folder in which a table is being
created, or whose files are being deleted, is recorded as garbage with the table's id, and belongs to that
table only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from deltanb.catalog.store.database import hold_places
from deltanb.catalog.store.ledgers import as_garbage, note, take_back_folder
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.tables import delta_tables, garbage, iceberg_tables, places, sa
from deltanb.errors import TableAlreadyExists
from deltanb.options import random_id
from deltanb.store.base import LogStore
from deltanb.store.open import store_for
from deltanb.store.paths import address_of

__all__ = ["EVERYONE", "NEW_TABLE", "PURGED", "STAGED", "FolderNote", "every_place", "folder_note",
           "folder_of_file", "forget", "key_of", "leave", "left_in", "note_folder", "opened", "others_at",
           "owner_of", "places_of", "record_place", "require_free", "staged_id", "take"]

NEW_TABLE, STAGED = "a table that is being created", "a staging table"
PURGED = "a table that was purged"
"""Why a folder is recorded as garbage."""

EVERYONE = "everyone"
"""Whose a note is that nobody made by a token."""


@dataclass(frozen=True)
class FolderNote:
    """The reason why a folder is recorded as garbage: its table's id, and who recorded it.

    >>> FolderNote.of(FolderNote(PURGED, "9c12", "ada").reason)
    FolderNote(why='a table that was purged', table_id='9c12', who='ada')
    >>> FolderNote.of("metadata of a commit") is None
    True
    """

    why: str
    table_id: str | None = None
    who: str = EVERYONE

    @property
    def reason(self) -> str:
        """The text in the ledger."""
        return f"{self.why} {self.table_id} of {self.who}"

    @classmethod
    def of(cls, reason: str) -> FolderNote | None:
        """The parsed reason; None if it concerns a file."""
        match = _REASON.fullmatch(reason)
        return None if match is None else cls(match[1], match[2], match[3] or EVERYONE)


_REASON = re.compile(f"({NEW_TABLE}|{STAGED}|{PURGED})(?: (\\S+) of (.+))?")


def key_of(location: str) -> str:
    """The canonical spelling of a place; for a local folder, with links resolved.

    >>> key_of("file:///lake/t/"), key_of("s3a://bucket/t")
    ('/lake/t', 's3://bucket/t')
    """
    address = address_of(location)
    return os.path.realpath(address) if address.startswith("/") else address


def staged_id(catalog: str, name: TableName) -> str:
    """The id of a folder staged for an Iceberg table, which the creator of a table of that name gets.

    >>> staged_id("default", TableName.of("shop.big orders"))
    'default/shop.big%20orders'
    """
    return quote(f"{catalog}/{name}")


def opened(location: str) -> LogStore:
    """The store of a place; nothing in its text is decoded."""
    return store_for(address_of(location))


def folder_of_file(metadata_location: str) -> str:
    """The folder of a metadata file's Iceberg table, by the file's path.

    >>> folder_of_file("s3://b/t/metadata/0.metadata.json"), folder_of_file("/lake/0.metadata.json")
    ('s3://b/t', '/lake')
    """
    return metadata_location.rpartition("/metadata/")[0] or metadata_location.rpartition("/")[0]


def take(connection: sa.Connection, location: str, table_id: str, also: Iterable[str] = ()) -> None:
    """Within a transaction, assign a folder to a table; removes its record as garbage.

    ``also`` are other ids under which the same table recorded the folder.

    Raises:
        TableAlreadyExists: the folder is another table's, or inside or around one.
        DataFileNotFound: it was claimed to be deleted.
    """
    hold_places(connection)
    require_free(connection, location, {table_id, *also})
    record_place(connection, location, table_id)
    take_back_folder(connection, key_of(location))


def note_folder(connection: sa.Connection, location: str, what: FolderNote, not_before: int) -> None:
    """Within a transaction, record a folder for a table to be created; it may be deleted from a time on.

    Raises:
        TableAlreadyExists: as in :func:`take`, or someone else recorded it for a table of the same id.
    """
    hold_places(connection)
    require_free(connection, location, {what.table_id})
    before = folder_note(connection, location)
    if what.why == NEW_TABLE and before is not None and before.who != what.who:
        raise TableAlreadyExists(
            f"{location} was noted by {before.who}, not by {what.who}: give a location of your own",
            path=location)
    note(connection, [as_garbage(key_of(location), what.reason, not_before)])


def require_free(connection: sa.Connection, location: str, table_ids: Iterable[str | None] = ()) -> None:
    """Refuse a folder that is equal to, inside or around the folder of a table without one of the ids.

    Raises:
        TableAlreadyExists: another table has the folder.
    """
    other = next(others_at(connection, location, table_ids), None)
    if other is not None:
        mine = key_of(location)
        where = "it is" if other == mine else "it lies in" if mine.startswith(f"{other}/") else "in it lies"
        raise TableAlreadyExists(
            f"{location} cannot be a table's folder: {where} the folder of another table; give a location of "
            "its own", path=location)


def others_at(
    connection: sa.Connection, location: str, table_ids: Iterable[str | None] = ()
) -> Iterator[str]:
    """The folders of tables without one of the ids that are equal to, inside or around a place."""
    mine, spared = key_of(location), set(table_ids)
    inside = f"{mine}/"
    _record_missing(connection)

    def overlapping(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        return column.in_([mine, *_parents(mine)]) | (sa.func.substr(column, 1, len(inside)) == inside)

    for place, table_id in connection.execute(sa.select(places.c.place, places.c.table_id).join(
            iceberg_tables, iceberg_tables.c.dn_table_id == places.c.table_id).where(
            places.c.left_in_catalog.is_(None), overlapping(places.c.place)).order_by(places.c.place)):
        if table_id not in spared:
            yield place
    for place, reason in connection.execute(sa.select(garbage.c.path, garbage.c.reason).where(
            overlapping(garbage.c.path)).order_by(garbage.c.path)):
        noted = FolderNote.of(reason)
        if noted is None or noted.table_id in spared or (noted.table_id is None and place == mine):
            continue  # of an earlier version of this library, which noted no ids
        yield place


def owner_of(connection: sa.Connection, location: str) -> str | FolderNote | None:
    """Whose folder a place is, or lies in: the id of a table, or what the folder is noted as garbage for."""
    mine = key_of(location)
    around = [mine, *_parents(mine)]
    _record_missing(connection)
    table_id: str | None = connection.execute(sa.select(places.c.table_id).join(
        iceberg_tables, iceberg_tables.c.dn_table_id == places.c.table_id).where(
        places.c.left_in_catalog.is_(None), places.c.place.in_(around))).scalar()
    notes = sa.select(garbage.c.reason).where(garbage.c.path.in_(around), sa.not_(garbage.c.swept))
    return table_id or next(filter(None, map(FolderNote.of, connection.execute(notes).scalars())), None)


def _parents(place: str) -> Iterator[str]:
    while place.rpartition("/")[0].strip("/"):
        place = place.rpartition("/")[0]
        yield place


def _record_missing(connection: sa.Connection) -> None:
    """Record the folders of tables that have none yet: those that another program, or an earlier version of
    this library, has made. Those that no catalog of this library has looked at get their ids now."""
    rows = connection.execute(_WITHOUT_PLACE).all()
    without = [row for row in rows if row.dn_table_id is None and row.metadata_location]
    if without:
        connection.execute(_GIVE_ID, [{"new_id": random_id(), **{
            f"with_{name}": getattr(row, name) for name in _ROW}} for row in without])
        rows = connection.execute(_WITHOUT_PLACE).all()  # others may have been first to give one its id
    located = ((row, row.location or folder_of_file(row.metadata_location or "")) for row in rows)
    missing = [{"place": key_of(location), "table_id": row.dn_table_id}
             for row, location in located if location and row.dn_table_id is not None]
    if missing:
        connection.execute(_RECORD, missing)


def record_place(connection: sa.Connection, location: str, table_id: str) -> None:
    """Within a transaction, record a table's folder without checks."""
    place = key_of(location)
    connection.execute(places.delete().where(places.c.place == place, places.c.left_in_catalog.is_not(None)))
    connection.execute(_RECORD, {"place": place, "table_id": table_id})


def leave(connection: sa.Connection, table_id: str, catalog: str, namespace: str) -> None:
    """Within a transaction, leave a dropped table's files to its namespace."""
    connection.execute(places.update().where(places.c.table_id == table_id).values(
        left_in_catalog=catalog, left_in_namespace=namespace))


def left_in(connection: sa.Connection, location: str, catalog: str) -> tuple[str, ...]:
    """The namespaces of dropped tables of a catalog that left their files in exactly this folder."""
    query = sa.select(places.c.left_in_namespace).where(
        places.c.place == key_of(location), places.c.left_in_catalog == catalog).distinct()
    return tuple(connection.execute(query).scalars())


def places_of(connection: sa.Connection, table_id: str) -> list[str]:
    """The folders of a table, including previous ones."""
    _record_missing(connection)
    mine = sa.select(places.c.place).where(
        places.c.table_id == table_id, places.c.left_in_catalog.is_(None)).order_by(places.c.place)
    return list(connection.execute(mine).scalars())


def every_place(connection: sa.Connection) -> list[tuple[str, str]]:
    """The folders of all tables, with the tables' ids."""
    _record_missing(connection)
    query = sa.select(places.c.place, places.c.table_id).where(places.c.left_in_catalog.is_(None))
    return [(place, table_id) for place, table_id in connection.execute(query)]


def folder_note(connection: sa.Connection, location: str) -> FolderNote | None:
    """Why this folder is recorded as garbage; None if it is not, or is being deleted."""
    query = sa.select(garbage.c.reason).where(garbage.c.path == key_of(location), sa.not_(garbage.c.swept))
    reason = connection.execute(query).scalar()
    return None if reason is None else FolderNote.of(reason)


def forget(connection: sa.Connection, locations: Iterable[str], who: str) -> int:
    """Within a transaction: take out the notes of folders that ``who`` has made, of tables that are made or
    were purged; how many."""
    gone = 0
    for key in {key_of(location) for location in locations}:
        noted = folder_note(connection, key)
        if noted is not None and noted.why != STAGED and noted.who == who:
            gone += connection.execute(garbage.delete().where(
                garbage.c.path == key, garbage.c.reason.startswith(noted.why))).rowcount
    return gone


_ROW = ("catalog_name", "table_namespace", "table_name")
_WITHOUT_PLACE: sa.Select[Any] = sa.select(
    *(iceberg_tables.c[name] for name in _ROW),
    iceberg_tables.c.dn_table_id, iceberg_tables.c.metadata_location, delta_tables.c.location
).select_from(iceberg_tables.outerjoin(
    delta_tables, delta_tables.c.table_id == iceberg_tables.c.dn_table_id).outerjoin(
    places, sa.and_(places.c.table_id == iceberg_tables.c.dn_table_id, places.c.left_in_catalog.is_(None)))
).where(places.c.table_id.is_(None))
_GIVE_ID = iceberg_tables.update().where(
    *(iceberg_tables.c[name] == sa.bindparam(f"with_{name}") for name in _ROW),
    iceberg_tables.c.dn_table_id.is_(None)).values(dn_table_id=sa.bindparam("new_id"))
# As text: SQLAlchemy compiles an insert with ON CONFLICT anew each time, and both databases read this.
_RECORD = sa.text("INSERT INTO dn_places (place, table_id) VALUES (:place, :table_id) ON CONFLICT DO NOTHING")
