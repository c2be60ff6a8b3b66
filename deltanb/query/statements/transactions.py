"""Statements that begin and end a transaction: BEGIN ATOMIC … END, BEGIN TRANSACTION … COMMIT or ROLLBACK.

What lives here: their grammar, and which of them belong together (:func:`check_blocks`).
What it does not know: what a transaction covers (``query/block``).
"""

from __future__ import annotations

from collections.abc import Sequence

from deltanb.errors import InvalidQuery
from deltanb.query.statements.command import Command
from deltanb.query.statements.text import Cursor

ATOMIC, TRANSACTION = "BEGIN ATOMIC", "BEGIN TRANSACTION"
BEGIN, COMMIT, ROLLBACK = "begin", "commit", "rollback"
"""What such a statement does, in place of a method."""
_ENDS = {ATOMIC: "END", TRANSACTION: "COMMIT or ROLLBACK"}


def atomic(cursor: Cursor) -> Command:
    """``BEGIN ATOMIC``, which its first statement may follow, and ``END``."""
    return Command(ATOMIC, COMMIT if cursor.words[cursor.at - 1].is_word("END") else BEGIN)


def transaction(cursor: Cursor) -> Command:
    """``BEGIN TRANSACTION``, ``COMMIT`` and ``ROLLBACK``."""
    last = cursor.words[cursor.at - 1]
    if last.is_word("COMMIT", "ROLLBACK"):
        cursor.take_any("TRANSACTION", "WORK")
    return Command(TRANSACTION, COMMIT if last.is_word("COMMIT") else ROLLBACK if last.is_word("ROLLBACK")
                   else BEGIN)


def check_blocks(commands: Sequence[Command], sql: str) -> None:
    """Refuse what begins or ends no transaction.

    Raises:
        InvalidQuery: a transaction in another one, an end without a beginning, or none.
    """
    begun: Command | None = None
    for command in commands:
        if command.method == BEGIN:
            if begun is not None:
                raise _refused(command, f"{command.statement} is within a transaction already", sql)
            begun = command
        elif command.method in (COMMIT, ROLLBACK):
            if begun is None:
                raise _refused(command, f"{command.sql.upper()} ends no transaction: one begins and ends in "
                                        "the same text", sql)
            if begun.statement != command.statement:
                raise _refused(command, f"{begun.statement} ends with {_ENDS[begun.statement]}", sql)
            begun = None
    if begun is not None:
        raise _refused(begun, f"{begun.statement} has no end in this text: {_ENDS[begun.statement]}", sql)


def _refused(command: Command, why: str, sql: str) -> InvalidQuery:
    return InvalidQuery(f"{why} (line {command.line}, column {command.column})", query=sql, line=command.line,
                        position=command.column)
