"""What a Delta table costs in a catalog, in the process, beside the same table in a folder.

    python tests/benchmarks/catalog_tables.py [--rounds N] [--postgresql URL]

Ratios of one run in which the two take turns, wall clock and processor time, each the median of all rounds:
a commit of one table, opening a table, a commit of two tables beside the bare fsyncs that it waits for, and
four threads beside one on tables of their own in PostgreSQL (a server is started where no URL is given).

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.store.local import LocalStore
from deltanb.transaction.delta_log import DeltaLog
from tests.catalog.postgresql import running

COMMITS = 40
"""Of the tables that are opened: with checkpoints, and a few commits behind the last."""
FILES = 50
"""Added by each of those commits."""
PROPERTIES = {"delta.enableInCommitTimestamps": True}
THREADS = 4

Act = Callable[[], object]


def taking_turns(acts: Sequence[Act], rounds: int) -> list[tuple[float, float]]:
    """Median (wall, processor) milliseconds of each."""
    times: list[list[tuple[float, float]]] = [[] for _ in acts]
    for number in range(rounds + 2):
        for act, taken in zip(acts, times, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            act()
            if number > 1:
                taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [(1000 * median(w for w, _ in taken), 1000 * median(c for _, c in taken)) for taken in times]


def added(number: int, count: int = 1) -> list[AddFile]:
    """Files that a commit adds."""
    return [AddFile(path=f"{number}-{part}.parquet", partition_values={}, size=1, modification_time=1,
                    data_change=True, stats='{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":9}}')
            for part in range(count)]


def committing(log: DeltaLog, count: int = 1) -> Act:
    """A commit that adds files, with all that follows it."""
    numbers = iter(range(10**9))
    return lambda: log.start_transaction().commit(added(next(numbers), count), "WRITE")


@contextmanager
def place(url: str = "") -> Iterator[tuple[dn.Catalog, Path]]:
    """A catalog, and the folder that it is in."""
    with tempfile.TemporaryDirectory() as name, \
            dn.Catalog(url or f"sqlite:///{name}/catalog.db", f"{name}/lake") as catalog:
        if "bench" not in catalog.list_namespaces():
            catalog.create_namespace("bench")
        yield catalog, Path(name)


def one_table(rounds: int, durability: str) -> Iterator[tuple[str, float, Any, Any]]:
    """A commit to a table of a catalog, and to one in a folder."""
    with dn.set_options(durability=durability), place() as (catalog, folder):
        mine = catalog.create_table("bench.a", "id long").log
        other = dn.create(folder / "folder", "id long", properties=PROPERTIES).log
        here, theirs = taking_turns([committing(mine), committing(other)], rounds)
        yield f"one-table commit, durability {durability!r}", 2.0, here, theirs


def opening(rounds: int) -> Iterator[tuple[str, float, Any, Any]]:
    """A table that is read from nothing, with its files."""
    with dn.set_options(durability="none"), place() as (catalog, folder):
        mine = catalog.create_table("bench.a", "id long").log
        other = dn.create(folder / "folder", "id long", properties=PROPERTIES).log
        for log in (mine, other):
            commit = committing(log, FILES)
            for _ in range(COMMITS + 5):
                commit()

        def managed() -> None:
            catalog.delta._logs.clear()
            assert catalog.table("bench.a").snapshot.files.num_rows > 0

        def plain() -> None:
            assert DeltaLog(LocalStore(folder / "folder")).snapshot.files.num_rows > 0

        here, theirs = taking_turns([managed, plain], rounds)
        yield f"opening a table of {COMMITS + 5} commits", 1.2, here, theirs


def group(rounds: int) -> Iterator[tuple[str, float, Any, Any]]:
    """A commit of two tables, and the fsyncs that it waits for, of the same files."""
    with place() as (catalog, folder):
        for name in "ab":
            catalog.create_table(f"bench.{name}", "id long")
        numbers, counted, real = iter(range(10**9)), [], os.fsync

        def commit() -> None:
            with catalog.transaction() as txn:
                number = next(numbers)
                for name in "ab":
                    staged = txn.table(f"bench.{name}").staged
                    staged.start_transaction().commit(added(number), "WRITE")

        def count(handle: int) -> None:
            counted.append(os.fstat(handle))
            real(handle)

        commit()
        with patch.object(os, "fsync", count):
            commit()
        folders = sum(stat.S_ISDIR(status.st_mode) for status in counted)
        files = len(counted) - folders
        commits = 1  # of SQLite that waits for the disk: the ratification

        def bare() -> None:
            number = next(numbers)
            for part in range(files):
                handle = os.open(folder / f"{number}-{part}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                os.write(handle, b"x" * 700)
                real(handle)
                os.close(handle)
            for part in range(folders):
                os.link(folder / f"{number}-0", folder / f"{number}-link-{part}")
                handle = os.open(folder, os.O_RDONLY)
                real(handle)
                os.close(handle)
            handle = os.open(folder / "wal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for _ in range(commits):
                os.write(handle, b"x" * 12_000)
                real(handle)
            os.close(handle)

        here, theirs = taking_turns([commit, bare], rounds)
        what = f"two-table commit with fsync, beside its {len(counted)} fsyncs and {commits} of SQLite"
        yield what, 1.5, here, theirs


def threads(rounds: int, url: str) -> Iterator[tuple[str, float, Any, Any]]:
    """Commits of four threads to tables of their own, beside those of one."""
    with place(url) as (catalog, _):
        commits = [committing(catalog.create_table(f"bench.t{n}{time.time_ns()}", "id long").log)
                   for n in range(THREADS)]

        def run(count: int) -> None:
            def work(commit: Act) -> None:
                for _ in range(rounds // 2):
                    commit()

            running = [threading.Thread(target=work, args=(commit,)) for commit in commits[:count]]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()

        four, one = taking_turns([lambda: run(THREADS), lambda: run(1)], 3)
        what = f"{THREADS} threads on PostgreSQL, time for {THREADS} times the commits"
        yield what, THREADS / 2.5, four, one


def main() -> int:
    """Print the ratios; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--postgresql", default="")
    asked = parser.parse_args()
    server = nullcontext(asked.postgresql) if asked.postgresql else running(sync=True)
    missed = 0
    with server as url:
        for measured in (one_table(asked.rounds, "none"), one_table(asked.rounds, "sync"),
                         opening(asked.rounds), group(asked.rounds), threads(asked.rounds, url)):
            for what, goal, (wall, cpu), (other_wall, other_cpu) in measured:
                ratio = wall / other_wall
                missed += ratio > goal
                print(f"{ratio:5.2f}  goal {goal:4.2f}  {'ok    ' if ratio <= goal else 'MISSED'}  {what}: "
                      f"{wall:.2f} ms, {other_wall:.2f} ms; processor {cpu:.2f}, {other_cpu:.2f}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
