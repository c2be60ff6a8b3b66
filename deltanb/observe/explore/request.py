"""What is asked of an exploration, and how it is answered: states are searched, and ends told apart.

What lives here: :class:`Request`, which can be asked again with changes.
What it does not know: how a writer is run for one turn (``programs``), how states are searched (``search``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from deltanb.errors import DeltaError, IllegalStateError, InvalidArgument, LockFailure
from deltanb.locks.core.modes import MODE_NAMES, label
from deltanb.observe.bisect.invariants import Invariant, invariant_of, truth
from deltanb.observe.explore.exploration import Exploration, Outcome, State, Taken, Violation
from deltanb.observe.explore.locking import LockRequest, Managers
from deltanb.observe.explore.places import ONLY, TablePlace
from deltanb.observe.explore.programs import Local, Looked, Place, Program, how_it_ended, kind_of, rule_of
from deltanb.observe.explore.search import Graph, Node, Search, clock, key_of, number_of, widened
from deltanb.observe.explore.states import MAX_DRAWN, MAX_PLAYED, along, whole
from deltanb.observe.explore.worlds import Levels
from deltanb.observe.turns import Work, is_catalog
from deltanb.store.read_only import refusing
from deltanb.table.table import DeltaTable
from deltanb.text import formatting as units
from deltanb.transaction.drive import watching

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Request:
    """What :func:`~deltanb.observe.explore.explore.explore` is asked; ``orders`` is None for all of them."""

    table: Any
    writers: Mapping[str, Work]
    invariant: Any
    levels: Levels
    seed: int
    orders: int | None
    depth: int | None
    seconds: float
    max_states: int
    is_serial: bool = False
    """Whether each writer takes all its turns at a time."""

    @property
    def is_about_one_table(self) -> bool:
        """Whether it is about a table, and not about a catalog."""
        return isinstance(self.table, DeltaTable)

    def at(self, **levels: str) -> Request:
        """The same at other levels."""
        return replace(self, levels=replace(self.levels, **levels))

    def explore(self) -> Exploration:
        """The answer."""
        exploring = _Exploring(self)
        if self.orders is None or self.is_serial:
            return exploring.everything()
        return exploring.drawn(self.orders)


def _place(table: Any, levels: Levels) -> Place:
    """What is explored.

    Raises:
        InvalidArgument: neither a table nor a catalog.
        IllegalStateError: the table is pinned to a version.
    """
    if isinstance(table, DeltaTable) and not hasattr(table.log, "below"):
        return TablePlace(table, levels)
    if is_catalog(table):
        table.require_for("explore")
        from deltanb.observe.explore.lakes import CatalogPlace

        return CatalogPlace(table, levels)
    raise InvalidArgument(
        f"explore takes a table or a catalog, found {type(table).__name__}; write it like "
        "dn.explore(dn.open(path), writers)")


class _Exploring:
    """An exploration under way."""

    def __init__(self, request: Request) -> None:
        self.request, self.names, self.seed = request, tuple(request.writers), request.seed
        self.place = _place(request.table, request.levels)
        asked = request.invariant
        self.invariant = None if asked is None else invariant_of(asked, request.is_about_one_table)
        managers = Managers(self.names)
        self.programs = [Program(name, work, self.place, self.seed, managers)
                         for name, work in request.writers.items()]
        self.search = Search(self.programs, self.place.root)
        self.turns = sum(program.rehearse() for program in self.programs)
        self._answers: dict[str, Any] = {}
        self._rows: dict[str, tuple[str, Any]] = {}

    # -- all orders ------------------------------------------------------------------------------------

    def everything(self) -> Exploration:
        """All orders."""
        until, request = clock(self.request.seconds), self.request
        graph = self._completed(lambda: self.search.all(request.max_states, until, request.is_serial))
        ends = [node for node in graph.nodes if node.is_end and node.orders]
        outcomes, endings = self._outcomes(ends, self.search.num_renamings > 1)
        left_out = graph.left_out and (
            f"{graph.left_out}: {units.count(len(graph.nodes), 'state')} were explored, and the orders that "
            "end there")
        violations = self._violations(graph)
        if len(graph.nodes) > MAX_DRAWN:
            states = self._along(outcomes, violations, endings)
        else:
            places: dict[int, list[int]] = {}
            for at, ids in enumerate(endings.values()):
                for end in ids:
                    places.setdefault(end, []).append(at)
            states = whole(graph.nodes, self.names, self._is_broken, places)
        return self._exploration(outcomes, violations, len(graph.nodes), left_out, states)

    def _completed(self, search: Callable[[], T]) -> T:
        """The result of a search, which begins anew where a writer has to be known more precisely."""
        while True:
            try:
                return search()
            except Looked as looked:
                looked.program.know_precisely()

    def _followed(self, order: Sequence[int]) -> list[Node]:
        """The states of an order. It may be one that nobody has gone yet: that of writers who do the same."""
        return self._completed(lambda: self.search.of_order(order))

    # -- some orders -----------------------------------------------------------------------------------

    def drawn(self, orders: int) -> Exploration:
        """So many orders that are drawn."""
        until, lots, depth = clock(self.request.seconds), Random(self.seed), self.request.depth
        ends: list[Node] = []
        broken: dict[str, Node] = {}
        length = self.turns
        states: set[object] = set()
        stopped = ""
        try:
            while len(ends) < orders and not stopped:
                nodes = self._completed(lambda: self._draw(lots, depth, length))
                ends.append(nodes[-1])
                states.update(map(key_of, nodes))
                for node in nodes:
                    if self._breaks(node):
                        broken.setdefault(node.world.digest, node)
                stopped = "the time was over" if until() else ""
        except KeyboardInterrupt:
            stopped = "it was interrupted"
        for node in ends:
            node.orders, node.tries = 1, self._tries(node)
        violations = sorted(map(self._violation, broken.values()), key=lambda one: len(one.order))
        were = "was" if len(ends) == 1 else "were"
        left_out = f"{units.count(len(ends), 'order')} {were} drawn (seed {self.seed})"
        if stopped:
            left_out += f", and no more because {stopped}"
        if depth is not None:
            chance = 1 / (len(self.programs) * max(length, 1) ** (depth - 1))
            left_out += (f"; what {units.count(depth, 'turn')} in one order break is met by each with "
                         f"probability {chance:.2g} or more")
        outcomes, endings = self._outcomes(ends, False)
        return self._exploration(outcomes, violations, len(states), left_out,
                                 self._along(outcomes, violations, endings), is_sampled=True)

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
        states: tuple[State, ...], is_sampled: bool = False,
    ) -> Exploration:
        return Exploration(
            self.place.name, self.names, self.place.isolation, tuple(outcomes), tuple(violations),
            sum(one.orders for one in outcomes), num_states, sum(program.runs for program in self.programs),
            left_out, "" if self.invariant is None else self.invariant.text, is_sampled, self._played,
            states, self.request, self.place.row_level)

    def _along(
        self, outcomes: Sequence[Outcome], violations: Sequence[Violation], endings: Iterable[Any]
    ) -> tuple[State, ...]:
        """The states of the orders that are played: those that break the invariant, one of each outcome."""
        places = {ending: at for at, ending in enumerate(endings)}
        shown: list[tuple[Violation | Outcome, int | None]] = [(one, None) for one in violations]
        shown += [(one, at) for at, one in enumerate(outcomes)]

        def ways() -> Iterator[tuple[list[Node], int | None]]:
            for at, (one, outcome) in enumerate(shown[:MAX_PLAYED]):
                nodes = self._way(one, at == 0)
                if outcome is None and nodes[-1].is_end:
                    outcome = places.get(self._ending(nodes[-1], range(len(self.programs))))
                yield nodes, outcome

        return self._completed(lambda: along(ways(), self.names, self._is_broken))

    def _way(self, shown: Violation | Outcome, is_first: bool) -> list[Node]:
        """The states of an order that is played; of a sample the first order alone is followed beyond what
        was drawn, as that runs writers again."""
        if is_first or self.request.orders is None:
            return self.search.of_number(shown.number)
        places = {name: place for place, name in enumerate(self.names)}
        return self.search.of_order([places[name] for name in shown.order])

    def _played(self, number: int) -> tuple[tuple[Taken, ...], list[Any]]:
        """The turns of an order, and the rows before the first and after each."""
        nodes = self._completed(lambda: self.search.of_number(number))
        return tuple(self._taken(nodes)), [self._rows_of(node.world)[1] for node in nodes]

    def _outcomes(
        self, ends: Iterable[Node], is_renamed: bool
    ) -> tuple[list[Outcome], dict[Any, set[int]]]:
        """The outcomes of the states in which all have ended, the most frequent first; and, in their order,
        what each is told apart by, with the ids of the states that have it."""
        kinds: dict[Any, list[Any]] = {}
        for node in ends:
            for names in self._renamings() if is_renamed else [list(range(len(self.programs)))]:
                tries = tuple(node.tries[place] for place in names)
                kind = kinds.setdefault(self._ending(node, names), [node, names, 0, tries, set()])
                kind[2] += node.orders
                kind[3] = widened(kind[3], tries)
                kind[4].add(id(node))
        ordered = dict(sorted(kinds.items(), key=lambda one: -one[1][2]))
        return ([self._outcome(*kind[:4]) for kind in ordered.values()],
                {ending: kind[4] for ending, kind in ordered.items()})

    def _ending(self, node: Node, names: Iterable[int]) -> Any:
        """What outcomes are told apart by; ``names`` has for each writer whose part it has."""
        ended = tuple((node.locals[place].commits, how_it_ended(node.locals[place].error)) for place in names)
        return ended, self._rows_of(node.world)[0]

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
        nodes = self._followed(order)
        writers = dict(zip(self.names, nodes[-1].locals, strict=True))
        errors = {name: local.error for name, local in writers.items() if local.error is not None}
        rules = {name: rule for name, error in errors.items() if (rule := rule_of(error))}
        answer = self._answer(nodes[-1].world)
        return Outcome(
            tuple(name for name, local in writers.items() if local.error is None and local.commits),
            {name: kind_of(error) for name, error in errors.items()}, rules,
            {name: local.commits for name, local in writers.items()},
            dict(zip(self.names, tries, strict=True)), self._rows_of(nodes[-1].world)[1], orders,
            tuple(self.names[place] for place in order), number_of(nodes),
            tuple(self._taken(nodes)), None if self.invariant is None else answer is True, errors)

    def _taken(self, nodes: Sequence[Node]) -> Iterator[Taken]:
        """What happens between states that follow each other."""
        for node in nodes[1:]:
            assert node.before is not None
            before, place = node.before
            local, after = before.locals[place], node.locals[place]
            turn, name = local.turn, self.names[place]
            assert turn is not None
            mark = self.place.mark
            if turn.request is not None:
                yield self._locked(name, turn.request, before, node, after)
                continue
            if turn.kind == "read":
                yield Taken(name, "reads", node.world.version, mark=mark)
                continue
            new = after.conflicts[len(local.conflicts):]
            did = "commits" if node.world is not before.world else "fails" if new else "goes on"
            version = node.world.version if did == "commits" else before.world.version + (mark == "#")
            if ONLY in turn.next:
                version = turn.next[ONLY]
            yield Taken(name, did, version, turn.attempted.operation,
                        rule_of(new[0]) or type(new[0]).__name__ if new else "", mark)

    def _locked(
        self, name: str, request: LockRequest, before: Node, node: Node, after: Local
    ) -> Taken:
        """A turn that a writer asks for a lock in, or goes on with that after a wait."""
        waiting, error = node.locks.request_of(name), after.answer and after.answer.error
        refused = after.answer.rule if after.answer is not None and after.answer.is_refusal else ""
        did = "waits" if waiting is not None else "is refused" if refused else "locks"
        lock, mode = request.lock
        if waiting is not None:
            (_, lock), mode = waiting[0], waiting[1].requested
        elif isinstance(error, LockFailure):
            refused_lock = error.index_id, error.key
            lock, mode = next((one for one in request.locks if one[0] == refused_lock), request.lock)
        others = () if did == "locks" else before.locks.in_the_way((request.manager, lock), name)
        return Taken(name, did, node.world.version, rule=refused, mark=self.place.mark,
                     lock=f"{label(lock)} ({MODE_NAMES[mode]})", others=others)

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

    def _is_broken(self, world: Any) -> bool:
        return self._answer(world) is not True

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
        nodes = self._followed(order)
        return Violation(
            node.world.version, tuple(self.names[place] for place in order), number_of(nodes),
            tuple(self._taken(nodes)), self._answer(node.world))


def _ask(invariant: Invariant, place: Any) -> Any:
    """True, or what the invariant gave or asserted in place of it.

    Raises:
        IllegalStateError: it writes to a table.
        InvalidArgument: it fails, or says neither.
    """
    context = copy_context()
    context.run(watching.set, _refuse_to_write)
    context.run(refusing.set, _may_only_read)
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
    raise _may_only_read(str(getattr(txn, "table", "a catalog")))


def _may_only_read(place: str) -> BaseException:
    return IllegalStateError(f"the invariant writes to {place}; it may only read. Nothing was written")
