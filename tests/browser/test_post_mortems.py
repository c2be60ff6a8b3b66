"""A post-mortem's page in a browser: seen in either scheme, narrow and wide, and whole without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.hosts import Reader
from tests.browser.test_reports import COLOURS, GROUND
from tests.notebook.test_post_mortem_view import explained

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_post_mortem_is_seen_whole(
    offline: Reader, tmp_path: Path, scheme: str, picture: Callable[..., bytes]
) -> None:
    file = explained().save(tmp_path / "why.html")
    page = offline.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    shown = page.locator(".dnb-rich")
    assert shown.count() == 1 and shown.first.evaluate(GROUND) == COLOURS[scheme]
    for words in ("the rule 'append' ended it", "Set delta.isolationLevel to WriteSerializable",
                  "passed to the post-mortem", "✗ ended it"):
        assert words in shown.first.inner_text(), words
    files = page.locator("details", has_text="Files that met").last
    files.locator("summary").first.click()
    assert "cannot meet" in files.inner_text()
    picture(page)
    for width in (1300, 500):
        page.set_viewport_size({"width": width, "height": 1400})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
