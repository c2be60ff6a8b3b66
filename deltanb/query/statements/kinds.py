"""The statements: their names, grammar, the method that each calls, and an example.

What lives here: :data:`KINDS`, the one table of statements, from which the parser, ``docs/sql.md``, the
magic's help, the error about an unknown statement and the tests' matrix follow; :func:`commands_of`, a text
as values.
What it does not know: how a command is performed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltanb.query.statements import define, describe, rows, transactions, upkeep
from deltanb.query.statements.command import Command
from deltanb.query.statements.text import Cursor
from deltanb.text.formatting import did_you_mean

if TYPE_CHECKING:
    from deltanb.errors import InvalidQuery

QUERY = "SELECT"
"""The statement that an engine runs as it is written."""
_QUERIES = ("SELECT", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE")


@dataclass(frozen=True)
class Kind:
    """A statement that can be run."""

    name: str
    begins: tuple[str, ...]
    """The words it may begin with, each a text of words."""
    grammar: str
    """How it is written, a line for each form."""
    calls: str
    """The method that it calls, as people call it."""
    example: str
    """One that runs."""
    parse: Callable[[Cursor], Command] | None = None
    """Reads what follows the first words."""


KINDS: tuple[Kind, ...] = (
    Kind("SELECT", (*_QUERIES, "WITH"),
         "SELECT … FROM table [VERSION AS OF n | TIMESTAMP AS OF 'time' | @vN] …\n"
         "SELECT … FROM table_changes('table', first [, last]) …\n"
         "SELECT … FROM table_changes_by_path('path', first [, last]) …",
         "DuckDB or Spark", "SELECT carrier, max(delay) AS worst FROM flights GROUP BY carrier"),
    Kind("INSERT", ("INSERT",),
         "INSERT [WITH SCHEMA EVOLUTION] INTO table [PARTITION (column = value)] [(columns) | BY NAME] "
         "VALUES … | SELECT … | TABLE other\n"
         "WITH … INSERT …",
         "table.append", "INSERT INTO flights VALUES (3, 12, 'AA'), (3, NULL, 'UA')", rows.insert),
    Kind("INSERT OVERWRITE", (),
         "INSERT OVERWRITE table [PARTITION (column = value)] [(columns) | BY NAME] query\n"
         "INSERT INTO table [BY NAME] REPLACE WHERE condition query",
         "table.overwrite", "INSERT INTO flights REPLACE WHERE month = 1 VALUES (1, 7, 'DL')"),
    Kind("UPDATE", ("UPDATE",), "UPDATE table [alias] SET column = value, … [WHERE condition]",
         "table.update", "UPDATE flights SET delay = 0, carrier = lower(carrier) WHERE delay IS NULL",
         rows.update),
    Kind("DELETE", ("DELETE",), "DELETE FROM table [alias] [WHERE condition]",
         "table.delete", "DELETE FROM flights f WHERE f.month = 1", rows.delete),
    Kind("TRUNCATE", ("TRUNCATE",), "TRUNCATE TABLE table", "table.truncate", "TRUNCATE TABLE flights",
         rows.truncate),
    Kind("MERGE", ("MERGE",),
         "MERGE [WITH SCHEMA EVOLUTION] INTO table [alias] USING table | (query) [alias] ON condition\n"
         "  WHEN MATCHED [AND condition] THEN UPDATE SET * | UPDATE SET column = value, … | DELETE\n"
         "  WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT * | INSERT (columns) VALUES (…)\n"
         "  WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET … | DELETE",
         "table.merge",
         "MERGE INTO flights f USING late l ON f.month = l.month AND f.carrier = l.carrier "
         "WHEN MATCHED THEN UPDATE SET delay = l.delay WHEN NOT MATCHED THEN INSERT *", rows.merge),
    Kind("CREATE TABLE", ("CREATE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE"),
         "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table (columns) [USING delta | iceberg]\n"
         "  [PARTITIONED BY (columns)] [CLUSTER BY (columns)] [LOCATION 'path'] [COMMENT 'text']\n"
         "  [TBLPROPERTIES ('key' = 'value', …)]\nREPLACE TABLE table (columns) …\n"
         "CREATE … TABLE table … AS query",
         "deltanb.create, catalog.create_table",
         "CREATE TABLE delta.`planes` (id bigint NOT NULL COMMENT 'tail', seats int) CLUSTER BY (id)",
         define.create_table),
    Kind("SHALLOW CLONE", (),
         "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table SHALLOW CLONE source [VERSION AS OF n] "
         "[LOCATION 'path']\nREPLACE TABLE table SHALLOW CLONE source …",
         "table.clone", "CREATE TABLE delta.`copy` SHALLOW CLONE flights"),
    Kind("CONVERT TO DELTA", ("CONVERT TO DELTA",),
         "CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (column type, …)]",
         "deltanb.convert", "CONVERT TO DELTA parquet.`rain`", define.convert),
    Kind("ALTER TABLE", ("ALTER TABLE",), define.GRAMMAR,
         ", ".join(f"{'catalog' if name == 'rename_table' else 'table'}.{name}" for name in define.METHODS),
         "ALTER TABLE flights ADD COLUMNS (gate string COMMENT 'at departure' AFTER carrier)", define.alter),
    Kind("COMMENT ON TABLE", ("COMMENT ON TABLE",), "COMMENT ON TABLE table IS 'text' | NULL",
         "table.set_description", "COMMENT ON TABLE flights IS 'all of this year'", define.comment_on_table),
    Kind("COMMENT ON COLUMN", ("COMMENT ON COLUMN",), "COMMENT ON COLUMN table.column IS 'text'",
         "table.change_column", "COMMENT ON COLUMN flights.delay IS 'in minutes'", define.comment_on_column),
    Kind("DROP TABLE", ("DROP TABLE",), "DROP TABLE [IF EXISTS] table [PURGE]", "catalog.drop_table",
         "DROP TABLE catalog.shop.orders", define.drop_table),
    Kind("CREATE SCHEMA", ("CREATE SCHEMA", "CREATE NAMESPACE", "CREATE DATABASE"),
         "CREATE SCHEMA [IF NOT EXISTS] name [WITH DBPROPERTIES (…)]", "catalog.create_namespace",
         "CREATE SCHEMA IF NOT EXISTS catalog.stock", define.create_namespace),
    Kind("DROP SCHEMA", ("DROP SCHEMA", "DROP NAMESPACE", "DROP DATABASE"), "DROP SCHEMA [IF EXISTS] name",
         "catalog.drop_namespace", "DROP SCHEMA IF EXISTS catalog.stock", define.drop_namespace),
    Kind("OPTIMIZE", ("OPTIMIZE",), "OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (columns)]",
         "table.optimize", "OPTIMIZE flights WHERE month = 1 ZORDER BY (delay)", upkeep.optimize),
    Kind("REORG TABLE", ("REORG TABLE",), "REORG TABLE table [WHERE condition] APPLY (PURGE)", "table.purge",
         "REORG TABLE flights APPLY (PURGE)", upkeep.reorg),
    Kind("VACUUM", ("VACUUM",), "VACUUM table [FULL | LITE] [RETAIN n HOURS] [DRY RUN]", "table.vacuum",
         "VACUUM flights RETAIN 200 HOURS DRY RUN", upkeep.vacuum),
    Kind("RESTORE", ("RESTORE",), "RESTORE [TABLE] table TO VERSION AS OF n | TO TIMESTAMP AS OF 'time'",
         "table.restore", "RESTORE TABLE flights TO VERSION AS OF 0", upkeep.restore),
    Kind("ANALYZE TABLE", ("ANALYZE TABLE",),
         "ANALYZE TABLE table COMPUTE [DELTA] STATISTICS [FOR ALL COLUMNS | FOR COLUMNS …]", "table.analyze",
         "ANALYZE TABLE flights COMPUTE STATISTICS FOR COLUMNS delay", upkeep.analyze),
    Kind("GENERATE", ("GENERATE",), "GENERATE symlink_format_manifest FOR TABLE table", "table.generate",
         "GENERATE symlink_format_manifest FOR TABLE flights", upkeep.generate),
    Kind("DESCRIBE", ("DESCRIBE", "DESC"), "DESCRIBE [TABLE] [EXTENDED] table [column]",
         "table.schema, table.detail", "DESCRIBE flights", describe.describe),
    Kind("DESCRIBE DETAIL", (), "DESCRIBE DETAIL table", "table.detail", "DESCRIBE DETAIL flights"),
    Kind("DESCRIBE HISTORY", (), "DESCRIBE HISTORY table [LIMIT n]", "table.history",
         "DESCRIBE HISTORY flights LIMIT 5"),
    Kind("SHOW TABLES", ("SHOW TABLES",), "SHOW TABLES [IN namespace]", "catalog.list_tables",
         "SHOW TABLES IN catalog.shop", describe.show_tables),
    Kind("SHOW SCHEMAS", ("SHOW SCHEMAS", "SHOW NAMESPACES", "SHOW DATABASES"), "SHOW SCHEMAS [IN namespace]",
         "catalog.list_namespaces", "SHOW SCHEMAS IN catalog", describe.show_namespaces),
    Kind("SHOW TBLPROPERTIES", ("SHOW TBLPROPERTIES",), "SHOW TBLPROPERTIES table [('key')]",
         "table.properties", "SHOW TBLPROPERTIES flights", describe.show_properties),
    Kind("SHOW COLUMNS", ("SHOW COLUMNS",), "SHOW COLUMNS IN table", "table.schema",
         "SHOW COLUMNS IN flights", describe.show_columns),
    Kind("SHOW CREATE TABLE", ("SHOW CREATE TABLE",), "SHOW CREATE TABLE table", "table.schema, table.detail",
         "SHOW CREATE TABLE flights", describe.show_create_table),
    Kind("BEGIN ATOMIC", ("BEGIN ATOMIC", "END"), "BEGIN ATOMIC statement; … END",
         "catalog.transaction, table.transaction",
         "BEGIN ATOMIC INSERT INTO catalog.shop.orders VALUES (2); "
         "UPDATE catalog.shop.orders SET id = id + 1; END", transactions.atomic),
    Kind("BEGIN TRANSACTION", ("BEGIN TRANSACTION", "START TRANSACTION", "COMMIT", "ROLLBACK"),
         "BEGIN TRANSACTION; statement; … COMMIT\nBEGIN TRANSACTION; statement; … ROLLBACK",
         "catalog.transaction, table.transaction",
         "BEGIN TRANSACTION; DELETE FROM flights; SELECT count(*) FROM flights; ROLLBACK",
         transactions.transaction),
    Kind("EXPLAIN", ("EXPLAIN",), "EXPLAIN query | UPDATE … | DELETE … | OPTIMIZE … WHERE …", "table.explain",
         "EXPLAIN DELETE FROM flights WHERE month = 1"),
)
"""In the order of the documentation; of two that begin alike, the longer words count."""

_LIKE = 0.75  # how like a statement's words those are that somebody has mistyped

ABSENT: dict[str, str] = {
    "UPSERT": "MERGE INTO table USING rows ON … updates and inserts, as table.upsert(rows, on=…) does",
    "REPLACE INTO": "MERGE INTO replaces rows by a key, INSERT INTO table REPLACE WHERE … by a condition",
    "CREATE EXTERNAL TABLE": "CREATE TABLE name (…) LOCATION 'path' makes a table where you say",
    "CREATE INDEX": "CLUSTER BY (columns) of a table keeps rows together, so that files are skipped",
    "HISTORY": "DESCRIBE HISTORY table",
    "SHOW HISTORY": "DESCRIBE HISTORY table",
    "CLONE": "CREATE TABLE name SHALLOW CLONE source",
    "DROP VIEW": "there are no views, and so none to drop",
    "CACHE": "what a query has read is not held; keep its result in a variable",
    "UNCACHE": "nothing is cached",
    "REFRESH": "a table follows its log by itself",
    "MSCK": "a Delta table has its partitions in its log",
    **dict.fromkeys(
        ("CREATE VIEW", "CREATE OR REPLACE VIEW", "CREATE TEMPORARY VIEW", "CREATE TEMP VIEW",
         "CREATE OR REPLACE TEMPORARY VIEW", "CREATE OR REPLACE TEMP VIEW"),
        "keep the query's result in a variable, which a later query can name"),
    "CREATE FUNCTION": "register it with Spark, and ask with spark=",
    "USE": "name tables with their namespace: namespace.table",
    "SET": "table properties are set by ALTER TABLE … SET TBLPROPERTIES, options by dn.set_options(…)",
    "SHOW PARTITIONS": "ask for them: SELECT DISTINCT the partition columns",
    "COPY INTO": "read the files and append their rows: table.append(…), or INSERT INTO … SELECT",
    "FSCK": "table.verify() says what is wrong, table.restore(…) goes back",
    "LOAD": "read the files and append their rows: table.append(…)",
    "CALL": "there are no stored procedures",
    "GRANT": "permissions are the storage's and the catalog server's",
    "REVOKE": "permissions are the storage's and the catalog server's",
}
"""Statements of Spark's that are not run here, and what is done instead."""


