"""The graph of states that turns lead through, and what is counted in it.

What lives here: :class:`Node`, a state; :class:`Search`, which finds all that turns can lead to, or follows
one order.
What it does not know: how a writer is run (``programs``), what an outcome is called.

A state is a table and where each writer stands. Orders that lead to the same state go on alike, so the graph
has each state once: turns that do not disturb each other are not permuted, and how many orders lead through a
state is counted without going through them. Writers that do the same work are told apart by who begins first,
so one order stands for all that differ in their names alone. Every turn leads further: there is no circle.

An order has a number: with one of its turns after the other, the remainder of the number says which of the
writers that still have a turn takes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import factorial, prod
from typing import Any

from deltanb.observe.explore.locking import NOTHING_LOCKED, Asking, Locks
from deltanb.observe.explore.programs import Local, Program


@dataclass(eq=False)
class Node:
    """A state: the table, where the writers stand, and what they have locked."""

    world: Any
    locals: tuple[Local, ...]
    before: tuple[Node, int] | None = None
    """The state before it in a shortest order that leads here, and the writer whose turn it was."""
    after: list[tuple[int, Node]] = field(default_factory=list)
    """For each writer whose turn was looked at: the state that it leads to."""
    orders: int = 0
    """How many orders lead here."""
    tries: tuple[tuple[int, int], ...] = ()
    """The fewest and the most tries to commit of each writer in them."""
    locks: Locks = NOTHING_LOCKED

    @property
    def is_end(self) -> bool:
        """Whether all writers have ended."""
        return not self.ready

    @property
    def ready(self) -> list[int]:
        """The writers that have a turn. Who waits for a lock has none before it is granted; where nobody else
        has one, those who wait have it to give up: first those who do not wait for ever."""
        going = [place for place, local in enumerate(self.locals) if local.turn is not None]
        waiting = {place: asking for place in going if (asking := self._asking(self.locals[place]))}
        if len(waiting) < len(going):
            return [place for place in going if place not in waiting]
        return [place for place in going if not waiting[place].is_endless] or going

    def _asking(self, local: Local) -> Asking | None:
        """The request that a writer waits for still."""
        if not local.is_waiting:
            return None
        assert local.turn is not None and local.turn.request is not None
        waiting = self.locks.request_of(local.turn.request.who.writer)
        return waiting and waiting[1]

    @property
    def path(self) -> list[int]:
        """The writers of a shortest order that leads here."""
        steps: list[int] = []
        node: Node = self
        while node.before is not None:
            node, place = node.before
            steps.append(place)
        return steps[::-1]


@dataclass
class Graph:
    """The states that were found, nearer ones first; ``left_out`` says which limit ended the search."""

    nodes: list[Node]
    left_out: str = ""


class Search:
    """The states of some writers that begin on a table."""

    def __init__(self, programs: Sequence[Program], root: Any) -> None:
        self.programs, self.root = tuple(programs), root
        self._twins = [next((other for other in range(place - 1, -1, -1)
                             if programs[other].work is program.work), None)
                       for place, program in enumerate(programs)]

    @property
    def groups(self) -> list[list[int]]:
        """The writers by their work."""
        groups: dict[int, list[int]] = {}
        for place, program in enumerate(self.programs):
            groups.setdefault(id(program.work), []).append(place)
        return list(groups.values())

    @property
    def num_renamings(self) -> int:
        """How many orders one order stands for, since several writers do the same work."""
        return prod(factorial(len(group)) for group in self.groups)

    def start(self) -> Node:
        """Before all turns."""
        return Node(self.root, tuple(program.start() for program in self.programs), orders=1,
                    tries=((0, 0),) * len(self.programs))

    def after(self, node: Node, place: int) -> Node:
        """The state after a writer's turn."""
        local, world, locks = self.programs[place].advance(node.locals[place], node.world, node.locks)
        locals = *node.locals[:place], local, *node.locals[place + 1:]
        return Node(world, locals, (node, place), locks=locks)

    # -- all of them -----------------------------------------------------------------------------------

    def all(self, max_states: int, until: Callable[[], bool], is_serial: bool = False) -> Graph:
        """All states, until there are so many, or ``until`` says so; in a serial search a writer that has
        begun takes all its turns before another one does.

        Raises:
            Looked: a writer has to be known more precisely, and the search to be done again.
        """
        start = self.start()
        known, nodes, at = {key_of(start): start}, [start], 0
        graph = Graph(nodes)
        try:
            while at < len(nodes):
                if until():
                    graph.left_out = "the time was over"
                    break
                node = nodes[at]
                at += 1
                for place in self._turns(node, is_serial):
                    after = self.after(node, place)
                    key = key_of(after)
                    if key not in known:
                        if len(nodes) >= max_states:
                            graph.left_out = f"more than {max_states:,} states"
                            continue
                        known[key] = after
                        nodes.append(after)
                    node.after.append((place, known[key]))
        except KeyboardInterrupt:
            graph.left_out = "it was interrupted"
        for node in in_order(start):
            for place, other in node.after:
                other.orders += node.orders
                other.tries = _sum(other.tries, node.tries, place, node.locals[place])
        return graph

    def _turns(self, node: Node, is_serial: bool) -> Iterator[int]:
        """The writers whose turns are looked at: of those that do the same, none begins before the one before
        it in their list."""
        begun = [place for place in node.ready if is_serial and node.locals[place].script]
        for place in begun or node.ready:
            twin = self._twins[place]
            if node.locals[place].script or twin is None or node.locals[twin].script:
                yield place

    # -- one of them -----------------------------------------------------------------------------------

    def of_number(self, number: int) -> list[Node]:
        """The states of the order with a number.

        Raises:
            Looked: as in :meth:`all`.
        """
        nodes = [self.start()]
        while ready := nodes[-1].ready:
            number, choice = divmod(number, len(ready))
            nodes.append(self.after(nodes[-1], ready[choice]))
        return nodes

    def of_order(self, order: Sequence[int]) -> list[Node]:
        """The states of an order, which may end before all writers do.

        Raises:
            Looked: as in :meth:`all`.
        """
        nodes = [self.start()]
        for place in order:
            nodes.append(self.after(nodes[-1], place))
        return nodes


