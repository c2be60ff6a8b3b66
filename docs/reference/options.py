"""The reference of the options, made from :class:`deltanb.options.Options`.

What lives here: the form of the page.
What it does not know: any option.
"""

from __future__ import annotations

from dataclasses import MISSING, fields

from deltanb.options import Options
from docs.reference.rst import indented, page

INTRODUCTION = """
Options hold for the context that sets them: a thread, a task, a cell and all that it calls. ``with`` limits
them to a block. An unknown option or a value that it cannot take is refused by
:doc:`InvalidArgument <errors/invalid-argument>`.

>>> import deltanb as dn
>>> with dn.set_options(max_rows=5, user_name="nightly"):
...     dn.options.options.max_rows
5

Call :func:`deltanb.set_options` without ``with``, and the option stays.
"""


def pages() -> dict[str, str]:
    """The one page."""
    from sphinx.pycode import ModuleAnalyzer

    texts = ModuleAnalyzer.for_module("deltanb.options").find_attr_docs()
    parts = []
    for each in fields(Options):
        lines = [f".. confval:: {each.name}", f"   :type: ``{each.type}``"]
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if not callable(default):
            lines.append(f"   :default: ``{default!r}``")
        lines += ["", indented("\n".join(texts["Options", each.name]))]
        parts.append("\n".join(lines))
    return {"options.rst": page("Options", INTRODUCTION, *parts)}
