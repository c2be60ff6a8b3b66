"""How the change data feed looks: updated rows as before → after, what came and went, commit by commit."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.commands.read.feed import ChangeFeed
from deltanb.notebook import bundle
from deltanb.options import SeededIds, StepClock, set_options
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(autouse=True)
def _still() -> None:
    set_options(clock=StepClock(), new_id=SeededIds(1), user_name="analyst")


def ducks() -> Any:
    """Versions 0 to 3: four ducks, one more, two richer, one gone."""
    table = dn.create(MemoryStore("memory:///lake/ducks"), {
        "name": ["Donald", "Scrooge", "Huey", "Dewey"], "id": [1, 2, 3, 4], "money": [0.5, 1e9, None, 2.0],
        "pond": ["a", "a", "b", "b"]}, partition_by=["pond"], properties=FEED)
    table.append({"name": ["Louie"], "id": [5], "money": [3.0], "pond": ["b"]})
    table.update({"money": "money + 1", "name": "upper(name)"}, where="id IN (1, 4)")
    table.delete("id = 2")
    return table


def text_of(feed: Any) -> str:
    return str(bundle.mimebundle(feed)["text/plain"])


@pytest.mark.parametrize(("name", "versions"), [("changes", (1, 3)), ("changes_one", (2, 2))])
def test_golden(name: str, versions: tuple[int, int], update_golden: bool) -> None:
    changes = ducks().changes(*versions)
    assert_consistent(changes)
    assert_golden(changes, name, update_golden)


def test_an_updated_row_is_one_row_with_before_and_after_in_its_cells() -> None:
    changes = ducks().changes(2)
    page = assert_consistent(changes)
    assert "~ updated v2 1 Donald → DONALD 0.5 → 1.5 a" in page.text
    assert "~ updated v2 4 Dewey → DEWEY 2.0 → 3.0 b" in page.text
    assert "− deleted v3 2 Scrooge 1000000000.0 a" in page.text
    marked = re.findall(r'<span class="dnb-changed">(.*?)</span>', bundle.mimebundle(changes)["text/html"])
    assert marked == ["Donald → DONALD", "0.5 → 1.5", "Dewey → DEWEY", "2.0 → 3.0"]


def test_key_and_changed_columns_come_first_and_what_changed_ahead_of_what_came() -> None:
    lines = text_of(ducks().changes(0)).split("\n")
    assert "~ 2 updated, + 5 inserted, − 1 deleted; before and after matched by id" in lines[1]
    assert lines[2].split() == ["change", "version", "id", "name", "money", "pond"]
    assert [line.split()[1] for line in lines[3:6]] == ["updated", "updated", "inserted"]


def test_each_commit_says_what_it_did() -> None:
    changes = ducks().changes(0)
    assert "v0 +4, v1 +1, v2 ~2 and 1 more" in text_of(changes)
    assert [{k: v for k, v in one.items() if k != "time"} for one in changes.commits] == [
        {"version": 0, "insert": 4}, {"version": 1, "insert": 1},
        {"version": 2, "update_preimage": 2, "update_postimage": 2}, {"version": 3, "delete": 1}]


def test_every_commit_has_rows_in_the_picture_however_large_the_first() -> None:
    table = dn.create(MemoryStore(), {"id": list(range(500)), "n": [0] * 500}, properties=FEED)
    table.update({"n": "1"}, where="id = 499")
    changes = table.changes(0)
    assert "499  0 → 1" in text_of(changes)
    assert "showing 20 of 501 changes" in assert_consistent(changes).text


def feed_of(*rows: tuple[str, dict[str, Any]], partition: tuple[str, ...] = ()) -> ChangeFeed:
    return ChangeFeed(pa.Table.from_pylist([
        {**row, "_change_type": kind, "_commit_version": 1, "_commit_timestamp": None} for kind, row in rows
    ]), "ducks", partition)


def test_rows_are_matched_by_a_key_whatever_their_order() -> None:
    changes = feed_of(("update_preimage", {"id": 1, "n": 10}), ("update_preimage", {"id": 2, "n": 20}),
                      ("update_postimage", {"id": 2, "n": 21}), ("update_postimage", {"id": 1, "n": 11}))
    pairs = changes.updated(1)
    assert pairs is not None and pairs.key == "id"
    assert list(zip(pairs.before["n"].to_pylist(), pairs.after["n"].to_pylist(), strict=True)) == [
        (10, 11), (20, 21)]
    assert "matched by id" in text_of(changes)


def test_without_a_key_their_order_tells_which_belong_together() -> None:
    changes = feed_of(*(("update_preimage", {"a": 1, "b": 2}) for _ in range(2)),
                      *(("update_postimage", {"a": 1, "b": 3}) for _ in range(2)))
    assert "matched by their order" in text_of(changes)
    assert text_of(changes).count("2 → 3") == 2


def test_rows_that_do_not_belong_together_are_shown_one_by_one() -> None:
    changes = feed_of(("update_preimage", {"a": 1.5, "b": 2.5}), ("update_postimage", {"a": 3.5, "b": 4.5}))
    assert changes.updated(1) is None
    text = text_of(changes)
    assert "→" not in text and "~ before" in text and "~ after" in text
    lone = feed_of(("update_preimage", {"id": 1}))
    assert lone.updated(1) is None and "~ before" in text_of(lone)


def test_of_a_single_row_nothing_has_to_tell_what_belongs_together() -> None:
    changes = feed_of(("update_preimage", {"carrier": "UA", "n": 5}),
                      ("update_postimage", {"carrier": "UA", "n": 6}))
    assert "5 → 6" in text_of(changes) and "matched" not in text_of(changes)


def test_partition_columns_make_no_key() -> None:
    rows = (*(("update_preimage", {"p": p, "n": 5.0}) for p in (1, 2)),
            *(("update_postimage", {"p": p, "n": 6.0}) for p in (1, 2)))
    assert feed_of(*rows).updated(1).key == "p"  # type: ignore[union-attr]
    assert feed_of(*rows, partition=("p",)).updated(1).key == ""  # type: ignore[union-attr]


@pytest.mark.parametrize("columns", [[], ["money"], ["_commit_version"]])
def test_any_columns_can_be_looked_at(columns: list[str]) -> None:
    changes = ducks().changes(0, columns=columns)
    assert "~ 2 updated" in text_of(changes)
    assert_consistent(changes)


def test_no_change_is_said() -> None:
    assert text_of(ducks().changes(0, where="id = 77")) == "Changes ducks  no row changed"


def test_the_feed_is_an_arrow_table_in_all_but_its_look() -> None:
    changes = ducks().changes(1)
    table = changes.to_arrow()
    assert type(table) is pa.Table and pa.table(changes).equals(table) and changes == table
    assert (len(changes), changes.num_rows, changes.column_names) == (6, 6, table.column_names)
    assert changes["id"].to_pylist() == table["id"].to_pylist()
    assert changes.select(["id"]).equals(table.select(["id"]))
    assert changes.to_pandas().equals(table.to_pandas())
    assert {"num_rows", "to_pandas", "updated"} <= set(dir(changes))
    with pytest.raises(AttributeError, match="no attribute 'nephews'"):
        _ = changes.nephews
    with pytest.raises(AttributeError):
        _ = changes._nephews


def test_wide_rows_keep_to_the_limits() -> None:
    wide = {f"c{at}": ["x" * 500 if at < 50 else "y"] for at in range(60)}
    table = dn.create(MemoryStore(), {"id": [1], **wide}, properties=FEED)
    table.update({"c50": "'z'"})
    changes = table.changes(1)
    assert_consistent(changes)
    assert "columns not shown" in text_of(changes) and "y → z" in text_of(changes)
