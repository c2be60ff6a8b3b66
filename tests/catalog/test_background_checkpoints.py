"""Checkpoints of a catalog's tables are written behind their commits, while the catalog is open."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.concurrency import background
from deltanb.log.commits import commit_name
from deltanb.options import set_options
from tests.transaction.test_background_checkpoints import Gate, checkpoints, gate

__all__ = ["gate"]

EACH = {"delta.checkpointInterval": 1}


def test_a_commit_does_not_wait_and_the_newest_checkpoint_stands_for_all(
    catalog: dn.Catalog, gate: Gate
) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
    for number in range(1, 4):
        table.append({"id": [number]})
    assert checkpoints(table.log.store) == []
    gate.open()
    assert checkpoints(table.log.store) == [3]
    dn.DeltaLog.clear_cache()
    assert sorted(catalog.table("shop.orders").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_tables_that_are_committed_together_have_theirs(catalog: dn.Catalog, gate: Gate) -> None:
    tables = [catalog.create_table(f"shop.{name}", {"id": [0]}, properties=EACH) for name in "ab"]
    with catalog.transaction() as txn:
        for name in "ab":
            txn.table(f"shop.{name}").append({"id": [1]})
    assert [checkpoints(table.log.store) for table in tables] == [[], []]
    gate.open()
    assert [checkpoints(table.log.store) for table in tables] == [[1], [1]]


def test_inline_they_are_written_before_the_commit_returns(catalog: dn.Catalog) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
    with set_options(checkpoints="inline"):
        table.append({"id": [1]})
    assert checkpoints(table.log.store) == [1]


def test_closing_a_catalog_waits_for_those_of_its_tables(catalog: dn.Catalog, gate: Gate) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
    table.append({"id": [1]})
    closing = threading.Thread(target=catalog.close)
    closing.start()
    assert closing.is_alive() and checkpoints(table.log.store) == []
    gate.open()
    closing.join()
    assert checkpoints(table.log.store) == [1]


def test_closing_a_catalog_waits_for_no_others(catalog: dn.Catalog, gate: Gate, tmp_path: Path) -> None:
    dn.create(tmp_path / "by path", {"id": [0]}, properties=EACH).append({"id": [1]})
    catalog.close()  # the gate is still shut


def test_a_version_that_is_not_published_has_none(catalog: dn.Catalog, gate: Gate) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
    blocked = Path(table.path) / commit_name(1)
    blocked.write_bytes(b"in the way\n")
    table.append({"id": [1]})  # its publication finds a file of that name
    with pytest.raises(errors.InvalidArgument, match="version 1 cannot be checkpointed.*not published"):
        table.log.checkpoint_behind(table.log.snapshot, 1)
    gate.open()
    assert checkpoints(table.log.store) == []
    blocked.unlink()
    with set_options(checkpoints="inline"):
        table.append({"id": [2]})
    assert checkpoints(table.log.store) == [2]


def test_a_purge_waits_for_the_checkpoint_and_leaves_nothing(catalog: dn.Catalog) -> None:
    with set_options(checkpoints="background"):
        table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
        table.append({"id": [1]})
        catalog.drop_table("shop.orders", purge=True)
        assert dn.flush(60)
    assert not [path for path in Path(table.path).rglob("*") if path.is_file()]


def test_a_table_that_another_one_purged_meanwhile_gets_none(
    catalog: dn.Catalog, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.orders", {"id": [0]}, properties=EACH)
    table.append({"id": [1]})
    monkeypatch.setattr(background, "settle", lambda concerns: None)  # another process knows nothing of it
    catalog.drop_table("shop.orders", purge=True)
    gate.open()
    assert not [path for path in Path(table.path).rglob("*") if path.is_file()]
