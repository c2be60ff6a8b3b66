"""The timeline as SVG: for static pages, and wherever no chart is drawn.

What lives here: the strip and the lanes of the newest versions as paths, a few words beside them.
What it does not know: where anything stands, which words are said (``timeline_scene``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deltanb import formatting as units
from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.chart import NEUTRAL, color, element, label, line, picture
from deltanb.notebook.drawing.timeline_scene import MAX_WRITER, Mark, Scene
from deltanb.notebook.drawing.timeline_vega import BAR, BESIDE, ROW, STRIP, WIDTH
from deltanb.observe.tracks import Track

LEFT, RIGHT = 132, 24  # pixels beside the plot: writers' names, half a sign
LINE = 17  # pixels a line of words takes
SIGNS = {
    "append": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "rewrite": "M-4-4h8v8h-8z",
    "delete": "M-5-4h10l-5 9z", "optimize": "M-5 4h10l-5-9z", "schema": "M0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
}  # fmt: skip
CROSS = "l-4-4m8 8l-4-4l-4 4m8-8l-4 4"
MAX_TICKS = 12

Place = Callable[[float], float]


def draw(scene: Scene) -> str:
    """The SVG: words, strip, lanes."""
    words = list(_words(scene))
    strip = _Strip(scene, 40 + LINE * len(words))
    lanes = _Lanes(scene, strip.bottom + 34)
    parts = [*(_word(text, at) for at, text in enumerate(words)),
             *_legend(scene, 22 + LINE * len(words)), *strip.draw(), *lanes.draw()]
    return picture(LEFT + WIDTH + RIGHT, lanes.bottom + 44, scene.sentence, parts)


def _words(scene: Scene) -> Iterator[str]:
    yield f"{scene.table}: {scene.headline}"
    yield from filter(None, (scene.losses, scene.title))


def _word(text: str, at: int) -> str:
    bold = {"font_weight": 600, "font_size": 14} if at == 0 else {}
    return label(text, 14, 24 + LINE * at, muted=at > 0, **bold)


def _legend(scene: Scene, y: float) -> Iterator[str]:
    x = 20
    for kind in scene.kinds:
        yield _sign(kind, x, y)
        yield label(kind, x + 9, y + 4)
        x += 9 + 7 * len(kind) + 22
    if scene.lost:
        yield _cross(x, y)
        words = "lost" if scene.losses else "see remarks"
        yield label(words, x + 9, y + 4)


def _sign(kind: str, x: float, y: float) -> str:
    return element("path", d=SIGNS[kind], transform=f"translate({x:.1f} {y:.1f})", fill=color(kind))


def _cross(x: float, y: float, size: float = 2.2) -> str:
    return element("path", d=f"M{x:.1f} {y:.1f}{CROSS}", stroke=color("lost"), stroke_width=size, fill="none")


def _scale(low: float, high: float) -> Place:
    return lambda value: LEFT + (value - low) / (high - low) * WIDTH


def _axis(scene: Scene, low: float, x: Place, y: float) -> Iterator[str]:
    yield line(f"M{LEFT} {y:.1f}h{WIDTH}")
    for at in layout.ticks(low, scene.last, MAX_TICKS):
        yield line(f"M{x(at):.1f} {y:.1f}v4")
        yield label(at, x(at), y + 17, muted=True, text_anchor="middle")


# -- the strip ---------------------------------------------------------------------------------


class _Strip:
    """All commits: files added upwards, files removed downwards, ✕ above."""

    def __init__(self, scene: Scene, top: float) -> None:
        self.scene, self.top, self.bottom = scene, top + 12, top + 12 + STRIP
        self.high = max((bar.high for bar in scene.bars), default=0)
        self.low = min((bar.low for bar in scene.bars), default=0)
        self.x = _scale(*scene.domain)

    def y(self, files: float) -> float:
        high, low = self._size(self.high or (0 if self.low else 1)), self._size(self.low)
        return self.top + (high - self._size(files)) / (high - low) * STRIP

    def _size(self, files: float) -> float:
        return math.copysign(math.log1p(abs(files)), files) if self.scene.is_log else files

    def draw(self) -> Iterator[str]:
        scene = self.scene
        low, high = scene.window
        if scene.is_cut:
            yield element("rect", x=self.x(low), y=self.top, width=self.x(high) - self.x(low),
                          height=self.bottom - self.top, fill=NEUTRAL, fill_opacity=0.18, stroke=NEUTRAL)
        width = self.x(scene.first + scene.bin) - self.x(scene.first)
        for kind in scene.kinds:
            path = "".join(self._bar(bar) for bar in scene.bars if bar.kind == kind)
            if path:
                yield element("path", d=path, stroke=color(kind), fill="none",
                              stroke_width=max(1.0, min(width * 0.8, float(BAR))))
        yield line(f"M{LEFT} {self.y(0):.1f}h{WIDTH}")
        yield from self._numbers()
        for first, last, _ in scene.lost:
            yield _cross(self.x((first + last) / 2), self.top - 7, 1.6)
        yield from _axis(scene, scene.domain[0], self.x, self.bottom)

    def _bar(self, bar: layout.Bar) -> str:
        x, low, high = self.x((bar.first + bar.last) / 2), self.y(bar.low), self.y(bar.high)
        if bar.low == bar.high:
            return f"M{x:.1f} {low - 1.5:.1f}v3"
        return f"M{x:.1f} {low:.1f}V{high:.1f}"

    def _numbers(self) -> Iterator[str]:
        yield label("files + −", 14, self.y(0) + 4, muted=True)
        for files in {self.high, 0, self.low}:
            sign = "+" if files > 0 else "−" if files < 0 else ""
            if files == 0 or abs(self.y(files) - self.y(0)) > LINE * 0.7:
                yield label(f"{sign}{units.number(abs(files))}", LEFT - 8, self.y(files) + 4, muted=True,
                            text_anchor="end")


# -- the lanes ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A transaction in view: from where to where, as far as the window shows it."""

    track: Track
    y: float
    start: float
    end: float


