"""What an exploration found: outcomes, the orders that lead to them, and what is wrong with some.

What lives here: :class:`Exploration`, :class:`Outcome`, :class:`Violation`, :class:`Taken`.
What it does not know: how orders are searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from deltanb.errors import InvalidArgument, InvariantViolated
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.row_levels import require_level

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.observe.explore.play import Play
    from deltanb.observe.explore.remedies import Remedy


MAX_PARTS = 12
"""Parts of an order that are named in a line."""
MAX_NAMES = 8
"""Writers that an outcome in words names of those that committed, and of those that failed."""


class Wording(NamedTuple):
    """How a turn is written that ends in some way."""

    sign: str
    in_short: str
    in_full: str


WORDINGS: Final = {
    "reads": Wording("", "reads {place}", "reads {place}"),
    "commits": Wording("✓", "{operation} {place}", "commits {place} ({operation})"),
    "goes on": Wording("", "{operation} {place} is taken, goes on", "tries {place} ({operation}), goes on"),
    "fails": Wording("✕", "{operation} {place}: {rule}", "tries {place} ({operation}), fails: {rule}"),
    "locks": Wording("", "locks {lock}", "locks {lock}"),
    "waits": Wording("‖", "waits for {lock}{holders}", "waits for {lock}{holders}"),
    "is refused": Wording("✕", "{lock}: {rule}", "is refused {lock}{holders}: {rule}")}
"""What can come of a turn (:attr:`Taken.did`), and how it is written."""


@dataclass(frozen=True, repr=False)
class Taken:
    """One turn of an order: who took it, and what came of it.

    ``did`` is ``reads``, ``commits``, ``goes on`` (others were faster and nothing conflicts; the next turn
    tries the next version) or ``fails``; of a lock it is ``locks``, ``waits``, or ``is refused``. ``version``
    is the version that was read, committed or tried, or the newest one. ``operation`` is what it commits,
    ``rule`` the rule by which it fails, or the kind of the error of a lock. ``lock`` is what a lock is
    called, with the mode that was asked for, and ``others`` are the writers in the way of it.
    """

    writer: str
    did: str
    version: int
    operation: str = ""
    rule: str = ""
    mark: str = "v"
    """What the number is written behind: that of a transaction of a catalog behind ``#``."""
    lock: str = ""
    others: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The number of the version or transaction, as it is written."""
        return f"{self.mark}{self.version}"

    @property
    def sign(self) -> str:
        """✓ for a commit, ✕ for one that fails or a lock that is refused, ‖ for a wait, else nothing."""
        return WORDINGS[self.did].sign

    @property
    def in_short(self) -> str:
        """What came of it, without the writer and the sign."""
        return self._with_its_values(WORDINGS[self.did].in_short)

    def _with_its_values(self, words: str) -> str:
        holders = f", held by {', '.join(self.others)}" if self.others else ""
        return words.format(place=self.place, operation=self.operation, rule=self.rule, lock=self.lock,
                            holders=holders)

    def __str__(self) -> str:
        return f"{self.writer} {self._with_its_values(WORDINGS[self.did].in_full)}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, repr=False)
class Outcome:
    """One way in which it can end.

    ``committed`` names the writers that committed all that they wanted, ``failed`` has the kind of error of
    the others, ``rules`` the rule of a conflict. A writer that had nothing to commit is in neither.
    ``commits`` counts the commits of each, ``attempts`` the fewest and the most tries of its commits.
    ``rows`` are those of the table at the end, None where there are more than are compared; of a catalog,
    those of each table that was used. ``orders`` counts the orders that end so, and ``order`` is a shortest
    one, as the names of the writers turn by turn; ``number`` is what :meth:`Exploration.replay` takes for it,
    and ``turns`` what happens in it. ``holds`` says whether the invariant holds at the end; None without one.
    """

    committed: tuple[str, ...]
    failed: Mapping[str, str]
    rules: Mapping[str, str]
    commits: Mapping[str, int]
    attempts: Mapping[str, tuple[int, int]]
    rows: pa.Table | Mapping[str, pa.Table | None] | None
    orders: int
    order: tuple[str, ...]
    number: int
    turns: tuple[Taken, ...] = field(compare=False, default=())
    holds: bool | None = None
    errors: Mapping[str, BaseException] = field(compare=False, default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{name} committed" + (f" {count} times" if (count := self.commits[name]) > 1 else "")
                 for name in self.committed[:MAX_NAMES]]
        for name, kind in itertools.islice(self.failed.items(), MAX_NAMES):
            rule = f" ({self.rules[name]})" if name in self.rules else ""
            parts.append(f"{name} failed: {kind}{rule}")
        if more := len(self.committed) + len(self.failed) - len(parts):
            parts.append(f"and {more} more")
        return ", ".join(parts) or "nobody committed anything"

    def __repr__(self) -> str:
        return f"<Outcome of {units.count(self.orders, 'order')}: {self}>"


@dataclass(frozen=True)
class State:
    """A state that turns lead through: after how many of them at least, the states that the next turn of each
    writer leads to, by their place in :attr:`Exploration.states`, whether the invariant does not hold, the
    outcomes that it is the end of, by their place in :attr:`Exploration.outcomes`, and whether all writers
    have ended: where they have not and ``after`` is empty, what follows is not drawn."""

    depth: int
    after: tuple[tuple[str, int], ...]
    breaks: bool = False
    outcomes: tuple[int, ...] = ()
    is_end: bool = False


@dataclass(frozen=True, repr=False)
class Violation:
    """A state in which the invariant does not hold, with a shortest order that leads there.

    ``version`` is the version of the table with which it ceases to hold; ``answer`` is what the invariant
    gave, or the exception that it raised.
    """

    version: int
    order: tuple[str, ...]
    number: int
    turns: tuple[Taken, ...] = field(compare=False)
    answer: Any = field(compare=False, default=False)

    @property
    def place(self) -> str:
        """The number of the version, or of the transaction of a catalog, as it is written."""
        return self.turns[-1].place if self.turns else f"v{self.version}"

    def __str__(self) -> str:
        lines = [f"  {at}. {turn}" for at, turn in enumerate(self.turns, 1)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Violation with {self.place}, by the order {in_short(self.order)} (number {self.number})>"


TABLES_OWN = "each table's own level"
"""The level of a catalog's tables, where none is given."""


