"""Pictures that answer mouse and keyboard: brushed, stepped and slid in each host, without a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import VIEW
from tests.browser.hosts import Reader, Server, cell

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Picture = Callable[..., bytes]

HOSTS = [("lab", "light"), ("lab", "dark"), ("notebook", "light"), ("notebook", "dark")]
TIMELINE = """\
import deltanb as dn
dn.teaching(seed=1)
table = dn.create("orders", {"day": [1, 2, 3], "qty": [2, 4, 9]}, partition_by="day")
for n in range(12):
    with dn.set_options(user_name=("etl-a", "etl-b", "analyst")[n % 3]):
        table.append({"day": [n % 3 + 1], "qty": [n]})
table.timeline()"""
STEPPER = """\
yours = table.start_transaction()
read = yours.filter_files("day = 1")
yours.stepper(yours.write_files({"day": [1], "qty": [7]}), "WRITE")"""
TRAVEL = "table.time_travel()"
KEYS = """\
ducks = dn.create("ducks", {"n": [1]})
ours = ducks.start_transaction()
ours.stepper(ours.write_files({"n": [2]}), "WRITE")"""
MANY = """\
from deltanb.observe.timeline import CommitTimeline, Track
many = CommitTimeline([Track(v, max(0, v - 1), "WRITE", f"writer {v % 3}", "append", 1) for v in range(900)])
many"""
CHART = """\
from deltanb.notebook.drawing.chart import Chart
Chart(many.spec, "900 commits")"""
WIDE = """\
wide = dn.create("wide", {f"a_column_with_a_long_name_{n}": ["x" * 60] for n in range(12)})
wide.time_travel()"""
GROUP = """\
catalog = dn.Catalog("sqlite:///shop.db", warehouse="shop")
catalog.create_namespace("shop")
for name in ("orders", "totals"):
    catalog.create_table(f"shop.{name}", {"n": [1]})
both = catalog.transaction()
for name in ("orders", "totals"):
    both.table(f"shop.{name}").update({"n": "n + 1"})
both.stepper()"""
TIED = """\
for name in ("menu", "stock"):
    catalog.create_table(f"shop.{name}", {"n": [1]})
with catalog.transaction() as txn:
    for name in ("menu", "stock"):
        txn.table(f"shop.{name}").append({"n": [2]})
