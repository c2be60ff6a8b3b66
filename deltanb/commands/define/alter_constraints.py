"""ADD and DROP CONSTRAINT: conditions that every row satisfies (PROTOCOL.md, "CHECK Constraints").

What lives here: the check of existing rows, and the property that holds a constraint.
What it does not know: how rows are checked while they are written (``engines/arrow/constraints.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltanb.actions import Metadata
from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import announce_spark, named, refuse_unknown_functions
from deltanb.commands.define.alter import CHECK_PREFIX, commit_metadata
from deltanb.commands.result import CommandResult
from deltanb.errors import (
    ConstraintViolation,
    InvalidArgument,
    InvalidPredicate,
    UnsupportedPredicate,
)
from deltanb.sql import predicates
from deltanb.sql.backquotes import with_hint
from deltanb.sql.row_expressions import inspect, refuse_changing
from deltanb.sql.syntax import Parsed
from deltanb.text.formatting import did_you_mean
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

ENGINES = ("process", "spark")
RESERVED = "__char_varchar_string_length_check__"
"""The name under which Delta reports CHAR and VARCHAR lengths."""


@active.command
def add_constraint(
    log: DeltaLog, name: str, expression: str, engine: str | None = None
) -> CommandResult:
    """Add a CHECK constraint, if all existing rows satisfy it.

    Only files that may hold a violating row, by their partition values and statistics, are read. A partition
    named in the condition limits which concurrent appends conflict.

    Args:
        name: the constraint's name, compared without case.
        expression: a condition in SQL; NULL violates it.
        engine: ``"process"`` or ``"spark"``; by default the process, and Spark where the condition is
            not supported in the process.

    Returns:
        The version committed.

    Raises:
        ConstraintViolation: a row violates it (``.row``); nothing was changed.
        InvalidArgument: the name is taken; the expression is not a condition on the columns of one row, as
            ``sum(id) > 1`` or ``rand() > 0`` is not; without ``engine="spark"`` a function that Spark lacks.
    """
    if engine is not None and engine not in ENGINES:
        raise InvalidArgument(f"engine={engine!r} is not one of {', '.join(ENGINES)}")
    if not isinstance(name, str) or not name.strip() or name.lower() == RESERVED:
        raise InvalidArgument(f"{name!r} cannot be the name of a constraint")
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidPredicate(
            f"constraint {name} needs a condition in SQL, found {expression!r}",
            predicate=str(expression))
    txn = begin(log)
    taken = _key_of(txn.metadata, name)
    if taken is not None:
        raise InvalidArgument(
            f"table {txn.table}: constraint {taken[len(CHECK_PREFIX):]} already exists "
            f"({txn.metadata.configuration[taken]}); drop_constraint({name!r}) first, or take another name",
            constraint=name)
    metadata = txn.metadata.replace(configuration={
        **txn.metadata.configuration, CHECK_PREFIX + name.lower(): expression})
    _check_rows(txn, name, expression, engine)
    return commit_metadata(
        txn, metadata, Operation("ADD CONSTRAINT", {"name": name, "expr": expression}))


@active.command
def drop_constraint(log: DeltaLog, name: str, if_exists: bool = False) -> CommandResult:
    """Drop a CHECK constraint.

    Args:
        name: compared without case.
        if_exists: do not raise if there is none; the commit then records ``existed`` = false, as in Delta.

    Returns:
        The version committed.

    Raises:
        InvalidArgument: there is no such constraint.
    """
    txn = begin(log)
    key = _key_of(txn.metadata, name)
    if key is None and not if_exists:
        names = [k[len(CHECK_PREFIX):] for k in txn.metadata.configuration
                 if k.lower().startswith(CHECK_PREFIX)]
        hint, _ = did_you_mean(str(name), sorted(names), "constraints")
        raise InvalidArgument(
            f"table {txn.table} has no constraint {name}; {hint} (if_exists=True accepts that)",
            constraint=name)
    parameters: dict[str, Any] = {"name": name}
    configuration = dict(txn.metadata.configuration)
    if key is not None:
        parameters["expr"] = configuration.pop(key)
    parameters["existed"] = "false" if key is None else "true"  # a text, as Delta Spark writes it
    return commit_metadata(
        txn, txn.metadata.replace(configuration=configuration), Operation("DROP CONSTRAINT", parameters))


def _key_of(metadata: Metadata, name: str) -> str | None:
    lowered = CHECK_PREFIX + str(name).lower()
    return next((key for key in metadata.configuration if key.lower() == lowered), None)


# --- the rows that are there ----------------------------------------------------------------------

def _check_rows(
    txn: OptimisticTransaction, name: str, expression: str, engine: str | None
) -> None:
    try:
        parsed = Parsed(expression)
    except InvalidPredicate as error:
        raise with_hint(expression, txn.metadata.schema.names, error, Parsed) from None
    try:
        holds = predicates.parse(parsed, txn.metadata.schema)
        holds.to_expression()
        violated = predicates.untrue(holds)
        violated.to_expression()
    except UnsupportedPredicate as reason:
        inspect(parsed, txn.metadata.schema, None)
        refuse_changing(expression)
        if engine == "process":
            raise reason.or_else('take engine="spark"') from None
        if engine is None:
            refuse_unknown_functions(parsed)
            announce_spark(str(reason), 'With engine="process" it is refused instead')
        text = predicates.untrue_text(expression)
        condition = predicates.Condition(text, left_out=(text,), reason=reason)
    else:
        condition = predicates.Condition(violated.sql, (violated,))
    files = txn.filter_files(*condition.parts)
    worker = named("spark" if condition.reason is not None else engine or ENGINES[0])
    row = worker.first(txn, files, condition, expression)
    if row is not None:
        shown = ", ".join(f"{column}={value!r}"[:80] for column, value in list(row.items())[:8])
        raise ConstraintViolation(
            f"table {txn.table}: constraint {name} ({expression}) cannot be added: an existing row "
            f"violates it: {shown}. Correct or delete such rows first; nothing was changed",
            constraint=name, row=row, expression=expression)
