"""Why a scan opens the files that it opens: each step, each condition; and its choice is that of a scan."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow.compute as pc
import pytest
from hypothesis import given

import deltanb as dn
from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.log.skipping.explain import MAX_EXAMPLES, ScanExplanation, explain
from deltanb.log.snapshot import Snapshot
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests import random_predicates
from tests.log.test_generated_pruning import days, snapshot_of
from tests.log.test_skipping import stats_of


def flights() -> Snapshot:
    """Six files in three months; the carrier of the last has no statistics."""
    kinds = {"delay": PrimitiveType("integer"), "speed": PrimitiveType("double"),
             "carrier": PrimitiveType("string"), "tags": ArrayType(PrimitiveType("string")),
             "month": PrimitiveType("integer")}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    builder = TableBuilder(MemoryStore("memory:///lake/flights")).create(
        schema.to_dict(), partition_by=["month"])
    for at in range(6):
        stats = {"numRecords": 10, "minValues": {"delay": at * 10, "speed": 1.5, "carrier": "AA"},
                 "maxValues": {"delay": at * 10 + 9, "speed": 9.5, "carrier": "UA"},
                 "nullCount": {"delay": 0, "speed": 0, "carrier": 0}}
        if at == 5:
            stats = {"numRecords": 10, "nullCount": {"delay": 10}}
        builder.commit(add(f"part-{at}", {"month": str(at // 2 + 1)}, size=100 + at, stats=json.dumps(stats)))
    return builder.log.update()


def by_condition(plan: ScanExplanation) -> dict[str, tuple[str | None, int, str]]:
    return {one.sql: (one.by, one.spared, one.reason) for one in plan.conditions}


def test_each_condition_is_told_with_what_it_spares() -> None:
    plan = explain(flights(), "month < 3 AND delay >= 30")
    assert (plan.table, plan.version, plan.num_files, plan.opened) == ("flights", 6, 6, 1)
    assert [(step.by, step.files, step.size) for step in plan.steps] == [
        ("partition values", 4, 406), ("generated columns", 4, 406), ("statistics", 1, 103)]
    assert by_condition(plan) == {"month < 3": ("partition values", 2, ""),
                                  "delay >= 30": ("statistics", 3, "")}
    assert (plan.spared, plan.spared_bytes, plan.opened_bytes) == (5, 512, 103)
    assert [(f.path, f.because) for f in plan.spared_files] == [
        ("part-4", "month is 3"), ("part-5", "month is 3"), ("part-0", "delay is 0 to 9"),
        ("part-1", "delay is 10 to 19"), ("part-2", "delay is 20 to 29")]
    assert plan.opened_files == (("part-3", 103),)


def test_without_a_condition_every_file_is_opened() -> None:
    plan = explain(flights())
    assert (plan.opened, plan.spared, plan.conditions, plan.spared_files) == (6, 0, (), ())


@pytest.mark.parametrize("where, by, reason", [
    ("speed > 5", None, "speed may be NaN, above any bound: add speed < …"),
    ("upper(carrier) = 'AA'", None, "bounds are of columns, not of what functions make of them"),
    ("carrier LIKE '%A'", None, "bounds are of columns, not of what functions make of them"),
    ("tags IS NULL", None, "no bounds are kept of tags, array<string>"),
    ("tags[0] = 'a'", None, "it may be an error for some rows, which files cannot say"),
    ("month > 0", "partition values", "every file that was left may hold such rows"),
    ("soundexx(carrier) = 'A'", None, "only Spark understands it"),
])
def test_a_condition_that_spares_nothing_says_why(where: str, by: str | None, reason: str) -> None:
    plan = explain(flights(), where)
    found_by, spared, why = by_condition(plan)[where]
    assert (found_by, why) == (by, reason)
    assert (spared, plan.opened) == (0, 6)


def test_statistics_that_are_missing_are_told() -> None:
    plan = explain(flights(), "carrier = 'ZZ'")
    assert by_condition(plan) == {"carrier = "
                                         "'ZZ'": ("statistics", 5, "1 of the files left has no statistics "
                                                     "of carrier")}
    assert [name for name, _ in plan.opened_files] == ["part-5"]


def test_counts_of_null_are_told() -> None:
    plan = explain(flights(), "delay = 3")
    assert ("part-5", "delay is NULL in every row") in [(f.path, f.because) for f in explain(
        flights(), "delay >= 0 AND month = 3").spared_files]
    assert plan.opened == 1
    plan = explain(flights(), "delay IS NULL AND month = 3")
    assert [(f.path, f.because) for f in plan.spared_files][-1] == ("part-4", "delay is never NULL")


def test_a_partition_column_in_a_condition_on_others_is_told_with_them() -> None:
    plan = explain(flights(), "month = 1 OR delay = 40")
    assert ("part-2", "month is 2, delay is 20 to "
                      "29") in [(f.path, f.because) for f in plan.spared_files]
    assert [step.files for step in plan.steps] == [6, 6, 3]


def test_files_of_a_condition_are_named_up_to_a_number() -> None:
    plan = explain(flights(), "month = 7")
    assert (plan.opened, len(plan.spared_files)) == (0, MAX_EXAMPLES)


def test_what_generated_columns_imply_is_a_step_of_its_own() -> None:
    snapshot = snapshot_of({"g": ("date", "CAST(ntz AS DATE)")},
                           days("2024-05-01", "2024-05-02", "2024-05-03"))
    plan = explain(snapshot, "ntz >= '2024-05-02 23:00:00' AND n = 1")
    assert [step.files for step in plan.steps] == [3, 2, 2]
    first, second = plan.conditions
    assert (first.by, first.spared) == ("generated columns", 1)
    assert first.implies == "(`g` >= DATE'2024-05-02' OR `g` IS NULL)"
    assert (second.by, second.spared, second.reason) == ("statistics", 0, "no file has statistics of n")
    (file,) = plan.spared_files
    assert (file.by, file.condition, file.because) == (
        "generated columns", first.implies, "g is 2024-05-01")


def test_bounds_that_were_cut_are_told_as_such() -> None:
    day = dt.datetime(2024, 5, 1, 10, tzinfo=dt.timezone.utc)
    builder = TableBuilder().create("s string, ts timestamp")
    builder.commit(add("a", stats=json.dumps(stats_of([{"s": "x" * 40, "ts": day}]))))
    snapshot = builder.log.update()
    (file,) = explain(snapshot, "s < 'a'").spared_files
    assert file.because == f"s is '{'x' * 32}' to '{'x' * 32}…'"
    (file,) = explain(snapshot, "ts < '2020-01-01'").spared_files
    assert file.because == "ts is 2024-05-01 10:00:00 in every row"


def test_files_that_newer_commits_hide_are_not_counted() -> None:
    builder = TableBuilder().create("n integer")
    for at in range(4):
        stats = {"numRecords": 1, "minValues": {"n": at}, "maxValues": {"n": at}, "nullCount": {"n": 0}}
        builder.commit(add(f"f{at}", stats=json.dumps(stats)))
    builder.log.checkpoint()
    builder.commit(remove("f0"), remove("f3"))
    snapshot = dn.DeltaLog.for_table(builder.store).update()
    plan = explain(snapshot, "n < 2")
    assert (plan.num_files, plan.opened, plan.spared, plan.spared_by("statistics")) == (2, 1, 1, 1)
    assert [f.path for f in plan.spared_files] == ["f2"]


def test_a_table_explains_its_newest_version_and_the_one_it_stands_at() -> None:
    table = dn.create(MemoryStore(), {"n": [1]})
    table.append({"n": [5]})
    assert (table.explain("n > 2").opened, table.as_of(0).explain("n > 2").opened) == (1, 0)
    plan = table.explain(pc.field("n") > 2)
    assert (plan.where, plan.spared) == ("n > 2", 1)


def test_a_condition_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidPredicate, match="did you mean delay"):
        explain(flights(), "dela > 5")


@pytest.fixture(scope="module")
def varied() -> Snapshot:
    """Rows of every type in files of six, each with the statistics that a writer gives it."""
    table = dn.create(MemoryStore(), random_predicates.ROWS.slice(0, 0))
    for start in range(0, random_predicates.ROWS.num_rows, 6):
        table.append(random_predicates.ROWS.slice(start, 6))
    return table.snapshot


def test_a_condition_that_is_repeated_skips_its_files_once() -> None:
    plan = explain(flights(), "month = 3 AND delay > 5 AND month = 3")
    assert [one.sql for one in plan.conditions] == ["month = 3", "delay > 5"]
    assert sum(one.spared for one in plan.conditions) == plan.spared


@pytest.mark.slow
@given(condition=random_predicates.conditions())
def test_the_choice_is_that_of_a_scan(varied: Snapshot, condition: random_predicates.Sql) -> None:
    try:
        files = varied.files_for_scan(condition.ours)
        plan = explain(varied, condition.ours)
    except (InvalidPredicate, UnsupportedPredicate):
        return
    assert (plan.opened, plan.opened_bytes) == (files.num_rows, sum(files["size"].to_pylist()))
    assert sum(one.spared for one in plan.conditions) == plan.spared
    assert all(file.because for file in plan.spared_files)
