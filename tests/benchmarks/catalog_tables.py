"""What a Delta table costs in a catalog, in the process, beside the same table in a folder.

    python -m tests.benchmarks catalog_tables [--quick] [--rounds N] [--only TEXT]

Ratios of one process in which the works take turns, each the median of all its turns: commits of one table,
opening a table, a commit of two tables beside one of one and beside the bare fsyncs that it waits for.
Without syncs the processor's time decides, with them the clock. On PostgreSQL (a server is started) four
processes write to tables of their own, beside one.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.store.local import LocalStore
from deltanb.transaction.delta_log import DeltaLog
from tests.benchmarks.figures import Figure, attempt
from tests.benchmarks.writers import side_by_side
from tests.catalog.postgresql import NoServer, running

SUITE = "catalog_tables"
TURNS, QUICK_TURNS = 40, 3
"""How often each work takes its turn in a round."""
COMMITS = 40
"""Of the tables that are opened: with checkpoints, and a few commits behind the last."""
FILES = 50
"""Added by each of those commits."""
PROPERTIES = {"delta.enableInCommitTimestamps": True}
WRITERS = 4
MAX_COMMIT, MAX_OPEN, MAX_TWO, MAX_FSYNCS, MIN_RATE = 1.5, 1.2, 1.5, 1.5, 2.5

Act = Callable[[], object]
Times = tuple[float, float]


def taking_turns(acts: Sequence[Act], turns: int) -> list[Times]:
    """Median (wall, processor) milliseconds of each."""
    times: list[list[Times]] = [[] for _ in acts]
    for number in range(turns + 2):
        for act, taken in zip(acts, times, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            act()
            if number > 1:
                taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [(1000 * median(w for w, _ in taken), 1000 * median(c for _, c in taken)) for taken in times]


def added(number: int, count: int = 1) -> list[AddFile]:
    """Files that a commit adds."""
    return [AddFile(path=f"{number}-{part}.parquet", partition_values={}, size=1, modification_time=1,
                    data_change=True, stats='{"numRecords":1}') for part in range(count)]


def committing(log: Any, count: int = 1) -> Act:
    """One commit, each time it is called."""
    numbers = iter(range(10**9))
    return lambda: log.start_transaction().commit(added(next(numbers), count), "WRITE")


def together(catalog: dn.Catalog, names: Sequence[str]) -> Act:
    """One commit of some tables, each time it is called."""
    def commit() -> None:
        with catalog.transaction() as txn:
            for act in [committing(txn.table(name).staged) for name in names]:
                act()

    return commit


@contextmanager
def place(url: str = "") -> Iterator[tuple[dn.Catalog, Path]]:
    """A catalog of one namespace, and a folder."""
    with tempfile.TemporaryDirectory() as name, \
            dn.Catalog(url or f"sqlite:///{name}/catalog.db", f"{name}/lake") as catalog:
        if "bench" not in catalog.list_namespaces():
            catalog.create_namespace("bench")
        yield catalog, Path(name)


def ratio(work: str, against: str, ours: Times, theirs: Times, goal: float, syncs: bool = False) -> Figure:
    """How many times as long, at most: by the clock where the disk is waited for, else by the processor."""
    by, other = (0, 1) if syncs else (1, 0)
    words = "cpu" if syncs else "clock"
    note = f"{ours[by]:.2f} / {theirs[by]:.2f} ms, {words} {ours[other] / theirs[other]:.2f}×"
    return Figure(SUITE, work, against, ours[by] / theirs[by], goal, at_most=True, note=note)


# -- the works -----------------------------------------------------------------------------------------


def one_table(work: str, syncs: bool, turns: int) -> Iterator[Figure]:
    """A commit to a table of a catalog, and to one in a folder."""
    with dn.set_options(durability="sync" if syncs else "none"), place() as (catalog, folder):
        mine = catalog.create_table("bench.a", "id long").log
        other = dn.create(folder / "folder", "id long", properties=PROPERTIES).log
        ours, theirs = taking_turns([committing(mine), committing(other)], turns)
        yield ratio(work, "a table in a folder", ours, theirs, MAX_COMMIT, syncs)


def append(work: str, turns: int) -> Iterator[Figure]:
    """An append of one row, with its data file."""
    import pyarrow as pa

    row = pa.table({"id": [1]})
    with dn.set_options(durability="none"), place() as (catalog, folder):
        mine = catalog.create_table("bench.a", "id long")
        other = dn.create(folder / "folder", "id long", properties=PROPERTIES)
        ours, theirs = taking_turns([lambda: mine.append(row), lambda: other.append(row)], turns)
        yield ratio(work, "a table in a folder", ours, theirs, MAX_COMMIT)


def opening(work: str, turns: int) -> Iterator[Figure]:
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

        ours, theirs = taking_turns([managed, plain], turns)
        yield ratio(work, "a table in a folder", ours, theirs, MAX_OPEN)


def two_tables(work: str, turns: int) -> Iterator[Figure]:
    """A transaction of two tables, and of one."""
    with dn.set_options(durability="none"), place() as (catalog, _):
        for name in "abc":
            catalog.create_table(f"bench.{name}", "id long")
        two, one = taking_turns(
            [together(catalog, ["bench.a", "bench.b"]), together(catalog, ["bench.c"])], turns)
        yield ratio(work, "a transaction of one", two, one, MAX_TWO)


def fsyncs(work: str, turns: int) -> Iterator[Figure]:
    """A commit of two tables, and the fsyncs that it waits for, of the same files."""
    with dn.set_options(durability="sync"), place() as (catalog, folder):
        for name in "ab":
            catalog.create_table(f"bench.{name}", "id long")
        commit, counted, real = together(catalog, ["bench.a", "bench.b"]), [], os.fsync

        def count(handle: int) -> None:
            counted.append(os.fstat(handle))
            real(handle)

        commit()
        with patch.object(os, "fsync", count):
            commit()
        folders = sum(stat.S_ISDIR(status.st_mode) for status in counted)
        bare = partial(only_syncs, folder, len(counted) - folders, folders, iter(range(10**9)))
        ours, theirs = taking_turns([commit, bare], turns)
        yield ratio(work, f"its {len(counted)} fsyncs and one of SQLite", ours, theirs, MAX_FSYNCS, True)


def only_syncs(folder: Path, files: int, folders: int, numbers: Iterator[int]) -> None:
    """Files written and synced, names made and synced, and what SQLite writes at a COMMIT."""
    number = next(numbers)

    def written(name: str, flags: int, data: bytes) -> None:
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | flags)
        os.write(handle, data)
        os.fsync(handle)
        os.close(handle)

    for part in range(files):
        written(f"{number}-{part}", os.O_EXCL, b"x" * 700)
    for part in range(folders):
        os.link(folder / f"{number}-0", folder / f"{number}-link-{part}")
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    written("wal", os.O_APPEND, b"x" * 12_000)


# -- writer processes ----------------------------------------------------------------------------------


def write(url: str, folder: str, name: str, commits: int, gate: Any, answers: Any) -> None:
    """One writer: how long its commits took."""
    with dn.Catalog(url, folder) as catalog:
        commit = committing(catalog.table(name).log)
        for _ in range(3):
            commit()
        gate.wait()
        started = time.perf_counter()
        for _ in range(commits):
            commit()
        answers.put(time.perf_counter() - started)


def rate(catalog: dn.Catalog, url: str, folder: Path, writers: int, commits: int) -> float:
    """Commits a second of so many processes, each to a new table of its own."""
    names = [f"bench.t{time.time_ns()}_{number}" for number in range(writers)]
    for name in names:
        catalog.create_table(name, "id long")
    took = side_by_side(write, [(url, str(folder / "lake"), name, commits) for name in names])
    return writers * commits / max(took)


def processes(work: str, commits: int, rounds: int) -> Iterator[Figure]:
    """Commits a second of four processes, and of one; the best round of each counts."""
    best = {1: 0.0, WRITERS: 0.0}
    try:
        with running(sync=True) as url, place(url) as (catalog, folder):
            for _ in range(rounds):
                for writers in best:
                    best[writers] = max(best[writers], rate(catalog, url, folder, writers, commits))
    except NoServer as why:
        yield Figure(SUITE, work, "one writer", float("nan"), note=str(why))
        return
    yield Figure(SUITE, work, "one writer", best[WRITERS] / best[1], MIN_RATE,
                 note=f"{best[WRITERS]:.0f} / {best[1]:.0f} a second on {os.cpu_count()} cores")


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    turns = QUICK_TURNS if quick else TURNS * rounds
    works: dict[str, Callable[[str], Iterator[Figure]]] = {
        "a commit without data, neither syncs": partial(one_table, syncs=False, turns=turns),
        "a commit without data, both sync": partial(one_table, syncs=True, turns=turns),
        "append of one row, neither syncs": partial(append, turns=turns),
        f"opening a table of {COMMITS + 5} commits": partial(opening, turns=turns),
        "a transaction of two tables": partial(two_tables, turns=turns),
        "a transaction of two tables, synced": partial(fsyncs, turns=turns),
        f"{WRITERS} writer processes on PostgreSQL, commits a second":
            partial(processes, commits=QUICK_TURNS if quick else 2 * TURNS, rounds=rounds),
    }
    for work, measure in works.items():
        if only in work:
            yield from attempt(SUITE, work, partial(measure, work))
