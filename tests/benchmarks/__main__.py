"""The benchmarks that have goals, one after another: ``python -m tests.benchmarks [suite …]``.

Every figure is held against its goal, and all of them are written to a folder as Markdown and as a chart.
See ``tests/benchmarks/README.md`` for how to read them on a machine that does other things, too.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from tests.benchmarks.figures import Figure, write

SUITES = ("log", "writers", "commands")


def main(arguments: list[str] | None = None) -> list[Figure]:
    """Measure, print and write; the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small tables: shows that everything runs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each library (default 3)")
    parser.add_argument("--only", default="", help="only figures whose work holds this text")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="where figures.md goes")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.suites) - set(SUITES))
    if unknown:
        parser.error(f"there is no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    found: list[Figure] = []
    for name in chosen.suites or SUITES:
        print(f"-- {name}", flush=True)
        suite = import_module(f"tests.benchmarks.{name}")
        for figure in suite.figures(chosen.quick, chosen.rounds, chosen.only):
            print(figure, flush=True)
            found.append(figure)
    write(found, chosen.out)
    print(f"{chosen.out / 'figures.md'} has them all")
    return found


if __name__ == "__main__":
    main()
