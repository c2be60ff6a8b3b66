"""What a command did: the version it committed, who did the work, its metrics with units.

What lives here: the views of ``CommandResult`` and of ``StatementResult``, which has no version.
What it does not know: how a command works, or what a metric counts beyond its unit.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok
from deltanb.text import formatting as units

ENGINES = {"arrow": "in this process", "spark": "on Spark", "log": "log only",
           "pyiceberg": "by PyIceberg"}
TIME = "TimeMs"  # how a metric of milliseconds ends
NOTHING = {
    "RESTORE": "the table is like that already",
    "WRITE": "no rows arrived, or the table already has this write",
}
SIZES = ("Bytes", "Size", "sizeOf", "files-size")  # what the name of a metric of bytes holds


def view(result: Any) -> View:
    """The view of a :class:`~deltanb.commands.result.CommandResult`.

    Times are listed separately, and only in the HTML, so that two runs of a command have the same text.
    """
    title, where = Span(result.operation, strong=True), ENGINES.get(result.engine, result.engine)
    if result.version is None:
        nothing = NOTHING.get(result.operation)
        reason = muted(nothing or ("no row matched" if result.changes_data else "nothing to do"))
        outcome = "nothing staged" if result.is_staged else "nothing committed"
        return View(result.operation, "", (outcome, where), (reason,), title=title)
    times = {name: value for name, value in result.metrics.items() if name.endswith(TIME)}
    counts = {name: value for name, value in result.metrics.items() if name not in times}
    some = {name: value for name, value in counts.items() if value}
    summary = muted(f"{len(some)} of {len(counts)} are above zero" if some else "nothing was counted")
    sections = [Section("Metrics", summary, _table(some), is_open=True, text_rows=True)] if counts else []
    if times:
        took = code(units.pairs((_name(name), measure(name, ms)) for name, ms in times.items()))
        sections.append(Section("Took", took, _table(times), is_detail=True))
    what = f"snapshot {result.version}" if result.engine == "pyiceberg" else f"v{result.version}"
    did = Span("staged, to be committed with its transaction") if result.is_staged else (
        ok(f"✓ committed {what}"))
    marks = (did, where)
    return View(result.operation, "", marks, (), tuple(sections), title)


def of_statement(result: Any) -> View:
    """The view of a :class:`~deltanb.query.result.StatementResult`."""
    title = Span(result.statement, strong=True)
    if not result.is_done:
        reason = muted(f"{result.name}: {result.outcome}")
        return View(result.statement, "", ("nothing done", reason), title=title)
    return View(result.statement, "", (ok(f"✓ {result.name} {result.outcome}"),), title=title)


def _table(metrics: dict[str, int]) -> Table:
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (code(_name(metric)), measure(metric, value)) for metric, value in metrics.items())
    return Table(("metric", "value"), rows, len(rows), "metric")


def _name(metric: str) -> str:
    """Without its unit, where the value has one of its own."""
    return metric.removesuffix("Ms") if metric.endswith(TIME) else metric


def measure(name: str, value: int) -> str:
    """The value of a metric with the unit implied by its name.

    >>> measure("numRemovedBytes", 4100), measure("executionTimeMs", 1500), measure("numFiles", 3)
    ('4.1 kB', '1.5 s', '3')
    """
    if name.endswith(TIME):
        return units.duration(value)
    return units.size(value) if any(part in name for part in SIZES) else units.number(value)
