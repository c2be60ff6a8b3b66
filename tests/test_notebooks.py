"""What every tutorial promises, beyond that nbval gets the same outputs again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TOUR = "00-tour.ipynb"  # five pictures and an index: what is opened first, and no lesson
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


@pytest.fixture
def tour() -> Any:
    """The page that is opened first."""
    return nbformat.read(ROOT / "notebooks" / TOUR, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell: Any) -> list[str]:
    """The stored text of each output but tracebacks."""
    shown = []
    for output in cell.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain") or ""
        shown.append(output.get("evalue") or text)
    return shown


def test_there_are_tutorials() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == sorted({path.name[:2] for path in NOTEBOOKS})
    assert [path.name for path in NOTEBOOKS[:2]] == [TOUR, "01-first-commit.ipynb"]


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


def test_begins_with_a_question_and_ends_with_words(notebook: Any) -> None:
    first, last = notebook.cells[0], notebook.cells[-1]
    assert first.cell_type == last.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "?" in first.source


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path.name != TOUR], ids=lambda one: one.name)
def test_a_lesson_ends_with_two_things_to_try(path: Path) -> None:
    last = nbformat.read(path, as_version=4).cells[-1]
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


def test_the_tour_shows_five_pictures_and_then_a_table_of_the_readers(tour: Any) -> None:
    kinds = [text.split()[0] for cell in code_cells(tour) for text in texts(cell) if text]
    pictures, own = kinds[:5], kinds[5:]
    assert pictures == ["Table", "Timeline", "✕", "Time", "Scan"]
    assert own[:2] == ["Timeline", "Commit"] and len(own) == 3  # and its rows
    headings = re.findall(r"^## (.+)", "\n".join(cell.source for cell in tour.cells), re.MULTILINE)
    assert headings[-2:] == ["Open a table of your own", "The tutorials"]


def test_the_tour_ends_its_lesson_before_a_table_of_the_readers_is_opened(tour: Any) -> None:
    sources = [cell.source for cell in code_cells(tour)]
    (opens,) = (source for source in sources if "dn.open(" in source)
    assert opens.splitlines()[0] == "lesson.undo()"
    assert not any("flights" in source for source in sources[sources.index(opens):]), "any table will do"


def test_the_tour_ends_with_links_to_all_tutorials_in_order(tour: Any) -> None:
    links = re.findall(r"^(\d+)\. \[[^]]+\]\(([^)]+)\): .+", tour.cells[-1].source, re.MULTILINE)
    assert links == [(str(int(path.name[:2])), path.name) for path in NOTEBOOKS if path.name != TOUR]
