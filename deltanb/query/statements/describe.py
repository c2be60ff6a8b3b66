"""Statements that say what is there: DESCRIBE, SHOW.

What lives here: their grammar.
What it does not know: tables, catalogs.
"""

from __future__ import annotations

from deltanb.query.statements.command import Command
from deltanb.query.statements.define import key
from deltanb.query.statements.text import Cursor


def describe(cursor: Cursor) -> Command:
    """``DESCRIBE [DETAIL | HISTORY | EXTENDED] table``, of one of its columns, or of a query."""
    if cursor.sees_query() and not cursor.sees("TABLE"):
        cursor.rest()
        return Command("SELECT")
    if cursor.take("DETAIL"):
        return Command("DESCRIBE DETAIL", "detail", cursor.table())
    if cursor.take("HISTORY"):
        target = cursor.table()
        arguments = {"limit": int(cursor.number())} if cursor.take("LIMIT") else {}
        return Command("DESCRIBE HISTORY", "history", target, arguments)
    cursor.take_keyword_table()
    is_extended = bool(cursor.take_any("EXTENDED", "FORMATTED"))
    target = cursor.table()
    column = None if cursor.is_at_end else cursor.column("the end of the statement, or the name of a column,")
    return Command("DESCRIBE", "schema", target, {}, {"extended": is_extended, "column": column})


def show_tables(cursor: Cursor) -> Command:
    """``SHOW TABLES IN namespace``."""
    name = cursor.whole() if cursor.take_any("IN", "FROM") else None
    return Command("SHOW TABLES", "list_tables", None, {}, {"name": name})


def show_namespaces(cursor: Cursor) -> Command:
    """``SHOW SCHEMAS``."""
    name = cursor.whole() if cursor.take_any("IN", "FROM") else None
    return Command("SHOW SCHEMAS", "list_namespaces", None, {}, {"name": name})


def show_properties(cursor: Cursor) -> Command:
    """``SHOW TBLPROPERTIES table``."""
    target = cursor.table()
    name: str | None = None
    if cursor.take_sign("("):
        name = key(cursor)
        cursor.expect_sign(")")
    return Command("SHOW TBLPROPERTIES", "properties", target, {}, {"key": name})


def show_create_table(cursor: Cursor) -> Command:
    """``SHOW CREATE TABLE table``."""
    return Command("SHOW CREATE TABLE", "schema", cursor.table())


def show_columns(cursor: Cursor) -> Command:
    """``SHOW COLUMNS IN table``."""
    if not cursor.take_any("IN", "FROM"):
        cursor.fail("IN")
    return Command("SHOW COLUMNS", "schema", cursor.table())

