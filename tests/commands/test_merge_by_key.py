"""Rows stored and deleted by key, against a dict of rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb import DeltaTable
from deltanb.commands.merge.by_key import apply_changes, partition_for
from deltanb.engines.arrow.keyed_rows import KeyedRows
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    ConstraintViolation,
    DeltaError,
    IllegalStateError,
    InvalidArgument,
)
from deltanb.log.skipping.partitions import parse_value
from deltanb.schema import columns as given_by_table
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.testing import Lose, MemoryStore, ScriptedStore
from tests.examples import few
from tests.helpers import last_operation, refused, rows, table_of

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


@pytest.fixture(params=[{}, VECTORS, MAPPED], ids=["copies", "vectors", "mapped"])
def table(request: pytest.FixtureRequest) -> DeltaTable:
    """Two files, one row with NULL as its key."""
    made = table_of({"id": [1, 2], "v": ["a", "b"], "n": [1, 2]}, properties=request.param)
    made.append({"id": [3, None], "v": ["c", "null"], "n": [3, None]})
    return made


def test_rows_are_stored_and_deleted_as_one_version(table: DeltaTable) -> None:
    version = table.version
    result = apply_changes(table, ["id"], {
        (1,): {"v": "A", "n": 10}, (2,): None, (7,): {"id": 7, "V": "new"}, (8,): None,
        (None,): {"v": "NULL"}})
    assert (result.version, result.engine) == (version + 1, "arrow")
    assert rows(table) == [
        {"id": 1, "v": "A", "n": 10}, {"id": 3, "v": "c", "n": 3}, {"id": 7, "v": "new", "n": None},
        {"id": None, "v": "NULL", "n": None}]
    counts = [result.metrics[f"numTargetRows{what}"] for what in ("Updated", "Deleted", "Inserted")]
    assert counts == [2, 1, 1]


def test_the_history_says_what_was_done(table: DeltaTable) -> None:
    apply_changes(table, ["id"], {(1,): {"v": "A"}}, user_metadata="by hand")
    name, parameters = last_operation(table)
    assert name == "MERGE" and parameters["predicate"] == '["target.`id` = source.`id`"]'
    assert parameters["matchedPredicates"] == '[{"actionType":"update"}]'
    assert parameters["notMatchedPredicates"] == '[{"actionType":"insert"}]'
    assert table.history(1)[0].user_metadata == "by hand"
    apply_changes(table, ["id"], {(None,): None})
    name, parameters = last_operation(table)
    assert parameters["predicate"] == '["target.`id` <=> source.`id`"]'
    assert parameters["matchedPredicates"] == '[{"actionType":"delete"}]'
    assert parameters["notMatchedPredicates"] == "[]"


def test_what_changes_nothing_is_no_version(table: DeltaTable) -> None:
    before = table.version
    assert apply_changes(table, ["id"], {}).version is None
    assert apply_changes(table, ["id"], {(99,): None}).version is None
    assert table.version == before


def test_a_row_that_was_read_can_be_stored(table: DeltaTable) -> None:
    row = KeyedRows(table.snapshot, ["id"]).get((3,))[0]
    apply_changes(table, ["ID"], {(3,): {**row, "v": "C"}})
    assert KeyedRows(table.snapshot, ["id"]).get((3,)) == [{"id": 3, "v": "C", "n": 3}]


def test_rows_of_every_type_go_there_and_back() -> None:
    schema = ("k decimal(10,2), b binary, d date, t timestamp, z timestamp_ntz, f float, y boolean, "
              "l array<int>, m map<string,int>, s struct<a: int, b: array<string>>")
    table = dn.create(MemoryStore(), schema)
    row = {"b": b"\x00", "d": dt.date(2020, 1, 2), "t": dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc),
           "z": dt.datetime(2020, 1, 2, 3, 4, 5, 6), "f": 0.5, "y": True, "l": [1, None],
           "m": {"x": 1}, "s": {"a": 1, "b": ["x"]}}
    apply_changes(table, ["k"], {(Decimal("1.5"),): row, (2,): {}})
    stored = KeyedRows(table.snapshot, ["k"]).get((Decimal("1.50"),))[0]
    assert stored == {"k": Decimal("1.50"), **row, "m": [("x", 1)]}
    apply_changes(table, ["k"], {(2,): {**stored, "k": 2}})
    assert KeyedRows(table.snapshot, ["k"]).get((2,)) == [{**stored, "k": Decimal("2.00")}]


@pytest.mark.parametrize(("changes", "message"), [
    ({(1,): {"vv": "x"}}, "column 'vv', which the table does not have; did you mean v"),
    ({(1,): {"v": "x", "V": "y"}}, "column 'v' twice"),
    ({(1,): {"v": 5}}, "5 is not a value of column 'v', which is string"),
    ({(1,): {"n": "5"}}, "'5' is not a value of column 'n', which is long"),
    ({(1,): {"n": True}}, "True is not a value of column 'n'"),
    ({(1,): {"n": 2**63}}, "is not a value of column 'n'"),
    ({(1,): {5: 1}}, "column 5"),
    ({(1,): {"id": 2}}, "has id=2; to change a key"),
    ({(1,): "row"}, "give a dict of columns and values"),
    ({(1, 2): None}, "has 1 columns, found 2 values"),
    ({("a",): None}, "'a' is not a value of column 'id'"),
    ({"a": None}, "a key is a tuple"),
    ({(1,): {"s": {"c": 1}}}, "s has no field 'c'"),
    ({(1,): {"s": 5}}, "5 is not a value of column 's'"),
    ({(1,): {"l": "ab"}}, "'ab' is not a value of column 'l'"),
    ({(1,): {"l": [b"x"]}}, "is not a value of column 'l.element'"),
    ({(1,): {"m": [1]}}, "is not a value of column 'm'"),
])
def test_what_is_no_row_of_the_table_is_refused(changes: Any, message: str) -> None:
    table = dn.create(MemoryStore(), "id long, v string, n long, s struct<a: int>, l array<string>, "
                                     "m map<string,int>")
    table.append({"id": [1]})
    error = refused(table, InvalidArgument, lambda: apply_changes(table, ["id"], changes))
    assert message in str(error)


def test_a_key_comes_once() -> None:
    table = table_of("x double, t timestamp")
    nan, noon = float("nan"), dt.datetime(2020, 1, 1, 12)
    for key, one, other in (("x", nan, -nan), ("t", noon, noon.replace(tzinfo=dt.timezone.utc))):
        error = refused(table, InvalidArgument,
                        lambda k=key, a=one, b=other: apply_changes(table, [k], {(a,): None, (b,): {}}))
        assert "twice" in str(error)
    with pytest.raises(InvalidArgument, match="did you mean x"):
        apply_changes(table, ["xx"], {})


def test_every_row_of_a_key_is_meant() -> None:
    table = table_of({"id": [1, 1, 2], "v": ["a", "b", "c"]})
    apply_changes(table, ["id"], {(1,): {"v": "x"}})
    assert rows(table) == [{"id": 1, "v": "x"}, {"id": 1, "v": "x"}, {"id": 2, "v": "c"}]
    apply_changes(table, ["id"], {(1,): None})
    assert rows(table) == [{"id": 2, "v": "c"}]


def test_columns_called_like_ours_do_no_harm() -> None:
    table = table_of({"change": [1, 2], "_change": ["a", "b"], "a`b": [1, 2], "target": [5, 6]})
    apply_changes(table, ["change", "a`b"], {(1, 1): None, (2, 2): {"_change": "B", "target": 7}})
    assert rows(table, "change") == [{"change": 2, "_change": "B", "a`b": 2, "target": 7}]


# --- values that the table gives -------------------------------------------------------------------

def giving(*, explicit: bool = False) -> DeltaTable:
    """A table with a default, a generated and an identity column."""
    schema = StructType([
        StructField("id", LONG), StructField("v", TEXT, metadata=given_by_table.default("'none'")),
        StructField("twice", LONG, metadata=given_by_table.generated_as("id * 2")),
        StructField("no", LONG, metadata=given_by_table.identity(100, always=not explicit))])
    table = dn.create(MemoryStore(), schema)
    table.append({"id": [1, 2], "v": ["a", "b"]})
    return table


def test_the_table_gives_what_rows_lack() -> None:
    table = giving()
    numbers = {row["id"]: row["no"] for row in rows(table)}
    apply_changes(table, ["id"], {
        (1,): {}, (2,): {"v": None, "twice": 4}, (3,): {}, (4,): {"v": "d", "twice": 8}, (5,): {"v": "e"}})
    stored = rows(table)
    assert [(row["id"], row["v"], row["twice"]) for row in stored] == [
        (1, "none", 2), (2, None, 4), (3, "none", 6), (4, "d", 8), (5, "e", 10)]
    assert {row["id"]: row["no"] for row in stored[:2]} == numbers
    assert len({row["no"] for row in stored}) == 5 and None not in {row["no"] for row in stored}


def test_a_generated_value_that_is_wrong_is_refused() -> None:
    table = giving()
    refused(table, ConstraintViolation, lambda: apply_changes(table, ["id"], {(1,): {"twice": 5}}))


def test_an_identity_value_stays_what_it_is() -> None:
    table = giving()
    row = KeyedRows(table.snapshot, ["id"]).get((1,))[0]
    apply_changes(table, ["id"], {(1,): {**row, "v": "A"}, (2,): None})
    assert rows(table) == [{**row, "v": "A"}]
    for changes in ({(1,): {**row, "no": 5}}, {(9,): {"no": 5}}):
        error = refused(table, InvalidArgument, lambda c=changes: apply_changes(table, ["id"], c))
        assert "identity column" in str(error)


def test_an_identity_column_that_takes_values_takes_them() -> None:
    table = giving(explicit=True)
    apply_changes(table, ["id"], {(9,): {"no": 5}, (10,): {}, (1,): {"v": "A"}})
    numbers = {row["id"]: row["no"] for row in rows(table)}
    assert numbers[9] == 5 and numbers[1] == 100 and numbers[10] not in (None, 5, 100)


def test_an_identity_column_can_be_the_key() -> None:
    table = giving()
    number = rows(table)[0]["no"]
    apply_changes(table, ["no"], {(number,): {"id": 7, "v": "x"}})
    assert rows(table)[1] == {"id": 7, "v": "x", "twice": 14, "no": number}


# --- where it is done ------------------------------------------------------------------------------

def test_statements_can_be_staged() -> None:
    table = table_of({"id": [1, 2], "v": ["a", "b"]}, properties=FEED)
    with table.transaction() as txn:
        apply_changes(txn, ["id"], {(1,): {"v": "A"}, (3,): {"v": "c"}})
        apply_changes(txn, ["id"], {(3,): None, (2,): {"v": "B"}})
        assert rows(txn) == [{"id": 1, "v": "A"}, {"id": 2, "v": "B"}]
        assert table.version == 0
    assert table.version == 1 and rows(table) == [{"id": 1, "v": "A"}, {"id": 2, "v": "B"}]
    with pytest.raises(IllegalStateError):
        apply_changes(txn, ["id"], {(1,): None})


def test_a_log_will_do_and_a_past_version_will_not() -> None:
    table = table_of({"id": [1], "v": ["a"]})
    apply_changes(table.log, ["id"], {(1,): {"v": "A"}})
    assert rows(table) == [{"id": 1, "v": "A"}]
    with pytest.raises(DeltaError, match="read"):
        apply_changes(table.as_of(0), ["id"], {(1,): None})


def test_a_table_that_only_grows_loses_no_row() -> None:
    table = table_of({"id": [1]}, properties={"delta.appendOnly": "true"})
    refused(table, AppendOnlyTable, lambda: apply_changes(table, ["id"], {(1,): None}))


PARTED = {"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "n": [0] * 4}


def rival(table: DeltaTable, part: str | None) -> list[str]:
    """The lines of another writer's commit that adds a file to a partition, and read it before."""
    other = table_of({**PARTED}, partition_by="p")
    other.append(pa.table({"id": [50], "p": pa.array([part], pa.string()), "n": [0]}))
    lines = other.log.store.read("_delta_log/00000000000000000001.json").decode().splitlines()
    return [line for line in lines if '"add"' in line]


