"""The history of a table: one row a commit, the newest first, under the names people know.

What lives here: the view of commits as ``DESCRIBE HISTORY`` lists them.
What it does not know: where commits are read; it is given commitInfo values or dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltanb.notebook import units
from deltanb.notebook.model import Inline, Section, Table, View, code, muted, plain
from deltanb.options import options

COLUMNS = ("version", "timestamp", "operation", "operationParameters", "readVersion",
           "isolationLevel", "isBlindAppend", "operationMetrics")  # fmt: skip
TEXT_COLUMNS = ("version", "timestamp", "operation", "readVersion", "operationParameters")
SNAKE = {"operationParameters": "operation_parameters", "readVersion": "read_version",
         "isolationLevel": "isolation_level", "isBlindAppend": "is_blind_append",
         "operationMetrics": "operation_metrics"}  # fmt: skip


def view(commits: Sequence[Any], name: str = "", total: int | None = None) -> View:
    """The view of commits, newest first as given; ``total`` counts all there are."""
    name, total = name or getattr(commits, "table", ""), total or getattr(commits, "total", None)
    total = len(commits) if total is None else total
    if not commits:
        return View("History", name, ("no commits yet",))
    rows = tuple(row(commit) for commit in commits[: options.max_rows])
    table = Table(COLUMNS, rows, total, "commit", TEXT_COLUMNS)
    summary = [units.count(total, "commit"), muted(", newest first")]
    section = Section("Commits", summary, table, is_open=True, text_rows=True)
    return View("History", name, sections=(section,))


def entry(commit: Any) -> View:
    """The view of one commit of a history, on a line; its fields unfold."""
    cells = dict(zip(COLUMNS, row(commit), strict=True))
    who = _get(commit, "user_name") or _get(commit, "userName")
    marks: list[Inline] = [f"{units.time(_get(commit, 'timestamp'))}",
                           str(_get(commit, "operation") or "operation not recorded")]
    marks += [f"by {who}"] if who else []
    rows = tuple((name, cell) for name, cell in cells.items() if plain(cell) != "–")
    table = Table(("field", "value"), rows, len(rows), "field")
    details = Section("Fields", muted("of commitInfo"), table, is_detail=True, is_open=True)
    return View("Commit", f"v{_get(commit, 'version')}", tuple(marks), sections=(details,))


def row(commit: Any) -> tuple[Inline, ...]:
    """One commit's cells, in the order of ``COLUMNS``."""
    cells = []
    for column in COLUMNS:
        value = _get(commit, column)
        cells.append(_cell(column, value))
    return tuple(cells)


def _get(commit: Any, column: str) -> Any:
    if isinstance(commit, Mapping):
        return commit.get(column, commit.get(SNAKE.get(column, column)))
    return getattr(commit, SNAKE.get(column, column), None)


def _cell(column: str, value: Any) -> Inline:
    if value is None or value in ({}, ()):
        return muted("–")
    if column == "timestamp":
        return units.time(value, zone=False)
    if isinstance(value, Mapping):
        return code(units.pairs((key, units.parsed(v)) for key, v in value.items()))
    return units.value_of(value)
