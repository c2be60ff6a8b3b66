"""A Spark session with Delta Spark in a process of its own: ``python delta_spark_server.py JAR...``.

It reads one JSON request a line from standard input and answers with one JSON line: ``{"rows": ...}``
(an Arrow stream in base64), ``{"value": ...}``, or ``{"error": class, "message": text}``. What Spark
and its JVM print goes to standard error, so that answers stay alone on their channel. Started and
spoken to by :mod:`delta_spark`; only here is Delta's JVM interface used.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import sys
import tempfile
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

CONCURRENCY = "io.delta.exceptions."
DELTA = "org.apache.spark.sql.delta"
NONE_CLASS = "scala.None$"


def session(jars: list[str]) -> SparkSession:
    """A small session: one core, one partition, plans that are run as they are made."""
    settings = {
        "spark.master": "local[1]",
        "spark.jars": ",".join(jars),
        "spark.driver.memory": os.environ.get("DELTA_SPARK_MEMORY", "1g"),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # else VACUUM has 10,000 tasks
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",  # nothing to adapt where there is one partition
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these few rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": f"{DELTA}.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        **json.loads(os.environ.get("DELTA_SPARK_SETTINGS", "{}")),
    }
    builder = SparkSession.builder.appName("peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


class Server:
    """Answers requests; every public method is one kind of request."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: Any = spark._jvm

    # -- tables ------------------------------------------------------------------------------------

    def sql(self, text: str, settings: dict[str, str] | None = None) -> dict[str, Any]:
        """Run a statement; its rows as Arrow."""
        with self._settings(settings):
            frame = self.spark.sql(text)
            if not frame.columns:
                return {"value": None}
            try:
                return {"rows": encoded(frame.toArrow())}
            except pa.ArrowInvalid:  # OPTIMIZE says of its numbers that they are never NULL, and some are
                return {"rows": encoded(frame.selectExpr("to_json(struct(*)) AS json").toArrow())}

    def view(self, name: str, rows: str) -> dict[str, Any]:
        """Name an Arrow table for statements to come."""
        table = pa.ipc.open_stream(base64.b64decode(rows)).read_all()
        with self._settings({"spark.sql.timestampType": "TIMESTAMP_NTZ"}):  # as the zones of the table say
            self.spark.createDataFrame(table).createOrReplaceTempView(name)
        return {"value": None}

    def write(self, text: str, path: str, mode: str, options: dict[str, str] | None = None,
              partition_by: list[str] | None = None, settings: dict[str, str] | None = None
              ) -> dict[str, Any]:
        """Save a query's rows through the DataFrame writer."""
        with self._settings(settings):
            writer = self.spark.sql(text).coalesce(1).write.format("delta").mode(mode)
            writer = writer.options(**(options or {})).partitionBy(*(partition_by or []))
            writer.save(path)
        return {"value": None}

    def create(self, path: str, schema: str) -> dict[str, Any]:
        """Make an empty table with a schema that SQL has no words for."""
        empty = self.spark.createDataFrame([], StructType.fromJson(json.loads(schema)))
        empty.write.format("delta").save(path)
        return {"value": None}

    def gate(self, pipe: str) -> dict[str, Any]:
        """Name a function for statements to come: ``gate(value)`` is its value, once the pipe is gone.

        Whoever opens the pipe for writing waits for the statement to come to it, and lets it on by removing
        the pipe before closing it; Spark may ask more than once.
        """
        def gate(value: Any) -> Any:
            with contextlib.suppress(FileNotFoundError), open(pipe, "rb") as opened:
                opened.read()
            return value

        self.spark.udf.register("gate", gate, "bigint")
        return {"value": None}

    def sql_locked(self, text: str, lock: str) -> dict[str, Any]:
        """Run a statement, holding the lock of all writers: see :meth:`append_locked`."""
        with open(lock, "a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            return self.sql(text)

    def append_locked(self, path: str, lock: str, count: int, who: str) -> dict[str, Any]:
        """Append ``count`` rows, a commit each, holding the lock of all writers while committing.

        Hadoop's rename on a local file system looks whether the target is there, and then renames:
        between the two a commit of another process would be overwritten.
        """
        versions = []
        log = self._log(path)
        for n in range(count):
            frame = self.spark.sql(f"SELECT '{who}' who, {n}L n, {n % 3}L part")
            txn = log.startTransaction()
            files = txn.writeFiles(frame._jdf)
            append = self.jvm.org.apache.spark.sql.SaveMode.Append
            operation = self._new("DeltaOperations$Write", append)
            with open(lock, "a") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                versions.append(txn.commit(files, operation))
        return {"value": versions}

    def stream(self, source: str, target: str) -> dict[str, Any]:
        """Stream all rows that one table has into another."""
        rows = self.spark.readStream.format("delta").load(source).writeStream.format("delta")
        rows = rows.option("checkpointLocation", f"{target}/_checkpoints").trigger(availableNow=True)
        rows.start(target).awaitTermination(60)
        return {"value": None}

    def read_stream(self, path: str, options: dict[str, str]) -> dict[str, Any]:
        """The rows of a stream over all that a table has, and ``_batch``, the batch of each."""
        name, folder = f"stream_{uuid.uuid4().hex}", tempfile.mkdtemp()

        def add(batch: DataFrame, number: int) -> None:
            rows = batch.withColumn("_batch", F.lit(number))
            batches.append(rows.toArrow())

        batches: list[pa.Table] = []
        rows = self.spark.readStream.format("delta").options(**options).load(path)
        query = rows.writeStream.queryName(name).foreachBatch(add).option("checkpointLocation", folder)
        query.trigger(availableNow=True).start().awaitTermination(60)
        return {"rows": encoded(pa.concat_tables(batches))} if batches else {"value": None}

    def write_stream(self, source: str, path: str, mode: str, options: dict[str, str]) -> dict[str, Any]:
        """Stream all rows of a table into a path, as one batch; ``complete`` counts them by ``p``."""
        rows = self.spark.readStream.format("delta").load(source)
        if mode == "complete":
            rows = rows.groupBy("p").agg(F.count("*").alias("v"))
        writer = rows.writeStream.format("delta").outputMode(mode).options(**options)
        writer = writer.option("checkpointLocation", tempfile.mkdtemp())
        writer.trigger(availableNow=True).start(path).awaitTermination(60)
        return {"value": None}

    def checkpoint(self, path: str) -> dict[str, Any]:
        """Write a checkpoint of the newest version."""
        self._log(path).checkpoint()
        return {"value": None}

    # -- the optimistic transaction ----------------------------------------------------------------

    def scenario(self, path: str, reads: list[dict[str, Any]], late_reads: list[dict[str, Any]],
                 winners: list[list[str]], actions: list[str], operation: str, large: bool,
                 settings: dict[str, str]) -> dict[str, Any]:
        """A transaction on the table as it is, the winners' commits, then its own commit."""
        log_folder = Path(path, "_delta_log")
        with self._settings({"history.metricsEnabled": "false", "writeChecksumFile.enabled": "false",
                             **settings}):
            try:
                log = self._log(path)
                txn = log.startTransaction()
                txn_id = txn.txnId()
                version = txn.readVersion()
                for read in reads:
                    self._read(txn, read)
                for offset, lines in enumerate(winners):
                    text = "".join(line + "\n" for line in lines).replace("${txnId}", txn_id)
                    (log_folder / f"{version + 1 + offset:020}.json").write_text(text)
                for read in late_reads:
                    self._read(txn, read)
                values = self._seq([self._action(line) for line in actions])
                if large:
                    empty = getattr(self.jvm.scala.collection.immutable, "Map$")
                    nothing = getattr(empty, "MODULE$").empty()
                    committed = txn.commitLarge(
                        self.spark._jsparkSession, values.iterator(), self._none(),
                        self._operation(operation), nothing, nothing)._1()
                else:
                    committed = txn.commit(values, self._operation(operation))
                fresh = log.update(False, self._none(), self._none())
                files = DataFrame(fresh.allFiles().toDF(), self.spark).select("path").collect()
                return {"value": {"version": committed, "files": sorted(f.path for f in files)}}
            finally:
                self._companion("DeltaLog").clearCache()

    def _read(self, txn: Any, read: dict[str, Any]) -> None:
        match read["op"]:
            case "filter_files":
                if not read["predicates"]:
                    txn.filterFiles()
                    return
                parse = self.spark._jsparkSession.sessionState().sqlParser().parseExpression
                txn.filterFiles(self._seq(self._resolved(txn, parse(p)) for p in read["predicates"]),
                                False)
            case "read_whole_table":
                txn.readWholeTable()
            case "txn_version":
                txn.txnVersion(read["app_id"])
            case "metadata":
                txn.metadata()
            case "filter_files_in_partitions_of":
                txn.filterFiles(self._seq(self._action(json.dumps(a)) for a in read["adds"]))
            case other:
                raise ValueError(other)

    def _resolved(self, txn: Any, parsed: Any) -> Any:
        """The conjunct with the table's columns and types in it, as Delta's commands hand it on."""
        schema = StructType.fromJson(json.loads(txn.metadata().schema().json()))
        frame = self.spark.createDataFrame([], schema)
        plan = frame.filter(parsed.sql())._jdf.queryExecution().analyzed()
        return plan.condition()

    # -- Scala -------------------------------------------------------------------------------------

    def _log(self, path: str) -> Any:
        return self._companion("DeltaLog").forTable(self.spark._jsparkSession, path)

    def _companion(self, name: str) -> Any:
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return loader.loadClass(f"{DELTA}.{name}$").getField("MODULE$").get(None)

    def _new(self, name: str, *arguments: Any) -> Any:
        """An instance with Scala's defaults for the arguments that are not given."""
        companion = self._companion(name)
        total = companion.getClass().getMethods()
        num_parameters = max(m.getParameterCount() for m in total if m.getName() == "apply")
        values = list(arguments)
        for position in range(len(values) + 1, num_parameters + 1):
            values.append(getattr(companion, f"apply$default${position}")())
        return companion.apply(*values)

    def _none(self) -> Any:
        return getattr(getattr(self.jvm.scala, "None$"), "MODULE$")

    def _some(self, value: Any) -> Any:
        return self.jvm.scala.Some(value)

    def _seq(self, values: Any) -> Any:
        listed = self.jvm.java.util.ArrayList()
        for value in values:
            listed.append(value)
        return self.jvm.PythonUtils.toSeq(listed)

    def _action(self, line: str) -> Any:
        return self._companion("actions.Action").fromJson(line)

    def _operation(self, name: str) -> Any:
        nothing = self._seq([])
        match name:
            case "Manual Update":
                return self._companion("DeltaOperations$ManualUpdate")
            case "TRUNCATE":
                return self._new("DeltaOperations$Truncate")
            case "DELETE":
                return self._new("DeltaOperations$Delete", nothing)
            case "OPTIMIZE":
                return self._new("DeltaOperations$Optimize", nothing)
            case "WRITE":
                return self._new("DeltaOperations$Write",
                                 self.jvm.org.apache.spark.sql.SaveMode.Overwrite)
            case "REPLACE TABLE":
                metadata = self._new("actions.Metadata")
                return self._new("DeltaOperations$ReplaceTable", metadata, False, False)
            case "ROW TRACKING UNBACKFILL":
                return self._new("DeltaOperations$RowTrackingUnBackfill")
            case "RESTORE":
                return self._new("DeltaOperations$Restore", self._none(), self._none())
            case other:
                raise ValueError(other)

    @contextlib.contextmanager
    def _settings(self, values: dict[str, str] | None) -> Iterator[None]:
        """Settings for one request, under their names without Delta's prefix, or whole."""
        changed = {key if key.startswith("spark.") else f"spark.databricks.delta.{key}": value
                   for key, value in (values or {}).items()}
        before = {key: self.spark.conf.get(key, None) for key in changed}
        try:
            for key, value in changed.items():
                self.spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    self.spark.conf.unset(key)
                else:
                    self.spark.conf.set(key, value)


def encoded(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def failure(error: Exception) -> dict[str, Any]:
    """An error as class name (the JVM's where it comes from there), condition and message."""
    if isinstance(error, Py4JJavaError):
        thrown = error.java_exception
        # A command's own exception travels inside those of the query that ran it.
        while not thrown.getClass().getName().startswith(CONCURRENCY) and thrown.getCause() is not None:
            thrown = thrown.getCause()
        condition = getattr(thrown, "getErrorClass", lambda: None)
        try:
            condition = condition()
        except Exception:  # no such method on that class
            condition = None
        return {"error": thrown.getClass().getSimpleName(), "condition": condition,
                "message": str(thrown.getMessage())}
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return {"error": type(error).__name__, "condition": condition, "message": str(error)}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server(session(sys.argv[1:]))
    print(json.dumps({"value": server.spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        do: Callable[..., dict[str, Any]] = getattr(server, request.pop("do"))
        try:
            answer = do(**request)
        except Exception as error:  # whatever it is, the other side is to know
            answer = {**failure(error), "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    server.spark.stop()


if __name__ == "__main__":
    main()
