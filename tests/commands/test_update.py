"""UPDATE: rows of the condition have their new values, all others are as they were."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.actions import AddCDCFile, AddFile, RemoveFile
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    ConstraintViolation,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    SchemaMismatch,
    TableNotFound,
    UnsupportedPredicate,
)
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, add
from deltanb.transaction.delta_log import DeltaLog
from tests.commands.racing import side_by_side
from tests.helpers import files_of, last_commit, refused, six_rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
NAN = float("nan")


def column(table: DeltaTable, name: str) -> dict[int, Any]:
    values = table.to_arrow(columns=["id", name])
    return dict(sorted(zip(values["id"].to_pylist(), values[name].to_pylist(), strict=True)))


# --- values ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, VECTORS, FEED, {**VECTORS, **FEED}])
def test_rows_of_the_condition_change(properties: dict[str, str]) -> None:
    table = six_rows(properties=properties)
    done = table.update({"x": "id * 10"}, "x > 4")  # NaN is greater than every number
    assert (done.version, done.engine, done.metrics["numUpdatedRows"]) == (1, "arrow", 3)
    assert column(table, "x") == {1: 1.0, 2: None, 3: 3.0, 4: 40.0, 5: 50.0, 6: 60.0}
    assert column(table, "p") == {n: "ab"[(n + 1) % 2] for n in range(1, 7)}


def test_without_a_condition_every_row_changes() -> None:
    table = six_rows()
    table.update({"x": "NULL"})
    assert set(column(table, "x").values()) == {None}
    assert table.history(1)[0].operation_parameters == {"predicate": "[]"}


def test_assignments_see_the_row_as_it_was() -> None:
    table = create(MemoryStore(), {"id": [1], "a": [10], "b": [20]})
    table.update({"a": "b", "B": "a"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "a": 20, "b": 10}]


def test_a_row_whose_condition_is_null_stays() -> None:
    table = six_rows()
    table.update({"x": "0"}, "NOT x > 2")
    assert column(table, "x")[2] is None and column(table, "x")[1] == 0


def test_rows_keep_their_order_in_the_file() -> None:
    table = create(MemoryStore(), {"id": list(range(200)), "v": ["x"] * 200})
    table.update({"v": "'y'"}, "id % 3 = 0")
    columns = table.to_arrow().to_pydict()
    assert columns["id"] == list(range(200))
    assert columns["v"] == ["y" if n % 3 == 0 else "x" for n in range(200)]


def test_fields_inside_structs() -> None:
    rows = [{"id": 1, "s": {"a": 1, "t": {"b": "x", "c": [1]}}}, {"id": 2, "s": None}]
    table = create(MemoryStore(), rows)
    table.update({"s.t.B": "concat('<', s.t.b, '>')", "S.a": "id"})
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "s": {"a": 1, "t": {"b": "<x>", "c": [1]}}},
        {"id": 2, "s": {"a": 2, "t": {"b": None, "c": None}}}]
    table.update({"s": "NULL"}, "id = 1")
    assert column(table, "s")[1] is None


def test_names_with_dots_and_spaces() -> None:
    table = create(MemoryStore(), {"a.b": [1], "c d": [1], "s": [{"x.y": 1}]},
                   properties={"delta.columnMapping.mode": "name"})
    table.update({"a.b": "2", "`c d`": "3", "s.`x.y`": "4"})
    assert table.to_arrow().to_pylist() == [{"a.b": 2, "c d": 3, "s": {"x.y": 4}}]


def test_types_of_every_kind() -> None:
    noon = datetime(2024, 5, 6, 12, tzinfo=timezone.utc)
    table = create(MemoryStore(), {
        "id": [1, 2], "d": [Decimal("1.25"), Decimal("2.50")], "day": [date(2024, 1, 1)] * 2,
        "at": [noon, noon], "raw": [b"1", b"2"], "many": [[1], [2]], "ok": [True, None]})
    table.update({"d": "d * 1.1", "day": "at", "at": "'2024-02-03 04:05:06'", "raw": "NULL",
                  "ok": "id > 1"}, "id = 1")
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "d": Decimal("1.38"), "day": date(2024, 5, 6), "raw": None, "many": [1],
         "at": datetime(2024, 2, 3, 4, 5, 6, tzinfo=timezone.utc), "ok": False},
        {"id": 2, "d": Decimal("2.50"), "day": date(2024, 1, 1), "at": noon, "raw": b"2",
         "many": [2], "ok": None}]


def test_setting_the_partition_column_moves_rows() -> None:
    for properties in ({}, VECTORS):
        table = six_rows(properties=properties)
        table.update({"p": "'c'"}, "id IN (1, 2)")
        assert column(table, "p") == {1: "c", 2: "c", 3: "a", 4: "b", 5: "a", 6: "b"}
        assert sorted(a.partition_values["p"] for a in last_commit(table, AddFile)) == [
            "a", "b", "c"]
        assert sorted(table.to_arrow(where="p = 'c'")["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(mode: str, tmp_path: Path) -> None:
    table = create(tmp_path / "t", [{"id": 1, "p": "a", "s": {"x": 1}}, {"id": 2, "p": "b", "s": None}],
                   partition_by="p", properties={"delta.columnMapping.mode": mode, **VECTORS, **FEED})
    table.update({"s.x": "id + 10"}, "p = 'a' AND s.x = 1")
    table.delete("id = 2 AND s IS NULL")
    assert table.to_arrow().to_pylist() == [{"id": 1, "p": "a", "s": {"x": 11}}]


def test_vectors_on_files_that_were_updated(tmp_path: Path) -> None:
    table = six_rows(tmp_path / "t", VECTORS)
    table.update({"x": "100"}, "id = 1")
    table.update({"x": "x + 1"}, "p = 'a' AND x > 2")
    table.delete("x = 101")
    expected = {2: None, 3: 4.0, 5: 6.0, 6: 6.0}
    values = column(table, "x")
    values.pop(4)
    assert values == expected
    peer = deltalake.QueryBuilder().register(
        "t", deltalake.DeltaTable(str(tmp_path / "t"))).execute("select id, x from t").read_all()
    rows = dict(zip(peer["id"].to_pylist(), peer["x"].to_pylist(), strict=True))
    rows.pop(4)
    assert dict(sorted(rows.items())) == expected


# --- what is recorded -----------------------------------------------------------------------------

def test_history_says_what_was_done() -> None:
    table = six_rows()
    table.update({"x": "0"}, "id = 3", user_metadata="correction")
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters, entry.user_metadata) == (
        "UPDATE", {"predicate": '["id = 3"]'}, "correction")
    (added,), (removed,) = last_commit(table, AddFile), last_commit(table, RemoveFile)
    metrics = {k: v for k, v in entry.operation_metrics.items() if not k.endswith("Ms")}
    assert metrics == {
        "numAddedFiles": "1", "numRemovedFiles": "1", "numAddedBytes": str(added.size),
        "numRemovedBytes": str(removed.size), "numDeletionVectorsAdded": "0",
        "numDeletionVectorsRemoved": "0", "numDeletionVectorsUpdated": "0",
        "numAddedChangeFiles": "0", "numCopiedRows": "2", "numUpdatedRows": "1"}


def test_with_vectors_only_changed_rows_are_written() -> None:
    table = six_rows(properties=VECTORS)
    done = table.update({"x": "0"}, "id IN (1, 2, 4, 6)")
    assert {k: v for k, v in done.metrics.items() if v and not k.endswith(("Ms", "Bytes"))} == {
        "numAddedFiles": 2, "numRemovedFiles": 1, "numDeletionVectorsAdded": 1,
        "numUpdatedRows": 4}
    new = [f for f in last_commit(table, AddFile) if f.deletion_vector is None]
    assert sorted(f.num_records for f in new) == [1, 3]
    (marked,) = [f for f in last_commit(table, AddFile) if f.deletion_vector is not None]
    assert json.loads(marked.stats)["tightBounds"] is False


@pytest.mark.parametrize("properties", [FEED, {**FEED, **VECTORS}])
def test_the_feed_has_both_images(properties: dict[str, str]) -> None:
    table = six_rows(properties=properties)
    table.update({"x": "x + 1", "p": "'c'"}, "id IN (1, 3)")
    feed = []
    for file in last_commit(table, AddCDCFile):
        with table.log.store.open_input(file.path) as source:
            rows = pq.read_table(source).to_pylist()
        feed += [(row["id"], file.partition_values["p"], row["x"], row["_change_type"])
                  for row in rows]
    assert sorted(feed) == [
        (1, "a", 1.0, "update_preimage"), (1, "c", 2.0, "update_postimage"),
        (3, "a", 3.0, "update_preimage"), (3, "c", 4.0, "update_postimage")]
    assert column(table, "x")[5] == 5.0


def test_changed_rows_keep_their_ids_and_the_commit_says_so() -> None:
    for properties in ({}, VECTORS):
        table = six_rows(properties={"delta.enableRowTracking": "true", **properties})
        table.update({"x": "0"}, "id = 1")
        assert table.history(1)[0].tags == {"delta.rowTracking.preserved": "true"}


def test_no_matching_row_is_no_commit() -> None:
    table = six_rows()
    before = files_of(table)
    for where in ("id = 99", "p = 'z'", "NULL"):
        assert table.update({"x": "0"}, where).version is None
    assert (table.version, files_of(table)) == (0, before)


# --- refusals -------------------------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, VECTORS, {**FEED, **VECTORS}])
def test_what_is_refused_leaves_no_trace(properties: dict[str, str]) -> None:
    table = six_rows(properties={**properties, "delta.constraints.c": "x IS NULL OR x <> 200"})
    error = refused(table, InvalidPredicate, lambda: table.update({"idd": "1"}))
    assert error.suggestions == ("id",)
    refused(table, InvalidPredicate, lambda: table.update({"x": "idd"}))
    refused(table, InvalidPredicate, lambda: table.update({"x": "0"}, "idd = 1"))
    refused(table, InvalidPredicate, lambda: table.update({"id": "p"}))
    refused(table, InvalidPredicate, lambda: table.update({"id": [1]}))
    refused(table, InvalidPredicate, lambda: table.update({"id.x": "1"}))
    refused(table, InvalidArgument, lambda: table.update({}))
    refused(table, InvalidArgument, lambda: table.update({"id": "1", "ID": "2"}))
    refused(table, InvalidArgument, lambda: table.update({"id": "1"}, engine="sparks"))
    refused(table, UnsupportedPredicate, lambda: table.update({"x": "1 / x"}, engine="arrow"))
    error = refused(table, ConstraintViolation, lambda: table.update({"x": "200"}, "id = 3"))
    assert error.row["id"] == 3
    error = refused(table, SchemaMismatch,
                    lambda: table.update({"id": "id + 9223372036854775807"}, "id = 5"))
    assert error.column == "id"


def test_a_struct_and_a_field_of_it_are_not_both_assigned() -> None:
    table = create(MemoryStore(), [{"s": {"a": 1}}])
    for names in (("s", "s.a"), ("s.a", "s")):
        refused(table, InvalidArgument, lambda names=names: table.update(dict.fromkeys(names, "NULL")))


def test_not_null_holds() -> None:
    schema = StructType([StructField("id", PrimitiveType("long"), nullable=False)])
    table = create(MemoryStore(), schema)
    table.append({"id": [1, 2]})
    error = refused(table, ConstraintViolation, lambda: table.update({"id": "NULL"}, "id = 2"))
    assert error.column == "id"


def test_a_table_that_only_grows_keeps_its_rows() -> None:
    table = six_rows(properties={"delta.appendOnly": "true"})
    refused(table, AppendOnlyTable, lambda: table.update({"x": "0"}))


def test_there_must_be_a_table(tmp_path: Path) -> None:
    from deltanb.commands.rows.update import update

    with pytest.raises(TableNotFound):
        update(DeltaLog.for_table(tmp_path / "none"), {"x": "1"})


# --- other writers --------------------------------------------------------------------------------

@pytest.mark.parametrize("properties", [{}, VECTORS])
@pytest.mark.parametrize("where, partition, error", [
    ("p = 'a'", "b", None),
    ("p = 'a' AND id = 1", "b", None),
    ("p = 'a'", "a", ConcurrentAppendException),
    ("id = 1", "b", ConcurrentAppendException),
    (None, "b", ConcurrentAppendException),
])
def test_against_an_append_that_won(
    where: str | None, partition: str, error: type[DeltaError] | None, properties: dict[str, str]
) -> None:
    store = ScriptedStore()
    table = six_rows(store, properties)
    store.script.append(Lose((add(f"p={partition}/new", {"p": partition}),)))
    before = files_of(table)
    if error is None:
        assert table.update({"x": "0"}, where).version == 2
        return
    with pytest.raises(error):
        table.update({"x": "0"}, where)
    assert files_of(table) == before


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_two_updates_in_different_partitions_both_commit(properties: dict[str, str]) -> None:
    store = ScriptedStore()
    table = six_rows(store, properties)
    done = side_by_side(store, lambda: table.update({"x": "-1"}, "p = 'a' AND id = 1"),
                        lambda: table.update({"x": "-2"}, "p = 'b' AND id = 2"))
    assert sorted(result.version for result in done) == [1, 2]
    assert [column(table, "x")[n] for n in (1, 2, 3)] == [-1, -2, 3]


DECIMALS = {  # as Spark writes them in ANSI mode: every digit of the scale, no exponent
    (38, 0): {"99999999999999999999999999999999999999": None, "-1": None, "0": None},
    (38, 38): {"0.00000000000000000000000000000000000001": None, "-0.5": "-0.5" + "0" * 37,
               "0": "0." + "0" * 38},
    (20, 8): {"1E-8": "0.00000001", "-0.0000001": "-0.00000010", "0": "0.00000000", "1.5": "1.50000000"},
    (10, 6): {"0.000001": None, "0": "0.000000", "12.5": "12.500000"},
    (10, 2): {"0": "0.00", "-0.01": None},
}


@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
def test_decimals_become_the_texts_that_they_are_in_spark(precision: int, scale: int) -> None:
    texts = [text or plain for plain, text in DECIMALS[precision, scale].items()]
    values = pa.array(map(Decimal, DECIMALS[precision, scale])).cast(pa.decimal128(precision, scale))
    table = create(MemoryStore(), pa.table({"d": values, "s": [""] * len(texts)}))
    table.update({"s": "CAST(d AS STRING)"}, engine="arrow")
    assert table.to_arrow()["s"].to_pylist() == texts
    assert [table.to_arrow(where=f"concat(d, '') = '{text}'")["s"].to_pylist() for text in texts] == [
        [text] for text in texts]
    table.append(pa.table({"d": values, "s": values}))
    assert table.to_arrow()["s"].to_pylist() == texts * 2


@pytest.mark.spark
@pytest.mark.slow
def test_spark_writes_those_texts(spark: Any) -> None:
    for (precision, scale), texts in DECIMALS.items():
        for plain, text in texts.items():
            row = spark.sql(f"SELECT CAST(CAST('{plain}' AS DECIMAL({precision},{scale})) AS STRING)").first()
            assert row[0] == (text or plain)
