"""Arrow's memory pools under our commands: ``python tests/benchmarks/memory.py [rows] [--turns N]``.

A scan, an update, a delete and an optimize of ``rows`` rows (2 M) in 16 files, each in a process of its own,
the pools taking turns; once with huge pages and once without (Linux: ``PR_SET_THP_DISABLE``), since it is
page faults that make the difference. CPU seconds and page faults are the least of the turns, the peak the
highest; both of the command alone, after a small one that loads the modules.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
POOLS = ("mimalloc", "system", "jemalloc")
COMMANDS = ("scan", "update", "delete", "optimize")
PR_SET_THP_DISABLE = 41


def run(table: Any, command: str) -> None:
    """One command."""
    if command == "scan":
        table.to_arrow()
    elif command == "update":
        table.update({"value": "value + 1"}, "id % 2 = 0")
    elif command == "delete":
        table.delete("id % 100 = 7")
    else:
        table.optimize()


def once(path: str, command: str, pool: str, huge: bool) -> list[float]:
    """CPU seconds, page faults and peak MB of a command on the table at the path, in this process."""
    if not huge:
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    import deltanb as dn
    from deltanb.testing import MemoryStore

    dn.set_options(memory_pool=pool)
    small = dn.create(MemoryStore(), {"id": list(range(100)), "value": [0.5] * 100})
    run(small, command)
    table = dn.open(path)
    before = resource.getrusage(resource.RUSAGE_SELF)
    run(table, command)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            after.ru_minflt - before.ru_minflt, after.ru_maxrss / 1024]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--once", nargs=4, metavar=("PATH", "COMMAND", "POOL", "HUGE"))
    chosen = parser.parse_args()
    if chosen.once:
        path, command, pool, huge = chosen.once
        print(json.dumps(once(path, command, pool, huge == "1")))
        return
    from tests.benchmarks.commands import make

    folder = Path(tempfile.mkdtemp())
    try:
        make(folder / "t", chosen.rows, {})
        for huge in "10":
            for command in COMMANDS:
                for pool, results in turns(folder, command, huge, chosen.turns).items():
                    cpu, faults = (min(one[place] for one in results) for place in (0, 1))
                    print(f"{command:<9} {'huge pages' if huge == '1' else 'small pages':<11} {pool:<9} "
                          f"{cpu:6.2f} CPU s {faults:8.0f} faults {max(one[2] for one in results):6.0f} MB",
                          flush=True)
    finally:
        shutil.rmtree(folder)


def turns(folder: Path, command: str, huge: str, count: int) -> dict[str, list[list[float]]]:
    """What each pool took, turn by turn; every run has a fresh copy of the table."""
    results: dict[str, list[list[float]]] = {pool: [] for pool in POOLS}
    for _ in range(count):
        for pool in POOLS:
            copy = shutil.copytree(folder / "t", folder / "copy")
            done = subprocess.run(
                [sys.executable, __file__, "--once", str(copy), command, pool, huge],
                capture_output=True, text=True, check=True, cwd=ROOT)
            shutil.rmtree(copy)
            results[pool].append(json.loads(done.stdout.splitlines()[-1]))
    return results


if __name__ == "__main__":
    main()
