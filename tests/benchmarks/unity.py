"""What a commit of one table costs through Unity Catalog's API, beside this library's own.

    python -m tests.benchmarks.unity [--commits N] [--rounds N]

Both clients ask one server, over HTTP, and append rows to a table each; they take turns, and the best round
of each counts. The goal is a ratio of at most 1.3.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import deltanb as dn
from deltanb.catalog.rest.server.serving import serve


def seconds(table: Any, commits: int) -> float:
    """Wall seconds of appends."""
    began = time.perf_counter()
    for number in range(commits):
        table.append({"id": [number]})
    return time.perf_counter() - began


def main() -> None:
    """Print the milliseconds of a commit, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, dn.set_options(durability="none"), serve(
            f"sqlite:///{folder}/catalog.db", f"{folder}/lake") as server, dn.connect(
            server.url) as own, dn.connect(
            server.url.replace("http://", "uc://") + "/default", allow_local_files=True) as unity:
        own.create_namespace("shop")
        made: dict[str, Any] = {
            "own": own.create_table("shop.own", "id long", properties={"delta.enableDeletionVectors": True}),
            "unity": unity.create_table("shop.unity", "id long", properties={
                "delta.columnMapping.mode": "none", "delta.enableRowTracking": False})}
        best = dict.fromkeys(made, float("inf"))
        for _ in range(chosen.rounds):
            for name, table in made.items():
                best[name] = min(best[name], seconds(table, chosen.commits) / chosen.commits)
    print(f"own {best['own'] * 1e3:.1f} ms, Unity {best['unity'] * 1e3:.1f} ms, "
          f"ratio {best['unity'] / best['own']:.2f}")


if __name__ == "__main__":
    main()
