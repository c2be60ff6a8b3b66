"""Spark Connect: the same writes and reads, in a process of its own beside a local Connect server.

A process is either classic or Connect, so the body runs in a child, whose server ends with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.engines.spark.connect import NEEDED
from tests.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.slow,
              pytest.mark.classic("it starts servers of its own, as --connect has one already")]

BODY = """
import sys
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow import read as in_process
from deltanb.errors import ConstraintViolation, InvalidPredicate, SchemaMismatch
from deltanb.transaction.delta_log import DeltaLog
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.store.local import LocalStore
from deltanb.engines.spark import read
from deltanb.engines.spark import session as sessions
from deltanb.engines.spark import write

starter = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.address", "127.0.0.1")
with sessions._environment(JAVA_HOME=str(sessions.java_home())):
    for key, value in sessions.local_settings().items():
        if key != "spark.master":
            starter = starter.config(key, value)
    starter.getOrCreate()
import deltanb.spark
spark = deltanb.spark(remote="sc://localhost")
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)

schema = StructType([StructField("id", PrimitiveType("long")), StructField("p", PrimitiveType("string")),
                     StructField("v", PrimitiveType("double"))])
metadata = Metadata("t", schema.to_json(), ("p",), {"delta.constraints.small": "id < 100"})
protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "checkConstraints"))
store = LocalStore(sys.argv[1])
frame = spark.range(20).selectExpr("id", "nullif(string(id % 3), '2') p", "id / 2 v")
files = write.write_files(store, metadata, protocol, frame)
assert sum(file.num_records for file in files) == 20
for bad, error in ((spark.range(90, 110).selectExpr("id", "'x' p", "1.0D v"), ConstraintViolation),
                   (spark.sql("SELECT 1L id, 'x' p, 1.0D v, 2 more"), SchemaMismatch)):
    try:
        write.write_files(store, metadata, protocol, bad)
    except error as caught:
        assert error is SchemaMismatch or caught.row["id"] >= 100, caught.row
    else:
        raise AssertionError(f"no {error}")
first = files[0].replace(deletion_vector=deletion_vectors.inline(BitMap64([0])))
text = "\\n".join(action.to_json() for action in (protocol, metadata, first, *files[1:]))
assert store.put_if_absent("_delta_log/00000000000000000000.json", text.encode())
snapshot = DeltaLog.for_table(sys.argv[1]).snapshot
for columns, where in ((None, None), (["v", "p"], "p = '1' AND id > 3"), (["id"], "p IS NULL")):
    rows = read.read_table(snapshot, snapshot.files, spark, columns, where).toArrow().to_pylist()
    expected = in_process.read_table(snapshot, snapshot.files, columns, where).to_pylist()
    assert sorted(map(repr, rows)) == sorted(map(repr, expected)), (rows, expected)
left = {p.name for p in __import__("pathlib").Path(sys.argv[1]).iterdir()}
assert left == {"_delta_log", "p=0", "p=1", "p=__HIVE_DEFAULT_PARTITION__"}, left
from deltanb.table.table import DeltaTable
table = DeltaTable.for_path(sys.argv[1])
done = table.delete("soundex(p) = p AND p = '1' OR id = 3", engine="spark")
assert (done.engine, done.metrics["numDeletedRows"]) == ("spark", 8), done  # all of p = '1', and 3
done = table.update({"v": "id * 2", "p": "'2'"}, "id % 2 = 0 AND p = '0'", engine="spark")
assert done.metrics["numUpdatedRows"] == 3, done
assert table.to_arrow(where="p = '2'").sort_by("id").to_pylist() == [
    {"id": n, "p": "2", "v": n * 2.0} for n in (6, 12, 18)]
try:
    table.delete("soundexx(p) = 1")
except InvalidPredicate:
    pass
else:
    raise AssertionError("no InvalidPredicate")
print("done")
spark.stop()
"""


PART = ("pattern and named or gone_is_named and named or deleted_rows_of_a_partitioned and named "
        "or batches_are_empty and named or two_partition_columns or check_names_constraint or target_size "
        "or batches_have_the_options")
"""Of the tests of reads, writes and streams, those that each run has on Connect; ``--connect`` has all."""


def test_a_part_of_the_suite_runs_on_connect(tmp_path):
    for module in NEEDED:
        pytest.importorskip(module, reason="Spark Connect needs pip install 'pyspark[connect]'")
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--connect", "-k", PART,
         f"--basetemp={tmp_path / 'tests'}",
         "tests/engines/spark/test_read.py", "tests/engines/spark/test_write.py",
         "tests/engines/spark/test_stream_connect.py"],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path)}, cwd=root, capture_output=True, text=True,
        check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stdout[-4000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 12, run.stdout[-400:]


@pytest.mark.thorough
def test_writes_and_reads_work_on_connect(tmp_path):
    for module in NEEDED:
        pytest.importorskip(module, reason="Spark Connect needs pip install 'pyspark[connect]'")
    root = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "SPARK_LOCAL_DIRS": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", BODY, str(tmp_path / "table")], env=environment,
                         cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.splitlines()[-1:] == ["done"]
