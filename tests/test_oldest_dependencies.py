"""Both ends of the range of a dependency that says in new ways what is read here.

The newest is what `pip install` brings; the oldest is installed into a folder of its own, for tests that ask
it most.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.release.environments import project

ROOT = Path(__file__).parents[1]
ASKING = {
    "pyarrow": ["engines/arrow/test_arrow_kinds.py", "engines/arrow/test_read.py",
                "engines/arrow/test_read_conform.py", "engines/arrow/test_write.py",
                "engines/arrow/test_frames_of_others.py", "engines/arrow/test_patched.py",
                "commands/test_delete.py", "commands/test_update.py", "log/test_checkpoint.py"],
    "sqlglot": ["sql/test_constants.py", "sql/test_predicates.py", "sql/test_nested_predicates.py",
                "sql/test_values.py", "schema/test_ddl.py", "schema/test_type_names.py"],
}
"""Dependencies, and the tests to run with the oldest version of each."""


def ranges() -> dict[str, tuple[int, int]]:
    """Of the dependencies that have both: the oldest major that is allowed, and the one that is not."""
    matches = (re.fullmatch(r"([\w-]+)>=(\d+),<(\d+)", each) for each in project()["dependencies"])
    return {each[1]: (int(each[2]), int(each[3])) for each in matches if each is not None}


def test_every_dependency_with_a_range_is_tried() -> None:
    assert ranges().keys() == ASKING.keys()
    assert [each for tests in ASKING.values() for each in tests if not (ROOT / "tests" / each).exists()] == []


@pytest.mark.parametrize("name", ASKING)
def test_the_installed_one_is_of_the_newest_major_that_is_allowed(name: str) -> None:
    oldest, beyond = ranges()[name]
    assert oldest <= int(version(name).split(".")[0]) == beyond - 1


@pytest.mark.environments
@pytest.mark.parametrize("name", ASKING)
def test_the_oldest_one_does_the_same(name: str, tmp_path: Path) -> None:
    oldest = f"{ranges()[name][0]}.0.0"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                    "--target", str(tmp_path / "other"), f"{name}=={oldest}"], check=True)
    path = os.pathsep.join([str(tmp_path / "other"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run([sys.executable, "-c", f"import {name}; print({name}.__version__)"], env=env,
                           capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == oldest
    tests = [str(ROOT / "tests" / each) for each in ASKING[name]]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider",
         f"--basetemp={tmp_path / 'tests'}", *tests], env=env, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout[-4000:]
