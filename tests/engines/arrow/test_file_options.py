"""What a write says of its files: how many rows each has, and its codec; in both engines, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.locks.core.manager import LockManager
from deltanb.log.file_options import FileOptions
from deltanb.log.parquet_options import _SUFFIXES
from deltanb.options import set_options
from deltanb.table.table import DeltaTable

ROWS = {"id": list(range(10)), "p": ["a", "b"] * 5}


def by_hand(table: DeltaTable, rows: Any, **options: Any) -> None:
    txn = table.start_transaction()
    txn.write_files(rows, FileOptions(**options))
    txn.commit(txn.written, "WRITE")


def by_delta_s_names(table: DeltaTable, rows: Any, **options: Any) -> None:
    names = {"max_records_per_file": "maxRecordsPerFile", "target_file_size": "targetFileSize"}
    txn = table.start_transaction()
    txn.write_files(rows, {names.get(name, name): str(value) for name, value in options.items()})
    txn.commit(txn.written, "WRITE")


def staged(table: DeltaTable, rows: Any, **options: Any) -> None:
    with table.transaction() as txn:
        txn.append(rows, **options)


def locked(table: DeltaTable, rows: Any, **options: Any) -> None:
    txn = LockManager().new_transaction()
    txn.table(table).append(rows, **options)
    txn.commit()


WAYS: dict[str, Callable[..., Any]] = {
    "append": lambda t, rows, **options: t.append(rows, **options),
    "overwrite": lambda t, rows, **options: t.overwrite(rows, **options),
    "overwrite of a condition": lambda t, rows, **options: t.overwrite(rows, where="id < 100", **options),
    "overwrite of partitions": lambda t, rows, **options: t.overwrite(
        rows, partition_overwrite="dynamic", **options),
    "create": lambda t, rows, **options: dn.create(t.path, rows, "p", mode="overwrite", **options),
    "write_files": by_hand, "write_options": by_delta_s_names, "statements": staged, "locks": locked,
}


def files(table: DeltaTable) -> list[Path]:
    return [Path(table.path) / path for path in table.snapshot.files["path"].to_pylist()]


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return dn.create(tmp_path / "t", "id bigint, p string", "p")


@pytest.mark.parametrize("way", WAYS)
def test_no_file_has_more_rows_and_all_rows_are_there(way: str, table: DeltaTable) -> None:
    WAYS[way](table, pa.table(ROWS), max_records_per_file=2, compression="gzip")
    assert sorted(pq.read_metadata(file).num_rows for file in files(table)) == [1, 1, 2, 2, 2, 2]
    assert {pq.read_metadata(file).row_group(0).column(0).compression for file in files(table)} == {"GZIP"}
    assert all(file.name.endswith(".gz.parquet") for file in files(table))
    assert sorted(table.to_arrow()["id"].to_pylist()) == ROWS["id"]
    assert table.snapshot.row_count.known == 10


@pytest.mark.parametrize("most", [1, 3, 5, 6])
@pytest.mark.parametrize("batch", [1, 4, 10])
def test_files_are_filled_across_batches_in_the_order_of_rows(
    most: int, batch: int, table: DeltaTable
) -> None:
    rows = pa.table({"id": range(10), "p": ["a"] * 10})
    table.append(rows.to_reader(max_chunksize=batch), max_records_per_file=most)
    read = [pq.read_table(file)["id"].to_pylist() for file in sorted(files(table), key=lambda f: f.name)]
    assert read == [list(range(at, min(at + most, 10))) for at in range(0, 10, most)]


def test_a_limit_of_0_is_none_and_the_table_s_codec_counts_where_a_write_has_none(table: DeltaTable) -> None:
    table.set_properties({"delta.parquet.compression.codec": "snappy"})
    table.append(ROWS, max_records_per_file=0)
    assert len(files(table)) == 2 and all(file.name.endswith(".snappy.parquet") for file in files(table))
    table.overwrite(ROWS, compression="zstd")
    assert all(file.name.endswith(".zstd.parquet") for file in files(table))
    table.append(ROWS)  # the same layout of rows but for the codec
    assert sorted(file.name.rsplit(".", 2)[1] for file in files(table)) == ["snappy"] * 2 + ["zstd"] * 2


def test_rows_and_bytes_limit_a_file_together(table: DeltaTable) -> None:
    rows = pa.table({"id": range(10), "p": ["a"] * 10})
    with set_options(target_file_size=1):
        table.append(rows.to_reader(max_chunksize=4), max_records_per_file=3)
    assert all(pq.read_metadata(file).num_rows <= 3 for file in files(table))
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(10))


@pytest.mark.parametrize("codec", _SUFFIXES)
def test_each_codec_of_a_table_is_one_of_a_write(codec: str, table: DeltaTable) -> None:
    table.append(ROWS, compression=codec.upper())
    (suffix,) = {file.name.removesuffix(".parquet").partition("-c000")[2] for file in files(table)}
    assert suffix == _SUFFIXES[codec]
    assert table.count() == 10


@pytest.mark.parametrize(("options", "match"), [
    ({"max_records_per_file": -1}, "max_records_per_file=-1"), ({"max_records_per_file": "3"}, "takes rows"),
    ({"max_records_per_file": True}, "takes rows"), ({"target_file_size": 0}, "target_file_size=0"),
    ({"compression": "brotli"}, "compression='brotli': this library writes none, uncompressed, snappy"),
    ({"compression": 3}, "takes the name of a codec"),
])
@pytest.mark.parametrize("way", ["append", "overwrite", "create", "write_files", "statements"])
def test_values_that_none_can_have_are_refused_and_nothing_is_written(
    way: str, options: dict[str, Any], match: str, table: DeltaTable
) -> None:
    with pytest.raises(InvalidArgument, match=match):
        WAYS[way](table, ROWS, **options)
    assert table.version == 0 and not list(Path(table.path).rglob("*.parquet"))


@pytest.mark.parametrize(("options", "match"), [
    ({"maxRecordsPerFiles": 3}, "no 'maxRecordsPerFiles'.*did you mean maxRecordsPerFile"),
    ({"mergeSchema": "true"}, "an argument of table.append"), ([3], "a dict of options"),
    ({"maxRecordsPerFile": "many"}, "takes rows"), ({"compression": "lzo"}, "compression='lzo'"),
])
def test_write_options_that_are_none_are_refused(options: Any, match: str, table: DeltaTable) -> None:
    txn = table.start_transaction()
    with pytest.raises(InvalidArgument, match=match):
        txn.write_files(ROWS, options)
    assert not txn.has_written and txn.status == "open"


# --- on Spark -------------------------------------------------------------------------------------

@pytest.mark.spark
@pytest.mark.parametrize("way", WAYS)
def test_spark_does_the_same(way: str, table: DeltaTable, spark: Any) -> None:
    frame = spark.createDataFrame(pa.table(ROWS).to_pylist(), "id bigint, p string").coalesce(1)
    WAYS[way](table, frame, max_records_per_file=2, compression="gzip")
    assert sorted(pq.read_metadata(file).num_rows for file in files(table)) == [1, 1, 2, 2, 2, 2]
    assert {pq.read_metadata(file).row_group(0).column(0).compression for file in files(table)} == {"GZIP"}
    assert all(file.name.endswith(".gz.parquet") for file in files(table))
    assert sorted(table.to_arrow()["id"].to_pylist()) == ROWS["id"]


@pytest.mark.spark
def test_the_limit_of_a_session_counts_where_a_write_has_none(table: DeltaTable, spark: Any) -> None:
    from deltanb.engines.spark.session import settings
    from deltanb.engines.spark.write import MAX_RECORDS

    frame = spark.range(10).selectExpr("id", "'a' AS p").coalesce(1)
    with settings(spark, {MAX_RECORDS: "4"}):
        table.append(frame)
        table.append(frame, max_records_per_file=10)
    assert sorted(pq.read_metadata(file).num_rows for file in files(table)) == [2, 4, 4, 10]


@pytest.mark.spark
def test_the_data_source_takes_them_by_delta_s_names(table: DeltaTable, spark: Any) -> None:
    pytest.importorskip("pyspark.sql.datasource").DataSourceArrowWriter  # noqa: B018
    frame = spark.range(10).selectExpr("id", "'a' AS p").coalesce(1)
    writer = frame.write.format("deltanb").mode("append").option("compression", "GZIP")
    writer.option("maxRecordsPerFile", 4).save(table.path)
    assert sorted(pq.read_metadata(file).num_rows for file in files(table)) == [2, 4, 4]
    assert all(file.name.endswith(".gz.parquet") for file in files(table))
