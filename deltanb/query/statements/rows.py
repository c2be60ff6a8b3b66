"""Statements that change rows: INSERT, UPDATE, DELETE, MERGE.

What lives here: their grammar.
What it does not know: tables; how values are made of expressions (``query/values``).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from deltanb.query.statements.command import Assignments, Clause, Command, PartitionCondition, Rows
from deltanb.query.statements.text import QUERY_WORDS, Cursor, Name, Sql
from deltanb.text.formatting import count

# -- INSERT ------------------------------------------------------------------------------------------------

def insert(cursor: Cursor) -> Command:
    """``INSERT INTO``, ``INSERT OVERWRITE``, ``INSERT INTO … REPLACE WHERE``."""
    more: dict[str, Any] = {"merge_schema": True} if cursor.take("WITH", "SCHEMA", "EVOLUTION") else {}
    overwrites = cursor.take_any("INTO", "OVERWRITE") or cursor.fail("INTO or OVERWRITE")
    if cursor.sees("DIRECTORY"):
        cursor.fail("a table")
    if overwrites == "OVERWRITE" and cursor.sees("INTO"):
        cursor.fail("the name of a table: INSERT OVERWRITE stands without INTO; it")
    cursor.take_keyword_table()
    target = cursor.table()
    partition = _partition(cursor) if cursor.take("PARTITION") else ()
    columns, by_name = None, cursor.take("BY", "NAME")
    if not by_name and cursor.sees_query() and not _sees_bracketed_query(cursor) and cursor.sees_sign("("):
        columns = tuple(cursor.columns())
    where: Sql | None = None
    if overwrites == "INTO" and cursor.take("REPLACE"):
        if not cursor.take("WHERE"):
            cursor.fail("WHERE: rows are replaced by a condition; it")
        where = cursor.expression(*QUERY_WORDS, "BY", what="a condition")
        by_name = cursor.take("BY", "NAME") or by_name
    rows = replace(_rows(cursor), columns=columns, by_name=by_name, partition=partition, evolves=bool(more))
    if overwrites == "INTO" and where is None:
        return Command("INSERT", "append", target, {"data": rows, **more})
    condition = where if where is not None else PartitionCondition(partition) if partition else None
    return Command("INSERT OVERWRITE", "overwrite", target, {
        "data": rows, **({} if condition is None else {"where": condition}), **more})


def with_insert(cursor: Cursor) -> Command | None:
    """``WITH … INSERT``; None where a query follows WITH."""
    first, depth = cursor.start, 0
    for place, word in enumerate(cursor.words):
        depth += word.is_sign("(") - word.is_sign(")")
        if not depth and word.is_word("INSERT"):
            behind = Cursor(cursor.sql, cursor.words[place + 1:])
            made = insert(behind)
            rows: Rows = made.arguments["data"]
            if rows.query is None:
                raise behind.refused("WITH stands before a query; this INSERT has none", first)
            head = cursor.sql[first:word.start]
            query = Sql(head + rows.query.text)
            return replace(made, arguments={**made.arguments, "data": replace(rows, query=query)})
    return None


def _partition(cursor: Cursor) -> tuple[tuple[Sql, Sql], ...]:
    """``PARTITION (month = 1, …)``."""
    def pair() -> tuple[Sql, Sql]:
        column = cursor.column()
        if not cursor.take_sign("="):
            cursor.fail("'=' and the partition's value")
        return column, cursor.expression()

    return tuple(cursor.bracketed(pair))


def _sees_bracketed_query(cursor: Cursor) -> bool:
    """Whether a query begins behind opening brackets."""
    at = cursor.at
    while at < len(cursor.words) and cursor.words[at].is_sign("("):
        at += 1
    return at > cursor.at and at < len(cursor.words) and cursor.words[at].is_word(*QUERY_WORDS)


def _rows(cursor: Cursor) -> Rows:
    """What is to be written."""
    start = cursor.at
    if cursor.take("TABLE"):
        return Rows(table=cursor.table())
    if cursor.take("VALUES"):
        values = cursor.listed(lambda: _value_row(cursor))
        if cursor.is_at_end:
            lengths = {len(row) for row in values}
            if len(lengths) > 1:
                raise cursor.refused(f"the rows of VALUES have {' and '.join(map(str, sorted(lengths)))} "
                                     "values; give each the same number")
            return Rows(values=tuple(values))
        if cursor.sees("ON"):
            raise cursor.refused("INSERT takes no ON CONFLICT: MERGE INTO table USING rows ON … says what "
                                 "becomes of rows that are there")
        cursor.at = start  # VALUES … AS t (a, b) ORDER BY a
    return Rows(query=cursor.query())


def _value_row(cursor: Cursor) -> tuple[Sql, ...]:
    if not cursor.sees_sign("("):
        return (cursor.expression("AS", "ORDER", "LIMIT", "UNION"),)
    return tuple(cursor.bracketed(cursor.expression))


# -- UPDATE and DELETE -------------------------------------------------------------------------------------

def update(cursor: Cursor) -> Command:
    """``UPDATE table SET …``."""
    _refuse_from(cursor)
    target = cursor.table()
    alias = cursor.alias("SET")
    cursor.expect("SET")
    arguments: dict[str, Any] = {"assignments": _assignments(cursor, "WHERE")}
    return _with_where(cursor, Command("UPDATE", "update", target, arguments), alias)


def delete(cursor: Cursor) -> Command:
    """``DELETE FROM table …``."""
    if not cursor.take("FROM"):
        cursor.fail("FROM")
    target = cursor.table()
    return _with_where(cursor, Command("DELETE", "delete", target), cursor.alias("WHERE"))


def _refuse_from(cursor: Cursor) -> None:
    """Refuse ``UPDATE … FROM other``, which other databases have."""
    depth = 0
    for before, word in pairwise(cursor.words):
        depth += word.is_sign("(") - word.is_sign(")")
        may_end = not before.is_word("DISTINCT", "UPDATE", "SET", "AS") if before.kind == "word" else (
            before.kind != "sign" or before.is_sign(")", "]"))  # a value, and no name or parameter follows
        if not depth and may_end and word.is_word("FROM"):
            raise cursor.refused("UPDATE takes no FROM: MERGE INTO table USING other ON … WHEN MATCHED THEN "
                                 "UPDATE SET … does it", word.start)


def truncate(cursor: Cursor) -> Command:
    """``TRUNCATE TABLE table``."""
    cursor.expect("TABLE")
    target = cursor.table()
    if cursor.sees("PARTITION"):
        cursor.fail("the end of the statement: DELETE FROM … WHERE empties a partition; it")
    return Command("TRUNCATE", "truncate", target)


def _with_where(cursor: Cursor, command: Command, alias: str | None) -> Command:
    arguments = dict(command.arguments)
    if cursor.take("WHERE"):
        arguments["where"] = cursor.expression(what="a condition")
    return replace(command, arguments=arguments, details={} if alias is None else {"alias": alias})


def _assignments(cursor: Cursor, *stops: str) -> Assignments:
    def pair() -> tuple[Sql, Sql]:
        word, behind = (*cursor.words[cursor.at:cursor.at + 2], None, None)[:2]
        if word is not None and word.is_word(*stops) and not (behind is not None and behind.is_sign("=")):
            cursor.fail("the name of a column")
        column = cursor.column()
        cursor.expect_sign("=")
        return column, cursor.expression(*stops)

    return Assignments(tuple(cursor.listed(pair)))


# -- MERGE -------------------------------------------------------------------------------------------------

def merge(cursor: Cursor) -> Command:
    """``MERGE INTO target USING source ON … WHEN …``."""
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    target = cursor.table()
    target_alias = cursor.alias("USING")
    cursor.expect("USING")
    source, source_alias = _source(cursor)
    cursor.expect("ON")
    condition = cursor.expression("WHEN", what="a condition")
    clauses = [] if not evolves else [Clause("with_schema_evolution", {})]
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    if not clauses[int(evolves):]:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    names = {"target_alias": target_alias or target.parts[-1],
             "source_alias": source_alias or (source.parts[-1] if isinstance(source, Name) else "source")}
    return Command("MERGE", "merge", target, {"source": source, "on": condition, **names},
                   {"clauses": tuple(clauses)})


def _source(cursor: Cursor) -> tuple[Name | Rows, str | None]:
    if not cursor.sees_sign("("):
        return cursor.table(), cursor.alias("ON", "WHEN")
    query = cursor.brackets()
    alias = cursor.alias("ON", "WHEN")
    columns = tuple(cursor.columns()) if alias and cursor.sees_sign("(") else None
    return Rows(query=query, columns=columns, by_name=columns is None), alias


def _clause(cursor: Cursor) -> Clause:
    """One WHEN, which was taken already."""
    kind = _kind_of_clause(cursor)
    arguments: dict[str, Any] = {}
    if cursor.take("AND"):
        arguments["condition"] = cursor.expression("THEN", what="a condition")
    cursor.expect("THEN")
    if kind == "not_matched":
        cursor.expect("INSERT")
        return _inserting(cursor, arguments)
    if cursor.take("DELETE"):
        return Clause(f"when_{kind}_delete", arguments)
    if not cursor.take("UPDATE"):
        cursor.fail("UPDATE or DELETE")
    cursor.expect("SET")
    if kind == "matched" and cursor.take_sign("*"):
        return Clause("when_matched_update_all", {**arguments, **_except(cursor)})
    return Clause(f"when_{kind}_update", {**arguments, "set": _assignments(cursor, "WHEN")})


def _kind_of_clause(cursor: Cursor) -> str:
    if cursor.take("MATCHED"):
        return "matched"
    if not cursor.take("NOT", "MATCHED"):
        cursor.fail("MATCHED or NOT MATCHED")
    if cursor.take("BY", "SOURCE"):
        return "not_matched_by_source"
    cursor.take("BY", "TARGET")
    return "not_matched"


def _inserting(cursor: Cursor, arguments: dict[str, Any]) -> Clause:
    if cursor.take_sign("*"):
        return Clause("when_not_matched_insert_all", {**arguments, **_except(cursor)})
    columns = cursor.bracketed(cursor.column)
    cursor.expect("VALUES")
    start = cursor.start
    values = _value_row(cursor)
    if len(values) != len(columns):
        named = count(len(columns), "column is named", "columns are named")
        raise cursor.refused(f"{named}, and there are {count(len(values), 'value')}", start)
    pairs = tuple(zip(columns, values, strict=True))
    return Clause("when_not_matched_insert", {**arguments, "values": Assignments(pairs)})


def _except(cursor: Cursor) -> dict[str, Any]:
    return {"except_cols": cursor.columns()} if cursor.take("EXCEPT") else {}
