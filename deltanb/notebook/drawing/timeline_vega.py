"""The timeline as Vega-Lite, with its tooltips.

What lives here: the specification of the chart, as a value. Building it from Altair's objects would need
Altair and more than the 50 ms a picture may take; it is a valid Altair chart all the same.
What it does not know: positions and words (``timeline_scene``).

All layers of the lanes have the same scale on x, whose domain is the window. If a single layer lacked it,
Vega-Lite would drop the window for all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deltanb.notebook.drawing.colors import NEUTRAL, color
from deltanb.notebook.drawing.labels import Box
from deltanb.notebook.drawing.timeline_lanes import Lanes
from deltanb.notebook.drawing.timeline_scene import MAX_WRITER, Scene
from deltanb.observe.tracks import KINDS, Track
from deltanb.text import formatting as units

WIDTH = 640  # pixels; with the writers' names, what a cell of JupyterLab has beside an open side bar
STRIP = 64
ROW = 17
SHAPES = {"append": "circle", "rewrite": "square", "delete": "triangle-down",
          "optimize": "triangle-up", "schema": "diamond"}  # fmt: skip
CROSS = "M-.7,-.7L.7,.7M-.7,.7L.7,-.7"
WORDS = {"type": "text", "style": "guide-label", "filled": False, "strokeWidth": 0, "baseline": "middle"}
"""Words in the colour of the host's theme: an unfilled text is given none of its own."""
BESIDE = 8  # pixels right of its signs that what failed is tied: another one landed at the same place
BAR = 10  # pixels a bar is wide at most
WHOLE: dict[str, Any] = {
    "format": "d", "tickMinStep": 1, "labelExpr": "datum.value % 1 ? '' : datum.label",
    "tickOpacity": {"condition": {"test": "datum.value % 1 === 0", "value": 1}, "value": 0}}
"""Versions and files are whole numbers: on an axis of one or two, the smallest step alone leaves halves."""
_TIP_LOST = [{"field": "text", "title": "lost"}]
X = {"type": "quantitative", "scale": {"domain": {"param": "window"}, "nice": False, "zero": False}}


def draw(scene: Scene) -> dict[str, Any]:
    """The chart: strip and lanes, one above the other."""
    return {
        "title": {"text": f"{scene.table}: {scene.headline}", "anchor": "start", "fontSize": 14,
                  "subtitle": [*filter(None, (scene.losses, scene.title)), *scene.mistakes,
                               *filter(None, ("; ".join(filter(None, (
                                   f"drag across the strip to choose {scene.unit}s" if scene.is_cut else "",
                                   scene.together, scene.older))),))]},
        "datasets": _data(scene),
        "vconcat": [_strip(scene), _lanes(scene)],
        "spacing": 12,
        "resolve": {"scale": {"color": "shared", "shape": "shared"}},
        "config": {"view": {"stroke": None}, "axis": {"grid": False, "titleFontWeight": "normal"},
                   "legend": {"orient": "top", "title": None, "symbolOpacity": 1}},
    }


def _color(scene: Scene) -> dict[str, Any]:
    scale = {"domain": scene.kinds, "range": [color(kind) for kind in scene.kinds]}
    return {"field": "kind", "type": "nominal", "scale": scale, "title": None}


def _versions(scene: Scene) -> dict[str, Any]:
    """The axis of versions; beyond the last one there is room for words."""
    if scene.domain[1] < scene.last + 1:
        return WHOLE
    none = f"datum.value % 1 || datum.value > {scene.last}"
    return {**WHOLE, "labelExpr": f"{none} ? '' : datum.label",
            "tickOpacity": {"condition": {"test": none, "value": 0}, "value": 1}}


# -- the strip ---------------------------------------------------------------------------------


