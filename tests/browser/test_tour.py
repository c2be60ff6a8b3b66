"""The page that ``deltanb lab`` opens first, run in JupyterLab as a reader would."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from deltanb.app.lab import FIRST_TUTORIAL
from tests.browser.hosts import Reader, Server

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOTEBOOKS = Path(__file__).resolve().parent.parent.parent / "notebooks"
NEXT = "01-first-commit.ipynb"


@pytest.fixture
def tour(server: Server, theme: str) -> str:
    """A copy of the tour, with the first tutorial beside it; its path."""
    folder = server.notebooks / f"tour-{theme}"
    folder.mkdir()
    for name in (FIRST_TUTORIAL, NEXT):
        shutil.copy(NOTEBOOKS / name, folder)
    return f"{folder.name}/{FIRST_TUTORIAL}"


def test_the_tour_shows_its_pictures_and_leads_on(
    reader: Reader, tour: str, picture: Callable[..., bytes]
) -> None:
    page = reader.run(tour)
    notebook = page.locator(".jp-NotebookPanel:visible")
    for what in ("Table flights", "Timeline flights", "✕ ConcurrentAppend", "Scan flights", "Commit v2"):
        expect(notebook.locator(".dnb-rich", has_text=what).first).to_be_visible()
    slider = notebook.locator(".widget-slider").first
    expect(slider).to_be_visible()
    picture(page)
    notebook.get_by_role("link", name="Your first commit").click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text=NEXT)).to_be_visible()
