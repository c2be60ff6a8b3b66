"""Words along a row of a timeline: which are written, how far they are cut, and where; none overlap.

What lives here: a pure function from signs on a row, and what could be written about each, to boxes of words
in one or more tiers above the row. What the sign before says already is not repeated.
What it does not know: tracks, markup, how rows are packed.

Words end left of their sign or begin right of it. Where the picture is stretched, places move apart and words
keep their size: what does not overlap at one width does not at any larger one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, product
from typing import NamedTuple

from deltanb.notebook.drawing.pens import letter_width, width_of

CLEAR = 5  # pixels between the line of a version and the words above a transaction
APART = 10  # pixels between the words of two signs on a tier
LEADER = 3  # pixels on either side of a leader, or of a tie, that words keep free
MAX_TIERS = 3  # lines of words above a row: with more, a sign is far from its words
BOLD = 1.12  # times as wide as other words bad news are
BEAM = 10  # arrangements that are followed at once
CUT = 0.3  # of what it costs to leave words out, where they are cut
LESS = 0.6  # of the same, where fewer words stand for them
ASTRAY = 6.0  # what words right of a sign cost where they are above the line of the next one
TIER_COST = 5.0  # what a further tier has to save
Parts = list[tuple[str, str]]
"""Words with their tones: "" as they are, "m" muted, "x" bad news."""


class Piece(NamedTuple):
    """Words that are written together, or not at all."""

    words: str
    tone: str = ""
    cost: float = 0
    """What it costs to leave them out."""
    least: int = 0
    """How many letters are left of them at least where they are cut; 0 if they are not."""
    says: tuple[str, ...] = ()
    """What they say; where the sign before says all of it, ``short`` is enough."""
    short: str = ""
    less: str = ""
    """Fewer words that may stand for them where there is no room; empty if there are none."""
    is_head: bool = False
    is_detail: bool = False
    """Whether they mean something else without the head, which is then read from the sign before."""


@dataclass(frozen=True)
class Sign:
    """A sign on a row, in pixels from the left, and what could be written about it, from left to right."""

    at: float
    pieces: Sequence[Piece]
    right: float = CLEAR
    """Pixels from the sign to words on its right."""
    start: float | None = None
    """Where its line begins, if it has one."""


@dataclass(frozen=True)
class Box:
    """Words of one sign: their extent in pixels, and on which tier they are.

    They begin ``aside`` pixels right of the sign, or end as many left of it where it is negative.
    """

    parts: Parts
    left: float
    right: float
    tier: int
    aside: float


class _Taken(NamedTuple):
    """A part of a tier that is occupied, in pixels, and how far words keep from it."""

    left: float
    right: float
    gap: float = 0.0


@dataclass(frozen=True)
class _Option:
    """Some of a sign's pieces; the one at ``elastic`` may be cut."""

    pieces: tuple[Piece, ...]
    cost: float
    width: float
    elastic: int | None
    least: float


@dataclass(frozen=True)
class _State:
    """An arrangement of the first signs: the boxes, and what is occupied on each tier."""

    cost: float
    boxes: tuple[Box | None, ...]
    occupied: tuple[tuple[_Taken, ...], ...]
    seen: frozenset[str] = field(default_factory=frozenset)
    """What the last sign says, itself or by the signs before it."""


def place(
    signs: Sequence[Sign], width: float, barriers: Iterable[float] = (), max_tiers: int = MAX_TIERS
) -> list[Box | None]:
    """A box for each sign, ``None`` where there is nothing to write or no room.

    Args:
        signs: from left to right, no two at the same place.
        width: of the row in pixels; words stay within it.
        barriers: places in pixels that no words may cross, on any tier.
        max_tiers: how many lines of words there may be.

    >>> pieces = [Piece("WRITE", cost=9, says=("WRITE",)), Piece("+1", cost=9)]
    >>> chain = [Sign(at, pieces) for at in (0, 100, 200)]
    >>> [" ".join(words for words, _ in box.parts) for box in place(chain, 200) if box]
    ['WRITE +1', '+1', '+1']
    >>> [box.parts for box in place([Sign(100, [Piece("a = 1 AND b = 2", cost=9, least=8)])], 100) if box]
    [[('a = 1 AND b…', '')]]
    """
    fences = tuple(_line(at) for at in sorted(set(barriers)))
    best: _State | None = None
    for tiers in range(1, max_tiers + 1):
        arrangement = _arranged(signs, width, fences, tiers)
        cost = arrangement.cost + TIER_COST * (tiers - 1)
        if best is None or cost < best.cost:
            best = _State(cost, arrangement.boxes, arrangement.occupied)
        if best.cost <= TIER_COST * tiers:
            break  # a further tier costs more than it can save
    assert best is not None
    return list(best.boxes)


