"""A frame of a stepped commit drawn: as text, and as HTML with the algorithm beside the log.

What lives here: the view of a frame and its two forms: the algorithm with an arrow at the line it stands
at, the versions of the log as boxes, a row an attempt, what happened so far, the conflict if there is one.
What it does not know: how frames come about (``observe/frames.py``), what moves them
(``observe/stepper.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import html, text
from deltanb.notebook.views import conflict
from deltanb.notebook.views.model import Inline, Section, Span, View, muted, plain, spans
from deltanb.observe.frames import ALGORITHM, Box, StepFrame, Try
from deltanb.text import formatting as units

LEAST_BOXES = 6  # boxes drawn at least, the rest of them empty: the log goes on
MAX_BOXES = 6  # beyond these the versions before the one read give way
MAX_NOTE = 14  # columns of whose a version is in the text form; the attempts say it in full
LOG, SO_FAR = "_delta_log", "What happened so far"
SIGNS = {"lost": "✕", "committed": "✓", "putting": "…", "unknown": "?"}
TONES = {"lost": "lost", "committed": "ok", "putting": "muted", "unknown": "warn"}
GAP = "⋯"
"""Stands for versions that are not drawn."""


@dataclass(frozen=True)
class StepView(View):
    """The view of a frame: its heading, and the frame for what is drawn rather than said."""

    frame: StepFrame | None = None
    met: conflict.ConflictView | None = None

    @property
    def headings(self) -> tuple[str, ...]:
        return (self.kind, LOG, SO_FAR, *(("Conflict",) if self.met else ()))


def stepper(stepper: Any) -> StepView:
    """The view of a :class:`~deltanb.observe.stepper.CommitStepper`: of the frame it shows."""
    return frame(stepper.frame)


def frame(frame: StepFrame) -> StepView:
    """The view of a :class:`~deltanb.observe.frames.StepFrame`."""
    tries = f", {units.count(frame.num_tries, 'attempt')}" if frame.num_tries else ""
    if frame.number == 0:
        step = ", not begun"
    else:
        step = f", step {frame.number}" + (f" of {frame.total}" if frame.total is not None else "")
    lines: list[Inline] = []
    if frame.ending:
        lines.append(muted(f"looking back; in the end: {frame.ending}"))
    found = None if frame.conflict is None else conflict.fields(frame.conflict)
    about = f"{frame.operation} on {frame.table}{tries}"
    return StepView(
        "Commit", lines=(*lines,), marks=(step, frame.headline, about), frame=frame, met=found,
        sections=(Section(SO_FAR, units.count(frame.num_events, "event")),))


def _head(view: StepView) -> list[Span]:
    step, headline, about = (plain(mark) for mark in view.marks)
    return [Span(f"{view.kind}{step}", strong=True), Span(f": {headline}"), muted(f" — {about}")]


# -- text ----------------------------------------------------------------------------------------


def to_text(view: StepView) -> str:
    """The text form: the heading, the algorithm in one line, the log, the attempts, the last event."""
    assert view.frame is not None
    shown = view.frame
    indent = len(LOG) + 2
    lines = [units.fit(plain(_head(view)), units.MAX_COLUMNS), *(plain(line) for line in view.lines)]
    marked = [f"▶ {name}" if at == shown.at else name for at, (name, _) in enumerate(ALGORITHM)]
    lines.append(units.pad("algorithm", indent) + "  ".join(marked))
    lines.append(units.pad(LOG, indent) + _boxes_text(shown, units.MAX_COLUMNS - indent))
    lines += _tries_text(shown, indent)
    earlier = "… " if shown.num_events > 1 else ""
    lines.append(f"{SO_FAR}  {units.count(shown.num_events, 'event')}: {earlier}{shown.line}")
    if view.met is not None:
        found = ["Conflict  ", f"✕ {view.met.kind}: ", *spans(view.met.lines[0])]
        lines += text.wrap(found, max_lines=max(1, text.MAX_LINES - len(lines)))
    return text.clamp(lines)


def _boxes_text(frame: StepFrame, width: int) -> str:
    """The log in one line; where that is too long, others' versions stand without their names."""
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
        lines.append(f"{start}{read} ── {SIGNS[attempt.outcome]} v{attempt.version}  "
                     f"{'  '.join(_fate_of(attempt))}".rstrip())
    return lines


