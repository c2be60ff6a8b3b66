"""Tables in a bucket as DataFrames: by Spark's own reader and writer (S3A), and by executors through Arrow.

    python -m tests.benchmarks spark_buckets [--quick] [--rounds N] [--only TEXT]

The ways run by turns in one session, against an S3 server on loopback in a process of its own, whose time
does not count. "Plain Parquet" is Spark without us, by the same connector: its writer's files go to their
names by copies.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.benchmarks.figures import Figure, absent, attempt
from tests.benchmarks.spark import Ways, Work, compared
from tests.benchmarks.spark_tables import SQL_TYPES

SUITE = "spark_buckets"
ROWS, QUICK_ROWS, FILES = 4_000_000, 40_000, 8
NAMES = ("deltanb", "executors", "plain Parquet")
SERVER = """
import json, sys
from deltanb.testing.s3_server import S3Server
server = S3Server()
print(json.dumps([server.make_bucket("figures"), server.options]), flush=True)
sys.stdin.read()
"""


@contextmanager
def server() -> Iterator[tuple[str, dict[str, str]]]:
    """A bucket of a server of its own, and how to get there."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        bucket, options = json.loads(process.stdout.readline())
        yield bucket, options
        process.stdin.close()


@contextmanager
def by_executors() -> Iterator[None]:
    """As in a session that has no file system for the bucket."""
    with patch("deltanb.engines.spark.plans.connector_for", lambda *_: None), \
            patch("deltanb.engines.spark.write.connector_for", lambda *_: None):
        yield


class Bucket:
    """A table in a bucket, read and written in each of the ways."""

    def __init__(self, session: Any, bucket: str, options: Mapping[str, str], rows: int) -> None:
        self.session, self.bucket, self.options, self.rows = session, bucket, dict(options), rows
        self.numbers = count()

    def frame(self) -> Any:
        """Rows that Spark makes."""
        return self.session.range(0, self.rows, 1, FILES).selectExpr(
            "id", "id * 0.5D value", "concat('name ', id % 1000) name",
            f"int(id * {FILES} div {self.rows}) part")

    def hadoop(self, path: str) -> tuple[str, dict[str, str]]:
        """A path and options as Spark's own reader and writer are given them."""
        from deltanb.engines.spark.connectors import connector_for
        from deltanb.store.object import ObjectStore

        connector = connector_for(ObjectStore(path, self.options), self.session)
        assert connector is not None, "S3A is used"
        return connector.root, dict(connector.options)

    def writes(self, by: tuple[str, ...] = ()) -> Ways:
        """A new table of a file for each task and partition."""
        import deltanb as dn

        def own() -> None:
            dn.create(f"{self.bucket}/w{next(self.numbers)}", self.frame(), partition_by=by,
                      storage_options=self.options)

        def plain() -> None:
            path, options = self.hadoop(f"{self.bucket}/w{next(self.numbers)}")
            self.frame().write.options(**options).partitionBy(*by).parquet(path)

        return dict(zip(NAMES, (own, lambda: _with(by_executors, own), plain), strict=True))

    def scans(self, query: str, name: str = "table", deleted: bool = False) -> Ways:
        """Sums over the rows of a condition."""
        import deltanb as dn
        from deltanb.errors import TableNotFound

        where = f"{self.bucket}/{name}"
        try:
            table = dn.open(where, storage_options=self.options)
        except TableNotFound:
            table = dn.create(where, self.frame(), storage_options=self.options,
                              properties={"delta.enableDeletionVectors": deleted})
            if deleted:
                table.delete("id % 100 = 0")
        sums = ("sum(id)", "sum(value)", "sum(length(name))", "count(*)")

        def own() -> Any:
            return table.to_df(self.session).filter(query).selectExpr(*sums).collect()

        def plain() -> Any:
            path, options = self.hadoop(where)
            files = [f"{path}/{file}" for file in table.log.snapshot.files["path"].to_pylist()]
            frame = self.session.read.schema(SQL_TYPES).options(**options).parquet(*files)
            return frame.filter(query).selectExpr(*sums).collect()

        ways = {"deltanb": own, "executors": lambda: _with(by_executors, own)}
        return ways if deleted else {**ways, "plain Parquet": plain}


def _with(context: Callable[[], Any], work: Callable[[], Any]) -> Any:
    with context():
        return work()


def works(bucket: Bucket) -> dict[str, Work]:
    """By title."""
    rows = f"{bucket.rows // 1000:,} k rows"
    made: dict[str, Callable[[], Ways]] = {
        f"write, {rows}": bucket.writes,
        f"write, {FILES} partitions, {rows}": partial(bucket.writes, ("part",)),
        f"scan, {rows}": partial(bucket.scans, "value >= 0"),
        f"selective scan, {rows}": partial(bucket.scans, "id = 777"),
        f"scan, 1 % of {rows} deleted": partial(bucket.scans, "value >= 0", "deleted", True),
    }
    return {title: Work(lambda *_, ways=ways: ways(), warm_up=1) for title, ways in made.items()}


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    import deltanb as dn
    from tests.engines.spark.s3a import arguments
    from tests.peers.delta_spark import Unavailable

    rows = QUICK_ROWS if quick else ROWS
    if not any(only in title for title in works(Bucket(None, "", {}, rows))):
        return
    try:
        session = dn.spark(**arguments())
    except Unavailable:
        yield absent(SUITE, "all", "hadoop-aws")
        return
    try:
        with server() as (place, options), tempfile.TemporaryDirectory() as folder:
            bucket = Bucket(session, place, options, rows)
            for title, work in works(bucket).items():
                if only in title:
                    yield from (replace(figure, suite=SUITE) for figure in attempt(
                        SUITE, title, partial(compared, session, title, work, Path(folder), rounds)))
    finally:
        session.stop()
