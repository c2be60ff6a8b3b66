"""Charts as notebooks take them: Vega-Lite as JupyterLab draws it offline, a drawing of our own, text.

What lives here: the forms a chart goes out in, and the few marks an SVG needs.
What it does not know: what a chart shows, its colours (``colors``).

There is no HTML among the forms, since hosts would prefer it to the chart. Altair's own output needs the
network or a version of Vega-Lite that JupyterLab does not have. Where the chart cannot be drawn, as on
static pages, the SVG is shown; where that cannot, the text, which has the whole meaning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.notebook.drawing import files
from deltanb.notebook.drawing.colors import GROUND, LINE, MUTED, WORDS, variables
from deltanb.options import options
from deltanb.text import formatting as units

VEGALITE = "application/vnd.vegalite.v5+json"
SVG = "image/svg+xml"
TEXT = "text/plain"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.20.1.json"  # what JupyterLab 4 bundles
MAX_BYTES = 250_000  # a chart's JSON is saved in the notebook and parsed at every opening

Form = Any | Callable[[], Any]
"""A form, or what makes it when it is asked for."""


def chart_bundle(
    spec: Form, svg: Form, text: str, include: Any = None, exclude: Any = None
) -> dict[str, Any]:
    """The forms of a chart by MIME type, as IPython asks for them; never raises.

    Args:
        spec: a Vega-Lite specification as a dict, an Altair chart, a function that makes either,
            or None.
        svg: the same picture as SVG, a function that makes it, or None.
        text: the same in words.
        include, exclude: MIME types to produce, or to leave out.

    >>> sorted(chart_bundle({"mark": "bar"}, "<svg/>", "one bar"))
    ['application/vnd.vegalite.v5+json', 'image/svg+xml', 'text/plain']
    """
    offered = {TEXT: text, SVG: svg, VEGALITE: spec} if options.display != "text" else {TEXT: text}
    forms = {}
    for kind, form in offered.items():
        if (include and kind not in include) or kind in (exclude or ()):
            continue
        try:
            made = form() if callable(form) else form
            if kind == VEGALITE and made is not None:
                made = offline(made)
        except Exception:
            continue  # the other forms show it
        if made is not None:
            forms[kind] = made
    return forms


def offline(chart: Any) -> dict[str, Any]:
    """The specification of a chart, in the version of Vega-Lite that JupyterLab has, without a background.

    >>> offline({"mark": "bar"})["config"]
    {'background': 'transparent'}
    """
    spec = dict(chart) if isinstance(chart, Mapping) else chart.to_dict()
    config = {**spec.get("config", {}), "background": "transparent"}
    return {**spec, "$schema": SCHEMA, "config": config}


class Chart:
    """A chart that shows wherever notebooks are shown.

    Args:
        chart: an Altair chart, or a Vega-Lite specification as a dict.
        text: what the chart shows, in words.
        svg: the same picture for pages where no chart is drawn.

    >>> Chart({"mark": "bar"}, "one bar")
    one bar
    """

    def __init__(self, chart: Any, text: str, svg: str | None = None) -> None:
        self.chart = chart
        self.text = text
        self.svg = svg

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return chart_bundle(self.chart, self.svg, self.text, include, exclude)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the chart to a file of its own.

        Args:
            path: ends in ``.html`` for a page with Vega in it, which needs no network; in ``.svg`` or
                ``.png`` for the drawing ``svg``. A file that is there is replaced.

        Returns:
            The file that was written.

        Raises:
            InvalidArgument: no path; another ending; no such folder; the chart has no ``svg``; its data is
                at an address.
            MissingDependency: ``.html``, and vl-convert is not installed; ``.png``, and no converter is.

        >>> Chart({"mark": "bar"}, "one bar", "<svg/>").save("bar.svg").name
        'bar.svg'
        """
        return files.write(path, {
            ".html": lambda: page_of(self.chart, self.text).encode("utf-8", "replace"),
            ".svg": lambda: self._drawing().encode("utf-8", "replace"),
            ".png": lambda: files.to_png(self._drawing())})

    def _drawing(self) -> str:
        if self.svg is None:
            raise InvalidArgument("this chart has no drawing: give it one as svg=, or save it as .html")
        return self.svg


