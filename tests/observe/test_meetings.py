"""Meetings are those that happened: of histories really committed, by windows counted one by one."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import Action, AddCDCFile, AddFile, from_json
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.commits import commit_name
from deltanb.log.history import History, HistoryEntry
from deltanb.observe import meetings, recorded, verdicts
from deltanb.observe.meetings import OUTCOMES, SPOTS, Meetings, meet
from deltanb.observe.what_if import LEVELS
from deltanb.store.open import store_for
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.journal import Attempt, journal_of
from deltanb.transaction.operations import TAKES_FILES, Operation
from tests.observe.test_what_if import ALL, LEVEL, Script, append, file, new_log, really, scripts


def spots(met: Meetings) -> dict[str, tuple[int, ...]]:
    return {spot.kind: spot.versions for spot in met.blind_spots}


def commit(read: int | None, *lines: Any, operation: str = "DELETE", **info: Any) -> tuple[Any, ...]:
    known = {"operation": operation, **info} if read is None else {
        "operation": operation, "readVersion": read, **info}
    return ({"commitInfo": known}, *lines)


def raced(number: int, store: Any = None) -> TableBuilder:
    """So many commits that all read version 0."""
    table = TableBuilder(store or MemoryStore()).create("id long")
    for version in range(1, number + 1):
        table.commit(*commit(0, add(f"f{version}"), operation="WRITE", isBlindAppend=True,
                             userName=f"writer {version % 3}"))
    return table


@pytest.mark.slow
@given(script=scripts(ALL), level=LEVEL)
def test_each_transaction_met_those_that_landed_since_it_read(script: Script, level: str) -> None:
    """A failed one up to its winner, at which it is lost by the rule that it failed with."""
    log, ended = really(script, level)
    met = meet(log.history())
    reads = {attempt.txn_id: attempt.read_version for attempt in journal_of(log)}
    landed = [one.version for one in ended if one.version is not None]
    for one in ended:
        mine = [meeting for meeting in met if meeting.loser.txn_id == one.txn_id]
        versions = [meeting.winner.version for meeting in mine]
        if one.version is not None:
            assert versions == [v for v in landed if reads[one.txn_id] < v < one.version]
            assert not any(meeting.is_lost for meeting in mine)
        elif mine:  # else it failed by what it wrote itself
            assert versions == list(range(reads[one.txn_id] + 1, versions[-1] + 1))
            assert [(m.outcome, m.rule) for m in mine] == [
                *[("passed", "")] * (len(mine) - 1), ("failed", one.rule)]
    assert met.num_failed == sum(one.version is None for one in ended)


@pytest.mark.slow
@given(script=scripts(ALL), before=LEVEL, after=LEVEL)
def test_what_would_have_failed_is_what_a_replay_gives(script: Script, before: str, after: str) -> None:
    log, _ = really(script, before)
    rules = {row.txn_id: (row.verdicts[0].rule, row.verdicts[0].version)
             for row in log.history().replay(after).rows if row.version is not None}
    for txn_id, (rule, version) in rules.items():
        mine = [one for one in meet(log.history(), after) if one.loser.txn_id == txn_id]
        would = [(one.rule, one.winner.version) for one in mine if one.outcome == "would fail"]
        assert would == ([(rule, version)] if rule else [])
        assert {one.outcome for one in mine if version and (one.winner.version or 0) > version} <= {
            "not reached"}


@given(reads=st.lists(st.none() | st.integers(-2, 8), max_size=8))
def test_windows_are_those_of_the_log(reads: list[int | None]) -> None:
    """Whatever version a foreign writer says it read; none is guessed."""
    table = TableBuilder(MemoryStore()).create("id long")
    for version, read in enumerate(reads, 1):
        table.commit(*commit(read, add(f"f{version}"), operation="WRITE"))
    met = meet(table.log.history())
    pairs = {(one.winner.version, one.loser.version) for one in met}
    assert pairs == {(winner, version) for version, read in enumerate(reads, 1)
                     if read is not None and 0 <= read < version for winner in range(read + 1, version)}
    known = spots(met)
    assert known.get("read-version", ()) == tuple(
        version for version, read in enumerate(reads, 1) if read is None or read < 0)
    assert known.get("impossible-window", ()) == tuple(
        version for version, read in enumerate(reads, 1) if read is not None and read >= version)
    assert "journal" in known


def test_hours_are_those_of_the_later_ones_in_the_zone() -> None:
    table = raced(2)
    midnight = int(dt.datetime(2026, 1, 1, 23, 30, tzinfo=dt.timezone.utc).timestamp() * 1000)
    for version in range(3):
        table.store.set_modification_time(commit_name(version), midnight + version)
    def hours(zone: Any) -> list[int | None]:
        return [one.hour for one in meet(table.log.history(), zone=zone)]

    assert (hours("UTC"), hours("+01:00"), hours("America/New_York")) == ([23], [0], [18])
    assert hours(dt.timezone(dt.timedelta(hours=-1))) == [22]
    for zone in ("Entenhausen", 3, None, "../etc"):
        with pytest.raises(InvalidArgument, match="not a time zone"):
            meet(table.log.history(), zone=zone)  # type: ignore[arg-type]


@pytest.mark.parametrize("time", [None, True, "yesterday", -(10**30), 10**30, 1.5])
def test_a_time_that_is_none_has_no_hour(time: Any) -> None:
    assert meetings._hour(time, dt.timezone.utc) is None


def test_many_meetings_are_bounded_and_the_bound_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MAX_CHECKS", 40)
    monkeypatch.setattr(verdicts, "MIN_WINDOW", 3)
    met = meet(raced(20).log.history())
    assert len(met) == 1 + 2 + 17 * 3 and met.num_raced == 19
    assert [one.winner.version for one in met if one.loser.version == 20] == [17, 18, 19], "the nearest"
    assert spots(met)["windows"] == tuple(range(5, 21))


NUMBER = 30
LATENCY = 0.03


@pytest.mark.parametrize("few", [None, 8], ids=["all are held", "few are held"])
def test_commits_in_a_bucket_are_read_many_at_a_time(
    few: int | None, s3_server: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain of three commits at a time, each of which met the one before it."""
    from deltanb.testing.s3_server import rounds

    if few is not None:
        monkeypatch.setattr(recorded, "MAX_COMMITS", few)
        monkeypatch.setattr(meetings, "MAX_COMMITS", few)
    store = store_for(f"{bucket}/ducks", s3_server.options)
    table = TableBuilder(store).create("id long")
    for version in range(1, NUMBER + 1):
        read = version - 1 if version % 3 == 1 else version - 2
        table.commit(*commit(read, add(f"f{version}"), operation="UPDATE", predicate="id = 1"))
    expected = list(meet(table.log.history()))
    log = DeltaLog.for_table(store)
    history = log.history()
    with s3_server.counted(LATENCY) as requests:
        met = meet(history)
    assert list(met) == expected and len(met) == NUMBER * 2 // 3
    assert "unreadable" not in spots(met)
    asked = [request.key for request in requests if request.key.endswith(".json")]
    assert len(asked) <= NUMBER + 2, "each once, and the first ones for the version they make, too"
    assert rounds(requests) < (NUMBER // 3 if few is None else NUMBER)


def test_writers_have_one_name_whoever_records_it() -> None:
    table = TableBuilder(MemoryStore()).create("id long")
    batch = {"queryId": "4a812577-36cc", "epochId": "0"}
    infos: list[dict[str, Any]] = [
        {"userName": "etl", "engineInfo": "Apache-Spark/4.0.0"}, {"engineInfo": "Apache-Spark/4.0.0"},
        {"clientVersion": "delta-rs.0.17.0"}, {}, {"userName": 3}, {"engineInfo": ["no", "text"]},
        {"userName": "etl", "operationParameters": batch}]
    for version, info in enumerate(infos, 1):
        table.commit(*commit(0, add(f"f{version}"), **info))
    table.commit(*commit(0, add("last")))
    names = [one.winner.writer for one in meet(table.log.history()) if one.loser.version == len(infos) + 1]
    assert names == ["etl", "Apache-Spark", "delta-rs", "unknown writer", "3", "unknown writer",
                     "stream 4a812577"]


def test_holes_unknown_actions_and_missing_commit_infos_leave_the_rest() -> None:
    table = TableBuilder(MemoryStore()).create("id long")
    table.commit(*commit(0, add("a"), operation="WRITE"))
    table.commit({"commitInfo": {}}, add("b"))
    table.commit({"futureAction": {"x": 1}}, add("c"))
    table.commit(*commit(0, {"add": "no object"}, operation="WRITE"))
    table.commit(*commit(0, remove("a"), operation="CONJURE"))
    table.commit(*commit(4, add("d"), operation="WRITE"))
    history = table.log.history
    before = history()
    met = meet(before)
    assert spots(met)["read-version"] == (2, 3)
    assert 4 in spots(met)["unreadable"]
    (spot,) = [spot for spot in met.blind_spots if spot.kind == "unreadable"]
    assert commit_name(4) in spot.evidence
    assert {(one.winner.version, one.loser.version) for one in met} == {
        (1, 4), (2, 4), (3, 4), (1, 5), (2, 5), (3, 5), (4, 5), (5, 6)}
    table.delete(3)
    hole = meet(History([entry for entry in before if entry.version != 3], table.log))
    assert spots(hole)["gone"] == (3,)
    assert (1, 5) in {(one.winner.version, one.loser.version) for one in hole}


@pytest.mark.parametrize("data", [b"garbage", b"[]\n", b'{"commitInfo":{"operation":"WR', b"\xff\xfe\n"])
def test_a_damaged_commit_is_named_and_the_rest_is_answered(data: bytes) -> None:
    """Wherever it lies: the log's newest version cannot be read then, and nobody asks for it."""
    for version in range(1, 5):
        table = raced(4)
        table.damage(version, data)
        history = table.log.history(damaged="skip")
        met = meet(history)
        assert {(one.winner.version, one.loser.version) for one in met} == {
            (winner, loser) for loser in range(1, 5) for winner in range(1, loser)
            if version not in (winner, loser)}
        assert version in spots(met)["unreadable"] and "gone" not in spots(met)
        (spot,) = [spot for spot in met.blind_spots if spot.kind == "unreadable"]
        assert commit_name(version) in spot.evidence
        replay = history.replay("Serializable")
        assert replay.damaged == (version,) and f"damaged, and left out: v{version}" in str(replay)
        assert str(history.conflicts()).startswith("Conflicts ")


def test_a_limited_history_does_not_count_those_that_it_leaves_out() -> None:
    met = meet(raced(6).log.history(2))
    assert [(one.winner.version, one.loser.version) for one in met] == [(5, 6)]
    assert spots(met)["gone"] == (1, 2, 3, 4)


def lose(log: DeltaLog, actions: list[Action], operation: str, read: str) -> Attempt:
    """Fail to commit actions because another one has removed a file that was read; the attempt."""
    txn = log.start_transaction()
    met = txn.filter_files(read)[0]
    log.start_transaction().commit([met.remove(1)], "DELETE")
    with pytest.raises(DeltaError):
        txn.commit(actions, Operation(operation))
    (attempt,) = [one for one in journal_of(log) if one.outcome == "failed"]
    return attempt


def test_a_loser_has_wasted_what_it_wrote() -> None:
    """New files, vectors and change files; no file that was there before."""
    log = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"], protocol={
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "changeDataFeed"]},
        properties={"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}).commit(
        *(add(f"part=1/{name}", {"part": "1"}, size=500, stats='{"numRecords":3}') for name in "abc")).log
    (_, first, second) = sorted(log.snapshot.files_for_scan().to_pylist(), key=lambda one: one["path"])
    first, second = (AddFile.from_row({**one, "partition_values": {"part": "1"}}) for one in (first, second))
    again = json.loads(first.to_json())
    again["add"] |= {"stats": '{"numRecords":3,"tightBounds":false}', "deletionVector": {
        "storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 40,
        "cardinality": 1}}
    attempt = lose(log, [
        first.remove(1), from_json(json.dumps(again)), second.remove(1),
        file("new", 1).replace(size=1000), AddCDCFile("_change_data/x", {"part": "1"}, 7, False)],
        "UPDATE", "part = 1")
    assert attempt.written == 1000 + 40 + 7
    (meeting,) = [one for one in meet(log.history()) if one.is_lost]
    assert (meeting.wasted, meeting.rule, meeting.winner.version) == (1047, attempt.rule, 2)


