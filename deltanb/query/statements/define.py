"""Statements that make, change and end tables: CREATE, CONVERT, ALTER, COMMENT, DROP.

What lives here: their grammar.
What it does not know: tables; columns and types, whose text goes to the methods as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from deltanb.query.statements.command import Command
from deltanb.query.statements.text import Cursor, Name, Sql, path_of
from deltanb.text.formatting import did_you_mean

_TYPED = re.compile(r"\s*(`[^`]+`|\w+)\s+\w")


# -- CREATE ------------------------------------------------------------------------------------------------

def create_table(cursor: Cursor) -> Command:
    """``CREATE TABLE``, ``CREATE OR REPLACE TABLE``, ``REPLACE TABLE``, with columns, AS a query, or as a
    clone."""
    taken = cursor.words[:cursor.at]
    mode = ("replace" if taken[0].is_word("REPLACE") else
            "overwrite" if any(word.is_word("REPLACE") for word in taken) else "error")
    if cursor.sees("IF"):
        if mode != "error":
            raise cursor.refused("a table is replaced, or made where there is none: write OR REPLACE or IF "
                                 "NOT EXISTS")
        cursor.expect("IF", "NOT", "EXISTS")
        mode = "ignore"
    name = cursor.whole()
    if cursor.sees("SHALLOW") or cursor.sees("DEEP") or cursor.sees("CLONE"):
        return _clone(cursor, name, mode)
    columns = cursor.brackets() if cursor.sees_sign("(") else None
    details: dict[str, Any] = {"format": "delta"}
    arguments: dict[str, Any] = {"mode": mode}
    while (clause := next((words for words in _CLAUSES if cursor.take(*words.split())), None)) is not None:
        _CLAUSES[clause](cursor, details, arguments)
    query = None
    if cursor.take("AS") or cursor.sees_query():
        query = cursor.query()
    elif cursor.word is not None and cursor.word.kind == "word":
        _, meant = did_you_mean(cursor.word.text, _CLAUSES, least=0.6)
        cursor.fail(
            meant[0] if meant else "a clause of CREATE TABLE, AS and a query, or the end of the statement")
    if (columns is None) == (query is None):
        if columns is None:
            cursor.fail("the columns in brackets, or AS and a query,")
        raise cursor.refused("a table has the columns of its query: leave out those in brackets, or AS")
    details |= {"name": name, "columns": columns, "query": query}
    return Command("CREATE TABLE", "create", None, arguments, details)


def _using(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    start = cursor.start
    details["format"] = cursor.name("a format").lower()
    if details["format"] not in ("delta", "iceberg"):
        raise cursor.refused(f"USING {details['format']}: tables are of the format delta, or iceberg in a "
                             "catalog", start)


def _partitioned(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    inside = cursor.brackets()
    if _TYPED.match(inside.text):  # columns with their types, as Hive has them
        details["partition_columns"] = inside
    else:
        arguments["partition_by"] = _names(inside)


def _clustered(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    if cursor.sees("AUTO"):
        cursor.fail("the columns to cluster by, in brackets,")
    if not cursor.take("NONE"):
        arguments["cluster_by"] = cursor.columns()


def _located(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    details["location"] = cursor.string("a path in quotes")


def _properties(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    arguments["properties"] = properties(cursor)


def _commented(cursor: Cursor, details: dict[str, Any], arguments: dict[str, Any]) -> None:
    arguments["description"] = cursor.string()


_CLAUSES: dict[str, Callable[[Cursor, dict[str, Any], dict[str, Any]], None]] = {
    "USING": _using, "PARTITIONED BY": _partitioned, "CLUSTER BY": _clustered, "LOCATION": _located,
    "TBLPROPERTIES": _properties, "OPTIONS": _properties, "COMMENT": _commented,
}
"""What may follow the columns, in any order."""


def _clone(cursor: Cursor, name: Name, mode: str) -> Command:
    if not cursor.take("SHALLOW", "CLONE"):
        cursor.fail("SHALLOW CLONE: a clone has the files of its source, and copies none; it")
    source = cursor.table()
    details: dict[str, Any] = {"name": name}
    if cursor.sees("TBLPROPERTIES"):
        cursor.fail("LOCATION or the end of the statement: a clone has its source's properties; that")
    if cursor.take("LOCATION"):
        details["location"] = cursor.string("a path in quotes")
    return Command("SHALLOW CLONE", "clone", source, {"mode": mode}, details)


def properties(cursor: Cursor) -> dict[str, Any]:
    """``('delta.appendOnly' = 'true', key = 7)``."""
    def pair() -> tuple[str, str]:
        name = key(cursor)
        cursor.take_sign("=")
        word = cursor.word
        if word is None or word.kind not in ("text", "number", "word"):
            cursor.fail(f"the value of {name}")
        cursor.at += 1
        return name, word.text

    return dict(cursor.bracketed(pair))


def key(cursor: Cursor) -> str:
    """The name of a property: ``'delta.appendOnly'``, or without its quotes."""
    if cursor.sees_text:
        return cursor.string()
    parts = [cursor.name("the name of a property")]
    while cursor.take_sign("."):
        parts.append(cursor.name("the name of a property"))
    return ".".join(parts)


def _names(inside: Sql) -> list[str]:
    """Names between commas; those of partition columns stand alone, without their quotes."""
    cursor = Cursor.over(inside.text)
    names = cursor.listed(lambda: cursor.name("the name of a column"))
    cursor.expect_end()
    return names


# -- CONVERT, DROP, namespaces, COMMENT ----------------------------------------------------------------------

def convert(cursor: Cursor) -> Command:
    """``CONVERT TO DELTA parquet.`path```."""
    name = cursor.whole()
    path = path_of(name.parts, "parquet") or name.path
    if path is None:
        raise cursor.refused(f"{name.text} is not a path; write CONVERT TO DELTA parquet.`path`")
    arguments: dict[str, Any] = {"path": path}
    if cursor.take("NO", "STATISTICS"):
        arguments["collect_stats"] = False
    if cursor.take("PARTITIONED", "BY"):
        arguments["partition_by"] = cursor.brackets()
    return Command("CONVERT TO DELTA", "convert", None, arguments)


def drop_table(cursor: Cursor) -> Command:
    """``DROP TABLE``."""
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.whole()
    arguments = {"purge": True} if cursor.take("PURGE") else {}
    return Command("DROP TABLE", "drop_table", None, arguments, {"name": name, "if_exists": if_exists})


def create_namespace(cursor: Cursor) -> Command:
    """``CREATE SCHEMA``."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.whole()
    arguments = {}
    if cursor.take("WITH"):
        if not (cursor.take("DBPROPERTIES") or cursor.take("PROPERTIES")):
            cursor.fail("DBPROPERTIES")
        arguments["properties"] = properties(cursor)
    return Command("CREATE SCHEMA", "create_namespace", None, arguments,
                   {"name": name, "if_exists": if_not_exists})


