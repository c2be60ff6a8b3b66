"""Every text and every mark of every view can be seen in every theme: measured in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.drawing import html
from deltanb.notebook.drawing.colors import ALARM, NEUTRAL, color
from deltanb.notebook.views import registry as views
from deltanb.options import SeededIds
from deltanb.table.table import DeltaTable
from tests.browser.test_pages import HOSTS
from tests.examples import every
from tests.notebook import large
from tests.notebook.looks import GOLDEN
from tests.notebook.test_colors import PALETTE

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LEAST = {"text": 4.5, "mark": 3.0}
"""WCAG 2.2, 1.4.3 and 1.4.11."""
MEASURE = (Path(__file__).parent / "contrast.js").read_text("utf-8")
SHEETS = ("style.css", "timeline.css", "scan.css")
FILES = 200
LIGHT, DARK = "--jp-content-font-color1:rgba(0,0,0,.87);--jp-layout-color0:#fff", (
    "--jp-content-font-color1:#fff;--jp-layout-color0:#111")
CHOSEN = {  # what a host says of its colours, beside the scheme
    "JupyterLab dark": DARK, "JupyterLab light": LIGHT,
    "VS Code dark": "--vscode-editor-background:#1f1f1f;--vscode-editor-foreground:#ccc",
    "VS Code light": "--vscode-editor-background:#fff;--vscode-editor-foreground:#3b3b3b"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An output of every view, and every output of the golden files, by name."""
    with dn.set_options(clock=lambda: large.TIME, new_id=SeededIds(1), user_name="analyst"):
        table = DeltaTable.for_path(large.make(tmp_path_factory.mktemp("large") / "orders", FILES))
        made = {name: bundle.mimebundle(make()) for name, make in large.objects(table).items()}
    assert {name.split(",")[0] for name in made} == set(views.names())
    shown = {name: forms[bundle.HTML] for name, forms in made.items() if bundle.HTML in forms}
    for path in sorted(GOLDEN.glob("*.html")):
        text = path.read_text("utf-8")
        for sheet in SHEETS:
            text = text.replace(f"({sheet})", html.stylesheet(sheet))
        shown[path.name] = text
    return shown


@pytest.fixture(scope="module", params=every(3, list(HOSTS)))
def measured(
    request: pytest.FixtureRequest, browser: Any, outputs: dict[str, str]
) -> Iterator[list[tuple[str, str, str, float, str, str]]]:
    """All texts and marks in a host: (output, kind, what, contrast, colour, ground)."""
    root, body, scheme, is_dark = HOSTS[request.param]
    ground = "#111" if is_dark else "#fff"
    page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme=scheme)
    parts = "".join(f'<section id="{name}">{text}</section>' for name, text in outputs.items())
    page.set_content(f'<!doctype html><html {root} style="{CHOSEN.get(request.param, "")}">'
                     f'<body {body} style="background:{ground}">{parts}</body></html>')
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    yield page.evaluate(MEASURE, [*map(color, PALETTE), NEUTRAL, ALARM])
    page.close()


@pytest.mark.parametrize("kind", LEAST)
def test_it_stands_out_from_its_ground(kind: str, measured: list[Any], outputs: dict[str, str]) -> None:
    those = [one for one in measured if one[1] == kind]
    assert {name for name, *_ in those} == set(outputs) or (kind == "mark" and those)
    faint = {(what, colour, ground): (round(contrast, 2), name)
             for name, _, what, contrast, colour, ground in those if contrast < LEAST[kind]}
    assert not faint