def commands_of(sql: str) -> list[Command]:
    """The statements of a text that semicolons separate, as values.

    Raises:
        InvalidQuery: the first statement that is none of :data:`KINDS`, or is not written as its grammar
            says, with line and column.

    >>> [command.statement for command in commands_of("DELETE FROM a; INSERT INTO b TABLE a;")]
    ['DELETE', 'INSERT']
    """
    commands = [command for cursor in Cursor.over(sql).statements() for command in _commands(cursor)]
    transactions.check_blocks(commands, sql)
    return commands


def is_query(sql: str) -> bool:
    """Whether a text surely is one query, which an engine takes as it is."""
    first = sql.lstrip(" \n\t(")[:10].split(None, 1)
    return bool(first) and first[0].upper() in ("SELECT", "FROM", "SUMMARIZE") and (
        ";" not in sql.rstrip("; \n\t"))


def _commands(cursor: Cursor) -> Iterator[Command]:
    line, column = cursor.place()
    start, end = cursor.start, cursor.end
    command = _command(cursor)
    if command.statement == transactions.ATOMIC:
        end = cursor.words[cursor.at - 1].end
    yield replace(command, sql=cursor.sql[start:end], line=line, column=column)
    if command.statement == transactions.ATOMIC and not cursor.is_at_end:
        yield from _commands(Cursor(cursor.sql, cursor.words[cursor.at:]))