class _Lanes:
    """The transactions in the window, a lane for each writer."""

    def __init__(self, scene: Scene, top: float) -> None:
        self.scene, self.top = scene, top
        self.low, self.high = scene.window
        seen = [track for track in scene.shown if track.version > self.low]
        self.x = _scale(self.low, self.high)
        self.step = ROW * (2 if scene.has_labels else 1)
        places = layout.lanes([scene.span(track) for track in seen], owners=scene.writers)
        self.lanes = places.lanes
        self.bottom = top + places.height * self.step
        self.lines = [
            _Line(track, top + (row + 0.5) * self.step, max(track.start, self.low), track.version)
            for track, row in zip(seen, places.rows, strict=True)]

    def draw(self) -> Iterator[str]:
        for lane in self.lanes:
            if lane.first:
                y = self.top + (lane.first - self.scene.clearance) * self.step
                yield line(f"M{LEFT} {y:.1f}h{WIDTH}", stroke_opacity=0.6)
            name = units.fit(lane.name, MAX_WRITER)
            yield label(name, LEFT - 8, self.top + (lane.middle + 0.5) * self.step + 4, text_anchor="end")
        yield from self._ties()
        for one in self.lines:
            yield from self._track(one)
        yield line(f"M{LEFT} {self.top:.1f}V{self.bottom:.1f}")
        yield from _axis(self.scene, self.low, self.x, self.bottom)
        yield label(self.scene.axis, LEFT + WIDTH / 2, self.bottom + 35, muted=True, text_anchor="middle")

    def _ties(self) -> Iterator[str]:
        y = {id(one.track): one.y for one in self.lines}
        for tied in self.scene.ties:
            at = [y[id(track)] for track in tied if id(track) in y]
            if len(at) > 1:
                is_whole = tied[0].is_committed
                look = {"stroke": NEUTRAL} if is_whole else {
                    "stroke": color("lost"), "stroke_dasharray": "2 3"}
                x = self.x(tied[0].version) + (0 if is_whole else BESIDE)
                yield element("path", d=f"M{x:.1f} {min(at):.1f}V{max(at):.1f}",
                              stroke_width=2, fill="none", **look)

    def _track(self, one: _Line) -> Iterator[str]:
        track, y = one.track, one.y
        crosses = [version for version in self.scene.crosses(track) if version >= self.low]
        solid = max(one.start, crosses[-1]) if crosses else one.start
        if crosses:
            yield element("path", d=f"M{self.x(one.start):.1f} {y:.1f}H{self.x(crosses[-1]):.1f}",
                          stroke=color("lost"), stroke_width=2, stroke_dasharray="5 4", fill="none")
        if track.is_committed:
            if solid < one.end:
                yield element("path", d=f"M{self.x(solid):.1f} {y:.1f}H{self.x(one.end):.1f}",
                              stroke=color(track.kind), stroke_width=2.5, fill="none")
            yield _sign(track.kind, self.x(one.end), y)
        for version in crosses:
            yield _cross(self.x(version), y)
        if self.scene.has_labels:
            gap = self.scene.label_gap
            side, dx = ("start", gap - 4) if self.scene.is_label_right(track) else ("end", 4 - gap)
            yield label(self.scene.label(track), self.x(one.end) + dx, y - 8, muted=True, text_anchor=side,
                        font_size=11)
        mark = self.scene.mark(track)
        if mark is not None:
            yield from self._mark(mark, self.x(one.end), y)

    def _mark(self, mark: Mark, x: float, y: float) -> Iterator[str]:
        if mark.sign == "✕":
            yield element("circle", cx=x, cy=y, r=8.5, fill="none", stroke=color("lost"), stroke_width=2)
        yield label(self.scene.remark(mark), x + 12, y + 4, font_size=11)
