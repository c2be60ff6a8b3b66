"""What writers can do to each other: the outcomes as a grid, and the shortest order that breaks an invariant.

What lives here: the views of ``Exploration`` and ``LevelComparison``.
What it does not know: how orders are explored (``observe/explore``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, present, warn
from deltanb.options import options
from deltanb.text import formatting as units

TONES: dict[str, Callable[[str], Inline]] = {"commits": ok, "fails": warn, "reads": str, "goes on": str}
"""How what came of a turn is written."""
MAX_COLUMNS = 5
"""Writers that have a column each; of more, an outcome is a sentence."""
MAX_ORDER = 12
"""Turns of an order that are named in a line."""
MAX_FIELDS, MAX_VALUE, MAX_SUMMARY = 8, 24, 60
"""Columns of the table that are shown, characters of a value, and of the rows in one line."""
MAX_TURNS = 40
"""Turns of an order that are shown in a table."""


def view(exploration: Any) -> View:
    """The view of an :class:`~deltanb.observe.explore.exploration.Exploration`."""
    many = f"{units.number(exploration.num_orders)} {'order' if exploration.num_orders == 1 else 'orders'}"
    marks: list[Inline] = [
        many + (" drawn" if exploration.is_sampled else ""),
        f"{units.count(len(exploration.outcomes), 'outcome')}", exploration.isolation]
    lines: list[Inline] = [*_invariant(exploration)]
    if exploration.left_out:
        lines.append((muted if exploration.is_sampled else warn)(exploration.left_out))
    return View("Exploration", exploration.table, tuple(marks), tuple(lines),
                present(_outcomes(exploration), _broken(exploration), _order(exploration)))


def _invariant(exploration: Any) -> list[Inline]:
    if not exploration.invariant:
        return []
    if exploration.holds:
        where = "in every order that was drawn" if exploration.is_sampled else "in every order"
        return [[code(exploration.invariant), " ", ok(f"✓ holds {where}")]]
    times = units.count(len(exploration.violations), "state")
    return [[code(exploration.invariant), " ", warn(f"✕ does not hold in {times}")]]


def _outcomes(exploration: Any) -> Section:
    names = exploration.writers
    is_grid = len(names) <= MAX_COLUMNS
    columns = ("orders", *(names if is_grid else ("outcome",)), "rows")
    if exploration.invariant:
        columns += ("at the end",)
    shown = exploration.outcomes[: options.max_rows]
    rows = tuple(_row(exploration, one, is_grid) for one in shown)
    marked = frozenset(at for at, one in enumerate(shown) if one.holds is False)
    summary = muted("✓ committed, ✕ the rule or error that ended it, – had nothing to commit")
    table = Table(columns, rows, len(exploration.outcomes), "outcome", marked=marked)
    return Section("Outcomes", summary, table, is_open=True, text_rows=True)


def _row(exploration: Any, outcome: Any, is_grid: bool) -> tuple[Inline, ...]:
    ended: tuple[Inline, ...] = (str(outcome),)
    if is_grid:
        ended = tuple(_sign(outcome, name) for name in exploration.writers)
    tables = list(outcome.rows.values()) if isinstance(outcome.rows, dict) else [outcome.rows]
    many = muted("many") if None in tables else units.number(sum(one.num_rows for one in tables))
    holds = () if outcome.holds is None else (ok("✓ holds") if outcome.holds else warn("✕ does not hold"),)
    return (units.number(outcome.orders), *ended, many, *holds)


def _sign(outcome: Any, name: str) -> Inline:
    """How a writer ended in an outcome."""
    commits = outcome.commits[name]
    times = f" {units.number(commits)}" if commits > 1 else ""
    if name in outcome.failed:
        after = f" after {units.count(commits, 'commit')}" if commits else ""
        return warn(f"✕ {outcome.rules.get(name, outcome.failed[name])}{after}")
    return ok(f"✓{times}") if commits else muted("–")


def _broken(exploration: Any) -> Section | None:
    if not exploration.violations:
        return None
    first = exploration.violations[0]
    order = ", ".join(first.order[:MAX_ORDER]) or "of nobody: it is so from the start"
    if len(first.order) > MAX_ORDER:
        order += f" and {units.count(len(first.order) - MAX_ORDER, 'more turn')}"
    summary = [f"{first.place}, by the order {order} ", muted(f"(number {first.number})")]
    return Section("Breaks", summary, _turns(first.turns), is_open=True)


def _order(exploration: Any) -> Section | None:
    """One order of the most frequent outcome, where nothing is broken."""
    if exploration.violations or not exploration.outcomes:
        return None
    first = exploration.outcomes[0]
    return Section("Order", muted(f"one of the most frequent outcome; replay({first.number})"),
                   _turns(first.turns), is_detail=True)


def _turns(turns: Any) -> Table:
    rows = tuple((units.number(at), turn.writer, _did(turn), turn.place, turn.operation or muted("–"))
                 for at, turn in enumerate(turns[:MAX_TURNS], 1))
    columns = ("turn", "writer", "what", "version", "operation")
    return Table(columns, rows, len(turns), "turn", limit=MAX_TURNS)


def moment(moment: Any) -> View:
    """The view of a :class:`~deltanb.observe.explore.play.Moment`: the turns, a column for each writer, and
    the rows then."""
    total = len(moment.turns)
    marks = (f"turn {units.number(moment.at)} of {units.number(total)}", muted(f"number {moment.number}"))
    words = "before the first turn" if moment.turn is None else str(moment.turn)
    sections = [_lanes(moment)]
    tables = moment.rows if isinstance(moment.rows, dict) else {"Rows": moment.rows}
    sections += [_rows(name, rows) for name, rows in tables.items()]
    return View("Order", moment.table, marks, (words,), tuple(sections))


def play(play: Any) -> View:
    """The view of a :class:`~deltanb.observe.explore.play.Play`: of its moment."""
    return moment(play.moment)


def _lanes(moment: Any) -> Section:
    """The turns around the one that is shown; those to come are grey."""
    first = max(0, min(moment.at - MAX_TURNS // 2, len(moment.turns) - MAX_TURNS))
    shown = list(enumerate(moment.turns[first:first + MAX_TURNS], first + 1))
    is_grid = len(moment.writers) <= MAX_COLUMNS
    columns = ("", "turn", *(moment.writers if is_grid else ("writer", "what")))
    rows = []
    for at, turn in shown:
        does = _does(turn) if at <= moment.at else muted(turn.in_short)
        cells = tuple(does if name == turn.writer else "" for name in moment.writers) if is_grid else (
            turn.writer, does)
        rows.append(("▶" if at == moment.at else "", units.number(at), *cells))
    marked = frozenset(place for place, (at, _) in enumerate(shown) if at == moment.at)
    table = Table(columns, tuple(rows), len(moment.turns), "turn", limit=MAX_TURNS, marked=marked)
    return Section("Turns", muted("one after the other; each writer in its column"), table, is_open=True,
                   text_rows=True)


def _rows(name: str, rows: Any) -> Section:
    if rows is None:
        return Section(name, muted("more than are shown here"))
    names, cells = first_cells(rows, options.max_rows)
    some = ", ".join(f"({', '.join(row)})" for row in cells)
    summary = [units.count(rows.num_rows, "row"), muted(f": {units.fit(some, MAX_SUMMARY)}" if some else "")]
    return Section(name, summary, Table(names, cells, rows.num_rows), is_open=True)


def first_cells(rows: Any, limit: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The first columns of the first rows, as short texts."""
    names = rows.column_names[:MAX_FIELDS]
    some = rows.slice(0, limit).select(names).to_pylist()
    return tuple(map(units.clean, names)), tuple(
        tuple(units.fit(units.clean(str(row[name])), MAX_VALUE) for name in names) for row in some)


