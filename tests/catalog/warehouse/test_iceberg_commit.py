"""Commits to many Iceberg tables: all or none, every failure told, no file left of what did not land."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.iceberg.commit import Change, Committed, IcebergTable, Prepared
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.limits import Limits
from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import DeltaCommit, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.errors import (
    BadRequest,
    CommitFailed,
    CommitOutcomeUnknown,
    CommitTimedOut,
    DeltaError,
    NamespaceNotFound,
    StorageError,
    TableNotFound,
)
from deltanb.options import set_options
from deltanb.testing import Fail, LoseResponse, MemoryStore, Pass, ScriptedStore
from tests.catalog.iceberg_tables import OTHER_UUID, SCHEMA, add, point, set_properties
from tests.catalog.script import at_commit

Files = Callable[[], set[str]]
Json = dict[str, Any]


def named(letter: str) -> TableName:
    return TableName(("ns",), letter)


def made(lake: IcebergTables, letters: str) -> list[IcebergTable]:
    """Tables by a letter."""
    return [lake.create(f"ns.{letter}", SCHEMA) for letter in letters]  # type: ignore[misc]


def change(letter: str, *updates: Json, needs: list[Json] | None = None, at: int = 0) -> Change:
    return Change(named(letter), needs or [], list(updates), f"table-changes[{at}]")


def properties(lake: IcebergTables, letters: str) -> list[dict[str, str]]:
    """The properties of tables at one instant."""
    return [table.metadata["properties"] for table in lake.load_many(map(named, letters)).values()]


def same_uuid(table: IcebergTable) -> Json:
    return {"type": "assert-table-uuid", "uuid": table.metadata["table-uuid"]}


def at_snapshot(number: int | None) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": number}


NO_PROPERTY = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3}


def is_clean(lake: IcebergTables, files: Files) -> bool:
    """Whether every file is named by a table's metadata, and no garbage is left."""
    tables = lake.load_many(row.name for row in lake.store.tables.page("ns", format="iceberg").items)
    mine: set[str] = set()
    for table in tables.values():
        log = [entry["metadata-file"] for entry in table.metadata["metadata-log"]]
        mine |= {lake.warehouse.name_of(place, "") for place in (*log, str(table.metadata_location))}
    return files() == mine and lake.store.garbage.due(2**62) == []


def test_tables_move_together(lake: IcebergTables, files: Files) -> None:
    a, b = made(lake, "ab")
    done = lake.commit([change("a", add(1, number=1), point(1), needs=[same_uuid(a)]),
                        change("b", set_properties(x="1"), needs=[same_uuid(b)], at=1)], principal="ada")
    assert isinstance(done, Committed)
    after = lake.load_many([named("a"), named("b")])
    assert tuple(after.values()) == done.tables
    assert after[named("a")].metadata["current-snapshot-id"] == 1
    assert after[named("b")].metadata["properties"] == {"x": "1"}
    entry = lake.store.history()[-1]
    assert (entry.txn_id, entry.seq, entry.principal) == (done.txn_id, done.seq, "ada")
    assert entry.changes == {
        str(table.table_id): (before.metadata_location, table.metadata_location)
        for before, table in zip((a, b), done.tables, strict=True)}
    assert is_clean(lake, files)


def test_every_failure_of_every_table_is_told(lake: IcebergTables, files: Files) -> None:
    a, b = made(lake, "ab")
    before = files()
    wrong = {"type": "assert-table-uuid", "uuid": OTHER_UUID}
    schema = {"type": "assert-current-schema-id", "current-schema-id": 7}
    with pytest.raises(CommitFailed) as caught:
        lake.commit([change("a", set_properties(x="1"), needs=[wrong, schema]),
                     change("b", set_properties(x="1"), needs=[same_uuid(b), schema], at=1)])
    a_name, b_name = {"namespace": ["ns"], "name": "a"}, {"namespace": ["ns"], "name": "b"}
    assert caught.value.failed_requirements == [
        {"identifier": a_name, "requirement": wrong, "actual": {"uuid": a.metadata["table-uuid"]}},
        {"identifier": a_name, "requirement": schema, "actual": {"current-schema-id": 0}},
        {"identifier": b_name, "requirement": schema, "actual": {"current-schema-id": 0}}]
    assert str(caught.value).startswith("Transaction failed: requirement not met for table ns.a: ")
    assert files() == before and is_clean(lake, files)


