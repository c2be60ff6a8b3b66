"""What writers can do to each other: the outcomes as a grid, and the shortest order that breaks an invariant.

What lives here: the views of ``Exploration`` and ``LevelComparison``.
What it does not know: how orders are explored (``observe/explore``).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltanb.notebook.drawing import html, state_graph, text
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
from deltanb.observe.explore.exploration import TABLES_OWN
from deltanb.options import options
from deltanb.text import formatting as units

MAX_COLUMNS = 5
"""Writers that have a column each; of more, an outcome is a sentence."""
MAX_NAMES = 8
"""Writers that an outcome names where it is a sentence."""
MAX_FIELDS, MAX_VALUE, MAX_SUMMARY = 8, 24, 60
"""Columns of the table that are shown, characters of a value, and of the rows in one line."""
MAX_OWN = 4
"""Rows of an outcome that are shown to tell it apart from others."""
MAX_COMPARED = 1000
"""Rows of a table at most that are gone through for that."""
MAX_TURNS = 40
"""Turns of an order that are shown in a table."""
TURNS, BROKEN = "Turns", "✕ the invariant does not hold here"
SHEETS = ("exploration.css",)


@dataclass(frozen=True)
class Pictured(Section):
    """A section whose table is a picture: states, and the way of an order after some turns."""

    states: tuple[Any, ...] = ()
    path: tuple[int, ...] = ()
    at: int = 0


@dataclass(frozen=True)
class Beside(Section):
    """A section that is drawn beside the next one where there is room."""


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, then each section, states as a picture."""
    return html.within_limit(lambda share: html.document(_body(view, share), as_text, SHEETS))


def _body(view: View, share: float) -> html.Markup:
    head = View(view.kind, view.name, view.marks, view.lines)
    parts = [html.body(head, share)]
    for is_beside, some in itertools.groupby(view.sections, lambda one: isinstance(one, Beside)):
        drawn = [_drawn(one, share) for one in some]
        parts += [html.tag("div", drawn, cls="dnb-beside")] if is_beside else drawn
    return html.join(parts)


def _drawn(section: Section, share: float) -> html.Markup:
    if not isinstance(section, Pictured):
        return html.sections([section], share)
    line = html.tag("p", html.name_of(section.heading), html.tag("span", html.inline(section.summary)),
                    cls="dnb-nofold")
    if not share:
        return html.part(line)
    picture, width = drawn_states(section)
    return html.part(line, html.tag("div", picture, cls="dnb-scroll dnb-states", style=f"--w:{width:.0f}px"))


