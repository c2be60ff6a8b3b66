"""Commit times, history, and the version of a time."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb.errors import InvalidArgument, InvalidTable, MissingDependency, VersionNotFound
from deltanb.log.commit_times import time_of, to_milliseconds
from deltanb.log.commits import commit_name
from deltanb.log.history import History, HistoryEntry
from deltanb.options import StepClock, set_options
from deltanb.testing import MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
ICT = {"delta.enableInCommitTimestamps": "true"}
FEATURE = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}


def info(**fields: Any) -> dict[str, Any]:
    return {"commitInfo": fields}


def aged(*times: int) -> TableBuilder:
    """A table whose commits have these modification times."""
    table = TableBuilder(MemoryStore()).create()
    for _ in times[1:]:
        table.commit(add(f"f{table.version}"))
    for version, time in enumerate(times):
        table.store.set_modification_time(commit_name(version), time)  # type: ignore[attr-defined]
    return table


def test_history_is_newest_first_with_what_the_writer_said() -> None:
    with set_options(clock=StepClock(NOON, 1000)):
        table = TableBuilder(MemoryStore()).create().commit(info(
            timestamp=5, operation="WRITE", operationParameters={"mode": "Append"}, readVersion=0,
            isolationLevel="Serializable", isBlindAppend=True, operationMetrics={"numFiles": "1"},
            userMetadata="nightly", engineInfo="peer/1", userName="ada", txnId="t", shiny=[1]))
        entry, first = table.log.history()
    assert (entry.version, entry.timestamp, entry.operation) == (1, NOON + 1000, "WRITE")
    assert entry.time == dt.datetime(2026, 1, 1, 12, 0, 1, tzinfo=dt.timezone.utc)
    assert entry.operation_parameters == {"mode": "Append"} and entry.read_version == 0
    assert entry.isolation_level == "Serializable" and entry.is_blind_append is True
    assert entry.operation_metrics == {"numFiles": "1"} and entry.user_metadata == "nightly"
    assert (entry.engine_info, entry.user_name, entry.txn_id) == ("peer/1", "ada", "t")
    assert entry.extra == {"shiny": [1]}
    assert (first.version, first.operation, first.timestamp) == (0, None, NOON)


@pytest.mark.parametrize("line", [
    '{"add":{"path":"a","size":1}}\n{"commitInfo":{"operation":"W"}}',
    '{ "commitInfo" : {"operation":"W"}}\n{"add":{"path":"a"}}',
    '{"commitInfo":{"operation":"W","operationParameters":[1,{"x":null}],"timestamp":"soon"}}',
    '{"add":{"path":"a","stats":"{\\"commitInfo\\":1}"}}\n{"commitInfo":{"operation":"W"}}',
])
def test_the_info_is_found_wherever_it_stands(line: str) -> None:
    table = TableBuilder(MemoryStore()).create().commit(line)
    assert table.log.history()[0].operation == "W"


@pytest.mark.parametrize("line", ['{"commitInfo":null}', '{"commitInfo":"x"}', '{"cdc":{"path":"a"}}'])
def test_a_commit_without_info_is_listed_all_the_same(line: str) -> None:
    log = TableBuilder(MemoryStore()).create().commit(line).log
    assert [(entry.version, entry.operation) for entry in log.history()] == [(1, None), (0, None)]


def test_files_of_a_commit_without_metrics_are_counted_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableBuilder(MemoryStore()).create().commit(add("a"), add("b"), info(operation="WRITE"))
    table.commit(info(operation="DELETE"), {"remove": {"path": "a"}}, add("c", tags={"x": '\n{"add":{'}))
    table.commit(info(operation="WRITE", operationMetrics={"numFiles": "7"}), add("d"))
    read: list[int] = []
    real = type(table.log.commits).read
    monkeypatch.setattr(type(table.log.commits), "read",
                        lambda self, version: read.append(version) or real(self, version))
    history = table.log.history()
    text = str(history)
    assert sorted(read) == [0, 1, 2, 3], "each commit once"
    assert [entry.known_files for entry in history] == [(0, 0), (1, 1), (2, 0), (0, 0)]
    assert [line.split("  ")[-1].strip() for line in text.splitlines() if line[:1].isdigit()] == [
        "+7 files", "+1 −1 files", "+2 files", "–"]


def test_limits_read_only_so_many_commits() -> None:
    table = aged(*range(10, 100, 10))
    log = table.log
    assert [entry.version for entry in log.history(2)] == [8, 7]
    table.damage(3, "garbage")
    assert len(log.history(4)) == 4
    with pytest.raises(InvalidTable, match=r"0003\.json of .*, line 1") as caught:
        log.history()
    assert caught.value.line == 1
    left = log.history(damaged="skip")
    assert [entry.version for entry in left] == [8, 7, 6, 5, 4, 2, 1, 0] and left.total == 9
    assert {version: error.line for version, error in left.damaged.items()} == {3: 1}
    assert list(left[:2].damaged) == list(left.up_to(5).damaged) == [3] and not left.up_to(2).damaged
    with pytest.raises(InvalidArgument, match="damaged='ignore' is neither 'refuse' nor 'skip'"):
        log.history(damaged="ignore")  # type: ignore[arg-type]
    for limit in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgument, match="limit"):
            log.history(limit)  # type: ignore[arg-type]


def test_modification_times_are_made_to_rise() -> None:
    log = aged(100, 90, 90, 500, 400).log
    assert [entry.timestamp for entry in log.history()] == [501, 500, 102, 101, 100]
    for when, version in [(100, 0), (101, 1), (102, 2), (499, 2), (500, 3), (501, 4)]:
        assert log.snapshot_as_of(when).version == version


def test_files_may_be_older_than_1970() -> None:
    log = aged(-9000, -5000).log
    assert [entry.timestamp for entry in log.history()] == [-5000, -9000]
    assert [log.snapshot_at(version).timestamp for version in (0, 1)] == [-9000, -5000]


def test_a_time_outside_the_log_names_the_first_and_the_last() -> None:
    log = aged(NOON, NOON + 60_000).log
    for when in (NOON - 1, NOON + 60_001):
        with pytest.raises(VersionNotFound) as caught:
            log.snapshot_as_of(when)
        assert "2026-01-01T12:00:00.000Z" in caught.value.message
        assert "2026-01-01T12:01:00.000Z" in caught.value.message
        assert (caught.value.earliest, caught.value.latest) == (0, 1)


def refused(log: DeltaLog, when: str) -> str:
    with pytest.raises(VersionNotFound) as caught:
        log.snapshot_as_of(when)
    return caught.value.message.partition("for a version by number")[2]


def test_a_day_before_whose_end_the_table_began_says_what_to_type() -> None:
    """A day means its midnight, as in Delta's TIMESTAMP AS OF; what was meant is often its end."""
    log = aged(NOON, NOON + 86_400_000).log
    advice = refused(log, "2026-01-01")
    assert advice == (". A day alone means its midnight, 2026-01-01T00:00:00Z; "
                    "its end is 2026-01-01T23:59:59.999Z")
    assert log.snapshot_as_of(advice.split()[-1]).version == 0
    assert log.snapshot_as_of("2026-01-02").version == 0, "midnight, not the commit at noon"
    for other in ("2025-12-31", "2026-01-03", "2026-01-01T00:00:00", "2026-01-01T11:59"):
        assert refused(log, other) == ""
    only = aged(NOON, NOON + 60_000).log
    assert refused(only, " 2026-01-01 ").endswith("; at its end the table is at version 1: ask for that")


