"""Writers that use Spark race like any others: each from a thread of its own, one at a time."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.errors import ConcurrentAppendException

pytestmark = pytest.mark.spark


def test_spark_writers_take_turns(tmp_path, spark):
    with dn.teaching(seed=1):
        table = dn.create(tmp_path / "ducks", {"name": ["Donald", "Daisy"], "month": [1, 2]},
                          partition_by="month")
        rows = spark.createDataFrame([("Scrooge", 1)], "name string, month long")
        result = dn.race(table, {
            "frame": lambda t: t.append(rows),
            "begins": lambda t: t.append(dn.spark().createDataFrame([("Gus", 2)], "name string, month long")),
            "deletes": lambda t: t.delete("month = 1 AND upper(name) = 'DONALD'", engine="spark"),
        })
    assert (result.outcomes["frame"], result.outcomes["begins"]) == (1, 2)
    assert isinstance(result.outcomes["deletes"], ConcurrentAppendException)
    assert [entry.user_name for entry in table.history()][:2] == ["begins", "frame"]
    assert table.to_df(spark).count() == 4
