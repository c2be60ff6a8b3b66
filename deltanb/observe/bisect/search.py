"""The search for the first place at which a statement stops holding, among places in order.

What lives here: :class:`Search`, which asks as few places as it can, or all of them.
What it does not know: what a place is, and what is asked there.

An answer is True, False, or None where a place cannot tell: such a place counts as neither. By halves, about
log2(places) are asked; places that cannot tell cost about twice as many more where they lie together, and
one each inside the range that is left.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

MAX_SILENT = 64
"""Places between the last that holds and the first that does not which are asked though those asked before
could not tell; the range that is left then is the answer."""

Ask = Callable[[int], "bool | None"]


class Search:
    """A search among ``size`` places, numbered from 0.

    ``silent`` are places that are known to tell nothing before they are asked.

    >>> search = Search(100, lambda place: place < 37)
    >>> search.by_halves()
    >>> search.good, search.bad, len(search.answers) <= 9
    (36, 37, True)
    """

    def __init__(self, size: int, ask: Ask, silent: frozenset[int] = frozenset()) -> None:
        self.size = size
        self._ask = ask
        self.answers: dict[int, bool | None] = dict.fromkeys(silent)
        """What each place that was asked has answered."""
        self.good: int | None = None
        """The last place that is known to hold, before ``bad`` if there is one."""
        self.bad: int | None = None
        """The first place that is known not to hold."""
        self.is_cut_off = False
        """Whether more than ``MAX_SILENT`` places between these two could not tell, so that the rest were not
        asked."""

    @property
    def candidates(self) -> range:
        """The places that may be the first one; one place where that is known."""
        if self.bad is None:
            return range(0)
        return range(0 if self.good is None else self.good + 1, self.bad + 1)

    def ask(self, place: int) -> bool | None:
        """The answer of a place, which is asked once."""
        if place not in self.answers:
            self.answers[place] = self._ask(place)
        return self.answers[place]

    def in_order(self) -> None:
        """Ask every place."""
        for place in range(self.size):
            if self.ask(place) is False and self.bad is None:
                self.bad = place
        before = range(self.size if self.bad is None else self.bad)
        self.good = max((place for place in before if self.answers[place]), default=None)

    def flips(self) -> list[tuple[int, bool]]:
        """Where the answer differs from the one before, of the places that were asked: place and answer; the
        first answer counts where it is no."""
        changes, before = [], True
        for place in sorted(self.answers):
            answer = self.answers[place]
            if answer is not None and answer is not before:
                changes.append((place, answer))
                before = answer
        return changes

    def by_halves(self) -> None:
        """Ask the first and the last place, then halve what lies between one that holds and a later one that
        does not. Where the answer changes more often, one of the changes is the result."""
        first, last = self.ask(0), self.ask(self.size - 1)
        if first is None and last is None:
            self._any()
        known = [place for place, answer in self.answers.items() if answer is not None]
        if not known:
            return
        self._towards(min(known), -1)
        self._towards(max(known), self.size)
        self.bad = min((place for place, answer in self.answers.items() if answer is False), default=None)
        holding = [place for place, answer in self.answers.items() if answer]
        if self.bad is None:
            self.good = max(holding)
            return
        self.good = max((place for place in holding if place < self.bad), default=None)
        self._narrow()

    def _any(self) -> None:
        """Ask places all over until one answers."""
        parts = 2
        while parts <= 2 * MAX_SILENT:
            for part in range(1, parts, 2):
                if self.ask(self.size * part // parts) is not None:
                    return
            parts *= 2

    def _towards(self, known: int, end: int) -> None:
        """Follow the places that answer as far as they go towards an end that does not."""
        while abs(end - known) > 1 and self.answers.get(end) is None:
            place = (known + end) // 2
            answer = self.ask(place)
            if answer is None:
                end = place
            elif answer is not self.answers[known] and answer is (end < known):
                return  # a change that by_halves() is after
            else:
                known = place

    def _narrow(self) -> None:
        """Halve what lies between ``good`` and ``bad`` until nothing is left that could answer."""
        silent_in_a_row = 0
        while (place := self._next()) is not None:
            if silent_in_a_row >= MAX_SILENT:
                self.is_cut_off = True
                return
            answer = self.ask(place)
            silent_in_a_row = 0 if answer is not None else silent_in_a_row + 1
            if answer is True:
                self.good = place
            elif answer is False:
                self.bad = place

    def _next(self) -> int | None:
        """The middle of what lies beside an end, which finds the borders of places that cannot tell, else of
        the widest part between such places."""
        assert self.bad is not None
        low = -1 if self.good is None else self.good
        inside = [place for place in sorted(self.answers) if low < place < self.bad]
        edges = [low, *inside, self.bad]
        parts = [(end - begin, begin) for begin, end in pairwise(edges) if end - begin > 1]
        if not parts:
            return None
        if self.good is None and parts[-1][1] != edges[-2]:
            return None  # nothing before has held: where it begins to answer is known
        for width, begin in (parts[0], parts[-1]):
            if begin in (low, edges[-2]):
                return begin + width // 2
        width, begin = max(parts)
        return begin + width // 2
