"""Altair's charts, shown and saved without a network.

What lives here: :func:`altair`, which makes a chart of what we draw, and :class:`Offline`, what such a chart
does otherwise than Altair's own: a notebook gets the forms that it draws itself, and a page that is saved
has Vega in it.
What it does not know: what a chart shows; the forms are those of ``chart``, the page is ``vega_page``.

A chart that was changed, or combined with others of its kind, is still one of these.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from deltanb.errors import MissingDependency
from deltanb.notebook.drawing.chart import chart_bundle, page_of
from deltanb.notebook.drawing.vega_page import vl_convert

DRAWN = frozenset({"svg", "png", "pdf"})
"""Formats that Altair has vl-convert draw."""
PAGE = frozenset({"html", "htm"})
RENDERERS = frozenset({"", "default"})
"""What Altair shows charts by where nobody has chosen, which needs the network."""


def altair(obj: Any, specification: Callable[[Any], dict[str, Any]], name: str, rest: str) -> Any:
    """Altair's chart of an object.

    Args:
        obj: what is drawn; a notebook shows its text and its SVG where no chart is drawn.
        specification: makes what Vega-Lite draws of it.
        name: of the property that was asked for.
        rest: the subject and verb of what is shown without Altair.

    Raises:
        MissingDependency: Altair is not installed.
    """
    try:
        from altair import Chart
    except ImportError:
        raise MissingDependency(
            f"{name} needs Altair: pip install 'deltanb[notebook]'. {rest} shown without it",
            extra="notebook") from None
    chart: Any = Chart.from_dict(specification(obj))
    # Altair keeps what is set on a chart as a part of its specification.
    kind: type = type(chart)
    object.__setattr__(chart, "__class__", _offline(kind))
    object.__setattr__(chart, "_drawn_of", obj)
    return chart


class Offline:
    """What a chart of ours does in place of Altair's."""

    def save(self, fp: Any, format: str | None = None, **settings: Any) -> None:
        """Write the chart to a file, as Altair does; an HTML file has Vega in it and needs no network.

        Args:
            fp: a path, or a file that is open for writing.
            format: ``html``, ``json``, ``svg``, ``png`` or ``pdf``; by default what the path ends in.
            settings: Altair's, for the other formats. With one of them a page is Altair's, too.

        Raises:
            MissingDependency: vl-convert is not installed, which all but ``json`` need.
        """
        kind = (format or _ending(fp)).lower()
        if kind in DRAWN:
            vl_convert(f"a chart is drawn as {kind.upper()}")
        if kind not in PAGE or settings:
            super().save(fp, format, **settings)  # type: ignore[misc]
            return
        made = page_of(self, self._words())
        if hasattr(fp, "write"):
            fp.write(made if isinstance(fp, io.TextIOBase) else made.encode())
        else:
            Path(fp).write_text(made, "utf-8")

    def _words(self) -> str:
        obj = self.__dict__.get("_drawn_of")
        return _title(self.to_dict()) if obj is None else str(obj)  # type: ignore[attr-defined]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from altair import renderers

        if renderers.active not in RENDERERS:
            return super()._repr_mimebundle_(include, exclude)  # type: ignore[misc]
        obj = self.__dict__.get("_drawn_of")
        svg = (lambda: _converted(self)) if obj is None else lambda: obj.svg
        return chart_bundle(self, svg, self._words(), include, exclude)


@cache  # one for each of Altair's few classes: charts of one kind are of one class
def _offline(kind: type) -> type:
    return type(kind.__name__, (Offline, kind), {"__module__": kind.__module__})


def _ending(fp: Any) -> str:
    return Path(fp).suffix[1:] if isinstance(fp, (str, os.PathLike)) else ""


def _title(spec: dict[str, Any]) -> str:
    title = spec.get("title", "")
    return str(title.get("text", "") if isinstance(title, dict) else title) or "a chart"


def _converted(chart: Any) -> str | None:
    """A chart that was changed as SVG, where there is what draws it."""
    try:
        converter = vl_convert("a chart is drawn as SVG")
    except MissingDependency:
        return None
    drawn: str = converter.vegalite_to_svg(chart.to_dict())
    return drawn
