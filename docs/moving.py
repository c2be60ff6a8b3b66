"""README's moving picture, a conflict as it happens: ``python docs/moving.py``.

What lives here: the attempts of the race in README's first example as an SVG whose parts appear one after the
other, by CSS alone, so that it moves where scripts do not run. Whoever asks for less motion sees the end.
What it does not know: how a race runs, which colours there are, how a picture is made (``drawing/chart``).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # where it runs as a script

from deltanb.notebook.drawing import chart, colors  # noqa: E402
from docs.pictures import PICTURES, example  # noqa: E402

PICTURE = PICTURES / "race.svg"
WIDTH, LEFT, TOP, LANE, COLUMN = 860, 110, 62, 58, 250
"""Pixels: of all of it, left of version 0, above the first lane, of a lane, of a version."""
STEP, HOLD = 1.1, 5.0
"""Seconds: between two parts that appear, and of the whole picture before it begins again."""
STILL = "@media (prefers-reduced-motion:reduce){.dnb-svg .part{animation:none!important;opacity:1!important}}"
WORDS, LOUD = 14, 18
"""Pixels of letters: of words, of a sign."""


def draw(tracks: Sequence[Any], writers: Sequence[str]) -> str:
    """The attempts of a race, in the order in which they began to commit, as an SVG that moves."""
    appearing = list(_parts(tracks, {name: TOP + LANE * at for at, name in enumerate(writers)}))
    cycle = STEP * len(appearing) + HOLD
    height = TOP + LANE * len(writers) + 6
    begins = [100 * STEP * at / cycle for at in range(len(appearing))]
    moves = STILL + "".join(f"@keyframes p{at}{{0%,{begin:.1f}%{{opacity:0}}{begin + 2:.1f}%,97%{{opacity:1}}"
                            "100%{opacity:0}}" for at, begin in enumerate(begins))
    parts = [f"<style>{moves}</style>"]
    for version in range(max(track.version for track in tracks) + 1):
        name = f"v{version}"
        parts += [chart.label(name, _x(version), 26, muted=True, text_anchor="middle", font_size=WORDS),
                  chart.line(f"M{_x(version)} 36V{height - 8}")]
    parts += [chart.label(name, 12, TOP + LANE * at + 5, font_size=WORDS) for at, name in enumerate(writers)]
    parts += [chart.element("g", part, cls="part", style=f"animation:p{at} {cycle:.1f}s linear infinite")
              for at, part in enumerate(appearing)]
    return chart.picture(WIDTH, height, _words(tracks), parts) + "\n"


def _parts(tracks: Sequence[Any], lanes: dict[str, int]) -> Iterator[str]:
    """What appears, one after the other: who reads which version, who tries which, and how each try ends."""
    yield "".join(_ring(_x(track.read_version), lanes[track.writer], colors.color(track.kind))
                  for track in tracks)
    for track in sorted(tracks, key=_began):
        colour, y, at = colors.color(track.kind), lanes[track.writer], track.read_version
        for lost in track.lost:
            yield _way(at, lost, y, colour) + _ending(track, lost, y, colour)
            at = lost
        if track.outcome == "committed":
            yield (_way(at, track.version, y, colour)
                   + chart.element("circle", cx=_x(track.version), cy=y, r=7, fill=colour)
                   + chart.label(f"{track.operation} ✓", _x(track.version) + 14, y - 10, font_size=WORDS))


def _began(track: Any) -> tuple[int, bool, bool]:
    """The order of attempts: who won a version before who lost it, and who failed before who went on."""
    return (track.lost or (track.version,))[0], bool(track.lost), track.outcome == "committed"


def _ending(track: Any, lost: int, y: int, colour: str) -> str:
    """What happened at a version that somebody else had."""
    x, size = _x(lost), {"font_size": WORDS}
    if track.outcome != "failed":
        return _ring(x, y, colour) + chart.label(
            f"v{lost} is taken, no conflict: on to v{lost + 1}", x + 14, y - 10, muted=True, **size)
    reason = "".join(word.capitalize() for word in track.reason.split("_"))
    return (chart.element("text", "✕", x=x - 6, y=y + 6, cls="x", fill=colors.ALARM, font_size=LOUD)
            + chart.element("text", f"{reason}: nothing was written", x=x + 14, y=y - 10, cls="x",
                            fill=colors.ALARM, **size))


def _ring(x: int, y: int, colour: str) -> str:
    return chart.element(
        "circle", cx=x, cy=y, r=6, cls="g", fill=colors.GROUND, stroke=colour, stroke_width=2)


def _way(start: int, end: int, y: int, colour: str) -> str:
    return chart.element("path", d=f"M{_x(start) + 7} {y}H{_x(end) - 8}", stroke=colour, stroke_width=3,
                         fill="none")


def _x(version: int) -> int:
    return LEFT + COLUMN * version


def _words(tracks: Sequence[Any]) -> str:
    ends = []
    for one in tracks:
        lost = f" after losing v{one.lost[0]}" if one.lost else ""
        end = f"commits v{one.version}" if one.outcome == "committed" else "fails"
        ends.append(f"{one.writer} {end}{lost}")
    return f"{len(tracks)} jobs read v0 of one table and commit: {', '.join(ends)}."


def made() -> str:
    """The picture, of README's first example run anew."""
    with tempfile.TemporaryDirectory() as folder:
        race = example(Path(folder))["race"]
    return draw(race.tracks, list(race.outcomes))


if __name__ == "__main__":
    PICTURE.write_text(made(), "utf-8")
    print(PICTURE)
