"""Who races whom: the map of writers, that of operations, the hours of the day, and the tables beside them.

What lives here: the view of ``ConflictMap``, and which names are drawn where there are many.
What it does not know: which transactions met (``observe/meetings``), how a map is drawn
(``drawing/heat_map``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import chart, heat_map, html
from deltanb.notebook.drawing.altair_chart import altair
from deltanb.notebook.drawing.heat_map import Bars, Cell, Heat, Panel
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, present, warn
from deltanb.notebook.views.verification import versions_of
from deltanb.options import options
from deltanb.text import formatting as units

MAX_NAMES = 10
"""Rows and columns of a map; the others are one more, together."""
BUSIEST = 3  # hours named in a line
SIGNS = "✕ failed, ? landed although a rule ends it"
_ABOUT = "rows came later, columns landed first"


@dataclass(frozen=True)
class MapView(View):
    """A view with its panels, and what each of them shows in a sentence."""

    panels: tuple[Panel, ...] = ()
    sentences: tuple[str, ...] = ()


def view(conflicts: Any) -> MapView:
    """The view of a :class:`~deltanb.observe.conflict_map.ConflictMap`."""
    meetings, total = conflicts.meetings, conflicts.total
    first, last = conflicts.versions
    marks: list[Inline] = [f"v{first}" if first == last else f"v{first} to v{last}",
                           units.count(meetings.num_commits, "commit"), units.count(total.races, "race")]
    marks += [warn(f"✕ {units.number(total.lost)} lost")] if total.lost else []
    marks += [f"? {units.number(total.would_fail)} would fail"] if total.would_fail else []
    marks += [ok("✓ none lost")] if total.races and not total.lost and not total.would_fail else []
    panels = panels_of(conflicts)
    return MapView("Conflicts", conflicts.table, tuple(marks), tuple(_lines(conflicts)),
                   present(*(make(conflicts) for make in (_writers, _operations, _hours, _lost,
                                                          _blind_spots))),
                   panels=panels, sentences=tuple(f"{panel.title}: {panel.note}" for panel in panels))


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, the maps, the tables."""
    assert isinstance(view, MapView)
    drawn = heat_map.draw_each(view.panels, view.sentences) if view.panels else ""
    return html.pictured(view, drawn, as_text)


def _lines(conflicts: Any) -> Iterable[Inline]:
    total = conflicts.total
    if not total.races:
        yield "no two transactions are known to have run at the same time"
        return
    if total.lost:
        yield ["thrown away: ", Span(_wasted(total), strong=True),
               muted(f" in {units.count(total.lost, 'failed transaction')}")]
    if conflicts.meetings.isolation:
        yield muted(f"the rules were asked as if all had been {conflicts.meetings.isolation}")


def _wasted(tally: Any) -> str:
    """The bytes that were thrown away, as far as the journal knows them."""
    if not tally.lost:
        return "–"
    if tally.unmeasured == tally.lost:
        return "not known"
    return ("at least " if tally.unmeasured else "") + units.size(tally.wasted)


# -- tables -----------------------------------------------------------------------------------------------


def _writers(conflicts: Any) -> Section | None:
    return _pairs(conflicts.by("writer"), "Writers", is_first=True)


def _operations(conflicts: Any) -> Section | None:
    return _pairs(conflicts.by("operation"), "Operations")


def _pairs(tallies: Sequence[Any], heading: str, is_first: bool = False) -> Section | None:
    if not tallies:
        return None
    rows = tuple((_name(one.winner), _name(one.loser), *_numbers(one)) for one in tallies[: options.max_rows])
    columns = ("landed first", "came later", "races", "lost", "would fail", "thrown away", "rule")
    table = Table(columns, rows, len(tallies), "pair", cut_last=columns[2:])
    first = tallies[0]
    summary = [f"{first.winner} before {first.loser}: {units.count(first.races, 'race')}",
               *([warn(f", {units.number(first.lost)} lost")] if first.lost else ())]
    if len(tallies) > 1:
        summary.append(muted(f", and {units.count(len(tallies) - 1, 'more pair')}"))
    return Section(heading, summary, table, is_open=is_first, text_rows=is_first)


def _name(name: Any) -> Inline:
    return Span(str(name), "fixed")


def _numbers(one: Any) -> tuple[Inline, ...]:
    return (units.number(one.races), warn(f"✕ {units.number(one.lost)}") if one.lost else "0",
            f"? {units.number(one.would_fail)}" if one.would_fail else "0", _wasted(one),
            one.rule or muted("–"))


def _hours(conflicts: Any) -> Section | None:
    tallies = conflicts.by("hour")
    if not tallies:
        return None
    rows = tuple((_hour(one.winner), *_numbers(one)) for one in tallies)
    table = Table(("hour", "races", "lost", "would fail", "thrown away", "rule"), rows, len(rows), "hour",
                  limit=len(rows))
    busiest = sorted(tallies, key=lambda one: (-one.races, one.names != (None,), one.winner or 0))[:BUSIEST]
    words = ", ".join(f"{_hour(one.winner)} {units.number(one.races)}" for one in busiest)
    return Section("Hours", [f"most races at {words} ", muted(f"({conflicts.zone})")], table)


