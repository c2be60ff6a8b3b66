"""The colours of drawings: those of operations are the stylesheet's, those of frames and words are here.

What lives here: every colour that a drawing or a page has, in the light and in the dark scheme.
What it does not know: what is drawn. ``style.css`` has the colours of views, and of operations everywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache

from deltanb.notebook.drawing import html
from deltanb.options import options

NEUTRAL = "#7a7a7a"  # 4.3:1 on white and 4.4:1 on #111: lines and signs, no text
GROUND, WORDS, MUTED, ALARM, LINE = "#ffffff", "#1f2328", "#57606a", "#a33f00", "#d0d7de"
"""The light scheme; attributes of an SVG have it where styles are stripped."""
_DARK = {"g": "#111", "t": "#e6e6e6", "m": "#a0a0a0", "x": "#ff8f4a", "l": "#444"}
_LIGHT = {"g": "#fff", "t": WORDS, "m": MUTED, "x": ALARM, "l": LINE}
LIGHT_FILL = {"g": GROUND, "m": MUTED, "x": ALARM}
"""By the class of what is filled."""


def variables(dark: bool) -> str:
    """A scheme as CSS variables: ground, text, muted text, alarm, line."""
    return ";".join(f"--{name}:{value}" for name, value in (_DARK if dark else _LIGHT).items())


def both(name: str) -> str:
    """One of the :func:`variables` as CSS that follows the page's scheme.

    >>> both("t")
    'light-dark(#1f2328,#e6e6e6)'
    """
    return f"light-dark({_LIGHT[name]},{_DARK[name]})"


@lru_cache(maxsize=1)
def _palette() -> dict[str, str]:
    """The colours of the light scheme, which stand out on the dark scheme's ground, too: a picture of its own
    has one of them alone."""
    palette = re.findall(r"--dnb-(\w+):light-dark\((#[0-9a-f]{6})", html.stylesheet())
    return {**dict(palette), "schema": NEUTRAL}


def color(name: str) -> str:
    """A colour of the stylesheet that stands out on white and on black; grey if colours are off.

    >>> color("append"), color("lost") != color("delete")
    ('#568de0', True)
    """
    return NEUTRAL if options.colors == "plain" else _palette()[name]
