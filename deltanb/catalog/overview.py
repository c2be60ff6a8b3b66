"""A catalog at a glance: its first tables and last transactions, and the numbers of both.

What lives here: the few database statements for a picture of a catalog, none of which reads more rows than
are shown, and the names of the tables in a history.
What it does not know: how these are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltanb.catalog.store.database import Database
from deltanb.catalog.store.history import Entry, entries, newest_seq
from deltanb.catalog.store.namespaces import every_namespace
from deltanb.catalog.store.rows import TableRow, is_table, row_of, select_rows
from deltanb.catalog.store.tables import iceberg_tables, sa

__all__ = ["Overview", "names_of", "overview"]

MAX_ASKED = 500  # ids in one statement: databases bound the parameters of one


@dataclass(frozen=True)
class Overview:
    """The contents of a catalog: tuples with the first ones, and the numbers of all."""

    namespaces: tuple[str, ...]
    num_namespaces: int
    tables: tuple[TableRow, ...]
    num_tables: int
    last: tuple[Entry, ...]
    """The last transactions, newest first."""
    num_transactions: int
    names: dict[str, str]
    """Table id -> name, for the tables that ``last`` tells of and that the catalog still has."""


def overview(database: Database, catalog: str, most: int) -> Overview:
    """At most ``most`` namespaces, tables and transactions of a catalog.

    Raises:
        StorageError: the database cannot be read.
    """
    spaces = every_namespace(catalog).subquery().c[0]
    rows = select_rows().where(iceberg_tables.c.catalog_name == catalog, is_table())
    in_order = rows.order_by(iceberg_tables.c.table_namespace, iceberg_tables.c.table_name).limit(most)
    how_many = sa.select(sa.func.count()).select_from(iceberg_tables).where(
        iceberg_tables.c.catalog_name == catalog, is_table())

    def work(connection: sa.Connection) -> Overview:
        newest = newest_seq(connection)
        last = tuple(entries(connection, max(0, newest - most), most)[::-1])
        return Overview(
            tuple(connection.execute(sa.select(spaces).order_by(spaces).limit(most)).scalars()),
            connection.execute(sa.select(sa.func.count(spaces.distinct()))).scalar_one(),
            tuple(map(row_of, connection.execute(in_order))),
            connection.execute(how_many).scalar_one(), last, newest,
            _named(connection, catalog, [table_id for entry in last for table_id in entry.changes]))

    return database.read(work)


def names_of(database: Database, catalog: str, table_ids: Iterable[str]) -> dict[str, str]:
    """The current names of tables by id; dropped tables are left out."""
    ids = sorted(set(table_ids))
    return database.read(lambda connection: _named(connection, catalog, ids))


def _named(connection: sa.Connection, catalog: str, table_ids: Sequence[str]) -> dict[str, str]:
    row = iceberg_tables.c
    query = sa.select(row.dn_table_id, row.table_namespace, row.table_name).where(row.catalog_name == catalog)
    names: dict[str, str] = {}
    for at in range(0, len(table_ids), MAX_ASKED):
        some = query.where(row.dn_table_id.in_(table_ids[at:at + MAX_ASKED]))
        names |= {table_id: f"{namespace}.{name}"
                  for table_id, namespace, name in connection.execute(some)}
    return names
