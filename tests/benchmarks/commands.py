"""Commands beside Delta Spark's and delta-rs': ``python tests/benchmarks/commands.py [rows] [--quick]``.

delete, update, merge and optimize on a table of ``rows`` rows (10 M; 200,000 with ``--quick``) in 16
files. Every way gets a fresh copy of the table, and they take turns, since a machine is never alone: the
ratios count, not the seconds. deltanb runs in a process of its own for each command, so that the peak of
its memory is that of the command; its Spark session, where one is used, has started before the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS, QUICK = 10_000_000, 200_000
FILES = 16
TURNS = 3
MEMORY = "4g"  # of each JVM
COMMANDS = ("delete", "delete, vectors", "update", "merge", "optimize")
VECTORS = {"delta.enableDeletionVectors": "true"}

OURS = """
import json, resource, sys, time
import deltanb as dn, pyarrow.parquet as pq
from deltanb.testing import MemoryStore
path, command, source, rows, spark = sys.argv[1:]
rows = int(rows)
if spark == "1":
    session = dn.spark(config={"spark.driver.memory": "4g"})
    session.range(1).count()

def run(table, command, rows, source):
    if command.startswith("delete"):
        return table.delete(f"id % 100 = 7 AND id < {rows // 4}")
    if command == "update":
        return table.update({"value": "value + 1"}, f"id < {rows // 8}")
    if command == "merge":
        return (table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
                .when_matched_update_all().when_not_matched_insert_all().execute())
    return table.optimize()

some = pq.read_table(source).slice(0, 8)
small = dn.create(MemoryStore(), some)  # modules are loaded before the clock runs
small.append(some)
run(small, command, 80_000, some.slice(0, 1) if command == "merge" else some)
table = dn.open(path)
table.version
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
done = run(table, command, rows, pq.read_table(source) if command == "merge" else None)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, done.engine, idle // 1024, peak // 1024]))
"""


def rows_of(start: int, stop: int) -> pa.Table:
    ids = pa.array(range(start, stop), pa.int64())
    return pa.table({"id": ids, "value": pc.multiply(pc.cast(ids, pa.float64()), 0.5),
                     "name": pc.binary_join_element_wise("name", pc.cast(ids, pa.string()), " ")})


def make(path: Path, rows: int, properties: dict[str, str]) -> None:
    import deltanb as dn

    table = dn.create(path, rows_of(0, 0).schema, properties=properties)
    for n in range(FILES):
        table.append(rows_of(rows * n // FILES, rows * (n + 1) // FILES))


def source_of(rows: int) -> pa.Table:
    """One row in a hundred of the first quarter again, and as many new ones."""
    found = rows_of(0, rows // 4)
    return pa.concat_tables([found.take(pa.array(range(0, rows // 4, 100))),
                             rows_of(rows, rows + rows // 400)])


def ours(path: Path, command: str, source: Path, rows: int, spark: bool) -> tuple[float, str]:
    run = subprocess.run([sys.executable, "-c", OURS, str(path), command, str(source), str(rows),
                          "1" if spark else "0"], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, engine, idle, peak = json.loads(run.stdout.splitlines()[-1])
    return seconds, f"{engine}, {idle} -> {peak} MB"


def theirs(peer: Any, path: Path, command: str, source: Path, rows: int) -> tuple[float, str]:
    name = f"delta.`{path}`"
    text = {
        "delete": f"DELETE FROM {name} WHERE id % 100 = 7 AND id < {rows // 4}",
        "update": f"UPDATE {name} SET value = value + 1 WHERE id < {rows // 8}",
        "merge": f"MERGE INTO {name} t USING parquet.`{source}` s ON t.id = s.id "
                 "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "optimize": f"OPTIMIZE {name}",
    }[command.split(",")[0]]
    start = time.perf_counter()
    peer.sql(text)
    return time.perf_counter() - start, ""


def rust(path: Path, command: str, source: Path, rows: int) -> tuple[float, str]:
    import deltalake
    import pyarrow.parquet as pq

    table = deltalake.DeltaTable(path)
    start = time.perf_counter()
    match command:
        case "delete":
            table.delete(f"id % 100 = 7 AND id < {rows // 4}")
        case "update":
            table.update(updates={"value": "value + 1"}, predicate=f"id < {rows // 8}")
        case "merge":
            (table.merge(pq.read_table(source), "t.id = s.id", source_alias="s", target_alias="t")
             .when_matched_update_all().when_not_matched_insert_all().execute())
        case "optimize":
            table.optimize.compact()
        case _:
            return float("nan"), "no deletion vectors"
    return time.perf_counter() - start, ""


def main() -> None:
    sys.path.insert(0, str(ROOT))
    import pyarrow.parquet as pq

    from tests.peers.delta_spark import DeltaSpark, Unavailable

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--spark", action="store_true", help="deltanb may use Spark at any size")
    chosen = parser.parse_args()
    rows = chosen.rows or (QUICK if chosen.quick else ROWS)
    folder = Path(tempfile.mkdtemp())
    peer = None
    try:
        try:
            peer = DeltaSpark(MEMORY, {
                "spark.master": "local[2]", "spark.sql.codegen.wholeStage": "true",
                "spark.sql.codegen.factoryMode": "FALLBACK",
                "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
                "spark.sql.shuffle.partitions": "4", "spark.default.parallelism": "2"})
        except Unavailable as reason:
            print(f"no Delta Spark: {reason}")
        for name, properties in {"plain": {}, "vectors": VECTORS}.items():
            make(folder / name, rows, properties)
        source = folder / "source.parquet"
        pq.write_table(source_of(rows), source)
        print(f"{rows} rows, {FILES} files, medians of {chosen.turns} turns after one to warm up; "
              "ratio: the other's time to deltanb's")
        for command in COMMANDS:
            ways: dict[str, Callable[[Path], tuple[float, str]]] = {
                "deltanb": lambda path, c=command: ours(path, c, source, rows, chosen.spark or rows > QUICK)}
            if peer is not None:
                ways["Delta Spark"] = lambda path, c=command: theirs(peer, path, c, source, rows)
            if "vectors" not in command:
                ways["deltalake"] = lambda path, c=command: rust(path, c, source, rows)
            report(command, by_turns(ways, folder, command, chosen.turns))
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"(this process, with deltalake in it: {used} MB at its peak)")
    finally:
        if peer is not None:
            peer.close()
        shutil.rmtree(folder)


def by_turns(ways: dict[str, Callable[[Path], tuple[float, str]]], folder: Path, command: str, turns: int
             ) -> dict[str, tuple[float, str]]:
    """Median seconds of each way and what it last said; the first turn warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    said = dict.fromkeys(ways, "")
    kind = "vectors" if "vectors" in command else "plain"
    for turn in range(turns + 1):
        for name, way in ways.items():
            path = folder / f"{turn}-{name.replace(' ', '-')}"
            shutil.copytree(folder / kind, path)
            took, said[name] = way(path)
            shutil.rmtree(path)
            if turn:
                seconds[name].append(took)
    return {name: (statistics.median(found), said[name]) for name, found in seconds.items()}


def report(command: str, medians: dict[str, tuple[float, str]]) -> None:
    first = medians["deltanb"][0]
    for name, (seconds, said) in medians.items():
        print(f"{command:<16} {name:<12} {seconds:8.2f} s   {seconds / first:6.2f}   {said}", flush=True)


if __name__ == "__main__":
    main()
