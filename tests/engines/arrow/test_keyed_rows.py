"""Rows by key: against a plain sort of all rows, over every kind of table and as versions advance."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb import DeltaTable
from deltanb.concurrency import parallel
from deltanb.engines.arrow import key_index, keyed_rows
from deltanb.engines.arrow.key_index import rank
from deltanb.engines.arrow.keyed_rows import KeyedRows
from deltanb.errors import InvalidArgument, UnsupportedProtocol
from deltanb.locks.core.keys import encode
from deltanb.testing import MemoryStore, ScriptedStore, TableBuilder
from tests.examples import few
from tests.helpers import table_of

UTC = dt.timezone.utc
NAN, INF = float("nan"), float("inf")
VECTORS = {"delta.enableDeletionVectors": "true"}


def model(table: DeltaTable, key: list[str]) -> dict[Any, list[dict[str, Any]]]:
    """The rows by what their keys are compared by, in the order of keys."""
    by_key: dict[Any, list[dict[str, Any]]] = {}
    for row in table.to_arrow().to_pylist():
        by_key.setdefault(rank(tuple(row[name] for name in key)), []).append(row)
    return dict(sorted(by_key.items()))


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that can be compared: NaN is equal to NaN, and their order does not matter."""
    return sorted(repr(sorted(row.items())) for row in rows)


def check(rows: KeyedRows, table: DeltaTable, key: list[str]) -> None:
    """Everything that can be asked, against all rows of the table."""
    expected = model(table, key)
    assert [rank(one) for one in rows.iterate()] == list(expected)
    at, places = None, list(expected)
    for place in places:
        at = rows.after(at)
        assert at is not None and rank(at) == place
        assert plain(rows.get(at)) == plain(expected[place])
    assert rows.after(at) is None
    for one in rows.iterate():
        following = places[places.index(rank(one)) + 1:]
        assert [rank(other) for other in rows.iterate(one)] == following


