"""Commit statistics: the event that listeners get after each commit, and what the journal keeps."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import AddCDCFile, AddFile, CommitInfo, SetTransaction
from deltanb.log.commits import commit_name
from deltanb.options import options, set_options
from deltanb.testing import Fail, Lose, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction.commit_stats import CommitStats
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.journal import journal_of

RIVAL = ({"commitInfo": {"operation": "WRITE", "txnId": "rival"}}, add("rival", {"part": "2"}))


def new_log(*script: Any, **properties: str) -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create(
        "id long, part integer", partition_by=["part"], properties=properties)
    builder.commit(add("part=1/a", {"part": "1"}, size=10))
    return DeltaLog.for_table(ScriptedStore(builder.store, script))


def file(path: str, part: int = 1, size: int = 5, data_change: bool = True) -> AddFile:
    return AddFile(path=path, partition_values={"part": str(part)}, size=size, modification_time=1,
                   data_change=data_change)


def test_a_commit_in_numbers() -> None:
    log, all_stats = new_log(Lose(RIVAL)), []
    with set_options(commit_listeners=[all_stats.append], timer=itertools.count(0, 1_000_000).__next__):
        txn = log.start_transaction()
        removed = next(iter(txn.filter_files("part = 1"))).remove()
        txn.commit([
            file("part=1/b"), file("part=3/c", 3, 7), removed,
            file("/elsewhere/d", 3, 100, data_change=False),
            AddCDCFile(path="_change_data/x", partition_values={"part": "1"}, size=3),
            SetTransaction("app", 1)], "UPDATE")
    (stats,) = all_stats
    assert isinstance(stats, dn.CommitStats) and stats is txn.stats
    assert (stats.outcome, stats.start_version, stats.commit_version, stats.read_version) == (
        "committed", 1, 3, 3)
    assert (stats.attempts, stats.retries, stats.isolation_level, stats.is_blind_append) == (
        2, 1, "Serializable", False)
    assert (stats.num_actions, stats.num_add, stats.num_remove, stats.num_set_transaction,
            stats.num_cdc_files, stats.num_domain_metadata) == (6, 3, 1, 1, 1, 0)
    assert (stats.bytes_new, stats.cdc_bytes_new) == (12, 3)
    assert (stats.num_files_total, stats.size_in_bytes_total) == (4, 5 + 7 + 100 + 1)
    assert (stats.num_absolute_paths_in_add, stats.num_distinct_partitions_in_add,
            stats.num_partition_columns_in_table) == (1, 2, 1)
    assert stats.commit_size_bytes == len(log.store.read(commit_name(3)))
    assert stats.protocol == log.snapshot.protocol and stats.table == log.path
    assert isinstance(stats.info, CommitInfo) and stats.info.txn_id == stats.txn_id == txn.txn_id
    assert stats.fs_write_duration_ms == 2.0, "two puts, a tick each"
    assert 0 < stats.commit_duration_ms < stats.txn_duration_ms
    assert stats.state_reconstruction_duration_ms == 1.0
    (recorded,) = [attempt.stats for attempt in journal_of(log)]
    assert recorded == stats.lightened(), "of 10,000 attempts: the log tells the actions"


def test_a_failure_in_numbers() -> None:
    log, all_stats = new_log(Lose(RIVAL)), []
    txn = log.start_transaction()
    txn.read_whole_table()
    with set_options(commit_listeners=[all_stats.append]), pytest.raises(
        errors.ConcurrentAppendException) as why:
        txn.commit([file("part=1/b")], "WRITE")
    (stats,) = all_stats
    assert (stats.outcome, stats.commit_version, stats.read_version, stats.error) == (
        "failed", None, None, why.value.kind)
    assert (stats.attempts, stats.num_add, stats.num_files_total, stats.retries) == (2, 1, None, 1)
    assert [a.stats for a in journal_of(log)] == [stats.lightened()]


def test_every_end_of_a_commit_is_told_once() -> None:
    all_stats: list[CommitStats] = []
    with set_options(commit_listeners=[all_stats.append]):
        log = new_log()
        steps = log.start_transaction().commit_steps([file("part=1/b")], "WRITE")
        next(steps)
        steps.close()
        log = new_log(LoseResponse())
        log.start_transaction().commit([file("part=1/b")], "WRITE")
        log = new_log(*[Fail()] * 9)
        with pytest.raises(errors.CommitOutcomeUnknown):
            log.start_transaction().commit([file("part=1/b")], "WRITE")
        log = new_log(Lose(RIVAL))
        with pytest.raises(errors.ConcurrentWriteException):
            log.start_transaction().commit_large([file("part=1/b")], "RESTORE")
        with pytest.raises(errors.InvalidTransaction):  # nothing was tried
            log.start_transaction().commit([file("part=1/b")] * 2, "WRITE")
    assert [(s.outcome, s.error) for s in all_stats] == [
        ("abandoned", None), ("committed", None), ("unknown", "COMMIT_OUTCOME_UNKNOWN"),
        ("failed", errors.ConcurrentWriteException.kind)]


def test_listeners_are_told_in_order_before_hooks_and_cannot_undo(caplog: pytest.LogCaptureFixture) -> None:
    from deltanb.transaction.hooks import FunctionHook

    log, heard = new_log(), []

    def broken(stats: CommitStats) -> None:
        heard.append("first")
        raise RuntimeError("listener is broken")

    txn = log.start_transaction()
    txn.register_post_commit_hook(FunctionHook("last", lambda *_: heard.append("hook")))
    with set_options(commit_listeners=(broken, lambda s: heard.append(s.commit_version))), \
            caplog.at_level(logging.ERROR, "deltanb.transaction"):
        assert txn.commit([file("part=1/b")], "WRITE") == 2
    assert heard == ["first", 2, "hook"] and "A commit listener failed" in caplog.text
    assert log.update().version == 2


def test_commands_are_heard_too() -> None:
    heard: list[CommitStats] = []
    with set_options(commit_listeners=[heard.append]):
        table = dn.create(MemoryStore(), {"id": [1, 2]}, properties={"delta.checkpointInterval": 2})
        table.append({"id": [3]})
        table.delete("id = 1")
        table.append({"id": []})
    assert [(s.operation, s.commit_version, s.checkpoint_attempt) for s in heard] == [
        ("CREATE TABLE AS SELECT", 0, False), ("WRITE", 1, False), ("DELETE", 2, True)]
    assert heard[0].new_metadata is not None and heard[1].new_metadata is None
    assert dn.last_commit_version_in_session() == 2


@pytest.mark.parametrize("value", [3, print, ["x"], [3], None, {"a": print}])
def test_listeners_are_functions(value: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="commit_listeners"):
        set_options(commit_listeners=value)


# -- commits that do not say where they came from -------------------------------------------------------


def test_commit_info_can_be_left_out() -> None:
    log = new_log()
    with set_options(commit_info=False):
        txn = log.start_transaction()
        assert txn.commit([file("part=1/b")], "WRITE") == 2
        assert log.start_transaction().commit() == 3, "an empty commit still has a line"
    assert [a.key for a in log.read_commit(2)] == ["add"]
    assert [a.key for a in log.read_commit(3)] == ["commitInfo"]
    DeltaLog.clear_cache()
    fresh = DeltaLog.for_table(log.store)
    assert fresh.update().num_files == 2 and fresh.history(2)[1].operation is None


def test_in_commit_timestamps_need_one() -> None:
    table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.enableInCommitTimestamps": True})
    with set_options(commit_info=False):
        table.append({"id": [2]})
    assert table.log.read_commit(1)[0].key == "commitInfo"


def test_a_commit_without_one_still_knows_itself() -> None:
    """A put whose answer is lost, then found: the same actions are the same commit."""
    log = new_log(LoseResponse())
    with set_options(commit_info=False):
        txn = log.start_transaction()
        assert txn.commit([file("part=1/b"), SetTransaction("app", 3)], "W") == 2
    assert log.update().version == 2 and not txn.attempts
    log = new_log(Lose((add("part=1/b", {"part": "1"}),)))
    with set_options(commit_info=False):
        txn = log.start_transaction()
        assert txn.commit([file("part=1/b")], "W") == 3, "another writer's file of that name is another's"


def test_settings_of_another_kind_are_refused() -> None:
    before = options.commit_info
    for name in ("commit_info", "metrics", "partition_column_check", "schema_type_check"):
        with pytest.raises(errors.InvalidArgument, match=name):
            set_options(**{name: "no"})
    with pytest.raises(errors.InvalidArgument, match="backoff"):
        set_options(backoff=3)
    assert options.commit_info is before
