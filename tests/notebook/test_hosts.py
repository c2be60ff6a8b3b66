"""What each kind of host finds in an output: widget, chart, SVG, HTML, text, and never only the first."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb.notebook.drawing import html
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.notebook import samples

TEXT, HTML, SVG = "text/plain", "text/html", "image/svg+xml"
VEGALITE = "application/vnd.vegalite.v5+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
DRAWS = {  # what a host shows of an output, the best first
    "JupyterLab, Notebook 7": (WIDGET, HTML, VEGALITE, SVG, TEXT),
    "nteract": (VEGALITE, HTML, SVG, TEXT),
    "VS Code without its chart renderer": (HTML, SVG, TEXT),
    "Colab, GitHub": (HTML, SVG, TEXT),
    "static page by nbconvert": (HTML, SVG, TEXT),
    "terminal, screen reader, program": (TEXT,),
}


def table() -> DeltaTable:
    made = dn.create(MemoryStore("memory:///lake/orders"), {"day": [1, 2], "qty": [2, 4]}, partition_by="day")
    made.append({"day": [1], "qty": [5]})
    return made


def forms(name: str) -> dict[str, Any]:
    made = table()
    txn = made.start_transaction()
    shown = {
        "table": lambda: made, "snapshot": lambda: made.snapshot, "history": made.history,
        "transaction": lambda: txn, "conflict": samples.append, "diff": lambda: made.diff(0, 1),
        "result": lambda: made.delete("day = 2"),
        "timeline": made.timeline,
        "stepper": lambda: txn.stepper([], "WRITE"), "time travel": made.time_travel,
    }[name]()
    bundle_shown: dict[str, Any] = shown._repr_mimebundle_()
    return bundle_shown


VIEWS = ("table", "snapshot", "history", "transaction", "conflict", "diff", "result", "timeline")
WIDGETS = ("stepper", "time travel")


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_html_and_text(name: str) -> None:
    assert set(forms(name)) == {HTML, TEXT}


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_has_a_picture_for_where_no_kernel_is(name: str) -> None:
    shown = forms(name)
    assert set(shown) == {WIDGET, HTML, TEXT}
    assert len(shown[HTML].encode()) <= html.MAX_BYTES


@pytest.mark.parametrize("name", (*VIEWS, *WIDGETS))
@pytest.mark.parametrize("host", DRAWS)
def test_every_host_has_more_than_nothing(host: str, name: str) -> None:
    shown = forms(name)
    best = next(kind for kind in DRAWS[host] if kind in shown)
    assert shown[best]
    assert best != TEXT or DRAWS[host] == (TEXT,)


@pytest.mark.parametrize("name", (*VIEWS, *WIDGETS))
def test_text_alone_where_text_is_wanted(name: str) -> None:
    with dn.set_options(display="text"):
        assert set(forms(name)) == {TEXT}
