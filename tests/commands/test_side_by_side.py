"""Commands of two real writers that meet: both commit where they keep apart, one where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
)
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import ScriptedStore
from tests.commands.racing import side_by_side

VECTORS = {"delta.enableDeletionVectors": "true"}
CONFLICTS = (ConcurrentAppendException, ConcurrentDeleteReadException)


def made(properties: dict[str, str] | None = None) -> tuple[DeltaTable, ScriptedStore]:
    store = ScriptedStore()
    data = {"id": [1, 2, 3, 4], "p": ["a", "b"] * 2, "n": [0] * 4}
    return create(store, data, partition_by="p", properties=properties or {}), store


def values(table: DeltaTable) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())


def upsert(table: DeltaTable, part: str, ids: list[int]) -> Any:
    source = {"id": ids, "p": [part] * len(ids), "n": [9] * len(ids)}
    merge = table.merge(source, "t.p = s.p AND t.id = s.id", target_alias="t", source_alias="s")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_merges_of_two_partitions_both_commit(properties: dict[str, str]) -> None:
    table, store = made(properties)
    done = side_by_side(store, lambda: upsert(table, "a", [1, 10]), lambda: upsert(table, "b", [2, 20]))
    assert sorted(result.version for result in done) == [1, 2]
    assert values(table) == [(1, 9), (2, 9), (3, 0), (4, 0), (10, 9), (20, 9)]


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_merges_of_one_partition_are_one(properties: dict[str, str]) -> None:
    table, store = made(properties)
    done = side_by_side(store, lambda: upsert(table, "a", [1, 10]), lambda: upsert(table, "a", [3, 10]))
    lost = [result for result in done if isinstance(result, Exception)]
    assert len(lost) == 1 and isinstance(lost[0], CONFLICTS)
    assert [row[0] for row in values(table)].count(10) == 1, "the row that both insert is there once"


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_an_update_and_a_merge_elsewhere_both_commit(properties: dict[str, str]) -> None:
    table, store = made(properties)
    done = side_by_side(store, lambda: table.update({"n": "n + 1"}, where="p = 'a'"),
                        lambda: upsert(table, "b", [2]))
    assert sorted(result.version for result in done) == [1, 2]
    assert values(table) == [(1, 1), (2, 9), (3, 1), (4, 0)]


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_two_updates_of_one_row_never_count_double(properties: dict[str, str]) -> None:
    table, store = made(properties)

    def count() -> Any:
        return table.update({"n": "n + 1"}, where="p = 'a' AND id = 1")

    done = side_by_side(store, count, count)
    lost = [result for result in done if isinstance(result, Exception)]
    assert len(lost) == 1 and isinstance(lost[0], CONFLICTS)
    assert values(table)[0] == (1, 1)


def test_one_batch_of_two_writers_is_written_once() -> None:
    table, store = made()
    batch = {"id": [7], "p": ["c"], "n": [0]}

    def write() -> Any:
        return table.append(batch, txn=("stream", 3))

    done = side_by_side(store, write, write)
    lost = [result for result in done if isinstance(result, Exception)]
    assert len(lost) == 1 and isinstance(lost[0], ConcurrentTransactionException)
    assert write().version is None, "the one that lost finds the batch written and skips it"
    assert [row[0] for row in values(table)].count(7) == 1
