"""The tables of a catalog: registered, loaded, listed, renamed, dropped.

What lives here: a table's row, and the uniqueness of names.
What it does not know: the content of a table's log or metadata file. Versions and locations are values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltanb.catalog.store.database import Database, Undo
from deltanb.catalog.store.foreign import ForeignMoves
from deltanb.catalog.store.history import record, seq_of, text_of
from deltanb.catalog.store.ledgers import as_garbage, note
from deltanb.catalog.store.names import Page, TableName, check_size, joined, parts_of
from deltanb.catalog.store.names import key_of as key_of_page
from deltanb.catalog.store.namespaces import hold_namespace, require_namespace
from deltanb.catalog.store.ownership import (
    EVERYONE,
    PURGED,
    FolderNote,
    every_place,
    folder_note,
    folder_of_file,
    key_of,
    leave,
    left_in,
    note_folder,
    others_at,
    owner_of,
    places_of,
    require_free,
    take,
)
from deltanb.catalog.store.rows import (
    DeltaState,
    TableRow,
    insert_iceberg,
    insert_row,
    is_table,
    named,
    row_of,
    select_rows,
    taken,
)
from deltanb.catalog.store.statements import Prepared
from deltanb.catalog.store.tables import (
    delta_commits,
    delta_tables,
    garbage,
    iceberg_tables,
    known_iceberg_tables,
    places,
    sa,
)
from deltanb.errors import (
    CommitOutcomeUnknown,
    InvalidArgument,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
)
from deltanb.text.safe_text import shown
from deltanb.transaction.ids import deciding_id, new_table_id

__all__ = ["Claims", "Registry"]

ADDED_IDS = 3  # tries to load a table whose row another catalog changes meanwhile


@dataclass(frozen=True)
class Claims:
    """The claims on a folder."""

    other: str | None
    """The folder of another table that is this one, lies in it or around it."""
    mine: tuple[str, ...]
    """The folders that the table which asks has, those that it had before too."""
    noted: FolderNote | None
    """What the folder is noted as garbage for."""
    left_in: tuple[tuple[str, ...], ...] = ()
    """The namespaces of tables that were dropped and left their files in it."""


class Registry:
    """The tables of one catalog in a database.

    >>> from deltanb.catalog.store.store import CatalogStore
    >>> with CatalogStore("sqlite:///catalog.db") as store:
    ...     store.namespaces.create("sales")
    ...     _ = store.tables.register_delta("sales.orders", "lake/orders", version=0)
    ...     store.tables.load("sales.orders").delta.latest
    0
    """

    def __init__(
        self, database: Database, catalog: str, foreign: ForeignMoves, writer: Database | None = None
    ) -> None:
        self._database, self._catalog, self._foreign = database, catalog, foreign
        self._writer = writer or database

    def through(self, writer: Database) -> Registry:
        """The same tables, with changes through ``writer`` instead of the database itself."""
        return Registry(self._database, self._catalog, self._foreign, writer)

    def register_iceberg(
        self, name: Any, metadata_location: str, table_id: str | None = None, principal: str | None = None
    ) -> TableRow:
        """Create a row for an Iceberg table whose metadata file is written.

        Raises:
            TableAlreadyExists: the name is taken, by a table or a view.
            NamespaceNotFound: its namespace is not there.
        """
        name, table_id = TableName.of(name), table_id or new_table_id()
        _check_location(metadata_location, 1000)

        def work(connection: sa.Connection) -> TableRow:
            insert_iceberg(connection, self._catalog, name, table_id, metadata_location)
            take(connection, folder_of_file(metadata_location), table_id)
            return TableRow(name, table_id, "iceberg", metadata_location)

        return self._recorded(work, "register", principal, table_id, None, metadata_location)

    def register_delta(
        self, name: Any, location: str, version: int, table_id: str | None = None,
        principal: str | None = None, ict: int | None = None, etag: str | None = None,
        protocol: str | None = None, metadata: str | None = None,
    ) -> TableRow:
        """Create a row for a Delta table whose log has all versions up to ``version`` in its folder.

        Removes a record of the folder as garbage for this table.

        Raises:
            TableAlreadyExists: the name is taken, or the location is another table's, or lies in one's or
                around it.
            NamespaceNotFound: its namespace is not there.
            DataFileNotFound: the folder was noted as garbage and is being deleted.
        """
        name, table_id = TableName.of(name), table_id or new_table_id()
        _check_location(location, None)
        if not isinstance(version, int) or isinstance(version, bool) or version < 0:
            raise InvalidArgument(f"a table's version is an integer of at least 0, found {shown(version)}")
        state = DeltaState(location, version, version, ict, etag, protocol, metadata)

        def work(connection: sa.Connection) -> TableRow:
            insert_row(connection, self._catalog, name, table_id, iceberg_type="DELTA")
            try:
                connection.execute(delta_tables.insert().values(
                    table_id=table_id, location=location, latest_version=version, published_version=version,
                    last_ict=ict, etag=etag, protocol=protocol, metadata=metadata))
            except sa.exc.IntegrityError:
                raise TableAlreadyExists(
                    f"a table at {location} is registered already, by another name",
                    path=location) from None
            take(connection, location, table_id)
            return TableRow(name, table_id, "delta", delta=state)

        return self._recorded(work, "register", principal, table_id, None, str(version))

    def claims_on(self, location: str, table_ids: Iterable[str | None] = ()) -> Claims:
        """The claims on a folder from the view of a table that has, or will have, one of the ids.

        Raises:
            StorageError: the database cannot be asked.
        """
        ids = [table_id for table_id in table_ids if table_id is not None]

        def work(connection: sa.Connection) -> Claims:
            mine = [place for table_id in ids for place in places_of(connection, table_id)]
            return Claims(next(others_at(connection, location, ids), None), tuple(mine),
                            folder_note(connection, location),
                            tuple(map(parts_of, left_in(connection, location, self._catalog))))

        return self._database.write(work, lambda connection: work(connection), is_durable=False)

    def places(self) -> dict[str, set[str]]:
        """The folders of all tables of the database, by the tables' ids.

        Raises:
            StorageError: the database cannot be asked.
        """
        places: dict[str, set[str]] = {}
        for place, table_id in self._database.write(every_place, every_place, is_durable=False):
            places.setdefault(table_id, set()).add(place)
        return places

    def owner_of(self, location: str) -> str | FolderNote | None:
        """Whose folder a place is, or lies in: the id of a table, or what the folder is noted as garbage for;
        None for nobody's.

        Raises:
            StorageError: the database cannot be asked.
        """
        def work(connection: sa.Connection) -> str | FolderNote | None:
            return owner_of(connection, location)

        return self._database.write(work, work, is_durable=False)

    def require_free(self, location: str, table_id: str | None = None, name: TableName | None = None) -> None:
        """Refuse the folder of a table with another id, and a name that is taken.

        Raises:
            TableAlreadyExists: the name is taken, or the folder is another table's, or inside or around one.
            StorageError: the database cannot be asked.
        """
        def work(connection: sa.Connection) -> bool:
            require_free(connection, location, [table_id])
            return True

        if name is not None and self.find_many([name]):
            raise taken(name)

        self._database.write(work, work, is_durable=False)

    def note_folder(self, location: str, what: FolderNote, not_before: int) -> None:
        """Record a folder for a table to be created; from ``not_before`` (epoch ms) on it may be deleted.

        Raises:
            TableAlreadyExists: it is another table's, or lies in one's or around it.
            StorageError: it is not known to be noted; make nothing.
        """
        try:
            self._database.write(lambda connection: note_folder(connection, location, what, not_before))
        except CommitOutcomeUnknown as error:  # a note too many does no harm
            raise StorageError(str(error)) from error

    def forget_folder(self, location: str) -> None:
        """Remove the record of a folder whose table is deleted.

        Raises:
            StorageError: the database cannot be asked.
        """
        gone = garbage.delete().where(garbage.c.path == key_of(location))
        self._database.write(lambda connection: connection.execute(gone).rowcount)

    def is_registered(self, table_id: str) -> bool:
        """Whether a table with an id exists, after any pending registration has ended.

        Raises:
            StorageError: the database cannot be asked.
        """
        query = sa.select(iceberg_tables.c.dn_table_id).where(iceberg_tables.c.dn_table_id == table_id)
        return self._writer.ask(lambda connection: connection.execute(query).first() is not None)

    def load(self, name: Any) -> TableRow:
        """A table by its name.

        Raises:
            TableNotFound: no table of that name.
        """
        name = TableName.of(name)
        return self.load_many([name])[name]

    def load_many(self, names: Iterable[Any]) -> dict[TableName, TableRow]:
        """Tables by name, all as they were at one instant.

        A table that another catalog made gets its id now.

        Raises:
            TableNotFound: one of them is not there.
        """
        unique = list(dict.fromkeys(map(TableName.of, names)))
        rows = self.find_many(unique)
        for name in unique:
            if name not in rows:
                raise _no_such_table(name)
        return rows

    def find_many(self, names: Iterable[Any]) -> dict[TableName, TableRow]:
        """Like :meth:`load_many`, without those that do not exist."""
        unique = list(dict.fromkeys(map(TableName.of, names)))
        keys = [(joined(name.namespace), name.name) for name in unique]
        for _ in range(ADDED_IDS):
            rows = self._rows(keys)
            without = [name for name, row in rows.items() if row.table_id is None]
            if not without:
                return {name: rows[name] for name in unique if name in rows}
            self._database.write(partial(self._add_ids, names=without))
        raise TableNotFound(f"the table {without[0]} keeps being replaced; load it again",
                            path=str(without[0]))

    def _rows(self, keys: list[tuple[str, str]]) -> dict[TableName, TableRow]:
        def rows_by(connection: sa.Connection) -> Sequence[Any]:
            if len(keys) == 1:
                ((space, name),) = keys
                return _ONE_BY_NAME.run(connection, {
                    "in_catalog": self._catalog, "in_namespace": space, "with_name": name}).all()
            return connection.execute(_BY_NAME, {"in_catalog": self._catalog, "keys": keys}).all()

        return {row.name: row for row in map(row_of, self._database.read(rows_by))}

    def _add_ids(self, connection: sa.Connection, names: list[TableName]) -> None:
        for name in names:
            connection.execute(iceberg_tables.update().values(dn_table_id=new_table_id()).where(
                *named(self._catalog, name), iceberg_tables.c.dn_table_id.is_(None)))

    def page(
        self, namespace: Any, token: str | None = None, size: int = 1000, format: str | None = None
    ) -> Page[TableRow]:
        """A page of the tables directly in a namespace, of one format where it is given, by name.

        Raises:
            NamespaceNotFound: it is not there.
        """
        space, after, size = joined(parts_of(namespace)), key_of_page(token), check_size(size)
        columns = iceberg_tables.c
        query = select_rows().where(
            columns.catalog_name == self._catalog, columns.table_namespace == space, is_table(format),
            columns.table_name > after).order_by(columns.table_name).limit(size + 1)
        page = self._database.read(lambda connection: connection.execute(query).all())
        rows = list(map(row_of, page))
        if not rows and not token:
            self._database.read(lambda connection: require_namespace(connection, self._catalog, space))
        return Page.of([row.name.name for row in rows], rows, size)

    def every(self, size: int = 1000) -> Iterator[TableRow]:
        """All tables of the catalog, by namespace and name, read in pages; no missing ids are assigned."""
        columns = iceberg_tables.c
        key = sa.tuple_(columns.table_namespace, columns.table_name)
        after: tuple[str, str] | None = None
        while True:
            query = select_rows().where(columns.catalog_name == self._catalog, is_table()).order_by(
                columns.table_namespace, columns.table_name).limit(size)
            if after is not None:
                query = query.where(key > after)
            rows = self._database.read(partial(_rows_of, query))
            yield from map(row_of, rows)
            if len(rows) < size:
                return
            after = rows[-1].table_namespace, rows[-1].table_name

    def rename(self, old: Any, new: Any) -> None:
        """Give a table another name, in this or another namespace.

        A commit under way that names the table by its old name is refused.

        Raises:
            TableNotFound: no table of the old name.
            TableAlreadyExists: the new name is taken.
            NamespaceNotFound: the new namespace is not there.
        """
        old, new = TableName.of(old), TableName.of(new)

        with_id = sa.select(iceberg_tables.c.dn_table_id)
        table_id: list[str | None] = []

        def work(connection: sa.Connection) -> bool:
            hold_namespace(connection, self._catalog, joined(new.namespace))
            table_id[:] = [connection.execute(with_id.where(*named(self._catalog, old))).scalar()]
            try:
                moved = connection.execute(
                    iceberg_tables.update().where(*named(self._catalog, old), is_table())
                    .values(table_namespace=joined(new.namespace), table_name=new.name))
            except sa.exc.IntegrityError:
                raise taken(new) from None
            if not moved.rowcount:
                raise _no_such_table(old)
            return True

        def landed(connection: sa.Connection) -> bool | None:
            renamed_id = connection.execute(with_id.where(*named(self._catalog, new))).scalar()
            return True if renamed_id is not None and renamed_id == table_id[0] else None

        self._writer.write(work, landed)

    def drop(
        self, name: Any, principal: str | None = None, published: bool = False,
        purged_from: int | None = None, purged_by: str | None = None, table_id: str | None = None,
        purged_places: Iterable[str] = (),
    ) -> TableRow | None:
        """Drop a table; its files stay. Returns its row.

        Args:
            published: only if all ratified versions are in its folder; else returns None.
            purged_from: the time (epoch ms) from which the files of a Delta table, and those in
                ``purged_places``, are garbage.
            purged_by: the owner of the token that purged it.
            table_id: only if it is the table with this id.
            purged_places: the folders of a purged Iceberg table. Files of a table that is not purged belong
            to
                its namespace from then on.

        Raises:
            TableNotFound: no table of that name, or one with another id.
        """
        name = TableName.of(name)
        dropped = self.load(name)
        if table_id not in (None, dropped.table_id):
            raise _no_such_table(name)

        def work(connection: sa.Connection) -> TableRow:
            query = iceberg_tables.select().where(
                *named(self._catalog, name), iceberg_tables.c.dn_table_id == dropped.table_id)
            if connection.execute(query.with_for_update()).first() is None:
                raise _no_such_table(name)
            row = row_of(connection.execute(
                select_rows().where(iceberg_tables.c.dn_table_id == dropped.table_id)).one())
            if published and row.delta is not None and row.delta.latest != row.delta.published:
                raise Undo(None)
            mine = places_of(connection, str(row.table_id))  # a link that is there by now is not followed
            leave(connection, str(row.table_id), self._catalog, joined(row.name.namespace))
            if purged_from is not None:
                what = FolderNote(PURGED, row.table_id, purged_by or EVERYONE)
                gone = list(map(key_of, purged_places)) if row.delta is None else mine
                note(connection, [as_garbage(each, what.reason, purged_from) for each in gone])
                connection.execute(places.delete().where(
                    places.c.table_id == row.table_id, places.c.place.in_(gone)))
            connection.execute(iceberg_tables.delete().where(iceberg_tables.c.dn_table_id == row.table_id))
            for table in (delta_commits, delta_tables, known_iceberg_tables):
                connection.execute(table.delete().where(table.c.table_id == row.table_id))
            return row

        return self._recorded(work, "drop", principal, str(dropped.table_id))

    def _recorded(
        self, work: Any, what: str, principal: str | None, table_id: str,
        before: str | None = None, after: str | None = None,
    ) -> TableRow:
        """What ``work`` does, as one transaction of the catalog's history."""
        txn_id = deciding_id(self._database.place_of_ids)
        done: list[TableRow] = []
        self._foreign.take_in()

        def both(connection: sa.Connection) -> TableRow:
            done[:] = [work(connection)]
            change = (before, after) if what == "register" else (text_of(done[0].pointer), None)
            record(connection, txn_id, principal, what, {table_id: change})
            return done[0]

        return self._writer.write(
            both, lambda connection: done[0] if seq_of(connection, txn_id) else None, txn_id)


def _rows_of(query: sa.Select[Any], connection: sa.Connection) -> list[Any]:
    return list(connection.execute(query).all())


# Made once: SQLAlchemy takes longer to make a statement than the database to run it.
_ONE_BY_NAME = Prepared(select_rows().where(
    iceberg_tables.c.catalog_name == sa.bindparam("in_catalog"), is_table(),
    iceberg_tables.c.table_namespace == sa.bindparam("in_namespace"),
    iceberg_tables.c.table_name == sa.bindparam("with_name")))
_BY_NAME = select_rows().where(
    iceberg_tables.c.catalog_name == sa.bindparam("in_catalog"), is_table(),
    sa.tuple_(iceberg_tables.c.table_namespace, iceberg_tables.c.table_name).in_(
        sa.bindparam("keys", expanding=True)))


def _check_location(location: Any, most: int | None) -> None:
    if not isinstance(location, str) or not location or "\0" in location or (most and len(location) > most):
        raise InvalidArgument(
            f"a table's location is text{f' of at most {most} characters' if most else ''}, "
            f"found {shown(location)}")


def _no_such_table(name: TableName) -> TableNotFound:
    return TableNotFound(f"there is no table {name} in the catalog", path=str(name))
