"""The report of a failed commit in a browser: seen in either scheme, narrow and wide, and whole in itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltanb.options import set_options
from tests.browser.hosts import Reader
from tests.observe.test_report import lose

pytestmark = [pytest.mark.browser, pytest.mark.slow]
GROUND = "node => getComputedStyle(node).backgroundColor"
COLOURS = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_seen_whole(
    offline: Reader, tmp_path: Path, scheme: str, picture: Callable[..., bytes]
) -> None:
    with set_options(report=tmp_path / "reports"):
        lose()
    [report] = (tmp_path / "reports").iterdir()
    page = offline.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    page.goto(report.as_uri())
    assert asked == [report.as_uri()]
    assert page.title() == "ConcurrentAppend: DELETE on flights"
    assert page.locator("body").evaluate(GROUND) == COLOURS[scheme]
    pictures = page.locator(".dnb-rich")
    assert pictures.count() == 2
    for at, words in enumerate(("your DELETE on flights read files where", "1 transaction failed")):
        assert pictures.nth(at).is_visible() and words in pictures.nth(at).inner_text()
        assert pictures.nth(at).evaluate(GROUND) == COLOURS[scheme]
    assert not any(text.is_visible() for text in page.locator(".dnb-text").all())
    picture(page)
    for width in (1300, 500):
        page.set_viewport_size({"width": width, "height": 1400})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
