"""The benchmarks that have goals, one after another: ``python -m tests.benchmarks [suite …]``.

Every figure is compared with its goal, and all of them are written to a folder as Markdown and as a chart.
See ``tests/benchmarks/README.md`` for how to read them on a machine that does other things, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.benchmarks import peaks, report
from tests.benchmarks.figures import Figure, attempt, summary, write

SUITES = (
    "log",
    "writers",
    "commands",
    "scans",
    "growth",
    "scale",
    "spark",
    "cluster",
    "spark_buckets",
    "catalog_tables",
    "carries",
    "unity",
    "locks",
    "time_travel",
)
"""Modules of this folder with ``figures(quick, rounds, only)``, in the order in which they run."""


def main(arguments: list[str] | None = None) -> list[Figure]:
    """Measure, print and write; the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small tables: shows that everything runs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each library (default 3)")
    parser.add_argument("--only", default="", help="only figures whose work holds this text")
    parser.add_argument("--record", action="store_true",
                        help="write down figures, in report.json, and peaks of memory, in peaks.json")
    parser.add_argument("--report", action="store_true",
                        help="write docs/figures.md from what is recorded; alone, it measures nothing")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="where figures.md goes")
    chosen = parser.parse_args(arguments)
    if chosen.record and chosen.quick:
        parser.error("figures of small tables are not written down: --record goes without --quick")
    if chosen.record and chosen.only:
        parser.error("figures of one suite are of one run: --record goes without --only")
    unknown = sorted(set(chosen.suites) - set(SUITES))
    if unknown:
        parser.error(f"there is no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    figures: list[Figure] = []
    if chosen.report and not (chosen.suites or chosen.record):
        report.write()
        return figures
    try:
        for name in chosen.suites or SUITES:
            print(f"-- {name}", flush=True)
            begun, busy = len(figures), report.cores_of_others() if chosen.record else 0.0
            for figure in _measured(name, chosen.quick, chosen.rounds, chosen.only):
                figures.append(figure if chosen.quick else peaks.beside(figure))
                print(figures[-1], flush=True)
            if chosen.record:
                command = f"python -m tests.benchmarks {name} --rounds {chosen.rounds}"
                report.record(name, figures[begun:], command, max(busy, report.cores_of_others()))
    finally:  # what an interrupted run has found took its time, too
        write(figures, chosen.out)
    if chosen.record:
        peaks.record(figures)
    if chosen.report:
        report.write()
    print(summary(figures))
    print(f"{chosen.out / 'figures.md'} has them all")
    return figures


def _measured(name: str, quick: bool, rounds: int, only: str) -> Iterator[Figure]:
    """The figures of a suite; the last one says why where the suite itself fails."""
    return attempt(name, "the rest of the suite",
                   lambda: import_module(f"tests.benchmarks.{name}").figures(quick, rounds, only))


if __name__ == "__main__":
    main()
