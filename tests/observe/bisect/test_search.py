"""The search by halves against a plain scan, over answers of every kind; and how many places it asks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.observe.bisect.search import MAX_SILENT, Search

ANSWERS = st.sampled_from([True, False, None])


def searched(answers: list[bool | None]) -> Search:
    search = Search(len(answers), lambda place: answers[place])
    search.by_halves()
    return search


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1_000, 10_000])
def test_by_halves_the_first_bad_place_is_found_in_as_many_reads_as_the_logarithm(size: int) -> None:
    for bad in {1, size // 3, size // 2, size - 1} - {0}:
        if bad < size:
            search = searched([True] * bad + [False] * (size - bad))
            assert (search.good, search.bad) == (bad - 1, bad)
            assert list(search.candidates) == [bad]
            assert len(search.answers) <= math.ceil(math.log2(size)) + 2


@given(st.integers(0, 300), st.integers(0, 40), st.integers(0, 300), st.booleans())
def test_a_run_that_cannot_tell_costs_few_reads_and_leaves_a_range(
    good: int, silent: int, bad: int, is_at_the_end: bool
) -> None:
    tail, silent = (silent, 0) if is_at_the_end else (0, silent)
    answers: list[bool | None] = [*[True] * good, *[None] * silent, *[False] * bad, *[None] * tail]
    if not answers:
        return
    search = searched(answers)
    log = math.ceil(math.log2(len(answers))) + 2
    if not (good or bad):
        assert (search.good, search.bad) == (None, None)
        return
    if not bad:
        assert search.bad is None and search.good == good - 1
    elif good:
        assert (search.good, search.bad) == (good - 1, good + silent)
        assert list(search.candidates) == list(range(good, good + silent + 1))
    else:
        assert (search.good, search.bad) == (None, silent)
    assert len(search.answers) <= 5 * log + silent * bool(good)


@given(st.lists(ANSWERS, min_size=1, max_size=60))
def test_whatever_the_answers_the_ends_of_the_range_are_right(answers: list[bool | None]) -> None:
    search = searched(answers)
    if search.good is not None:
        assert answers[search.good] is True
    if search.bad is not None:
        assert answers[search.bad] is False
        inside = answers[(0 if search.good is None else search.good + 1):search.bad]
        if search.good is not None:
            assert all(answer is None for answer in inside), "nothing that could answer is left out"
    assert (search.good, search.bad) != (None, None) or answers[0] is answers[-1] is None


@given(st.lists(ANSWERS, min_size=1, max_size=60))
def test_in_order_it_is_the_first_bad_and_every_flip(answers: list[bool | None]) -> None:
    search = Search(len(answers), lambda place: answers[place])
    search.in_order()
    answered = [(place, answer) for place, answer in enumerate(answers) if answer is not None]
    assert search.bad == next((place for place, answer in answered if not answer), None)
    expected, before = [], True
    for place, answer in answered:
        if answer is not before:
            expected.append((place, answer))
            before = answer
    assert search.flips() == expected and len(search.answers) == len(answers)


def test_a_long_range_that_cannot_tell_is_cut_off() -> None:
    """Both borders are exact all the same."""
    answers: list[bool | None] = [*[True] * 100, *[None] * 1_000, *[False] * 100]
    search = searched(answers)
    assert (search.good, search.bad, search.is_cut_off) == (99, 1_100, True)
    assert len(search.answers) < MAX_SILENT + 30


def test_places_known_to_be_silent_are_not_asked() -> None:
    asked: list[int] = []

    def ask(place: int) -> bool:
        asked.append(place)
        return place < 30

    search = Search(100, ask, frozenset(range(20)))
    search.by_halves()
    assert (search.good, search.bad) == (29, 30) and min(asked) >= 20
