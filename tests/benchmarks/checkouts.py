"""What the library costs beside another version of itself: the ratio of processor time, work by work.

    python -m tests.benchmarks.checkouts REVISION [--rounds 7] [--only TEXT]

Every work runs in a fresh process, by turns on this checkout and on one of the revision; the best of all
rounds counts. Works use public names alone, so that both versions have them. A last line has the sums.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILES = 100_000
COMMITS = 1_000
ROWS = 2_000_000
Work = Callable[[Path], Callable[[], object]]
"""Prepares what is not measured, and returns what is."""


# -- the works, by the floor that they are about ---------------------------------------------------


def log_many_commits(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    return lambda: dn.open(tables / "commits").snapshot.num_files


def log_many_files(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    return lambda: dn.open(tables / "files").snapshot.select_files(["path", "partition_values", "size"])


def log_selective_plan(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    snapshot = dn.open(tables / "files").snapshot
    return lambda: [snapshot.files_for_scan(f"id BETWEEN {n} AND {n + 9}") for n in range(0, 5_000, 500)]


def log_refresh(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "small")
    writer = dn.open(tables / "small")

    def work() -> None:
        for n in range(30):
            writer.append({"id": [n]})
            table.count()

    return work


def log_checkpoint(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    return dn.open(tables / "files").log.checkpoint


def commands_append(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "small")
    return lambda: [table.append({"id": [n]}) for n in range(100)]


def commands_delete(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "rows")
    return lambda: [table.delete(f"id = {n}") for n in range(0, 1_000, 100)]


def commands_update(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "rows")
    return lambda: [table.update({"value": "value + 1"}, f"id BETWEEN {n} AND {n + 50}")
                    for n in range(0, 1_000, 200)]


def commands_merge(tables: Path) -> Callable[[], object]:
    import pyarrow as pa

    import deltanb as dn

    table = dn.open(tables / "rows")
    several = range(0, ROWS * 2, 40)
    source = pa.table({"id": pa.array(several), "value": pa.array([1.0] * len(several))})
    merge = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute


def commands_optimize(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "small")
    for n in range(50):
        table.append({"id": list(range(n, n + 1_000))})
    return table.optimize


def writers_rivals(tables: Path) -> Callable[[], object]:
    import threading

    import deltanb as dn

    def write(number: int) -> None:
        table = dn.open(tables / "small")
        for n in range(25):
            table.append({"id": [number * 100 + n]})

    def work() -> None:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return work


def scans_whole(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "rows")
    return lambda: [table.to_arrow() for _ in range(5)]


def scans_selective(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    table = dn.open(tables / "rows")
    return lambda: [table.to_arrow(where=f"id BETWEEN {n} AND {n + 100}") for n in range(0, 200_000, 5_000)]


def locks_rows(tables: Path) -> Callable[[], object]:
    from deltanb.locks import LockManager

    txn = LockManager().new_transaction()

    def work() -> None:
        for _ in range(20):
            for at in range(5_000):
                txn.lock_upgradable(1, b"%016d" % at)
            for _ in range(5_000):
                txn.unlock()

    return work


def locks_commits(tables: Path) -> Callable[[], object]:
    from deltanb.locks import LockManager

    txn = LockManager().new_transaction()

    def work() -> None:
        for _ in range(20):
            for at in range(5_000):
                txn.lock_exclusive(1, b"%016d" % at)
            txn.commit()

    return work


def catalog_joint_commits(tables: Path) -> Callable[[], object]:
    import deltanb as dn

    catalog = dn.Catalog(f"sqlite:///{tables}/catalog.db", warehouse=str(tables / "warehouse"))
    catalog.create_namespace("s")
    for name in ("a", "b"):
        catalog.create_table(f"s.{name}", {"id": [0]})

    def work() -> None:
        for n in range(40):
            with catalog.transaction() as txn:
                txn.table("s.a").append({"id": [n]})
                txn.table("s.b").append({"id": [n]})

    return work


WORKS: dict[str, Work] = {name: work for name, work in list(globals().items())
                          if name.split("_")[0] in ("log", "commands", "writers", "scans", "locks", "catalog")
                          and callable(work) and name != "Work"}


# -- the tables that they work on --------------------------------------------------------------------


def make_tables(folder: Path) -> None:
    """One table of many files, one of many commits, one of many rows, and a small one."""
    import numpy as np
    import pyarrow as pa

    import deltanb as dn
    from tests.benchmarks import log

    (folder / "files" / "_delta_log").mkdir(parents=True)
    log.make_checkpoint(folder / "files", FILES)
    dn.create(folder / "small", {"id": [0]})
    commits = dn.create(folder / "commits", {"id": [0]})
    with dn.set_options(durability="none"):
        for n in range(COMMITS):
            commits.append({"id": [n]})
    ids = np.arange(ROWS)
    rows = pa.table({"id": ids, "value": ids / 3})
    made = dn.create(folder / "rows", rows.slice(0, ROWS // 8))
    for n in range(1, 8):
        made.append(rows.slice(n * ROWS // 8, ROWS // 8))


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """The files of a revision, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        files = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
        yield Path(folder)


def measure(tree: Path, name: str, tables: Path, cache: Path) -> float:
    """Seconds of processor time of one work in a fresh process, on a fresh copy of the tables."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(cache / tree.name)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir=tables.parent) as copy:
        shutil.copytree(tables, Path(copy) / "tables")
        command = [sys.executable, __file__, "--work", name, str(Path(copy) / "tables")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=copy)
    if done.returncode:
        raise SystemExit(f"{name} on {tree}:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", default="HEAD")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--work", nargs=2, metavar=("NAME", "TABLES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work = WORKS[arguments.work[0]](Path(arguments.work[1]))
        start = time.process_time()
        work()
        print(time.process_time() - start)
        return
    with checkout(arguments.revision) as base, tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "tables"
        make_tables(tables)
        report(base, tables, arguments)


def report(base: Path, tables: Path, arguments: Any) -> None:
    sums = [0.0, 0.0]
    for name in (name for name in WORKS if arguments.only in name):
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(arguments.rounds + 1):
            for side, tree in enumerate((ROOT, base) if turn % 2 else (base, ROOT)):
                seconds = measure(tree, name, tables, tables.parent)
                if turn:  # the first compiles what both keep
                    times[side if turn % 2 else 1 - side].append(seconds)
        head, other = map(min, times)
        sums = [sums[0] + head, sums[1] + other]
        print(f"{name:24} {head:8.3f} s {other:8.3f} s  {head / other:6.3f}", flush=True)
    if sums[1]:
        print(f"{'sum':24} {sums[0]:8.3f} s {sums[1]:8.3f} s  {sums[0] / sums[1]:6.3f}")


if __name__ == "__main__":
    main()
