"""Views as HTML: a builder that escapes, the stylesheet, and what untrusted notebooks show.

What lives here: markup. No ids, no scripts, nothing from the network; every output carries the same
small stylesheet, so it looks the same on its own, in a saved file and after a restart.
What it does not know: the objects shown (``views``), the two-sided conflict (``conflict``).

An untrusted notebook loses ``<style>`` but keeps ``style=``: an attribute hides the rich part and the
stylesheet shows it; for the plain text it is the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from html import escape
from importlib.resources import files

from deltanb.notebook.views.model import Inline, Section, Table, View, plain, spans
from deltanb.options import options
from deltanb.text.formatting import clean, count, number
from deltanb.text.safe_text import safe

COMMON = "style.css"
MAX_BYTES = 60_000  # an output is saved in the notebook and parsed at every opening
LEAST_SHARE = 0.005  # below it, tables are left out: headings and summaries are what counts
MAX_SPAN = 400  # characters of one run of text: the width of a cell, several times over
GAP = "\u2002 "  # two spaces set things apart in text; HTML would make them one
NUMBER = re.compile(r"[+−-]?\d[\d\u00a0\u202f ]*(?:\.\d+)?(?: (?:B|[kMGT]B|ms|s|min|h|%))?")
"""A count, a size or a duration, as views write them."""
MAX_SOURCE = 8_000  # characters of raw JSON: statistics of some 200 columns
BLOCKS = frozenset({"td", "th", "li", "p", "dt", "dd", "caption", "summary", "div"})
"""Elements that end a line of the page's source: where a host strips all tags, their words stay apart."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Markup | None


def tag(name: str, /, *children: Child | Iterable[Child], cls: str = "", **attributes: str) -> Markup:
    """An element; text is escaped, markup is not, ``None`` is left out.

    >>> tag("b", "<x>", cls="dnb-ok")
    '<b class="dnb-ok">&lt;x&gt;</b>'
    """
    if cls:
        attributes = {"class": cls, **attributes}
    start = "".join(
        f" {key}" if value == key else f' {key}="{escape(value)}"'
        for key, value in attributes.items()
    )
    end = "\n" if name in BLOCKS else ""
    return Markup(f"<{name}{start}>{join(*children)}</{name}>{end}")


def join(*children: Child | Iterable[Child]) -> Markup:
    """Children one after the other, escaped unless they are markup.

    >>> join("a&b", None, tag("i", "c"))
    'a&amp;b<i>c</i>'
    """
    parts: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child, quote=False))
        elif child is not None:
            parts.append(join(*child))
    return Markup("".join(parts))


def inline(line: Inline) -> Markup:
    """A line of runs: tones as classes, code as ``<code>``.

    >>> inline("a < b")
    'a &lt; b'
    """
    parts = []
    for span in spans(line):
        text = clean(span.text)
        text = text if len(text) <= MAX_SPAN else text[: MAX_SPAN - 1] + "…"
        text = text if span.code else text.replace("  ", GAP)
        part: Child = text
        if span.code:
            part = tag("code", part)
        if span.strong:
            part = tag("b", part)
        if span.tone:
            part = tag("span", part, cls=f"dnb-{span.tone}")
        parts.append(part)
    return join(parts)


def part(*children: Child | Iterable[Child], cls: str = "") -> Markup:
    """A block of an output, with a line before it."""
    return tag("div", *children, cls=f"dnb-part {cls}".rstrip())


def document(rich: Markup, text: str, sheets: Iterable[str] = ()) -> str:
    """One output: stylesheet, the text for hosts that strip stylesheets, the rich form.

    ``sheets`` names the stylesheets it needs in addition to the common one.
    """
    plain = " dnb-plain" if options.colors == "plain" else ""
    return tag(
        "div",
        tag("style", Markup("".join(map(stylesheet, (COMMON, *sheets))))),
        tag("pre", text, cls="dnb-text"),
        tag("div", rich, cls="dnb-rich", style="display:none"),
        cls="dnb" + plain,
    )


def render(view: View, text: str) -> str:
    """The view as HTML of at most ``MAX_BYTES``: tables drop rows, and say so, until it fits."""
    return within_limit(lambda share: document(body(view, share), text))


def pictured(view: View, drawn: str, text: str, sheets: Iterable[str] = ()) -> str:
    """The view as HTML with a drawing below its heading; the drawing scrolls, and may be empty.

    ``sheets`` names the stylesheets that the drawing needs.
    """
    head = View(view.kind, view.name, view.marks, view.lines, title=view.title)
    shown = part(Markup(drawn), cls="dnb-scroll") if drawn else None
    return within_limit(lambda share: document(
        join(body(head, share), shown, sections(view.sections, share)), text, sheets))


