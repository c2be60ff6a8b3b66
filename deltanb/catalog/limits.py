"""The limits of one commit to a catalog: its size, and its time.

What lives here: :class:`Limits`, their only declaration, and :class:`Deadline`, the remaining time of a
running commit. Code that waits on its behalf uses :func:`deadline`.
What it does not know: commits, databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from deltanb.errors import CommitTimedOut, InvalidArgument
from deltanb.options import options
from deltanb.text.safe_text import shown

__all__ = ["Deadline", "Limits", "deadline", "unlimited"]

_SECOND = 1_000_000_000  # in the unit of the timer


@dataclass(frozen=True)
class Limits:
    """The limits of one commit to a catalog.

    Raises:
        InvalidArgument: a number of tables or updates below 1, or a time below 0.

    >>> Limits(tables=500), Limits().seconds
    (Limits(tables=500, updates=1000, seconds=30), 30)
    """

    tables: int = 100
    """Tables that are read or written in it."""
    updates: int = 1000
    """Updates of each Iceberg table in it."""
    seconds: float = 30
    """From its start to the moment it has landed, waiting for a database that others have locked included."""

    def __post_init__(self) -> None:
        for name, what, is_fine in (("tables", "a whole number of tables above 0", _is_count(self.tables)),
                                    ("updates", "a whole number of updates above 0", _is_count(self.updates)),
                                    ("seconds", "a time of 0 or more", _is_time(self.seconds))):
            if not is_fine:
                raise InvalidArgument(f"Limits: {name} is {what}, found {shown(getattr(self, name))}")

    @classmethod
    def of(cls, limits: Limits | None) -> Limits:
        """These limits, or the default ones for None.

        Raises:
            InvalidArgument: a value of another type.

        >>> Limits.of(None) == Limits(), Limits.of(Limits(seconds=60)).seconds
        (True, 60)
        """
        if limits is None:
            return cls()
        if not isinstance(limits, cls):
            raise InvalidArgument(f"limits={shown(limits)} are not limits; give deltanb.Limits(seconds=60)")
        return limits

    def require(self, tables: int, updates: int) -> None:
        """Refuse a transaction with more tables, or with more updates of one Iceberg table.

        Raises:
            InvalidArgument: the limit is exceeded; says how to raise it.

        >>> Limits(tables=2).require(tables=3, updates=0)
        Traceback (most recent call last):
            ...
        deltanb.errors.InvalidArgument: a transaction may have 2 tables, and this one has 3; commit it ...
        """
        for name, count, most in (("tables", tables, self.tables), ("updates", updates, self.updates)):
            if count > most:
                raise InvalidArgument(
                    f"a transaction may have {most} {name}{' of a table' if name == 'updates' else ''}, and "
                    f"this one has {count}; commit it in parts, or allow more: "
                    f"deltanb.Catalog(..., limits=deltanb.Limits({name}={count}))")

    @contextmanager
    def began(self, at: int | None = None) -> Iterator[Deadline]:
        """A block for a commit that begins now, or began ``at`` a time of the timer; waits for the database
        within the block end at its deadline.

        A nested block has no more time than is left of the outer one.

        >>> with Limits(seconds=60).began() as outer, Limits(seconds=600).began() as inner:
        ...     inner is outer
        True
        """
        start = options.timer() if at is None else at
        around, mine = _current.get(), Deadline(start + int(self.seconds * _SECOND), self.seconds)
        mine = mine if around is None or mine.at < around.at else around
        token = _current.set(mine)
        try:
            yield mine
        finally:
            _current.reset(token)


@dataclass(frozen=True)
class Deadline:
    """When a commit has to have landed."""

    at: int
    """Nanoseconds of the timer."""
    seconds: float
    """That it had in all."""

    @property
    def left(self) -> float:
        """The remaining seconds, 0 after the deadline."""
        return max(0.0, (self.at - options.timer()) / _SECOND)

    def require(self, why: str = "") -> None:
        """Raise if no time is left; ``why`` says what took it.

        Raises:
            CommitTimedOut: no time is left.
        """
        if not self.left:
            raise self.over(why)

    def over(self, why: str = "") -> CommitTimedOut:
        """The error for a commit that has no time left."""
        return CommitTimedOut(
            f"Transaction failed: it took longer than {self.seconds:g} seconds{f': {why}' if why else ''}; "
            "nothing was changed, try again", seconds=self.seconds)


_current: ContextVar[Deadline | None] = ContextVar("deltanb_deadline", default=None)


def deadline() -> Deadline | None:
    """The deadline of the commit that this code runs for; None outside of commits."""
    return _current.get()


@contextmanager
def unlimited() -> Iterator[None]:
    """A block without a deadline, to find out the outcome however long a commit took."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < float("inf")