def place_beside(
    sign: Sign, width: float, occupied: Iterable[tuple[float, float]], seen: frozenset[str] = frozenset()
) -> Box | None:
    """All that is to be written about a sign in a box at its right, ``None`` if there is no room for it.

    Args:
        sign: whose pieces are not cut.
        width: of the row in pixels.
        occupied: parts of the row in pixels, from left to right.
        seen: what the sign before says.

    >>> sign = Sign(100, [Piece("✓ read")], right=12)
    >>> place_beside(sign, 300, [(0, 100)]), place_beside(sign, 300, [(0, 100), (120, 200)])
    (Box(parts=[('✓ read', '')], left=112, right=150.8, tier=0, aside=12), None)
    """
    start = sign.at + sign.right
    end = min([width, *(left - APART for left, right in occupied if right > start)])
    pieces, _ = _unrepeated(sign, seen)
    parts = [(piece.words, piece.tone) for piece in pieces]
    size = _size(pieces)
    return Box(parts, start, start + size, 0, sign.right) if parts and start + size <= end else None


def _arranged(
    signs: Sequence[Sign], width: float, fences: tuple[_Taken, ...], tiers: int
) -> _State:
    """The cheapest arrangement found on so many tiers."""
    states = [_State(0, (), (fences,) * tiers)]
    for at, sign in enumerate(signs):
        following = signs[at + 1].start if at + 1 < len(signs) else None
        states = sorted((after for state in states for after in _after(state, sign, following, width)),
                        key=lambda state: state.cost)[:BEAM]
    return states[0]


def _after(state: _State, sign: Sign, following: float | None, width: float) -> list[_State]:
    """The arrangements with one sign more."""
    needed, repeated = _unrepeated(sign, state.seen)
    if not needed:
        return [_State(state.cost, (*state.boxes, None), state.occupied, repeated)]
    nothing = sum(piece.cost for piece in needed)
    states = [_State(state.cost + nothing, (*state.boxes, None), state.occupied)]
    for tier in range(len(state.occupied)):
        if any(_covers(state.occupied[below], sign.at) for below in range(tier)):
            break  # a leader would run through words
        for is_right in (False, True):
            start, end = _room(state.occupied[tier], sign, is_right, width)
            fitted = _fitted(_options(needed), end - start)
            if fitted is None:
                continue
            parts, size, cost, whole = fitted
            left, right = (start, start + size) if is_right else (end - size, end)
            box = Box(parts, left, right, tier, sign.right if is_right else -CLEAR)
            occupied = tuple(
                _with(its, _Taken(left, right, APART)) if at == tier
                else _with(its, _line(sign.at)) if at < tier else its
                for at, its in enumerate(state.occupied))
            seen = repeated | {piece.says[0] for piece in whole if piece.says}
            aside = (ASTRAY if following is not None and right > following else 0.2) if is_right else 0.0
            states.append(_State(state.cost + cost + 0.3 * tier + aside / (tier + 1),
                                 (*state.boxes, box), occupied, seen))
    return states


def _unrepeated(sign: Sign, seen: frozenset[str]) -> tuple[tuple[Piece, ...], frozenset[str]]:
    """What is to be written where the sign before says ``seen``, and what of it this sign would repeat."""
    repeated = frozenset(piece.says[0] for piece in sign.pieces if piece.says and seen.issuperset(piece.says))
    pieces = (piece._replace(words=piece.short, least=0) if repeated.intersection(piece.says[:1]) else piece
              for piece in sign.pieces)
    return tuple(piece for piece in pieces if piece.words), repeated


def _line(at: float) -> _Taken:
    """What a leader or a tie takes."""
    return _Taken(at - LEADER, at + LEADER)


