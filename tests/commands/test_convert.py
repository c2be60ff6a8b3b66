"""CONVERT: Parquet files become a table where they lie."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.errors import (
    ConcurrentWriteException,
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    InvalidTable,
    SchemaMismatch,
    TableAlreadyExists,
)
from deltanb.table.entry import convert
from deltanb.testing import Lose, MemoryStore, ScriptedStore
from tests.helpers import rows


def put(root: Path, name: str, table: pa.Table, **settings: Any) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, root / name, **settings)


def refused(root: Path, error: type[DeltaError], work: Callable[[], Any]) -> DeltaError:
    before = sorted(root.rglob("*"))
    with pytest.raises(error) as caught:
        work()
    assert sorted(root.rglob("*")) == before
    return caught.value


def test_a_folder_of_files(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pa.table({"id": [1, 2], "s": ["x", None]}))
    put(tmp_path, "deep/er/b c.parquet", pa.table({"id": [3], "s": ["y"]}))
    put(tmp_path, "_hidden/c.parquet", pa.table({"id": [9]}))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".a.parquet.crc").touch()
    table = convert(tmp_path, name="mine", description="was Parquet")
    assert rows(table) == [{"id": 1, "s": "x"}, {"id": 2, "s": None}, {"id": 3, "s": "y"}]
    assert (table.version, table.name, table.metadata.description) == (0, "mine", "was Parquet")
    assert sorted(table.snapshot.files["path"].to_pylist()) == ["a.parquet", "deep/er/b%20c.parquet"]
    stats = {f["path"]: json.loads(f["stats"]) for f in table.snapshot.files.to_pylist()}
    assert stats["a.parquet"] == {"numRecords": 2, "minValues": {"id": 1, "s": "x"},
                                  "maxValues": {"id": 2, "s": "x"}, "nullCount": {"id": 0, "s": 1}}
    entry = table.history(1)[0]
    assert (entry.isolation_level, entry.is_blind_append) == ("Serializable", False), "it replaces a state"
    assert (entry.operation, entry.operation_parameters, entry.operation_metrics) == (
        "CONVERT", {"numFiles": 2, "partitionedBy": "[]", "collectStats": True,
                    "sourceFormat": "parquet"}, {"numConvertedFiles": "2"})
    table.append({"id": [4], "s": ["z"]})
    assert table.snapshot.files_for_scan("id = 3").num_rows == 1
    theirs = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted(theirs["id"].to_pylist()) == [1, 2, 3, 4]


def test_partitions_by_folder_names(tmp_path: Path) -> None:
    put(tmp_path, "month=1/who=a%20b/f.parquet", pa.table({"id": [1]}))
    put(tmp_path, "month=12/who=__HIVE_DEFAULT_PARTITION__/f.parquet", pa.table({"id": [2]}))
    table = dn.DeltaTable.convert(tmp_path, {"month": "int", "who": "string"})
    assert rows(table) == [{"id": 1, "month": 1, "who": "a b"}, {"id": 2, "month": 12, "who": None}]
    assert table.partition_columns == ("month", "who")
    assert table.to_arrow(where="month = 12").num_rows == 1
    assert table.snapshot.files_for_scan("who = 'a b'").num_rows == 1
    theirs = deltalake.DeltaTable(tmp_path).to_pyarrow_table().sort_by("id")
    assert theirs["month"].to_pylist() == [1, 12]


@pytest.mark.parametrize("partition_by", [
    {"d": "date"}, "d date", {"d": pa.date32()}, pa.schema([("d", pa.date32())]),
])
def test_types_of_partition_columns(tmp_path: Path, partition_by: Any) -> None:
    put(tmp_path, "d=2024-02-29/f.parquet", pa.table({"id": [1]}))
    table = dn.convert(tmp_path, partition_by=partition_by)
    assert str(table.schema.field("d").type) == "date"


def test_a_column_in_folder_and_file_is_the_folders(tmp_path: Path) -> None:
    put(tmp_path, "p=1/f.parquet", pa.table({"P": [7], "id": [1]}))
    assert rows(convert(tmp_path, {"p": "long"})) == [{"id": 1, "p": 1}]


@pytest.mark.parametrize(("partition_by", "pattern"), [
    (None, r"partition_by=\{'p': …\}"),
    ({"q": "int"}, "'q'"),
    ({"p": "int", "q": "int"}, "'q'"),
    ({"p": "date"}, "p=1"),
    ({"p": 5}, "not a type"),
    (["p"], "types"),
])
def test_partitions_that_do_not_fit(tmp_path: Path, partition_by: Any, pattern: str) -> None:
    put(tmp_path, "p=1/f.parquet", pa.table({"id": [1]}))
    error = refused(tmp_path, InvalidArgument, lambda: convert(tmp_path, partition_by))
    assert re.search(pattern, error.message)


def test_files_in_no_partition(tmp_path: Path) -> None:
    put(tmp_path, "p=1/f.parquet", pa.table({"id": [1]}))
    put(tmp_path, "stray.parquet", pa.table({"id": [1]}))
    error = refused(tmp_path, InvalidArgument, lambda: convert(tmp_path, {"p": "int"}))
    assert "stray.parquet" in error.message


def test_columns_of_all_files(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"id": [1], "s": [{"a": 1}]}))
    put(tmp_path, "2.parquet", pa.table({"ID": [2], "s": [{"a": 2, "b": "x"}], "new": [True]}))
    table = convert(tmp_path)
    assert [str(f) for f in table.schema.fields] == [
        "id: long", "s: struct<a: long, b: string>", "new: boolean"]
    assert rows(table) == [{"id": 1, "s": {"a": 1, "b": None}, "new": None},
                           {"id": 2, "s": {"a": 2, "b": "x"}, "new": True}]


def test_two_types_of_one_column(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"id": [1], "l": [[{"a": 1}]]}))
    put(tmp_path, "2.parquet", pa.table({"id": [1], "l": [[{"a": "x"}]]}))
    error = refused(tmp_path, SchemaMismatch, lambda: convert(tmp_path))
    assert "2.parquet" in error.message and "string" in error.message and "long" in error.message


def test_old_timestamps_are_instants(tmp_path: Path) -> None:
    noon = datetime(2024, 5, 6, 12, tzinfo=timezone.utc)
    table = pa.table({"id": [1], "t": pa.array([noon.replace(tzinfo=None)], pa.timestamp("us"))})
    put(tmp_path, "1.parquet", table, use_deprecated_int96_timestamps=True)
    converted = convert(tmp_path)
    assert str(converted.schema.field("t").type) == "timestamp"
    assert rows(converted) == [{"id": 1, "t": noon}]
    put(tmp_path / "sub", "2.parquet", table)
    assert str(convert(tmp_path / "sub").schema.field("t").type) == "timestamp_ntz"


def test_without_statistics(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"id": [1]}))
    table = convert(tmp_path, collect_stats=False)
    assert table.snapshot.files["stats"].to_pylist() == [None]
    assert table.analyze().metrics == {"numFiles": 1}
    assert json.loads(table.snapshot.files["stats"][0].as_py())["numRecords"] == 1


def test_categories_without_bounds_in_the_footer_are_measured(tmp_path: Path) -> None:
    colours = pa.array(["red", None, "blue", "red"]).dictionary_encode()
    pq.write_table(pa.table({"colour": colours}), tmp_path / "one.parquet", write_statistics=False)
    table = convert(tmp_path)
    stats = json.loads(table.snapshot.files["stats"][0].as_py())
    assert (stats["minValues"], stats["maxValues"], stats["nullCount"]) == (
        {"colour": "blue"}, {"colour": "red"}, {"colour": 1})


def test_properties_raise_the_protocol(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"id": [1], "a b": [2]}))
    error = refused(tmp_path, InvalidSchema, lambda: convert(tmp_path))
    assert "a b" in error.message
    refused(tmp_path, InvalidArgument, lambda: convert(tmp_path, properties={
        "delta.checkpointInterval": "never"}))
    refused(tmp_path, InvalidArgument, lambda: convert(tmp_path, properties={
        "delta.columnMapping.mode": "id"}))
    table = convert(tmp_path, properties={
        "delta.enableDeletionVectors": True, "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": True})
    assert table.protocol.supports("deletionVectors")
    table.append({"id": [2], "a b": [3]})
    assert rows(table) == [{"id": 1, "a b": 2}, {"id": 2, "a b": 3}]
    assert sorted(table.snapshot.files["base_row_id"].to_pylist()) == [0, 1]
    table.optimize()
    assert rows(table) == [{"id": 1, "a b": 2}, {"id": 2, "a b": 3}]


def test_what_is_there_already(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"id": [1]}))
    convert(tmp_path)
    refused(tmp_path, TableAlreadyExists, lambda: convert(tmp_path))


def test_what_is_no_parquet(tmp_path: Path) -> None:
    refused(tmp_path, InvalidArgument, lambda: convert(tmp_path))
    put(tmp_path, "1.parquet", pa.table({"id": [1]}))
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt" in refused(tmp_path, InvalidTable, lambda: convert(tmp_path)).message


def test_a_table_created_meanwhile() -> None:
    store = ScriptedStore(MemoryStore(), [Lose((
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}},
                      "schemaString": '{"type":"struct","fields":[]}', "partitionColumns": [],
                      "configuration": {}}}))])
    with store.open_output("1.parquet") as file:
        pq.write_table(pa.table({"id": [1]}), file)
    with pytest.raises(ConcurrentWriteException):
        convert(store)
    assert dn.DeltaLog.for_table(store).update().metadata.id == "x"


@pytest.mark.spark
@pytest.mark.slow
def test_what_spark_wrote(tmp_path: Path, spark: Any) -> None:
    frame = spark.createDataFrame([(1, "a/b"), (2, None)], "id long, p string")
    frame.write.partitionBy("p").parquet(str(tmp_path / "t"))
    table = convert(tmp_path / "t", {"p": "string"})
    assert rows(table) == [{"id": 1, "p": "a/b"}, {"id": 2, "p": None}]
    assert sorted(row["id"] for row in table.to_df(spark).collect()) == [1, 2]
