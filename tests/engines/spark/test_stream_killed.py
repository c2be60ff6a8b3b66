"""A stream that is killed at each step of a batch, and started again: nothing lost, nothing doubled.

A usual run kills at two of the steps, chosen by a seed; ``--faults=all`` at each of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

import deltanb as dn
from deltanb.actions import decode_path
from tests.engines.spark.dying import DRIVER, STEP, STEPS
from tests.examples import every
from tests.helpers import tree
from tests.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.slow,
              pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc"),
              pytest.mark.classic("the driver that is killed is a process with a session of its own")]

ROOT = Path(__file__).resolve().parents[3]

BODY = f"""
import os, sys
os.environ["{DRIVER}"] = str(os.getpid())
import deltanb as dn
from tests.engines.spark.dying import Dying

folder, way = sys.argv[1:]
spark = dn.spark()
spark.dataSource.register(Dying)
table = dn.open(f"{{folder}}/table")
rows = spark.readStream.format("dying").option("maxFilesPerTrigger", 1).load(f"{{folder}}/source")
if way == "format":
    writer = rows.writeStream.format("dying").option("checkpointLocation", f"{{folder}}/checkpoint")
    stream = writer.trigger(availableNow=True).start(table.path)
else:
    stream = table.write_stream(rows, checkpoint=f"{{folder}}/checkpoint", trigger="availableNow")
assert stream.awaitTermination({PATIENCE})
"""


@pytest.mark.parametrize("way", every(2, ["format", "write_stream"]))
def test_a_killed_stream_goes_on(way: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    faults = request.config.getoption("--faults")
    steps = list(STEPS) if faults == "all" else Random(f"{faults} {way}").sample(STEPS, 1)
    table, source = dn.create(tmp_path / "table", "id bigint"), dn.create(tmp_path / "source", "id bigint")
    for n in range(len(steps) + 1):
        source.append({"id": [n]})
    for step in (*steps, ""):  # the last one lives
        run = subprocess.run(
            [sys.executable, "-c", BODY, str(tmp_path), way], cwd=ROOT, text=True, capture_output=True,
            timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(ROOT), STEP: step})
        assert run.returncode == (-signal.SIGKILL if step else 0), (step, run.stderr[-2000:])
    count = len(steps) + 1
    assert table.to_arrow().sort_by("id")["id"].to_pylist() == list(range(count))
    assert [commit.operation for commit in table.history()] == ["STREAMING UPDATE"] * count + ["CREATE TABLE"]
    named = {decode_path(path) for path in table.snapshot.files["path"].to_pylist()}
    table.vacuum(0, check=False)
    assert {name for name in tree(tmp_path / "table") if not name.startswith("_delta_log")} == named
