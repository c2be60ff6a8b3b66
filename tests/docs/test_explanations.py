"""What explanations say of the code is the code's: tables, pictures, names."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from docs import coming_from, explanations, isolation
from docs.explanations import PARTS
from docs.site import sources
from tests.pages import assert_part

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"


@pytest.mark.parametrize(("page", "part"), PARTS)
def test_a_page_has_the_tables_of_the_code(page: str, part: str, update_golden: bool) -> None:
    text = PARTS[page, part]()
    assert text.count("\n") > 2
    assert_part(FOLDER / f"{page}.md", part, text, update_golden)


def test_every_part_that_a_page_marks_is_written() -> None:
    marked = {(page.stem, name) for page in FOLDER.glob("*.md")
              for name in re.findall(r"<!-- end of (\w+) -->", page.read_text("utf-8"))}
    assert marked == set(PARTS)


@pytest.mark.parametrize("module", [coming_from, explanations, sources], ids=lambda module: module.__name__)
def test_examples_of_what_makes_the_parts(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted and not results.failed


@pytest.mark.parametrize("level", isolation.LEVELS)
def test_the_picture_of_a_level_is_what_the_library_does(level: str, update_golden: bool) -> None:
    picture = isolation.svg(level)
    if update_golden:
        isolation.place(level).write_text(picture, "utf-8")
    assert isolation.place(level).read_text("utf-8") == picture, "out of date: python -m docs.isolation"


def test_the_levels_let_ever_more_pass() -> None:
    """What the pictures are about: a staircase."""
    passed = [[ending.rule is None for ending in isolation.endings(level).values()]
              for level in isolation.LEVELS]
    assert passed == [[False, False, False], [True, False, False], [True, True, False]]


def test_the_page_of_levels_shows_every_picture_with_its_words() -> None:
    text = (FOLDER / "isolation-levels.md").read_text("utf-8")
    for level in isolation.LEVELS:
        name = isolation.place(level).name
        [words] = re.findall(rf"!\[([^\]]+)\]\({name}\)", text)
        for ending in isolation.endings(level).values():
            assert (f"fails by the rule {ending.rule}" if ending.rule else ending.explained) in words
