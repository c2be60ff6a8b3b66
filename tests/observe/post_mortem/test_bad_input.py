"""Logs with holes, damage and foreign commits, tables of every kind, arguments of every form: the rest is
answered, and what is not has a name."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, TableNotFound, VersionNotFound
from deltanb.log.commit_times import file_times
from deltanb.log.commits import commit_name
from deltanb.observe.post_mortem import judge, rows_met
from deltanb.observe.post_mortem.evidence import gather
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.observe.post_mortem.failures import DUCKS, FAILURES, NEW, fail, printed

LOST_DELETE = FAILURES[0]


@pytest.fixture
def failed(tmp_path: Path) -> tuple[Path, str]:
    """A table in a folder, and the text of a DELETE that failed at its version 2."""
    table, error = fail(LOST_DELETE, tmp_path / "ducks")
    for _ in range(3):
        table.append(NEW)
    return tmp_path / "ducks", printed(error)


def remarks(pm: Any) -> str:
    return "\n".join(pm.remarks)


# -- the log ----------------------------------------------------------------------------------------------


def test_a_winner_that_is_missing_is_named_and_the_rule_said(failed: tuple[Path, str]) -> None:
    path, text = failed
    (path / commit_name(2)).unlink()
    pm = dn.post_mortem(path, text)
    assert (pm.rule, pm.certainty) == ("append", "proved")
    winner = pm.winner
    assert winner is not None and winner.version == 2
    assert winner.outcome == "unreadable" and "cleaned up, or it is missing" in winner.note
    assert pm.rows_met.answer == "unknown" and "Version 2 won, and its commit cannot be read" in pm.verdict


def test_a_damaged_winner_is_named(failed: tuple[Path, str]) -> None:
    path, text = failed
    (path / commit_name(2)).write_text('{"add": {"path"')
    pm = dn.post_mortem(path, text)
    assert pm.rule == "append" and pm.winners[-1].outcome == "unreadable"
    assert commit_name(2).rpartition("/")[2] in pm.winners[-1].note


def test_a_winner_that_cannot_be_read_is_read_once(
    failed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = failed
    (path / commit_name(3)).write_text("no JSON")
    log, asked = dn.open(path).log.seen_by_others, []
    read = type(log).read_commit
    monkeypatch.setattr(type(log), "read_commit", lambda self, version: (
        asked.append(version), read(self, version))[1])
    names = {version: status.name for version, status in log.commits.listed(0)}
    judged = judge.judge(log, gather(log, None, 1, None, "day = 'wed'", "DELETE", None), names)
    assert [one.outcome == "unreadable" for one in judged.winners] == [False, True, False, False]
    assert commit_name(3).rpartition("/")[2] in judged.winners[1].note
    assert asked.count(3) == 1


@pytest.mark.parametrize("version", [3, 5])
def test_damage_behind_the_winner_changes_nothing_about_it(failed: tuple[Path, str], version: int) -> None:
    path, text = failed
    (path / commit_name(version)).write_text("no JSON")
    pm = dn.post_mortem(path, text)
    assert (pm.rule, pm.certainty, pm.winner and pm.winner.version) == ("append", "proved", 2)
    assert pm.rows_met.answer == "yes"


def test_a_log_that_was_cleaned_up_before_the_version_read(failed: tuple[Path, str]) -> None:
    path, text = failed
    dn.open(path).log.checkpoint()
    for version in (0, 1):
        (path / commit_name(version)).unlink()
    dn.DeltaLog.for_table(path).forget_versions()
    pm = dn.post_mortem(path, text)
    assert (pm.rule, pm.certainty, pm.winner and pm.winner.version) == ("append", "proved", 2)
    assert "version 1 cannot be read, so files are those of version" in remarks(pm)
    assert pm.rows_met.answer == "unknown" and "cannot be compared" in pm.rows_met.note


def test_a_winner_that_was_cleaned_up(failed: tuple[Path, str]) -> None:
    path, text = failed
    dn.open(path).log.checkpoint()
    for version in range(4):
        (path / commit_name(version)).unlink()
    pm = dn.post_mortem(path, text)
    assert pm.rule == "append" and [one.outcome for one in pm.winners] == ["unreadable"]
    assert "it was cleaned up" in pm.winners[0].note


def test_commits_without_commit_info_and_unknown_actions_are_checked_all_the_same() -> None:
    builder = TableBuilder(MemoryStore()).create("id long, day string", partition_by=["day"])
    builder.commit(add("day=mon/a", {"day": "mon"}))
    builder.commit({"fromTheFuture": {"x": 1}}, add("day=mon/b", {"day": "mon"}))
    builder.commit({"commitInfo": {"operation": 7, "timestamp": "noon", "userName": ["?"]}},
                   add("day=mon/c", {"day": "mon"}))
    pm = dn.post_mortem(builder.store, read_version=0, operation="DELETE", predicate="day = 'mon'")
    assert pm.winner is not None and (pm.winner.version, pm.rule) == (1, "append")
    assert "does not say what it did" in pm.winner.note
    assert pm.winner.timestamp == file_times(builder.log)[1]
    pm = dn.post_mortem(builder.store, read_version=1, operation="DELETE", predicate="day = 'mon'")
    assert pm.winner is not None and pm.winner.version == 2
    pm = dn.post_mortem(builder.store, read_version=2, operation="DELETE", predicate="day = 'mon'")
    modified = file_times(builder.log)[3]
    assert pm.winner is not None and (pm.winner.version, pm.winner.timestamp) == (3, modified)


@pytest.mark.parametrize("operation", ["BACKUP", "délete", "x" * 500, "Manual Update", "ALTER TABLE"])
def test_an_operation_that_nobody_knows_is_taken_as_a_read_of_everything(
    failed: tuple[Path, str], operation: str
) -> None:
    path, _ = failed
    pm = dn.post_mortem(path, read_version=1, operation=operation)
    assert pm.certainty in ("possible", "unexplained") and pm.status == 3
    assert str(pm) and pm.to_markdown() and json.loads(pm.to_json())


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_raises(seed: int, failed: tuple[Path, str]) -> None:
    path, text = failed
    draw = random.Random(seed)
    for _ in range(draw.randrange(1, 4)):
        file = path / commit_name(draw.randrange(6))
        if not file.exists():
            continue
        data = bytearray(file.read_bytes())
        match draw.randrange(4):
            case 0:
                file.unlink()
            case 1:
                file.write_bytes(data[: draw.randrange(len(data))])
            case 2:
                data[draw.randrange(len(data))] = draw.randrange(256)
                file.write_bytes(bytes(data))
            case _:
                file.write_bytes(b"\n".join(random.Random(seed).sample(data.split(b"\n"), 2)))
    for data_file in path.rglob("*.parquet"):
        if draw.random() < 0.3:
            data_file.unlink()
    for known in ({"error": text}, {"read_version": 0}, {"error": text, "predicate": "id > 1"},
                  {"started": "2026-11-20"}, {"error": "a concurrent transactions added new data"}):
        try:
            pm = dn.post_mortem(path, **known)
        except VersionNotFound:
            assert known == {"read_version": 0}  # not even version 0 is there
            continue
        except TableNotFound:
            assert not list((path / "_delta_log").glob("*.json"))
            continue
        assert pm.verdict and str(pm) and pm.to_markdown() and json.loads(pm.to_json())


def test_data_files_that_are_gone_leave_the_statistics(failed: tuple[Path, str]) -> None:
    path, text = failed
    for file in path.rglob("*.parquet"):
        file.unlink()
    pm = dn.post_mortem(path, text)
    assert pm.rows_met.answer == "possible" and pm.rows_met.by == "statistics"
    assert "rows were not compared" in pm.rows_met.note


# -- bounds -----------------------------------------------------------------------------------------------


def test_bounds_that_are_reached_are_said(
    failed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = failed
    monkeypatch.setattr(rows_met, "MAX_ROWS", 0)
    pm = dn.post_mortem(path, text)
    assert (pm.rows_met.answer, pm.rows_met.by) == ("possible", "statistics")
    assert "max_rows=0" in pm.rows_met.note
    monkeypatch.setattr(rows_met, "MAX_FILES_READ", 0)
    assert dn.post_mortem(path, text).rows_met.files[0].rows is None
    monkeypatch.setattr(judge, "MAX_SEARCHED", 2)
    lost = 'MetadataChangedException: Conflicting commit: {"timestamp":7,"operation":"WRITE","txnId":"gone"}'
    assert "is among the last 2 commits" in remarks(dn.post_mortem(path, lost))


def test_a_window_of_many_winners_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dn.create(MemoryStore(), DUCKS, partition_by="day")
    for _ in range(12):
        table.append(NEW)
    monkeypatch.setattr(judge, "MAX_WINNERS", 5)
    text = "a concurrent WRITE added data to table ducks committed at version 12."
    pm = dn.post_mortem(table, text, read_version=0, operation="DELETE", predicate="day = 'mon'")
    assert [one.version for one in pm.winners] == [8, 9, 10, 11, 12] and pm.num_winners == 12
    assert "7 earlier winners were not looked at" in remarks(pm)
    pm = dn.post_mortem(table, read_version=0, operation="DELETE", predicate="day = 'wed'")
    assert len(pm.winners) == 5 and "7 later winners were not looked at" in remarks(pm)


def test_a_search_for_the_winner_holds_one_version_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version holds all of its files: a hundred of them are a hundred tables in memory."""
    builder = TableBuilder(MemoryStore("memory:///lake/ducks")).create("id long")
    for version in range(30):
        builder.commit(add(f"{version}.parquet"))
    log = dn.open(builder.store).log
    text = "Commit failed: a concurrent transactions added new data"
    job = gather(log, text, None, None, None, None, None)
    loaded: list[int] = []
    load = type(log).snapshot_at
    monkeypatch.setattr(type(log), "snapshot_at", lambda self, version, *more, **settings: (
        loaded.append(version), load(self, version, *more, **settings))[1])
    described: list[Any] = []
    describe = type(job).commit_info
    monkeypatch.setattr(type(job), "commit_info", lambda self: (described.append(self), describe(self))[1])
    judged = judge.judge(log, job, {version: status.name for version, status in log.commits.listed(0)})
    assert len(described) <= 2, "the condition of a MERGE is parsed for it"
    assert len(judged.candidates) == 30 and judged.culprit == 30
    assert len(judged.snapshots) == 1 and len(loaded) <= 2


