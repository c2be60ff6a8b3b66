"""What would have been is what is: replayed histories against the same ones really committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import AddFile, SetTransaction
from deltanb.errors import (
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    InvalidTransaction,
    VersionNotFound,
)
from deltanb.log import layer
from deltanb.log.commits import commit_name
from deltanb.log.history import History, HistoryEntry
from deltanb.observe.recorded import MAX_LOOSE, WHOLE
from deltanb.observe.what_if import LEVELS, Replay, Replayed, explain_conflict
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.journal import journal_of
from deltanb.transaction.operations import Operation
from deltanb.transaction.transaction import OptimisticTransaction
from tests.examples import few
from tests.transaction.test_scenarios import SCENARIOS, SETTINGS, run

PARTS = (1, 2, 3)
LEVEL = st.sampled_from(LEVELS)


# -- histories, really made ------------------------------------------------------------------------


def new_log(level: str) -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create(
        "id long, part integer", partition_by=["part"],
        properties={"delta.isolationLevel": level})
    info = {"commitInfo": {"operation": "WRITE", "readVersion": 0}}
    return builder.commit(info, *(add(f"part={p}/{n}", {"part": str(p)}) for p in PARTS for n in "ab")).log


def file(path: str, part: int, **more: Any) -> AddFile:
    return AddFile(f"part={part}/{path}", {"part": str(part)}, 1, 1, **more)


Plan = tuple[list[Any], Operation]
"""What will be committed: actions and operation."""
Begin = Callable[[OptimisticTransaction, int, str], Plan]


def append(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    return ([file(name, part)], Operation("WRITE", {"mode": "Append"}))


def delete(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    gone = [f.remove(1) for f in txn.filter_files(f"part = {part}")]
    return (gone, Operation("DELETE", {"predicate": [f"part = {part}"]}))


def delete_rows(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    where = f"id > 5 AND part >= {part}"
    gone = [f.remove(1) for f in list(txn.filter_files(where))[:1]]
    return ([*gone, *([file(name, part)] if gone else [])],
                              Operation("DELETE", {"predicate": [where]}))


def update(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    gone = [f.remove(1) for f in txn.filter_files("id = 3") if f.partition_values["part"] == str(part)]
    return ([*gone, file(name, part)], Operation("UPDATE", {"predicate": "(id#12L = 3)"}))


def overwrite(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    gone = [f.remove(1) for f in txn.filter_files()]
    return ([*gone, file(name, part)], Operation("WRITE", {"mode": "Overwrite"}))


def replace_where(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    where = f"part = {part} OR part = 3"
    gone = [f.remove(1) for f in txn.filter_files(where)]
    return ([*gone, file(name, part)],
                              Operation("WRITE", {"mode": "Overwrite", "predicate": where}))


def replace_partition(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    new = [file(name, part)]
    gone = [f.remove(1) for f in txn.filter_files_in_partitions_of(new)]
    return ([*gone, *new], Operation(
        "WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": True}))


def optimize(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    gone = [f.remove(1, data_change=False) for f in txn.filter_files(f"part = {part}")]
    return ([*gone, file(name, part, data_change=False)], Operation("OPTIMIZE"))


def read_and_append(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    txn.filter_files(f"part = {part}")
    txn.filter_files("part IN (1, 2)", "part = 1 OR part = 2")
    return ([file(name, 3)], Operation("WRITE", {"mode": "Append"}))


def read_everything(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    txn.read_whole_table()
    return ([file(name, part)], Operation("STREAMING UPDATE"))


def stream(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    last = txn.txn_version(f"app {part}")
    return ([SetTransaction(f"app {part}", last + 1), file(name, part)],
                              Operation("STREAMING UPDATE"))


def describe(txn: OptimisticTransaction, part: int, name: str) -> Plan:
    txn.update_metadata(txn.metadata.replace(configuration={
        **txn.metadata.configuration, "delta.appendOnly" if part == 1 else "note": "false"}))
    return ([], Operation("SET TBLPROPERTIES"))


RECORDED = (append, delete, delete_rows, update, overwrite, replace_where, replace_partition, stream,
            describe)
"""Transactions whose reads the log tells, as their operation's parameters say them."""
ALL = (*RECORDED, optimize, read_and_append, read_everything)


@dataclass(frozen=True)
class Ended:
    """What became of one transaction: its version, or the rule that ended it; and its id."""

    txn_id: str
    version: int | None
    rule: str = ""


