"""SHOW: what a catalog or a table has, as rows with the names of Delta Spark's columns.

What lives here: for each form of SHOW the method of a catalog or a table that it calls, and the rows of what
that returns.
What it does not know: how the statements are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidQuery
from deltanb.query.definitions import catalog_of_namespace
from deltanb.query.names import handle
from deltanb.query.result import QueryResult, rows_of_texts
from deltanb.query.statements.command import Command
from deltanb.table.table import DeltaTable

if TYPE_CHECKING:
    from deltanb.query.perform import Performer

OF_CATALOG, OF_TABLE = "the catalog", "the log"
"""Who knows it."""


def show_tables(performer: Performer, command: Command) -> QueryResult:
    """``SHOW TABLES``: a catalog's ``list_tables``, of a namespace or of all at its top."""
    import pyarrow as pa

    catalog, name = catalog_of_namespace(command.details["name"], performer.scope, command.statement)
    namespaces = catalog.list_namespaces() if name is None else [name]
    names = [table.rpartition(".") for namespace in namespaces for table in catalog.list_tables(namespace)]
    rows = pa.table({
        "namespace": pa.array([namespace for namespace, _, _ in names], pa.string()),
        "tableName": pa.array([own for _, _, own in names], pa.string()),
        "isTemporary": pa.repeat(False, len(names))})
    return QueryResult(command.sql, rows, engine=OF_CATALOG)


def show_namespaces(performer: Performer, command: Command) -> QueryResult:
    """``SHOW SCHEMAS``: a catalog's ``list_namespaces``."""
    catalog, name = catalog_of_namespace(command.details["name"], performer.scope, command.statement)
    return rows_of_texts(command.sql, {"namespace": catalog.list_namespaces(name)}, OF_CATALOG)


def show_columns(performer: Performer, command: Command) -> QueryResult:
    """``SHOW COLUMNS``: the names of a table's columns."""
    assert command.target is not None
    table = handle(command.target, performer.scope)
    names = performer.arguments(table, command).schema.names
    return rows_of_texts(command.sql, {"col_name": names}, OF_TABLE)


def show_properties(performer: Performer, command: Command) -> QueryResult:
    """``SHOW TBLPROPERTIES``: a table's properties and its protocol, or one of them."""
    assert command.target is not None
    properties = dict(sorted(_properties(handle(command.target, performer.scope))))
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
    if not isinstance(table, DeltaTable):
        return
    protocol = table.protocol
    yield "delta.minReaderVersion", str(protocol.min_reader_version)
    yield "delta.minWriterVersion", str(protocol.min_writer_version)
    for name in {*(protocol.reader_features or ()), *(protocol.writer_features or ())}:
        yield f"delta.feature.{name}", "supported"


SPECIAL: dict[str, Callable[[Any, Command], Any]] = {
    "SHOW TABLES": show_tables, "SHOW SCHEMAS": show_namespaces, "SHOW COLUMNS": show_columns,
    "SHOW TBLPROPERTIES": show_properties,
}
"""What performs these statements."""
