"""A text of statements is run in its order.

What lives here: :func:`run_script`; what an error says of the statements before it.
What it does not know: how a statement is performed (``perform``).
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import DeltaError, InvalidQuery, add_note
from deltanb.query.names import Scope
from deltanb.query.perform import Performer
from deltanb.query.run import Engine, run
from deltanb.query.statements.command import Command
from deltanb.query.statements.kinds import commands_of, is_query
from deltanb.text.formatting import fit

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
    performer = Performer(scope, engine)
    result: Any = None
    for place, command in enumerate(commands):
        try:
            result = performer.perform(command)
        except DeltaError as error:
            if len(commands) > 1:
                add_note(error, _where(commands, place))
            raise
    return result


def _where(commands: list[Command], place: int) -> str:
    """Which statement failed, and what became of those before it."""
    failed = commands[place]
    before = {0: "no statement ran before it", 1: "the one before it is done"}.get(
        place, f"the {place} before it are done")
    words = fit(" ".join(failed.sql.split()), MAX_SHOWN)
    return (f"statement {place + 1} of {len(commands)} failed (line {failed.line}, column {failed.column}): "
            f"{words}; {before}")
