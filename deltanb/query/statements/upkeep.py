"""Statements of upkeep: OPTIMIZE, REORG, VACUUM, RESTORE, ANALYZE, GENERATE.

What lives here: their grammar.
What it does not know: tables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deltanb.query.statements.command import Command
from deltanb.query.statements.text import Cursor


def optimize(cursor: Cursor) -> Command:
    """``OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (columns)]``."""
    cursor.take_keyword_table()
    target = cursor.table()
    arguments: dict[str, Any] = {"full": True} if cursor.take("FULL") else {}
    if cursor.take("WHERE"):
        arguments["where"] = cursor.expression("ZORDER", what="a condition")
    if cursor.take("ZORDER"):
        cursor.expect("BY")
        arguments["zorder_by"] = cursor.columns_or_one()
    return Command("OPTIMIZE", "optimize", target, arguments)


def reorg(cursor: Cursor) -> Command:
    """``REORG TABLE table [WHERE condition] APPLY (PURGE)``."""
    target = cursor.table()
    arguments = {}
    if cursor.take("WHERE"):
        arguments["where"] = cursor.expression("APPLY", what="a condition")
    cursor.expect("APPLY")
    cursor.expect_sign("(")
    cursor.expect("PURGE")
    cursor.expect_sign(")")
    return Command("REORG TABLE", "purge", target, arguments)


def vacuum(cursor: Cursor) -> Command:
    """``VACUUM table [FULL | LITE] [RETAIN n HOURS] [DRY RUN]``."""
    target = cursor.table()
    arguments: dict[str, Any] = {}
    while not cursor.is_at_end:
        if cursor.take("LITE"):
            arguments["lite"] = True
        elif cursor.take("RETAIN"):
            arguments["retention_hours"] = float(cursor.number("a number of hours"))
            if not cursor.take_any("HOURS", "HOUR"):
                cursor.fail("HOURS")
        elif cursor.take("DRY", "RUN"):
            arguments["dry_run"] = True
        elif not cursor.take("FULL"):
            cursor.fail("FULL, LITE, RETAIN, DRY RUN or the end of the statement")
    return Command("VACUUM", "vacuum", target, arguments)


def restore(cursor: Cursor) -> Command:
    """``RESTORE TABLE table TO VERSION AS OF n``."""
    cursor.take_keyword_table()
    target = cursor.table()
    moment = target.moment
    if moment is None and cursor.take("TO"):
        moment = cursor.moment()
    if moment is None:
        cursor.fail("TO VERSION AS OF and a number, or TO TIMESTAMP AS OF and a time in quotes,")
    return Command("RESTORE", "restore", replace(target, moment=None), {"moment": moment})


def analyze(cursor: Cursor) -> Command:
    """``ANALYZE TABLE table COMPUTE [DELTA] STATISTICS [FOR ALL COLUMNS | FOR COLUMNS …]``."""
    target = cursor.table()
    cursor.expect("COMPUTE")
    cursor.take("DELTA")
    cursor.expect("STATISTICS")
    arguments = {}
    if cursor.take("FOR", "COLUMNS"):
        arguments["columns"] = cursor.columns_or_one()
    else:
        cursor.take("FOR", "ALL", "COLUMNS")
    return Command("ANALYZE TABLE", "analyze", target, arguments)


def generate(cursor: Cursor) -> Command:
    """``GENERATE symlink_format_manifest FOR TABLE table``."""
    mode = cursor.name("symlink_format_manifest")
    cursor.expect("FOR", "TABLE")
    return Command("GENERATE", "generate", cursor.table(), {"mode": mode.lower()})
