"""Scans beside deltalake's, and beside DuckDB's and polars' own of the same files.

    python -m tests.benchmarks scans [--quick] [--rounds N] [--only TEXT]

The table has 10 M rows (200,000 with ``--quick``) of eight columns in 16 files: ``id`` ascends from file to
file, so that statistics tell files apart by it, ``scattered`` has its values everywhere. Every way reads in a
process of its own, with modules loaded and the table open before the clock starts. What each returns
is a table of its own kind; the number of its rows is compared. DuckDB and polars are given the paths of the
files and read no log.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # where it runs as a script of its own, for one measurement

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402

from tests.benchmarks.figures import Figure, absent, attempt, is_installed, times  # noqa: E402
from tests.benchmarks.peaks import peak_memory  # noqa: E402

ROWS, QUICK = 10_000_000, 200_000
FILES = 16
SEED = 13
PATIENCE = 60  # seconds that one read may take
GOAL_OF_DELTALAKE = 4.0
GOAL_OF_OTHERS = 0.83  # 1.2 times their time


@dataclass(frozen=True)
class Work:
    """What is read. ``where`` is half open: (column, from, to), in rows of the table."""

    columns: tuple[str, ...] | None = None
    where: tuple[str, int, int] | None = None
    limit: int | None = None
    streamed: str = ""

    def within(self, rows: int) -> tuple[str, int, int] | None:
        """The condition, in a table of so many rows."""
        if self.where is None:
            return None
        name, start, part = self.where
        return name, rows * start // 10, rows * start // 10 + rows // part


WORKS = {
    "all rows": Work(),
    "one column of eight": Work(("value",)),
    "1 row in 10,000, clustered": Work(where=("id", 4, 10_000)),
    "1 row in 10,000, scattered": Work(where=("scattered", 4, 10_000)),
    "1 row in 100, scattered": Work(where=("scattered", 4, 100)),
    "every second row, scattered": Work(where=("scattered", 1, 2)),
    "two columns of 1 row in 100": Work(("name", "value"), ("scattered", 4, 100)),
    "1,000 rows, whichever": Work(limit=1_000),
    "the first batch of a stream": Work(streamed="first"),
    "a stream of all rows": Work(streamed="all"),
}


def rows_of(start: int, stop: int, rows: int) -> pa.Table:
    """Rows of the table, by their ids; one value in sixteen is NULL."""
    ids = pa.array(range(start, stop), pa.int64())
    scattered = pa.array(np.random.default_rng([SEED, start]).integers(rows, size=stop - start))
    value = pc.multiply(pc.cast(scattered, pa.float64()), 0.5)
    value = pc.if_else(pc.equal(pc.bit_wise_and(ids, 15), 0), None, value)
    place = pc.binary_join_element_wise("place", pc.cast(pc.bit_wise_and(scattered, 63), pa.string()), " ")
    return pa.table({
        "id": ids, "scattered": scattered, "value": value, "flag": pc.equal(pc.bit_wise_and(scattered, 1), 1),
        "day": pc.cast(pc.cast(pc.divide(ids, 4_000), pa.int32()), pa.date32()),
        "at": pc.cast(pc.multiply(ids, 1_000_003), pa.timestamp("us", "UTC")), "place": place,
        "name": pc.binary_join_element_wise("name", pc.cast(scattered, pa.string()), " ")})


def make(path: Path, rows: int) -> None:
    import deltanb as dn

    table = dn.create(path, rows_of(0, 0, 1).schema)
    for n in range(FILES):
        table.append(rows_of(rows * n // FILES, rows * (n + 1) // FILES, rows))


# -- one measurement, in a process of its own ---------------------------------------------------


Read = Callable[[], int]
"""Reads, and says how many rows there were."""


def _drained(batches: Any, streamed: str) -> int:
    if streamed == "first":
        return int(next(iter(batches)).num_rows > 0)
    return sum(batch.num_rows for batch in batches)


def ours(path: Path, work: Work, rows: int) -> Read:
    import deltanb as dn

    table, where = dn.open(path), work.within(rows)
    columns = None if work.columns is None else list(work.columns)
    text = None if where is None else f"{where[0]} >= {where[1]} AND {where[0]} < {where[2]}"
    if work.streamed:
        return lambda: _drained(table.to_batches(columns, text), work.streamed)
    return lambda: table.to_arrow(columns, text, work.limit).num_rows


def deltalake(path: Path, work: Work, rows: int) -> Read:
    from deltalake import DeltaTable

    table, where = DeltaTable(path), work.within(rows)
    columns = None if work.columns is None else list(work.columns)
    dataset = table.to_pyarrow_dataset
    if work.streamed:
        return lambda: _drained(dataset().to_batches(columns), work.streamed)
    if work.limit is not None:
        return lambda: dataset().head(work.limit, columns=columns).num_rows
    if where is None:
        return lambda: table.to_pyarrow_table(columns=columns).num_rows
    name, start, stop = where
    return lambda: table.to_pyarrow_table(
        columns=columns, filters=(pc.field(name) >= start) & (pc.field(name) < stop)).num_rows


def duckdb(path: Path, work: Work, rows: int) -> Read:
    import duckdb

    where = work.within(rows)
    text = f"SELECT {', '.join(work.columns or ['*'])} FROM read_parquet({_files(path)!r})"
    if where is not None:
        text += f" WHERE {where[0]} >= {where[1]} AND {where[0]} < {where[2]}"
    if work.limit is not None:
        text += f" LIMIT {work.limit}"
    if work.streamed:
        return lambda: _drained(duckdb.sql(text).to_arrow_reader(65_536), work.streamed)
    return lambda: duckdb.sql(text).to_arrow_table().num_rows


def polars(path: Path, work: Work, rows: int) -> Read:
    import polars as pl

    files, where = _files(path), work.within(rows)

    def frame() -> pl.LazyFrame:
        lazy = pl.scan_parquet(files)
        if where is not None:
            lazy = lazy.filter((pl.col(where[0]) >= where[1]) & (pl.col(where[0]) < where[2]))
        if work.columns is not None:
            lazy = lazy.select(work.columns)
        return lazy if work.limit is None else lazy.limit(work.limit)

    if work.streamed == "first":
        return lambda: int(next(iter(frame().collect_batches())).height > 0)
    if work.streamed:
        return lambda: sum(batch.height for batch in frame().collect_batches())
    return lambda: frame().collect().height


def _files(path: Path) -> list[str]:
    return sorted(str(file) for file in path.glob("*.parquet"))


PEERS = {"deltalake": deltalake, "duckdb": duckdb, "polars": polars}
WAYS = {"deltanb": ours, **PEERS}


def child(library: str, folder: str, title: str, rows: str) -> None:
    """Print what one read took; one of a small table before it loads all modules."""
    way, work = WAYS[library], WORKS[title]
    way(Path(folder, "small"), work, 1_600)()
    read = way(Path(folder, "large"), work, int(rows))
    started, worked = time.perf_counter(), time.process_time()
    result = read()
    print(json.dumps({
        "ms": (time.perf_counter() - started) * 1000, "cpu": (time.process_time() - worked) * 1000,
        "mb": peak_memory(), "result": result}), flush=True)
    os._exit(0)  # threads of a stream that was left early, which are not ours, may keep the process waiting


def measured(library: str, folder: Path, title: str, rows: int) -> dict[str, Any]:
    try:
        done = subprocess.run([sys.executable, __file__, library, str(folder), title, str(rows)],
                              capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PATIENCE} seconds"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


# -- all of them --------------------------------------------------------------------------------


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    rows = QUICK if quick else ROWS
    titles = [title for title in WORKS if only in title]
    folder = Path(tempfile.mkdtemp(prefix="deltanb-scans-"))
    try:
        make(folder / "small", 1_600)
        make(folder / "large", rows)
        for title in titles:
            yield from attempt("scans", title, partial(_compared, folder, title, rows, rounds))
    finally:
        shutil.rmtree(folder)


def _compared(folder: Path, title: str, rows: int, rounds: int) -> Iterator[Figure]:
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for library in filter(is_installed, WAYS):
            measures = measured(library, folder, title, rows)
            known = best.get(library, measures)
            best[library] = measures if "error" in measures or "error" in known else {
                key: min(value, known[key]) for key, value in measures.items()}
    own = best.pop("deltanb")
    for library in PEERS:
        goal = GOAL_OF_DELTALAKE if library == "deltalake" else GOAL_OF_OTHERS
        yield (times("scans", title, library, best[library], own, goal) if library in best
               else absent("scans", title, library))


if __name__ == "__main__":
    child(*sys.argv[1:])
