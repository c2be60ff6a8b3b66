"""Files that pictures are written to: by the ending of a path, and as PNG.

What lives here: which form a path asks for, and the converters from SVG to PNG.
What it does not know: what is drawn, and by whom.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.text.safe_text import safe, shown

PNG_SCALE = 2  # pixels of a PNG for one of the picture: sharp on screens of today
CONVERTERS = ("vl_convert", "resvg_py", "cairosvg")
"""Modules that make a PNG of an SVG, the best likeness first."""


def write(path: str | os.PathLike[str], forms: Mapping[str, Callable[[], bytes]]) -> Path:
    """Write what the form for the path's ending makes.

    Args:
        path: a file that is there is replaced.
        forms: the ending (``.html``, ``.svg`` or ``.png``): what makes the file's bytes.

    Raises:
        InvalidArgument: no path, another ending, no such folder.
    """
    try:
        place = Path(path)
    except TypeError:
        raise InvalidArgument(
            f"a picture is saved at a path such as 'picture.html', found {type(path).__name__}: {shown(path)}"
        ) from None
    ending = place.suffix.lower()
    make = forms.get(".html" if ending == ".htm" else ending)
    if make is None:
        raise InvalidArgument(
            f"{shown(place.name)} does not end in .html, .svg or .png: the extension decides the format")
    data = make()
    if not place.parent.is_dir():
        raise InvalidArgument(f"there is no folder '{safe(place.parent)}' for the picture; make it first")
    place.write_bytes(data)
    return place


def to_png(svg: str) -> bytes:
    """A drawing as PNG.

    Raises:
        MissingDependency: no converter is installed.
    """
    # Converters know no custom properties: without the sheet, attributes give the light scheme.
    svg = re.sub(r"<style>.*?</style>", "", svg, flags=re.S)
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


_TO_PNG: dict[str, Callable[[Any, str], bytes]] = {
    "vl_convert": _by_vl_convert, "resvg_py": _by_resvg, "cairosvg": _by_cairosvg}
