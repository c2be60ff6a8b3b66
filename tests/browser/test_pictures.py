"""The README's pictures can be made again, and what is made is what is shown there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from docs import pictures

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def test_the_pictures_are_made_again_as_they_are(browser: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    made = pictures.make(tmp_path, browser)
    assert {path.name for path in made} == {path.name for path in pictures.PICTURES.glob("*.png")}
    for path in made:
        stored = pictures.PICTURES / path.name
        assert pictures.words_in(path) == pictures.words_in(stored) != ""
        with image.open(io.BytesIO(path.read_bytes())) as new, image.open(stored) as old:
            assert new.width == old.width > pictures.WIDTH  # crisp: more than a pixel for each of the page
            shade = sum(new.convert("RGB").getpixel((new.width // 2, 20)))
            assert (shade > 600) == ("light" in path.name), "the scheme is that of the name"