@pytest.mark.parametrize(("second", "error"), [
    (change("b", {"action": "no-such"}, at=1), BadRequest),
    (change("b", needs=[{"type": "no-such"}], at=1), BadRequest),
    (change("b", {"action": "set-current-schema", "schema-id": 9}, at=1), BadRequest),
    (change("b", add(1, 7, 0), at=1), CommitFailed),
    (change("b", needs=[at_snapshot(5)], at=1), CommitFailed),
    (change("b", {"action": "set-location", "location": "s3://elsewhere/b"}, at=1), BadRequest),
    (change("c", set_properties(x="1"), at=1), TableNotFound),
    (change("a", set_properties(x="1"), at=1), BadRequest),
    (Change(TableName(("no",), "t"), [{"type": "assert-create"}], [
        {"action": "assign-uuid", "uuid": OTHER_UUID}, {"action": "set-location", "location": "{lake}/t"},
        {"action": "add-schema", "schema": SCHEMA}, {"action": "set-current-schema", "schema-id": -1}]),
     NamespaceNotFound),
])
def test_one_table_that_fails_stops_all(
    lake: IcebergTables, files: Files, second: Change, error: type[DeltaError]
) -> None:
    made(lake, "ab")
    before = files()
    for update in second.updates:
        if "{lake}" in update.get("location", ""):
            second = Change(second.name, second.requirements, [
                {**each, "location": f"{lake.warehouse.uri}/t"} if each is update else each
                for each in second.updates])
    with pytest.raises(error):
        lake.commit([change("a", set_properties(x="1")), second])
    assert properties(lake, "ab") == [{}, {}]
    assert files() == before and is_clean(lake, files)


def test_all_missing_tables_are_named(lake: IcebergTables) -> None:
    made(lake, "a")
    with pytest.raises(TableNotFound, match=r"no Iceberg table ns\.x, ns\.y"):
        lake.commit([change(letter, set_properties(x="1")) for letter in "xay"])


@pytest.mark.parametrize("count", [1, 2])
def test_limits_come_before_anything_is_looked_up(store: CatalogStore, tmp_path: Path, count: int) -> None:
    lake = IcebergTables(store, tmp_path / "lake", Limits(tables=count, updates=count))
    for changes, field in (
        ([change(letter, at=at) for at, letter in enumerate("xyz"[:count + 1])], "table-changes"),
        ([change("x", *[set_properties(x="1")] * (count + 1))], r"table-changes\[0\].updates"),
        ([], "table-changes"),
    ):
        with pytest.raises(BadRequest, match=field):
            lake.commit(changes)


def rivals(
    lake: IcebergTables, monkeypatch: pytest.MonkeyPatch, moves: list[Callable[[], object]]
) -> list[int]:
    """Let others in right before each ratification; returns the numbers of tables proposed, try by try."""
    ratify, waiting, tries = lake.store.ratify, list(moves), []

    def and_others(txn_id: str, principal: Any, proposals: Any, *more: Any) -> Any:
        tries.append(len(proposals))
        if waiting:
            monkeypatch.setattr(lake.store, "ratify", ratify)
            try:
                waiting.pop(0)()
            finally:
                monkeypatch.setattr(lake.store, "ratify", and_others)
        return ratify(txn_id, principal, proposals, *more)

    monkeypatch.setattr(lake.store, "ratify", and_others)
    return tries


def test_who_lost_a_race_tries_again_on_what_is_there(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "ab")
    written: list[str] = []
    write = lake.files.write
    tries = rivals(lake, monkeypatch, [lambda: lake.commit([change("a", set_properties(rival="1"))])])
    monkeypatch.setattr(lake.files, "write", lambda file: (written.append(file.location), write(file)))
    lake.commit([change("a", set_properties(x="1")), change("b", set_properties(x="1"), at=1)])
    assert properties(lake, "ab") == [{"rival": "1", "x": "1"}, {"x": "1"}]
    assert tries == [2, 2]
    assert len([place for place in written if "/b-" in place]) == 1  # b stayed where it was: its file served
    assert is_clean(lake, files)


def test_a_requirement_that_no_longer_holds_after_a_lost_race_ends_the_commit(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "ab")
    rivals(lake, monkeypatch, [lambda: lake.commit([change("a", add(1, number=1), point(1))])])
    with pytest.raises(CommitFailed) as caught:
        lake.commit([change("a", set_properties(x="1"), needs=[at_snapshot(None)]),
                     change("b", set_properties(x="1"), at=1)])
    assert caught.value.failed_requirements[0]["actual"] == {"ref": "main", "snapshot-id": 1}
    assert properties(lake, "ab") == [{}, {}] and is_clean(lake, files)


