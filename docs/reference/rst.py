"""The few forms of reStructuredText that generated pages are made of.

What lives here: headings, tables, docstrings.
What it does not know: what is in them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

MARKS = "=-~^"
SEE = re.compile(r"; see\s+:func:`~?(?P<name>deltanb\.[\w.]+)`\.")


def heading(text: str, level: int = 0) -> str:
    """A heading.

    >>> print(heading("Options"))
    Options
    =======
    <BLANKLINE>
    """
    return f"{text}\n{MARKS[level] * len(text)}\n"


def page(title: str, *parts: str) -> str:
    """A page: its title, and what is on it."""
    return "\n".join([heading(title), *(f"{part.strip()}\n" for part in parts)])


def code(text: object) -> str:
    """A word of a program.

    >>> code("delta.appendOnly"), code("")
    ('``delta.appendOnly``', '')
    """
    return f"``{text}``" if str(text) else ""


def indented(text: str, width: int = 3) -> str:
    """All lines of a text further to the right."""
    return "\n".join(" " * width + line if line.strip() else "" for line in text.splitlines())


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A table; each cell is reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    if widths != "auto":
        lines.insert(1, "   :class: breaks-words")
    for row in (header, *rows):
        for number, cell in enumerate(row):
            first, *rest = cell.strip().splitlines() or [""]
            lines.append(f"   {'  ' if number else '* '}- {first}".rstrip())
            lines += [f"       {line}".rstrip() for line in rest]
    return "\n".join([*lines, ""])


def contents(names: Iterable[str], depth: int = 1, hidden: bool = False) -> str:
    """A list of pages."""
    lines = [".. toctree::", f"   :maxdepth: {depth}", *(["   :hidden:"] if hidden else []), ""]
    return "\n".join([*lines, *(f"   {name}" for name in names), ""])


def first_sentence(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(thing) or ""
    return re.sub(r"\s+", " ", text.partition("\n\n")[0])


def docstring(text: str) -> str:
    """A docstring's sections (``Args:``, ``Raises:``) as Sphinx takes them, and what it refers to."""
    from sphinx.ext.napoleon import Config
    from sphinx.ext.napoleon.docstring import GoogleDocstring

    text = str(GoogleDocstring(_whole(inspect.cleandoc(text)), Config()))
    return re.sub("^Way out: ", "**Way out:** ", text, flags=re.MULTILINE)


def _whole(text: str) -> str:
    """A docstring that says "see" of a function, with that function's text; a page cannot link it."""
    reference = SEE.search(text)
    if reference is None:
        return text
    module, _, name = reference["name"].rpartition(".")
    theirs = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    paragraphs = [part for part in theirs.split("\n\n") if not part.startswith(">>>")]
    return f"{text[:reference.start()]}.\n\n" + "\n\n".join(paragraphs) + text[reference.end():]
