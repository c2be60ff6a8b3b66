"""Pictures as files: which ending writes what, and what is said where nothing can be written."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.notebook.drawing import files
from deltanb.notebook.views.registry import entry_of, fields
from deltanb.options import writer_name
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.notebook import large, samples
from tests.notebook.looks import Page

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def table() -> DeltaTable:
    made = dn.create(MemoryStore("memory:///lake/orders"), {"day": [1, 2], "qty": [2, 4]})
    made.append({"day": [1], "qty": [5]})
    return made


def test_a_page_needs_nothing_else(table: DeltaTable, tmp_path: Path) -> None:
    table.timeline().save(tmp_path / "t.html")
    whole = (tmp_path / "t.html").read_text("utf-8")
    page = Page(whole.removeprefix("<!doctype html>"))
    assert f"Timeline orders 2 commits by {writer_name()}, v0 to v1" in page.text
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert "default-src 'none'" in whole and "<title>Timeline orders" in whole


def test_a_drawing_is_the_svg(table: DeltaTable, tmp_path: Path) -> None:
    timeline = table.timeline()
    timeline.save(str(tmp_path / "t.SVG"))
    assert (tmp_path / "t.SVG").read_text("utf-8") == timeline.svg
    ElementTree.fromstring(timeline.svg)


def test_every_view_is_saved_as_a_page(tmp_path: Path) -> None:
    table = DeltaTable.for_path(large.make(tmp_path / "orders", 100))
    for at, make in enumerate(large.objects(table).values()):
        shown = make()
        if not hasattr(shown, "save"):
            continue
        shown.save(tmp_path / f"{at}.html")
        whole = (tmp_path / f"{at}.html").read_text("utf-8")
        if entry_of(shown).page is None:
            assert shown._repr_mimebundle_()["text/html"] in whole
        else:  # a page that is more than a picture
            assert all(f"{heading} </span>" in whole for heading in fields(shown).headings[1:])


@pytest.mark.parametrize("name", ["t.pdf", "t", "t.parquet", ".svg"])
def test_another_ending_is_refused_by_name(table: DeltaTable, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name}.* does not end in \.html, \.svg or \.png"):
        table.timeline().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_what_is_no_drawing_is_refused_as_one(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InvalidArgument, match=r"the picture of a Conflict is a page .* as \.html"):
        samples.append().save(tmp_path / f"c.{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [5, None, b"t.svg", ["t.svg"]])
def test_what_is_no_path_is_refused(table: DeltaTable, path: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"saved at a path .* found {type(path).__name__}: "):
        table.history().save(path)


def test_the_file_that_was_written_is_returned(table: DeltaTable, tmp_path: Path) -> None:
    assert table.history().save(str(tmp_path / "h.html")) == tmp_path / "h.html"


def test_a_folder_that_is_not_there_is_named(table: DeltaTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no folder .*missing"):
        table.history().save(tmp_path / "missing" / "h.html")


def test_without_a_converter_it_is_said_what_to_install(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in files.CONVERTERS:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"pip install vl-convert-python; \.svg and .* need nothing"):
        table.timeline().save(tmp_path / "t.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "function", "converter"), [
    ("vl_convert", "svg_to_png", lambda *args, **settings: args[0]),
    ("resvg_py", "svg_to_bytes", lambda *args, **settings: settings["svg_string"]),
    ("cairosvg", "svg2png", lambda *args, **settings: settings["bytestring"].decode()),
])
def test_any_converter_makes_a_png(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, function: str,
    converter: Any
) -> None:
    asked: list[str] = []

    def convert(*args: Any, **settings: Any) -> bytes:
        asked.append(converter(*args, **settings))
        return PNG

    for other in files.CONVERTERS:
        monkeypatch.setitem(sys.modules, other, None)
    fake = ModuleType(name)
    setattr(fake, function, convert)
    monkeypatch.setitem(sys.modules, name, fake)
    table.timeline().save(tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes() == PNG
    ElementTree.fromstring(asked[0])
    assert "var(" not in asked[0], "converters know no custom properties: all would be black"


@pytest.mark.parametrize("name", files.CONVERTERS)
def test_the_converter_that_is_there_draws(table: DeltaTable, tmp_path: Path, name: str) -> None:
    module = pytest.importorskip(name)
    assert files._TO_PNG[name](module, table.timeline().svg).startswith(PNG)
