"""What is done to read a log, counted: rows decoded at a time, row groups, files, listings."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.concurrency import parallel
from deltanb.log import file_set, layer
from deltanb.log.checkpoint import rows as checkpoint_rows
from deltanb.log.checkpoint import write as checkpoint_write
from deltanb.log.checkpoint.part import ParquetPart
from deltanb.log.finder import Finder
from deltanb.log.skipping import prune, stats
from deltanb.parquet.file import SafeFile
from deltanb.store import drafts
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import note_decoded_columns
from tests.patience import PATIENCE

FILES, GROUP = 30, 10
V2 = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"],
      "writerFeatures": ["v2Checkpoint"]}


def numbered(n: int) -> str:
    return f'{{"numRecords":1,"minValues":{{"i":{n},"j":{n}}},"maxValues":{{"i":{n},"j":{n}}}}}'


def checkpointed(monkeypatch: pytest.MonkeyPatch, partitions: int = 10, **properties: str) -> MemoryStore:
    """A table of 30 files in three row groups of a checkpoint, all partitions in each."""
    monkeypatch.setattr(checkpoint_write, "SMALL_ROWS", 0)
    monkeypatch.setattr(checkpoint_write, "ROWS_PER_GROUP", GROUP)
    monkeypatch.setattr(checkpoint_write, "MAX_SIDECAR_ROWS", GROUP)
    builder = TableBuilder(MemoryStore()).create(
        "i long, j long, p string", partition_by=["p"], properties=properties,
        protocol=V2 if properties else None)
    builder.commit(*(add(f"f{n}", {"p": str(n % partitions)}, stats=numbered(n)) for n in range(FILES)))
    builder.log.checkpoint()
    DeltaLog.clear_cache()
    store = MemoryStore()
    store.files.update(builder.store.files)  # type: ignore[attr-defined]
    return store


def note_parsed_texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by how many texts of statistics are parsed at a time."""
    parsed: list[int] = []
    real = stats.parse_stats

    def counted(texts: pa.ChunkedArray, *args: Any, **named: Any) -> pa.Table:
        parsed.append(len(texts))
        return real(texts, *args, **named)

    monkeypatch.setattr(prune, "parse_stats", counted)
    return parsed


