"""Notebooks as pages: what is stored in them is what is shown.

What lives here: the form of an output that a page takes. A chart of Altair becomes two pictures, one for
light and one for dark; vl-convert draws them without a network.
What it does not know: how pages look.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

VEGALITE = "application/vnd.vegalite.v5+json"
HTML = "text/html"
TEXT = "text/plain"
VEGA = "5.20"  # the version of Vega-Lite that the charts are stored in
SCHEMES: Mapping[str, str | None] = {"light": None, "dark": "dark"}
"""The scheme of a page -> Vega's theme for it."""


def for_pages(notebook: str, change_markdown: Callable[[str], str]) -> str:
    """A notebook (its JSON) whose charts are pictures and whose Markdown is changed."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = change_markdown("".join(cell["source"]))
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if VEGALITE in data:
                data[HTML] = drawn(data.pop(VEGALITE), "".join(data.get(TEXT, "")))
            if HTML in data:
                output["data"] = {HTML: data[HTML]}
    return json.dumps(content)


def svg_of(spec: dict[str, Any], scheme: str) -> str:
    """A chart of Vega-Lite as SVG, in one of the :data:`SCHEMES`, on the ground of its page."""
    import vl_convert

    config = spec.get("config", {})
    quiet = {**config, "axis": {"gridOpacity": 0.25, **config.get("axis", {})}}
    svg: str = vl_convert.vegalite_to_svg(
        {**spec, "background": "transparent", "config": quiet}, vl_version=VEGA, theme=SCHEMES[scheme])
    return svg


def drawn(spec: dict[str, Any], words: str) -> str:
    """A chart as HTML that switches with the page.

    Args:
        spec: what Vega-Lite draws.
        words: the same in words, for who does not see it.
    """
    pictures = []
    for scheme in SCHEMES:
        data = base64.b64encode(svg_of(spec, scheme).encode()).decode()
        pictures.append(f'<img class="only-{scheme} dnb-chart" alt="{escape(words, quote=True)}" '
                        f'src="data:image/svg+xml;base64,{data}">')
    return "\n".join(pictures)
