"""Every change that is proved is made, and the same job runs again beside the same winner: it passes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import deltanb as dn
from deltanb.engines.arrow.read import read_table
from deltanb.log.commits import commit_name
from deltanb.observe.finer_rules import FinerRules
from deltanb.observe.post_mortem import remedies
from deltanb.observe.post_mortem.remedies import CHANGES
from deltanb.observe.post_mortem.report import PROVED
from deltanb.testing import MemoryStore
from tests.observe.post_mortem.failures import DUCKS, FAILURES, NEW, Failure, append, fail, printed

PROVABLE = ("isolation level", "partition predicate", "row-level rules", "partitioning",
            "splitting", "another time")
"""Kinds that can be proved; deletion vectors take two writers that know rules of rows."""


def raced(
    failure: Failure, lose: Any, order: str | None = None, partition_by: str | None = None, **properties: str
) -> Any:
    """What the loser of a failure ends with when it runs otherwise, beside the same winner."""
    columns = partition_by or failure.partition_by
    table = dn.create(MemoryStore(), DUCKS, partition_by=columns, properties=properties)
    table.append({"id": [5], "day": ["tue"], "nephews": [1]})
    return dn.race(table, {"ann": failure.win, "ben": lose}, order).outcomes["ben"]


def proved(failure: Failure) -> dict[str, str]:
    table, error = fail(failure, MemoryStore())
    pm = dn.post_mortem(table, error)
    return {one.kind: one.change for one in pm.would_have_passed if one.certainty == PROVED}


def with_condition(failure: Failure, condition: str) -> Any:
    """The job of a failure with another condition."""
    works = {"DELETE": lambda t: t.delete(condition),
             "UPDATE": lambda t: t.update({"nephews": "8"}, where=condition)}
    return works[failure.operation]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_the_job_as_it_was_fails_again(failure: Failure) -> None:
    assert isinstance(raced(failure, failure.lose), dn.errors.DeltaConcurrentModificationException)


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_the_isolation_level_lets_it_pass_where_that_is_proved(failure: Failure) -> None:
    ended = raced(failure, failure.lose, **{"delta.isolationLevel": "WriteSerializable"})
    assert isinstance(ended, int) is ("isolation level" in proved(failure))


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_starting_behind_the_winner_lets_it_pass(failure: Failure) -> None:
    assert "another time" in proved(failure)
    ended = raced(failure, failure.lose, "serial")
    assert ended is None or isinstance(ended, int)  # what the winner did already may leave it nothing to do


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_the_condition_with_its_partition_lets_it_pass(failure: Failure) -> None:
    change = proved(failure).get("partition predicate")
    if change is None:
        assert failure.name != "delete ∥ append elsewhere"
        return
    more = change.removeprefix("Add to the condition: ")
    job = with_condition(failure, f"({more}) AND ({failure.predicate})")
    assert isinstance(raced(failure, job), int)


@pytest.mark.parametrize("failure", [one for one in FAILURES if one.operation == "DELETE"], ids=str)
def test_of_a_job_split_by_partition_the_parts_that_met_nobody_pass(failure: Failure) -> None:
    if "splitting" not in proved(failure):
        return
    parts = {day: raced(failure, with_condition(failure, f"day = '{day}' AND {failure.predicate}"))
             for day in ("mon", "tue")}
    assert isinstance(parts["tue"], int)
    assert isinstance(parts["mon"], dn.errors.DeltaConcurrentModificationException)


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_the_table_partitioned_otherwise_lets_it_pass(failure: Failure) -> None:
    change = proved(failure).get("partitioning")
    if change is None:
        assert failure.partition_by
        return
    column = change.removeprefix("Partition the table by ")
    assert isinstance(raced(failure, failure.lose, partition_by=column), int)


def test_some_job_could_be_split() -> None:
    assert [one.name for one in FAILURES if "splitting" in proved(one)]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_files_that_hold_no_row_of_the_condition_are_what_row_level_rules_leave_out(failure: Failure) -> None:
    """The oracle is the values themselves: no added row is one that the job asked for."""
    if "row-level rules" not in proved(failure):
        return
    table, _ = fail(failure, MemoryStore())
    added = {one.path for one in table.commit(2).added}
    snapshot = table.as_of(2).snapshot
    files = snapshot.files.filter([path in added for path in snapshot.files["path"].to_pylist()])
    assert files.num_rows and read_table(snapshot, files, where=failure.asked_for).num_rows == 0


def test_every_kind_of_change_that_can_be_proved_is_proved_of_some_failure() -> None:
    kinds = {kind for failure in FAILURES for kind in proved(failure)}
    assert kinds == set(PROVABLE) == set(CHANGES) - {"deletion vectors"}


def test_another_time_is_no_proof_where_later_commits_would_have_met_it() -> None:
    table, error = fail(FAILURES[0], MemoryStore())
    for _ in range(4):
        table.append(NEW)
    pm = dn.post_mortem(table, error)
    [again] = [one for one in pm.would_have_passed if one.kind == "another time"]
    assert again.certainty == "possible"
    assert again.why == "of 4 later commits, v3, v4, v5 and 1 more would have met it, had it run as long"
    table, error = fail(FAILURES[0], MemoryStore())
    table.append({**NEW, "day": ["tue"]})
    [again] = [one for one in dn.post_mortem(table, error).would_have_passed if one.kind == "another time"]
    assert (again.certainty, again.why) == ("proved", "none of 1 later commit would have met it")


def test_vectors_are_proposed_where_both_changed_other_rows_of_one_file() -> None:
    other = next(one for one in FAILURES if one.name == "update ∥ update of another row")
    same = next(one for one in FAILURES if one.name == "update ∥ update of the same row")
    kinds = {}
    for failure in (other, same):
        table, error = fail(failure, MemoryStore())
        kinds[failure.name] = {one.kind: one for one in dn.post_mortem(table, error).would_have_passed}
    change = kinds[other.name]["deletion vectors"]
    assert change.certainty == "possible"
    assert change.change.startswith("Set delta.enableDeletionVectors to true")
    assert "deletion vectors" not in kinds[same.name]


def test_finer_rules_are_asked_each_question_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may open files for an answer."""
    asked: list[Any] = []
    monkeypatch.setattr(remedies, "FinerRules", lambda recorder, *question: (
        asked.append(question), FinerRules(recorder, *question))[1])
    failure = next(one for one in FAILURES if one.name == "update ∥ update of another row")
    table, error = fail(failure, MemoryStore())
    kinds = {one.kind for one in dn.post_mortem(table, error).would_have_passed}
    assert "deletion vectors" in kinds and ("vectors", ()) in asked
    assert len(asked) == len(set(asked))


