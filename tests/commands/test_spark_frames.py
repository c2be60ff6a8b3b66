"""The same commands with Spark DataFrames: one contract, two engines."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deltanb.actions import AddFile
from deltanb.errors import ConstraintViolation, SchemaMismatch
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from tests.helpers import rows

NOON = datetime(2024, 5, 6, 12, 0, 0, 123456, timezone.utc)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_create_append_overwrite(tmp_path: Path, spark: Any) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, p string")
    table = create(tmp_path / "t", frame, partition_by="p")
    assert table.append(frame, txn=("app", 1)) == 1
    assert table.append(frame, txn=("app", 1)).version is None
    table.overwrite(spark.createDataFrame([(9, "a")], "id long, p string"), where="p = 'a'")
    assert rows(table) == [{"id": 2, "p": "b"}, {"id": 2, "p": "b"}, {"id": 9, "p": "a"}]
    schema_only = create(tmp_path / "s", frame.schema)
    assert schema_only.schema.names == ["id", "p"] and schema_only.snapshot.num_files == 0


def test_the_log_says_the_same_as_for_arrow(tmp_path: Path, spark: Any) -> None:
    frame = spark.createDataFrame(
        [(1, "x" * 50, 1.5, float("nan"), -0.0, Decimal("1.50"), NOON, [1]),
         (2, "y" * 6000, None, 1.0, 0.0, Decimal("-2.25"), NOON, None)],
        "id int, t string, f double, n float, z double, d decimal(20,2), m timestamp, a array<int>")
    for name, data in {"arrow": frame.toArrow(), "spark": frame.coalesce(1)}.items():
        create(tmp_path / name, data)
    stats = []
    for name in ("arrow", "spark"):
        actions = DeltaTable.for_path(tmp_path / name).log.read_commit(0)
        (file,) = [a for a in actions if isinstance(a, AddFile)]
        stats.append(json.loads(file.stats or ""))
    assert stats[0] == stats[1]


def test_schema_evolution_and_refusals(tmp_path: Path, spark: Any) -> None:
    table = create(tmp_path / "t", spark.range(2), properties={"delta.constraints.c": "id >= 0"})
    wider = spark.createDataFrame([(5, "new")], "id long, extra string")
    with pytest.raises(SchemaMismatch, match=r"\+ extra"):
        table.append(wider)
    table.append(wider, merge_schema=True)
    assert rows(table)[-1] == {"id": 5, "extra": "new"}
    with pytest.raises(ConstraintViolation) as caught:
        table.append(spark.createDataFrame([(-1,)], "id long"))
    assert caught.value.constraint == "c"
    with pytest.raises(ConstraintViolation):
        table.overwrite(spark.createDataFrame([(7,)], "id long"), where="id = 5")
    assert table.version == 1
    root = tmp_path / "t"
    paths = {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}
    assert paths == set(table.snapshot.files["path"].to_pylist())
