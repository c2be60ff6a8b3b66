"""A checkup and a layout as pages: seen whole in either scheme, narrow and wide, without the network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb.observe.checkup import checkup
from tests.browser.hosts import Reader
from tests.browser.test_pages import page_of
from tests.notebook.test_checkup_view import needy
from tests.notebook.test_file_layout_view import layout

pytestmark = [pytest.mark.browser, pytest.mark.slow]
BOX = "node => { const box = node.getBoundingClientRect(); return [box.left, box.width] }"
OBJECTS: dict[str, Callable[[], Any]] = {"checkup": lambda: checkup(needy().store), "layout": layout}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 500])
@pytest.mark.parametrize("name", OBJECTS)
def test_it_is_seen_whole_at_every_width(
    browser: Any, name: str, width: int, scheme: str, picture: Callable[..., bytes]
) -> None:
    page = page_of(browser, OBJECTS[name](), width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.query_selector(".dnb-rich").is_visible() and not page.query_selector(".dnb-text").is_visible()
    picture(page)
    page.close()


@pytest.mark.parametrize("name", OBJECTS)
def test_a_saved_page_asks_for_nothing(offline: Reader, name: str, tmp_path: Path) -> None:
    file = OBJECTS[name]().save(tmp_path / "page.html")
    page = offline.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert page.locator(".dnb-rich").is_visible()


def test_a_finding_unfolds_to_its_figures(browser: Any) -> None:
    page = page_of(browser, checkup(needy().store), 1000)
    figure = page.query_selector("text=files_to_rewrite")
    assert not figure.is_visible()
    page.query_selector("summary:has-text('11 files')").click()
    assert figure.is_visible()
    page.close()


def test_bars_lie_where_their_values_do_and_the_stretch_behind_them(browser: Any) -> None:
    page = page_of(browser, layout(), 1000)
    bars = [bar.evaluate(BOX) for bar in page.query_selector_all("svg rect.l:not(.g, .x)")]
    lefts = [left for left, _ in bars[:8]]
    assert lefts == sorted(lefts) and len(set(lefts)) == 8
    start, wide = bars[8]
    [[left, stretch]] = [bar.evaluate(BOX) for bar in page.query_selector_all("svg rect.x")]
    assert (left - start) / wide == pytest.approx(20 / 67, abs=0.01)
    assert stretch / wide == pytest.approx(5 / 67, abs=0.01)
    page.close()