def _does(turn: Any) -> Inline:
    return TONES[turn.did](f"{turn.sign} {turn.in_short}".strip())


def _did(turn: Any) -> Inline:
    words = f"{turn.did}: {turn.rule}" if turn.rule else turn.did
    return TONES[turn.did](f"{turn.sign} {words}".strip())


def comparison(comparison: Any) -> View:
    """The view of a :class:`~deltanb.observe.explore.exploration.LevelComparison`: outcomes by level."""
    levels = list(comparison.explorations)
    counts: dict[str, dict[str, int]] = {}
    for level, one in comparison.explorations.items():
        for outcome in one.outcomes[: options.max_rows]:
            by_level = counts.setdefault(str(outcome), {})
            by_level[level] = by_level.get(level, 0) + outcome.orders
    rows = tuple((words, *(_share(by_level.get(level, 0), comparison.explorations[level].num_orders)
                           for level in levels)) for words, by_level in counts.items())
    lines: list[Inline] = [
        [Span(level, strong=True), ": ", units.count(len(one.outcomes), "outcome"), *_verdict(one)]
        for level, one in comparison.explorations.items()]
    table = Table(("outcome", *levels), rows, len(rows), "outcome")
    summary = muted("orders that end so")
    return View("Comparison", comparison.table, (units.count(len(levels), "level"),), tuple(lines),
                (Section("Grid", summary, table, is_open=True, text_rows=True),))


def _share(orders: int, total: int) -> Inline:
    if not orders:
        return muted("–")
    return f"{units.number(orders)} of {units.number(total)}"


def _verdict(exploration: Any) -> list[Inline]:
    if not exploration.invariant:
        return []
    holds = exploration.holds
    return [", ", ok("✓ the invariant holds") if holds else warn("✕ the invariant does not hold")]
