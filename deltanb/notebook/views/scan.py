"""Which files a scan opens, and why it skips the others: counts by step, conditions, a few files by name.

What lives here: the view of ``ScanExplanation``, and :class:`Bars`, the counts as lengths.
What it does not know: statistics and partition values; all counts come with the explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok
from deltanb.options import options
from deltanb.text import formatting as units

CONDITION_COLUMNS = ("condition", "checked against", "skips", "notes")
FILE_COLUMNS = ("file", "because", "condition", "size")
MAX_SQL = 200  # characters of a condition: generated columns imply long ones


@dataclass(frozen=True)
class Bar:
    """The files left after a step, and those the step spared."""

    words: str
    files: int
    size: int
    spared: int


@dataclass(frozen=True)
class Bars(Section):
    """The section with the counts by step: a line in text, bars in HTML."""

    bars: tuple[Bar, ...] = ()


def view(explanation: Any) -> View:
    """The view of a :class:`~deltanb.log.skipping.explain.ScanExplanation`."""
    where: Inline = muted("no condition: every file is opened")
    if explanation.where is not None:
        where = code(_sql(explanation.where))
    marks = (units.version_name(explanation.version, explanation.staged_behind), opens(explanation))
    return View("Scan", explanation.table, marks, (where,), tuple(sections(explanation)))


def opens(explanation: Any) -> Inline:
    """How many files are opened, of how many."""
    words = f"opens {units.number(explanation.opened)} of {units.count(explanation.num_files, 'file')}"
    return ok(f"✓ {words}") if explanation.spared else words


def sections(explanation: Any) -> list[Section]:
    """The sections of a scan, in order."""
    parts: list[Section] = [_steps(explanation)]
    if explanation.conditions:
        parts.append(_conditions(explanation.conditions))
    if explanation.spared:
        parts.append(_spared(explanation))
    if explanation.opened:
        parts.append(_opened(explanation))
    return parts


def spared_words(explanation: Any) -> str:
    """Why files are not opened, in a line.

    >>> from deltanb.log.skipping.explain import STEPS, ScanExplanation, Step
    >>> steps = tuple(Step(by, left, left * 10) for by, left in zip(STEPS, (7, 7, 2)))
    >>> spared_words(ScanExplanation("flights", 3, "month = 1", 9, 90, steps))
    '2 skipped by partition values, 5 by statistics'
    """
    parts = [f"{units.number(explanation.spared_by(step.by))} by {step.by}"
             for step in explanation.steps if explanation.spared_by(step.by)]
    if not parts:
        return "none skipped"
    first, *more = parts
    number, rest = first.split(" ", 1)
    return ", ".join([f"{number} skipped {rest}", *more])


def _steps(explanation: Any) -> Bars:
    bars = [Bar("all files", explanation.num_files, explanation.size_in_bytes, 0)]
    for step in explanation.steps:
        if spared := explanation.spared_by(step.by):
            bars.append(Bar(step.by, step.files, step.size, spared))
    summary: list[Inline] = [
        f"{units.size(explanation.opened_bytes)} of {units.size(explanation.size_in_bytes)} to read",
        muted(f"; {spared_words(explanation)}")]
    return Bars("Files", summary, bars=tuple(bars))


def _conditions(conditions: Sequence[Any]) -> Section:
    rows = tuple(_condition(condition) for condition in conditions[: options.max_rows])
    busy = sum(condition.spared > 0 for condition in conditions)
    summary: list[Inline] = [units.count(len(conditions), "condition")]
    if busy < len(conditions):
        words = {0: "none of them skips", 1: "1 of them skips"}
        summary.append(muted(f", {words.get(busy, f'{units.number(busy)} of them skip')} files"))
    table = Table(CONDITION_COLUMNS, rows, len(conditions), "condition")
    return Section("Conditions", summary, table, is_open=True, text_rows=True)


def _condition(condition: Any) -> tuple[Inline, ...]:
    spares: Inline = muted("–")
    if condition.spared:
        spares = ok(f"✓ {units.count(condition.spared, 'file')}")
    more: list[Inline] = []
    if condition.implies:
        more = ["implies ", code(_sql(condition.implies)), *(["; "] if condition.reason else [])]
    if condition.reason:
        more.append(condition.reason)
    return code(_sql(condition.sql)), condition.by or muted("not used"), spares, more or muted("–")


def _spared(explanation: Any) -> Section:
    rows = tuple((code(units.file_name(file.path)), file.because, code(_sql(file.condition)),
                  units.size(file.size)) for file in explanation.spared_files)
    total = explanation.spared
    words: list[Inline] = [f"{units.count(total, 'file')}, {units.size(explanation.spared_bytes)}"]
    if rows:
        first = explanation.spared_files[0]
        words += ["; ", code(units.file_name(first.path)), f": {first.because}"]
    return Section("Not opened", words, Table(FILE_COLUMNS, rows, total, "file", limit=len(rows)))


def _opened(explanation: Any) -> Section:
    rows = tuple((code(units.file_name(path)), units.size(size)) for path, size in explanation.opened_files)
    words = f"{units.count(explanation.opened, 'file')}, {units.size(explanation.opened_bytes)}"
    return Section("Opened", words, Table(("file", "size"), rows, explanation.opened, "file"))


def _sql(sql: str) -> str:
    return sql if len(sql) <= MAX_SQL else sql[: MAX_SQL - 1] + "…"
