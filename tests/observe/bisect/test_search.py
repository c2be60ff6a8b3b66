"""The search by halves against a plain scan, over answers of every kind; and how many places it asks."""

from __future__ import annotations

import math
from itertools import product

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
    assert len(search.answers) <= 5 * log + silent + tail


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
    assert (search.good, search.bad) != (None, None) or not any(answer is not None for answer in answers)


@pytest.mark.parametrize("size", range(1, 9))
def test_by_halves_is_what_in_order_gives_wherever_places_cannot_tell(size: int) -> None:
    """Of all that hold up to some place, and of all places that may be silent."""
    for bad, silent in product(range(size + 1), product([False, True], repeat=size)):
        answers = [None if is_silent else place < bad for place, is_silent in enumerate(silent)]
        halves, linear = searched(answers), Search(size, answers.__getitem__)
        linear.in_order()
        assert (halves.good, halves.bad) == (linear.good, linear.bad), answers
        assert halves.candidates == linear.candidates and not halves.is_cut_off


@pytest.mark.parametrize("is_silent_first", [True, False])
def test_an_end_that_cannot_tell_is_left_after_as_many_as_a_range(is_silent_first: bool) -> None:
    silent: list[bool | None] = [None] * 1_000
    search = searched([*silent, *[False] * 100] if is_silent_first else [*[True] * 100, *silent])
    assert (search.good, search.bad) == ((None, 1_000) if is_silent_first else (99, None))
    assert search.is_cut_off and len(search.answers) < MAX_SILENT + 30


def test_where_the_first_places_cannot_tell_the_next_one_counts_as_the_first() -> None:
    search = searched([*[None] * 20, *[False] * 10, *[True] * 30])
    assert (search.good, search.bad) == (None, 20)


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