def _hour(hour: int | None) -> str:
    """An hour of the day.

    >>> _hour(7), _hour(None)
    ('07 h', 'no time')
    """
    return "no time" if hour is None else f"{hour:02} h"


def _lost(conflicts: Any) -> Section | None:
    lost = conflicts.lost
    if not lost:
        return None
    rows = tuple(
        (units.time(one.loser.time) if one.loser.time is not None else "–", _name(one.loser.writer),
         _name(one.loser.operation), f"v{one.winner.version}", _name(one.winner.writer),
         _name(one.winner.operation), one.rule,
         "not known" if one.wasted is None else units.size(one.wasted))
        for one in reversed(lost[-options.max_rows:]))
    table = Table(("time", "writer", "operation", "lost to", "of", "its operation", "rule", "thrown away"),
                  rows, len(lost), "failed transaction")
    last = lost[-1]
    summary = f"last {last.loser.operation} of {last.loser.writer} to v{last.winner.version} by {last.rule}"
    return Section("Lost", summary, table)


def _blind_spots(conflicts: Any) -> Section | None:
    spots = conflicts.blind_spots
    if not spots:
        return None
    rows = tuple((code(spot.kind), versions_of(spot.versions), spot.evidence) for spot in spots)
    table = Table(("kind", "versions", "what follows"), rows, len(rows), "blind spot")
    return Section("Blind spots", muted(", ".join(spot.kind for spot in spots)), table)


# -- pictures ---------------------------------------------------------------------------------------------


def panels_of(conflicts: Any) -> tuple[Panel, ...]:
    """What is drawn: the map of writers, that of operations, the hours; none where nobody met."""
    if not conflicts.total.races:
        return ()
    return (_heat(conflicts.by("writer"), "Writers", "writer"),
            _heat(conflicts.by("operation"), "Operations", "operation"), _day(conflicts))


def _heat(tallies: Sequence[Any], title: str, noun: str) -> Heat:
    rows, columns = (_drawn((names(one), one) for one in tallies) for names in (
        lambda one: one.loser, lambda one: one.winner))
    cells: dict[tuple[str, str], list[Any]] = {}
    for one in tallies:
        cells.setdefault((rows[one.loser], columns[one.winner]), []).append(one)
    return Heat(title, f"{_ABOUT}; {SIGNS}",
                tuple(dict.fromkeys(columns.values())), tuple(dict.fromkeys(rows.values())),
                {place: _cell(some) for place, some in cells.items()})


def _drawn(weighed: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Each name as it is drawn, the most important first; beyond the bound they share one."""
    weights: Counter[str] = Counter()
    for name, one in weighed:
        weights[name] += one.races + 1000 * (one.lost + one.would_fail)
    order = sorted(weights, key=lambda name: (-weights[name], name))
    more = order[MAX_NAMES:] if len(order) > MAX_NAMES + 1 else []
    rest = {name: f"{len(more)} more" for name in more}
    return {name: rest.get(name) or units.clean(name) for name in order}


def _cell(tallies: Iterable[Any]) -> Cell:
    several = list(tallies)
    return Cell(*(sum(getattr(one, name) for one in several) for name in ("races", "lost", "would_fail")))


def _day(conflicts: Any) -> Bars:
    hours = conflicts.by("hour")
    cells = {f"{one.winner:02}": _cell([one]) for one in hours if one.winner is not None}
    none = sum(one.races for one in hours if one.winner is None)
    note = f"when the later one came, {conflicts.zone}"
    return Bars("Hours of the day", f"{note}; {units.number(none)} without a time" if none else note,
                tuple(f"{hour:02}" for hour in range(24)), cells)


def sentence(conflicts: Any) -> str:
    """The picture in words."""
    total = conflicts.total
    return (f"{units.clean(conflicts.table)}: {units.count(total.races, 'race')}, "
            f"{units.number(total.lost)} lost, {units.number(total.would_fail)} would fail")


def _svg(conflicts: Any) -> str:
    panels = panels_of(conflicts)
    if not panels:
        return chart.picture(360.0, 40.0, sentence(conflicts), [chart.label(sentence(conflicts), 14, 24)])
    return heat_map.draw(panels, sentence(conflicts))


def _specification(conflicts: Any) -> dict[str, Any]:
    from deltanb.notebook.drawing.heat_map_vega import draw

    return draw(panels_of(conflicts), sentence(conflicts))


def _altair(conflicts: Any) -> Any:
    return altair(conflicts, _specification, "conflicts().chart", "The map itself is")


DRAWINGS = {"spec": lambda conflicts: chart.offline(_specification(conflicts)), "svg": _svg, "chart": _altair}
