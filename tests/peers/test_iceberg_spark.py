"""Spark with Iceberg's runtime on a catalog that is served.

There is no runtime for the Spark that this library is tested with, so it runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's: pip install pyiceberg")

import deltanb as dn
from deltanb.catalog.rest.server.serving import serve
from tests.patience import PATIENCE
from tests.peers.maven import Unavailable, classpath, run

PYSPARK = "pyspark==4.1.4"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with that Spark and nothing else."""
    folder = tmp_path_factory.mktemp("spark-4.1")
    made = run([sys.executable, "-m", "venv", str(folder)], timeout=PATIENCE)
    program = str(folder / "bin" / "python")
    if made.returncode == 0:
        made = run([program, "-m", "pip", "install", "-q", "--disable-pip-version-check", PYSPARK],
                   timeout=PATIENCE)
    if made.returncode:
        pytest.skip(f"no {PYSPARK}: {made.stdout[-500:]}")
    return program


@pytest.mark.environments
@pytest.mark.spark
def test_spark_makes_merges_alters_and_renames_a_table(python: str, tmp_path: Path) -> None:
    try:
        jars = classpath([RUNTIME], tmp_path / "jars").replace(os.pathsep, ",")
    except Unavailable as reason:
        pytest.skip(f"no Iceberg for Spark: {reason}")
    source = Path(__file__).with_name("iceberg_spark.py")
    database = f"sqlite:///{tmp_path}/catalog.db"
    with serve(database, warehouse=tmp_path / "lake") as server:
        alone = {key: text for key, text in os.environ.items() if key not in ("SPARK_HOME", "PYTHONPATH")}
        done = run([python, str(source), server.url, jars], timeout=PATIENCE,
                   env={**alone, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}, cwd=tmp_path)
    answers = [line.partition(" ") for line in done.stdout.splitlines()
            if line.startswith(("row ", "tables ", "snapshots "))]
    rows = [json.loads(rest) for kind, _, rest in answers if kind == "row"]
    assert rows == [{"id": 1, "sum": 10, "owner": None}, {"id": 2, "sum": 25, "owner": None},
                    {"id": 3, "sum": 30, "owner": None}], re.sub(r"\n\s*at .*", "", done.stdout)[-3000:]
    assert [json.loads(rest) for kind, _, rest in answers if kind != "row"] == [["books"], 2]
    with dn.Catalog(database, warehouse=tmp_path / "lake") as catalog:
        table = catalog.table("bank.books")
        assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == rows
        assert table.to_arrow(where="id = 3").num_rows == 1