def test_times_come_as_numbers_datetimes_and_text() -> None:
    log = aged(NOON, NOON + 60_000).log
    zone = dt.timezone(dt.timedelta(hours=2))
    for when in (NOON + 1, "2026-01-01T12:00:30Z", "2026-01-01 12:00:30", "2026-01-01T14:00:30+02:00",
                 dt.datetime(2026, 1, 1, 12, 0, 30), dt.datetime(2026, 1, 1, 14, 0, 1, tzinfo=zone)):
        assert log.snapshot_as_of(when).version == 0
    assert to_milliseconds(dt.datetime(1970, 1, 1, 0, 0, 0, 1999)) == 1
    for wrong in ("yesterday", "", True, None, 1.5):
        with pytest.raises(InvalidArgument, match="time"):
            log.snapshot_as_of(wrong)  # type: ignore[arg-type]


def test_in_commit_timestamps_are_the_times_of_their_commits() -> None:
    table = TableBuilder(MemoryStore())
    table.create(properties=ICT, protocol=FEATURE)
    table.damage(0, json.dumps(info(inCommitTimestamp=1000)).encode() + b"\n"
                 + table.store.read(commit_name(0)))
    table.commit(info(inCommitTimestamp=1001), add("a")).commit(info(inCommitTimestamp=5000), add("b"))
    log = table.log
    assert log.snapshot.timestamp == 5000 and log.snapshot_at(1).timestamp == 1001
    assert [entry.timestamp for entry in log.history()] == [5000, 1001, 1000]
    assert [log.snapshot_as_of(t).version for t in (1000, 1001, 4999, 5000)] == [0, 1, 1, 2]
    for when in (999, 5001):
        with pytest.raises(VersionNotFound, match=r"1970-01-01T00:00:01\.000Z"):
            log.snapshot_as_of(when)