Script = Sequence[tuple[Begin, int, int]]
"""kind, partition, and how many of the others commit between its begin and its commit, at most."""


def really(
    script: Script, level: str, look: Callable[..., None] | None = None
) -> tuple[DeltaLog, list[Ended]]:
    """Commit a script's transactions on a table of a level: each begins before some others commit."""
    log = new_log(level)
    begun: dict[int, tuple[OptimisticTransaction, Plan]] = {}
    ended = []
    for turn in range(len(script)):
        for at, (begin, part, early) in enumerate(script):
            if at not in begun and at - early <= turn <= at:
                txn = log.start_transaction()
                begun[at] = txn, begin(txn, part, f"new-{at}")
        txn, (actions, operation) = begun[turn]
        if look is not None:
            look(txn, actions, operation)
        try:
            ended.append(Ended(txn.txn_id, txn.commit(actions, operation)))
        except DeltaError as error:
            rule = error.conflict.rule if hasattr(error, "conflict") else type(error).__name__
            ended.append(Ended(txn.txn_id, None, rule))
    return log, ended


def scripts(kinds: Sequence[Begin]) -> st.SearchStrategy[Script]:
    one = st.tuples(st.sampled_from(kinds), st.sampled_from(PARTS), st.integers(0, 3))
    return st.lists(one, min_size=2, max_size=6)


def verdict_of(replay: Replay, ended: Ended) -> tuple[str, Replayed | None]:
    """The rule that ends a transaction by a replay of one level, and the row that says so."""
    row = next((row for row in replay.rows if row.txn_id == ended.txn_id), None)
    if row is None:
        return "", None
    (answer,) = row.verdicts
    assert not answer.unknown, answer.unknown
    return answer.rule, row


@pytest.mark.slow
@given(script=scripts(ALL), before=LEVEL, after=LEVEL)
def test_a_replay_says_what_really_happens(script: Script, before: str, after: str) -> None:
    """Up to where the two histories part: from there on, they are about other commits."""
    log, recorded = really(script, before)
    _, ends = really(script, after)
    replay = log.history().replay(after)
    for one, other in zip(recorded, ends, strict=True):
        rule, _ = verdict_of(replay, one)
        assert rule == other.rule
        if (one.version is None) != (other.version is None):
            break


@pytest.mark.slow
@given(script=scripts(RECORDED), before=LEVEL, after=LEVEL)
def test_the_log_alone_says_the_same_of_what_it_records(
    script: Script, before: str, after: str
) -> None:
    """In another process, without the journal; failed transactions are in no log."""
    log, recorded = really(script, before)
    _, ends = really(script, after)
    journal_of(log).clear()
    replay = log.history().replay(after)
    for one, other in zip(recorded, ends, strict=True):
        if one.version is not None:
            rule, row = verdict_of(replay, one)
            assert rule == other.rule
            assert row is None or not row.is_assumed
        if (one.version is None) != (other.version is None):
            break


@pytest.mark.slow
@few
@given(script=scripts(ALL), before=LEVEL, after=LEVEL)
def test_what_is_assumed_never_hides_a_conflict(script: Script, before: str, after: str) -> None:
    log, recorded = really(script, before)
    _, ends = really(script, after)
    journal_of(log).clear()
    replay = log.history().replay(after)
    for one, other in zip(recorded, ends, strict=True):
        if one.version is not None and other.rule:
            assert verdict_of(replay, one)[0]
        if (one.version is None) != (other.version is None):
            break


@pytest.mark.slow
@few
@given(script=scripts(ALL), level=LEVEL)
def test_under_its_own_rules_a_history_ends_as_it_did(script: Script, level: str) -> None:
    log, recorded = really(script, level)
    for replay in (log.history().replay(level), log.history().replay(rules=RULES)):
        assert not replay.conflicts or any(one.version is None for one in recorded)
        for one in recorded:
            assert verdict_of(replay, one)[0] == one.rule
        assert not any(row.changes for row in replay.rows)


@pytest.mark.slow
@few
@given(script=scripts(ALL))
def test_without_rules_everything_passes_and_every_level_has_its_column(script: Script) -> None:
    log, _ = really(script, "Serializable")
    files = sorted(log.store.files)  # type: ignore[attr-defined]
    none = log.history().replay(rules=())
    assert all(row.verdicts[0].passed for row in none.rows)
    grid = log.history().replay(LEVELS)
    for at, level in enumerate(LEVELS):
        alone = log.history().replay(level)
        assert [row.verdicts[at].rule for row in grid.rows] == [row.verdicts[0].rule for row in alone.rows]
    assert sorted(log.store.files) == files, "nothing was written"  # type: ignore[attr-defined]


