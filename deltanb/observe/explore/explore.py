"""Every order of some writers' turns on a table, and what comes of each.

What lives here: :func:`explore`.
What it does not know: how a writer is run for one turn (``programs``), how states are searched (``search``).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError, IllegalStateError, InvalidArgument
from deltanb.observe.bisect.invariants import Invariant, invariant_of, truth
from deltanb.observe.explore.exploration import Exploration, Outcome, State, Taken, Violation
from deltanb.observe.explore.places import ONLY, TablePlace
from deltanb.observe.explore.programs import Local, Looked, Program
from deltanb.observe.explore.search import Graph, Node, Search, clock
from deltanb.observe.turns import Work, named
from deltanb.observe.verdicts import LEVELS
from deltanb.table.table import DeltaTable
from deltanb.text import formatting as units
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.drive import watching

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltanb.catalog.catalog import Catalog
    from deltanb.sql.conditions import Where

__all__ = ["explore"]

MAX_STATES = 100_000
SECONDS = 60.0
MAX_DRAWN = 300
"""States of which a graph is drawn."""


@answer_wrong_arguments()
def explore(
    table: DeltaTable | Catalog,
    writers: Sequence[Work] | Mapping[str, Work],
    invariant: Callable[[Any], Any] | Where | None = None,
    isolation: str | None = None,
    orders: int | None = None,
    seed: int | None = None,
    *,
    depth: int | None = None,
    seconds: float = SECONDS,
    max_states: int = MAX_STATES,
) -> Exploration:
    """Let writers take their turns in every order, and say what can come of it; the table stays as it is.

    A writer is a callable that takes the table, as for :func:`~deltanb.observe.race.race`: commands,
    transactions by hand or as blocks, :func:`~deltanb.locks.tables.retrying.retry`, several commits one after
    the other. Each works on a copy in memory. A turn is one of two: a statement or a transaction reads the
    newest version, or it tries to commit, and if others were faster checks what they did. All orders of such
    turns are
    explored, though few are gone through: those that lead to the same state go on alike.

    What a writer sees is the table alone: the time stands still, waiting takes no time, and what ``random``
    draws is the same at every run. It is run many times, and so does nothing beside the table that matters.

    Args:
        table: a table at its newest version, or a catalog. On a catalog a writer gets a transaction, which is
            committed when the writer returns; its turns are to begin, and to have it ratified.
        writers: by name, or in a list, of which each is called as its function.
        invariant: what should hold in every version: a condition on each row, a query with one value, or a
            function of the table that returns whether it holds. It may only read.
        isolation: the level that the table has meanwhile; its own by default.
        orders: draw so many orders in place of going through all of them.
        seed: by which they are drawn, and what ``random`` draws in writers; 0 by default.
        depth: draw orders by priorities that change ``depth - 1`` times (PCT: Burckhardt and others, "A
            randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).
        seconds, max_states: where to stop; what was left out is said in ``left_out``.

    Returns:
        The outcomes, with an order for each, and the states that break the invariant.

    Raises:
        InvalidArgument: no table, no writers, a level that a table cannot have, an invariant that is none.
        IllegalStateError: a writer that does not do the same when it is run again, that commits to other
            tables or uses threads, that never ends, or a table that is pinned to a version.

    >>> import deltanb as dn
    >>> table = dn.create("account", {"id": [1], "balance": [100]})
    >>> def withdraw(table):
    ...     balance = table.to_arrow()["balance"][0].as_py()
    ...     table.update({"balance": str(balance - 60)}, "id = 1")
    >>> exploration = dn.explore(table, {"ann": withdraw, "ben": withdraw}, invariant="balance >= 0")
    >>> exploration.num_orders, exploration.holds, table.version
    (20, False, 0)
    >>> print(exploration.violations[0])
      1. ann reads v0
      2. ann reads v0
      3. ann commits v1 (UPDATE)
      4. ben reads v1
      5. ben reads v1
      6. ben commits v2 (UPDATE)
    """
    _number("seconds", seconds, float)
    _number("max_states", max_states, int)
    if orders is not None or depth is not None:
        orders = 1000 if orders is None else _number("orders", orders, int)
        depth = None if depth is None else _number("depth", depth, int)
    bounds = {"orders": orders, "depth": depth, "seconds": seconds, "max_states": max_states}
    return _explored(table, named(writers), invariant, seed, bounds, isolation)


def _explored(
    table: Any, writers: Mapping[str, Work], invariant: Any, seed: int | None, bounds: Mapping[str, Any],
    isolation: str | None, is_serial: bool = False,
) -> Exploration:
    """An exploration within bounds; a serial one gives each writer all its turns at a time."""
    asked = _Asked(table, writers, invariant, isolation, seed)
    asked.again = partial(_again, {**asked.arguments, "bounds": bounds, "isolation": isolation})
    if bounds["orders"] is not None and not is_serial:
        return asked.drawn(bounds["orders"], bounds["depth"], bounds["seconds"])
    return asked.everything(bounds["max_states"], bounds["seconds"], is_serial)


def _again(arguments: Mapping[str, Any], **changes: Any) -> Exploration:
    """The same exploration, with changes."""
    return _explored(**{**arguments, **changes})


def _place(table: Any, isolation: str | None) -> Any:
    """What is explored.

    Raises:
        InvalidArgument: neither a table nor a catalog.
        IllegalStateError: the table is pinned to a version.
    """
    if isinstance(table, DeltaTable) and not hasattr(table.log, "below"):
        return TablePlace(table, isolation)
    catalogs = sys.modules.get("deltanb.catalog.catalog")  # a caller with a catalog has loaded it
    if catalogs is not None and isinstance(table, catalogs.Catalog):
        from deltanb.observe.explore.lakes import CatalogPlace

        return CatalogPlace(table, isolation)
    raise InvalidArgument(
        f"explore takes a table or a catalog, found {type(table).__name__}; write it like "
        "dn.explore(dn.open(path), writers)")


def _number(name: str, value: Any, kind: type) -> Any:
    is_number = isinstance(value, int | float if kind is float else int) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value <= 0:
        raise InvalidArgument(f"{name}={shown(value)} is not a {'whole ' * (kind is int)}number above 0")
    return value


class _Asked:
    """One exploration under way."""

    def __init__(
        self, table: Any, works: Mapping[str, Work], invariant: Any, isolation: str | None,
        seed: int | None,
    ) -> None:
        self.works, self.seed = works, 0 if seed is None else seed
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InvalidArgument(f"seed={shown(seed)} is not a whole number")
        if isolation is not None and isolation not in LEVELS:
            raise InvalidArgument(f"isolation={shown(isolation)} is not one of {', '.join(LEVELS)}")
        self.place: Any = _place(table, isolation)
        is_one = isinstance(table, DeltaTable)
        self.invariant = None if invariant is None else invariant_of(invariant, is_one)
        self.arguments = {"table": table, "writers": works, "invariant": invariant, "seed": seed}
        self.programs = [Program(name, work, self.place, self.seed) for name, work in works.items()]
        self.search = Search(self.programs, self.place.root)
        self.turns = sum(program.rehearse() for program in self.programs)
        self.again: Callable[..., Exploration] | None = None
        self._answers: dict[str, Any] = {}
        self._rows: dict[str, tuple[str, Any]] = {}

    # -- all orders ------------------------------------------------------------------------------------

    def everything(self, max_states: int, seconds: float, is_serial: bool = False) -> Exploration:
        """All orders."""
        until = clock(seconds)
        graph = self._again(lambda: self.search.all(max_states, until, is_serial))
        ends = [node for node in graph.nodes if node.is_end and node.orders]
        outcomes = self._outcomes(ends, self.search.num_renamings > 1)
        left_out = graph.left_out and (
            f"{graph.left_out}: {units.count(len(graph.nodes), 'state')} were explored, and of "
            "the orders those that end among them")
        return self._exploration(
            outcomes, self._violations(graph), len(graph.nodes), left_out, states=self._states(graph))

    def _again(self, search: Callable[[], Any]) -> Any:
        """The result of a search, which begins anew where a writer has to be known more precisely."""
        while True:
            try:
                return search()
            except Looked as looked:
                for program in self.programs:
                    if program.name == looked.args[0]:
                        program.know_precisely()

    # -- some orders -----------------------------------------------------------------------------------

    def drawn(self, orders: int, depth: int | None, seconds: float) -> Exploration:
        until, lots = clock(seconds), Random(self.seed)
        ends: list[Node] = []
        broken: dict[str, Node] = {}
        length = self.turns
        states: set[int] = set()
        stopped = ""
        try:
            while len(ends) < orders and not stopped:
                nodes = self._again(lambda: self._draw(lots, depth, length))
                ends.append(nodes[-1])
                states.update(id(local) for node in nodes for local in node.locals)
                for node in nodes:
                    if self._breaks(node):
                        broken.setdefault(node.world.digest, node)
                stopped = "the time was over" if until() else ""
        except KeyboardInterrupt:
            stopped = "it was interrupted"
        for node in ends:
            node.orders, node.tries = 1, self._tries(node)
        violations = sorted(map(self._violation, broken.values()), key=lambda one: len(one.order))
        left_out = f"{units.count(len(ends), 'order')} were drawn (seed {self.seed})"
        if stopped:
            left_out += f", and no more because {stopped}"
        if depth is not None:
            chance = 1 / (len(self.programs) * max(length, 1) ** (depth - 1))
            left_out += (f"; what {units.count(depth, 'turn')} in one order break is met by each of them "
                         f"with a probability of {chance:.2g} at least")
        return self._exploration(
            self._outcomes(ends, False), violations, len(states), left_out, is_sampled=True)

    def _draw(self, lots: Random, depth: int | None, length: int) -> list[Node]:
        """The states of an order that is drawn: turn by turn, or by priorities that change."""
        nodes = [self.search.start()]
        ranks = list(range(len(self.programs)))
        lots.shuffle(ranks)
        changes = set() if depth is None else set(lots.sample(range(length), min(depth - 1, length)))
        lowest = -1
        for at in itertools.count():
            ready = nodes[-1].ready
            if not ready:
                return nodes
            if depth is None:
                place = lots.choice(ready)
            else:
                place = max(ready, key=lambda one: ranks[one])
                if at in changes:
                    ranks[place], lowest = lowest, lowest - 1
                    place = max(ready, key=lambda one: ranks[one])
            nodes.append(self.search.after(nodes[-1], place))
        raise AssertionError

    def _tries(self, node: Node) -> tuple[tuple[int, int], ...]:
        counts = [0] * len(self.programs)
        while node.before is not None:
            node, place = node.before
            turn = node.locals[place].turn
            counts[place] += turn is not None and turn.kind == "put"
        return tuple((count, count) for count in counts)

    # -- what came of them -----------------------------------------------------------------------------

    def _exploration(
        self, outcomes: Sequence[Outcome], violations: Sequence[Violation], num_states: int, left_out: str,
        is_sampled: bool = False, states: tuple[State, ...] = (),
    ) -> Exploration:
        return Exploration(
            self.place.name, tuple(self.works), self.place.isolation, tuple(outcomes), tuple(violations),
            sum(one.orders for one in outcomes), num_states, sum(program.runs for program in self.programs),
            left_out, "" if self.invariant is None else self.invariant.text, is_sampled, self._played,
            self.again, states, self.arguments)

    def _states(self, graph: Graph) -> tuple[State, ...]:
        """The states as they are drawn, if they are few."""
        if len(graph.nodes) > MAX_DRAWN:
            return ()
        places = {id(node): at for at, node in enumerate(graph.nodes)}
        return tuple(
            State(len(node.path), tuple((self.programs[place].name, places[id(other)]) for place, other in
            node.after),
                  self._answer(node.world) is not True) for node in graph.nodes)

    def _played(self, number: int) -> tuple[tuple[Taken, ...], list[Any]]:
        """The turns of an order, and the rows before the first and after each."""
        nodes = self._again(lambda: self.search.of_number(number))
        return tuple(self._taken(nodes)), [self._rows_of(node.world)[1] for node in nodes]

    def _outcomes(self, ends: Iterable[Node], is_renamed: bool) -> list[Outcome]:
        """The outcomes of the states in which all have ended, the most frequent first."""
        kinds: dict[Any, list[Any]] = {}
        for node in ends:
            rows = self._rows_of(node.world)[0]
            for names in self._renamings() if is_renamed else [list(range(len(self.programs)))]:
                ended = tuple(_ended(node.locals[place]) for place in names)
                tries = tuple(node.tries[place] for place in names)
                kind = kinds.setdefault((ended, rows), [node, names, 0, tries])
                kind[2] += node.orders
                kind[3] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(kind[3], tries, strict=True))
        outcomes = [self._outcome(*kind) for kind in kinds.values()]
        return sorted(outcomes, key=lambda one: -one.orders)

    def _renamings(self) -> Iterator[list[int]]:
        """For each way to exchange writers that do the same: whose part each of them has."""
        groups = self.search.groups
        for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
            names = list(range(len(self.programs)))
            for group, part in zip(groups, parts, strict=True):
                for place, other in zip(group, part, strict=True):
                    names[place] = other
            yield names

    def _outcome(
        self, node: Node, names: list[int], orders: int, tries: tuple[tuple[int, int], ...]
    ) -> Outcome:
        """``names`` has for each writer whose part it has."""
        own = {part: place for place, part in enumerate(names)}
        order = [own[place] for place in node.path]
        nodes = self.search.of_order(order)
        writers = dict(zip(self.works, nodes[-1].locals, strict=True))
        errors = {name: local.error for name, local in writers.items() if local.error is not None}
        rules = {name: conflict.rule for name, error in errors.items()
                 if (conflict := getattr(error, "conflict", None)) is not None}
        answer = self._answer(nodes[-1].world)
        return Outcome(
            tuple(name for name, local in writers.items() if local.error is None and local.commits),
            {name: _kind(error) for name, error in errors.items()}, rules,
            {name: local.commits for name, local in writers.items()},
            dict(zip(self.works, tries, strict=True)), self._rows_of(nodes[-1].world)[1], orders,
            tuple(self.programs[place].name for place in order), self.search.number_of(order),
            tuple(self._taken(nodes)), None if self.invariant is None else answer is True, errors)

    def _taken(self, nodes: Sequence[Node]) -> Iterator[Taken]:
        """What happens between states that follow each other."""
        for node in nodes[1:]:
            assert node.before is not None
            before, place = node.before
            local, after = before.locals[place], node.locals[place]
            turn, name = local.turn, self.programs[place].name
            assert turn is not None
            mark = self.place.mark
            if turn.kind == "read":
                yield Taken(name, "reads", node.world.version, mark=mark)
                continue
            new = after.conflicts[len(local.conflicts):]
            did = "commits" if node.world is not before.world else "fails" if new else "goes on"
            version = node.world.version if did == "commits" else before.world.version + (mark == "#")
            if ONLY in turn.next:
                version = turn.next[ONLY]
            yield Taken(name, did, version, turn.attempted.operation,
                        getattr(new[0], "rule", type(new[0]).__name__) if new else "", mark)

    # -- the table in a state --------------------------------------------------------------------------

    def _rows_of(self, world: Any) -> tuple[str, Any]:
        """A text for the rows of a world, and the rows."""
        if world.digest not in self._rows:
            self._rows[world.digest] = self.place.rows(world)
        return self._rows[world.digest]

    def _answer(self, world: Any) -> Any:
        """True where the invariant holds, else what it gave or raised."""
        if self.invariant is None:
            return True
        if world.digest not in self._answers:
            self._answers[world.digest] = _ask(self.invariant, self.place.still(world))
        return self._answers[world.digest]

    def _breaks(self, node: Node) -> bool:
        """Whether the invariant ceases to hold with the commit that leads to a state."""
        world = node.world
        return self._answer(world) is not True and (
            node.before is None or (node.before[0].world is not world
                                    and self._answer(node.before[0].world) is True))

    def _violations(self, graph: Graph) -> list[Violation]:
        """A violation for each table that breaks the invariant, by a shortest order."""
        if self.invariant is None:
            return []
        broken: dict[str, Node] = {}
        for node in graph.nodes:
            if self._breaks(node):
                broken.setdefault(node.world.digest, node)
        return [self._violation(node) for node in broken.values()]

    def _violation(self, node: Node) -> Violation:
        order = node.path
        nodes = self.search.of_order(order)
        return Violation(
            node.world.version, tuple(self.programs[place].name for place in order),
            self.search.number_of(order), tuple(self._taken(nodes)), self._answer(node.world))


def _ask(invariant: Invariant, place: Any) -> Any:
    """True, or what the invariant gave or asserted in place of it.

    Raises:
        IllegalStateError: it writes to a table.
        InvalidArgument: it fails, or says neither.
    """
    context = copy_context()
    context.run(watching.set, _refuse_to_write)
    try:
        answer = context.run(invariant.ask, place)
        return True if truth(answer) else answer
    except AssertionError as error:
        return error
    except DeltaError:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"the invariant, {invariant.text}, fails with {type(error).__name__}: {error}. It is asked of "
            "every version that an order can lead to, and says whether it holds there") from error


def _refuse_to_write(txn: Any, step: Any) -> None:
    raise IllegalStateError(
        f"the invariant commits to {getattr(txn, 'table', 'a catalog')}; it may only read. Nothing was "
        "written")


def _kind(error: BaseException) -> str:
    return error.kind if isinstance(error, DeltaError) else type(error).__name__


def _ended(local: Local) -> tuple[Any, ...]:
    """How a writer has ended, as far as outcomes are told apart by it."""
    error = local.error
    conflict = getattr(error, "conflict", None)
    return local.commits, None if error is None else (_kind(error), getattr(conflict, "rule", str(error)))
