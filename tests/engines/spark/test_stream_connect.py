"""Streams on Spark Connect, whose server writes batches in a process of its own, and what that one has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

import deltanb as dn
from deltanb.errors import ConstraintViolation, InvalidArgument, StreamSourceChanged
from deltanb.testing import MemoryStore
from deltanb.testing.s3_server import S3Server
from tests.helpers import ids
from tests.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.connect]



@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", {"id": [0]})


def test_batches_have_the_options_and_say_why_they_fail(
    spark: Any, table: dn.DeltaTable, tmp_path: Path
) -> None:
    into = dn.create(tmp_path / "into", "id bigint", properties={"delta.constraints.small": "id < 5"})

    def run() -> None:
        frame = table.read_stream(spark)
        assert into.write_stream(frame, checkpoint=tmp_path / "c", trigger="availableNow").awaitTermination(
            PATIENCE)

    with dn.options.set_options(user_name="Gyro", clock=lambda: 0):  # the clock stays here
        run()
    assert ids(into) == [0] and into.commit(1).user_name == "Gyro" and into.commit(1).timestamp > 0
    table.append({"id": [7]})
    with pytest.raises(ConstraintViolation, match="small"):
        run()
    table.delete("id = 7")
    into.drop_constraint("small")
    with pytest.raises(StreamSourceChanged, match="ignoreDeletes"):  # of what is read, too
        run()
    assert ids(into) == [0, 7], "what was planned before the deletion came, and came once"


def test_a_table_that_the_server_cannot_get_to_is_refused(
    spark: Any, table: dn.DeltaTable, tmp_path: Path, s3_server: S3Server, bucket: str
) -> None:
    frame = table.read_stream(spark)
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("ducks")
        places: dict[str, Any] = {
            "credentials": dn.create(f"{bucket}/t", "id bigint", storage_options=s3_server.options),
            "this process alone": dn.create(MemoryStore("memory:///ducks"), "id bigint"),
            "a catalog": catalog.create_table("ducks.nephews", "id bigint")}
        for pattern, into in places.items():
            with pytest.raises(InvalidArgument, match=pattern):
                into.write_stream(frame, checkpoint=tmp_path / "c")
            assert into.version == 0
    assert not (tmp_path / "c").exists()


def test_credentials_travel_with_a_stream_by_the_format(
    spark: Any, table: dn.DeltaTable, tmp_path: Path, s3_server: S3Server, bucket: str
) -> None:
    into = dn.create(f"{bucket}/t", "id bigint", storage_options=s3_server.options)
    writer = table.read_stream(spark).writeStream.format("deltanb").options(**s3_server.options)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert writer.start(into.path).awaitTermination(PATIENCE)
    assert ids(into) == [0]
