"""Statements that are more than a call of a table's method: tables are made, dropped, renamed, described.

What lives here: for each of them the method of this library, of a catalog or of a table that it calls, once
it is known where the table is: in a folder, or in a catalog.
What it does not know: how the statements are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltanb.commands.define.create import RowsWithin, nothing_to_replace
from deltanb.errors import (
    DeltaError,
    InvalidQuery,
    NamespaceAlreadyExists,
    NamespaceNotFound,
    TableNotFound,
)
from deltanb.query.names import Place, Scope, catalog_of, place_of, place_of_handle
from deltanb.query.result import OF_TABLE, QueryResult, StatementResult, rows_of_texts
from deltanb.query.run import explain_query
from deltanb.query.statements.command import Command
from deltanb.query.statements.kinds import QUERY
from deltanb.query.statements.text import Name
from deltanb.schema.paths import field_at, find, parse_path
from deltanb.schema.types import StructType, arrow_type
from deltanb.sql.coercion import spark_name
from deltanb.table import entry
from deltanb.table.contract import Askable, Asked, Does
from deltanb.table.table import DeltaTable
from deltanb.text.formatting import did_you_mean

if TYPE_CHECKING:
    from deltanb.query.perform import Performer

# -- where a table is ----------------------------------------------------------------------------------------


def _place(name: Name, scope: Scope, statement: str) -> Place:
    """Where a table of a name is or would be; one in a variable is where its handle says.

    Raises:
        IllegalStateError: the handle is on a past version, or part of a transaction.
    """
    place = place_of(name, scope)
    if place.path is None and place.catalog is None and scope.has(name.text):
        table = scope[name.text]
        if isinstance(table, Askable):
            table._admit(Asked(statement, Does.COMMITS_ALONE))
            return place_of_handle(table)
    return place


def catalog_of_namespace(performer: Performer, command: Command) -> tuple[Any, str | None]:
    """The catalog that a statement's namespace is of, and the namespace; None for all of them."""
    scope, name = performer.scope, command.details["name"]
    catalog, namespace = (scope.catalog, "") if name is None else catalog_of(name.parts, scope, 1)
    if catalog is None:
        raise InvalidQuery(
            f"{command.statement} is about a catalog: run it by catalog.sql(…), or begin the name with a "
            "variable that holds one", name=None if name is None else name.text)
    return catalog, namespace or None


def _in_catalog(name: Name, scope: Scope, statement: str) -> Place:
    place = _place(name, scope, statement)
    if place.catalog is None:
        raise InvalidQuery(
            f"{statement}: {name.text} is not a table of a catalog, and only those have names. A table in a "
            "folder is where its path says; delete the folder, or its rows: DELETE FROM", name=name.text)
    return place


# -- CREATE --------------------------------------------------------------------------------------------------

def create_table(performer: Performer, command: Command) -> Any:
    """``CREATE TABLE``: :func:`deltanb.create`, or a catalog's ``create_table``."""
    scope, details = performer.scope, command.details
    name: Name = details["name"]
    place = _place(name, scope, command.statement)
    settings = dict(command.arguments)
    location = details.get("location")
    if settings["mode"] == "ignore":
        with suppress(TableNotFound, NamespaceNotFound):
            return _existing_table(name, place, location, scope)
    source = _source(performer, command, settings)
    if place.catalog is not None:
        if location is not None:
            settings["location"] = location
        if details["format"] != "delta":
            settings["format"] = details["format"]
        return place.catalog.create_table(place.name, source, **settings)
    if details["format"] != "delta":
        raise InvalidQuery(f"USING {details['format']}: such a table is in a catalog; run the statement by "
                           "catalog.sql(…)", name=name.text)
    path = place.path if location is None else location
    if path is None:
        raise InvalidQuery(
            f"table {name.text} has no place: add LOCATION 'path', name the path itself "
            "(delta.`lake/flights`), or create it in a catalog by its namespace", name=name.text)
    if location is not None and place.path is None:
        settings["name"] = name.text
    return _keep(entry.create(path, source, **settings), name, scope)


