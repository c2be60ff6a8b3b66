"""A task of a stream that fails and is tried again: its rows come once, its first attempt leaves no file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has limits for streams of Python")

import deltanb as dn
from deltanb.actions import decode_path
from tests.helpers import ids, tree
from tests.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.slow,
              pytest.mark.classic("a session that tries tasks again is that of a process of its own")]

ROOT = Path(__file__).resolve().parents[3]
WAYS = ("write_stream", "format")

BODY = """
import sys
import deltanb as dn
from pyspark import TaskContext

folder = sys.argv[1]
spark = dn.spark(master="local[2,3]", config={"spark.sql.execution.arrow.maxRecordsPerBatch": "1"})

def fails_first(batches):
    for number, batch in enumerate(batches):
        if number and not TaskContext.get().attemptNumber():
            with open(f"{folder}/failed", "a") as file:
                file.write("x")
            raise RuntimeError("the first attempt ends here")
        yield batch

for way in sys.argv[2:]:
    rows = dn.open(f"{folder}/source").read_stream(spark).mapInArrow(fails_first, "id bigint")
    table, checkpoint = dn.open(f"{folder}/{way}"), f"{folder}/{way}-checkpoint"
    if way == "format":
        writer = rows.writeStream.format("deltanb").option("targetFileSize", 1).trigger(availableNow=True)
        stream = writer.option("checkpointLocation", checkpoint).start(table.path)
    else:
        stream = table.write_stream(rows, checkpoint=checkpoint, trigger="availableNow", target_file_size=1)
    assert stream.awaitTermination(150)

def alone(batches):  # where Spark speculates, two attempts of a task may be at work at any time
    from types import SimpleNamespace
    from deltanb.sources.spark.write import Wrote
    told = Wrote.of(SimpleNamespace(name="part", target=None), iter([]))
    for batch in batches:
        yield batch.from_pydict({"alone": [told.is_only]})

assert spark.range(1).mapInArrow(alone, "alone boolean").head().alone
spark.stop()
spark = dn.spark(master="local[2]", config={"spark.speculation": "true"})
assert not spark.range(1).mapInArrow(alone, "alone boolean").head().alone
"""


def test_a_task_that_is_tried_again_doubles_nothing(tmp_path: Path) -> None:
    source = dn.create(tmp_path / "source", {"id": [0, 1, 2]})
    source.append({"id": [3, 4]})
    tables = [dn.create(tmp_path / way, "id bigint") for way in WAYS]
    run = subprocess.run(
        [sys.executable, "-c", BODY, str(tmp_path), *WAYS], cwd=ROOT, text=True, capture_output=True,
        timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / "failed").read_text() == "xx", "one attempt of each stream has failed"
    for table in tables:
        assert ids(table) == [0, 1, 2, 3, 4] and table.version == 1
        named = {decode_path(path) for path in table.snapshot.files["path"].to_pylist()}
        assert {name for name in tree(Path(table.path)) if name.endswith(".parquet")} == named
