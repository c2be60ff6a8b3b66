"""The timeline as Vega-Lite.

What lives here: the specification of the chart, as a value. Building it from Altair's objects would take
more than the 50 ms a picture may take, and Altair itself; it is a valid chart of Altair all the same.
What it does not know: where anything stands, which words are said (``timeline_scene``).

All layers of the lanes have the same scale on x, whose domain is the window: a single one without it,
and Vega-Lite drops the window for all.
"""

from __future__ import annotations

from typing import Any

from deltanb.notebook import units
from deltanb.notebook.chart import NEUTRAL, color
from deltanb.notebook.timeline_rows import Track
from deltanb.notebook.timeline_scene import MAX_WRITER, Scene, files, reason

WIDTH = 640  # pixels; with the writers' names, what a cell of JupyterLab has beside an open side bar
STRIP = 64
ROW = 17
SYMLOG_FROM = 100  # files in one bar from which small bars would vanish beside it
SHAPES = {"append": "circle", "rewrite": "square", "delete": "triangle-down",
          "optimize": "triangle-up", "schema": "diamond"}  # fmt: skip
CROSS = "M-.7,-.7L.7,.7M-.7,.7L.7,-.7"
WORDS = {"style": "guide-label"}  # drawn in the colour of the host's theme
X = {"type": "quantitative", "scale": {"domain": {"param": "window"}, "nice": False, "zero": False}}


def draw(scene: Scene) -> dict[str, Any]:
    """The chart: strip and lanes, one above the other."""
    return {
        "title": {"text": f"{scene.table}: {scene.headline}", "anchor": "start", "fontSize": 14,
                  "subtitle": [*filter(None, (scene.losses, scene.title)),
                               "drag across the strip to choose versions"]},
        "datasets": _data(scene),
        "vconcat": [_strip(scene), _lanes(scene)],
        "spacing": 12,
        "resolve": {"scale": {"color": "shared", "shape": "shared"}},
        "config": {"view": {"stroke": None}, "legend": {"orient": "top", "title": None},
                   "axis": {"grid": False}},
    }


def _color(scene: Scene) -> dict[str, Any]:
    scale = {"domain": scene.kinds, "range": [color(kind) for kind in scene.kinds]}
    return {"field": "kind", "type": "nominal", "scale": scale, "title": None}


# -- the strip ---------------------------------------------------------------------------------


def _strip(scene: Scene) -> dict[str, Any]:
    tall = max((max(bar.high, -bar.low) for bar in scene.bars), default=0)
    x = {"field": "a", "type": "quantitative", "title": None,
         "axis": {"format": "d", "tickMinStep": 1},
         "scale": {"domain": [scene.first - 0.5, scene.last + 0.5], "nice": False, "zero": False}}
    y = {"field": "y", "type": "quantitative", "title": "files + −",
         "scale": {"type": "symlog" if tall > SYMLOG_FROM else "linear"},
         "axis": {"tickCount": 3, "format": "d", "tickMinStep": 1}}
    of_bins = [{"field": "a", "title": "from version"}, {"field": "b", "title": "before version"}]
    low, high = scene.window
    select = {"type": "interval", "encodings": ["x"],
              "mark": {"fill": NEUTRAL, "fillOpacity": 0.15, "stroke": NEUTRAL}}
    window = {"name": "window", "select": select}
    if low > scene.first:
        window["value"] = {"x": [low, high]}
    cross = {"type": "point", "shape": CROSS, "size": 30, "stroke": color("lost"), "strokeWidth": 2}
    dot = {"type": "point", "size": 14, "filled": True, "shape": "diamond"}
    return {
        "width": WIDTH, "height": STRIP,
        "encoding": {"x": x},
        "layer": [
            {"data": {"name": "bars"}, "params": [window],
             "transform": [{"filter": "datum.y != datum.z"},
                           {"calculate": "abs(datum.z - datum.y)", "as": "files"}],
             "mark": {"type": "bar"},
             "encoding": {"x2": {"field": "b"}, "y": y, "y2": {"field": "z"}, "color": _color(scene),
                          "tooltip": [*of_bins, {"field": "kind"}, {"field": "files"}]}},
            {"data": {"name": "bars"},
             "transform": [{"filter": "datum.y == datum.z"},
                           {"calculate": "(datum.a + datum.b) / 2", "as": "a"}],
             "mark": dot, "encoding": {"y": y, "color": _color(scene)}},
            {"data": {"name": "lost"}, "mark": cross,
             "encoding": {"y": {"value": -6},
                          "tooltip": [{"field": "text", "title": "lost"}]}},
        ],
    }


# -- the lanes ---------------------------------------------------------------------------------


