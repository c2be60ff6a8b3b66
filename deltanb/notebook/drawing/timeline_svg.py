"""The timeline as SVG: a file of its own, for documents and static pages.

What lives here: heading, legend, names, strip and the newest lanes, one below the other, on 960 pixels.
What it does not know: positions of lines (``timeline_lanes``, ``timeline_strip``), the words
(``timeline_scene``).
"""

from __future__ import annotations

from collections.abc import Iterator

from deltanb.notebook.drawing.chart import element, label, line, picture
from deltanb.notebook.drawing.colors import MUTED
from deltanb.notebook.drawing.pens import Fixed, width_of
from deltanb.notebook.drawing.timeline_html import NAME, windows
from deltanb.notebook.drawing.timeline_lanes import AXIS, Lanes, sign
from deltanb.notebook.drawing.timeline_scene import MAX_WRITER, Scene
from deltanb.notebook.drawing.timeline_strip import Strip
from deltanb.text import formatting as units

WIDTH = 960  # pixels: a page of a document
EDGE, RIGHT = 16, 22  # pixels at the left of words, and right of the last sign
LINE = 19  # pixels a line of words takes
LETTER = 13  # pixels of the words around the lanes


def draw(scene: Scene) -> str:
    """The picture."""
    parts: list[str] = []
    y = EDGE + 10.0
    for at, text in enumerate(_heading(scene)):
        look = {"font_weight": 600, "font_size": 15} if at == 0 else {"font_size": LETTER}
        parts.append(label(text, EDGE, y, muted=at > 0, **look))
        y += LINE
    for mistake in scene.mistakes:
        parts.append(label(mistake, EDGE, y, cls="x", font_size=LETTER, font_weight=600))
        y += LINE
    parts += _legend(scene, y)
    y += LINE
    names = max(width_of(units.fit_writer(track.writer, MAX_WRITER), NAME) for track in scene.tracks)
    left = EDGE + names + 16
    width = WIDTH - left - RIGHT
    window = windows(scene)[-1]
    if not scene.is_small:
        parts.append(_strip(scene, left, y, width))
        y += Strip.height + LINE
    lanes = Lanes(scene, window.tracks, window.low, window.high, width)
    parts += _bands(lanes, left, y)
    parts.append(element("g", "".join(lanes.draw(Fixed(width))), transform=f"translate({left:.1f} {y:.1f})"))
    y += lanes.height + AXIS + LINE
    parts.append(label(scene.axis, EDGE, y, muted=True))
    return picture(WIDTH, y + EDGE, scene.sentence, parts)


def _heading(scene: Scene) -> Iterator[str]:
    yield f"{scene.table}: {scene.headline}"
    yield from filter(None, (scene.losses, scene.title))


def _legend(scene: Scene, y: float) -> Iterator[str]:
    pen, x = Fixed(1), float(EDGE + 6)
    for kind, words in scene.legend.items():
        yield element("g", element("g", sign(pen, kind, 0), **pen.look(kind)),
                      transform=f"translate({x:.1f} {y - 4:.1f})")
        yield label(words, x + 12, y, muted=True)
        x += 12 + width_of(words) + 22


def _strip(scene: Scene, left: float, y: float, width: float) -> str:
    low, high = scene.first - 0.5, scene.last + 0.5
    strip = Strip(scene, low, high, width)
    parts = list(strip.draw(Fixed(width)))
    parts += [label(words, -14, at, muted=True, text_anchor="end") for at, words in strip.words]
    window = windows(scene)[-1]
    if (window.low, window.high) != (low, high):
        start = strip.share(window.low) * width
        parts.insert(0, element("rect", x=start, y=0, width=width - start, height=strip.height, cls="m",
                                fill=MUTED, opacity=0.14))
    return element("g", "".join(parts), transform=f"translate({left:.1f} {y:.1f})")


def _bands(lanes: Lanes, left: float, y: float) -> Iterator[str]:
    for at, band in enumerate(lanes.bands):
        if at:
            yield line(f"M{EDGE} {y + band.top:.1f}H{WIDTH - EDGE}", stroke_opacity=0.6)
        yield label(units.fit_writer(band.name, MAX_WRITER), left - 14, y + band.top + band.height / 2 + 5,
                    text_anchor="end", font_weight=600, font_size=LETTER)
