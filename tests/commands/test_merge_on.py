"""A merge by the names of columns, and an upsert: which rows match, what is refused, what is shown."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deltanb.commands.merge.merge import MergeBuilder
from deltanb.errors import ConstraintViolation, InvalidArgument, MultipleSourceRowsMatched, SchemaMismatch
from deltanb.table.table import DeltaTable
from tests.examples import first
from tests.helpers import refused, rows, table_of
from tests.notebook.looks import assert_consistent, assert_golden

ROWS = {"id": [1, 2, None], "day": [1, 1, 1], "v": ["a", "b", "c"]}


def by_hand(table: DeltaTable, source: Any, on: str) -> MergeBuilder:
    return table.merge(source, on).when_matched_update_all().when_not_matched_insert_all()


@pytest.mark.parametrize("on", ["id", " id ", "`id`", ["id"], ("ID",), pd.Index(["id"])], ids=str)
def test_a_column_by_its_name_in_any_form(on: Any) -> None:
    table = table_of(ROWS)
    source = {"id": [2, 9], "day": [7, 7], "v": ["B", "N"]}
    assert table.merge(source, on=on).keys in (("id",), ("ID",))
    assert table.upsert(source, on=on).metrics["numTargetRowsUpdated"] == 1
    assert [row["v"] for row in rows(table)] == ["a", "B", "N", "c"]


@pytest.mark.parametrize("convert", [pa.table, pl.DataFrame, pd.DataFrame, lambda d: pl.DataFrame(d).lazy(),
                                     table_of, lambda d: pa.table(d).to_batches()[0]])
def test_a_source_of_any_kind(convert: Callable[[Any], Any]) -> None:
    table = table_of({"id": [1, 2], "day": [1, 2], "v": ["a", "b"]})
    table.upsert(convert({"id": [2, 2], "day": [2, 3], "v": ["B", "N"]}), on=["id", "day"])
    assert [row["v"] for row in rows(table, "id", "day")] == ["a", "B", "N"]


KEYS = [pa.int64(), pa.string(), pa.date32(), pa.float64(), pa.bool_()]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1, 2, 3], pa.string(): ["a", "A", ""], pa.float64(): [0.5, math.nan, 7.0],
    pa.date32(): [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)], pa.bool_(): [True, False]}


@pytest.mark.parametrize("seed", first(8, of=60))
def test_an_upsert_is_the_merge_written_by_hand(seed: int) -> None:
    chance = random.Random(seed)
    this, that = chance.sample(KEYS, 2)

    def data(number: int, keys_repeat: bool) -> pa.Table:
        pairs = [(a, b) for a in [*VALUES[this], None] for b in [*VALUES[that], None]]
        chosen = chance.choices(pairs, k=number) if keys_repeat else chance.sample(pairs, number)
        return pa.table({"a b": pa.array([a for a, _ in chosen], this),
                         "order": pa.array([b for _, b in chosen], that),
                         "v": [chance.randrange(100) for _ in chosen]})

    whole, source = data(8, True), data(6, False)
    properties = {"delta.columnMapping.mode": "name",
                  "delta.enableDeletionVectors": chance.choice(["true", "false"])}
    tables = [table_of(whole, properties=properties) for _ in range(3)]
    sql = "target.`a b` = source.`a b` AND target.`order` = source.`order`"
    made = [by_hand(tables[0], source, sql).execute(),
            by_hand(tables[1], source, ["a b", "order"]).execute(),  # type: ignore[arg-type]
            tables[2].upsert(source, on=["a b", "order"])]
    one, *others = [str(rows(table, "a b", "order", "v")) for table in tables]  # text, as NaN is not itself
    assert others == [one, one]
    counted = [{name: n for name, n in one.metrics.items() if "Rows" in name} for one in made]
    assert counted[0] == counted[1] == counted[2]


def test_null_in_a_key_matches_nothing_and_is_inserted() -> None:
    table = table_of(ROWS)
    result = table.upsert({"id": [None, None, 1], "day": [1, 1, 1], "v": ["x", "y", "z"]}, on="id")
    assert (result.metrics["numTargetRowsInserted"], result.metrics["numTargetRowsUpdated"]) == (2, 1)
    assert sorted(row["v"] for row in rows(table)) == ["b", "c", "x", "y", "z"]


@pytest.mark.parametrize(("on", "what"), [
    ("idd", r"on: the table .* has no column 'idd'; did you mean id\?"),
    (["id", "dya"], r"on: the table .* has no column 'dya'; did you mean day\?"),
    (["id", "v"], r"on: the source has no column 'v'; the columns are id, day, w"),
    ([], "columns that both sides have"), (3, "columns that both sides have"),
    ([""], "columns that both sides have"), (["id", 3], "columns that both sides have"),
    ({"id": "id"}, "columns that both sides have"), (None, "columns that both sides have"),
])
def test_a_key_that_a_side_lacks_is_refused_by_name(on: Any, what: str) -> None:
    table, source = table_of(ROWS), {"id": [1], "day": [1], "w": ["x"]}
    for work in (lambda: table.merge(source, on=on).when_matched_delete().execute(),
                 lambda: table.upsert(source, on=on)):
        refused(table, InvalidArgument, work, what)


@pytest.mark.parametrize("on", ["target.id = source.id", "id <=> id", "true"])
def test_an_upsert_by_a_condition_names_the_way_out(on: str) -> None:
    table, way = table_of(ROWS), r'is a condition; .* on="id" .*merge\('
    refused(table, InvalidArgument, lambda: table.upsert(ROWS, on=on), way)


@pytest.mark.parametrize("repeated", [1, 9])
def test_a_key_that_repeats_is_refused_whether_the_table_has_it_or_not(repeated: int) -> None:
    table = table_of({"id": [1, 2], "v": ["a", "b"]})
    source = {"ID": [5, repeated, repeated], "v": ["x", "y", "z"]}
    error = refused(table, MultipleSourceRowsMatched, lambda: table.upsert(source, on="id"),
                    f"the source has 2 rows with ID={repeated}, ")
    assert error.kind == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    merge = by_hand(table, source, "id")
    if repeated == 1:
        refused(table, MultipleSourceRowsMatched, merge.execute, "several rows of the source match one row")
    else:
        merge.execute()  # as MERGE does: neither of the two matches a row
        assert table.count() == 5


@pytest.mark.parametrize("value", [math.nan, "é", date(2026, 1, 1), True, b"x", 1.5])
def test_keys_of_any_type_repeat(value: Any) -> None:
    table = table_of({"id": pa.array([], pa.array([value]).type), "v": pa.array([], pa.int64())})
    refused(table, MultipleSourceRowsMatched, lambda: table.upsert({"id": [value, value], "v": [1, 2]}, "id"))
    table.upsert({"id": [value, None, None], "v": [1, 2, 3]}, "id")
    assert table.count() == 3


def test_new_columns_come_in_by_merge_schema_alone() -> None:
    source = {"id": [2, 9], "hat": ["red", "blue"]}
    table = table_of({"id": [1, 2], "v": ["a", "b"]})
    refused(table, SchemaMismatch, lambda: table.upsert(source, on="id"), "merge_schema=True of an upsert")
    table.upsert(source, on="id", merge_schema=True)
    assert rows(table) == [{"id": 1, "v": "a", "hat": None}, {"id": 2, "v": "b", "hat": "red"},
                           {"id": 9, "v": None, "hat": "blue"}]
    other = table_of({"id": [1, 2], "v": ["a", "b"]})
    merge = other.merge(source, "id", merge_schema=True).when_not_matched_insert_all()
    assert merge == other.merge(source, "id").with_schema_evolution().when_not_matched_insert_all()
    merge.execute()
    assert rows(other)[2] == {"id": 9, "v": None, "hat": "blue"}


def test_an_upsert_is_one_statement_with_its_settings() -> None:
    table = table_of({"id": [1], "v": [1]}, properties={"delta.constraints.small": "v < 9"})
    refused(table, ConstraintViolation, lambda: table.upsert({"id": [1], "v": [10]}, "id"))
    assert table.upsert({"id": [1], "v": [2]}, "id", txn=("loader", 3), user_metadata="mine").version == 1
    entry = table.history()[0]
    assert (entry.operation, entry.user_metadata) == ("MERGE", "mine")
    assert table.upsert({"id": [1], "v": [3]}, "id", txn=("loader", 3)).version is None
    with table.transaction() as txn:
        txn.upsert({"id": [1, 2], "v": [4, 4]}, "id")
        txn.upsert({"id": [2, 3], "v": [5, 5]}, "id")
    assert [row["v"] for row in rows(table)] == [4, 5, 5] and table.version == 2


# -- what is shown -----------------------------------------------------------------------------------------


def described(table: DeltaTable) -> MergeBuilder:
    return (table.merge(pa.table({"id": [1], "v": ["x"]}), on="id")
            .when_matched_update("target.v < source.v", set={"v": "upper(source.v)", "day": 7})
            .when_matched_delete().when_not_matched_insert_all(except_cols=["day"]).with_schema_evolution())


def test_a_merge_that_was_not_executed_says_so(update_golden: bool) -> None:
    table = table_of(ROWS, name="ducks")
    bare, merge = table.merge(ROWS, on="id"), described(table)
    for one in (bare, merge):
        forms = one._repr_mimebundle_()
        for form in (repr(one), forms["text/plain"], forms["text/html"]):
            assert "not executed: call .execute()" in form
        assert_consistent(one)
    assert "no clause yet: add when_matched_…()" in str(bare)
    assert_golden(merge, "merge", update_golden)
    assert merge.execute().version == 1
    assert repr(merge) == "<MergeBuilder MERGE ducks, ✓ executed, committed v1>"
    assert "not executed" in repr(merge.with_schema_evolution()), "another merge than the one that ran"
    bare = table.merge({"id": [99], "day": [1], "v": ["x"]}, on="id").when_matched_delete()
    bare.execute()
    assert repr(bare) == "<MergeBuilder MERGE ducks, executed, nothing committed>"