def _strip(scene: Scene) -> dict[str, Any]:
    x = {"field": "a", "type": "quantitative", "title": None,
         "axis": _versions(scene),
         "scale": {"domain": list(scene.domain), "nice": False, "zero": False}}
    y = {"field": "y", "type": "quantitative", "title": "files + −",
         "scale": {"type": "symlog" if scene.is_log else "linear"},
         "axis": {**WHOLE, "tickCount": 3}}
    tips = [{"field": "first", "title": f"from {scene.unit}"}, {"field": "last", "title": f"to {scene.unit}"},
            {"field": "kind"}, {"field": "files"}]
    select = {"type": "interval", "encodings": ["x"],
              "mark": {"fill": NEUTRAL, "fillOpacity": 0.25, "stroke": NEUTRAL}}
    window = {"name": "window", "select": select}
    if scene.is_cut:
        window["value"] = {"x": list(scene.window)}
    dot = {"type": "point", "size": 14, "filled": True, "shape": "diamond"}
    return {
        "width": WIDTH, "height": STRIP,
        "encoding": {"x": x},
        "layer": [
            {"data": {"name": "bars"}, "params": [window],
             "transform": [{"filter": "datum.y != datum.z"}, *_unpacked(scene)],
             "mark": {"type": "bar"},
             "encoding": {"x2": {"field": "b"}, "y": y, "y2": {"field": "z"}, "color": _color(scene),
                          "tooltip": tips}},
            {"data": {"name": "bars"},
             "transform": [{"filter": "datum.y == datum.z"}, *_unpacked(scene),
                           {"calculate": "(datum.a + datum.b) / 2", "as": "a"}],
             "mark": dot, "encoding": {"y": y, "color": _color(scene)}},
            *({"data": {"name": "lost"}, "mark": _end(failed, 40), "transform": [_those(failed)],
               "encoding": {"y": {"value": -6}, "tooltip": [{"field": "text", "title": "lost"}]}}
              for failed in (False, True)),
        ],
    }


def _unpacked(scene: Scene) -> list[dict[str, str]]:
    """The extent of a bar: with a gap if there is room for one, and never very wide."""
    low, high = scene.domain
    pixel = (high - low) / WIDTH
    wide = min(scene.bin * (0.8 if scene.bin > 2 * pixel else 1), BAR * pixel)
    start = (scene.bin - wide) / 2 - 0.5
    made = {"a": f"datum.v + {start:.4g}", "b": f"datum.a + {wide:.4g}", "first": "datum.v",
            "last": f"datum.v + {scene.bin - 1}", "kind": f"{json.dumps(KINDS)}[datum.k]",
            "files": "abs(datum.z - datum.y)"}
    return [{"calculate": how, "as": name} for name, how in made.items()]


# -- the lanes ---------------------------------------------------------------------------------