@answer_wrong_arguments(only=("replay", "compare", "play"))
@dataclass(frozen=True, repr=False)
class Exploration(Displayable):
    """What writers can do to each other on a table: every order of their turns, or a part of them.

    ``outcomes`` are the ways in which it can end, the most frequent first; ``violations`` the states in which
    the invariant does not hold, those after fewest turns first. ``num_orders`` counts the orders, and
    ``num_states`` the states that they lead through, of which each was looked at once. ``left_out`` says what
    was not explored because a limit was reached; "" if nothing. ``isolation`` is the level of the table, and
    ``row_level`` how closely commits look at rows.

    >>> import deltanb as dn
    >>> table = dn.create("explored", {"id": [1]})
    >>> add = lambda table: table.append({"id": [2]})
    >>> exploration = dn.explore(table, {"a": add, "b": add})
    >>> exploration.num_orders, [outcome.committed for outcome in exploration.outcomes]
    (6, [('a', 'b')])
    """

    table: str
    writers: tuple[str, ...]
    isolation: str
    outcomes: tuple[Outcome, ...]
    violations: tuple[Violation, ...]
    num_orders: int
    num_states: int
    num_runs: int
    """How often writers were run."""
    left_out: str = ""
    invariant: str = ""
    is_sampled: bool = False
    played: Callable[[int], tuple[tuple[Taken, ...], list[Any]]] | None = field(
        compare=False, default=None)
    """For the number of an order: its turns, and the rows before the first and after each."""
    states: tuple[State, ...] = field(compare=False, default=(), repr=False)
    """The states that are drawn, the one before all turns first: all of them or, of a sample and where there
    are too many, those on the way to the violations and to outcomes, as many as a page plays."""
    request: Any = field(compare=False, default=None, repr=False)
    """What was asked (:class:`~deltanb.observe.explore.request.Request`): it can be asked again."""
    row_level: str = "off"

    @property
    def holds(self) -> bool | None:
        """Whether the invariant holds in every state; None without an invariant.

        >>> import deltanb as dn
        >>> table = dn.create("held", {"id": [1]})
        >>> add = lambda table: table.append({"id": [2]})
        >>> dn.explore(table, {"a": add, "b": add}, invariant="id > 0").holds
        True
        """
        return not self.violations if self.invariant else None

    def check(self) -> Exploration:
        """The exploration itself if the invariant holds everywhere: one line of a test.

        Raises:
            InvariantViolated: it does not; with a shortest order, and the number by which it can be replayed.
            InvalidArgument: there is no invariant.

        >>> import deltanb as dn
        >>> table = dn.create("account", {"id": [1], "balance": [100]})
        >>> def withdraw(table):
        ...     balance = table.to_arrow()["balance"][0].as_py()
        ...     table.update({"balance": str(balance - 60)}, "id = 1")
        >>> dn.explore(table, [withdraw], invariant="balance >= 0").check().num_orders
        1
        """
        if not self.invariant:
            raise InvalidArgument(
                "there is nothing to check: explore was given no invariant; write it like "
                'dn.explore(table, writers, invariant="balance >= 0").check()')
        if self.violations:
            first = self.violations[0]
            ways = units.count(len(self.violations), "way")
            raise InvariantViolated(
                f"{self.invariant} breaks in {ways} under {self.isolation}. A shortest order that breaks it, "
                f"with {first.place} (replay({first.number})):\n{first}",
                number=first.number, order=first.order, version=first.version)
        return self

    def replay(self, number: int | Outcome | Violation) -> tuple[Taken, ...]:
        """What happens in an order, given by its number, or as that of an outcome or a violation.

        Raises:
            InvalidArgument: no number of an order.

        >>> import deltanb as dn
        >>> table = dn.create("ducks", {"id": [1, 2]})
        >>> both = {"ann": lambda t: t.append({"id": [3]}), "ben": lambda t: t.delete("id = 1")}
        >>> exploration = dn.explore(table, both)
        >>> lost = next(one for one in exploration.outcomes if "ben" in one.failed)
        >>> print(*exploration.replay(lost.number), sep="; ")
        ann reads v0; ben reads v0; ann commits v1 (WRITE); ben tries v1 (DELETE), fails: append
        """
        number = _number_of("replay", number)
        assert self.played is not None
        return self.played(number)[0]

    def play(self, number: int | Outcome | Violation | None = None) -> Play:
        """An order turn by turn, with the rows of the table at each; a notebook shows it with buttons.

        It is that of a number, of an outcome or of a violation; by default one that breaks the invariant or,
        where none does, one of the most frequent outcome.

        Raises:
            InvalidArgument: no number of an order.

        >>> import deltanb as dn
        >>> table = dn.create("lake", {"id": [1]})
        >>> play = dn.explore(table, {"ann": lambda t: t.append({"id": [2]})}).play()
        >>> [moment.rows.num_rows for moment in play.moments]
        [1, 1, 2]
        """
        from deltanb.observe.explore.play import Play
        from deltanb.observe.explore.states import path_of

        if number is None:
            number = (self.violations or self.outcomes)[0].number if self.outcomes else 0
        number = _number_of("play", number)
        assert self.played is not None
        turns, rows = self.played(number)
        return Play(self.table, self.writers, turns, rows, number, self.states, path_of(self, turns))

    def remedies(self) -> tuple[Remedy, ...]:
        """What would keep the invariant, each change tried by exploring the same writers with it: the other
        isolation levels, each writer as one transaction of the table, each under one exclusive lock; of a
        catalog, the writers one after the other.

        Raises:
            InvalidArgument: there is no invariant.

        >>> import deltanb as dn
        >>> table = dn.create("vault", {"id": [1], "balance": [100]})
        >>> def withdraw(table):
        ...     if table.to_arrow()["balance"][0].as_py() >= 60:
        ...         table.update({"balance": "balance - 60"}, "id = 1")
        >>> exploration = dn.explore(table, {"ann": withdraw, "ben": withdraw}, invariant="balance >= 0")
        >>> for remedy in exploration.remedies():
        ...     print("✓" if remedy.holds else "✕", remedy.change)
        ✕ isolation='WriteSerializable'
        ✕ isolation='SnapshotIsolation'
        ✓ each writer as one transaction: with table.transaction() as txn
        ✓ each writer under a lock: with manager.new_transaction() as txn: txn.lock_exclusive(1, b'vault')
        """
        from deltanb.observe.explore.remedies import remedies_of

        if not self.invariant:
            raise InvalidArgument("there is nothing to keep: explore was given no invariant")
        return tuple(remedies_of(self))

    def compare(
        self, isolation: str | Sequence[str] | None = None, row_level: str | Sequence[str] | None = None
    ) -> LevelComparison:
        """The same writers under other isolation levels, row levels or both, side by side; under all
        isolation levels if none is named.

        >>> import deltanb as dn
        >>> table = dn.create("geese", {"id": [1, 2]})
        >>> both = {"ann": lambda t: t.append({"id": [3]}), "ben": lambda t: t.delete("id = 1")}
        >>> comparison = dn.explore(table, both).compare()
        >>> {level: len(one.outcomes) for level, one in comparison.explorations.items()}
        {'Serializable': 2, 'WriteSerializable': 1, 'SnapshotIsolation': 1}
        >>> list(dn.explore(table, both).compare(["Serializable"], row_level=["off", "all"]).explorations)
        ['Serializable, off', 'Serializable, all']

        Raises:
            InvalidArgument: a level that does not exist.
        """
        from deltanb.observe.verdicts import LEVELS, require_isolation

        rows = [require_level(level) for level in _several(row_level)]
        isolations = [require_isolation(level) for level in _several(isolation)] or ([] if rows else LEVELS)
        compared: dict[str, Exploration] = {}
        for own in isolations or [self.isolation]:
            for row in rows or [self.row_level]:
                name = ", ".join([own] * bool(isolations) + [str(row)] * bool(rows))
                is_this = (own, row) == (self.isolation, self.row_level)
                changes = {"isolation": own} if isolations else {}
                changes |= {"row_level": str(row)} if rows else {}
                compared[name] = self if is_this else self.request.at(**changes).explore()
        return LevelComparison(self.table, compared)


