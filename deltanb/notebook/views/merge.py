"""A merge that is described: what it would do, clause by clause, and whether it was executed.

What lives here: the view of ``MergeBuilder``.
What it does not know: rows, files; nothing is read of the source.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, present, warn
from deltanb.notebook.views.tables import newest_known
from deltanb.text import formatting as units
from deltanb.text.safe_text import last_part, shown

NO_CLAUSE = "no clause yet: add when_matched_…() or when_not_matched_…(), then call .execute()"


def view(merge: Any) -> View:
    """The view of a :class:`~deltanb.commands.merge.merge.MergeBuilder`."""
    lines: list[Inline] = [["USING ", _source(merge.source), " ON ", code(merge.on)]]
    if merge.evolves:
        lines.append("WITH SCHEMA EVOLUTION")
    if not merge.clauses:
        lines.append(warn(NO_CLAUSE))
    return View("MERGE", _name(merge.log), (_state(merge),), tuple(lines), present(_clauses(merge)))


def _clauses(merge: Any) -> Section | None:
    if not merge.clauses:
        return None
    rows = tuple((f"WHEN {clause.kind.upper()}", code(clause.condition) if clause.condition else muted("–"),
                  _action(clause)) for clause in merge.clauses)
    summary = muted("of each row, the first of its kind whose condition is true")
    table = Table(("rows", "condition", "what is done"), rows, len(rows), "clause")
    return Section("Clauses", summary, table, is_open=True, text_rows=True)


def _state(merge: Any) -> Inline:
    if not merge.results:
        return warn("not executed: call .execute()")
    version = merge.results[-1].version
    return "executed, nothing committed" if version is None else ok(f"✓ executed, committed v{version}")


def _name(log: Any) -> str:
    known = newest_known(log)
    return str(log.name or (known is not None and known.metadata.name) or last_part(log.path))


def _source(source: Any) -> Inline:
    """The source by its name, if it is a table, or by what kind of thing it is."""
    log = getattr(source, "log", None)
    kind = "columns" if isinstance(source, dict) else "rows" if isinstance(source, list) else (
        f"{type(source).__module__.split('.')[0]} {type(source).__name__}")
    return code(_name(log)) if log is not None else kind


def _action(clause: Any) -> Inline:
    action = clause.action.upper()
    if clause.is_star:
        without = f" except {', '.join(clause.except_cols)}" if clause.except_cols else ""
        return code(f"{action} *{without}")
    if clause.values is None:
        return code(action)
    return code(f"{action} " + units.fit(", ".join(
        f"{name} = {value if isinstance(value, str) else shown(value)}"
        for name, value in clause.values.items()), units.MAX_COLUMNS))
