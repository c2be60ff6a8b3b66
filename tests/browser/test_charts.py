"""Charts that were saved as pages, opened without a network: marks, tooltips, zoom, both schemes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from deltanb.notebook.drawing.chart import Chart
from tests.browser.hosts import Reader
from tests.examples import crossed
from tests.notebook.test_charts import compared
from tests.notebook.test_conflict_map import raced
from tests.notebook.test_file_layout_view import layout
from tests.notebook.test_timeline import history

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("vl_convert", reason="vl-convert brings Vega's scripts: pip install 'deltanb[charts]'")

TOOLTIP = "#vg-tooltip-element.visible"
RECT, SIGN = "#chart .mark-rect.role-mark path", "#chart .mark-symbol.role-mark path"
GROUND, INK = ("node => getComputedStyle(node).backgroundColor",
               "node => getComputedStyle(node).fill")
Open = Callable[..., Any]


@pytest.fixture
def open_chart(
    offline: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: Callable[..., bytes]
) -> Open:
    """Opens the saved page of an object's chart in a scheme, and takes a picture of it."""
    monkeypatch.chdir(tmp_path)

    def opened(make: Callable[[], Any], scheme: str = "light") -> Any:
        page = offline.context.new_page()
        page.set_viewport_size({"width": 1000, "height": 800})
        page.emulate_media(color_scheme=scheme)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.problems = problems
        make().chart.save("chart.html")
        page.goto((tmp_path / "chart.html").as_uri())
        expect(page.locator("#chart svg.marks")).to_be_visible()
        picture(page, f"{make.__name__}-{scheme}")
        return page

    return opened


def middle(mark: Any) -> tuple[float, float]:
    """The middle of a mark, in the window."""
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def wide(page: Any) -> float:
    """How wide the bars of a chart are together."""
    return sum(mark.bounding_box()["width"] for mark in page.locator(RECT).all() if mark.bounding_box())


CHARTS: dict[str, tuple[Callable[[], Any], str, list[str]]] = {
    "timeline": (lambda: history(300), SIGN, ["by analyst", "nothing was written"]),
    "conflicts": (raced, RECT, ["landed first", "races"]),
    "layout": (layout, RECT, ["file", "opened"]),
    "diff": (compared, RECT, ["number", "row"]),
}


@pytest.mark.parametrize(("scheme", "name"), crossed(2, ["light", "dark"], list(CHARTS)))
def test_a_saved_chart_has_marks_and_tooltips(
    open_chart: Open, offline: Reader, scheme: str, name: str
) -> None:
    make, marks, words = CHARTS[name]
    page = open_chart(make, scheme)
    assert page.locator(marks).count() >= 4
    expect(page.locator("#chart .role-title-text, #chart .role-title text").first).to_be_visible()
    mark = page.locator(marks).last if marks == SIGN else page.locator(marks).nth(2)
    page.mouse.move(*middle(mark))
    expect(page.locator(TOOLTIP)).to_be_visible()
    text = page.locator(TOOLTIP).inner_text()
    assert all(word in text for word in words), text
    ground = page.locator("body").evaluate(GROUND)
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}[scheme]
    ink = page.locator("#chart .role-title text").first.evaluate(INK)
    assert ink == {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[scheme]
    assert offline.refused == [] and page.problems == []


@pytest.mark.parametrize("make", [layout, compared], ids=["layout", "diff"])
def test_the_wheel_zooms(open_chart: Open, make: Callable[[], Any]) -> None:
    page = open_chart(make)
    before = wide(page)
    page.mouse.move(*middle(page.locator(RECT).nth(2)))
    page.mouse.wheel(0, -400)
    page.wait_for_function(
        "([marks, before]) => Math.abs([...document.querySelectorAll(marks)].reduce("
        "(sum, mark) => sum + mark.getBoundingClientRect().width, 0) - before) > 20", arg=[RECT, before])


def test_a_drag_across_the_strip_chooses_versions(open_chart: Open) -> None:
    page = open_chart(lambda: history(300))
    axis = page.locator("#chart .role-axis-label text").all_inner_texts()
    strip = page.locator("#chart svg.marks").bounding_box()
    top = page.locator(RECT).first.bounding_box()["y"]
    page.mouse.move(strip["x"] + 120, top + 4)
    page.mouse.down()
    page.mouse.move(strip["x"] + 260, top + 4, steps=5)
    page.mouse.up()
    page.wait_for_function(
        "before => [...document.querySelectorAll('#chart .role-axis-label text')]"
        ".map(node => node.textContent).join() !== before.join()", arg=axis)


def test_a_click_chooses_a_pair_and_the_legend_a_kind(open_chart: Open) -> None:
    page = open_chart(raced)
    cell = page.locator(RECT).first
    page.mouse.click(*middle(cell))
    page.wait_for_function("marks => document.querySelector(marks).getAttribute('stroke')", arg=RECT)
    page = open_chart(layout)
    page.locator("#chart .role-legend-label text", has_text="spared").click()
    page.wait_for_function(
        "marks => [...document.querySelectorAll(marks)].some("
        "mark => mark.getAttribute('opacity') === '0.15')",
        arg=RECT)


def test_the_page_follows_the_system_when_its_scheme_changes(open_chart: Open) -> None:
    page = open_chart(layout)
    title_is = f"ink => ({INK})(document.querySelector('#chart .role-title text')) === ink"
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(title_is, arg="rgb(255, 255, 255)")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(title_is, arg="rgb(0, 0, 0)")


def test_on_a_phone_the_chart_scrolls_and_the_page_does_not(open_chart: Open) -> None:
    page = open_chart(layout)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("summary", has_text="In words").click()
    expect(page.get_by_text("opens 3 of 10 files")).to_be_visible()


def test_a_chart_of_ones_own_is_a_page_too(offline: Reader, tmp_path: Path) -> None:
    spec = {"data": {"values": [{"n": 1}, {"n": 2}]}, "mark": "bar",
            "encoding": {"x": {"field": "n", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}}}
    page = offline.context.new_page()
    page.goto(Chart(spec, "two bars").save(tmp_path / "bars.html").as_uri())
    expect(page.locator(RECT)).to_have_count(2)
    assert page.title() == "two bars" and offline.refused == []