@pytest.mark.parametrize(("partitions", "commits"), [(None, False), ([("a",), (None,)], True),
                                                     ([("b",)], False)])
def test_only_partitions_that_are_named_are_read(partitions: Any, commits: bool) -> None:
    store = ScriptedStore(MemoryStore())
    table = dn.create(store, PARTED, partition_by="p")
    store.script.extend([Lose(tuple(rival(table, "b")))])
    changes = {(1,): {"p": "a", "n": 9}, (4,): None} if commits else {(3,): {"p": "b", "n": 9}}
    if commits:
        assert apply_changes(table, ["id"], changes, partitions=partitions).version == 2
    else:
        with pytest.raises(ConcurrentAppendException):
            apply_changes(table, ["id"], changes, partitions=partitions)


@pytest.mark.parametrize("partitions", [["a"], [("a", "b")], [()]])
def test_a_partition_has_a_value_for_each_column(partitions: Any) -> None:
    table = dn.create(MemoryStore(), PARTED, partition_by="p")
    with pytest.raises(InvalidArgument, match="a partition has one string or None for each of \\['p'\\]"):
        apply_changes(table, ["id"], {(1,): None}, partitions=partitions)


@pytest.mark.parametrize(("kind", "text"), [
    ("long", "7"), ("date", "2020-01-02"), ("timestamp", "2020-01-02T03:04:05.000000Z"),
    ("string", "it's \\"),
    ("decimal(5,2)", "1.50"), ("boolean", "true"), ("double", "0.5"), ("binary", "a'b")])
