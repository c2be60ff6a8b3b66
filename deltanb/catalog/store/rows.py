"""A table's row in the catalog, and how it is read and created within a transaction.

What lives here: the row as a value, its primary key, and the uniqueness of names.
What it does not know: when a row is created or moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deltanb.catalog.store.names import TableName, joined
from deltanb.catalog.store.namespaces import hold_namespace
from deltanb.catalog.store.tables import (
    delta_tables,
    has_inserted,
    iceberg_tables,
    insert,
    known_iceberg_tables,
    sa,
)
from deltanb.errors import TableAlreadyExists

__all__ = ["DeltaState", "TableRow", "insert_iceberg", "named", "note_known", "row_of", "select_rows"]


@dataclass(frozen=True)
class DeltaState:
    """The catalog's record of a Delta table: its place, its latest and its published version."""

    location: str
    latest: int
    """The newest version that is ratified."""
    published: int
    """The newest version that is in the log's folder, with all before it."""
    last_ict: int | None = None
    etag: str | None = None
    protocol: str | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class TableRow:
    """A table as it was at the instant it was loaded."""

    name: TableName
    table_id: str | None
    """The id that stays when the table is renamed; None in lists, for a table no one has loaded yet."""
    format: Literal["iceberg", "delta"]
    metadata_location: str | None = None
    """Of an Iceberg table: its metadata file, which is what a commit swaps."""
    previous_metadata_location: str | None = None
    delta: DeltaState | None = None

    @property
    def pointer(self) -> int | str | None:
        """What a commit moves: the latest version, or the location of the metadata."""
        return self.metadata_location if self.delta is None else self.delta.latest


def insert_iceberg(
    connection: sa.Connection, catalog: str, name: TableName, table_id: str, location: str
) -> None:
    """Create an Iceberg table's row within a transaction.

    Raises:
        TableAlreadyExists: the name or the id is taken.
        NamespaceNotFound: its namespace is not there.
    """
    insert_row(connection, catalog, name, table_id, iceberg_type="TABLE", metadata_location=location,
               dn_recorded_location=location)
    note_known(connection, catalog, table_id)


def note_known(connection: sa.Connection, catalog: str, table_id: str) -> None:
    """Within a transaction, mark an Iceberg table as known to the history, so that a drop by others is
    noticed."""
    connection.execute(insert(connection, known_iceberg_tables).values(
        table_id=table_id, catalog_name=catalog).on_conflict_do_nothing())


def named(catalog: str, name: TableName) -> tuple[sa.ColumnElement[bool], ...]:
    """The conditions that make one row of ``iceberg_tables``: its primary key."""
    columns = iceberg_tables.c
    return (columns.catalog_name == catalog, columns.table_namespace == joined(name.namespace),
            columns.table_name == name.name)


def insert_row(connection: sa.Connection, catalog: str, name: TableName, table_id: str, **more: Any) -> None:
    """Create a row of any kind; see :func:`insert_iceberg`."""
    hold_namespace(connection, catalog, joined(name.namespace))
    row = {"catalog_name": catalog, "table_namespace": joined(name.namespace), "table_name": name.name,
           "dn_table_id": table_id, **more}
    statement = insert(connection, iceberg_tables).values(row).on_conflict_do_nothing()
    if not has_inserted(connection, statement):
        columns = iceberg_tables.c
        other = connection.execute(sa.select(columns.table_namespace, columns.table_name).where(
            columns.dn_table_id == table_id)).first()
        if other is None or tuple(other) == (row["table_namespace"], name.name):
            raise taken(name)
        raise TableAlreadyExists(
            f"the table is in the catalog already, as {other[0]}.{other[1]}; rename or drop that one",
            path=str(name))


def is_table(format: str | None = None) -> sa.ColumnElement[bool]:
    """Not a view, which Java keeps in the same table; its first schema has no type. Of any format, or one."""
    kind = iceberg_tables.c.iceberg_type
    if format == "delta":
        return kind == "DELTA"
    iceberg = kind.is_(None) | (kind == "TABLE")
    return iceberg if format == "iceberg" else iceberg | (kind == "DELTA")


def select_rows() -> sa.Select[Any]:
    """A statement for tables, joined with the records of Delta tables."""
    columns = (column for column in delta_tables.c if column.name != "table_id")
    return sa.select(iceberg_tables, *columns).select_from(
        iceberg_tables.outerjoin(delta_tables, delta_tables.c.table_id == iceberg_tables.c.dn_table_id))


def row_of(row: Any) -> TableRow:
    """A row of :func:`select_rows` as a value, :class:`TableRow`."""
    name = TableName(tuple(row.table_namespace.split(".")), row.table_name)
    if row.iceberg_type != "DELTA":
        return TableRow(
            name, row.dn_table_id, "iceberg", row.metadata_location, row.previous_metadata_location)
    state = DeltaState(row.location, row.latest_version, row.published_version, row.last_ict, row.etag,
                       row.protocol, row.metadata)
    return TableRow(name, row.dn_table_id, "delta", delta=state)


def taken(name: TableName) -> TableAlreadyExists:
    """The error for a name that another table or view has."""
    return TableAlreadyExists(
        f"the name {name} is taken in the catalog, by a table or a view", path=str(name))
