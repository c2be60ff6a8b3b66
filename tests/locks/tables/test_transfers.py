"""Money between two tables of a catalog, under locks: on threads, and with another process beside them."""

from __future__ import annotations

import random
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.locks import LockManager
from deltanb.options import options
from tests.locks.bank import CLERK, TABLES, WAYS, carry, complaints, open_bank
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
THREADS = 4
MANY = pytest.param(200, marks=pytest.mark.thorough)
"""Transfers of each thread in a long run."""


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"  # of the process, and so of its threads; put back afterwards


def work(manager: LockManager, catalog: dn.Catalog, way: Callable[..., None], transfers: int,
         meanwhile: Callable[[], object] = lambda: None) -> Counter[str]:
    """Transfers on all threads, until all are done; what kept them from being done at once."""
    begin, met, failed = threading.Barrier(THREADS), Counter[str](), list[BaseException]()
    done: list[int] = []  # the threads of the transfers, in order

    def run(seed: int) -> None:
        chance, tables = random.Random(seed), [catalog.table(name) for name in TABLES]
        begin.wait(PATIENCE)
        try:
            for _ in range(transfers):
                met.update(carry(manager.new_transaction(), way, tables, chance))
                meanwhile()
                done.append(seed)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(seed,), daemon=True) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            before = len(done)
            thread.join(PATIENCE)
            assert not thread.is_alive() or len(done) > before, "it hangs"
    if failed:
        raise failed[0]
    return met


@pytest.mark.parametrize("transfers", [15, MANY])
@pytest.mark.parametrize("way", WAYS)
def test_transfers_between_two_tables(way: str, transfers: int, tmp_path: Path) -> None:
    carrying, partition_by = WAYS[way]
    manager = LockManager(lock_timeout=None)
    with open_bank(tmp_path, partition_by) as catalog:
        before = len(catalog.history())
        met = work(manager, catalog, carrying, transfers)
        assert met["conflict"] == 0, met
        assert len(catalog.history()) == before + THREADS * transfers, "each transfer is one commit"
        assert list(complaints(catalog)) == []
    assert manager.num_locks_held == manager.num_waiting == 0


class Clerk:
    """A process that commits to the same tables without locks, once for each time it is told to."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([*CLERK, str(folder), "7"], cwd=ROOT, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.did = Counter[str]()
        self._lock = threading.Lock()

    def heard(self) -> None:
        """Wait for what it has done."""
        assert self.process.stdout is not None
        word = self.process.stdout.readline().strip()
        assert word, "it has died"
        self.did[word] += 1

    def goes_on(self) -> None:
        """Have it commit once more while others work, once it is done with the last time."""
        assert self.process.stdin is not None
        with self._lock:
            self.heard()
            print("go on", file=self.process.stdin, flush=True)

    def ends(self) -> None:
        """Have it end, after what it is at."""
        self.heard()
        self.process.communicate()
        assert self.process.returncode == 0


@pytest.mark.parametrize("transfers", [6, MANY])
@pytest.mark.parametrize("way", WAYS)
def test_another_process_commits_to_both_tables(way: str, transfers: int, tmp_path: Path) -> None:
    carrying, partition_by = WAYS[way]
    manager = LockManager(lock_timeout=None)
    with open_bank(tmp_path, partition_by) as catalog:
        before = len(catalog.history())
        clerk = Clerk(tmp_path)
        try:
            met = work(manager, catalog, carrying, transfers, clerk.goes_on)
            clerk.ends()
        finally:
            clerk.process.kill()
        commits = clerk.did["append"] + clerk.did["update"]
        assert commits >= THREADS * transfers / 2 and clerk.did["append"] > 0 < clerk.did["update"]
        assert len(catalog.history()) == before + THREADS * transfers + commits
        assert list(complaints(catalog)) == []
        if way == "rows":
            assert met["conflict"] == 0, "whoever changes other rows of a file is in nobody's way"
    assert manager.num_locks_held == manager.num_waiting == 0
