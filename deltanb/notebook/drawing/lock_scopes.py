"""The scopes of a transaction as an indented list: how each reads and waits, what it locked and changed.

What lives here: the two forms of a :class:`ScopesView`. Where not all fits, the scopes around the current one
are shortened: first to a line each, then to a count.
What it does not know: the words about a scope (``views/locks``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltanb.notebook.drawing import html, text
from deltanb.notebook.views.model import Inline, View, plain
from deltanb.text import formatting as units

STEP = 2  # columns that a scope is indented in the one around it
MAX_STEPS = 8  # levels up to which a deeper scope is indented more
NAMES = 9  # columns of "locks" and "changes"


@dataclass(frozen=True)
class ScopeLines:
    """The lines of a scope."""

    level: int
    head: Inline
    short: Inline
    """All of it on a line, for where there is no room."""
    facts: tuple[tuple[str, Inline], ...] = ()


@dataclass(frozen=True)
class ScopesView(View):
    """The view of a transaction; the outermost scope comes first."""

    scopes: tuple[ScopeLines, ...] = ()
    note: Inline = ""
    """Beside the heading of the scopes."""
    heading: str = "Scopes"

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings that both forms show."""
        return (*super().headings, *([self.heading] if self.scopes else []))


def to_text(view: View) -> str:
    """The text form."""
    assert isinstance(view, ScopesView)
    head = text.render(view).split("\n")
    if not view.scopes:
        return text.clamp(head)
    head.append(f"{view.heading}  {plain(view.note)}".rstrip())
    return text.clamp([*head, *_fitting(view.scopes, text.MAX_LINES - len(head))])


def _fitting(scopes: tuple[ScopeLines, ...], room: int) -> list[str]:
    """The scopes on ``room`` lines: the current one in full, those around it as far as they fit."""
    blocks = [list(_full(scope)) for scope in scopes]
    at = 0
    while sum(map(len, blocks)) > room and at < len(scopes) - 1:
        blocks[at] = [_indent(scopes[at].level) + plain(scopes[at].short)]
        at += 1
    left = 0
    while sum(map(len, blocks)) + bool(left) > room and left < len(scopes) - 1:
        blocks[left] = []
        left += 1
    around = [f"… {units.count(left, 'scope')} around"] if left else []
    return [*around, *(line for block in blocks for line in block)]


def _full(scope: ScopeLines) -> Iterator[str]:
    indent = _indent(scope.level)
    yield indent + plain(scope.head)
    for name, value in scope.facts:
        yield f"{indent}   {units.pad(name, NAMES)}{plain(value)}"


def room_of(level: int) -> int:
    """How many columns of text the lines of a scope have."""
    return units.MAX_COLUMNS - len(_indent(level)) - NAMES - 3


def _indent(level: int) -> str:
    return " " * STEP * min(level, MAX_STEPS)


def to_html(view: View, as_text: str) -> str:
    """The HTML form."""
    assert isinstance(view, ScopesView)
    return html.within_limit(lambda share: html.document(html.join(
        html.body(View(view.kind, view.name, view.marks, view.lines), share), _scopes(view, share),
        html.sections(view.sections, share)), as_text))


def _scopes(view: ScopesView, share: float) -> html.Markup | None:
    t = html.tag
    if not view.scopes:
        return None
    few = view.scopes[-max(1, html.limit_of(share)):]
    left = len(view.scopes) - len(few)
    around = t("p", f"… {units.count(left, 'scope')} around", cls="dnb-muted") if left else None
    title = t("p", html.name_of(view.heading), html.inline(view.note))
    return html.part(title, around, [_item(scope) for scope in few])


def _item(scope: ScopeLines) -> html.Markup:
    t = html.tag
    facts = [(t("dt", name), t("dd", html.inline(value))) for name, value in scope.facts]
    return t("div", t("p", html.inline(scope.head)), t("dl", *facts) if facts else None,
             style=f"margin:4px 0 0 {1.5 * min(scope.level, MAX_STEPS):g}em")
