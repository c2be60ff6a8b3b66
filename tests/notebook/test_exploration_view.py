"""What writers can do to each other, shown: outcomes as a grid, the order that breaks, the levels."""

from __future__ import annotations

from typing import Any

import deltanb as dn
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden


def withdraw(table: Any) -> None:
    if table.to_arrow()["balance"][0].as_py() >= 60:
        table.update({"balance": "balance - 60"}, where="id = 1")


def account() -> dn.DeltaTable:
    return dn.create(MemoryStore("memory:///bank/account"), {"id": [1], "balance": [100]})


def test_an_exploration(update_golden: bool) -> None:
    exploration = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0")
    page = assert_consistent(exploration)
    assert_golden(exploration, "exploration", update_golden)
    assert str(exploration).startswith("Exploration account  20 orders  5 outcomes  Serializable\n")
    assert "the order ann, ann, ben, ann, ben, ben" in str(exploration) and "6 ben ✓ commits v2" in page.text


def test_many_writers_are_sentences() -> None:
    writers = {name: lambda t: t.append({"id": [2], "balance": [0]}) for name in "abcdef"}
    exploration = dn.explore(account(), writers, orders=3)
    assert "a committed, b committed" in str(exploration) and "3 orders drawn" in str(exploration)


def test_levels_side_by_side(update_golden: bool) -> None:
    writers = {"ann": lambda t: t.append({"id": [2], "balance": [0]}), "ben": lambda t: t.delete("id = 1")}
    comparison = dn.explore(account(), writers, "balance >= 0").compare()
    assert_consistent(comparison)
    assert_golden(comparison, "exploration_levels", update_golden)
    assert "4 of 6" in str(comparison)


def test_an_order_is_played(update_golden: bool) -> None:
    play = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0").play()
    assert play.moment.turn is None and "before the first turn" in str(play)
    play.move(4)
    page = assert_consistent(play)
    assert_golden(play, "exploration_order", update_golden)
    assert "✓ UPDATE v1" in page.text and play.moment.rows.to_pylist() == [{"id": 1, "balance": 40}]
    assert play.last().rows.to_pylist() == [{"id": 1, "balance": -20}]
    assert (play.next().at, play.first().at, play.back().at) == (6, 0, 0)
