"""Tables in a bucket by Spark's own reader and writer: a session that has Hadoop's S3A.

All tests share one process with such a session; what is in the bucket is looked at from here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

import deltanb as dn
from deltanb.engines.spark.permits import withdraw
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from tests.engines.spark import s3a
from tests.engines.spark.cluster import Driver, scratch
from tests.helpers import files_of, refusing_data_files, rows
from tests.peers.delta_spark import Unavailable

pytestmark = [pytest.mark.spark, pytest.mark.slow,
              pytest.mark.classic("the session with Hadoop's S3A is that of a process of its own")]

KEYS = ("aws_access_key_id", "aws_secret_access_key")
SECRET = ACCESS["aws_secret_access_key"]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    path = scratch()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def session(folder: Path, s3_server: S3Server) -> Iterator[Driver]:
    try:
        with s3a.driver(folder, "s3a", "local[2,2]") as running:  # a task is tried twice
            yield running
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def ask(session: Driver, s3_server: S3Server) -> Callable[..., Any]:
    def ask(job: str, path: str, *arguments: Any) -> Any:
        return session(f"s3a_jobs.{job}", path, s3_server.options, *arguments)

    return ask


@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> dn.DeltaTable:
    """In a folder whose name is encoded in URIs, partitioned, with a deleted row."""
    made = dn.create(f"{bucket}/a b%20/t", {"id": [1, 2, 3, 4], "p": ["a", "b", "a/ü", None]},
                     partition_by="p", storage_options=s3_server.options,
                     properties={"delta.enableDeletionVectors": True})
    made.delete("id = 2")
    return made


def path_of(table: dn.DeltaTable) -> str:
    return table.log.store.root


def test_rows_are_read_by_sparks_own_reader(table: dn.DeltaTable, ask: Callable[..., Any]) -> None:
    table.append({"id": [5, 6, 7], "p": ["a", "a", "b"]})
    table.delete("id = 5")
    path = path_of(table)
    assert ask("rows", path) == [[1, "a"], [3, "a/ü"], [4, None], [6, "a"], [7, "b"]]
    assert ask("rows", path, "p = 'a' AND id > 1") == [[6, "a"]]
    answer = ask("plans", path)
    assert all("LoggedFiles" in plan for plan in answer["plans"][:2])
    assert {name.split("://")[0][:4] for name in answer["files"]} == {"s3a-"}
    assert answer["reads"] == [True, False], "a stream into the table is told from one that reads it, too"


def test_mapped_columns_are_read_and_written(
    s3_server: S3Server, bucket: str, ask: Callable[..., Any]
) -> None:
    for mode in ("name", "id"):
        table = dn.create(f"{bucket}/{mode}", {"id": [1], "other": ["x"]}, partition_by="other",
                          storage_options=s3_server.options, properties={"delta.columnMapping.mode": mode})
        table.rename_column("other", "p")
        assert ask("run", path_of(table), "append", {"sql": "SELECT 2L id, 'y' p"}) == {"version": 2}
        assert ask("rows", path_of(table)) == [[1, "x"], [2, "y"]]
        assert sorted(rows(table), key=repr) == [{"id": 1, "p": "x"}, {"id": 2, "p": "y"}]


def test_rows_are_written_where_they_stay(
    table: dn.DeltaTable, ask: Callable[..., Any], s3_server: S3Server
) -> None:
    before = files_of(table)
    frame = {"sql": "SELECT id, if(id % 2 = 0, 'x/y', '') p FROM range(10, 30, 1, 2)"}
    with s3_server.counted() as requests:
        assert ask("run", path_of(table), "append", frame) == {"version": 2}
    copied = [request for request in requests if "x-amz-copy-source" in request.headers]
    data = [request for request in requests if request.method == "PUT" and request.key.endswith(".parquet")]
    assert (len(copied), len(data)) == (0, 4)
    assert len([row for row in rows(table) if row["id"] >= 10]) == 20
    assert {row["p"] for row in rows(table) if row["id"] >= 10} == {"x/y", None}
    assert len(files_of(table) - before) == 4, "no mark of a task is left, and nothing else"
    assert all('"numRecords":' in stats for stats in table.log.snapshot.files["stats"].to_pylist())


def test_a_write_that_fails_leaves_no_object(
    table: dn.DeltaTable, session: Driver, ask: Callable[..., Any], s3_server: S3Server
) -> None:
    before = files_of(table)
    failing = {"sql": "SELECT if(id = 39, cast(raise_error('no more') AS bigint), id) id, 'a' p "
                      "FROM range(0, 40, 1, 4)"}
    answer = ask("run", path_of(table), "append", failing)
    assert (answer["error"], "no more" in answer["text"]) == ("SparkRuntimeException", True)
    session("s3a_jobs.settled")
    assert files_of(table) == before

    with s3_server.failing(refusing_data_files(after=1)):
        answer = ask("run", path_of(table), "append", {"sql": "SELECT id, 'a' p FROM range(0, 40, 1, 4)"})
    assert answer["is_ours"] and answer["error"] == "StorageError"
    assert "credentials are refused" in answer["text"] and SECRET not in answer["text"]
    session("s3a_jobs.settled")
    assert files_of(table) == before


@pytest.mark.parametrize("moment", ["PUT .parquet", "PUT done-", "HEAD .tmp"])
def test_a_task_of_a_write_that_has_ended_removes_its_objects(
    table: dn.DeltaTable, ask: Callable[..., Any], s3_server: S3Server, moment: str
) -> None:
    """The write ends right before a request of the task; whoever has ended it does not come back."""
    before, store = files_of(table), table.log.store
    method, part = moment.split()
    came = list[str]()

    def end(request: Request) -> str | None:
        is_of_task = "hadoop" in request.headers["user-agent"].lower()
        if request.method == method and part in request.key and is_of_task and not came:
            came.append("ending")
            write = re.search(r"part[-.]([0-9a-f]{16})", request.key)
            assert write is not None
            name = f"part-{write[1]}"
            withdraw(store, name)
            store.delete_many([status.name for status in store.list_all(name)])
            came.append("ended")
        return "403" if came == ["ending", "ended"] and not is_of_task else None

    with s3_server.failing(end):
        answer = ask("run", path_of(table), "append", {"sql": "SELECT id, 'a' p FROM range(0, 9, 1, 1)"})
    assert "has ended: its driver has given it up" in answer["text"]
    assert files_of(table) == before


def test_a_task_that_is_tried_again_counts_once(
    table: dn.DeltaTable, ask: Callable[..., Any], s3_server: S3Server
) -> None:
    """The first try has written one of its two files."""
    before, puts = files_of(table), list[str]()

    def refuse(request: Request) -> str | None:
        if request.method == "PUT" and request.key.endswith(".parquet"):
            puts.append(request.key)
            return "403" if len(puts) == 2 else None
        return None

    frame = {"sql": "SELECT id, if(id < 20, 'x', 'y') p FROM range(10, 30, 1, 1)"}
    with s3_server.failing(refuse):
        assert ask("run", path_of(table), "append", frame) == {"version": 2}
    assert len(puts) == 4
    assert [row["id"] for row in rows(table) if row["p"] in ("x", "y")] == list(range(10, 30))
    assert len(files_of(table) - before) == 2, "what the first try has left is gone"


def test_executors_elsewhere_use_keys_of_their_own(
    folder: Path, s3_server: S3Server, table: dn.DeltaTable
) -> None:
    options = {key: value for key, value in s3_server.options.items() if key not in KEYS}
    keys = {key.upper(): ACCESS[key] for key in KEYS}
    try:
        cluster = s3a.driver(folder, "cluster", "local-cluster[1,2,512]", **keys)
        with cluster as session:
            path = path_of(table)
            assert session("s3a_jobs.connector", path, s3_server.options) is None
            assert session("s3a_jobs.run", path, options, "append", {"sql": "SELECT 9L id, 'z' p"}) == {
                "version": 2}
            assert session("s3a_jobs.rows", path, options, "id > 3") == [[4, None], [9, "z"]]
            scheme, settings = session("s3a_jobs.connector", path, options)
            assert scheme.startswith("s3a-") and not any("key" in name or "auth" in name for name in settings)
    except Unavailable as error:
        pytest.skip(str(error))


def test_commands_run_on_what_spark_reads_and_writes(table: dn.DeltaTable, ask: Callable[..., Any]) -> None:
    path = path_of(table)
    assert ask("run", path, "update", {"p": "'c'"}, "id = 3") == {"version": 2}
    assert ask("run", path, "delete", "p = 'a'") == {"version": 3}
    assert ask("rows", path) == [[3, "c"], [4, None]]


def test_no_secret_is_told_and_no_setting_changed(
    table: dn.DeltaTable, ask: Callable[..., Any], session: Driver
) -> None:
    before = session("s3a_jobs.settings")
    assert ask("run", path_of(table), "append", {"sql": "SELECT 9L id, 'z' p"}) == {"version": 2}
    assert len(ask("rows", path_of(table))) == 4
    after = session("s3a_jobs.settings")
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()
    events = session("s3a_jobs.event_log")
    assert "SparkListenerSQLExecutionStart" in events and "part-" in events
    scheme, options = ask("connector", path_of(table))
    assert scheme in events
    for text in (events, *ask("plans", path_of(table))["plans"], repr(options), repr(after),
                 session.errors.read_text()):
        assert SECRET not in text and ACCESS["aws_access_key_id"] not in text