def scanning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every table too large for its key columns to be read for a single key."""
    monkeypatch.setattr(keyed_rows, "MAX_READ_FILES", -1)


def filled(properties: dict[str, str] | None = None, partition_by: Any = (), **more: Any) -> DeltaTable:
    """Three files, two keys in several of them, one NULL."""
    table = table_of({"id": [5, 1, None], "p": ["a", "b", "a"], "x": [1.5, None, NAN]},
                     properties=properties, partition_by=partition_by, **more)
    table.append({"id": [3, 5], "p": ["b", "b"], "x": [2.5, 3.5]})
    table.append({"id": [2, 4, 5], "p": [None, "a", ""], "x": [0.0, -0.0, INF]})
    return table


@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize("properties", [{}, VECTORS, {"delta.columnMapping.mode": "name"}])
@pytest.mark.parametrize("key", [["id"], ["p", "id"], ["x"], ["ID", "x", "p"]])
def test_rows_come_by_key_in_order(partition_by: Any, properties: Any, key: list[str]) -> None:
    table = filled(properties, partition_by)
    table.delete("id = 3")
    names = [table.schema.field(name).name for name in key]
    rows = KeyedRows(table.snapshot, key)
    assert rows.key == tuple(names)
    check(rows, table, names)


@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize("properties", [{}, VECTORS, {"delta.columnMapping.mode": "name"}])
@pytest.mark.parametrize("key", [["id"], ["p", "id"], ["x"]])
def test_a_key_is_found_by_a_scan_as_by_the_index(
    monkeypatch: pytest.MonkeyPatch, partition_by: Any, properties: Any, key: list[str]
) -> None:
    table = filled(properties, partition_by)
    table.delete("id = 3")
    by_index = KeyedRows(table.snapshot, key)
    keys = list(by_index.iterate())
    scanning(monkeypatch)
    for one in [*keys, *([(99,)] if key == ["id"] else [])]:
        rows = KeyedRows(table.snapshot, key)
        assert plain(rows.get(one)) == plain(by_index.get(one))
        assert rows.partition_of(one) == by_index.partition_of(one)
        assert rows._index is None, "the index was read for one key of a large table"


VALUES: dict[str, list[Any]] = {
    "boolean": [None, False, True],
    "byte": [None, -128, 0, 127],
    "long": [None, -(2**63), -1, 0, 2**63 - 1],
    "float": [None, -INF, -1.5, 0.0, 1.5, INF, NAN],
    "double": [None, -INF, -1e300, -5e-324, 0.0, 5e-324, 0.1, INF, NAN],
    "decimal(10,2)": [None, Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("1.00")],
    "decimal(38,0)": [None, Decimal("-" + "9" * 38), Decimal(0), Decimal("9" * 38)],
    "string": [None, "", " ", "A", "a", "ab", "b", "é", "\uffff", "\U0001f600"],
    "binary": [None, b"", b"\x00", b"\x00\x01", b"a", b"\xff"],
    "date": [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(9999, 12, 31)],
    "timestamp": [None, *(dt.datetime(1969, 12, 31, 23, 59, 59, micro, UTC) for micro in (0, 1)),
                  dt.datetime(2020, 1, 1, tzinfo=UTC)],
    "timestamp_ntz": [None, dt.datetime(1969, 12, 31), dt.datetime(2020, 1, 1, 0, 0, 0, 1)],
}


@pytest.mark.parametrize("kind", list(VALUES))
@pytest.mark.parametrize("scans", [False, True])
def test_every_type_has_its_order(kind: str, scans: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    values = VALUES[kind]
    table = table_of(f"k {kind}, n int")
    shuffled = random.Random(1).sample(range(len(values)), len(values))
    arrow = table.schema.to_arrow().field("k").type
    for place in shuffled:
        table.append(pa.table({"k": pa.array([values[place]], arrow), "n": pa.array([place], pa.int32())}))
    if scans:
        scanning(monkeypatch)
    rows = KeyedRows(table.snapshot, ["k"])
    assert [[row["n"] for row in rows.get((value,))] for value in values] == [[n] for n in range(len(values))]
    assert (rows._index is None) is scans
    keys = list(rows.iterate())
    assert list(map(rank, keys)) == [rank((value,)) for value in values]
    assert keys == sorted(keys, key=encode), "locks on rows have another order"
    assert [rows.after((value,)) is None for value in values] == [False] * (len(values) - 1) + [True]


def test_minus_zero_is_zero_and_nan_is_nan() -> None:
    table = table_of({"x": [-0.0, 0.0, NAN, -NAN], "n": [1, 2, 3, 4]})
    rows = KeyedRows(table.snapshot, ["x"])
    first, second = rows.iterate()
    assert math.copysign(1, first[0]) == 1 and math.isnan(second[0])
    assert sorted(row["n"] for row in rows.get((-0.0,))) == [1, 2]
    assert sorted(row["n"] for row in rows.get((NAN,))) == [3, 4]


def test_partitions_are_texts_of_the_log_in_the_order_of_the_columns() -> None:
    day = dt.date(2020, 1, 2)
    table = table_of({"id": [1, 2], "day": [day, None], "p": ["a b", ""]}, partition_by=["p", "day"],
                     properties={"delta.columnMapping.mode": "name"})
    rows = KeyedRows(table.snapshot, ["id"])
    assert rows.partition_of((1,)) == ("a b", "2020-01-02")
    assert rows.partition_of((2,)) == (None, None)
    assert rows.partition_of((3,)) is None
    assert KeyedRows(table_of({"id": [1]}).snapshot, ["id"]).partition_of((1,)) == ()


@pytest.mark.parametrize(("key", "pattern"), [
    (["idd"], "did you mean id"), (["id", "ID"], "column 'id' twice"), ([], "no column"),
    ("id", "write key=\\['id'\\]"), (["tags"], "array<string>, whose values have no order"),
    (["s"], "whose values have no order"), ([1], "names of columns"),
])
def test_what_is_no_key_is_refused(key: Any, pattern: str) -> None:
    table = table_of("id long, tags array<string>, s struct<a: long>")
    with pytest.raises(InvalidArgument, match=pattern):
        KeyedRows(table.snapshot, key)


@pytest.mark.parametrize(("kind", "value"), [
    ("long", "1"), ("long", True), ("long", 1.5), ("byte", 128), ("boolean", 1), ("string", b"a"),
    ("binary", "a"), ("string", "\ud800"), ("date", dt.datetime(2020, 1, 1)),
    ("decimal(4,2)", Decimal("1.234")),
    ("timestamp", dt.date(2020, 1, 1)), ("timestamp_ntz", dt.datetime(2020, 1, 1, tzinfo=UTC)),
    ("double", "x"), ("long", 10**40),
])
def test_a_value_of_another_type_is_refused(kind: str, value: Any) -> None:
    rows = KeyedRows(table_of(f"k {kind}").snapshot, ["k"])
    for ask in (rows.get, rows.after, rows.partition_of, rows.iterate, rows.normal):
        with pytest.raises(InvalidArgument, match="is not a value of column 'k'"):
            ask((value,))


@pytest.mark.parametrize("values", [(), (1, 2), "ab", b"a", 5, {1}])
def test_a_key_has_a_value_for_each_column(values: Any) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        KeyedRows(table_of("k long").snapshot, ["k"]).get(values)


def test_values_become_what_the_column_holds() -> None:
    rows = KeyedRows(table_of("d decimal(10,2), x double, f float, t timestamp").snapshot,
                     ["d", "x", "f", "t"])
    east = dt.timezone(dt.timedelta(hours=1))
    key = rows.normal((1, 2, 0.1, dt.datetime(2020, 1, 1, 1, tzinfo=east)))
    assert key == (Decimal("1.00"), 2.0, pa.scalar(0.1, pa.float32()).as_py(),
                   dt.datetime(2020, 1, 1, tzinfo=UTC))
    assert isinstance(key[1], float) and str(key[0]) == "1.00"


def test_rows_are_the_callers_own() -> None:
    rows = KeyedRows(table_of({"id": [1], "tags": [["a"]]}).snapshot, ["id"])
    rows.get((1,))[0]["tags"].append("b")
    assert rows.get((1,)) == [{"id": 1, "tags": ["a"]}]


def test_a_table_without_rows_has_no_key() -> None:
    rows = KeyedRows(table_of("id long").snapshot, ["id"])
    assert rows.after(None) is None and rows.get((1,)) == [] and list(rows.iterate()) == []


def test_what_the_library_cannot_read_is_refused() -> None:
    builder = TableBuilder().create(protocol={"minReaderVersion": 3, "minWriterVersion": 7,
                                              "readerFeatures": ["timeTravelToTheFuture"],
                                              "writerFeatures": ["timeTravelToTheFuture"]})
    with pytest.raises(UnsupportedProtocol, match="timeTravelToTheFuture"):
        KeyedRows(builder.log.update(), ["id"])


# --- what is read ----------------------------------------------------------------------------------

def counted(rows: int, files: int) -> tuple[DeltaTable, ScriptedStore]:
    """A table whose files hold neighbouring keys, and the store that counts what is opened."""
    store = ScriptedStore(MemoryStore())
    table = dn.create(store, "id long, x long")
    for first in range(0, rows * files, rows):
        ids = list(range(first, first + rows))
        table.append({"id": ids, "x": ids})
    return table, store


def opened(store: ScriptedStore) -> int:
    """How many files were opened since the last call."""
    return store.calls.pop("open_input", 0)


def test_only_files_that_came_are_read_at_the_next_version() -> None:
    table, store = counted(rows=10, files=8)
    rows = KeyedRows(table.snapshot, ["id"])
    opened(store)
    assert rows.after(None) == (0,)
    assert opened(store) == 8
    table.append({"id": [1000], "x": [1]})
    table.delete("id >= 70 AND id < 80")
    snapshot = table.snapshot
    opened(store)
    rows = rows.at(snapshot)
    assert rows.after((69,)) == (1000,)
    assert opened(store) == 1
    assert rows.at(snapshot) is rows
    check(rows, table, ["id"])


def test_a_version_that_changed_no_file_costs_no_read() -> None:
    table, store = counted(rows=10, files=3)
    rows = KeyedRows(table.snapshot, ["id"])
    assert rows.get((4,)) == [{"id": 4, "x": 4}]
    table.set_properties({"delta.logRetentionDuration": "interval 1 day"})
    snapshot = table.snapshot
    opened(store)
    rows = rows.at(snapshot)
    assert rows.get((4,)) == [{"id": 4, "x": 4}] and rows.after((29,)) is None
    assert opened(store) == 0


def test_going_on_fetches_more_rows_at_a_time() -> None:
    table, store = counted(rows=1000, files=4)
    rows = KeyedRows(table.snapshot, ["id"])
    keys = list(rows.iterate())
    opened(store)
    for key in keys:
        assert rows.get(key)[0]["x"] == key[0]
    assert opened(store) <= 12  # 1, 8, 64, 512 rows, then thousands
    rows.get((3999,))
    rows.get((2,))
    opened(store)
    rows.get((500,))
    assert opened(store) <= 1


def test_versions_that_pass_by_do_not_stop_the_fetching_ahead() -> None:
    table, store = counted(rows=1000, files=2)
    rows, reads = KeyedRows(table.snapshot, ["id"]), 0
    key = None
    for number in range(580):
        if number % 100 == 0:
            table.append({"id": [10_000 + number], "x": [0]})
        rows = rows.at(table.snapshot)
        key = rows.after(key)
        assert key == (number,)
        opened(store)
        rows.get(key)
        reads += opened(store)
    assert reads == 4  # 1, 8, 64 and 512 rows


def test_keys_are_read_once_enough_of_them_were_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "MAX_READ_FILES", 2)
    table, store = counted(rows=10, files=7)
    rows = KeyedRows(table.snapshot, ["id"])
    reads = []
    for number in (5, 5, 25, 35, 45, 45):
        opened(store)
        assert rows.get((number,)) == [{"id": number, "x": number}]
        rows = rows.at(table.snapshot)
        assert rows.partition_of((number,)) == ()
        reads.append(opened(store))
    assert reads == [1, 0, 1, 1, 7 + 1, 0]


def test_rows_that_are_kept_are_not_fetched_again() -> None:
    table, store = counted(rows=100, files=5)
    rows = KeyedRows(table.snapshot, ["id"])
    for number in range(90):  # 1, 8, 64 and then all others
        rows.get((number,))
    table.update({"x": "-x"}, where="id = 95")
    rows = rows.at(table.snapshot)
    assert rows.after((89,)) == (90,)
    opened(store)
    assert [rows.get((number,))[0]["x"] for number in range(90, 500)] == [
        -number if number == 95 else number for number in range(90, 500)]
    assert opened(store) == 1, "more than the file that came was read"


def test_rows_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "MAX_FETCHED_ROWS", 10)
    table, _ = counted(rows=100, files=2)
    rows = KeyedRows(table.snapshot, ["id"])
    for key in rows.iterate():
        assert len(rows.get(key)) == 1
    assert len(rows._cache._rows) <= 20
    assert len(rows._cache._reached) <= keyed_rows.MAX_READERS


def test_more_rows_of_one_key_than_are_fetched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "MAX_FETCHED_ROWS", 4)
    table = table_of({"id": [1] * 50 + [2], "n": list(range(51))})
    rows = KeyedRows(table.snapshot, ["id"])
    assert sorted(row["n"] for row in rows.get((1,))) == list(range(50))
    assert sorted(row["n"] for row in rows.get((1,))) == list(range(50))
    assert [row["n"] for row in rows.get((2,))] == [50]


def test_wide_rows_are_fetched_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "MAX_FETCHED_BYTES", 1)
    table, _ = counted(rows=100, files=1)
    rows = KeyedRows(table.snapshot, ["id"])
    for number in range(20):
        rows.get((number,))
    assert len(rows._cache._rows) == 20


def test_threads_share_the_rows() -> None:
    table, _ = counted(rows=50, files=4)
    rows = KeyedRows(table.snapshot, ["id"])
    table.append({"id": [1000], "x": [1000]})
    newer = table.snapshot

    def walk(number: int) -> list[int]:
        mine, key, seen = rows if number % 2 else rows.at(newer), None, []
        while (key := mine.after(key)) is not None:
            seen.append(mine.get(key)[0]["x"])
        return seen

    for number, seen in enumerate(parallel.each(walk, range(6), 6)):
        assert seen == [*range(200), *([] if number % 2 else [1000])]


# --- versions --------------------------------------------------------------------------------------

def test_an_older_version_can_follow_a_newer_one() -> None:
    table = table_of({"id": [1, 2, 3]}, properties=VECTORS)
    old = table.snapshot
    table.delete("id = 2")
    rows = KeyedRows(table.snapshot, ["id"])
    assert list(rows.iterate()) == [(1,), (3,)]
    assert list(rows.at(old).iterate()) == [(1,), (2,), (3,)]
    assert list(rows.iterate()) == [(1,), (3,)]


def test_what_a_transaction_has_staged_is_seen() -> None:
    table = table_of({"id": [1, 2]}, properties=VECTORS)
    rows = KeyedRows(table.snapshot, ["id"])
    assert rows.after((2,)) is None
    with table.transaction() as txn:
        txn.append({"id": [3]})
        txn.delete("id = 1")
        assert list(rows.at(txn.snapshot).iterate()) == [(2,), (3,)]
    assert list(rows.at(table.snapshot).iterate()) == [(2,), (3,)]


def test_columns_that_come_and_are_renamed_are_seen() -> None:
    table = table_of({"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    rows = KeyedRows(table.snapshot, ["id"])
    assert rows.get((1,)) == [{"id": 1}]
    table.add_columns("x long")
    rows = rows.at(table.snapshot)
    assert rows.get((1,)) == [{"id": 1, "x": None}]
    table.rename_column("id", "no")
    with pytest.raises(InvalidArgument, match="the key names 'id'"):
        rows.at(table.snapshot)


def test_another_table_in_its_place_is_another_table() -> None:
    table = table_of({"id": [1], "x": [1]})
    rows = KeyedRows(table.snapshot, ["id"])
    assert rows.get((1,)) == [{"id": 1, "x": 1}]
    other = table_of({"id": [1], "x": [2]})
    assert rows.at(other.snapshot).get((1,)) == [{"id": 1, "x": 2}]


@pytest.mark.parametrize("ratio", [0, key_index.INSERT_RATIO, 10**9])
def test_few_new_keys_find_their_places_among_many(monkeypatch: pytest.MonkeyPatch, ratio: int) -> None:
    monkeypatch.setattr(key_index, "INSERT_RATIO", ratio)
    table = table_of({"id": list(range(0, 2000, 2)), "p": ["x"] * 1000})
    rows = KeyedRows(table.snapshot, ["id", "p"])
    assert rows.after(None) == (0, "x")
    table.append({"id": [-5, 500, 500, 501, None, 9999], "p": ["a", "y", "x", None, None, ""]})
    rows = rows.at(table.snapshot)
    assert list(map(rank, rows.iterate())) == list(model(table, ["id", "p"]))
    assert len(rows.get((500, "x"))) == 2


KEYS = st.one_of(st.none(), st.integers(0, 6))
STEPS = st.lists(st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(KEYS, st.sampled_from(["a", "b", None])), max_size=5)),
    st.tuples(st.just("delete"), KEYS), st.tuples(st.just("update"), KEYS),
    st.tuples(st.just("optimize"), st.none()), st.tuples(st.just("restore"), st.integers(0, 20))), max_size=7)


@few
@given(steps=STEPS, vectors=st.booleans(), partitioned=st.booleans(), key=st.sampled_from(
    [["id"], ["p"], ["p", "id"], ["n"]]))
def test_any_history_is_followed(steps: Any, vectors: bool, partitioned: bool, key: list[str]) -> None:
    table = table_of("id long, p string, n long", properties=VECTORS if vectors else {},
                     partition_by=["p"] if partitioned else [])
    rows = KeyedRows(table.snapshot, key)
    count = 0
    for verb, what in steps:
        where = f"id <=> {'NULL' if what is None else what}"
        if verb == "append" and what:
            ids, parts = zip(*what, strict=True)
            numbers = range(count, count + len(what))
            count += len(what)
            table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(parts, pa.string()),
                                   "n": pa.array(numbers, pa.int64())}))
        elif verb == "delete":
            table.delete(where)
        elif verb == "update":
            table.update({"n": "n + 100"}, where=where)
        elif verb == "optimize":
            table.optimize()
        elif verb == "restore" and what < table.version:
            table.restore(what)
        rows = rows.at(table.snapshot)
        check(rows, table, key)
