"""Pictures that answer mouse and keyboard: brushed, stepped and slid in each host, without a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests.browser.conftest import VIEW
from tests.browser.hosts import Reader, Server, cell, outputs
from tests.notebook.widgets import BEGIN, GROUP, PLAY, STEPPER, TRAVEL

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Picture = Callable[..., bytes]

OTHERS = [("lab", "dark"), ("notebook", "light")]
HOSTS = [("lab", "light"), ("notebook", "dark"),
         *(pytest.param(host, marks=pytest.mark.thorough) for host in OTHERS)]
TIMELINE = f"{BEGIN}\ntable.timeline()"
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
WIDGETS = 5  # of the lesson, at least; test_saved_widgets holds that its cells have all kinds
# Still pictures that are seen, in any frame. One that waits for its widget waits on.
SEEN = """() => {
    window.seen = [];
    const look = () => {
        for (const still of document.querySelectorAll(".dnb-still"))
            if (still.getBoundingClientRect().height) window.seen.push(still.innerText.slice(0, 40));
        requestAnimationFrame(look);
    };
    addEventListener("DOMContentLoaded", () => {
        const sheet = document.createElement("style");
        sheet.textContent = ".dnb-still { animation-duration: 999s !important }";
        document.head.append(sheet);
        look();
    });
}"""
WIDGET = "application/vnd.jupyter.widget-view+json"
COLOURS = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}
STATE = "application/vnd.jupyter.widget-state+json"
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
    theme: str
    path: str


@pytest.fixture(scope="module", params=HOSTS, ids="-".join)
def opened(request: pytest.FixtureRequest, browser: Any, server: Server) -> Iterator[Lesson]:
    """One page and one kernel a host and theme, for all tests of this module."""
    app, theme = request.param
    server.set_theme(theme)
    reader = Reader(browser.new_context(viewport=VIEW), server)
    reader.context.add_init_script(f"({SEEN})()")
    steps = (TIMELINE, STEPPER, TRAVEL, KEYS, MANY, WIDE, GROUP, TIED, CHART, PLAY)
    path = server.write(f"lesson-{app}-{theme}", *steps)
    yield Lesson(reader.run(path, app), reader, app, theme, path)
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
    rich = shown.locator(".dnb-rich:visible").bounding_box()
    assert rich["width"] > 0.9 * area["width"]
    font = "node => getComputedStyle(node).fontFamily"
    assert lanes.locator("text").first.evaluate(font) == shown.locator(".dnb-rich:visible").evaluate(font)
    picture(shown)


def test_commit_is_stepped_to_its_end_with_a_winner_in_between(lesson: Lesson, picture: Picture) -> None:
    page, shown = lesson.page, cell(lesson.page, 1)
    step, rich = shown.get_by_role("button", name=re.compile("step|next")), shown.locator(".dnb-rich:visible")
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
    heading, newest = shown.locator(".dnb-rich:visible p").first, shown.get_by_role("button", name="last")
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
    rich = shown.locator(".dnb-rich:visible").last
    before = rich.inner_text()
    drag(page, shown.locator(".noUi-handle:visible"), to=0.5, still=lambda: rich.inner_text() == before)
    expect(rich).to_contain_text("table.restore(6)")
    expect(shown.locator(".dnb-rich:visible tbody tr")).to_have_count(9)  # rows of version 6
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
    expect(shown.locator(".dnb-rich:visible").last.get_by_text("added").first).to_be_visible()
    picture(shown, "two")


def test_an_order_is_played_in_the_graph_of_its_states(lesson: Lesson, picture: Picture) -> None:
    shown = cell(lesson.page, 9)
    shown.scroll_into_view_if_needed()
    here, ring = shown.locator(".dnb-way-here:visible"), shown.locator(".dnb-way-ring:visible")
    expect(here).to_have_text("start")
    before = ring.bounding_box()
    forward = shown.get_by_role("button", name="next")
    forward.focus()
    lesson.page.keyboard.press("Space")
    expect(here).to_have_text("turn 1")
    assert ring.bounding_box()["x"] > before["x"]
    expect(shown.locator(".dnb-rich:visible tr", has_text="▶")).to_contain_text("reads v12")
    shown.get_by_role("button", name="last").click()
    expect(forward).to_be_disabled()
    expect(here).to_have_text(re.compile(r"turn [2-9]"))  # the picture comes in another message than buttons
    area = shown.locator(".jp-OutputArea").first.bounding_box()
    drawn = shown.locator(".dnb-states:visible").bounding_box()
    assert drawn["x"] + drawn["width"] <= area["x"] + area["width"]
    picture(shown)
    shown.get_by_role("button", name="first").click()
    expect(here).to_have_text("start")


def tab_to(page: Any, target: Any) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("node => node === document.activeElement"):
            return
    raise AssertionError("Tab does not reach it")


def test_a_rival_wins_by_the_keyboard_alone(lesson: Lesson, picture: Picture) -> None:
    page, shown = lesson.page, cell(lesson.page, 3)
    rich, choice = shown.locator(".dnb-rich:visible"), shown.locator("select")
    rival = shown.get_by_role("button", name="let another writer win now")
    heading = rich.locator("p").first
    shown.get_by_role("button", name="step").focus()
    page.keyboard.press("Enter")
    expect(heading).to_contain_text("step 1")
    tab_to(page, choice)
    tab_to(page, rival)
    page.keyboard.press("Enter")
    expect(rich.get_by_text("another writer").first).to_be_attached()
    assert shown.locator(".dnb-box.dnb-is-other:visible").count() == 1
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
    rich = shown.locator(".dnb-rich:visible").last
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
    rich, heading = shown.locator(".dnb-rich:visible"), shown.locator(".dnb-rich:visible p").first
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


def test_a_saved_notebook_shows_what_its_widgets_last_showed(
    lesson: Lesson, server: Server, offline: Reader, tmp_path: Path, picture: Picture
) -> None:
    """On a page made by nbconvert, with the widgets' state and without, and where the kernel has ended."""
    move_all(lesson.page)
    live = lesson.page.locator(".jupyter-widgets .dnb-rich:visible").all_inner_texts()
    assert len(live) >= WIDGETS
    lesson.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook = nbformat.read(server.notebooks / lesson.path, as_version=4)
    assert seen(lesson.page) == [], "beside its widget a still picture is never seen"
    models = [output.data[WIDGET]["model_id"] for cell in notebook.cells for output in cell.outputs
              if WIDGET in output.get("data", {})]
    assert len(models) == len(live)
    for name, state in (("plain", None), ("state", {model: {} for model in models})):
        if state:
            notebook.metadata["widgets"] = {STATE: {"state": state, "version_major": 2, "version_minor": 0}}
        path = tmp_path / f"{name}.html"
        path.write_text(HTMLExporter(theme=lesson.theme).from_notebook_node(notebook)[0], "utf-8")
        page = offline.context.new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        assert page.locator(".dnb-still .dnb-rich:visible").all_inner_texts() == live
        grounds = page.locator(".dnb-still .dnb-rich").evaluate_all(
            "nodes => nodes.map(node => getComputedStyle(node).backgroundColor)")
        assert set(grounds) == {COLOURS[lesson.theme]}
        picture(page, name)
    if lesson.app != "lab":  # what follows Notebook 7 has of JupyterLab
        return
    again = lesson.reader.open(lesson.path)
    expect(again.locator(".jupyter-widgets .dnb-rich:visible")).to_have_count(len(live))
    assert seen(again) == [], "nor while the widgets of an opened page are loaded"
    again.close()
    later = lesson.reader.open(server.write(f"later-{lesson.theme}", *notebook.cells))
    expect(outputs(later).filter(has_text="model not found")).to_have_count(len(live))
    assert later.locator(".dnb-still .dnb-rich:visible").all_inner_texts() == live
    later.close()


def seen(page: Any) -> list[str]:
    """The still pictures that were seen since the page was opened."""
    texts: list[str] = page.evaluate("() => window.seen")
    return texts


def move_all(page: Any) -> None:
    """Use a control of every widget that has somewhere to go."""
    for widget in page.locator(".jp-OutputArea-output > .jupyter-widgets").all():
        rich, slider = widget.locator(".dnb-rich"), widget.locator(".noUi-target:visible")
        before = rich.text_content()
        step = widget.get_by_role("button", name=re.compile("step|next"))
        box = widget.get_by_placeholder("2026")
        if box.count() and not slider.count():  # one version
            continue
        if box.count():
            box.fill("1")
            box.press("Enter")
        elif step.is_enabled():
            step.click()
        else:
            widget.get_by_role("button", name="back").click()
        expect(rich).not_to_have_text(before)


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
