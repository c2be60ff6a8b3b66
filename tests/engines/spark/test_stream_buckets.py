"""Streams from tables in a bucket and into them, with credentials that were given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")
pytest.importorskip("obstore")

import deltanb as dn
from deltanb.errors import InvalidArgument, StorageError
from deltanb.sources.spark.source import translate_errors
from deltanb.testing.s3_server import ACCESS, S3Server
from tests.helpers import files_of, ids
from tests.patience import PATIENCE

pytestmark = pytest.mark.spark



@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> dn.DeltaTable:
    return dn.create(f"{bucket}/from", {"id": [0]}, storage_options=s3_server.options)


def write(frame: Any, table: dn.DeltaTable, checkpoint: Path, **options: Any) -> None:
    writer = frame.writeStream.format("deltanb").options(**options).trigger(availableNow=True)
    with translate_errors():
        query = writer.option("checkpointLocation", str(checkpoint)).start(table.path)
        assert query.awaitTermination(PATIENCE)


def test_a_stream_from_a_bucket_into_a_bucket_goes_on_where_it_stopped(
    s3_server: S3Server, bucket: str, table: dn.DeltaTable, spark: Any, tmp_path: Path
) -> None:
    into = dn.create(f"{bucket}/into", "id bigint", storage_options=s3_server.options)
    for n in (1, 2):
        table.append({"id": [n]})
        frame = table.read_stream(spark, max_files_per_trigger=1, storage_options=s3_server.options)
        write(frame, into, tmp_path / "c", **s3_server.options)
    assert ids(into) == [0, 1, 2] and into.version == 3
    for path in (tmp_path / "c" / "commits").glob("*2*"):  # as a kill before Spark's note leaves it
        path.unlink()
    before = files_of(into)
    write(frame, into, tmp_path / "c", **s3_server.options)
    assert files_of(into) == before, "the batch is there, and what was written of it again is gone"
    texts = [path.read_text(errors="replace") for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert texts and not any(ACCESS["aws_secret_access_key"] in text for text in texts)


@pytest.mark.classic("credentials are not sent to the process of the server that writes batches")
def test_a_table_writes_a_stream_into_its_bucket(
    s3_server: S3Server, bucket: str, table: dn.DeltaTable, spark: Any, tmp_path: Path
) -> None:
    into = dn.create(f"{bucket}/into", "id bigint", storage_options=s3_server.options)
    for expected in ([0], [0, 1]):
        frame = table.read_stream(spark, storage_options=s3_server.options)
        stream = into.write_stream(frame, checkpoint=tmp_path / "c", trigger="availableNow")
        assert stream.awaitTermination(PATIENCE)
        assert ids(into) == expected
        table.append({"id": [1]})
    query = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    assert into.snapshot.set_transactions == {query: 1}


def test_credentials_that_lack_or_are_wrong_are_told(
    s3_server: S3Server, table: dn.DeltaTable, spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=r"read_stream\(storage_options=") as caught:
        table.read_stream(spark)
    assert ACCESS["aws_secret_access_key"] not in str(caught.value)
    with pytest.raises(InvalidArgument, match="did you mean 'region'"):
        table.read_stream(spark, storage_options={"aws_regoin": "x"})
    here = dn.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(InvalidArgument, match="is in none"):
        here.read_stream(spark, storage_options=s3_server.options)
    with s3_server.failing(lambda request: "403"), pytest.raises(StorageError, match="403"):
        table.read_stream(spark, storage_options={**s3_server.options, "timeout": "50s"})
