"""Every statement on every kind of table does what its method does: the same rows, commits and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import LockManager
from deltanb.query.sql import run_sql
from deltanb.query.statements.kinds import KINDS, Kind, commands_of
from deltanb.table.table import DeltaTable

FLIGHTS = {"month": [1, 1, 2], "delay": [5, None, 9], "carrier": ["AA", "UA", "AA"]}
LATE = {"month": [1, 4], "delay": [100, 50], "carrier": ["AA", "ZZ"]}
DIRECT: dict[str, Callable[[Any, Any], Any]] = {
    "INSERT": lambda t, late: t.append(
        {"month": [3, 3], "delay": [12, None], "carrier": ["AA", "UA"]}),
    "INSERT OVERWRITE": lambda t, late: t.overwrite(
        {"month": [1], "delay": [7], "carrier": ["DL"]}, where="month = 1"),
    "UPDATE": lambda t, late: t.update({"delay": "0", "carrier": "lower(carrier)"}, where="delay IS NULL"),
    "DELETE": lambda t, late: t.delete("month = 1"),
    "TRUNCATE": lambda t, late: t.delete(),
    "MERGE": lambda t, late: t.merge(
        late, "f.month = l.month AND f.carrier = l.carrier", target_alias="f", source_alias="l")
    .when_matched_update(set={"delay": "l.delay"}).when_not_matched_insert_all().execute(),
}
"""What each statement's example does, written as a call."""


@dataclass
class Home:
    """A table of a kind, and the end of what it is in."""

    table: Any
    itself: Any
    end: Callable[[], object] = lambda: None
    more: dict[str, Any] = field(default_factory=dict)


def flights(path: Path) -> DeltaTable:
    return dn.create(path / "flights", FLIGHTS, partition_by="month")


@contextmanager
def plain(path: Path) -> Iterator[Home]:
    table = flights(path)
    yield Home(table, table)


@contextmanager
def past(path: Path) -> Iterator[Home]:
    table = flights(path)
    table.append(LATE)
    yield Home(table.as_of(0), table)


@contextmanager
def staged(path: Path) -> Iterator[Home]:
    table = flights(path)
    txn = table.transaction()
    yield Home(txn, table, txn.commit)


@contextmanager
def locked(path: Path) -> Iterator[Home]:
    table = flights(path)
    with LockManager(lock_timeout=0).new_transaction() as txn:
        yield Home(txn.table(table), table, txn.commit)


@contextmanager
def catalog(path: Path, format: str = "delta") -> Iterator[dn.Catalog]:
    with dn.Catalog(f"sqlite:///{path}/catalog.db", path / "warehouse") as made:
        made.create_namespace("shop")
        made.create_table("shop.flights", FLIGHTS, partition_by="month", format=format)
        yield made


@contextmanager
def of_catalog(path: Path) -> Iterator[Home]:
    with catalog(path) as made:
        table = made.table("shop.flights")
        yield Home(table, table)


@contextmanager
def in_catalog_transaction(path: Path) -> Iterator[Home]:
    with catalog(path) as made:
        txn = made.transaction()
        yield Home(txn.table("shop.flights"), made.table("shop.flights"), txn.commit)


@contextmanager
def iceberg(path: Path) -> Iterator[Home]:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    with catalog(path, "iceberg") as made:
        table = made.table("shop.flights")
        yield Home(table, table)


KINDS_OF_TABLE = (plain, past, staged, locked, of_catalog, in_catalog_transaction, iceberg)


def of_flights(kind: Kind) -> bool:
    """Whether the example is about the table ``flights``."""
    (command,) = commands_of(kind.example)
    return command.target is not None and command.target.parts == ("flights",)


def test_every_statement_is_compared() -> None:
    assert {kind.name for kind in KINDS if of_flights(kind)} == DIRECT.keys()
    assert all(command.statement == kind.name for kind in KINDS for command in commands_of(kind.example))


def seen(home: Home, work: Callable[[], Any], path: Path) -> tuple[Any, ...]:
    """What came of it: the result or the refusal, the rows, and the commits."""
    try:
        result = work()
        came: Any = (type(result).__name__, getattr(result, "operation", None),
                     {name: value for name, value in getattr(result, "metrics", {}).items()
                      if not name.endswith(("Ms", "Bytes"))})
    except AttributeError:
        came = "there is no such method"
    except errors.InvalidQuery as error:
        came = "there is no such method" if "has no method" in str(error) else str(error)
    except errors.DeltaError as error:
        came = type(error).__name__, str(error).replace(str(path), "")
    rows = sorted(map(str, home.table.to_arrow().to_pylist()))
    home.end()
    if isinstance(home.itself, DeltaTable):
        commits = [(one.operation, str(one.operation_parameters))
                   for one in home.itself.history()[:-1]]  # that which made it has ids
    else:
        commits = []
    return came, rows, commits, sorted(map(str, home.itself.to_arrow().to_pylist()))


EACH = [pytest.param(kind, make, id=f"{kind.name}-{make.__name__}")
        for kind in KINDS if of_flights(kind) for make in KINDS_OF_TABLE]


@pytest.mark.parametrize(("kind", "make"), EACH)
def test_a_statement_is_a_call_of_its_method(
    kind: Kind, make: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for name in ("sql", "call"):
        path = tmp_path / name
        path.mkdir()
        monkeypatch.chdir(path)
        late = pa.table(LATE)
        with make(path) as home:
            by_sql = partial(run_sql, kind.example, {"flights": home.table, "late": late})
            by_call = partial(DIRECT[kind.name], home.table, late)
            outcomes.append(seen(home, by_sql if name == "sql" else by_call, path))
    assert outcomes[0] == outcomes[1]
