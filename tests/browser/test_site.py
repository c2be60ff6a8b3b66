"""The documentation site as a browser shows it: axe-core has nothing serious to say of any kind of page, a
search needs no server, and every page fits a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.hosts import Reader
from tests.examples import crossed

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCHEMES = ("light", "dark")
WIDTHS = {"desk": 1200, "phone": 390}
GRAVE = ("serious", "critical")
PAGES = (
    "index", "tutorials/00-tour", "tutorials/02-a-conflict", "how-to/index", "how-to/retry-a-merge",
    "how-to/coming-from-delta-rs", "reference/peers", "reference/errors/index",
    "reference/errors/concurrent-append", "reference/options", "reference/spark-options",
    "explanation/figures", "explanation/how-far", "explanation/conflict-rules",
    "explanation/isolation-levels", "search")
"""What a usual run looks at, one of each kind; ``--thorough`` looks at all."""


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """A page without a server, in the scheme and the width that a case names; it has asked for no network."""
    case = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    width = WIDTHS[case.get("width", "desk")]
    reader = Reader(browser.new_context(
        color_scheme=case.get("scheme", "light"), viewport={"width": width, "height": 900}))
    yield reader.context.new_page()
    reader.context.close()
    assert reader.refused == []


def address(site: Path, name: str) -> str:
    """Of a page, as a file."""
    path = site / f"{name}.html"
    assert path.exists()
    return path.as_uri()


def violations(page: Any) -> list[str]:
    """What axe-core has against a page: each rule with the first part that breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    result = axe.run(page, options={"resultTypes": ["violations"]}).response
    return [f"{each['id']} ({each['impact']}), {len(each['nodes'])} times: {each['nodes'][0]['html'][:200]}"
            for each in result["violations"] if each["impact"] in GRAVE]


@pytest.mark.parametrize(("name", "width", "scheme"), crossed(2, PAGES, list(WIDTHS), SCHEMES))
def test_nothing_serious_stands_between_a_page_and_its_readers(
        name: str, width: str, scheme: str, site: Path, page: Any) -> None:
    page.goto(address(site, name))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "scheme"), [("desk", "dark"), ("phone", "light")])
def test_nothing_serious_stands_on_any_page(width: str, scheme: str, site: Path, page: Any) -> None:
    broken = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        if says := [*violations(page), *([f"{wide} wide"] if wide > WIDTHS[width] else [])]:
            broken[path.relative_to(site).as_posix()] = says
    assert broken == {}


@pytest.mark.parametrize("fault", [
    '<img src="data:,">', '<button></button>', '<p style="color: #999; background: #aaa">faint</p>'])
def test_what_is_serious_is_seen(fault: str, site: Path, page: Any) -> None:
    page.goto(address(site, "how-to/retry-a-merge"))
    page.evaluate("fault => document.querySelector('article').insertAdjacentHTML('afterbegin', fault)", fault)
    assert len(violations(page)) == 1


@pytest.mark.parametrize(("words", "first"), [
    ("ConcurrentAppendException", "concurrent"), ("retry merge", "retry"), ("deletion vectors", "vectors")])
def test_a_search_needs_no_server(words: str, first: str, site: Path, page: Any) -> None:
    page.goto(address(site, "search") + "?q=" + words)
    results = page.locator("#search-results li a")
    expect(results.first).to_be_visible()
    expect(page.locator(".search-summary")).not_to_contain_text("did not match")
    places = [str(place) for place in results.evaluate_all("all => all.slice(0, 5).map(one => one.href)")]
    assert any(first in place for place in places), json.dumps(places, indent=1)


def test_a_reader_chooses_the_scheme(site: Path, page: Any) -> None:
    page.goto(address(site, "how-to/retry-a-merge"))
    for scheme in (*SCHEMES, *SCHEMES):
        page.locator(".theme-switch-button:visible").click()
        page.locator(f".theme-change-button[data-mode={scheme}]:visible").click()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == scheme