def page_of(chart: Any, text: str) -> str:
    """The page of an Altair chart or a specification, with Vega in it: see :func:`vega_page.html`."""
    from deltanb.notebook.drawing import vega_page

    return vega_page.html(chart if isinstance(chart, Mapping) else chart.to_dict(), text)


# -- SVG ---------------------------------------------------------------------------------------

# No grey has a contrast of 4.5:1 on both white and black, and a picture cannot know what it lies on, so it
# brings its own background. Attributes give the light scheme where styles are stripped; the stylesheet gives
# the dark one, by the system's scheme in a file of its own, by the page's scheme inside a page.
_DARK, _LIGHT = variables(dark=True), variables(dark=False)
_STYLE = (
    f".dnb-svg{{{_LIGHT};font:12px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}"
    f"@media (prefers-color-scheme:dark){{.dnb-svg:root,html:not([theme],[data-theme]) "
    f"body:not([data-jp-theme-light],[data-theme],[class*=vscode-]) .dnb-svg{{{_DARK}}}}}"
    ":is(html[theme=dark],html[data-theme=dark],[data-jp-theme-light=false],body[data-theme=dark],"
    f"body.vscode-dark) .dnb-svg{{{_DARK}}}"
    ".dnb-svg .g{fill:var(--g)}.dnb-svg text{fill:var(--t)}.dnb-svg .m{fill:var(--m)}"
    ".dnb-svg .x{fill:var(--x)}.dnb-svg .w{fill:var(--x);stroke:var(--x)}"
    ".dnb-svg .l{stroke:var(--l)}.dnb-svg .k-lost{stroke:var(--m)}"
    ".dnb-svg .k-again{stroke:var(--m)}.dnb-svg .k-leader{stroke:var(--m)}"
    ".dnb-svg .r>text{paint-order:stroke;stroke:var(--g);stroke-width:4px;stroke-linejoin:round}"
    ".dnb-svg .k-failed{fill:var(--x);stroke:var(--x)}"
    ".dnb-svg .h{stroke-width:16px;stroke-linecap:square}"
)


def element(name: str, content: str = "", **attributes: Any) -> str:
    """An SVG element; ``_`` in a name stands for ``-``, ``cls`` for ``class``, numbers are rounded.

    >>> element("path", d="M0 0", stroke_width=1.25)
    '<path d="M0 0" stroke-width="1.2"/>'
    """
    attributes = {"class" if key == "cls" else key: value for key, value in attributes.items()}
    pairs = "".join(
        f' {key.replace("_", "-") if key != "viewBox" else key}="{escape(_short(value))}"'
        for key, value in attributes.items() if value is not None
    )
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def label(text: Any, x: float | str, y: float, muted: bool = False, **attributes: Any) -> str:
    """Words in a picture, legible on its ground in either scheme.

    >>> label("a < b", 1, 2)
    '<text x="1" y="2" fill="#1f2328">a &lt; b</text>'
    """
    tone = {"cls": "m", "fill": MUTED} if muted else {"fill": WORDS}
    return element("text", escape(units.clean(text), quote=False), x=x, y=y, **tone, **attributes)


def line(points: str, **attributes: Any) -> str:
    """A thin line of the frame: axes, separators."""
    return element("path", d=points, cls="l", stroke=LINE, fill="none", **attributes)


def picture(width: float, height: float, sentence: str, parts: Iterable[str]) -> str:
    """A whole SVG on its own background; the sentence is its accessible name.

    The caller has to show the sentence as well.
    """
    ground = element("rect", x=.5, y=.5, width=width - 1, height=height - 1, rx=6, cls="g l",
                     fill=GROUND, stroke=LINE)
    title = escape(units.clean(sentence))
    return element(
        "svg", f"<title>{title}</title><style>{_STYLE}</style>{ground}{''.join(parts)}",
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_short(width)} {_short(height)}",
        width=width, height=height, role="img", aria_label=units.clean(sentence), cls="dnb-svg",
        font_size=12, font_family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    )


def _short(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
