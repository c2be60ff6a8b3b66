"""A statement is performed: the table of its name is asked for its method.

What lives here: :class:`Performer`. One statement is one call, so that every kind of table (at a past
version, in a transaction, under locks, of a catalog, Iceberg's) admits or refuses it as it does the method.
What it does not know: how statements are written (``statements``), how several follow one another
(``script``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from deltanb.errors import DeltaError, InvalidQuery
from deltanb.query.definitions import SPECIAL as SPECIAL_DEFINITIONS
from deltanb.query.definitions import rename_table
from deltanb.query.names import Named, Scope, handle
from deltanb.query.run import Engine, run
from deltanb.query.show import SPECIAL as SPECIAL_SHOWS
from deltanb.query.statement import Statement
from deltanb.query.statements.command import Command, Rows
from deltanb.query.statements.kinds import QUERY
from deltanb.query.statements.text import Name, Sql
from deltanb.query.values import Arguments
from deltanb.table.table import DeltaTable


@dataclass(frozen=True)
class Performer:
    """Performs statements, whose names mean something in a scope."""

    scope: Scope
    engine: Engine

    def perform(self, command: Command) -> Any:
        """Perform one statement and return what its method returns."""
        special = SPECIAL.get(command.statement)
        return self.call(command) if special is None else special(self, command)

    def call(self, command: Command) -> Any:
        """Call the method of the statement's table."""
        return self.work_on_table(command, command.arguments.get("data"), Performer._called)

    def work_on_table(
        self, command: Command, rows: Any, work: Callable[[Performer, Any, Command], Any]
    ) -> Any:
        """Do the work of a statement on its table; in a transaction of it where the rows are its own, so that
        what is read for them counts for conflicts."""
        table, scope = self.table(command), self.scope
        if not self._reads(table, rows):
            return work(self, table, command)
        with table.transaction() as txn:
            within = replace(scope, staged=lambda one: txn if _is_same(one, table) else one)
            result = work(replace(self, scope=within), txn, command)
        version = None if result.version is None else txn.committed
        return replace(result, version=version, is_staged=False)

    def _reads(self, table: Any, rows: Any) -> bool:
        """Whether the rows to write are a table's newest ones; other tables record reads where they are."""
        if not isinstance(table, DeltaTable) or table._reads_at != "newest":
            return False
        names: Iterable[Named] = ()
        match rows:
            case Name():
                names = (rows,)
            case Rows(table=Name() as name):
                names = (name,)
            case Rows(query=Sql(text)):
                names = Statement(text, self.engine.dialect).references
        return any(name.moment is None and name.changes is None and _is_of(name, table, self.scope)
                   for name in names)

    def _called(self, table: Any, command: Command) -> Any:
        arguments = self.arguments(table, command)
        return method_of(table, command)(
            **{name: arguments.of(value) for name, value in command.arguments.items()})

    def table(self, command: Command) -> Any:
        """The table that a statement is about, as of :func:`~deltanb.query.names.handle`."""
        assert command.target is not None
        return handle(command.target, self.scope)

    def arguments(self, table: Any, command: Command) -> Arguments:
        """What makes the arguments of a statement about a table."""
        names = [] if command.target is None else [command.target.parts[-1]]
        if "alias" in command.details:
            names.append(command.details["alias"])
        return Arguments(self.scope, self.ask, self.engine.dialect == "duckdb", table, tuple(names))

    def ask(self, sql: str) -> Any:
        """Run a query."""
        return run(sql, self.scope, self.engine)


def _is_of(name: Named, table: DeltaTable, scope: Scope) -> bool:
    try:
        named = handle(name, scope)
    except DeltaError:  # other rows, or nothing: the query says so
        return False
    return _is_same(named, table)


def _is_same(one: Any, table: DeltaTable) -> bool:
    """Whether a handle is on the very table, and shows its newest rows."""
    if not isinstance(one, DeltaTable) or one._reads_at != "newest":
        return False
    ours, theirs = one.log, table.log
    return ours is theirs or (
        ours.catalog is not None and ours.catalog is theirs.catalog and ours.path == theirs.path)


def method_of(table: Any, command: Command) -> Callable[..., Any]:
    """The method that a statement calls.

    Raises:
        InvalidQuery: this kind of table has none such.
    """
    method: Callable[..., Any] | None = getattr(table, command.method, None)
    if method is None:
        raise InvalidQuery(
            f"{command.statement} cannot be run on {table.name}: {type(table).__name__} has no method "
            f"{command.method}", name=table.name)
    return method


def _query(performer: Performer, command: Command) -> Any:
    word, _, rest = command.sql.partition(" ")
    return performer.ask(f"SELECT * FROM {rest}" if word.upper() == "TABLE" else command.sql)


def _merge(performer: Performer, command: Command) -> Any:
    return performer.work_on_table(command, command.arguments["source"], _merged)


def _merged(performer: Performer, table: Any, command: Command) -> Any:
    arguments = replace(performer.arguments(table, command), aliases=())  # its columns keep their alias
    settings = dict(command.arguments)
    source = arguments.source(settings.pop("source"))
    builder = method_of(table, command)(
        source, **{name: arguments.of(value) for name, value in settings.items()})
    targets = replace(arguments, aliases=(settings["target_alias"],))
    for clause in command.details["clauses"]:
        values = arguments.of(clause)
        for name in {"set", "values"} & values.keys():  # names of the table's columns, alone
            pairs = clause.arguments[name].pairs
            values[name] = dict(zip((targets.sql(column) for column, _ in pairs), values[name].values(),
                                    strict=True))
        builder = getattr(builder, clause.method)(**values)
    return builder.execute()


def _alter(performer: Performer, command: Command) -> Any:
    if command.method == "rename_table":
        return rename_table(performer, command)
    return performer.call(command)


SPECIAL: dict[str, Callable[[Performer, Command], Any]] = {
    **SPECIAL_DEFINITIONS, **SPECIAL_SHOWS, QUERY: _query, "MERGE": _merge, "ALTER TABLE": _alter}
"""Statements that are more than a call of a table's method."""