@pytest.mark.slow
@few
@given(script=scripts(ALL), level=LEVEL)
def test_an_explanation_foretells_the_commit(script: Script, level: str) -> None:
    foretold: list[tuple[bool, int, str]] = []

    def look(txn: OptimisticTransaction, actions: list[Any], operation: Operation) -> None:
        before = txn.status, txn.reads, len(journal_of(txn.log)), txn.log.update().version
        explanation = explain_conflict(txn, actions=actions, operation=operation)
        assert before == (txn.status, txn.reads, len(journal_of(txn.log)), txn.log.update().version)
        assert [row.version for row in explanation.rows] == list(range(txn.read_version + 1, before[3] + 1))
        rule = "" if explanation.conflict is None else explanation.conflict.rule
        foretold.append((not explanation.is_empty, explanation.version, rule))

    _, ended = really(script, level, look)
    for (is_sure, version, rule), one in zip(foretold, ended, strict=True):
        if is_sure:
            assert rule == one.rule
            assert one.version in (None, version)


PLAIN = [s for s in SCENARIOS if not (set(s.get("session_conf", {})) - set(SETTINGS))
         and s.get("level") != "large-commit"]


def at_level(scenario: dict[str, Any], level: str) -> dict[str, Any]:
    """The scenario on a table of another level."""
    copy = json.loads(json.dumps(scenario))
    for commit in [*copy["setup_commits"], copy["txn"]["actions"], *(w["actions"] for w in copy["winners"])]:
        for line in commit:
            if "metaData" in line:
                line["metaData"].setdefault("configuration", {})["delta.isolationLevel"] = level
    return copy


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scenario", PLAIN, ids=lambda s: f"{s['id']}-{s['group']}")
def test_every_scenario_replayed_is_the_scenario_run(scenario: dict[str, Any], level: str) -> None:
    place, txn, error = run(scenario)
    log = place.log
    if error is not None and txn.conflict is None:
        return  # refused before any winner, or by other means than a rule
    replay = log.history().replay(level)
    row = next((row for row in replay.rows if row.txn_id == txn.txn_id), None)
    _, real, ended = run(at_level(scenario, level))
    if row is None:
        assert ended is None or real.conflict is None
        return
    (answer,) = row.verdicts
    if answer.unknown:
        assert "not recorded" in answer.unknown and row.read_version is None
        return
    assert answer.isolation == (real.prepared.isolation if real.prepared else answer.isolation)
    if ended is None:
        assert answer.passed
    elif real.conflict is not None and error is not None and real.conflict.version > row.attempted:
        assert answer.passed  # what came after the winner it met, this process had not seen
    elif real.conflict is not None:
        assert (answer.rule, answer.version) == (real.conflict.rule, real.conflict.version)
    else:
        assert not answer.passed


# -- what is known of reads ------------------------------------------------------------------------


def info(operation: str, read: int, blind: bool | None = None, **parameters: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"operation": operation, "readVersion": read,
                              "operationParameters": parameters}
    return {"commitInfo": fields if blind is None else {**fields, "isBlindAppend": blind}}


def elsewhere(operation: str, *files: Any, blind: bool | None = False, **parameters: Any) -> Replayed:
    """A commit of another process that read version 1, after an append to part 2 came before it."""
    log = new_log("WriteSerializable")
    builder = TableBuilder(log.store, 1)
    builder.commit(info("WRITE", 1, True), add("part=2/new", {"part": "2"}))
    builder.commit(info(operation, 1, blind, **parameters), *files)
    (row,) = log.history().replay("Serializable").rows
    return row


GONE = remove("part=1/a", partitionValues={"part": "1"})