def test_texts_of_statistics_are_there_for_a_few_files_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = checkpointed(monkeypatch)
    monkeypatch.setattr(checkpoint_rows, "BATCH", 4)
    parsed = note_parsed_texts(monkeypatch)
    assert DeltaLog.for_table(store).snapshot.files_for_scan("i = 12")["path"].to_pylist() == ["f12"]
    assert sorted(parsed) == sorted([4, 4, 2] * (FILES // GROUP))


def test_what_reads_the_texts_of_some_columns_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = checkpointed(monkeypatch)
    parsed = note_parsed_texts(monkeypatch)
    monkeypatch.setattr(parallel, "each", lambda work, items, *args: map(work, items))  # threads might meet
    stats._decoder.cache_clear()
    for _ in range(2):
        DeltaLog.clear_cache()
        assert DeltaLog.for_table(store).snapshot.files_for_scan("j = 12")["path"].to_pylist() == ["f12"]
    made = stats._decoder.cache_info()
    assert made.misses == 1 and made.misses + made.hits >= len(parsed) == 2 * (FILES // GROUP)


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
    files = DeltaLog.for_table(store).snapshot.files_for_scan("p = '1'", columns=columns)
    assert files["path"].to_pylist() == [f"f{n}" for n in range(1, FILES, 2)]
    assert files["partition_values"].to_pylist() == [[("p", "1")]] * (FILES // 2)
    assert asked == [3] * (FILES // GROUP)  # both partitions and NULL, and not each file
    assert sorted(decoded) == sorted(
        [("add.partitionValues",), ("add.path", "add.size")] * (FILES // GROUP))


def test_a_second_predicate_on_a_column_parses_what_came_since_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = checkpointed(monkeypatch)
    log = DeltaLog.for_table(store)
    log.snapshot.files_for_scan("i = 12", columns=["path"])
    parsed, decoded = note_parsed_texts(monkeypatch), note_decoded_columns(monkeypatch)
    assert log.snapshot.files_for_scan("i >= 28", columns=["path"])["path"].to_pylist() == ["f28", "f29"]
    assert parsed == [] and set(decoded) == {("add.path",)}
    TableBuilder(store, log.snapshot.version).commit(
        add("new", {"p": "0"}, stats=numbered(40)), add("other", {"p": "0"}, stats=numbered(50)))
    assert log.update().files_for_scan("i >= 29", columns=["path"])["path"].to_pylist() == [
        "f29", "new", "other"]
    assert parsed == [2]
    log.snapshot.files_for_scan("i = 3 AND j = 3", columns=["path"])
    assert sum(parsed) == 2 + FILES + 2  # j alone: a text is parsed for the columns that are asked for


class Watched(MemoryStore):
    """Notes each listing with where it starts, and each file that is read or opened."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__()
        self.files.update(inner.files)
        self.listed: list[str] = []
        self.opened: list[str] = []

    def list_from(self, name: str) -> Any:
        self.listed.append(name.removeprefix("_delta_log/"))
        return super().list_from(name)

    def read(self, name: str) -> bytes:
        self.opened.append(name.removeprefix("_delta_log/"))
        return super().read(name)


def test_a_log_with_checkpoints_is_listed_once_and_read_from_the_newest_one_on() -> None:
    builder = TableBuilder(MemoryStore()).create("i long")
    for number in range(1, 24):
        builder.commit(add(f"f{number}"))
        if number % 10 == 0:
            builder.log.checkpoint()
    store = Watched(builder.store)  # type: ignore[arg-type]
    assert DeltaLog.for_table(store).snapshot.num_files == 23
    assert store.listed == [f"{20:020}."]
    commits = [f"{version:020}.json" for version in (21, 22, 23)]
    assert store.opened == ["_last_checkpoint", f"{20:020}.checkpoint.parquet", *commits]


def test_sidecars_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_write, "SMALL_ROWS", 0)
    monkeypatch.setattr(checkpoint_write, "MAX_SIDECAR_ROWS", GROUP)
    builder = TableBuilder(MemoryStore()).create(
        "i long", properties={"delta.checkpointPolicy": "v2"}, protocol=V2)
    builder.commit(*(add(f"f{n}") for n in range(2 * GROUP)))
    builder.log.checkpoint()
    store = Watched(builder.store)  # type: ignore[arg-type]
    snapshot = DeltaLog.for_table(store).snapshot
    assert len([name for name in store.opened if name.startswith("_sidecars/")]) == 2
    store.opened.clear()
    barrier, read = threading.Barrier(2, timeout=PATIENCE), SafeFile.read_row_groups

    def together(self: SafeFile, *args: Any, **named: Any) -> pa.Table:
        barrier.wait()  # one after the other would break it
        return read(self, *args, **named)

    monkeypatch.setattr(SafeFile, "read_row_groups", together)
    assert snapshot.select_files(["path"]).num_rows == 2 * GROUP
    assert store.opened == []  # their footers are open


def test_row_groups_of_a_checkpoint_are_in_memory_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    made, written = checkpoint_write._Forms.adds, pq.ParquetWriter.write_table

    def making(forms: Any, rows: pa.Table) -> pa.StructArray:
        done.extend(["made"] * (rows.num_rows > 0))
        return made(forms, rows)

    def writing(writer: Any, table: pa.Table, *args: Any, **named: Any) -> None:
        done.append("written")
        written(writer, table, *args, **named)

    monkeypatch.setattr(checkpoint_write._Forms, "adds", making)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", writing)
    checkpointed(monkeypatch)
    assert done == ["written", *["made", "written"] * (FILES // GROUP)]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_statistics_are_in_memory_for_one_row_group_of_the_checkpoint_that_is_written(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """However the row groups are cut that they are read from."""
    batch, held, most = 3, 0, 0
    store = checkpointed(monkeypatch, **({"delta.checkpointPolicy": "v2"} if policy == "v2" else {}))
    monkeypatch.setattr(checkpoint_rows, "BATCH", batch)
    monkeypatch.setattr(file_set, "MAX_KEPT", 0)
    monkeypatch.setattr(checkpoint_write, "ROWS_PER_GROUP", 8)
    monkeypatch.setattr(checkpoint_write, "MAX_SIDECAR_ROWS", 8)
    decoded, written = SafeFile.iter_batches, pq.ParquetWriter.write_table

    def reading(file: SafeFile, *args: Any, **named: Any) -> Any:
        nonlocal held, most
        for batch in decoded(file, *args, **named):
            held += batch.num_rows
            most = max(most, held)
            yield batch

    def writing(writer: Any, table: pa.Table, *args: Any, **named: Any) -> None:
        nonlocal held
        written(writer, table, *args, **named)
        held -= table.num_rows - table["add"].null_count if "add" in table.column_names else 0

    log = DeltaLog.for_table(store)
    metadata = log.snapshot.metadata.to_value()
    configuration = {**metadata["configuration"], "delta.checkpoint.writeStatsAsStruct": "true"}
    TableBuilder(store, log.snapshot.version).commit({"metaData": {**metadata,
                                                                   "configuration": configuration}})
    noted = note_decoded_columns(monkeypatch)
    monkeypatch.setattr(SafeFile, "iter_batches", reading)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", writing)
    log.checkpoint()
    assert held == 0 and 8 <= most < 8 + batch
    assert not [columns for columns in noted if "add.stats" in columns]  # in one piece


def test_a_checkpoint_goes_to_the_disk_row_group_by_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both those that are written and those that are copied; and its columns do not stay in memory."""
    for name, value in (("SMALL_ROWS", 0), ("ROWS_PER_GROUP", GROUP), ("WRITE_BUFFER", 1)):
        monkeypatch.setattr(checkpoint_write, name, value)
    builder = TableBuilder(LocalStore(str(tmp_path))).create("i long, j long, p string", partition_by=["p"])
    builder.commit(*(add(f"f{n}", {"p": "0"}, stats=numbered(n)) for n in range(FILES)))
    log, steps, finders = DeltaLog.for_table(str(tmp_path)), [], []
    encoded, copied = pq.ParquetWriter.write_table, ParquetPart.content_of
    write_all, find = drafts.write_all, Finder.find

    def noted(what: str, work: Any) -> Any:
        def worked(*args: Any, **named: Any) -> Any:
            if steps[-1:] != [what]:
                steps.append(what)
            return work(*args, **named)
        return worked

    def finding(finder: Finder, values: Any) -> Any:
        finders.append(len(finder._texts))
        return find(finder, values)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", noted("encoded", encoded))
    monkeypatch.setattr(ParquetPart, "content_of", noted("copied", copied))
    monkeypatch.setattr(drafts, "write_all", noted("written", write_all))
    log.checkpoint()
    assert steps == ["encoded", "written"] * (1 + FILES // GROUP)
    builder.commit(add("new", {"p": "0"}, stats=numbered(FILES)))
    log.update()
    steps.clear()
    monkeypatch.setattr(Finder, "find", finding)
    monkeypatch.setattr(layer, "FOUND_AT_ONCE", 7)
    log.checkpoint()
    assert steps == [*["encoded", "written"] * 2, *["copied", "written"] * (FILES // GROUP)]
    assert finders == [7, 7, 7, 7, 2]
    DeltaLog.clear_cache()
    assert DeltaLog.for_table(str(tmp_path)).snapshot.num_files == FILES + 1
