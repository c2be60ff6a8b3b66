"""The files of a scan drawn: a bar for each step, solid for the files it left, paler for those it spared.

What lives here: the HTML of a view that has counts (:class:`~deltanb.notebook.views.scan.Bars`) or scans to
unfold (:class:`~deltanb.notebook.views.query.Scanned`) among its sections. As text it is drawn like others.
What it does not know: what is said of a scan (``views/scan``).
"""

from __future__ import annotations

from collections.abc import Iterable

from deltanb.notebook.drawing import html
from deltanb.notebook.drawing.html import Markup, tag
from deltanb.notebook.views.model import Section, View
from deltanb.notebook.views.query import Scanned
from deltanb.notebook.views.scan import Bar, Bars
from deltanb.text import formatting as units

SHEET = "scan.css"
LEAST = 0.6  # percent of the width: one file of a million is a bar that can be seen


def to_html(view: View, as_text: str) -> str:
    """The view as HTML."""
    return html.within_limit(lambda share: html.document(body(view, share), as_text, [SHEET]))


def body(view: View, share: float) -> Markup:
    """The rich form: the heading, then each section, bars drawn where there are some."""
    head = View(view.kind, view.name, view.marks, view.lines, title=view.title)
    return html.join(html.body(head, share), sections(view.sections, share))


def sections(parts: Iterable[Section], share: float) -> Markup:
    """Sections one after the other, bars drawn where there are some."""
    return html.join([_section(one, share) for one in parts])


def _section(section: Section, share: float) -> Markup:
    if isinstance(section, Bars):
        return _drawn(section)
    if isinstance(section, Scanned) and share > 0:
        title = tag("summary", html.name_of(section.heading), html.inline(section.summary))
        return html.part(tag("details", title, tag("div", sections(section.parts, share), cls="dnb-inner")))
    return html.sections([section], share)


def _drawn(section: Bars) -> Markup:
    line = tag("p", html.name_of(section.heading), tag("span", html.inline(section.summary)),
               cls="dnb-nofold")
    rows = [_bar(bar, section.bars[0].files) for bar in section.bars]
    return html.part(line, tag("div", rows, cls="dnb-bars") if rows[1:] else None)


def _bar(bar: Bar, total: int) -> Markup:
    """One step: its words, the files it left and spared, and the count."""
    spared = tag("i", cls="dnb-spared", style=f"width:{_percent(bar.spared, total)}%") if bar.spared else None
    left = tag("i", cls="dnb-left", style=f"width:{_percent(bar.files, total)}%") if bar.files else None
    count = f"{units.count(bar.files, 'file')}, {units.size(bar.size)}"
    sign = f"−{units.number(bar.spared)} " if bar.spared else ""
    return tag("div", tag("span", f"{sign}{bar.words}"), " ", tag("span", left, spared, cls="dnb-track"),
               tag("span", count, cls="dnb-count"), cls="dnb-bar")


def _percent(files: int, total: int) -> str:
    """
    >>> _percent(1, 3), _percent(1, 1_000_000), _percent(3, 3)
    ('33.3', '0.6', '100')
    """
    return f"{max(LEAST, 100 * files / total):.1f}".removesuffix(".0")