def number_of(nodes: Sequence[Node]) -> int:
    """The number of an order, or of one that begins with it, by the states that it leads through."""
    number, scale = 0, 1
    for node in nodes[1:]:
        assert node.before is not None
        before, place = node.before
        ready = before.ready
        number += scale * ready.index(place)
        scale *= len(ready)
    return number


def key_of(node: Node) -> tuple[object, ...]:
    """What two states have in common that go on alike: what can be read, the commits that can still be met as
    winners, what is locked, and where the writers stand."""
    versions: dict[str, int] = {}
    for local in node.locals:
        for name, version in (local.turn.next if local.turn is not None else {}).items():
            versions[name] = min(version, versions.get(name, version))
    where = tuple(one.key for one in node.locals)
    return node.world.digest, node.world.winners(versions), node.locks.digest, where


def _sum(
    known: tuple[tuple[int, int], ...], before: tuple[tuple[int, int], ...], place: int, local: Local
) -> tuple[tuple[int, int], ...]:
    """The tries of a state, with those of one more way to it: the turn of a writer after another state."""
    more = int(local.turn is not None and local.turn.kind == "put")
    new = tuple((few + more * (at == place), many + more * (at == place))
                for at, (few, many) in enumerate(before))
    return widened(known, new) if known else new


def widened(
    known: tuple[tuple[int, int], ...], more: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """The fewest and the most of both.

    >>> widened(((1, 2),), ((0, 1),))
    ((0, 2),)
    """
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, more, strict=True))


def in_order(start: Node) -> Iterator[Node]:
    """The states, each after all those that lead to it."""
    left: dict[int, int] = {}
    seen, stack = {id(start)}, [start]
    while stack:
        for _, other in stack.pop().after:
            left[id(other)] = left.get(id(other), 0) + 1
            if id(other) not in seen:
                seen.add(id(other))
                stack.append(other)
    stack = [start]
    while stack:
        node = stack.pop()
        yield node
        for _, other in node.after:
            left[id(other)] -= 1
            if not left[id(other)]:
                stack.append(other)


def clock(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds are over since now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