@dataclass(frozen=True, repr=False)
class LevelComparison(Displayable):
    """Explorations of the same writers under several isolation levels, row levels or both, by level.

    >>> import deltanb as dn
    >>> table = dn.create("levels", {"id": [1]})
    >>> add = lambda table: table.append({"id": [2]})
    >>> levels = dn.explore(table, {"a": add, "b": add}).compare(["Serializable", "WriteSerializable"])
    >>> list(levels.explorations)
    ['Serializable', 'WriteSerializable']
    """

    table: str
    explorations: Mapping[str, Exploration]


def _several(names: str | Sequence[str] | None) -> Sequence[str]:
    return () if names is None else (names,) if isinstance(names, str) else names


def _number_of(method: str, order: Any) -> int:
    number = order.number if isinstance(order, Outcome | Violation) else order
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidArgument(f"{method} takes the number of an order, found {shown(number)}")
    return number


def in_short(order: Sequence[str]) -> str:
    """An order as the names of its writers, turns of one after the other counted.

    >>> in_short(["ann", "ann", "ben"])
    'ann ×2, ben'
    """
    parts = [(name, len(list(turns))) for name, turns in itertools.groupby(order)]
    words = [f"{name} ×{many}" if many > 1 else name for name, many in parts[:MAX_PARTS]]
    more = sum(many for _, many in parts[MAX_PARTS:])
    return ", ".join(words) + (f" and {units.count(more, 'more turn')}" if more else "")
