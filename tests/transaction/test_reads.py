"""What a transaction reads, and what it protects, where tables and conditions are out of the ordinary."""

from __future__ import annotations

import pytest

from deltanb.actions import AddFile, Metadata, Protocol
from deltanb.errors import ConcurrentAppendException
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.operations import Operation

PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"


def new_log() -> DeltaLog:
    return TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"]).log


def file(path: str) -> AddFile:
    return AddFile(path=path, partition_values={"part": "1"}, size=1, modification_time=1)


def test_a_scan_of_no_table_finds_nothing_and_is_remembered() -> None:
    txn = DeltaLog.for_table(MemoryStore()).start_transaction()
    assert list(txn.filter_files()) == list(txn.filter_files("part = 1")) == []
    metadata = new_log().snapshot.metadata
    assert txn.commit([metadata, file("a")]) == 0
    assert txn.committed is not None and not txn.committed.is_blind_append


def test_a_condition_without_columns_counts() -> None:
    log = new_log()
    nothing, everything = log.start_transaction(), log.start_transaction()
    nothing.filter_files("part = 1", "false")
    everything.filter_files("1 = 1")
    log.start_transaction().commit([file("rival")], "WRITE")
    assert nothing.commit([file("a")], "WRITE") == log.update().version
    with pytest.raises(ConcurrentAppendException):
        everything.commit([file("b")], "WRITE")


def test_dropping_a_feature_protects_the_winners_before_it() -> None:
    features = ("checkpointProtection", "deletionVectors")
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    log = builder.log
    builder.commit(Protocol(3, 7, reader_features=("deletionVectors",), writer_features=features))
    txn = log.start_transaction()
    protected_before = txn.read_version + 1
    metadata = txn.metadata.replace(configuration={PROTECTED_BEFORE: str(protected_before)})
    builder.commit(add("b", {"part": "1"}))
    builder.commit(add("c", {"part": "2"}))
    version = txn.commit([metadata, Protocol(1, 7, writer_features=features[:1])], Operation("DROP FEATURE"))
    assert version == protected_before + 2
    written = [a for a in log.read_commit(version) if isinstance(a, Metadata)]
    assert [m.configuration[PROTECTED_BEFORE] for m in written] == [str(version)]


def test_partitions_without_files_are_looked_up_too() -> None:
    """Whatever the versions before left behind: an empty answer is an answer, and is remembered."""
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    builder.commit(add("part=1/a", {"part": "1"})).commit(remove("part=1/a"), add("part=2/b", {"part": "2"}))
    for log in (builder.log, builder.commit(remove("part=2/b")).log):
        log.update()
        txn = log.start_transaction()
        new = AddFile("part=3/c", {"part": "3"}, 1, 1)
        assert list(txn.filter_files_in_partitions_of([new])) == []
        assert [scan.text for scan in txn.reads.scans] == ["part <=> '3'"]
