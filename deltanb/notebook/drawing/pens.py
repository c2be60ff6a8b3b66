"""Two ways to draw one picture: as wide as its cell, or of a width of its own.

What lives here: how shares of a width become places: percentages in a page, pixels in a file. How wide words
are, estimated without setting them.
What it does not know: what is drawn.
"""

from __future__ import annotations

from typing import Any, Protocol

from deltanb.notebook.drawing.chart import element
from deltanb.notebook.drawing.colors import LIGHT_FILL as _LIGHT
from deltanb.notebook.drawing.colors import WORDS, color

FONT = 12  # pixels: the smallest letters of a picture
NARROW = frozenset("iljtfrI.,:;'|!()[]{}\"/\\ ")
WIDE = frozenset("MWmw%@—…+−=<>≥≤✕○")
THIN = ("again", "leader")  # looks of thin lines
LETTERS = {"narrow": 4.8, "usual": 7.3, "capital": 8.3, "wide": 10.2}
"""Pixels a letter of 12 takes in DejaVu Sans, the widest of the fonts that pages use."""


class Pen(Protocol):
    """Draws at places that are shares of a width, from 0 to 1."""

    def x(self, share: float) -> str:
        """A place, as an attribute."""

    def sign(self, share: float, y: float, path: str, **attributes: Any) -> str:
        """A shape that keeps its form, around a place."""

    def look(self, tone: str) -> dict[str, Any]:
        """The attributes that colour a mark: of a kind, ``lost``, ``failed``, ``again`` or ``leader``."""

    def tone(self, name: str) -> dict[str, Any]:
        """The same for marks without a kind: "" for words, ``m`` for muted ones, ``x`` for bad news, ``g``
        for the background within a sign, ``h`` for invisible marks that react to the mouse."""

    def bars(self, marks: list[tuple[float, float, float]], height: float, wide: float) -> str:
        """Upright bars (place, from, to), all of the same width."""


class Fluid:
    """A pen for a picture as wide as the element it is in."""

    def x(self, share: float) -> str:
        """A percentage.

        >>> Fluid().x(0.25), Fluid().x(1 / 3)
        ('25%', '33.3%')
        """
        return _number(100 * share) + "%"

    def sign(self, share: float, y: float, path: str, **attributes: Any) -> str:
        """A nested drawing with its middle at the place."""
        return element("svg", element("path", d=path, **attributes), x=self.x(share), y=y or None)

    def look(self, tone: str) -> dict[str, Any]:
        """A class of the stylesheet, so that the colour follows the page's theme."""
        return {"cls": f"k-{tone}"}

    def tone(self, name: str) -> dict[str, Any]:
        """A class of the stylesheet."""
        return {"cls": name} if name else {}

    def bars(self, marks: list[tuple[float, float, float]], height: float, wide: float) -> str:
        """Stretched with the width."""
        d = "".join(f"M{_number(1000 * at)} {_number(low)}V{_number(high)}" for at, low, high in marks)
        path = element("path", d=d, fill="none", stroke_width=f"{1000 * wide:.1f}")
        return element("svg", path, width="100%", height=height, viewBox=f"0 0 1000 {height:g}",
                       preserveAspectRatio="none")


class Fixed:
    """A pen for a picture of a fixed width in pixels."""

    def __init__(self, width: float) -> None:
        self.width = width

    def x(self, share: float) -> str:
        """Pixels.

        >>> Fixed(640).x(0.25)
        '160'
        """
        return _number(share * self.width)

    def sign(self, share: float, y: float, path: str, **attributes: Any) -> str:
        """A shape moved to its place."""
        return element("path", d=path, transform=f"translate({self.x(share)} {_number(y)})", **attributes)

    def look(self, tone: str) -> dict[str, Any]:
        """Attributes for hosts without styles, and the class that turns them for the dark scheme."""
        greys = dict.fromkeys(("lost", *THIN), _LIGHT["m"])
        drawn = {**greys, "failed": _LIGHT["x"]}.get(tone) or color(tone)
        width = 1 if tone in THIN else 2
        return {"cls": f"k-{tone}", "fill": drawn, "stroke": drawn, "stroke_width": width}

    def tone(self, name: str) -> dict[str, Any]:
        """An attribute, and the class that turns it for the dark scheme."""
        if name == "h":
            return {"cls": "h", "opacity": 0}
        return {"cls": name, "fill": _LIGHT[name]} if name else {"fill": WORDS}

    def bars(self, marks: list[tuple[float, float, float]], height: float, wide: float) -> str:
        """One path."""
        d = "".join(f"M{self.x(at)} {_number(low)}V{_number(high)}" for at, low, high in marks)
        return element("path", d=d, fill="none", stroke_width=f"{wide * self.width:.1f}")


def width_of(words: str, size: float = FONT) -> float:
    """How many pixels words take at most.

    >>> width_of("WRITE +1") < width_of("UPDATE +1 −1") < 100
    True
    """
    return sum(map(letter_width, words)) * size / FONT


def letter_width(char: str) -> float:
    """How many pixels a letter of :data:`FONT` takes at most."""
    if char in NARROW:
        return LETTERS["narrow"]
    if char in WIDE or ord(char) > 0x2E00:
        return LETTERS["wide"] * (1.2 if ord(char) > 0x2E00 else 1)
    return LETTERS["capital" if char.isupper() else "usual"]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
