"""What goes out by MIME type, and what a notebook shows of a failed commit."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.errors import ConcurrentAppendException
from deltanb.notebook import bundle
from deltanb.notebook.drawing import html
from deltanb.notebook.views import registry as views
from deltanb.options import set_options
from tests.notebook import samples
from tests.patience import PATIENCE

HTML, TEXT = bundle.HTML, bundle.TEXT


def test_text_and_html_unless_only_text_is_wanted() -> None:
    conflict = samples.append()
    assert set(bundle.mimebundle(conflict)) == {TEXT, HTML}
    with set_options(display="text"):
        assert set(bundle.mimebundle(conflict)) == {TEXT}


def test_include_and_exclude() -> None:
    conflict = samples.append()
    assert set(bundle.mimebundle(conflict, include=[HTML])) == {HTML}
    assert set(bundle.mimebundle(conflict, exclude=[HTML])) == {TEXT}


def test_plain_colours_mark_the_output() -> None:
    assert '<div class="dnb">' in bundle.mimebundle(samples.append())[HTML]
    with set_options(colors="plain"):
        assert '<div class="dnb dnb-plain">' in bundle.mimebundle(samples.append())[HTML]


def test_untrusted_notebooks_show_the_text() -> None:
    """Without the stylesheet: the text is there, the rich part hides itself."""
    conflict = samples.append()
    rich = bundle.mimebundle(conflict)[HTML]
    bare = re.sub(r"<style>.*?</style>", "", rich)
    shown = re.search(r'<pre class="dnb-text">(.*?)</pre>', bare, re.S)
    assert shown and shown[1].startswith("✕ ConcurrentAppend")
    assert '<div class="dnb-rich" style="display:none">' in bare
    assert ".dnb > .dnb-text{display:none}" in html.stylesheet()
    assert ".dnb > .dnb-rich{display:block !important}" in html.stylesheet()


@pytest.mark.parametrize(("name", "most"), [
    ("style.css", 7_500), ("timeline.css", 3_000), ("scan.css", 1_000)])
def test_stylesheets_are_small_and_whole(name: str, most: int) -> None:
    css = html.stylesheet(name)
    assert len(css) < most  # of the 60 kB an output may have
    assert css.count("{") == css.count("}")
    assert "/*" not in css and "url(" not in css


def test_same_input_same_output() -> None:
    assert bundle.mimebundle(samples.append()) == bundle.mimebundle(samples.append())


def test_showing_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(obj: Any) -> Any:
        raise ZeroDivisionError("the log is gone")

    entry = views.Entry(fail)
    monkeypatch.setitem(views._ENTRIES, "Conflict", entry)
    conflict = samples.append()
    assert str(conflict) == "Conflict cannot be shown\nZeroDivisionError: the log is gone"
    assert bundle.mimebundle(conflict)[TEXT] == str(conflict)
    broken_html = views.Entry(lambda obj: obj, lambda view: "text", lambda view, as_text: fail(view))
    monkeypatch.setitem(views._ENTRIES, "Conflict", broken_html)
    assert bundle.mimebundle(conflict) == {
        TEXT: "Conflict cannot be shown\nZeroDivisionError: the log is gone"
    }


# -- the error of a failed commit ------------------------------------------------------------------


class Shell:
    """As much of IPython's shell as an error meets."""

    def __init__(self) -> None:
        self.execution_count = 4
        self.published: list[dict[str, str]] = []
        self.display_pub = SimpleNamespace(publish=lambda data: self.published.append(data))
        self.InteractiveTB = self

    def structured_traceback(self, kind: Any, error: Any, frames: Any, tb_offset: Any) -> list[str]:
        return traceback.format_exception(kind, error, frames)


class Kernel(Shell):
    kernel = "there is one"


def failed() -> ConcurrentAppendException:
    try:
        raise ConcurrentAppendException("someone was faster", conflict=samples.append(), version=18)
    except ConcurrentAppendException as error:
        return error


def shown_in(shell: Any, monkeypatch: pytest.MonkeyPatch, error: Any) -> list[str]:
    monkeypatch.setattr(bundle, "_shell", lambda: shell)
    lines: list[str] = error._render_traceback_()
    return lines


