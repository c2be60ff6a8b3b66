"""Under Pyodide's limits (``tests/limits.py``) the core's tests pass, and tutorials show what they ever show.

With calls that can be suspended, which greenlets imitate, races run their writers by the library's own code
for ``pyodide.ffi.run_sync``. Without, whoever needs writers side by side is refused.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.examples import every
from tests.limits import under_limits

pytestmark = pytest.mark.slow

ALONE = ("01-first-commit", "02-a-conflict", "03-step-through-a-commit", "05-time-travel",
         "07-a-schema-that-grows", "10-change-data-feed")
"""Tutorials in which nobody writes beside anybody."""
TOGETHER = ("00-tour", "04-isolation-levels", "08-the-bank", "09-rows-that-change", "11-maintenance",
            "13-locks-and-deadlocks", "14-optimistic-or-pessimistic", "18-last-nights-failure",
            "19-is-this-table-sound", "21-every-order-there-is")
"""Tutorials in which writers race, time is simulated, or somebody waits for a lock."""
CORE = {
    "transactions": ["tests/transaction/test_transaction.py", "tests/store/test_naming.py"],
    "rows": [f"tests/commands/test_{name}.py" for name in ("delete", "update", "merge", "rows", "restore")],
    "upkeep": [f"tests/{name}.py" for name in (
        "commands/test_optimize", "commands/test_vacuum", "log/test_checkpoint_reuse")],
    "numbers": ["tests/test_wide_numbers.py", "tests/log/test_finder.py", "tests/commands/test_diff.py"],
    "tables": ["tests/table/test_table.py", "tests/table/test_reading.py", "tests/commands/test_changes.py"],
    "locks": [f"tests/locks/tables/test_{name}.py" for name in (
        "retrying", "transfers", "table_calls", "cursor_commits", "uncommitted")],
}
ROOT = Path(__file__).resolve().parents[1]
suspends = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="no greenlet, which imitates suspended calls")


@pytest.mark.parametrize("name", every(4, ALONE))
def test_a_tutorial_without_races_needs_no_threads(name: str, tmp_path: Path) -> None:
    done = under_limits("notebooks", f"{name}.ipynb", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@suspends
@pytest.mark.parametrize("name", every(4, TOGETHER))
def test_a_tutorial_with_races_suspends_its_writers(name: str, tmp_path: Path) -> None:
    done = under_limits("--suspends", "notebooks", f"{name}.ipynb", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_where_nothing_can_be_suspended_a_race_says_what_is_missing(tmp_path: Path) -> None:
    done = under_limits("notebooks", "00-tour.ipynb", folder=tmp_path)
    assert done.returncode == 1
    assert "NoThreads: dn.race runs functions side by side, and this Python starts no threads" in done.stdout


@suspends
@pytest.mark.parametrize("part", every(3, list(CORE)))
def test_tests_of_the_core_pass(part: str, tmp_path: Path) -> None:
    files = [str(ROOT / file) for file in CORE[part]]
    done = under_limits(
        "--suspends", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not spark",
        f"--rootdir={ROOT}", f"--basetemp={tmp_path / 'tests'}", *files, folder=ROOT)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    passed = int(done.stdout.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 15, done.stdout
