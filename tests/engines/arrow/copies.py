"""Tables whose files can be copied in parts, and files of others that cannot."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.table.table import DeltaTable
from tests.helpers import last_commit

ROWS = 600
ENCODE = 1 << 40
"""Rows that no row group has: of a file with fewer none is copied."""
NESTED = 11  # the column whose fields have other names where columns are mapped
UTC = dt.timezone.utc


def rows(start: int, count: int = ROWS) -> pa.Table:
    """Columns of all kinds of types."""
    numbers = range(start, start + count)
    day = dt.date(1969, 12, 1)
    return pa.table({
        "id": pa.array(numbers, pa.int64()), "small": pa.array([n % 100 for n in numbers], pa.int8()),
        "x": [n * 0.1 - 30 for n in numbers], "f": pa.array([n / 7 for n in numbers], pa.float32()),
        "name": [f"name {n:05} " + "ä" * (n % 50) if n % 3 else None for n in numbers],
        "day": [day + dt.timedelta(n) for n in numbers], "even": [n % 2 == 0 for n in numbers],
        "at": [dt.datetime(1969, 12, 31, tzinfo=UTC) + dt.timedelta(seconds=n * 77.7) for n in numbers],
        "price": pa.array([Decimal(n - 300) / 100 for n in numbers], pa.decimal128(12, 2)),
        "raw": [b"\x00" * (n % 5) for n in numbers], "nothing": pa.nulls(count, pa.int32()),
        "inside": pa.array([{"a": n, "f": n * 0.5} if n % 5 else None for n in numbers]),
        "list": pa.array([[n, None] if n % 4 else None for n in numbers]),
        "part": pa.array([n % 2 for n in numbers], pa.int32())})


def table_of(where: Any, *parts: pa.Table, **settings: Any) -> DeltaTable:
    table = dn.create(where, parts[0].schema, **settings)
    for part in parts:
        table.append(part)
    return table


def added(table: DeltaTable) -> list[tuple[dict[str, str | None], Any]]:
    return [(file.partition_values, file.stats) for file in last_commit(table, AddFile)]


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {}, "partitioned": {"partition_by": ["part"]}, "mapped": {"properties": {
        "delta.columnMapping.mode": "name"}},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true"}},
    "pages of version 2": {"properties": {"delta.parquet.format.version": "2.12.0"}},
    "snappy": {"properties": {"delta.parquet.compression.codec": "snappy"}},
    "not compressed": {"properties": {"delta.parquet.compression.codec": "none"}},
    "gzip": {"properties": {"delta.parquet.compression.codec": "gzip"}}}


def foreign(table: DeltaTable, start: int, **options: Any) -> None:
    """Add a file that pyarrow writes, with our settings or others."""
    write_options = {"store_schema": False, "compression": "zstd", "write_page_checksum": True,
             "write_statistics": ["id", "name"], **options}
    name, sink = f"foreign-{start}.parquet", io.BytesIO()
    pq.write_table(rows(start).select(["id", "x", "name"]), sink, **write_options)
    with table.log.store.open_output(name) as file:
        file.write(sink.getvalue())
    stats = table.snapshot.files["stats"][0].as_py()
    table.start_transaction().commit(
        [AddFile(path=name, partition_values={}, size=len(sink.getvalue()), modification_time=0,
                 data_change=True, stats=stats)], "WRITE")


OTHERS: dict[str, dict[str, Any]] = {
    "page index": {"write_page_index": True}, "no checksums": {"write_page_checksum": False},
    "another codec": {"compression": "snappy"}, "bounds of floats": {"write_statistics": True},
    "other pages": {"data_page_version": "2.0"}, "Arrow's schema": {"store_schema": True},
    "another version": {"version": "1.0"},
    "bloom filters": {"bloom_filter_options": {"id": {"ndv": 100, "fpp": 0.01}}}}