@pytest.mark.parametrize(("operation", "parameters", "fires", "reads"), [
    ("DELETE", {"predicate": '["(part#12 = 1)"]'}, "", "(part = 1)"),
    ("DELETE", {"predicate": '["part = 2"]'}, "append", "part = 2"),
    ("DELETE", {"predicate": ["part = 1", "id > 3"]}, "", "part = 1 AND id > 3"),
    ("DELETE", {"predicate": '["true"]'}, "append", "true"),
    ("DELETE", {}, "append", "everything"),
    ("DELETE", {"predicate": "null"}, "append", "everything"),
    ("UPDATE", {"predicate": "(part#5L = 1)"}, "", "(part = 1)"),
    ("UPDATE", {}, "append", "everything"),
    ("MERGE", {"predicate": '["part = 1"]'}, "", "part = 1"),
    ("MERGE", {"predicate": '["part = 1"]', "notMatchedBySourcePredicates": '[{"actionType":"delete"}]'},
     "append", "everything: it looks for rows without a source"),
    ("WRITE", {"mode": "Overwrite", "predicate": "part = 1"}, "", "part = 1"),
    ("WRITE", {"mode": "Overwrite"}, "append", "everything: it overwrites the table"),
    ("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"}, "",
     "the partitions it replaces"),
    ("TRUNCATE", {}, "append", "everything: it empties the table"),
])
def test_parameters_tell_what_was_read(
    operation: str, parameters: dict[str, Any], fires: str, reads: str
) -> None:
    new = add("part=1/new", {"part": "1"})
    row = elsewhere(operation, GONE, new, **parameters)
    assert (row.verdicts[0].rule, row.reads, row.is_assumed) == (fires, reads, False)


def test_what_is_not_told_is_taken_as_the_whole_table_and_said() -> None:
    row = elsewhere("WRITE", add("part=1/new", {"part": "1"}), mode="Append")
    assert (row.verdicts[0].rule, row.reads, row.is_assumed) == ("append", WHOLE, True)
    row = elsewhere("MERGE", GONE, predicate='["(t.id = s.id)"]')
    assert row.verdicts[0].rule == "append" and row.is_assumed and "MERGE condition" in row.reads
    for matched in ({"replaceUsingCols": "(id)"}, {"replaceOnCond": "t.id = s.id"}):
        row = elsewhere("WRITE", GONE, add("part=1/new", {"part": "1"}), mode="Overwrite", **matched)
        assert row.verdicts[0].rule == "append" and row.is_assumed and "not recorded" in row.reads
    row = elsewhere("DELETE", GONE, predicate='["nonsense(((("]')
    assert row.verdicts[0].rule == "append" and row.is_assumed and "not understood" in row.reads


@pytest.mark.parametrize(("predicate", "fires", "reads"), [
    ("id IN (SELECT id FROM other)", "append", "everything (not counted: id IN (SELECT id FROM other))"),
    ("part = 1 AND soundex(id) = 'x' AND id > 3", "",
     "part = 1 AND id > 3 (not counted: soundex(id) = 'x')"),
])
def test_a_part_that_cannot_be_evaluated_is_named_and_its_reads_are_assumed(
    predicate: str, fires: str, reads: str
) -> None:
    row = elsewhere("DELETE", GONE, predicate=json.dumps([predicate]))
    assert (row.verdicts[0].rule, row.reads, row.is_assumed) == (fires, reads, True)


def test_a_version_that_was_read_may_be_written_as_text() -> None:
    log = new_log("WriteSerializable")
    builder = TableBuilder(log.store, 1)
    builder.commit(info("WRITE", 1, True), add("part=2/new", {"part": "2"}))
    delete = info("DELETE", 1, False, predicate='["part = 2"]')
    delete["commitInfo"]["readVersion"] = "1"
    builder.commit(delete, GONE)
    (row,) = log.history().replay("Serializable").rows
    assert (row.version, row.read_version, row.verdicts[0].rule) == (3, 1, "append")
    assert log.history()[0].read_version == "1"


def test_blind_appends_and_new_layouts_read_no_rows() -> None:
    new = add("part=2/other", {"part": "2"})
    assert elsewhere("WRITE", new, blind=True).verdicts[0].passed
    laid = [{"remove": {**GONE["remove"], "dataChange": False}},
            {"add": {**new["add"], "dataChange": False}}]
    row = elsewhere("OPTIMIZE", *laid)
    assert (row.verdicts[0].passed, row.verdicts[0].isolation) == (True, "SnapshotIsolation")
    assert row.reads == "the files it rewrites"