# -- arguments --------------------------------------------------------------------------------------------


def test_nothing_known_is_refused_with_what_would_do(failed: tuple[Path, str]) -> None:
    path, _ = failed
    with pytest.raises(InvalidArgument, match="nothing is known of the failed job: give its error"):
        dn.post_mortem(path)
    with pytest.raises(InvalidArgument, match="nothing is known"):
        dn.post_mortem(path, operation="MERGE", predicate="id = 1", writer="ann")


@pytest.mark.parametrize(("arguments", "words"), [
    ({"error": 7}, "post_mortem\\(error=…\\) takes the text of an exception"),
    ({"read_version": "3"}, "takes a version"),
    ({"read_version": True}, "takes a version"),
    ({"read_version": -1}, "versions begin at 0"),
    ({"started": "yesterday"}, "not a valid time"),
    ({"started": 2.5}, "a time is"),
    ({"read_version": 1, "predicate": 7}, "takes a condition"),
    ({"read_version": 1, "operation": 7}, "takes the name of an operation"),
    ({"read_version": 1, "writer": 7}, "takes the name of a writer"),
])
def test_arguments_of_another_type_are_refused(
    failed: tuple[Path, str], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        dn.post_mortem(failed[0], **arguments)


def test_a_version_that_the_table_does_not_have_yet_is_refused(failed: tuple[Path, str]) -> None:
    with pytest.raises(VersionNotFound, match="cannot have read version 99: the newest version .* is 5"):
        dn.post_mortem(failed[0], read_version=99)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        dn.post_mortem(tmp_path / "nothing", "ConcurrentAppendException")


def test_the_text_of_another_table_is_doubted(failed: tuple[Path, str]) -> None:
    pm = dn.post_mortem(failed[0], "a concurrent WRITE added data to table geese committed at version 900.")
    assert "is it the same table?" in remarks(pm) and pm.certainty != "proved"


@pytest.mark.parametrize("predicate", ["id ===== 1", "no_such_column = 1", "soundex(day) = 'x' AND",
                                       "(((((", "", "x" * 5_000, "id IN (SELECT id FROM other)"])
def test_a_predicate_that_is_not_understood_is_said_and_the_rest_answered(
    failed: tuple[Path, str], predicate: str
) -> None:
    path, text = failed
    pm = dn.post_mortem(path, text, predicate=predicate)
    assert (pm.rule, pm.certainty, pm.winner and pm.winner.version) == ("append", "proved", 2)
    assert pm.rows_met.answer == "unknown" and "not understood" in pm.rows_met.note + remarks(pm)
    assert str(pm) and pm.to_markdown()


def test_a_predicate_that_is_understood_in_part_is_no_proof(failed: tuple[Path, str]) -> None:
    path, text = failed
    pm = dn.post_mortem(path, text, predicate="day = 'mon' AND soundex(day) = 'M500'")
    assert pm.rows_met.answer in ("possible", "unknown") and "soundex" in pm.rows_met.note


@pytest.mark.parametrize("condition", [
    "t.id = s.id AND t.day = 'tue'", "(t.id = s.id) AND (target.day = 'tue' AND s.x > 1)",
    "id = s.id and day = 'tue'",
])
def test_the_condition_of_a_merge_counts_as_far_as_it_is_about_the_target(
    failed: tuple[Path, str], condition: str
) -> None:
    path, _ = failed
    pm = dn.post_mortem(path, read_version=1, operation="MERGE", predicate=condition)
    assert pm.rule is None and "none of the rules fails" in pm.verdict  # all that landed is in mon
    pm = dn.post_mortem(path, read_version=1, operation="MERGE", predicate=condition.replace("tue", "mon"))
    assert pm.winner is not None and (pm.winner.version, pm.rule, pm.certainty) == (2, "append", "possible")
    assert pm.rows_met.answer == "possible" and "id = s.id" in pm.rows_met.note
    assert "the job is taken to have read day = 'mon'" in remarks(pm)


ZONES: list[tuple[Callable[[dt.datetime], Any], bool]] = [
    (lambda at: at, False),
    (lambda at: at.replace(tzinfo=None), True),
    (lambda at: at.isoformat(), False),
    (lambda at: at.replace(tzinfo=None).isoformat(" "), True),
    (lambda at: at.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30))).isoformat(), False),
    (lambda at: at.isoformat().replace("+00:00", "Z"), False),
    (lambda at: at.isoformat().replace("+00:00", "z"), False),
    (lambda at: at.strftime("%Y-%m-%dT%H:%Mz"), False),
    (lambda at: int(at.timestamp() * 1000), False),
]


