"""Lint and types are part of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "--no-cache", "."],
        ["mypy", "--no-error-summary"],
    ],
    ids=["ruff", "mypy"],
)
def test_finds_nothing(command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"\n{result.stdout}{result.stderr}"


def test_mypy_is_strict_where_the_promises_rest(tmp_path: Path) -> None:
    """The settings for log/ and transaction/ reject what plain mypy lets pass."""
    source = tmp_path / "deltanb" / "log"
    source.mkdir(parents=True)
    for folder in (source, source.parent):
        (folder / "__init__.py").touch()
    (source / "sample.py").write_text("def double(x):\n    return 2 * x\n")
    command = ["mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "deltanb.log"]
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 1, f"{result.stdout}{result.stderr}"
    assert "[no-untyped-def]" in result.stdout
