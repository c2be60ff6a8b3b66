"""SHOW: what a catalog or a table has, as rows with the names of Delta Spark's columns.

What lives here: for each form of SHOW the method of a catalog or a table that it calls, and the rows of what
that returns.
What it does not know: how the statements are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidQuery
from deltanb.query.create_text import create_text, protocol_properties
from deltanb.query.definitions import catalog_of_namespace
from deltanb.query.names import place_of_handle
from deltanb.query.result import OF_CATALOG, OF_TABLE, QueryResult, rows_of_texts
from deltanb.query.statements.command import Command
from deltanb.schema.paths import quoted
from deltanb.schema.protocol import CATALOG_MANAGED, supports
from deltanb.schema.types import backticked
from deltanb.table.table import DeltaTable
from deltanb.text.safe_text import redacted

if TYPE_CHECKING:
    from deltanb.query.perform import Performer


def show_tables(performer: Performer, command: Command) -> QueryResult:
    """``SHOW TABLES``: a catalog's ``list_tables``, of a namespace or of all at its top."""
    import pyarrow as pa

    catalog, name = catalog_of_namespace(performer, command)
    namespaces = catalog.list_namespaces() if name is None else [name]
    names = [table.rpartition(".") for namespace in namespaces for table in catalog.list_tables(namespace)]
    rows = pa.table({
        "namespace": pa.array([namespace for namespace, _, _ in names], pa.string()),
        "tableName": pa.array([own for _, _, own in names], pa.string()),
        "isTemporary": pa.repeat(False, len(names))})
    return QueryResult(command.sql, rows, engine=OF_CATALOG)


def show_namespaces(performer: Performer, command: Command) -> QueryResult:
    """``SHOW SCHEMAS``: a catalog's ``list_namespaces``."""
    catalog, name = catalog_of_namespace(performer, command)
    return rows_of_texts(command.sql, {"namespace": catalog.list_namespaces(name)}, OF_CATALOG)


def show_columns(performer: Performer, command: Command) -> QueryResult:
    """``SHOW COLUMNS``: the names of a table's columns."""
    names = performer.arguments(performer.table(command), command).schema.names
    return rows_of_texts(command.sql, {"col_name": names}, OF_TABLE)


def show_properties(performer: Performer, command: Command) -> QueryResult:
    """``SHOW TBLPROPERTIES``: a table's properties and its protocol, or one of them."""
    assert command.target is not None
    properties = dict(sorted(_properties(performer.table(command))))
    key = command.details["key"]
    if key is not None:
        if key not in properties:
            raise InvalidQuery(f"table {command.target.text} has no property {key}", name=key)
        properties = {key: properties[key]}
    return rows_of_texts(
        command.sql, {"key": list(properties), "value": list(properties.values())}, OF_TABLE)


def _properties(table: Any) -> Iterator[tuple[str, str]]:
    """What was set, and the protocol as Delta Spark writes it among the properties."""
    yield from table.properties.items()
    if isinstance(table, DeltaTable):
        yield from protocol_properties(table.protocol)


def show_create_table(performer: Performer, command: Command) -> QueryResult:
    """``SHOW CREATE TABLE``: the statement that creates a table like it, with its name or its path."""
    assert command.target is not None
    table = performer.table(command)
    if not isinstance(table, DeltaTable):
        raise InvalidQuery(f"{command.target.text} is an Iceberg table, of which a statement does not say "
                           "all; DESCRIBE has its columns, SHOW TBLPROPERTIES its properties",
                           name=command.target.text)
    place, own = place_of_handle(table), table.metadata.name
    path = redacted(table.path)
    if place.catalog is not None:
        is_managed = supports(table.protocol, CATALOG_MANAGED)  # the catalog chooses its place
        name, location = quoted(place.name.split(".")), None if is_managed else path
    elif own is not None and own.isidentifier():
        name, location = quoted([own]), path
    else:
        name, location = f"delta.{backticked(path)}", None
    text = create_text(table.snapshot, name, location)
    return rows_of_texts(command.sql, {"createtab_stmt": [text]}, OF_TABLE)


SPECIAL: dict[str, Callable[[Any, Command], Any]] = {
    "SHOW TABLES": show_tables, "SHOW SCHEMAS": show_namespaces, "SHOW COLUMNS": show_columns,
    "SHOW TBLPROPERTIES": show_properties, "SHOW CREATE TABLE": show_create_table,
}
"""What performs these statements."""
