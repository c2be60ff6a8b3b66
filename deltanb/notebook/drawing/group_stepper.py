"""A frame of a stepped commit of several tables drawn: the algorithm beside the grid of tables by phases.

What lives here: the view of a frame and its two forms.
What it does not know: how frames come about (``observe/group_frames``), what moves them
(``observe/group_stepper``), what is said of a grid (``views/group``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import group as group_forms
from deltanb.notebook.drawing import html, text
from deltanb.notebook.drawing import stepper as stepper_forms
from deltanb.notebook.drawing.stepper import SO_FAR
from deltanb.notebook.views import group
from deltanb.notebook.views.group import GroupView
from deltanb.notebook.views.model import Inline, Section, Span, View, muted, plain, spans
from deltanb.observe.group_frames import GROUP_ALGORITHM, GroupFrame
from deltanb.text import formatting as units


@dataclass(frozen=True)
class GroupStepView(GroupView):
    """The view of a frame: its heading, the grid, and the frame for what is drawn rather than said."""

    frame: GroupFrame | None = None


def stepper(stepper: Any) -> GroupStepView:
    """The view of a :class:`~deltanb.observe.group_stepper.GroupStepper`: of the frame it shows."""
    return frame(stepper.frame)


def frame(frame: GroupFrame) -> GroupStepView:
    """The view of a :class:`~deltanb.observe.group_frames.GroupFrame`."""
    grid = group.group(frame.grid)
    if frame.number == 0:
        step = ", not begun"
    else:
        step = f", step {frame.number}" + (f" of {frame.total}" if frame.total is not None else "")
    lines: tuple[Inline, ...] = ()
    if frame.ending:
        lines = (muted(f"looking back; in the end: {frame.ending}"),)
    so_far = Section(SO_FAR, units.count(frame.num_events, "event"))
    return GroupStepView(
        "Group commit", "", (step, frame.headline), lines, (*grid.sections, so_far),
        culprit=grid.culprit, met=grid.met, why=grid.why, unmet=grid.unmet, frame=frame)


def _head(view: GroupStepView) -> list[Span]:
    step, headline = (plain(mark) for mark in view.marks)
    return [Span(f"{view.kind}{step}", strong=True), Span(f": {headline}")]


def to_text(view: View) -> str:
    """The text form: the heading, the algorithm in one line, the grid, the last event, why it failed."""
    assert isinstance(view, GroupStepView) and view.frame is not None
    shown = view.frame
    head = [units.fit(plain(_head(view)), units.MAX_COLUMNS), *map(plain, view.lines)]
    marked = [f"▶ {name}" if at == shown.at else name for at, (name, _) in enumerate(GROUP_ALGORITHM)]
    head.append("algorithm  " + "  ".join(marked))
    earlier = "… " if shown.num_events > 1 else ""
    tail = [f"{SO_FAR}  {units.count(shown.num_events, 'event')}: {earlier}{shown.line}"]
    grid, *rest = view.sections
    why = next((section for section in rest if section.heading != SO_FAR), None)
    if why is not None:
        tail += text.wrap([f"{why.heading}  ", *spans(view.why)], max_lines=2)
    room = text.MAX_LINES - len(head) - len(tail)
    assert grid.table is not None
    table = [f"{grid.heading}  {plain(grid.summary)}", *text.rows(grid.table, room - 1)]
    return text.clamp([*head, *table, *tail])


def to_html(view: View, as_text: str) -> str:
    """The HTML form; the row that failed unfolds to its conflict."""
    return html.within_limit(lambda share: html.document(body(view, share), as_text))


def body(view: View, share: float) -> html.Markup:
    """The rich form of a frame."""
    assert isinstance(view, GroupStepView) and view.frame is not None
    t, shown = html.tag, view.frame
    grid, *rest = view.sections
    why = next((section for section in rest if section.heading != SO_FAR), None)
    parts = [
        html.part(t("p", html.inline(_head(view))), [t("p", html.inline(line)) for line in view.lines]),
        t("div", stepper_forms.algorithm(GROUP_ALGORITHM, shown.at),
          t("div", group_forms.grid(view, grid, None, share), cls="dnb-scroll dnb-log"), cls="dnb-step"),
        html.part(stepper_forms.events(shown), cls="dnb-soft"),
    ]
    if why is not None:
        parts.append(html.part(group_forms.opened(view, why, share)))
    return html.join(parts)