def _lanes(scene: Scene) -> dict[str, Any]:
    lanes = scene.lanes
    title = "version: a line leads from the version read to the version committed"
    if scene.losses:
        title += "; dashed up to ✕, a race lost"
    x: dict[str, Any] = {**X, "field": "v", "title": title,
                         "axis": {"format": "d", "tickMinStep": 1, "titleFontWeight": "normal"}}
    y = {"field": "y", "type": "quantitative", "axis": None,
         "scale": {"domain": [-0.6, lanes.height - 0.4], "reverse": True, "nice": False, "zero": False}}
    told = [{"field": name} for name in
            ("version", "read version", "operation", "writer", "files", "bytes", "retries", "outcome")]
    color_of = _color(scene)

    def layer(data: str, mark: dict[str, Any], **encoding: Any) -> dict[str, Any]:
        return {"data": {"name": data}, "mark": {"clip": True, **mark}, "encoding": encoding}

    cross = {"type": "point", "shape": CROSS, "size": 70, "stroke": color("lost"), "strokeWidth": 2.5}
    layers = [
        layer("edges", {"type": "rule", "color": NEUTRAL, "opacity": 0.3, "clip": False}),
        layer("tracks", {"type": "rule", "strokeWidth": 2.5, "opacity": 0.8}, x={**x, "field": "from"},
              x2={"field": "v"}, color=color_of, tooltip=told),
        layer("dashed", {"type": "rule", "strokeWidth": 2, "strokeDash": [4, 3], "color": color("lost")},
              x={**x, "field": "s"}, x2={"field": "v"}),
        layer("tracks", {"type": "point", "filled": True, "size": 80, "opacity": 1}, x=x, color=color_of,
              shape={"field": "kind", "type": "nominal", "title": None,
                     "scale": {"domain": scene.kinds, "range": [SHAPES[kind] for kind in scene.kinds]}},
              tooltip=told),
        layer("crosses", cross, x=x, tooltip=[{"field": "text", "title": "lost"}, *told[2:4]]),
        layer("names", {"type": "text", "align": "right", "baseline": "middle", "clip": False, **WORDS},
              x={"value": -8}, text={"field": "name"}),
    ]
    if scene.marks:
        layers.append(layer("marks", {**cross, "size": 160, "shape": {"expr": "datum.shape"}}, x=x,
                            tooltip=[{"field": "version"}, {"field": "text", "title": "remark"}]))
        layers.append(layer("marks", {"type": "text", "align": "left", "baseline": "middle", "dx": 10,
                                      **WORDS}, x=x, text={"field": "text"}))
    if scene.has_labels:
        layers.append(layer("tracks", {"type": "text", "align": "right", "baseline": "bottom", "dy": -5,
                                       "dx": 2, "clip": False, **WORDS}, x=x, text={"field": "label"}))
    return {"width": WIDTH, "height": ROW * lanes.height * (2 if scene.has_labels else 1),
            "encoding": {"y": y}, "layer": layers}


# -- the data ----------------------------------------------------------------------------------


def _data(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    tracks, dashed, crosses, marks = [], [], [], []
    for track, row in zip(scene.shown, scene.lanes.rows, strict=True):
        at = track.crosses
        if track.is_committed:
            tracks.append(_track(scene, track, row))
            mark = scene.marks.get(track.version)
            if mark is not None:
                shape = CROSS if mark.sign == "✕" else "M-.8,0L-.2,.6L.9,-.7"
                marks.append({"v": track.version, "y": row, "text": f"{mark.sign} {mark.words}",
                              "version": f"v{track.version}", "shape": shape})
        if at:
            dashed.append({"s": track.start, "v": at[-1], "y": row})
        for version in at:
            crosses.append({"v": version, "y": row, "text": f"v{version}: {_lost(track, version)}",
                            "operation": track.operation, "writer": track.writer})
    lanes = scene.lanes.lanes
    return {
        "bars": [{"a": bar.first - 0.5, "b": bar.last + 0.5, "y": bar.low, "z": bar.high,
                  "kind": bar.kind} for bar in scene.bars],
        "lost": [{"a": (first + last) / 2, "text": _lost_in(first, last, races)}
                 for first, last, races in scene.lost],
        "tracks": tracks, "dashed": dashed, "crosses": crosses, "marks": marks,
        "names": [{"y": lane.middle, "name": units.fit(lane.name, MAX_WRITER)} for lane in lanes],
        "edges": [{"y": lane.first - 0.5} for lane in lanes[1:]],
    }


def _track(scene: Scene, track: Track, row: int) -> dict[str, Any]:
    crosses = track.crosses
    read = "not recorded" if track.read_version is None else f"v{track.read_version}"
    told = {
        "v": track.version, "from": crosses[-1] if crosses else track.start, "y": row,
        "kind": track.kind, "version": f"v{track.version}", "read version": read,
        "operation": track.operation, "writer": track.writer, "files": files(track),
        "bytes": f"+{units.size(track.written)} −{units.size(track.gone)}",
        "retries": "not seen" if track.lost is None else str(len(track.lost)),
    }
    if scene.has_labels:
        told["label"] = scene.label(track)
    return told


def _lost(track: Track, version: int) -> str:
    if track.is_committed or version != track.version:
        return "someone was faster"
    return reason(track) or track.outcome


def _lost_in(first: int, last: int, races: int) -> str:
    where = f"v{first}" if first == last else f"v{first} to v{last}"
    return f"{units.count(races, 'race')} at {where}"