@pytest.mark.parametrize(("form", "is_local"), ZONES)
def test_the_start_of_the_job_leads_to_the_version_that_it_read(
    form: Callable[[dt.datetime], Any], is_local: bool
) -> None:
    noon = dt.datetime(2026, 3, 2, 12, tzinfo=dt.timezone.utc)
    hours = iter(range(100))
    with dn.set_options(clock=lambda: int((noon + dt.timedelta(hours=next(hours))).timestamp() * 1000)):
        builder = TableBuilder(MemoryStore()).create("id long, day string", partition_by=["day"])
        for name in "abcd":
            builder.commit(add(f"day=mon/{name}", {"day": "mon"}))
    started = noon + dt.timedelta(hours=2, minutes=5)
    pm = dn.post_mortem(builder.store, started=form(started), operation="DELETE", predicate="day = 'mon'")
    [read] = [fact for fact in pm.facts if fact.name == "read version"]
    assert read.is_inferred and read.value == 2
    assert pm.winner is not None and pm.winner.version == 3 and pm.certainty == "possible"
    assert ("was taken as UTC" in remarks(pm)) is is_local


def test_a_day_is_its_midnight(failed: tuple[Path, str]) -> None:
    path, _ = failed
    day = dt.date(2999, 1, 1)
    by_day, by_text = (dn.post_mortem(path, started=when) for when in (day, "2999-01-01"))
    assert by_day.facts == by_text.facts and by_day.remarks == by_text.remarks
    assert "started='2999-01-01' has no time zone and was taken as UTC" in remarks(by_day)


