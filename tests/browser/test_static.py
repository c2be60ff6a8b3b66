"""Notebooks as pages on disk, by nbconvert and without a network: every picture has a form that is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_notebook

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.testing import MemoryStore
from tests.browser.hosts import KERNEL, Reader, shown
from tests.notebook import samples

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., Any]
WIDGET = "application/vnd.jupyter.widget-view+json"
GROUND = "node => getComputedStyle(node).backgroundColor"
COLOURS = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}


@pytest.fixture
def open_page(offline: Reader, tmp_path: Path) -> Open:
    """Make a page of a notebook's cells with nbconvert, and open it."""

    def made(*cells: Any, name: str, theme: str = "light") -> Any:
        notebook = new_notebook(cells=list(cells), metadata=KERNEL)
        path = tmp_path / f"{name}.html"
        path.write_text(HTMLExporter(theme=theme).from_notebook_node(notebook)[0], "utf-8")
        page = offline.context.new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        return page

    return made


@pytest.fixture
def cells() -> list[Any]:
    """A view, a chart and two widgets, as a notebook stores them that was run without a page."""
    dn.teaching(seed=1)
    store = MemoryStore("memory:///lake/orders")
    table = dn.create(store, {"day": [1, 2], "qty": [2, 4]}, partition_by="day")
    for n in range(4):
        with dn.set_options(user_name=("etl-a", "etl-b")[n % 2]):
            table.append({"day": [n], "qty": [n]})
    txn = table.start_transaction()
    stepper = txn.stepper(txn.write_files({"day": [1], "qty": [7]}), "WRITE")
    stepper.advance()
    pictures = (samples.append(), table.timeline(), stepper, table.time_travel())
    return [shown(picture._repr_mimebundle_()) for picture in pictures]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_static_page_shows_every_picture(
    open_page: Open, cells: list[Any], theme: str, picture: Callable[..., bytes]
) -> None:
    assert [WIDGET in cell.outputs[0].data for cell in cells] == [False, False, True, True]
    page = open_page(*cells, name="all", theme=theme)
    rich = page.locator(".dnb-rich")
    assert rich.count() == 4
    for at, words in enumerate(("ConcurrentAppend", "Timeline orders", "Commit, step 1", "Time travel")):
        assert rich.nth(at).is_visible() and words in rich.nth(at).inner_text()
        assert rich.nth(at).evaluate(GROUND) == COLOURS[theme]
    assert not any(text.is_visible() for text in page.locator(".dnb-text").all())
    drawing = page.locator(".dnb-lanes:visible")
    assert drawing.count() == 1 and drawing.bounding_box()["height"] > 100
    picture(page)
    picture(drawing, "timeline")


def test_rows_of_many_columns_are_not_cut(open_page: Open) -> None:
    rows = {f"sched_time_{n}": [n, 1_000 + n] for n in range(20)}
    table = dn.create(MemoryStore("memory:///lake/flights"), rows)
    table.append(rows)
    pictures = (table.diff(0), table.time_travel().frame)
    page = open_page(*(shown(bundle.mimebundle(picture)) for picture in pictures), name="rows")
    page.set_viewport_size({"width": 900, "height": 600})
    widths = page.locator("details[open] > .dnb-scroll").evaluate_all(
        "nodes => nodes.map(node => [node.scrollWidth, node.clientWidth])")
    assert len(widths) == 2
    assert all(inside <= room for inside, room in widths), widths


def test_outputs_ask_for_nothing_outside(offline: Reader, open_page: Open, cells: list[Any]) -> None:
    """nbconvert's page loads scripts of its own (for mathematics); ours adds none to them."""
    open_page(name="empty").close()
    alone = set(offline.refused)
    offline.refused.clear()
    open_page(*cells, name="all").close()
    assert alone, "without any request of nbconvert's own this test would see nothing"
    assert set(offline.refused) == alone


def test_without_styles_the_text_is_there(open_page: Open) -> None:
    page = open_page(shown(bundle.mimebundle(samples.append())), name="plain")
    page.evaluate("document.querySelectorAll('.dnb style').forEach(sheet => sheet.remove())")
    assert page.locator(".dnb-text").is_visible() and not page.locator(".dnb-rich").is_visible()
