"""Statements as values: which method of which table they call, with which arguments.

What lives here: :class:`Command`, and the arguments of which the values are only known when it is performed:
rows, assignments, clauses of a merge.
What it does not know: how a statement is written, what a name stands for, any table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltanb.query.statements.text import Name, Sql

DEFAULT = "DEFAULT"
"""In place of a value: the column's own."""


@dataclass(frozen=True)
class Rows:
    """Rows to write: of a query, of VALUES, or all of a table."""

    query: Sql | None = None
    values: tuple[tuple[Sql, ...], ...] = ()
    table: Name | None = None
    columns: tuple[str, ...] | None = None
    """The columns that they are for, in their order; None for all of the table's."""
    by_name: bool = False
    """Whether their own names say which columns they are for."""
    partition: tuple[tuple[Sql, Sql], ...] = ()
    """Columns that have one value in all rows."""
    evolves: bool = False
    """Whether those behind all of the table's columns are new ones."""


@dataclass(frozen=True)
class Assignments:
    """New values by columns."""

    pairs: tuple[tuple[Sql, Sql], ...]


@dataclass(frozen=True)
class PartitionCondition:
    """That columns have certain values, as a condition."""

    pairs: tuple[tuple[Sql, Sql], ...]


@dataclass(frozen=True)
class Clause:
    """A clause of a merge: the builder's method that adds it, and its arguments."""

    method: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Command:
    """One statement, understood.

    >>> from deltanb.query.statements.kinds import commands_of
    >>> (command,) = commands_of("DELETE FROM flights WHERE month = 1")
    >>> command.statement, command.target.text, command.method, command.arguments["where"].text
    ('DELETE', 'flights', 'delete', 'month = 1')
    """

    statement: str
    """Its name in the table of statements, ``kinds.KINDS``."""
    method: str = ""
    """The method that it calls: of a table, a catalog or this library."""
    target: Name | None = None
    """The table that it is about."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The method's arguments."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else it says."""
    sql: str = ""
    """The statement as it was written."""
    line: int = 1
    column: int = 1
    """Where it begins in its text, both from 1."""
