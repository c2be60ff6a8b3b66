"""A bank: accounts in a table, and processes that carry money from one to another.

What lives here: :func:`clerk`, what one process does, in the three ways that people write such a thing.
What it does not know: who counts the money (``test_bank.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

import deltanb as dn
from deltanb.engines.arrow.read import read_table
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.transaction import conflict_rules

ACCOUNTS, BALANCE = 16, 100


def open_bank(path: Path, vectors: bool = False) -> Any:
    """A bank of four branches, each with four accounts."""
    return dn.create(path, {
        "id": list(range(ACCOUNTS)), "branch": [n % 4 for n in range(ACCOUNTS)],
        "balance": [BALANCE] * ACCOUNTS,
    }, partition_by="branch", properties={"delta.enableDeletionVectors": vectors})


start: Any = None
"""The barrier at which all clerks have read the same version."""


def employ(barrier: Any) -> None:
    """What a process begins with."""
    global start
    start = barrier


def clerk(path: str, seed: int, transfers: int, blind: bool) -> int:
    """Carry money from account to account, each transfer until it is committed; the conflicts met on the way.

    ``blind`` clerks commit whatever happened since they read, as if there were no rules.
    """
    with patch.object(conflict_rules, "RULES", () if blind else conflict_rules.RULES):
        chance = random.Random(seed)
        log = dn.DeltaLog.for_table(path)
        # The first transfer of all clerks is between the same two accounts: there they meet in any case.
        conflicts = carry(by_hand, log, 0, 1, chance.randint(1, 20), start.wait)
        for _ in range(transfers - 1):
            way = chance.choice([by_hand, by_update, by_merge])
            conflicts += carry(way, log, *chance.sample(range(ACCOUNTS), 2), chance.randint(1, 20))
        return conflicts


def carry(way: Callable[..., None], log: Any, payer: int, payee: int, amount: int,
          meet: Callable[[], object] = lambda: None) -> int:
    """One transfer; how many conflicts it met."""
    conflicts = 0
    while True:
        try:
            way(log, payer, payee, amount, *([meet] if way is by_hand and not conflicts else []))
            return conflicts
        except DeltaConcurrentModificationException:
            conflicts += 1


def by_hand(log: Any, payer: int, payee: int, amount: int,
            meet: Callable[[], object] = lambda: None) -> None:
    """Read the files of both accounts, and commit new ones in their place."""
    txn = log.start_transaction()
    files = txn.filter_files(f"id IN ({payer}, {payee})")
    rows = read_table(txn.snapshot, files.table)
    balances = dict(zip(rows["id"].to_pylist(), rows["balance"].to_pylist(), strict=True))
    meet()
    balances[payer] -= amount
    balances[payee] += amount
    changed = rows.set_column(
        rows.schema.get_field_index("balance"), "balance",
        pa.array([balances[one] for one in rows["id"].to_pylist()], pa.int64()))
    try:
        txn.commit([*txn.write_files(changed), *(file.remove() for file in files)], "WRITE")
    except DeltaConcurrentModificationException:
        txn.discard_written()
        raise


def by_update(log: Any, payer: int, payee: int, amount: int) -> None:
    """One UPDATE of both rows."""
    dn.DeltaTable(log).update(
        {"balance": f"balance + CASE WHEN id = {payer} THEN -{amount} ELSE {amount} END"},
        f"id IN ({payer}, {payee})")


def by_merge(log: Any, payer: int, payee: int, amount: int) -> None:
    """One MERGE of two rows."""
    source = pa.table({"id": [payer, payee], "amount": [-amount, amount]})
    (dn.DeltaTable(log).merge(source, "t.id = s.id", target_alias="t", source_alias="s")
     .when_matched_update(set={"balance": "t.balance + s.amount"}).execute())


def counted(rows: pa.Table) -> tuple[int, int]:
    """How many accounts there are, and how much money in them."""
    return rows.num_rows, pc.sum(rows["balance"]).as_py()
