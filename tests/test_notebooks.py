"""What every tutorial promises, beyond that nbval gets the same outputs again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_CODE_LINES = 16  # one idea a cell
MAX_BYTES = 500_000
UNSTABLE = {
    "memory address": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "temporary folder": re.compile(r"/tmp/"),
    "colour codes": re.compile("\x1b\\["),
}


@pytest.fixture(params=NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def notebook(request: pytest.FixtureRequest) -> Any:
    """One tutorial as it is stored."""
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell: Any) -> list[str]:
    """The stored text of each output but tracebacks."""
    found = []
    for output in cell.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain") or ""
        found.append(output.get("evalue") or text)
    return found


def test_there_are_tutorials() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == sorted({path.name[:2] for path in NOTEBOOKS})
    assert NOTEBOOKS[0].name == "01-first-commit.ipynb"


def test_is_valid_and_small(notebook: Any) -> None:
    nbformat.validate(notebook)
    assert len(nbformat.writes(notebook)) <= MAX_BYTES


def test_was_run_once_from_top_to_bottom(notebook: Any) -> None:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_fails_only_where_it_says_so(notebook: Any) -> None:
    for cell in code_cells(notebook):
        failed = any(output.output_type == "error" for output in cell.outputs)
        # The tag that nbval, nbconvert and "Run All Cells" of JupyterLab understand.
        assert failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.source


def test_checks_every_output(notebook: Any) -> None:
    sources = "\n".join(cell.source for cell in code_cells(notebook))
    assert not re.search(r"NBVAL_(IGNORE_OUTPUT|SKIP)|PYTEST_VALIDATE_IGNORE", sources)


def test_holds_clock_and_ids_still_before_anything_else(notebook: Any) -> None:
    assert "dn.teaching(" in code_cells(notebook)[0].source


def test_shows_nothing_that_differs_between_machines(notebook: Any) -> None:
    for cell in code_cells(notebook):
        for text in texts(cell):
            for what, pattern in UNSTABLE.items():
                assert not pattern.search(text), f"{what} in the output of:\n{cell.source}\n{text}"


def test_has_an_idea_a_cell_and_words_before_each(notebook: Any) -> None:
    previous = None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert previous == "markdown", f"no words before:\n{cell.source}"
            assert len(cell.source.splitlines()) <= MAX_CODE_LINES, cell.source
        previous = cell.cell_type


def test_asks_a_question_and_ends_with_two_things_to_try(notebook: Any) -> None:
    first, last = notebook.cells[0], notebook.cells[-1]
    assert first.cell_type == last.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "?" in first.source
    assert last.source.startswith("## Try it")
    assert len(re.findall(r"^\d\. ", last.source, re.MULTILINE)) == 2


def test_stores_pictures_of_widgets_and_no_widgets(notebook: Any) -> None:
    for cell in code_cells(notebook):
        for output in cell.outputs:
            data = output.get("data", {"text/plain": ""})
            assert "application/vnd.jupyter.widget-view+json" not in data, cell.source
            assert "text/plain" in data, cell.source


def test_carries_nothing_of_the_machine_that_ran_it(notebook: Any) -> None:
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}
