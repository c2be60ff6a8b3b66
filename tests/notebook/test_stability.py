"""Nothing random, no path of the machine and no clock in any stored picture: golden files and tutorials."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT
from tests.notebook.looks import ADDRESS, GOLDEN, MACHINE

GOLDENS = sorted(path for path in GOLDEN.iterdir() if path.is_file())
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
DATE = re.compile(r"\b20[2-9]\d-\d\d-\d\d\b")  # of this decade or later: not those of the data
EXPECTED_DATES = ("2025-12-25", "2026-01", "2026-03")
"""Where the clock of ``teaching()`` stands, a week before (what vacuum keeps), and that of the samples."""
ESCAPE = re.compile("\x1b\\[")
FORMS = {"text/plain", "text/html", "image/svg+xml", "application/vnd.vegalite.v5+json"}


def assert_stable(text: str, has_ids: bool = False, has_times: bool = False) -> None:
    """The same on every machine, today and tomorrow, but for what it may have."""
    for what, pattern in {"address": ADDRESS, "path": MACHINE, "colour": ESCAPE}.items():
        assert not pattern.search(text), f"{what}: {pattern.search(text)}"
    late = [date for date in DATE.findall(text) if not date.startswith(EXPECTED_DATES)]
    assert has_times or not late, f"read from a clock: {late}"
    assert has_ids or not UUID.search(text), f"id: {UUID.search(text)}"


@pytest.mark.parametrize("path", GOLDENS, ids=[path.name for path in GOLDENS])
def test_golden_file_is_stable(path: Path) -> None:
    assert_stable(path.read_text("utf-8"), has_ids=path.suffix != ".txt")


def test_golden_texts_have_the_picture_beside_them() -> None:
    kinds = {path.stem: set() for path in GOLDENS}
    for path in GOLDENS:
        kinds[path.stem].add(path.suffix)
    for name, suffixes in kinds.items():
        drawn = {".html"} if ".html" in suffixes else {".svg"}
        assert drawn <= suffixes and (".txt" in suffixes or name == "lines"), (name, suffixes)


def outputs(path: Path) -> Iterator[tuple[str, str]]:
    """Every form of every stored output but tracebacks, with its MIME type."""
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            if "text" in output:
                yield "stream", output["text"]
            for kind, form in output.get("data", {}).items():
                yield kind, form if isinstance(form, str) else json.dumps(form)


@pytest.mark.parametrize("path", TUTORIALS, ids=[path.name for path in TUTORIALS])
def test_tutorial_is_stable(path: Path) -> None:
    for kind, form in outputs(path):
        # The rich form of a vacuum says when the file system has a file from: the text does not.
        assert_stable(form, has_ids=kind != "text/plain", has_times=kind not in ("text/plain", "stream"))


@pytest.mark.parametrize("path", TUTORIALS, ids=[path.name for path in TUTORIALS])
def test_tutorial_stores_what_any_host_shows(path: Path) -> None:
    """A stored widget is an error message to whoever opens the tutorial without its kernel."""
    assert {kind for kind, _ in outputs(path)} <= FORMS | {"stream"}


@pytest.mark.parametrize("bad", [
    "<a at 0x7f1234567890>", "/tmp/pytest-1/orders", "\x1b[31mred", "last: WRITE 2027-05-01 10:00:00 UTC",
    "5ec0a000-0000-4000-8000-000000000000",
])
def test_what_is_not_stable_is_noticed(bad: str) -> None:
    with pytest.raises(AssertionError):
        assert_stable(bad)
