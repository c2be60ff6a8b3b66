"""A chart as a file of its own: Vega is within it, so a browser draws it without a network.

What lives here: the page around a chart, its colours in the light and in the dark scheme, and where Vega's
scripts come from.
What it does not know: what the chart shows. The frame is that of every page (``page``).

Vega's interpreter evaluates the expressions of a chart, because the page's policy forbids all other scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.notebook.drawing.html import Markup, join, tag
from deltanb.notebook.drawing.page import page, preformatted
from deltanb.text.safe_text import shown

VERSION = re.compile(r"/vega-lite/v(\d+\.\d+)")
_STYLE = (
    ".scroll{overflow-x:auto}.vega-embed{padding-right:38px}"
    "details.words{margin-top:16px}details.words summary{cursor:pointer}"
)
# Paper is white: "screen" has the light scheme printed.
_DRAW = """
(() => {
  const spec = %s;
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const draw = () => vegaEmbed("#chart", spec, {
    renderer: "svg", ast: true, theme: dark.matches ? "dark" : undefined, config: {background: "transparent"},
    tooltip: {theme: dark.matches ? "dark" : "light"},
    actions: {export: true, source: false, compiled: false, editor: false},
  });
  dark.addEventListener("change", draw);
  draw();
})();
"""


def html(spec: Mapping[str, Any], text: str) -> str:
    """The page of a chart, light or dark as the system is; the text is below the chart, folded.

    Args:
        spec: what Vega-Lite draws, with its data.
        text: what the chart shows, in words; its first line is the page's title.

    Raises:
        MissingDependency: vl-convert, which brings Vega's scripts, is not installed.
        InvalidArgument: the data of the chart is elsewhere.
    """
    if elsewhere := next(_urls(spec), None):
        raise InvalidArgument(f"the chart reads {shown(elsewhere)}, and a page of its own reaches nothing "
                              "outside it: give the chart its rows")
    # "<" could end the script, wherever it stands in the data.
    data = json.dumps(spec, separators=(",", ":")).replace("<", r"\u003c")
    words = tag("details", join(tag("summary", "In words"), preformatted(text)), cls="words")
    chart = Markup('<div class="scroll"><div id="chart"></div></div>')
    return "<!doctype html>\n" + page(
        text.partition("\n")[0], [("", join(chart, words))], is_headed=False, style=_STYLE,
        script=_vega(_version_of(spec)) + _DRAW % data)


def _version_of(spec: Mapping[str, Any]) -> str | None:
    match = VERSION.search(str(spec.get("$schema", "")))
    return match[1] if match else None


@lru_cache(maxsize=2)
def _vega(version: str | None) -> str:
    """Vega and all that it needs as one script, of the Vega-Lite that a chart asks for or else the newest."""
    converter = vl_convert("a chart is saved as a page")
    known = {"vl_version": version} if version in converter.get_vegalite_versions() else {}
    script: str = converter.javascript_bundle(**known)
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def vl_convert(purpose: str) -> Any:
    """The converter of charts.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise MissingDependency(
            f"{purpose} by vl-convert, which brings Vega's scripts: pip install 'deltanb[charts]'. What the "
            "chart is of is saved as a page without it, as timeline().save('page.html') does",
            extra="charts") from None
    return vl_convert


def _urls(part: Any) -> Iterator[str]:
    """The addresses from which a chart reads its data."""
    if isinstance(part, Mapping):
        data = part.get("data")
        if isinstance(data, Mapping) and isinstance(data.get("url"), str):
            yield data["url"]
        for value in part.values():
            yield from _urls(value)
    elif isinstance(part, list):
        for value in part:
            yield from _urls(value)
