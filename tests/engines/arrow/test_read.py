"""Reading whole snapshots: columns, filters, partitions, mapping, damage, streams."""

from __future__ import annotations

import datetime as dt
import random
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from deltanb.actions import AddFile, encode_path
from deltanb.concurrency import parallel
from deltanb.engines.arrow import deletion_vectors, read
from deltanb.engines.arrow.data_file import BATCH_ROWS, ROW_POSITION
from deltanb.errors import (
    DataFileNotFound,
    InvalidArgument,
    InvalidPredicate,
    InvalidTable,
    TableNotFound,
    UnsupportedProtocol,
)
from deltanb.schema.column_mapping import ID_KEY, MODE_KEY, NAME_KEY, PARQUET_ID
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, TableBuilder
from deltanb.transaction.delta_log import DeltaLog

FEATURES = {"minReaderVersion": 3, "minWriterVersion": 7}


def features(*names: str) -> dict[str, Any]:
    return {**FEATURES, "readerFeatures": list(names), "writerFeatures": list(names)}


def put(builder: TableBuilder, path: str, table: pa.Table, partition: dict | None = None,
        vector: BitMap64 | None = None, **options: Any) -> TableBuilder:
    """Write a Parquet file and commit it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    data = sink.getvalue().to_pybytes()
    builder.put(path, data)
    dv = deletion_vectors.inline(vector) if vector is not None else None
    return builder.commit(AddFile(encode_path(path), partition or {}, len(data), 1,
                                  deletion_vector=dv))


def rows(builder: TableBuilder, **arguments: Any) -> list[dict[str, Any]]:
    snapshot = builder.log.update()
    table = read.read_table(snapshot, snapshot.files, **arguments)
    table.validate(full=True)
    return table.to_pylist()


@pytest.fixture
def people() -> TableBuilder:
    """Two files; the second lacks a column, has another one too many, and stores a narrower type."""
    builder = TableBuilder(MemoryStore()).create("id long, name string, Age integer")
    put(builder, "a", pa.table({"id": [1, 2, 3], "name": ["ann", None, "cid"],
                                "Age": pa.array([30, 40, None], pa.int32())}))
    return put(builder, "b", pa.table({"extra": [0, 0], "AGE": pa.array([50, 60], pa.int8()),
                                       "id": pa.array([4, 5], pa.int32())}))


def test_rows_of_files_with_different_columns(people):
    assert rows(people) == [
        {"id": 1, "name": "ann", "Age": 30}, {"id": 2, "name": None, "Age": 40},
        {"id": 3, "name": "cid", "Age": None}, {"id": 4, "name": None, "Age": 50},
        {"id": 5, "name": None, "Age": 60},
    ]


def test_columns_in_the_order_asked_for_and_in_any_case(people):
    assert rows(people, columns=["age", "ID"])[:2] == [{"Age": 30, "id": 1}, {"Age": 40, "id": 2}]


@pytest.mark.parametrize(("columns", "message"), [
    (["nam"], "no column 'nam'; did you mean name"), (["zzz"], "the columns are id, name, Age"),
    (["id", "ID"], "asked for twice"), ("id", r"write columns=\['id'\]"),
])
def test_columns_that_make_no_sense(people, columns, message):
    with pytest.raises(InvalidArgument, match=message):
        rows(people, columns=columns)


def test_no_columns_still_count_the_rows(people):
    snapshot = people.log.update()
    assert read.read_table(snapshot, snapshot.files, columns=[]).num_rows == 5
    assert read.read_table(snapshot, snapshot.files, columns=[], where="id > 3").num_rows == 2


@pytest.mark.parametrize(("where", "ids"), [
    ("age > 35", [2, 4, 5]), ("name IS NULL AND Age = 40", [2]), ("NOT age > 35", [1]),
    ("id IN (1, 5) OR name = 'cid'", [1, 3, 5]), ("id > 99", []),
])
def test_a_filter_is_exact_and_needs_no_selected_column(people, where, ids):
    assert [row["id"] for row in rows(people, columns=["id"], where=where)] == ids
    assert [row["id"] for row in rows(people, where=where)] == ids


def test_a_filter_on_an_unknown_column_is_refused_before_a_file_is_opened(people):
    people.store.delete("a")
    with pytest.raises(InvalidPredicate, match="agee"):
        rows(people, where="agee > 1")


def test_an_empty_table_has_its_schema():
    builder = TableBuilder(MemoryStore()).create("id long, at timestamp")
    snapshot = builder.log.update()
    table = read.read_table(snapshot, snapshot.files, where="id = 1")
    assert table.schema == snapshot.schema.to_arrow() and table.num_rows == 0


@pytest.mark.parametrize("groups", [0, 1])
def test_a_file_without_rows_has_none_that_a_condition_wants(people, groups):
    sink, schema = pa.BufferOutputStream(), pa.schema({"id": pa.int64()})
    with pq.ParquetWriter(sink, schema) as writer:
        for _ in range(groups):
            writer.write_table(schema.empty_table())
    assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.num_row_groups == groups
    people.put("none", sink.getvalue().to_pybytes())
    people.commit(AddFile("none", {}, len(sink.getvalue()), 1))
    assert [row["id"] for row in rows(people, where="id > 3")] == [4, 5]
    assert len(rows(people)) == 5


def test_no_table_yet():
    snapshot = DeltaLog.for_table(MemoryStore()).snapshot
    with pytest.raises(TableNotFound, match="no table at"):
        read.read_table(snapshot, pa.table({"path": pa.array([], pa.string())}))


# ---------------------------------------------------------------------------- names and paths


def test_names_with_dots_and_a_struct_of_the_same_spelling():
    builder = TableBuilder(MemoryStore()).create(
        {"type": "struct", "fields": [
            {"name": "a.b", "type": "long", "nullable": True, "metadata": {}},
            {"name": "a", "type": {"type": "struct", "fields": [
                {"name": "b", "type": "string", "nullable": True, "metadata": {}}]},
             "nullable": True, "metadata": {}}]})
    put(builder, "f", pa.table({"a.b": [1], "a": [{"b": "x"}]}))
    assert rows(builder) == [{"a.b": 1, "a": {"b": "x"}}]
    assert rows(builder, columns=["a.b"]) == [{"a.b": 1}]
    assert rows(builder, columns=["a"], where="`a.b` = 1") == [{"a": {"b": "x"}}]
    assert rows(builder, columns=["a.b"], where="a.b = 'y'") == []


@pytest.mark.parametrize("path", ["plain.parquet", "day=a b/x.parquet", "100%/p%20q.parquet",
                                  "ü/日本.parquet", "a#b?c.parquet", "a+b&c=d.parquet", "x:y.parquet"])
@pytest.mark.parametrize("form", ["relative", "absolute", "file:", "file://"])
def test_paths(tmp_path, path, form):
    folder = tmp_path / ("table" if form == "relative" else "elsewhere")
    (folder / path).parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [7]}), str(folder / path))
    if form == "relative":
        logged = encode_path(path)
    else:
        logged = form.removeprefix("absolute") + encode_path(str(folder / path))
    builder = TableBuilder(tmp_path / "table").create("id long")
    builder.commit(AddFile(logged, {}, 1, 1))
    assert rows(builder) == [{"id": 7}]


def test_a_missing_file_is_named_with_version_and_way_out(people):
    people.store.delete("b")
    with pytest.raises(DataFileNotFound, match=r"version 2 of memory:.*'b'.*restore it") as caught:
        rows(people)
    assert (caught.value.path, caught.value.version) == ("b", 2)
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "overwritten"])
def test_a_damaged_file_is_named(people, damage):
    data = people.store.read("b")
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    people.put("b", {"empty": b"", "text": b"hello, world", "truncated": data[:-9],
                     "overwritten": data[:4] + b"\xff" * (footer - 4) + data[footer:]}[damage])
    with pytest.raises(InvalidTable, match="the data file 'b' cannot be read") as caught:
        rows(people)
    assert caught.value.file == "b"


def test_whatever_is_damaged_the_error_is_ours(people):
    data, chance = people.store.read("b"), random.Random(7)
    snapshot, seen = people.log.update(), set()
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        people.put("b", bytes(damaged))
        try:
            read.read_table(snapshot, snapshot.files)
            seen.add("read")
        except InvalidTable as error:
            assert "'b'" in str(error)
            seen.add("refused")
    assert seen == {"read", "refused"}


def test_only_the_columns_asked_for_must_be_readable():
    builder = TableBuilder(MemoryStore()).create("id long, odd long")
    put(builder, "f", pa.table({"id": [1], "odd": ["text"]}))
    assert rows(builder, columns=["id"]) == [{"id": 1}]
    with pytest.raises(InvalidTable, match=r"column 'odd' is long in the table and string"):
        rows(builder)


# ---------------------------------------------------------------------------- types


PARTITIONS = [
    ("string", "a/b c", "a/b c"), ("string", "", None), ("string", None, None), ("byte", "-1", -1),
    ("short", "300", 300), ("integer", "7", 7), ("long", str(2**62), 2**62), ("boolean", "true", True),
    ("float", "0.5", 0.5), ("double", "1.0E10", 1e10), ("decimal(5,2)", "1.20", Decimal("1.20")),
    ("date", "2020-02-29", dt.date(2020, 2, 29)), ("binary", "\u0001a", b"\x01a"),
    ("timestamp", "2020-01-01 00:00:00", dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)),
    ("timestamp", "2020-01-01T00:00:00.5Z",
     dt.datetime(2020, 1, 1, 0, 0, 0, 500_000, dt.timezone.utc)),
    ("timestamp_ntz", "2020-01-01 00:00:00.000001", dt.datetime(2020, 1, 1, 0, 0, 0, 1)),
]


@pytest.mark.parametrize(("kind", "text", "value"), PARTITIONS)
def test_partition_values_have_their_types(kind, text, value):
    builder = TableBuilder(MemoryStore()).create(
        f"p {kind}, id long", partition_by=["p"], protocol=features("timestampNtz"))
    # A copy of the column in the file does not count: the log decides.
    put(builder, "f", pa.table({"id": [1, 2], "p": ["no", "no"]}), {"p": text})
    assert rows(builder) == [{"p": value, "id": 1}, {"p": value, "id": 2}]
    assert rows(builder, columns=["id"], where="p IS NULL") == \
        ([{"id": 1}, {"id": 2}] if value is None else [])


def test_partition_values_under_a_name_in_another_case():
    builder = TableBuilder(MemoryStore()).create("Part integer, id long", partition_by=["PART"])
    put(builder, "f", pa.table({"id": [1]}), {"part": "7"})
    put(builder, "g", pa.table({"id": [2]}), {})
    assert rows(builder, where="part = 7 OR part IS NULL") == [
        {"Part": 7, "id": 1}, {"Part": None, "id": 2}]


def test_a_partition_value_of_the_wrong_type_is_named():
    builder = TableBuilder(MemoryStore()).create("p integer, id long", partition_by=["p"])
    put(builder, "f", pa.table({"id": [1]}), {"p": "x"})
    with pytest.raises(InvalidTable, match=r"'f' has the partition value 'x' for column 'p'"):
        rows(builder)


def test_int96_beyond_the_nanoseconds():
    at = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    builder = TableBuilder(MemoryStore()).create("at timestamp")
    put(builder, "f", pa.table({"at": pa.array([at, dt.datetime(1, 1, 1)], pa.timestamp("us"))}),
        use_deprecated_int96_timestamps=True)
    assert [row["at"].replace(tzinfo=None) for row in rows(builder)] == [at, dt.datetime(1, 1, 1)]


def test_a_void_column_is_null_and_an_unknown_type_only_matters_when_read():
    builder = TableBuilder(MemoryStore()).create("id long, nothing void, shape hypercube")
    put(builder, "f", pa.table({"id": [1]}))
    assert rows(builder, columns=["id", "nothing"]) == [{"id": 1, "nothing": None}]
    with pytest.raises(UnsupportedProtocol, match="'shape' has type hypercube"):
        rows(builder)


def test_an_unknown_reader_feature_is_refused_by_name():
    builder = TableBuilder(MemoryStore()).create("id long", protocol=features("warpDrive"))
    with pytest.raises(UnsupportedProtocol, match="warpDrive") as caught:
        rows(builder)
    assert caught.value.features == ("warpDrive",)


# ---------------------------------------------------------------------------- column mapping


def mapped(mode: str) -> TableBuilder:
    def field(name: str, kind: Any, number: int) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True,
                "metadata": {ID_KEY: number, NAME_KEY: f"col-{number}"}}

    schema = {"type": "struct", "fields": [
        field("part, of it", "integer", 1), field("new name", "long", 2),
        field("deep", {"type": "struct", "fields": [field("x y", "string", 4)]}, 3),
        field("added", "string", 5)]}
    builder = TableBuilder(MemoryStore()).create(
        schema, partition_by=["part, of it"], properties={MODE_KEY: mode},
        protocol={"minReaderVersion": 2, "minWriterVersion": 5})

    def stored(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={PARQUET_ID: str(number).encode()})

    # In mode id the names in the file mean nothing; "new name" was the name of a dropped column.
    names = ["col-2", "col-3", "col-4"] if mode == "name" else ["new name", "b", "c"]
    inner = pa.struct([stored(names[2], pa.string(), 4)])
    table = pa.Table.from_arrays(
        [pa.array(["dropped"]), pa.array([11]), pa.array([{names[2]: "z"}], inner)],
        schema=pa.schema([stored("new name" if mode == "name" else "col-2", pa.string(), 99),
                          stored(names[0], pa.int64(), 2), stored(names[1], inner, 3)]))
    return put(builder, "f", table, {"col-1": "8"})


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(mode):
    builder = mapped(mode)
    expected = {"part, of it": 8, "new name": 11, "deep": {"x y": "z"}, "added": None}
    assert rows(builder) == [expected]
    assert rows(builder, columns=["NEW NAME"], where="deep.`x y` = 'z' AND `part, of it` = 8") == [
        {"new name": 11}]


def test_the_mapping_property_means_nothing_to_a_protocol_without_it():
    builder = TableBuilder(MemoryStore()).create(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True,
                                       "metadata": {ID_KEY: 1, NAME_KEY: "col-1"}}]},
        properties={MODE_KEY: "name"})
    put(builder, "f", pa.table({"id": [1], "col-1": [2]}))
    assert rows(builder) == [{"id": 1}]


# ---------------------------------------------------------------------------- deleted rows


@pytest.fixture
def deleted() -> TableBuilder:
    """100 rows in row groups of 30; every third is deleted, and all of the second group."""
    builder = TableBuilder(MemoryStore()).create("id long", protocol=features("deletionVectors"))
    vector = BitMap64([*range(0, 100, 3), *range(30, 60)])
    return put(builder, "f", pa.table({"id": list(range(100))}), vector=vector, row_group_size=30)


LIVE = [n for n in range(100) if n % 3 and not 30 <= n < 60]


def test_deleted_rows_across_row_groups(deleted):
    assert [row["id"] for row in rows(deleted)] == LIVE
    assert [row["id"] for row in rows(deleted, where="id % 2 = 0")] == [n for n in LIVE if n % 2 == 0]
    snapshot = deleted.log.update()
    assert read.read_table(snapshot, snapshot.files, columns=[]).num_rows == len(LIVE)


def test_positions_count_the_rows_of_the_file(deleted):
    snapshot = deleted.log.update()
    scan = read.plan(snapshot, ["id"], "id > 50")
    (file,) = snapshot.files.to_pylist()
    data = pa.Table.from_batches(read.read_data_file(scan, file, positions=True))
    assert data.column_names == ["id", ROW_POSITION]
    assert data[ROW_POSITION].to_pylist() == data["id"].to_pylist() == [n for n in LIVE if n > 50]


def test_a_file_read_as_an_action(people):
    snapshot = people.log.update()
    scan = read.plan(snapshot, ["id"])
    action = AddFile.from_row(snapshot.files.to_pylist()[1])
    assert [b.to_pydict() for b in read.read_data_file(scan, action)] == [{"id": [4, 5]}]


def test_a_vector_that_does_not_belong_is_refused(deleted):
    dv = deletion_vectors.inline(BitMap64([1]))
    deleted.commit(AddFile("f", {}, 1, 1, deletion_vector=dv.__class__(
        "i", dv.path_or_inline_dv, dv.size_in_bytes, 2)))
    with pytest.raises(InvalidTable, match=r"of 'f' removes 1 rows where the log says 2"):
        rows(deleted)


# ---------------------------------------------------------------------------- streams


@pytest.fixture
def many(monkeypatch) -> TableBuilder:
    """20 files of 3 rows, read by four threads whatever the machine."""
    monkeypatch.setattr(read, "SMALL_SCAN_BYTES", 0)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    builder = TableBuilder(MemoryStore()).create("id long")
    for n in range(20):
        put(builder, f"f{n}", pa.table({"id": [3 * n, 3 * n + 1, 3 * n + 2]}))
    return builder


def readers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("deltanb-read")]


def test_threads_keep_the_order_of_the_files(many):
    assert [row["id"] for row in rows(many)] == list(range(60))
    assert not readers()


def test_a_stream_left_early_stops_its_threads(many):
    snapshot = many.log.update()
    stream = read.iter_batches(snapshot, snapshot.files)
    assert next(stream).to_pydict() == {"id": [0, 1, 2]}
    assert readers()
    stream.close()
    assert not readers()


def test_an_error_in_a_thread_comes_after_the_rows_before_it(many):
    many.store.delete("f7")
    snapshot = many.log.update()
    ids = []
    with pytest.raises(DataFileNotFound, match="'f7'"):
        for batch in read.iter_batches(snapshot, snapshot.files):
            ids += batch.to_pydict()["id"]
    assert ids == list(range(21))
    assert not readers()


def test_a_stream_nobody_drains_opens_few_files(many, monkeypatch):
    opened = []
    original = read.read_data_file

    def counting(scan, row, **options):
        opened.append(row["path"])
        return original(scan, row, **options)

    monkeypatch.setattr(read, "read_data_file", counting)
    snapshot = many.log.update()
    stream = read.iter_batches(snapshot, snapshot.files)
    next(stream)
    assert len(opened) <= 4
    stream.close()


def test_batches_are_bounded(tmp_path):
    builder = TableBuilder(LocalStore(tmp_path, "none")).create("id long")
    count = BATCH_ROWS * 2 + 10
    put(builder, "f", pa.table({"id": pa.array(range(count))}))
    snapshot = builder.log.update()
    sizes = [b.num_rows for b in read.iter_batches(snapshot, snapshot.files)]
    assert sum(sizes) == count and max(sizes) <= BATCH_ROWS


def test_arguments_of_a_stream_are_checked_at_the_call(people):
    snapshot = people.log.update()
    with pytest.raises(InvalidArgument):
        read.iter_batches(snapshot, snapshot.files, columns=["nope"])