def drop_namespace(cursor: Cursor) -> Command:
    """``DROP SCHEMA``."""
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.whole()
    cursor.take("RESTRICT")
    return Command("DROP SCHEMA", "drop_namespace", None, {}, {"name": name, "if_exists": if_exists})


def comment_on_table(cursor: Cursor) -> Command:
    """``COMMENT ON TABLE table IS 'text'``."""
    target = cursor.table()
    cursor.expect("IS")
    text = "" if cursor.take("NULL") else cursor.string()
    return Command("COMMENT ON TABLE", "set_description", target, {"description": text})


def comment_on_column(cursor: Cursor) -> Command:
    """``COMMENT ON COLUMN table.column IS 'text'``."""
    parts = [cursor.name("a table and a column")]
    while cursor.take_sign("."):
        parts.append(cursor.name("the name of a column"))
    if len(parts) < 2:
        cursor.fail("a dot and the name of a column")
    cursor.expect("IS")
    text = "" if cursor.take("NULL") else cursor.string()
    return Command("COMMENT ON COLUMN", "change_column", Name(tuple(parts[:-1])),
                   {"name": [parts[-1]], "comment": text})


# -- ALTER TABLE ---------------------------------------------------------------------------------------------

def alter(cursor: Cursor) -> Command:
    """``ALTER TABLE``, in all its forms."""
    start, target = cursor.start, cursor.table()
    for words, (method, parse, _) in _FORMS.items():
        if cursor.take(*words.split()):
            if method == "rename_table":  # a past version refuses the others itself
                cursor.refuse_moment(target, start)
            arguments = parse(cursor)
            return Command("ALTER TABLE", arguments.pop("method", method), target, arguments)
    forms = list(_FORMS)
    first = cursor.word
    behind = [words.partition(" ")[2] for words in forms if first is not None
              and first.is_word(words.partition(" ")[0])]
    if behind:  # the first word is right
        cursor.at += 1
    *others, last = behind or forms
    cursor.fail(f"{', '.join(others)} or {last}" if others else last)


