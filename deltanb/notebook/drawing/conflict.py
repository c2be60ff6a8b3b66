"""The conflict view drawn: as text beside the code, as HTML below a failing cell.

What lives here: the two forms of a :class:`~deltanb.notebook.views.conflict.ConflictView`, with the same
parts in the same order.
What it does not know: conflicts. ``views/conflict`` has chosen the words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from deltanb.notebook.drawing import html, text
from deltanb.notebook.views.conflict import ADVICE, ConflictView, Row, Side, sentence
from deltanb.notebook.views.model import plain, spans
from deltanb.text import formatting as units

TEXT_OVERLAPS = 2  # rows of the overlap in text, so that checks and advice stay within its lines
NOTE_OVERLAPS = 5  # rows of it below a traceback, where there is more room
NOTE_LINES = 30  # all advice there is, and no more than a screen


def to_text(view: ConflictView) -> str:
    """The text form: the sentence, both sides in columns, checks, overlap, advice.

    Sentence and sides take eight lines at most; what has no room below them is counted.
    """
    lines = _upper_text(view)
    if view.rows:
        room = text.MAX_LINES - len(lines) - bool(view.advice)
        lines += _rows_text(view, min(room, TEXT_OVERLAPS))
    if view.advice and len(lines) < text.MAX_LINES:
        advice = [f"{ADVICE}  ", *(s for a in view.advice for s in (*spans(a), " "))]
        lines += text.wrap(advice, max_lines=max(1, text.MAX_LINES - len(lines)))
    return text.clamp(lines)


def to_note(view: ConflictView) -> str:
    """The text form at the end of a traceback: all of the advice, and more rows of the overlap."""
    lines = _upper_text(view)
    if view.rows:
        lines += _rows_text(view, NOTE_OVERLAPS)
    if view.advice:
        lines.append(ADVICE)
        lines += [line for advice in view.advice
                  for line in text.wrap(["- ", *spans(advice)], max_lines=NOTE_LINES)]
    return text.clamp(lines, NOTE_LINES)


def _upper_text(view: ConflictView) -> list[str]:
    lines = text.wrap(sentence(view), max_lines=2)
    you, winner = view.sides
    cells = [["", you.name, winner.name]]
    for (label, yours), (_, theirs) in zip(you.facts, winner.facts, strict=True):
        cells.append([label, plain(yours), plain(theirs)])
    lines += text.columns(cells)
    if view.checks:
        lines.append("Checks  " + _checks_text(view))
    return lines


def _checks_text(view: ConflictView) -> str:
    """The check that failed and a count of the others, as in the HTML; shorter where there is little room."""
    failed = [plain(list(spans(line))[:1]) for state, line in view.checks if state == "failed"]
    others = other_checks(view)
    line = "  ".join([*failed, *([others] if others else [])])
    is_long = len("Checks  " + line) > units.MAX_COLUMNS
    return re.sub(r"do(es)? not apply", "n/a", line) if is_long else line


def other_checks(view: ConflictView) -> str:
    """How the checks ended that did not fail: ``5 others passed or do not apply, 3 not reached``."""
    states = Counter(state for state, _ in view.checks)
    passed, idle = states["passed"], states["does not apply"]
    others = units.count(passed + idle, "other")
    does = "does not apply" if passed + idle == 1 else "do not apply"
    words = " or ".join([*(["passed"] if passed else []), *([does] if idle else [])])
    parts = [f"{others} {words}"] if words else []
    late = states["not reached"]
    return ", ".join([*parts, *([f"{units.number(late)} not reached"] if late else [])])


def _rows_text(view: ConflictView, room: int) -> list[str]:
    shown = [row for row in view.rows if row.is_met] or list(view.rows)
    shown = shown[: max(1, room)]
    left = (view.met or view.total) - len(shown)
    lines = []
    for at, row in enumerate(shown):
        start = units.pad(view.overlap if at == 0 else "", len(view.overlap) + 2)
        end = f"  and {units.number(left)} more" if left and at == len(shown) - 1 else ""
        body = units.fit(plain(row.line), units.MAX_COLUMNS - len(start) - len(end))
        lines.append(start + body + end)
    return lines


def to_html(view: ConflictView, as_text: str) -> str:
    """The HTML form: like the text, with every check and up to ``max_rows`` rows of the overlap."""
    return html.within_limit(
        lambda share: html.document(html.join(head(view), body(view, share)), as_text)
    )


def head(view: ConflictView) -> html.Markup:
    """The sentence, as the first part of the rich form."""
    name = html.tag("b", f"✕ {view.kind}", cls="dnb-warn dnb-name")
    return html.part(html.tag("p", name, " — ", html.inline(view.lines[0])))


def body(view: ConflictView, share: float) -> html.Markup:
    """The rich form below the sentence: two sides, checks, overlap, what you can do."""
    t, inline, part = html.tag, html.inline, html.part
    parts = [
        t("div", [_side(side) for side in view.sides], cls="dnb-sides"),
    ]
    if view.checks:
        parts.append(_checks(view))
    if view.rows:
        parts.append(part(_overlap_table(view, share), cls="dnb-flush dnb-scroll"))
    if view.advice:
        lines = [t("li", inline(line)) for line in view.advice]
        parts.append(part(t("details", t("summary", t("b", ADVICE)), t("ul", *lines),
                            open="open"), cls="dnb-soft"))
    return html.join(parts)


def _checks(view: ConflictView) -> html.Markup:
    """The check that failed; all checks, in their order, unfold below it."""
    t, inline = html.tag, html.inline
    failed = [t("p", inline(line)) for state, line in view.checks if state == "failed"]
    others = other_checks(view)
    if not others:
        return html.part(t("b", "Checks"), *failed)
    steps = [t("li", inline(line)) for _, line in view.checks]
    fold = t("details", t("summary", others, cls="dnb-muted"), t("ol", *steps), cls="dnb-rest")
    return html.part(t("b", "Checks"), *failed, fold)


def _side(side: Side) -> html.Markup:
    t = html.tag
    rows = [(t("dt", name), t("dd", html.inline(value))) for name, value in side.facts]
    head = t("p", t("b", side.name), " ", t("span", html.inline(side.note), cls="dnb-muted"))
    return t("div", head, t("dl", *rows), cls="dnb-side")


def _overlap_table(view: ConflictView, share: float) -> html.Markup:
    t = html.tag
    shown = view.rows[: html.limit_of(share)]
    note = f": {units.count(view.met, 'action')} in conflict" if view.met else ": nothing met"
    if view.overlap == "Differences":
        note = f": {view.met} of {units.count(view.total, 'change')} cannot be adopted"
    left = _left_out(view, shown)
    foot = t("tfoot", t("tr", t("td", left, colspan=str(len(view.columns))))) if left else None
    return t(
        "table",
        t("caption", t("b", view.overlap), t("span", note, cls="dnb-muted")),
        t("thead", t("tr", [t("th", name, scope="col") for name in view.columns])),
        t("tbody", [
            t("tr", [t("td", html.inline(cell)) for cell in row.cells],
              cls="dnb-mark" if row.is_met else "")
            for row in shown
        ]),
        foot,
        cls="dnb-over dnb-two" if view.overlap == "Overlap" else "dnb-over",
    )


def _left_out(view: ConflictView, shown: Sequence[Row]) -> str:
    """``and 312 more in conflict, and 8 others``; empty when all rows are shown."""
    shown_met = sum(row.is_met for row in shown)
    left = {"more in conflict": view.met - shown_met,
            "others": view.total - len(shown) - (view.met - shown_met)}
    return ", ".join(f"and {units.number(n)} {words}" for words, n in left.items() if n > 0)
