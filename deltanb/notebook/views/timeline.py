"""The timeline: its text, and its drawings.

What lives here: the view of a :class:`~deltanb.observe.timeline.CommitTimeline`, and what makes its
chart and its SVG.
What it does not know: positions (``timeline_scene``), drawing (``timeline_vega``, ``timeline_svg``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltanb.notebook.drawing import chart, html
from deltanb.notebook.drawing.altair_chart import altair
from deltanb.notebook.drawing.catalog_scene import CatalogScene
from deltanb.notebook.drawing.timeline_scene import Scene
from deltanb.notebook.views.model import Inline, View, warn
from deltanb.text import formatting as units


def view(timeline: Any) -> View:
    """The view of a :class:`CommitTimeline`: a line each for the newest transactions."""
    scene = timeline.scene
    if not scene.tracks:
        return _empty(scene, "no commits")
    writers = len({track.writer for track in scene.commits})
    marks = [scene.versions, units.count(len(scene.commits), "commit"), units.count(writers, "writer")]
    lines: list[Inline] = [*filter(None, (scene.losses, scene.title)), *_mistakes(scene), *scene.rows]
    if len(scene.tracks) == 1:
        lines.append("one transaction so far: a second one makes a timeline")
    return Drawn("Timeline", scene.table, tuple(marks), tuple(lines), scene=_drawn(scene))


def catalog(timeline: Any) -> View:
    """The view of a :class:`~deltanb.observe.catalog_timeline.CatalogTimeline`: a line a transaction."""
    scene = timeline.scene
    if not scene.tracks:
        return _empty(scene, "no transactions")
    marks = [scene.versions, units.count(scene.num_transactions, "transaction"),
             units.count(scene.num_tables, "table")]
    return Drawn("Timeline", scene.table, tuple(marks),
                 (*filter(None, (scene.losses, scene.title)), *_mistakes(scene), *scene.rows),
                 scene=_drawn(scene))


def _empty(scene: Scene, mark: str) -> View:
    lines: list[Inline] = [*filter(None, (scene.title,)), *_mistakes(scene)]
    return View("Timeline", scene.table, (mark,), tuple(lines))


def _mistakes(scene: Scene) -> list[Inline]:
    return [warn(mistake) for mistake in scene.mistakes]


def _drawn(scene: Scene) -> Scene | None:
    return scene if len(scene.tracks) > 1 else None


@dataclass(frozen=True)
class Drawn(View):
    """A view with the scene that its HTML draws."""

    scene: Scene | None = None


def to_html(view: View, text: str) -> str:
    """The drawing if there is something to compare, else a sentence."""
    scene = view.scene if isinstance(view, Drawn) else None
    if scene is None:
        return html.render(view, text)
    from deltanb.notebook.drawing.timeline_html import render

    return render(scene, text)


def _scene(timeline: Any) -> Scene:
    return Scene(timeline.table, timeline.tracks, timeline.marks, timeline.title, timeline.writers,
                 timeline.errors)


def _catalog_scene(timeline: Any) -> CatalogScene:
    return CatalogScene(timeline.table, timeline.tracks, timeline.marks, timeline.title, timeline.writers,
                        timeline.errors)


def _specification(timeline: Any) -> dict[str, Any]:
    from deltanb.notebook.drawing.timeline_vega import draw

    if not timeline.tracks:
        return {"title": {"text": _nothing(timeline), "anchor": "start", "fontSize": 14},
                "data": {"values": []}, "mark": "point"}
    return draw(timeline.scene)


def _nothing(timeline: Any) -> str:
    return f"{units.clean(timeline.table)}: no commits"


def _spec(timeline: Any) -> dict[str, Any]:
    return chart.offline(_specification(timeline))


def _svg(timeline: Any) -> str:
    from deltanb.notebook.drawing.timeline_svg import draw

    if not timeline.tracks:
        return chart.picture(360.0, 40.0, _nothing(timeline), [chart.label(_nothing(timeline), 14, 24)])
    return draw(timeline.scene)


def _altair(timeline: Any) -> Any:
    return altair(timeline, _specification, "timeline.chart", "The timeline itself is")


DRAWINGS = {"scene": _scene, "spec": _spec, "svg": _svg, "chart": _altair}
CATALOG_DRAWINGS = {**DRAWINGS, "scene": _catalog_scene}
