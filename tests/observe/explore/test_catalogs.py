"""Exploring transactions of a catalog: what it finds is what running all orders finds, on SQLite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from tests.examples import first
from tests.observe.explore.real import Manager, ended, every_order_of_transactions, run_transactions

NAMES = ("bank.a", "bank.b")
Work = Callable[[Any], Any]


def bank(folder: Path, **settings: Any) -> dn.Catalog:
    catalog = dn.Catalog(f"sqlite:///{folder}/catalog.db", warehouse=folder / "lake")
    catalog.create_namespace("bank")
    for name in NAMES:
        catalog.create_table(name, {"id": [1, 2], "n": [100, 100]}, **settings)
    return catalog


def balance(tables: Any) -> int:
    return sum(sum(tables.table(name).to_arrow()["n"].to_pylist()) for name in NAMES)


def transfer(lots: Random) -> Work:
    source, target = lots.sample(NAMES, 2)
    row = lots.choice([1, 2])

    def work(txn: Any) -> None:
        txn.table(source).update({"n": "n - 10"}, f"id = {row}")
        txn.table(target).update({"n": "n + 10"}, "id = 1")

    return work


def withdraw(lots: Random) -> Work:
    of = lots.choice(NAMES)

    def work(txn: Any) -> None:
        if balance(txn) >= 350:
            txn.table(of).update({"n": "n - 100"}, "id = 1")

    return work


def open_account(lots: Random) -> Work:
    of, number = lots.choice(NAMES), lots.choice([3, 4])
    return lambda txn: txn.table(of).append({"id": [number], "n": [0]})


def audit(lots: Random) -> Work:
    of, noted = lots.sample(NAMES, 2)

    def work(txn: Any) -> None:
        number = txn.table(of).count()
        txn.table(noted).append({"id": [9], "n": [number]})

    return work


def under_a_lock(lots: Random, manager: Manager) -> Work:
    """A lock is gone before its writer's transaction is committed: what it keeps apart is what they read."""
    names, parts = lots.sample([b"a", b"b"], 2), [lots.choice(KINDS)(lots) for _ in range(2)]

    def work(txn: Any) -> None:
        with manager.new_transaction() as locks:
            for name, part in zip(names, parts, strict=True):
                locks.lock_exclusive(1, name)
                part(txn)

    return work


KINDS = [transfer, withdraw, open_account, audit]


@pytest.mark.parametrize("seed", first(3, 60))
def test_it_finds_what_running_all_orders_finds(seed: int, tmp_path: Path) -> None:
    lots, manager = Random(seed), Manager()
    works = {name: lots.choice(KINDS)(lots) for name in ("ann", "ben", "cid")[: lots.choice([2, 2, 3])]}
    if len(works) == 2 and lots.random() < .5:
        works = {name: under_a_lock(lots, manager) for name in works}
    properties = {"delta.enableDeletionVectors": lots.choice(["true", "false"])}
    folders = count()

    def fresh() -> dn.Catalog:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return bank(folder, properties=properties)

    explored = dn.explore(fresh(), works)
    names = sorted(explored.outcomes[0].rows)
    ends = Counter(every_order_of_transactions(fresh, names, works))
    assert Counter({ended(one, list(works)): one.orders for one in explored.outcomes}) == ends
    for one in explored.outcomes:
        assert run_transactions(fresh(), names, works, one.order) == ended(one, list(works))


def test_an_invariant_of_two_tables(tmp_path: Path) -> None:
    catalog = bank(tmp_path)
    before = catalog.store.instant()
    work = withdraw(Random(1))
    explored = dn.explore(catalog, {"ann": work, "ben": withdraw(Random(3))}, lambda t: balance(t) >= 200)
    assert explored.check().holds and catalog.store.instant() == before
    query = "SELECT (SELECT sum(n) FROM bank.a) + (SELECT sum(n) FROM bank.b) = 400"
    broken = dn.explore(catalog, {"ann": work}, query).violations
    assert [(one.version, one.order) for one in broken] == [(before + 1, ("ann", "ann"))]
    assert f"ann commits #{before + 1} (UPDATE bank." in str(broken[0])


def test_each_table_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    table = dn.Catalog.table

    def counted(self: dn.Catalog, name: Any) -> Any:
        opened[str(name)] += 1
        return table(self, name)

    monkeypatch.setattr(dn.Catalog, "table", counted)
    explored = dn.explore(bank(tmp_path), {"ann": transfer(Random(1)), "ben": transfer(Random(2))},
                          lambda tables: balance(tables) == 400)
    assert explored.num_runs > 4 and set(opened.values()) == {1}


def test_each_level_of_all_tables(tmp_path: Path) -> None:
    catalog = bank(tmp_path)
    writers = {"ann": lambda txn: txn.table("bank.a").append({"id": [3], "n": [0]}),
               "ben": lambda txn: txn.table("bank.a").delete("id = 1")}
    levels = dn.explore(catalog, writers).compare(["Serializable", "WriteSerializable"]).explorations
    assert [len(one.outcomes) for one in levels.values()] == [2, 1]