def test_what_requires_nothing_is_merged_however_often_it_loses(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "ab")
    numbers = itertools.count()
    tries = rivals(lake, monkeypatch, [
        lambda: lake.commit([change("a", set_properties(rival=str(next(numbers))))])] * 9)
    lake.commit([change("a", set_properties(x="1")), change("b", set_properties(x="1"), at=1)])
    assert len(tries) == 10 and properties(lake, "ab") == [{"rival": "8", "x": "1"}, {"x": "1"}]
    assert is_clean(lake, files)


def test_who_loses_for_too_long_hears_which_table_moved_and_leaves_nothing(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "ab")
    numbers, now = itertools.count(), [0]

    def rival() -> None:
        lake.commit([change("a", set_properties(rival=str(next(numbers))))])
        now[0] += 4_000_000_000

    rivals(lake, monkeypatch, [rival] * 20)
    with set_options(timer=lambda: now[0]), pytest.raises(CommitTimedOut) as caught:
        lake.commit([change("a", set_properties(x="1")), change("b", set_properties(x="1"), at=1)])
    assert str(caught.value) == (
        "Transaction failed: it took longer than 30 seconds: others went on to change ns.a; nothing was "
        "changed, try again")
    assert properties(lake, "ab") == [{"rival": "7"}, {}] and is_clean(lake, files)


def test_a_table_that_is_only_required_of_must_stay(
    lake: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "ab")

    def guarded(writes: str, reads: str) -> list[Change]:
        """Write one table if the other one has no snapshot."""
        return [change(writes, add(1, number=1), point(1)), change(reads, needs=[at_snapshot(None)], at=1)]

    rivals(lake, monkeypatch, [lambda: lake.commit(guarded("b", "a"))])
    with pytest.raises(CommitFailed):
        lake.commit(guarded("a", "b"))
    one, other = lake.load_many([named("a"), named("b")]).values()
    assert (one.metadata["current-snapshot-id"], other.metadata["current-snapshot-id"]) == (-1, 1)


