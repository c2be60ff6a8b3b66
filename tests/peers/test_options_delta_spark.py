"""Each option of ``format("deltanb")`` beside Delta Spark's: the same data, the same rows, the same refusals.

Our side runs without a JVM: what Spark asks of a data source is asked here.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

import deltanb as dn
from deltanb.actions import AddFile, RemoveFile, decode_path
from deltanb.engines.spark.columns import spark_schema
from deltanb.errors import DeltaError
from deltanb.schema.types import from_arrow
from deltanb.sources.spark.option_table import OPTIONS, STREAM_READ, STREAM_WRITE, WRITE
from deltanb.sources.spark.source import DeltaDataSource
from tests.examples import every
from tests.peers.delta_spark import DeltaSpark, PeerError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FEED = {"delta.enableChangeDataFeed": "true"}
SELF = ("path", "checkpointLocation", "queryName")
"""Options by which every case runs."""
OVER_TIME = ("schemaTrackingLocation", "streamingSourceTrackingId")
"""Options of streams that stop and start again: tests/sources/spark has them."""


# --- streams that are read --------------------------------------------------------------------------

def appended(path: Path) -> dn.DeltaTable:
    """A table of three commits that only add, each with a file in two partitions."""
    table = dn.create(path, {"id": [0, 1], "p": ["a", "b"]}, "p", properties=FEED)
    for first in (10, 20):
        table.append({"id": [first, first + 1], "p": ["a", "b"]})
    return table


def deleted(path: Path) -> dn.DeltaTable:
    """As :func:`appended`, and then a commit that removes a whole partition, and one that adds."""
    table = appended(path)
    table.delete("p = 'a'")
    table.append({"id": [30], "p": ["a"]})
    return table


def rewritten(path: Path) -> dn.DeltaTable:
    """As :func:`deleted`, with an update of one of two rows of a file."""
    table = deleted(path)
    table.append({"id": [40, 41], "p": ["c", "c"]})
    table.update({"id": "id + 100"}, where="id = 40")
    table.append({"id": [50], "p": ["a"]})
    return table


def marked(path: Path) -> dn.DeltaTable:
    """As :func:`rewritten`, with deletion vectors."""
    table = rewritten(path)
    table.set_properties({"delta.enableDeletionVectors": True})
    table.append({"id": [60, 61, 62], "p": ["a", "a", "a"]})
    table.delete("id = 61")
    return table


def gone(path: Path) -> dn.DeltaTable:
    """As :func:`appended`, without its first two commits."""
    table = appended(path)
    table.append({"id": [30], "p": ["a"]})
    table.log.checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    return dn.open(path)


@dataclass(frozen=True)
class Streamed:
    """One stream: of a table, with options. ``columns`` are those compared, and the batch is one of them
    where ``by_batch``."""

    table: Callable[[Path], dn.DeltaTable]
    options: dict[str, str] = field(default_factory=dict)
    by_batch: bool = False

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.table.__name__}-{options or 'none'}"


STREAMED = [
    Streamed(rewritten),
    *(Streamed(appended, {"startingVersion": start}) for start in ("0", "1", "3", "latest", "7", "x")),
    *(Streamed(deleted, {"startingVersion": "0", **more}) for more in (
        {}, {"ignoreDeletes": "true"}, {"ignoreDeletes": "maybe"})),
    *(Streamed(rewritten, {"startingVersion": "0", name: "true"}) for name in (
        "ignoreDeletes", "ignoreChanges", "ignoreFileDeletion", "skipChangeCommits", "readChangeFeed",
        "readChangeData")),
    *(Streamed(marked, {"startingVersion": "0", name: "true"}) for name in (
        "ignoreChanges", "skipChangeCommits", "readChangeFeed")),
    Streamed(rewritten, {"readChangeFeed": "true"}),
    *(Streamed(appended, {"startingTimestamp": moment}) for moment in ("2000-01-01", "2999-01-01")),
    *(Streamed(appended, {"startingVersion": "0", "maxFilesPerTrigger": count}, by_batch=True)
      for count in ("1", "2", "3", "0")),
    *(Streamed(appended, {"startingVersion": "0", "maxBytesPerTrigger": size}, by_batch=True)
      for size in ("1", "10k", "0", "x")),
    *(Streamed(gone, {"startingVersion": start, "failOnDataLoss": fail}) for fail in ("true", "false")
      for start in ("0", "2")),
    *(Streamed(appended, {**start, "excludeRegex": pattern}) for pattern in ("p=a", "^part", "[")
      for start in ({}, {"startingVersion": "1"})),
    Streamed(rewritten, {"startingVersion": "0", "readChangeFeed": "true", "excludeRegex": "p=c"}),
    Streamed(rewritten, {"withEventTimeOrder": "false"}),
]


def streamed(path: Path, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a stream by our data source over all that the table has, with the batch of each."""
    source = DeltaDataSource({"path": str(path), **options})
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    rows, start, number = [], reader.initialOffset(), 0
    make, arguments = reader.__reduce__()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        for task in reader.partitions(start, end):
            for batch in make(*arguments).read(task):
                rows += [{**row, "_batch": number} for row in batch.to_pylist()]
        start, number = end, number + 1
    return rows


