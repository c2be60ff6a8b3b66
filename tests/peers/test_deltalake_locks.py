"""delta-rs beside locks it knows nothing of: the checks at the commits keep both apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import ConcurrentAppendException, DeltaConcurrentModificationException
from deltanb.locks import LockManager
from tests.helpers import tree
from tests.patience import PATIENCE

APPENDS = """
import sys, pyarrow as pa, deltalake
for line in sys.stdin:
    n, part = map(int, line.split())
    rows = pa.table({"n": [n], "part": [part], "coins": [0]})
    while True:
        try:
            deltalake.write_deltalake(sys.argv[1], rows, mode="append")
            break
        except deltalake.exceptions.CommitFailedError:
            pass
    print(n, flush=True)
"""
"""Another process: for each line of a number and a partition it appends a row. It does so again where it is
refused because what was there is gone, by a rule of its own."""


class Peer:
    """delta-rs in another process, to which the table is a folder."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", APPENDS, str(path)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begins(self, n: int, part: int) -> None:
        assert self.process.stdin is not None
        print(n, part, file=self.process.stdin, flush=True)

    def ended(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def appends(self, n: int, part: int) -> None:
        self.begins(n, part)
        assert self.ended() == n


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "t", {"n": [1, 2, 3, 4], "part": [0, 1, 0, 1], "coins": [10, 20, 30, 40]},
                     partition_by="part")


@pytest.fixture
def peer(table: dn.DeltaTable) -> Any:
    peer = Peer(Path(table.path))
    yield peer
    peer.process.communicate(timeout=PATIENCE)
    assert peer.process.returncode == 0


def theirs(table: dn.DeltaTable) -> dict[int, int]:
    """The coins of each number, as delta-rs reads them."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.path))
    columns = pa.table(builder.execute("select n, coins from t order by n")).to_pydict()
    assert len(set(columns["n"])) == len(columns["n"])
    return dict(zip(columns["n"], columns["coins"], strict=True))


def ours(table: dn.DeltaTable) -> dict[int, int]:
    columns = table.to_arrow().sort_by("n").to_pydict()
    return dict(zip(columns["n"], columns["coins"], strict=True))


def by_statement(txn: Any, table: dn.DeltaTable) -> None:
    txn.table(table).update({"coins": "coins + 1"}, where="part = 1")


def by_row(txn: Any, table: dn.DeltaTable) -> None:
    cursor = txn.cursor(table, key=["n"])
    for number in (2, 4):
        cursor.find(number)
        cursor.store({"coins": cursor.value()["coins"] + 1})


WAYS = pytest.mark.parametrize("way", [by_statement, by_row])
DONE = {1: 10, 2: 21, 3: 30, 4: 41}


@WAYS
def test_it_appends_elsewhere_before_the_commit(
    way: Callable[..., None], table: dn.DeltaTable, peer: Peer
) -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    way(txn, table)
    peer.appends(5, 0)
    txn.commit()
    assert theirs(table) == ours(table) == {**DONE, 5: 0}
    assert table.version == deltalake.DeltaTable(table.path).version() == 2
    assert manager.num_locks_held == 0


def test_it_appends_to_a_partition_that_is_locked(table: dn.DeltaTable, peer: Peer) -> None:
    manager = LockManager()
    txn = manager.new_transaction()
    by_statement(txn, table)
    peer.appends(6, 1)
    with pytest.raises(ConcurrentAppendException):
        txn.commit()
    assert theirs(table) == ours(table) == {1: 10, 2: 20, 3: 30, 4: 40, 6: 0}, "what it appended is there"
    named = {file["path"] for file in table.snapshot.files.to_pylist()}
    assert {name for name in tree(Path(table.path)) if name.endswith(".parquet")} == named
    assert manager.num_locks_held == 0
    with manager.new_transaction() as again:
        by_statement(again, table)
        again.commit()
    assert theirs(table) == ours(table) == {**DONE, 6: 1}


def test_it_appends_a_key_that_is_locked(table: dn.DeltaTable, peer: Peer) -> None:
    txn = LockManager().new_transaction()
    by_row(txn, table)
    cursor = txn.cursor(table, key=["n"])
    cursor.find(6)
    cursor.store({"part": 1, "coins": 6})
    peer.appends(6, 1)
    with pytest.raises(ConcurrentAppendException):
        txn.commit()
    assert theirs(table) == ours(table) == {1: 10, 2: 20, 3: 30, 4: 40, 6: 0}


def test_it_appends_other_keys_to_a_partition_whose_rows_are_locked(
    table: dn.DeltaTable, peer: Peer
) -> None:
    txn = LockManager().new_transaction()
    by_row(txn, table)
    peer.appends(6, 1)
    txn.commit()
    assert theirs(table) == ours(table) == {**DONE, 6: 0}


@WAYS
@pytest.mark.parametrize("part", [0, 1])
def test_it_has_read_before_the_commit_and_appends_after_it(
    way: Callable[..., None], part: int, table: dn.DeltaTable
) -> None:
    stale = deltalake.DeltaTable(table.path)
    with LockManager().new_transaction() as txn:
        way(txn, table)
        txn.commit()
    rows = pa.table({"n": [7], "part": [part], "coins": [0]})
    try:
        deltalake.write_deltalake(stale, rows, mode="append")
    except deltalake.exceptions.CommitFailedError:  # by a rule of its own: files are gone
        assert theirs(table) == ours(table) == DONE
        deltalake.write_deltalake(table.path, rows, mode="append")
    assert theirs(table) == ours(table) == {**DONE, 7: 0} and table.version == 2


@WAYS
def test_it_has_read_before_the_commit_and_deletes_the_same_rows_after_it(
    way: Callable[..., None], table: dn.DeltaTable
) -> None:
    stale = deltalake.DeltaTable(table.path)
    with LockManager().new_transaction() as txn:
        way(txn, table)
        txn.commit()
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        stale.delete("n = 2")
    assert theirs(table) == ours(table) == DONE


def test_it_reads_what_was_committed_under_locks(table: dn.DeltaTable) -> None:
    with LockManager().new_transaction() as txn:
        mine = txn.table(table)
        by_statement(txn, table)
        with txn.scope():
            mine.delete("part = 0")
            txn.rollback()
        mine.append({"n": [8, 9], "part": [2, 2], "coins": [80, 90]})
        mine.delete("n = 9")
        cursor = txn.cursor(table, key=["n"])
        cursor.find(1)
        cursor.delete()
        cursor.find(10)
        cursor.commit({"part": 0, "coins": 100})
    assert theirs(table) == ours(table) == {2: 21, 3: 30, 4: 41, 8: 80, 10: 100}
    assert deltalake.DeltaTable(table.path).version() == 1, "one commit"


@pytest.mark.slow
@WAYS
def test_it_appends_while_transactions_commit(
    way: Callable[..., None], table: dn.DeltaTable, peer: Peer
) -> None:
    manager, conflicts, times = LockManager(), 0, 20
    for n in range(100, 100 + times):
        peer.begins(n, n % 2)
        done = False
        while not done:
            with manager.new_transaction() as txn:
                try:
                    way(txn, table)
                    txn.commit()
                    done = True
                except DeltaConcurrentModificationException:
                    conflicts += 1
        assert peer.ended() == n
    coins = theirs(table)
    assert coins == ours(table) and set(coins) == {1, 2, 3, 4, *range(100, 100 + times)}
    assert (coins[2], coins[4]) == (20 + times, 40 + times)
    assert table.version == 2 * times and manager.num_locks_held == 0
    if way is by_row:
        assert conflicts == 0
