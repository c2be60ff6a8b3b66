"""The result of a query: its first rows, and which files of each table were opened and why.

What lives here: the view of ``QueryResult``, and :class:`Scanned`, a section that unfolds to a scan.
What it does not know: engines, SQL; nothing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltanb.notebook.views import scan
from deltanb.notebook.views.diff import MAX_COLUMNS, MAX_TEXT_COLUMNS, fitting, shown
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok
from deltanb.options import options
from deltanb.query.result import only_text
from deltanb.text import formatting as units

MAX_SCANS = 20  # tables of a query that are listed
MAX_TEXT_ROWS = 6  # rows in the text form: the files need a line below them


@dataclass(frozen=True)
class Scanned(Section):
    """A line about a table; it unfolds to the files that were opened."""

    parts: tuple[Section, ...] = ()


def view(result: Any) -> View:
    """The view of a :class:`~deltanb.query.result.QueryResult`."""
    marks: list[Inline] = [units.count(len(result), "row"), result.engine]
    if result.scans:
        marks.append(_opened(result.opened, result.num_files, "part" if "part" in result.reads else "whole"))
    scans = list(zip(result.scans, result.reads, strict=True))[:MAX_SCANS]
    sections = [_rows(result.rows), *(_scan(explanation, read) for explanation, read in scans)]
    if len(result.scans) > MAX_SCANS:
        more = units.count(len(result.scans) - MAX_SCANS, "more table")
        sections.append(Section("…", muted(f"{more}, in .scans")))
    return View("Query", marks=tuple(marks), sections=tuple(sections))


def plan_view(plan: Any) -> View:
    """The view of a :class:`~deltanb.query.result.QueryPlan`."""
    marks: list[Inline] = [_opened(plan.opened, plan.num_files, "plan")] if plan.scans else [
        "opens no file of a table"]
    return View("Plan of a query", marks=tuple(marks),
                sections=tuple(_scan(explanation, "plan") for explanation in plan.scans[:MAX_SCANS]))


def _opened(opened: int, total: int, read: str) -> Inline:
    most = "at most " if read == "part" and opened else ""
    verb = "opens" if read == "plan" else "opened"
    words = f"{verb} {most}{units.number(opened)} of {units.count(total, 'file')}"
    return ok(f"✓ {words}") if opened < total else words


def _rows(rows: Any) -> Section:
    names = rows.column_names
    first = rows.slice(0, options.max_rows).select(list(range(min(len(names), MAX_COLUMNS))))
    columns = [column.to_pylist() for column in first.columns]
    cells = tuple(tuple(shown(value) for value in row) for row in zip(*columns, strict=True))
    summary: list[Inline] = [f"{units.count(rows.num_rows, 'row')}, {units.count(len(names), 'column')}"]
    text = only_text(rows)
    if text is not None:  # a statement: it is shown whole
        return Section("Rows", summary, source=text, is_open=True, text_rows=True)
    if not cells:
        return Section("Rows", [*summary, muted(f": {units.fit(', '.join(names), units.MAX_COLUMNS)}")])
    in_text = tuple(names[:MAX_TEXT_COLUMNS])
    table = fitting(Table(tuple(names[:MAX_COLUMNS]), cells, rows.num_rows, "row", in_text))
    if hidden := len(names) - len(table.columns):
        summary.append(muted(f", {units.number(hidden)} not shown"))
    return Section("Rows", summary, table, is_open=True, text_rows=True)


def _scan(explanation: Any, read: str) -> Section:
    version = f"{units.version_name(explanation.version, explanation.staged_behind)}  "
    total = explanation.num_files
    if read == "none":
        return Section(explanation.table, [version, _opened(0, total, read),
                                           muted("; the engine asked for no row")])
    line: list[Inline] = [version, _opened(explanation.opened, total, read),
                          muted(f"; {scan.spared_words(explanation)}")]
    if idle := [condition for condition in explanation.conditions if condition.by is None]:
        line += [muted("; not used: "), code(idle[0].sql)]
        line += [muted(f" and {units.number(len(idle) - 1)} more")] if idle[1:] else []
    return Scanned(explanation.table, line, parts=tuple(scan.sections(explanation)))
