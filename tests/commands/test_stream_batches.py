"""Micro-batches whose files others have written: one commit each, and no file left where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.commands.rows.two_phase_write import commit_batch, planned
from deltanb.commands.rows.write import Batch, WriteOptions
from deltanb.errors import ConcurrentTransactionException, MetadataChangedException, TableNotFound
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import tree

pytest.importorskip("pyspark")

from deltanb.engines.spark.executors import Place, begun, write_files

SCHEMA = StructType([StructField("id", PrimitiveType("long"))])


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", {"id": [0]})


class Write:
    """A stream's write as the data source does it: planned once, then batch by batch."""

    def __init__(self, table: dn.DeltaTable, mode: str = "append") -> None:
        self.table, self.mode = table, mode
        self.plan = planned(table.log, SCHEMA, WriteOptions("Append" if mode == "append" else "Overwrite"))
        assert self.plan.target is not None
        self.tasks = begun(Place(table.log.store), self.plan.target)

    def files(self, *ids: int) -> list[Any]:
        return write_files(self.tasks, [pa.RecordBatch.from_pydict({"id": list(ids)})])

    def batch(self, number: int, *ids: int) -> Any:
        return commit_batch(self.table.log, self.plan, Batch("a query", number, self.mode), self.files(*ids))


def ids(table: dn.DeltaTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def data_files(table: dn.DeltaTable) -> set[str]:
    return {name for name in tree(Path(table.path)) if name.endswith(".parquet")}


def test_one_plan_serves_many_batches_whatever_others_append(table: dn.DeltaTable) -> None:
    write = Write(table)
    assert write.batch(0, 1).version == 1
    table.append({"id": [100]})
    assert write.batch(1, 2).version == 3
    assert ids(table) == [0, 1, 2, 100]


def test_a_batch_that_is_there_leaves_no_file(table: dn.DeltaTable) -> None:
    write = Write(table)
    write.batch(0, 1)
    files = data_files(table)
    assert write.batch(0, 1).version is None
    assert ids(table) == [0, 1] and data_files(table) == files


def test_complete_replaces_what_came_meanwhile(table: dn.DeltaTable) -> None:
    write = Write(table, "complete")
    write.batch(0, 1)
    table.append({"id": [100]})
    write.batch(1, 2)
    assert ids(table) == [2]


def test_columns_that_changed_after_the_plan_refuse_the_batch(table: dn.DeltaTable) -> None:
    write = Write(table)
    files = data_files(table)
    table.add_columns({"more": "int"})
    with pytest.raises(MetadataChangedException, match="same checkpoint"):
        write.batch(0, 1)
    assert ids(table) == [0] and data_files(table) == files


def test_a_table_that_is_gone_is_not_made_anew(table: dn.DeltaTable) -> None:
    write = Write(table)
    files = data_files(table)
    shutil.rmtree(Path(table.path) / "_delta_log")
    with pytest.raises(TableNotFound):
        write.batch(0, 1)
    assert not dn.DeltaTable.is_delta_table(table.path) and data_files(table) == files


def test_the_first_batch_makes_the_table_that_later_ones_of_its_plan_append_to(tmp_path: Path) -> None:
    write = Write(dn.DeltaTable(DeltaLog.for_table(tmp_path / "new")))
    assert [write.batch(number, number).version for number in range(2)] == [0, 1]
    assert write.batch(1, 1).version is None and ids(write.table) == [0, 1]
    assert [entry.operation for entry in write.table.history()] == ["STREAMING UPDATE"] * 2


def test_a_table_that_another_makes_after_the_plan_is_not_written_to(tmp_path: Path) -> None:
    write = Write(dn.DeltaTable(DeltaLog.for_table(tmp_path / "new")))
    other = dn.create(tmp_path / "new", {"id": [7]})
    files = data_files(other)
    with pytest.raises(MetadataChangedException):
        write.batch(0, 1)
    assert ids(other) == [7] and data_files(other) == files


def test_a_second_writer_between_read_and_commit_is_a_conflict(
    table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.transaction.transaction import OptimisticTransaction

    write, other = Write(table), Write(table)
    commit, met = OptimisticTransaction.commit_if_needed, []

    def late(txn: Any, *args: Any) -> Any:
        if not met:
            met.append(True)
            other.batch(0, 7)
        return commit(txn, *args)

    monkeypatch.setattr(OptimisticTransaction, "commit_if_needed", late)
    with pytest.raises(ConcurrentTransactionException):
        write.batch(0, 1)
    assert ids(table) == [0, 7] and len(data_files(table)) == 2
