"""Kinds of transaction of several statements, each with a table to try it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.catalog.transaction import CatalogTable
from deltanb.locks import LockManager
from deltanb.locks.tables.table import LockedTable
from deltanb.table.staged import StagedTable, TableTransaction
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.commands.test_row_ids import TRACKED


@dataclass
class Home:
    """A table, and how a transaction on it begins."""

    table: DeltaTable
    begin: Callable[[], Any]


PROPERTIES = {**TRACKED, "delta.dataSkippingNumIndexedCols": "1"}
ROWS = {"id": list(range(8)), "p": ["a"] * 6 + ["z"] * 2, "v": [0] * 8}


def created(where: Any, layout: dict[str, str]) -> DeltaTable:
    return dn.create(where, ROWS, partition_by=["p"], properties={**PROPERTIES, **layout})


@contextmanager
def of_table(path: Path | None, layout: dict[str, str]) -> Iterator[Home]:
    def begin() -> Any:
        return table.transaction()

    table = created(MemoryStore() if path is None else path / "table", layout)
    yield Home(table, begin)


@contextmanager
def of_catalog(path: Path | None, layout: dict[str, str]) -> Iterator[Home]:
    assert path is not None
    with dn.Catalog(f"sqlite:///{path}/catalog.db", path / "warehouse") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table(
            "shop.rows", ROWS, partition_by=["p"], properties={**PROPERTIES, **layout})
        catalog.create_table("shop.other", {"n": [1]})

        @contextmanager
        def begin() -> Iterator[DeltaTable]:
            with catalog.transaction() as txn:
                txn.table("shop.other").append({"n": [2]})
                yield txn.table("shop.rows")

        yield Home(table, begin)


@contextmanager
def under_locks(path: Path | None, layout: dict[str, str]) -> Iterator[Home]:
    table = created(MemoryStore() if path is None else path / "table", layout)
    manager = LockManager()

    @contextmanager
    def begin() -> Iterator[DeltaTable]:
        with manager.new_transaction() as txn:
            yield txn.table(table)
            txn.commit()

    yield Home(table, begin)


KINDS: dict[type[StagedTable], Any] = {
    TableTransaction: of_table, CatalogTable: of_catalog, LockedTable: under_locks}


def untried() -> set[type[StagedTable]]:
    """Kinds of transaction that :data:`KINDS` lacks."""
    return set(StagedTable.__subclasses__()) - KINDS.keys()


def check_feed(table: DeltaTable, version: int) -> None:
    """The changes of a version lead from the one before to it, in its columns."""
    names = table.as_of(version).schema.names

    def rows_at(version: int) -> list[tuple[str, ...]]:
        rows = table.as_of(version).to_arrow().to_pylist()
        return sorted(tuple(str(row.get(name)) for name in names) for row in rows)

    state = rows_at(version - 1)
    for row in sorted(table.changes(version, version).to_pylist(), key=came):
        shown = tuple(str(row[name]) for name in names)
        state.append(shown) if came(row) == 0 else state.remove(shown)
    assert sorted(state) == rows_at(version)


def came(row: dict[str, Any]) -> int:
    """0 for a change that brings a row, 1 for one that takes it."""
    return ["insert", "update_postimage", "delete", "update_preimage"].index(row["_change_type"]) // 2