def test_a_job_that_started_after_everything_met_nobody(failed: tuple[Path, str]) -> None:
    pm = dn.post_mortem(failed[0], started="2999-01-01T00:00:00Z")
    assert pm.verdict.startswith("No commit has landed since") and pm.certainty == "unexplained"


# -- tables of every kind ---------------------------------------------------------------------------------


def test_a_handle_pinned_to_a_version_knows_no_later_ones(failed: tuple[Path, str]) -> None:
    path, text = failed
    pinned = dn.open(path).as_of(3)
    pm = dn.post_mortem(pinned, text)
    assert (pm.rule, pm.winner and pm.winner.version) == ("append", 2)
    [again] = [one for one in pm.would_have_passed if one.kind == "another time"]
    assert "1 later commit" in again.why  # of the three that the table has
    with pytest.raises(VersionNotFound, match="the newest version .* is 3"):
        dn.post_mortem(pinned, read_version=5)


def test_every_form_of_a_table_gives_the_same(failed: tuple[Path, str]) -> None:
    path, text = failed
    table = dn.open(path)
    forms = [path, str(path), table, table.log, table.log.store, f"file://{path}"]
    verdicts = {dn.post_mortem(form, text).verdict for form in forms}
    assert len(verdicts) == 1
    with table.transaction() as txn:
        txn.append(NEW)
        assert dn.post_mortem(txn, text).verdict in verdicts  # what is staged is no commit


