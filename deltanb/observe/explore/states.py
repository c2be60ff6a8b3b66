"""The states that are drawn, and where an order is among them.

What lives here: :func:`whole`, a graph of all states; :func:`along`, the part of it that some orders lead
through, where there are too many; :func:`path_of`, the way of an order.
What it does not know: how states are searched, how they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltanb.observe.explore.exploration import State
from deltanb.observe.explore.search import Node, key_of

if TYPE_CHECKING:
    from deltanb.observe.explore.exploration import Exploration, Taken

MAX_DRAWN = 300
"""States of which a graph is drawn."""
MAX_PLAYED = 40
"""Orders that are played on a page, and drawn where there are too many states for all of them."""


def whole(
    nodes: Sequence[Node], names: Sequence[str], breaks: Callable[[Any], bool],
    ends: Mapping[int, Sequence[int]],
) -> tuple[State, ...]:
    """All states; ``ends`` has the outcomes that a state is an end of, by its id."""
    places = {id(node): at for at, node in enumerate(nodes)}
    return tuple(
        State(len(node.path), tuple((names[place], places[id(other)]) for place, other in node.after),
              breaks(node.world), tuple(ends.get(id(node), ())), node.is_end)
        for node in nodes)


def along(
    orders: Iterable[tuple[Sequence[Node], int | None]], names: Sequence[str], breaks: Callable[[Any], bool]
) -> tuple[State, ...]:
    """The states that orders lead through, as many orders as can be drawn; each is its states, and the
    outcome that it ends with, if any."""
    places: dict[object, int] = {}
    known: list[Node] = []
    after: list[dict[str, int]] = []
    ends: dict[int, int] = {}
    for nodes, outcome in orders:
        keys = [key_of(node) for node in nodes]
        if len(places.keys() | keys) > MAX_DRAWN:
            continue
        for key, node in zip(keys, nodes, strict=True):
            if key not in places:
                places[key] = len(known)
                known.append(node)
                after.append({})
        for (key, next_key), node in zip(pairwise(keys), nodes[1:], strict=True):
            assert node.before is not None
            after[places[key]][names[node.before[1]]] = places[next_key]
        if outcome is not None:
            ends.setdefault(places[keys[-1]], outcome)
    return tuple(State(len(node.path), tuple(after[at].items()), breaks(node.world),
                       (ends[at],) if at in ends else (), node.is_end) for at, node in enumerate(known))


def path_of(exploration: Exploration, turns: Sequence[Taken]) -> tuple[int, ...]:
    """The places of the states before the first turn of an order and after each; they end where an order
    leaves what is drawn.

    Of writers that do the same the graph has those orders alone in which they begin one after the other: here
    each is the one whose part it has.
    """
    if not exploration.states:
        return ()
    works: Mapping[str, Any] = {} if exploration.request is None else exploration.request.writers
    parts: dict[str, str] = {}
    path = [0]
    for turn in turns:
        after = dict(exploration.states[path[-1]].after)
        part = parts.get(turn.writer) or next(
            (name for name in (turn.writer, *after) if name in after and name not in parts.values()
             and works.get(name) is works.get(turn.writer)), None)
        if part not in after:
            break
        parts[turn.writer] = part
        path.append(after[part])
    return tuple(path)
