"""How time grows with a table: commits stay as fast, opening takes as long for each file, no commit stalls.

    python -m tests.benchmarks growth [--quick] [--rounds N] [--only TEXT]

Tables of a thousand to a million files (a checkpoint, and the commits since) and of ten to a hundred thousand
commits (no checkpoint) are opened in fresh processes, and then appended to through a handle. Each is held
against a smaller one of its kind, by the processor's time; the lines are in ``curves.html``. What is
measured of the worst commit is the clock in the caller, while checkpoints fall due. What the first of them
imports is imported before: where Python may keep no bytecode it compiles that for 10 ms, in which no other
thread runs.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # where it runs as a script of its own, for one measurement

from tests.benchmarks import log  # noqa: E402
from tests.benchmarks.figures import Curve, Figure, attempt  # noqa: E402
from tests.benchmarks.peaks import peak_memory  # noqa: E402

SUITE = "growth"
SIZES = {"files": (1_000, 10_000, 100_000, 1_000_000), "commits": (10, 100, 1_000, 10_000, 100_000)}
APPENDS, QUICK_APPENDS = 120, 60
INTERVAL = 50
"""Versions between checkpoints while the appends are measured: two fall due among them, one where quick."""
MAX_COMMIT = 2.0  # the largest table's against the smallest's
MAX_OPEN = 1.5  # a file's (or a commit's) share in the largest against a tenth of it
MAX_STALL = 3.0  # the worst commit against the median
MAX_WAIT = 300.0  # ms, of the worst commit at the largest table


@dataclass(frozen=True)
class Point:
    """What was measured of one table, in milliseconds and MB: the least of all rounds."""

    size: int
    open: float
    commit: float
    """The median of the commits, by the processor."""
    median: float
    """The same by the clock."""
    worst: float
    mb: float
    """The peak of the process that commits; ``open_mb`` is that of the one that opens."""
    open_mb: float


def titles(over: str, quick: bool) -> dict[str, str]:
    """What is measured of the tables of one kind, in words."""
    sizes = sizes_of(over, quick)
    by_name = {name: f"{name}, {sizes[0]:,} to {sizes[-1]:,} {over}" for name in ("open", "commit")}
    if over == "files":
        by_name["stall"] = f"the worst commit, {sizes[-2]:,} files"
        by_name["wait"] = f"the worst commit, {sizes[-1]:,} files"
    return by_name


def sizes_of(over: str, quick: bool) -> list[int]:
    return [max(2, size // log.QUICK_SCALE) if quick else size for size in SIZES[over]]


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures of one kind of table after those of the other."""
    for over in SIZES:
        asked = {name: title for name, title in titles(over, quick).items() if only in title}
        if asked:
            measure = partial(grown, over, asked, quick, rounds)
            yield from attempt(SUITE, f"growth over {over}", measure)


def grown(over: str, asked: dict[str, str], quick: bool, rounds: int) -> Iterator[Figure]:
    """The figures that are asked for, of tables from small to large."""
    points = [point(over, size, quick, rounds) for size in sizes_of(over, quick)]
    ways = {"open": opening, "commit": committing, "stall": stall, "wait": wait}
    for name, title in asked.items():
        yield ways[name](title, over, points)


def opening(title: str, over: str, points: list[Point]) -> Figure:
    """Whether opening is linear."""
    large, small = points[-1], points[-2]
    value = (large.open / large.size) / (small.open / small.size)
    return Figure(SUITE, title, f"for each of {small.size:,}", value, MAX_OPEN, at_most=True,
                  mb=large.open_mb, **line(over, points, lambda point: point.open))


def committing(title: str, over: str, points: list[Point]) -> Figure:
    """Whether a commit takes as long whatever is in the table."""
    large, small = points[-1], points[0]
    return Figure(SUITE, title, f"{small.size:,} {over}", large.commit / small.commit, MAX_COMMIT,
                  at_most=True, mb=large.mb, **line(over, points, lambda point: point.commit))


