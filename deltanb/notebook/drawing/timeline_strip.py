"""The strip of a timeline drawn: all its commits as bars, files added upwards and files removed downwards.

What lives here: how high and wide the bars are, and the signs above them.
What it does not know: the lanes below, which part of it they show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deltanb.notebook.drawing import layout
from deltanb.notebook.drawing.chart import element
from deltanb.notebook.drawing.colors import LINE
from deltanb.notebook.drawing.pens import Pen
from deltanb.notebook.drawing.timeline_lanes import sign
from deltanb.notebook.drawing.timeline_scene import Scene
from deltanb.text import formatting as units

HEIGHT = 64  # pixels of the bars
SIGNS = 18  # pixels above them
WIDEST = 10  # pixels of a bar where there are few
FILLED = 0.7  # of its place that a bar fills
LEAST = 3  # pixels of a bar that counts anything


class Strip:
    """All commits of a scene, over the places from ``low`` to ``high``, for a width in pixels."""

    height = HEIGHT + SIGNS

    def __init__(self, scene: Scene, low: float, high: float, width: float) -> None:
        self.scene, self.low, self.high = scene, low, high
        self.most = max((bar.high for bar in scene.bars), default=0)
        self.least = min((bar.low for bar in scene.bars), default=0)
        self.bar = min(WIDEST / width, FILLED * scene.bin / (high - low))
        """The share of the width that a bar has."""

    @property
    def zero(self) -> float:
        """The zero line, in pixels from the top."""
        return SIGNS + self._y(0)

    @property
    def words(self) -> list[tuple[float, str]]:
        """The labels beside it with their positions: the largest counts."""
        labels: list[tuple[float, str]] = [(SIGNS + 8, f"+{units.number(self.most)}")] if self.most else []
        labels += [(SIGNS + HEIGHT, f"−{units.number(-self.least)}")] if self.least else []
        return labels

    def share(self, at: float) -> float:
        """A place as a share of the width, from 0 to 1."""
        return (at - self.low) / (self.high - self.low)

    def _y(self, files: float) -> float:
        high, low = self._size(self.most), self._size(self.least)
        return (high - self._size(files)) / (high - low or 1) * HEIGHT

    def _size(self, files: float) -> float:
        return math.copysign(math.log1p(abs(files)), files) if self.scene.is_log else files

    def draw(self, pen: Pen) -> Iterator[str]:
        """The bars, their zero line, the signs above."""
        bars = []
        for kind in self.scene.kinds:
            marks = [self._bar(bar) for bar in self.scene.bars if bar.kind == kind]
            if marks:
                bars.append(element("g", pen.bars(marks, HEIGHT, self.bar), **pen.look(kind)))
        yield element("g", "".join(bars), transform=f"translate(0 {SIGNS})")
        yield element("line", x1=0, x2=pen.x(1), y1=self.zero, y2=self.zero, cls="l", stroke=LINE)
        for kind, places in (("lost", self.scene.lost), ("failed", self.scene.ends)):
            signs = [sign(pen, kind, self.share((first + last) / 2), SIGNS / 2) for first, last, _ in places]
            if signs:
                yield element("g", "".join(signs), **pen.look(kind))

    def _bar(self, bar: layout.Bar) -> tuple[float, float, float]:
        low, high = self._y(bar.low), self._y(bar.high)
        if low - high < LEAST:  # a commit of no files is there, too
            middle = (low + high) / 2
            low, high = min(HEIGHT, middle + LEAST / 2), max(0, middle - LEAST / 2)
        return self.share((bar.first + bar.last) / 2), low, high
