"""Files as Delta lays them out: another reader finds the rows, and nothing is left of a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile, Metadata, Protocol, decode_path
from deltanb.engines.arrow import file_writer, inputs, statistics, write
from deltanb.engines.arrow.constraints import Check
from deltanb.engines.arrow.write import write_files
from deltanb.errors import (
    ConstraintViolation,
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    SchemaMismatch,
)
from deltanb.log.file_options import FileOptions
from deltanb.options import SeededIds, set_options
from deltanb.schema import column_mapping
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType, from_arrow
from deltanb.store.local import LocalStore
from deltanb.table.entry import create
from deltanb.testing import MemoryStore
from tests.helpers import parquet_files

PROTOCOL = Protocol(3, 7, ("timestampNtz",), ("timestampNtz",))


def table_for(data: Any, *partition_by: str, **configuration: str) -> Metadata:
    schema = from_arrow(inputs.source(data).schema)
    return Metadata("id", schema.to_json(), partition_columns=partition_by,
                    configuration=configuration)


def write_into(root: Path, data: Any, *partition_by: str, **more: Any) -> list[AddFile]:
    return write_files(LocalStore(str(root)), table_for(data, *partition_by), PROTOCOL, data, **more)


def commit(root: Path, metadata: Metadata, files: list[AddFile], protocol: Protocol = PROTOCOL) -> None:
    lines = [protocol.to_json(), metadata.to_json(), *(file.to_json() for file in files)]
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(lines), "utf-8")


def read_by_peer(root: Path, order: str = "1") -> pa.Table:
    """The rows as delta-rs reads them, by its query engine (its other reader lacks features)."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(root))
    return pa.table(builder.execute(f"select * from t order by {order}"))


ALL_TYPES = pa.table({
    "n": pa.array([1, 2, 3]),
    "byte": pa.array([1, None, -128], pa.int8()),
    "short": pa.array([1, None, 2], pa.int16()),
    "int": pa.array([1, None, 2], pa.int32()),
    "float": pa.array([0.5, None, float("nan")], pa.float32()),
    "double": pa.array([0.5, None, float("inf")]),
    "dec": pa.array([Decimal("1.50"), None, Decimal("-9.99")], pa.decimal128(20, 2)),
    "text": pa.array(["a", None, ""]),
    "flag": pa.array([True, None, False]),
    "bytes": pa.array([b"\x00", None, b""]),
    "day": pa.array([date(2024, 2, 29), None, date(1, 1, 1)]),
    "time": pa.array([datetime(2024, 1, 1, 1, 2, 3, 4, timezone.utc), None, None],
                     pa.timestamp("us", "UTC")),
    "wall": pa.array([datetime(2024, 1, 1, 1, 2, 3, 4), None, None], pa.timestamp("us")),
    "nested": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}],
                       pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    "list": pa.array([[{"q": 1}, None], None, []], pa.list_(pa.struct([("q", pa.int64())]))),
    "map": pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int64())),
})


def test_a_peer_reads_every_type(tmp_path: Path) -> None:
    metadata = table_for(ALL_TYPES)
    files = write_into(tmp_path, ALL_TYPES)
    commit(tmp_path, metadata, files)
    read = read_by_peer(tmp_path, "n").select(ALL_TYPES.schema.names)
    assert str(read.to_pylist()) == str(ALL_TYPES.to_pylist())  # as text: NaN is not itself
    (path,) = parquet_files(tmp_path)
    assert files[0].size == path.stat().st_size
    kinds = {c.name: c.physical_type for c in map(
        pq.ParquetFile(path).schema.column, range(len(pq.ParquetFile(path).schema)))}
    assert kinds["time"] == kinds["wall"] == "INT64"


