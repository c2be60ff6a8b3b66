"""The reference of the errors: the tree, and a page for each class, made from its docstring.

What lives here: the form of these pages. ``deltanb help`` prints the same docstrings.
What it does not know: any error.
"""

from __future__ import annotations

import inspect

from deltanb.errors import DeltaError, topics
from docs.reference.rst import code, contents, docstring, first_sentence, heading, indented

INTRODUCTION = """
All errors of this library are below :doc:`DeltaError <delta-error>`. Each has a page with its cause,
an example that raises it, and the way out. On the command line, ``deltanb help concurrent-append`` prints a
page, ``deltanb help`` this list. The classes are in ``dn.errors``.
"""
WITHOUT_CONTENTS = ":html_theme.sidebar_secondary.remove: true\n"
"""For pages that have one heading: contents beside them would name that alone."""


def pages() -> dict[str, str]:
    """The tree, and a page for each error."""
    classes = topics()
    tree = "\n".join(_branch(DeltaError))
    index = "\n".join([
        WITHOUT_CONTENTS, heading("Errors"), INTRODUCTION, tree, "", contents(classes, hidden=True)])
    return {"errors/index.rst": index,
            **{f"errors/{topic}.rst": _page(topic, cls) for topic, cls in classes.items()}}


def _branch(cls: type[DeltaError]) -> list[str]:
    """A class and those below it, as a list."""
    lines = [f"* :doc:`{cls.__name__} <{cls.topic}>`: {first_sentence(cls)}", ""]
    for kind in cls.__subclasses__():
        if topics().get(kind.topic) is kind and kind.__bases__[0] is cls:
            lines += [indented(line, 2) for line in _branch(kind)]
    return lines


def _page(topic: str, cls: type[DeltaError]) -> str:
    facts = [f"``deltanb help {topic}``", f"Code: {code(cls.kind)}"]
    if cls.sql_state:
        facts.append(f"SQLSTATE: {code(cls.sql_state)}")
    if cls is not DeltaError:
        bases = [f":doc:`{base.__name__} <{base.topic}>`" if issubclass(base, DeltaError)
                 else f"also Python's {code(base.__name__)}" for base in cls.__bases__]
        facts.append(f"Is a {' and '.join(bases)}")
    below = [kind for kind in topics().values() if kind.__bases__[0] is cls]
    if below:
        facts.append("More precise: " + ", ".join(f":doc:`{k.__name__} <{k.topic}>`" for k in below))
    text = docstring(inspect.getdoc(cls) or "")
    return "\n".join([
        WITHOUT_CONTENTS, heading(cls.__name__), f".. py:exception:: deltanb.errors.{cls.__name__}", "",
        indented(text), "", *(f"* {fact}" for fact in facts), ""])
