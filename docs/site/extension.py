"""What the site adds to Sphinx.

What lives here: docstrings in the form that Sphinx reads. Sphinx's own extension for that takes what is
before a colon in a property's docstring for its type.
What it does not know: any page.
"""

from __future__ import annotations

from typing import Any

from docs.reference.rst import docstring


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _as_sphinx_has_it)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _as_sphinx_has_it(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = docstring("\n".join(lines)).splitlines()
