"""The timeline as HTML: as wide as its cell, in the page's font and colours.

What lives here: what is around the lanes (heading, legend, writers' names, the strip on which windows of a
long history are chosen), and how much of it fits into an output.
What it does not know: positions of lines (``timeline_lanes``), the words (``timeline_scene``).

There is no script. A long history is drawn in windows, each behind a radio button that covers its part of the
strip; the chosen one is shown. A short history has a drawing for each of three widths, and the page shows the
widest one that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltanb.notebook.drawing import html, layout
from deltanb.notebook.drawing.chart import element
from deltanb.notebook.drawing.html import Markup, tag
from deltanb.notebook.drawing.pens import Fluid, width_of
from deltanb.notebook.drawing.timeline_lanes import AXIS, Lanes, sign
from deltanb.notebook.drawing.timeline_scene import MAX_WRITER, Scene
from deltanb.notebook.drawing.timeline_strip import Strip
from deltanb.observe.tracks import Track
from deltanb.text import formatting as units

SHEET = "timeline.css"
BROAD, WIDE, NARROW = 1100, 760, 440  # pixels of a cell from which on a drawing is shown; as in timeline.css
NAME = 15  # pixels: 13, and bold
FOOT, CHOICE = 1_000, 250  # bytes kept for the words below, and for the button of a window
ROOM = 14  # pixels of a line of words
BESIDE = 34  # pixels beside names and lanes
NAMES = (70, 170)  # pixels that names get, at least and at most
NARROW_NAMES = 110  # in a narrow cell


@dataclass(frozen=True)
class Window:
    """Some transactions, and the places they are drawn over."""

    tracks: Sequence[Track]
    low: float
    high: float

    def words(self, scene: Scene) -> str:
        """The places in words."""
        return f"{scene.tick(round(self.low + 0.5))} to {scene.tick(round(self.high - 0.5))}"


def windows(scene: Scene) -> list[Window]:
    """The parts of a history that are shown one at a time, oldest first."""
    shown = scene.shown
    start, last = min(track.start for track in shown), scene.last
    if scene.is_small:
        return [Window(shown, start, last)]
    first = min(track.version for track in shown)
    size = -(-(last - first + 1) // -(-(last - first + 1) // layout.WINDOW))
    parts = []
    for low in range(first, last + 1, size):
        tracks = [track for track in shown if low <= track.version < low + size]
        parts.append(Window(tracks, low - 0.5, min(low + size, last + 1) - 0.5))
    return [window for window in parts if window.tracks]


def render(scene: Scene, text: str) -> str:
    """The timeline as an output; for a long history, as many of the newest windows as fit."""
    names = _width_of_names(scene)
    strip = Markup("") if scene.is_small else _strip(scene, names)
    room = html.MAX_BYTES - FOOT - _bytes(html.document(
        html.join(html.part(*_head(scene)), strip), text, [SHEET]))
    fitting: list[Window] = []
    drawn: list[Markup] = []
    for window in reversed(windows(scene)):
        window, lanes = _fitting(scene, window, names, room if not drawn else None)
        room -= _bytes(lanes) + CHOICE
        if drawn and room < 0:
            break
        fitting.append(window)
        drawn.append(lanes)
    if len(fitting) > 1:
        drawn = [html.join(_choice(scene, window), tag("div", lanes, cls="dnb-window"))
                 for window, lanes in zip(fitting, drawn, strict=True)][::-1]
        drawn[-1] = Markup(drawn[-1].replace("<input ", "<input checked ", 1))
    # Buttons of a form are one group; method="dialog" sends nothing anywhere.
    around = ("form", {"method": "dialog"}) if len(fitting) > 1 else ("div", {})
    body = tag(around[0], strip, *drawn, cls="dnb-tl", style=_style(names), **around[1])
    return html.document(
        html.join(html.part(*_head(scene)), body, html.part(*_foot(scene, fitting))), text, [SHEET])


def within(scene: Scene) -> Markup:
    """The newest window as a part of another object's picture, whose document needs :data:`SHEET`."""
    names = _width_of_names(scene)
    drawn = _drawings(scene, windows(scene)[-1], names)
    return html.join(tag("p", *_legend(scene), cls="dnb-keys"),
                     tag("div", *drawn, cls="dnb-tl", style=_style(names)))


def _width_of_names(scene: Scene) -> float:
    widths = (width_of(units.fit_writer(name, MAX_WRITER), NAME) + 6
              for name in {track.writer for track in scene.shown})
    return min(NAMES[1], max(NAMES[0], *widths))


def _style(names: float) -> str:
    return f"--n:{names:.0f}px;--m:{min(names, NARROW_NAMES):.0f}px"


