"""The tables that Delta Spark, delta-kernel-rs and delta-rs wrote, read through Spark.

The rows must be those of ``shared/tables/expected``, as for the reader of the process. A few tables
stand for the kinds by default; the whole sweep is marked ``slow``.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from deltanb.engines.arrow import read as in_process
from deltanb.engines.spark.read import read_table
from deltanb.errors import DeltaError
from deltanb.transaction.delta_log import DeltaLog
from tests.shared_tables import canon, expectations, names, path_of

pytestmark = [pytest.mark.spark, pytest.mark.shared]

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


def _readable() -> list[Any]:
    return [pytest.param(name, marks=() if name in SAMPLE else (pytest.mark.slow,)) for name in names("rows")]


@pytest.mark.parametrize("name", _readable())
def test_rows_through_spark(spark, name):
    expected = expectations()[name]
    snapshot = DeltaLog.for_table(str(path_of(name))).snapshot
    frame = read_table(snapshot, snapshot.files, spark)
    assert frame.columns == snapshot.schema.names
    assert frame.count() == expected["row_count"]
    _has_rows(frame, expected)


def _has_rows(frame: Any, expected: Any) -> None:
    if expected["content_sha256"] is None and expected.get("rows") is None:
        return
    rows = frame.toArrow().to_pylist()
    assert len(rows) == expected["row_count"]
    lines = canon().rows(rows, {"fields": expected["schema_fields"]})
    if expected["content_sha256"] is not None:
        assert canon().digest(lines) == expected["content_sha256"]
    if expected.get("rows") is not None:
        assert lines == sorted(canon().dumps(row) for row in expected["rows"])


@pytest.mark.parametrize("name", _readable())
def test_rows_through_the_data_source(spark, name):
    pytest.importorskip("pyspark", "4.1", reason="filters of Python data sources come with PySpark 4.1")
    expected, path = expectations()[name], str(path_of(name))
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
@pytest.mark.parametrize("name", [name for name in names("log_only", "error", "needs_catalog")
                                  if name not in SHREDDED])
def test_what_cannot_be_read_is_refused_as_in_the_process(spark, name):
    path = str(path_of(name))
    errors_raised = []
    for read in (lambda s: in_process.read_table(s, s.files), lambda s: read_table(s, s.files, spark)):
        with pytest.raises(DeltaError) as caught:
            read(DeltaLog.for_table(path).snapshot)
        errors_raised.append(type(caught.value))
    assert errors_raised[0] is errors_raised[1]