@pytest.mark.parametrize("operation", sorted(TAKES_FILES))
def test_operations_that_take_files_have_written_none(operation: str) -> None:
    assert lose(new_log("Serializable"), [file("new", 2)], operation, "part = 1").written == 0


def test_failures_without_a_winner_are_no_meetings() -> None:
    log = new_log("Serializable")
    log.start_transaction().commit([file("a", 1)], "WRITE")
    with pytest.raises(DeltaError):
        log.start_transaction().commit([{"add": 1}], "WRITE")  # type: ignore[list-item]
    assert not meet(log.history()) and meet(log.history()).num_failed == 0


def test_bad_arguments_are_refused_by_name() -> None:
    log = new_log("Serializable")
    with pytest.raises(InvalidArgument, match=r"isolation='None' is not one of Serializable"):
        meet(log.history(), "None")
    with pytest.raises(InvalidArgument, match=r"take table\.history\(\)"):
        meet(History([HistoryEntry(0, 0)]))


def test_every_kind_has_a_word_and_every_word_a_kind() -> None:
    """Outcomes and blind spots are those declared, in every history of this file."""
    log, _ = really([(append, 1, 0), (ALL[1], 1, 2), (ALL[4], 1, 3)], LEVELS[0])
    for level in (None, *LEVELS):
        met = meet(log.history(), level)
        assert {one.outcome for one in met} <= set(OUTCOMES)
        assert {spot.kind for spot in met.blind_spots} <= set(SPOTS)
        assert {one.rule for one in met if one.rule} <= {rule.name for rule in RULES}
