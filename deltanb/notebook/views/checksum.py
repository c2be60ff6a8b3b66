"""A version compared to its checksum file: one row per field, differences first.

What lives here: the view of ``ChecksumVerification``.
What it does not know: how anything is compared.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, warn
from deltanb.text import formatting as units

MAX_TEXT = 60  # columns that a value takes: schemas are long
COLUMNS = ("field", "the checksum says", "the log gives")


def view(verification: Any) -> View:
    """The view of a :class:`~deltanb.log.verification.ChecksumVerification`."""
    name = units.name_of(verification.table)
    kind = f"Checksum of v{verification.version}"
    title = Span(kind, strong=True)
    if verification.problem is not None:
        return View(kind, name, (warn("nothing was compared"),), (muted(verification.problem),), title=title)
    wrong, all_fields = verification.differences, units.count(len(verification.compared), "field")
    if not wrong:
        fields = muted(", ".join(one.field for one in verification.compared))
        return View(kind, name, (ok(f"✓ {all_fields} agree"),), (fields,), title=title)
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (code(field), units.fit(_text(recorded), MAX_TEXT), units.fit(_text(other), MAX_TEXT))
        for one in wrong for field, recorded, other in one.details())
    table = Table(COLUMNS, rows, len(rows), "difference")
    marks = (warn(f"✗ {len(wrong)} of {all_fields} differ"),)
    line = muted("the log was changed after it was written, or the checksum was")
    return View(kind, name, marks, (line,),
                (Section("Differences", "", table, is_open=True, text_rows=True),), title)


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return units.number(value)
    return "–" if value is None else str(value)
