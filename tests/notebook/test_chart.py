"""The forms of a chart, its colours, and the few marks of an SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import altair
import pytest

import deltanb as dn
from deltanb.notebook.drawing import chart, colors, html
from deltanb.notebook.drawing.chart import SVG, TEXT, VEGALITE, Chart, chart_bundle
from deltanb.options import set_options
from tests.notebook.test_colors import contrast

ALL = {VEGALITE, SVG, TEXT}


def test_no_html_beside_a_chart() -> None:
    assert set(chart_bundle({"mark": "bar"}, "<svg/>", "a bar")) == ALL


def test_only_text_where_only_text_is_wanted() -> None:
    def never() -> None:
        raise AssertionError("made although nobody asked")

    with set_options(display="text"):
        assert chart_bundle(never, never, "a bar") == {TEXT: "a bar"}
    assert chart_bundle(never, never, "a bar", include=[TEXT]) == {TEXT: "a bar"}
    assert set(chart_bundle({}, "<svg/>", "a bar", exclude=[VEGALITE])) == {SVG, TEXT}


def test_a_form_that_fails_leaves_the_others() -> None:
    assert set(chart_bundle(lambda: 1 / 0, "<svg/>", "a bar")) == {SVG, TEXT}
    assert set(chart_bundle({}, lambda: 1 / 0, "a bar")) == {VEGALITE, TEXT}
    assert set(chart_bundle(None, None, "a bar")) == {TEXT}


def test_an_altair_chart_goes_out_as_jupyterlab_draws_it() -> None:
    drawn = altair.Chart(altair.Data(values=[{"a": 1}])).mark_bar().encode(x="a:Q")
    spec = chart_bundle(drawn, None, "a bar")[VEGALITE]
    assert spec["$schema"].endswith("/vega-lite/v5.20.1.json")
    assert spec["config"]["background"] == "transparent"
    assert spec["encoding"]["x"]["field"] == "a"
    assert "background" not in drawn.to_dict()["config"]


def test_what_a_chart_configures_stays() -> None:
    spec = {"mark": "bar", "config": {"axis": {"grid": False}, "background": "white"}}
    assert chart.offline(spec)["config"] == {"axis": {"grid": False}, "background": "transparent"}
    assert spec["config"]["background"] == "white"


def test_a_chart_of_ones_own() -> None:
    assert dn.Chart is Chart
    shown = Chart({"mark": "bar"}, "retries by policy: 3, 5, 9", "<svg/>")
    assert repr(shown) == "retries by policy: 3, 5, 9"
    assert set(shown._repr_mimebundle_()) == ALL


@pytest.mark.parametrize("name", ["append", "rewrite", "delete", "optimize", "lost"])
def test_colours_are_those_of_the_stylesheet(name: str) -> None:
    assert f"--dnb-{name}:light-dark({colors.color(name)}," in html.stylesheet()
    with set_options(colors="plain"):
        assert colors.color(name) == colors.NEUTRAL


def test_the_neutral_grey_stands_out() -> None:
    assert min(contrast(colors.NEUTRAL, ground) for ground in ("#ffffff", "#111111")) >= 3
    assert colors.color("schema") == colors.NEUTRAL


def drawn() -> str:
    parts = [chart.label("a < b & c", 5, 20), chart.label("aside", 5, 40, muted=True)]
    return chart.picture(200, 100, 'what "it" shows', parts)


def test_an_svg_is_one_picture_with_a_name() -> None:
    root = ElementTree.fromstring(drawn())
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'what "it" shows' == root.findtext("{*}title")
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == ["a < b & c", "aside"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<image|url\(", drawn())


def test_words_can_be_read_on_the_ground_that_the_picture_brings() -> None:
    """In both schemes of its sheet, and by attributes alone where a host takes the sheet away."""
    schemes = re.findall(r"--g:(#\w+);--t:(#\w+);--m:(#\w+)", drawn())
    assert len(set(schemes)) == 2
    for ground, *inks in schemes:
        ground = ground if len(ground) == 7 else "#" + "".join(2 * c for c in ground[1:])
        assert all(contrast(ink, ground) >= 4.5 for ink in inks)
    fills = re.findall(r'<text[^>]* fill="(#\w{6})"', drawn())
    assert len(fills) == 2
    assert all(contrast(fill, "#ffffff") >= 4.5 for fill in fills)


def test_numbers_are_short() -> None:
    assert chart.element("circle", r=1.0, cx=0.123) == '<circle r="1" cx="0.1"/>'
    assert chart.element("g", clip_path=None) == "<g/>"
