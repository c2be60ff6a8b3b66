"""A text of statements is run in its order.

What lives here: :func:`run_script`; what an error says of the statements before it. What is between BEGIN and
END is one transaction (``block``), which an error gives up.
What it does not know: how a statement is performed (``perform``).
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import DeltaError, IllegalStateError, InvalidQuery, add_note
from deltanb.query.block import Block
from deltanb.query.definitions import ALONE
from deltanb.query.names import Scope
from deltanb.query.perform import Performer
from deltanb.query.run import Engine, run
from deltanb.query.statements.command import Command
from deltanb.query.statements.kinds import commands_of, is_query
from deltanb.query.statements.transactions import BEGIN, COMMIT, ROLLBACK
from deltanb.text.formatting import count, fit

MAX_SHOWN = 60  # characters of a statement in a note


def run_script(sql: str, scope: Scope, engine: Engine) -> Any:
    """Run the statements of a text and return the result of the last one.

    All are read before the first one runs, so that a wrong word in the last one runs none.

    Raises:
        InvalidQuery: a text without a statement, or with one that is not written as its grammar says.
        DeltaError: of a statement; where there are several, a note says which one, and what was done before.
    """
    if is_query(sql):
        return run(sql, scope, engine)
    commands = commands_of(sql)
    if not commands:
        raise InvalidQuery("there is no statement in this text", query=sql)
    return _Script(commands, Performer(scope, engine)).run()


class _Script:
    """Statements that are run in their order."""

    def __init__(self, commands: list[Command], performer: Performer) -> None:
        self.commands, self.performer = commands, performer
        self.begun = 0
        """Which statement began the transaction that is open."""
        self.block: Block | None = None

    def run(self) -> Any:
        result: Any = None
        for place, command in enumerate(self.commands):
            try:
                result = self._perform(place, command)
            except BaseException as error:
                if isinstance(error, DeltaError) and len(self.commands) > 1:
                    add_note(error, self._where(place))
                if self.block is not None:
                    self.block.give_up()
                raise
        return result

    def _perform(self, place: int, command: Command) -> Any:
        if command.method == BEGIN:
            end = next(at for at, one in enumerate(self.commands)
                       if at > place and one.method in (COMMIT, ROLLBACK))
            self.begun = place
            self.block = Block(self.commands[place + 1:end], self.performer.scope)
            return self.block.transaction
        block = self.block
        if block is None:
            return self.performer.perform(command)
        if command.method in (COMMIT, ROLLBACK):
            result = block.commit() if command.method == COMMIT else block.give_up()
            self.block = None
            return result
        if command.method in ALONE:
            raise IllegalStateError(f"{command.statement} commits by itself, so it cannot be a part of a "
                                    "transaction; run it before or after")
        return self.performer.perform(command)

    def _where(self, place: int) -> str:
        """Which statement failed, and what became of those before it."""
        failed = self.commands[place]
        before = place if self.block is None else self.begun
        done = {0: "no statement before it has changed anything", 1: "the one before it is done"}.get(
            before, f"the {before} before it are done")
        if self.block is not None:
            done = "its transaction is rolled back" + (
                f", the {count(before, 'statement')} before that is done" if before == 1 else
                f", the {count(before, 'statement')} before that are done" if before else "")
        words = fit(" ".join(failed.sql.split()), MAX_SHOWN)
        return (f"statement {place + 1} of {len(self.commands)} failed (line {failed.line}, column "
                f"{failed.column}): {words}; {done}")
