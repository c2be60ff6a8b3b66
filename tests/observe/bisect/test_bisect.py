"""Bisections of tables whose commits are known: what they find, how much they read, and what they cannot."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.log.commits import commit_name
from deltanb.observe.bisect.bisection import VERDICTS, Bisection
from deltanb.options import set_options


def counted(path: Path, values: list[int]) -> dn.DeltaTable:
    """A table of one row whose value in each version is known."""
    table = dn.create(path, {"n": [values[0]]})
    for value in values[1:]:
        table.overwrite({"n": [value]})
    return table


def value(table: Any) -> int:
    return int(table.to_arrow()["n"][0].as_py())


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made once") / "counts"
    counted(path, list(range(20)))
    return path


@pytest.fixture
def twenty(counts: Path, tmp_path: Path) -> dn.DeltaTable:
    """Its value is its version."""
    return dn.open(shutil.copytree(counts, tmp_path / "counts"))


@pytest.mark.parametrize("bad", [1, 7, 13, 19])
@pytest.mark.parametrize("form", ["function", "condition", "expression", "query"])
def test_the_first_bad_version_and_its_commit(twenty: dn.DeltaTable, bad: int, form: str) -> None:
    if form == "query":
        pytest.importorskip("duckdb")
    invariant: Any = {
        "function": lambda table: value(table) < bad, "condition": f"n < {bad}",
        "expression": pc.field("n") < bad, "query": f"SELECT max(n) < {bad} FROM counts"}[form]
    bisection = dn.bisect(twenty, invariant)
    assert (bisection.first_bad, bisection.last_good, bisection.verdict) == (bad, bad - 1, "stopped")
    assert bisection.is_exact and bisection.candidates == (bad,)
    assert bisection.commit is not None and bisection.commit.version == bad
    assert bisection.commit.operation == "WRITE"
    assert bisection.reads == len(bisection.trials) <= math.ceil(math.log2(20)) + 2


def test_a_path_is_a_table_and_bounds_are_versions_or_times(twenty: dn.DeltaTable) -> None:
    bisection = dn.bisect(twenty.path, "n < 7", start=5, end=9)
    assert (bisection.start, bisection.end, bisection.first_bad) == (5, 9, 7)
    late = dn.bisect(twenty, "n < 7", start="1970-01-01", end="2999-01-01")
    assert (late.start, late.end, late.first_bad) == (0, 19, 7)
    assert dn.bisect(twenty.as_of(9), "n < 7").end == 9


def test_it_may_hold_everywhere_or_be_broken_from_the_start(twenty: dn.DeltaTable) -> None:
    always, never = dn.bisect(twenty, "n < 99"), dn.bisect(twenty, "n > 99")
    assert (always.verdict, always.first_bad, always.last_good, always.commit) == ("holds", None, 19, None)
    assert "2 of 20 were asked; method='linear' asks all" in always.notes
    assert (never.verdict, never.first_bad, never.last_good) == ("broken from the start", 0, None)
    assert never.commit is not None and never.commit.version == 0


def test_one_that_comes_and_goes_is_searched_in_order(tmp_path: Path) -> None:
    table = counted(tmp_path / "t", [1, 1, 0, 0, 1, 0, 1, 1])
    bisection = dn.bisect(table, "n = 1", method="linear")
    assert bisection.flips == ((2, False), (4, True), (5, False), (6, True))
    assert (bisection.first_bad, bisection.last_good, bisection.reads) == (2, 1, 8)
    assert dn.bisect(table, "n = 1").verdict == "holds", "halves see the ends alone"


def test_null_satisfies_no_condition_as_of_a_check_constraint(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"n": [1]})
    table.append({"n": [2]})
    table.append({"n": [None]})
    assert dn.bisect(table, "n > 0").first_bad == 2


def test_versions_before_a_column_cannot_tell(tmp_path: Path) -> None:
    table = counted(tmp_path / "t", list(range(6)))
    table.add_columns("tax long")
    for tax in range(6, 14):
        table.overwrite({"n": [tax], "tax": [tax]})
    bisection = dn.bisect(table, "tax IS NULL OR tax < 10")
    assert (bisection.first_bad, bisection.last_good) == (11, 10)
    assert bisection.skipped and all("tax" in trial.reason for trial in bisection.skipped)
    assert any(note.startswith("v0 cannot tell: ") for note in bisection.notes)


def test_a_statement_that_raises_leaves_a_range(twenty: dn.DeltaTable) -> None:
    def fragile(table: Any) -> bool:
        if 8 <= value(table) < 12:
            raise ZeroDivisionError("no ducks")
        return value(table) < 10

    bisection = dn.bisect(twenty, fragile)
    assert (bisection.verdict, bisection.last_good, bisection.first_bad) == ("in a range", 7, 12)
    assert bisection.candidates == (8, 9, 10, 11, 12) and not bisection.is_exact
    assert {trial.at for trial in bisection.skipped} == {8, 9, 10, 11}
    assert {trial.reason for trial in bisection.skipped} == {"ZeroDivisionError: no ducks"}


@pytest.mark.parametrize(("answers", "verdict", "first_bad", "last_good"), [
    ([True, True, None, False, None], "in a range", 3, 1),
    ([None, True, None, None, True, None, False, False], "in a range", 6, 4)])
@pytest.mark.parametrize("method", ["halves", "linear"])
def test_versions_that_cannot_tell_hide_none_that_can(
    twenty: dn.DeltaTable, answers: list[bool | None], verdict: str, first_bad: int, last_good: int,
    method: str,
) -> None:
    bisection = dn.bisect(twenty, lambda past: answers[value(past)], end=len(answers) - 1, method=method)
    assert (bisection.verdict, bisection.first_bad, bisection.last_good) == (verdict, first_bad, last_good)
    for note in bisection.notes:
        ends = [int(one[1:]) for one in note.split(" cannot tell")[0].split(" to ")]
        assert not any(answers[ends[0]:ends[-1] + 1]), note


def test_only_versions_that_were_asked_cannot_tell(twenty: dn.DeltaTable) -> None:
    bisection = dn.bisect(twenty, lambda past: None if value(past) < 12 else True)
    reason = "the invariant returned None, which is neither true nor false; return one of them"
    assert f"v0, v9 and v11 cannot tell: {reason}" in bisection.notes
    assert "6 of 20 were asked; method='linear' asks all" in bisection.notes


@pytest.mark.parametrize(("answer", "reason"), [
    (lambda table: None, "the invariant returned None, which is neither true nor false"),
    (lambda table: table, "the invariant returned a DeltaTable, which is neither"),
    (lambda table: table.to_arrow(), "the invariant returned a Table, which is neither"),
    (lambda table: table.to_pandas()["n"] > 0, "the invariant returned a Series, which is neither"),
    ("SELECT sum(n) > 0 FROM counts WHERE n < -99", "returned NULL, which is neither true nor false"),
    ("count(*) > 0", r"is a query: invariant='SELECT count(*) > 0 FROM counts'"),
    ("median(n) > 0", r"is a query: invariant='SELECT median(n) > 0 FROM counts'"),
    (lambda table: table.append({"n": [0]}), "append: this is the table counts as of version"),
    (lambda table: 1 / 0, "ZeroDivisionError: division by zero")])
def test_one_that_tells_nothing_anywhere_says_why(twenty: dn.DeltaTable, answer: Any, reason: str) -> None:
    bisection = dn.bisect(twenty, answer)
    assert (bisection.verdict, bisection.first_bad, bisection.last_good) == ("unknown", None, None)
    assert all(reason in trial.reason for trial in bisection.skipped) and twenty.version == 19


def test_sql_that_no_version_understands_is_refused(twenty: dn.DeltaTable) -> None:
    with pytest.raises(errors.InvalidPredicate, match="duck"):
        dn.bisect(twenty, "duck > 1")
    with pytest.raises(errors.InvalidPredicate):
        dn.bisect(twenty, "n >> > 1")
    with pytest.raises(errors.UnsupportedPredicate, match="cannot be evaluated without Spark"):
        dn.bisect(twenty, "soundex('sum(n)') > 'a'")
    pytest.importorskip("duckdb")
    with pytest.raises(errors.InvalidQuery):
        dn.bisect(twenty, "SELECT FROM WHERE")
    for method in ("halves", "linear"):
        with pytest.raises(errors.InvalidQuery, match="nosuch"):
            dn.bisect(twenty, "SELECT nosuch FROM counts", method=method)
        with pytest.raises(errors.InvalidQuery, match="1 row of 2 columns"):
            dn.bisect(twenty, "SELECT n, n FROM counts", method=method)
    assert dn.bisect(twenty, "SELECT CASE WHEN n > 5 THEN n < 9 END FROM counts").first_bad == 9
    twenty.vacuum(0, check=False)
    with pytest.raises(errors.InvalidPredicate, match="duck"):
        dn.bisect(twenty, "duck > n + 1")
    with pytest.raises(errors.InvalidQuery, match="nosuch"):
        dn.bisect(twenty, "SELECT max(nosuch) FROM counts")


@pytest.mark.parametrize("method", ["halves", "linear"])
def test_versions_that_cannot_tell_were_asked_all_the_same(twenty: dn.DeltaTable, method: str) -> None:
    bisection = dn.bisect(twenty, lambda past: None, method=method)
    assert (bisection.verdict, bisection.reads) == ("unknown", 20)
    assert not any("were asked" in note for note in bisection.notes)


def test_what_it_writes_is_noted_and_the_rest_is_answered(twenty: dn.DeltaTable) -> None:
    def writes(table: Any) -> bool:
        if value(table) == 0:
            twenty.append({"n": [0]})
        return value(table) < 7

    bisection = dn.bisect(twenty, writes)
    assert bisection.first_bad == 7
    assert bisection.notes == ("asked at v0, the invariant wrote v20 of counts (WRITE); it may only read",)


def test_others_may_write_meanwhile(twenty: dn.DeltaTable, tmp_path: Path) -> None:
    lines = Path(twenty.path, commit_name(19)).read_bytes()

    def interrupted(table: Any) -> bool:
        Path(twenty.path, commit_name(20)).write_bytes(lines)
        return value(table) < 7

    bisection = dn.bisect(twenty, interrupted)
    assert bisection.first_bad == 7 and bisection.end == 19
    (note,) = bisection.notes
    assert note.startswith("counts went on to v20 while it was asked: by other writers, or by the invariant")


def test_vacuumed_versions_are_left_out(twenty: dn.DeltaTable) -> None:
    twenty.vacuum(0, check=False)
    twenty.overwrite({"n": [99]})
    assert dn.bisect(twenty, "n < 50").notes == (), "statistics tell it of files that are gone"
    bisection = dn.bisect(twenty, lambda past: value(past) < 50)
    assert (bisection.first_bad, bisection.last_good, bisection.verdict) == (22, 21, "stopped")
    assert bisection.notes == ("v0 to v18 cannot tell: 19 of their files are gone (vacuumed)",)
    assert bisection.reads <= 10, "those that the log knows to be gone are not tried"


def test_a_log_that_was_cleaned_begins_where_it_can_be_read(twenty: dn.DeltaTable) -> None:
    twenty.log.checkpoint()
    for version in range(10):
        Path(twenty.path, commit_name(version)).unlink()
    twenty.overwrite({"n": [99]})
    bisection = dn.bisect(dn.open(twenty.path), "n < 50")
    assert (bisection.start, bisection.first_bad) == (19, 20)
    assert "the log was cleaned up: v19 is the first version that it still has" in bisection.notes


@pytest.mark.parametrize("method", ["halves", "linear"])
@pytest.mark.parametrize("why", ["cleaned", "vacuumed", "start", "raises"])
def test_what_was_broken_before_it_can_be_asked_names_no_commit(
    twenty: dn.DeltaTable, why: str, method: str
) -> None:
    """It broke at v3, and v15 or v19 is only the first that can be asked."""
    if why == "cleaned":
        twenty.log.checkpoint()
        for version in range(10):
            Path(twenty.path, commit_name(version)).unlink()
    elif why == "vacuumed":
        twenty.vacuum(0, check=False)
    table = dn.open(twenty.path)
    first = 19 if why in ("cleaned", "vacuumed") else 15

    def small(past: Any) -> bool:
        number = value(past)
        if number < first and why == "raises":
            raise ValueError("too small to tell")
        return number < 3

    bisection = dn.bisect(table, small, start=15 if why == "start" else None, method=method)
    assert (bisection.verdict, bisection.last_good) == ("broken at or before", None)
    assert bisection.first_bad == first == bisection.candidates[-1]
    assert bisection.commits == {} and bisection.meetings == {} and not bisection.is_exact
    assert not any("no longer in the log" in note for note in bisection.notes)
    text = str(bisection)
    assert f"✕ at or before v{bisection.first_bad}" in text and "it broke there or before" in text
    assert "Commit" not in text


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_commit_that_cannot_be_read_costs_the_versions_that_need_it(
    twenty: dn.DeltaTable, harm: str, tmp_path: Path
) -> None:
    """Of a table that cannot be opened, too, for no checkpoint is newer."""
    harmed = shutil.copytree(twenty.path, tmp_path / "harmed")
    Path(harmed, commit_name(12)).write_bytes(b"{")
    if harm == "missing":
        Path(harmed, commit_name(12)).unlink()
    with pytest.raises(errors.InvalidTable):
        dn.open(harmed)
    bisection = dn.bisect(harmed, "n < 7")
    assert (bisection.first_bad, bisection.last_good, bisection.tables) == (7, 6, ("harmed",))
    assert any(note.startswith(f"v12 to v19 cannot tell: the commit of v12 is {harm}")
               for note in bisection.notes)


@pytest.mark.parametrize(("arguments", "settings", "error", "words"), [
    ((["nothing"],), {}, errors.TableNotFound, "nothing"),
    (([],), {}, errors.InvalidArgument, "no table"), ((3,), {}, errors.InvalidArgument, "found int"),
    ((), {"method": "random"}, errors.InvalidArgument, "halves, linear"),
    ((), {"start": 30}, errors.VersionNotFound, "no version 30"),
    ((), {"start": 5, "end": 3}, errors.InvalidArgument, "after end"),
    ((), {"start": 1.5}, errors.InvalidArgument, "neither a version nor a time"),
    ((), {"start": True}, errors.InvalidArgument, "neither a version nor a time")])
def test_arguments_that_are_none(
    twenty: dn.DeltaTable, arguments: Any, settings: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        dn.bisect(*(arguments or (twenty,)), lambda table: True, **settings)
    with pytest.raises(errors.InvalidPredicate):
        dn.bisect(twenty, 7)  # type: ignore[arg-type]


def test_the_verdicts_are_those_that_are_described(twenty: dn.DeltaTable) -> None:
    assert Bisection.__dataclass_fields__.keys() >= {"first_bad", "last_good", "reads"}
    verdicts = {dn.bisect(twenty, one).verdict for one in ("n < 3", "n < 99", "n > 99")}
    verdicts.add(dn.bisect(twenty, "n < 3", start=9).verdict)
    assert verdicts <= VERDICTS.keys() and len(verdicts) == 4


# -- who raced there ---------------------------------------------------------------------------------------


def test_who_raced_at_the_first_bad_version(tmp_path: Path) -> None:
    """Two writers each saw one seat left; a tool that checks nothing has both."""
    table = dn.create(tmp_path / "seats", {"flight": [1], "taken": [0]})
    for seats in range(1, 9):
        table.update({"taken": "taken + 1"}, where=f"taken < {seats + 1}")
    first = json.loads(Path(table.path, commit_name(8)).read_text().splitlines()[0])["commitInfo"]
    table.append({"flight": [1], "taken": [1]})
    lines = Path(table.path, commit_name(9)).read_text().splitlines()
    info = {**first, "readVersion": 7, "operationParameters": first["operationParameters"], "txnId": "other"}
    Path(table.path, commit_name(9)).write_text("\n".join(
        json.dumps({"commitInfo": info}) if "commitInfo" in line else line for line in lines))
    Path(table.path, commit_name(9).replace(".json", ".crc")).unlink()
    bisection = dn.bisect(dn.open(table.path), lambda past: sum(past.to_arrow()["taken"].to_pylist()) <= 8)
    assert bisection.first_bad == 9
    (meeting,) = bisection.meetings["seats"]
    assert (meeting.winner.version, meeting.loser.version) == (8, 9)
    assert (meeting.outcome, meeting.rule) == ("would fail", "append")


def test_a_commit_that_does_not_say_what_it_read_is_named(tmp_path: Path) -> None:
    table = counted(tmp_path / "t", [0, 1, 2])
    lines = [json.loads(line) for line in Path(table.path, commit_name(1)).read_text().splitlines()]
    Path(table.path, commit_name(1)).write_text("\n".join(
        json.dumps(line) for line in lines if "commitInfo" not in line))
    bisection = dn.bisect(dn.open(table.path), "n < 1")
    assert bisection.first_bad == 1 and bisection.commit is not None and bisection.commit.operation is None
    assert any(note.startswith("v1: ") for note in bisection.notes) and not bisection.meetings


# -- several tables ----------------------------------------------------------------------------------------


def test_tables_without_a_catalog_are_seen_as_of_a_commits_time(tmp_path: Path) -> None:
    clock = iter(range(1_000_000_000_000, 2_000_000_000_000, 1_000))
    properties = {"delta.enableInCommitTimestamps": True}
    with set_options(clock=lambda: next(clock)):
        left = dn.create(tmp_path / "left", {"n": [0]}, properties=properties)
        right = dn.create(tmp_path / "right", {"n": [0]}, properties=properties)
        for n in range(1, 9):
            left.overwrite({"n": [n]})
            right.overwrite({"n": [n if n < 5 else 0]})

        def together(tables: Any) -> bool:
            assert set(tables) == {"left", "right"}
            return 0 <= value(tables["left"]) - value(tables["right"]) <= 1

        bisection = dn.bisect([left, right], together)
        assert bisection.first_bad.versions == {"left": 5, "right": 5}
        assert bisection.last_good.versions == {"left": 5, "right": 4}
        assert bisection.first_bad.time > bisection.last_good.time
        assert list(bisection.commits) == ["right"] and bisection.commit.version == 5
        assert bisection.notes == ("begins with the first instant at which all tables can be read",)
        named = dn.bisect({"a": left, "b": right}, lambda tables: value(tables["b"]) < 3, method="linear")
        assert named.first_bad.versions == {"a": 3, "b": 3}
        never = dn.bisect([left, right], lambda tables: False)
        assert never.verdict == "broken from the start" and never.commits
        late = dn.bisect([left, right], lambda tables: False, start=bisection.first_bad.time)
        assert late.verdict == "broken at or before" and not late.commits
        until = dn.bisect([left, right], together, end=bisection.last_good.time)
        assert until.verdict == "holds" and until.end == bisection.last_good


def test_two_of_one_name_need_names_of_their_own(tmp_path: Path) -> None:
    both = [dn.create(tmp_path / folder / "t", {"n": [1]}) for folder in ("a", "b")]
    with pytest.raises(errors.InvalidArgument, match="same name"):
        dn.bisect(both, lambda tables: True)
    with pytest.raises(errors.InvalidArgument, match="no version in common"):
        dn.bisect(dict(zip("ab", both, strict=True)), lambda tables: True, start=0)
    with pytest.raises(errors.InvalidArgument, match="rows of one table"):
        dn.bisect(dict(zip("ab", both, strict=True)), "n > 0")
