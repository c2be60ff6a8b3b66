"""How one commit looks: actions in groups, files with their statistics, the lines of the log to unfold."""

from __future__ import annotations

import html as markup
import json
import re
import time
from typing import Any

import pytest

import deltanb as dn
from deltanb.log.history import HistoryEntry, commit
from deltanb.notebook import bundle
from deltanb.notebook.views.commit import MAX_RAW
from deltanb.options import SeededIds, StepClock, set_options
from deltanb.testing import MemoryStore
from tests.notebook.looks import Page, assert_consistent, assert_golden

MAX_SECONDS = 0.05  # as for every object


@pytest.fixture(autouse=True)
def _still() -> None:
    set_options(clock=StepClock(), new_id=SeededIds(1), user_name="analyst")


def ducks() -> Any:
    """A commit of every kind: files that come, go, lose rows in place; columns, features, change data."""
    table = dn.create(MemoryStore("memory:///lake/ducks"), {
        "id": [1, 2, 3, 4], "name": ["Donald", "Scrooge", "Huey", None], "pond": ["a", "a", "b", "b"]},
        partition_by=["pond"], properties={"delta.enableChangeDataFeed": "true"})
    table.delete("id = 1")
    table.set_properties({"delta.enableDeletionVectors": "true"})
    table.update({"name": "upper(name)"}, where="id = 3")
    return table


def html_of(entry: Any) -> str:
    return str(bundle.mimebundle(entry)["text/html"])


def text_of(entry: Any) -> str:
    return str(bundle.mimebundle(entry)["text/plain"])


@pytest.mark.parametrize(("name", "version"), [
    ("commit_created", 0), ("commit_rewritten", 1), ("commit_properties", 2), ("commit_in_place", 3)])
def test_golden(name: str, version: int, update_golden: bool) -> None:
    entry = commit(ducks().log, version)
    assert_consistent(entry)
    assert_golden(entry, name, update_golden)


def test_a_commit_out_of_a_history_looks_the_same() -> None:
    table = ducks()
    for entry in (table.history()[0], table.history(1)[0]):
        assert html_of(entry) == html_of(commit(table.log, 3))


def test_actions_are_counted_and_grouped() -> None:
    text = text_of(commit(ducks().log, 1))
    assert "Actions      commitInfo, remove, add, cdc" in text
    assert re.search(r"^Added +\+ 1 file  1 row  ", text, re.M)
    assert re.search(r"^Removed +− 1 file  2 rows  ", text, re.M)
    assert re.search(r"^Change data +Δ 1 file  ", text, re.M)


def test_files_that_only_hold_rows_of_before_say_so() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    table.append({"id": [2]})
    table.optimize()
    text = text_of(table.commit(2))
    assert re.search(r"^Added .*  data unchanged$", text, re.M)
    assert re.search(r"^Removed .*  data unchanged$", text, re.M)
    assert "data unchanged" not in text_of(table.commit(1))


def test_statistics_of_a_file_unfold_from_its_row() -> None:
    rich = html_of(commit(ducks().log, 0)).replace("\n", "")
    [_, second] = re.findall(r"<tr><td><code>part-.*?</details></td></tr>", rich)
    folded = re.search(r"<details><summary>2 columns</summary>(.*)</details>", second)
    assert folded is not None
    cells = re.sub(r"<[^>]+>", " ", folded[1]).split()
    assert cells[cells.index("id") :] == ["id", "3", "4", "0", "name", "Huey", "Huey", "1"]


def test_the_lines_of_the_log_unfold_as_they_are() -> None:
    entry = commit(ducks().log, 0)
    shown = re.findall(r"<details><summary>[\d.]+ k?B</summary>\n<pre>(.*?)</pre></details>", html_of(entry))
    assert [markup.unescape(line).encode() for line in shown] == list(entry.content.lines)
    assert "<details open" not in html_of(entry).split("JSON")[-1]


def test_a_file_that_lost_rows_in_place_says_how_many_it_had() -> None:
    page = assert_consistent(commit(ducks().log, 3))
    assert "~ 1 file deletion vector updated" in page.text
    assert "2 → 1 1 row" in page.text


def test_a_commit_of_wide_rows_and_long_lines_keeps_to_its_size() -> None:
    wide = {f"column_{at}": ["x" * 8, "y" * 8] for at in range(200)}
    table = dn.create(MemoryStore(), {**wide, "part": [1, 2]}, partition_by=["part"])
    for at in range(10):
        table.append({**{name: [values[0]] for name, values in wide.items()}, "part": [at]})
    table.optimize()
    entry = table.history()[0]
    page = assert_consistent(entry)
    assert "more" in page.text and not re.search(r"showing \d+ of \d+ (file|line)s", page.text)
    folded = re.findall(r"<pre>(.*?)</pre>", html_of(entry))
    assert sum(map(len, map(markup.unescape, folded))) <= MAX_RAW + len(folded)


def test_actions_that_nobody_knows_are_shown_by_their_names() -> None:
    store = MemoryStore()
    table = dn.create(store, {"id": [1]})
    lines = [{"commitInfo": {"operation": "ODD"}}, {"txn": {"appId": "etl", "version": 4}},
             {"domainMetadata": {"domain": "pond", "configuration": "{}", "removed": False}},
             {"weather": {"sun": True}}]
    store.put(f"_delta_log/{1:020}.json", "\n".join(map(json.dumps, lines)).encode())
    page = assert_consistent(commit(table.log, 1))
    for word in ("weather", "Transactions", "etl version 4", "Domains", "pond"):
        assert word in page.text


def test_a_commit_that_was_not_read_says_how_to_read_it() -> None:
    entry = HistoryEntry(7, 0, "WRITE")
    assert "not read: table.commit(7)" in Page(html_of(entry)).text
    assert "not read" not in text_of(entry)


def test_looking_reads_nothing_and_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ducks()
    entry = commit(table.log, 0)
    for name in ("read", "open_input", "status", "list_from", "list_names", "list_all"):
        monkeypatch.setattr(table.log.store, name, lambda *_: pytest.fail("something is read"))
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        assert_consistent(entry)
        bundle.mimebundle(entry)
        best = min(best, time.process_time() - start)
    assert best < 4 * MAX_SECONDS