# --- writes -----------------------------------------------------------------------------------------

def stock(path: Path) -> dn.DeltaTable:
    """A table with partitions, a NULL, and two rows in each file."""
    table = dn.create(path, {"id": [0, 2], "p": ["a", "a"], "v": [1, 1]}, "p")
    table.append({"id": [1, None], "p": ["b", "b"], "v": [1, 1]})
    return table


def fed(path: Path) -> dn.DeltaTable:
    """As :func:`stock`, with a change data feed."""
    table = stock(path)
    table.set_properties(FEED)
    return table


def nothing(path: Path) -> None:
    """No table."""


NEW = pa.table({"id": pa.array([2, 9], pa.int64()), "p": ["a", "c"], "v": pa.array([7, 7], pa.int64())})
WIDER = NEW.append_column("w", pa.array([1, 2], pa.int64()))


@dataclass(frozen=True)
class Written:
    """One write of rows, called ``s`` in SQL, to a table, with options and a mode."""

    options: dict[str, str] = field(default_factory=dict)
    mode: str = "append"
    table: Callable[[Path], Any] = stock
    rows: pa.Table = field(default_factory=lambda: NEW, repr=False)
    partition_by: tuple[str, ...] = ()
    times: int = 1

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        wide = "-wider" if self.rows is WIDER else ""
        return f"{self.mode}-{self.table.__name__}{wide}-{options or 'none'}"


def overwriting(table: Callable[[Path], Any] = stock, rows: pa.Table = NEW, **options: str) -> Written:
    return Written(options, "overwrite", table, rows)