FEATURES = [
    {"delta.columnMapping.mode": "name"},
    {"delta.enableDeletionVectors": "true"},
    {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true",
     "delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true",
     "delta.columnMapping.mode": "name", "delta.checkpointPolicy": "v2"},
]
CASES = [(append(id=9), "id = 3", "no", "partition predicate"), (append(), "nephews = 0", "no", "splitting"),
         (append(), "day = 'mon'", "yes", "isolation level"),
         (lambda t: t.delete("id = 2"), "id = 1", "no", "another time"),
         (lambda t: t.update({"nephews": "4"}, where="id = 1"), "id = 1", "yes", "another time")]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("features", FEATURES, ids=lambda one: "+".join(name[6:] for name in one))
def test_tables_of_all_features_have_the_same_answers(features: dict[str, str], case: int) -> None:
    win, condition, answer, kind = CASES[case]
    table = dn.create(MemoryStore(), DUCKS, partition_by="day", properties=features)
    ended = dn.race(table, {"ann": win, "ben": lambda t: t.delete(condition)}).outcomes["ben"]
    pm = dn.post_mortem(table, ended)
    assert (pm.certainty, pm.rows_met.answer) == ("proved", answer)
    changes = {one.kind: one for one in pm.would_have_passed if one.certainty == PROVED}
    assert kind in changes
    both_have_vectors = "delta.enableDeletionVectors" in features and CASES[case][1:3] == ("id = 1", "no")
    assert ("vectors" in getattr(changes.get("row-level rules"), "change", "")) is both_have_vectors
    assert {name for file in pm.rows_met.files for name in file.partition} == {"day"}
    assert "col-" not in "".join(one.change + one.why for one in pm.would_have_passed)


