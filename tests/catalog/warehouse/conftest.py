"""Iceberg tables in a warehouse that is a folder, on either database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.store.store import CatalogStore
from deltanb.options import set_options
from tests.helpers import tree


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    """No test here is about the disk."""
    with set_options(durability="none"):
        yield


@pytest.fixture
def lake(store: CatalogStore, tmp_path: Path) -> IcebergTables:
    """The Iceberg tables of the catalog, in the folder ``lake``."""
    return IcebergTables(store, tmp_path / "lake")


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], set[str]]:
    """The names of all files in the warehouse."""
    return lambda: tree(tmp_path / "lake")