def _fitting(scene: Scene, window: Window, names: float, room: int | None) -> tuple[Window, Markup]:
    """A window drawn; if not all fits, without the broadest drawing, then with fewer transactions."""
    drawn = html.join(_drawings(scene, window, names))
    is_broad = True
    while room is not None and _bytes(drawn) > room and len(window.tracks) > 1:
        if not is_broad or not scene.is_small:
            window = replace(window, tracks=window.tracks[len(window.tracks) // 2 :])
        is_broad = False
        drawn = html.join(_drawings(scene, window, names, is_broad))
    return window, drawn


def _bytes(drawn: str) -> int:
    return len(drawn.encode("utf-8", "replace"))


# -- around it -----------------------------------------------------------------------------------


def _head(scene: Scene) -> Iterator[Markup]:
    yield tag("p", tag("span", "Timeline", cls="dnb-muted"), " ",
              tag("b", units.clean(scene.table), cls="dnb-name"), " ", scene.headline)
    if scene.losses:
        races, _, seen = scene.losses.partition(" (")
        lost, _, failed = races.rpartition(", ") if scene.num_failed else (races, "", "")
        yield tag("p", lost, ", " if lost and failed else None,
                  tag("b", failed, cls="dnb-warn") if failed else None,
                  tag("span", f" ({seen}", cls="dnb-muted"))
    if scene.title:
        yield tag("p", units.clean(scene.title))
    for mistake in scene.mistakes:
        yield tag("p", tag("b", mistake, cls="dnb-warn"))
    yield tag("p", *_legend(scene), cls="dnb-keys")


def _legend(scene: Scene) -> Iterator[Markup]:
    for kind, words in scene.legend.items():
        yield tag("span", _key(kind), f" {words} ")


def _key(kind: str) -> Markup:
    pen = Fluid()
    drawn = element("g", sign(pen, kind, 0), **pen.look(kind))
    return Markup(element("svg", drawn, viewBox="-8 -8 16 16", width=16, height=16, cls="dnb-key"))


def _foot(scene: Scene, windows: Sequence[Window]) -> Iterator[Markup]:
    remark = scene.axis
    if not scene.is_small and scene.is_log:
        remark += "; the strip counts files on a log scale"
    if len(windows) > 1:
        remark += f"; click on the strip to see other {scene.unit}s"
    yield tag("p", remark, cls="dnb-muted")
    first = min(track.version for track in windows[-1].tracks)
    if first > scene.first:
        yield tag("p", f"lanes hold {scene.place(first)} and later; timeline(start, end) shows others",
                  cls="dnb-muted")


# -- the drawings --------------------------------------------------------------------------------


def _strip(scene: Scene, names: float) -> Markup:
    low, high = scene.first - 0.5, scene.last + 0.5
    strip = Strip(scene, low, high, WIDE - names - BESIDE)
    beside = [tag("span", words, style=f"top:{y - ROOM:.0f}px") for y, words in strip.words]
    if all(abs(y - 7 - strip.zero) > ROOM for y, _ in strip.words):
        beside.append(tag("span", "files", style=f"top:{strip.zero - 7:.0f}px"))
    return tag("div", tag("div", beside, cls="dnb-scale"),
               _plot(scene.sentence, strip.height, strip.draw(Fluid())), cls="dnb-strip",
               style=f"height:{strip.height}px")


def _choice(scene: Scene, window: Window) -> Markup:
    """The button that shows a window; it covers its part of the strip."""
    low, high = scene.first - 0.5, scene.last + 0.5
    start, wide = (window.low - low) / (high - low), (window.high - window.low) / (high - low)
    words = window.words(scene)
    button = tag("input", cls="dnb-pick", type="radio", name="window", title=words,
                 style=f"--f:{start:.4f};--w:{wide:.4f}", **{"aria-label": words})
    return Markup(button.removesuffix("</input>"))


def _drawings(scene: Scene, window: Window, names: float, is_broad: bool = True) -> Iterator[Markup]:
    narrow = NARROW - min(names, NARROW_NAMES) - BESIDE
    if not scene.is_small:
        yield _lanes(scene, window, narrow, "")
        return
    if is_broad:
        yield _lanes(scene, window, BROAD - names - BESIDE, "dnb-broad")
    yield _lanes(scene, window, WIDE - names - BESIDE, "dnb-wide dnb-mid" if is_broad else "dnb-wide")
    yield _lanes(scene, window, narrow, "dnb-narrow")


def _lanes(scene: Scene, window: Window, width: float, cls: str) -> Markup:
    lanes = Lanes(scene, window.tracks, window.low, window.high, width)
    bands = [
        tag("div", tag("b", units.fit_writer(units.clean(band.name), MAX_WRITER)), cls="dnb-band",
            style=f"height:{band.height:g}px") for band in lanes.bands]
    drawn = _plot(scene.sentence, lanes.height + AXIS, lanes.draw(Fluid()))
    return tag("div", bands, drawn, cls=f"dnb-lanes {cls}".rstrip())


def _plot(sentence: str, height: float, parts: Iterator[str]) -> Markup:
    return Markup(element("svg", "".join(parts), cls="dnb-plot", height=height, role="img",
                          aria_label=units.clean(sentence)))
