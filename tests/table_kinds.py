"""The kinds of table: how a handle of each is had, and how what is done to it comes to be committed.

What lives here: :data:`MAKERS`, by the class of handle; :data:`HANDLES`, all of them, also those that have a
class in common. Tests go through them, so that a new kind is tried by all that do.
What it does not know: any method of a table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.catalog.iceberg.table import IcebergTable, PinnedIcebergTable, StagedIcebergTable
from deltanb.catalog.transaction import CatalogTable
from deltanb.locks import LockManager
from deltanb.locks.tables.table import LockedTable
from deltanb.observe.explore.locking import Managers
from deltanb.observe.explore.places import ExploredTable, TablePlace
from deltanb.observe.explore.programs import Program, Run
from deltanb.table.contract import Askable
from deltanb.table.staged import TableTransaction
from deltanb.table.table import DeltaTable

NAME = "shop.rows"


@dataclass
class Home:
    """A table of a kind, and where what is done to it comes to be committed."""

    table: Any
    itself: Any
    """The table as others see it."""
    end: Callable[[], object] = lambda: None
    """Commits what was staged."""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> Any:
        return self.itself.version if isinstance(self.itself, DeltaTable) else self.itself.snapshot_id


Maker = Callable[..., AbstractContextManager[Home]]
"""Makes a table in a folder, of rows, with settings of :func:`deltanb.create`."""


def created(path: Path, rows: Any, **settings: Any) -> DeltaTable:
    return dn.create(path / "table", rows, **settings)


@contextmanager
def plain(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    table = created(path, rows, **settings)
    yield Home(table, table)


@contextmanager
def past(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    table = created(path, rows, **settings)
    table.append(rows)
    yield Home(table.as_of(0), table)


@contextmanager
def in_transaction(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    table = created(path, rows, **settings)
    txn = table.transaction()
    yield Home(txn, table, txn.commit)


@contextmanager
def under_locks(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    table = created(path, rows, **settings)
    with LockManager(lock_timeout=0).new_transaction() as txn:
        yield Home(txn.table(table), table, txn.commit, {"txn": txn})


@contextmanager
def catalog(path: Path, rows: Any, format: str = "delta", **settings: Any) -> Iterator[dn.Catalog]:
    with dn.Catalog(f"sqlite:///{path}/catalog.db", path / "warehouse") as made:
        made.create_namespace("shop")
        made.create_table(NAME, rows, format=format, **settings)
        yield made


@contextmanager
def managed(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    with catalog(path, rows, **settings) as made:
        table = made.table(NAME)
        yield Home(table, table)


@contextmanager
def in_unity(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    """In a Unity Catalog, whose server is a fake of the newest release."""
    pytest.importorskip("httpx")
    pytest.importorskip("sqlalchemy")
    from tests.catalog.unity.clients import of_release

    with of_release("0.7", path) as server:
        table = server.catalog.create_table(NAME, rows, **settings)
        yield Home(table, table)


@contextmanager
def in_catalog_transaction(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    with catalog(path, rows, **settings) as made:
        txn = made.transaction()
        yield Home(txn.table(NAME), made.table(NAME), txn.commit)


@contextmanager
def iceberg_catalog(path: Path, rows: Any, **settings: Any) -> Iterator[dn.Catalog]:
    """A catalog with an Iceberg table, which has none of Delta's properties."""
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    settings.pop("properties", None)
    with catalog(path, rows, "iceberg", **settings) as made:
        yield made


@contextmanager
def iceberg(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    with iceberg_catalog(path, rows, **settings) as made:
        yield Home(made.table(NAME), made.table(NAME))


@contextmanager
def iceberg_in_transaction(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    with iceberg_catalog(path, rows, **settings) as made:
        txn = made.transaction()
        yield Home(txn.table(NAME), made.table(NAME), txn.commit)


@contextmanager
def iceberg_past(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    with iceberg_catalog(path, rows, **settings) as made:
        yield Home(made.snapshot([NAME])[NAME], made.table(NAME))


@contextmanager
def in_an_exploration(path: Path, rows: Any, **settings: Any) -> Iterator[Home]:
    """As a writer gets it that is alone: what it commits is in memory."""
    table = created(path, rows, **settings)
    program = Program("ann", lambda table: None, TablePlace(table), 0, Managers(["ann"]))
    program.is_precise = True
    run = Run(program, (), (), is_alone=True)
    run._thread = threading.current_thread()
    explored = ExploredTable(run.seat.log)  # type: ignore[attr-defined]
    yield Home(explored, explored)


MAKERS: dict[type[Askable], Maker] = {
    DeltaTable: plain, TableTransaction: in_transaction, LockedTable: under_locks,
    CatalogTable: in_catalog_transaction, IcebergTable: iceberg, StagedIcebergTable: iceberg_in_transaction,
    PinnedIcebergTable: iceberg_past, ExploredTable: in_an_exploration,
}
HANDLES: tuple[Maker, ...] = (*MAKERS.values(), past, managed, in_unity)
