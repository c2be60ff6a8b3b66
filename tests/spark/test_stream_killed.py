"""A stream that is killed at each step of a batch, and started again: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.actions import decode_path
from tests.helpers import tree

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240
STEPS = ("before the files", "before the commit", "after the commit", "")
"""Where the process is killed, one after the other; the last one lives."""

BODY = """
import os, signal, sys
import deltanb as dn
from deltanb.spark.stream_sink import Sink
from deltanb.store.local import LocalStore
from deltanb.transaction.transaction import OptimisticTransaction

folder, step = sys.argv[1:]

def kill(at, also=True):
    if at == step and also:
        os.kill(os.getpid(), signal.SIGKILL)

def around(owner, name, before, after, when=lambda *given: True):
    work = getattr(owner, name)
    def run(*given, **more):
        kill(before, when(*given))
        done = work(*given, **more)
        kill(after, when(*given))
        return done
    setattr(owner, name, run)

around(OptimisticTransaction, "write_files", "before the files", None)
around(LocalStore, "put_if_absent", "before the commit", "after the commit",
       lambda store, path, *more: path.endswith(".json") and "checkpoint" not in path)
table = dn.open(f"{folder}/table")
reader = dn.spark().readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
rows = reader.parquet(f"file:{folder}/source")
stream = table.write_stream(rows, checkpoint=f"{folder}/checkpoint", trigger="availableNow")
assert stream.awaitTermination(200)
"""


def test_a_killed_stream_goes_on(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "table", "id bigint")
    (tmp_path / "source").mkdir()
    for n in range(4):
        path = tmp_path / "source" / f"{n}.parquet"
        pq.write_table(pa.table({"id": [n]}), path)
        os.utime(path, (n, n))
    for step in STEPS:
        run = subprocess.run([sys.executable, "-c", BODY, str(tmp_path), step], cwd=ROOT, text=True,
                             capture_output=True, timeout=SECONDS)
        assert run.returncode == (-signal.SIGKILL if step else 0), run.stderr[-2000:]
    assert table.to_arrow().sort_by("id")["id"].to_pylist() == [0, 1, 2, 3]
    assert [commit.operation for commit in table.history()] == ["STREAMING UPDATE"] * 4 + ["CREATE TABLE"]
    named = {decode_path(path) for path in table.snapshot.files["path"].to_pylist()}
    table.vacuum(0, check=False)
    assert {name for name in tree(tmp_path / "table") if name.endswith(".parquet")} == named