def test_a_table_of_a_catalog(tmp_path: Path) -> None:
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.ducks", DUCKS, partition_by=["day"])
    ended = dn.race(table, {"ann": lambda t: t.append(NEW), "ben": lambda t: t.delete("day = 'mon'")})
    for error in (ended.outcomes["ben"], printed(ended.outcomes["ben"])):
        pm = dn.post_mortem(catalog.table("shop.ducks"), error)
        assert (pm.rule, pm.certainty, pm.rows_met.answer) == ("append", "proved", "yes")
        assert pm.winner is not None and pm.winner.writer == "ann"
    iceberg = catalog.create_table("shop.geese", {"id": [1]}, format="iceberg")
    with pytest.raises(InvalidArgument, match="takes a Delta table or its path, found IcebergTable"):
        dn.post_mortem(iceberg, "ConcurrentAppendException")


@pytest.mark.parametrize("thing", [7, None, object(), b"path"])
def test_what_is_no_table_is_refused(thing: Any) -> None:
    with pytest.raises((InvalidArgument, TypeError)):
        dn.post_mortem(thing, "ConcurrentAppendException")


def test_the_file_that_a_text_names_leads_to_its_remover() -> None:
    builder = TableBuilder(MemoryStore()).create("id long")
    builder.commit(add("part-0.parquet"), add("part-1.parquet"))
    builder.commit(add("part-2.parquet"))
    builder.commit(remove("part-1.parquet"))
    builder.commit(add("part-3.parquet"))
    text = ("io.delta.exceptions.ConcurrentDeleteReadException: This transaction attempted to read one or "
            "more files that were deleted (for example part-1.parquet in the root of the table) by a "
            "concurrent update. Please try the operation again.")
    pm = dn.post_mortem(builder.store, text)
    assert pm.winner is not None and (pm.winner.version, pm.rule) == (3, "delete / read")


