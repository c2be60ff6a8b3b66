"""The oldest and the newest PySpark of the range: part of the tests of Spark, each in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.release.environments import minors_of_pyspark, range_of_pyspark

pyspark = pytest.importorskip("pyspark")

ROOT = Path(__file__).resolve().parents[3]
PART = "intervals or target_size or check_names_constraint or two_partition_columns or leave_files_out"
FILES = tuple(f"tests/engines/spark/test_{name}.py" for name in ("write", "read", "listed"))
"""Writes, reads, and the file list that is compiled in the JVM against Spark's own classes."""

pytestmark = [pytest.mark.spark,
              pytest.mark.classic("it starts processes of its own, each with another PySpark")]


def ends() -> dict[str, str]:
    """The minor versions at both ends -> what pip is asked for."""
    oldest, *_, newest = minors_of_pyspark()
    beyond = range_of_pyspark()[1]
    return {oldest: f"pyspark=={oldest}.0", newest: f"pyspark>={newest},<{beyond}"}


def test_the_installed_one_is_in_the_range() -> None:
    least, beyond = ([int(part) for part in text.split(".")] for text in range_of_pyspark())
    assert least <= [int(part) for part in pyspark.__version__.split(".")[:2]] < beyond


@pytest.mark.environments
@pytest.mark.parametrize("version", ends())
def test_a_part_of_the_suite_runs_on(version: str, tmp_path: Path) -> None:
    if pyspark.__version__.startswith(f"{version}."):
        pytest.skip(f"PySpark {version} is the installed one, which all tests run on")
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-warn-conflicts",
         "--target", str(tmp_path / "other"), ends()[version]],
        capture_output=True, text=True, check=False, timeout=PATIENCE)
    if made.returncode:
        pytest.skip(f"no {ends()[version]}: {made.stderr[-500:]}")
    alone = {key: text for key, text in os.environ.items() if key != "SPARK_HOME"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", PART,
         f"--basetemp={tmp_path / 'tests'}", *FILES],
        env={**alone, "PYTHONPATH": os.pathsep.join([str(tmp_path / "other"), str(ROOT)]),
             "SPARK_LOCAL_DIRS": str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stdout[-4000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) >= 5, run.stdout[-400:]
