"""What would have been, shown: the grid of a history by levels, an explanation, both on the timeline."""

from __future__ import annotations

import time
from typing import Any

import pytest

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.observe.finer_rules import SPANS
from deltanb.observe.what_if import Replay, explain_conflict
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from tests.notebook.looks import assert_consistent, assert_golden

MAX_SECONDS = 0.05  # a repr, whatever its size


def info(operation: str, read: int | None, user: str, blind: bool = False, **parameters: Any) -> Any:
    return {"commitInfo": {"operation": operation, "readVersion": read, "isBlindAppend": blind,
                           "operationParameters": parameters, "userName": user, "timestamp": 1,
                           "txnId": f"{operation} {read} {user}"}}


def orders(level: str = "WriteSerializable") -> DeltaLog:
    """Three writers: a delete that an append came before, a merge that tells little, a layout."""
    builder = TableBuilder(MemoryStore("memory:///orders")).create(
        "id long, day string", partition_by=["day"], properties={"delta.isolationLevel": level})
    builder.commit(info("WRITE", 0, "etl-a", True),
                   add("day=mon/a", {"day": "mon"}), add("day=tue/b", {"day": "tue"}))
    builder.commit(info("WRITE", 1, "etl-a", True), add("day=mon/c", {"day": "mon"}))
    builder.commit(info("DELETE", 1, "etl-b", predicate="[\"day = 'mon'\"]"),
                   remove("day=mon/a", partitionValues={"day": "mon"}))
    builder.commit(info("MERGE", 2, "cid", predicate='["t.id = s.id"]'), add("day=tue/d", {"day": "tue"}))
    builder.commit(info("WRITE", 2, "etl-a", True), add("day=tue/e", {"day": "tue"}))
    builder.commit({"commitInfo": {"operation": "WRITE", "userName": "other"}},
                   add("day=tue/f", {"day": "tue"}))
    return builder.log


def lost(log: DeltaLog) -> None:
    """One that fails in this session, and would have passed under another level."""
    with set_options(user_name="ann"):
        txn = log.start_transaction()
        gone = [file.remove(1) for file in txn.filter_files("day = 'tue'")]
        log.start_transaction().commit([dn.actions.AddFile("day=tue/x", {"day": "tue"}, 1, 1)], "WRITE")
        with pytest.raises(dn.DeltaError):
            txn.commit(gone, dn.Operation("DELETE"))


def replayed() -> Replay:
    with dn.teaching(seed=1):
        log = orders()
        TableBuilder(log.store, log.update().version)
        txn = log.start_transaction()
        gone = [file.remove(1) for file in txn.filter_files("day = 'mon'")][:1]
        with set_options(user_name="ben"):
            log.start_transaction().commit(gone, dn.Operation("DELETE", {"predicate": "day = 'mon'"}))
        with set_options(user_name="ann"), pytest.raises(dn.DeltaError):
            txn.commit(gone, dn.Operation("DELETE", {"predicate": "day = 'mon'"}))
        return log.history().replay()


def test_the_grid(update_golden: bool) -> None:
    replay = replayed()
    assert_golden(replay, "what_if_grid", update_golden)
    page = assert_consistent(replay)
    plain = str(replay)
    assert "Serializable: 2 commits would have failed" in plain
    assert "1 cannot be answered" in plain and "v4*" in plain
    assert "t.id" not in plain
    for words in ("✕ append", "✕ delete / read", "failed at v7", "? not known",
                  "the version it read is not recorded", "cannot be determined without its source"):
        assert words in page.text


def test_names_of_writers_stay_on_one_line() -> None:
    page = bundle.mimebundle(replayed())["text/html"]
    assert '<span class="dnb-fixed">etl-b</span>' in page


def test_rules_left_out_are_named(update_golden: bool) -> None:
    replay = orders().history().replay(without="append")
    assert_golden(replay, "what_if_without", update_golden)
    assert_consistent(replay)
    assert "without append" in str(replay) and "as recorded" in str(replay)


def test_row_levels_and_other_partitions_are_named_and_doubts_have_their_sign(update_golden: bool) -> None:
    builder = TableBuilder(MemoryStore("memory:///lake/events")).create("id long, day string")
    builder.commit(info("WRITE", 0, "etl-a"), add("a", stats='{"numRecords":1}'))
    for version, day in enumerate(("mon", "tue")):
        builder.commit(info("DELETE", 0, "etl-b", predicate=f"[\"day = '{day}'\"]"), add(f"b{version}"))
    replay = builder.log.history().replay("Serializable", row_level="statistics", partition_by="day")
    page = assert_consistent(replay)
    assert_golden(replay, "what_if_finer", update_golden)
    plain = str(replay)
    assert "\nsupposed: row-level concurrency by statistics, partitions by day\n" in plain
    assert "✕\u00a0append\u00a0?" in plain and "may have passed after all" in plain
    assert f"perhaps not: {SPANS}" in page.text