def _covers(occupied: tuple[_Taken, ...], at: float) -> bool:
    """Whether words lie over a place, or nearer than a leader's width."""
    return any(its.gap and its.left - LEADER < at < its.right + LEADER for its in occupied)


def _with(occupied: tuple[_Taken, ...], new: _Taken) -> tuple[_Taken, ...]:
    at = bisect_right(occupied, new)
    return (*occupied[:at], new, *occupied[at:])


def _room(
    occupied: tuple[_Taken, ...], sign: Sign, is_right: bool, width: float
) -> tuple[float, float]:
    """From where to where there is room beside a sign; none if the end is before the start."""
    if is_right:
        start = sign.at + sign.right
        ends = [its.left - its.gap for its in occupied if its.right > start]
        return start, min([width, *ends])
    end = sign.at - CLEAR
    starts = [its.right + its.gap for its in occupied if its.left < end]
    return max([0.0, *starts]), end


# -- what fits -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _options(pieces: tuple[Piece, ...]) -> tuple[_Option, ...]:
    """Ways to write less and less, the cheapest first; in each at most one piece may be cut."""
    options = []
    for chosen in product((True, False), repeat=len(pieces)):
        left = tuple(piece for piece, is_in in zip(pieces, chosen, strict=True) if is_in)
        is_headless = any(piece.is_head for piece in pieces) and not any(piece.is_head for piece in left)
        if not left or (is_headless and any(piece.is_detail for piece in left)):
            continue
        cost = sum(piece.cost for piece, is_in in zip(pieces, chosen, strict=True) if not is_in)
        width = _size(left)
        options.append(_Option(left, cost, width, None, width))
        for at, piece in enumerate(left):
            if piece.less:
                fewer = (*left[:at], piece._replace(words=piece.less, says=()), *left[at + 1:])
                options.append(_Option(fewer, cost + LESS * piece.cost, _size(fewer), None, _size(fewer)))
            if piece.least:
                least = width - (width_of(piece.words[piece.least:]) - width_of("…")) * _boldness(piece)
                if least < width:
                    options.append(_Option(left, cost + CUT * piece.cost, width, at, least))
    return tuple(sorted(options, key=lambda option: option.cost))


def _fitted(
    options: Sequence[_Option], room: float
) -> tuple[Parts, float, float, Sequence[Piece]] | None:
    """The cheapest words that fit: with their width, their cost, and the pieces that are whole."""
    best: tuple[float, _Option] | None = None
    for option in options:
        if best is not None and option.cost >= best[0]:
            break
        if option.elastic is None or room >= option.width:
            if option.width <= room:
                best = option.cost, option
        elif option.least <= room:
            piece = option.pieces[option.elastic]
            lost = (option.width - room) / _size([piece])
            cost = option.cost + 0.5 * piece.cost * lost
            if best is None or cost < best[0]:
                best = cost, option
    if best is None:
        return None
    cost, option = best
    pieces = list(option.pieces)
    whole = pieces
    if option.elastic is not None and room < option.width:
        piece = pieces[option.elastic]
        size = _size([piece]) - (option.width - room)
        pieces[option.elastic] = piece._replace(words=cut(piece.words, size / _boldness(piece)))
        whole = [one for one in option.pieces if one is not piece]
    return [(piece.words, piece.tone) for piece in pieces], _size(pieces), cost, whole


def _size(pieces: Sequence[Piece]) -> float:
    """Pixels that words take side by side."""
    words = sum(width_of(piece.words) * _boldness(piece) for piece in pieces)
    return words + width_of(" ") * (len(pieces) - 1)


def _boldness(piece: Piece) -> float:
    return BOLD if piece.tone == "x" else 1.0


def cut(words: str, room: float) -> str:
    """As much of words as there is room for in pixels, with ``…`` where they are cut.

    >>> cut("month = 1 AND day = 1", 90), cut("month = 1", 90), cut("month = 1", 5)
    ('month = 1 A…', 'month = 1', '…')
    """
    if width_of(words) <= room:
        return words
    ends = list(accumulate(map(letter_width, words)))
    return words[: bisect_right(ends, room - letter_width("…"))].rstrip(" ,=<>(") + "…"
