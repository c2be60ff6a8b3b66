"""Streams beside Delta Spark's: it reads what ours wrote, streams from it, and goes on in the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from tests.peers.delta_spark import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_delta_spark_reads_and_streams_what_a_stream_of_ours_wrote(
    spark: Any, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "text": ["a", "b", "a"]}), tmp_path / "source" / "rows.parquet")
    rows = spark.readStream.schema("id bigint, text string").parquet(f"file:{tmp_path}/source")
    ours = dn.create(tmp_path / "ours", "id bigint, text string", partition_by="text")
    stream = ours.write_stream(rows, checkpoint=tmp_path / "checkpoint", trigger="availableNow")
    assert stream.awaitTermination(120)
    expected = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "a"}]
    assert sorted(delta_spark.rows(tmp_path / "ours"), key=lambda row: row["id"]) == expected
    newest = delta_spark.history(tmp_path / "ours")[0]
    assert newest["operation"] == "STREAMING UPDATE"
    theirs = tmp_path / "theirs"
    delta_spark.ask("stream", source=str(tmp_path / "ours"), target=str(theirs))
    assert dn.open(theirs).to_arrow().sort_by("id").to_pylist() == expected
    ours.append({"id": [4], "text": ["c"]})
    delta_spark.ask("stream", source=str(tmp_path / "ours"), target=str(theirs))
    assert dn.open(theirs).to_arrow()["id"].to_pylist().count(4) == 1 and dn.open(theirs).count() == 4
    same = dict(dn.open(theirs).commit(1).operation_parameters)
    assert set(same) >= {"outputMode", "queryId", "epochId"} == set(ours.commit(1).operation_parameters)
