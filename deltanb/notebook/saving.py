"""Pictures as files: a page, an SVG, a PNG.

What lives here: the form of an object that each ending stands for.
What it does not know: how anything is drawn (``views``), how a file is written (``drawing/files``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.notebook.drawing import files
from deltanb.notebook.drawing.html import Markup
from deltanb.notebook.drawing.page import page
from deltanb.notebook.views import registry as views


def save(obj: Any, path: str | os.PathLike[str]) -> Path:
    """Write the picture of an object to a file, in the form that its ending names: see
    :meth:`deltanb.text.display.Displayable.save`."""
    return files.write(path, {ending: partial(make, obj) for ending, make in _WRITERS.items()})


def _html(obj: Any) -> bytes:
    text, whole = views.text_of(obj), views.entry_of(obj).page
    if whole is not None:
        return whole(obj, text).encode("utf-8", "replace")
    made = page(text.partition("\n")[0], [("", Markup(views.html_of(obj, text)))], is_headed=False)
    return f"<!doctype html>\n{made}".encode("utf-8", "replace")


def _svg(obj: Any) -> bytes:
    draw = views.entry_of(obj).drawings.get("svg")
    if draw is None:
        raise InvalidArgument(
            f"the picture of a {type(obj).__name__} is a page and no drawing; save it as .html")
    drawn: str = draw(obj)
    return drawn.encode("utf-8", "replace")


def _png(obj: Any) -> bytes:
    return files.to_png(_svg(obj).decode())


_WRITERS: dict[str, Callable[[Any], bytes]] = {".html": _html, ".svg": _svg, ".png": _png}
