"""Identity columns: every row gets a number of its own, whoever writes beside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.actions import Metadata
from deltanb.engines.arrow.write import write_files
from deltanb.errors import (
    ConcurrentAppendException,
    InvalidArgument,
    InvalidSchema,
    InvalidTable,
    MetadataChangedException,
    SchemaMismatch,
)
from deltanb.schema.columns import MARK, Identity, generated_as, identity
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, TableBuilder, add
from tests.examples import few
from tests.helpers import ids

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


def numbering(store: Any = None, properties: Any = None, **settings: Any) -> DeltaTable:
    schema = StructType([StructField("id", LONG, metadata=identity(**settings)),
                         StructField("p", TEXT)])
    return dn.create(MemoryStore() if store is None else store, schema, properties=properties or {})


def mark(table: DeltaTable) -> int | None:
    return table.schema.field("id").metadata.get(MARK)


# --- values ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("settings, first, then", [
    ({}, [1, 2], [3]), ({"start": 10, "step": 5}, [10, 15], [20]),
    ({"start": 0, "step": -3}, [-3, 0], [-6]),
])
def test_rows_are_numbered_on_from_the_mark(settings: Any, first: list[int], then: list[int]) -> None:
    table = numbering(**settings)
    assert mark(table) is None
    table.append({"p": ["a", "b"]})
    assert ids(table) == first
    table.append({"p": ["c"]})
    assert ids(table) == sorted(first + then)
    assert mark(table) == then[-1]


def test_the_mark_moves_in_the_same_commit_and_is_tagged() -> None:
    table = numbering()
    table.append({"p": ["a"]})
    commit = table.log.read_commit(1)
    assert [a.schema.field("id").metadata[MARK] for a in commit if isinstance(a, Metadata)] == [1]
    assert table.history()[0].tags == {"delta.identity.schemaUpdate": "true"}
    table.append({"p": ["b"], "new": [1]}, merge_schema=True)
    assert mark(table) == 2
    assert table.history()[0].tags is None  # more than the mark changed


def test_a_write_without_rows_moves_no_mark() -> None:
    table = numbering()
    table.append({"p": pa.array([], pa.string())})
    assert mark(table) is None


def test_many_batches_and_files_share_the_count() -> None:
    table = numbering()
    batches = [pa.record_batch({"p": ["x"] * n}) for n in (3, 70_000, 1)]
    table.append(pa.Table.from_batches(batches))
    assert ids(table) == list(range(1, 70_005))
    txn = table.start_transaction()
    files = [file for part in ("a", "b") for file in txn.write_files({"p": [part]})]
    txn.commit(files, "WRITE")
    assert ids(table)[-2:] == [70_005, 70_006]
    assert mark(table) == 70_006


def test_overwriting_goes_on_counting() -> None:
    table = numbering()
    table.append({"p": ["a", "b"]})
    table.overwrite({"p": ["c"]})
    assert ids(table) == [3]
    table.overwrite({"p": ["d"]}, where="p = 'd'")
    assert (ids(table), mark(table)) == ([3, 4], 4)


def test_rows_that_stay_keep_their_numbers() -> None:
    table = numbering()
    table.append({"p": ["a", "b", "c"]})
    table.update({"p": "'z'"}, where="p = 'a'", engine="arrow")
    table.delete("p = 'b'", engine="arrow")
    assert (ids(table), mark(table)) == ([1, 3], 3)
    assert table.to_arrow(where="p = 'z'")["id"].to_pylist() == [1]


def test_values_of_their_own_are_refused_or_taken() -> None:
    table = numbering()
    before = table.version
    for write in (table.append, table.overwrite):
        with pytest.raises(SchemaMismatch, match="id: GENERATED ALWAYS AS IDENTITY"):
            write({"ID": [5], "p": ["a"]})
    assert table.version == before
    by_default = numbering(always=False)
    by_default.append({"id": [5], "p": ["a"]})
    by_default.append({"p": ["b"]})
    assert (ids(by_default), mark(by_default)) == ([1, 5], 1)


def test_rows_without_a_number_get_one_beside_rows_that_have_theirs() -> None:
    table = numbering()
    table.append({"p": ["a"]})
    txn = table.start_transaction()
    rows = pa.table({"id": pa.array([None, 1, None], pa.int64()), "p": ["x", "y", "z"]})
    txn.commit(txn.write_files(rows), "MERGE")
    assert table.to_arrow(where="p != 'a'").to_pylist() == [
        {"id": 2, "p": "x"}, {"id": 1, "p": "y"}, {"id": 3, "p": "z"}]


def test_the_end_of_the_numbers_is_an_error() -> None:
    table = numbering(start=2**63 - 2)
    table.append({"p": ["a", "b"]})
    before = sorted(s.name for s in table.log.store.list_all(""))
    with pytest.raises(InvalidArgument, match="no value left"):
        table.append({"p": ["c"]})
    assert sorted(s.name for s in table.log.store.list_all("")) == before


def test_only_a_transaction_gives_numbers() -> None:
    table = numbering()
    with pytest.raises(InvalidArgument, match=r"txn\.write_files"):
        write_files(table.log.store, table.metadata, table.protocol, {"p": ["a"]})


@pytest.mark.parametrize("field, partition_by, pattern", [
    (StructField("id", PrimitiveType("integer"), metadata=identity()), [], "long"),
    (StructField("id", LONG, metadata=identity(step=0)), [], "step"),
    (StructField("id", LONG, metadata=identity()), ["id"], "partition"),
    (StructField("id", LONG, metadata={**identity(), **generated_as("1")}), [], "only one of"),
])
def test_a_column_that_cannot_number_is_refused_at_the_start(
    field: StructField, partition_by: list[str], pattern: str
) -> None:
    with pytest.raises(InvalidSchema, match=pattern):
        dn.create(MemoryStore(), StructType([field, StructField("p", TEXT)]), partition_by=partition_by)


def test_a_table_of_another_writer_with_damaged_numbers_is_not_written() -> None:
    field = StructField("id", LONG, metadata={**identity(), MARK: "many"})
    builder = TableBuilder().create(StructType([field, StructField("p", TEXT)]).to_dict(),
                                    protocol={"minReaderVersion": 1, "minWriterVersion": 6})
    with pytest.raises(InvalidTable, match="high-water mark 'many'"):
        dn.open(builder.store).append({"p": ["a"]})


@given(start=st.integers(-50, 50), step=st.integers(-7, 7).filter(bool),
       marked=st.none() | st.integers(-100, 100))
def test_the_next_value_is_on_the_steps_and_beyond_the_mark(
    start: int, step: int, marked: int | None
) -> None:
    value = Identity("id", start, step, marked).next
    assert (value - start) % step == 0
    assert (value - start) * step >= 0
    assert marked is None or (value - marked) * step > 0


@given(start=st.integers(-50, 50), step=st.integers(-7, 7).filter(bool),
       marked=st.none() | st.integers(0, 9), held=st.lists(st.integers(-100, 100)))
def test_after_a_sync_no_value_is_given_twice(
    start: int, step: int, marked: int | None, held: list[int]
) -> None:
    before = Identity("id", start, step, None if marked is None else start + marked * step)
    extreme = (max(held) if step > 0 else min(held)) if held else None
    after = Identity("id", start, step, before.synced(extreme))
    assert after.next not in held
    assert (after.next - before.next) * step >= 0


# --- sync -----------------------------------------------------------------------------------------

def test_sync_moves_the_mark_beyond_what_the_column_holds() -> None:
    table = numbering(always=False, step=10)
    assert table.sync_identity("id").version is None
    table.append({"id": [25], "p": ["a"]})
    assert table.sync_identity("ID") == 2
    assert mark(table) == 31
    assert table.history()[0].operation == "CHANGE COLUMN"
    assert table.sync_identity("id").version is None
    table.append({"p": ["b"]})
    assert ids(table) == [25, 41]


def test_sync_never_moves_the_mark_back() -> None:
    table = numbering()
    table.append({"p": ["a", "b"]})
    table.delete("id = 2")
    assert table.sync_identity("id").version is None
    assert mark(table) == 2


@pytest.mark.parametrize("step", [1, -1])
def test_restoring_gives_no_number_again(step: int) -> None:
    table = numbering(step=step)
    table.append({"p": ["a"]})
    table.append({"p": ["b", "c"]})
    last = mark(table)
    for version in (1, 0):
        table.restore(version)
        assert mark(table) == last
    table.append({"p": ["d"]})
    assert ids(table) == [1 + 3 * step]


@pytest.mark.parametrize("column", ["p", "nowhere"])
def test_sync_wants_an_identity_column(column: str) -> None:
    with pytest.raises(InvalidArgument, match="there is id"):
        numbering().sync_identity(column)


def test_rows_that_arrive_meanwhile_stop_a_sync() -> None:
    store = ScriptedStore()
    table = numbering(store, always=False)
    table.append({"id": [5], "p": ["a"]})
    store.script.append(Lose([add("more")]))
    with pytest.raises(ConcurrentAppendException):
        table.sync_identity("id")
    assert (table.version, mark(table)) == (2, None)


# --- beside others --------------------------------------------------------------------------------

def test_of_two_writers_that_give_numbers_one_loses() -> None:
    table = numbering()
    first, second = table.start_transaction(), table.start_transaction()
    one, two = first.write_files({"p": ["a"]}), second.write_files({"p": ["b"]})
    first.commit(one, "WRITE")
    with pytest.raises(MetadataChangedException) as caught:
        second.commit(two, "WRITE")
    assert caught.value.version == 1
    second.discard_written()
    table.append({"p": ["b"]})
    assert ids(table) == [1, 2]


def test_a_writer_that_gives_none_commits_beside_one_that_does() -> None:
    table = numbering(always=False)
    explicit = table.start_transaction()
    files = explicit.write_files({"id": [50], "p": ["x"]})
    table.append({"p": ["a"]})
    assert explicit.commit(files, "WRITE") == 2
    assert (ids(table), mark(table)) == ([1, 50], 1)


@few
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["write", "commit"]),
                          st.integers(1, 3)), max_size=12))
def test_no_number_is_given_twice_whoever_commits(steps: list[tuple[str, str, int]]) -> None:
    table = numbering()
    open_: dict[str, tuple[Any, list[Any]]] = {}
    for writer, what, count in steps:
        if writer not in open_:
            open_[writer] = (table.start_transaction(), [])
        txn, files = open_[writer]
        if what == "write":
            files += txn.write_files({"p": ["x"] * count})
            continue
        del open_[writer]
        if files:
            try:
                txn.commit(files, "WRITE")
            except MetadataChangedException:
                txn.discard_written()
    numbers = ids(table)
    assert len(numbers) == len(set(numbers))
    assert (mark(table) or 0) == max(numbers, default=0)


# --- Spark ----------------------------------------------------------------------------------------

@pytest.mark.spark
@pytest.mark.parametrize("step", [1, -2])
def test_spark_gives_each_row_a_number_too(tmp_path: Any, spark: Any, step: int) -> None:
    table = numbering(tmp_path / "t", start=4, step=step)
    table.append({"p": ["a"]})
    table.append(spark.range(20).selectExpr("CAST(id AS STRING) AS p").repartition(3))
    table.append({"p": ["z"]})
    numbers = table.to_arrow()["id"].to_pylist()
    assert len(set(numbers)) == len(numbers) == 22
    assert all((value - 4) % step == 0 and (value - 4) * step >= 0 for value in numbers)
    assert mark(table) == (max(numbers) if step > 0 else min(numbers))
    with pytest.raises(SchemaMismatch, match="GENERATED ALWAYS"):
        table.append(spark.sql("SELECT 1L AS id, 'p' AS p"))


@pytest.mark.spark
def test_spark_numbers_rows_without_one_beside_the_others(tmp_path: Any, spark: Any) -> None:
    table = numbering(tmp_path / "t", properties={"delta.columnMapping.mode": "name"})
    table.append({"p": ["a"]})
    txn = table.start_transaction()
    rows = spark.sql("SELECT * FROM VALUES (1L, 'old'), (NULL, 'new'), (NULL, 'newer') AS t(id, p)")
    txn.commit(txn.write_files(rows), "MERGE")
    ids_by_p = {row["p"]: row["id"] for row in table.to_arrow().to_pylist()}
    assert ids_by_p["old"] == 1 and len({1, ids_by_p["new"], ids_by_p["newer"]}) == 3
    assert mark(table) == max(ids_by_p.values())


@pytest.mark.spark
def test_spark_stops_at_the_end_of_the_numbers(tmp_path: Any, spark: Any) -> None:
    table = numbering(tmp_path / "t", start=2**63 - 2, step=2**60)
    with pytest.raises(Exception, match="no value left"):
        table.append(spark.range(5).selectExpr("CAST(id AS STRING) AS p"))
    assert (table.version, mark(table)) == (0, None)