def test_a_notebook_shows_the_conflict_once_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, error = Kernel(), failed()
    lines = shown_in(shell, monkeypatch, error)
    assert lines[-2].strip().endswith("ConcurrentAppendException: someone was faster")
    assert lines[-1] == "Explained by: deltanb help concurrent-append"
    assert len(shell.published) == 1
    assert shown_in(shell, monkeypatch, error) == lines  # for IPython's own history
    assert len(shell.published) == 1
    shell.execution_count = 5  # shown again where it is asked for again
    shown_in(shell, monkeypatch, error)
    assert len(shell.published) == 2


@pytest.mark.parametrize("has_notes", [True, False])
def test_the_note_does_not_say_again_what_the_picture_says(
    has_notes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "HAS_NOTES", has_notes)
    shell, error = Kernel(), failed()
    errors.add_note(error, "the second try")
    before = list(error.__notes__)
    text = "".join(shown_in(shell, monkeypatch, error))
    assert "✕ ConcurrentAppend" not in text and "the second try" in text
    assert len(shell.published) == 1 and error.__notes__ == before
    with set_options(display="text"):
        assert "".join(shown_in(shell, monkeypatch, error)).count("✕ ConcurrentAppend") == 1


def test_its_text_is_one_line_that_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Kernel()
    shown_in(shell, monkeypatch, failed())
    assert set(shell.published[0]) == {TEXT, HTML}
    assert shell.published[0][TEXT] == (
        "✕ ConcurrentAppend: your DELETE on orders read files where day = '2026-03-02', and "
        "version 18 by etl-b added 2 files there. Nothing was written."
    )


def test_a_terminal_ends_the_traceback_with_the_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown_in(Shell(), monkeypatch, failed())
    assert lines[-1] == str(samples.append())


def test_only_text_is_wanted_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Kernel()
    with set_options(display="text"):
        lines = shown_in(shell, monkeypatch, failed())
    assert shell.published == []
    assert lines[-1] == str(samples.append())


def test_an_error_without_a_conflict_is_an_ordinary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, error = Kernel(), ConcurrentAppendException("someone was faster")
    assert shown_in(shell, monkeypatch, error)[-2].strip().endswith("someone was faster")
    assert shell.published == []


def test_outside_ipython_it_is_the_usual_traceback() -> None:
    error = failed()
    assert bundle.render_traceback(error) == traceback.format_exception(
        type(error), error, error.__traceback__)


def test_a_picture_that_fails_leaves_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Kernel()
    shell.display_pub = None  # type: ignore[assignment]
    lines = shown_in(shell, monkeypatch, failed())
    assert "someone was faster" in "".join(lines)
    assert "cannot be shown" in lines[-1]


def test_the_traceback_ends_at_the_callers_line() -> None:
    from deltanb.actions import from_json

    try:
        from_json("no json")
    except ValueError as error:
        frames = bundle.without_own_frames(error.__traceback__)
        assert len(traceback.extract_tb(error.__traceback__)) > 1
        shown_frames = traceback.extract_tb(frames)
        assert [frame.name for frame in shown_frames] == ["test_the_traceback_ends_at_the_callers_line"]


@pytest.mark.slow
def test_in_a_real_kernel() -> None:
    """The outputs of a failing cell: the picture, then the error; nothing twice."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    source = (
        "from tests.notebook.samples import append\n"
        "from deltanb.errors import ConcurrentAppendException\n"
        "raise ConcurrentAppendException('someone was faster', conflict=append(), version=18)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, allow_errors=True, timeout=PATIENCE).execute()
    picture, error = notebook.cells[0].outputs
    assert (picture.output_type, error.output_type) == ("display_data", "error")
    assert picture.data[TEXT].startswith("✕ ConcurrentAppend: your DELETE")
    assert "dnb-over" in picture.data[HTML]
    assert (error.ename, error.evalue) == ("ConcurrentAppendException", "someone was faster")


def test_every_error_ends_at_the_callers_line_without_its_causes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "ducks", {"n": [1]}, properties={"delta.enableChangeDataFeed": "true"})
    for place in range(2):
        table.append({"n": [place]})
    for file in (tmp_path / "ducks").glob("*.parquet"):
        file.unlink()
    with pytest.raises(dn.errors.DataFileNotFound) as caught:
        table.changes(0)
    error = caught.value
    whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    lines = "".join(shown_in(Kernel(), monkeypatch, error))
    for inner in ("concurrent/futures", "deltanb/commands"):
        assert inner in whole
        assert inner not in lines
    assert "table.changes(0)" in lines
    assert isinstance(error.__cause__, FileNotFoundError)
