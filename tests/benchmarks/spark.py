"""What a table costs over plain Parquet on Spark: ``python tests/benchmarks/spark.py [rows]``.

Both ways run by turns in one session, since a machine is never alone; the ratios count, not the seconds.
Written are ``rows`` rows in 24 partitions, with a CHECK constraint and without; read are a sum, a
group-by and one row, from the Hive layout and with rows deleted, against ``spark.read.parquet``.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

import deltanb.spark
from deltanb.actions import Metadata, Protocol
from deltanb.data import deletion_vectors
from deltanb.options import set_options
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.spark.read import read_table
from deltanb.spark.write import write_files
from deltanb.store.local import LocalStore
from deltanb.transaction.delta_log import DeltaLog

ROWS = 2_000_000
PARTITIONS = 24
TURNS = 5
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "checkConstraints"))
SCHEMA = StructType(StructField(name, PrimitiveType(kind)) for name, kind in (
    ("id", "long"), ("value", "double"), ("name", "string"), ("at", "timestamp"), ("part", "integer")))


def metadata(**configuration: str) -> Metadata:
    return Metadata("t", SCHEMA.to_json(), ("part",), configuration)


def rows_of(session: Any, count: int) -> Any:
    return session.range(0, count, 1, 4).selectExpr(
        "id", "id * 0.5D value", "concat('name ', id % 1000) name", "timestamp_seconds(id) at",
        f"int(id * {PARTITIONS} div {count}) part")


def by_turns(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each way; the first turn warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in seconds.items()}


def report(title: str, medians: dict[str, float]) -> None:
    first = next(iter(medians.values()))
    for name, seconds in medians.items():
        print(f"{title:<10} {name:<28} {seconds:7.2f} s   {seconds / first:5.2f}")


def writes(session: Any, folder: Path, count: int) -> None:
    frame = rows_of(session, count)

    def plain() -> None:
        frame.write.mode("overwrite").partitionBy("part").parquet(str(folder / "plain"))

    def table(**configuration: str) -> None:
        target = folder / "table"
        shutil.rmtree(target, ignore_errors=True)
        write_files(LocalStore(target), metadata(**configuration), PROTOCOL, frame)

    def unsynced() -> None:
        with set_options(durability="none"):
            table()

    report("write", by_turns({
        "df.write.parquet": plain, "deltanb": table, "deltanb, durability none": unsynced,
        "deltanb with a CHECK": lambda: table(**{"delta.constraints.c": "value >= 0"})}))


def table_of(session: Any, folder: Path, count: int, deleted: int) -> Any:
    store = LocalStore(folder)
    files = write_files(store, metadata(), PROTOCOL, rows_of(session, count))
    if deleted:
        files = [file.replace(deletion_vector=deletion_vectors.inline(
            BitMap64(range(0, file.num_records or 0, deleted)))) for file in files]
    text = "\n".join(action.to_json() for action in (PROTOCOL, metadata(), *files))
    store.put_if_absent("_delta_log/00000000000000000000.json", text.encode())
    return DeltaLog.for_table(str(folder)).snapshot


def reads(session: Any, folder: Path, count: int) -> None:
    snapshots = {"deltanb, Hive layout": table_of(session, folder / "hive", count, 0),
                 "deltanb, 1 % deleted": table_of(session, folder / "deleted", count, 100)}

    def frame_of(name: str) -> Any:
        if name == "spark.read.parquet":
            return session.read.parquet(str(folder / "plain"))
        return read_table(snapshots[name], snapshots[name].files, session)

    queries: dict[str, Callable[[Any], Any]] = {
        "sum": lambda frame: frame.selectExpr("sum(value)").collect(),
        "group-by": lambda frame: frame.groupBy("part", "name").count().selectExpr("max(count)").collect(),
        "one row": lambda frame: frame.filter("id = 77").collect(),
    }
    for title, query in queries.items():
        names = ["spark.read.parquet", *snapshots]
        report(title, by_turns({
            name: lambda name=name, query=query: query(frame_of(name)) for name in names}))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    session = deltanb.spark()
    folder = Path(tempfile.mkdtemp())
    try:
        print(f"{count} rows, {PARTITIONS} partitions, medians of {TURNS} turns; ratio to the first")
        writes(session, folder, count)
        reads(session, folder, count)
    finally:
        session.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
