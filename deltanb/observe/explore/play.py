"""One order, played turn by turn: who does what, and the rows of the table then.

What lives here: :class:`Play`, a position in an order, and :class:`Moment`, what it shows.
What it does not know: how an order is replayed (``explore``), how it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument
from deltanb.text.display import Displayable, Interactive
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.observe.explore.exploration import State, Taken


@dataclass(frozen=True, repr=False)
class Moment(Displayable):
    """An order after some of its turns: ``at`` of ``turns``. ``rows`` are those of the table then, or of each
    table of a catalog by name. ``states`` are those of the exploration that are drawn, and ``path`` has their
    places before the first turn of the order and after each; it ends where the order leaves what is drawn.

    >>> from deltanb.observe.explore.exploration import Taken
    >>> print(Moment("pond", ("ann",), (Taken("ann", "reads", 0),), 1, None, 0))
    Order pond  turn 1 of 1  number 0
    ann reads v0
    Turns  one after the other; each writer in its column
       turn  ann
    ▶  1     reads v0
    Rows   more than are shown here
    """

    table: str
    writers: tuple[str, ...]
    turns: tuple[Taken, ...]
    at: int
    rows: Any
    number: int
    states: tuple[State, ...] = ()
    path: tuple[int, ...] = ()

    @property
    def state(self) -> State | None:
        """The state that the turns so far lead to; None where it is not drawn.

        >>> import deltanb as dn
        >>> table = dn.create("moor", {"id": [1]})
        >>> play = dn.explore(table, {"ann": lambda t: t.append({"id": [2]})}).play()
        >>> play.moment.state
        State(depth=0, after=(('ann', 1),), breaks=False, outcomes=(), is_end=False)
        """
        return self.states[self.path[self.at]] if self.at < len(self.path) else None

    @property
    def turn(self) -> Taken | None:
        """The last turn; None before the first one.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> print(Moment("pond", ("ann",), (Taken("ann", "reads", 0),), 0, None, 0).turn)
        None
        """
        return self.turns[self.at - 1] if self.at else None


@answer_wrong_arguments()
class Play(Interactive):
    """An order of an exploration, played turn by turn; a notebook shows it with buttons.

    >>> import deltanb as dn
    >>> table = dn.create("pond", {"id": [1, 2]})
    >>> both = {"ann": lambda t: t.append({"id": [3]}), "ben": lambda t: t.delete("id = 1")}
    >>> play = dn.explore(table, both).play()
    >>> print(play.next().turn, play.next().turn, sep="; ")
    ann reads v0; ann commits v1 (WRITE)
    >>> play.moment.rows["id"].to_pylist(), play.last().rows["id"].to_pylist()
    ([1, 2, 3], [2, 3])
    """

    def __init__(
        self, table: str, writers: Sequence[str], turns: Sequence[Taken], rows: Sequence[Any], number: int,
        states: Sequence[State] = (), path: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._moments = tuple(
            Moment(table, tuple(writers), tuple(turns), at, some, number, tuple(states), tuple(path))
            for at, some in enumerate(rows))
        self.position = 0
        """How many turns have been taken."""

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The order before its first turn, and after each.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> [str(moment.turn) for moment in play.moments]
        ['None', 'ann reads v0', 'ann commits v1 (WRITE)']
        """
        return self._moments

    @property
    def moment(self) -> Moment:
        """What is shown.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> play.moment.at, play.position
        (0, 0)
        """
        return self._moments[self.position]

    def move(self, position: int) -> Moment:
        """Show the order after so many turns, or as many as there are.

        Raises:
            InvalidArgument: no number of turns.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> play.move(7).at
        2
        """
        if isinstance(position, bool) or not isinstance(position, int):
            raise InvalidArgument(f"move takes a number of turns, found {position!r}")
        self.position = min(max(position, 0), len(self._moments) - 1)
        self._call_listeners()
        return self.moment

    def first(self) -> Moment:
        """Show it before its first turn.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> play.last().at, play.first().at
        (2, 0)
        """
        return self.move(0)

    def back(self) -> Moment:
        """Show it one turn earlier.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> play.last().at, play.back().at
        (2, 1)
        """
        return self.move(self.position - 1)

    def next(self) -> Moment:
        """Show it one turn later.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> print(play.next().turn)
        ann reads v0
        """
        return self.move(self.position + 1)

    def last(self) -> Moment:
        """Show it after its last turn.

        >>> from deltanb.observe.explore.exploration import Taken
        >>> turns = Taken("ann", "reads", 0), Taken("ann", "commits", 1, "WRITE")
        >>> play = Play("pond", ["ann"], turns, [None] * 3, 0)
        >>> print(play.last().turn)
        ann commits v1 (WRITE)
        """
        return self.move(len(self._moments) - 1)
