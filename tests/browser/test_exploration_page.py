"""An exploration as a file of its own: it is played offline, by buttons and keys, in both schemes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import deltanb as dn
from deltanb.testing import MemoryStore
from tests.notebook.large import explored
from tests.notebook.test_exploration_view import account, withdraw

pytestmark = pytest.mark.browser
MAX_BYTES = 500_000


def opened(browser: Any, exploration: Any, path: Path, scheme: str = "light", width: int = 1000) -> Any:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 700})
    page.faults, page.asked = [], []
    page.on("console", lambda message: page.faults.append(message.text))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    saved = exploration.save(path / "page.html")
    assert saved.stat().st_size <= MAX_BYTES
    page.goto(saved.as_uri())
    assert page.asked == [saved.as_uri()]
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 500)])
def test_an_order_is_played(browser: Any, tmp_path: Path, scheme: str, width: int, picture: Any) -> None:
    writers = {"ann": withdraw, "ben": lambda table: withdraw(table)}
    page = opened(browser, dn.explore(account(), writers, "balance >= 0"), tmp_path, scheme, width)
    expect(page.get_by_text("turn 0 of 6")).to_be_visible()
    expect(page.get_by_role("button", name="back")).to_be_disabled()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".now")).to_have_text(re.compile("4.*✓ UPDATE v1"))
    expect(page.locator(".sides > div")).to_have_text(re.compile("1 row.*40"))
    page.get_by_role("button", name="last").click()
    expect(page.locator(".sides > div")).to_have_text(re.compile("-20"))
    page.keyboard.press("Home")
    expect(page.get_by_text("turn 0 of 6")).to_be_visible()
    page.get_by_role("combobox").select_option(index=3)
    page.keyboard.press("Tab")
    page.get_by_role("button", name="last").click()
    expect(page.locator(".now .fails, .now .commits")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".states circle").count() == len(dn.explore(account(), writers).states)
    assert page.faults == []
    picture(page, f"{scheme}-{width}")
    page.close()


def test_without_scripts_the_tables_are_there(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    exploration = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0")
    page.goto(exploration.save(tmp_path / "page.html").as_uri())
    expect(page.locator(".dnb-rich").get_by_text("v2, by the order ann, ann, ben")).to_be_visible()
    context.close()


def test_no_name_leaves_its_place(browser: Any, tmp_path: Path) -> None:
    name = "</script><script>document.title = 'taken'</script><b>"
    table = dn.create(MemoryStore(), {"id": [name]})
    exploration = dn.explore(table, {name: lambda t: t.append({"id": ["<!--"]})})
    page = opened(browser, exploration, tmp_path)
    page.get_by_role("button", name="last").click()
    expect(page.locator(".now")).to_have_text(re.compile("WRITE v1"))
    assert page.title() != "taken" and page.faults == []
    assert json.loads(page.locator("#orders").text_content())["writers"] == [name]
    page.close()


def test_very_many_orders_are_a_page_that_is_not_too_large(tmp_path: Path) -> None:
    saved = explored(100).save(tmp_path / "page.html")
    text = saved.read_text("utf-8")
    assert len(text.encode()) <= MAX_BYTES and "more orders would make the page too large" in text
