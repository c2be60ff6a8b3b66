"""Tables in a bucket on Spark: executors read and write the files, and what goes wrong leaves none."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

from pyspark.errors import PySparkException

import deltanb as dn
from deltanb.engines.spark import buckets
from deltanb.errors import ConstraintViolation, DeltaError
from deltanb.store import storage_options as accesses
from deltanb.store.object import ObjectStore
from deltanb.store.storage_options import borrow, lend
from deltanb.store.vended import Vended, vended_store
from deltanb.testing.s3_server import ACCESS, S3Server
from tests.helpers import files_of, ids, refusing_data_files, rows

SECRET = ACCESS["aws_secret_access_key"]
BY_EXECUTORS = pytest.mark.classic(
    "keys given to a table are not sent to a Connect server, so rows pass through this process")


@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> dn.DeltaTable:
    return dn.create(f"{bucket}/t", {"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]}, partition_by="p",
                     storage_options=s3_server.options, properties={"delta.enableDeletionVectors": True})


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows that pass through this process fail the test."""
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows pass through this process")

    from pyspark.sql import DataFrame

    monkeypatch.setattr(DataFrame, "toArrow", refuse)
    monkeypatch.setattr("deltanb.engines.arrow.read.read_table", refuse)
    yield


@pytest.mark.spark
@BY_EXECUTORS
def test_executors_read_and_write_the_files(
    s3_server: S3Server, table: dn.DeltaTable, spark: Any, nothing_here: None
) -> None:
    table.delete("id = 2")
    table.append(spark.range(10, 30, 1, 4).selectExpr("id", "if(id % 2 = 0, 'a', null) p"))
    frame = table.to_df(where="id > 2")
    assert sorted(row.id for row in frame.collect()) == [3, 4, *range(10, 30)]
    assert frame.where("p IS NULL").count() == 10
    assert frame.columns == ["id", "p"]
    names = {Path(name).name.split("-")[1] for name in files_of(table) if "part-" in name}
    assert len(names) > 1, "files of a write by executors begin with its name"


@pytest.mark.spark
def test_rows_are_those_of_a_table_in_a_folder(
    s3_server: S3Server, bucket: str, spark: Any, tmp_path: Path
) -> None:
    frame = spark.sql("""
        SELECT id, timestamp_micros(id * 1000001) AS t, CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS n,
               date_add(DATE'2020-01-01', CAST(id AS INT)) AS d, CAST(id / 3 AS DECIMAL(20, 5)) AS c,
               named_struct('a', id, 'b', array(string(id))) AS s, map('k', id) AS m,
               CAST(string(id) AS BINARY) AS b
        FROM range(20)""")
    places = [(str(tmp_path / "t"), None), (f"{bucket}/typed", s3_server.options)]
    by_table = []
    for place, options in places:
        made = dn.create(place, frame.schema, storage_options=options)
        made.append(frame)
        by_table.append(sorted(made.to_df().collect(), key=lambda row: row.id))
    assert by_table[0] == by_table[1]
    assert by_table[0] == sorted(frame.collect(), key=lambda row: row.id)


@pytest.mark.spark
def test_a_row_that_no_table_may_hold_is_told_by_its_task_and_leaves_no_file(
    s3_server: S3Server, bucket: str, spark: Any
) -> None:
    table = dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options,
                      properties={"delta.constraints.small": "id < 100"})
    before = files_of(table)
    with pytest.raises(ConstraintViolation, match="small"):
        table.append(spark.range(90, 110, 1, 4))
    assert files_of(table) == before
    assert ids(table) == [1]


