"""How the conflict really lies on a page: measured in headless Chromium."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from deltanb.notebook import bundle
from deltanb.observe.catalog_timeline import CatalogTimeline, CatalogTrack
from deltanb.observe.timeline import CommitTimeline, Track
from deltanb.testing import MemoryStore, TableBuilder
from tests.examples import crossed
from tests.notebook import samples, test_stepper, test_time_travel, test_timeline

pytestmark = pytest.mark.browser
HOSTS = {
    "JupyterLab dark": ("", 'data-jp-theme-light="false"', "light", True),
    "JupyterLab light": ("", 'data-jp-theme-light="true"', "dark", False),
    "VS Code dark": ("", 'class="vscode-dark"', "light", True),
    "VS Code light": ("", 'class="vscode-light"', "dark", False),
    "Sphinx dark": ("", 'data-theme="dark"', "light", True),
    "Colab dark": ('theme="dark"', "", "light", True),
    "no host, dark system": ("", "", "dark", True),
    "no host, light system": ("", "", "light", False),
}
BOX = "node => { const b = node.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom] }"


def page_of(
    browser: Any, obj: Any, width: int = 1100, html: str = "", body: str = "", scheme: str = "light"
) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown = bundle.mimebundle(obj)[bundle.HTML]
    page.set_content(f"<!doctype html><html {html}><body {body}>{shown}</body></html>")
    return page


def test_the_relation_fits_on_one_line(browser: Any) -> None:
    page = page_of(browser, samples.append())
    cells = page.query_selector_all("tr.dnb-mark td:nth-child(2) span")
    heights = [bottom - top for _, _, top, bottom in (cell.evaluate(BOX) for cell in cells)]
    assert len(heights) == 2
    assert max(heights) < 24  # one line of 13 px type; two would be 39
    page.close()


def test_checks_stand_below_each_other(browser: Any) -> None:
    page = page_of(browser, samples.append())
    boxes = [item.evaluate(BOX) for item in page.query_selector_all("ol li")]
    assert len(boxes) == 9
    assert len({left for left, *_ in boxes}) == 1
    tops = [top for _, _, top, _ in boxes]
    assert tops == sorted(set(tops))
    page.close()


@pytest.mark.parametrize("width", [1100, 700, 360])
def test_sides_stand_side_by_side_where_there_is_room(browser: Any, width: int) -> None:
    page = page_of(browser, samples.append(), width)
    you, winner = (side.evaluate(BOX) for side in page.query_selector_all(".dnb-side"))
    assert (you[2] == winner[2]) is (width >= 700)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_gets_its_scheme(browser: Any, host: str) -> None:
    html, body, scheme, is_dark = HOSTS[host]
    page = page_of(browser, samples.append(), html=html, body=body, scheme=scheme)
    style = "node => { const s = getComputedStyle(node); return [s.backgroundColor, s.color] }"
    ground, ink = page.query_selector(".dnb-rich").evaluate(style)
    dark, light = "rgb(17, 17, 17)", "rgb(255, 255, 255)"
    assert ground == (dark if is_dark else light)
    assert ink == ("rgb(230, 230, 230)" if is_dark else "rgb(31, 35, 40)")
    page.close()


def test_without_the_stylesheet_the_text_shows(browser: Any) -> None:
    page = page_of(browser, samples.append())
    assert not page.is_visible(".dnb-text") and page.is_visible(".dnb-rich")
    page.evaluate("document.querySelector('style').remove()")
    assert page.is_visible(".dnb-text") and not page.is_visible(".dnb-rich")
    page.close()


def test_checks_unfold_and_advice_folds_from_the_keyboard(browser: Any) -> None:
    page = page_of(browser, samples.append())

    def open_ones() -> list[bool]:
        return [bool(one.evaluate("one => one.open")) for one in page.query_selector_all("details")]

    assert open_ones() == [False, True] and page.is_visible("details[open] li")
    for states in ([True, True], [True, False]):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert open_ones() == states
    page.close()


@pytest.mark.parametrize("width", [1000, 800, 700, 600, 360])
def test_boxes_of_the_log_are_evenly_apart(browser: Any, width: int) -> None:
    stepper = TableBuilder(MemoryStore("memory:///ducks")).create().log.start_transaction().stepper()
    for _ in range(3):
        page = page_of(browser, stepper, width)
        boxes = [box.evaluate(BOX) for box in page.query_selector_all(".dnb-box")]
        assert [round(right[0] - left[1]) for left, right in itertools.pairwise(boxes)] == [6] * 5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
        stepper.advance()


def test_names_in_the_boxes_of_a_log_can_be_read(browser: Any) -> None:
    stepper = test_stepper.stepper_of(test_stepper.orders())
    for _ in range(3):
        while "put" not in stepper.advance():
            pass
        stepper.let_win("append elsewhere")
    page = page_of(browser, stepper, 1000)
    page.add_style_tag(content=".dnb .dnb-rich.dnb-rich { font-size: 17px }")  # of a host with wide letters
    names = page.query_selector_all(".dnb-is-other small")
    assert [name.inner_text() for name in names] == ["another writer"] * 3
    for name in names:
        assert name.evaluate("n => n.scrollWidth <= n.clientWidth && n.scrollHeight <= n.clientHeight + 1")
    page.close()


@pytest.mark.parametrize("width", [1000, 420])
def test_a_long_summary_wraps_beside_its_label(browser: Any, width: int) -> None:
    failed = test_stepper.refused()
    travel = test_time_travel.ducks().time_travel(4)
    for shown in (failed, travel.frame):
        page = page_of(browser, shown, width)
        for line in page.query_selector_all(":is(p, summary):has(> .dnb-head)"):
            lefts = line.evaluate("""node => {
                const head = node.querySelector(".dnb-head"), range = document.createRange();
                range.setStartAfter(head); range.setEndAfter(node.lastChild);
                const end = head.getBoundingClientRect().right;
                return [...range.getClientRects()].map(box => box.left - end);
            }""")
            assert min(lefts) >= 0, line.inner_text()
        page.close()


def test_file_names_stand_on_a_line_where_there_is_room(browser: Any) -> None:
    page = page_of(browser, test_stepper.refused(), 1000)
    rows = page.query_selector_all(".dnb-two tbody tr")
    assert len(rows) == 3
    assert max(bottom - top for _, _, top, bottom in (row.evaluate(BOX) for row in rows)) < 34
    page.close()


TEXTS = ".dnb-plot text, .dnb-tl b, .dnb-tl span, .dnb-part p, .dnb-keys span"


def visible(page: Any, selector: str) -> list[Any]:
    return [node for node in page.query_selector_all(selector) if node.is_visible()]


@pytest.mark.parametrize(("width", "name"), crossed(2, [500, 760, 1000, 1440], ["race", "usual", "many"]))
def test_a_timeline_fills_its_cell_and_nothing_of_it_is_cut(browser: Any, width: int, name: str) -> None:
    made = {"race": test_timeline.race, "usual": lambda: test_timeline.history(25, races=0.5),
            "many": lambda: test_timeline.history(100)}
    page = page_of(browser, made[name](), width)
    left, right, *_ = page.query_selector(".dnb-rich").evaluate(BOX)
    assert right - left >= width - 18  # the page's own margins
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    (lanes,) = visible(page, ".dnb-lanes")
    signs = [node.evaluate(BOX) for node in lanes.query_selector_all("circle, path")]
    assert max(sign[1] for sign in signs) > right - 30, "the last sign stands at the end of the cell"
    for words in visible(page, TEXTS):
        start, end, *_ = words.evaluate(BOX)
        assert left <= start and end <= right, words.text_content()
        assert words.evaluate("node => parseFloat(getComputedStyle(node).fontSize)") >= 12
    page.close()


def test_a_timeline_has_the_font_of_the_page(browser: Any) -> None:
    page = page_of(browser, test_timeline.race())
    page.add_style_tag(content=":root { --jp-content-font-family: 'Of the page', serif }")
    fonts = {node.evaluate("node => getComputedStyle(node).fontFamily") for node in visible(page, TEXTS)}
    assert fonts == {'"Of the page", serif'}
    page.close()


def test_the_mouse_finds_every_sign_of_a_timeline(browser: Any) -> None:
    """Twelve pixels and more, upright and level, answer with the words of the transaction."""
    page = page_of(browser, test_timeline.race())
    (lanes,) = visible(page, ".dnb-lanes")
    is_hit = """(node, [dx, dy]) => {
        const b = node.getBoundingClientRect();
        const x = (b.left + b.right) / 2 + dx, y = (b.top + b.bottom) / 2 + dy;
        return document.elementFromPoint(x, y).closest("g:has(> title)") === node.closest("g:has(> title)");
    }"""
    signs = lanes.query_selector_all("g:has(> title) > svg path, g:has(> title) > circle:last-child")
    assert len(signs) == 6
    for sign in signs:
        assert all(sign.evaluate(is_hit, [dx, dy]) for dx in (-6, 0, 6) for dy in (-6, 0, 6))
    page.close()


def test_a_click_on_the_strip_shows_other_versions(browser: Any, picture: Any) -> None:
    """With the mouse and from the keyboard; two timelines on a page do not disturb each other."""
    shown = bundle.mimebundle(test_timeline.history(100))[bundle.HTML]
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    page.set_content(f"<!doctype html><body>{shown}{shown}</body>")

    def ends() -> list[str]:
        return [lanes.query_selector("text.m:last-of-type").text_content()
                for lanes in visible(page, ".dnb-window .dnb-lanes")]

    assert ends() == ["v95", "v95"] or ends() == ["v90", "v90"]
    newest = ends()[0]
    first = page.locator(".dnb-pick[title='v0 to v49']").first
    first.click()
    older, other = ends()
    assert older in ("v40", "v45") and other == newest
    picture(page)
    page.keyboard.press("ArrowRight")
    assert ends() == [newest, newest]
    page.keyboard.press("Enter")
    assert page.url == "about:blank", "nothing is sent"
    page.close()


CROWDED: dict[str, Callable[[], CommitTimeline]] = {
    "one writer": lambda: CommitTimeline([
        Track(version, version - 1 if version else None, operation, "loader", "schema", 1, predicate="n = 1")
        for version, operation in enumerate(["CREATE TABLE", "SET TBLPROPERTIES", "ADD COLUMNS", "MERGE",
                                             "WRITE", "WRITE", "DELETE", "OPTIMIZE"])], "flights"),
    "races": lambda: test_timeline.history(20, 3, races=0.7),
    "catalog": lambda: CatalogTimeline([
        CatalogTrack(at, max(1, at - 2), "UPDATE", name, "rewrite", 1, 1, txn_id=f"{at}{outcome}", lost=(),
                     outcome=outcome, pointer=f"v{at}" if outcome == "committed" else "", who="ben",
                     reason="CONCURRENT_APPEND" if outcome == "failed" and name == "totals" else None)
        for at in range(1, 9) for outcome in ("committed", "failed") for name in ("orders", "rates", "totals")
        if (at + len(name)) % 3 and (outcome == "committed" or at % 2)], "lake"),
}


@pytest.mark.parametrize(("width", "name"), crossed(2, [500, 1000, 1440], list(CROWDED)))
def test_the_words_of_a_timeline_stand_clear_of_each_other(browser: Any, width: int, name: str) -> None:
    """As the browser sets them: none lies on another, and no upright line runs through any."""
    page = page_of(browser, CROWDED[name](), width)
    (lanes,) = visible(page, ".dnb-lanes")
    words = {text.text_content(): text.evaluate(BOX) for text in lanes.query_selector_all("text")}
    assert len(words) > 8
    for one, other in itertools.combinations(words, 2):
        left, right, top, bottom = words[one]
        start, end, high, low = words[other]
        # A box has the height of a line of text, of which letters take two thirds.
        assert right < start or end < left or bottom - 4 <= high or low - 4 <= top, (one, other)
    ties = [line.evaluate(BOX) for line in lanes.query_selector_all("g.k-lost > line, g.k-failed > line, "
                                                                   "g.k-again > line, g.k-leader > line")]
    for (at, _, high, low), one in itertools.product((tie for tie in ties if tie[0] == tie[1]), words):
        left, right, top, bottom = words[one]
        assert not left < at < right or low <= top + 4 or bottom - 4 <= high, one
    page.close()