# -- texts of other tables --------------------------------------------------------------------------------

WON = "a concurrent {} deleted data from table ducks (committed at version 2) that this transaction read."
OTHERS = {
    "another operation": (WON.format("OPTIMIZE"), "its operation is WRITE, and the text has OPTIMIZE"),
    "nothing removed": (WON.format("WRITE"), "it removes no file"),
    "the table's creation": ("a concurrent CREATE TABLE AS SELECT added data to table ducks committed "
                             "at version 0", "it created the table"),
    "another name": ("a concurrent WRITE added data to table shop.geese committed at version 2",
                     "the text is about a table geese, and this one is ducks"),
    "another place": ("a concurrent WRITE added data to table delta.`s3://lake/geese` committed at version 2",
                      "the text is about a table geese"),
    "metadata": ('MetadataChangedException: The metadata of the Delta table ducks has been changed by a '
                 'concurrent update. Conflicting commit: version 2', "it leaves the metadata as it is"),
    "a version to come": ("Tried committing existing table version: 900", "version of this table is 5"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_the_log_contradicts_proves_nothing(failed: tuple[Path, str], other: str) -> None:
    path, _ = failed
    text, words = OTHERS[other]
    pm = dn.post_mortem(path, text)
    assert pm.certainty != "proved" and pm.status == 3
    assert words in remarks(pm) and "is it the same table?" in remarks(pm)
    assert "removed 0 files" not in pm.verdict and "added 0 files" not in pm.verdict
    assert all(one.certainty == "possible" for one in pm.would_have_passed)


def test_the_exception_of_another_table_proves_nothing(failed: tuple[Path, str], tmp_path: Path) -> None:
    _, error = fail(LOST_DELETE, tmp_path / "geese")
    pm = dn.post_mortem(failed[0], error)
    assert pm.certainty != "proved" and pm.conflict is not error.conflict
    assert "is it the same table?" in remarks(pm)


@pytest.mark.parametrize("name", [
    "ducks", "Ducks", "main.shop.ducks", "`shop`.`ducks`", "delta.`s3://lake/ducks/`"])
def test_names_that_may_be_of_this_table_are_no_contradiction(failed: tuple[Path, str], name: str) -> None:
    pm = dn.post_mortem(failed[0], f"a concurrent WRITE added data to table {name} committed at version 2")
    assert (pm.certainty, pm.status, pm.remarks) == ("proved", 0, ())


def test_a_winner_in_several_partitions_is_said_to_be(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "ducks", DUCKS, partition_by="day")
    table.append({"id": [7, 8, 9], "day": ["mon", "tue", "tue"], "nephews": [2, 2, 2]})
    pm = dn.post_mortem(table, read_version=0, operation="OVERWRITE")
    assert "added 2 files in 2 partitions where the WRITE read" in pm.verdict


def test_the_only_version_before_the_winner_is_the_one_that_was_read(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "ducks", DUCKS, partition_by="day")
    for _ in range(2):
        table.append(NEW)
    text = "a concurrent WRITE added data to table ducks committed at version {}"
    reads = [{one.name: one for one in dn.post_mortem(table, text.format(version)).facts}["read version"]
             for version in (1, 2)]
    assert [(one.value, one.is_inferred) for one in reads] == [(0, False), (1, True)]
