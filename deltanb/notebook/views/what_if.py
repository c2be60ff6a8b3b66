"""What would have happened: a history under other rules as a grid, and an open transaction before its commit.

What lives here: the views of ``Replay`` and ``Explanation``.
What it does not know: rules and logs; the answers come with the objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from deltanb.notebook.views import conflict
from deltanb.notebook.views.conflict import SIGNS, check_line, counted
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, muted, ok, warn
from deltanb.observe.what_if import AS_RECORDED
from deltanb.options import options
from deltanb.text import formatting as units

NO_BREAK = "\u00a0"
MAX_UNBROKEN = 24  # characters of a writer's name that stay on one line
MAX_DAMAGED = 5  # versions named
FIRST_ROWS = 3  # versions that surely have room in the text form


def replay(replay: Any) -> View:
    """The view of a :class:`~deltanb.observe.what_if.Replay`: a sentence per level, then the grid."""
    lost = sum(row.version is None and not row.is_elsewhere for row in replay.rows)
    elsewhere = sum(row.is_elsewhere for row in replay.rows)
    raced = sum(row.version is not None and row.read_version is not None for row in replay.rows)
    marks: list[Inline] = [units.count(replay.total, "commit"), f"{units.number(raced)} raced"]
    if lost:
        marks.append(f"{units.number(lost)} failed in this session")
    if elsewhere:
        marks.append(f"{units.number(elsewhere)} failed in others")
    if replay.without:
        marks.append(f"without {', '.join(replay.without)}")
    lines: list[Inline] = []
    if replay.row_level or replay.partition_by:
        lines.append(["supposed: ", Span(", ".join(_suppositions(replay)), strong=True)])
    if replay.damaged:
        some = ", ".join(f"v{version}" for version in replay.damaged[:MAX_DAMAGED])
        more = len(replay.damaged) - MAX_DAMAGED
        lines.append(warn(f"damaged, and left out: {some}{f' and {more} more' if more > 0 else ''}"))
    if not replay.rows:
        lines.append("no commit raced another, so no rule could have ended one")
        return View("What if", replay.table, tuple(marks), tuple(lines))
    for level, outcome in zip(replay.levels, replay.outcomes, strict=True):
        lines.append([Span(level or AS_RECORDED, strong=True), ": ", *_outcome_words(outcome)])
    if replay.outcomes[0].assumed:
        lines.append(muted("* what it read is not recorded whole: more may fail here than would have"))
    if any(outcome.doubtful for outcome in replay.outcomes):
        lines.append(muted("✕ … ?: it may have passed after all: not enough is known about the files"))
    if replay.cut_off:
        lines.append(muted(f"{units.count(len(replay.cut_off), 'commit')} met so many others that only the "
                           "nearest ones were checked"))
    return View("What if", replay.table, tuple(marks), tuple(lines), tuple(_sections(replay)))


def _suppositions(replay: Any) -> list[str]:
    words = [f"row-level concurrency by {replay.row_level}"] if replay.row_level else []
    if replay.row_level in ("off", "all"):
        words = [f"row-level concurrency: {replay.row_level}"]
    return [*words, *([f"partitions by {', '.join(replay.partition_by)}"] if replay.partition_by else [])]


TONES: dict[str, Callable[[str], Inline]] = {"fails": warn, "passes": ok, "same": str, "unknown": muted}


def _outcome_words(outcome: Any) -> list[Inline]:
    """The outcome of the commits under one level."""
    parts = [TONES[kind](words) for kind, words in outcome.words]
    return [part for one in parts for part in (", ", one)][1:]


def _sections(replay: Any) -> list[Section]:
    rows = replay.by_interest
    levels = tuple(level or AS_RECORDED for level in replay.levels)
    columns = ("commit", "read", "operation", "writer", *levels, "what it read")
    shown = tuple(_cells(row) for row in rows[: options.max_rows])
    table = Table(columns, shown, len(rows), "row", ("commit", "operation", *levels))
    summary = muted("✓ would have committed, ✕ the rule that would have ended it")
    sections = [Section("Grid", summary, table, is_open=True, text_rows=True)]
    reasons = _reasons(rows, levels)
    if reasons:
        why = Table(("commit", "under", "why"), tuple(reasons), len(reasons), "reason")
        sections.append(Section("Why", muted("in a sentence each"), why, is_detail=True))
    return sections


def _cells(row: Any) -> tuple[Inline, ...]:
    read = "–" if row.read_version is None else f"v{row.read_version}"
    return (_name(row), read, Span(row.operation, "fixed"), _writer(row),
            *(_sign(verdict) for verdict in row.verdicts), row.reads or muted("–"))


def _name(row: Any) -> Inline:
    if row.version is None:
        return Span(f"failed at v{row.attempted}", "fixed")
    return f"v{row.version}" + ("*" if row.is_assumed else "")


def _writer(row: Any) -> Inline:
    name = row.writer or ""
    if not name:
        return muted("–")
    return Span(name, "fixed") if len(name) <= MAX_UNBROKEN else str(name)


def _sign(verdict: Any) -> Inline:
    if verdict.unknown:
        return muted("? not known")
    doubt = " ?" if verdict.doubts else ""
    return ok("✓") if verdict.passed else warn(f"✕ {verdict.rule}{doubt}".replace(" ", NO_BREAK))


def _reasons(rows: Sequence[Any], levels: Sequence[str]) -> list[tuple[Inline, ...]]:
    """One line for each commit and reason, with all levels it holds for."""
    reasons: list[tuple[Inline, ...]] = []
    for row in rows:
        by_reason: dict[int, tuple[list[str], Any]] = {}
        for level, verdict in zip(levels, row.verdicts, strict=True):
            if not verdict.passed:
                by_reason.setdefault(id(verdict), ([], verdict))[0].append(level)
        for under, verdict in by_reason.values():
            reasons.append((_name(row), ", ".join(under), _why(verdict)))
            if len(reasons) == options.max_rows:
                return reasons
    return reasons


def _why(verdict: Any) -> Inline:
    if verdict.unknown:
        return str(verdict.unknown)
    if verdict.conflict is None:
        return str(verdict.error)
    why = conflict.what_happened(verdict.conflict, names_table=False)
    return [*why, muted(f" (perhaps not: {'; '.join(verdict.doubts)})")] if verdict.doubts else why


# ---------------------------------------------------------------------------- before the commit


def explanation(explained: Any) -> View:
    """The view of an :class:`~deltanb.observe.what_if.Explanation`: a row for each version since."""
    since = units.count(len(explained.rows), "version")
    marks: list[Inline] = [f"read v{explained.read_version}" if explained.read_version >= 0
                           else "no table before"]
    if explained.ok:
        marks.insert(0, ok(f"✓ would commit as v{explained.version}"))
    else:
        marks.insert(0, warn(f"✕ would fail at v{explained.version}"))
    if explained.rows:
        marks.append(f"{since} since")
    lines: list[Inline] = [f"{explained.operation}  {explained.isolation}"]
    if explained.is_empty:
        lines = [[explained.isolation, "  ",
                  muted("nothing to write yet: judged by its reads, as if it changed data")]]
    if explained.conflict is not None:
        lines.append(conflict.what_happened(explained.conflict, names_table=False))
    elif explained.error is not None:
        lines.append(warn(f"{type(explained.error).__name__}: {explained.error}".split("\n", 1)[0]))
    elif not explained.rows:
        lines.append("nothing has landed since it read the table")
    return View("Before the commit", explained.table, tuple(marks), tuple(lines),
                tuple(_explained(explained)))


def _explained(explained: Any) -> list[Section]:
    sections = []
    if explained.rows:
        order = list(explained.rows)
        if any(row.rule for row in order[FIRST_ROWS:]):  # the one that counts must be in sight
            order.sort(key=lambda row: not row.rule)
        rows = tuple((f"v{row.version}", Span(row.operation, "fixed"), _writer(row),
                      counted(row.actions), _verdict(row)) for row in order[: options.max_rows])
        table = Table(("version", "operation", "writer", "changes", "verdict"), rows,
                      len(explained.rows), "version")
        sections.append(Section("Since", muted("each checked against the rules, in order"), table,
                                is_open=True, text_rows=True))
    if explained.checks:
        lines = tuple((check_line(check), check.note or muted("–")) for check in explained.checks)
        checked = Table(("check", "note"), lines, len(lines), "check")
        states = Counter(check.state for check in explained.checks)
        words = "  ".join(f"{SIGNS[state]} {_how_many(states[state], state)}"
                          for state in SIGNS if states[state])
        sections.append(Section("Checks", words, checked))
    if explained.conflict is not None and explained.conflict.advice:
        first, *more = explained.conflict.advice
        unfolded = Table(("advice",), tuple((conflict.marked_up(line),) for line in (first, *more)),
                         1 + len(more), "way", limit=None)
        sections.append(Section(conflict.ADVICE, conflict.marked_up(first), unfolded if more else None))
    return sections


def _how_many(n: int, state: str) -> str:
    """A number with its state.

    >>> _how_many(1, "does not apply"), _how_many(2, "does not apply")
    ('1 does not apply', '2 do not apply')
    """
    return f"{n} {state if n == 1 else state.replace('does', 'do', 1)}"


def _verdict(row: Any) -> Inline:
    if row.rule:
        failed = next(check for check in row.checks if check.state == "failed")
        return warn(f"✕ {failed.title}" + (f" ({failed.note})" if failed.note else ""))
    return ok("✓ no conflict") if row.is_checked else muted("– not reached")
