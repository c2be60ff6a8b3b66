"""The files of a scan as they lie on a page: bars as long as what they stand for, at every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltanb.log.skipping.explain import explain
from tests.browser.test_pages import page_of
from tests.log.test_explain import flights
from tests.notebook.test_magic import asked

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WIDTH = "node => node.getBoundingClientRect().width"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1000, 500])
def test_bars_are_as_long_as_what_they_stand_for(
    browser: Any, width: int, scheme: str, picture: Callable[..., bytes]
) -> None:
    plan = explain(flights(), "month < 3 AND delay >= 30 AND speed > 5")
    page = page_of(browser, plan, width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tracks = [track.evaluate(WIDTH) for track in page.query_selector_all(".dnb-track")]
    left = [bar.evaluate(WIDTH) for bar in page.query_selector_all(".dnb-left")]
    assert len(set(tracks)) == 1 and tracks[0] > width / 4
    assert [round(6 * bar / track) for bar, track in zip(left, tracks, strict=True)] == [6, 4, 1]
    words = page.query_selector_all(".dnb-bar > span:first-child")
    assert [word.inner_text() for word in words] == ["all files", "−2 partition values", "−3 statistics"]
    picture(page)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_result_unfolds_to_its_scans(browser: Any, scheme: str, picture: Callable[..., bytes]) -> None:
    result = asked("SELECT carrier, delay FROM flights WHERE month = $m AND delay > 100")
    page = page_of(browser, result, 700, scheme=scheme)
    bars = page.query_selector(".dnb-bars")
    assert not bars.is_visible()
    page.query_selector("summary:has-text('flights')").click()
    assert bars.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    picture(page)
    page.close()
