"""An exploration as a page of its own: the outcomes, the states as a graph, and orders to be played.

What lives here: :func:`page`, a file that needs no kernel and no network. Its one script is ``lesson.js``;
without it, as where a browser forbids scripts, the tables of outcomes and of the order that breaks are there.
What it does not know: how orders are explored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from deltanb.notebook.drawing import page as pages
from deltanb.notebook.drawing import state_graph
from deltanb.notebook.drawing.colors import both
from deltanb.notebook.drawing.html import Markup, inline, join, tag
from deltanb.notebook.views import exploration as views
from deltanb.text import formatting as units

MAX_TURNS, MAX_ROWS = 200, 20
"""What a page has at most: turns of each order, rows of a table."""
MAX_BYTES = 300_000
"""Of all orders: those after it are left out, and the page says so."""
STYLE = (
    ".lesson table{border-collapse:collapse}"
    f".lesson th{{font-weight:400;color:{both('m')};text-align:left}}"
    ".lesson td,.lesson th{padding:2px 14px 2px 0;vertical-align:top;overflow-wrap:anywhere}"
    f".lesson .later td{{color:{both('m')}}}.lesson .now td{{font-weight:600}}"
    ".lesson td:first-child{padding-left:1.3em;white-space:nowrap}"
    ".lesson .now td:first-child{padding-left:0}.lesson .now td:first-child::before{content:'▶ '}"
    f".lesson tr:not(.later) :is(.fails,.refused),.lesson .breaks{{color:{both('x')}}}"
    ".lesson .sides{display:flex;flex-wrap:wrap;align-items:flex-start;gap:12px 56px;margin-top:12px}"
    ".lesson .sides>div p{margin:2px 0}.lesson .sides td:first-child{padding-left:0}"
    ".lesson .sides>table td:first-child{min-width:2.4em}"
    ".lesson button,.lesson select{font:inherit;padding:4px 10px;margin:0 6px 6px 0;max-width:100%}"
    f".lesson button:focus-visible,.lesson select:focus-visible{{outline:2px solid {both('x')}}}"
    ".lesson .states{overflow-x:auto}.lesson .states svg{display:block}"
    f".lesson .controls span{{color:{both('m')};white-space:nowrap}}"
    "@media print{.lesson .controls{display:none}"
    ".lesson select{border:0;padding:0;appearance:none;background:none;color:inherit;"
    "width:100%;white-space:normal}.lesson .states svg{max-width:100%;height:auto}"
    ".dnb-rich,.lesson .sides,.lesson .states{break-inside:avoid}}"
)


def page(exploration: Any, text: str) -> str:
    """The page as HTML; ``text`` is the text form of the exploration."""
    orders, tables, more = _orders(exploration)
    layout = state_graph.laid_out(exploration.states) if exploration.states else state_graph.Layout((), 0, 0)
    data = _json({
        "writers": exploration.writers, "columns": len(exploration.writers) <= views.MAX_COLUMNS,
        "broken": views.BROKEN, "places": layout.places,
        "bends": {f"{at} {to}": points for (at, to), points in layout.bends.items()},
        "tables": tables, "orders": orders})
    data = data.replace("<", "\\u003c")  # a tag or a comment in it would end the element, or hide its end
    held = Markup(f'<script type="application/json" id="orders">{data}</script>')
    note = tag("p", f"{units.count(more, 'more order')} would make the page too large") if more else None
    lesson = tag("div", _graph(exploration, orders), id="lesson", cls="lesson")
    view = views.view(exploration)
    tables_only = replace(view, sections=tuple(
        one for one in view.sections if not isinstance(one, views.Pictured)))
    parts = [("", Markup(views.to_html(tables_only, text))),
             ("States and orders" if exploration.states else "Orders", join(held, lesson, note))]
    title = text.partition("\n")[0]
    made = pages.page(title, parts, is_headed=False, style=STYLE, script=script())
    return f"<!doctype html>\n{made}"


def _graph(exploration: Any, orders: Sequence[Mapping[str, Any]]) -> Markup | None:
    """The states, and the way of the first order before its first turn."""
    drawn = views.states(exploration, orders[0]["path"] if orders else ())
    if drawn is None:
        return None
    words = tag("p", inline(drawn.summary))
    return join(tag("div", views.drawn_states(drawn)[0], cls="states"), words)


def script() -> str:
    """The script of the page."""
    return (files(__package__) / "lesson.js").read_text("utf-8")


def _orders(exploration: Any) -> tuple[list[dict[str, Any]], list[Any], int]:
    """The orders that are played: those that break the invariant, and one of each outcome; the tables that
    they lead through, to which they point; and how many more orders there are."""
    from deltanb.observe.explore.exploration import in_short
    from deltanb.observe.explore.states import MAX_PLAYED, path_of  # what explores reads rows

    named = [(f"{one.place} breaks it: {in_short(one.order)}" if one.turns else "broken from the start",
              one.number) for one in exploration.violations]
    named += [(f"outcome {at}, {units.count(one.orders, 'order')}: {views.short(one)}", one.number)
              for at, one in enumerate(exploration.outcomes, 1)]
    made: list[dict[str, Any]] = []
    tables: dict[str, int] = {}
    size = 0
    for label, number in named[:MAX_PLAYED]:
        turns, rows = exploration.played(number)
        path = path_of(exploration, turns)
        texts = [_json(_tables(one)) for one in rows[:MAX_TURNS + 1]]
        left_out = len(turns) - MAX_TURNS
        order = {
            "more": f"; {units.count(left_out, 'more turn')} are not shown" if left_out > 0 else "",
            "label": units.fit(units.clean(label), 100), "number": str(number), "path": path,
            "broken": [at for at, place in enumerate(path) if exploration.states[place].breaks],
            "turns": [[turn.writer, turn.did, f"{turn.sign} {turn.in_short}".strip()]
                      for turn in turns[:MAX_TURNS]]}
        size += len(_json(order)) + sum(len(one) for one in set(texts) - tables.keys()) + 8 * len(texts)
        if made and size > MAX_BYTES:
            break
        made.append(order | {"rows": [tables.setdefault(one, len(tables)) for one in texts]})
    return made, [json.loads(one) for one in tables], len(named) - len(made)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _tables(rows: Any) -> list[dict[str, Any]]:
    """The rows of one or several tables, each with its columns."""
    tables = rows if isinstance(rows, dict) else {"": rows}
    made: list[dict[str, Any]] = []
    for name, table in tables.items():
        if table is None:
            made.append({"words": f"{name} more rows than are shown here".strip(), "columns": (), "rows": ()})
            continue
        columns, cells = views.first_cells(table, MAX_ROWS)
        more = f", of which {MAX_ROWS} are shown" if table.num_rows > MAX_ROWS else ""
        words = f"{name} {units.count(table.num_rows, 'row')}{more}{views.columns_shown(table)}"
        made.append({"words": words.strip(), "columns": columns, "rows": cells})
    return made