def within_limit(draw: Callable[[float], str]) -> str:
    """``draw(share)`` with the largest share of its rows, at most 1, that fits into ``MAX_BYTES``."""
    share = 1.0
    while True:
        drawn = draw(share)
        if len(drawn.encode("utf-8", "replace")) <= MAX_BYTES or share == 0:
            return drawn
        share = share / 2 if share > LEAST_SHARE else 0


def limit_of(share: float, limit: int | None = None) -> int:
    """This share of a limit, in rows; the default limit is ``options.max_rows``."""
    return int((options.max_rows if limit is None else limit) * share)


def body(view: View, share: float) -> Markup:
    """The rich form of a view: its heading, its lines, its sections."""
    head = [
        inline(view.title) if view.title else tag("span", view.kind, cls="dnb-muted"),
        [" ", tag("b", clean(view.name), cls="dnb-name")] if view.name else None,
        [tag("span", " ", inline(mark), cls="dnb-chip") for mark in view.marks],
    ]
    return join(
        part(tag("p", *head), [tag("p", inline(line)) for line in view.lines]),
        sections(view.sections, share),
    )


def sections(parts: Iterable[Section], share: float) -> Markup:
    """The sections of a view, separated by lines."""
    return join([part(_section(section, share)) for section in parts])


def _section(section: Section, share: float) -> Markup:
    title = [name_of(section.heading), inline(section.summary)]
    has_rows = section.table is not None and section.table.total > 0 and share > 0
    if not has_rows and not section.source:
        return tag("p", title[0], tag("span", title[1]), cls="dnb-nofold")
    unfolded = {"open": "open"} if section.is_open else {}
    return tag(
        "details",
        tag("summary", *title),
        table(section.table, section.heading, share) if has_rows and section.table else None,
        _source(section.source) if section.source else None,
        **unfolded,
    )


def name_of(heading: str) -> Markup:
    """The name of a section; the space at its end has no width, and keeps it apart where styles are lost."""
    return tag("span", f"{heading} ", cls="dnb-head")


def _source(source: str) -> Markup:
    shown = safe(source)
    return tag("pre", shown if len(shown) <= MAX_SOURCE else shown[:MAX_SOURCE] + "…")


def shown_of(shown: int, total: int, noun: str) -> str:
    """How many rows a table has, and how many of them are shown.

    >>> shown_of(2, 2, "file"), shown_of(20, 41, "file")
    ('2 files', 'showing 20 of 41 files')
    """
    if shown == total:
        return count(total, noun)
    return f"showing {number(shown)} of {count(total, noun)}"


def table(table: Table, name: str, share: float) -> Markup:
    """A table with its name in the caption: assistive names must be text, the rest is stripped."""
    rows = table.rows[: limit_of(share, table.limit)]
    is_whole = len(rows) == table.total  # by the section's own line; assistive names need no number
    caption = name if is_whole else f"{name}: {shown_of(len(rows), table.total, table.noun)}"
    aligned = [at for at in range(len(table.columns)) if _is_of_numbers(row[at] for row in rows)]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, cls="dnb-unseen" if is_whole else ""),
            tag("thead", tag("tr", [tag("th", clean(name), scope="col", cls=_side(at in aligned))
                                    for at, name in enumerate(table.columns)])),
            tag("tbody", [_row(row, at in table.marked, table.unfolded[at : at + 1],
                               table.sources[at : at + 1], aligned) for at, row in enumerate(rows)]),
        ),
        cls="dnb-scroll",
    )


def _row(
    row: Iterable[Inline], is_marked: bool, unfolded: Iterable[Table] = (), sources: Iterable[str] = (),
    aligned: Collection[int] = (),
) -> Markup:
    cells = [inline(cell) for cell in row]
    within = [table(inner, plain(next(iter(row))), 1) for inner in unfolded if inner.total]
    for inner in (*within, *(_source(source) for source in sources if source)):
        cells[-1] = tag("details", tag("summary", cells[-1]), inner)
    return tag("tr", [tag("td", cell, cls=_side(at in aligned)) for at, cell in enumerate(cells)],
               cls="dnb-mark" if is_marked else "")


def _side(is_number: bool) -> str:
    return "dnb-number" if is_number else ""


def _is_of_numbers(cells: Iterable[Inline]) -> bool:
    """Whether a column has numbers alone, with or without a unit, and perhaps dashes for none."""
    texts = [plain(cell) for cell in cells]
    return any(map(NUMBER.fullmatch, texts)) and all(NUMBER.fullmatch(text) or text == "–" for text in texts)


@lru_cache(maxsize=4)
def stylesheet(name: str = COMMON) -> str:
    """A stylesheet without comments and spare spaces, as outputs carry it; the common one is in all."""
    css = files("deltanb.notebook").joinpath(name).read_text(encoding="utf-8")
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    css = re.sub(r"\s+", " ", css)
    css = re.sub(r" ?([{};,]) ?", r"\1", css)
    css = re.sub(r"([\w-]): ", r"\1:", css)
    return css.replace(";}", "}").strip()
