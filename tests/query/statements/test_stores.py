"""SQL on tables in memory and in buckets: each statement does there what it does in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.query.sql import run_sql
from deltanb.query.statements.kinds import KINDS, Kind
from deltanb.testing import MemoryStore
from tests.examples import every
from tests.query.statements.test_matrix import FLIGHTS, LATE, of_flights, seen
from tests.store.test_object_services import azurite, seaweed
from tests.table_kinds import Home

__all__ = ["azurite", "seaweed"]  # fixtures

FLIGHTS_KINDS = [kind for kind in KINDS if of_flights(kind) and kind.name != "SHALLOW CLONE"]
"""A clone in a folder needs an access of its own to the bucket."""
_numbers = count()
Make = Callable[[], dn.DeltaTable]


def in_bucket(uri: str, options: dict[str, str]) -> Make:
    return lambda: dn.create(
        f"{uri}/sql{next(_numbers)}", FLIGHTS, partition_by="month", storage_options=options)


@pytest.fixture(params=["memory", "moto", *(
    pytest.param(name, marks=pytest.mark.thorough) for name in ("seaweed", "azurite"))])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a table of flights in a store."""
    if request.param == "memory":
        return lambda: dn.create(MemoryStore(), FLIGHTS, partition_by="month")
    if request.param == "moto":
        return in_bucket(request.getfixturevalue("bucket"), request.getfixturevalue("s3_server").options)
    scheme = "s3" if request.param == "seaweed" else "az"
    return in_bucket(f"{scheme}://lake", request.getfixturevalue(request.param))


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    """No test here is about the disk."""
    with dn.set_options(durability="none"):
        yield


@pytest.mark.parametrize("kind", every(4, FLIGHTS_KINDS), ids=lambda kind: kind.name)
def test_a_statement_does_in_every_store_what_it_does_in_a_folder(
    kind: Kind, make: Make, tmp_path: Path
) -> None:
    def outcome(table: dn.DeltaTable) -> Any:
        names = {"flights": table, "late": pa.table(LATE)}
        return seen(Home(table, table), lambda: run_sql(kind.example, names), tmp_path)

    folder = dn.create(tmp_path / "flights", FLIGHTS, partition_by="month")
    assert outcome(make()) == outcome(folder)
