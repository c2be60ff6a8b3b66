"""Writer processes on one table, each appending rows: commits a second, and who waits how long.

    python -m tests.benchmarks writers [--quick] [--rounds N]

deltanb syncs every file and folder; deltalake never does. All writers open the table, append once and import
what they import at first use before the clock starts: without that the slowest commits are those meanwhile
Python imports the modules of the first checkpoint, and compiles them where it may keep no bytecode. A round
of one library follows a round of the other; the best one counts.
"""

from __future__ import annotations

import multiprocessing
import queue
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure, absent, attempt, is_installed, times
from tests.benchmarks.peaks import peak_memory

COMMITS, QUICK = 110, 10
WRITERS = {2: 4.0, 4: 6.0, 16: None}
"""How many processes, and how many times deltalake's rate they are to reach."""
MAX_TAIL, MIN_SHARE, MIN_OF_FOUR = 6, 0.7, 0.8
SUITE = "writers"


def append_with(name: str, path: str) -> Callable[[], object]:
    """An append of one row through a handle."""
    import pyarrow as pa

    row = pa.table({"id": [1], "name": ["x"]})
    if name == "deltanb":
        import deltanb as dn

        import_module("deltanb.log.checkpoint.write")
        table = dn.open(path)
        return lambda: table.append(row)
    import deltalake

    peer = deltalake.DeltaTable(path)

    def append() -> None:
        peer.update_incremental()
        deltalake.write_deltalake(peer, row, mode="append")

    return append


def work(name: str, path: str, commits: int, gate: Any, answers: Any) -> None:
    """One writer: the time of each commit, seconds of processor, how many failed, and its peak of memory."""
    append, failed, took = append_with(name, path), 0, []
    append()
    gate.wait()
    started, worked = time.perf_counter(), time.process_time()
    for _ in range(commits):
        begun = time.perf_counter()
        try:
            append()
        except Exception:
            failed += 1
        took.append(time.perf_counter() - begun)
    answers.put((time.perf_counter() - started, time.process_time() - worked, took, failed, peak_memory()))


def side_by_side(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What so many processes answer that begin at once: behind its arguments each has the gate at which they
    wait for each other, and the queue of answers.

    Raises:
        RuntimeError: one died.
    """
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(len(arguments)), context.Queue()
    processes = [context.Process(target=work, args=(*own, gate, answers)) for own in arguments]
    for process in processes:
        process.start()
    try:
        return [heard(answers, processes) for _ in processes]
    except RuntimeError:
        for process in processes:  # they wait at the gate for the one that died
            process.terminate()
        raise
    finally:
        for process in processes:
            process.join()


def heard(answers: Any, processes: list[Any]) -> Any:
    """What the next writer says that is done."""
    while True:
        try:
            return answers.get(timeout=1)
        except queue.Empty:
            if any(process.exitcode for process in processes):
                raise RuntimeError("a writer process died") from None


def race(name: str, writers: int, commits: int) -> dict[str, Any]:
    """All writers at once on a table of their own."""
    import deltanb as dn

    folder = Path(tempfile.mkdtemp(prefix="deltanb-writers-"))
    try:
        dn.create(folder / "t", {"id": [0], "name": ["a"]})
        results = side_by_side(work, [(name, str(folder / "t"), commits)] * writers)
    finally:
        shutil.rmtree(folder)
    slowest = max(seconds for seconds, *_ in results)
    took = sorted(one for _, _, each, *_ in results for one in each)
    failed = sum(one[3] for one in results)
    landed = max(1, writers * commits - failed)
    return {"ms": slowest / landed * 1000, "cpu": sum(one[1] for one in results) / landed * 1000,
            "mb": max(one[4] for one in results), "result": f"{failed} failed",
            "share": min(one[0] for one in results) / slowest,
            "tail": took[int(len(took) * 0.99)] / statistics.median(took)}


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    commits, rates = QUICK if quick else COMMITS, {}

    def together(writers: int, goal: float | None) -> Iterator[Figure]:
        best = best_of(writers, goal, commits, rounds)
        rates[writers] = best["deltanb"]["ms"]
        return compared(writers, goal, best)

    for writers, goal in WRITERS.items():
        if only in title_of(writers):
            yield from attempt(SUITE, title_of(writers), partial(together, writers, goal))
    if {4, 16} <= rates.keys():
        yield Figure(SUITE, "16 writer processes, commits a second", "those of 4",
                     rates[4] / rates[16], MIN_OF_FOUR)


def title_of(writers: int) -> str:
    return f"{writers} writer processes, a commit"


def best_of(writers: int, goal: float | None, commits: int, rounds: int) -> dict[str, dict[str, Any]]:
    """The round with the highest rate, of each library that takes part."""
    peers = ("deltalake", "deltanb") if goal is not None and is_installed("deltalake") else ("deltanb",)
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for name in peers:
            numbers = race(name, writers, commits)
            if name not in best or numbers["ms"] < best[name]["ms"]:
                best[name] = numbers
    return best


def compared(writers: int, goal: float | None, best: dict[str, dict[str, Any]]) -> Iterator[Figure]:
    """The rate beside deltalake's, and how evenly the writers got on."""
    ours = best["deltanb"]
    if "deltalake" in best:
        yield times(SUITE, title_of(writers), "deltalake, which never syncs", best["deltalake"], ours, goal)
    elif goal is not None:
        yield absent(SUITE, title_of(writers), "deltalake")
    yield Figure(SUITE, f"{writers} writer processes, the slowest commit of 100", "their median",
                 ours["tail"], MAX_TAIL, at_most=True, note=ours["result"], mb=ours["mb"])
    yield Figure(SUITE, f"{writers} writer processes, the slowest writer", "the fastest",
                 ours["share"], MIN_SHARE, mb=ours["mb"])
