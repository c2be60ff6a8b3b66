"""The documentation site builds without a warning, within its limits, and its links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import html5lib
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.app.cli import command_parser
from deltanb.catalog.rest.endpoints import ENDPOINTS
from deltanb.catalog.rest.server.openapi import description
from deltanb.options import Options
from deltanb.schema.features import FEATURES
from deltanb.schema.properties import PROPERTIES
from docs.reference import command_line
from docs.reference.rest import TWICE
from docs.site.sources import relinked

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_BYTES = 40_000_000
MAX_PAGE_BYTES = 1_500_000
RESOURCES = {"img": ("src", "srcset"), "script": ("src",), "link": ("href",), "iframe": ("src",),
             "source": ("src", "srcset"),
             "video": ("src",), "audio": ("src",), "object": ("data",), "embed": ("src",), "use": ("href",)}
"""What a browser fetches by itself: tag -> attributes."""


@dataclass
class Page(HTMLParser):
    """What a page has and what it refers to."""

    path: Path
    ids: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    images: list[dict[str, str | None]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    """Parts that scroll and that no keyboard reaches."""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if own := values.get("id"):
            (self.twice if own in self.ids else self.ids).add(own)
        if "dnb-scroll" in (values.get("class") or "").split() and values.get("tabindex") != "0":
            self.unreachable.append(tag)
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag == "img":
            self.images.append(values)
        self.resources += [str(values[name]) for name in RESOURCES.get(tag, ()) if values.get(name)]

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    __hash__ = object.__hash__


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages, read."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@cache
def size(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


def test_it_is_within_its_limits(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    assert sum(map(size, files)) <= MAX_BYTES
    large = {path.name for path in files if path.suffix == ".html" and size(path) > MAX_PAGE_BYTES}
    assert large == set()


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """Links within the site that lead nowhere."""
    for path, page in pages.items():
        for link in page.links:
            place = urlsplit(link)
            if place.scheme or place.netloc:
                continue
            target = (path.parent / unquote(place.path)).resolve() if place.path else path
            if not target.exists():
                yield f"{path.name}: {link}"
            elif place.fragment and target in pages and unquote(place.fragment) not in pages[target].ids:
                yield f"{path.name}: {link}, which has no such anchor"


def test_every_link_within_it_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 5000
    assert list(broken(pages)) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text('<p id="here"><a href="#here">x</a><a href="#there">x</a><a href="b.html">x</a>')
    assert [link.split(",")[0] for link in broken({path: Page(path)})] == ["a.html: #there", "a.html: b.html"]


def test_nothing_comes_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    fetched = {link for page in pages.values() for link in page.resources
               if re.match(r"(?:[a-z]+:)?//", link)}
    assert fetched == set()
    elsewhere = re.compile(r"(?:url\(|@import )['\"]?((?:https?:)?//[^)'\"]+)")
    styles = {path.name: elsewhere.findall(path.read_text("utf-8")) for path in site.rglob("*.css")}
    assert styles and {name: links for name, links in styles.items() if links} == {}


def test_every_resource_is_there(pages: dict[Path, Page]) -> None:
    missing = {link for path, page in pages.items() for link in page.resources
               if not link.startswith(("data:", "#"))
               and not (path.parent / unquote(urlsplit(link).path)).resolve().exists()}
    assert missing == set()


def test_every_picture_says_what_it_shows(pages: dict[Path, Page]) -> None:
    images = [(path.name, image) for path, page in pages.items() for image in page.images]
    assert len(images) > 4
    assert [place for place in images if not (place[1].get("alt") or "").strip()] == []


ALLOWED = "unexpected-char-in-comment"
"""Two hyphens within a comment: html5lib knows the standard of before they were allowed."""


def faults(text: str) -> set[str]:
    """What a browser has to mend in a page: elements left open, closed twice, or where they may not be."""
    parser = html5lib.HTMLParser()
    parser.parse(text)
    return {f"line {line}: {code} {' '.join(map(str, names.values()))}"
            for (line, _), code, names in parser.errors if code != ALLOWED}


def test_every_page_is_valid(pages: dict[Path, Page]) -> None:
    assert {path.name: some for path in pages if (some := faults(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize("fault", [
    "<p><div></p>", "<b><i></b></i>", "<table><p></table>", "<a href=x href=y>"])
def test_a_page_that_is_not_valid_is_seen(fault: str) -> None:
    assert faults(f"<!doctype html><title>x</title>{fault}")


def test_no_anchor_is_there_twice(pages: dict[Path, Page]) -> None:
    assert {path.name: page.twice for path, page in pages.items() if page.twice} == {}


def test_a_keyboard_reaches_what_scrolls(pages: dict[Path, Page]) -> None:
    assert {path.name for path, page in pages.items() if page.unreachable} == set()
    assert sum("dnb-scroll" in path.read_text("utf-8") for path in pages) > 5


def test_charts_are_pictures_for_both_schemes(pages: dict[Path, Page]) -> None:
    classes = {scheme: sum(f"only-{scheme} dnb-chart" in str(image.get("class")) for page in pages.values()
                           for image in page.images) for scheme in ("light", "dark")}
    assert classes["light"] == classes["dark"] >= 2


def test_no_chart_waits_for_a_script(pages: dict[Path, Page]) -> None:
    assert {path.name for path, page in pages.items() if "xychart" in " ".join(page.text)} == set()
    chart, *_ = [image for path, page in pages.items() if path.name == "how-far.html"
                 for image in page.images]
    assert "commits a second by writers 1, 4" in str(chart["alt"])


def test_every_tutorial_is_a_page(site: Path) -> None:
    tutorials = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert tutorials == {path.stem for path in (site / "tutorials").glob("*.html")} - {"index", "readme"}
    _, _, page = (site / "tutorials/index.html").read_text("utf-8").partition("<article")
    page, _, _ = page.partition("</article")
    listed = re.findall(r'href="(\d\d-[\w-]+)\.html"', page)
    assert tutorials == {*listed}
    assert page.count("?</p>") == len(tutorials) - 1  # the tour asks nothing


def test_every_error_is_in_the_index_and_has_a_page(site: Path, pages: dict[Path, Page]) -> None:
    classes = {kind.__name__ for _, kind in inspect.getmembers(errors, inspect.isclass)
               if issubclass(kind, errors.DeltaError)}
    assert classes == {cls.__name__ for cls in errors.topics().values()}
    index = " ".join(pages[site / "reference/errors/index.html"].text)
    assert {name for name in classes if not re.search(rf"\b{name}\b", index)} == set()
    for topic, cls in errors.topics().items():
        assert f"deltanb.errors.{cls.__name__}" in pages[site / f"reference/errors/{topic}.html"].ids


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    ids = {name for page in pages.values() for name in page.ids}
    functions = [name for name in dn.__all__ if inspect.isfunction(getattr(dn, name))]
    assert len(functions) > 10
    others = ["sql", "spark", "DeltaTable.append", "Catalog.transaction"]
    assert {f"deltanb.{name}" for name in [*functions, *others]} <= ids


@pytest.mark.parametrize(("name", "expected"), [
    ("options", Options.__dataclass_fields__), ("table-properties", PROPERTIES),
    ("table-features", FEATURES)])
def test_a_table_of_the_code_is_whole_in_the_reference(
        site: Path, pages: dict[Path, Page], name: str, expected: dict[str, object]) -> None:
    words = set(re.findall(r"[\w.-]+", " ".join(pages[site / f"reference/{name}.html"].text)))
    assert set(expected) <= words


def test_every_endpoint_is_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    paths = {path for path in description(ENDPOINTS)["paths"] if not path.startswith(TWICE)}
    assert len(paths) > 30 and paths <= set(" ".join(pages[site / "reference/rest.html"].text).split())


def test_every_command_and_its_options_are_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    commands = list(command_line.commands_of(command_parser()))
    options = {text for parser, _ in commands for action in parser._actions if action.dest != "help"
               for text in action.option_strings}
    assert len(commands) > 10 and len(options) > 20
    shown = " ".join(pages[site / "reference/command-line.html"].text)
    assert {text for text in options if not re.search(rf"{text}\b", shown)} == set()
    assert {parser.prog for parser, _ in commands if parser.prog not in shown} == set()


@pytest.mark.parametrize("name", [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for folder in ("reference", "site") for path in sorted((ROOT / "docs" / folder).glob("*.py"))
    if ">>> " in path.read_text("utf-8")])
def test_examples_of_its_tools(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in docstrings, and those that a tool writes at the top of a page."""
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
    introduction = getattr(module, "INTRODUCTION", "")
    example = doctest.DocTestParser().get_doctest(introduction, {}, name, None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_a_link_to_no_file_is_refused() -> None:
    places = {"docs/how-far.md": "explanation/how-far.md"}
    with pytest.raises(LookupError, match=r"docs/how-far\.md has a link to gone\.md, where"):
        relinked("[gone](gone.md)", "docs/how-far.md", places)


@pytest.mark.slow
@pytest.mark.environments
@pytest.mark.thorough
def test_the_extra_for_it_is_enough(tmp_path: Path) -> None:
    uv = pytest.importorskip("uv", reason="deltanb[release] brings uv").find_uv_bin()
    python = tmp_path / "venv" / "bin" / "python"
    for command in (
            [uv, "venv", "-q", tmp_path / "venv"],
            [uv, "pip", "install", "-q", "--python", python, f"{ROOT}[docs]"],
            [python, "-m", "docs.build", tmp_path / "site"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_folder_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = [sys.executable, "-m", "docs.build", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 2 and "is no site" in result.stderr
    assert (tmp_path / "mine.txt").exists()


def test_the_first_page_shows_what_its_example_gives(site: Path, pages: dict[Path, Page]) -> None:
    text = " ".join(" ".join(pages[site / "index.html"].text).split())
    assert "ConcurrentAppend" in text and "your DELETE" in text and "by nightly" in text
