"""An exploration as a page of its own: the outcomes, the states as a graph, and orders to be played.

What lives here: :func:`page`, a file that needs no kernel and no network. Its one script is ``lesson.js``;
without it, as where a browser forbids scripts, the tables of outcomes and of the order that breaks are there.
What it does not know: how orders are explored.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from deltanb.notebook.drawing import page as pages
from deltanb.notebook.drawing.colors import both
from deltanb.notebook.drawing.html import Markup, join, tag
from deltanb.notebook.views.exploration import first_cells
from deltanb.text import formatting as units

MAX_ORDERS, MAX_TURNS, MAX_ROWS = 40, 200, 20
"""What a page has at most: orders, turns of each, rows of a table."""
MAX_BYTES = 400_000
"""Of all orders: those after it are left out, and the page says so."""
RADIUS, STEP, GAP = 5, 64, 20
STYLE = (
    ".lesson table{border-collapse:collapse}"
    f".lesson th{{font-weight:400;color:{both('m')};text-align:left}}"
    ".lesson td,.lesson th{padding:2px 14px 2px 0;vertical-align:top}"
    f".lesson .later td{{color:{both('m')}}}.lesson .now td:first-child::before{{content:'▶ '}}"
    f".lesson tr:not(.later) .fails{{color:{both('x')}}}"
    ".lesson .sides{display:flex;flex-wrap:wrap;gap:24px 56px}"
    ".lesson button,.lesson select{font:inherit;padding:4px 10px;margin:0 6px 6px 0;max-width:100%}"
    f".lesson button:focus-visible,.lesson select:focus-visible{{outline:2px solid {both('x')}}}"
    ".states{overflow-x:auto}.states svg{display:block}"
    f".states line{{stroke:{both('l')}}}"
    f".states circle{{fill:{both('g')};stroke:{both('m')};stroke-width:1.5}}"
    f".states .end{{fill:{both('m')}}}.states .breaks{{fill:{both('x')};stroke:{both('x')}}}"
    f".states text{{fill:{both('m')};font:12px system-ui,sans-serif}}"
    "@media print{.lesson .controls{display:none}}"
)


def page(exploration: Any, picture: Markup, title: str) -> str:
    """The page as HTML; ``picture`` is what a notebook shows of the exploration."""
    orders, more = _orders(exploration)
    data = json.dumps({"writers": exploration.writers, "orders": orders}, separators=(",", ":"))
    data = data.replace("</", "<\\/")  # it would end the element that the data is in
    held = Markup(f'<script type="application/json" id="orders">{data}</script>')
    note = f"{units.count(more, 'more order')} would make the page too large" if more else ""
    parts = [("", picture)]
    if exploration.states:
        parts.append(("States", _graph(exploration.states)))
    parts.append(("Orders", Markup(held + tag("div", id="lesson", cls="lesson") + tag("p", note))))
    made = pages.page(title, parts, is_headed=False, style=STYLE, script=script())
    return f"<!doctype html>\n{made}"


def script() -> str:
    """The script of the page."""
    return (files(__package__) / "lesson.js").read_text("utf-8")


def _orders(exploration: Any) -> tuple[list[dict[str, Any]], int]:
    """The orders that are played: those that break the invariant, and one of each outcome; and how many
    more there are."""
    named = [(f"breaks with {one.place}" if one.turns else "broken from the start", one.number)
             for one in exploration.violations]
    named += [(f"{units.number(one.orders)} × {one}", one.number) for one in exploration.outcomes]
    made: list[dict[str, Any]] = []
    size = 0
    for label, number in named[:MAX_ORDERS]:
        turns, rows = exploration.played(number)
        order = {
            "label": units.fit(units.clean(label), 100), "number": str(number),
            "turns": [[turn.writer, turn.did, f"{turn.sign} {turn.in_short}".strip()]
                      for turn in turns[:MAX_TURNS]],
            "rows": [_tables(one) for one in rows[:MAX_TURNS + 1]]}
        size += len(json.dumps(order))
        if made and size > MAX_BYTES:
            break
        made.append(order)
    return made, len(named) - len(made)


def _tables(rows: Any) -> list[dict[str, Any]]:
    """The rows of one or several tables, each with its columns."""
    tables = rows if isinstance(rows, dict) else {"": rows}
    made = []
    for name, table in tables.items():
        if table is not None:
            columns, cells = first_cells(table, MAX_ROWS)
            made.append({"name": name, "columns": columns, "total": table.num_rows, "rows": cells})
    return made


def _graph(states: Any) -> Markup:
    """The states from left to right, by the turns that lead there; ends are filled, those that break are
    red."""
    layers: dict[int, list[int]] = {}
    for at, state in enumerate(states):
        layers.setdefault(state.depth, []).append(at)
    tall, edge = max(map(len, layers.values())), RADIUS + 2
    place = {at: (edge + depth * STEP, edge + (tall - len(layer)) * GAP / 2 + row * GAP)
             for depth, layer in layers.items() for row, at in enumerate(layer)}
    ends = ("x1", "y1", "x2", "y2")
    lines = [tag("line", **dict(zip(ends, map(str, (*place[at], *place[to])), strict=True)))
             for at, state in enumerate(states) for _, to in state.after]
    dots = [tag("circle", cls="breaks" if state.breaks else "" if state.after else "end", r=str(RADIUS),
                cx=str(place[at][0]), cy=str(place[at][1])) for at, state in enumerate(states)]
    words = f"{units.count(len(states), 'state')}, from left to right by turns; filled: all have ended"
    if any(state.breaks for state in states):
        words += "; red: the invariant does not hold"
    drawn = tag("svg", lines, dots, role="img", width=str(2 * edge + max(layers) * STEP),
                height=str(2 * edge + (tall - 1) * GAP), **{"aria-label": words})
    return join(tag("div", drawn, cls="states"), tag("p", words))
