"""What commands that change rows share: positions, who works, and the line that shows progress."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltanb.commands.begin import begin
from deltanb.commands.result import CommandResult, Stopwatch
from deltanb.commands.rows.find_and_change import FileChanges, find, mark_deleted
from deltanb.engines.arrow.data_file import plan
from deltanb.engines.arrow.engine import PROCESS
from deltanb.engines.arrow.touched import bitmap, marked_rows, rows_of
from deltanb.options import StepClock, set_options
from deltanb.sql.predicates import parse_condition
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table() -> DeltaTable:
    """Eight rows in one file, of which the third is deleted."""
    made = create(MemoryStore(), {"id": list(range(8)), "v": list("abcdefgh")}, properties=VECTORS)
    made.delete("id = 2")
    return made


def test_positions_count_deleted_rows_too(table: DeltaTable) -> None:
    txn = begin(table.log, "rows", removes="DELETE")
    condition = parse_condition("id < 5", txn.snapshot.schema)
    (matches,) = find(txn, txn.filter_files(*condition.parts), condition, PROCESS)
    assert (list(matches.rows), matches.live, matches.others, matches.is_whole) == ([0, 1, 3, 4], 7, 3, False)
    read = {which: [row for batch in rows_of(txn, [matches], which, ["v"])
                    for row in batch["v"].to_pylist()] for which in ("touched", "others")}
    assert read == {"touched": ["a", "b", "d", "e"], "others": ["f", "g", "h"]}
    seen: dict[int, bool] = {}
    for batch, mask in marked_rows(plan(txn.snapshot), matches):
        seen.update(zip(batch["id"].to_pylist(), mask.to_pylist(), strict=True))
    assert seen == {
        0: True, 1: True, 3: True, 4: True, 5: False, 6: False, 7: False}


def test_vectors_of_a_discarded_transaction_go_with_it(table: DeltaTable) -> None:
    before = sorted(s.name for s in table.log.store.list_all(""))
    txn = begin(table.log, "rows", removes="DELETE")
    condition = parse_condition("id = 5", txn.snapshot.schema)
    changes = FileChanges()
    mark_deleted(txn, find(txn, txn.filter_files(*condition.parts), condition, PROCESS), changes)
    ((added, removed),) = changes.vectors
    assert added.deletion_vector.cardinality == 2 and removed.deletion_vector.cardinality == 1
    assert len(list(table.log.store.list_all(""))) == len(before) + 1
    txn.discard_written()
    assert sorted(s.name for s in table.log.store.list_all("")) == before


def test_a_slice_of_positions_is_its_own() -> None:
    assert list(bitmap(pa.array([9, 1, 2, 2**33])[1:])) == [1, 2, 2**33]
    assert list(bitmap(pa.array([], pa.int64()))) == []


@pytest.mark.parametrize("positions", [
    [7], [0, 1, 2], [2**32 - 1, 2**32, 2**32 + 1], [5, 3, 4], [3, 5], [1, 2, 4]])
def test_runs_of_positions_are_the_positions(positions: list[int]) -> None:
    assert list(bitmap(pa.array([9, *positions, 9])[1:-1])) == sorted(positions)


def test_phases_by_the_clock() -> None:
    with set_options(clock=StepClock(0, step=5)):
        watch = Stopwatch()
        watch.lap("scanTimeMs")
        watch.lap("rewriteTimeMs")
    assert watch.metrics() == {"executionTimeMs": 10, "scanTimeMs": 5, "rewriteTimeMs": 5}


def test_a_result_shows_itself_without_times() -> None:
    done = CommandResult("UPDATE", 3, "arrow", {"numUpdatedRows": 2, "numCopiedRows": 0,
                                                "executionTimeMs": 17})
    assert str(done).split("\n") == [
        "UPDATE  ✓ committed v3  in this process",
        "Metrics  1 of 2 are above zero",
        "metric          value",
        "numUpdatedRows  2",
    ]
