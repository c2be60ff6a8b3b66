"""A timeline in miniature above a slider: a bar at each of its stops.

What lives here: the markup of the bars: files added upwards, files removed downwards.
What it does not know: the slider, how commits are read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from html import escape

from deltanb.observe.tracks import Track
from deltanb.text import formatting as units

HEIGHT = 36  # pixels
MIDDLE = 20  # where nothing is counted: more comes than goes
WIDEST = 2.5  # per cent of the width that a bar has where there are few
LEAST = 2  # pixels of a commit that moved no file
HALO = "color-mix(in srgb, var(--dnb-fg) 14%, transparent)"


def draw(stops: Sequence[int], tracks: Iterable[Track], at: Collection[int]) -> str:
    """The bars of the stops, those of the versions ``at`` on a tint; empty for fewer than two stops.

    >>> draw([3], [], [3])
    ''
    >>> draw([0, 1], [Track(1, 0, "DELETE", "Donald", "delete", removed=2)], [1]).count("<title>")
    1
    """
    known = {track.version: track for track in tracks if track.is_committed}
    if len(stops) < 2 or not known:
        return ""
    most = max(math.log1p(max(track.added, track.removed)) for track in known.values()) or 1
    width = min(WIDEST, 70 / len(stops))
    parts = []
    for place, version in enumerate(stops):
        left = 100 * place / (len(stops) - 1) - width / 2
        if version in at:
            parts.append(_rect(left - width / 2, 2 * width, 0, HEIGHT, HALO))
        if version in known:
            parts.append(_bar(known[version], left, width, most))
    shown = units.count(sum(version in known for version in stops), "commit")
    sentence = f"{shown}, a bar each: files added upwards, files removed downwards"
    return (f'<div class="dnb"><svg role="img" aria-label="{sentence}" width="100%" height="{HEIGHT}" '
            f'style="display:block;overflow:visible">{"".join(parts)}</svg></div>')


def _bar(track: Track, left: float, width: float, most: float) -> str:
    up = MIDDLE * math.log1p(track.added) / most
    down = (HEIGHT - MIDDLE) * math.log1p(track.removed) / most
    if up + down < LEAST:
        up = down = LEAST / 2
    tip = (f"v{track.version} {track.operation} by {track.writer}, "
           f"+{units.number(track.added)} −{units.number(track.removed)} files")
    fill = f"var(--dnb-{track.kind}, var(--dnb-muted))"
    return _rect(left, width, MIDDLE - up, up + down, fill, f"<title>{escape(units.clean(tip))}</title>")


def _rect(left: float, width: float, top: float, height: float, fill: str, inner: str = "") -> str:
    return (f'<rect x="{left:.2f}%" width="{width:.2f}%" y="{top:.1f}" height="{height:.1f}" '
            f'style="fill:{fill}">{inner}</rect>')
