"""Views as plain text: the first form, 12 lines of 88 columns at most.

What lives here: the layout of a view in a terminal, in an untrusted notebook, in nbval and wherever there is
no HTML.
What it does not know: the objects shown (``views``), the two-sided conflict (``conflict``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltanb.notebook.views.model import Inline, Section, Table, View, plain
from deltanb.text.formatting import MAX_COLUMNS, clean, count, fit, pad, width

MAX_LINES = 12  # what stays in view under a notebook cell beside the code
MIN_COLUMN = 8  # a column of a table is not cut below this


def render(view: View, max_lines: int = MAX_LINES) -> str:
    """The view as text.

    >>> print(render(View("Table", "orders", ("v20",), ("41 files  1.2 MB",))))
    Table orders  v20
    41 files  1.2 MB
    """
    head = " ".join(part for part in (view.kind, clean(view.name)) if part)
    lines = ["  ".join([head, *(plain(mark) for mark in view.marks)])]
    lines += [plain(line) for line in view.lines]
    sections = [section for section in view.sections if not section.is_detail]
    indent = max((len(section.heading) for section in sections), default=0) + 2
    for at, section in enumerate(sections):
        still = len(sections) - at - 1
        room = max_lines - len(lines) - still
        lines += _section(section, indent, room)
    return clamp(lines, max_lines)


def clamp(lines: Iterable[str], max_lines: int = MAX_LINES) -> str:
    """Lines cut to the width and the height, with a count of the lines left out.

    >>> clamp(["a", "b", "c"], max_lines=2)
    'a\\n… 2 more lines'
    """
    lines = list(lines)
    if len(lines) > max_lines:
        left = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"… {count(left, 'more line')}"]
    return "\n".join(fit(line, MAX_COLUMNS).rstrip() for line in lines)


def _section(section: Section, indent: int, room: int) -> list[str]:
    lines = [pad(section.heading, indent) + plain(section.summary)]
    if section.text_rows and section.table is not None:
        lines += rows(section.table, room - len(lines))
    if section.text_rows and section.source is not None and room > len(lines):
        source = [clean(line) for line in section.source.splitlines()]
        lines += clamp(source, room - len(lines)).split("\n")
    return lines


def rows(table: Table, room: int) -> list[str]:
    """A table in ``room`` lines: column names, rows, and one line for what is left out."""
    at = places(table)
    left_columns = [clean(name) for i, name in enumerate(table.columns) if i not in at]
    shown = min(len(table.rows), max(0, room - 1))
    if shown < table.total or left_columns:
        shown = min(shown, max(0, room - 2))
    if room < 2 or not table.total:
        return []
    cells = [[clean(table.columns[i]) for i in at]]
    cells += [[plain(row[i]) for i in at] for row in table.rows[:shown]]
    lines = columns(cells, cut_last=[table.columns[i] in table.cut_last for i in at])
    rest = []
    if shown < table.total:
        rest.append(count(table.total - shown, f"more {table.noun}"))
    if left_columns:
        rest.append(f"not shown here: {', '.join(left_columns)}")
    return [*lines, "… " + "; ".join(rest)] if rest else lines


def places(table: Table) -> list[int]:
    """The indices of the text form's columns; a name that is repeated means the next column of that name."""
    at: list[int] = []
    for name in table.text_columns or table.columns:
        at.append(next(i for i, known in enumerate(table.columns) if known == name and i not in at))
    return at


def columns(
    cells: Sequence[Sequence[str]], max_width: int = MAX_COLUMNS, cut_last: Sequence[bool] = ()
) -> list[str]:
    """Cells as aligned columns; the widest columns are cut until the line fits, those in ``cut_last`` last.

    >>> columns([["a", "b"], ["ccc", "d"]])
    ['a    b', 'ccc  d']
    """
    widths = [max(width(row[i]) for row in cells) for i in range(len(cells[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - max_width
    while over > 0 and max(widths) > MIN_COLUMN:
        free = [at for at, w in enumerate(widths) if w > MIN_COLUMN and not (cut_last and cut_last[at])]
        widest = max(free or range(len(widths)), key=lambda at: (widths[at], -at))
        widths[widest] -= 1
        over -= 1
    return [
        "  ".join(pad(fit(cell, w), w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def wrap(inline: Inline, max_lines: int = 2, indent: str = "  ") -> list[str]:
    """A sentence on up to ``max_lines`` lines; what does not fit ends in ``…``.

    >>> wrap("one two", max_lines=1)
    ['one two']
    """
    lines = [""]
    for word in plain(inline).split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if width(joined) <= MAX_COLUMNS or not lines[-1].strip():
            lines[-1] = joined
        elif len(lines) == max_lines:
            lines[-1] = fit(f"{lines[-1]} {word}", MAX_COLUMNS)
            break
        else:
            lines.append(indent + word)
    return [fit(line, MAX_COLUMNS) for line in lines]