def _existing_table(name: Name, place: Place, location: str | None, scope: Scope) -> Any:
    if place.catalog is not None:
        return place.catalog.table(place.name)
    if location is None and place.path is None:
        raise TableNotFound(f"there is no table {name.text}", path=name.text)
    path: Any = place.path if location is None else location
    return _keep(DeltaTable.for_path(path), name, scope)


def _keep(table: Any, name: Name, scope: Scope) -> Any:
    """A table that was made under a name of its own is found by it from now on."""
    if name.path is None and len(name.parts) == 1:
        scope.created[name.text] = table
    return table


def _source(performer: Performer, command: Command, settings: dict[str, Any]) -> Any:
    """The new table's columns, or its rows."""
    details = command.details
    if details["query"] is not None:
        query = details["query"].text
        if settings["mode"] in ("overwrite", "replace") and details["format"] == "delta":
            return RowsWithin(lambda: performer.ask(query).rows)
        return performer.ask(query).rows
    columns: str = performer.arguments(None, command).of(details["columns"])
    if "partition_columns" in details:
        more = details["partition_columns"].text
        from deltanb.schema.ddl import parse_columns

        settings["partition_by"] = [".".join(column.path) for column in parse_columns(more)]
        columns = f"{columns}, {more}"
    return columns


def clone(performer: Performer, command: Command) -> Any:
    """``CREATE TABLE … SHALLOW CLONE``: the source's ``clone``."""
    name: Name = command.details["name"]
    place = _place(name, performer.scope, command.statement)
    path = command.details.get("location", place.path)
    if place.catalog is not None or path is None:
        raise InvalidQuery(f"{name.text}: a clone lies in a folder; write LOCATION 'path', or name the path: "
                           "CREATE TABLE delta.`path` SHALLOW CLONE …", name=name.text)
    mode = command.arguments["mode"]
    source = performer.table(command)
    if mode == "ignore":
        if DeltaTable.is_delta_table(path):
            return _keep(DeltaTable.for_path(path), name, performer.scope)
        mode = "error"
    if mode == "replace":
        if not DeltaTable.is_delta_table(path):
            raise nothing_to_replace(str(path))
        mode = "overwrite"
    return _keep(source.clone(path, mode=mode), name, performer.scope)


def convert(performer: Performer, command: Command) -> Any:
    """``CONVERT TO DELTA``: :func:`deltanb.convert`."""
    arguments = performer.arguments(None, command)
    settings = {name: arguments.of(value) for name, value in command.arguments.items()}
    return entry.convert(settings.pop("path"), **settings)


# -- catalogs ------------------------------------------------------------------------------------------------

def drop_table(performer: Performer, command: Command) -> StatementResult:
    """``DROP TABLE``: a catalog's ``drop_table``."""
    place = _in_catalog(command.details["name"], performer.scope, "DROP TABLE")
    done = "dropped, with its files" if command.arguments.get("purge") else "dropped"
    return _change(command, place.name, done,
                   lambda: place.catalog.drop_table(place.name, **command.arguments),
                   dict.fromkeys((TableNotFound, NamespaceNotFound), "there is no such table"))


def rename_table(performer: Performer, command: Command) -> StatementResult:
    """``ALTER TABLE … RENAME TO``: a catalog's ``rename_table``."""
    assert command.target is not None
    place = _in_catalog(command.target, performer.scope, "RENAME TO")
    new: Name = command.arguments["new_name"]
    if len(new.parts) == 1:
        name = f"{place.name.rpartition('.')[0]}.{new.text}"
    else:
        name = _in_catalog(new, performer.scope, "RENAME TO").name
    return _change(command, place.name, f"renamed to {name}",
                   lambda: place.catalog.rename_table(place.name, name))


def create_namespace(performer: Performer, command: Command) -> StatementResult:
    """``CREATE SCHEMA``: a catalog's ``create_namespace``."""
    catalog, name = catalog_of_namespace(performer, command)
    return _change(command, name, "created", lambda: catalog.create_namespace(name, **command.arguments),
                   {NamespaceAlreadyExists: "there is one already"})


def drop_namespace(performer: Performer, command: Command) -> StatementResult:
    """``DROP SCHEMA``: a catalog's ``drop_namespace``."""
    catalog, name = catalog_of_namespace(performer, command)
    return _change(command, name, "dropped", lambda: catalog.drop_namespace(name),
                   {NamespaceNotFound: "there is no such schema"})


