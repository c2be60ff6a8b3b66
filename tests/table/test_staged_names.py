"""What a transaction sees of its own statements is no version: views say so, wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import VersionNotFound
from deltanb.notebook import bundle

FEED = {"delta.enableChangeDataFeed": "true"}
NAME = "v1 + staged"


@contextmanager
def alone(path: Path) -> Iterator[Any]:
    table = dn.create(path / "orders", {"id": [1, 2]}, properties=FEED)
    table.append({"id": [3]})
    with table.transaction() as txn:
        yield txn


@contextmanager
def in_a_catalog(path: Path) -> Iterator[Any]:
    with dn.Catalog(f"sqlite:///{path}/c.db", warehouse=path / "w") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1, 2]}, properties=FEED).append({"id": [3]})
        with catalog.transaction() as txn:
            yield txn.table("shop.orders")


@contextmanager
def under_locks(path: Path) -> Iterator[Any]:
    table = dn.create(path / "orders", {"id": [1, 2]}, properties=FEED)
    table.append({"id": [3]})
    txn = dn.locks.LockManager().new_transaction()
    yield txn.table(table)
    txn.commit()


KINDS = {"a table's transaction": alone, "a catalog's transaction": in_a_catalog, "locks": under_locks}
SHOWN: dict[str, Callable[[Any], Any]] = {
    "table": lambda txn: txn,
    "snapshot": lambda txn: txn.snapshot,
    "log": lambda txn: txn.log,
    "scan": lambda txn: txn.explain("id = 4"),
    "layout": lambda txn: txn.layout("id"),
    "query": lambda txn: dn.sql("SELECT * FROM orders", orders=txn),
    "plan": lambda txn: dn.sql("EXPLAIN SELECT * FROM orders", orders=txn),
    "diff": lambda txn: txn.diff(0),
    "changes": lambda txn: txn.changes(),
}
"""What has rows or files that are staged."""
COMMITTED: dict[str, Callable[[Any], Any]] = {
    "history": lambda txn: txn.history(),
    "timeline": lambda txn: txn.timeline(),
    "versions": lambda txn: txn.versions(),
    "time travel": lambda txn: txn.time_travel(),
    "past": lambda txn: txn.as_of(1),
    "verification": lambda txn: txn.verify(),
    "blame": lambda txn: txn.blame(),
}
"""What is about commits, and so has nothing of what is staged."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_staged_is_called_so(kind: str, tmp_path: Path) -> None:
    with KINDS[kind](tmp_path) as txn:
        before = {name: str(show(txn)) for name, show in SHOWN.items()}
        assert not any("staged" in text for text in before.values()), before
        txn.append({"id": [4]})
        txn.delete("id = 1")
        for name, show in SHOWN.items():
            forms = bundle.mimebundle(show(txn))
            for form in (bundle.TEXT, bundle.HTML):
                assert NAME in forms[form], (name, forms[form])
                assert not re.search(r"\bv[23]\b|\bversion [23]\b|1970", forms[form]), (name, forms[form])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_about_commits_has_none_that_is_staged(kind: str, tmp_path: Path) -> None:
    with KINDS[kind](tmp_path) as txn:
        before = {name: str(show(txn)) for name, show in COMMITTED.items() if name != "verification"}
        txn.append({"id": [4]})
        txn.delete("id = 1")
        for name, show in COMMITTED.items():
            text = str(show(txn))
            assert text == before.get(name, text)
            assert not re.search(r"\bv[23]\b|staged|1970", text), (name, text)
        with pytest.raises(VersionNotFound, match="version 2 of table .*orders is not committed"):
            txn.as_of(2)
        assert txn.detail()["lastModified"].year > 1970


def test_after_its_end_a_transaction_has_the_commit_in_its_history(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "orders", {"id": [1]})
    with table.transaction() as txn:
        txn.append({"id": [2]})
        txn.append({"id": [3]})
        assert len(txn.history()) == 1
    assert [entry.version for entry in txn.history()] == [1, 0] and txn.time_travel().frame.version == 1
