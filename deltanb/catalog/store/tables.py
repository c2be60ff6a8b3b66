"""The tables of a catalog's database in SQLAlchemy Core, and their creation.

What lives here: the schema. Two tables are shared with PyIceberg's SqlCatalog and Java's JdbcCatalog, which
may write at the same time: they define the names, primary keys and meanings; our columns begin with ``dn_``,
and they ignore them. All other tables are ours and begin with ``dn_``, too.
What it does not know: what a transaction does with them.

A Delta table is a row of ``iceberg_tables`` with ``iceberg_type='DELTA'``: the other catalogs do not show it,
but its name is taken for them as well.
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import MissingDependency

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable
except ImportError:
    raise MissingDependency(
        "a catalog needs SQLAlchemy, which is not installed: pip install 'deltanb[catalog]'",
        extra="catalog") from None

metadata = sa.MetaData()

iceberg_tables = sa.Table(
    "iceberg_tables", metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("table_namespace", sa.String(255), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("metadata_location", sa.String(1000)),
    sa.Column("previous_metadata_location", sa.String(1000)),
    sa.Column("iceberg_type", sa.String(5)),
    sa.Column("dn_table_id", sa.String(36)),
    # The metadata file that our history has: where it is another one, somebody else moved the table.
    sa.Column("dn_recorded_location", sa.String(1000)),
    # Unique by an index: SQLite cannot add a unique column to a table that others made.
    sa.Index("dn_table_id_unique", "dn_table_id", unique=True),
)
is_unrecorded = iceberg_tables.c.metadata_location.is_distinct_from(iceberg_tables.c.dn_recorded_location)
# Empty but for the tables that somebody else has moved: to look for these costs nothing.
sa.Index("dn_unrecorded", iceberg_tables.c.catalog_name, sqlite_where=is_unrecorded,
         postgresql_where=is_unrecorded)

known_iceberg_tables = sa.Table(  # of those that our history has: one without a row was dropped elsewhere
    "dn_iceberg_tables", metadata,
    sa.Column("table_id", sa.String(36), primary_key=True),
    sa.Column("catalog_name", sa.String(255), nullable=False),
)

namespace_properties = sa.Table(
    "iceberg_namespace_properties", metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("property_key", sa.String(255), primary_key=True),
    sa.Column("property_value", sa.String(1000)),
)

delta_tables = sa.Table(
    "dn_delta_tables", metadata,
    sa.Column("table_id", sa.String(36), primary_key=True),
    sa.Column("location", sa.Text, nullable=False, unique=True),
    sa.Column("latest_version", sa.BigInteger, nullable=False),
    sa.Column("published_version", sa.BigInteger, nullable=False),
    sa.Column("last_ict", sa.BigInteger),
    sa.Column("etag", sa.Text),
    sa.Column("protocol", sa.Text),
    sa.Column("metadata", sa.Text),
)

delta_commits = sa.Table(
    "dn_delta_commits", metadata,
    sa.Column("table_id", sa.String(36), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True),
    sa.Column("file_name", sa.Text),
    sa.Column("file_size", sa.BigInteger),
    sa.Column("mtime", sa.BigInteger),
    sa.Column("ict", sa.BigInteger),
    sa.Column("inline", sa.LargeBinary),
    sa.Column("txn_id", sa.String(64), nullable=False),
)

txns = sa.Table(
    "dn_txns", metadata,
    sa.Column("txn_id", sa.String(64), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False, unique=True),
    sa.Column("ts", sa.BigInteger, nullable=False),
    sa.Column("principal", sa.Text),
    sa.Column("summary", sa.Text),
)

txn_changes = sa.Table(
    "dn_txn_changes", metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("table_id", sa.String(36), primary_key=True),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    sa.Index("dn_txn_changes_of_table", "table_id", "seq"),  # where a table was, however long the history is
)

idempotency = sa.Table(
    "dn_idempotency", metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("body_hash", sa.String(128), nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("response", sa.Text, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
)

places = sa.Table(  # every folder that is a table's, or was and has its files still, under one spelling
    "dn_places", metadata,
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("table_id", sa.String(36), primary_key=True, index=True),
    # Of a table that was dropped with its files left here: the namespace that it was in.
    sa.Column("left_in_catalog", sa.String(255)),
    sa.Column("left_in_namespace", sa.String(255)),
)

garbage = sa.Table(
    "dn_garbage", metadata,
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("not_before", sa.BigInteger, nullable=False),
    sa.Column("swept", sa.Boolean, nullable=False),  # being deleted: no commit may take it back
)


def is_complete(connection: sa.Connection) -> bool:
    """Whether all tables, columns and indexes of the history exist."""
    inspector = sa.inspect(connection)
    if not set(metadata.tables) <= set(inspector.get_table_names()) or _missing(inspector):
        return False
    names = {index["name"] for index in inspector.get_indexes(txn_changes.name)}
    return {index.name for index in txn_changes.indexes} <= names


def create(connection: sa.Connection) -> bool:
    """Create what is missing within the connection's transaction; whether there was no catalog.

    Tables created by PyIceberg or Java, even with their first schema without ``iceberg_type``, get the
    missing columns; no row is changed.
    """
    is_first = not set(metadata.tables) & set(sa.inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    for column in _missing(sa.inspect(connection)):
        kind = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE iceberg_tables ADD COLUMN {kind}")
    for table in metadata.sorted_tables:
        for index in table.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))
    return is_first


def _missing(inspector: sa.Inspector) -> list[sa.Column[str]]:
    columns = {column["name"] for column in inspector.get_columns("iceberg_tables")}
    return [column for column in iceberg_tables.columns if column.name not in columns]


def insert(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert with an ON CONFLICT clause, in the database's dialect."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def has_inserted(connection: sa.Connection, statement: Any) -> bool:
    """Run an insert; whether it wrote a row rather than leaving an existing one."""
    options = {"preserve_rowcount": True}  # SQLAlchemy does not know it of an insert otherwise
    return connection.execute(statement, execution_options=options).rowcount > 0
