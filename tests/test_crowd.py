"""The simulated crowd of writers: its commits are sound, and its page says what it gives."""

from __future__ import annotations

from collections import Counter

import pytest

from deltanb.actions import AddFile
from tests.benchmarks import crowd
from tests.benchmarks.crowd import BUCKET, DISK, PAGE, SPREAD, WAYS, WRITERS, Crowd


@pytest.mark.parametrize("place", [BUCKET, DISK], ids=["bucket", "disk"])
@pytest.mark.parametrize("writers", [1, 2, 16])
def test_no_commit_is_lost_and_none_is_there_twice(place: crowd.Place, writers: int) -> None:
    simulated = Crowd(writers, place, commits=100)
    outcome = simulated.run()
    files = Counter(action.path for winner in simulated.log.values() for action in winner.actions
                    if isinstance(action, AddFile))
    assert set(files.values()) == {1}
    versions = sorted(simulated.log)
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    assert len(outcome.commits) == 100 <= len(versions) <= 100 + writers, "the last ones have no answer yet"


def test_one_writer_waits_for_three_requests_a_commit() -> None:
    outcome = Crowd(1, BUCKET, commits=200).run()
    assert outcome.attempts == 1 and outcome.requests == 600 + 1  # and begins with the next one
    assert 3 * BUCKET.put * (1 - SPREAD) < outcome.seconds / 200 < 3 * BUCKET.put * (1 + SPREAD)


def test_losers_read_the_winners_and_are_tried_again() -> None:
    alone, four = (Crowd(writers, BUCKET, commits=200).run() for writers in (1, 4))
    assert four.attempts > alone.attempts
    assert alone.rate < four.rate < 1 / (BUCKET.put * (1 - SPREAD)), "a round trip between two versions"


def test_on_a_disk_the_rate_does_not_fall_when_more_writers_come() -> None:
    """Nobody reads winners in its turn, while all others wait."""
    rates = [Crowd(writers, DISK, commits=400).run().rate for writers in (1, 4, 16, 64)]
    assert rates == sorted(rates)


@pytest.mark.parametrize("way", WAYS)
def test_the_page_says_what_the_simulation_gives(way: str) -> None:
    page = PAGE.read_text("utf-8")
    for writers in WRITERS[:3]:
        assert crowd.row(crowd.crowd(way, writers)) in page, "python -m tests.benchmarks.crowd --write"
