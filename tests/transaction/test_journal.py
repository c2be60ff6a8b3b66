"""The journal of a process: every transaction that tried to commit, and what became of it."""

from __future__ import annotations

import tracemalloc

import pytest

from deltanb.actions import AddFile
from deltanb.errors import ConcurrentAppendException, IllegalStateError
from deltanb.observe.timeline import CommitTimeline
from deltanb.observe.what_if import explain_conflict
from deltanb.options import set_options
from deltanb.testing import Lose, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction import journal
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.drive import Drive
from deltanb.transaction.journal import LostRace, journal_of
from deltanb.transaction.operations import Operation
from deltanb.transaction.steps import ReadWinner

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


def fail_one(log: DeltaLog, *predicates: str) -> ConcurrentAppendException:
    """A transaction that reads, and fails at what a rival appended."""
    txn = log.start_transaction()
    txn.filter_files(*predicates)
    log.store.script.append(Lose(RIVAL))  # type: ignore[attr-defined]
    with pytest.raises(ConcurrentAppendException) as caught:
        txn.commit([FILE])
    return caught.value


def test_a_failed_one_is_kept_whole() -> None:
    log = log_with()
    error = fail_one(log)
    (attempt,) = journal_of(log)
    assert (attempt.outcome, attempt.version, attempt.tries) == ("failed", 2, 1)
    assert attempt.kind == error.kind
    assert attempt.prepared is not None and list(attempt.prepared.actions) == [FILE]
    assert not attempt.is_blind_append


def test_a_journal_keeps_so_much_of_failed_ones_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each weighs 4, for its scan, its action, and two files that it read; the first had one to read."""
    monkeypatch.setattr(journal, "MAX_KEPT", 8)
    log = log_with()
    for _ in range(4):
        fail_one(log)
    attempts = list(journal_of(log))
    assert [attempt.weight for attempt in attempts] == [0, 0, 4, 4]
    assert [attempt.prepared is not None for attempt in attempts] == [False, False, True, True]
    assert [attempt.is_whole for attempt in attempts] == [False, False, True, True]
    assert attempts[0].reads == (journal.NOT_KEPT,)
    rows = [row for row in log.history().replay("SnapshotIsolation").rows if row.version is None]
    assert [bool(row.verdicts[0].unknown) for row in rows] == [True, True, False, False]


def test_a_journal_keeps_so_many_partitions_and_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What committed is told by the log where the journal let go of it."""
    monkeypatch.setattr(journal, "MAX_KEPT", 4)
    monkeypatch.setattr(journal, "MAX_ATTEMPTS", 3)
    log = log_with()
    many = f"part IN ({', '.join(['3'] * 1000)})"
    for turn in range(5):
        txn = log.start_transaction()
        log.start_transaction().commit([FILE.replace(path=f"part=1/other{turn}")])
        txn.filter_files(many)
        gone = [FILE.replace(path=f"part=2/{turn}", partition_values={"part": "2"})]
        txn.commit(gone, Operation("DELETE", {"predicate": ["part = 3"]}))
    last = journal_of(log)[-1]
    assert last.weight == 0 and not last.is_whole
    row = log.history().replay("Serializable").rows[-1]
    assert (row.reads, row.verdicts[0].passed) == ("part = 3", True)
    assert len(journal_of(log)) == 3


def test_a_journal_is_read_while_others_write_it() -> None:
    log = log_with()
    log.start_transaction().commit([FILE])
    for attempt in journal_of(log):
        log.start_transaction().commit([FILE.replace(path=attempt.txn_id)])
    assert len(journal_of(log)) == 2


def test_steps_that_are_given_up_are_abandoned_and_refused_ones_leave_no_trace() -> None:
    log = log_with()
    steps = log.start_transaction().commit_steps([FILE])
    next(steps)
    steps.close()
    assert [attempt.outcome for attempt in journal_of(log)] == ["abandoned"]
    with pytest.raises(Exception, match="commit"):
        log.start_transaction().commit(["no action"])  # type: ignore[list-item]
    assert len(journal_of(log)) == 1


def test_a_commit_whose_answer_was_lost_has_landed_whoever_gave_it_up() -> None:
    log = log_with(LoseResponse())
    txn = log.start_transaction()
    stepper = txn.stepper([FILE], "WRITE")
    while not isinstance(txn.step, ReadWinner):
        stepper.advance()
    with pytest.raises(IllegalStateError, match="has landed as version 2"):
        explain_conflict(txn)
    stepper.close()
    (attempt,) = journal_of(log)
    assert (attempt.outcome, attempt.version, txn.status) == ("committed", 2, "committed")
    timeline = CommitTimeline.of(log)
    assert timeline.failed == [] and [track.lost for track in timeline.commits] == [None, None, ()]
    with pytest.raises(IllegalStateError, match="is committed; its files stay"):
        txn.discard_written()


def test_steps_that_are_dropped_while_a_put_is_unanswered_leave_the_outcome_unknown() -> None:
    log = log_with(LoseResponse())
    txn = log.start_transaction()
    drive = Drive(txn.commit_steps([FILE], "WRITE"), txn.committer)
    while not isinstance(drive.advance(), ReadWinner):
        pass
    drive.steps.close()
    assert [attempt.outcome for attempt in journal_of(log)] == [txn.status] == ["unknown"]
    assert CommitTimeline.of(log).failed == [], "the log says that it landed"
    with pytest.raises(IllegalStateError, match="may have landed; its files stay"):
        txn.discard_written()


def test_journals_are_by_table_and_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_ATTEMPTS", 2)
    first, second = log_with(), log_with()
    for _ in range(3):
        first.start_transaction().commit([FILE])
    assert [attempt.version for attempt in journal_of(first)] == [3, 4]
    assert not journal_of(second)


def test_what_a_journal_keeps_of_a_commit_is_less_than_a_kilobyte() -> None:
    """So that a handle which commits all day does not grow: a thousand commits are a megabyte."""
    log = log_with()
    log.start_transaction().commit([FILE])
    tracemalloc.start()
    try:
        for number in range(200):
            log.start_transaction().commit([FILE.replace(path=f"part=1/{number}")])
        attempts = journal_of(log)
        before, _ = tracemalloc.get_traced_memory()
        count = len(attempts)
        attempts.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count >= 200 and 100 < (before - after) / count < 1_000
