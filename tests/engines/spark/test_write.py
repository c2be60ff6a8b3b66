"""Spark's writer against the writer of the process: the same rows give the same description."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from deltanb.actions import Metadata, Protocol, decode_path
from deltanb.engines.arrow import write as in_process
from deltanb.engines.arrow.constraints import Within
from deltanb.engines.spark import folders
from deltanb.engines.spark import write as spark_write
from deltanb.errors import ConstraintViolation, InvalidArgument, InvalidSchema, SchemaMismatch
from deltanb.log.file_options import FileOptions
from deltanb.options import SeededIds, set_options
from deltanb.schema.column_mapping import MAX_ID_KEY, MODE_KEY, assign
from deltanb.schema.types import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    from_arrow,
    to_arrow,
)
from deltanb.store.local import LocalStore
from tests.helpers import schema_of, tree

pytestmark = pytest.mark.spark

PLAIN = Protocol(1, 2)
MAPPED = Protocol(2, 5)
UTC = dt.timezone.utc


def table_of(schema: StructType, partition_by=(), **configuration) -> Metadata:
    properties = {key.replace("__", "."): value for key, value in configuration.items()}
    return Metadata("t", schema.to_json(), tuple(partition_by), properties)


def rows_of(folder: Path, files) -> list[dict]:
    rows = []
    for file in files:
        stored = pq.ParquetFile(folder / decode_path(file.path)).read().to_pylist()
        rows += [{**row, **file.partition_values} for row in stored]
    return rows


def page_version(path: Path) -> int:
    """1 or 2, as the first page's header begins: field 1 of a Thrift struct, the page's type."""
    with path.open("rb") as file:
        file.seek(pq.read_metadata(path).row_group(0).column(0).data_page_offset)
        return {b"\x15\x00": 1, b"\x15\x06": 2}[file.read(2)]


def both(spark, tmp_path, rows: pa.Table, metadata: Metadata, protocol: Protocol = PLAIN):
    """The files that either engine makes of the same rows, in one file a partition."""
    made = {}
    for name in ("process", "spark"):
        store = LocalStore(tmp_path / name)
        data = rows if name == "process" else spark.createDataFrame(rows).coalesce(1)
        write = in_process.write_files if name == "process" else spark_write.write_files
        made[name] = write(store, metadata, protocol, data)
    return made["process"], made["spark"]


def described(files):
    return sorted(((f.partition_values, json.loads(f.stats), f.data_change) for f in files), key=str)


# --- the same description ---------------------------------------------------------------------------


EVERY_TYPE = pa.table({
    "byte": pa.array([1, -128, None], pa.int8()),
    "short": pa.array([1, -32768, None], pa.int16()),
    "integer": pa.array([7, None, -7], pa.int32()),
    "long": pa.array([2**62, -1, None], pa.int64()),
    "float": pa.array([0.1, -0.0, None], pa.float32()),
    "double": pa.array([1e300, None, -2.5], pa.float64()),
    "nan": pa.array([math.nan, 1.0, 5.0], pa.float64()),
    "all_nan": pa.array([math.nan, math.nan, None], pa.float32()),
    "infinite": pa.array([math.inf, 1.0, None], pa.float64()),
    "d9": pa.array([Decimal("1.50"), Decimal("-7.25"), None], pa.decimal128(9, 2)),
    "d18": pa.array([Decimal("1.500"), Decimal("-7.250"), None], pa.decimal128(18, 3)),
    "d38": pa.array([Decimal("12345678901234567890123.5"), None, None], pa.decimal128(38, 1)),
    "boolean": pa.array([True, False, None]),
    "string": pa.array(["b", "é" * 40, None]),
    "long_text": pa.array(["a" * 5000, "b", None]),
    "emoji": pa.array(["\U0001f600" * 40, "z" * 33, None]),
    "binary": pa.array([b"\x00\xff", b"", None]),
    "date": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None]),
    "timestamp": pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 456789, UTC),
                           dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None],
                          pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(9999, 12, 31)],
                              pa.timestamp("us")),
    "nothing": pa.array([None, None, None], pa.int32()),
    "struct": pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None],
                       pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])),
    "array": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
})


def test_files_of_every_type_are_described_as_in_the_process(spark, tmp_path):
    metadata = table_of(from_arrow(EVERY_TYPE.schema))
    process, sparks = both(spark, tmp_path, EVERY_TYPE, metadata)
    assert len(sparks) == 1
    assert described(sparks) == described(process)
    assert sparks[0].stats == process[0].stats


def test_files_hold_what_files_of_the_process_hold(spark, tmp_path):
    metadata = table_of(from_arrow(EVERY_TYPE.schema))
    process, sparks = both(spark, tmp_path, EVERY_TYPE, metadata)
    columns = [c for c in EVERY_TYPE.column_names if "nan" not in c]
    stored = [pq.read_table(tmp_path / name / decode_path(files[0].path), columns=columns)
              for name, files in (("process", process), ("spark", sparks))]
    assert stored[0].to_pylist() == stored[1].to_pylist()
    kinds = [{field.name: field.type for field in table.schema
              if not pa.types.is_nested(field.type)} for table in stored]
    assert kinds[0] == kinds[1], "the same Parquet types: micros, no INT96"


@pytest.mark.parametrize("seed", range(4))
def test_rows_at_random_are_described_as_in_the_process(spark, tmp_path, seed):
    rows = _rows_at_random(random.Random(seed), [1, 2, 50, 3000][seed])
    process, sparks = both(spark, tmp_path, rows, table_of(from_arrow(rows.schema), ["p"]))
    assert described(sparks) == described(process)


def _rows_at_random(draw: random.Random, count: int) -> pa.Table:
    letters = "aZ é\u3042\U0001f600\x7f\uffff\n\"\\"
    lengths = [0, 1, 5, 31, 32, 33, 40, 64, 65, 70, 3000]
    start = dt.datetime(1, 1, 1)
    columns = {
        "i": (pa.int64(), lambda: draw.randint(-2**63, 2**63 - 1)),
        "f": (pa.float32(), lambda: draw.choice([draw.gauss(0, 1), 0.0, -0.0, math.nan, math.inf])),
        "d": (pa.float64(), lambda: draw.choice([draw.gauss(0, 1e300), -0.0, 5e-324])),
        "s": (pa.string(), lambda: "".join(draw.choices(letters, k=draw.choice(lengths)))),
        "n": (pa.decimal128(22, 4), lambda: Decimal(draw.randint(-10**18, 10**18)).scaleb(-4)),
        "t": (pa.timestamp("us", "UTC"),
              lambda: start + dt.timedelta(microseconds=draw.randint(0, 3 * 10**17))),
        "a": (pa.list_(pa.int32()), lambda: [draw.choice([None, 1]) for _ in range(draw.randint(0, 3))]),
        "st": (pa.struct([("x", pa.struct([("y", pa.string())]))]),
               lambda: {"x": draw.choice([None, {"y": "q"}])}),
        "p": (pa.string(), lambda: draw.choice(["a", "", "é/="])),
    }
    return pa.table({
        name: pa.array([None if draw.random() < 0.2 else value() for _ in range(count)], kind)
        for name, (kind, value) in columns.items()})


PARTITION_VALUES = {
    "string": ["plain", "a/b=c %ü:", "", None, "__HIVE_DEFAULT_PARTITION__", " "],
    "integer": [1, -1, None], "date": [dt.date(2020, 2, 29), None],
    "boolean": [True, False, None], "double": [0.1, 1e10, math.inf, None],
    "decimal(5,2)": [Decimal("1.50"), None], "binary": [b"ab", b"", None, b"__HIVE_DEFAULT_PARTITION__"],
    "timestamp": [dt.datetime(2020, 1, 1, 1, 2, 3, 4, UTC), dt.datetime(1960, 1, 1, tzinfo=UTC), None],
    "timestamp_ntz": [dt.datetime(2020, 1, 1, 1, 2, 3, 4), dt.datetime(2020, 1, 1), None],
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partition_values_are_written_as_in_the_process(spark, tmp_path, kind):
    schema = schema_of(id="long", p=kind)
    values = PARTITION_VALUES[kind]
    rows = pa.table({"id": range(len(values)), "p": values}, schema=to_arrow(schema))
    metadata = table_of(schema, ["p"])
    process, sparks = both(spark, tmp_path, rows, metadata)
    assert described(sparks) == described(process)
    folders = [{str(Path(decode_path(f.path)).parent) for f in files} for files in (process, sparks)]
    assert folders[0] == folders[1]
    by_id = [sorted(rows_of(tmp_path / name, files), key=lambda row: row["id"])
             for name, files in (("process", process), ("spark", sparks))]
    assert by_id[0] == by_id[1]


def test_two_partition_columns_keep_their_order(spark, tmp_path):
    schema = schema_of(b="integer", id="long", a="string")
    rows = pa.table({"b": [1, 1, 2], "id": [1, 2, 3], "a": ["x", "y", "x"]}, schema=to_arrow(schema))
    process, sparks = both(spark, tmp_path, rows, table_of(schema, ["a", "b"]))
    assert described(sparks) == described(process)
    assert sorted(f.path.rpartition("/")[0] for f in sparks) == ["a=x/b=1", "a=x/b=2", "a=y/b=1"]


def test_a_session_in_another_zone_writes_the_same_partition_value(spark, tmp_path):
    schema = schema_of(id="long", p="timestamp")
    rows = pa.table({"id": [1], "p": [dt.datetime(2020, 1, 1, tzinfo=UTC)]}, schema=to_arrow(schema))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        _, sparks = both(spark, tmp_path, rows, table_of(schema, ["p"]))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sparks[0].partition_values == {"p": "2020-01-01T00:00:00.000000Z"}


NESTED = StructType([
    StructField("id", PrimitiveType("long")),
    StructField("s", StructType([
        StructField("x y", PrimitiveType("string")),
        StructField("items", ArrayType(StructType([StructField("q", PrimitiveType("integer"))]))),
        StructField("m", MapType(PrimitiveType("string"), PrimitiveType("long"))),
    ])),
    StructField("p", PrimitiveType("string")),
])


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids_at_every_level(spark, tmp_path, mode):
    numbers = iter(range(100))
    schema, last = assign(NESTED, new_name=lambda: f"col-{next(numbers)}")
    metadata = Metadata("t", schema.to_json(), ("p",), {MODE_KEY: mode, MAX_ID_KEY: str(last)})
    rows = pa.table({"id": [1, 2], "s": [{"x y": "a", "items": [{"q": 1}], "m": [("k", 2)]}, None],
                     "p": ["u", None]}, schema=to_arrow(schema))
    process, sparks = both(spark, tmp_path, rows, metadata, MAPPED)
    assert described(sparks) == described(process)
    stored = [pq.ParquetFile(tmp_path / name / decode_path(files[0].path))
              for name, files in (("process", process), ("spark", sparks))]
    assert _ids(stored[0].schema_arrow) == _ids(stored[1].schema_arrow)
    by_id = [sorted((pq.ParquetFile(tmp_path / name / decode_path(f.path)).read().to_pylist()
                     for f in files), key=str) for name, files in (("process", process),
                                                                   ("spark", sparks))]
    assert by_id[0] == by_id[1]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_of_a_flat_table_have_their_ids_too(spark, tmp_path, mode):
    schema, last = assign(schema_of(n="long", s="string"))
    metadata = Metadata("t", schema.to_json(), (), {MODE_KEY: mode, MAX_ID_KEY: str(last)})
    rows = pa.table({"n": [1], "s": ["a"]})
    stored = [pq.ParquetFile(tmp_path / name / decode_path(files[0].path)).schema_arrow
              for name, files in zip(("process", "spark"), both(spark, tmp_path, rows, metadata, MAPPED),
                                     strict=True)]
    assert _ids(stored[0]) == _ids(stored[1]) != {}


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_partition_columns_are_in_the_files_as_in_the_process(spark, tmp_path, mode):
    """Where the table asks for it; with a key of each kind, empty texts, and NOT NULL."""
    schema = StructType([
        StructField("t", PrimitiveType("timestamp")), StructField("id", PrimitiveType("long")),
        StructField("s", PrimitiveType("string")), StructField("b", PrimitiveType("binary")),
        StructField("k", PrimitiveType("integer"), nullable=False)])
    numbers = iter(range(100))
    schema, last = assign(schema, new_name=lambda: f"col-{next(numbers)}")
    by = ("s", "t", "b", "k")
    configuration = {} if mode == "none" else {MODE_KEY: mode, MAX_ID_KEY: str(last)}
    metadata = Metadata("t", schema.to_json(), by, configuration)
    protocol = Protocol(2, 7, None, ("columnMapping", "materializePartitionColumns"))
    at = dt.datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
    rows = pa.table({"t": [at, None, at], "id": [1, 2, 3], "s": ["x", "", None],
                     "b": [b"\x01", b"", None], "k": [1, 2, 2]}, schema=to_arrow(schema))
    process, sparks = both(spark, tmp_path, rows, metadata, protocol)
    assert described(sparks) == described(process)
    layouts = []
    for engine, files in (("process", process), ("spark", sparks)):
        tables = [pq.ParquetFile(tmp_path / engine / decode_path(f.path)).read() for f in files]
        assert len({(tuple(t.schema.names), str(_ids(t.schema))) for t in tables}) == 1
        layouts.append((tables[0].schema.names, _ids(tables[0].schema),
                      sorted((row for t in tables for row in t.to_pylist()), key=str)))
    assert layouts[0] == layouts[1] and len(layouts[0][0]) == 5
    stored = [list(row.values()) for row in layouts[1][2]]
    assert sorted(stored) == [[1, "x", at, b"\x01", 1], [2, None, None, None, 2], [3, None, at, None, 2]]


def test_spark_reads_partition_values_from_the_log_though_files_have_them(spark, tmp_path):
    import deltanb as dn

    table = dn.create(tmp_path / "t", {"p": [1, 2], "n": [1, 2]}, partition_by=["p"],
                      properties={"delta.writePartitionColumnsToParquet": "true"})
    assert sorted(table.to_df(spark).collect()) == [(1, 1), (2, 2)]  # by the folders
    txn = table.start_transaction()
    (file,) = txn.filter_files("p = 1")
    (tmp_path / "t" / file.path).rename(tmp_path / "t" / "moved.parquet")
    txn.commit([file.remove(), file.replace(path="moved.parquet", partition_values={"p": "7"})])
    assert sorted(table.to_df(spark).collect()) == [(2, 2), (7, 1)]  # by the log
    table.delete("n = 2")
    assert [tuple(row) for row in table.to_df(spark, where="p = 7").collect()] == [(7, 1)]


def _ids(fields, path=()):
    ids = {}
    for field in fields:
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number and int(number) > 0:
            ids[(*path, field.name)] = int(number)
        kind = field.type
        inner = [kind.value_field] if pa.types.is_list(kind) else (
            list(kind) if pa.types.is_struct(kind) else [])
        name = "element" if pa.types.is_list(kind) else field.name
        ids |= _ids(inner, (*path, name))
    return ids


# --- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "codec", ["none", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "uncompressed", None])
def test_files_are_stored_as_in_the_process(spark, tmp_path, codec):
    rows = pa.table({"n": list(range(1000)), "text": ["some text"] * 1000})
    asks = {} if codec is None else {"delta__parquet__compression__codec": codec}
    for version, pages in (("1.0.0", 1), ("2.12.0", 2)):
        metadata = table_of(from_arrow(rows.schema), **asks, delta__parquet__format__version=version)
        folder = tmp_path / version
        made = both(spark, folder, rows, metadata)
        names, stored = [], []
        for engine, files in zip(("process", "spark"), made, strict=True):
            path = folder / engine / decode_path(files[0].path)
            names.append(path.name.partition("-c000")[2])
            stored.append(pq.read_metadata(path).row_group(0).column(0).compression)
            assert page_version(path) == pages
            assert pq.read_table(path).equals(rows)
            assert spark.read.parquet(str(path)).count() == 1000
        assert names[0] == names[1] and stored[0] == stored[1]
    with pytest.raises(InvalidArgument, match=r"codec = 'brotli'"):
        both(spark, tmp_path, rows, table_of(
            from_arrow(rows.schema), delta__parquet__compression__codec="brotli"))


def test_nothing_but_the_files_is_left(spark, tmp_path):
    metadata = table_of(schema_of(id="long", p="integer"), ["p"])
    files = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN,
                                    spark.range(10).selectExpr("id", "int(id % 3) p"))
    assert tree(tmp_path) == {decode_path(f.path) for f in files}
    assert sum(f.num_records for f in files) == 10
    assert {f.size for f in files} == {(tmp_path / f.path).stat().st_size for f in files}


def test_names_and_times_come_from_the_settings(spark, tmp_path):
    metadata = table_of(schema_of(id="long"))
    made = []
    for name in ("a", "b"):
        with set_options(new_id=SeededIds(7), clock=lambda: 42):
            made.append(spark_write.write_files(LocalStore(tmp_path / name), metadata, PLAIN,
                                                spark.range(0, 5, 1, 2)))
    assert made[0] == made[1]
    assert {f.modification_time for f in made[0]} == {42}


def test_a_frame_without_rows_gives_no_file(spark, tmp_path):
    metadata = table_of(schema_of(id="long"))
    assert spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, spark.range(0)) == []
    assert tree(tmp_path) == set()


def test_a_target_size_cuts_files(spark, tmp_path):
    metadata = table_of(schema_of(id="long"))
    files = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, spark.range(0, 1000, 1, 1),
                                    file_options=FileOptions(800))
    assert [f.num_records for f in files] == [100] * 10
    with pytest.raises(InvalidArgument, match="at least 1"):
        spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, spark.range(1),
                                file_options=FileOptions(0))


def test_settings_of_the_session_do_not_leak_in_or_out(spark, tmp_path):
    hostile = {"spark.sql.parquet.outputTimestampType": "INT96",
               "spark.sql.parquet.writeLegacyFormat": "true"}
    before = {key: spark.conf.get(key) for key in hostile}
    metadata = table_of(schema_of(d="decimal(5,2)", t="timestamp"))
    frame = spark.sql("SELECT 1.50BD d, timestamp'2020-01-01' t").selectExpr("cast(d AS decimal(5,2)) d", "t")
    try:
        for key, value in hostile.items():
            spark.conf.set(key, value)
        (file,) = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
        assert {key: spark.conf.get(key) for key in hostile} == hostile
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    stored = pq.read_metadata(tmp_path / file.path).schema
    assert [stored.column(i).physical_type for i in range(2)] == ["INT32", "INT64"]


def test_two_writes_at_once_do_not_meet(spark, tmp_path):
    metadata = table_of(schema_of(id="long", t="timestamp"))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")

    def write(number: int):
        frame = spark.range(number * 10, number * 10 + 10).selectExpr("id", "timestamp_seconds(id) t")
        return spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)

    try:
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(write, range(4)))
        assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    paths = [file.path for files in made for file in files]
    assert tree(tmp_path) == set(paths)
    for number, files in enumerate(made):
        rows = rows_of(tmp_path, files)
        assert sorted(row["id"] for row in rows) == [*range(number * 10, number * 10 + 10)]
    kinds = {pq.read_metadata(tmp_path / path).schema.column(1).physical_type for path in paths}
    assert kinds == {"INT64"}


def test_a_stream_is_refused(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgument, match="write_stream"):
        spark_write.write_files(LocalStore(tmp_path), table_of(schema_of(id="long")), PLAIN, stream)


def test_a_store_spark_cannot_reach_is_written_from_the_process(spark):
    from deltanb.testing import MemoryStore

    store = MemoryStore()
    (file,) = spark_write.write_files(store, table_of(schema_of(id="long")), PLAIN,
                                      spark.range(3).coalesce(1))
    assert pq.read_table(store.open_input(file.path)).column("id").to_pylist() == [0, 1, 2]


def test_a_variant_is_written_whole(spark, tmp_path):
    metadata = table_of(schema_of(id="long", v="variant"))
    frame = spark.sql("""SELECT id, parse_json('{"a": ' || id || '}') v FROM range(100)""").coalesce(1)
    (file,) = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
    variant = pq.ParquetFile(tmp_path / file.path).schema_arrow.field("v").type
    variant = getattr(variant, "storage_type", variant)
    assert {variant.field(i).name for i in range(variant.num_fields)} == {"metadata", "value"}
    assert json.loads(file.stats)["nullCount"] == {"id": 0, "v": 0}


# --- enforcement ------------------------------------------------------------------------------------


def test_columns_are_found_by_name_in_any_case_and_missing_ones_are_null(spark, tmp_path):
    metadata = table_of(StructType([
        StructField("id", PrimitiveType("long")), StructField("n", PrimitiveType("integer")),
        StructField("s", StructType([StructField("a", PrimitiveType("long")),
                                     StructField("b", PrimitiveType("string"))])),
        StructField("l", ArrayType(StructType([StructField("v", PrimitiveType("double"))]))),
        StructField("m", MapType(PrimitiveType("string"), PrimitiveType("long"))),
    ]))
    frame = spark.sql("""SELECT array(named_struct('V', 1.5f)) L, named_struct('B', 'x', 'a', 1) s,
                                map('k', 1) m, 5 `ID`""")
    (file,) = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
    (row,) = pq.ParquetFile(tmp_path / file.path).read().to_pylist()
    assert row == {"id": 5, "n": None, "s": {"a": 1, "b": "x"}, "l": [{"v": 1.5}], "m": [("k", 1)]}


MISFITS = [
    ("SELECT 1L id, 'x' extra", "+ extra: string, not in the table"),
    ("SELECT 'x' id", "~ id: string in the data, long in the table"),
    ("SELECT 1L n", "- id: long NOT NULL, missing from the data"),
]


@pytest.mark.parametrize("query, line", MISFITS)
def test_a_schema_that_does_not_fit_is_refused_as_in_the_process(spark, tmp_path, query, line):
    schema = StructType([StructField("id", PrimitiveType("long"), False),
                         StructField("n", PrimitiveType("long"))])
    frame, messages = spark.sql(query), []
    for write, data in ((spark_write.write_files, frame), (in_process.write_files, frame.toArrow())):
        with pytest.raises(SchemaMismatch) as caught:
            write(LocalStore(tmp_path), table_of(schema), PLAIN, data)
        assert line in caught.value.differences
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert tree(tmp_path) == set()


def test_a_type_without_a_delta_counterpart_is_refused(spark, tmp_path):
    with pytest.raises(InvalidSchema, match="'i'.*cast the column"):
        spark_write.write_files(LocalStore(tmp_path), table_of(schema_of(i="long")), PLAIN,
                                spark.sql("SELECT make_interval(1, 2, 0, 3) i"))
    assert tree(tmp_path) == set()


def test_an_interval_does_not_go_into_a_column_of_numbers(spark, tmp_path):
    with pytest.raises(SchemaMismatch, match="i: interval day to second in the data, long in the table"):
        spark_write.write_files(LocalStore(tmp_path), table_of(schema_of(i="long")), PLAIN,
                                spark.sql("SELECT interval '1' day i"))
    assert tree(tmp_path) == set()


LOSSES = [
    ("integer", "long", [1, 2**31]), ("byte", "integer", [1, 128]), ("integer", "double", [1.0, 1.5]),
    ("decimal(3,1)", "decimal(5,2)", [Decimal("1.10"), Decimal("1.11")]),
    ("date", "timestamp_ntz", [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 12)]),
    ("float", "double", [1.5, 1e300]), ("double", "long", [1, 2**53 + 1]),
]


@pytest.mark.parametrize("target, source, values", LOSSES, ids=[f"{f}-{w}" for w, f, _ in LOSSES])
def test_a_value_that_does_not_fit_is_refused_by_both_engines(spark, tmp_path, target, source, values):
    metadata = table_of(schema_of(x=target))
    good, bad = (pa.table({"x": [v, None]}, schema=to_arrow(schema_of(x=source))) for v in values)
    process, sparks = both(spark, tmp_path, good, metadata)
    assert described(sparks) == described(process)
    for write, data in ((spark_write.write_files, spark.createDataFrame(bad)),
                        (in_process.write_files, bad)):
        with pytest.raises(SchemaMismatch, match="does not fit") as caught:
            write(LocalStore(tmp_path / "bad"), metadata, PLAIN, data)
        assert caught.value.column == "x"
    assert tree(tmp_path / "bad") == set()


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_nested_value_that_does_not_fit_is_refused_whatever_the_session_says(spark, tmp_path, ansi):
    metadata = table_of(StructType([StructField("l", ArrayType(PrimitiveType("byte")))]))
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(SchemaMismatch, match="300"):
            spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN,
                                    spark.sql("SELECT array(1, 300) l"))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert tree(tmp_path) == set()


# --- constraints ------------------------------------------------------------------------------------


def test_a_check_names_constraint_and_row_and_leaves_nothing(spark, tmp_path):
    metadata = table_of(schema_of(id="long", p="integer"), ["p"], delta__constraints__small="id < 5")
    frame = spark.range(10).selectExpr("id", "int(id % 2) p")
    with pytest.raises(ConstraintViolation, match=r"CHECK constraint small \(id < 5\)") as caught:
        spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
    assert caught.value.constraint == "small"
    assert caught.value.row in [{"id": i, "p": i % 2} for i in range(5, 10)]
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_every_type_can_be_named(spark, tmp_path):
    schema = from_arrow(EVERY_TYPE.append_column("keys", pa.array(
        [[(1, {"x": b"y"})], None, None], pa.map_(pa.int32(), pa.struct([("x", pa.binary())])))).schema)
    frame = spark.createDataFrame(EVERY_TYPE).selectExpr(
        "*", "map(1, named_struct('x', cast('y' AS binary))) keys")
    metadata = table_of(schema, delta__constraints__c="short IS NOT NULL")
    with pytest.raises(ConstraintViolation) as caught:
        spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
    row = caught.value.row
    assert list(row) == schema.names
    assert (row["integer"], row["timestamp_ntz"], row["keys"]) == (
        -7, "9999-12-31T00:00:00.000", {"1": {"x": "eQ=="}})


def test_null_does_not_satisfy_a_check(spark, tmp_path):
    metadata = table_of(schema_of(id="long"), delta__constraints__small="id < 5")
    with pytest.raises(ConstraintViolation) as caught:
        spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN,
                                spark.sql("SELECT cast(NULL AS bigint) id"))
    assert caught.value.row == {"id": None}


def test_nulls_are_refused_at_every_level(spark, tmp_path):
    inner = StructType([StructField("x", PrimitiveType("integer"), False)])
    integer, string = PrimitiveType("integer"), PrimitiveType("string")
    schema = StructType([StructField("s", inner), StructField("l", ArrayType(integer, False)),
                         StructField("m", MapType(string, integer, False))])
    good = "named_struct('x', 1) s, array(1) l, map('k', 1) m"
    bad = {"s.x": "cast(NULL AS struct<x: int>) s, array(1) l, map('k', 1) m",
           "l.element": "named_struct('x', 1) s, array(1, NULL) l, map('k', 1) m",
           "m.value": "named_struct('x', 1) s, array(1) l, map('k', cast(NULL AS int)) m"}
    for column, row in bad.items():
        frame = spark.sql(f"SELECT {good} UNION ALL SELECT {row}")
        with pytest.raises(ConstraintViolation, match="NOT NULL") as caught:
            spark_write.write_files(LocalStore(tmp_path), table_of(schema), PLAIN, frame)
        assert caught.value.column == column
    assert tree(tmp_path) == set()
    optional = spark.sql("SELECT named_struct('x', 1) s, NULL l, NULL m")
    assert len(spark_write.write_files(LocalStore(tmp_path), table_of(schema), PLAIN, optional)) == 1


def test_an_empty_text_does_not_pass_for_a_partition_value(spark, tmp_path):
    schema = StructType([StructField("id", PrimitiveType("long")),
                         StructField("p", PrimitiveType("string"), False)])
    with pytest.raises(ConstraintViolation) as caught:
        spark_write.write_files(LocalStore(tmp_path), table_of(schema, ["p"]), PLAIN,
                                spark.sql("SELECT 1L id, '' p"))
    assert caught.value.column == "p"


def test_a_further_condition_is_checked_as_well(spark, tmp_path):
    metadata = table_of(schema_of(id="long"))
    within = [Within("where", "id > 3")]
    with pytest.raises(ConstraintViolation, match="does not belong to where='id > 3'"):
        spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, spark.range(3, 6), checks=within)
    assert spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, spark.range(4, 6),
                                   checks=within)


UNWRITTEN = {
    "filter": lambda bad, spark: bad.filter("id < 5"),
    "inner join": lambda bad, spark: bad.join(spark.range(5), "id"),
    "merge join": lambda bad, spark: bad.hint("merge").join(spark.range(5), "id"),
    "left join": lambda bad, spark: spark.range(5).join(bad.withColumnRenamed("id", "k"),
                                                        F.col("id") == F.col("k"), "left").select("id"),
    "semi join": lambda bad, spark: bad.join(spark.range(5), "id", "left_semi"),
    "anti join": lambda bad, spark: bad.join(spark.range(5, 20), "id", "left_anti"),
    "limit": lambda bad, spark: bad.coalesce(1).sort("id").limit(5),
    "aggregate": lambda bad, spark: bad.groupBy("id").count().select("id").filter("id < 5"),
    "window": lambda bad, spark: bad.selectExpr("id", "row_number() OVER (ORDER BY id) r")
                                    .filter("r <= 5").select("id"),
    "explode": lambda bad, spark: bad.selectExpr("explode(sequence(id, id)) id").filter("id < 5"),
}


@pytest.mark.parametrize("query", UNWRITTEN)
def test_rows_that_are_not_written_are_not_checked(spark, tmp_path, query):
    metadata = table_of(schema_of(id="long"), delta__constraints__small="id < 5")
    frame = UNWRITTEN[query](spark.range(0, 20, 1, 2), spark)
    files = spark_write.write_files(LocalStore(tmp_path), metadata, PLAIN, frame)
    assert sorted(row["id"] for row in rows_of(tmp_path, files)) == [0, 1, 2, 3, 4]


def test_a_query_that_fails_by_itself_keeps_its_error_and_leaves_nothing(spark, tmp_path):
    frame = spark.range(3).select(F.when(F.col("id") == 2, F.raise_error(F.lit("my own")).cast("long"))
                                   .otherwise(F.col("id")).alias("id"))
    with pytest.raises(Exception, match="my own") as caught:
        spark_write.write_files(LocalStore(tmp_path), table_of(schema_of(id="long")), PLAIN, frame)
    assert not isinstance(caught.value, ConstraintViolation)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_between_two_moves_leaves_nothing(spark, tmp_path, monkeypatch):
    moved = []

    def move(store, source, name):
        if moved:
            raise OSError("the disk is full")
        moved.append(name)
        real(store, source, name)

    real = folders._move
    monkeypatch.setattr(folders, "_move", move)
    with pytest.raises(OSError, match="the disk is full"):
        spark_write.write_files(LocalStore(tmp_path), table_of(schema_of(id="long")), PLAIN,
                                spark.range(0, 10, 1, 2))
    assert moved and list(tmp_path.iterdir()) == []


def test_intervals_go_into_a_table_and_come_back(spark, tmp_path):
    """Both types, at every depth, in files and as partition values, from Spark and from Arrow."""
    import deltanb as dn

    nested = ("interval '3' month ym, interval '5' day dt, array(interval '2' year, null) l, "
              "named_struct('d', interval '1' hour, 'm', interval '1' month) s, "
              "map('k', interval '1' year) m, interval '-1-2' year to month p, interval '1.5' second q")
    nothing = ", ".join(["null"] * 7)
    frame = spark.sql(f"select 1L id, {nested} union all select 2, {nothing}")
    table = dn.create(tmp_path / "t", frame, partition_by=["p", "q"])
    rows = table.to_arrow()
    table.append(rows.set_column(0, "id", pa.array([n + 10 for n in rows["id"].to_pylist()])))
    kinds = dict(frame.dtypes)
    assert {name: str(table.schema.field(name).type) for name in ("ym", "dt", "p", "q")} == {
        "ym": "interval year to month", "dt": "interval day to second",
        "p": "interval year to month", "q": "interval day to second"}
    assert kinds["dt"] == "interval day"
    stored = table.to_df().orderBy("id")
    texts = stored.selectExpr("id", *(f"cast({name} as string) {name}" for name in kinds if name != "id"))
    one = ("INTERVAL '0-3' YEAR TO MONTH", "INTERVAL '5 00:00:00' DAY TO SECOND",
           "[INTERVAL '2-0' YEAR TO MONTH, null]",
           "{INTERVAL '0 01:00:00' DAY TO SECOND, INTERVAL '0-1' YEAR TO MONTH}",
           "{k -> INTERVAL '1-0' YEAR TO MONTH}", "INTERVAL '-1-2' YEAR TO MONTH",
           "INTERVAL '0 00:00:01.5' DAY TO SECOND")
    assert [tuple(row) for row in texts.collect()] == [
        (1, *one), (2, *[None] * 7), (11, *one), (12, *[None] * 7)]
    with pytest.raises(InvalidSchema, match="interval"):
        dn.create(tmp_path / "new", spark.sql("select make_interval(1, 2, 0, 3) x"))
    number = dn.create(tmp_path / "n", {"ym": [5]})
    with pytest.raises(SchemaMismatch, match="ym"):
        number.append(frame.select("ym"))
    assert number.version == 0 and not (tmp_path / "new").exists()
