"""What writers can do to each other, shown: outcomes as a grid, the order that breaks, the levels."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.drawing.state_graph import laid_out
from deltanb.observe.explore.exploration import WORDINGS, State, Taken
from deltanb.observe.explore.play import Play
from deltanb.observe.explore.states import MAX_DRAWN, path_of
from deltanb.testing import MemoryStore
from deltanb.text import formatting as units
from tests.notebook import large
from tests.notebook.looks import assert_consistent, assert_golden

ENDED = "all have ended"
RING = re.compile(r'<circle class="dnb-way-ring" cx="([\d.]+)" cy="([\d.]+)"')


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
    assert "the order ann ×2, ben, ann, ben ×2" in str(exploration) and "6 ben ✓ commits v2" in page.text


def test_many_writers_are_sentences() -> None:
    writers = {name: lambda t: t.append({"id": [2], "balance": [0]}) for name in "abcdef"}
    exploration = dn.explore(account(), writers, orders=3)
    assert "a ✓, b ✓" in str(exploration) and "3 orders drawn" in str(exploration)


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


def test_an_outcome_says_the_rows_that_not_all_have_and_of_how_many_tries() -> None:
    def seven(table: Any) -> None:
        table.append({"id": [7], "balance": [0]})

    def total(table: Any) -> None:
        table.append({"id": [9], "balance": [sum(table.to_arrow()["balance"].to_pylist())]})

    def count(table: Any) -> None:
        table.append({"id": [table.to_arrow().num_rows], "balance": [0]})

    same = dn.explore(account(), {"total": total, "seven": seven})
    assert "with" not in str(same).split("\n")[2], "all end with the same rows"
    both = dn.explore(account(), {"count": count, "seven": seven})
    assert {"(1, 0)", "(2, 0)"} <= set(re.findall(r"\(\d, 0\)", str(both)))
    assert "✓ 1 of 1–2" in str(both)


@pytest.mark.parametrize("works", [1, 2], ids=["the same work", "two works"])
def test_the_state_in_which_an_order_is_has_a_ring(works: int) -> None:
    writers = {"ann": withdraw, "ben": withdraw if works == 1 else lambda table: withdraw(table)}
    exploration = dn.explore(account(), writers, "balance >= 0")
    places = laid_out(exploration.states).places
    for outcome in exploration.outcomes:
        play = exploration.play(outcome)
        assert play.moment.turns == exploration.replay(outcome.number) == exploration.replay(outcome)
        for moment in play.moments:
            assert moment.state == exploration.states[moment.path[moment.at]]
            (ring,) = RING.findall(bundle.mimebundle(moment)["text/html"])
            assert tuple(map(float, ring)) == places[moment.path[moment.at]]
            assert moment.state.breaks == ("does not hold here" in str(moment))
            assert moment.state.breaks == any(one["balance"] < 0 for one in moment.rows.to_pylist())
        assert exploration.outcomes.index(outcome) in play.last().state.outcomes


def test_of_many_states_those_on_the_way_to_outcomes_are_drawn() -> None:
    def twice(table: Any) -> None:
        withdraw(table)
        withdraw(table)

    writers = {name: lambda table, name=name: twice(table) for name in ("ann", "ben", "cho")}
    exploration = dn.explore(account(), writers, "balance >= 0")
    assert exploration.num_states > MAX_DRAWN >= len(exploration.states)
    assert f"{len(exploration.states)} states of " in bundle.mimebundle(exploration)["text/html"]
    first = exploration.outcomes[0]
    path = path_of(exploration, exploration.replay(first.number))
    assert len(path) == len(first.order) + 1 and 0 in exploration.states[path[-1]].outcomes


@pytest.mark.parametrize("limits", [{"max_states": 40}, {"orders": 20, "seed": 3}], ids=["stopped", "drawn"])
def test_where_writers_have_turns_left_is_no_end(limits: dict[str, int]) -> None:
    def twice(table: Any) -> None:
        withdraw(table)
        withdraw(table)

    writers = {name: lambda table: twice(table) for name in ("ann", "ben", "cho")}
    exploration = dn.explore(account(), writers, "balance >= 0", **limits)
    shortened = [one for one in exploration.violations
                 if len(exploration.replay(one.number)) > len(one.turns)]
    ways = [exploration.states[path_of(exploration, one.turns)[-1]] for one in shortened]
    last = [state for state in (ways if "orders" in limits else exploration.states) if not state.after]
    assert last and not any(state.is_end for state in last)
    assert (ENDED in bundle.mimebundle(exploration)["text/html"]) == ("orders" in limits)


def test_each_end_has_the_number_of_its_outcome() -> None:
    writers = {name: lambda table: (withdraw(table), withdraw(table)) for name in ("ann", "ben", "cho")}
    exploration = dn.explore(account(), writers, "balance >= 0")
    assert exploration.num_states > MAX_DRAWN
    ends = [state for state in exploration.states if state.is_end]
    assert ends and all(len(state.outcomes) == 1 for state in ends)
    for violation in exploration.violations:
        last = exploration.play(violation).last()
        if last.state is not None:
            outcome = exploration.outcomes[last.state.outcomes[0]]
            failed = {turn.writer: turn.rule for turn in last.turns if turn.did == "fails"}
            assert (failed, last.rows) == (dict(outcome.rules), outcome.rows)


def test_the_states_say_to_how_many_outcomes_they_lead() -> None:
    page = bundle.mimebundle(large.explored())["text/html"]
    assert f"on the way to 5 of {units.number(1000)} outcomes" in page and "each outcome" not in page


def test_an_order_that_leaves_what_is_drawn_is_followed_as_far_as_that() -> None:
    exploration = dn.explore(account(), {"ann": withdraw, "ben": lambda t: t.delete("id = 1")}, max_states=4)
    play = exploration.play(0)
    assert 0 < len(play.moment.path) < len(play.moments)
    assert play.last().state is None
    assert_consistent(play)
    assert not RING.search(bundle.mimebundle(play)["text/html"])


def test_the_text_has_the_turn_that_is_shown() -> None:
    def often(table: Any) -> None:
        for _ in range(9):
            table.append({"id": [2], "balance": [0]})

    play = dn.explore(account(), {"ann": often}).play()
    for at in range(1, len(play.moments)):
        assert re.search(rf"^▶  {at}\b", str(play.move(at)), re.MULTILINE), str(play.moment)


def test_whatever_comes_of_a_turn_is_shown() -> None:
    turns = [Taken("ann", did, 1, "WRITE", "append", lock="1:k (shared)", others=("ben",))
             for did in WORDINGS]
    play = Play("pond", ["ann", "ben"], turns, [None] * (len(turns) + 1), 0)
    page = assert_consistent(play.last())
    for turn in turns:
        assert f"{turn.sign} {turn.in_short}".strip() in page.text
    assert "‖ waits for 1:k (shared), held by ben" in page.text


def test_columns_that_are_not_shown_are_counted() -> None:
    table = dn.create(MemoryStore(), {f"c{at}": [1] for at in range(12)})
    play = dn.explore(table, {"ann": lambda t: t.delete("c0 = 1")}).play()
    assert re.search(r"^Rows +1 row, 8 of 12 columns: \(1, 1, 1, 1, 1, 1, 1, 1\)$", str(play), re.MULTILINE)


def test_states_are_drawn_apart_and_to_the_right_of_those_before_them() -> None:
    for many in (2, 7, 90):
        states = (State(0, tuple((f"w{at}", at) for at in range(1, many + 1))),
                  *(State(1, (("last", many + 1),)) for _ in range(many)), State(2, ()))
        places = laid_out(states).places
        assert len(set(places)) == len(states)
        for state, (x, _) in zip(states, places, strict=True):
            assert all(places[to][0] > x for _, to in state.after)
        middle = sorted(y for x, y in places[1:-1])
        assert all(b - a > 11.9 for a, b in itertools.pairwise(middle))


def test_rows_of_very_large_tables_are_counted_alone() -> None:
    table = dn.create(MemoryStore(), pa.table({"n": range(2000)}))
    exploration = dn.explore(table, {"ann": lambda t: t.delete("n = 1"), "ben": lambda t: t.delete("n = 2")})
    assert units.number(1999) in str(exploration) and "with" not in str(exploration).split("\n")[2]


def test_a_turn_past_other_layers_keeps_off_the_states_there() -> None:
    states = (State(0, (("a", 1), ("b", 3))), State(1, (("a", 2),)), State(2, (("a", 3),)), State(1, ()))
    layout = laid_out(states)
    assert [x for x, _ in layout.bends[0, 3]] == [layout.places[1][0], layout.places[2][0]]
    for (_, y), state in zip(layout.bends[0, 3], (1, 2), strict=True):
        assert abs(y - layout.places[state][1]) >= 9
    assert layout.course([0, 3]).count("L") == 3 and layout.course([0, 1]).count("L") == 1


def test_row_levels_side_by_side() -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "balance": [1, 1]},
                      properties={"delta.enableDeletionVectors": "true"})
    writers = {"ann": lambda t: t.delete("id = 1"), "ben": lambda t: t.delete("id = 2")}
    comparison = dn.explore(table, writers).compare(row_level=["off", "all"])
    page = assert_consistent(comparison)
    assert "2 levels  Serializable\nrow level off: 3 outcomes\nrow level all: 1 outcome\n" in str(comparison)
    assert "ann ✓, ben ✓ 2 of 6 6 of 6" in page.text
    both = dn.explore(table, writers).compare(["Serializable", "WriteSerializable"], row_level=["off", "all"])
    assert "4 levels\nSerializable, off: 3 outcomes" in str(both)
