"""A transaction in words: open, committed or failed; what it read and what it writes.

What lives here: the views of ``OptimisticTransaction`` and of ``Operation``.
What it does not know: how a commit is made; the conflict of a failed one has its own view.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook import units
from deltanb.notebook.model import Inline, Section, Table, View, code, muted


def operation(operation: Any) -> View:
    """The view of an :class:`~deltanb.transaction.operations.Operation`."""
    parameters = dict(operation.parameters)
    sections = []
    if parameters:
        rows = tuple((code(key), code(units.value_of(value))) for key, value in parameters.items())
        table = Table(("parameter", "value"), rows, len(rows), "parameter")
        sections.append(Section("Parameters", code(units.pairs(parameters, ", ")), table))
    changes = "changes data" if operation.changes_data else "changes no data"
    return View("Operation", operation.name, (changes,), (), tuple(sections))


__all__ = ["Inline", "muted", "operation"]
