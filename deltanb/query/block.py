"""The transaction of statements between BEGIN and END: of several tables of a catalog, or of one table.

What lives here: :class:`Block`, which chooses ``catalog.transaction()`` or ``table.transaction()`` by the
tables that its statements change, gives statements their tables in it, and ends it.
What it does not know: statements, how a transaction is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltanb.errors import IllegalStateError, InvalidQuery
from deltanb.query.names import Scope, handle, place_of_handle
from deltanb.query.statements.command import Command


class Block:
    """A transaction over the tables of some statements, open until it is committed or given up.

    Raises:
        InvalidQuery: the tables are neither of one catalog nor one.
        IllegalStateError: one of them is part of a transaction already.
    """

    def __init__(self, commands: Sequence[Command], scope: Scope) -> None:
        tables = [handle(command.target, scope) for command in commands if command.target is not None]
        for table in tables:
            if table._reads_at == "transaction":
                raise IllegalStateError(f"{table.name} is part of a transaction already; run the statements "
                                        "without BEGIN and its end, and commit that transaction")
        homes = {id(home): home for home in map(_home, tables)}
        if not homes and scope.catalog is not None:
            homes = {id(scope.catalog): scope.catalog}
        if len(homes) != 1:
            what = "this one has none" if not homes else "these are others: " + ", ".join(
                dict.fromkeys(table.name for table in tables))
            raise InvalidQuery(
                f"a transaction is of tables of one catalog, or of one table in a folder; {what}")
        (self.home,) = homes.values()
        """The catalog, or the log of the table."""
        self.is_of_catalog = hasattr(self.home, "transaction")
        self.scope = scope
        self.transaction: Any = self.home.transaction() if self.is_of_catalog else tables[0].transaction()
        scope.staged = self.table

    def table(self, table: Any) -> Any:
        """A table as the transaction has it; another one, or what is no newest version, as it is."""
        if table._reads_at != "newest" or _home(table) is not self.home:
            return table
        return self.transaction.table(place_of_handle(table).name) if self.is_of_catalog else self.transaction

    def commit(self) -> Any:
        """Commit, and return the transaction."""
        self._leave()
        self.transaction.commit()
        return self.transaction

    def give_up(self) -> Any:
        """Discard what the statements did, and return the transaction."""
        self._leave()
        self.transaction.give_up()
        return self.transaction

    def _leave(self) -> None:
        self.scope.staged = lambda table: table


def _home(table: Any) -> Any:
    """The catalog that a table is of; of one in a folder its log."""
    catalog = place_of_handle(table).catalog
    return table.log if catalog is None else catalog
