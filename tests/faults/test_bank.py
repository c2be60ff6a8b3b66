"""Four processes carry money about; an independent reader counts it at every version."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tests.faults.bank import ACCOUNTS, BALANCE, clerk, counted, employ, open_bank
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow
CLERKS, TRANSFERS = 4, 10
FULL = ACCOUNTS, ACCOUNTS * BALANCE


class Bank:
    """Processes that work as clerks, table after table."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def work(self, path: Path, transfers: int, blind: bool = False) -> int:
        """All clerks at once, until all are done; the conflicts they met."""
        orders = [(str(path), seed, transfers, blind) for seed in range(CLERKS)]
        return sum(self.pool.starmap(clerk, orders, chunksize=1))


@pytest.fixture(scope="module")
def bank() -> Iterator[Bank]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(CLERKS, employ, [context.Barrier(CLERKS, timeout=PATIENCE)]) as pool:
        yield Bank(pool)


def counted_by_delta_rs(path: Path, version: int) -> tuple[int, int]:
    table = deltalake.DeltaTable(path, version=version)
    assert table.version() == version
    return counted(pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t")))


@pytest.mark.parametrize("vectors", [False, True], ids=["files", "vectors"])
def test_no_money_is_made_or_lost(bank: Bank, tmp_path: Path, vectors: bool) -> None:
    table = open_bank(tmp_path, vectors)
    assert bank.work(tmp_path, TRANSFERS) >= CLERKS - 1, "they met"
    last = table.log.update().version
    assert last == CLERKS * TRANSFERS, "every transfer is one version"
    assert {counted_by_delta_rs(tmp_path, version) for version in range(last + 1)} == {FULL}
    assert counted(table.to_arrow()) == FULL


def test_clerks_who_heed_no_rule_are_found_out(bank: Bank, tmp_path: Path) -> None:
    """The control: the same bank without conflict rules, in which all clerks read before one commits."""
    table = open_bank(tmp_path)
    assert bank.work(tmp_path, 1, blind=True) == 0
    assert table.log.update().version == CLERKS
    counts = [counted_by_delta_rs(tmp_path, version) for version in range(CLERKS + 1)]
    assert counts[:2] == [FULL, FULL]
    assert FULL not in counts[2:]
