"""Transactions and locks as boxes, holds and waits as arrows, and the positions of both.

What lives here: the net of boxes and arrows, and two ways to lay it out: a circle of waits as a ring,
anything else in columns, with a lock to the right of those who wait for it.
What it does not know: colours and markup (``lock_svg``), the words in the boxes (``views``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltanb.notebook.drawing.labels import BOLD
from deltanb.notebook.drawing.pens import width_of

Key = tuple[str, object]
"""What a box stands for: "txn" and an id, "lock" and a name, "thread" and a name."""

Kind = Literal["waits", "holds", "ahead"]

RING_COLUMNS = 4  # boxes side by side in a ring: what fits the width of a cell
ROW = 74  # pixels from row to row in a ring
GAP = 62  # pixels from row to row in columns
WIDE, HIGH, FLAT = 156, 40, 26  # pixels: a transaction at least, and one line in a box
TRANSACTIONS = (WIDE, 330)  # pixels that a transaction is wide at least and at most
LOCKS = (84, 200)  # pixels that a lock is wide at least and at most
ARROWS = (70, 150)  # pixels that arrows are long at least and at most
MAX_RING = 950  # pixels that a ring is wide at most, if two columns fit
INSIDE = 12  # pixels of a box beside its words
EDGE = 20  # pixels around the whole


@dataclass(frozen=True)
class Box:
    """A transaction, a lock or a thread; ``x`` and ``y`` are its middle."""

    key: Key
    title: str
    note: str = ""
    is_hot: bool = False
    """Whether it is part of the circle."""
    is_victim: bool = False
    x: float = 0
    y: float = 0
    width: float = WIDE

    @property
    def height(self) -> float:
        """The height in pixels."""
        return HIGH if self.note else FLAT


@dataclass(frozen=True)
class Arrow:
    """From a waiting transaction to a lock, or from a lock to its holder or to who is ahead in its queue."""

    start: Key
    end: Key
    kind: Kind
    words: str = ""
    is_hot: bool = False


@dataclass(frozen=True)
class Net:
    """Boxes and arrows, and the size of the picture once it is laid out."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: float = 0
    height: float = 0
    column: float = 192
    """Pixels from the middle of a box to that of the next one."""
    wide: float = WIDE
    """Pixels that a transaction is wide."""
    is_ring: bool = False

    def box(self, key: Key) -> Box:
        """The box with this key."""
        return next(box for box in self.boxes if box.key == key)


def laid_out(net: Net) -> Net:
    """The same net with positions: a ring if it is a single circle, else columns."""
    lock = _between(LOCKS, [width_of(box.title) + 18 for box in net.boxes if box.key[0] == "lock"])
    other = _between(TRANSACTIONS, [max(width_of(box.title) * BOLD, width_of(box.note)) + INSIDE
                                    for box in net.boxes if box.key[0] != "lock"])
    boxes = tuple(replace(box, width=lock if box.key[0] == "lock" else other) for box in net.boxes)
    long = _between(ARROWS, [width_of(arrow.words) + 12 for arrow in net.arrows])
    net = replace(net, boxes=boxes, column=(other + lock) / 2 + long, wide=other)
    ring = _round(net)
    return in_ring(net, ring) if ring else in_columns(net)


def _between(limits: tuple[int, int], sizes: Sequence[float]) -> float:
    return min(limits[1], max([limits[0], *sizes]))


def _round(net: Net) -> list[Key]:
    """The boxes in the order of the arrows, if each has exactly one arrow, to the next one."""
    following = {arrow.start: arrow.end for arrow in net.arrows}
    if len(net.boxes) < 4 or not len(net.arrows) == len(following) == len(net.boxes):
        return []
    order = [net.boxes[0].key]
    while following.get(order[-1], order[0]) not in order:
        order.append(following[order[-1]])
    return order if len(order) == len(net.boxes) and following.get(order[-1]) == order[0] else []


