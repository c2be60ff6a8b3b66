"""Predicates and DDL mean the same with the oldest sqlglot that is allowed as with the installed one.

The newest is what `pip install` brings; the oldest is installed into a folder of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READERS_OF_SQL = ["sql/test_plain.py", "sql/test_predicates.py", "sql/test_nested_predicates.py",
                  "sql/test_values.py", "schema/test_ddl.py", "schema/test_type_names.py"]


def allowed() -> tuple[str, str]:
    """The oldest version that pyproject.toml allows, and the major that it does not."""
    found = re.search(r'"sqlglot>=(\d+),<(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found is not None
    return found[1] + ".0.0", found[2]


@pytest.mark.slow
def test_sql_is_read_alike_by_the_oldest_sqlglot(tmp_path: Path) -> None:
    oldest, _ = allowed()
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                    "--target", str(tmp_path), f"sqlglot=={oldest}"], check=True)
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run([sys.executable, "-c", "import sqlglot; print(sqlglot.__version__)"], env=env,
                           capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == oldest
    tests = [str(ROOT / "tests" / name) for name in READERS_OF_SQL]
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
                         env=env, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout[-4000:]


def test_the_installed_sqlglot_is_of_the_newest_major_that_is_allowed() -> None:
    import sqlglot

    assert int(sqlglot.__version__.split(".")[0]) == int(allowed()[1]) - 1