def _lanes(scene: Scene) -> dict[str, Any]:
    lanes = scene.lanes
    height = ROW * lanes.height * (2 if scene.has_labels else 1)
    x: dict[str, Any] = {**X, "field": "v", "title": scene.axis, "axis": _versions(scene)}
    y = {"field": "y", "type": "quantitative", "axis": None,
         "scale": {"domain": [-0.6, lanes.height - 0.4], "reverse": True, "nice": False, "zero": False}}
    tips = [{"field": name} for name in (*scene.tips, *(["attempt"] if scene.runs else []))]
    color_of = _color(scene)

    def layer(data: str, mark: dict[str, Any], **encoding: Any) -> dict[str, Any]:
        return {"data": {"name": data}, "mark": {"clip": True, **mark}, "encoding": encoding}

    layers = [
        layer("ends", {"type": "rule", "opacity": 0}, x=x),  # what is in view where nothing is chosen
        layer("edges", {"type": "rule", "color": NEUTRAL, "opacity": 0.3, "clip": False}),
        layer("tracks", {"type": "rule", "strokeWidth": 2.5}, x={**x, "field": "from"},
              x2={"field": "v"}, color=color_of, tooltip=tips),
        *([_tie(layer, x, is_lost) for is_lost in (False, True)] if scene.ties else []),
        *([layer("again", {"type": "rule", "strokeWidth": 1, "color": NEUTRAL}, x=x, x2={"field": "to"},
                 y2={"field": "y2"})] if scene.again else []),
        *({**layer("dashed", {"type": "rule", "strokeWidth": 2, "strokeDash": [6, 4] if failed else [1, 4],
                              "color": color("lost") if failed else NEUTRAL},
                   x={**x, "field": "s"}, x2={"field": "v"}), "transform": [_those(failed)]}
          for failed in (False, True)),
        layer("tracks", {"type": "point", "filled": True, "size": 80, "opacity": 1}, x=x, color=color_of,
              shape={"field": "kind", "type": "nominal", "title": None,
                     "scale": {"domain": scene.kinds, "range": [SHAPES[kind] for kind in scene.kinds]}},
              tooltip=tips),
        *({**layer("crosses", _end(failed, 90), x=x, tooltip=_TIP_LOST), "transform": [_those(failed)]}
          for failed in (False, True)),
        layer("names", {**WORDS, "align": "right", "clip": False}, x={"value": -8}, text={"field": "name"}),
    ]
    if scene.marks or scene.failed:
        ring = {"type": "point", "shape": "circle", "size": 240, "stroke": color("lost"), "strokeWidth": 2,
                "opacity": 1, "fill": "transparent"}
        layers.append({**layer("marks", ring, x=x), "transform": [{"filter": "datum.ring"}]})
        layers.append(layer("marks", {**WORDS, "align": "left", "dx": 11}, x=x, text={"field": "words"},
                            tooltip=[{"field": "version"}, {"field": "text", "title": "remark"}]))
    if scene.older:
        opacity = {"expr": f"window.a && window.a[1] < {scene.shown[0].version} ? 1 : 0"}
        layers.insert(0, layer("older", {"type": "rect", "color": NEUTRAL, "opacity": 0.15}, x=x,
                               x2={"field": "to"}, y={"value": 0}, y2={"value": height}))
        layers.append(layer("older", {**WORDS, "opacity": opacity, "align": "center"},
                            x={"value": WIDTH / 2}, text={"field": "text"}))
    if scene.has_labels:
        align = {"expr": "datum.right ? 'left' : 'right'"}
        # Outside the window with its dot: a label that lay over the names would move the whole chart.
        opacity = {"expr": "window.a && (datum.v < window.a[0] || datum.v > window.a[1]) ? 0 : 1"}
        gap = {"dx": {"expr": "datum.right ? 5 : -5"}}
        layers.append(layer("labels", {**WORDS, "align": align, "dy": -12, **gap, "opacity": opacity}, x=x,
                            text={"field": "label"}))
    return {"width": WIDTH, "height": height, "encoding": {"y": y}, "layer": layers}


def _end(is_failed: bool, size: int) -> dict[str, Any]:
    """A bold ✕ where a transaction failed; a hollow circle where it lost a race and went on."""
    look = {"shape": CROSS, "stroke": color("lost"), "strokeWidth": 3} if is_failed else {
        "shape": "circle", "stroke": NEUTRAL, "strokeWidth": 2, "fill": "transparent"}
    return {"type": "point", "size": size, "opacity": 1, **look}


def _those(is_failed: bool) -> dict[str, str]:
    return {"filter": "datum.failed" if is_failed else "!datum.failed"}


def _tie(layer: Callable[..., dict[str, Any]], x: dict[str, Any], is_lost: bool) -> dict[str, Any]:
    """Lines between the tracks of one transaction, dashed if it failed."""
    mark = {"type": "rule", "strokeWidth": 2, "color": color("lost") if is_lost else NEUTRAL,
            **({"strokeDash": [2, 3], "xOffset": BESIDE} if is_lost else {})}
    return {**layer("ties", mark, x=x, y2={"field": "to"}),
            "transform": [{"filter": "datum.lost" if is_lost else "!datum.lost"}]}


# -- the data ----------------------------------------------------------------------------------


