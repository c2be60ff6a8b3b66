"""The README's pictures, made by the README's first example: ``python docs/pictures.py``.

What lives here: which objects of that example are drawn, and how Chromium makes PNGs of their pages, one for
light and one for dark. Each PNG carries the text of what it shows, so that a test can tell without a browser
that a picture is out of date. Chromium has to be on ``PATH``; the rest comes with ``deltanb[test]``.
What it does not know: how anything is drawn.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SUBJECTS = {"conflict": "race.outcomes['cleanup'].conflict", "timeline": "flights.timeline()"}
"""The name of each picture, and what of the README's first example it shows."""
SCHEMES = ("light", "dark")
WIDTH = 860  # pixels of a page, its margins included: what the README's column has on GitHub
SCALE = 2  # pixels of a PNG for one of the page: sharp on screens of today
COLOURS = 256  # enough for text with smooth edges; a third of the bytes of true colour
CHANCE = re.compile(r"\b\d[\d.,]* k?B\b|\d\d:\d\d:\d\d|(?<=part-\d{5}-)[0-9a-f-]+")
"""Sizes of files, which are pyarrow's affair; times and names, which tell how often the clock was read."""
TEXT = "Description"
"""The PNG's own name for a text that says what is shown."""


@contextlib.contextmanager
def lesson(folder: str | Path) -> Iterator[None]:
    """A block that runs in a folder, as a lesson: with the same clock and ids each time."""
    import deltanb as dn

    before = Path.cwd()
    os.chdir(folder)
    try:
        with dn.teaching(seed=1):
            yield
    finally:
        os.chdir(before)


def example(folder: Path, after: Callable[[dict[str, Any]], None] = lambda names: None) -> dict[str, Any]:
    """The names of README's first example, run in a folder; ``after`` is called there with them."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    with lesson(folder), contextlib.redirect_stdout(io.StringIO()):
        for part in doctest.DocTestParser().get_examples(block[1]):
            exec(part.source, names)
        after(names)
    return names


def pages(folder: Path) -> dict[str, str]:
    """The page of each picture, after README's first example ran in a folder of its own."""
    def save(names: dict[str, Any]) -> None:
        for name, subject in SUBJECTS.items():
            eval(subject, names).save(f"{name}.html")

    example(folder, save)
    return {name: (folder / f"{name}.html").read_text("utf-8") for name in SUBJECTS}


def words(page: str) -> str:
    """The text of a page, without what may differ though nothing has changed (``CHANCE``)."""
    reader = _Words()
    reader.feed(page)
    return CHANCE.sub("…", " ".join(" ".join(reader.pieces).split()))


class _Words(HTMLParser):
    """Collects what a page says, its style sheets left out."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._is_style = False

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            self.pieces.append(data)


def words_in(picture: Path) -> str:
    """The text that a picture carries; empty where it has none."""
    from PIL import Image

    with Image.open(picture) as image:
        image.load()
        return str(getattr(image, "text", {}).get(TEXT, ""))


def draw(page: str, scheme: str, browser: Any) -> bytes:
    """A page as a PNG: its card alone, in few colours, with its text inside."""
    from PIL import Image, PngImagePlugin

    window = browser.new_page(viewport={"width": WIDTH, "height": 400}, color_scheme=scheme,
                              device_scale_factor=SCALE)
    window.set_content(page)
    shot = window.locator(".dnb-rich").first.screenshot()
    window.close()
    with Image.open(io.BytesIO(shot)) as image:
        small = image.convert("RGB").quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
    info = PngImagePlugin.PngInfo()
    info.add_itxt(TEXT, words(page), zip=True)
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True, pnginfo=info)
    return out.getvalue()


def make(folder: Path, browser: Any) -> list[Path]:
    """Write all pictures into a folder."""
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, page in pages(Path(scratch)).items():
            for scheme in SCHEMES:
                made.append(folder / f"{name}-{scheme}.png")
                made[-1].write_bytes(draw(page, scheme, browser))
    return made


def main() -> None:
    """Make the pictures that the README shows anew."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("the pictures are drawn by Chromium, and there is none on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for path in make(PICTURES, browser):
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
