"""How a diff looks: the same words in text and HTML, changed cells as ``before → after``."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.notebook import bundle
from deltanb.notebook.drawing import html
from deltanb.notebook.views import diff
from deltanb.notebook.views import registry as views
from deltanb.notebook.views.model import plain
from deltanb.options import SeededIds, set_options
from deltanb.testing import MemoryStore, TableBuilder
from tests.notebook.looks import Page, assert_consistent, assert_golden
from tests.notebook.samples import TIME

MAX_SECONDS = 0.05  # as for every object


@pytest.fixture(autouse=True)
def _still() -> None:
    set_options(clock=lambda: TIME, new_id=SeededIds(1), user_name="analyst")


def ducks() -> Any:
    """A table with a change of every kind."""
    table = dn.create(MemoryStore("memory:///lake/ducks"), {
        "id": [1, 2, 3, 4], "name": ["Donald", "Scrooge", "Huey", "Dewey"],
        "money": [0.5, 1e9, None, 2.0]}, properties={"delta.enableDeletionVectors": "true"})
    table.update({"money": "money + 1", "name": "upper(name)"}, where="id = 1")
    table.append({"id": [5, 6], "name": ["Louie", ""], "money": [3.0, None]})
    table.delete("id = 2")
    table.add_columns("note string")
    table.set_properties({"delta.appendOnly": "false"})
    return table


def text_of(difference: Any) -> str:
    return str(bundle.mimebundle(difference)["text/plain"])


@pytest.mark.parametrize(("name", "versions"), [
    ("diff", (0, 5)), ("diff_backwards", (5, 0)), ("diff_in_place", (2, 3)), ("diff_same", (3, 3))])
def test_golden(name: str, versions: tuple[int, int], update_golden: bool) -> None:
    difference = ducks().diff(*versions)
    assert_consistent(difference)
    assert_golden(difference, name, update_golden)


def test_golden_of_the_log_alone(update_golden: bool) -> None:
    table = ducks()
    difference = table.snapshot - table.as_of(0).snapshot
    assert_consistent(difference)
    assert_golden(difference, "diff_log", update_golden)


def test_a_changed_cell_says_before_and_after_and_the_others_stay() -> None:
    difference = ducks().diff(0, 1)
    page = assert_consistent(difference)
    assert "~ changed 1 Donald → DONALD 0.5 → 1.5" in page.text
    marked = re.findall(r'<span class="dnb-changed">(.*?)</span>', bundle.mimebundle(difference)["text/html"])
    assert marked == ["Donald → DONALD", "0.5 → 1.5", "4 → 3"]  # the last: live rows of the file


def test_what_was_not_compared_is_said() -> None:
    table = ducks()
    difference = table.diff(0, 5, max_rows=3)
    assert_consistent(difference)
    assert "not compared: at most 3 added, 2 removed; 5 rows" in text_of(difference)
    assert "max_rows=3" in text_of(difference)


def test_files_that_are_gone_are_said_without_a_path_of_the_machine(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "ducks", {"id": [1]})
    for file in (tmp_path / "ducks").glob("*.parquet"):
        file.unlink()
    table.overwrite({"id": [2]})
    difference = table.diff(0, 1)
    page = assert_consistent(difference)
    assert "not compared: at most 1 added, 1 removed; version 0 of ducks names the data file" in page.text


def test_values_stay_in_their_cell() -> None:
    table = dn.create(MemoryStore(), {"id": [1], "x": ["<b>\n" + "y" * 500]})
    table.update({"x": "'z'"})
    page = assert_consistent(table.diff(0))
    assert "<b>\\n" in page.text
    assert "…" in page.text


def test_wide_rows_show_their_key_and_what_changed_first() -> None:
    columns = {f"c{at}": [0.5, 1.5] for at in range(40)}
    table = dn.create(MemoryStore(), {**columns, "id": [1, 2]})
    table.update({"c30": "9"}, where="id = 1")
    difference = table.diff(0)
    assert_consistent(difference)
    text = text_of(difference)
    assert "29 columns not shown" in text
    assert "0.5 → 9.0" in text


def test_rows_take_the_columns_that_fit_and_tell_how_many_do_not() -> None:
    table = dn.create(MemoryStore(), {f"long_name_{at}": [at, at] for at in range(10)})
    table.append({f"long_name_{at}": [at] for at in range(10)})
    for difference, lead, hidden in ((table.diff(0), ["change"], "5 columns not shown"),
                                     (table.time_travel().frame, [], "4 columns not shown")):
        assert_consistent(difference)
        rows = next(section for section in views.fields(difference).sections if section.heading == "Rows")
        assert rows.table is not None
        names = [*lead, *(f"long_name_{at}" for at in range(6 - len(lead)))]
        assert list(rows.table.columns) == names
        assert {len(row) for row in rows.table.rows} == {len(names)}
        assert hidden in plain(rows.summary)


def test_a_data_column_may_have_the_name_of_ours() -> None:
    table = dn.create(MemoryStore(), {"change": [1], "note": ["x" * 90], **{f"c{n}": [n] for n in range(9)}})
    table.append({"change": [2], "note": ["y" * 90], **{f"c{n}": [n] for n in range(9)}})
    assert "change change note c0" in assert_consistent(table.diff(0)).text


def test_the_text_has_what_changed_however_long_the_key() -> None:
    keys = {f"k{at}": [1, 2] for at in range(diff.MAX_TEXT_COLUMNS + 1)}
    table = dn.create(MemoryStore(), {**keys, "late": [-3, 7]})
    table.update({"late": "0"}, where="k0 = 1")
    difference = table.diff(0, keys=list(keys))
    assert_consistent(difference)
    assert "-3 → 0" in text_of(difference)


@pytest.mark.parametrize("rows", [1, 3000])
def test_many_rows_keep_to_the_limits(rows: int) -> None:
    table = dn.create(MemoryStore(), {"id": list(range(rows)), "text": ["x" * 3000] * rows})
    table.update({"text": "concat(text, 'y')"})
    table.append({"id": [-1], "text": ["new"]})
    difference = table.diff(0)
    assert_consistent(difference)
    assert "+ added" in bundle.mimebundle(difference)["text/html"]
    with set_options(max_rows=2000):
        assert len(views.html_of(difference, "").encode()) <= html.MAX_BYTES


def test_a_diff_of_many_files_is_drawn_at_once() -> None:
    made = TableBuilder(MemoryStore()).create("id long")
    stats = json.dumps({"numRecords": 5})
    made.commit(*[AddFile(f"part-{at}", {}, 10, TIME, stats=stats) for at in range(20_000)])
    table = dn.DeltaTable(made.log)
    difference = table.diff(0, 1)
    assert difference.files.added.num_rows == 20_000
    assert difference.rows.num_added == 100_000
    best = min(_seconds(difference) for _ in range(5))
    assert best < MAX_SECONDS


def _seconds(difference: Any) -> float:
    start = time.process_time()
    bundle.mimebundle(difference)
    return time.process_time() - start


def test_looking_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    table = dn.create(store, {"id": [1]})
    table.append({"id": [2]})
    difference = table.diff(0)
    for name in ("read", "open_input", "status", "list_from", "list_names"):
        monkeypatch.setattr(store, name, lambda *_: pytest.fail("something is read"))
    assert_consistent(difference)
    assert isinstance(Page(bundle.mimebundle(difference)["text/html"]).text, str)


def test_shares_are_fair_and_end() -> None:
    assert diff.shares({"a": 0, "b": 0}, 5) == {"a": 0, "b": 0}
    assert diff.shares({"a": 9, "b": 9}, 3) == {"a": 2, "b": 1}
