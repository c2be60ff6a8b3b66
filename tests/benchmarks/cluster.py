"""A MERGE on a cluster, into a table ten times as large: the driver's memory must not grow with it.

    python -m tests.benchmarks cluster [--quick] [--rounds N] [--only TEXT]

A standalone master and two workers on loopback, as the tests have them; a driver of its own for each merge.
Every row of the table matches one of the source and is changed, so whatever came to the driver of each row
would be seen. What is compared with the smaller table is the most that Python had resident, and the most that
was left in the heap of its JVM after a collection, of which there are many, for new objects have little room.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure, attempt

SUITE = "cluster"
SIZES = (1_000_000, 10_000_000)
QUICK_SIZES = (10_000, 100_000)
FILES = 8
MAX_RATIO = 1.25  # of ten times the rows; nothing grows, and collections come when they come
WORKS = {"deletion vectors": True, "copy on write": False}


def figures(quick: bool = False, rounds: int = 1, only: str = "") -> Iterator[Figure]:
    """Memory of the driver, of Python and of its JVM, for both ways in which a merge leaves rows out."""
    sizes = QUICK_SIZES if quick else SIZES
    for words, vectors in WORKS.items():
        if only in (title := f"merge with {words}"):
            yield from attempt(SUITE, title, partial(grown, title, vectors, sizes))


def grown(title: str, vectors: bool, sizes: tuple[int, int]) -> Iterator[Figure]:
    """The larger table's driver against the smaller one's."""
    from tests.engines.spark.cluster import Cluster, scratch

    folder = scratch()
    try:
        cluster = Cluster(folder, java="")
        try:
            small, large = (merged(cluster, folder, rows, vectors) for rows in sizes)
        finally:
            cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for kind, words in (("python", "Python"), ("heap", "the JVM's heap")):
        note = ", ".join(f"{rows:,} rows: {peaks[kind]:.0f} MB" for rows, peaks in zip(
            sizes, (small, large), strict=True))
        yield Figure(SUITE, f"{title}, {words}", f"{sizes[0]:,} rows", large[kind] / small[kind], MAX_RATIO,
                     at_most=True, note=f"{note}, {small['seconds']:.0f} and {large['seconds']:.0f} s")


def merged(cluster: Any, folder: Path, rows: int, vectors: bool) -> dict[str, float]:
    """What one merge took of its driver, in MB."""
    name = f"{rows}"
    logs = folder / f"collections-{name}-%p.txt"
    driver = cluster.driver(name, f"-XX:+UseSerialGC -Xmn24m -Xlog:gc:file={logs}")
    table = str(folder / f"t{name}")
    driver("begin")
    driver("write", table, rows, FILES, vectors)
    measures: dict[str, float] = driver("merge_all_measured", table, rows)
    driver.close()
    shutil.rmtree(table)
    texts = [log.read_text() for log in folder.glob(logs.name.replace("%p", "*"))]
    measures["heap"] = max(float(left) for text in texts for left in re.findall(r"\d+M->(\d+)M\(", text))
    return measures