def to_text(view: View) -> str:
    """The text form of an order: of its turns those around the one that is shown."""
    at = next(place for place, one in enumerate(view.sections) if one.heading == TURNS)
    section, others = view.sections[at], sum(not one.is_detail for one in view.sections) - 1
    table = section.table
    assert table is not None
    room = text.MAX_LINES - len(view.lines) - others - len(("heading", "turns", "columns", "more"))
    now = max(table.marked, default=0)
    first = max(0, min(now - room // 2, len(table.rows) - room))
    near = replace(table, rows=table.rows[first:first + max(room, 1)])
    sections = (*view.sections[:at], replace(section, table=near), *view.sections[at + 1:])
    return text.render(replace(view, sections=sections))


def drawn_states(section: Pictured) -> tuple[html.Markup, float]:
    """The picture of a section, and its width."""
    return state_graph.draw(section.states, section.path, section.at, _sentence(section))


def _sentence(section: Pictured) -> str:
    at = f"; after {units.count(section.at, 'turn')} of the order" if section.path else ""
    return plain(section.summary) + at


def states(exploration: Any, path: Sequence[int] = (), at: int = 0) -> Pictured | None:
    """The states of an exploration, and the way of an order; None where none are drawn."""
    if not exploration.states:
        return None
    return _states(exploration.states, path, at, _part(exploration))


def _part(exploration: Any) -> str:
    """Of how many states those that are drawn are a part, and of which; nothing where all are drawn."""
    some, total = len(exploration.states), exploration.num_states
    if some == total and not exploration.is_sampled:
        return ""
    ends = {outcome for state in exploration.states for outcome in state.outcomes}
    outcomes = len(exploration.outcomes)
    which = ("each outcome" if len(ends) == outcomes
             else f"{units.number(len(ends))} of {units.count(outcomes, 'outcome')}")
    return f" of {units.number(total)}" * (some < total) + f" on the way to {which}"


def _states(some: tuple[Any, ...], path: Sequence[int], at: int, part: str = "") -> Pictured:
    what = units.count(len(some), "state") + part
    return Pictured("States", [what, muted("; turns lead to the right")], is_detail=True, states=some,
                    path=tuple(path), at=at)


def view(exploration: Any) -> View:
    """The view of an :class:`~deltanb.observe.explore.exploration.Exploration`."""
    many = units.count(exploration.num_orders, "order")
    marks: list[Inline] = [
        many + (" drawn" if exploration.is_sampled else ""),
        f"{units.count(len(exploration.outcomes), 'outcome')}", exploration.isolation]
    if exploration.row_level not in ("off", TABLES_OWN):
        marks.append(f"row level: {exploration.row_level}")
    lines: list[Inline] = [*_invariant(exploration)]
    from deltanb.observe.turns import mistakes  # what runs writers is loaded with an exploration

    lines += [warn(f"✕ {line}") for line in mistakes(
        {name: error for one in exploration.outcomes for name, error in one.errors.items()})]
    lines += [(muted if exploration.is_sampled else warn)(part)
              for part in exploration.left_out.split("; ") if part]
    return View("Exploration", exploration.table, tuple(marks), tuple(lines),
                present(_outcomes(exploration), _broken(exploration), _order(exploration),
                        _way(exploration)))


def _way(exploration: Any) -> Pictured | None:
    """The states, with the order that is shown as a table."""
    from deltanb.observe.explore.states import path_of

    first = next(iter(exploration.violations or exploration.outcomes), None)
    path = path_of(exploration, first.turns) if first is not None else ()
    return states(exploration, path, max(len(path) - 1, 0))


def _invariant(exploration: Any) -> list[Inline]:
    if not exploration.invariant:
        return []
    if exploration.holds:
        verdict = ok(f"✓ holds in every order{' that was drawn' * exploration.is_sampled}")
    else:
        verdict = warn(f"✕ breaks in {units.count(len(exploration.violations), 'way')}")
    return [[verdict, ": ", code(exploration.invariant)]]  # the verdict first: a condition may be long


def _outcomes(exploration: Any) -> Section:
    names = exploration.writers
    is_grid = len(names) <= MAX_COLUMNS
    columns = ["#", "orders", *(names if is_grid else ("outcome",)), "rows"]
    shown = exploration.outcomes[: options.max_rows]
    own = list(_own_rows(shown))
    if any(own):
        columns.append("with")
    if exploration.invariant:
        columns.append("at the end")
    rows = tuple(
        (str(at), units.number(one.orders),
         *([_sign(one, name) for name in names] if is_grid else [short(one)]), _many(one),
         *([some] if any(own) else []), *([_verdict(one.holds)] if exploration.invariant else []))
        for at, (one, some) in enumerate(zip(shown, own, strict=True), 1))
    marked = frozenset(at for at, one in enumerate(shown) if one.holds is False)
    summary = muted("✓ committed, perhaps of more tries; ✕ why it failed; – had nothing to commit")
    table = Table(tuple(columns), rows, len(exploration.outcomes), "outcome", marked=marked,
                  cut_last=("#", "orders", "rows", "at the end"))
    return Section("Outcomes", summary, table, is_open=True, text_rows=True)


def _verdict(holds: bool | None) -> Inline:
    return ok("✓ holds") if holds else warn("✕ broken")


def _many(outcome: Any) -> Inline:
    """How many rows there are at the end."""
    tables = list(outcome.rows.values()) if isinstance(outcome.rows, dict) else [outcome.rows]
    return muted("many") if None in tables else units.number(sum(one.num_rows for one in tables))


def _own_rows(outcomes: Sequence[Any]) -> Iterator[list[Inline]]:
    """For each outcome the rows at its end that not all others have at theirs: so they are told apart."""
    ends = [Counter(_cells(one.rows)) for one in outcomes]
    common = ends[0].copy() if ends else Counter()
    for end in ends:
        common &= end
    for end in ends:
        own = list((end - common).elements())
        more = len(own) - MAX_OWN
        yield _unbroken(own[:MAX_OWN]) + ([f" and {units.number(more)} more"] if more > 0 else [])


def _cells(rows: Any) -> Iterator[str]:
    """The rows of a table, or of several, in brackets; none of a table that has very many."""
    for name, table in (rows if isinstance(rows, dict) else {"": rows}).items():
        if table is not None and table.num_rows <= MAX_COMPARED:
            _, cells = first_cells(table, table.num_rows)
            yield from (f"{name} ({', '.join(row)})".strip() for row in cells)


def _sign(outcome: Any, name: str) -> Inline:
    """How a writer ended in an outcome."""
    words = _ended(outcome, name)
    return warn(words) if name in outcome.failed else ok(words) if outcome.commits[name] else muted(words)


def _ended(outcome: Any, name: str) -> str:
    """How a writer ended: with how many commits, of how many tries if not each went well, by which rule."""
    commits, (few, most) = outcome.commits[name], outcome.attempts[name]
    tries = units.number(most) if few == most else f"{units.number(few)}–{units.number(most)}"
    if name in outcome.failed:
        after = f" after {units.count(commits, 'commit')}" if commits else ""
        return f"✕ {_reason(outcome, name)}{after}" + (f" ({tries} tries)" if most > commits + 1 else "")
    if most > commits:
        return f"✓ {units.number(commits)} of {tries}" if commits else "–"
    return _short_end(outcome, name)


def _reason(outcome: Any, name: str) -> str:
    return str(outcome.rules.get(name, outcome.failed[name]))


def _short_end(outcome: Any, name: str) -> str:
    """How a writer ended, whatever it took."""
    commits = outcome.commits[name]
    times = f" {units.number(commits)}" if commits > 1 else ""
    if name in outcome.failed:
        return f"✕ {_reason(outcome, name)}" + (f" after ✓{times}" if commits else "")
    return f"✓{times}" if commits else "–"


def short(outcome: Any) -> str:
    """An outcome as one line of names and signs, those of writers that failed first."""
    names = itertools.chain(outcome.failed, (name for name in outcome.commits if name not in outcome.failed))
    some = [f"{name} {_short_end(outcome, name)}" for name in itertools.islice(names, MAX_NAMES)]
    more = len(outcome.commits) - MAX_NAMES
    return ", ".join(some + ([f"and {units.number(more)} more"] if more > 0 else []))


def _broken(exploration: Any) -> Section | None:
    from deltanb.observe.explore.exploration import in_short

    if not exploration.violations:
        return None
    first = exploration.violations[0]
    order = f"by the order {in_short(first.order)}" if first.order else "from the start, before any turn"
    summary = [f"with {first.place}, {order} ", muted(f"(number {first.number})")]
    return Section("Breaks", summary, _turns(first.turns), is_open=True)


def _order(exploration: Any) -> Section | None:
    """One order of the most frequent outcome, where nothing is broken."""
    if exploration.violations or not exploration.outcomes:
        return None
    first = exploration.outcomes[0]
    return Section("Order", muted(f"one of the most frequent outcome; replay({first.number})"),
                   _turns(first.turns), is_detail=True)


def _turns(turns: Any) -> Table:
    rows = tuple((units.number(at), turn.writer, _did(turn), turn.place,
             turn.operation or turn.lock or muted("–"))
                 for at, turn in enumerate(turns[:MAX_TURNS], 1))
    columns = ("turn", "writer", "what", "version", "operation")
    return Table(columns, rows, len(turns), "turn", limit=MAX_TURNS)


def moment(moment: Any) -> View:
    """The view of a :class:`~deltanb.observe.explore.play.Moment`: the states, the turns with a column for
    each writer, and the rows then."""
    total = len(moment.turns)
    marks = (f"turn {units.number(moment.at)} of {units.number(total)}", muted(f"number {moment.number}"))
    words: list[Inline] = ["before the first turn" if moment.turn is None else str(moment.turn)]
    if moment.state is not None and moment.state.breaks:
        words.append(warn(BROKEN))
    tables = moment.rows if isinstance(moment.rows, dict) else {"Rows": moment.rows}
    drawn = _states(moment.states, moment.path, moment.at) if moment.path else None
    return View("Order", moment.table, marks, tuple(words),
                present(drawn, _lanes(moment), *(_rows(name, rows) for name, rows in tables.items())))


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
    return Beside(TURNS, muted("one after the other; each writer in its column"), table, is_open=True,
                  text_rows=True)


def _rows(name: str, rows: Any) -> Section:
    if rows is None:
        return Beside(name, muted("more than are shown here"))
    names, cells = first_cells(rows, options.max_rows)
    some = ", ".join(f"({', '.join(row)})" for row in cells)
    summary = [units.count(rows.num_rows, "row"), columns_shown(rows),
               muted(f": {units.fit(some, MAX_SUMMARY)}" if some else "")]
    return Beside(name, summary, Table(names, cells, rows.num_rows), is_open=True)


def first_cells(rows: Any, limit: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The first columns of the first rows, as short texts."""
    names = rows.column_names[:MAX_FIELDS]
    some = rows.slice(0, limit).select(names).to_pylist()
    return tuple(map(units.clean, names)), tuple(
        tuple(units.fit(units.clean(str(row[name])), MAX_VALUE) for name in names) for row in some)


def columns_shown(rows: Any) -> str:
    """How many of the columns are shown; nothing where all are."""
    columns = units.count(rows.num_columns, "column")
    return f", {units.number(MAX_FIELDS)} of {columns}" if rows.num_columns > MAX_FIELDS else ""


def _does(turn: Any) -> Inline:
    return _signed(turn, turn.in_short)


def _did(turn: Any) -> Inline:
    words = f"{turn.did}: {turn.rule}" if turn.rule else turn.did
    return _signed(turn, words)


def _signed(turn: Any, words: str) -> Inline:
    """What came of a turn, behind its sign."""
    tone: Callable[[str], Inline] = {"✓": ok, "✕": warn}.get(turn.sign, str)
    return tone(f"{turn.sign} {words}".strip())


def comparison(comparison: Any) -> View:
    """The view of a :class:`~deltanb.observe.explore.exploration.LevelComparison`: outcomes by level."""
    levels = list(comparison.explorations)
    isolations = {one.isolation for one in comparison.explorations.values()}
    row_levels = {one.row_level for one in comparison.explorations.values()}
    is_by_rows = len(isolations) == 1 and len(row_levels) > 1
    labels = [f"row level {one.row_level}" if is_by_rows else level
              for level, one in comparison.explorations.items()]
    counts: dict[tuple[str, bool | None], dict[str, int]] = {}
    for level, one in comparison.explorations.items():
        for outcome in one.outcomes:
            by_level = counts.setdefault((short(outcome), outcome.holds), {})
            by_level[level] = by_level.get(level, 0) + outcome.orders
    has_invariant = any(one.invariant for one in comparison.explorations.values())
    rows = tuple(
        (_unbroken(words.split(", ")), *([_verdict(holds)] if has_invariant else []),
         *(_share(by_level.get(level, 0), comparison.explorations[level].num_orders) for level in levels))
        for (words, holds), by_level in itertools.islice(counts.items(), options.max_rows))
    lines: list[Inline] = [
        [Span(label, strong=True), ": ", units.count(len(one.outcomes), "outcome"), *_in_words(one)]
        for label, one in zip(labels, comparison.explorations.values(), strict=True)]
    columns = ("outcome", *(("at the end",) if has_invariant else ()), *labels)
    marked = frozenset(at for at, (_, holds) in enumerate(itertools.islice(counts, len(rows)))
                       if holds is False)
    table = Table(columns, rows, len(counts), "outcome", marked=marked, cut_last=("at the end", *labels))
    summary = muted("orders that end so, whatever the rows")
    marks = (units.count(len(levels), "level"), *(isolations if is_by_rows else ()))
    return View("Comparison", comparison.table, marks, tuple(lines),
                (Section("Grid", summary, table, is_open=True, text_rows=True),))


def _unbroken(parts: Iterable[str]) -> list[Inline]:
    """Parts with commas between them, where alone a line may end."""
    line: list[Inline] = []
    for part in parts:
        line += [", "] * bool(line) + [Span(part, "fixed")]
    return line


def _share(orders: int, total: int) -> Inline:
    if not orders:
        return muted("–")
    return f"{units.number(orders)} of {units.number(total)}"


def _in_words(exploration: Any) -> list[Inline]:
    if not exploration.invariant:
        return []
    holds = exploration.holds
    return [", ", ok("✓ the invariant holds") if holds else warn("✕ the invariant does not hold")]