def lost_behind_two(level: str) -> tuple[Any, Any]:
    """A table, and what a DELETE of id 1 ends with that commits behind an append and an UPDATE of all."""
    table = dn.create(MemoryStore("memory:///lake/ducks"), DUCKS, properties={"delta.isolationLevel": level})
    txn = table.transaction()
    txn.delete("id = 1")
    table.append(NEW)
    table.update({"nephews": "nephews + 1"})
    with pytest.raises(dn.errors.DeltaConcurrentModificationException) as ended:
        txn.commit()
    return table, ended.value


def test_commits_behind_the_winner_count_if_they_had_landed() -> None:
    table, error = lost_behind_two("Serializable")
    assert error.conflict.version == 1
    _, again = lost_behind_two("WriteSerializable")  # the change made: the same job fails at version 2
    assert again.conflict.version == 2
    kinds = {one.kind for one in dn.post_mortem(table, error).would_have_passed}
    assert kinds == {"another time"}
    known: dict[str, Any] = {"read_version": 0, "operation": "DELETE", "predicate": "id = 1"}
    pm = dn.post_mortem(table, printed(error), **known)
    [level] = [one for one in pm.would_have_passed if one.kind == "isolation level"]
    assert (level.certainty, pm.certainty) == ("possible", "proved")
    assert "it would have met version 2, too, if that had landed by then" in level.why
    pm = dn.post_mortem(table.as_of(1), printed(error), **known)
    assert [one.certainty for one in pm.would_have_passed if one.kind == "isolation level"] == ["proved"]


def test_later_commits_that_cannot_be_read_or_are_too_many_prove_nothing(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    table, error = fail(FAILURES[0], MemoryStore("memory:///lake/ducks"))
    for _ in range(3):
        table.append(NEW)
    text = printed(error)

    def level() -> Any:
        pm = dn.post_mortem(table.log.store, text)
        return next(one for one in pm.would_have_passed if one.kind == "isolation level")
    assert level().certainty == "proved"
    monkeypatch.setattr(remedies, "MAX_WINNERS", 2)
    assert level().certainty == "possible" and "only 2 later commits were checked" in level().why
    monkeypatch.undo()
    table.log.store.put(commit_name(4), b"no JSON")
    assert level().certainty == "possible" and "version 4, which may have landed by then" in level().why


MON: dict[str, tuple[str, Any, Any]] = {
    "a name with a blank": ("my day", "mon", "tue"), "an escape": ("my day", "a\\n", "b"),
    "a quote": ("day", "o'clock", "b"), "a backtick": ("d`y", "a", "b"), "a number": ("day", 5, 7),
    "a date": ("day", dt.date(2026, 1, 2), dt.date(2026, 1, 3)), "a word of SQL": ("select", "a", "b"),
    "a truth": ("day", True, False),
}


@pytest.mark.parametrize("odd", MON)
def test_a_condition_that_is_proposed_is_sql_and_means_the_partition(odd: str) -> None:
    name, value, other = MON[odd]

    def run(condition: str) -> tuple[Any, Any]:
        table = dn.create(MemoryStore(), {"id": [1, 2], name: [value, other]}, partition_by=name,
                          properties={"delta.columnMapping.mode": "name"})
        jobs = {"ann": lambda t: t.append({"id": [9], name: [other]}), "ben": lambda t: t.delete(condition)}
        return table, dn.race(table, jobs).outcomes["ben"]
    table, error = run("id = 1")
    changes = dn.post_mortem(table, error).would_have_passed
    [change] = [one for one in changes if one.kind == "partition predicate"]
    more = change.change.removeprefix("Add to the condition: ")
    assert change.certainty == PROVED and table.count(where=f"{more} AND id = 1") == 1
    assert isinstance(run(f"({more}) AND id = 1")[1], int)
