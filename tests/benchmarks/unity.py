"""What a commit of one table costs through Unity Catalog's API, beside this library's own.

    python -m tests.benchmarks unity [--quick] [--rounds N]

Both clients ask one server, over HTTP, and append rows to a table each; they take turns, and the best round
of each counts.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import deltanb as dn
from tests.benchmarks.figures import Figure, attempt

SUITE, WORK = "unity", "append through Unity Catalog's API"
COMMITS, QUICK = 40, 3
MAX_RATIO = 1.3


def timed(table: Any, commits: int) -> tuple[float, float]:
    """Seconds of an append, by the clock and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    for number in range(commits):
        table.append({"id": [number]})
    return (time.perf_counter() - began) / commits, (time.process_time() - worked) / commits


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figure."""
    if only in WORK:
        yield from attempt(SUITE, WORK, partial(measured, QUICK if quick else COMMITS, 2 * rounds))


def measured(commits: int, rounds: int) -> Iterator[Figure]:
    """The best round of both clients."""
    from deltanb.catalog.rest.server.serving import serve

    with tempfile.TemporaryDirectory() as folder, dn.set_options(durability="none"), serve(
            f"sqlite:///{folder}/catalog.db", f"{folder}/lake") as server, dn.connect(
            server.url) as own, dn.connect(
            server.url.replace("http://", "uc://") + "/default", allow_local_files=True) as unity:
        own.create_namespace("shop")
        made: dict[str, Any] = {
            "own": own.create_table("shop.own", "id long", properties={"delta.enableDeletionVectors": True}),
            "unity": unity.create_table("shop.unity", "id long", properties={
                "delta.columnMapping.mode": "none", "delta.enableRowTracking": False})}
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
        for _ in range(rounds):
            for name, table in made.items():
                took[name].append(timed(table, commits))
    (wall, cpu), (own_wall, own_cpu) = (map(min, zip(*took[name], strict=True)) for name in ("unity", "own"))
    yield Figure(SUITE, WORK, "this library's own", wall / own_wall, MAX_RATIO, at_most=True,
                 note=f"{1000 * wall:.1f} / {1000 * own_wall:.1f} ms, cpu {cpu / own_cpu:.2f}×")
