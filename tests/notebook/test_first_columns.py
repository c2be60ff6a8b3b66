"""Time travel and diffs put first what matters (keys, what differs, conditions) and mark what is next."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, VersionNotFound
from deltanb.notebook import bundle
from deltanb.notebook.views import registry as views
from deltanb.notebook.views.first_columns import named
from deltanb.notebook.views.model import plain
from deltanb.notebook.widgets.time_travel import Panel
from deltanb.observe import next_step
from deltanb.options import SeededIds, set_options
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden

DAY = 24 * 60 * 60 * 1000
NOON = 1_772_452_800_000  # 2026-03-02 12:00 UTC


class Days:
    """A clock that stands at noon; each look at :meth:`later` is a day later."""

    now = NOON

    def __call__(self) -> int:
        return self.now

    def later(self) -> None:
        self.now += DAY


@pytest.fixture
def days() -> Days:
    clock = Days()
    set_options(clock=clock, new_id=SeededIds(1), user_name="analyst")
    return clock


PROPERTIES = {"plain": {}, "deletion vectors": {"delta.enableDeletionVectors": "true"},
              "row ids": {"delta.enableRowTracking": "true"}}


def ducks(days: Any, **properties: str) -> Any:
    """A wide table: versions 1 to 3 change one row, remove one, add one; each on a day of its own."""
    wide = {f"c{at}": [0.5] * 6 for at in range(20)}
    table = dn.create(MemoryStore("memory:///lake/ducks"), {
        **wide, "pond": ["a", "a", "a", "b", "b", "b"], "id": list(range(6)), "money": [1.5] * 6},
        partition_by=["pond"], properties={"delta.enableInCommitTimestamps": "true", **properties})
    one_more = {**{name: [0.5] for name in wide}, "pond": ["c"], "id": [6], "money": [1.0]}
    for act in (lambda: table.update({"money": "2.5"}, where="id = 1"),
                lambda: table.delete("c7 > 0 AND id = 4"), lambda: table.append(one_more)):
        days.later()
        act()
    return table


def rows_of(shown: Any) -> Any:
    return next(section for section in views.fields(shown).sections if section.heading == "Rows")


def cells(shown: Any) -> list[list[str]]:
    return [[plain(cell) for cell in row] for row in rows_of(shown).table.rows]


# -- which columns come first ----------------------------------------------------------------------


def test_a_diff_shows_key_changed_columns_and_those_of_conditions_first(days: Any) -> None:
    table = ducks(days)
    assert rows_of(table.diff(0, 1)).table.columns[:4] == ("change", "id", "money", "c0")
    assert rows_of(table.diff(1, 2)).table.columns[:4] == ("change", "c7", "id", "c0")
    keyed = table.diff(0, 1, keys=["pond", "id"])
    assert rows_of(keyed).table.columns[:4] == ("change", "pond", "id", "money")


def test_time_travel_shows_what_changes_next_and_what_conditions_name_first(days: Any) -> None:
    table = ducks(days)
    travel = table.time_travel(0)
    assert rows_of(travel.frame).table.columns[:4] == ("in v1", "money", "id", "c0")
    assert rows_of(travel.at(1)).table.columns[:4] == ("in v2", "id", "c7", "c0")
    assert rows_of(travel.at(3)).table.columns[:2] == ("c0", "c1")
    assert rows_of(table.time_travel(3, keys="pond").frame).table.columns[:2] == ("pond", "c0")
    assert travel.preview.column_names[:2] == ["c0", "c1"]  # rows in code keep their columns as they are


@pytest.mark.parametrize(("parameters", "columns"), [
    ({"predicate": '["(id#12 = 3)"]'}, ["id"]),
    ({"predicate": "[\"MONEY > 1 AND pond = 'id'\"]"}, ["money", "pond"]),
    ({"predicate": '["(t.id = s.id)"]',
      "matchedPredicates": '[{"actionType":"update","predicate":"s.money > 1"}]'}, ["id", "money"]),
    ({"replaceUsingCols": "(pond, id)"}, ["pond", "id"]), ({"replaceOnCond": "t.id = s.id"}, ["id"]),
    ({"predicate": None}, []), ({"mode": "id"}, []), ("id", []), (None, [])])
def test_columns_are_found_in_conditions_of_any_writer(parameters: Any, columns: list[str]) -> None:
    assert named(parameters, ["id", "money", "pond"]) == columns


# -- columns= --------------------------------------------------------------------------------------


def test_columns_are_shown_as_asked_for(days: Any) -> None:
    table = ducks(days)
    diff = table.diff(0, 1, columns=["money", "c3"])
    assert rows_of(diff).table.columns == ("change", "money", "c3")
    assert cells(diff) == [["~ changed", "1.5 → 2.5", "0.5"]]
    assert "not shown" not in plain(rows_of(diff).summary)
    travel = table.time_travel(0, columns=["c3", "id"])
    assert rows_of(travel.frame).table.columns == ("in v1", "c3", "id")
    assert travel.preview.column_names == ["c3", "id"]
    assert rows_of(travel.compare(0, 1)).table.columns == ("change", "c3", "id")
    assert_consistent(diff)
    assert_consistent(travel.frame)


def test_columns_that_are_not_there_are_refused_by_name(days: Any) -> None:
    table = ducks(days)
    for act in (lambda: table.diff(0, 1, columns=["mony"]), lambda: table.time_travel(columns="mony")):
        with pytest.raises(InvalidArgument, match=r"columns: version \d has no column 'mony'; .*money"):
            act()
    with pytest.raises(InvalidArgument, match="columns=3 is neither a column's name nor a list of them"):
        table.time_travel(columns=3)


# -- what the next version does --------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROPERTIES)
def test_rows_that_change_or_go_on_the_next_step_are_marked(days: Any, kind: str) -> None:
    table = ducks(days, **PROPERTIES[kind])
    travel = table.time_travel(0, columns=["id"])
    assert [row for row in cells(travel.frame) if row[0]] == [["~ changed", "1"]]
    assert "1 is changed in v1 UPDATE" in plain(rows_of(travel.frame).summary)
    assert len(rows_of(travel.frame).table.marked) == 1
    assert [row for row in cells(travel.at(1)) if row[0]] == [["− deleted", "4"]]
    assert "1 is deleted in v2 DELETE" in plain(rows_of(travel.frame).summary)
    assert "none of them changes in v3 WRITE" in plain(rows_of(travel.at(2)).summary)
    assert rows_of(travel.frame).table.columns == ("id",)
    assert travel.at(3).next_step is None


def test_without_a_key_a_row_that_is_written_anew_changes() -> None:
    table = dn.create(MemoryStore(), {"a": [1, 1, 2], "b": [0.5, 0.5, 1.5]})
    table.update({"b": "9"}, where="a = 1")
    assert table.time_travel(0).frame.next_step.fates == ("changes", "changes", "")
    table.delete("a = 2")
    assert table.time_travel(1).frame.next_step.fates == ("", "", "goes")


def test_a_row_that_an_optimize_moves_stays() -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2]})
    table.append({"id": [3]})
    table.optimize()
    assert table.time_travel(1).frame.next_step.fates == ("", "", "")


def test_the_next_step_is_the_next_version_that_can_be_read() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    table.append({"id": [2]})
    table.update({"id": "3"}, where="id = 2")
    table.delete("id = 3")
    table.vacuum(0, check=False)
    versions = sorted(table.versions())
    travel = table.time_travel(versions[0])
    assert travel.frame.next_step is not None and travel.frame.next_step.version == versions[1]


def test_too_much_to_compare_is_said_and_the_rows_are_shown(
    days: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = ducks(days)
    monkeypatch.setattr(next_step, "MAX_ROWS", 0)
    assert "next v1 UPDATE: too many rows to compare" in plain(rows_of(table.time_travel(0).frame).summary)
    monkeypatch.setattr(next_step, "MAX_FILES", 0)
    frame = table.time_travel(0).frame
    assert "next v1 UPDATE: too many files to compare" in plain(rows_of(frame).summary)
    assert frame.preview.num_rows == 6


def test_only_files_of_the_rows_shown_and_of_their_partitions_are_read(days: Any) -> None:
    table = ducks(days)
    opened: list[str] = []
    store = table.log.store
    really = store.open_input
    store.open_input = lambda name: (opened.append(name), really(name))[1]
    table.time_travel(1)
    assert {name.split("/")[0] for name in opened if name.endswith(".parquet")} == {"pond=a", "pond=b"}
    opened.clear()
    table.time_travel(3)
    assert len([name for name in opened if name.endswith(".parquet")]) == 3  # each file once, none of before


def test_golden(days: Any, update_golden: bool) -> None:
    frame = ducks(days).time_travel(0).frame
    assert_consistent(frame)
    assert_golden(frame, "time_travel_next", update_golden)


# -- a day -----------------------------------------------------------------------------------------


def test_a_day_means_its_end(days: Any) -> None:
    table = ducks(days)
    travel = table.time_travel()
    assert travel.at("2026-03-02").version == 0  # at its midnight there was no table
    assert travel.at("2026-03-03").version == 1
    assert travel.at("2026-03-05").version == 3  # the newest commit's day ends in the future
    assert travel.at("2026-03-04T00:00:00Z").version == 1
    assert (travel.compare("2026-03-02", "2026-03-04").start, travel.frame.version) == (0, 2)
    for day in ("2026-03-01", "2026-03-06"):
        with pytest.raises(VersionNotFound):
            travel.at(day)


def test_a_day_typed_means_its_end(days: Any) -> None:
    travel = ducks(days).time_travel()
    panel = Panel(travel)
    panel.box.value = "2026-03-03"
    assert travel.frame.version == panel.one.value == 1
    panel.box.value = "2026-03-02, 2026-03-05"
    assert (travel.frame.start, travel.frame.version) == (0, 3)
    assert "VersionNotFound" not in panel.message.value


def test_text_and_html_have_the_marks(days: Any) -> None:
    frame = ducks(days).time_travel(0).frame
    forms = bundle.mimebundle(frame)
    assert "~ changed" in forms["text/plain"] and "~ changed" in forms["text/html"]