def _command(cursor: Cursor) -> Command:
    if cursor.sees("WITH"):
        inserting = rows.with_insert(cursor)
        if inserting is not None:
            return inserting
    kind = _kind(cursor)
    if kind is None:
        raise unknown(cursor)
    if kind.name == QUERY:
        return Command(QUERY)
    command = _explained(cursor) if kind.parse is None else kind.parse(cursor)
    if command.method != transactions.BEGIN or command.statement != transactions.ATOMIC:
        cursor.expect_end()
    return command


def _kind(cursor: Cursor) -> Kind | None:
    """The statement that begins here; its first words are taken, unless it is a query."""
    if cursor.sees_sign("("):
        return KINDS[0]
    for words, kind in _BY_WORDS:
        if kind.name == QUERY and cursor.sees(*words):
            return kind
        if cursor.take(*words):
            return kind
    return None


def _explained(cursor: Cursor) -> Command:
    """What follows EXPLAIN, to be explained instead of run."""
    cursor.take_any("EXTENDED", "FORMATTED", "COST", "CODEGEN")
    inner = Cursor(cursor.sql, cursor.words[cursor.at:])
    start = cursor.start
    command = _command(inner)
    cursor.rest()
    where = command.arguments.get("where")
    details = {"command": command, "query": cursor.sql[start:cursor.end]}
    if "alias" in command.details:
        details["alias"] = command.details["alias"]
    return Command("EXPLAIN", "explain", command.target, {} if where is None else {"where": where}, details)


