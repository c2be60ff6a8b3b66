"""Statements of a catalog's database that every commit runs, made once.

What lives here: :class:`Prepared`, a statement of SQLAlchemy Core as the driver's text. SQLAlchemy takes
several times as long to get a statement of its own ready as the database to run it; of a text it asks less.
What it does not know: what any statement says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from deltanb.catalog.store.tables import sa

__all__ = ["Prepared", "for_each_count"]

COUNTS = 64
"""How many numbers of values a statement is kept for: transactions have few tables."""

Values = Mapping[str, Any]


class Prepared:
    """A statement, and its text for each kind of database it was run on.

    Its values are those that drivers take as they are: numbers, text, bytes and None.

    >>> from deltanb.catalog.store.database import Database
    >>> one = Prepared(sa.select(sa.bindparam("value", type_=sa.Integer) + 1))
    >>> with Database("sqlite:///prepared.db") as database:
    ...     database.read(lambda connection: one.run(connection, {"value": 2}).scalar())
    3
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._made: dict[str, _Made] = {}

    def run(self, connection: sa.Connection, values: Values | Sequence[Values]) -> sa.CursorResult[Any]:
        """Run it once, or for each of several; ``rowcount`` of the result is that of all of these."""
        dialect = connection.dialect
        if (made := self._made.get(dialect.name)) is None:
            made = self._made[dialect.name] = _Made.of(self._statement.compile(dialect=dialect))
        parameters = made.parameters(values) if isinstance(values, Mapping) else \
            [made.parameters(each) for each in values]
        return connection.exec_driver_sql(made.text, parameters)


@dataclass(frozen=True)
class _Made:
    """A statement as a driver takes it: with the order of its values, where these have no names."""

    text: str
    names: tuple[str, ...] | None
    own: Values
    """Values that the statement itself has."""

    @classmethod
    def of(cls, compiled: Any) -> _Made:
        names = None if compiled.positiontup is None else tuple(compiled.positiontup)
        own = {name: value for name, value in compiled.params.items() if value is not None}
        return cls(compiled.string, names, own)

    def parameters(self, values: Values) -> Any:
        """The values as the driver takes them."""
        every = {**self.own, **values} if self.own else values
        return every if self.names is None else tuple([every[name] for name in self.names])


def for_each_count(make: Callable[[list[sa.BindParameter[str]]], Any]) -> Callable[[int], Prepared]:
    """A statement about some ids, by their number: ``make`` gets a parameter for each of them.

    :func:`ids_of` has their values.
    """
    @lru_cache(COUNTS)
    def made(count: int) -> Prepared:
        return Prepared(make([sa.bindparam(f"id_{at}", type_=sa.Text) for at in range(count)]))

    return made


def ids_of(ids: Sequence[str]) -> dict[str, str]:
    """The values of the parameters of :func:`for_each_count`.

    >>> ids_of(["a", "b"])
    {'id_0': 'a', 'id_1': 'b'}
    """
    return {f"id_{at}": each for at, each in enumerate(ids)}