@pytest.mark.spark
@BY_EXECUTORS
def test_a_task_that_fails_leaves_no_file_nor_do_the_others(
    s3_server: S3Server, table: dn.DeltaTable, spark: Any
) -> None:
    before = files_of(table)
    # One task: Spark does not wait for the others when one has raised an error that is not ours.
    failing = spark.range(0, 40, 1, 1).selectExpr(
        "if(id = 39, cast(raise_error('no more') AS bigint), id) id", "'a' p")
    with pytest.raises(PySparkException, match="no more"):  # Spark's own, as for a table in a folder
        table.append(failing)
    assert files_of(table) == before

    with s3_server.failing(refusing_data_files(after=2)), pytest.raises(DeltaError, match="403"):
        table.append(spark.range(0, 40, 1, 4).selectExpr("id", "'a' p"))
    assert files_of(table) == before
    assert table.version == 0


@pytest.mark.spark
@BY_EXECUTORS
def test_no_secret_is_in_a_plan_or_what_tasks_are_given(table: dn.DeltaTable, spark: Any) -> None:
    place = buckets.place_for(table.log.store, spark)
    assert place is not None
    assert SECRET.encode() not in pickle.dumps(place)
    assert SECRET not in repr(place)
    frame = table.to_df()
    plan = frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended")
    assert SECRET not in plan
    assert len(rows(table)) == frame.count()


@pytest.mark.spark
@BY_EXECUTORS
def test_executors_have_what_a_catalog_vends_for_what_they_do(
    s3_server: S3Server, table: dn.DeltaTable, spark: Any, nothing_here: None
) -> None:
    asked = []

    def vend(operation: str) -> Vended:
        asked.append(operation)
        return Vended({"s3.access-key-id": f"for-{operation}", "s3.secret-access-key": SECRET}, None)

    plain = {name: value for name, value in s3_server.options.items() if "key" not in name}
    vended = dn.DeltaTable(dn.DeltaLog.for_table(vended_store(table.path, plain, vend)))
    with s3_server.counted() as seen:
        assert vended.to_df().count() == 4
        assert asked == ["READ"]
        vended.append(spark.range(10, 20, 1, 2).selectExpr("id", "'a' p"))
        frame = vended.to_df()
        assert frame.count() == 14
    assert asked == ["READ", "READ_WRITE"]
    plan = frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended")
    assert SECRET not in plan
    data = [request for request in seen if request.key.endswith(".parquet")]
    assert {request.method for request in data} >= {"GET", "PUT"}
    for request in seen:
        is_write = request.method in ("PUT", "POST", "DELETE")
        operations = ("READ_WRITE",) if is_write else ("READ", "READ_WRITE")
        assert any(f"Credential=for-{one}/" in request.headers["authorization"] for one in operations)


def test_what_is_lent_can_be_read_by_its_owner_alone_and_is_taken_back_whole(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore("s3://lake/t", {"aws_access_key_id": "me", "aws_secret_access_key": "hush"})
    monkeypatch.setenv("AWS_PROFILE_OF_TEST", "x")
    path = lend(store.access)
    assert lend(store.access) == path
    assert (os.stat(path).st_mode & 0o777, os.stat(os.path.dirname(path)).st_mode & 0o777) == (0o600, 0o700)
    monkeypatch.setattr(accesses, "_secrets", {})
    monkeypatch.delenv("AWS_PROFILE_OF_TEST")
    assert store.access.lacks_secrets
    borrow(path)
    assert store.access.secrets == {"access_key_id": "me", "secret_access_key": "hush"}
    assert os.environ.pop("AWS_PROFILE_OF_TEST") == "x"


def test_secrets_are_lent_to_this_machine_alone() -> None:
    class Session:
        def __init__(self, master: str) -> None:
            self.conf = {"spark.master": master}

    with_keys = ObjectStore("s3://lake/t", {"aws_access_key_id": "me", "aws_secret_access_key": "hush"})
    without_keys = ObjectStore("s3://lake/t")
    for master, expected in (("local[2]", (True, True)), ("local", (True, True)),
                             ("spark://far:7077", (False, True)), ("local-cluster[2,1,1024]", (False, True))):
        places = [buckets.place_for(store, Session(master)) for store in (with_keys, without_keys)]  # type: ignore[arg-type]
        assert tuple(place is not None for place in places) == expected
    assert type(places[1]) is buckets.Place
