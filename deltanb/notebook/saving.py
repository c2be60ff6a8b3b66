"""Pictures as files: a page, an SVG, a PNG.

What lives here: the form that each ending stands for, and the converters from SVG to PNG.
What it does not know: how anything is drawn (``views``, ``drawing``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.notebook.drawing.html import Markup
from deltanb.notebook.drawing.page import page
from deltanb.notebook.views import registry as views
from deltanb.text.safe_text import safe, shown

PNG_SCALE = 2  # pixels of a PNG for one of the picture: sharp on screens of today
CONVERTERS = ("vl_convert", "resvg_py", "cairosvg")
"""Modules that make a PNG of an SVG, the best likeness first."""


def save(obj: Any, path: str | os.PathLike[str]) -> Path:
    """Write the picture of an object to a file, in the form that its ending names: see
    :meth:`deltanb.text.display.Displayable.save`."""
    try:
        place = Path(path)
    except TypeError:
        raise InvalidArgument(
            f"a picture is saved at a path such as 'picture.html', found {type(path).__name__}: {shown(path)}"
        ) from None
    write = _WRITERS.get(place.suffix.lower())
    if write is None:
        raise InvalidArgument(
            f"{shown(place.name)} does not end in .html, .svg or .png: the extension decides the format")
    data = write(obj)
    if not place.parent.is_dir():
        raise InvalidArgument(f"there is no folder '{safe(place.parent)}' for the picture; make it first")
    place.write_bytes(data)
    return place


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
    # Converters know no custom properties: without the sheet, attributes give the light scheme.
    svg = re.sub(r"<style>.*?</style>", "", _svg(obj).decode(), flags=re.S)
    for name in CONVERTERS:
        try:
            module = import_module(name)
        except (ImportError, OSError):  # cairosvg is there without the library that it needs
            continue
        return _TO_PNG[name](module, svg)
    raise MissingDependency(
        "a PNG is made by vl-convert, resvg or CairoSVG, and none of them is installed: "
        "pip install vl-convert-python; .svg and .html need nothing")


def _by_vl_convert(module: Any, svg: str) -> bytes:
    return bytes(module.svg_to_png(svg, scale=PNG_SCALE))


def _by_resvg(module: Any, svg: str) -> bytes:
    return bytes(module.svg_to_bytes(svg_string=svg, zoom=PNG_SCALE))


def _by_cairosvg(module: Any, svg: str) -> bytes:
    svg = re.sub(r"</?tspan[^>]*>", "", svg)  # it draws end-anchored spans one after the other
    return bytes(module.svg2png(bytestring=svg.encode(), scale=PNG_SCALE))


_WRITERS: dict[str, Callable[[Any], bytes]] = {".html": _html, ".htm": _html, ".svg": _svg, ".png": _png}
_TO_PNG: dict[str, Callable[[Any, str], bytes]] = {
    "vl_convert": _by_vl_convert, "resvg_py": _by_resvg, "cairosvg": _by_cairosvg}
