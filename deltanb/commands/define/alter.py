"""The common parts of ALTER commands: committing new metadata, and the dependents of a column.

What lives here: :func:`commit_metadata` (with the check that the table can still be written),
:func:`dependents`.
What it does not know: any one of the commands (``alter_columns``, ``alter_properties``, …).

An ALTER changes only the log and reads no data files (ADD CONSTRAINT does). Of two concurrent ones, the
second raises ``MetadataChangedException``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from deltanb.actions import Action, Metadata, Protocol
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument, UnsupportedProtocol
from deltanb.schema.ddl import GENERATION_EXPRESSION
from deltanb.schema.paths import quoted, walk
from deltanb.schema.protocol import check_writable
from deltanb.schema.types import StructType

if TYPE_CHECKING:
    from deltanb.transaction.operations import Operation
    from deltanb.transaction.transaction import OptimisticTransaction

CHECK_PREFIX = "delta.constraints."
"""Table properties that hold CHECK constraints."""


def commit_metadata(
    txn: OptimisticTransaction, metadata: Metadata, operation: Operation,
    actions: Iterable[Action] = (),
) -> CommandResult:
    """Commit new metadata, with the protocol that it needs.

    Raises:
        InvalidSchema, InvalidArgument: metadata that is not allowed.
        UnsupportedProtocol: this library could no longer write the table.
        MetadataChangedException, ProtocolChangedException: another ALTER was first.
    """
    txn.update_metadata(metadata)
    refuse_unwritable(txn, txn.metadata, txn.protocol)
    return CommandResult.of(operation, txn.commit(actions, operation))


def refuse_unwritable(txn: OptimisticTransaction, metadata: Metadata, protocol: Protocol) -> None:
    """Stop a change after which this library could no longer write rows.

    Raises:
        UnsupportedProtocol: naming the features that would prevent it.
    """
    before = _obstacles(txn.snapshot.protocol, txn.snapshot.metadata, txn.table)
    after = _obstacles(protocol, metadata, txn.table)
    if after is not None and (before is None or not set(after.features) <= set(before.features)):
        new = [name for name in after.features if before is None or name not in before.features]
        raise UnsupportedProtocol(
            f"table {txn.table} would need the table feature{'s' if len(new) > 1 else ''} "
            f"{', '.join(new)}, with which this library cannot write rows: {after.message} Nothing was "
            "changed.", features=tuple(new))


def _obstacles(
    protocol: Protocol, metadata: Metadata, table: str
) -> UnsupportedProtocol | None:
    try:
        check_writable(protocol, metadata, table)
    except UnsupportedProtocol as error:
        return error
    return None


# --- who depends on a column ----------------------------------------------------------------------

def refuse_dependents(metadata: Metadata, path: Sequence[str], what: str, table: str) -> None:
    """Stop a change of a column that an expression of the table reads.

    Args:
        what: the change, e.g. ``"rename"``.

    Raises:
        InvalidArgument: naming the constraint or the generated column (``.column``).
    """
    readers = dependents(metadata, path)
    if readers:
        raise InvalidArgument(
            f"table {table}: cannot {what} column {quoted(path)}: it is read by {'; '.join(readers)}. "
            "Drop what reads it first: drop_constraint(name), drop_columns([...])",
            column=quoted(path), dependents=tuple(readers))


def dependents(metadata: Metadata, path: Sequence[str]) -> list[str]:
    """The constraints and generated columns that read a column, a part of it, or a struct that contains
    it."""
    lowered = tuple(name.lower() for name in path)
    return [f"{what} ({text})" for what, text in _expressions(metadata)
            if any(_overlap(lowered, read) for read in references(text))]


def _expressions(metadata: Metadata) -> Iterator[tuple[str, str]]:
    for key, text in sorted(metadata.configuration.items()):
        if key.lower().startswith(CHECK_PREFIX):
            yield f"the constraint {key[len(CHECK_PREFIX):]}", text
    schema: StructType = metadata.schema
    for path, field in walk(schema):
        if GENERATION_EXPRESSION in field.metadata:
            yield f"the generated column {quoted(path)}", str(field.metadata[GENERATION_EXPRESSION])
        if "delta.invariants" in field.metadata:
            try:
                text = str(json.loads(field.metadata["delta.invariants"])["expression"]["expression"])
            except (TypeError, ValueError, KeyError):
                continue
            yield f"the invariant of column {quoted(path)}", text


def references(expression: str) -> set[tuple[str, ...]]:
    """The columns an expression names, in lower case; ``{()}``, which means any, for invalid SQL.

    >>> sorted(references("a.B > 1 AND length(c) < 3"))
    [('a', 'b'), ('c',)]
    """
    try:
        tree = sqlglot.parse_one(expression, dialect="spark")
    except SqlglotError:
        return {()}
    paths = set()
    for column in tree.find_all(exp.Column):
        names = [part.name.lower() for part in column.parts]
        node: exp.Expression = column
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            node = node.parent
            names.append(node.expression.name.lower())
        paths.add(tuple(names))
    return paths


def _overlap(one: Sequence[str], two: Sequence[str]) -> bool:
    shorter = min(len(one), len(two))
    return tuple(one[:shorter]) == tuple(two[:shorter])
