"""Notebooks as pages on disk, by nbconvert and without a network: every picture has a form that is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_notebook

from deltanb.notebook import bundle
from tests.browser.hosts import KERNEL, Reader, shown
from tests.notebook import samples

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def open_page(offline: Reader, tmp_path: Path) -> Callable[..., Any]:
    """Make a page of a notebook's cells with nbconvert, and open it."""
    from nbconvert import HTMLExporter

    def made(*cells: Any, name: str, theme: str = "light") -> Any:
        notebook = new_notebook(cells=list(cells), metadata=KERNEL)
        path = tmp_path / f"{name}.html"
        path.write_text(HTMLExporter(theme=theme).from_notebook_node(notebook)[0], "utf-8")
        page = offline.context.new_page()
        page.goto(path.as_uri())
        return page

    return made


def outside_requests(offline: Reader, open_page: Callable[..., Any], *cells: Any) -> tuple[set, set]:
    """What nbconvert's own page asks for with no output in it, and what it asks for with these."""
    open_page(name="empty").close()
    alone = set(offline.refused)
    offline.refused.clear()
    open_page(*cells, name="all").close()
    return alone, set(offline.refused)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_static_page(open_page: Callable[..., Any], theme: str, picture: Callable[..., bytes]) -> None:
    page = open_page(shown(bundle.mimebundle(samples.append())), name="conflict", theme=theme)
    rich = page.locator(".dnb-rich")
    assert rich.is_visible() and not page.locator(".dnb-text").is_visible()
    ground = rich.evaluate("node => getComputedStyle(node).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}[theme]
    picture(page)


def test_outputs_ask_for_nothing_outside(offline: Reader, open_page: Callable[..., Any]) -> None:
    alone, ours = outside_requests(
        offline, open_page, shown(bundle.mimebundle(samples.append())))
    assert alone, "nbconvert's page loads scripts of its own; without any this test sees nothing"
    assert ours == alone
