"""What people hand to the transaction and the log by mistake is refused by name, and nothing happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import DeltaError, IllegalStateError, InvalidArgument
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.hooks import FunctionHook

BAD = (3, None, "x", True, 1.5, [], [None], object(), -1, b"x", {}, {"a": 1}, float("nan"), AddFile, print)
Call = Callable[[DeltaLog, Any], object]
CALLS: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "for_table": (lambda log, x: DeltaLog.for_table(x), ("x",)),
    "snapshot_at": (lambda log, x: log.snapshot_at(x), ()),
    "snapshot_as_of": (lambda log, x: log.snapshot_as_of(x), ()),
    "read_commit": (lambda log, x: log.read_commit(x), ()),
    "history": (lambda log, x: log.history(x), (3, None)),
    "up_to": (lambda log, x: log.history().up_to(1, x), (3, None)),
    "checkpoint": (lambda log, x: log.checkpoint(x), (None,)),
    "with_new_transaction": (lambda log, x: log.with_new_transaction(x), (print, AddFile)),
    "start_transaction": (lambda log, x: log.start_transaction(snapshot=x), (None,)),
    "OptimisticTransaction": (lambda log, x: dn.OptimisticTransaction(x), ()),
    "filter_files": (lambda log, x: log.start_transaction().filter_files(x), ()),
    "filter_files, new": (lambda log, x: empty().start_transaction().filter_files(x), ("x",)),
    "filter_files_in_partitions_of": (
        lambda log, x: log.start_transaction().filter_files_in_partitions_of(x), ([], {})),
    "txn_version": (lambda log, x: log.start_transaction().txn_version(x), ("x",)),
    "update_metadata": (lambda log, x: log.start_transaction().update_metadata(x), ()),
    "update_metadata_for_new_table": (
        lambda log, x: empty().start_transaction().update_metadata_for_new_table(x), ()),
    "update_protocol": (lambda log, x: log.start_transaction().update_protocol(x), ()),
    "write_files": (lambda log, x: log.start_transaction().write_files(x), ([], {})),
    "write_files, size": (
        lambda log, x: log.start_transaction().write_files({"id": [1]}, target_file_size=x), (3, None)),
    "register_post_commit_hook": (
        lambda log, x: log.start_transaction().register_post_commit_hook(x), ()),
    "register_post_commit_hook, class": (
        lambda log, x: log.start_transaction().register_post_commit_hook(FunctionHook), BAD[:0]),
    "commit": (lambda log, x: log.start_transaction().commit(x), ([], {})),
    "commit, operation": (lambda log, x: log.start_transaction().commit([], x), ("x", None)),
    "commit_if_needed": (lambda log, x: log.start_transaction().commit_if_needed(x), ([], {})),
    "commit_large": (lambda log, x: log.start_transaction().commit_large(x), ([], {})),
    "commit_large, operation": (lambda log, x: log.start_transaction().commit_large([], x), ("x", None)),
    "commit_steps": (lambda log, x: log.start_transaction().commit_steps(x), ([], {})),
    "prepare": (lambda log, x: log.start_transaction().prepare(x), ([], {})),
    "set_active": (lambda log, x: dn.OptimisticTransaction.set_active(x), ()),
    "with_active": (lambda log, x: dn.OptimisticTransaction.with_active(x).__enter__(), ()),
}


def empty() -> DeltaLog:
    return DeltaLog.for_table(MemoryStore())


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_named(name: str) -> None:
    call, allowed = CALLS[name]
    log = TableBuilder(MemoryStore()).create("id long").commit(add("a")).commit(add("b")).log
    versions = log.update().version
    for bad in BAD:
        if any(bad is one or (type(bad) is type(one) and bad == one) for one in allowed):
            continue
        with pytest.raises(DeltaError) as why:
            call(log, bad)
        assert len(str(why.value)) > 20, (name, bad)
        assert dn.OptimisticTransaction.get_active() is None
    assert log.update().version == versions and log.store.list_names("") == []


def test_a_transaction_reads_a_version_of_its_own_table() -> None:
    one, other = (TableBuilder(MemoryStore()).create("id long").log for _ in range(2))
    with pytest.raises(InvalidArgument, match="snapshot is of the table at"):
        one.start_transaction(snapshot=other.snapshot)
    assert one.start_transaction(snapshot=one.snapshot_at(0)).read_version == 0


def test_a_hook_comes_before_the_commit() -> None:
    txn = TableBuilder(MemoryStore()).create("id long").log.start_transaction()
    txn.commit()
    with pytest.raises(IllegalStateError, match="has committed v1"):
        txn.register_post_commit_hook(FunctionHook("late", print))