def in_ring(net: Net, order: Sequence[Key]) -> Net:
    """The boxes around a rectangle, clockwise from its upper left corner.

    >>> boxes = tuple(Box(("txn", at), str(at)) for at in range(4))
    >>> net = in_ring(Net(boxes, ()), [box.key for box in boxes])
    >>> [(box.x, box.y) for box in net.boxes]
    [(98.0, 40.0), (290.0, 40.0), (290.0, 114.0), (98.0, 114.0)]
    """
    fitting = 1 + int((MAX_RING - 2 * EDGE - net.wide) // net.column)
    columns = min(RING_COLUMNS, max(2, fitting), len(order) // 2)
    rows = (len(order) - 2 * columns + 1) // 2 + 2
    places = [(column, 0) for column in range(columns)]
    places += [(columns - 1, row) for row in range(1, rows)]
    places += [(column, rows - 1) for column in range(columns - 2, -1, -1)]
    places += [(0, row) for row in range(rows - 2, 0, -1)]
    left = EDGE + net.wide / 2
    at = {key: (left + column * net.column, EDGE * 2.0 + row * ROW)
          for key, (column, row) in zip(order, places, strict=False)}
    boxes = tuple(replace(box, x=at[box.key][0], y=at[box.key][1]) for box in net.boxes)
    return replace(net, boxes=boxes, width=2 * left + (columns - 1) * net.column,
                   height=EDGE * 4 + (rows - 1) * ROW, is_ring=True)


def in_columns(net: Net) -> Net:
    """The boxes in columns: a lock is right of those who wait for it, its holders are right of the lock."""
    ranks = _ranks(net)
    deepest = max(ranks.values(), default=0)
    columns: list[list[Box]] = [[] for _ in range(deepest + 1)]
    for box in net.boxes:
        columns[deepest - ranks[box.key]].append(box)
    y = _rows(net, columns)
    left, top = EDGE + net.wide / 2, EDGE * 2 - min(y.values(), default=0.0)
    boxes = tuple(replace(box, x=left + (deepest - ranks[box.key]) * net.column, y=top + y[box.key])
                  for box in net.boxes)
    return replace(net, boxes=boxes, width=2 * left + deepest * net.column,
                   height=max((box.y for box in boxes), default=0.0) + EDGE * 2)


def _ranks(net: Net) -> dict[Key, int]:
    """How many columns each box is left of the last one: even for transactions, odd for locks."""
    wants = {arrow.start: arrow.end for arrow in net.arrows if arrow.kind == "waits"}
    beyond: dict[Key, list[Key]] = {}
    for arrow in net.arrows:
        if arrow.kind != "waits":
            beyond.setdefault(arrow.start, []).append(arrow.end)
    depths: dict[Key, int] = {}
    path: set[Key] = set()

    def depth(key: Key) -> int:
        if key not in depths:
            path.add(key)
            lock = wants.get(key, key)
            also = [other for other in beyond.get(lock, ()) if other != key and other not in path]
            if key in beyond.get(lock, ()):  # who holds it stands beside those who convert theirs, too
                also = [other for other in also if wants.get(other) != lock]
            further = [depth(other) for other in also] if key in wants else []
            path.discard(key)
            depths[key] = 1 + max(further) if further else 0
        return depths[key]

    ranks = {box.key: 2 * depth(box.key) for box in net.boxes if box.key[0] != "lock"}
    for lock in (box.key for box in net.boxes if box.key[0] == "lock"):
        ends = beyond.get(lock, [])
        if lock not in wants.values() and min((ranks[end] for end in ends), default=0) > 0:
            ranks[lock] = min(ranks[end] for end in ends) - 1  # nobody waits: it needs no column of its own
            continue
        idle = [ranks[end] for end in ends if wants.get(end) != lock]
        ranks[lock] = 1 + max(idle or [min((ranks[end] for end in ends), default=0)])
        if not idle:  # all that hold it convert it: half of them on either side
            ranks.update(dict.fromkeys(ends[::2], ranks[lock] + 1))
    return ranks


def _rows(net: Net, columns: list[list[Box]]) -> dict[Key, float]:
    """The vertical position of each box: near the boxes it has arrows to, and clear of the others."""
    y: dict[Key, float] = {}
    near: dict[Key, list[Key]] = {}
    for arrow in net.arrows:
        near.setdefault(arrow.start, []).append(arrow.end)
        near.setdefault(arrow.end, []).append(arrow.start)

    def wish(box: Box) -> float:
        placed = [y[key] for key in near.get(box.key, ()) if key in y]
        return sum(placed) / len(placed) if placed else math.inf

    for column in reversed(columns):
        last = -GAP * 1.0
        wishes = {box.key: wish(box) for box in column}
        for box in sorted(column, key=lambda box: wishes[box.key]):
            target = wishes[box.key]
            last = y[box.key] = last + GAP if target == math.inf else max(last + GAP, target)
    return y
