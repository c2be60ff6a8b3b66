"""Random histories: each row is blamed as in a model whose rows carry the version that wrote them."""

from __future__ import annotations

from collections import Counter

import pytest

from deltanb.testing import MemoryStore
from tests.observe.blame.histories import METHODS, TABLES, History, blamed

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("kind", TABLES)
def test_every_row_is_blamed_on_the_commit_that_last_wrote_it(
    kind: str, partitioned: bool, seed: int
) -> None:
    history = History.create(MemoryStore(), seed, TABLES[kind], partitioned)
    history.run(14)
    blame, about = history.check_blame(history.table)
    some = history.table.blame("n > 1")
    assert blamed(some, "_version") == Counter(
        {row: count for row, count in history.model.blame().items() if dict(row[0])["n"] > 1}), about
    assert blame.method == METHODS.get(kind, "row ids") or not len(blame)
    assert blame.num_unknown == 0 and all(blame.is_certain.to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", TABLES)
def test_equal_rows_are_as_many_of_each_commit(kind: str, seed: int) -> None:
    """Without anything that tells rows apart."""
    history = History.create(MemoryStore(), seed, TABLES[kind], seed % 2 == 0, unique=False)
    history.run(10)
    blame = history.table.blame()
    assert blamed(blame, "_version") == history.model.blame(), f"{history.done}, {blame.doubts}"