def _set(cursor: Cursor) -> dict[str, Any]:
    return {"values": properties(cursor)}


def _unset(cursor: Cursor) -> dict[str, Any]:
    _if_exists(cursor)  # goes without saying in Spark's SQL
    return {"if_exists": True, "names": cursor.bracketed(lambda: key(cursor))}


def _if_exists(cursor: Cursor) -> dict[str, Any]:
    return {"if_exists": True} if cursor.take("IF", "EXISTS") else {}


def _add_columns(cursor: Cursor) -> dict[str, Any]:
    return {"columns": cursor.brackets() if cursor.sees_sign("(") else cursor.rest()}


def _replace_columns(cursor: Cursor) -> dict[str, Any]:
    return {"columns": cursor.brackets("the columns in brackets")}


def _rename_column(cursor: Cursor) -> dict[str, Any]:
    name = cursor.column().text
    cursor.expect("TO")
    return {"name": name, "new_name": cursor.name()}


def _drop_columns(cursor: Cursor) -> dict[str, Any]:
    return _if_exists(cursor) | {"names": cursor.columns_or_one()}


def _add_constraint(cursor: Cursor) -> dict[str, Any]:
    name = cursor.name("the name of the constraint")
    cursor.expect("CHECK")
    return {"name": name, "expression": cursor.brackets("the condition in brackets")}


def _drop_constraint(cursor: Cursor) -> dict[str, Any]:
    return _if_exists(cursor) | {"name": cursor.name("the name of the constraint")}


def _cluster_by(cursor: Cursor) -> dict[str, Any]:
    return {"columns": None if cursor.take("NONE") else cursor.columns()}


def _drop_feature(cursor: Cursor) -> dict[str, Any]:
    name = cursor.string() if cursor.sees_text else cursor.name("the name of a feature")
    return {"name": name, **({"truncate_history": True} if cursor.take("TRUNCATE", "HISTORY") else {})}


def _rename_to(cursor: Cursor) -> dict[str, Any]:
    return {"new_name": cursor.whole()}


_OF_COLUMNS = _CHANGE_SEVERAL, _SYNC = "change_columns", "sync_identity"
"""Methods that forms of ALTER COLUMN call in place of ``change_column``."""


def _change_column(cursor: Cursor) -> dict[str, Any]:
    """What follows ``ALTER COLUMN``: a column and its changes, or several with commas between them."""
    first = cursor.at
    name = cursor.column().text
    if cursor.take("SYNC", "IDENTITY"):
        return {"method": _SYNC, "column": name}
    cursor.at, changes = first, dict[str, dict[str, Any]]()

    def one() -> None:
        start, name = cursor.start, cursor.column().text
        if name in changes:
            raise cursor.refused(
                f"column {name} is changed twice; write all its changes behind its name", start)
        changes[name] = _changes_of_one(cursor, name)

    cursor.listed(one)
    if len(changes) > 1:
        return {"method": _CHANGE_SEVERAL, "changes": changes}
    return {"name": name, **changes[name]}