def test_partitions_of_every_type_are_found_by_their_texts(kind: str, text: str) -> None:
    table = dn.create(MemoryStore(), f"id long, p {kind}", partition_by=["p"])
    assert partition_for(table.snapshot, ["id"], (2,), {}) == (None,)
    value = parse_value(text, table.schema.field("p").type)
    assert partition_for(table.snapshot, ["id"], (1,), {"p": value}) == (text,)
    apply_changes(table, ["id"], {(1,): {"p": value}, (2,): {}})
    keyed = KeyedRows(table.snapshot, ["id"])
    parts = [keyed.partition_of((1,)), keyed.partition_of((2,))]
    assert parts == [(text,), (None,)]
    for number, part in enumerate(parts, 1):
        apply_changes(table, ["id"], {(number,): None}, partitions=[part])
    assert rows(table) == []


def test_the_partition_of_a_row_is_known_before_it_is_written() -> None:
    schema = StructType([
        StructField("id", LONG), StructField("p", TEXT, metadata=given_by_table.default("'none'")),
        StructField("tens", LONG, metadata=given_by_table.generated_as("id DIV 10"))])
    table = dn.create(MemoryStore(), schema, partition_by=["tens", "p"])
    changes: Any = {(17,): {}, (25,): {"p": "x"}, (3,): {"p": None, "tens": 0}, (4,): {"p": ""}}
    expected = [partition_for(table.snapshot, ["id"], key, row) for key, row in changes.items()]
    assert expected == [("1", "none"), ("2", "x"), ("0", None), ("0", None)]
    apply_changes(table, ["id"], changes)
    assert [KeyedRows(table.snapshot, ["id"]).partition_of(key) for key in changes] == expected
    assert partition_for(table_of("id long").snapshot, ["id"], (1,), {}) == ()
    with pytest.raises(InvalidArgument, match="did you mean p"):
        partition_for(table.snapshot, ["id"], (1,), {"pp": 1})


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_files_that_are_known_to_lack_the_keys_are_not_read(properties: dict[str, str]) -> None:
    reads = {}
    for is_known in (False, True):
        store = ScriptedStore(MemoryStore())
        table = dn.create(store, "id long, n long", properties=properties)
        for first in range(10):
            table.append({"id": list(range(first, 100, 10)), "n": [0] * 10})
        keyed = KeyedRows(table.snapshot, ["id"])
        assert keyed.after(None) == (0,)
        table.append({"id": [1000, 13], "n": [0, 0]})  # which the keyed rows have not seen
        store.calls.clear()
        changes: Any = {(13,): {"n": 1}, (5,): {"n": 2}, (500,): {}}
        apply_changes(table, ["id"], changes, rows=keyed if is_known else None)
        reads[is_known] = store.calls["open_input"]
        assert table.to_arrow(where="n > 0").sort_by("id").to_pylist() == [
            {"id": 5, "n": 2}, {"id": 13, "n": 1}, {"id": 13, "n": 1}]
    assert reads[True] + 7 == reads[False], "eight files have none of the keys, and the new one is read twice"
    with pytest.raises(InvalidArgument, match="rows are by the key \\['n'\\]"):
        apply_changes(table, ["id"], {}, rows=KeyedRows(table.snapshot, ["n"]))


