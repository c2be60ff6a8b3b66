"""What is done to read a log, counted: rows decoded at a time, row groups, files, listings."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltanb.log.checkpoint import part as checkpoint_part
from deltanb.log.checkpoint import write as checkpoint_write
from deltanb.log.skipping import prune, stats
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import note_decoded_columns

FILES, GROUP = 30, 10


def numbered(n: int) -> str:
    return f'{{"numRecords":1,"minValues":{{"i":{n},"j":{n}}},"maxValues":{{"i":{n},"j":{n}}}}}'


def checkpointed(monkeypatch: pytest.MonkeyPatch, partitions: int = 10) -> MemoryStore:
    """A table of 30 files in three row groups of a checkpoint, all partitions in each."""
    monkeypatch.setattr(checkpoint_write, "SMALL_ROWS", 0)
    monkeypatch.setattr(checkpoint_write, "ROWS_PER_GROUP", GROUP)
    builder = TableBuilder(MemoryStore()).create("i long, j long, p string", partition_by=["p"])
    builder.commit(*(add(f"f{n}", {"p": str(n % partitions)}, stats=numbered(n)) for n in range(FILES)))
    builder.log.checkpoint()
    DeltaLog.clear_cache()
    store = MemoryStore()
    store.files.update(builder.store.files)  # type: ignore[attr-defined]
    return store


def test_texts_of_statistics_are_there_for_a_few_files_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = checkpointed(monkeypatch)
    monkeypatch.setattr(checkpoint_part, "BATCH", 4)
    parsed: list[int] = []
    real = stats.parse_stats

    def counted(texts: pa.ChunkedArray, *args: object, **named: object) -> pa.Table:
        parsed.append(len(texts))
        return real(texts, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("deltanb.log.skipping.prune.parse_stats", counted)
    assert DeltaLog.for_table(store).snapshot.files_for_scan("i = 12")["path"].to_pylist() == ["f12"]
    assert sorted(parsed) == sorted([4, 4, 2] * (FILES // GROUP))


def test_a_partition_filter_asks_each_partition_once_and_reads_its_columns_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = checkpointed(monkeypatch, partitions=2)
    decoded = note_decoded_columns(monkeypatch)
    asked: list[int] = []
    real = prune.evaluate

    def counted(table: pa.Table, condition: object) -> pa.ChunkedArray:
        asked.append(table.num_rows)
        return real(table, condition)  # type: ignore[arg-type]

    monkeypatch.setattr(prune, "evaluate", counted)
    columns = ["path", "partition_values", "size"]
    found = DeltaLog.for_table(store).snapshot.files_for_scan("p = '1'", columns=columns)
    assert found["path"].to_pylist() == [f"f{n}" for n in range(1, FILES, 2)]
    assert found["partition_values"].to_pylist() == [[("p", "1")]] * (FILES // 2)
    assert asked == [3] * (FILES // GROUP)  # both partitions and NULL, and not each file
    assert sorted(decoded) == sorted(
        [("add.partitionValues",), ("add.path", "add.size")] * (FILES // GROUP))
