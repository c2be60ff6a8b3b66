"""The tables that Delta Spark, delta-kernel-rs and delta-rs wrote, read through Spark.

The rows must be those of ``shared/tables/expected``, as for the reader of the process. A few tables
stand for the kinds by default; the whole sweep is marked ``slow``.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from deltanb.data import read as in_process
from deltanb.errors import DeltaError
from deltanb.spark.read import read_table
from deltanb.transaction.delta_log import DeltaLog

pytestmark = pytest.mark.spark

TABLES = Path(__file__).resolve().parents[3] / "shared" / "tables"

SAMPLE = {
    "delta_resources__kernel__basic-dv-no-checkpoint",
    "delta_resources__kernel__column-mapping-id",
    "delta_resources__kernel__data-reader-partition-values-column-mapping-name",
    "delta_resources__kernel__spark-shredded-variant-preview-delta",
    "delta_rs_data__table_with_edge_timestamps",
    "golden__hive__deltatbl-special-chars-in-partition-column",
    "golden__kernel-timestamp-INT96",
    "golden__parquet-all-types-legacy-format",
    "golden__type-widening-nested",
    "kernel_rs__stats-writing-all-types__delta",
    "kernel_rs__v1-multi-part-partitioned-struct-stats-only",
}


def _tables(*outcomes: str) -> list[Any]:
    found = []
    for path in sorted((TABLES / "expected").glob("*.json")):
        if json.loads(path.read_text())["outcome"] in outcomes:
            marks = () if path.stem in SAMPLE else (pytest.mark.slow,)
            found.append(pytest.param(path.stem, marks=marks))
    return found or [pytest.param("", marks=pytest.mark.skip(f"no {TABLES}"))]


def _canon() -> Any:
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", _tables("rows"))
def test_rows_through_spark(spark, name):
    expected = json.loads((TABLES / "expected" / f"{name}.json").read_text())
    snapshot = DeltaLog.for_table(str(TABLES / name.split("__")[0] / expected["table"])).snapshot
    frame = read_table(snapshot, snapshot.files, spark)
    assert frame.columns == snapshot.schema.names
    assert frame.count() == expected["row_count"]
    _has_rows(frame, expected)


def _has_rows(frame: Any, expected: Any) -> None:
    if expected["content_sha256"] is None and expected.get("rows") is None:
        return
    rows = frame.toArrow().to_pylist()
    assert len(rows) == expected["row_count"]
    canon = _canon()
    lines = canon.rows(rows, {"fields": expected["schema_fields"]})
    if expected["content_sha256"] is not None:
        assert canon.digest(lines) == expected["content_sha256"]
    if expected.get("rows") is not None:
        assert lines == sorted(canon.dumps(row) for row in expected["rows"])


@pytest.mark.parametrize("name", _tables("rows"))
def test_rows_through_the_data_source(spark, name):
    pytest.importorskip("pyspark", "4.1", reason="filters of Python data sources come with PySpark 4.1")
    expected = json.loads((TABLES / "expected" / f"{name}.json").read_text())
    path = str(TABLES / name.split("__")[0] / expected["table"])
    frame = spark.read.format("deltanb").load(path)
    assert frame.columns == DeltaLog.for_table(path).snapshot.schema.names
    _has_rows(frame, expected)


SHREDDED = {
    "delta_resources__spark__variant-stats-no-checkpoint": (
        '{"i":100,"v":{"id":0,"name":"10"},"nv":{"v":{"id":10,"name":"20"}}}'),
    "delta_resources__spark__variant-stats-with-struct-no-checkpoint": (
        '{"v":{"key":200},"s":{"i":200,"j":"str_200"}}'),
}
"""Variants in pieces, and a row of each; the readers at hand when the expectations were made knew none."""


@pytest.mark.parametrize("name", SHREDDED)
def test_shredded_variants_are_read(spark, shared, name):
    source, _, table = name.split("__")
    snapshot = DeltaLog.for_table(str(shared / "tables" / source / "spark" / table)).snapshot
    rows = read_table(snapshot, snapshot.files, spark).selectExpr("to_json(struct(*)) j").collect()
    assert len(rows) == 10
    assert SHREDDED[name] in [row.j for row in rows]
    ours = in_process.read_table(snapshot, snapshot.files).to_pylist()
    theirs = read_table(snapshot, snapshot.files, spark).toArrow().to_pylist()
    assert sorted(map(_in_order, ours)) == sorted(map(_in_order, theirs)), "byte by byte"


def _in_order(value: Any) -> str:
    if isinstance(value, dict):
        return str([(name, _in_order(value[name])) for name in sorted(value)])
    return str(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [case for case in _tables("log_only", "error", "needs_catalog")
                                  if case.values[0] not in SHREDDED])
def test_what_cannot_be_read_is_refused_as_in_the_process(spark, name):
    expected = json.loads((TABLES / "expected" / f"{name}.json").read_text())
    path = str(TABLES / name.split("__")[0] / expected["table"])
    said = []
    for read in (lambda s: in_process.read_table(s, s.files), lambda s: read_table(s, s.files, spark)):
        with pytest.raises(DeltaError) as caught:
            read(DeltaLog.for_table(path).snapshot)
        said.append(type(caught.value))
    assert said[0] is said[1]
