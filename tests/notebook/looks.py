"""What every output must keep to, asked of any object; and the comparison with golden files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.drawing import chart, html, text
from deltanb.notebook.views import registry as views
from deltanb.text import formatting as units

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
VOID = {"br", "hr", "img", "input", "meta"}
BLOCKS = {"td", "th", "li", "p", "dt", "dd", "caption", "summary"}
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
COUNTED = re.compile(r"\b0000[0-9a-f]{4}(?=…)")
ATTRIBUTES = {"class", "style", "open", "scope", "colspan", "aria-current",
              "method", "type", "name", "title", "checked", "aria-label"}
MACHINE = re.compile(r"(?<![\w<])/(?:tmp|home|var|Users)/")


def counted_ids() -> Callable[[], str]:
    """Ids for ``options.new_id`` that rise, so that tables are in the order in which they were made; golden
    files do not tell how many were drawn before."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08x}-0000-4000-8000-000000000000"


class Page(HTMLParser):
    """Words, tags and attributes of a piece of HTML; an end tag that does not fit fails."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.drawn: list[tuple[str, dict[str, str | None]]] = []
        """Tags of pictures within the page."""
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        (self.drawn if "svg" in (tag, *self.open) else self.tags).append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

        if tag in BLOCKS:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open) and self.open[-1:] != ["pre"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def assert_consistent(obj: Any) -> Page:
    """Text and HTML say the same headings and keep to the limits of every output."""
    forms = bundle.mimebundle(obj)
    assert set(forms) == {"text/plain", "text/html"}
    plain, rich = forms["text/plain"], forms["text/html"]
    lines = plain.split("\n")
    assert len(lines) <= text.MAX_LINES
    assert max(map(units.width, lines)) <= units.MAX_COLUMNS
    assert len(rich.encode()) <= html.MAX_BYTES
    assert "cannot be shown" not in plain, plain
    page = Page(rich)
    for heading in views.fields(obj).headings:
        assert heading in plain, f"{heading!r} is not in the text:\n{plain}"
        assert " ".join(heading.split()) in page.text, f"{heading!r} is not in the HTML"
    for form in (plain, rich):
        assert not ADDRESS.search(form)
        assert not MACHINE.search(form)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "img", "object"}
    attributes = {name for _, attrs in page.tags for name in attrs}
    assert attributes <= ATTRIBUTES, attributes
    drawn = {name for _, attrs in page.drawn for name in attrs}
    assert not drawn & {"id", "href", "onclick", "onload", "style"}, drawn
    assert {tag for tag, _ in page.drawn} <= {"svg", "title", "style", "rect", "path", "text", "circle",
                                              "g", "line", "tspan"}
    assert "http" not in html.stylesheet() and "@import" not in html.stylesheet()
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == tags.count("table")
    return page


def drawn_forms(timeline: Any) -> tuple[str, dict[str, Any], str]:
    """Text, Vega-Lite and SVG of a timeline, checked for what holds of all timelines."""
    assert_consistent(timeline)
    forms = timeline._repr_mimebundle_()
    assert set(forms) == {"text/plain", "text/html"}
    plain, spec, svg = forms["text/plain"], timeline.spec, timeline.svg
    altair.Chart.from_dict(spec)  # validates
    ElementTree.fromstring(svg)
    packed = json.dumps(spec, separators=(",", ":"))
    assert len(packed) <= chart.MAX_BYTES
    for form in (plain, packed, svg):
        assert not ADDRESS.search(form) and not MACHINE.search(form)
    return plain, spec, svg


def assert_golden_drawing(timeline: Any, name: str, update: bool) -> None:
    """All forms of a timeline are those of ``tests/golden``."""
    assert_golden(timeline, name, update)
    _, spec, svg = drawn_forms(timeline)
    one_a_line = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("{", "\n{").lstrip()
    for suffix, content in ((".json", one_a_line), (".svg", svg.replace("<", "\n<").lstrip())):
        path = GOLDEN / f"{name}{suffix}"
        if update:
            path.write_text(content + "\n", "utf-8")
        assert content + "\n" == path.read_text("utf-8"), f"{path.name} differs"


def assert_golden(obj: Any, name: str, update: bool) -> None:
    """The forms are those of ``tests/golden``; ``--update-golden`` writes them anew."""
    forms = bundle.mimebundle(obj)
    rich, plain = (COUNTED.sub("00000000", forms[kind]) for kind in ("text/html", "text/plain"))
    rich = ID.sub("(id)", rich).replace(f"deltanb/{dn.__version__}", "deltanb/(version)")
    for sheet in ("style.css", "timeline.css", "scan.css"):
        rich = rich.replace(html.stylesheet(sheet), f"({sheet})")
    blocks = "div|p|details|table|caption|thead|tbody|tr|dl|ol|ul|li|pre|form|input|g"
    rich = re.sub(rf"\n?(?=<(?:{blocks})\b)", "\n", rich).rstrip("\n")
    for suffix, content in ((".txt", plain), (".html", rich.lstrip("\n"))):
        path = GOLDEN / f"{name}{suffix}"
        if update:
            path.write_text(content + "\n", "utf-8")
        assert path.is_file(), f"no {path.name}; pytest --update-golden writes it"
        assert content + "\n" == path.read_text("utf-8"), f"{path.name} differs"
