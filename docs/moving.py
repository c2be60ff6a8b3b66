"""README's moving picture, a conflict as it happens: ``python docs/moving.py``.

What lives here: the attempts of the race in README's first example as an SVG whose parts appear one after the
other, by CSS alone, so that it moves where scripts do not run. Whoever asks for less motion sees the end.
What it does not know: how a race runs, or which colours there are.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # where it runs as a script

from docs.pictures import PICTURES, example  # noqa: E402

PICTURE = PICTURES / "race.svg"
WIDTH, LEFT, TOP, LANE, COLUMN = 860, 110, 62, 58, 250
"""Pixels: of all of it, left of version 0, above the first lane, of a lane, of a version."""
STEP, HOLD = 1.1, 5.0
"""Seconds: between two parts that appear, and of the whole picture before it begins again."""
STILL = "@media (prefers-reduced-motion:reduce){.dnb-svg .part{animation:none!important;opacity:1!important}}"


def draw(tracks: Sequence[Any], writers: Sequence[str]) -> str:
    """The attempts of a race, in the order in which they began to commit, as an SVG that moves."""
    from deltanb.notebook.drawing import colors

    parts = list(_parts(tracks, {name: TOP + LANE * at for at, name in enumerate(writers)}))
    cycle = STEP * len(parts) + HOLD
    height = TOP + LANE * len(writers) + 6
    begins = [100 * STEP * at / cycle for at in range(len(parts))]
    moves = STILL + "".join(f"@keyframes p{at}{{0%,{begin:.1f}%{{opacity:0}}{begin + 2:.1f}%,97%{{opacity:1}}"
                            "100%{opacity:0}}" for at, begin in enumerate(begins))
    base = (f".dnb-svg{{{colors.variables(False)};font:14px system-ui,'Segoe UI',Roboto,sans-serif}}"
            f"@media (prefers-color-scheme:dark){{.dnb-svg{{{colors.variables(True)}}}}}"
            ".dnb-svg text{fill:var(--t)}.dnb-svg .m{fill:var(--m)}.dnb-svg .x{fill:var(--x)}"
            ".dnb-svg line{stroke:var(--l)}")
    newest = max(track.version for track in tracks)
    still = [f'<text x="{_x(version)}" y="26" text-anchor="middle" class="m">v{version}</text>'
             f'<line x1="{_x(version)}" x2="{_x(version)}" y1="36" y2="{height - 8}"/>'
             for version in range(newest + 1)]
    still += [f'<text x="12" y="{TOP + LANE * at + 5}">{escape(name)}</text>'
              for at, name in enumerate(writers)]
    moving = [f'<g class="part" style="animation:p{at} {cycle:.1f}s linear infinite">{part}</g>'
              for at, part in enumerate(parts)]
    words = escape(_words(tracks))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{words}" class="dnb-svg">',
        f"<title>{words}</title><style>{base}{moves}</style>",
        *still, *moving, "</svg>", ""])


def _parts(tracks: Sequence[Any], lanes: dict[str, int]) -> Iterator[str]:
    """What appears, one after the other: who reads which version, who tries which, and how each try ends."""
    from deltanb.notebook.drawing import colors

    yield "".join(f'<circle cx="{_x(track.read_version)}" cy="{lanes[track.writer]}" r="6" fill="none" '
                  f'stroke="{colors.color(track.kind)}" stroke-width="2"/>' for track in tracks)
    for track in sorted(tracks, key=_began):
        colour, y, at = colors.color(track.kind), lanes[track.writer], track.read_version
        for lost in track.lost:
            sign = f'<text x="{_x(lost) - 6}" y="{y + 6}" class="x" font-size="18">✕</text>'
            if track.outcome != "failed":
                sign = (f'<circle cx="{_x(lost)}" cy="{y}" r="6" fill="var(--g)" '
                        f'stroke="{colour}" stroke-width="2"/>')
            yield _way(at, lost, y, colour) + sign + _ending(track, lost, y)
            at = lost
        if track.outcome == "committed":
            yield (_way(at, track.version, y, colour)
                   + f'<circle cx="{_x(track.version)}" cy="{y}" r="7" fill="{colour}"/>'
                   + f'<text x="{_x(track.version) + 14}" y="{y - 10}">{escape(track.operation)} ✓</text>')


def _began(track: Any) -> tuple[int, bool, bool]:
    """The order of attempts: who won a version before who lost it, and who failed before who went on."""
    return (track.lost or (track.version,))[0], bool(track.lost), track.outcome == "committed"


def _ending(track: Any, lost: int, y: int) -> str:
    """What happened at a version that somebody else had."""
    words, kind = f"v{lost} is taken, no conflict: on to v{lost + 1}", "m"
    if track.outcome == "failed":
        reason = "".join(word.capitalize() for word in track.reason.split("_"))
        words, kind = f"{reason}: nothing was written", "x"
    return f'<text x="{_x(lost) + 14}" y="{y - 10}" class="{kind}">{escape(words)}</text>'


def _way(start: int, end: int, y: int, colour: str) -> str:
    return f'<path d="M{_x(start) + 7} {y}H{_x(end) - 8}" stroke="{colour}" stroke-width="3" fill="none"/>'


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
