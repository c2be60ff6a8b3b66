"""The vocabulary of pictures: a view is a heading, lines under it, and sections.

What lives here: values that say *what* is shown of an object. Text, HTML and tests read the same
value, so they cannot disagree.
What it does not know: where the values come from (``views``), or how they are drawn (``html``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltanb.text import formatting as units

TONES = ("", "ok", "warn", "muted", "append", "rewrite", "delete", "optimize", "lost", "fixed",
         "changed")


@dataclass(frozen=True)
class Span:
    """A run of text with a tone (a colour that a word or sign always repeats) or set as code.

    The tone ``fixed`` has no colour: it keeps the run on one line; ``changed`` sets it on a tint.
    """

    text: str
    tone: str = ""
    code: bool = False
    strong: bool = False

    def __post_init__(self) -> None:
        if self.tone not in TONES:
            raise ValueError(f"tone {self.tone!r} is not one of {TONES}")


Inline = str | Span | Sequence[object]
"""A line: text, one run, or several of them."""


def spans(inline: Inline) -> Iterator[Span]:
    """The runs of a line.

    >>> [span.text for span in spans(["a ", code("b")])]
    ['a ', 'b']
    """
    if isinstance(inline, (str, Span)):
        inline = (inline,)
    for part in inline:
        yield part if isinstance(part, Span) else Span(str(part))


def plain(inline: Inline) -> str:
    """The line as text.

    >>> plain(["read ", code("v17")])
    'read v17'
    """
    return "".join(units.clean(span.text) for span in spans(inline))


def code(text: object, tone: str = "") -> Span:
    """Text set as code: something that can be typed as it stands."""
    return Span(str(text), tone, code=True)


def muted(text: object) -> Span:
    """Text of secondary importance, in grey."""
    return Span(str(text), "muted")


def ok(text: object) -> Span:
    """Text in the colour of good news; its words or sign must say so too."""
    return Span(str(text), "ok")


def warn(text: object) -> Span:
    """Text in the colour of bad news; its words or sign must say so too."""
    return Span(str(text), "warn")


@dataclass(frozen=True)
class Table:
    """Rows under column names; ``total`` is the number of all rows, ``rows`` has those at hand."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Inline, ...], ...]
    total: int
    noun: str = "row"
    text_columns: tuple[str, ...] = ()
    """Columns of the text form, if not all fit; the last one takes the remaining width."""
    cut_last: tuple[str, ...] = ()
    """Columns that the text form cuts last."""
    limit: int | None = None
    """Rows shown at most; None leaves it to ``options.max_rows``."""
    marked: frozenset[int] = frozenset()
    """Rows that stand out (a word in the row says so too)."""
    unfolded: tuple[Table, ...] = ()
    """HTML: a table for each row, which unfolds from the row's last cell."""
    sources: tuple[str, ...] = ()
    """HTML: source text for each row, which unfolds as such a table does."""


@dataclass(frozen=True)
class Section:
    """A named part: a line that says it all in short, and a table or source text to unfold."""

    heading: str
    summary: Inline = ""
    table: Table | None = None
    source: str | None = None
    is_open: bool = False
    """HTML: unfolded from the start."""
    is_detail: bool = False
    """Only where there is something to unfold; the text form leaves it out."""
    text_rows: bool = False
    """The text form prints the table, or the source, too, as far as its lines go."""


def present(*sections: Section | None) -> tuple[Section, ...]:
    """The sections that an object has something for."""
    return tuple(section for section in sections if section is not None)


@dataclass(frozen=True)
class View:
    """What is shown of one object."""

    kind: str
    name: str = ""
    marks: tuple[Inline, ...] = ()
    lines: tuple[Inline, ...] = ()
    sections: tuple[Section, ...] = ()
    title: Inline = ""
    """In place of ``kind`` where the HTML can set it better; the same words."""

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings that both the text and the HTML must show."""
        return (self.kind, *(s.heading for s in self.sections if not s.is_detail))
