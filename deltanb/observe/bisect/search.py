"""The search for the first place at which a statement stops holding, among places in order.

What lives here: :class:`Search`, which asks as few places as it can, or all of them.
What it does not know: what a place is, and what is asked there.

An answer is True, False, or None where a place cannot tell: such a place counts as neither. By halves, about
log2(places) are asked; places that cannot tell cost about twice as many more where they lie together, and
one each inside the range that is left. That range is open where nothing has held before it, or nothing was
broken behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

MAX_SILENT = 64
"""Places in a row that are asked though none of them can tell; the range that is left is the answer."""

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
        """Whether ``MAX_SILENT`` places in a row between these two could not tell, so that the rest were not
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
        """Ask the first and the last place, then halve what lies between the last that holds and the first
        that does not, until nothing is left there that could answer. Where the answer changes more often, one
        of the changes is the result."""
        for end in (0, self.size - 1):
            self._learn(end)
        if self.good == self.size - 1 and self.answers[0] is None:
            self._begin()
        silent_in_a_row = 0
        while (place := self._next()) is not None:
            if silent_in_a_row >= MAX_SILENT:
                self.is_cut_off = True
                return
            silent_in_a_row = 0 if self._learn(place) is not None else silent_in_a_row + 1

    @property
    def _ends(self) -> tuple[int, int]:
        """The places around what is not known; places that do not exist where an end has not answered."""
        return (-1 if self.good is None else self.good), (self.size if self.bad is None else self.bad)

    def _learn(self, place: int) -> bool | None:
        """Ask a place, and move an end there."""
        answer = self.ask(place)
        low, high = self._ends
        if answer is not None and low < place < high:
            if answer:
                self.good = place
            else:
                self.bad = place
        return answer

    def _begin(self) -> None:
        """Where the last place holds and the first cannot tell, ask the first that can tell in its stead."""
        silent, known = 0, self.size - 1
        while known - silent > 1:
            place = (silent + known) // 2
            answer = self.ask(place)
            if answer is False:
                self.good, self.bad = None, place
                return
            if answer is None:
                silent = place
            else:
                known = place

    def _next(self) -> int | None:
        """The middle of what lies beside an end, which finds the borders of places that cannot tell, else of
        the widest part between such places."""
        low, high = self._ends
        edges = [low, *(place for place in sorted(self.answers) if low < place < high), high]
        parts = [(end - begin, begin) for begin, end in pairwise(edges) if end - begin > 1]
        if not parts:
            return None
        for width, begin in (parts[0], parts[-1]):
            if begin in (low, edges[-2]):
                return begin + width // 2
        width, begin = max(parts)
        return begin + width // 2
