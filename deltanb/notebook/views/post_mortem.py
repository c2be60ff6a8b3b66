"""Why a job failed: the verdict, whether rows met, what would have let it pass, and what that rests on.

What lives here: the view of ``PostMortem``, its text, and all of it as plain lines for the command line.
What it does not know: how any of it is found out (``observe/post_mortem``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltanb.notebook.drawing import text
from deltanb.notebook.views.conflict import check_line
from deltanb.notebook.views.model import (
    Inline,
    Section,
    Span,
    Table,
    View,
    code,
    muted,
    ok,
    plain,
    present,
    spans,
    warn,
)
from deltanb.observe.post_mortem.report import ENDED, SOURCES, in_words
from deltanb.options import options
from deltanb.text import formatting as units

SIGNS = {"proved": "✗", "possible": "?", "unexplained": "?"}
INFERRED = "? inferred"
"""The mark of what may be wrong; a person reads it in every form."""
OUTCOMES = {"ended it": "✗ ended it", "would have ended it": "? would have ended it", "passed": "✓ passed",
            "unreadable": "unreadable", "not checked": "–"}
REMEDIES = "What would have let it pass"
MAX_VERDICT_LINES = 3
MAX_FACTS = 30  # of a job: more than there are names of
MAX_CONDITION = 200  # characters of a fact's value; the argument is at hand


def view(pm: Any) -> View:
    """The view of a :class:`~deltanb.observe.post_mortem.report.PostMortem`."""
    tone = warn if pm.certainty == "proved" else muted
    marks: list[Inline] = [tone(f"{SIGNS[pm.certainty]} {pm.certainty}")]
    if pm.winner is not None:
        marks.append(f"v{pm.winner.version} won")
    if pm.rule:
        marks.append(["rule ", code(pm.rule)])
    return View("Post-mortem", pm.table, tuple(marks), (pm.verdict, _rows(pm)),
                present(_remedies(pm), _job(pm), _winners(pm), _files(pm), _checks(pm), _before(pm),
                        _remarks(pm)))


def to_text(shown: View) -> str:
    """The view as text: the verdict on as many lines as it needs, a line for each change that fits."""
    lines: list[Inline] = [*text.wrap(shown.lines[0], MAX_VERDICT_LINES), *shown.lines[1:]]
    changes = next((one for one in shown.sections if one.heading == REMEDIES), None)
    others = tuple(one for one in shown.sections if one is not changes)
    if changes is not None and changes.table is not None:
        still = sum(not one.is_detail for one in others)
        rows, total = changes.table.rows, changes.table.total
        room = max(1, text.MAX_LINES - len(lines) - still - 2)  # the first line, and the heading
        room = room if total <= room else room - 1
        lines += [[f"{REMEDIES}: ", *spans(changes.summary)], *([f"  {plain(row[0])[0]} ", *spans(row[1])]
                                                                for row in rows[:room])]
        left = total - min(room, len(rows))
        lines += [f"  … {units.count(left, 'more change')}"] if left else []
    return text.render(View(shown.kind, shown.name, shown.marks, tuple(lines), others))


def listing(pm: Any) -> str:
    """All of it in full, as lines of any length."""
    shown = view(pm)
    lines = ["  ".join([f"{shown.kind} {shown.name}", *map(plain, shown.marks)]), *map(plain, shown.lines)]
    for section in shown.sections:
        lines += ["", section.heading]
        table = section.table
        lines += ["  " + "  ".join(part for part in map(plain, row) if part) for row in table.rows] \
            if table is not None else [f"  {plain(section.summary)}"]
        if table is not None and table.total > len(table.rows):
            lines.append(f"  {units.count(table.total - len(table.rows), 'more ' + table.noun)}")
    return "\n".join(lines)


def _rows(pm: Any) -> Inline:
    met = pm.rows_met
    tone = {"yes": warn, "no": ok}.get(met.answer, muted)
    note = [muted(f" ({met.note})")] if met.note else []
    return [tone(in_words(met)), *note, "."]


def _remedies(pm: Any) -> Section | None:
    remedies = pm.would_have_passed
    if not remedies:
        return None
    rows = tuple((_certainty(one.certainty), one.change, one.why) for one in remedies[: options.max_rows])
    summary = muted(f"{sum(one.certainty == 'proved' for one in remedies)} proved by asking the rules again")
    columns = ("certainty", "change", "why")
    table = Table(columns, rows, len(remedies), "change")
    return Section(REMEDIES, summary, table, is_open=True)


def _certainty(certainty: str) -> Span:
    return ok("✓ proved") if certainty == "proved" else muted("? possible")


def _job(pm: Any) -> Section | None:
    if not pm.facts:
        return None
    rows = tuple((fact.name, _value(fact), [muted(INFERRED), f": {fact.why}"] if fact.is_inferred
                  else SOURCES[fact.source]) for fact in pm.facts[:MAX_FACTS])
    known = {fact.name: fact for fact in pm.facts}
    short = [f"{name} {plain(_value(known[name]))}{' (inferred)' if known[name].is_inferred else ''}"
             for name in ("operation", "predicate", "read version", "started", "writer") if name in known]
    table = Table(("what", "value", "from"), rows, len(pm.facts), "fact", limit=MAX_FACTS)
    return Section("The job", muted(", ".join(short) or "nothing but its text is known"), table, is_open=True)


def _value(fact: Any) -> Inline:
    if fact.name == "started":
        return units.time(fact.value)
    if fact.name in ("read version", "winner"):
        return f"v{fact.value}" if fact.value >= 0 else "none: there was no table yet"
    if fact.name == "predicate":
        return code(units.fit(units.with_short_lists(fact.value), MAX_CONDITION))
    return str(fact.value)


def _winners(pm: Any) -> Section | None:
    if not pm.winners:
        return None
    shown = _around(pm.winners, options.max_rows)
    rows = tuple(_winner(one) for one in shown)
    columns = ("version", "operation", "by", "when", "files", "outcome")
    table = Table(columns, rows, pm.num_winners, "winner",
                  marked=frozenset(at for at, one in enumerate(shown) if one is pm.winner))
    unreadable = sum(one.outcome == "unreadable" for one in pm.winners)
    note = f", {unreadable} unreadable" if unreadable else ""
    ended = f", v{pm.winner.version} {pm.winner.outcome}" if pm.winner is not None else ""
    summary = f"{units.count(pm.num_winners, 'commit')} after the version read{ended}{note}"
    return Section("Winners", muted(summary), table, is_open=True)


def _around(winners: Sequence[Any], limit: int) -> Sequence[Any]:
    """The last winners up to the one that ended it, as many as are shown."""
    at = next((at for at, one in enumerate(winners) if one.rule or one.outcome in ENDED), len(winners) - 1)
    first = max(0, min(at - limit + 1, len(winners) - limit))
    return winners[first:first + limit]


def _winner(one: Any) -> tuple[Inline, ...]:
    tone = warn if one.outcome == "ended it" else ok if one.outcome == "passed" else muted
    outcome: list[str | Span] = [tone(OUTCOMES[one.outcome])]
    outcome += [" by the rule ", code(one.rule)] if one.rule else []
    outcome += [muted(f" ({one.note})")] if one.note else []
    files = "–" if one.outcome == "unreadable" else f"+{one.num_added} −{one.num_removed}"
    return (Span(f"v{one.version}", "fixed"), one.operation or "–", one.writer or "–",
            Span(units.time(one.timestamp), "fixed") if one.timestamp is not None else "–", files, outcome)


def _files(pm: Any) -> Section | None:
    met = pm.rows_met
    if not met.files:
        return None
    rows = tuple((Span("+" if one.action == "add" else "−", "append" if one.action == "add" else "delete"),
                  code(units.file_name(one.path)), units.pairs(one.partition) or "–", _statistics(one),
                  "not read" if one.rows is None else units.number(one.rows))
                 for one in met.files[: options.max_rows])
    table = Table(("did", "file", "partition", "statistics", "rows that meet"), rows, met.num_files, "file")
    return Section("Files that met", muted(units.count(met.num_files, "file")), table, is_detail=True)


def _statistics(one: Any) -> str:
    return "–" if one.statistics is None else "may meet" if one.statistics else "cannot meet"


def _checks(pm: Any) -> Section | None:
    winner = pm.winner
    if winner is None or not winner.checks:
        return None
    rows = tuple((check_line(check), muted(check.note)) for check in winner.checks)
    failed = next((check for check in winner.checks if check.state == "failed"), None)
    return Section("Checks", muted(failed.title if failed is not None else "none failed"),
                   Table(("rule", "note"), rows, len(rows), "rule", limit=len(rows)), is_detail=True)


def _before(pm: Any) -> Section | None:
    met = pm.met_before
    if met is None:
        return None
    likely = met.likeliest
    when = ""
    if likely is not None:
        hour, times = likely
        often = "most often" if met.meetings else "likeliest"
        when = f", {often} from {hour:02d}:00 to {(hour + 1) % 24:02d}:00 UTC ({times})"
    note = f" ({met.note})" if met.note else ""
    summary = (f"{met.pair[0]} and {met.pair[1]}: {units.count(met.meetings, 'time')} in "
               f"{units.count(met.num_commits, 'commit')}, {met.lost} lost{when}{note}")
    rows = tuple((f"{hour:02d}:00", units.number(count)) for hour, count in sorted(met.hours.items()))
    table = Table(("hour (UTC)", "times"), rows, len(rows), "hour", limit=24) if rows else None
    return Section("Met before", summary, table)


def _remarks(pm: Any) -> Section | None:
    if not pm.remarks:
        return None
    rows = tuple((remark,) for remark in pm.remarks[: options.max_rows])
    table = Table(("remark",), rows, len(pm.remarks), "remark")
    return Section("Remarks", muted(pm.remarks[0]), table, is_open=True)
