"""A commit of several tables drawn: tables by phases, and below a failed row why it failed.

What lives here: the two forms of a :class:`~deltanb.notebook.views.group.GroupView`. As text it is drawn like
any other view, and the reason has as many lines as are left; in HTML the failed row unfolds to its conflict.
What it does not know: how a grid is made, and its words (``views/group``).
"""

from __future__ import annotations

from dataclasses import replace

from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import html, text
from deltanb.notebook.views.group import GroupView
from deltanb.notebook.views.model import Section, View, spans

MAX_WHY = 3  # lines of text that a reason gets


def to_text(view: View) -> str:
    """The text form."""
    assert isinstance(view, GroupView)
    whys = [section for section in view.sections if section.summary is view.why]
    if not view.why or not whys:
        return text.render(view)
    rest = tuple(section for section in view.sections if section.summary is not view.why)
    reason = text.wrap([f"{whys[0].heading}  ", *spans(view.why)], max_lines=MAX_WHY)
    return "\n".join([text.render(replace(view, sections=rest), text.MAX_LINES - len(reason)), *reason])


def to_html(view: View, as_text: str) -> str:
    """The HTML form."""
    return html.within_limit(lambda share: html.document(body(view, share), as_text))


def body(view: View, share: float) -> html.Markup:
    """The rich form: the heading, the grid, the other sections."""
    assert isinstance(view, GroupView)
    if view.culprit is None or not view.why:
        return html.body(view, share)
    shown, why, *more = view.sections
    head = html.body(View(view.kind, view.name, view.marks, view.lines), share)
    return html.join(head, html.part(grid(view, shown, why, share)), html.sections(more, share))


def grid(view: GroupView, section: Section, why: Section | None, share: float) -> html.Markup:
    """The tables by phases, with the reason below the row that failed, if there is one."""
    t, table = html.tag, section.table
    assert table is not None
    shown = table.rows[: max(1 + max(table.marked, default=0), html.limit_of(share, table.limit))]
    rows = []
    for at, row in enumerate(shown):
        is_met = at in table.marked
        rows.append(t("tr", [t("td", html.inline(cell)) for cell in row], cls="dnb-mark" if is_met else ""))
        if is_met and why is not None:
            rows.append(t("tr", t("td", opened(view, why, share), colspan=str(len(table.columns))),
                          cls="dnb-why"))
    caption = f"{section.heading}: {html.shown_of(len(shown), table.total, table.noun)}"
    return t("div", t(
        "table", t("caption", caption),
        t("thead", t("tr", [t("th", name, scope="col") for name in table.columns])), t("tbody", rows),
        cls="dnb-phases"), cls="dnb-scroll")


def opened(view: GroupView, why: Section, share: float) -> html.Markup:
    """Why a commit failed, unfolded: the conflict, the requirements that were not met, or the error alone."""
    t = html.tag
    heading = [html.name_of(why.heading), html.inline(view.why)]
    if view.met is not None:
        return t("details", t("summary", *heading), conflict_forms.body(view.met, share), open="open")
    if view.unmet is not None and share > 0:
        return t("details", t("summary", *heading), html.table(view.unmet, "Not met", share), open="open")
    return t("p", *heading)