_BY_WORDS = sorted(((tuple(words.split()), kind) for kind in KINDS for words in kind.begins),
                   key=lambda pair: -len(pair[0]))


def unknown(cursor: Cursor) -> InvalidQuery:
    """The error of a statement that is not run here."""
    for words, way in sorted(ABSENT.items(), key=lambda pair: -len(pair[0])):
        if cursor.take(*words.split()):
            cursor.at = 0
            return cursor.refused(f"{words} is not run here: {way}")
    known = list(dict.fromkeys(words for kind in KINDS for words in kind.begins))
    first = cursor.words[0]
    alike = [words for words in known if first.is_word(words.split()[0])]
    if alike:  # the first word is right, so it is the second one
        is_pair = len(cursor.words) > 1 and cursor.words[1].kind == "word"
        text = cursor.sql[first.start:cursor.words[int(is_pair)].end]
        hint, _ = did_you_mean(text.upper(), alike, f"statements that begin with {first.text.upper()}",
                               least=_LIKE)
    else:
        text = cursor.sql[first.start:first.end]
        hint, _ = did_you_mean(text.upper(), dict.fromkeys(words.split()[0] for words in known), "statements",
                               least=_LIKE)
    return cursor.refused(f"{text} is no statement; {hint}")


def as_markdown() -> str:
    """The statements for the documentation, each with its grammar, its method and an example."""
    statements = [
        f"### {kind.name}\n\n```\n{kind.grammar}\n```\n\nIt calls {_code(kind.calls)}. For example:\n\n"
        f"```sql\n{kind.example}\n```" for kind in KINDS]
    absent = [f"| `{words}` | {way} |" for words, way in ABSENT.items()]
    return "\n\n".join([*statements, "### Not run here", "\n".join(
        ["| statement | instead |", "|---|---|", *absent])])


def _code(calls: str) -> str:
    """Methods as code; words in plain text."""
    return ", ".join(f"`{one}`" if "." in one else one for one in calls.split(", "))
