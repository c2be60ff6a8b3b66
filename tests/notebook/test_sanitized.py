"""Hosts that strip styles, drawings or all tags: words that lie apart in a picture are still apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.looks import GOLDEN

PAGES = sorted(GOLDEN.glob("*.html"))
UNSEEN = re.compile(r"<(style|svg|pre)\b(?:(?!<\1\b|</\1>).)*</\1>", re.S)
"""What such hosts take out with its content, the innermost first."""
STUCK = re.compile(r"[^\W_](?:<[^>]*>)+[^\W_]")
"""Letters or digits on both sides of tags, with no space between them."""
CUT = re.compile(r"\S*…\S*")


def without_unseen(page: str) -> str:
    """A page without its stylesheet, drawings and text form."""
    while UNSEEN.search(page):
        page = UNSEEN.sub(" ", page)
    return page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_two_words_stick_together(path: Path) -> None:
    page = without_unseen(path.read_text("utf-8"))
    assert [match[0] for match in STUCK.finditer(page)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_headings_of_the_text_are_words_of_the_page(path: Path) -> None:
    text = path.with_suffix(".txt").read_text("utf-8")
    page = re.sub(r"<[^>]*>", "", without_unseen(path.read_text("utf-8")))  # taken out without a trace
    words = set(re.findall(r"\w+", page))
    headings = re.findall(r"^[A-Z]\w+", CUT.sub("", text), re.M)
    assert set(headings) - words == set()
