"""How long a replay takes: histories of many commits, by how far behind each one is.

    python tests/benchmarks/what_if.py [--commits N]

Every third commit is a DELETE by partition, the others are blind appends; all of them read a version some
commits back, so that each one raced. The log is in memory and has no checkpoints; nothing is known but what
the commits say.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import time

from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog

PARTS = 10


def history(commits: int, behind: int, removes: bool) -> DeltaLog:
    """A log of commits that each read the version ``behind`` before the last one."""
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    for version in range(1, commits):
        part = str(version % PARTS)
        info = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "isBlindAppend": True}
        lines = [add(f"part={part}/{version}", {"part": part})]
        if version % 3 == 0:
            info = {"operation": "DELETE", "operationParameters": {"predicate": f'["part = {part}"]'},
                    "isBlindAppend": False}
            if removes and version > PARTS:
                gone = f"part={part}/{version - PARTS}"
                lines.append({"remove": {"path": gone, "deletionTimestamp": 1, "dataChange": True,
                                         "partitionValues": {"part": part}}})
        read = max(0, version - 1 - behind)
        builder.commit({"commitInfo": {**info, "readVersion": read, "txnId": str(version)}}, *lines)
    return builder.log


def main() -> None:
    """Print a line a history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    commits = parser.parse_args().commits
    print(f"{'commits':>8} {'behind':>7} {'removes':>8} {'history s':>10} {'replay s':>9} {'shown ms':>9} "
          f"{'conflicts':>10}")
    for behind, removes in ((0, False), (1, False), (20, False), (1, True)):
        log = history(commits, behind, removes)
        log.update()
        began = time.perf_counter()
        entries = log.history()
        read = time.perf_counter()
        replay = entries.replay()
        held = time.perf_counter()
        replay._repr_mimebundle_()
        shown = time.perf_counter()
        print(f"{commits:>8} {behind:>7} {removes!s:>8} {read - began:>10.2f} {held - read:>9.2f} "
              f"{(shown - held) * 1000:>9.1f} {len(replay.conflicts):>10}")


if __name__ == "__main__":
    main()