def test_this_session_says_the_same_of_a_layout_as_the_log_does() -> None:
    log = new_log("Serializable")
    actions, operation = optimize(log.start_transaction(), 1, "laid")
    txn = log.start_transaction()  # reads nothing itself, as OPTIMIZE does
    TableBuilder(log.store, 1).commit(info("WRITE", 1, True), add("part=1/y", {"part": "1"}))
    assert txn.commit(actions, operation) == 3
    (row,) = log.history().replay().rows
    assert (row.reads, row.is_assumed) == ("the files it rewrites", False)


def test_a_layout_whose_files_went_meanwhile_conflicts_at_every_level() -> None:
    log = new_log("Serializable")
    builder = TableBuilder(log.store, 1)
    builder.commit(info("DELETE", 1, False, predicate='["part = 1"]'), GONE)
    builder.commit(info("OPTIMIZE", 1, False), {"remove": {**GONE["remove"], "dataChange": False}})
    (row,) = log.history().replay(LEVELS).rows
    assert [answer.rule for answer in row.verdicts] == ["delete / read"] * 3


def test_a_replay_does_not_make_the_file_list_anew_for_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted, not time: of 2,000 files that all came by one commit, and 90 commits that raced."""
    files, commits = 2_000, 90
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    builder.commit(info("WRITE", 0, True), *(add(f"part=1/{n}", {"part": "1"}) for n in range(files)))
    for n in range(commits):
        gone = remove(f"part=1/{n}", partitionValues={"part": "1"})
        builder.commit(info("DELETE", n, False, predicate='["part = 2"]'), gone)
    made, plain = [], layer.Layer.of_delta

    def of_delta(delta: Any) -> Any:
        made.append(len(delta.adds) + len(delta.removes))
        return plain(delta)

    monkeypatch.setattr(layer.Layer, "of_delta", of_delta)
    replay = builder.log.history().replay("Serializable")
    assert len(replay.rows) == commits and not replay.conflicts
    assert sum(made) <= 2 * files + commits * (MAX_LOOSE + 1)


# -- what cannot be answered -----------------------------------------------------------------------


def raced(count: int = 3) -> DeltaLog:
    """Commits 2, 3, … that all read version 1."""
    log = new_log("WriteSerializable")
    for number in range(count):
        TableBuilder(log.store, 1 + number).commit(
            info("DELETE", 1, False, predicate='["part = 1"]'), add(f"part=2/{number}", {"part": "2"}))
    return log


def test_a_log_that_was_cleaned_says_what_it_cannot_answer() -> None:
    log = raced()
    log.checkpoint(2)
    history = log.history()
    for version in (0, 1):
        log.store.delete(commit_name(version))
    DeltaLog.clear_cache()
    fresh = DeltaLog.for_table(log.store)
    replay = fresh.history().replay()
    assert [row.version for row in replay.unknown] == [3, 4]
    assert {a.unknown for row in replay.unknown for a in row.verdicts} == {"the log before it was cleaned up"}
    assert len(history) == 5


def test_a_commit_without_a_read_version_cannot_be_answered() -> None:
    log = raced(1)
    TableBuilder(log.store, 2).commit({"commitInfo": {"operation": "WRITE"}}, add("part=1/x", {"part": "1"}))
    (row,) = log.history().replay("Serializable").rows
    assert (row.version, row.verdicts[0].unknown) == (3, "the version it read is not recorded")
    assert not row.verdicts[0].passed


def test_a_limit_and_a_past_version_bound_what_is_looked_at() -> None:
    log = raced()
    assert [row.version for row in log.history(1).replay().rows] == [4]
    assert [row.version for row in log.history().up_to(3).replay().rows] == [3]
    assert log.history().up_to(3).replay().total == 4


def test_a_failure_that_no_rule_decides_is_not_replayed() -> None:
    log = new_log("Serializable")
    txn = log.start_transaction()
    append(txn, 1, "x")
    TableBuilder(log.store, 1).commit(info("WRITE", 1, True), add("part=1/y", {"part": "1"}))
    with set_options(max_commit_attempts=0), pytest.raises(DeltaError):
        txn.commit([file("x", 1)])
    assert log.history().replay().rows == ()


@pytest.mark.parametrize(("arguments", "says"), [
    ({"isolation": "serializable"}, "'serializable' is not one of Serializable, Write"),
    ({"isolation": []}, "names no level"),
    ({"rules": ["appendix"]}, "no rule 'appendix'; there are protocol, metadata"),
    ({"without": "appendix"}, "no rule 'appendix'"),
    ({"isolation": 3}, "isolation=3 is neither a name nor a list"),
    ({"rules": 3}, "rules=3 is neither a name nor a list"),
    ({"rules": [["append"]]}, r"no rule \['append'\]"),
    ({"without": None}, "without=None is neither a name nor a list"),
])
def test_mistakes_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        new_log("Serializable").history().replay(**arguments)


def test_a_history_made_by_hand_has_no_log() -> None:
    with pytest.raises(InvalidArgument, match=r"table\.history\(\)"):
        History([HistoryEntry(0, 0)]).replay()


def test_rules_by_name_as_they_are_and_left_out() -> None:
    log = raced(2)
    assert log.history().replay("Serializable").conflicts == ()
    TableBuilder(log.store, 3).commit(info("DELETE", 1, False), GONE)
    history = log.history()
    for arguments in ({"rules": ["append"]}, {"rules": [RULES[5]]}, {"rules": "append"}):
        replay = history.replay("Serializable", **arguments)  # type: ignore[arg-type]
        assert [c.rule for c in replay.conflicts] == ["append"]
        assert len(replay.without) == len(RULES) - 1
    replay = history.replay(without="append")
    assert (replay.levels, replay.without, replay.conflicts) == ((None,), ("append",), ())


# -- before the commit -----------------------------------------------------------------------------


def test_a_transaction_with_nothing_to_write_is_judged_by_its_reads() -> None:
    log = new_log("Serializable")
    txn = log.start_transaction()
    txn.filter_files("part = 2")
    assert explain_conflict(txn).version == 2
    TableBuilder(log.store, 1).commit(info("WRITE", 1, True), add("part=1/y", {"part": "1"}))
    TableBuilder(log.store, 2).commit(info("WRITE", 2, True), add("part=2/y", {"part": "2"}))
    TableBuilder(log.store, 3).commit(info("WRITE", 3, True), add("part=2/z", {"part": "2"}))
    assert explain_conflict(txn, 2).ok
    explanation = explain_conflict(txn)
    assert (explanation.ok, explanation.version, explanation.is_empty, explanation.isolation) == (
        False, 3, True, "Serializable")
    assert explanation.conflict is not None and explanation.conflict.partition == "[part=2]"
    assert [row.is_checked for row in explanation.rows] == [True, True, False]
    assert [check.state for check in explanation.checks].count("failed") == 1
    assert txn.status == "open" and txn.commit([]) == 5  # to commit nothing harms nobody


def test_a_stepping_transaction_is_explained_too() -> None:
    log = new_log("Serializable")
    txn = log.start_transaction()
    actions, operation = delete(txn, 2, "x")
    steps = txn.commit_steps(actions, operation)
    next(steps)
    TableBuilder(log.store, 1).commit(info("WRITE", 1, True), add("part=2/y", {"part": "2"}))
    explanation = explain_conflict(txn)
    assert explanation.conflict is not None and explanation.operation == "DELETE"
    assert txn.status == "committing"
    steps.close()
    with pytest.raises(IllegalStateError, match="abandoned"):
        explain_conflict(txn)


def test_what_is_no_transaction_cannot_be_explained() -> None:
    for thing in (None, "x", new_log("Serializable")):
        with pytest.raises(InvalidArgument, match=f"takes a transaction, found {type(thing).__name__}"):
            explain_conflict(thing)  # type: ignore[arg-type]


def test_explaining_at_the_wrong_moment_says_so() -> None:
    log = new_log("Serializable")
    txn = log.start_transaction()
    with pytest.raises(InvalidArgument, match="not after version 1"):
        explain_conflict(txn, 1)
    with pytest.raises(InvalidArgument, match="not after"):
        explain_conflict(txn, True)
    with pytest.raises(VersionNotFound, match="no version 2 yet; the newest is 1"):
        explain_conflict(txn, 2)
    with pytest.raises(InvalidTransaction):
        explain_conflict(txn, actions=[file("x", 1), file("x", 1)])
    TableBuilder(log.store, 1).commit(info("WRITE", 1, True)).commit(info("WRITE", 2, True))
    log.update()
    log.store.delete(commit_name(2))
    with pytest.raises(VersionNotFound, match="version 2 was cleaned up"):
        explain_conflict(txn)
    txn.commit_steps([]).close()
    done = raced().start_transaction()
    done.commit([])
    with pytest.raises(IllegalStateError, match="is committed; there is nothing left"):
        explain_conflict(done)