WRITTEN = [
    *(Written({}, mode, table) for mode in ("append", "overwrite", "error", "ignore")
      for table in (stock, nothing)),
    Written({}, table=nothing, partition_by=("p",)), Written({}, partition_by=("v",)),
    *(overwriting(table, rows, replaceUsing=names) for table in (stock, fed)
      for names, rows in (("id", NEW), ("p", NEW), ("id, p", NEW), ("ID", NEW), ("w", NEW),
                          ("v", NEW.slice(0, 0)), ("", NEW))),
    overwriting(replaceUsing="id", mergeSchema="true", rows=WIDER),
    *(overwriting(replaceUsing="id", **more) for more in (
        {"replaceOn": "t.id = s.id", "targetAlias": "t"}, {"replaceWhere": "id = 2"}, {"dataChange": "false"},
        {"overwriteSchema": "true"}, {"partitionOverwriteMode": "dynamic"})),
    overwriting(nothing, replaceUsing="id"),
    *(overwriting(table, replaceOn=on, targetAlias="t") for table in (stock, fed) for on in (
        "t.id = s.id", "t.id = s.id AND t.p = s.p AND s.v > 100", "t.v < 3", "t.id <=> s.id", "s.v = 7",
        "id = s.id", "t.id = s.nowhere", "t.id = s.id AND t.v < s.v")),
    *(overwriting(replaceWhere=where, **more) for where, more in (
        ("id >= 2", {}), ("p IN ('a', 'c')", {}), ("t.id >= 2", {"targetAlias": "t"}), ("id = 2", {}))),
    overwriting(fed, replaceWhere="id >= 2"),
    *(overwriting(partitionOverwriteMode=mode) for mode in ("dynamic", "STATIC")),
    *(Written({"mergeSchema": flag}, rows=WIDER) for flag in ("true", "false")),
    overwriting(rows=WIDER, overwriteSchema="true"), overwriting(rows=WIDER),
    Written({"txnAppId": "app", "txnVersion": "3"}, times=2), Written({"txnAppId": "app"}),
    Written({"userMetadata": "why"}),
    *(Written({"optimizeWrite": flag}) for flag in ("false", "maybe")),
    *(Written({"maxRecordsPerFile": count}) for count in ("1", "0")),
    *(Written({"compression": codec}) for codec in ("zstd", "gzip", "nothing")),
    *(Written({"dataChange": flag}, mode) for flag in ("false", "maybe", "true")
      for mode in ("append", "overwrite")),
    Written({"dataChange": "false"}, table=nothing),
    Written({"dataChange": "false", "mergeSchema": "true"}, rows=WIDER),
    *(overwriting(dataChange="false", replaceWhere=where) for where in ("p IN ('a', 'c')", "id >= 2")),
    *(Written({"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}, table=table)
      for table in (nothing, stock)),
    *(Written({name: "3"}, table=nothing) for name in ("delta.apendOnly", "delta.appendOnly")),
]


def write(path: Path, case: Written) -> None:
    """As Spark asks the source for it; names come in lower case."""
    options = {name.lower(): value for name, value in case.options.items()}
    if case.mode in ("error", "ignore"):
        options["savemode"] = case.mode
    if case.partition_by:
        options["partitionby"] = ",".join(case.partition_by)
    source = DeltaDataSource({"path": str(path), **options})
    writer = source.writer(spark_schema(from_arrow(case.rows.schema)), case.mode == "overwrite")
    writer.commit([writer.write(iter(case.rows.to_batches()))])


def state(path: Path, run: Callable[[], object], *, by_codec: bool) -> Any:
    """What a write leaves: rows, columns, layout, properties, what the commit says and, where the case is
    about it, the codec of the new files (by default, each library has its own)."""
    is_there = dn.DeltaTable.is_delta_table(path)
    before = dn.open(path).version if is_there else -1
    before_files = set(dn.open(path).snapshot.files["path"].to_pylist()) if is_there else set()
    try:
        run()
    except (DeltaError, PeerError):
        return "refused"
    table = dn.open(path)
    rows = sorted(map(repr, table.to_arrow().to_pylist()))
    shown = [rows, table.schema.names, table.partition_columns, table.version - before,
             sorted((name, text) for name, text in table.properties.items() if "feature" not in name)]
    if table.version == before:
        return shown
    entry, actions = table.commit(table.version), table.log.read_commit(table.version)
    files = [one for one in actions if isinstance(one, AddFile | RemoveFile)]
    changes = table.changes(table.version) if table.properties.get(*FEED) else None
    parameters = {name: str(text).lower().replace(" ", "")
                  for name, text in dict(entry.operation_parameters).items()
                  if name not in ("partitionBy", "predicate", "queryId", "epochId", "queryName")}
    metrics = {name: entry.operation_metrics.get(name) for name in (
        "numDeletedRows", "numCopiedRows", "numOutputRows", "numFiles", "numRemovedFiles")}
    if before < 0:  # ours is CREATE TABLE AS SELECT
        parameters, metrics = {}, {}
    codecs = {pq.read_metadata(path / decode_path(one.path)).row_group(0).column(0).compression
              for one in files if isinstance(one, AddFile) and one.path not in before_files}
    return [*shown, parameters, metrics, sorted((type(one).__name__, one.data_change) for one in files),
            sorted(codecs) if by_codec else [], entry.user_metadata,
            None if changes is None else sorted(
                (repr(row["id"]), row["v"], row["_change_type"]) for row in changes.to_arrow().to_pylist())]


@pytest.mark.parametrize("case", every(11, WRITTEN), ids=str)
def test_a_write_leaves_what_delta_spark_s_leaves(
    case: Written, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    case.table(ours)
    if ours.exists():
        shutil.copytree(ours, theirs)
    delta_spark.view("new_rows", case.rows)
    for _ in range(case.times):
        by_codec = "compression" in case.options
        left = state(ours, lambda: write(ours, case), by_codec=by_codec)
        assert left == state(theirs, lambda: delta_spark.write(
            "SELECT * FROM new_rows AS s", theirs, case.mode, list(case.partition_by), **case.options),
            by_codec=by_codec)


# --- streams that are written -----------------------------------------------------------------------

COUNTED = pa.table({"p": ["a", "c"], "v": pa.array([1, 1], pa.int64())})


@dataclass(frozen=True)
class Sunk:
    """One batch of a stream into a table, with options and an output mode."""

    options: dict[str, str] = field(default_factory=dict)
    table: Callable[[Path], Any] = stock
    rows: pa.Table = field(default_factory=lambda: NEW, repr=False)
    mode: str = "append"

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.mode}-{self.table.__name__}-{options or 'none'}"


def counts(path: Path) -> dn.DeltaTable:
    """A table as a stream of counts has it."""
    return dn.create(path, {"p": ["x"], "v": [7]})


SUNK = [
    Sunk(), Sunk(table=nothing), Sunk({"userMetadata": "why"}),
    Sunk(table=nothing, rows=COUNTED, mode="complete"), Sunk(table=counts, rows=COUNTED, mode="complete"),
    Sunk(rows=WIDER), Sunk({"mergeSchema": "true"}, rows=WIDER),
    Sunk({"overwriteSchema": "true"}, rows=COUNTED, mode="complete"),
    Sunk({"overwriteSchema": "true"}, rows=WIDER),
    Sunk({"maxRecordsPerFile": "1"}), Sunk({"compression": "gzip"}), Sunk({"optimizeWrite": "false"}),
]


def sink(path: Path, case: Sunk) -> None:
    """As Spark asks the source for one batch of a stream."""
    options = {name.lower(): value for name, value in case.options.items()}
    source = DeltaDataSource({"path": str(path), "txnAppId": "a stream", **options})
    writer = source.streamWriter(spark_schema(from_arrow(case.rows.schema)), case.mode == "complete")
    sent = pickle.loads(pickle.dumps(writer))
    writer.commit([sent.write(iter(case.rows.to_batches()))], 0)


@pytest.mark.parametrize("case", every(6, SUNK), ids=str)
def test_a_batch_of_a_stream_leaves_what_delta_spark_s_leaves(
    case: Sunk, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    ours, theirs, source = (tmp_path / name for name in ("ours", "theirs", "source"))
    case.table(ours)
    if ours.exists():
        shutil.copytree(ours, theirs)
    dn.create(source, NEW if case.rows is COUNTED else case.rows)
    by_codec = "compression" in case.options
    left = state(ours, lambda: sink(ours, case), by_codec=by_codec)
    assert left == state(theirs, lambda: delta_spark.ask(
        "write_stream", source=str(source), path=str(theirs), mode=case.mode, options=case.options),
        by_codec=by_codec)


def outcome(run: Callable[[], list[dict[str, Any]]], by_batch: bool) -> list[str] | str:
    try:
        rows = run()
    except (DeltaError, PeerError):
        return "refused"
    left_out = {"_commit_timestamp", *(() if by_batch else ("_batch",))}
    return sorted(repr(sorted((name, value) for name, value in row.items() if name not in left_out))
                  for row in rows)


@pytest.mark.parametrize("case", every(8, STREAMED), ids=str)
def test_a_stream_reads_what_delta_spark_s_reads(
    case: Streamed, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    case.table(path)
    ours = outcome(lambda: streamed(path, case.options), case.by_batch)

    def peer() -> list[dict[str, Any]]:
        rows = delta_spark.ask("read_stream", path=str(path), options=case.options)
        return [] if rows is None else rows.to_pylist()

    assert ours == outcome(peer, case.by_batch)
    shutil.rmtree(path)


def test_every_option_has_a_case() -> None:
    """By its name and all others: the matrix grows with the table of options."""
    cases = {use: {name.lower() for case in each for name in case.options}
             for use, each in ((STREAM_READ, STREAMED), (WRITE, WRITTEN), (STREAM_WRITE, SUNK))}
    cases[WRITE].add("delta.…")  # streams of Delta Spark ignore them, and take no id of their own
    cases[STREAM_WRITE] |= {"delta.…", "txnappid"}
    for use, names in cases.items():
        lacking = [spelling for option in OPTIONS.values() if use in option.uses
                   and not option.is_ours and option.name not in (*SELF, *OVER_TIME)
                   for spelling in (option.name, *option.aliases) if spelling.lower() not in names]
        assert lacking == [], use
