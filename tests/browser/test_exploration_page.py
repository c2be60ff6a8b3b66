"""An exploration as a file of its own: it is played offline, by buttons and keys, in both schemes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect

import deltanb as dn
from deltanb.notebook.drawing.lesson import MAX_TURNS
from deltanb.notebook.drawing.state_graph import laid_out
from deltanb.notebook.views.exploration import MAX_FIELDS
from deltanb.observe.explore.exploration import Exploration, Outcome, Taken
from deltanb.observe.explore.states import path_of
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
    assert page.faults == []
    picture(page, f"{scheme}-{width}")
    page.close()


def spot(page: Any) -> tuple[float, float]:
    """Where the ring is."""
    ring = page.locator(".dnb-way-ring")
    return float(ring.get_attribute("cx")), float(ring.get_attribute("cy"))


def course(page: Any, part: str) -> str:
    """A line of the order's way."""
    return str(page.locator(f".dnb-way-{part}").get_attribute("d"))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 500)])
def test_the_graph_shows_where_the_order_is(
    browser: Any, tmp_path: Path, scheme: str, width: int, picture: Any
) -> None:
    exploration = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0")
    page = opened(browser, exploration, tmp_path, scheme, width)
    layout = laid_out(exploration.states)
    for at, order in enumerate(json.loads(page.locator("#orders").text_content())["orders"]):
        page.get_by_role("combobox").select_option(index=at)
        page.get_by_role("button", name="next").focus()
        path = path_of(exploration, exploration.replay(int(order["number"])))
        for turn, state in enumerate(path):
            assert spot(page) == layout.places[state]
            assert course(page, "behind") == layout.course(path[:turn + 1])
            assert course(page, "ahead") == layout.course(path[turn:])
            expect(page.locator(".dnb-way-here")).to_have_text(f"turn {turn}" if turn else "start")
            breaks = page.get_by_text("the invariant does not hold here")
            expect(breaks).to_have_count(int(exploration.states[state].breaks))
            box, frame = page.locator(".dnb-way-ring").bounding_box(), page.locator(".states").bounding_box()
            assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
            page.keyboard.press("ArrowRight")
    thick, thin = (float(page.locator(f".dnb-way-{part}").get_attribute("stroke-width"))
                   for part in ("behind", "ahead"))
    assert thick > thin and page.locator(".dnb-way-ahead").get_attribute("stroke-dasharray")
    picture(page, f"{scheme}-{width}")
    assert page.faults == []
    page.close()


def test_words_of_wide_graphs_can_be_read_where_there_is_little_room(
    browser: Any, tmp_path: Path, picture: Any
) -> None:
    def often(table: Any) -> None:
        for _ in range(7):
            table.append({"id": [2], "balance": [0]})

    moment = dn.explore(account(), {"ann": often}).play().moment
    page = browser.new_page(viewport={"width": 500, "height": 700})
    page.goto(moment.save(tmp_path / "page.html").as_uri())
    size = page.locator(".dnb-states svg").evaluate("svg => 12 * svg.clientWidth / svg.viewBox.baseVal.width")
    assert size >= 10
    assert page.evaluate("document.documentElement.scrollWidth") <= 500
    picture(page)
    page.close()


def test_on_paper_it_is_light_and_has_no_buttons(browser: Any, tmp_path: Path, picture: Any) -> None:
    exploration = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0")
    page = opened(browser, exploration, tmp_path, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.get_by_role("button", name="next")).to_be_hidden()
    expect(page.locator(".states svg")).to_be_visible()
    expect(page.locator(".dnb-way-here")).to_have_css("fill", "rgb(31, 35, 40)")
    expect(page.locator(".dnb-rich")).to_have_css("color", "rgb(31, 35, 40)")
    assert len(page.pdf()) > 10_000
    picture(page)
    page.close()


def test_without_scripts_the_tables_are_there(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    exploration = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, "balance >= 0")
    page.goto(exploration.save(tmp_path / "page.html").as_uri())
    expect(page.locator(".dnb-rich").get_by_text("v2, by the order ann ×2, ben")).to_be_visible()
    expect(page.locator(".states svg")).to_be_visible()
    context.close()


def test_a_page_says_what_it_leaves_out(browser: Any, tmp_path: Path) -> None:
    turns = (Taken("ann", "reads", 0),) * (MAX_TURNS + 3)
    wide = pa.table({f"c{at}": [1, 2] for at in range(MAX_FIELDS + 1)})
    outcome = Outcome((), {}, {}, {"ann": 0}, {"ann": (0, 0)}, None, 1, ("ann",), 0)
    rows: list[Any] = [{"wide": wide, "huge": None}] * (len(turns) + 1)
    exploration = Exploration("pond", ("ann",), "Serializable", (outcome,), (), 1, 1, 1,
                              played=lambda number: (turns, rows))
    page = opened(browser, exploration, tmp_path)
    left_out = page.get_by_text("3 more turns are not shown")
    tables = page.locator(".sides > div")
    expect(tables).to_contain_text(f"wide 2 rows, {MAX_FIELDS} of {MAX_FIELDS + 1} columns")
    expect(tables).to_contain_text("huge more rows than are shown here")
    expect(left_out).to_be_hidden()
    page.keyboard.press("End")
    expect(left_out).to_be_visible()
    assert page.faults == []
    page.close()


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
