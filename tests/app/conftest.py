"""The command line in the process, as its tests call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltanb.app import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Run:
    """The exit code, output and errors of the command that the module names (``COMMAND``)."""
    def run(*words: Any) -> tuple[int, str, str]:
        code = cli.main([request.module.COMMAND, *map(str, words)])
        return code, *capsys.readouterr()
    return run