def test_a_history_without_races_is_a_sentence() -> None:
    log = TableBuilder(MemoryStore("memory:///calm")).create().log
    assert_consistent(log.history().replay())
    assert str(log.history().replay()) == (
        "What if calm  1 commit  0 raced\nno commit raced another, so no rule could have ended one")


def test_the_timeline_has_a_remark_where_it_would_have_ended_otherwise(update_golden: bool) -> None:
    log = orders("Serializable")
    with dn.teaching(seed=1):
        lost(log)
    replay = log.history().replay(["WriteSerializable", "Serializable"])
    shown = replay.timeline("Serializable")
    text = str(shown)
    assert "had the table been Serializable: " in text
    assert [line for line in text.split("\n") if "* v3 " in line and "✕ append" in line]
    assert "had the table been WriteSerializable: " in str(replay.timeline())
    assert set(bundle.mimebundle(replay)) == {"text/plain", "text/html"}
    with pytest.raises(dn.errors.InvalidArgument, match="was not replayed; there are WriteSer"):
        replay.timeline("SnapshotIsolation")


@pytest.mark.parametrize("case", ["conflict", "ok", "nothing", "empty"])
def test_an_explanation(case: str, update_golden: bool) -> None:
    with dn.teaching(seed=1):
        log = orders("Serializable")
        builder = TableBuilder(log.store, log.update().version)
        txn = log.start_transaction()
        gone = [file.remove(1) for file in txn.filter_files("day = 'mon'")]
        if case != "nothing":
            builder.commit(info("WRITE", 6, "etl-a", True), add("day=tue/g", {"day": "tue"}))
        if case in ("conflict", "empty"):
            builder.commit(info("MERGE", 7, "etl-b"), add("day=mon/h", {"day": "mon"}))
            builder.commit(info("WRITE", 8, "etl-a", True), add("day=mon/i", {"day": "mon"}))
        explanation = explain_conflict(txn, actions=() if case == "empty" else gone,
                                       operation=None if case == "empty" else "DELETE")
        assert_golden(explanation, f"explain_{case}", update_golden)
        page = assert_consistent(explanation)
        says = {"conflict": "✕ would fail at v8", "ok": "✓ would commit as v8",
                "nothing": "nothing has landed since", "empty": "judged by its reads"}
        assert says[case] in str(explanation) and says[case] in page.text
        assert "Nothing was written" not in page.text
        assert dn.explain_conflict is explain_conflict


def test_a_transaction_says_that_versions_came_since() -> None:
    log = orders()
    txn = log.start_transaction()
    assert "explain_conflict" not in str(txn)
    TableBuilder(log.store, 6).commit(info("WRITE", 6, "etl-a", True))
    log.update()
    assert "1 version since; dn.explain_conflict(txn) says whether that matters" in str(txn)


@pytest.mark.slow
def test_a_long_history_is_shown_at_once() -> None:
    builder = TableBuilder(MemoryStore()).create("id long, day string", partition_by=["day"])
    for version in range(1, 3000):
        builder.commit(info("DELETE", max(0, version - 3), "etl", predicate="[\"day = 'mon'\"]"),
                       add(f"day=mon/{version}", {"day": "mon"}))
    replay = builder.log.history().replay()
    assert len(replay.conflicts) > 2000
    best = 1.0
    for _ in range(5):
        started = time.process_time()
        forms = bundle.mimebundle(replay)
        best = min(best, time.process_time() - started)
    assert best < MAX_SECONDS
    assert len(forms["text/html"]) < 60_000
    assert_consistent(replay)


def test_one_that_failed_and_would_have_passed_has_its_remark_too() -> None:
    log = orders("Serializable")
    with dn.teaching(seed=1):
        lost(log)
    shown = log.history().replay("WriteSerializable").timeline()
    (line,) = [line for line in str(shown).split("\n") if line.startswith("✕ v7")]
    assert "✓ would have passed" in line
    assert "✓ would have passed" in shown.svg
    assert "would have passed" in str(shown.spec)
