"""A map counts each meeting once, whatever it is counted by; who lost is who failed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.history import History, HistoryEntry
from deltanb.observe.conflict_map import BY, ConflictMap, Tally
from deltanb.observe.meetings import OUTCOMES, Contender, Meeting, Meetings
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from deltanb.transaction.journal import journal_of
from tests.observe.test_what_if import ALL, LEVEL, Script, really, scripts

NAMES = st.sampled_from(["etl-a", "etl-b", "ann"])
OPERATIONS = st.sampled_from(["WRITE", "MERGE"])
CONTENDERS = st.builds(Contender, NAMES, OPERATIONS)
MEETINGS = st.lists(st.builds(
    Meeting, CONTENDERS, CONTENDERS, st.sampled_from(list(OUTCOMES)), st.sampled_from(["", "append"]),
    st.none() | st.integers(0, 23), st.none() | st.integers(0, 99)))


def map_of(meetings: list[Meeting]) -> ConflictMap:
    return ConflictMap(Meetings("orders", tuple(meetings), 3, 2, 1))


@pytest.mark.parametrize("by", BY)
@given(meetings=MEETINGS)
def test_each_meeting_is_counted_once(by: str, meetings: list[Meeting]) -> None:
    tallies = map_of(meetings).by(by)
    total = map_of(meetings).total
    for name in ("races", "lost", "would_fail", "unknown", "wasted", "unmeasured"):
        assert sum(getattr(one, name) for one in tallies) == getattr(total, name)
    races = Counter(BY[by](one) for one in meetings)
    assert {one.names: one.races for one in tallies} == races
    assert total.lost == sum(one.outcome == "failed" for one in meetings)
    assert total.wasted == sum(one.wasted or 0 for one in meetings if one.outcome == "failed")


@pytest.mark.parametrize("by", BY)
@given(meetings=MEETINGS)
def test_the_table_has_what_the_tallies_have(by: str, meetings: list[Meeting]) -> None:
    conflicts = map_of(meetings)
    rows = conflicts.to_arrow(by).to_pylist()
    for row, one in zip(rows, conflicts.by(by), strict=True):
        names = (row["hour"],) if by == "hour" else (row["winner"], row["loser"])
        assert names == one.names
        assert [row[name] for name in ("races", "lost", "would_fail", "unknown")] == [
            one.races, one.lost, one.would_fail, one.unknown]
        is_unknown = one.lost > 0 and one.unmeasured == one.lost
        assert row["wasted"] == (None if is_unknown else one.wasted) and row["rule"] == (one.rule or None)
    frame = conflicts.to_pandas(by)
    assert list(frame.columns) == list(conflicts.to_arrow(by).column_names) and len(frame) == len(rows)


@pytest.mark.slow
@given(script=scripts(ALL), level=LEVEL)
def test_those_who_really_failed_are_lost(script: Script, level: str) -> None:
    log, ended = really(script, level)
    conflicts = log.history().conflicts()
    known = {one.rule for one in journal_of(log) if one.rule}
    failed = [one for one in ended if one.version is None and one.rule in known]
    assert len(conflicts.lost) == len(failed)
    assert {one.loser.txn_id for one in conflicts.lost} == {one.txn_id for one in failed}
    assert sum(one.lost for one in conflicts.by("operation")) == len(failed)


def test_a_table_of_two_who_race_is_counted_from_its_history() -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "day": [1, 2]}, partition_by="day")
    lost, passed = table.start_transaction(), table.start_transaction()
    gone = [file.remove() for file in lost.filter_files("day = 1")]
    again = [file.remove() for file in passed.filter_files("day = 2")]
    with set_options(user_name="ben"):
        table.append({"id": [3], "day": [1]})
    with set_options(user_name="ann"):
        with pytest.raises(DeltaError):
            lost.commit(gone, "DELETE")
        passed.commit(again, "DELETE")
    frame = table.history().conflicts().to_pandas()
    assert frame.drop(columns="wasted").to_dict("records") == [
        {"winner": "ben", "loser": "ann", "races": 2, "lost": 1, "would_fail": 0, "unknown": 0,
         "rule": "append"}]


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="by='day' is not one of writer, operation, hour"):
        map_of([]).to_arrow("day")
    for by in (None, 3, ["writer"]):
        with pytest.raises(InvalidArgument, match="is not one of writer"):
            map_of([]).by(by)  # type: ignore[arg-type]
    table = dn.create(MemoryStore(), {"id": [1]})
    arguments: list[tuple[dict[str, Any], str]] = [
        ({"isolation": "Snapshot"}, "isolation='Snapshot' is not one of"), ({"zone": "Mars"}, "zone='Mars'")]
    for settings, message in arguments:
        with pytest.raises(InvalidArgument, match=message):
            table.history().conflicts(**settings)
    with pytest.raises(InvalidArgument, match=r"take table\.history\(\)"):
        History([HistoryEntry(0, 0)]).conflicts()


def test_a_tally_names_the_rule_that_ended_most() -> None:
    side = Contender("a", "b")
    meetings = [Meeting(side, side, "failed", rule) for rule in ("append", "metadata", "metadata", "append")]
    assert Tally.of((), [*meetings, Meeting(side, side, "failed", "metadata")]).rule == "metadata"
    assert Tally.of((), meetings).rule == "append", "by name where they are as many"
