"""Colours can be told apart and read: computed from the stylesheet itself."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from deltanb.notebook.drawing import html
from deltanb.notebook.drawing.colors import ALARM, GROUND, LIGHT_FILL, LINE, MUTED, WORDS, color, variables
from deltanb.notebook.drawing.lock_lanes_svg import TINTS, TONES

TEXT_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
SIGN_CONTRAST = 3.0  # WCAG 2.2, 1.4.11
LEAST_DISTANCE = 21.9  # CIE76, over four kinds of sight; 2.3 is what an eye just notices
PALETTE = ("append", "rewrite", "delete", "optimize", "lost")
# Machado et al. 2009, severity 1: what three kinds of colour blindness leave of linear RGB.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
               (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
               (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
               (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
HOST_GROUNDS = {"light": ["#ffffff"], "dark": ["#111111", "#1e1e1e", "#1f1f1f"]}
"""What JupyterLab and VS Code have behind an output."""
RGB = tuple[float, float, float]


def colors(scheme: str) -> dict[str, str]:
    """Our own colour of every custom property, in the light or the dark scheme."""
    by_name = {}
    for name, value in re.findall(r"--dnb-(\w+):([^;}]+)", html.stylesheet().split("dnb-plain")[0]):
        hexes = re.findall(r"#[0-9a-f]{3,6}", value)
        if hexes:
            by_name[name] = whole(hexes[0 if scheme == "light" else -1])
    return by_name


def whole(color: str) -> str:
    """A colour with two digits for each channel."""
    return "#" + "".join(f"{channel:02x}" for channel in channels(color))


def channels(color: str) -> list[int]:
    """Red, green and blue of ``#rrggbb`` or ``#rgb``."""
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    return [int(digits[i : i + 2], 16) for i in (0, 2, 4)]


def linear(color: str) -> RGB:
    shares = (channel / 255 for channel in channels(color))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return r, g, b


def luminance(color: str) -> float:
    r, g, b = linear(color)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def lab(color: str, sight: str) -> RGB:
    rgb = linear(color)
    seen = (sum(x * y for x, y in zip(row, rgb, strict=True)) for row in SIGHTS[sight])
    r, g, b = (min(1.0, max(0.0, channel)) for channel in seen)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["fg", "muted", "ok", "warn"])
@pytest.mark.parametrize("ground", ["bg", "soft", "tint"])
def test_text_can_be_read(scheme: str, name: str, ground: str) -> None:
    palette = colors(scheme)
    assert contrast(palette[name], palette[ground]) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_frames_and_words_of_drawings_are_those_of_views(scheme: str) -> None:
    palette = colors(scheme)
    expected = {"g": palette["bg"], "t": palette["fg"], "m": palette["muted"], "x": palette["warn"],
                "l": palette["line"]}
    drawn = dict(re.findall(r"--(\w):(#\w+)", variables(dark=scheme == "dark")))
    assert {name: whole(value) for name, value in drawn.items()} == expected
    if scheme == "light":
        assert tuple(expected.values()) == (GROUND, WORDS, MUTED, ALARM, LINE)
        assert {name: expected[name] for name in LIGHT_FILL} == LIGHT_FILL


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PALETTE)
def test_signs_stand_out(scheme: str, name: str) -> None:
    palette = colors(scheme)
    for ground in (palette["bg"], palette["soft"], *HOST_GROUNDS[scheme]):
        assert contrast(palette[name], ground) >= SIGN_CONTRAST
    assert contrast(color(name), palette["bg"]) >= SIGN_CONTRAST  # in pictures that have one colour for both


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["bg", "soft", "tint"])
@pytest.mark.parametrize("name", ["append", "rewrite", "delete", "optimize"])
def test_words_in_the_colour_of_a_sign_can_be_read(scheme: str, name: str, ground: str) -> None:
    palette = colors(scheme)
    mix = rf"color-mix\(in srgb, ?var\(--dnb-{name}\) (\d+)%, ?var\(--dnb-ink\)"
    (share,) = re.findall(mix, html.stylesheet())
    both = [channels(palette[one]) for one in (name, "ink")]
    mixed = [round((a * int(share) + b * (100 - int(share))) / 100) for a, b in zip(*both, strict=True)]
    assert contrast("#" + "".join(f"{channel:02x}" for channel in mixed), palette[ground]) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_the_palette_can_be_told_apart(sight: str, scheme: str) -> None:
    palette = colors(scheme)
    for a, b in itertools.combinations(PALETTE, 2):
        distance = math.dist(lab(palette[a], sight), lab(palette[b], sight))
        assert distance >= LEAST_DISTANCE, (a, b)


def test_the_measures_themselves() -> None:
    assert contrast("#ffffff", "#000000") == contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#56b4e9", "#ffffff") == pytest.approx(2.3, abs=0.1)
    assert lab("#ffffff", "normal") == pytest.approx((100, 0, 0), abs=0.02)
    assert {"fg", "bg", "soft", "tint", "line", *PALETTE} <= set(colors("dark"))


def test_plain_has_no_colour() -> None:
    plain = html.stylesheet().split("dnb-plain", 1)[1]
    assert not re.search(r"#[0-9a-f]{3,6}", plain)
    for name in ("ok", "warn", "tint", "append", "rewrite", "delete", "optimize"):
        assert f"--dnb-{name}:var(--dnb-" in plain


def mixed(front: str, back: str, share: float) -> str:
    pairs = zip(channels(front), channels(back), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_the_bands_of_locks_can_be_read(scheme: str) -> None:
    palette = colors(scheme)
    grounds = [mixed(palette[TONES[mode]], palette["bg"], TINTS[mode]) for mode in TONES]
    waits = mixed(palette["warn"], palette["bg"], 0.08)
    grounds += [waits, *(mixed(palette["warn"], ground, 0.08) for ground in grounds)]  # over what is held
    for ground in grounds:
        assert contrast(palette["fg"], ground) >= TEXT_CONTRAST
    for name in {*TONES.values(), "lost", "warn"}:
        assert contrast(palette[name], palette["bg"]) >= SIGN_CONTRAST