def stall(title: str, over: str, points: list[Point]) -> Figure:
    """How much longer than usual a caller waits for a commit behind which a checkpoint is due."""
    growth = points[-2]
    return Figure(SUITE, title, "their median", growth.worst / growth.median, MAX_STALL, at_most=True,
                  mb=growth.mb, note=f"{growth.worst:.1f} / {growth.median:.1f} ms")


def wait(title: str, over: str, points: list[Point]) -> Figure:
    """How long that is at the largest table."""
    growth = points[-1]
    return Figure(SUITE, title, f"{MAX_WAIT:.0f} ms", growth.worst / MAX_WAIT, 1, at_most=True, mb=growth.mb,
                  note=f"{growth.worst:.1f} ms")


def line(over: str, points: list[Point], ms: Callable[[Point], float]) -> dict[str, Any]:
    """The points as a curve, and as words."""
    return {"curve": Curve(over, tuple((point.size, round(ms(point), 3)) for point in points)),
            "note": "cpu " + ", ".join(f"{point.size:,}: {ms(point):.2f}" for point in points) + " ms"}


def point(over: str, size: int, quick: bool, rounds: int) -> Point:
    """What one table takes. It is made in another process, and gone before the next is made."""
    folder = Path(tempfile.mkdtemp(prefix="deltanb-growth-"))
    try:
        builder = multiprocessing.get_context("spawn").Process(target=make, args=(over, folder / "t", size))
        builder.start()
        builder.join()
        if builder.exitcode:
            raise RuntimeError(f"the table of {size:,} {over} could not be made")
        opens = [child("open", folder / "t") for _ in range(rounds)]
        appends = [child("append", folder / "t", QUICK_APPENDS if quick else APPENDS) for _ in range(rounds)]
    finally:
        shutil.rmtree(folder)
    least = min(appends, key=lambda run: float(run["worst"]) / run["median"])
    return Point(size, min(run["cpu"] for run in opens), min(run["cpu"] for run in appends),
                 least["median"], least["worst"], min(run["mb"] for run in appends),
                 min(run["mb"] for run in opens))


def make(over: str, table: Path, size: int) -> None:
    if over == "files":
        log.make_checkpoint(table, size)
    else:
        log.make_commits(table, size)


# -- one measurement, in a process of its own ---------------------------------------------------


def child(work: str, path: Path, count: int = 1) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, work, str(path), str(count)],
                          capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def opened(path: str, _: int) -> dict[str, float]:
    """All files of the newest version, as a scan wants them."""
    library = log.Deltanb()
    worked = time.process_time()
    library.open_files(path)
    return {"cpu": (time.process_time() - worked) * 1000}


def appended(path: str, count: int) -> dict[str, float]:
    """Appends of a row, one after the other, as a notebook or a stream makes them."""
    import pyarrow as pa

    import deltanb as dn

    for name in ("checkpoint.write", "cleanup"):
        import_module(f"deltanb.log.{name}")
    row = pa.table({"id": [1], "value": [0.5], "name": ["x"], "part": ["7"]})
    table = dn.open(path)
    table.set_properties({"delta.checkpointInterval": str(INTERVAL)})
    table.append(row)
    dn.flush()
    took, worked = [], []
    for _ in range(count):
        begun, before = time.perf_counter(), time.process_time()
        table.append(row)
        took.append((time.perf_counter() - begun) * 1000)
        worked.append((time.process_time() - before) * 1000)
    dn.flush()
    begun_at = table.version - count
    written = {int(file.name[:20]) for file in Path(path, "_delta_log").glob("*.checkpoint*")}
    if not any(version > begun_at for version in written):
        raise RuntimeError("no checkpoint fell due among the commits")
    return {"cpu": statistics.median(worked), "median": statistics.median(took), "worst": max(took)}


if __name__ == "__main__":
    WORKS = {"open": opened, "append": appended}
    print(json.dumps({**WORKS[sys.argv[1]](sys.argv[2], int(sys.argv[3])), "mb": peak_memory()}))
