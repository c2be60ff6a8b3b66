"""Commands beside delta-rs', Delta Spark's and bare Parquet: append, delete, update, merge and optimize.

    python -m tests.benchmarks commands [--quick] [--rounds N] [--only TEXT]

The tables have 2 M and 10 M rows (200,000 with ``--quick``) in 16 files. Every way gets a fresh copy of the
table, in a process of its own whose modules are loaded before the clock starts, so that the peak of memory is
that of the command. They take turns, since a machine is never alone: the ratios count, not the seconds. Delta
Spark, where its jars are, has one session for all turns. Bare Parquet is what no command can do without that
writes files again: pyarrow decodes those that the command touches and encodes their rows as one file.

"delete, neighbours" takes a hundred rows out of one row group. "merge, few rows" puts 1,000 rows, half of
them new, into 8 M rows, with a key in every file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # where it runs as a script of its own, for one measurement

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from tests.benchmarks.figures import Figure, absent, attempt, is_installed, times  # noqa: E402
from tests.benchmarks.peaks import peak_memory  # noqa: E402

SIZES, QUICK = (2_000_000, 10_000_000), (200_000,)
FILES = 16
MEMORY = "4g"  # of the JVM
FEW = "merge, few rows"
GOALS = {"append": 1.5, "delete": 1.2, "delete, neighbours": 1.2, "delete, vectors": None, "update": 1.2,
         "merge": 1.5, "optimize": 1.2, FEW: 1.0}
"""How many times deltalake's speed is wanted of each command."""
GOAL_OF_SPARK = 3.0
TIMES_FLOOR = 1.25  # of what bare Parquet takes
FEW_INTO, FEW_INTO_QUICK, FEW_MB = 8_000_000, 800_000, 300
TOUCHED = {"delete": 4, "update": 8, "merge": 4, "optimize": 1}
"""Of the table's rows, those that lie in files which the command touches: all of them divided by this."""
VECTORS = {"delta.enableDeletionVectors": "true"}


def rows_of(start: int, stop: int) -> pa.Table:
    ids = pa.array(range(start, stop), pa.int64())
    return pa.table({"id": ids, "value": pc.multiply(pc.cast(ids, pa.float64()), 0.5),
                     "name": pc.binary_join_element_wise("name", pc.cast(ids, pa.string()), " ")})