def test_a_time_that_stands_in_the_commit_costs_no_request() -> None:
    table = TableBuilder(MemoryStore()).create(properties=ICT, protocol=FEATURE)
    table.commit(info(inCommitTimestamp=1001), add("a"))
    store = ScriptedStore(table.store, [])
    log = DeltaLog(store)
    snapshot = log.snapshot
    store.calls.clear()
    assert snapshot.timestamp == time_of(log, 1, {"inCommitTimestamp": 1001}) == 1001
    assert not store.calls


def test_timestamps_switched_on_later_divide_the_log() -> None:
    table = aged(100, 200, 300)
    metadata = json.loads(table.store.read(commit_name(0)).splitlines()[1])
    metadata["metaData"]["configuration"] = {
        **ICT, "delta.inCommitTimestampEnablementVersion": "3",
        "delta.inCommitTimestampEnablementTimestamp": "1000"}
    table.commit(info(inCommitTimestamp=1000), metadata, {"protocol": FEATURE})
    table.commit(info(inCommitTimestamp=2000), add("x"))
    log = table.log
    assert [entry.timestamp for entry in log.history()] == [2000, 1000, 300, 200, 100]
    expected = [(100, 0), (299, 1), (300, 2), (999, 2), (1000, 3), (1999, 3), (2000, 4)]
    assert [(t, log.snapshot_as_of(t).version) for t, _ in expected] == expected
    assert log.snapshot_at(1).timestamp == 200


def test_the_time_of_a_checkpointed_version_is_read_from_its_commit(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create(properties=ICT, protocol=FEATURE)
    table.commit(info(inCommitTimestamp=7777), add("a"))
    table.log.checkpoint()
    DeltaLog.clear_cache()
    snapshot = DeltaLog.for_table(tmp_path).snapshot
    assert snapshot.checkpoint_version == 1 and snapshot.timestamp == 7777
    DeltaLog.clear_cache()


# -- a history held in hand --------------------------------------------------------------------------------


def sample_history() -> History:
    return History([
        HistoryEntry(2, 3_000, "MERGE", {"predicate": ["a = 1"]}, "1", "Serializable", "false",
                     {"numOutputRows": 18}, user_name="ada", job={"jobId": "7"}),
        HistoryEntry(1, 2_000, "WRITE", '{"mode": "Append"}', 0, is_blind_append=True),
        HistoryEntry(0, 1_000)], "orders", 5)


def test_a_history_does_not_change() -> None:
    history = sample_history()
    for name in ("append", "extend", "insert", "pop", "remove", "clear", "sort", "__setitem__"):
        assert not hasattr(history, name), name
    assert not isinstance(history, list)
    assert [entry.version for entry in history] == [2, 1, 0] and history[0] in history
    assert [entry.version for entry in reversed(history)] == [0, 1, 2]
    assert history == sample_history() and hash(history) == hash(sample_history()) and history != history[1:]


def test_a_slice_is_a_history_of_the_same_table() -> None:
    part = sample_history()[:2]
    assert isinstance(part, History)
    assert (len(part), part.table, part.total) == (2, "orders", 5)


def test_columns_have_the_types_and_names_of_describe_history() -> None:
    table = sample_history().to_arrow()
    assert table.schema.field("timestamp").type == pa.timestamp("ms", "UTC")
    assert [table.schema.field(name).type for name in ("version", "readVersion", "isBlindAppend")] == [
        pa.int64(), pa.int64(), pa.bool_()]
    first, second, last = table.to_pylist()
    assert first["operationParameters"] == [("predicate", '["a = 1"]')]
    assert first["operationMetrics"] == [("numOutputRows", "18")]
    assert (first["readVersion"], first["isBlindAppend"], first["userName"]) == (1, False, "ada")
    assert first["job"] == '{"jobId":"7"}'
    assert second["operationParameters"] == [("mode", "Append")] and second["isBlindAppend"] is True
    assert last["operation"] is None and last["operationMetrics"] is None
    assert History().to_arrow().num_rows == 0


def test_a_history_is_a_data_frame() -> None:
    frame = sample_history().to_pandas()
    assert frame["version"].tolist() == [2, 1, 0]
    assert frame["operationMetrics"][0] == {"numOutputRows": "18"}
    assert str(frame["timestamp"][2]) == "1970-01-01 00:00:01+00:00"


def test_without_pandas_the_arrow_form_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match=r"history\.to_arrow\(\)"):
        sample_history().to_pandas()