# --- against a dict --------------------------------------------------------------------------------

IDS = st.one_of(st.none(), st.integers(0, 5))
PARTS = st.sampled_from(["a", "b", "", None])
NUMBERS = st.one_of(st.none(), st.integers(0, 99))
ROUNDS = st.lists(st.dictionaries(st.tuples(IDS, PARTS), NUMBERS, max_size=4), max_size=6)


@few
@given(rounds=ROUNDS, properties=st.sampled_from([{}, {**VECTORS, **FEED}, MAPPED]),
       partition_by=st.sampled_from([[], ["p"], ["p", "id"]]), stages=st.booleans(), knows=st.booleans())
def test_any_rounds_of_changes_do_what_a_dict_does(
    rounds: Any, properties: dict[str, str], partition_by: list[str], stages: bool, knows: bool
) -> None:
    table = dn.create(MemoryStore(), "id long, p string, n long", properties=properties,
                      partition_by=partition_by)
    expected: dict[Any, Any] = {}
    keyed = KeyedRows(table.snapshot, ["id", "p"])
    for changes in rounds:
        # A partition has no empty text: it is NULL there.
        changes = {(one, None if part == "" and partition_by else part): n
                   for (one, part), n in changes.items()}
        given_rows = {key: None if n is None else {"n": n} for key, n in changes.items()}
        known = keyed if knows else None
        if stages:
            with table.transaction() as txn:
                apply_changes(txn, ["id", "p"], given_rows, rows=known)
                apply_changes(txn, ["id", "p"], given_rows, rows=known)
        else:
            apply_changes(table, ["id", "p"], given_rows, rows=known)
        expected = {key: n for key, n in {**expected, **changes}.items() if n is not None}
        keyed = keyed.at(table.snapshot)
        assert {key: keyed.get(key) for key in keyed.iterate()} == {
            key: [{"id": key[0], "p": key[1], "n": n}] for key, n in expected.items()}
