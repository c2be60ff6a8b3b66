"""Who wrote the rows: the commits with the numbers of their rows, the first rows, and what is not certain.

What lives here: the view of ``Blame``.
What it does not know: how it was found out (``observe/blame``).
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.diff import MAX_COLUMNS, MAX_TEXT_COLUMNS, fitting, shown
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, muted, present, warn
from deltanb.options import options
from deltanb.text import formatting as units

WAYS = {"row ids": "by row ids", "feed": "by the change feed", "versions": "by comparing versions"}
MAX_NAMED = 3  # commits that the summary names
MAX_BLAMED = 4  # columns whose versions are shown beside the rows


def view(blame: Any) -> View:
    """The view of a :class:`~deltanb.observe.blame.blame.Blame`."""
    marks: list[Inline] = [f"v{blame.version}", units.count(len(blame), "row"), WAYS[blame.method]]
    if blame.num_unknown:
        marks.append(warn(f"? {units.number(blame.num_unknown)} not known"))
    return View("Blame", units.name_of(blame.table), tuple(marks),
                sections=present(*(make(blame) for make in (_commits, _rows, _doubts))))


def _commits(blame: Any) -> Section | None:
    """The commits that were the last to write rows, newest first."""
    commits = blame.commits
    if not commits:
        return None
    by_rows = sorted(commits, key=lambda one: -one.num_rows)[:MAX_NAMED]
    named = ", ".join(f"{units.number(one.num_rows)} by v{one.version}" for one in by_rows)
    more = f" and {units.count(len(commits) - MAX_NAMED, 'more commit')}" if len(commits) > MAX_NAMED else ""
    rows = tuple(_commit(one) for one in commits[: options.max_rows])
    columns = ("version", "rows", "operation", "writer", "time")
    table = Table(columns, rows, len(commits), "commit", cut_last=("version", "rows"))
    return Section("Commits", muted(named + more), table, is_open=True, text_rows=len(commits) > 1)


def _commit(one: Any) -> tuple[Inline, ...]:
    operation = muted("–") if one.operation is None else Span(units.clean(one.operation), "fixed")
    time = muted("–") if one.timestamp is None else Span(units.time(one.timestamp), "fixed")
    writer = muted("–") if one.writer is None else units.clean(one.writer)
    return f"v{one.version}", units.number(one.num_rows), operation, writer, time


def _rows(blame: Any) -> Section:
    """The first rows, each behind its version and writer."""
    first = blame.head(options.max_rows)
    blamed = [f"_{name}_version" for name in blame.columns[:MAX_BLAMED]]
    own = [name for name in blame.names if name not in blame.columns]
    names = ["_version", "_writer", *blamed, *blame.columns, *own]
    visible = names[:MAX_COLUMNS]
    heads = {"_version": "version", "_writer": "writer"}
    heads |= {f"_{name}_version": f"{name} since" for name in blame.columns}
    columns = [first[name].to_pylist() for name in visible]
    cells = tuple(tuple(_cell(name, value) for name, value in zip(visible, row, strict=True))
                  for row in zip(*columns, strict=True))
    summary: list[Inline] = [units.count(len(blame), "row")]
    if not cells:
        return Section("Rows", summary)
    titles = tuple(heads.get(name, name) for name in visible)
    table = fitting(Table(titles, cells, len(blame), "row", titles[:MAX_TEXT_COLUMNS]))
    if hidden := len(names) - len(table.columns):
        summary.append(muted(f", {units.count(hidden, 'column')} not shown"))
    return Section("Rows", summary, table, is_open=True, text_rows=True)


def _cell(name: str, value: Any) -> Inline:
    if name == "_version" or (name.startswith("_") and name.endswith("_version")):
        return muted("?") if value is None else f"v{value}"
    if name == "_writer":
        return muted("–") if value is None else units.clean(value)
    return shown(value)


def _doubts(blame: Any) -> Section | None:
    doubts = blame.doubts
    if not doubts:
        return None
    rows = tuple((units.number(doubt.num_rows), doubt.reason) for doubt in doubts[: options.max_rows])
    more = f"; and {units.count(len(doubts) - 1, 'more reason')}" if len(doubts) > 1 else ""
    summary = f"{units.count(doubts[0].num_rows, 'row')}: {doubts[0].reason}{more}"
    return Section("Not certain", warn(summary), Table(("rows", "why"), rows, len(doubts), "reason"))
