"""What is left of a widget where it is not: in a saved notebook, on a page made of it, without a kernel."""

from __future__ import annotations

import re
import sys
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
from IPython.core.formatters import DisplayFormatter
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.bundle import HTML, TEXT, WIDGET
from deltanb.notebook.drawing import html
from deltanb.notebook.views import registry
from deltanb.notebook.widgets import panel as panels
from deltanb.text.display import Interactive
from tests.notebook.test_bundle import Kernel
from tests.notebook.widgets import BEGIN, WIDGETS

ROOT = Path(dn.__file__).parent
STATE = "application/vnd.jupyter.widget-state+json"
RULE = re.compile(r"^<style>\.dnb-still\.(dnb-\w+)\{display:none\}</style>")
WRAPPING = 600  # bytes around a picture: its name, and the rule for the moments before the widget is there


class Notebook:
    """The outputs of a notebook as its file has them: displayed, and updated by their ids."""

    def __init__(self) -> None:
        self.outputs: list[tuple[str | None, dict[str, Any]]] = []
        self.updates = 0

    def publish(self, data: dict[str, Any], transient: Any = None, update: bool = False) -> None:
        name = (transient or {}).get("display_id")
        if not update:
            self.outputs.append((name, data))
            return
        self.updates += 1
        assert any(one == name for one, _ in self.outputs)
        self.outputs = [(one, data if one == name else old) for one, old in self.outputs]

    def saved(self, state: dict[str, Any] | None = None) -> Any:
        """The notebook as a file, with or without the state of its widgets."""
        outputs = [new_output("display_data", data=data) for _, data in self.outputs]
        made = new_notebook(cells=[new_code_cell("shown", outputs=outputs)])
        if state is not None:
            made.metadata["widgets"] = {STATE: {"state": state, "version_major": 2, "version_minor": 0}}
        return made


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A notebook that the process thinks it is in."""
    made = Notebook()
    monkeypatch.setattr(bundle, "_shell", Kernel)
    monkeypatch.setattr(panels, "publish_display_data", made.publish)
    return made


@pytest.fixture(params=WIDGETS)
def shown(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each widget's object."""
    return made(request.param, tmp_path, monkeypatch)


def made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(BEGIN, names)
    made = WIDGETS[name].make(names)
    assert type(made).__name__ == name
    return made


def move(shown: Any) -> None:
    eval(f"shown.{WIDGETS[type(shown).__name__].move}", {"shown": shown})


def kinds(cls: type) -> set[str]:
    """The classes below that have none below themselves."""
    below = cls.__subclasses__()
    return {name for one in below for name in kinds(one)} if below else {cls.__name__}


def test_no_widget_is_missing() -> None:
    for path in ROOT.rglob("*.py"):
        if "(Interactive)" in path.read_text("utf-8"):
            import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
    assert kinds(Interactive) == set(WIDGETS)
    bases = {base.__name__ for name in WIDGETS for base in class_of(name).__mro__}
    assert {name for name in registry.names() if registry._ENTRIES[name].widget} <= bases


def class_of(name: str) -> type:
    kinds = [Interactive]
    for cls in kinds:
        kinds += cls.__subclasses__()
    return next(cls for cls in kinds if cls.__name__ == name)


def test_a_notebook_has_the_widget_and_what_it_last_showed(shown: Any, notebook: Notebook) -> None:
    shown._ipython_display_()
    (_, live), (name, still) = notebook.outputs
    assert set(live) == {WIDGET, HTML, TEXT} and live[HTML] == live[TEXT] == ""
    assert name and set(still) == {HTML, TEXT}
    before = still[TEXT]
    for times in (1, 2):
        move(shown)
        assert notebook.updates <= times, "one message a move"
        (_, live_now), (_, still) = notebook.outputs
        forms = bundle.mimebundle(shown)
        assert live_now is live, "an update of the widget's output would make its controls anew"
        assert still[TEXT] == forms[TEXT] != before
        assert forms[HTML] in still[HTML]
        assert len(still[HTML].encode()) <= html.MAX_BYTES + WRAPPING


def test_controls_move_the_saved_picture_too(shown: Any, notebook: Notebook) -> None:
    shown._ipython_display_()
    control = getattr(shown.panel, "next", None) or shown.panel.box
    before = notebook.outputs[1][1]
    if isinstance(control, ipywidgets.Button):
        control.click()
    else:
        control.value = "2"
    assert notebook.outputs[1][1] != before
    assert notebook.outputs[1][1][TEXT] == bundle.mimebundle(shown)[TEXT]