def test_without_the_assertion_both_would_land(
    lake: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test before this one would not see if tables that are only required of were not looked at."""
    made(lake, "ab")
    monkeypatch.setattr(Prepared, "assertions", [])

    def guarded(writes: str, reads: str) -> list[Change]:
        return [change(writes, add(1, number=1), point(1)), change(reads, needs=[at_snapshot(None)], at=1)]

    rivals(lake, monkeypatch, [lambda: lake.commit(guarded("b", "a"))])
    lake.commit(guarded("a", "b"))
    one, other = lake.load_many([named("a"), named("b")]).values()
    assert (one.metadata["current-snapshot-id"], other.metadata["current-snapshot-id"]) == (1, 1)


def test_a_renamed_or_dropped_table_is_not_found(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "abc")
    for letter, move in (("a", lambda: lake.rename("ns.a", "ns.z")), ("b", lambda: lake.drop("ns.b"))):
        rivals(lake, monkeypatch, [move])
        with pytest.raises(TableNotFound):
            lake.commit([change(letter, set_properties(x="1")), change("c", set_properties(x="1"), at=1)])
    assert properties(lake, "zc") == [{}, {}]
    assert not any(name.rpartition("/")[2].startswith("00001-") for name in files())


def test_nothing_asked_is_nothing_done(lake: IcebergTables) -> None:
    a, _ = made(lake, "ab")
    before = lake.store.history()
    done = lake.commit([change("a", set_properties()), change("b", at=1)])
    assert isinstance(done, Committed) and done.seq is None and done.tables[0] == a
    assert lake.store.history() == before


def test_a_commit_that_takes_too_long_changes_nothing(lake: IcebergTables, files: Files) -> None:
    made(lake, "a")
    ticks = itertools.count(step=31 * 1_000_000_000)
    with set_options(timer=lambda: next(ticks)), pytest.raises(CommitTimedOut, match="30 seconds"):
        lake.commit([change("a", set_properties(x="1"))])
    assert properties(lake, "a") == [{}] and is_clean(lake, files)


def test_an_answer_is_kept_with_the_commit_and_given_again(lake: IcebergTables, files: Files) -> None:
    made(lake, "a")

    def answer(done: Committed) -> Answer:
        return Answer("key", "hash", 200, str(done.tables[0].metadata_location), 2**62)

    first = lake.commit([change("a", set_properties(x="1"))], answer=answer)
    again = lake.commit([change("a", set_properties(x="2"))], answer=answer)
    assert isinstance(first, Committed) and isinstance(again, Replayed)
    assert again.answer.response == first.tables[0].metadata_location
    assert properties(lake, "a") == [{"x": "1"}] and is_clean(lake, files)
    nothing = lake.commit([change("a")], answer=lambda done: Answer("other", "hash", 200, "", 2**62))
    assert isinstance(nothing, Committed) and lake.store.answers.find("other", "hash") is not None
    late = lake.commit([change("a")], answer=lambda done: Answer("key", "hash", 200, "late", 2**62))
    assert isinstance(late, Replayed) and late.answer.response == first.tables[0].metadata_location


def test_a_commit_whose_answer_is_lost_landed(lake: IcebergTables, files: Files) -> None:
    made(lake, "a")
    garbage = lake.store.garbage.record

    def recorded(*args: Any) -> None:
        garbage(*args)
        lost.__enter__()

    def gone(commit: Callable[[], None]) -> None:
        commit()
        raise _closed(lake)

    lost = at_commit(lake.store, gone)
    lake.store.garbage.record = recorded  # type: ignore[method-assign]
    try:
        done = lake.commit([change("a", set_properties(x="1"))])
    finally:
        lost.__exit__(None, None, None)
    assert isinstance(done, Committed)
    assert properties(lake, "a") == [{"x": "1"}] and is_clean(lake, files)


def _closed(lake: IcebergTables) -> Exception:
    """The error of a driver whose connection is gone."""
    if lake.store.database.engine.dialect.name == "postgresql":
        import psycopg

        return psycopg.OperationalError("the connection is closed")
    import sqlite3

    return sqlite3.OperationalError("disk I/O error")


def test_no_file_goes_while_it_is_open_whether_the_commit_landed(
    lake: IcebergTables, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "a")
    before = files()

    def unknown(*args: Any) -> None:
        raise CommitOutcomeUnknown("the catalog does not answer", txn_id=args[0])

    monkeypatch.setattr(lake.store, "ratify", unknown)
    with pytest.raises(CommitOutcomeUnknown):
        lake.commit([change("a", set_properties(x="1"))])
    (left,) = files() - before
    assert [lake.warehouse.name_of(path, "") for path, _ in lake.store.garbage.due(2**62)] == [left]


def test_a_full_disk_changes_nothing(store: CatalogStore) -> None:
    full = Fail(OSError(28, "No space left on device"))
    disk = ScriptedStore(MemoryStore(), [Pass(), Pass(), Pass(), full, LoseResponse()])
    lake = IcebergTables(store, disk)
    made(lake, "ab")
    before = [status.name for status in disk.list_all("")]
    for _ in range(2):
        with pytest.raises(StorageError):
            lake.commit([change("a", set_properties(x="1")), change("b", set_properties(x="1"), at=1)])
        assert properties(lake, "ab") == [{}, {}]
        assert [status.name for status in disk.list_all("")] == before
    lake.commit([change("a", set_properties(x="1")), change("b", set_properties(x="1"), at=1)])
    assert properties(lake, "ab") == [{"x": "1"}] * 2


def test_delta_commits_and_swaps_land_in_one_ratification(lake: IcebergTables, files: Files) -> None:
    made(lake, "a")
    delta = lake.store.tables.register_delta("ns.d", "lake/d", 0)
    step = DeltaCommit(str(delta.table_id), delta.name, 1, inline=b"{}")
    late = DeltaCommit(str(delta.table_id), delta.name, 1, file_name="1.json")
    ready = lake.committer.prepare([change("a", set_properties(x="1"))])
    done = lake.store.ratify("txn", None, [step, *ready.proposals], ready.assertions, written=ready.written)
    assert isinstance(done, Ratified) and properties(lake, "a") == [{"x": "1"}]
    ready = lake.committer.prepare([change("a", set_properties(x="2"))])
    refused = lake.store.ratify("2", None, [late, *ready.proposals], ready.assertions, written=ready.written)
    assert refused == Refused({str(delta.table_id): 1})
    assert properties(lake, "a") == [{"x": "1"}]
    lake.committer.discard(ready.written)
    assert is_clean(lake, files)


def test_writers_at_once_never_tear_tables_apart(lake: IcebergTables, files: Files) -> None:
    from concurrent.futures import ThreadPoolExecutor

    made(lake, "ab")

    def write(writer: int) -> int:
        landed = 0
        for _ in range(5):
            try:
                lake.commit([change("a", set_properties(**{f"w{writer}": str(landed + 1)})),
                             change("b", set_properties(**{f"w{writer}": str(landed + 1)}), at=1)])
                landed += 1
            except CommitFailed:
                continue
        return landed

    with ThreadPoolExecutor(4) as pool:
        landed = list(pool.map(write, range(4)))
        seen = [properties(lake, "ab") for _ in range(20)]
    assert all(one == other for one, other in seen)
    assert properties(lake, "ab") == [{f"w{at}": str(count) for at, count in enumerate(landed) if count}] * 2
    assert is_clean(lake, files)
