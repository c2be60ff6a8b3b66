"""Where a statement stopped holding, shown: verdict, commit, what was asked, what cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb.log.history import HistoryEntry
from deltanb.observe.bisect.bisection import VERDICTS, Bisection, Trial
from deltanb.observe.meetings import Contender, Meeting
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden
from tests.notebook.samples import TIME


def stock() -> dn.DeltaTable:
    """Six times three pieces are taken out of ten."""
    clock = iter(range(TIME, TIME + 1_000_000_000, 1_000))
    with set_options(clock=lambda: next(clock), user_name="ann"):
        table = dn.create(MemoryStore("memory:///lake/stock"), {"item": ["bolt", "nut"], "pieces": [40, 10]})
        for _ in range(6):
            table.update({"pieces": "pieces - 3"}, where="item = 'nut'")
    return table


def fragile(past: Any) -> bool:
    left = past.to_arrow(where="item = 'nut'")["pieces"][0].as_py()
    if left in (1, -2):
        raise ValueError("the counting machine was out of order")
    return bool(left > 0)


def many(verdict: str, size: int = 5_000) -> Bisection:
    reason = "it could not be said " * 9
    trials = tuple(Trial(at, None if at % 3 else at < 9, reason) for at in range(size))
    bad = None if verdict in ("holds", "unknown") else 9
    one = Contender("a writer " * 20, "WRITE " * 20, 9)
    met = {"orders": (Meeting(one, one, "would fail", "append"),) * size}
    flips = tuple((at, bool(at % 2)) for at in range(size))
    notes = tuple(f"note {at} " * 20 for at in range(100))
    return Bisection(("orders",) * 50, "x" * 120, "linear", 0, size, size, verdict, bad, 6, (8, 9), {}, met,
                     size, trials, flips, notes)


def test_the_first_bad_version(update_golden: bool) -> None:
    bisection = dn.bisect(stock(), "pieces >= 0")
    page = assert_consistent(bisection)
    assert_golden(bisection, "bisection", update_golden)
    assert str(bisection).startswith("Bisection stock  ✕ since v4  4 of 7 versions read\n")
    assert "UPDATE by ann" in str(bisection) and "item = 'nut'" in page.text


def test_a_range(update_golden: bool) -> None:
    bisection = dn.bisect(stock(), fragile)
    page = assert_consistent(bisection)
    assert_golden(bisection, "bisection_range", update_golden)
    assert "one of 3 broke it" in page.text and "out of order" in page.text


def test_who_raced_there(update_golden: bool) -> None:
    mine, other = Contender("etl-a", "UPDATE", 3), Contender("etl-b", "DELETE", 4)
    late = Contender("etl-c", "MERGE", None)
    met = (Meeting(mine, other, "would fail", "delete / delete"), Meeting(other, late, "failed", "append"))
    commit = HistoryEntry(4, TIME, "DELETE", {"predicate": "month = 6"}, 2, user_name="etl-b")
    bisection = Bisection(("lake",), "n > 0", "halves", 0, 9, 10, "stopped", 4, 3, (4,), {"lake": commit},
                          {"lake": met}, 5, (Trial(3, True), Trial(4, False)), ((4, False),))
    page = assert_consistent(bisection)
    assert_golden(bisection, "bisection_raced", update_golden)
    assert "v3 UPDATE by etl-a" in page.text and "failed MERGE by etl-c" in page.text


def test_one_that_holds_and_one_that_comes_and_goes() -> None:
    assert "✓ holds" in assert_consistent(dn.bisect(stock(), "item IS NOT NULL")).text
    page = assert_consistent(dn.bisect(stock(), lambda past: past.version % 2 == 0, method="linear"))
    assert "v1 ✕ does not hold, v2 ✓ holds, v3 ✕ does not hold and 3 more" in page.text


@pytest.mark.parametrize("verdict", VERDICTS)
def test_much_stays_within_bounds_and_what_is_left_out_has_a_number(verdict: str) -> None:
    page = assert_consistent(many(verdict))
    assert "and 96 more notes" in page.text
    with set_options(max_rows=3):
        assert "showing 3 of 5 000 places" in assert_consistent(many(verdict)).text.replace("\u00a0", " ")
