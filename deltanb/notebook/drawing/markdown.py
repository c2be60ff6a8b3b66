"""Views as Markdown: what people paste into a ticket.

What lives here: the layout of a view as headings and tables that every renderer of Markdown understands.
What it does not know: the objects shown (``views``).
"""

from __future__ import annotations

import re

from deltanb.notebook.views.model import Inline, Section, Table, View, spans
from deltanb.text.formatting import clean, count

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


def render(view: View) -> str:
    """The view as Markdown.

    >>> from deltanb.notebook.views.model import code
    >>> print(render(View("Table", "a_b", ("v20",), (["read ", code("x | y")],))))
    ## Table: a\\_b
    <BLANKLINE>
    v20
    <BLANKLINE>
    read `x \\| y`
    """
    name = f": {_escaped(view.name)}" if view.name else ""
    blocks = [f"## {_escaped(view.kind)}{name}"]
    blocks += ["  ·  ".join(map(inline, view.marks))] if view.marks else []
    blocks += [inline(line) for line in view.lines]
    for section in view.sections:
        blocks += _section(section)
    return "\n\n".join(block for block in blocks if block)


def _section(section: Section) -> list[str]:
    blocks = [f"### {_escaped(section.heading)}", inline(section.summary)]
    if section.table is not None:
        blocks.append(_table(section.table))
    if section.source is not None:
        blocks.append("\n".join(f"    {clean(line)}" for line in section.source.splitlines()))
    return blocks


def _table(table: Table) -> str:
    lines = [f"| {' | '.join(map(_escaped, table.columns))} |", "|" + "---|" * len(table.columns)]
    lines += [f"| {' | '.join(map(inline, row))} |" for row in table.rows]
    if table.total > len(table.rows):
        lines += ["", f"… {count(table.total - len(table.rows), 'more ' + table.noun)}"]
    return "\n".join(lines)


def inline(line: Inline) -> str:
    """A line: code between backticks, everything else with Markdown's own characters escaped."""
    return "".join(_code(span.text) if span.code else _escaped(span.text) for span in spans(line)).strip()


def _code(text: str) -> str:
    text = clean(text)
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * (max(runs, default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|") if text else ""


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", clean(text))
