"""A frame of a stepped commit drawn: as text, and as HTML with the algorithm beside the log or the grid.

What lives here: the view of a frame and its two forms. Both show the algorithm with an arrow at its current
line; the versions of the log as boxes with a row per attempt, or several tables by phases; what happened so
far, and why it failed.
What it does not know: how frames are made (``observe/frames.py``), what moves them (``observe/stepper.py``),
the words of a grid (``views/group.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import group as group_forms
from deltanb.notebook.drawing import html, text
from deltanb.notebook.views import conflict, group
from deltanb.notebook.views.group import GroupView
from deltanb.notebook.views.model import Section, Span, muted, plain, spans
from deltanb.observe.frames import Box, StepFrame, Try
from deltanb.text import formatting as units

if TYPE_CHECKING:
    from deltanb.observe.stepper import Stepper

LEAST_BOXES = 6  # boxes drawn at least, the rest of them empty: the log goes on
MAX_BOXES = 6  # beyond these the versions before the one read give way
MAX_NOTE = 14  # columns of whose a version is in the text form; the attempts say it in full
ALGORITHM, LOG, SO_FAR = "algorithm", "_delta_log", "What happened so far"
SIGNS = {"lost": "✕", "committed": "✓", "putting": "…", "unknown": "?"}
TONES = {"lost": "lost", "committed": "ok", "putting": "muted", "unknown": "warn"}
GAP = "⋯"
"""Stands for versions that are not drawn."""


@dataclass(frozen=True)
class StepView(GroupView):
    """The view of a frame: its heading, and the frame itself for what is drawn."""

    frame: StepFrame | None = None

    @property
    def headings(self) -> tuple[str, ...]:
        assert self.frame is not None
        if self.frame.grid is not None:
            return super().headings
        return (self.kind, LOG, SO_FAR, *(("Conflict",) if self.met else ()))


def stepper(stepper: Stepper) -> StepView:
    """The view of a :class:`~deltanb.observe.stepper.Stepper`, which is that of its current frame."""
    return frame(stepper.frame)


def frame(frame: StepFrame) -> StepView:
    """The view of a :class:`~deltanb.observe.frames.StepFrame`."""
    of = f" of {frame.total}" if frame.total is not None else ""
    step = f", step {frame.number}{of}" if frame.number else ", not begun"
    lines = (muted(f"looking back; in the end: {frame.ending}"),) if frame.ending else ()
    so_far = Section(SO_FAR, units.count(frame.num_events, "event"))
    if frame.grid is not None:
        grid = group.group(frame.grid)
        return StepView(grid.kind, "", (step, frame.headline), lines, (*grid.sections, so_far),
                        culprit=grid.culprit, met=grid.met, why=grid.why, unmet=grid.unmet, frame=frame)
    tries = f", {units.count(frame.num_tries, 'attempt')}" if frame.num_tries else ""
    return StepView(
        "Commit", "", (step, frame.headline, f"{frame.operation} on {frame.table}{tries}"), lines, (so_far,),
        met=None if frame.conflict is None else conflict.fields(frame.conflict), frame=frame)


def _head(view: StepView) -> list[Span]:
    step, headline, *about = map(plain, view.marks)
    return [Span(f"{view.kind}{step}", strong=True), Span(f": {headline}"),
            *(muted(f" — {words}") for words in about)]


def _grid(view: StepView) -> tuple[Section, Section | None]:
    """The tables by phases, and why the commit failed."""
    grid, *rest = view.sections
    return grid, next((section for section in rest if section.heading != SO_FAR), None)


# -- text ----------------------------------------------------------------------------------------


def to_text(view: StepView) -> str:
    """The text form: the heading, the algorithm on one line, the log with its attempts or the grid, the last
    event, why the commit failed."""
    assert view.frame is not None
    shown = view.frame
    indent = len(LOG if shown.grid is None else ALGORITHM) + 2
    marked = [f"▶ {name}" if at == shown.at else name for at, (name, _) in enumerate(shown.algorithm)]
    lines = [units.fit(plain(_head(view)), units.MAX_COLUMNS), *map(plain, view.lines),
             units.pad(ALGORITHM, indent) + "  ".join(marked)]
    earlier = "… " if shown.num_events > 1 else ""
    tail = [f"{SO_FAR}  {units.count(shown.num_events, 'event')}: {earlier}{shown.line}"]
    if shown.grid is not None:
        grid, why = _grid(view)
        assert grid.table is not None
        if why is not None:
            tail += text.wrap([f"{why.heading}  ", *spans(view.why)], max_lines=2)
        room = text.MAX_LINES - len(lines) - len(tail)
        lines += [f"{grid.heading}  {plain(grid.summary)}", *text.rows(grid.table, room - 1), *tail]
        return text.clamp(lines)
    lines += [units.pad(LOG, indent) + _boxes_text(shown, units.MAX_COLUMNS - indent),
              *_tries_text(shown, indent), *tail]
    if view.met is not None:
        words = ["Conflict  ", f"✕ {view.met.kind}: ", *spans(view.met.lines[0])]
        lines += text.wrap(words, max_lines=max(1, text.MAX_LINES - len(lines)))
    return text.clamp(lines)


def _boxes_text(frame: StepFrame, width: int) -> str:
    """The log on one line; where that is too long, without the names of other writers."""
    columns, line = _columns(frame.boxes), ""
    for notes in (("read", "other", "yours"), ("read", "yours")):
        line = "  ".join(
            GAP if box is None
            else f"v{box.version} {units.fit(box.note, MAX_NOTE) if box.kind in notes else ''}".rstrip()
            for box in columns)
        if units.width(line) <= width:
            break
    return line


def _tries_text(frame: StepFrame, indent: int) -> list[str]:
    lines, before = [], 0
    for attempt in frame.tries:
        if attempt.number > before + 1:
            lines.append(f"{units.pad('', indent)}{_left_out(attempt.number - before - 1)}")
        before = attempt.number
        start = units.pad(f"attempt {attempt.number}", indent)
        read = f"v{frame.read_version}" if frame.read_version >= 0 else "no table"
        further = "" if _end(attempt) == attempt.version else f" ── {SIGNS['lost']} v{_end(attempt)}"
        lines.append(f"{start}{read} ── {SIGNS[attempt.outcome]} v{attempt.version}{further}  "
                     f"{'  '.join(_fate_of(attempt))}".rstrip())
    return lines


def _left_out(n: int) -> str:
    return f"… {units.count(n, 'more lost attempt')}"


def _end(attempt: Try) -> int:
    """Where an attempt ended: at the version that it tried, or at a later one that it conflicted with."""
    return max(attempt.version, attempt.failed_at or 0)


def _fate_of(attempt: Try) -> list[str]:
    """How an attempt ended, line by line: who has the version, and what follows."""
    lines = []
    if attempt.outcome == "lost":
        lines.append(f"lost: {attempt.winner}")
    elif attempt.outcome == "putting" and not attempt.verdict:
        lines.append("putting …")
    return [*lines, attempt.verdict] if attempt.verdict else lines


# -- HTML ----------------------------------------------------------------------------------------


def to_html(view: StepView, as_text: str) -> str:
    """The HTML form, with the conflict of a failed commit below."""
    return html.within_limit(lambda share: html.document(body(view, share), as_text))


def body(view: StepView, share: float) -> html.Markup:
    """The rich form of a frame."""
    assert view.frame is not None
    t, shown = html.tag, view.frame
    if shown.grid is None:
        picture, failure = _log(shown), _conflict(view, share)
    else:
        grid, why = _grid(view)
        picture = t("div", group_forms.grid(view, grid, None, share), cls="dnb-scroll dnb-log")
        failure = [] if why is None else [html.part(group_forms.opened(view, why, share))]
    return html.join([
        html.part(t("p", html.inline(_head(view))), [t("p", html.inline(line)) for line in view.lines]),
        t("div", algorithm(shown), picture, cls="dnb-step"),
        html.part(events(shown), cls="dnb-soft"),
        *failure,
    ])


def _conflict(view: StepView, share: float) -> list[html.Markup]:
    if view.met is None:
        return []
    t = html.tag
    named = t("b", f"✕ {view.met.kind}", cls="dnb-warn dnb-name")
    return [html.part(t("p", html.name_of("Conflict"), named, " — ",
                        html.inline(view.met.lines[0]))),
            conflict_forms.body(view.met, share)]


def algorithm(frame: StepFrame) -> html.Markup:
    """The algorithm line by line, with an arrow at the current line."""
    items = []
    for place, (_, line) in enumerate(frame.algorithm):
        is_here = place == frame.at
        here = {"aria-current": "step"} if is_here else {}
        items.append(html.tag("li", ("▶ " if is_here else "  ") + line, **here))
    return html.tag("ol", *items, cls="dnb-algo")


def _log(frame: StepFrame) -> html.Markup:
    """Boxes and attempts on one grid, with two columns per version so that a line can end in its middle."""
    columns = _columns(frame.boxes)
    empty = max(1, LEAST_BOXES - len(columns))
    place = {box.version: 2 * at + 2 for at, box in enumerate(columns) if box is not None}
    end = 2 * len(columns) + 2
    read = place.get(frame.read_version, 0)
    cells = [_cell("b", LOG, 1, 1, 2)]
    cells += [_box(box, 2 * at + 2) for at, box in enumerate(columns)]
    cells += [_cell("div", "", 1, at, at + 2, cls="dnb-box dnb-free")
              for at in range(end, end + 2 * empty, 2)]
    row, before = 2, 0
    for attempt in frame.tries:
        if attempt.number > before + 1:
            left_out = _left_out(attempt.number - before - 1)
            cells.append(_cell("span", left_out, row, read + 2, -1, cls="dnb-muted"))
            row += 1
        before = attempt.number
        ends = [place.get(version, end) for version in dict.fromkeys((attempt.version, _end(attempt)))]
        cells += _attempt(attempt, row, max(2, read + 1), ends)
        row += 1
    if read:
        cells.append(_cell("span", f"you read v{frame.read_version}", row, 1, read + 1, cls="dnb-read"))
        cells.append(_cell("div", "", 2, read + 1, read + 2, rows=row - 1, cls="dnb-since"))
    halves = 2 * (len(columns) + empty)
    grid = f"grid-template-columns:6em repeat({halves},max-content) minmax(5em,1fr)"
    return html.tag("div", html.tag("div", *cells, cls="dnb-grid", style=grid), cls="dnb-scroll dnb-log")


def _cell(
    name: str, content: Any, row: int, column: int, end: int, rows: int = 1, cls: str = ""
) -> html.Markup:
    area = f"grid-area:{row}/{column}/{row + rows}/{end}"
    return html.join(html.tag(name, content, cls=cls, style=area), "\n")  # apart where tags are taken out


def _box(box: Box | None, column: int) -> html.Markup:
    if box is None:
        return _cell("span", GAP, 1, column, column + 2, cls="dnb-gap")
    note = [" ", html.tag("small", box.note)] if box.note else None
    return _cell("div", [f"v{box.version}", note], 1, column, column + 2, cls=f"dnb-box dnb-is-{box.kind}")


def _attempt(attempt: Try, row: int, start: int, ends: Sequence[int]) -> list[html.Markup]:
    """An attempt from the version read to the one that it tried, and on to a later one where it failed."""
    tone = TONES[attempt.outcome]
    lines = [[html.tag("span", line, cls=_tone(attempt, line)), " "] for line in _fate_of(attempt)]
    cells = [_cell("span", f"attempt {attempt.number}", row, 1, 2)]
    for at, end in enumerate(ends):
        begin, further = (start, "") if at == 0 else (ends[at - 1] + 1, " dnb-further")
        cells.append(_cell("div", "", row, begin, end + 1, cls=f"dnb-run dnb-{attempt.outcome}{further}"))
    for end in ends:
        cells.append(_cell("span", SIGNS[attempt.outcome], row, end, end + 2, cls=f"dnb-end dnb-{tone}"))
    return [*cells, _cell("div", lines, row, ends[-1] + 2, -1, cls="dnb-said")]


def _tone(attempt: Try, line: str) -> str:
    if attempt.outcome == "committed" or line.startswith("✓"):
        return "dnb-ok"
    if line.startswith("✕"):
        return "dnb-warn"
    return "" if line.startswith("lost") else "dnb-muted"


def _columns(boxes: Sequence[Box]) -> list[Box | None]:
    """The boxes, with None between two whose versions are not consecutive."""
    if len(boxes) > MAX_BOXES:
        boxes = [box for box in boxes if box.kind != "past"]
    columns: list[Box | None] = []
    for box in boxes:
        if columns and columns[-1] is not None and box.version > columns[-1].version + 1:
            columns.append(None)
        columns.append(box)
    return columns


def events(frame: StepFrame) -> html.Markup:
    """What happened so far, to unfold."""
    t = html.tag
    left = frame.num_events - len(frame.events)
    first = [t("li", f"… {units.count(left, 'earlier event')}", cls="dnb-muted")] if left else []
    return t("details", t("summary", f"{SO_FAR} ({units.count(frame.num_events, 'event')})"),
             t("ul", *first, [t("li", line) for line in frame.events]))