def test_displays_of_one_object_are_saved_alike(shown: Any, notebook: Notebook) -> None:
    shown._ipython_display_()
    shown._ipython_display_()
    move(shown)
    one, two = (data for name, data in notebook.outputs if name)
    assert one == two and one[TEXT] == bundle.mimebundle(shown)[TEXT]
    assert notebook.updates == 1


def test_what_changes_nothing_sends_nothing(shown: Any, notebook: Notebook) -> None:
    shown._ipython_display_()
    shown.panel.draw()
    assert notebook.updates == 0


def test_the_widget_hides_its_own_still_picture_alone(
    shown: Any, notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown._ipython_display_()
    (tmp_path / "other").mkdir()
    other = made(type(shown).__name__, tmp_path / "other", monkeypatch)
    other._ipython_display_()
    for one, rest in ((shown, other), (other, shown)):
        (rule,) = RULE.findall(one.panel.picture.value)
        stills = [data[HTML] for name, data in notebook.outputs if name]
        assert [f'class="dnb-still {rule}"' in still for still in stills].count(True) == 1
        assert rule not in rest.panel.picture.value


@pytest.mark.parametrize("has_state", [False, True], ids=["plain", "state of widgets"])
def test_a_page_made_of_it_has_the_picture_once(
    shown: Any, notebook: Notebook, has_state: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """Also where the widget's state was saved: the page asks the network for what draws it then."""
    shown._ipython_display_()
    move(shown)
    model = notebook.outputs[0][1][WIDGET]["model_id"]
    page, _ = HTMLExporter().from_notebook_node(notebook.saved({model: {}} if has_state else None))
    assert unescape(page).count(str(shown)) == 1  # beside the picture, for who strips styles
    assert (model in page) == has_state
    assert not [one for one in recwarn if "represented" in str(one.message)]


def test_a_run_without_a_page_saves_what_was_last_shown(tmp_path: Path) -> None:
    """As ``nbconvert --execute`` runs notebooks: the objects are displayed and moved by later cells."""
    sources = [BEGIN, *(one.source for one in WIDGETS.values())]
    sources += [f"object_{at} = _{at + 2}" for at in range(len(WIDGETS))]
    sources += [f"_ = object_{at}.{one.move}" for at, one in enumerate(WIDGETS.values())]
    ends = "\n".join(f"print(object_{at})" for at in range(len(WIDGETS)))
    notebook = new_notebook(cells=[new_code_cell(source) for source in (*sources, ends)])
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    stills = [cell.outputs[1].data for cell in notebook.cells[1:1 + len(WIDGETS)]]
    assert notebook.cells[-1].outputs[0].text == "".join(f"{still[TEXT]}\n" for still in stills)
    del notebook.cells[-1]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert notebook.metadata.widgets[STATE]["state"], "the state is saved, so the widget is preferred"
    assert all(unescape(page).count(still[TEXT]) == 1 for still in stills)


def test_elsewhere_ipython_shows_the_forms(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forms, _ = DisplayFormatter().format(shown)
    assert forms == shown._repr_mimebundle_() and {TEXT, HTML} <= set(forms)
    monkeypatch.setattr(bundle, "_shell", Kernel)
    with dn.set_options(display="text"):
        assert set(DisplayFormatter().format(shown)[0]) == {TEXT}


def test_without_ipywidgets_a_notebook_shows_the_forms(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_shell", Kernel)
    for name in [name for name in sys.modules if name.startswith("deltanb.notebook.widgets.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    forms = DisplayFormatter().format(shown)[0]
    assert set(forms) == {TEXT, HTML}
    assert all(form.count("pip install 'deltanb[notebook]'") == 1 for form in forms.values())
    assert forms[TEXT].endswith(f"\n{bundle.BUTTONS}")


def test_a_picture_that_cannot_be_drawn_leaves_its_text(
    shown: Any, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown._ipython_display_()
    monkeypatch.setattr(bundle.views, "html_of", lambda obj, text: 1 / 0)
    move(shown)
    still = notebook.outputs[1][1]
    assert "cannot be shown" in still[TEXT] and "cannot be shown" in still[HTML]
