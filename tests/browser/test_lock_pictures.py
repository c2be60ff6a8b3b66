"""Pictures of locks as a browser sets them: no word is cut, lies on another or has a line through it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deltanb.notebook.views import registry
from tests.browser.test_pages import BOX, page_of, visible
from tests.examples import crossed
from tests.notebook.lock_pictures import PICTURES

pytestmark = pytest.mark.browser
LINE = 4  # pixels of a line of text above and below its letters
SIDE = 1  # pixels that a letter may reach into the box of the next
SMALLEST = 12  # pixels of letters
# All that is measured of a drawing, in pixels of the page, as one question: many take much longer. Points of
# lines are a few pixels apart; words are crossed where a line that is drawn later runs through their middle.
MEASURE = f"svg => {{ const box = {BOX};" """
    const points = path => {
        const matrix = path.getScreenCTM(), all = [];
        for (let at = 0; at <= path.getTotalLength(); at += 3) {
            const {x, y} = path.getPointAtLength(at).matrixTransform(matrix);
            all.push([x, y]);
        }
        return all;
    };
    const all = (selector, measure) => [...svg.querySelectorAll(selector)].map(measure);
    const lines = all("path[fill=none]:not(.l)", path => ({path, points: points(path)}));
    const isCrossed = text => {
        const [left, right, top, bottom] = box(text), later = Node.DOCUMENT_POSITION_FOLLOWING;
        return lines.some(line => text.compareDocumentPosition(line.path) & later && line.points.some(
            ([x, y]) => left < x && x < right && top + 4 < y && y < bottom - 4));
    };
    return {
        edges: box(svg),
        words: all("text", text => [
            text.textContent, box(text), parseFloat(getComputedStyle(text).fontSize), isCrossed(text)]),
        bars: all("rect[fill-opacity]", box),
        boxes: all("rect.g[rx]:not(.l)", box),
        points: lines.flatMap(line => line.points),
    };
}"""


def test_every_kind_of_locks_has_a_picture() -> None:
    kinds = {name for name in registry.names() if "lock" in registry._ENTRIES[name].fields.__module__}
    shown = {base.__name__ for make in PICTURES.values() for base in type(make()).__mro__}
    assert len(kinds) >= 5 and kinds <= shown


@pytest.mark.parametrize(("scheme", "name"), crossed(2, ["light", "dark"], list(PICTURES)))
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
    measured = drawing.evaluate(MEASURE)
    left, right, top, bottom = measured["edges"]
    words = measured["words"]
    assert words
    for letters, (start, end, high, low), size, is_crossed in words:
        assert left < start and end < right, f"{letters!r} is cut at {width} pixels"
        assert top < high and low < bottom, f"{letters!r} is cut at {width} pixels"
        assert size >= SMALLEST, letters
        assert not is_crossed, f"a line runs through {letters!r}"
    for (one, first, *_), (other, second, *_) in itertools.combinations(words, 2):
        assert (first[1] - SIDE <= second[0] or second[1] - SIDE <= first[0] or first[3] - LINE <= second[2]
                or second[3] - LINE <= first[2]), f"{one!r} lies on {other!r} at {width} pixels"
    for (begin, until, over, under), (letters, box, *_) in itertools.product(measured["bars"], words):
        start, end, high, low = box
        inside = begin <= (start + end) / 2 <= until  # words of a band, or a sign on a scope
        beside = end <= begin + SIDE or until - SIDE <= start
        assert inside or beside or under <= high + LINE or low - LINE <= over, (
            f"{letters!r} lies on the edge of a bar at {width} pixels")
    for x, y in measured["points"]:
        for start, end, high, low in measured["boxes"]:
            assert not (start + 3 < x < end - 3 and high + 3 < y < low - 3), f"a line runs behind {x}, {y}"
