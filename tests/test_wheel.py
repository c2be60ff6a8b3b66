"""What a person gets who installs the wheel and never sees the checkout."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_tutorials_are_inside_and_their_tools_are_not(contents: set[str]) -> None:
    tutorials = {name for name in contents if name.startswith("deltanb/tutorials/")}
    notebooks = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert tutorials == {f"deltanb/tutorials/{name}" for name in notebooks}
    assert "deltanb/tutorials/01-first-commit.ipynb" in tutorials


def test_every_file_of_the_package_is_inside_and_nothing_else(contents: set[str]) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "deltanb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in contents if ".dist-info/" not in name}
    assert {name for name in inside if not name.startswith("deltanb/tutorials/")} == package
    assert {"deltanb/py.typed", "deltanb/notebook/style.css"} <= inside
