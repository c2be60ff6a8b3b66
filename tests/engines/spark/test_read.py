"""Reading through Spark: which plan a file list gets, and that every plan gives the rows of the log."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyroaring import BitMap64
from pyspark.errors import PySparkException

from deltanb.actions import AddFile, Metadata, Protocol, encode_path
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow import read as in_process
from deltanb.engines.arrow import write as in_process_write
from deltanb.engines.spark import listed
from deltanb.engines.spark import plans as spark_plans
from deltanb.engines.spark import read as spark_read
from deltanb.engines.spark.columns import arrow_frame
from deltanb.engines.spark.session import READ_BY_FIELD_ID
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidPredicate
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
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import schema_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("way")]

UTC = dt.timezone.utc
FEATURES = Protocol(3, 7, ("deletionVectors", "columnMapping", "timestampNtz"),
                    ("deletionVectors", "columnMapping", "timestampNtz"))


@pytest.fixture(params=["listed", "named"])
def way(request, monkeypatch) -> str:
    """Whether Spark is given a list of the files, or their names alone."""
    if request.param == "listed" and request.config.getoption("--connect"):
        pytest.skip("not on Spark Connect: lists of files are handed to a JVM of this process")
    if request.param == "named":
        monkeypatch.setattr(listed, "is_possible", lambda session: False)
    return request.param


def commit(store, version: int, *actions) -> None:
    text = "\n".join(action.to_json() for action in actions)
    assert store.put_if_absent(f"_delta_log/{version:020d}.json", text.encode())


def table_of(folder, rows: pa.Table, schema: StructType | None = None, partition_by=(), **properties):
    """A table with these rows; the snapshot."""
    schema = schema or from_arrow(rows.schema)
    metadata = Metadata("t", schema.to_json(), tuple(partition_by), properties)
    store = LocalStore(folder)
    files = in_process_write.write_files(store, metadata, FEATURES, rows)
    commit(store, 0, FEATURES, metadata, *files)
    return DeltaLog.for_table(str(folder)).snapshot


def with_files(folder, schema: StructType, files, partition_by=()):
    metadata = Metadata("t", schema.to_json(), tuple(partition_by))
    commit(LocalStore(folder), 0, FEATURES, metadata, *files)
    return DeltaLog.for_table(str(folder)).snapshot


def plans(spark, snapshot, files=None, columns=None) -> dict[str, int]:
    """How many files each plan gets where Spark cannot be given a list."""
    reader = spark_plans.Reader(snapshot, in_process.plan(snapshot, columns), spark)
    reader.lists = False
    groups = reader.groups(snapshot.files if files is None else files)
    return {name: len(files) for name, files in vars(groups).items() if files}


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def check(spark, snapshot, columns=None, where=None) -> None:
    """Both engines give the same rows."""
    files = snapshot.files
    ours = in_process.read_table(snapshot, files, columns, where)
    frame = spark_read.read_table(snapshot, files, spark, columns, where)
    assert frame.columns == ours.column_names
    assert sorted_rows(frame.toArrow()) == sorted_rows(ours)


# --- plans ------------------------------------------------------------------------------------------


def test_an_unpartitioned_table_is_read_by_its_paths(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1, 2], "s": ["a", None]}))
    assert plans(spark, snapshot) == {"plain": 1}
    check(spark, snapshot)
    check(spark, snapshot, ["S"], "id = 1")


PARTITION_VALUES = {
    "string": ["plain", "a/b=c %ü:", None, " "], "integer": [1, -1, None],
    "date": [dt.date(2020, 2, 29), None], "boolean": [True, None],
    "double": [0.1, 1e10, float("inf"), None], "decimal(5,2)": [Decimal("1.50"), None],
    "timestamp": [dt.datetime(2020, 1, 1, 1, 2, 3, 4, UTC), None],
    "timestamp_ntz": [dt.datetime(2020, 1, 1, 1, 2, 3, 4), dt.datetime(2020, 1, 1), None],
    "binary": [b"ab", None],
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_hive_folders_are_read_by_base_path(spark, tmp_path, kind, zone):
    values = PARTITION_VALUES[kind]
    schema = schema_of(id="long", p=kind)
    rows = pa.table({"id": range(len(values)), "p": values}, schema=to_arrow(schema))
    snapshot = table_of(tmp_path, rows, partition_by=["p"])
    assert plans(spark, snapshot) == {"hive": len(values)}
    assert plans(spark, snapshot, columns=["id"]) == {"plain": len(values)}
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        check(spark, snapshot)
        check(spark, snapshot, ["p"])
        check(spark, snapshot, ["id"], "p IS NULL")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def one_file(folder, name: str, rows: pa.Table, **values) -> AddFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return AddFile(encode_path(name), values, path.stat().st_size, 1)


IDS = pa.table({"id": [1, 2]})
UNTRUSTED = {
    "elsewhere": ("x/f.parquet", "a"), "another value": ("p=b/f.parquet", "a"),
    "null by name": ("p=__HIVE_DEFAULT_PARTITION__/f.parquet", "__HIVE_DEFAULT_PARTITION__"),
    "another spelling": ("p=%61/f.parquet", "a"), "too deep": ("p=a/q=1/f.parquet", "a"),
}


@pytest.mark.parametrize("case", UNTRUSTED)
def test_where_folders_do_not_say_what_the_log_says_the_log_is_joined(spark, tmp_path, case):
    name, value = UNTRUSTED[case]
    files = [one_file(tmp_path, name, IDS, p=value),
             one_file(tmp_path, "p=z/g.parquet", pa.table({"id": [3]}), p="z")]
    snapshot = with_files(tmp_path, schema_of(id="long", p="string"), files, ["p"])
    assert plans(spark, snapshot) == {"joined": 1, "hive": 1}
    check(spark, snapshot)
    for where in ("p = 'a'", "p = 'z' AND id > 1", "p IS NULL", "id = 2"):
        check(spark, snapshot, ["id"], where)


@pytest.mark.parametrize("text", ["2020-01-01 10:00:00", "2020-01-01T10:00:00Z",
                                  "2020-01-01 10:00:00.5"])
def test_a_timestamp_in_the_other_form_of_the_protocol_is_utc(spark, tmp_path, text):
    folder = f"p={text.replace(':', '%3A')}/f.parquet"
    snapshot = with_files(tmp_path, schema_of(id="long", p="timestamp"),
                          [one_file(tmp_path, folder, IDS, p=text)], ["p"])
    assert plans(spark, snapshot) == {"joined": 1}
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        check(spark, snapshot)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


NAMES = ["a b.parquet", "p%20q.parquet", "ü#?&=+;,@$!~*'()[]{}.parquet", "x<y>\"`|\\^z.parquet",
         "\u3042\u3000\x07.parquet", "emoji\U0001f600.parquet"]


def test_any_name_of_a_file_is_found_and_joined(spark, tmp_path):
    files = [one_file(tmp_path, f"other/{name}", pa.table({"id": [i]}), p=str(i))
             for i, name in enumerate(NAMES)]
    snapshot = with_files(tmp_path, schema_of(id="long", p="integer"), files, ["p"])
    assert plans(spark, snapshot) == {"joined": len(NAMES)}
    check(spark, snapshot)


@pytest.mark.parametrize("character", "?*[]{}\\")
def test_a_path_that_looks_like_a_pattern_is_a_path(spark, tmp_path, character):
    rows = [pa.table({"id": [i]}) for i in range(4)]
    folder = tmp_path / f"x{character}y"
    files = [one_file(folder, f"p=a/{i}.parquet", rows[i], p="a") for i in range(3)]
    files.append(one_file(folder, f"p=a/{character}.parquet", rows[3], p="a"))
    snapshot = with_files(folder, schema_of(id="long", p="string"), files[1:], ["p"])
    assert plans(spark, snapshot) == {"joined": 3}
    check(spark, snapshot)
    check(spark, snapshot, ["id"])


@pytest.mark.parametrize("name", ["_hidden.parquet", ".dot.parquet", "a:b.parquet"])
def test_files_that_spark_would_overlook_are_read_all_the_same(spark, tmp_path, name):
    files = [one_file(tmp_path, name, IDS), one_file(tmp_path, "x.parquet", IDS)]
    snapshot = with_files(tmp_path, schema_of(id="long"), files)
    assert plans(spark, snapshot) == {"process": 1, "plain": 1}
    check(spark, snapshot)


@pytest.mark.parametrize("way", ["named"], indirect=True)
def test_an_entry_that_is_not_found_stops_the_read(spark, tmp_path, monkeypatch):
    files = [one_file(tmp_path, "x/f.parquet", IDS, p="a")]
    snapshot = with_files(tmp_path, schema_of(id="long", p="string"), files, ["p"])
    monkeypatch.setattr(spark_plans, "file_path", lambda local: "file:/somewhere/else")
    for where in (None, "p = 'a'", "p IS NULL"):
        frame = spark_read.read_table(snapshot, snapshot.files, spark, None, where)
        with pytest.raises(PySparkException, match="no entry under the path"):
            frame.collect()


def test_no_file_at_all_is_an_empty_frame_of_the_schema(spark, tmp_path):
    schema = schema_of(id="long", p="string", v="variant")
    snapshot = with_files(tmp_path, schema, [], ["p"])
    frame = spark_read.read_table(snapshot, snapshot.files, spark)
    assert frame.count() == 0
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("id", "bigint"), ("p", "string"), ("v", "variant")]


def test_only_partition_columns_may_be_asked_for(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}), partition_by=["p"])
    frame = spark_read.read_table(snapshot, snapshot.files, spark, ["p"])
    assert sorted(row.p for row in frame.collect()) == ["a", "a", "b"]


def test_a_column_called_metadata_is_no_obstacle(spark, tmp_path):
    rows = pa.table({"_metadata": ["m"], "id": [1]})
    files = [one_file(tmp_path, "x/f.parquet", rows, p="a")]
    snapshot = with_files(tmp_path, schema_of(_metadata="string", id="long", p="string"), files, ["p"])
    check(spark, snapshot)


# --- deleted rows -----------------------------------------------------------------------------------


DELETED = {
    "first and last": [0, 39_999], "a boundary": [8191, 8192], "words": [62, 63, 64, 127, 128],
    "every third": range(0, 40_000, 3), "all": range(40_000), "beyond": [39_999, 50_000],
}


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    pq.write_table(pa.table({"id": range(40_000), "s": [f"row {i}" for i in range(40_000)]}),
                   folder / "f.parquet", row_group_size=7000)
    pq.write_table(pa.table({"id": [-1, -2], "s": ["x", "y"]}), folder / "g.parquet")
    return folder


@pytest.mark.parametrize("case", DELETED)
def test_deleted_rows_do_not_come_back(spark, tmp_path, many_rows, case):
    for name in ("f.parquet", "g.parquet"):
        shutil.copy(many_rows / name, tmp_path / name)
    gone = BitMap64(DELETED[case])
    vector = deletion_vectors.write_file(LocalStore(tmp_path), [gone])[0]
    files = [AddFile("f.parquet", size=1, modification_time=1, deletion_vector=vector),
             AddFile("g.parquet", size=1, modification_time=1)]
    snapshot = with_files(tmp_path, schema_of(id="long", s="string"), files)
    assert plans(spark, snapshot) == {"vectors": 1, "plain": 1}
    frame = spark_read.read_table(snapshot, snapshot.files, spark)
    left = sorted({*range(-2, 40_000)} - {*gone})
    assert sorted(row.id for row in frame.select("id").collect()) == left
    assert frame.count() == len(left)
    point = frame.filter("id = 20001").count()  # row groups are skipped, positions still count
    assert point == (0 if 20001 in gone else 1)


def test_deleted_rows_of_a_partitioned_table(spark, tmp_path):
    files = []
    for part in ("a", "b"):
        file = one_file(tmp_path, f"p={part}/f.parquet", pa.table({"id": [1, 2, 3]}), p=part)
        files.append(file.replace(deletion_vector=deletion_vectors.inline(BitMap64([0]))))
    files.append(one_file(tmp_path, "p=a/g.parquet", pa.table({"id": [1, 2, 3]}), p="a"))
    snapshot = with_files(tmp_path, schema_of(id="long", p="string"), files, ["p"])
    assert plans(spark, snapshot) == {"vectors": 2, "hive": 1}
    check(spark, snapshot)
    check(spark, snapshot, ["id"], "p = 'a' AND id < 3")


@pytest.mark.parametrize("way", ["named"], indirect=True)
def test_a_vector_of_a_file_that_is_not_found_stops_the_read(spark, tmp_path, monkeypatch):
    file = one_file(tmp_path, "f.parquet", IDS)
    file = file.replace(deletion_vector=deletion_vectors.inline(BitMap64([0])))
    snapshot = with_files(tmp_path, schema_of(id="long"), [file])
    monkeypatch.setattr(spark_plans, "file_path", lambda local: "file:/somewhere/else")
    with pytest.raises(PySparkException, match="no entry under the path"):
        spark_read.read_table(snapshot, snapshot.files, spark).count()


# --- columns ----------------------------------------------------------------------------------------


NESTED = StructType([
    StructField("id", PrimitiveType("long")),
    StructField("s", StructType([
        StructField("x y", PrimitiveType("string")),
        StructField("items", ArrayType(StructType([StructField("q", PrimitiveType("integer"))]))),
        StructField("m", MapType(PrimitiveType("string"),
                                 StructType([StructField("w", PrimitiveType("long"))]))),
    ])),
    StructField("p", PrimitiveType("string")),
])
NESTED_ROWS = pa.table({
    "id": [1, 2, 3],
    "s": [{"x y": "a", "items": [{"q": 1}, None], "m": [("k", {"w": 2})]}, None,
          {"x y": None, "items": None, "m": []}],
    "p": ["u", None, "u"]}, schema=to_arrow(NESTED))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_at_every_level(spark, tmp_path, mode):
    numbers = iter(range(100))
    schema, last = assign(NESTED, new_name=lambda: f"col-{next(numbers)}")
    snapshot = table_of(tmp_path, NESTED_ROWS, schema, ["p"],
                        **{MODE_KEY: mode, MAX_ID_KEY: str(last)})
    assert plans(spark, snapshot) == {"joined": 2}
    check(spark, snapshot)
    check(spark, snapshot, ["s"], "id = 1 AND p = 'u'")
    frame = spark_read.read_table(snapshot, snapshot.files, spark)
    assert [row.n for row in frame.filter("s.`x y` = 'a'").selectExpr("s.items[0].q n").collect()] == [1]


def test_mode_id_goes_by_id_in_a_session_that_does_not(spark, tmp_path):
    schema, last = assign(schema_of(id="long", s="string", n="long"),
                          new_name=iter(["c1", "c2", "c3"]).__next__)
    ids = [pa.field(name, kind, metadata={"PARQUET:field_id": number}) for name, kind, number in
           (("other", pa.string(), "2"), ("c3", pa.int64(), "1"), ("c1", pa.int64(), "3"))]
    file = one_file(tmp_path, "f.parquet", pa.table([["a", "b"], [1, 2], [30, 40]], schema=pa.schema(ids)))
    metadata = Metadata("t", schema.to_json(), (), {MODE_KEY: "id", MAX_ID_KEY: str(last)})
    commit(LocalStore(tmp_path), 0, FEATURES, metadata, file)
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot
    spark.conf.set(READ_BY_FIELD_ID, "false")
    check(spark, snapshot)
    check(spark, snapshot, ["s"], "id = 2")
    frame = spark_read.read_table(snapshot, snapshot.files, spark)
    assert [tuple(row) for row in frame.filter("id = 2 AND n > 30").collect()] == [(2, "b", 40)]
    if listed.is_possible(spark):
        assert spark.conf.get(READ_BY_FIELD_ID) == "false", "the session may be somebody else's"


def test_columns_that_a_file_lacks_are_null(spark, tmp_path):
    files = [one_file(tmp_path, "f.parquet", IDS),
             one_file(tmp_path, "g.parquet", pa.table({"id": [3], "new": ["x"], "old": [1]}))]
    snapshot = with_files(tmp_path, schema_of(id="long", new="string", nothing="void"), files)
    check(spark, snapshot)
    check(spark, snapshot, ["new"], "new IS NULL")


WIDENED = [
    ("byte", "long", [1, -128]), ("short", "integer", [300, None]), ("integer", "double", [7, -7]),
    ("float", "double", [0.5, None]), ("date", "timestamp_ntz", [dt.date(2020, 1, 1), None]),
    ("decimal(5,2)", "decimal(12,4)", [Decimal("1.25"), None]),
    ("integer", "decimal(12,2)", [5, -5]), ("long", "decimal(22,2)", [2**60, None]),
]


@pytest.mark.parametrize("before, after, values", WIDENED, ids=[f"{b}-{a}" for b, a, _ in WIDENED])
def test_widened_columns(spark, tmp_path, before, after, values):
    files = [one_file(tmp_path, "f.parquet", pa.table({"x": values}, schema=to_arrow(schema_of(x=before))))]
    snapshot = with_files(tmp_path, schema_of(x=after), files)
    check(spark, snapshot)
    check(spark, snapshot, where="x IS NOT NULL")


def test_comments_are_kept_and_nothing_else_of_the_metadata(spark, tmp_path):
    schema, last = assign(StructType([
        StructField("id", PrimitiveType("long"), True, {"comment": "the key"}),
        StructField("s", PrimitiveType("string"))]))
    metadata = Metadata("t", schema.to_json(), (), {MODE_KEY: "name", MAX_ID_KEY: str(last)})
    store = LocalStore(tmp_path)
    files = in_process_write.write_files(store, metadata, FEATURES, pa.table({"id": [1], "s": ["a"]}))
    commit(store, 0, FEATURES, metadata, *files)
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot
    frame = spark_read.read_table(snapshot, snapshot.files, spark)
    assert [f.metadata for f in frame.schema] == [{"comment": "the key"}, {}]


# --- arguments, settings, errors --------------------------------------------------------------------


def test_a_predicate_only_spark_understands_is_left_to_spark(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1, 2], "s": ["a", "b"]}))
    frame = spark_read.read_table(snapshot, snapshot.files, spark, ["id"],
                                  "aggregate(array(id), 0L, (a, x) -> a + x) = 2")
    assert [tuple(row) for row in frame.collect()] == [(2,)]
    everywhere = spark_read.read_table(snapshot, None, spark, ["id"], "typeof(s) = 'string'")
    assert sorted(row.id for row in everywhere.collect()) == [1, 2]


def test_without_a_list_of_files_the_log_prunes_them(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    frame = spark_read.read_table(snapshot, spark=spark, where="p = 'b' AND id > 0")
    assert len(frame.inputFiles()) == 1
    assert [tuple(row) for row in frame.collect()] == [(2, "b")]


def test_arguments_that_make_no_sense(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidArgument, match="no column 'ie'"):
        spark_read.read_table(snapshot, snapshot.files, spark, ["ie"])
    with pytest.raises(InvalidPredicate, match="ie"):
        spark_read.read_table(snapshot, snapshot.files, spark, where="ie = 1")


def test_a_file_that_is_gone_is_named(spark, tmp_path):
    snapshot = table_of(tmp_path, pa.table({"id": [1]}))
    (path,) = snapshot.files.column("path").to_pylist()
    (tmp_path / path).unlink()
    with pytest.raises(DataFileNotFound, match=path):
        spark_read.read_table(snapshot, snapshot.files, spark)


def test_settings_of_the_session_come_back(spark, tmp_path):
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(key)
    snapshot = table_of(tmp_path, pa.table({"id": [1]}))
    spark.conf.set(key, "7")
    try:
        spark_read.read_table(snapshot, snapshot.files, spark).count()
        assert spark.conf.get(key) == "7"
    finally:
        spark.conf.set(key, before)


def test_filters_and_columns_reach_the_scan(spark, tmp_path, capsys):
    files = [one_file(tmp_path, "x/f.parquet", pa.table({"id": [1], "s": ["a"], "t": [1]}), p="a")]
    snapshot = with_files(tmp_path, schema_of(id="long", s="string", t="long", p="string"), files, ["p"])
    spark_read.read_table(snapshot, snapshot.files, spark, ["s"], "id > 0 AND p = 'a'").explain()
    plan = capsys.readouterr().out
    assert "GreaterThan(id,0)" in plan
    assert "ReadSchema: struct<s:string,id:bigint>" in plan, "t is not read"


GAPS = ([[], [1, 2]], [[], [], [1, 2], [], [3]], [list(range(20_000)), [], [5]], [[], []], [[1], [2]])


@pytest.mark.parametrize("chunks", GAPS)
def test_arrow_rows_become_a_frame_whole_whatever_batches_are_empty(spark, chunks) -> None:
    rows = pa.table({"id": pa.chunked_array(chunks, pa.int64())})
    frame = arrow_frame(spark, rows)
    assert sorted(row.id for row in frame.collect()) == sorted(rows["id"].to_pylist())
