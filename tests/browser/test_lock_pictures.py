"""Pictures of locks as a browser sets them: no word is cut, lies on another or has a line through it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deltanb.notebook.views import registry
from tests.browser.test_pages import BOX, page_of, visible
from tests.notebook.lock_pictures import PICTURES

pytestmark = pytest.mark.browser
LINE = 4  # pixels of a line of text above and below its letters
SIDE = 1  # pixels that a letter may reach into the box of the next
SMALLEST = 12  # pixels of letters
# Points of all lines that are drawn, a few pixels apart, in pixels of the page.
POINTS = """svg => [...svg.querySelectorAll("path[fill=none]:not(.l)")].map(path => {
    const matrix = path.getScreenCTM(), all = [];
    for (let at = 0; at <= path.getTotalLength(); at += 3) {
        const {x, y} = path.getPointAtLength(at).matrixTransform(matrix);
        all.push([x, y]);
    }
    return all;
})"""
# Whether something that is drawn later hides a line at the middle of some words: their ground or a box.
ON_TOP = """text => {
    const above = [];
    for (let node = text.nextElementSibling; node; node = node.nextElementSibling)
        if (node.matches("path[fill=none]:not(.l)")) above.push(node);
    const box = text.getBoundingClientRect();
    return above.some(path => {
        const matrix = path.getScreenCTM();
        for (let at = 0; at <= path.getTotalLength(); at += 3) {
            const {x, y} = path.getPointAtLength(at).matrixTransform(matrix);
            if (box.left < x && x < box.right && box.top + 4 < y && y < box.bottom - 4) return true;
        }
        return false;
    });
}"""


def test_every_kind_of_locks_has_a_picture() -> None:
    kinds = {name for name in registry.names() if "lock" in registry._ENTRIES[name].fields.__module__}
    shown = {base.__name__ for make in PICTURES.values() for base in type(make()).__mro__}
    assert len(kinds) >= 5 and kinds <= shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PICTURES)
def test_words_of_locks_can_be_read(browser: Any, name: str, scheme: str, picture: Any) -> None:
    """At each width; a drawing that is wider than its cell scrolls there, and the page does not."""
    page = page_of(browser, PICTURES[name](), 1440, scheme=scheme)
    for width in (500, 1000, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        picture(page, str(width))
        for drawing in visible(page, "svg.dnb-svg"):
            check(drawing, width)
    page.close()


def check(drawing: Any, width: int) -> None:
    """What holds of a drawing at any width."""
    left, right, top, bottom = drawing.evaluate(BOX)
    words = [(text.text_content(), text.evaluate(BOX), text) for text in drawing.query_selector_all("text")]
    assert words
    for letters, (start, end, high, low), text in words:
        assert left < start and end < right, f"{letters!r} is cut at {width} pixels"
        assert top < high and low < bottom, f"{letters!r} is cut at {width} pixels"
        assert text.evaluate("node => parseFloat(getComputedStyle(node).fontSize)") >= SMALLEST, letters
        assert not text.evaluate(ON_TOP), f"a line runs through {letters!r}"
    for (one, first, _), (other, second, _) in itertools.combinations(words, 2):
        assert (first[1] - SIDE <= second[0] or second[1] - SIDE <= first[0] or first[3] - LINE <= second[2]
                or second[3] - LINE <= first[2]), f"{one!r} lies on {other!r} at {width} pixels"
    for bar, one in itertools.product(drawing.query_selector_all("rect[fill-opacity]"), words):
        begin, until, over, under = bar.evaluate(BOX)
        start, end, high, low = one[1]
        inside = begin <= (start + end) / 2 <= until  # words of a band, or a sign on a scope
        beside = end <= begin + SIDE or until - SIDE <= start
        assert inside or beside or under <= high + LINE or low - LINE <= over, (
            f"{one[0]!r} lies on the edge of a bar at {width} pixels")
    boxes = [box.evaluate(BOX) for box in drawing.query_selector_all("rect.g[rx]:not(.l)")]
    for x, y in itertools.chain.from_iterable(drawing.evaluate(POINTS)):
        for start, end, high, low in boxes:
            assert not (start + 3 < x < end - 3 and high + 3 < y < low - 3), f"a line runs behind {x}, {y}"
