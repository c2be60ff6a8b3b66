"""A process that is killed between any two steps of a commit leaves a table that opens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltanb.testing import TableBuilder, add


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize("interval", [100, 2], ids=["commit", "commit and checkpoint"])
def test_killed_anywhere(tmp_path: Path, interval: int) -> None:
    table = tmp_path / "table"
    builder = TableBuilder(table).create(
        "id long", properties={"delta.checkpointInterval": str(interval)})
    builder.commit(add("old"))
    script = Path(__file__).with_name("killed.py")
    result = subprocess.run([sys.executable, str(script), str(table)], capture_output=True,
                            text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    died, finished, landed = map(int, result.stdout.split())
    assert finished == 1, "the last child met no end"
    assert died > 8, "there are many places to die"
    assert 0 < landed < died, "some died before the commit was there, some after"
