"""What a command says it did: the same in text and HTML, with units, and without times in the text."""

from __future__ import annotations

import pytest

import deltanb as dn
from deltanb.commands.result import CommandResult
from deltanb.notebook import bundle
from deltanb.notebook.views import results
from deltanb.query.result import StatementResult
from deltanb.testing import MemoryStore
from tests.notebook.looks import assert_consistent, assert_golden

METRICS = {"numDeletedRows": 1200, "numCopiedRows": 0, "numRemovedFiles": 3, "numRemovedBytes": 4_100_000,
           "scanTimeMs": 41, "executionTimeMs": 1500}


def test_result(update_golden: bool) -> None:
    done = CommandResult("DELETE", 4, "arrow", METRICS)
    page = assert_consistent(done)
    assert_golden(done, "result", update_golden)
    assert "executionTime 1.5 s" in page.text and "Time" not in str(done)
    assert "numCopiedRows" not in page.text


@pytest.mark.parametrize(("name", "engine", "words"), [
    ("DELETE", "spark", "on Spark\nno row matched"),
    ("OPTIMIZE", "log", "log only\nnothing to do"),
])
def test_nothing_done_says_why(name: str, engine: str, words: str) -> None:
    done = CommandResult(name, None, engine)
    assert str(done) == f"{name}  nothing committed  {words}"
    assert_consistent(done)


@pytest.mark.parametrize(("done", "words"), [
    (StatementResult("DROP TABLE", "shop.orders", "dropped"), "DROP TABLE  ✓ shop.orders dropped"),
    (StatementResult("DROP SCHEMA", "shop", "there is no such schema", is_done=False),
     "DROP SCHEMA  nothing done  shop: there is no such schema"),
])
def test_a_change_of_a_catalog_says_what_was_done(done: StatementResult, words: str) -> None:
    assert str(done) == words
    assert_consistent(done)


def test_real_commands() -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2, 3]})
    deleted = table.delete("id = 2")
    assert str(deleted).startswith("DELETE  ✓ committed v1  in this process\nMetrics")
    for done in (deleted, table.delete("id = 99"), table.update({"id": "id + 1"}), table.restore(0)):
        assert_consistent(done)
        assert "Time" not in bundle.text(done)


def test_many_metrics_are_counted_where_they_do_not_fit() -> None:
    done = CommandResult("MERGE", 4, "arrow", {f"numThings{i}": i for i in range(1, 40)})
    assert str(done).split("\n")[-1] == "… 31 more metrics"
    assert_consistent(done)


@pytest.mark.parametrize(("name", "value", "shown"), [
    ("tableSizeAfterRestore", 2500, "2.5 kB"), ("numOfFilesAfterRestore", 2500, "2\u00a0500"),
    ("p50FileSize", 12, "12 B"), ("numTargetBytesAdded", 10**6, "1.0 MB"), ("scanTimeMs", 0, "0 ms"),
])
def test_units_follow_the_name(name: str, value: int, shown: str) -> None:
    assert results.measure(name, value) == shown
