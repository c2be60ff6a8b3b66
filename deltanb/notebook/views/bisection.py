"""Where a statement stopped holding: the first bad version, its commit, who raced there, and what was asked.

What lives here: the view of ``Bisection``.
What it does not know: how places are chosen and asked (``observe/bisect``).
"""

from __future__ import annotations

from typing import Any

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
    warn,
)
from deltanb.observe.tracks import predicate_of, writer_of
from deltanb.options import options
from deltanb.text import formatting as units

METHODS = {"halves": "by halves", "linear": "in order"}
MAX_NOTES = 4  # lines under the heading
SIGNS = {True: "✓ holds", False: "✕ does not hold", None: "– cannot tell"}
OUTCOMES = {"failed": warn, "would fail": warn, "passed": ok}


def view(bisection: Any) -> View:
    """The view of a :class:`~deltanb.observe.bisect.bisection.Bisection`."""
    many = "places" if bisection.num_places != 1 else "place"
    if isinstance(bisection.start, int):
        many = many.replace("place", "version")
    span = f"{units.number(bisection.reads)} of {units.number(bisection.num_places)} {many} read"
    lines: list[Inline] = [[code(bisection.invariant), " ", _sentence(bisection)]]
    lines += [muted(note) for note in bisection.notes[:MAX_NOTES]]
    if len(bisection.notes) > MAX_NOTES:
        lines.append(muted(f"and {units.count(len(bisection.notes) - MAX_NOTES, 'more note')}"))
    return View("Bisection", ", ".join(bisection.tables), (_verdict(bisection), span), tuple(lines),
                present(*(make(bisection) for make in (_commits, _meetings, _flips, _trials))))


def _verdict(bisection: Any) -> Inline:
    if bisection.verdict == "holds":
        return ok("✓ holds")
    if bisection.verdict == "stopped":
        return warn(f"✕ since {_short(bisection.first_bad)}")
    if bisection.verdict == "broken at or before":
        return warn(f"✕ at or before {_short(bisection.first_bad)}")
    return (warn if bisection.first_bad is not None else muted)(f"✕ {bisection.verdict}")


def _sentence(bisection: Any) -> Inline:
    good, bad = bisection.last_good, bisection.first_bad
    start, end = _short(bisection.start), _short(bisection.end)
    match bisection.verdict:
        case "holds":
            return f"holds at {_short(good)}, the last asked that can tell" if good != bisection.end else \
                f"holds from {start} to {end} as far as it was asked"
        case "broken from the start":
            return f"does not hold at {_short(bad)}, with which the history begins"
        case "broken at or before":
            return f"does not hold at {_short(bad)}, the first asked that can tell: it broke there or before"
        case "in a range":
            return (f"holds last at {_short(good)} and is broken at {_short(bad)}: one of "
                    f"{units.number(len(bisection.candidates))} broke it")
        case "stopped":
            return f"holds last at {_short(good)} and is broken at {_short(bad)}"
    return f"was asked from {start} to {end} and gave no answer"


def _short(place: Any) -> str:
    """A place in few words: its version, its transaction or its time."""
    if isinstance(place, int):
        return f"v{place}"
    if place.transaction is not None:
        return f"transaction {units.number(place.transaction)}"
    return str(place).split(" ", 1)[0]


def _commits(bisection: Any) -> Section | None:
    """The commit, or those of a transaction of several tables."""
    commits = list(bisection.commits.items())
    if not commits:
        return None
    rows = tuple(_commit(name, entry) for name, entry in commits[: options.max_rows])
    columns = ("table", "version", "operation", "writer", "time", "condition")
    named = ", ".join(f"{units.clean(name)} v{entry.version}" for name, entry in commits[:3])
    more = f" and {units.number(len(commits) - 3)} more" if len(commits) > 3 else ""
    first = commits[0][1]
    summary = [f"{named}{more}: ", Span(_operation(first), strong=True), f" by {_writer(first)} ",
               muted(units.time(first.timestamp))]
    return Section("Commit", summary, Table(columns, rows, len(commits), "table"), is_open=True)


def _commit(name: str, entry: Any) -> tuple[Inline, ...]:
    predicate = predicate_of(entry.operation_parameters)
    return (units.clean(name), f"v{entry.version}", Span(_operation(entry), "fixed"), _writer(entry),
            Span(units.time(entry.timestamp), "fixed"), code(predicate) if predicate else muted("–"))


def _operation(entry: Any) -> str:
    return units.clean(entry.operation or "not recorded")


def _writer(entry: Any) -> str:
    return writer_of(entry.user_name, entry.engine_info)


def _meetings(bisection: Any) -> Section | None:
    met = [(name, meeting) for name, meetings in bisection.meetings.items() for meeting in meetings]
    if not met:
        return None
    rows = tuple(_meeting(name, meeting) for name, meeting in met[: options.max_rows])
    columns = ("landed first", "ran meanwhile", "outcome", "rule", "table")
    table = Table(columns, rows, len(met), "meeting", text_columns=columns[:-1])
    summary = muted(units.count(len(met), "pair of commits", "pairs of commits"))
    return Section("Raced there", summary, table, is_open=True, text_rows=True)


def _meeting(name: str, meeting: Any) -> tuple[Inline, ...]:
    outcome = OUTCOMES.get(meeting.outcome, muted)(meeting.outcome)
    return (_contender(meeting.winner), _contender(meeting.loser), outcome, meeting.rule or "–",
            units.clean(name))


def _contender(one: Any) -> Inline:
    at = "failed" if one.version is None else f"v{one.version}"
    return f"{at} {units.clean(one.operation)} by {units.clean(one.writer)}"


def _flips(bisection: Any) -> Section | None:
    if len(bisection.flips) < 2:
        return None
    rows = tuple((_short(place), _answer(holds)) for place, holds in bisection.flips[: options.max_rows])
    table = Table(("from", "it"), rows, len(bisection.flips), "change")
    summary = ", ".join(f"{_short(place)} {plain(_answer(holds))}" for place, holds in bisection.flips[:3])
    more = f" and {units.number(len(bisection.flips) - 3)} more" if len(bisection.flips) > 3 else ""
    return Section("Changes", muted(summary + more), table)


def _answer(holds: bool | None) -> Inline:
    return (muted if holds is None else ok if holds else warn)(SIGNS[holds])


def _trials(bisection: Any) -> Section:
    silent = len(bisection.skipped)
    summary = METHODS.get(bisection.method, bisection.method)
    if silent:
        summary += f"; {units.number(silent)} cannot tell: {bisection.skipped[0].reason}"
    rows = tuple((Span(str(trial.at) if not isinstance(trial.at, int) else f"v{trial.at}", "fixed"),
                  _answer(trial.holds), trial.reason or muted("–"))
                 for trial in bisection.trials[: options.max_rows])
    table = Table(("at", "answer", "reason"), rows, len(bisection.trials), "place")
    return Section("Asked", muted(summary), table)