def _left_out(n: int) -> str:
    return f"… {units.count(n, 'more lost attempt')}"


def _fate_of(attempt: Try) -> list[str]:
    """What became of an attempt, line by line: who has the version, and what that means."""
    said = []
    if attempt.outcome == "lost":
        said.append(f"lost: {attempt.winner}")
    elif attempt.outcome == "putting" and not attempt.verdict:
        said.append("putting …")
    return [*said, attempt.verdict] if attempt.verdict else said


# -- HTML ----------------------------------------------------------------------------------------


def to_html(view: StepView, as_text: str) -> str:
    """The HTML form; the conflict of a failed commit stands below."""
    return html.within_limit(lambda share: html.document(body(view, share), as_text))


def body(view: StepView, share: float) -> html.Markup:
    """The rich form of a frame."""
    assert view.frame is not None
    t, shown = html.tag, view.frame
    parts = [
        html.part(t("p", html.inline(_head(view))), [t("p", html.inline(line)) for line in view.lines]),
        t("div", algorithm(ALGORITHM, shown.at), _log(shown), cls="dnb-step"),
        html.part(events(shown), cls="dnb-soft"),
    ]
    if view.met is not None:
        named = t("b", f"✕ {view.met.kind}", cls="dnb-warn dnb-name")
        parts.append(html.part(t("p", t("span", "Conflict", cls="dnb-head"), named, " — ",
                                 html.inline(view.met.lines[0]))))
        parts.append(conflict_forms.body(view.met, share))
    return html.join(parts)


def algorithm(lines: Sequence[tuple[str, str]], at: int) -> html.Markup:
    """The algorithm line by line, with an arrow at the one it stands at."""
    items = []
    for place, (_, line) in enumerate(lines):
        is_here = place == at
        here = {"aria-current": "step"} if is_here else {}
        items.append(html.tag("li", ("▶ " if is_here else "  ") + line, **here))
    return html.tag("ol", *items, cls="dnb-algo")


def _log(frame: StepFrame) -> html.Markup:
    """Boxes and attempts on one grid: two columns a version, that a line can end in its middle."""
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
        cells += _attempt(attempt, row, max(2, read + 1), place.get(attempt.version, end))
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
    return html.tag(name, content, cls=cls, style=area)


def _box(box: Box | None, column: int) -> html.Markup:
    if box is None:
        return _cell("span", GAP, 1, column, column + 2, cls="dnb-gap")
    note = html.tag("small", box.note) if box.note else None
    return _cell("div", [f"v{box.version}", note], 1, column, column + 2, cls=f"dnb-box dnb-is-{box.kind}")


def _attempt(attempt: Try, row: int, start: int, tried: int) -> list[html.Markup]:
    tone = TONES[attempt.outcome]
    said = [html.tag("span", line, cls=_tone(attempt, line)) for line in _fate_of(attempt)]
    return [
        _cell("span", f"attempt {attempt.number}", row, 1, 2),
        _cell("div", "", row, start, tried + 1, cls=f"dnb-run dnb-{attempt.outcome}"),
        _cell("span", SIGNS[attempt.outcome], row, tried, tried + 2, cls=f"dnb-end dnb-{tone}"),
        _cell("div", said, row, tried + 2, -1, cls="dnb-said"),
    ]


def _tone(attempt: Try, line: str) -> str:
    if attempt.outcome == "committed" or line.startswith("✓"):
        return "dnb-ok"
    if line.startswith("✕"):
        return "dnb-warn"
    return "" if line.startswith("lost") else "dnb-muted"


def _columns(boxes: Sequence[Box]) -> list[Box | None]:
    """The boxes with None between two that are not neighbours."""
    if len(boxes) > MAX_BOXES:
        boxes = [box for box in boxes if box.kind != "past"]
    columns: list[Box | None] = []
    for box in boxes:
        if columns and columns[-1] is not None and box.version > columns[-1].version + 1:
            columns.append(None)
        columns.append(box)
    return columns


def events(frame: Any) -> html.Markup:
    """What happened so far, to unfold."""
    t = html.tag
    left = frame.num_events - len(frame.events)
    first = [t("li", f"… {units.count(left, 'earlier event')}", cls="dnb-muted")] if left else []
    return t("details", t("summary", f"{SO_FAR} ({units.count(frame.num_events, 'event')})"),
             t("ul", *first, [t("li", line) for line in frame.events]))