def _data(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    low, high = scene.domain
    data: dict[str, list[dict[str, Any]]] = {
        "bars": _bars(scene),
        "lost": [{"a": (first + last) / 2, "text": _lost_in(scene, first, last, count, failed),
                  "failed": failed}
                 for failed, places in ((False, scene.lost), (True, scene.ends))
                 for first, last, count in places],
        "names": [{"y": lane.middle, "name": units.fit_writer(lane.name, MAX_WRITER)}
                  for lane in scene.lanes.lanes],
        "edges": [{"y": lane.first - 0.5 - scene.clearance} for lane in scene.lanes.lanes[1:]],
        "ends": [{"v": low, "y": 0}, {"v": high, "y": 0}],
        "older": [{"v": low, "to": scene.shown[0].version - 0.5, "y": (scene.lanes.height - 1) / 2,
                   "text": scene.older}],
        "tracks": [], "dashed": [], "crosses": [], "marks": [], "labels": [],
        **_ties(scene), **_again(scene),
    }
    # Over all versions words have the least room: where fewer are in view, none overlap either.
    lines = Lanes(scene, scene.shown, *scene.domain, WIDTH, max_tiers=1).lines
    for line, row in zip(lines, scene.lanes.rows, strict=True):
        track = line.track
        place = {"v": track.version, "y": row}
        if track.is_committed:
            data["tracks"].append({**place, **_line(scene, track)})
        at = scene.crosses(track)
        data["crosses"] += [
            {"v": version, "y": row, "text": _lost(scene, track, version),
             "failed": not track.is_committed and version == track.version} for version in at]
        if at:
            data["dashed"].append(
                {"s": track.start, "v": at[-1], "y": row, "failed": not track.is_committed})
        mark = scene.mark(track)
        beside = _words(line.beside)
        if mark is None and beside:
            data["marks"].append({**place, "words": beside, "text": beside, "version": f"v{track.version}",
                                  "ring": False})
        if mark is not None:
            data["marks"].append({**place, "words": beside if scene.has_words else mark.sign,
                                  "text": f"{mark.sign} {mark.words}",
                                  "version": f"v{track.version}", "ring": mark.sign == "✕"})
        if scene.has_labels and line.above is not None:
            data["labels"].append(
                {**place, "label": _words(line.above), "right": line.above.aside > 0})
    return data


def _words(box: Box | None) -> str:
    return "" if box is None else " ".join(words for words, _ in box.parts)


def _bars(scene: Scene) -> list[dict[str, Any]]:
    """The bars in as few characters as possible: there may be thousands."""
    return [{"v": bar.first, "y": bar.low, "z": bar.high, "k": KINDS.index(bar.kind)} for bar in scene.bars]


def _line(scene: Scene, track: Track) -> dict[str, Any]:
    start = track.crosses[-1] if track.crosses else track.start
    attempt = {"attempt": scene.attempt(track)} if scene.runs else {}
    return {"from": start, "kind": track.kind, **scene.tip(track), **attempt}


def _ties(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    """Lines from the top to the bottom track of a transaction; empty if there are none."""
    row = dict(zip(map(id, scene.shown), scene.lanes.rows, strict=True))
    ties = [(tied[0], [row[id(track)] for track in tied]) for tied in scene.ties]
    return {"ties": [{"v": one.version, "y": min(rows), "to": max(rows), "lost": not one.is_committed}
                     for one, rows in ties]} if ties else {}


def _again(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    """Lines from the end of an attempt to the next one at the same work; empty if there are none."""
    row = dict(zip(map(id, scene.shown), scene.lanes.rows, strict=True))
    links = [{"v": one.version, "y": row[id(one)], "to": other.start, "y2": row[id(other)]}
             for one, other in scene.again]
    return {"again": links} if links else {}


def _lost(scene: Scene, track: Track, version: int) -> str:
    """The tooltip of a lost race, or of a failed transaction with all that is known about it."""
    if track.is_committed or version != track.version:
        winner = scene.winner(track, version)
        return scene.place(version) + (f" to {winner.operation} {scene.whose(winner)}" if winner else "")
    return "; ".join(scene.describe(track))


def _lost_in(scene: Scene, first: int, last: int, count: int, is_failed: bool) -> str:
    what = f"{count} failed" if is_failed else f"{units.count(count, 'race')} lost on the way"
    where = scene.place(first) if first == last else f"{scene.place(first)} to {scene.place(last)}"
    return f"{what}, {where}"
