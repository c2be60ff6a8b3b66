"""The journal of a process: every transaction that tried to commit, and what became of it."""

from __future__ import annotations

import pytest

from deltanb.actions import AddFile
from deltanb.errors import ConcurrentAppendException
from deltanb.log.delta_log import DeltaLog
from deltanb.options import set_options
from deltanb.testing import Lose, MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction import journal
from deltanb.transaction.journal import LostRace, journal_of

RIVAL = ({"commitInfo": {"operation": "MERGE", "userName": "etl", "txnId": "rival"}},
         add("rival", {"part": "2"}))
FILE = AddFile(path="part=1/mine", partition_values={"part": "1"}, size=1, modification_time=1)


def log_with(*script: object) -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    builder.commit(add("part=1/a", {"part": "1"}))
    return DeltaLog.for_table(ScriptedStore(builder.store, script))


def test_a_commit_that_lost_on_the_way_says_to_whom() -> None:
    log = log_with(Lose(RIVAL), Lose(RIVAL))
    with set_options(user_name="ann"):
        assert log.start_transaction().commit([FILE]) == 4
    (attempt,) = journal_of(log)
    assert (attempt.outcome, attempt.read_version, attempt.version) == ("committed", 1, 4)
    assert attempt.lost == (LostRace(2, "MERGE", "etl"), LostRace(3, "MERGE", "etl"))
    assert (attempt.tries, attempt.writer, attempt.kind) == (3, "ann", None)
    assert attempt.is_blind_append and attempt.prepared is None


def test_a_failed_one_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_kept in ((10, True), (0, False)):
        monkeypatch.setattr(journal, "MAX_KEPT_READS", limit)
        log = log_with(Lose(RIVAL))
        txn = log.start_transaction()
        txn.filter_files()
        with pytest.raises(ConcurrentAppendException) as caught:
            txn.commit([FILE])
        (attempt,) = journal_of(log)
        assert (attempt.outcome, attempt.version, attempt.tries) == ("failed", 2, 1)
        assert attempt.kind == caught.value.kind
        assert (attempt.prepared is txn.prepared) is is_kept
        assert not attempt.is_blind_append


def test_steps_that_are_given_up_are_abandoned_and_refused_ones_leave_no_trace() -> None:
    log = log_with()
    steps = log.start_transaction().commit_steps([FILE])
    next(steps)
    steps.close()
    assert [attempt.outcome for attempt in journal_of(log)] == ["abandoned"]
    with pytest.raises(Exception, match="commit"):
        log.start_transaction().commit(["no action"])  # type: ignore[list-item]
    assert len(journal_of(log)) == 1


def test_journals_are_by_table_and_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_ATTEMPTS", 2)
    first, second = log_with(), log_with()
    for _ in range(3):
        first.start_transaction().commit([FILE])
    assert [attempt.version for attempt in journal_of(first)] == [3, 4]
    assert not journal_of(second)
