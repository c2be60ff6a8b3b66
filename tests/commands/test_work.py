"""What commands that change few rows read and write: files opened, row groups and columns decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.engines.arrow import data_file, file_writer, row_groups
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

FILES, GROUPS, ROWS = 4, 5, 10
"""Files of a table, row groups of a file, rows of a row group."""
IN_FILE = GROUPS * ROWS
VECTORS = {"delta.enableDeletionVectors": "true"}
Command = Callable[[DeltaTable], Any]


class Work:
    """Data files opened, and how many row groups of each column were decoded."""

    def __init__(self) -> None:
        self.opened = 0
        self.decoded: Counter[str] = Counter()

    def __eq__(self, other: object) -> bool:
        return (self.opened, self.decoded) == other

    def __repr__(self) -> str:
        return repr((self.opened, self.decoded))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """What is read from here on, of files with small row groups."""
    tally = Work()
    opened, batches = data_file.opened, pq.ParquetFile.iter_batches

    def counted_open(*args: Any) -> Any:
        tally.opened += 1
        return opened(*args)

    def counted(file: Any, *args: Any, **options: Any) -> Any:
        tally.decoded.update(name for name in options["columns"] for _ in options["row_groups"])
        return batches(file, *args, **options)

    monkeypatch.setattr(data_file, "opened", counted_open)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", ROWS)
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)
    return tally


def table_of(properties: dict[str, str]) -> DeltaTable:
    """Rows numbered through all files, with two columns beside their number."""
    table = dn.create(MemoryStore(), pa.schema([("k", "int64"), ("v", "int64"), ("text", "string")]),
                      properties=properties)
    for start in range(0, FILES * IN_FILE, IN_FILE):
        numbers = list(range(start, start + IN_FILE))
        table.append({"k": numbers, "v": numbers, "text": [str(n) for n in numbers]})
    return table


def delete(table: DeltaTable) -> Any:
    return table.delete("k = 77")


def update(table: DeltaTable) -> Any:
    return table.update({"v": "0"}, "k = 77")


def merge(table: DeltaTable) -> Any:
    source = {"k": [77, 5000], "v": [0, 1], "text": ["new", "newer"]}
    return table.merge(source, "target.k = source.k").when_matched_update_all(
        ).when_not_matched_insert_all().execute()


@pytest.mark.parametrize("command", [delete, update, merge])
def test_one_row_is_looked_for_in_one_row_group_and_one_file_is_written_again(
    work: Work, command: Command
) -> None:
    table = table_of({})
    result = command(table)
    assert work == (2, {"k": 1 + GROUPS, "v": GROUPS, "text": GROUPS})
    assert table.detail()["numFiles"] == FILES
    assert result.metrics.get("numCopiedRows", result.metrics.get("numTargetRowsCopied")) == IN_FILE - 1


def test_a_deletion_vector_takes_no_column_beside_that_of_the_condition(work: Work) -> None:
    delete(table_of(VECTORS))
    assert work == (1, {"k": 1})


@pytest.mark.parametrize("command", [update, merge])
def test_beside_a_deletion_vector_only_the_row_groups_of_changed_rows_are_read(
    work: Work, command: Command
) -> None:
    table = table_of(VECTORS)
    command(table)
    assert work == (2, {"k": 2, "v": 1, "text": 1})
    assert table.to_arrow(where="k = 77")["v"].to_pylist() == [0]


@pytest.mark.parametrize("command", [
    lambda table: table.delete("k = 5000"), lambda table: table.update({"v": "0"}, "k < 0"),
    lambda table: table.merge({"k": [5000]}, "target.k = source.k").when_matched_delete().execute()])
def test_where_no_row_can_match_no_file_is_opened(work: Work, command: Command) -> None:
    assert command(table_of({})).version is None
    assert work == (0, {})


def test_a_compaction_opens_each_file_once_and_decodes_each_column_once(work: Work) -> None:
    table = table_of({})
    table.optimize()
    everything = FILES * GROUPS
    assert work == (FILES, {"k": everything, "v": everything, "text": everything})
    assert table.detail()["numFiles"] == 1
