"""The map of conflicts on a page, in a saved file and as a chart in JupyterLab."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from deltanb.notebook.drawing.chart import VEGALITE
from tests.browser.hosts import Reader, Server, shown
from tests.browser.test_pages import BOX, HOSTS, page_of
from tests.examples import crossed
from tests.notebook.test_conflict_map import crowd, raced

pytestmark = pytest.mark.browser
GROUND = "node => getComputedStyle(node).fill"
COLOURS = {True: "rgb(17, 17, 17)", False: "rgb(255, 255, 255)"}
MAPS = {"a few writers": raced, "a crowd": lambda: crowd(300)}


@pytest.mark.parametrize("host", HOSTS)
def test_maps_have_the_scheme_of_their_host(browser: Any, host: str) -> None:
    html, body, scheme, is_dark = HOSTS[host]
    page = page_of(browser, raced(), html=html, body=body, scheme=scheme)
    assert {node.evaluate(GROUND) for node in page.query_selector_all("svg > rect.g")} == {COLOURS[is_dark]}


@pytest.mark.parametrize(("width", "name"), crossed(2, [420, 700, 1100], list(MAPS)))
def test_nothing_of_a_map_is_cut_or_shrunk(browser: Any, name: str, width: int) -> None:
    """What is wider than its cell scrolls there, and the page does not."""
    page = page_of(browser, MAPS[name](), width)
    pictures = page.query_selector_all(".dnb-scroll svg")
    assert len(pictures) == 3
    for picture in pictures:
        left, right, top, bottom = picture.evaluate(BOX)
        assert abs(right - left - float(picture.get_attribute("width"))) < 1
        for words in picture.query_selector_all("text"):
            a, b, c, d = words.evaluate(BOX)
            assert left <= a and b <= right + .5 and top <= c and d <= bottom + .5, words.text_content()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", MAPS)
def test_words_of_a_map_stand_clear_of_each_other(browser: Any, name: str) -> None:
    page = page_of(browser, MAPS[name](), 1100)
    for picture in page.query_selector_all(".dnb-scroll svg"):
        level = picture.query_selector_all("text:not([transform])")
        boxes = [words.evaluate(BOX) for words in level if words.text_content()]
        for (a, b, c, d), (e, f, g, h) in itertools.combinations(boxes, 2):
            assert min(b, f) - max(a, e) <= 1 or min(d, h) - max(c, g) <= 3


def test_a_saved_page_needs_nothing_from_elsewhere(browser: Any, tmp_path: Path) -> None:
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    saved = raced().save(tmp_path / "map.html")
    page.goto(saved.as_uri())
    expect(page.get_by_text("Hours of the day", exact=True)).to_be_visible()
    page.locator("summary", has_text="most races at").click()
    expect(page.get_by_role("cell", name="09 h", exact=True)).to_be_visible()
    assert asked == [saved.as_uri()]


@pytest.mark.slow
def test_the_chart_is_drawn_in_jupyterlab(
    reader: Reader, server: Server, theme: str, picture: Callable[..., bytes]
) -> None:
    chart = {VEGALITE: raced().spec, "text/plain": str(raced())}
    page = reader.open(server.write(f"conflict-map-{theme}", shown(chart)))
    expect(page.locator(".vega-embed canvas")).to_be_visible()
    picture(page)
