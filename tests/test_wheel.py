"""What a person gets who installs the wheel and never sees the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    """The names in the wheel."""
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_tutorials_are_inside_and_their_tools_are_not(contents: set[str]) -> None:
    tutorials = {name for name in contents if name.startswith("deltanb/tutorials/")}
    notebooks = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert tutorials == {f"deltanb/tutorials/{name}" for name in notebooks}
    assert "deltanb/tutorials/00-tour.ipynb" in tutorials


def test_every_file_of_the_package_is_inside_and_nothing_else(contents: set[str]) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "deltanb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in contents if ".dist-info/" not in name}
    assert {name for name in inside if not name.startswith("deltanb/tutorials/")} == package
    assert {"deltanb/py.typed", "deltanb/notebook/style.css", "deltanb/notebook/timeline.css",
            "deltanb/app/lab_settings/labconfig/default_setting_overrides.json"} <= inside


def lab_command(package: Path, folder: Path) -> str:
    """What ``deltanb lab`` of a package says and runs in a folder, JupyterLab itself left out."""
    code = (
        "import os, sys; os.execve = lambda path, command, environment: sys.exit(print(*command))\n"
        "from deltanb.app import cli; cli.main(['lab'])"
    )
    homes = {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **homes, "PYTHONPATH": str(package)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_an_installed_wheel_puts_the_tutorials_where_the_reader_is(
    wheel: Path, tmp_path: Path
) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    printed = lab_command(tmp_path / "installed", tmp_path)
    folder = tmp_path / "deltanb-tutorials"
    assert f"--ServerApp.root_dir={folder.resolve()}" in printed
    copied = {path.name for path in folder.glob("*.ipynb")}
    assert copied == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
