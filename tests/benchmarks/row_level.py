"""What a closer look at rows costs, beside running a lost statement again: ratios of processor time.

    python -m tests.benchmarks.row_level [--rows N] [--rounds N]

A DELETE of one row loses to a commit on the same file: a DELETE of another row by a vector, an append,
an OPTIMIZE. At row level it goes on behind it; without, it fails and is run again. Both take turns; the best
round of each counts. The first line is a DELETE that meets nobody, with the option and without.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException

WINNERS: dict[str, Callable[[Any], object]] = {
    "nobody": lambda table: None,
    "a DELETE of another row": lambda table: table.delete("id = 5"),
    "an append": lambda table: table.append({"id": [-1]}),
    "an OPTIMIZE": lambda table: (table.append({"id": [-1]}), table.optimize()),
}


def seconds(folder: Path, rows: int, level: str, winner: Callable[[Any], object]) -> float:
    """Processor seconds of the commit of a DELETE that has lost, and of running it again where it fails."""
    table = dn.create(folder, pa.table({"id": pa.array(range(rows))}),
                      properties={"delta.enableDeletionVectors": True})
    with dn.set_options(row_level=level, durability="none"):
        txn = table.transaction()
        txn.delete("id = 7")
        winner(dn.open(folder))
        began = time.process_time()
        try:
            txn.commit()
        except DeltaConcurrentModificationException:
            dn.open(folder).delete("id = 7")
        return time.process_time() - began


def main() -> None:
    """Print a line a winner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(f"{'behind':<26} {'off, ms':>8} {'all, ms':>8} {'ratio':>6}")
    for name, winner in WINNERS.items():
        best = dict.fromkeys(("off", "all"), float("inf"))
        for _ in range(chosen.rounds):
            for level in best:
                with tempfile.TemporaryDirectory() as folder:
                    taken = seconds(Path(folder) / "t", chosen.rows, level, winner)
                    best[level] = min(best[level], taken)
        off, closer = best["off"] * 1000, best["all"] * 1000
        print(f"{name:<26} {off:>8.1f} {closer:>8.1f} {closer / off:>6.2f}")


if __name__ == "__main__":
    main()
