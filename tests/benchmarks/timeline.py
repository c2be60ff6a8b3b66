"""How long a timeline takes, and how large it is: seconds and bytes by number of commits.

    python tests/benchmarks/timeline.py [COMMITS ...]

A table of one-file commits by five writers is made for each number, by default 300 and 10,000. Times are
the best of three: reading the log, drawing text, chart and SVG. The goal: 10,000 commits within 2 s, and
no more than 250 kB of chart.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 3
WRITERS = ("stream", "etl-a", "etl-b", "compactor", "analyst")
OPERATIONS = ("STREAMING UPDATE", "WRITE", "MERGE", "OPTIMIZE", "DELETE")


def make(table: Path, commits: int) -> None:
    """A log of commits that add a file and, some of them, remove one."""
    folder = table / "_delta_log"
    folder.mkdir(parents=True)
    for version in range(commits):
        at = version % len(WRITERS)
        lines: list[dict[str, Any]] = [{"commitInfo": {
            "timestamp": 1_767_258_000_000 + version, "operation": OPERATIONS[at], "userName": WRITERS[at],
            "readVersion": max(0, version - 1 - at), "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numFiles": "1", "numOutputRows": "1000"}}}]
        if version == 0:
            lines += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                      {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}},
                                    "schemaString": '{"type":"struct","fields":[]}',
                                    "partitionColumns": [], "configuration": {}}}]
        lines.append({"add": {"path": f"part-{version:05}.parquet", "partitionValues": {}, "size": 100_000,
                              "modificationTime": 1, "dataChange": True, "stats": '{"numRecords":1000}'}})
        if at > 1:
            lines.append({"remove": {"path": f"part-{version - 1:05}.parquet", "size": 100_000,
                                     "deletionTimestamp": 1, "dataChange": True}})
        body = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / f"{version:020}.json").write_text(body)


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    """The least seconds of some rounds, and what the last one made."""
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        made = work()
        least = min(least, time.perf_counter() - start)
    return least, made


def main(sizes: list[int]) -> None:
    import deltanb as dn

    print(f"{'commits':>8} {'read':>8} {'draw':>8} {'HTML':>10} {'SVG':>10} {'text':>6}")
    for commits in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "orders", commits)
            table = dn.open(str(Path(folder) / "orders"))
            assert table.version == commits - 1
            read, timeline = best(table.timeline)
            draw, forms = best(lambda timeline=timeline: type(timeline)(
                timeline.tracks, timeline.table)._repr_mimebundle_())
        drawn, text = (len(forms[kind].encode()) for kind in ("text/html", "text/plain"))
        svg = len(timeline.svg)
        print(f"{commits:>8} {read:>6.2f} s {draw:>6.3f} s {drawn:>8} B {svg:>8} B {text:>4} B")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [300, 10_000])
