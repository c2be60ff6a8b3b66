"""Binder: its files build an environment in which a tutorial runs, within the memory that it gives."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from packaging.requirements import Requirement

from deltanb.app.lab import FIRST_TUTORIAL
from deltanb.engines.spark.session import MIN_JAVA

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / "binder"
PYTHON = (3, 11)
TUTORIAL = FIRST_TUTORIAL  # needs no Java
MAX_MEMORY = 1_000_000_000
"""Bytes of a tutorial's kernel: Binder gives 2 GB, and JupyterLab, a second kernel and the page cache of
the files it writes take their share of it."""
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)
"""
"""Runs a command and prints the most memory that one process of it took, the kernel among them."""
CHECKOUT = ("deltanb", "notebooks", "binder", "pyproject.toml", "README.md", "LICENSE")


def lines(name: str) -> list[str]:
    """The lines of a file of Binder's that say something."""
    text = (BINDER / name).read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def pins() -> dict[str, Requirement]:
    """The packages that are named with a version."""
    requirements = [Requirement(line) for line in lines("requirements.txt") if not line.startswith(".")]
    return {requirement.name.lower(): requirement for requirement in requirements}


@pytest.mark.skipif(tomllib is None, reason="no tomllib before Python 3.11")
def test_what_the_tutorials_need_is_pinned_to_a_version_that_the_project_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = re.fullmatch(r"\.\[(.+)\]", lines("requirements.txt")[0])
    assert named
    needs = [*project["dependencies"], *(need for extra in named[1].split(",") for need in extras[extra])]
    needs += [need for need in extras["lab"] if not need.startswith("deltanb")]
    for need in map(Requirement, needs):
        (pin,) = pins()[need.name.lower()].specifier
        assert pin.operator == "==" and need.specifier.contains(pin.version), need


def test_python_is_the_one_the_pins_are_for() -> None:
    assert lines("runtime.txt") == ["python-" + ".".join(map(str, PYTHON))]


def test_java_is_of_the_system_and_new_enough() -> None:
    (package,) = lines("apt.txt")
    version = re.fullmatch(r"openjdk-(\d+)-jre-headless", package)
    assert version and int(version[1]) >= MIN_JAVA


def test_spark_takes_the_memory_that_start_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltanb.engines.spark.session import DRIVER_MEMORY, local_settings

    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    assert local_settings()["spark.driver.memory"] == DRIVER_MEMORY
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "512m")
    settings = local_settings()
    assert settings["spark.driver.memory"] == "512m"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.master"] in ("local[1]", "local[2]")


@dataclass
class Image:
    """A checkout of its own, a home of its own, and the environment that Binder's files make."""

    folder: Path

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    def run(self, *command: str, **more: str) -> str:
        """Run a command there; its output. It sees neither this machine's home nor its settings."""
        inherited = {name: value for name, value in os.environ.items()
                if not name.startswith(("PYTEST", "JUPYTER", "JPY", "IPYTHON", "PYTHON", "SPARK", "OMP"))}
        environment = {
            **inherited, "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"),
            "PATH": f"{self.folder / 'venv' / 'bin'}:{os.environ['PATH']}", **more}
        done = subprocess.run(command, cwd=self.checkout, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What Binder builds: checkout, Python, packages, ``postBuild``; but for what apt brings."""
    if sys.version_info < PYTHON:
        pytest.skip(f"the versions in requirements.txt are for {lines('runtime.txt')[0]} and newer")
    made = Image(tmp_path_factory.mktemp("binder"))
    for name in ("checkout", "home", "tmp"):
        (made.folder / name).mkdir()
    for name in CHECKOUT:
        source, target = ROOT / name, made.checkout / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_*"))
        else:
            shutil.copy(source, target)
    made.run(sys.executable, "-m", "venv", str(made.folder / "venv"))
    cache = {} if "PIP_CACHE_DIR" in os.environ else {"PIP_CACHE_DIR": pip_cache()}
    made.run("pip", "install", "-q", "-r", "binder/requirements.txt", **cache)
    made.run("binder/postBuild")
    return made


def pip_cache() -> str:
    """This machine's cache of packages: what was downloaded for the tests is not downloaded again."""
    return subprocess.check_output([sys.executable, "-m", "pip", "cache", "dir"], text=True).strip()


@pytest.mark.environments
def test_the_environment_is_of_the_checkout_and_the_pins(image: Image) -> None:
    listed = json.loads(image.run("pip", "list", "--format=json", "--disable-pip-version-check"))
    installed = {package["name"].lower(): package["version"] for package in listed}
    assert {name: installed[name] for name in pins()} == {
        name: next(iter(pin.specifier)).version for name, pin in pins().items()}
    where = image.run("python", "-P", "-c", "import deltanb; print(deltanb.__file__)")
    assert where.startswith(str(image.folder / "venv"))


@pytest.mark.environments
def test_tutorials_are_trusted_after_the_build(image: Image) -> None:
    notary = NotebookNotary(data_dir=str(image.folder / "home" / ".local" / "share" / "jupyter"))
    for path in sorted((image.checkout / "notebooks").glob("*.ipynb")):
        assert notary.check_signature(nbformat.read(path, as_version=4)), path.name
    (settings,) = (image.folder / "home" / ".jupyter").rglob("*.jupyterlab-settings")
    assert json.loads(settings.read_text())["fetchNews"] == "false"


@pytest.mark.environments
def test_a_session_has_the_limits_of_start(image: Image) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(image.run("binder/start", "python", "-c", code))
    assert seen["SPARK_DRIVER_MEMORY"] == "512m" and seen["OMP_NUM_THREADS"] == "2"
    assert Path(seen["SPARK_LOCAL_DIRS"]).is_relative_to(image.folder / "tmp")
    assert Path(seen["SPARK_LOCAL_DIRS"]).is_dir()


@pytest.mark.environments
def test_a_tutorial_runs_there_as_it_is_stored(image: Image) -> None:
    printed = image.run("binder/start", "python", "-c", MEASURED, "jupyter", "nbconvert", "--to", "notebook",
                        "--execute", "--output-dir", str(image.folder / "out"), f"notebooks/{TUTORIAL}")
    assert int(printed.split()[-1]) <= MAX_MEMORY
    ran, stored = (nbformat.read(folder / TUTORIAL, as_version=4)
                   for folder in (image.folder / "out", ROOT / "notebooks"))
    assert texts(ran) == texts(stored)


def texts(notebook: Any) -> list[str]:
    """The text of every output, without digits: sizes and times are the machine's."""
    outputs: list[Mapping[str, Any]] = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", "")
            for output in outputs]
    return [re.sub(r"[\d.,\s\xa0]+", " ", text) for text in shown]
