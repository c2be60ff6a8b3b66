"""Prose is spelled correctly, and has one word for each thing: that of ``tests/docs/words.md``."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = Path(__file__).with_name("words.md")


def rows() -> list[tuple[str, str]]:
    """What is not written, and what is written instead."""
    lines = WORDS.read_text("utf-8").partition("|---|---|\n")[2].splitlines()
    return [(cells[1].strip(), cells[2].strip()) for cells in (line.split("|") for line in lines)]


@cache
def prose() -> dict[str, str]:
    """All that people read, by its place: pages, cells of notebooks, texts and comments of the library."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in pages if path != WORDS}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts[path.name] = "\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for path in (ROOT / "deltanb").rglob("*.py"):
        texts[path.relative_to(ROOT).as_posix()] = "\n".join(texts_of(path.read_text("utf-8")))
    return texts


def texts_of(source: str) -> Iterator[str]:
    """Docstrings, messages and comments of a module.

    >>> list(texts_of("# why\\nraise ValueError('no ' f'{1} way')"))
    ['no  way', 'why']
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in parts)
            case ast.Constant(value=str(text)):
                yield text
    yield from re.findall(r"# (.*)$", source, re.MULTILINE)


def uses(phrase: str, text: str) -> bool:
    """Whether a text has it as words of their own, also across lines."""
    if phrase.split()[0] not in text.lower():  # most have none, which is seen sooner so
        return False
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.search(rf"(?<![\w-]){words}(?![\w-])", text, re.IGNORECASE) is not None


@pytest.mark.parametrize(("phrase", "plainly"), rows())
def test_there_is_one_word_for_a_thing(phrase: str, plainly: str) -> None:
    assert plainly
    assert {place for place, text in prose().items() if uses(phrase, text)} == set()


def test_a_phrase_is_seen_across_lines_and_in_any_case() -> None:
    assert uses("held against", "is Held\n  against it") and not uses("leverage", "leveraged")
    assert len(prose()) > 400 and len(rows()) > 30


def test_prose_is_spelled_correctly(tmp_path: Path) -> None:
    pytest.importorskip("codespell_lib", reason="deltanb[test] brings codespell")
    for place, text in prose().items():
        (tmp_path / place.replace("/", "~")).with_suffix(".txt").write_text(text, "utf-8")
    assert spelling(tmp_path) == ""
    (tmp_path / "wrong.txt").write_text("It was recieved.", "utf-8")
    assert "recieved ==> received" in spelling(tmp_path)


def spelling(folder: Path) -> str:
    """What codespell finds in a folder, by the project's settings."""
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