PARTITION_VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["plain", "a b", "a/b", "50%", "ü=1", "{}[]*?", "'\"\\", "a:b#c", None, ""]),
    (pa.int32(), [1, -2, None]),
    (pa.int64(), [2**60, None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [date(2024, 1, 2), None]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00"), None]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 1, 2, 3, 4, 5, 6, timezone.utc), None]),
    (pa.timestamp("us"), [datetime(2024, 1, 2, 3, 4, 5, 6), None]),
]


@pytest.mark.parametrize(("kind", "values"), PARTITION_VALUES, ids=lambda v: str(v)[:20])
def test_a_peer_reads_partitions(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    data = pa.table({"p": pa.array(values, kind), "n": list(range(len(values)))})
    files = write_into(tmp_path, data, "p")
    commit(tmp_path, table_for(data, "p"), files)
    expected = [value if value != "" else None for value in values]
    assert read_by_peer(tmp_path, "n")["p"].to_pylist() == expected
    assert len(files) == len(set(expected))
    assert all("p" not in pq.read_schema(path).names for path in parquet_files(tmp_path))


def test_partitions_lie_in_hive_folders_under_encoded_paths(tmp_path: Path) -> None:
    data = pa.table({"a": ["x y", None], "b": [1, 1], "n": [1, 2]})
    first, second = write_into(tmp_path, data, "a", "b")
    assert first.path.startswith("a=x%20y/b=1/part-00000-")
    assert second.path.startswith("a=__HIVE_DEFAULT_PARTITION__/b=1/part-00001-")
    assert first.path.endswith("-c000.zstd.parquet")
    assert (tmp_path / decode_path(first.path)).exists()
    assert (first.partition_values, second.partition_values) == (
        {"a": "x y", "b": "1"}, {"a": None, "b": "1"})


def test_rows_keep_their_order_within_a_partition(tmp_path: Path) -> None:
    data = pa.table({"p": [i % 3 for i in range(30)], "q": ["a", "b"] * 15, "n": list(range(30))})
    files = write_into(tmp_path, data, "p", "q")
    assert len(files) == 6
    for file in files:
        rows = pq.read_table(tmp_path / decode_path(file.path), partitioning=None)["n"].to_pylist()
        assert rows == sorted(rows) and len(rows) == file.num_records == 5
        assert {(n % 3, "ab"[n % 2]) for n in rows} == {
            (int(file.partition_values["p"] or 0), file.partition_values["q"])}


def test_a_long_partition_value_does_not_break_the_path(tmp_path: Path) -> None:
    data = pa.table({"p": ["x" * 1000], "n": [1]})
    (file,) = write_into(tmp_path, data, "p")
    commit(tmp_path, table_for(data, "p"), [file])
    assert len(file.path) < 200 and read_by_peer(tmp_path)["p"].to_pylist() == ["x" * 1000]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids(tmp_path: Path, mode: str) -> None:
    data = pa.table({"a b": [1], "s": [{"x y": 1}], "l": [[{"z": 1}]], "p q": ["v"]})
    schema, last = column_mapping.assign(from_arrow(data.schema))
    metadata = Metadata("id", schema.to_json(), partition_columns=("p q",), configuration={
        "delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": str(last)})
    protocol = Protocol(2, 5)
    (file,) = write_files(LocalStore(str(tmp_path)), metadata, protocol, data)
    commit(tmp_path, metadata, [file], protocol)
    folder, _, name = file.path.partition("/")
    assert len(folder) == 2 and name.startswith("part-")
    physical = column_mapping.physical_names(schema, mode)
    assert file.partition_values == {physical["p q"]: "v"}
    stored = pq.read_schema(tmp_path / decode_path(file.path))
    assert stored.names == [physical["a b"], physical["s"], physical["l"]]
    assert stored.field(0).metadata == {b"PARQUET:field_id": b"1"}
    assert stored.field(1).type.field(0).metadata == {b"PARQUET:field_id": b"3"}
    assert read_by_peer(tmp_path).select(data.schema.names).to_pylist() == data.to_pylist()


@pytest.mark.parametrize("values", [
    pa.array([3_000_000], pa.date32()), pa.array([2**60], pa.timestamp("us")), pa.array([b"\xff"])])
def test_a_value_that_no_partition_can_have_is_refused(tmp_path: Path, values: pa.Array) -> None:
    with pytest.raises(InvalidArgument, match="'p'"):
        write_into(tmp_path, pa.table({"p": values, "n": [1]}), "p")
    assert parquet_files(tmp_path) == []


def test_random_prefixes(tmp_path: Path) -> None:
    data = pa.table({"p": [1], "n": [1]})
    metadata = table_for(data, "p", **{"delta.randomizeFilePrefixes": "true",
                                       "delta.randomPrefixLength": "5"})
    (file,) = write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, data)
    assert len(file.path.partition("/")[0]) == 5


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    def once(root: Path) -> list[AddFile]:
        with set_options(new_id=SeededIds(7), clock=lambda: 5):
            return write_into(root, {"p": [1, 2], "n": [1, 2]}, "p")

    assert once(tmp_path / "a") == once(tmp_path / "b")
    assert once(tmp_path / "c")[0].modification_time == 5


# --- kinds of data --------------------------------------------------------------------------------

class StreamOnly:
    """As polars and others hand out data."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


@pytest.mark.parametrize("data", [
    TABLE, TABLE.to_batches()[0], TABLE.to_reader(), ds.dataset(TABLE), ds.dataset(TABLE).scanner(),
    StreamOnly(TABLE), TABLE.to_pandas(), {"a": [1, 2], "b": ["x", None]},
    [{"a": 1, "b": "x"}, {"a": 2}], [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
], ids=lambda data: type(data).__name__)
def test_kinds_of_data(tmp_path: Path, data: Any) -> None:
    (file,) = write_files(LocalStore(str(tmp_path)), table_for(TABLE), PROTOCOL, data)
    assert pq.read_table(tmp_path / file.path).to_pylist() == TABLE.to_pylist()


def test_a_pandas_index_with_a_name_is_a_column() -> None:
    frame = pd.DataFrame({"v": [1.5, float("nan")]}, index=pd.Index(["a", "b"], name="key"))
    source = inputs.source(frame)
    assert set(source.schema.names) == {"v", "key"}
    assert pa.Table.from_batches(source.batches())["v"].to_pylist() == [1.5, None]
    assert inputs.source(frame.reset_index(drop=True)).schema.names == ["v"]
    assert inputs.source(frame[frame.v > 1].reset_index(drop=True)).schema.metadata is None


@pytest.mark.parametrize(("data", "says"), [
    (5, "int"), ("text", "str"), ({"a": 1}, "'a'"), ({"a": "text"}, "'a'"),
    ({"a": [1, "x"]}, "'a'"), ({"a": [1], "b": [1, 2]}, "different numbers"), ([1], "row 1"),
])
def test_what_is_no_data_is_refused(data: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        inputs.source(data)


LONG = int("9" * 38)
BIG = StructType([
    StructField("d", PrimitiveType("decimal(38,0)")), StructField("n", PrimitiveType("long")),
    StructField("a", ArrayType(PrimitiveType("decimal(38,0)"))),
    StructField("s", StructType([StructField("x", PrimitiveType("decimal(38,0)"))]))])


@pytest.mark.parametrize("data", [
    {"d": [LONG, -LONG, 1], "n": [1, 2, 3], "a": [[1, LONG], None, []],
     "s": [{"x": LONG}, None, {"x": 2**63}]},
    [{"d": LONG, "n": 1, "a": [1, LONG], "s": {"x": LONG}}, {"d": -LONG, "n": 2},
     {"d": 1, "n": 3, "a": [], "s": {"x": 2**63}}],
    {"d": iter([LONG, -LONG, 1]), "n": [1, 2, 3], "a": [[1, LONG], None, []],
     "s": [{"x": LONG}, None, {"x": 2**63}]},
])
def test_integers_of_any_length_are_decimals_where_the_table_has_them(data: Any) -> None:
    table = dn.create(MemoryStore(), BIG)
    table.append(data)
    assert table.to_arrow().to_pydict() == {
        "d": [LONG, -LONG, 1], "n": [1, 2, 3], "a": [[1, LONG], None, []],
        "s": [{"x": LONG}, None, {"x": 2**63}]}


def test_integers_of_any_length_in_a_frame_too() -> None:
    table = dn.create(MemoryStore(), StructType(BIG.fields[:2]))
    table.append(pd.DataFrame({"d": [LONG, 1], "n": [1, 2]}))
    assert table.to_arrow()["d"].to_pylist() == [LONG, 1]


@pytest.mark.parametrize("value", [2**63, 10**38, 10**80, 10**5000], ids=lambda v: str(v.bit_length()))
def test_integers_that_are_too_long_for_the_column_are_refused(value: int) -> None:
    table = dn.create(MemoryStore(), StructType(BIG.fields[:2]))
    for data in ({"n": [value]}, {"d": [value * 10**20]}):
        with pytest.raises(DeltaError, match="out of its range|needs more digits|cannot be converted"):
            table.append(data)
    assert table.version == 0


def test_no_rows_make_no_files(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for data in (TABLE.slice(0, 0), {"a": [], "b": []}, [], {}):
        assert write_files(store, table_for(TABLE), PROTOCOL, data) == []
    assert parquet_files(tmp_path) == []


# --- sizes ----------------------------------------------------------------------------------------

def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    batches = [pa.record_batch({"n": [i]}) for i in range(500)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    (file,) = write_files(LocalStore(str(tmp_path)), table_for(batches[0]), PROTOCOL, reader)
    footer = pq.read_metadata(tmp_path / file.path)
    assert (footer.num_row_groups, footer.num_rows, file.num_records) == (1, 500, 500)


def test_files_end_near_the_target_size(tmp_path: Path) -> None:
    ids = SeededIds(1)
    rows = pa.table({"n": list(range(40_000)), "text": [ids() for _ in range(40_000)]})
    batches = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(1000))
    target = 200_000
    files = write_files(LocalStore(str(tmp_path)), table_for(rows), PROTOCOL, batches,
                        file_options=FileOptions(target))
    assert len(files) > 3 and sum(file.num_records or 0 for file in files) == 40_000
    assert all(target / 2 < file.size < 2 * target for file in files[:-1])
    assert ds.dataset([tmp_path / f.path for f in files]).to_table()["n"].to_pylist() == list(range(40_000))
    spans = [json.loads(file.stats or "") for file in files]
    assert [s["minValues"]["n"] for s in spans][1:] == [s["maxValues"]["n"] + 1 for s in spans][:-1]


def test_the_tables_property_sets_the_target(tmp_path: Path) -> None:
    rows = pa.table({"n": list(range(50_000))})
    metadata = table_for(rows, **{"delta.targetFileSize": "20kb"})
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(1000))
    assert len(write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, reader)) > 3
    with pytest.raises(InvalidArgument, match="target_file_size"):
        write_into(tmp_path, rows, file_options=FileOptions(0))


def test_memory_and_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 2_000)
    monkeypatch.setattr(write, "MAX_OPEN_FILES", 2)
    rows = pa.table({"p": [i % 7 for i in range(2_000)], "n": list(range(2_000))})
    batches = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(100))
    metadata = table_for(rows, "p")
    files = write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, batches)
    commit(tmp_path, metadata, files)
    assert len(files) > 7
    assert read_by_peer(tmp_path, "n").select(["p", "n"]).to_pylist() == rows.to_pylist()


# --- how the files are stored ---------------------------------------------------------------------

CODECS = [  # the property, what the footer says of it, what the name does
    (None, "ZSTD", ".zstd"), ("ZSTD", "ZSTD", ".zstd"), ("snappy", "SNAPPY", ".snappy"),
    ("gzip", "GZIP", ".gz"), ("none", "UNCOMPRESSED", ""), ("uncompressed", "UNCOMPRESSED", ""),
    # pyarrow's footers have one word for the deprecated framing (UNKNOWN by now) and the block format.
    ("lz4", "LZ4", ".lz4raw"), ("lz4_raw", "LZ4", ".lz4raw"),
]


def page_version(path: Path) -> int:
    """1 or 2: what the header of the file's first data page says.

    A header begins with the page's type, field 1 of a Thrift struct: an integer in zigzag form.
    """
    with path.open("rb") as file:
        file.seek(pq.read_metadata(path).row_group(0).column(0).data_page_offset)
        return {b"\x15\x00": 1, b"\x15\x06": 2}[file.read(2)]


@pytest.mark.parametrize(("codec", "stored", "suffix"), CODECS)
def test_files_are_compressed_as_the_table_asks(
    tmp_path: Path, codec: str | None, stored: str, suffix: str
) -> None:
    rows = pa.table({"n": list(range(1000)), "text": ["some text"] * 1000})
    metadata = table_for(rows, **({"delta.parquet.compression.codec": codec} if codec else {}))
    files = write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, rows)
    (path,) = parquet_files(tmp_path)
    footer = pq.read_metadata(path).row_group(0)
    assert {footer.column(i).compression for i in range(2)} == {stored}
    assert path.name.endswith(f"-c000{suffix}.parquet")
    commit(tmp_path, metadata, files)
    assert read_by_peer(tmp_path, "n")["n"].to_pylist() == list(range(1000))


@pytest.mark.parametrize("codec", ["brotli", "lzo", "zstd-9", ""])
def test_a_codec_that_cannot_be_written_is_refused_by_name(tmp_path: Path, codec: str) -> None:
    rows = pa.table({"n": [1]})
    asks = {"delta.parquet.compression.codec": codec}
    with pytest.raises(InvalidArgument, match=rf"compression.codec = '{codec}'.*zstd"):
        create(tmp_path / "table", rows, properties=asks)
    assert not (tmp_path / "table").exists()
    # Another writer has set it.
    with pytest.raises(InvalidArgument, match=rf"compression.codec = '{codec}'.*zstd"):
        write_files(LocalStore(str(tmp_path)), table_for(rows, **asks), PROTOCOL, rows)
    assert parquet_files(tmp_path) == []


@pytest.mark.parametrize(("version", "pages"), [(None, 1), ("1.0.0", 1), ("2.12.0", 2), ("2.0.1", 2)])
def test_pages_have_the_format_that_the_table_asks_for(
    tmp_path: Path, version: str | None, pages: int
) -> None:
    asks = {"delta.parquet.format.version": version} if version else {}
    metadata = table_for(ALL_TYPES, **asks)
    files = write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, ALL_TYPES)
    (path,) = parquet_files(tmp_path)
    assert page_version(path) == pages
    commit(tmp_path, metadata, files)
    read = read_by_peer(tmp_path, "n").select(ALL_TYPES.schema.names)
    assert str(read.to_pylist()) == str(ALL_TYPES.to_pylist())


@pytest.mark.parametrize("version", ["3.0.0", "1.1.0", "2", "2.12", "v2", "2.x.y"])
def test_an_unknown_format_of_pages_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(InvalidArgument, match=r"parquet.format.version = .*2\.MINOR\.PATCH"):
        create(tmp_path / "t", {"n": [1]}, properties={"delta.parquet.format.version": version})


# --- partition columns in the files ---------------------------------------------------------------

MATERIALIZED = "materializePartitionColumns"
ASKS = [  # properties of the table, writer features of its protocol
    ({}, (MATERIALIZED,)), ({"delta.writePartitionColumnsToParquet": "true"}, ()),
    ({"delta.writePartitionColumnsToParquet": "false"}, (MATERIALIZED,)),
]


@pytest.mark.parametrize(("asks", "features"), ASKS)
def test_partition_columns_are_in_the_files_if_the_table_asks(
    tmp_path: Path, asks: dict[str, str], features: tuple[str, ...]
) -> None:
    data = pa.table({"p": ["a", "b", "", None], "day": [date(2024, 1, 2)] * 4, "n": [1, 2, 3, 4]})
    metadata = table_for(data, "p", "day", **asks)
    protocol = Protocol(1, 7, None, features)
    files = write_files(LocalStore(str(tmp_path)), metadata, protocol, data)
    stored = [pq.ParquetFile(tmp_path / decode_path(file.path)).read() for file in files]
    assert [table.schema.names for table in stored] == [["n", "p", "day"]] * 3
    assert pa.concat_tables(stored).to_pylist() == [
        {"n": n, "p": p, "day": date(2024, 1, 2)} for n, p in ((1, "a"), (2, "b"), (3, None), (4, None))]
    # The log says the same without them, and says no more of them.
    plain = write_files(LocalStore(str(tmp_path / "plain")), table_for(data, "p", "day"), PROTOCOL, data)
    assert [(f.partition_values, f.stats) for f in files] == [
        (f.partition_values, f.stats) for f in plain]
    commit(tmp_path, metadata, files, protocol)
    assert read_by_peer(tmp_path, "n").select(data.schema.names).to_pylist() == [
        {**row, "p": row["p"] or None} for row in data.to_pylist()]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_partition_columns_in_files_have_names_and_ids(tmp_path: Path, mode: str) -> None:
    data = pa.table({"p q": ["v"], "n": [1]})
    schema, last = column_mapping.assign(from_arrow(data.schema))
    metadata = Metadata("id", schema.to_json(), partition_columns=("p q",), configuration={
        "delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": str(last)})
    protocol = Protocol(2, 7, None, ("columnMapping", MATERIALIZED))
    (file,) = write_files(LocalStore(str(tmp_path)), metadata, protocol, data)
    stored = pq.ParquetFile(tmp_path / decode_path(file.path)).schema_arrow
    fields = [schema.field(name) for name in ("n", "p q")]
    assert [(f.name, f.metadata[b"PARQUET:field_id"]) for f in stored] == [
        (f.physical_name, str(f.metadata["delta.columnMapping.id"]).encode()) for f in fields]
    assert file.partition_values == {schema.field("p q").physical_name: "v"}


def test_the_log_says_the_partition_values_whatever_the_file_says(tmp_path: Path) -> None:
    """As after a change of a file's partition by an action: Delta's readers take the log's word."""
    table = create(tmp_path / "t", {"p": [1, 1], "n": [1, 2]}, partition_by=["p"],
                   properties={"delta.enableMaterializePartitionColumnsFeature": "true"})
    assert MATERIALIZED in (table.protocol.writer_features or ())
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    (tmp_path / "t" / file.path).rename(tmp_path / "t" / "moved.parquet")
    txn.commit([file.remove(), file.replace(path="moved.parquet", partition_values={"p": "7"})])
    assert table.to_arrow().sort_by("n").to_pylist() == [{"p": 7, "n": 1}, {"p": 7, "n": 2}]
    assert table.to_arrow(where="p = 7").num_rows == 2 and table.to_arrow(where="p = 1").num_rows == 0


def test_rewritten_rows_and_change_files_have_the_columns_too(tmp_path: Path) -> None:
    table = create(tmp_path / "t", {"p": [1, 1, 2], "n": [1, 2, 3]}, partition_by=["p"], properties={
        "delta.feature.materializePartitionColumns": "supported", "delta.enableChangeDataFeed": "true"})
    table.update({"n": "n + 10"}, where="n = 1")
    table.append({"p": [2], "n": [4]})
    table.optimize()
    names = {tuple(pq.ParquetFile(path).schema_arrow.names) for path in parquet_files(tmp_path / "t")
             if "_delta_log" not in path.parts}
    assert names == {("n", "p"), ("n", "_change_type", "p")}
    assert table.changes(1, 1).sort_by("n").select(["p", "n", "_change_type"]).to_pylist() == [
        {"p": 1, "n": 1, "_change_type": "update_preimage"},
        {"p": 1, "n": 11, "_change_type": "update_postimage"}]
    assert table.drop_feature(MATERIALIZED) == table.version
    table.append({"p": [3], "n": [5]})
    (newest,) = table.start_transaction().filter_files("p = 3")
    assert pq.ParquetFile(tmp_path / "t" / newest.path).schema_arrow.names == ["n"]


# --- failures -------------------------------------------------------------------------------------

def failing_after(rows: int) -> Iterator[pa.RecordBatch]:
    for i in range(rows):
        yield pa.record_batch({"n": [i], "p": [i % 2]})
    raise RuntimeError("the source broke")


def test_nothing_is_left_of_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_BYTES", 100)  # files are open early
    schema = pa.schema({"n": pa.int64(), "p": pa.int64()})
    metadata = table_for(schema.empty_table(), "p")
    store = LocalStore(str(tmp_path))
    reader = pa.RecordBatchReader.from_batches(schema, failing_after(200))
    with pytest.raises((RuntimeError, pa.ArrowInvalid), match="the source broke"):
        write_files(store, metadata, PROTOCOL, reader)
    late = pa.RecordBatchReader.from_batches(
        schema, [pa.record_batch({"n": [i], "p": [0]}) for i in range(200)])
    with pytest.raises(ConstraintViolation, match="row 151"):
        write_files(store, metadata, PROTOCOL, late, checks=[Check("few", "n < 150")])
    assert parquet_files(tmp_path) == []


def test_a_file_that_cannot_be_ended_is_removed(tmp_path: Path) -> None:
    class Broken(LocalStore):
        def open_output(self, name: str) -> Any:
            if "part-00001" in name:
                raise OSError("disk full")
            return super().open_output(name)

    with pytest.raises(OSError, match="disk full"):
        write_files(Broken(str(tmp_path)), table_for({"p": [1, 2], "n": [1, 2]}, "p"), PROTOCOL,
                    {"p": [1, 2], "n": [1, 2]})
    assert parquet_files(tmp_path) == []


def test_what_does_not_fit_writes_nothing(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    with pytest.raises(SchemaMismatch):
        write_files(store, table_for(TABLE), PROTOCOL, {"c": [1]})
    with pytest.raises(SchemaMismatch, match="row 2"):
        write_files(store, table_for(TABLE.cast(pa.schema({"a": pa.int8(), "b": pa.string()}))),
                    PROTOCOL, {"a": [1, 1000], "b": ["", ""]})
    with pytest.raises(InvalidSchema, match="partition column"):
        write_into(tmp_path, {"p": [1]}, "p")
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []


def test_rows_are_numbered_across_batches(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(
        pa.schema({"a": pa.int64()}), [pa.record_batch({"a": [i, i]}) for i in (1, 2, 300)])
    metadata = Metadata("id", StructType.from_json(
        '{"type":"struct","fields":[{"name":"a","type":"byte"}]}').to_json())
    with pytest.raises(SchemaMismatch) as caught:
        write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, reader)
    assert (caught.value.row, caught.value.value) == (5, 300)


def test_an_empty_string_in_a_partition_column_is_null_to_constraints(tmp_path: Path) -> None:
    metadata = table_for({"p": ["a"], "n": [1]}, "p", **{"delta.constraints.p": "p IS NOT NULL"})
    with pytest.raises(ConstraintViolation, match="row 2"):
        write_files(LocalStore(str(tmp_path)), metadata, PROTOCOL, {"p": ["a", ""], "n": [1, 2]})


def test_variants(tmp_path: Path) -> None:
    from deltanb.table.entry import create

    kind = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}  # the integer 5
    data = pa.table({"n": [1, 2], "v": pa.array([one, None], kind)})
    table = create(tmp_path, data)
    assert str(table.schema.field("v").type) == "variant" and table.protocol.supports("variantType")
    loose = pa.table({"n": [3], "v": [{"value": one["value"], "metadata": one["metadata"]}]})
    table.append(loose)
    assert table.to_arrow().sort_by("n")["v"].to_pylist() == [one, None, one]
    assert [json.loads(text)["nullCount"] for text in table.snapshot.files["stats"].to_pylist()] == [
        {"n": 0, "v": 1}, {"n": 0, "v": 0}]


def test_void_columns_are_in_the_schema_and_not_in_the_file(tmp_path: Path) -> None:
    data = pa.table({"a": [1], "v": pa.nulls(1)})
    (file,) = write_into(tmp_path, data)
    assert pq.read_schema(tmp_path / file.path).names == ["a"]
    assert json.loads(file.stats or "")["nullCount"] == {"a": 0, "v": 1}


def test_footers_have_no_bounds_of_floats_and_all_others(tmp_path: Path) -> None:
    """Spark would skip a row group whose bounds leave out its NaN."""
    nested = pa.struct([("f", pa.float32()), ("s", pa.string())])
    rows = pa.table({
        "i": pa.array([1, 2]), "x": [1.0, float("nan")],
        "n": pa.array([{"f": 1.0, "s": "a"}] * 2, nested),
        "l": pa.array([[1.0], [2.0]]), "t": pa.array([["a"], ["b"]]),
        "m": pa.array([[("k", 1.5)]] * 2, pa.map_(pa.string(), pa.float64())),
    })
    create(tmp_path / "t", rows)
    [file] = (tmp_path / "t").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert {c.path_in_schema for c in columns if c.is_stats_set} == {
        "i", "n.s", "t.list.element", "m.key_value.key"}


def varied(rows: int) -> pa.Table:
    """Columns of every type with bounds, some NULL in places or altogether."""
    numbers = range(rows)
    return pa.table({
        "byte": pa.array([n % 200 - 100 for n in numbers], pa.int8()),
        "long": pa.array([None if n % 7 == 0 else (n - 50) * 2**50 for n in numbers], pa.int64()),
        "double": pa.array([n / 8 for n in numbers]),
        "nan": pa.array([float("nan") if n == 5 else n / 8 for n in numbers]),
        "ends": pa.array([float("inf") if n % 2 else float("-inf") for n in numbers]),
        "dec": pa.array([Decimal(n - 30).scaleb(-2) for n in numbers], pa.decimal128(12, 2)),
        "day": pa.array([n - 40 for n in numbers], pa.date32()),
        "time": pa.array([(n - 40) * 999_999 for n in numbers], pa.timestamp("us", "UTC")),
        "text": pa.array([None if n % 3 else f"é {n}" for n in numbers]),
        "flag": pa.array([n % 2 == 0 for n in numbers]),
        "bytes": pa.array([b"x" * n for n in numbers]),
        "list": pa.array([None if n % 5 else [n, None] for n in numbers], pa.list_(pa.int64())),
        "struct": pa.array([None if n % 5 else {"x": n, "y": f"{n}", "z": None} for n in numbers],
                           pa.struct({"x": pa.int32(), "y": pa.string(), "z": pa.int64()})),
        "none": pa.nulls(rows, pa.int64()),
    })


LONG_TEXT = pa.table({"n": list(range(60)), "text": ["a" * (5000 if n == 7 else 10) for n in range(60)]})
DOTTED = pa.table({"a.b": list(range(60)), "a": [{"b": -n} for n in range(60)]})


@pytest.mark.parametrize("rows", [varied(60), LONG_TEXT, DOTTED, LONG_TEXT.slice(0, 5)],
                         ids=["all", "long", "dots", "few"])
@pytest.mark.parametrize("group", [17, 1000])
def test_statistics_from_the_footer_are_those_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: pa.Table, group: int
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", group)
    monkeypatch.setattr(file_writer, "FOOTER_ROWS", 1000)
    (measured,) = write_into(tmp_path, rows)
    monkeypatch.setattr(file_writer, "FOOTER_ROWS", 1)
    (add,) = write_into(tmp_path, rows)
    assert add.stats == measured.stats


def test_only_floats_are_measured_where_the_footer_tells_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    real = statistics._measure

    def measure(column: Any, leaf: statistics.Leaf, state: Any) -> None:
        measured.append(leaf.path[0])
        real(column, leaf, state)

    monkeypatch.setattr(statistics, "_measure", measure)
    monkeypatch.setattr(file_writer, "FOOTER_ROWS", 1)
    reads: list[str] = []
    monkeypatch.setattr(LocalStore, "open_input", lambda _, name: reads.append(name))
    write_into(tmp_path, varied(60))
    assert measured == ["double", "nan", "ends", "struct"]  # of the struct its text, which may be long
    assert not reads