def make(path: Path, rows: int, properties: dict[str, str]) -> None:
    import deltanb as dn

    table = dn.create(path, rows_of(0, 0).schema, properties=properties)
    for n in range(FILES):
        table.append(rows_of(rows * n // FILES, rows * (n + 1) // FILES))


def source_of(rows: int, few: bool = False) -> pa.Table:
    """One row in a hundred of the first quarter again, and as many new ones; ``few``: 500 of all, 500 new."""
    if few:
        old = [rows_of(n, n + 1) for n in range(0, rows, rows // 500)]
        return pa.concat_tables([*old, rows_of(rows, rows + 500)])
    table = rows_of(0, rows // 4)
    return pa.concat_tables([table.take(pa.array(range(0, rows // 4, 100))),
                             rows_of(rows, rows + rows // 400)])


def deleted(command: str, rows: int) -> str:
    """One row in a hundred of the first quarter; as neighbours 100 rows in the middle of a file."""
    middle = rows // FILES // 2
    return (f"id BETWEEN {middle} AND {middle + 99}" if "neighbours" in command
            else f"id % 100 = 7 AND id < {rows // 4}")


# -- one measurement, in a process of its own ---------------------------------------------------


def ours(path: str, command: str, source: pa.Table, rows: int) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(path)
    match command.split(",")[0]:
        case "append":
            return lambda: table.append(source)
        case "delete":
            return lambda: table.delete(deleted(command, rows))
        case "update":
            return lambda: table.update({"value": "value + 1"}, f"id < {rows // 8}")
        case "merge":
            merge = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
            return merge.when_matched_update_all().when_not_matched_insert_all().execute
    return table.optimize


def theirs(path: str, command: str, source: pa.Table, rows: int) -> Callable[[], object]:
    import deltalake

    table = deltalake.DeltaTable(path)
    match command.split(",")[0]:
        case "append":
            return lambda: deltalake.write_deltalake(table, source, mode="append")
        case "delete":
            return lambda: table.delete(deleted(command, rows))
        case "update":
            return lambda: table.update(updates={"value": "value + 1"}, predicate=f"id < {rows // 8}")
        case "merge":
            merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            return merge.when_matched_update_all().when_not_matched_insert_all().execute
    return table.optimize.compact


def floor(path: str, command: str, source: pa.Table, rows: int) -> Callable[[], object]:
    """Bare Parquet."""
    import deltanb as dn

    files = dn.open(path).snapshot.files_for_scan(f"id < {rows // TOUCHED[command]}")["path"].to_pylist()

    def work() -> None:
        tables = [pq.ParquetFile(f"{path}/{name}").read() for name in files]
        pq.write_table(pa.concat_tables(tables), f"{path}/floor.parquet", compression="zstd")

    return work


WAYS = {"deltanb": ours, "deltalake": theirs, "Parquet": floor}


def child(library: str, path: str, command: str, source: str, rows: str) -> None:
    """Print what one run of a command took; a small one before it loads all modules."""
    data, way = pq.read_table(source), WAYS[library]
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder, "t"), 1_600, VECTORS if "vectors" in command else {})
        way(f"{folder}/t", command, source_of(1_600), 1_600)()
    work = way(path, command, data, int(rows))
    started, worked = time.perf_counter(), time.process_time()
    work()
    numbers = {"ms": (time.perf_counter() - started) * 1000, "cpu": (time.process_time() - worked) * 1000,
             "mb": peak_memory()}
    print(json.dumps(numbers))


def measured(library: str, path: Path, command: str, source: Path, rows: int) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, library, str(path), command, str(source), str(rows)],
                          capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def of_spark(peer: Any, path: Path, command: str, source: Path, rows: int) -> dict[str, Any]:
    name = f"delta.`{path}`"
    text = {
        "append": f"INSERT INTO {name} SELECT * FROM parquet.`{source}`",
        "delete": f"DELETE FROM {name} WHERE {deleted(command, rows)}",
        "update": f"UPDATE {name} SET value = value + 1 WHERE id < {rows // 8}",
        "merge": f"MERGE INTO {name} t USING parquet.`{source}` s ON t.id = s.id "
                 "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "optimize": f"OPTIMIZE {name}",
    }[command.split(",")[0]]
    started = time.perf_counter()
    peer.sql(text)
    return {"ms": (time.perf_counter() - started) * 1000}


def delta_spark() -> Any:
    """A session of Delta Spark's with what helps it, or None where its jars are not."""
    from tests.peers.delta_spark import DeltaSpark, Unavailable

    try:
        return DeltaSpark(MEMORY, {
            "spark.master": "local[2]", "spark.sql.codegen.wholeStage": "true",
            "spark.sql.codegen.factoryMode": "FALLBACK",
            "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
            "spark.sql.shuffle.partitions": "4", "spark.default.parallelism": "2"})
    except Unavailable as reason:
        print(f"no Delta Spark: {reason}")
        return None


# -- all of them --------------------------------------------------------------------------------


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    sizes = dict.fromkeys(GOALS, QUICK if quick else SIZES)
    sizes[FEW] = (FEW_INTO_QUICK if quick else FEW_INTO,)
    works = [(rows, command) for rows in sorted({rows for known in sizes.values() for rows in known})
             for command in GOALS if rows in sizes[command] and only in _title(command, rows)]
    peer = delta_spark() if works else None
    folder = Path(tempfile.mkdtemp(prefix="deltanb-commands-"))
    try:
        for rows in dict.fromkeys(rows for rows, _ in works):
            for name, properties in {"plain": {}, "vectors": VECTORS}.items():
                make(folder / f"{name}-{rows}", rows, properties)
            source = source_of(rows, few=rows in sizes[FEW])
            pq.write_table(source, folder / f"source-{rows}.parquet")
        for rows, command in works:
            yield from attempt("commands", _title(command, rows),
                               partial(_compared, folder, command, rows, rounds, peer))
    finally:
        if peer is not None:
            peer.close()
        shutil.rmtree(folder)


def _title(command: str, rows: int) -> str:
    return f"{command}, {rows // 1000:,} k rows"


def _compared(folder: Path, command: str, rows: int, rounds: int, peer: Any) -> Iterator[Figure]:
    source = folder / f"source-{rows}.parquet"
    table = folder / f"{'vectors' if 'vectors' in command else 'plain'}-{rows}"
    ways: dict[str, Callable[[Path], dict[str, Any]]] = {
        "deltanb": lambda path: measured("deltanb", path, command, source, rows)}
    if "vectors" not in command and is_installed("deltalake"):
        ways["deltalake"] = lambda path: measured("deltalake", path, command, source, rows)
    if command in TOUCHED:
        ways["Parquet"] = lambda path: measured("Parquet", path, command, source, rows)
    if peer is not None:
        ways["Delta Spark"] = lambda path: of_spark(peer, path, command, source, rows)
    best: dict[str, dict[str, Any]] = {}
    for turn in range(-1, rounds):  # a JVM compiles what it meets for the first time
        for name, way in ways.items():
            if turn < 0 and name != "Delta Spark":
                continue
            copy = folder / f"{turn}-{name.replace(' ', '-')}"
            shutil.copytree(table, copy)
            measures = way(copy)
            shutil.rmtree(copy)
            if turn < 0:
                continue
            known = best.get(name, measures)
            best[name] = measures if "error" in measures else {
                key: min(value, known.get(key, value)) for key, value in measures.items()}
    title = _title(command, rows)
    if "deltalake" in best:
        yield times("commands", title, "deltalake", best["deltalake"], best["deltanb"], GOALS[command])
    elif "vectors" not in command:
        yield absent("commands", title, "deltalake")
    if "Parquet" in best and "error" not in best["deltanb"]:
        bare, own = best["Parquet"], best["deltanb"]
        yield Figure("commands", title, "bare Parquet", own["ms"] / bare["ms"], TIMES_FLOOR, at_most=True,
                     note=f"{bare['ms']:.1f} / {own['ms']:.1f} ms, cpu {own['cpu'] / bare['cpu']:.2f}×")
    if command == FEW and "error" not in best["deltanb"]:
        peak = best["deltanb"]["mb"]
        yield Figure("commands", f"{title}, peak", f"{FEW_MB} MB", peak / FEW_MB, 1.0, at_most=True,
                     note=f"{peak:.0f} MB")
    if "Delta Spark" in best and "error" not in best["deltanb"]:
        spark, own = best["Delta Spark"]["ms"], best["deltanb"]["ms"]
        yield Figure("commands", title, "Delta Spark", spark / own, GOAL_OF_SPARK,
                     note=f"{spark:.1f} / {own:.1f} ms")


if __name__ == "__main__":
    child(*sys.argv[1:])
