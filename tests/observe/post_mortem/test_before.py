"""How often the two sides met before the job failed, and the hours at which they may meet again."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import deltanb as dn
from deltanb.log.commits import commit_name
from deltanb.observe.post_mortem.before import BY_COMMITS
from deltanb.observe.post_mortem.report import MetBefore
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.observe.post_mortem.failures import FAILURES, NEW, fail

NOON = dt.datetime(2026, 3, 2, tzinfo=dt.timezone.utc)


def commit(
    builder: TableBuilder, hour: int, operation: str | None, read: int, user: str, *actions: Any
) -> None:
    parameters = {"predicate": '["day = \'mon\'"]'} if operation == "DELETE" else {}
    info = {"operation": operation, "readVersion": read, "userName": user,
            "isBlindAppend": operation == "WRITE", "operationParameters": parameters}
    with set_options(clock=lambda: int((NOON + dt.timedelta(hours=hour)).timestamp() * 1000)):
        builder.commit({"commitInfo": info}, *actions)


def created(schema: str, **settings: Any) -> TableBuilder:
    with set_options(clock=lambda: int(NOON.timestamp() * 1000)):
        return TableBuilder(MemoryStore()).create(schema, **settings)


def nights(count: int, meets: bool) -> TableBuilder:
    """Every night at two etl appends and nightly deletes; ``meets``: on top of the same version."""
    builder = created("id long, day string", partition_by=["day"])
    mon, version = {"day": "mon"}, 0
    for night in range(count):
        commit(builder, 24 * night + 2, "WRITE", version, "etl", add(f"day=mon/{night}", mon))
        read = version if meets else version + 1
        old = [remove(f"day=mon/{night - 1}", partitionValues=mon)] if night else []
        commit(builder, 24 * night + 2, "DELETE", read, "nightly", *old)
        commit(builder, 24 * night + 14, "WRITE", version + 2, "reports",
               add(f"day=tue/{night}", {"day": "tue"}))
        version += 3
    commit(builder, 24 * count + 2, "WRITE", version, "etl", add("day=mon/last", mon))
    return builder


def explained(builder: TableBuilder, **known: Any) -> MetBefore:
    newest = builder.log.update().version
    before = dn.post_mortem(builder.store, read_version=newest - 1, operation="DELETE",
                            predicate="day = 'mon'", **known).met_before
    assert before is not None
    return before


def test_meetings_of_the_pair_are_counted_with_their_hours() -> None:
    before = explained(nights(5, meets=True), writer="nightly")
    assert before.pair == ("WRITE by etl", "DELETE by nightly")
    assert (before.meetings, before.lost) == (5, 4)  # in the first night there was nothing to delete
    assert before.likeliest == (2, 5) and before.hours == {2: 5}
    assert before.num_commits == 16 and before.note == ""
    assert before.versions[-1] == (13, 14)


def test_without_the_writer_every_one_of_the_operation_counts() -> None:
    before = explained(nights(5, meets=True))
    assert before.pair == ("WRITE by etl", "DELETE") and before.meetings == 5


def test_another_writer_has_not_met_the_winner() -> None:
    before = explained(nights(5, meets=True), writer="reports")
    assert before.meetings == 0 and before.likeliest is None


def test_hours_at_which_both_commit_stand_for_meetings_that_no_log_has() -> None:
    before = explained(nights(5, meets=False), writer="nightly")
    assert (before.meetings, before.lost) == (0, 0)
    assert before.likeliest == (2, 5) and before.note == BY_COMMITS


def test_failures_of_this_session_are_meetings_but_the_one_that_is_asked_about() -> None:
    table, error = fail(FAILURES[0], MemoryStore())
    before = dn.post_mortem(table, error).met_before
    assert before is not None and before.meetings == 0
    again = dn.race(table, {"ann": lambda t: t.append(NEW), "ben": lambda t: t.delete("day = 'mon'")})
    before = dn.post_mortem(table, again.outcomes["ben"]).met_before
    assert before is not None and (before.meetings, before.lost, before.versions) == (1, 1, ((2, 0),))


@pytest.mark.parametrize("operation", [None, "", "COPY" * 20, "WRITE\x1b[2J"], ids=repr)
def test_a_winner_of_any_operation_has_met_what_its_like_has(operation: str | None) -> None:
    """One that has none, one that is longer than anybody shows, one that is not safe to show."""
    builder = created("id long")
    for version in (0, 2, 4):
        commit(builder, 2, operation, version, "etl", add(f"{version}"))
        commit(builder, 2, "DELETE", version, "nightly")
    commit(builder, 2, operation, 6, "etl", add("last"))
    before = explained(builder, writer="nightly")
    assert before.meetings == 3 and before.hours == {2: 3}


def test_a_job_of_a_long_name_has_met_the_winner() -> None:
    builder, operation, writer = created("id long"), "PURGE" * 20, "w" * 80
    for version in (0, 2):
        commit(builder, 2, "WRITE", version, "etl", add(f"{version}"))
        commit(builder, 2, operation, version, writer)
    commit(builder, 2, "WRITE", 4, "etl", add("last"))
    before = dn.post_mortem(builder.store, read_version=4, operation=operation, writer=writer).met_before
    assert before is not None and before.meetings == 2


def test_the_winner_alone_is_not_enough() -> None:
    builder = nights(1, meets=True)
    assert dn.post_mortem(builder.store, read_version=3).met_before is None


def test_damage_before_the_winner_cuts_the_history_off() -> None:
    builder = nights(5, meets=True)
    builder.store.put(commit_name(8), b"no JSON")
    text = "a concurrent WRITE added data to table ducks committed at version 16."
    pm = dn.post_mortem(builder.store, text, operation="DELETE")
    assert pm.met_before is not None and pm.met_before.num_commits == 7
    assert pm.met_before.meetings == 2
