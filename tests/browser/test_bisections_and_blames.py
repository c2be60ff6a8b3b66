"""Pages of bisections and blames in a browser: seen in either scheme, narrow and wide, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from tests.browser.hosts import Reader
from tests.browser.test_reports import COLOURS, GROUND
from tests.notebook.test_bisection_view import fragile, many, stock
from tests.notebook.test_blame_view import many as many_rows
from tests.notebook.test_blame_view import orders

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "bisection": (lambda: dn.bisect(stock(), "pieces >= 0"), ["✕ since v4", "UPDATE by ann", "item = 'nut'"]),
    "range": (lambda: dn.bisect(stock(), fragile), ["one of 3 broke it", "the counting machine"]),
    "much asked": (lambda: many("stopped"), ["and 96 more notes", "would fail"]),
    "blame": (lambda: orders().blame(columns="price"), ["by comparing versions", "price since", "etl-a"]),
    "many rows": (many_rows, ["columns not shown", "more reasons"]),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_seen_whole(
    offline: Reader, tmp_path: Path, name: str, scheme: str, picture: Callable[..., bytes]
) -> None:
    make, expected = PAGES[name]
    file = make().save(tmp_path / "page.html")
    page = offline.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    shown = page.locator(".dnb-rich")
    assert shown.count() == 1 and shown.first.evaluate(GROUND) == COLOURS[scheme]
    for words in expected:
        assert words in shown.first.inner_text(), words
    picture(page)
    for width in (1300, 500):
        page.set_viewport_size({"width": width, "height": 1400})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