def _change(command: Command, name: str | None, done: str, change: Callable[[], object],
            needless: Mapping[type[DeltaError], str] | None = None) -> StatementResult:
    """Change a catalog, and answer so; of IF [NOT] EXISTS the errors of ``needless`` are an answer, too."""
    expected = needless if needless and command.details.get("if_exists") else {}
    try:
        change()
    except tuple(expected) as error:
        return StatementResult(command.statement, str(name), expected[type(error)], is_done=False)
    return StatementResult(command.statement, str(name), done)


# -- what a table is -----------------------------------------------------------------------------------------

def describe(performer: Performer, command: Command) -> QueryResult:
    """``DESCRIBE``: the columns as rows, or one of them; EXTENDED adds what DESCRIBE DETAIL says."""
    assert command.target is not None
    try:
        table = performer.table(command)
    except TableNotFound as error:
        if command.details["column"] is not None:
            hint, meant = did_you_mean(command.target.text, ("HISTORY", "DETAIL", "EXTENDED"), least=0.7)
            if meant:
                raise InvalidQuery(f"{error.message}; DESCRIBE {command.target.text}: {hint}",
                                   query=command.sql) from None
        raise
    schema = performer.arguments(table, command).schema
    if command.details["column"] is not None:
        return _described_column(command, schema, table.name)
    rows = [(field.name, spark_name(arrow_type(field.type)), field.metadata.get("comment"))
            for field in schema.fields]
    partitions = getattr(table, "partition_columns", ())
    if partitions:
        rows += [("# Partition Information", "", None), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[:len(schema.fields)] if row[0] in partitions]
    if command.details.get("extended") and hasattr(table, "detail"):
        rows.append(("# Detailed Table Information", "", None))
        rows += [(name, str(value), None) for name, value in table.detail().items()]
    return rows_of_texts(command.sql, {name: [row[at] for row in rows] for at, name in enumerate(
        ("col_name", "data_type", "comment"))}, OF_TABLE)


def _described_column(command: Command, schema: StructType, table: str) -> QueryResult:
    name: str = command.details["column"].text
    if name.upper() in ("HISTORY", "DETAIL", "EXTENDED") and schema.get(name) is None:
        raise InvalidQuery(f"table {table} has no column {name}; write DESCRIBE {name.upper()} and the "
                           "table's name for what the word means", query=command.sql)
    field = field_at(schema, find(schema, parse_path(name), table))
    return rows_of_texts(command.sql, {
        "info_name": ["col_name", "data_type", "comment"],
        "info_value": [name, spark_name(arrow_type(field.type)), field.metadata.get("comment", "NULL")],
    }, OF_TABLE)


def generate(performer: Performer, command: Command) -> StatementResult:
    """``GENERATE``: a table's ``generate``."""
    performer.call(command)
    assert command.target is not None
    return StatementResult(command.statement, command.target.text, f"has its {command.arguments['mode']}")


def explain_statement(performer: Performer, command: Command) -> Any:
    """``EXPLAIN``: which files a query, or a statement's condition, opens, and why it skips the others."""
    inner: Command = command.details["command"]
    if inner.statement == QUERY:
        return explain_query(command.details["query"], performer.scope, performer.engine)
    if inner.statement not in ("UPDATE", "DELETE") and "where" not in inner.arguments:
        raise InvalidQuery("EXPLAIN takes a query or a statement with a condition on its table, and this "
                           f"{inner.statement} has none", query=command.sql)
    return performer.call(command)


SPECIAL: dict[str, Callable[[Any, Command], Any]] = {
    "CREATE TABLE": create_table, "SHALLOW CLONE": clone, "CONVERT TO DELTA": convert,
    "DROP TABLE": drop_table, "CREATE SCHEMA": create_namespace, "DROP SCHEMA": drop_namespace,
    "DESCRIBE": describe, "EXPLAIN": explain_statement, "GENERATE": generate,
}
"""What performs these statements."""

ALONE = frozenset({"create", "clone", "convert", "drop_table", "rename_table", "create_namespace",
                   "drop_namespace"})
"""Methods of this library and of catalogs that are no part of a transaction; a table's own refuse it."""

