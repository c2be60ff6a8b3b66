"""Delta Spark as a peer: its jars, and a session that never meets the one of the test run.

The jars come through Spark's own resolver from Maven Central, once, into the user's cache folder. Where
they cannot be had, :class:`Unavailable` says why and the tests skip. :class:`DeltaSpark` is the session:
a process of its own (``delta_spark_server.py``) with a JVM of its own, spoken to in JSON lines.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from deltanb.engines.spark import session as spark_session
from deltanb.errors import MissingDependency
from tests.patience import PATIENCE
from tests.peers.maven import alone, cache_folder

VERSION = "4.4.0"  # of delta-spark: the newest in Maven Central for Spark 4.2
FETCH_SECONDS = 240  # 20 MB of jars over a slow line; then the tests skip
SPARKS_OWN = ("org.apache.hadoop:*", "org.apache.parquet:*", "org.apache.logging.log4j:*",
              "org.slf4j:*", "com.fasterxml.jackson.core:*", "com.github.luben:*",
              "org.xerial.snappy:*", "org.roaringbitmap:*", "io.airlift:*")
"""Packages that Spark brings itself: they need not be fetched again."""


class Unavailable(Exception):
    """Delta Spark cannot run here; the message says why."""


class PeerError(Exception):
    """What went wrong on the other side: ``kind`` is the exception's class there, ``trace`` what a notebook
    or a job's log would show of it."""

    def __init__(self, kind: str, condition: str | None, message: str, trace: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.condition = condition
        self.message = message
        self.trace = trace


def jars() -> list[str]:
    """The jars of Delta Spark, from the cache or fetched into it.

    Raises:
        Unavailable: PySpark, Java or the jars are not to be had; the message says which and why.
    """
    try:
        import pyspark
    except ImportError as error:
        raise Unavailable(f"PySpark is not installed ({error})") from None
    spark = ".".join(pyspark.__version__.split(".")[:2])
    folder = cache_folder() / f"delta-spark-{VERSION}" / f"spark-{spark}"
    with alone("delta-spark"):
        if not (folder / "complete").exists():
            fetch(folder, f"io.delta:delta-spark_{spark}_2.13:{VERSION}")
    return sorted(str(path) for path in (folder / "jars").glob("*.jar"))


def fetch(folder: Path, package: str, excluded: Iterable[str] = SPARKS_OWN) -> None:
    """Resolve packages with Spark's resolver; a mark in the folder says that they are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "nothing.py"
    script.write_text("")
    submit = Path(__import__("pyspark").__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--packages", package, "--exclude-packages", ",".join(excluded),
               "--conf", f"spark.jars.ivy={folder}", "--conf", "spark.ui.enabled=false", str(script)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS,
                             env=environment())
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{package} did not come within {FETCH_SECONDS} s") from None
    if run.returncode:
        lines = [line.strip() for line in (run.stdout + run.stderr).splitlines()]
        why = next((line for line in lines if "RuntimeException" in line or "not found" in line),
                   lines[-1] if lines else "no message")
        raise Unavailable(f"{package} cannot be fetched: {why}")
    (folder / "complete").touch()


def environment() -> dict[str, str]:
    try:
        home = spark_session.java_home()
    except MissingDependency as error:
        raise Unavailable(str(error)) from None
    return {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}


class DeltaSpark:
    """A session with Delta Spark. Tables are named by path: ``table(path)`` is the name for SQL."""

    def __init__(self, memory: str = "1g", settings: Mapping[str, str] | None = None) -> None:
        self.memory, self.settings = memory, dict(settings or {})
        self._begin()

    def _begin(self) -> None:
        class_path = jars()
        server = Path(__file__).with_name("delta_spark_server.py")
        self.folder = tempfile.TemporaryDirectory(prefix="delta-spark-")
        self.log = Path(self.folder.name, "log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(server), *class_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, cwd=self.folder.name,
                env={**environment(), "DELTA_SPARK_MEMORY": self.memory,
                     "DELTA_SPARK_SETTINGS": json.dumps(self.settings)})
        try:
            self.receive(PATIENCE)
        except BaseException:
            self.close()
            raise

    # -- requests ----------------------------------------------------------------------------------

    def sql(self, text: str, **settings: str) -> list[dict[str, Any]]:
        """Run a statement; its rows as dictionaries."""
        table = self.arrow(text, **settings)
        return [] if table is None else table.to_pylist()

    def arrow(self, text: str, **settings: str) -> Any:
        return self.ask("sql", text=text, settings=settings)

    def rows(self, path: Path | str, columns: str = "*") -> list[dict[str, Any]]:
        """The rows of a table, in no order."""
        return self.sql(f"SELECT {columns} FROM {table(path)}")

    def view(self, name: str, rows: pa.Table) -> None:
        """Name an Arrow table for statements to come."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        self.ask("view", name=name, rows=base64.b64encode(sink.getvalue()).decode())

    def write(self, query: str, path: Path | str, mode: str = "append",
              partition_by: list[str] | None = None, **options: str) -> None:
        """Save a query's rows through the DataFrame writer."""
        self.ask("write", text=query, path=str(path), mode=mode, partition_by=partition_by or [],
                 options=options)

    def history(self, path: Path | str) -> list[dict[str, Any]]:
        """The rows of DESCRIBE HISTORY, newest first."""
        entries = self.sql(f"DESCRIBE HISTORY {table(path)}")
        return [{**row, "operationParameters": dict(row["operationParameters"] or []),
                 "operationMetrics": dict(row["operationMetrics"] or [])} for row in entries]

    def ask(self, do: str, **arguments: Any) -> Any:
        self.send(do, **arguments)
        return self.receive()

    def send(self, do: str, **arguments: Any) -> None:
        """Begin a request; :meth:`receive` ends it, and what happens between happens at once."""
        assert self.process.stdin is not None
        if self.process.stdin.closed:  # an earlier request had no answer: this one is another test's
            self._begin()
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def receive(self, seconds: float = PATIENCE) -> Any:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if not ready.select(seconds):
                log = self.log.read_text()[-2000:]
                self.close()
                raise TimeoutError(f"no answer from Delta Spark within {seconds} s: {log}")
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(PATIENCE)
            raise Unavailable(f"the process of Delta Spark ended: {self.log.read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"], answer["condition"], answer["message"], answer["trace"])
        if "rows" in answer:
            return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()
        return answer["value"]

    def close(self) -> None:
        """End the process; nicely, as long as it listens."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.folder.cleanup()

    def __enter__(self) -> DeltaSpark:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def table(path: Path | str) -> str:
    """A table's name in SQL."""
    return f"delta.`{path}`"
