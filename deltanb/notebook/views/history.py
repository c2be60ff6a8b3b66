"""The history of a table: one row per commit, the newest first, under the names people know.

What lives here: the view of commits as ``DESCRIBE HISTORY`` lists them.
What it does not know: where commits are read, or what a writer should have put into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb import formatting as units
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, muted, plain
from deltanb.options import options

COLUMNS = ("version", "timestamp", "operation", "operationParameters", "readVersion",
           "isolationLevel", "isBlindAppend", "operationMetrics")  # fmt: skip
TEXT_COLUMNS = ("version", "timestamp", "operation", "readVersion", "operationParameters")
SNAKE = {"operationParameters": "operation_parameters", "readVersion": "read_version",
         "isolationLevel": "isolation_level", "isBlindAppend": "is_blind_append",
         "operationMetrics": "operation_metrics"}  # fmt: skip
MAX_UNBROKEN = 40
"""Characters of a parameter or metric that stay on one line: else a narrow column has one of each."""


def view(commits: Any) -> View:
    """The view of a :class:`~deltanb.log.history.History`."""
    name, total = units.name_of(commits.table), max(commits.total, len(commits))
    if not commits:
        return View("History", name, ("no commits yet",))
    rows = tuple(row(commit) for commit in commits[: options.max_rows])
    table = Table(COLUMNS, rows, total, "commit", TEXT_COLUMNS)
    summary = [units.count(total, "commit"), muted(", newest first")]
    section = Section("Commits", summary, table, is_open=True, text_rows=True)
    return View("History", name, sections=(section,))


def entry(commit: Any) -> View:
    """The view of one commit: a line, whose fields unfold."""
    cells = dict(zip(COLUMNS, row(commit, is_whole=True), strict=True))
    operation = str(commit.operation or "operation not recorded")
    marks: list[Inline] = [units.time(commit.timestamp), operation]
    marks += [f"by {commit.user_name}"] if commit.user_name else []
    rows = tuple((name, cell) for name, cell in cells.items() if plain(cell) != "–")
    table = Table(("field", "value"), rows, len(rows), "field")
    details = Section("Fields", muted("of commitInfo"), table, is_detail=True, is_open=True)
    return View("Commit", f"v{commit.version}", tuple(marks), sections=(details,))


def row(commit: Any, is_whole: bool = False) -> tuple[Inline, ...]:
    """One commit's cells, in the order of ``COLUMNS``; ``is_whole`` keeps metrics that tell little."""
    cells = []
    for column in COLUMNS:
        value = getattr(commit, SNAKE.get(column, column))
        if column == "operationMetrics" and isinstance(value, Mapping) and not is_whole:
            value = {name: text for name, text in value.items()
                     if str(text) != "0" and not name.endswith("TimeMs")}
        cells.append(_cell(column, value))
    return tuple(cells)


def _cell(column: str, value: Any) -> Inline:
    if value is None or value in ({}, ()):
        return muted("–")
    if column == "timestamp":
        return Span(units.time(value, zone=False), "fixed")
    runs: list[Inline] = []
    if column == "operation":
        for word in str(value).split():
            runs += [" ", Span(word, "fixed")]
        return runs[1:]
    if isinstance(value, Mapping):
        for name, text in value.items():
            if text is None:
                continue
            pair = units.pairs([(name, units.parsed(text))])
            runs += [" ", Span(pair, "fixed" if len(pair) <= MAX_UNBROKEN else "", code=True)]
        return runs[1:]
    return units.value_of(value)