catalog.timeline()"""
MAX_TABS = 12  # from a stepper's first button to its last
APPEND = (0x56, 0x8D, 0xE0)  # --dnb-append
MAX_STEPS = 20  # of a commit that loses one race; it has ten
# Pixels of a colour, and how opaque the corner is.
DRAWN = """(canvas, [r, g, b]) => {
    const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let found = 0;
    for (let at = 0; at < all.length; at += 4)
        found += all[at] === r && all[at + 1] === g && all[at + 2] === b;
    return [found, all[3]];
}"""


@dataclass
class Lesson:
    """A notebook that has run, and where it is open."""

    page: Any
    reader: Reader
    app: str


@pytest.fixture(scope="module", params=HOSTS, ids=["-".join(host) for host in HOSTS])
def opened(request: pytest.FixtureRequest, browser: Any, server: Server) -> Iterator[Lesson]:
    """One page and one kernel a host and theme, for all tests of this module."""
    app, theme = request.param
    server.set_theme(theme)
    reader = Reader(browser.new_context(viewport=VIEW), server)
    steps = (TIMELINE, STEPPER, TRAVEL, KEYS, MANY, WIDE, GROUP, TIED, CHART)
    path = server.write(f"lesson-{app}-{theme}", *steps)
    yield Lesson(reader.run(path, app), reader, app)
    reader.context.close()
    server.end_kernels()


@pytest.fixture
def lesson(opened: Lesson) -> Iterator[Lesson]:
    """The page; at the end of a test nothing outside this machine was asked for."""
    yield opened
    assert opened.reader.refused == []


def test_timeline_is_as_wide_as_its_cell(lesson: Lesson, picture: Picture) -> None:
    shown = cell(lesson.page, 0)
    lanes = shown.locator(".dnb-lanes:visible")
    expect(lanes).to_have_count(1)
    assert lanes.locator(".dnb-band b").all_inner_texts() == ["you", "etl-a", "etl-b", "analyst"]
    area = shown.locator(".jp-OutputArea-output").first.bounding_box()
    rich = shown.locator(".dnb-rich").bounding_box()
    assert rich["width"] > 0.9 * area["width"]
    font = "node => getComputedStyle(node).fontFamily"
    assert lanes.locator("text").first.evaluate(font) == shown.locator(".dnb-rich").evaluate(font)
    picture(shown)


def test_commit_is_stepped_to_its_end_with_a_winner_in_between(lesson: Lesson, picture: Picture) -> None:
    page, shown = lesson.page, cell(lesson.page, 1)
    step, rich = shown.get_by_role("button", name=re.compile("step|next")), shown.locator(".dnb-rich")
    heading = rich.locator("p").first
    expect(heading).to_contain_text("not begun")
    step.click()
    expect(heading).not_to_contain_text("not begun")
    shown.locator("select").select_option(label="append rows elsewhere")
    shown.get_by_role("button", name="let another writer win now").click()
    expect(rich.get_by_text("another writer").first).to_be_attached()
    picture(rich, "rival")
    step.focus()
    for _ in range(MAX_STEPS):
        before = heading.inner_text()
        if "is yours" in before:
            break
        page.keyboard.press("Space")
        expect(heading).not_to_have_text(before)
    expect(heading).to_contain_text("version 14 is yours")
    expect(step).to_be_disabled()
    picture(rich, "end")


def test_trace_is_looked_back_upon_from_the_keyboard(lesson: Lesson) -> None:
    shown = cell(lesson.page, 1)
    heading, newest = shown.locator(".dnb-rich p").first, shown.get_by_role("button", name="last")
    before = heading.inner_text()
    shown.get_by_role("button", name="back").focus()
    lesson.page.keyboard.press("Space")
    expect(heading).not_to_have_text(before)
    newest.press("Space")
    expect(heading).to_have_text(before)
    if lesson.app == "lab":  # Notebook 7 keeps the arrow keys for itself, as it does from any slider
        shown.get_by_role("slider").press("ArrowLeft")
        expect(heading).not_to_have_text(before)
        newest.click()
        expect(heading).to_have_text(before)


def test_slider_moves_through_the_versions(lesson: Lesson, picture: Picture) -> None:
    page, shown = lesson.page, cell(lesson.page, 2)
    rich = shown.locator(".dnb-rich").last
    before = rich.inner_text()
    drag(page, shown.locator(".noUi-handle:visible"), to=0.5, still=lambda: rich.inner_text() == before)
    expect(rich).to_contain_text("table.restore(6)")
    expect(shown.locator(".dnb-rich tbody tr")).to_have_count(9)  # rows of version 6
    picture(shown, "one")
    box = shown.get_by_placeholder("2026")
    box.fill("3")
    box.press("Enter")
    expect(rich).to_contain_text("table.restore(3)")
    shown.get_by_role("button", name="compare two").click()
    expect(shown.locator(".noUi-handle:visible")).to_have_count(2)
    expect(shown.locator(".noUi-target:visible")).to_have_count(1)  # the one that was there has gone
    expect(shown.get_by_role("img", name=re.compile("a bar each"))).to_be_visible()
    shown.locator(".noUi-target:visible").click(position={"x": 1, "y": 2})
    expect(rich).to_contain_text("v0 → v3")
    expect(shown.locator(".dnb-rich").last.get_by_text("added").first).to_be_visible()
    picture(shown, "two")


def tab_to(page: Any, wanted: Any) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("node => node === document.activeElement"):
            return
    raise AssertionError("Tab does not reach it")


def test_a_rival_wins_by_the_keyboard_alone(lesson: Lesson, picture: Picture) -> None:
    page, shown = lesson.page, cell(lesson.page, 3)
    rich, choice = shown.locator(".dnb-rich"), shown.locator("select")
    rival = shown.get_by_role("button", name="let another writer win now")
    heading = rich.locator("p").first
    shown.get_by_role("button", name="step").focus()
    page.keyboard.press("Enter")
    expect(heading).to_contain_text("step 1")
    tab_to(page, choice)
    tab_to(page, rival)
    page.keyboard.press("Enter")
    expect(rich.get_by_text("another writer").first).to_be_attached()
    assert shown.locator(".dnb-box.dnb-is-other").count() == 1
    picture(shown)


def test_a_click_on_the_strip_chooses_other_versions(lesson: Lesson, picture: Picture) -> None:
    """Of more than 400 commits a bar of the strip stands for several."""
    page, shown = lesson.page, cell(lesson.page, 4)
    shown.scroll_into_view_if_needed()
    buttons, lanes = shown.locator(".dnb-pick"), shown.locator(".dnb-window:visible .dnb-lanes")
    assert buttons.count() >= 2
    expect(lanes).to_have_count(1)
    newest = lanes.text_content()
    picture(shown, "newest")
    address = page.url
    buttons.first.click()
    expect(lanes).not_to_have_text(newest)
    picture(shown, "chosen")
    page.keyboard.press("Enter")
    assert page.url == address, "the form sends nothing"
    buttons.last.click()
    expect(lanes).to_have_text(newest)


def test_a_chart_of_the_same_is_brushed(lesson: Lesson, picture: Picture) -> None:
    page, canvas = lesson.page, cell(lesson.page, 8).locator(".vega-embed canvas")
    canvas.scroll_into_view_if_needed()
    expect(canvas).to_be_visible()
    pixels, corner = canvas.evaluate(DRAWN, APPEND)
    assert pixels > 1000 and corner == 0
    box = canvas.bounding_box()

    def lanes() -> bytes:
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        top = box["y"] + box["height"] - 110
        shot: bytes = page.screenshot(clip={**box, "y": top, "height": 110})
        return shot

    newest, strip = lanes(), box["y"] + 90
    page.mouse.move(box["x"] + 560, strip)
    page.mouse.down()
    page.mouse.move(box["x"] + 620, strip, steps=8)
    page.mouse.up()
    page.mouse.move(box["x"] - 20, strip)
    assert lanes() != newest
    picture(canvas, "brushed")


def test_a_wide_table_stays_in_its_cell(lesson: Lesson, picture: Picture) -> None:
    shown = cell(lesson.page, 5)
    rich = shown.locator(".dnb-rich").last
    expect(rich).to_contain_text("a_column_with_a_long_name_0")
    right = "node => node.getBoundingClientRect().right"
    area = shown.locator(".jp-OutputArea").first.evaluate(right)
    assert rich.evaluate(right) <= area
    inside = rich.locator(".dnb-scroll").evaluate_all(
        "nodes => Math.max(...nodes.map(node => node.scrollWidth - node.clientWidth))")
    assert inside > 0  # it is wider than the cell, and scrolls there
    picture(shown)


def test_a_commit_of_two_tables_fails_at_the_table_that_is_chosen(lesson: Lesson, picture: Picture) -> None:
    shown = cell(lesson.page, 6)
    rich, heading = shown.locator(".dnb-rich"), shown.locator(".dnb-rich p").first
    step = shown.get_by_role("button", name=re.compile("step|next"))
    table, kind = shown.locator("select").nth(0), shown.locator("select").nth(1)
    step.click()
    expect(heading).to_contain_text("step 1")
    table.select_option(label="shop.totals")
    kind.select_option(label="delete what you read")
    shown.get_by_role("button", name="let another writer win now").click()
    expect(heading).to_contain_text("another writer has shop.totals v1 now")
    for _ in range(MAX_STEPS):
        before = heading.inner_text()
        if "failed at" in before:
            break
        step.click()
        expect(heading).not_to_have_text(before)
    expect(heading).to_contain_text("failed at shop.totals (ConcurrentDeleteRead)")
    marked = rich.locator("tr.dnb-mark").first
    assert "shop.totals" in marked.inner_text() and "✕ v1" in marked.inner_text()
    expect(rich.get_by_text("Your transaction")).to_be_visible()
    right = "node => node.getBoundingClientRect().right"
    assert rich.last.evaluate(right) <= shown.locator(".jp-OutputArea").first.evaluate(right)
    picture(shown)


def test_tables_of_one_transaction_are_tied(lesson: Lesson, picture: Picture) -> None:
    shown = cell(lesson.page, 7)
    lanes = shown.locator(".dnb-lanes:visible")
    expect(lanes).to_have_count(1)
    ties = lanes.locator("svg > .k-lost > line")
    assert ties.count() == 1
    assert ties.evaluate("line => line.getBoundingClientRect().height") > 15
    picture(shown)


def drag(page: Any, handle: Any, to: float, still: Callable[[], bool] = lambda: True) -> None:
    """Drag a slider's handle to a share of its track; ``still`` must hold before it is let go."""
    start = handle.bounding_box()
    track = handle.locator("xpath=ancestor::*[contains(@class, 'noUi-target')]").bounding_box()
    x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] * to, y, steps=8)
    assert still()
    page.mouse.up()
