"""How many examples a usual run tries, of Hypothesis and of a matrix that is slow.

Those of Hypothesis are parts of what the profile has, so that all grow with it.

``ci``, that of every run, has 100; ``nightly``, that of ``pytest --thorough``, 2000 (``conftest.py``). A test
says no number of its own: most have what the profile has, one whose examples take long :data:`few`, and one
whose examples are many and quick :data:`many`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

_usual = settings()
few = settings(max_examples=_usual.max_examples // 4)
many = settings(max_examples=_usual.max_examples * 3)
some_requests = settings(max_examples=_usual.max_examples // 10)
"""Of each endpoint of a server, well and badly formed."""
longer = settings(many, stateful_step_count=2 * _usual.stateful_step_count)
"""Of machines whose faults need many steps."""


def every(nth: int, cases: Sequence[Any]) -> list[Any]:
    """All cases, of which a usual run has each nth, and ``--thorough`` the others, too; a tuple is a case of
    several arguments."""
    return [case if number % nth == 0 else
            pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.thorough)
            for number, case in enumerate(cases)]


def first(usual: int, of: int) -> list[Any]:
    """The numbers below ``of``, of which a usual run has the first, and ``--thorough`` the others, too."""
    return [number if number < usual else pytest.param(number, marks=pytest.mark.thorough)
            for number in range(of)]


def crossed(nth: int, *axes: Sequence[Any]) -> list[Any]:
    """Each value with each of the others, as arguments of one ``parametrize``; a usual run has each nth case,
    drawn so that every value is in one of them, and ``--thorough`` the others, too.

    Raises:
        ValueError: the axes are too short for that.
    """
    places = list(itertools.product(*(range(len(axis)) for axis in axes)))
    usual = [place for place in places if sum(place) % nth == 0]
    if any({place[at] for place in usual} != set(range(len(axis))) for at, axis in enumerate(axes)):
        raise ValueError(f"of the cases of a matrix each {nth}th leaves out a value")
    return [pytest.param(*(axis[at] for axis, at in zip(axes, place, strict=True)),
                         marks=() if sum(place) % nth == 0 else pytest.mark.thorough) for place in places]
