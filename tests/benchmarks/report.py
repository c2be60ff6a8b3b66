"""Figures as they were last recorded, and the page of the documentation that has them: ``docs/figures.md``.

What lives here: ``report.json``, by suite, with what was run where and when; the page and its pictures, which
``python -m tests.benchmarks --report`` writes anew.
What it does not know: how anything is measured.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from html import escape
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from docs.site.notebooks import SCHEMES, svg_of
from tests.benchmarks.figures import Curve, Figure, chart, curves, markdown, summary

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "figures.md"
PICTURES = ROOT / "docs" / "pictures"
PEERS = ("deltalake", "duckdb", "polars", "pyspark", "pyarrow", "pyiceberg")
BEGIN, END = "<!-- figures: written by python -m tests.benchmarks --report -->\n", "<!-- end of figures -->"
CHARTS: dict[str, Callable[[Iterable[Figure]], dict[str, Any]]] = {"goals": chart, "growth": curves}
"""Kinds of pictures; one without anything to draw is left out."""
DIGITS = 4
SAMPLE = 5.0
"""Seconds over which other programs are looked at."""
QUIET = 0.2
"""Cores that others may use without being named."""
Run = dict[str, Any]


# -- the record ------------------------------------------------------------------------------------------

def record(suite: str, figures: Sequence[Figure], command: str, busy: float) -> None:
    """Write down what a suite measured, in place of what was there.

    ``busy`` is how many cores others used, by :func:`cores_of_others` before the suite or after it.
    """
    runs = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    runs[suite] = {
        "command": command,
        "date": f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}",
        "machine": machine(),
        "busy": round(busy, 2),
        "cores": os.cpu_count(),
        "versions": versions(),
        "figures": [_plain(figure) for figure in figures],
    }
    RECORD.write_text(json.dumps(runs, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def figures_of(run: Run) -> list[Figure]:
    """The figures of a run as it was recorded."""
    return [Figure(**{**each, "value": float("nan") if each["value"] is None else each["value"],
                      "curve": each.get("curve") and _curve(each["curve"])}) for each in run["figures"]]


def machine() -> str:
    """Where this runs, in words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{os.cpu_count()} cores of {_processor()}, {memory:.0f} GB, "
            f"{platform.system()} {platform.release()}, Python {platform.python_version()}")


def cores_of_others(seconds: float = SAMPLE) -> float:
    """How many cores are busy while nothing is measured: those of other programs. 0 where nobody counts it.

    The average load would not do: minutes later it still has the suite that ran before.
    """
    before = _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - before) / (os.sysconf("SC_CLK_TCK") * seconds)


def _busy_ticks() -> int:
    try:
        user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    except OSError:
        return 0
    return user + nice + system + sum(rest[:3])  # those of interrupts, and what the host has given to others


def versions() -> dict[str, str]:
    """Of all peers that are installed; and of Delta Spark, which its tests and benchmarks fetch."""
    from tests.peers import delta_spark

    numbers = {"Delta Spark": delta_spark.VERSION}
    for peer in PEERS:
        with suppress(PackageNotFoundError):
            numbers[peer] = version(peer)
    return numbers


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith("model name")),
                platform.machine())


def _plain(figure: Figure) -> dict[str, Any]:
    """A figure as JSON has it: without what it does not say, and no digits that mean nothing."""
    values = {key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
              for key, value in asdict(figure).items() if key == "against" or value not in (None, "", False)}
    return {**values, "value": values["value"] if figure.is_measured else None}


def _curve(values: dict[str, Any]) -> Curve:
    return Curve(values["over"], tuple((size, ms) for size, ms in values["points"]))


# -- the page --------------------------------------------------------------------------------------------

def write() -> None:
    """The page and its pictures, from what was recorded."""
    runs = json.loads(RECORD.read_text("utf-8"))
    for suite, run in runs.items():
        for kind in kinds_of(run):
            for scheme in SCHEMES:
                svg = svg_of(CHARTS[kind](figures_of(run)), scheme)
                picture(suite, kind, scheme).write_text(svg + "\n", "utf-8")
    PAGE.write_text(page(runs), "utf-8")


def page(runs: dict[str, Run]) -> str:
    """The text of the page, with these figures."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + report(runs) + "\n" + END + rest.partition(END)[2]


def report(runs: dict[str, Run]) -> str:
    """Which suites there are, and each run with its command, its machine, its pictures and its figures."""
    from tests.benchmarks.__main__ import SUITES

    lines = ["| suite | what | goals met |", "|---|---|---|"]
    for suite in SUITES:
        met = "not recorded yet"
        if suite in runs:
            met = summary(figures_of(runs[suite])).split(" goals")[0].replace("0 of 0", "none has a goal")
        name = f"[`{suite}`](#{suite.replace('_', '-')})" if suite in runs else f"`{suite}`"
        lines.append(f"| {name} | {_first_line(suite)} | {met} |")
    for suite in SUITES:
        if suite in runs:
            lines += ["", *_section(suite, runs[suite])]
    return "\n".join(lines) + "\n"


def _section(suite: str, run: Run) -> list[str]:
    figures = figures_of(run)
    peers = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    lines = [f"## {suite.replace('_', '-')}", "",
             f"`{run['command']}`, {run['date']}, on {run['machine']}; {peers}."]
    if run["busy"] > QUIET:
        lines.append(f"**The machine was busy**: others used {run['busy']:g} of its {run['cores']} cores. "
                     "Take the ratios for rough ones, and goals that are missed for open questions.")
    for kind in kinds_of(run):
        light, dark = (picture(suite, kind, scheme).relative_to(PAGE.parent).as_posix() for scheme in SCHEMES)
        words = escape(_words(suite, kind, figures), quote=True)
        lines += ["", "<picture>", f'  <source media="(prefers-color-scheme: dark)" srcset="{dark}">',
                  f'  <img src="{light}" alt="{words}">', "</picture>"]
    return [*lines, "", markdown(figures).replace("MISSED", "missed")]


def _words(suite: str, kind: str, figures: Sequence[Figure]) -> str:
    """A picture in words."""
    if kind == "growth":
        return f"{suite}: milliseconds over sizes, a line for each figure that grows"
    return f"{suite}: each figure beside its goal; {summary(figures).splitlines()[0]}"


def kinds_of(run: Run) -> list[str]:
    """Which pictures a run has."""
    figures = figures_of(run)
    drawn = {"goals": any(figure.goal and figure.is_measured for figure in figures),
             "growth": any(figure.curve for figure in figures)}
    return [kind for kind in CHARTS if drawn[kind]]


def picture(suite: str, kind: str, scheme: str) -> Path:
    """The file of a picture."""
    return PICTURES / f"figures-{suite}-{kind}-{scheme}.svg"


def _first_line(suite: str) -> str:
    text = (import_module(f"tests.benchmarks.{suite}").__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split()).rstrip(".").replace("``", "`")
