"""Logs of every kind, to be put into a bucket: the same table, and what is read for it differs."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow.parquet as pq

from deltanb.log.checkpoint.names import classic_name
from deltanb.log.compaction import write_compaction
from deltanb.store.object import ObjectStore
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.testing.s3_server import S3Server

LAST = 26
"""The newest version: each after the first adds a file, and some remove one."""
CHECKPOINT = 20
FILES = LAST - LAST // 5
"""The files of the newest version."""


def _checkpoint(builder: TableBuilder) -> None:
    builder.log.checkpoint(CHECKPOINT)


def _parts(builder: TableBuilder) -> None:
    """As old Spark wrote it: a classic checkpoint in three files."""
    builder.log.checkpoint(CHECKPOINT)
    name = classic_name(CHECKPOINT)
    rows = pq.read_table(io.BytesIO(builder.store.read(name)))
    third = -(-rows.num_rows // 3)
    for part in range(3):
        buffer = io.BytesIO()
        pq.write_table(rows.slice(part * third, third), buffer)
        builder.put(name.replace("parquet", f"{part + 1:010}.{3:010}.parquet"), buffer.getvalue())
    builder.store.delete(name)


def _compacted(builder: TableBuilder) -> None:
    write_compaction(builder.log, 1, 10)
    write_compaction(builder.log, 11, 20)


_V2 = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"],
       "writerFeatures": ["v2Checkpoint"]}

KINDS: dict[str, tuple[dict[str, object], Callable[[TableBuilder], None]]] = {
    "commits": ({}, lambda builder: None),
    "checkpoint": ({}, _checkpoint),
    "multi-part": ({}, _parts),
    "V2": ({"protocol": _V2, "properties": {"delta.checkpointPolicy": "v2"}}, _checkpoint),
    "compacted": ({}, _compacted),
}
"""Kind of log -> what the table is created with, and what is written beside its commits."""


def built(kind: str, last: int = LAST, file: str = "f") -> TableBuilder:
    """A table with a log of a kind, in memory; its files are called after ``file``."""
    settings, finish = KINDS[kind]
    builder = TableBuilder(MemoryStore()).create("id long", **settings)
    for version in range(1, last + 1):
        actions = [{"commitInfo": {"operation": "WRITE", "timestamp": version}}, add(f"{file}-{version:02}")]
        builder.commit(*actions, *([remove(f"{file}-{version - 1:02}")] if version % 5 == 0 else []))
    finish(builder)
    return builder


def put(builder: TableBuilder, server: S3Server, uri: str) -> None:
    """Store the files of a table in a bucket, without a request."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    for name, (data, _) in builder.store.files.items():  # type: ignore[attr-defined]
        server.store(bucket, f"{key}/{name}", data)


def remove_all(server: S3Server, uri: str) -> None:
    """Delete a table, as whoever makes another one there does."""
    store = ObjectStore(uri, server.options)
    store.delete_many([file.name for file in store.list_all("")])