def _changes_of_one(cursor: Cursor, name: str) -> dict[str, Any]:
    """The changes of one column; or, as Hive has them, ``CHANGE COLUMN name name type``."""
    arguments: dict[str, Any] = {}
    if cursor.word is not None and cursor.word.text.lower() == name.strip("`").lower():
        cursor.at += 1  # its name once more; another one would rename it
        arguments["type"] = cursor.type("COMMENT", "FIRST", "AFTER")
    while not arguments or not (cursor.is_at_end or cursor.sees_sign(",")):
        _one_change(cursor, arguments)
    return arguments


def _one_change(cursor: Cursor, arguments: dict[str, Any]) -> None:
    if cursor.take("TYPE"):
        arguments["type"] = cursor.type("COMMENT", "FIRST", "AFTER")
    elif cursor.take("COMMENT"):
        arguments["comment"] = cursor.string()
    elif cursor.take("SET", "NOT", "NULL"):
        arguments["nullable"] = False
    elif cursor.take("DROP", "NOT", "NULL"):
        arguments["nullable"] = True
    elif cursor.take("SET", "DEFAULT"):
        arguments["default"] = cursor.expression()
    elif cursor.take("DROP", "DEFAULT"):
        arguments["drop_default"] = True
    elif cursor.take("FIRST"):
        arguments["position"] = "first"
    elif cursor.take("AFTER"):
        arguments["position"] = f"after {cursor.column().text}"
    else:
        cursor.fail("TYPE, COMMENT, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, FIRST, AFTER or "
                    "SYNC IDENTITY")


_FORMS: dict[str, tuple[str, Callable[[Cursor], dict[str, Any]], str]] = {
    "SET TBLPROPERTIES": ("set_properties", _set, "('key' = 'value', …)"),
    "UNSET TBLPROPERTIES": ("unset_properties", _unset, "[IF EXISTS] ('key', …)"),
    "ADD COLUMNS": ("add_columns", _add_columns, "(column type [COMMENT 'text'] [FIRST | AFTER other], …)"),
    "ADD COLUMN": ("add_columns", _add_columns, "column type …"),
    "RENAME COLUMN": ("rename_column", _rename_column, "column TO name"),
    "DROP COLUMNS": ("drop_columns", _drop_columns, "[IF EXISTS] (columns)"),
    "DROP COLUMN": ("drop_columns", _drop_columns, "[IF EXISTS] column"),
    "REPLACE COLUMNS": ("replace_columns", _replace_columns, "(columns)"),
    "ALTER COLUMN": ("change_column", _change_column,
                     "column TYPE type | COMMENT 'text' | SET NOT NULL | DROP NOT NULL | SET DEFAULT value | "
                     "DROP DEFAULT | FIRST | AFTER other | SYNC IDENTITY [, other column …]"),
    "CHANGE COLUMN": ("change_column", _change_column, "column … as ALTER COLUMN, or: column column type …"),
    "ADD CONSTRAINT": ("add_constraint", _add_constraint, "name CHECK (condition)"),
    "DROP CONSTRAINT": ("drop_constraint", _drop_constraint, "[IF EXISTS] name"),
    "CLUSTER BY": ("cluster_by", _cluster_by, "(columns) | NONE"),
    "DROP FEATURE": ("drop_feature", _drop_feature, "feature [TRUNCATE HISTORY]"),
    "RENAME TO": ("rename_table", _rename_to, "name"),
}
"""The forms of ALTER TABLE: the method of each, how its arguments are read, and how they are written."""

METHODS = tuple(dict.fromkeys((*(method for method, _, _ in _FORMS.values()), *_OF_COLUMNS)))
"""The methods that they call."""
GRAMMAR = "\n".join(f"ALTER TABLE table {words} {rest}" for words, (_, _, rest) in _FORMS.items())
"""How each form is written."""
