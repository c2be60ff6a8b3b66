"""A bank of two tables of a catalog: money that transactions under locks carry from one to the other.

What lives here: :func:`found`, the two ways to carry money (:data:`WAYS`), :func:`carry`, which tries again
where a lock was not granted; :func:`clerk`, another process that knows nothing of locks; and what must
hold at the end (:func:`complaints`).
What it does not know: who works there, and what happens to them.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.actions import decode_path
from deltanb.catalog.store.upkeep import check
from deltanb.errors import DeltaConcurrentModificationException, LockFailure
from deltanb.log.commits import STAGED_FOLDER
from deltanb.options import options

ACCOUNTS, BRANCHES, BALANCE = 12, 4, 100
"""Of each table. An account is in the branch of its number, modulo the branches."""
TABLES = ("bank.cash", "bank.savings")
TOTAL = len(TABLES) * ACCOUNTS * BALANCE


def opened(folder: Path) -> dn.Catalog:
    """The catalog of a folder."""
    return dn.Catalog(f"sqlite:///{folder}/bank.db", warehouse=folder / "bank")


def open_bank(folder: Path, partition_by: str | tuple[str, ...]) -> dn.Catalog:
    """A catalog with the two tables, each account with the same balance."""
    catalog = opened(folder)
    catalog.create_namespace("bank")
    accounts = range(ACCOUNTS)
    for name in TABLES:
        catalog.create_table(name, {"id": list(accounts), "branch": [n % BRANCHES for n in accounts],
                                    "coins": [BALANCE] * ACCOUNTS}, partition_by=partition_by)
    return catalog


# -- ways to carry money -----------------------------------------------------------------------------


def by_rows(txn: Any, payer: tuple[Any, int], payee: tuple[Any, int], amount: int) -> None:
    """Cursors, which lock the two rows."""
    for (table, number), change in ((payer, -amount), (payee, amount)):
        cursor = txn.cursor(table, key=["id"])
        cursor.find(number)
        cursor.store({"coins": cursor.value()["coins"] + change})


def by_statements(txn: Any, payer: tuple[Any, int], payee: tuple[Any, int], amount: int) -> None:
    """Statements, which lock the partitions of the two rows. The first one decides by what was read."""
    for (table, number), change in ((payer, -amount), (payee, amount)):
        where = f"branch = {number % BRANCHES} AND id = {number}"
        (coins,) = txn.table(table).to_arrow(where=where)["coins"].to_pylist()
        txn.table(table).update({"coins": str(coins + change)}, where=where)


WAYS: dict[str, tuple[Callable[..., None], str | tuple[str, ...]]] = {
    "rows": (by_rows, ()), "statements": (by_statements, "branch")}
"""Name -> how, and how the tables are partitioned for it."""


def carry(txn: Any, way: Callable[..., None], tables: list[Any], chance: random.Random) -> Counter[str]:
    """One transfer, from any account of one table to any of the other; what kept it from being done, until
    it was."""
    payer, payee = chance.sample(tables, 2)
    ends = (payer, chance.randrange(ACCOUNTS)), (payee, chance.randrange(ACCOUNTS))
    amount, errors = chance.randint(1, 20), Counter[str]()
    while True:
        try:
            way(txn, *ends, amount)
            txn.commit()
            return errors
        except LockFailure as error:
            txn.rollback()
            errors[type(error).__name__] += 1
        except DeltaConcurrentModificationException:
            errors["conflict"] += 1
            txn.reset()
            txn = txn.manager.new_transaction()  # that of a commit which has failed is disabled


# -- another process ---------------------------------------------------------------------------------

CLERK = [sys.executable, "-m", "tests.locks.bank"]
"""Runs :func:`clerk`, with a folder and a seed behind it."""


def clerk(folder: Path, seed: int) -> None:
    """Commit to both tables without locks, until standard input ends: new accounts without money, and rows
    written anew as they are. After each commit a line says what it was."""
    chance, new = random.Random(seed), 1000
    with opened(folder) as catalog:
        while True:
            table = catalog.table(chance.choice(TABLES))
            number = chance.randrange(ACCOUNTS)
            where = f"branch = {number % BRANCHES} AND id = {number}"
            try:
                if chance.random() < 0.5:
                    table.append({"id": [new], "branch": [new % BRANCHES], "coins": [0]})
                    print("append", flush=True)
                else:
                    table.update({"branch": "branch"}, where=where)
                    print("update", flush=True)
            except DeltaConcurrentModificationException:
                print("conflict", flush=True)
            new += 1
            if not sys.stdin.readline().strip():
                return


# -- what must hold ----------------------------------------------------------------------------------


def coins(catalog: dn.Catalog) -> int:
    """All money, of both tables at one instant."""
    with_rows = catalog.snapshot(list(TABLES)).values()
    return sum(sum(table.to_arrow(columns=["coins"])["coins"].to_pylist()) for table in with_rows)


def complaints(catalog: dn.Catalog) -> Iterator[str]:
    """What is wrong with the bank, as somebody sees it who has just come."""
    if (total := coins(catalog)) != TOTAL:
        yield f"{total} coins instead of {TOTAL}"
    for name in TABLES:
        table = catalog.table(name)
        if orphans := orphans_of(table):
            yield f"{name} has files that no version names: {sorted(orphans)}"
        # That of a version is copied into the log and stays, for readers that are about to open it.
        staged = len(list((Path(table.path) / STAGED_FOLDER).glob("*")))
        if staged != table.version:
            yield f"{name} has {staged} staged commits, and {table.version} versions were staged"
    yield from (str(finding) for finding in check(catalog.store) if finding.is_fault)
    yield from (path for path, _ in catalog.store.garbage.due(2**62))


def orphans_of(table: Any) -> set[str]:
    """Data files and deletion vectors below a table that none of its versions names."""
    named = {decode_path(action.path) for version in range(table.version + 1)
             for action in table.log.read_commit(version) if hasattr(action, "path")}
    root = Path(table.path)
    return {str(path.relative_to(root)) for path in root.rglob("*")
            if path.suffix in (".parquet", ".bin") and "_delta_log" not in path.parts} - named


if __name__ == "__main__":
    options.durability = "none"
    clerk(Path(sys.argv[1]), int(sys.argv[2]))
